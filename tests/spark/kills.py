"""Stores that Spark's tasks write while tasks, executors and the driver are killed.

A driver with two executors is told to load, to create a view or to change many rows, and one of
them is killed at a call that belongs to a phase of that: what tasks read, sort, exchange and write,
and what the driver commits. What is there then is what there was, or all of the operation, once;
where the driver lives on, the operation. No file is left that nobody needs.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark

import sqlview
from operators.checkpoint import stored_values
from tests.spark.bombs import VICTIMS, Bomb, processes

ROOT = Path(__file__).parents[2]
#: A load has so many rows, in three parts.
ROWS = 60_000
TABLES = (
    "CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY, g BIGINT, v BIGINT, s STRING)",
    "CREATE TABLE IF NOT EXISTS u (g BIGINT PRIMARY KEY, w STRING)",
)
LOOKUP = pa.table({"g": np.arange(1000), "w": [f"a text of group {g % 90}" for g in range(1000)]})
_VIEWS = (
    "SELECT g, count(*) AS n, sum(v) AS v FROM t GROUP BY g",
    "SELECT t.id, t.s, u.w FROM t JOIN u ON u.g = t.g WHERE t.v % 3 <> 0",
    # A window, a top-k of groups, and a threshold whose scalar moves.
    (
        "SELECT id, lag(v) OVER (PARTITION BY g ORDER BY id) AS x FROM t UNION ALL "
        "SELECT id, v FROM (SELECT id, v, row_number() OVER (PARTITION BY g ORDER BY v, id) AS r "
        "FROM t) WHERE r <= 3 UNION ALL SELECT id, v FROM t WHERE v > (SELECT avg(v) FROM t)"
    ),
    "SELECT u.w, count(*) AS n, sum(t.v) AS v FROM t JOIN u ON u.g = t.g GROUP BY u.w",
    "SELECT id, v FROM t WHERE v % 5 = 0 UNION ALL SELECT id, g FROM t WHERE g < 500",
)
#: A store has so many operations.
_OPERATIONS = 8
#: Of so many drivers one dies with its Spark, which takes long to start.
_WHOLE = 7
#: More than any operation takes, with what is done again.
_SECONDS = 150.0

#: By operation and phase: calls, in any process, before or "after" which somebody dies.
_TASK = "operators.executor.spark.task:"
_OUTBOX = "operators.executor.spark.outbox:Outbox."
_SEGMENT = "operators.state.segments:SegmentWriter.finish"
_PACK = "operators.state.pieces:Pack.write"
_COMMIT = ("sqlview.store.log:Log.append", "sqlview.store.log:Log.append after")
_JOB = {
    "read": (_TASK + "AttachedJob._chunks",),
    "sort": (_OUTBOX + "put_part", "operators.executor.spark.applied:apply"),
    "exchange": (_OUTBOX + "exchange", _TASK + "AttachedJob._receive"),
    "write": (_SEGMENT, _SEGMENT + " after", _PACK, _PACK + " after"),
    "commit": (*_COMMIT, "operators.executor.spark.applied:take after"),
}
#: Of nodes that have partitions, and of thresholds.
_BETWEEN = tuple(_TASK + f"AttachedJob.{each}" for each in ("_deal", "_step", "_moved"))
#: Of rows in files that replace others.
_MATCH = ("operators.executor.spark.indexes:_Task.sort", "operators.state.unique:matched after")
POINTS: dict[str, dict[str, tuple[str, ...]]] = {
    "load": {
        "read": ("operators.flight.arrow:TableReader.columns",),
        "sort": ("operators.executor.spark.indexes:_Task.sort",),
        "exchange": (
            "operators.executor.spark.indexes:_Task.deal",
            "operators.executor.spark.indexes:_Task._dealt after",
        ),
        "write": (_SEGMENT, _SEGMENT + " after", _PACK, _PACK + " after"),
        "commit": (*_COMMIT, "sqlview.store.checkpoints:write"),
    },
    "hydration": _JOB,
    "flood": _JOB | {"exchange": (*_JOB["exchange"], *_BETWEEN), "sort": (*_JOB["sort"], *_MATCH)},
}
PHASES = ("read", "sort", "exchange", "write", "commit")


@dataclass(frozen=True, slots=True)
class Order:
    """Operation `number` of the store at `path`, and who is killed at which call of a phase: number
    `nth` of `target`, counted by the file `counter`; nobody without a target."""

    path: str
    operation: str
    number: int
    phase: str = ""
    victim: str = ""
    target: str = ""
    nth: int = 1
    counter: str = ""

    def bomb(self, driver: int, spark: int) -> Bomb | None:
        if not self.target:
            return None
        target, _, after = self.target.partition(" ")
        return Bomb(self.counter, target, bool(after), self.nth, self.victim, driver, spark)


def cells() -> list[tuple[str, str, str]]:
    """What there is to kill: (operation, phase, victim). When the driver commits, no task is left
    to be killed."""
    return [
        (operation, phase, victim)
        for operation, phases in POINTS.items()
        for phase in phases
        for victim in VICTIMS[:3]
        if (phase, victim) != ("commit", "task")
    ]


def rows_of(number: int) -> pa.Table:
    """What load `number` brings: keys in no order."""
    ids = np.random.default_rng(number).permutation(ROWS) + number * ROWS
    return pa.table(
        {
            "id": ids,
            "g": ids % 1000,
            "v": ids * 3 % 100_003,
            "s": pa.array([None if i % 11 == 0 else f"text {i % 777}" for i in ids.tolist()]),
        }
    )


def view_of(number: int) -> str:
    return f"CREATE MATERIALIZED VIEW v{number} AS {_VIEWS[number % len(_VIEWS)]}"


def flood_of(number: int, table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that change or come, and the keys of those that go, of a table as it is; every
    second time none goes."""
    table = table.sort_by("id")
    ids = table["id"].to_numpy()
    changed = table.filter(pa.array(ids % 4 == number % 4))
    changed = changed.set_column(2, "v", pc.add(changed["v"], 17 * (number + 1)))
    changed = changed.set_column(1, "g", pc.bit_wise_xor(changed["g"], 1))
    fresh = rows_of(1000 + number).slice(0, ROWS // 10)
    goes = (ids % 4 != number % 4) & (ids % 13 == number % 13) & (number % 2 == 0)
    gone = pa.table({"id": ids[goes]})
    return pa.concat_tables([changed, fresh.cast(changed.schema)]), gone


@dataclass(frozen=True, slots=True)
class State:
    """What is in a store: the rows of `t`, ordered, and the names of its views."""

    rows: pa.Table = field(default_factory=lambda: rows_of(0).slice(0, 0))
    views: frozenset[str] = frozenset()

    def after(self, order: Order) -> State:
        match order.operation:
            case "load":
                rows = pa.concat_tables([self.rows, rows_of(order.number)])
                return State(rows.sort_by("id"), self.views)
            case "hydration":
                return State(self.rows, self.views | {f"v{order.number}"})
            case _:
                new, gone = flood_of(order.number, self.rows)
                leave = pa.concat_tables([new.select(["id"]), gone])["id"]
                stay = self.rows.filter(pc.invert(pc.is_in(self.rows["id"], value_set=leave)))
                return State(pa.concat_tables([stay, new]).sort_by("id"), self.views)

    def equals(self, other: State) -> bool:
        """Whether they are the same."""
        same = self.views == other.views
        return same and self.rows.combine_chunks().equals(other.rows.combine_chunks())


#: How the JVMs start soonest: they are short-lived.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_CONF = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.app.name": "kills",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.python.daemon.module": "operators.executor.spark.daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Cluster:
    """A Spark with two executors, which drivers use one after the other."""

    def __init__(self, directory: Path) -> None:
        where = directory / "gateway"
        where.unlink(missing_ok=True)
        self._log = (directory / "log").open("a")
        conf = [word for name, value in _CONF.items() for word in ("--conf", f"{name}={value}")]
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        self._process = subprocess.Popen(
            [submit, *conf, "pyspark-shell"],
            env=os.environ | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(where)},
            stdin=subprocess.PIPE,  # it ends when this does
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        until = time.monotonic() + _SECONDS
        while not where.exists():
            if self._process.poll() is not None or time.monotonic() > until:
                self.end()
                raise AssertionError("Spark does not start")
            time.sleep(0.05)
        with where.open("rb") as file:
            port = int.from_bytes(file.read(4), "big")
            secret = file.read(int.from_bytes(file.read(4), "big")).decode()
        #: By which a driver finds it.
        self.environment = {
            "PYSPARK_GATEWAY_PORT": str(port),
            "PYSPARK_GATEWAY_SECRET": secret,
        }

    @property
    def process(self) -> int:
        """That of its JVM, which leads a session of the operating system."""
        return self._process.pid

    def end(self, left_seconds: float = 0.0) -> None:
        """Have it gone, with all that it started, which has so long to go by itself: an executor
        that begins waits long for a Spark that is dead."""
        until = time.monotonic() + left_seconds
        while processes(self.process) and time.monotonic() < until:
            self._process.poll()
            time.sleep(0.05)
        for process in processes(self.process):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._log.close()


class Driver:
    """One that is told what to do."""

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        log = directory / "log"
        self._log = log.open("a")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.killed_life", str(cluster.process)],
            cwd=ROOT,
            env=os.environ | cluster.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
        )
        self._said = b""
        said = self._hear()
        if said != {"ready": True}:
            self.end()
            raise AssertionError(f"there is no driver: {log.read_text()[-3000:]}")

    def tell(self, order: Order) -> list[dict[str, Any]]:
        """Have it do something; what it says until it is done with that, or dead."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        heard: list[dict[str, Any]] = []
        while (said := self._hear()) is not None:
            heard.append(said)
            if "closed" in said:
                break
        return heard

    def _hear(self) -> dict[str, Any] | None:
        """What it says next; None if it is dead. Raises: AssertionError if it hangs."""
        assert self._process.stdout is not None
        out = self._process.stdout
        until = time.monotonic() + _SECONDS
        while b"\n" not in self._said:
            ready, _, _ = select.select([out], [], [], max(0, until - time.monotonic()))
            if not ready:
                self.end()
                raise AssertionError("it hangs")
            some = os.read(out.fileno(), 1 << 16)
            if not some:
                return None
            self._said += some
        line, _, self._said = self._said.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said

    def end(self) -> None:
        """Have it gone."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            assert pipe is not None
            pipe.close()


@dataclass(slots=True)
class Kill:
    """One that was tried: whether somebody was killed, whether the operation was there afterwards,
    how often the driver did itself what tasks should have done, and what is wrong, if anything."""

    operation: str
    phase: str
    victim: str
    died: bool = False
    done: bool = False
    failures: int = 0
    wrong: str | None = None


def kills(
    directory: Path,
    seed: int,
    wanted: Sequence[tuple[str, str, str]],
    cluster: Cluster | None = None,
) -> Iterator[Kill]:
    """Kill somebody for each of the `wanted`, see `cells`, in random order of the points of each;
    what came of it. Where nobody was killed, as the call was never made so often, it is tried
    again. `cluster`: one that is there; it is gone in the end."""
    rng = random.Random(seed)
    work = _Work(directory, cluster)
    try:
        for operation, phase, victim in wanted:
            points = POINTS[operation][phase]
            for nth in (rng.randrange(1, 4), 1, 1, 1):
                kill = Kill(operation, phase, victim)
                try:
                    work.kill(kill, rng.choice(points), nth)
                except AssertionError as error:
                    kill.wrong = f"{operation}, {phase}, {victim}: {error}"
                    work.begin()
                yield kill
                if kill.died or kill.wrong:
                    break
        work.finish()
    finally:
        work.end()


class _Work:
    def __init__(self, directory: Path, cluster: Cluster | None) -> None:
        self._directory = directory
        self._cluster: Cluster | None = None
        self._driver: Driver | None = None
        self._stores = self._tried = 0
        self.begin()
        self._cluster = cluster

    def begin(self) -> None:
        """Go on with a new store, and a new driver if there was one."""
        self.end()
        self._stores += 1
        self._number = 0
        self._path = self._directory / f"store-{self._stores}"
        self._state = State()

    def end(self) -> None:
        if self._driver is not None:
            self._driver.end()
            self._driver = None
        if self._cluster is not None:
            self._cluster.end()
            self._cluster = None

    def finish(self) -> None:
        """The last store goes on, whose driver died if there is none."""
        if self._driver is None:
            self._do(self._order("load"), None)

    def kill(self, kill: Kill, target: str, nth: int) -> None:
        """Raises: AssertionError if what is there afterwards is wrong."""
        if self._number >= _OPERATIONS:
            self._stores, self._number = self._stores + 1, 0
            self._path, self._state = self._directory / f"store-{self._stores}", State()
        # There is something to read, and something that follows.
        if kill.operation != "load" and len(self._state.rows) == 0:
            self._do(self._order("load"), None)
        if kill.operation == "flood" and not self._state.views:
            self._do(self._order("hydration"), None)
        self._tried += 1  # what was armed before may still count, in a file that is gone
        counter = self._directory / f"counter-{self._tried}"
        counter.write_bytes(b"")
        order = self._order(kill.operation)
        armed = Order(
            order.path, order.operation, order.number,
            kill.phase, kill.victim, target, nth, str(counter),
        )  # fmt: skip
        try:
            self._do(armed, kill)
        finally:
            kill.died = counter.stat().st_size >= nth
            counter.unlink()
        if not (kill.died and kill.victim.startswith("driver")):
            assert kill.done, "it was not done"

    def _order(self, operation: str) -> Order:
        self._number += 1
        return Order(str(self._path), operation, self._number)

    def _do(self, order: Order, kill: Kill | None) -> None:
        if self._cluster is None:
            self._cluster = Cluster(self._directory)
        if self._driver is None:
            self._driver = Driver(self._directory, self._cluster)
        heard = self._driver.tell(order)
        done = any("done" in said for said in heard)
        after = self._state.after(order)
        if any("closed" in said for said in heard):
            self._check([after])
        else:
            assert kill is not None, "the driver is dead"
            assert kill.victim.startswith("driver"), "the driver is dead"
            # Tasks of a driver that is dead may still write.
            found = self._check([after] if done else [self._state, after], others=True)
            self._driver.end()
            self._driver = None
            if kill.victim != "driver":
                self._cluster.end(left_seconds=30.0)
                self._cluster = None
                self._check([found])
            done = done or found.equals(after)
            after = found
        if kill is not None:
            kill.done = done
            kill.failures = sum(said.get("failures", 0) for said in heard)
        self._state = after

    def _check(self, expected: list[State], others: bool = False) -> State:
        """What is there, which is one of the expected states. `others`: somebody may still write
        files."""
        if not (self._path / "store.json").exists():
            assert expected[0].equals(State()), "the store is gone"
            return expected[0]
        with sqlview.connect(self._path) as db:
            tables = db.sql("SHOW TABLES").to_arrow()["table"].to_pylist()
            views = db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist()
            rows = db._read("t").sort_by("id") if "t" in tables else State().rows
            found = State(rows.cast(State().rows.schema), frozenset(views))
            assert any(found.equals(state) for state in expected), _difference(found, expected)
            for view in views:
                assert db.verify(view, engine="duckdb").equal, f"{view} is wrong"
            left = orphans(db)
            assert others or not left, f"nobody needs {sorted(left)}"
        return found


def _difference(found: State, expected: list[State]) -> str:
    ids = found.rows["id"].to_pylist()
    return (
        f"{len(ids)} rows, {len(ids) - len(set(ids))} of them doubled, views {sorted(found.views)};"
        f" not {' or '.join(f'{len(s.rows)} rows, {sorted(s.views)}' for s in expected)}"
    )


def orphans(db: sqlview.Session) -> set[str]:
    """The files of an open store that nothing in it needs."""
    store = db._store
    assert store is not None
    homes = {stored.home.file for stored in stored_values(db._dataflow) if stored.home is not None}
    needed = homes | set(store._referred) | {"store.json", "lease", "spark-costs.json"}
    if store.checkpoint is not None:
        needed |= {os.path.basename(store.checkpoint.path), *store.checkpoint.values}
    return {
        name for name in os.listdir(store.path) if name not in needed and not name.startswith("log")
    }


def main(count: int, seed: int) -> int:
    """Kill so many, with progress, and print how many of each phase; how many were wrong."""
    rng, started = random.Random(seed), time.monotonic()
    every: list[tuple[str, str, str]] = []
    while len(every) < count:
        some = cells()
        rng.shuffle(some)
        drivers = [i for i, cell in enumerate(some) if cell[2] == "driver"]
        for i in drivers[::_WHOLE]:
            some[i] = (*some[i][:2], "driver and Spark")
        every += some
    died: Counter[tuple[str, str, str]] = Counter()
    done = wrong = missed = by_driver = 0
    with suppress(KeyboardInterrupt), tempfile.TemporaryDirectory() as directory:
        for kill in kills(Path(directory), seed, every[:count]):
            done += kill.done
            missed += not kill.died
            by_driver += kill.failures > 0
            died[kill.operation, kill.phase, kill.victim] += kill.died
            if kill.wrong is not None:
                wrong += 1
                print(f"wrong: {kill.wrong}", flush=True)
            print(
                f"{time.monotonic() - started:6.0f} s  {died.total():3} of {count} killed: "
                f"{kill.operation}, {kill.phase}, {kill.victim}"
                f"{'' if kill.died else ', not reached'}"
                f"{', done' if kill.done else ', not done'}, {wrong} wrong",
                flush=True,
            )
        if wrong:
            print(Path(directory, "log").read_text()[-20_000:])
    print(f"\n{'':12}" + "".join(f"{phase:>16}" for phase in PHASES))
    for operation in POINTS:
        counts = (
            " ".join(f"{died[operation, phase, victim]:2}" for victim in VICTIMS)
            for phase in PHASES
        )
        print(f"{operation:12}" + "".join(f"{text:>16}" for text in counts))
    print(
        f"Each: {', '.join(VICTIMS)}. {died.total()} killed, {done} operations done, "
        f"{by_driver} with a job that the driver did itself, {missed} not reached, {wrong} wrong"
    )
    return wrong
