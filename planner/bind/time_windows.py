"""`window(ts, width[, slide[, start]])`: the periods of time that a row is in.

A SELECT that has such a call is rewritten before it is bound. Its GROUP BY window(…) becomes one by
the period's start and end; `window.start`, `window.end`, `window(…).start` and `.end` stand for
these, `window` for both, a STRUCT. Periods that overlap take each row several times: it is joined
with as many constants, how far back each of them begins. A row without a time is in none, as in
Spark.

    start = ts - (ts - offset) mod slide - back,  end = start + width,  ts < end

Law: all calls of a SELECT are one, as in Spark. Periods are counted in microseconds since 1970 (UTC
for a TIMESTAMP), whatever clocks show.
Source: Spark SQL, TimeWindowing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from planner.bind.nodes import PeriodEdge
from planner.bind.report import Report
from planner.names import folded
from planner.parse.queries import PERIODS

#: What a text calls the periods of its GROUP BY; and of the constants, which no text can name.
_NAME, _BACK = "window", "window()"
_PARTS = ("start", "end")
_UNITS = {
    unit: micros
    for name, micros in (
        ("microsecond", 1),
        ("millisecond", 1_000),
        ("second", 1_000_000),
        ("minute", 60_000_000),
        ("hour", 3_600_000_000),
        ("day", 86_400_000_000),
        ("week", 604_800_000_000),
    )
    for unit in (name, f"{name}s")
}
#: Periods that one row is in, at most.
_MOST = 1024


@dataclass(frozen=True, slots=True)
class _Periods:
    time: exp.Expression
    width: int
    slide: int
    offset: int

    @property
    def count(self) -> int:
        return -(-self.width // self.slide)

    def edge(self, part: str) -> exp.Expression:
        back: exp.Expression = exp.Literal.number(0)
        if self.count > 1:
            back = exp.Column(
                this=exp.Identifier(this="back", quoted=True),
                table=exp.Identifier(this=_BACK, quoted=True),
            )
        if part == "end":
            width = exp.Literal.number(self.width)
            back = exp.Neg(this=width) if self.count == 1 else exp.Sub(this=back, expression=width)
        return PeriodEdge(this=self.time.copy(), slide=self.slide, offset=self.offset, back=back)


def with_periods(select: exp.Select, report: Report) -> exp.Select:
    """The SELECT without calls of window; the same one if it has none of its own."""
    calls = _calls(select)
    if not calls:
        return select
    first = calls[0]
    for other in calls[1:]:
        if other.expressions != first.expressions:
            report.fail(other, "a SELECT has one window of time", hint="Use a view for each.")
    periods = _periods(first, report)
    grouped = any(c.find_ancestor(exp.Group) for c in calls)
    made = select.copy()
    _replace(made, periods, grouped)
    tests: list[exp.Expression] = [
        exp.Not(this=exp.Is(this=periods.time.copy(), expression=exp.Null()))
    ]
    if periods.count > 1:
        _join_constants(made, periods, report)
        tests.append(exp.LT(this=periods.time.copy(), expression=periods.edge("end")))
    where = made.args.get("where")
    if where is not None:
        tests.insert(0, exp.Paren(this=where.this))
    made.set("where", exp.Where(this=exp.and_(*tests, copy=False, wrap=False)))
    return made


def _calls(select: exp.Select) -> list[exp.Expression]:
    """Those that belong to the SELECT itself."""
    return [
        node
        for node in select.walk(prune=lambda n: n is not select and isinstance(n, exp.Query))
        if isinstance(node, exp.Anonymous) and str(node.this) == PERIODS
    ]


def _replace(select: exp.Select, periods: _Periods, grouped: bool) -> None:
    group = select.args.get("group")
    if group is not None:
        keys: list[exp.Expression] = []
        for key in group.expressions:
            keys += [periods.edge(p) for p in _PARTS] if _is_call(key) else [key]
        group.set("expressions", keys)
    for node in list(select.walk(prune=lambda n: n is not select and isinstance(n, exp.Query))):
        part = _part(node, grouped)
        if part is not None:
            edge = periods.edge(part)
            if node.parent is select and node.arg_key == "expressions":
                edge = exp.Alias(this=edge, alias=exp.Identifier(this=part, quoted=True))
            node.replace(edge)
    for node in list(select.walk(prune=lambda n: n is not select and isinstance(n, exp.Query))):
        if _is_call(node) or (grouped and _is_whole(node)):
            whole: exp.Expression = pair(periods.edge("start"), periods.edge("end"))
            if node.parent is select and node.arg_key == "expressions":
                whole = exp.Alias(this=whole, alias=exp.Identifier(this=_NAME, quoted=True))
            node.replace(whole)


def pair(start: exp.Expression, end: exp.Expression) -> exp.Expression:
    """A period as a value, a STRUCT."""
    names = (exp.Literal.string(part) for part in _PARTS)
    parts = zip(names, (start, end), strict=True)
    return exp.Anonymous(this="named_struct", expressions=[n for part in parts for n in part])


def _is_call(node: object) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this) == PERIODS


def _is_whole(node: object) -> bool:
    return isinstance(node, exp.Column) and not node.table and folded(node.name) == _NAME


def _part(node: object, grouped: bool) -> str | None:
    """Which end of the periods a node names."""
    part = None
    if isinstance(node, exp.Dot) and (_is_call(node.this) or (grouped and _is_whole(node.this))):
        part = folded(node.expression.name)
    elif grouped and isinstance(node, exp.Column) and folded(node.table) == _NAME:
        part = folded(node.name)
    return part if part in _PARTS else None


def _join_constants(select: exp.Select, periods: _Periods, report: Report) -> None:
    for star in select.expressions:
        if star.is_star:
            report.fail(star, "* cannot stand beside a window that overlaps", hint="Name columns.")
    rows = [
        exp.Tuple(
            expressions=[
                exp.Cast(
                    this=exp.Literal.number(i * periods.slide), to=exp.DataType.build("bigint")
                )
            ]
        )
        for i in range(periods.count)
    ]
    alias = exp.TableAlias(
        this=exp.Identifier(this=_BACK, quoted=True),
        columns=[exp.Identifier(this="back", quoted=True)],
    )
    select.append("joins", exp.Join(this=exp.Values(expressions=rows, alias=alias), kind="CROSS"))


def _periods(call: exp.Expression, report: Report) -> _Periods:
    time, *said = call.expressions or [None]
    if time is None or not 1 <= len(said) <= 3:
        report.fail(call, "window takes a time, a width, and perhaps a slide and a start")
    numbers = [microseconds(node, report, "a window's width") for node in said]
    width = numbers[0]
    slide = numbers[1] if len(numbers) > 1 else width
    offset = numbers[2] if len(numbers) > 2 else 0
    if width <= 0 or not 0 < slide <= width or abs(offset) >= slide:
        report.fail(
            call,
            "a window's slide is more than nothing, and at most its width",
            "Its start is less than its slide.",
        )
    if width > _MOST * slide:
        report.fail(call, f"each row would be in more than {_MOST} windows")
    return _Periods(time, width, slide, offset)


def microseconds(node: exp.Expression, report: Report, what: str) -> int:
    """A length of time, as a text or an interval."""
    if isinstance(node, exp.Interval) and isinstance(node.args.get("unit"), exp.Var):
        text = f"{node.this.name} {node.args['unit'].name}"
    elif isinstance(node, exp.Literal) and node.is_string:
        text = node.name
    else:
        report.fail(node, f"{what} is a text such as '10 minutes'")
    words = re.findall(r"([+-]?\d+)\s*([a-z]+)", text.lower().removeprefix("interval"))
    known = [int(number) * _UNITS[unit] for number, unit in words if unit in _UNITS]
    rest = re.sub(r"([+-]?\d+)\s*([a-z]+)", "", text.lower().removeprefix("interval")).strip()
    if not known or len(known) < len(words) or rest:
        report.fail(
            node,
            f"{what} cannot be '{text}'",
            hint="Write weeks, days, hours, minutes, seconds, as in '1 hour 30 minutes'.",
        )
    return sum(known)
