"""Transactions: changes collected, checked for shape at once, and applied at one epoch each.

A `Transaction` is one. `Transactions` are many, as columns: rows beside the number of the
transaction that each belongs to. To make an object for each costs several times what it costs to
apply it, so a flood of small transactions comes that way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators import arrow
from operators import rows as row_values
from operators.column import Column, Ints
from operators.state.changes import DELETE, INSERT, UPSERT
from planner.errors import DataError, SqlViewError, suggestion
from planner.names import folded
from planner.types import Schema
from sqlview.catalog import Catalog, Stream, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What changes may be given as.
Data: TypeAlias = (
    "pa.Table | pa.RecordBatch | list[tuple[Any, ...]] | list[dict[str, Any]] | DataFrame"
)


#: The time of each row: integers, or the name of a column of the data that has them.
Times: TypeAlias = "str | Sequence[int] | npt.NDArray[np.integer[Any]] | pa.Array | pa.ChunkedArray"

#: The greatest time of a row: a step moves the epoch by as many.
_LAST_TIME = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Statement:
    """One insert, delete or upsert: `columns` as operators.table.Change takes them.

    `times` int64[n]: for each row, which of the transactions of its step it belongs to; None where
    the transaction says it.
    """

    table: Table | Stream
    action: int
    columns: list[Column]
    times: Ints | None = None

    @property
    def rows(self) -> int:
        return len(self.columns[0])


class _Changes(ABC):
    """What `Transaction` and `Transactions` have in common: statements, and a commit at the end of
    the `with` block, unless the block raises."""

    def __init__(
        self,
        catalog: Catalog,
        read_dataframe: Callable[[Any], pa.Table],
        commit: Callable[[Any], None],
    ) -> None:
        self._catalog = catalog
        self._read_dataframe = read_dataframe
        self._commit = commit
        self.statements: list[Statement] = []

    @property
    @abstractmethod
    def is_committed(self) -> bool: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._commit(self)

    def _insert(self, name: str, data: Data, times: Times | None = None) -> None:
        self._add(name, INSERT, data, times)

    def _upsert(self, name: str, data: Data, times: Times | None = None) -> None:
        if self._kept(name, "upsert into").key is None:
            raise DataError(
                f'cannot upsert into "{name}", which has no primary key',
                hint="Delete the old rows and insert the new ones, or declare a PRIMARY KEY.",
            )
        self._add(name, UPSERT, data, times)

    def _delete(self, name: str, data: Data, times: Times | None = None) -> None:
        self._kept(name, "delete from")
        self._add(name, DELETE, data, times)

    def _add(self, name: str, action: int, data: Data, times: Times | None) -> None:
        if self.is_committed:
            raise DataError(
                "the transaction is committed already", hint="Begin a new one for more changes."
            )
        table = self._catalog.changeable(name)
        schema = table.schema
        key = table.key if isinstance(table, Table) and action == DELETE else None
        if key is not None:
            schema = tuple(table.schema[k] for k in key)
        try:
            if isinstance(times, str):
                data, times = self._parted(data, times, table.schema)
            columns = self._columns(data, schema, table, key)
            checked = None if times is None else _checked_times(times, len(columns[0]))
        except DataError as error:
            raise _about(table.name, error) from None
        if columns and len(columns[0]):
            self.statements.append(Statement(table, action, columns, checked))

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
            data = row_values.rows_to_table(rows, schema)
        elif not isinstance(data, (pa.Table, pa.RecordBatch)):
            data = self._read_dataframe(data)
        return arrow.to_columns(matched(data, schema, exact=key is None), schema)

    def _parted(self, data: Data, name: str, schema: Schema) -> tuple[Data, Times]:
        """The rows, and the times in their column `name`, which stays if the table has it too."""
        shared = folded(name) in (folded(f.name) for f in schema)
        if isinstance(data, list):
            rows: list[Any] = data
            if not all(isinstance(row, dict) and name in row for row in rows):
                raise DataError(
                    f'not every row has the column "{name}", which is to hold its time',
                    hint="Give rows as dicts with that column, or the times as a list of integers.",
                )
            times = [row[name] for row in rows]
            if not shared:
                data = [{k: v for k, v in row.items() if k != name} for row in rows]
            return data, times
        if not isinstance(data, (pa.Table, pa.RecordBatch)):
            data = self._read_dataframe(data)
        places = [i for i, n in enumerate(data.schema.names) if folded(n) == folded(name)]
        if len(places) != 1:
            number = "lacks" if not places else "has more than one"
            raise DataError(f'the batch {number} column "{name}", which is to hold its times')
        times = data.column(places[0])
        if not shared:
            kept = [i for i in range(data.num_columns) if i != places[0]]
            data = pa.table([data.column(i) for i in kept], [data.schema.names[i] for i in kept])
        return data, times


class Transaction(_Changes):
    """Changes that take effect together, at one epoch, in the order in which they were made.

    As a context manager it commits at the end of the block, and is given up if the block raises.
    `epoch` is None until it is committed.
    """

    epoch: int | None = None

    @property
    def is_committed(self) -> bool:
        return self.epoch is not None

    def insert(self, table: str, data: Data) -> None:
        """Insert rows into a table, or events into a stream; all columns, matched by name (tuples:
        by position).

        Raises: CatalogError, DataError; a key that is present already is reported at commit.
        """
        self._insert(table, data)

    def upsert(self, table: str, data: Data) -> None:
        """Insert rows, replacing those with the same primary key."""
        self._upsert(table, data)

    def delete(self, table: str, data: Data) -> None:
        """Delete rows: by primary key (other columns are ignored), or, from a table without a
        key, one copy of each row given. A row that is not there is reported at commit."""
        self._delete(table, data)

    def __enter__(self) -> Transaction:
        return self


class Transactions(_Changes):
    """Many transactions as columns, each at an epoch of its own, applied in one step.

    Every call gives rows with their times: `times[i]` is the number of the transaction that row i
    belongs to, counted from 0, in any order. It is a sequence or array of integers as long as the
    data, or the name of a column of the data; DataFrames, whose rows have no order, need that.
    The outcome is that of as many `Transaction`s, one after the other: time by time, and within a
    time in the order of the calls and of their rows. There are as many as the greatest time plus
    one; a time without rows is a transaction that changes nothing.

    As a context manager it commits at the end of the block, all or nothing. `epochs` is None until
    then, after which `epochs[t]` is the epoch of time t.
    Cost: that of one transaction with all rows, and of the changes that the views go through at the
    times in between: about twice the former, mostly, for a time to every row.
    """

    epochs: range | None = None

    @property
    def is_committed(self) -> bool:
        return self.epochs is not None

    def insert(self, table: str, data: Data, times: Times) -> None:
        """As Transaction.insert, each row at its time. A key that is present at the row's time is
        reported at commit.

        Raises: CatalogError, DataError; the latter also for a time that is NULL, negative or above
        2**31 - 1, and for more or fewer times than rows.
        """
        self._insert(table, data, times)

    def upsert(self, table: str, data: Data, times: Times) -> None:
        """As Transaction.upsert, each row at its time. Raises: as `insert`."""
        self._upsert(table, data, times)

    def delete(self, table: str, data: Data, times: Times) -> None:
        """As Transaction.delete, each row at its time. Raises: as `insert`."""
        self._delete(table, data, times)

    def __enter__(self) -> Transactions:
        return self

    @property
    def count(self) -> int:
        """How many transactions these are, so far."""
        given = (s.times for s in self.statements if s.times is not None)
        return max((int(times.max()) + 1 for times in given), default=0)


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


def matched(
    data: pa.Table | pa.RecordBatch, schema: Schema, exact: bool
) -> pa.Table | pa.RecordBatch:
    """The columns of `data` in the order of `schema`, matched by name, case-insensitively.

    Raises: DataError for missing columns, for two of one name and, if `exact`, for unknown ones.
    """
    given = data.schema.names
    if given == [f.name for f in schema]:
        return data
    places: dict[str, int] = {}
    for i, name in enumerate(given):
        if folded(name) in places:
            raise DataError(f'the batch has column "{name}" twice')
        places[folded(name)] = i
    missing = [f.name for f in schema if folded(f.name) not in places]
    if missing:
        raise DataError(
            "the batch lacks " + _columns_text(missing),
            detail="It has " + (_columns_text(given) or "no columns") + ".",
            hint=_misspelled(given, schema),
        )
    if exact and len(places) > len(schema):
        known = {folded(f.name) for f in schema}
        extra = [n for n in given if folded(n) not in known]
        raise DataError(
            f"the batch has {_columns_text(extra)}, which the table lacks",
            hint=_misspelled(extra, schema) or "Select the table's columns before inserting.",
        )
    arrays = [data.column(places[folded(f.name)]) for f in schema]
    return pa.table(arrays, names=[f.name for f in schema])


def _misspelled(given: Sequence[str], schema: Schema) -> str | None:
    """A hint for the first of the names that is near a column of the table and none."""
    columns = [f.name for f in schema]
    known = {folded(c) for c in columns}
    hints = (suggestion(n, columns) for n in given if folded(n) not in known)
    return next((h for h in hints if h is not None), None)


def _checked_times(times: Times, rows: int) -> Ints:
    """The times as int64[rows]. Raises: DataError, see Transactions.insert."""
    if not isinstance(times, (pa.Array, pa.ChunkedArray)):
        try:
            times = pa.array(times)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            raise DataError("times are integers") from None
    if isinstance(times, pa.ChunkedArray):
        times = times.combine_chunks()
    if len(times) != rows:
        raise DataError(f"there are {len(times)} times for {rows} rows")
    if rows == 0:
        return np.empty(0, np.int64)
    if not pa.types.is_integer(times.type):
        raise DataError(f"times are integers, not {times.type}")
    if times.null_count:
        row = int(np.argmin(times.is_valid().to_numpy(zero_copy_only=False)))
        raise DataError("a time is NULL", detail=f"Row {row} of the data has it first.")
    found = times.to_numpy(zero_copy_only=False)
    bad = (found < 0) | (found > _LAST_TIME)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"a time is from 0 to {_LAST_TIME:,}",
            detail=f"Row {row} of the data has {found[row]}.",
            hint="Number the transactions from 0.",
        )
    checked: Ints = found.astype(np.int64)
    return checked


def _columns_text(names: list[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(f'"{n}"' for n in names)


def _about(table: str, error: SqlViewError) -> DataError:
    return DataError(
        f'cannot change "{table}": {error.message}', detail=error.detail, hint=error.hint
    )
