"""FROM: tables, views, CTEs, derived tables, VALUES and joins.

Inner joins are flattened into one n-way join; an outer or semi join is one input of it. A comma is
a cross join like any other, as in Spark: joins go from left to right, and LATERAL sees what is on
its left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.bind.dependent import asks_pairs, meeting, pairs_join
from planner.bind.generators import generate
from planner.bind.nodes import makes_rows
from planner.bind.outer import Environment
from planner.bind.pivots import as_query
from planner.bind.report import Refusal, Report, describe
from planner.bind.resolve import FromResolver
from planner.bind.scalars import NoAggregates, Scalars
from planner.bind.scope import Scope, ScopeColumn, relation_scope
from planner.bind.sets import ONE_ROW
from planner.bind.subqueries import (
    FIRST,
    BindQuery,
    NoSubqueries,
    Placement,
    Subqueries,
    check_stored,
    filtered,
    first_columns,
)
from planner.calculus import functions
from planner.calculus.algebra import (
    Apply,
    Filter,
    Join,
    OuterJoin,
    Plan,
    Project,
    RecursiveRef,
    Scan,
    SemiJoin,
    identity,
)
from planner.calculus.coercion import TypeMismatch
from planner.calculus.expr import Column, Expr, columns_used, remap
from planner.calculus.types import Field
from planner.context import CatalogReader
from planner.errors import ClockError, suggestion
from planner.names import folded
from planner.parse.relations import IMPLIED

#: Joins that keep or drop a row of one side by whether a pair meets the condition.
_ONE_BY_ONE = ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI")


@dataclass(frozen=True, slots=True)
class Source:
    """What FROM has so far: inputs side by side, conditions over all their columns, the names."""

    inputs: tuple[Plan, ...]
    conditions: tuple[Expr, ...]
    scope: Scope

    @property
    def width(self) -> int:
        return sum(len(i.schema) for i in self.inputs)

    @property
    def plan(self) -> Plan:
        if len(self.inputs) == 1:
            return self.inputs[0]
        predicate = functions.chain("and", self.conditions) if self.conditions else None
        return Join(self.inputs, predicate)

    def beside(self, right: Source) -> Source:
        offset = self.width
        moved = {i: i + offset for i in range(right.width)}
        return Source(
            self.inputs + right.inputs,
            self.conditions + tuple(remap(c, moved) for c in right.conditions),
            self.scope.beside(right.scope.shifted(offset)),
        )


#: What a generator in FROM makes rows of.
_ONE_ROW = Source((ONE_ROW,), (), Scope((), ()))


@dataclass(frozen=True, slots=True)
class Reference:
    """A place of the text, [start, end), that names a relation of the catalog, by its canonical
    name; `aliased`: whether an alias stands behind it."""

    name: str
    start: int
    end: int
    aliased: bool


class Relations:
    """Binds FROM clauses; `bind_query` binds the queries inside them."""

    def __init__(
        self,
        catalog: CatalogReader,
        report: Report,
        bind_query: BindQuery,
    ) -> None:
        self.catalog = catalog
        self.report = report
        self.bind_query = bind_query
        self.references: set[Reference] = set()

    def bind(
        self, relation: exp.Expression, joins: list[exp.Expression], environment: Environment
    ) -> Source:
        source = self._relation(relation, environment)
        for join in joins:
            source = self._join(source, join, environment)
        return source

    def view(self, left: Source, node: exp.Lateral, environment: Environment) -> Source:
        """LATERAL VIEW [OUTER] generator(…) alias AS columns."""
        self.report.check(node)
        return self._generated(left, node, bool(node.args.get("outer")), environment)

    def _generated(
        self, left: Source, node: exp.Expression, outer: bool, environment: Environment
    ) -> Source:
        """Each row of `left` with those that a generator makes of it."""
        call, alias = node.this, node.args.get("alias")
        subqueries = NoSubqueries("a generator", self.report)
        names = FromResolver(left.scope, self.report, environment.outer)
        binder = Scalars(names, NoAggregates("FROM", self.report), subqueries, self.report)
        made = generate(left.plan, call, binder, self.report, outer)
        named = [f.name for f in made.plan.schema[made.width :]]
        if alias is not None:
            self.report.check(alias)
            listed = [c.name for c in alias.args.get("columns") or []]
            if listed and len(listed) != len(named):
                self.report.fail(
                    alias, f"there are {len(listed)} names for {len(named)} columns of a generator"
                )
            named = listed or named
        qualifier = alias.name if alias is not None else ""
        columns = tuple(
            ScopeColumn(qualifier, name, made.width + i, made.plan.schema[made.width + i])
            for i, name in enumerate(named)
        )
        return Source((made.plan,), (), left.scope.beside(Scope(columns, columns)))

    def _relation(self, node: exp.Expression, environment: Environment) -> Source:
        if node.args.get("pivots"):
            query = as_query(node, lambda q: self.bind_query(q, environment).schema, self.report)
            source = self._aliased(
                self._query(query.this, environment), "", query.args.get("alias")
            )
        elif isinstance(node, exp.Table) and makes_rows(node.this):
            self.report.check(node)
            source = self._generated(_ONE_ROW, node, False, environment)
        elif isinstance(node, exp.Table):
            plan, name = self._table(node, environment)
            source = self._aliased(plan, name, node.args.get("alias"))
        elif isinstance(node, exp.Subquery) and isinstance(node.this, (exp.Table, exp.Subquery)):
            self.report.check(node)
            source = self._relation(node.this, environment)
            if node.args.get("alias") is not None:
                names = _visible_plan(source)
                source = self._aliased(names, "", node.args["alias"])
        elif isinstance(node, exp.Subquery):
            self.report.check(node)
            source = self._aliased(self._query(node, environment), "", node.args.get("alias"))
        elif isinstance(node, exp.Values):
            source = self._aliased(self._query(node, environment), "", node.args.get("alias"))
        elif isinstance(node, exp.Lateral):
            source = self._lateral_query(node, environment)  # nothing is before it
        else:
            self.report.check(node)
            self.report.refuse(
                node,
                Refusal("this relation", "is not a table, a view or a query", "Name a table."),
            )
        joins = node.args.get("joins") or []
        for join in joins:
            source = self._join(source, join, environment)
        return source

    def _query(self, node: exp.Expression, environment: Environment) -> Plan:
        """A derived table: it sees the enclosing query, but no relation beside it."""
        plan = self.bind_query(node, environment)
        check_stored(plan, node, self.report)
        return plan

    def _lateral_query(self, node: exp.Lateral, environment: Environment) -> Source:
        self.report.check(node)
        if makes_rows(node.this):
            return self._generated(_ONE_ROW, node, False, environment)
        if not isinstance(node.this, exp.Subquery):
            self.report.refuse(
                node,
                Refusal(
                    "LATERAL with a table function",
                    "makes rows from arrays, maps or numbers",
                    "Store one row for each element.",
                ),
            )
        self.report.check(node.this)
        return self._aliased(self._query(node.this, environment), "", node.args.get("alias"))

    def _table(self, node: exp.Table, environment: Environment) -> tuple[Plan, str]:
        self.report.check(node)
        if not isinstance(node.this, exp.Identifier):
            self.report.refuse(
                node,
                Refusal(
                    f"the table function {describe(node.this)}",
                    "is not a table of the catalog",
                    "Store its rows in a table.",
                ),
            )
        name = node.name
        if folded(name) in environment.ctes:
            return placed(environment.ctes[folded(name)], *self.report.place(node)), name
        found = self.catalog.relation(name)
        if found is None and "called" in node.meta:
            raise self.report.refusal(
                node,
                Refusal(
                    str(node.meta["called"]),
                    "has no value before the clock of the session is set",
                    'Set it: db.advance(datetime), or sqlview.connect(clock="system").',
                ),
                ClockError,
            )
        if found is None:
            self.report.fail(
                node,
                f'table or view "{name}" does not exist',
                hint=suggestion(name, (*self.catalog.names(), *environment.ctes)),
            )
        place, alias = node.this.meta, node.args.get("alias")
        aliased = alias is not None and IMPLIED not in alias.meta
        self.references.add(Reference(found.name, place["start"], place["end"] + 1, aliased))
        return Scan(found.name, found.schema, found.is_stream), name

    def _aliased(self, plan: Plan, name: str, alias: exp.Expression | None) -> Source:
        if alias is None:
            return Source((plan,), (), relation_scope(name, plan))
        self.report.check(alias)
        scope = relation_scope(alias.name or name, rename(plan, alias, self.report))
        return Source((plan,), (), scope)

    # joins

    def _join(self, left: Source, node: exp.Expression, environment: Environment) -> Source:
        self.report.check(node)
        side, kind, method = (
            str(node.args.get(a) or "").upper() for a in ("side", "kind", "method")
        )
        known = kind in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI")
        if not known or method not in ("", "NATURAL") or side not in ("", "LEFT", "RIGHT", "FULL"):
            clause = " ".join(w for w in (method, side, kind) if w)
            self.report.refuse(
                node, Refusal(f"a {clause} JOIN", "is not read", "Write another kind of join.")
            )
        if kind == "OUTER" and not side:
            side = "FULL"
        if isinstance(node.this, exp.Lateral):
            if side in ("RIGHT", "FULL") or kind in ("SEMI", "ANTI") or method or _using(node):
                self.report.fail(
                    node,
                    "LATERAL stands behind an INNER, CROSS or LEFT JOIN",
                    "It is evaluated for each row before it.",
                    "Write another join, its condition with ON.",
                )
            return self._lateral_join(left, node, side == "LEFT", environment)
        right = self._relation(node.this, replace(environment, beside=left.scope))
        both = left.beside(right)
        names = [i.name for i in _using(node)]
        if method == "NATURAL":
            shared = {folded(c.name) for c in right.scope.visible}
            names = [c.name for c in left.scope.visible if folded(c.name) in shared]
        pairs = self._pairs(both.scope, len(left.scope.visible), names, node)
        condition, subqueries = self._condition(both, pairs, node, environment)
        form = kind if kind in ("SEMI", "ANTI") else side
        if form in _ONE_BY_ONE and condition is not None:
            if asks_pairs(condition, subqueries, left.width):
                plan = pairs_join(form, left.plan, right.plan, condition, subqueries, node)
                names_of = left if kind in ("SEMI", "ANTI") else both
                return Source((plan,), (), names_of.scope.typed(plan.schema))
        if kind in ("SEMI", "ANTI"):
            sides = _Sides(left, right, condition, subqueries, node)
            plan = SemiJoin(sides.left, sides.right, sides.condition, kind == "ANTI")
            scope = _shared_first(left.scope, [a for a, _ in pairs], [a for a, _ in pairs])
            return Source((first_columns(plan, left.plan.schema),), (), scope)
        if side:
            sides = _Sides(left, right, condition, subqueries, node)
            return _outer_join(sides, both.scope, side, pairs)
        keys = [a for a, _ in pairs]
        scope = _shared_first(both.scope, keys, [c for pair in pairs for c in pair])
        if condition is None:
            return Source(both.inputs, both.conditions, scope)
        if any(c >= FIRST for c in columns_used(condition)):
            return Source((filtered(both.plan, condition, node, subqueries),), (), scope)
        return Source(both.inputs, (*both.conditions, condition), scope)

    def _lateral_join(
        self, left: Source, node: exp.Expression, padded: bool, environment: Environment
    ) -> Source:
        """Each row of `left` with the rows of a query, or generator, that sees it."""
        if makes_rows(node.this.this):
            return self._generator_join(left, node, padded, environment)
        names = FromResolver(left.scope, self.report, environment.outer, environment.beside)
        right = self._lateral_query(node.this, environment.inside(names))
        both = left.beside(right)
        condition, subqueries = self._condition(both, [], node, environment)
        query = right.plan
        if padded and condition is not None:
            # A pair that does not meet it is none, so it is a filter of the query.
            around, own = range(left.width), range(left.width, both.width)
            query = meeting(query, around, own, condition, subqueries, node)
        plan = Apply(left.plan, query, "left" if padded else "inner", "lateral")
        if padded or condition is None:
            return Source((plan,), (), both.scope.typed(plan.schema))
        return Source((filtered(plan, condition, node, subqueries),), (), both.scope)

    def _generator_join(
        self, left: Source, node: exp.Expression, padded: bool, environment: Environment
    ) -> Source:
        self.report.check(node.this)
        source = self._generated(left, node.this, padded, environment)
        condition, subqueries = self._condition(source, [], node, environment)
        if condition is None:
            return source
        if padded:
            self.report.refuse(
                node,
                Refusal(
                    "LEFT JOIN LATERAL of a generator with a condition",
                    "would keep rows none of whose elements meet it",
                    "Write it as a subquery: LEFT JOIN LATERAL (SELECT … FROM explode(…) AS g(x) "
                    "WHERE …) AS s.",
                ),
            )
        return Source((filtered(source.plan, condition, node, subqueries),), (), source.scope)

    def _condition(
        self,
        both: Source,
        pairs: list[tuple[ScopeColumn, ScopeColumn]],
        node: exp.Expression,
        environment: Environment,
    ) -> tuple[Expr | None, Subqueries]:
        """What ON or USING asks of a pair of rows; None if nothing."""
        subqueries = Subqueries(self.bind_query, environment, self.report)
        on = node.args.get("on")
        if pairs:
            try:
                equal = [functions.compare("eq", a.reference(), b.reference()) for a, b in pairs]
            except TypeMismatch as mismatch:
                self.report.fail(node, mismatch.message, hint=mismatch.hint)
            return functions.chain("and", equal), subqueries
        if on is None or (isinstance(on, exp.Boolean) and on.this):
            return None, subqueries
        names = FromResolver(both.scope, self.report, environment.outer)
        binder = Scalars(names, NoAggregates("ON", self.report), subqueries, self.report)
        return binder.predicate(on, "ON"), subqueries

    def _pairs(
        self, scope: Scope, cut: int, names: list[str], node: exp.Expression
    ) -> list[tuple[ScopeColumn, ScopeColumn]]:
        """The columns of USING on both sides; the first `cut` visible ones are on the left."""
        left, right = scope.visible[:cut], scope.visible[cut:]
        return [(self._single(n, left, node), self._single(n, right, node)) for n in names]

    def _single(
        self, name: str, side: tuple[ScopeColumn, ...], node: exp.Expression
    ) -> ScopeColumn:
        found = [c for c in side if folded(c.name) == folded(name)]
        place = next((i for i in _using(node) if i.name == name), node)
        if not found:
            self.report.fail(
                place,
                f'column "{name}" of USING is not on both sides of the join',
                hint=suggestion(name, [c.name for c in side]),
            )
        if len(found) > 1:
            self.report.fail(
                place, f'column "{name}" of USING is ambiguous', "One side has it more than once."
            )
        return found[0]


class _Sides:
    """The inputs of an outer or semi join, and its condition over their columns.

    A subquery in ON is applied to the side whose columns it reads, below the join (one that reads
    both: planner.bind.dependent).
    """

    def __init__(
        self,
        left: Source,
        right: Source,
        condition: Expr | None,
        subqueries: Subqueries,
        node: exp.Expression,
    ) -> None:
        cut = left.width
        self.shown = (cut, right.width)
        first = Placement(left.plan, subqueries)
        second = Placement(right.plan, subqueries, lambda e, _: _shifted(e, -cut))
        placed: dict[int, tuple[bool, int]] = {}
        for column in sorted(columns_used(condition) if condition is not None else ()):
            if column < FIRST:
                placed[column] = (column >= cut, column - cut if column >= cut else column)
                continue
            value = subqueries.reference(column)
            reads = [c for c in subqueries.columns(value) if c < FIRST]
            on_right = all(c >= cut for c in reads)
            side = second if on_right else first
            found = side.place(value, node)
            assert isinstance(found, Column)
            placed[column] = (on_right, found.index)
        self.left, self.right = first.plan, second.plan
        self.condition = condition
        if condition is not None:
            offset = len(self.left.schema)
            moved = {c: i + offset if beyond else i for c, (beyond, i) in placed.items()}
            self.condition = remap(condition, moved)


def _outer_join(
    sides: _Sides, scope: Scope, side: str, pairs: list[tuple[ScopeColumn, ScopeColumn]]
) -> Source:
    """LEFT, RIGHT or FULL; the columns of USING once, first, never NULL on account of the join."""
    left, right, condition = sides.left, sides.right, sides.condition
    widths = (len(left.schema), len(right.schema))
    offset = widths[0]
    if side == "RIGHT":
        if condition is not None:
            moved = {
                i: i + widths[1] if i < widths[0] else i - widths[0] for i in range(sum(widths))
            }
            condition = remap(condition, moved)
        left, right, offset = right, left, 0
    plan: Plan = OuterJoin(left, right, side == "FULL", condition)
    columns = identity(plan.schema)
    start = widths[1] if side == "RIGHT" else 0
    exprs: tuple[Expr, ...] = columns[start : start + sides.shown[0]]
    exprs += columns[offset : offset + sides.shown[1]]
    fields = tuple(plan.schema[c.index] for c in exprs if isinstance(c, Column))
    keys = [b if side == "RIGHT" else a for a, b in pairs]
    if side == "FULL" and pairs:
        merged = [functions.coalesce((exprs[a.position], exprs[b.position])) for a, b in pairs]
        names = [a.name for a, _ in pairs]
        added = tuple(Field(n, e.type, e.nullable) for n, e in zip(names, merged, strict=True))
        keys = [ScopeColumn("", f.name, len(exprs) + i, f) for i, f in enumerate(added)]
        exprs, fields = (*exprs, *merged), fields + added
    hidden = [c for pair in pairs for c in pair]
    shown = _shared_first(scope, keys, hidden).typed(fields)
    return Source((project(plan, exprs, fields),), (), shown)


def _using(node: exp.Expression) -> list[exp.Expression]:
    return node.args.get("using") or []


def _shared_first(scope: Scope, keys: list[ScopeColumn], hidden: list[ScopeColumn]) -> Scope:
    """`*` shows the columns of USING once and first."""
    positions = {c.position for c in hidden}
    rest = tuple(c for c in scope.visible if c.position not in positions)
    return Scope(scope.columns, (*keys, *rest))


def _shifted(expr: Expr, offset: int) -> Expr:
    """Over a row with its columns at other places; subqueries stay where they are."""
    used = columns_used(expr)
    return remap(expr, {c: c + offset if c < FIRST else c for c in used})


def rename(plan: Plan, alias: exp.Expression, report: Report) -> Plan:
    """The plan under the column names of `alias (names…)`, if it has any."""
    names = [c.name for c in alias.args.get("columns") or []]
    if not names:
        return plan
    if len(names) != len(plan.schema):
        report.fail(
            alias,
            f'"{alias.name}" gives {len(names)} column names to {len(plan.schema)} columns',
        )
    fields = tuple(replace(f, name=n) for n, f in zip(names, plan.schema, strict=True))
    return Project(plan, identity(plan.schema), fields)


def _visible_plan(source: Source) -> Plan:
    """A parenthesised join under an alias: its visible columns in order."""
    columns = source.scope.visible
    fields = tuple(replace(c.field, name=c.name) for c in columns)
    return project(source.plan, tuple(c.reference() for c in columns), fields)


def project(plan: Plan, exprs: tuple[Expr, ...], schema: tuple[Field, ...]) -> Plan:
    """A projection, unless it would change nothing, not even names."""
    if exprs == identity(plan.schema) and schema == plan.schema:
        return plan
    return Project(plan, exprs, schema)


def placed(plan: Plan, line: int, column: int) -> Plan:
    """A relation that the environment knows, where the text names it: of one that is recursive the
    reference says where."""
    match plan:
        case RecursiveRef():
            return replace(plan, line=line, column=column)
        case Project(input=Filter(input=RecursiveRef() as ref) as own):
            there = replace(own, input=replace(ref, line=line, column=column))
            return replace(plan, input=there)
        case _:
            return plan
