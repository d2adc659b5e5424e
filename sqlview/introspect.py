"""What is kept, as documented Arrow tables: SHOW ARRANGEMENTS, SHOW STREAMS, EXPLAIN, state,
metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from operators import budget, slabs
from operators.dataflow import Dataflow
from operators.executor.placement import SparkCosts
from operators.nodes.loop import LoopOperator
from planner import dataflow as ir
from planner import parse
from planner.bind import bind_query
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


def arrangements(catalog: Catalog, dataflow: Dataflow) -> pa.Table:
    """One row per live index, see ARRANGEMENTS_SCHEMA; sorted by relation and key."""
    names, readers = relation_names(catalog, dataflow), catalog.reader_names()
    rows = [
        {
            "relation": names[i.spec.relation] + _suffix(i.owner),
            "key": key_text(i.spec),
            "rows": i.state.spine.entries,
            "bytes": i.state.nbytes,
            "readers": _named(i.readers, readers),
        }
        for i in dataflow.indexes
    ]
    rows.sort(key=lambda row: (str(row["relation"]), str(row["key"])))
    return pa.Table.from_pylist(rows, ARRANGEMENTS_SCHEMA)


def state(catalog: Catalog, dataflow: Dataflow) -> pa.Table:
    """All that is kept in memory, piece by piece, the largest first: see STATE_SCHEMA. The bytes of
    all but tables add up to Metrics.state_bytes. Cost: a pass over the pieces."""
    names, named = relation_names(catalog, dataflow), catalog.reader_names()
    installed = {(n.owner, n.node): n.readers for n in dataflow.installed}
    rows: list[dict[str, object]] = []

    def add(
        kind: str, relation: str, detail: str | None, sizes: tuple[int, int, int],
        readers: Iterable[str],
    ) -> None:  # fmt: skip
        values = (kind, relation, detail, *sizes, _named(readers, named))
        rows.append(dict(zip(STATE_SCHEMA.names, values, strict=True)))

    for (owner, node), relation in dataflow.relations():
        readers = installed.get((owner, node), set())
        kind = "groups" if ir.is_grouped(node) else "rows"
        if isinstance(node, ir.Source):
            kind, readers = "table", set(catalog.readers(catalog.entry(node.relation)))
        sizes = (relation.live_rows, relation.nbytes, 0)
        add(kind, names[node] + _suffix(owner), None, sizes, readers)
    for i in dataflow.indexes:
        spine = i.state.spine
        used = sum(b.nbytes for b in spine.batches)
        sizes = (spine.entries, i.state.nbytes, i.state.nbytes - used)
        add("index", names[i.spec.relation] + _suffix(i.owner), key_text(i.spec), sizes, i.readers)
    for (owner, node), _, f in dataflow.filters_over():
        sizes = (f.state.relation.live_rows, f.state.nbytes, 0)
        detail = predicate_text(f.state.predicate, node.schema)
        add("filter", names[node] + _suffix(owner), detail, sizes, f.readers)
    rows.sort(key=lambda r: (-int(str(r["bytes"])), *(str(r[c]) for c in STATE_SCHEMA.names[:3])))
    return pa.Table.from_pylist(rows, STATE_SCHEMA)


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


def view_metrics(catalog: Catalog, dataflow: Dataflow) -> dict[str, ViewMetrics]:
    """The metrics of each view, by name. Cost: a pass over installed nodes, indexes and filters,
    and the views that read each."""
    sums = {v.reader: _Sums() for v in catalog.views()}
    relations = dict(dataflow.relations())
    for installed in dataflow.installed:
        relation = relations.get(installed.key)
        for view in installed.readers & sums.keys():
            sums[view].seconds += installed.seconds
            sums[view].bytes += 0 if relation is None else relation.nbytes
    for index in dataflow.indexes:
        nbytes, readers = index.state.nbytes, index.readers
        views = sum(not reader.startswith("(") for reader in readers)
        for view in readers & sums.keys():
            sums[view].bytes += nbytes
            sums[view].indexes += 1
            sums[view].shared += views > 1
    for live in dataflow.filters:
        for view in live.readers & sums.keys():
            sums[view].bytes += live.state.nbytes
    return {
        v.name: ViewMetrics(v.changes, s.bytes, s.indexes, s.shared, s.seconds, v.computed)
        for v in catalog.views()
        for s in (sums[v.reader],)
    }


def state_bytes(dataflow: Dataflow) -> tuple[int, int]:
    """Bytes of derived relations, indexes and filters, and bytes of base tables' rows."""
    tables = derived = 0
    for (_, node), relation in dataflow.relations():
        if isinstance(node, ir.Source):
            tables += relation.nbytes
        else:
            derived += relation.nbytes
    derived += sum(i.state.nbytes for i in dataflow.indexes)
    derived += sum(f.state.nbytes for f in dataflow.filters)
    return derived, tables


def metrics(
    catalog: Catalog,
    dataflow: Dataflow,
    steps: tuple[StepMetrics, ...],
    spark: SparkCosts | None,
) -> Metrics:
    """Cost: a pass over all that is kept for each view."""
    derived, tables = state_bytes(dataflow)
    return Metrics(
        steps=steps,
        views=view_metrics(catalog, dataflow),
        state_bytes=derived,
        table_bytes=tables,
        spare_bytes=slabs.spare_bytes(),
        process_bytes=budget.anonymous_bytes(),
        index_builds=dataflow.index_builds,
        operators=len(dataflow.installed),
        spark=spark,
    )


_IS_COMPUTED = {True: "computed since it was first read", False: "computed when it is first read"}


def explanation(
    catalog: Catalog,
    dataflow: Dataflow,
    view: View,
    query: parse.Query,
    migration: Migration | None = None,
) -> pa.Table:
    """EXPLAIN: the plan of a view with this query, a line of text a row. `migration`: what it does
    to the indexes, if it is not there yet."""
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
    ]
    return pa.table({"plan": "\n".join(lines).splitlines()})
