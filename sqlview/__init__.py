"""sqlview: materialized SQL views over Spark that stay right while their tables change.

import sqlview

db = sqlview.connect()
db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, price DECIMAL(15,2))")
db.sql("CREATE MATERIALIZED VIEW revenue AS SELECT sum(price) AS total FROM orders")
with db.transaction() as tx:
    tx.insert("orders", [(1, 10), (2, 20)])
db.view("revenue").rows()
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlview._compiling import announce
from sqlview._origin import check_single_origin

check_single_origin()
announce()

from planner.errors import (  # noqa: E402
    BindError,
    CatalogError,
    DataError,
    FunctionError,
    MemoryLimitError,
    SqlSyntaxError,
    SqlViewError,
    StoreError,
    SubscriberError,
    UnsupportedError,
    ViewError,
)
from sqlview.arguments import check_text  # noqa: E402
from sqlview.history import Change  # noqa: E402
from sqlview.metrics import Metrics, StepMetrics, ViewMetrics  # noqa: E402
from sqlview.prepared import Statement, Subscription  # noqa: E402
from sqlview.session import Session  # noqa: E402
from sqlview.snapshot import Snapshot  # noqa: E402
from sqlview.sources.files import Loaded  # noqa: E402
from sqlview.transaction import Transaction, Transactions  # noqa: E402
from sqlview.verify import Verification  # noqa: E402
from sqlview.view import Result, ViewReader  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__version__ = "0.1.0"

__all__ = [
    "BindError",
    "CatalogError",
    "Change",
    "DataError",
    "FunctionError",
    "Loaded",
    "MemoryLimitError",
    "Metrics",
    "Result",
    "Session",
    "Snapshot",
    "SqlSyntaxError",
    "SqlViewError",
    "Statement",
    "StepMetrics",
    "StoreError",
    "SubscriberError",
    "Subscription",
    "Transaction",
    "Transactions",
    "UnsupportedError",
    "Verification",
    "ViewError",
    "ViewMetrics",
    "ViewReader",
    "connect",
    "start_spark",
]


def connect(
    path: str | os.PathLike[str] | None = None,
    *,
    spark: SparkSession | None = None,
    placement: str = "auto",
    share: bool = True,
    progress: bool | None = None,
    timezone: str | None = None,
    durability: str = "commit",
    read_only: bool = False,
    memory_limit: int | str | None = None,
    retain: int | str | None = None,
    clock: str = "manual",
    tick: float | str = 1,
    udfs: Mapping[str, Callable[..., Any]] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Session:
    """Open a session.

    path: the directory of a store, or a URL of an object store (s3://bucket/…), which is made if it
    is not there: what is committed, and every
    table and view, is there when it is opened again, whatever ended the process. Opening it reads
    the latest checkpoint (see Session.checkpoint), and takes the changes since then through their
    steps again. One session writes it, any number read it
    (`read_only`), as it was when they opened it. Spark's tasks read and write files there, so all
    executors must see it, and run as this user, who alone can read it. None: memory alone, and a
    temporary directory.
    durability: what a machine that stops may lose. "commit": nothing that a commit has returned
    from; "interval": the commits of the last 100 ms; "close": those since the store was opened. If
    only the process ends, nothing is lost with any of them. spark: the
    Spark session to use; None: a local one is started when it is first needed (DataFrames, SELECT,
    steps placed on Spark). placement: where steps run, "inline" (in this process), "spark", or
    "auto" by the estimated work. share: False gives every view private indexes and operators, for
    comparison. progress: whether long work (CREATE over much data, load, VERIFY) shows a bar; None:
    in terminals and notebooks, unless CI is set.
    timezone: the session's time zone, by a name that Spark takes, until SET TIME ZONE; None: that
    of the Spark session in use, or UTC without one.
    memory_limit: bytes, as a number or as "4GiB", of memory that belongs to no file which this
    process may take: what the session keeps beyond it lies in files of its store, which the system
    reads as they are needed. A step, or a CREATE, that would take more fails as a whole. It is for
    sessions that write a store, and counts all that the process has: Python and its libraries take
    some 200 MiB of it.
    retain: how long the changes of views are kept for Session.changes and `subscribe(since=…)`: a
    number of epochs, or a text as "1 hour"; None: not at all. They are in memory, and in the
    store's checkpoints.
    clock: who moves the time that `now()`, `current_timestamp()` and `current_date()` in views are:
    "manual", Session.advance alone; "system", the session too, to the system's time when it is
    opened and at every tick. tick: seconds, or a text as "500ms", "1s", "1m".
    udfs: the code of functions that the store names, by name, see Session.udf.
    cache: of a store at a URL the directory of this machine where its files are kept and mapped;
    None: the one that the environment's SQLVIEW_CACHE names, or the user's cache directory. All
    that is kept there is bounded by SQLVIEW_CACHE_BYTES, 64 GiB without it.

    Raises: StoreError for a path that is no store, of another version, in use, damaged or not to be
    written; UnsupportedError for a time zone that is not known, or that is not that of `spark`;
    TypeError and ValueError for other arguments.
    """
    return Session(
        path,
        spark=spark,
        placement=placement,
        share=share,
        progress=progress,
        timezone=timezone,
        durability=durability,
        read_only=read_only,
        memory_limit=memory_limit,
        retain=retain,
        clock=clock,
        tick=tick,
        udfs=udfs,
        cache=cache,
    )


def start_spark(master: str | None = None) -> SparkSession:
    """Start a quiet Spark that suits sqlview, or return the one that runs: see
    sqlview.spark.running.

    Raises: SqlViewError if there is no Java, or Spark does not start; TypeError.
    """
    if master is not None:
        check_text("master", master)
    from sqlview.spark import running  # Spark costs seconds: only when it is asked for

    return running.start_spark(master)
