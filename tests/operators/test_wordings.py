"""Texts that are long are compared as short ones are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.scalar.wordings import _long_distance, distance

_TEXTS = st.text("abc😀", max_size=40)


@given(_TEXTS, _TEXTS)
def test_edits_of_long_texts(left: str, right: str) -> None:
    assert _long_distance(left, right) == distance(left, right)
