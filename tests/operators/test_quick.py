"""Frozen dataclasses that are made quickly are otherwise what they were."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from operators.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class Made:
    first: int
    second: str
    third: int | None = None


def test_it_is_made_and_compared_as_before() -> None:
    made = Made(1, second="a")
    assert (made.first, made.second, made.third) == (1, "a", None)
    assert made == Made(1, "a", None)
    assert hash(made) == hash(Made(1, "a"))
    assert made != Made(1, "a", 3)
    assert repr(made) == "Made(first=1, second='a', third=None)"
    assert replace(made, third=3) == Made(1, "a", 3)
    assert pickle.loads(pickle.dumps(made)) == made


def test_it_stays_frozen_and_asks_for_its_fields() -> None:
    with pytest.raises(FrozenInstanceError):
        Made(1, "a").first = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="second"):
        Made(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="fourth"):
        Made(1, "a", fourth=4)  # type: ignore[call-arg]
