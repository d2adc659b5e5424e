"""Functions that make rows: explode, posexplode, inline, stack, with their forms that keep rows
without any, in LATERAL VIEW, in FROM, and in a select list.

Each is the elements of one array (algebra.Explode): of a map its entries, of STACK the structs of
its rows. Source: Spark SQL, `generators` (Explode, PosExplode, Inline, Stack).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from planner.bind import nested
from planner.bind.library import json_fields
from planner.bind.nodes import generator_name, is_range
from planner.bind.report import Report
from planner.bind.scalars import Scalars
from planner.calculus import types
from planner.calculus.algebra import Explode, Plan, Project, identity
from planner.calculus.coercion import TypeMismatch, cast, unify
from planner.calculus.expr import Call, Column, Expr, Literal
from planner.calculus.types import ArrayType, Field, IntegerType, MapType, StructType


@dataclass(frozen=True, slots=True)
class Generated:
    """A plan that ends with the columns that a generator makes, from position `width` on."""

    plan: Plan
    width: int

    @property
    def names(self) -> list[str]:
        return [f.name for f in self.plan.schema[self.width :]]


def generate(
    plan: Plan, node: exp.Expression, binder: Scalars, report: Report, outer: bool = False
) -> Generated:
    """`plan`, each row with those that the generator at `node` makes of it. `binder` binds its
    arguments over the plan's columns; `outer`: rows without any stay, with NULLs."""
    name = "range" if is_range(node) else generator_name(node)
    if name is None:
        report.fail(
            node,
            "a generator is needed here",
            "Behind LATERAL stands what makes rows of a row.",
            "Write a generator: explode(…), posexplode(…), inline(…), stack(…) or json_tuple(…).",
        )
    report.check(node)
    args = [binder.bind(a) for a in node.expressions]
    try:
        array = _array(name, args)
    except TypeMismatch as mismatch:
        report.fail(node, mismatch.message, mismatch.detail, mismatch.hint)
    outer = outer or str(node.this).lower().endswith("_outer")
    width = len(plan.schema)
    field = Field("array", array.type, array.nullable)
    below = Project(plan, (*identity(plan.schema), array), (*plan.schema, field))
    exploded = Explode(below, width, outer)
    pos, element = identity(exploded.schema)[width + 1 :]
    kept = identity(plan.schema)
    made = _columns(name, args[0].type, pos, element)
    fields = tuple(Field(n, e.type, e.nullable) for n, e in made)
    exprs = (*kept, *(e for _, e in made))
    return Generated(Project(exploded, exprs, (*plan.schema, *fields)), width)


def _array(name: str, args: list[Expr]) -> Expr:
    """The array whose elements are the rows."""
    shown = name.upper()
    if name == "stack":
        return _stacked(args)
    if name == "json_tuple":
        return nested.array([json_fields(args)])
    if name == "range":
        return _numbers(args)
    if len(args) != 1:
        raise TypeMismatch(f"{shown} takes 1 argument, not {len(args)}")
    (arg,) = args
    match arg.type:
        case ArrayType(element=StructType()) if name == "inline":
            return arg
        case _ if name == "inline":
            raise TypeMismatch(f"INLINE needs an ARRAY of STRUCTs, not {arg.type}")
        case ArrayType():
            return arg
        case MapType() as kind:
            entry = StructType((Field("key", kind.key, False), Field("value", kind.value)))
            return Call("map_entries", (arg,), ArrayType(entry), arg.nullable)
        case other:
            raise TypeMismatch(f"{shown} needs an ARRAY or MAP, not {other}")


def _numbers(args: list[Expr]) -> Expr:
    """RANGE(end), or (start, end[, step[, partitions]]): BIGINTs from start on, before end."""
    given = [a.value for a in args if isinstance(a, Literal) and isinstance(a.type, IntegerType)]
    if not 1 <= len(args) <= 4 or len(given) < len(args):
        raise TypeMismatch("RANGE takes 1 to 4 integers, as literals")
    if given[2:3] == [0]:
        raise TypeMismatch("the step of RANGE cannot be 0")
    numbers = range(*(value for value in given[:3] if isinstance(value, int)))
    if not numbers:
        return cast(nested.array([]), ArrayType(types.BIGINT))
    ends = (numbers[0], numbers[-1], numbers.step)
    return nested.sequence([Literal(number, types.BIGINT) for number in ends])


def _stacked(args: list[Expr]) -> Expr:
    if len(args) < 2:
        raise TypeMismatch("STACK needs a number of rows, and values")
    count, *values = args
    rows = count.value if isinstance(count, Literal) else None
    if not isinstance(count.type, IntegerType) or not isinstance(rows, int) or rows < 1:
        raise TypeMismatch("STACK needs a number of rows, a constant above 0")
    columns = -(-len(values) // rows)
    by_column = [unify(values[c::columns], f"column {c} of STACK") for c in range(columns)]
    names = [f"col{c}" for c in range(columns)]
    made = []
    for r in range(rows):
        given = [
            c[r] if r < len(c) else cast(Literal(None, types.NULL), c[0].type) for c in by_column
        ]
        made.append(nested.struct(names, given))
    return nested.array(made)


def _columns(
    name: str, kind: types.SqlType, pos: Column, element: Column
) -> list[tuple[str, Expr]]:
    """What the rows have."""
    if name in ("inline", "stack", "json_tuple"):
        assert isinstance(element.type, StructType)
        return [(f.name, nested.field(element, f.name)) for f in element.type.fields]
    if name == "range":
        return [("id", element)]
    made: list[tuple[str, Expr]] = [("pos", pos)] if name == "posexplode" else []
    if isinstance(kind, MapType):
        return [
            *made,
            ("key", nested.field(element, "key")),
            ("value", nested.field(element, "value")),
        ]
    return [*made, ("col", element)]
