"""Fusing filters and projections into one `dataflow.Map`.

Names of derived columns are made here from structure alone (a plain column keeps its name, others
are called by their text), so that subplans of two views are equal, and shared, whatever aliases
the views use. Only a view's root gets the names that its query asks for.
"""

from __future__ import annotations

from planner.analysis.text import column_names, expr_text
from planner.calculus.algebra import identity
from planner.calculus.expr import (
    Call,
    Column,
    Expr,
    conjuncts,
    substitute,
    substitution_grows,
    walk,
)
from planner.calculus.failing import may_fail
from planner.calculus.primitives import FUNCTIONS
from planner.calculus.types import BINARY, STRING, Field, Schema
from planner.dataflow import Map, Node, is_open


def map_over(node: Node, predicates: tuple[Expr, ...], outputs: tuple[Expr, ...]) -> Node:
    """`outputs` of the rows of `node` that pass `predicates`, merged with a Map that it is already.

    The result is `node` itself where there is nothing to do.
    """
    predicates = tuple(c for p in predicates for c in conjuncts(p))
    if isinstance(node, Map) and not substitution_grows((*predicates, *outputs), node.outputs):
        # The inner outputs are evaluated after the new predicates: on fewer rows, if they fail.
        predicates = node.predicates + tuple(substitute(p, node.outputs) for p in predicates)
        outputs = tuple(substitute(e, node.outputs) for e in outputs)
        node = node.input
    predicates = in_order(predicates)
    if not predicates and outputs == identity(node.schema):
        return node
    if not outputs:
        outputs = identity(node.schema)[:1]  # a row needs a column
    return Map(node, predicates, outputs, derived_schema(node.schema, outputs))


def closed(node: Node) -> Node:
    """The same rows with the columns that the node has now, whatever its table gets later."""
    return Map(node, (), identity(node.schema), node.schema) if is_open(node) else node


def named(node: Node, schema: Schema) -> Node:
    """The same rows under the column names of `schema`."""
    names = [f.name for f in schema]
    if [f.name for f in node.schema] == names:
        return node
    fields = tuple(
        Field(name, f.type, f.nullable) for name, f in zip(names, node.schema, strict=True)
    )
    if isinstance(node, Map):
        return Map(node.input, node.predicates, node.outputs, fields)
    return Map(node, (), identity(node.schema), fields)


def derived_schema(schema: Schema, outputs: tuple[Expr, ...]) -> Schema:
    """Fields for expressions over `schema`."""
    names = column_names(schema)
    return tuple(
        Field(
            schema[e.index].name if isinstance(e, Column) else expr_text(e, names),
            e.type,
            e.nullable,
        )
        for e in outputs
    )


def in_order(predicates: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Each predicate once: those that cannot fail first, the cheap before the dear; then those
    that may, in the order of the query."""
    unique = tuple(dict.fromkeys(predicates))
    safe = sorted((p for p in unique if not may_fail(p)), key=_cost)
    return (*safe, *(p for p in unique if may_fail(p)))


def _cost(predicate: Expr) -> int:
    """0 for numbers, 1 for strings, 2 for patterns in strings."""
    cost = 0
    for e in walk(predicate):
        if isinstance(e, Call) and FUNCTIONS[e.function].seeks:
            return 2
        if e.type in (STRING, BINARY):
            cost = 1
    return cost
