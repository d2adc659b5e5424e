"""The table of expressions whose values were recorded from Spark (see record_spark)."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from operators import scalar
from planner.calculus import expr as e
from planner.calculus import types as t
from planner.errors import UnsupportedError
from tests.operators.record_spark import ANSWERS
from tests.operators.scalar_cases import call
from tests.operators.spark_cases import CASES

RECORDED: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())["answers"]

#: Spark's error class -> ours, where Spark has more than one for the same thing.
SAME_CLASS = {
    "BINARY_ARITHMETIC_OVERFLOW": "ARITHMETIC_OVERFLOW",
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": "NUMERIC_VALUE_OUT_OF_RANGE",
}


def ours(expr: e.Expr) -> dict[str, Any]:
    """What the evaluator makes of a constant expression, in the form of the record."""
    shown = expr if expr.type == t.STRING else call("cast", expr, type=t.STRING)
    try:
        column, errors = scalar.compile(shown).evaluate(lambda i: pytest.fail("no column"), 1)
    except UnsupportedError:
        return {"error": "DATATYPE_MISMATCH"}
    if errors is not None:
        message = errors.message(0)
        assert message is not None
        return {"error": message[1 : message.index("]")]}
    if column.valid is not None and not column.valid[0]:
        return {"value": None}
    return {"value": column.values[0].as_py()}


def agree(expr: e.Expr, got: dict[str, Any], wanted: dict[str, Any]) -> bool:
    if "error" in wanted or "error" in got:
        error = wanted.get("error")
        return bool(got.get("error") == SAME_CLASS.get(str(error), error))
    value = wanted["value"]
    through_float = any(isinstance(x.type, t.FloatType) for x in e.walk(expr))
    if (
        through_float
        and expr.type in (t.DOUBLE, t.FLOAT, t.STRING)
        and None not in (value, got["value"])
    ):
        a, b = float(got["value"]), float(value)  # Java before 19 prints more digits than needed
        if any(x.type == t.FLOAT for x in e.walk(expr)):
            a, b = float(np.float32(a)), float(np.float32(b))
        return (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )
    return bool(got["value"] == value)


def test_agrees_with_spark() -> None:
    assert {sql for sql, _ in CASES} == set(RECORDED), "run python -m tests.operators.record_spark"
    wrong = []
    for sql, expr in CASES:
        got, wanted = ours(expr), RECORDED[sql]
        if not agree(expr, got, wanted):
            wrong.append(f"{sql}: {got}, Spark {wanted}")
        if "type" in wanted and isinstance(expr, e.Call):
            kind = {"TIMESTAMP_NTZ": "timestamp_ntz"}.get(str(expr.type), str(expr.type).lower())
            if wanted["type"] != kind:
                wrong.append(f"{sql}: {expr.type}, Spark {wanted['type']}")
    assert not wrong, "\n".join(wrong)
