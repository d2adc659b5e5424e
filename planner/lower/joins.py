"""Lowering of n-way inner joins to `dataflow.DeltaJoin`.

Every input of the join becomes one *occurrence* of a stored relation, so that the join itself
keeps nothing. A lowered input is used as it is where it is stored already, or is a Map over
something stored:

    its predicates    cannot fail     the filter of the occurrence (a shared bitmap)
                      casts or sums   the same, which lets rows pass that fail; the predicate itself
                      of a group      is above the join (HAVING SUM(x) > 1: no second index)
                      may fail        the input is stored
    its outputs       plain columns   read from the stored relation
                      computed        evaluated above the join, over the columns they read; hence a
                                      join with an aggregate reads the Reduce and its group index

Events of a stream are not stored: the join follows their path alone, and what would be computed or
filtered in a stored relation is so on their way. Anything else is stored as a bag (`Store`), as is
an input with an equality on a computed value that alone connects it: the value becomes a column of
the bag. (Inputs that only together have such a
value are one input by now: planner.rewrite.rules.nest_joins.)

What becomes of each conjunct of the condition:

    column = column (see analysis.equality)   a link of an equality class: looked up
    one input, cannot fail                    the filter of that occurrence
    several inputs, cannot fail               a residual of each path, as early as it can be tested
    may fail                                  a predicate above the join, in the query's order

A computed equality that may fail and has to connect its input is evaluated for all rows of it that
pass the predicates on that input alone which the query writes before it.

Inputs that no equality connects are found by a range where a comparison links them: of plain
columns, or of computed values, which become columns of a bag as above. What nothing links but a
disjunction, <> and the like is paired through an index without key, which visits every row of the
other side; that is the meaning of a cross join, and costs nothing where that side is a single row.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from planner.analysis.equality import (
    EqualityClass,
    Link,
    as_link,
    classes,
    equality,
    plain_column,
)
from planner.analysis.ranges import MIRRORED, comparisons
from planner.calculus.algebra import Join, identity
from planner.calculus.expr import (
    Call,
    Column,
    Expr,
    Literal,
    columns_used,
    conjunction,
    conjuncts,
    disjunction,
    remap,
    substitute,
    transform,
)
from planner.calculus.failing import may_fail
from planner.calculus.types import BIGINT, BOOLEAN
from planner.dataflow import (
    DeltaJoin,
    JoinInput,
    Map,
    Node,
    Reduce,
    Store,
    Stored,
    gives_events,
    is_stored,
)
from planner.lower.join_order import Facts, JoinGraph
from planner.lower.linear import closed, map_over

_ZERO, _MINUS_ONE = Literal(0, BIGINT), Literal(-1, BIGINT)

_EQUALITIES = ("eq", "eq_null_safe")

#: The sides of a comparison, each with the input that it is about.
_Sides: TypeAlias = tuple[tuple[Expr, int], tuple[Expr, int]]


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """`outputs`: the columns of the join's input, over the columns of the stored relation, of whose
    rows it has those that pass `predicates`, and `above`, which may fail."""

    relation: Node
    predicates: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    above: tuple[Expr, ...] = ()


def lower_join(plan: Join, nodes: tuple[Node, ...], facts: Facts) -> Node:
    """The DeltaJoin of the lowered inputs, with a Map that selects the plan's columns.

    State: none, but the indexes of the relations it looks up, and a bag for each input that has to
    be stored.
    """
    condition = conjuncts(plan.predicate)
    nodes, condition = _with_computed_keys(nodes, condition, facts)
    return _Lowering(nodes, condition, facts).node(plan)


def stored(node: Node) -> Stored:
    """The node itself if it keeps its rows, else a bag of them."""
    return node if is_stored(node) else Store(closed(node))


def stored_columns(node: Node) -> tuple[Stored, tuple[int, ...]]:
    """The node's rows where they are stored, and where its columns are there: as they are below a
    mere choice of columns, else as a bag."""
    if isinstance(node, Map) and is_stored(node.input):
        if not node.predicates and all(isinstance(e, Column) for e in node.outputs):
            return node.input, tuple(e.index for e in node.outputs if isinstance(e, Column))
    kept = stored(node)
    return kept, tuple(range(len(kept.schema)))


def _occurrence(node: Node) -> _Occurrence:
    if gives_events(node):
        return _Occurrence(node, (), identity(node.schema))
    if isinstance(node, Map) and is_stored(node.input):
        if not any(may_fail(p) for p in node.predicates):
            return _Occurrence(node.input, node.predicates, node.outputs)
        if isinstance(node.input, Reduce):
            lenient = tuple(_lenient(p) for p in node.predicates)
            if not any(may_fail(p) for p in lenient):
                above = tuple(p for p in node.predicates if may_fail(p))
                return _Occurrence(node.input, lenient, node.outputs, above)
    kept = stored(node)
    return _Occurrence(kept, (), identity(kept.schema))


def _lenient(predicate: Expr) -> Expr:
    """TRUE where the predicate is, or where a cast or a sum in it fails; these cannot any more."""
    failures: list[Expr] = []

    def change(e: Expr) -> Expr:
        if isinstance(e, Call) and e.function == "checked_sum":
            total, *top = e.args
            tried = Call("try_cast", (total,), e.type, True)
            failures.append(Call("is_null", (tried,), BOOLEAN, False))
            if top:  # it repeats the sign of the words below, or the sum is beyond them
                negative = Call("lt", (total, Literal(Decimal(0), total.type)), BOOLEAN, False)
                sign = Call("case", (negative, _MINUS_ONE, _ZERO), BIGINT, False)
                failures.append(Call("ne", (top[0], sign), BOOLEAN, False))
            return tried
        if isinstance(e, Call) and e.function == "cast" and may_fail(e):
            tried = Call("try_cast", e.args, e.type, True)
            lost = Call("is_null", (tried,), BOOLEAN, False)
            there = Call("not", (Call("is_null", e.args[:1], BOOLEAN, False),), BOOLEAN, False)
            failures.append(conjunction((there, lost)))
            return tried
        return e

    tried = transform(predicate, change)
    return disjunction((tried, *failures)) if failures else predicate


# -- computed keys -----------------------------------------------------------------------------


def _with_computed_keys(
    nodes: tuple[Node, ...], condition: tuple[Expr, ...], facts: Facts
) -> tuple[tuple[Node, ...], tuple[Expr, ...]]:
    """Make columns of the computed values whose comparison alone connects inputs.

    Returns the nodes, each with its input's columns and perhaps some computed ones, and the
    condition over those columns.
    """
    single = tuple(() in facts.keys_of(n) for n in nodes)
    keys = _KeySearch(nodes, condition, single)
    extras = keys.extras()
    if not any(extras):
        return nodes, condition
    moved: list[Node] = []
    positions: dict[int, int] = {}
    replaced: dict[Expr, Column] = {}
    width = 0
    for i, node in enumerate(nodes):
        columns = len(node.schema)
        positions.update({keys.starts[i] + c: width + c for c in range(columns)})
        # A column that the node computes is there once its rows are stored.
        computed = [e for e in extras[i] if plain_column(e) is None]
        if computed:
            own = {keys.starts[i] + c: c for c in range(columns)}
            before = tuple(remap(p, own) for p in keys.guards(i))
            outputs = identity(node.schema) + tuple(remap(e, own) for e in computed)
            made = map_over(node, before, outputs)
            moved.append(made if gives_events(made) else Store(closed(made)))
            for k, e in enumerate(computed):
                replaced[e] = Column(width + columns + k, e.type, e.nullable, f"key{k}")
        else:
            moved.append(stored(node) if extras[i] and not gives_events(node) else node)
        width += columns + len(computed)
    return tuple(moved), tuple(_replace_sides(c, replaced, positions) for c in condition)


def _replace_sides(conjunct: Expr, replaced: dict[Expr, Column], positions: dict[int, int]) -> Expr:
    if isinstance(conjunct, Call) and conjunct.function in (*_EQUALITIES, *MIRRORED):
        if any(a in replaced for a in conjunct.args):
            sides = tuple(replaced.get(a) or remap(a, positions) for a in conjunct.args)
            return Call(conjunct.function, sides, conjunct.type, conjunct.nullable)
    return remap(conjunct, positions)


class _KeySearch:
    """Which inputs plain equalities connect, and which computed ones it takes beyond them; then,
    between inputs of many rows, which comparisons."""

    def __init__(
        self, nodes: tuple[Node, ...], condition: tuple[Expr, ...], single: tuple[bool, ...]
    ) -> None:
        self._condition = condition
        self._single = single
        self.starts: list[int] = []
        self.home: list[int] = []
        self._plain: list[bool] = []  # is the column a plain one of the stored relation?
        for i, node in enumerate(nodes):
            self.starts.append(len(self.home))
            for e in _occurrence(node).outputs:
                self.home.append(i)
                self._plain.append(plain_column(e) is not None)
        self.component = list(range(len(nodes)))
        self._extras: list[list[Expr]] = [[] for _ in nodes]
        self._first: dict[int, int] = {}  # input -> position of its first computed equality

    def extras(self) -> list[list[Expr]]:
        """Values to compute, by input: as few inputs get one as connect all."""
        computed = []
        for position, c in enumerate(self._condition):
            sides = self._sides(c, _EQUALITIES)
            if sides is None:
                continue
            if all(self._is_plain(e) for e, _ in sides) and as_link(c) is not None:
                self._connect(sides[0][1], sides[1][1])
            else:
                computed.append((may_fail(c), position, sides))
        for _, position, sides in sorted(computed, key=lambda x: x[:2]):
            self._compute(position, sides)
        self._compare()
        return self._extras

    def _compare(self) -> None:
        """Connect by comparisons what no equality connects: those that a range answers as they are
        first."""
        computed = []
        for position, c in enumerate(self._condition):
            sides = self._sides(c, tuple(MIRRORED))
            if sides is None or any(self._single[i] for _, i in sides):
                continue
            readings = comparisons((c,), self.home)
            if any(self._plain[r.column.index] for r in readings):
                self._connect(sides[0][1], sides[1][1])
            else:
                computed.append((may_fail(c), position, sides))
        for _, position, sides in sorted(computed, key=lambda x: x[:2]):
            self._compute(position, sides)

    def _compute(self, position: int, sides: _Sides) -> None:
        """Connect two inputs, if they are not, by values that are to be computed."""
        if self.component[sides[0][1]] == self.component[sides[1][1]]:
            return
        self._connect(sides[0][1], sides[1][1])
        for e, i in sides:
            if not self._is_plain(e):
                self._first[i] = min(position, self._first.get(i, position))
                if e not in self._extras[i]:
                    self._extras[i].append(e)

    def guards(self, i: int) -> tuple[Expr, ...]:
        """Predicates on input i alone that the query evaluates before its computed keys."""
        if not any(may_fail(e) for e in self._extras[i]):
            return ()
        return tuple(
            c
            for c in self._condition[: self._first[i]]
            if {self.home[k] for k in columns_used(c)} == {i}
        )

    def _sides(self, c: Expr, functions: tuple[str, ...]) -> _Sides | None:
        """The two sides of a comparison of two different inputs, each with its input."""
        if not (isinstance(c, Call) and c.function in functions):
            return None
        homes = [{self.home[k] for k in columns_used(a)} for a in c.args]
        if len(homes[0]) != 1 or len(homes[1]) != 1 or homes[0] == homes[1]:
            return None
        return (c.args[0], homes[0].pop()), (c.args[1], homes[1].pop())

    def _is_plain(self, e: Expr) -> bool:
        column = plain_column(e)
        return column is not None and self._plain[column.index]

    def _connect(self, i: int, j: int) -> None:
        old, new = self.component[j], self.component[i]
        self.component = [new if c == old else c for c in self.component]


# -- the join ----------------------------------------------------------------------------------


def _join_input(relation: Node, predicates: tuple[Expr, ...]) -> JoinInput:
    """An occurrence with its filter; events, which meet a filter once, are filtered on the way."""
    if gives_events(relation):
        return JoinInput(map_over(relation, predicates, identity(relation.schema)), None)
    return JoinInput(relation, conjunction(predicates) if predicates else None)


class _Lowering:
    """Sorts the conjuncts of one join to where they are evaluated."""

    def __init__(self, nodes: tuple[Node, ...], condition: tuple[Expr, ...], facts: Facts) -> None:
        self._facts = facts
        self._node_widths = [len(n.schema) for n in nodes]
        self._occurrences = [_occurrence(n) for n in nodes]
        self._starts: list[int] = []
        self._home: list[int] = []
        values: list[Expr] = []
        for i, o in enumerate(self._occurrences):
            start = len(self._home)
            self._starts.append(start)
            self._home += [i] * len(o.relation.schema)
            shift = {c: start + c for c in range(len(o.relation.schema))}
            values.extend(remap(e, shift) for e in o.outputs)
        #: Columns of the nodes, over the columns of the DeltaJoin.
        self._values = tuple(values)
        self._filters = [list(o.predicates) for o in self._occurrences]
        self._links: list[Link] = []
        self._residuals: list[Expr] = []
        self._above = [
            remap(p, {c: start + c for c in columns_used(p)})
            for o, start in zip(self._occurrences, self._starts, strict=True)
            for p in o.above
        ]
        for c in condition:
            self._place(substitute(c, self._values))

    def node(self, plan: Join) -> Node:
        groups = classes(tuple(self._links))
        self._unify(groups)
        inputs = tuple(
            _join_input(o.relation, tuple(dict.fromkeys(f)))
            for o, f in zip(self._occurrences, self._filters, strict=True)
        )
        residuals = tuple(dict.fromkeys(self._residuals))
        join = DeltaJoin(inputs, JoinGraph(inputs, groups, residuals, self._facts).paths())
        return map_over(join, tuple(self._above), self._outputs(plan))

    def _place(self, c: Expr) -> None:
        homes = {self._home[k] for k in columns_used(c)}
        link = as_link(c)
        if may_fail(c) or not homes:
            self._above.append(c)
        elif len(homes) == 1:
            i = homes.pop()
            own = {k: k - self._starts[i] for k in columns_used(c)}
            self._filters[i].append(remap(c, own))
        elif link is not None:
            self._links.append(link)
        else:
            self._residuals.append(c)

    def _unify(self, groups: tuple[EqualityClass, ...]) -> None:
        """Columns of one occurrence that are in one class are equal: part of its filter."""
        for group in groups:
            first: dict[int, Column] = {}
            for m in group.columns:
                i = self._home[m.index]
                if i not in first:
                    first[i] = m
                    continue
                local = {k: k - self._starts[i] for k in (first[i].index, m.index)}
                self._filters[i].append(remap(equality(first[i], m, group.null_safe), local))

    def _outputs(self, plan: Join) -> tuple[Expr, ...]:
        """The plan's columns: those of the nodes, without the computed keys."""
        outputs: list[Expr] = []
        start = 0
        for i, width in zip(plan.inputs, self._node_widths, strict=True):
            outputs.extend(self._values[start : start + len(i.schema)])
            start += width
        return tuple(outputs)
