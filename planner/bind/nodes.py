"""Nodes of a syntax tree that no text has: the binder writes them."""

from __future__ import annotations

from sqlglot import exp


class PeriodEdge(exp.Expression):
    """The start of a period, less `back` microseconds; `slide` and `offset` are numbers."""

    arg_types = {"this": True, "slide": True, "offset": True, "back": True}  # noqa: RUF012
