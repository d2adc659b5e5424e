"""Functions of lambdas: transform, filter, exists, aggregate and the like.

A lambda's body is bound by the binder of its clause, which knows its variables besides all names
around it; it becomes an argument of the call, over `Parameter`s (planner.calculus.expr). Source:
Spark SQL, `higherOrderFunctions`; tests/sql/function_answers.json has its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlglot import exp

from planner.bind.report import Report
from planner.calculus import functions
from planner.calculus.coercion import TypeMismatch, cast, common_type
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.types import BOOLEAN, INT, ArrayType, MapType, SqlType, holds

#: Variables of a lambda: the type of each, and whether it may be NULL.
Variables = Sequence[tuple[SqlType, bool]]


class Binder(Protocol):
    """What these functions need of the binder of their clause."""

    report: Report

    @property
    def base(self) -> Literal:
        """The number of the first variable of a lambda that is written here."""

    def bind(self, node: exp.Expression) -> Expr:
        """The bound argument."""

    def body(self, node: exp.Expression, kinds: Variables, least: int) -> Expr:
        """The body of a lambda of `least` variables, or as many as there are types."""


_Args = Sequence[exp.Expression]


def _array(binder: Binder, node: exp.Expression, name: str) -> tuple[Expr, SqlType]:
    value = binder.bind(node)
    if not isinstance(value.type, ArrayType):
        raise TypeMismatch(f"{name} needs an ARRAY, not {value.type}")
    return value, value.type.element


def _map(binder: Binder, node: exp.Expression, name: str) -> tuple[Expr, MapType]:
    value = binder.bind(node)
    if not isinstance(value.type, MapType):
        raise TypeMismatch(f"{name} needs a MAP, not {value.type}")
    return value, value.type


def _predicate(body: Expr, name: str) -> Expr:
    if body.type != BOOLEAN:
        raise TypeMismatch(f"the lambda of {name} must be BOOLEAN, not {body.type}")
    return body


def _transform(binder: Binder, args: _Args) -> Expr:
    array, element = _array(binder, args[0], "TRANSFORM")
    body = binder.body(args[1], [(element, True), (INT, False)], 1)
    parts = (array, body, binder.base)
    return Call("transform", parts, ArrayType(body.type), array.nullable)


def _filter(binder: Binder, args: _Args) -> Expr:
    array, element = _array(binder, args[0], "FILTER")
    body = _predicate(binder.body(args[1], [(element, True), (INT, False)], 1), "FILTER")
    return Call("filter", (array, body, binder.base), array.type, array.nullable)


def _quantified(function: str) -> Callable[[Binder, _Args], Expr]:
    name = function.upper()

    def bind(binder: Binder, args: _Args) -> Expr:
        array, element = _array(binder, args[0], name)
        body = _predicate(binder.body(args[1], [(element, True)], 1), name)
        nullable = array.nullable or body.nullable
        return Call(function, (array, body, binder.base), BOOLEAN, nullable)

    return bind


def _aggregate(binder: Binder, args: _Args) -> Expr:
    array, element = _array(binder, args[0], "AGGREGATE")
    start = binder.bind(args[1])
    merged = binder.body(args[2], [(start.type, True), (element, True)], 2)
    if merged.type != start.type:
        raise TypeMismatch(
            f"AGGREGATE begins with {start.type}, and its lambda gives {merged.type}",
            hint="Cast one of them.",
        )
    last: exp.Expression = args[3] if len(args) > 3 else _SAME
    finished = binder.body(last, [(start.type, True)], 1)
    parts = (array, start, merged, finished, binder.base)
    return Call("aggregate", parts, finished.type, True)


#: The lambda that gives its argument.
_SAME = exp.Lambda(this=exp.to_identifier("x"), expressions=[exp.to_identifier("x")])


def _zip_with(binder: Binder, args: _Args) -> Expr:
    (left, first), (right, second) = (_array(binder, a, "ZIP_WITH") for a in args[:2])
    body = binder.body(args[2], [(first, True), (second, True)], 2)
    nullable = left.nullable or right.nullable
    return Call("zip_with", (left, right, body, binder.base), ArrayType(body.type), nullable)


def _array_sort(binder: Binder, args: _Args) -> Expr:
    array, element = _array(binder, args[0], "ARRAY_SORT")
    if len(args) == 1:
        functions.refuse_maps(element, "ARRAY_SORT")
        return Call("array_sort", (array,), array.type, array.nullable)
    body = binder.body(args[1], [(element, True), (element, True)], 2)
    if body.type != INT:
        raise TypeMismatch(f"the lambda of ARRAY_SORT must be INT, not {body.type}")
    return Call("array_sort", (array, body, binder.base), array.type, array.nullable)


def _map_filter(binder: Binder, args: _Args) -> Expr:
    value, kind = _map(binder, args[0], "MAP_FILTER")
    body = binder.body(args[1], [(kind.key, False), (kind.value, True)], 2)
    parts = (value, _predicate(body, "MAP_FILTER"), binder.base)
    return Call("map_filter", parts, kind, value.nullable)


def _transform_keys(binder: Binder, args: _Args) -> Expr:
    value, kind = _map(binder, args[0], "TRANSFORM_KEYS")
    body = binder.body(args[1], [(kind.key, False), (kind.value, True)], 2)
    if holds(body.type, MapType):
        raise TypeMismatch("a key of a map holds no map")
    result = MapType(body.type, kind.value)
    return Call("transform_keys", (value, body, binder.base), result, value.nullable)


def _transform_values(binder: Binder, args: _Args) -> Expr:
    value, kind = _map(binder, args[0], "TRANSFORM_VALUES")
    body = binder.body(args[1], [(kind.key, False), (kind.value, True)], 2)
    result = MapType(kind.key, body.type)
    return Call("transform_values", (value, body, binder.base), result, value.nullable)


def _map_zip_with(binder: Binder, args: _Args) -> Expr:
    (left, first), (right, second) = (_map(binder, a, "MAP_ZIP_WITH") for a in args[:2])
    key = common_type(first.key, second.key)
    if key is None:
        raise TypeMismatch(
            f"MAP_ZIP_WITH needs keys of one type, not {first.key} and {second.key}",
            hint="Cast one of the maps.",
        )
    maps = (cast(left, MapType(key, first.value)), cast(right, MapType(key, second.value)))
    body = binder.body(args[2], [(key, False), (first.value, True), (second.value, True)], 3)
    nullable = left.nullable or right.nullable
    return Call("map_zip_with", (*maps, body, binder.base), MapType(key, body.type), nullable)


#: name -> fewest arguments, most, how it is bound.
LAMBDAS: dict[str, tuple[int, int, Callable[[Binder, _Args], Expr]]] = {
    "transform": (2, 2, _transform),
    "filter": (2, 2, _filter),
    "exists": (2, 2, _quantified("exists")),
    "forall": (2, 2, _quantified("forall")),
    "aggregate": (3, 4, _aggregate),
    "reduce": (3, 4, _aggregate),
    "zip_with": (3, 3, _zip_with),
    "array_sort": (1, 2, _array_sort),
    "map_filter": (2, 2, _map_filter),
    "transform_keys": (2, 2, _transform_keys),
    "transform_values": (2, 2, _transform_values),
    "map_zip_with": (3, 3, _map_zip_with),
}
