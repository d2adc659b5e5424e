"""`GROUP BY session_window(ts, gap)`: sessions, of rows that follow each other by at most the gap.

A SELECT that groups by it is rewritten before it is bound: what it names of a session are two
columns that no text can name, behind those of FROM: the `start` of the row's session, by which is
grouped, and the row's own `end`, its time and the gap; a session's end is the greatest of these.
They come of a window over the other keys, in the order of time (`session_start`, see algebra). A
row without a time is in no session, as in Spark.

Law: there is one call of it in a SELECT, and no other period of time.
Source: Spark SQL, SessionWindowing and UpdatingSessionsIterator: a row that begins as a session
ends belongs to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner.bind.naming import output_name
from planner.bind.report import Refusal, Report
from planner.bind.scalars import Scalars
from planner.bind.scope import Scope, ScopeColumn
from planner.bind.time_windows import microseconds, pair
from planner.calculus import coercion, functions
from planner.calculus.algebra import Filter, Plan, Project, SortKey, Window, WindowCall, identity
from planner.calculus.expr import Call, Column, Expr, Literal, columns_used
from planner.calculus.session_zone import zone_argument
from planner.calculus.types import BIGINT, TIMESTAMP, DateType, Field, TimestampType
from planner.names import folded

_NAME, _HIDDEN = "session_window", "session_window()"
_PARTS = ("start", "end")
_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a SELECT: the call, whose gap is so many microseconds."""

    call: exp.Expression
    gap: int

    def time(self, binder: Scalars) -> Expr:
        """What is sorted into sessions, over the columns of FROM."""
        bound = binder.bind(self.call.expressions[0])
        if isinstance(bound.type, DateType):
            bound = coercion.cast(bound, TIMESTAMP)
        if not isinstance(bound.type, TimestampType):
            binder.report.fail(
                self.call.expressions[0], f"a session is of a TIMESTAMP, not {bound.type}"
            )
        if self.gap % _DAY == 0 and zone_argument():
            binder.report.fail(
                self.call.expressions[1],
                "a session's gap in days has many lengths in this time zone",
                "Clocks are put forward and back in it.",
                "Write less than a day, or hours that are no whole days.",
            )
        return bound

    def named(self, scope: Scope, width: int, time: Expr) -> Scope:
        """The scope of FROM with the two columns, behind its `width` ones."""
        columns = tuple(
            ScopeColumn(_HIDDEN, part, width + i, Field(part, time.type, False))
            for i, part in enumerate(_PARTS)
        )
        return Scope(scope.columns + columns, scope.visible)

    def plan(self, input: Plan, time: Expr, keys: Sequence[Expr], report: Report) -> Plan:
        """The rows of `input` that have a time, with the two columns; `keys`: of GROUP BY."""
        own = identity(input.schema)
        width = len(own)
        others = tuple(dict.fromkeys(k for k in keys if k != self._start(width, time)))
        if any(c >= width for key in others for c in columns_used(key)):
            report.refuse(
                self.call,
                Refusal(
                    "session_window beside this key",
                    "the key is of the sessions themselves, or of a subquery",
                    "Compute the key in a subquery of FROM.",
                ),
            )
        there = Filter(input, functions.negation(functions.is_null(time)))
        made = [*dict.fromkeys(e for e in (*others, time) if e not in own)]
        fields = tuple(Field("key", e.type, e.nullable) for e in made)
        columns = (*own, *made)
        rows = Project(there, columns, (*input.schema, *fields))
        at = columns.index(time)
        gap = (Literal(self.gap, BIGINT),)
        call = WindowCall("session_start", (at,), time.type, False, parameters=gap)
        partition = tuple(columns.index(e) for e in others)
        window = Window(rows, partition, (SortKey(at),), (), (call,))
        moment = Column(at, time.type, False, "time")
        end = Call("add_microseconds", (moment, *gap), time.type, False)
        parts = tuple(Field(part, time.type, False) for part in _PARTS)
        start = Column(len(columns), time.type, False, "start")
        return Project(window, (*own, start, end), (*input.schema, *parts))

    def _start(self, width: int, time: Expr) -> Expr:
        return Column(width, time.type, False, "start")


def with_sessions(select: exp.Select, report: Report) -> tuple[exp.Select, Sessions | None]:
    """The SELECT without session_window, and its sessions; the same one if it has none."""
    calls = [n for n in _own(select) if _is_call(n)]
    if not calls:
        return select, None
    call, *others = calls
    for other in others:
        if other.expressions != call.expressions:
            report.fail(other, "a SELECT has one window of time", hint="Use a view for each.")
    where = select.args.get("where")
    found = [c for c in calls if where is not None and where in _around(c)]
    group = select.args.get("group")
    if found or group is None or group.args.get("all"):
        report.fail(
            (found or calls)[0],
            "session_window belongs to GROUP BY",
            "Elsewhere it stands for what is grouped by.",
        )
    if len(call.expressions) != 2:
        report.fail(call, "session_window takes a time and a gap")
    gap = microseconds(call.expressions[1], report, "a session's gap")
    if gap <= 0:
        report.fail(call.expressions[1], "a session's gap is more than nothing")
    made = select.copy()
    _replace(made, made.args["group"], call, report)
    return made, Sessions(call, gap)


def _replace(
    select: exp.Select, group: exp.Expression, call: exp.Expression, report: Report
) -> None:
    named = {
        folded(item.alias): item.this for item in select.expressions if isinstance(item, exp.Alias)
    }
    keys, count = [], 0
    for key in group.expressions:
        meant: object = key
        if isinstance(key, exp.Column) and not key.table:
            meant = named.get(folded(key.name), key)
        elif isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
            place = int(key.name) - 1
            if 0 <= place < len(select.expressions):
                meant = select.expressions[place].unalias()
        count += _is_call(meant)
        keys.append(_column("start") if _is_call(meant) else key)
    group.set("expressions", keys)
    if not count:
        report.refuse(
            call,
            Refusal(
                "session_window that is no grouping expression",
                "what is in a session hangs on the other expressions of GROUP BY",
                "Write it as one of GROUP BY's expressions, without ROLLUP, CUBE or GROUPING SETS.",
            ),
        )
    for node in list(_own(select)):
        part = _part(node)
        if part is not None:
            new, name = _edge(part), part
        elif _is_call(node) or (
            isinstance(node, exp.Column) and not node.table and folded(node.name) == _NAME
        ):
            new, name = pair(_edge("start"), _edge("end")), _NAME
        else:
            continue
        if node.parent is select and node.arg_key == "expressions":
            name = name if isinstance(node, exp.Column) or name == _NAME else output_name(node)
            new = exp.Alias(this=new, alias=exp.Identifier(this=name, quoted=True))
        node.replace(new)


def _own(select: exp.Select) -> list[exp.Expression]:
    """The nodes that belong to the SELECT itself."""
    return [
        node
        for node in select.walk(prune=lambda n: n is not select and isinstance(n, exp.Query))
        if isinstance(node, exp.Expression)
    ]


def _around(node: exp.Expression) -> list[object]:
    found: list[object] = []
    above: object = node
    while isinstance(above, exp.Expression):
        found.append(above)
        above = above.parent
    return found


def _is_call(node: object) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == _NAME


def _part(node: exp.Expression) -> str | None:
    """Which end of the sessions a node names."""
    part = None
    if isinstance(node, exp.Dot) and _is_call(node.this):
        part = folded(node.expression.name)
    elif isinstance(node, exp.Column) and folded(node.table) == _NAME:
        part = folded(node.name)
    return part if part in _PARTS else None


def _column(part: str) -> exp.Expression:
    return exp.Column(
        this=exp.Identifier(this=part, quoted=True),
        table=exp.Identifier(this=_HIDDEN, quoted=True),
    )


def _edge(part: str) -> exp.Expression:
    return _column(part) if part == "start" else exp.Max(this=_column(part))
