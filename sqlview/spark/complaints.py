"""What Spark says of a SELECT, in the form of this project's errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger

from planner.errors import BindError, CatalogError, SqlSyntaxError, SqlViewError
from planner.names import folded

_PLACE = re.compile(r"\bline (\d+),? pos (\d+)")


@contextmanager
def translated(text: str, names: Iterable[str], streams: Iterable[str]) -> Iterator[None]:
    """Give Spark's complaints about `text` the form of ours; Spark saw it one line further down."""
    # Spark also logs them as JSON with a stack trace. It must make the logger itself: one made by
    # logging.getLogger takes no keywords.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    except AnalysisException as error:
        raise _translation(error, text, names, streams) from None
    finally:
        logger.disabled = disabled


def _translation(
    error: AnalysisException, text: str, names: Iterable[str], streams: Iterable[str]
) -> SqlViewError:
    line, column = _place(str(error), text)
    parameters = error.getMessageParameters() or {}
    if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
        name = parameters.get("relationName", "").replace("`", "")
        if folded(name) in map(folded, streams):
            return CatalogError(
                f'stream "{name}" has no rows to read',
                detail="A stream keeps none of its events.",
                hint="Create a materialized view over it, and read that.",
                line=line,
                column=column,
            )
        known = ", ".join(f'"{n}"' for n in sorted(names))
        return CatalogError(
            f'table or view "{name}" does not exist',
            detail=f"Here are {known}; Spark has none of that name either." if known else None,
            line=line,
            column=column,
        )
    if isinstance(error, ParseException) and _past_end(str(error), text):
        return SqlSyntaxError("syntax error at end of input")
    said = re.sub(r"^\s*\[[\w.]+\]\s*", "", error.getMessage() or str(error))
    said = " ".join(re.split(r"\s*SQLSTATE:", said)[0].split())
    message, _, detail = said.partition(". ")
    kind = SqlSyntaxError if isinstance(error, ParseException) else BindError
    return kind(
        (message[:1].lower() + message[1:]).rstrip("."),
        detail=detail or None,
        line=line,
        column=column,
    )


def _place(said: str, text: str) -> tuple[int | None, int | None]:
    found = _PLACE.search(said)
    if found is None or not 0 < int(found[1]) - 1 <= text.count("\n") + 1:
        return None, None
    return int(found[1]) - 1, int(found[2]) + 1


def _past_end(said: str, text: str) -> bool:
    found = _PLACE.search(said)
    return found is not None and int(found[1]) - 1 > text.count("\n") + 1
