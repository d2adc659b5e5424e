"""Text that comes in is UTF-8: the kernel against Python, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.arrow import to_column
from operators.flight.utf8 import first_invalid
from planner.calculus import types as t
from planner.errors import DataError
from tests.reference.rows import rows_to_table

FIELD = t.Field("s", t.STRING)
BAD = (
    b"\xff", b"\x80", b"a\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80", b"\xe2\x82", b"x" * 100 + b"\xfe" + b"y" * 100,
)  # fmt: skip
GOOD = (b"", b"a", "é".encode(), "\U0010ffff\x00".encode(), b"x" * 1000, "\ufffe".encode())


def _strings(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(
    st.lists(st.one_of(st.binary(max_size=20), st.sampled_from(GOOD), st.text().map(str.encode))),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_first_invalid(values: list[bytes], skipped: int, dropped: int) -> None:
    part = values[skipped : len(values) - dropped]
    array = _strings(list(values)).slice(skipped, len(part))
    wanted = next((i for i, v in enumerate(part) if not _decodes(v)), None)
    assert first_invalid(array) == wanted


def test_a_character_is_not_split_over_two_rows() -> None:
    assert first_invalid(_strings([b"a", b"\xc3", b"\xa9"])) == 1


@pytest.mark.parametrize("bad", BAD)
def test_refused_with_column_and_row(bad: bytes) -> None:
    array = _strings([*GOOD, None, bad])
    forms = [
        array,
        array.cast(pa.large_string()),
        pa.chunked_array([array.slice(0, 3), array.slice(3)]),
    ]
    forms.append(pa.DictionaryArray.from_arrays(pa.array(range(len(array))), array))
    for form in forms:
        with pytest.raises(DataError) as caught:
            to_column(form, FIELD)
        assert caught.value.message == 'text in column "s" is not UTF-8'
        assert f"Row {len(GOOD) + 1} of the data has the bytes" in str(caught.value.detail)
    assert len(to_column(array.slice(0, len(GOOD) + 1), FIELD)) == len(GOOD) + 1
    assert len(to_column(array.view(pa.binary()), t.Field("s", t.BINARY))) == len(array)


def test_what_lies_under_a_null_does_not_count() -> None:
    mask = pa.py_buffer(b"\x01")
    _, offsets, data = _strings([b"ok", b"\xff"]).buffers()
    array = pa.Array.from_buffers(pa.string(), 2, [mask, offsets, data])
    assert to_column(array, FIELD).values.to_pylist() == ["ok", ""]  # type: ignore[union-attr]


def test_lone_surrogates() -> None:
    with pytest.raises(DataError) as caught:
        rows_to_table([("ok",), (None,), ("a\ud800b",)], (FIELD,))
    assert str(caught.value) == (
        'text in column "s" has no UTF-8\n'
        "Detail: Row 2 has the lone surrogate '\\ud800', half a character of UTF-16.\n"
        "Hint: Join the halves: text.encode('utf-16', 'surrogatepass').decode('utf-16')."
    )


class _Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("value", [_Unprintable(), "x" * 10_000_000, [b"\xff"]])
def test_what_a_message_shows_is_short_and_there(value: object) -> None:
    with pytest.raises(DataError) as caught:
        rows_to_table([(value,)], (t.Field("n", t.INT),))
    assert len(str(caught.value)) < 300
