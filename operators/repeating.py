"""Something that is done again and again beside a block."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)


@contextmanager
def repeating(seconds: float, work: Callable[[], None], name: str) -> Iterator[None]:
    """Within the block do `work` each so many seconds, in a thread of this name; no more once the
    block is over. If it raises, that is logged, and it is done again the next time."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            try:
                work()
            except Exception:
                _log.warning("%s failed", name, exc_info=True)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
