"""Two sessions that are given the same changes: one runs its steps inline, the other on Spark."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

import sqlview
from operators.executor.spark import SparkExecutor
from planner.errors import SqlViewError

Operation = tuple[str, str, list[Any]]


class Twins:
    """`spark` and `inline` sessions with the same tables and views; `executor` runs the former."""

    def __init__(
        self, executor: SparkExecutor, tables: Sequence[str], views: dict[str, str]
    ) -> None:
        self.executor = executor
        self.inline = sqlview.connect(placement="inline")
        self.spark = sqlview.connect(placement="inline")
        self.spark._inline = executor  # type: ignore[assignment]
        self.views = views
        self._deltas: dict[tuple[bool, str], list[pa.Table]] = defaultdict(list)
        for on_spark, db in self._both:
            for statement in tables:
                db.sql(statement)
            for name, query in views.items():
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                db.subscribe(name, self._deltas[on_spark, name].append)

    @property
    def _both(self) -> tuple[tuple[bool, Any], ...]:
        return (False, self.inline), (True, self.spark)

    def step(self, transactions: Sequence[Sequence[Operation]]) -> int:
        """Apply transactions in one step to both, and compare them; returns how many rows of
        consolidated deltas the views had."""
        self._clear()
        for _, db in self._both:
            begun = []
            for operations in transactions:
                tx = db.begin()
                for action, table, rows in operations:
                    getattr(tx, action)(table, rows)
                begun.append(tx)
            db.apply(begun)
        return self.compare()

    def compare(self) -> int:
        changed = 0
        for name in self.views:
            inline, spark = (_net(self._deltas[side, name]) for side, _ in self._both)
            assert spark == inline, f"deltas of {name}"
            changed += len(spark)
            assert _rows(self.spark, name) == _rows(self.inline, name), f"rows of {name}"
        return changed

    def close(self) -> None:
        self.inline.close()
        self.spark.close()
        self.executor.close()

    def _clear(self) -> None:
        for tables in self._deltas.values():
            tables.clear()


class Changes:
    """Random operations over keyed tables. `rows[table](rng, key)` makes a row."""

    def __init__(self, seed: int, keys: int, rows: dict[str, Any]) -> None:
        self.rng = random.Random(seed)
        self._keys = keys
        self._rows = rows
        self._present: dict[str, set[int]] = {t: set() for t in rows}

    def transaction(self, operations: int) -> list[Operation]:
        out: list[Operation] = []
        for _ in range(operations):
            table = self.rng.choice(list(self._rows))
            key, present = self.rng.randrange(self._keys), self._present[table]
            if key in present and self.rng.random() < 0.4:
                present.discard(key)
                out.append(("delete", table, [{"k": key}]))
            else:
                present.add(key)
                out.append(("upsert", table, [self._rows[table](self.rng, key)]))
        return out


TABLES = (
    "CREATE TABLE a (k BIGINT PRIMARY KEY, x BIGINT, s STRING)",
    "CREATE TABLE b (k BIGINT PRIMARY KEY, a BIGINT, y DECIMAL(12, 2))",
    "CREATE TABLE c (k BIGINT PRIMARY KEY, b BIGINT, z DOUBLE)",
)

VIEWS = {
    "linear": "SELECT x % 3 AS g, COUNT(*) AS n, SUM(x) AS t FROM a WHERE x > 2 GROUP BY x % 3",
    "total": "SELECT COUNT(*) AS n, SUM(z) AS z FROM c",
    "three": (
        "SELECT a.s, COUNT(*) AS n, SUM(b.y) AS y, SUM(c.z) AS z "
        "FROM a JOIN b ON b.a = a.k JOIN c ON c.b = b.k WHERE a.x < 8 GROUP BY a.s"
    ),
    "pairs": "SELECT l.k, r.k AS other FROM b l JOIN b r ON l.a = r.a WHERE l.k < r.k",
    "everything": "SELECT a.*, b.k AS b_k, y FROM a JOIN b ON b.a = a.k",
    "twice": "SELECT k, x FROM a UNION ALL SELECT k, a FROM b UNION ALL SELECT k, x FROM a",
    "top": "SELECT s, x FROM a ORDER BY x DESC, s LIMIT 5",
    "on_view": "SELECT a.k, three.n FROM a JOIN three ON a.s = three.s",
    "diamond": (
        "SELECT b.k, g.n FROM b JOIN (SELECT a, COUNT(*) AS n FROM b GROUP BY a) g ON b.a = g.a"
    ),
    "mixed": "SELECT k FROM a WHERE x > 3 UNION ALL SELECT n FROM three",
    "fragile": "SELECT k, 10 / (x - 4) AS q FROM a WHERE s <> 'z'",
}


def die_once(flag: str, what: str, stage: int) -> Any:
    """A probe for SparkExecutor that kills the first task to reach `stage`, or ("executor") the
    JVM that runs it; the file `flag` tells that it has happened."""

    def probe(at: int, task: int) -> None:
        import os
        import signal

        if at != stage:
            return
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if what == "task":
            os._exit(1)
        # This process is a child of the daemon, which is a child of the executor.
        with open(f"/proc/{os.getppid()}/stat") as file:
            parent = int(file.read().rsplit(")", 1)[1].split()[1])
        os.kill(parent, signal.SIGKILL)

    return probe


def a_row(rng: random.Random, key: int) -> tuple[Any, ...]:
    return key, rng.choice([None, *range(10)]), rng.choice("uvwxyz")


def b_row(rng: random.Random, key: int) -> tuple[Any, ...]:
    return key, rng.choice([None, *range(30)]), Decimal(rng.randrange(1000)) / 100


def c_row(rng: random.Random, key: int) -> tuple[Any, ...]:
    return key, rng.randrange(30), rng.choice([None, rng.random(), 1e300 * rng.random()])


def changes(seed: int) -> Changes:
    return Changes(seed, 30, {"a": a_row, "b": b_row, "c": c_row})


def _net(tables: list[pa.Table]) -> Counter[str]:
    """Updates per (row, time), added up."""
    net: Counter[str] = Counter()
    for table in tables:
        for row in table.to_pylist():
            diff = row.pop("__diff")
            net[repr(row)] += diff
    return Counter({row: n for row, n in net.items() if n})


def _rows(db: Any, name: str) -> Any:
    try:
        return sorted(map(repr, db.view(name).rows()))
    except SqlViewError as error:
        return str(error)
