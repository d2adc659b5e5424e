"""Errors as data: a row that cannot be computed is the view's business, not the transaction's."""

from __future__ import annotations

import pytest

import sqlview
from planner.errors import ViewError
from tests.conftest import Connect
from tests.harness import Checked
from tests.reference.tables import Change, delete, insert, upsert


def _session(connect: Connect, placement: str = "inline") -> Checked:
    checked = connect(placement=placement, form="arrow")
    checked.create_table("t", "id INT, a INT, b INT, s STRING", ("id",))
    checked.create_table("u", "k INT, y BIGINT")
    checked.create_view("fine", "SELECT id, a FROM t")
    return checked


#: A view, changes that put it in error, what its message says, changes that take the error away.
CASES = {
    "division": (
        "SELECT id, a / b AS q FROM t",
        (insert("t", (7, 41, 0, None)),),
        ("DIVIDE_BY_ZERO", "41", "0"),
        (delete("t", (7, 0, 0, None)),),
    ),
    "remainder": (
        "SELECT id, a % b AS q FROM t",
        (insert("t", (7, 41, 0, None)),),
        ("ZERO", "41", "0"),
        (upsert("t", (7, 41, 5, None)),),
    ),
    "cast": (
        "SELECT id, cast(s AS INT) AS i FROM t",
        (insert("t", (7, 1, 1, "seven")),),
        ("CAST_INVALID_INPUT", "seven"),
        (upsert("t", (7, 1, 1, "7")),),
    ),
    "overflow": (
        "SELECT id, a * a AS q FROM t",
        (insert("t", (7, 99_999, 1, None)),),
        ("OVERFLOW", "99999"),
        (upsert("t", (7, 9, 1, None)),),
    ),
    "where": (
        "SELECT id FROM t WHERE a / b > 1",
        (insert("t", (7, 43, 0, None)),),
        ("DIVIDE_BY_ZERO", "43"),
        (delete("t", (7, 0, 0, None)),),
    ),
    "having": (
        "SELECT k FROM u GROUP BY k HAVING 44 / sum(y) > 1",
        (insert("u", (7, 3), (7, -3)),),
        ("DIVIDE_BY_ZERO", "(where "),
        (insert("u", (7, 1)),),
    ),
    "sum": (
        "SELECT sum(y) AS s FROM u",
        (insert("u", (7, 9223372036854775804), (7, 5)),),
        ("OVERFLOW",),
        (delete("u", (7, 5)),),
    ),
    "two rows": (
        "SELECT id, (SELECT y FROM u WHERE u.k = t.id) AS y FROM t",
        (insert("u", (1, 5)),),
        ("SCALAR_SUBQUERY_TOO_MANY_ROWS",),
        (delete("u", (1, 5)),),
    ),
    "join key": (
        "SELECT t.id FROM t JOIN u ON t.a / t.b = u.k",
        (insert("t", (7, 45, 0, None)),),
        ("DIVIDE_BY_ZERO", "45"),
        (delete("t", (7, 0, 0, None)),),
    ),
}

Case = tuple[str, tuple[Change, ...], tuple[str, ...], tuple[Change, ...]]

#: Of errors of an expression one is enough on Spark, where a map is the same whatever it computes.
_ON_SPARK = ("division", "having", "sum", "two rows", "join key")
_PLACED = [pytest.param(case, "inline", id=f"inline-{name}") for name, case in CASES.items()] + [
    pytest.param(CASES[name], "spark", id=f"spark-{name}", marks=pytest.mark.spark)
    for name in _ON_SPARK
]


@pytest.mark.parametrize(("case", "placement"), _PLACED)
def test_the_epoch_commits_and_the_view_recovers(
    case: Case, placement: str, connect: Connect
) -> None:
    query, wrong, says, right = case
    checked = _session(connect, placement)
    checked.create_view("v", query)
    checked.create_view("over", "SELECT count(*) AS n FROM v")
    checked.step(insert("t", (1, 6, 2, "1"), (2, 8, 4, "2")), insert("u", (1, 3)))
    before = checked.db.epoch
    assert checked.step(*wrong) == before + 1 == checked.db.epoch
    error = checked.error("v")
    assert '"v"' in error.message
    text = str(error)
    for part in says:
        assert part in text, f"{part!r} is not in: {text}"
    assert '"over"' in checked.error("over").message
    # What does not compute the row is readable, and takes part in what follows.
    fine = len(checked.rows("fine"))
    assert fine == 2 + sum(len(c.rows) for c in wrong if c.table == "t")
    checked.step(insert("t", (3, 3, 3, "3")))
    checked.error("v")
    checked.step(*right)
    assert checked.rows("over") == [(len(checked.rows("v")),)]
    checked.verify()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_error_within_one_physical_step(case: Case, connect: Connect) -> None:
    query, wrong, _, right = case
    checked = _session(connect)
    checked.create_view("v", query)
    checked.step(insert("t", (1, 6, 2, "1"), (2, 8, 4, "2")), insert("u", (1, 3)))
    checked.batch(wrong, right, (insert("t", (3, 3, 3, "3")),))
    checked.rows("v")
    checked.batch((insert("t", (4, 4, 4, "4")),), (delete("t", (4, 0, 0, "")),))
    checked.verify()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_view_made_over_a_wrong_row_is_in_error_from_the_start(
    case: Case, connect: Connect
) -> None:
    query, wrong, _, right = case
    checked = _session(connect)
    checked.step(insert("t", (1, 6, 2, "1"), (2, 8, 4, "2")), insert("u", (1, 3)))
    checked.step(*wrong)
    checked.create_view("v", query)
    checked.error("v")
    checked.step(*right)
    checked.rows("v")
    checked.step(insert("t", (5, 5, 5, "5")))
    checked.verify()


def test_many_wrong_rows_leave_one_by_one(connect: Connect) -> None:
    checked = _session(connect)
    checked.create_view("v", "SELECT sum(a / b) AS s FROM t")
    checked.step(*(insert("t", (i, i, i % 2, None)) for i in range(1, 9)))
    for i in (2, 4, 6):
        checked.step(delete("t", (i, 0, 0, None)))
        checked.error("v")
    checked.step(upsert("t", (8, 8, 4, None)))
    assert checked.rows("v") == [(1 + 3 + 5 + 7 + 2.0,)]


def test_equal_wrong_rows_of_a_bag_count(connect: Connect) -> None:
    checked = _session(connect)
    checked.create_view("v", "SELECT 10 / y AS q FROM u")
    checked.step(insert("u", (1, 0), (1, 0), (1, 5)))
    checked.step(delete("u", (1, 0)))
    checked.error("v")
    checked.step(delete("u", (1, 0)))
    assert checked.rows("v") == [(2.0,)]


def test_a_view_in_error_can_be_dropped_and_its_tables_used(connect: Connect) -> None:
    checked = _session(connect)
    checked.create_view("v", "SELECT a / b AS q FROM t")
    checked.step(insert("t", (1, 1, 0, None)))
    with pytest.raises(ViewError):
        checked.db.view("v").to_arrow()
    (found,) = checked.db.sql("VERIFY MATERIALIZED VIEW v").to_arrow().to_pylist()
    assert found["equal"] and "is in error, and so is its recompute" in found["detail"]
    checked.drop_view("v")
    checked.step(insert("t", (2, 1, 0, None)))
    checked.create_view("w", "SELECT a / (b + 1) AS q FROM t")
    checked.verify()


def test_an_unused_wrong_value_is_no_error(connect: Connect) -> None:
    checked = _session(connect)
    checked.create_view("v", "SELECT id FROM (SELECT id, a / b AS q FROM t) s")
    checked.step(insert("t", (1, 1, 0, None)))
    assert checked.rows("v") == [(1,)]


@pytest.mark.parametrize(
    ("predicate", "wrong"),
    [
        ("INTERVAL '5' MONTH / a.x > INTERVAL '1' MONTH", "0"),
        ("INTERVAL '5' MONTH * a.x > INTERVAL '1' MONTH", "9223372036854775807"),
        ("-CAST(a.d AS DECIMAL(38, 0)) < 0", "99999999999999999999999999999999999999"),
    ],
    ids=["interval by zero", "interval beyond its type", "sign of a long decimal"],
)
def test_a_row_that_no_join_reaches_is_no_error(predicate: str, wrong: str) -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE a (k INT, x BIGINT, d DECIMAL(38, 0))")
        db.sql("CREATE TABLE b (k INT)")
        db.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT a.k FROM a JOIN b ON a.k = b.k WHERE {predicate}"
        )
        row = f"1, {wrong}, 0" if "a.x" in predicate else f"1, 1, {wrong}"
        db.sql(f"INSERT INTO a VALUES ({row}), (2, 2, 2)")
        db.sql("INSERT INTO b VALUES (2)")
        assert db.view("v").rows() == [(2,)]
        db.sql("INSERT INTO b VALUES (1)")
        with pytest.raises(ViewError):
            db.view("v").rows()
        db.sql("DELETE FROM b WHERE k = 1")
        assert db.view("v").rows() == [(2,)]
