"""Column references to expressions, by the rule of each clause.

WHERE, ON and GROUP BY see the columns of FROM; SELECT sees them and then the aliases before it in
its own list; HAVING sees grouping columns, then aliases; ORDER BY sees aliases first. What is not
found there is looked up in the enclosing query. That is Spark's order of resolution.

An aggregate in the WHERE of a subquery of HAVING, of none of the subquery's own columns, is one of
the query around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from planner.bind.report import Refusal, Report
from planner.bind.scope import Scope
from planner.calculus.expr import Expr
from planner.errors import BindError, suggestion
from planner.names import folded


@dataclass(frozen=True, slots=True)
class Output:
    """An item of a select list. `aliased`: the name was written there."""

    name: str
    expr: Expr
    node: exp.Expression
    aliased: bool


class Enclosing(Protocol):
    """The clause around a subquery."""

    def find(self, node: exp.Column) -> Expr | None:
        """What the reference means there, as an outer reference, or None."""

    def aggregate(self, node: exp.Expression) -> Expr | None:
        """What an aggregate means there, as outer references, or None where there are none."""

    def known(self, qualified: bool) -> list[str]:
        """The names there, for error messages."""


class Aggregates(Protocol):
    """The aggregates of a query."""

    def bind(self, node: exp.Expression) -> Expr:
        """An aggregate call over the row that the clauses above the aggregation read."""


class Resolver(Protocol):
    """The names of a clause."""

    def resolve(self, node: exp.Column) -> Expr:
        """What the reference means, or an error that names what it could have meant."""

    def reach(self, node: exp.Column) -> Expr | None:
        """What a subquery in the clause may mean by the reference, or None."""

    def aggregate(self, node: exp.Expression) -> Expr | None:
        """What a subquery in the clause means by an aggregate of none of its own columns, or None
        where it can mean nothing."""

    def known(self, qualified: bool) -> list[str]:
        """The names that `reach` finds."""


class FromResolver:
    """The columns of FROM, then those of the enclosing query.

    `beside`: relations whose columns may be meant, but are not seen from here.
    """

    def __init__(
        self,
        scope: Scope,
        report: Report,
        outer: Enclosing | None,
        beside: Scope | None = None,
    ) -> None:
        self.scope = scope
        self.report = report
        self.outer = outer
        self.beside = beside

    def resolve(self, node: exp.Column) -> Expr:
        found = self.reach(node)
        if found is None:
            if self.beside is not None and self.beside.find(node.name, node.table or None):
                self.report.fail(
                    node,
                    f'column "{_written(node)}" cannot be used here',
                    "A subquery in FROM does not see the relations beside it.",
                    "Write LATERAL before the subquery, or compare the column in ON or WHERE.",
                )
            raise unknown_column(node, self.report, self.known(bool(node.table)))
        return found

    def reach(self, node: exp.Column) -> Expr | None:
        found = self.find(node)
        return found if found is not None or self.outer is None else self.outer.find(node)

    def aggregate(self, node: exp.Expression) -> Expr | None:
        """The aggregate of the enclosing query that `node` is, None if it is of columns here."""
        columns = list(node.find_all(exp.Column))
        if self.outer is None or not columns or any(map(self.find, columns)):
            return None
        return self.outer.aggregate(node)

    def find(self, node: exp.Column) -> Expr | None:
        """The column of FROM, or None if there is none of the name."""
        columns = self.scope.find(node.name, node.table or None)
        if len(columns) > 1:
            names = tuple(dict.fromkeys(c.qualified for c in columns))
            detail = f"{len(columns)} columns in FROM have that name."
            if len(names) > 1:
                detail = f"It could be {' or '.join(names)}."
            hint = "Write the relation's name or alias before it."
            if len(names) == 1:
                hint = "Give the relations, or the columns of a subquery, different aliases."
            message = f'column reference "{_written(node)}" is ambiguous'
            self.report.fail(node, message, detail, hint)
        return columns[0].reference() if columns else None

    def known(self, qualified: bool) -> list[str]:
        columns = self.scope.columns if qualified else self.scope.visible
        names = [c.qualified if qualified else c.name for c in columns]
        return names if self.outer is None else names + self.outer.known(qualified)


class SelectResolver:
    """The columns of FROM, then aliases to the left in the select list (lateral aliases).

    Subqueries see no aliases.
    """

    def __init__(self, below: FromResolver, outputs: Sequence[Output]) -> None:
        self.below = below
        self.outputs = outputs

    def resolve(self, node: exp.Column) -> Expr:
        found = self.below.find(node)
        if found is None and not node.table:
            aliased = [o for o in self.outputs if o.aliased]
            found = find_output(node, aliased, self.below.report)
        return found if found is not None else self.below.resolve(node)

    def reach(self, node: exp.Column) -> Expr | None:
        return self.below.reach(node)

    def aggregate(self, node: exp.Expression) -> Expr | None:
        return None

    def known(self, qualified: bool) -> list[str]:
        return self.below.known(qualified)


class HavingResolver:
    """The grouping columns of FROM, then the names of the select list, then the rest of FROM.

    `calls`: the aggregates that subqueries may mean, if any.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        below: FromResolver,
        keys: Sequence[Expr],
        calls: Aggregates | None = None,
    ) -> None:
        self.outputs = outputs
        self.below = below
        self.keys = keys
        self.calls = calls

    def resolve(self, node: exp.Column) -> Expr:
        found = self.reach(node)
        return found if found is not None else self.below.resolve(node)

    def reach(self, node: exp.Column) -> Expr | None:
        if not node.table:
            found = self.below.find(node)
            if found is not None and found in self.keys:
                return found
            named = find_output(node, self.outputs, self.below.report)
            if named is not None:
                return named
        return self.below.reach(node)

    def aggregate(self, node: exp.Expression) -> Expr | None:
        return None if self.calls is None else self.calls.bind(node)

    def known(self, qualified: bool) -> list[str]:
        return self.below.known(qualified)


class OrderResolver:
    """The names of the select list, then the columns of FROM.

    `below` is None around a UNION. Where `distinct`, a column of FROM is reached only with its
    relation's name, and must be in the select list.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        below: FromResolver | None,
        distinct: bool,
        report: Report,
    ) -> None:
        self.outputs = outputs
        self.below = below
        self.distinct = distinct
        self.report = report

    def resolve(self, node: exp.Column) -> Expr:
        found = self._named(node)
        if found is not None:
            return found
        if self.below is not None and (node.table or not self.distinct):
            return self.below.resolve(node)
        raise unknown_column(node, self.report, [o.name for o in self.outputs])

    def reach(self, node: exp.Column) -> Expr | None:
        found = self._named(node)
        if found is None and self.below is not None:
            found = self.below.reach(node)
        return found

    def aggregate(self, node: exp.Expression) -> Expr | None:
        return None

    def known(self, qualified: bool) -> list[str]:
        return self.below.known(qualified) if self.below is not None else []

    def _named(self, node: exp.Column) -> Expr | None:
        return find_output(node, self.outputs, self.report) if not node.table else None


def find_output(node: exp.Column, outputs: Sequence[Output], report: Report) -> Expr | None:
    """The item of that name; items of one name must be one expression."""
    found = [o.expr for o in outputs if folded(o.name) == folded(node.name)]
    if any(e != found[0] for e in found):
        report.fail(
            node,
            f'column reference "{node.name}" is ambiguous',
            f"{len(found)} columns of the select list have that name.",
            "Give them different aliases.",
        )
    return found[0] if found else None


def unknown_column(node: exp.Column, report: Report, known: Sequence[str]) -> BindError:
    hint = suggestion(_written(node), known)
    if hint is None and known and len(known) <= 12:
        hint = f"The columns here are {', '.join(known)}."
    return report.error(node, f'column "{_written(node)}" does not exist', hint=hint)


def check_reference(node: exp.Column, report: Report) -> None:
    """Refuse what is no plain `column` or `relation.column`."""
    report.check(node)
    if isinstance(node.this, exp.Star):
        report.refuse(
            node,
            Refusal("* in an expression", "stands for several columns", "Name the columns."),
        )
    for part in (node.this, node.args.get("table")):
        if part is not None:
            report.check(part)
    if node.args.get("db") is not None:
        report.refuse(
            node,
            Refusal(
                "a name of three or more parts",
                "names a catalog, a schema or a field of a struct",
                "Write column, or relation.column.",
            ),
        )


def _written(node: exp.Column) -> str:
    return f"{node.table}.{node.name}" if node.table else str(node.name)
