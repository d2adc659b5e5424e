"""WITH RECURSIVE: relations that read themselves, or each other.

UNION ALL goes on from the rows of the round before: a query without the relation, the anchor, and
one over it, the step. Any other body is over all rows so far: UNION, or a query that has each row
once. Relations over each other are bound as one, whose first column says whose a row is; the others
are theirs, a column of one beside those of its type of the others. In a round they take turns in
the order of the text.

Only what reads itself, or is read further up, goes round: what is between them is a query like any
other.

Invariant: a relation has the types of its queries that read nothing of what is recursive with it;
what the others give is cast to them where none of its values is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from sqlglot import exp

from planner.analysis.keys import plan_keys
from planner.bind import sets
from planner.bind.outer import Environment
from planner.bind.relations import rename
from planner.bind.report import Refusal, Report, describe
from planner.bind.subqueries import cast_columns, check_stored
from planner.calculus import coercion
from planner.calculus.algebra import (
    Aggregate,
    Filter,
    Plan,
    Project,
    Recursive,
    RecursiveRef,
    UnionAll,
    identity,
)
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.types import BIGINT, BOOLEAN, Field, Schema
from planner.calculus.visit import nodes
from planner.names import folded
from planner.parse.recursion import (
    MOST_LEVELS,
    begins,
    column_names,
    cycles,
    levels,
    mentions,
    most_rounds,
    rounds_of,
)

#: Of MAX RECURSION LEVEL, and of the turns of all relations together.
_GREATEST = (1 << 20) - 4

_Bind = Callable[[exp.Expression, Environment], Plan]
_With = Callable[[exp.Expression, Environment], Environment]


@dataclass(slots=True)
class _Relation:
    """One that goes round. `queries`: whose rows together are its own; `fields`: as far as known;
    `anchors`: those that read nothing of what is recursive with it, bound."""

    cte: exp.CTE
    queries: list[exp.Expression]
    environment: Environment
    anchors: dict[int, Plan]
    fields: Schema | None = None

    @property
    def name(self) -> str:
        return self.cte.alias


class Recursions:
    """Binds the recursive relations of one text; `plan` binds a query, `with_` its own WITH."""

    def __init__(self, plan: _Bind, with_: _With, report: Report) -> None:
        self._plan = plan
        self._with = with_
        self._report = report
        self._numbers = count(1)

    def in_order(self, ctes: Sequence[exp.CTE]) -> list[tuple[exp.CTE, ...]]:
        """Those that are recursive over each other together, in the order in which they can be
        bound; one that goes round by itself is alone, as is what does not."""
        found = cycles(ctes)
        for group in found:
            for cte in group:
                later = [c for c in ctes[ctes.index(cte) + 1 :] if c not in group]
                self._refuse_forward(cte, later)
        return found

    def _refuse_forward(self, cte: exp.CTE, later: Iterable[exp.CTE]) -> None:
        for other in later:
            for table in mentions(cte.this, other.alias):
                self._report.refuse(
                    table,
                    Refusal(
                        f'"{cte.alias}", which reads "{other.alias}" behind it',
                        "would read what is not there yet, and is not recursive with it",
                        f'Write "{other.alias}" before "{cte.alias}".',
                    ),
                )

    def is_recursive(self, group: Sequence[exp.CTE]) -> bool:
        return len(group) > 1 or bool(mentions(group[0].this, group[0].alias))

    def bind(self, group: Sequence[exp.CTE], environment: Environment) -> dict[str, Plan]:
        """Those of the relations that go round, by their names."""
        (first, *others) = group
        if not others and type(first.this) is exp.Union and not first.this.args.get("distinct"):
            return {folded(first.alias): self._bind_levels(first, environment)}
        return self._bind_sets(group, environment)

    # UNION ALL

    def _bind_levels(self, cte: exp.CTE, environment: Environment) -> Plan:
        node, name = cte.this, cte.alias
        self._refuse_clauses(node, name)
        environment = self._with(node, environment)
        queries = self._queries(node)
        anchors = [q for q in queries if not mentions(q, name)]
        steps = [q for q in queries if mentions(q, name)]
        if not anchors or queries[0] is not anchors[0]:
            self._fail(node, name)
        anchor = self._unified([self._plan(q, environment) for q in anchors], node)
        fields = rename(anchor, cte.args["alias"], self._report).schema
        number = next(self._numbers)
        while True:
            ref = RecursiveRef(number, name, fields, True)
            inside = replace(environment, ctes={**environment.ctes, folded(name): ref})
            bound = [self._step(q, inside, fields, name) for q in steps]
            wider = _nullable_with(fields, bound)
            if wider == fields:
                break
            fields = wider
        self._check_linear(bound, steps, number, name)
        branches = (cast_columns(anchor, [f.type for f in fields]), *bound)
        limit = self._limit([cte], MOST_LEVELS)
        return Recursive(number, name, UnionAll(branches, fields), True, limit)

    def _check_linear(
        self, bound: Sequence[Plan], steps: Sequence[exp.Expression], number: int, name: str
    ) -> None:
        """UNION ALL goes on from the rows of the round before: each of them, once."""
        hint = "Use UNION, which goes on from all rows so far and keeps each of them once."
        reads = [sum(ways for p, ways in nodes(plan) if _is_ref(p, number)) for plan in bound]
        if len(bound) > 1 or any(r > 1 for r in reads):
            second = [t for s in steps for t in mentions(s, name)][-1]
            why = "has each row of a round go on in one way"
            self._report.refuse(
                second, Refusal(f'a further reference to "{name}" under UNION ALL', why, hint)
            )
        for p, _ in nodes(bound[0]):
            if isinstance(p, UnionAll) and any(_is_ref(q, number) for q, _ in nodes(p)):
                why = "would add rows to each round that come from none before it"
                self._report.refuse(
                    mentions(steps[0], name)[0],
                    Refusal(f'a UNION over "{name}" in its own step', why, hint),
                )

    # rows that are there once

    def _bind_sets(self, group: Sequence[exp.CTE], environment: Environment) -> dict[str, Plan]:
        """Relations that go round, and those between them, which are queries over these."""
        round = rounds_of(group)
        names = [c.alias for c in group]
        members = [self._relation(c, names, environment, c in round) for c in group]
        self._find_fields(members, environment)
        relations = [m for m in members if m.cte in round]
        number = next(self._numbers)
        while True:
            layout = _Layout(number, relations)
            bound = self._bodies(relations, group, environment, layout.refs())
            wider = [_nullable_with(_known(r), b) for r, b in zip(relations, bound, strict=True)]
            if wider == [r.fields for r in relations]:
                break
            for relation, fields in zip(relations, wider, strict=True):
                relation.fields = fields
        turns, limit = len(relations), self._limit(round, most_rounds(group))
        if limit * turns > _GREATEST:
            self._report.fail(
                round[0].args["alias"],
                f"MAX RECURSION LEVEL of {turns} relations is a number from 1 to "
                f"{_GREATEST // turns}",
            )
        bodies = [
            UnionAll(tuple(b), _known(r)) if len(b) > 1
            else Project(b[0], identity(b[0].schema), _known(r))
            for r, b in zip(relations, bound, strict=True)
        ]  # fmt: skip
        body = layout.body(bodies)
        whole = Recursive(number, relations[0].name, body, False, limit * turns, turns)
        return layout.of(whole)

    def _relation(
        self, cte: exp.CTE, names: Sequence[str], environment: Environment, goes_round: bool
    ) -> _Relation:
        node = cte.this
        queries, inside = [node], environment
        if type(node) is exp.Union and goes_round:
            self._refuse_clauses(node, cte.alias)
            if not node.args.get("distinct"):
                self._report.refuse(
                    node,
                    Refusal(
                        f'UNION ALL of "{cte.alias}", which others are recursive with',
                        "goes on from the rows of the round before, of which these have others",
                        "Use UNION, which goes on from all rows so far and keeps each of them "
                        "once.",
                    ),
                )
            if not any(mentions(node.args.get("with_") or exp.With(), n) for n in names):
                inside, queries = self._with(node, environment), self._queries(node)
        anchors = {
            i: self._plan(q, inside)
            for i, q in enumerate(queries)
            if not any(mentions(q, n) for n in names)
        }
        return _Relation(cte, queries, inside, anchors)

    def _find_fields(self, relations: Sequence[_Relation], environment: Environment) -> None:
        """The columns of each: of its queries, or the parts of them, that read what is known."""
        unknown = list(relations)
        while unknown:
            for relation in unknown:
                found = self._begun(relation, relations, environment)
                if found is not None:
                    relation.fields = rename(found, relation.cte.args["alias"], self._report).schema
            left = [r for r in unknown if r.fields is None]
            if len(left) == len(unknown):
                self._fail(left[0].cte.this, left[0].name)
            unknown = left

    def _begun(
        self,
        relation: _Relation,
        relations: Sequence[_Relation],
        environment: Environment,
    ) -> Plan | None:
        node = relation.cte.this
        if relation.anchors:
            found = self._unified(list(relation.anchors.values()), node)
            names = column_names(node)
            if 0 in relation.anchors or len(names) != len(found.schema):
                return found
            columns = [exp.to_identifier(name, quoted=True) for name in names]
            return rename(found, exp.TableAlias(columns=columns), self._report)
        begun = begins(node, [r.name for r in relations if r.fields is None])
        if begun is None:
            return None
        refs = {
            folded(r.name): RecursiveRef(0, r.name, r.fields)
            for r in relations
            if r.fields is not None
        }
        inside = replace(environment, ctes={**environment.ctes, **refs})
        return self._unified([self._plan(begun, inside)], node)

    def _bodies(
        self,
        relations: Sequence[_Relation],
        group: Sequence[exp.CTE],
        environment: Environment,
        refs: Mapping[str, Plan],
    ) -> list[list[Plan]]:
        """The queries of each, bound; a query between them is seen by what is behind it."""
        between: dict[str, Plan] = {}
        found: list[list[Plan]] = []
        by_cte = {id(r.cte): r for r in relations}
        for cte in group:
            relation = by_cte.get(id(cte))
            around = environment if relation is None else relation.environment
            inside = replace(around, ctes={**around.ctes, **refs, **between})
            if relation is None:
                plan = self._plan(cte.this, inside)
                check_stored(plan, cte.this, self._report)
                between[folded(cte.alias)] = rename(plan, cte.args["alias"], self._report)
                continue
            fields, plans = _known(relation), []
            for i, query in enumerate(relation.queries):
                anchor = relation.anchors.get(i)
                if anchor is not None:
                    plans.append(cast_columns(anchor, [f.type for f in fields]))
                else:
                    plan = self._step(query, inside, fields, relation.name)
                    self._check_once(relation, plan)
                    plans.append(_without_distinct(plan))  # rows are there once anyway
            found.append(plans)
        return found

    def _check_once(self, relation: _Relation, plan: Plan) -> None:
        if type(relation.cte.this) is exp.Union or plan_keys(plan):
            return
        self._report.refuse(
            relation.cte.this,
            Refusal(
                f'the recursive "{relation.name}", a query that may have a row several times',
                "would have to be counted from round to round",
                "Write SELECT DISTINCT, or UNION.",
            ),
        )

    # of both

    def _unified(self, plans: list[Plan], node: exp.Expression) -> Plan:
        found = plans[0]
        if len(plans) > 1:
            found = sets.unified(describe(node), plans, node, self._report)
        check_stored(found, node, self._report)
        return found

    def _fail(self, node: exp.Expression, name: str) -> None:
        self._report.fail(
            node,
            f'the recursive "{name}" has no query to begin with',
            hint=f'Write it as a query without "{name}", UNION ALL or UNION, and one with it.',
        )

    def _refuse_clauses(self, node: exp.Expression, name: str) -> None:
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

    def _limit(self, ctes: Sequence[exp.CTE], otherwise: int) -> int:
        """The least that one of them says."""
        least = levels(ctes)
        if least is None:
            return otherwise
        if not 1 <= least <= _GREATEST:
            self._report.fail(
                ctes[0].args["alias"], f"MAX RECURSION LEVEL is a number from 1 to {_GREATEST}"
            )
        return least


class _Layout:
    """Where the columns of relations over each other are in the one that has the rows of all: one
    alone is as it is."""

    def __init__(self, number: int, relations: Sequence[_Relation]) -> None:
        self._number = number
        self._relations = relations
        fields = [Field("relation", BIGINT, False)]
        self._slots: list[list[int]] = []
        for relation in relations:
            free = list(range(1, len(fields)))
            slots = []
            for f in _known(relation):
                slot = next((s for s in free if fields[s].type == f.type), len(fields))
                if slot == len(fields):
                    fields.append(Field(f.name, f.type, True))
                else:
                    free.remove(slot)
                slots.append(slot)
            self._slots.append(slots)
        self._fields = tuple(fields)

    def refs(self) -> dict[str, Plan]:
        """The relations as their bodies read them."""
        if len(self._relations) == 1:
            (one,) = self._relations
            return {folded(one.name): RecursiveRef(self._number, one.name, _known(one))}
        return {
            name: plan
            for i, r in enumerate(self._relations)
            for name, plan in (
                (folded(r.name), self._own(RecursiveRef(self._number, r.name, self._fields), i)),
            )
        }

    def body(self, bodies: Sequence[Plan]) -> Plan:
        if len(bodies) == 1:
            return bodies[0]
        return UnionAll(tuple(self._wide(b, i) for i, b in enumerate(bodies)), self._fields)

    def of(self, whole: Recursive) -> dict[str, Plan]:
        """The relations as the query around reads them."""
        if len(self._relations) == 1:
            return {folded(self._relations[0].name): whole}
        return {folded(r.name): self._own(whole, i) for i, r in enumerate(self._relations)}

    def _own(self, whole: Plan, at: int) -> Plan:
        columns = identity(self._fields)
        is_own = Call("eq", (columns[0], Literal(at, BIGINT)), BOOLEAN, False)
        kept = tuple(columns[s] for s in self._slots[at])
        names = [f.name for f in _known(self._relations[at])]
        fields = tuple(Field(n, c.type, True) for n, c in zip(names, kept, strict=True))
        return Project(Filter(whole, is_own), kept, fields)

    def _wide(self, body: Plan, at: int) -> Plan:
        exprs: list[Expr] = [Literal(None, f.type) for f in self._fields]
        exprs[0] = Literal(at, BIGINT)
        for slot, column in zip(self._slots[at], identity(body.schema), strict=True):
            exprs[slot] = column
        return Project(body, tuple(exprs), self._fields)


def _known(relation: _Relation) -> Schema:
    assert relation.fields is not None
    return relation.fields


def _without_distinct(plan: Plan) -> Plan:
    if not isinstance(plan, Aggregate) or plan.aggregates:
        return plan
    return Project(plan.input, plan.keys, plan.schema) if plan.keys else plan


def _is_ref(plan: Plan, number: int) -> bool:
    return isinstance(plan, RecursiveRef) and plan.number == number


def _nullable_with(fields: Schema, plans: Sequence[Plan]) -> Schema:
    """The fields, nullable where a query is."""
    return tuple(
        Field(f.name, f.type, f.nullable or any(p.schema[i].nullable for p in plans))
        for i, f in enumerate(fields)
    )
