"""GROUPING SETS, ROLLUP and CUBE: which sets of expressions a GROUP BY clause groups by.

Each row is in one group of each set. So the aggregation is over the rows once for each set, with
NULL in the keys that are not in it, and the number of the set as one more key: equal sets stay
apart, and there is no group without a row, as in Spark, where standard SQL has the total of none.

Source: Spark SQL Reference, GROUP BY clause.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from planner.bind.report import Refusal, Report
from planner.calculus.algebra import Plan, Project, identity, union_all
from planner.calculus.expr import Expr, Literal
from planner.calculus.functions import conditional, is_in
from planner.calculus.types import BIGINT, INT, TINYINT, Field, IntegerType

#: Sets of one query, each of which groups all rows.
MOST_SETS = 1024
#: Expressions of one clause; grouping_id has no bits for more.
_MOST_NODES = 63

_Nodes: TypeAlias = tuple[exp.Expression, ...]


@dataclass(frozen=True, slots=True)
class GroupingSets:
    """`nodes`: the expressions, in the order in which they are written; `sets`: of each set those
    that it has, by their positions."""

    nodes: _Nodes
    sets: tuple[tuple[int, ...], ...]

    @property
    def is_total(self) -> bool:
        """Whether there is one group, of all rows, which is there without any."""
        return not self.nodes and len(self.sets) == 1


def grouping_sets(group: exp.Group, report: Report) -> GroupingSets | None:
    """The sets of the clause, or None if it lists expressions alone.

    Raises: UnsupportedError for too many sets.
    """
    listed = tuple(group.expressions)
    behind = [part for name in BEHIND for part in group.args.get(name) or ()]
    if not behind and not any(isinstance(e, _KINDS) for e in listed):
        return None
    parts = [_sets(part, report, listed) for part in behind or listed]
    if math.prod(map(len, parts)) > MOST_SETS:
        _refuse_many(group, report)
    found = [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*parts)]
    # `a, b WITH ROLLUP` and `a, b GROUPING SETS (…)` list all expressions first.
    nodes = [node for part in (*listed, *behind) for node in _expressions(part)]
    if len(nodes) > _MOST_NODES:
        _refuse_many(group, report)
    places = {id(node): place for place, node in enumerate(nodes)}
    return GroupingSets(tuple(nodes), tuple(tuple(places[id(n)] for n in s) for s in found))


#: What stands in a clause for sets; and under which names it stands behind the expressions.
_KINDS = (exp.Rollup, exp.Cube, exp.GroupingSets)
BEHIND = ("rollup", "cube", "grouping_sets")


def _sets(node: exp.Expression, report: Report, listed: _Nodes) -> list[_Nodes]:
    """The sets that a part of the clause stands for. `listed`: what WITH ROLLUP is of."""
    if isinstance(node, exp.GroupingSets):
        report.check(node)
        return [s for inner in node.expressions for s in _sets(inner, report, listed)]
    if not isinstance(node, (exp.Rollup, exp.Cube)):
        return [tuple(_expressions(node))]
    report.check(node)
    units = [tuple(_expressions(e)) for e in node.expressions or listed]
    if isinstance(node, exp.Rollup):
        return [tuple(itertools.chain(*units[:n])) for n in range(len(units), -1, -1)]
    if 2 ** len(units) > MOST_SETS:
        _refuse_many(node, report)
    chosen = itertools.product((True, False), repeat=len(units))
    return [tuple(itertools.chain(*itertools.compress(units, c))) for c in chosen]


def _expressions(node: exp.Expression) -> Iterator[exp.Expression]:
    """The expressions in a part of the clause: of (a, b), (), a, ROLLUP (a, (b, c))."""
    if isinstance(node, (*_KINDS, exp.Tuple)):
        for part in node.expressions:
            yield from _expressions(part)
    else:
        yield node.this if isinstance(node, exp.Paren) else node


def _refuse_many(node: exp.Expression, report: Report) -> None:
    report.refuse(
        node,
        Refusal(
            f"more than {MOST_SETS:,} grouping sets, or {_MOST_NODES} expressions in them",
            "groups every row too many times",
            "List the sets that are needed with GROUPING SETS.",
        ),
    )


def spread(
    plan: Plan, keys: Sequence[tuple[Expr, str]], sets: Sequence[frozenset[int]]
) -> tuple[Plan, tuple[Field, ...]]:
    """The rows of `plan` once for each set: its columns, the keys, which are NULL where they are
    not in the set, and the number of the set. Returns: also the fields of keys and number."""
    fields = tuple(Field(name, key.type, True) for key, name in keys)
    fields += (Field("grouping_set", INT, False),)
    schema = (*plan.schema, *fields)
    branches: list[Plan] = []
    for number, members in enumerate(sets):
        values = tuple(
            key if i in members else Literal(None, key.type) for i, (key, _) in enumerate(keys)
        )
        exprs = (*identity(plan.schema), *values, Literal(number, INT))
        branches.append(Project(plan, exprs, schema))
    return union_all(branches, schema), fields


def grouping_id(sets: Sequence[frozenset[int]], keys: int, number: Expr) -> Expr:
    """A bit for each of so many keys, the first one's the highest, set where it is not in the set
    of that number."""
    values = [sum((key not in s) << (keys - 1 - key) for key in range(keys)) for s in sets]
    return _chosen(values, number, BIGINT)


def is_grouped(sets: Sequence[frozenset[int]], key: int, number: Expr) -> Expr:
    """grouping: 1 where the key is not in the set of that number, else 0."""
    return _chosen([int(key not in s) for s in sets], number, TINYINT)


def _chosen(values: Sequence[int], number: Expr, kind: IntegerType) -> Expr:
    """The value at that number."""
    *others, last = dict.fromkeys(values)
    branches = []
    for value in others:
        places = [Literal(n, INT) for n, v in enumerate(values) if v == value]
        branches.append((is_in(number, places), Literal(value, kind)))
    if not branches:
        return Literal(last, kind)
    return conditional(branches, Literal(last, kind), "grouping")
