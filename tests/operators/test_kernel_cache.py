"""Compiled kernels are found again if nothing has changed that they are made of."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import operators.kernels
from operators.kernels import cache, lookup

_FILES = sorted(Path(operators.kernels.__path__[0]).glob("*.py"))


def test_what_a_module_is_made_of() -> None:
    assert cache.parts_of("texts") == ["cache", "jit", "memory", "texts"]
    assert {"sorting", "versions", "memory"} < {*cache.parts_of("lookup")}


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_all_that_a_module_imports_of_kernels_is_seen(path: Path) -> None:
    seen = {*cache.parts_of(path.stem)}
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module="operators" | "operators.kernels"):
                pytest.fail(f"{path.name}:{node.lineno}: name the module of kernels")
            case ast.ImportFrom(module=str(module)) if module.startswith("operators."):
                assert module.removeprefix("operators.kernels.") in seen
            case ast.Import(names=names) if path.stem != "compiling":
                assert not any(name.name.startswith("operators") for name in names)


def test_a_helper_elsewhere_makes_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {module: cache.digest_of(module) for module in ("lookup", "texts")}
    parts = {part for module in before for part in cache.parts_of(module)}
    texts = {part: cache.text_of(part) for part in parts}
    texts["sorting"] += b"# other\n"
    monkeypatch.setattr(cache, "text_of", texts.__getitem__)
    assert cache.digest_of.__wrapped__("lookup") != before["lookup"]
    assert cache.digest_of.__wrapped__("texts") == before["texts"]


@pytest.mark.skipif(not hasattr(lookup.seek, "_cache"), reason="interpreted")
def test_a_kernel_is_kept_there() -> None:
    assert lookup.seek._cache.cache_path == cache.directory_of("lookup")


def test_a_place_of_others_is_left_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ours = tmp_path / "sqlview" / "kernels"
    found = Path(cache.directory_of.__wrapped__("texts"))
    assert found.parent == ours
    assert ours.stat().st_mode & 0o777 == 0o700
    ours.chmod(0o777)
    found = Path(cache.directory_of.__wrapped__("texts"))
    assert found.parent == _FILES[0].parent / "__pycache__"


@pytest.mark.skipif(not hasattr(lookup.seek, "_cache"), reason="interpreted")
def test_kernels_in_the_cache_are_loaded_when_they_are_called() -> None:
    """In a process of its own: here nearly all have been."""
    program = """
import numpy as np
from operators.kernels import fronts, jit, lookup, memory
assert not memory.all_same.overloads and not lookup.emit.overloads
rows = np.arange(4)
with_doubles = rows.astype(float)
for wrong in ((), (with_doubles,), (rows, rows)):
    try:
        memory.all_same(*wrong)
    except TypeError:
        continue
    raise AssertionError(wrong)
rows.flags.writeable = False
assert not memory.all_same(rows)
assert memory.all_same.overloads and not lookup.emit.overloads
jit.load_all()
assert all(k.overloads for k in (lookup.emit, fronts.first_visible))
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


@pytest.mark.skipif(not hasattr(lookup.seek, "_cache"), reason="interpreted")
@pytest.mark.skipif(not cache._runs_portable(), reason="made for another processor")
def test_an_installation_may_bring_kernels(tmp_path: Path) -> None:
    """They are used where the cache has none, and nothing is compiled then."""
    brought, own = tmp_path / "brought", tmp_path / "own"
    processor = cache.portable_processor()
    assert processor is not None

    def run(**environment: str) -> None:
        program = f"""
from pathlib import Path
import numpy as np
from operators.kernels import cache
cache.COMPILED = Path({str(brought)!r})
from operators.kernels.extremes import extremes
ints, none = lambda *found: np.array(found, np.int64), np.empty((1, 1), np.int64)
best, known = ints(7), np.zeros(1, bool)
words = np.array([[3, 1, 2]])
extremes(ints(0, 1, 2), ints(0, 3), ints(0, 1), ints(1, 1, 1), words, none,
         np.zeros(1, bool), best, known)
assert best.tolist() == [1] and known.all()
"""
        environment = {**os.environ, "XDG_CACHE_HOME": str(own), **environment}
        subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, check=True)

    run(NUMBA_CACHE_DIR=str(brought), NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES="")
    assert [*brought.rglob("*.nbc")] and not own.exists()
    run(NUMBA_CACHE_DIR="")
    assert not [*own.rglob("*.nbc")]
