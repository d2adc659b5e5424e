"""The second oracle: the same text in real Spark, for what DuckDB does differently."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class SparkOracle:
    """Base tables as temporary views of a Spark session, and queries over them."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._names: list[str] = []

    def load(self, name: str, table: pa.Table) -> None:
        """Create or replace table `name`."""
        self._spark.createDataFrame(table).createOrReplaceTempView(name)
        self._names.append(name)

    def create_view(self, name: str, text: str) -> None:
        """Let queries read `text` under `name`."""
        self._spark.sql(text).createOrReplaceTempView(name)
        self._names.append(name)

    def query(self, text: str) -> pa.Table:
        """The result with Spark's own types.

        Raises: Spark's exceptions, where the text fails under ANSI rules.
        """
        table = self._spark.sql(text).toArrow()
        return table if isinstance(table, pa.Table) else pa.table(table)

    def close(self) -> None:
        for name in self._names:
            self._spark.catalog.dropTempView(name)
