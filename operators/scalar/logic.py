"""Three-valued logic and conditionals.

Every branch is evaluated on all rows; what decides between this and evaluating it only where the
query reaches it are errors, so those outside the rows reached are dropped. The result is the same
as of evaluating row by row from left to right.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from operators.flight.column import Bools, is_textual
from operators.scalar.comparison import select
from operators.scalar.value import (
    Builder,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    both_valid,
    failures,
    first_of,
    only_where,
    scalar_run,
    unary,
)
from planner.calculus.expr import Call


def _connective(call: Call, args: tuple[Node, ...]) -> Run:
    left, right = args[0].run, args[1].run
    conjunction = call.function == "and"

    def run(columns: Fetch, n: int) -> Result:
        a, a_valid, a_errors = left(columns, n)
        b, b_valid, b_errors = right(columns, n)
        values = a & b if conjunction else a | b
        errors = a_errors
        if b_errors is not None:
            settled = _known(a, a_valid, not conjunction)
            errors = first_of(a_errors, only_where(b_errors, ~settled))
        if a_valid is None and b_valid is None:
            return values, None, errors
        # Known where both sides are, or where one side alone settles it.
        valid = _known(a, a_valid, not conjunction) | _known(b, b_valid, not conjunction)
        both = both_valid(a_valid, b_valid)
        valid |= both  # type: ignore[arg-type]
        return values, valid, errors

    return run


def _known(values: Bools, valid: Bools | None, value: bool) -> Bools:
    """Rows that are certainly `value`."""
    same = values if value else ~values
    return same.copy() if valid is None else same & valid


def _not(call: Call, args: tuple[Node, ...]) -> Run:
    return unary(args[0], np.logical_not)


def _is_null(call: Call, args: tuple[Node, ...]) -> Run:
    inner = args[0].run

    def run(columns: Fetch, n: int) -> Result:
        _, valid, errors = inner(columns, n)
        return (np.zeros(n, np.bool_) if valid is None else ~valid), None, errors

    return run


def _branch(node: Node) -> Run:
    """The node's run, giving a scalar for a literal (which `select` takes)."""
    if not node.literal or node.value is None:
        return node.run
    if is_textual(node.type):
        kind = pa.string() if isinstance(node.value, str) else pa.binary()
        result: Result = (pa.scalar(node.value, kind), None, None)
        return lambda columns, n: result
    return scalar_run(node)


def _case(call: Call, args: tuple[Node, ...]) -> Run:
    whens = [args[i].run for i in range(0, len(args) - 1, 2)]
    thens = [_branch(args[i]) for i in range(1, len(args) - 1, 2)]
    otherwise = args[-1]

    def run(columns: Fetch, n: int) -> Result:
        errors: Errors | None = None
        taken: list[Bools] = []
        left: Bools | None = None  # rows that no branch has taken yet; None: all
        for when in whens:
            values, valid, own = when(columns, n)
            hit = values if valid is None else values & valid
            if left is not None:
                hit = hit & left
            if own is not None:
                errors = first_of(errors, only_where(own, left))
                hit = hit & ~own.mask
                left = ~own.mask if left is None else left & ~own.mask
            left = ~hit if left is None else left & ~hit
            taken.append(hit)
        values, valid, own = otherwise.run(columns, n)
        errors = first_of(errors, only_where(own, left))
        for hit, then in zip(reversed(taken), reversed(thens), strict=True):
            branch, branch_valid, own = then(columns, n)
            values = select(hit, branch, values)
            if valid is not None or branch_valid is not None:
                yes = True if branch_valid is None else branch_valid
                no = True if valid is None else valid
                valid = np.where(hit, yes, no)
            errors = first_of(errors, only_where(own, hit))
        return values, valid, errors

    return run


def _coalesce(call: Call, args: tuple[Node, ...]) -> Run:
    def run(columns: Fetch, n: int) -> Result:
        values, valid, errors = args[0].run(columns, n)
        for arg in args[1:]:
            if valid is None:
                break
            other, other_valid, own = arg.run(columns, n)
            if own is not None:
                errors = first_of(errors, only_where(own, ~valid))
            values = select(valid, values, other)
            valid = None if other_valid is None else valid | other_valid
        return values, valid, errors

    return run


def _raise_error(call: Call, args: tuple[Node, ...]) -> Run:
    """Every row is in error."""

    def run(columns: Fetch, n: int) -> Result:
        said, _, errors = args[0].run(columns, n)
        nothing = np.zeros(n, np.bool_)
        return nothing, nothing, first_of(errors, failures(n, range(n), said.to_pylist()))

    return run


BUILDERS: dict[str, Builder] = {
    "raise_error": _raise_error,
    "and": _connective,
    "or": _connective,
    "not": _not,
    "is_null": _is_null,
    "case": _case,
    "coalesce": _coalesce,
}
