"""MIN and MAX of texts that agree in their first bytes, so that an index's words do not tell them
apart: each epoch of a step of many, and the work that the ties cost."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from operators.kernels import fronts
from operators.kernels.versions import NEVER

Row = tuple[int, str | None, str | None, int]


def extremes(rows: dict[int, Row]) -> set[tuple[str | None, str | None, str | None]]:
    groups: dict[str | None, list[str]] = defaultdict(list)
    for _, group, text, _ in rows.values():
        groups[group] += [] if text is None else [text]
    return {(g, min(some, default=None), max(some, default=None)) for g, some in groups.items()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("grouped", [True, False])
def test_every_epoch_of_a_step(seed: int, grouped: bool) -> None:
    made = random.Random(seed)
    groups = ["a", "a group whose name is long", None] if grouped else ["all"]
    prefix = "a prefix of more than sixteen bytes " if made.random() < 0.7 else ""
    rows: dict[int, Row] = {}
    history: list[set[tuple[str | None, str | None, str | None]]] = []

    def row(key: int) -> Row:
        text = None if made.random() < 0.1 else prefix + str(made.randrange(40))
        return key, made.choice(groups), text, made.randrange(3)

    view: set[tuple[str | None, str | None, str | None]] = set()

    def hear(changes: pa.Table) -> None:
        by_time: dict[int, list[dict[str, object]]] = defaultdict(list)
        for change in changes.to_pylist():
            by_time[change["__time"]].append(change)
        for time, expected in zip(epochs, history, strict=True):
            for sign in (-1, 1):
                for c in by_time[time]:
                    if c["__diff"] == sign:
                        key = (c["g"], c["low"], c["high"])
                        (view.discard if sign < 0 else view.add)(key)
            assert view == expected

    with sqlview.connect() as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, g STRING, text STRING, other INT)")
        by = "GROUP BY g" if grouped else ""
        name = "g" if grouped else "CAST('all' AS STRING) AS g"
        db.sql(
            f"CREATE MATERIALIZED VIEW v AS "
            f"SELECT {name}, min(text) AS low, max(text) AS high FROM t {by}"
        )
        if not grouped:
            view.add(("all", None, None))
        db.subscribe("v", hear)
        for _ in range(4):
            upserts: list[Row] = []
            upsert_times: list[int] = []
            deletes: list[tuple[int]] = []
            delete_times: list[int] = []
            history.clear()
            for time in range(made.choice([1, 5, 40])):
                for key in made.sample(range(30), made.randrange(1, 8)):
                    if key in rows and made.random() < 0.4:
                        del rows[key]
                        deletes.append((key,))
                        delete_times.append(time)
                        continue
                    new = row(key)
                    if key in rows and made.random() < 0.5:
                        new = (*rows[key][:3], new[3])  # nothing that the view reads
                    rows[key] = new
                    upserts.append(new)
                    upsert_times.append(time)
                found = extremes(rows)
                history.append(found if grouped or rows else {("all", None, None)})
            epochs = range(db.epoch + 1, db.epoch + 1 + len(history))
            with db.transactions() as txs:
                txs.upsert("t", upserts, times=upsert_times)
                txs.delete("t", deletes, times=delete_times)
                missing = len(history) - txs.count
            del history[len(history) - missing :]
            assert set(db.view("v").rows()) == view == (history[-1] if history else view)
        assert db.verify("v").equal


def test_ties_are_read_once_for_all_times_of_a_step() -> None:
    visited = []
    for times in (10, 100):
        with sqlview.connect() as db:
            db.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, text STRING)")
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, max(text) AS m FROM t GROUP BY g")
            texts = [f"a prefix of more than sixteen bytes {i:06}" for i in range(1000)]
            with db.transaction() as tx:
                tx.insert("t", [(i, 0, text) for i, text in enumerate(texts)])
            with db.transactions() as txs:
                txs.delete("t", [(999 - i,) for i in range(times)], times=range(times))
            assert db.view("v").rows() == [(0, texts[999 - times])]
            assert db.last_step is not None
            visited.append(db.last_step.entries_visited)
    assert visited[1] < 2 * visited[0] + 1000


def test_the_first_alive_at_many_times() -> None:
    made = np.random.default_rng(1)
    for _ in range(200):
        groups = int(made.integers(1, 4))
        starts = np.concatenate(([0], np.cumsum(made.integers(0, 12, groups))))
        probe_starts = np.concatenate(([0], np.cumsum(made.integers(0, 12, groups))))
        born = made.integers(0, 10, starts[-1])
        died = np.where(made.random(starts[-1]) < 0.3, NEVER, born + made.integers(0, 6))
        times = [np.sort(made.integers(0, 14, n)) for n in np.diff(probe_starts)]
        found = np.empty(probe_starts[-1], np.int64)
        fronts.first_alive(
            starts, born, died.astype(np.int64), probe_starts,
            np.concatenate(times).astype(np.int64), found,
        )  # fmt: skip
        expected = [
            next((c for c in range(starts[g], starts[g + 1]) if born[c] <= t < died[c]), -1)
            for g in range(groups)
            for t in times[g]
        ]
        assert found.tolist() == expected
