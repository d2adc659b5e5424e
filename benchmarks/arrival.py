"""Rows of TPC-H tables in round-robin order of arrival, cut into batches as they are asked for.

A whole stream in batches of one row would take hours. A `RoundRobin` stands somewhere in the stream
and goes on from there in batches of any size, so that small batches can be measured in windows
spread over the whole stream, with large batches between them, and the windows see what the whole
stream would: small tables complete, indexes grown.

Invariant: the batches applied so far hold each row of the stream up to `position` once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa

import sqlview
from tpch import stream


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
        batches = self.next(batch_rows, steps)
        for batch in batches:
            found.append(step(db, batch))
            if sum(found) >= seconds:
                break
        done = batches[: len(found)]
        self.arrive(done)
        return sum(batch.rows for batch in done), found


def step(db: sqlview.Session, batch: stream.Batch) -> float:
    """Apply one batch as a transaction; the seconds from its begin to its commit."""
    started = time.perf_counter()
    with db.transaction() as tx:
        stream.apply(batch, tx)
    return time.perf_counter() - started
