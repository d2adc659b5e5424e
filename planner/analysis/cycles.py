"""Whether a join's equalities run in a circle, and which of them do.

A join is a hypergraph: its vertices are the equality classes, its edges the occurrences, each with
the classes that it has a column in. Where it is acyclic, lookups one after the other never find
much more than the join has (Yannakakis 1981); in a cycle (a triangle of edges) they may find more
than the largest result that tables of these sizes can have (Ngo, Porat, Ré, Rudra 2012).

A unique key determines all classes of its occurrence: each occurrence counts with all the classes
that its own determine, since looking those up finds a row each. Five tables in a circle of foreign
keys are no cycle therefore.

What is left of the hypergraph is found by Graham's and by Yu and Özsoyoğlu's reduction: a class
that one edge alone has goes, an edge within another goes, until nothing does.
"""

from __future__ import annotations

from collections.abc import Sequence

_Classes = frozenset[int]


def cyclic_classes(
    linked: Sequence[_Classes], keys: Sequence[Sequence[_Classes]]
) -> frozenset[int]:
    """The classes that are in cycles of a join; none if it is acyclic.

    `linked`: of each occurrence, its classes; `keys`: its unique keys that are among them. Cost: a
    small polynomial of the number of occurrences.
    """
    determined = [
        (key, own) for own, some in zip(linked, keys, strict=True) for key in some if key != own
    ]
    constant = _closure(frozenset(), determined)
    edges = [_closure(own, determined) - constant for own in linked]
    while True:
        several = _in_several(edges)
        smaller = [edge & several for edge in edges]
        kept = [
            edge
            for i, edge in enumerate(smaller)
            if not any(edge < other for other in smaller) and edge not in smaller[:i]
        ]
        if kept == edges:
            return several if len(kept) > 1 else frozenset()
        edges = kept


def _closure(classes: _Classes, determined: Sequence[tuple[_Classes, _Classes]]) -> _Classes:
    while True:
        more = classes.union(*(own for key, own in determined if key <= classes))
        if more == classes:
            return classes
        classes = more


def _in_several(edges: Sequence[_Classes]) -> _Classes:
    seen: set[int] = set()
    again: set[int] = set()
    for edge in edges:
        again |= seen & edge
        seen |= edge
    return frozenset(again)
