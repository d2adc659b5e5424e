"""A running dataflow without SQL and session: tables, hand-built views, steps of several times.

Beside it runs the model: tables as Python collections (tests.reference.tables), and the dataflow as
a function of them (tests.reference.dataflow), so that every epoch of every view can be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from operators.dataflow import Dataflow
from operators.executor.inline import InlineExecutor
from operators.flight.delta import Delta
from operators.state.changes import DELETE, INSERT, UPSERT
from operators.step import step
from operators.table import Change as Statement
from operators.table import TableState
from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.algebra import identity
from planner.calculus.expr import Column, Expr
from tests.operators.columns import Row, to_columns, to_rows
from tests.reference import dataflow as naive
from tests.reference.bag import accumulate
from tests.reference.tables import Change, Table

Updates = Counter[tuple[Row, int]]
_ACTIONS = {"insert": INSERT, "delete": DELETE, "upsert": UPSERT}


@dataclass(slots=True)
class Running:
    """`hold`: how many epochs the past is kept readable beyond what the writer needs."""

    hold: int = 0
    dataflow: Dataflow = field(default_factory=Dataflow)
    tables: dict[str, Table] = field(default_factory=dict)
    sources: dict[str, ir.Source] = field(default_factory=dict)
    views: dict[str, tuple[str, ir.Store]] = field(default_factory=dict)
    updates: dict[str, Updates] = field(default_factory=dict)
    enforced: set[str] = field(default_factory=set)
    epoch: int = 0

    def add_table(
        self, name: str, schema: t.Schema, key: tuple[int, ...] | None = None, enforced: bool = True
    ) -> ir.Source:
        source = self.sources[name] = ir.Source(name, schema)
        if enforced and key is not None:
            self.enforced.add(name)
        self.dataflow.add_table(TableState(source, key), name in self.enforced)
        self.tables[name] = Table(name, schema, key or ())
        return source

    def install(self, name: str, node: ir.Node, owner: str = "") -> ir.Store:
        """Install a view now and compare its first rows with the model's."""
        root = node if isinstance(node, ir.Store) else ir.Store(node)
        births = installed(self.dataflow, name, root, self.epoch, owner)
        self.views[name] = (owner, root)
        self.updates[name] = signed(births)
        assert set(births.time.tolist()) <= {self.epoch}
        assert accumulate(self.updates[name], self.epoch) == self.expected(name)
        return root

    def retire(self, name: str) -> None:
        now = self.dataflow.planned
        self.dataflow.retire(name, now.to(now.without(name)))
        del self.views[name], self.updates[name]

    def apply(self, transactions: Sequence[Sequence[Change]]) -> dict[str, Updates]:
        """One physical step; each transaction is an epoch. Returns the views' deltas.

        Raises: Refused, with nothing applied.
        """
        per_table: dict[str, list[Statement]] = {}
        for i, transaction in enumerate(transactions, start=1):
            for change in transaction:
                per_table.setdefault(change.table, []).append(
                    self._statement(change, self.epoch + i)
                )
        changes = step(
            self.dataflow,
            InlineExecutor(),
            {self.sources[name]: batch for name, batch in per_table.items()},
        )
        for transaction in transactions:
            for change in transaction:
                self.tables[change.table].apply(change)
        self.epoch += len(transactions)
        found: dict[str, Updates] = {}
        for name, key in self.views.items():
            found[name] = signed(changes[key]) if key in changes else Counter()
            for update, diff in found[name].items():
                self.updates[name][update] += diff
        self.dataflow.commit(max(0, self.epoch - self.hold), changes)
        return found

    def check(self) -> None:
        """Every view's rows, and the sum of its deltas, are what a recompute gives."""
        for name, (owner, root) in self.views.items():
            expected = self.expected(name)
            assert accumulate(self.updates[name], self.epoch) == expected, name
            assert accumulate(
                signed(self.dataflow.snapshot(root, self.epoch, owner)), self.epoch
            ) == (expected)

    def expected(self, name: str) -> Counter[Row]:
        _, root = self.views[name]
        rows = {n: list(table.rows.elements()) for n, table in self.tables.items()}
        return Counter(naive.rows(root, rows, path=self.epoch))

    def _statement(self, change: Change, time: int) -> Statement:
        table = self.tables[change.table]
        fields, rows = table.schema, list(change.rows)
        if change.op == "delete" and table.key:
            fields = tuple(fields[k] for k in table.key)
            rows = [tuple(r[k] for k in table.key) for r in rows]
        return Statement(_ACTIONS[change.op], to_columns(rows, fields), time)


def installed(
    dataflow: Dataflow, view: str, root: ir.Store, epoch: int = 0, owner: str = ""
) -> Delta:
    """A view with the indexes that are planned for it; its first rows."""
    migration = dataflow.planned.to(dataflow.planned.with_view(view, root, owner))
    births = dataflow.install(view, root, epoch, migration, owner)
    dataflow.migrate(migration)
    return births


def signed(delta: Delta) -> Updates:
    """A delta's diffs per (row, time), without those that are zero."""
    updates: Updates = Counter()
    rows = to_rows(delta.columns(), delta.schema)
    for row, time, diff in zip(rows, delta.time.tolist(), delta.diff.tolist(), strict=True):
        updates[row, time] += diff
    return Counter({key: diff for key, diff in updates.items() if diff})


# -- nodes by hand ---------------------------------------------------------------------------------


def columns(node: ir.Node, *positions: int) -> tuple[Column, ...]:
    every = identity(node.schema)
    return tuple(every[p] for p in positions)


def map_(node: ir.Node, predicates: Sequence[Expr], outputs: Sequence[Expr]) -> ir.Map:
    fields = tuple(t.Field(f"m{i}", e.type, e.nullable) for i, e in enumerate(outputs))
    return ir.Map(node, tuple(predicates), tuple(outputs), fields)


def reduce_(node: ir.Node, keys: Sequence[int], *accumulators: tuple[str, int]) -> ir.Reduce:
    """count_rows and `accumulators` (kind, column) by the columns `keys`."""
    every = identity(node.schema)
    made = [ir.Accumulator("count_rows", None)]
    fields = [node.schema[k] for k in keys] + [t.Field("rows", t.BIGINT, False)]
    for kind, column in accumulators:
        made.append(ir.Accumulator(kind, every[column]))
        fields.append(t.Field(f"{kind}{column}", _accumulated(kind, every[column].type), False))
    return ir.Reduce(node, tuple(every[k] for k in keys), tuple(made), tuple(fields))


def _accumulated(kind: str, of: t.SqlType) -> t.SqlType:
    match kind:
        case "count":
            return t.BIGINT
        case "sum_double":
            return t.BINARY
        case _:
            return t.DecimalType(38, of.scale if isinstance(of, t.DecimalType) else 0)


def join(
    inputs: Sequence[ir.JoinInput],
    equalities: Sequence[tuple[tuple[int, int], tuple[int, int]]],
    residual: Sequence[Expr] = (),
    null_safe: bool = False,
    partial: bool = False,
) -> ir.DeltaJoin:
    """A delta join on equalities ((input, column), (input, column)), in the order of the inputs.

    `residual`: predicates over all columns, tested at the end of every path. `partial`: whether
    the indexes are those of the rows that pass their input's filter.
    """
    firsts = ir.offsets(tuple(i.schema for i in inputs))
    paths = []
    for source in range(len(inputs)):
        bound, steps = {source}, []
        while len(bound) < len(inputs):
            chosen, pairs = next(
                (i, pairs)
                for i in range(len(inputs))
                if i not in bound and (pairs := _meeting(equalities, i, bound))
            )
            index = ir.Arrangement(
                inputs[chosen].relation,
                tuple(own for own, _, _ in pairs),
                null_safe,
                inputs[chosen].filter if partial else None,
            )
            bound.add(chosen)
            steps.append(
                ir.HalfJoin(
                    chosen,
                    index,
                    tuple(firsts[other] + column for _, other, column in pairs),
                    as_of=chosen < source,
                    residual=tuple(residual) if len(bound) == len(inputs) else (),
                    null_safe=(True,) * len(pairs) if null_safe else (),
                )
            )
        paths.append(ir.DeltaPath(source, tuple(steps)))
    return ir.DeltaJoin(tuple(inputs), tuple(paths))


def _meeting(
    equalities: Sequence[tuple[tuple[int, int], tuple[int, int]]], chosen: int, bound: set[int]
) -> list[tuple[int, int, int]]:
    """(own column, other input, its column) of equalities with bound inputs, own columns once."""
    found: dict[int, tuple[int, int, int]] = {}
    for left, right in equalities:
        for (i, own), (other, column) in ((left, right), (right, left)):
            if i == chosen and other in bound:
                found.setdefault(own, (own, other, column))
    return list(found.values())


def top_k(node: ir.Stored, order: Sequence[ir.SortKey], limit: int, offset: int = 0) -> ir.TopK:
    """Ties by all other columns."""
    sorted_by = {k.column for k in order}
    ties = tuple(i for i in range(len(node.schema)) if i not in sorted_by)
    return ir.TopK(ir.OrderedArrangement(node, tuple(order), ties), limit, offset)
