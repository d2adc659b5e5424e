"""What flows between compiled expressions: values, validity, errors; and how literals enter.

A compiled expression is a function `run(columns, n)` that returns `(values, valid, errors)`: the
first two as in `operators.flight.column`, without the Column around them (building one at every
node would cost more than the arithmetic). `valid` None means no NULL, `errors` None no failing row.

Invariant: a row that is NULL or in error carries a harmless value, so evaluation goes on over all
rows without a branch; an operator's own errors count on valid rows only, and an error of an
argument always wins over one of the operator itself.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.flight.column import Bools, Column, Ints, Values, flight_dtype, is_textual, text_type
from planner.calculus import types as t
from planner.calculus.expr import Call, Literal

Fetch: TypeAlias = Callable[[int], Column]
Physical: TypeAlias = bool | int | float | str | bytes | None

_EPOCH = datetime.date(1970, 1, 1)
_EXACT = decimal.Context(prec=100)
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Errors:
    """Rows that cannot be computed. `codes` int32[n]: 0 for none, else 1 + a place in `messages`.

    A message is a function of the row's values alone.
    """

    codes: npt.NDArray[np.int32]
    messages: tuple[str, ...]

    @property
    def mask(self) -> Bools:
        return np.not_equal(self.codes, 0)

    def message(self, row: int) -> str | None:
        code = int(self.codes[row])
        return self.messages[code - 1] if code else None

    def take(self, rows: Ints | Bools) -> Errors | None:
        """The errors of the rows at these positions, or under this mask; None if there are none."""
        codes = self.codes[rows]
        return Errors(codes, self.messages) if codes.any() else None


Result: TypeAlias = tuple[Values, Bools | None, Errors | None]
Run: TypeAlias = Callable[[Fetch, int], Result]


@dataclass(frozen=True, slots=True)
class Node:
    """A compiled expression. If `literal`, its value on every row is `value` in physical form: the
    unscaled int of a decimal, days of a date, None for NULL; otherwise `value` means nothing.
    """

    type: t.SqlType
    run: Run
    literal: bool = False
    value: Physical = None


#: A cast: (values, rows that became NULL or None, errors) from (values, valid, n).
Conversion: TypeAlias = Callable[
    [Any, Bools | None, int], tuple[Values, Bools | None, Errors | None]
]
Builder: TypeAlias = Callable[[Call, tuple[Node, ...]], Run]


def failures(n: int, rows: Iterable[int], messages: Iterable[str]) -> Errors | None:
    """Errors of `n` rows from the failing rows and their messages; equal messages stored once."""
    codes = np.zeros(n, np.int32)
    known: dict[str, int] = {}
    for row, message in zip(rows, messages, strict=True):
        codes[row] = known.setdefault(message, len(known) + 1)
    return Errors(codes, tuple(known)) if known else None


def first_of(first: Errors | None, then: Errors | None) -> Errors | None:
    """Both; where a row fails twice, `first` has it."""
    if first is None:
        return then
    if then is None:
        return first
    shifted = np.where(then.codes != 0, then.codes + len(first.messages), 0)
    codes = np.where(first.codes != 0, first.codes, shifted).astype(np.int32)
    return Errors(codes, first.messages + then.messages)


def joined(parts: Iterable[tuple[Errors | None, int]]) -> Errors | None:
    """The errors of batches one after the other, each with its number of rows."""
    messages: list[str] = []
    codes: list[npt.NDArray[np.int32]] = []
    for errors, n in parts:
        if errors is None:
            codes.append(np.zeros(n, np.int32))
            continue
        codes.append(np.where(errors.codes != 0, errors.codes + len(messages), 0))
        messages += errors.messages
    return Errors(np.concatenate(codes).astype(np.int32), tuple(messages)) if messages else None


def only_where(errors: Errors | None, rows: Bools | None) -> Errors | None:
    """Errors outside `rows` dropped (None: keep all)."""
    if errors is None or rows is None:
        return errors
    codes = np.where(rows, errors.codes, 0).astype(np.int32)
    return Errors(codes, errors.messages) if codes.any() else None


def both_valid(left: Bools | None, right: Bools | None) -> Bools | None:
    if left is None:
        return right
    if right is None:
        return left
    return left & right


def unary(arg: Node, op: Callable[[Any], Values]) -> Run:
    """A function that cannot fail, NULL on NULL."""
    inner = arg.run

    def run(columns: Fetch, n: int) -> Result:
        a, valid, errors = inner(columns, n)
        return op(a), valid, errors

    return run


def unary_checked(
    arg: Node, op: Callable[[Any, Bools | None, int], tuple[Values, Errors | None]]
) -> Run:
    """A function that may fail: `op(values, valid, n)` gives values and errors on valid rows."""
    inner = arg.run

    def run(columns: Fetch, n: int) -> Result:
        a, valid, errors = inner(columns, n)
        values, own = op(a, valid, n)
        return values, valid, own if errors is None else first_of(errors, own)

    return run


def binary(left: Node, right: Node, op: Callable[[Any, Any], Values], scalars: bool = True) -> Run:
    """A function that cannot fail, NULL on NULL. A literal comes to `op` as a scalar if it may."""
    run_left = scalar_run(left) if scalars and not right.literal else left.run
    run_right = scalar_run(right) if scalars and not left.literal else right.run

    def run(columns: Fetch, n: int) -> Result:
        a, left_valid, left_errors = run_left(columns, n)
        b, right_valid, right_errors = run_right(columns, n)
        errors = inherited(left_valid, left_errors, right_errors)
        return op(a, b), both_valid(left_valid, right_valid), errors

    return run


def binary_checked(
    left: Node,
    right: Node,
    op: Callable[[Any, Any, Bools | None, int], tuple[Values, Errors | None]],
    right_first: bool = False,
) -> Run:
    """A function that may fail, NULL on NULL: `op(a, b, valid, n)`, arrays of n rows.

    `right_first`: Spark computes the right argument first, and the left one where it is not NULL.
    """
    run_left, run_right = left.run, right.run

    def run(columns: Fetch, n: int) -> Result:
        a, left_valid, left_errors = run_left(columns, n)
        b, right_valid, right_errors = run_right(columns, n)
        if right_first:
            errors = inherited(right_valid, right_errors, left_errors)
        else:
            errors = inherited(left_valid, left_errors, right_errors)
        valid = both_valid(left_valid, right_valid)
        values, own = op(a, b, valid, n)
        return values, valid, own if errors is None else first_of(errors, own)

    return run


def inherited(valid: Bools | None, first: Errors | None, second: Errors | None) -> Errors | None:
    """Errors of two arguments: Spark does not compute the second where the first is NULL (`valid`
    says where it is not)."""
    if second is None:
        return first
    return first_of(first, only_where(second, valid))


def scalar_run(node: Node) -> Run:
    if not node.literal or node.value is None or is_textual(node.type) or _is_wide(node):
        return node.run
    scalar = scalar_of(node)
    result: Result = (scalar, None, None)
    return lambda columns, n: result


def scalar_of(node: Node) -> Any:
    """The NumPy scalar of a literal that is neither NULL nor text nor wide."""
    return flight_dtype(node.type).type(node.value)


def _is_wide(node: Node) -> bool:
    return isinstance(node.type, t.DecimalType) and not fits_word(int(node.value or 0))


def fits_word(value: int) -> bool:
    return -(1 << 63) <= value < (1 << 63)


def physical(literal: Literal) -> Physical:
    """The value of a literal as columns hold it."""
    value = literal.value
    match literal.type:
        case _ if value is None:
            return None
        case t.DecimalType(scale=scale):
            return int(decimal.Decimal(value).scaleb(scale, _EXACT))  # type: ignore[arg-type]
        case t.DateType():
            return (value - _EPOCH).days if isinstance(value, datetime.date) else None
        case _:
            return value  # type: ignore[return-value]


def constant(kind: t.SqlType, value: Physical) -> Node:
    """A node that has one value on every row. Its arrays are made once and handed out in slices."""
    kept: list[Any] = [_filled(kind, value, 1024), np.zeros(1024, np.bool_)]

    def run(columns: Fetch, n: int) -> Result:
        if len(kept[0]) < n:
            kept[:] = [_filled(kind, value, 2 * n), np.zeros(2 * n, np.bool_)]
        values, invalid = kept
        return values[:n], invalid[:n] if value is None else None, None

    return Node(kind, run, True, value)


def _filled(kind: t.SqlType, value: Physical, n: int) -> Values:
    if is_textual(kind):
        blank: str | bytes = "" if isinstance(kind, t.StringType) else b""
        return pa.repeat(pa.scalar(blank if value is None else value, text_type(kind)), n)
    if isinstance(kind, t.DecimalType) and not fits_word(int(value or 0)):
        number = int(value or 0)
        low = np.array(number & _WORD, np.uint64).view(np.int64)
        return np.tile(np.array([low, number >> 64], np.int64), (n, 1))
    return np.full(n, 0 if value is None else value, flight_dtype(kind))


def element(kind: t.SqlType, values: Values, row: int) -> Physical:
    """One value in physical form (see Node)."""
    if isinstance(values, np.ndarray):
        if values.ndim == 2:
            return (int(values[row, 1]) << 64) | (int(values[row, 0]) & _WORD)
        return values[row].item()  # type: ignore[no-any-return]
    return values[row].as_py()  # type: ignore[no-any-return]


def display(kind: t.SqlType, value: Physical) -> str:
    """A value in an error message."""
    if isinstance(kind, t.DecimalType):
        return plain_decimal(int(value or 0), kind.scale)
    if isinstance(value, str):
        return f"'{value}'"
    return str(value)


def plain_decimal(unscaled: int, scale: int) -> str:
    """Java's BigDecimal.toPlainString."""
    if scale == 0:
        return str(unscaled)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"
