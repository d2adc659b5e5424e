"""Each rewrite rule by a query of its own: the plan that it meets and what it makes of it, beside
the rows of the query and what a transaction changes in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlview
from planner.bind import bind_query
from planner.calculus.algebra import Plan, Recursive
from planner.calculus.visit import walk
from planner.explain import explain_logical
from planner.parse import parse_query
from planner.rewrite import optimizer, rules
from planner.rewrite.optimizer import PASSES, Pass, Rule
from tests.planner.golden import check_golden
from tests.planner.tpch_catalog import Tables, table
from tests.reference import algebra as naive

CATALOG = Tables(tuple(table(n, "id:b x:b y:b? s:s", (0,)) for n in "abc"))
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "a": [(1, 1, 3, "p"), (2, 1, None, "q"), (3, 2, 5, "p"), (4, 5, 1, "r"), (5, 3, 4, "q")],
    "b": [(1, 1, 2, "p"), (2, 3, 3, "p"), (3, 1, 3, "p"), (5, 5, None, "q")],
    "c": [(1, 3, 1, "u"), (3, 4, 2, "v"), (4, 5, 3, "w")],
}
#: What a transaction takes away and brings, by table.
GONE = {"a": [(3,)], "b": [(1,)], "c": [(4,)]}
NEW: dict[str, list[tuple[Any, ...]]] = {
    "a": [(6, 1, 9, "p"), (7, 5, None, "s")],
    "b": [(6, 6, 3, "p"), (7, 2, 7, "r")],
    "c": [(6, 4, 2, "x")],
}

CASES = {
    "carry_rounds": """WITH RECURSIVE r(id) AS (
        SELECT id FROM a WHERE x = 1 UNION SELECT b.y FROM r JOIN b ON b.id = r.id)
        SELECT id FROM r""",
    "derive_input_filters": """SELECT a.id FROM a JOIN b ON a.x = b.x
        WHERE (a.y = 3 AND b.y = 3) OR (a.y = 9 AND b.y = 2)""",
    "drop_empty": "SELECT id FROM a WHERE x = 1 UNION ALL SELECT id FROM b WHERE 1 = 2",
    "expand_joins": "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x)",
    "expand_single_rows": "SELECT id, (SELECT y FROM b WHERE b.x = a.id + 1) AS y FROM a",
    "factor_disjunctions": """SELECT a.id FROM a, b
        WHERE (a.id = b.x AND a.x = 1) OR (a.id = b.x AND b.y = 3)""",
    "flatten_joins": """SELECT t.n, c.s FROM (
        SELECT a.id, a.x + b.y AS n FROM a JOIN b ON a.id = b.x) t JOIN c ON t.id = c.x""",
    "fold_constants": "SELECT id FROM a WHERE x > 1 + 1",
    "keep_joins": """SELECT a.id, c.s FROM a JOIN b ON a.x = b.id JOIN c ON a.y = c.x
        WHERE b.s = 'p' AND b.y = 3""",
    "lift_outer_joins": """SELECT a.id, b.s, c.y FROM a LEFT JOIN b ON a.x = b.x
        JOIN c ON c.id = a.id""",
    "limit_windows": """SELECT id FROM a
        QUALIFY row_number() OVER (PARTITION BY x ORDER BY y DESC) <= 1""",
    "make_thresholds": "SELECT id FROM a WHERE y > (SELECT avg(y) FROM a)",
    "merge_projects": "SELECT n + 1 AS n FROM (SELECT x * 2 AS n FROM a)",
    "nest_joins": "SELECT c.s FROM a JOIN b ON a.id = b.x JOIN c ON a.x + b.y = c.id",
    "propagate_constants": "SELECT a.id, b.id AS other FROM a JOIN b ON a.x = b.x WHERE a.x = 5",
    "prune_columns": "SELECT a.s FROM a JOIN b ON a.id = b.x",
    "push_aggregates": """SELECT a.id, count(b.y) AS n FROM a LEFT JOIN b ON b.x = a.x
        GROUP BY a.id""",
    "push_filters": """SELECT a.id FROM a JOIN (SELECT x, y + 1 AS n FROM b) t ON t.x = a.x
        WHERE t.n = 4""",
    "remove_distinct": "SELECT DISTINCT x, n FROM (SELECT x, count(*) AS n FROM a GROUP BY x)",
    "remove_identity_projects": """SELECT x, count(*) AS n FROM (SELECT id, x, y, s FROM a)
        GROUP BY x""",
    "restrict_aggregates": """SELECT b.id, t.n FROM b
        JOIN (SELECT x, sum(y) AS n FROM a GROUP BY x) t ON t.x = b.id
        WHERE b.s = 'p' AND b.y = 3""",
    "shorten_ties": "SELECT id, x, row_number() OVER (ORDER BY y) AS place FROM a",
    "simplify_outer_joins": "SELECT a.id, b.s FROM a LEFT JOIN b ON a.x = b.x WHERE b.y = 3",
    "split_disjunctive_joins": """SELECT a.id, b.id AS other FROM a
        JOIN b ON a.x = b.x OR a.y = b.y""",
    "split_distinct_aggregates": """SELECT x, count(DISTINCT y) AS n, sum(y) AS total FROM a
        GROUP BY x""",
}


def test_every_rule_has_a_case() -> None:
    folder = Path(rules.__file__).parent
    assert set(CASES) == {p.stem for p in folder.glob("*.py")} - {"__init__"}


def _key(name: str) -> tuple[int, ...] | None:
    info = CATALOG.relation(name)
    return None if info is None else info.primary_key


def _first_change(name: str, plan: Plan) -> tuple[Plan, Plan]:
    """The plan that the rule changes first on the way to lowering, and what it makes of it."""
    found: list[tuple[Plan, Plan]] = []

    def watched(rule: Rule, before: Plan) -> Plan:
        after = rule(before)
        module = (rule.func if isinstance(rule, partial) else rule).__module__
        if after is not before and module.rsplit(".", 1)[-1] == name:
            found.append((before, after))
        return after

    def run(stages: tuple[Pass, ...], plan: Plan, finish: Callable[[Plan], Plan]) -> Plan:
        watching = tuple(
            Pass(s.name, tuple(partial(watched, r) for r in s.rules), s.repeat) for s in stages
        )
        return finish(optimizer._run_all(watching, plan, check=False))

    optimized = run(PASSES, plan, lambda p: optimizer._named(p, plan.schema))
    run(optimizer._prepare_passes(_key), optimized, lambda p: p)
    assert found, f"{name} changes nothing of its case"
    return found[0]


def _run(text: str) -> str:
    """The rows of the query as a view, and how they change."""
    with sqlview.connect() as db:
        for name, held in ROWS.items():
            db.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, x BIGINT NOT NULL, y BIGINT, "
                   "s STRING NOT NULL)")  # fmt: skip
            with db.transaction() as tx:
                tx.insert(name, held)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {text}")
        lines = ["rows", *(f"  {row}" for row in sorted(db.view("v").rows(), key=str))]
        changes: list[pa.Table] = []
        db.subscribe("v", changes.append)
        assert db.verify("v").equal
        with db.transaction() as tx:
            for name in ROWS:
                tx.delete(name, GONE[name])
                tx.insert(name, NEW[name])
        assert db.verify("v").equal
        told = [
            f"  {row.pop('__diff'):+d} {tuple(row.values())}"
            for change in changes
            for row in change.drop_columns(["__time"]).to_pylist()
        ]
        return "\n".join([*lines, "changes", *sorted(told)])


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str, request: pytest.FixtureRequest) -> None:
    text = CASES[name]
    before, after = _first_change(name, bind_query(parse_query(text), CATALOG).plan)
    if not any(isinstance(p, Recursive) for p in walk(before)):
        for tables in (ROWS, _changed()):
            assert naive.rows(before, tables) == naive.rows(after, tables)
    parts = [
        " ".join(text.split()),
        f"-- before\n{explain_logical(before)}",
        f"-- after\n{explain_logical(after)}",
        f"-- run\n{_run(text)}",
    ]
    check_golden(f"rules/{name}.txt", "\n\n".join(parts), request)


def _changed() -> dict[str, list[tuple[Any, ...]]]:
    """The tables after the transaction."""
    return {
        name: [r for r in held if (r[0],) not in GONE[name]] + NEW[name]
        for name, held in ROWS.items()
    }
