"""What a step's signed actions do to keyed rows and bags, in the plainest words.

The twin of operators.state.changes: no births, deaths and ids, only which rows are there when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
INSERT, DELETE, UPSERT = 1, -1, 2


class Refused(Exception):
    """An action cannot be taken: `duplicate` or absent, at position `action`."""

    def __init__(self, duplicate: bool, action: int) -> None:
        super().__init__(duplicate, action)
        self.duplicate, self.action = duplicate, action


@dataclass(frozen=True, slots=True)
class Action:
    what: int
    key: Any
    value: Any
    time: int


def replay(
    actions: Iterable[Action], before: list[tuple[Any, Any]], unique: bool
) -> dict[int, Counter[tuple[Any, Any]]]:
    """The rows (key, value) after each time of the actions, taken in turn."""
    rows: dict[Any, list[Any]] = {}
    for key, value in before:
        rows.setdefault(key, []).append(value)
    after: dict[int, Counter[tuple[Any, Any]]] = {}
    for i, action in enumerate(actions):
        copies = rows.setdefault(action.key, [])
        if action.what == DELETE:
            if not copies:
                raise Refused(False, i)
            copies.pop()
        else:
            if action.what == UPSERT and copies:
                copies.pop()
            if unique and copies:
                raise Refused(True, i)
            copies.append(action.value)
        after[action.time] = Counter((k, v) for k, values in rows.items() for v in values)
    return after


def consolidate(updates: Iterable[tuple[Row, int, int]]) -> Counter[tuple[Row, int]]:
    """Diffs per (row, time), without those that are zero."""
    total: Counter[tuple[Row, int]] = Counter()
    for row, time, diff in updates:
        total[row, time] += diff
    return Counter({k: d for k, d in total.items() if d})


def accumulate(updates: Counter[tuple[Row, int]], time: int) -> Counter[Row]:
    """The collection as of `time`; raises if a row were there fewer than no times."""
    total: Counter[Row] = Counter()
    for (row, at), diff in updates.items():
        if at <= time:
            total[row] += diff
    if any(n < 0 for n in total.values()):
        raise AssertionError(f"a negative multiplicity as of {time}: {total}")
    return Counter({row: n for row, n in total.items() if n})
