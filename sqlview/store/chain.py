"""The chain: what a store at a URL has in place of a log file and a lock, which object stores lack.

Link N is the object `log-N`, put where there is none: of two writers one has link N, and the other
is told. It has records, as log files have them (`log`); or none, when a writer takes the store over
or takes back what it wrote; or it names the checkpoint that counts from now on. A writer puts a
link by each commit, so it writes for as long as nobody has put one since its own: that is its lease
(`lease.Shown` is for people, and for who would take the store over unawares).

A link's head is a line of JSON, HEAD_BYTES long: who put it, the checkpoint, and `after`, the
number of the record behind which its own come. What links before it have behind that one counts no
more: it was taken back, or put when the writer was told that it could not be.

Law: what `append` has returned from is read again, or reading raises; of what it raised at, nothing
is, unless the writer has no way to the object store until another one takes the store.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import socket
import threading
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from operators.state import objects
from planner.errors import StoreError
from sqlview.store import log
from sqlview.store.log import End, Parts, Pending, Record

_log = logging.getLogger(__name__)

HEAD_BYTES = 1024
#: Records that need not be on disk when they are appended wait for so many bytes.
_WAITING_BYTES = 1 << 20
#: Links of so many bytes are read with their heads.
_SMALL_BYTES = 1 << 20
_NAME = re.compile(r"log-(\d{20})")
_AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class Link:
    """`records`: its records if they were read with it."""

    number: int
    said: Mapping[str, Any]
    nbytes: int
    records: bytes | None

    @property
    def after(self) -> int | None:
        return self.said["after"]  # type: ignore[no-any-return]

    @property
    def checkpoint(self) -> str | None:
        return self.said["checkpoint"]  # type: ignore[no-any-return]

    @property
    def writer(self) -> Mapping[str, Any]:
        return self.said["writer"]  # type: ignore[no-any-return]


class Chain:
    """The links at `url`; a writer's is taken over by it, `writer` being what it says of itself,
    with an `id` of its own. Raises: OSError, as its methods; StoreError for a damaged link."""

    def __init__(self, url: str, mark: bytes) -> None:
        self.url, self._mark = url, mark
        #: In order, as they were found.
        self.links: list[Link] = []
        self.writer: Mapping[str, Any] = {}
        #: Of the next link.
        self.next = 1
        #: Who has put a link since this writer's last one.
        self.successor: Mapping[str, Any] | None = None

    def find(self) -> None:
        """Read what there is."""
        found = objects.listed(self.url)
        numbers = sorted(int(m[1]) for m in (_NAME.fullmatch(f.name) for f in found) if m)
        sizes = {f.name: f.nbytes for f in found}
        with ThreadPoolExecutor(_AT_A_TIME, "sqlview-fetch") as threads:
            heads = threads.map(
                lambda n: self._link(n, sizes[os.path.basename(self.path(n))]), numbers
            )
            # What the checkpoint that counts does not need may be going.
            self.links = [link for link in heads if link is not None]
        self.next = numbers[-1] + 1 if numbers else 1

    def take_over(self, writer: Mapping[str, Any]) -> bool:
        """Be the one who writes; False if somebody else has put a link meanwhile."""
        self.find()
        self.writer = writer
        return self.put(b"", None)

    @property
    def checkpoint(self) -> str | None:
        """The name of the checkpoint that counts."""
        return next((x.checkpoint for x in reversed(self.links) if x.checkpoint), None)

    def records(self, end: End) -> Iterator[Record]:
        """The records behind `end`, which goes with them."""
        numbers = [link.number for link in self.links]
        first = end.file if end.file else 1
        if [n for n in numbers if n >= first] != list(range(first, (numbers or [0])[-1] + 1)):
            raise _damaged(self.path(first), "It, or one behind it, is missing.")
        behind = [link for link in self.links if link.number >= first]
        least, lasts = None, list[int | None]()
        for link in reversed(behind):
            lasts.append(least)
            if link.after is not None:
                least = link.after if least is None else min(least, link.after)
        for link, last in zip(behind, reversed(lasts), strict=True):
            for record in self._records(link):
                if record.number <= end.number or (last is not None and record.number > last):
                    continue
                if record.number != end.number + 1:
                    detail = f"Record {end.number + 1} is missing before record {record.number}."
                    raise _damaged(self.path(link.number), detail)
                end.number = record.number
                yield record
            end.file = link.number
        self.links = []  # which nobody reads again

    def put(self, records: bytes, after: int | None, checkpoint: str | None = None) -> bool:
        """Put the next link; False if there is one of somebody else. A link of this writer's own,
        which it was told it could not put, is passed. Raises: OSError; it may be there then."""
        while True:
            said = {
                "writer": self.writer,
                "nonce": uuid.uuid4().hex,
                "after": after,
                "checkpoint": checkpoint,
                "mark": self._mark.hex(),
            }
            if objects.put_new(self.path(self.next), _head(said) + records):
                break
            there = self._link(self.next, HEAD_BYTES)
            if there is None or there.writer != self.writer:
                self.successor = {} if there is None else there.writer
                return False
            if there.said["nonce"] == said["nonce"]:
                break  # the answer was lost
            self.next += 1
        self.next += 1
        return True

    def is_mine(self) -> bool:
        """Whether nobody has put a link since this writer's last one."""
        try:
            objects.found(self.path(self.next))
        except FileNotFoundError:
            return self.successor is None
        # Its own, of which it was told nothing, or somebody else's: the next put says.
        return False

    def path(self, number: int) -> str:
        return f"{self.url}/log-{number:020}"

    def _link(self, number: int, nbytes: int) -> Link | None:
        """None if it is gone."""
        path = self.path(number)
        try:
            whole = nbytes <= _SMALL_BYTES
            data = objects.read(path) if whole else objects.read_start(path, HEAD_BYTES)
        except FileNotFoundError:
            return None
        said = _said(data[:HEAD_BYTES])
        if said is None or said["mark"] != self._mark.hex():
            raise _damaged(path, "Its head is not what was written.")
        return Link(number, said, nbytes, data[HEAD_BYTES:] if whole else None)

    def _records(self, link: Link) -> Iterator[Record]:
        if link.after is None:
            return
        data = link.records
        if data is None:
            data = objects.read(self.path(link.number))[HEAD_BYTES:]
        view, offset, number = memoryview(data), 0, link.after + 1
        while offset < len(view):
            record = log.record_at(view, self._mark, offset, number)
            if record is None:
                detail = f"Record {number}, at byte {HEAD_BYTES + offset}, is not as written."
                raise _damaged(self.path(link.number), detail)
            yield record
            offset, number = offset + log.size_of(len(record.body)), number + 1


class LinkedLog:
    """The end of the log of a store at a URL: as `log.Log`, for who has taken its chain over.

    `wait`: records may wait to be put with others, until `sync`, or until they are many.
    State: records that wait.
    """

    def __init__(self, chain: Chain, mark: bytes, wait: bool, end: End) -> None:
        self._chain, self._mark, self._wait = chain, mark, wait
        self._lock = threading.Lock()
        self.broken: BaseException | None = None
        self.number = end.number
        #: The last record that is in a link.
        self._put_number = end.number
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        #: Behind which records that may be in links are still to be taken back.
        self._left: int | None = None
        self._closed = False
        self.appended_bytes = 0

    @property
    def end(self) -> End:
        """Behind the latest record, which is in this link or waits."""
        return End(self.number, self._chain.next - 1, 0)

    def append(self, parts: Parts) -> int:
        """See `Log.append`. Cost: a put, unless it may wait."""
        self._check()
        with self._lock:
            return self._append(parts)

    def begin(self, pack: Callable[[], Parts]) -> Pending[Parts]:
        """See `Log.begin`: a thread packs, and the record is put when it is finished."""
        self._check()
        self._lock.acquire()
        return Pending(self._lock, pack, self._append)

    def mark(self) -> End:
        return self.end

    def restore(self, mark: End) -> None:
        """See `Log.restore`."""
        with self._lock:
            if self.number == mark.number:
                return
            waiting = mark.number - self._put_number
            self._waiting = self._waiting[: max(waiting, 0)]
            self._waiting_bytes = sum(map(len, self._waiting))
            self.number = mark.number
            if waiting < 0:
                self._put_number = mark.number
                self._take_back()

    def link(self, checkpoint: str) -> None:
        """This checkpoint counts from now on. Raises: OSError; StoreError if the store is not this
        writer's any more."""
        self._check()
        with self._lock:
            self._put_waiting()
            if not self._chain.put(b"", None, checkpoint):
                raise self._lost()

    def leave(self) -> None:
        """See `Log.leave`."""
        self._check()

    def sync(self) -> None:
        """See `Log.sync`."""
        with self._lock:
            if self.broken is not None or not self._waiting:
                return
            try:
                self._put_waiting()
            except (OSError, StoreError) as error:
                self.broken = error
                raise

    def close(self) -> None:
        """Put what waits."""
        if self._closed:
            return
        self._closed = True
        if self.broken is None:
            with self._lock:
                if self._left is not None:
                    self._take_back()
                self._put_waiting()

    def is_mine(self) -> bool:
        """See `Chain.is_mine`."""
        with self._lock:
            return self.broken is None and self._chain.is_mine()

    def lost(self, successor: Mapping[str, Any]) -> None:
        """Somebody else says to have the store."""
        with self._lock:
            self._chain.successor = successor
            self._lost()

    def _append(self, parts: Parts) -> int:
        number = self.number + 1
        record = log.record_of(self._mark, number, number - 1, parts)
        self._waiting.append(record)
        self._waiting_bytes += len(record)
        self.number = number
        if not self._wait or self._waiting_bytes >= _WAITING_BYTES:
            try:
                self._put_waiting()
            except BaseException:
                self.number = number - 1
                self._waiting_bytes -= len(self._waiting.pop())
                self._take_back()  # the server may have it
                raise
        self.appended_bytes += len(record)
        return number

    def _put_waiting(self) -> None:
        if not self._waiting:
            return
        if not self._chain.put(b"".join(self._waiting), self._put_number):
            raise self._lost()
        self._waiting, self._waiting_bytes = [], 0
        self._put_number = self.number

    def _take_back(self) -> None:
        """Make sure that nothing behind the last record in a link is ever read: now, or before the
        next record."""
        if self.broken is not None:
            return
        self._left = self._put_number
        try:
            if not self._chain.put(b"", self._left):
                self._lost()
            self._left = None
        except OSError:
            _log.warning("a record could not be taken back yet", exc_info=True)

    def _check(self) -> None:
        if self._left is not None and self.broken is None:
            with self._lock:
                self._take_back()
        if self._left is not None and self.broken is None:
            raise StoreError(
                "the store takes no changes before the one that failed is taken back",
                detail="The object store did not answer, and still does not.",
                hint="Try again; nothing of that change is there for this session. If it is "
                "closed before, whoever opens the store next may find the change in it.",
            )
        if isinstance(self.broken, StoreError):
            raise self.broken.with_traceback(None)
        if self.broken is not None:
            there = "what was committed before the last 100 ms is there"
            there += ', with durability="commit" all.'
            raise log.no_more(self.broken, there) from self.broken

    def _lost(self) -> StoreError:
        found = self._chain.successor or {}
        self.broken = StoreError(
            "the store is not this session's any more",
            detail=f"Process {found.get('process', '?')} on {found.get('host', '?')} has taken it "
            "over.",
            hint="Close the session; nothing of the change was written.",
        )
        return self.broken


def writer_of(number: int) -> dict[str, Any]:
    """What a writer says of itself."""
    return {
        "id": uuid.uuid4().hex,
        "number": number,
        "process": os.getpid(),
        "host": socket.gethostname()[:100],
        "since": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def _head(said: Mapping[str, Any]) -> bytes:
    text = json.dumps({**said, "check": _check_of(said)}).encode()
    return text.ljust(HEAD_BYTES - 1) + b"\n"


def _said(head: bytes) -> Mapping[str, Any] | None:
    """What a head says; None if it is not whole."""
    try:
        said = json.loads(head)
        check = said.pop("check")
        return said if len(head) == HEAD_BYTES and check == _check_of(said) else None
    except (ValueError, KeyError, AttributeError):
        return None


def _check_of(said: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(said, sort_keys=True).encode())


def _damaged(path: str, detail: str) -> StoreError:
    return StoreError(
        f'the file "{path}" is damaged', detail=detail, hint="Restore the store from a backup."
    )
