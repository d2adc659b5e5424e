"""Spark SQL text as DuckDB SQL text with Spark's meaning, for the oracle alone.

sqlglot translates the syntax. What it leaves to the engines, and where they differ, is made
explicit here, on the tree, with the SQL types of every column known:

- AVG of decimals and division of decimals are DOUBLE in DuckDB: they become exact integer
  arithmetic with Spark's result scale, rounded half up (the macros in `MACROS`);
- decimal products and sums get room for all the digits that Spark gives them, and are rounded where
  Spark gives them fewer fraction digits (more than 38 digits wanted);
- a DATE plus or minus days or months is a TIMESTAMP in DuckDB: cast back;
- division by zero, and SUM beyond its type, fail as under Spark's ANSI rules;
- a cast of a fraction to an integer truncates, where DuckDB rounds;
- ANY_VALUE is the least value that is not NULL, so that it is deterministic;
- (a, b) IN (SELECT …) is spelled out, which DuckDB cannot do where it is correlated;
- aggregates that read a whole group are in `oracle_groups`;
- STDDEV and VARIANCE of infinities and NaN are NaN, where DuckDB fails;
- DAYOFWEEK counts from 1 for Sunday, and ISNAN(NULL) is FALSE;
- what is spelled in a way of Spark's own is spelled otherwise first (`oracle_spelling`);
- a condition on LATERAL with a subquery, which DuckDB cannot do, moves into the LATERAL query;
- LIKE has the escape character `\\` in Spark and none in DuckDB;
- NULLs come first in ascending and last in descending order;
- ORDER BY, LIMIT and OFFSET get the documented tie columns: every output column from left to right,
  ascending, NULLs first. A LIMIT or OFFSET without ORDER BY is ordered by these alone.

Invariant: the types here are computed from the text and the types of the base tables only, never
by the planner's binder, so that the oracle checks the binder as well. A type that these rules do
not know is None; nothing is rewritten on a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from planner import types as t
from planner.parse.queries import normalise
from sqlview.oracle_functions import FUNCTION_MACROS, Spoken, is_rewritten, rewritten
from sqlview.oracle_groups import GROUP_MACROS, group_aggregate, reads_group
from sqlview.oracle_spelling import respell

MaybeType = t.SqlType | None
Columns = Mapping[str, MaybeType]

#: `checked` fails as Spark does: on a zero divisor, unless the dividend is NULL. `unscaled` drops
#: the point of a decimal, whose scale the caller knows. `ratio` is n * power / d rounded half away
#: from zero; by long division, so that n * power need not fit 128 bits.
MACROS = (
    """CREATE MACRO sqlview_checked(n, d, result) AS
       CASE WHEN d = 0 AND n IS NOT NULL THEN error('division by zero') ELSE result END""",
    "CREATE MACRO sqlview_unscaled(x) AS CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)",
    """CREATE MACRO sqlview_ratio(n, d, power) AS CAST(sign(n) * sign(d) AS HUGEINT) * (
       abs(n) // abs(d) * power
       + (2 * (abs(n) % abs(d)) * power + abs(d)) // (2 * CAST(abs(d) AS HUGEINT)))""",
    *GROUP_MACROS,
    *FUNCTION_MACROS,
)


_DUCKDB_NARROW_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Translated:
    """DuckDB's text, and the result's columns: lower-case names and Spark types where known.

    `ordered`: the outermost ORDER BY has output columns alone, so that a reader who sees only the
    rows can tell whether they are in order.
    """

    sql: str
    names: tuple[str, ...]
    types: tuple[MaybeType, ...]
    ordered: bool


def translate(text: str, catalog: Mapping[str, Columns]) -> Translated:
    """One query of Spark SQL over `catalog` (lower-case table -> lower-case column -> type).

    Raises: sqlglot's errors, for text or names that are wrong.
    """
    tree = sqlglot.parse_one(normalise(text), read=Spoken)
    respell(tree)
    schema: dict[str, object] = {
        name: dict.fromkeys(columns, "int") for name, columns in catalog.items()
    }
    tree = qualify(tree, schema=schema, dialect="databricks", quote_identifiers=False)
    typer = _Typer(catalog)
    names: list[str] = []
    types: tuple[MaybeType, ...] = ()
    for scope in traverse_scope(tree):  # innermost first, the whole query last
        types = typer.rewrite(scope)
        names = [e.alias_or_name for e in _selects(scope)]
    ordered = _is_ordered(tree)
    for query in list(tree.find_all(exp.Query)):
        _order_totally(query)
    for node in reversed(list(tree.find_all(exp.In))):  # the innermost first: it is copied
        if isinstance(node.this, exp.Tuple) and node.args.get("query") is not None:
            node.replace(_rows_in(node, node.args["query"]))
    for join in list(tree.find_all(exp.Join)):
        _condition_inside(join)
    return Translated(tree.sql("duckdb"), tuple(names), types, ordered)


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


def _rows_in(node: exp.In, query: exp.Expr) -> exp.Expr:
    """(a, b) IN (SELECT …): TRUE if a row is equal, else NULL if one may be, else FALSE.

    DuckDB has it only for subqueries that are not correlated.
    """
    names = [f"sqlview_c{i}" for i in range(len(node.this.expressions))]
    alias = exp.TableAlias(
        this=exp.to_identifier("sqlview_rows"), columns=[exp.to_identifier(n) for n in names]
    )
    same = exp.and_(
        *(
            exp.EQ(this=exp.paren(value.copy()), expression=exp.column(name, "sqlview_rows"))
            for value, name in zip(node.this.expressions, names, strict=True)
        )
    )
    unknown = exp.Is(this=exp.paren(same), expression=exp.Null())
    found = exp.Case(
        ifs=[
            exp.If(this=exp.LogicalOr(this=same.copy()), true=exp.true()),
            exp.If(this=exp.LogicalOr(this=unknown), true=exp.Null()),
        ],
        default=exp.false(),
    )
    rows = exp.Subquery(this=query.unnest().copy(), alias=alias)
    return exp.Subquery(this=exp.select(found).from_(rows))


def _order_totally(query: exp.Query) -> None:
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


class _Typer:
    """Types expressions by Spark's rules, scope by scope from the inside, rewriting as it goes."""

    def __init__(self, catalog: Mapping[str, Columns]) -> None:
        self._catalog = catalog
        self._outputs: dict[int, tuple[MaybeType, ...]] = {}
        self._types: dict[int, MaybeType] = {}
        self._scope: Scope

    def rewrite(self, scope: Scope) -> tuple[MaybeType, ...]:
        """Rewrite the scope's own expressions; returns the types of its output columns."""
        query = scope.expression.unnest()
        if isinstance(query, exp.Lateral):
            return self._outputs.get(id(query.this.unnest()), ())
        self._scope = scope
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
            for clause in ("where", "group", "having", "order"):
                if query.args.get(clause) is not None:
                    self._visit(query.args[clause])
            for expression in list(query.expressions):
                self._visit(expression)
            types = tuple(self._types.get(id(e)) for e in query.expressions)
        self._outputs[id(query)] = types
        return types

    def _visit(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Query):
            inner = node.unnest()
            types = self._outputs.get(id(inner))
            self._types[id(node)] = types[0] if types else None
            return
        for child in list(node.iter_expressions()):
            self._visit(child)
        kind, replacement = self._rule(node)
        self._types[id(node)] = kind
        if replacement is not None:
            node.replace(replacement)
            self._types[id(replacement)] = kind

    def _of(self, node: exp.Expr | None) -> MaybeType:
        return None if node is None else self._types.get(id(node))

    def _rule(self, node: exp.Expr) -> tuple[MaybeType, exp.Expr | None]:
        """Spark's type of a node whose children are typed, and what stands for it in DuckDB."""
        this = self._of(node.args.get("this"))
        match node:
            case exp.Alias() | exp.Paren() | exp.Neg() | exp.Abs() | exp.Nullif():
                return this, None
            case exp.Filter() if reads_group(node.this):
                return group_aggregate(node.this, node.expression.this, self._of)
            case _ if reads_group(node):
                deferred = isinstance(node.parent, (exp.Filter, exp.WithinGroup))
                return (None, None) if deferred else group_aggregate(node, None, self._of)
            case exp.Filter() if isinstance(node.this, exp.AggFunc):
                return _aggregate(node.this, self._of(node.this.this), node.expression.this)
            case exp.AggFunc() if isinstance(node.parent, exp.Filter):
                return None, None  # with its condition, by the rule above
            case exp.AggFunc():
                return _aggregate(node, this, None)
            case exp.Distinct():
                return self._of(node.expressions[0]) if node.expressions else None, None
            case exp.DayOfWeek():
                one = exp.Literal.number(1)
                return t.INT, exp.paren(exp.Add(this=node.copy(), expression=one), copy=False)
            case exp.IsNan():
                nan = exp.IsNan(this=_cast(node.this.copy(), t.DOUBLE))
                return t.BOOLEAN, exp.Coalesce(this=nan, expressions=[exp.false()])
            case exp.Column():
                return self._column(node), None
            case exp.Literal():
                return _literal_type(node), None
            case exp.Boolean():
                return t.BOOLEAN, None
            case exp.Null():
                return t.NULL, None
            case exp.Cast():
                return _cast_type(node, this)
            case exp.Like() | exp.ILike():
                like = node.copy()
                if this is not None and this != t.STRING:
                    like.set("this", _cast(node.this.copy(), t.STRING))
                if isinstance(node.parent, exp.Escape):
                    return t.BOOLEAN, like
                return t.BOOLEAN, exp.Escape(this=like, expression=exp.Literal.string("\\"))
            case exp.Predicate() | exp.Connector() | exp.Not():
                return t.BOOLEAN, None
            case exp.Div():
                return _divide(node, self._operand(node.this), self._operand(node.expression))
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
                return _arithmetic(node, self._operand(node.this), self._operand(node.expression))
            case exp.DateAdd() | exp.DateSub() | exp.TsOrDsAdd() | exp.AddMonths():
                known = this == t.DATE
                return (t.DATE, _cast(node.copy(), t.DATE)) if known else (None, None)
            case exp.Anonymous() if node.name.lower() == "pmod" and len(node.expressions) == 2:
                return self._positive_remainder(*node.expressions)
            case _ if is_rewritten(node):
                return rewritten(node, self._of)
            case exp.IntDiv():
                return t.BIGINT, _checked(_cast(node.copy(), t.BIGINT), node)
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
            case exp.DPipe() | exp.Concat() | exp.Upper() | exp.Lower() | exp.Substring():
                return t.STRING, None
            case exp.Trim() | exp.Replace():
                return t.STRING, None
            case _:
                return None, None

    def _positive_remainder(
        self, left: exp.Expr, right: exp.Expr
    ) -> tuple[MaybeType, exp.Expr | None]:
        division = exp.Mod(this=left.copy(), expression=right.copy())
        kind, _ = _computed(division, self._of(left), self._of(right))
        result = exp.Anonymous(this="sqlview_pmod", expressions=[left.copy(), right.copy()])
        return kind, _checked(result, division)

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
            return self._catalog.get(source.name.lower(), {}).get(node.name.lower())
        # A bare name in ORDER BY or HAVING is an output column.
        for output in _selects(self._scope):
            if output.alias_or_name == node.name and not node.table:
                return self._of(output)
        return None

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


def common_type(kinds: Iterable[MaybeType]) -> MaybeType:
    """The least type that all are cast to in CASE, COALESCE and UNION ALL; None where unknown."""
    result: MaybeType = t.NULL
    for kind in kinds:
        result = _wider(result, kind)
    return result


def _wider(a: MaybeType, b: MaybeType) -> MaybeType:
    if a is None or b is None or a == b:
        return a if a == b else None
    if isinstance(a, t.NullType):
        return b
    if isinstance(b, t.NullType):
        return a
    if not (t.is_numeric(a) and t.is_numeric(b)):
        return None
    if isinstance(a, t.FloatType) or isinstance(b, t.FloatType):
        return t.DOUBLE
    if isinstance(a, t.IntegerType) and isinstance(b, t.IntegerType):
        return a if a.bits >= b.bits else b
    p, q = _as_decimal(a), _as_decimal(b)
    if p is None or q is None:
        return None
    scale = max(p.scale, q.scale)
    return t.bounded_decimal(max(p.precision - p.scale, q.precision - q.scale) + scale, scale)


def _as_decimal(kind: MaybeType) -> t.DecimalType | None:
    if isinstance(kind, t.IntegerType):
        return t.integer_as_decimal(kind)
    return kind if isinstance(kind, t.DecimalType) else None


def _literal_type(node: exp.Literal) -> MaybeType:
    if node.is_string:
        return t.STRING
    text = node.name
    if "e" in text.lower():
        return t.DOUBLE
    if "." not in text:
        return t.INT if int(text) <= t.INT.max else t.BIGINT
    whole, fraction = text.split(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    return t.DecimalType(max(digits, len(fraction), 1), len(fraction))


def named_type(node: exp.DataType) -> MaybeType:
    if node.this == exp.DataType.Type.DECIMAL:
        sizes = [int(e.name) for e in node.expressions]
        return t.DecimalType(*(sizes + [10, 0][len(sizes) :]))
    simple = {
        exp.DataType.Type.BOOLEAN: t.BOOLEAN,
        exp.DataType.Type.TINYINT: t.TINYINT,
        exp.DataType.Type.SMALLINT: t.SMALLINT,
        exp.DataType.Type.INT: t.INT,
        exp.DataType.Type.BIGINT: t.BIGINT,
        exp.DataType.Type.FLOAT: t.FLOAT,
        exp.DataType.Type.DOUBLE: t.DOUBLE,
        exp.DataType.Type.TEXT: t.STRING,
        exp.DataType.Type.VARCHAR: t.STRING,
        exp.DataType.Type.DATE: t.DATE,
    }
    return simple.get(node.this)


def _sum_type(kind: MaybeType) -> MaybeType:
    match kind:
        case t.IntegerType():
            return t.BIGINT
        case t.FloatType():
            return t.DOUBLE
        case t.DecimalType():
            return t.bounded_decimal(kind.precision + 10, kind.scale)
        case _:
            return None


def _checked(result: exp.Expr, division: exp.Expr) -> exp.Expr:
    """`result` of `division`, whose divisor must not be zero."""
    dividend, divisor = division.args["this"], division.args["expression"]
    if isinstance(divisor, exp.Literal) and float(divisor.name):
        return result
    return exp.Anonymous(
        this="sqlview_checked",
        expressions=[dividend.copy(), divisor.copy(), exp.paren(result, copy=False)],
    )


def _cast_type(node: exp.Cast, source: MaybeType) -> tuple[MaybeType, exp.Expr | None]:
    kind = named_type(node.to)
    fraction = isinstance(source, (t.DecimalType, t.FloatType))
    if not (fraction and isinstance(kind, t.IntegerType)):
        return kind, None
    cut = node.copy()
    cut.set("this", exp.Anonymous(this="trunc", expressions=[node.this.copy()]))
    return kind, cut


def _arithmetic(
    node: exp.Expr, left: MaybeType, right: MaybeType
) -> tuple[MaybeType, exp.Expr | None]:
    """+, -, * and %; % by zero fails, as a division does."""
    kind, replacement = _computed(node, left, right)
    if isinstance(node, exp.Mod) and kind is not None:
        return kind, _checked(replacement or node.copy(), node)
    return kind, replacement


def _computed(
    node: exp.Expr, left: MaybeType, right: MaybeType
) -> tuple[MaybeType, exp.Expr | None]:
    sides = [node.args["this"], node.args["expression"]]
    if t.DATE in (left, right) and any(_whole_days(s) for s in sides):
        return t.DATE, _cast(node.copy(), t.DATE)
    if left is None or right is None or not (t.is_numeric(left) and t.is_numeric(right)):
        return None, None
    if not any(isinstance(k, t.DecimalType) for k in (left, right)):
        return common_type((left, right)), None
    a, b = _as_decimal(left), _as_decimal(right)
    if a is None or b is None:
        return t.DOUBLE, None
    match node:
        case exp.Mul():
            exact = (a.precision + b.precision + 1, a.scale + b.scale)
        case exp.Mod():
            scale = max(a.scale, b.scale)
            exact = (min(a.precision - a.scale, b.precision - b.scale) + scale, scale)
        case _:
            scale = max(a.scale, b.scale)
            exact = (max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)
    kind = t.adjusted_decimal(*exact)
    if exact[0] <= _DUCKDB_NARROW_DIGITS:
        return kind, None
    # DuckDB keeps 18 digits, and overflows, where neither operand has more.
    wide = t.DecimalType(max(a.precision, _DUCKDB_NARROW_DIGITS + 1), a.scale)
    replacement = node.copy()
    replacement.set("this", _cast(node.args["this"].copy(), wide))
    return kind, replacement if kind.scale == exact[1] else _cast(replacement, kind)


def _whole_days(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Interval) or node.unit is None:
        return False
    return node.unit.name.upper().rstrip("S") in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


def _divide(node: exp.Div, left: MaybeType, right: MaybeType) -> tuple[MaybeType, exp.Expr | None]:
    if left is None or right is None or not (t.is_numeric(left) and t.is_numeric(right)):
        return None, None
    a, b = _as_decimal(left), _as_decimal(right)
    integers = isinstance(left, t.IntegerType) and isinstance(right, t.IntegerType)
    if a is None or b is None or integers:
        return t.DOUBLE, _checked(node.copy(), node)
    scale = max(t.MIN_ADJUSTED_SCALE, a.scale + b.precision + 1)
    kind = t.adjusted_decimal(a.precision - a.scale + b.scale + scale, scale)
    dividend = _unscaled(_cast(node.this.copy(), a))
    divisor = _unscaled(_cast(node.expression.copy(), b))
    quotient = _quotient(dividend, divisor, kind.scale - a.scale + b.scale, kind)
    return kind, _checked(quotient, node)


def _aggregate(
    call: exp.Expr, kind: MaybeType, where: exp.Expr | None
) -> tuple[MaybeType, exp.Expr | None]:
    """An aggregate of an argument of type `kind`, with the condition of its FILTER."""
    match call:
        case exp.Avg():
            return _average(call, kind, where)
        case exp.Count():
            several = [call.this, *call.expressions] if call.expressions else []
            counted = exp.Count(this=_all_there(several)) if several else call.copy()
            return t.BIGINT, _filtered(counted, where)
        case exp.CountIf():
            distinct = isinstance(call.this, exp.Distinct)
            condition = call.this.expressions[0] if distinct else call.this
            one = exp.If(this=condition.copy(), true=exp.Literal.number(1))
            held: exp.Expr = exp.Case(ifs=[one])
            held = exp.Distinct(expressions=[held]) if distinct else held
            return t.BIGINT, _filtered(exp.Count(this=held), where)
        case exp.Sum():
            result = _sum_type(kind)
            total = _filtered(call.copy(), where)
            # DuckDB adds up in wider types; Spark fails beyond its own.
            exact = isinstance(result, (t.IntegerType, t.DecimalType))
            return result, _cast(total, result) if exact and result is not None else total
        case exp.Min() | exp.Max():
            return kind, _filtered(call.copy(), where)
        case exp.AnyValue():
            return kind, _filtered(exp.Min(this=call.this.copy()), where)
        case exp.LogicalAnd() | exp.LogicalOr():
            return t.BOOLEAN, _filtered(call.copy(), where)
        case exp.Stddev() | exp.StddevSamp() | exp.StddevPop() | exp.Variance() | exp.VariancePop():
            return t.DOUBLE, _spread(call, where)
        case _:
            return None, None


def _filtered(call: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    if where is None:
        return call
    return exp.Filter(this=call, expression=exp.Where(this=where.copy()))


def _all_there(values: list[exp.Expr]) -> exp.Expr:
    """1 where no value is NULL, else NULL."""
    missing = exp.or_(*(exp.Is(this=exp.paren(v.copy()), expression=exp.Null()) for v in values))
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=exp.Literal.number(1))


def _spread(call: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    """STDDEV or VARIANCE: NaN where a value is infinite or NaN, unless there are too few values."""
    distinct = isinstance(call.this, exp.Distinct)
    value = _cast((call.this.expressions[0] if distinct else call.this).copy(), t.DOUBLE)
    if where is not None:
        value = exp.Case(ifs=[exp.If(this=where.copy(), true=value)])
    finite = exp.Anonymous(this="isfinite", expressions=[value.copy()])
    kept: exp.Expr = exp.Case(ifs=[exp.If(this=finite, true=value.copy())])
    counted: exp.Expr = value.copy()
    if distinct:
        kept, counted = exp.Distinct(expressions=[kept]), exp.Distinct(expressions=[counted])
    population = isinstance(call, (exp.StddevPop, exp.VariancePop))
    enough = exp.GT(
        this=exp.Count(this=counted), expression=exp.Literal.number(0 if population else 1)
    )
    odd = exp.LogicalOr(this=exp.Not(this=finite.copy()))
    nan = _cast(exp.Literal.string("NaN"), t.DOUBLE)
    usual = type(call)(this=kept)
    inner = exp.Case(ifs=[exp.If(this=odd, true=nan)], default=usual)
    return exp.Case(ifs=[exp.If(this=enough, true=inner)])


def _average(
    node: exp.Avg, kind: MaybeType, where: exp.Expr | None
) -> tuple[MaybeType, exp.Expr | None]:
    if isinstance(kind, (t.IntegerType, t.FloatType)):
        return t.DOUBLE, _filtered(node.copy(), where)
    if not isinstance(kind, t.DecimalType):
        return None, None
    result = t.bounded_decimal(kind.precision + 4, kind.scale + 4)
    total: exp.Expr = exp.Sum(this=node.this.copy())
    count: exp.Expr = exp.Count(this=node.this.copy())
    if where is not None:
        total, count = _filtered(total, where), _filtered(count, where)
    # DuckDB evaluates the division also where SUM is NULL for want of rows.
    count = exp.Nullif(this=count, expression=exp.Literal.number(0))
    total = _unscaled(_cast(total, t.DecimalType(t.MAX_PRECISION, kind.scale)))
    return result, _quotient(total, count, result.scale - kind.scale, result)


def _unscaled(node: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="sqlview_unscaled", expressions=[node])


def _quotient(dividend: exp.Expr, divisor: exp.Expr, shift: int, kind: t.DecimalType) -> exp.Expr:
    """Unscaled dividend * 10^shift / unscaled divisor, as a decimal of the given type."""
    if shift < 0:
        divisor = exp.Paren(this=exp.Mul(this=divisor, expression=_power(-shift)))
    whole = exp.Anonymous(
        this="sqlview_ratio", expressions=[dividend, divisor, _power(max(shift, 0))]
    )
    unit = exp.Literal.string("0." + "1".rjust(kind.scale, "0") if kind.scale else "1")
    scaled = exp.Mul(
        this=_cast(whole, t.DecimalType(t.MAX_PRECISION, 0)),
        expression=_cast(unit, t.DecimalType(max(kind.scale, 1), kind.scale)),
    )
    return _cast(exp.Paren(this=scaled), kind)


def _power(digits: int) -> exp.Expr:
    return exp.cast(exp.Literal.number(10**digits), "HUGEINT", dialect="duckdb")


def _cast(node: exp.Expr, kind: t.SqlType) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(str(kind), dialect="databricks"))
