"""Where compiled kernels are kept: in the user's cache, by what they were made of.

numba by itself keeps a kernel beside its module, and compiles it anew when the text of that module
has changed. The helpers and constants of other modules, which become a part of the kernel, it does
not look at: a newer version of this library would go on with parts of the older one. So a directory
here is named by the texts of the module and of those that it imports, and by the versions of numba
and llvmlite; numba itself tells processors and versions of Python apart. Environments share what is
the same in them.

Kernels that nobody uses any more stay, some five megabytes for each version of all; the directory
may be deleted at any time.

An installation may bring kernels along, in `compiled` beside this module, put there by
`python -m operators.kernels --portable`: compiled for what nearly all processors of a kind can do
(`_PORTABLE`), so that a machine that never compiled any need not begin with it. They are used where
the user's cache has none, by processors that can run them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pkgutil
import platform
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import llvmlite
import llvmlite.binding
import numba
from numba.core import caching

_PACKAGE = "operators.kernels"
_IMPORT = re.compile(r"^from operators\.kernels\.(\w+) import", re.MULTILINE)
_NAME_LENGTH = 16
#: Kernels that came with the installation.
COMPILED = Path(__file__).parent / "compiled"
#: By the kind of machine: the processor that `compiled` is for, as LLVM calls it, and what one has
#: to have for that beyond what all of its kind have.
_PORTABLE: Final = {
    "x86_64": (
        "x86-64-v3",
        ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2"),
    ),
    "aarch64": ("generic", ()),
    "arm64": ("generic", ()),
}


@functools.cache
def text_of(module: str) -> bytes:
    """The text of a module of kernels, from a directory or an archive."""
    return pkgutil.get_data(_PACKAGE, f"{module}.py") or b""


def parts_of(module: str) -> list[str]:
    """A module of kernels and all those that it imports, directly or not, by name."""
    found, left = {module}, [module]
    while left:
        new = {*_IMPORT.findall(text_of(left.pop()).decode())} - found
        found |= new
        left += new
    return sorted(found)


@functools.cache
def digest_of(module: str) -> str:
    """Which kernels a module makes."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for part in parts_of(module):
        text = text_of(part)
        digest.update(f" {part} {len(text)} ".encode() + text)
    return digest.hexdigest()


@functools.cache
def directory_of(module: str) -> str | None:
    """A directory for a module's kernels that can be written to; None if there is none.

    It is in `$NUMBA_CACHE_DIR` where that is set; else in the user's cache, unless others might
    have put something there, since what numba reads is a program; else beside the modules, or where
    files are that need not stay.
    """
    name = _name_of(module)
    for place, is_ours in _places():
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_ours and not _is_own(place):
                continue
            path = place / name
            path.mkdir(exist_ok=True)
            if os.access(path, os.W_OK | os.X_OK):
                return str(path)
        except OSError:
            continue
    return None


def _places() -> Iterator[tuple[Path, bool]]:
    """Where directories may be; and whether only this user may write there."""
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR), False
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if os.path.isabs(cache) else Path(os.path.expanduser("~"), ".cache")
    if base.is_absolute():
        yield base / "sqlview" / "kernels", True
    yield Path(__file__).parent / "__pycache__", False
    if os.name == "posix":  # elsewhere nothing says whose a directory is
        yield Path(tempfile.gettempdir()) / f"sqlview-kernels-{os.getuid()}", True


def _name_of(module: str) -> str:
    return f"{module}-{digest_of(module)[:_NAME_LENGTH]}"


def portable_processor() -> str | None:
    """What kernels of an installation are compiled for; None for an unknown kind of machine."""
    found = _PORTABLE.get(platform.machine())
    return None if found is None else found[0]


@functools.cache
def _runs_portable() -> bool:
    """Whether this processor can."""
    found = _PORTABLE.get(platform.machine())
    if found is None:
        return False
    has = llvmlite.binding.get_host_cpu_features() if found[1] else {}
    return all(has.get(feature, False) for feature in found[1])


def _is_own(path: Path) -> bool:
    if os.name != "posix":
        return True
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


class _Locator(caching._CacheLocator):
    """What numba asks for a kernel's place."""

    def __init__(self, path: str, module: str, line: int) -> None:
        self._path = path
        self._module = module
        self._line = line

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return digest_of(self._module)

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator | None:
        module = py_func.__module__.rpartition(".")[2]
        path = directory_of(module)
        return None if path is None else cls(path, module, py_func.__code__.co_firstlineno)


class _Kept(caching.CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class KernelCache(caching.FunctionCache):
    """numba's cache of one kernel, and what the installation brought along."""

    _impl_class = _Kept

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        module = function.__module__.rpartition(".")[2]
        path = COMPILED / _name_of(module)
        self._brought = caching.IndexDataCacheFile(
            str(path), self._impl.filename_base, digest_of(module)
        )

    def has(self, signatures: Sequence[tuple[Any, ...]], target: Any) -> bool:
        """Whether code for all `signatures` is there that this processor can run."""
        there, codegen = self._cache_file._load_index(), target.codegen()
        if all(self._index_key(s, codegen) in there for s in signatures):
            return True
        if not _runs_portable():
            return False
        there = self._brought._load_index()
        return bool(there) and all(self._portable_key(s, codegen) in there for s in signatures)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        if found is None and _runs_portable():
            data = self._brought.load(self._portable_key(sig, target_context.codegen()))
            if data is not None:
                found = self._impl.rebuild(target_context, data)
        return found

    def _portable_key(self, signature: Any, codegen: Any) -> Any:
        """As where NUMBA_CPU_NAME and NUMBA_CPU_FEATURES say so."""
        signature, (triple, *_), code = self._index_key(signature, codegen)
        return signature, (triple, portable_processor(), ""), code
