"""`python -m tests.alterations --seeds N`: tables that get columns and names while views go on.

A random life: changes, new columns, new names, new views of every kind, checkpoints, a store that
is closed, or copied as it is, and opened again. After each of them every view is compared with
DuckDB's recompute of its text.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import sqlview
from planner.errors import SqlViewError

#: Over tables t(k, a, …) and bag(a, s, …): every way in which a view reads a table.
VIEWS = (
    "SELECT * FROM {t}",
    "SELECT * FROM bag",
    "SELECT * FROM {t} JOIN bag ON {t}.a = bag.a",
    "SELECT y.*, x.k AS xk FROM {t} AS x, {t} AS y WHERE x.a = y.k",
    "SELECT * FROM {t} NATURAL JOIN (SELECT a, s FROM bag) AS b",
    "SELECT * FROM {t} ORDER BY a DESC LIMIT 3",
    "SELECT * FROM {t} WHERE a > (SELECT avg(a) FROM bag)",
    "SELECT * FROM {t} UNION ALL SELECT * FROM {t} WHERE k < 4",
    "SELECT k, a FROM {t} EXCEPT ALL SELECT a, a FROM bag",
    "SELECT DISTINCT * FROM bag",
    "SELECT a, count(*) AS n, max(s) AS m FROM bag GROUP BY a",
    "SELECT a, median(k) AS m FROM {t} GROUP BY a",
    "SELECT {t}.k, bag.s FROM {t} LEFT JOIN bag ON {t}.a < bag.a",
    "SELECT k FROM {t} WHERE EXISTS (SELECT 1 FROM bag WHERE bag.a = {t}.k)",
    "SELECT x.*, l.s FROM {t} x, LATERAL (SELECT s FROM bag WHERE a = x.a ORDER BY s LIMIT 1) l",
)
_LONG = "it's long enough to be no key of two words"
#: Types, defaults as written, and what they are.
DEFAULTS: tuple[tuple[str, str, Any], ...] = (
    ("INT", "DEFAULT -5", -5),
    ("BIGINT NOT NULL", "DEFAULT 7", 7),
    ("STRING", "DEFAULT '" + _LONG.replace("'", "''") + "'", _LONG),
    ("STRING NOT NULL", "DEFAULT ''", ""),
    ("DECIMAL(30,2)", "DEFAULT 1.5", Decimal("1.50")),
    ("DOUBLE", "DEFAULT 0.5", 0.5),
    ("DATE", "DEFAULT DATE '2020-02-29'", date(2020, 2, 29)),
    ("TIMESTAMP_NTZ", "DEFAULT TIMESTAMP_NTZ '2020-01-01 00:00:00'", datetime(2020, 1, 1)),
    ("BOOLEAN", "DEFAULT TRUE", True),
    ("BINARY", "", None),
    ("INT", "DEFAULT NULL", None),
    ("SMALLINT", "", None),
)  # fmt: skip


class Life:
    """A session whose tables change and get columns, whatever it is opened from."""

    def __init__(self, rng: Random, path: Path | None) -> None:
        self.rng, self.path = rng, path
        self.columns = {"t": 0, "bag": 0}
        self.kinds: dict[str, list[str]] = {"t": [], "bag": []}
        self.bag: list[tuple[Any, ...]] = []
        self.keys: set[int] = set()
        self.views = 0
        self.name = "t"
        self.db = sqlview.connect(path, placement="inline")
        self.db.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT)")
        self.db.sql("CREATE TABLE bag (a INT, s STRING)")

    def change(self) -> None:
        rng = self.rng
        with self.db.transaction() as tx:
            keys = rng.sample(range(12), 3)
            tx.upsert(self.name.strip("`"), [(k, rng.randrange(6), *self._more("t")) for k in keys])
            self.keys.update(keys)
            gone = rng.choice(sorted(self.keys))
            if rng.random() < 0.4:
                tx.delete(self.name.strip("`"), [(gone,)])
                self.keys.discard(gone)
            rows = [(rng.randrange(6), rng.choice("xyz"), *self._more("bag")) for _ in range(2)]
            tx.insert("bag", rows)
            self.bag += rows
            if rng.random() < 0.6:
                tx.delete("bag", [self.bag.pop(rng.randrange(len(self.bag)))])

    def add(self) -> None:
        rng, table = self.rng, self.rng.choice(("t", "bag"))
        kind, default, value = rng.choice(DEFAULTS)
        self.columns[table] += 1
        name = self.name if table == "t" else table
        self.db.sql(f"ALTER TABLE {name} ADD COLUMN {table}{self.columns[table]} {kind} {default}")
        self.kinds[table].append(kind)
        if table == "bag":
            self.bag = [(*row, value) for row in self.bag]

    def view(self) -> None:
        query = self.rng.choice(VIEWS).format(t=self.name)
        name = f"v{self.views}"
        self.views += 1
        try:
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        except SqlViewError:  # two columns of one name
            columns = ", ".join(f"c{i}" for i in range(self._width(query)))
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} ({columns}) AS {query}")

    def _width(self, query: str) -> int:
        t, bag = 2 + self.columns["t"], 2 + self.columns["bag"]
        return t + (1 if "xk" in query else bag)

    def rename(self) -> None:
        new = self.rng.choice(("t", "u", "`an other`"))
        if new != self.name:
            self.db.sql(f"ALTER TABLE {self.name} RENAME TO {new}")
            self.name = new

    def reopen(self) -> None:
        if self.path is None:
            return
        if self.rng.random() < 0.5:
            self.db.close()
        else:
            copy = self.path.with_name(f"{self.path.name}+")
            shutil.copytree(self.path, copy)
            self.db.close()
            self.path = copy
        self.db = sqlview.connect(self.path, placement="inline")

    def checkpoint(self) -> None:
        if self.path is not None:
            self.db.checkpoint()

    def check(self) -> None:
        for view in self.db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
            found = self.db.verify(view, engine="duckdb")
            assert found.equal, found

    def _more(self, table: str) -> tuple[Any, ...]:
        return tuple(self._value(kind) for kind in self.kinds[table])

    def _value(self, kind: str) -> Any:
        values: dict[str, Any] = {
            "INT": 1, "BIGINT NOT NULL": 2, "STRING": "x", "STRING NOT NULL": "y",
            "DECIMAL(30,2)": Decimal("2.25"), "DOUBLE": 1.25, "DATE": date(2021, 1, 1),
            "TIMESTAMP_NTZ": datetime(2021, 1, 1), "BOOLEAN": False,
            "BINARY": b"b", "SMALLINT": 3,
        }  # fmt: skip
        nullable = "NOT NULL" not in kind
        return None if nullable and self.rng.random() < 0.2 else values[kind]


def live(seed: int, path: Path | None, steps: int = 14) -> None:
    """One life. Raises: AssertionError where a view is wrong."""
    rng = Random(seed)
    life = Life(rng, path)
    actions = (life.change, life.add, life.view, life.rename, life.reopen, life.checkpoint)
    try:
        for _ in range(5):
            life.view()
        life.change()
        for _ in range(steps):
            rng.choices(actions, (6, 4, 3, 1, 2, 1))[0]()
            life.change()
            life.check()
        life.reopen()
        life.change()
        life.check()
    finally:
        life.db.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    for seed in range(given.first, given.first + given.seeds):
        with tempfile.TemporaryDirectory() as directory:
            print(f"seed {seed}", flush=True)
            live(seed, Path(directory) / "store")


if __name__ == "__main__":
    main()
