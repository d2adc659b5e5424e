"""Files of cases: the text of a statement, a line `----`, what is expected of it, an empty line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Case:
    text: str
    expected: str


def read(name: str) -> list[Case]:
    """The cases of `<name>.txt`, in order."""
    blocks = _path(name).read_text().strip("\n").split("\n\n")
    parts = [block.partition("\n----") for block in blocks]
    return [Case(text, expected.strip("\n")) for text, _, expected in parts]


def bless(name: str, result: Callable[[str], str]) -> None:
    """Rewrite the expectations of a file."""
    blocks = [f"{c.text}\n----\n{result(c.text)}\n" for c in read(name)]
    _path(name).write_text("\n".join(blocks))


def _path(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.txt")
