"""The Python Data Source `sqlview`: how Spark reads a snapshot that lies in files.

A *snapshot* is a directory of Arrow IPC files that never change, one partition of the DataFrame
each. `sqlview.spark` writes one when a table or view is too large to hand to Spark through the
driver, and reads it back with `spark.read.format("sqlview").load(directory)`.

Invariant: Spark's columns are those of the table, in type, order and nullability; their names in
the files are numbers, since Spark reads by name and a table may have a name twice. Filters are never
pushed down: in pyspark 4.3 a pushed filter leaks into later reads of the same source.

The classes travel to Spark's workers by value (see `sqlview.spark`): a worker that only reads
a snapshot need not load the rest of the package, which takes longer than the reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

FORMAT = "sqlview"
SUFFIX = ".arrow"

#: Rows of one file, and of one record batch inside it.
FILE_ROWS = 131_072
BATCH_ROWS = 16_384


class SnapshotSource(DataSource):
    """`path`: the snapshot's directory."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        with pa.memory_map(_files(self.options["path"])[0]) as file:
            return spark_schema(pa.ipc.open_file(file).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return SnapshotReader(self.options["path"])


class SnapshotReader(DataSourceReader):
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(path) for path in _files(self._directory)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as file:
            batches = pa.ipc.open_file(file)
            for i in range(batches.num_record_batches):
                yield batches.get_batch(i)


def _files(directory: str) -> list[str]:
    names = sorted(name for name in os.listdir(directory) if name.endswith(SUFFIX))
    return [os.path.join(directory, name) for name in names]


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's columns for Arrow's: timestamps without a zone are TIMESTAMP_NTZ, whatever the
    session's `spark.sql.timestampType` says."""
    struct = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    assert isinstance(struct, StructType)
    return struct


def write_snapshot(table: pa.Table, directory: Path) -> None:
    """Write `table` as a snapshot: at least one file, of at most FILE_ROWS rows each."""
    table = table.rename_columns([str(i) for i in range(table.num_columns)])
    directory.mkdir()
    for number, start in enumerate(range(0, max(table.num_rows, 1), FILE_ROWS)):
        path = directory / f"{number:06}{SUFFIX}"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table.slice(start, FILE_ROWS), max_chunksize=BATCH_ROWS)
