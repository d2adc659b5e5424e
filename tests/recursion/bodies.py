"""Random bodies of recursive relations, each as text and as a function of rows.

A relation r(x, y) is recursive over bags e(a, b) and f(a, b) of small integers and NULL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

Value: TypeAlias = "int | None"
Row: TypeAlias = "tuple[Value, ...]"
Tables: TypeAlias = "dict[str, list[Row]]"
#: The rows that a query makes of the tables and of r's rows.
Query: TypeAlias = "Callable[[Tables, list[Row]], Iterator[Row]]"

LIMIT = 12


@dataclass(frozen=True)
class Step:
    """`text` has {out} and {where} to be filled; `rows` are those of its FROM and WHERE; `columns`:
    what may be selected, by its text, of such a row."""

    form: str
    text: str
    rows: Query
    columns: tuple[str, ...]


def _eq(a: Value, b: Value) -> bool:
    return a is not None and a == b


def _next(t: Tables, r: list[Row]) -> Iterator[Row]:
    return ((x, y, a, b) for x, y in r for a, b in t["e"] if _eq(y, a))


def _left(t: Tables, r: list[Row]) -> Iterator[Row]:
    for x, y in r:
        found = [b for a, b in t["f"] if _eq(y, a)]
        yield from ((x, y, b) for b in found or [None])


STEPS = (
    Step("edge", "FROM r JOIN e ON r.y = e.a", _next, ("r.x", "r.y", "e.a", "e.b")),
    Step(
        "two edges",
        "FROM r, e, f WHERE r.y = e.a AND e.b = f.a",
        lambda t, r: ((*row, *g) for row in _next(t, r) for g in t["f"] if _eq(row[3], g[0])),
        ("r.x", "r.y", "e.a", "e.b", "f.a", "f.b"),
    ),
    Step(
        "generation",
        "FROM e, r, e AS d WHERE e.a = r.x AND d.a = r.y",
        lambda t, r: (
            (*e, x, y, *d)
            for e in t["e"]
            for x, y in r
            for d in t["e"]
            if _eq(e[0], x) and _eq(d[0], y)
        ),
        ("e.a", "e.b", "r.x", "r.y", "d.a", "d.b"),
    ),
    Step("itself", "FROM r", lambda t, r: ((x, y) for x, y in r), ("r.x", "r.y")),
    Step(
        "exists",
        "FROM r JOIN e ON r.y = e.a WHERE EXISTS (SELECT 1 FROM f WHERE f.a = e.b)",
        lambda t, r: (row for row in _next(t, r) if any(_eq(row[3], g[0]) for g in t["f"])),
        ("r.x", "r.y", "e.a", "e.b"),
    ),
    Step(
        "not exists outside",
        "FROM r JOIN e ON r.y = e.a WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.b = r.x)",
        lambda t, r: (row for row in _next(t, r) if not any(_eq(row[0], g[1]) for g in t["f"])),
        ("r.x", "r.y", "e.a", "e.b"),
    ),
    Step("left join", "FROM r LEFT JOIN f ON r.y = f.a", _left, ("r.x", "r.y", "f.b")),
    Step(
        "groups outside",
        "FROM r JOIN (SELECT a, max(b) AS b, count(*) AS n FROM e GROUP BY a) AS g ON r.y = g.a",
        lambda t, r: (
            (x, y, a, max((b for c, b in t["e"] if c == a and b is not None), default=None))
            for x, y in r
            for a in {a for a, _ in t["e"]}
            if _eq(y, a)
        ),
        ("r.x", "r.y", "g.a", "g.b"),
    ),
)
#: For UNION alone.
MORE_STEPS = (
    Step(
        "not linear",
        "FROM r JOIN r AS s ON r.y = s.x",
        lambda t, r: ((*p, *q) for p in r for q in r if _eq(p[1], q[0])),
        ("r.x", "r.y", "s.x", "s.y"),
    ),
    Step(
        "three times",
        "FROM r, e, r AS s WHERE r.y = e.a AND e.b = s.x",
        lambda t, r: ((*row, *s) for row in _next(t, r) for s in r if _eq(row[3], s[0])),
        ("r.x", "r.y", "e.a", "e.b", "s.x", "s.y"),
    ),
    Step(
        "exists in it",
        "FROM e WHERE EXISTS (SELECT 1 FROM r WHERE r.y = e.a)",
        lambda t, r: (e for e in t["e"] if any(_eq(y, e[0]) for _, y in r)),
        ("e.a", "e.b"),
    ),
    Step(
        "distinct",
        "FROM (SELECT DISTINCT y FROM r) AS d JOIN e ON d.y = e.a",
        lambda t, r: ((y, *e) for y in {y for _, y in r} for e in t["e"] if _eq(y, e[0])),
        ("d.y", "e.a", "e.b"),
    ),
    Step(
        "union inside",
        "FROM (SELECT x, y FROM r UNION ALL SELECT b, a FROM f) AS u JOIN e ON u.y = e.a",
        lambda t, r: (
            (x, y, *e)
            for x, y in [*r, *((b, a) for a, b in t["f"])]
            for e in t["e"]
            if _eq(y, e[0])
        ),
        ("u.x", "u.y", "e.a", "e.b"),
    ),
    Step("in", "FROM e WHERE e.b IN (SELECT x FROM r)",
        lambda t, r: (e for e in t["e"] if any(_eq(e[1], x) for x, _ in r)), ("e.a", "e.b")),
)  # fmt: skip
ANCHORS: tuple[tuple[str, Query], ...] = (
    ("SELECT a, b FROM e", lambda t, r: iter(t["e"])),
    ("SELECT a, b FROM f", lambda t, r: iter(t["f"])),
    ("SELECT a, a FROM f WHERE b > 2", lambda t, r: ((a, a) for a, b in t["f"] if (b or 0) > 2)),
    ("SELECT 1, 2", lambda t, r: iter([(1, 2)])),
)  # fmt: skip


#: The rows with their rounds; None where there are more rounds than the limit.
Expected: TypeAlias = "Counter[tuple[Row, int]] | None"


@dataclass(frozen=True)
class Body:
    form: str
    text: str
    is_all: bool
    limit: int
    anchor: Query
    steps: tuple[Query, ...]

    def rounds(self, tables: Tables) -> Expected:
        """What there is. Raises: OverflowError for too many rows."""
        found: Counter[tuple[Row, int]] = Counter()
        made = list(self.anchor(tables, []))
        if not self.is_all:  # the least set of rows has what the steps make of none
            made += [row for step in self.steps for row in step(tables, [])]
        known: list[Row] = []
        for round in range(self.limit + 1):
            if self.is_all:
                level = known = made
            else:
                level = sorted(set(made) - set(known), key=str)
                known = known + level
            if not level:
                return found
            if len(level) > 500:
                raise OverflowError
            found.update((row, round) for row in level)
            if round < self.limit:
                made = [row for step in self.steps for row in step(tables, known)]
        return None


def random_body(random: Random) -> Body:
    """One of one or two steps."""
    is_all = random.random() < 0.35
    choices = STEPS if is_all else (*STEPS, *MORE_STEPS)
    chosen = [random.choice(choices) for _ in range(1 if is_all or random.random() < 0.6 else 2)]
    anchor, first = random.choice(ANCHORS)
    texts, steps = [], []
    for step in chosen:
        text, rows = _filled(random, step)
        texts.append(text)
        steps.append(rows)
    kind = "UNION ALL" if is_all else "UNION"
    limit = random.choice((4, 8, LIMIT)) if is_all else random.choice((3, 60, 60, 60))
    body = f" {kind} ".join((anchor, *texts))
    text = f"WITH RECURSIVE r(x, y) MAX RECURSION LEVEL {limit} AS ({body}) SELECT x, y FROM r"
    form = f"{kind}: {' + '.join(sorted(s.form for s in chosen))}"
    return Body(form, text, is_all, limit, first, tuple(steps))


def _filled(random: Random, step: Step) -> tuple[str, Query]:
    """A step with what it selects and what it leaves out."""
    places = [random.randrange(len(step.columns)) for _ in range(2)]
    if random.random() < 0.7:  # what it begins with, and what it has come to
        places = [0, len(step.columns) - 1]
    adds = random.choice((0, 0, 1))
    names = [step.columns[p] for p in places]
    outputs = f"{names[0]}, " + (f"({names[1]} + {adds}) % 7" if adds else names[1])
    compared = random.choice((None, None, "<>", "<"))
    one, other = random.randrange(len(step.columns)), random.randrange(len(step.columns))
    word = "AND" if "WHERE" in step.text else "WHERE"
    where = (
        "" if compared is None else f" {word} {step.columns[one]} {compared} {step.columns[other]}"
    )

    def rows(tables: Tables, r: list[Row]) -> Iterator[Row]:
        for row in step.rows(tables, r):
            left, right = row[one], row[other]
            if compared is not None:
                if left is None or right is None:
                    continue
                if not (left < right if compared == "<" else left != right):
                    continue
            x, y = (row[p] for p in places)
            yield x, (y if not adds or y is None else (y + adds) % 7)

    return f"SELECT {outputs} {step.text}{where}", rows
