"""Rows of TPC-H tables in an order of arrival, cut into batches as they are asked for.

A whole stream in batches of one row would take hours. A `RoundRobin` stands somewhere in the stream
and goes on from there in batches of any size, so that small batches can be measured in windows
spread over the whole stream, with large batches between them, and the windows see what the whole
stream would: small tables complete, indexes grown.

Invariant: the batches applied so far hold each row of the stream up to `position` once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import sqlview
from tpch import stream
from tpch.schema import TABLES

#: Batches of a window that are cut at a time: at most so many, of so many rows together.
_CUT_BATCHES, _CUT_ROWS = 100, 100_000


@dataclass(frozen=True, slots=True)
class Numbered:
    """A batch, and for each of its changes the place of each row in the batch, int64[n]."""

    batch: stream.Batch
    places: tuple[stream.Ints, ...]


class RoundRobin:
    """The arrival of `tables`. State: how many rows of each have arrived."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = tables
        self._rows = {name: rows.num_rows for name, rows in tables.items()}
        self._arrived = dict.fromkeys(tables, 0)
        self.total = sum(self._rows.values())

    @property
    def position(self) -> int:
        return sum(self._arrived.values())

    def arrived(self, table: str) -> int:
        """How many rows of a table have arrived."""
        return self._arrived[table]

    def next(self, batch_rows: int, steps: int) -> list[stream.Batch]:
        """The next batches, `steps` at most; none has arrived until `arrive` is told of it."""
        options = stream.StreamOptions(batch_rows, changes=max(batch_rows * steps, 1))
        plans = stream.plan_stream(self._rows, self._arrived, options)
        return stream.prebatch(plans, self._tables) if steps else []

    def arrive(self, batches: Sequence[stream.Batch]) -> None:
        for batch in batches:
            for change in batch.changes:
                self._arrived[change.table] += change.rows.num_rows

    def numbered(self, batch_rows: int) -> Iterator[Numbered]:
        """What has not arrived, in batches whose rows know their places; none has arrived yet."""
        left = {name: self._rows[name] - self._arrived[name] for name in self._tables}
        done = dict.fromkeys(left, 0)
        for batch in self.next(batch_rows, sum(left.values())):
            first = sum(done.values())
            places: list[stream.Ints] = []
            for change in batch.changes:
                start = done[change.table]
                done[change.table] += change.rows.num_rows
                places.append(_turns(left, change.table, start, done[change.table]) - first)
            yield Numbered(batch, tuple(places))

    def apply_up_to(self, db: sqlview.Session, position: int, batch_rows: int) -> None:
        """Apply what comes before `position`, in steps of `batch_rows`, untimed."""
        while self.position < position:
            ahead = position - self.position
            batches = self.next(min(batch_rows, ahead), 1)
            self.arrive(batches)
            for batch in batches:
                step(db, batch)

    def window(
        self, db: sqlview.Session, batch_rows: int, steps: int, seconds: float
    ) -> tuple[int, list[float]]:
        """Apply the next batches until there were `steps` or the time is over.

        Returns: their rows, and the seconds of each step.
        """
        found: list[float] = []
        rows = 0
        while len(found) < steps and sum(found) < seconds:
            cut = max(1, min(steps - len(found), _CUT_BATCHES, _CUT_ROWS // batch_rows))
            batches = self.next(batch_rows, cut)
            if not batches:
                break
            for batch in batches:
                found.append(step(db, batch))
                self.arrive([batch])
                rows += batch.rows
                if sum(found) >= seconds:
                    break
        return rows, found


class TableAfterTable(RoundRobin):
    """The arrival of one table after the other, small ones first."""

    def next(self, batch_rows: int, steps: int) -> list[stream.Batch]:
        arrived = dict(self._arrived)
        found: list[stream.Batch] = []
        while len(found) < steps and sum(arrived.values()) < self.total:
            changes: list[stream.Change] = []
            missing = batch_rows
            for table in TABLES:
                rows = min(missing, self._rows.get(table.name, 0) - arrived.get(table.name, 0))
                if rows:
                    part = self._tables[table.name].slice(arrived[table.name], rows)
                    changes.append(stream.Change("insert", table.name, stream.delivered(part)))
                    arrived[table.name] += rows
                    missing -= rows
            found.append(stream.Batch(tuple(changes)))
        return found


def _turns(left: Mapping[str, int], table: str, start: int, stop: int) -> stream.Ints:
    """Where in the stream rows [start, stop) of a table come, if so many rows of each are left."""
    row = np.arange(start, stop)
    # Before the turn of row i each table has given i rows, or all that it had.
    before = sum((np.minimum(rows, row) for rows in left.values()), np.zeros_like(row))
    names = [t.name for t in TABLES if t.name in left]
    for name in names[: names.index(table)]:
        before += left[name] > row
    return before


def step(db: sqlview.Session, batch: stream.Batch) -> float:
    """Apply one batch as a transaction; the seconds from its begin to its commit."""
    started = time.perf_counter()
    with db.transaction() as tx:
        stream.apply(batch, tx)
    return time.perf_counter() - started


def physical_step(db: sqlview.Session, numbered: Numbered, time_rows: int) -> float:
    """Apply one batch as transactions of `time_rows` rows, in one step; the seconds from their
    begin to their commit."""
    times = [places // time_rows for places in numbered.places]
    started = time.perf_counter()
    with db.transactions() as txs:
        for change, each in zip(numbered.batch.changes, times, strict=True):
            assert change.verb == "insert", "rows only arrive here"
            txs.insert(change.table, change.rows, times=each)
    return time.perf_counter() - started
