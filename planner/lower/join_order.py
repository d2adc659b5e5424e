"""In which order a delta path visits the other occurrences, and through which indexes.

**Order.** A path starts with one changed row of its source and looks the others up one by one; an
occurrence can be next if an equality class links one of its columns to a bound one. What a path
costs is the number of rows that its lookups read, summed over its steps; the cheapest order is
sought by a beam search (the `_BEAM` best partial orders of each length; fewer where there are so
many inputs that this would take more than `_SQUARE`), so that planning takes time in proportion to
the inputs. Where no equality links what is left, a comparison does (planner.analysis.ranges),
by a range of an ordered index; without one all rows of the next occurrence are paired: a single row
as soon as it helps, others last. A lookup multiplies the rows by

    1                        through a unique key of the occurrence
    rows / distinct values   otherwise, at least 1; all rows where no equality links it, of which
                             a range takes `_ONE_END` or `_TWO_ENDS`

times the selectivity of the occurrence's filter and of every further equality. Distinct values of
a class: the rows of an occurrence that has one of its columns as its whole unique key (a foreign
key meets every key), else the square root of the occurrence's rows. Rows come from the catalog;
for an empty or derived relation they are assumed, by a factor of ten for each step of the longest
chain of foreign keys that leads away from it, so that facts are larger than their dimensions; and
then a lookup that goes up to a dimension and down to another fact counts `_MANY_TO_MANY` times: it
is not through the key of the source, nor of an occurrence that was itself reached one to many.
Hence lookups by unique key with a filter come first, then unique ones, then the least fan-out.

**Cycles.** Where equalities run in a circle (planner.analysis.cycles), occurrences that are linked
to what is bound, lack the same classes of the circle and have no unique key bound are one step, a
`CountedJoin`: whichever has the fewest rows for a prefix proposes values, the others validate them.
Estimates are of averages, and a graph's hub is none: by counts, a path of pairs of classes reads no
more than the largest result that the join can have (the AGM bound; 3DF §9). It costs what its
cheapest way would.

**Index.** For the columns that are bound, in turn: the primary key (or a reduce's group index), if
they cover it; a live index on exactly a unique key among them; the longest leading part of the
primary key, if it is all of them or finds at most `_FEW_ROWS` (an index more costs memory and
upkeep for every row: lineitem by order and supplier is read by order); a live or already chosen
index that leads with exactly them, in whatever order; else a new index on exactly them, by
ascending position.

That index is *whole*. Where the occurrence has a filter that at most `_LARGEST_PART` of the rows
pass by estimate, a *partial* index on the same leading columns, of those rows alone, takes its
place: a live one for just this filter; else a new one, unless the whole one is read already or
the partial ones on these columns would have more rows than it, together with this one.

Ties are broken by position, so plans are deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from planner import dataflow
from planner.analysis.cycles import cyclic_classes
from planner.analysis.equality import EqualityClass, equality
from planner.analysis.keys import Key, node_keys
from planner.analysis.ranges import Comparison, Range, best_range, comparisons
from planner.analysis.selectivity import selectivity
from planner.calculus.expr import Column, Expr, columns_used
from planner.context import CatalogReader, RelationInfo
from planner.dataflow import (
    Arrangement,
    CountedJoin,
    DeltaPath,
    HalfJoin,
    JoinInput,
    Node,
    RangeJoin,
    Step,
    Stored,
)

_BEAM = 32
_LEAST_BEAM = 4
_SQUARE = 1 << 14  # of the inputs, times the beam: what there is to weigh for one source
_MANY_TO_MANY = 10.0
_ONE_END = 0.3
_TWO_ENDS = 0.1
_FEW_ROWS = 16.0
_LARGEST_PART = 0.5


class Facts:
    """What the planner knows of stored nodes, and the indexes that it has chosen so far."""

    def __init__(self, catalog: CatalogReader) -> None:
        self._catalog = catalog
        self._infos: dict[Node, RelationInfo] = {}
        live = [i for i in catalog.live_indexes() if isinstance(i, Arrangement)]
        self._indexes: dict[Node, list[Arrangement]] = {}  # by relation
        # Equal keys: those of different filters.
        for index in sorted(live, key=lambda i: (len(i.columns), i.columns, i.null_safe)):
            self._indexes.setdefault(index.relation, []).append(index)
        self._live = frozenset(live)

    def learn(self, info: RelationInfo) -> None:
        """A table or view of the catalog that the plan reads."""
        self._infos.setdefault(info.node, info)

    def rows(self, node: Node) -> int:
        """Present rows, or 0 where they are not known."""
        info = self._infos.get(node)
        return 0 if info is None else info.rows

    def keys(self, node: Node) -> tuple[Key, ...]:
        return self.keys_of(node)

    def keys_of(self, node: Node) -> tuple[Key, ...]:
        """Unique keys of any node."""
        return node_keys(node, self._primary_key)

    def primary_index(self, node: Node) -> Arrangement | None:
        """The index that the node has in any case, on a unique key; None for a bag."""
        if dataflow.is_grouped(node):
            index = dataflow.group_index(node)
            return index if index.columns else None
        info = self._infos.get(node)
        if info is None or info.is_view or not info.primary_key or not dataflow.is_stored(node):
            return None
        return Arrangement(node, info.primary_key)

    def leading_with(
        self,
        node: Stored,
        columns: frozenset[int],
        null_safe: bool,
        part: Expr | None = None,
        wanted: frozenset[int] = frozenset(),
    ) -> Arrangement | None:
        """An index, live or chosen, whose leading columns are just these; the shortest. It has all
        rows, or those alone of which the filter `part` is TRUE.

        One that leaves out rows with NULL in a further column does not serve, unless no row with
        NULL there is wanted.
        """
        for index in self._indexes.get(node, ()):
            if (
                frozenset(index.columns[: len(columns)]) == columns
                and (index.null_safe or not null_safe)
                and index.filter == part
            ):
                further = index.columns[len(columns) :]
                if index.null_safe or not any(
                    node.schema[c].nullable and c not in wanted for c in further
                ):
                    return index
        return None

    def is_live(self, index: Arrangement) -> bool:
        """Whether installed views read the index."""
        return index in self._live

    def is_known(self, index: Arrangement) -> bool:
        """Whether installed views read the index, or this plan has chosen it."""
        return index in self._indexes.get(index.relation, ())

    def parts(self, node: Stored, columns: frozenset[int]) -> tuple[float, ...]:
        """Estimated rows of each partial index on these leading columns, as a part of all."""
        return tuple(
            selectivity(i.filter)
            for i in self._indexes.get(node, ())
            if i.filter is not None and frozenset(i.columns[: len(columns)]) == columns
        )

    def choose(self, index: Arrangement) -> Arrangement:
        if not self.is_known(index):
            self._indexes.setdefault(index.relation, []).append(index)
        return index

    def _primary_key(self, source: dataflow.Source) -> Key | None:
        info = self._infos.get(source) or self._catalog.source(source.relation)
        return None if info is None else info.primary_key


#: A partial order in the search: its cost, the order, the rows that it has found, which of the
#: occurrences are the source or were reached one to many, and a bit for each that is visited.
_Prefix = tuple[float, tuple[int, ...], float, tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What it costs to look occurrence `input` up by what is bound, for each row so far.

    `unique`: through a unique key. `known_by`: the occurrences of which what is bound has a key;
    None where rows that are not known do not matter. `then`: the lookups that are one step with it.
    """

    input: int
    unique: bool
    reads: float
    known_by: frozenset[int] | None
    keeps: float  # of the rows that are read
    linked: bool  # by an equality
    then: tuple[_Lookup, ...] = ()
    visits: int = 0  # a bit for each occurrence of the step


@dataclass(frozen=True, slots=True)
class _Bound:
    """A column of the occurrence to look up, and the bound column that it equals.

    `column` is its position in the relation, `target` the same in the join; `group` is their class.
    """

    column: int
    probe: Column
    target: Column
    null_safe: bool
    group: int


class JoinGraph:
    """The occurrences of one join and the classes of columns that link them.

    Columns are positions in the join: those of its inputs one after the other.
    """

    def __init__(
        self,
        inputs: tuple[JoinInput, ...],
        links: tuple[EqualityClass, ...],
        residuals: tuple[Expr, ...],
        facts: Facts,
    ) -> None:
        self.inputs = inputs
        #: What is inside of a loop is behind what is outside: it changes later in an epoch.
        self._rank = [(dataflow.loop_of(i.relation) is not None, k) for k, i in enumerate(inputs)]
        self._events = [k for k, i in enumerate(inputs) if dataflow.gives_events(i.relation)]
        self.starts = dataflow.offsets(tuple(i.schema for i in inputs))
        self._classes = links
        self._facts = facts
        self._home = [i for i, x in enumerate(inputs) for _ in x.schema]
        #: By class: the occurrences that have a column in it.
        self._homes = [frozenset(self._home[m.index] for m in c.columns) for c in links]
        self._linked = [
            frozenset(k for k, homes in enumerate(self._homes) if i in homes)
            for i in range(len(inputs))
        ]
        self._values: dict[tuple[int, frozenset[int]], float] = {}  # see _distinct
        self._next: dict[int, tuple[_Lookup, ...]] = {}  # see _lookups
        self._known_lookups: dict[tuple[int, frozenset[int]], _Lookup] = {}  # see _lookup
        self._residuals = residuals
        self._comparisons = comparisons(residuals, self._home)
        self._keys = [self._key_classes(i) for i in range(len(inputs))]
        self._single_rows = frozenset(i for i, keys in enumerate(self._keys) if frozenset() in keys)
        #: The classes that are in cycles. Loops run their joins' half joins in one kernel.
        self._cyclic = (
            frozenset[int]()
            if any(in_loop for in_loop, _ in self._rank)
            else cyclic_classes(self._linked, self._keys)
        )
        self._assumed = [not facts.rows(i.relation) for i in inputs]
        self._rows = self._estimate_rows()
        self._selectivity = [selectivity(i.filter) for i in inputs]

    def paths(self) -> tuple[DeltaPath, ...]:
        """One path per occurrence, or that of the events alone, testing each residual as soon as
        its columns are bound."""
        orders = [self._order(i) for i in self._events or range(len(self.inputs))]
        self._choose_indexes(orders)
        return tuple(DeltaPath(order[0], self._steps(order)) for order in orders)

    # -- order ---------------------------------------------------------------------------------

    def _order(self, source: int) -> tuple[int, ...]:
        n = len(self.inputs)
        width = max(_LEAST_BEAM, min(_BEAM, _SQUARE // n**2))
        #: By how many occurrences they have visited, and by which.
        found: list[dict[int, _Prefix]] = [{} for _ in range(n + 1)]
        found[1][1 << source] = (0.0, (source,), 1.0, (source,), 1 << source)
        for visited in range(1, n):
            for prefix in sorted(found[visited].values())[:width]:
                bits = prefix[4]
                for lookup in self._lookups(bits):
                    best = (
                        found[visited + 1 + len(lookup.then)] if lookup.then else found[visited + 1]
                    )
                    other = best.get(bits | lookup.visits)
                    after = self._after(prefix, lookup, math.inf if other is None else other[0])
                    if after is not None and (other is None or after < other):
                        best[after[4]] = after
        return min(found[n].values())[1]

    def _after(self, prefix: _Prefix, lookup: _Lookup, most: float) -> _Prefix | None:
        """The partial order with a step more; None if it costs more than `most`."""
        cost, order, rows, many, visited = prefix
        j, reads = lookup.input, lookup.reads
        if lookup.known_by is not None and lookup.known_by.isdisjoint(many):
            reads *= _MANY_TO_MANY
        keeps = reads * lookup.keeps
        ranged = None if lookup.linked else self._range(j, order)
        if ranged is not None:
            found = _TWO_ENDS if ranged.ends == 2 else _ONE_END
            reads, keeps = reads * found, keeps * found
        total = cost + rows * reads
        if total > most:
            return None
        beyond = many if lookup.unique else (*many, j)
        after: _Prefix | None = (total, (*order, j), rows * keeps, beyond, visited | 1 << j)
        for more in lookup.then:
            after = None if after is None else self._after(after, more, most)
        return after

    def _lookups(self, visited: int) -> tuple[_Lookup, ...]:
        """Those that can be next: of linked occurrences and single rows; of any others only where
        none is left that is linked."""
        known = self._next.get(visited)
        if known is None:
            known = self._next[visited] = tuple(self._estimate_lookups(visited))
        return known

    def _estimate_lookups(self, visited: int) -> Iterator[_Lookup]:
        order = [i for i in range(len(self.inputs)) if visited >> i & 1]
        reached = self._reached(order)
        linked = self._single_rows.union(*(self._homes[k] for k in reached)).difference(order)
        counted = self._counted(order) if self._cyclic else ()
        for members in counted:
            yield self._lookups_of(members, reached)
        if counted:
            linked = linked.difference(*counted)
        elif not linked:
            linked = frozenset(range(len(self.inputs))).difference(order)
        for j in sorted(linked):
            yield self._lookup(j, self._linked[j] & reached)

    def _lookups_of(self, members: tuple[int, ...], reached: frozenset[int]) -> _Lookup:
        """Those of one step: what is read least first."""
        one_by_one = [self._lookup(j, self._linked[j] & reached) for j in members]
        first = min(one_by_one, key=lambda found: (found.reads, found.input))
        reached |= self._linked[first.input]
        others = (j for j in members if j != first.input)
        then = tuple(self._lookup(j, self._linked[j] & reached) for j in others)
        return replace(first, then=then, visits=sum(1 << j for j in members))

    def _reached(self, order: Sequence[int]) -> frozenset[int]:
        """The classes that are bound once these occurrences are."""
        return frozenset[int]().union(*(self._linked[i] for i in order))

    def _counted(self, order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """The occurrences that can be next, two or more together, by counts: those that lack the
        same classes of a cycle. One of a unique key that is bound has one row, and is first."""
        reached, lacking = self._reached(order), dict[frozenset[int], list[int]]()
        for j, own in enumerate(self._linked):
            lacks = (own & self._cyclic) - reached
            if lacks and j not in order and own & reached:
                lacking.setdefault(lacks, []).append(j)
        return tuple(
            tuple(members)
            for members in lacking.values()
            if len(members) > 1
            and not any(self._lookup(j, self._linked[j] & reached).unique for j in members)
        )

    def _stops(self, order: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The occurrences of each step of a path, behind those that are bound by then."""
        at = 1
        while at < len(order):
            before = order[:at]
            counted = self._counted(before) if self._cyclic else ()
            size = next((len(members) for members in counted if order[at] in members), 1)
            yield before, order[at : at + size]
            at += size

    def _lookup(self, j: int, bound: frozenset[int]) -> _Lookup:
        known = self._known_lookups.get((j, bound))
        if known is None:
            known = self._known_lookups[j, bound] = self._estimate_lookup(j, bound)
        return known

    def _estimate_lookup(self, j: int, bound: frozenset[int]) -> _Lookup:
        unique = min((k for k in self._keys[j] if k <= bound), key=len, default=None)
        if unique is not None:
            further = math.prod(self._distinct(j, frozenset((k,))) for k in bound - unique)
            keeps = self._selectivity[j] / further
            return _Lookup(j, True, 1.0, None, keeps, bool(bound), visits=1 << j)
        by = None
        if self._assumed[j]:
            by = frozenset(i for i, keys in enumerate(self._keys) if any(k <= bound for k in keys))
        keeps, reads = self._selectivity[j], self._fan_out(j, bound)
        return _Lookup(j, False, reads, by, keeps, bool(bound), visits=1 << j)

    def _bound_classes(self, j: int, order: tuple[int, ...]) -> tuple[int, ...]:
        """Classes with a column in j and a column in a visited occurrence."""
        return tuple(k for k in sorted(self._linked[j]) if not self._homes[k].isdisjoint(order))

    def _range(self, j: int, order: tuple[int, ...]) -> Range | None:
        """The range to look j up by, where no equality does and it is no single row."""
        if frozenset() in self._keys[j] or self._bound_classes(j, order):
            return None
        return best_range(tuple(c for c in self._comparisons if self._is_ready(c, j, order)))

    def _is_ready(self, comparison: Comparison, j: int, order: tuple[int, ...]) -> bool:
        return self._home[comparison.column.index] == j and all(
            self._home[c] in order for c in columns_used(comparison.value)
        )

    def _fan_out(self, j: int, classes: frozenset[int]) -> float:
        return max(1.0, self._rows[j] / self._distinct(j, classes))

    def _distinct(self, j: int, classes: frozenset[int]) -> float:
        """Different values that the columns of j in these classes take together."""
        known = self._values.get((j, classes))
        if known is None:
            known = self._values[j, classes] = self._estimate_distinct(j, classes)
        return known

    def _estimate_distinct(self, j: int, classes: frozenset[int]) -> float:
        result, rest = 1.0, set(classes)
        referred = sorted(
            (-len(key), self._rows[k], tuple(sorted(key)))
            for k in range(len(self.inputs))
            for key in self._keys[k]
            if key and k != j and key <= classes
        )
        for _, rows, key in referred:
            if rest.issuperset(key):
                result *= max(1.0, rows)
                rest.difference_update(key)
        return result * max(1.0, math.sqrt(self._rows[j])) ** len(rest)

    def _key_classes(self, i: int) -> tuple[frozenset[int], ...]:
        """The unique keys of occurrence i that lie wholly in classes, as those classes."""
        at = {
            m.index - self.starts[i]: k
            for k, c in enumerate(self._classes)
            for m in c.columns
            if self._home[m.index] == i
        }
        keys = self._facts.keys(self.inputs[i].relation)
        return tuple(frozenset(at[c] for c in key) for key in keys if all(c in at for c in key))

    def _estimate_rows(self) -> list[float]:
        n = len(self.inputs)
        refers = [
            {
                k
                for k in range(n)
                if k != i
                and any(key and key <= self._linked[i] for key in self._keys[k])
                and not any(key and key <= self._linked[k] for key in self._keys[i])
            }
            for i in range(n)
        ]
        depth = [0] * n
        for _ in range(n):  # a chain is at most n long; a cycle of references stops there
            depth = [max((depth[k] + 1 for k in refers[i]), default=0) for i in range(n)]
        return [
            float(self._facts.rows(x.relation)) or 10.0 ** (3 + depth[i])
            for i, x in enumerate(self.inputs)
        ]

    # -- indexes -------------------------------------------------------------------------------

    def _bound(self, j: int, order: tuple[int, ...]) -> tuple[_Bound, ...]:
        """One bound column of j for each class that reaches it, by position in j.

        Of several columns of j in one class the first of its primary index serves, else the first;
        that they are equal among themselves is part of j's filter.
        """
        primary = self._facts.primary_index(self.inputs[j].relation)
        preferred = () if primary is None else primary.columns
        found = []
        for k in self._bound_classes(j, order):
            group = self._classes[k]
            own = [m for m in group.columns if self._home[m.index] == j]
            keyed = [m for m in own if m.index - self.starts[j] in preferred]
            target = (keyed or own)[0]
            first = min(
                (order.index(self._home[m.index]), m.index)
                for m in group.columns
                if self._home[m.index] in order
            )
            probe = next(m for m in group.columns if m.index == first[1])
            both = group.null_safe and probe.nullable and target.nullable
            found.append(_Bound(target.index - self.starts[j], probe, target, both, k))
        return tuple(sorted(found, key=lambda b: b.column))

    def _choose_indexes(self, orders: list[tuple[int, ...]]) -> None:
        """Choose for the longest needs first: a shorter one may lead an index of a longer."""
        needs = [
            (j, self._bound(j, (*before, *way[:position])))
            for order in orders
            for before, members in self._stops(order)
            for way in _ways(members)
            for position, j in enumerate(way)
            if self._range(j, (*before, *way[:position])) is None
        ]
        for j, bound in sorted(needs, key=lambda n: (-len(n[1]), [b.column for b in n[1]], n[0])):
            self._index(j, bound)

    def _index(self, j: int, bound: tuple[_Bound, ...]) -> tuple[Arrangement, int]:
        """The index to look j up through, and how many of its leading columns are bound."""
        whole, used = self._whole_index(j, bound)
        index = self._partial_index(j, whole, used)
        return self._facts.choose(whole if index is None else index), used

    def _partial_index(self, j: int, whole: Arrangement, used: int) -> Arrangement | None:
        """The partial index to look j up through instead of the whole one, if any."""
        facts, filter = self._facts, self.inputs[j].filter
        if filter is None or not used or self._selectivity[j] > _LARGEST_PART:
            return None
        relation, columns = whole.relation, whole.columns[:used]
        wanted = frozenset(columns)
        never = self._never_null(j)
        part = facts.leading_with(relation, wanted, whole.null_safe, filter, never)
        if part is not None and facts.is_live(part):
            return part
        always = dataflow.is_grouped(relation) and whole == dataflow.group_index(relation)
        if always or facts.is_known(whole):
            return None
        # fsum: in whatever order the catalog tells the indexes.
        if part is None and math.fsum((*facts.parts(relation, wanted), self._selectivity[j])) <= 1:
            part = Arrangement(relation, columns, whole.null_safe, filter)
        return part

    def _whole_index(self, j: int, bound: tuple[_Bound, ...]) -> tuple[Arrangement, int]:
        """The index of all rows to look j up through, and how many leading columns are bound."""
        relation = self.inputs[j].stored
        if not bound:
            # The index of a global aggregate is just so.
            return Arrangement(relation, (), null_safe=True), 0
        columns = frozenset(b.column for b in bound)
        null_safe = any(b.null_safe for b in bound)
        primary = self._facts.primary_index(relation)
        covered = 0
        if primary is not None and not (null_safe and not primary.null_safe):
            covered = _leading(primary.columns, columns)
            if covered == len(primary.columns):
                return primary, covered
        for key in self._facts.keys(relation):
            if key and columns.issuperset(key):
                index = self._facts.leading_with(relation, frozenset(key), null_safe)
                if index is not None:
                    return index, len(key)
        if primary is not None and covered and self._cyclic.isdisjoint(self._linked[j]):
            leading = frozenset(b.group for b in bound if b.column in primary.columns[:covered])
            if covered == len(columns) or self._fan_out(j, leading) <= _FEW_ROWS:
                return primary, covered
        index = self._facts.leading_with(relation, columns, null_safe, wanted=self._never_null(j))
        if index is None:
            index = Arrangement(relation, tuple(sorted(columns)), null_safe)
        return index, len(columns)

    def _never_null(self, j: int) -> frozenset[int]:
        """Columns of j in cycles with which no row is in the join that has NULL there: an index for
        what validates serves what proposes too."""
        return frozenset(
            m.index - self.starts[j]
            for k in self._linked[j] & self._cyclic
            for m in self._classes[k].columns
            if self._home[m.index] == j and not self._classes[k].null_safe
        )

    def _steps(self, order: tuple[int, ...]) -> tuple[Step, ...]:
        steps: list[Step] = []
        waiting = self._residuals
        for before, members in self._stops(order):
            if len(members) == 1 and self._range(members[0], before) is not None:
                steps.append(self._range_join(members[0], before, waiting))
            else:
                ways = tuple(self._way(before, way, waiting) for way in _ways(members))
                steps.append(CountedJoin(ways) if len(ways) > 1 else ways[0][0])
            waiting = self._waiting(waiting, (*before, *members))
        return tuple(steps)

    def _way(
        self, before: tuple[int, ...], members: tuple[int, ...], waiting: tuple[Expr, ...]
    ) -> tuple[HalfJoin, ...]:
        """Lookups of some occurrences, one after the other."""
        steps: list[HalfJoin] = []
        for j in members:
            left = self._waiting(waiting, (*before, j))
            ready = tuple(r for r in waiting if r not in left)
            steps.append(self._half_join(j, before, ready))
            waiting, before = left, (*before, j)
        return tuple(steps)

    def _waiting(self, residuals: tuple[Expr, ...], order: tuple[int, ...]) -> tuple[Expr, ...]:
        """The residuals that read more than these occurrences."""
        if not residuals:
            return ()
        bound = frozenset[int]().union(*map(self._columns, order))
        return tuple(r for r in residuals if not columns_used(r) <= bound)

    def _range_join(self, j: int, before: tuple[int, ...], waiting: tuple[Expr, ...]) -> RangeJoin:
        ranged = self._range(j, before)
        assert ranged is not None
        left = (*self._waiting(waiting, (*before, j)), *ranged.covered)
        return RangeJoin(
            input=j,
            index=ranged.index(self.inputs[j].stored, ranged.column.index - self.starts[j]),
            low=ranged.low,
            high=ranged.high,
            as_of=self._is_as_of(j, before[0]),
            residual=tuple(r for r in waiting if r not in left),
        )

    def _half_join(self, j: int, before: tuple[int, ...], ready: tuple[Expr, ...]) -> HalfJoin:
        bound = self._bound(j, before)
        index, used = self._index(j, bound)
        by_column = {b.column: b for b in bound}
        probes = tuple(by_column.pop(c) for c in index.columns[:used])
        tests = [equality(b.target, b.probe, b.null_safe) for b in by_column.values()]
        null_safe = tuple(p.null_safe for p in probes)
        return HalfJoin(
            input=j,
            index=index,
            probe=tuple(p.probe.index for p in probes),
            as_of=self._is_as_of(j, before[0]),
            residual=(*tests, *ready),
            null_safe=null_safe if any(null_safe) else (),
        )

    def _is_as_of(self, j: int, source: int) -> bool:
        return self._rank[j] < self._rank[source] or source in self._events

    def _columns(self, i: int) -> frozenset[int]:
        return frozenset(range(self.starts[i], self.starts[i] + len(self.inputs[i].schema)))


def _ways(members: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The orders of one step's occurrences: each is first in one."""
    return tuple((j, *(k for k in members if k != j)) for j in sorted(members))


def _leading(columns: tuple[int, ...], bound: frozenset[int]) -> int:
    """How many leading columns are bound."""
    return next((n for n, c in enumerate(columns) if c not in bound), len(columns))
