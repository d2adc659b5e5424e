"""Lowering of n-way inner joins to `dataflow.DeltaJoin`.

Every input of the join becomes one *occurrence* of a stored relation, so that the join itself
keeps nothing. A lowered input is used as it is where it is stored already, or is a Map over
something stored:

    its predicates    cannot fail     the filter of the occurrence (a shared bitmap)
                      casts of a      the same, which lets rows pass that fail; the predicate itself
                      group's values  is above the join (HAVING SUM(x) > 1: no second index)
                      may fail        the input is stored
    its outputs       plain columns   read from the stored relation
                      computed        evaluated above the join, over the columns they read; hence a
                                      join with an aggregate reads the Reduce and its group index

Anything else is stored as a bag (`Store`), as is an input with an equality on a computed value that
alone connects it: the value becomes a column of the bag. (Inputs that only together have such a
value are one input by now: planner.rules.nest_joins.)

What becomes of each conjunct of the condition:

    column = column (see analysis.equality)   a link of an equality class: looked up
    one input, cannot fail                    the filter of that occurrence
    several inputs, cannot fail               a residual of each path, as early as it can be tested
    may fail                                  a predicate above the join, in the query's order

A computed equality that may fail and has to connect its input is evaluated for all rows of it that
pass the predicates on that input alone which the query writes before it.

Inputs that no equality connects are paired through an index without key. That is the meaning of a
cross join, and costs nothing where one side is a single row; a join of many rows by an inequality
alone is refused with an UnsupportedError.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.algebra import Join, Plan, Scan, identity
from planner.algebra import inputs as plan_inputs
from planner.analysis.equality import (
    EqualityClass,
    Link,
    as_link,
    classes,
    equality,
    plain_column,
)
from planner.dataflow import DeltaJoin, JoinInput, Map, Node, Reduce, Source, Store, Stored
from planner.errors import UnsupportedError
from planner.expr import (
    Call,
    Column,
    Expr,
    columns_used,
    conjunction,
    conjuncts,
    disjunction,
    may_fail,
    remap,
    substitute,
    transform,
)
from planner.join_order import Facts, JoinGraph
from planner.linear import map_over
from planner.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """`outputs`: the columns of the join's input, over the columns of the stored relation, of whose
    rows it has those that pass `predicates`, and `above`, which may fail."""

    relation: Stored
    predicates: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    above: tuple[Expr, ...] = ()


def lower_join(plan: Join, nodes: tuple[Node, ...], facts: Facts) -> Node:
    """The DeltaJoin of the lowered inputs, with a Map that selects the plan's columns.

    State: none, but the indexes of the relations it looks up, and a bag for each input that has to
    be stored.
    Raises: UnsupportedError if an inequality alone links inputs of many rows.
    """
    condition = () if plan.predicate is None else conjuncts(plan.predicate)
    nodes, condition = _with_computed_keys(plan, nodes, condition, facts)
    return _Lowering(nodes, condition, facts).node(plan)


def stored(node: Node) -> Stored:
    """The node itself if it keeps its rows, else a bag of them."""
    return node if isinstance(node, (Source, Store, Reduce)) else Store(node)


def stored_columns(node: Node) -> tuple[Stored, tuple[int, ...]]:
    """The node's rows where they are stored, and where its columns are there: as they are below a
    mere choice of columns, else as a bag."""
    if isinstance(node, Map) and isinstance(node.input, (Source, Store, Reduce)):
        if not node.predicates and all(isinstance(e, Column) for e in node.outputs):
            return node.input, tuple(e.index for e in node.outputs if isinstance(e, Column))
    kept = stored(node)
    return kept, tuple(range(len(kept.schema)))


def _occurrence(node: Node) -> _Occurrence:
    if isinstance(node, Map) and isinstance(node.input, (Source, Store, Reduce)):
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
    """TRUE where the predicate is, or where a cast in it fails; the casts themselves cannot."""
    failures: list[Expr] = []

    def change(e: Expr) -> Expr:
        if isinstance(e, Call) and e.function == "cast" and may_fail(e):
            tried = Call("try_cast", e.args, e.type, True)
            lost = Call("is_null", (tried,), BOOLEAN, False)
            there = Call("not", (Call("is_null", e.args, BOOLEAN, False),), BOOLEAN, False)
            failures.append(conjunction((there, lost)))
            return tried
        return e

    tried = transform(predicate, change)
    return disjunction((tried, *failures)) if failures else predicate


# -- computed keys -----------------------------------------------------------------------------


def _with_computed_keys(
    plan: Join, nodes: tuple[Node, ...], condition: tuple[Expr, ...], facts: Facts
) -> tuple[tuple[Node, ...], tuple[Expr, ...]]:
    """Make columns of the computed values whose equality alone connects inputs.

    Returns the nodes, each with its input's columns and perhaps some computed ones, and the
    condition over those columns.
    """
    keys = _KeySearch(nodes, condition)
    extras = keys.extras()
    _check_connections(plan, nodes, condition, keys, facts)
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
            moved.append(Store(map_over(node, before, outputs)))
            for k, e in enumerate(computed):
                replaced[e] = Column(width + columns + k, e.type, e.nullable, f"key{k}")
        else:
            moved.append(stored(node) if extras[i] else node)
        width += columns + len(computed)
    return tuple(moved), tuple(_replace_sides(c, replaced, positions) for c in condition)


def _check_connections(
    plan: Join,
    nodes: tuple[Node, ...],
    condition: tuple[Expr, ...],
    keys: _KeySearch,
    facts: Facts,
) -> None:
    """Refuse inequalities alone between inputs of many rows."""
    if keys.connected:
        return
    many = {
        component
        for component, node in zip(keys.component, nodes, strict=True)
        if () not in facts.keys_of(node)
    }
    for c in condition:
        linked = {keys.component[keys.home[k]] for k in columns_used(c)} & many
        if len(linked) > 1:
            raise _unconnected(plan, keys.component, linked)


def _replace_sides(conjunct: Expr, replaced: dict[Expr, Column], positions: dict[int, int]) -> Expr:
    if isinstance(conjunct, Call) and conjunct.function in ("eq", "eq_null_safe"):
        if any(a in replaced for a in conjunct.args):
            sides = tuple(replaced.get(a) or remap(a, positions) for a in conjunct.args)
            return Call(conjunct.function, sides, conjunct.type, conjunct.nullable)
    return remap(conjunct, positions)


class _KeySearch:
    """Which inputs plain equalities connect, and which computed ones it takes beyond them."""

    def __init__(self, nodes: tuple[Node, ...], condition: tuple[Expr, ...]) -> None:
        self._condition = condition
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

    @property
    def connected(self) -> bool:
        return len(set(self.component)) == 1

    def extras(self) -> list[list[Expr]]:
        """Values to compute, by input: as few inputs get one as connect all."""
        computed = []
        for position, c in enumerate(self._condition):
            sides = self._sides(c)
            if sides is None:
                continue
            if all(self._is_plain(e) for e, _ in sides) and as_link(c) is not None:
                self._connect(sides[0][1], sides[1][1])
            else:
                computed.append((may_fail(c), position, sides))
        for _, position, sides in sorted(computed, key=lambda x: x[:2]):
            if self.component[sides[0][1]] == self.component[sides[1][1]]:
                continue
            self._connect(sides[0][1], sides[1][1])
            for e, i in sides:
                if not self._is_plain(e):
                    self._first[i] = min(position, self._first.get(i, position))
                    if e not in self._extras[i]:
                        self._extras[i].append(e)
        return self._extras

    def guards(self, i: int) -> tuple[Expr, ...]:
        """Predicates on input i alone that the query evaluates before its computed keys."""
        if not any(may_fail(e) for e in self._extras[i]):
            return ()
        return tuple(
            c
            for c in self._condition[: self._first[i]]
            if {self.home[k] for k in columns_used(c)} == {i}
        )

    def _sides(self, c: Expr) -> tuple[tuple[Expr, int], tuple[Expr, int]] | None:
        """The two sides of an equality of two different inputs, each with its input."""
        if not (isinstance(c, Call) and c.function in ("eq", "eq_null_safe")):
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


def _unconnected(plan: Join, component: list[int], linked: set[int]) -> UnsupportedError:
    groups: dict[int, list[str]] = {}
    for i, c in zip(plan.inputs, component, strict=True):
        if c in linked:
            groups.setdefault(c, []).append(_title(i))
    sides = [", ".join(names) for names in groups.values()]
    return UnsupportedError(
        f"cannot maintain a join without an equality between {sides[0]} and {sides[1]}",
        detail="Every change of one side would have to be paired with all rows of the other.",
        hint="Add a condition that equates a column of one side with a column of the other.",
    )


def _title(plan: Plan) -> str:
    """How an error names an input: by its table, if it is one."""
    while not isinstance(plan, Scan):
        below = plan_inputs(plan)
        if len(below) != 1:
            return "a subquery"
        plan = below[0]
    return f'"{plan.relation}"'


# -- the join ----------------------------------------------------------------------------------


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
            JoinInput(o.relation, conjunction(tuple(dict.fromkeys(f))) if f else None)
            for o, f in zip(self._occurrences, self._filters, strict=True)
        )
        graph = JoinGraph(inputs, groups, self._facts)
        join = DeltaJoin(inputs, graph.paths(tuple(dict.fromkeys(self._residuals))))
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
