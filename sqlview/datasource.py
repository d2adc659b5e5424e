"""Tables and views of a store as a data source of Spark, in any application.

    from sqlview.datasource import SqlViewDataSource
    spark.dataSource.register(SqlViewDataSource)
    spark.read.format("sqlview").option("store", path).load("revenue")

The store is opened for reading where Spark makes the data source, in a process of its own on the
driver's machine; that says which rows there are at the latest epoch and where they lie, and from
then on the DataFrame is of that epoch: tasks read the store's files, which are claimed
(`store.hold`). What the files do not have, since it was committed after the last checkpoint, comes
along with the tasks.

A stream (`readStream`) is of the changes of a view whose changes are retained, and its offsets are
epochs: for each micro-batch the store is opened, and what came since the offset, by its history,
comes along with the tasks.

Law: no `pushFilters`: in pyspark 4.3 what was pushed leaks into later reads. What is to be left out
is said by options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from operators.executor.source import PlannedPart, PlannedSource
from operators.state.files import absolute
from operators.state.reading import Part
from planner.errors import DataError, suggestion
from sqlview.lending import spark_schema
from sqlview.reads import Planned, given, names_in, values_in
from sqlview.session import Session
from sqlview.store import check_place
from sqlview.store.hold import hold

#: Options of a read, and of a stream of changes.
OPTIONS = ("store", "path", "columns", "where", "epoch", "changes", "since")
_OF_READS, _OF_STREAMS = ("columns", "where", "epoch"), ("since",)
#: A session that only reads keeps all changes that the store has.
_ALL_CHANGES = "1000000 days"


class SqlViewDataSource(DataSource):
    """A table or view of a store at one epoch; or the changes of a view, as a stream.

    Options: `store`: its directory, which the driver and all executors see under this name; the
    argument of `load` (`path`): the table or view; `columns`: those that are read, with commas
    between them, or as a JSON list; `where`: values of columns as a JSON object, of which an index
    finds the rows, so that no others are read; `epoch`: of a view whose changes are retained, an
    earlier one. An ordered view comes in its order.
    Of a stream: `changes`: "true"; `since`: the epoch after which it begins, else the latest. Its
    rows have the view's columns, `__time` (the epoch) and `__diff` (copies that came, or left if
    negative).
    Raises, as Spark's AnalysisException with our text: StoreError for a path that is no store;
    CatalogError for an unknown table or view; DataError for an unknown column or option, values
    that a column cannot hold or no index finds, an epoch that is not retained, and a stream of a
    view whose changes are not; ViewError for a view in error.
    Cost: at `load`, and for each micro-batch, the store is opened: what was committed after its
    last checkpoint goes through its steps again.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._planned: Planned | None = None

    @classmethod
    def name(cls) -> str:
        return "sqlview"

    def schema(self) -> StructType:
        asked = _Asked(self.options)
        if asked.changes:
            return spark_schema(asked.since(None)[1].schema)
        self._planned = asked.plan()
        return spark_schema(self._planned.reading.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        if _Asked(self.options).changes:
            raise DataError(
                "changes are read as a stream", hint="Call spark.readStream, or leave changes out."
            )
        raise DataError(
            "a table or view of a store has its own columns",
            hint="Leave .schema(…) out; the option columns says which are read.",
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        asked = _Asked(self.options)
        if not asked.changes:
            raise DataError(
                "a stream is of the changes of a view",
                hint='Write spark.readStream.format("sqlview").option("changes", "true")….',
            )
        return _Changes(asked, schema)

    def __reduce__(self) -> Any:
        if self._planned is None:
            return type(self), (self.options,)
        return PlannedSource, (self.options, self._planned.reading, self._planned.parts)


class _Asked:
    """What the options say. Raises: DataError."""

    def __init__(self, options: Mapping[str, str]) -> None:
        said = {option.lower(): value for option, value in options.items()}
        self.changes = said.get("changes", "false").lower() == "true"
        known = [o for o in OPTIONS if o not in (_OF_READS if self.changes else _OF_STREAMS)]
        for option in said:
            if option not in known:
                of = "a stream of changes" if self.changes else "a read"
                raise DataError(
                    f'{of} has no option "{option}"',
                    detail=f"There are {', '.join(known)}.",
                    hint=suggestion(option, known),
                )
        store, name = said.get("store"), said.get("path")
        if store is None or name is None:
            raise DataError(
                "a read names a store and a table or view",
                hint='Write spark.read.format("sqlview").option("store", DIRECTORY).load(NAME).',
            )
        check_place(store)
        self._store, self._name = absolute(store), name
        self._columns = names_in(said["columns"]) if "columns" in said else None
        self._where = values_in(said["where"]) if "where" in said else None
        self._epoch = _epoch(said["epoch"]) if "epoch" in said else None
        self.begin = _epoch(said["since"]) if "since" in said else None
        if self._where is not None and self._epoch is not None:
            raise DataError("where finds rows of the latest epoch, not of an earlier one")

    def plan(self) -> Planned:
        """The read, at the latest epoch."""
        with self._opened() as db:
            if self._epoch not in (None, db.epoch):
                self._check_retained(db)
            return db._plan_read(self._name, self._columns, self._epoch, self._where)

    def since(self, epoch: int | None) -> tuple[int, pa.Table]:
        """The latest epoch, and the changes since `epoch`; None: none of them."""
        with self._opened() as db:
            self._check_retained(db)
            found = list(db.changes(self._name, db.epoch if epoch is None else epoch))
            return db.epoch, pa.concat_tables(change.table for change in found)

    def _check_retained(self, db: Session) -> None:
        name = db.view(self._name).name
        if not db._history.was_retained(name):
            raise DataError(
                f'the changes of view "{name}" are not retained',
                detail="The latest checkpoint of the store has none.",
                hint='Have the session that writes the store opened with retain="1 hour", say.',
            )

    @contextmanager
    def _opened(self) -> Iterator[Session]:
        with (
            _held(self._store),
            Session(
                self._store,
                read_only=True,
                placement="inline",
                progress=False,
                retain=_ALL_CHANGES,
            ) as db,
        ):
            yield db


class _Changes(DataSourceStreamReader):
    """The changes of a view by epochs: an offset is {"epoch": that of the latest that came}."""

    def __init__(self, asked: _Asked, schema: StructType) -> None:
        self._asked = asked
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def initialOffset(self) -> dict[str, int]:
        begin = self._asked.begin
        return {"epoch": self._asked.since(None)[0] if begin is None else begin}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        """Of all that there is: pyspark takes this form without a limit, and 4.1 no other."""
        return {"epoch": self._asked.since(None)[0]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        _, table = self._asked.since(start["epoch"])
        times = table.column("__time").to_numpy()
        if len(times) and times.max() > end["epoch"]:
            table = table.filter(pa.array(times <= end["epoch"]))
        if table.num_rows == 0:
            return []
        return [PlannedPart(part) for part in given(table, end["epoch"]).parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PlannedPart)
        part: Part = partition.part
        for batch in pa.ipc.open_stream(part.rows):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)


def _epoch(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DataError(f"an epoch is a whole number, not {text!r}") from None


@contextmanager
def _held(path: str) -> Iterator[None]:
    """Hold the store, if it is one: whoever opens it says that better."""
    with ExitStack() as held:
        with suppress(OSError):
            held.enter_context(hold(path))
        yield
