"""Walking the bytes of nested values (operators.flight.nested says how they lie).

A type is a tree of nodes numbered so that the parts of a node follow each other: for node i,
`program[3 * i]` is FIXED, TEXT, LIST or STRUCT, `program[3 * i + 1]` the bytes of a FIXED or the
first part of a node, `program[3 * i + 2]` how many parts a STRUCT has. Node 0 is the whole.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.jit import BYTES, BYTES_OUT, INT64, INTS, INTS_OUT, kernel

FIXED, TEXT, LIST, STRUCT = 0, 1, 2, 3
END, NULL, VALUE = 0, 1, 2

#: On the stack a node with this added has its mark before it.
_MARKED = 1 << 20
#: … and with this, the mark of a list's next element.
_NEXT = 1 << 21


@kernel
def _skip(program, data, at, node, stack):
    """Where the value of a node ends that begins at `at`, behind its mark."""
    stack[0] = node
    top = 1
    while top > 0:
        top -= 1
        item = stack[top]
        if item >= _NEXT:
            mark = data[at]
            at += 1
            if mark != END:
                stack[top] = item
                top += 1
                if mark == VALUE:
                    stack[top] = item - _NEXT
                    top += 1
            continue
        if item >= _MARKED:
            item -= _MARKED
            mark = data[at]
            at += 1
            if mark != VALUE:
                continue
        op, part = program[3 * item], program[3 * item + 1]
        if op == FIXED:
            at += part
        elif op == TEXT:
            while data[at] != 0 or data[at + 1] != 0:
                at += 1 if data[at] != 0 else 2
            at += 2
        elif op == LIST:
            stack[top] = part + _NEXT
            top += 1
        else:
            for i in range(program[3 * item + 2] - 1, -1, -1):
                stack[top] = part + i + _MARKED
                top += 1
    return at


@kernel(signatures=[(INTS, BYTES, INTS, INTS, INTS_OUT, INTS_OUT)])
def list_lengths(program, data, starts, ends, lengths, stack):
    """How many elements each list has; node 0 is a LIST. Lists of no bytes have none."""
    element = program[1]
    for i in range(len(starts)):
        at, count = starts[i], 0
        while at < ends[i] and data[at] != END:
            count += 1
            if data[at] == VALUE:
                at = _skip(program, data, at + 1, element, stack)
            else:
                at += 1
        lengths[i] = count


@kernel(signatures=[(INTS, BYTES, INTS, INTS, INTS_OUT, INTS_OUT, INTS_OUT)])
def list_elements(program, data, starts, ends, first, last, stack):
    """Where each element begins, at its mark, and ends."""
    element = program[1]
    k = 0
    for i in range(len(starts)):
        at = starts[i]
        while at < ends[i] and data[at] != END:
            first[k] = at
            if data[at] == VALUE:
                at = _skip(program, data, at + 1, element, stack)
            else:
                at += 1
            last[k] = at
            k += 1


@kernel(signatures=[(INTS, BYTES, INTS, INTS, INT64, INTS_OUT, INTS_OUT, INTS_OUT)])
def struct_field(program, data, starts, ends, field, first, last, stack):
    """Where a field of each struct begins, at its mark, and ends; 0 and 0 in structs of no bytes.
    Node 0 is a STRUCT."""
    part = program[1]
    for i in range(len(starts)):
        at = starts[i]
        first[i] = 0
        last[i] = 0
        if at == ends[i]:
            continue
        for f in range(field + 1):
            first[i] = at
            if data[at] == VALUE:
                at = _skip(program, data, at + 1, part + f, stack)
            else:
                at += 1
        last[i] = at


@kernel(signatures=[(BYTES, INTS, INTS, INTS, BYTES_OUT)])
def copy_ranges(data, starts, ends, places, out):
    """The bytes [starts[i], ends[i]) to out from places[i] on."""
    for i in range(len(starts)):
        to = places[i] - starts[i]
        for at in range(starts[i], ends[i]):
            out[at + to] = data[at]


@kernel(signatures=[(BYTES, INTS, INTS, INTS_OUT)])
def text_lengths(data, starts, ends, lengths):
    """Bytes of texts, without the marks behind zeros."""
    for i in range(len(starts)):
        count, at = 0, starts[i]
        while at < ends[i]:
            at += 2 if data[at] == 0 else 1
            count += 1
        lengths[i] = count


@kernel(signatures=[(BYTES, INTS, INTS, INTS, BYTES_OUT)])
def copy_texts(data, starts, ends, places, out):
    """Texts, without the marks behind zeros, to out from places[i] on."""
    for i in range(len(starts)):
        to, at = places[i], starts[i]
        while at < ends[i]:
            out[to] = data[at]
            at += 2 if data[at] == 0 else 1
            to += 1


@kernel(signatures=[(BYTES, INTS, INT64, INTS_OUT)])
def words_at(data, starts, width, out):
    """Numbers of `width` bytes, at most 8, the greatest first; 0 where starts is negative."""
    for i in range(len(starts)):
        word = np.int64(0)
        if starts[i] >= 0:
            for k in range(width):
                word = (word << 8) | np.int64(data[starts[i] + k])
        out[i] = word
