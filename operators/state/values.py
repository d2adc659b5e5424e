"""Files of values: full blocks of rows, batches of indexes, bitmaps, which never change.

A value is written once, into a file with others or one of its own, and has its home there; what
refers to it, a checkpoint or the job of a Spark task, names that. Blocks are written as segments,
all else as packs.

Who deletes: the files of a session without a store go when no value of its state has its home
there (`collect`). Those of a store are deleted by the store alone, which keeps what its latest
checkpoint refers to, and what was `written` and may be used: by a job, or by the next checkpoint.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import numpy as np

from operators.flight.column import Ints
from operators.state.files import discard, discard_named, size, sync_directory
from operators.state.pieces import Array, Home, Pack, Stored, checksum
from operators.state.relation import Block, Form
from operators.state.segments import alike, write_segment

#: Arrays of so many bytes have a file of their own, which goes with them.
_OWN_FILE = 1 << 20
#: Numbers the files that are left, of all directories.
_LEAVES = count(1)
#: A file of which less is in use is written anew.
_LEAST_USED = 0.5


class ValueFiles:
    """The files in a directory that one session writes. `durable`: of a store, and on disk once
    they have their names."""

    def __init__(self, directory: str, durable: bool = False) -> None:
        self.directory = directory
        self.durable = durable
        self._token = os.urandom(6).hex()
        self._count = 0
        #: When a file was left last: who told of homes before has to tell where values are now.
        self.left = 0
        self._lock = threading.Lock()
        #: The thread that has it.
        self._writing: int | None = None
        #: Names of the files that were written, less those that are known to be used no more. A
        #: name is here before its file is.
        self.written: set[str] = set()
        #: Tokens in the names of files that others write, and those of which some were kept.
        self._lent: set[str] = set()
        self._kept: set[str] = set()

    @property
    def is_writing(self) -> bool:
        """Whether this thread is `writing`."""
        return self._writing == threading.get_ident()

    def lend(self) -> Lent:
        """A token for files that others write here, as tasks of a job do: they stay while it
        lives, and then go unless some were kept."""
        lent = Lent(os.urandom(6).hex())
        self._lent.add(lent.token)
        weakref.finalize(lent, _given_back, weakref.ref(self), lent.token).atexit = False
        return lent

    def keep(self, names: Iterable[str]) -> None:
        """Files that others wrote are in use: they go when the store says so."""
        self._kept.update(map(_token_of, names))

    def adopt(self, token: str, names: Iterable[str]) -> None:
        """Values lie in files that others wrote by a token, which is no longer lent: from now on
        they are like those that were written here."""
        self.written.update(names)
        self._kept.add(token)
        self._lent.discard(token)

    def may_be_used(self, name: str) -> bool:
        """Whether a file may be in use, or come into use, that no checkpoint refers to."""
        return name in self.written or _token_of(name) in self._lent

    def give_back(self, token: str) -> None:
        """Nobody needs the files of this token, unless some were kept."""
        self._lent.discard(token)
        if token not in self._kept:
            discard_named(self.directory, f"-{token}-")

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """To write some values, one thread at a time; they have their homes when the block ends.

        Raises: OSError; some may have theirs by then.
        """
        with self._lock:
            self._writing = threading.get_ident()
            try:
                self._count += 1
                out = Writing(self, f"{self._token}-{self._count}")
                yield out
                out.finish()
            finally:
                self._writing = None

    def leave(self, values: Iterable[Stored]) -> None:
        """Take those that lie in files that are hardly used, or gone, for not written. `values`:
        all that there are."""
        for file, some in self._by_file(values).items():
            try:
                nbytes = size(os.path.join(self.directory, file))
            except FileNotFoundError:  # somebody took it; what is mapped is still there
                nbytes = None
            used = sum(home.nbytes for _, home in some)
            if nbytes is None or used < _LEAST_USED * nbytes:
                self.left = next(_LEAVES)
                for stored, _ in some:
                    stored.home, stored.mapped = None, False
                    stored.left = self.left

    def collect(self, values: Iterable[Stored]) -> None:
        """Only what `values` need is used from now on: they are all that there are."""
        if not self.written:
            return
        unused = self.written - self._by_file(values).keys()
        self.written -= unused
        if not self.durable:
            for name in unused:
                discard(os.path.join(self.directory, name))

    def close(self) -> None:
        """The session ends: what it wrote without a store goes."""
        self.written.clear()
        if not self.durable:
            for token in (self._token, *self._kept):
                discard_named(self.directory, f"-{token}-")

    def _by_file(self, values: Iterable[Stored]) -> dict[str, list[tuple[Stored, Home]]]:
        found: dict[str, list[tuple[Stored, Home]]] = {}
        for stored in values:
            home = stored.home
            if home is not None:
                found.setdefault(home.file, []).append((stored, home))
        return found


class Lent:
    """A token that others write files by, see `ValueFiles.lend`."""

    __slots__ = ("__weakref__", "token")

    def __init__(self, token: str) -> None:
        self.token = token


def _given_back(files: weakref.ref[ValueFiles], token: str) -> None:
    found = files()
    if found is not None:
        found.give_back(token)


def _token_of(name: str) -> str:
    """What tells who wrote a file, see `Writing._path`."""
    return name.split("-")[1] if name.count("-") >= 2 else ""


class Writing:
    """Values on their way into files."""

    def __init__(self, files: ValueFiles, token: str) -> None:
        self._files = files
        self._token = token
        self._count = 0
        self._small = Pack(self._path("small"))
        self._waiting: list[tuple[Stored, Home]] = []
        self.written_bytes = 0

    def blocks(self, form: Form, blocks: Sequence[Block]) -> list[tuple[int, Home]]:
        """Of full blocks, by number, where they lie: those without a home are written."""
        homes = {b.number: b.home for b in blocks}
        if self._files.durable:  # others may have been faster, and all write all columns
            homes.update((b.number, b.stored.home) for b in blocks if b.home is None)
        homeless = [b for b in blocks if homes[b.number] is None]
        for some in alike(form, homeless):
            path = self._path("rows")
            places = write_segment(path, form, some, self._files.durable)
            self.written_bytes += size(path)
            for block, where in zip(some, places, strict=True):
                home = Home(os.path.basename(path), where)
                homes[block.number] = home
                _settle(block.stored, home)
        return [(number, home) for number, home in homes.items() if home is not None]

    def arrays(self, stored: Stored, arrays: Sequence[Array]) -> Home:
        """Where a value of some arrays lies, or will when all is written."""
        if stored.home is not None:
            return stored.home
        if sum(a.nbytes for a in arrays) < _OWN_FILE:
            home = _added(self._small, arrays)
            self._waiting.append((stored, home))
            return home
        pack = Pack(self._path("large"))
        home = _added(pack, arrays)
        self._write(pack)
        _settle(stored, home)
        return home

    def finish(self) -> None:
        """Everything is in files, and if they are durable, so are their names."""
        self._write(self._small)
        for stored, home in self._waiting:
            _settle(stored, home)
        if self._files.durable:
            sync_directory(self._files.directory)

    def _write(self, pack: Pack) -> None:
        if pack.write(self._files.durable):
            self.written_bytes += size(pack.path)

    def _path(self, kind: str) -> str:
        """A fresh one."""
        self._count += 1
        name = f"{kind}-{self._token}-{self._count}"
        self._files.written.add(name)
        return os.path.join(self._files.directory, name)


def _settle(stored: Stored, home: Home) -> None:
    stored.home, stored.mapped = home, False


def _added(pack: Pack, arrays: Sequence[Array]) -> Home:
    """Where the arrays will be."""
    rows: list[tuple[int, int, int, int]] = []
    for number, array in enumerate(arrays):
        place = pack.add(array)
        rows.append((number, place.offset, place.nbytes, checksum(array)))
    places: Ints = np.array(rows, np.int64)
    return Home(os.path.basename(pack.path), places)
