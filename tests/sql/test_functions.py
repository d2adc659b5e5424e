"""Functions as Spark has them: types, names, values and errors recorded by function_cases; and that
VERIFY computes the same."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import sqlview
from operators.scalar.casts import conversion
from operators.scalar.text import format_float
from planner.calculus import types as t
from sqlview.oracle.functions import BY_SPARK
from tests.sql.function_cases import ANSWERS, COLUMNS, EXPRESSIONS, ROWS, Answer, refused

RECORDED: dict[str, Answer] = json.loads(ANSWERS.read_text())["answers"]
#: Expressions whose column Spark names in a way that the parser leaves no trace of.
NAMED_OTHERWISE = {"position('b', s)", "position('b', s, 2)", "char(65)", "mod(n, m)"}
NAMED_OTHERWISE |= {
    e
    for e in EXPRESSIONS
    if e.startswith(("datepart(", "from_json(")) and ("'MAP<" in e or "'map<" in e or e[0] == "d")
}
NAMED_OTHERWISE |= {
    "struct(n AS k, st.x, n + 1)",
    "arrays_zip(sa.x, w)",
}  # a field of a struct looks like a column
#: Named by what they are, which their arguments' types tell.
NAMED_OTHERWISE |= {e for e in EXPRESSIONS if re.match(r"to_(var)?char\((day|ts|encode)\b", e)}
#: Moments moved by intervals are printed without parentheses or as other functions, an interval
#: goes before the number that it is multiplied by, and casts of casts have no short name.
NAMED_OTHERWISE |= {
    e
    for e in EXPRESSIONS
    if re.match(r"time_bucket.*NTZ\)\)$", e)  # by what the origin is
    or re.match(r"vector_\w+\((CAST\(|array\([01])", e)  # FLOATs as they are written
    or re.match(r"(day|ts) [+-] (interval|make|\(|\w+ \* interval)", e)
    or re.match(r"[bsm] \* interval|\+make|signum\(make|CAST\(CAST\(", e)
}
#: Expressions of letters that DuckDB maps to another case than Spark does: it says so.
UNSAID = {e for e in EXPRESSIONS if e.startswith("initcap('")}
#: Functions, and operators of bits, that Spark computes for VERIFY.
SPARKS = re.compile(r"\b({})\(| [&|^] |~|<<|>>|PLACING".format("|".join(sorted(BY_SPARK))))
#: Expressions over nested values, of which DuckDB says few.
NESTED = re.compile(r"\b(st|sa|mp|a|a2|w)\b|\b(array|map|struct|named_struct)\(")
#: Those with intervals, of which DuckDB has others.
INTERVALS = re.compile(r"interval|(day|ts|NTZ\)|') - (day|ts|DATE|TIMESTAMP|')", re.IGNORECASE)
#: Units of time, and texts read by patterns, of which it says few.
UNITS = re.compile(r"(timestamp|date_?)(add|diff)\([A-Z]|to_(timestamp|date)\(.*, '")
#: (expression, row): where Java's regular expressions find nothing between the two halves of a
#: character, and Spark makes two broken ones of it.
PARTED = {
    (e, 5)
    for e in ("regexp_count(s, 'b*')", "regexp_replace(s, 'b*', '-')", "regexp_replace(s, '', '-')")
}
#: The same where -0.0 is 0.0, as inside of arrays.
ZEROS = {("array(1, x)", 9), ("vector_normalize(CAST(f AS ARRAY<FLOAT>))", 3)}
MAINTAINED = [e for e in EXPRESSIONS if e not in refused()]


@pytest.fixture(scope="module")
def db() -> Iterator[sqlview.Session]:
    """One view for each expression, over an empty table."""
    with sqlview.connect(placement="inline") as session:
        session.sql(f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id))")
        for i, expression in enumerate(MAINTAINED):
            session.sql(f"CREATE MATERIALIZED VIEW v{i} AS SELECT {expression} FROM t")
        yield session


def test_types_and_names(db: sqlview.Session) -> None:
    assert set(RECORDED) == set(EXPRESSIONS), "run python -m tests.sql.function_cases"
    wrong = []
    for i, expression in enumerate(MAINTAINED):
        (field,) = db.view(f"v{i}").schema
        answer = RECORDED[expression]
        if answer.get("error") is not None or str(field.type).upper() != answer["type"].upper():
            wrong.append(f"{expression}: {field.type}, Spark {answer}")
            continue
        named = field.name.lower() == str(answer["name"]).lower()
        if named == (expression in NAMED_OTHERWISE):
            wrong.append(f"{expression}: named {field.name!r}, Spark {answer['name']!r}")
    assert not wrong, "\n".join(wrong)


def test_values_and_errors(db: sqlview.Session) -> None:
    """Row by row, so that a row in error hides no other."""
    wrong = []
    for position, row in enumerate(ROWS):
        with db.transaction() as tx:
            tx.insert("t", [row])
        for i, expression in enumerate(MAINTAINED):
            wanted = RECORDED[expression]["values"][position]
            if _fails(expression) and (found := _verified(db, f"v{i}", expression)) is not None:
                wrong.append(f"{expression} in row {row[0]}: {found}")
            try:
                ((value,),) = db.view(f"v{i}").rows()
            except sqlview.ViewError as error:
                if not isinstance(wanted, dict) or _plain(wanted["error"]) not in str(error):
                    wrong.append(f"{expression} in row {row[0]}: {error}, Spark {wanted}")
                continue
            if (expression, row[0]) in PARTED | ZEROS:
                continue
            (column,) = db.view(f"v{i}").schema
            if column.type == t.FLOAT and value is not None:
                value = float(str(np.float32(value)))
            is_interval = value is not None and isinstance(column.type, t.IntervalType)
            if isinstance(value, (list, dict)) or is_interval:
                value = _written(value, column.type)
            if isinstance(wanted, dict) or not _same(value, wanted):
                wrong.append(f"{expression} in row {row[0]}: {value!r}, Spark {wanted!r}")
        with db.transaction() as tx:
            tx.delete("t", [(row[0],)])
    with db.transaction() as tx:
        tx.insert("t", ROWS)
    for i, expression in enumerate(MAINTAINED):
        if not _fails(expression) and (found := _verified(db, f"v{i}", expression)) is not None:
            wrong.append(f"{expression}: {found}")
    with db.transaction() as tx:
        tx.delete("t", [(row[0],) for row in ROWS])
    assert not wrong, "\n".join(wrong)


def test_a_literal_null_is_as_a_null_of_a_row() -> None:
    """Each column in turn, written as NULL and held as NULL: what planning makes of a function is
    what the evaluator makes of it."""
    kinds = dict(re.findall(r"(\w+) ((?:[^,<(]|<(?:[^<>]|<[^<>]*>)*>|\([^)]*\))+)", COLUMNS))
    names, wrong = list(kinds), []
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE t ({COLUMNS})")
        for column in names[1:]:
            row = tuple(None if n == column else v for n, v in zip(names, ROWS[0], strict=True))
            with db.transaction() as tx:
                tx.insert("t", [row])
            word = re.compile(rf"('[^']*'|->.*|struct\([^)]*\))|(?<![\w.:]){column}\b(?! AS )")
            null = f"CAST(NULL AS {kinds[column]})"
            for expression in MAINTAINED:
                written = word.sub(lambda m: m[1] or null, expression)  # noqa: B023
                if written != expression:
                    held, literal = (_outcome(db, text) for text in (expression, written))
                    if str(literal) not in ("refused", str(held)):
                        wrong.append(f"{written}: {literal!r}, of a row {held!r}")
            with db.transaction() as tx:
                tx.delete("t", [row])
    assert not wrong, "\n".join(wrong)


def _outcome(db: sqlview.Session, expression: str) -> Any:
    """The value, or that it is in error or refused."""
    try:
        db.sql(f"CREATE MATERIALIZED VIEW once (x) AS SELECT {expression} FROM t")
    except sqlview.SqlViewError:
        return "refused"
    try:
        return db.view("once").rows()
    except sqlview.ViewError:
        return "in error"
    finally:
        db.sql("DROP MATERIALIZED VIEW once")


def _plain(error: str) -> str:
    """A class of Spark's errors, which has others for intervals, for numbers."""
    return {"INTERVAL_DIVIDED_BY_ZERO": "_BY_ZERO"}.get(error, error.removeprefix("INTERVAL_"))


def _fails(expression: str) -> bool:
    """Whether a row would hide the others."""
    return any(isinstance(value, dict) for value in RECORDED[expression]["values"])


def _verified(db: sqlview.Session, view: str, expression: str) -> str | None:
    """What VERIFY finds wrong in a view, or in what it says; None too where Spark would verify."""
    if expression not in UNSAID and SPARKS.search(expression):
        return None
    try:
        found = db.verify(view, engine="duckdb")
    except sqlview.ViewError as error:
        spark_alone = any(kind.search(expression) for kind in (NESTED, INTERVALS, UNITS))
        nested = spark_alone and str(error).startswith("cannot verify")
        return None if expression in UNSAID or nested else str(error)
    return None if found.equal and expression not in UNSAID else str(found)


def _written(value: Any, kind: t.SqlType) -> str:
    """A value as Spark casts it to a text."""
    if value is None:
        return "null"
    match kind:
        case t.ArrayType(element=element):
            return f"[{', '.join(_written(v, element) for v in value)}]"
        case t.StructType(fields=fields):
            inner = (_written(value[f.name], f.type) for f in fields)
            return f"{{{', '.join(inner)}}}"
        case t.MapType():
            pairs = (f"{_written(k, kind.key)} -> {_written(v, kind.value)}" for k, v in value)
            return f"{{{', '.join(pairs)}}}"
        case t.IntervalType():
            microsecond = datetime.timedelta(microseconds=1)
            number = value if kind.unit == "month" else value // microsecond
            texts, _, _ = conversion(kind, t.STRING)(np.array([number]), None, 1)
            return str(texts[0])
        case t.FloatType(bits=bits):
            return format_float(np.float32(value) if bits == 32 else value)
        case t.BooleanType():
            return str(value).lower()
        case t.TimestampType():
            shown = value.replace(tzinfo=None).isoformat(" ")
            return str(shown.rstrip("0") if value.microsecond else shown)
        case _:
            return str(value)


def _same(value: Any, text: str | None) -> bool:
    """Whether a value is what Spark prints. Exponentials and logarithms may differ in the last of
    their digits, as mathematical libraries do."""
    if value is None or text is None:
        return value is text
    match value:
        case float():
            wanted = float(text)
            if math.isnan(value) or math.isnan(wanted):
                return math.isnan(value) and math.isnan(wanted)
            signs = math.copysign(1, value) == math.copysign(1, wanted)
            return signs and math.isclose(value, wanted, rel_tol=1e-14)
        case bool():
            return str(value).lower() == text
        case Decimal():
            return f"{value:f}" == text
        case datetime.datetime():
            shown = value.replace(tzinfo=None).isoformat(" ")
            return (shown.rstrip("0") if value.microsecond else shown) == text
        case bytes():
            return value.decode() == text
        case _:
            return str(value) == text


@pytest.mark.parametrize("expression", sorted(refused()))
def test_what_is_refused_says_why(expression: str) -> None:
    with sqlview.connect(placement="inline") as session:
        session.sql(f"CREATE TABLE t ({COLUMNS})")
        with pytest.raises(sqlview.SqlViewError) as caught:
            session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {expression} AS v FROM t")
    name = expression.partition("(")[0].upper().replace("CEIL", "DIGITS")
    assert name in str(caught.value).upper()
    assert caught.value.line == 1


def test_pmod_of_the_least_integers() -> None:
    """What Spark gives, where a remainder and a divisor add up to less than the least integer."""
    least = -(2**31)
    rows = [(1, -1_999_999_999, -2_000_000_000), (2, least, least + 1), (3, least + 1, least)]
    rows += [(4, -7, 5), (5, -7, -5), (6, least, least), (7, least // 2, least // 2 - 1)]
    with sqlview.connect(placement="inline") as db:
        for kind, factor in (("INT", 1), ("BIGINT", 2**32)):
            db.sql(f"CREATE TABLE {kind}s (i INT, a {kind}, b {kind}, PRIMARY KEY (i))")
            with db.transaction() as tx:
                tx.insert(f"{kind}s", [(i, a * factor, b * factor) for i, a, b in rows])
            db.sql(f"CREATE MATERIALIZED VIEW v{kind} AS SELECT i, pmod(a, b) AS p FROM {kind}s")
            found = dict(db.view(f"v{kind}").rows())
            expected = {1: 294_967_297, 2: -1, 3: 1, 4: 3, 5: -2, 6: 0, 7: 2**30 - 2}
            assert found == {i: p * factor for i, p in expected.items()}


def test_json_as_columns_and_a_key_that_is_there_twice() -> None:
    """A map has each key once: JSON that repeats one is an error of its row."""
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (id INT, s STRING, PRIMARY KEY (id))")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT id, c0, c1 FROM t "
            "LATERAL VIEW json_tuple(s, 'a', 'b') AS c0, c1"
        )
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT id, json_tuple(s, 'b') AS b FROM t")
        db.sql(
            "CREATE MATERIALIZED VIEW m AS "
            "SELECT id, from_json(s, 'MAP<STRING, STRING>')['a'] AS a FROM t"
        )
        texts = ['{"a": 1, "b": [2, {"c": "x"}]}', '{"a": null, "b": 1.50}', "[1]", None, "{"]
        with db.transaction() as tx:
            tx.insert("t", list(enumerate(texts)))
        assert sorted(db.view("v").rows()) == [
            (0, "1", '[2,{"c":"x"}]'), (1, None, "1.5"), (2, None, None), (3, None, None),
            (4, None, None),
        ]  # fmt: skip
        assert sorted(db.view("w").rows())[0] == (0, '[2,{"c":"x"}]')
        with db.transaction() as tx:
            tx.delete("t", [(1, texts[1])])
            tx.insert("t", [(1, '{"a": 1, "a": 2}')])
        with pytest.raises(sqlview.ViewError, match="DUPLICATED_MAP_KEY"):
            db.view("m").rows()
        db.sql("DELETE FROM t WHERE id IN (1, 2, 4)")
        assert sorted(db.view("m").rows()) == [(0, "1"), (3, None)]
