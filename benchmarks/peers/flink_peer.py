"""Flink SQL by PyFlink: bounded streaming jobs over CSV files, with mini-batches.

A query runs twice: its changelog is collected and summed up to the answer, which also warms the
JVM up; then, timed, it goes to a sink that drops it. Ingestion is a job that reads the same columns
of the same tables into such sinks. All three include the start of the job.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

SETTINGS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "20000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "pipeline.object-reuse": "true",
}
_RISING = ("INSERT", "UPDATE_AFTER")


def main(task: dict[str, Any]) -> None:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {**SETTINGS, "parallelism.default": str(task["threads"])}.items():
        env.get_config().set(name, value)
    for name, table in task["tables"].items():
        path = Path(task["csv"]) / f"{name}.csv"
        columns = ", ".join(f"{column} {kind}" for column, kind in table["columns"])
        key = ", ".join(table["key"])
        env.execute_sql(
            f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}) NOT ENFORCED) WITH ("
            f"'connector'='filesystem', 'path'='file://{path}', 'format'='csv', "
            "'csv.field-delimiter'='|')"
        )
    ingested: dict[str, float] = {}
    for query in task["queries"]:
        try:
            rows = _collect(env, query["sql"])
            seconds = _drop(env, {query["name"]: query["sql"]})
            reads = {
                name: f"SELECT {', '.join(columns)} FROM {name}"
                for name, columns in query["reads"].items()
            }
            place = json.dumps(reads, sort_keys=True)
            if place not in ingested:
                ingested[place] = _drop(env, reads)
            found = {"query": query["name"], "seconds": seconds,
                     "ingest_seconds": ingested[place], "rows": rows}  # fmt: skip
        except Exception as error:  # whatever Py4J brings: the report names it
            found = {"query": query["name"], "error": _reason(str(error))}
        print(json.dumps(found), flush=True)


def _collect(env: TableEnvironment, sql: str) -> list[list[str | None]]:
    """The rows that the changelog leaves."""
    rows: Counter[tuple[Any, ...]] = Counter()
    with env.execute_sql(sql).collect() as changes:
        for change in changes:
            rows[tuple(change)] += 1 if change.get_row_kind().name in _RISING else -1
    left = [row for row, count in rows.items() for _ in range(count)]
    return [[None if value is None else str(value) for value in row] for row in left]


def _drop(env: TableEnvironment, selects: dict[str, str]) -> float:
    """Seconds of one job that computes the selects and drops the results."""
    statements = env.create_statement_set()
    for name, sql in selects.items():
        table = env.sql_query(sql)
        schema = table.get_schema()
        kinds = zip(schema.get_field_names(), schema.get_field_data_types(), strict=True)
        columns = ", ".join(f"`{column}` {_sql_type(kind)}" for column, kind in kinds)
        sink = f"dropped_{name}"
        env.execute_sql(f"DROP TABLE IF EXISTS {sink}")
        env.execute_sql(f"CREATE TABLE {sink} ({columns}) WITH ('connector'='blackhole')")
        statements.add_insert(sink, table)
    started = time.perf_counter()
    statements.execute().wait()
    return time.perf_counter() - started


def _sql_type(kind: Any) -> str:
    """PyFlink's types print as SQL nearly: VarCharType(n, true) and so on."""
    from pyflink.table.types import _to_java_data_type

    return str(_to_java_data_type(kind).getLogicalType().copy(True).asSerializableString())


def _reason(text: str) -> str:
    """The first line that says something."""
    lines = [line.strip() for line in text.splitlines() if "Exception: " in line]
    line = lines[0].split("Exception: ", 1)[1] if lines else text.strip().splitlines()[0]
    return line[:200]


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
