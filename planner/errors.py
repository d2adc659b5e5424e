"""Errors a user can cause, in PostgreSQL's form: one primary line, then Detail and Hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Longer names are nobody's misspelling, and comparing them takes long.
_LONGEST_NAME = 100


class SqlViewError(Exception):
    """Base of every error that this library raises on purpose.

    Fields: `message` (lower case, no full stop), `detail` and `hint` (sentences, or None), `line`
    and `column` (1-based place in the SQL text, or None).
    `str(error)` is what a user reads.
    """

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.message = message
        self.detail = detail
        self.hint = hint
        self.line = line
        self.column = column
        super().__init__(str(self))

    def __str__(self) -> str:
        place = f" (line {self.line}, column {self.column})" if self.line is not None else ""
        lines = [self.message + place]
        if self.detail:
            lines.append(f"Detail: {self.detail}")
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        return "\n".join(lines)


class SqlSyntaxError(SqlViewError):
    """The text does not parse, or the parser would misread it."""


class BindError(SqlViewError):
    """A name, a type or a call in the text does not fit the catalog."""


class UnsupportedError(SqlViewError):
    """Valid SQL that cannot be maintained."""


class ClockError(UnsupportedError):
    """The text asks for the time before the clock of the session is set."""


class CatalogError(SqlViewError):
    """A table, view or index that does not exist, exists already, or is in use."""


class DataError(SqlViewError):
    """A batch of changes that a table cannot take; nothing of it was applied."""


class ViewError(SqlViewError):
    """The view is in error: a row under it cannot be computed until it leaves."""


class SubscriberError(SqlViewError):
    """A subscriber's callback raised; the change that it was told of is committed."""


class FormatError(SqlViewError):
    """A text that is no plan, or one of another version of this library: see planner.serialise."""


class MemoryLimitError(SqlViewError):
    """A step, or a view's first rows, that would take more memory than the session may."""


class StoreError(SqlViewError):
    """A directory that is no store, is in use, or is damaged; or state that could not be kept."""


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """A hint that names the nearest known name, if one is near."""
    if len(name) > _LONGEST_NAME:
        return None
    spelled = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.6)
    return f'Did you mean "{spelled[near[0]]}"?' if near else None


class FunctionError(SqlViewError):
    """A function of the user is not known to the process that is to call it."""
