"""Objects of an object store, as files: what `files` has at a URL, and a cache on this machine.

A URL is `s3://bucket/…` or `gs://bucket/…`, or `file:///…` for a directory of this machine that is
used as one, in tests; credentials and endpoints as the
environment says them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL …). An object appears with its content,
and none is changed under its name but small ones that are read as a whole (`read`). So what was
fetched once is what lies there: it is kept in a directory of this machine under the object's own
name, mapped from there, and fetched again if it is gone. What is written goes through there, too.

Requires: a list, a read and a conditional put see every put and delete that has returned, as those
of S3 and GCS do.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

_log = logging.getLogger(__name__)

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/*(.*)")
SCHEMES = ("s3", "s3a", "gs", "file")
#: Of the cache, where SQLVIEW_CACHE_BYTES does not say it.
CACHE_BYTES = 64 << 30
#: At the end of the name of a file in the cache that is not complete, and how long one is taken
#: for somebody's.
_PART, _PART_SECONDS = ".part", 86_400.0
#: That are fetched at a time.
_AT_A_TIME = 8
_PIECE_BYTES = 8 << 20
#: In one request.
_MOST_DELETED = 1000
#: A server that does not answer is asked again for so long.
_RETRIES, _RETRY_SECONDS = 4, 60.0
#: Of what credentials and endpoints are said by.
_SETTINGS = ("AWS_", "GOOGLE_")
#: Where obstore looks for a role of the machine when nothing else is said.
_NO_CREDENTIALS = ("169.254.169.254", "/latest/api/token", "metadata.google", "MissingToken")


class ObjectError(OSError):
    """An object store did not do what it was asked for. `hint`: what may help."""

    def __init__(self, text: str, url: str, hint: str) -> None:
        super().__init__(errno.EIO, text, url)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Found:
    """An object: `name` behind the URL that was listed, and when it was put, by the server's
    clock."""

    name: str
    nbytes: int
    put_at: float


def is_url(path: str) -> bool:
    """Whether it is a URL, of whatever kind."""
    return _URL.match(path) is not None


def scheme_of(url: str) -> str:
    found = _URL.match(url)
    return "" if found is None else found[1].lower()


def is_whole(url: str) -> bool:
    """Whether a URL names objects: a bucket, and names of which none is empty."""
    scheme, host, path = _parts(url)
    names = path.split("/") if path else []
    if any(name in ("", ".", "..") for name in names) or any(c in url for c in "?#\0"):
        return False
    return bool(names) if scheme == "file" else bool(host)


def check_installed() -> None:
    """Raises: ImportError."""
    import obstore  # noqa: F401


# ---------------------------------------------------------------------------------- the server


def read(url: str) -> bytes:
    """All of an object, as it is now. Raises: OSError, as all here."""
    store, key = _place(url)
    with _errors(url):
        return bytes(_obstore().get(store, key).bytes())


def read_start(url: str, nbytes: int) -> bytes:
    """The first bytes of an object that has so many."""
    store, key = _place(url)
    with _errors(url):
        return bytes(_obstore().get_range(store, key, start=0, end=nbytes))


def put(url: str, data: bytes) -> None:
    """Have an object with these bytes, whatever there was."""
    store, key = _place(url)
    with _errors(url):
        _obstore().put(store, key, data)


def put_new(url: str, data: bytes) -> bool:
    """Have an object with these bytes; False if there is one of that name, which stays as it is.

    If it raises, it may be there, or come to be. An answer that was lost and asked for again is
    False, too: whoever cares looks whose it is.
    """
    store, key = _place(url)
    with _errors(url):
        try:
            _obstore().put(store, key, data, mode="create")
        except _exceptions().AlreadyExistsError:
            return False
    return True


def listed(url: str) -> list[Found]:
    """All objects whose names begin with the URL and "/", in no order."""
    store, key = _place(url)
    found = []
    with _errors(url):
        for some in _obstore().list(store, prefix=key):
            for each in some:
                name = str(each["path"]).removeprefix(f"{key}/")
                found.append(Found(name, int(each["size"]), each["last_modified"].timestamp()))
    return found


def found(url: str) -> Found:
    """What there is of an object. Raises: FileNotFoundError if nothing."""
    store, key = _place(url)
    with _errors(url):
        told = _obstore().head(store, key)
    return Found(os.path.basename(key), int(told["size"]), told["last_modified"].timestamp())


def remove(url: str) -> None:
    """Delete an object that may be gone already, here too."""
    store, key = _place(url)
    with contextlib.suppress(FileNotFoundError), _errors(url):
        _obstore().delete(store, key)
    _forget(local(url))


def remove_some(url: str, names: Sequence[str]) -> None:
    """Delete objects below the URL that may be gone already, here too."""
    store, key = _place(url)
    if scheme_of(url) == "file":  # many at a time are S3's: here the first that is gone ends it
        for name in names:
            remove(f"{url}/{name}")
        return
    for start in range(0, len(names), _MOST_DELETED):
        some = names[start : start + _MOST_DELETED]
        with _errors(url):
            _obstore().delete(store, [f"{key}/{name}".lstrip("/") for name in some])
        for name in some:
            _forget(local(f"{url}/{name}"))


# ----------------------------------------------------------------------------------- the cache

#: Where objects of a URL are kept, if somebody has said that.
_caches: dict[str, str] = {}
_counted = threading.Lock()
_came_bytes = 0


def keep_in(url: str, directory: str) -> None:
    """Keep the objects of a URL in that directory of this machine."""
    _caches[url] = os.path.abspath(directory)


def cache_of(url: str) -> str:
    """The directory for objects of that URL: where somebody has said, or SQLVIEW_CACHE says, else
    the user's."""
    for known, directory in _caches.items():
        if url == known or url.startswith(f"{known}/"):
            return directory
    said = os.environ.get("SQLVIEW_CACHE")
    if said:
        return os.path.abspath(said)
    users = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(users, "sqlview")


def local(url: str) -> str:
    """Where an object is kept, or objects below it."""
    scheme, host, path = _parts(url)
    names = [quote(name, safe="") for name in (scheme, host or "-", *path.split("/")) if name]
    return os.path.join(cache_of(url), *names)


def temporary(url: str) -> str:
    """Where an object is made, or fetched; its directory is there, for its owner alone."""
    path = local(url)
    _make_directories(os.path.dirname(path))
    return f"{path}.{uuid.uuid4().hex[:12]}{_PART}"


def is_cached(url: str) -> bool:
    return os.path.exists(local(url))


def publish(file: str, url: str) -> None:
    """Put a complete file that was made at `temporary(url)`, and keep it."""
    store, key = _place(url)
    with _errors(url):
        _obstore().put(store, key, Path(file))
    _keep(file, url)


def fetched(url: str) -> str:
    """The path of an object in the cache, fetched if need be. Raises: FileNotFoundError if there is
    none, and what making a file raises."""
    path = local(url)
    try:
        os.utime(path)  # it is in use
        return path
    except FileNotFoundError:
        pass
    (store, key), part = _place(url), temporary(url)
    try:
        with _errors(url), open(part, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            got = _obstore().get(store, key)
            for piece in got.stream(min_chunk_size=_PIECE_BYTES):
                file.write(piece)
            if file.tell() != got.meta["size"]:
                raise OSError(errno.EIO, "it was not read as a whole", url)
        _keep(part, url)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(part)
        raise
    return path


def fetch(urls: Sequence[str]) -> None:
    """Have these objects in the cache, some fetched at a time. Raises: as `fetched`."""
    missing = [url for url in urls if not is_cached(url)]
    if len(missing) < 2:
        return  # whoever asks for it fetches it
    with ThreadPoolExecutor(min(_AT_A_TIME, len(missing)), "sqlview-fetch") as threads:
        for _ in threads.map(fetched, missing):
            pass


def tidy(url: str) -> None:
    """Let go of what the cache has of a URL and the server has no more, and of what was not used
    longest of all if the cache is too large. Whoever has mapped it goes on with it."""
    there, top = {each.name for each in listed(url)}, local(url)
    for path, size, used in _files(top):
        name = os.path.relpath(path, top)
        old = time.time() - used > _PART_SECONDS
        if old if name.endswith(_PART) else name not in there and size >= 0:
            _forget(path)
    trim(cache_of(url))


def trim(directory: str) -> None:
    """Have a cache no larger than it may be."""
    most = int(os.environ.get("SQLVIEW_CACHE_BYTES", CACHE_BYTES))
    every = sorted(_files(directory), key=lambda each: each[2])
    total = sum(size for _, size, _ in every)
    for path, size, _ in every:
        if total <= most:
            return
        _forget(path)
        total -= size


def _keep(file: str, url: str) -> None:
    global _came_bytes  # noqa: PLW0603 - of the process
    size = os.path.getsize(file)
    os.replace(file, local(url))
    most = int(os.environ.get("SQLVIEW_CACHE_BYTES", CACHE_BYTES))
    with _counted:
        _came_bytes += size
        full = _came_bytes > most // 16
        if full:
            _came_bytes = 0
    if full:
        trim(cache_of(url))


def _files(directory: str) -> Iterator[tuple[str, int, float]]:
    """Path, bytes and last use of each file below."""
    for top, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(top, name)
            with contextlib.suppress(FileNotFoundError):
                stat = os.stat(path)
                yield path, stat.st_size, stat.st_mtime


def _forget(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _make_directories(path: str) -> None:
    if not os.path.isdir(path):
        _make_directories(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


# ------------------------------------------------------------------------------------- obstore


def _parts(url: str) -> tuple[str, str, str]:
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError(f"{url!r} is no URL")
    return found[1].lower(), found[2], found[3].rstrip("/")


def _place(url: str) -> tuple[Any, str]:
    """What obstore calls a store, and the object's name in it."""
    scheme, host, path = _parts(url)
    settings = tuple((k, v) for k, v in os.environ.items() if k.startswith(_SETTINGS))
    with _errors(url):
        return _store(scheme, host, os.getpid(), settings), path


@functools.lru_cache(maxsize=16)
def _store(scheme: str, host: str, process: int, settings: tuple[tuple[str, str], ...]) -> Any:
    from obstore import store

    if scheme == "file":
        return store.LocalStore("/")
    patience: Any = {
        "max_retries": _RETRIES,
        "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
    }
    return store.from_url(f"{scheme}://{host}", retry_config=patience)


def _obstore() -> Any:
    import obstore

    return obstore


def _exceptions() -> Any:
    from obstore import exceptions

    return exceptions


@contextlib.contextmanager
def _errors(url: str) -> Iterator[None]:
    """What obstore raises, as OSError."""
    try:
        yield
    except FileNotFoundError as error:
        if _says(error, "NoSuchBucket"):
            raise _no_bucket(url) from error
        raise FileNotFoundError(errno.ENOENT, "There is no such object", url) from error
    except OSError:
        raise  # of this machine
    except Exception as error:
        if isinstance(error, (ImportError, _exceptions().AlreadyExistsError)):
            raise
        raise _refused(url, error) from error


def _says(error: Exception, *texts: str) -> bool:
    said = str(error)
    return any(text in said for text in texts)


def _no_bucket(url: str) -> ObjectError:
    scheme, host, _ = _parts(url)
    return ObjectError(
        f"There is no bucket {scheme}://{host}",
        url,
        "Make the bucket, or mend the URL. Endpoints of other servers than the provider's own are "
        "said by AWS_ENDPOINT_URL.",
    )


def _refused(url: str, error: Exception) -> ObjectError:
    kinds, said = _exceptions(), str(error).partition("\n")[0]
    denied = isinstance(error, (kinds.PermissionDeniedError, kinds.UnauthenticatedError))
    if _says(error, "NoSuchBucket"):
        return _no_bucket(url)
    if _says(error, *_NO_CREDENTIALS):
        return ObjectError(
            "There are no credentials",
            url,
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (GOOGLE_…), or give the "
            "machine a role; the executors of Spark need them too.",
        )
    if denied or _says(error, "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"):
        return ObjectError(
            f"The object store refuses: {said}",
            url,
            "Give credentials that may list, read, put and delete there.",
        )
    if isinstance(error, NotImplementedError) or _says(error, "NotImplemented", "501 "):
        return ObjectError(
            f"The object store cannot do this: {said}",
            url,
            "A store needs one that puts an object only where there is none (If-None-Match).",
        )
    if _says(error, "kind: Connect", "error sending request", "dns error", "timed out"):
        return ObjectError(
            f"The object store does not answer: {said}",
            url,
            "See that the network is there, and that AWS_ENDPOINT_URL is right if it is set; a "
            "server without TLS needs AWS_ALLOW_HTTP=true.",
        )
    return ObjectError(said, url, "Try again; if it stays so, ask whoever runs the object store.")
