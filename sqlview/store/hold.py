"""The hold: what a reader of a store is going to open stays until it has opened it.

Readers share a lock of `store.json`, which is there as long as the store; whoever deletes needs it
alone, and does without where it is taken. So nobody waits for the other longer than deleting takes.

What other processes are going to open later, as the tasks of a Spark job, is claimed: a file
`reader-…` in the store names the files that they need. It counts for LASTING_SECONDS after it was
made or somebody read by it; then the writer deletes it with what it named. It is made under the
hold, so that all it names is there.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from operators.state.files import PART, Locked, discard, names, read, written

#: As long as a DataFrame may wait for its next job, or a task for its turn.
LASTING_SECONDS = 3600.0
_CLAIM = "reader-"


@contextmanager
def hold(directory: str) -> Iterator[None]:
    """In the block no file of the store goes. Raises: OSError."""
    with _opened(directory) as file:
        file.share()
        yield


@contextmanager
def unheld(directory: str) -> Iterator[bool]:
    """Whether nobody holds the store, and begins to in the block. Raises: OSError."""
    with _opened(directory) as file:
        yield file.take()


@contextmanager
def _opened(directory: str) -> Iterator[Locked]:
    with closing(Locked(os.path.join(directory, "store.json"))) as file:
        yield file


def claim(directory: str, files: Iterable[str]) -> str:
    """Have files of the store kept for a while, whatever its writer does; whoever calls holds the
    store. Returns: the path of the claim, which is renewed by `os.utime`. Raises: OSError."""
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
            if name.endswith(PART) or time.time() - os.stat(path).st_mtime > LASTING_SECONDS:
                discard(path)
                continue
            found.update(json.loads(read(path)))
        except FileNotFoundError:
            pass  # who made it let it go
        except ValueError:  # the machine stopped before it was on disk, and its reader with it
            discard(path)
    return found
