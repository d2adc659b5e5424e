"""Workers of a local Spark run this interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@pytest.fixture
def fail_once(tmp_path: Path) -> Callable[[Any], Any]:
    """For `mapInArrow`: the first task that has given all its rows fails, the others do not."""
    flag = tmp_path / "failed"

    def fails(batches: Any) -> Any:
        yield from batches
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        raise RuntimeError("once")

    return fails
