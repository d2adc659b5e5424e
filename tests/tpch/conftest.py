"""Generated data, once for all tests here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tpch.generate import generate, load


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for `--data` that holds scale factor 0.01."""
    return generate(0.01, tmp_path_factory.mktemp("tpch")).parent


@pytest.fixture(scope="session")
def generated_tables(generated: Path) -> dict[str, pa.Table]:
    return load(generated / "sf0.01")
