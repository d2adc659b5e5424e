"""The history of views: what each step changed in them, for as long as it is retained.

Whoever consumes a view's changes says up to which epoch it has them, and gets those since then,
also after the session ended: a store's checkpoints have the history, and the records behind them
make the rest of it again.

Invariant: the changes since an epoch, added to the view's rows as of that epoch, are its rows as of
the latest one.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight import arrow
from operators.flight import delta as deltas
from operators.flight.column import Column, Ints
from operators.flight.delta import Delta
from operators.state.undo import Undo
from planner.calculus.types import BIGINT, Field, Schema
from planner.errors import DataError
from sqlview.arguments import kind_of
from sqlview.catalog import View

_TIME_AND_DIFF = (Field("__time", BIGINT, False), Field("__diff", BIGINT, False))
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True, slots=True)
class Retention:
    """How long changes are kept: so many epochs, or so many seconds; neither: not at all."""

    epochs: int = 0
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.epochs or self.seconds)


def checked_retention(value: Any) -> Retention:
    """None, a number of epochs, or a text as "1000 epochs", "30 minutes", "1 hour".

    Raises: TypeError and ValueError for anything else.
    """
    if value is None:
        return Retention()
    if isinstance(value, int) and not isinstance(value, bool):
        count, unit = value, "epoch"
    elif isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", value.lower())
        count, unit = (int(found[1]), found[2]) if found else (0, "")
    else:
        raise TypeError(
            f'retain is a number of epochs, or a text as "1 hour", not {kind_of(value)}'
        )
    if count <= 0 or unit not in ("epoch", *_SECONDS):
        raise ValueError(f'retain is as 1000, "1000 epochs" or "1 hour", not {value!r}')
    if unit == "epoch":
        return Retention(epochs=count)
    return Retention(seconds=count * _SECONDS[unit])


@dataclass(frozen=True, slots=True)
class Change:
    """What came up to `epoch` since the one before: the view's columns, `__time` and `__diff`."""

    epoch: int
    table: pa.Table


@dataclass(slots=True)
class _Kept:
    """The changes of a view after epoch `after`, each with the time at which it came; `nothing`: a
    table of its columns without rows."""

    after: int
    nothing: pa.Table
    changes: deque[tuple[Change, float]] = field(default_factory=deque)


class History:
    """State: the changes of each view that are retained, by its name."""

    def __init__(self, retention: Retention, undo: Undo) -> None:
        self._undo = undo
        self.retention = retention
        self._kept: dict[str, _Kept] = {}
        #: Views that a checkpoint had without their changes.
        self._not_retained: frozenset[str] = frozenset()

    def mark(self) -> dict[str, tuple[_Kept, int]]:
        return {name: (kept, len(kept.changes)) for name, kept in self._kept.items()}

    def restore(self, mark: dict[str, tuple[_Kept, int]]) -> None:
        """What came since did not, and what was forgotten is there."""
        self._kept = {name: kept for name, (kept, _) in mark.items()}
        for kept, count in mark.values():
            while len(kept.changes) > count:
                kept.changes.pop()

    def begin(self, view: View, epoch: int) -> None:
        """A view is there from `epoch` on; one of its name that was there before is not."""
        self._undo.before(self)
        if self.retention:
            nothing = deltas.empty(view.schema)
            self._kept[view.name] = _Kept(epoch, signed(view.schema, nothing, nothing.diff))
        self._not_retained -= {view.name}

    def forget(self, name: str) -> None:
        self._undo.before(self)
        self._kept.pop(name, None)

    def rename(self, old: str, new: str) -> None:
        self._undo.before(self)
        if old in self._kept:
            self._kept[new] = self._kept.pop(old)
        if old in self._not_retained:
            self._not_retained = (self._not_retained - {old}) | {new}

    def keeps(self, view: str) -> bool:
        return view in self._kept

    def was_retained(self, view: str) -> bool:
        """Whether who wrote the store has kept the changes of the view, as far as that was seen."""
        return view in self._kept and view not in self._not_retained

    def add(self, view: str, epoch: int, table: pa.Table) -> None:
        """A step, up to that epoch, has changed the view."""
        self._undo.before(self)
        self._kept[view].changes.append((Change(epoch, table), time.time()))

    def trim(self, epoch: int) -> None:
        """Forget what is retained no longer, as of the latest epoch. Cost: O(what goes)."""
        if not self.retention:
            return
        oldest = epoch - self.retention.epochs
        until = time.time() - self.retention.seconds
        for kept in self._kept.values():
            while kept.changes:
                change, came = kept.changes[0]
                goes = change.epoch <= oldest if self.retention.epochs else came < until
                if not goes:
                    break
                kept.after = change.epoch
                kept.changes.popleft()

    def since(self, view: str, epoch: int, latest: int) -> list[Change]:
        """What came after `epoch`, and at the end a mark of the latest one.

        Raises: DataError if it is not retained any more, or has not come.
        """
        kept = self._kept.get(view)
        if kept is None:
            raise DataError(
                f'the changes of view "{view}" are not retained',
                hint='Open the session with retain="1 hour", say; then create the view.',
            )
        if not kept.after <= epoch <= latest:
            raise DataError(
                f'the changes of view "{view}" since epoch {epoch} are not there',
                detail=f"Those since epochs {kept.after} to {latest} are.",
                hint="Begin anew, with a snapshot and its epoch.",
            )
        found = []
        for change, _ in kept.changes:
            if change.epoch > epoch:
                table = change.table
                times = table.column("__time").to_numpy()
                if len(times) and times.min() <= epoch:
                    table = table.filter(pa.array(times > epoch))
                found.append(Change(change.epoch, table))
        if not found or found[-1].epoch < latest:
            found.append(Change(latest, kept.nothing))
        return found

    # -- as a value ------------------------------------------------------------------------------

    def image(self) -> dict[str, Any]:
        """All that is kept, for a checkpoint. Cost: a copy of it."""
        return {
            name: {
                "after": kept.after,
                "epochs": [change.epoch for change, _ in kept.changes],
                "came": [came for _, came in kept.changes],
                "tables": _as_bytes(change.table for change, _ in kept.changes),
            }
            for name, kept in self._kept.items()
        }

    def load(self, image: Mapping[str, Any]) -> None:
        """Be what another one was when its image was made, but for what this one does not keep."""
        self._not_retained = frozenset(self._kept.keys() - image.keys())
        for name, kept in image.items():
            if name in self._kept:
                tables = list(_from_bytes(kept["tables"]))
                changes = map(Change, kept["epochs"], tables)
                mine = self._kept[name]
                mine.after = kept["after"]
                mine.changes = deque(zip(changes, kept["came"], strict=True))


def signed(schema: Schema, delta: Delta, diff: Ints) -> pa.Table:
    """A view's changes for who consumes them: its columns, `__time`, ascending, and `__diff`."""
    if len(delta) and (delta.time[1:] < delta.time[:-1]).any():
        order = np.argsort(delta.time, kind="stable")
        delta, diff = delta.select(order), diff[order]
    columns = [*delta.columns(), Column(BIGINT, delta.time), Column(BIGINT, diff)]
    return arrow.from_columns(columns, (*schema, *_TIME_AND_DIFF))


def _as_bytes(tables: Iterable[pa.Table]) -> np.ndarray[Any, Any]:
    """Tables of one schema as a stream of Arrow's, uint8[n]."""
    every = list(tables)
    sink = pa.BufferOutputStream()
    if every:
        with pa.ipc.new_stream(sink, every[0].schema) as stream:
            for table in every:
                (batch,) = table.combine_chunks().to_batches()
                stream.write_batch(batch)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _from_bytes(data: np.ndarray[Any, Any]) -> Iterator[pa.Table]:
    """What `_as_bytes` was given."""
    if len(data):
        for batch in pa.ipc.open_stream(pa.py_buffer(data)):
            yield pa.Table.from_batches([batch])
