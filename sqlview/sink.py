"""Spark streams as sources: what `writeStream.foreachBatch` calls.

A stream's batches are numbered in its checkpoint, which has an identity. Both are committed with
the batch's rows, so that a batch that Spark sends again, after a crash of either, counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.errors import DataError

if TYPE_CHECKING:
    from sqlview.session import Session

#: How a batch's rows change the table.
MODES = ("insert", "upsert", "changes")
#: In mode "changes": which column says what a row is, and which in what order they came.
CHANGE, VERSION = "_change_type", "_commit_version"
_GOES, _COMES = ("delete", "update_preimage"), ("insert", "update_postimage")
_QUERY = "sql.streaming.queryId"


class Sink:
    """See Session.sink."""

    def __init__(self, session: Session, table: str, mode: str, keyed: bool) -> None:
        self._session = session
        self._table = table
        self._mode = mode
        self._keyed = keyed

    def __call__(self, batch: Any, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty(_QUERY)
        if query is None:
            raise DataError(
                "a sink is called by a streaming query alone",
                hint="Give it to writeStream.foreachBatch.",
            )
        source = f"Spark stream {query}"
        at = self._session.position(source)
        if at is not None and at >= number:
            return  # the rows need not be computed again
        with self._session.transaction() as tx:
            tx.source(source, number, after=number - 1)
            if self._mode == "changes":
                self._change(tx, batch)
            elif self._mode == "upsert":
                tx.upsert(self._table, self._rows(batch))  # of a key the last one
            else:
                tx.insert(self._table, batch)

    def _change(self, tx: Any, batch: Any) -> None:
        """Version by version, what goes before what comes."""
        versions: list[Any] = [None]
        if VERSION in batch.columns:
            versions = sorted(row[0] for row in batch.select(VERSION).distinct().collect())
        rows = batch.drop(CHANGE, VERSION, "_commit_timestamp")
        for version in versions:
            of_version = batch if version is None else batch.where(batch[VERSION] == version)
            for kinds, change in ((_GOES, tx.delete), (_COMES, self._come(tx))):
                some = of_version.where(of_version[CHANGE].isin(*kinds))
                change(self._table, self._rows(some.select(*rows.columns)))

    def _rows(self, frame: Any) -> Any:
        """In their order, which that of a DataFrame is not."""
        return self._session._read_dataframe(frame)

    def _come(self, tx: Any) -> Any:
        return tx.upsert if self._keyed else tx.insert
