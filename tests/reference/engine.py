"""A view engine with nothing incremental in it: the public API over Python multisets.

Every epoch recomputes every view; its deltas are the difference to the epoch before. It stands in
for the real engine when the tests themselves are tested: `BUGS` plants one mistake of the kind
that real systems make, and the suite must then fail.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from planner import errors
from planner.calculus import types as t
from sqlview.oracle import DuckDBOracle, RowError, canonical_rows, compare, named_type
from tests.reference.tables import Change, Rejected, Row, Table, arrow_table, arrow_type, net

#: name -> the mistake it plants.
BUGS: dict[str, str] = {
    "drops_nulls": "rows with a NULL are missing from views",
    "null_as_zero": "a NULL number in a view is 0",
    "loses_copies": "a view keeps one copy of equal rows",
    "ignores_deletes": "views do not see a transaction that only deletes",
    "ignores_updates": "a row deleted and inserted again in one transaction is left as it was",
    "never_empties": "a view that becomes empty keeps its last rows",
    "wrong_order": "an ordered view is read backwards",
    "repeats_deltas": "subscribers get every delta twice",
    "drops_retractions": "subscribers get no retractions",
    "last_time": "all deltas of a step carry its last time",
    "last_version": "inside a step, all tables but the one first changed are at their last version",
    "partial_apply": "what came before an error in a transaction stays applied",
    "frozen": "views keep their first result",
    "swallows_errors": "a row that cannot be computed is missing, and the view is not in error",
    "stays_in_error": "a view that was in error once remains so",
    "wide_sum": "a view has BIGINT columns where it should have INT",
}


@dataclass(slots=True)
class View:
    name: str
    text: str
    schema: t.Schema
    table: pa.Table
    changes: int = 0
    failure: str | None = None

    def to_arrow(self) -> pa.Table:
        if self.failure is not None:
            raise errors.ViewError(f'view "{self.name}" is in error: {self.failure}')
        return self.table

    def rows(self) -> list[Row]:
        return [tuple(r.values()) for r in self.table.to_pylist()]

    def __len__(self) -> int:
        return int(self.table.num_rows)


@dataclass(frozen=True, slots=True)
class Verification:
    view: str
    epoch: int
    equal: bool
    missing: pa.Table
    extra: pa.Table


class Transaction:
    def __init__(self, session: ReferenceSession) -> None:
        self._session = session
        self.changes: list[Change] = []
        self.epoch: int | None = None

    def insert(self, table: str, data: Any) -> None:
        self._add("insert", table, data)

    def delete(self, table: str, data: Any) -> None:
        self._add("delete", table, data)

    def upsert(self, table: str, data: Any) -> None:
        self._add("upsert", table, data)

    def _add(self, op: str, name: str, data: Any) -> None:
        table = self._session.table(name)
        self.changes.append(Change(op, table.name, tuple(_rows(table, op, data))))


class ReferenceSession:
    """The subset of `sqlview.Session` that the tests use."""

    def __init__(self, bug: str | None = None) -> None:
        if bug is not None and bug not in BUGS:
            raise ValueError(f"no such bug: {bug!r}")
        self._bug = bug
        self._oracle = DuckDBOracle(threads=1)
        self._tables: dict[str, Table] = {}
        self._views: dict[str, View] = {}
        self._readers: list[tuple[str, Callable[[pa.Table], None]]] = []
        self.epoch = 0

    def close(self) -> None:
        self._oracle.close()

    def table(self, name: str) -> Table:
        if name.lower() not in self._tables:
            raise errors.CatalogError(f'no such table: "{name}"')
        return self._tables[name.lower()]

    def view(self, name: str) -> View:
        if name.lower() not in self._views:
            raise errors.CatalogError(f'no such view: "{name}"')
        return self._views[name.lower()]

    def sql(self, text: str) -> None:
        tree = sqlglot.parse_one(text, read="databricks")
        if isinstance(tree, exp.Create) and tree.kind == "TABLE":
            self._create_table(tree)
        elif isinstance(tree, exp.Create) and tree.kind == "VIEW":
            self._create_view(tree.this.name.lower(), text[text.lower().index(" as ") + 4 :])
        elif isinstance(tree, exp.Drop):
            self._drop(
                text.rsplit(maxsplit=1)[-1].strip("`").lower()
            )  # sqlglot may leave out the name
        else:
            raise errors.UnsupportedError("not in the reference engine")

    def _create_table(self, tree: exp.Create) -> None:
        name, schema, key = parse_table(tree)
        if name in self._tables:
            raise errors.CatalogError(f'table "{name}" exists already')
        self._tables[name] = Table(name, schema, key)
        self._oracle.load(name, arrow_table(schema, []))

    def _create_view(self, name: str, text: str) -> None:
        translated = self._oracle.describe(text)
        schema = tuple(
            t.Field(n, k if k is not None else t.STRING)
            for n, k in zip(translated.names, translated.types, strict=True)
        )
        if self._bug == "wide_sum":
            schema = tuple(t.Field(f.name, t.BIGINT if f.type == t.INT else f.type) for f in schema)
        self._views[name] = View(name, text, schema, arrow_table(schema, []))
        self._views[name].table = self._result(self._views[name])
        self._oracle.create_view(name, text)

    def _drop(self, name: str) -> None:
        if name in self._tables:
            for view in self._views.values():
                tables = sqlglot.parse_one(view.text, read="databricks").find_all(exp.Table)
                if any(x.name.lower() == name for x in tables):
                    raise errors.CatalogError(
                        f'cannot drop table "{name}"', detail=f'View "{view.name}" reads it.'
                    )
            del self._tables[name]
        elif name in self._views:
            del self._views[name]
            self._readers = [(n, callback) for n, callback in self._readers if n != name]
        else:
            raise errors.CatalogError(f'no such table or view: "{name}"')
        self._oracle.drop(name)

    def begin(self) -> Transaction:
        return Transaction(self)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        tx = self.begin()
        yield tx
        self.apply([tx])

    def apply(self, transactions: Sequence[Transaction]) -> list[int]:
        versions = [{n: table.copy() for n, table in self._tables.items()}]
        for tx in transactions:
            after = {n: table.copy() for n, table in versions[-1].items()}
            try:
                for change in tx.changes:
                    after[change.table].apply(change)
            except Rejected as error:
                if self._bug == "partial_apply":
                    self._commit([versions[0], after])
                raise errors.DataError(str(error)) from error
            versions.append(after)
        if self._bug == "ignores_updates":
            for before, after in itertools.pairwise(versions):
                _undo_updates(before, after)
        self._commit(versions)
        for tx, epoch in zip(
            transactions, range(self.epoch + 1 - len(transactions), 10**9), strict=False
        ):
            tx.epoch = epoch
        return [tx.epoch for tx in transactions if tx.epoch is not None]

    def _commit(self, versions: list[dict[str, Table]]) -> None:
        deltas: dict[str, list[tuple[Row, int, int]]] = {name: [] for name in self._views}
        loaded = versions[0]
        for after in versions[1:]:
            self.epoch += 1
            seen = after
            if self._bug == "last_version" and after is not versions[-1]:
                first = next((n for n in after if after[n].rows != loaded[n].rows), None)
                seen = {n: x if n == first else versions[-1][n] for n, x in after.items()}
            deletes_only = all(not net(versions[0][n], x)[0] for n, x in after.items())
            for name, table in seen.items():
                inserts, deletes = net(loaded[name], table)
                self._oracle.apply(
                    name, arrow_table(table.schema, inserts), arrow_table(table.schema, deletes)
                )
            loaded = seen
            if not (self._bug == "ignores_deletes" and deletes_only) and self._bug != "frozen":
                for name, view in self._views.items():
                    deltas[name] += self._advance(view)
        self._tables = versions[-1]
        for name, callback in self._readers:
            callback(self._batch(self._views[name], deltas[name]))

    def _advance(self, view: View) -> list[tuple[Row, int, int]]:
        result = self._result(view)
        if view.failure is not None:
            return []
        if self._bug == "never_empties" and not result.num_rows:
            return []
        before, after = Counter(canonical_rows(view.table)), Counter(canonical_rows(result))
        view.table = result
        gone, come = before - after, after - before
        deltas = [(row, self.epoch, -n) for row, n in gone.items()]
        deltas += [(row, self.epoch, n) for row, n in come.items()]
        view.changes += len(deltas)
        return deltas

    def _result(self, view: View) -> pa.Table:
        read = {
            x.name.lower()
            for x in sqlglot.parse_one(view.text, read="databricks").find_all(exp.Table)
        }
        try:
            failed = [v.failure for n, v in self._views.items() if n in read and v.failure]
            if failed:
                raise RowError(failed[0])
            table = self._oracle.query(view.text, view.schema)
        except RowError as error:
            if self._bug != "swallows_errors":
                view.failure = str(error)
            return view.table
        if self._bug != "stays_in_error":
            view.failure = None
        rows = [tuple(r.values()) for r in table.to_pylist()]
        match self._bug:
            case "drops_nulls":
                rows = [r for r in rows if None not in r]
            case "null_as_zero":
                numbers = [t.is_numeric(f.type) for f in view.schema]
                rows = [
                    tuple(0 if v is None and n else v for v, n in zip(r, numbers, strict=True))
                    for r in rows
                ]
            case "loses_copies":
                rows = list(dict.fromkeys(rows))
            case "wrong_order":
                rows.reverse()
        return arrow_table(view.schema, rows)

    def _batch(self, view: View, deltas: list[tuple[Row, int, int]]) -> pa.Table:
        match self._bug:
            case "repeats_deltas":
                deltas = deltas * 2
            case "drops_retractions":
                deltas = [d for d in deltas if d[2] > 0]
            case "last_time":
                deltas = [(row, self.epoch, n) for row, _, n in deltas]
        schema = (*view.schema, t.Field("__time", t.BIGINT), t.Field("__diff", t.BIGINT))
        rows = [tuple(float("nan") if v == "NaN" else v for v in r) for r, _, _ in deltas]
        return arrow_table(schema, [(*r, d[1], d[2]) for r, d in zip(rows, deltas, strict=True)])

    def subscribe(self, name: str, callback: Callable[[pa.Table], None]) -> None:
        self._readers.append((self.view(name).name, callback))

    def verify(self, name: str, engine: str | None = None) -> Verification:
        view = self.view(name)
        view.to_arrow()
        found = compare(view.table, self._oracle.query(view.text, view.schema))
        none = view.table.slice(0, 0)
        missing, extra = (found.missing, found.extra) if found else (none, none)
        return Verification(view.name, self.epoch, found is None, missing, extra)


#: Types of columns that the oracle has no rules for: it compares them and passes them on.
_PASSED_ON = {
    exp.DataType.Type.TIMESTAMPTZ: t.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPLTZ: t.TIMESTAMP,
    exp.DataType.Type.BINARY: t.BINARY,
    exp.DataType.Type.VARBINARY: t.BINARY,
}


def parse_table(tree: exp.Create) -> tuple[str, t.Schema, tuple[int, ...]]:
    """Name, columns and key positions of a CREATE TABLE statement."""
    columns = [c for c in tree.this.expressions if isinstance(c, exp.ColumnDef)]
    names = [c.name.lower() for c in columns]
    key: list[str] = [c.name.lower() for c in columns if c.find(exp.PrimaryKeyColumnConstraint)]
    for constraint in tree.this.find_all(exp.PrimaryKey):
        key = [e.name.lower() for e in constraint.expressions]
    fields = []
    for c in columns:
        kind = named_type(c.args["kind"]) or _PASSED_ON.get(c.args["kind"].this)
        assert kind is not None, c
        not_null = c.find(exp.NotNullColumnConstraint) is not None or c.name.lower() in key
        fields.append(t.Field(c.name, kind, nullable=not not_null))
    return tree.this.this.name.lower(), tuple(fields), tuple(names.index(k) for k in key)


def _undo_updates(before: dict[str, Table], after: dict[str, Table]) -> None:
    for name, table in after.items():
        for key, row in before[name].by_key.items():
            now = table.by_key.get(key)
            if now is not None and now != row:
                table.by_key[key] = row
                table.rows -= Counter([now])
                table.rows += Counter([row])


def _rows(table: Table, op: str, data: Any) -> list[Row]:
    names = [f.name for f in table.schema]
    wanted = [names[i] for i in table.key] if op == "delete" and table.key else names
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        for name in wanted:
            if name not in data.schema.names:
                raise errors.DataError(f'column "{name}" of table "{table.name}" is missing')
            kind = arrow_type(table.schema[names.index(name)].type)
            if data.schema.field(name).type != kind:
                raise errors.DataError(f'column "{name}" of table "{table.name}" is not {kind}')
        for name in data.schema.names:
            if name not in names:
                raise errors.DataError(f'table "{table.name}" has no column "{name}"')
        data = data.to_pylist()
    rows: list[Row] = []
    for given in data:
        row = given
        if isinstance(row, dict):
            if unknown := set(row) - set(names):
                raise errors.DataError(f'table "{table.name}" has no column {sorted(unknown)}')
            if lacking := set(wanted) - set(row):
                raise errors.DataError(f'column {sorted(lacking)} of "{table.name}" is missing')
            row = tuple(given.get(n) for n in names)
        if len(row) != len(names):
            raise errors.DataError(f'table "{table.name}" has {len(names)} columns')
        try:
            for value, field in zip(row, table.schema, strict=True):
                pa.scalar(value, arrow_type(field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise errors.DataError(f'column "{field.name}" of "{table.name}": {error}') from error
        rows.append(row)
    return rows
