"""Joins through indexes of the rows that pass a filter, which rows enter and leave by update."""

from __future__ import annotations

import random
from itertools import takewhile

import pytest

from tests.conftest import Connect
from tests.harness import Checked
from tests.reference.tables import Change, delete, insert, upsert

_BOTH = ("inline", pytest.param("spark", marks=pytest.mark.spark))
_JOIN = "SELECT d.k, d.name, f.x FROM d JOIN f ON d.k = f.k"


def _session(connect: Connect, placement: str = "inline") -> Checked:
    checked = connect(placement=placement, form="arrow")
    checked.create_table("d", "k INT, name STRING, kind INT", ("k",))
    checked.create_table("f", "id INT, k INT, x INT", ("id",))
    return checked


def _keys(checked: Checked, relation: str) -> list[tuple[str, list[str]]]:
    found = checked.db.arrangements().to_pylist()
    return [(row["key"], row["readers"]) for row in found if row["relation"] == relation]


def _changes(rng: random.Random, checked: Checked) -> list[Change]:
    """Upserts and deletes, mostly of x and kind, on which the filters are."""
    facts, kinds = rng.sample(range(12), 4), rng.sample(range(5), 2)
    x, k = (1, 1, 2), (None, 0, 1, 2, 3)
    changes = [upsert("f", (i, rng.choice(k), rng.choice(x))) for i in facts[:3]]
    changes.append(upsert("d", (kinds[0], "d", rng.choice((7, 7, 8)))))
    for table, key in (("f", facts[3]), ("d", kinds[1])):
        row = checked.tables[table].by_key.get((key,))
        if row is not None:
            changes.append(delete(table, row))
    return changes


@pytest.mark.parametrize("placement", _BOTH)
def test_rows_enter_and_leave_by_update(connect: Connect, placement: str) -> None:
    checked = _session(connect, placement)
    rng = random.Random(5)
    checked.step(*_changes(rng, checked))
    checked.create_view("both", f"{_JOIN} WHERE f.x = 1 AND d.kind = 7")
    assert {key for key, _ in _keys(checked, "f")} >= {"k where x = 1"}
    assert {key for key, _ in _keys(checked, "d")} >= {"k where kind = 7"}
    steps = 4 if placement == "spark" else 20
    for _ in range(steps):
        checked.step(*_changes(rng, checked))
    checked.create_view("groups", f"{_JOIN} JOIN (SELECT k, count(*) AS n FROM f GROUP BY k) g"
                        " ON g.k = f.k WHERE g.n = 2 AND f.x = 1")  # fmt: skip
    for _ in range(steps):
        checked.step(*_changes(rng, checked))
    checked.batch(*([upsert("f", (1, 1, x))] for x in (1, 2, 1, 1, 2)))
    checked.verify()


@pytest.mark.parametrize("placement", _BOTH)
def test_a_whole_index_takes_the_place_of_the_partial_ones(
    connect: Connect, placement: str
) -> None:
    """Whichever comes first; when the whole one's own readers go, the partial ones are back."""
    checked = _session(connect, placement)
    rng = random.Random(6)
    steps = 2 if placement == "spark" else 12

    def run(*keys: str) -> None:
        assert [key for key, _ in _keys(checked, "f") if key != "id"] == list(keys)
        for _ in range(steps):
            checked.step(*_changes(rng, checked))
        checked.batch(*([upsert("f", (1, 1, x))] for x in (1, 2, 1, 1, 2)))
        checked.verify()

    checked.step(*_changes(rng, checked))
    checked.create_view("ones", f"{_JOIN} WHERE f.x = 1")
    checked.create_view("twos", f"{_JOIN} WHERE f.x = 2")
    run("k where x = 1", "k where x = 2")
    text = checked.db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW every AS {_JOIN}").rows()
    lines = [str(row[0]) for row in text]
    behind = lines[lines.index("== Changes of indexes ==") + 1 :]
    assert list(takewhile(lambda line: not line.startswith("== "), behind)) == [
        f"joins read f(k) in place of partial f(k) where x = {x}, which goes" for x in (1, 2)
    ]
    run("k where x = 1", "k where x = 2")
    checked.create_view("all", _JOIN)
    run("k")
    # The same view once more has the same plan, and what is planned as partial is read as a whole.
    operators = checked.db.metrics().operators
    checked.create_view("again", f"{_JOIN} WHERE f.x = 1")
    assert checked.db.metrics().operators == operators
    checked.create_view("threes", f"SELECT count(*) AS n FROM ({_JOIN} WHERE f.x = 3) j")
    readers = ["again", "all", "ones", "threes", "twos"]
    assert ("k", readers) in _keys(checked, "f")
    lines = [str(row[0]) for row in checked.db.sql("EXPLAIN MATERIALIZED VIEW ones").rows()]
    told = "partial f(k) where x = 1 by way of f(k) [shared, 5 readers]"
    assert any(told in line for line in lines), lines
    assert any("via f(k) on k = d.k" in line for line in lines), lines
    assert "== Changes of indexes ==" not in lines
    run("k")
    # "threes" was planned while the whole one was there, and keeps it.
    checked.drop_view("all")
    checked.drop_view("twos")
    run("k")
    checked.drop_view("threes")
    run("k where x = 1")
    checked.drop_view("ones")
    run("k where x = 1")
    checked.drop_view("again")
    assert [key for key, _ in _keys(checked, "f")] == ["id"]


def test_an_index_on_more_columns_serves_for_a_partial_one(connect: Connect) -> None:
    checked = connect(placement="inline", form="arrow")
    checked.create_table("d", "k INT, j INT, name STRING", ("k",))
    checked.create_table("f", "a INT NOT NULL, b INT, x INT", ("a", "b"))
    checked.create_view("part", "SELECT d.name, f.b FROM d JOIN f ON d.k = f.a WHERE f.x = 1")
    keys = [key for key, _ in _keys(checked, "f")]
    assert keys == ["a where x = 1", "a, b"]
    checked.create_view("whole", "SELECT d.name, f.x FROM d JOIN f ON d.k = f.a AND d.j = f.b")
    assert _keys(checked, "f") == [("a, b", ["(table)", "part", "whole"])]
    rng = random.Random(7)
    for _ in range(20):
        for table in ("d", "f"):
            row = (rng.randrange(4), rng.randrange(4), rng.choice((1, 1, 2)))
            checked.step(upsert(table, (*row[:2], "n") if table == "d" else row))
    checked.drop_view("whole")
    assert ("a where x = 1", ["part"]) in _keys(checked, "f")
    checked.step(upsert("f", (1, 1, 2), (2, 1, 1), (1, 2, 1)))


def test_an_index_that_leaves_rows_out_does_not_serve(connect: Connect) -> None:
    """Rows with NULL in its second column are not in it."""
    checked = connect(placement="inline", form="arrow")
    checked.create_table("d", "k INT, j INT, name STRING", ("k",))
    checked.create_table("f", "id INT, a INT, b INT, x INT", ("id",))
    checked.create_view("part", "SELECT d.name, f.id FROM d JOIN f ON d.k = f.a WHERE f.x = 1")
    checked.create_view("whole", "SELECT d.name, f.x FROM d JOIN f ON d.k = f.a AND d.j = f.b")
    assert {key for key, _ in _keys(checked, "f")} >= {"a where x = 1", "a, b"}
    checked.step(insert("f", (1, 1, None, 1), (2, 1, 1, 1)), insert("d", (1, 1, "n")))
    checked.step(upsert("f", (2, 1, None, 1), (1, 1, 1, 1)))


def test_views_with_the_same_filter_share_the_index(connect: Connect) -> None:
    checked = _session(connect)
    checked.step(insert("d", (1, "a", 7)), insert("f", (1, 1, 1), (2, 1, 2)))
    checked.create_view("first", f"{_JOIN} WHERE f.x = 1")
    checked.create_view("second", "SELECT sum(f.id) AS s FROM d JOIN f ON d.k = f.k AND f.x = 1")
    checked.create_view("third", f"{_JOIN} WHERE f.x = 2")
    partial = {key: readers for key, readers in _keys(checked, "f") if " where " in key}
    assert partial == {"k where x = 1": ["first", "second"], "k where x = 2": ["third"]}
    text = checked.db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {_JOIN} WHERE f.x = 1")
    lines = [str(row["plan"]) for row in text.to_arrow().to_pylist()]
    assert any("via partial f(k) on k = d.k" in line for line in lines), lines
    assert any("partial f(k) where x = 1 [shared, 2 readers]" in line for line in lines)
    checked.drop_view("first")
    checked.step(upsert("f", (1, 1, 2), (2, 1, 1)))
    checked.drop_view("second")
    assert [key for key, _ in _keys(checked, "f") if " where " in key] == ["k where x = 2"]
    checked.step(upsert("f", (1, 1, 1), (2, 1, 2)))
    checked.drop_view("third")
    assert [key for key, _ in _keys(checked, "f") if " where " in key] == []


def test_many_filters_share_the_whole_index(connect: Connect) -> None:
    checked = _session(connect)
    checked.step(insert("d", (1, "a", 7)), *(insert("f", (i, 1, i)) for i in range(15)))
    for x in range(15):
        checked.create_view(f"v{x}", f"{_JOIN} WHERE f.x = {x}")
        if x == 9:
            keys = [key for key, _ in _keys(checked, "f")]
            assert sum(" where " in key for key in keys) == 10
    # The eleventh has them all, and takes their place.
    assert [key for key, _ in _keys(checked, "f")] == ["id", "k"]
    checked.step(*(upsert("f", (i, 1, i + 1)) for i in range(15)))
