"""The dataflow IR as a function of its tables: what a view must hold, computed from scratch.

A DeltaJoin is computed along one of its paths, chosen by the caller, over all rows of the path's
source; along whichever path, the result is the same.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from planner import dataflow
from planner.calculus.algebra import RECOMPUTED, identity
from planner.calculus.types import DecimalType
from planner.dataflow import (
    Accumulator,
    CountedJoin,
    DeltaJoin,
    HalfJoin,
    Node,
    OrderedArrangement,
    RangeJoin,
)
from tests.reference.group_values import group_value
from tests.reference.scalar import Row, fit, passes, sort_rows, value
from tests.reference.windows import windowed

Tables = Mapping[str, list[Row]]


def rows(node: Node, tables: Tables, path: int = 0) -> Counter[Row]:
    """The node's rows; a DeltaJoin of n inputs follows its path number `path` modulo n."""
    return Counter(_rows(node, tables, path))


def _rows(node: Node, tables: Tables, path: int) -> list[Row]:
    match node:
        case dataflow.Source():
            return tables[node.relation]
        case dataflow.Store():
            return _rows(node.input, tables, path)
        case dataflow.Map():
            below = _rows(node.input, tables, path)
            kept = [r for r in below if all(passes(p, r) for p in node.predicates)]
            return [tuple(value(e, r) for e in node.outputs) for r in kept]
        case dataflow.Union():
            total: Counter[Row] = Counter()
            signs = node.negated or (False,) * len(node.inputs)
            for i, minus in zip(node.inputs, signs, strict=True):
                part = Counter(_rows(i, tables, path))
                assert not minus or part <= total, "a negated input is a part of the others"
                total = total - part if minus else total + part
            return list(total.elements())
        case dataflow.Reduce():
            return _reduce(node, _rows(node.input, tables, path))
        case dataflow.Recompute():
            return _recompute(node, _rows(node.index.relation, tables, path))
        case dataflow.DeltaJoin():
            return _join(node, tables, path)
        case dataflow.TopK():
            groups = _partitions(node.index, _rows(node.index.relation, tables, path))
            return [r for g in groups for r in g[node.offset : node.offset + node.limit]]
        case dataflow.Window():
            return _windowed(node, _rows(node.index.relation, tables, path))
        case dataflow.Constant():
            return [tuple(v.value for v in row) for row in node.rows]
        case dataflow.Explode():
            nothing = [(None, None)] if node.outer else []
            return [
                (*r, *pair)
                for r in _rows(node.input, tables, path)
                for pair in list(enumerate(r[node.array] or ())) or nothing
            ]
        case dataflow.Repeat():
            return [r for r in _rows(node.input, tables, path) for _ in range(r[node.count])]
        case dataflow.Threshold():
            return _threshold(node, tables, path)


def _partitions(index: OrderedArrangement, below: list[Row]) -> list[list[Row]]:
    """The rows of each partition in the index's order."""
    keys = [(k.column, k.descending, k.nulls_first) for k in index.order]
    keys += [(c, False, True) for c in index.ties]
    groups: dict[Row, list[Row]] = {}
    for r in below:
        groups.setdefault(tuple(r[c] for c in index.partition), []).append(r)
    return [sort_rows(g, tuple(keys)) for g in groups.values()]


def _windowed(node: dataflow.Window, below: list[Row]) -> list[Row]:
    columns = identity(node.index.relation.schema)

    def aggregate(number: int, members: list[Row]) -> Any:
        made, kind = node.values[number], node.schema[len(node.columns) + number].type
        if made.function in RECOMPUTED:
            rows = [tuple(r[c] for c in made.args) for r in members]
            return group_value(made.function, rows, made.order, made.parameters, False)
        arg = columns[made.args[0]] if made.args else None
        if made.function in ("min", "max"):
            values = [r[made.args[0]] for r in members if r[made.args[0]] is not None]
            keys = ((0, made.function == "max", True),)
            return sort_rows([(v,) for v in values], keys)[0][0] if values else None
        return _accumulate(Accumulator(made.function, arg), members, kind)

    index = node.index
    found = windowed(below, index.partition, index.order, index.ties, node.values, aggregate)
    return [(*(r[c] for c in node.columns), *values) for r, values in found]


def _threshold(node: dataflow.Threshold, tables: Tables, path: int) -> list[Row]:
    found: dict[Row, Any] = {}
    for r in _rows(node.bound.relation, tables, path):
        key = tuple(r[c] for c in node.bound.columns)
        assert key not in found, "a bound has one row a key"
        found[key] = r[node.scalar]
    compare = getattr(operator, node.comparison)
    column = node.index.order[0].column
    kept = []
    for r in _rows(node.index.relation, tables, path):
        key = tuple(r[c] for c in node.index.partition)
        scalar = None if None in key else found.get(key)
        if r[column] is not None and scalar is not None and compare(r[column], scalar):
            kept.append(r)
    return kept


def _reduce(node: dataflow.Reduce, below: list[Row]) -> list[Row]:
    groups: dict[Row, list[Row]] = {} if node.keys else {(): []}
    for r in below:
        groups.setdefault(tuple(value(k, r) for k in node.keys), []).append(r)
    return [
        key
        + tuple(
            _accumulate(a, members, kind.type)
            for a, kind in zip(node.accumulators, node.schema[len(node.keys) :], strict=True)
        )
        for key, members in groups.items()
    ]


def _recompute(node: dataflow.Recompute, below: list[Row]) -> list[Row]:
    keys = node.index.columns
    groups: dict[Row, list[Row]] = {} if keys else {(): []}
    for r in below:
        groups.setdefault(tuple(r[k] for k in keys), []).append(r)
    return [
        key
        + tuple(
            group_value(
                v.function,
                [tuple(r[c] for c in v.args) for r in members],
                v.order,
                v.parameters,
                v.distinct,
            )
            for v in node.values
        )
        for key, members in groups.items()
    ]


def _accumulate(accumulator: Accumulator, members: list[Row], kind: Any) -> Any:
    if accumulator.arg is None:
        return len(members)
    if accumulator.kind == "first" and not members:
        return None
    values = [v for v in (value(accumulator.arg, r) for r in members) if v is not None]
    match accumulator.kind:
        case "first":
            assert accumulator.index is not None
            (front, *_), *others = _partitions(accumulator.index, members)
            assert not others, "the index is partitioned by the keys"
            return value(accumulator.arg, front)
        case "count":
            return len(values)
        case "sum":
            return fit(Fraction(sum(map(Fraction, values))), kind)
        case "sum_top":
            assert isinstance(accumulator.arg.type, DecimalType)
            return int(sum(map(Fraction, values)) * 10**accumulator.arg.type.scale) >> 128
        case _:
            return sum(map(Fraction, values))


def _join(node: DeltaJoin, tables: Tables, path: int) -> list[Row]:
    chosen = node.paths[path % len(node.paths)]
    parts = [_rows(i.relation, tables, path) for i in node.inputs]
    kept = [
        [r for r in part if i.filter is None or passes(i.filter, r)]
        for i, part in zip(node.inputs, parts, strict=True)
    ]
    starts = dataflow.offsets(tuple(i.schema for i in node.inputs))
    width = len(node.schema)
    found: list[list[Any]] = [
        _placed([None] * width, starts[chosen.source], r) for r in kept[chosen.source]
    ]
    # Of a counted step any way is right: another one for each path that is asked for.
    steps = [
        step
        for s in chosen.steps
        for step in (s.ways[path % len(s.ways)] if isinstance(s, CountedJoin) else (s,))
    ]
    for step in steps:
        found = [
            joined
            for prefix in found
            for r in kept[step.input]
            if _meets(step, prefix, r)
            for joined in [_placed(prefix, starts[step.input], r)]
            if all(passes(p, tuple(joined)) for p in step.residual)
        ]
    return [tuple(r) for r in found]


def _placed(prefix: list[Any], start: int, row: Row) -> list[Any]:
    return prefix[:start] + list(row) + prefix[start + len(row) :]


def _meets(step: HalfJoin | RangeJoin, prefix: list[Any], row: Row) -> bool:
    if isinstance(step, RangeJoin):
        return _is_between(step, prefix, row)
    if not step.index.null_safe and any(row[c] is None for c in step.index.columns):
        return False  # such rows are not in the index
    safe = step.null_safe or (False,) * len(step.probe)
    pairs = zip(step.probe, step.index.columns, safe, strict=False)
    return all(
        prefix[p] == row[c] and (null_safe or prefix[p] is not None) for p, c, null_safe in pairs
    )


def _is_between(step: RangeJoin, prefix: list[Any], row: Row) -> bool:
    own = row[step.index.order[0].column]
    for end, compare in ((step.low, operator.gt), (step.high, operator.lt)):
        if end is None:
            continue
        other = value(end.value, tuple(prefix))
        if own is None or other is None:
            return False
        a, b = _ranked(own), _ranked(other)
        if not (compare(a, b) or (end.inclusive and a == b)):
            return False
    return own is not None


def _ranked(v: Any) -> tuple[bool, Any]:
    """The value as Spark orders it: NaN is equal to itself, and greatest."""
    is_nan = isinstance(v, float) and v != v
    return is_nan, 0 if is_nan else v
