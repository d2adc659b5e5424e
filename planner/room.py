"""Room for recursion: planning runs on a stack of its own.

The parser and the planner recurse as deep as a query is nested, about 20 Python frames for a pair
of parentheses, and Python allows 1,000 in all, those of the caller among them. So a query would be
parsed at a prompt and refused in a notebook. A thread starts at depth 0, its stack is as large as
it is made, and the limit is raised while it runs; what is left to the caller's own stack (running
the plan) is bounded by `refuse_deep`.

Measured: 29,000 nested calls, plain ones and such that go through C each time, as in `map`, take at
most 18 MiB of the stack on CPython 3.10 to 3.13; from 3.12 on CPython itself ends those through C
at some 10,000. Either way the end is a RecursionError, which is a refusal here.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from planner.errors import UnsupportedError

T = TypeVar("T")
N = TypeVar("N")

_FRAMES = 30_000
_STACK_BYTES = 256 << 20
#: Levels of a plan's expressions and of its nodes, which every step and every comparison descends.
MOST_LEVELS = 200

_LOCK = threading.Lock()
_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("inside", default=False)


class _Limit:
    """Python's recursion limit, which is of the process: raised while any thread needs it."""

    def __init__(self) -> None:
        self._users = 0
        self._before = 0

    def __enter__(self) -> None:
        with _LOCK:
            if self._users == 0:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._before, _FRAMES))
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with _LOCK:
            self._users -= 1
            if self._users == 0:
                sys.setrecursionlimit(self._before)


_RAISED = _Limit()


def with_room(work: Callable[[], T]) -> T:
    """The result of `work`, run in a thread with room for recursion, in the caller's context.

    Raises: what `work` raises; UnsupportedError where even that room is too small.
    Cost: a thread, 0.1 ms; none if the caller has room already.
    """
    if _inside.get():
        return work()
    context = contextvars.copy_context()
    context.run(_inside.set, True)
    outcome: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(context.run(work))
        except RecursionError:
            raised.append(_too_deep())
        except BaseException as error:
            raised.append(error)

    with _RAISED:
        with _LOCK:
            before = threading.stack_size(_STACK_BYTES)
            try:
                thread = threading.Thread(target=run, name="sqlview-planner", daemon=True)
                thread.start()
            finally:
                threading.stack_size(before)
        thread.join()
    if raised:
        raise raised[0]
    return outcome[0]


def _too_deep() -> UnsupportedError:
    return UnsupportedError(
        "cannot maintain a query that is nested so deeply",
        hint="Split the query into views.",
    )


def refuse_deep(roots: Iterable[N], below: Callable[[N], Iterable[N]], what: str) -> None:
    """Refuse what has more than MOST_LEVELS levels under one of `roots`. Cost: O(nodes), shared
    ones once.

    Raises: UnsupportedError naming the limit.
    """
    levels: dict[int, int] = {}
    for root in roots:
        stack: list[tuple[N, Iterator[N]]] = [(root, iter(below(root)))]
        while stack:
            node, rest = stack[-1]
            child = next((c for c in rest if id(c) not in levels), None)
            if child is not None:
                stack.append((child, iter(below(child))))
                continue
            levels[id(node)] = 1 + max((levels[id(c)] for c in below(node)), default=0)
            stack.pop()
        if levels[id(root)] > MOST_LEVELS:
            raise UnsupportedError(
                f"cannot maintain {what} of {levels[id(root)]} levels",
                detail=f"At most {MOST_LEVELS} operations can be inside one another.",
                hint="Write a + b + c + d as (a + b) + (c + d), or split the query into views.",
            )
