"""What a person holds: views and results at a prompt, in a notebook, in other libraries."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from operators.executor.watch import JobProgress
from sqlview import progress
from sqlview.progress import Progress


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect() as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, country STRING, price DECIMAL(9,2))")
        session.sql(
            "CREATE MATERIALIZED VIEW revenue AS "
            "SELECT country, sum(price) AS total, count(*) AS n FROM t GROUP BY country"
        )
        with session.transaction() as tx:
            tx.insert("t", [(1, "FR", 10), (2, "DE", 20), (3, "FR", 5), (4, None, 1)])
        yield session


def test_a_view_shows_its_rows_types_and_number(db: sqlview.Session) -> None:
    assert repr(db.view("revenue")).splitlines() == [
        'materialized view "revenue" at epoch 1: 3 rows (STRING, DECIMAL(19,2), BIGINT)',
        "country  total  n",
        "-------  -----  -",
        *repr(db.view("revenue")).splitlines()[3:],
    ]
    page = db.view("revenue")._repr_html_()
    assert "<caption>materialized view &quot;revenue&quot; at epoch 1: 3 rows</caption>" in page
    assert "<th>country</th>" in page and "DECIMAL(19,2)" in page and "<td>NULL</td>" in page


def test_large_results_show_their_first_rows(db: sqlview.Session) -> None:
    db.sql("CREATE TABLE big (id INT, text STRING)")
    db.sql("CREATE MATERIALIZED VIEW same AS SELECT id, text, '<b>' AS bold FROM big ORDER BY id")
    with db.transaction() as tx:
        tx.insert("big", pa.table({"id": range(100_000), "text": ["x" * 5_000] + ["y"] * 99_999}))
    view = db.view("same")
    for shown, rows in ((repr(view), 20), (view._repr_html_(), 20), (str(view), 1_000)):
        assert len(shown) < 200 * rows
        assert f"… and {100_000 - rows:,} rows more" in shown
    assert "<b>" not in view._repr_html_() and "&lt;b&gt;" in view._repr_html_()
    assert len(view) == 100_000
    assert view.head(2).rows() == [(0, "x" * 5_000, "<b>"), (1, "y", "<b>")]
    assert view.head(0).rows() == []
    with pytest.raises(ValueError, match="n is the number of rows"):
        view.head(-1)
    wide = ", ".join(f"{i} AS c{i}" for i in range(60))
    db.sql(f"CREATE MATERIALIZED VIEW wide AS SELECT {wide} FROM t")
    assert "… and 20 columns more" in repr(db.view("wide"))


def test_a_view_in_error_or_gone_shows_that(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW bad AS SELECT 1 / (id - 1) AS q FROM t")
    view = db.view("bad")
    for shown in (repr(view), view._repr_html_()):
        assert "is in error" in shown and "DIVIDE_BY_ZERO" in shown
    for read in (view.rows, view.head, lambda: len(view), lambda: str(view), lambda: list(view)):
        with pytest.raises(sqlview.ViewError):
            read()
    db.sql("DROP MATERIALIZED VIEW bad")
    assert 'materialized view "bad" does not exist' in repr(view)
    revenue = db.view("revenue")
    db.close()
    assert "the session is closed" in repr(revenue)


def test_rows_go_out_to_other_libraries(db: sqlview.Session) -> None:
    view = db.view("revenue")
    assert sorted(map(str, view)) == sorted(map(str, view.rows()))
    assert pa.table(view).equals(view.to_arrow())
    frame = view.to_pandas()
    assert list(frame.columns) == ["country", "total", "n"] and len(frame) == 3
    polars = pytest.importorskip("polars")
    assert view.to_polars().equals(polars.DataFrame(view.to_arrow()))


def test_without_polars_the_error_names_the_remedy(
    db: sqlview.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        db.view("revenue").to_polars()


def test_a_row_is_found_by_its_key(db: sqlview.Session) -> None:
    view = db.view("revenue")
    assert view.key == ("country",)
    assert view.get("FR") == ("FR", Decimal("15.00"), 2)
    assert view.get("XX") is None
    assert view.get(None) == (None, Decimal("1.00"), 1)
    shown = db.arrangements().to_pylist()
    assert [i["readers"] for i in shown if i["relation"] == "revenue" and i["key"] == "country"]
    builds = db.metrics().index_builds
    with db.transaction() as tx:
        tx.upsert("t", [(1, "XX", 7)])
    assert view.get("FR") == ("FR", Decimal("5.00"), 1)
    assert view.get("XX") == ("XX", Decimal("7.00"), 1)
    assert db.metrics().index_builds == builds
    with pytest.raises(sqlview.SqlViewError, match="has 1 values, not 2"):
        view.get("FR", 1)
    with pytest.raises(sqlview.DataError, match="country"):
        view.get(1)


def test_keys_of_views(db: sqlview.Session) -> None:
    texts: dict[str, tuple[str, ...] | None] = {
        "SELECT country, id FROM t": ("id",),
        "SELECT sum(price) AS s FROM t": (),
        "SELECT country FROM t": None,
        "SELECT DISTINCT country, price FROM t": ("country", "price"),
    }
    for i, (text, key) in enumerate(texts.items()):
        db.sql(f"CREATE MATERIALIZED VIEW k{i} AS {text}")
        assert db.view(f"k{i}").key == key
    assert db.view("k0").get(4) == (None, 4)
    assert db.view("k1").get() == (Decimal("36.00"),)
    with pytest.raises(sqlview.SqlViewError, match="lookup"):
        db.view("k2").get("FR")


def test_rows_are_looked_up_by_any_columns(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t WHERE id < 4")
    view = db.view("rows")
    assert sorted(view.lookup(country="FR")) == [
        (1, "FR", Decimal("10.00")),
        (3, "FR", Decimal("5.00")),
    ]
    assert view.lookup(COUNTRY="FR", price=5).rows() == [(3, "FR", Decimal("5.00"))]
    assert view.lookup(country=None).rows() == [] and view.lookup(id=None).rows() == []
    with pytest.raises(sqlview.DataError, match='has no column "land"'):
        view.lookup(land="FR")
    with pytest.raises(ValueError, match="name at least one column"):
        view.lookup()
    with db.transaction() as tx:
        tx.delete("t", [(1,)])
    assert view.lookup(country="FR").rows() == [(3, "FR", Decimal("5.00"))]
    kept = db.state().num_rows
    db.sql("DROP MATERIALIZED VIEW rows")
    assert db.state().num_rows == kept - 4  # rows, their hashes, and two indexes


def test_plans_show_whole(db: sqlview.Session) -> None:
    plan = db.sql("EXPLAIN MATERIALIZED VIEW revenue")
    assert str(plan) == repr(plan) == "\n".join(line for (line,) in plan.rows())
    assert plan._repr_html_().startswith("<pre>== Logical plan ==")


def test_a_verification_shows_its_outcome(db: sqlview.Session) -> None:
    found = db.verify("revenue")
    assert repr(found) == str(found) == 'view "revenue" equals its recompute at epoch 1 (3 rows)'
    assert found._repr_html_() == f"<pre>{found}</pre>".replace('"', "&quot;")


def test_unsubscribing(db: sqlview.Session) -> None:
    heard: list[Any] = []
    db.subscribe("revenue", heard.append)
    db.subscribe("revenue", print)
    db.unsubscribe("Revenue", heard.append)
    db.unsubscribe("revenue", print)
    with db.transaction() as tx:
        tx.delete("t", [(1,)])
    assert not heard
    with pytest.raises(sqlview.SqlViewError, match="no such subscription"):
        db.unsubscribe("revenue", print)
    with pytest.raises(sqlview.CatalogError):
        db.unsubscribe("nothing", print)


def test_of_equal_subscribers_the_one_that_is_named_goes(db: sqlview.Session) -> None:
    class Heard(list[Any]):
        def __call__(self, changes: pa.Table) -> None:
            self.append(changes)

    first, second = Heard(), Heard()
    db.subscribe("revenue", first)
    db.subscribe("revenue", second)
    db.unsubscribe("revenue", second)
    with db.transaction() as tx:
        tx.delete("t", [(1,)])
    assert (len(first), len(second)) == (1, 0)
    db.unsubscribe("revenue", first)


def test_a_subscriber_that_leaves_when_it_is_called_hears_no_more(db: sqlview.Session) -> None:
    heard: list[str] = []

    def first(changes: pa.Table) -> None:
        heard.append("first")
        if len(heard) == 1:
            db.unsubscribe("revenue", second)

    def second(changes: pa.Table) -> None:
        heard.append("second")

    db.subscribe("revenue", first)
    db.subscribe("revenue", second)
    for key in (1, 2):
        with db.transaction() as tx:
            tx.delete("t", [(key,)])
    assert heard == ["first", "first"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_people_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    assert Progress().is_shown and not Progress(False).is_shown
    monkeypatch.setenv("CI", "true")
    assert not Progress().is_shown and Progress(True).is_shown
    monkeypatch.delenv("CI")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not Progress().is_shown


@pytest.mark.parametrize("total", [None, 5])
def test_progress_goes_when_its_work_ends(
    monkeypatch: pytest.MonkeyPatch, total: int | None
) -> None:
    stderr = _Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_WAIT_SECONDS", 0.0)
    work = Progress(True)

    def interrupted() -> None:
        with work.task("counting", total) as bar:
            while "counting" not in stderr.getvalue():
                bar.advance(1)
            assert bar.on_job is not None
            bar.on_job(JobProgress(2, 3, 17, 64, 10.0, 5_000))
            while "stage 2 of 3, 17 of 64 tasks, 5,000 rows, 14 s left" not in stderr.getvalue():
                bar.advance(1)
            bar.on_job(None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with work.task("again") as bar:
        bar.advance(1)


def test_creating_tells_how_many_rows_were_read(
    db: sqlview.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    monkeypatch.setattr(db, "_progress", Progress(True))
    monkeypatch.setattr(progress, "_WAIT_SECONDS", 1e6)
    monkeypatch.setattr(
        "rich.progress.Progress.advance", lambda self, task, rows: told.append(rows)
    )
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT country, max(price) AS m FROM t GROUP BY country")
    assert sum(told) >= 4
    assert db.verify("v").equal
