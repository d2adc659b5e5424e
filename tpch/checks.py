"""Verification: each view against a recompute from scratch, at one epoch or at all of them.

Two oracles. `SessionOracle` is what every user has: VERIFY MATERIALIZED VIEW, which recomputes from
the session's own tables. `StreamOracle` is told of the transactions itself and keeps the base
tables in DuckDB, in step: quick enough for every epoch, and a table of the session that lost a row
does not take the recompute with it.

Invariant: a view counts as verified only at epochs at which an oracle compared all its rows.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

import sqlview
from sqlview import oracle
from tpch.queries import Query, tables_of
from tpch.report import Difference
from tpch.schema import TABLES_BY_NAME
from tpch.stream import Batch


class Oracle(Protocol):
    """Follows one session from its first transaction on."""

    def apply(self, batch: Batch) -> None:
        """The session has committed `batch`."""

    def difference(self, db: sqlview.Session, query: Query) -> Difference | None:
        """How the view of `query` differs from its recompute now; None if it does not."""

    def close(self) -> None:
        """Release what the oracle keeps."""


OracleMaker: TypeAlias = Callable[[Sequence[Query]], Oracle]


class SessionOracle:
    """The session's own VERIFY. State: none."""

    def __init__(self, queries: Sequence[Query]) -> None:
        pass

    def apply(self, batch: Batch) -> None:
        pass

    def difference(self, db: sqlview.Session, query: Query) -> Difference | None:
        found = db.verify(query.name)
        if found.error is not None or found.recompute_error is not None:
            # None of the queries fails on TPC-H's data: there are no rows to compare.
            raise sqlview.ViewError(str(found))
        return _difference(query.name, found.epoch, found.difference)

    def close(self) -> None:
        pass


class StreamOracle:
    """DuckDB, fed with the stream. State: a copy of the tables that the queries read."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._oracle = oracle.DuckDBOracle()
        for name in tables_of(queries):
            table = TABLES_BY_NAME[name]
            self._oracle.load(name, table.arrow_schema.empty_table(), table.primary_key)

    def apply(self, batch: Batch) -> None:
        for change in batch.changes:
            rows: pa.Table | None = change.rows
            match change.verb:
                case "delete":
                    self._oracle.apply(change.table, None, rows)
                case "upsert":
                    self._oracle.apply(change.table, rows, rows)
                case "insert":
                    self._oracle.apply(change.table, rows, None)

    def difference(self, db: sqlview.Session, query: Query) -> Difference | None:
        view = db.view(query.name)
        expected = self._oracle.query(query.sql, view.schema)
        found = oracle.compare(view.to_arrow(), expected, self._oracle.is_ordered(query.sql))
        return _difference(query.name, db.epoch, found)

    def close(self) -> None:
        self._oracle.close()


def _difference(view: str, epoch: int, found: oracle.Difference | None) -> Difference | None:
    if found is None:
        return None
    return Difference(view, epoch, found.missing, found.extra, found.position)


class ChangedEpochs:
    """In how many epochs each view has changed. State: the epochs, per view.

    What cancels within an epoch is no change.
    """

    def __init__(self) -> None:
        self._epochs: dict[str, set[int]] = {}

    def follow(self, db: sqlview.Session, queries: Sequence[Query]) -> None:
        """Count from now on."""
        for query in queries:
            epochs = self._epochs.setdefault(query.name, set())
            db.subscribe(query.name, functools.partial(self._add, epochs))

    def count(self, view: str) -> int | None:
        """None if the view is not followed."""
        return len(self._epochs[view]) if view in self._epochs else None

    @staticmethod
    def _add(epochs: set[int], deltas: pa.Table) -> None:
        if deltas.num_rows:
            rows = [name for name in deltas.column_names if name != "__diff"]
            # By position: the names of a view's columns need not differ.
            deltas = deltas.rename_columns([*map(str, range(len(rows))), "diff"])
            net = deltas.group_by([str(i) for i in range(len(rows))]).aggregate([("diff", "sum")])
            changed = net.filter(pc.not_equal(net.column("diff_sum"), 0))
            epochs.update(changed.column(str(len(rows) - 1)).to_pylist())


@dataclass(slots=True)
class Checks:
    """Results of verification over a run, and what it cost."""

    seconds: float = 0.0
    epochs: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def apply(self, oracle: Oracle, batch: Batch) -> None:
        started = time.perf_counter()
        oracle.apply(batch)
        self.seconds += time.perf_counter() - started

    def run(self, oracle: Oracle, db: sqlview.Session, queries: Sequence[Query]) -> bool:
        """Verify each view at the current epoch; whether all were right so far."""
        started = time.perf_counter()
        for query in queries:
            difference = oracle.difference(db, query)
            self.epochs[query.name] = self.epochs.get(query.name, 0) + 1
            if difference is not None:
                self.differences.append(difference)
        self.seconds += time.perf_counter() - started
        return not self.differences

    def verdict(self, view: str) -> bool | None:
        """Whether the view was always right; None if it was never verified."""
        if view not in self.epochs:
            return None
        return all(difference.view != view for difference in self.differences)
