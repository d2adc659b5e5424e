"""What every plan must satisfy, checked after each rewrite rule and after lowering (in tests).

Two checkers: `check` for the algebra, `check_dataflow` for the IR. Node constructors already check
what is cheap and local; these check the whole tree. A violation is a defect of the planner, never
of the user's query, hence `PlanError` is no SqlViewError.
"""

from __future__ import annotations

from typing_extensions import assert_never

from planner import dataflow
from planner.analysis.equality import encode_alike
from planner.calculus.algebra import (
    RECOMPUTED,
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
    inputs,
)
from planner.calculus.expr import Call, Column, Expr, Literal, Outer, Parameter, columns_used, walk
from planner.calculus.failing import may_fail
from planner.calculus.primitives import FUNCTIONS
from planner.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DecimalType,
    FloatType,
    IntegerType,
    NullType,
    Schema,
    SqlType,
)
from planner.calculus.visit import expressions
from planner.calculus.visit import walk as walk_plan


class PlanError(Exception):
    """A plan breaks an invariant of the planner."""


def check(plan: Plan) -> None:
    """Raises PlanError unless every node of the plan is well formed."""
    for node in walk_plan(plan):
        _check_node(node)


def check_rewrite(before: Plan, after: Plan, rule: str) -> None:
    """Raises PlanError unless `after` is well formed and has the column types of `before`."""
    try:
        check(after)
    except PlanError as e:
        raise PlanError(f"after {rule}: {e}") from e
    old, new = _types(before.schema), _types(after.schema)
    if old != new:
        raise PlanError(f"{rule} changed the columns from {_names(old)} to {_names(new)}")


def check_expr(expr: Expr, schema: Schema) -> None:
    """Raises PlanError unless the expression fits the schema and its calls are well typed."""
    for e in walk(expr):
        match e:
            case Column():
                _check_column(e, schema)
            case Call():
                _check_call(e)
            case Literal() | Outer() | Parameter():
                pass
            case _:
                assert_never(e)


def _check_node(plan: Plan) -> None:
    columns = tuple(f for i in _inputs(plan) for f in i.schema)
    for e in expressions(plan):
        check_expr(e, columns)
    match plan:
        case Project():
            for e, f in zip(plan.exprs, plan.schema, strict=True):
                _check_claim(e, f.nullable, f.name)
        case Aggregate():
            _check_aggregate(plan)
        case UnionAll():
            for i in plan.inputs:
                for f, g in zip(plan.schema, i.schema, strict=True):
                    if g.nullable and not f.nullable:
                        raise PlanError(f"UNION ALL claims that {f.name} is NOT NULL")
        case TopK():
            used = [k.column for k in plan.order] + [*plan.ties, *plan.partition]
            _check_positions(used, plan.schema, "TopK")
            if plan.limit < 0 or plan.offset < 0:
                raise PlanError("TopK with a negative limit or offset")
        case Window():
            _check_window(plan)
        case Join():
            if plan.predicate is not None and plan.predicate.type != BOOLEAN:
                raise PlanError(f"a join condition of type {plan.predicate.type}")
        case OuterJoin() | SemiJoin() | MarkJoin():
            if plan.condition is not None and plan.condition.type != BOOLEAN:
                raise PlanError(f"a join condition of type {plan.condition.type}")
        case SingleRow():
            _check_positions(list(plan.keys), plan.schema, "SingleRow")
        case Repeat():
            _check_positions([plan.count], plan.schema, "Repeat")
            if plan.schema[plan.count].type != BIGINT:
                raise PlanError("Repeat by a column that is no BIGINT")
        case Explode():
            _check_positions([plan.array], plan.input.schema, "Explode")
        case Values():
            for row in plan.rows:
                if _types(plan.schema) != [v.type for v in row]:
                    raise PlanError("a row of VALUES has other types than its schema")
        case Threshold():
            _check_threshold(plan)
        case Apply():
            if plan.kind == "any":
                kinds = [e.type for e in plan.operands]
                if kinds != _types(plan.subquery.schema) or plan.comparison not in _COMPARISONS:
                    raise PlanError("the operands of ANY differ from the columns of its subquery")
            elif plan.kind == "scalar" and len(plan.subquery.schema) != 1:
                raise PlanError("a scalar subquery has one column")
        case Recursive():
            for ref in walk_plan(plan.body):
                if isinstance(ref, RecursiveRef) and ref.number == plan.number:
                    for f, g in zip(ref.schema, plan.body.schema, strict=True):
                        if f.type != g.type or (g.nullable and not f.nullable):
                            raise PlanError(
                                f"a recursive relation reads {f.name} as what it is not"
                            )
        case Timeline():
            _check_rounds(plan.input.schema, 2, "Timeline")
            _check_rounds(plan.schema, 2, "Timeline")
            if not plan.keys:
                raise PlanError("a Timeline has a key")
        case Minus():
            _check_minus(plan)
        case Scan() | Filter() | Retain() | RecursiveRef() | Keep():
            pass
        case _:
            assert_never(plan)


def _check_rounds(schema: Schema, marks: int, what: str) -> None:
    if any(f.type != BIGINT or f.nullable for f in schema[len(schema) - marks :]):
        raise PlanError(f"the last columns of a {what} are its rounds")


def _inputs(plan: Plan) -> tuple[Plan, ...]:
    """The inputs whose columns the expressions of the node read."""
    return (plan.input,) if isinstance(plan, Apply) else inputs(plan)


def _check_window(plan: Window) -> None:
    used = [k.column for k in plan.order] + [*plan.ties, *plan.partition]
    for call in plan.calls:
        ends = (call.frame.start, call.frame.end)
        values = [end.offset for end in ends if end.kind == "value"]
        used += [*call.args, *values]
        if values and len(plan.order) != 1:
            raise PlanError("a frame of values without one order key")
        if any(plan.input.schema[v].type != plan.input.schema[plan.order[0].column].type
               for v in values):  # fmt: skip
            raise PlanError("a frame of values of another type than the order key")
    _check_positions(used, plan.input.schema, "Window")


def _check_minus(plan: Minus) -> None:
    """That the part can be one: it is made of what the whole is made of, and of more."""
    whole, part = (
        {p.relation for p in walk_plan(i) if isinstance(p, Scan)} for i in (plan.input, plan.part)
    )
    if not whole <= part:
        raise PlanError(f"a part that does not read {', '.join(sorted(whole - part))}")


def _check_threshold(plan: Threshold) -> None:
    _check_positions([plan.column, *plan.partition], plan.schema, "Threshold")
    _check_positions([plan.scalar, *plan.keys], plan.bound.schema, "Threshold")
    if len(plan.partition) != len(plan.keys) or plan.comparison not in THRESHOLDS:
        raise PlanError("Threshold with a key or a comparison that does not fit")
    if plan.schema[plan.column].type != plan.bound.schema[plan.scalar].type:
        raise PlanError("the two sides of Threshold have other types")


def _check_aggregate(plan: Aggregate) -> None:
    for e, f in zip(plan.keys, plan.schema, strict=False):
        if e.type != f.type:
            raise PlanError(f"group key {f.name} is {e.type}, not {f.type}")
        _check_claim(e, f.nullable, f.name)
    for a, f in zip(plan.aggregates, plan.schema[len(plan.keys) :], strict=True):
        if a.type != f.type:
            raise PlanError(f"aggregate {f.name} is {a.type}, not {f.type}")
        if a.nullable and not f.nullable:
            raise PlanError(f"{f.name} is claimed NOT NULL")
        if (a.arg is None) != (a.function == "count_rows"):
            raise PlanError(f"{a.function} with the wrong number of arguments")
        if a.function not in RECOMPUTED and (a.more or a.order or a.parameters):
            raise PlanError(f"{a.function} with more than an argument")
        if any(not 0 <= k.column < len(a.args) for k in a.order):
            raise PlanError(f"{a.function} in the order of what is no argument")


def _check_column(column: Column, schema: Schema) -> None:
    if not 0 <= column.index < len(schema):
        raise PlanError(f"column #{column.index} of {len(schema)}")
    field = schema[column.index]
    if column.type != field.type:
        raise PlanError(f"column #{column.index} {field} is read as {column.type}")
    if field.nullable and not column.nullable:
        raise PlanError(f"column #{column.index} {field} is read as NOT NULL")


def _check_claim(expr: Expr, nullable: bool, name: str) -> None:
    if expr.nullable and not nullable:
        raise PlanError(f"{name} is claimed NOT NULL")


THRESHOLDS = frozenset("lt le gt ge".split())
_COMPARISONS = frozenset("eq ne lt le gt ge eq_null_safe in".split())
_ARITHMETIC = frozenset("add subtract multiply divide remainder".split())


def _check_call(call: Call) -> None:
    kinds = [a.type for a in call.args]
    match call.function:
        case "and" | "or":
            good = kinds == [BOOLEAN, BOOLEAN] and call.type == BOOLEAN
        case "not":
            good = kinds == [BOOLEAN] and call.type == BOOLEAN
        case "is_null":
            good = len(kinds) == 1 and call.type == BOOLEAN and not call.nullable
        case "case":
            conditions, branches = kinds[0:-1:2], [*kinds[1::2], kinds[-1]]
            good = len(kinds) % 2 == 1 and all(k == BOOLEAN for k in conditions)
            good = good and all(k in (call.type, NullType()) for k in branches)
        case "cast" | "try_cast":
            good = len(kinds) == 1 or (len(kinds) == 2 and isinstance(call.args[1], Literal))
        case function if function in _COMPARISONS:
            good = len(kinds) >= 2 and call.type == BOOLEAN and len(set(kinds)) == 1
        case function if function in _ARITHMETIC:
            decimals = all(isinstance(k, DecimalType) for k in kinds)
            good = len(kinds) == 2 and (decimals or kinds[0] == kinds[1])
        case _:
            good = call.function in FUNCTIONS
    if not good:
        raise PlanError(f"{call.function}({_names(kinds)}) -> {call.type} is no well typed call")


def _types(schema: Schema) -> list[SqlType]:
    return [f.type for f in schema]


def _names(kinds: list[SqlType]) -> str:
    return ", ".join(map(str, kinds))


def _check_positions(positions: list[int], schema: Schema, what: str) -> None:
    for p in positions:
        if not 0 <= p < len(schema):
            raise PlanError(f"{what} names column #{p} of {len(schema)}")


def check_dataflow(root: dataflow.Node) -> None:
    """Raises PlanError unless every node under `root` keeps the contract of planner.dataflow."""
    for node in dataflow.topological(root):
        match node:
            case dataflow.Source() | dataflow.Stream() | dataflow.Constant():
                pass
            case dataflow.Variable():
                _check_rounds(node.schema, node.marks, "Variable")
            case dataflow.Timeline():
                _check_rounds(node.counted.schema[:-1], 2, "Timeline")
                _check_rounds(node.schema, 2, "Timeline")
                if len(node.schema) != node.keys + len(node.accumulators) + 2 or not node.keys:
                    raise PlanError("the schema of Timeline is not its keys, then its values")
            case dataflow.Loop():
                if _types(node.body.schema) != _types(node.variable.schema):
                    raise PlanError("the body of a Loop has other types than its variable")
                if dataflow.loop_of(node.body) != node.variable.loop:
                    raise PlanError("the body of a Loop does not read its variable")
            case dataflow.Store():
                _check_closed(node.input, "Store")
            case dataflow.Explode():
                _check_closed(node.input, "Explode")
                _check_positions([node.array], node.input.schema, "Explode")
            case dataflow.Repeat():
                _check_closed(node.input, "Repeat")
                _check_positions([node.count], node.schema, "Repeat")
            case dataflow.Threshold():
                _check_dataflow_threshold(node)
            case dataflow.Map():
                _check_map(node)
            case dataflow.Union():
                if node.negated and len(node.negated) != len(node.inputs):
                    raise PlanError("a Union has one sign for each input")
                for i in node.inputs:
                    _check_closed(i, "Union")
                    if _types(i.schema) != _types(node.schema):
                        raise PlanError("an input of Union has other types")
            case dataflow.Reduce():
                _check_reduce(node)
            case dataflow.Recompute():
                _check_recompute(node)
            case dataflow.DeltaJoin():
                _check_join(node)
            case dataflow.TopK():
                used = [k.column for k in node.index.order] + [*node.index.ties]
                _check_positions([*used, *node.index.partition], node.schema, "TopK")
            case dataflow.Window():
                used = [k.column for k in node.index.order] + [*node.index.ties, *node.columns]
                used += [*node.index.partition, *(c for v in node.values for c in v.args)]
                _check_positions(used, node.index.relation.schema, "Window")
                if len(node.schema) != len(node.columns) + len(node.values):
                    raise PlanError("the columns of Window differ from its schema")
            case _:
                assert_never(node)


def _check_closed(node: dataflow.Node, what: str) -> None:
    if dataflow.is_open(node):
        raise PlanError(f"{what} takes rows of a table with whatever columns it has by now")


def _check_dataflow_threshold(node: dataflow.Threshold) -> None:
    rows, scalars = node.schema, node.bound.relation.schema
    if len(node.index.order) != 1 or node.index.order[0].descending:
        raise PlanError("the index of Threshold is not in ascending order of one column")
    if len(node.index.partition) != len(node.bound.columns):
        raise PlanError("the two indexes of Threshold have other keys")
    if rows[node.index.order[0].column].type != scalars[node.scalar].type:
        raise PlanError("the two sides of Threshold have other types")
    for p, c in zip(node.index.partition, node.bound.columns, strict=True):
        if not encode_alike(rows[p].type, scalars[c].type):
            raise PlanError("the two keys of Threshold encode differently")


def _check_map(node: dataflow.Map) -> None:
    for e in (*node.predicates, *node.outputs):
        check_expr(e, node.input.schema)
    if any(p.type != BOOLEAN for p in node.predicates):
        raise PlanError("a predicate of Map is not BOOLEAN")
    if [e.type for e in node.outputs] != _types(node.schema):
        raise PlanError("the outputs of Map differ from its schema")
    for e, f in zip(node.outputs, node.schema, strict=True):
        _check_claim(e, f.nullable, f.name)


def _check_reduce(node: dataflow.Reduce) -> None:
    for e in node.keys:
        if not isinstance(e, Column):
            raise PlanError("a key of Reduce is not a plain column")
        check_expr(e, node.input.schema)
    accumulators = node.accumulators
    if not accumulators or accumulators[0] != dataflow.Accumulator("count_rows", None):
        raise PlanError("the first accumulator of Reduce is not count_rows")
    if len(set(accumulators)) != len(accumulators):
        raise PlanError("Reduce keeps an accumulator twice")
    kinds = [k.type for k in node.keys]
    for a in accumulators:
        if (a.arg is None) != (a.kind == "count_rows"):
            raise PlanError(f"accumulator {a.kind} with the wrong number of arguments")
        if a.arg is not None:
            if not isinstance(a.arg, Column):
                raise PlanError(f"the argument of accumulator {a.kind} is not a plain column")
            check_expr(a.arg, node.input.schema)
        if a.kind in ("least", "greatest") and not dataflow.only_appends(node.input):
            raise PlanError(f"accumulator {a.kind} over rows that may leave")
        if a.kind == "first":
            _check_first(node, a)
        kinds.append(_accumulator_type(a))
    for a, behind in zip(accumulators, (*accumulators[1:], None), strict=True):
        wide = a.kind == "sum" and a.arg is not None and _is_wide(a.arg.type)
        top = behind is not None and behind.kind == "sum_top"
        if wide != top or (behind is not None and top and behind.arg != a.arg):
            raise PlanError("a sum of wide decimals without its top word, or one without its sum")
    if kinds != _types(node.schema):
        raise PlanError("the schema of Reduce is not its keys, then its accumulators")


def _check_first(node: dataflow.Reduce, accumulator: dataflow.Accumulator) -> None:
    index = accumulator.index
    if index is None or index.relation != node.input:
        raise PlanError("accumulator first without an index over the input")
    keys = tuple(k.index for k in node.keys if isinstance(k, Column))
    arg = accumulator.arg
    if index.partition != keys or not isinstance(arg, Column) or len(index.order) != 1:
        raise PlanError("the index of accumulator first is not on the keys")
    if index.order[0].column != arg.index or index.order[0].nulls_first:
        raise PlanError("the index of accumulator first is in another order")


def _check_recompute(node: dataflow.Recompute) -> None:
    index, below = node.index, node.index.relation.schema
    columns = [*index.columns, *(c for v in node.values for c in v.args)]
    _check_positions(columns, below, "Recompute")
    if len(set(index.columns)) != len(index.columns) or index.filter is not None:
        raise PlanError("the index of Recompute names a key twice, or is partial")
    if not index.null_safe and any(below[c].nullable for c in index.columns):
        raise PlanError("the index of Recompute leaves out a group")
    if len(set(node.values)) != len(node.values):
        raise PlanError("Recompute keeps a value twice")
    for v in node.values:
        if v.function not in RECOMPUTED or any(not 0 <= k.column < len(v.args) for k in v.order):
            raise PlanError(f"no value {v.function} of a group")
    keys = len(index.columns)
    if len(node.schema) != keys + len(node.values):
        raise PlanError("the schema of Recompute is not its keys, then its values")
    for c, f in zip(index.columns, node.schema, strict=False):
        if (f.type, f.nullable) != (below[c].type, below[c].nullable):
            raise PlanError("a key of Recompute is another column than below")


def _is_wide(kind: SqlType) -> bool:
    return isinstance(kind, DecimalType) and not kind.narrow


def _accumulator_type(accumulator: dataflow.Accumulator) -> SqlType:
    kind = None if accumulator.arg is None else accumulator.arg.type
    match accumulator.kind, kind:
        case "count_rows" | "count", _:
            return BIGINT
        case "sum", IntegerType():
            return DecimalType(38, 0)
        case "sum", DecimalType():
            return DecimalType(38, kind.scale)
        case "sum_top", DecimalType(narrow=False):
            return BIGINT
        case "sum_double" | "sum_square_double", FloatType():
            return BINARY
        case "first" | "least" | "greatest", SqlType():
            return kind
        case _:
            raise PlanError(f"no accumulator {accumulator.kind} of {kind}")


def _check_join(node: dataflow.DeltaJoin) -> None:
    n = len(node.inputs)
    if n < 2:
        raise PlanError("a DeltaJoin has at least two inputs")
    for i in node.inputs:
        if i.filter is not None:
            check_expr(i.filter, i.schema)
            if may_fail(i.filter) or i.filter.type != BOOLEAN:
                raise PlanError("the filter of a join input may fail, or is not BOOLEAN")
    events = [k for k, i in enumerate(node.inputs) if dataflow.gives_events(i.relation)]
    looked_up = [i.relation for k, i in enumerate(node.inputs) if k not in events]
    if [p.source for p in node.paths] != (events[:1] or list(range(n))):
        raise PlanError("a DeltaJoin has one path per occurrence, in order, or one of its events")
    if len(events) > 1 or any(node.inputs[k].filter is not None for k in events):
        raise PlanError("a DeltaJoin of events with events, or with a filter of events")
    if not all(map(dataflow.is_stored, looked_up)):
        raise PlanError("an input of a DeltaJoin is not stored")
    starts = dataflow.offsets(tuple(i.schema for i in node.inputs))
    for path in node.paths:
        if sorted([path.source, *(i for s in path.steps for i in s.inputs)]) != list(range(n)):
            raise PlanError(f"path {path.source} does not visit every occurrence once")
        bound = _span(node, starts, path.source)
        for step in path.steps:
            if isinstance(step, dataflow.CountedJoin):
                for way in step.ways:
                    after = _check_lookups(node, path.source, way, bound)
            else:
                after = _check_lookups(node, path.source, (step,), bound)
            bound = after


def _check_lookups(
    node: dataflow.DeltaJoin,
    source: int,
    steps: tuple[dataflow.Lookup, ...],
    bound: frozenset[int],
) -> frozenset[int]:
    """Check lookups that follow each other; returns the columns that are bound then."""
    starts = dataflow.offsets(tuple(i.schema for i in node.inputs))
    for step in steps:
        _check_step(node, source, step, bound)
        bound |= _span(node, starts, step.input)
        for e in step.residual:
            check_expr(e, node.schema)
            if may_fail(e):
                raise PlanError("a residual predicate may fail")
            if not columns_used(e) <= bound:
                raise PlanError("a residual predicate reads a column that is not bound yet")
    return bound


def _span(node: dataflow.DeltaJoin, starts: tuple[int, ...], i: int) -> frozenset[int]:
    return frozenset(range(starts[i], starts[i] + len(node.inputs[i].schema)))


def _check_step(
    node: dataflow.DeltaJoin,
    source: int,
    step: dataflow.Lookup,
    bound: frozenset[int],
) -> None:
    if step.as_of != (step.input < source or len(node.paths) == 1):
        raise PlanError(f"path {source} sees occurrence {step.input} at the wrong time")
    relation = node.inputs[step.input].relation
    if step.index.relation != relation:
        raise PlanError("a step looks up an index of another relation")
    unbound = step.reads - bound
    if unbound:
        raise PlanError(f"the probe reads column #{min(unbound)}, which is not bound yet")
    if isinstance(step, dataflow.RangeJoin):
        _check_range(node, step)
        return
    index = step.index
    if index.filter is not None and index.filter != node.inputs[step.input].filter:
        raise PlanError("a step looks up a partial index of another filter")
    if len(set(index.columns)) != len(index.columns):
        raise PlanError("an index names a column twice")
    _check_positions(list(index.columns), relation.schema, "an index")
    if not (len(step.probe) > 0 or not index.columns) or len(step.probe) > len(index.columns):
        raise PlanError("the probe of a step does not fit the leading columns of its index")
    if step.null_safe and len(step.null_safe) != len(step.probe):
        raise PlanError("null_safe has another length than the probe")
    if any(step.null_safe) and not index.null_safe:
        raise PlanError("a NULL-safe probe of an index without NULLs")
    for p, c in zip(step.probe, index.columns, strict=False):
        if not encode_alike(node.schema[p].type, relation.schema[c].type):
            raise PlanError(
                f"a probe of {node.schema[p].type} for a key of {relation.schema[c].type}"
            )


def _check_range(node: dataflow.DeltaJoin, step: dataflow.RangeJoin) -> None:
    index = step.index
    key = index.order[0]
    _check_positions([key.column], index.relation.schema, "an index")
    if len(index.order) != 1 or index.ties or index.partition:
        raise PlanError("a range is sought in an index that is ordered by one column")
    if key.descending or key.nulls_first:
        raise PlanError("a range is sought in ascending order, NULLs last")
    if not step.ends:
        raise PlanError("a range has an end")
    for end in step.ends:
        check_expr(end.value, node.schema)
        if may_fail(end.value):
            raise PlanError("the end of a range may fail")
        if not encode_alike(end.value.type, index.relation.schema[key.column].type):
            raise PlanError(f"a range up to {end.value.type} of another type")
