"""Run by test_cluster in a process of its own: steps on a Spark with executors of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from operators.executor.spark import SparkExecutor
from tests.spark import twins


def main(directory: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Executors have the package, but not the tests.
    cloudpickle.register_pickle_by_value(twins)  # type: ignore[no-untyped-call]
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    try:
        for what in ("nothing", "task", "executor"):
            flag = directory / f"died-{what}"
            executor = SparkExecutor(
                spark,
                str(directory / what),
                tasks=2,
                task_rows=1,
                small_index_rows=0,
                combine_rows=0,
                probe=None if what == "nothing" else twins.die_once(str(flag), what, stage=1),
            )
            names = twins.VIEWS if what == "nothing" else ("three", "on_view")
            pair = twins.Twins(executor, twins.TABLES, {n: twins.VIEWS[n] for n in names})
            stream = twins.changes(31)
            for _ in range(2):
                assert pair.step([stream.transaction(40) for _ in range(3)]) > 0
            assert executor.failures == 0
            assert executor.jobs[0].stages == 4
            assert flag.exists() == (what != "nothing")
            pair.close()
            print(f"{what} killed: equal", flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
