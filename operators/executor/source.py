"""A planned read as Spark's data source has it: what travels to the processes that plan and read.

They are Python processes of Spark's own, which load this module and no kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from operators.state.reading import Part, Reading


class PlannedSource(DataSource):
    """What tasks of Spark read of a store at one epoch."""

    def __init__(self, options: Mapping[str, str], reading: Reading, parts: list[Part]) -> None:
        super().__init__(dict(options))
        self._reading = reading
        self._parts = parts

    @classmethod
    def name(cls) -> str:
        return "sqlview"

    def reader(self, schema: StructType) -> DataSourceReader:
        return PlannedReader(self._reading, self._parts, to_arrow_schema(schema, timezone="UTC"))


class PlannedPart(InputPartition):
    """What one task reads."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part


class PlannedReader(DataSourceReader):
    """`schema`: what Spark expects of a batch."""

    def __init__(self, reading: Reading, parts: list[Part], schema: pa.Schema) -> None:
        self._reading = reading
        self._parts = parts
        self._schema = schema

    def __getstate__(self) -> tuple[Reading, pa.Schema]:
        """What each task needs: its part comes by itself."""
        return self._reading, self._schema

    def __setstate__(self, state: tuple[Reading, pa.Schema]) -> None:
        (self._reading, self._schema), self._parts = state, []

    def partitions(self) -> list[InputPartition]:
        self._reading.renew()
        return [PlannedPart(part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PlannedPart)
        for batch in self._reading.batches(partition.part):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
