"""Single failures, for processes that try one after the other."""

from __future__ import annotations

import logging
import tempfile
from functools import cache
from pathlib import Path

from tests.store.kills import killed
from tests.store.life import run, states

_states = cache(states)


def quiet() -> None:
    """Failures are what is asked for."""
    logging.disable()


def call(mode: str, at: int) -> tuple[bool, str | None]:
    """Whether a life has so many calls; what is not right after that one failed."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            return run(Path(directory), mode, at, _states()), None
        except AssertionError as error:
            return True, str(error)


def kill(seed: int) -> str | None:
    """What is not right after writers were killed."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            killed(Path(directory), seed)
        except AssertionError as error:
            return f"kill -9 with seed {seed}: {error}"
    return None
