"""A word to those who wait: on a fresh installation the kernels compile when they are imported.

It takes some twenty seconds, once for each machine and version; then they come from numba's cache.
The logger "sqlview" warns when compiling begins, and tells every few seconds how far it is, so
that nobody takes the import for a hang. What comes from the cache is silent.
"""

from __future__ import annotations

import logging
import time

from numba.core import event

_EVERY_SECONDS = 5.0

_LOGGER = logging.getLogger("sqlview")


class _Progress(event.Listener):
    """Told by numba when it begins and ends to compile a function, those that it needs inside."""

    def __init__(self) -> None:
        self._depth = 0
        self._kernels = 0
        self._seconds = 0.0
        self._began = 0.0
        self._told = 0.0

    def on_start(self, event: event.Event) -> None:
        now = time.monotonic()
        if self._depth == 0:
            self._began = now
        self._depth += 1
        if self._told == 0.0:
            self._told = now
            _LOGGER.warning("compiling kernels for this machine, once: some twenty seconds")
        elif now - self._told >= _EVERY_SECONDS:
            self._told = now
            spent = self._seconds + now - self._began
            _LOGGER.warning("compiled %d kernels in %.0f s so far", self._kernels, spent)

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._kernels += 1
            self._seconds += time.monotonic() - self._began


def announce() -> None:
    """Tell of kernels that compile from now on, in this process."""
    event.register("numba:compile", _Progress())  # type: ignore[no-untyped-call]
