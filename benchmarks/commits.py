"""Commits a second of several threads, each of whose transactions is on disk when it returns:
python -m benchmarks.commits
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from pathlib import Path

import sqlview

_THREADS, _ROWS, _SECONDS, _RUNS = (1, 2, 4, 8), (1, 100), 1.5, 3


def rate(threads: int, rows: int, seconds: float) -> float:
    """Commits a second; all of them are there at the end."""
    counts = [0] * threads
    with (
        tempfile.TemporaryDirectory(dir=".") as directory,
        sqlview.connect(Path(directory) / "store") as db,
    ):
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        start = threading.Barrier(threads)

        def work(number: int) -> None:
            start.wait()
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                first = number * 10**9 + counts[number] * rows
                with db.transaction() as tx:
                    keys = list(range(first, first + rows))
                    tx.insert("t", {"k": keys, "g": [number] * rows})
                counts[number] += 1

        workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        took = time.perf_counter() - started
        assert db.epoch == sum(counts)
        assert list(db.view("v")) == [(sum(counts) * rows,)]
    return sum(counts) / took


def main() -> int:
    rate(1, 1, 0.5)
    for rows in _ROWS:
        for threads in _THREADS:
            found = statistics.median(rate(threads, rows, _SECONDS) for _ in range(_RUNS))
            print(f"{threads} threads, {rows} rows: {found:.0f} commits a second", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
