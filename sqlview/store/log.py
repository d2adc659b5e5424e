"""The log: records, one after the other, in files that only grow.

A file is `log-` and the number of its first record, or `base-` and that number: what comes before a
base is not needed any more. A record is a header of 40 bytes and its body,
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

import contextlib
import errno
import logging
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from operators.state.files import create, discard
from planner.errors import StoreError

_log = logging.getLogger(__name__)

#: Reserved at a time.
FILE_BYTES = 64 << 20
#: That one call writes.
_MOST_BUFFERS = 512
_HEADER = struct.Struct("<8sQQQQ")
#: Bytes of a mark.
MARK_BYTES = 8
_NAME = re.compile(r"(log|base)-(\d{20})")


#: Bytes that are written one after the other.
Parts: TypeAlias = list[bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Record:
    """Record `number`, of which the first is 1. `durable`: as in the header."""

    number: int
    body: memoryview
    durable: int


def log_files(directory: str) -> list[tuple[int, str]]:
    """Number of the first record and path of the files that count, in order: from the last base."""
    found = [m for m in map(_NAME.fullmatch, os.listdir(directory)) if m is not None]
    base = max((int(m[2]) for m in found if m[1] == "base"), default=0)
    files = sorted((int(m[2]), m[0]) for m in found if int(m[2]) >= base + (m[1] == "log"))
    return [(number, os.path.join(directory, name)) for number, name in files]


def write_base(directory: str, mark: bytes, number: int, bodies: Iterable[Parts]) -> None:
    """Write records that say all that those before `number` did, in their place.

    Raises: OSError, with the log as it was.
    """
    path = os.path.join(directory, f"base-{number:020}")
    temporary = f"{path}.part"
    discard(temporary)
    with create(temporary) as file:
        for parts in bodies:
            # As if on disk: it is, before the file has its name.
            for part in _buffers(mark, parts, number, number):
                file.write(part)
            number += 1
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_directory(directory)
    discard_old(directory)


def is_base(path: str) -> bool:
    return os.path.basename(path).startswith("base-")


def discard_old(directory: str) -> None:
    """Delete what a base has made superfluous, and what was not finished."""
    needed = {os.path.basename(path) for _, path in log_files(directory)}
    for name in os.listdir(directory):
        unfinished = name.endswith(".part") and _NAME.fullmatch(name.removesuffix(".part"))
        if unfinished or (_NAME.fullmatch(name) and name not in needed):
            discard(os.path.join(directory, name))


def read(directory: str, mark: bytes) -> Iterator[Record]:
    """All records. Changes nothing.

    Raises: StoreError for a damaged file, when it comes to it; OSError.
    """
    files = log_files(directory)
    number = files[0][0] if files else 1
    for at, (first, path) in enumerate(files):
        if first != number:
            raise _damaged(path, f"It begins with record {first}, and record {number} is missing.")
        try:
            with open(path, "rb") as file:
                data = memoryview(file.read())
        except FileNotFoundError:
            raise StoreError(
                "the store was rewritten while it was read", hint="Open it again."
            ) from None
        offset = 0
        for record in _records(data, mark, first):
            yield record
            number, offset = record.number + 1, offset + _size(len(record.body))
        whole = at < len(files) - 1 or is_base(path)
        rest = bytes(data[offset:]).rstrip(b"\0")
        cut = bool(rest) if whole else _was_durable(data, mark, offset, rest, number)
        if cut:
            raise _damaged(path, f"Record {number}, at byte {offset}, is not what was written.")


def _records(data: memoryview, mark: bytes, number: int) -> Iterator[Record]:
    """Whole records, one after the other, from that number on."""
    offset = 0
    while (record := _record_at(data, mark, offset, number)) is not None:
        yield record
        number, offset = number + 1, offset + _size(len(record.body))


def _record_at(data: memoryview, mark: bytes, offset: int, number: int | None) -> Record | None:
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
        record = _record_at(data, mark, offset + at, None) if at % 8 == 0 else None
        if record is not None and record.durable >= number:
            return True
        at = rest.find(mark, at + 1)
    return False


def _damaged(path: str, detail: str) -> StoreError:
    return StoreError(
        f'the file "{path}" is damaged',
        detail=detail,
        hint="Restore the store from a backup; what the file held before can still be read.",
    )


def _size(length: int) -> int:
    """Bytes that a record with a body of `length` bytes takes."""
    return _HEADER.size + (length + 7) // 8 * 8


def _buffers(mark: bytes, parts: Parts, number: int, durable: int) -> Parts:
    """A record with the parts as its body."""
    length = sum(map(len, parts))
    checksum = _checksum(length, number, durable, parts)
    header = _HEADER.pack(mark, checksum, length, number, durable)
    return [header, *parts, bytes(-length % 8)]


def _checksum(length: int, number: int, durable: int, parts: Parts) -> int:
    checksum = zlib.crc32(struct.pack("<QQQ", length, number, durable))
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


class Log:
    """The end of a log, where records are written. One thread at a time, but for `sync`.

    State: an open file with reserved space. `broken` says why nothing can be written any more.
    """

    def __init__(self, directory: str, mark: bytes, sync_each: bool) -> None:
        """Goes on after the last whole record, and cuts off what is behind it.

        `sync_each`: whether `append` returns when the record is on disk.
        Raises: OSError. What is damaged is found by `read`, which comes first.
        """
        self._directory = directory
        self._mark = mark
        self._sync_each = sync_each
        self._lock = threading.Lock()
        self.broken: BaseException | None = None
        self.number = self._durable = self._offset = self._reserved = 0
        files = log_files(directory)
        if not files:
            self._path, self._file = self._new_file()
            return
        first, self._path = files[-1]
        self.number = first - 1
        with open(self._path, "rb") as file:
            data = memoryview(file.read())
        for record in _records(data, mark, first):
            self.number = record.number
            self._offset += _size(len(record.body))
        if is_base(self._path):
            self._durable = self.number
            self._path, self._file = self._new_file()
            self._offset = 0
            return
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        if bytes(data[self._offset :]).rstrip(b"\0"):
            _log.warning("what was being written to %s was never committed: cut off", self._path)
        self._cut(self._offset)
        self._durable = self.number

    def append(self, parts: Parts) -> int:
        """Write a record with the parts as its body; returns its number.

        Raises: OSError, with nothing written; StoreError if the log is broken.
        Cost: a copy to the page cache, and with `sync_each` one fdatasync.
        """
        self._check()
        number, size = self.number + 1, self.size_of(parts)
        with self._lock:
            if self._offset and self._offset + size > max(FILE_BYTES, self._reserved):
                self._next_file()
            try:
                self._reserve(self._offset + size)
                _write(self._file, _buffers(self._mark, parts, number, self._durable), self._offset)
                if self._sync_each:
                    os.fdatasync(self._file)
            except BaseException:
                self._undo(self._offset)
                raise
            self._offset += size
            self.number = number
            if self._sync_each:
                self._durable = number
        return number

    def take_back(self, number: int, size: int) -> None:
        """Cut off the latest record, which nobody was told of."""
        assert number == self.number, "only the latest record can be taken back"
        with self._lock:
            self._undo(self._offset - size)
            self._offset -= size
            self.number -= 1
            self._durable = min(self._durable, self.number)

    def size_of(self, parts: Parts) -> int:
        """Bytes that a record of these parts takes."""
        return _size(sum(map(len, parts)))

    def sync(self) -> None:
        """Put what was appended on disk. Raises: OSError; the log is broken then."""
        with self._lock:
            if self._durable == self.number or self.broken is not None:
                return
            try:
                os.fdatasync(self._file)
            except OSError as error:
                self.broken = error  # what the kernel dropped cannot be written again
                raise
            self._durable = self.number

    def close(self) -> None:
        """Sync, and give back what is reserved."""
        if self._file < 0:
            return
        try:
            if self.broken is None:
                with self._lock:
                    os.ftruncate(self._file, self._offset)
                    os.fsync(self._file)
        finally:
            os.close(self._file)
            self._file = -1

    def _check(self) -> None:
        if self.broken is not None:
            raise StoreError(
                "the store takes no more changes since its log could not be written",
                detail=f"{type(self.broken).__name__}: {self.broken}",
                hint="Close the session and open the store again; all that was committed is there.",
            ) from self.broken

    def _undo(self, offset: int) -> None:
        """Make sure that nothing from `offset` on is ever read."""
        try:
            self._cut(offset)
        except OSError as error:
            self.broken = error
            _log.exception("the log's end could not be cut off")
        except BaseException as error:
            self.broken = error
            raise

    def _cut(self, offset: int) -> None:
        os.ftruncate(self._file, offset)
        os.fsync(self._file)
        self._reserved = offset

    def _reserve(self, needed: int) -> None:
        if needed <= self._reserved:
            return
        for size in (max(needed, FILE_BYTES), needed):
            try:
                os.posix_fallocate(self._file, 0, size)
            except OSError as error:
                if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                    return  # a file system without it: the file grows as it is written
                if error.errno != errno.ENOSPC or size == needed:
                    raise
            else:
                self._reserved = size
                return

    @property
    def _next_path(self) -> str:
        """Of a file that begins with the next record."""
        return os.path.join(self._directory, f"log-{self.number + 1:020}")

    def _new_file(self) -> tuple[str, int]:
        """An empty file for the next record, open; its name is on disk."""
        path = self._next_path
        with create(path) as made:
            os.fsync(made.fileno())
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        sync_directory(self._directory)
        return path, file

    def _next_file(self) -> None:
        """Go on in another file. Raises: OSError; then it goes on in this one."""
        path = self._next_path
        try:
            _, file = self._new_file()
            try:
                self._cut(self._offset)
            except BaseException:
                os.close(file)
                raise
        except BaseException as error:
            try:
                # It would be taken for where the next record is.
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
                sync_directory(self._directory)
            except OSError:
                self.broken = error
            raise
        os.close(self._file)
        self._path, self._file, self._durable = path, file, self.number
        self._offset = self._reserved = 0


def sync_directory(path: str) -> None:
    """Names in the directory are on disk when this returns."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(file: int, parts: Parts, offset: int) -> None:
    waiting = [memoryview(part) for part in parts if len(part)]
    while waiting:
        written = os.pwritev(file, waiting[:_MOST_BUFFERS], offset)
        offset += written
        while waiting and written >= len(waiting[0]):
            written -= len(waiting.pop(0))
        if written:
            waiting[0] = waiting[0][written:]
