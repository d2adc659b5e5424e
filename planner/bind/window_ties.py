"""What breaks ties in the order of windows, as the text of a SELECT says: also for the oracle.

First the output columns without a window in them, from left to right; then whatever else the
windows and the expressions around them are made of, in the order of the text: the arguments,
partitions and orders of windows, and the largest parts without a window of what they stand in; of
the select list, QUALIFY and ORDER BY. So rows that tie in all of this are equal in all that the
query sees of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

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
    """The items of the select list without a window, and the other expressions; some may be there
    twice, or be constants."""
    items = [item.unalias() for item in select.expressions]
    plain = [item for item in items if not has_window(item)]
    rest = [item for item in items if has_window(item)]
    qualify, order = select.args.get("qualify"), select.args.get("order")
    if qualify is not None:
        rest.append(qualify.this)
    if order is not None:
        rest += [key.this for key in order.expressions]
    names = {folded(item.alias) for item in select.expressions if item.alias}
    found = [node for item in rest for node in _parts(item, select)]
    return plain, [n for n in found if not isinstance(n, exp.Star) and not _is_named(n, names)]


def _is_named(node: exp.Expression, names: set[str]) -> bool:
    return isinstance(node, exp.Column) and not node.table and folded(node.name) in names


def _parts(node: exp.Expression, select: exp.Select) -> Iterator[exp.Expression]:
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
