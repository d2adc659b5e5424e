"""Names of select items without an alias, as Spark prints them.

A column keeps its name; anything else is printed: operators in parentheses, functions in lower
case, strings without quotes, COUNT(*) as `count(1)`. What Spark prints in its own way and is not
listed here gets its SQL text.
"""

from __future__ import annotations

from sqlglot import exp

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
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
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "dayofmonth",
    exp.Quarter: "quarter",
    exp.Upper: "upper",
    exp.Lower: "lower",
    exp.Length: "length",
    exp.Coalesce: "coalesce",
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
    exp.TsOrDsAdd: "date_add",
    exp.Trim: "trim",
    exp.Replace: "replace",
}


def output_name(node: exp.Expression) -> str:
    """The name of a select item that has no alias."""
    while isinstance(node, (exp.Paren, exp.Cast)) and isinstance(
        node.this, (exp.Paren, exp.Cast, exp.Column)
    ):
        node = node.this
    return str(node.name) if isinstance(node, exp.Column) else _printed(node)


def _printed(node: exp.Expression) -> str:
    if isinstance(node, exp.Paren):
        return _printed(node.this)
    if isinstance(node, exp.Column):
        return f"{node.table}.{node.name}" if node.table else str(node.name)
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if isinstance(node, exp.Null):
        return "NULL"
    if isinstance(node, exp.Star):
        return "1"
    if isinstance(node, exp.Neg):
        inner = node.this
        if isinstance(inner, exp.Literal):
            return f"-{_printed(inner)}"
        return f"(- {_printed(inner)})"
    if isinstance(node, exp.NEQ):
        return f"(NOT ({_printed(node.this)} = {_printed(node.expression)}))"
    if isinstance(node, exp.Not):
        if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
            return f"({_printed(node.this.this)} IS NOT NULL)"
        return f"(NOT {_printed(node.this)})"
    if isinstance(node, exp.Is):
        truth = isinstance(node.expression, exp.Boolean)
        return f"({_printed(node.this)} {'<=>' if truth else 'IS'} {_printed(node.expression)})"
    if isinstance(node, exp.In):
        return f"({_printed(node.this)} IN ({', '.join(_printed(e) for e in node.expressions)}))"
    if isinstance(node, exp.Cast):
        name = "TRY_CAST" if node.args.get("safe") else "CAST"
        return f"{name}({_printed(node.this)} AS {node.args['to'].sql(dialect='spark')})"
    if isinstance(node, exp.Case) and not node.args.get("this"):
        arms = [f"WHEN {_printed(i.this)} THEN {_printed(i.args['true'])}" for i in node.args["ifs"]]
        last = node.args.get("default")
        return f"CASE {' '.join(arms)}{f' ELSE {_printed(last)}' if last is not None else ''} END"
    if type(node) in _OPERATORS:
        symbol = _OPERATORS[type(node)]
        return f"({_printed(node.this)} {symbol} {_printed(node.expression)})"
    if type(node) in _FUNCTIONS:
        return f"{_FUNCTIONS[type(node)]}({', '.join(_printed(a) for a in _arguments(node))})"
    return str(node.sql(dialect="spark", comments=False))


def _arguments(node: exp.Expression) -> list[exp.Expression]:
    found: list[exp.Expression] = []
    for value in node.args.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, exp.TsOrDsToDate):
                item = item.this
            if isinstance(item, exp.Expression) and not isinstance(item, exp.Var):
                found.append(item)
    return found
