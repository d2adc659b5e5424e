"""The hold: what a reader of a store is going to open stays until it has opened it.

Readers share a lock of `store.json`, which is there as long as the store; whoever deletes needs it
alone, and does without where it is taken. So nobody waits for the other longer than deleting takes.

What other processes are going to open later, as the tasks of a Spark job, is claimed: a file
`reader-…` in the store names the files that they need. It counts for LASTING_SECONDS after it was
made or somebody read by it; then the writer deletes it with what it named. It is made under the
hold, so that all it names is there.

At a URL there are no locks: a hold is an object `hold-…`, put anew while it lasts, and counts for
HOLD_SECONDS. A reader puts it before it looks which checkpoint there is, and a writer looks for
holds when the next checkpoint is there; so either the writer sees the hold, or the reader the new
checkpoint. Both clocks are taken to go alike, but for half that time.
"""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from operators.repeating import repeating
from operators.state import objects
from operators.state.files import (
    PART,
    Locked,
    age_seconds,
    discard,
    names,
    read,
    written,
)
from operators.state.objects import is_url

_log = logging.getLogger(__name__)

#: As long as a DataFrame may wait for its next job, or a task for its turn.
LASTING_SECONDS = 3600.0
_CLAIM = "reader-"
#: What was not renewed for so long is of a reader that was killed.
HOLD_SECONDS = 60.0
_SHOWN_EACH_SECONDS = 15.0
_HOLD = "hold-"


@contextmanager
def hold(directory: str) -> Iterator[None]:
    """In the block no file of the store goes. Raises: OSError."""
    if is_url(directory):
        with _shown(directory):
            yield
        return
    with _opened(directory) as file:
        file.share()
        yield


@contextmanager
def unheld(directory: str) -> Iterator[bool]:
    """Whether nobody holds the store, and begins to in the block (at a URL: with a checkpoint that
    counts no more). Raises: OSError."""
    if is_url(directory):
        yield not _held(directory)
        return
    with _opened(directory) as file:
        yield file.take()


@contextmanager
def _shown(url: str) -> Iterator[None]:
    """Hold a store at a URL."""
    objects.found(f"{url}/store.json")
    path = f"{url}/{_HOLD}{uuid.uuid4().hex}"
    objects.put(path, b"")

    def show() -> None:
        try:
            objects.put(path, b"")
        except OSError:
            _log.warning("that the store is read could not be shown", exc_info=True)

    try:
        with repeating(_SHOWN_EACH_SECONDS, show, "sqlview-hold"):
            yield
    finally:
        discard(path)


def _held(url: str) -> bool:
    """Whether somebody holds a store at a URL; what is left of holds goes."""
    held = False
    for each in objects.listed(url):
        if each.name.startswith(_HOLD):
            if time.time() - each.put_at < HOLD_SECONDS:
                held = True
            else:
                discard(f"{url}/{each.name}")
    return held


@contextmanager
def _opened(directory: str) -> Iterator[Locked]:
    with closing(Locked(os.path.join(directory, "store.json"))) as file:
        yield file


def claim(directory: str, files: Iterable[str]) -> str:
    """Have files of the store kept for a while, whatever its writer does; whoever calls holds the
    store. Returns: the path of the claim, which is renewed by `files.touch`. Raises: OSError."""
    path = os.path.join(directory, f"{_CLAIM}{uuid.uuid4().hex}")
    with written(path) as file:
        file.write(json.dumps(sorted(set(files))).encode())
    return path


def claimed(directory: str) -> set[str]:
    """The files that somebody has claimed; whoever calls has the store alone (`unheld`). Claims
    that count no more are deleted."""
    found: set[str] = set()
    for name in names(directory):
        path = os.path.join(directory, name)
        if not name.startswith(_CLAIM):
            continue
        try:
            if name.endswith(PART) or age_seconds(path) > LASTING_SECONDS:
                discard(path)
                continue
            found.update(json.loads(read(path)))
        except FileNotFoundError:
            pass  # who made it let it go
        except ValueError:  # the machine stopped before it was on disk, and its reader with it
            discard(path)
    return found
