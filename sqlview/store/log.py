"""The log: records, one after the other, in files that only grow.

A file is `log-` and the number of its first record. A record is a header of 40 bytes and its body,
filled up to 8 bytes. The header: the store's mark, checksum, length of the body, number, and the
number of the latest record that was known to be on disk when this one was written. Space is
reserved ahead, so that a record that is made durable costs no change of the file's length. The mark
is drawn at random for each store: no row can hold what would be taken for a record.

Law: what `append` has returned from is read again, or reading raises. A record that is not whole
ends the log if nothing shows that it was on disk once: it was being written when the machine or
the process stopped, and nobody was told of it. Otherwise the file is damaged, and the error says
so.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from operators.state.files import Appended, listed, remove, sync_directory
from operators.state.files import read as read_file
from planner.errors import StoreError

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Reserved at a time.
FILE_BYTES = 64 << 20
#: Of a large record that the disk is given at a time.
_PIECE_BYTES = 1 << 20
#: That one call writes.
_MOST_BUFFERS = 512
_HEADER = struct.Struct("<8sQQQQ")
#: Bytes of a mark.
MARK_BYTES = 8
_NAME = re.compile(r"log-(\d{20})")
#: A file with so much in it is left when what it has is in a checkpoint.
_LEAVE_BYTES = 1 << 20


#: Bytes that are written one after the other.
Parts: TypeAlias = list[bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Record:
    """Record `number`, of which the first is 1. `durable`: as in the header."""

    number: int
    body: memoryview
    durable: int


@dataclass(slots=True)
class End:
    """Where a log is read up to: behind record `number`, in the file that begins with record `file`
    (0: there is none), at a byte of it."""

    number: int = 0
    file: int = 0
    offset: int = 0


def log_files(directory: str) -> list[tuple[int, str]]:
    """Number of the first record and path of each file, in order."""
    found = [m for m in map(_NAME.fullmatch, listed(directory)) if m is not None]
    return sorted((int(m[1]), os.path.join(directory, m[0])) for m in found)


def is_old(name: str, end: End) -> bool:
    """Whether a file of that name has nothing that comes after `end`."""
    found = _NAME.fullmatch(name)
    return found is not None and int(found[1]) < end.file


def read(directory: str, mark: bytes, end: End) -> Iterator[Record]:
    """The records behind `end`, which goes with them, and in the end is where the log ends. Changes
    no file; one may go on writing them meanwhile.

    Raises: StoreError for a damaged file, when it comes to it; OSError.
    """
    files = [(first, path) for first, path in log_files(directory) if first >= end.file]
    if end.file and (not files or files[0][0] != end.file):
        raise _damaged(_path(directory, end.file), "It is missing.")
    for at, (first, path) in enumerate(files):
        number = end.number + 1
        if first not in (number, end.file):
            raise _damaged(path, f"It begins with record {first}, and record {number} is missing.")
        if first != end.file:
            end.file, end.offset = first, 0
        before = None
        while True:
            try:
                data = memoryview(read_file(path))
            except FileNotFoundError:
                raise _damaged(path, "It is missing.") from None
            if end.offset > len(data):
                detail = f"It ends before byte {end.offset}, up to which it was written."
                raise _damaged(path, detail)
            while (record := record_at(data, mark, end.offset, end.number + 1)) is not None:
                end.number, end.offset = record.number, end.offset + size_of(len(record.body))
                yield record
            number, offset = end.number + 1, end.offset
            rest = bytes(data[offset:]).rstrip(b"\0")
            last = at == len(files) - 1
            if not (_was_durable(data, mark, offset, rest, number) if last else rest):
                break
            if rest == before:
                raise _damaged(path, f"Record {number}, at byte {offset}, is not what was written.")
            before = rest  # of records that were written while they were read there are parts


def record_at(data: memoryview, mark: bytes, offset: int, number: int | None) -> Record | None:
    """The record at `offset` if it is whole, and has that number, or any if None."""
    if offset + _HEADER.size > len(data):
        return None
    found_mark, checksum, length, found, durable = _HEADER.unpack_from(data, offset)
    start = offset + _HEADER.size
    if found_mark != mark or number not in (None, found) or start + length > len(data):
        return None
    body = data[start : start + length]
    if _checksum(length, found, durable, [body]) != checksum:
        return None
    return Record(found, body, durable)


def _was_durable(data: memoryview, mark: bytes, offset: int, rest: bytes, number: int) -> bool:
    """Whether a record behind the last whole one, in `rest` from `offset` on, says that record
    `number` was on disk."""
    at = rest.find(mark, 1)
    while at >= 0:
        record = record_at(data, mark, offset + at, None) if at % 8 == 0 else None
        if record is not None and record.durable >= number:
            return True
        at = rest.find(mark, at + 1)
    return False


def record_of(mark: bytes, number: int, durable: int, parts: Parts) -> bytes:
    """A record as it lies in a file."""
    length = sum(map(len, parts))
    header = _HEADER.pack(mark, _checksum(length, number, durable, parts), length, number, durable)
    return b"".join([header, *parts, bytes(-length % 8)])


def _path(directory: str, first: int) -> str:
    """Of the file that begins with that record."""
    return os.path.join(directory, f"log-{first:020}")


def _damaged(path: str, detail: str) -> StoreError:
    return StoreError(
        f'the file "{path}" is damaged',
        detail=detail,
        hint="Restore the store from a backup; what the file held before can still be read.",
    )


def no_more(broken: BaseException, there: str) -> StoreError:
    """Why nothing is written any more, and what is there."""
    return StoreError(
        "the store takes no more changes since its log could not be written",
        detail=f"{type(broken).__name__}: {broken}",
        hint=f"Close the session and open the store again; {there}",
    )


def size_of(length: int) -> int:
    """Bytes that a record with a body of `length` bytes takes."""
    return _HEADER.size + (length + 7) // 8 * 8


def _checksum(length: int, number: int, durable: int, parts: Parts) -> int:
    checksum = zlib.crc32(struct.pack("<QQQ", length, number, durable))
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


def _pieces(parts: Parts) -> Iterator[Parts]:
    """The bytes of parts, about as many at a time as the disk is given."""
    gathered: Parts = []
    size = 0
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(view), _PIECE_BYTES):
            gathered.append(view[start : start + _PIECE_BYTES])
            size += len(gathered[-1])
            if size >= _PIECE_BYTES:
                yield gathered
                gathered, size = [], 0
    if gathered:
        yield gathered


class Pending(Generic[T]):
    """A record in the making: a thread makes of it what it can while the step runs that it is of;
    `finish`, after that step, makes it a record. To be used in a `with` block: what was not
    finished when that ends is none.
    """

    def __init__(
        self, lock: threading.Lock, make: Callable[[], T], put: Callable[[T], int]
    ) -> None:
        """`make` runs in the thread, `put` gets what it returned, and returns the record's number.
        `lock`: is held, until this is over."""
        self._lock, self._make, self._put = lock, make, put
        self._made: list[T] = []
        self._error: BaseException | None = None
        self._over = False
        self._thread = threading.Thread(target=self._run, name="sqlview-log", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            lock.release()
            raise

    def _run(self) -> None:
        try:
            self._made.append(self._make())
        except BaseException as error:
            self._error = error

    def finish(self) -> int:
        """Have the record; returns its number. Raises: as the log's `append`."""
        with self:
            self._thread.join()
            if self._error is not None:
                raise self._error
            return self._put(self._made[0])

    def __enter__(self) -> Pending[T]:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._over:
            self._over = True
            self._thread.join()
            self._lock.release()


@dataclass(frozen=True, slots=True)
class _Body:
    """A record whose body, of `length` bytes, is in its file, and which has no header there yet."""

    length: int
    header: bytes


class Log:
    """The end of a log, where records are written. One thread at a time, but for `sync`.

    State: an open file with reserved space. `broken` says why nothing can be written any more.
    """

    def __init__(self, directory: str, mark: bytes, sync_each: bool, end: End) -> None:
        """Goes on where `read` came to the end, and cuts off what is behind it.

        `sync_each`: whether `append` returns when the record is on disk.
        Raises: OSError.
        """
        self._directory = directory
        self._mark = mark
        self._sync_each = sync_each
        self._lock = threading.Lock()
        self.broken: BaseException | None = None
        #: Where the file is still to be cut off, which failed for want of memory, say.
        self._left: int | None = None
        self.number, self._first, self._offset = end.number, end.file, end.offset
        self._durable = self._reserved = 0
        self._closed = False
        #: That were appended since it was opened.
        self.appended_bytes = 0
        if self._first == 0:
            self._file = self._new_file()
            self._first = self.number + 1
            return
        path = _path(directory, self._first)
        self._file = Appended(path)
        if self._file.read_from(self._offset).rstrip(b"\0"):
            _log.warning("what was being written to %s was never committed: cut off", path)
        self._cut(self._offset)
        self._durable = self.number

    @property
    def end(self) -> End:
        """Behind the latest record."""
        return End(self.number, self._first, self._offset)

    def append(self, parts: Parts) -> int:
        """Write a record with the parts as its body; returns its number.

        Raises: OSError, with nothing written; StoreError if the log is broken.
        Cost: a copy to the page cache, and with `sync_each` one fdatasync.
        """
        self._check()
        length = sum(map(len, parts))
        with self._lock:
            try:
                self._make_room(length)
                number, durable = self.number + 1, self._durable
                checksum = _checksum(length, number, durable, parts)
                header = _HEADER.pack(self._mark, checksum, length, number, durable)
                self._file.write([header, *parts, bytes(-length % 8)], self._offset)
                return self._appended(length)
            except BaseException:
                self._undo(self._offset)
                raise

    def begin(self, pack: Callable[[], Parts]) -> Pending[_Body]:
        """Write the body of a record, what `pack` returns, in a thread of its own. Nobody else
        appends before it is finished or discarded; the next record is written over what was not
        finished.

        Raises: StoreError if the log is broken.
        """
        self._check()
        self._lock.acquire()
        return Pending(self._lock, lambda: self._write_body(pack), self._write_header)

    def _write_body(self, pack: Callable[[], Parts]) -> _Body:
        try:
            parts = pack()
            length = sum(map(len, parts))
            self._make_room(length)
            number, durable = self.number + 1, self._durable
            checksum, at = _checksum(length, number, durable, []), self._offset + _HEADER.size
            for pieces in _pieces(parts):
                for piece in pieces:
                    checksum = zlib.crc32(piece, checksum)
                size = self._file.write(pieces, at)
                if self._sync_each:  # the disk takes them while the next ones are on their way
                    self._file.start_sync(at, size)
                at += size
            self._file.write([bytes(-length % 8)], at)
            if self._sync_each:
                self._file.sync()
        except BaseException:
            self._undo(self._offset)
            raise
        return _Body(length, _HEADER.pack(self._mark, checksum, length, number, durable))

    def _write_header(self, body: _Body) -> int:
        try:
            self._file.write([body.header], self._offset)
            return self._appended(body.length)
        except BaseException:
            self._undo(self._offset)
            raise

    def _make_room(self, length: int) -> None:
        """For a record with a body of `length` bytes, in another file if need be.

        Raises: OSError.
        """
        size = size_of(length)
        if self._offset and self._offset + size > max(FILE_BYTES, self._reserved):
            self._next_file()
        self._reserve(self._offset + size)

    def _appended(self, length: int) -> int:
        """A record with a body of `length` bytes is written. Returns: its number."""
        if self._sync_each:
            self._file.sync()
        self._offset, self.number = self._offset + size_of(length), self.number + 1
        self.appended_bytes += size_of(length)
        if self._sync_each:
            self._durable = self.number
        return self.number

    def mark(self) -> End:
        return self.end

    def restore(self, mark: End) -> None:
        """Cut off what was appended since, which nobody was told of."""
        with self._lock:
            if self.number == mark.number:
                return
            start = mark.offset if self._first == mark.file else 0
            self._offset, self.number = start, mark.number
            self._durable = min(self._durable, mark.number)
            self._undo(start)

    def leave(self) -> None:
        """Go on in another file if there is much in this one. Raises: as `append`."""
        self._check()
        with self._lock:
            if self._offset >= _LEAVE_BYTES:
                self._next_file()

    def sync(self) -> None:
        """Put what was appended on disk. Raises: OSError; the log is broken then."""
        with self._lock:
            if self._durable == self.number or self.broken is not None:
                return
            try:
                self._file.sync()
            except OSError as error:
                self.broken = error  # what the kernel dropped cannot be written again
                raise
            self._durable = self.number

    def close(self) -> None:
        """Sync, and give back what is reserved."""
        if self._closed:
            return
        self._closed = True
        try:
            if self.broken is None:
                with self._lock:
                    self._file.cut(self._offset)
        finally:
            self._file.close()

    def _check(self) -> None:
        if self._left is not None and self.broken is None:
            with self._lock:
                self._undo(self._left)
        if self.broken is not None:
            raise no_more(self.broken, "all that was committed is there.") from self.broken

    def _undo(self, offset: int) -> None:
        """Make sure that nothing from `offset` on is ever read: now, or before the next record."""
        self._left = offset
        try:
            self._cut(offset)
        except OSError as error:
            self.broken = error
            _log.exception("the log's end could not be cut off")

    def _cut(self, offset: int) -> None:
        self._file.cut(offset)
        self._reserved, self._left = offset, None

    def _reserve(self, needed: int) -> None:
        if needed <= self._reserved:
            return
        for size in (max(needed, FILE_BYTES), needed):
            try:
                if self._file.reserve(size):
                    self._reserved = size
                return
            except OSError as error:
                if error.errno != errno.ENOSPC or size == needed:
                    raise

    def _new_file(self) -> Appended:
        """An empty file for the next record, open; its name is on disk."""
        return Appended.made(_path(self._directory, self.number + 1))

    def _next_file(self) -> None:
        """Go on in another file. Raises: OSError; then it goes on in this one."""
        # First: behind the records of a file that is not the last one nothing may be.
        self._cut(self._offset)
        path = _path(self._directory, self.number + 1)
        try:
            file = self._new_file()
        except BaseException as error:
            try:
                # It would be taken for where the next record is.
                remove(path)
                sync_directory(self._directory)
            except OSError:
                self.broken = error
            raise
        self._file.close()
        self._first, self._file, self._durable = self.number + 1, file, self.number
        self._offset = self._reserved = 0
