"""What Spark itself answers to a fixed sample of random queries: a judge that shares nothing with
the other one.

`python -m tests.spark_answers` asks Spark and rewrites `tests/properties/spark_answers.jsonl`, one
case a line: tables with their rows at two moments, views, and Spark's rows of each view at both, or
null where Spark says that a row cannot be computed. `check` lets the engine answer: the views are
made over the first moment's rows and maintained to the second's.

Left out is what Spark leaves open (ties under LIMIT, the order inside lists, any value of a group),
what it does not parse or plan, and IN of a subquery in a select list, where Spark 4.3 takes what is
NULL for FALSE: with a NULL among the rows, 1 IN and 1 NOT IN are both FALSE to it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from planner.calculus import types as t
from planner.errors import ViewError
from sqlview.oracle import canonical_rows, compare
from sqlview.oracle.kinds import spark_type
from tests.harness import Checked, quoted
from tests.oracle_spark import SparkOracle
from tests.properties.cases import Case, DropView, MakeTable, MakeView, ReplaceView, Step, make
from tests.reference.tables import Change, Row, Table, arrow_table, net

ANSWERS = Path(__file__).parent / "properties" / "spark_answers.jsonl"

#: What Spark leaves open, and `mode` and `max_by` among equals.
_OPEN = re.compile(
    r"\b(LIMIT|OFFSET|any_value|mode|max_by|min_by|listagg|first|row_number|ntile|lag|lead"
    r"|first_value|last_value|nth_value|ROWS BETWEEN)\b",
    re.IGNORECASE,
)
#: The words that tell whether a subquery stands in a select list.
_CLAUSES = re.compile(r"\b(SELECT|WHERE|HAVING|ON|FROM)\b|\bIN \(SELECT\b")


@dataclass(frozen=True, slots=True)
class Asked:
    """A case: its tables, their rows at each moment, and the views as (name, query)."""

    seed: int
    tables: tuple[Table, ...]
    moments: tuple[dict[str, list[Row]], ...]
    views: tuple[tuple[str, str], ...]


def sample(case: Case) -> Asked | None:
    """What of a case both engines can be asked; None if that is nothing."""
    tables: dict[str, Table] = {}
    views: dict[str, MakeView] = {}
    moments: list[dict[str, list[Row]]] = []
    steps = [o for o in case.operations if isinstance(o, Step)]
    for operation in case.operations:
        match operation:
            case MakeTable(table):
                tables[table.name] = table.copy()
            case MakeView() | ReplaceView():
                view = operation.view if isinstance(operation, ReplaceView) else operation
                views.pop(view.name, None)  # a replaced one stands where it was made anew
                views[view.name] = view
            case DropView(name):
                views.pop(name, None)
            case Step(transactions):
                for change in (c for changes in transactions for c in changes):
                    tables[change.table].apply(change)
                if operation in (steps[0], steps[-1]):
                    moments.append({n: list(x.rows.elements()) for n, x in tables.items()})
    usable: dict[str, str] = {}
    readable = {name.lower() for name in tables}
    for view in views.values():
        words = set(re.findall(r"\bv\d+\b|\blog\b", view.query))
        if not _is_open(view.query) and words <= readable:
            usable[view.name] = view.query
            readable.add(view.name.lower())
    plain = all(quoted(name) == name for name in (*tables, *usable))
    large = any(len(rows) > 60 for moment in moments for rows in moment.values())
    if not usable or not plain or large or len(moments) < 2:
        return None
    empty = tuple(Table(x.name, x.schema, x.key) for x in tables.values())
    return Asked(case.seed, empty, (moments[0], moments[-1]), tuple(usable.items()))


def _is_open(text: str) -> bool:
    """Whether Spark's answer is not the only one, or IN of a subquery is in a select list."""
    if _OPEN.search(text):
        return True
    words = [m.group() for m in _CLAUSES.finditer(text)]
    return any(w == "SELECT" and after.startswith("IN") for w, after in pairwise(words))


def answers(asked: Asked, spark: Any) -> dict[str, list[pa.Table | None]]:
    """Spark's rows of each view at each moment; a view that Spark does not take is not there."""
    from pyspark.errors import AnalysisException, ParseException, UnsupportedOperationException

    found: dict[str, list[pa.Table | None]] = {name: [] for name, _ in asked.views}
    for moment in asked.moments:
        oracle = SparkOracle(spark)
        for table in asked.tables:
            oracle.load(table.name, arrow_table(table.schema, moment[table.name]))
        for name, text in asked.views:
            try:
                oracle.create_view(name, text)
                if name in found:
                    found[name].append(oracle.query(f"SELECT * FROM {quoted(name)}"))
            except (AnalysisException, ParseException, UnsupportedOperationException):
                found.pop(name, None)
            except Exception as error:
                if "SQLSTATE" not in str(error):
                    found.pop(name, None)  # a fault of Spark's own: its optimizer lost a column
                elif name in found:
                    found[name].append(None)
        oracle.close()
    return found


def check(line: dict[str, Any], db: Any) -> tuple[int, list[str]]:
    """The engine's answers against a recorded case: how many were compared, and what is wrong."""
    tables = [_table(x) for x in line["tables"]]
    moments = [
        {x.name: [_decoded(r, x.schema) for r in rows[x.name]] for x in tables}
        for rows in line["moments"]
    ]
    for table in tables:
        listed = [
            f"{quoted(f.name)} {f.type}{'' if f.nullable else ' NOT NULL'}" for f in table.schema
        ]
        if table.key:
            keys = ", ".join(quoted(table.schema[i].name) for i in table.key)
            listed.append(f"PRIMARY KEY ({keys})")
        db.sql(f"CREATE TABLE {quoted(table.name)} ({', '.join(listed)})")
    pairs, wrong = 0, []
    for number, moment in enumerate(moments):
        _advance(db, tables, moment)
        for view in line["views"]:
            if number == 0:
                db.sql(f"CREATE MATERIALIZED VIEW {quoted(view['name'])} AS {view['query']}")
            schema = tuple(t.Field(n, _type(k)) for n, k in view["columns"])
            rows = view["rows"][number]
            pairs += 1
            try:
                actual = db.view(view["name"]).to_arrow()
            except ViewError as error:
                if rows is not None:
                    wrong.append(f"{view['query']}\nat moment {number}: {error}")
                continue
            if rows is None:
                wrong.append(f"{view['query']}\nat moment {number}: Spark fails, the view does not")
                continue
            expected = arrow_table(schema, [_decoded(row, schema) for row in rows])
            kinds = [f.type for f in expected.schema]
            if [f.type for f in actual.schema] != kinds:
                wrong.append(f"{view['query']}\ntypes {actual.schema.types}, Spark's {kinds}")
                continue
            difference = compare(actual, expected)
            if difference is not None:
                wrong.append(f"{view['query']}\nat moment {number}: {difference}")
    return pairs, wrong


def _advance(db: Any, tables: Sequence[Table], moment: dict[str, list[Row]]) -> None:
    """One transaction that brings every table to the rows of the moment."""
    with db.transaction() as tx:
        for table in tables:
            after = Table(table.name, table.schema, table.key)
            after.apply(Change("insert", table.name, tuple(moment[table.name])))
            come, gone = net(table, after)
            tx.delete(table.name, arrow_table(table.schema, gone))
            tx.insert(table.name, arrow_table(table.schema, come))
            table.rows, table.by_key = after.rows, after.by_key


def judged(checked: Checked, spark: Any) -> tuple[int, list[str]]:
    """The views of a session as they are now against Spark's recompute: how many, what is wrong."""
    asked = Asked(
        0,
        tuple(checked.tables.values()),
        ({name: list(x.rows.elements()) for name, x in checked.tables.items()},),
        tuple((v.name, v.text) for v in checked.views.values() if not _is_open(v.text)),
    )
    wrong, pairs = [], 0
    if any(quoted(name) != name for name in (*checked.tables, *checked.views)):
        return 0, []
    for name, (expected,) in answers(asked, spark).items():
        pairs += 1
        try:
            actual = checked.db.view(name).to_arrow()
        except ViewError:
            actual = None
        if (actual is None) != (expected is None):
            wrong.append(f"{name}: of Spark and the engine one says that it fails")
        elif actual is not None:
            plain = pa.table(expected.columns, names=actual.column_names)
            difference = compare(actual, plain.cast(actual.schema))
            wrong += [] if difference is None else [f"{name}: {difference}"]
    return pairs, wrong


def recorded() -> Iterator[dict[str, Any]]:
    with ANSWERS.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _line(asked: Asked, found: dict[str, list[pa.Table | None]]) -> dict[str, Any]:
    views = []
    for name, text in asked.views:
        results = found.get(name, [])
        some = next((r for r in results if r is not None), None)
        if len(results) != len(asked.moments) or some is None:
            continue
        schema = tuple(t.Field(f.name, _spark_type(f.type)) for f in some.schema)
        views.append(
            {
                "name": name,
                "query": text,
                "columns": [[f.name, str(f.type)] for f in schema],
                "rows": [None if r is None else _encoded(r) for r in results],
            }
        )
    return {
        "seed": asked.seed,
        "tables": [
            {
                "name": x.name,
                "columns": [[f.name, str(f.type), f.nullable] for f in x.schema],
                "key": list(x.key),
            }
            for x in asked.tables
        ],
        "moments": [
            {x.name: _encoded(arrow_table(x.schema, rows[x.name])) for x in asked.tables}
            for rows in asked.moments
        ],
        "views": views,
    }


def _table(written: dict[str, Any]) -> Table:
    fields = tuple(t.Field(n, _type(k), nullable) for n, k, nullable in written["columns"])
    return Table(written["name"], fields, tuple(written["key"]))


def _type(name: str) -> t.SqlType:
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name)
    if decimal is not None:
        return t.DecimalType(int(decimal[1]), int(decimal[2]))
    return next(k for k in (t.BOOLEAN, t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, t.FLOAT, t.DOUBLE,
                            t.STRING, t.BINARY, t.DATE, t.TIMESTAMP) if str(k) == name)  # fmt: skip


def _spark_type(kind: pa.DataType) -> t.SqlType:
    if pa.types.is_timestamp(kind):
        return t.TIMESTAMP
    if pa.types.is_null(kind):
        return t.STRING
    found = spark_type(kind)
    assert found is not None and found is not True and found is not False, kind
    return found  # type: ignore[return-value]


def _encoded(table: pa.Table) -> list[list[Any]]:
    rows = [[_written(v) for v in row] for row in canonical_rows(table)]
    return sorted(rows, key=repr)


def _written(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case datetime.date() | datetime.datetime():
            return value.isoformat()
        case Decimal():
            return str(value)
        case _:
            return value


def _decoded(row: list[Any], schema: t.Schema) -> Row:
    return tuple(_read(v, f.type) for v, f in zip(row, schema, strict=True))


def _read(value: Any, kind: t.SqlType) -> Any:
    if value is None:
        return None
    match kind:
        case t.FloatType():
            return math.nan if value == "NaN" else float(value)
        case t.DecimalType():
            return Decimal(value)
        case t.DateType():
            return datetime.date.fromisoformat(value)
        case t.TimestampType():
            return datetime.datetime.fromisoformat(value)
        case t.BinaryType():
            return bytes.fromhex(value)
        case _:
            return value


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark_answers", description=__doc__)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=50_000)
    parser.add_argument("--bytes", type=int, default=900_000, help="of the file, at most")
    parser.add_argument("--output", type=Path, default=ANSWERS)
    options = parser.parse_args(arguments)
    import sqlview

    spark = sqlview.start_spark("local[2]")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    counts: Counter[str] = Counter()
    written = 0
    with options.output.open("w", encoding="utf-8") as file:
        seed = options.seed
        while counts["cases"] < options.cases:
            asked = sample(make(seed, 10))
            seed += 1
            if asked is None:
                continue
            line = _line(asked, answers(asked, spark))
            text = json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
            if not line["views"] or len(text) > 30_000:
                continue
            written += len(text.encode())
            if written > options.bytes:
                break
            file.write(text)
            counts["cases"] += 1
            counts["views"] += len(line["views"])
            counts["failing"] += sum(r is None for v in line["views"] for r in v["rows"])
            if counts["cases"] % 10 == 0:
                print(f"{dict(counts)}, {written:,} bytes", file=sys.stderr, flush=True)
    spark.stop()
    print(f"{dict(counts)}, {written:,} bytes in {options.output.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
