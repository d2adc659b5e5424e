"""Transactions: changes collected, checked for shape at once, and applied at one epoch each.

A `Transaction` is one. `Transactions` are many, as columns: rows beside the number of the
transaction that each belongs to. To make an object for each costs several times what it costs to
apply it, so a flood of small transactions comes that way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.flight import arrow
from operators.flight.column import Column, Ints, joined
from operators.flight.misfits import merged
from operators.flight.rendering import texts
from operators.flight.rows import RowReader, by_name, inferred
from operators.kernels.memory import BLOCK_ROWS
from operators.naive import naive_in
from operators.quick import quick
from operators.scalar.text import shortened
from operators.state.changes import DELETE, INSERT, UPSERT
from operators.state.encode import local_words
from operators.state.stored import StoredRows
from planner.calculus.zones import Zone
from planner.errors import DataError, SqlViewError
from planner.names import folded
from sqlview.arguments import check_flag, check_text, kind_of
from sqlview.catalog import Catalog, Stream, Table
from sqlview.positions import NOWHERE, Move
from sqlview.progress import Advance
from sqlview.sources.files import File
from sqlview.sources.given import (
    Columns,
    Given,
    Pieces,
    Rows,
    gathered,
    is_spark_dataframe,
    recognised,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What changes may be given as: see sqlview.sources.given.
Data: TypeAlias = (
    "pa.Table | pa.RecordBatch | Mapping[str, Any] | Iterable[tuple[Any, ...]] "
    "| Iterable[dict[str, Any]] | DataFrame | Any"
)

#: The time of each row: integers, or the name of a column of the data that has them.
Times: TypeAlias = "str | Sequence[int] | npt.NDArray[np.integer[Any]] | pa.Array | pa.ChunkedArray"

#: The greatest time of a row: a step moves the epoch by as many.
_LAST_TIME = 2**31 - 1
_LAST_OFFSET = 2**63 - 1

#: Arrow data of an insert into a table is taken in parts of about so many rows or bytes.
PART_ROWS, PART_BYTES = 1 << 20, 256 << 20

#: Fewer rows that were written into files are no load.
FEW_ROWS = BLOCK_ROWS

#: Why an upsert of rows without an order is refused.
TWICE = "a key is there twice"

_COMMITTING = "is being committed"


@quick
@dataclass(frozen=True, slots=True)
class Statement:
    """One insert, delete or upsert: `columns` as operators.table.Change takes them.

    `times` int64[n]: for each row, which of the transactions of its step it belongs to; None where
    the transaction says it. `first`: how many rows of the same data precede these. `stored`:
    instead of columns, of a change of a table, rows that lie in files.
    """

    table: Table | Stream
    action: int
    columns: Sequence[Column]
    times: Ints | None = None
    first: int = 0
    stored: StoredRows | None = None

    @property
    def rows(self) -> int:
        return len(self.columns[0]) if self.stored is None else len(self.stored)

    def read(self) -> Statement:
        """The same with the rows at hand. Cost: a copy of those that lie in files. Raises:
        DataError if they are to replace others, and have a key twice."""
        if self.stored is None:
            return self
        found = replace(self, columns=self.stored.read(), stored=None)
        if self.action == UPSERT:
            found.check_keys()
        return found

    def check_keys(self) -> None:
        """See that no key is there twice. Raises: DataError."""
        assert isinstance(self.table, Table) and self.table.key is not None
        keys = [self.columns[k] for k in self.table.key]
        words = local_words(keys)
        order = np.lexsort(words[::-1])  # stable
        same = np.flatnonzero((words[:, order[1:]] == words[:, order[:-1]]).all(axis=0))
        if len(same):
            at = same[np.argmin(order[same + 1])]
            later, earlier = order[at + 1], order[at]
            fields = tuple(self.table.schema[k] for k in self.table.key)
            row = arrow.from_columns([key.take(np.array([later])) for key in keys], fields)
            shown = (shortened(texts(column, quoted=True)[0], 100) for column in row.columns)
            listed = ", ".join(f"{f.name} = {text}" for f, text in zip(fields, shown, strict=True))
            raise DataError(
                TWICE,
                detail=f"Row {later} of the data has {listed}, as row {earlier} has.",
                hint="Leave one row of each key. Nothing of the transaction was applied.",
            )


class _Changes:
    """What `Transaction` and `Transactions` have in common: statements, and a commit at the end of
    the `with` block, unless the block raises."""

    def __init__(
        self,
        catalog: Catalog,
        read_dataframe: Callable[[Any], pa.Table],
        zone: Callable[[], Zone],
        commit: Callable[[Any], object],
        write_dataframe: Callable[[Table, int, Any, bool], StoredRows | None] = lambda *_: None,
        write_columns: Callable[[Table, Iterable[Sequence[Column]]], StoredRows] | None = None,
    ) -> None:
        """`write_dataframe`: lets Spark's tasks write a DataFrame for a change of a table into
        files; None where it is to be read. `write_columns`: writes an insert of several parts into
        files, where it is not to be kept in memory."""
        self._write_dataframe = write_dataframe
        self._write_columns = write_columns
        self._zone = zone
        self._catalog = catalog
        self._read_dataframe = read_dataframe
        self._commit = commit
        self.statements: list[Statement] = []
        self.moves: dict[str, Move] = {}
        self._lock = threading.Lock()
        #: Why it takes no more changes, as the end of a sentence.
        self._over: str | None = None

    def source(self, name: str, offset: int, *, after: int | None = None) -> None:
        """Say where a source of changes stands when these are in.

        name: the source's. offset: a number that grows from one transaction of the source to the
        next, 0 or more. after: the offset that these changes follow on, -1 for the first; None if
        the offsets have gaps, as those of a queue may. The offset is committed with the epoch (see
        Session.position). If the source stands at `offset` or beyond already, the transaction was
        committed before: then the commit changes nothing.
        Raises: at the commit, DataError if the source does not stand at `after`; here, TypeError
        and ValueError, and DataError if it was said before.
        """
        check_text("name", name)
        _check_offset("offset", offset, 0)
        if after is not None:
            _check_offset("after", after, NOWHERE)
            if after >= offset:
                raise ValueError(f"after is less than offset, not {after} with {offset}")
        with self._lock:
            self._check_open()
            if name in self.moves:
                raise DataError(f'where source "{name}" stands was said before')
            self.moves[name] = Move(offset, after)

    def _claim(self, catalog: Catalog) -> None:
        """Take no more changes, since the session of `catalog` commits it now.

        Raises: DataError if it does so already, or did, or another session began it.
        """
        if catalog is not self._catalog:
            raise DataError(
                "the transaction is of another session",
                hint="Commit it in the session that it was begun in.",
            )
        with self._lock:
            self._check_open()
            self._over = _COMMITTING

    def _release(self) -> None:
        """It was not committed, and may be another time."""
        if self._over == _COMMITTING:
            self._over = None

    def _check_open(self) -> None:
        if self._over is not None:
            raise DataError(
                f"the transaction {self._over}", hint="Begin a new one for more changes."
            )

    def _keep(self, statements: Sequence[Statement]) -> None:
        with self._lock:  # another thread may commit meanwhile
            self._check_open()
            self.statements += statements

    def _keep_stored(self, statement: Statement) -> None:
        """Few rows are taken as any others: they would have blocks of their own for good. The first
        ones of a table have one in any case, and stay where they lie."""
        if statement.rows:
            stays = statement.rows >= FEW_ROWS or self._is_first(statement)
            self._keep([statement if stays else statement.read()])

    def _is_first(self, statement: Statement) -> bool:
        """Whether it brings the first rows that a table has had."""
        table = statement.table
        if not isinstance(table, Table) or table.state.relation.next_row:
            return False
        return all(other.table is not table for other in self.statements)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._commit(self)
            return
        with self._lock:
            self._over = self._over or "was given up when its block raised"

    def _insert(self, name: str, data: Data, cast: bool, times: Times | None = None) -> None:
        self._add(name, INSERT, data, cast, times)

    def _upsert(self, name: str, data: Data, cast: bool, times: Times | None = None) -> None:
        if self._kept(name, "upsert into").key is None:
            raise DataError(
                f'cannot upsert into "{name}", which has no primary key',
                hint="Delete the old rows and insert the new ones, or declare a PRIMARY KEY.",
            )
        self._add(name, UPSERT, data, cast, times)

    def _delete(self, name: str, data: Data, cast: bool, times: Times | None = None) -> None:
        self._kept(name, "delete from")
        self._add(name, DELETE, data, cast, times)

    def _add(self, name: str, action: int, data: Data, cast: bool, times: Times | None) -> None:
        check_text("table", name)
        check_flag("cast", cast)
        self._check_open()
        table = self._catalog.changeable(name)
        try:
            if times is None and isinstance(data, (pa.Table, pa.RecordBatch)):
                few = arrow.few_of(data)
                if few is not None:
                    self._take_few(table, action, few, cast)
                    return
            is_frame = is_spark_dataframe(data)
            if times is None and is_frame and isinstance(table, Table):
                stored = self._write_dataframe(table, action, data, cast)
                if stored is not None:
                    self._keep_stored(Statement(table, action, [], stored=stored))
                    return
            given = recognised(data, self._read_dataframe)
            self._take(table, action, given, cast, times, is_frame)
        except DataError as error:
            raise about(f'change "{table.name}"', error) from None

    def _take_few(
        self, table: Table | Stream, action: int, batch: pa.RecordBatch, cast: bool
    ) -> None:
        """`_take` a batch of few rows, of which there is at least one."""
        reader, _ = _reader_of(table, action)
        with naive_in(self._zone):
            columns = reader.tables.columns(batch, cast)
        self._keep([Statement(table, action, columns)])

    def _take(
        self,
        table: Table | Stream,
        action: int,
        given: Given,
        cast: bool,
        times: Times | None,
        unordered: bool = False,
    ) -> None:
        intake = _Intake(table, action, cast)
        with naive_in(self._zone):
            if times is None and action == INSERT and isinstance(table, Table):
                coming = intake.parts(given)
                parts = list(islice(coming, 2))
                if len(parts) == 2 and self._write_columns is not None:
                    waiting, parts = iter(parts), []
                    stored = self._write_columns(table, chain(waiting, coming))
                    self._keep([Statement(table, action, [], stored=stored)])
                    return
                parts += coming
            elif isinstance(times, str):
                columns, times = intake.dated(given, times)
                parts = [columns]
            else:
                parts = [joined(list(intake.parts(given)))]
        rows = 0
        statements: list[Statement] = []
        for columns in parts:
            here = len(columns[0])
            checked = None if times is None else _checked_times(times, here)
            if here:
                statement = Statement(table, action, columns, checked, rows)
                if unordered and action == UPSERT and checked is None:
                    statement.check_keys()
                statements.append(statement)
            rows += here
        self._keep(statements)

    def _kept(self, name: str, verb: str) -> Table:
        check_text("table", name)
        entry = self._catalog.changeable(name)
        if isinstance(entry, Stream):
            raise DataError(
                f'cannot {verb} "{entry.name}", which is a stream',
                detail="A stream keeps none of its events, so there is no row to change.",
                hint="Insert events, or use a table.",
            )
        return entry


class _Intake:
    """Takes data to the columns of a table that a change of it has: all of them, or for a delete by
    key those of the key. `cast`: whether values are converted as far as that loses nothing."""

    def __init__(self, table: Table | Stream, action: int, cast: bool) -> None:
        self._table = table
        self._cast = cast
        self._reader, self._exact = _reader_of(table, action)

    def parts(self, given: Given) -> Iterator[Sequence[Column]]:
        """The columns; of much Arrow data part by part, of which there is at least one.

        Raises: DataError for all that does not fit.
        """
        if isinstance(given, Rows):
            yield self._reader.columns(given.rows, self._cast)
            return
        if isinstance(given, Columns):
            if not _is_much(given):
                yield self._named(given)
                return
            given = pa.table(dict(given.columns))
        if isinstance(given, pa.Table) and given.num_columns and _is_more(given.num_rows, [given]):
            # A part is put together once.
            batches = iter(given.to_batches())
            given = Pieces(given.schema, gathered(batches, given.schema, PART_ROWS, PART_BYTES))
        if not isinstance(given, Pieces):
            yield self._arrow(given)
            return
        waiting: list[Sequence[Column]] = []
        first = rows = nbytes = 0
        for table in given.tables:
            if rows and (rows + table.num_rows > PART_ROWS or nbytes >= PART_BYTES):
                yield joined(waiting)
                waiting, rows, nbytes = [], 0, 0
            waiting.append(self._arrow(table, first))
            first, rows = first + table.num_rows, rows + table.num_rows
            nbytes += table.nbytes
        yield joined(waiting)

    def dated(self, given: Given, name: str) -> tuple[Sequence[Column], Times]:
        """The columns, and the times in the data's column `name`."""
        if not isinstance(given, Pieces):
            given, times = self._parted(given, name)
            return joined(list(self.parts(given))), times
        parts: list[Sequence[Column]] = []
        found: list[pa.Array] = []
        first = 0
        for piece in given.tables:
            table, times = self._parted(piece, name)
            parts.append(self._arrow(table, first))
            found.extend(times.chunks)
            first += piece.num_rows
        return joined(parts), pa.chunked_array(found, times.type)

    def _arrow(self, table: pa.Table | pa.RecordBatch, first: int = 0) -> Sequence[Column]:
        return self._reader.tables.columns(table, self._cast, first)

    def _named(self, given: Columns) -> Sequence[Column]:
        schema, named = self._reader.schema, list(given.columns.values())
        places, errors = arrow.places_of(list(given.columns), schema, self._exact)
        columns: list[Column] = []
        for i, (place, field) in enumerate(zip(places, schema, strict=True)):
            if place is None:
                continue
            try:
                values = named[place]
                if isinstance(values, list):
                    columns.append(self._reader.column(i, values, self._cast))
                else:
                    columns.append(arrow.to_column(values, field, self._cast))
            except DataError as error:
                errors.append(error)
        if errors:
            raise merged(errors)
        return columns

    def _parted(self, given: Any, name: str) -> tuple[Any, Any]:
        """The data without its column `name`, unless the table has it too; and that column."""
        shared = folded(name) in (folded(f.name) for f in self._table.schema)
        if isinstance(given, Rows):
            return self._parted_rows(given, name, shared)
        names = list(given.columns) if isinstance(given, Columns) else given.schema.names
        places = [i for i, n in enumerate(names) if folded(n) == folded(name)]
        if len(places) != 1:
            number = "lacks" if not places else "has more than one"
            raise DataError(f'the data {number} column "{name}", which is to hold its times')
        if isinstance(given, Columns):
            found = names[places[0]]
            kept = {n: c for n, c in given.columns.items() if shared or n != found}
            return Columns(kept), given.columns[found]
        table = pa.table(given)
        return (table if shared else table.remove_column(places[0])), table.column(places[0])

    def _parted_rows(self, given: Rows, name: str, shared: bool) -> tuple[Rows, list[Any]]:
        rows = [by_name(row) for row in given.rows]
        named = [row for row in rows if row is not None and name in row]
        if len(named) < len(rows):
            raise DataError(
                f'not every row has the column "{name}", which is to hold its time',
                hint="Give rows as dicts with that column, or the times as a list of integers.",
            )
        times = [row[name] for row in named]
        if not shared:
            named = [{k: v for k, v in row.items() if k != name} for row in named]
        return Rows(named), times


class Transaction(_Changes):
    """Changes that take effect together, at one epoch, in the order in which they were made.

    As a context manager it commits at the end of the block, and is given up if the block raises.
    `epoch` is None until it is committed; after that it takes no more changes. A call that raises
    adds none of its changes, and leaves those of the calls before. Threads may share one: the order
    of their calls is that of its changes.
    """

    epoch: int | None = None

    def _settle(self, epoch: int) -> None:
        self.epoch, self._over, self.statements = epoch, "is committed already", []

    def insert(self, table: str, data: Data, *, cast: bool = False) -> None:
        """Insert rows into a table, or events into a stream; all columns, matched by name (tuples:
        by position). In a session with a store Spark's tasks write a large DataFrame into its
        files, for a table, and with placement="spark" any (see the README).

        Raises: CatalogError, DataError; TypeError if `table` is no str; what Spark raises if it
        cannot compute a DataFrame (pyspark.errors.PySparkException), and what reading `data`
        raises. A key that is present already is reported at commit.
        """
        self._insert(table, data, cast)

    def _fill(self, table: Table, given: Given) -> None:
        """Insert the rows that a table is made with. Raises: as `insert`."""
        try:
            self._take(table, INSERT, given, False, None)
        except DataError as error:
            raise about(f'create "{table.name}"', error) from None

    def _insert_file(self, table: str, file: File, cast: bool, advance: Advance) -> None:
        """Insert the rows of a file. `advance` is told as they are read.

        Raises: as `insert`, naming the file and the row in it.
        """
        entry = self._catalog.changeable(table)
        try:
            self._take(entry, INSERT, file.read(entry.schema, advance), cast, None)
        except DataError as error:
            raise about(f'load {file.path!r} into "{entry.name}"', error) from None

    def _insert_written(self, table: str, write: Callable[[Table], StoredRows | None]) -> bool:
        """Insert what `write` has written for a table into files; whether there is such a thing.
        Raises: CatalogError, and what it raises."""
        entry = self._catalog.changeable(table)
        stored = write(entry) if isinstance(entry, Table) else None
        if stored is not None:
            self._keep_stored(Statement(entry, INSERT, [], stored=stored))
        return stored is not None

    def upsert(self, table: str, data: Data, *, cast: bool = False) -> None:
        """Insert rows, replacing those with the same primary key. Raises: as `insert`."""
        self._upsert(table, data, cast)

    def delete(self, table: str, data: Data, *, cast: bool = False) -> None:
        """Delete rows: by primary key (other columns are ignored), or, from a table without a
        key, one copy of each row given. A row that is not there is reported at commit. Raises: as
        `insert`."""
        self._delete(table, data, cast)

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

    def _settle(self, epochs: range) -> None:
        self.epochs, self._over, self.statements = epochs, "is committed already", []

    def insert(self, table: str, data: Data, times: Times, *, cast: bool = False) -> None:
        """As Transaction.insert, each row at its time. A key that is present at the row's time is
        reported at commit.

        Raises: CatalogError, DataError; the latter also for a time that is NULL, negative or above
        2**31 - 1, and for more or fewer times than rows.
        """
        self._insert(table, data, cast, times)

    def upsert(self, table: str, data: Data, times: Times, *, cast: bool = False) -> None:
        """As Transaction.upsert, each row at its time. Raises: as `insert`."""
        self._upsert(table, data, cast, times)

    def delete(self, table: str, data: Data, times: Times, *, cast: bool = False) -> None:
        """As Transaction.delete, each row at its time. Raises: as `insert`."""
        self._delete(table, data, cast, times)

    def __enter__(self) -> Transactions:
        return self

    @property
    def count(self) -> int:
        """How many transactions these are, so far."""
        if self.epochs is not None:
            return len(self.epochs)
        given = (s.times for s in self.statements if s.times is not None)
        return max((int(times.max()) + 1 for times in given), default=0)


def _reader_of(table: Table | Stream, action: int) -> tuple[RowReader, bool]:
    """What takes the rows of a change, and whether they have exactly the table's columns."""
    if action == DELETE and isinstance(table, Table) and table.key_reader is not None:
        return table.key_reader, False
    return table.reader, True


def _is_much(given: Columns) -> bool:
    """Whether columns are more than a part, and all of Arrow."""
    columns = [c for c in given.columns.values() if not isinstance(c, list)]
    return 0 < len(columns) == len(given.columns) and _is_more(len(columns[0]), columns)


def _is_more(rows: int, data: Sequence[Any]) -> bool:
    """Whether so many rows of Arrow are more than a part. The bytes of few are not counted, unless
    they are in several pieces, to be put together; nor those of what keeps few in memory, since to
    count the bytes of rows takes a hundred times as long as to add up whole buffers."""
    if rows > PART_ROWS:
        return True
    if rows <= FEW_ROWS:
        first: Any = data[0].column(0) if isinstance(data[0], pa.Table) else data[0]
        if getattr(first, "num_chunks", 1) < 2:
            return False
    held = sum(d.get_total_buffer_size() for d in data)
    return bool(held > PART_BYTES and sum(d.nbytes for d in data) > PART_BYTES)


def _checked_times(times: Times, rows: int) -> Ints:
    """The times as int64[rows]. Raises: DataError, see Transactions.insert."""
    if not isinstance(times, (pa.Array, pa.ChunkedArray)):
        if getattr(times, "ndim", 1) != 1:
            raise DataError("times are one integer a row, not a table")
        try:
            times = inferred(times)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
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


def _check_offset(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an int, not {kind_of(value)}")
    if not least <= value <= _LAST_OFFSET:
        raise ValueError(f"{name} is from {least} to {_LAST_OFFSET}, not {value}")


def about(what: str, error: SqlViewError) -> DataError:
    return DataError(f"cannot {what}: {error.message}", detail=error.detail, hint=error.hint)
