"""Reading memory by address, and gathering rows from blocks.

A relation's rows lie in blocks of 2**BLOCK_BITS rows; a *slot* is one buffer of every block (the
values of a column, its validity, the dead bits …), given to kernels as an int64 array of addresses,
one per block, 0 where a block has none. Row id `r` is at place `r & BLOCK_MASK` of block
`r >> BLOCK_BITS`, unless the block has been compacted: then its slot `ids` points to the ascending
places (uint16) of the rows that it kept, `kept` says how many, and the rank there is the place.

Invariant: whoever passes addresses keeps the arrays behind them alive during the call.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from operators.kernels.jit import (
    BOOLS_OUT,
    BYTES_OUT,
    INT32S,
    INT32S_OUT,
    INT64,
    INTS,
    INTS2,
    INTS2_OUT,
    INTS_OUT,
    kernel,
)

BLOCK_BITS = 16
BLOCK_ROWS = 1 << BLOCK_BITS
BLOCK_MASK = BLOCK_ROWS - 1


def _loader(name: str, kind: Any, plain: Any) -> Any:
    """An intrinsic `name(address, index)` that reads one element; a ctypes twin with JIT off."""

    def typed(typingctx: Any, address: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element = context.get_data_type(kind)
            pointer = builder.inttoptr(args[0], element.as_pointer())
            return builder.load(builder.gep(pointer, [args[1]]))

        return kind(types.int64, types.int64), codegen

    if numba.config.DISABLE_JIT:
        size = ctypes.sizeof(plain)

        def read(address: int, index: int) -> int:
            return int(plain.from_address(int(address) + size * int(index)).value)

        return read
    typed.__name__ = name
    return intrinsic(typed)


def _storer(name: str, kind: Any, plain: Any) -> Any:
    """An intrinsic `name(address, index, value)` that writes one element."""

    def typed(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element = context.get_data_type(kind)
            pointer = builder.inttoptr(args[0], element.as_pointer())
            builder.store(args[2], builder.gep(pointer, [args[1]]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, kind), codegen

    if numba.config.DISABLE_JIT:
        size = ctypes.sizeof(plain)

        def write(address: int, index: int, value: int) -> None:
            plain.from_address(int(address) + size * int(index)).value = int(value)

        return write
    typed.__name__ = name
    return intrinsic(typed)


def _prefetcher() -> Any:
    """An intrinsic `prefetch(address)` that has a cache line read ahead; nothing with JIT off."""

    def typed(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            # For reading, to be kept in all caches, data.
            hints = [flag(0), flag(3), flag(1)]
            builder.call(function, [builder.inttoptr(args[0], byte), *hints])
            return context.get_dummy_value()

        return types.void(types.int64), codegen

    if numba.config.DISABLE_JIT:
        return lambda address: None
    typed.__name__ = "prefetch"
    return intrinsic(typed)


load_u8 = _loader("load_u8", types.uint8, ctypes.c_uint8)
load_u16 = _loader("load_u16", types.uint16, ctypes.c_uint16)
load_i32 = _loader("load_i32", types.int32, ctypes.c_int32)
load_i64 = _loader("load_i64", types.int64, ctypes.c_int64)
store_u8 = _storer("store_u8", types.uint8, ctypes.c_uint8)
store_i32 = _storer("store_i32", types.int32, ctypes.c_int32)
store_i64 = _storer("store_i64", types.int64, ctypes.c_int64)
prefetch = _prefetcher()


@kernel
def place(row, ids, kept):
    """Index of `row` in its block's buffers, or -1 if a compaction dropped it."""
    block = row >> BLOCK_BITS
    low = row & BLOCK_MASK
    address = ids[block]
    if address == 0:
        return low
    left = np.int64(0)
    right = kept[block]
    while left < right:
        middle = (left + right) >> 1
        if np.int64(load_u16(address, middle)) < low:
            left = middle + 1
        else:
            right = middle
    if left < kept[block] and np.int64(load_u16(address, left)) == low:
        return left
    return np.int64(-1)


@kernel
def bit_is_set(bits, row):
    """Bit `row` of a slot of uncompacted bitmaps (dead bits, filters)."""
    address = bits[row >> BLOCK_BITS]
    if address == 0:
        return False
    low = row & BLOCK_MASK
    return (np.int64(load_u8(address, low >> 3)) >> (low & 7)) & 1 == 1


@kernel(signatures=[(INTS,)])
def ascends_by_one(rows):
    """Whether each of rows int64[n] is the one before it and one."""
    for i in range(1, rows.shape[0]):
        if rows[i] != rows[i - 1] + 1:
            return False
    return True


@kernel(signatures=[(INTS,)])
def all_same(values):
    """Whether all of values int64[n] are the same."""
    for i in range(1, values.shape[0]):
        if values[i] != values[0]:
            return False
    return True


@kernel(signatures=[(INTS, INTS, INTS, INTS, BYTES_OUT)])
def gather_u8(slot, ids, kept, rows, out):
    """out[i] = the byte at rows[i]. Shapes: rows int64[n], out uint8[n]."""
    for i in range(rows.shape[0]):
        out[i] = load_u8(slot[rows[i] >> BLOCK_BITS], place(rows[i], ids, kept))


@kernel(signatures=[(INTS, INTS, INTS, INTS, BOOLS_OUT)])
def gather_valid(slot, ids, kept, rows, out):
    """out[i] = whether rows[i] is not NULL; blocks without NULLs have address 0. out bool[n]."""
    for i in range(rows.shape[0]):
        address = slot[rows[i] >> BLOCK_BITS]
        out[i] = True if address == 0 else load_u8(address, place(rows[i], ids, kept)) != 0


@kernel(signatures=[(INTS, INTS, INTS, INTS, INTS_OUT), (INTS, INTS, INTS, INTS, INT32S_OUT)])
def gather_i32(slot, ids, kept, rows, out):
    """out[i] = the 4-byte integer at rows[i], sign-extended. out int64[n] or int32[n]."""
    for i in range(rows.shape[0]):
        out[i] = load_i32(slot[rows[i] >> BLOCK_BITS], place(rows[i], ids, kept))


@kernel(signatures=[(INTS, INTS, INTS, INTS, INTS_OUT)])
def gather_i64(slot, ids, kept, rows, out):
    """out[i] = the 8-byte word at rows[i]. out int64[n] (doubles: view their bits)."""
    for i in range(rows.shape[0]):
        out[i] = load_i64(slot[rows[i] >> BLOCK_BITS], place(rows[i], ids, kept))


@kernel(signatures=[(INTS, INTS, INTS, INTS, INTS2_OUT)])
def gather_i128(slot, ids, kept, rows, out):
    """out[i] = the two words at rows[i]. out int64[n, 2]."""
    for i in range(rows.shape[0]):
        address = slot[rows[i] >> BLOCK_BITS]
        at = 2 * place(rows[i], ids, kept)
        out[i, 0] = load_i64(address, at)
        out[i, 1] = load_i64(address, at + 1)


@kernel(signatures=[(INTS2, INT64, INT64, INTS2, INTS, INTS, INTS2_OUT)])
def gather_words(addresses, ids_slot, kept_slot, slots, rows, places, out):
    """out[word:, places[i]] = the words at rows[i], for each of several slots.

    Shapes: addresses int64[all slots, blocks], slots int64[k, 3] of (slot, words a row, first word
    in out), rows, places int64[n], out int64[words, m].
    """
    ids = addresses[ids_slot]
    kept = addresses[kept_slot]
    for i in range(rows.shape[0]):
        block = rows[i] >> BLOCK_BITS
        at = place(rows[i], ids, kept)
        for k in range(slots.shape[0]):
            address = addresses[slots[k, 0], block]
            words = slots[k, 1]
            for w in range(words):
                out[slots[k, 2] + w, places[i]] = load_i64(address, words * at + w)


@kernel(signatures=[(INTS, INTS, INTS, INTS, INT32S_OUT)])
def text_offsets(slot, ids, kept, rows, out):
    """Arrow offsets of the texts at rows: out int32[n + 1]. Returns the bytes in all, which the
    caller checks against 2**31 before it trusts `out`."""
    total = np.int64(0)
    out[0] = 0
    for i in range(rows.shape[0]):
        address = slot[rows[i] >> BLOCK_BITS]
        at = place(rows[i], ids, kept)
        total += np.int64(load_i32(address, at + 1)) - np.int64(load_i32(address, at))
        out[i + 1] = total
    return total


@kernel(signatures=[(INTS, INTS, INTS, INTS, INTS, INT32S, BYTES_OUT)])
def text_bytes(slot, text, ids, kept, rows, offsets, out):
    """Copy the texts at rows to out uint8[offsets[n]], as `text_offsets` laid them out."""
    for i in range(rows.shape[0]):
        block = rows[i] >> BLOCK_BITS
        start = np.int64(load_i32(slot[block], place(rows[i], ids, kept)))
        base = np.int64(offsets[i])
        address = text[block]
        for j in range(np.int64(offsets[i + 1]) - base):
            out[base + j] = load_u8(address, start + j)


@kernel(signatures=[(INT32S_OUT, INT64, INT64, INT64, INT64)])
def append_offsets(offsets, at, others, first, count):
    """Let texts `at` and on be texts first to first + count of those whose Arrow offsets are at
    address `others`: offsets int32[n + 1].

    Returns: where their bytes begin, where they go, and how many they are; beyond 2**31, `offsets`
    are wrong.
    """
    begin, used = np.int64(load_i32(others, first)), np.int64(offsets[at])
    for i in range(count):
        offsets[at + i + 1] = np.int64(load_i32(others, first + i + 1)) - begin + used
    return begin, used, np.int64(load_i32(others, first + count)) - begin


@kernel(signatures=[(INTS2, INTS, INTS)])
def addresses(keys, rows, offsets):
    """Where three arrays lie."""
    return (
        np.int64(keys.ctypes.data),
        np.int64(rows.ctypes.data),
        np.int64(offsets.ctypes.data),
    )


@kernel(signatures=[(BYTES_OUT, INTS)])
def set_bits(bits, rows):
    """Set bit rows[i] of one block's bitmap (uint8[8192]); rows are places in the block."""
    for i in range(rows.shape[0]):
        bits[rows[i] >> 3] |= np.uint8(1 << (rows[i] & 7))


@kernel(signatures=[(INTS, INTS, BOOLS_OUT)])
def test_bits(bits, rows, out):
    """out[i] = bit rows[i] of a slot of bitmaps. Shapes: rows int64[n], out bool[n]."""
    for i in range(rows.shape[0]):
        out[i] = bit_is_set(bits, rows[i])
