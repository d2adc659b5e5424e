"""Plans written and read back: everything of them returns, and nothing else can be made."""

from __future__ import annotations

import copy
import datetime
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given

import sqlview
from planner import dataflow as ir
from planner.bind import bind_query
from planner.calculus import types as t
from planner.calculus.expr import Call, Column, Literal
from planner.errors import FormatError, UnsupportedError
from planner.lower.views import lower
from planner.parse import parse_query
from planner.rewrite.optimizer import optimize
from planner.serialise import PLAN, PLAN_CLASSES, Format
from tests.planner.plans import CATALOG, plans
from tests.planner.test_explain import NAMES, QUERIES
from tests.planner.tpch_catalog import tpch
from tests.sql.test_traps import SCENARIOS


def check(root: ir.Store) -> str:
    text = PLAN.write(root)
    back = PLAN.read(text, ir.Store)
    assert back == root
    assert PLAN.write(back) == text, "names too, which equality leaves out"
    assert text.isascii()
    return text


def tpch_plan(name: str) -> ir.Store:
    query = parse_query((QUERIES / f"{name}.sql").read_text())
    return ir.Store(lower(optimize(bind_query(query, tpch()).plan), tpch()))


def test_tpch() -> None:
    assert len(NAMES) == 22
    for name in NAMES:
        check(tpch_plan(name))


def test_scenarios() -> None:
    """The views of all semantic traps."""
    written = 0
    for scenario in SCENARIOS:
        with sqlview.connect() as db:
            for spec in scenario.tables:
                key = f", PRIMARY KEY ({', '.join(spec.key)})" if spec.key else ""
                db.sql(f"CREATE TABLE {spec.name} ({spec.columns}{key})")
            for name, query in scenario.views.items():
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                check(db._catalog.view(name).root)
                written += 1
    assert written >= len(SCENARIOS)


@given(plan=plans())
def test_random_plans(plan: Any) -> None:
    try:
        root = ir.Store(lower(optimize(plan), CATALOG))
    except UnsupportedError:
        return
    check(root)


LITERALS = [
    Literal(None, t.INT),
    Literal(True, t.BOOLEAN),
    Literal(1, t.TINYINT),
    Literal(-(2**63), t.BIGINT),
    Literal(1.0, t.DOUBLE),
    Literal(0.1, t.DOUBLE),
    Literal(0.0, t.DOUBLE),
    Literal(-0.0, t.DOUBLE),
    Literal(5e-324, t.DOUBLE),
    Literal(math.inf, t.FLOAT),
    Literal(-math.inf, t.DOUBLE),
    Literal(math.nan, t.DOUBLE),
    Literal("", t.STRING),
    Literal('"\\ \n \x00 é 𝄞 \ud800', t.STRING),
    Literal(b"", t.BINARY),
    Literal(bytes(range(256)), t.BINARY),
    Literal(Decimal("0.00"), t.DecimalType(3, 2)),
    Literal(Decimal("-12345678901234567890123456789012345678"), t.DecimalType(38, 0)),
    Literal(Decimal("1E-38"), t.DecimalType(38, 38)),
    Literal(datetime.date.min, t.DATE),
    Literal(datetime.date.max, t.DATE),
    Literal(-62135596800000000, t.TIMESTAMP),
    Literal(0, t.TIMESTAMP_NTZ),
    Literal(-1, t.INTERVAL_MONTHS),
    Literal(7, t.INTERVAL_MICROSECONDS),
    Literal(None, t.NULL),
]


def test_values_of_all_types() -> None:
    schema = tuple(t.Field(str(i), v.type) for i, v in enumerate(LITERALS))
    root = ir.Constant((tuple(LITERALS), tuple(reversed(LITERALS))), schema)
    back = PLAN.read(PLAN.write(root), ir.Constant)
    assert back == root
    for a, b in zip(root.rows[0], back.rows[0], strict=True):
        assert (type(a.value), repr(a.value)) == (type(b.value), repr(b.value))


def test_names_stay_apart() -> None:
    """Columns that are equal but for their names."""
    left, right = (Column(0, t.INT, True, name) for name in ("a", "b"))
    call = Call("add", (left, right), t.INT, True)
    back = PLAN.read(PLAN.write(call), Call)
    assert [a.name for a in back.args if isinstance(a, Column)] == ["a", "b"]


def test_shared_subplans_are_written_once() -> None:
    """And deep ones need no recursion."""
    node: Any = Column(0, t.BIGINT, False, "x")
    for _ in range(5_000):
        node = Call("add", (node, node), t.BIGINT, False)
    text = PLAN.write(node)
    assert len(text) < 500_000
    back: Any = PLAN.read(text, Call)
    assert back.args[0] is back.args[1]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "no JSON"),
        ("[", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("1" * 5_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        ("null", None),
        ("[]", None),
        ("{}", None),
        ('{"format":"sqlview job"}', None),
    ],
)
def test_no_plan_at_all(text: str | bytes, detail: str | None) -> None:
    with pytest.raises(FormatError, match="this is no sqlview plan") as caught:
        PLAN.read(text, ir.Store)
    assert (detail or "") in (caught.value.detail or "")


def document() -> Any:
    return json.loads(PLAN.write(tpch_plan("q03")))


@pytest.mark.parametrize(("field", "value"), [("version", 2), ("version", None), ("by", "other")])
def test_another_version(field: str, value: object) -> None:
    with pytest.raises(FormatError, match="another version of sqlview"):
        PLAN.read(json.dumps(document() | {field: value}), ir.Store)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        [None],
        [["Column"]],
        {"Column": 1},
        "Column",
        ["os.system", "true"],
        ["Popen", "true"],
        ["Column"],
        ["Column", "0", 0, True, "x"],
        ["IntegerType", 7],
        ["IntegerType", True],
        ["IntegerType", 8.0],
        ["IntegerType", 8, 8],
        ["DecimalType", 39, 0],
        ["Literal", {"pickle": "gASVAAAA"}, 0],
        ["Literal", {"bytes": "!"}, 0],
        ["Literal", {"decimal": "one"}, 0],
        ["Literal", {"date": "2020-02-30"}, 0],
        ["Literal", {"float": "x"}, 0],
        ["Literal", {}, 0],
        ["Literal", {"bytes": "", "date": ""}, 0],
        ["Literal", [1], 0],
        ["Field", "x", -1, True],
        ["Field", "x", 10**9, True],
        ["Call", "system", [], 0, True],
    ],
)
def test_wrong_entries(entry: Any) -> None:
    broken = document()
    broken["entries"].append(entry)
    number = len(broken["entries"]) - 1
    with pytest.raises(FormatError) as caught:
        PLAN.read(json.dumps(broken), ir.Store)
    assert (caught.value.detail or "").startswith(f"Entry {number} is wrong: ")


@pytest.mark.parametrize("root", [None, -1, 10**9, 0, "0", True])
def test_wrong_root(root: Any) -> None:
    with pytest.raises(FormatError, match="this is no sqlview plan"):
        PLAN.read(json.dumps(document() | {"root": root}), ir.Store)


def damaged(whole: Any, rng: Random) -> Any:
    """A copy in which some part is another part, or something else."""
    whole = copy.deepcopy(whole)
    places = list(_places(whole))
    for _ in range(rng.randint(1, 3)):
        holder, key = rng.choice(places)
        other, there = rng.choice(places)
        odd = [None, True, -1, 0, 1e300, "x", [], {}, {"date": "x"}, other[there]]
        holder[key] = copy.deepcopy(rng.choice(odd))
    return whole


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


def test_damaged_plans() -> None:
    """Whatever is changed in the text: it is refused, or makes a plan of the same classes."""
    rng, whole, refused = Random(5), document(), 0
    allowed = {c.__name__ for c in PLAN_CLASSES}
    for _ in range(500):
        text = json.dumps(damaged(whole, rng))
        try:
            made = PLAN.read(text, ir.Store)
        except FormatError:
            refused += 1
        else:
            assert {e[0] for e in json.loads(PLAN.write(made))["entries"]} <= allowed
    assert refused > 300


@dataclass(frozen=True)
class _Odd:
    value: int | ir.Store


@dataclass(frozen=True)
class _Free:
    value: Any


def test_what_has_no_plain_form() -> None:
    with pytest.raises(TypeError, match=r"Job|_Free is not in a sqlview plan"):
        PLAN.write(_Free(1))
    with pytest.raises(TypeError, match="list where there is to be tuple"):
        PLAN.write(ir.Repeat(ir.Constant([], ()), 0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="object where there is to be"):
        PLAN.write(Literal(object(), t.INT))  # type: ignore[arg-type]
    for cls in (_Odd, _Free):
        with pytest.raises(TypeError, match="no plain form"):
            Format("x", 1, (*PLAN_CLASSES, cls)).write(_Free(1))
