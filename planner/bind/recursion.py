"""WITH RECURSIVE: a query without the relation, the anchor, UNION [ALL] one over it, the step.

Invariant: the relation has the types of its anchor; what the step gives is cast to them where none
of its values is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from sqlglot import exp

from planner import coercion
from planner.algebra import Plan, Recursive, RecursiveRef, UnionAll
from planner.bind import sets
from planner.bind.outer import Environment
from planner.bind.relations import rename
from planner.bind.report import Refusal, Report, describe
from planner.bind.subqueries import cast_columns, check_stored
from planner.names import folded
from planner.parse.recursion import LEVEL
from planner.types import Field, Schema
from planner.visit import nodes

#: Rounds that are not exceeded where the text does not say how many: Spark's for UNION ALL, which
#: ends by itself only where the levels do; UNION ends where no row is new.
MOST_LEVELS, MOST_STEPS = 100, 10_000
#: Of MAX RECURSION LEVEL.
_GREATEST = (1 << 20) - 4

_Bind = Callable[[exp.Expression, Environment], Plan]


class Recursions:
    """Binds the recursive relations of one text; `plan` binds a query."""

    def __init__(self, plan: _Bind, report: Report) -> None:
        self._plan = plan
        self._report = report
        self._numbers = count(1)

    def refuse_forward(self, cte: exp.CTE, later: Sequence[exp.CTE]) -> None:
        """A relation that reads one that comes behind it."""
        for other in later:
            for table in _mentions(cte.this, other.alias):
                self._report.refuse(
                    table,
                    Refusal(
                        f'"{cte.alias}", which reads "{other.alias}" behind it',
                        "makes relations that are recursive over each other",
                        "Write them as one relation, with a column that says which of them a row "
                        "is of.",
                    ),
                )

    def is_recursive(self, cte: exp.CTE) -> bool:
        return bool(_mentions(cte.this, cte.alias))

    def bind(self, cte: exp.CTE, environment: Environment) -> Plan:
        """The relation. `environment`: of its body."""
        node, alias, name = cte.this, cte.args["alias"], cte.alias
        if type(node) is not exp.Union:
            self._fail(node, name)
        for clause in ("order", "limit", "offset"):
            if node.args.get(clause) is not None:
                self._report.refuse(
                    node.args[clause],
                    Refusal(
                        f'{clause.upper()} in the recursive "{name}"',
                        "would choose among the rows of all rounds",
                        "Write it where the relation is read.",
                    ),
                )
        is_all = not node.args.get("distinct")
        queries = self._queries(node)
        anchors = [q for q in queries if not _mentions(q, name)]
        steps = [q for q in queries if _mentions(q, name)]
        if not anchors or queries[0] is not anchors[0]:
            self._fail(node, name)
        plans = [self._plan(q, environment) for q in anchors]
        anchor = (
            plans[0] if len(plans) == 1 else sets.unified(describe(node), plans, node, self._report)
        )
        check_stored(anchor, node, self._report)
        fields = rename(anchor, alias, self._report).schema
        number = next(self._numbers)
        while True:
            ref = RecursiveRef(number, name, fields, is_all)
            inside = replace(environment, ctes={**environment.ctes, folded(name): ref})
            bound = [self._step(q, inside, fields, name) for q in steps]
            wider = _nullable_with(fields, bound)
            if wider == fields:
                break
            fields = wider
        if is_all:
            self._check_linear(bound, steps, number, name)
        branches = (cast_columns(anchor, [f.type for f in fields]), *bound)
        return Recursive(number, name, UnionAll(branches, fields), is_all, self._limit(cte, is_all))

    def _fail(self, node: exp.Expression, name: str) -> None:
        self._report.fail(
            node,
            f'the recursive "{name}" has no query to begin with',
            hint=f'Write it as a query without "{name}", UNION ALL or UNION, and one with it.',
        )

    def _queries(self, node: exp.Union) -> list[exp.Expression]:
        """The branches of a chain of one kind of UNION."""
        found: list[exp.Expression] = []
        left: exp.Expression = node
        while type(left) is exp.Union and bool(left.args.get("distinct")) == bool(
            node.args.get("distinct")
        ):
            self._report.check(left)
            found.append(left.expression)
            left = left.this
        return [left, *reversed(found)]

    def _step(
        self, query: exp.Expression, environment: Environment, fields: Schema, name: str
    ) -> Plan:
        plan = self._plan(query, environment)
        if len(plan.schema) != len(fields):
            self._report.fail(
                query,
                f'the recursive "{name}" begins with {len(fields)} columns and goes on with '
                f"{len(plan.schema)}",
            )
        for field, given in zip(fields, plan.schema, strict=True):
            if coercion.common_type(field.type, given.type) != field.type:
                self._report.fail(
                    query,
                    f'column "{field.name}" of the recursive "{name}" begins as {field.type} and '
                    f"goes on as {given.type}",
                    hint=f"Cast it to {given.type} in the first query, or to {field.type} here.",
                )
        return cast_columns(plan, [f.type for f in fields])

    def _check_linear(
        self, bound: Sequence[Plan], steps: Sequence[exp.Expression], number: int, name: str
    ) -> None:
        """UNION ALL goes on from the rows of the round before: each of them, once."""
        hint = "Use UNION, which goes on from all rows so far and keeps each of them once."
        reads = [sum(ways for p, ways in nodes(plan) if _is_ref(p, number)) for plan in bound]
        if len(bound) > 1 or any(r > 1 for r in reads):
            second = [t for s in steps for t in _mentions(s, name)][-1]
            why = "has each row of a round go on in one way"
            self._report.refuse(
                second, Refusal(f'a further reference to "{name}" under UNION ALL', why, hint)
            )
        for p, _ in nodes(bound[0]):
            if isinstance(p, UnionAll) and any(_is_ref(q, number) for q, _ in nodes(p)):
                why = "would add rows to each round that come from none before it"
                self._report.refuse(
                    _mentions(steps[0], name)[0],
                    Refusal(f'a UNION over "{name}" in its own step', why, hint),
                )

    def _limit(self, cte: exp.CTE, is_all: bool) -> int:
        level = cte.meta.get(LEVEL)
        if level is None:
            return MOST_LEVELS if is_all else MOST_STEPS
        if not 1 <= level <= _GREATEST:
            self._report.fail(
                cte.args["alias"], f"MAX RECURSION LEVEL is a number from 1 to {_GREATEST}"
            )
        return int(level)


def _is_ref(plan: Plan, number: int) -> bool:
    return isinstance(plan, RecursiveRef) and plan.number == number


def _mentions(node: exp.Expression, name: str) -> list[exp.Table]:
    """Where the text reads a relation of this name."""
    tables = node.find_all(exp.Table)
    found = [t for t in tables if isinstance(t.this, exp.Identifier) and not t.args.get("db")]
    named = [t for t in found if folded(t.name) == folded(name)]
    return sorted(named, key=lambda t: t.this.meta.get("start", 0))


def _nullable_with(fields: Schema, plans: Sequence[Plan]) -> Schema:
    """The fields, nullable where a step is."""
    return tuple(
        Field(f.name, f.type, f.nullable or any(p.schema[i].nullable for p in plans))
        for i, f in enumerate(fields)
    )
