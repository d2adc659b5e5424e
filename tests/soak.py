"""`python -m tests.soak --minutes N`: churn for as long as one likes; memory and state stay flat.

Two sessions take turns, one with the 22 views of TPC-H (scale factor 0.01) and one with a hundred
small views. Every round rows leave, come back and change, in transactions of their own and in
hundreds handed over as columns; a view is dropped, created or replaced; subscribers come and go;
some views are verified. Resident memory and the bytes of state are sampled all the time; at the
end the second half of the samples is compared with the first, all rows are deleted, and the
temporary directory must be as it was.

`small` is the part that the tests run: some rounds of the second kind, by bytes that are counted.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import sqlview
from sqlview.oracle import canonical_rows
from tpch.report import ResidentMemory

_MIB = 1 << 20
#: State may be so much larger in the second half, and so many bytes: blocks fill and are let go.
_GROWTH, _SLACK_BYTES = 1.1, _MIB // 2
#: The same of resident memory, which the allocator and Python's caches have a share in.
_RSS_GROWTH, _RSS_SLACK_BYTES = 1.1, 64 * _MIB
#: What stays of a relation or an index when nothing lives: less than a block is closed at.
_LEFT_BYTES = 1 << 19


class Grown(AssertionError):
    """State or memory is not flat, or something is left behind."""


@dataclass(slots=True)
class Series:
    """Samples of something that must stay flat."""

    name: str
    growth: float = _GROWTH
    slack: int = _SLACK_BYTES
    samples: list[int] = field(default_factory=list)

    def check(self) -> str:
        """One line about it. Raises: Grown."""
        # Blocks fill and are rewritten in turn: some forty rounds until as many come as go.
        warm = self.samples[len(self.samples) // 3 :]
        half = len(warm) // 2
        first, second = warm[:half], warm[half:]
        if not first:
            return f"{self.name}: too few samples"
        typical = [statistics.median(x) for x in (first, second)]
        most = [max(x) for x in (first, second)]
        some = self.samples[:: max(len(self.samples) // 12, 1)]
        shown = ", ".join(f"{x / _MIB:.2f}" for x in some)
        line = (
            f"{self.name}, MiB: median {typical[0] / _MIB:.2f} -> {typical[1] / _MIB:.2f}, most "
            f"{most[0] / _MIB:.2f} -> {most[1] / _MIB:.2f} in {len(self.samples)} samples: {shown}"
        )
        if typical[1] > self.growth * typical[0] + self.slack:
            raise Grown(line)
        return line


@dataclass(slots=True)
class _Heard:
    """A subscriber that adds up what it hears: it must come to the view's rows."""

    view: str
    total: Counter[tuple[Any, ...]]

    def __call__(self, changes: pa.Table) -> None:
        for *row, _, diff in canonical_rows(changes):
            self.total[tuple(row)] += diff


class Small:
    """A session with many small views over two tables, and what is done to it.

    `live`: about how many rows a table has.
    """

    def __init__(self, rng: Random, views: int, live: int = 300) -> None:
        self._rng, self._live, self._views = rng, live, views
        self.db = sqlview.connect(placement="inline")
        self.db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, n BIGINT, s STRING, x DOUBLE)")
        self.db.sql("CREATE TABLE u (g INT, m INT, w STRING)")
        self._bag: list[tuple[Any, ...]] = []
        self._made = 0
        self._queries: dict[str, str] = {}
        self._heard: list[_Heard] = []
        self.state = Series(f"state of {views} small views")
        self.verified = 0
        for _ in range(views):
            self._create()

    def round(self, steps: int = 4, times: int = 200) -> None:
        """Some steps as columns and alone, a change of the views, some views verified."""
        for _ in range(steps):
            with self.db.transactions() as txs:
                ids = self._ids(times)
                txs.upsert("t", [self._row(i) for i in ids], times=list(range(times)))
            self._change_alone()
        self._sample()
        self._define()
        for name in self._rng.sample(sorted(self._queries), 2):
            self.verify(name)

    def verify(self, name: str) -> None:
        """Raises: AssertionError if the view is wrong."""
        found = self.db.verify(name)
        assert found.equal, f"{found}\n{self._queries[name]}"
        self.verified += 1
        for heard in self._heard:
            if heard.view == name:
                rows = Counter(canonical_rows(self.db.view(name).to_arrow()))
                assert +heard.total == rows, f"deltas of {name} do not add up"

    def empty(self) -> None:
        """Delete all rows, go on a little; little may be left. Raises: Grown."""
        with self.db.transaction() as tx:
            tx.delete("t", _keys(self.db))
            tx.delete("u", self._bag)
        self._bag = []
        for i in range(3):
            with self.db.transaction() as tx:
                tx.insert("t", [self._row(i)])
            with self.db.transaction() as tx:
                tx.delete("t", [(i,)])
        for name in self._queries:
            self.verify(name)
        left = [(r["relation"], r["detail"], r["bytes"]) for r in self.db.state().to_pylist()]
        large = [x for x in left if x[2] > _LEFT_BYTES]
        if large:
            raise Grown(f"with no row left there is still {large}")

    def close(self) -> None:
        self.db.close()

    def _sample(self) -> None:
        self.state.samples.append(sum(self.db.state()["bytes"].to_pylist()))

    def _ids(self, count: int) -> list[int]:
        return [self._rng.randrange(self._live) for _ in range(count)]

    def _row(self, key: int) -> tuple[Any, ...]:
        rng = self._rng
        text = rng.choice(("", "a", "text that is long enough ")) + str(rng.randrange(50))
        return (key, rng.randrange(8), rng.randrange(1000), text, rng.random())

    def _change_alone(self) -> None:
        """One transaction: some keys deleted, some rows of the bag gone, others there."""
        rng = self._rng
        gone = {(i,) for i in self._ids(5)}
        with self.db.transaction() as tx:
            tx.upsert("t", [self._row(i) for (i,) in gone])
            tx.delete("t", sorted(gone))
            while len(self._bag) > self._live // 2:
                victim = self._bag.pop(rng.randrange(len(self._bag)))
                tx.delete("u", [victim])
            come = [(rng.randrange(8), rng.randrange(20), f"w{rng.randrange(9)}") for _ in range(8)]
            self._bag += come
            tx.insert("u", come)

    def _define(self) -> None:
        """Drop and create, replace, subscribe, unsubscribe."""
        rng = self._rng
        self.db.sql(f"DROP MATERIALIZED VIEW {self._forgotten()}")
        self._create()
        name = rng.choice(sorted(self._queries))
        self._heard = [h for h in self._heard if h.view != name]  # its columns may change
        self._queries[name] = _query(rng)
        self.db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {self._queries[name]}")
        if len(self._heard) > 5:
            heard = self._heard.pop(rng.randrange(len(self._heard)))
            self.db.unsubscribe(heard.view, heard)
        name = rng.choice(sorted(self._queries))
        rows = Counter(canonical_rows(self.db.view(name).to_arrow()))
        self._heard.append(_Heard(name, rows))
        self.db.subscribe(name, self._heard[-1])

    def _create(self) -> None:
        self._made += 1
        name = f"v{self._made}"
        self._queries[name] = _query(self._rng)
        self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {self._queries[name]}")

    def _forgotten(self) -> str:
        name = self._rng.choice(sorted(self._queries))
        del self._queries[name]
        self._heard = [h for h in self._heard if h.view != name]
        return name


_SHAPES = (
    "SELECT g, max(s) AS a, min(s) AS b FROM t WHERE n >= {k} GROUP BY g",
    "SELECT g, sum(n) AS a, count(*) AS b, avg(x) AS c FROM t WHERE n < {k} GROUP BY g",
    "SELECT t.id, t.s, u.w FROM t JOIN u ON t.g = u.g AND u.m > {m} WHERE t.n < {k}",
    "SELECT u.m, u.w, t.id FROM u LEFT JOIN t ON t.id = u.m + {m}",
    "SELECT id, s, n FROM t ORDER BY n DESC, id LIMIT {m}",
    "SELECT DISTINCT s FROM t WHERE g <> {m}",
    "SELECT id FROM t WHERE x > (SELECT avg(x) FROM t WHERE n > {k})",
    "SELECT g, median(n) AS a, count(DISTINCT s) AS b FROM t WHERE n > {k} GROUP BY g",
    "SELECT s FROM t WHERE n < {k} EXCEPT SELECT w FROM u",
    "SELECT id, n FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.m < {m})",
    "SELECT max(s) AS a, sum(n) AS b FROM t WHERE g < {m}",
)


def _query(rng: Random) -> str:
    return rng.choice(_SHAPES).format(k=rng.randrange(1000), m=rng.randrange(1, 9))


def _keys(db: sqlview.Session) -> list[tuple[Any, ...]]:
    db.sql("CREATE MATERIALIZED VIEW all_of_t AS SELECT id FROM t")
    rows = [tuple(row) for row in db.view("all_of_t").rows()]
    db.sql("DROP MATERIALIZED VIEW all_of_t")
    return rows


class Tpch:
    """A session with the 22 views, of whose rows some leave and come back in every step."""

    def __init__(self, rng: Random, directory: Path) -> None:
        from tpch import generate, queries, schema

        self._random = np.random.default_rng(rng.randrange(1 << 30))
        tables = generate.load(generate.generate(0.01, directory))
        self._queries = {q.name: q.sql for q in queries.all_queries("lively")}
        self._tables = {d: tables[d.name] for d in schema.TABLES if d.name in tables}
        self._there = {d.name: np.ones(rows.num_rows, bool) for d, rows in self._tables.items()}
        self.db = sqlview.connect(placement="inline")
        for definition in self._tables:
            self.db.sql(definition.sql)
        with self.db.transaction() as tx:
            for definition, rows in self._tables.items():
                tx.insert(definition.name, rows)
        for name, text in self._queries.items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        self.state = Series("state of the 22 views of TPC-H")
        self.verified = 0
        self._turn = 0

    def round(self, steps: int = 20) -> None:
        for _ in range(steps):
            with self.db.transaction() as tx:
                for definition, rows in self._tables.items():
                    self._toggle(tx, definition.name, definition.primary_key, rows)
        self._turn += 1
        names = sorted(self._queries)
        name = names[self._turn % len(names)]
        self.db.sql(f"DROP MATERIALIZED VIEW {name}")
        self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {self._queries[name]}")
        other = names[(self._turn * 7 + 3) % len(names)]
        text = f"CREATE OR REPLACE MATERIALIZED VIEW {other} AS {self._queries[other]}"
        self.db.sql(text)
        for each in (name, other):
            found = self.db.verify(each)
            assert found.equal, str(found)
            self.verified += 1
        self.state.samples.append(sum(self.db.state()["bytes"].to_pylist()))

    def close(self) -> None:
        self.db.close()

    def _toggle(self, tx: Any, name: str, key: Sequence[str], rows: pa.Table) -> None:
        """About one row in two hundred leaves if it is there, and comes back if it is not."""
        there = self._there[name]
        most = max(rows.num_rows // 200, 1)
        chosen = np.unique(self._random.integers(0, rows.num_rows, min(most, 100)))
        come, gone = chosen[~there[chosen]], chosen[there[chosen]]
        if int(there.sum()) < 3 * len(there) // 4:  # so many are there, then as many go as come
            gone = gone[: len(come)]
        tx.delete(name, rows.select(list(key)).take(pa.array(gone)))
        tx.insert(name, rows.take(pa.array(come)))
        there[gone], there[come] = False, True


def small(seed: int, rounds: int = 24) -> int:
    """The deterministic part: returns how many views were compared. Raises: Grown."""
    session = Small(Random(seed), views=12, live=100)
    try:
        for _ in range(rounds):
            session.round(steps=2, times=100)
        session.state.check()
        session.empty()
        return session.verified
    finally:
        session.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--views", type=int, default=100, help="small views")
    parser.add_argument("--only", choices=("small", "tpch"))
    options = parser.parse_args(arguments)
    started, told = time.monotonic(), 0.0
    with tempfile.TemporaryDirectory(prefix="sqlview-soak-") as directory:
        data, scratch = Path(directory) / "data", Path(directory) / "tmp"
        scratch.mkdir()
        tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)
        rng, memory = Random(options.seed), ResidentMemory()
        makers: dict[str, Callable[[], Small | Tpch]] = {
            "small": lambda: Small(rng, options.views),
            "tpch": lambda: Tpch(rng, data),
        }
        sessions = [make() for name, make in makers.items() if options.only in (None, name)]
        resident = Series("resident memory", _RSS_GROWTH, _RSS_SLACK_BYTES)
        rounds = 0
        while time.monotonic() - started < 60 * options.minutes:
            for session in sessions:
                session.round()
            rounds += 1
            gc.collect()
            resident.samples.append(memory.now_bytes())
            if time.monotonic() - told >= 20:
                told = time.monotonic()
                print(_progress(told - started, rounds, sessions, resident), flush=True)
        failed = False
        for series in (*(s.state for s in sessions), resident):
            try:
                print(series.check())
            except Grown as grown:
                failed = True
                print(f"GROWN: {grown}")
        for session in sessions:
            if isinstance(session, Small):
                session.empty()
            session.close()
        left = sorted(str(p.relative_to(scratch)) for p in scratch.rglob("*"))
        if left:
            failed = True
            print(f"LEFT BEHIND: {left[:20]}")
        verified = sum(s.verified for s in sessions)
        minutes = (time.monotonic() - started) / 60
        print(f"{rounds} rounds in {minutes:.1f} minutes, {verified} views verified, no file left")
    return 1 if failed else 0


def _progress(
    seconds: float, rounds: int, sessions: Sequence[Small | Tpch], resident: Series
) -> str:
    epochs = ", ".join(f"epoch {s.db.epoch:,}" for s in sessions)
    states = ", ".join(f"{s.state.samples[-1] / _MIB:.2f}" for s in sessions)
    return (
        f"{seconds:6.0f} s  {rounds} rounds, {epochs}; state {states} MiB, resident "
        f"{resident.samples[-1] / _MIB:.0f} MiB"
    )


if __name__ == "__main__":
    sys.exit(main())
