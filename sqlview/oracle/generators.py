"""Generators (explode, posexplode, LATERAL VIEW) as DuckDB's UNNEST, for the oracle alone.

They are respelled before any type is known: that EXPLODE is of a map shows in the number of its
names alone. INLINE and STACK are left to Spark.
"""

from __future__ import annotations

from sqlglot import exp

from sqlview.oracle.protocol import CannotSay

_NAMES = ("explode", "posexplode", "inline", "stack")


def name_of(node: exp.Expr | None) -> str | None:
    """Which generator a node calls, without the end "_outer"; None if it calls none."""
    if not isinstance(node, exp.Anonymous):
        return None
    name = node.name.lower().removesuffix("_outer")
    return name if name in _NAMES else None


def as_unnest(select: exp.Select) -> None:
    """The generators of a select's list and FROM as queries of UNNEST, in place."""
    for view in select.args.get("laterals") or []:
        if name_of(view.this) is not None:
            alias = view.args.get("alias")
            query = _query(view.this, alias, bool(view.args.get("outer")))
            select.append("joins", exp.Join(this=exp.Lateral(this=query, alias=_named(alias))))
    if select.args.get("laterals"):
        select.set("laterals", None)
    for part in (select.args.get("from_"), *(select.args.get("joins") or [])):
        source = part.this if part is not None else None
        if isinstance(source, exp.Table) and name_of(source.this) is not None:
            query = _query(source.this, source.args.get("alias"), False)
            query.set("alias", _named(source.args.get("alias")))
            source.replace(query)
        elif isinstance(source, exp.Lateral) and name_of(source.this) is not None:
            padded = str(part.args.get("side") or "").upper() == "LEFT"
            alias = source.args.get("alias")
            lateral = exp.Lateral(this=_query(source.this, alias, padded), alias=_named(alias))
            if padded and part.args.get("on") is None:
                part.set("side", None)
            source.replace(lateral)
    items: list[exp.Expr] = []
    for item in select.expressions:
        call = item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item
        if name_of(call) is None:
            items.append(item)
            continue
        names = [i.name for i in item.expressions] if isinstance(item, exp.Aliases) else []
        names = [item.alias] if isinstance(item, exp.Alias) else names
        items += _columns(call, names, False)
    select.set("expressions", items)


def _named(alias: exp.Expr | None) -> exp.TableAlias:
    """The alias without its columns, which the query names."""
    name = alias.args.get("this") if alias is not None else None
    return exp.TableAlias(this=name.copy() if name is not None else exp.to_identifier("g"))


def _query(call: exp.Expr, alias: exp.Expr | None, outer: bool) -> exp.Subquery:
    names = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    return exp.Subquery(this=exp.select(*_columns(call, names, outer)))


def _columns(call: exp.Expr, names: list[str], outer: bool) -> list[exp.Expr]:
    """What the generator gives, as items of a select list."""
    name = name_of(call)
    outer = outer or call.name.lower().endswith("_outer")
    if name in ("inline", "stack"):
        raise CannotSay(f"{name} is computed by Spark alone")
    (of,) = call.expressions
    first = 1 if name == "posexplode" else 0
    names = names or ["pos", "col"][1 - first :]
    columns: list[tuple[str, exp.Expr]] = []
    values = names[first:]
    lists = [of] if len(values) == 1 else [_call("map_keys", of), _call("map_values", of)]
    if first:
        columns.append((names[0], _call("range", _call("len", lists[0].copy()))))
    columns += zip(values, lists, strict=True)
    made: list[exp.Expr] = []
    for column, value in columns:
        given = value.copy()
        if outer:
            nothing = exp.Array(expressions=[exp.Null()])
            some = exp.GT(this=_call("len", lists[0].copy()), expression=exp.Literal.number(0))
            given = exp.Case(ifs=[exp.If(this=some, true=given)], default=nothing)
        made.append(exp.alias_(_call("unnest", given), column))
    return made


def _call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[a.copy() for a in args])
