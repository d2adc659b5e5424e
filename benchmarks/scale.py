"""Cost per changed row by scale factor: python -m benchmarks.scale --sf 1 10

Each query alone, inline, on one core. All but the last tenth of its tables is loaded in large
steps, read from the Parquet files as it is needed; the rest arrives in the order of the files, the
tables in proportion to their size, first in steps of 1,000 rows and then of 100,000. Only the
columns that the query reads, and the keys, are stored, so that scale factor 10 fits into memory.

The cost per row of the steps of one size, at each scale factor, should not differ: an index is
larger, and its lookups miss caches more often, but no more work is done.

Invariant: each view equalled DuckDB's result over the Parquet files when all rows had arrived.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sqlview
from benchmarks import common
from benchmarks.arrival import step
from sqlview import oracle
from tpch import stream
from tpch.generate import generate, load, parquet_file
from tpch.queries import Query, select_queries, tables_of
from tpch.report import geometric_mean
from tpch.runner import available_bytes, garbage_collected, warm_memory
from tpch.schema import TABLES_BY_NAME

QUERIES = "q01,q03,q06,q12"
SIZES = (1_000, 100_000)

_LOADED_SHARE = 0.9
_LOAD_ROWS = 1_000_000
#: Steps of every size but the largest, which takes what is left.
_STEPS = 300
#: Bytes a row of lineitem takes at most in this benchmark, indexes and merges included, and how
#: many rows there are at scale factor 1.
_ROW_BYTES = 160
_ROWS_PER_SCALE = 6_000_000
_SPARE_BYTES = 2 << 30
#: Touched before the clock starts for each row to come: more than its step takes.
_WARM_ROW_BYTES = 512
_GOAL = 1.5


@dataclass(frozen=True, slots=True)
class Cell:
    """One query at one scale factor and size of step, over `base_rows` rows."""

    sf: float
    query: str
    batch_rows: int
    base_rows: int
    rows: int
    steps: int
    row_us: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    load_rows_per_second: float
    state_bytes: int
    table_bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("scale", __doc__)
    common.add_tpch_options(parser)
    parser.set_defaults(queries=QUERIES)
    parser.add_argument(
        "--sf", type=float, nargs="+", default=[1.0, 10.0], help="scale factors (1 10)"
    )
    parser.add_argument(
        "--batch-rows", type=common.positive, nargs="+", default=list(SIZES), metavar="N",
        help="changed rows per transaction (1,000 100,000)",
    )  # fmt: skip
    parser.add_argument(
        "--cores", type=common.positive, default=1, metavar="N", help="cores to use (1)"
    )
    quick = {"sf": [0.01, 0.02], "batch_rows": [10, 100], "queries": "q03,q06"}
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    queries = select_queries(given.queries)
    results = common.Results("scale", given)
    console = common.progress()
    cells: list[Cell] = []
    left_out: list[str] = []
    with common.pinned(given.cores):
        for sf in sorted(set(given.sf)):
            needed = int(sf * _ROWS_PER_SCALE * _ROW_BYTES) + _SPARE_BYTES
            there = available_bytes()
            if there is not None and there < needed:
                left_out.append(
                    f"scale factor {sf:g}: {there / 2**30:.0f} GiB of memory are free, it takes "
                    f"up to {needed / 2**30:.0f}"
                )
                console.print(f"Left out: {left_out[-1]}")
                continue
            console.print(f"Scale factor {sf:g}: generating what is missing, warming up")
            directory = generate(sf, given.data)
            if not cells:
                warm = load(generate(min(given.sf[0], 0.1), given.data), tables_of(queries))
                common.warm_up(queries, warm)
            for query in queries:
                console.print(f"{query.name} at scale factor {sf:g}")
                cells += _measure(sf, query, directory, sorted(set(given.batch_rows)))
    found = results.write({"cells": cells, "left_out": left_out})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


class _Tail:
    """The rows of a query's tables: most as record batches to load, the rest to be cut as asked."""

    def __init__(self, query: Query, directory: Path) -> None:
        self._files = {name: pq.ParquetFile(parquet_file(directory, name)) for name in query.tables}
        self.schemas = {name: _schema(query, name) for name in query.tables}
        self._rows = {name: file.metadata.num_rows for name, file in self._files.items()}
        self._first = {name: int(n * _LOADED_SHARE) for name, n in self._rows.items()}
        self._tails: dict[str, pa.Table] = {}
        self._done = dict.fromkeys(query.tables, 0)
        self.total = sum(self._rows.values())

    def load(self) -> Iterator[stream.Batch]:
        """The first rows of every table, table by table."""
        for name, file in self._files.items():
            schema, left, rest = self.schemas[name], self._first[name], []
            for batch in file.iter_batches(_LOAD_ROWS, columns=schema.names):
                rows = pa.table(batch).select(schema.names).cast(schema)
                if left:
                    first = rows.slice(0, left)
                    left -= first.num_rows
                    yield stream.Batch((stream.Change("insert", name, first),))
                    rows = rows.slice(first.num_rows)
                if rows.num_rows:
                    # A slice would keep the whole of its batch.
                    rest.append(rows.take(pa.array(np.arange(rows.num_rows))))
            self._tails[name] = pa.concat_tables(rest).combine_chunks()

    @property
    def left(self) -> int:
        return sum(tail.num_rows - self._done[name] for name, tail in self._tails.items())

    def next(self, batch_rows: int) -> stream.Batch:
        """The next rows, of each table in proportion to what it has left."""
        changes, left = [], self.left
        wanted = min(batch_rows, left)
        for name, tail in self._tails.items():
            own = tail.num_rows - self._done[name]
            count = min(round(wanted * own / left) if left else 0, own)
            wanted, left = wanted - count, left - own
            if count:
                changes.append(stream.Change("insert", name, tail.slice(self._done[name], count)))
                self._done[name] += count
        return stream.Batch(tuple(changes))


def _schema(query: Query, table: str) -> pa.Schema:
    """The columns of `table` that the query names, and the key's."""
    definition = TABLES_BY_NAME[table]
    text = query.sql.lower()
    return pa.schema(
        [f for f in definition.arrow_schema if f.name in text or f.name in definition.primary_key]
    )


def _measure(sf: float, query: Query, directory: Path, sizes: Sequence[int]) -> list[Cell]:
    """Raises: common.WrongAnswerError if the view differs from DuckDB's result."""
    tail = _Tail(query, directory)
    timed: dict[int, tuple[int, list[float], int]] = {}
    with sqlview.connect(placement="inline") as db:
        for name, schema in tail.schemas.items():
            kept = [pair for pair in TABLES_BY_NAME[name].columns if pair[0] in schema.names]
            db.sql(replace(TABLES_BY_NAME[name], columns=tuple(kept)).sql)
        db.sql(query.create_sql)
        loaded, load_seconds = 0, 0.0
        for batch in tail.load():
            load_seconds += step(db, batch)
            loaded += batch.rows
        warm_memory(tail.left * _WARM_ROW_BYTES, keep=True)
        with garbage_collected():
            for size in sizes:
                base, rows = tail.total - tail.left, 0
                seconds: list[float] = []
                while tail.left and (len(seconds) < _STEPS or size == sizes[-1]):
                    batch = tail.next(size)
                    seconds.append(step(db, batch))
                    rows += batch.rows
                if seconds:
                    timed[size] = rows, seconds, base
        metrics = db.metrics()
        _check(db, query, directory)
    gc.collect()
    return [
        Cell(
            sf=sf,
            query=query.name,
            batch_rows=size,
            base_rows=base,
            rows=rows,
            steps=len(seconds),
            row_us=sum(seconds) / rows * 1e6,
            load_rows_per_second=loaded / load_seconds,
            state_bytes=metrics.state_bytes,
            table_bytes=metrics.table_bytes,
            **common.percentiles_ms(seconds),
        )
        for size, (rows, seconds, base) in timed.items()
    ]


def _check(db: sqlview.Session, query: Query, directory: Path) -> None:
    """DuckDB reads the files: the tables need not fit beside the session's."""
    view = db.view(query.name)
    with duckdb.connect() as peer:
        peer.execute("SET enable_progress_bar = false")
        for name in query.tables:
            path = str(parquet_file(directory, name)).replace("'", "''")
            peer.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
        expected = peer.sql(query.sql).to_arrow_table()
    actual = view.to_arrow()
    expected = expected.rename_columns(actual.column_names).cast(actual.schema, safe=False)
    found = oracle.compare(actual, expected)
    if found is not None:
        raise common.WrongAnswerError(f'view "{query.name}" differs from its recompute: {found}')


def _ratios(result: Mapping[str, Any]) -> dict[tuple[str, int], float]:
    """Cost per row at the largest scale factor over that at the smallest, by query and size."""
    cells = result["cells"]
    factors = sorted({cell["sf"] for cell in cells})
    cost = {(c["sf"], c["query"], c["batch_rows"]): c["row_us"] for c in cells}
    return {
        (query, size): cost[factors[-1], query, size] / us
        for (sf, query, size), us in cost.items()
        if sf == factors[0] and (factors[-1], query, size) in cost
    }


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    cells, ratios = result["cells"], _ratios(result)
    rows: list[tuple[str, ...]] = [
        (
            c["query"],
            f"{c['sf']:g}",
            f"{c['batch_rows']:,}",
            f"{c['base_rows'] / 1e6:.1f}",
            common.number(c["row_us"]),
            *(common.number(c[k]) for k in ("p50_ms", "p95_ms", "max_ms")),
            common.number(c["load_rows_per_second"] / 1e6),
            common.mib(c["state_bytes"]),
            common.mib(c["table_bytes"]),
        )
        for c in cells
    ]
    found = [
        common.Figures(
            "Cost of a changed row by scale factor",
            ("query", "SF", "rows a step", "M rows before", "µs per row", "p50 ms", "p95 ms",
             "max ms", "load M rows/s", "state MiB", "rows MiB"),
            tuple(rows),
        )
    ]  # fmt: skip
    factors = sorted({cell["sf"] for cell in cells})
    if len(factors) > 1:
        sizes = sorted({size for _, size in ratios})
        names = sorted({name for name, _ in ratios})
        found.append(
            common.Figures(
                f"Cost per row at scale factor {factors[-1]:g} over that at {factors[0]:g}",
                ("query", *(f"{size:,} rows a step" for size in sizes)),
                tuple((n, *(f"{ratios[n, s]:.2f}" for s in sizes)) for n in names),
                (
                    (
                        "geometric mean",
                        *(f"{geometric_mean([ratios[n, s] for n in names]):.2f}" for s in sizes),
                    ),
                ),
            )
        )
    if result["left_out"]:
        reasons = tuple((reason,) for reason in result["left_out"])
        found.append(common.Figures("Left out", ("reason",), reasons))
    return found


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    factors = sorted({cell["sf"] for cell in result["cells"]})
    if factors[:1] != [1] or factors[-1:] != [10]:
        return [
            common.Target("cost per row at SF 10 at most 1.5 times that at SF 1", reason, None)
            for reason in result["left_out"]
        ]
    ratios = _ratios(result)
    worst = max(ratios, key=lambda place: ratios[place])
    return [
        common.Target(
            "cost per row at SF 10 at most 1.5 times that at SF 1",
            f"{ratios[worst]:.2f} times at most ({worst[0]}, {worst[1]:,} rows a step)",
            ratios[worst] <= _GOAL,
        )
    ]


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    cells = result["cells"]
    sizes = sorted({cell["batch_rows"] for cell in cells})
    with results.chart(len(sizes)) as panels:
        for size, axes in zip(sizes, panels, strict=True):
            for name in sorted({cell["query"] for cell in cells}):
                own = [c for c in cells if (c["query"], c["batch_rows"]) == (name, size)]
                axes.plot([c["sf"] for c in own], [c["row_us"] for c in own], "o-", label=name)
            axes.set_xscale("log")
            axes.set_ylim(bottom=0)
            axes.set_xlabel("scale factor")
            axes.set_ylabel("µs per changed row")
            axes.set_title(f"Steps of {size:,} rows")
            axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
