"""What keeps kernels quick to compile, and helpers safe (see operators.kernels.jit)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import operators.kernels
from operators.kernels.sorting import bucket_of

_FILES = sorted(Path(operators.kernels.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_no_kernel_assigns_to_a_slice(path: Path) -> None:
    """Only a constant may be: for an array numba compiles the message of its error as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    parts = [target.slice, *getattr(target.slice, "elts", [])]
                    assert not any(isinstance(part, ast.Slice) for part in parts), (
                        f"{path.name}:{node.lineno}: assign in a loop"
                    )


@pytest.mark.skipif(not hasattr(bucket_of, "py_func"), reason="interpreted")
def test_a_helper_cannot_be_called_from_python() -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="bucket_of is a helper of kernels"):
            bucket_of(1)
