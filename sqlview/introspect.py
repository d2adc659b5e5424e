"""What is kept, as documented Arrow tables: SHOW ARRANGEMENTS, SHOW STREAMS, EXPLAIN, state,
metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from operators import budget, slabs
from operators.dataflow import Dataflow, Key
from operators.executor.placement import LEAST_WORK, SparkCosts
from operators.nodes.loop import LoopOperator
from planner import dataflow as ir
from planner import parse
from planner.bind import bind_query
from planner.calculus.expr import Expr
from planner.explain import (
    explain_dataflow,
    explain_logical,
    explain_migration,
    filter_text,
    predicate_text,
)
from planner.lower.indexes import Migration
from planner.names import short_name
from planner.rewrite.optimizer import optimize
from sqlview.catalog import Catalog, Stream, View
from sqlview.metrics import Metrics, StepMetrics, ViewMetrics

ARRANGEMENTS_SCHEMA = pa.schema(
    [
        pa.field(
            "relation", pa.string(), False
        ),  # table, view, or view/node for what is inside one
        pa.field("key", pa.string(), False),  # key columns, leading one first
        pa.field("rows", pa.int64(), False),  # entries, those of dead rows not yet merged away too
        pa.field("bytes", pa.int64(), False),  # of the index alone, not of the rows
        pa.field("readers", pa.list_(pa.string()), False),  # views; (table) for an enforced key
    ]
)


STATE_SCHEMA = pa.schema(
    [
        # table: a base table's rows; rows: stored rows, results of views among them; groups: of an
        # aggregate, with its sums; index; filter: a bit per row of a relation.
        pa.field("kind", pa.string(), False),
        pa.field("relation", pa.string(), False),  # as in ARRANGEMENTS_SCHEMA
        pa.field("detail", pa.string()),  # an index's key, a filter's predicate
        pa.field("rows", pa.int64(), False),  # live rows, or an index's entries
        pa.field("bytes", pa.int64(), False),
        pa.field("merging", pa.int64(), False),  # bytes of them that are a merge's second copy
        pa.field("readers", pa.list_(pa.string()), False),  # views; (table) for an enforced key
    ]
)


STREAMS_SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string(), False),
        pa.field("events", pa.int64(), False),  # that came since its creation
        pa.field("kept", pa.int64(), False),  # of those: always 0
        pa.field("readers", pa.list_(pa.string()), False),  # views
    ]
)


def streams(catalog: Catalog, schema: str) -> pa.Table:
    """One row per stream of a schema, see STREAMS_SCHEMA; in the order of creation."""
    rows = [
        {
            "stream": short_name(s.name),
            "events": s.events,
            "kept": 0,
            "readers": sorted(catalog.readers(s)),
        }
        for s in catalog.entries_in(schema)
        if isinstance(s, Stream)
    ]
    return pa.Table.from_pylist(rows, STREAMS_SCHEMA)


def relation_names(catalog: Catalog, dataflow: Dataflow) -> dict[ir.Node, str]:
    """A name for every stored node: that of the table or view, or `view/kind number`."""
    names: dict[ir.Node, str] = {t.node: t.name for t in catalog.tables()}
    names.update({v.root: v.name for v in catalog.views()})
    counts: dict[tuple[str, str], int] = {}
    readers = catalog.reader_names()
    for installed in dataflow.installed:
        node = installed.node
        if node in names or not isinstance(
            node, (ir.Store, ir.Reduce, ir.Recompute, ir.Variable, ir.Timeline)
        ):
            continue
        view = _named(installed.readers, readers)[0]
        kind = "groups" if ir.is_grouped(node) else "rows"
        kind = "recursion" if isinstance(node, (ir.Variable, ir.Timeline)) else kind
        number = counts[view, kind] = counts.get((view, kind), 0) + 1
        names[node] = f"{view}/{kind} {number}"
    return names


def key_text(spec: ir.Index) -> str:
    """The key of an index for people: column names, order, or the hash of the row; of a partial
    index also its filter."""
    fields = spec.relation.schema
    match spec:
        case ir.Arrangement():
            columns = ", ".join(fields[c].name for c in spec.columns) or "()"
            return columns + filter_text(spec)
        case ir.HashArrangement():
            return "hash(*)"
        case ir.OrderedArrangement():
            keys = [fields[k.column].name + (" DESC" if k.descending else "") for k in spec.order]
            order = "order by " + ", ".join(keys + [fields[c].name for c in spec.ties])
            partition = ", ".join(fields[c].name for c in spec.partition)
            return f"{partition}; {order}" if partition else order


@dataclass(frozen=True, slots=True)
class Piece:
    """A relation, an index or a filter as it was: `rows` that live, or an index's entries, `bytes`,
    and those of them that are a merge's second copy. `of`: an index, or a filter's predicate."""

    node: ir.Node
    owner: str
    rows: int
    bytes: int
    merging: int
    readers: frozenset[str]
    of: ir.Index | Expr | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept at a moment, and what steps have cost: all statistics are told from that, which
    stays as it is whatever happens then. `named`: stored nodes; `views` by their readers; `nodes`
    that run, with the seconds that each took, and its readers."""

    named: Mapping[ir.Node, str]
    views: Mapping[str, tuple[str, int, bool]]
    nodes: tuple[tuple[Key, float, frozenset[str]], ...]
    relations: tuple[Piece, ...]
    indexes: tuple[Piece, ...]
    filters: tuple[Piece, ...]
    steps: tuple[StepMetrics, ...]
    spare_bytes: int
    process_bytes: int
    index_builds: int
    spark: SparkCosts | None
    heavy_exchanges: int

    def readers(self, piece: Piece) -> list[str]:
        """The names of the views that read a piece, sorted."""
        return sorted(self.views[r][0] if r in self.views else r for r in piece.readers)


def kept(
    catalog: Catalog,
    dataflow: Dataflow,
    steps: tuple[StepMetrics, ...],
    spark: SparkCosts | None,
    heavy_exchanges: int,
) -> Kept:
    """What is kept now. Cost: a pass over the pieces."""
    nodes = tuple((n.key, n.seconds, frozenset(n.readers)) for n in dataflow.installed)
    readers = {key: by for key, _, by in nodes}
    relations, indexes, filters = list[Piece](), list[Piece](), list[Piece]()
    for key, relation in dataflow.relations():
        owner, node = key
        by = readers.get(key, frozenset())
        if isinstance(node, ir.Source):
            by = frozenset(catalog.readers(catalog.entry(node.relation)))
        relations.append(Piece(node, owner, relation.live_rows, relation.nbytes, 0, by))
    for i in dataflow.indexes:
        spine, used, by = i.state.spine, i.state.nbytes, frozenset(i.readers)
        merging = used - sum(b.nbytes for b in spine.batches)
        piece = Piece(i.spec.relation, i.owner, spine.entries, used, merging, by, i.spec)
        indexes.append(piece)
    for (owner, node), _, f in dataflow.filters_over():
        rows, by = f.state.relation.live_rows, frozenset(f.readers)
        filters.append(Piece(node, owner, rows, f.state.nbytes, 0, by, f.state.predicate))
    return Kept(
        named=relation_names(catalog, dataflow),
        views={v.reader: (v.name, v.changes, v.computed) for v in catalog.views()},
        nodes=nodes,
        relations=tuple(relations),
        indexes=tuple(indexes),
        filters=tuple(filters),
        steps=steps,
        spare_bytes=slabs.spare_bytes(),
        process_bytes=budget.anonymous_bytes(),
        index_builds=dataflow.index_builds,
        spark=spark,
        heavy_exchanges=heavy_exchanges,
    )


def arrangements(kept: Kept) -> pa.Table:
    """One row per live index, see ARRANGEMENTS_SCHEMA; sorted by relation and key."""
    rows = [
        {
            "relation": kept.named[i.node] + _suffix(i.owner),
            "key": _detail(i),
            "rows": i.rows,
            "bytes": i.bytes,
            "readers": kept.readers(i),
        }
        for i in kept.indexes
    ]
    rows.sort(key=lambda row: (str(row["relation"]), str(row["key"])))
    return pa.Table.from_pylist(rows, ARRANGEMENTS_SCHEMA)


def state(kept: Kept) -> pa.Table:
    """All that is kept in memory, piece by piece, the largest first: see STATE_SCHEMA. The bytes of
    all but tables add up to Metrics.state_bytes."""
    rows: list[dict[str, object]] = []

    def add(kind: str, piece: Piece) -> None:
        relation = kept.named[piece.node] + _suffix(piece.owner)
        sizes = (piece.rows, piece.bytes, piece.merging)
        values = (kind, relation, _detail(piece), *sizes, kept.readers(piece))
        rows.append(dict(zip(STATE_SCHEMA.names, values, strict=True)))

    for relation in kept.relations:
        kind = "groups" if ir.is_grouped(relation.node) else "rows"
        add("table" if isinstance(relation.node, ir.Source) else kind, relation)
    for index in kept.indexes:
        add("index", index)
    for piece in kept.filters:
        add("filter", piece)
    rows.sort(key=lambda r: (-int(str(r["bytes"])), *(str(r[c]) for c in STATE_SCHEMA.names[:3])))
    return pa.Table.from_pylist(rows, STATE_SCHEMA)


def _detail(piece: Piece) -> str | None:
    match piece.of:
        case None:
            return None
        case ir.Arrangement() | ir.HashArrangement() | ir.OrderedArrangement():
            return key_text(piece.of)
        case predicate:
            return predicate_text(predicate, piece.node.schema)


def _suffix(owner: str) -> str:
    return f" ({owner})" if owner else ""


def _named(readers: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """The names of the views that go by `readers` in the dataflow, sorted."""
    return sorted(names.get(r, r) for r in readers)


@dataclass(slots=True)
class _Sums:
    """What a view reads, so far."""

    bytes: int = 0
    indexes: int = 0
    shared: int = 0
    seconds: float = 0.0


def _view_metrics(kept: Kept) -> dict[str, ViewMetrics]:
    """The metrics of each view, by name."""
    sums = {reader: _Sums() for reader in kept.views}
    stored = {(r.owner, r.node): r.bytes for r in kept.relations}
    for key, seconds, readers in kept.nodes:
        for view in readers & sums.keys():
            sums[view].seconds += seconds
            sums[view].bytes += stored.get(key, 0)
    for index in kept.indexes:
        views = sum(not reader.startswith("(") for reader in index.readers)
        for view in index.readers & sums.keys():
            sums[view].bytes += index.bytes
            sums[view].indexes += 1
            sums[view].shared += views > 1
    for each in kept.filters:
        for view in each.readers & sums.keys():
            sums[view].bytes += each.bytes
    return {
        name: ViewMetrics(changes, s.bytes, s.indexes, s.shared, s.seconds, computed)
        for reader, (name, changes, computed) in kept.views.items()
        for s in (sums[reader],)
    }


def metrics(kept: Kept) -> Metrics:
    """What steps and views have cost."""
    pieces = (*kept.relations, *kept.indexes, *kept.filters)
    tables = sum(p.bytes for p in kept.relations if isinstance(p.node, ir.Source))
    return Metrics(
        steps=kept.steps,
        views=_view_metrics(kept),
        state_bytes=sum(p.bytes for p in pieces) - tables,
        table_bytes=tables,
        spare_bytes=kept.spare_bytes,
        process_bytes=kept.process_bytes,
        index_builds=kept.index_builds,
        operators=len(kept.nodes),
        spark=kept.spark,
        heavy_exchanges=kept.heavy_exchanges,
    )


_UNITS = "units of work (changed rows, each times the operators that read it)"
_IS_COMPUTED = {True: "computed since it was first read", False: "computed when it is first read"}


def placed_by_work(costs: SparkCosts | None) -> str:
    """Where "auto" places steps, by what jobs cost, if that is known yet."""
    if costs is None:
        return (
            f"auto: steps of at most {LEAST_WORK:,} {_UNITS} run in the driver, "
            "others where they take less time: the first of them measures what a job takes"
        )
    if math.isinf(costs.break_even):
        return f"auto: all steps run in the driver: no step takes less time on {costs.cores} cores"
    least = max(int(costs.break_even), LEAST_WORK)
    return (
        f"auto: steps of more than {least:,} {_UNITS} run on Spark, "
        f"where a job takes {costs.job_seconds:.3g} s, on {costs.cores} cores"
    )


def explanation(
    catalog: Catalog,
    dataflow: Dataflow,
    view: View,
    query: parse.Query,
    migration: Migration | None = None,
    placed: str | None = None,
) -> pa.Table:
    """EXPLAIN: the plan of a view with this query, a line of text a row. `migration`: what it does
    to the indexes, if it is not there yet. `placed`: where steps run, see placed_by_work."""
    logical = optimize(bind_query(query, catalog, view.zone).plan)
    chosen = dataflow.planned if migration is None else migration.after

    def instead(index: ir.Index) -> ir.Index | None:
        return chosen.instead(view.owner, index)

    def readers(index: ir.Index) -> int:
        live = dataflow.live_index(instead(index) or index, view.owner)
        return 0 if live is None else len(live.readers)

    running = {i.key: i.operator for i in dataflow.installed}

    def not_fused(loop: ir.Loop) -> str | None:
        operator = running.get((view.owner, loop))
        return operator.not_fused or "" if isinstance(operator, LoopOperator) else None

    names = relation_names(catalog, dataflow)
    changes = () if migration is None else explain_migration(migration, names.__getitem__)
    lines = [
        *([f"== Lazy: {_IS_COMPUTED[view.computed]} =="] if view.lazy else []),
        *([f"== Time zone {view.zone.id} =="] if view.zoned else []),
        "== Logical plan ==",
        explain_logical(logical),
        "== Dataflow ==",
        explain_dataflow(view.root, readers, instead, catalog.called, not_fused),
        *(["== Changes of indexes ==", *changes] if changes else []),
        *(["== Placement ==", placed] if placed is not None else []),
    ]
    return pa.table({"plan": "\n".join(lines).splitlines()})
