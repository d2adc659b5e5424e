"""What of a step that is placed on Spark its tasks run, and what stays in the driver, and why.

Tasks run what has no state on the changes that are dealt out to them, and take those of groups and
bags together by the buckets of their keys; groups that look their rows up (MIN, MAX, recomputed
ones) find them in the indexes that are published for these. What reads rows in an order that is not
of groups is the driver's: it visits a few rows for each change, in indexes as they are in the
middle of the step. So is what no relation has the rows of, and what runs in rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from typing_extensions import assert_never

from planner import dataflow as ir


def is_stateless(node: ir.Node) -> bool:
    """Whether the node only turns deltas into deltas, in any task."""
    match node:
        case ir.Map() | ir.Union() | ir.Repeat() | ir.Explode() | ir.DeltaJoin() | ir.Constant():
            return True
        case ir.Source() | ir.Stream() | ir.Store() | ir.TopK() | ir.Threshold():
            return False
        case ir.Reduce() | ir.Recompute() | ir.Window() | ir.Variable() | ir.Loop():
            return False
        case ir.Timeline():
            return False
        case _:
            assert_never(node)


def flows_at_first(node: ir.Node) -> bool:
    """Whether the node's first rows are made of its input's in any task: nothing has state then
    that changes, and scalars stand still."""
    return is_stateless(node) or isinstance(node, ir.Threshold)


def is_of_partitions(node: ir.Node) -> TypeGuard[ir.TopK | ir.Window]:
    """Whether the node's rows are those of each partition of an index by itself."""
    return isinstance(node, ir.Window) or (isinstance(node, ir.TopK) and bool(node.index.partition))


def reads_members(node: ir.Node) -> TypeGuard[ir.Reduce | ir.Recompute]:
    """Whether the node's groups look their rows up in indexes of its input."""
    if isinstance(node, ir.Reduce):
        return any(a.index is not None for a in node.accumulators)
    return isinstance(node, ir.Recompute)


def why_in_driver(node: ir.Node) -> str | None:
    """Why the driver runs a node that keeps or looks up rows; None if tasks do, or those who read
    it."""
    own = why_local(node)
    if own is not None or not isinstance(node, (ir.Reduce, ir.Store, ir.Recompute)):
        return own
    return next((why for leaf in _leaves(node) if (why := why_not_sent(leaf)) is not None), None)


def why_local(node: ir.Node) -> str | None:
    """Why the node itself reads a stored input through an index of it, or runs in rounds, if it
    does."""
    match node:
        case ir.TopK():
            return "it reads the front of an order"
        case ir.Reduce() if not node.keys and reads_members(node):
            return "it reads the front of an order"
        case ir.Threshold():
            return "it reads a range of an order"
        case ir.Window():
            return "it reads partitions in their order"
        case ir.Recompute() if not node.index.columns:
            return "it reads all rows of its one group"
        case ir.Loop() | ir.Timeline():
            return "each round follows from the one before"
        case ir.Variable() | ir.Source() | ir.Stream() | ir.Store() | ir.Reduce():
            return None
        case ir.Recompute():
            return None
        case ir.Map() | ir.Union() | ir.Repeat() | ir.Explode() | ir.DeltaJoin() | ir.Constant():
            return None
        case _:
            assert_never(node)


def why_not_sent(leaf: ir.Node) -> str | None:
    """Why changes of a node cannot be taken by tasks, if they cannot."""
    if isinstance(leaf, ir.Stream):
        return "only it has the events"
    if isinstance(leaf, ir.Window):
        return "only it has the values of a window"
    if isinstance(leaf, ir.Loop):
        return "only it has the rows of a loop as they come"
    return None


def _leaves(node: ir.Node) -> Iterator[ir.Node]:
    """The nodes with state whose changes come to a node."""
    seen = set[ir.Node]()
    waiting = list(ir.inputs(node))
    while waiting:
        i = waiting.pop()
        if i not in seen:
            seen.add(i)
            if is_stateless(i):
                waiting.extend(ir.inputs(i))
            else:
                yield i
