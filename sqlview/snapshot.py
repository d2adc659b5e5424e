"""Snapshots: all tables and views at one epoch, for as long as somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.errors import CatalogError, SqlViewError, suggestion
from planner.names import folded
from sqlview.arguments import check_text
from sqlview.catalog import Table, View
from sqlview.reader import Reader, ViewRows
from sqlview.versions import Version
from sqlview.view import Given, Result, ViewReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Snapshot:
    """See `Session.snapshot`. Any thread may read it."""

    def __init__(
        self,
        epoch: int,
        versions: Sequence[Version],
        lazy: Sequence[str],
        reader: Reader,
        dataframe: Callable[[pa.Table], DataFrame],
        check: Callable[[], None],
    ) -> None:
        """`lazy`: views that were not computed; `check`: raises if the session is closed."""
        self._epoch = epoch
        self._versions: dict[str, Version] | None = {folded(v.entry.name): v for v in versions}
        self._lazy = frozenset(map(folded, lazy))
        self._reader = reader
        self._dataframe = dataframe
        self._check = check

    @property
    def epoch(self) -> int:
        """All transactions up to it are in everything that is read here, and none after it."""
        return self._epoch

    def view(self, name: str) -> ViewReader:
        """The view as of the epoch. Raises: CatalogError if there was none; TypeError."""
        check_text("name", name)
        version = self._version(name, View)
        rows = ViewRows(lambda: self._version(name, View), self._reader, self._dataframe)
        return ViewReader(version.entry.name, rows)

    def table(self, name: str) -> Result:
        """The rows of a table as of the epoch, read now. Raises: as `view`."""
        check_text("name", name)
        rows = self._reader.shown(self._reader.rows(self._version(name, Table)))
        return Result(Given(rows, self._dataframe))

    def close(self) -> None:
        """Let go what was kept for it; it cannot be read from then on."""
        self._versions = None

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _version(self, name: str, kind: type[View | Table]) -> Version:
        self._check()
        versions = self._versions
        if versions is None:
            raise SqlViewError(
                "the snapshot is closed", hint="Take another one with Session.snapshot()."
            )
        if kind is View and folded(name) in self._lazy:
            raise CatalogError(
                f'view "{name}" is lazy, and was not computed at epoch {self._epoch}',
                hint=f"Read it before the snapshot is taken: db.view({name!r}).",
            )
        found = versions.get(folded(name))
        if found is None or not isinstance(found.entry, kind):
            what = "materialized view" if kind is View else "table"
            known = [v.entry.name for v in versions.values() if isinstance(v.entry, kind)]
            raise CatalogError(
                f'there is no {what} "{name}" at epoch {self._epoch}',
                hint=suggestion(name, known),
            )
        return found
