"""Checkpoints: all that a dataflow keeps as of one epoch, for another process to go on from there.

`cut` takes it between steps: references to what never changes, copies of the little that does.
`write`, in any thread and while steps go on, puts what no file has yet into files: full blocks of
relations as segments, batches of indexes, bitmaps. The rest, which is small, comes back as a
document, with `Names` that say whose it is. `load` lets a dataflow in which the same views were
resumed be what the other one was: nothing is computed, no index is built.

Law: what an operator, a relation, an index, a filter or a table keeps has its place here. An index
that a checkpoint lacks is built from the rows; one that nobody reads any more is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from operators.dataflow import Dataflow, Key, node_key
from operators.flight.column import Ints
from operators.state.filters import FilterImage
from operators.state.pieces import Array, MappedFiles, Stored, table_of, values_in
from operators.state.relation import RelationImage
from operators.state.segments import arrays_of
from operators.state.spine import Batch, mapped_batch
from operators.state.values import ValueFiles
from planner import dataflow as ir
from planner.calculus.expr import Expr


@dataclass(frozen=True, slots=True)
class NamedRelation:
    owner: str
    node: ir.Stored


@dataclass(frozen=True, slots=True)
class NamedIndex:
    """`asked`: who reads it beside what was planned."""

    owner: str
    spec: ir.Index
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamedFilter:
    owner: str
    relation: ir.Node
    predicate: Expr


@dataclass(frozen=True, slots=True)
class NamedOperator:
    owner: str
    node: ir.Node


@dataclass(frozen=True, slots=True)
class Names:
    """Whose each part of a checkpoint's document is, in its order."""

    tables: tuple[ir.Source, ...]
    relations: tuple[NamedRelation, ...]
    indexes: tuple[NamedIndex, ...]
    filters: tuple[NamedFilter, ...]
    operators: tuple[NamedOperator, ...]


#: For `planner.serialise`, beside the classes of plans.
NAME_CLASSES: tuple[type, ...] = (NamedRelation, NamedIndex, NamedFilter, NamedOperator, Names)
#: Numbers, texts, arrays, and lists and dicts of these.
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cut:
    """What a dataflow kept when it was taken, in the order of `names`."""

    names: Names
    tables: list[Ints | None]
    relations: list[RelationImage]
    indexes: list[tuple[int, int, list[Batch]]]
    filters: list[FilterImage]
    operators: list[Document]
    hashing: tuple[int, ...]


def cut(dataflow: Dataflow, values: ValueFiles) -> Cut:
    """What the dataflow keeps now, between steps; what lies in files that are hardly used, or gone,
    is to be written again. Cost: a reference to what no file has yet, and a copy of dead bits and
    of the operators' own state."""
    values.leave(stored_values(dataflow))
    values.collect(stored_values(dataflow))
    relations = dataflow.relations()
    indexes = dataflow.indexes
    filters = [f for f in dataflow.filters_over() if f[2].state.is_evaluated]
    operators = [(i, i.operator.kept()) for i in dataflow.installed]
    names = Names(
        tables=tuple(dataflow.tables),
        relations=tuple(NamedRelation(owner, _stored(node)) for (owner, node), _ in relations),
        indexes=tuple(NamedIndex(i.owner, i.spec, tuple(sorted(i.asked))) for i in indexes),
        filters=tuple(NamedFilter(o, k[1], f.state.predicate) for k, o, f in filters),
        operators=tuple(NamedOperator(i.owner, i.node) for i, kept in operators if kept),
    )
    return Cut(
        names,
        [table.kept() for table in dataflow.tables.values()],
        [relation.image() for _, relation in relations],
        [(i.state.spine.width, *i.state.image()) for i in indexes],
        [f.state.image() for *_, f in filters],
        [kept for _, kept in operators if kept],
        dataflow.hashing.numbers,
    )


def write(taken: Cut, values: ValueFiles) -> Document:
    """Put what no file has yet into files of the directory. What they are named after is in the
    document.

    Raises: OSError; whatever was written by then may be used by the next `write`.
    Cost: a copy of what no file had when the cut was taken.
    """
    with values.writing() as out:
        relations = [out.blocks(image.form, image.blocks) for image in taken.relations]
        indexes = [
            [out.arrays(b.stored, [b.keys, b.rows, b.offsets]) for b in batches]
            for *_, batches in taken.indexes
        ]
        filters = [
            [(number, out.arrays(bits.stored[number], [bitmap])) for number, bitmap in bits.full]
            for bits in taken.filters
        ]
    names: dict[str, int] = {}
    return {
        "hashing": list(taken.hashing),
        "tables": list(taken.tables),
        "relations": [
            _relation(image, table_of(homes, names))
            for image, homes in zip(taken.relations, relations, strict=True)
        ],
        "indexes": [
            {
                "width": width,
                "next_row": next_row,
                "lengths": np.array([len(b) for b in batches], np.int64),
                "stored": table_of(enumerate(homes), names),
            }
            for (width, next_row, batches), homes in zip(taken.indexes, indexes, strict=True)
        ],
        "filters": [
            {
                "next_row": bits.next_row,
                "released": bits.released,
                "stored": table_of(homes, names),
                "last": bits.last,
            }
            for bits, homes in zip(taken.filters, filters, strict=True)
        ],
        "operators": list(taken.operators),
        "files": list(names),
    }


def lost_relations(names: Names, document: Document, files: AbstractSet[str]) -> frozenset[Key]:
    """The relations some of whose rows lie in these files."""
    return frozenset(
        (whose.owner, whose.node)
        for whose, kept in zip(names.relations, document["relations"], strict=True)
        if _is_in(kept, document, files)
    )


def load(
    dataflow: Dataflow,
    names: Names,
    document: Document,
    files: MappedFiles,
    without: AbstractSet[str] = frozenset(),
) -> None:
    """Let the dataflow, whose views were resumed, be what the other one was. `without`: files that
    are not to be read; views with rows in them were not resumed, and indexes are built anew.

    Raises: OSError for a file that is not there; ValueError for one that is too short.
    """
    there = dict(dataflow.relations())
    told = document["files"]
    for name in names.indexes:
        if node_key(name.spec.relation, name.owner) in there:
            for reader in name.asked:
                dataflow.index(name.spec, reader, name.owner)
    for source, greatest in zip(names.tables, document["tables"], strict=True):
        dataflow.tables[source].load(greatest)
    for whose, kept in zip(names.relations, document["relations"], strict=True):
        relation = there.get((whose.owner, whose.node))
        if relation is None:
            continue
        values = dict(values_in(kept["stored"], told))
        last = dict(kept["last"])
        relation.load(kept["numbers"], kept["arrays"], values, files, last)
    built = {(i.owner, i.spec) for i in dataflow.indexes}
    for name, kept in zip(names.indexes, document["indexes"], strict=True):
        live = dataflow.live_index(name.spec, name.owner)
        if live is not None and not _is_in(kept, document, without):
            lengths, width = kept["lengths"].tolist(), kept["width"]
            batches = values_in(kept["stored"], told)
            live.state.load(
                kept["next_row"], [mapped_batch(at, width, lengths[i], files) for i, at in batches]
            )
            built.discard((name.owner, name.spec))
    for test, kept in zip(names.filters, document["filters"], strict=True):
        state = dataflow.live_filter(
            node_key(test.relation, test.owner), test.predicate, test.owner
        )
        if state is not None and not _is_in(kept, document, without):
            homes = dict(values_in(kept["stored"], told))
            state.load(kept["next_row"], kept["released"], homes, kept["last"], files)
    running = {i.key: i.operator for i in dataflow.installed}
    for place, kept in zip(names.operators, document["operators"], strict=True):
        if (place.owner, place.node) in running:
            running[place.owner, place.node].load(kept)
    dataflow.index_builds = len(built)
    for live in dataflow.indexes:
        if not live.deferred or (live.owner, live.spec) in built:
            live.state.absorb()


def map_stored(dataflow: Dataflow, files: MappedFiles) -> None:
    """Read what lies in files from there from now on, between steps: the memory that it took is let
    go. Cost: O(what was written since the last time)."""
    for _, relation in dataflow.relations():
        relation.map_stored(files)
    for index in dataflow.indexes:
        index.state.spine.map_stored(files)
    for test in dataflow.filters:
        test.state.map_stored(files)


def stored_values(dataflow: Dataflow) -> Iterator[Stored]:
    """Where each value lies that never changes."""
    for _, relation in dataflow.relations():
        yield from relation.stored_blocks
    for index in dataflow.indexes:
        yield from (batch.stored for batch in index.state.spine.batches)
    for test in dataflow.filters:
        yield from test.state.stored_bitmaps


def stored_dead(dataflow: Dataflow) -> Iterator[Stored]:
    """Where the dead bits of blocks lie."""
    for _, relation in dataflow.relations():
        yield from relation.stored_dead


def _relation(image: RelationImage, stored: Ints) -> Document:
    last: dict[int, Array] = {} if image.last is None else arrays_of(image.form, image.last)
    return {
        "numbers": image.numbers,
        "arrays": image.arrays,
        "stored": stored,
        "last": [[slot, values] for slot, values in last.items()],
    }


def _is_in(kept: Document, document: Document, files: AbstractSet[str]) -> bool:
    """Whether some of a part of a document lies in one of the files."""
    if not files:
        return False
    return any(document["files"][i] in files for i in set(kept["stored"][:, 1].tolist()))


def _stored(node: ir.Node) -> ir.Stored:
    assert ir.is_stored(node), "a relation is of a node that keeps its rows"
    return node
