"""The project's one decorator for numba kernels.

Kernels take arrays and scalars only, release the GIL, and are kept on disk (`cache`). No fastmath:
results must not depend on the machine. With NUMBA_DISABLE_JIT=1 they run as plain Python, where
64-bit arithmetic wraps silently too.

`@kernel(signatures=…)` compiles for the types given and for no others: when the module is imported,
or, where the cache has it, loads it when it is first called, some 5 ms. An input declared read-only
takes both sorts of array, an output has to be writable. A bare `@kernel` is a helper: it is
compiled for the kernels that call it, once for each combination of argument types, and cannot be
called from Python. The constant 0 and an int32 are the type int64 to it, but a read-only array is
another type than a writable one.

Every function costs some 50 ms to compile, and its code is optimised again in each kernel that
calls it. So a kernel passes no arrays of both sorts to one helper, assigns no array to a slice
(numba compiles the text of the error that it may raise, half a second), and calls no large kernel:
Python does.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

import numba
import numpy as np
from numba import types

from operators.kernels.cache import KernelCache

F = TypeVar("F", bound=Callable[..., Any])

INT64, BOOL = types.int64, types.boolean
#: Contiguous inputs, read-only or not.
INTS, FLOATS, BOOLS, INT32S, BYTES = (
    types.Array(dtype, 1, "C", readonly=True)
    for dtype in (types.int64, types.float64, types.boolean, types.int32, types.uint8)
)
INTS2 = types.Array(types.int64, 2, "C", readonly=True)
#: Contiguous outputs.
INTS_OUT, BOOLS_OUT, INT32S_OUT, BYTES_OUT = (
    types.Array(dtype, 1, "C") for dtype in (types.int64, types.boolean, types.int32, types.uint8)
)
FLOATS_OUT = types.Array(types.float64, 1, "C")
INTS2_OUT, BOOLS2_OUT = (types.Array(dtype, 2, "C") for dtype in (types.int64, types.boolean))


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(*, signatures: Sequence[tuple[Any, ...]]) -> Callable[[F], F]: ...
def kernel(
    function: F | None = None, *, signatures: Sequence[tuple[Any, ...]] | None = None
) -> F | Callable[[F], F]:
    """Compile: nopython, nogil, cached, no bounds checks, NumPy's rules for division."""
    if function is None:
        return lambda f: _compile(f, signatures)
    return _compile(function, None)


def _compile(function: F, signatures: Sequence[tuple[Any, ...]] | None) -> F:
    if numba.config.DISABLE_JIT:
        return _interpreted(function)
    options = {"fastmath": False, "boundscheck": False, "no_cfunc_wrapper": True}
    if signatures:
        compiled: Any = numba.njit(error_model="numpy", nogil=True, **options)(function)
        compiled._cache = KernelCache(function)
        if compiled._cache.has(signatures, compiled.targetctx):
            _wait(compiled, signatures)
        else:
            _load(compiled, signatures)
        return compiled  # type: ignore[no-any-return]
    return _helper(numba.njit(error_model="numpy", no_cpython_wrapper=True, **options)(function))


def _load(compiled: Any, signatures: Sequence[tuple[Any, ...]]) -> None:
    """Have the code for the signatures, and for no others."""
    with _without_collections():
        for signature in signatures:
            compiled.compile(signature)
    compiled.disable_compile()


#: Kernels that wait for their first call.
_WAITING: dict[Any, Callable[[], None]] = {}
_LOADING = threading.RLock()


def _wait(compiled: Any, signatures: Sequence[tuple[Any, ...]]) -> None:
    """Load the code when the kernel is first called, or first used by another one."""
    template = compiled.get_call_template

    def load() -> None:
        with _LOADING:
            if _WAITING.pop(compiled, None) is not None:
                compiled.get_call_template = template
                _load(compiled, signatures)

    def called(*args: Any, **kws: Any) -> Any:
        # What numba calls for types that it has no code for; it calls what this returns.
        load()
        given = [numba.typeof(a) for a in args]
        convert = compiled.typingctx.can_convert
        for result in compiled.overloads.values():
            if all(convert(a, b) is not None for a, b in zip(given, result.signature.args)):
                return result.entry_point
        raise TypeError(f"no matching definition of {compiled.py_func.__name__} for {given}")

    def used(args: Sequence[Any], kws: Any) -> Any:
        load()
        return template(args, kws)

    compiled._compile_for_args, compiled.get_call_template = called, used
    _WAITING[compiled] = load


def load_all() -> None:
    """Load all kernels that were imported, for processes that are forked from this one."""
    for load in list(_WAITING.values()):
        load()


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Leave garbage for later: looking for it is a tenth of the time that compiling takes."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _helper(compiled: Any) -> Any:
    """Have a helper compiled for the general type of each argument, and for other kernels only."""
    resolve = compiled.get_call_template

    def general(args: Sequence[Any], kws: Any) -> Any:
        return resolve([_general(types.unliteral(a)) for a in args], kws)

    def refuse(*args: Any, **kws: Any) -> Any:
        raise TypeError(
            f"{compiled.py_func.__name__} is a helper of kernels: it cannot be called from Python"
        )

    compiled.get_call_template = general
    # Without a wrapper there is nothing that Python could call: a call would be lost.
    compiled._insert = lambda *args, **kws: None
    compiled._compile_for_args = refuse
    return compiled


def _general(kind: Any) -> Any:
    """int64 for smaller signed integers, any other type as it is."""
    small = isinstance(kind, types.Integer) and kind.signed and kind.bitwidth < 64
    return types.int64 if small else kind


def _interpreted(function: F) -> F:
    @functools.wraps(function)
    def wrapping(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return wrapping  # type: ignore[return-value]
