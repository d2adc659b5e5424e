"""Names in scope: which column a reference means.

Identifiers are compared without case, as in Spark. A scope lists every column of FROM with the
alias of its relation and its position in the joined row; the columns that an unqualified name or
`*` can reach are listed apart, because USING and NATURAL joins show one of two equal columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from planner.calculus.algebra import Plan
from planner.calculus.expr import Column
from planner.calculus.types import Field, Schema
from planner.names import folded


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    qualifier: str
    name: str
    position: int
    field: Field

    def reference(self) -> Column:
        field = self.field
        return Column(self.position, field.type, field.nullable, self.name, field.chars)

    @property
    def qualified(self) -> str:
        return f"{self.qualifier}.{self.name}" if self.qualifier else self.name


@dataclass(frozen=True, slots=True)
class Scope:
    """`columns`: all, reachable with their qualifier; `visible`: those of `*`, in its order."""

    columns: tuple[ScopeColumn, ...]
    visible: tuple[ScopeColumn, ...]

    def find(self, name: str, qualifier: str | None) -> tuple[ScopeColumn, ...]:
        """Every column that the reference could mean."""
        wanted = folded(name)
        if qualifier is None:
            return tuple(c for c in self.visible if folded(c.name) == wanted)
        return tuple(
            c
            for c in self.columns
            if folded(c.name) == wanted and folded(c.qualifier) == folded(qualifier)
        )

    def of_relation(self, qualifier: str) -> tuple[ScopeColumn, ...]:
        """The columns of `qualifier.*`."""
        return tuple(c for c in self.columns if folded(c.qualifier) == folded(qualifier))

    def shifted(self, offset: int) -> Scope:
        """The same names over a row with `offset` more columns before them."""

        def move(columns: tuple[ScopeColumn, ...]) -> tuple[ScopeColumn, ...]:
            return tuple(replace(c, position=c.position + offset) for c in columns)

        return Scope(move(self.columns), move(self.visible))

    def typed(self, schema: Schema) -> Scope:
        """The same names over a row of this schema, whose columns may have become nullable."""

        def retype(columns: tuple[ScopeColumn, ...]) -> tuple[ScopeColumn, ...]:
            return tuple(replace(c, field=schema[c.position]) for c in columns)

        return Scope(retype(self.columns), retype(self.visible))

    def beside(self, right: Scope) -> Scope:
        """Both, `right` already shifted."""
        return Scope(self.columns + right.columns, self.visible + right.visible)


def relation_scope(alias: str, plan: Plan) -> Scope:
    """The scope of one relation of FROM."""
    columns = tuple(ScopeColumn(alias, f.name, i, f) for i, f in enumerate(plan.schema))
    return Scope(columns, columns)


#: The CTEs in scope, by lower-case name.
Ctes: TypeAlias = Mapping[str, Plan]
