"""Spark as far as the executor uses it, whose tasks run here, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

#: What `mapInArrow` takes.
Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class InProcess:
    """`called`: told of each partition before it is computed, by the number of `mapInArrow`."""

    def __init__(self, called: Callable[[int, int], None] = lambda stage, partition: None) -> None:
        self._called = called

    def range(self, start: int, end: int, step: int, partitions: int) -> Frame:
        assert (start, step, partitions) == (0, 1, end)
        return Frame([pa.table({"id": [i]}).to_batches() for i in range(end)], self._called, 0)


class Frame:
    def __init__(
        self,
        partitions: list[list[pa.RecordBatch]],
        called: Callable[[int, int], None],
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
        return pa.Table.from_batches(batches)
