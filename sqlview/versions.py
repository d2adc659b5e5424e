"""Versions: what readers read, as of one epoch, while the writer goes on.

A version of a view or table never changes, and any thread may read it. Those of the views that
somebody reads are published: the writer makes them anew at the end of each step that changes them,
and who reads takes the latest without waiting. Others are made when they are asked for, between
steps. What a version refers to stays in memory as long as it does.

Invariant: what `of` returns is what the view was at the latest epoch at some time during the call.
Source: Shared Arrangements §4.2 (readers hold a trace's version back); that a version is a list of
immutable values is this project's own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from operators.dataflow import Dataflow
from operators.state.arrangement import IndexVersion, index_of
from operators.state.rows import Rows
from planner import dataflow as ir
from planner.names import folded
from sqlview.catalog import Catalog, Table, View
from sqlview.commits import SessionLock

#: A view that nobody has read for so many steps is not published any more.
IDLE_STEPS = 64


@dataclass(frozen=True, slots=True)
class Version:
    """A view or table as of an epoch. `messages`: of rows under it that cannot be computed;
    `indexes`: those by which its rows were looked up; `changes`: see ViewReader."""

    entry: View | Table
    epoch: int
    rows: Rows
    messages: tuple[str, ...]
    changes: int
    indexes: dict[ir.Arrangement, IndexVersion] = field(default_factory=dict)


class Versions:
    """State: the published versions, by name; replaced as a whole, by whoever holds the lock."""

    def __init__(
        self,
        catalog: Catalog,
        dataflow: Dataflow,
        epoch: Callable[[], int],
        lock: SessionLock,
        working: Callable[[], AbstractContextManager[None]],
        compute: Callable[[View], None],
    ) -> None:
        """`lock`: the session's; `working`: holds it; `compute`: computes a lazy view."""
        self._catalog = catalog
        self._dataflow = dataflow
        self._epoch = epoch
        self._lock = lock
        self._working = working
        self._compute = compute
        self._published: dict[str, Version] = {}
        #: Names that were read since it was looked who reads, and how many steps ago that was.
        self._read: set[str] = set()
        self._steps = 0

    def of(self, name: str) -> Version:
        """The latest version of a view. Raises: CatalogError if there is none of that name.

        Cost: waits for a step that goes on only if nobody has read the view for IDLE_STEPS steps.
        """
        key = folded(name)
        found = self._published.get(key)
        if (
            found is None
            or self._catalog.find(name) is not found.entry
            or (found.epoch != self._epoch() and self._is_over())
        ):
            with self._working():
                found = self.taken(self._catalog.view(name))
                self._published = {**self._published, key: found}
        self._read.add(key)
        return found

    def _is_over(self) -> bool:
        """Whether no step goes on that has yet to publish what it made."""
        over = self._lock.acquire(blocking=False)
        if over:
            self._lock.release()
        return over

    @property
    def epoch(self) -> int:
        """The latest one."""
        return self._epoch()

    def ready(self, view: View) -> None:
        """Compute a lazy view that nobody has read so far. Whoever reads a view or hears of its
        changes comes by here, or by what calls it; whoever calls holds the lock."""
        if not view.computed:
            self._compute(view)

    def taken(self, entry: View | Table) -> Version:
        """What a view or table is now; whoever calls holds the lock."""
        if isinstance(entry, Table):
            rows = entry.state.relation.version()
            return Version(entry, self._epoch(), rows, (), 0)
        self.ready(entry)
        messages = self._dataflow.errors_of(entry.reader)
        return Version(entry, self._epoch(), self._rows(entry), messages, entry.changes)

    def all(self) -> list[Version]:
        """All tables and views as they are now, but for lazy ones that nobody has read; whoever
        calls holds the lock."""
        entries = (e for e in self._catalog.entries if isinstance(e, (Table, View)))
        return [self.taken(e) for e in entries if isinstance(e, Table) or e.computed]

    def index(self, version: Version, spec: ir.Arrangement) -> IndexVersion:
        """The index of a view's version, which is built if nobody has asked for it before; of an
        old version it is one of its own, that goes with it."""
        found, entry = version.indexes.get(spec), version.entry
        if found is not None:
            return found
        assert isinstance(entry, View), "views are looked up"
        with self._working():
            latest = self._catalog.find(entry.name) is entry
            if latest and self._rows(entry) is version.rows:
                state = self._dataflow.undo.all_or_nothing(
                    lambda: self._dataflow.index(spec, entry.reader, entry.owner)
                )
                found = IndexVersion(spec, version.rows, state.spine.batches)
        if found is None:
            found = index_of(spec, version.rows, version.rows.visible(version.epoch))
        version.indexes[spec] = found
        return found

    def publish(self) -> None:
        """A step has ended: make those versions anew that it changed; the writer holds the lock. If
        that fails, who reads next makes them."""
        if not self._published:
            return
        try:
            self._make_anew()
        except BaseException:
            self._published = {}
            raise

    def _make_anew(self) -> None:
        self._steps += 1
        if self._steps == IDLE_STEPS:
            self._published = {k: v for k, v in self._published.items() if k in self._read}
            self._read, self._steps = set(), 0
        self._published = {
            key: self._again(version)
            for key, version in self._published.items()
            if self._catalog.find(key) is version.entry
        }

    def clear(self) -> None:
        """Nobody reads any more."""
        self._published = {}

    def _again(self, old: Version) -> Version:
        new = self.taken(old.entry)
        if new.rows is old.rows:
            return replace(new, indexes=old.indexes)
        for spec, index in old.indexes.items():
            assert isinstance(old.entry, View)
            live = self._dataflow.live_index(spec, old.entry.owner)
            if live is not None:
                live.state.spine.looked_up(index.seeks)
                new.indexes[spec] = IndexVersion(spec, new.rows, live.state.spine.batches)
        return new

    def _rows(self, view: View) -> Rows:
        return self._dataflow.relation(view.root, view.owner).version()
