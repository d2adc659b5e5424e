"""WITH (lazy = true): a view that is computed when it is first read, maintained from then on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sqlview

_SUMS = "SELECT b, count(*) AS n, sum(a) AS s FROM t GROUP BY b"
_REACH = (
    "WITH RECURSIVE r(x, y) AS (SELECT a, b FROM t "
    "UNION SELECT r.x, t.b FROM r JOIN t ON r.y = t.a) SELECT x, y FROM r"
)
#: Each reads t, or one before it.
_VIEWS = {
    "sums": _SUMS,
    "big": "SELECT b, s FROM sums WHERE n > 1",
    "joined": "SELECT t.a, sums.n FROM t JOIN sums ON t.b = sums.b",
    "reach": _REACH,
    "far": "SELECT x, count(*) AS n FROM reach GROUP BY x",
    "top": "SELECT b, s FROM big ORDER BY s DESC LIMIT 2",
}
_UNDER = {"big": "sums", "joined": "sums", "far": "reach", "top": "big"}


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect(retain=9) as session:
        session.sql("CREATE TABLE t (a INT, b INT)")
        _insert(session, (1, 2), (2, 3), (4, 2))
        yield session


def _insert(db: sqlview.Session, *rows: tuple[int, int]) -> None:
    with db.transaction() as tx:
        tx.insert("t", list(rows))


def _lazy(db: sqlview.Session, name: str, query: str = _SUMS) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (lazy = true) AS {query}")


def _computed(db: sqlview.Session, name: str) -> bool:
    return db.metrics().views[name].computed


@pytest.mark.parametrize(("seed", "share"), [(0, True), (1, False)])
def test_views_that_are_first_read_at_random_moments_are_right(
    seed: int, share: bool, tmp_path: Path
) -> None:
    random, store = Random(seed), tmp_path / "store"
    db = sqlview.connect(store, share=share)
    db.sql("CREATE TABLE t (a INT, b INT)")
    rows: list[tuple[int, int]] = []
    there: set[str] = set()
    read: set[str] = set()
    try:
        for epoch in range(12):
            for name in [n for n in _VIEWS if n not in there]:
                if _UNDER.get(name, name) in {*there, name} and random.random() < 0.7:
                    lazy = " WITH (lazy = true)" if random.random() < 0.8 else ""
                    db.sql(f"CREATE MATERIALIZED VIEW {name}{lazy} AS {_VIEWS[name]}")
                    there.add(name)
                    read |= set() if lazy else {name}
            with db.transaction() as tx:
                for _ in range(random.randint(1, 4)):
                    if rows and random.random() < 0.4:
                        tx.delete("t", [rows.pop(random.randrange(len(rows)))])
                    rows.append((random.randint(1, 6), random.randint(1, 6)))
                    tx.insert("t", [rows[-1]])
            if random.random() < 0.2:
                db.close()
                db = sqlview.connect(store, share=share)
            for name in sorted(there):
                if name in read or random.random() < 0.15:
                    assert db.verify(name).equal, f"epoch {epoch}, {name}: {rows}"
                    read.add(name)
            assert read == {n for n in there if _computed(db, n)}
            if there and random.random() < 0.4:
                gone = random.choice(sorted(there))
                if any(_UNDER.get(name) == gone for name in there):
                    with pytest.raises(sqlview.CatalogError, match="views depend on it"):
                        db.sql(f"DROP MATERIALIZED VIEW {gone}")
                else:
                    db.sql(f"DROP MATERIALIZED VIEW {gone}")
                    there.discard(gone)
                    read.discard(gone)
        for name in there:
            assert db.verify(name).equal
    finally:
        db.close()


def _subscribed(db: sqlview.Session) -> object:
    told: list[pa.Table] = []
    db.subscribe("v", told.append)
    _insert(db, (9, 9))
    return told[0].num_rows == 1


_READS: dict[str, Callable[[sqlview.Session], object]] = {
    "handle": lambda db: db.view("v").rows() == [(2, 2, 5), (3, 1, 2)],
    "get": lambda db: db.view("v").get(2) == (2, 2, 5),
    "arrow": lambda db: db.view("v").to_arrow().num_rows == 2,
    "verify": lambda db: db.verify("v").equal,
    "VERIFY": lambda db: db.sql("VERIFY MATERIALIZED VIEW v").to_arrow().num_rows == 1,
    "subscribe": _subscribed,
    "changes": lambda db: [c.epoch for c in db.changes("v", db.epoch)] in ([], [db.epoch]),
    "INSERT": lambda db: (
        db.sql("INSERT INTO t SELECT b, n FROM v").rows() == [(2,)]
        and sorted(db.view("v").rows()) == [(1, 1, 3), (2, 3, 7), (3, 1, 2)]
    ),
}


@pytest.mark.parametrize("read", _READS.values(), ids=_READS)
def test_whatever_reads_computes(db: sqlview.Session, read: Any) -> None:
    _lazy(db, "v")
    _insert(db, (5, 5))
    with db.transaction() as tx:
        tx.delete("t", [(5, 5)])
    assert not _computed(db, "v") and db.metrics().operators == 0
    assert read(db)
    assert _computed(db, "v") and db.metrics().operators > 0
    _insert(db, (7, 2))
    assert db.verify("v").equal
    with pytest.raises(sqlview.DataError):
        db.changes("v", 1)  # when nobody had read it


def test_what_does_not_read_computes_nothing(db: sqlview.Session) -> None:
    _lazy(db, "v")
    for text in ("SHOW CREATE MATERIALIZED VIEW v", "DESCRIBE v", "EXPLAIN MATERIALIZED VIEW v"):
        db.sql(text).to_arrow()
    db.sql("ALTER MATERIALIZED VIEW v RENAME TO w")
    db.sql("COMMENT ON MATERIALIZED VIEW w IS 'said'")
    db.sql("ALTER TABLE t ADD COLUMN c INT")
    db.state(), db.arrangements()
    with db.snapshot() as taken, pytest.raises(sqlview.CatalogError, match="lazy, and was not"):
        taken.view("w")
    assert not _computed(db, "w") and db.metrics().operators == 0
    assert sorted(db.view("w").rows()) == [(2, 2, 5), (3, 1, 2)]
    with db.snapshot() as taken:
        assert len(taken.view("w").rows()) == 2
    assert db.verify("w").equal


def test_it_is_said_that_a_view_is_lazy(db: sqlview.Session) -> None:
    _lazy(db, "v")
    (created,) = db.sql("SHOW CREATE MATERIALIZED VIEW v").rows()[0]
    assert " WITH (lazy = true) AS\n" in created
    first = "== Lazy: computed when it is first read =="
    assert db.sql("EXPLAIN MATERIALIZED VIEW v").rows()[0] == (first,)
    db.view("v").rows()
    since = "== Lazy: computed since it was first read =="
    assert db.sql("EXPLAIN MATERIALIZED VIEW v").rows()[0] == (since,)
    assert db.sql("SHOW CREATE MATERIALIZED VIEW v").rows() == [(created,)]
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql(created)
    assert not _computed(db, "v")
    assert db.sql(f"EXPLAIN CREATE {created[7:]}").rows()[0] == (first,)


def test_a_view_over_a_lazy_one_is_computed_without_it(db: sqlview.Session) -> None:
    _lazy(db, "v")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT b FROM v WHERE n > 1")
    _insert(db, (1, 3))
    assert sorted(db.view("w").rows()) == [(2,), (3,)]
    assert not _computed(db, "v")
    assert db.metrics().views["v"].changes == 0
    operators = db.metrics().operators
    assert sorted(db.view("v").rows()) == [(2, 2, 5), (3, 2, 3)]
    assert db.metrics().operators == operators  # it is there already
    db.sql("DROP MATERIALIZED VIEW w")
    _insert(db, (1, 4))
    assert db.verify("v").equal


def test_what_a_lazy_view_reads_stays(db: sqlview.Session) -> None:
    _lazy(db, "v")
    _lazy(db, "w", "SELECT b FROM v")
    for drop in ("DROP TABLE t", "DROP MATERIALIZED VIEW v"):
        with pytest.raises(sqlview.CatalogError, match="because views depend on it"):
            db.sql(drop)
    db.sql("DROP MATERIALIZED VIEW w")
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql("DROP TABLE t")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT nothing FROM t", sqlview.BindError),
        ("SELECT rand() FROM t", sqlview.UnsupportedError),
        ("SELECT FROM", sqlview.SqlSyntaxError),
        ("SELECT * FROM s", sqlview.UnsupportedError),
    ],
)
def test_a_query_that_is_refused_is_refused_at_once(
    db: sqlview.Session, text: str, error: type[Exception]
) -> None:
    db.sql("CREATE STREAM s (a INT)")
    with pytest.raises(error):
        _lazy(db, "v", text)
    assert len(db.sql("SHOW VIEWS")) == 0


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("(eager = true)", "WITH (lazy = true)"),
        ("(lazy = 1)", "true or false"),
        ("(lazy = true, lazy = true)", ""),
        ("(lazy)", ""),
        ("lazy", ""),
    ],
)
def test_options_that_no_view_has(db: sqlview.Session, options: str, hint: str) -> None:
    with pytest.raises(sqlview.SqlSyntaxError, match=f"(?s).*{hint.replace('(', '.')[:10]}"):
        db.sql(f"CREATE MATERIALIZED VIEW v WITH {options} AS SELECT a FROM t")
    db.sql("CREATE MATERIALIZED VIEW v WITH (lazy = false) AS SELECT a FROM t")
    assert _computed(db, "v")


def test_a_first_read_that_fails_leaves_all_as_it_was(
    db: sqlview.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lazy(db, "v")

    def fails(*given: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(db._definitions, "record", fails)
        with pytest.raises(KeyboardInterrupt):
            db.view("v").rows()
    assert not _computed(db, "v") and db.metrics().operators == 0
    _insert(db, (1, 2))
    assert db.verify("v").equal


def test_ctrl_c_does_not_break_into_the_first_read_of_a_select(
    db: sqlview.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lazy(db, "v")
    within, passed = db._within_memory, []

    class Side:  # Spark, which asks for what it reads while Ctrl-C is let through
        def start(self) -> None:
            pass

        def select(self, text: str, names: Any, read: Any, *rest: Any) -> pa.Table:
            return read("v").table()

    def pressed(what: str) -> Any:
        signal.raise_signal(signal.SIGINT)
        passed.append(what)
        return within(what)

    with monkeypatch.context() as patched:
        patched.setattr(db, "_side", Side)
        patched.setattr(db, "_within_memory", pressed)
        with pytest.raises(KeyboardInterrupt):
            db.sql("SELECT * FROM v")
    assert passed == ['first read of "v"']  # "the first read of … needs more memory"
    _insert(db, (1, 2))
    assert db.verify("v").equal


def test_rows_that_cannot_be_computed_are_told_to_who_reads(db: sqlview.Session) -> None:
    _lazy(db, "v", "SELECT 6 DIV (a - 1) AS q FROM t")
    with pytest.raises(sqlview.ViewError, match="zero"):
        db.view("v").rows()
    with db.transaction() as tx:
        tx.delete("t", [(1, 2)])
    assert db.verify("v").equal


def test_replacing(db: sqlview.Session) -> None:
    _lazy(db, "v")
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW v WITH (lazy = true) AS SELECT a FROM t")
    assert not _computed(db, "v")
    told: list[pa.Table] = []
    db.subscribe("v", told.append)
    assert _computed(db, "v")
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW v WITH (lazy = true) AS SELECT b AS a FROM t")
    assert _computed(db, "v")  # for who subscribes
    assert sorted(told[0].column("a").to_pylist()) == [1, 2, 2, 2, 3, 4]
    db.sql("DROP MATERIALIZED VIEW v")
    _lazy(db, "v")
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t")
    assert _computed(db, "v") and db.verify("v").equal


def test_a_store_keeps_whether_a_view_was_read(tmp_path: Path) -> None:
    for way in ("log", "checkpoint"):
        path = tmp_path / way
        with sqlview.connect(path) as db:
            db.sql("CREATE TABLE t (a INT, b INT)")
            _lazy(db, "unread")
            _lazy(db, "known")
            _insert(db, (1, 2))
            if way == "checkpoint":
                db.checkpoint()
            db.view("known").rows()
            _insert(db, (3, 2))
            with sqlview.connect(path, read_only=True) as reader:
                assert reader.view("known").rows() == [(2, 2, 4)]
                with pytest.raises(sqlview.StoreError, match='view "unread" is lazy') as refused:
                    reader.view("unread")
                assert "db.view('unread')" in str(refused.value)
                with pytest.raises(sqlview.StoreError, match="lazy"):
                    reader._plan_read("unread")
        with sqlview.connect(path) as db:
            assert not _computed(db, "unread") and _computed(db, "known")
            assert db.view("unread").rows() == db.view("known").rows() == [(2, 2, 4)]
        with sqlview.connect(path) as db:
            assert _computed(db, "unread") and db.verify("unread").equal
