"""The clock of a session: what `now()` in views is.

It is a table of one row (planner.context.CLOCK), made when the clock is first set. A move is a
commit like any other, so it is in the log, in checkpoints and among the changes of views; the views
that read the clock follow.

Invariant: the clock does not go back, whatever the system's does.
"""

from __future__ import annotations

import datetime
import logging
import re
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from operators.flight.column import Column
from operators.naive import instant_of, naive_in
from operators.state.changes import UPSERT
from planner.calculus.types import TIMESTAMP, TINYINT
from planner.calculus.zones import Zone
from planner.context import CLOCK_COLUMN
from planner.errors import DataError, SqlViewError
from sqlview.arguments import kind_of
from sqlview.catalog import Table
from sqlview.transaction import Statement

_log = logging.getLogger(__name__)

CLOCKS = ("manual", "system")
#: The key of the one row.
_KEY = "id"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def checked_instant(to: Any, zone: Callable[[], Zone]) -> int:
    """A datetime in microseconds since 1970 in UTC; one without a time zone is of the session's.

    Raises: TypeError for anything else.
    """
    if not isinstance(to, datetime.datetime):
        raise TypeError(f"the clock is set to a datetime, not {kind_of(to)}")
    if to.tzinfo is not None:
        return (to - _EPOCH) // _MICROSECOND
    local = (to.replace(tzinfo=datetime.timezone.utc) - _EPOCH) // _MICROSECOND
    with naive_in(zone):
        return instant_of(local, later=bool(to.fold))


def checked_tick(value: Any) -> float:
    """Seconds, as a number or a text as "1s", "500ms", "1m". Raises: TypeError and ValueError."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*", value)
        seconds = float(found[1]) * _SECONDS[found[2] or ""] if found else 0.0
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise TypeError(f'tick is a number of seconds, or a text as "1s", not {kind_of(value)}')
    if not 0.001 <= seconds <= 86_400:
        raise ValueError(f'tick is from "1ms" to "24h", not {value!r}')
    return seconds


def instant_in(clock: Table, epoch: int) -> int:
    """The time as of the latest epoch."""
    relation = clock.state.relation
    return int(relation.gather(1, relation.visible(epoch)).values[0])


def shown(instant: int) -> datetime.datetime:
    return _EPOCH + instant * _MICROSECOND


def first_row(instant: int) -> pa.Table:
    """What the clock is made with."""
    now = pa.array([instant], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({_KEY: pa.array([0], pa.int8()), CLOCK_COLUMN: now})


KEY = (_KEY,)


def move(clock: Table, before: int, to: int) -> Statement:
    """Raises: DataError where that is back."""
    if to < before:
        raise DataError(
            "the clock does not go back",
            detail=f"It is {shown(before)}, and was to be {shown(to)}. Nothing has changed.",
            hint="Move it to a later time.",
        )
    row = [Column(TINYINT, np.zeros(1, np.int64)), Column(TIMESTAMP, np.array([to], np.int64))]
    return Statement(clock, UPSERT, row)


class Moves(Protocol):
    """A session whose clock follows the system's."""

    @property
    def clock(self) -> datetime.datetime | None: ...

    def advance(self, to: datetime.datetime) -> int: ...


class SystemClock:
    """Moves the clock of a session to the system's time, at every tick, in a thread of its own,
    until it is stopped or the session goes."""

    def __init__(
        self, session: Moves, tick_seconds: float, nanoseconds: Callable[[], int] = time.time_ns
    ) -> None:
        self._session = weakref.ref(session)
        self._tick_seconds = tick_seconds
        self._nanoseconds = nanoseconds
        self._stopped = threading.Event()

    def start(self) -> None:
        """Tick now, and from now on. Raises: as Session.advance."""
        self.tick()
        thread = threading.Thread(target=self._run, name="sqlview-clock", daemon=True)
        thread.start()

    def stop(self) -> None:
        """Tick no more, but for one that goes on."""
        self._stopped.set()

    def tick(self) -> None:
        """Move the clock, if the system's is ahead of it."""
        session = self._session()
        if session is None:
            self.stop()
            return
        now = shown(self._nanoseconds() // 1000)
        before = session.clock
        if before is None or before < now:
            session.advance(now)

    def _run(self) -> None:
        while not self._stopped.wait(self._tick_seconds):
            try:
                self.tick()
            except SqlViewError as error:
                if not self._stopped.is_set():
                    _log.warning("the clock did not move: %s", error)
            except Exception:
                _log.warning("the clock did not move", exc_info=True)
