"""The mistakes that `python -m tests.mutation` plants can still be planted."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.mutation.planted import PLANTED, ROOT, Planted


def test_there_are_thirty_of_them_all_different() -> None:
    assert len(PLANTED) == 30
    assert len({p.name for p in PLANTED}) == len({(p.file, p.new) for p in PLANTED}) == 30
    assert len({p.file for p in PLANTED}) >= 15


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: p.name)
def test_each_is_one_edit_of_the_sources_as_they_are(planted: Planted, tmp_path: Path) -> None:
    target = tmp_path / planted.file
    target.parent.mkdir(parents=True)
    shutil.copy(ROOT / planted.file, target)
    planted.plant(tmp_path)
    assert ast.dump(ast.parse(target.read_text())) != ast.dump(
        ast.parse((ROOT / planted.file).read_text())
    )


def test_an_edit_of_what_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    for old in ("x = 2", "x = 1"):
        with pytest.raises(ValueError, match="places for it"):
            Planted("name", "what", "a.py", old, "x = 3").plant(tmp_path)
