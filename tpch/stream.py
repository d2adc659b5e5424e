"""TPC-H as a stream: the eight tables become a sequence of transactions.

**Arrival.** As in "Implementing a TPC-H-like evaluation" and Shared Arrangements §6.1.1, the tables
are loaded "one record at a time, in a round-robin fashion among the relations": a turn takes the
next row of each table that still has rows, in the order of `schema.TABLES`. Small tables are thus
complete after few turns (region after 5, nation after 25), and the last rows of the stream are
lineitem's alone. The sequence is then cut into batches of `batch_rows` changed rows; a batch is one
transaction, so one logical time.

**Churn.** A share `deletes` of the changed rows touches rows that arrived in earlier batches: half
of them, at random, are deletes by key, half updates (upserts of the same key). A table's part of
this is its part of the live rows, but about `MINIMUM_CHURN_ROWS` rows over the whole stream at
least, so that dimension rows leave and return too. A batch touches at most half of a table's live
rows. An update replaces one group of columns that belong together (`schema.TableDef.update_groups`)
by those of another row of the table, so join, filter and aggregate columns change and their
distributions stay; the next update of that row undoes it. Half of the deleted rows return, as
generated (of tables of at most `SMALL_TABLE_ROWS` rows, all): some in the same transaction, two of
which exchange their keys, the others after `RETURN_DELAY_BATCHES` batches; these inserts count
among the other rows of a batch, next to rows that arrive for the first time. Some that return later
are re-keyed rows: their values are those of a row that leaves in the same transaction. Some are
fleeting: inserted and deleted again in one transaction, to return later.

**Shape of the churn.** Two options make small and skewed data change more. A share `even` of the
churn goes to all tables alike, whatever their size. A share `skew` of the updates gives a row all
columns, but for its key, of one hot row of its table: some values become frequent, so that a few
keys are heavy.

The plan (`plan_stream`) is made of row numbers only, so that it can be checked by simulation and
costs little; `prebatch` turns it into Arrow tables before the clock starts.

Invariant: each transaction is valid on the state that those before it leave: it deletes and updates
only live rows and inserts only keys that are not live, each key at most once per call; applied in
the order delete, upsert, insert, delete of what is fleeting. Every row arrives at least once unless
the stream is cut short.
The stream is a function of the row counts and the options alone.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tpch.schema import TABLES, TABLES_BY_NAME

Ints: TypeAlias = npt.NDArray[np.int64]
Verb: TypeAlias = Literal["insert", "delete", "upsert"]

MINIMUM_CHURN_ROWS = 16
MAXIMUM_DELETES = 0.5
RETURN_DELAY_BATCHES = 4
SMALL_TABLE_ROWS = 100
HOT_ROW = 7
# However short the stream, the dimension tables do not get more of the churn than this each.
_MAXIMUM_FLOOR = 1 / 64
_RETURN_SHARE = 0.5
_SAME_TRANSACTION_SHARE = 1 / 16
_SMALL_SAME_TRANSACTION_SHARE = 1 / 2
_MINIMUM_EXCHANGE_BATCH_ROWS = 8
_REKEYED_SHARE = 1 / 2
_FLEETING_SHARE = 1 / 8

_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """`changes`: stop after so many changed rows, or None for the whole of the tables."""

    batch_rows: int
    deletes: float = 0.0
    changes: int | None = None
    seed: int = 0
    even: float = 0.0
    skew: float = 0.0

    def __post_init__(self) -> None:
        if self.batch_rows < 1:
            raise ValueError(f"a batch has at least one row, not {self.batch_rows}")
        if not 0 <= self.deletes <= MAXIMUM_DELETES:
            raise ValueError(
                f"the fraction of deletes is from 0 to {MAXIMUM_DELETES}, not {self.deletes:g}"
            )
        for name, share in (("even", self.even), ("skewed", self.skew)):
            if not 0 <= share <= 1:
                raise ValueError(f"the {name} share of the churn is from 0 to 1, not {share:g}")
        if self.changes is not None and self.changes < 1:
            raise ValueError(f"a stream has at least one changed row, not {self.changes}")


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What one transaction does to one table, as row numbers in order of arrival.

    `arriving`: [start, stop) of the rows that arrive for the first time. Row `updated[i]` is as
    generated from now on, except that its columns of update group `groups[i]` (all but the key's
    if that is one past the last group) are those of row `donors[i]` (which may be the row itself).
    Row `returned[i]` has its own key and the other columns of row `origins[i]`. The rows `fleeting`
    are inserted and deleted again.
    """

    table: str
    deleted: Ints
    updated: Ints
    donors: Ints
    groups: Ints
    returned: Ints
    origins: Ints
    fleeting: Ints
    arriving: tuple[int, int]

    @property
    def rows(self) -> int:
        start, stop = self.arriving
        touched = len(self.deleted) + len(self.updated) + 2 * len(self.fleeting)
        return touched + len(self.returned) + stop - start


BatchPlan: TypeAlias = tuple[TablePlan, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One call on a transaction; of deletes, `rows` holds the key columns alone."""

    verb: Verb
    table: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Batch:
    """One transaction's changes, ready to apply in order."""

    changes: tuple[Change, ...]

    @property
    def rows(self) -> int:
        return sum(change.rows.num_rows for change in self.changes)


class Transaction(Protocol):
    """What a batch needs of `sqlview.Transaction`."""

    def insert(self, table: str, rows: pa.Table) -> None: ...
    def delete(self, table: str, rows: pa.Table) -> None: ...
    def upsert(self, table: str, rows: pa.Table) -> None: ...


def apply(batch: Batch, transaction: Transaction) -> None:
    """Put the changes of `batch` into an open transaction."""
    for change in batch.changes:
        match change.verb:
            case "delete":
                transaction.delete(change.table, change.rows)
            case "upsert":
                transaction.upsert(change.table, change.rows)
            case "insert":
                transaction.insert(change.table, change.rows)


def loaded_rows(table_rows: Mapping[str, int], load: float) -> dict[str, int]:
    """How many rows of each table are there before the stream, for a share `load` of each."""
    if not 0 <= load < 1:
        raise ValueError(f"the fraction to load is from 0 to less than 1, not {load:g}")
    return {name: int(rows * load) for name, rows in table_rows.items()}


def initial_batch(tables: Mapping[str, pa.Table], loaded: Mapping[str, int]) -> Batch:
    """The transaction that brings in the first rows of each table; slices, no copies."""
    return Batch(
        tuple(
            Change("insert", name, rows.slice(0, loaded[name]))
            for name, rows in tables.items()
            if loaded[name]
        )
    )


def plan_stream(
    table_rows: Mapping[str, int], loaded: Mapping[str, int], options: StreamOptions
) -> Iterator[BatchPlan]:
    """The transactions after the initial load, as row numbers, each table at most once in each.

    `table_rows` tells the size of each table that takes part; `loaded[table]` rows are there at the
    start. State: 5 or 9 bytes per row.
    """
    return _Planner(table_rows, loaded, options).batches()


def prebatch(plans: Iterator[BatchPlan], tables: Mapping[str, pa.Table]) -> list[Batch]:
    """The transactions as Arrow tables, each in memory of its own, as a source would deliver them.

    Cost: one copy.
    """
    return [
        Batch(tuple(c for plan in batch for c in _changes(plan, tables[plan.table])))
        for batch in plans
    ]


def _changes(plan: TablePlan, rows: pa.Table) -> Iterator[Change]:
    definition = TABLES_BY_NAME[plan.table]
    if len(plan.deleted):
        keys = rows.select(list(definition.primary_key)).take(pa.array(plan.deleted))
        yield Change("delete", plan.table, keys)
    if len(plan.updated):
        yield Change("upsert", plan.table, _updated_rows(plan, rows, definition.update_groups))
    start, stop = plan.arriving
    inserts: list[pa.Table] = []
    if stop > start:
        inserts.append(rows.slice(start, stop - start))
    if len(plan.returned):
        inserts.append(_returned_rows(plan, rows, definition.primary_key))
    if len(plan.fleeting):
        inserts.append(rows.take(pa.array(plan.fleeting)))
    if inserts:
        yield Change("insert", plan.table, delivered(pa.concat_tables(inserts)))
    if len(plan.fleeting):
        keys = rows.select(list(definition.primary_key)).take(pa.array(plan.fleeting))
        yield Change("delete", plan.table, keys)


def delivered(rows: pa.Table) -> pa.Table:
    """A copy in memory of its own, as a source would deliver it."""
    size = pa.MockOutputStream()
    _write_rows(rows, size)
    message = pa.allocate_buffer(size.size())
    _write_rows(rows, pa.FixedSizeBufferWriter(message))
    return pa.ipc.open_stream(message).read_all()


def _write_rows(rows: pa.Table, sink: Any) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)


def _updated_rows(
    plan: TablePlan, rows: pa.Table, update_groups: Sequence[tuple[str, ...]]
) -> pa.Table:
    columns = []
    key = TABLES_BY_NAME[plan.table].primary_key
    for name in rows.column_names:
        groups = [i for i, group in enumerate(update_groups) if name in group]
        if name not in key:
            groups.append(len(update_groups))
        origin = np.where(np.isin(plan.groups, groups), plan.donors, plan.updated)
        columns.append(rows.column(name).take(pa.array(origin)))
    return pa.table(columns, schema=rows.schema)


def _returned_rows(plan: TablePlan, rows: pa.Table, key: Sequence[str]) -> pa.Table:
    columns = [
        rows.column(name).take(pa.array(plan.returned if name in key else plan.origins))
        for name in rows.column_names
    ]
    return pa.table(columns, schema=rows.schema)


class _Turns:
    """How many rows of each table have come after `position` rows of the round-robin sequence."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sizes)
        self.total = sum(sizes)

    def delivered(self, position: int) -> list[int]:
        """Rows per table; their sum is `position`. Requires: position <= total."""
        longest = max(self._sizes, default=0)
        turns = bisect.bisect_right(range(longest + 1), position, key=self._after) - 1
        counts = [min(turns, size) for size in self._sizes]
        extra = position - sum(counts)
        for place, size in enumerate(self._sizes):
            if extra and size > turns:
                counts[place] += 1
                extra -= 1
        return counts

    def _after(self, turns: int) -> int:
        return sum(min(turns, size) for size in self._sizes)


class _LiveRows:
    """The set of a table's live rows: sampled, added to and removed from in time O(change)."""

    def __init__(self, capacity: int, live: int) -> None:
        self._rows = np.arange(capacity, dtype=np.int32 if capacity < 1 << 31 else np.int64)
        self.size = live

    def sample(self, rng: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        """`count` different places at random, and the rows at them."""
        places = rng.choice(self.size, count, replace=False, shuffle=False)
        return places, self._rows[places].astype(np.int64)

    def add(self, rows: Ints) -> None:
        self._rows[self.size : self.size + len(rows)] = rows
        self.size += len(rows)

    def remove(self, places: Ints) -> None:
        """Rows from the end fill the holes."""
        kept = self.size - len(places)
        tail = np.ones(len(places), np.bool_)
        tail[places[places >= kept] - kept] = False
        self._rows[places[places < kept]] = self._rows[kept : self.size][tail]
        self.size = kept


class _Planner:
    def __init__(
        self,
        table_rows: Mapping[str, int],
        loaded: Mapping[str, int],
        options: StreamOptions,
    ) -> None:
        self._options = options
        self._names = [table.name for table in TABLES if table.name in table_rows]
        self._rows = [table_rows[name] for name in self._names]
        self._loaded = [loaded[name] for name in self._names]
        self._turns = _Turns([n - m for n, m in zip(self._rows, self._loaded, strict=True)])
        self._live = [_LiveRows(n, m) for n, m in zip(self._rows, self._loaded, strict=True)]
        self._is_changed = [np.zeros(rows, np.bool_) for rows in self._rows]
        self._rng = np.random.default_rng(options.seed)
        # Rows that will return: (batch number from which on, table, rows), in that order.
        self._returning: deque[tuple[int, int, Ints]] = deque()
        self._floor = self._churn_floor()

    def _churn_floor(self) -> float:
        """The least part of the churn that a table gets."""
        options = self._options
        returns = options.deletes / 2 * _RETURN_SHARE
        changes = self._turns.total / (1 - options.deletes - returns)
        if options.changes is not None:
            changes = min(changes, options.changes)
        churn = max(1.0, options.deletes * changes)
        return min(MINIMUM_CHURN_ROWS / churn, _MAXIMUM_FLOOR)

    def batches(self) -> Iterator[BatchPlan]:
        options = self._options
        position = changed = number = 0
        delivered = [0] * len(self._names)
        while position < self._turns.total and (
            options.changes is None or changed < options.changes
        ):
            size = options.batch_rows
            if options.changes is not None:
                size = min(size, options.changes - changed)
            wanted = int((changed + size) * options.deletes) - int(changed * options.deletes)
            churn = [self._churn(t, n, number) for t, n in enumerate(self._share_out(wanted))]
            inserts = size - sum(len(deleted) + len(updated) for deleted, updated, *_ in churn)
            due = self._return(number, (inserts + 1) // 2)
            inserts -= sum(len(rows) for rows in due)
            returned, fleeting = self._part_fleeting(number, due, churn, inserts)
            inserts -= sum(len(rows) for rows in fleeting)
            position = min(position + inserts, self._turns.total)
            before, delivered = delivered, self._turns.delivered(position)
            plans: list[TablePlan] = []
            for t, name in enumerate(self._names):
                deleted, updated, donors, groups = churn[t]
                arriving = (self._loaded[t] + before[t], self._loaded[t] + delivered[t])
                origins = self._origins(t, returned[t], deleted)
                plan = TablePlan(
                    name, deleted, updated, donors, groups, returned[t], origins, fleeting[t],
                    arriving,
                )  # fmt: skip
                if plan.rows:
                    self._live[t].add(returned[t])
                    self._live[t].add(np.arange(*arriving))
                    changed += plan.rows
                    plans.append(plan)
            yield tuple(plans)
            number += 1

    def _share_out(self, churn: int) -> list[int]:
        """The number of earlier rows to touch, per table."""
        live = np.array([rows.size for rows in self._live])
        if churn == 0 or not live.any():
            return [0] * len(live)
        weights = np.where(live > 0, np.maximum(live / live.sum(), self._floor), 0)
        even = self._options.even * (live > 0) / np.count_nonzero(live)
        shares = even + (1 - self._options.even) * weights / weights.sum()
        counts = self._rng.multinomial(churn, shares)
        return [int(count) for count in np.minimum(counts, (live + 1) // 2)]

    def _churn(self, t: int, count: int, number: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Delete and update `count` live rows: (deleted, updated, donors, update groups)."""
        if count == 0:
            return _NONE, _NONE, _NONE, _NONE
        rng = self._rng
        # One more, to exchange keys with a row that leaves and returns alone.
        has_room = self._options.batch_rows >= _MINIMUM_EXCHANGE_BATCH_ROWS
        spare = int(has_room and self._live[t].size > count)
        places, rows = self._live[t].sample(rng, count + spare)
        is_deleted = np.append(rng.random(count) < 0.5, np.zeros(spare, np.bool_))
        fate = rng.random(count + spare)
        is_small = self._rows[t] <= SMALL_TABLE_ROWS
        returning = 1.0 if is_small else _RETURN_SHARE
        same = _SMALL_SAME_TRANSACTION_SHARE if is_small else _SAME_TRANSACTION_SHARE
        is_at_once = is_deleted & (fate < returning * same)
        is_later = is_deleted & (fate < returning) & ~is_at_once
        if spare and is_at_once.sum() == 1:
            is_deleted[-1] = is_at_once[-1] = True
        deleted, updated = rows[is_deleted], rows[:count][~is_deleted[:count]]
        at_once, later = rows[is_at_once], rows[is_later]
        self._live[t].remove(places[is_deleted])
        is_changed = self._is_changed[t]
        is_changed[deleted] = False
        if len(at_once):
            self._returning.appendleft((number, t, at_once))
        if len(later):
            self._returning.append((number + RETURN_DELAY_BATCHES, t, later))
        donors = rng.integers(0, self._rows[t], len(updated))
        last_group = len(TABLES_BY_NAME[self._names[t]].update_groups)
        groups = rng.integers(0, last_group, len(updated))
        is_hot = rng.random(len(updated)) < self._options.skew
        donors = np.where(is_hot, min(HOT_ROW, self._rows[t] - 1), donors)
        groups = np.where(is_hot, last_group, groups)
        donors = np.where(is_changed[updated], updated, donors)
        is_changed[updated] ^= True
        return deleted, updated, donors, groups

    def _return(self, number: int, most: int) -> list[Ints]:
        """Up to `most` rows whose time to return has come, per table."""
        parts: list[list[Ints]] = [[] for _ in self._names]
        while most and self._returning and self._returning[0][0] <= number:
            due, t, rows = self._returning.popleft()
            if len(rows) > most:
                self._returning.appendleft((due, t, rows[most:]))
            parts[t].append(rows[:most])
            most -= min(most, len(rows))
        return [np.concatenate(rows) if rows else _NONE for rows in parts]

    def _part_fleeting(
        self, number: int, due: Sequence[Ints], churn: Sequence[tuple[Ints, ...]], most: int
    ) -> tuple[list[Ints], list[Ints]]:
        """Of the rows that are `due`, per table: those that stay, and up to `most` that do not."""
        returned, fleeting = list(due), [_NONE for _ in due]
        for t, rows in enumerate(due):
            leaves = (self._rng.random(len(rows)) < _FLEETING_SHARE) & ~np.isin(rows, churn[t][0])
            leaves &= np.cumsum(leaves) <= most
            if leaves.any():
                returned[t], fleeting[t] = rows[~leaves], rows[leaves]
                most -= len(fleeting[t])
                self._returning.append((number + RETURN_DELAY_BATCHES, t, fleeting[t]))
        return returned, fleeting

    def _origins(self, t: int, returned: Ints, deleted: Ints) -> Ints:
        """Whose values each returned row has: its own, or those of a row that leaves."""
        origins: Ints = returned.copy()
        is_at_once = np.isin(returned, deleted)
        exchanged = np.flatnonzero(is_at_once)[:2]
        origins[exchanged] = origins[exchanged[::-1]]
        leaving = deleted[~np.isin(deleted, returned)]
        rekeyed = np.flatnonzero(~is_at_once)[: len(leaving)]
        rekeyed = rekeyed[self._rng.random(len(rekeyed)) < _REKEYED_SHARE]
        origins[rekeyed] = leaving[: len(rekeyed)]
        self._is_changed[t][returned[origins != returned]] = True
        return origins
