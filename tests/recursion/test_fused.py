"""The rounds of small changes in one kernel, beside the operators, which run others (see
operators.nodes.fused)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import sqlview
from operators.nodes import fused
from operators.nodes.loop import LoopOperator

_HEAD = "WITH RECURSIVE r({}) MAX RECURSION LEVEL 30 AS ({}) SELECT * FROM r"
#: Bodies that are run in one kernel, over e(a, b, c) and start(n).
TOGETHER = {
    "reach": ("n", "SELECT n FROM start UNION SELECT b FROM r JOIN e ON a = r.n"),
    "pairs": ("x, y", "SELECT a, b FROM e UNION SELECT x, b FROM r JOIN e ON a = y WHERE c < 7"),
    "generations": (
        "x, y",
        (
            "SELECT p.b, q.b FROM e p JOIN e q ON p.a = q.a AND p.b <> q.b "
            "UNION SELECT p.b, q.b FROM r JOIN e p ON p.a = x JOIN e q ON q.a = y"
        ),
    ),
    "computed": (
        "x, y",
        (
            "SELECT a, b FROM e UNION SELECT CASE WHEN c IS NULL THEN x ELSE coalesce(b, 0) END, "
            "(y * 3 - c) % 5 FROM r JOIN e ON a <=> y WHERE x IN (1, 2, 3) OR NOT c > 2"
        ),
    ),
    "components": (
        "n, least",
        (
            "SELECT n, min(least) FROM (SELECT a AS n, a AS least FROM e UNION ALL "
            "SELECT b, least FROM r JOIN e ON a = n UNION ALL "
            "SELECT a, least FROM r JOIN e ON b = n) "
            "GROUP BY n"
        ),
    ),
    "far": (
        "n, d",
        (
            "SELECT n, min(d) FROM (SELECT n, 0 AS d FROM start UNION ALL "
            "SELECT b, d + c FROM r JOIN e ON a = n) GROUP BY n"
        ),
    ),
    "counts": (
        "n, k",
        (
            "SELECT n, least(count(k), 2) FROM (SELECT n, 1 AS k FROM start UNION ALL "
            "SELECT b, k FROM r JOIN e ON a = n) GROUP BY n"
        ),
    ),
    "lost": (
        "n, k",
        "SELECT a, max(c) FROM e WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.n = e.b) GROUP BY a",
    ),
    "sums": (
        "n, k",
        (
            "SELECT n, CAST(sum(k) % 4 AS INT) FROM (SELECT n, 1 AS k FROM start UNION ALL "
            "SELECT b, k + c FROM r JOIN e ON a = n) GROUP BY n"
        ),
    ),
}
#: Bodies that are not: what rounds change is looked up, texts, each way once.
APART = {
    "twice": ("x, y", "SELECT a, b FROM e UNION SELECT p.x, q.y FROM r p JOIN r q ON p.y = q.x"),
    "texts": ("t", "SELECT '' UNION SELECT t || b FROM r JOIN e ON a = length(t)"),
    "ways": ("n", "SELECT n FROM start UNION ALL SELECT b FROM r JOIN e ON a = r.n WHERE b > a"),
}


def _opened(path: Path | None = None) -> Any:
    db = sqlview.connect(path, placement="inline")
    db.sql("CREATE TABLE start (n INT)")
    db.sql("CREATE TABLE e (a INT, b INT, c INT)")
    return db


def _create(db: Any, name: str) -> None:
    text = _HEAD.format(*(TOGETHER | APART)[name])
    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")


def _loop(db: Any, name: str) -> Any:
    view = db._catalog.any(name)
    (found,) = (
        i for i in db._dataflow.nodes_of(view.reader) if isinstance(i.operator, LoopOperator)
    )
    return found.operator


def _kept(db: Any, name: str) -> list[Counter[str]]:
    """The rows of all that a loop keeps: its variable, timelines, and counted rows."""
    found = []
    for site in _loop(db, name).fused.sites:
        for relation in (site.held, site.counted):
            columns = relation.gather_all(relation.visible(1 << 62))
            values = [
                [
                    None if c.valid is not None and not c.valid[i] else np.array(v).tolist()
                    for i, v in enumerate(c.values)
                ]
                for c in columns
            ]
            found.append(Counter(map(repr, zip(*values, strict=True))))
    return found


@pytest.mark.parametrize("name", TOGETHER)
def test_the_state_is_that_of_the_operators(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two sessions have the same changes, one by the operators alone, the other by turns, and with
    little room at first."""
    random, ran = Random(name), []
    run, is_its_turn = fused.Fused.run, [True]

    def by_turns(self: Any, time: int, given: Any) -> Any:
        found = run(self, time, given) if is_its_turn[0] and random.random() < 0.8 else None
        ran.append(found is not None)
        return found

    monkeypatch.setattr(fused.Fused, "run", by_turns)
    monkeypatch.setattr(fused, "LEAST_ROOM", 2)
    with _opened() as alone, _opened(tmp_path / "store") as db:
        for session in (alone, db):
            _create(session, name)
        rows: dict[str, list[Any]] = {"e": [], "start": []}
        for _ in range(14):
            steps = [_changes(random, rows) for _ in range(random.choice((1, 1, 2)))]
            for session, turn in ((alone, False), (db, True)):
                is_its_turn[0] = turn
                session.apply([_begun(session, step) for step in steps])
            assert _read(db, name) == _read(alone, name)
            assert _kept(db, name) == _kept(alone, name)
        assert sum(ran) >= 8


def _read(db: Any, name: str) -> Any:
    try:
        return Counter(map(tuple, db.view(name).rows()))
    except sqlview.SqlViewError as error:
        return str(error)


def _begun(db: Any, step: Any) -> Any:
    tx = db.begin()
    for action, table, row in step:
        getattr(tx, action)(table, [row])
    return tx


def _changes(random: Random, rows: dict[str, list[Any]]) -> list[Any]:
    found = []
    for _ in range(random.choice((1, 2, 6))):
        table = random.choice(("e", "e", "e", "start"))
        if rows[table] and random.random() < len(rows[table]) / 16:
            row = rows[table].pop(random.randrange(len(rows[table])))
            found.append(("delete", table, row))
        else:
            row = tuple(
                None if random.random() < 0.06 else random.randint(1, 6)
                for _ in range(3 if table == "e" else 1)
            )
            rows[table].append(row)
            found.append(("insert", table, row))
    return found


def test_what_is_run_together_and_what_is_not() -> None:
    with _opened() as db:
        for name in (*TOGETHER, *APART):
            _create(db, name)
            assert (_loop(db, name).fused is not None) == (name in TOGETHER), name


def test_large_changes_and_failures_are_for_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    run = fused.Fused.run

    def counted(self: Any, time: int, given: Any) -> Any:
        found = run(self, time, given)
        ran.append(found is not None)
        return found

    monkeypatch.setattr(fused.Fused, "run", counted)
    monkeypatch.setattr(fused, "MOST_ROOM", 64)
    monkeypatch.setattr(fused, "LEAST_ROOM", 8)
    with _opened() as db:
        _create(db, "far")
        db.sql("INSERT INTO start VALUES (0)")
        with db.transaction() as tx:
            tx.insert("e", [(i, i + 1, 1) for i in range(5)])
        assert ran == [True] * 3  # CREATE, and two steps
        with db.transaction() as tx:
            tx.insert("e", [(5, i, 1) for i in range(6, 90)])
        assert ran[3:] == [False]  # more than there is room for
        assert db.verify("far", engine="duckdb").equal
        db.sql("INSERT INTO e VALUES (5, 500, 2147483647)")
        with pytest.raises(sqlview.SqlViewError, match="overflow"):
            db.view("far").rows()
        db.sql("DELETE FROM e WHERE b = 500")
        assert ran[4:] == [False, False]  # what fails is counted by the operators
        db.sql("INSERT INTO e VALUES (6, 501, 7)")
        assert ran[6:] == [True]
        assert db.verify("far", engine="duckdb").equal
