"""Transactions: changes collected, checked for shape at once, and applied at one epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from operators import arrow
from operators.column import Column
from operators.state.changes import DELETE, INSERT, UPSERT
from planner.errors import DataError, SqlViewError
from planner.types import Schema
from sqlview.catalog import Catalog, Stream, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What changes may be given as.
Data: TypeAlias = (
    "pa.Table | pa.RecordBatch | list[tuple[Any, ...]] | list[dict[str, Any]] | DataFrame"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One insert, delete or upsert: `columns` as operators.table.Change takes them."""

    table: Table | Stream
    action: int
    columns: list[Column]

    @property
    def rows(self) -> int:
        return len(self.columns[0])


class Transaction:
    """Changes that take effect together, at one epoch, in the order in which they were made.

    As a context manager it commits at the end of the block, and is given up if the block raises.
    `epoch` is None until it is committed.
    """

    def __init__(
        self,
        catalog: Catalog,
        read_dataframe: Callable[[Any], pa.Table],
        commit: Callable[[Transaction], None],
    ) -> None:
        self._catalog = catalog
        self._read_dataframe = read_dataframe
        self._commit = commit
        self.statements: list[Statement] = []
        self.epoch: int | None = None

    def insert(self, table: str, data: Data) -> None:
        """Insert rows into a table, or events into a stream; all columns, matched by name (tuples:
        by position).

        Raises: CatalogError, DataError; a key that is present already is reported at commit.
        """
        self._add(table, INSERT, data)

    def upsert(self, table: str, data: Data) -> None:
        """Insert rows, replacing those with the same primary key."""
        if self._kept(table, "upsert into").key is None:
            raise DataError(
                f'cannot upsert into "{table}", which has no primary key',
                hint="Delete the old rows and insert the new ones, or declare a PRIMARY KEY.",
            )
        self._add(table, UPSERT, data)

    def delete(self, table: str, data: Data) -> None:
        """Delete rows: by primary key (other columns are ignored), or, from a table without a
        key, one copy of each row given. A row that is not there is reported at commit."""
        self._kept(table, "delete from")
        self._add(table, DELETE, data)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._commit(self)

    def _add(self, name: str, action: int, data: Data) -> None:
        if self.epoch is not None:
            raise DataError(
                "the transaction is committed already", hint="Begin a new one for more changes."
            )
        table = self._catalog.changeable(name)
        schema = table.schema
        key = table.key if isinstance(table, Table) and action == DELETE else None
        if key is not None:
            schema = tuple(table.schema[k] for k in key)
        try:
            columns = self._columns(data, schema, table, key)
        except DataError as error:
            raise _about(table.name, error) from None
        if columns and len(columns[0]):
            self.statements.append(Statement(table, action, columns))

    def _kept(self, name: str, verb: str) -> Table:
        entry = self._catalog.changeable(name)
        if isinstance(entry, Stream):
            raise DataError(
                f'cannot {verb} "{entry.name}", which is a stream',
                detail="A stream keeps none of its events, so there is no row to change.",
                hint="Insert events, or use a table.",
            )
        return entry

    def _columns(
        self, data: Data, schema: Schema, table: Table | Stream, key: tuple[int, ...] | None
    ) -> list[Column]:
        if isinstance(data, list):
            rows = data if key is None else _key_rows(data, table.schema, key)
            data = arrow.rows_to_table(rows, schema)
        elif not isinstance(data, (pa.Table, pa.RecordBatch)):
            data = self._read_dataframe(data)
        return arrow.to_columns(matched(data, schema, exact=key is None), schema)


def _key_rows(rows: list[Any], schema: Schema, key: tuple[int, ...]) -> list[Any]:
    """Rows given to a delete by key, cut down to the key: whole rows are welcome too."""
    names = {schema[k].name for k in key}
    out: list[Any] = []
    for row in rows:
        if isinstance(row, dict):
            out.append({k: v for k, v in row.items() if k in names})
        elif len(row) == len(schema):
            out.append(tuple(row[k] for k in key))
        else:
            out.append(row)
    return out


def matched(data: pa.Table | pa.RecordBatch, schema: Schema, exact: bool) -> pa.Table:
    """The columns of `data` in the order of `schema`, matched by name, case-insensitively.

    Raises: DataError for missing columns, for two of one name and, if `exact`, for unknown ones.
    """
    places: dict[str, int] = {}
    for i, name in enumerate(data.schema.names):
        if name.casefold() in places:
            raise DataError(f'the batch has column "{name}" twice')
        places[name.casefold()] = i
    missing = [f.name for f in schema if f.name.casefold() not in places]
    if missing:
        raise DataError(
            "the batch lacks " + _columns_text(missing),
            detail="It has " + (_columns_text(data.schema.names) or "no columns") + ".",
        )
    if exact and len(places) > len(schema):
        known = {f.name.casefold() for f in schema}
        extra = [n for n in data.schema.names if n.casefold() not in known]
        raise DataError(
            f"the batch has {_columns_text(extra)}, which the table lacks",
            hint="Select the table's columns before inserting.",
        )
    arrays = [data.column(places[f.name.casefold()]) for f in schema]
    return pa.table(arrays, names=[f.name for f in schema])


def _columns_text(names: list[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(f'"{n}"' for n in names)


def _about(table: str, error: SqlViewError) -> DataError:
    return DataError(
        f'cannot change "{table}": {error.message}', detail=error.detail, hint=error.hint
    )
