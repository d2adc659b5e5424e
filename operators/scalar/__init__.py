"""Scalar expressions over batches of columns: compiled once, evaluated many times.

`compile` turns a bound expression into closures over NumPy and Arrow when a plan is installed, and
decides there whatever the types decide: which overflow checks are needed, the shape of a LIKE
pattern, the value of constant subexpressions. `Compiled.evaluate` then costs a few microseconds per
node and batch. Columns are asked for by need, so what no expression reads is never gathered.

Errors are data: a row that Spark's ANSI mode would fail on is marked with a message, and evaluation
goes on. A subexpression that fails counts only on rows where the query evaluates it: the right side
of AND where the left is not FALSE, a CASE branch where it is taken.

Whatever else a function raises is caught, and looked for row by row: it becomes that row's error.

Invariant: the result on a row, error included, is a function of that row's values alone; it does
not depend on the batch around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from operators.flight.column import Column, Ints, concat, narrow, null_column
from operators.scalar import (
    arithmetic,
    attempts,
    bits,
    casts,
    codes,
    comparison,
    csv_values,
    dates,
    edits,
    formats,
    hashes,
    instants,
    intervals,
    json_texts,
    json_values,
    lambdas,
    lists,
    logic,
    maps,
    mathematics,
    number_texts,
    numbers,
    regexps,
    strings,
    templates,
    urls,
    user,
    utf8,
    vectors,
    wordings,
    xpaths,
)
from operators.scalar.value import (
    Builder,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    constant,
    element,
    failures,
    joined,
    physical,
)
from planner.calculus import types as t
from planner.calculus.expr import Call, Expr, Literal, Outer, Parameter
from planner.calculus.expr import Column as ColumnExpr
from planner.errors import FunctionError

__all__ = ["BUILDERS", "Compiled", "Errors", "Fetch", "Value", "compile", "literals"]

Value: TypeAlias = tuple[Column, Errors | None]

#: How to compile each function of planner.calculus.primitives.FUNCTIONS.
BUILDERS: dict[str, Builder] = {
    **arithmetic.BUILDERS,
    **comparison.BUILDERS,
    **logic.BUILDERS,
    **casts.BUILDERS,
    **strings.BUILDERS,
    **edits.BUILDERS,
    **numbers.BUILDERS,
    **number_texts.BUILDERS,
    **dates.BUILDERS,
    **formats.BUILDERS,
    **mathematics.BUILDERS,
    **bits.BUILDERS,
    **attempts.BUILDERS,
    **codes.BUILDERS,
    **wordings.BUILDERS,
    **regexps.BUILDERS,
    **instants.BUILDERS,
    **intervals.BUILDERS,
    **lists.BUILDERS,
    **maps.BUILDERS,
    **lambdas.BUILDERS,
    **json_texts.BUILDERS,
    **json_values.BUILDERS,
    **csv_values.BUILDERS,
    **templates.BUILDERS,
    **urls.BUILDERS,
    **utf8.BUILDERS,
    **hashes.BUILDERS,
    **vectors.BUILDERS,
    **xpaths.BUILDERS,
    **user.BUILDERS,
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression ready to run. `literal`: it has the same value on every row."""

    type: t.SqlType
    literal: bool
    run: Run

    def evaluate(self, columns: Fetch, n: int) -> Value:
        """The expression on `n` rows; `columns(i)` gives column i of the input, n rows long.

        Returns: the values, NULL where SQL says so, and the rows in error (None: none), whose
        values mean nothing. Arrays may be the input's own, and are not to be written to.
        """
        with quiet():
            return self.computed(columns, n)

    def computed(self, columns: Fetch, n: int) -> Value:
        """`evaluate`, where `quiet` holds already."""
        try:
            return self._run(columns, n)
        except (MemoryError, FunctionError):
            raise
        except Exception:
            return self._apart(columns, n)

    def _run(self, columns: Fetch, n: int) -> Value:
        values, valid, errors = self.run(columns, n)
        return Column(self.type, values, valid), errors

    def _apart(self, columns: Fetch, n: int) -> Value:
        """The rows in two halves, down to the row that raises, which becomes its error.

        No value of a row may end a step: what a function raises that its author did not foresee is
        a fault of ours, but the row can leave, and the error leaves with it. What is not raised
        again is not the row's.
        """
        if n == 0:
            return null_column(self.type, 0), None
        if n == 1:
            try:
                return self._run(columns, 1)
            except (MemoryError, FunctionError):
                raise
            except Exception as fault:
                name = type(fault).__name__
                return null_column(self.type, 1), failures(1, [0], [f"[INTERNAL_ERROR] {name}"])
        parts = []
        for rows in np.split(np.arange(n), [n // 2]):
            taken: dict[int, Column] = {}

            def part(i: int, rows: Ints = rows, taken: dict[int, Column] = taken) -> Column:
                if i not in taken:
                    taken[i] = columns(i).take(rows)
                return taken[i]

            parts.append((*self.computed(part, len(rows)), len(rows)))
        return concat([column for column, _, _ in parts]), joined([e[1:] for e in parts])


def quiet() -> AbstractContextManager[None]:
    """NumPy does not warn: what has no value is found by looking, row by row."""
    return np.errstate(all="ignore")


def compile(expr: Expr) -> Compiled:
    """Prepare an expression for evaluation.

    Raises: UnsupportedError for casts and regular expressions that cannot be evaluated, BindError
    for an ill-formed LIKE pattern; ValueError if the expression breaks the rules of
    planner.calculus.expr.
    """
    node = _node(expr)
    return Compiled(node.type, node.literal, node.run)


def literals(values: Sequence[Literal]) -> Column:
    """One or more literals of one type, as a column."""
    return concat([compile(value).evaluate(_no_column, 1)[0] for value in values])


def _no_column(index: int) -> Column:
    raise LookupError(f"a literal reads no column {index}")


def _node(expr: Expr) -> Node:
    match expr:
        case ColumnExpr():
            return Node(expr.type, _reader(expr.index, expr.type))
        case Literal():
            return constant(expr.type, physical(expr))
        case Call():
            args = tuple(_node(arg) for arg in expr.args)
            if args and all(arg.literal for arg in args):
                return _folded(expr, args)
            return Node(expr.type, BUILDERS[expr.function](expr, args))
        case Parameter():
            return Node(expr.type, _reader(-1 - expr.number, expr.type))
        case Outer():
            raise ValueError(f"a column of an enclosing query is left: {expr.name}")


def _reader(index: int, kind: t.SqlType) -> Run:
    def run(columns: Fetch, n: int) -> Result:
        column = columns(index)
        return column.values, column.valid, None

    def run_narrow(columns: Fetch, n: int) -> Result:
        # Stored sums are wide by their type; nearly all fit one word, where arithmetic is fast.
        column = columns(index)
        column = narrow(column) or column
        return column.values, column.valid, None

    may_be_wide = isinstance(kind, t.DecimalType) and not kind.narrow
    return run_narrow if may_be_wide else run


def _folded(call: Call, args: tuple[Node, ...]) -> Node:
    """A call over constants: computed now, unless it fails: only a row that is there may fail."""
    run = BUILDERS[call.function](call, args)
    column, errors = Compiled(call.type, True, run).evaluate(_no_columns, 1)
    if errors is not None:
        return Node(call.type, run)
    if column.valid is not None and not column.valid[0]:
        return constant(call.type, None)
    return constant(call.type, element(call.type, column.values, 0))


def _no_columns(index: int) -> Column:
    raise IndexError(index)
