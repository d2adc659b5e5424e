"""Where values lie, told once: readers of a job are told what is others since an earlier one.

Of each number, a block of a relation or of a filter, there is an entry: how many rows it has, and
where its arrays lie. Entries are written into files, *runs*, of which later ones count: some runs
of a size become one, so that there are few and each entry is written a few times in all. The latest
entries, a few, are told with each job.

Invariant: what is written, and what is looked at but in one pass of a kernel, is in proportion to
the entries that are told.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from operators.flight.column import Bools, Ints
from operators.state.files import discard, is_there, size
from operators.state.pieces import Home, MappedFiles, Pack, Place, Stored
from operators.state.touched import Mark, Touched

#: A number, the rows that are there, and where they lie, if they do.
Entry: TypeAlias = tuple[int, int, Home | None]
#: Of each block where it lies.
Left: TypeAlias = Callable[[], Iterable[tuple[int, Stored]]]
#: So many entries are told with each job.
_FEW = 64
#: Runs are joined where one is not more than so many times as long as those behind it.
_RATIO = 2
#: What says, in the place of a file, that a row of a table is the head of an entry.
_HEAD = -1


@dataclass(frozen=True, slots=True)
class TableRef:
    """Entries: `table` int64[n, 6], of each its number, _HEAD, the rows and zeros; then, for each
    array, its number, the file's number in `files`, and a row of `Home.places`."""

    table: Place
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ValuesRef:
    """Values by number: later tables count."""

    tables: tuple[TableRef, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What tables tell: `heads` int64[m, 2] the numbers and rows of entries, `places` int64[n, 5]
    of each array the number, the slot, its file's number in `files`, offset and bytes."""

    heads: Ints
    places: Ints
    files: list[str]

    def addresses(self, files: MappedFiles) -> Ints:
        """Where each array is in memory, int64[n], while `files` live. Raises: ValueError."""
        mapped = [files.file(name) for name in self.files]
        starts = np.array([file.address for file in mapped], np.int64)
        ends = np.array([file.nbytes for file in mapped], np.int64)
        _, _, file, offset, nbytes = self.places.T
        if (
            len(file)
            and not ((offset >= 0) & (nbytes >= 0) & (offset + nbytes <= ends[file])).all()
        ):
            raise ValueError("a place is not in its file")
        return starts[file] + offset if len(file) else np.empty(0, np.int64)


def table_of(entries: Iterable[Entry], names: dict[str, int]) -> Ints:
    """Entries as TableRef has them; files by their number in `names`."""
    parts: list[Ints] = [np.empty((0, 6), np.int64)]
    for number, rows, home in entries:
        places = 0 if home is None else len(home.places)
        part = np.zeros((1 + places, 6), np.int64)
        part[:, 0] = number
        part[0, 1:3] = _HEAD, rows
        if home is not None:
            part[1:, 1] = names.setdefault(home.file, len(names))
            part[1:, 2:] = home.places
        parts.append(part)
    return np.concatenate(parts)


def joined(tables: Sequence[tuple[Ints, Sequence[str]]]) -> tuple[Ints, list[str]]:
    """Several tables as one, of which later ones count. Cost: a few passes of kernels."""
    names = list[str]()
    parts = list[Ints]()
    numbers = 1 + max((int(table[:, 0].max()) for table, _ in tables if len(table)), default=0)
    later: Bools = np.zeros(numbers, np.bool_)
    for table, files in reversed(tables):
        kept = table[~later[table[:, 0]]]
        later[table[:, 0]] = True
        kept[:, 1] += np.where(kept[:, 1] == _HEAD, 0, len(names))
        names += files
        parts.append(kept)
    return np.concatenate(parts or [np.empty((0, 6), np.int64)]), names


def found(tables: Iterable[tuple[Ints, Sequence[str]]]) -> Found:
    """What tables tell."""
    table, names = _without_unused(*joined([*tables]))
    is_head = table[:, 1] == _HEAD
    places = table[~is_head]
    return Found(table[is_head][:, [0, 2]], places[:, [0, 2, 1, 3, 4]], names)


@dataclass(slots=True, eq=False)
class _Run:
    ref: TableRef
    rows: int
    path: str
    leaves: weakref.finalize[[str], object]


@dataclass(slots=True)
class _Files:
    """Those of all tables."""

    new_path: Callable[[str], str]
    written_bytes: int = 0


@dataclass(slots=True, eq=False)
class Runs:
    """The entries of one table that were told; its files go with `owner`. State: in these, but for
    the latest."""

    owner: weakref.ref[object]
    files: _Files
    _runs: list[_Run] = field(default_factory=list)
    _few: dict[int, Entry] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """Whether all files are."""
        return all(is_there(run.path) for run in self._runs)

    def tell(self, changed: Iterable[Entry], step: Pack) -> ValuesRef:
        """All entries, of which some are others than before; the latest are told in `step`.
        Raises: OSError. Cost: in proportion to the changed ones, in all; see the module."""
        self._few.update((entry[0], entry) for entry in changed)
        if len(self._few) > _FEW:
            self._write()
        names = dict[str, int]()
        table = step.add(table_of(self._few.values(), names))
        return ValuesRef((*(run.ref for run in self._runs), TableRef(table, tuple(names))))

    def drop(self) -> None:
        """Let the files go."""
        for run in self._runs:
            run.leaves()
        self._runs.clear()
        self._few.clear()

    def _write(self) -> None:
        names = dict[str, int]()
        tables: list[tuple[Ints, Sequence[str]]] = [(table_of(self._few.values(), names), [*names])]
        rows, older = len(tables[0][0]), list[_Run]()
        while len(older) < len(self._runs):
            run = self._runs[-1 - len(older)]
            if run.rows > _RATIO * rows:
                break
            files = MappedFiles(_directory(run.path))
            tables.insert(0, (files.ints(run.ref.table).reshape(-1, 6), run.ref.files))
            rows, older = rows + run.rows, [*older, run]
        table, files_of = _without_unused(*joined(tables))
        pack = Pack(self.files.new_path("table"))
        place = pack.add(table)
        pack.write()
        self.files.written_bytes += size(pack.path)
        owner = self.owner()
        leaves = weakref.finalize(self if owner is None else owner, discard, pack.path)
        leaves.atexit = False
        made = _Run(TableRef(place, tuple(files_of)), len(table), pack.path, leaves)
        self._runs[len(self._runs) - len(older) :] = [made]
        self._few.clear()
        for run in older:
            run.leaves()


def _without_unused(table: Ints, names: list[str]) -> tuple[Ints, list[str]]:
    """A table, with the names of those files alone that are in it."""
    kept = dict[str, int]()
    number = np.zeros(len(names) + 1, np.int64)  # the last is that of heads
    number[_HEAD] = _HEAD
    for used in np.bincount(table[:, 1] - _HEAD)[-_HEAD:].nonzero()[0].tolist():
        number[used] = kept.setdefault(names[used], len(kept))
    table[:, 1] = number[table[:, 1]]
    return table, list(kept)


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


@dataclass(slots=True, eq=False)
class Told:
    """What was told of one relation or filter: where its `values` lie, and its `dead` bits; up
    to which look, and when files had been left by then (see ValueFiles). `columns`: every block was
    told with these."""

    values: Runs
    dead: Runs
    columns: frozenset[int] = frozenset()
    mark: Mark | None = None
    left: int = 0

    def changed(self, touched: Touched, blocks: int, stored: Left, left: int) -> list[int]:
        """Which of so many full blocks to tell of, from now on told. `stored`: where those lie that
        were told, asked for if files were `left` since. Cost: see Touched.since."""
        if self.mark is not None and not touched.knows(self.mark):
            self.mark = None
        if self.mark is None:
            self.drop()
        found, mark = touched.since(self.mark, blocks)
        if self.mark is not None and self.left != left:
            moved = [b for b, each in stored() if each.left > self.left and b < self.mark.blocks]
            found = np.union1d(found, moved).astype(np.int64)
        self.mark, self.left = mark, left
        blocks_of: list[int] = found.tolist()
        return blocks_of

    def drop(self) -> None:
        """Let the files go."""
        self.values.drop()
        self.dead.drop()


class Tables:
    """What was told of each relation and filter. `new_path`: of a file."""

    def __init__(self, new_path: Callable[[str], str]) -> None:
        self._files = _Files(new_path)
        self._told: weakref.WeakKeyDictionary[object, Told] = weakref.WeakKeyDictionary()

    @property
    def written_bytes(self) -> int:
        return self._files.written_bytes

    def of(self, owner: object) -> Told:
        """One whose files are there."""
        told = self._told.get(owner)
        if told is not None and not (told.values.is_there and told.dead.is_there):
            self._told.pop(owner).drop()
            told = None
        if told is None:
            values, dead = (Runs(weakref.ref(owner), self._files) for _ in range(2))
            told = self._told[owner] = Told(values, dead)
        return told

    def forget(self) -> None:
        """All is told anew: values lie elsewhere, or may not have been written."""
        for told in self._told.values():
            told.drop()
        self._told.clear()
