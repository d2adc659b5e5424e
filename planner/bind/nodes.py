"""Nodes of a syntax tree that no text has: the binder writes them."""

from __future__ import annotations

from sqlglot import exp


class PeriodEdge(exp.Expression):
    """The start of a period, less `back` microseconds; `slide` and `offset` are numbers."""

    arg_types = {"this": True, "slide": True, "offset": True, "back": True}  # noqa: RUF012


def makes_rows(node: exp.Expression) -> bool:
    """Whether a node in FROM calls what makes rows: a generator, or RANGE."""
    return generator_name(node) is not None or is_range(node)


def is_range(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == "range"


_NAMES = frozenset(("explode", "posexplode", "inline", "stack", "json_tuple"))


def generator_name(node: exp.Expression) -> str | None:
    """Which generator a node calls, without the end "_outer"; None if it calls none."""
    if not isinstance(node, exp.Anonymous):
        return None
    name = str(node.this).lower().removesuffix("_outer")
    return (
        name
        if name in _NAMES and str(node.this).lower() not in ("stack_outer", "json_tuple_outer")
        else None
    )
