"""Queries: SELECT, WITH, ORDER BY and LIMIT, around those of `sets`.

A query is bound inside out: FROM, WHERE, the select list, GROUP BY, HAVING, windows and QUALIFY,
then DISTINCT, ORDER BY and LIMIT. ORDER BY with LIMIT becomes a TopK whose ties are broken by the
output columns from left to right; columns that only ORDER BY needs are added below it and projected
away above. LIMIT alone is a TopK without an order, so its result is deterministic too; OFFSET alone
is a TopK that takes all the rows after it. ORDER BY alone says nothing about the bag of rows; it is
kept apart, for presentation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from planner.analysis.streams import retain_events
from planner.bind import nested, sets
from planner.bind.generators import generate
from planner.bind.grouping import AggregateCalls, Grouped
from planner.bind.grouping_sets import GroupingSets, grouping_sets
from planner.bind.naming import output_name
from planner.bind.nested import check_compared
from planner.bind.nodes import generator_name
from planner.bind.outer import Environment
from planner.bind.recursion import Recursions
from planner.bind.relations import Reference, Relations, Source, project, rename
from planner.bind.report import Refusal, Report, describe
from planner.bind.resolve import (
    FromResolver,
    HavingResolver,
    OrderResolver,
    Output,
    SelectResolver,
    check_reference,
)
from planner.bind.scalars import NoAggregates, OuterAggregates, Scalars, is_constant
from planner.bind.scope import Scope, ScopeColumn
from planner.bind.sessions import with_sessions
from planner.bind.subqueries import (
    FIRST,
    NoSubqueries,
    Placement,
    Subqueries,
    check_stored,
    filtered,
)
from planner.bind.time_windows import with_periods
from planner.bind.user import functions_of
from planner.bind.windows import Windowed, Windows
from planner.calculus.algebra import Plan, SortKey, TopK, identity, nullable
from planner.calculus.expr import Column, Expr
from planner.calculus.session_zone import bound_in
from planner.calculus.types import INT, Field, StructType
from planner.calculus.zones import UTC, Zone
from planner.context import CatalogReader
from planner.names import folded, quoted
from planner.parse import CreateView, Query
from planner.parse.tokens import shortened
from planner.room import with_room

#: The limit of an OFFSET alone.
_ALL_ROWS = 1 << 62


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A plan, and the order in which its rows are shown.

    `order` has the keys of the outermost ORDER BY, up to the first that is no output column.
    `zoned`: whether the plan depends on the time zone that it was bound in. `references`: where the
    text names what of the catalog.
    """

    plan: Plan
    order: tuple[SortKey, ...]
    zoned: bool = False
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sort:
    """A sort key by its expression over the row below the projection."""

    expr: Expr
    node: exp.Expression
    descending: bool
    nulls_first: bool


#: What becomes of a plan that is bound, in the time zone that it was bound in.
Fit: TypeAlias = Callable[[Plan, Report], Plan]


def bind_query(query: Query, catalog: CatalogReader, zone: Zone = UTC) -> BoundQuery:
    """Bind a parsed query, in a session of this time zone.

    Raises: BindError for names, types and calls that do not fit, UnsupportedError for what cannot
    be maintained; both with line and column in the statement's text.
    """
    bound = _bind(query, catalog, zone)
    return replace(bound, plan=retain_events(bound.plan))


def _bind(query: Query, catalog: CatalogReader, zone: Zone) -> BoundQuery:
    return with_room(lambda: _bound(query, catalog, zone))


def _field(output: Output) -> Field:
    """The column of a result; CHAR(n) stays CHAR(n), whose comparisons fill texts up."""
    chars = output.expr.chars if isinstance(output.expr, Column) else None
    return Field(output.name, output.expr.type, output.expr.nullable, chars, chars is not None)


def bind_fitted(query: Query, catalog: CatalogReader, fit: Fit, zone: Zone) -> BoundQuery:
    """Bind a query that is answered once, and cast its columns as `fit` does. Raises: as
    `bind_query`, and what `fit` does."""
    return with_room(lambda: _bound(query, catalog, zone, fit))


def _bound(query: Query, catalog: CatalogReader, zone: Zone, fit: Fit | None = None) -> BoundQuery:
    report = Report(query.source)
    with bound_in(zone) as session, functions_of(catalog):
        queries = _Queries(catalog, report)
        bound = queries.bind(query.tree, Environment({}))
        if fit is not None:
            bound = replace(bound, plan=fit(bound.plan, report))
    check_stored(bound.plan, query.tree, report)
    check_compared(bound.plan, query.tree, report)
    references = tuple(sorted(queries.relations.references, key=lambda r: r.start))
    return replace(bound, zoned=session.asked, references=references)


def bind_view(view: CreateView, catalog: CatalogReader, zone: Zone = UTC) -> BoundQuery:
    """Bind the query of a view under the view's column names, which must differ.

    Raises: as `bind_query`.
    """
    bound = _bind(view.query, catalog, zone)
    report, schema = Report(view.query.source), bound.plan.schema
    names = view.columns if view.columns is not None else tuple(f.name for f in schema)
    if len(names) != len(schema):
        report.fail(
            view.query.tree,
            f'view "{view.name}" has {len(names)} column names, its query {len(schema)} columns',
        )
    spelled = [folded(n) for n in names]
    for i, name in enumerate(spelled):
        if name in spelled[:i]:
            report.fail(
                view.query.tree,
                f'view "{view.name}" has more than one column "{names[i]}"',
                hint="Give the columns different aliases, or begin with CREATE MATERIALIZED VIEW"
                f" {quoted(view.name)} ({', '.join(_different(names))}) AS.",
            )
    fields = tuple(replace(f, name=n) for n, f in zip(names, schema, strict=True))
    renamed = project(bound.plan, identity(schema), fields)
    return replace(bound, plan=retain_events(renamed))


#: A grouping expression, its name, and its place.
_Key: TypeAlias = tuple[Expr, str, exp.Expression]


def _different(names: Sequence[str]) -> list[str]:
    """The names, with numbers behind those that were there already."""
    found: list[str] = []
    for name in names:
        taken, new, number = [folded(n) for n in (*names, *found)], name, 2
        if folded(name) in map(folded, found):
            while folded(new) in taken:
                new, number = f"{name}_{number}", number + 1
        found.append(quoted(new))
    return found


def _generator_of(item: exp.Expression) -> exp.Expression | None:
    """The generator that an item of a select list is, with or without names; else None."""
    call = item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item
    return call if generator_name(call) is not None else None


#: By item of a select list: what the generator there makes.
_Made: TypeAlias = dict[int, list[Output]]


class _Queries:
    def __init__(self, catalog: CatalogReader, report: Report) -> None:
        self.report = report
        self.relations = Relations(catalog, report, self.plan)
        self.recursions = Recursions(self.plan, self._with, report)
        self._has_periods = "window" in report.source.lower()

    def plan(self, node: exp.Expression, environment: Environment) -> Plan:
        return self.bind(node, environment).plan

    def bind(self, node: exp.Expression, environment: Environment) -> BoundQuery:
        if isinstance(node, exp.Select):
            return self._select(node, self._with(node, environment))
        self.report.check(node)
        environment = self._with(node, environment)
        if isinstance(node, exp.SetOperation):
            inner = BoundQuery(self._set_operation(node, environment), ())
        elif isinstance(node, exp.Values):
            inner = BoundQuery(self._values(node, environment), ())
        elif isinstance(node, exp.Subquery):
            inner = self.bind(node.this, environment)
            self._refuse_lost_order(node, inner)
        else:
            self.report.refuse(node, Refusal("this query", "is not read", "Write a SELECT."))
        return self._ordered_outputs(inner, node)

    # WITH

    def _with(self, node: exp.Expression, environment: Environment) -> Environment:
        with_ = node.args.get("with_")
        if with_ is None:
            return environment
        self.report.check(with_)
        known = dict(environment.ctes)
        own: set[str] = set()
        groups: list[tuple[exp.CTE, ...]] = [(cte,) for cte in with_.expressions]
        if with_.args.get("recursive"):
            groups = self.recursions.in_order(with_.expressions)
        for cte in with_.expressions:
            self.report.check(cte)
            alias = cte.args["alias"]
            self.report.check(alias)
            if folded(alias.name) in own:
                self.report.fail(alias, f'WITH defines "{alias.name}" more than once')
            own.add(folded(alias.name))
        for group in groups:
            bound: dict[str, Plan] = {}
            if with_.args.get("recursive") and self.recursions.is_recursive(group):
                bound = self.recursions.bind(group, replace(environment, ctes=dict(known)))
                known.update(bound)
            for cte in group:
                if folded(cte.alias) in bound:
                    continue
                plan = self.plan(cte.this, replace(environment, ctes=dict(known)))
                check_stored(plan, cte.this, self.report)
                known[folded(cte.alias)] = rename(plan, cte.args["alias"], self.report)
        return replace(environment, ctes=known)

    # set operations, VALUES

    def _set_operation(self, node: exp.SetOperation, environment: Environment) -> Plan:
        if type(node) is exp.Union:
            branches = self._branches(node, environment)
        else:
            branches = [self.plan(q, environment) for q in (node.this, node.expression)]
        kind = describe(node)
        unified = sets.unified(kind, branches, node.expression, self.report)
        check_stored(unified, node, self.report)
        return sets.set_operation(kind, unified, bool(node.args.get("distinct")))

    def _branches(self, node: exp.Union, environment: Environment) -> list[Plan]:
        """The inputs; a chain of UNION ALL, or of UNION, is one node."""
        others: list[exp.Expression] = []
        left: exp.Expression = node
        while not others or (type(left) is exp.Union and _is_part(node, left)):
            self.report.check(left)
            others.append(left.expression)
            left = left.this
        return [self.plan(query, environment) for query in (left, *reversed(others))]

    def _values(self, node: exp.Values, environment: Environment) -> Plan:
        names = FromResolver(Scope((), ()), self.report, None)
        without = NoSubqueries("VALUES", self.report)
        binder = Scalars(names, NoAggregates("VALUES", self.report), without, self.report)
        rows = []
        for row in node.expressions:
            self.report.check(row)
            rows.append([(binder.bind(e), e) for e in row.expressions])
        return sets.values(rows, node, self.report)

    # SELECT

    def _select(self, node: exp.Select, environment: Environment) -> BoundQuery:
        self.report.check(node)
        sessions = None
        if self._has_periods:
            node, sessions = with_sessions(with_periods(node, self.report), self.report)
        if not node.expressions:
            self.report.fail(node, "SELECT has no columns", hint="Name them, or write SELECT *.")
        source = self._from(node, environment)
        below = FromResolver(source.scope, self.report, environment.outer, environment.beside)
        input, generated = self._generated(node, source, below)
        width = len(input.schema)
        where = node.args.get("where")
        if where is not None:
            self.report.check(where)
            found = self._subqueries(environment)
            aggregates = OuterAggregates(below, "WHERE", self.report)
            rows = Scalars(below, aggregates, found, self.report)
            input = filtered(input, rows.predicate(where.this, "WHERE"), where.this, found)

        if sessions is not None:
            clause = NoAggregates("session_window", self.report)
            without = NoSubqueries("session_window", self.report)
            time = sessions.time(Scalars(below, clause, without, self.report))
            scope = sessions.named(source.scope, width, time)
            below = FromResolver(scope, self.report, environment.outer, environment.beside)
            width += 2

        group, having = node.args.get("group"), node.args.get("having")
        sets = None
        if group is not None:
            self.report.check(group)
            sets = grouping_sets(group, self.report)
        if sets is not None:  # a key is NULL where it is not in the set
            nullable_scope = source.scope.typed(nullable(input.schema))
            below = FromResolver(nullable_scope, self.report, environment.outer, environment.beside)
        is_total = sets is not None and sets.is_total
        has_keys = group is not None and bool(group.expressions) and not is_total
        found = self._subqueries(environment)
        calls = AggregateCalls(below, width, has_keys, found, self.report)
        windows = Windows(node, below, self.report)
        outputs = self._select_list(node, below, calls, found, windows, generated)
        if generated and (group is not None or calls.calls or having is not None):
            self.report.refuse(
                next(iter(generated.values()))[0].node,
                Refusal(
                    "a generator beside aggregates",
                    "would make rows of groups",
                    "Aggregate in a subquery of FROM.",
                ),
            )
        keys: tuple[_Key, ...] = ()
        if group is not None and group.args.get("all"):
            if any(folded(c.name) == "all" for c in source.scope.visible):
                self.report.fail(
                    group,
                    "GROUP BY ALL may mean a column here",
                    "There is a column called all.",
                    "Write `all` in backticks to group by it, or give it another name.",
                )
            keys = _not_aggregated(outputs, width, found)
        elif group is not None:
            nodes = group.expressions if sets is None else sets.nodes
            keys = tuple(self._group_key(n, outputs, below, width, found) for n in nodes)
        if sessions is not None:
            input = sessions.plan(input, time, [key for key, _, _ in keys], self.report)
        distinct = self._is_distinct(node)
        condition: Expr | None = None
        if having is not None:
            self.report.check(having)
            names = HavingResolver(outputs, below, [key for key, _, _ in keys], calls)
            above = Scalars(names, calls, found, self.report)
            condition = above.predicate(having.this, "HAVING")
        qualify = node.args.get("qualify")
        chosen: list[tuple[Expr, exp.Expression]] = []
        if qualify is not None:
            self.report.check(qualify)
            names = HavingResolver(outputs, below, ())
            above = Scalars(names, calls, found, self.report, windows)
            chosen.append((above.predicate(qualify.this, "QUALIFY"), qualify.this))
            if not windows.calls:
                self.report.fail(qualify, "QUALIFY needs a window function", hint="Use WHERE.")
        resolver = OrderResolver(outputs, below, distinct, self.report)
        sorts = self._sorts(node, outputs, Scalars(resolver, calls, found, self.report, windows))

        placement = Placement(input, found)
        if group is not None or calls.calls or calls.groupings:
            grouped = Grouped(placement, keys, calls, self.report, _members(sets, keys))
            placement = Placement(grouped.plan, found, grouped.above)
            if having is not None and condition is not None:
                placement.filter(condition, having.this)
        elif having is not None:
            self.report.fail(
                having.this, "HAVING needs GROUP BY or an aggregate", hint="Use WHERE."
            )
        if windows.calls:
            parts = Scalars(SelectResolver(below, outputs), calls, found, self.report, windows)
            further = [*chosen, *((s.expr, s.node) for s in sorts)]
            windowed = Windowed(placement, windows, outputs, further, parts.bind)
            check_stored(windowed.plan, node, self.report)
            placement = Placement(windowed.plan, found, windowed.above)
            for predicate, place in chosen:
                placement.filter(predicate, place)
        placed = [replace(o, expr=placement.place(o.expr, o.node)) for o in outputs]
        sorts = [replace(s, expr=placement.place(s.expr, s.node)) for s in sorts]
        return self._finish(node, placement.plan, placed, sorts, distinct)

    def _from(self, node: exp.Select, environment: Environment) -> Source:
        from_ = node.args.get("from_")
        if from_ is None:
            return Source((sets.ONE_ROW,), (), Scope((), ()))
        self.report.check(from_)
        source = self.relations.bind(from_.this, node.args.get("joins") or [], environment)
        for view in node.args.get("laterals") or []:
            source = self.relations.view(source, view, environment)
        return source

    def _generated(
        self, node: exp.Select, source: Source, below: FromResolver
    ) -> tuple[Plan, _Made]:
        """The plan of FROM with what the generator in the select list makes, if there is one."""
        found = [(item, call) for item in node.expressions if (call := _generator_of(item))]
        if not found:
            return source.plan, {}
        (item, call), *others = found
        if others:
            self.report.fail(
                others[0][1], "a select list has one generator", hint="Use LATERAL VIEW for others."
            )
        without = NoSubqueries("a generator", self.report)
        binder = Scalars(below, NoAggregates("a generator", self.report), without, self.report)
        made = generate(source.plan, call, binder, self.report)
        names = made.names
        if item is not call:
            self.report.check(item)
            given = item.expressions if isinstance(item, exp.Aliases) else [item.args["alias"]]
            if len(given) != len(names):
                self.report.fail(
                    item, f"there are {len(given)} names for {len(names)} columns of a generator"
                )
            names = [g.name for g in given]
        columns = identity(made.plan.schema)[made.width :]
        outputs = [Output(n, c, call, True) for n, c in zip(names, columns, strict=True)]
        return made.plan, {id(item): outputs}

    def _subqueries(self, environment: Environment) -> Subqueries:
        return Subqueries(self.plan, environment, self.report)

    def _is_distinct(self, node: exp.Select) -> bool:
        distinct = node.args.get("distinct")
        if distinct is not None:
            self.report.check(distinct)
        return distinct is not None

    def _select_list(
        self,
        node: exp.Select,
        below: FromResolver,
        calls: AggregateCalls,
        subqueries: Subqueries,
        windows: Windows,
        generated: _Made,
    ) -> list[Output]:
        outputs: list[Output] = []
        names = SelectResolver(below, outputs)
        binder = Scalars(names, calls, subqueries, self.report, windows)
        for item in node.expressions:
            if id(item) in generated:
                outputs += generated[id(item)]
            elif isinstance(item, exp.Star):
                if not below.scope.visible:
                    self.report.fail(item, "there are no columns that * could stand for")
                columns = self._starred(item, below.scope.visible)
                outputs += [Output(c.name, c.reference(), item, False) for c in columns]
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                columns = below.scope.of_relation(item.table)
                fields = [] if columns else self._fields_of(item, below)
                outputs += [Output(n, e, item, False) for n, e in fields]
                if fields:
                    continue
                if not columns:
                    self.report.fail(item, f'relation "{item.table}" of * is not in FROM')
                columns = self._starred(item.this, columns)
                outputs += [Output(c.name, c.reference(), item, False) for c in columns]
            elif isinstance(item, exp.Alias):
                self.report.check(item)
                name = item.args["alias"]
                if not isinstance(name, exp.Identifier):
                    self.report.fail(item, f"{describe(name)} is no column alias")
                outputs.append(Output(name.this, binder.bind(item.this), item.this, True))
            else:
                expr = binder.bind(item)  # which refuses what has no name
                outputs.append(Output(output_name(item), expr, item, False))
        return outputs

    def _fields_of(self, item: exp.Column, below: FromResolver) -> list[tuple[str, Expr]]:
        """[relation.]column.* of a struct; none of anything else."""
        named = exp.Column(this=item.args["table"].copy(), table=item.args.get("db"))
        value = below.reach(named)
        if value is None or not isinstance(value.type, StructType) or item.args.get("catalog"):
            return []
        self.report.check(item.this)
        if item.this.args.get("except_"):
            self.report.fail(item, "* EXCEPT is of relations, not of structs")
        return [(f.name, nested.field(value, f.name)) for f in value.type.fields]

    def _starred(self, star: exp.Star, columns: tuple[ScopeColumn, ...]) -> tuple[ScopeColumn, ...]:
        """The columns without those of its EXCEPT."""
        self.report.check(star)
        for node in star.args.get("except_") or ():
            if not isinstance(node, exp.Column):
                self.report.fail(node, "EXCEPT takes names of columns, and nothing else")
            check_reference(node, self.report)
            named = [
                c
                for c in columns
                if folded(c.name) == folded(node.name)
                and (not node.table or folded(c.qualifier) == folded(node.table))
            ]
            if len(named) != 1:
                problem = "is ambiguous" if named else "is not one of *, or is there twice"
                self.report.fail(node, f'column "{node.name}" of EXCEPT {problem}')
            columns = tuple(c for c in columns if c is not named[0])
        if not columns:
            self.report.fail(star, "EXCEPT leaves no column of *")
        return columns

    # GROUP BY

    def _group_key(
        self,
        node: exp.Expression,
        outputs: Sequence[Output],
        below: FromResolver,
        width: int,
        subqueries: Subqueries,
    ) -> _Key:
        """An item of GROUP BY. `width`: the columns of FROM."""
        aliased = None
        ordinal = _ordinal(node)
        if ordinal is not None:
            aliased = self._at(ordinal, outputs, node, "GROUP BY")
        elif isinstance(node, exp.Column) and not node.table:
            check_reference(node, self.report)
            if below.find(node) is None:
                aliased = next(
                    (o for o in outputs if o.aliased and folded(o.name) == folded(node.name)),
                    None,
                )
        if aliased is None:
            clause = NoAggregates("GROUP BY", self.report)
            binder = Scalars(below, clause, subqueries, self.report)
            return binder.bind(node), output_name(node), node
        if _is_aggregated(aliased, width, subqueries):
            self.report.fail(node, "an aggregate is not allowed in GROUP BY")
        return aliased.expr, aliased.name, aliased.node

    def _at(
        self, ordinal: int, outputs: Sequence[Output], node: exp.Expression, clause: str
    ) -> Output:
        if not 1 <= ordinal <= len(outputs):
            self.report.fail(
                node,
                f"{clause} position {shortened(node.name)} is not in the select list",
                f"It has {len(outputs)} column{'s' if len(outputs) > 1 else ''}.",
            )
        return outputs[ordinal - 1]

    # ORDER BY, LIMIT

    def _sorts(
        self, node: exp.Expression, outputs: Sequence[Output], binder: Scalars
    ) -> list[_Sort]:
        order = node.args.get("order")
        if order is None:
            return []
        self.report.check(order)
        sorts = []
        for item in order.expressions:
            self.report.check(item)
            ordinal = _ordinal(item.this)
            if ordinal is not None:
                expr = self._at(ordinal, outputs, item.this, "ORDER BY").expr
            else:
                expr = binder.bind(item.this)
            descending = bool(item.args.get("desc"))
            sorts.append(_Sort(expr, item.this, descending, bool(item.args.get("nulls_first"))))
        # A constant does not order; and no aggregate node can carry one as a column.
        return [s for s in sorts if not is_constant(s.expr)]

    def _finish(
        self,
        node: exp.Expression,
        input: Plan,
        outputs: Sequence[Output],
        sorts: Sequence[_Sort],
        distinct: bool,
    ) -> BoundQuery:
        """Project, DISTINCT, ORDER BY and LIMIT."""
        exprs = [o.expr for o in outputs]
        schema = [_field(o) for o in outputs]
        limit = self._limit(node)
        keys: list[SortKey] = []
        for sort in sorts:
            if sort.expr not in exprs:
                if distinct:
                    self.report.fail(
                        sort.node, "ORDER BY of SELECT DISTINCT must be in the select list"
                    )
                exprs.append(sort.expr)
                name = output_name(sort.node)
                schema.append(Field(name, sort.expr.type, sort.expr.nullable))
            keys.append(SortKey(exprs.index(sort.expr), sort.descending, sort.nulls_first))
        width = len(outputs)
        shown = _shown(keys, width)
        if limit is None:
            plan = project(input, tuple(exprs[:width]), tuple(schema[:width]))
            if distinct:
                check_stored(plan, node, self.report)
                plan = sets.distinct(plan)
            return BoundQuery(plan, shown)
        plan = project(input, tuple(exprs), tuple(schema))
        check_stored(plan, node, self.report)
        plan = sets.distinct(plan) if distinct else plan
        return BoundQuery(_top(plan, tuple(keys), width, limit), shown)

    def _ordered_outputs(self, inner: BoundQuery, node: exp.Expression) -> BoundQuery:
        """ORDER BY and LIMIT around a UNION or a query in parentheses: over its columns alone."""
        columns = identity(inner.plan.schema)
        outputs = [Output(c.name, c, node, False) for c in columns]
        resolver = OrderResolver(outputs, None, False, self.report)
        clause = "this ORDER BY"
        binder = Scalars(
            resolver,
            NoAggregates(clause, self.report),
            NoSubqueries(clause, self.report),
            self.report,
        )
        sorts = self._sorts(node, outputs, binder)
        if sorts:
            return self._finish(node, inner.plan, outputs, sorts, False)
        limit = self._limit(node)
        if limit is None:
            return inner
        width = len(columns)
        return BoundQuery(_top(inner.plan, inner.order, width, limit), inner.order)

    def _refuse_lost_order(self, node: exp.Subquery, inner: BoundQuery) -> None:
        """(SELECT … ORDER BY x) LIMIT n takes its rows in the order of x, which must be known."""
        order = node.this.args.get("order")
        takes = node.args.get("limit") is not None and node.args.get("order") is None
        if takes and order is not None and len(inner.order) < len(order.expressions):
            self.report.refuse(
                order,
                Refusal(
                    "this ORDER BY below LIMIT",
                    "sorts by what is no output column of the parentheses",
                    "Move LIMIT into the parentheses.",
                ),
            )

    def _limit(self, node: exp.Expression) -> tuple[int, int] | None:
        """(limit, offset), or None where all rows stay."""
        limit, offset = node.args.get("limit"), node.args.get("offset")
        for clause in (limit, offset):
            if clause is not None:
                self.report.check(clause)
        skipped = self._count(offset.expression, "OFFSET") if offset is not None else 0
        if limit is None or limit.expression.name.upper() == "ALL":
            return (_ALL_ROWS, skipped) if skipped else None
        return self._count(limit.expression, "LIMIT"), skipped

    def _count(self, node: exp.Expression, clause: str) -> int:
        count = _ordinal(node)
        if count is not None and 0 <= count <= INT.max:
            return count
        raise self.report.error(node, f"{clause} needs a number from 0 to {INT.max}, as a literal")


def _is_aggregated(output: Output, width: int, subqueries: Subqueries) -> bool:
    return any(width <= c < FIRST for c in subqueries.columns(output.expr))


def _not_aggregated(
    outputs: Sequence[Output], width: int, subqueries: Subqueries
) -> tuple[_Key, ...]:
    """What GROUP BY ALL groups by. `width`: the columns of FROM."""
    return tuple(
        (o.expr, o.name, o.node) for o in outputs if not _is_aggregated(o, width, subqueries)
    )


def _members(sets: GroupingSets | None, keys: Sequence[_Key]) -> list[frozenset[int]] | None:
    """Of each set the keys that it has, equal ones counted once."""
    if sets is None or sets.is_total:
        return None
    distinct = list(dict.fromkeys(expr for expr, _, _ in keys))
    places = [distinct.index(expr) for expr, _, _ in keys]
    return [frozenset(places[i] for i in members) for members in sets.sets]


def _ordinal(node: exp.Expression) -> int | None:
    """The number from 0 on that the node is, or None; -1 for one of 20 digits and more."""
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        return int(node.this) if len(node.this) < 20 else -1
    return None


def _is_part(outer: exp.Expression, inner: exp.Expression) -> bool:
    """Whether `inner`, the left side in a chain under `outer`, is part of one union with it: UNION
    leaves no row twice, whether its left side had some or not."""
    return not (
        (inner.args.get("distinct") and not outer.args.get("distinct"))
        or any(inner.args.get(a) for a in ("with_", "order", "limit", "offset"))
    )


def _shown(keys: Sequence[SortKey], width: int) -> tuple[SortKey, ...]:
    """The keys before the first that is not among the output columns."""
    shown = []
    for key in keys:
        if key.column >= width:
            break
        shown.append(key)
    return tuple(shown)


def _top(plan: Plan, keys: tuple[SortKey, ...], width: int, limit: tuple[int, int]) -> Plan:
    """TopK over the output columns and those that only `keys` needs, which then go."""
    top = TopK(plan, keys, tuple(range(width)), limit[0], limit[1])
    return project(top, identity(plan.schema)[:width], plan.schema[:width])
