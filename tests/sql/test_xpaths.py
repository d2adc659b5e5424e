"""XML by paths, as Spark finds it: see xpath_cases; paths that are refused; views that change."""

# ruff: noqa: E501 - a table of texts

from __future__ import annotations

import contextlib
import json
import math
import random
from typing import Any

import pytest

import sqlview
from planner.calculus import xpaths
from tests.sql.xpath_cases import ANSWERS, cases, document, functions_of, recorded, spoilt


def differences(wanted: list[tuple[str, list[str]]], answers: list[list[list[Any]]]) -> list[str]:
    """Where views find something else than was answered. Documents that some row fails on come one
    by one, so that a row in error hides no other."""
    wrong = []
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
        for (path, documents), answer in zip(wanted, answers, strict=True):
            names = functions_of(path)
            calls = [f"{name}(s, {_quoted(path)}) AS v{i}" for i, name in enumerate(names)]
            text = f"SELECT id, {', '.join(calls)} FROM t"
            db.sql(f"CREATE MATERIALIZED VIEW v AS {text}")
            rows = list(enumerate(documents))
            fails = any(isinstance(v, dict) for row in answer for v in row)
            for batch in [[row] for row in rows] if fails else [rows]:
                with db.transaction() as tx:
                    tx.insert("t", batch)
                found = _found(db)
                for i, one in batch:
                    values = found.get(i, [found] * len(names))
                    if not all(map(_same, values, answer[i])):
                        wrong.append(f"{names} of {one!r}, {path!r}: {values}, Spark {answer[i]}")
                with db.transaction() as tx:
                    tx.delete("t", [(i,) for i, _ in batch])
            db.sql("DROP MATERIALIZED VIEW v")
    return wrong


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _found(db: sqlview.Session) -> dict[Any, Any]:
    """The values of view v by id; of one in error, whether the error is of XML."""
    try:
        return {i: values for i, *values in db.view("v").rows()}
    except sqlview.ViewError as error:
        return {"error": "[INVALID_XML]" in str(error)}


def _same(found: Any, value: Any) -> bool:
    if isinstance(found, float):
        number = float(value) if isinstance(value, str) else math.inf
        signs = math.copysign(1, found) == math.copysign(1, number)
        return (found == number and signs) or (math.isnan(found) and math.isnan(number))
    return bool(found == value)


def test_what_spark_finds() -> None:
    wanted, answers = recorded(), json.loads(ANSWERS.read_text())["answers"]
    assert len(wanted) == len(answers) > 200, "run python -m tests.sql.xpath_cases"
    assert not (wrong := differences(wanted, answers)), "\n".join(wrong)


#: Documents that are none, or are not read.
BAD = (
    *("<a", "<a>", "<a></b>", "<a/><b/>", "x<a/>", "<a>&b;</a>", "<a x=1/>", "<a x='1' x='2'/>", "<a>]]></a>"),
    *(" <?xml version='1.0'?><a/>", "\ufeff<a/>", "<?xml version='1.2'?><a/>", "<a>\x01</a>", "<a><!-- -- --></a>"),
    *("<!DOCTYPE a [<!ENTITY e '&e;'>]><a>&e;</a>", "<?xml version='1.1'?><a>&#1;</a>", "<1/>", "<a>\ufffe</a>"),
    *("<!DOCTYPE a SYSTEM 'none.dtd'><a/>", "<!DOCTYPE a [<!ENTITY % p ''>%p;]><a/>", "<a>&#xD800;</a>", " "),
)  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_document_is_an_error_until_it_leaves(text: str) -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, xpath_int(s, 'count(//*)') AS n FROM t")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT id, xpath(s, '//*') AS n FROM t")
        with db.transaction() as tx:
            tx.insert("t", [(1, "<a/>"), (2, text)])
        for view in ("v", "w"):
            with pytest.raises(sqlview.ViewError, match=r"\[INVALID_XML\]"):
                db.view(view).rows()
        with db.transaction() as tx:
            tx.upsert("t", [(2, "<a><b/></a>")])
        assert sorted(db.view("v").rows()) == [(1, 1), (2, 2)]
        assert sorted(db.view("w").rows()) == [(1, [None]), (2, [None, None])]


#: Paths that views do not have, and what is said of them.
REFUSED = {
    "a b": "'b' where it does not belong",
    "a/": "ends too early",
    "//": "ends too early",
    "a[1": "ends too early",
    " ": "blank",
    "a:b": "the prefix 'a'",
    "*:b": "the prefix '*'",
    "$x": "a variable",
    "id('x')": "calls id()",
    "lang('en')": "calls lang()",
    "foo(1)": "calls foo()",
    "matches(a, 'b')": "calls matches()",
    "count()": "with 0 arguments",
    "concat('a')": "with 1 argument",
    "count(1)": "needs nodes at 'count('",
    "a | 1": "needs nodes at '|'",
    "'a'[1]": "needs nodes at '['",
    "string(a)/b": "needs nodes at '/'",
    "namespace::*": "the axis 'namespace'",
    "up::a": "the axis 'up'",
    "a/text": None,
    "a/foo()": "foo()",
    "1e3": "ends in 'e'",
    "1.5-1": "'-' right behind",
    "a # b": "'# b'",
    "'a": "'a",
    "a/b | a/c = 2": "'|' left of '='",
    "(a | b) = 2": "'|' left of '='",
    "//a[not(b < 1)]": "in a call in a predicate",
    "(//a)[not(b = 1)]": "in a call in a predicate",
    "//a[not(b = 1)]": None,
    "//a[not((b < 1))]": None,
    "descendant::node()/descendant::a": "Java takes for //",
    "./descendant::a": "Java takes for //",
    "descendant-or-self::node()[1 = 1]/a": "Java takes for //",
    "descendant-or-self::node()/node()/a": "Java takes for //",
    "name(//*)": "write (…)[1]",
    "name((//*)[1])": None,
    "name(//a)": None,
    "name(a/b/@*)": None,
    "local-name(a//b)": "write (…)[1]",
    "name(//b/preceding::*)": "write (…)[1]",
    "name((//b)/c)": "write (…)[1]",
    "//b[count(c)]": "Java takes for //",
    "//b[2]": None,
    "a[-1] | b": "a negative place",
    "a/ancestor::*[last()][1]": "on an axis that goes back",
    "(//a)[b][last()]": "behind another predicate",
    "(//a)[last()][b]": None,
    "(" * 11 + "a" + ")" * 11: "10 pairs",
    "-" + "+1" * 101: "100 signs",
    "a" + "[a" * 21 + "]" * 21: "20 parentheses",
    "1" + " + 1" * 101: "100 signs",
}


@pytest.mark.parametrize("path", REFUSED)
def test_a_path_that_is_refused_says_why(path: str) -> None:
    why = REFUSED[path]
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
        text = f"CREATE MATERIALIZED VIEW v AS\nSELECT xpath_string(s, {_quoted(path)}) AS v FROM t"
        if why is None:
            db.sql(text)
            return
        with pytest.raises(sqlview.UnsupportedError) as caught:
            db.sql(text)
    assert (caught.value.line, caught.value.column) == (2, 24)
    assert "XPATH_STRING by the path" in caught.value.message
    assert why in str(caught.value.detail)


_VIEWS = {
    "f": "SELECT id, xpath_string(s, 'r/a') AS a FROM t WHERE xpath_boolean(s, 'r/b[. > 2]')",
    "e": "SELECT id, x FROM t LATERAL VIEW explode(xpath(s, 'r/*/text()')) AS x",
    "g": "SELECT xpath_string(s, 'r/a') AS a, count(*) AS c, sum(xpath_long(s, 'r/b')) AS b,"
    " max(xpath_number(s, 'sum(r/b)')) AS m FROM t GROUP BY xpath_string(s, 'r/a')",
    "j": "SELECT t.id, u.id AS other FROM t JOIN t AS u"
    " ON xpath_int(t.s, 'r/b') = xpath_short(u.s, 'count(r/b)')",
    "x": "SELECT id, xpath_float(s, 'r/b[2]') AS f, xpath(s, '//a/@k') AS k FROM t",
}


def _text(rng: random.Random) -> str | None:
    if rng.random() < 0.1:
        return rng.choice((None, "", "<r/>"))
    parts = [f"<a k='{rng.randrange(3)}'>{rng.choice('uvw')}</a>" for _ in range(rng.randrange(3))]
    parts += [f"<b>{rng.choice((1, 2, 3, 2.5, 'x', ''))}</b>" for _ in range(rng.randrange(4))]
    rng.shuffle(parts)
    return f"<r>{''.join(parts)}</r>"


def test_views_follow_their_tables() -> None:
    """Inserts, updates, deletes, and texts that are no documents for a while, against new views."""
    rng = random.Random(11)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
        for name, text in _VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        spoilt_one = False
        for epoch in range(12):
            with db.transaction() as tx:
                tx.upsert("t", [(i, _text(rng)) for i in rng.sample(range(8), 3)])
            if epoch % 3 == 2:
                db.sql(f"DELETE FROM t WHERE id = {rng.randrange(8)}")
            with db.transaction() as tx:
                tx.upsert("t", [(9, "<r><a>" if epoch % 4 == 1 else _text(rng))])
            for name, text in _VIEWS.items():
                if epoch % 4 == 1:
                    spoilt_one = True
                    with pytest.raises(sqlview.ViewError, match="INVALID_XML"):
                        db.view(name).rows()
                    continue
                db.sql(f"CREATE MATERIALIZED VIEW again AS {text}")
                assert _rows(db, name) == _rows(db, "again"), name
                db.sql("DROP MATERIALIZED VIEW again")
        assert spoilt_one


def _rows(db: sqlview.Session, view: str) -> list[str]:
    return sorted(map(repr, db.view(view).rows()))


def test_explain_shows_the_call() -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, xpath_number(s, '//a') AS n FROM t")
        assert "xpath_double(s, '//a') AS n" in str(db.sql("EXPLAIN MATERIALIZED VIEW v"))


@pytest.mark.parametrize("seed", range(20))
def test_any_path_is_read_or_refused_and_any_text_a_document_or_an_error(seed: int) -> None:
    """Nothing else is raised than errors of rows, however odd the texts are."""
    rng = random.Random(seed)
    marks = "/[]()@.*|=<>+-:$'\"ab1 ,"
    for _ in range(200):
        text = "".join(rng.choice(marks) for _ in range(rng.randrange(1, 12)))
        with contextlib.suppress(ValueError):
            xpaths.parse(text)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
        calls = [f"xpath_string(s, {_quoted(path)})" for path, _ in cases(rng, 5)]
        columns = ", ".join(f"{call} AS v{i}" for i, call in enumerate(calls))
        db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {columns} FROM t")
        for _ in range(20):
            with db.transaction() as tx:
                tx.upsert("t", [(0, rng.choice((spoilt, document))(rng))])
            assert _found(db) != {"error": False}


@pytest.mark.spark
def test_spark_verifies_views_of_paths(spark: Any) -> None:
    rng = random.Random(3)
    with sqlview.connect(spark=spark, placement="inline") as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
        for name, text in _VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        for _ in range(2):
            with db.transaction() as tx:
                tx.upsert("t", [(i, _text(rng)) for i in rng.sample(range(30), 20)])
                tx.upsert("t", [(40, None), (41, "")])
            db.sql(f"DELETE FROM t WHERE id = {rng.randrange(30)}")
            for name in _VIEWS:
                found = db.verify(name, engine="spark")
                assert found.equal, (name, found)
