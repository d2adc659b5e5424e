"""Hashes of a few bits, so that keys collide: nothing that anybody sees may depend on it.

`python -m pytest --hash-bits N …` runs any tests with hashes of N bits, from 0, where all that is
hashed collides, upwards; texts of any length and rows of any width are hashed then. At the end it
says how often values were told apart, which in this process has to be more than never.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from operators.state import equality, hashing


@contextmanager
def colliding(bits: int) -> Iterator[Counter[str]]:
    """Stores that are opened meanwhile hash to so many bits, in their Spark tasks too. Counts how
    often keys that collide were found, by the module that had them compared."""
    found: Counter[str] = Counter()

    def counted(name: str) -> Any:
        compare: Callable[..., Any] = getattr(equality, name)

        def spy(*args: Any) -> Any:
            result = compare(*args)
            if result is not None:
                frame = sys._getframe(1)
                while frame.f_code.co_filename == equality.__file__ and frame.f_back is not None:
                    frame = frame.f_back
                found[frame.f_globals["__name__"]] += 1
            return result

        return mock.patch.object(equality, name, spy)

    with (
        mock.patch.multiple(hashing, HASH_BITS=bits, EXACT_BYTES=0, EXACT_WORDS=0),
        counted("told_apart"),
        counted("differing"),
    ):
        yield found
