"""Comparing what lies in the files of a checkpoint with its checksums, while a session uses it.

Opening a store maps values, and reads few of them. Behind it a thread reads them all, at leisure,
and says which file is damaged; from then on the session refuses to be used. What it committed by
then is right, since its log has changes, not states; a checkpoint would not be, so none is written
before all that it rests on was compared.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from planner.errors import StoreError
from sqlview.store.checkpoints import Checkpoint, compared

#: For each second of work so many of rest; seconds before it begins, which the first steps have.
_REST, _BEFORE_SECONDS = 3.0, 1.0


class Verification:
    """Compares the values of a checkpoint that was read, and not yet loaded."""

    def __init__(self, found: Checkpoint) -> None:
        self._directory = os.path.dirname(found.path)
        self._pieces = compared(found)
        #: Called with what is wrong, once.
        self.failed: Callable[[StoreError], None] | None = None
        self._lock = threading.Lock()
        self._error: StoreError | None = None
        #: Whether all is compared, and as it was written.
        self.is_done = False

    def finish(self) -> None:
        """Compare what is left. Raises: StoreError if something is damaged."""
        while self._advance():
            pass

    def run(self, stop: threading.Event) -> None:
        """Compare one piece after the other, mostly at rest."""
        rest = _BEFORE_SECONDS
        while not stop.wait(rest):
            began = time.thread_time()
            try:
                if not self._advance():
                    return
            except StoreError:
                return  # whom it concerns was told
            rest = _REST * (time.thread_time() - began)

    def _advance(self) -> bool:
        """Compare a piece; whether there are more. Raises: StoreError."""
        with self._lock:
            if self._error is None and not self.is_done:
                try:
                    found = next(self._pieces)
                except StopIteration:
                    self.is_done = True
                else:
                    self._error = None if found is None else self._refusal(*found)
                if self._error is not None and self.failed is not None:
                    self.failed(self._error)
            if self._error is not None:
                raise self._error
            return not self.is_done

    def _refusal(self, name: str, detail: str) -> StoreError:
        return StoreError(
            f'the file "{os.path.join(self._directory, name)}" is damaged',
            detail=f"{detail} What was committed is in the log.",
            hint="Close the session and call python -m sqlview repair, or restore the store from "
            "a backup.",
        )
