"""EXPLAIN: the logical plan and the dataflow as indented text.

`explain_dataflow` says for each node what state it keeps, which indexes it reads and who shares
them, and what an update costs. Nodes are numbered from the root; one that is used again is shown
once and referred to by its number. The text is deterministic: names and positions only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typing_extensions import assert_never

from planner import dataflow
from planner.analysis.keys import node_keys
from planner.analysis.text import column_names, expr_text
from planner.calculus import algebra
from planner.calculus.algebra import LABEL_ROUNDS
from planner.calculus.expr import Expr, columns_used, conjuncts
from planner.calculus.types import Schema
from planner.dataflow import (
    Arrangement,
    CountedJoin,
    DeltaJoin,
    DeltaPath,
    HashArrangement,
    Index,
    OrderedArrangement,
    RangeJoin,
)
from planner.lower.distribution import of_one_task, why_in_driver
from planner.lower.indexes import Migration

__all__ = [
    "explain_dataflow",
    "explain_logical",
    "explain_migration",
    "expr_text",
    "index_text",
]

#: How many dataflows read an index now; 0 where it would be built for this one.
Readers = Callable[[Index], int]
Instead = Callable[[Index], Index | None]
#: What a table or stream is called, by its id.
Called = Callable[[str], str]
#: What the kernel for all rounds of a loop does not take; None if the loop does not run.
NotFused = Callable[[dataflow.Loop], str | None]

_INDENT = "  "


# -- logical plan ------------------------------------------------------------------------------


def explain_logical(plan: algebra.Plan) -> str:
    """The algebra, one node per line, inputs indented below their consumer."""
    lines: list[str] = []

    def visit(node: algebra.Plan, depth: int) -> None:
        lines.append(_INDENT * depth + _logical_line(node))
        for i in algebra.inputs(node):
            visit(i, depth + 1)

    visit(plan, 0)
    return "\n".join(lines)


def _logical_line(plan: algebra.Plan) -> str:
    below = column_names(tuple(f for i in algebra.inputs(plan) for f in i.schema))
    match plan:
        case algebra.Scan():
            return f"Scan {plan.relation}" + (" (stream)" if plan.stream else "")
        case algebra.Retain():
            return "Retain what each event gave at its epoch"
        case algebra.Filter():
            return f"Filter {_predicates(conjuncts(plan.predicate), below)}"
        case algebra.Project():
            return f"Project {_outputs(plan.exprs, below, plan.schema)}"
        case algebra.Join():
            if plan.predicate is None:
                return "Join (every pair)"
            return f"Join on {_predicates(conjuncts(plan.predicate), below)}"
        case algebra.Aggregate():
            keys = _outputs(plan.keys, below, plan.schema[: len(plan.keys)])
            if not plan.aggregates:
                return f"Distinct {keys}"
            calls = ", ".join(
                _renamed(_aggregate_text(a, below), f.name)
                for a, f in zip(plan.aggregates, plan.schema[len(plan.keys) :], strict=True)
            )
            return f"Aggregate {calls}" + (f" by {keys}" if plan.keys else " of all rows")
        case algebra.UnionAll():
            return "UnionAll"
        case algebra.Minus():
            return "Minus: the first but the second"
        case algebra.Keep():
            return "Keep"
        case algebra.TopK():
            order = _order_text(plan.order, plan.ties, below)
            each = _each(plan.partition, below)
            return f"TopK {order} {_limit_text(plan.limit, plan.offset)}{each}"
        case algebra.Window():
            calls = ", ".join(_window_text(c, below) for c in plan.calls)
            order = _order_text(plan.order, plan.ties, below)
            return f"Window {calls} {order}{_each(plan.partition, below)}"
        case algebra.Values():
            return f"Values, {_rows_text(plan.rows)}"
        case algebra.Repeat():
            return f"Repeat {below[plan.count]} times"
        case algebra.Explode():
            return f"Explode {below[plan.array]}{' or NULL' if plan.outer else ''}"
        case algebra.OuterJoin():
            kind = "FullJoin" if plan.full else "LeftJoin"
            return f"{kind} {_condition(plan.condition, below)}"
        case algebra.SemiJoin():
            return f"{'AntiJoin' if plan.anti else 'SemiJoin'} {_condition(plan.condition, below)}"
        case algebra.MarkJoin():
            return f"MarkJoin AS {plan.name} {_condition(plan.condition, below)}"
        case algebra.Timeline():
            keys = _outputs(plan.keys, below, plan.schema[: len(plan.keys)])
            calls = ", ".join(_aggregate_text(a, below) for a in plan.aggregates)
            return f"Timeline {calls or 'distinct'} by {keys}"
        case algebra.RecursiveRef():
            return f"RecursiveRef {plan.name}"
        case algebra.Recursive():
            kind = "every way" if plan.all else "distinct rows"
            return f"Recursive {plan.name} ({kind}, at most {plan.limit // plan.turns} rounds)"
        case algebra.SingleRow():
            return f"SingleRow{_each(plan.keys, below)}"
        case algebra.Threshold():
            column, scalar = below[plan.column], below[len(plan.schema) + plan.scalar]
            text = f"Threshold {column} {_SIGNS[plan.comparison]} {scalar}"
            return text + _each(plan.partition, below)
        case algebra.Apply() if plan.is_lateral:
            return "LateralJoin" if plan.kind == "inner" else "LeftLateralJoin"
        case algebra.Apply():
            if plan.kind != "any":
                return f"Apply {plan.kind} AS {plan.name}"
            operands = ", ".join(expr_text(e, below) for e in plan.operands)
            return f"Apply ({operands}) {plan.comparison} ANY AS {plan.name}"
        case _:
            assert_never(plan)


def _aggregate_text(call: algebra.AggregateCall, names: Sequence[str]) -> str:
    if call.arg is None:
        return "count(*)"
    args = [expr_text(a, names) for a in call.args]
    return _call_text(call.function, args, call.distinct, call.order, call.parameters)


def _value_text(value: dataflow.GroupValue, names: Sequence[str]) -> str:
    args = [names[c] for c in value.args]
    return _call_text(value.function, args, value.distinct, value.order, value.parameters)


def _window_text(value: algebra.WindowCall | dataflow.WindowValue, names: Sequence[str]) -> str:
    """A call of a window, with its frame where that is not the whole partition."""
    args = [names[c] for c in value.args] or ["*"] * (value.function == "count_rows")
    text = _call_text(value.function, args, False, value.order, value.parameters)
    text += " ignoring NULLs" if value.ignore_nulls else ""
    if value.frame == algebra.WHOLE:
        return text
    start, end = value.frame.start, value.frame.end
    return f"{text} from {_end_text(start, 'first', names)} to {_end_text(end, 'last', names)}"


def _end_text(end: algebra.FrameEnd, edge: str, names: Sequence[str]) -> str:
    match end.kind:
        case "edge":
            return f"the {edge} row"
        case "peers":
            return f"its {edge} peer"
        case "rows":
            return "itself" if end.offset == 0 else f"row {end.offset:+}"
        case _:
            return names[end.offset]


def _call_text(
    function: str,
    args: Sequence[str],
    distinct: bool,
    order: Sequence[algebra.SortKey],
    parameters: Sequence[Expr],
) -> str:
    """An aggregate with all that it takes; arguments that its order alone reads are there only."""
    first = args[:1] if function == "listagg" else args
    texts = [*first, *(expr_text(p, ()) for p in parameters)]
    by = f" {_order_text(order, (), args)}" if order else ""
    return f"{function}({'DISTINCT ' if distinct else ''}{', '.join(texts)}{by})"


def _predicates(predicates: Sequence[Expr], names: Sequence[str]) -> str:
    texts = [expr_text(p, names) for p in predicates]
    return " AND ".join(f"({t})" if " OR " in t and len(texts) > 1 else t for t in texts)


def _outputs(exprs: Sequence[Expr], names: Sequence[str], schema: Schema) -> str:
    return ", ".join(
        _renamed(expr_text(e, names), f.name) for e, f in zip(exprs, schema, strict=True)
    )


def _renamed(text: str, name: str) -> str:
    return text if text.split("#", maxsplit=1)[0] == name else f"{text} AS {name}"


def _order_text(order: Sequence[algebra.SortKey], ties: Sequence[int], names: Sequence[str]) -> str:
    keys = []
    for k in order:
        text = names[k.column] + (" DESC" if k.descending else "")
        if k.nulls_first == k.descending:  # not the default of Spark
            text += " NULLS FIRST" if k.nulls_first else " NULLS LAST"
        keys.append(text)
    used = {k.column for k in order}
    further = [names[c] for c in ties if c not in used]
    text = "by " + ", ".join(keys) if keys else "in any order"
    return text + (f", ties by {', '.join(further)}" if further else "")


_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _condition(condition: Expr | None, names: Sequence[str]) -> str:
    return "(every pair)" if condition is None else f"on {_predicates(conjuncts(condition), names)}"


def _each(columns: Sequence[int], names: Sequence[str]) -> str:
    return f" for each {', '.join(names[c] for c in columns)}" if columns else ""


def _rows_text(rows: Sequence[object]) -> str:
    return f"{len(rows)} row{'' if len(rows) == 1 else 's'}"


def _limit_text(limit: int, offset: int) -> str:
    return f"limit {limit}" + (f" offset {offset}" if offset else "")


# -- dataflow ----------------------------------------------------------------------------------


def explain_dataflow(
    root: dataflow.Node,
    readers: Readers | None = None,
    instead: Instead | None = None,
    called: Called = str,
    not_fused: NotFused | None = None,
) -> str:
    """The dataflow from its root down, each node with its state, indexes and cost.

    `readers` tells how many dataflows read, at present, the index that is read where the plan names
    one; without it nothing is said about sharing. `instead` tells which index that is, if it is not
    there itself. `called`: the name of a table or stream, by its id. `not_fused`: for a loop that
    runs, what keeps small changes out of the kernel for all rounds, "" if nothing does.
    """
    return _Dataflow(root, readers, instead, called, not_fused).text()


def explain_migration(
    migration: Migration, name: Callable[[dataflow.Stored], str]
) -> tuple[str, ...]:
    """What a migration does to the joins and indexes that are there, a line for each change.
    `name`: of a relation."""

    def text(index: Index) -> str:
        return _index_text(index, name(index.relation)) + filter_text(index)

    gone = dict.fromkeys(migration.gone)
    lines: dict[str, None] = {}
    for move in migration.moves:
        goes = ", which goes" if (move.owner, move.before) in migration.gone else ""
        gone.pop((move.owner, move.before), None)
        lines[f"joins read {text(move.index)} in place of {text(move.before)}{goes}"] = None
    lines.update((f"{text(index)} goes", None) for _, index in gone)
    return tuple(lines)


def index_text(index: Index) -> str:
    """`relation(key columns)`, and what a partial index has, as SHOW ARRANGEMENTS writes it too."""
    return _index_text(index, _relation_text(index.relation)) + filter_text(index)


def _relation_text(node: dataflow.Stored) -> str:
    """A name for a stored node outside a numbered tree."""
    match node:
        case dataflow.Source():
            return node.relation
        case dataflow.Store():
            return "stored rows"
        case dataflow.Variable():
            return "recursive rows"
        case dataflow.Reduce() | dataflow.Recompute() | dataflow.Timeline():
            return "groups"
        case _:
            assert_never(node)


def _index_text(index: Index, relation: str) -> str:
    names = column_names(index.relation.schema)
    match index:
        case Arrangement(columns=()):
            return f"{relation}(no key)"
        case Arrangement():
            kind = "" if index.filter is None else "partial "
            suffix = " with NULLs" if index.null_safe else ""
            return f"{kind}{relation}({', '.join(names[c] for c in index.columns)}){suffix}"
        case HashArrangement():
            return f"{relation}(hash of the row)"
        case OrderedArrangement():
            each = _each(index.partition, names)
            return f"{relation}({_order_text(index.order, index.ties, names)}{each})"
        case _:
            assert_never(index)


def filter_text(index: Index) -> str:
    """` where …` of a partial index, else nothing."""
    if not isinstance(index, Arrangement) or index.filter is None:
        return ""
    return f" where {_predicates(conjuncts(index.filter), column_names(index.relation.schema))}"


def predicate_text(predicate: Expr, schema: Schema) -> str:
    """A predicate over columns of `schema`, for people."""
    return _predicates(conjuncts(predicate), column_names(schema))


class _Dataflow:
    """One text of one dataflow; holds the numbers of its nodes."""

    def __init__(
        self,
        root: dataflow.Node,
        readers: Readers | None,
        instead: Instead | None,
        called: Called,
        not_fused: NotFused | None,
    ) -> None:
        self._root = root
        self._not_fused = not_fused
        self._readers = readers
        self._instead = instead
        self._called = called
        self._numbers: dict[dataflow.Node, int] = {}
        self._number(root)
        self._shown: set[dataflow.Node] = set()
        self._lines: list[str] = []

    def text(self) -> str:
        self._show(self._root, 0)
        return "\n".join(self._lines)

    def _number(self, node: dataflow.Node) -> None:
        """Parents first, in the order in which the tree is shown."""
        if node not in self._numbers:
            self._numbers[node] = len(self._numbers)
            for i in dataflow.inputs(node):
                self._number(i)

    def _name(self, node: dataflow.Node) -> str:
        if isinstance(node, (dataflow.Source, dataflow.Stream)):
            return self._called(node.relation)
        return f"{type(node).__name__} %{self._numbers[node]}"

    def _show(self, node: dataflow.Node, depth: int) -> None:
        pad = _INDENT * depth
        if node in self._shown:
            self._lines.append(f"{pad}{self._name(node)} (shown above)")
            return
        self._shown.add(node)
        title, details = self._describe(node)
        reason = why_in_driver(node)
        if reason is not None:
            details.append(f"in the driver, also where steps are placed on Spark: {reason}")
        taken = of_one_task(node)
        if taken is not None:
            details.append(f"where steps are placed on Spark, one task takes {taken}")
        self._lines.append(pad + title)
        self._lines.extend(f"{pad}{_INDENT}{_INDENT}{d}" for d in details)
        for i in dataflow.inputs(node):
            self._show(i, depth + 1)

    def _describe(self, node: dataflow.Node) -> tuple[str, list[str]]:
        name = self._name(node)
        below = column_names(tuple(f for i in dataflow.inputs(node) for f in i.schema))
        match node:
            case dataflow.Source():
                return f"Source {name}", []
            case dataflow.Stream():
                return f"Stream {name}", ["state: none; its events are gone after their epoch"]
            case dataflow.Map():
                return f"{name}: {_outputs(node.outputs, below, node.schema)}", [
                    *(f"where {expr_text(p, below)}" for p in node.predicates),
                    "state: none; cost: each changed row",
                ]
            case dataflow.Union():
                parts = [self._name(i) for i in node.inputs]
                signs = node.negated or (False,) * len(parts)
                terms = " ".join(
                    f"{'minus' if minus else 'plus'} {p}" if k or minus else p
                    for k, (p, minus) in enumerate(zip(parts, signs, strict=True))
                )
                title = f"{name}: {terms}" if any(signs) else name
                return title, ["state: none; cost: each changed row"]
            case dataflow.Repeat():
                return f"{name}: {below[node.count]} times", [
                    "state: none; cost: each changed row",
                ]
            case dataflow.Explode():
                none = ", or once with NULL" if node.outer else ""
                return f"{name}: each element of {below[node.array]}{none}", [
                    "state: none; cost: each element of each changed row",
                ]
            case dataflow.Constant():
                return f"{name}: {_rows_text(node.rows)}", ["state: none; cost: none"]
            case dataflow.Threshold():
                return self._describe_threshold(node, name)
            case dataflow.Store():
                return f"{name}: {', '.join(column_names(node.schema))}", [
                    f"state: every row once, index {self._index(HashArrangement(node))}",
                    "cost per changed row: 1 append, or 1 lookup to delete",
                ]
            case dataflow.Reduce():
                return self._describe_reduce(node, name)
            case dataflow.Recompute():
                return self._describe_recompute(node, name)
            case dataflow.DeltaJoin():
                return self._describe_join(node, name)
            case dataflow.TopK():
                each = _each(node.index.partition, column_names(node.schema))
                per = "changed group" if each else "step with changes"
                return f"{name}: {_limit_text(node.limit, node.offset)}{each}", [
                    f"state: index {self._index(node.index)}",
                    f"cost per {per}: {node.limit + node.offset} rows from the front",
                ]
            case dataflow.Window():
                return self._describe_window(node, name)
            case dataflow.Variable():
                return f"{name}: {', '.join(column_names(node.schema))}", [
                    f"state: every row {_kept_rounds(node)}",
                ]
            case dataflow.Timeline():
                names = column_names(node.schema)
                index = self._index(dataflow.timeline_index(node))
                kept = ", ".join(names[node.keys : -2]) or "distinct"
                return f"{name}: {kept} by {', '.join(names[: node.keys])}, in every round", [
                    f"state: one row per group and stretch of rounds, index {index}",
                    "cost per changed group: its rows, in each round in which it changes or did",
                ]
            case dataflow.Loop():
                return self._describe_loop(node, name)
            case _:
                assert_never(node)

    def _describe_window(self, node: dataflow.Window, name: str) -> tuple[str, list[str]]:
        names = column_names(node.index.relation.schema)
        values = ", ".join(_window_text(v, names) for v in node.values)
        each = _each(node.index.partition, names)
        if node.reach is not None:
            rows = sum(node.reach)
            cost = f"cost per changed row: {rows} row{'s' if rows > 1 else ''} on each side of it"
        elif node.sessions is not None:
            cost = "cost per changed row: its session, before and after the change"
        elif each:
            cost = "cost: recomputes one partition per changed partition: reads all its rows"
        else:
            cost = "cost: recomputes one partition per step with changes: reads all rows"
        return f"{name}: {values}{each}", [f"state: index {self._index(node.index)}", cost]

    def _describe_loop(self, node: dataflow.Loop, name: str) -> tuple[str, list[str]]:
        """The loop, whose body is below it."""
        (index,) = dataflow.indexes(node)
        kind = (
            "linear, each way counts" if node.variable.all
            else "monotone, to the least fixpoint" if node.variable.marks == 1
            else "each over the one before"
        )  # fmt: skip
        changes = (
            "each changed row" if node.variable.all
            else "each row whose first round changes" if node.variable.marks == 1
            else "each row whose rounds change, in each of them"
        )  # fmt: skip
        most = node.limit // node.turns
        title = f"{name}: {', '.join(column_names(node.schema))}"
        return title, [
            f"rounds over {self._name(node.variable)} until nothing changes: {kind}",
            f"in error while a row changes in round {most}: at most {most} rounds",
            *self._priority(node),
            f"state: that of {self._name(node.variable)} and its body, index {self._index(index)}",
            f"cost: {changes}, and its matches",
            *self._small_changes(node),
        ]

    def _priority(self, node: dataflow.Loop) -> list[str]:
        if node.delay is None:
            return []
        (label,) = columns_used(node.delay)
        name = column_names(node.schema)[label]
        turn = f"{LABEL_ROUNDS} rounds for each bit"
        return [f"priority: small {name} first, {turn}, which the limit does not count"]

    def _small_changes(self, node: dataflow.Loop) -> list[str]:
        if self._not_fused is None or (why := self._not_fused(node)) is None:
            return []
        if why:
            return [f"small changes: a round at a time (the kernel for all does not take {why})"]
        return ["small changes: all rounds in one kernel"]

    def _describe_reduce(self, node: dataflow.Reduce, name: str) -> tuple[str, list[str]]:
        names = column_names(node.schema)
        keys, kept = names[: len(node.keys)], names[len(node.keys) :]
        title = f"{name}: {', '.join(kept)}" + (f" by {', '.join(keys)}" if keys else "")
        ordered = [self._index(a.index) for a in node.accumulators if a.index is not None]
        firsts = [f"reads the front of {i}" for i in dict.fromkeys(ordered)]
        seek = f", {len(ordered)} seek{'s' if len(ordered) > 1 else ''}" if ordered else ""
        if not keys:
            seek = f"{seek} per step with changes" if seek else ""
            return title, ["state: one row", f"cost: each changed row{seek}", *firsts]
        index = self._index(dataflow.group_index(node))
        return title, [
            f"state: one row per group, index {index}",
            f"cost: each changed row, 1 lookup{seek} per changed group",
            *firsts,
        ]

    def _describe_recompute(self, node: dataflow.Recompute, name: str) -> tuple[str, list[str]]:
        names = column_names(node.index.relation.schema)
        keys = ", ".join(names[c] for c in node.index.columns)
        values = ", ".join(_value_text(v, names) for v in node.values)
        read = self._index(node.index)
        if not keys:
            return f"{name}: {values}", [
                f"state: one row, index {read}",
                "cost: recomputes one group per step with changes: visits all rows, the group",
            ]
        return f"{name}: {values} by {keys}", [
            f"state: one row per group, index {self._index(dataflow.group_index(node))}",
            f"cost: recomputes one group per changed group: all its rows, through index {read}",
        ]

    def _describe_threshold(self, node: dataflow.Threshold, name: str) -> tuple[str, list[str]]:
        column = column_names(node.schema)[node.index.order[0].column]
        scalar = column_names(node.bound.relation.schema)[node.scalar]
        each = _each(node.index.partition, column_names(node.schema))
        return f"{name}: {column} {_SIGNS[node.comparison]} {scalar}{each}", [
            f"state: index {self._index(node.index)}, index {self._index(node.bound)}",
            "cost: 1 lookup per changed row; when the bound moves, the rows between old and new",
        ]

    def _describe_join(self, node: DeltaJoin, name: str) -> tuple[str, list[str]]:
        titles = self._occurrence_names(node)
        details = ["state: none of its own"]
        for i, title in zip(node.inputs, titles, strict=True):
            if i.filter is not None:
                names = column_names(i.schema)
                details.append(f"filter {title}: {_predicates(conjuncts(i.filter), names)}")
        for path in node.paths:
            details.extend(self._path(node, path, titles))
        indexes = dataflow.indexes(node)
        details.append("reads " + ", ".join(self._index(i) for i in indexes))
        return f"{name} of {', '.join(titles)}", details

    def _occurrence_names(self, node: DeltaJoin) -> list[str]:
        """The inputs' names, numbered where a relation occurs twice."""
        names = [self._name(i.relation) for i in node.inputs]
        result = []
        for position, n in enumerate(names):
            again = names[:position].count(n) + 1
            result.append(f"{n}:{again}" if names.count(n) > 1 else n)
        return result

    def _path(self, node: DeltaJoin, path: DeltaPath, titles: list[str]) -> list[str]:
        columns = _join_columns(node, titles)
        lookups = sum(len(step.inputs) for step in path.steps)
        plural = "s" if lookups > 1 else ""
        cost = f"{lookups} index lookup{plural} per changed row, and per row found on the way"
        lines = [f"path {titles[path.source]}: {cost}"]
        for step in path.steps:
            if not isinstance(step, CountedJoin):
                found, where = self._lookup(step, titles, columns)
                lines += [f"{_INDENT}-> {found}", *(f"{_INDENT * 2} {w}" for w in where)]
                continue
            several = ", ".join(titles[i] for i in step.inputs)
            lines.append(f"{_INDENT}-> the fewest rows by count of {several}; the others validate")
            for way in step.ways:
                for position, half_join in enumerate(way):
                    found, where = self._lookup(half_join, titles, columns)
                    verb = "and" if position else "of"
                    lines.append(f"{_INDENT * (3 if position else 2)} {verb} {found}")
                    lines += [f"{_INDENT * 3} {w}" for w in where]
        return lines

    def _lookup(
        self, step: dataflow.Lookup, titles: list[str], columns: Sequence[str]
    ) -> tuple[str, list[str]]:
        """What a step looks up, and what it tests."""
        key = column_names(step.index.relation.schema)
        title = f"{titles[step.input]} [{'as of' if step.as_of else 'just before'}]"
        where = [f"where {_predicates(step.residual, columns)}"] if step.residual else []
        if isinstance(step, RangeJoin):
            index = self._looked_up(step.index)
            return f"{title} via the range {_range_text(step, key, columns)} of {index}", where
        if not step.probe:
            single = self._single(step.index.relation)
            return f"{title}: {'its one row' if single else 'visits all its rows'}", where
        pairs = " AND ".join(
            f"{key[c]} {'<=>' if any(step.null_safe[n : n + 1]) else '='} {columns[p]}"
            for n, (c, p) in enumerate(zip(step.index.columns, step.probe, strict=False))
        )
        return f"{title} via {self._looked_up(step.index)} on {pairs}", where

    def _looked_up(self, index: Index) -> str:
        """The index that a path really looks up."""
        other = None if self._instead is None else self._instead(index)
        return _index_text(other or index, self._name(index.relation))

    def _single(self, node: dataflow.Stored) -> bool:
        """Whether the relation provably has at most one row."""
        return () in node_keys(node, lambda source: None)

    def _index(self, index: Index) -> str:
        text = _index_text(index, self._name(index.relation)) + filter_text(index)
        if self._readers is None:
            return text
        other = None if self._instead is None else self._instead(index)
        if other is not None:
            text += f" by way of {_index_text(other, self._name(other.relation))}"
        count = self._readers(index)
        if not count:
            return f"{text} [new]"
        return f"{text} [shared, {count} reader{'s' if count > 1 else ''}]"


def _range_text(step: RangeJoin, key: Sequence[str], columns: Sequence[str]) -> str:
    name = key[step.index.order[0].column]
    parts = [
        f"{name} {sign}{'=' if end.inclusive else ''} {expr_text(end.value, columns)}"
        for end, sign in ((step.low, ">"), (step.high, "<"))
        if end is not None
    ]
    return " AND ".join(parts)


def _join_columns(node: DeltaJoin, titles: list[str]) -> tuple[str, ...]:
    """Names of a join's columns, qualified where two inputs have the same."""
    fields = [
        (t, n) for t, i in zip(titles, node.inputs, strict=True) for n in column_names(i.schema)
    ]
    names = [n for _, n in fields]
    return tuple(n if names.count(n) == 1 else f"{t}.{n}" for t, n in fields)


def _kept_rounds(node: dataflow.Variable) -> str:
    if node.all:
        return "for each way to it"
    return "once, with its first round" if node.marks == 1 else "with each stretch of its rounds"
