"""Windows by their definition: every row looks at all rows of its partition."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from planner.calculus.algebra import Frame, FrameEnd, SortKey, WindowCall
from planner.dataflow import WindowValue
from tests.reference.scalar import Row, compare_rows, sort_rows

Value = WindowCall | WindowValue
#: An aggregate of some rows.
Aggregate = Callable[[Any, list[Row]], Any]


def windowed(
    rows: list[Row],
    partition: Sequence[int],
    order: Sequence[SortKey],
    ties: Sequence[int],
    values: Sequence[Value],
    aggregate: Aggregate,
) -> list[tuple[Row, list[Any]]]:
    """Each row with its values; an aggregate, by its position in `values`, of the frame's rows."""
    keys = tuple((k.column, k.descending, k.nulls_first) for k in order)
    whole = (*keys, *((c, False, True) for c in ties))
    groups: dict[Row, list[Row]] = {}
    for r in rows:
        groups.setdefault(tuple(r[c] for c in partition), []).append(r)
    found = []
    for group in groups.values():
        members = sort_rows(group, whole)
        for i, r in enumerate(members):
            made = [_value(v, n, members, i, keys, aggregate) for n, v in enumerate(values)]
            found.append((r, made))
    return found


def _value(
    value: Value,
    number: int,
    members: list[Row],
    i: int,
    keys: tuple[tuple[int, bool, bool], ...],
    aggregate: Aggregate,
) -> Any:
    n = len(members)
    peers = [j for j in range(n) if compare_rows(members[j], members[i], keys) == 0]
    parameter: Any = value.parameters[0].value if value.parameters else None
    match value.function:
        case "row_number":
            return i + 1
        case "rank":
            return peers[0] + 1
        case "dense_rank":
            firsts = [
                j for j in range(i + 1)
                if j == 0 or compare_rows(members[j - 1], members[j], keys) != 0
            ]  # fmt: skip
            return len(firsts)
        case "percent_rank":
            return peers[0] / (n - 1) if n > 1 else 0.0
        case "cume_dist":
            return (peers[-1] + 1) / n
        case "ntile":
            sizes = [n // parameter + (tile < n % parameter) for tile in range(parameter)]
            return [tile + 1 for tile, size in enumerate(sizes) for _ in range(size)][i]
        case "session_start":
            first = i
            times = [r[value.args[0]] for r in members]
            gap = datetime.timedelta(microseconds=parameter)
            while first and times[first] - times[first - 1] <= gap:
                first -= 1
            return members[first][value.args[0]]
        case "shift":
            step = 1 if parameter > 0 else -1
            places = list(range(i + step, n if step > 0 else -1, step))
            if value.ignore_nulls:
                places = [j for j in places if members[j][value.args[0]] is not None]
            if parameter == 0:
                return members[i][value.args[0]]
            if len(places) >= abs(parameter):
                return members[places[abs(parameter) - 1]][value.args[0]]
            return members[i][value.args[1]] if len(value.args) > 1 else None
    framed = [members[j] for j in range(n) if _is_within(value.frame, members, i, j, peers, keys)]
    if value.function not in ("first_value", "last_value", "nth_value"):
        return aggregate(number, framed)
    seen = [r[value.args[0]] for r in framed]
    if value.ignore_nulls:
        seen = [v for v in seen if v is not None]
    at = {"first_value": 0, "last_value": len(seen) - 1}.get(value.function)
    at = parameter - 1 if at is None else at
    return seen[at] if 0 <= at < len(seen) else None


def _is_within(
    frame: Frame,
    members: list[Row],
    i: int,
    j: int,
    peers: list[int],
    keys: tuple[tuple[int, bool, bool], ...],
) -> bool:
    def compared(end: FrameEnd) -> int:
        """Where row j is, seen from an end: before (-1), on or behind it."""
        match end.kind:
            case "peers":
                return -1 if j < peers[0] else 1 if j > peers[-1] else 0
            case "rows":
                return (j > i + end.offset) - (j < i + end.offset)
            case "value":
                ((column, descending, nulls_first),) = keys
                pair = [(members[j][column],), (members[i][end.offset],)]
                return compare_rows(pair[0], pair[1], ((0, descending, nulls_first),))
            case _:
                return 0

    return compared(frame.start) >= 0 and compared(frame.end) <= 0
