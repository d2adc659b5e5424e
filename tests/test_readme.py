"""The README says what is true: its Python runs and prints what it shows, the SQL that it calls
maintained or refused is, its functions are the planner's, and its commands take their options."""

from __future__ import annotations

import contextlib
import datetime
import io
import re
import shlex
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

import sqlview
from planner.bind.calls import CALLS
from planner.bind.group_aggregates import GROUP_AGGREGATES
from planner.bind.named import NAMED
from planner.bind.tables import NAMED_AGGREGATES, PLAIN
from planner.calculus.primitives import FUNCTIONS
from planner.parse import parse_query
from tests import fuzz
from tpch import cli, refresh_run, runner

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Calls with an operator of bits.
BITS = r"(n ([&|^]|<<|>>) |~n).*"
#: What SQL has no call for: operators, and what the planner makes by itself.
OPERATORS = frozenset(
    "add subtract multiply divide integral_divide remainder negate eq ne lt le gt ge eq_null_safe "
    "bit_and bit_or bit_xor bit_not in and or not is_null add_microseconds exact_sum_to_double "
    "checked_sum single_value variance period_edge magnitude user".split()
)


def section(title: str) -> str:
    """The text under a heading."""
    found = re.search(
        rf"^## {title}$(.*?)(?=^## |\Z)", README.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"the README has no section {title!r}"
    return found[1]


def sql_lines(title: str) -> list[str]:
    """The lines of the ```sql blocks of a section: a statement each, or a comment."""
    blocks = [text for kind, text in BLOCK.findall(section(title)) if kind == "sql"]
    return [line.strip() for text in blocks for line in text.splitlines() if line.strip()]


def maintained() -> list[str]:
    return [line.removesuffix(";") for line in sql_lines("What is maintained")]


def refused() -> list[tuple[str, str]]:
    """Statements, and the comments after them: their errors."""
    lines = sql_lines("What is refused")
    assert all(line.startswith("-- ") for line in lines[1::2])
    return [
        (query.removesuffix(";"), error.removeprefix("-- "))
        for query, error in zip(lines[::2], lines[1::2], strict=True)
    ]


def functions() -> list[str]:
    """The calls in the table of scalar functions."""
    _, text = section("What is maintained").split("**Scalar functions**")
    rows = [line for line in text.splitlines() if line.startswith("|") and "`" in line]
    return [call.replace("\\|", "|") for row in rows for call in re.findall(r"`([^`]+)`", row)]


def aggregates() -> list[str]:
    """The names in the list of aggregates."""
    _, text = section("What is maintained").split("**Aggregates.**")
    names = re.findall(r"`([^`]+)`", text.split("\n\n")[0])
    return [name for name in names if name.islower()]


def group_aggregates() -> list[str]:
    """The calls in the table of aggregates that recompute a group."""
    _, text = section("What is maintained").split("**Aggregates that recompute a group.**")
    rows = [line for line in text.split("**Scalar functions**")[0].splitlines() if "|" in line]
    return [call for row in rows for call in re.findall(r"`([^`]+)`", row)]


def commands() -> list[list[str]]:
    """The words of the indented `python -m …` lines."""
    lines = re.findall(r"^    python -m ((?:tpch|tests\.fuzz) .*)$", README.read_text(), re.M)
    return [shlex.split(line) for line in lines]


def pattern(shown: str) -> str:
    """What a ```text block matches: the widths of columns may differ, in a table of sizes the
    numbers too, and a line with an ellipsis stands for any lines."""
    lines = []
    number = r"|(?<= )\d+(?= )" if "bytes" in shown else ""
    for line in shown.strip().splitlines():
        if line.strip() == "…":
            lines.append(r"[\s\S]*")
            continue
        cells = re.split(rf"( {{2,}}|-{{3,}}{number})", line.strip())
        lines.append("".join(_loose(cell, bool(number)) for cell in cells))
    return r"\s*\n\s*".join(lines)


def _loose(cell: str, sizes: bool) -> str:
    if re.fullmatch(r" {2,}", cell):
        return r" +"
    if re.fullmatch(r"-{3,}", cell):
        return r"-+"
    return r"\d+" if sizes and cell.isdigit() else re.escape(cell)


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    """The tables of the README's SQL, with some rows."""
    day = datetime.date(2024, 1, 31)
    with sqlview.connect(placement="inline") as session:
        session.sql(
            "CREATE TABLE lines (id BIGINT PRIMARY KEY, part INT, size INT, price DECIMAL(15,2),"
            " discount DECIMAL(15,2), day DATE, note STRING)"
        )
        session.sql("CREATE TABLE parts (id INT PRIMARY KEY, name STRING, size INT, twin INT)")
        with session.transaction() as tx:
            tx.insert(
                "lines",
                [
                    (1, 1, 1, Decimal("10.00"), Decimal("0.10"), day, "PROMO"),
                    (2, 1, 2, Decimal("10.00"), Decimal("0.00"), day, "plain"),
                    (3, 2, 1, Decimal("7.50"), None, None, None),
                    (4, None, 2, Decimal("99.99"), Decimal("0.05"), day, "bolt"),
                ],
            )
            tx.insert("parts", [(1, "bolt", 2, 2), (2, "nut", 1, 1), (3, "gear", None, None)])
        yield session


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_python_blocks_print_what_is_shown() -> None:
    blocks = BLOCK.findall(README.read_text())
    names: dict[str, Any] = {}
    ran = 0
    for (kind, text), following in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(README), "exec"), names)  # the README's own text
        assert following[0] == "text", f"nothing shows what this prints:\n{text}"
        assert re.fullmatch(pattern(following[1]), printed.getvalue().strip()), printed.getvalue()
        ran += 1
    names["db"].close()
    assert ran >= 9


def test_the_first_view_is_short() -> None:
    kind, text = BLOCK.findall(section("A first view"))[0]
    assert kind == "python"
    assert len(text.splitlines()) <= 12


@pytest.mark.parametrize("query", maintained())
def test_maintained(db: sqlview.Session, query: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert db.verify("v").equal
    with db.transaction() as tx:
        tx.delete("lines", [(1,)])
        tx.upsert("parts", [(1, "PROMO", 9, 3)])
        tx.insert("lines", [(5, 3, 1, Decimal("0.01"), None, None, "gear")])
    assert db.verify("v").equal


@pytest.mark.parametrize(("query", "error"), refused())
def test_refused(db: sqlview.Session, query: str, error: str) -> None:
    with pytest.raises(sqlview.UnsupportedError) as caught:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert caught.value.message == error
    assert caught.value.hint
    with pytest.raises(sqlview.CatalogError):
        db.view("v")


def test_ties_of_a_limit_follow_the_rule(db: sqlview.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT note, id FROM lines ORDER BY price LIMIT 2")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT note, id FROM lines LIMIT 2 OFFSET 1")
    assert db.view("v").rows() == [(None, 3), ("PROMO", 1)]
    assert sorted(db.view("w").rows()) == [("PROMO", 1), ("bolt", 4)]


@pytest.mark.parametrize("name", aggregates())
def test_aggregates(db: sqlview.Session, name: str) -> None:
    of_booleans = ("count_if", "bool_and", "every", "bool_or", "some", "any")
    argument = "size > 1" if name in of_booleans else "size"
    calls = (f"{name}({argument})", f"{name}({argument}) FILTER (WHERE id < 3)")
    columns = ", ".join(f"{call} AS c{i}" for i, call in enumerate(calls))
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT part, {columns} FROM lines GROUP BY part")
    assert len(db.view("v")) == 3
    assert db.verify("v").equal
    if name == "any_value":
        assert (1, 1, 1) in db.view("v").rows()


def test_all_aggregates_are_listed() -> None:
    of_groups = {call.split("(")[0] for call in group_aggregates()}
    assert set(NAMED_AGGREGATES) <= set(aggregates()) | of_groups


def test_aggregates_that_recompute_a_group(db: sqlview.Session) -> None:
    every = group_aggregates()
    # Of these DuckDB has none: they are in tests/sql/test_group_functions.py.
    others = r"bitmap_|collect_union|percentile_approx|approx_percentile"
    calls = [call for call in every if not re.match(others, call)]
    _table_of_calls(db)
    filtered = [f"{call} FILTER (WHERE n < 9)" for call in calls]
    columns = ", ".join(f"{call} AS c{i}" for i, call in enumerate(calls + filtered))
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT b, {columns} FROM t GROUP BY b")
    db.sql(f"CREATE MATERIALIZED VIEW w AS SELECT {columns} FROM t")
    assert db.verify("v").equal and db.verify("w").equal
    named = {call.split("(")[0] for call in every}
    assert not GROUP_AGGREGATES - named, "all are listed"


#: The arguments of the calls in the table of functions.
COLUMNS = {
    "s": ("STRING", "a,b "),
    "n": ("INT", 7),
    "x": ("DOUBLE", 2.5),
    "d": ("DECIMAL(15,2)", Decimal("12.35")),
    "day": ("DATE", datetime.date(2024, 1, 31)),
    "ts": ("TIMESTAMP", datetime.datetime(2024, 1, 31, 10, 20, 30, tzinfo=datetime.timezone.utc)),
    "b": ("BOOLEAN", True),
}


def _table_of_calls(db: sqlview.Session) -> None:
    """The table t with the columns that the calls read: one row of values, one of NULLs."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    db.sql(f"CREATE TABLE t ({columns})")
    with db.transaction() as tx:
        tx.insert("t", [tuple(value for _, value in COLUMNS.values())])
        tx.insert("t", [(None,) * len(COLUMNS)])


def _columns(calls: list[str]) -> str:
    """The calls as columns: c0, c1, …"""
    texts = [call.replace("cast(s AS", "cast('5' AS") for call in calls]
    return ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))


def _shown(value: Any) -> str:
    """Doubles without their last digits."""
    return f"{value:.14g}" if isinstance(value, float) else str(value)


@pytest.mark.spark
def test_functions_give_what_spark_gives(spark: Any) -> None:
    with sqlview.connect(spark=spark, placement="inline") as db:
        _table_of_calls(db)
        query = f"SELECT {_columns(functions())} FROM t"
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        ours, sparks = db.view("v").to_arrow(), db.sql(query).to_arrow()
        assert ours.num_rows == 2
        for i, call in enumerate(functions()):
            found = sorted(map(_shown, ours.column(i).to_pylist()))
            assert found == sorted(map(_shown, sparks.column(i).to_pylist())), call


def test_functions_can_be_verified_unless_listed() -> None:
    limits = re.search(r"^- Verification runs.*?(?=^- )", section("Limits"), re.M | re.DOTALL)
    listed = re.findall(r"`(\w+)`", limits[0]) if limits is not None else []
    calls = [c for c in functions() if c.split("(")[0] not in listed and not re.fullmatch(BITS, c)]
    with sqlview.connect(placement="inline") as db:
        _table_of_calls(db)
        db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {_columns(calls)} FROM t")
        assert db.verify("v").equal
    assert len(calls) + len(listed) + 20 >= len(functions())


def test_the_functions_are_the_planners() -> None:
    """Every function of the planner is in the table, and every spelling that the binder knows."""
    trees = [parse_query(f"SELECT {call}").tree for call in functions()]
    kinds = {type(node) for tree in trees for node in tree.walk()}
    missing = {kind.__name__ for kind in (*PLAIN, *CALLS)} - {kind.__name__ for kind in kinds}
    assert not missing - {"Div", "Mod", "PeriodEdge"}
    named = {n.name.lower() for tree in trees for n in tree.find_all(exp.Anonymous)}
    assert set(NAMED) - {"float", "window_time"} <= named  # of periods of time
    words = {name.lower() for call in functions() for name in re.findall(r"\w+", call)}
    spelled = {name.replace("_", "") for name in words}
    synonyms = {"week": "weekofyear", "second_fraction": "second", "ceil_to": "ceil"}
    synonyms |= {"parse_timestamp": "to_timestamp", "try_parse_timestamp": "try_to_timestamp"}
    synonyms |= {"units_between": "timestampdiff", "floor_to": "floor"}
    synonyms |= {"try_remainder": "try_mod", "hex_of_number": "hex"}
    synonyms |= {"levenshtein_within": "levenshtein"}
    synonyms |= {"reverse_array": "reverse", "concat_arrays": "concat", "item": "get"}
    synonyms |= {"element_of": "element_at", "try_element_of": "try_element_at"}
    synonyms |= {"array_join_all": "array_join", "map_value": "map", "field": "struct"}
    synonyms |= {"element_fields": "struct", "json_fields": "json_tuple"}
    synonyms |= {"bytes_in": "to_binary", "bytes_in_or_null": "try_to_binary"}
    synonyms |= {"parse_url_key": "parse_url", "bitmap_place": "bitmap_bit_position"}
    synonyms |= dict.fromkeys(("interval_of", "units_of", "clock_of", "rounded_quotient"), "hour")
    spelled.add("jsontuple")  # makes columns
    for name in FUNCTIONS.keys() - OPERATORS:
        assert synonyms.get(name, name).replace("_", "") in spelled, name


def test_commands_take_their_options(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise sqlview.SqlViewError("the options are right")

    monkeypatch.setattr(runner, "run", stop)
    monkeypatch.setattr(refresh_run, "run", stop)
    seen = set()
    for program, *options in commands():
        if program == "tpch":
            assert cli.main(options) == 1  # 2 for a wrong command line
        else:
            assert fuzz.main([*options, "--cases", "0"]) == 0
        seen.add((program, options[0]))
    assert {("tpch", "stream"), ("tpch", "refresh"), ("tests.fuzz", "--pairs")} <= seen


def test_every_directory_and_target_named_is_there() -> None:
    for name in re.findall(r"^    (\w+)/ ", section("The repository"), re.MULTILINE):
        assert (README.parent / name).is_dir(), name
    targets = (README.parent / "Makefile").read_text()
    for name in set(re.findall(r"\bmake (\w+)\b", README.read_text())):
        assert re.search(rf"^{name}:", targets, re.MULTILINE), name
