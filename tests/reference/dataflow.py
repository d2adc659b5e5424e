"""The dataflow IR as a function of its tables: what a view must hold, computed from scratch.

A DeltaJoin is computed along one of its paths, chosen by the caller, over all rows of the path's
source; along whichever path, the result is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from planner import dataflow
from planner.dataflow import Accumulator, DeltaJoin, HalfJoin, Node
from tests.reference.scalar import Row, fit, passes, sort_rows, value

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
            return [r for i in node.inputs for r in _rows(i, tables, path)]
        case dataflow.Reduce():
            return _reduce(node, _rows(node.input, tables, path))
        case dataflow.DeltaJoin():
            return _join(node, tables, path)
        case dataflow.TopK():
            index = node.index
            keys = [(k.column, k.descending, k.nulls_first) for k in index.order]
            keys += [(c, False, True) for c in index.ties]
            ordered = sort_rows(_rows(index.relation, tables, path), tuple(keys))
            return ordered[node.offset : node.offset + node.limit]


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


def _accumulate(accumulator: Accumulator, members: list[Row], kind: Any) -> Any:
    if accumulator.arg is None:
        return len(members)
    values = [v for v in (value(accumulator.arg, r) for r in members) if v is not None]
    match accumulator.kind:
        case "count":
            return len(values)
        case "sum":
            return fit(Fraction(sum(map(Fraction, values))), kind)
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
    for step in chosen.steps:
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


def _meets(step: HalfJoin, prefix: list[Any], row: Row) -> bool:
    if not step.index.null_safe and any(row[c] is None for c in step.index.columns):
        return False  # such rows are not in the index
    safe = step.null_safe or (False,) * len(step.probe)
    pairs = zip(step.probe, step.index.columns, safe, strict=False)
    return all(
        prefix[p] == row[c] and (null_safe or prefix[p] is not None) for p, c, null_safe in pairs
    )
