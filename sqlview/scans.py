"""DataFrames that are nothing but Parquet files: which, so that tasks can read those themselves.

Spark decodes Parquet in the JVM, turns it into Arrow row by row and sends that to Python: three
quarters of the CPU time of a load. Where a DataFrame is a scan of local files, of columns as they
are, its rows are what pyarrow reads from the same files.

Law: whatever Spark would read otherwise (filters, partition columns, other types than the files'
own, calendars of old writers, options) is no plain scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from planner.errors import DataError
from sqlview.sources.files import File, UnfitFile, parts_of

#: What a scan may be told without being read otherwise.
_OPTIONS = frozenset(("path", "paths", "mergeschema"))
_SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.timeZone")
_TYPES: tuple[tuple[st.DataType, pa.DataType], ...] = (
    (st.BooleanType(), pa.bool_()),
    (st.ByteType(), pa.int8()),
    (st.ShortType(), pa.int16()),
    (st.IntegerType(), pa.int32()),
    (st.LongType(), pa.int64()),
    (st.FloatType(), pa.float32()),
    (st.DoubleType(), pa.float64()),
    (st.StringType(), pa.string()),
    (st.StringType(), pa.large_string()),
    (st.StringType(), pa.string_view()),
    (st.BinaryType(), pa.binary()),
    (st.BinaryType(), pa.large_binary()),
    (st.BinaryType(), pa.binary_view()),
    (st.DateType(), pa.date32()),
    (st.TimestampNTZType(), pa.timestamp("us")),
)


def parts_of_scan(frame: DataFrame, tasks: int) -> list[File] | None:
    """What `tasks` are to read of a DataFrame that is a plain scan, as files.parts_of; None for any
    other, over Spark Connect, which does not tell, and where the files are not as it says, or not
    to be seen from here: then Spark reads them, or says why not.

    Cost: Spark's plan of it, which it keeps; the files' footers.
    """
    files = _files_of(frame)
    if files is None:
        return None
    try:
        return parts_of(files, tasks, _is_as(frame))
    except (UnfitFile, DataError):
        return None


def _files_of(frame: DataFrame) -> list[File] | None:
    """The files of what is a plain scan by its plan, in the order of their names."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return None
    plan, names = plan.queryExecution().optimizedPlan(), frame.columns
    if _kind(plan) == "Project":
        if any(_kind(each) != "AttributeReference" for each in _each(plan.projectList())):
            return None
        plan = plan.child()
    if _kind(plan) != "LogicalRelation" or _kind(plan.relation()) != "HadoopFsRelation":
        return None
    scan, conf = plan.relation(), frame.sparkSession.conf
    if (
        _kind(scan.fileFormat()) != "ParquetFileFormat"
        or not scan.partitionSchema().isEmpty()
        or not set(_each(scan.options().keys().toSeq())) <= _OPTIONS
        or any(str(conf.get(name)) != value for name, value in _SETTINGS.items())
        or len(set(names)) != len(names)
        or any("." in name for name in names)  # which would be a path to pyarrow
    ):
        return None
    found: list[File] = []
    for url in sorted(frame.inputFiles()):
        parts = urlsplit(url)
        if parts.scheme != "file" or parts.netloc or parts.query or parts.fragment:
            return None
        found.append(File(unquote(parts.path), "parquet", {}, columns=tuple(names)))
    return found


def _is_as(frame: DataFrame) -> Callable[[Any], bool]:
    """What says by the footer of a Parquet file (pyarrow's FileMetaData) whether pyarrow reads it
    as Spark does for the DataFrame: the same columns, of the same types."""
    fields = [(field.name, field.dataType) for field in frame.schema.fields]
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")

    def fits(footer: Any) -> bool:
        if any(name in (footer.metadata or {}) for name in _LEGACY):
            return False
        schema = footer.schema.to_arrow_schema()
        folded = [name.lower() for name in schema.names]
        return all(
            folded.count(name.lower()) == 1
            and name in schema.names
            and _is_same(kind, schema.field(name).type, zone)
            for name, kind in fields
        )

    return fits


def _is_same(kind: st.DataType, arrow: pa.DataType, zone: str | None) -> bool:
    if isinstance(kind, st.DecimalType):
        return bool(arrow == pa.decimal128(kind.precision, kind.scale))
    if isinstance(kind, st.TimestampType):
        # As Spark hands it over, whoever converts it sees the zone.
        return zone is not None and bool(arrow == pa.timestamp("us", zone))
    return any(kind == spark and arrow == own for spark, own in _TYPES)


def _kind(object: Any) -> str:
    return str(object.getClass().getSimpleName())


def _each(sequence: Any) -> Iterator[Any]:
    """Of a Scala sequence."""
    return (sequence.apply(i) for i in range(sequence.size()))
