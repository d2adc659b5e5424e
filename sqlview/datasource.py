"""Tables and views of a store as a data source of Spark, in any application.

    from sqlview.datasource import SqlViewDataSource
    spark.dataSource.register(SqlViewDataSource)
    spark.read.format("sqlview").option("store", path).load("revenue")

The store is opened for reading where Spark makes the data source, in a process of its own on the
driver's machine; that says which rows there are at the latest epoch and where they lie, and from
then on the DataFrame is of that epoch: tasks read the store's files, which are claimed
(`store.hold`). What the files do not have, since it was committed after the last checkpoint, comes
along with the tasks.

Law: no `pushFilters`: in pyspark 4.3 what was pushed leaks into later reads. What is to be left out
is said by options.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from operators.executor.source import PlannedSource
from planner.errors import DataError, suggestion
from sqlview.lending import spark_schema
from sqlview.reads import Planned, names_in, values_in
from sqlview.session import Session
from sqlview.store.hold import hold

OPTIONS = ("store", "path", "columns", "where", "epoch")


class SqlViewDataSource(DataSource):
    """A table or view of a store at one epoch.

    Options: `store`: its directory, which the driver and all executors see under this name; the
    argument of `load` (`path`): the table or view; `columns`: those that are read, with commas
    between them, or as a JSON list; `where`: values of columns as a JSON object, of which an index
    finds the rows, so that no others are read; `epoch`: of a view whose changes are retained, an
    earlier one. An ordered view comes in its order.
    Raises, as Spark's AnalysisException with our text: StoreError for a path that is no store;
    CatalogError for an unknown table or view; DataError for an unknown column or option, values
    that a column cannot hold or no index finds, and an epoch that is not retained; ViewError for a
    view in error.
    Cost: at `load` the store is opened: what was committed after its last checkpoint goes through
    its steps again.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._planned: Planned | None = None

    @classmethod
    def name(cls) -> str:
        return "sqlview"

    def schema(self) -> StructType:
        self._planned = _plan(dict(self.options))
        return spark_schema(self._planned.reading.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        raise DataError(
            "a table or view of a store has its own columns",
            hint="Leave .schema(…) out; the option columns says which are read.",
        )

    def __reduce__(self) -> Any:
        if self._planned is None:
            return type(self), (self.options,)
        return PlannedSource, (self.options, self._planned.reading, self._planned.parts)


def _plan(options: dict[str, str]) -> Planned:
    given = {option.lower(): value for option, value in options.items()}
    for option in given:
        if option not in OPTIONS:
            raise DataError(
                f'there is no option "{option}" of the data source "sqlview"',
                detail=f"There are {', '.join(OPTIONS)}.",
                hint=suggestion(option, OPTIONS),
            )
    store, name = given.get("store"), given.get("path")
    if store is None or name is None:
        raise DataError(
            "a read names a store and a table or view",
            hint='Write spark.read.format("sqlview").option("store", DIRECTORY).load(NAME).',
        )
    columns = names_in(given["columns"]) if "columns" in given else None
    where = values_in(given["where"]) if "where" in given else None
    epoch = _epoch(given["epoch"]) if "epoch" in given else None
    if where is not None and epoch is not None:
        raise DataError("where finds rows of the latest epoch, not of an earlier one")
    path = os.path.abspath(store)
    with _held(path), Session(path, read_only=True, placement="inline", progress=False) as db:
        return db._plan_read(name, columns, epoch, where)


def _epoch(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DataError(f"an epoch is a whole number, not {text!r}") from None


@contextmanager
def _held(path: str) -> Iterator[None]:
    """Hold the store, if it is one: whoever opens it says that better."""
    try:
        holding = hold(path)
        holding.__enter__()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        holding.__exit__(None, None, None)
