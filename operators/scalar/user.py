"""Functions of the user: Python over Arrow arrays, one value for each row.

A plan names a function by an id, and this process knows the function of an id from `know` on: that
of a session that registered it, or of a Spark task, to which it travels by Spark's own pickling. A
plan whose function is not known here cannot run, which is no row's fault: `FunctionError`.

Law: the result on a row depends on that row's values alone, so a function is called with rows as
they come, and in parts where it raises, down to the rows that it raises for. It is never called
with one row: what gives one value for all rows is found out whatever the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from operators.flight import arrow
from operators.flight.column import Column, concat, null_column
from operators.scalar.value import (
    Builder,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    failures,
    first_of,
    joined,
)
from planner.calculus import types as t
from planner.calculus.expr import Call
from planner.errors import DataError, FunctionError

#: Takes an Arrow array for each argument, all of one length, and gives one of that length.
Function: TypeAlias = Callable[..., Any]

_KNOWN: dict[str, Function] = {}
#: By id why a function cannot be had here.
_MISSED: dict[str, str] = {}
_MOST_SAID = 200


def know(id: str, function: Function) -> None:
    """Plans with the id call the function, from now on, in this process."""
    _KNOWN[id] = function


def miss(id: str, why: str) -> None:
    """Plans with the id cannot call the function in this process."""
    _MISSED[id] = why


def is_known(id: str) -> bool:
    return id in _KNOWN


def every() -> Mapping[str, Function]:
    """The functions that are known, by id."""
    return dict(_KNOWN)


def known(id: str, name: str) -> Function:
    """Raises: FunctionError if nobody has registered it in this process."""
    function = _KNOWN.get(id)
    if function is None and id in _MISSED:
        raise FunctionError(
            f'the function "{name}" cannot be read in this process',
            detail=_MISSED[id],
            hint="Install the module that it is of where Spark's executors run.",
        )
    if function is None:
        raise FunctionError(
            f'the function "{name}" is not registered',
            detail="A store keeps the names and types of functions, and no code.",
            hint=f'Call db.udf("{name}", function, type), or open the store with '
            f'sqlview.connect(path, udfs={{"{name}": function}}).',
        )
    return function


def _build(call: Call, args: tuple[Node, ...]) -> Run:
    name, id = str(args[0].value), str(args[1].value)
    given = args[2:]
    field = t.Field(name, call.type)

    def run(columns: Fetch, n: int) -> Result:
        function = known(id, name)
        errors: Errors | None = None
        arrays = []
        for node in given:
            values, valid, failed = node.run(columns, n)
            arrays.append(arrow.from_column(Column(node.type, values, valid), node.type))
            errors = first_of(errors, failed)
        column, raised = _called(function, field, arrays, n)
        return column.values, column.valid, first_of(errors, raised)

    return run


def _called(
    function: Function, field: t.Field, arrays: list[pa.Array], n: int
) -> tuple[Column, Errors | None]:
    if n == 0:
        return null_column(field.type, 0), None
    try:
        whole = arrays if n > 1 else [pa.concat_arrays([a, a]) for a in arrays]
        made = function(*whole) if arrays else function(max(n, 2))
    except MemoryError:
        raise
    except Exception as error:
        if n == 1:
            said = f"{type(error).__name__}: {error}"[:_MOST_SAID]
            return null_column(field.type, 1), failures(1, [0], [_message(field, "raised", said)])
        middle = n // 2
        parts = [
            (*_called(function, field, [a.slice(start, rows) for a in arrays], rows), rows)
            for start, rows in ((0, middle), (middle, n - middle))
        ]
        return concat([c for c, _, _ in parts]), joined([(e, rows) for _, e, rows in parts])
    said, column = _taken(made, field, max(n, 2))
    if column is None:
        return null_column(field.type, n), failures(n, range(n), [said] * n)
    return column if n > 1 else column.take(np.array([0])), None


def _taken(made: Any, field: t.Field, n: int) -> tuple[str, Column | None]:
    """What a function returned for `n` rows, or what is wrong with it."""
    if isinstance(made, pa.ChunkedArray):
        made = made.combine_chunks()
    if not isinstance(made, pa.Array):
        kind = f"{type(made).__module__}.{type(made).__qualname__}"
        return _message(field, "returned", f"a {kind}, and is to return a pyarrow.Array"), None
    if len(made) != n:
        return _message(field, "returned", "another number of values than there are rows"), None
    try:
        return "", arrow.to_column(made, field)
    except DataError:
        what = f"values of the type {made.type} that are no {field.type}"
        return _message(field, "returned", what), None


def _message(field: t.Field, verb: str, said: str) -> str:
    return f"[USER_FUNCTION] {field.name} {verb} {said}"


BUILDERS: dict[str, Builder] = {"user": _build}
