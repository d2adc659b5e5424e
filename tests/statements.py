"""`python -m tests.statements --seeds N`: random INSERT, UPDATE, DELETE and MERGE, by text.

DuckDB runs the same text over the same tables, which know no keys there: a key that is there twice,
NULL in one, and a row that several of a MERGE match are looked for afterwards. After every
statement the tables and the views over them are compared, and now and then the store is opened
again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import duckdb

import sqlview
from planner.errors import DataError

TABLES = {"t": "k INT {key}, a INT, s {text}", "b": "a INT, s {text}"}
VIEWS = {
    "v": "SELECT a, count(*) AS n FROM b GROUP BY a",
    "w": "SELECT t.k, t.a, b.s FROM t JOIN b ON t.a = b.a WHERE t.k < 12",
    "x": "SELECT s, sum(a) AS total, count(*) AS n FROM t GROUP BY s",
    "y": "SELECT k, a FROM t WHERE a > (SELECT avg(a) FROM b)",
    "z": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.a = t.k)",
}
_QUERIES = {
    "t": (
        "VALUES ({n}, {v}, {s}), ({n}, {v}, 'new')",
        "SELECT k + {n}, a, s FROM t WHERE k % 3 = {v}",
        "SELECT a, n, {s} FROM v WHERE a IS NOT NULL",
        "SELECT max(k) + 1, {v}, {s} FROM t HAVING max(k) IS NOT NULL",
        "SELECT DISTINCT a + 20, a, s FROM b WHERE a < {v}",
    ),
    "b": (
        "VALUES ({v}, {s})",
        "SELECT a, s FROM b WHERE a = {v}",
        "SELECT n, {s} FROM v",
        "SELECT t.a, b.s FROM t JOIN b ON t.k = b.a",
        "SELECT k, s FROM t ORDER BY k LIMIT 2",
    ),
}
_CONDITIONS = {
    "t": (
        "k = {n}",
        "k IN ({n}, {v}, 5)",
        "k = {n} AND a > {v}",
        "k > {n}",
        "a IS NULL",
        "a IN (SELECT a FROM b WHERE s = {s})",
        "EXISTS (SELECT 1 FROM v WHERE v.a = t.k)",
        "a = (SELECT max(n) FROM v)",
    ),
    "b": (
        "a = {v}",
        "s = {s}",
        "a IN (SELECT k FROM t)",
        "NOT EXISTS (SELECT 1 FROM t WHERE t.a = b.a)",
        "a IS NULL AND s = {s}",
    ),
}
_VALUES = {
    "k": ("k + {n}", "k", "-k"),
    "a": ("a + {v}", "NULL", "(SELECT max(n) FROM v)", "CASE WHEN a > {v} THEN 0 ELSE {v} END"),
    "s": ("{s}", "s || 'x'", "NULL"),
}
_SOURCES = (
    "(SELECT a AS k, max(a) AS a, max(s) AS s FROM b GROUP BY a)",
    "(SELECT a AS k, a, s FROM b)",
    "(SELECT a AS k, n AS a, {s} AS s FROM v)",
    "(SELECT k + 1 AS k, a, s FROM t)",
    "(SELECT {n} AS k, {v} AS a, {s} AS s)",
)
_ON = {"t": ("z.k = u.k", "z.a = u.k", "z.k = u.k AND u.a > {v}"), "b": ("z.a = u.k",)}


class _Random:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def filled(self, choices: tuple[str, ...]) -> str:
        text = self.random.choice(choices)
        for name, values in (
            ("{n}", [str(i) for i in range(25)]),
            ("{v}", ["0", "1", "2", "3", "NULL"]),
            ("{s}", ["'p'", "'q'", "'it''s'"]),
        ):
            while name in text:
                text = text.replace(name, self.random.choice(values), 1)
        return text.replace("NULL AS a", "1 AS a")

    def statement(self, empty: tuple[str, ...]) -> str:
        """One over tables of which some are nearly empty."""
        if empty and self.random.random() < 0.8:
            rows = [self.random.sample(range(25), 6), self.random.choices(range(4), k=6)]
            given = zip(*rows, strict=True) if empty[0] == "t" else ((a,) for a in rows[1])
            listed = (f"({', '.join(map(str, row))}, {self.filled(('{s}',))})" for row in given)
            return f"INSERT INTO {empty[0]} VALUES {', '.join(listed)}"
        table = self.random.choice(("t", "t", "b"))
        match self.random.randrange(5):
            case 0:
                return f"INSERT INTO {table} {self.filled(_QUERIES[table])}"
            case 1:
                names = ["a", "s"] if table == "b" else ["k", "a", "s"]
                chosen = self.random.sample(names, self.random.randint(1, 2))
                sets = ", ".join(f"{c} = {self.filled(_VALUES[c])}" for c in chosen)
                return f"UPDATE {table} SET {sets}{self.where(table)}"
            case 2:
                return f"DELETE FROM {table}{self.where(table)}"
            case _:
                return self.merge(table)

    def where(self, table: str) -> str:
        return f" WHERE {self.filled(_CONDITIONS[table])}" if self.random.random() < 0.9 else ""

    def merge(self, table: str) -> str:
        key = "k" if table == "t" else "a"
        text = f"MERGE INTO {table} AS z USING {self.filled(_SOURCES)} AS u"
        text += f" ON {self.filled(_ON[table])}"
        clauses = []
        if self.random.random() < 0.8:
            if self.random.random() < 0.3:
                clauses.append("WHEN MATCHED AND u.a = 1 THEN DELETE")
            action = self.random.choice(("UPDATE SET a = u.a, s = z.s", "DELETE"))
            clauses.append(f"WHEN MATCHED THEN {action}")
        if self.random.random() < 0.6:
            condition = self.random.choice(("", " AND u.k > 3"))
            clauses.append(
                f"WHEN NOT MATCHED{condition} AND u.k IS NOT NULL THEN INSERT (s, {key}) "
                "VALUES (u.s, u.k + 1)"
            )
        if self.random.random() < 0.3 or not clauses:
            action = self.random.choice(("UPDATE SET a = coalesce(z.a, 0)", "DELETE"))
            clauses.append(f"WHEN NOT MATCHED BY SOURCE AND z.a > 2 THEN {action}")
        return " ".join((text, *clauses))


def _multiset(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(rows)


def live(seed: int, steps: int, path: Path | None = None) -> Counter[str]:
    """A life; how many statements went how. Raises: AssertionError where the two differ."""
    made, went = _Random(seed), Counter[str]()
    oracle = duckdb.connect()
    db = sqlview.connect(path, placement="inline")
    for name, columns in TABLES.items():
        db.sql(f"CREATE TABLE {name} ({columns.format(key='PRIMARY KEY', text='STRING')})")
        oracle.execute(f"CREATE TABLE {name} ({columns.format(key='', text='VARCHAR')})")
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        oracle.execute(f"CREATE VIEW {name} AS {query}")
    for name in TABLES:
        db.sql(f"CREATE MATERIALIZED VIEW all_{name} AS SELECT * FROM {name}")
    for step in range(steps):
        text = made.statement(tuple(n for n in TABLES if len(db.view(f"all_{n}")) < 4))
        refused = _refused(oracle, text)
        if refused == "DuckDB alone refuses":
            continue
        epoch = db.epoch
        error, result = None, {}
        try:
            result = db.sql(text).to_arrow().to_pylist()[0]
        except DataError as raised:
            error = raised
        assert (error is not None) == bool(refused), f"{text}\n{error or refused}"
        if refused:
            assert db.epoch == epoch
            went[f"{text.split()[0]} refused: {refused}"] += 1
        else:
            (number,) = oracle.execute(text).fetchall()[0]
            assert result["num_affected_rows"] == number, text
            assert db.epoch == epoch + 1
            went[text.split()[0] + (" of nothing" if number == 0 else "")] += 1
        for name in (*TABLES, *VIEWS):
            mine = db.view(f"all_{name}" if name in TABLES else name).rows()
            theirs = oracle.execute(f"SELECT * FROM {name}").fetchall()
            assert _multiset(mine) == _multiset(theirs), f"{name} after {text}"
        if path is not None and step % 10 == 9:
            db.close()
            db = sqlview.connect(path, placement="inline")
    db.close()
    return went


def _refused(oracle: duckdb.DuckDBPyConnection, text: str) -> str:
    """Why the statement is to fail, found by doing it and taking it back; "" if it is not."""
    if text.startswith("MERGE") and "WHEN MATCHED" in text:
        table, rest = text.split()[2], text.split(" USING ", 1)[1].split(" WHEN ", 1)[0]
        plain = "WHEN MATCHED THEN DELETE" in text and "WHEN MATCHED AND" not in text
        (source, on) = rest.split(" ON ", 1)
        count = "SELECT count(*) FROM"
        (joined,) = oracle.execute(f"{count} {table} z JOIN {source} ON {on}").fetchall()[0]
        once = f"{count} {table} z WHERE EXISTS (SELECT 1 FROM {source} WHERE {on})"
        (matched,) = oracle.execute(once).fetchall()[0]
        if joined > matched:
            return "DuckDB alone refuses" if plain else "several"
    oracle.execute("BEGIN")
    try:
        oracle.execute(text)
        keys = oracle.execute("SELECT k FROM t").fetchall()
    finally:
        oracle.execute("ROLLBACK")
    if any(k is None for (k,) in keys):
        return "NULL"
    return "twice" if len(set(keys)) < len(keys) else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    went = Counter[str]()
    for seed in range(options.first, options.first + options.seeds):
        with tempfile.TemporaryDirectory() as path:
            try:
                went += live(seed, options.steps, Path(path) / "s" if seed % 2 else None)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
    for what, number in sorted(went.items()):
        print(f"{number:7,} {what}")


if __name__ == "__main__":
    main()
