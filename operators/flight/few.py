"""Few rows of an Arrow batch, all columns of which one kernel has read at once.

Most columns of a wide table are stored and never read by anybody: the kernels that check and store
rows take them from here as they are (`operators.kernels.batches`), and a column is made when it is
first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import pyarrow as pa

from operators.flight.column import Column, Ints
from planner.calculus import types as t


class FewRows(Sequence[Column]):
    """The columns of a table, as a sequence. `values` int64[c, n] and `heads` int64[c, HEAD_WORDS]
    are as batches.take made them; columns that were not taken, `left`, are given.
    """

    __slots__ = ("_batch", "_kinds", "_made", "heads", "left", "values")

    def __init__(
        self,
        batch: pa.RecordBatch | None,
        kinds: Sequence[tuple[int, t.SqlType, bool]],
        values: Ints,
        heads: Ints,
        left: Sequence[int] = (),
    ) -> None:
        """`batch`: where there are texts, which lie in its memory. `kinds`: of each column its
        place in the batch, its type, and whether it is of texts."""
        self._batch: Any = batch
        self._kinds = kinds
        self.values = values
        self.heads = heads
        self.left = left
        self._made: list[Column | None] = [None] * len(kinds)

    def give(self, place: int, column: Column) -> None:
        """A column that was not taken."""
        self._made[place] = column

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, place: int) -> Column: ...
    @overload
    def __getitem__(self, place: slice) -> list[Column]: ...
    def __getitem__(self, place: int | slice) -> Column | list[Column]:
        if isinstance(place, slice):
            return list(self)[place]
        made = self._made[place]
        if made is None:
            at, kind, textual = self._kinds[place]
            made = Column(kind, self._batch.column(at) if textual else self.values[place])
            self._made[place] = made
        return made

    def __iter__(self) -> Iterator[Column]:
        return map(self.__getitem__, range(len(self._made)))
