"""What of a step that is placed on Spark its tasks run, and what stays in the driver, and why.

Tasks run what has no state on the changes that are dealt out to them, thresholds too, whose rows
and scalars they look up; they take the changes of partitions (windows, top-k of groups) together by
the buckets of these, and those of groups and bags by the buckets of their keys; groups that look
their rows up (MIN, MAX, recomputed ones) find them in the indexes that are published for these.
What reads the front of one order is the driver's: it visits a few rows for each change. So is what
runs in rounds.
"""

from __future__ import annotations

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


def flows(node: ir.Node) -> bool:
    """Whether a job of a step can have the node between what changes and what keeps rows."""
    return flows_at_first(node) or is_of_partitions(node)


def only_adds(node: ir.Node) -> bool:
    """Whether rows that come to the node let rows come, and none go."""
    if isinstance(node, ir.Union):
        return not any(node.negated or ())
    return isinstance(node, ir.Map | ir.Explode | ir.DeltaJoin)


def is_of_partitions(node: ir.Node) -> TypeGuard[ir.TopK | ir.Window]:
    """Whether the node's rows are those of each partition of an index by itself."""
    return isinstance(node, ir.Window) or (isinstance(node, ir.TopK) and bool(node.index.partition))


def reads_members(node: ir.Node) -> TypeGuard[ir.Reduce | ir.Recompute]:
    """Whether the node's groups look their rows up in indexes of its input."""
    if isinstance(node, ir.Reduce):
        return any(a.index is not None for a in node.accumulators)
    return isinstance(node, ir.Recompute)


def why_in_driver(node: ir.Node) -> str | None:
    """Why the driver runs a node, whatever comes to it; None if tasks do, or those who read it."""
    match node:
        case ir.TopK() if not is_of_partitions(node):
            return "it reads the front of an order"
        case ir.Reduce() if not node.keys and reads_members(node):
            return "it reads the front of an order"
        case ir.Recompute() if not node.index.columns:
            return "it reads all rows of its one group"
        case ir.Loop() | ir.Timeline():
            return "each round follows from the one before"
        case ir.Variable() | ir.Source() | ir.Stream() | ir.Store() | ir.Reduce():
            return None
        case ir.Recompute() | ir.TopK() | ir.Threshold() | ir.Window():
            return None
        case ir.Map() | ir.Union() | ir.Repeat() | ir.Explode() | ir.DeltaJoin() | ir.Constant():
            return None
        case _:
            assert_never(node)


def of_one_task(node: ir.Node) -> str | None:
    """What one task takes all changes of, however many tasks there are; None if they are dealt out
    evenly: of keys that many rows have, each task adds up its own rows first."""
    if isinstance(node, ir.Window):
        return "each partition" if node.index.partition else "the one partition"
    if is_of_partitions(node) or (reads_members(node) and why_in_driver(node) is None):
        return "each group"
    return None
