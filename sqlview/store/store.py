"""A store: a directory in which the state of a session outlives its process.

    store.json   that it is one, of which version, and the mark of its records
    lease        who writes it (`lease`)
    log-…        the definitions and changes of each step (`log`, `records`)
    base-…       the same of all that there is, in the place of a long log

What a session commits is in the log before it is visible, and opening the store takes every record
through the ordinary step again.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from operators.state.files import create, make_directory
from planner.errors import StoreError
from sqlview.store import log
from sqlview.store.lease import Lease
from sqlview.store.log import Log, Parts, log_files, sync_directory

_log = logging.getLogger(__name__)

FORMAT, VERSION = "sqlview store", 1
#: "commit": a commit returns when it is on disk; "interval": what the last INTERVAL seconds have
#: committed may be lost if the machine stops; "close": what was committed since the store was
#: opened may. None of them loses anything if only the process is killed.
DURABILITIES = ("commit", "interval", "close")
INTERVAL = 0.1
#: A log that is shorter is never rewritten.
BASE_BYTES = log.FILE_BYTES


class Store:
    """The store in `path`, made if there is nothing; `read_only`: as it is now.

    Raises: StoreError for a directory that is no store, of another version, in use or not to be
    written.
    """

    def __init__(self, path: str, durability: str, read_only: bool) -> None:
        self.path = os.path.abspath(path)
        self.read_only = read_only
        self._lease: Lease | None = None
        self._log: Log | None = None
        self._stop = threading.Event()
        self._syncing: threading.Thread | None = None
        self._durability = durability
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
        if not os.path.exists(os.path.join(self.path, "store.json")):
            _begin(self.path)
        self._mark = _mark(self.path)
        for name in os.listdir(self.path):
            if name.startswith("session-"):  # what Spark tasks read, of a writer that was killed
                shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)
        log.discard_old(self.path)

    def records(self) -> Iterator[log.Record]:
        """All records, before the first `append`. Raises: StoreError for a damaged file."""
        return log.read(self.path, self._mark)

    @property
    def nbytes(self) -> int:
        """What its records take on disk."""
        return sum(os.path.getsize(path) for _, path in log_files(self.path))

    @property
    def wants_base(self) -> bool:
        """Whether opening would take far less if the store said what there is, not how it came."""
        sizes = [(log.is_base(path), os.path.getsize(path)) for _, path in log_files(self.path)]
        base = sum(size for is_base, size in sizes if is_base)
        return not self.read_only and self.nbytes - base > max(BASE_BYTES, 2 * base)

    def rebase(self, number: int, records: Iterator[Parts]) -> None:
        """Write what there is in the place of the records up to `number`, which are all; before the
        first `append`. Where that cannot be written, they stay."""
        try:
            log.write_base(self.path, self._mark, number + 1, records)
        except OSError:
            _log.warning("the store's log is long, and could not be rewritten", exc_info=True)

    def begin(self) -> None:
        """From now on records are appended."""
        if self.read_only:
            return
        try:
            self._log = Log(self.path, self._mark, sync_each=self._durability == "commit")
        except OSError as error:
            raise _unusable(self.path, error) from error
        if self._durability == "interval":
            self._syncing = threading.Thread(target=self._sync, name="sqlview-sync", daemon=True)
            self._syncing.start()

    def append(self, parts: Parts) -> int:
        """Write a record; returns its number. Raises: StoreError, with nothing written."""
        if self._log is None or self._lease is None:
            raise StoreError(
                f'the store "{self.path}" is open for reading only',
                hint="Open it without read_only=True.",
            )
        self._lease.check()
        try:
            return self._log.append(parts)
        except OSError as error:
            raise StoreError(
                f'the change could not be written to the store "{self.path}"',
                detail=f"{error.strerror or error}.",
                hint="Nothing of it was applied. Make room, or mend what the detail says, and try "
                "again.",
            ) from error

    @contextmanager
    def recorded(self, parts: Parts) -> Iterator[None]:
        """Append a record, and do what it says in the block; if that fails, it is cut off.

        Raises: StoreError, with nothing done.
        """
        number = self.append(parts)
        try:
            yield
        except BaseException:
            assert self._log is not None
            self._log.take_back(number, self._log.size_of(parts))
            raise

    def close(self) -> None:
        """Everything is on disk, and another session may write the store."""
        self._stop.set()
        if self._syncing is not None:
            self._syncing.join()
        try:
            if self._log is not None:
                self._log.close()
        except OSError as error:
            raise StoreError(
                f'the store "{self.path}" could not be closed in order',
                detail=f"{error.strerror or error}.",
                hint="What was committed is there when it is opened again.",
            ) from error
        finally:
            self._log = None
            self._released.close()

    def _sync(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                if self._log is not None:
                    self._log.sync()
            except OSError:
                _log.exception("the log could not be synced; the store takes no more changes")
                return


def _unusable(path: str, error: OSError) -> StoreError:
    return StoreError(
        f'cannot open the store "{path}"',
        detail=f"{error.strerror or error}.",
        hint="Give a directory of this user alone (mode 700) that has room, or none.",
    )


def _begin(path: str) -> None:
    temporary = os.path.join(path, "store.json.part")
    if os.path.lexists(temporary):
        os.remove(temporary)
    with create(temporary) as file:
        said = {"format": FORMAT, "version": VERSION, "mark": os.urandom(log.MARK_BYTES).hex()}
        file.write(json.dumps(said).encode())
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, os.path.join(path, "store.json"))
    sync_directory(path)


def _is_store(path: str) -> bool:
    """Whether a store is there; else there is nothing, or what is left of one that was being made.

    Raises: StoreError for anything else.
    """
    there = set(os.listdir(path))
    if "store.json" in there:
        return True
    if there - {"lease", "store.json.part"}:
        raise StoreError(
            f'the directory "{path}" is not empty, and no store',
            hint="Give a directory of its own; one that is not there is made.",
        )
    return False


def _mark(path: str) -> bytes:
    """The mark of the store's records. Raises: StoreError for a store of another version."""
    version = None
    try:
        with open(os.path.join(path, "store.json"), "rb") as file:
            said = json.loads(file.read())
        version = said["version"] if said["format"] == FORMAT else None
        mark = bytes.fromhex(said["mark"])
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f'there is no store in "{path}"', hint="sqlview.connect(path) makes one."
        ) from None
    except (ValueError, TypeError, KeyError):
        mark = b""
    if version != VERSION or len(mark) != log.MARK_BYTES:
        raise StoreError(
            f'the store "{path}" is of version {version}, which this library does not know',
            detail=f"It knows version {VERSION}.",
            hint="Open it with the version of sqlview that wrote it.",
        )
    return mark
