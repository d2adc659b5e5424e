"""TRY_ADD and the like: NULL where the operator fails. What fails in an argument fails still."""

from __future__ import annotations

import numpy as np

from operators.flight.column import Column
from operators.scalar import arithmetic
from operators.scalar.value import Builder, Fetch, Node, Result, Run, both_valid, inherited
from planner.calculus.expr import Call

_OPERATORS = ("add", "subtract", "multiply", "divide", "remainder")


def _attempt(call: Call, args: tuple[Node, ...]) -> Run:
    operator = call.function.removeprefix("try_")
    plain = Call(operator, call.args, call.type, True)
    operands = tuple(_given(i, arg) for i, arg in enumerate(args))
    compute = arithmetic.BUILDERS[operator](plain, operands)

    def run(columns: Fetch, n: int) -> Result:
        (a, left_valid, left_errors), (b, right_valid, right_errors) = (
            arg.run(columns, n) for arg in args
        )
        given = (Column(args[0].type, a, left_valid), Column(args[1].type, b, right_valid))
        values, valid, own = compute(given.__getitem__, n)
        if own is not None:
            valid = both_valid(valid, np.equal(own.codes, 0))
        return values, valid, inherited(left_valid, left_errors, right_errors)

    return run


def _given(index: int, arg: Node) -> Node:
    """An operand whose values have been computed."""
    if arg.literal:
        return arg

    def run(columns: Fetch, n: int) -> Result:
        column = columns(index)
        return column.values, column.valid, None

    return Node(arg.type, run)


BUILDERS: dict[str, Builder] = {f"try_{operator}": _attempt for operator in _OPERATORS}
