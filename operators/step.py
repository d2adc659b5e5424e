"""One step of a dataflow: check, write, run. All of it, or nothing.

Whatever raises on the way, a refusal, a full memory, Ctrl-C or a mistake of ours, the tables, the
indexes and the operators are as before, and the next step runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from operators.dataflow import Dataflow, Key
from operators.executor.protocol import Executor
from operators.flight.delta import Delta
from operators.loading import is_load, load
from operators.state.arrangement import ArrangementState
from operators.state.changes import INSERT
from operators.table import Change, Checked, Refusal, TableState
from planner import dataflow as ir


class Refused(Exception):
    """A table refused its changes: nothing of the step was applied."""

    def __init__(self, source: ir.Source, refusal: Refusal) -> None:
        super().__init__(f"{source.relation}: {refusal}")
        self.source = source
        self.refusal = refusal


def step(
    dataflow: Dataflow,
    executor: Executor,
    given: Mapping[ir.Source, Sequence[Change]],
    events: Mapping[Key, Delta] | None = None,
    at_end: Callable[[dict[Key, Delta]], None] | None = None,
) -> dict[Key, Delta]:
    """Apply the changes of tables, and the events of streams, and run the dataflow over them.

    `at_end`: told of the deltas when all has run, as the last part of the step: if it raises,
    nothing has happened.
    Returns: the deltas of all that changed: see Executor.step; an empty one of a table that was
    loaded and that nobody reads. The caller goes on with
    `Dataflow.commit`, which is no part of the step.
    Raises: Refused; and what an operator raises: the dataflow is then as before.
    """

    def work() -> dict[Key, Delta]:
        loads: list[ir.Source] = []
        checked: list[tuple[TableState, Checked, ArrangementState | None]] = []
        for source, batch in given.items():
            if is_load(batch):
                loads.append(source)
            else:
                checked.append(_checked(dataflow, dataflow.tables[source], batch))
        changes: dict[Key, Delta] = {}
        for state, result, index in checked:
            delta = state.write(result, index)
            dataflow.absorb(state.source)
            if len(delta):
                changes["", state.source] = delta
        for source in loads:
            loaded = load(dataflow, dataflow.tables[source], given[source])
            if isinstance(loaded, Refusal):
                raise Refused(source, loaded)
            changes["", source] = loaded
        if events:
            changes.update(events)
        executor.step(dataflow, changes)
        if at_end is not None:
            at_end(changes)
        return changes

    return dataflow.undo.all_or_nothing(work)


def _checked(
    dataflow: Dataflow, state: TableState, batch: Sequence[Change]
) -> tuple[TableState, Checked, ArrangementState | None]:
    """With the index that they were checked with, if that took one."""
    index, deferred = None, False
    if (state.key is not None and state.enforced) or any(c.action != INSERT for c in batch):
        live = dataflow.index_of_table(state)
        index, deferred = live.state, live.deferred
    result = state.check(batch, index, deferred)
    if isinstance(result, Refusal):
        raise Refused(state.source, result)
    return state, result, index
