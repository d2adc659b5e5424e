"""Segments: full blocks of a relation as an Arrow file, which kernels read where it is mapped.

One record batch a block. The columns have the types of the blocks' slots, so that their bytes are
where kernels look for them, and whoever reads Arrow files can read the rows: decimals of up to 18
digits are their unscaled integers, BOOLEAN is a byte. Behind them, where a block has such, come for
each column with NULLs a byte a row, 0 for NULL, and the rows' places of a block that was rewritten.
Rows that died are in it too.

Source: Arrow's columnar format, "IPC File Format" (the buffers of a record batch lie in its body
one after the other, aligned and uncompressed).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from operators.flight.arrow import arrow_type
from operators.flight.column import Ints, text_type
from operators.state.files import Draft, mapped
from operators.state.pieces import Array, checksum, flat
from operators.state.relation import Block, Form
from operators.state.storage import Layout
from planner.calculus import types as t

#: Blocks of one file.
MOST_BLOCKS = 64


def arrays_of(form: Form, block: Block) -> dict[int, Array]:
    """The bytes in use of each slot of a block, uint8[n]; columns that wait get their buffers."""
    found = {slot: flat(array)[:nbytes] for slot, array, nbytes in block.used}
    for column, make in block.waiting:
        _, layout, slot = form.columns[column]
        values, valid, text = make()
        used = (block.rows + 1) * 4 if layout.textual else None
        found[slot] = flat(values)[: used or layout.storage.itemsize * layout.words * block.rows]
        if valid is not None:
            found[slot + 1] = flat(valid)[: block.rows]
        if text is not None:
            found[slot + 2] = flat(text)[: int(values[block.rows])]
    return found


def alike(form: Form, blocks: Sequence[Block]) -> list[list[Block]]:
    """The blocks by file: those of one have the same slots."""
    files: list[list[Block]] = []
    open_files: dict[frozenset[int], list[Block]] = {}
    for block in blocks:
        there = {slot for slot, _, _ in block.used}
        for column, _ in block.waiting:  # without NULLs
            _, layout, slot = form.columns[column]
            there.update((slot, slot + 2) if layout.textual else (slot,))
        slots = frozenset(there)
        file = open_files.get(slots)
        if file is None or len(file) == MOST_BLOCKS:
            file = open_files[slots] = []
            files.append(file)
        file.append(block)
    return files


def write_segment(path: str, form: Form, blocks: Sequence[Block], durable: bool) -> list[Ints]:
    """Write blocks with the same slots to a file; where each block's arrays lie, as `pieces.Home`
    has them. `durable`: it is on disk when this returns. Raises: OSError, with no file of that
    name."""
    with SegmentWriter(path, form, durable) as out:
        for block in blocks:
            out.add(block.rows, arrays_of(form, block))
        return out.finish()


class SegmentWriter:
    """A segment in the making, block by block; the file has its name when it is finished, and is
    gone if it is closed before."""

    def __init__(self, path: str, form: Form, durable: bool) -> None:
        """Raises: OSError, here and in all that follows."""
        self.path = path
        self._form, self._durable = form, durable
        self._out = Draft(path)
        self._writer: pa.RecordBatchFileWriter | None = None
        self._sums: list[dict[int, tuple[int, int]]] = []

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._out.close()

    def __len__(self) -> int:
        """Blocks so far."""
        return len(self._sums)

    def add(self, rows: int, arrays: dict[int, Array]) -> None:
        """Write a block: the bytes in use of its slots, see `arrays_of`."""
        self._sums.append({slot: (len(a), checksum(a)) for slot, a in arrays.items()})
        batch = _batch(self._form, rows, arrays)
        if self._writer is None:
            self._writer = pa.ipc.new_file(pa.PythonFile(self._out.file, mode="w"), batch.schema)
        self._writer.write_batch(batch)

    def finish(self) -> list[Ints]:
        """Where each block's arrays lie."""
        assert self._writer is not None, "a file has a block"
        self._writer.close()
        self._out.complete(self._durable)
        places = _places(self._out.temporary, self._form, self._sums)
        self._out.rename()
        return places


def _batch(form: Form, rows: int, arrays: dict[int, Array]) -> pa.RecordBatch:
    columns: list[pa.Array] = []
    names: list[str] = []
    behind: list[tuple[str, pa.Array]] = []
    for field, layout, slot in form.columns.values():
        kind, present, nulls = _arrow_type(field.type, layout), None, arrays.get(slot + 1)
        if nulls is not None:
            present = pa.array(nulls.view(np.bool_)).buffers()[1]
            behind.append((f"{field.name} is there", _bytes(pa.uint8(), rows, nulls)))
        buffers = [present, pa.py_buffer(arrays[slot])]
        if layout.textual:
            buffers.append(pa.py_buffer(arrays[slot + 2]))
        columns.append(pa.Array.from_buffers(kind, rows, buffers))
        names.append(field.name)
    if form.ids_slot in arrays:
        behind.append(("place", _bytes(pa.uint16(), rows, arrays[form.ids_slot])))
    every = [*columns, *(array for _, array in behind)]
    return pa.RecordBatch.from_arrays(every, names=[*names, *(name for name, _ in behind)])


def _bytes(kind: pa.DataType, rows: int, values: Array) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values)])


def _arrow_type(kind: t.SqlType, layout: Layout) -> pa.DataType:
    """That of the column, where its values lie as Arrow has them, else that of the slot."""
    if layout.textual:
        return text_type(kind)
    if layout.words == 2 or isinstance(kind, (t.DateType, t.TimestampType)):
        return arrow_type(kind)
    return pa.from_numpy_dtype(layout.storage)


def _places(path: str, form: Form, sums: list[dict[int, tuple[int, int]]]) -> list[Ints]:
    """Where the slots of each record batch lie in the file."""
    data = pa.py_buffer(mapped(path))
    reader = pa.ipc.open_file(pa.BufferReader(data))
    found: list[Ints] = []
    for number, told in enumerate(sums):
        batch = reader.get_batch(number)
        at: dict[int, pa.Buffer] = {}
        behind = len(form.columns)
        for i, (_, layout, slot) in enumerate(form.columns.values()):
            buffers = batch.column(i).buffers()
            at[slot] = buffers[1]
            if layout.textual:
                at[slot + 2] = buffers[2]
            if slot + 1 in told:
                at[slot + 1] = batch.column(behind).buffers()[1]
                behind += 1
        if form.ids_slot in told:
            at[form.ids_slot] = batch.column(behind).buffers()[1]
        rows = [
            (slot, at[slot].address - data.address if nbytes else 0, nbytes, summed)
            for slot, (nbytes, summed) in told.items()
        ]
        found.append(np.array(rows, np.int64).reshape(-1, 4))
    return found
