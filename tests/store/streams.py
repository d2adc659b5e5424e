"""Streaming queries whose process is killed, Spark with it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import sqlview

#: Takes what is in `files` into the store, a file a batch, and says what it is at.
READER = """
import os
import sys
import threading
from pathlib import Path
from pyspark.sql import SparkSession
import sqlview
# Whoever started this is gone when its end of the pipe is.
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
root = Path(sys.argv[1])
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
db = sqlview.connect(root / "store", spark=spark)
db.sql("CREATE TABLE IF NOT EXISTS t (k BIGINT)")
db.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS sums AS SELECT count(*) AS n, sum(k) AS s FROM t")
sink = db.sink("t")
def said(batch, number):
    print("begin", number, flush=True)
    sink(batch, number)
    print("done", number, flush=True)
reader = spark.readStream.schema("k BIGINT").option("maxFilesPerTrigger", 1)
writer = reader.parquet(str(root / "files")).writeStream.foreachBatch(said)
writer = writer.option("checkpointLocation", str(root / "checkpoint"))
writer.trigger(availableNow=True).start().awaitTermination()
print("over", flush=True)
db.close()
"""
_FILE_ROWS = 3
_FILES_A_RUN = 8


class Streamed:
    """A store that one streaming query after the other fills, in `directory`."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._directory = directory
        self._files = directory / "files"
        self._files.mkdir()
        self._rng = random.Random(seed)
        self._sent = 0

    def killed(self) -> int:
        """Send some files, and kill a query at a random time. Returns how many are in the store:
        the first ones, each once, those among them that the query was done with."""
        for _ in range(self._rng.randrange(_FILES_A_RUN)):
            self._send()
        done = self._run(self._rng.randrange(2 * _FILES_A_RUN), self._rng.random() * 0.3)
        taken = self.taken()
        assert done <= taken <= self._sent, f"{taken} taken, {done} done, {self._sent} sent"
        return taken

    def finished(self) -> int:
        """Let a query come to its end. Returns how many files are in the store: all."""
        self._send()
        self._run(None, 0.0)
        assert self.taken() == self._sent
        return self._sent

    def taken(self) -> int:
        """How many files are in the store, of which it has the first ones, each once."""
        path = self._directory / "store"
        if not (path / "store.json").exists():
            return 0
        with sqlview.connect(path) as db:
            if "sums" not in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
                return 0
            rows = sorted(db._read("t")["k"].to_pylist())
            assert rows == list(range(len(rows)))
            assert len(rows) % _FILE_ROWS == 0, f"{len(rows)} rows"
            assert db.verify("sums", engine="duckdb").equal
            return len(rows) // _FILE_ROWS

    def _send(self) -> None:
        first = self._sent * _FILE_ROWS
        path = self._files / f"{self._sent:05}.parquet"
        rows = pa.table({"k": pa.array(range(first, first + _FILE_ROWS), pa.int64())})
        hidden = path.with_name(f".{path.name}")
        pq.write_table(rows, hidden)
        os.utime(hidden, (self._sent, self._sent))  # Spark takes them in this order
        hidden.rename(path)
        self._sent += 1

    def _run(self, lines: int | None, seconds: float) -> int:
        """Run a query, and kill it some seconds after it has said so many lines, if it has not come
        to its end. Returns how many batches, from the first run on, are done."""
        command = [sys.executable, "-c", READER, str(self._directory)]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as query:
            assert query.stdout is not None
            said: list[str] = []
            while lines is None or len(said) < lines:
                line = query.stdout.readline()
                if not line:
                    break
                said.append(line)
            if lines is not None:
                time.sleep(seconds)
                os.killpg(query.pid, signal.SIGKILL)
            said += query.stdout.readlines()
        return max(
            (int(line.split()[1]) + 1 for line in said if line.startswith("done")), default=0
        )
