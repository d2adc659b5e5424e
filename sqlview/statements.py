"""INSERT, UPDATE, DELETE, MERGE: each reads the current epoch, and is one transaction.

The queries that a statement is made of (planner.bind.changes) are answered by the dataflow, as if
they were views that go at once: what is live is read, rows are found by the indexes that there are,
and no Spark is started. What cannot be computed, as a division by zero, fails the statement.

Invariant: whoever calls holds the session from the first read to the commit, so nothing comes
between; a statement that raises has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators import scalar
from operators.dataflow import Dataflow, Only
from operators.flight import arrow
from operators.flight.column import Column, Ints
from operators.flight.misfits import null_misfit
from operators.state.arrangement import ArrangementState
from operators.state.changes import DELETE, INSERT
from planner import bind, parse
from planner import dataflow as ir
from planner.calculus import algebra
from planner.calculus.algebra import Plan
from planner.calculus.expr import Call, Expr, Literal, conjuncts
from planner.calculus.expr import Column as ColumnRef
from planner.calculus.types import Field
from planner.calculus.visit import walk
from planner.calculus.zones import Zone
from planner.errors import CatalogError, DataError
from planner.names import folded, quoted
from planner.room import with_room
from sqlview.catalog import Catalog, Stream, Table, View
from sqlview.definitions import lowered
from sqlview.transaction import Statement
from sqlview.transaction import about as refused

#: The statements of this module.
Changing: TypeAlias = "parse.Insert | parse.Update | parse.Delete | parse.Merge"

#: Keys that are looked up one by one; a statement that names more reads the table.
_MOST_KEYS = 1024


_DONE = {"update": "updated", "delete": "deleted", "insert": "inserted"}


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A plan as it runs under a reader, and the rows of a table that it can be limited to."""

    reader: str
    root: ir.Store
    only: Only | None


@dataclass(slots=True)
class Changed:
    """What a statement does: the `changes` of a transaction, and how many rows each action has."""

    changes: list[Statement]
    rows: dict[str, int]

    def result(self) -> pa.Table:
        """The numbers of rows, as Spark's tables give them."""
        numbers = {"num_affected_rows": sum(self.rows.values())}
        if len(self.rows) > 1:
            numbers |= {f"num_{action}_rows": n for action, n in self.rows.items()}
        return pa.table({name: pa.array([n], pa.int64()) for name, n in numbers.items()})


class Statements:
    """Plans and answers the statements of a session. `share`: whether what views keep is read;
    `ready`: told of each view that is read, before."""

    def __init__(
        self, catalog: Catalog, dataflow: Dataflow, share: bool, ready: Callable[[View], None]
    ) -> None:
        self._catalog = catalog
        self._dataflow = dataflow
        self._share = share
        self._ready = ready

    def changed(self, statement: Changing, epoch: int, zone: Zone) -> Changed:
        """What a statement changes as of `epoch`, the latest one.

        Raises: CatalogError, BindError, UnsupportedError; DataError for rows that cannot be
        computed, for NULL where it must not be, and for a row that several of a MERGE match.
        """
        if isinstance(statement, parse.Insert):
            return self._inserted(statement, epoch, zone)
        table = self._catalog.table(statement.target.name)
        info = self._catalog.relation(table.name)
        assert info is not None, "the table is there"
        edits: Sequence[bind.Edit]
        match statement:
            case parse.Update():
                about = f'update "{table.name}"'
                edits = (bind.bind_update(statement, info, self._catalog, zone),)
            case parse.Delete():
                about = f'delete from "{table.name}"'
                edits = (bind.bind_delete(statement, info, self._catalog, zone),)
            case _:
                about = f'merge into "{table.name}"'
                edits = bind.bind_merge(statement, info, self._catalog, zone)
        plans = [e.plan for e in edits] + [e.copies for e in edits if e.copies is not None]
        answers = self._answers(plans, epoch, about)
        copies = None if len(plans) == len(edits) else len(answers.pop()[0])
        changed = _edited(table, list(zip(edits, answers, strict=True)), copies, about)
        if isinstance(statement, parse.Merge):
            changed.rows = {done: changed.rows.get(done, 0) for done in _DONE.values()}
        return changed

    def _inserted(self, statement: parse.Insert, epoch: int, zone: Zone) -> Changed:
        table = self._catalog.changeable(statement.name)
        info = self._catalog.relation(table.name)
        assert info is not None, "the table is there"
        plan = bind.bind_insert(statement, info, self._catalog, zone)
        about = f'insert into "{table.name}"'
        (columns,) = self._answers([plan], epoch, about)
        return Changed(_written(table, [columns], about), {"inserted": len(columns[0])})

    def _answers(self, plans: Sequence[Plan], epoch: int, about: str) -> list[list[Column]]:
        """The rows of bound plans. Raises: as `changed`."""
        for plan in plans:
            self._refuse_streams(plan, about)
        for view in self._read_by(plans):
            self._ready(view)
        prepared = [self._prepared(plan, epoch, f"{about} ({i})") for i, plan in enumerate(plans)]
        return self._dataflow.answering(lambda: [self._answer(p, epoch, about) for p in prepared])

    def _prepared(self, plan: Plan, epoch: int, name: str) -> _Prepared:
        reader = self._catalog.free_reader(name)
        optimized, root = with_room(lambda: lowered(plan, self._catalog, reader))
        return _Prepared(reader, root, self._only(optimized, epoch))

    def _answer(self, prepared: _Prepared, epoch: int, about: str) -> list[Column]:
        reader = prepared.reader
        owner = "" if self._share else reader
        columns = self._dataflow.answer(reader, prepared.root, epoch, owner, prepared.only)
        messages = self._dataflow.errors_of(reader)
        if messages:
            raise DataError(
                f"cannot {about}: {messages[0]}",
                detail="A row of it, or of what it reads, cannot be computed; nothing has changed.",
                hint="Leave such rows out by a condition, or use try_divide and try_cast.",
            )
        return columns

    def _read_by(self, plans: Sequence[Plan]) -> list[View]:
        scans = (p for plan in plans for p in walk(plan) if isinstance(p, algebra.Scan))
        entries = (self._catalog.any(scan.relation) for scan in scans)
        return [entry for entry in entries if isinstance(entry, View)]

    def _refuse_streams(self, plan: Plan, about: str) -> None:
        for part in walk(plan):
            if not isinstance(part, algebra.Scan):
                continue
            entry = self._catalog.any(part.relation)
            gone = part.stream
            if isinstance(entry, View) and not self._share:  # what it has made of them is its own
                gone = bool(self._catalog.streams_under(entry))
            if gone:
                raise CatalogError(
                    f'cannot {about}: the events under "{entry.name}" are gone',
                    detail="A stream keeps none of its events.",
                    hint="Create a materialized view over the stream, in a session that shares "
                    "state, and read that.",
                )

    def _only(self, plan: Plan, epoch: int) -> Only | None:
        """Of a plan that filters a table by values of the columns of an index, the rows that have
        them, found by that index."""
        conditions: list[Expr] = []
        while isinstance(plan, (algebra.Project, algebra.Filter)):
            if isinstance(plan, algebra.Project):
                conditions = []  # those above are over other columns
            else:
                conditions += conjuncts(plan.predicate)
            plan = plan.input
        if not isinstance(plan, algebra.Scan):
            return None
        table = self._catalog.any(plan.relation)
        if not isinstance(table, Table):
            return None
        known = dict(found for c in conditions if (found := _values_of(c)) is not None)
        index = self._index_on(table.state.source, known)
        if index is None:
            return None
        state, columns = index
        keys = list(product(*(known[c] for c in columns)))
        if not 0 < len(keys) <= _MOST_KEYS:
            return None
        given = [scalar.literals([key[i] for key in keys]) for i in range(len(columns))]
        self._dataflow.undo.all_or_nothing(state.absorb)
        probe = state.probe_words(given, len(keys))
        matches = state.lookup(probe, np.full(len(keys), epoch), as_of=True)
        return Only(table.state.source, np.unique(matches.row))

    def _index_on(
        self, source: ir.Source, known: Mapping[int, object]
    ) -> tuple[ArrangementState, tuple[int, ...]] | None:
        """The index of most columns, all of which are known; and these."""
        best: tuple[ArrangementState, tuple[int, ...]] | None = None
        for live in self._dataflow.indexes:
            spec = live.spec
            if not isinstance(spec, ir.Arrangement) or spec.relation != source:
                continue
            if live.owner or spec.filter is not None or not known.keys() >= set(spec.columns):
                continue
            if best is None or len(spec.columns) > len(best[1]):
                best = live.state, spec.columns
        return best


def fills_in(catalog: Catalog, statement: parse.Insert) -> bool:
    """Whether an INSERT may leave the value of a column to its default."""
    table = catalog.changeable(statement.name)
    if statement.columns is None and not statement.by_name:
        return False
    named = set(map(folded, statement.columns or ()))
    said = zip(table.schema, table.traits, strict=True)
    return any(t.default is not None and folded(f.name) not in named for f, t in said)


def as_inserted(catalog: Catalog, statement: parse.Insert, rows: pa.Table) -> pa.Table:
    """The rows of an INSERT's query with the names of the columns that they are for; those that the
    query does not give are NULL. Raises: CatalogError; DataError for too few or too many columns.
    """
    fields = catalog.changeable(statement.name).schema
    names = list(statement.columns or (f.name for f in fields))
    if statement.by_name:
        names = rows.column_names
    if len(names) != rows.num_columns:
        raise DataError(
            f'"{statement.name}" takes {len(names)} columns here, and the query has '
            f"{rows.num_columns}"
        )
    given = rows.rename_columns(names)
    known = [folded(n) for n in names]
    for f in fields:
        if folded(f.name) not in known:
            given = given.append_column(f.name, pa.nulls(len(rows), arrow.arrow_type(f.type)))
    return given


def _edited(
    table: Table,
    edits: Sequence[tuple[bind.Edit, list[Column]]],
    copies: int | None,
    about: str,
) -> Changed:
    """What is done by edits, each with the rows of its plan. `copies`: how many rows there are that
    may be there once only, where they have no key."""
    gone: list[list[Column]] = []
    come: list[list[Column]] = []
    rows: dict[str, int] = {}
    for edit, columns in edits:
        action: Ints = columns[0].values
        at = 1 + len(edit.identity)
        named = columns[1:at]
        if edit.once:
            _refuse_several(table, edit, named, copies, about)
        for number, kind in enumerate(edit.actions, 1):
            here = np.flatnonzero(action == number)
            rows[_DONE[kind]] = rows.get(_DONE[kind], 0) + len(here)
            if kind in bind.INSERTED:
                width = len(table.schema)
                come.append([c.take(here) for c in columns[at : at + width]])
                at += width
            if kind != "insert":
                gone.append([c.take(here) for c in named])
    deleted = [Statement(table, DELETE, some) for some in gone if len(some[0])]
    return Changed([*deleted, *_written(table, come, about)], rows)


def _written(table: Table | Stream, parts: Sequence[list[Column]], about: str) -> list[Statement]:
    """Raises: DataError for NULL where it must not be."""
    try:
        return [
            Statement(table, INSERT, [_fitting(*of) for of in zip(some, table.schema, strict=True)])
            for some in parts
            if len(some[0])
        ]
    except DataError as error:
        raise refused(about, error) from None


def _fitting(column: Column, field: Field) -> Column:
    if field.limit is not None:
        return arrow.to_column(arrow.from_column(column, field.type), field)
    if column.valid is None or field.nullable:
        return column
    nulls = np.flatnonzero(~column.valid)
    if len(nulls):
        raise null_misfit(field, int(nulls[0]))
    return replace(column, valid=None)


def _refuse_several(
    table: Table, edit: bind.Edit, named: list[Column], copies: int | None, about: str
) -> None:
    """Spark's rule: no row of the table is matched by several of the source, since it would not be
    said which of them counts. `copies`: how many rows are matched at all, if rows have no key."""
    schema = tuple(table.schema[c] for c in edit.identity)
    found = arrow.from_columns(named, schema)
    counted = found.group_by(found.column_names).aggregate([([], "count_all")])
    several = counted.filter(pc.greater(counted.column("count_all"), 1)).drop_columns("count_all")
    if copies == found.num_rows or not several.num_rows:
        return
    row = ", ".join(
        f"{quoted(f.name)} = {value!r}"
        for f, value in zip(schema, several.to_pylist()[0].values(), strict=True)
    )
    raise DataError(
        f"cannot {about}: a row is matched by more than one row of the source",
        detail=f"It is the row with {row}. Nothing has changed.",
        hint="Let the source have one row for each: aggregate it, or add to the condition of ON.",
    )


def _values_of(condition: Expr) -> tuple[int, list[Literal]] | None:
    """The column that a condition names the values of, and these."""
    match condition:
        case (
            Call(function="eq", args=(ColumnRef() as column, Literal() as value))
            | Call(function="eq", args=(Literal() as value, ColumnRef() as column))
        ):
            values = [value]
        case Call(function="in", args=(ColumnRef() as column, *options)):
            values = [o for o in options if isinstance(o, Literal)]
            if len(values) < len(options):
                return None
        case _:
            return None
    return column.index, [v for v in values if v.value is not None]
