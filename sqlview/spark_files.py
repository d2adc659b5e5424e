"""Files for Spark: the rows of a table or view at one epoch, which Spark's tasks read.

A *snapshot* is a directory of Arrow IPC files that never change, each of which is a part of a read
(`operators.state.reading`), by `mapInArrow`. A Python Data Source would do the same behind
`spark.read.format`, but costs 0.3 s more for each query: its planning runs in Python processes of
its own, on the driver, where an environment that was shipped to the executors with `--archives`
does not exist. It is for other applications (`sqlview.datasource`).

Invariant: Spark's columns are those of the table, in type, order and nullability; in the files they
are named by number, since Spark reads by name and a table may have a name twice.
"""

from __future__ import annotations

import os

import pyarrow as pa

from operators.state.files import make_directory, written

#: Rows of one file, and of one record batch inside it.
FILE_ROWS = 131_072
BATCH_ROWS = 16_384


def numbered(table: pa.Table) -> pa.Table:
    """The table with its columns named 0, 1, 2 …"""
    return table.rename_columns([str(i) for i in range(table.num_columns)])


def write(table: pa.Table, directory: str) -> list[str]:
    """Write a table into a new directory of a session's, which is made anew if it is gone, as one
    file or more of at most FILE_ROWS rows; their paths. Raises: OSError."""
    make_directory(os.path.dirname(directory))
    make_directory(directory)
    paths: list[str] = []
    for start in range(0, max(table.num_rows, 1), FILE_ROWS):
        paths.append(write_file(table.slice(start, FILE_ROWS), directory, len(paths)))
    return paths


def write_file(table: pa.Table, directory: str, number: int) -> str:
    """Write a file into a snapshot's directory; its path. Raises: OSError."""
    path = os.path.join(directory, f"{number:06}.arrow")
    with written(path) as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)
    return path
