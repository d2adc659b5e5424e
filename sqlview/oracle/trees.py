"""Small pieces of sqlglot's trees. Arguments become part of the result: no node is in two places
unless the caller copies it."""

from __future__ import annotations

from sqlglot import exp

from planner.calculus import types as t


def call(name: str, *args: exp.Expr) -> exp.Expr:
    """A function of DuckDB's, or a macro of ours, by name."""
    return exp.Anonymous(this=name, expressions=list(args))


def cast(node: exp.Expr, kind: t.SqlType) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(str(kind), dialect="databricks"))


def text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def number(value: float) -> exp.Expr:
    return exp.Literal.number(value)


def is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.paren(value, copy=False), expression=exp.Null())


def filtered(aggregate: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    """The aggregate over the rows on which `where` (of which a copy is taken) holds."""
    if where is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=where.copy()))


def when(where: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    """The value where `where` (of which a copy is taken) holds, else NULL: it is not even computed,
    unlike the argument of an aggregate with a FILTER."""
    if where is None:
        return value
    return exp.Case(ifs=[exp.If(this=where.copy(), true=value)])
