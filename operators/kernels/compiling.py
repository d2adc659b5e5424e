"""`python -m operators.kernels`: compile all kernels for this machine, on all its cores.

Importing a module of kernels compiles those that the cache lacks, one after the other. Here
each process imports modules of its own, so that whoever imports them afterwards finds them in the
cache; what several modules need may be compiled twice. With a warm cache it takes a second.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from rich.progress import track

import operators.kernels

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


def main() -> int:
    # Spawned: a fork of a process that has threads may hang.
    pool = ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn"))
    with pool:
        jobs = [pool.submit(compile_module, name) for name in modules()]
        quiet = bool(os.environ.get("CI")) or not sys.stderr.isatty()
        done = track(as_completed(jobs), "Compiling kernels", len(jobs), disable=quiet)
        for job in done:
            job.result()
    return 0
