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

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from operators.dataflow import Dataflow, Key, node_key
from operators.flight.column import Ints
from operators.state.files import sync_directory
from operators.state.filters import FilterImage
from operators.state.pieces import Array, MappedFiles, Pack, Stored, checksum
from operators.state.relation import RelationImage
from operators.state.segments import alike, arrays_of, write_segment
from operators.state.spine import Batch, stored_batch
from planner import dataflow as ir
from planner.expr import Expr

#: A batch of so many bytes has a file of its own, which goes with it.
_OWN_FILE = 1 << 20
#: A file of which less is in use is written anew.
_LEAST_USED = 0.5


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


def cut(dataflow: Dataflow, directory: str) -> Cut:
    """What the dataflow keeps now, between steps; what lies in files of the directory that are
    hardly used, or gone, is to be written again. Cost: a reference to what no file has yet, and a
    copy of dead bits and of the operators' own state."""
    _leave_wasteful(dataflow, directory)
    relations = dataflow.relations()
    indexes = dataflow.indexes
    images = [(key, owner, f, f.state.image()) for key, owner, f in dataflow.filters_over()]
    filters = [(key, owner, f.state, image) for key, owner, f, image in images if image is not None]
    operators = [(i, i.operator.kept()) for i in dataflow.installed]
    names = Names(
        tables=tuple(dataflow.tables),
        relations=tuple(NamedRelation(owner, _stored(node)) for (owner, node), _ in relations),
        indexes=tuple(NamedIndex(i.owner, i.spec, tuple(sorted(i.asked))) for i in indexes),
        filters=tuple(NamedFilter(o, k[1], f.predicate) for k, o, f, _ in filters),
        operators=tuple(NamedOperator(i.owner, i.node) for i, kept in operators if kept),
    )
    return Cut(
        names,
        [table.kept() for table in dataflow.tables.values()],
        [relation.image() for _, relation in relations],
        [(i.state.spine.width, *i.state.image()) for i in indexes],
        [image for *_, image in filters],
        [kept for _, kept in operators if kept],
        dataflow.hashing.numbers,
    )


def write(taken: Cut, directory: str, token: str) -> Document:
    """Put what no file has yet into files of the directory whose names contain `token`, which no
    other file's does, and sync them. What they are named after is in the document.

    Raises: OSError; whatever was written by then may be used by the next `write`.
    Cost: a copy of what no file had when the cut was taken.
    """
    files = _Files(directory, token)
    for image in taken.relations:
        for blocks in alike(image, [b for b in image.blocks if b.stored.file is None]):
            path = files.path("rows")
            places = write_segment(path, image, blocks)
            for block, where in zip(blocks, places, strict=True):
                _found(block.stored, path, where)
    for *_, batches in taken.indexes:
        for batch in batches:
            if batch.stored.file is None:
                files.add(batch.stored, [batch.keys, batch.rows, batch.offsets])
    for bits in taken.filters:
        for number, bitmap in bits.full:
            if bits.stored[number].file is None:
                files.add(bits.stored[number], [bitmap])
    files.finish()
    names: dict[str, int] = {}
    return {
        "hashing": list(taken.hashing),
        "tables": list(taken.tables),
        "relations": [_relation(image, names) for image in taken.relations],
        "indexes": [
            {
                "width": width,
                "next_row": next_row,
                "lengths": np.array([len(b) for b in batches], np.int64),
                "stored": _table([(i, b.stored) for i, b in enumerate(batches)], names),
            }
            for width, next_row, batches in taken.indexes
        ],
        "filters": [
            {
                "next_row": bits.next_row,
                "released": bits.released,
                "stored": _table(list(bits.stored.items()), names),
                "last": bits.last,
            }
            for bits in taken.filters
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
        stored = dict(_stored_of(kept["stored"], told))
        last = dict(kept["last"])
        relation.load(kept["numbers"], kept["arrays"], stored, files, last)
    built = {(i.owner, i.spec) for i in dataflow.indexes}
    for name, kept in zip(names.indexes, document["indexes"], strict=True):
        live = dataflow.live_index(name.spec, name.owner)
        if live is not None and not _is_in(kept, document, without):
            lengths, width = kept["lengths"].tolist(), kept["width"]
            batches = _stored_of(kept["stored"], told)
            live.state.load(
                kept["next_row"], [stored_batch(s, width, lengths[i], files) for i, s in batches]
            )
            built.discard((name.owner, name.spec))
    for test, kept in zip(names.filters, document["filters"], strict=True):
        state = dataflow.live_filter(
            node_key(test.relation, test.owner), test.predicate, test.owner
        )
        if state is not None and not _is_in(kept, document, without):
            homes = dict(_stored_of(kept["stored"], told))
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


class _Files:
    """The files of one checkpoint: small values together, large ones by themselves."""

    def __init__(self, directory: str, token: str) -> None:
        self._directory = directory
        self._token = token
        self._count = 0
        self._small = Pack(self.path("small"))
        self._waiting: list[tuple[Stored, Ints]] = []

    def path(self, kind: str) -> str:
        """A fresh one."""
        self._count += 1
        return os.path.join(self._directory, f"{kind}-{self._token}-{self._count}")

    def add(self, stored: Stored, arrays: list[Array]) -> None:
        """A value of some arrays."""
        if sum(a.nbytes for a in arrays) < _OWN_FILE:
            self._waiting.append((stored, _added(self._small, arrays)))
            return
        pack = Pack(self.path("large"))
        places = _added(pack, arrays)
        pack.write(durable=True)
        _found(stored, pack.path, places)

    def finish(self) -> None:
        """All that was added is in files, and they are on disk, by their names."""
        self._small.write(durable=True)
        for stored, places in self._waiting:
            _found(stored, self._small.path, places)
        sync_directory(self._directory)


def _found(stored: Stored, path: str, places: Ints) -> None:
    """A value lies in a file. Who sees that it has one sees where."""
    stored.places, stored.mapped = places, False
    stored.file = os.path.basename(path)


def _added(pack: Pack, arrays: list[Array]) -> Ints:
    """Where the arrays will be, as `Stored.places` says it."""
    rows = []
    for number, array in enumerate(arrays):
        place = pack.add(array)
        rows.append((number, place.offset, place.nbytes, checksum(array)))
    return np.array(rows, np.int64)


def _leave_wasteful(dataflow: Dataflow, directory: str) -> None:
    """Take what lies in files that are hardly used for not written."""
    used: dict[str, list[Stored]] = {}
    for stored in _homes(dataflow):
        if stored.file is not None:
            used.setdefault(stored.file, []).append(stored)
    for file, some in used.items():
        try:
            size = os.path.getsize(os.path.join(directory, file))
        except FileNotFoundError:  # somebody took it; what is mapped is still there
            size = None
        if size is None or sum(s.nbytes for s in some) < _LEAST_USED * size:
            for stored in some:
                stored.file = None


def _homes(dataflow: Dataflow) -> Iterator[Stored]:
    for _, relation in dataflow.relations():
        yield from relation.stored_blocks
    for index in dataflow.indexes:
        yield from (batch.stored for batch in index.state.spine.batches)
    for test in dataflow.filters:
        yield from test.state.stored_bitmaps


def _relation(image: RelationImage, names: dict[str, int]) -> Document:
    last: dict[int, Array] = {} if image.last is None else arrays_of(image, image.last)
    return {
        "numbers": image.numbers,
        "arrays": image.arrays,
        "stored": _table([(b.number, b.stored) for b in image.blocks], names),
        "last": [[slot, values] for slot, values in last.items()],
    }


def _table(some: list[tuple[int, Stored]], names: dict[str, int]) -> Ints:
    """Of values by number, where they lie: int64[n, 6], the number, the file's number in `names`,
    and a row of `Stored.places`."""
    parts = []
    for number, stored in some:
        assert stored.file is not None, "everything has a file now"
        head = np.empty((len(stored.places), 2), np.int64)
        head[:] = number, names.setdefault(stored.file, len(names))
        parts.append(np.hstack((head, stored.places)))
    return np.concatenate(parts) if parts else np.empty((0, 6), np.int64)


def _stored_of(table: Ints, names: list[str]) -> list[tuple[int, Stored]]:
    """What `_table` was given."""
    if len(table) == 0:
        return []
    numbers = table[:, 0]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1)).tolist()
    return [
        (int(numbers[a]), Stored(names[int(table[a, 1])], table[a:b, 2:].copy()))
        for a, b in zip(starts, [*starts[1:], len(table)], strict=True)
    ]


def _is_in(kept: Document, document: Document, files: AbstractSet[str]) -> bool:
    """Whether some of a part of a document lies in one of the files."""
    if not files:
        return False
    return any(document["files"][i] in files for i in set(kept["stored"][:, 1].tolist()))


def _stored(node: ir.Node) -> ir.Stored:
    assert ir.is_stored(node), "a relation is of a node that keeps its rows"
    return node
