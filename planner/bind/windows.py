"""Window functions: their calls, and what they stand on.

While the clauses of a query are bound, a window is only collected, and its value is a column of the
*wide row* from `WINDOWS` on (see `grouping`). When all clauses are bound, `Windowed` puts a
projection of what they read above FROM or the aggregation, a `Window` for each different PARTITION
BY and ORDER BY above that, and moves expressions onto them. Ties are broken as `window_ties` says.

Source: Spark SQL, WindowExpressions and WindowSpecDefinition: which functions need an order, what
frame they have, and what frames there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeAlias

from sqlglot import exp

from planner.bind.counters import counter_diff
from planner.bind.grouping import WINDOWS, AggregateReader
from planner.bind.naming import output_name
from planner.bind.report import Report, describe
from planner.bind.resolve import FromResolver, Output, SelectResolver
from planner.bind.scalars import Scalars, is_constant
from planner.bind.subqueries import FIRST, Placement
from planner.bind.tables import aggregate_name
from planner.bind.window_ties import defined, tie_nodes
from planner.calculus import coercion, functions, intervals
from planner.calculus.algebra import (
    RANKED,
    WHOLE,
    AggregateCall,
    Frame,
    FrameEnd,
    Plan,
    Project,
    SortKey,
    Window,
    WindowCall,
)
from planner.calculus.expr import Call, Column, Expr, Literal, Outer, walk
from planner.calculus.failing import may_fail
from planner.calculus.types import (
    DOUBLE,
    INT,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    IntervalType,
    SqlType,
    TimestampType,
)


@dataclass(frozen=True, slots=True)
class _End:
    """An end of a frame: as algebra.FrameEnd, with the value of kind `value` as an expression."""

    kind: str
    offset: int = 0
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class _Key:
    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class _Over:
    """What is behind OVER; `frame` is None where none is written."""

    partition: tuple[Expr, ...]
    order: tuple[_Key, ...]
    frame: tuple[_End, _End] | None


@dataclass(frozen=True, slots=True)
class _Call:
    """A WindowCall over the wide row."""

    function: str
    args: tuple[Expr, ...]
    type: SqlType
    nullable: bool
    over: _Over
    order: tuple[SortKey, ...] = ()
    parameters: tuple[Literal, ...] = ()
    ignore_nulls: bool = False


_RANKS: dict[type[exp.Expression], tuple[str, SqlType]] = {
    exp.RowNumber: ("row_number", INT),
    exp.Rank: ("rank", INT),
    exp.DenseRank: ("dense_rank", INT),
    exp.PercentRank: ("percent_rank", DOUBLE),
    exp.CumeDist: ("cume_dist", DOUBLE),
    exp.Ntile: ("ntile", INT),
}
_SHIFTS: dict[type[exp.Expression], int] = {exp.Lag: -1, exp.Lead: 1}
_VALUES: dict[type[exp.Expression], str] = {
    exp.First: "first_value",
    exp.FirstValue: "first_value",
    exp.Last: "last_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
#: Aggregates with an order of their own, over whole partitions alone.
_UNORDERED = ("median", "percentile_cont", "percentile_disc", "listagg")
_EDGE, _PEERS = _End("edge"), _End("peers")
#: The only frame that functions of a row's rank may be written with.
_UP_TO_ROW = (_EDGE, _End("rows"))


class Windows:
    """Collects the window calls of a query; equal calls are one."""

    def __init__(self, select: exp.Select, below: FromResolver, report: Report) -> None:
        self.calls: list[_Call] = []
        self.places: list[exp.Expression] = []
        self.select = select
        self.report = report
        self._below = below
        for definition in select.args.get("windows") or ():
            if definition.args.get("alias") is not None:
                report.fail(definition, "a window cannot be defined as another one")

    def bind(self, node: exp.Expression, around: Scalars) -> Expr:
        """A window function in a clause that `around` binds, as an expression of the wide row."""
        assert isinstance(node, exp.Window)
        window = defined(node, self.select)
        if window is None:
            self.report.fail(node, f'there is no window "{node.args["alias"].name}" in WINDOW')
        if window is not node:
            self.report.check(window)
            further = [a for a in ("partition_by", "order", "spec") if node.args.get(a)]
            if further:
                self.report.fail(node, "a named window cannot be extended")
        names = around.resolver
        if isinstance(names, SelectResolver):  # in a window of the list aliases are not seen
            names = names.below
        binder = Scalars(names, around.aggregates, around.subqueries, self.report)
        over = self._over(window, binder)
        function, ignores = _unwrapped(node.this, self.report)
        kind = type(function)
        if kind in _RANKS:
            return self._ranked(function, node, over, binder)
        if kind in _SHIFTS:
            return self._shifted(function, node, over, ignores, binder)
        if kind in _VALUES:
            return self._valued(function, node, over, ignores, binder)
        if kind is exp.Anonymous and str(function.this).lower() == "counter_diff":
            return self._grown(function, node, over, ignores, binder)
        if ignores and kind is not exp.AnyValue:
            self.report.fail(node, f"{describe(function)} takes no IGNORE NULLS")
        return self._aggregate(function, node, over, binder)

    # functions

    def _ranked(
        self, function: exp.Expression, node: exp.Expression, over: _Over, binder: Scalars
    ) -> Expr:
        self.report.check(function)
        name, kind = _RANKS[type(function)]
        self._need_order(function, node, over)
        if over.frame not in (None, _UP_TO_ROW):
            self.report.fail(
                node,
                f"{describe(function)} takes no frame",
                "It is of all rows up to this one.",
                "Leave the frame out.",
            )
        parameters: tuple[Literal, ...] = ()
        if name == "ntile" and function.args.get("this") is not None:
            parameters = (self._number(function, function.this, 1, binder),)
        elif name == "ntile":
            parameters = (Literal(1, INT),)
        elif function.expressions or function.args.get("this") is not None:
            self.report.fail(node, f"{describe(function)} takes no argument")
        call = _Call(name, (), kind, False, replace(over, frame=None), parameters=parameters)
        return self._keep(call, node)

    def _shifted(
        self,
        function: exp.Expression,
        node: exp.Expression,
        over: _Over,
        ignores: bool,
        binder: Scalars,
    ) -> Expr:
        self.report.check(function)
        self._need_order(function, node, over)
        if over.frame is not None:
            self.report.fail(
                node, f"{describe(function)} takes no frame", hint="Leave the frame out."
            )
        value = binder.argument(function, "this")
        by = 1
        if function.args.get("offset") is not None:
            found = self._number(function, function.args["offset"], None, binder).value
            assert isinstance(found, int)
            by = found
        args: tuple[Expr, ...] = (value,)
        nullable = True
        if function.args.get("default") is not None:
            default = binder.bind(function.args["default"])
            args = (value, coercion.explicit_cast(default, value.type, False))
            nullable = any(a.nullable for a in args)
        shift = (Literal(by * _SHIFTS[type(function)], INT),)
        plain = replace(over, frame=None)
        call = _Call("shift", args, args[0].type, nullable, plain, (), shift, ignores and by != 0)
        return self._keep(call, node)

    def _grown(
        self,
        function: exp.Expression,
        node: exp.Expression,
        over: _Over,
        ignores: bool,
        binder: Scalars,
    ) -> Expr:
        """COUNTER_DIFF, by the values of the row before."""
        self.report.check(function)
        self._need_order(function, node, over)
        if over.frame not in (None, _UP_TO_ROW) or ignores:
            self.report.fail(node, "COUNTER_DIFF takes neither a frame nor IGNORE NULLS")
        args = [binder.bind(a) for a in function.expressions]
        if len(args) not in (1, 2):
            self.report.fail(node, f"COUNTER_DIFF takes 1 to 2 arguments, not {len(args)}")
        plain = replace(over, frame=None)

        def before(value: Expr) -> Expr:
            shift = (Literal(-1, INT),)
            return self._keep(
                _Call("shift", (value,), value.type, True, plain, (), shift, True), node
            )

        return counter_diff(args[0], args[1] if len(args) > 1 else None, before)

    def _valued(
        self,
        function: exp.Expression,
        node: exp.Expression,
        over: _Over,
        ignores: bool,
        binder: Scalars,
    ) -> Expr:
        self.report.check(function)
        name, value = _VALUES[type(function)], binder.argument(function, "this")
        parameters: tuple[Literal, ...] = ()
        if name == "nth_value":
            if function.args.get("offset") is None:
                self.report.fail(node, "NTH_VALUE has too few arguments")
            parameters = (self._number(function, function.args["offset"], 1, binder),)
        call = _Call(name, (value,), value.type, True, over, (), parameters, ignores)
        return self._keep(call, node)

    def _aggregate(
        self, function: exp.Expression, node: exp.Expression, over: _Over, binder: Scalars
    ) -> Expr:
        call = function.this if isinstance(function, exp.Filter) else function
        if aggregate_name(call) in (None, "grouping", "grouping_id"):
            self.report.fail(node, f"{describe(call)} is no window function")
        if aggregate_name(call) in _UNORDERED and (over.order or over.frame is not None):
            self.report.fail(
                node,
                f"{describe(call)} takes neither ORDER BY nor a frame in its window",
                hint="Write it over PARTITION BY alone.",
            )
        parts = (call, call.args.get("this"), *call.expressions)
        if any(isinstance(n, (exp.Distinct, exp.ApproxDistinct)) for n in parts):
            self.report.fail(
                node,
                "a window takes no DISTINCT",
                hint="Aggregate the distinct values in a subquery, and join it.",
            )

        def keep(made: AggregateCall) -> Expr:
            kept = _Call(
                made.function, made.args, made.type, made.nullable, over, made.order,
                made.parameters,
            )  # fmt: skip
            return self._keep(kept, node)

        return AggregateReader(binder, self._below, self.report).read(function, False, keep)

    def _keep(self, call: _Call, node: exp.Expression) -> Expr:
        if call not in self.calls:
            self.calls.append(call)
            self.places.append(node)
        position = WINDOWS + self.calls.index(call)
        return Column(position, call.type, call.nullable, call.function)

    def _need_order(self, function: exp.Expression, node: exp.Expression, over: _Over) -> None:
        if not over.order:
            self.report.fail(
                node,
                f"{describe(function)} needs ORDER BY in its window",
                hint=f"Write {describe(function)}(…) OVER (PARTITION BY … ORDER BY …).",
            )

    def _number(
        self, function: exp.Expression, node: exp.Expression, least: int | None, binder: Scalars
    ) -> Literal:
        """A constant number of rows."""
        bound = binder.bind(node)
        if isinstance(bound, Literal) and isinstance(bound.type, IntegerType):
            number = bound.value
            if isinstance(number, int) and abs(number) <= INT.max:
                if least is None or number >= least:
                    return Literal(number, INT)
        at_least = "" if least is None else f" of at least {least}"
        raise self.report.error(
            node, f"{describe(function)} needs an INT{at_least} here, as a literal"
        )

    # OVER

    def _over(self, window: exp.Window, binder: Scalars) -> _Over:
        partition = [binder.bind(p) for p in window.args.get("partition_by") or ()]
        order: list[_Key] = []
        clause = window.args.get("order")
        if clause is not None:
            self.report.check(clause)
            for item in clause.expressions:
                self.report.check(item)
                key = binder.bind(item.this)
                descending = bool(item.args.get("desc"))
                order.append(_Key(key, descending, bool(item.args.get("nulls_first"))))
        ordered = tuple(order)
        spec = window.args.get("spec")
        frame = None
        if spec is not None:
            frame, ordered = self._frame(spec, ordered, binder)
        parts = tuple(dict.fromkeys(p for p in partition if not is_constant(p)))
        return _Over(parts, ordered, frame)

    def _frame(
        self, spec: exp.Expression, order: tuple[_Key, ...], binder: Scalars
    ) -> tuple[tuple[_End, _End], tuple[_Key, ...]]:
        """The frame, and the order by which its values are told."""
        self.report.check(spec)
        start, end = spec.args["start"], spec.args.get("end") or "CURRENT ROW"
        sides = [str(spec.args.get(f"{which}_side") or "").upper() for which in ("start", "end")]
        if (start, sides[0]) == ("UNBOUNDED", "FOLLOWING"):
            self.report.fail(spec, "a frame cannot begin at UNBOUNDED FOLLOWING")
        if (end, sides[1]) == ("UNBOUNDED", "PRECEDING"):
            self.report.fail(spec, "a frame cannot end at UNBOUNDED PRECEDING")
        by_rows = str(spec.args["kind"]).upper() == "ROWS"
        ends = tuple(zip((start, end), sides, strict=True))
        if by_rows:
            first, last = (self._row(e, side, binder) for e, side in ends)
            if first.kind == last.kind == "rows" and first.offset > last.offset:
                self._refuse_empty(spec)
            return (first, last), order
        values = [isinstance(e, exp.Expression) for e, _ in ends]
        ranks = [_rank(e, side) for e, side in ends]
        if ranks[0] > ranks[1]:
            self._refuse_empty(spec)
        if not any(values):
            first, last = (_EDGE if e == "UNBOUNDED" else _PEERS for e, _ in ends)
            return (first, last), order
        if len(order) != 1 or is_constant(order[0].expr):
            self.report.fail(
                spec,
                "RANGE with a value needs ORDER BY of one expression",
                f"This window is ordered by {len(order)}, which must be no constant.",
                "Use ROWS, or order by one expression.",
            )
        key = order[0]
        found = [self._value(e, side, key, binder) if is_value else None
                 for (e, side), is_value in zip(ends, values, strict=True)]  # fmt: skip
        if all(values) and ends[0][1] == ends[1][1]:
            sizes = [self._size(e, binder) for e, _ in ends]
            if (sizes[0] > sizes[1]) != (ends[0][1] == "PRECEDING") and sizes[0] != sizes[1]:
                self._refuse_empty(spec)
        kinds = [f.type for f in found if f is not None]
        kind = kinds[0]
        for other in kinds[1:]:
            common = coercion.common_type(kind, other)
            assert common is not None
            kind = common
        cast = [None if f is None else coercion.cast(f, kind) for f in found]
        key = replace(key, expr=coercion.cast(key.expr, kind))
        first, last = (
            _End("value", value=value) if value is not None
            else _EDGE if e == "UNBOUNDED" else _PEERS
            for value, (e, _) in zip(cast, ends, strict=True)
        )  # fmt: skip
        return (first, last), (key,)

    def _row(self, end: object, side: object, binder: Scalars) -> _End:
        if end == "UNBOUNDED":
            return _EDGE
        if not isinstance(end, exp.Expression):
            return _End("rows")
        number = self._size(end, binder)
        if not isinstance(number, int) or number > INT.max:
            self.report.fail(end, "ROWS needs an INT of at least 0 here, as a literal")
        return _End("rows", -number if side == "PRECEDING" else number)

    def _value(self, end: exp.Expression, side: object, key: _Key, binder: Scalars) -> Expr:
        """The order key of what is so far from a row."""
        kind = key.expr.type
        forward = (side == "FOLLOWING") != key.descending
        if isinstance(kind, (DateType, TimestampType)) and isinstance(end, exp.Interval):
            interval = binder.bind(end)
            moved = intervals.moved(key.expr, interval if forward else intervals.negative(interval))
            if moved.type != kind:
                self.report.fail(end, f"RANGE over a {kind} takes whole days, months or years")
            return moved
        self._size(end, binder)
        bound = binder.bind(end)
        if isinstance(kind, DateType) and isinstance(bound.type, IntegerType):
            add_days = functions.add_days if forward else functions.subtract_days
            return add_days(key.expr, bound)
        if not isinstance(kind, (IntegerType, DecimalType, FloatType)):
            self.report.fail(
                end,
                f"RANGE with this value cannot be over {kind}",
                hint="Order by a number, or by a DATE or TIMESTAMP and write an INTERVAL.",
            )
        amount = coercion.explicit_cast(bound, kind, False)
        return functions.arithmetic("add" if forward else "subtract", key.expr, amount)

    def _size(self, end: object, binder: Scalars) -> float:
        """How far an end is, to be compared with another."""
        assert isinstance(end, exp.Expression)
        if isinstance(end, exp.Interval):
            interval = binder.bind(end)
            assert isinstance(interval, Literal) and isinstance(interval.value, int)
            months = isinstance(interval.type, IntervalType) and interval.type.unit == "month"
            return float(interval.value * 31 * 86_400e6 if months else interval.value)
        bound = binder.bind(end)
        value = bound.value if isinstance(bound, Literal) else None
        if not isinstance(value, (int, float, Decimal)) or isinstance(value, bool) or value < 0:
            self.report.fail(
                end,
                "a frame needs a number of at least 0 here, as a literal",
                hint="Write PRECEDING for what comes before, FOLLOWING for what comes behind.",
            )
        return value if isinstance(value, int) else float(value)

    def _refuse_empty(self, spec: exp.Expression) -> None:
        self.report.fail(
            spec,
            "a frame cannot end before it begins",
            hint="Exchange the ends: what is after AND is what comes later.",
        )


def _rank(end: object, side: object) -> int:
    """Where an end of RANGE is, as far as its form tells."""
    if isinstance(end, exp.Expression):
        return -1 if side == "PRECEDING" else 1
    if end == "UNBOUNDED":
        return -2 if side == "PRECEDING" else 2
    return 0


def _unwrapped(node: exp.Expression, report: Report) -> tuple[exp.Expression, bool]:
    """The function of a window, and whether it ignores NULLs."""
    ignores = False
    while isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
        ignores |= isinstance(node, exp.IgnoreNulls)
        node = node.this
    return node, ignores


def is_windowed(expr: Expr) -> bool:
    """Whether an expression of the wide row reads a window."""
    return any(isinstance(e, Column) and WINDOWS <= e.index < FIRST >> 1 for e in walk(expr))


#: An expression of the wide row, and where it was written.
_Written: TypeAlias = tuple[Expr, exp.Expression]


class Windowed:
    """The windows of a query over its rows, and the way of expressions onto them.

    `below`: the rows, and how expressions come onto them; `outputs` and `further`: all that will be
    asked for. `bind` binds a part of the select list.
    """

    def __init__(
        self,
        below: Placement,
        windows: Windows,
        outputs: Sequence[Output],
        further: Sequence[_Written],
        bind: Callable[[exp.Expression], Expr],
    ) -> None:
        self._below = below
        self._positions: dict[Expr, int] = {}
        self._fields: list[Field] = []
        plain = [o for o in outputs if not is_windowed(o.expr)]
        for output in plain:
            self._add(output.expr, output.node)
        for node in tie_nodes(windows.select)[1]:
            bound = bind(node)
            if not is_windowed(bound):
                self._add(bound, node)
        for expr, node in (*((o.expr, o.node) for o in outputs), *further):
            self._collect(below.place(expr, node), node)
        for call, node in zip(windows.calls, windows.places, strict=True):
            for expr in _read(call):
                self._take(below.place(expr, node), node, read=True)
        if not self._positions:  # a row needs a column
            self._take(Literal(1, INT), windows.select, read=True)
        self.plan: Plan = Project(below.plan, tuple(self._positions), tuple(self._fields))
        #: Of each call, its column.
        self._made: dict[int, int] = {}
        overs: dict[tuple[object, object], list[int]] = {}
        for i, call in enumerate(windows.calls):
            overs.setdefault((call.over.partition, call.over.order), []).append(i)
        made = [
            self._window([(windows.calls[i], windows.places[i]) for i in some])
            for some in overs.values()
        ]
        copies: tuple[int, ...] = ()
        told = [any(map(_tells_peers_apart, window.calls)) for window in made]
        if sum(told) > 1:
            # Copies of a row come in one order in all windows.
            copies = (len(self.plan.schema),)
            every = tuple(range(len(self.plan.schema)))
            number = WindowCall("row_number", (), INT, False)
            self.plan = Window(self.plan, every, (), (), (number,))
        for window, some, tells in zip(made, overs.values(), told, strict=True):
            width = len(self.plan.schema)
            self._made.update({i: width + at for at, i in enumerate(some)})
            ties = (*window.ties, *copies) if tells else ()
            self.plan = replace(window, input=self.plan, ties=ties)

    def _window(self, calls: Sequence[tuple[_Call, exp.Expression]]) -> Window:
        """One partition and order, over the columns."""
        over, node = calls[0][0].over, calls[0][1]
        partition = tuple(self._at(p, node) for p in over.partition)
        order: dict[int, SortKey] = {}
        for key in over.order:
            if not is_constant(key.expr):
                column = self._at(key.expr, node)
                order.setdefault(column, SortKey(column, key.descending, key.nulls_first))
        made = tuple(self._made_call(c, bool(order), n) for c, n in calls)
        ties: tuple[int, ...] = ()
        if any(map(_tells_peers_apart, made)):
            known = {*partition, *order}
            ties = tuple(c for c in range(len(self._positions)) if c not in known)
        return Window(self.plan, partition, tuple(order.values()), ties, made)

    def _made_call(self, call: _Call, ordered: bool, node: exp.Expression) -> WindowCall:
        args = tuple(self._at(a, node) for a in call.args)
        return WindowCall(
            call.function, args, call.type, call.nullable, self._frame(call, ordered, node),
            call.order, call.parameters, call.ignore_nulls,
        )  # fmt: skip

    def _frame(self, call: _Call, ordered: bool, node: exp.Expression) -> Frame:
        if call.function in _WITHOUT_FRAME:
            return WHOLE
        ends = call.over.frame
        if ends is None:
            ends = (_EDGE, _PEERS) if call.over.order else (_EDGE, _EDGE)

        def end(e: _End) -> FrameEnd:
            if e.value is not None:
                return FrameEnd("value", self._at(e.value, node))
            return FrameEnd("edge") if e == _PEERS and not ordered else FrameEnd(e.kind, e.offset)

        return Frame(end(ends[0]), end(ends[1]))

    def above(self, expr: Expr, node: exp.Expression) -> Expr:
        """The expression, bound from `node` over the wide row, over the windows' output."""
        return self._above(self._below.place(expr, node))

    def _above(self, expr: Expr) -> Expr:
        if expr in self._positions:
            return Column(self._positions[expr], expr.type, expr.nullable, _name(expr, ""))
        match expr:
            case Column(index=index) if WINDOWS <= index < FIRST >> 1:
                return replace(expr, index=self._made[index - WINDOWS])
            case Call():
                return replace(expr, args=tuple(map(self._above, expr.args)))
            case _:
                return expr

    def _collect(self, placed: Expr, node: exp.Expression) -> None:
        """The largest parts of an expression that read no window; of those that may fail the
        columns, as what is around them may not reach them."""
        if placed in self._positions:
            return
        if not is_windowed(placed):
            fails = may_fail(placed)
            for part in walk(placed) if fails else (placed,):
                if isinstance(part, Column) or not fails:
                    self._take(part, node)
        elif isinstance(placed, Call):
            for arg in placed.args:
                self._collect(arg, node)

    def _add(self, expr: Expr, node: exp.Expression) -> None:
        self._take(self._below.place(expr, node), node)

    def _take(self, placed: Expr, node: exp.Expression, read: bool = False) -> None:
        """Make it a column, unless it can stand anywhere and no window reads it."""
        if placed not in self._positions and (read or not isinstance(placed, (Literal, Outer))):
            self._positions[placed] = len(self._positions)
            name = _name(placed, output_name(node) if isinstance(node, exp.Column) else "")
            self._fields.append(
                Field(name or f"column{len(self._fields)}", placed.type, placed.nullable)
            )

    def _at(self, expr: Expr, node: exp.Expression) -> int:
        return self._positions[self._below.place(expr, node)]


def _tells_peers_apart(call: WindowCall) -> bool:
    """Whether its value depends on how ties are broken."""
    if call.function in RANKED:
        return call.function not in ("rank", "dense_rank", "percent_rank", "cume_dist")
    return "rows" in (call.frame.start.kind, call.frame.end.kind)


_WITHOUT_FRAME = "row_number rank dense_rank percent_rank cume_dist ntile shift".split()


def _name(expr: Expr, otherwise: str) -> str:
    return expr.name if isinstance(expr, Column) else otherwise


def _read(call: _Call) -> list[Expr]:
    """What a call and its window read."""
    frame = call.over.frame or ()
    return [
        *call.args,
        *call.over.partition,
        *(k.expr for k in call.over.order if not is_constant(k.expr)),
        *(e.value for e in frame if e.value is not None),
    ]
