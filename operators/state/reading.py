"""Rows for who has only the files: blocks of a relation as they lie in segments, made into Arrow.

Whoever has the state says which blocks there are, where the columns that are wanted lie, and which
rows are dead as of an epoch (`Part`); what lies in no file comes along as Arrow data. Whoever reads
needs nothing of the engine: values are mapped, those of other layouts than Arrow's are converted,
and rows that are dead are left out.

Invariant: the parts, one after the other, have the rows that are visible as of the epoch, once
each, in the order of their ids.
Law: this module loads no kernels, which takes a new process longer than most reads do.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight import arrow
from operators.flight.column import Column
from operators.state.files import check_directory, is_there, mapped, touch
from operators.state.pieces import Array, MappedFiles
from planner.errors import StoreError

#: Rows of a record batch.
BATCH_ROWS = 16_384
#: Blocks are dealt out by so many bytes of the columns that are wanted.
PART_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column as it lies in a block: `dtype` and `words` of a value at `slot`, NULLs behind that;
    `textual`: offsets, and behind the NULLs the bytes."""

    slot: int
    dtype: str
    words: int
    textual: bool


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A block with so many rows in a file, `slots`: (slot, offset, bytes) of each array that is
    wanted; `ids_slot` among them has the places of a block that was rewritten. `dead`: a bit for
    each place, None where no row is dead."""

    rows: int
    file: str
    slots: tuple[tuple[int, int, int], ...]
    dead: bytes | None

    @property
    def nbytes(self) -> int:
        return sum(nbytes for _, _, nbytes in self.slots)


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads: blocks in files, behind them rows that come along, as a stream of
    Arrow's, and those of a file of Arrow's at `path`."""

    blocks: tuple[FileBlock, ...] = ()
    rows: bytes = b""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What all tasks of a read know. `directory`: of the files; `schema`: of the rows; `columns`:
    in its order; `ids_slot`: of the places in blocks; `claim`: a file that says that they are read
    (sqlview.store.hold), which goes with `epoch`; None: whoever reads needs none."""

    directory: str
    schema: pa.Schema
    columns: tuple[FileColumn, ...]
    ids_slot: int
    epoch: int
    claim: str | None

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part. Raises: StoreError where the files are not there."""
        if part.blocks:
            files = self._files(part.blocks)
            for block in part.blocks:
                batch = self._batch(block, files)
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield batch.slice(start, BATCH_ROWS)
        if part.rows:
            yield from pa.ipc.open_stream(part.rows)
        if part.path:
            found = pa.ipc.open_file(pa.py_buffer(mapped(part.path)))
            for i in range(found.num_record_batches):
                yield found.get_batch(i)

    def _files(self, blocks: tuple[FileBlock, ...]) -> MappedFiles:
        """The files of blocks, mapped: from now on they may go."""
        self.renew()
        files = MappedFiles(self.directory)
        try:
            check_directory(self.directory)
            files.open([block.file for block in blocks])
        except OSError as error:
            raise self._not_seen(error) from error
        return files

    def renew(self) -> None:
        """Say that somebody reads."""
        if self.claim is not None:
            with contextlib.suppress(OSError):  # whoever misses the files says so
                touch(self.claim)

    def _not_seen(self, error: OSError) -> StoreError:
        if is_there(os.path.join(self.directory, "store.json")):
            return StoreError(
                f'epoch {self.epoch} of the store "{self.directory}" is gone',
                detail=f"Nobody has read it for long, and the file {error.filename} is missing.",
                hint="Read again: spark.read.format(…).load(…) takes the latest epoch.",
            )
        return StoreError(
            f'a task of Spark on {socket.gethostname()} does not see "{self.directory}"',
            detail=f"{error.strerror or error}: {error.filename}.",
            hint="Keep the store in a directory that the driver and all executors see under the "
            "same name, and run them as the same user.",
        )

    def _batch(self, block: FileBlock, files: MappedFiles) -> pa.RecordBatch:
        arrays = {
            slot: files.array(block.file, offset, nbytes, np.dtype(np.uint8))
            for slot, offset, nbytes in block.slots
        }
        columns = [
            _array(field.type, column, block.rows, arrays)
            for field, column in zip(self.schema, self.columns, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        alive = self._alive(block, arrays)
        return batch if alive is None else batch.filter(pa.array(alive))

    def _alive(self, block: FileBlock, arrays: dict[int, Array]) -> Array | None:
        """Which rows of a block are visible; None: all."""
        if block.dead is None:
            return None
        dead = np.unpackbits(np.frombuffer(block.dead, np.uint8), bitorder="little")
        places = arrays.get(self.ids_slot)
        here = dead[: block.rows] if places is None else dead[places.view(np.uint16)]
        alive: Array = here == 0
        return alive


def _array(kind: pa.DataType, column: FileColumn, rows: int, arrays: dict[int, Array]) -> Any:
    """A column of a block as Arrow has it: mapped where the layouts agree, else a copy."""
    present = arrays.get(column.slot + 1)
    mask = None if present is None else pa.array(present.view(np.bool_)).buffers()[1]
    stored = arrays[column.slot]
    if column.textual:
        text = arrays.get(column.slot + 2, stored[:0])
        texts = [mask, pa.py_buffer(stored), pa.py_buffer(text)]
        if pa.types.is_nested(kind):
            valid = None if present is None else present.view(np.bool_)
            inside = pa.Array.from_buffers(pa.binary(), rows, [None, *texts[1:]])
            nested = arrow.sql_type(kind)
            return arrow.from_column(Column(nested, inside, valid), nested)
        return pa.Array.from_buffers(kind, rows, texts)
    values = stored.view(column.dtype)
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if pa.types.is_boolean(kind):
        bits = pa.array(values.view(np.bool_)).buffers()[1]
        return pa.Array.from_buffers(kind, rows, [mask, bits])
    if pa.types.is_decimal(kind) and column.words == 1:
        values = np.stack([values, values >> 63], axis=1)
    elif not pa.types.is_decimal(kind) and values.dtype.itemsize * 8 != kind.bit_width:
        values = values.astype(f"i{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, rows, [mask, pa.py_buffer(values)])


def dealt(blocks: list[FileBlock], rows: list[bytes]) -> list[Part]:
    """The parts of a read: blocks by their bytes, then what comes along, a part each; one at
    least."""
    parts: list[Part] = []
    here: list[FileBlock] = []
    size = 0
    for block in blocks:
        if here and size + block.nbytes > PART_BYTES:
            parts.append(Part(tuple(here)))
            here, size = [], 0
        here.append(block)
        size += block.nbytes
    if here:
        parts.append(Part(tuple(here)))
    parts += [Part(rows=some) for some in rows]
    return parts or [Part()]
