"""Record what Spark makes of `spark_cases`: python -m tests.operators.record_spark

Each is evaluated as `CAST(… AS STRING)` in a local session, ANSI mode, time zone UTC. The answers
go to spark_expectations.json, which test_scalar_spark reads without Spark.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.operators.spark_cases import CASES

ANSWERS = Path(__file__).with_name("spark_expectations.json")


def main() -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    answers: dict[str, dict[str, str | None]] = {}
    try:
        for sql, _ in CASES:
            try:
                row = session.sql(f"SELECT typeof({sql}), CAST({sql} AS STRING)").first()
                assert row is not None
                answers[sql] = {"type": row[0], "value": row[1]}
            except PySparkException as error:
                found = re.search(r"\[([A-Z_]+)", str(error))
                answers[sql] = {"error": found[1] if found else str(error)[:80]}
        version = session.version
    finally:
        session.stop()
    ANSWERS.write_text(
        json.dumps({"spark": version, "answers": answers}, indent=0, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    main()
