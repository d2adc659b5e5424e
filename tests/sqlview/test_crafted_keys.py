"""Rows that were crafted to have one key: they collided while keys were mixed with public numbers
in steps that can be taken back. Now whoever knows no secret cannot find such rows; those that share
a hash all the same are told apart by their values (tests/properties/test_collisions.py)."""

from __future__ import annotations

import pytest

import sqlview

#: Found by search: 128 bits of the mixing that was are the same.
ROWS = ((11468, 1801541148973882792), (7689, 333830490730111510))
TEXTS = tuple(
    map(bytes.fromhex, ("0000000000000000022114340d035252", "fae9c52000000000255ee30af0e88404"))
)


def old_mixing(words: tuple[int, ...], length: int | None = None) -> tuple[int, int]:
    """How rows of numbers were hashed, and texts of so many bytes."""
    wrap = 2**64 - 1
    a, b, c, d = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93

    def mix1(h: int, x: int) -> int:
        h = (h ^ x) * b & wrap
        h = (h ^ h >> 31) * c & wrap
        return h ^ h >> 29

    def mix2(h: int, x: int) -> int:
        h = (h + x) * d & wrap
        h = (h ^ h >> 32) * a & wrap
        return h ^ h >> 31

    h1, h2 = 0x243F6A8885A308D3, 0x13198A2E03707344
    for word in (*([] if length is None else [length]), *words):
        h1, h2 = mix1(h1, word), mix2(h2, word)
    return (h1, h2) if length is None else (mix1(h1, h2), mix2(h2, h1))


def test_they_collided() -> None:
    one, two = (old_mixing((a, 1, b, 1)) for a, b in ROWS)
    assert one == two
    one, two = (
        old_mixing(tuple(int.from_bytes(x[i : i + 8], "little") for i in (0, 8)), 16) for x in TEXTS
    )
    assert one == two


def test_a_row_that_leaves_a_view() -> None:
    with sqlview.connect() as db:
        db.sql("CREATE TABLE k (id INT PRIMARY KEY, a BIGINT, b BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, b FROM k")
        db.sql("CREATE MATERIALIZED VIEW d AS SELECT DISTINCT a, b FROM k")
        with db.transaction() as tx:
            tx.insert("k", [(i, *row) for i, row in enumerate(ROWS, start=1)])
        with db.transaction() as tx:
            tx.delete("k", [(1,)])
        assert db.view("v").rows() == [ROWS[1]]
        assert db.view("d").rows() == [ROWS[1]]


def test_bags_lose_the_row_that_was_deleted() -> None:
    for row in ROWS:
        with sqlview.connect() as db:
            db.sql("CREATE TABLE k (a BIGINT, b BIGINT)")
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, b, count(*) AS n FROM k GROUP BY a, b")
            with db.transaction() as tx:
                tx.insert("k", list(ROWS))
            with db.transaction() as tx:
                tx.delete("k", [row])
            (left,) = set(ROWS) - {row}
            assert db.view("v").rows() == [(*left, 1)]
            with pytest.raises(sqlview.DataError), db.transaction() as tx:
                tx.delete("k", [row])


def test_binaries_are_keys_groups_and_joined() -> None:
    with sqlview.connect() as db:
        db.sql("CREATE TABLE k (x BINARY PRIMARY KEY, n INT)")
        db.sql("CREATE TABLE f (x BINARY)")
        db.sql("CREATE MATERIALIZED VIEW g AS SELECT x, sum(n) AS n FROM k GROUP BY x")
        db.sql("CREATE MATERIALIZED VIEW j AS SELECT k.n FROM k JOIN f ON k.x = f.x")
        db.sql("CREATE MATERIALIZED VIEW e AS SELECT n FROM k WHERE x NOT IN (SELECT x FROM f)")
        with db.transaction() as tx:
            tx.insert("k", [(TEXTS[0], 1), (TEXTS[1], 2)])
            tx.insert("f", [(TEXTS[1],)])
        assert sorted(db.view("g").rows()) == [(TEXTS[0], 1), (TEXTS[1], 2)]
        assert (db.view("j").rows(), db.view("e").rows()) == ([(2,)], [(1,)])
        with db.transaction() as tx:
            tx.upsert("k", [(TEXTS[0], 3)])
            tx.delete("f", [(TEXTS[1],)])
            tx.insert("f", [(TEXTS[0],)])
        assert sorted(db.view("g").rows()) == [(TEXTS[0], 3), (TEXTS[1], 2)]
        assert (db.view("j").rows(), db.view("e").rows()) == ([(3,)], [(2,)])
