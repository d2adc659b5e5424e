"""A store: a directory in which the state of a session outlives its process.

    store.json   that it is one, of which version, and the mark of its records
    lease        who writes it (`lease`)
    log-…        the definitions and changes of each step (`log`, `records`)
    checkpoint-… all that there is as of a record (`checkpoints`), and
    rows-…, large-…, small-… the greatest part of it, which checkpoints share

What a session commits is in the log before it is visible. Opening the store reads the latest
checkpoint, and takes the records behind it through the ordinary step again. At a URL of an object
store there are the same files, but for the log and the lease (`chain`).
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from operators.state import objects
from operators.state.files import (
    absolute,
    discard_tree,
    is_there,
    listed,
    make_directory,
    missing,
    read,
    size,
    written,
)
from operators.state.objects import is_url
from operators.state.undo import Undo
from operators.state.values import ValueFiles
from planner.errors import StoreError
from sqlview.store import checkpoints, log
from sqlview.store.chain import Chain, LinkedLog
from sqlview.store.checkpoints import Checkpoint, Taken
from sqlview.store.hold import claimed, hold, unheld
from sqlview.store.lease import Lease, Shown
from sqlview.store.log import End, Log, Parts, log_files
from sqlview.store.places import check_conditional, check_place, hint_of
from sqlview.store.verification import Verification

_log = logging.getLogger(__name__)

#: Acquires the lock that it is given, as soon as it can tell what there is and nothing is appended,
#: and says that; or None, without the lock, if nobody can tell any more.
Present: TypeAlias = Callable[[threading.Lock], Taken | None]

FORMAT, VERSION = "sqlview store", 1
#: "commit": a commit returns when it is on disk; "interval": what the last INTERVAL seconds have
#: committed may be lost if the machine stops; "close": what was committed since the store was
#: opened may. None of them loses anything if only the process is killed.
DURABILITIES = ("commit", "interval", "close")
INTERVAL = 0.1
#: A checkpoint is written when so many bytes were appended since the one before, or something and
#: so many seconds ago it was; it takes at most this share of the time.
CHECKPOINT_BYTES, CHECKPOINT_SECONDS, CHECKPOINT_SHARE = 256 << 20, 10.0, 0.1
#: So many bytes are compared with their checksums in a second; one of the log takes as long to be
#: read as so many of those.
_COMPARED_AT_CLOSE, _LOG_COST = 1 << 30, 16
#: Between looks at whether one is due.
_LOOK_SECONDS = 0.5


class Store:
    """The store in `path`, made if there is nothing; `read_only`: as it is now.

    Raises: StoreError for a directory that is no store, of another version, in use or not to be
    written, and for a URL.
    """

    def __init__(
        self,
        path: str,
        durability: str,
        read_only: bool,
        repair: bool = False,
        cache: str | None = None,
    ) -> None:
        """`repair`: files of the checkpoint may be missing. `cache`: of a store at a URL, see
        objects.keep_in."""
        check_place(path)
        self._repair = repair
        self.path = absolute(path)
        if cache is not None:
            objects.keep_in(self.path, cache)
        self.read_only = read_only
        self._lease: Lease | Shown | None = None
        self._log: Log | LinkedLog | None = None
        #: Of a store at a URL.
        self._chain: Chain | None = None
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._durability = durability
        #: Up to where its log was read.
        self.read_to = End()
        self.checkpoint: Checkpoint | None = None
        #: Of the checkpoint that was opened, until another one is written.
        self._verification: Verification | None = None
        #: Held while a checkpoint is written; acquired by who holds the session, never the reverse.
        self._writing = threading.Lock()
        #: Since it was opened.
        self.checkpoints_written = 0
        #: Files of what never changes, which checkpoints share, and Spark's tasks read.
        self.values = ValueFiles(self.path, durable=True)
        #: Files to which the log refers, each with the record that does.
        self._referred: dict[str, int] = {}
        #: Names of files that DataFrames of the session read.
        self.lent: Callable[[], AbstractSet[str]] = frozenset
        #: Record, bytes appended, and when: of the latest checkpoint. What it took, in seconds.
        self._saved, self._saved_bytes, self._saved_at = 0, 0, time.monotonic()
        self._saving_seconds = 0.0
        #: Of the log, when it was opened.
        self._read_bytes = 0
        #: Whether files that nobody needs are there, which a reader held.
        self._superfluous = False
        self._released = ExitStack()
        try:
            self._open()
        except OSError as error:
            self._released.close()
            raise _unusable(path, error) from error
        except BaseException:
            self._released.close()
            raise

    def _open(self) -> None:
        if self.read_only:
            self._mark = _mark(self.path)
            self._released.enter_context(hold(self.path))
            if is_url(self.path):
                self._chain = Chain(self.path, self._mark)
                self._chain.find()
                objects.tidy(self.path)
            self._find_checkpoint()
            return
        if is_url(self.path):
            self._take_over()
            return
        if not os.path.lexists(self.path):
            make_directory(self.path)
        if not os.path.isdir(self.path):
            raise StoreError(
                f'"{self.path}" is no directory', hint="Give a directory, or a name that is free."
            )
        if not _is_store(self.path):
            os.chmod(self.path, 0o700)
        make_directory(self.path)  # it is this user's alone
        self._lease = Lease(self.path)
        self._released.callback(self._lease.close)
        if not is_there(os.path.join(self.path, "store.json")):
            _begin(self.path)
        self._mark = _mark(self.path)
        for name in listed(self.path):
            if name.startswith("session-"):  # what Spark tasks read, of a writer that was killed
                discard_tree(os.path.join(self.path, name))
        self._find_checkpoint()

    def _take_over(self) -> None:
        """Be the writer of the store at a URL, which is made if there is none."""
        self._lease = lease = Shown(self.path)
        self._released.callback(lease.close)
        if not _is_store(self.path):
            _begin_at(self.path)
        self._mark = _mark(self.path)
        check_conditional(self.path)
        self._chain = Chain(self.path, self._mark)
        if not self._chain.take_over(lease.writer):
            raise lease.refused()
        lease.begin(self._lost)
        objects.tidy(self.path)
        for name in listed(self.path):
            if name.startswith("session-"):
                discard_tree(os.path.join(self.path, name))
        self._find_checkpoint()

    def _lost(self, successor: Mapping[str, Any]) -> None:
        if isinstance(self._log, LinkedLog):
            self._log.lost(successor)

    def _find_checkpoint(self) -> None:
        latest = checkpoints.latest if self._chain is None else self._latest
        try:
            name = latest(self.path)
            if name is not None:
                self.checkpoint = checkpoints.read(self.path, name, self._mark)
            if self.checkpoint is not None and not self._repair:
                self.checkpoint.files.open(self.checkpoint.values)
                self._verification = Verification(self.checkpoint)
        except FileNotFoundError as error:
            raise StoreError(
                f'the file "{error.filename}" is missing', hint="Restore it from a backup."
            ) from error
        if self.checkpoint is not None:
            self.read_to = replace(self.checkpoint.end)
            self._saved = self.read_to.number

    def _latest(self, _: str) -> str | None:
        assert self._chain is not None, "it is at a URL"
        return self._chain.checkpoint

    def missing(self, names: set[str]) -> set[str]:
        """Which of these files of values are not there, or may go at any time although somebody
        claims them. Raises: OSError."""
        if self.read_only and self._chain is not None:
            # What the checkpoint that counts needs stays from the hold to the claim.
            now = Chain(self.path, self._mark)
            now.find()
            if self.checkpoint is None or now.checkpoint != os.path.basename(self.checkpoint.path):
                return names
        return missing(self.path, names)

    def damaged(self) -> dict[str, str]:
        """The files of the checkpoint that are damaged, and what is wrong. Cost: they are read."""
        return {} if self.checkpoint is None else checkpoints.damaged_files(self.checkpoint)

    def records(self) -> Iterator[log.Record]:
        """The records that the checkpoint has not, before the first `append`.

        Raises: StoreError for a damaged file.
        """
        found = (
            log.read(self.path, self._mark, self.read_to)
            if self._chain is None
            else self._chain.records(self.read_to)
        )
        for record in found:
            self._read_bytes += len(record.body)
            yield record

    @property
    def nbytes(self) -> int:
        """What its records take on disk."""
        return sum(size(path) for _, path in log_files(self.path))

    @property
    def appended_bytes(self) -> int:
        """What was appended to the log since it was opened."""
        return 0 if self._log is None else self._log.appended_bytes

    @property
    def checkpoint_bytes(self) -> int:
        """What its checkpoint takes on disk."""
        if self.checkpoint is None:
            return 0
        names = (os.path.basename(self.checkpoint.path), *self.checkpoint.values)
        return sum(size(os.path.join(self.path, name)) for name in names)

    def begin(self) -> None:
        """All is read; from now on records are appended, or it is a reader's."""
        if self.read_only:
            self._released.close()
            return
        now = self._durability == "commit"
        try:
            self._log = (
                Log(self.path, self._mark, now, self.read_to)
                if self._chain is None
                else LinkedLog(self._chain, self._mark, not now, self.read_to)
            )
        except OSError as error:
            raise _unusable(self.path, error) from error
        self._discard_old()
        if self._durability == "interval":
            self._run(self._sync)

    @property
    def end(self) -> End:
        """Behind the latest record."""
        assert self._log is not None, "it is being written"
        return self._log.end

    def verify_beside(self, failed: Callable[[StoreError], None]) -> None:
        """From now on compare what was read of its files with their checksums, in a thread of its
        own; `failed` is called once if there is a damaged one."""
        verification = self._verification
        if verification is not None:
            verification.failed = failed
            self._run(lambda: verification.run(self._stop))

    def save_beside(self, present: Present, saved: Callable[[], None]) -> None:
        """From now on write checkpoints of what there is, in a thread of their own; `saved` is
        called after each."""
        self._run(lambda: self._save_beside(present, saved))

    def save(self, present: Present, even_if_same: bool = False) -> None:
        """Write a checkpoint of what there is, if anything was appended since the last one, or
        `even_if_same`.

        Raises: StoreError, with the store as it was. Cost: the first one compares what is left of
        the one that was opened.
        """
        if self._log is None or (self._log.number == self._saved and not even_if_same):
            return
        if self._verification is not None:
            self._verification.finish()
            self._verification = None
        try:
            self._log.leave()
            taken = present(self._writing)
        except OSError as error:
            raise self._not_saved(error) from error
        if taken is None:
            return
        began = time.monotonic()
        try:
            assert self._lease is not None
            self._lease.check()
            appended = self._log.appended_bytes
            self._log.sync()  # what a checkpoint has, the log has
            self.checkpoints_written += 1
            if isinstance(self._log, LinkedLog):
                name = f"-{os.urandom(6).hex()}"
                found = checkpoints.write(self.values, self._mark, taken, name)
                self._log.link(os.path.basename(found.path))
            else:
                found = checkpoints.write(self.values, self._mark, taken)
            self.checkpoint = found
            self._saved, self._saved_bytes = taken.end.number, appended
            for name, record in list(self._referred.items()):
                if record <= self._saved:
                    self._referred.pop(name, None)
            self._discard_old()
        except OSError as error:
            raise self._not_saved(error) from error
        finally:
            self._saved_at = time.monotonic()
            self._saving_seconds = self._saved_at - began
            self._writing.release()

    def save_last(self, present: Present) -> None:
        """`save`, unless that would compare much first, and the next session is sooner done with
        the log. Raises: as `save`."""
        if self._log is None:  # it was only read, and its checkpoint's files may be gone by now
            return
        pending = self._verification is not None and not self._verification.is_done
        log_bytes = self._read_bytes + self.appended_bytes
        if not pending or self.checkpoint_bytes < _COMPARED_AT_CLOSE + _LOG_COST * log_bytes:
            self.save(present)

    def _discard_old(self) -> None:
        """Delete what nobody needs, unless somebody reads the store: then later."""
        try:
            with unheld(self.path) as is_free:
                self._superfluous = not is_free
                if is_free:
                    held = claimed(self.path) | self.lent()
                    checkpoints.discard_old(
                        self.path,
                        self.checkpoint,
                        lambda n: n in held or self._may_be_used(n),
                        self._is_mine,
                    )
        except OSError:
            _log.warning("files that are used no more cannot be deleted", exc_info=True)

    def _is_mine(self) -> bool:
        return not isinstance(self._log, LinkedLog) or self._log.is_mine()

    def _may_be_used(self, name: str) -> bool:
        return name in self._referred or self.values.may_be_used(name)

    def _not_saved(self, error: OSError) -> StoreError:
        return StoreError(
            f'no checkpoint of the store "{self.path}" could be written',
            detail=f"{error.strerror or error}.",
            hint="Nothing is lost: what was committed is in its log. "
            + hint_of(error, "Make room, or mend what the detail says."),
        )

    @property
    def _is_due(self) -> bool:
        if self._log is None or self._log.number == self._saved:
            return False
        if self._verification is not None and not self._verification.is_done:
            return False
        waited = time.monotonic() - self._saved_at
        if waited * CHECKPOINT_SHARE < self._saving_seconds:
            return False
        much = self._log.appended_bytes - self._saved_bytes >= CHECKPOINT_BYTES
        return much or waited >= CHECKPOINT_SECONDS

    def _save_beside(self, present: Present, saved: Callable[[], None]) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            if self._superfluous:
                with self._writing:
                    self._discard_old()
            if self._is_due:
                try:
                    self.save(present)
                    saved()
                except Exception:
                    _log.warning("a checkpoint could not be written", exc_info=True)
                    self._saved_at = time.monotonic()

    def _run(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="sqlview-store", daemon=True)
        self._threads.append(thread)
        thread.start()

    @property
    def is_stopping(self) -> bool:
        """Whether its threads are to end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Its threads end, and are waited for."""
        self._stop.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def refers(self, files: Sequence[str], record: int) -> None:
        """A record refers to these files: they stay until a checkpoint has what it says."""
        self._referred.update(dict.fromkeys(files, record))
        self.values.keep(files)

    def append(self, parts: Parts, undo: Undo, files: Sequence[str] = ()) -> int:
        """Write a record, which is taken back with the work that it is the end of; returns its
        number. `files`: to which it refers. Raises: StoreError, with nothing written."""
        log = self._writable
        undo.before(log)
        with self._writing_log():
            number = log.append(parts)
        self.refers(files, number)
        return number

    @contextmanager
    def appending(
        self,
        pack: Callable[[], Parts],
        undo: Undo,
        beside: bool,
        files: Sequence[str] = (),
    ) -> Iterator[Callable[[], int]]:
        """A record of what `pack` returns: what this yields appends it, at the end of the work that
        it is of. `beside`: it is large, and a thread writes it while that work goes on. `files`: as
        of `append`.

        Raises: as `append`.
        """
        if not beside:
            yield lambda: self.append(pack(), undo, files)
            return
        with self._writable.begin(pack) as pending:

            def finish() -> int:
                undo.before(self._writable)
                with self._writing_log():
                    number = pending.finish()
                self.refers(files, number)
                return number

            yield finish

    @property
    def _writable(self) -> Log | LinkedLog:
        if self._log is None or self._lease is None:
            raise StoreError(
                f'the store "{self.path}" is open for reading only',
                hint="Open it without read_only=True.",
            )
        self._lease.check()
        return self._log

    @contextmanager
    def _writing_log(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f'the change could not be written to the store "{self.path}"',
                detail=f"{error.strerror or error}.",
                hint="Nothing of it was applied. "
                + hint_of(error, "Make room, or mend what the detail says, and try again."),
            ) from error

    def close(self) -> None:
        """Everything is on disk, and another session may write the store."""
        self.stop()
        try:
            if self._log is not None:
                self._log.close()
        except OSError as error:
            raise StoreError(
                f'the store "{self.path}" could not be closed in order',
                detail=f"{error.strerror or error}.",
                hint=hint_of(error, "What was committed is there when it is opened again."),
            ) from error
        finally:
            self._log = None
            self._released.close()

    def _sync(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                if self._log is not None:
                    self._log.sync()
            except (OSError, StoreError):
                _log.exception("the log could not be synced; the store takes no more changes")
                return


def _unusable(path: str, error: OSError) -> StoreError:
    return StoreError(
        f'cannot open the store "{path}"',
        detail=f"{error.strerror or error}.",
        hint=hint_of(
            error, "Give a directory of this user alone (mode 700) that has room, or none."
        ),
    )


def _begin(path: str) -> None:
    with written(os.path.join(path, "store.json"), durable=True) as file:
        file.write(_said_of(os.urandom(log.MARK_BYTES)))


def _begin_at(url: str) -> None:
    """As `_begin`; somebody else may be faster."""
    objects.put_new(f"{url}/store.json", _said_of(os.urandom(log.MARK_BYTES)))


def _said_of(mark: bytes) -> bytes:
    said = {"format": FORMAT, "version": VERSION, "mark": mark.hex(), "check": _check_of(mark)}
    return json.dumps(said).encode()


def _is_store(path: str) -> bool:
    """Whether a store is there; else there is nothing, or what is left of one that was being made.

    Raises: StoreError for anything else.
    """
    there = set(listed(path))
    if "store.json" in there:
        return True
    if {n for n in there if not n.startswith("hold-")} - {"lease", "store.json.part"}:
        raise StoreError(
            f'the directory "{path}" is not empty, and no store',
            hint="Give a directory of its own; one that is not there is made.",
        )
    return False


def _check_of(mark: bytes) -> int:
    """The checksum of a store's mark: by another one its records would not be found."""
    return zlib.crc32(mark, VERSION)


def _mark(path: str) -> bytes:
    """The mark of the store's records. Raises: StoreError for a damaged store, or one of another
    version."""
    version, mark, whole = None, b"", False
    name = os.path.join(path, "store.json")
    try:
        said = json.loads(read(name))
        version = said["version"] if said["format"] == FORMAT else None
        mark = bytes.fromhex(said["mark"])
        whole = len(mark) == log.MARK_BYTES and said["check"] == _check_of(mark)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f'there is no store in "{path}"', hint="sqlview.connect(path) makes one."
        ) from None
    except (ValueError, TypeError, KeyError):
        pass
    if version is not None and version != VERSION:
        raise StoreError(
            f'the store "{path}" is of version {version}, which this library does not know',
            detail=f"It knows version {VERSION}.",
            hint="Open it with the version of sqlview that wrote it.",
        )
    if version is None or not whole:
        raise StoreError(
            f'the file "{name}" is damaged',
            detail="It is not what was written when the store was made.",
            hint="Restore it from a backup: it never changes.",
        )
    return mark
