"""Arguments of public calls, checked where they come in.

A wrong kind of argument is the program's mistake: TypeError, or ValueError for a value of the right
kind, each naming the parameter, before anything is done. What depends on data or on the catalog is
a SqlViewError, elsewhere.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Sequence
from typing import Any, SupportsIndex

from operators.state.objects import is_url

#: No table has more, and Spark's LIMIT takes no greater number.
MOST_ROWS = 2**31 - 1
PLACEMENTS = ("auto", "inline", "spark")
#: Less than Python and its libraries take.
LEAST_MEMORY = 256 << 20


def kind_of(value: object) -> str:
    """The value's type as one writes it, and nothing that the value itself says."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else _full_name(kind)


def check_text(name: str, value: object) -> None:
    """Raises: TypeError unless it is a str."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not {kind_of(value)}")


def check_flag(name: str, value: object, *, optional: bool = False) -> None:
    """Raises: TypeError unless it is True or False (or None, if `optional`)."""
    if not isinstance(value, bool) and not (optional and value is None):
        raise TypeError(f"{name} is True or False, not {kind_of(value)}")


def checked_count(name: str, value: Any) -> int:
    """A number of rows, MOST_ROWS at the most.

    Raises: TypeError unless it is an integer, ValueError if it is less than 0.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} is a number of rows, not {kind_of(value)}")
    try:
        count = operator.index(value)
    except TypeError:  # an array of more than one number, say
        raise TypeError(f"{name} is a number of rows, not {kind_of(value)}") from None
    if count < 0:
        raise ValueError(f"{name} is the number of rows to read, not {count}")
    return min(count, MOST_ROWS)


_UNITS = {"": 1, "B": 1} | {
    unit: base**power
    for power, letter in enumerate("KMGT", 1)
    for unit, base in ((f"{letter}B", 1000), (f"{letter}IB", 1024), (letter, 1024))
}


def checked_bytes(name: str, value: Any) -> int | None:
    """A number of bytes, as one or as "4GiB", "500 MB" …; None for None.

    Raises: TypeError and ValueError for anything else.
    """
    if value is None:
        return None
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        if found is None or found[2].upper() not in _UNITS:
            raise ValueError(f'{name} is a number of bytes, as "4GiB" or "500MB", not {value!r}')
        value = int(float(found[1]) * _UNITS[found[2].upper()])
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f'{name} is a number of bytes, or a text as "4GiB", not {kind_of(value)}')
    if value < LEAST_MEMORY:
        raise ValueError(f"{name} is at least {LEAST_MEMORY:,} bytes, not {value:,}")
    return value


def check_callable(name: str, value: object) -> None:
    """Raises: TypeError unless it can be called."""
    if not callable(value):
        raise TypeError(f"{name} is a function, not {kind_of(value)}")


def check_word(name: str, value: object, words: Sequence[str], *, optional: bool = True) -> None:
    """Raises: ValueError for a str that is none of the words, TypeError for anything else (but
    None, if `optional`)."""
    if value is None and optional:
        return
    check_text(name, value)
    if value not in words:
        listed = ", ".join(words) + (" or None" if optional else "")
        raise ValueError(f"{name} is one of {listed}, not {value!r}")


def check_placement(value: object, *, optional: bool = True) -> None:
    """Raises: as check_word."""
    check_word("placement", value, PLACEMENTS, optional=optional)


def checked_path(value: object) -> str | None:
    """A directory as text. Raises: TypeError unless it is a str or PathLike (or None), ValueError
    for one that no directory can have."""
    if is_spark_session(value):
        raise TypeError("path is a directory; give a Spark session by name: connect(spark=...)")
    return _checked_directory("path", value)


def _checked_directory(name: str, value: object) -> str | None:
    if value is None:
        return None
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise TypeError(f"{name} is a directory as str or PathLike, not {kind_of(value)}")
    if not path or "\0" in path:
        raise ValueError(f"{name} is the name of a directory, not {path!r}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ValueError(f"{name} is the name of a directory, not {path!r}") from None
    return path


def checked_cache(value: object, path: str | None) -> str | None:
    """The cache of a store in `path`. Raises: as checked_path; ValueError for a store that is not
    at a URL."""
    cache = _checked_directory("cache", value)
    if cache is not None and (path is None or not is_url(path)):
        raise ValueError("cache is for a store at a URL, as s3://bucket/path")
    return cache


def check_spark(value: object) -> None:
    """Raises: TypeError unless it is a SparkSession, classic or Connect (or None)."""
    if value is not None and not is_spark_session(value):
        raise TypeError(f"spark is a SparkSession, not {kind_of(value)}")


def is_spark_session(value: object) -> bool:
    """Whether this is a SparkSession, classic or Connect; pyspark is not imported for it."""
    return any(
        k.__name__ == "SparkSession" and k.__module__.startswith("pyspark.sql.")
        for k in type(value).__mro__
    )


def checked_sequence(name: str, value: Any, kind: type, hint: str) -> Sequence[Any]:
    """The items of an iterable, each a `kind`.

    Raises: TypeError naming the first that is not, and what iterating raises.
    """
    try:
        iterator = iter(value)
    except TypeError:
        raise TypeError(
            f"{name} is a list of {kind.__name__}s, not {kind_of(value)}{hint}"
        ) from None
    items = list(iterator)
    for i, item in enumerate(items):
        if not isinstance(item, kind):
            raise TypeError(f"{name}[{i}] is to be a {kind.__name__}, not {kind_of(item)}{hint}")
    return items


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
