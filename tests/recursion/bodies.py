"""Random bodies of recursive relations, each as text and as a function of rows.

Relations r(x, y), or r(x, y) and s(x, y) over each other, are recursive over bags e(a, b) and
f(a, b) of small integers and NULL.
"""

from __future__ import annotations

import math
import re
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
    """`text` reads {r}; `rows` are those of its FROM and WHERE; `columns`: what may be selected, by
    its text, of such a row."""

    form: str
    text: str
    rows: Query
    columns: tuple[str, ...]

    @property
    def is_filtered(self) -> bool:
        outside, inner = "", self.text
        while inner != outside:
            outside, inner = inner, re.sub(r"\([^()]*\)", "", inner)
        return " WHERE " in outside


def _eq(a: Value, b: Value) -> bool:
    return a is not None and a == b


def _next(t: Tables, r: list[Row]) -> Iterator[Row]:
    return ((x, y, a, b) for x, y in r for a, b in t["e"] if _eq(y, a))


def _left(t: Tables, r: list[Row]) -> Iterator[Row]:
    for x, y in r:
        found = [b for a, b in t["f"] if _eq(y, a)]
        yield from ((x, y, b) for b in found or [None])


STEPS = (
    Step("edge", "FROM {r} AS r JOIN e ON r.y = e.a", _next, ("r.x", "r.y", "e.a", "e.b")),
    Step(
        "two edges",
        "FROM {r} AS r, e, f WHERE r.y = e.a AND e.b = f.a",
        lambda t, r: ((*row, *g) for row in _next(t, r) for g in t["f"] if _eq(row[3], g[0])),
        ("r.x", "r.y", "e.a", "e.b", "f.a", "f.b"),
    ),
    Step(
        "generation",
        "FROM e, {r} AS r, e AS d WHERE e.a = r.x AND d.a = r.y",
        lambda t, r: (
            (*e, x, y, *d)
            for e in t["e"]
            for x, y in r
            for d in t["e"]
            if _eq(e[0], x) and _eq(d[0], y)
        ),
        ("e.a", "e.b", "r.x", "r.y", "d.a", "d.b"),
    ),
    Step("itself", "FROM {r} AS r", lambda t, r: ((x, y) for x, y in r), ("r.x", "r.y")),
    Step(
        "exists",
        "FROM {r} AS r JOIN e ON r.y = e.a WHERE EXISTS (SELECT 1 FROM f WHERE f.a = e.b)",
        lambda t, r: (row for row in _next(t, r) if any(_eq(row[3], g[0]) for g in t["f"])),
        ("r.x", "r.y", "e.a", "e.b"),
    ),
    Step(
        "not exists outside",
        "FROM {r} AS r JOIN e ON r.y = e.a WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.b = r.x)",
        lambda t, r: (row for row in _next(t, r) if not any(_eq(row[0], g[1]) for g in t["f"])),
        ("r.x", "r.y", "e.a", "e.b"),
    ),
    Step("left join", "FROM {r} AS r LEFT JOIN f ON r.y = f.a", _left, ("r.x", "r.y", "f.b")),
    Step(
        "groups outside",
        "FROM {r} AS r JOIN (SELECT a, max(b) AS b, count(*) AS n FROM e GROUP BY a) AS g"
        " ON r.y = g.a",
        lambda t, r: (
            (x, y, a, max((b for c, b in t["e"] if c == a and b is not None), default=None))
            for x, y in r
            for a in {a for a, _ in t["e"]}
            if _eq(y, a)
        ),
        ("r.x", "r.y", "g.a", "g.b"),
    ),
)
#: For the least of what comes to each x, which may go by the size of y.
LABEL_STEPS = (
    Step(
        "label",
        "FROM {r} AS r JOIN e ON r.x = e.a",
        lambda t, r: ((b, a, x, y) for x, y in r for a, b in t["e"] if _eq(x, a)),
        ("e.b", "e.a", "r.x", "r.y"),
    ),
    Step(
        "label back",
        "FROM {r} AS r JOIN e ON r.x = e.b",
        lambda t, r: ((a, b, x, y) for x, y in r for a, b in t["e"] if _eq(x, b)),
        ("e.a", "e.b", "r.x", "r.y"),
    ),
    Step(
        "label over two edges",
        "FROM e, {r} AS r, f WHERE r.x = e.a AND e.b = f.a"
        " AND NOT EXISTS (SELECT 1 FROM f AS g WHERE g.b = r.x)",
        lambda t, r: (
            (b, a, x, y)
            for x, y in r
            if not any(_eq(x, h) for _, h in t["f"])
            for c, d in t["e"]
            if _eq(x, c)
            for a, b in t["f"]
            if _eq(d, a)
        ),
        ("f.b", "f.a", "r.x", "r.y"),
    ),
)
#: For UNION alone.
MORE_STEPS = (
    Step(
        "not linear",
        "FROM {r} AS r JOIN {r} AS s ON r.y = s.x",
        lambda t, r: ((*p, *q) for p in r for q in r if _eq(p[1], q[0])),
        ("r.x", "r.y", "s.x", "s.y"),
    ),
    Step(
        "three times",
        "FROM {r} AS r, e, {r} AS s WHERE r.y = e.a AND e.b = s.x",
        lambda t, r: ((*row, *s) for row in _next(t, r) for s in r if _eq(row[3], s[0])),
        ("r.x", "r.y", "e.a", "e.b", "s.x", "s.y"),
    ),
    Step(
        "exists in it",
        "FROM e WHERE EXISTS (SELECT 1 FROM {r} AS r WHERE r.y = e.a)",
        lambda t, r: (e for e in t["e"] if any(_eq(y, e[0]) for _, y in r)),
        ("e.a", "e.b"),
    ),
    Step(
        "distinct",
        "FROM (SELECT DISTINCT y FROM {r} AS r) AS d JOIN e ON d.y = e.a",
        lambda t, r: ((y, *e) for y in {y for _, y in r} for e in t["e"] if _eq(y, e[0])),
        ("d.y", "e.a", "e.b"),
    ),
    Step(
        "union inside",
        "FROM (SELECT x, y FROM {r} AS r UNION ALL SELECT b, a FROM f) AS u JOIN e ON u.y = e.a",
        lambda t, r: (
            (x, y, *e)
            for x, y in [*r, *((b, a) for a, b in t["f"])]
            for e in t["e"]
            if _eq(y, e[0])
        ),
        ("u.x", "u.y", "e.a", "e.b"),
    ),
    Step("in", "FROM e WHERE e.b IN (SELECT x FROM {r} AS r)",
        lambda t, r: (e for e in t["e"] if any(_eq(e[1], x) for x, _ in r)), ("e.a", "e.b")),
)  # fmt: skip


def _groups(r: list[Row]) -> dict[Value, list[Value]]:
    """The values of y by x."""
    found: dict[Value, list[Value]] = {}
    for x, y in r:
        found.setdefault(x, []).append(y)
    return found


def _there(values: list[Value]) -> list[int]:
    return [v for v in values if v is not None]


def _grouped(t: Tables, r: list[Row], value: Callable[[list[Value]], Value]) -> Iterator[Row]:
    groups = ((x, value(ys)) for x, ys in _groups(r).items())
    return ((x, v, *e) for x, v in groups for e in t["e"] if _eq(x, e[0]))


def _full(t: Tables, r: list[Row]) -> Iterator[Row]:
    for a, b in t["f"]:
        yield from ((a, b, x, y) for x, y in [p for p in r if _eq(p[0], a)] or [(None, None)])
    yield from ((None, None, x, y) for x, y in r if not any(_eq(x, a) for a, _ in t["f"]))


def _not_in(t: Tables, r: list[Row]) -> Iterator[Row]:
    found = {x for x, _ in r if x is not None}
    return (e for e in t["e"] if not found or (e[1] is not None and e[1] not in found))


#: For UNION alone, too: of what rounds take back.
NEGATIVE_STEPS = (
    Step(
        "not exists in it",
        "FROM e WHERE NOT EXISTS (SELECT 1 FROM {r} AS r WHERE r.x = e.b)",
        lambda t, r: (e for e in t["e"] if not any(_eq(x, e[1]) for x, _ in r)),
        ("e.a", "e.b"),
    ),
    Step(
        "not exists in it of its rows",
        "FROM {r} AS r WHERE NOT EXISTS (SELECT 1 FROM {r} AS s WHERE s.x = r.y AND s.y <> r.x)",
        lambda t, r: (
            (x, y)
            for x, y in r
            if not any(_eq(p, y) and q is not None and x is not None and q != x for p, q in r)
        ),
        ("r.x", "r.y"),
    ),
    Step(
        "left join of it",
        "FROM e LEFT JOIN {r} AS r ON r.x = e.b",
        lambda t, r: (
            (a, b, y) for a, b in t["e"] for y in [q for p, q in r if _eq(p, b)] or [None]
        ),
        ("e.a", "e.b", "r.y"),
    ),
    Step("full join of it", "FROM f FULL JOIN {r} AS r ON r.x = f.a", _full,
        ("f.a", "f.b", "r.x", "r.y")),
    Step(
        "least",
        "FROM (SELECT x, min(y) AS y FROM {r} AS r GROUP BY x) AS g JOIN e ON g.x = e.a",
        lambda t, r: _grouped(t, r, lambda ys: min(_there(ys), default=None)),
        ("g.x", "g.y", "e.a", "e.b"),
    ),
    Step(
        "count",
        "FROM (SELECT x, CAST(count(*) AS INT) AS y FROM {r} AS r GROUP BY x) AS g"
        " JOIN e ON g.x = e.a",
        lambda t, r: _grouped(t, r, len),
        ("g.x", "g.y", "e.a", "e.b"),
    ),
    Step(
        "sum",
        "FROM (SELECT x, CAST(sum(y) % 7 AS INT) AS y, avg(y) AS z FROM {r} AS r GROUP BY x) AS g"
        " JOIN e ON g.x = e.a",
        lambda t, r: _grouped(t, r, lambda ys: sum(_there(ys)) % 7 if _there(ys) else None),
        ("g.x", "g.y", "e.a", "e.b"),
    ),
    Step(
        "count of distinct, and greatest",
        "FROM (SELECT y, CAST(count(DISTINCT x) + max(x) AS INT) AS n FROM {r} AS r GROUP BY y)"
        " AS g JOIN e ON g.y = e.a",
        lambda t, r: _grouped(
            t,
            [(y, x) for x, y in r],
            lambda xs: len(set(_there(xs))) + max(_there(xs)) if _there(xs) else None,
        ),
        ("g.y", "g.n", "e.a", "e.b"),
    ),
    Step(
        "aggregates of all",
        "FROM e, (SELECT CAST(count(y) AS INT) AS n, max(x) AS m FROM {r} AS r) AS g",
        lambda t, r: (
            (*e, len(_there([y for _, y in r])), max(_there([x for x, _ in r]), default=None))
            for e in t["e"]
        ),
        ("e.a", "e.b", "g.n", "g.m"),
    ),
    Step(
        "less than the least",
        "FROM e WHERE e.b < (SELECT min(y) FROM {r} AS r)",
        lambda t, r: (
            e
            for e in t["e"]
            for least in [min(_there([y for _, y in r]), default=None)]
            if least is not None and e[1] is not None and e[1] < least
        ),
        ("e.a", "e.b"),
    ),
    Step(
        "in or",
        "FROM e WHERE (e.a = 1 OR e.b IN (SELECT x FROM {r} AS r))",
        lambda t, r: (e for e in t["e"] if e[0] == 1 or any(_eq(e[1], x) for x, _ in r)),
        ("e.a", "e.b"),
    ),
    Step("not in", "FROM e WHERE e.b NOT IN (SELECT x FROM {r} AS r WHERE x IS NOT NULL)",
        _not_in, ("e.a", "e.b")),
    Step(
        "except",
        "FROM (SELECT a, b FROM e EXCEPT SELECT x, y FROM {r} AS r) AS u",
        lambda t, r: iter(set(t["e"]) - set(r)),
        ("u.a", "u.b"),
    ),
    Step(
        "having",
        "FROM e JOIN (SELECT y FROM {r} AS r GROUP BY y HAVING count(*) < 3) AS g ON g.y = e.a",
        lambda t, r: (
            (y, *e)
            for y, xs in _groups([(y, x) for x, y in r]).items()
            if len(xs) < 3
            for e in t["e"]
            if _eq(y, e[0])
        ),
        ("g.y", "e.a", "e.b"),
    ),
)  # fmt: skip
ANCHORS: tuple[tuple[str, Query], ...] = (
    ("SELECT a, b FROM e", lambda t, r: iter(t["e"])),
    ("SELECT a, b FROM f", lambda t, r: iter(t["f"])),
    ("SELECT a, a FROM f WHERE b > 2", lambda t, r: ((a, a) for a, b in t["f"] if (b or 0) > 2)),
    ("SELECT 1, 2", lambda t, r: iter([(1, 2)])),
)  # fmt: skip


#: Where rows do not end.
FOREVER = 1 << 40
#: Rows of the relation, with the round in which each is first, or those in which it begins and ends
#: to be there; None where there are more rounds than the limit.
Expected: TypeAlias = "Counter[tuple[Row, tuple[int, ...]]] | None"


def delay(row: Row) -> int:
    """The rounds that a row's label, its last value, waits."""
    return 64 * max(row[-1] or 0, 0).bit_length()


@dataclass(frozen=True)
class Relation:
    """One of those that are recursive over each other; each of its steps reads the relation with
    the number beside it. `least`: the least y of each x alone. `between`: it is a query over the
    others, whose rounds nobody counts."""

    anchor: Query
    steps: tuple[tuple[int, Query], ...]
    least: bool = False
    between: bool = False

    def made(self, tables: Tables, rows: list[list[Row]], within: float = math.inf) -> set[Row]:
        """`within`: rounds that the labels y of the anchor have waited by now."""
        found = [row for row in self.anchor(tables, []) if delay(row) <= within]
        for read, step in self.steps:
            found += step(tables, rows[read])
        if not self.least:
            return set(found)
        return {(x, min(_there(ys), default=None)) for x, ys in _groups(found).items()}


@dataclass(frozen=True)
class Body:
    """`kind`: every way (UNION ALL), the first round of each row (what is monotone), or all rounds
    in which it is there."""

    form: str
    text: str
    kind: str
    limit: int
    relations: tuple[Relation, ...]

    def rounds(self, tables: Tables) -> Expected:
        """What there is. Raises: OverflowError for too many rows."""
        return self._ways(tables) if self.kind == "all" else self._sets(tables)

    def delayed(self, tables: Tables) -> Expected:
        """The rounds where small labels go first, and others wait. There must be `rounds`."""
        (relation,) = self.relations
        starts = {delay(row) for row in relation.anchor(tables, [])}
        rows: list[Row] = []
        begun: dict[Row, int] = {}
        found: Counter[tuple[Row, tuple[int, ...]]] = Counter()
        round = 0
        while True:
            now = relation.made(tables, [rows], round)
            for row in [row for row in begun if row not in now]:
                found[row, (begun.pop(row), round)] += 1
            begun |= {row: round for row in now if row not in begun}
            if now != set(rows):
                round += 1
            elif not any(start > round for start in starts):
                break
            else:
                round = min(start for start in starts if start > round)
            rows = sorted(now, key=str)
        found.update((row, (at, FOREVER)) for row, at in begun.items())
        return found

    def _ways(self, tables: Tables) -> Expected:
        (relation,) = self.relations
        found: Counter[tuple[Row, tuple[int, ...]]] = Counter()
        level = list(relation.anchor(tables, []))
        for round in range(self.limit + 1):
            if not level:
                return found
            if len(level) > 500:
                raise OverflowError
            found.update((row, (round,)) for row in level)
            level = [row for _, step in relation.steps for row in step(tables, level)]
        return None

    def _sets(self, tables: Tables) -> Expected:
        """One relation after the other, each over what those are by then; a row of several has
        the relation's number in front."""
        many = len(self.relations)
        rows: list[list[Row]] = [[] for _ in self.relations]
        begun: list[dict[Row, int]] = [{} for _ in self.relations]
        found: Counter[tuple[Row, tuple[int, ...]]] = Counter()
        for round in range(self.limit + 1):
            same = True
            for i, relation in enumerate(self.relations):
                now = relation.made(tables, rows)
                if len(now) > 300:
                    raise OverflowError
                at = round * many + i
                front = (i,) if many > 1 else ()
                for row in [row for row in begun[i] if row not in now]:
                    found[(*front, *row), (begun[i].pop(row), at)] += 1
                    same &= relation.between
                for row in now - set(begun[i]):
                    begun[i][row] = at
                    same &= relation.between
                rows[i] = sorted(now, key=str)
            if same:
                break
        else:
            return None
        for i in range(many):
            front = (i,) if many > 1 else ()
            found.update(((*front, *row), (at, FOREVER)) for row, at in begun[i].items())
        if self.kind == "first":
            return Counter((row, marks[:1]) for row, marks in found)
        return found


def last(expected: Counter[tuple[Row, tuple[int, ...]]]) -> Counter[Row]:
    """The rows that are there after the last round."""
    rows: Counter[Row] = Counter()
    for (row, marks), n in expected.items():
        if len(marks) == 1 or marks[1] == FOREVER:
            rows[row] += n
    return rows


def random_body(random: Random) -> Body:
    """A relation of one or two steps, the least of one, or two relations over each other."""
    kind = random.choice(("all", "first", "first", "span", "span", "least", "two", "two"))
    if kind == "two":
        return _two(random)
    choices = {"all": STEPS, "first": (*STEPS, *MORE_STEPS), "span": NEGATIVE_STEPS}
    chosen = [random.choice(choices.get(kind, STEPS))]
    if kind == "least" and random.random() < 0.6:
        chosen = random.sample(LABEL_STEPS, random.choice((1, 1, 2)))
    if kind in ("first", "span") and random.random() < 0.4:
        more = NEGATIVE_STEPS if kind == "span" else ()
        chosen.append(random.choice((*STEPS, *MORE_STEPS, *more)))
    if kind == "all":
        limit = random.choice((4, 8, LIMIT))
    else:
        limit = random.choice((3, 60, 60, 60) if kind == "first" else (3, 6, 12))
    anchor, first = random.choice(ANCHORS)
    texts, steps = [anchor], []
    for step in chosen:
        text, rows = _filled(random, step, "r")
        texts.append(text)
        steps.append((0, rows))
    body = (" UNION " if kind in ("first", "span") else " UNION ALL ").join(texts)
    if kind == "least":
        body = f"SELECT x, min(y) FROM ({body}) AS u(x, y) GROUP BY x"
    text = f"WITH RECURSIVE r(x, y) MAX RECURSION LEVEL {limit} AS ({body}) SELECT x, y FROM r"
    form = f"{kind}: {' + '.join(sorted(s.form for s in chosen))}"
    relation = Relation(first, tuple(steps), kind == "least")
    return Body(form, text, "span" if kind == "least" else kind, limit, (relation,))


def _two(random: Random) -> Body:
    """The first reads the second, and itself or not at all; the second the first."""
    takes_back, limit = random.random() < 0.6, random.choice((3, 6, 60))
    choices = NEGATIVE_STEPS if takes_back else (*STEPS, *MORE_STEPS)
    between, more = random.random() < 0.3, random.random() < 0.4
    reads = ([1] if between else [0, 1]), ([0, 1] if more else [0])
    some = random.choice([(i, k) for i in range(2) for k in range(len(reads[i]))])
    bodies, relations, forms = [], [], []
    for i, name in enumerate("rs"):
        anchor, first = random.choice(ANCHORS)
        texts, steps = [anchor], []
        for k, read in enumerate(reads[i]):
            step = random.choice(choices if (i, k) == some else (*STEPS[:4], *MORE_STEPS[2:4]))
            text, rows = _filled(random, step, "rs"[read])
            texts.append(text)
            steps.append((read, rows))
            forms += [step.form] if (i, k) == some else []
        level = f" MAX RECURSION LEVEL {limit}" if i else ""
        bodies.append(f"{name}(x, y){level} AS ({' UNION '.join(texts)})")
        relations.append(Relation(first, tuple(steps), between=between and i == 0))
    union = "SELECT 0 AS t, x, y FROM r UNION ALL SELECT 1, x, y FROM s"
    text = f"WITH RECURSIVE {', '.join(bodies)} {union}"
    kind = "between" if between else "span" if takes_back else "first"
    form = f"two{', one between' if between else ''}: {forms[0]}"
    return Body(form, text, kind, limit, tuple(relations))


def _filled(random: Random, step: Step, read: str) -> tuple[str, Query]:
    """A step with what it reads, what it selects and what it leaves out."""
    places = [random.randrange(len(step.columns)) for _ in range(2)]
    if random.random() < 0.7:  # what it begins with, and what it has come to
        places = [0, len(step.columns) - 1]
    adds = random.choice((0, 0, 1))
    names = [step.columns[p] for p in places]
    outputs = f"{names[0]}, " + (f"({names[1]} + {adds}) % 7" if adds else names[1])
    compared = random.choice((None, None, "<>", "<"))
    one, other = random.randrange(len(step.columns)), random.randrange(len(step.columns))
    word = "AND" if step.is_filtered else "WHERE"
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

    return f"SELECT {outputs} {step.text.format(r=read)}{where}", rows
