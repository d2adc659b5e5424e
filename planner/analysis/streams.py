"""Queries over streams: which of their rows are events, and where they become rows that stay.

An event of a stream exists at its instant alone, an epoch: the tables that a query joins it with
are seen as of that epoch, and what the query makes of it (rows of the view, sums of groups) stays,
whatever happens to those tables later. So every part of a query over a stream gives either *events*
or rows that *stay*:

    Scan of a stream                          events
    Filter, Project, Repeat                   as their input
    Join                                      events, if one of its inputs gives events
    LEFT JOIN, semi, anti, mark join          events, if the left input gives events
    subquery in an expression, over events    events
    UNION ALL                                 events, if every input gives events; else rows stay
    Aggregate, DISTINCT, TopK, Window         rows stay
    the query                                 rows stay

`retain_events` puts a `Retain` wherever events become rows that stay. Under it the query's answer
is, at every epoch, that to the events of the epoch over the tables as of it; Retain adds these
answers up. Every rewrite that is right for a query over tables is right for each of these answers,
so rules need only leave a Retain where it is.

Refused is what would need events that are gone: two inputs of a join that give events, events on
the padded or the tested side of an outer, semi or anti join, a subquery that gives events or that
is correlated and reads a stream.
"""

from __future__ import annotations

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
    inputs,
)
from planner.calculus.expr import Outer, walk
from planner.calculus.visit import expressions, with_inputs
from planner.errors import UnsupportedError

_REMEDY = (
    "Keep the events that are needed in a view of their own, CREATE MATERIALIZED VIEW kept AS "
    "SELECT … FROM {stream}, and read that instead; or aggregate them first (GROUP BY, DISTINCT)."
)


def retain_events(plan: Plan) -> Plan:
    """The bound plan with a Retain wherever events become rows that stay; the same object if it
    reads no stream.

    Raises: UnsupportedError for what would need events that are gone.
    """
    visit = _Visit()
    result, stream = visit.plan(plan)
    return result if stream is None else Retain(result)


def gives_events(plan: Plan) -> bool:
    """Whether the rows of a plan with its Retains are events."""
    match plan:
        case Scan():
            return plan.stream
        case Filter() | Project() | Repeat() | Explode() | Apply() | Keep():
            return gives_events(plan.input)
        case Join():
            return any(map(gives_events, plan.inputs))
        case OuterJoin() | SemiJoin() | MarkJoin():
            return gives_events(plan.left)
        case UnionAll() | Minus():
            return all(map(gives_events, inputs(plan)))
        case _:
            return False


def refuse_history(stream: str | None, construct: str, detail: str) -> UnsupportedError:
    """The error for a construct that would need events of `stream` ({}) that are gone."""
    named = construct.format(f'the stream "{stream}"')
    return UnsupportedError(
        f"cannot maintain {named}",
        detail=detail,
        hint=_REMEDY.format(stream=stream),
    )


class _Visit:
    """Rewrites each distinct node once."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Plan, str | None]] = {}

    def plan(self, plan: Plan) -> tuple[Plan, str | None]:
        """The plan, and the stream (one of them) whose events it gives, None if its rows stay."""
        known = self._done.get(id(plan))
        if known is None:
            known = self._done[id(plan)] = self._plan(plan)
        return known

    def _plan(self, plan: Plan) -> tuple[Plan, str | None]:
        visited = [self.plan(i) for i in inputs(plan)]
        streams = [stream for _, stream in visited]
        new = with_inputs(plan, tuple(p for p, _ in visited)) if visited else plan
        match plan:
            case Scan():
                return plan, plan.relation if plan.stream else None
            case Values() | RecursiveRef():
                return plan, None
            case Recursive():
                if streams[0] is not None:
                    raise refuse_history(
                        streams[0],
                        "WITH RECURSIVE over {}",
                        "Its rows lead to others at any later time, and past events are gone.",
                    )
                return new, None
            case Filter() | Project() | Repeat() | Explode():
                return new, streams[0]
            case Join():
                return new, _joined(streams)
            case OuterJoin() | SemiJoin() | MarkJoin():
                return new, _one_sided(plan, streams[0], streams[1])
            case Apply():
                return new, _applied(plan, streams[0], streams[1])
            case UnionAll() if all(streams):
                return new, streams[0]
            case UnionAll() | Aggregate() | TopK() | Window():
                return _retained(new, streams), None
            case Retain() | SingleRow() | Threshold() | Timeline() | Minus() | Keep():
                raise AssertionError(f"the binder makes no {type(plan).__name__}")
            case _:
                assert_never(plan)


def _retained(plan: Plan, streams: list[str | None]) -> Plan:
    """The node over inputs whose events stay."""
    kept = tuple(
        i if stream is None else Retain(i) for i, stream in zip(inputs(plan), streams, strict=True)
    )
    return with_inputs(plan, kept)


def _joined(streams: list[str | None]) -> str | None:
    found = [s for s in streams if s is not None]
    if len(found) > 1:
        other = f'the stream "{found[1]}"' if found[0] != found[1] else "itself"
        raise refuse_history(
            found[0],
            f"a join of {{}} with {other}",
            "Each event would have to be paired with past events, which are not kept.",
        )
    return found[0] if found else None


def _one_sided(
    plan: OuterJoin | SemiJoin | MarkJoin, left: str | None, right: str | None
) -> str | None:
    if right is not None:
        raise refuse_history(
            right,
            "an outer, semi or anti join whose other side is {}",
            "A row without a match would have to be told from one that an earlier event matched.",
        )
    if left is not None and isinstance(plan, OuterJoin) and plan.full:
        raise refuse_history(
            left,
            "a FULL JOIN of {}",
            "A row without a match would have to be told from one that an earlier event matched.",
        )
    return left


def _applied(plan: Apply, outer: str | None, inner: str | None) -> str | None:
    if inner is not None:
        raise refuse_history(
            inner,
            "a subquery in an expression that gives the events of {}",
            "Its rows would have to be compared with past events, which are not kept.",
        )
    stream = stream_of(plan.subquery)
    if stream is not None and _is_correlated(plan.subquery):
        raise refuse_history(
            stream,
            "a correlated subquery over {}",
            "A new row around it would have to meet past events, which are not kept.",
        )
    return outer


def stream_of(plan: Plan) -> str | None:
    """A stream that the plan reads, if it reads any."""
    if isinstance(plan, Scan):
        return plan.relation if plan.stream else None
    return next((s for s in map(stream_of, inputs(plan)) if s is not None), None)


def _is_correlated(plan: Plan, depth: int = 1) -> bool:
    if any(
        isinstance(e, Outer) and e.depth >= depth for own in expressions(plan) for e in walk(own)
    ):
        return True
    if isinstance(plan, Apply):
        return _is_correlated(plan.input, depth) or _is_correlated(plan.subquery, depth + 1)
    return any(_is_correlated(i, depth) for i in inputs(plan))
