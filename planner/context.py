"""What the planner may ask of the catalog. `sqlview.catalog` implements it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from planner.calculus.types import Schema, SqlType
from planner.dataflow import Index, Stored, Stream

#: The relation of one row whose column is the time that `now()` gives; there once it was set. No
#: text can name it.
CLOCK, CLOCK_COLUMN = "clock()", "now"


@dataclass(frozen=True, slots=True)
class Trait:
    """What is said of a column beside its field. `default`: the expression whose value it has in
    rows that do not say it, as written; None: NULL."""

    comment: str | None = None
    default: str | None = None


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """A table, view or stream as the planner sees it.

    `name` is canonical. `primary_key`: positions of its columns, in the key's order, or None (a
    bag, every view included). `node` is where its rows are stored: a `Source` for a table, the
    view's stored root for a view; or the `Stream`, without a reader. `rows` is the present number
    of rows, an estimate for join order. `defaults`: of its columns, in statements that write.
    """

    name: str
    schema: Schema
    primary_key: tuple[int, ...] | None
    node: Stored | Stream
    rows: int
    is_view: bool
    defaults: tuple[str | None, ...] = ()

    @property
    def is_stream(self) -> bool:
        return isinstance(self.node, Stream)


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of the user: what a plan calls by `id` (operators.scalar.user), and its result's
    type. Its code is the process's alone."""

    name: str
    id: str
    type: SqlType


class CatalogReader(Protocol):
    def function(self, name: str) -> UserFunction | None:
        """The user's function of that name, or None."""

    def relation(self, name: str) -> RelationInfo | None:
        """The table or view of that name (case-insensitive, as in Spark), or None."""

    def source(self, id: str) -> RelationInfo | None:
        """The table that is a `Source` of this id, or None."""

    def names(self) -> tuple[str, ...]:
        """All canonical names, for suggestions in error messages."""

    def live_indexes(self) -> frozenset[Index]:
        """Indexes that views read now: a plan prefers them where it has a choice."""
