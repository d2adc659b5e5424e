"""Joins whose equalities run in circles: random ones, over random tables, against the oracle.

A pattern is a small graph; each of its edges becomes an occurrence of a table, each of its nodes an
equality of all columns at it. Around it come filters, comparisons of several sides, dimensions at a
node, outer, semi and anti joins, aggregates. Rows have NULLs in their ends, ends of two columns,
ends that are texts, and copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlview
from operators.nodes import counted_join
from tests.conftest import Connect
from tests.harness import Checked
from tests.planner.golden import check_golden
from tests.reference.tables import Change, Row, delete, insert, upsert

#: Pairs of nodes.
PATTERNS: dict[str, tuple[tuple[int, int], ...]] = {
    "triangle": ((0, 1), (1, 2), (0, 2)),
    "rectangle": ((0, 1), (1, 2), (2, 3), (3, 0)),
    "diamond": ((0, 1), (1, 2), (0, 2), (1, 3), (2, 3)),
    "pentagon": ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0)),
    "clique": ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)),
    "two triangles": ((0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (2, 4)),
    "with a tail": ((0, 1), (1, 2), (0, 2), (2, 3), (3, 4)),
    "twice the same edge": ((0, 1), (0, 1), (1, 2), (0, 2)),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A table of edges: its columns and key, its ends, each of some columns, and a random row of
    some nodes' numbers (None for no node)."""

    columns: str
    key: tuple[str, ...]
    ends: tuple[tuple[str, ...], tuple[str, ...]]
    row: Callable[[Random, Any, Any], Row]


def _text(node: int | None) -> str | None:
    return None if node is None else f"a rather long name of node {node}"


def _weight(random: Random) -> int:
    return random.randrange(4)


#: By what nodes are: numbers, texts, pairs of both.
KINDS: dict[str, dict[str, Kind]] = {
    "numbers": {
        "bag": Kind(
            "a INT, b INT, w INT", (), (("a",), ("b",)), lambda r, a, b: (a, b, _weight(r))
        ),
        "numbered": Kind(
            "id INT, a BIGINT, b INT, w INT",
            ("id",),
            (("a",), ("b",)),
            lambda r, a, b: (r.randrange(14), a, b, _weight(r)),
        ),
        "pairs": Kind(
            "a INT, b BIGINT, w INT",
            ("a", "b"),
            (("a",), ("b",)),
            lambda r, a, b: (a or 0, b or 0, _weight(r)),
        ),
        "by_place": Kind(
            "a INT, n INT, b INT, w INT",
            ("a", "n"),
            (("a",), ("b",)),
            lambda r, a, b: (a or 0, r.randrange(4), b, _weight(r)),
        ),
    },
    "texts": {
        "words": Kind(
            "a STRING, b STRING, w INT",
            (),
            (("a",), ("b",)),
            lambda r, a, b: (_text(a), _text(b), _weight(r)),
        ),
    },
    "both": {
        "wide": Kind(
            "a INT, at STRING, b INT, bt STRING, w INT",
            (),
            (("a", "at"), ("b", "bt")),
            lambda r, a, b: (
                None if a is None else a % 3,
                _text(None if a is None else a // 3),
                None if b is None else b % 3,
                _text(None if b is None else b // 3),
                _weight(r),
            ),
        ),
    },
}
_ALL = {name: kind for kinds in KINDS.values() for name, kind in kinds.items()}
_NODE = Kind("n INT, w INT", ("n",), (("n",), ("n",)), lambda r, a, _: (a or 0, _weight(r)))


def view(random: Random, pattern: str, kinds: dict[str, Kind]) -> str:
    """A query over the pattern, its edges in any tables of `kinds`, in either direction."""
    names = [f"e{i}" for i in range(len(PATTERNS[pattern]))]
    tables = [random.choice(list(kinds)) for _ in names]
    at: dict[int, list[tuple[str, ...]]] = {}
    for name, table, ends in zip(names, tables, PATTERNS[pattern], strict=True):
        turned = random.random() < 0.3
        for node, columns in zip(ends, kinds[table].ends[:: -1 if turned else 1], strict=True):
            at.setdefault(node, []).append(tuple(f"{name}.{c}" for c in columns))
    conditions = []
    for columns in at.values():
        sign = "<=>" if random.random() < 0.15 else "="
        conditions += [
            f"{x} {sign} {y}"
            for first, other in pairwise(columns)
            for x, y in zip(first, other, strict=True)
        ]
    if random.random() < 0.4:
        conditions.append(f"{random.choice(names)}.w {random.choice(('>', '<>'))} 1")
    if random.random() < 0.4:
        x, y = random.sample(names, 2)
        conditions.append(f"{x}.w {random.choice(('<=', '<>', '>'))} {y}.w")
    if random.random() < 0.2:
        x, y, z = random.choices(names, k=3)
        conditions.append(f"{x}.w + {y}.w <> {z}.w")
    sources = ", ".join(f"{t} {n}" for t, n in zip(tables, names, strict=True))
    ends = [columns[0][0] for columns in at.values()]
    values = [*ends, *(f"{n}.w" for n in names)]
    outside, around = random.choice(ends), random.random()
    numbers = kinds is KINDS["numbers"]
    if around < 0.15 and numbers:  # within a larger tree
        sources += ", node d"
        conditions.append(f"d.n = {outside}")
        values.append("d.w")
        if random.random() < 0.5:
            conditions.append("d.w < 3")
    elif around < 0.3 and numbers:
        conditions.append(f"{outside} {random.choice(('IN', 'NOT IN'))} (SELECT n FROM node)")
    elif around < 0.45 and numbers:
        has = random.choice(("EXISTS", "NOT EXISTS"))
        conditions.append(f"{has} (SELECT 1 FROM node d WHERE d.n = {outside} AND d.w > 0)")
    shown = ", ".join(f"{v} AS c{i}" for i, v in enumerate(values))
    text = f"SELECT {shown} FROM {sources} WHERE {' AND '.join(conditions)}"
    if 0.45 <= around < 0.6 and numbers:
        text = f"SELECT v.*, d.w FROM ({text}) v LEFT JOIN node d ON d.n = v.c0"
    elif around >= 0.6:
        text = random.choice(
            (
                f"SELECT c0, count(*) AS n, sum(c{len(values) - 1}) AS s FROM ({text}) GROUP BY c0",
                f"SELECT DISTINCT c0, c1 FROM ({text})",
                f"SELECT count(*) AS n, min(c{len(values) - 1}) AS least FROM ({text})",
                text,
            )
        )
    return text


def changes(random: Random, checked: Checked, nodes: int) -> list[Change]:
    """Rows that come, leave and change in several tables, in one epoch."""
    found = []
    for name in random.sample(sorted(checked.tables), min(3, len(checked.tables))):
        kind, table = _ALL.get(name, _NODE), checked.tables[name]
        live = sorted(table.rows.elements(), key=str)
        gone = random.sample(live, min(len(live), random.randrange(4)))
        ends = (None, *range(nodes), *range(nodes))
        new = [
            kind.row(random, random.choice(ends), random.choice(ends))
            for _ in range(random.randrange(1, 6) if len(live) < 14 else 1)
        ]
        if kind.key:
            found += [delete(name, row) for row in gone]
            found += [upsert(name, row) for row in new]
        else:
            found += [delete(name, row) for row in gone]
            found.append(insert(name, *new, *random.choices(new, k=random.randrange(2))))
    random.shuffle(found)
    return found


def _tables(checked: Checked, kinds: dict[str, Kind]) -> None:
    for name, kind in kinds.items():
        checked.create_table(name, kind.columns, kind.key)
    if kinds is KINDS["numbers"]:
        checked.create_table("node", _NODE.columns, _NODE.key)


def _explained(checked: Checked, name: str) -> str:
    lines = checked.db.sql(f"EXPLAIN MATERIALIZED VIEW {name}").rows()
    return "\n".join(line for (line,) in lines)


def _run(checked: Checked, random: Random, pattern: str, kinds: dict[str, Kind], steps: int) -> int:
    """A session with three views, one of them made late. Returns how many paths count."""
    _tables(checked, kinds)
    nodes = 4 if len(PATTERNS[pattern]) > 4 else 6
    checked.create_view("early", view(random, pattern, kinds))
    for step in range(steps):
        if step == steps // 2:
            checked.create_view("late", view(random, pattern, kinds))
            checked.create_view("again", view(random, pattern, kinds))
        if random.random() < 0.5:
            checked.step(*changes(random, checked, nodes))
        else:
            checked.batch(*(_apart(random, checked, nodes)))
    checked.verify()
    return sum(_explained(checked, name).count("fewest") for name in checked.views)


def _apart(random: Random, checked: Checked, nodes: int) -> Iterator[list[Change]]:
    """Changes of several epochs: each of other rows, which are there before all of them or come."""
    several = changes(random, checked, nodes)
    cut = sorted(random.choices(range(len(several) + 1), k=2))
    for some in (several[: cut[0]], several[cut[0] : cut[1]], several[cut[1] :]):
        if some:
            yield some


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("nodes", KINDS)
def test_random_cycles(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, pattern: str, nodes: str
) -> None:
    """Prefixes go their own ways however few entries that spares; together, where that spares few;
    and along the first way with few entries, as they do where nothing is a hub."""
    random = Random(f"{pattern} {nodes}")
    counted = 0
    for each, few in ((0, 0), (0, counted_join.FEW_ENTRIES), (counted_join.FEW_EACH, 0)):
        monkeypatch.setattr(counted_join, "FEW_EACH", each)
        monkeypatch.setattr(counted_join, "FEW_ENTRIES", few)
        checked = connect(form="arrow")
        counted += _run(checked, random, pattern, KINDS[nodes], 10)
    assert counted, "no path is planned by counts"


@pytest.mark.parametrize("few", [0, 512])
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("pattern", ["triangle", "clique"])
def test_few_entries_at_a_time(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, pattern: str, most: int, few: int
) -> None:
    """What proposes many rows does so in parts."""
    monkeypatch.setattr(counted_join, "MOST_ENTRIES", most)
    monkeypatch.setattr(counted_join, "FEW_ENTRIES", few)
    monkeypatch.setattr(counted_join, "FEW_EACH", 0)
    checked = connect(form="arrow")
    assert _run(checked, Random(8), pattern, KINDS["numbers"], 8)


@pytest.mark.spark
@pytest.mark.parametrize("pattern", ["triangle", "with a tail"])
def test_random_cycles_on_spark(connect: Connect, pattern: str) -> None:
    """Steps and first results that run on Spark; the tasks count for themselves."""
    random = Random(f"spark {pattern}")
    checked = connect(placement="spark", form="arrow")
    assert _run(checked, random, pattern, KINDS["numbers"], 4)
    assert checked.db.metrics().steps[-1].placement == "spark"


@pytest.mark.spark
def test_a_hub_on_spark(connect: Connect) -> None:
    """Prefixes of one task go different ways, in a step and in first rows."""
    edges = _hub(np.random.default_rng(4))[::3]
    db = connect(placement="spark").db
    db.sql("CREATE TABLE e (a BIGINT, b BIGINT)")
    text = """SELECT x.a, y.b, count(*) AS n FROM e x JOIN e y ON x.b = y.a
        JOIN e z ON z.a = x.a AND z.b = y.b GROUP BY x.a, y.b"""
    db.sql(f"CREATE MATERIALIZED VIEW early AS {text}")
    with db.transaction() as tx:
        tx.insert("e", pa.table({"a": edges[:, 0], "b": edges[:, 1]}))
    assert db.metrics().steps[-1].placement == "spark"
    db.sql(f"CREATE MATERIALIZED VIEW late AS {text.replace('GROUP', 'WHERE x.a > 0 GROUP')}")
    with db.transaction() as tx:
        tx.delete("e", pa.table({"a": edges[:50, 0], "b": edges[:50, 1]}))
    for name in ("early", "late"):
        assert db.view(name).rows()
        assert db.verify(name, engine="duckdb").equal


TRIANGLES = """SELECT x.a, x.b, y.b AS c FROM bag x JOIN bag y ON x.b = y.a
    JOIN bag z ON z.a = x.a AND z.b = y.b"""


def test_plans_by_counts_survive_a_restart(tmp_path: Path) -> None:
    random, path = Random(3), tmp_path / "store"
    with sqlview.connect(path, placement="inline") as db:
        db.sql(f"CREATE TABLE bag ({KINDS['numbers']['bag'].columns})")
        db.sql(f"CREATE MATERIALIZED VIEW triangles AS {TRIANGLES}")
    for life in range(3):
        with sqlview.connect(path, placement="inline") as db:
            for _ in range(3):
                new = [(random.randrange(8), random.randrange(8), 0) for _ in range(20)]
                live = db.sql("SELECT a, b, w FROM bag").rows()
                with db.transaction() as tx:
                    tx.delete("bag", random.sample(live, min(len(live), 8)))
                    tx.insert("bag", new)
                assert db.verify("triangles", engine="duckdb").equal
            assert db.view("triangles").rows(), life
            lines = db.sql("EXPLAIN MATERIALIZED VIEW triangles").rows()
            assert sum("fewest" in line for (line,) in lines) == 3


def test_a_stream_through_a_cycle(connect: Connect) -> None:
    """Events have one path, which counts too; they are no rows of any relation."""
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE STREAM hops (a INT, b INT)")
        db.sql("CREATE TABLE e (a INT, b INT)")
        db.sql("INSERT INTO e VALUES (2, 3), (1, 3), (2, 4), (1, 4), (1, 4), (2, 5), (6, 3)")
        db.sql(
            """CREATE MATERIALIZED VIEW closed AS SELECT h.a, h.b, y.b AS c FROM hops h
            JOIN e y ON y.a = h.b JOIN e z ON z.a = h.a AND z.b = y.b"""
        )
        lines = db.sql("EXPLAIN MATERIALIZED VIEW closed").rows()
        assert sum("fewest" in line for (line,) in lines) == 1
        db.sql("INSERT INTO hops VALUES (1, 2), (6, 2), (7, 2), (NULL, 2)")
        db.sql("DELETE FROM e WHERE a = 1 AND b = 3")
        db.sql("INSERT INTO hops VALUES (1, 2)")
        found = sorted(db.view("closed").rows())
        twice = [(1, 2, 4)] * 2
        assert found == sorted([(1, 2, 3), *twice, (6, 2, 3), *twice])


# -- what is read -------------------------------------------------------------------------------


def _hub(rng: Any) -> Any:
    spokes, hub = np.arange(1, 1_000), np.zeros(999, np.int64)
    more = rng.integers(1, 1_000, (3_000, 2))
    return np.vstack((np.column_stack((spokes, hub)), np.column_stack((hub, spokes)), more))


def _zipf(rng: Any) -> Any:
    return np.minimum(rng.zipf(1.5, (8_000, 2)), 2_000)


def _uniform(rng: Any) -> Any:
    return rng.integers(0, 1_000, (5_000, 2))


GRAPHS: dict[str, Any] = {"hub": _hub, "zipf": _zipf, "uniform": _uniform}
#: Of the tables r(a, b), s(b, c), t(a, c): the path of each, and by which of its ends, a or b,
#: which end of the others is sought.
_SOUGHT = {"r": ((1, 0), (0, 0)), "s": ((0, 1), (1, 1)), "t": ((0, 0), (1, 1))}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("last", _SOUGHT)
def test_a_path_reads_no_more_than_the_bound(graph: str, last: str) -> None:
    """All edges come as one change of the last table: its path reads the fewest entries of each
    prefix, which are no more than m^1.5, and then what is in a triangle."""
    edges = np.unique(GRAPHS[graph](np.random.default_rng(2)), axis=0)
    m = len(edges)
    degrees = [np.bincount(edges[:, end], minlength=2_001) for end in (0, 1)]
    both = [degrees[other][edges[:, own]] for own, other in _SOUGHT[last]]
    fewest = int(np.minimum(*both).sum())
    assert fewest <= m**1.5
    if graph == "uniform":
        assert fewest <= min(both[0].sum(), both[1].sum())
    else:  # or there would be nothing to be shown
        assert min(both[0].sum(), both[1].sum()) > 2 * fewest
    rows = pa.table({"x": edges[:, 0], "y": edges[:, 1]})
    with sqlview.connect(placement="inline") as db:
        for name in _SOUGHT:
            db.sql(f"CREATE TABLE {name} (x BIGINT NOT NULL, y BIGINT NOT NULL)")
        db.sql(
            """CREATE MATERIALIZED VIEW triangles AS SELECT count(*) AS n FROM r
            JOIN s ON s.x = r.y JOIN t ON t.x = r.x AND t.y = s.y"""
        )
        for name in sorted(_SOUGHT, key=lambda table: table == last):
            with db.transaction() as tx:
                tx.insert(name, rows)
        ((found,),) = db.view("triangles").rows()
        assert found > 0
        done = db.metrics().steps[-1]
        read = done.prefixes - m - found
        if graph == "uniform":  # the first way is taken, which has few entries for each prefix
            assert fewest <= read <= counted_join.FEW_EACH * m
        else:
            assert read == fewest
        assert done.entries_visited <= read + found + 2  # beside the path: the group's row
        assert db.verify("triangles", engine="duckdb").equal


@pytest.mark.parametrize("pattern", ["rectangle", "pentagon", "clique"])
def test_longer_cycles_through_a_hub(pattern: str) -> None:
    """A star, of each table in turn all rows as one change: no path comes to more rows than m^2 and
    few, the pairs of spokes, where one lookup after the other comes to triples (m^2.5 is the bound
    of five edges, m^2 of the others)."""
    spokes, hub = np.arange(1, 50), np.zeros(49, np.int64)
    edges = np.vstack((np.column_stack((spokes, hub)), np.column_stack((hub, spokes))))
    m, pairs_of = len(edges), PATTERNS[pattern]
    rows = pa.table({"x": edges[:, 0], "y": edges[:, 1]})
    at: dict[int, list[str]] = {}
    for i, nodes in enumerate(pairs_of):
        for column, node in zip("xy", nodes, strict=True):
            at.setdefault(node, []).append(f"r{i}.{column}")
    conditions = [f"{a} = {b}" for columns in at.values() for a, b in pairwise(columns)]
    sources = ", ".join(f"r{i}" for i in range(len(pairs_of)))
    with sqlview.connect(placement="inline") as db:
        for i in range(len(pairs_of)):
            db.sql(f"CREATE TABLE r{i} (x BIGINT NOT NULL, y BIGINT NOT NULL)")
        db.sql(
            f"""CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM {sources}
            WHERE {" AND ".join(conditions)}"""
        )
        for i in range(len(pairs_of)):
            with db.transaction() as tx:
                tx.insert(f"r{i}", rows)
        for i in range(len(pairs_of)):
            for change in ("delete", "insert"):
                with db.transaction() as tx:
                    getattr(tx, change)(f"r{i}", rows)
                assert db.metrics().steps[-1].prefixes <= 1.5 * m**2
                assert db.verify("v", engine="duckdb").equal


def test_the_plan_and_its_rows(request: pytest.FixtureRequest) -> None:
    lines = []
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE e (a INT, b INT, w INT)")
        db.sql("CREATE TABLE node (n INT PRIMARY KEY, name STRING)")
        db.sql(
            """CREATE MATERIALIZED VIEW triangles AS
            SELECT node.name, x.b, y.b AS c FROM e x JOIN e y ON x.b = y.a
            JOIN e z ON z.a = x.a AND z.b = y.b AND z.w >= x.w JOIN node ON node.n = x.a"""
        )
        lines += ["-- view", *(t for (t,) in db.sql("EXPLAIN MATERIALIZED VIEW triangles").rows())]
        changes: list[pa.Table] = []
        db.subscribe("triangles", changes.append)
        for text in (
            "INSERT INTO node VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO e VALUES (1, 2, 0), (2, 3, 0), (1, 3, 1), (1, 3, 1), (2, NULL, 0)",
            "INSERT INTO e VALUES (3, 4, 0), (2, 4, 0), (1, 4, 0)",
            "UPDATE e SET w = 2 WHERE b = 2",
            "UPDATE e SET w = 5, b = b + 0 WHERE a = 1 AND b > 2",
            "DELETE FROM e WHERE a = 2 AND b = 3",
        ):
            db.sql(text)
            told = sorted(str(tuple(r.values())) for c in changes for r in c.to_pylist())
            lines += ["", f"-- {text}", *told]
            changes.clear()
        lines += ["", "-- rows", *sorted(map(str, db.view("triangles").rows()))]
    check_golden("cycles.txt", "\n".join(lines), request)
