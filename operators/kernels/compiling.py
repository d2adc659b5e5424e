"""`python -m operators.kernels [--portable]`: compile all kernels, on all cores of this machine.

Importing a module of kernels compiles those that the cache lacks, one after the other. Here
each process imports modules of its own, so that whoever imports them afterwards finds them in the
cache; what several modules need may be compiled twice. With a warm cache it takes a second.

With `--portable` they go into the installation itself, compiled for other machines too (`cache`):
packed environments, images and wheels that are made of it have them then.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from rich.progress import track

import operators.kernels
from operators.kernels.cache import COMPILED, portable_processor

#: Modules that take long come first, and those that others need before them.
_FIRST = ("sorting", "grouping", "memory", "spines", "lookup", "fronts", "exact", "scalar")


def modules() -> list[str]:
    """All modules of kernels, in the order in which they are handed out."""
    found = {m.name for m in pkgutil.iter_modules(operators.kernels.__path__)} - {
        "__main__",
        "compiling",
    }
    return [*_FIRST, *sorted(found.difference(_FIRST))]


def compile_module(name: str) -> str:
    importlib.import_module(f"operators.kernels.{name}")
    return name


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m operators.kernels", description=__doc__)
    parser.add_argument(
        "--portable", action="store_true",
        help="into the installation, for other machines of this kind too",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    if given.portable:
        processor = portable_processor()
        if processor is None:
            parser.error("kernels for other machines are made on x86-64 and ARM")
        if not os.access(COMPILED.parent, os.W_OK):
            parser.error(f"{COMPILED.parent} cannot be written to")
        os.environ |= {
            "NUMBA_CACHE_DIR": str(COMPILED),
            "NUMBA_CPU_NAME": processor,
            "NUMBA_CPU_FEATURES": "",
        }
    # Spawned: a fork of a process that has threads may hang.
    pool = ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn"))
    with pool:
        jobs = [pool.submit(compile_module, name) for name in modules()]
        quiet = bool(os.environ.get("CI")) or not sys.stderr.isatty()
        done = track(as_completed(jobs), "Compiling kernels", len(jobs), disable=quiet)
        for job in done:
            job.result()
    return 0
