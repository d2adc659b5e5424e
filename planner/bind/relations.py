"""FROM: tables, views, CTEs, derived tables and inner joins, flattened into one n-way join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from planner import functions
from planner.algebra import Join, Plan, Project, Scan, identity
from planner.bind.report import Refusal, Report, suggestion
from planner.bind.resolve import FromResolver
from planner.bind.scalars import NoAggregates, Scalars
from planner.bind.scope import Ctes, Scope, ScopeColumn, relation_scope
from planner.coercion import TypeMismatch
from planner.context import CatalogReader
from planner.expr import Expr, conjunction, remap
from planner.types import Field

_OUTER_JOIN = Refusal(
    "",
    "keeps rows without a match, which comes and goes with rows of the other side",
    "Write an inner join; rows without a match are not part of its result.",
)
_SEMI_JOIN = Refusal(
    "", "depends on whether a match exists", "Write an inner join with a SELECT DISTINCT subquery."
)


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
        predicate = conjunction(self.conditions) if self.conditions else None
        return Join(self.inputs, predicate)

    def beside(self, right: Source) -> Source:
        offset = self.width
        moved = {i: i + offset for i in range(right.width)}
        return Source(
            self.inputs + right.inputs,
            self.conditions + tuple(remap(c, moved) for c in right.conditions),
            self.scope.beside(right.scope.shifted(offset)),
        )


class Relations:
    """Binds FROM clauses; `bind_query` binds the queries inside them."""

    def __init__(
        self,
        catalog: CatalogReader,
        report: Report,
        bind_query: Callable[[exp.Expression, Ctes], Plan],
    ) -> None:
        self.catalog = catalog
        self.report = report
        self.bind_query = bind_query

    def bind(self, relation: exp.Expression, joins: list[exp.Expression], ctes: Ctes) -> Source:
        source = self._relation(relation, ctes)
        for join in joins:
            source = self._join(source, join, ctes)
        return source

    def _relation(self, node: exp.Expression, ctes: Ctes) -> Source:
        if isinstance(node, exp.Table):
            plan, name = self._table(node, ctes)
            source = self._aliased(plan, name, node.args.get("alias"))
        elif isinstance(node, exp.Subquery) and isinstance(node.this, (exp.Table, exp.Subquery)):
            self.report.check(node)
            source = self._relation(node.this, ctes)
            if node.args.get("alias") is not None:
                names = _visible_plan(source)
                source = self._aliased(names, "", node.args["alias"])
        elif isinstance(node, exp.Subquery):
            self.report.check(node)
            source = self._aliased(self.bind_query(node, ctes), "", node.args.get("alias"))
        else:
            self.report.check(node)
            self.report.refuse(
                node,
                Refusal("this relation", "is not a table, a view or a query", "Name a table."),
            )
        for join in node.args.get("joins") or []:
            source = self._join(source, join, ctes)
        return source

    def _table(self, node: exp.Table, ctes: Ctes) -> tuple[Plan, str]:
        self.report.check(node)
        if not isinstance(node.this, exp.Identifier):
            self.report.refuse(
                node,
                Refusal(
                    f"the table function {node.this.sql(dialect='spark')}",
                    "is not a table of the catalog",
                    "Store its rows in a table.",
                ),
            )
        name = node.name
        if node.args.get("db") is not None:
            self.report.refuse(
                node,
                Refusal(
                    "a qualified table name",
                    "names a catalog or schema, and this library has one flat catalog",
                    "Use a simple name.",
                ),
            )
        if name.lower() in ctes:
            return ctes[name.lower()], name
        found = self.catalog.relation(name)
        if found is None:
            self.report.fail(
                node,
                f'table or view "{name}" does not exist',
                hint=suggestion(name, (*self.catalog.names(), *ctes)),
            )
        return Scan(found.name, found.schema), name

    def _aliased(self, plan: Plan, name: str, alias: exp.Expression | None) -> Source:
        if alias is None:
            return Source((plan,), (), relation_scope(name, plan))
        self.report.check(alias)
        scope = relation_scope(alias.name or name, rename(plan, alias, self.report))
        return Source((plan,), (), scope)

    # joins

    def _join(self, left: Source, node: exp.Expression, ctes: Ctes) -> Source:
        self.report.check(node)
        side, kind, method = (
            str(node.args.get(a) or "").upper() for a in ("side", "kind", "method")
        )
        if kind in ("SEMI", "ANTI"):
            article = "an" if kind == "ANTI" else "a"
            self._refuse_join(node, f"{article} {kind} JOIN", _SEMI_JOIN)
        if side or kind == "OUTER":
            self._refuse_join(node, f"a {side or 'FULL'} JOIN", _OUTER_JOIN)
        if kind not in ("", "INNER", "CROSS") or method not in ("", "NATURAL"):
            clause = " ".join(w for w in (method, kind) if w)
            self._refuse_join(
                node, f"a {clause} JOIN", Refusal("", "is not read", "Write an inner join.")
            )
        right = self._relation(node.this, ctes)
        both = left.beside(right)
        if node.args.get("using"):
            return self._using(both, left, [i.name for i in node.args["using"]], node)
        if method == "NATURAL":
            shared = {c.name.lower() for c in right.scope.visible}
            names = [c.name for c in left.scope.visible if c.name.lower() in shared]
            return self._using(both, left, names, node)
        on = node.args.get("on")
        if on is None or (isinstance(on, exp.Boolean) and on.this):
            return both
        binder = Scalars(
            FromResolver(both.scope, self.report), NoAggregates("ON", self.report), self.report
        )
        condition = binder.predicate(on, "ON")
        return Source(both.inputs, (*both.conditions, condition), both.scope)

    def _refuse_join(self, node: exp.Expression, what: str, refusal: Refusal) -> None:
        self.report.refuse(node, Refusal(what, refusal.why, refusal.hint))

    def _using(self, both: Source, left: Source, names: list[str], node: exp.Expression) -> Source:
        """Equal columns shown once, first, as the left one."""
        cut = len(left.scope.visible)
        shown_left, shown_right = both.scope.visible[:cut], both.scope.visible[cut:]
        keys: list[ScopeColumn] = []
        hidden: set[int] = set()
        conditions = list(both.conditions)
        for name in names:
            pair = [self._single(name, side, node) for side in (shown_left, shown_right)]
            try:
                conditions.append(functions.compare("eq", pair[0].reference(), pair[1].reference()))
            except TypeMismatch as mismatch:
                self.report.fail(node, mismatch.message, hint=mismatch.hint)
            keys.append(pair[0])
            hidden |= {pair[0].position, pair[1].position}
        rest = tuple(c for c in both.scope.visible if c.position not in hidden)
        return Source(both.inputs, tuple(conditions), Scope(both.scope.columns, (*keys, *rest)))

    def _single(
        self, name: str, side: tuple[ScopeColumn, ...], node: exp.Expression
    ) -> ScopeColumn:
        found = [c for c in side if c.name.lower() == name.lower()]
        place = next((i for i in node.args.get("using") or [] if i.name == name), node)
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
    fields = tuple(Field(n, f.type, f.nullable) for n, f in zip(names, plan.schema, strict=True))
    return Project(plan, identity(plan.schema), fields)


def _visible_plan(source: Source) -> Plan:
    """A parenthesised join under an alias: its visible columns in order."""
    columns = source.scope.visible
    fields = tuple(Field(c.name, c.field.type, c.field.nullable) for c in columns)
    return project(source.plan, tuple(c.reference() for c in columns), fields)


def project(plan: Plan, exprs: tuple[Expr, ...], schema: tuple[Field, ...]) -> Plan:
    """A projection, unless it would change nothing, not even names."""
    if exprs == identity(plan.schema) and schema == plan.schema:
        return plan
    return Project(plan, exprs, schema)
