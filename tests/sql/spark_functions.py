"""The built-in functions of Spark: `python -m tests.sql.spark_functions` records their names, by
Spark's own groups, and writes FUNCTIONS.md, which says of each whether views have it."""

from __future__ import annotations

import json
from pathlib import Path

from planner.bind.builtin import maintained
from planner.bind.refused import BY_NAME, OF_OTHER_TYPES, VARYING
from sqlview.oracle.functions import BY_SPARK

LISTED = Path(__file__).with_name("spark_functions.json")
PAGE = Path(__file__).parents[2] / "FUNCTIONS.md"
_TITLES = {"agg_funcs": "aggregates", "lambda_funcs": "lambdas", "misc_funcs": "others"}


def listed() -> dict[str, str]:
    """Each function of Spark, and its group."""
    found: dict[str, str] = json.loads(LISTED.read_text())["functions"]
    return found


def shares() -> tuple[int, int, int, int]:
    """How many functions views have, of how many; of the deterministic ones; and of those without
    the ones of sketches and of types that no column has."""
    names, known = listed().keys(), maintained()
    count = len(names & known)
    of_values = [n for n in names if n in known or BY_NAME[n] not in VARYING]
    of_columns = [n for n in of_values if n in known or BY_NAME[n] not in OF_OTHER_TYPES]
    return count, len(names), len(of_values), len(of_columns)


def page() -> str:
    """FUNCTIONS.md."""
    groups: dict[str, list[str]] = {}
    for name, group in sorted(listed().items()):
        groups.setdefault(group, []).append(name)
    known = maintained()
    names = listed()
    version = json.loads(LISTED.read_text())["spark"]
    count, _, of_values, of_columns = shares()
    lines = [
        "# Functions",
        "",
        f"Of the {len(names)} built-in functions and operators of Spark {version}, views have",
        f"{count}. README.md shows how each is written, and what its arguments may be. This page",
        "is made by `python -m tests.sql.spark_functions`.",
        "",
        f"Deterministic are {of_values}: views have {count / of_values:.0%} of them; without those",
        "of sketches, whose bytes are a library's own, and of types that no column has, they are",
        f"{of_columns}, of which views have {count / of_columns:.0%}.",
        "",
        "Views with a function that is here in *italics* are verified by Spark, not by DuckDB.",
    ]
    for group, members in sorted(groups.items(), key=lambda g: _title(g[0])):
        lines += ["", f"## {_title(group).capitalize()}", ""]
        have = [f"*{_code(n)}*" if n in BY_SPARK else _code(n) for n in members if n in known]
        if have:
            lines += [f"In views: {' '.join(have)}", ""]
        reasons: dict[str, list[str]] = {}
        for name in members:
            if name not in known:
                reasons.setdefault(BY_NAME[name], []).append(_code(name))
        lines += [f"- Refused: {' '.join(some)}: {why}." for why, some in reasons.items()]
        if not reasons:
            lines.pop()
    return "\n".join(lines).rstrip() + "\n"


def _title(group: str) -> str:
    return _TITLES.get(group, group.removesuffix("_funcs").replace("_", " "))


def _code(name: str) -> str:
    return f"`` {name} ``" if "|" in name or "`" in name else f"`{name}`"


def record() -> None:
    """Ask Spark for its functions."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    )
    try:
        jvm = session._jsparkSession  # type: ignore[attr-defined]
        registry = jvm.sessionState().functionRegistry()
        functions = dict.fromkeys(
            (row[0] for row in session.sql("SHOW SYSTEM FUNCTIONS").collect()), "syntax"
        )
        names = registry.listFunction()
        for i in range(names.size()):
            found = registry.lookupFunction(names.apply(i))
            if found.isDefined():
                functions[names.apply(i).funcName()] = found.get().getGroup()
        text = {"spark": session.version, "functions": dict(sorted(functions.items()))}
    finally:
        session.stop()
    LISTED.write_text(json.dumps(text, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    record()
    PAGE.write_text(page())
    count, names, of_values, of_columns = shares()
    print(f"{count} of {names} functions in views")
    print(f"{count / of_values:.1%} of {of_values} that are deterministic")
    print(f"{count / of_columns:.1%} of {of_columns} of them over columns' types, without sketches")
