"""Beside other systems: python -m benchmarks.compare --sf 0.1

Beside differential dataflow it is `--peer differential`, which measures steps, writes
differential.json and .png, and is told in benchmarks/peers/differential_peer.py. The rest of this
text is about the peers that PyPI carries, the default.

PyFlink runs the 22 queries of TPC-H as streaming SQL, with small edits: the ORDER BY of a result
without a LIMIT goes, since it refuses it, and `value` is quoted. Pathway runs q01, q03, q05, q06,
q10 and q11 in its table API. Each has a virtual environment of its own, which the benchmark makes
in `--environments`, because their pins conflict with this project's; a peer that cannot be
installed is left out, with a message.

All sides read whole tables and maintain the result while they do, with `--threads` threads. Told
apart are the whole time and that of ingestion alone: for the peers a job that reads the same
columns from CSV files and drops them; here the reading of the Parquet files into Arrow, to which
the steps of 100,000 rows are added. The start of the processes is not in it. The rate is that of
the rows of the tables that a query reads.

Invariant: a peer's figure counts only if its answer was DuckDB's, numbers within 1e-6, relative or
absolute, since the peers' types differ; a wrong answer is reported as wrong.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import common
from benchmarks.arrival import RoundRobin, step
from benchmarks.peers import differential_peer
from tpch.generate import generate, load, parquet_file
from tpch.queries import Query, select_queries
from tpch.report import cores, geometric_mean
from tpch.runner import RunOptions, open_session
from tpch.schema import TABLES_BY_NAME

#: What is installed for each peer.
PACKAGES = {"flink": "apache-flink==2.3.0", "pathway": "pathway==0.33.0"}
PATHWAY_QUERIES = ("q01", "q03", "q05", "q06", "q10", "q11")

_BATCH_ROWS = 100_000
_TOLERANCE = 1e-6
_INSTALL_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Run:
    """One query by one system. `problem`: why there is no figure."""

    system: str
    query: str
    rows: int
    seconds: float | None = None
    ingest_seconds: float | None = None
    problem: str | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("compare", __doc__)
    common.add_tpch_options(parser)
    parser.add_argument("--sf", type=float, default=0.1, help="scale factor (%(default)s)")
    parser.add_argument(
        "--peers", choices=[*PACKAGES, "differential"], nargs="*", default=list(PACKAGES),
        help="(flink pathway); differential stands alone",
    )  # fmt: skip
    parser.add_argument(
        "--environments", type=Path, default=Path("build/peers"), metavar="DIRECTORY",
        help="where the peers' virtual environments are made and kept (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=common.positive, default=cores(), metavar="N",
        help="of each system (default: all cores)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=480.0, metavar="S",
        help="for all queries of a peer; what is not done then is left out (%(default)s)",
    )  # fmt: skip
    differential_peer.add_options(parser)
    quick = {"sf": 0.01, "queries": "q01,q06", "peers": [], "runs": 1, "batch_rows": [1_000]}
    given = common.parse(parser, arguments, quick)
    if given.peers == ["differential"]:
        return common.guarded(lambda: differential_peer.compare(given))
    if "differential" in given.peers:
        parser.error("--peers differential stands alone: its figures are of another kind")
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    queries = select_queries(given.queries)
    results = common.Results("compare", given)
    console = common.progress()
    directory = generate(given.sf, given.data)
    console.print("sqlview")
    runs = _ours(queries, directory, given.threads)
    left_out: dict[str, str] = {}
    versions: dict[str, str] = {}
    for peer in given.peers:
        console.print(f"{peer}: looking for {PACKAGES[peer]}, or installing it (minutes)")
        problem, python = _environment(peer, given.environments)
        if python is None:
            left_out[peer] = problem
            console.print(f"{peer} is left out: {problem}")
            continue
        versions[peer] = PACKAGES[peer]
        runs += _peer(peer, python, queries, directory, given)
    found = results.write({"runs": runs, "left_out": left_out, "peers": versions})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


def _ours(queries: Sequence[Query], directory: Path, threads: int) -> list[Run]:
    runs: list[Run] = []
    with common.pinned(threads):
        warm = load(directory, sorted({name for query in queries for name in query.tables}))
        common.warm_up(queries, warm)
        answers = common.Answers(queries, warm)
        del warm
        for query in queries:
            started = time.perf_counter()
            rows = load(directory, query.tables)
            ingest_seconds = time.perf_counter() - started
            arrival = RoundRobin(rows)
            batches = arrival.next(_BATCH_ROWS, arrival.total)
            with open_session(RunOptions(placement="inline"), (query,), None) as db:
                seconds = sum(step(db, batch) for batch in batches)
                answers.check(db, [query])
            total = ingest_seconds + seconds
            runs.append(Run("sqlview", query.name, arrival.total, total, ingest_seconds))
        answers.close()
    return runs


def _environment(peer: str, directory: Path) -> tuple[str, Path | None]:
    """The peer's Python, its environment made where it is missing; or why there is none."""
    home = (directory / peer).absolute()
    python = home / "bin" / "python"
    done = home / f"installed-{PACKAGES[peer]}"
    if done.exists():
        return "", python
    home.parent.mkdir(parents=True, exist_ok=True)
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         PACKAGES[peer]],
    )  # fmt: skip
    for command in commands:
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{PACKAGES[peer]} cannot be installed: {error}", None
        if ran.returncode:
            last = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
            return f"{PACKAGES[peer]} cannot be installed: {''.join(last)}", None
    done.touch()
    return "", python


def _peer(
    peer: str, python: Path, queries: Sequence[Query], directory: Path, given: argparse.Namespace
) -> list[Run]:
    """Run what the peer has of the queries; Pathway's in a process each."""
    console = common.progress()
    if peer == "pathway":
        queries = [query for query in queries if query.name in PATHWAY_QUERIES]
    rows = {query.name: _table_rows(query, directory) for query in queries}
    edited = [
        {"name": query.name, "sql": _edited(query.sql), "reads": _reads(query)} for query in queries
    ]
    found: dict[str, Run] = {}
    deadline = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory() as scratch, duckdb.connect() as recompute:
        names = sorted({name for query in queries for name in query.tables})
        _write_csv(recompute, names, directory, Path(scratch), header=peer == "pathway")
        for part in [[each] for each in edited] if peer == "pathway" else [edited]:
            task = {
                "csv": scratch,
                "threads": given.threads,
                "tables": {
                    name: {
                        "columns": TABLES_BY_NAME[name].columns,
                        "key": TABLES_BY_NAME[name].primary_key,
                    }
                    for name in names
                },
                "queries": part,
            }
            for line in _lines(peer, python, task, Path(scratch), deadline, given.threads):
                name = line["query"]
                sql = next(query.sql for query in queries if query.name == name)
                run = _judged(peer, name, rows[name], line, recompute, sql)
                found[name] = run
                took = f"{run.seconds:.1f} s" if run.seconds is not None else run.problem
                console.print(f"{peer} {name}: {took}")
    missing = "not finished in time"
    return [
        found.get(query.name) or Run(peer, query.name, rows[query.name], problem=missing)
        for query in queries
    ]


def _lines(
    peer: str,
    python: Path,
    task: Mapping[str, Any],
    scratch: Path,
    deadline: float,
    threads: int,
) -> list[dict[str, Any]]:
    """What the peer's program printed until it ended or the time was over."""
    path = scratch / "task.json"
    path.write_text(json.dumps(task), encoding="utf-8")
    program = Path(__file__).parent / "peers" / f"{peer}_peer.py"
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
        "PATHWAY_THREADS": str(threads),
        "PYTHONWARNINGS": "ignore",
    }
    environment.pop("PYTHONPATH", None)
    process = subprocess.Popen(
        [str(python), "-I", str(program), str(path)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=scratch, start_new_session=True,
    )  # fmt: skip
    try:
        out, error = process.communicate(timeout=max(deadline - time.monotonic(), 1.0))
    except subprocess.TimeoutExpired:
        # The peer's own children, a JVM among them, are in its group.
        os.killpg(process.pid, 9)
        out, error = process.communicate()
    lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"query"')]
    if not lines and process.returncode:
        last = "".join(error.strip().splitlines()[-1:])[:200]
        lines = [{"query": each["name"], "error": last} for each in task["queries"]]
    return lines


def _judged(
    peer: str, name: str, rows: int, line: Mapping[str, Any], recompute: Any, sql: str
) -> Run:
    if "error" in line:
        return Run(peer, name, rows, problem=f"refused: {line['error']}")
    if peer == "pathway":  # it has no LIMIT
        sql = re.sub(r"(?is)\border\s+by\b[^()]*$", "", sql)
    expected = recompute.sql(sql).fetchall()
    if not _equal([tuple(row) for row in line["rows"]], expected):
        return Run(peer, name, rows, problem="wrong answer")
    return Run(peer, name, rows, line["seconds"], line["ingest_seconds"])


def _equal(actual: Sequence[tuple[str | None, ...]], expected: Sequence[tuple[Any, ...]]) -> bool:
    """Whether the texts `actual` are the rows `expected`, in any order, numbers nearly."""
    if len(actual) != len(expected):
        return False
    if not expected:
        return True
    kinds = [
        any(isinstance(row[i], (int, float, decimal.Decimal)) for row in expected)
        for i in range(len(expected[0]))
    ]

    def key(row: Sequence[Any]) -> tuple[list[str], list[float]]:
        texts = [_text(v) for v, is_number in zip(row, kinds, strict=True) if not is_number]
        numbers = [
            math.inf if v in (None, "None") else float(v)
            for v, is_number in zip(row, kinds, strict=True)
            if is_number
        ]
        return texts, numbers

    for a, b in zip(sorted(map(key, actual)), sorted(map(key, expected)), strict=True):
        if a[0] != b[0] or not all(
            math.isclose(x, y, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
            for x, y in zip(a[1], b[1], strict=True)
        ):
            return False
    return True


def _text(value: Any) -> str:
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()[:10]
    return "" if value is None else str(value).strip()


def _edited(sql: str) -> str:
    """What Flink asks for; see the module's text."""
    if not re.search(r"(?is)\blimit\s+\d+\s*$", sql):
        sql = re.sub(r"(?is)\border\s+by\b[^()]*$", "", sql)
    return re.sub(r"(?i)\bvalue\b", "`value`", sql)


def _reads(query: Query) -> dict[str, list[str]]:
    """The columns of each table that the query's text names."""
    words = set(re.findall(r"\w+", query.sql.lower()))
    return {
        name: [column for column, _ in TABLES_BY_NAME[name].columns if column in words]
        for name in query.tables
    }


def _table_rows(query: Query, directory: Path) -> int:
    files = [str(parquet_file(directory, name)) for name in query.tables]
    with duckdb.connect() as db:
        return sum(
            int((db.execute("SELECT count(*) FROM read_parquet(?)", [file]).fetchone() or [0])[0])
            for file in files
        )


def _write_csv(
    db: Any, names: Sequence[str], directory: Path, scratch: Path, *, header: bool
) -> None:
    """The tables as CSV files, and as views for the recompute."""
    for name in names:
        path = str(parquet_file(directory, name)).replace("'", "''")
        db.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
        delimiter = "," if header else "|"
        target = str(scratch / f"{name}.csv").replace("'", "''")
        db.execute(f"COPY {name} TO '{target}' (HEADER {header}, DELIMITER '{delimiter}')")


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    runs, number = result["runs"], common.number
    systems = [s for s in ("sqlview", *PACKAGES) if any(run["system"] == s for run in runs)]
    by_place = {(run["system"], run["query"]): run for run in runs}
    rows: list[tuple[str, ...]] = []
    for name in sorted({run["query"] for run in runs}):
        cells = [name]
        for system in systems:
            run = by_place.get((system, name))
            if run is None:
                cells += ["", "", ""]
            elif run["seconds"] is None:
                cells += [run["problem"].partition(":")[0], "", ""]
            else:
                rest = max(run["seconds"] - run["ingest_seconds"], 0.0)
                cells += [
                    number(run["rows"] / run["seconds"] / 1e3),
                    number(run["ingest_seconds"]),
                    number(rest),
                ]
        rows.append(tuple(cells))
    heads = [
        f"{system} {what}"
        for system in systems
        for what in ("k rows/s", "ingestion s", "beyond it s")
    ]
    found = [
        common.Figures(
            f"TPC-H at scale factor {result['settings']['sf']:g}, end to end, "
            f"{result['settings']['threads']} threads"
            + "".join(f", {name}" for name in result["peers"].values()),
            ("query", *heads),
            tuple(rows),
        )
    ]
    gains = _gains(result)
    if gains:
        found.append(
            common.Figures(
                "sqlview's rate over the peer's, geometric means over what the peer ran right",
                ("peer", "queries", "end to end", "beyond ingestion"),
                tuple(
                    (peer, str(count), f"{whole:.1f}", f"{rest:.1f}")
                    for peer, (count, whole, rest) in gains.items()
                ),
            )
        )
    if result["left_out"]:
        reasons = tuple(result["left_out"].items())
        found.append(common.Figures("Left out", ("peer", "reason"), reasons))
    return found


def _gains(result: Mapping[str, Any]) -> dict[str, tuple[int, float, float]]:
    by_place = {(run["system"], run["query"]): run for run in result["runs"]}
    found = {}
    for peer in PACKAGES:
        pairs = [
            (by_place["sqlview", query], run)
            for (system, query), run in by_place.items()
            if system == peer and run["seconds"] is not None
        ]
        if pairs:
            whole = [other["seconds"] / own["seconds"] for own, other in pairs]
            # Of a job that takes no longer than its ingestion nothing can be told.
            rest = [
                (other["seconds"] - other["ingest_seconds"])
                / (own["seconds"] - own["ingest_seconds"])
                for own, other in pairs
                if other["seconds"] > other["ingest_seconds"]
            ]
            found[peer] = len(pairs), geometric_mean(whole), geometric_mean(rest)
    return found


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    return [
        common.Target(
            f"faster than {peer}, end to end, geometric mean", f"{whole:.1f} times", whole > 1
        )
        for peer, (_, whole, _) in _gains(result).items()
    ]


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    runs = result["runs"]
    systems = [s for s in ("sqlview", *PACKAGES) if any(run["system"] == s for run in runs)]
    names = sorted({run["query"] for run in runs})
    width = 0.8 / len(systems)
    with results.chart() as (axes,):
        for place, system in enumerate(systems):
            rates = {
                run["query"]: run["rows"] / run["seconds"] / 1e6
                for run in runs
                if run["system"] == system and run["seconds"] is not None
            }
            shown = [rates.get(name, 0.0) for name in names]
            axes.bar([i + place * width for i in range(len(names))], shown, width, label=system)
        axes.set_xticks(range(len(names)), names, rotation=45)
        axes.set_yscale("log")
        axes.set_ylabel("million rows per second, end to end")
        axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
