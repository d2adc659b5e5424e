"""What breaks ties in the order of windows, as the text of a SELECT says: also for the oracle.

First the output columns without a window in them, from left to right; then what the other items of
the select list, QUALIFY and ORDER BY read, in the order of the text: columns, aggregates, keys of
GROUP BY. So rows that tie in all of this are equal in all that the query sees of them, and nothing
is computed to tell them apart, which might fail for a row that a CASE around it does not reach.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.bind.tables import aggregate_name
from planner.names import folded

#: What stands around a function, or its arguments, and has no value of its own.
_WRAPPERS = (
    *(exp.Filter, exp.Where, exp.WithinGroup, exp.Order, exp.Ordered, exp.Distinct),
    *(exp.IgnoreNulls, exp.RespectNulls),
)


def has_window(node: exp.Expression) -> bool:
    """Whether a window function stands in an expression, subqueries aside."""
    return any(
        isinstance(n, exp.Window) for n in node.walk(prune=lambda n: isinstance(n, exp.Query))
    )


def defined(window: exp.Window, select: exp.Select) -> exp.Window | None:
    """The window with its partition, order and frame: itself, or what its name stands for in the
    WINDOW clause, None if that is not there."""
    name = window.args.get("alias")
    if name is None:
        return window
    for definition in select.args.get("windows") or ():
        if folded(definition.this.name) == folded(name.name):
            return definition if isinstance(definition, exp.Window) else None
    return None


def tie_nodes(select: exp.Select) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """The items of the select list without a window, and what the other expressions read; some may
    be there twice."""
    items = [item.unalias() for item in select.expressions]
    plain = [item for item in items if not has_window(item)]
    rest = [item for item in items if has_window(item)]
    qualify, order = select.args.get("qualify"), select.args.get("order")
    if qualify is not None:
        rest.append(qualify.this)
    if order is not None:
        rest += [key.this for key in order.expressions]
    # Names of values that stand on windows; another name's value is among the plain ones.
    above = {folded(i.alias) for i in select.expressions if i.alias and has_window(i)}
    keys = _keys(select)
    found = [part for item in rest for node in _parts(item, select) for part in _read(node, keys)]
    return plain, [n for n in found if not n.is_star and not _is_named(n, above)]


def _is_named(node: exp.Expression, names: set[str]) -> bool:
    return isinstance(node, exp.Column) and not node.table and folded(node.name) in names


def _parts(node: exp.Expression, select: exp.Select) -> Iterator[exp.Expression]:
    """What windows in an expression are of, and the largest parts of it without any."""
    if isinstance(node, exp.Window):
        yield from _arguments(node.this)
        window = defined(node, select) or node
        yield from window.args.get("partition_by") or ()
        order = window.args.get("order")
        if order is not None:
            yield from (key.this for key in order.expressions)
    elif not has_window(node):
        yield node
    else:
        for child in node.iter_expressions():
            yield from _parts(child, select)


def _read(node: exp.Expression, keys: set[str]) -> Iterator[exp.Expression]:
    """What an expression without windows reads: columns, aggregates, keys of GROUP BY, queries."""
    call = node.this if isinstance(node, (exp.Filter, exp.WithinGroup)) else node
    queries = any(isinstance(child, exp.Query) for child in node.iter_expressions())
    if (
        queries
        or isinstance(node, (exp.Column, exp.Dot, exp.Query))
        or aggregate_name(call) is not None
        or _text(node) in keys
    ):
        yield node
    elif isinstance(node, exp.Lambda):
        own = {folded(parameter.name) for parameter in node.expressions}
        yield from (part for part in _read(node.this, keys) if not _is_named(part, own))
    else:
        for child in node.iter_expressions():
            yield from _read(child, keys)


def _keys(select: exp.Select) -> set[str]:
    """All expressions in GROUP BY, and what numbers and names there stand for, as texts."""
    group = select.args.get("group")
    if group is None:
        return set()
    items = select.expressions
    named = {folded(item.alias): item.unalias() for item in items if item.alias}
    found = [node for part in group.iter_expressions() for node in part.walk()]
    for node in list(found):
        if isinstance(node, exp.Literal) and node.is_int and 0 < int(node.name) <= len(items):
            found.append(items[int(node.name) - 1].unalias())
        elif isinstance(node, exp.Column) and not node.table and folded(node.name) in named:
            found.append(named[folded(node.name)])
    return {_text(node) for node in found}


def _text(node: exp.Expression) -> str:
    """An expression, whatever tables its columns are written with, and in whatever case."""
    plain = node.transform(lambda n: exp.column(n.this) if isinstance(n, exp.Column) else n)
    return folded(plain.sql("databricks"))


def _arguments(function: exp.Expression) -> Iterator[exp.Expression]:
    """The expressions that a window's function is of."""
    if isinstance(function, _WRAPPERS):
        yield from _arguments(function.this)
        if function.args.get("expression") is not None:
            yield from _values(function.expression)
        return
    for child in function.iter_expressions():
        yield from _values(child)


def _values(node: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(node, _WRAPPERS):
        for child in node.iter_expressions():
            yield from _values(child)
    else:
        yield node
