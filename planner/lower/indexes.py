"""Index choice: which indexes there are, and which one each join reads.

The plan of a view names the index that each of its nodes would have if it were alone. What there is
is chosen here, from what the plans of all views name, and the running dataflow obeys. An index that
joins alone read is not there itself where another one serves for it: a *whole* index (without a
filter) that leads with its columns. Half joins look it up by a part of its key, and test the
filter's bitmap where the other would have been partial. Lookups find the same rows; the second
index would cost its memory and its upkeep for every row.

What is chosen changes when a view comes or goes: a `Migration` says which joins read which index
from then on, and which indexes go.

Law: the choice is a function of the set of plans. Neither the order in which views came nor the
process that chose counts, so nothing of it has to be written down for it to come back.
Invariant: an index that another one serves for is named by joins alone; an index that serves is
there, and nothing serves for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from planner import dataflow as ir

#: Of whose state: "" where it is shared, else the view whose own it is.
Owner: TypeAlias = str
#: An index as a plan names it, or as it is there.
Named: TypeAlias = tuple[Owner, ir.Index]
_Readers: TypeAlias = dict[ir.Index, frozenset[str]]
_Place: TypeAlias = tuple[Owner, ir.Stored]


def serves(index: ir.Index, other: ir.Arrangement) -> bool:
    """Whether an index has all rows of another one under the same words: it is whole, leads with
    its columns, and leaves out no row for a NULL that the other has."""
    if not isinstance(index, ir.Arrangement) or index == other:
        return False
    columns = len(other.columns)
    if index.filter is not None or not columns or index.columns[:columns] != other.columns:
        return False
    fields = index.relation.schema
    alike = index.null_safe == other.null_safe or not any(fields[c].nullable for c in other.columns)
    further = any(fields[c].nullable for c in index.columns[columns:])
    return alike and (index.null_safe or not further) and index.relation == other.relation


@dataclass(frozen=True, slots=True)
class Move:
    """The joins that name the index `named` of an owner, those that run, read `index` from now
    on, where they read `before`."""

    owner: Owner
    named: ir.Arrangement
    before: ir.Index
    index: ir.Index


@dataclass(frozen=True, slots=True)
class Migration:
    """From one choice to another: `built` come, joins move, `gone` go. `readers`: the views that
    read an index after it, of each whose readers it changes."""

    after: Indexes
    built: tuple[Named, ...]
    moves: tuple[Move, ...]
    gone: tuple[Named, ...]
    readers: tuple[tuple[Named, frozenset[str]], ...]


@dataclass(frozen=True, slots=True)
class _Over:
    """Indexes over one relation: by which views' nodes they are `held` as they are, and in which
    views' plans joins name them; hence which is read in place of each, and which views read it."""

    held: _Readers
    joined: _Readers
    reads: dict[ir.Index, ir.Index] = field(init=False)
    readers: _Readers = field(init=False)

    def __post_init__(self) -> None:
        reads: dict[ir.Index, ir.Index] = {index: index for index in self.held}
        joined = [i for i in self.joined if isinstance(i, ir.Arrangement) and i not in reads]
        for named in sorted(joined, key=_rank):
            serving = [i for i in reads.values() if serves(i, named)]
            reads[named] = min(serving, key=_length) if serving else named
        readers: _Readers = {}
        for some in (self.held, self.joined):
            for named_index, views in some.items():
                index = reads[named_index]
                readers[index] = readers.get(index, frozenset()) | views
        object.__setattr__(self, "reads", reads)
        object.__setattr__(self, "readers", readers)


def _rank(index: ir.Arrangement) -> tuple[bool, int, bool, tuple[int, ...]]:
    """Whatever serves for an index comes before it."""
    return index.filter is not None, -len(index.columns), index.null_safe, index.columns


def _length(index: ir.Index) -> tuple[int, tuple[int, ...], bool]:
    """The shortest serves: its words are the quickest to compare."""
    assert isinstance(index, ir.Arrangement), "no other index serves"
    return len(index.columns), index.columns, index.null_safe


_NOTHING = _Over({}, {})


@dataclass(frozen=True, slots=True)
class Indexes:
    """What is chosen for some views, by what their plans name. A value: views come and go in
    another one. Cost of either: the plan's nodes, and the indexes over the relations they read."""

    _over: Mapping[_Place, _Over] = field(default_factory=dict)
    _views: Mapping[str, frozenset[_Place]] = field(default_factory=dict)

    def with_view(self, view: str, root: ir.Node, owner: Owner = "") -> Indexes:
        """With one more view, whose plan is `root`."""
        assert view not in self._views, "a view comes once"
        named: dict[_Place, tuple[_Readers, _Readers]] = {}
        reader = frozenset((view,))
        for node in ir.topological(root):
            for index in ir.indexes(node):
                held, joined = named.setdefault((owner, index.relation), ({}, {}))
                served = isinstance(node, ir.DeltaJoin) and isinstance(index, ir.Arrangement)
                (joined if served else held)[index] = reader
        over = dict(self._over)
        for place, (held, joined) in named.items():
            old = over.get(place, _NOTHING)
            over[place] = _Over(_together(old.held, held), _together(old.joined, joined))
        return Indexes(over, {**self._views, view: frozenset(named)})

    def without(self, view: str) -> Indexes:
        """With one view less; as it is if there is none of that name."""
        over = dict(self._over)
        for place in self._views.get(view, ()):
            left = _Over(_less(over[place].held, view), _less(over[place].joined, view))
            if left.reads:
                over[place] = left
            else:
                del over[place]
        return Indexes(over, {v: places for v, places in self._views.items() if v != view})

    def read(self, owner: Owner, index: ir.Index) -> ir.Index:
        """The index that is read where a plan names `index`."""
        return self._over[owner, index.relation].reads[index]

    def instead(self, owner: Owner, index: ir.Index) -> ir.Index | None:
        """Another index that is read where a plan names `index`."""
        over = self._over.get((owner, index.relation), _NOTHING)
        found = over.reads.get(index)
        return None if found == index else found

    def readers(self, owner: Owner, index: ir.Index) -> frozenset[str]:
        """The views that read the index that is read where a plan names `index`."""
        over = self._over.get((owner, index.relation), _NOTHING)
        return over.readers.get(over.reads.get(index, index), frozenset())

    def named(self, owner: Owner) -> Iterator[ir.Index]:
        """Every index that a plan names, whether it is there itself or another one serves."""
        return (i for (whose, _), over in self._over.items() if whose == owner for i in over.reads)

    def to(self, after: Indexes) -> Migration:
        """What leads from this choice to another one."""
        built: list[Named] = []
        moves: list[Move] = []
        gone: list[Named] = []
        readers: list[tuple[Named, frozenset[str]]] = []
        for place in dict.fromkeys((*self._over, *after._over)):
            old, new = self._over.get(place, _NOTHING), after._over.get(place, _NOTHING)
            if old is new:
                continue
            owner = place[0]
            built += [(owner, i) for i in new.readers if i not in old.readers]
            gone += [(owner, i) for i in old.readers if i not in new.readers]
            for named, before in old.reads.items():
                index = new.reads.get(named, before)
                if index != before:
                    assert isinstance(named, ir.Arrangement), "others are always read themselves"
                    moves.append(Move(owner, named, before, index))
            for index in dict.fromkeys((*old.readers, *new.readers)):
                views = new.readers.get(index, frozenset())
                if views != old.readers.get(index):
                    readers.append(((owner, index), views))
        return Migration(after, tuple(built), tuple(moves), tuple(gone), tuple(readers))


def _together(some: _Readers, more: _Readers) -> _Readers:
    added = {index: some.get(index, frozenset()) | views for index, views in more.items()}
    return {**some, **added}


def _less(some: _Readers, view: str) -> _Readers:
    left = ((index, views - {view}) for index, views in some.items())
    return {index: views for index, views in left if views}
