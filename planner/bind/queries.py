"""Queries: SELECT, UNION, WITH, ORDER BY and LIMIT.

A query is bound inside out: FROM, WHERE, the select list, GROUP BY, HAVING, then DISTINCT, ORDER BY
and LIMIT. ORDER BY with LIMIT becomes a TopK whose ties are broken by the output columns from left
to right; columns that only ORDER BY needs are added below it and projected away above. LIMIT alone
is a TopK without an order, so its result is deterministic too. ORDER BY alone says nothing about
the bag of rows; it is kept apart, for presentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner import coercion
from planner.algebra import Aggregate, Filter, Plan, SortKey, TopK, UnionAll, identity
from planner.bind.grouping import AggregateCalls, Grouped
from planner.bind.naming import output_name
from planner.bind.relations import Relations, project, rename
from planner.bind.report import Refusal, Report
from planner.bind.resolve import (
    FromResolver,
    HavingResolver,
    OrderResolver,
    Output,
    SelectResolver,
    check_reference,
)
from planner.bind.scalars import NoAggregates, Scalars, is_constant
from planner.bind.scope import Ctes
from planner.context import CatalogReader
from planner.errors import UnsupportedError
from planner.expr import Column, Expr, columns_used
from planner.parse import CreateView, Query
from planner.types import INT, Field, NullType

_OFFSET_ALONE = Refusal(
    "OFFSET without LIMIT", "would keep all rows in order", "Add a LIMIT, or leave OFFSET out."
)
_NO_FROM = Refusal(
    "a SELECT without FROM", "reads no table", "Select the values from a table or view."
)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A plan, and the order in which its rows are shown.

    `order` has the keys of the outermost ORDER BY, up to the first that is no output column.
    """

    plan: Plan
    order: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class _Sort:
    """A sort key by its expression over the row below the projection."""

    expr: Expr
    node: exp.Expression
    descending: bool
    nulls_first: bool


def bind_query(query: Query, catalog: CatalogReader) -> BoundQuery:
    """Bind a parsed query.

    Raises: BindError for names, types and calls that do not fit, UnsupportedError for what cannot
    be maintained; both with line and column in the statement's text.
    """
    try:
        return _Queries(catalog, Report(query.source)).bind(query.tree, {})
    except RecursionError:
        raise UnsupportedError(
            "cannot maintain a query that is nested so deeply",
            hint="Write long chains of OR as IN, and split the query into views.",
        ) from None


def bind_view(view: CreateView, catalog: CatalogReader) -> BoundQuery:
    """Bind the query of a view under the view's column names, which must differ.

    Raises: as `bind_query`.
    """
    bound = bind_query(view.query, catalog)
    report, schema = Report(view.query.source), bound.plan.schema
    names = view.columns if view.columns is not None else tuple(f.name for f in schema)
    if len(names) != len(schema):
        report.fail(
            view.query.tree,
            f'view "{view.name}" has {len(names)} column names, its query {len(schema)} columns',
        )
    spelled = [n.lower() for n in names]
    for i, name in enumerate(spelled):
        if name in spelled[:i]:
            report.fail(
                view.query.tree,
                f'view "{view.name}" has more than one column "{names[i]}"',
                hint="Give the columns different aliases.",
            )
    fields = tuple(Field(n, f.type, f.nullable) for n, f in zip(names, schema, strict=True))
    return BoundQuery(project(bound.plan, identity(schema), fields), bound.order)


class _Queries:
    def __init__(self, catalog: CatalogReader, report: Report) -> None:
        self.report = report
        self.relations = Relations(catalog, report, lambda node, ctes: self.bind(node, ctes).plan)

    def bind(self, node: exp.Expression, ctes: Ctes) -> BoundQuery:
        if isinstance(node, exp.Select):
            return self._select(node, self._with(node, ctes))
        self.report.check(node)
        ctes = self._with(node, ctes)
        if isinstance(node, exp.Union):
            inner = BoundQuery(self._union(node, ctes), ())
        elif isinstance(node, exp.Subquery):
            inner = self.bind(node.this, ctes)
            self._refuse_lost_order(node, inner)
        else:
            self.report.refuse(node, Refusal("this query", "is not read", "Write a SELECT."))
        return self._ordered_outputs(inner, node)

    # WITH

    def _with(self, node: exp.Expression, ctes: Ctes) -> Ctes:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        self.report.check(with_)
        known = dict(ctes)
        own: set[str] = set()
        for cte in with_.expressions:
            self.report.check(cte)
            alias = cte.args["alias"]
            self.report.check(alias)
            if alias.name.lower() in own:
                self.report.fail(alias, f'WITH defines "{alias.name}" more than once')
            own.add(alias.name.lower())
            plan = self.bind(cte.this, dict(known)).plan
            known[alias.name.lower()] = rename(plan, alias, self.report)
        return known

    # UNION

    def _union(self, node: exp.Union, ctes: Ctes) -> Plan:
        branches = self._branches(node, ctes)
        first, *others = branches
        kinds = [f.type for f in first.schema]
        nullable = [f.nullable for f in first.schema]
        for plan in others:
            if len(plan.schema) != len(kinds):
                self.report.fail(
                    node.expression,
                    f"UNION joins queries of {len(kinds)} and {len(plan.schema)} columns",
                )
            for i, field in enumerate(plan.schema):
                wider = coercion.common_type(kinds[i], field.type)
                if wider is None:
                    self.report.fail(
                        node.expression,
                        f"column {i + 1} of UNION has types {kinds[i]} and {field.type}",
                        hint="Cast one of them.",
                    )
                kinds[i] = wider
                nullable[i] = nullable[i] or field.nullable
        names = [f.name for f in first.schema]
        schema = tuple(Field(n, k, b) for n, k, b in zip(names, kinds, nullable, strict=True))
        union = UnionAll(tuple(_cast_columns(b, schema) for b in branches), schema)
        return _distinct(union) if node.args.get("distinct") else union

    def _branches(self, node: exp.Union, ctes: Ctes) -> list[Plan]:
        """The inputs; a chain of UNION ALL is one node."""
        left = node.this
        chained = (
            type(left) is exp.Union
            and not node.args.get("distinct")
            and not left.args.get("distinct")
            and not any(left.args.get(a) for a in ("with_", "order", "limit", "offset"))
        )
        if chained:
            self.report.check(left)
        first = self._branches(left, ctes) if chained else [self.bind(left, ctes).plan]
        return [*first, self.bind(node.expression, ctes).plan]

    # SELECT

    def _select(self, node: exp.Select, ctes: Ctes) -> BoundQuery:
        self.report.check(node)
        from_ = node.args.get("from_")
        if from_ is None:
            self.report.refuse(node, _NO_FROM)
        self.report.check(from_)
        source = self.relations.bind(from_.this, node.args.get("joins") or [], ctes)
        below = FromResolver(source.scope, self.report)
        input = source.plan
        where = node.args.get("where")
        if where is not None:
            self.report.check(where)
            rows = Scalars(below, NoAggregates("WHERE", self.report), self.report)
            input = Filter(input, rows.predicate(where.this, "WHERE"))

        group = node.args.get("group")
        has_keys = group is not None and bool(group.expressions)
        calls = AggregateCalls(below, len(input.schema), has_keys, self.report)
        outputs = self._select_list(node, below, calls)
        width = len(input.schema)
        keys = self._group_keys(group, outputs, below, width) if group is not None else ()
        distinct = self._is_distinct(node)
        having = node.args.get("having")
        condition: Expr | None = None
        if having is not None:
            self.report.check(having)
            names = HavingResolver(outputs, below, [key for key, _ in keys])
            above = Scalars(names, calls, self.report)
            condition = above.predicate(having.this, "HAVING")
        resolver = OrderResolver(outputs, below, distinct, self.report)
        sorts = self._sorts(node, outputs, Scalars(resolver, calls, self.report))

        if group is not None or calls.calls:
            grouped = Grouped(input, keys, tuple(calls.calls), self.report)
            input = grouped.plan
            if having is not None and condition is not None:
                input = Filter(input, grouped.above(condition, having.this))
            outputs = [
                Output(o.name, grouped.above(o.expr, o.node), o.node, o.aliased) for o in outputs
            ]
            sorts = [
                _Sort(grouped.above(s.expr, s.node), s.node, s.descending, s.nulls_first)
                for s in sorts
            ]
        elif having is not None:
            self.report.fail(
                having.this, "HAVING needs GROUP BY or an aggregate", hint="Use WHERE."
            )
        return self._finish(node, input, outputs, sorts, distinct)

    def _is_distinct(self, node: exp.Select) -> bool:
        distinct = node.args.get("distinct")
        if distinct is not None:
            self.report.check(distinct)
        return distinct is not None

    def _select_list(
        self, node: exp.Select, below: FromResolver, calls: AggregateCalls
    ) -> list[Output]:
        outputs: list[Output] = []
        binder = Scalars(SelectResolver(below, outputs), calls, self.report)
        for item in node.expressions:
            if isinstance(item, exp.Star):
                self.report.check(item)
                columns = below.scope.visible
                outputs += [Output(c.name, c.reference(), item, False) for c in columns]
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                self.report.check(item.this)
                columns = below.scope.of_relation(item.table)
                if not columns:
                    self.report.fail(item, f'relation "{item.table}" of * is not in FROM')
                outputs += [Output(c.name, c.reference(), item, False) for c in columns]
            elif isinstance(item, exp.Alias):
                self.report.check(item)
                name = item.args["alias"]
                if not isinstance(name, exp.Identifier):
                    self.report.fail(item, f"{name.sql()} is no column alias")
                outputs.append(Output(name.this, self._item(binder, item.this), item.this, True))
            else:
                outputs.append(Output(output_name(item), self._item(binder, item), item, False))
        return outputs

    def _item(self, binder: Scalars, node: exp.Expression) -> Expr:
        bound = binder.bind(node)
        if isinstance(bound.type, NullType):
            self.report.fail(
                node, "a column of type VOID cannot be stored", hint="Cast NULL to a type."
            )
        return bound

    # GROUP BY

    def _group_keys(
        self, group: exp.Expression, outputs: Sequence[Output], below: FromResolver, width: int
    ) -> tuple[tuple[Expr, str], ...]:
        """The keys and their names. `width`: the columns of FROM; those beyond are aggregates."""
        self.report.check(group)
        binder = Scalars(below, NoAggregates("GROUP BY", self.report), self.report)
        keys: list[tuple[Expr, str]] = []
        for node in group.expressions:
            aliased = None
            ordinal = _ordinal(node)
            if ordinal is not None:
                aliased = self._at(ordinal, outputs, node, "GROUP BY")
            elif isinstance(node, exp.Column) and not node.table:
                check_reference(node, self.report)
                if below.find(node) is None:
                    aliased = next(
                        (o for o in outputs if o.aliased and o.name.lower() == node.name.lower()),
                        None,
                    )
            if aliased is None:
                keys.append((binder.bind(node), output_name(node)))
                continue
            if max(columns_used(aliased.expr), default=0) >= width:
                self.report.fail(node, "an aggregate is not allowed in GROUP BY")
            keys.append((aliased.expr, aliased.name))
        return tuple(keys)

    def _at(
        self, ordinal: int, outputs: Sequence[Output], node: exp.Expression, clause: str
    ) -> Output:
        if not 1 <= ordinal <= len(outputs):
            self.report.fail(
                node,
                f"{clause} position {ordinal} is not in the select list",
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
        schema = [Field(o.name, o.expr.type, o.expr.nullable) for o in outputs]
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
            return BoundQuery(_distinct(plan) if distinct else plan, shown)
        plan = project(input, tuple(exprs), tuple(schema))
        plan = _distinct(plan) if distinct else plan
        return BoundQuery(_top(plan, tuple(keys), width, limit), shown)

    def _ordered_outputs(self, inner: BoundQuery, node: exp.Expression) -> BoundQuery:
        """ORDER BY and LIMIT around a UNION or a query in parentheses: over its columns alone."""
        columns = identity(inner.plan.schema)
        outputs = [Output(c.name, c, node, False) for c in columns]
        resolver = OrderResolver(outputs, None, False, self.report)
        binder = Scalars(resolver, NoAggregates("this ORDER BY", self.report), self.report)
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
            if offset is not None and skipped:
                self.report.refuse(offset, _OFFSET_ALONE)
            return None
        return self._count(limit.expression, "LIMIT"), skipped

    def _count(self, node: exp.Expression, clause: str) -> int:
        count = _ordinal(node)
        if count is not None and count <= INT.max:
            return count
        raise self.report.error(node, f"{clause} needs a number from 0 to {INT.max}, as a literal")


def _ordinal(node: exp.Expression) -> int | None:
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        return int(node.this)
    return None


def _distinct(plan: Plan) -> Plan:
    return Aggregate(plan, identity(plan.schema), (), plan.schema)


def _cast_columns(plan: Plan, schema: tuple[Field, ...]) -> Plan:
    columns = identity(plan.schema)
    exprs = tuple(coercion.cast(c, f.type) for c, f in zip(columns, schema, strict=True))
    if all(isinstance(e, Column) for e in exprs):
        return plan
    fields = tuple(
        Field(f.name, e.type, e.nullable) for f, e in zip(plan.schema, exprs, strict=True)
    )
    return project(plan, exprs, fields)


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
