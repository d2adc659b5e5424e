"""Window functions of Spark SQL as DuckDB SQL with Spark's meaning, for the oracle alone.

Named windows are written out. Ties are broken as documented (`planner.bind.window_ties`): where a
value depends on them, what breaks them goes behind the window's ORDER BY, or, where that would
change who are peers, into an ORDER BY of the function's argument. What stands for an aggregate may
hold several: OVER goes to each. Ranks are INT.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.bind.window_ties import defined, tie_nodes
from planner.calculus import types as t
from sqlview.oracle.arithmetic import Typed
from sqlview.oracle.kinds import MaybeType
from sqlview.oracle.trees import cast

_NUMBERS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_OF_PEERS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
_OF_ROWS = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)
_VALUES = (exp.First, exp.FirstValue, exp.Last, exp.LastValue, exp.NthValue)
_OVER = ("partition_by", "order", "spec")


def write_out(select: exp.Select) -> None:
    """Named windows in their places."""
    for window in _windows(select):
        definition = defined(window, select)
        if definition is not None and definition is not window:
            for name in _OVER:
                value = definition.args.get(name)
                copied = [v.copy() for v in value] if isinstance(value, list) else value
                window.set(name, copied.copy() if isinstance(copied, exp.Expr) else copied)
            window.set("alias", None)
    select.set("windows", None)


def break_ties(select: exp.Select) -> None:
    """Orders in which no two rows tie that differ, where a value depends on it."""
    windows = list(_windows(select))
    if not windows:
        return
    plain, parts = tie_nodes(select)
    ties = [n.copy() for n in dict.fromkeys((*plain, *parts)) if n.find(exp.Column)]
    orders = []
    for window in windows:
        order, function = window.args.get("order"), _function(window.this)
        keys = [] if order is None else [_ordered(key) for key in order.expressions]
        spec = window.args.get("spec")
        by_rows = spec is not None and str(spec.args["kind"]).upper() == "ROWS"
        orders.append((window, function, keys, by_rows))
    for window, function, keys, by_rows in orders:
        total = [k.copy() for k in keys] + [
            exp.Ordered(this=tie.copy(), desc=False, nulls_first=True) for tie in ties
        ]
        if isinstance(function, _OF_PEERS) or not total:
            continue
        if by_rows or isinstance(function, _OF_ROWS):
            window.set("order", exp.Order(expressions=total))
        elif isinstance(function, _VALUES):
            last = "offset" if isinstance(function, exp.NthValue) else "this"
            function.set(last, exp.Order(this=function.args[last], expressions=total))


def _ordered(key: exp.Expr) -> exp.Expr:
    if key.args.get("nulls_first") is None:
        key.set("nulls_first", not key.args.get("desc"))
    return key


def windowed(node: exp.Window, kind: MaybeType) -> Typed:
    """A window whose function, of type `kind`, is written as DuckDB has it."""
    function = _function(node.this)
    if isinstance(function, _NUMBERS):
        return t.INT, cast(node, t.INT)
    if isinstance(function, (exp.PercentRank, exp.CumeDist)):
        return t.DOUBLE, None
    if isinstance(function, (*_OF_ROWS, *_VALUES, exp.AggFunc)):
        return kind, None
    over = {name: node.args.get(name) for name in _OVER}
    body = node.this
    for aggregate in list(_aggregates(body)):
        inner = aggregate.copy()
        aggregate.replace(exp.Window(this=inner, over="OVER", **_copied(over)))
    return kind, exp.paren(body, copy=False)


def _copied(over: dict[str, object]) -> dict[str, object]:
    def copied(value: object) -> object:
        if isinstance(value, list):
            return [v.copy() for v in value]
        return value.copy() if isinstance(value, exp.Expr) else value

    return {name: copied(value) for name, value in over.items()}


def _aggregates(body: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregates, with their conditions."""
    kinds = (exp.Filter, exp.AggFunc)
    for node in body.walk(prune=lambda n: isinstance(n, kinds)):
        if isinstance(node, kinds):
            yield node


def _function(node: exp.Expr) -> exp.Expr:
    while isinstance(node, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        node = node.this
    return node


def _windows(select: exp.Select) -> Iterator[exp.Window]:
    """Those of the query itself."""
    parts = [*select.expressions, select.args.get("qualify"), select.args.get("order")]
    for part in parts:
        if part is not None:
            for node in part.walk(prune=lambda n: isinstance(n, exp.Query)):
                if isinstance(node, exp.Window):
                    yield node


def within_window(node: exp.Expr) -> bool:
    """Whether the aggregate is a window's function."""
    parent = node.parent
    while isinstance(parent, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls)):
        node, parent = parent, parent.parent
    return isinstance(parent, exp.Window) and parent.this is node
