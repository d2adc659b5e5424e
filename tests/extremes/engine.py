"""What the views of a session make of expressions, row by row and all rows at once.

Whatever is raised that is no error of the view is a death: the session is gone, and what killed it
is looked for with fewer expressions in new sessions.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import sqlview
from operators.flight.rendering import texts
from planner.calculus.types import SqlType
from tests.extremes.spark import LONGEST, Answer
from tests.extremes.values import DDL


@dataclass(slots=True)
class Made:
    """What one expression gave: `refused` at CREATE, or its type and an answer for each row;
    `deaths`: what it raised. `inconsistent`: where rows together gave something else than alone."""

    expression: str
    kind: str = ""
    answers: list[Answer] = field(default_factory=list)
    refused: str | None = None
    deaths: list[str] = field(default_factory=list)
    inconsistent: list[str] = field(default_factory=list)


class Death(Exception):
    """A public call raised what it must not."""


def run(expressions: Sequence[str], rows: pa.Table) -> list[Made]:
    """Each expression as a view over the rows."""
    try:
        return _run(expressions, rows)
    except Death as death:
        if len(expressions) == 1:
            return [Made(expressions[0], deaths=_killers(expressions[0], rows) or [str(death)])]
    middle = len(expressions) // 2
    return run(expressions[:middle], rows) + run(expressions[middle:], rows)


def _killers(expression: str, rows: pa.Table) -> list[str]:
    """What each row does to a session of its own."""
    deaths = []
    for i in range(rows.num_rows):
        try:
            _run([expression], rows.slice(i, 1))
        except Death as death:
            deaths.append(f"row {i}: {death}")
    return deaths


def _run(expressions: Sequence[str], rows: pa.Table) -> list[Made]:
    made = [Made(e) for e in expressions]
    with sqlview.connect(placement="inline") as db:
        db.sql(f"CREATE TABLE x ({DDL}, PRIMARY KEY (id))")
        for i, m in enumerate(made):
            _create(db, f"v{i}", m)
        live = [(f"v{i}", m) for i, m in enumerate(made) if m.refused is None]
        keys = rows.select(["id"])
        for row in range(rows.num_rows):
            _change(db, "insert", rows.slice(row, 1))
            for name, m in live:
                m.answers.append(_answer(db, name))
            _change(db, "delete", keys.slice(row, 1))
        _change(db, "insert", rows)
        for name, m in live:
            together = _together(db, name)
            if together is None:
                if not any(a is not None and a[0] == "!" for a in m.answers):
                    m.inconsistent.append(f"{m.expression}: an error only of all rows together")
            elif together != m.answers:
                m.inconsistent.append(
                    f"{m.expression}: {_first_difference(together, m.answers)} of all rows together"
                )
        _change(db, "delete", keys)
        for name, m in live:
            # What the evaluator caught, which would have been a death.
            rows_of = [i for i, a in enumerate(m.answers) if a == "!INTERNAL_ERROR"]
            m.deaths += [f"row {i}: caught" for i in rows_of]
            if _together(db, name) != []:
                m.inconsistent.append(f"{m.expression}: something is left when all rows are gone")
    return made


def _first_difference(left: list[Answer], right: list[Answer]) -> str:
    pairs = zip(left, right, strict=False)
    return next((f"row {i}: {a} and {b}" for i, (a, b) in enumerate(pairs) if a != b), "the count")


def _create(db: sqlview.Session, name: str, made: Made) -> None:
    try:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT id, {made.expression} AS v FROM x")
        made.kind = str(db.view(name).schema[1].type)
    except sqlview.SqlViewError as error:
        made.refused = error.message
    except Exception as error:
        raise Death(f"CREATE: {type(error).__name__}: {str(error)[:200]}") from error


def _change(db: sqlview.Session, action: str, rows: pa.Table) -> None:
    try:
        with db.transaction() as tx:
            getattr(tx, action)("x", rows)
    except Exception as error:
        raise Death(f"{action}: {type(error).__name__}: {str(error)[:200]}") from error


def _read(db: sqlview.Session, name: str) -> pa.Table | str:
    """The view's rows by id, or the class of its error."""
    try:
        view = db.view(name)
        table = view.to_arrow().sort_by("id")
        str(view)
        return table
    except sqlview.ViewError as error:
        found = re.search(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\]", str(error))
        return found[1] if found else f"no class in {str(error)[:100]}"
    except Exception as error:
        raise Death(f"reading: {type(error).__name__}: {str(error)[:200]}") from error


def _answer(db: sqlview.Session, name: str) -> Answer:
    found = _read(db, name)
    return f"!{found}" if isinstance(found, str) else shown(found.column("v"))[0]


def _together(db: sqlview.Session, name: str) -> list[Answer] | None:
    found = _read(db, name)
    return None if isinstance(found, str) else shown(found.column("v"))


def shown(values: pa.ChunkedArray) -> list[Answer]:
    """Values in the form of an Answer."""
    kind = values.type
    if pa.types.is_binary(kind):
        plain = [None if v is None else v.hex().upper() for v in values.to_pylist()]
    elif pa.types.is_boolean(kind):
        plain = [None if v is None else str(v).lower() for v in values.to_pylist()]
    elif pa.types.is_decimal(kind):
        plain = [None if v is None else f"{v:f}" for v in values.to_pylist()]
    else:
        valid = values.is_valid().to_pylist()
        plain = [t if ok else None for t, ok in zip(texts(values), valid, strict=True)]
    if pa.types.is_timestamp(kind):
        plain = [None if v is None else _spark_time(v) for v in plain]
    return [None if v is None else f"={_shortened(v)}" for v in plain]


def _spark_time(text: str) -> str:
    text = text.removesuffix("+00:00")
    return text.rstrip("0") if "." in text else text


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"#{len(text)}:{hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()}"


def same(ours: Answer, sparks: Answer, kind: str | SqlType, digits: float) -> bool:
    """Whether the two answers are one; doubles may differ by `digits`, relatively."""
    if ours is None or sparks is None or ours[0] != "=" or sparks[0] != "=":
        return ours == sparks
    if str(kind) not in ("FLOAT", "DOUBLE"):
        return ours == sparks
    a, b = float(ours[1:]), float(sparks[1:])
    if str(kind) == "FLOAT":
        a, b = float(np.float32(a)), float(np.float32(b))
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if math.copysign(1, a) != math.copysign(1, b):
        return False
    return a == b or (digits > 0 and math.isclose(a, b, rel_tol=digits))
