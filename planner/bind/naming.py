"""Names of select items without an alias, as Spark prints them.

A column keeps its name; anything else is printed: operators in parentheses, functions in lower
case, strings without quotes, COUNT(*) as `count(1)`. What Spark prints in its own way and is not
listed here gets its SQL text.
"""

from __future__ import annotations

from sqlglot import exp

from planner.bind.literals import has_suffix, interval_value
from planner.bind.nodes import PeriodEdge
from planner.calculus.intervals import interval_text
from planner.calculus.library import LIBRARY
from planner.calculus.types import IntervalType
from planner.names import folded
from planner.parse import written_name
from planner.parse.shifts import SIGN

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "AND",
    exp.Or: "OR",
}
_FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Count: "count",
    exp.LogicalAnd: "bool_and",
    exp.ApproxDistinct: "approx_count_distinct",
    exp.LogicalOr: "bool_or",
    exp.VariancePop: "var_pop",
    exp.PercentileCont: "percentile_cont",
    exp.PercentileDisc: "percentile_disc",
    exp.ArgMax: "max_by",
    exp.ArgMin: "min_by",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.Sign: "sign",
    exp.IsNan: "isnan",
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "dayofmonth",
    exp.Quarter: "quarter",
    exp.Upper: "upper",
    exp.Lower: "lower",
    exp.Length: "length",
    exp.Nullif: "nullif",
    exp.Concat: "concat",
    exp.DPipe: "concat",
    exp.Abs: "abs",
    exp.Sqrt: "SQRT",
    exp.Pow: "POWER",
    exp.Floor: "FLOOR",
    exp.Ceil: "CEIL",
    exp.Greatest: "greatest",
    exp.Least: "least",
    exp.Substring: "substring",
    exp.AddMonths: "add_months",
    exp.DateDiff: "datediff",
    exp.DayOfWeek: "dayofweek",
    exp.DayOfYear: "dayofyear",
    exp.WeekOfYear: "weekofyear",
    exp.StartsWith: "startswith",
    exp.EndsWith: "endswith",
    exp.Left: "left",
    exp.Between: "between",
    exp.RegexpLike: "RLIKE",
    exp.Grouping: "grouping",
    exp.GroupingId: "grouping_id",
}


def output_name(node: exp.Expression) -> str:
    """The name of a select item that has no alias."""
    while isinstance(node, (exp.Paren, exp.Cast)) and isinstance(
        node.this, (exp.Paren, exp.Cast, exp.Column)
    ):
        node = node.this
    return str(node.name) if isinstance(node, exp.Column) else _printed(node)


def not_true(condition: exp.Expression) -> str:
    """What ASSERT_TRUE says where it is given no message."""
    return f"'{_printed(condition)}' is not true!"


def _printed(node: exp.Expression) -> str:
    if type(node) in _OPERATORS:
        return f"({_printed(node.this)} {_OPERATORS[type(node)]} {_printed(node.expression)})"
    if isinstance(node, exp.Coalesce):
        return _call((written_name(node) or "coalesce").lower(), *_arguments(node))
    if type(node) in _FUNCTIONS and not node.args.get("unit"):
        return _call(_FUNCTIONS[type(node)], *_arguments(node))
    match node:
        case PeriodEdge():
            return "window"
        case exp.Paren() | exp.TsOrDsToDate():
            return _printed(node.this)
        case exp.Column():
            return str(node.name)
        case exp.Literal() | exp.Identifier():
            return str(node.this)
        case exp.TimestampAdd() | exp.TimestampDiff() | exp.DateDiff():
            unit, parts = node.args["unit"].this, (node.expression, node.this)
            written = (p.this if isinstance(p, exp.TsOrDsToDate) else p for p in parts)
            name = "timestampadd" if isinstance(node, exp.TimestampAdd) else "timestampdiff"
            return f"{name}({unit}, {', '.join(map(_printed, written))})"
        case exp.Lambda():
            return _lambda(node)
        case exp.Exists() if node.args.get("expression") is not None:
            return _call("exists", node.this, node.expression)
        case exp.Dot():
            return f"{_printed(node.this)}.{_printed(node.expression)}"
        case exp.Bracket():
            return f"{_printed(node.this)}[{_printed(node.expressions[0])}]"
        case exp.HexString():
            digits = str(node.this).upper()
            return f"X'{'0' * (len(digits) % 2)}{digits}'"
        case exp.Boolean():
            return "true" if node.this else "false"
        case exp.Null():
            return "NULL"
        case exp.Star():
            return "1"
        case exp.Neg(this=exp.Literal()):
            return f"-{_printed(node.this)}"
        case exp.Neg():
            return f"(- {_printed(node.this)})"
        case exp.NEQ():
            return f"(NOT ({_printed(node.this)} = {_printed(node.expression)}))"
        case exp.NullSafeNEQ():
            return f"(NOT ({_printed(node.this)} <=> {_printed(node.expression)}))"
        case exp.Not(this=exp.Is() as inner) if isinstance(inner.expression, exp.Null):
            return f"({_printed(inner.this)} IS NOT NULL)"
        case exp.Not():
            return f"(NOT {_printed(node.this)})"
        case exp.Is():
            symbol = "IS" if isinstance(node.expression, exp.Null) else "<=>"
            return f"({_printed(node.this)} {symbol} {_printed(node.expression)})"
        case exp.Subquery() | exp.Select():
            return "scalarsubquery()"
        case exp.Exists():
            return "exists()"
        case exp.Distinct():
            return f"DISTINCT {', '.join(_printed(e) for e in node.expressions)}"
        case exp.Filter():
            return f"{_printed(node.this)} FILTER (WHERE {_printed(node.expression.this)})"
        case exp.Quantile():
            return _call("percentile", *_arguments(node), exp.Literal.number(1))
        case exp.Mode(this=exp.Expression() as value) if node.args.get("deterministic") is not None:
            return _of_order("mode()", exp.Ordered(this=value, desc=True))
        case exp.WithinGroup(this=exp.Mode()):
            # Printed the other way round.
            (key,) = node.expression.expressions
            return _of_order("mode()", exp.Ordered(this=key.this, desc=not key.args.get("desc")))
        case exp.WithinGroup():
            call = _printed(node.this)
            return _of_order(call, node.expression.expressions[0])
        case exp.GroupConcat(this=exp.Order() as order):
            call = _call("listagg", order.this, node.args.get("separator") or exp.Null())
            keys = ", ".join(_sort_key(k) for k in order.expressions)
            return f"{call} WITHIN GROUP (ORDER BY {keys})"
        case exp.ArrayAgg():
            return _call((written_name(node) or "collect_list").lower(), node.this)
        case exp.ArrayUniqueAgg():
            return _call("collect_set", node.this)
        case exp.Any(this=exp.Paren()):
            return _call("any", node.this)
        case exp.In():
            options = ", ".join(_printed(e) for e in node.expressions)
            if node.args.get("query") is not None:
                options = "listquery()"
            return f"({_printed(node.this)} IN ({options}))"
        case exp.Like() | exp.ILike():
            return _like(node)
        case exp.Escape(this=exp.ILike()):
            return _like(node.this)
        case exp.Cast(this=exp.Literal(is_string=True)) if type(node) is exp.Cast:
            return f"{node.args['to'].sql(dialect='spark')} '{_printed(node.this)}'"
        case exp.Cast(this=exp.Literal()) if has_suffix(node.this):
            return _printed(node.this)
        case exp.Cast():
            kind = node.args["to"].sql(dialect="spark").replace(", ", ",")
            name = "TRY_CAST" if node.args.get("safe") else "CAST"
            return f"{name}({_printed(node.this)} AS {kind})"
        case exp.Interval(this=exp.Literal(), unit=exp.Expression() as unit):
            found = interval_value(str(node.this.this).strip(), unit)
            assert found is not None and isinstance(found.type, IntervalType)
            assert isinstance(found.value, int)
            return interval_text(found.value, found.type)
        case exp.If():
            return f"({_call('IF', node.this, node.args['true'], node.args['false'])})"
        case exp.Case():
            return _case(node)
        case exp.Overlay():
            return _named("overlay", _arguments(node))
        case exp.DecodeCase():
            return _call("decode", *_arguments(node))
        case exp.Extract():
            return f"extract({str(node.this.this).lower()} FROM {_printed(node.expression)})"
        case exp.TsOrDsAdd(expression=exp.Mul(expression=exp.Neg())):
            return _call("date_sub", node.this, node.expression.this)
        case exp.TsOrDsAdd():
            return _call("date_add", node.this, node.expression)
        case exp.TimestampTrunc():
            return f"date_trunc({str(node.args['unit'].this).lower()}, {_printed(node.this)})"
        case exp.DateTrunc():
            return f"trunc({_printed(node.this)}, {str(node.args['unit'].this).lower()})"
        case exp.Trim():
            return _trim(node)
        case exp.Chr():
            return _call(str(written_name(node) or "chr").lower(), *node.expressions)
        case exp.StrPosition():
            # POSITION(a IN b) has no name in the tree; position(a, b) has.
            start = node.args.get("position") or exp.Literal.number(1)
            called = (written_name(node) or "locate").lower()
            return _call(called, node.args["substr"], node.this, start)
        case exp.Initcap():
            return _call("initcap", node.this)
        case exp.Round():
            return _call("round", node.this, node.args.get("decimals") or exp.Literal.number(0))
        case exp.Anonymous(this=str() as name) if name.lower() in ("isnull", "isnotnull"):
            negated = "NOT " if name.lower() == "isnotnull" else ""
            return f"({_printed(node.expressions[0])} IS {negated}NULL)"
        case exp.Anonymous(expressions=[left, right]) if written_name(node) == SIGN:
            return f"({_printed(left)} {SIGN} {_printed(right)})"
        case exp.Anonymous():
            return _named(str(node.this).lower(), node.expressions)
        case exp.Func():
            return _call(str(node.sql_name()).lower(), *_arguments(node))
        case _:
            return str(node.sql(dialect="spark", comments=False))


def _lambda(node: exp.Expression) -> str:
    """Its variables have one name, whatever they are called."""
    names = {folded(n.name) for n in node.expressions}

    def known(part: exp.Expression) -> exp.Expression:
        plain = isinstance(part, exp.Column) and not part.table
        field = isinstance(part.parent, exp.Dot) and part.arg_key == "expression"
        inner = isinstance(part.parent, exp.Column) or field
        if (plain or (isinstance(part, exp.Identifier) and not inner)) and (
            folded(part.name) in names
        ):
            return exp.to_identifier(_VARIABLE)
        return part

    body = node.this.transform(known)
    variables = ", ".join([_VARIABLE] * len(node.expressions))
    return f"lambdafunction({_printed(body)}, {variables})"


_VARIABLE = "namedlambdavariable()"
#: What Spark sorts by where no lambda is given.
_ASCENDING = (
    "lambdafunction((IF(((v IS NULL) AND (v IS NULL)), 0, (IF((v IS NULL), 1, (IF((v IS NULL), -1, "
    "(IF((v < v), -1, (IF((v > v), 1, 0)))))))))), v, v)"
).replace("v", _VARIABLE)


def _of_order(call: str, key: exp.Expression) -> str:
    descending = " DESC" if key.args.get("desc") else ""
    return f"{call} WITHIN GROUP (ORDER BY {_printed(key.this)}{descending})"


def _sort_key(key: exp.Expression) -> str:
    direction = "DESC" if key.args.get("desc") else "ASC"
    nulls = "FIRST" if key.args.get("nulls_first") else "LAST"
    return f"{_printed(key.this)} {direction} NULLS {nulls}"


def _call(name: str, *args: exp.Expression) -> str:
    return f"{name}({', '.join(_printed(a) for a in args)})"


#: Functions that Spark prints in capitals.
_CAPITALS = frozenset("exp expm1 log10 log2 log1p cbrt degrees radians pi e".split())


def _named(name: str, args: list[exp.Expression]) -> str:
    """A call under its name, with the arguments that Spark fills in."""
    if name in ("lpad", "rpad") and len(args) == 2:
        args = [*args, exp.Literal.string(" ")]
    elif name == "locate" and len(args) == 2:
        args = [*args, exp.Literal.number(1)]
    elif name == "log":
        inner = ", ".join(_printed(a) for a in args)
        return f"LOG({inner})" if len(args) == 2 else f"LOG(E(), {inner})"
    elif name in ("aggregate", "reduce") and len(args) == 3:
        same = f"lambdafunction({_VARIABLE}, {_VARIABLE})"
        return f"{name}({', '.join(_printed(a) for a in args)}, {same})"
    elif name == "array_sort" and len(args) == 1:
        return f"array_sort({_printed(args[0])}, {_ASCENDING})"
    elif name in ("decimal", "binary") and isinstance(args[0], exp.Column):
        return _printed(args[0])
    elif name in ("from_json", "from_csv"):
        args = args[:1]
    elif name == "to_varchar":
        name = "to_char"
    elif name == "raise_error":
        return f"raise_error(USER_RAISED_EXCEPTION, map(errorMessage, {_printed(args[0])}))"
    elif name == "assert_true" and len(args) == 1:
        return f"assert_true({_printed(args[0])}, {not_true(args[0])})"
    inside = sum(len(a.expressions) - 1 for a in args if isinstance(a, exp.Distinct))
    filled = [_printed(a) for a in args] + _filled(name, len(args) + inside)
    return f"{name.upper() if name in _CAPITALS else name}({', '.join(filled)})"


#: What the parts of intervals are that are left out.
_INTERVALS = {"make_ym_interval": ["0", "0"], "make_dt_interval": ["0", "0", "0", "0.000000"]}


def _filled(name: str, given: int) -> list[str]:
    """What Spark prints for arguments left out at the end."""
    if name in ("unix_timestamp", "to_unix_timestamp", "from_unixtime"):
        return ["yyyy-MM-dd HH:mm:ss"][given - 1 :]
    if name == "bround" and given == 1:
        return ["0"]
    if name in ("percentile_approx", "approx_percentile") and given == 2:
        return ["10000"]
    if name == "time_bucket" and given == 2:
        return ["TIMESTAMP '1970-01-01 00:00:00'"]
    if name in _INTERVALS:
        return _INTERVALS[name][given:]
    function = LIBRARY.get(name)
    if function is None:
        return []
    missing = len(function.takes) - given
    defaults = [str(d).lower() if isinstance(d, bool) else str(d) for d in function.defaults]
    return [*defaults[len(defaults) - missing :], *function.shown]


def _trim(node: exp.Expression) -> str:
    position = str(node.args.get("position") or "BOTH")
    if node.expression is not None:
        return f"TRIM({position} {_printed(node.expression)} FROM {_printed(node.this)})"
    return _call({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim"), node.this)


def _like(node: exp.Expression) -> str:
    negated = node.args.get("negate")
    if isinstance(node.expression, (exp.Any, exp.All)):
        name = f"{type(node).__name__}{type(node.expression).__name__}".lower()
        return f"{'not' if negated else ''}{name}({_printed(node.this)})"
    like = f"{_printed(node.this)} LIKE {_printed(node.expression)}"
    if isinstance(node, exp.ILike):
        like = _call("ilike", node.this, node.expression)
    return f"(NOT {like})" if negated else like


def _case(node: exp.Expression) -> str:
    subject = node.args.get("this")
    arms = []
    for arm in node.args["ifs"]:
        when = _printed(arm.this)
        if subject is not None:
            when = f"({_printed(subject)} = {when})"
        arms.append(f"WHEN {when} THEN {_printed(arm.args['true'])}")
    last = node.args.get("default")
    otherwise = f" ELSE {_printed(last)}" if last is not None else ""
    return f"CASE {' '.join(arms)}{otherwise} END"


def _arguments(node: exp.Expression) -> list[exp.Expression]:
    values = [v if isinstance(v, list) else [v] for v in node.args.values()]
    return [a for v in values for a in v if isinstance(a, exp.Expression)]
