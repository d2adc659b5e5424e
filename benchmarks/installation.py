"""From CREATE to the first result: python -m benchmarks.installation --sf 1

Parsing, planning, building what indexes are missing, the first result and reading it, of each query
over loaded tables, in three settings:

    live     all the other queries are installed, and the new one reads their indexes where it can
    first    nothing is installed: the query builds all that it reads
    private  nothing is shared (`share=False`): as `first`, and what two parts of the query could
             read together is built twice

Each query is created and dropped again `--runs` times; the median counts.

Invariant: in each setting a view's result was equal to its recompute before it was timed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import sqlview
from benchmarks import common
from tpch import stream
from tpch.checks import StreamOracle
from tpch.generate import generate, load
from tpch.queries import Query, select_queries, tables_of
from tpch.report import geometric_mean
from tpch.runner import RunOptions, open_session

SETTINGS = ("live", "first", "private")


@dataclass(frozen=True, slots=True)
class Installation:
    """One query in one setting. `index_builds`: the indexes that it had to build; `state_bytes`:
    by how much it made the state grow."""

    query: str
    setting: str
    median_ms: float
    max_ms: float
    index_builds: int
    state_bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("installation", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--sf", type=float, default=0.1, help="scale factor (%(default)s)")
    parser.add_argument(
        "--runs", type=common.positive, default=5, metavar="N",
        help="installations of each query in each setting (%(default)s)",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    queries = select_queries(given.queries)
    results = common.Results("installation", given)
    console = common.progress()
    data: Path | None = given.data
    tables = load(generate(given.sf, data), tables_of(queries))
    console.print("Warming up")
    common.warm_up(queries, tables)
    initial = stream.initial_batch(tables, {name: rows.num_rows for name, rows in tables.items()})
    recomputed = StreamOracle(queries)
    try:
        recomputed.apply(initial)
        installations: list[Installation] = []
        for setting in SETTINGS:
            console.print(f"Setting: {setting}")
            installations += measure(setting, queries, initial, recomputed, given.runs)
    finally:
        recomputed.close()
    results.write({"installations": installations})
    by_place = {(each.query, each.setting): each for each in installations}
    _print(queries, by_place, given.sf)
    _draw(results, queries, by_place, given.sf)


def measure(
    setting: str,
    queries: Sequence[Query],
    initial: stream.Batch,
    recomputed: StreamOracle,
    runs: int,
) -> list[Installation]:
    """Install and drop each query in turn, in one session that holds the rows `initial`.

    Raises: common.WrongAnswerError if a view differs from its recompute.
    """
    found: list[Installation] = []
    options = RunOptions(placement="inline", private=setting == "private")
    with open_session(options, queries, None) as db:
        if setting != "live":
            _drop(db, queries)
        with db.transaction() as tx:
            stream.apply(initial, tx)
        for query in queries:
            if setting == "live":
                _drop(db, [query])
            _create(db, query)
            difference = recomputed.difference(db, query)
            if difference is not None:
                raise common.WrongAnswerError(
                    f'view "{query.name}" differs from its recompute in setting "{setting}": '
                    f"{difference.missing.num_rows} missing, {difference.extra.num_rows} extra"
                )
            step_ms: list[float] = []
            for _ in range(runs):
                _drop(db, [query])
                before = db.metrics()
                step_ms.append(_create(db, query) * 1000)
                after = db.metrics()
            if setting != "live":
                _drop(db, [query])
            found.append(
                Installation(
                    query.name,
                    setting,
                    float(np.median(step_ms)),
                    max(step_ms),
                    after.index_builds - before.index_builds,
                    after.state_bytes - before.state_bytes,
                )
            )
    return found


def _create(db: sqlview.Session, query: Query) -> float:
    """The seconds from CREATE to the rows of the view."""
    started = time.perf_counter()
    db.sql(query.create_sql)
    rows: pa.Table = db.view(query.name).to_arrow()
    seconds = time.perf_counter() - started
    del rows
    return seconds


def _drop(db: sqlview.Session, queries: Sequence[Query]) -> None:
    for query in queries:
        db.sql(f"DROP MATERIALIZED VIEW {query.name}")


def _print(
    queries: Sequence[Query], by_place: Mapping[tuple[str, str], Installation], sf: float
) -> None:
    columns = [
        *(f"{setting} ms" for setting in SETTINGS),
        *(f"{setting}\nindexes built" for setting in SETTINGS),
        *(f"{setting}\nKiB" for setting in SETTINGS),
    ]
    table = common.table(f"CREATE to first result, scale factor {sf:g}", "query", columns)
    for query in queries:
        row = [by_place[query.name, setting] for setting in SETTINGS]
        table.add_row(
            query.name,
            *(f"{each.median_ms:.2f}" for each in row),
            *(f"{each.index_builds}" for each in row),
            *(f"{each.state_bytes / 1024:,.0f}" for each in row),
        )
    table.add_section()
    means = [
        geometric_mean([by_place[query.name, setting].median_ms for query in queries])
        for setting in SETTINGS
    ]
    table.add_row("geometric mean", *(f"{mean:.2f}" for mean in means), *[""] * 6)
    common.show(table)


def _draw(
    results: common.Results,
    queries: Sequence[Query],
    by_place: Mapping[tuple[str, str], Installation],
    sf: float,
) -> None:
    """Three bars per query."""
    width = 0.27
    names = [query.name for query in queries]
    with results.chart() as (axes,):
        for place, setting in enumerate(SETTINGS):
            axes.bar(
                [i + (place - 1) * width for i in range(len(names))],
                [by_place[name, setting].median_ms for name in names],
                width,
                label=setting,
            )
        axes.set_yscale("log")
        axes.set_xticks(range(len(names)), names, rotation=45)
        axes.set_ylabel("ms from CREATE to first result")
        axes.set_title(f"Installation over loaded tables, TPC-H SF {sf:g}")
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
