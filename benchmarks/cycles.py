"""Triangles of graphs that change, by counts and by binary joins: python -m benchmarks.cycles

The view counts the triangles a → b → c, a → c of one table of edges. Graphs are generated, with
some edges kept back:

    uniform  edges between nodes at random
    zipf     ends chosen by a zipfian distribution (exponent 0.8), each of its own
    hub      one node with an edge to and from every other one, and as many at random

Each is run twice: as it is planned (each prefix takes values from the one of the two occurrences
that has fewer rows for it, the other one validates them), and with paths that look up one
occurrence after the other, as acyclic joins have them. A case is the first result (CREATE over a
loaded table, with its indexes; `--firsts` times, the median), `--changes` transactions in each of
which one edge leaves and one that was kept back comes, and one transaction in which 100 leave and
as many come; time on the processor, on one core.

Candidates are what a path's first lookup finds for all edges as a change: counted from the edges by
themselves, per path, beside m^1.5, the most triangles that m edges can have. Where binary joins
would come to more than `--most` they are not run.

Invariant: in the end of every run the view was what NumPy counts.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import sqlview
from benchmarks import common
from planner.lower import join_order

Array: TypeAlias = "npt.NDArray[np.int64]"

VIEW = """CREATE MATERIALIZED VIEW triangles AS SELECT count(*) AS n
FROM edges x JOIN edges y ON x.b = y.a JOIN edges z ON z.a = x.a AND z.b = y.b"""
#: Graph, nodes, edges about.
CASES = (
    ("uniform", 100_000, 500_000),
    ("zipf", 60_000, 300_000),
    ("hub", 5_000, 25_000),
    ("hub", 50_000, 250_000),
)
QUICK_CASES = (("uniform", 300, 1_500), ("zipf", 300, 1_500), ("hub", 300, 1_500))
PLANS = ("counted", "binary")
#: The paths of a change of x, y and z, by the ends (0: from, 1: to) at which the change is sought
#: in the one and in the other of the two occurrences, as ends of these.
PATHS = {"x": ((1, 0), (0, 0)), "y": ((0, 1), (1, 1)), "z": ((0, 0), (1, 1))}
_MANY = 100
_EXPONENT = 0.8
#: The goals: of a uniform graph's candidates and time, over those of binary joins.
_MOST_RATIO = 1.2


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds on the processor; `prefixes` of the changes of one edge each, and of many."""

    plan: str
    first_seconds: tuple[float, ...]
    change_seconds: tuple[float, ...]
    change_prefixes: tuple[int, ...]
    many_seconds: float
    many_prefixes: int


@dataclass(frozen=True, slots=True)
class Case:
    """`candidates`: of each path, by counts and of the better binary plan (see PATHS)."""

    graph: str
    nodes: int
    edges: int
    triangles: int
    candidates: Mapping[str, tuple[int, int]]
    runs: tuple[Run, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("cycles", __doc__)
    parser.add_argument(
        "--changes", type=common.positive, default=50, metavar="N", help="of one edge (%(default)s)"
    )
    parser.add_argument(
        "--firsts", type=common.positive, default=5, metavar="N", help="results (%(default)s)"
    )
    parser.add_argument(
        "--most", type=common.positive, default=200_000_000, metavar="N",
        help="candidates of a path up to which binary joins are run (%(default)s)",
    )  # fmt: skip
    given = common.parse(parser, arguments, {"changes": 4, "firsts": 1})
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results, console = common.Results("cycles", given), common.progress()
    found: list[Case] = []
    with common.pinned(1):
        for each in QUICK_CASES:  # compiles the kernels
            case(*each, 1, 2, given.seed, given.most)
        for kind, nodes, edges in QUICK_CASES if given.quick else CASES:
            console.print(f"{kind}, {nodes:,} nodes")
            found.append(
                case(kind, nodes, edges, given.firsts, given.changes, given.seed, given.most)
            )
    written = results.write({"cases": found})
    common.show_figures(tables(written))
    common.show_targets(targets(written))
    _draw(results, written)


# -- graphs ------------------------------------------------------------------------------------


def edges_of(kind: str, nodes: int, edges: int, rng: np.random.Generator) -> Array:
    """Different edges int64[m, 2] in any order."""
    if kind == "uniform":
        made = rng.integers(0, nodes, (edges, 2))
    elif kind == "zipf":
        weights = np.cumsum((np.arange(nodes) + 1.0) ** -_EXPONENT)
        ranks = np.searchsorted(weights / weights[-1], rng.random((edges, 2)))
        made = np.stack([rng.permutation(nodes)[ranks[:, end]] for end in (0, 1)], 1)
    else:
        others = np.arange(1, nodes)
        hub = np.zeros_like(others)
        more = rng.integers(1, nodes, (max(edges - 2 * len(others), 1), 2))
        made = np.concatenate((np.stack((others, hub), 1), np.stack((hub, others), 1), more))
    made = np.unique(made, axis=0)
    rng.shuffle(made)
    return made


def candidates(edges: Array, nodes: int) -> dict[str, tuple[int, int]]:
    """Of each path, what the first lookups find for all edges as a change: by counts, and in the
    better one of the two occurrences."""
    degrees = [np.bincount(edges[:, end], minlength=nodes) for end in (0, 1)]
    found = {}
    for path, sought in PATHS.items():
        both = [degrees[other][edges[:, own]] for own, other in sought]
        found[path] = int(np.minimum(*both).sum()), int(min(b.sum() for b in both))
    return found


def triangles(edges: Array, nodes: int) -> int:
    """How many there are: the smaller list of successors of a and predecessors of c, for each a, c,
    and of each b in it whether the other edge is there."""
    codes = np.sort(edges[:, 0] * nodes + edges[:, 1])
    by = [np.argsort(edges[:, end], kind="stable") for end in (0, 1)]
    starts = [np.searchsorted(edges[by[end], end], np.arange(nodes + 1)) for end in (0, 1)]
    total = 0
    for piece in np.array_split(edges, max(1, len(edges) // 10_000)):
        lengths = [starts[end][piece[:, end] + 1] - starts[end][piece[:, end]] for end in (0, 1)]
        fewer = lengths[0] <= lengths[1]
        for end, some in ((0, fewer), (1, ~fewer)):
            ends, counts = piece[some], lengths[end][some]
            at = np.repeat(starts[end][ends[:, end]] - np.cumsum(counts) + counts, counts)
            middle = edges[by[end][at + np.arange(counts.sum())], 1 - end]
            others = np.repeat(ends[:, 1 - end], counts)
            wanted = middle * nodes + others if end == 0 else others * nodes + middle
            place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
            total += int((codes[place] == wanted).sum())
    return total


# -- runs --------------------------------------------------------------------------------------


def case(
    kind: str, nodes: int, edges: int, firsts: int, changes: int, seed: int, most: int
) -> Case:
    """Raises: common.WrongAnswerError if a run's view in the end is not the answer."""
    made = edges_of(kind, nodes, edges, np.random.default_rng(seed))
    many = min(_MANY, len(made) // 10)
    kept = changes + many
    loaded, coming, leaving = made[kept:], made[:kept], made[kept : 2 * kept]
    last = np.concatenate((made[2 * kept :], coming))
    expected, estimate = triangles(last, nodes), candidates(loaded, nodes)
    steps = [(coming[i : i + 1], leaving[i : i + 1]) for i in range(changes)]
    steps.append((coming[changes:], leaving[changes:]))
    few = max(binary for _, binary in estimate.values()) <= most
    plans = PLANS if few else PLANS[:1]
    runs = tuple(_run(plan, loaded, firsts, steps, expected) for plan in plans)
    return Case(kind, nodes, len(loaded), expected, estimate, runs)


def _run(
    plan: str, loaded: Array, firsts: int, steps: Sequence[tuple[Array, Array]], expected: int
) -> Run:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE edges (a BIGINT NOT NULL, b BIGINT NOT NULL)")
        with db.transaction() as tx:
            tx.insert("edges", _table(loaded))
        with contextlib.nullcontext() if plan == "counted" else _binary():
            first = [_cpu(lambda: db.sql(VIEW))]
            while len(first) < firsts:
                db.sql(f"DROP {_NAMED}")
                first.append(_cpu(lambda: db.sql(VIEW)))
        is_counted = any("fewest" in line for (line,) in db.sql(f"EXPLAIN {_NAMED}").rows())
        if is_counted != (plan == "counted"):
            raise common.BenchmarkError(f"the plan is not {plan}")
        took, prefixes = [], []
        for comes, leaves in steps:
            took.append(_cpu(lambda c=comes, g=leaves: _change(db, c, g)))  # type: ignore[misc]
            prefixes.append(db.metrics().steps[-1].prefixes)
        ((found,),) = db.view("triangles").rows()
        if found != expected:
            raise common.WrongAnswerError(f"{found:,} triangles where there are {expected:,}")
    return Run(plan, tuple(first), tuple(took[:-1]), tuple(prefixes[:-1]), took[-1], prefixes[-1])


_NAMED = "MATERIALIZED VIEW triangles"


@contextlib.contextmanager
def _binary() -> Iterator[None]:
    """Plans are as if no join were cyclic."""
    with mock.patch.object(join_order, "cyclic_classes", return_value=frozenset()):
        yield


def _change(db: Any, comes: Array, leaves: Array) -> None:
    with db.transaction() as tx:
        tx.delete("edges", _table(leaves))
        tx.insert("edges", _table(comes))


def _table(edges: Array) -> pa.Table:
    return pa.table({"a": edges[:, 0], "b": edges[:, 1]})


def _cpu(body: Callable[[], Any]) -> float:
    started = time.process_time()
    body()
    return time.process_time() - started


# -- reports -----------------------------------------------------------------------------------


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    sizes, times = [], []
    for each in result["cases"]:
        name = f"{each['graph']}, {each['nodes']:,}/{each['edges']:,}"
        for path, (counted, binary) in each["candidates"].items():
            sizes.append(
                (
                    f"{name}: change of {path}",
                    *map(common.number, (counted, binary, each["edges"] ** 1.5)),
                )
            )
        for run in each["runs"]:
            ms = np.asarray(run["change_seconds"]) * 1000
            figures = (
                np.median(run["first_seconds"]), np.median(ms), ms.mean(), ms.max(),
                np.mean(run["change_prefixes"]), run["many_seconds"] * 1000, run["many_prefixes"],
            )  # fmt: skip
            times.append((name, run["plan"], *(common.number(float(f)) for f in figures)))
        if len(each["runs"]) == 1:
            times.append((name, "binary", "not run", *["-"] * 6))
    return [
        common.Figures(
            "Candidates of a path, all edges being the change",
            ("graph, nodes/edges", "by counts", "the better binary plan", "m^1.5"),
            tuple(sizes),
        ),
        common.Figures(
            "Time on the processor: the first result, a transaction of one edge that comes and one "
            f"that leaves, and one of {_MANY} each; with the rows that delta paths came to",
            ("graph, nodes/edges", "plan", "first s", "one p50 ms", "one mean ms", "one max ms",
                "rows a change", "many ms", "rows"),
            tuple(times),
        ),
    ]  # fmt: skip


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    """Never more candidates than the bound; no cost where counting gains nothing."""
    cases = result["cases"]
    shares = {
        f"{each['graph']}, {path}": counted / each["edges"] ** 1.5
        for each in cases
        for path, (counted, _) in each["candidates"].items()
    }
    worst = max(shares, key=lambda path: shares[path])
    (uniform,) = (each for each in cases if each["graph"] == "uniform")
    more = max(counted / binary for counted, binary in uniform["candidates"].values())
    runs = {run["plan"]: run for run in uniform["runs"]}
    found = [
        common.Target(
            "candidates of a path through triangles ≤ m^1.5",
            f"most {shares[worst]:.2g} × m^1.5 ({worst})",
            shares[worst] <= 1,
        ),
        common.Target(
            f"candidates on a uniform graph ≤ {_MOST_RATIO} × those of binary joins",
            f"{more:.2f}",
            more <= _MOST_RATIO,
        ),
    ]
    if "binary" in runs:
        ratios = {
            name: float(np.median(runs["counted"][figure]) / np.median(runs["binary"][figure]))
            for name, figure in (
                ("first", "first_seconds"),
                ("one", "change_seconds"),
                ("many", "many_seconds"),
            )
        }
        shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        found.append(
            common.Target(
                f"time on a uniform graph ≤ {_MOST_RATIO} × that of binary joins",
                shown,
                max(ratios.values()) <= _MOST_RATIO,
            )
        )
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    """Candidates by path; below, the mean of a change of one edge."""
    cases = result["cases"]
    with results.chart(2) as (above, below):
        names = [f"{c['graph']} {c['nodes'] // 1000}k\n{path}" for c in cases for path in PATHS]
        pairs = [pair for c in cases for pair in c["candidates"].values()]
        bounds = [c["edges"] ** 1.5 for c in cases for _ in c["candidates"]]
        for shift, number, label in ((-0.2, 0, "by counts"), (0.2, 1, "binary")):
            heights = [max(pair[number], 1) for pair in pairs]
            above.bar([i + shift for i in range(len(pairs))], heights, 0.4, label=label)
        above.plot(range(len(pairs)), bounds, "k_", markersize=24, label="m^1.5")
        above.set_xticks(range(len(names)), names, fontsize=8)
        above.set_yscale("log")
        above.set_ylabel("candidates")
        above.legend()
        for shift, plan in ((-0.2, "counted"), (0.2, "binary")):
            runs = [(i, r) for i, c in enumerate(cases) for r in c["runs"] if r["plan"] == plan]
            heights = [float(np.mean(run["change_seconds"])) * 1000 for _, run in runs]
            below.bar([i + shift for i, _ in runs], heights, 0.4, label=plan)
        below.set_xticks(range(len(cases)), [f"{c['graph']}, {c['nodes']:,}" for c in cases])
        below.set_yscale("log")
        below.set_ylabel("ms on the processor, one change, mean")
        below.legend()


if __name__ == "__main__":
    raise SystemExit(main())
