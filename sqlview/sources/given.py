"""What rows may be given as, recognised without importing whose it is.

    pyarrow               Table, RecordBatch, RecordBatchReader, Dataset, Scanner, StructArray
    `__arrow_c_stream__`  pandas and polars frames, DuckDB relations, ibis tables …
    `__arrow_c_array__`   an array of structs, each a row
    mapping               columns by name: lists, arrays of NumPy and Arrow, series
    structured array      NumPy's: columns by name
    iterable              rows: tuples, dicts, named tuples, dataclasses; or Arrow batches
    Spark DataFrame       by the name of its class

`recognised` takes any of these to one of three forms, and refuses anything else with what it is.
What a source itself raises while it is read (a generator, DuckDB, Spark) passes through.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from operators.flight.misfits import listed, merged
from operators.flight.rows import represented
from planner.errors import DataError

TAKEN = (
    "Give a pyarrow Table, RecordBatch, reader or dataset, a DataFrame of pandas, polars or Spark "
    "or anything else that speaks Arrow, a dict of columns, or a list or iterator of tuples or "
    "dicts."
)


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns by name, all of one length: Arrow arrays, and lists of Python's values."""

    columns: Mapping[str, pa.Array | pa.ChunkedArray | list[Any]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of Python's values."""

    rows: Iterable[Any]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Arrow tables of one schema, one after the other, of which there is at least one."""

    schema: pa.Schema
    tables: Iterator[pa.Table]


Given: TypeAlias = "pa.Table | pa.RecordBatch | Columns | Rows | Pieces"

#: Batches of a stream are taken together up to so many rows or bytes.
PIECE_ROWS, PIECE_BYTES = 1 << 17, 64 << 20


def recognised(data: Any, read_dataframe: Callable[[Any], pa.Table]) -> Given:
    """`data` in one of the forms. `read_dataframe`: reads a Spark DataFrame.

    Raises: DataError for what is none of those, and for Arrow data that cannot be read.
    """
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return data
    if isinstance(data, list):
        return _rows(data)
    if is_spark_dataframe(data):
        return read_dataframe(data)
    if isinstance(data, type):
        raise _refused(data)
    if isinstance(data, Mapping):
        return _columns(data)
    if isinstance(data, np.ndarray):
        return _structured(data)
    if _is_dataset(data):
        return _read_in_pieces(data, _scanned)
    if isinstance(data, pa.ChunkedArray) and pa.types.is_struct(data.type):
        # Through the protocol, chunks that were sliced are not taken.
        batches = iter([_of_structs(chunk) for chunk in data.chunks])
        schema = pa.schema([data.type.field(i) for i in range(data.type.num_fields)])
        return Pieces(schema, gathered(batches, schema))
    if hasattr(data, "__arrow_c_stream__"):
        return _read_in_pieces(data, pa.RecordBatchReader.from_stream)
    if hasattr(data, "__arrow_c_array__"):
        with _reading(data):
            array = pa.array(data)
        return _of_structs(array)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, bytearray, memoryview)):
        return _rows(data)
    raise _refused(data)


def is_unicode(name: str) -> bool:
    """Whether the name is text that Arrow and Spark take: it has no half of a character."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_spark_dataframe(data: Any) -> bool:
    """Whether this is a DataFrame of Spark, classic or Connect; pyspark is not imported for it."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
        for kind in type(data).__mro__
    )


def _is_dataset(data: Any) -> bool:
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, (module.Dataset, module.Scanner))


def _scanned(data: Any) -> pa.RecordBatchReader:
    return (data.scanner() if hasattr(data, "scanner") else data).to_reader()


def _read_in_pieces(data: Any, opened: Callable[[Any], pa.RecordBatchReader]) -> Pieces:
    with _reading(data):
        reader = opened(data)
    return Pieces(reader.schema, _pieces(data, reader, reader.schema))


def _pieces(
    source: Any, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.Table]:
    with _reading(source):
        yield from gathered(batches, schema)


def gathered(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    most_rows: int | None = None,
    most_bytes: int = PIECE_BYTES,
) -> Iterator[pa.Table]:
    """Tables of so many rows (None: PIECE_ROWS) or bytes, or a batch more; an empty one where there
    are no rows."""
    most_rows = PIECE_ROWS if most_rows is None else most_rows
    waiting: list[pa.RecordBatch] = []
    rows = nbytes = given = 0
    for batch in batches:
        waiting.append(batch)
        rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        if rows >= most_rows or nbytes >= most_bytes:
            yield pa.Table.from_batches(waiting, schema)
            waiting, rows, nbytes, given = [], 0, 0, given + 1
    if waiting or not given:
        yield pa.Table.from_batches(waiting, schema)


@contextmanager
def _reading(data: Any) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, TypeError, ValueError) as error:
        said = str(error).splitlines()
        raise DataError(
            f"changes cannot be read from {_kind(data)}",
            detail=f"{said[0].rstrip('.')}." if said else None,
            hint="Rows have named columns: an array alone is one column, {'name': array}.",
        ) from None


def _of_structs(array: pa.Array) -> pa.RecordBatch:
    """Structs as rows. Raises: DataError for other arrays, and for structs that are NULL."""
    if not pa.types.is_struct(array.type):
        raise DataError(
            f"changes cannot be given as an array of {array.type}",
            detail="It is one column without a name, and rows have named columns.",
            hint="Give a dict of columns, {'name': array}, or an array of structs.",
        )
    if array.null_count:
        row = int(np.argmin(array.is_valid().to_numpy(zero_copy_only=False)))
        raise DataError("a row is NULL", detail=f"Row {row} of the data is a NULL struct.")
    return pa.RecordBatch.from_struct_array(array)


def _structured(data: np.ndarray[Any, Any]) -> Columns:
    names = data.dtype.names
    if names is None or data.ndim != 1:
        raise DataError(
            f"changes cannot be given as a NumPy array of {data.ndim} dimensions and {data.dtype}",
            detail="Its columns have no names and one type.",
            hint="Give a dict of columns, {'name': array[:, 0], …}, or a structured array.",
        )
    return _columns({name: data[name] for name in names})


# ------------------------------------------------------------------------------------------ rows


def _rows(data: Iterable[Any]) -> Rows | Pieces:
    """Rows of Python's values, or Arrow batches one after the other."""
    if isinstance(data, list):
        first = data[0] if data else None
    else:
        source = iter(data)
        head = list(islice(source, 1))
        first = head[0] if head else None
        data = chain(head, source)
    if isinstance(first, (pa.RecordBatch, pa.Table)):
        schema = first.schema
        return Pieces(schema, gathered(_batches(iter(data), schema), schema))
    return Rows(data)


def _batches(items: Iterator[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for number, item in enumerate(items):
        if not isinstance(item, (pa.RecordBatch, pa.Table)):
            raise DataError(
                f"item {number} of the data is no Arrow batch, as those before it are",
                detail=f"It is {represented(item)}.",
            )
        if not item.schema.equals(schema):
            raise DataError(
                f"item {number} of the data has other columns than those before it",
                detail=f"It has {item.schema.to_string(show_schema_metadata=False)!r}.",
            )
        yield from item.to_batches() if isinstance(item, pa.Table) else [item]


# --------------------------------------------------------------------------------------- columns


def _columns(data: Mapping[Any, Any]) -> Columns:
    """Raises: DataError for what is no column, all at once, and for different lengths."""
    columns: dict[str, Any] = {}
    errors: list[DataError] = []
    for key, values in data.items():
        name = str(key)
        if not is_unicode(name):
            errors.append(DataError(f"no column can have the name {represented(name)}"))
        if name in columns:
            errors.append(DataError(f"the data has {listed([name])} twice"))
        try:
            columns[name] = _column(name, values)
        except DataError as error:
            errors.append(error)
    if errors:
        raise merged(errors)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        counted = ", ".join(f'"{name}" has {n:,}' for name, n in lengths.items())
        raise DataError("the columns differ in length", detail=f"Of values {counted}.")
    return Columns(columns)


def _column(name: str, values: Any) -> pa.Array | pa.ChunkedArray | list[Any]:
    if isinstance(values, list):
        return values
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.hasobject and hasattr(values, "tolist"):
        if isinstance(values, np.ndarray) and values.ndim == 1:
            return list(values.tolist())
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if any(hasattr(values, way) for way in _ARRAYS) and getattr(values, "ndim", 1) == 1:
            return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f'column "{name}" cannot be read from {_kind(values)}',
            detail=f"{str(error).splitlines()[0].rstrip('.')}." if str(error) else None,
            hint="Give values of one type.",
        ) from None
    if isinstance(values, (tuple, range)):
        return list(values)
    raise DataError(
        f'column "{name}" cannot be given as {_kind(values)}',
        detail=f"It is {represented(values)}.",
        hint="A dict has a list or array of values for each column; for one row, give a list of "
        "rows: [{…}].",
    )


#: How an object says that it is an array.
_ARRAYS = ("__arrow_c_array__", "__arrow_array__", "__array__")


# -------------------------------------------------------------------------------------- refusals


def _kind(data: Any) -> str:
    kind = type(data)
    package = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{package}{kind.__qualname__}"


def _refused(data: Any) -> DataError:
    hint = TAKEN
    if isinstance(data, (str, bytes)) or hasattr(data, "__fspath__"):
        hint = "To load files, use db.load(table, path)."
    elif hasattr(data, "collect"):
        hint = f"Collect it first: data.collect(). {TAKEN}"
    elif hasattr(data, "to_spark"):
        hint = "Give it as Spark's: data.to_spark()."
    return DataError(
        f"changes cannot be given as {_kind(data)}",
        detail=f"It is {represented(data)}.",
        hint=hint,
    )
