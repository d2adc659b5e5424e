"""The lease: who writes a store.

The file `lease` is locked by the writer for as long as its process lives, and says who that is.
Each writer has a number, one more than the one before. Whoever finds, before it writes, that the
file is another one or says another number, has lost the store and writes nothing.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
from typing import Any

from operators.state.files import Locked
from planner.errors import StoreError


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
            holder = {
                "number": self.number,
                "process": os.getpid(),
                "host": socket.gethostname(),
                "since": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            }
            self._text = json.dumps(holder).encode()
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


def _said(file: Locked) -> dict[str, Any]:
    """Who the file says has it; nothing where it says nothing."""
    try:
        holder = json.loads(file.read(1 << 12))
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
