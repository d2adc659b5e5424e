"""Arrangements by themselves: python -m benchmarks.arrangements --keys 10000000

After Shared Arrangements, Figure 7, with one worker: 64-bit identifiers in random order, up to
`--keys` of them live, through the public API, key checks and the storing of rows included.

    tasks     forming batches alone; a table with its key's arrangement; a count per key maintained
              over it: rows per second while the keys arrive in steps of `--batch-rows`
    merging   step latency while the keys arrive, with eager, default and lazy merging: how many
              entries a merge in progress moves for each one inserted
    load      updates arrive at a fixed rate, half deletes of the oldest and half new keys, over all
              keys; a step takes what has arrived since the last one began. Latency: from the
              arrival of an update to the commit of its step
    join      1 … 1,000,000 keys against the live arrangement of all keys: the installation of the
              view, its first result included, then a step that brings as many keys again

Invariant: each table or view was compared with what it must hold before its figure counts.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import sqlview
from benchmarks import common
from operators.state import spine
from tpch.runner import garbage_collected

Ints = npt.NDArray[np.int64]

#: Entries moved per entry inserted, for each merge in progress.
EFFORTS = {"lazy": 1, "default": spine.EFFORT, "eager": 1 << 40}
LOADS = (125_000, 250_000, 500_000, 1_000_000, 2_000_000)
#: "Shared Arrangements": what one worker sustains over 10 M keys.
_PAPER_LOAD = 1_000_000

_ODD = 0x9E3779B97F4A7C15  # a step of 2^64 over the golden ratio: every identifier once, scattered
_BULK_ROWS = 1_000_000
_MERGE_BATCH_ROWS = 10_000
_MOST_BEHIND_SECONDS = 5.0
#: A load is sustained if this share of it was applied by the time the last step ended.
_KEPT_UP = 0.95


def identifiers(start: int, stop: int) -> Ints:
    """The start-th to stop-th of a sequence of distinct scattered int64."""
    found: Ints = (np.arange(start, stop, dtype=np.uint64) * np.uint64(_ODD)).view(np.int64)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("arrangements", __doc__)
    parser.add_argument(
        "--keys", type=common.positive, default=10_000_000, metavar="N",
        help="live at most (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--batch-rows", type=common.positive, default=100_000, metavar="N",
        help="of the steps of the tasks (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--loads", type=common.positive, nargs="+", default=list(LOADS), metavar="N",
        help="updates per second offered (125,000 … 2,000,000)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="of each load (%(default)s)"
    )
    parser.add_argument(
        "--repeat", type=common.positive, default=3, metavar="N", help="of each join (%(default)s)"
    )
    parser.add_argument(
        "--cores", type=common.positive, default=1, metavar="N", help="cores to use (1)"
    )
    quick = {"keys": 50_000, "batch_rows": 5_000, "loads": [20_000, 50_000], "seconds": 0.3,
             "repeat": 1}  # fmt: skip
    given = common.parse(parser, arguments, quick)
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results = common.Results("arrangements", given)
    console = common.progress()
    with common.pinned(given.cores):
        console.print("Warming up")
        _tasks(min(given.keys, 50_000), 5_000)
        console.print(f"Tasks over {given.keys:,} keys")
        tasks = _tasks(given.keys, given.batch_rows)
        merging = []
        for name, effort in EFFORTS.items():
            console.print(f"Merging: {name}")
            merging.append(_merging(name, effort, given.keys))
        with _table("ids", "id BIGINT PRIMARY KEY") as db:
            _fill(db, given.keys, with_value=False)
            loads, start = [], 0
            for offered in sorted(given.loads):
                console.print(f"Load: {offered:,} updates per second")
                load, start = _load(db, given.keys, offered, given.seconds, start)
                loads.append(load)
                if not load.is_sustained:
                    break
        console.print("Joins")
        joins = _joins(given.keys, given.repeat)
    found = results.write({"tasks": tasks, "merging": merging, "loads": loads, "joins": joins})
    common.show_figures(tables(found))
    common.show_targets(targets(found))
    _draw(results, found)


@contextlib.contextmanager
def _table(name: str, columns: str) -> Iterator[sqlview.Session]:
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE {name} ({columns})")
        yield db


def _insert(db: sqlview.Session, table: str, rows: pa.Table) -> float:
    started = time.perf_counter()
    with db.transaction() as tx:
        tx.insert(table, rows)
    return time.perf_counter() - started


def _expect(db: sqlview.Session, text: str, expected: pa.Table) -> None:
    """Raises: common.WrongAnswerError unless `text`, as a view, holds the rows `expected`."""
    db.sql(f"CREATE MATERIALIZED VIEW checked AS {text}")
    common.check_view(db, "checked", expected, is_ordered=False)
    db.sql("DROP MATERIALIZED VIEW checked")


# -- tasks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """`last_rows_per_second`: of the last tenth of the steps."""

    name: str
    rows_per_second: float
    last_rows_per_second: float
    p50_ms: float
    max_ms: float
    state_bytes: int


def _tasks(keys: int, batch_rows: int) -> list[Task]:
    batches = [identifiers(at, min(at + batch_rows, keys)) for at in range(0, keys, batch_rows)]
    formed: list[float] = []
    for ids in batches:
        rows = np.arange(len(ids))
        started = time.perf_counter()
        batch = spine.make_batch(ids.reshape(1, -1), rows)
        formed.append(time.perf_counter() - started)
        if len(batch) != len(ids):
            raise common.WrongAnswerError("a batch lacks entries")
    found = [_task("batch formation", batches, formed, 0)]
    count = pa.table({"n": pa.array([keys], pa.int64())})
    with _table("ids", "id BIGINT PRIMARY KEY") as db, garbage_collected():
        seconds = [_insert(db, "ids", pa.table({"id": ids})) for ids in batches]
        found.append(_task("maintenance", batches, seconds, db.metrics().state_bytes))
        _expect(db, "SELECT count(*) AS n FROM ids", count)
    with _table("ids", "id BIGINT NOT NULL") as db, garbage_collected():
        db.sql("CREATE MATERIALIZED VIEW counts AS SELECT id, count(*) AS n FROM ids GROUP BY id")
        seconds = [_insert(db, "ids", pa.table({"id": ids})) for ids in batches]
        found.append(_task("count per key", batches, seconds, db.metrics().state_bytes))
        _expect(db, "SELECT sum(n) AS n FROM counts", count)
    return found


def _task(name: str, batches: Sequence[Ints], seconds: Sequence[float], state_bytes: int) -> Task:
    sizes = [len(ids) for ids in batches]
    tenth = max(len(sizes) // 10, 1)
    ms = common.percentiles_ms(seconds)
    return Task(
        name,
        sum(sizes) / sum(seconds),
        sum(sizes[-tenth:]) / sum(seconds[-tenth:]),
        ms["p50_ms"],
        ms["max_ms"],
        state_bytes,
    )


# -- merging --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Merging:
    """`step_ms`: of steps of `batch_rows` new keys, from none to all."""

    name: str
    batch_rows: int
    rows_per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    step_ms: list[float]


def _merging(name: str, effort: int, keys: int) -> Merging:
    batch_rows = min(_MERGE_BATCH_ROWS, max(keys // 100, 1))
    before, spine.EFFORT = spine.EFFORT, effort
    try:
        with _table("ids", "id BIGINT PRIMARY KEY") as db, garbage_collected():
            seconds = [
                _insert(db, "ids", pa.table({"id": identifiers(at, min(at + batch_rows, keys))}))
                for at in range(0, keys, batch_rows)
            ]
            count = pa.table({"n": pa.array([keys], pa.int64())})
            _expect(db, "SELECT count(*) AS n FROM ids", count)
    finally:
        spine.EFFORT = before
    ms = common.percentiles_ms(seconds)
    return Merging(
        name, batch_rows, keys / sum(seconds), step_ms=[each * 1000 for each in seconds], **ms
    )


# -- load -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """`latency_ms`: of the update that waited longest, step by step. `is_sustained`: the steps kept
    up with what arrived; `reached`: updates applied per second."""

    offered: int
    reached: float
    is_sustained: bool
    steps: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    latency_ms: list[float]


def _fill(db: sqlview.Session, keys: int, *, with_value: bool) -> None:
    for at in range(0, keys, _BULK_ROWS):
        ids = identifiers(at, min(at + _BULK_ROWS, keys))
        columns = {"id": ids, "v": _value(ids)} if with_value else {"id": ids}
        _insert(db, "ids", pa.table(columns))


def _load(
    db: sqlview.Session, keys: int, offered: int, seconds: float, start: int
) -> tuple[Load, int]:
    """Offer so many updates per second. The first `start` identifiers have left before."""
    total = int(offered * seconds) // 2 * 2
    half = total // 2
    leaving = identifiers(start, start + half)
    coming = identifiers(start + keys, start + keys + half)
    done, latency_ms = 0, []
    with garbage_collected():
        started = time.perf_counter()
        while done < total:
            now = time.perf_counter() - started
            due = min(int(now * offered), total) // 2 * 2
            if due == done:
                time.sleep(1e-4)
                continue
            with db.transaction() as tx:
                tx.delete("ids", pa.table({"id": leaving[done // 2 : due // 2]}))
                tx.insert("ids", pa.table({"id": coming[done // 2 : due // 2]}))
            finished = time.perf_counter() - started
            latency_ms.append((finished - done / offered) * 1000)
            done = due
            if finished - done / offered > _MOST_BEHIND_SECONDS:
                break
    start += done // 2
    expected = pa.table(
        {"n": pa.array([keys], pa.int64()),
         "least": pa.array([identifiers(start, start + keys).min()], pa.int64())}
    )  # fmt: skip
    _expect(db, "SELECT count(*) AS n, min(id) AS least FROM ids", expected)
    behind = done / finished < _KEPT_UP * offered
    ms = common.percentiles_ms([each / 1000 for each in latency_ms])
    found = Load(offered, done / finished, not behind, len(latency_ms), latency_ms=latency_ms, **ms)
    return found, start


# -- join -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """Medians of installing a view that joins `probes` keys, and of a step that brings as many."""

    probes: int
    install_ms: float
    step_ms: float


def _value(ids: Ints) -> Ints:
    return ids & 1023


def _joins(keys: int, repeat: int) -> list[Join]:
    found: list[Join] = []
    with _table("ids", "id BIGINT PRIMARY KEY, v BIGINT NOT NULL") as db:
        _fill(db, keys, with_value=True)
        probes = 1
        while probes <= min(keys // 2, 1_000_000):
            install_ms, step_ms = [], []
            for turn in range(repeat + 1):
                chosen = identifiers(0, 2 * probes)
                db.sql("CREATE TABLE probes (id BIGINT NOT NULL)")
                _insert(db, "probes", pa.table({"id": chosen[:probes]}))
                started = time.perf_counter()
                db.sql(
                    "CREATE MATERIALIZED VIEW joined AS SELECT count(*) AS n, sum(i.v) AS s "
                    "FROM probes p JOIN ids i ON p.id = i.id"
                )
                db.view("joined").to_arrow()
                installed = (time.perf_counter() - started) * 1000
                stepped = _insert(db, "probes", pa.table({"id": chosen[probes:]})) * 1000
                expected = pa.table({"n": [len(chosen)], "s": [int(_value(chosen).sum())]})
                common.check_view(db, "joined", expected, is_ordered=False)
                db.sql("DROP MATERIALIZED VIEW joined")
                db.sql("DROP TABLE probes")
                if turn:
                    install_ms.append(installed)
                    step_ms.append(stepped)
            found.append(Join(probes, float(np.median(install_ms)), float(np.median(step_ms))))
            probes *= 10
    return found


# -- results --------------------------------------------------------------------------------------


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    keys, number = result["settings"]["keys"], common.number
    return [
        common.Figures(
            f"Tasks while {keys:,} keys arrive in random order, one core",
            ("", "rows/s", "rows/s, last tenth", "step p50 ms", "max ms", "state MiB"),
            tuple(
                (
                    t["name"],
                    number(t["rows_per_second"]),
                    number(t["last_rows_per_second"]),
                    number(t["p50_ms"]),
                    number(t["max_ms"]),
                    common.mib(t["state_bytes"]) if t["state_bytes"] else "-",
                )
                for t in result["tasks"]
            ),
        ),
        common.Figures(
            f"Amortised merging, steps of {result['merging'][0]['batch_rows']:,} keys",
            ("merging", "rows/s", "p50 ms", "p95 ms", "p99 ms", "max ms"),
            tuple(
                (
                    m["name"],
                    number(m["rows_per_second"]),
                    *(number(m[k]) for k in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
                )
                for m in result["merging"]
            ),
        ),
        common.Figures(
            f"Offered load against latency over {keys:,} keys",
            ("updates/s offered", "reached", "sustained", "p50 ms", "p95 ms", "p99 ms", "max ms"),
            tuple(
                (
                    f"{load['offered']:,}",
                    number(load["reached"]),
                    "yes" if load["is_sustained"] else "no",
                    *(number(load[k]) for k in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
                )
                for load in result["loads"]
            ),
        ),
        common.Figures(
            f"Joins against a live arrangement of {keys:,} keys",
            ("keys joined", "installation ms", "step ms"),
            tuple(
                (f"{j['probes']:,}", number(j["install_ms"]), number(j["step_ms"]))
                for j in result["joins"]
            ),
        ),
    ]


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    if result["settings"]["keys"] < 10_000_000:
        return []
    sustained = max((x["offered"] for x in result["loads"] if x["is_sustained"]), default=0)
    return [
        common.Target(
            "one core sustains 1 M updates/s over 10 M keys (as published)",
            f"{sustained:,} updates/s",
            sustained >= _PAPER_LOAD,
        )
    ]


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    with results.chart(3) as (load, merging, join):
        for each in result["loads"]:
            mark = "" if each["is_sustained"] else " (not sustained)"
            common.draw_ccdf(load, each["latency_ms"], f"{each['offered']:,} updates/s{mark}")
        load.set_title("Offered load")
        load.set_xlabel("ms from arrival to commit")
        for each in result["merging"]:
            common.draw_ccdf(merging, each["step_ms"], each["name"])
        merging.set_title("Merging")
        probes = [each["probes"] for each in result["joins"]]
        for name, label in (("install_ms", "installation"), ("step_ms", "step")):
            join.plot(probes, [each[name] for each in result["joins"]], "o-", label=label)
        join.set_xscale("log")
        join.set_yscale("log")
        join.set_xlabel("keys joined")
        join.set_ylabel("ms")
        join.set_title(f"Join against {result['settings']['keys']:,} arranged keys")
        for axes in (load, merging, join):
            axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
