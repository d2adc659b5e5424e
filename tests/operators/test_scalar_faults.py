"""What a function raises that nobody foresaw is the error of the row whose value it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from operators import scalar
from operators.flight.column import Column
from operators.scalar.value import Node, Result
from planner.calculus import expr as e
from planner.calculus import types as t
from tests.operators.scalar_cases import call


def _faulty(fault: type[BaseException], kind: t.SqlType) -> Any:
    """A function that raises for a batch with a number above 9."""

    def build(call: e.Call, args: tuple[Node, ...]) -> Any:
        def run(columns: scalar.Fetch, n: int) -> Result:
            values, valid, errors = args[0].run(columns, n)
            if (np.asarray(values) > 9).any():
                raise fault
            return values, valid, errors

        return run

    return build


def test_the_fault_is_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scalar.BUILDERS, "rint", _faulty(OverflowError, t.BIGINT))
    expr = call("rint", e.column(0, t.BIGINT), type=t.BIGINT)
    numbers = np.array([1, 10, 3, 99, 5], np.int64)
    valid = np.array([True, True, False, True, True])
    compiled = scalar.compile(expr)
    column, errors = compiled.evaluate(lambda i: Column(t.BIGINT, numbers, valid), 5)
    assert errors is not None
    assert [errors.message(i) for i in range(5)] == [
        None, "[INTERNAL_ERROR] OverflowError", None, "[INTERNAL_ERROR] OverflowError", None,
    ]  # fmt: skip
    assert np.asarray(column.values)[[0, 4]].tolist() == [1, 5]
    assert column.valid is not None
    assert column.valid.tolist()[2] is False
    assert column.valid.tolist()[0] is True


@pytest.mark.parametrize("fault", [MemoryError, KeyboardInterrupt])
def test_what_is_no_fault_of_a_value_is_raised(
    monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
) -> None:
    monkeypatch.setitem(scalar.BUILDERS, "rint", _faulty(fault, t.BIGINT))
    compiled = scalar.compile(call("rint", e.column(0, t.BIGINT), type=t.BIGINT))
    with pytest.raises(fault):
        compiled.evaluate(lambda i: Column(t.BIGINT, np.array([1, 10], np.int64)), 2)
