"""Functions of the user: in views, in statements, in stores, and in Spark's tasks."""

from __future__ import annotations

import importlib
import pickle
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

import sqlview
from operators.executor.spark import run
from operators.scalar import user
from planner.errors import BindError, CatalogError, FunctionError, SqlViewError
from sqlview import Session

_QUERY = "SELECT id, slug(name, id) AS s, doubled(id) + 1 AS d FROM t"


def slug(name: pa.Array, number: pa.Array) -> pa.Array:
    """Fails for names with "!"."""
    if pc.any(pc.fill_null(pc.match_substring(name, "!"), False)).as_py():
        raise ValueError("no name has a !")
    return pc.binary_join_element_wise(pc.utf8_lower(name), number.cast(pa.string()), "-")


def doubled(number: pa.Array) -> pa.Array:
    return pc.multiply(number, 2)


def _opened(path: Path | None = None, **given: Any) -> Session:
    db = sqlview.connect(path, **given)
    db.udf("slug", slug, "STRING")
    db.udf("doubled", doubled, "INT")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, name STRING)")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {_QUERY}")
    db.sql(
        "CREATE MATERIALIZED VIEW g AS SELECT slug(name, 0) AS s, count(*) AS n FROM t "
        "WHERE doubled(id) > 4 GROUP BY slug(name, 0)"
    )
    return db


def _check(db: Session, rows: dict[int, str | None]) -> None:
    made = {i: None if n is None else n.lower() for i, n in rows.items()}
    expected = [(i, None if n is None else f"{n}-{i}", 2 * i + 1) for i, n in made.items()]
    assert sorted(db.view("v").rows()) == sorted(expected)
    named = [None if n is None else f"{n}-0" for i, n in made.items() if 2 * i > 4]
    counted = [(n, named.count(n)) for n in set(named)]
    assert sorted(db.view("g").rows(), key=repr) == sorted(counted, key=repr)


def _change(db: Session, rng: random.Random, rows: dict[int, str | None]) -> None:
    with db.transaction() as tx:
        for i in rng.sample(range(12), 4):
            if i in rows and rng.random() < 0.4:
                tx.delete("t", [(i,)])
                del rows[i]
            else:
                rows[i] = rng.choice(["A", "b", "Bo", None])
                tx.upsert("t", [(i, rows[i])])


def test_views_call_functions() -> None:
    rng, rows = random.Random(1), dict[int, str | None]()
    with _opened() as db:
        for _ in range(15):
            _change(db, rng, rows)
            _check(db, rows)
        db.sql("UPDATE t SET name = slug('X', id) WHERE doubled(id) < 6")
        rows.update({i: f"x-{i}" for i in rows if i < 3})
        _check(db, rows)
        assert "slug(" in "\n".join(r[0] for r in db.sql("EXPLAIN MATERIALIZED VIEW v").rows())


def test_a_store_keeps_names_and_types(tmp_path: Path) -> None:
    rng, rows = random.Random(2), dict[int, str | None]()
    with _opened(tmp_path / "store") as db:
        _change(db, rng, rows)
        assert db.sql("SHOW FUNCTIONS").rows() == [
            ("slug", "STRING", True), ("doubled", "INT", True)
        ]  # fmt: skip
    user._KNOWN.clear()  # another process
    with sqlview.connect(tmp_path / "store") as db:
        _check(db, rows)
        with pytest.raises(FunctionError, match="is not registered"), db.transaction() as tx:
            tx.insert("t", [(50, "x")])
        _check(db, rows)
        db.udf("slug", slug, "STRING")
        db.udf("Doubled", doubled, "INT")
        _change(db, rng, rows)
        _check(db, rows)
    user._KNOWN.clear()
    with sqlview.connect(tmp_path / "store", udfs={"slug": slug, "doubled": doubled}) as db:
        _change(db, rng, rows)
        _check(db, rows)


def test_commits_behind_a_checkpoint_want_the_code(tmp_path: Path) -> None:
    rng, rows = random.Random(3), dict[int, str | None]()
    db = _opened(tmp_path / "store")
    _change(db, rng, rows)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    db.close()
    user._KNOWN.clear()
    with pytest.raises(sqlview.StoreError, match="cannot be applied") as caught:
        sqlview.connect(tmp_path / "copy")
    assert 'udfs={"' in str(caught.value)
    with sqlview.connect(tmp_path / "copy", udfs={"slug": slug, "doubled": doubled}) as db:
        _check(db, rows)


def _one_for_all(number: pa.Array) -> pa.Array:
    return pa.array([pc.sum(number).as_py()], pa.int32())


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda a: a.to_pylist(), "returned a builtins.list, and is to return a pyarrow.Array"),
        (_one_for_all, "returned another number of values than there are rows"),
        (lambda a: a.cast(pa.string()), "returned values of the type string that are no INT"),
        (lambda a: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
@pytest.mark.parametrize("rows", [1, 3])
def test_what_is_no_value_is_an_error_as_data(function: Any, said: str, rows: int) -> None:
    with sqlview.connect() as db:
        db.udf("f", function, "INT")
        db.sql("CREATE TABLE t (id INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT f(id) AS x FROM t")
        db.sql("CREATE MATERIALIZED VIEW other AS SELECT count(*) AS n FROM t")
        with db.transaction() as tx:
            tx.insert("t", [(i,) for i in range(rows)])
        with pytest.raises(sqlview.ViewError) as caught:
            db.view("v").rows()
        assert f"[USER_FUNCTION] f {said}" in str(caught.value)
        assert db.view("other").rows() == [(rows,)]
        db.sql("DELETE FROM t WHERE id >= 0")
        assert db.view("v").rows() == []


def test_only_the_rows_that_raise_are_in_error() -> None:
    with _opened() as db:
        with db.transaction() as tx:
            tx.insert("t", [(i, "no!" if i in (3, 11) else "yes") for i in range(20)])
        with pytest.raises(sqlview.ViewError, match="no name has a"):
            db.view("v").rows()
        with db.transaction() as tx:
            tx.delete("t", [(3,), (11,)])
        _check(db, {i: "yes" for i in range(20) if i not in (3, 11)})


def test_functions_are_refused() -> None:
    with _opened() as db:
        for name in ("upper", "concat", "sum", "rand", "now"):
            with pytest.raises(CatalogError, match="of Spark"):
                db.udf(name, slug, "STRING")
        with pytest.raises(CatalogError, match="because views call it"):
            db.udf("slug", doubled, "STRING")
        with pytest.raises(CatalogError, match="because views call it"):
            db.sql("DROP FUNCTION slug")
        with pytest.raises(BindError, match="unknown function"):
            db.sql("CREATE MATERIALIZED VIEW w AS SELECT nosuch(id) AS x FROM t")
        with pytest.raises(SqlViewError):
            db.udf("f", slug, "NO TYPE")
        with pytest.raises(TypeError):
            db.udf("f", 3, "INT")  # type: ignore[arg-type]
        db.udf("f", doubled, "INT")
        db.udf("f", slug, "STRING")  # nobody calls it
        db.sql("DROP FUNCTION f")
        db.sql("DROP FUNCTION IF EXISTS f")
        with pytest.raises(CatalogError, match='function "f" does not exist'):
            db.sql("DROP FUNCTION f")


@pytest.mark.spark
def test_functions_travel_to_spark(spark: Any) -> None:
    rng, rows = random.Random(4), dict[int, str | None]()
    with sqlview.connect(spark=spark, placement="spark") as db:
        # A function of this module would be looked up by name in the tasks.
        db.udf(
            "slug",
            lambda n, i: pc.binary_join_element_wise(pc.utf8_lower(n), i.cast(pa.string()), "-"),
            "STRING",
        )
        db.udf("doubled", lambda i: pc.multiply(i, 2), "INT")
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, name STRING)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {_QUERY}")
        db.sql(
            "CREATE MATERIALIZED VIEW g AS SELECT slug(name, 0) AS s, count(*) AS n FROM t "
            "WHERE doubled(id) > 4 GROUP BY slug(name, 0)"
        )
        for _ in range(2):
            _change(db, rng, rows)
            _check(db, rows)
        assert len(list(Path(db._side().directory).glob("functions-*"))) == 1
        outcome = db.verify("v")
        assert outcome.equal and outcome.engine == "Spark"
        selected = db.sql("SELECT slug(name, id) FROM t WHERE name IS NOT NULL").rows()
        assert sorted(selected) == sorted((f"{n.lower()}-{i}",) for i, n in rows.items() if n)


def test_a_function_that_a_task_cannot_read_is_told_to_its_callers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far_away.py").write_text("def f(a):\n    return a\n")
    monkeypatch.syspath_prepend(tmp_path)
    far = importlib.import_module("far_away")
    files = {"far": cloudpickle.dumps(far.f), "near": cloudpickle.dumps(lambda a: a)}
    monkeypatch.delitem(sys.modules, "far_away")
    (tmp_path / "far_away.py").unlink()
    importlib.invalidate_caches()
    for owner, held in ((user, "_KNOWN"), (user, "_MISSED")):
        monkeypatch.setattr(owner, held, {})
    monkeypatch.setattr(run, "_ARRIVED", set())
    monkeypatch.setattr(run, "check_directory", lambda path: None)
    monkeypatch.setattr(run, "read", lambda path: pickle.dumps(files))
    run.arrived(str(tmp_path / "functions"))
    assert user.known("near", "near")(1) == 1
    with pytest.raises(sqlview.SqlViewError, match="cannot be read") as caught:
        user.known("far", "far")
    assert "No module named 'far_away'" in str(caught.value)
