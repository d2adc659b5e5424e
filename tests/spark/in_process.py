"""Spark as far as the executor uses it, whose tasks run here, one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import sqlview
from operators.executor.spark import SparkExecutor
from sqlview import Session

#: What `mapInArrow` takes.
Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
#: Told of each partition before it is computed, by the number of `mapInArrow`.
Called = Callable[[int, int], None]


class InProcess:
    def __init__(self, called: Called) -> None:
        self._called = called

    def range(self, start: int, end: int, step: int, partitions: int) -> Frame:
        assert (start, step, partitions) == (0, 1, end)
        return Frame([pa.table({"id": [i]}).to_batches() for i in range(end)], self._called, 0)

    def addTag(self, tag: str) -> None:
        """Jobs have no tags: they end before anybody could cancel them."""

    removeTag = interruptTag = addTag


class Frame:
    def __init__(
        self,
        partitions: list[list[pa.RecordBatch]],
        called: Called,
        stage: int,
    ) -> None:
        self._partitions, self._called, self._stage = partitions, called, stage

    def mapInArrow(self, function: Function, schema: str) -> Frame:
        made: list[list[pa.RecordBatch]] = []
        for number, batches in enumerate(self._partitions):
            self._called(self._stage, number)
            made.append(list(function(iter(batches))))
        return Frame(made, self._called, self._stage + 1)

    def repartitionById(self, count: int, column: str) -> Frame:
        """Rows come in any order: here in the reverse one."""
        made: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        for batch in (b for batches in reversed(self._partitions) for b in reversed(batches)):
            targets = batch.column(column).to_pylist()
            for target in dict.fromkeys(targets):
                rows = [i for i, t in enumerate(targets) if t == target]
                made[target].append(batch.take(rows[::-1]))
        return Frame(made, self._called, self._stage)

    def toArrow(self) -> pa.Table:
        batches: list[Any] = [b for some in self._partitions for b in some]
        return pa.Table.from_batches(batches) if batches else pa.table({})


def _nothing(stage: int, partition: int) -> None:
    """Nobody looks on."""


@contextmanager
def opened(
    path: Path,
    called: Called = _nothing,
    step_limits: dict[str, int] | None = None,
    tasks: int = 4,
    least_rows: int = 1,
    **how: Any,
) -> Iterator[Session]:
    """A store whose indexes and views some tasks build, which run here, views of `least_rows` at
    least; `called`: see InProcess; with `step_limits` they run steps, too. Whatever happens, no
    file of a job is left."""
    with sqlview.connect(path, **how) as db:
        assert db._store is not None
        directory = path / "session-1"
        directory.mkdir(0o700, exist_ok=True)
        spark: Any = InProcess(called)
        limits = {"small_index_rows": 20} | (step_limits or {})
        executor = SparkExecutor(spark, str(directory), tasks, values=db._store.values, **limits)
        if step_limits is not None:
            db._inline = executor  # type: ignore[assignment]
        dataflow = db._dataflow
        dataflow.shared.build = lambda *asked: executor.build_index(dataflow, *asked)
        dataflow.shared.match = lambda *asked: executor.match(dataflow, *asked)
        dataflow.shared.evaluate = lambda filters: executor.evaluate(dataflow, filters)
        dataflow.hydrate = lambda *asked: executor.hydrate(dataflow, *asked, least_rows) is not None
        yield db
        assert executor.failures == 0 or called is not _nothing
        executor.close()
        assert not directory.exists() or os.listdir(directory) == []
