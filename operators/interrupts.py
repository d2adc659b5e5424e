"""Ctrl-C at places where it does no harm.

Python raises KeyboardInterrupt between any two instructions of the main thread, those included
between which an index is half built. While `held`, a first Ctrl-C is kept until `raise_pending` is
called, between operators, or else until the end; where there is nothing but waiting, it is
`let_through`.
"""

from __future__ import annotations

# What the module signal wraps, which spends 20 µs a step on its enumerations.
import _signal  # type: ignore[import-not-found]
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol, TypeAlias

#: How long a Ctrl-C may wait for who waits for a lock.
_LOOK_SECONDS = 0.1


_Handler: TypeAlias = Callable[[int, "FrameType | None"], Any]


class _Lock(Protocol):
    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...


class _State:
    """`handler`: what Ctrl-C does outside, while it is held; `pending`: whether one came."""

    handler: _Handler | None = None
    pending = False


def _keep(number: int, frame: FrameType | None) -> None:
    _State.pending = True


class held:
    """Keep Ctrl-C until the end of the block. Other threads never get one."""

    __slots__ = ("_before", "_handler")

    def __enter__(self) -> None:
        handler = _signal.getsignal(_signal.SIGINT) if _is_main() else None
        if not callable(handler) or handler is _keep:
            self._handler = None
            return
        self._handler = handler
        self._before = _State.handler  # of a block outside of one that lets it through
        _State.handler, _State.pending = handler, False
        _signal.signal(_signal.SIGINT, _keep)

    def __exit__(self, *raised: object) -> None:
        handler = self._handler
        if handler is None:
            return
        _signal.signal(_signal.SIGINT, handler)
        _State.handler = self._before
        if _State.pending:
            _State.pending = False
            handler(_signal.SIGINT, None)


@contextmanager
def let_through(first: Callable[[], object] | None = None) -> Iterator[None]:
    """Let Ctrl-C do what it does outside, in a block that changes nothing. `first`: done before,
    by a Ctrl-C, whether it is held or not."""
    handler = _State.handler
    outside = _signal.getsignal(_signal.SIGINT) if handler is None and first else handler
    if not callable(outside) or outside is _keep or not _is_main():
        yield
        return
    raise_pending()
    before = _signal.signal(_signal.SIGINT, outside if first is None else _both(first, outside))
    try:
        yield
    finally:
        _signal.signal(_signal.SIGINT, before)


@contextmanager
def kept() -> Iterator[None]:
    """Within `held`: keep Ctrl-C to the end of the block also where `raise_pending` is called."""
    if not _is_main():
        yield
        return
    handler, _State.handler = _State.handler, None
    try:
        yield
    finally:
        _State.handler = handler


def acquire(lock: _Lock) -> None:
    """Within `held`: acquire a lock, unless Ctrl-C comes before. Whoever waits for a lock may wait
    for long."""
    while not lock.acquire(timeout=_LOOK_SECONDS):
        raise_pending()


def is_pending() -> bool:
    """Whether `raise_pending` would raise."""
    return _State.pending and _State.handler is not None and _is_main()


def raise_pending() -> None:
    """If there was a Ctrl-C, let it do now what it does outside: raise KeyboardInterrupt."""
    if is_pending():
        assert _State.handler is not None
        _State.pending = False
        _State.handler(_signal.SIGINT, None)


def _both(first: Callable[[], object], handler: _Handler) -> _Handler:
    def handle(number: int, frame: FrameType | None) -> None:
        try:
            first()
        finally:
            handler(number, frame)

    return handle


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
