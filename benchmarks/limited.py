"""State larger than memory: python -m benchmarks.limited --sf 10 --memory-limit 6GiB

All eight tables, with all columns, are loaded from Parquet files into a store in transactions of
`--load-rows`, and the 22 views made over them; then rows that were held back arrive, go and come
again in steps of 1,000. Printed are the time of each part, and the most memory that belongs to no
file. In the end another process opens the store, and compares each view with what DuckDB makes of
the Parquet files, which is what the tables hold then.

With `--master 'local-cluster[2,1,1024]'` tables are loaded from DataFrames, all rows at once, and
views created by that Spark's tasks; steps stay in this process. `--beside` adds what that Spark
takes to count the rows of the files, and to compute each query from them.

Not a part of `python -m benchmarks`: it takes a quarter of an hour, and at scale factor 10 some 25
GB of disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sqlview
from benchmarks import common
from sqlview.oracle.comparison import compare
from sqlview.oracle.duckdb_engine import DuckDBOracle
from sqlview.oracle.translation import MACROS
from sqlview.quoting import duckdb_name, encoded
from tpch.generate import generate, parquet_file
from tpch.queries import Query, select_queries
from tpch.schema import TABLES, TABLES_BY_NAME

#: Of which rows arrive in steps, so many in each.
_ARRIVING = {"lineitem": 600, "orders": 150, "customer": 150, "partsupp": 100}
_LOOK_SECONDS = 0.05


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("limited", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--sf", type=float, default=10.0, help="scale factor (%(default)s)")
    parser.add_argument("--memory-limit", default="6GiB", help="(%(default)s)")
    parser.add_argument("--load-rows", type=common.positive, default=262_144, help="(%(default)s)")
    parser.add_argument("--steps", type=common.positive, default=100, help="(%(default)s)")
    parser.add_argument("--master", help="of a Spark that loads and creates (none: this process)")
    parser.add_argument("--beside", action="store_true", help="Spark SQL over the files, too")
    quick = {"sf": 0.01, "memory_limit": "1GiB", "steps": 3}
    given = common.parse(parser, arguments, quick)
    if given.beside and given.master is None:
        parser.error("--beside needs a --master")
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    files = generate(given.sf, given.data)
    with tempfile.TemporaryDirectory(dir=given.data) as directory:
        path = Path(directory) / "store"
        process = multiprocessing.get_context("spawn").Process(
            target=_run, args=(given, files, path)
        )
        process.start()
        process.join()
        size = sum(f.stat().st_blocks * 512 for f in path.iterdir())
        _say(f"on disk: {size / 2**30:.1f} GiB")
        if process.exitcode:
            raise common.BenchmarkError(f"it ended with exit code {process.exitcode}")
        _verify(given, files, path)


def _run(given: argparse.Namespace, files: Path, path: Path) -> None:
    queries = select_queries(given.queries)
    spark = None if given.master is None else sqlview.start_spark(given.master)
    placement = "inline" if spark is None else "spark"
    with (
        _anonymous() as most,
        sqlview.connect(
            path, spark=spark, placement=placement, memory_limit=given.memory_limit
        ) as db,
    ):
        held: dict[str, pa.Table] = {}
        with _timed("load", most):
            for table in TABLES:
                db.sql(table.sql)
                if spark is None:
                    held[table.name] = _load(db, given, files, table.name)
                else:
                    file = parquet_file(files, table.name)
                    with _timed(f"  {table.name}", None):
                        db.load(table.name, spark.read.parquet(str(file)))
                    held[table.name] = _last_rows(given, file, table.name)
        with _timed("CREATE of all views", most):
            for query in queries:
                with _timed(f"  {query.name}", None):
                    db.sql(query.create_sql)
        with _timed("steps", most):
            seconds = _steps(db, given, held, is_there=spark is not None)
        found = common.percentiles_ms(seconds)
        _say(", ".join(f"{name} {value:.3g}" for name, value in found.items()))
    if spark is not None:
        if given.beside:
            _beside(spark, files, queries)
        spark.stop()


def _beside(spark: Any, files: Path, queries: Sequence[Query]) -> None:
    """What Spark SQL takes over the files."""
    with _timed("Spark counts the rows", None):
        for table in TABLES:
            frame = spark.read.parquet(str(parquet_file(files, table.name)))
            frame.createOrReplaceTempView(table.name)
            frame.count()
    with _timed("Spark SQL computes all queries", None):
        for query in queries:
            with _timed(f"  {query.name}", None):
                spark.sql(query.sql).toArrow()


def _last_rows(given: argparse.Namespace, file: Path, name: str) -> pa.Table:
    """The last rows of a file, as many as steps are to change."""
    schema, wanted = TABLES_BY_NAME[name].arrow_schema, _ARRIVING.get(name, 0) * given.steps
    kept: list[pa.Table] = []
    with pq.ParquetFile(file) as source:
        for group in reversed(range(source.num_row_groups)):
            if sum(rows.num_rows for rows in kept) >= wanted:
                break
            kept.insert(0, source.read_row_group(group, columns=schema.names).cast(schema))
    found = pa.concat_tables([schema.empty_table(), *kept])
    return found.slice(max(found.num_rows - wanted, 0))


def _load(db: sqlview.Session, given: argparse.Namespace, files: Path, name: str) -> pa.Table:
    """Load a table but for its last rows, which arrive later: those are returned."""
    schema = TABLES_BY_NAME[name].arrow_schema
    db.sql(TABLES_BY_NAME[name].sql)
    with pq.ParquetFile(parquet_file(files, name)) as file:
        left = file.metadata.num_rows - _ARRIVING.get(name, 0) * given.steps
        kept = []
        for batch in file.iter_batches(given.load_rows, columns=schema.names):
            rows = pa.table(batch).cast(schema)
            now = min(max(left, 0), rows.num_rows)
            if now:
                with db.transaction() as tx:
                    tx.insert(name, rows.slice(0, now))
            left -= now
            if now < rows.num_rows:  # a slice of no rows would hold all of the batch
                kept.append(rows.slice(now))
    return pa.concat_tables([schema.empty_table(), *kept])


def _steps(
    db: sqlview.Session, given: argparse.Namespace, held: dict[str, pa.Table], is_there: bool
) -> list[float]:
    """All that was held back arrives, unless it `is_there`; then each step's rows go, and come
    again."""
    seconds = []

    def change(step: int, leaves: bool) -> None:
        began = time.perf_counter()
        with db.transaction(placement="inline") as tx:
            for name, count in _ARRIVING.items():
                rows = held[name].slice(step * count, count)
                if leaves:
                    tx.delete(name, rows.select(TABLES_BY_NAME[name].primary_key))
                else:
                    tx.insert(name, rows)
        seconds.append(time.perf_counter() - began)

    for step in range(0 if is_there else given.steps):
        change(step, leaves=False)
    for step in np.random.default_rng(given.seed).permutation(given.steps).tolist():
        change(step, leaves=True)
        change(step, leaves=False)
    return seconds


def _verify(given: argparse.Namespace, files: Path, path: Path) -> None:
    began = time.perf_counter()
    with (
        sqlview.connect(path, placement="inline", read_only=True) as db,
        DuckDBOracle() as oracle,
        duckdb.connect() as recompute,
    ):
        _say(f"opened in {time.perf_counter() - began:.2f} s")
        recompute.execute(f"SET memory_limit = '6GiB'; SET temp_directory = '{path}.duckdb'")
        for macro in MACROS:
            recompute.execute(macro)
        for table in TABLES:
            oracle.load(table.name, table.arrow_schema.empty_table())
            file = parquet_file(files, table.name)
            names = table.arrow_schema.names
            columns = ", ".join(f"{n} AS {duckdb_name(encoded(n))}" for n in names)
            view = duckdb_name(encoded(table.name))
            recompute.execute(f"CREATE VIEW {view} AS SELECT {columns} FROM read_parquet('{file}')")
        oracle._db.close()
        oracle._db = recompute
        for query in select_queries(given.queries):
            schema = db._catalog.view(query.name).schema
            found = compare(db.view(query.name).to_arrow(), oracle.query(query.sql, schema))
            if found is not None:
                raise common.WrongAnswerError(f"{query.name}: {found}")
            _say(f"  {query.name} is right")


@contextmanager
def _timed(what: str, most: list[int] | None) -> Iterator[None]:
    if most is not None:
        most[0] = 0
    with common.measuring() as measured:
        yield
    seconds, driver, cpu, _ = measured()
    said = f"{what}: {seconds:.1f} s, CPU {driver:.2f} s here, {cpu:.1f} s in all"
    if most is not None:
        said += f", at most {most[0] / 2**20:.2f} GiB of memory of no file"
    _say(said)


@contextmanager
def _anonymous() -> Iterator[list[int]]:
    """The most memory of this process that belongs to no file, in KiB, since it was set to 0."""
    most, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_SECONDS):
            status = Path("/proc/self/status").read_text(encoding="ascii")
            (line,) = (x for x in status.splitlines() if x.startswith("RssAnon:"))
            most[0] = max(most[0], int(line.split()[1]))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
