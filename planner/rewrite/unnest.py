"""A subquery as parts that no longer depend on the outer row, and how outer columns are bound.

See planner.rewrite.decorrelate, which drives this. Here `Outer(0, i)` is column i of the outer row
at hand; deeper ones belong to queries further out and are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from typing_extensions import assert_never

from planner.calculus.algebra import (
    Aggregate,
    Apply,
    Explode,
    Filter,
    Join,
    Keep,
    MarkJoin,
    Minus,
    OuterJoin,
    Plan,
    Project,
    Recursive,
    RecursiveRef,
    Repeat,
    Retain,
    Scan,
    SemiJoin,
    SingleRow,
    Threshold,
    Timeline,
    TopK,
    UnionAll,
    Values,
    Window,
    identity,
    inputs,
)
from planner.calculus.expr import (
    Call,
    Column,
    Expr,
    Literal,
    Outer,
    columns_used,
    conjunction,
    conjuncts,
    substitute,
    transform,
    walk,
)
from planner.calculus.failing import may_fail
from planner.calculus.types import BIGINT, BOOLEAN, Field
from planner.calculus.visit import expressions
from planner.errors import UnsupportedError
from planner.rewrite.domains import domain


@dataclass(frozen=True, slots=True)
class Parts:
    """A subquery, as a function of the outer row: `outputs` of the rows of `core` for which the
    `predicates` are TRUE. `core` does not refer to the outer row, the others may.

    `padded`: if there is no such row, there is one in which the core's columns are NULL; of that
    one row, in either case, the conditions `above` are asked then.
    """

    core: Plan
    predicates: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    padded: bool = False
    above: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """A plan with the outputs of parts, then a column for each of the outer columns `outer`.

    For an outer row the parts have the rows whose bound columns equal its columns: by `<=>` where
    `null_safe`, else by `=`.
    """

    plan: Plan
    outer: tuple[Outer, ...]
    null_safe: tuple[bool, ...]
    width: int

    def position(self, index: int) -> int:
        return self.width + [o.index for o in self.outer].index(index)

    def inside(self, expr: Expr) -> Expr:
        """An expression whose outer columns are read from the plan."""

        def change(e: Expr) -> Expr:
            if isinstance(e, Outer) and e.depth == 0:
                return self._column(self.position(e.index))
            return e

        return transform(expr, change)

    def matches(self, shift: int) -> tuple[Expr, ...]:
        """That the bound columns, moved by `shift`, equal those of the outer row."""
        found = []
        for k, (o, safe) in enumerate(zip(self.outer, self.null_safe, strict=True)):
            c = self._column(self.width + k)
            found.append(_equal(Column(c.index + shift, c.type, c.nullable, c.name), o, safe))
        return tuple(found)

    def _column(self, position: int) -> Column:
        f = self.plan.schema[position]
        return Column(position, f.type, f.nullable, f.name)


class Around:
    """The outer query: `values` are the columns of its row, over the columns of `plan`."""

    def __init__(self, plan: Plan, values: dict[int, Expr]) -> None:
        self.plan = plan
        self._values = dict(values)

    def value(self, index: int) -> Expr:
        return self._values[index]

    def bind(
        self, parts: Parts, further: Sequence[Expr] = (), wanted: frozenset[int] = frozenset()
    ) -> Bound:
        """Make columns of the outer columns that the parts, or `further` expressions over their
        outputs, read, and of those that are `wanted`."""
        if parts.padded:
            parts = self.settled(parts)
        equal: dict[int, tuple[Expr, bool]] = {}
        predicates: list[Expr] = []
        rest: list[Expr] = []
        for p in parts.predicates:
            link = self._link(p)
            if link is not None and link[0] not in equal:
                equal[link[0]] = link[1:]
                predicates.append(_equal(link[1], self._outer(link[0]), link[2]))
            else:
                rest.append(p)
                predicates.append(p)
        parts = replace(parts, predicates=tuple(predicates))
        read = _outers(*rest, *parts.outputs, *further)
        names = {o.index: o for o in (*_outers(*predicates), *read)}
        every = tuple(sorted({o.index for o in read} | equal.keys() | wanted))
        outer = tuple(names.get(c) or self._outer(c) for c in every)
        if all(c in equal for c in every):
            plan, safe = self._by_equality(parts, rest, equal, every)
        else:
            plan, safe = self._by_domain(parts, outer), (True,) * len(every)
        return Bound(plan, outer, safe, len(parts.outputs))

    def settled(self, parts: Parts) -> Parts:
        """Padded parts as plain ones, over the domain of the outer columns that they read."""
        outer = _outers(*parts.predicates, *parts.outputs, *parts.above)
        rows = self._domain(tuple(o.index for o in outer))
        at = {o.index: k for k, o in enumerate(outer)}

        def change(e: Expr) -> Expr:
            match e:
                case Outer(depth=0):
                    f = rows.schema[at[e.index]]
                    return Column(at[e.index], f.type, f.nullable, f.name)
                case Column():
                    return Column(e.index + len(outer), e.type, True, e.name)
                case _:
                    return e

        condition = tuple(transform(p, change) for p in parts.predicates)
        core: Plan = OuterJoin(rows, parts.core, False, conjunction(condition))
        if parts.above:
            core = Filter(core, conjunction(tuple(transform(p, change) for p in parts.above)))
        matches = tuple(
            _equal(c, o, True) for c, o in zip(identity(rows.schema), outer, strict=True)
        )
        return Parts(core, matches, tuple(transform(e, change) for e in parts.outputs))

    def _by_equality(
        self,
        parts: Parts,
        rest: list[Expr],
        equal: dict[int, tuple[Expr, bool]],
        every: tuple[int, ...],
    ) -> tuple[Plan, tuple[bool, ...]]:
        def change(e: Expr) -> Expr:
            return equal[e.index][0] if isinstance(e, Outer) and e.depth == 0 else e

        plan = parts.core
        if rest:
            plan = Filter(plan, conjunction(tuple(transform(p, change) for p in rest)))
        exprs = tuple(transform(e, change) for e in parts.outputs)
        plan = project(plan, (*exprs, *(equal[c][0] for c in every)))
        return plan, tuple(equal[c][1] for c in every)

    def _by_domain(self, parts: Parts, outer: tuple[Outer, ...]) -> Plan:
        rows = self._domain(tuple(o.index for o in outer))
        width = len(parts.core.schema)
        at = {o.index: width + k for k, o in enumerate(outer)}

        def change(e: Expr) -> Expr:
            if isinstance(e, Outer) and e.depth == 0:
                f = rows.schema[at[e.index] - width]
                return Column(at[e.index], f.type, f.nullable, f.name)
            return e

        predicates = tuple(transform(p, change) for p in parts.predicates)
        plan = Join((parts.core, rows), conjunction(predicates) if predicates else None)
        outputs = tuple(transform(e, change) for e in parts.outputs)
        bound = tuple(c for c in identity(plan.schema)[width:])
        return project(plan, (*outputs, *bound))

    def _domain(self, columns: tuple[int, ...]) -> Plan:
        values = [self._values[c] for c in columns]
        plain = [v.index for v in values if isinstance(v, Column)]
        if len(plain) == len(values):
            return domain(self.plan, tuple(plain))
        width = len(self.plan.schema)
        wide = project(self.plan, (*identity(self.plan.schema), *values))
        return domain(wide, tuple(range(width, width + len(values))))

    def _outer(self, index: int) -> Outer:
        value = self._values[index]
        name = value.name if isinstance(value, Column) else f"outer{index}"
        return Outer(0, index, value.type, value.nullable, name)

    def _link(self, predicate: Expr) -> tuple[int, Expr, bool] | None:
        """An equality with a value of the outer row: its column, the other side, and whether it is
        null-safe. A computed value of the outer row becomes a column of it."""
        if not (isinstance(predicate, Call) and predicate.function in ("eq", "eq_null_safe")):
            return None
        a, b = predicate.args
        for inner, other in ((a, b), (b, a)):
            if _outers(inner) or columns_used(other) or not _outers(other):
                continue
            if not columns_used(inner):
                continue
            safe = predicate.function == "eq_null_safe"
            if isinstance(other, Outer):
                return other.index, inner, safe
            if not may_fail(other):
                return self._computed(other), inner, safe
        return None

    def _computed(self, expr: Expr) -> int:
        value = transform(
            expr,
            lambda e: self._values[e.index] if isinstance(e, Outer) and e.depth == 0 else e,
        )
        for index, known in self._values.items():
            if known == value:
                return index
        index = max(self._values) + 1
        self._values[index] = value
        return index


def unnest(plan: Plan, around: Around) -> Parts:
    """The plan, whose outer columns have depth 0, as parts."""
    if not _is_correlated(plan):
        return Parts(plan, (), identity(plan.schema))
    match plan:
        case Filter():
            return _filter(plan, unnest(plan.input, around))
        case Project():
            below = unnest(plan.input, around)
            return replace(below, outputs=tuple(substitute(e, below.outputs) for e in plan.exprs))
        case Join():
            return _join(plan, around)
        case SemiJoin() | MarkJoin():
            return _semi_join(plan, around)
        case OuterJoin():
            return _full_join(plan, around) if plan.full else _left_join(plan, around)
        case Aggregate():
            return _aggregate(plan, around)
        case UnionAll():
            return _union(plan, around)
        case TopK():
            bound = around.bind(unnest(plan.input, around))
            return _by_binding(replace(plan, input=bound.plan, partition=_bound(bound)), bound)
        case Window():
            bound = around.bind(unnest(plan.input, around))
            return _window(plan, bound)
        case SingleRow():
            bound = around.bind(unnest(plan.input, around))
            keys = (*plan.keys, *_bound(bound))
            return _by_binding(SingleRow(bound.plan, keys), bound)
        case Explode():
            bound = around.bind(unnest(plan.input, around))
            return _behind(replace(plan, input=bound.plan), bound)
        case Repeat():
            bound = around.bind(unnest(plan.input, around))
            return _by_binding(Repeat(bound.plan, plan.count), bound)
        case Retain():
            raise AssertionError("a correlated subquery reads no stream (planner.analysis.streams)")
        case Recursive():
            raise UnsupportedError(
                f'cannot maintain the recursive "{plan.name}" in a correlated subquery',
                detail="It reads columns of the query around it, so there is one for each row.",
                hint="Compute it without these columns, and join its rows with the query's.",
            )
        case Scan() | Values() | Apply() | RecursiveRef():
            raise AssertionError("subqueries are removed innermost first")
        case Threshold() | Timeline() | Minus() | Keep():
            raise AssertionError("the planner makes these when there are no subqueries any more")
        case _:
            assert_never(plan)


def exactly_one(plan: Plan) -> bool:
    """Whether the plan has one row whatever its tables hold."""
    match plan:
        case Aggregate():
            return not plan.keys
        case Values():
            return len(plan.rows) == 1
        case Project() | SingleRow():
            return exactly_one(plan.input)
        case Join():
            return plan.predicate is None and all(exactly_one(i) for i in plan.inputs)
        case _:
            return False


def project(plan: Plan, exprs: Sequence[Expr], names: Sequence[str] | None = None) -> Plan:
    """A Project; unnamed computed columns are called by their position."""
    called = names or [e.name if isinstance(e, Column) else f"column{i}"
                       for i, e in enumerate(exprs)]  # fmt: skip
    fields = tuple(Field(n, e.type, e.nullable) for n, e in zip(called, exprs, strict=True))
    return Project(plan, tuple(exprs), fields)


# -- one node ----------------------------------------------------------------------------------


def _filter(plan: Filter, below: Parts) -> Parts:
    added = conjuncts(substitute(plan.predicate, below.outputs))
    if below.padded:
        return replace(below, above=below.above + added)
    return replace(below, predicates=below.predicates + added)


def _join(plan: Join, around: Around) -> Parts:
    pieces = [_plain(unnest(i, around), around) for i in plan.inputs]
    predicates: list[Expr] = []
    outputs: list[Expr] = []
    width = 0
    for piece in pieces:
        predicates.extend(_shifted(p, width) for p in piece.predicates)
        outputs.extend(_shifted(e, width) for e in piece.outputs)
        width += len(piece.core.schema)
    if plan.predicate is not None:
        predicates.extend(conjuncts(substitute(plan.predicate, tuple(outputs))))
    core = Join(tuple(p.core for p in pieces), None)
    inside = tuple(p for p in predicates if not _outers(p))
    if inside:
        core = replace(core, predicate=conjunction(inside))
    return Parts(core, tuple(p for p in predicates if _outers(p)), tuple(outputs))


def _semi_join(plan: SemiJoin | MarkJoin, around: Around) -> Parts:
    left = _plain(unnest(plan.left, around), around)
    right = _plain(unnest(plan.right, around), around)
    tests = conjuncts(plan.condition)
    width = len(left.outputs)
    values = (*identity(plan.left.schema), *(_shifted(e, width) for e in right.outputs))
    over_left = tuple(substitute(t, values) for t in tests)
    over_left += tuple(_shifted(p, width) for p in right.predicates)
    bound = around.bind(left, over_left)
    grown = len(bound.plan.schema) - width
    condition = tuple(bound.inside(_moved(t, width, grown)) for t in over_left)
    joined = replace(
        plan,
        left=bound.plan,
        right=right.core,
        condition=conjunction(condition) if condition else None,
    )
    parts = _by_binding(joined, bound)
    if isinstance(joined, MarkJoin):
        mark = Column(len(joined.schema) - 1, BOOLEAN, False, joined.name)
        return replace(parts, outputs=(*parts.outputs, mark))
    return parts


def _left_join(plan: OuterJoin, around: Around) -> Parts:
    left = _plain(unnest(plan.left, around), around)
    right = _plain(unnest(plan.right, around), around)
    if _outers(*right.outputs):
        inner = around.bind(right)
        right = _by_binding(inner.plan, inner)
    # Computed columns of the right side are NULL where it has no match: they are computed below.
    below = project(right.core, (*identity(right.core.schema), *right.outputs))
    first = len(right.core.schema)
    tests = conjuncts(plan.condition)
    width = len(left.outputs)
    columns = identity(below.schema, width)[first:]
    values = (*identity(plan.left.schema), *columns)
    condition = tuple(substitute(t, values) for t in tests)
    condition += tuple(_shifted(p, width) for p in right.predicates)
    bound = around.bind(left, condition)
    grown = len(bound.plan.schema) - width
    late = tuple(bound.inside(_moved(t, width, grown)) for t in condition)
    core = OuterJoin(bound.plan, below, False, conjunction(late) if late else None)
    parts = _by_binding(core, bound)
    start = len(bound.plan.schema) + first
    return replace(parts, outputs=(*parts.outputs, *identity(core.schema)[start:]))


def _full_join(plan: OuterJoin, around: Around) -> Parts:
    left = _plain(unnest(plan.left, around), around)
    right = _plain(unnest(plan.right, around), around)
    tests = () if plan.condition is None else (plan.condition,)
    reads = _outers(*left.predicates, *left.outputs, *right.predicates, *right.outputs, *tests)
    wanted = frozenset(o.index for o in reads)
    a, b = (_null_safe(around.bind(p, (), wanted)) for p in (left, right))
    wide, split = len(a.plan.schema), len(plan.left.schema)
    condition = [a.inside(_moved(t, split, wide - split)) for t in tests]
    for k in range(len(a.outer)):
        x = identity(a.plan.schema)[a.width + k]
        y = identity(b.plan.schema, wide)[b.width + k]
        condition.append(Call("eq_null_safe", (x, y), BOOLEAN, False))
    core = OuterJoin(a.plan, b.plan, True, conjunction(tuple(condition)) if condition else None)
    columns = identity(core.schema)
    outputs = (*columns[: a.width], *columns[wide : wide + b.width])
    matches = []
    for k, o in enumerate(a.outer):
        sides = (columns[a.width + k], columns[wide + b.width + k])
        value = Call("coalesce", sides, sides[0].type, True)
        matches.append(_equal(value, o, True))
    return Parts(core, tuple(matches), outputs)


def _aggregate(plan: Aggregate, around: Around) -> Parts:
    below = _plain(unnest(plan.input, around), around)
    bound = around.bind(below, expressions(plan))
    own = tuple(bound.inside(k) for k in plan.keys)
    keys = tuple(identity(bound.plan.schema)[c] for c in _bound(bound))
    calls = tuple(a.over(bound.inside) for a in plan.aggregates)
    first = len(keys)
    fields = tuple(bound.plan.schema[c] for c in _bound(bound))
    schema = (*fields, *plan.schema)
    core = Aggregate(bound.plan, (*keys, *own), calls, schema)
    outputs: list[Expr] = list(identity(schema)[first:])
    predicates = bound.matches(-bound.width)
    if plan.keys:
        return Parts(core, predicates, tuple(outputs))
    for i, call in enumerate(plan.aggregates):
        f = schema[first + i]
        column = Column(first + i, f.type, True, f.name)
        outputs[i] = column
        if call.function in ("count", "count_rows"):
            outputs[i] = Call("coalesce", (column, Literal(0, BIGINT)), BIGINT, False)
    return Parts(core, predicates, tuple(outputs), padded=True)


def _union(plan: UnionAll, around: Around) -> Parts:
    pieces = [_plain(unnest(i, around), around) for i in plan.inputs]
    reads = [o for p in pieces for o in _outers(*p.predicates, *p.outputs)]
    wanted = frozenset(o.index for o in reads)
    bounds = [around.bind(p, (), wanted) for p in pieces]
    # An equality of a computed outer value adds a column to the outer row: all inputs have it.
    wanted |= {o.index for b in bounds for o in b.outer}
    bounds = [around.bind(p, (), wanted) for p in pieces]
    if not all(b.null_safe == bounds[0].null_safe for b in bounds):
        bounds = [_null_safe(b) for b in bounds]
    first = bounds[0]
    extra = tuple(
        Field(f.name, f.type, any(b.plan.schema[c].nullable for b in bounds))
        for c, f in enumerate(first.plan.schema)
        if c >= first.width
    )
    core = UnionAll(tuple(b.plan for b in bounds), (*plan.schema, *extra))
    return _by_binding(core, replace(first, plan=core))


# -- helpers -----------------------------------------------------------------------------------


def _plain(parts: Parts, around: Around) -> Parts:
    return around.settled(parts) if parts.padded else parts


def _by_binding(core: Plan, bound: Bound) -> Parts:
    """Parts of a node over a bound plan, whose columns it keeps."""
    return Parts(core, replace(bound, plan=core).matches(0), identity(core.schema)[: bound.width])


def _window(plan: Window, bound: Bound) -> Parts:
    """Partitions for each binding; the window's columns come behind those of the binding."""
    return _behind(
        replace(plan, input=bound.plan, partition=(*plan.partition, *_bound(bound))), bound
    )


def _behind(grown: Window | Explode, bound: Bound) -> Parts:
    """A node that puts columns behind those of its input, which end with the binding."""
    parts = _by_binding(grown, bound)
    made = identity(grown.schema)[len(bound.plan.schema) :]
    return replace(parts, outputs=(*parts.outputs, *made))


def _bound(bound: Bound) -> tuple[int, ...]:
    return tuple(range(bound.width, bound.width + len(bound.outer)))


def _null_safe(bound: Bound) -> Bound:
    """The same with every match null-safe: rows that a NULL keeps from matching are left out."""
    strict = [
        c
        for c, safe in zip(_bound(bound), bound.null_safe, strict=True)
        if not safe and bound.plan.schema[c].nullable
    ]
    plan = bound.plan
    if strict:
        columns = identity(plan.schema)
        tests = tuple(
            Call("not", (Call("is_null", (columns[c],), BOOLEAN, False),), BOOLEAN, False)
            for c in strict
        )
        plan = Filter(plan, conjunction(tests))
    return replace(bound, plan=plan, null_safe=(True,) * len(bound.outer))


def _moved(expr: Expr, first: int, by: int) -> Expr:
    """Columns from `first` on moved by `by` positions."""

    def change(e: Expr) -> Expr:
        if by and isinstance(e, Column) and e.index >= first:
            return Column(e.index + by, e.type, e.nullable, e.name)
        return e

    return transform(expr, change)


def _shifted(expr: Expr, by: int) -> Expr:
    return _moved(expr, 0, by)


def _outers(*exprs: Expr) -> tuple[Outer, ...]:
    """The columns of the outer row that the expressions read, by position, each once."""
    found: dict[int, Outer] = {}
    for expr in exprs:
        for e in walk(expr):
            if isinstance(e, Outer) and e.depth == 0:
                found.setdefault(e.index, e)
    return tuple(found[i] for i in sorted(found))


def _is_correlated(plan: Plan) -> bool:
    return bool(_outers(*expressions(plan))) or any(_is_correlated(i) for i in inputs(plan))


def _equal(left: Expr, right: Expr, null_safe: bool) -> Expr:
    if null_safe:
        return Call("eq_null_safe", (left, right), BOOLEAN, False)
    return Call("eq", (left, right), BOOLEAN, left.nullable or right.nullable)
