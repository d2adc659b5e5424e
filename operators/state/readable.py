"""What of a relation can be read from files, and what has to come along: see `reading`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from operators.flight import arrow
from operators.flight.column import Ints
from operators.kernels.memory import BLOCK_BITS, BLOCK_MASK, BLOCK_ROWS
from operators.state.pieces import Home
from operators.state.reading import BATCH_ROWS, FileBlock, FileColumn
from operators.state.relation import Relation
from operators.state.values import ValueFiles
from planner.calculus.types import Schema

#: Rows that come along with one part.
PIECE_ROWS = 2 * BLOCK_ROWS


def stored_columns(relation: Relation, columns: Sequence[int]) -> tuple[FileColumn, ...]:
    """How columns lie in blocks."""
    form = relation.form(columns)
    found = (form.columns[c] for c in columns)
    return tuple(
        FileColumn(slot, layout.storage.str, layout.words, layout.textual)
        for _, layout, slot in found
    )


def write_blocks(relation: Relation, values: ValueFiles) -> None:
    """Write the full blocks that lie in no file yet, between steps. Raises: OSError."""
    values.leave(relation.stored_blocks)
    stored = relation.stored_blocks
    full = range(relation.next_row >> BLOCK_BITS)
    homeless = [b for b in full if relation.stored_rows(b) and stored[b].home is None]
    if homeless:
        with values.writing() as out:
            out.blocks(relation.form(), [relation.block(b) for b in homeless])


def stored_blocks(
    relation: Relation,
    columns: Sequence[int],
    epoch: int,
    missing: Callable[[set[str]], set[str]],
) -> tuple[list[FileBlock], Ints]:
    """The blocks that lie in files, and the rows, ascending, that lie in none: all that is visible
    as of `epoch`, the latest one, between steps. `missing`: those of some files that are not there.
    Cost: O(blocks), and those rows.
    """
    slots = relation.slots_of(columns)
    dead = {block: bits for block, bits, _ in relation.dead_bits()}
    found: list[FileBlock] = []
    others: list[Ints] = []
    stored, full = relation.stored_blocks, relation.next_row >> BLOCK_BITS
    files = {s.home.file for s in stored if s.home is not None}
    gone = missing(files)
    for block in range((relation.next_row + BLOCK_MASK) >> BLOCK_BITS):
        rows = relation.stored_rows(block)
        home = stored[block].home if block < full else None
        if rows == 0:
            continue
        if home is None or home.file in gone:
            first = block << BLOCK_BITS
            end = min(first + BLOCK_ROWS, relation.next_row)
            others.append(relation.visible(epoch, first, end))
            continue
        bits = dead.get(block)
        found.append(
            FileBlock(
                rows, home.file, _within(home, slots), None if bits is None else bits.tobytes()
            )
        )
    return found, np.concatenate(others) if others else np.empty(0, np.int64)


def _within(home: Home, slots: frozenset[int]) -> tuple[tuple[int, int, int], ...]:
    return tuple(
        (slot, offset, nbytes) for slot, offset, nbytes, _ in home.places.tolist() if slot in slots
    )


def pieces(relation: Relation, columns: Sequence[int], rows: Ints) -> list[bytes]:
    """Rows that come along, in their order, as streams of Arrow's. Cost: a copy."""
    schema: Schema = tuple(relation.schema[c] for c in columns)
    found: list[bytes] = []
    for start in range(0, len(rows), PIECE_ROWS):
        some = rows[start : start + PIECE_ROWS]
        found.append(
            packed(arrow.from_columns([relation.gather(c, some) for c in columns], schema))
        )
    return found


def packed(table: pa.Table) -> bytes:
    """A table as a stream of Arrow's."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=BATCH_ROWS)
    return bytes(sink.getvalue())
