"""PIVOT and UNPIVOT, rewritten in the tree into what the binder has: aggregates with filters over
groups of all other columns, and a generator (STACK) of the columns that become rows.

Source: Spark SQL, `ResolvePivot` (with `PivotFirst`: where a group has no row of a value, COUNT is
NULL too, unless a result is no number) and `ResolveUnpivot`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from planner.bind.naming import output_name
from planner.bind.report import Refusal, Report
from planner.bind.tables import aggregate_name
from planner.calculus.coercion import common_type
from planner.calculus.types import BooleanType, NullType, Schema, SqlType, StringType, is_numeric
from planner.names import folded

#: The columns of a query.
Columns = Callable[[exp.Expression], Schema]


def as_query(node: exp.Expression, schema_of: Columns, report: Report) -> exp.Subquery:
    """The relation at `node`, which has PIVOT or UNPIVOT behind it, as a query in FROM."""
    inner = node.copy()
    inner.set("pivots", None)
    inner.set("joins", None)
    inner.parent = node.parent  # for the place of errors
    for pivot in node.args["pivots"]:
        _check(pivot, report)
        rewrite = _unpivoted if pivot.args.get("unpivot") else _pivoted
        query = rewrite(inner, pivot, schema_of, report)
        inner = exp.Subquery(this=query, alias=pivot.args.get("alias"))
    assert isinstance(inner, exp.Subquery)
    return inner


def _check(pivot: exp.Expression, report: Report) -> None:
    for name in ("using", "group", "default_on_null"):
        if pivot.args.get(name):
            report.refuse(
                pivot, Refusal(f"PIVOT … {name}", "is not part of Spark SQL", "Leave it out.")
            )
    if len(pivot.args.get("fields") or ()) != 1:
        report.fail(pivot, "PIVOT and UNPIVOT take one FOR … IN (…)")
    if not pivot.args["fields"][0].expressions:
        kind = "UNPIVOT has no columns" if pivot.args.get("unpivot") else "PIVOT has no values"
        report.fail(pivot, f"{kind} in its IN", hint="Write them out: FOR k IN (1, 2).")


def _selected(inner: exp.Expression, *items: exp.Expression) -> exp.Select:
    return exp.Select(expressions=list(items), from_=exp.From(this=inner.copy()))


def _named(value: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def _parts(node: exp.Expression) -> list[exp.Expression]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _others(schema: Schema, used: set[str]) -> list[exp.Expression]:
    names = [f.name for f in schema if folded(f.name) not in used]
    return [exp.Column(this=exp.to_identifier(name, quoted=True)) for name in names]


# --- PIVOT -------------------------------------------------------------------------------------


def _pivoted(
    inner: exp.Expression, pivot: exp.Expression, schema_of: Columns, report: Report
) -> exp.Select:
    (field,) = pivot.args["fields"]
    keys = _parts(field.this)
    calls = [call.unalias() for call in pivot.expressions]
    if any(not list(_aggregates(call)) for call in calls):
        report.fail(pivot, "PIVOT takes aggregates", hint="Write PIVOT (sum(x) FOR k IN (…)).")
    read = {folded(c.name) for part in (*keys, *calls) for c in part.find_all(exp.Column)}
    groups = _others(schema_of(_selected(inner, exp.Star())), read)
    kinds = [f.type for f in schema_of(_selected(inner, *(_named(c.copy(), "v") for c in calls)))]
    is_absent = all(is_numeric(k) or isinstance(k, BooleanType) for k in kinds)
    items: list[exp.Expression] = [g.copy() for g in groups]
    for value in field.expressions:
        chosen = _condition(keys, value, report)
        for call, given in zip(calls, pivot.expressions, strict=True):
            name = _value_name(value, report)
            if len(calls) > 1:
                name += "_" + (given.alias or output_name(call))
            items.append(_named(_filtered(call, chosen, is_absent), name))
    query = _selected(inner, *items)
    if groups:
        query.set("group", exp.Group(expressions=[g.copy() for g in groups]))
    return query


def _aggregates(call: exp.Expression) -> Iterator[exp.Expression]:
    """The aggregates in an expression, the outermost of those in each other."""
    if isinstance(call, exp.Filter) or aggregate_name(call) is not None:
        yield call
    else:
        for child in call.iter_expressions():
            yield from _aggregates(child)


def _filtered(call: exp.Expression, chosen: exp.Expression, is_absent: bool) -> exp.Expression:
    """The call over the rows of one value alone; NULL without any, if `is_absent`."""
    whole = exp.Paren(this=call.copy())
    for part in list(_aggregates(whole.this)):
        condition, inner = chosen.copy(), part.copy()
        if isinstance(part, exp.Filter):
            condition = exp.And(this=exp.paren(part.expression.this.copy()), expression=condition)
            inner = part.this.copy()
        part.replace(exp.Filter(this=inner, expression=exp.Where(this=condition)))
    if not is_absent:
        return whole
    count = exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=chosen.copy()))
    some = exp.GT(this=count, expression=exp.Literal.number(0))
    return exp.If(this=some, true=whole, false=exp.Null())


def _condition(
    keys: Sequence[exp.Expression], value: exp.Expression, report: Report
) -> exp.Expression:
    values = _parts(value.this if isinstance(value, exp.PivotAlias) else value)
    if len(values) != len(keys):
        report.fail(value, f"a value of PIVOT has {len(values)} parts, for {len(keys)} columns")
    equal = [
        exp.NullSafeEQ(this=k.copy(), expression=v.copy())
        for k, v in zip(keys, values, strict=True)
    ]
    whole: exp.Expression = equal[0]
    for part in equal[1:]:
        whole = exp.And(this=whole, expression=part)
    return whole


def _value_name(value: exp.Expression, report: Report) -> str:
    """The name of the column of a value: its alias, or the constant as a text."""
    if isinstance(value, exp.PivotAlias):
        return str(value.args["alias"].name)
    if isinstance(value, exp.Tuple):
        return f"{{{', '.join(_value_name(v, report) for v in value.expressions)}}}"
    match value:
        case exp.Literal():
            return str(value.this)
        case exp.Neg(this=exp.Literal(is_string=False)):
            return f"-{value.this.this}"
        case exp.Boolean():
            return "true" if value.this else "false"
        case exp.Null():
            return "null"
        case _:
            pass
    raise report.error(
        value, "a value of PIVOT is not a constant as it stands", hint="Give it a name: … AS name."
    )


# --- UNPIVOT -----------------------------------------------------------------------------------


def _unpivoted(
    inner: exp.Expression, pivot: exp.Expression, schema_of: Columns, report: Report
) -> exp.Select:
    (field,) = pivot.args["fields"]
    (made,) = pivot.expressions
    values = [v.name for v in _parts(made)]
    rows = [_parts(e.this if isinstance(e, exp.PivotAlias) else e) for e in field.expressions]
    for node, row in zip(field.expressions, rows, strict=True):
        if len(row) != len(values) or not all(isinstance(c, exp.Column) for c in row):
            report.fail(node, f"UNPIVOT takes {len(values)} columns here")
    schema = schema_of(_selected(inner, exp.Star()))
    used = {folded(c.name) for row in rows for c in row}
    _check_types(inner, rows, schema_of, report, field)
    stacked: list[exp.Expression] = [exp.Literal.number(len(rows))]
    for node, row in zip(field.expressions, rows, strict=True):
        named = isinstance(node, exp.PivotAlias)
        name = node.args["alias"].name if named else "_".join(c.name for c in row)
        stacked += [exp.Literal.string(name), *(c.copy() for c in row)]
    names = [field.this.name, *values]
    columns = [exp.Column(this=exp.to_identifier(n, quoted=True)) for n in names]
    query = _selected(inner, *_others(schema, used), *columns)
    listed = [exp.to_identifier(n, quoted=True) for n in names]
    alias = exp.TableAlias(this=exp.to_identifier("unpivoted"), columns=listed)
    stack = exp.Anonymous(this="stack", expressions=stacked)
    query.set("laterals", [exp.Lateral(this=stack, view=True, alias=alias)])
    if not pivot.args.get("include_nulls"):
        there: exp.Expression | None = None
        for column in columns[1:]:
            some = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
            there = some if there is None else exp.Or(this=there, expression=some)
        query.set("where", exp.Where(this=there))
    return query


def _check_types(
    inner: exp.Expression,
    rows: Sequence[Sequence[exp.Expression]],
    schema_of: Columns,
    report: Report,
    field: exp.Expression,
) -> None:
    """Columns that become one have a common type, texts and others none."""
    for position in range(len(rows[0])):
        items = [_named(row[position].copy(), "v") for row in rows]
        kinds: list[SqlType] = [f.type for f in schema_of(_selected(inner, *items))]
        kinds = [k for k in kinds if not isinstance(k, NullType)]
        wide = kinds[0] if kinds else None
        for kind in kinds[1:]:
            wide = common_type(wide, kind) if wide is not None else None
        texts = {isinstance(k, StringType) for k in kinds}
        if kinds and (wide is None or len(texts) > 1):
            listed = " and ".join(dict.fromkeys(map(str, kinds)))
            report.fail(field, f"UNPIVOT cannot make one column of {listed}", hint="Cast them.")
