"""INSERT, UPDATE, DELETE and MERGE: queries for the rows that go and come.

What a statement says is put together as queries, which are bound as any other: so names, types and
subqueries mean what they mean in a view. Of a table t with the key k

    UPDATE t SET a = e WHERE c       SELECT 1, k, k, e, … FROM t WHERE c
    DELETE FROM t WHERE c            SELECT 1, k FROM t WHERE c
    MERGE INTO t USING s ON c        SELECT action, k, [row by row of a clause] FROM t JOIN s ON c
                                     SELECT action, [rows] FROM s WHERE NOT EXISTS (… t … c)
                                     SELECT action, k, [rows] FROM t WHERE NOT EXISTS (… s … c)

where action is the number of the first clause whose condition is TRUE, and a clause's values are
computed for its rows alone. Values are cast as Spark's store assignment does (ANSI): numbers to
numbers, anything to text, dates and timestamps to each other; what does not fit fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.bind.queries import Fit, bind_fitted
from planner.bind.report import Report, describe
from planner.bind.tables import aggregate_name
from planner.calculus import coercion
from planner.calculus.algebra import Plan, Project, identity
from planner.calculus.expr import Column, Expr, Literal
from planner.calculus.types import (
    INT,
    BooleanType,
    DateType,
    Field,
    IntervalType,
    NullType,
    Schema,
    SqlType,
    StringType,
    TimestampType,
    is_numeric,
)
from planner.calculus.zones import Zone
from planner.context import CatalogReader, RelationInfo
from planner.errors import BindError, ClockError, SqlViewError, suggestion
from planner.names import folded
from planner.parse import Assignment, Clause, Delete, Insert, Merge, Query, Target, Update
from planner.parse.changes import DEFAULT
from planner.parse.queries import query_at
from planner.parse.tokens import Cursor

#: The actions that write rows.
INSERTED = ("update", "insert")


@dataclass(frozen=True, slots=True)
class Edit:
    """Rows that go from a table, and rows that come.

    plan: its first column is the action of the row, 0 for none, k for actions[k - 1]; then, unless
    they are all "insert", the columns `identity` of the table, which say what goes; then for each
    action that writes all columns of the table. `once`: whether a row of the table may be there
    once only; `copies`: the plan of the rows that may be, of a table without a key.
    """

    plan: Plan
    identity: tuple[int, ...]
    actions: tuple[str, ...]
    once: bool = False
    copies: Plan | None = None


def bind_insert(statement: Insert, table: RelationInfo, catalog: CatalogReader, zone: Zone) -> Plan:
    """The new rows. Raises: as `bind_query`; BindError where columns and values do not fit."""

    named = {folded(c) for c in statement.columns or ()}
    every = statement.columns is None and not statement.by_name
    filled = [
        (place, _default(table, place))
        for place, f in enumerate(table.schema)
        if not every and folded(f.name) not in named and _default_text(table, place) is not None
    ]

    def fit(plan: Plan, report: Report) -> Plan:
        node = statement.query.tree
        given = plan.schema[: len(plan.schema) - len(filled)]
        places = _places(statement, table, given, node, report)
        for number, (place, _) in enumerate(filled):
            if places[place] is None:
                places[place] = len(given) + number
        exprs = identity(plan.schema)
        found = tuple(
            Literal(None, f.type) if place is None else _assigned(exprs[place], f, node, report)
            for place, f in zip(places, table.schema, strict=True)
        )
        return _projected(plan, found, table.schema)

    query = _with_defaults(statement, table)
    if filled:
        values = [exp.alias_(value, f"default{place}") for place, value in filled]
        source = exp.Subquery(
            this=query.tree, alias=exp.TableAlias(this=exp.to_identifier("given"))
        )
        tree = exp.Select(expressions=[exp.Star(), *values], from_=exp.From(this=source))
        query = replace(query, tree=tree)
    return bind_fitted(query, catalog, fit, zone).plan


def bind_default(text: str, column: Field, catalog: CatalogReader, zone: Zone) -> None:
    """See that a column can have that default.

    Raises: BindError for what is no expression without columns, or of another type.
    """

    def fit(plan: Plan, report: Report) -> Plan:
        (expr,) = identity(plan.schema)
        return _projected(plan, (_assigned(expr, column, tree, report),), (column,))

    try:
        tree = default_value(text)
        select = exp.Select(expressions=[tree.copy()])
        if any(isinstance(n, (exp.Query, exp.Column)) for n in tree.walk()):
            raise BindError("it reads columns")
        bind_fitted(Query(text, text, select), catalog, fit, zone)
    except ClockError:
        pass  # it may be set until a row asks for the time
    except SqlViewError as error:
        raise _no_default(text, column, error) from error


def _no_default(text: str, column: Field, error: SqlViewError) -> BindError:
    return BindError(
        f'column "{column.name}" cannot have the default {text}',
        detail=f"{error.message[0].upper()}{error.message[1:]}.",
        hint="Write an expression of literals and functions, of the column's type.",
    )


def default_value(text: str) -> exp.Expression:
    """The expression of a default. Raises: SqlSyntaxError for what is none."""
    tree = query_at(Cursor(f"SELECT {text}")).tree
    expressions = tree.expressions if isinstance(tree, exp.Select) else []
    if len(expressions) != 1 or {k for k, v in tree.args.items() if v} != {"expressions"}:
        raise BindError("it is no expression")
    value = expressions[0].unalias()
    for node in value.walk():
        for place in ("start", "end", "line", "col"):
            node.meta.pop(place, None)
    assert isinstance(value, exp.Expression)
    return value


def _default_text(table: RelationInfo, place: int) -> str | None:
    """What is said of a column's default; None: NULL."""
    return table.defaults[place] if table.defaults else None


def _default(table: RelationInfo, place: int) -> exp.Expression:
    text = _default_text(table, place)
    return exp.Null() if text is None else default_value(text)


def _with_defaults(statement: Insert, table: RelationInfo) -> Query:
    """The query with values where it says DEFAULT."""
    tree = statement.query.tree.copy()
    inner = tree
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    names = statement.columns or tuple(f.name for f in table.schema)
    places = {folded(f.name): i for i, f in enumerate(table.schema)}
    for row in inner.expressions if isinstance(inner, exp.Values) else [inner]:
        if not isinstance(row, (exp.Tuple, exp.Select)):
            continue
        for value, name in zip(row.expressions, names, strict=False):
            if DEFAULT in value.meta and folded(name) in places:
                value.replace(_default(table, places[folded(name)]))
    return replace(statement.query, tree=tree)


def bind_update(statement: Update, table: RelationInfo, catalog: CatalogReader, zone: Zone) -> Edit:
    """Raises: as `bind_insert`."""
    clause = Clause("matched", "update", None, statement.assignments, 0)
    changing = _Changing(statement.target, table, catalog, zone, statement.text)
    return changing.edit((clause,), changing.target, statement.condition)


def bind_delete(statement: Delete, table: RelationInfo, catalog: CatalogReader, zone: Zone) -> Edit:
    """Raises: as `bind_query`."""
    clause = Clause("matched", "delete", None, (), 0)
    changing = _Changing(statement.target, table, catalog, zone, statement.text)
    return changing.edit((clause,), changing.target, statement.condition)


def bind_merge(
    statement: Merge, table: RelationInfo, catalog: CatalogReader, zone: Zone
) -> tuple[Edit, ...]:
    """Raises: as `bind_insert`."""
    changing = _Changing(statement.target, table, catalog, zone, statement.text, statement.alias)
    target, source, on = changing.target, statement.source, statement.on
    by_when = {
        when: tuple(c for c in statement.clauses if c.when == when)
        for when in ("matched", "not matched", "not matched by source")
    }
    edits: list[Edit] = []
    join = exp.Join(this=source, on=on)
    matched = by_when["matched"]
    if [(c.action, c.condition) for c in matched] == [("delete", None)]:
        edits.append(changing.edit(matched, target, _exists(source, on)))
        matched = ()
    if matched:
        edits.append(changing.merged(matched, join, _exists(source, on)))
    else:  # names in the condition are those of one side, also where both are not seen together
        changing.bound([exp.Literal.number(1)], target, None, join)
    for when, from_, other in (
        ("not matched", source, target),
        ("not matched by source", target, source),
    ):
        if by_when[when]:
            edits.append(changing.edit(by_when[when], from_, exp.Not(this=_exists(other, on))))
    return tuple(edits)


def _as_it_is(plan: Plan, report: Report) -> Plan:
    return plan


class _Changing:
    """Binds what one statement does to one table."""

    def __init__(
        self,
        target: Target,
        table: RelationInfo,
        catalog: CatalogReader,
        zone: Zone,
        text: str,
        source: str = "",
    ) -> None:
        self.target = target.tree
        self._alias, self._source = target.alias, source
        self._table = table
        self._catalog, self._zone, self._text = catalog, zone, text
        every = tuple(range(len(table.schema)))
        self._identity = table.primary_key or every

    def edit(
        self,
        clauses: tuple[Clause, ...],
        from_: exp.Expression,
        where: exp.Expression | None,
        join: exp.Join | None = None,
    ) -> Edit:
        """What clauses of one kind do with the rows of FROM that meet the condition."""
        report = Report(self._text)
        inserts = clauses[0].action == "insert"
        going = () if inserts else self._identity
        schema = self._table.schema
        columns = [_action(clauses), *(self._own(schema[c].name, 0) for c in going)]
        fields = [Field("action", INT, False), *(schema[c] for c in going)]
        first = len(columns)
        for number, clause in enumerate(clauses):
            for part in (clause.condition, *(a.value for a in clause.assignments or ())):
                _refuse_aggregates(part, report)
            if clause.action in INSERTED:
                values = self._values(clause, report)
                columns += [v if _is_own(v) else _guarded(clauses, number, v) for v in values]
                fields += schema

        def fit(plan: Plan, report: Report) -> Plan:
            found: list[Expr] = list(identity(plan.schema))
            for i in range(first, len(found)):
                found[i] = _assigned(found[i], fields[i], columns[i], report)
            return _projected(plan, tuple(found), tuple(fields))

        plan = self.bound(columns, from_, where, join, fit)
        return Edit(plan, going, tuple(c.action for c in clauses))

    def merged(self, clauses: tuple[Clause, ...], join: exp.Join, matches: exp.Expression) -> Edit:
        """What clauses do with rows of the table, each of which one row of the source matches."""
        copies = None
        if self._table.primary_key is None:
            columns = [self._own(f.name, 0) for f in self._table.schema]
            copies = self.bound(columns, self.target, matches)
        edit = self.edit(clauses, self.target, None, join)
        return replace(edit, once=True, copies=copies)

    def bound(
        self,
        columns: Sequence[exp.Expression],
        from_: exp.Expression,
        where: exp.Expression | None,
        join: exp.Join | None = None,
        fit: Fit = _as_it_is,
    ) -> Plan:
        tree = exp.Select(
            expressions=[c.copy() for c in columns],
            from_=exp.From(this=from_.copy()),
            joins=[] if join is None else [join.copy()],
        )
        if where is not None:
            tree.set("where", exp.Where(this=where.copy()))
        query = Query(self._text, self._text, tree)
        return bind_fitted(query, self._catalog, fit, self._zone).plan

    def _values(self, clause: Clause, report: Report) -> list[exp.Expression]:
        """For each column of the table its new value."""
        schema = self._table.schema
        if clause.assignments is None:
            return [_named(self._source, f.name, clause.at) for f in schema]
        given: dict[int, exp.Expression] = {}
        for assignment in clause.assignments:
            place = _column(assignment, self._table, report)
            if place in given:
                node = _named("", assignment.column, assignment.at)
                report.fail(node, f'column "{assignment.column}" is assigned more than once')
            given[place] = assignment.value or _default(self._table, place)
        is_update = clause.action == "update"
        return [
            given[i]
            if i in given
            else self._own(f.name, clause.at)
            if is_update
            else _default(self._table, i)
            for i, f in enumerate(schema)
        ]

    def _own(self, name: str, at: int) -> exp.Expression:
        """A column of the table as it was."""
        node = _named(self._alias, name, at)
        node.meta["own"] = True
        return node


def _is_own(node: exp.Expression) -> bool:
    return bool(node.meta.get("own"))


def _action(clauses: Sequence[Clause]) -> exp.Expression:
    """The number of the first clause whose condition is TRUE, from 1; 0 if none is."""
    case = exp.Case(ifs=[])
    last: exp.Expression = exp.Literal.number(0)
    for number, clause in enumerate(clauses):
        value = exp.Literal.number(number + 1)
        if clause.condition is None:
            last = value
            break
        case.append("ifs", exp.If(this=clause.condition.copy(), true=value))
    if not case.args["ifs"]:
        return last
    case.set("default", last)
    return case


def _guarded(clauses: Sequence[Clause], number: int, value: exp.Expression) -> exp.Expression:
    """The value for the rows of one clause, NULL for others."""
    case = exp.Case(ifs=[])
    for clause in clauses[:number]:
        assert clause.condition is not None, "one without a condition is the last"
        case.append("ifs", exp.If(this=clause.condition.copy(), true=exp.Null()))
    condition = clauses[number].condition
    if condition is not None:
        case.append("ifs", exp.If(this=condition.copy(), true=value.copy()))
    elif number:
        case.set("default", value.copy())
    else:
        return value
    return case


def _exists(from_: exp.Expression, condition: exp.Expression) -> exp.Expression:
    query = exp.Select(
        expressions=[exp.Literal.number(1)],
        from_=exp.From(this=from_.copy()),
        where=exp.Where(this=condition.copy()),
    )
    return exp.Exists(this=query)


def _named(relation: str, name: str, at: int) -> exp.Expression:
    """A column, at a place of the text."""
    column = exp.Identifier(this=name, quoted=True)
    table = exp.Identifier(this=relation, quoted=True) if relation else None
    for identifier in (column, table):
        if identifier is not None:
            identifier.meta.update(start=at, end=at)
    return exp.Column(this=column, table=table)


def _refuse_aggregates(node: exp.Expression | None, report: Report) -> None:
    if node is None:
        return
    for part in node.walk(prune=lambda n: isinstance(n, exp.Query)):
        if not isinstance(part, exp.Expression) or isinstance(part, exp.Query):
            continue
        if aggregate_name(part) is not None:
            report.fail(part, f"an aggregate ({describe(part)}) is not allowed here")


def _column(assignment: Assignment, table: RelationInfo, report: Report) -> int:
    for place, f in enumerate(table.schema):
        if folded(f.name) == folded(assignment.column):
            return place
    known = [f.name for f in table.schema]
    raise report.error(
        _named("", assignment.column, assignment.at),
        f'"{table.name}" has no column "{assignment.column}"',
        hint=suggestion(assignment.column, known),
    )


def _places(
    statement: Insert, table: RelationInfo, given: Schema, node: exp.Expression, report: Report
) -> list[int | None]:
    """For each column of the table the column of the query; None: NULL."""
    names: Iterable[str]
    if statement.by_name:
        names = [f.name for f in given]
    elif statement.columns is not None:
        names = statement.columns
    else:
        names = [f.name for f in table.schema]
    columns = [_column(Assignment(n, _start(node), None), table, report) for n in names]
    for i, place in enumerate(columns):
        if place in columns[:i]:
            report.fail(node, f'column "{table.schema[place].name}" is given more than once')
    if len(given) != len(columns):
        plural = "" if len(given) == 1 else "s"
        report.fail(
            node,
            f'"{table.name}" takes {len(columns)} columns here, and the query has {len(given)}',
            hint=f"Name the column{plural} that it has: INSERT INTO {table.name} (column, …) ….",
        )
    return [columns.index(i) if i in columns else None for i in range(len(table.schema))]


def _start(node: exp.Expression) -> int:
    return min((int(n.meta["start"]) for n in node.walk() if "start" in n.meta), default=0)


def _assigned(expr: Expr, field: Field, node: exp.Expression, report: Report) -> Expr:
    """The value as the column has it."""
    if not _can_store(expr.type, field.type):
        report.fail(
            node,
            f'cannot write {expr.type} to column "{field.name}", which is {field.type}',
            hint=f"Write CAST(… AS {field.type}), if that is meant.",
        )
    return coercion.cast(expr, field.type)


def _can_store(source: SqlType, target: SqlType) -> bool:
    """Source: Spark SQL, Cast.canANSIStoreAssign."""
    if source == target or isinstance(source, NullType):
        return True
    if isinstance(target, StringType):
        return not isinstance(source, IntervalType)
    moments = (DateType, TimestampType)
    if isinstance(source, BooleanType):
        return False
    if isinstance(source, moments) and isinstance(target, moments):
        return True
    return is_numeric(source) and is_numeric(target)


def _projected(plan: Plan, exprs: tuple[Expr, ...], schema: Schema) -> Plan:
    fields = tuple(
        Field(f.name, e.type, e.nullable if isinstance(e, Column) else True)
        for f, e in zip(schema, exprs, strict=True)
    )
    return Project(plan, exprs, fields)
