"""Commits: transactions that several threads commit at a time share a step, and its fsync.

Who commits puts its transactions down, and goes for the session. Who gets it takes what was put
down by then, in order, through one step: each transaction at an epoch of its own, all of them in
one record of the log. While that is being written others put theirs down. So nothing is visible
that is not on disk, and the more threads wait for a disk, the fewer times it is waited for.

A step that fails is taken back; if it was of several commits each is then tried alone, so that one
is refused for its own sake only.

Invariant: when `run` returns, the transactions are committed; when it raises, none of them is, but
for SubscriberError and what is no Exception, where their epochs say what happened.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from operators import interrupts
from planner.errors import DataError, SubscriberError
from sqlview.catalog import Catalog
from sqlview.positions import Positions
from sqlview.subscriptions import Subscriptions
from sqlview.transaction import Transaction, Transactions
from sqlview.writer import Dated, Writer

_log = logging.getLogger(__name__)

#: Commits of more rows than these together do not share a step: they gain nothing by it.
MOST_ROWS = 10_000
#: How long who waits may fail to see that it is its turn, or that Ctrl-C came.
_LOOK_SECONDS = 0.1

#: What is committed at once: some in turn, or many as columns.
Some: TypeAlias = "Sequence[Transaction] | Transactions"


class SessionLock(Protocol):
    """Reentrant."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...

    def release(self) -> None: ...


class RunStep(Protocol):
    def __call__(
        self, statements: list[Dated], count: int, placement: str | None, positions: Positions
    ) -> None:
        """See Writer.step."""


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(slots=True, eq=False)
class _Commit:
    """`epochs`: of the transactions, as far as they have been committed. `error`: what the commit
    raises. `over`: whether it need not be waited for; `woken` is released then."""

    some: Some
    placement: str | None
    epochs: Sequence[int] = ()
    error: BaseException | None = None
    over: bool = False
    woken: threading.Lock = field(default_factory=_held_lock)

    @property
    def each(self) -> Sequence[Transaction | Transactions]:
        return [self.some] if isinstance(self.some, Transactions) else self.some

    @property
    def rows(self) -> int:
        return sum(s.rows for tx in self.each for s in tx.statements)

    def dated(self, last: int, positions: Positions) -> tuple[Sequence[int], list[Dated], int]:
        """The epochs after `last`, the statements, each with its own, and the last epoch then;
        `positions` are moved. Transactions that were committed before have the epochs at which
        that was.

        Raises: DataError where sources do not follow on.
        """
        if isinstance(self.some, Transactions):
            return _dated_columns(self.some, last, positions)
        epochs: list[int] = []
        statements: list[Dated] = []
        for tx in self.some:
            before = positions.take(tx.moves, last + 1)
            if before is None:
                last += 1
                statements += [(s, last) for s in tx.statements]
            epochs.append(last if before is None else before)
        return epochs, statements, last

    def settle(self) -> None:
        """They are committed, at `epochs`."""
        if isinstance(self.some, Transactions):
            assert isinstance(self.epochs, range)
            self.some._settle(self.epochs)
            return
        for tx, epoch in zip(self.some, self.epochs, strict=True):
            tx._settle(epoch)


def _dated_columns(
    some: Transactions, last: int, positions: Positions
) -> tuple[range, list[Dated], int]:
    first, count = last + 1, some.count
    if some.moves:
        count = max(count, 1)
    before = positions.take(some.moves, last + count)
    if before is not None:
        return range(before + 1 - count, before + 1), [], last
    dated: list[Dated] = [(s, first + s.times) for s in some.statements if s.times is not None]
    return range(first, first + count), dated, last + count


class Commits:
    """The commits of a session."""

    def __init__(
        self,
        lock: SessionLock,
        check: Callable[[], None],
        catalog: Catalog,
        writer: Writer,
        subscriptions: Subscriptions,
        run_step: RunStep,
    ) -> None:
        """`lock`: held by who uses the session; `check`: raises if that cannot be used."""
        self._lock = lock
        self._check = check
        self._catalog = catalog
        self._writer = writer
        self._subscriptions = subscriptions
        self._run_step = run_step
        self._waiting: deque[_Commit] = deque()
        #: Held by one of those that wait: it takes the commits of all when the session is free.
        self._next = threading.Lock()
        self._leading = False

    def run(self, some: Some, placement: str | None) -> Sequence[int]:
        """Commit transactions; their epochs. Raises: as Session.apply."""
        commit = _Commit(some, placement)
        with interrupts.held():
            self._claim(commit)
            try:
                self._waiting.append(commit)
                while not commit.over:
                    try:
                        if self._lock.acquire(blocking=False):
                            try:
                                self._lead(commit)
                            finally:
                                self._lock.release()
                        else:
                            self._wait(commit)
                    except BaseException:
                        try:
                            self._waiting.remove(commit)
                        except ValueError:
                            continue  # who has taken it commits it, or has
                        raise
                error, commit.error = commit.error, None
                try:
                    if error is not None:
                        raise error
                finally:
                    del error  # whose traceback knows these variables
                return commit.epochs
            except BaseException:
                for tx in commit.each:
                    tx._release()
                raise

    def run_within(self, tx: Transaction) -> None:
        """Commit a transaction as a part of work that is going on; subscribers are not told yet.
        Raises: as `run`."""
        commit = _Commit([tx], None)
        self._claim(commit)
        try:
            self._together([commit])
        except BaseException:
            tx._release()
            raise

    def _claim(self, commit: _Commit) -> None:
        """Let nothing be added to the transactions, or none of them be claimed."""
        each = commit.each
        if len(set(map(id, each))) < len(each):
            raise DataError(
                "a transaction is given twice",
                hint="Begin one for each epoch; none of them was applied.",
            )
        claimed: list[Transaction | Transactions] = []
        try:
            for tx in each:
                tx._claim(self._catalog)
                claimed.append(tx)
        except BaseException:
            for tx in claimed:
                tx._release()
            raise

    def _wait(self, commit: _Commit) -> None:
        """Wait until the commit is over, or the session is free, or a while."""
        if self._next.acquire(blocking=False):
            try:
                free = self._lock.acquire(timeout=_LOOK_SECONDS)
            finally:
                # Before others are taken: whoever has not got it has put its own down before.
                self._next.release()
            if free:
                try:
                    if not commit.over:
                        self._lead(commit)
                finally:
                    self._lock.release()
        else:
            commit.woken.acquire(timeout=_LOOK_SECONDS)
        if interrupts.is_pending() and not commit.over:
            try:
                self._waiting.remove(commit)
            except ValueError:
                return  # it is being committed
            try:
                interrupts.raise_pending()
            except BaseException as error:
                commit.error = error
            commit.over = True

    def _lead(self, mine: _Commit) -> None:
        """Commit what waits; whoever calls holds the session. A subscriber that commits does so for
        itself alone: others return when all have heard of theirs."""
        if mine.over:
            return
        nested, self._leading = self._leading, True
        taken: list[_Commit] = []
        try:
            if nested:
                taken.append(mine)
                self._waiting.remove(mine)
            while self._waiting and not nested:
                taken.append(self._waiting[0])  # before: nobody else knows of it
                self._waiting.popleft()
            self._check()
            for group in _groups(taken) if len(taken) > 1 else [taken]:
                self._try(group, mine)
            self._tell(taken, mine)
        except BaseException as error:
            for commit in taken:
                if not commit.epochs and commit.error is None:
                    commit.error = error
        finally:
            self._leading = nested
            for commit in taken:
                commit.over = True
                commit.woken.release()

    def _try(self, group: list[_Commit], mine: _Commit) -> None:
        """Commit a group, or each of it alone; Ctrl-C is for the commit of this thread."""
        with nullcontext() if group == [mine] else interrupts.kept():
            try:
                self._together(group)
                return
            except BaseException as error:
                if len(group) == 1:
                    group[0].error = error
                    return
        for commit in group:
            self._try([commit], mine)

    def _together(self, group: list[_Commit]) -> None:
        """Commit a group in one step. Raises: with nothing done."""
        first = last = self._writer.epoch
        positions = self._writer.positions.copy()
        statements: list[Dated] = []
        found: list[Sequence[int]] = []
        for commit in group:
            epochs, dated, last = commit.dated(last, positions)
            found.append(epochs)
            statements += dated
        try:
            if last > first:
                self._run_step(statements, last - first, group[0].placement, positions)
        finally:
            if self._writer.epoch == last:
                for commit, epochs in zip(group, found, strict=True):
                    commit.epochs = epochs
                    try:
                        commit.settle()
                    except Exception:
                        _log.warning("a transaction does not say its epoch", exc_info=True)

    def _tell(self, taken: list[_Commit], mine: _Commit) -> None:
        """Tell subscribers. Who fails fails all commits that it was told of."""
        try:
            self._subscriptions.tell()
        except SubscriberError as error:
            for commit in taken:
                commit.error = commit.error or error
        except Exception:
            _log.warning("subscribers are told with the next step", exc_info=True)
        except BaseException as error:
            mine.error = mine.error or error


def _groups(commits: Iterable[_Commit]) -> Iterator[list[_Commit]]:
    """What shares a step: neighbours of few rows that are placed alike."""
    group: list[_Commit] = []
    rows = 0
    for commit in commits:
        rows += commit.rows
        if group and (rows > MOST_ROWS or commit.placement != group[0].placement):
            yield group
            group, rows = [], commit.rows
        group.append(commit)
    if group:
        yield group
