"""Checkpoints: what there is as of a record, so that opening a store applies those behind it alone.

`checkpoint-N` has all up to record N: the definitions with their plans, and what the dataflow keeps
(`operators.checkpoint`), most of it in files of their own that a later checkpoint goes on using.
It is an array after the other, then a head, JSON in which an array is where it lies in the file,
then 64 bytes that say where the head is. It has its name when all that it needs is on disk, and
what it makes superfluous goes after that.

Law: a store that was stopped anywhere has one whole checkpoint, or had none before.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from operators import checkpoint
from operators.checkpoint import NAME_CLASSES, Cut, Document, Names
from operators.flight.column import Ints
from operators.state.files import discard_some, listed, size
from operators.state.pieces import MappedFiles, Pack, checksum
from operators.state.values import ValueFiles
from planner.context import UserFunction
from planner.errors import FormatError, StoreError
from planner.serialise import Format
from sqlview.positions import Position
from sqlview.store import log
from sqlview.store.log import End
from sqlview.store.records import (
    DEFINITIONS,
    PARTS,
    DefinedSchema,
    DefinedStream,
    DefinedTable,
    DefinedView,
)

_NAME = re.compile(r"checkpoint-(\d{20})(-[0-9a-f]{12})?")
#: Of the values that checkpoints share, by who wrote them.
_VALUES = re.compile(r"(rows|small|large)-[0-9a-f]{12}-\d+-\d+")
#: Of heads and documents.
VERSION = 1
#: Mark, offset, length and checksum of the head, at the end of a file.
_TAIL = struct.Struct("<8sQQQ")
_TAIL_BYTES = 64
#: Values are compared with their checksums so many bytes at a time.
_PIECE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Contents:
    """What is there, in the order in which it was made; schemas and functions; and whose the
    parts of the document are."""

    definitions: tuple[DefinedTable | DefinedStream | DefinedView, ...]
    schemas: tuple[DefinedSchema, ...]
    functions: tuple[UserFunction, ...]
    names: Names


_FORMAT = Format(
    "sqlview checkpoint",
    1,
    (*PARTS, *NAME_CLASSES, *DEFINITIONS, DefinedSchema, UserFunction, Contents),
)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a session has between two steps. `history`: see sqlview.history. `counters`: of each
    view the rows of its changes, of each stream its events, in the order of the definitions."""

    end: End
    epoch: int
    positions: dict[str, Position]
    definitions: tuple[DefinedTable | DefinedStream | DefinedView, ...]
    schemas: tuple[DefinedSchema, ...]
    functions: tuple[UserFunction, ...]
    counters: tuple[int, ...]
    history: Document
    cut: Cut


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One that was read. `values`: the names of the files that it needs beside its own."""

    path: str
    end: End
    epoch: int
    positions: dict[str, Position]
    contents: Contents
    counters: tuple[int, ...]
    document: Document
    values: tuple[str, ...]
    files: MappedFiles


def write(values: ValueFiles, mark: bytes, taken: Taken, name: str = "") -> Checkpoint:
    """Write a checkpoint, and return it. `name`: behind its own. Raises: OSError, with those before
    as they were."""
    directory = values.directory
    document = checkpoint.write(taken.cut, values)
    document["history"] = taken.history
    pack = Pack(f"{_path(directory, taken.end.number)}{name}")
    head = {
        "version": VERSION,
        "end": [taken.end.number, taken.end.file, taken.end.offset],
        "epoch": taken.epoch,
        "sources": {name: [at.offset, at.epoch] for name, at in taken.positions.items()},
        "contents": _FORMAT.write(
            Contents(taken.definitions, taken.schemas, taken.functions, taken.cut.names)
        ),
        "counters": list(taken.counters),
        "document": _put(document, pack),
    }
    text = np.frombuffer(json.dumps(head).encode(), np.uint8)
    place = pack.add(text)
    tail = _TAIL.pack(mark, place.offset, place.nbytes, checksum(text))
    pack.add(np.frombuffer(tail.ljust(_TAIL_BYTES, b"\0"), np.uint8))
    pack.write(durable=True)
    return Checkpoint(
        pack.path,
        taken.end,
        taken.epoch,
        taken.positions,
        Contents(taken.definitions, taken.schemas, taken.functions, taken.cut.names),
        taken.counters,
        {},  # which nobody reads
        tuple(document["files"]),
        MappedFiles(directory),
    )


def latest(directory: str) -> str | None:
    """The name of the latest checkpoint in a directory, if there is one. Raises: OSError."""
    found = [m[0] for m in map(_NAME.fullmatch, listed(directory)) if m is not None]
    return max(found, default=None)


def read(directory: str, name: str, mark: bytes) -> Checkpoint:
    """The checkpoint of that name.

    Raises: StoreError if it is damaged; OSError. What it needs is open when `Checkpoint.files` was
    told so.
    """
    path, files = os.path.join(directory, name), MappedFiles(directory)
    try:
        length = size(path)
        tail = files.array(name, length - _TAIL_BYTES, _TAIL_BYTES, np.dtype(np.uint8))
        found_mark, offset, nbytes, written = _TAIL.unpack_from(tail.data)
        text = files.array(name, offset, nbytes, np.dtype(np.uint8))
        if found_mark != mark or checksum(text) != written:
            raise ValueError("its head is not what was written")
        head = json.loads(bytes(text))
        if head.get("version") != VERSION:
            raise FormatError("", detail=f"Its checkpoint has version {head.get('version')}.")
        document = _got(head["document"], files, name)
        contents = _FORMAT.read(head["contents"], Contents)
    except ValueError as error:
        raise damaged(path, f"{error}.") from error
    except FormatError as error:
        raise StoreError(
            "the store is of another version of this library",
            detail=error.detail,
            hint="Open it with the version that wrote it.",
        ) from error
    positions = {name: Position(at, epoch) for name, (at, epoch) in head["sources"].items()}
    return Checkpoint(
        path,
        End(*head["end"]),
        head["epoch"],
        positions,
        contents,
        tuple(head["counters"]),
        document,
        tuple(document["files"]),
        files,
    )


def damaged_files(found: Checkpoint) -> dict[str, str]:
    """The files that a checkpoint needs and that are damaged, and what is wrong. Cost: they are
    read."""
    return dict(filter(None, compared(found)))


def compared(found: Checkpoint) -> Iterator[tuple[str, str] | None]:
    """Compare the values in a checkpoint's files with their checksums, some megabytes at a time,
    after each of which comes None, or of a file that is damaged, once, its name and what is wrong.
    """
    # Whoever loads the checkpoint lets the rest of its document go.
    return _compared(replace(found, document={}), tuple(_tables(found.document)))


def _compared(found: Checkpoint, tables: Sequence[Ints]) -> Iterator[tuple[str, str] | None]:
    directory = os.path.dirname(found.path)
    wrong: set[str] = set()
    read_bytes = 0
    for table in tables:
        for _, file, _, offset, nbytes, written in table.tolist():
            name = found.values[file]
            if name in wrong:
                continue
            detail, is_now = None, 0
            try:
                values = found.files.array(name, offset, nbytes, np.dtype(np.uint8))
                for start in range(0, nbytes, _PIECE_BYTES):
                    piece = values[start : start + _PIECE_BYTES]
                    is_now, read_bytes = checksum(piece, is_now), read_bytes + len(piece)
                    if read_bytes >= _PIECE_BYTES:
                        read_bytes = 0
                        yield None
                if is_now != written:
                    raise ValueError(f"its bytes {offset} to {offset + nbytes} are not as written")
            except FileNotFoundError:
                detail = f'The file "{os.path.join(directory, name)}" is missing.'
            except ValueError as error:
                detail = f'The file "{os.path.join(directory, name)}" is damaged: {error}.'
            if detail is not None:
                wrong.add(name)
                yield name, detail


def discard_old(
    directory: str,
    found: Checkpoint | None,
    may_be_used: Callable[[str], bool],
    is_mine: Callable[[], bool],
) -> None:
    """Delete what the latest checkpoint does not need, and what was not finished, but for files of
    values that may be used. `is_mine`: whether nobody else can have written what there is."""
    there = listed(directory)
    if not is_mine():
        return
    needed = set() if found is None else {os.path.basename(found.path), *found.values}
    gone = []
    for name in there:
        whole = name.removesuffix(".part")
        mine = _NAME.fullmatch(whole) or _VALUES.fullmatch(whole)
        old = found is not None and log.is_old(name, found.end)
        if (mine and name not in needed and not may_be_used(whole)) or old:
            gone.append(name)
    discard_some(directory, gone)


def _path(directory: str, number: int) -> str:
    return os.path.join(directory, f"checkpoint-{number:020}")


def damaged(path: str, detail: str) -> StoreError:
    return StoreError(
        f'the file "{path}" is damaged', detail=detail, hint="Restore the store from a backup."
    )


def _tables(document: Document) -> Iterator[Ints]:
    for kind in ("relations", "indexes", "filters"):
        for kept in document[kind]:
            yield kept["stored"]


def _put(value: Any, pack: Pack) -> Any:
    """A document as JSON, its arrays in the pack."""
    if isinstance(value, np.ndarray):
        place = pack.add(value)
        at = [place.offset, place.nbytes, checksum(value)]
        return {"array": at, "kind": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, dict):
        return {"dict": {name: _put(each, pack) for name, each in value.items()}}
    if isinstance(value, (list, tuple)):
        return [_put(each, pack) for each in value]
    return value


def _got(value: Any, files: MappedFiles, name: str) -> Any:
    """What `_put` was given, arrays as copies. Raises: ValueError for a damaged one."""
    if isinstance(value, list):
        return [_got(each, files, name) for each in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return {key: _got(each, files, name) for key, each in value["dict"].items()}
    offset, nbytes, written = value["array"]
    array = files.array(name, offset, nbytes, np.dtype(value["kind"]))
    if checksum(array) != written:
        raise ValueError(f"its bytes {offset} to {offset + nbytes} are not what was written")
    return array.reshape(value["shape"]).copy()
