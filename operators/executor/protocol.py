"""What an executor does.

Law: every executor gives the same rows at the same times. A step is all or nothing
(`operators.step`): an executor may raise anything anywhere, and what it has changed is taken back.
"""

from __future__ import annotations

from typing import Protocol

from operators.dataflow import Dataflow, Key
from operators.flight.delta import Delta


class Executor(Protocol):
    @property
    def name(self) -> str:
        """ "inline" or "spark"."""

    def step(self, dataflow: Dataflow, changes: dict[Key, Delta]) -> None:
        """Run the installed nodes over `changes`, which holds the changed tables' deltas, already
        written to their relations and indexes. It gains the delta of every stored node that
        changed (inline: of every node).
        """
