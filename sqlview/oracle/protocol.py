"""What an oracle is: another engine that recomputes a view's query over the same tables.

Invariant: an oracle's answer depends on the tables it was given and the text alone. Nothing of the
planner, the operators or the store takes part, so a mistake of theirs cannot hide here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from planner.calculus import types as t


class OracleError(Exception):
    """The oracle was told of changes that its tables cannot take: a fault of the caller."""


class RowError(OracleError):
    """The query has no result now: a row under it cannot be computed (division by zero, a failed
    cast, overflow, a scalar subquery with two rows)."""


class TooLarge(OracleError):
    """The query has more rows than the caller wants."""


class CannotSay(OracleError):
    """This engine does not compute such a query as Spark means it. The message says why."""


class Oracle(Protocol):
    """Base tables and views by name, kept by another engine, and queries over them.

    Names are compared as `planner.names.folded` says. Whatever the engine itself or a library under
    it raises becomes one of the errors above.
    """

    @property
    def engine(self) -> str:
        """The engine's name as people know it."""

    def load(self, name: str, table: pa.Table, key: Sequence[str] = ()) -> None:
        """Create base table `name` with the columns and rows of `table`, instead of one so named.

        `key`: columns that identify a row; `apply` then deletes by them alone.
        """

    def apply(self, name: str, inserts: pa.Table | None, deletes: pa.Table | None) -> None:
        """Take `deletes` out of table `name`, then put `inserts` in.

        A row of `deletes` takes one equal row away; in a table with a key, the row with its key.

        Raises: OracleError if a row to delete is not there; the table is then unchanged.
        """

    def create_view(self, name: str, text: str, schema: t.Schema | None = None) -> None:
        """Let queries read `text` under `name`; `schema`, if given, names its columns."""

    def drop(self, name: str) -> None:
        """Forget a table or view."""

    def query(self, text: str, schema: t.Schema) -> pa.Table:
        """The result of Spark SQL `text` now; its columns have the names of `schema`, by position.

        Rows come in the text's order, if it has one, ties broken by all columns.

        Raises: RowError if a row cannot be computed; CannotSay.
        """

    def close(self) -> None:
        """Release what the oracle keeps."""
