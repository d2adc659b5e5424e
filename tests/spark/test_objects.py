"""Tasks over a store at a URL. On a server, with executors of their own:
`python -m tests.spark.objects`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.objects import lived


@pytest.mark.spark
def test_tasks_load_change_and_read_a_store_at_a_url(spark: Any, tmp_path: Path) -> None:
    lived(spark, f"file://{tmp_path}/store", 10_000)
