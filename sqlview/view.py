"""Reading: a view's rows at the current epoch, and the result of a statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from operators.rendering import python_values, texts
from planner.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Result:
    """Rows with names and types, as Arrow, Python tuples or a Spark DataFrame.

    `str()` is a small table for people. `to_df` is a snapshot: it does not follow later changes.
    """

    def __init__(self, table: Callable[[], pa.Table], to_df: Callable[[], DataFrame]) -> None:
        self._table = table
        self._to_df = to_df

    def to_arrow(self) -> pa.Table:
        return self._table()

    def to_df(self) -> DataFrame:
        return self._to_df()

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows as tuples of Python values.

        Raises: DataError for a date or timestamp outside the years 1 to 9999, which Python lacks.
        """
        table = self._table()
        if table.num_columns == 0:
            return [()] * table.num_rows
        columns = (
            python_values(c, name)
            for c, name in zip(table.columns, table.column_names, strict=True)
        )
        return list(zip(*columns, strict=True))

    def __len__(self) -> int:
        rows: int = self._table().num_rows
        return rows

    def __str__(self) -> str:
        table = self._table()
        cells = list(zip(*map(texts, table.columns), strict=True))
        widths = [
            max([len(name), *(len(row[i]) for row in cells)])
            for i, name in enumerate(table.schema.names)
        ]
        lines = [table.schema.names, ["-" * w for w in widths], *cells]
        padded = ["  ".join(v.ljust(w) for v, w in zip(r, widths, strict=True)) for r in lines]
        return "\n".join(line.rstrip() for line in padded)


class ViewReader(Result):
    """A materialized view. Every read sees the epoch that is current when it is made.

    Raises on reading: ViewError while a row under the view cannot be computed.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        table: Callable[[], pa.Table],
        to_df: Callable[[], DataFrame],
        changes: Callable[[], int],
    ) -> None:
        super().__init__(table, to_df)
        self.name = name
        self.schema = schema
        self._changes = changes

    @property
    def changes(self) -> int:
        """Rows of signed deltas that the view has emitted since CREATE."""
        return self._changes()
