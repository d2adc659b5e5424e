"""The lease: who writes a store.

The file `lease` is locked by the writer for as long as its process lives, and says who that is.
Each writer has a number, one more than the one before. Whoever finds, before it writes, that the
file is another one or says another number, has lost the store and writes nothing.

At a URL there are no locks: who writes is whoever has put the last link of the chain (`chain`), and
the object `lease` only says who that is, and is put anew while it lives (`Shown`).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from operators.state import objects
from operators.state.files import Locked
from planner.errors import StoreError
from sqlview.store.chain import writer_of

_log = logging.getLogger(__name__)

#: A writer at a URL that has not shown itself for so long is taken for gone: whoever opens the
#: store then takes it over, and it writes nothing more.
LASTING_SECONDS = 30.0
_SHOWN_EACH_SECONDS = 7.5


class Lease:
    """The right to write the store in `directory`.

    Raises: StoreError if another session has it; OSError.
    """

    def __init__(self, directory: str) -> None:
        self._file = Locked(os.path.join(directory, "lease"), make=True)
        try:
            if not self._file.take():
                raise _in_use(directory, _said(self._file))
            self.number = int(_said(self._file).get("number", 0)) + 1
            self._text = json.dumps(writer_of(self.number)).encode()
            self._file.write(self._text)
        except BaseException:
            self._file.close()
            raise

    def check(self) -> None:
        """Raises: StoreError if the store is not this writer's any more."""
        try:
            if self._file.is_there() and self._file.read(len(self._text) + 1) == self._text:
                return
            detail = "Another writer has taken it over, or its directory was replaced."
        except FileNotFoundError:
            detail = "Its directory was removed."
        raise StoreError(
            "the store is not this session's any more",
            detail=detail,
            hint="Close the session; nothing of the change was written.",
        )

    def close(self) -> None:
        """Give it back."""
        self._file.close()


class Shown:
    """Who writes the store at a URL, as others see it: an object that is put anew now and then.

    Raises: StoreError if another session shows that it has it; OSError.
    """

    def __init__(self, url: str) -> None:
        self._url, self._path = url, f"{url}/lease"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_shown = False
        holder = self._holder()
        if holder and self._lives(holder):
            raise _in_use(url, holder)
        #: What this writer says of itself.
        self.writer = writer_of(int(holder.get("number", 0)) + 1)

    def begin(self, lost: Callable[[Mapping[str, Any]], None]) -> None:
        """Show it, from now on; `lost` is called if somebody else does. Raises: OSError."""
        self._is_shown = True  # even if the next line fails: the object may be there
        objects.put(self._path, json.dumps(self.writer).encode())

        def show() -> None:
            while not self._stop.wait(_SHOWN_EACH_SECONDS):
                try:
                    holder = self._holder()
                    if holder.get("id", self.writer["id"]) != self.writer["id"]:
                        lost(holder)
                        return
                    objects.put(self._path, json.dumps(self.writer).encode())
                except OSError:
                    _log.warning("who writes the store could not be shown", exc_info=True)

        self._thread = threading.Thread(target=show, name="sqlview-lease", daemon=True)
        self._thread.start()

    def refused(self) -> StoreError:
        """What says that somebody else was faster."""
        return _in_use(self._url, self._holder())

    def check(self) -> None:
        """Whether the store is still this writer's is seen when a link is put."""

    def close(self) -> None:
        """Give it back."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if not self._is_shown:
            return
        try:
            if self._holder().get("id") == self.writer["id"]:
                objects.remove(self._path)
        except OSError:
            _log.warning("that the store is free could not be shown", exc_info=True)

    def _holder(self) -> dict[str, Any]:
        try:
            return _holder_in(objects.read(self._path))
        except FileNotFoundError:
            return {}

    def _lives(self, holder: Mapping[str, Any]) -> bool:
        if holder.get("host") == socket.gethostname()[:100] and not _runs(holder.get("process")):
            return False
        try:
            return time.time() - objects.found(self._path).put_at < LASTING_SECONDS
        except FileNotFoundError:
            return False


def _runs(process: object) -> bool:
    """Whether there is such a process on this machine."""
    try:
        os.kill(int(str(process)), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError):
        pass
    return True


def _said(file: Locked) -> dict[str, Any]:
    """Who the file says has it; nothing where it says nothing."""
    return _holder_in(file.read(1 << 12))


def _holder_in(text: bytes) -> dict[str, Any]:
    try:
        holder = json.loads(text)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _in_use(directory: str, holder: dict[str, Any]) -> StoreError:
    who = f"process {holder.get('process', '?')} on {holder.get('host', '?')}"
    return StoreError(
        f'the store "{directory}" is in use',
        detail=f"It is written by {who}, since {holder.get('since', 'an unknown time')}.",
        hint="Close that session, or open the store with read_only=True.",
    )
