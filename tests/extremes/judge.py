"""Whether an answer of the engine is Spark's, and what differs on purpose."""

from __future__ import annotations

import re

import numpy as np

from tests.extremes.engine import same
from tests.extremes.spark import Answer

#: Spark's error class -> ours, where Spark has more than one for the same thing.
SAME_CLASS = {
    "BINARY_ARITHMETIC_OVERFLOW": "ARITHMETIC_OVERFLOW",
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": "NUMERIC_VALUE_OUT_OF_RANGE",
}
#: What Java throws where it is not Spark that checks -> ours is one of these.
_OVERFLOWS = ("ARITHMETIC_OVERFLOW", "CAST_OVERFLOW", "DATETIME_OVERFLOW")
_FLOAT_COLUMN = re.compile(r"\bf2?\b")
#: Doubles and floats in texts: Java prints more digits than there need be before its version 19.
_DOUBLE = re.compile(r"[0-9]+\.([0-9]{15,}|[0-9]{7,9})(E-?[0-9]+)?")
#: Functions of mathematical libraries, whose last digits depend on the library.
_ROUNDED = re.compile(r"\b(exp|expm1|ln|log\w*|power|cbrt|degrees|radians)\(")
_DIGITS = 1e-14


def difference(expression: str, kind: str, ours: Answer, sparks: Answer) -> str | None:
    """What differs, None if nothing does that should not."""
    if sparks is not None and sparks[0] == "!":
        name = sparks[1:].split(".")[0]
        wanted = SAME_CLASS.get(name, name)
        if ours is not None and ours[0] == "!":
            own = ours[1:].split(".")[0]
            if own == wanted or (wanted == "ArithmeticException" and own in _OVERFLOWS):
                return None
    elif same(ours, sparks, kind, _DIGITS if _ROUNDED.search(expression) else 0.0):
        return None
    if deviation(expression, ours, sparks) is not None:
        return None
    return f"{ours!r} where Spark has {sparks!r}"


def deviation(expression: str, ours: Answer, sparks: Answer) -> str | None:
    """Why the answers differ on purpose."""
    if ours == "!TEXT_TOO_LONG":
        return "a text of more than 2**24 characters is an error"
    single = _FLOAT_COLUMN.search(expression) is not None
    if ours is not None and sparks is not None and _plain(ours, single) == _plain(sparks, single):
        return "doubles are printed with the fewest digits that denote them, as since Java 19"
    if sparks == "~" and ours == "!CAST_INVALID_INPUT":
        return "Spark lets bytes that are no UTF-8 be a string; strings of views are UTF-8"
    return None


def _plain(answer: str, single: bool) -> str:
    """`single`: whether numbers of few digits may be those of a FLOAT."""
    return _DOUBLE.sub(lambda found: _shortest(found[0], single), answer)


def _shortest(number: str, single: bool) -> str:
    if len(number.partition("E")[0]) >= 17:
        return repr(float(number))
    return repr(float(np.float32(number))) if single else number
