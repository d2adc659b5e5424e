"""Spark SQL text as DuckDB SQL text with Spark's meaning.

sqlglot translates the syntax. What it leaves to the engines, and where they differ, is made
explicit here, on the tree, with the SQL types of every column known:

- every identifier is `encoded` first, before sqlglot resolves any;
- numbers, dates and casts are in `arithmetic`, aggregates in `aggregates` and `groups`, window
  functions in `windows`, functions in `functions`, and what Spark alone spells in a way is spelled
  otherwise first (`spelling`);
- IN, ANY and ALL of correlated queries that DuckDB cannot do, or does wrongly, are aggregates;
- DAYOFWEEK counts from 1 for Sunday, and ISNAN(NULL) is FALSE;
- a condition on LATERAL with a subquery, which DuckDB cannot do, moves into the LATERAL query;
- a conjunct of a join's condition that may fail is computed where those before it hold, and a
  side of AND or OR in a value where the side before it does not settle it;
- LIKE has the escape character `\\` in Spark and none in DuckDB;
- NULLs come first in ascending and last in descending order;
- ORDER BY, LIMIT and OFFSET get the documented tie columns: every output column from left to right,
  ascending, NULLs first. A LIMIT or OFFSET without ORDER BY is ordered by these alone.

What stands for an expression may hold it several times, and so may the macros, which DuckDB
expands: nested in each other they would grow without bound, and are refused (`CannotSay`) beyond a
size.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from planner.calculus import types as t
from planner.parse.queries import normalise
from planner.parse.recursion import without_levels
from sqlview.oracle.aggregates import aggregate
from sqlview.oracle.arithmetic import (
    ARITHMETIC_MACROS,
    Typed,
    arithmetic,
    checked,
    converted,
    divided,
    positive_remainder,
)
from sqlview.oracle.functions import FUNCTION_MACROS, Spoken, is_rewritten, rewritten
from sqlview.oracle.generators import as_unnest
from sqlview.oracle.groups import GROUP_MACROS, group_aggregate, reads_group
from sqlview.oracle.kinds import MaybeType, common_type, literal_type, named_type
from sqlview.oracle.protocol import CannotSay
from sqlview.oracle.spelling import respell
from sqlview.oracle.trees import call, cast, text
from sqlview.oracle.windows import break_ties, windowed, within_window, write_out
from sqlview.quoting import decoded, encoded

Columns = Mapping[str, MaybeType]

MACROS = (*ARITHMETIC_MACROS, *GROUP_MACROS, *FUNCTION_MACROS)

#: Of nodes that DuckDB has to bind, in one expression.
_MOST_NODES = 100_000
#: Of the tree of a query.
_MOST_LEVELS = 1_000
#: How often at most what stands for a node holds an operand of it, macros expanded.
_COPIES = 8


@dataclass(frozen=True, slots=True)
class Translated:
    """DuckDB's text, and the result's columns: folded names and Spark types where known.

    `ordered`: the outermost ORDER BY has output columns alone, so that a reader who sees only the
    rows can tell whether they are in order.
    """

    sql: str
    names: tuple[str, ...]
    types: tuple[MaybeType, ...]
    ordered: bool


def translate(text: str, catalog: Mapping[str, Columns]) -> Translated:
    """One query of Spark SQL over `catalog` (table -> column -> type, all names `encoded`).

    Raises: CannotSay for what grows too large; sqlglot's errors, for text or names that it does not
    understand; RecursionError for what is nested too deeply.
    """
    tree = sqlglot.parse_one(without_levels(normalise(text))[0], read=Spoken)
    if tree.find(exp.Pivot) is not None:
        raise CannotSay("PIVOT and UNPIVOT are computed by Spark alone")
    for identifier in list(tree.find_all(exp.Identifier)):
        identifier.replace(exp.Identifier(this=encoded(identifier.name), quoted=True))
    tree = _balanced(tree)
    _refuse_depth(tree)
    for select in list(tree.find_all(exp.Select)):
        as_unnest(select)
    respell(tree)
    for select in list(tree.find_all(exp.Select)):
        write_out(select)
    schema: dict[str, object] = {
        name: dict.fromkeys(columns, "int") for name, columns in catalog.items()
    }
    tree = qualify(tree, schema=schema, dialect="databricks", quote_identifiers=False)
    for select in list(tree.find_all(exp.Select)):
        break_ties(select)
    typer = _Typer(catalog)
    names: list[str] = []
    types: tuple[MaybeType, ...] = ()
    nested: set[int] = set()
    for scope in traverse_scope(tree):  # innermost first, the whole query last
        types = typer.rewrite(scope)
        names = [e.alias_or_name for e in _selects(scope)]
        if scope.is_correlated_subquery and len(list(scope.expression.find_all(exp.Query))) > 1:
            nested.add(id(scope.expression.unnest()))
    ordered = _is_ordered(tree)
    for query in list(tree.find_all(exp.Query)):
        order_totally(query)
    _aggregate_comparisons(tree, nested)
    for join in list(tree.find_all(exp.Join)):
        _condition_inside(join)
        _guard(join)
    for connective in reversed(list(tree.find_all(exp.And, exp.Or))):  # the innermost first
        _left_to_right(connective)
    return Translated(tree.sql("duckdb"), tuple(map(decoded, names)), types, ordered)


def _refuse_depth(tree: exp.Expr) -> None:
    """sqlglot takes time by the square of the depth, and DuckDB refuses what is deeper."""
    level, depth = [tree], 0
    while level:
        level = [child for node in level for child in node.iter_expressions()]
        depth += 1
        if depth > _MOST_LEVELS:
            raise CannotSay(f"it is nested more than {_MOST_LEVELS} deep")


def _balanced(tree: exp.Expr) -> exp.Expr:
    """Chains of AND and of OR as trees of logarithmic depth: sqlglot's are as deep as long."""
    for node in list(tree.find_all(exp.And, exp.Or)):
        if type(node.parent) is not type(node):
            terms = list(node.flatten(unnest=False))
            if len(terms) > 2:
                place = _Place(node)
                place.put(_halved(type(node), terms))
    return tree


class _Place:
    """Where a node is now. What is put there may hold the node itself, unlike in `replace`."""

    def __init__(self, node: exp.Expr) -> None:
        assert node.parent is not None and node.arg_key is not None
        self._parent, self._key, self._index = node.parent, node.arg_key, node.index

    def put(self, node: exp.Expr) -> None:
        self._parent.set(self._key, node, self._index)


def _halved(kind: type[exp.Expr], terms: list[exp.Expr]) -> exp.Expr:
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return kind(this=_halved(kind, terms[:half]), expression=_halved(kind, terms[half:]))


#: What computes no value that may fail, whatever its operands are.
_SAFE = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Predicate),
    *(exp.Connector, exp.Not, exp.Coalesce, exp.Case, exp.If, exp.DataType, exp.Escape),
)


def _risky(terms: list[exp.Expr]) -> list[bool]:
    """Which terms may fail; none where one has a subquery, which nobody wants twice."""
    if any(term.find(exp.Query) for term in terms):
        return [False] * len(terms)
    return [not all(isinstance(n, _SAFE) for n in term.walk()) for term in terms]


def _guard(join: exp.Join) -> None:
    """ON a AND f AND b AND g as ON a AND b AND CASE WHEN a THEN f AND CASE WHEN b THEN g END END,
    where f and g may fail: DuckDB takes conjuncts in an order of its own."""
    condition = join.args.get("on")
    if condition is None:
        return
    terms = list(condition.flatten(unnest=False)) if isinstance(condition, exp.And) else [condition]
    risky = _risky(terms)
    if not any(risky[1:]):
        return
    rest: list[exp.Expr] = []
    groups = [
        (fails, [exp.paren(term) for term, _ in group])
        for fails, group in itertools.groupby(zip(terms, risky, strict=True), key=lambda g: g[1])
    ]
    for fails, group in reversed(groups):
        if fails:
            rest = [*group, *rest]
        elif rest:
            holds = _halved(exp.And, group)
            rest = [exp.Case(ifs=[exp.If(this=holds, true=_halved(exp.And, rest))])]
    plain = [term for term, fails in zip(terms, risky, strict=True) if not fails]
    join.set("on", _halved(exp.And, plain + rest))


def _left_to_right(node: exp.Expr) -> None:
    """a AND f as CASE WHEN NOT a THEN FALSE ELSE a AND f END, and OR likewise, where f may fail:
    DuckDB computes both sides for all rows, except where the result decides on rows."""
    parent = node.parent
    if type(parent) is type(node):
        return  # a part of that one
    while isinstance(parent, (exp.Paren, exp.And, exp.Or)):
        parent = parent.parent
    if isinstance(parent, (exp.Where, exp.Having, exp.Qualify, exp.Join)):
        return
    terms = list(node.flatten(unnest=False))
    risky = _risky(terms)
    if not any(risky[1:]):
        return
    if 2 * sum(1 for _ in node.walk()) > _MOST_NODES:
        raise CannotSay("AND and OR of expressions that may fail are nested deeply")
    last = max(i for i, fails in enumerate(risky) if fails)
    conjunction = isinstance(node, exp.And)
    settles = [exp.paren(term) for term in terms[:last]]
    ifs = [
        exp.If(
            this=exp.Not(this=term) if conjunction else term,
            true=exp.false() if conjunction else exp.true(),
        )
        for term in settles
    ]
    place = _Place(node)
    place.put(exp.paren(exp.Case(ifs=ifs, default=node), copy=False))


def _condition_inside(join: exp.Join) -> None:
    """JOIN LATERAL q AS s ON c as JOIN LATERAL (SELECT * FROM q AS s WHERE c) AS s ON TRUE."""
    lateral, condition = join.this, join.args.get("on")
    if not isinstance(lateral, exp.Lateral) or condition is None or not condition.find(exp.Query):
        return
    alias = lateral.args["alias"]
    rows = exp.Subquery(this=lateral.this.unnest(), alias=alias.copy())
    inner = exp.select("*").from_(rows).where(condition.copy())
    lateral.set("this", exp.Subquery(this=inner))
    alias.set("columns", None)
    join.set("on", exp.true())


def _selects(scope: Scope) -> list[exp.Expr]:
    query = scope.expression.unnest()
    return list(query.selects) if isinstance(query, exp.Query) else []


def _is_ordered(query: exp.Expr) -> bool:
    order = query.args.get("order")
    if order is None or not isinstance(query, exp.Query):
        return False
    outputs = {e.alias_or_name for e in query.selects} | {e.unalias() for e in query.selects}
    for key in order.expressions:
        column = key.this
        bare = isinstance(column, exp.Column) and not column.table
        if (column.name if bare else column) not in outputs:
            return False
    return True


def _aggregate_comparisons(tree: exp.Expr, nested: set[int]) -> None:
    """Respell (a, b) IN (q), and a IN (q), a < ANY (q), a < ALL (q) where q is among `nested`.

    DuckDB 2.0 has the first only for a q that is not correlated; and where a correlated q with
    another query in it finds a NULL for one row, it takes it for one of all rows.
    """
    found = tree.find_all(exp.In, exp.Any, exp.All)
    for node in reversed(list(found)):  # the innermost first: it is copied
        is_in = isinstance(node, exp.In)
        comparison = node if is_in else node.parent
        query = node.args.get("query") if is_in else node.this
        if not isinstance(query, exp.Query) or comparison is None:
            continue
        rows = isinstance(comparison.this, exp.Tuple)
        if rows or id(query.unnest()) in nested:
            values = comparison.this.expressions if rows else [comparison.this]
            kind = exp.EQ if is_in else type(comparison)
            comparison.replace(_over_rows(kind, values, query.unnest(), isinstance(node, exp.All)))


def _over_rows(
    kind: type[exp.Expr], values: list[exp.Expr], query: exp.Expr, every: bool
) -> exp.Expr:
    """Whether the values compare with one (or every) row: NULL if that hangs on a NULL."""
    names = [f"sqlview_c{i}" for i in range(len(values))]
    alias = exp.TableAlias(
        this=exp.to_identifier("sqlview_rows"), columns=[exp.to_identifier(n) for n in names]
    )
    test = exp.and_(
        *(
            kind(this=exp.paren(value.copy()), expression=exp.column(name, "sqlview_rows"))
            for value, name in zip(values, names, strict=True)
        )
    )
    settles = exp.Not(this=exp.paren(test)) if every else test
    unknown = exp.Is(this=exp.paren(test), expression=exp.Null())
    outcomes = (exp.false(), exp.true()) if every else (exp.true(), exp.false())
    found = exp.Case(
        ifs=[
            exp.If(this=exp.LogicalOr(this=settles), true=outcomes[0]),
            exp.If(this=exp.LogicalOr(this=unknown), true=exp.Null()),
        ],
        default=outcomes[1],
    )
    rows = exp.Subquery(this=query.copy(), alias=alias)
    return exp.Subquery(this=exp.select(found).from_(rows))


def order_totally(query: exp.Query) -> None:
    order = query.args.get("order")
    if order is None and all(query.args.get(clause) is None for clause in ("limit", "offset")):
        return
    keys = list(order.expressions) if order is not None else []
    for key in keys:
        if key.args.get("nulls_first") is None:
            key.set("nulls_first", not key.args.get("desc"))
    ties = [
        exp.Ordered(this=exp.Literal.number(i + 1), desc=False, nulls_first=True)
        for i in range(len(query.selects))
    ]
    query.set("order", exp.Order(expressions=[*keys, *ties]))


def _matched(node: exp.Binary, kind: MaybeType) -> exp.Expr:
    """LIKE or ILIKE of a value of that type. What follows the escape character must be special."""
    if kind is not None and kind != t.STRING:
        node.set("this", cast(node.this, t.STRING))
    around = node.parent if isinstance(node.parent, exp.Escape) else None
    if not isinstance(node.expression, (exp.Literal, exp.Any, exp.All)):
        escape = f"\\x{{{ord(around.expression.name if around else chr(92)):x}}}"
        valid = text(f"(?s)([^{escape}]|{escape}[{escape}%_])*")
        pattern = call("sqlview_pattern", node.this.copy(), node.expression, valid)
        node.set("expression", pattern)
    if isinstance(node, exp.ILike):
        for side in ("this", "expression"):
            node.set(side, call("sqlview_small", node.args[side]))
    return node if around else exp.Escape(this=node, expression=text("\\"))


#: Parts of nested values, and what orders or casts its operands.
_PARTS = (exp.Bracket, exp.Dot, exp.Struct)
_ORDERED = (
    *(exp.Cast, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Greatest, exp.Least),
    *(exp.Ordered, exp.Max, exp.Min),
)


class _Typer:
    """Types expressions by Spark's rules, scope by scope from the inside, rewriting as it goes."""

    def __init__(self, catalog: Mapping[str, Columns]) -> None:
        self._catalog = catalog
        self._outputs: dict[int, tuple[MaybeType, ...]] = {}
        self._types: dict[int, MaybeType] = {}
        self._nodes: dict[int, int] = {}
        self._scope: Scope

    def rewrite(self, scope: Scope) -> tuple[MaybeType, ...]:
        """Rewrite the scope's own expressions; returns the types of its output columns."""
        query = scope.expression.unnest()
        if isinstance(query, exp.Lateral):
            return self._outputs.get(id(query.this.unnest()), ())
        self._scope = scope
        for distinct in list(scope.find_all(exp.Distinct)):
            if len(distinct.expressions) == 1 and isinstance(distinct.expressions[0], exp.Star):
                distinct.set("expressions", self._all_columns())
        if isinstance(query, exp.SetOperation):
            sides = [self._outputs[id(s.expression.unnest())] for s in scope.set_operation_scopes]
            types = tuple(common_type(pair) for pair in zip(*sides, strict=True))
        elif isinstance(scope.expression, exp.Values):
            for row in scope.expression.expressions:
                self._visit(row)
            cells = [[self._of(e) for e in row.expressions] for row in scope.expression.expressions]
            types = tuple(common_type(column) for column in zip(*cells, strict=True))
        else:
            for join in query.args.get("joins") or ():
                if join.args.get("on") is not None:
                    self._visit(join.args["on"])
            for clause in ("where", "group", "having", "qualify", "order"):
                if query.args.get(clause) is not None:
                    self._visit(query.args[clause])
            for expression in list(query.expressions):
                self._visit(expression)
            types = tuple(self._types.get(id(e)) for e in query.expressions)
        self._outputs[id(query)] = types
        return types

    def _visit(self, root: exp.Expr) -> None:
        """Type and rewrite an expression, operands first. It is not recursive, for deep ones."""
        above = []
        waiting = [root]
        while waiting:
            node = waiting.pop()
            above.append(node)
            if not isinstance(node, exp.Query):
                waiting += node.iter_expressions()
        for node in reversed(above):
            self._rewrite(node)

    def _rewrite(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Query):
            types = self._outputs.get(id(node.unnest()))
            self._types[id(node)] = types[0] if types else None
            self._nodes[id(node)] = sum(
                self._nodes.get(id(e), 1) for q in node.find_all(exp.Query) for e in q.expressions
            )
            return
        place = _Place(node)
        nodes = 1 + sum(self._nodes.get(id(e), 1) for e in node.iter_expressions())
        self._refuse_nested(node)
        self._refuse_intervals(node)
        kind, replacement = self._rule(node)
        self._types[id(node)] = kind
        if replacement is not None and replacement is not node:
            place.put(replacement)
            self._types[id(replacement)] = kind
            if not isinstance(replacement, exp.Cast):
                nodes *= _COPIES
            node = replacement
        self._nodes[id(node)] = nodes
        if nodes > _MOST_NODES:
            raise CannotSay("expressions that hold their operands several times are nested deeply")

    def _refuse_intervals(self, node: exp.Expr) -> None:
        """DuckDB's intervals have months, days and microseconds at once, and print otherwise."""
        if isinstance(node, exp.Cast) and isinstance(node.to.this, exp.Interval):
            raise CannotSay("intervals are computed by Spark alone")
        if not isinstance(node, exp.Sub) or isinstance(node.expression.unnest(), exp.Interval):
            return
        left, right = self._of(node.this), self._of(node.expression)
        if isinstance(left, (t.DateType, t.TimestampType)) and not isinstance(right, t.IntegerType):
            raise CannotSay("intervals are computed by Spark alone")

    def _refuse_nested(self, node: exp.Expr) -> None:
        """DuckDB has the equality of nested values that Spark has, and hardly more: a field, an
        element, an order and a text are others, or what is missing is."""
        if isinstance(node, _PARTS):
            raise CannotSay("fields and elements of nested values are read by Spark alone")
        if isinstance(node, _ORDERED):
            kinds = [self._of(e) for e in node.iter_expressions()]
            if isinstance(node, exp.Cast):
                kinds.append(named_type(node.to))
            if any(isinstance(k, t.NestedType) for k in kinds):
                raise CannotSay("nested values are ordered and cast by Spark alone")

    def _of(self, node: exp.Expr | None) -> MaybeType:
        return None if node is None else self._types.get(id(node))

    def _rule(self, node: exp.Expr) -> Typed:
        """Spark's type of a node whose children are typed, and what stands for it in DuckDB."""
        this = self._of(node.args.get("this"))
        match node:
            case exp.Alias() | exp.Paren() | exp.Neg() | exp.Abs() | exp.Nullif():
                return this, None
            case exp.Window():
                return windowed(node, this)
            case exp.IgnoreNulls() | exp.RespectNulls():
                return this, None
            case exp.Lag() | exp.Lead():
                if this is not None and node.args.get("default") is not None:
                    node.set("default", cast(node.args["default"], this))
                return this, None
            case exp.First() | exp.FirstValue() | exp.Last() | exp.LastValue() | exp.NthValue():
                return this, None
            case exp.Order():
                return this, None
            case exp.Filter() if reads_group(node.this):
                return group_aggregate(node.this, node.expression.this, self._of)
            case _ if reads_group(node) and within_window(node):
                raise CannotSay("it reads a whole group, in a window")
            case _ if reads_group(node):
                deferred = isinstance(node.parent, (exp.Filter, exp.WithinGroup))
                return (None, None) if deferred else group_aggregate(node, None, self._of)
            case exp.Filter() if isinstance(node.this, exp.AggFunc):
                return aggregate(node.this, self._of(node.this.this), node.expression.this)
            case exp.AggFunc() if isinstance(node.parent, exp.Filter):
                return None, None  # with its condition, by the rule above
            case exp.AggFunc():
                return aggregate(node, this, None)
            case exp.Distinct():
                return self._of(node.expressions[0]) if node.expressions else None, None
            case exp.DayOfWeek():
                one = exp.Literal.number(1)
                return t.INT, exp.paren(exp.Add(this=node, expression=one), copy=False)
            case exp.IsNan():
                node.set("this", cast(node.this, t.DOUBLE))
                return t.BOOLEAN, exp.Coalesce(this=node, expressions=[exp.false()])
            case exp.Column():
                return self._column(node), None
            case exp.Literal():
                return literal_type(node), None
            case exp.Boolean():
                return t.BOOLEAN, None
            case exp.Null():
                return t.NULL, None
            case exp.Cast():
                return converted(node, this)
            case exp.Like() | exp.ILike():
                return t.BOOLEAN, _matched(node, this)
            case exp.Predicate() | exp.Connector() | exp.Not():
                return t.BOOLEAN, None
            case exp.Div():
                return divided(node, self._operand(node.this), self._operand(node.expression))
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
                return arithmetic(node, self._operand(node.this), self._operand(node.expression))
            case exp.Ceil() | exp.Floor() if node.args.get("decimals"):
                raise CannotSay("numbers are rounded up and down to digits by Spark alone")
            case exp.TimestampAdd() | exp.TimestampDiff() | exp.DateDiff() if node.args.get("unit"):
                raise CannotSay("units of time are counted by Spark alone")
            case exp.DateAdd() | exp.DateSub() | exp.TsOrDsAdd() | exp.AddMonths():
                return (t.DATE, cast(node, t.DATE)) if this == t.DATE else (None, None)
            case exp.Anonymous() if node.name.lower() == "pmod" and len(node.expressions) == 2:
                return positive_remainder(node, *map(self._of, node.expressions))
            case _ if is_rewritten(node):
                return rewritten(node, self._of)
            case exp.IntDiv():
                return t.BIGINT, checked(cast(node, t.BIGINT), node.this, node.expression)
            case exp.If():
                return common_type(self._of(node.args.get(k)) for k in ("true", "false")), None
            case exp.Case():
                branches = [self._of(i.args["true"]) for i in node.args["ifs"]]
                if node.args.get("default") is not None:
                    branches.append(self._of(node.args["default"]))
                return common_type(branches), None
            case exp.Coalesce() | exp.Greatest() | exp.Least():
                return common_type([this, *(self._of(e) for e in node.expressions)]), None
            case exp.Extract() | exp.Year() | exp.Month() | exp.Day() | exp.Length():
                return t.INT, None
            case exp.DayOfWeekIso() | exp.DayOfYear() | exp.WeekOfYear() | exp.Quarter():
                return t.INT, None
            case exp.DPipe() | exp.Concat():
                for part in list(node.iter_expressions()):
                    self._write(part)
                return t.STRING, None
            case exp.Substring():
                return t.STRING, None
            case exp.Trim() | exp.Replace():
                return t.STRING, None
            case _:
                return None, None

    def _write(self, node: exp.Expr) -> None:
        """As text, where DuckDB would write it otherwise than Spark."""
        kind = self._of(node)
        if isinstance(kind, (t.FloatType, t.DateType, t.TimestampType)):
            place = _Place(node)
            _, written = converted(exp.Cast(this=node, to=exp.DataType.build("STRING")), kind)
            assert written is not None
            place.put(written)

    def _column(self, node: exp.Column) -> MaybeType:
        around: Scope | None = self._scope
        while around is not None and node.table and node.table not in around.sources:
            around = around.parent  # a column of an enclosing query
        source = None if around is None else around.sources.get(node.table)
        if isinstance(source, Scope) and isinstance(source.expression, exp.Lateral):
            query = source.expression.this.unnest()
            names = list(source.expression.alias_column_names)
            names = names or [e.alias_or_name for e in query.selects]
            types = self._outputs.get(id(query))
            return types[names.index(node.name)] if types and node.name in names else None
        if isinstance(source, Scope):
            names = [e.alias_or_name for e in _selects(source)]
            if isinstance(source.expression, exp.Values):
                names = list(source.expression.alias_column_names)
            types = self._outputs.get(id(source.expression.unnest()))
            return types[names.index(node.name)] if types and node.name in names else None
        if isinstance(source, exp.Table):
            return self._catalog.get(source.name, {}).get(node.name)
        # A bare name in ORDER BY or HAVING is an output column.
        for output in _selects(self._scope):
            if output.alias_or_name == node.name and not node.table:
                return self._of(output)
        return None

    def _all_columns(self) -> list[exp.Expr]:
        """What COUNT(DISTINCT *) counts."""
        found: list[exp.Expr] = []
        for alias, (_, source) in self._scope.selected_sources.items():
            if isinstance(source, exp.Table):
                names = list(self._catalog[source.name])
            else:
                names = [e.alias_or_name for e in _selects(source)]
            if not names:
                raise CannotSay("COUNT(DISTINCT *) is of columns that are not known")
            found += [exp.column(name, alias) for name in names]
        return found

    def _operand(self, node: exp.Expr) -> MaybeType:
        """The type of an operand; an integer literal beside a decimal counts only its digits."""
        kind = self._of(node)
        inner = node.unnest()
        literal = inner.this if isinstance(inner, exp.Neg) else inner
        if isinstance(kind, t.IntegerType) and isinstance(literal, exp.Literal):
            sibling = node.parent and next(
                (c for c in node.parent.iter_expressions() if c is not node), None
            )
            if isinstance(self._of(sibling), t.DecimalType):
                return t.DecimalType(len(literal.name.lstrip("0")) or 1, 0)
        return kind
