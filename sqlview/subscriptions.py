"""Subscribers: who is told what a step changed in a view.

A step's changes are put down before it commits, since its old versions go then, and told
afterwards: a subscriber sees the new epoch in all views, and cannot undo it by failing.

Invariant: every subscriber of a view hears every step that changes it, in order, also where another
one fails, or changes tables when it is called: of that step it hears when all have heard of this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from operators import interrupts
from operators.flight.delta import Delta
from operators.state.undo import Undo
from planner.errors import SqlViewError, SubscriberError
from sqlview.catalog import View
from sqlview.history import signed

Subscriber: TypeAlias = Callable[[pa.Table], None]

#: What a subscriber of a view is to hear.
Untold: TypeAlias = tuple[str, Subscriber, pa.Table]


class Subscriptions:
    """State: the callbacks of each view, and what they have yet to hear."""

    def __init__(self, undo: Undo) -> None:
        self._undo = undo
        self._callbacks: dict[str, list[Subscriber]] = {}
        self._untold: deque[Untold] = deque()
        self._telling = False

    def mark(self) -> tuple[dict[str, list[Subscriber]], list[Untold]]:
        callbacks = {view: list(some) for view, some in self._callbacks.items()}
        return callbacks, list(self._untold)

    def restore(self, mark: tuple[dict[str, list[Subscriber]], list[Untold]]) -> None:
        """What was put down since is not, and who was forgotten subscribes."""
        callbacks, untold = mark
        self._callbacks = {view: list(some) for view, some in callbacks.items()}
        self._untold = deque(untold)

    def add(self, view: str, callback: Subscriber) -> None:
        self._callbacks.setdefault(view, []).append(callback)

    def remove(self, view: str, callback: Subscriber) -> None:
        """Take one subscription back, and what it has yet to hear.

        Raises: SqlViewError if there is none.
        """
        callbacks = self._callbacks.get(view, [])
        # A method is another object each time, but equal; of equal ones the same is meant.
        same = (i for i, c in enumerate(callbacks) if c is callback)
        equal = (i for i, c in enumerate(callbacks) if c == callback)
        place = next(same, next(equal, None))
        if place is None:
            raise SqlViewError(
                f'there is no such subscription to view "{view}"',
                hint="Give unsubscribe the same view and function as subscribe.",
            )
        del callbacks[place]
        if callback not in callbacks:
            untold = (item for item in self._untold if item[:2] != (view, callback))
            self._untold = deque(untold)

    def forget(self, view: str) -> None:
        self._undo.before(self)
        self._callbacks.pop(view, None)

    def rename(self, old: str, new: str) -> None:
        """Who subscribes to a view goes on under its new name."""
        self._undo.before(self)
        if old in self._callbacks:
            self._callbacks[new] = self._callbacks.pop(old)
        told = ((new if view == old else view, *rest) for view, *rest in self._untold)
        self._untold = deque((view, callback, table) for view, callback, table in told)

    def hears(self, view: str) -> bool:
        """Whether somebody subscribes to the view."""
        return bool(self._callbacks.get(view))

    def untold(self, view: str, table: pa.Table) -> list[Untold]:
        """A step's changes of a view, for its subscribers."""
        return [(view, callback, table) for callback in self._callbacks.get(view, ())]

    def put_down(self, untold: list[Untold]) -> None:
        """Keep what subscribers are to hear."""
        self._undo.before(self)
        self._untold.extend(untold)

    def replace(self, old: View, new: View, left: Delta, came: Delta) -> None:
        """Keep, for the subscribers of `old`, that all its rows left and those of `new` came.

        They hear of it with the next step's changes at the latest. One table if the columns are the
        same, else one of each view's.
        """
        self._undo.before(self)
        callbacks = self._callbacks.pop(old.name, [])
        if not callbacks:
            return
        self._callbacks[new.name] = callbacks
        tables = [signed(old.schema, left, -left.diff), signed(new.schema, came, came.diff)]
        if tables[0].schema == tables[1].schema:
            tables = [pa.concat_tables(tables)]
        for table in tables:
            self._untold.extend((new.name, callback, table) for callback in callbacks)

    def tell(self) -> None:
        """Call the subscribers.

        Raises: SubscriberError for the first that raised, when all have been called.
        """
        if self._telling:
            return
        failures: list[tuple[str, Exception]] = []
        self._telling = True
        try:
            while True:
                self._undo.finish()  # what a step put down that was taken back is not told
                if not self._untold:
                    break
                view, callback, table = self._untold[0]
                try:
                    with interrupts.let_through():
                        self._untold.popleft()  # only now: a Ctrl-C that was kept came before
                        callback(table)
                except Exception as error:
                    failures.append((view, error))
        finally:
            self._telling = False
        for view, first in failures[:1]:
            raise SubscriberError(
                f'a subscriber of view "{view}" failed: {type(first).__name__}: {first}',
                detail="The change is committed, and all other subscribers were told.",
                hint="Catch in the callback what it can deal with; do not apply the change again.",
            ) from first
