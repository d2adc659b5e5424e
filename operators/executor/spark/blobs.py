"""What crosses an exchange: columns of numbers and texts as raw bytes.

A blob is a header of int64 words (rows, then kind, NULL mask and length of each column) and the
buffers behind it, each padded to 8 bytes. Prefixes of a join are matrices of int64 words and need
not even that. Blobs are cut so that none exceeds MAX_BYTES.

Law: the bytes are a function of the values alone; no paths, attempt numbers or clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight.column import Column, Ints, is_textual, text_type
from planner.calculus import types as t

MAX_BYTES = 8 << 20

_DTYPES = tuple(np.dtype(d) for d in (np.bool_, np.int64, np.float32, np.float64))
_TEXT, _WIDE = len(_DTYPES), len(_DTYPES) + 1


def encode_words(words: Ints) -> Iterator[bytes]:
    """int64[k, n] as blobs of whole columns."""
    k, n = words.shape
    step = max(1, MAX_BYTES // (8 * k))
    for start in range(0, n, step):
        yield np.ascontiguousarray(words[:, start : start + step]).tobytes()


def decode_words(blobs: Sequence[bytes], k: int) -> Ints:
    """The matrices one beside the other: int64[k, n], writable."""
    return np.concatenate([np.frombuffer(b, np.int64).reshape(k, -1) for b in blobs], axis=1)


def encode_columns(columns: Sequence[Column]) -> Iterator[bytes]:
    """Columns of one length (at least one column) as blobs of whole rows."""
    n = len(columns[0])
    if n == 0:
        return
    row_bytes = max(1, sum(_nbytes(c) for c in columns) // n)
    step = max(1, MAX_BYTES // row_bytes)
    for start in range(0, n, step):
        yield from _encoded(columns, start, min(start + step, n))


def decode_columns(blob: bytes, types: Sequence[t.SqlType]) -> list[Column]:
    """The columns of one blob, over memory of their own."""
    data = bytearray(blob)
    words = 1 + 3 * len(types)
    n, *described = np.frombuffer(data, np.int64, words).tolist()
    at = 8 * words
    columns: list[Column] = []
    for i, kind in enumerate(types):
        code, masked, length = described[3 * i : 3 * i + 3]
        values: Any
        if code == _TEXT:
            offsets = np.frombuffer(data, np.int32, n + 1, at)
            at += _padded(4 * (n + 1))
            text = memoryview(data)[at : at + length]
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
            values = pa.Array.from_buffers(text_type(kind), n, buffers)
        elif code == _WIDE:
            values = np.frombuffer(data, np.int64, 2 * n, at).reshape(n, 2)
        else:
            values = np.frombuffer(data, _DTYPES[code], n, at)
        at += _padded(length)
        valid = None
        if masked:
            valid = np.frombuffer(data, np.bool_, n, at)
            at += _padded(n)
        columns.append(Column(kind, values, valid))
    return columns


def _encoded(columns: Sequence[Column], start: int, end: int) -> Iterator[bytes]:
    """One blob, or several where long texts in some rows make it too big."""
    header = [end - start]
    buffers: list[np.ndarray[Any, Any]] = []
    for column in columns:
        if is_textual(column.type):
            code, length = _TEXT, _text_buffers(column.values, start, end, buffers)
        else:
            values = np.ascontiguousarray(column.values[start:end])
            code = _WIDE if values.ndim == 2 else _DTYPES.index(values.dtype)
            buffers.append(values)
            length = values.nbytes
        header += [code, column.valid is not None, length]
        if column.valid is not None:
            buffers.append(column.valid[start:end])
    parts = [np.array(header, np.int64).tobytes()]
    for buffer in buffers:
        raw = buffer.tobytes()
        parts += [raw, bytes(-len(raw) % 8)]
    if sum(map(len, parts)) > MAX_BYTES and end - start > 1:
        middle = (start + end) // 2
        yield from _encoded(columns, start, middle)
        yield from _encoded(columns, middle, end)
    else:
        yield b"".join(parts)


def _text_buffers(
    values: pa.Array, start: int, end: int, buffers: list[np.ndarray[Any, Any]]
) -> int:
    """Offsets from 0 and bytes of values[start:end]; returns how many bytes."""
    _, raw_offsets, raw_text = values.buffers()
    offsets = np.frombuffer(raw_offsets, np.int32, end - start + 1, 4 * (values.offset + start))
    first, length = int(offsets[0]), int(offsets[-1]) - int(offsets[0])
    buffers.append(offsets - offsets[0])
    text = np.frombuffer(raw_text, np.uint8, length, first) if length else np.empty(0, np.uint8)
    buffers.append(text)
    return length


def _nbytes(column: Column) -> int:
    return int(column.values.nbytes) + (0 if column.valid is None else len(column))


def _padded(nbytes: int) -> int:
    return nbytes + -nbytes % 8
