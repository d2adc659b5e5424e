"""A step that fails anywhere is as if it had never begun.

Before each step of random cases the same step is tried with a fault planted at a random call of
what changes state: it raises before the call, or when the call is done. Epoch, views and tables
must be as before, and then the step itself, with all that follows, must be what the oracle says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

import sqlview
from operators.dataflow import Dataflow
from operators.nodes.errors import ErrorState
from operators.nodes.top_k import TopKOperator
from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from operators.state.relation import Relation
from operators.state.spine import Spine
from operators.state.undo import Undo
from operators.table import TableState
from tests.harness import Checked
from tests.properties.cases import Tally, make, run
from tests.properties.values import MAX_ROWS, MAX_WORK
from tests.reference.tables import Change

#: What changes the state of a dataflow, and steps in it between which it is half changed.
CHANGING: tuple[tuple[type, str], ...] = (
    (Dataflow, "run"),
    (Dataflow, "enter"),
    (TableState, "write"),
    (Relation, "append"),
    (Relation, "kill"),
    (Relation, "_new_block"),
    (Relation, "_fill"),
    (Relation, "_fill_text"),
    (Relation, "_dead_bits"),
    (Relation, "_settle"),
    (ArrangementState, "insert"),
    (Spine, "insert"),
    (Filter, "absorb"),
    (Filter, "_evaluate_part"),
    (ErrorState, "count"),
    (TopKOperator, "_keep"),
)


class Planted(BaseException):
    """No error that anything catches."""


class Faults:
    """Raises at the `at`-th call of those while it is `armed`, or when the step has run."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.armed = False
        self.at = self.calls = 0
        self.after = False
        for kind, name in CHANGING:
            patch.setattr(kind, name, self._faulty(getattr(kind, name)))
        patch.setattr(Undo, "all_or_nothing", self._ending(Undo.all_or_nothing))

    def _faulty(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            if not self.armed:
                return method(*args, **named)
            self.calls += 1
            here = self.calls == self.at
            if here and not self.after:
                raise Planted
            result = method(*args, **named)
            if here:
                raise Planted
            return result

        return called

    def _ending(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def ending(undo: Undo, work: Callable[[], Any]) -> Any:
            def planted() -> Any:
                result = work()
                if self.armed:
                    raise Planted
                return result

            return step(undo, planted)

        return ending


class Undone(Checked):
    """Tries each step with faults first."""

    def __init__(self, db: Any, faults: Faults, seed: int) -> None:
        super().__init__(db, form="mixed", most_rows=MAX_ROWS, most_work=MAX_WORK)
        self._faults = faults
        self._rng = Random(seed)
        self._most = 20
        self.undone = 0

    def step(self, *changes: Change) -> int:
        def attempt() -> None:
            with self.db.transaction() as tx:
                self.fill(tx, changes)

        self._undo(attempt)
        return super().step(*changes)

    def batch(self, *transactions: Sequence[Change]) -> list[int]:
        def attempt() -> None:
            begun = []
            for changes in transactions:
                begun.append(self.db.begin())
                self.fill(begun[-1], changes)
            self.db.apply(begun)

        self._undo(attempt)
        return super().batch(*transactions)

    def columns(self, *transactions: Sequence[Change]) -> list[int]:
        def attempt() -> None:
            with self.db.transactions() as txs:
                self.fill_columns(txs, transactions)

        self._undo(attempt)
        return super().columns(*transactions)

    def _undo(self, attempt: Callable[[], None]) -> None:
        faults = self._faults
        for _ in range(2):
            faults.at, faults.after = self._rng.randint(1, self._most), self._rng.random() < 0.5
            faults.armed, faults.calls = True, 0
            try:
                self.unchanged_by(Planted, attempt, self.db.epoch)
            finally:
                faults.armed = False
            self._most = max(self._most * 3 // 4, faults.calls + 1, 4)
            self.undone += 1


@pytest.mark.parametrize("seed", range(16))
def test_a_step_that_fails_is_as_if_it_had_never_begun(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make(70_000 + seed, 12)
    checked = Undone(
        sqlview.connect(placement="inline", share=seed % 4 != 3), Faults(monkeypatch), seed
    )
    try:
        run(case, checked, Tally())
        assert checked.undone
    finally:
        checked.close()
