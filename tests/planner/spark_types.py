"""Result types as Spark gives them: the expressions, and how spark_types.tsv is made from them.

`python -m tests.planner.spark_types` asks a local Spark for the type of each expression over a
table with one column of each type and rewrites the file. Each line has the expression, its type or
`-` where Spark refuses it, and for comparisons the types of the operands after coercion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("spark_types.tsv")

#: column -> its type in Spark SQL
COLUMNS = {
    "c_boolean": "boolean",
    "c_tinyint": "tinyint",
    "c_smallint": "smallint",
    "c_int": "int",
    "c_bigint": "bigint",
    "c_float": "float",
    "c_double": "double",
    "c_decimal5": "decimal(5,2)",
    "c_decimal15": "decimal(15,2)",
    "c_decimal20": "decimal(20,0)",
    "c_decimal38": "decimal(38,10)",
    "c_string": "string",
    "c_binary": "binary",
    "c_date": "date",
    "c_timestamp": "timestamp",
    "c_timestamp_ntz": "timestamp_ntz",
}

_PAIRS = ["X + Y", "X - Y", "X / Y", "X div Y", "X % Y"]
_SYMMETRIC = ["X * Y", "X < Y", "coalesce(X, Y)", "X in (select Y from t)"]
_SINGLE = """
sum(X); avg(X); count(X); -X; abs(X); round(X); round(X, 1); round(X, -1); floor(X); ceil(X);
sqrt(X); power(X, 2); X || X; concat(X, X); upper(X); length(X); trim(X); replace(X, 'a', 'b');
startswith(X, 'a'); substring(X, 1, 2); substring('abc', X); X like 'a'; year(X); hour(X);
extract(year from X); extract(second from X); date_add(X, 1); date_add(c_date, X); datediff(X, X);
add_months(X, 1); date_trunc('month', X); trunc(X, 'month'); X + interval '1' day;
X + interval '1' month; X + interval '1' hour; X - date '2020-01-01'; X is true; not X;
X and true; X = 1; X = '1'; X > '2020-01-01'; X < 1.5; X between 1 and 2; X in (1, 2); X in ('a');
X + 1; X - 1.5; X * 1.5; X / 3; 1 - X; mod(X, 2); coalesce(X, 1); coalesce(X, 'a'); nvl(X, 1.5);
nullif(X, 1); if(true, X, null); greatest(X, X); case X when 1 then 2 end;
case when true then X else 1 end; cast(X as string); cast(X as int); cast(X as decimal(10, 2));
cast(X as date); cast(X as timestamp); cast(X as boolean); cast(X as double); try_cast(X as bigint);
min(X); max(X); any_value(X); count(distinct X); sum(distinct X); avg(distinct X); count_if(X);
bool_and(X); some(X); stddev(X); stddev_pop(X); variance(X); var_pop(X); std(X); mean(X);
sum(X) filter (where true); max(X) filter (where X is null); (select max(X) from t); (select X);
sign(X); positive(X); negative(X); isnan(X); last_day(X); weekday(X); right(X, 2); right('abc', X);
X ilike 'a'; X rlike 'a'; nvl2(X, X, 1); date_part('year', X); bigint(X); btrim(X); ltrim(X);
X in (1, X); (X, X) in (select X, X from t); exists (select X); ucase(X); mod(X, X)
"""
_CONSTANT = """
1; 3000000000; 12345678901234567890; 1.5; 00.10; .5; 5.; 0.05; 1e3; 1.5D; 5L; 5S; 5Y; 2.5f; 1.5BD;
-1; -2147483648; -2147483649; -9223372036854775808; 'x'; true; null; date '2020-01-01';
timestamp '2020-01-01 00:00:00'; 1.0 + 1; 1.0 * 2; 1.0 / 3; 1 / 3.0; 10 % 3.0; 1.1 + 1.11; 5 div 2;
5.0 div 2; 0.1 - 1; 1 - 0.1; cast(1 as bigint) - 0.1; 12345678901 * 0.5; 5Y * 0.5; 5S + 1.5;
100L * c_decimal5; -1 + c_decimal15; -(1) + c_decimal15; 1 + 1 + c_decimal15; 100.00 * c_decimal15;
sum(c_decimal15) / 7.0; 100.00 * sum(c_decimal15) / sum(c_decimal5); sum(c_int) / count(*);
avg(c_int) * 2; avg(c_decimal15) * 0.2; 0.2 * avg(c_decimal15); sum(c_decimal15 * (1 - c_decimal5));
sum(c_decimal15 * (1 - c_decimal5) * (1 + c_decimal5)); coalesce(null, 1); null + 1; null = 1;
case when true then 1 else 1.5 end; greatest(1, 1.5); date '2020-01-01' + 5; 5 + date '2020-01-01';
date '2020-01-01' - 5; date '2020-01-01' - interval '90' day; interval '1' day + date '2020-01-01';
date '2020-01-01' + interval '1-2' year to month; date '2020-01-01' + interval '0' hour;
coalesce(cast(null as decimal(38, 30)), cast(null as decimal(30, 0)));
cast(null as decimal(38, 10)) < cast(null as decimal(38, 0))
"""


def expressions() -> list[str]:
    found = []
    names = list(COLUMNS)
    for i, x in enumerate(names):
        for j, y in enumerate(names):
            shapes = _PAIRS + (_SYMMETRIC if i <= j else [])
            found += [s.replace("X", x).replace("Y", y) for s in shapes]
    single = [s.strip() for s in _SINGLE.replace("\n", " ").split(";")]
    found += [s.replace("X", x) for x in names for s in single]
    found += [s.strip() for s in _CONSTANT.replace("\n", " ").split(";")]
    return found


def _ask(spark: Any, expression: str) -> tuple[str, str]:
    from pyspark.errors import AnalysisException, ParseException

    try:
        frame = spark.sql(f"SELECT {expression} AS x FROM t")
    except (AnalysisException, ParseException):
        return "-", ""
    kind = frame.schema[0].dataType.simpleString().upper()
    operands = []
    if " < " in expression or " = " in expression or " > " in expression:
        top = frame._jdf.queryExecution().analyzed().expressions().apply(0).child().children()
        operands = [top.apply(i).dataType().sql() for i in range(top.size())]
    return kind, " ".join(operands)


def main() -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in COLUMNS.items())
    spark.sql(f"CREATE TEMPORARY VIEW t AS SELECT {columns}")
    lines = ["\t".join((e, *_ask(spark, e))).rstrip() for e in expressions()]
    FILE.write_text("\n".join(lines) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
