"""Recursive views over graphs that change: python -m benchmarks.recursion

Graphs are generated, with some edges kept back:

    random  edges between nodes at random
    grid    a square of nodes, each with an edge to the next one right and below
    tree    each node with one parent among the nodes before it, near the root more often
    program variables of functions, of which each is mostly assigned to some near it

and over them

    reach       the nodes that a root reaches
    components  every node with the least node that it is connected with
    sssp        every node with the least length of a way from a root
    tc          all pairs of a node and one that it reaches
    sg          all pairs of nodes of the same generation
    nulls       what each root, a NULL, may flow to: Graspan's dataflow analysis
    points      variables that may have the same value: Graspan's points-to analysis, in which some
                edges are assignments and the others dereferences

A case is the first result (CREATE over loaded tables, with the indexes that it needs), `--changes`
transactions in each of which one edge leaves and one that was kept back comes, and one transaction
in which up to 100 leave and as many come. The soak is a window that slides over the edges of a
random graph: an edge leaves and another comes, `--soak` times, and the steps of the last window of
10,000 are compared with those of the first.

Prepared queries are subscribed to with `--parameters` values one after the other, over a random
graph of 20,000 nodes and edges: what the first costs, those after it and the last, and their state.

Beside the graphs differential dataflow (benchmarks/peers/differential, src/bin/recursion.rs) takes
the same changes in the same steps, where cargo is there to build it: its first step takes the
edges, indexes them and finds the result. Both run on one core; what counts is time on the
processor.

Invariant: in the end of every case the view and the peer's result were what a plain computation in
NumPy makes of the edges.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import sqlview
from benchmarks import common
from benchmarks.peers import differential_peer

Array: TypeAlias = "npt.NDArray[np.int32]"

#: The least length of an edge that is a dereference (in the peer too).
_DEREFERENCES = 60
SQL = {
    "reach": "r(n) MAX RECURSION LEVEL 100000 AS (SELECT n FROM roots "
    "UNION SELECT b FROM r JOIN edges ON a = r.n) SELECT n FROM r",
    "components": "r(n, least) MAX RECURSION LEVEL 100000 AS (SELECT n, min(least) FROM ("
    "SELECT n, n AS least FROM nodes UNION ALL SELECT b, least FROM r JOIN edges ON a = n "
    "UNION ALL SELECT a, least FROM r JOIN edges ON b = n) GROUP BY n) SELECT n, least FROM r",
    "sssp": "r(n, far) MAX RECURSION LEVEL 100000 AS (SELECT n, min(far) FROM ("
    "SELECT n, 0 AS far FROM roots UNION ALL SELECT b, far + length FROM r JOIN edges ON a = n"
    ") GROUP BY n) SELECT n, far FROM r",
    "tc": "r(x, y) MAX RECURSION LEVEL 100000 AS (SELECT a, b FROM edges "
    "UNION SELECT x, b FROM r JOIN edges ON a = y) SELECT x, y FROM r",
    "sg": "r(x, y) MAX RECURSION LEVEL 100000 AS ("
    "SELECT p.b, q.b FROM edges p JOIN edges q ON p.a = q.a AND p.b <> q.b "
    "UNION SELECT p.b, q.b FROM r JOIN edges p ON p.a = x JOIN edges q ON q.a = y) "
    "SELECT x, y FROM r",
    "nulls": "r(x, y) MAX RECURSION LEVEL 100000 AS (SELECT n, n FROM roots "
    "UNION SELECT x, b FROM r JOIN edges ON a = y) SELECT x, y FROM r",
    "points": "flows(x, y) MAX RECURSION LEVEL 100000 AS (SELECT n, n FROM nodes "
    f"UNION SELECT x, b FROM flows JOIN edges ON a = y WHERE length < {_DEREFERENCES} "
    "UNION SELECT x, b FROM flows JOIN aliases ON p = y JOIN edges ON a = q "
    f"WHERE length < {_DEREFERENCES}), "
    "same(x, y) MAX RECURSION LEVEL 100000 AS ("
    "SELECT f.y, g.y FROM flows f JOIN flows g ON f.x = g.x "
    "UNION SELECT f.y, g.y FROM flows f JOIN aliases ON p = f.x JOIN flows g ON g.x = q), "
    "aliases(p, q) MAX RECURSION LEVEL 100000 AS (SELECT DISTINCT s.b, t.b FROM edges s "
    "JOIN same ON x = s.a JOIN edges t ON t.a = y "
    f"WHERE s.length >= {_DEREFERENCES} AND t.length >= {_DEREFERENCES}) SELECT x, y FROM same",
}
#: How many nodes are roots, where it is not one.
ROOTS = {"nulls": 100}
#: Query, graph, nodes, edges of a random one.
CASES = (
    ("reach", "random", 100_000, 1_000_000),
    ("components", "random", 20_000, 100_000),
    ("sssp", "random", 10_000, 100_000),
    ("tc", "random", 1_000, 2_000),
    ("tc", "grid", 900, 0),
    ("tc", "tree", 2_000, 0),
    ("sg", "random", 300, 450),
    ("sg", "tree", 1_000, 0),
    ("nulls", "program", 3_000, 4_500),
    ("points", "program", 1_500, 1_200),
)
QUICK_CASES = (
    ("reach", "random", 60, 120),
    ("components", "random", 60, 60),
    ("sssp", "random", 40, 100),
    ("tc", "grid", 16, 0),
    ("sg", "tree", 30, 0),
    ("nulls", "program", 200, 240),
    ("points", "program", 60, 50),
)
#: Queries with a parameter, each for a node.
PREPARED = {
    "one step": "SELECT b FROM edges WHERE a = :node",
    "two steps": "SELECT q.b FROM edges p JOIN edges q ON p.b = q.a WHERE p.a = :node",
    "count": "SELECT count(*) AS n, sum(length) AS lengths FROM edges WHERE a = :node",
    "reached": "WITH RECURSIVE r(x, y) AS (SELECT a, b FROM edges UNION "
    "SELECT x, b FROM r JOIN edges ON a = y WHERE length < 50) SELECT y FROM r WHERE x = :node",
}
_PREPARED_NODES = 20_000
#: Of how many subscriptions the median is shown, and the goal: that of the last over the first.
_SUBSCRIPTIONS, _MOST_COST = 100, 2
_BULK = 100
_SOAK_NODES, _SOAK_EDGES, _SOAK_ROOTS = 1_000, 2_000, 10
_SOAK_WINDOW = 10_000
#: The goal of a soak: the p99 of its last window over that of its first.
_MOST_GROWTH = 1.2
_LEAST_UPDATES = 5_000


@dataclass(frozen=True, slots=True)
class Graph:
    """`steps` of changes of edges from a load on: those that come and those that leave, each
    int32[n, 3] of from, to, length. `last`: the edges in the end."""

    nodes: int
    roots: int
    steps: tuple[tuple[Array, Array], ...]
    last: Array


@dataclass(frozen=True, slots=True)
class Side:
    """Seconds on the processor: of the first result, of each change, of the transaction of many.
    `load`: of the transaction that loads the tables, where that is a step of its own."""

    load_seconds: float
    first_seconds: float
    change_seconds: tuple[float, ...]
    bulk_seconds: float


@dataclass(frozen=True, slots=True)
class Case:
    """`rounds`, `keys`: of the transaction of many."""

    query: str
    graph: str
    nodes: int
    edges: int
    rows: int
    bulk_edges: int
    rounds: int
    keys: int
    sqlview: Side
    differential: Side | None


@dataclass(frozen=True, slots=True)
class Soak:
    """Seconds on the processor of a side's steps: together, and each in the first and the last
    window."""

    side: str
    updates: int
    seconds: float
    first: tuple[float, ...]
    last: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """`seconds` on the processor of each subscription with its first result; `rows` of them all,
    `bytes` of the state that they added."""

    query: str
    prepare_seconds: float
    seconds: tuple[float, ...]
    rows: int
    bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("recursion", __doc__)
    parser.add_argument(
        "--cases", nargs="+", default=None, metavar="CASE", help="some of them, such as tc-grid"
    )
    parser.add_argument(
        "--nodes", type=common.positive, metavar="N", help="of the cases chosen, instead of theirs"
    )
    parser.add_argument(
        "--edges", type=common.positive, metavar="N", help="of those that are random"
    )
    parser.add_argument(
        "--changes", type=common.positive, default=50, metavar="N", help="of one edge (%(default)s)"
    )
    parser.add_argument(
        "--soak", type=common.positive, default=40_000, metavar="N", help="updates (%(default)s)"
    )
    parser.add_argument(
        "--parameters", type=common.positive, default=1_000, metavar="N",
        help="values that prepared queries are subscribed to with (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--environments", type=Path, default=Path("build/peers"), metavar="DIRECTORY",
        help="where the peer is built and kept (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--no-peer", action="store_true", help="without the peer")
    given = common.parse(parser, arguments, {"changes": 4, "soak": 60, "parameters": 20})
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results = common.Results("recursion", given)
    console = common.progress()
    program: Path | None = None
    if not given.no_peer:
        problem, built = differential_peer.build(given.environments)
        if built is None:
            console.print(f"differential is left out: {problem}")
        else:
            program = built.with_name("recursion")
    chosen = QUICK_CASES if given.quick else CASES
    if given.cases:
        chosen = tuple(case for case in chosen if f"{case[0]}-{case[1]}" in given.cases)
        if not chosen:
            names = ", ".join(f"{case[0]}-{case[1]}" for case in CASES)
            raise common.BenchmarkError(f"there is no such case; there are {names}")
    found: list[Case] = []
    soaks: list[Soak] = []
    with common.pinned(1), tempfile.TemporaryDirectory() as scratch:
        for query, kind, nodes, edges in QUICK_CASES:  # compiles the kernels
            case(query, kind, nodes, edges, 2, given.seed, None, Path(scratch))
        for query, kind, its_nodes, its_edges in chosen:
            nodes, edges = given.nodes or its_nodes, given.edges or its_edges
            console.print(f"{query}, {kind} of {nodes:,} nodes")
            found.append(
                case(query, kind, nodes, edges, given.changes, given.seed, program, Path(scratch))
            )
        console.print(f"prepared queries, {given.parameters:,} values")
        some = prepared(given.parameters, given.seed)
        console.print(f"soak of {given.soak:,} updates")
        soaks = soak(given.soak, given.seed, program, Path(scratch))
    written = results.write({"cases": found, "soaks": soaks, "prepared": some})
    common.show_figures(tables(written))
    common.show_targets(targets(written))
    _draw(results, written)


# -- graphs ------------------------------------------------------------------------------------


def graph(
    kind: str, nodes: int, edges: int, changes: int, rng: np.random.Generator, roots: int = 1
) -> Graph:
    """A graph, single changes of it, and one of many. An edge that leaves comes back later."""
    made = _edges(kind, nodes, edges, rng)
    rng.shuffle(made)
    many = max(1, min(_BULK, len(made) // 10))
    out, live = deque(made[:many]), deque(made[many:])
    steps = [(np.array(live), made[:0])]
    for few in [1] * changes + [many]:
        comes = [out.popleft() for _ in range(few)]
        leaves = [live.popleft() for _ in range(few)]
        out.extend(leaves)
        live.extend(comes)
        steps.append((np.array(comes), np.array(leaves)))
    return Graph(nodes, roots, tuple(steps), np.array(live))


def _edges(kind: str, nodes: int, edges: int, rng: np.random.Generator) -> Array:
    if kind == "random":
        ends = rng.integers(0, nodes, (edges, 2))
    elif kind == "tree":
        children = np.arange(1, nodes)
        parents = (rng.random(nodes - 1) ** 1.5 * children).astype(np.int64)
        ends = np.stack((parents, children), 1)
    elif kind == "program":
        starts = rng.integers(0, nodes, edges)
        near = (starts + rng.geometric(0.2, edges)) % nodes
        ends = np.stack((starts, near), 1)
        calls = rng.random(edges) < 0.05
        ends[calls, 1] = rng.integers(0, nodes, int(calls.sum()))
    else:
        side = round(nodes**0.5)
        at = np.arange(side * side).reshape(side, side)
        right = np.stack((at[:, :-1].ravel(), at[:, 1:].ravel()), 1)
        below = np.stack((at[:-1].ravel(), at[1:].ravel()), 1)
        ends = np.concatenate((right, below))
    lengths = rng.integers(1, 100, (len(ends), 1))
    return np.concatenate((ends, lengths), 1).astype(np.int32)


def window(updates: int, seed: int) -> Graph:
    """A window over random edges that slides by one, so many times."""
    rng = np.random.default_rng(seed)
    made = _edges("random", _SOAK_NODES, _SOAK_EDGES + updates, rng)
    steps = [(made[:_SOAK_EDGES], made[:0])]
    steps += [
        (made[_SOAK_EDGES + i : _SOAK_EDGES + i + 1], made[i : i + 1]) for i in range(updates)
    ]
    return Graph(_SOAK_NODES, _SOAK_ROOTS, tuple(steps), made[updates:])


def answer(query: str, graph: Graph) -> Array:
    """The rows of a query in the end, int32[n, 2], ascending; `reach` has 0 beside the nodes."""
    a, b, length = graph.last.T
    match query:
        case "tc" | "sg":
            near = np.zeros((graph.nodes, graph.nodes), np.float32)
            near[a, b] = 1
            return _pairs(near) if query == "tc" else _generations(near)
        case "nulls":
            return _flows(graph)
        case "points":
            return _same(graph)
        case "reach":
            far = _least(graph, np.zeros_like(a), (a,), (b,))
            there = np.flatnonzero(far[: graph.nodes] == 0)
            return np.stack((there, np.zeros_like(there)), 1).astype(np.int32)
        case "sssp":
            far = _least(graph, length, (a,), (b,))
        case _:
            far = np.arange(graph.nodes)
            far = _settled(far, np.zeros(2 * len(a), np.int64), np.r_[a, b], np.r_[b, a])
    there = np.flatnonzero(far < np.iinfo(np.int32).max)
    return np.stack((there, far[there]), 1).astype(np.int32)


def _least(graph: Graph, lengths: Array, starts: tuple[Array], ends: tuple[Array]) -> Any:
    far = np.full(graph.nodes, np.iinfo(np.int32).max, np.int64)
    far[: graph.roots] = 0
    return _settled(far, lengths, *starts, *ends)


def _settled(far: Any, lengths: Any, starts: Array, ends: Array) -> Any:
    """The least of the value of a node and those that come over edges, until nothing changes."""
    while True:
        before = far.copy()
        some = far[starts] < np.iinfo(np.int32).max
        np.minimum.at(far, ends[some], far[starts[some]] + lengths[some])
        if (far == before).all():
            return far


def _pairs(near: Any) -> Array:
    there = near
    while True:
        further = np.minimum(there + there @ there, 1)
        if (further == there).all():
            return np.argwhere(there > 0).astype(np.int32)
        there = further


def _flows(graph: Graph) -> Array:
    a, b, _ = graph.last.T
    there = np.eye(graph.nodes, graph.roots, dtype=np.bool_)
    while True:
        further = there.copy()
        np.logical_or.at(further, b, there[a])
        if (further == there).all():
            return np.argwhere(there.T).astype(np.int32)
        there = further


def _same(graph: Graph) -> Array:
    a, b, length = graph.last.T
    assigned, followed = np.zeros((2, graph.nodes, graph.nodes), np.float32)
    is_assigned = length < _DEREFERENCES
    assigned[a[is_assigned], b[is_assigned]] = 1
    followed[a[~is_assigned], b[~is_assigned]] = 1
    flows, aliases = np.eye(graph.nodes, dtype=np.float32), np.zeros_like(assigned)
    while True:
        steps = assigned + aliases @ assigned
        further = np.minimum(np.eye(graph.nodes, dtype=np.float32) + flows @ steps, 1)
        same = np.minimum(flows.T @ (flows + aliases @ flows), 1)
        places = np.minimum(followed.T @ same @ followed, 1)
        if (further == flows).all() and (places == aliases).all():
            return np.argwhere(same > 0).astype(np.int32)
        flows, aliases = further, places


def _generations(near: Any) -> Array:
    siblings = np.minimum(near.T @ near, 1)
    np.fill_diagonal(siblings, 0)
    there = siblings
    while True:
        further = np.minimum(there + near.T @ there @ near, 1)
        if (further == there).all():
            return np.argwhere(there > 0).astype(np.int32)
        there = further


# -- the two sides -----------------------------------------------------------------------------


def case(
    query: str,
    kind: str,
    nodes: int,
    edges: int,
    changes: int,
    seed: int,
    program: Path | None,
    scratch: Path,
) -> Case:
    """Raises: common.WrongAnswerError if a side's rows in the end are not the answer."""
    rng = np.random.default_rng(seed)
    made = graph(kind, nodes, edges, changes, rng, ROOTS.get(query, 1))
    expected = answer(query, made)
    steps = iter(made.steps)
    with sqlview.connect(placement="inline") as db:
        load = _cpu(lambda: _load(db, made, next(steps)[0]))
        first = _cpu(lambda: db.sql(f"CREATE MATERIALIZED VIEW v AS WITH RECURSIVE {SQL[query]}"))
        took = [_cpu(each) for each in _transactions(db, steps)]
        last = db.metrics().steps[-1]
        _check(f"view of {query}", _rows(db), expected)
    ours = Side(load, first, tuple(took[:-1]), took[-1])
    theirs: Side | None = None
    if program is not None:
        cpu = _peer(program, query, made, scratch, expected)["cpu_seconds"]
        theirs = Side(0.0, cpu[0], tuple(cpu[1:-1]), cpu[-1])
    return Case(
        query, kind, nodes, len(made.last), len(expected), len(made.steps[-1][0]), last.rounds,
        last.keys, ours, theirs,
    )  # fmt: skip


def soak(updates: int, seed: int, program: Path | None, scratch: Path) -> list[Soak]:
    """Raises: common.WrongAnswerError, as `case`."""
    made = window(updates, seed)
    expected = answer("reach", made)
    steps = iter(made.steps)
    with sqlview.connect(placement="inline") as db:
        _load(db, made, next(steps)[0])
        db.sql(f"CREATE MATERIALIZED VIEW v AS WITH RECURSIVE {SQL['reach']}")
        seconds = [_cpu(each) for each in _transactions(db, steps)]
        _check("view of the soak", _rows(db), expected)
    found = [_soaked("sqlview", seconds)]
    if program is not None:
        took = _peer(program, "reach", made, scratch, expected)["cpu_seconds"][1:]
        found.append(_soaked("differential", took))
    return found


def prepared(values: int, seed: int) -> list[Prepared]:
    """Raises: common.WrongAnswerError if a view of a prepared query is not its recompute."""
    rng = np.random.default_rng(seed)
    edges = _edges("random", _PREPARED_NODES, _PREPARED_NODES, rng)
    found = []
    for name, text in PREPARED.items():
        with sqlview.connect(placement="inline") as db:
            _load(db, Graph(_PREPARED_NODES, 1, (), edges), edges)
            started = time.process_time()
            statement = db.prepare(text)
            took = time.process_time() - started
            before = db.metrics().state_bytes
            subscribe = statement.subscribe
            seconds = [_cpu(partial(subscribe, node=node)) for node in range(values)]
            added = db.metrics().state_bytes - before
            rows = len(db.view(statement.name))
            outcome = db.verify(statement.name, engine="duckdb")
            if not outcome.equal:
                raise common.WrongAnswerError(str(outcome))
        found.append(Prepared(name, took, tuple(seconds), rows, added))
    return found


def _soaked(side: str, seconds: Sequence[float]) -> Soak:
    size = min(_SOAK_WINDOW, len(seconds) // 2)
    return Soak(side, len(seconds), sum(seconds), tuple(seconds[:size]), tuple(seconds[-size:]))


def _cpu(body: Callable[[], object]) -> float:
    started = time.process_time()
    body()
    return time.process_time() - started


def _table(edges: Array) -> pa.Table:
    a, b, length = (np.ascontiguousarray(column) for column in edges.T)
    return pa.table({"a": a, "b": b, "length": length})


def _load(db: sqlview.Session, graph: Graph, edges: Array) -> None:
    db.sql("CREATE TABLE nodes (n INT)")
    db.sql("CREATE TABLE roots (n INT)")
    db.sql("CREATE TABLE edges (a INT, b INT, length INT)")
    with db.transaction() as tx:
        tx.insert("nodes", pa.table({"n": np.arange(graph.nodes, dtype=np.int32)}))
        tx.insert("roots", pa.table({"n": np.arange(graph.roots, dtype=np.int32)}))
        tx.insert("edges", _table(edges))


def _transactions(
    db: sqlview.Session, steps: Iterator[tuple[Array, Array]]
) -> Iterator[Callable[[], None]]:
    """The steps as calls that apply them; the rows are made beforehand."""
    for comes, leaves in steps:
        born, dead = _table(comes), _table(leaves)

        def apply(born: pa.Table = born, dead: pa.Table = dead) -> None:
            with db.transaction() as tx:
                tx.delete("edges", dead)
                tx.insert("edges", born)

        yield apply


def _rows(db: sqlview.Session) -> Array:
    columns = [np.asarray(column) for column in db.view("v").to_arrow().columns]
    if len(columns) == 1:
        columns.append(np.zeros_like(columns[0]))
    return np.stack(columns, 1)


def _peer(
    program: Path, query: str, graph: Graph, scratch: Path, expected: Array
) -> dict[str, Any]:
    """What one run of the peer printed, its rows in the end compared."""
    words = []
    for step, (comes, leaves) in enumerate(graph.steps):
        for diff, edges in ((1, comes), (-1, leaves)):
            marks = np.full((len(edges), 2), (step, diff), np.int32)
            words.append(np.concatenate((marks, edges), 1))
    (scratch / "changes").write_bytes(np.concatenate(words).astype("<i4").tobytes())
    command = [
        str(program), query, str(scratch / "changes"), str(graph.nodes), str(graph.roots),
        str(scratch / "answer"),
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        last = "".join(ran.stderr.strip().splitlines()[-1:])
        raise common.BenchmarkError(f"the peer failed at {query}: {last}")
    rows = np.frombuffer((scratch / "answer").read_bytes(), "<i4").reshape(-1, 2)
    _check(f"peer's result of {query}", rows, expected)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def _check(what: str, rows: Array, expected: Array) -> None:
    ascending = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    if not np.array_equal(ascending, expected):
        raise common.WrongAnswerError(
            f"the {what} has {len(rows):,} rows that are not the {len(expected):,} of the answer"
        )


# -- what is shown -----------------------------------------------------------------------------


def _sides(case: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    names = ("sqlview", "differential")
    return [(name, case[name]) for name in names if case[name] is not None]


def _figures(side: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """First result in s, one change p50 and mean, and that of many, in ms."""
    changes = np.asarray(side["change_seconds"]) * 1000
    return (
        side["first_seconds"], float(np.median(changes)), float(changes.mean()),
        side["bulk_seconds"] * 1000,
    )  # fmt: skip


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    rows = []
    for case in result["cases"]:
        for name, side in _sides(case):
            ours = name == "sqlview"
            graph = f"{case['graph']} {case['nodes']:,}/{case['edges']:,}"
            rows.append(
                (
                    f"{case['query']}, {graph}" if ours else "",
                    f"{case['rows']:,}" if ours else "",
                    name,
                    *map(common.number, _figures(side)),
                    f"{case['bulk_edges']}" if ours else "",
                    f"{case['rounds']:,} / {case['keys']:,}" if ours else "",
                )
            )
    soaks = []
    for each in result["soaks"]:
        first, last = (common.percentiles_ms(each[name])["p99_ms"] for name in ("first", "last"))
        soaks.append(
            (
                each["side"],
                f"{each['updates']:,}",
                common.number(each["updates"] / each["seconds"]),
                common.number(first),
                common.number(last),
                f"{last / first:.2f}",
            )
        )
    values = []
    for each in result["prepared"]:
        first, early, late = _subscriptions(each)
        many = len(each["seconds"])
        values.append(
            (
                each["query"],
                *map(common.number, (each["prepare_seconds"] * 1000, first, early, late)),
                common.number(each["rows"] / many),
                common.number(each["bytes"] / many),
            )
        )
    return [
        common.Figures(
            "Time on the processor: the first result, a transaction of one edge that comes and "
            "one that leaves, and one of many",
            ("nodes/edges", "rows", "", "first s", "one p50 ms", "one mean ms", "many ms", "many",
                "their rounds / rows changed"),
            tuple(rows),
        ),
        common.Figures(
            f"Soak: a window of {_SOAK_EDGES:,} edges over {_SOAK_NODES:,} nodes slides by one "
            f"edge a transaction; what {_SOAK_ROOTS} roots reach; CPU time",
            ("", "updates", "updates a second", "p99 ms at first", "p99 ms at last", "growth"),
            tuple(soaks),
        ),
        common.Figures(
            f"Prepared queries over {_PREPARED_NODES:,} nodes and edges, "
            f"{result['settings']['parameters']:,} values subscribed to in turn, CPU ms",
            ("", "prepare", "first", f"p50 of the next {_SUBSCRIPTIONS}",
                f"p50 of the last {_SUBSCRIPTIONS}", "rows each", "bytes each"),
            tuple(values),
        ),
    ]  # fmt: skip


def _subscriptions(prepared: Mapping[str, Any]) -> tuple[float, float, float]:
    """Milliseconds of the first, and medians of the next and of the last."""
    ms = np.asarray(prepared["seconds"]) * 1000
    next_ones, last = ms[1 : 1 + _SUBSCRIPTIONS], ms[-_SUBSCRIPTIONS:]
    return float(ms[0]), float(np.median(next_ones)), float(np.median(last))


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    """Not more than the peer takes; a soak that is fast and stays so."""
    found: list[common.Target] = []
    both = [case for case in result["cases"] if case["differential"] is not None]
    for place, name in ((0, "first result"), (2, "one change"), (3, "many changes")):
        ratios = {
            f"{case['query']}, {case['graph']}": _figures(case["sqlview"])[place]
            / _figures(case["differential"])[place]
            for case in both
        }
        if ratios:
            worst = max(ratios, key=lambda case: ratios[case])
            met = sum(ratio <= 1 for ratio in ratios.values())
            found.append(
                common.Target(
                    f"{name} of a recursive view ≤ 1 × differential dataflow's, each case",
                    f"{met} of {len(ratios)}; most {ratios[worst]:.3g} ({worst})",
                    met == len(ratios),
                )
            )
    costs = {p["query"]: _subscriptions(p) for p in result["prepared"]}
    growths = {query: last / first for query, (first, _, last) in costs.items()}
    worst = max(growths, key=lambda query: growths[query])
    found.append(
        common.Target(
            f"the last of {result['settings']['parameters']:,} subscriptions to a prepared query "
            f"≤ {_MOST_COST} × the first",
            f"{growths[worst]:.2f} ({worst})",
            growths[worst] <= _MOST_COST,
        )
    )
    for each in result["soaks"]:
        if each["side"] == "sqlview":
            rate = each["updates"] / each["seconds"]
            first, last = (
                common.percentiles_ms(each[name])["p99_ms"] for name in ("first", "last")
            )
            found += [
                common.Target(
                    f"single updates a second of a small graph ≥ {_LEAST_UPDATES:,}",
                    common.number(rate),
                    rate >= _LEAST_UPDATES,
                ),
                common.Target(
                    f"p99 at the end of its soak ≤ {_MOST_GROWTH} × that at first",
                    f"{last / first:.2f}",
                    last <= _MOST_GROWTH * first,
                ),
            ]
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    """The mean of a change by case, beside the peer's; below, the soak."""
    cases = result["cases"]
    with results.chart(2) as (above, below):
        for shift, name in ((-0.2, "sqlview"), (0.2, "differential")):
            some = [i for i, case in enumerate(cases) if case[name] is not None]
            heights = [_figures(cases[i][name])[2] for i in some]
            above.bar([i + shift for i in some], heights, 0.4, label=name)
        above.set_xticks(
            range(len(cases)), [f"{case['query']}\n{case['graph']}" for case in cases], fontsize=8
        )
        above.set_yscale("log")
        above.set_ylabel("ms on the processor, one change")
        above.legend()
        for each in result["soaks"]:
            for name in ("first", "last"):
                common.draw_ccdf(
                    below, np.asarray(each[name]) * 1000, f"{each['side']}, {name} window"
                )
        below.legend()


if __name__ == "__main__":
    raise SystemExit(main())
