"""Subqueries in expressions: EXISTS, IN, ANY, ALL and scalar subqueries, each as an Apply.

While the clauses of a query are bound, a subquery is only collected, and its value is a column of
the *wide row* at `FIRST` or beyond: it is not yet known whether its Apply stands below or above an
aggregation. `Placement` then takes expressions from the wide row to a plan, which it extends by an
Apply for each subquery that they read. Equal subqueries are one, and so is their Apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.bind.outer import Environment, deeper, move_outer, outer_columns
from planner.bind.report import Refusal, Report
from planner.bind.resolve import Resolver
from planner.calculus import coercion, functions
from planner.calculus.algebra import Apply, Filter, Plan, Project, identity
from planner.calculus.coercion import TypeMismatch
from planner.calculus.expr import Column, Expr, Literal, columns_used, transform
from planner.calculus.functions import INVERSE
from planner.calculus.types import BOOLEAN, Field, NullType, Schema, SqlType

#: The first column of the wide row that is a subquery's value.
FIRST = 1 << 30

#: Binds a query as a plan; VOID columns stay.
BindQuery = Callable[[exp.Expression, Environment], Plan]


@dataclass(frozen=True, slots=True)
class _Subquery:
    """An Apply without its input. Operands and outer references are over the wide row."""

    plan: Plan
    kind: str
    name: str
    operands: tuple[Expr, ...]
    comparison: str


class Subqueries:
    """Collects the subqueries of one clause, or of all clauses that share a wide row."""

    def __init__(self, bind_query: BindQuery, environment: Environment, report: Report) -> None:
        self._bind_query = bind_query
        self._environment = environment
        self._report = report
        self._found: list[_Subquery] = []
        self._references: dict[int, Column] = {}

    def __getitem__(self, column: int) -> _Subquery:
        return self._found[column - FIRST]

    def exists(self, node: exp.Expression, resolver: Resolver) -> Expr:
        plan = self._bind(node, resolver)
        typed = cast_columns(plan, [_stored(f.type) for f in plan.schema])
        return self._add(_Subquery(typed, "exists", "exists", (), ""), BOOLEAN, False)

    def scalar(self, node: exp.Expression, resolver: Resolver) -> Expr:
        plan = self._bind(node, resolver)
        if len(plan.schema) != 1:
            self._report.fail(
                node,
                f"a scalar subquery has one column, not {len(plan.schema)}",
                hint="Select one value.",
            )
        field = plan.schema[0]
        if isinstance(field.type, NullType):
            return Literal(None, field.type)
        return self._add(_Subquery(plan, "scalar", field.name, (), ""), field.type, True)

    def any(
        self,
        comparison: str,
        operands: tuple[Expr, ...],
        node: exp.Expression,
        resolver: Resolver,
        what: str,
    ) -> Expr:
        """operands `comparison` ANY (node). Raises: TypeMismatch where they cannot be compared."""
        plan = self._bind(node, resolver)
        if len(plan.schema) != len(operands):
            self._report.fail(
                node,
                f"{what} compares {_values(len(operands))} with a subquery of "
                f"{_columns(len(plan.schema))}",
            )
        kinds: list[SqlType] = []
        for operand, field in zip(operands, plan.schema, strict=True):
            kind = coercion.common_type(operand.type, field.type)
            if kind is None:
                raise TypeMismatch(
                    f"{what} compares {operand.type} with {field.type}", hint="Cast one of them."
                )
            kinds.append(_stored(kind))
        cast = tuple(coercion.cast(o, k) for o, k in zip(operands, kinds, strict=True))
        found = _Subquery(cast_columns(plan, kinds), "any", "any", cast, comparison)
        return self._add(found, BOOLEAN, True)

    def all(
        self,
        comparison: str,
        operand: Expr,
        node: exp.Expression,
        resolver: Resolver,
        what: str,
    ) -> Expr:
        """x > ALL s is NOT (x <= ANY s)."""
        inverse = INVERSE[comparison]
        return functions.negation(self.any(inverse, (operand,), node, resolver, what))

    def further_in(self) -> Subqueries:
        """The same, where one more row is around the clause than when they were bound."""
        moved = Subqueries(self._bind_query, self._environment, self._report)
        moved._found = [replace(s, plan=deeper(s.plan, least=2)) for s in self._found]
        moved._references = self._references
        return moved

    def reference(self, column: int) -> Column:
        """The value of the subquery that is this column of the wide row."""
        return self._references[column]

    def columns(self, expr: Expr) -> frozenset[int]:
        """The columns of the wide row that the expression reads, also through its subqueries."""
        found = set(columns_used(expr))
        for column in [c for c in found if c >= FIRST]:
            subquery = self[column]
            below = (*subquery.operands, *_references(subquery.plan))
            found |= frozenset().union(*(self.columns(e) for e in below))
        return frozenset(found)

    def _bind(self, node: exp.Expression, resolver: Resolver) -> Plan:
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, (exp.Query, exp.Values)):
            self._report.check(node)
            self._report.refuse(
                node, Refusal("this subquery", "is not a query", "Write SELECT … in parentheses.")
            )
        return self._bind_query(node, self._environment.inside(resolver))

    def _add(self, subquery: _Subquery, kind: SqlType, nullable: bool) -> Column:
        if subquery not in self._found:
            self._found.append(subquery)
        index = FIRST + self._found.index(subquery)
        return self._references.setdefault(index, Column(index, kind, nullable, subquery.name))


class NoSubqueries:
    """For clauses where a subquery may not stand."""

    def __init__(self, clause: str, report: Report) -> None:
        self._clause = clause
        self._report = report

    def _refuse(self, node: exp.Expression) -> Expr:
        raise self._report.refusal(
            node,
            Refusal(
                f"a subquery in {self._clause}",
                "has no rows there that it could be computed for",
                "Compute it in a subquery of FROM.",
            ),
        )

    def exists(self, node: exp.Expression, resolver: Resolver) -> Expr:
        return self._refuse(node)

    def scalar(self, node: exp.Expression, resolver: Resolver) -> Expr:
        return self._refuse(node)

    def any(
        self,
        comparison: str,
        operands: tuple[Expr, ...],
        node: exp.Expression,
        resolver: Resolver,
        what: str,
    ) -> Expr:
        return self._refuse(node)

    def all(
        self, comparison: str, operand: Expr, node: exp.Expression, resolver: Resolver, what: str
    ) -> Expr:
        return self._refuse(node)


#: An expression of the wide row over a plan's columns. The node is where it came from, for errors.
Move = Callable[[Expr, exp.Expression], Expr]


class Placement:
    """Expressions of the wide row over `plan`, which grows by the subqueries that they read.

    `move` takes expressions from the wide row to the plan's first columns, and leaves subqueries.
    """

    def __init__(self, plan: Plan, subqueries: Subqueries, move: Move | None = None) -> None:
        self.plan = plan
        self._subqueries = subqueries
        self._move = move
        self._positions: dict[int, int] = {}

    def place(self, expr: Expr, node: exp.Expression) -> Expr:
        """The expression, bound from `node`, over `plan`, extended where need be."""
        moved = expr if self._move is None else self._move(expr, node)
        return transform(moved, lambda e: self._placed(e, node))

    def filter(self, predicate: Expr, node: exp.Expression) -> None:
        placed = self.place(predicate, node)
        self.plan = Filter(self.plan, placed)

    def _placed(self, expr: Expr, node: exp.Expression) -> Expr:
        if not isinstance(expr, Column) or expr.index < FIRST:
            return expr
        if expr.index not in self._positions:
            found = self._subqueries[expr.index]
            operands = tuple(self.place(o, node) for o in found.operands)
            subquery = move_outer(found.plan, lambda e: self.place(e, node))
            self._positions[expr.index] = len(self.plan.schema)
            self.plan = Apply(
                self.plan, subquery, found.kind, found.name, operands, found.comparison
            )
        return Column(self._positions[expr.index], expr.type, expr.nullable, expr.name)


def filtered(input: Plan, predicate: Expr, node: exp.Expression, subqueries: Subqueries) -> Plan:
    """The rows of `input` for which the predicate is TRUE, without the columns of subqueries."""
    placement = Placement(input, subqueries)
    placement.filter(predicate, node)
    return first_columns(placement.plan, input.schema)


def first_columns(plan: Plan, schema: Schema) -> Plan:
    """The plan without the columns after those of `schema`."""
    if len(plan.schema) == len(schema):
        return plan
    return Project(plan, identity(plan.schema)[: len(schema)], plan.schema[: len(schema)])


def cast_columns(plan: Plan, kinds: list[SqlType]) -> Plan:
    """The plan with its columns cast, inside its own projection if it ends in one."""
    if [f.type for f in plan.schema] == kinds:
        return plan
    below, exprs = plan, identity(plan.schema)
    old: tuple[Expr, ...] = exprs
    if isinstance(plan, Project):
        below, old = plan.input, plan.exprs
    new = tuple(coercion.cast(e, k) for e, k in zip(old, kinds, strict=True))
    fields = tuple(Field(f.name, e.type, e.nullable) for f, e in zip(plan.schema, new, strict=True))
    return Project(below, new, fields)


def check_stored(plan: Plan, node: exp.Expression, report: Report) -> None:
    """A column of a view or of a relation in FROM has a type that can be stored."""
    for field in plan.schema:
        if isinstance(field.type, NullType):
            report.fail(node, "a column of type VOID cannot be stored", hint="Cast NULL to a type.")


def _stored(kind: SqlType) -> SqlType:
    return BOOLEAN if isinstance(kind, NullType) else kind


def _references(plan: Plan) -> list[Expr]:
    return [Column(c, BOOLEAN, True, "") for c in sorted(outer_columns(plan))]


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
