"""Random algebra plans over small integer tables, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from planner.calculus.algebra import (
    Aggregate,
    AggregateCall,
    Apply,
    Filter,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    SemiJoin,
    SortKey,
    TopK,
    UnionAll,
)
from planner.calculus.expr import Call, Column, Expr, Literal, Outer, conjunction
from planner.calculus.types import BIGINT, BOOLEAN, DOUBLE, Field
from tests.planner.build import scan
from tests.planner.tpch_catalog import Tables, table
from tests.reference.scalar import Row

CATALOG = Tables(
    (
        table("t", "a:b b:b? c:b?", (0,)),
        table("u", "a:b b:b c:b?", (0, 1)),
        table("v", "a:b? b:b?", None),
    )
)

_small = st.integers(0, 3)
_maybe = st.none() | _small


@st.composite
def contents(draw: st.DrawFn) -> dict[str, list[Row]]:
    """A few rows for each table, its key respected."""
    result = {}
    for info in CATALOG.relations:
        row = st.tuples(*(_maybe if f.nullable else _small for f in info.schema))
        key = info.primary_key
        unique = None if key is None else (lambda r, key=key: tuple(r[k] for k in key))
        result[info.name] = draw(st.lists(row, max_size=5, unique_by=unique))
    return result


def plans(depth: int = 3) -> st.SearchStrategy[Plan]:
    tables = st.sampled_from([scan(CATALOG, n) for n in CATALOG.names()])
    if depth == 0:
        return tables
    below = plans(depth - 1)
    return st.one_of(
        tables,
        _filters(below),
        _projects(below),
        _joins(below),
        _joins(below),
        _joins(tables),
        _aggregates(below),
        _unions(below),
        _tops(below),
        _outer_joins(below),
        _outer_joins(tables),
        _semi_joins(below),
        _subqueries(below),
        _subqueries(below),
        _laterals(below),
    )


def _numbers(plan: Plan) -> list[Column]:
    return [
        Column(i, f.type, f.nullable, f.name) for i, f in enumerate(plan.schema) if f.type == BIGINT
    ]


def _call(function: str, *args: Expr) -> Call:
    kind = BIGINT if function in ("add", "integral_divide") else BOOLEAN
    return Call(function, args, kind, any(a.nullable for a in args))


@st.composite
def numbers(draw: st.DrawFn, plan: Plan) -> Expr:
    """A BIGINT: a column, a literal, a sum, or a quotient that fails on 0."""
    columns = _numbers(plan)
    leaf: st.SearchStrategy[Expr] = st.integers(0, 3).map(lambda n: Literal(n, BIGINT))
    if columns:
        leaf = st.sampled_from(columns) | st.sampled_from(columns) | leaf
    kind = draw(st.integers(0, 9))
    if kind == 9:
        return _call("integral_divide", draw(leaf), draw(leaf))
    return _call("add", draw(leaf), draw(leaf)) if kind == 8 else draw(leaf)


@st.composite
def predicates(draw: st.DrawFn, plan: Plan, depth: int = 2) -> Expr:
    kind = draw(st.sampled_from("compare compare compare and or not null".split()))
    if depth == 0 or kind == "compare":
        function = draw(st.sampled_from("eq eq lt le ne eq_null_safe".split()))
        left, right = draw(numbers(plan)), draw(numbers(plan))
        if function == "eq_null_safe":
            return Call(function, (left, right), BOOLEAN, False)
        return _call(function, left, right)
    if kind == "null":
        return Call("is_null", (draw(numbers(plan)),), BOOLEAN, False)
    if kind == "not":
        return _call("not", draw(predicates(plan, depth - 1)))
    return _call(kind, draw(predicates(plan, depth - 1)), draw(predicates(plan, depth - 1)))


@st.composite
def _filters(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    plan = draw(below)
    return Filter(plan, draw(predicates(plan)))


@st.composite
def _projects(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    plan = draw(below)
    return _project(plan, tuple(draw(st.lists(numbers(plan), min_size=1, max_size=3))))


def _project(plan: Plan, exprs: tuple[Expr, ...]) -> Plan:
    fields = tuple(Field(f"e{i}", e.type, e.nullable) for i, e in enumerate(exprs))
    return Project(plan, exprs, fields)


@st.composite
def _joins(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    """Mostly linked by equalities of columns, now and then not at all."""
    parts = tuple(draw(st.lists(below, min_size=2, max_size=3)))
    join = Join(parts, None)
    columns = _numbers(join)
    found: list[Expr] = []
    start = 0
    for i in parts:
        end = start + len(i.schema)
        own = [c for c in columns if start <= c.index < end]
        before = [c for c in columns if c.index < start]
        links = draw(st.sampled_from([0, 1, 1, 1, 2, 2])) if own and before else 0
        for _ in range(links):
            pair = draw(st.sampled_from(before)), draw(st.sampled_from(own))
            safe = draw(st.integers(0, 4)) == 0
            found.append(Call("eq_null_safe", pair, BOOLEAN, False) if safe else _call("eq", *pair))
        start = end
    found += draw(st.lists(predicates(join), max_size=2))
    return Join(parts, conjunction(tuple(draw(st.permutations(found)))) if found else None)


@st.composite
def _aggregates(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    plan = draw(below)
    keys = tuple(draw(st.lists(numbers(plan), max_size=2)))
    functions = "count_rows count sum avg min max any_value mode max_by percentile_disc".split()
    names = draw(st.lists(st.sampled_from(functions), max_size=3))
    if not keys and not names:
        names = ["count_rows"]
    calls = []
    for name in names:
        arg = None if name == "count_rows" else draw(numbers(plan))
        nullable = name not in ("count_rows", "count")
        distinct = name != "count_rows" and draw(st.integers(0, 3)) == 0
        kind = DOUBLE if name in ("avg", "percentile_disc") else BIGINT
        more = (draw(numbers(plan)),) if name == "max_by" else ()
        order = (SortKey(0),) if name in ("mode", "percentile_disc") else ()
        parameters = (Literal(0.5, DOUBLE),) if name == "percentile_disc" else ()
        calls.append(AggregateCall(name, arg, kind, nullable, distinct, more, order, parameters))
    fields = [Field(f"k{i}", k.type, k.nullable) for i, k in enumerate(keys)]
    fields += [Field(f"a{i}", c.type, c.nullable) for i, c in enumerate(calls)]
    return Aggregate(plan, keys, tuple(calls), tuple(fields))


@st.composite
def _unions(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    width = draw(st.integers(1, 2))
    parts = []
    for plan in draw(st.lists(below, min_size=2, max_size=2)):
        exprs = st.lists(numbers(plan), min_size=width, max_size=width)
        parts.append(_project(plan, tuple(draw(exprs))))
    fields = tuple(Field(f"e{i}", BIGINT) for i in range(width))
    return UnionAll(tuple(parts), fields)


@st.composite
def _tops(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    plan = draw(below)
    positions = list(range(len(plan.schema)))
    order = tuple(
        SortKey(c, draw(st.booleans()), draw(st.booleans()))
        for c in draw(st.lists(st.sampled_from(positions), max_size=2))
    )
    return TopK(plan, order, tuple(positions), draw(st.integers(0, 4)), draw(st.integers(0, 1)))


@st.composite
def _conditions(draw: st.DrawFn, left: Plan, right: Plan) -> Expr | None:
    """Mostly an equality of the two sides and something else."""
    both = Join((left, right), None)
    columns = _numbers(both)
    width = len(left.schema)
    a = [c for c in columns if c.index < width]
    b = [c for c in columns if c.index >= width]
    found: list[Expr] = []
    if a and b and draw(st.integers(0, 9)):
        found.append(_call("eq", draw(st.sampled_from(a)), draw(st.sampled_from(b))))
    found += draw(st.lists(predicates(both, 1), max_size=1))
    return conjunction(tuple(found)) if found else None


@st.composite
def _outer_joins(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    left, right = draw(below), draw(below)
    return OuterJoin(left, right, draw(st.booleans()), draw(_conditions(left, right)))


@st.composite
def _semi_joins(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    left, right = draw(below), draw(below)
    condition = draw(_conditions(left, right))
    if draw(st.integers(0, 2)) == 0:
        return MarkJoin(left, right, condition, "mark")
    return SemiJoin(left, right, condition, draw(st.booleans()))


@st.composite
def _subqueries(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    """A query with a subquery, which mostly reads its columns, and a filter on what it gives."""
    input = draw(below)
    kind = draw(st.sampled_from("exists any any scalar scalar".split()))
    correlated = draw(_correlated(draw(below), input))
    if kind == "exists":
        apply = Apply(input, correlated, kind, "sub")
    elif kind == "any":
        subquery = _project(correlated, (draw(numbers(correlated)),))
        comparison = draw(st.sampled_from("eq eq eq lt ge ne".split()))
        apply = Apply(input, subquery, kind, "sub", (draw(numbers(input)),), comparison)
    else:
        single = correlated
        if draw(st.integers(0, 3)):
            name = draw(st.sampled_from("min sum count".split()))
            call = AggregateCall(name, draw(numbers(correlated)), BIGINT, name != "count")
            single = Aggregate(correlated, (), (call,), (Field("a", BIGINT, call.nullable),))
        apply = Apply(input, _project(single, (draw(numbers(single)),)), kind, "sub")
    value = Column(len(apply.schema) - 1, apply.schema[-1].type, apply.schema[-1].nullable, "sub")
    if kind == "scalar":
        test: Expr = _call(draw(st.sampled_from("eq lt gt".split())), draw(numbers(input)), value)
    else:
        test = value if draw(st.booleans()) else _call("not", value)
    choice = draw(st.integers(0, 3))
    if choice == 0:
        return apply
    if choice == 1:
        test = _call("or", test, draw(predicates(input, 1)))
    return Filter(apply, test)


@st.composite
def _laterals(draw: st.DrawFn, below: st.SearchStrategy[Plan]) -> Plan:
    """Beside each row the rows of a query that mostly reads it, now and then in an output too."""
    input = draw(below)
    query = draw(_correlated(draw(below), input))
    around = _numbers(input)
    kind = draw(st.integers(0, 7))
    if around and kind < 2:
        c = draw(st.sampled_from(around))
        read = Outer(1, c.index, c.type, c.nullable, c.name)
        query = _project(query, (draw(numbers(query)), _call("add", read, draw(numbers(query)))))
    elif kind == 2:
        call = AggregateCall("count", draw(numbers(query)), BIGINT, False)
        query = Aggregate(query, (), (call,), (Field("a", BIGINT, False),))
    return Apply(input, query, draw(st.sampled_from(("inner", "left"))), "lateral")


@st.composite
def _correlated(draw: st.DrawFn, plan: Plan, outer: Plan) -> Plan:
    """The plan, filtered by columns of `outer`, now and then under an aggregate or a union."""
    own, around = _numbers(plan), _numbers(outer)
    if not own or not around or draw(st.integers(0, 5)) == 0:
        return plan
    found: list[Expr] = []
    functions = st.sampled_from("eq eq eq ne lt".split())
    for function in draw(st.lists(functions, min_size=1, max_size=2)):
        c = draw(st.sampled_from(around))
        read = Outer(1, c.index, c.type, c.nullable, c.name)
        found.append(_call(function, draw(st.sampled_from(own)), read))
    filtered = Filter(plan, conjunction(tuple(found)))
    shape = draw(st.integers(0, 5))
    if shape == 0:
        return draw(_aggregates(st.just(filtered)))
    if shape == 1:
        return UnionAll((filtered, plan), plan.schema)
    if shape == 2:
        return draw(_tops(st.just(filtered)))
    return filtered
