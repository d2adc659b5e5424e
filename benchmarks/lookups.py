"""Interactive look-ups in a graph that changes: python -m benchmarks.lookups

Whoever asks adds a row to a table of arguments that a view joins with the edges; the answer is what
a subscriber hears of that transaction, and the row is taken away again. Asked is for

    one     the nodes that a node has an edge to
    two     those that it has two edges to, one behind the other, once for each way
    four    whether a way of four edges leads from a node to another

in a random graph. Between the questions edges leave and come, `--changes` of each in a transaction.
`--asks` times one question is asked, and as often `--many` in one transaction. Shared are the
indexes of the edges where the three views are in one session; private where each is in one of its
own, with its own edges, which all have to be told of each change.

Everything runs on one core; what counts is time on the processor.

Invariant: in the end the answers were what a plain look-up in the edges gives.
Source: Shared Arrangements §6.2, Figures 5 and 6 (10 M nodes, 64 M edges, 32 workers).
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import sqlview
from benchmarks import common

Array: TypeAlias = "npt.NDArray[np.int32]"

#: By name: columns of arguments, and the query over `asked_NAME`.
QUERIES = {
    "one": (1, "SELECT x, b AS y FROM asked_one JOIN edges ON a = x"),
    "two": (
        1,
        "SELECT x, q.b AS y FROM asked_two JOIN edges p ON p.a = x JOIN edges q ON q.a = p.b",
    ),
    "four": (
        2,
        (
            "SELECT DISTINCT x, y FROM asked_four JOIN edges p ON p.a = x "
            "JOIN edges q ON q.a = p.b JOIN edges r ON r.a = q.b "
            "JOIN edges s ON s.a = r.b AND s.b = y"
        ),
    ),
}
_MOST_ONE_MS, _MOST_MANY_MS = 5, 50


@dataclass(frozen=True, slots=True)
class Asked:
    """Seconds on the processor of each transaction that asks one question, and of each that asks
    many; `shared`: with the indexes of the others."""

    query: str
    shared: bool
    one_seconds: tuple[float, ...]
    many_seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """What the views keep with their tables, bytes; seconds on the processor to load them and to
    have the views, and of each transaction of changes, all sessions together."""

    shared: bool
    bytes: int
    load_seconds: float
    change_seconds: tuple[float, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = common.parser("lookups", __doc__)
    parser.add_argument("--nodes", type=common.positive, default=2_000_000, metavar="N")
    parser.add_argument("--edges", type=common.positive, default=12_800_000, metavar="N")
    parser.add_argument("--asks", type=common.positive, default=100, metavar="N")
    parser.add_argument("--many", type=common.positive, default=1_000, metavar="N")
    parser.add_argument("--changes", type=common.positive, default=100, metavar="N")
    given = common.parse(
        parser, arguments, {"nodes": 40, "edges": 120, "asks": 3, "many": 5, "changes": 4}
    )
    return common.guarded(lambda: _main(given))


def _main(given: argparse.Namespace) -> None:
    results = common.Results("lookups", given)
    asked: list[Asked] = []
    kept: list[Kept] = []
    with common.pinned(1):
        _run(tuple(QUERIES), 40, 120, 2, 5, 4, given.seed)  # compiles the kernels
        for groups in ((tuple(QUERIES),), tuple((name,) for name in QUERIES)):
            shared = len(groups) == 1
            ran = []
            for names in groups:
                ran.append(
                    _run(
                        names, given.nodes, given.edges, given.asks, given.many, given.changes,
                        given.seed,
                    )
                )  # fmt: skip
                gc.collect()
            asked += [Asked(name, shared, *took) for each in ran for name, took in each[0].items()]
            changes = np.sum([each[3] for each in ran], axis=0)
            kept.append(
                Kept(
                    shared, sum(each[1] for each in ran), sum(each[2] for each in ran),
                    tuple(changes.tolist()),
                )
            )  # fmt: skip
    written = results.write({"asked": asked, "kept": kept})
    common.show_figures(tables(written))
    common.show_targets(targets(written))
    _draw(results, written)


_Took: TypeAlias = "tuple[tuple[float, ...], tuple[float, ...]]"


def _run(
    names: tuple[str, ...], nodes: int, edges: int, asks: int, many: int, changes: int, seed: int
) -> tuple[dict[str, _Took], int, float, list[float]]:
    """Of one session with these views: what each took, bytes, seconds to load, and of changes.

    Raises: common.WrongAnswerError if an answer in the end is another than that of the edges.
    """
    rng = np.random.default_rng(seed)
    live = rng.integers(0, nodes, (edges, 2), np.int32)
    heard: dict[str, list[pa.Table]] = {name: [] for name in names}
    one: dict[str, list[float]] = {name: [] for name in names}
    several: dict[str, list[float]] = {name: [] for name in names}
    moved: list[float] = []
    with sqlview.connect(placement="inline") as db:
        loaded = _cpu(lambda: _load(db, names, live, heard))
        _change(db, live, changes, nodes, rng)  # the first finds no index of whole rows
        for number in range(2 * asks):
            moved.append(_change(db, live, changes, nodes, rng))
            for name in names:
                few = 1 if number < asks else many
                columns, _ = QUERIES[name]
                values = rng.integers(0, nodes, (few, columns), np.int32)
                took = _ask(db, name, values)
                (one if number < asks else several)[name].append(took)
                if number == 2 * asks - 1:
                    _check(name, values, heard[name], live)
                with db.transaction() as tx:
                    tx.delete(f"asked_{name}", _arguments(values))
                heard[name].clear()
        size = db.metrics().state_bytes
    return (
        {name: (tuple(one[name]), tuple(several[name])) for name in names}, size, loaded, moved,
    )  # fmt: skip


def _load(
    db: sqlview.Session, names: tuple[str, ...], edges: Array, heard: Mapping[str, list[pa.Table]]
) -> None:
    db.sql("CREATE TABLE edges (a INT, b INT)")
    with db.transaction() as tx:
        tx.insert("edges", _pairs(edges))
    for name in names:
        columns, query = QUERIES[name]
        db.sql(f"CREATE TABLE asked_{name} ({', '.join(f'{c} INT' for c in 'xy'[:columns])})")
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.subscribe(name, heard[name].append)


def _change(
    db: sqlview.Session, live: Array, changes: int, nodes: int, rng: np.random.Generator
) -> float:
    """Let edges, some of `live` which has them, be others; seconds on the processor."""
    places = rng.choice(len(live), changes, replace=False)
    gone, come = live[places], rng.integers(0, nodes, (changes, 2), np.int32)
    live[places] = come
    dead, born = _pairs(gone), _pairs(come)

    def apply() -> None:
        with db.transaction() as tx:
            tx.delete("edges", dead)
            tx.insert("edges", born)

    return _cpu(apply)


def _ask(db: sqlview.Session, name: str, values: Array) -> float:
    rows = _arguments(values)

    def apply() -> None:
        with db.transaction() as tx:
            tx.insert(f"asked_{name}", rows)

    return _cpu(apply)


def _check(name: str, values: Array, heard: Sequence[pa.Table], edges: Array) -> None:
    """Compare what was heard of one transaction with plain look-ups."""
    by_start = edges[edges[:, 0].argsort(kind="stable")]
    starts = np.searchsorted(by_start[:, 0], np.arange(int(edges.max()) + 2))

    def further(rows: Any) -> Any:
        """Rows of which the last column has gone one edge further."""
        at = np.minimum(rows[:, -1], len(starts) - 2)
        many = starts[at + 1] - starts[at]
        number = np.repeat(np.arange(len(rows)), many)
        first = np.repeat(starts[at] - (np.cumsum(many) - many), many)
        ends = by_start[first + np.arange(len(number)), 1]
        return np.column_stack((rows[number, :-1], ends))

    values = values.astype(np.int64)
    rows = np.column_stack((values[:, 0], values))
    if name == "four":
        rows = np.column_stack((values, values[:, 0]))
        for _ in range(4):
            rows = np.unique(further(rows), axis=0)
        rows = np.unique(rows[rows[:, 1] == rows[:, 2], :2], axis=0)
    else:
        for _ in range({"one": 1, "two": 2}[name]):
            rows = further(rows)
    found = [
        np.column_stack([np.asarray(table["x"]), np.asarray(table["y"])]).astype(np.int64)
        for table in heard
        if len(table)
    ]
    there = np.concatenate([np.empty((0, 2), np.int64), *found])
    if not np.array_equal(there[np.lexsort(there.T)], rows[np.lexsort(rows.T)]):
        raise common.WrongAnswerError(
            f"{name} gave {len(there):,} rows that are not the {len(rows):,} of the answer"
        )


def _cpu(body: Callable[[], object]) -> float:
    started = time.process_time()
    body()
    return time.process_time() - started


def _pairs(edges: Array) -> pa.Table:
    a, b = (np.ascontiguousarray(column) for column in edges.T)
    return pa.table({"a": a, "b": b})


def _arguments(values: Array) -> pa.Table:
    columns = (np.ascontiguousarray(column) for column in values.T)
    return pa.table(dict(zip("xy", columns, strict=False)))


# -- what is shown -----------------------------------------------------------------------------


def tables(result: Mapping[str, Any]) -> list[common.Figures]:
    settings = result["settings"]
    rows = []
    for each in result["asked"]:
        one, many = (np.asarray(each[f"{kind}_seconds"]) * 1000 for kind in ("one", "many"))
        figures = (np.median(one), one.max(), np.median(many), many.max())
        kind = "shared" if each["shared"] else "private"
        rows.append((each["query"], kind, *(common.number(float(f)) for f in figures)))
    sizes = []
    for each in result["kept"]:
        changes = np.asarray(each["change_seconds"]) * 1000
        sizes.append(
            (
                "shared" if each["shared"] else "private",
                common.number(each["bytes"] / 2**20),
                common.number(each["load_seconds"]),
                common.number(float(np.median(changes))),
                common.number(float(changes.max())),
            )
        )
    many = f"{settings['many']:,}"
    return [
        common.Figures(
            f"Questions to a graph of {settings['nodes']:,} nodes and {settings['edges']:,} edges "
            "that changes between them, CPU ms",
            ("", "indexes", "one p50", "one max", f"{many} p50", f"{many} max"),
            tuple(rows),
        ),
        common.Figures(
            f"Edges and indexes for all three; transactions in which {settings['changes']:,} edges "
            "leave and as many come",
            ("indexes", "MiB", "load and CREATE, CPU s", "change p50, CPU ms", "change max"),
            tuple(sizes),
        ),
    ]


def targets(result: Mapping[str, Any]) -> list[common.Target]:
    """Answers in milliseconds, with shared indexes."""
    found = []
    many = result["settings"]["many"]
    for kind, what, most in (
        ("one", "one interactive question", _MOST_ONE_MS),
        ("many", f"{many:,} interactive questions at once", _MOST_MANY_MS),
    ):
        medians = {
            each["query"]: float(np.median(each[f"{kind}_seconds"])) * 1000
            for each in result["asked"]
            if each["shared"]
        }
        worst = max(medians, key=lambda query: medians[query])
        found.append(
            common.Target(
                f"{what} ≤ {most} ms, each query",
                f"{common.number(medians[worst])} ({worst})",
                medians[worst] <= most,
            )
        )
    return found


def _draw(results: common.Results, result: Mapping[str, Any]) -> None:
    with results.chart(2) as panels:
        for axes, kind in zip(panels, ("one", "many"), strict=True):
            for each in result["asked"]:
                label = f"{each['query']}, {'shared' if each['shared'] else 'private'}"
                common.draw_ccdf(axes, np.asarray(each[f"{kind}_seconds"]) * 1000, label)
            axes.set_xlabel(f"ms on the processor, {kind}")
            axes.legend()


if __name__ == "__main__":
    raise SystemExit(main())
