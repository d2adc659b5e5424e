"""Files of rows: CSV, JSON lines, Parquet and Arrow, read in pieces, nothing guessed about types.

    CSV          a header, then text that is read as the table's columns say; an empty field is
                 NULL, a quoted one the empty text; .tsv: tabs between the fields
    JSON lines   an object a line; a column that it lacks is NULL; numbers are read as written
    Parquet      with the columns that directories are named for, as in day=2024-01-31/part.parquet
    Arrow        IPC files and streams, Feather; copied, so that the file may change or go later

A path is taken as it is if there is such a file or directory, and as a pattern otherwise. Of a
directory all files in it are read, in order of their names, but those whose names begin with a dot
or an underscore, as writers call what is not data.
"""

from __future__ import annotations

import glob
import io
import itertools
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from operators.flight.rows import represented
from planner.calculus.types import Schema
from planner.errors import DataError
from planner.names import folded
from sqlview.progress import Advance, ignore
from sqlview.sources.given import PIECE_ROWS, Given, Pieces, Rows, gathered

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"

#: The endings of names, without one that says how the file is compressed.
ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
#: Formats whose values have types, and which tasks may read by themselves.
TYPED = ("parquet", "arrow")
#: Of what is read apart, uncompressed.
PART_BYTES = 256 << 20
#: Where there are many tasks, each has so many parts, but of no fewer bytes.
_PARTS_A_TASK, _LEAST_PART_BYTES = 2, 32 << 20
#: A row of a CSV file has at most so many bytes.
_BLOCK_BYTES = 64 << 20
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
#: The size of a file, and when it was changed, in nanoseconds.
Seen: TypeAlias = "tuple[int, int]"
_Piece = TypeVar("_Piece")
_REFUSALS = (pa.ArrowException, OSError, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did: `rows` of `files`, at `epoch`; None if there were none."""

    rows: int
    files: int
    epoch: int | None


@dataclass(frozen=True, slots=True)
class File:
    """`format`: csv, tsv, json, parquet or arrow. `named`: the columns that its directories are
    named for. `groups`: of a Parquet file, its row groups of which this is, None for all; `first`:
    how many rows precede them. `seen`: see `_seen`, when somebody else is to read it; None: when it
    is opened. `columns`: of a Parquet file, those that are read; None: all."""

    path: str
    format: str
    named: Mapping[str, str | None]
    groups: tuple[int, ...] | None = None
    first: int = 0
    seen: Seen | None = None
    columns: tuple[str, ...] | None = None

    @property
    def is_text(self) -> bool:
        """Whether values have no types of their own."""
        return self.format in ("csv", "tsv", "json")

    def read(self, schema: Schema, advance: Advance) -> Given:
        """The rows, for a table with these columns. `advance` is told as they are read.

        Raises: DataError, now and while the pieces are taken, also if the file is changed then.
        """
        with _reading():
            seen = _seen(self.path) if self.seen is None else self.seen
            _check_same(self.path, seen)
            if self.format == "json":
                rows = _told(_json_rows(self.path, schema, self.named), advance)
                return Rows(_while_same(self.path, seen, rows))
            if self.groups is None and self.columns is None:
                schema, batches = _READERS[self.format](self.path)
            else:
                schema, batches = _parquet(self.path, self.groups, self.columns)
            tables = _completed(schema, batches, self.named, advance)
            return Pieces(schema, _while_same(self.path, seen, tables))


def find_files(paths: Paths, wanted: str | None = None) -> list[File]:
    """The files that `paths` stand for, in order. `wanted`: their format; None: by their names.

    Raises: DataError for a path that stands for none, and for names that tell no format.
    """
    if wanted is not None and wanted not in _FORMATS:
        raise DataError(
            f"there is no format {represented(wanted)}", hint=f"Formats: {', '.join(_FORMATS)}."
        )
    several: Any = paths
    given: list[Any] = list(several) if _is_several(paths) else [paths]
    files: list[File] = []
    for path in given:
        if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
            raise DataError(
                f"a path cannot be given as {type(path).__name__}",
                detail=f"It is {represented(path)}.",
                hint="Give a str or a pathlib.Path, or several in a list.",
            )
        # A str of a class of its own may be taken for bytes.
        files += _files(str.__str__(os.fspath(path)), wanted)
    return files


def _is_several(paths: Any) -> bool:
    if isinstance(paths, (str, bytes, os.PathLike)):
        return False
    # An array without dimensions says that it is iterable.
    return isinstance(paths, Iterable) and getattr(paths, "ndim", 1) != 0


def _files(path: str, wanted: str | None) -> list[File]:
    if not path or "\0" in path:
        raise DataError(f"there is no path {represented(path)}")
    with _reading():
        if os.path.isdir(path):
            files = _inside(path, wanted)
        elif os.path.exists(path):
            files = [_file(path, "", wanted)]
        else:
            files = _matching(path, wanted)
    if not files:
        raise DataError(
            f"there is no file {represented(path)}",
            detail=f"The working directory is {represented(os.getcwd())}."
            if not os.path.isabs(path)
            else None,
        )
    return files


def _matching(pattern: str, wanted: str | None) -> list[File]:
    fixed = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts))
    files = []
    for name in sorted(glob.glob(pattern, recursive=True)):
        if os.path.isdir(name):
            files += _inside(name, wanted)
        else:
            below = os.path.relpath(os.path.dirname(name) or ".", fixed)
            files.append(_file(name, below, wanted))
    return files


def _inside(directory: str, wanted: str | None) -> list[File]:
    """The files of a directory and of those in it."""
    files = []
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(d for d in directories if not d.startswith((".", "_")))
        below = os.path.relpath(place, directory)
        files += [
            _file(os.path.join(place, name), below, wanted)
            for name in sorted(names)
            if not name.startswith((".", "_"))
        ]
    return files


def _file(path: str, below: str, wanted: str | None) -> File:
    """`below`: the directories between the one that was given and the file."""
    parts = (part.partition("=") for part in Path(below).parts)
    named = {unquote(k): None if v == _NO_VALUE else unquote(v) for k, eq, v in parts if eq}
    if wanted is not None:
        return File(path, wanted, named)
    endings = [ending.lower() for ending in Path(path).suffixes]
    if endings and endings[-1] in _COMPRESSED:
        endings.pop()
    form = ENDINGS.get(endings[-1]) if endings else None
    if form is None:
        raise DataError(
            f"the format of {path!r} is not known",
            detail=f"Names of files end with {', '.join(ENDINGS)}.",
            hint='Say it: format="csv".',
        )
    return File(path, form, named)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except _REFUSALS as error:
        said = str(error).splitlines()
        if isinstance(error, OSError) and error.strerror:
            said = [error.strerror]
        raise DataError(
            "the file cannot be read", detail=f"{said[0].rstrip('.')}." if said else None
        ) from None


def _seen(path: str) -> Seen:
    """What changes when somebody changes the file; nothing of one that is none, as a pipe."""
    found = os.stat(path)
    return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else (0, 0)


def _check_same(path: str, seen: Seen) -> None:
    """Raises: DataError if the file is not what it was."""
    if _seen(path) != seen:
        raise DataError(
            "the file was changed while it was read",
            hint="Load files that are complete, and that nobody writes.",
        )


def _while_same(path: str, seen: Seen, pieces: Iterator[_Piece]) -> Iterator[_Piece]:
    yield from pieces
    with _reading():
        _check_same(path, seen)


# --------------------------------------------------------------------------------------- formats


def _told(rows: Iterator[Any], advance: Advance) -> Iterator[Any]:
    for number, row in enumerate(rows, 1):
        if number % PIECE_ROWS == 0:
            advance(PIECE_ROWS)
        yield row


def _completed(
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    named: Mapping[str, str | None],
    advance: Advance,
) -> Iterator[pa.Table]:
    """Tables of some size, with a column for each directory that is named for one."""
    own = {folded(name) for name in schema.names}
    with _reading():
        for table in gathered(batches, schema):
            for name, value in named.items():
                if folded(name) not in own:
                    column = pa.repeat(pa.scalar(value, pa.string()), table.num_rows)
                    table = table.append_column(name, column)  # noqa: PLW2901
            advance(table.num_rows)
            yield table


def _csv(path: str, delimiter: str = ",") -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    from pyarrow import csv

    reading = csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    with csv.open_csv(path, csv.ReadOptions(use_threads=False), parsing) as reader:
        names = reader.schema.names
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    reader = csv.open_csv(path, reading, parsing, converting)
    return reader.schema, reader


def _tsv(path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    return _csv(path, "\t")


def _parquet(
    path: str, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    schema = file.schema_arrow
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    return schema, file.iter_batches(row_groups=groups, columns=columns)


def parts_of(
    files: Iterable[File], tasks: int = 1, is_fit: Callable[[Any], bool] | None = None
) -> list[File]:
    """What may be read apart, in order: Parquet files by row groups, of about PART_BYTES, or less
    where `tasks` are to have some of them each.

    is_fit: asked of the footer of each Parquet file. Raises: DataError; UnfitFile.
    Cost: the footers of Parquet files are read, once each.
    """
    found: list[tuple[File, list[tuple[int, int]]]] = []
    for file in files:
        try:
            with _reading():
                seen = replace(file, seen=_seen(file.path))
                found.append((seen, _row_groups(seen, is_fit) if file.format == "parquet" else []))
        except DataError as error:
            raise DataError(
                f"cannot load {file.path!r}: {error.message}", detail=error.detail
            ) from None
    whole = sum(nbytes for _, groups in found for _, nbytes in groups)
    most = min(PART_BYTES, max(whole // (_PARTS_A_TASK * tasks), _LEAST_PART_BYTES))
    return [
        part
        for file, groups in found
        for part in (_parts(file, groups, most) if file.format == "parquet" else [file])
    ]


class UnfitFile(Exception):
    """A file's footer says that it is not to be read."""


def _row_groups(file: File, is_fit: Callable[[Any], bool] | None) -> list[tuple[int, int]]:
    """The rows and bytes of each."""
    from pyarrow import parquet

    told = parquet.read_metadata(file.path)
    if is_fit is not None and not is_fit(told):
        raise UnfitFile(file.path)
    groups = map(told.row_group, range(told.num_row_groups))
    return [(group.num_rows, group.total_byte_size) for group in groups]


def _parts(file: File, told: Sequence[tuple[int, int]], most_bytes: int) -> Iterator[File]:
    groups: list[int] = []
    first = rows = nbytes = 0
    for number, (own_rows, own_bytes) in enumerate(told):
        groups.append(number)
        rows, nbytes = rows + own_rows, nbytes + own_bytes
        if nbytes >= most_bytes or number == len(told) - 1:
            yield replace(file, groups=tuple(groups), first=first)
            first, groups, rows, nbytes = first + rows, [], 0, 0


def read_part(files: Sequence[File], number: int) -> Iterator[tuple[pa.Table, int]]:
    """The tables of a file by its number, each with the rows before it. Raises: DataError."""
    file, first = files[number], files[number].first
    given = file.read((), ignore)
    assert isinstance(given, Pieces), "its rows have types"
    for table in given.tables:
        yield table, first
        first += table.num_rows


def _arrow(path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    # Not mapped into memory: rows stay where they are, and the file may be cut short at any time.
    with pa.OSFile(path) as source:
        is_file = source.read(6) == b"ARROW1"
    source = pa.OSFile(path)
    if not is_file:
        stream = pa.ipc.open_stream(source)
        return stream.schema, _checked(stream)
    file = pa.ipc.open_file(source)
    return file.schema, _checked(file.get_batch(i) for i in range(file.num_record_batches))


def _checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches whose offsets, which come from the file, stay inside their buffers."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


_READERS: dict[str, Callable[[str], tuple[pa.Schema, Iterator[pa.RecordBatch]]]] = {
    "csv": _csv,
    "tsv": _tsv,
    "parquet": _parquet,
    "arrow": _arrow,
}
_FORMATS: Sequence[str] = (*_READERS, "json")


def _json_rows(
    path: str, schema: Schema, named: Mapping[str, str | None]
) -> Iterator[Mapping[str, Any]]:
    """A row for each line. Numbers with a fraction stay as they are written: what they are read as
    is for the column to say."""
    columns = {folded(field.name): field.name for field in schema}
    absent: dict[str, Any] = {field.name: None for field in schema}
    absent |= {columns.get(folded(name), name): value for name, value in named.items()}
    with _reading(), pa.input_stream(path, compression="detect") as source:
        for number, line in enumerate(io.TextIOWrapper(source, "utf-8-sig")):
            if line.isspace():
                continue
            row = _json_object(line, number)
            seen = dict(absent)
            for name, value in row.items():
                seen[columns.get(folded(name), name)] = value
            yield seen


def _json_object(line: str, number: int) -> Mapping[str, Any]:
    try:
        row = json.loads(line, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise DataError(f"line {number + 1} is not JSON", detail=f"{error}.") from None
    if not isinstance(row, dict):
        raise DataError(
            f"line {number + 1} is no object",
            detail=f"It is {represented(row)}.",
            hint='Each line is a row: {"column": value, …}.',
        )
    return row
