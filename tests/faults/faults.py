"""Faults at every call of what a session does.

A session with every kind of operator does pairs of operations, one of which takes back what the
other does: steps, CREATE and DROP, replacing a view, looking rows up. Each is tried with a fault at
its n-th call, for one n after the other, until it ends before it comes to that. After each fault
all tables and views, what subscribers heard and what the history has must be as before the
operation; or as after it where nothing is left but to make its result, and where Ctrl-C comes
after all else. Then the session goes on.

- `error`: the n-th call, of a function of ours or of a kernel, raises.
- `memory`: so does it, and one of the calls after it, while things are being restored, does too.
- `interrupt`: Ctrl-C comes at the n-th call or return of any function.

Which calls: each `stride`-th, or, since those are very many, some `stride`-th at random.
"""

from __future__ import annotations

import contextlib
import dis
import importlib
import inspect
import pkgutil
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numba
import pytest

import operators.kernels
import sqlview
from operators import interrupts
from planner.errors import SqlViewError
from sqlview.subscriptions import Subscriptions
from tests.store.life import Operation, State, changing, state_of, statement

MODES = ("error", "memory", "interrupt")

_ROOT = Path(__file__).parents[2]
#: Whose calls raise. Not the module that keeps Ctrl-C: nothing can raise there but that.
_OURS = (str(_ROOT / "operators"), str(_ROOT / "sqlview"))
_NOT = (str(_ROOT / "operators" / "interrupts.py"),)

#: So many calls of an operation come when it has happened.
_LATE = 12

_TELLING = (Subscriptions.tell.__code__, interrupts.let_through.__wrapped__.__code__)

QUERIES = {
    "sums": "SELECT g, count(*) AS n, sum(f) AS f, max(s) AS top FROM t GROUP BY g",
    "joined": "SELECT t.k, bag.d, sums.n FROM t LEFT JOIN bag ON t.g = bag.g "
    "JOIN sums ON sums.g = t.g",
    "firsts": "SELECT k, s FROM t ORDER BY s DESC, k LIMIT 2",
    "above": "SELECT k FROM t WHERE f > (SELECT avg(n) FROM sums)",
    "kinds": "SELECT DISTINCT g, d FROM bag WHERE d > 0.5",
    "lists": "SELECT g, median(f) AS m, listagg(s) WITHIN GROUP (ORDER BY s) AS l "
    "FROM t GROUP BY g",
    "none": "SELECT k FROM t "
    "WHERE NOT EXISTS (SELECT 1 FROM bag WHERE bag.g = t.g AND bag.d > t.k)",
    "apart": "SELECT g FROM t EXCEPT SELECT g FROM bag WHERE d > 2",
    "failing": "SELECT k, 10 / (k - 77) AS q FROM t",
    "seen": "SELECT g, count(*) AS n, max(g) AS m FROM events GROUP BY g",
    "parts": "SELECT t.k, b.d FROM t JOIN bag b ON t.g = b.g WHERE b.d > 1",
}
NEW = "SELECT a.k, b.k AS other, s.n FROM t a JOIN t b ON a.g = b.g JOIN sums s ON s.g = a.g"


def _many(*changes: tuple[str, str, list[Any]]) -> Operation:
    def commit(db: Any) -> None:
        with db.transactions() as txs:
            for at, (action, table, rows) in enumerate(changes):
                getattr(txs, action)(table, rows, times=[at] * len(rows))

    return commit


def _created(db: Any) -> None:
    db.create_table("made", {"a": [1, 2, 2], "b": ["x", None, "y"]})


#: What is done, and what takes it back; how many epochs each takes.
PAIRS: dict[str, tuple[Operation, Operation, tuple[int, int]]] = {
    "step": (
        changing(
            ("upsert", "t", [(1, 2, "q", None), (90, 0, "new", 8.0)]),
            ("delete", "t", [(5,)]),
            ("insert", "bag", [(1, 7, None), (1, 7, None), (2, 0, None)]),
            ("delete", "bag", [(0, 1, None)]),
        ),
        changing(
            ("upsert", "t", [(1, 1, "b", 0.5), (5, 2, "c", 2.5)]),
            ("delete", "t", [(90,)]),
            ("delete", "bag", [(1, 7, None), (1, 7, None), (2, 0, None)]),
            ("insert", "bag", [(0, 1, None)]),
        ),
        (1, 1),
    ),
    "steps": (
        _many(
            ("insert", "t", [(70, 0, "zz", 1.0)]),
            ("delete", "t", [(2,)]),
            ("insert", "bag", [(0, 70, None)]),
        ),
        _many(
            ("delete", "t", [(70,)]),
            ("insert", "t", [(2, 2, "c", 1.0)]),
            ("delete", "bag", [(0, 70, None)]),
        ),
        (3, 3),
    ),
    "create": (
        statement(f"CREATE MATERIALIZED VIEW made_view AS {NEW}"),
        statement("DROP MATERIALIZED VIEW made_view"),
        (0, 0),
    ),
    "replace": (
        statement(
            "CREATE OR REPLACE MATERIALIZED VIEW parts AS "
            "SELECT t.k, b.d FROM t JOIN bag b ON t.g = b.g AND b.d > t.k"
        ),
        statement(f"CREATE OR REPLACE MATERIALIZED VIEW parts AS {QUERIES['parts']}"),
        (0, 0),
    ),
    "rename": (
        statement("ALTER TABLE bag RENAME TO other"),
        statement("ALTER TABLE other RENAME TO bag"),
        (0, 0),
    ),
    "table": (_created, statement("DROP TABLE made"), (1, 0)),
}


class Fault(Exception):
    """Of no kind that anything knows."""


class Faults:
    """One fault at the `at`-th call from `arm` on, and in mode `memory` another one soon after."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.at = self.calls = self.hits = 0
        self._most = 1

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Calls of kernels count, too."""
        with pytest.MonkeyPatch.context() as patch:
            if self.mode != "interrupt":
                for found in pkgutil.iter_modules(operators.kernels.__path__):
                    module = importlib.import_module(f"operators.kernels.{found.name}")
                    for name, value in vars(module).items():
                        if isinstance(value, numba.core.dispatcher.Dispatcher):
                            patch.setattr(module, name, self._kernel(value))
            yield

    @contextlib.contextmanager
    def armed(self, at: int) -> Iterator[None]:
        self.at, self.calls, self.hits = at, 0, 0
        self._most = 2 if self.mode == "memory" else 1
        self._armed = True
        if self.mode == "interrupt":
            sys.setprofile(self._any)
        else:
            sys.settrace(self._ours)  # which hears of no calls of C
        try:
            yield
        finally:
            sys.setprofile(None)
            sys.settrace(None)
            self._armed = False

    def _kernel(self, kernel: Any) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            if getattr(self, "_armed", False):
                self._count()
            return kernel(*args)

        return called

    def _count(self) -> None:
        self.calls += 1
        if self.calls >= self.at and self.hits < self._most:
            self.hits += 1
            self.at = self.calls + 1 + 7 * self.at % 23
            if self.hits < self._most:
                sys.setprofile(self._ours)  # Python takes one away that raises
            raise MemoryError if self.mode == "memory" else Fault

    def _ours(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and _is_ours(frame.f_code) and not _is_resumed(frame):
            self._count()

    def _any(self, frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code in _TELLING:
            return  # nobody can tell whether who is being called has heard
        self.calls += 1
        if self.calls == self.at:
            self.hits += 1
            signal.raise_signal(signal.SIGINT)


@cache
def _is_ours(code: CodeType) -> bool:
    name = code.co_filename
    return name.startswith(_OURS) and name not in _NOT and code.co_name != "<genexpr>"


def _is_resumed(frame: FrameType) -> bool:
    """Whether a generator goes on behind a yield. What is raised here would end it at once, without
    what its `finally` has, which nothing else does."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_GENERATOR or frame.f_lasti < 0:
        return False
    return code.co_code[frame.f_lasti] == dis.opmap["YIELD_VALUE"]


class Life:
    """A session, and what it is to be like."""

    def __init__(self, path: Path | None, mode: str) -> None:
        self.mode = mode
        self.db = sqlview.connect(path, placement="inline", retain=20)
        self.heard: list[Any] = []
        self._summed = Counter[Any]()  # of all that was heard
        db = self.db
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, s STRING, f DOUBLE)")
        db.sql("CREATE TABLE bag (g INT, d DECIMAL(20,3), day DATE)")
        db.sql("CREATE STREAM events (g INT)")
        for name, query in QUERIES.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.subscribe("joined", self.heard.append)
        changing(("insert", "t", [(i, i % 3, "abc"[i % 3], i / 2) for i in range(6)]))(db)
        changing(("insert", "bag", [(0, 1, None), (0, 1, None), (2, 3, None)]))(db)
        changing(("insert", "events", [(1,), (None,)]))(db)

    def state(self) -> State:
        found = state_of(self.db)
        del found["epoch"]
        return found

    def check(self, about: str) -> None:
        """What was heard is what there is, and so is what the history has."""
        self.db.apply([])  # who has not heard yet hears now
        for changes in self.heard:
            _add(self._summed, changes)
        self.heard.clear()
        assert self._summed == _counted(self.db.view("joined")), about
        since, net = max(self.db.epoch - 5, 0), Counter[Any]()
        for change in self.db.changes("sums", since=since):
            assert change.epoch <= self.db.epoch, about
            _add(net, change.table)
        then = _counted(self.db.view("sums").as_of(since))
        then.update(net)
        assert Counter({row: n for row, n in then.items() if n}) == _counted(
            self.db.view("sums")
        ), about

    def verify(self, about: str) -> None:
        """DuckDB says so, too."""
        for name in self.db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
            if name != "seen":
                assert self.db.verify(name, engine="duckdb").equal, f"{about}: {name}"


def _add(counted: Counter[Any], changes: Any) -> None:
    for row in changes.to_pylist():
        diff = row.pop("__diff")
        row.pop("__time")
        key = tuple(map(str, row.values()))
        counted[key] += diff
        if counted[key] == 0:
            del counted[key]


def _counted(view: Any) -> Counter[Any]:
    return Counter(tuple(map(str, row.values())) for row in view.to_arrow().to_pylist())


def run(
    path: Path | None,
    mode: str,
    start: int,
    stride: int,
    names: Iterable[str] = PAIRS,
    rng: random.Random | None = None,
    verified: bool = True,
) -> Counter[str]:
    """Try the faults `start`, `start` + `stride` and so on of the operations `names`, with `rng` at
    distances of `stride` on average; how many came. `verified`: DuckDB says what each operation
    gives, and not only what there is at the end."""
    life = Life(path, mode)
    db, faults = life.db, Faults(mode)
    tried: Counter[str] = Counter()
    try:
        for name in names:
            there, back, epochs = PAIRS[name]
            states = [life.state()]
            there(db)
            states.append(life.state())
            if verified:
                life.verify(name)
            back(db)
            assert life.state() == states[0], name
            with faults.planted():
                tried[name] = _pair(life, faults, (there, back), states, epochs, start, stride, rng)
            life.verify(name)
        # It goes on.
        for there, back, _ in PAIRS.values():
            there(db)
            back(db)
        life.check("at the end")
        life.verify("at the end")
        final = life.state()
    finally:
        db.close()
    if path is not None:
        with sqlview.connect(path) as again:
            found = state_of(again)
            del found["epoch"]
            assert found == final, "opened again"
    return tried


def _pair(
    life: Life,
    faults: Faults,
    operations: tuple[Operation, Operation],
    states: list[State],
    epochs: tuple[int, int],
    start: int,
    stride: int,
    rng: random.Random | None,
) -> int:
    """For either operation in turn, until neither comes to its fault any more."""
    db, done, tried, at = life.db, 0, 0, start
    missed, late = 0, [0, 0]
    while missed < 2:
        epoch = db.epoch
        raised: BaseException | None = None
        try:
            with faults.armed(at):
                operations[done](db)
        except (Fault, MemoryError, KeyboardInterrupt, SqlViewError) as error:
            raised = error
        about = f"{life.mode} at call {at} of operation {done}: {raised!r}"
        found = life.state()
        happened = raised is None or found != states[done]
        if happened and raised is not None and life.mode != "interrupt":
            late[done] += 1
            assert late[done] <= _LATE, f"{about}, though it has happened"
        assert found == states[1 - done if happened else done], about
        assert db.epoch == epoch + (epochs[done] if happened else 0), about
        life.check(about)
        if happened:
            done = 1 - done
        if faults.hits:
            tried += 1
            missed = 0
        else:
            missed += 1
        at += stride if rng is None else rng.randrange(1, 2 * stride)
    if done:
        operations[1](db)
    return tried
