"""`python -m tests.mutation`: plants each mistake in a copy of the sources and sets the nets on it.

Prints a table: each mistake, the net that found it, and how many cases and (view, epoch) pairs that
took. Exit code 1 if one is not found, or if the nets find something in the sources as they are,
which are tried first.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutation.planted import PLANTED, ROOT, Planted
from tests.properties.cases import make

_COPIED = ("planner", "operators", "sqlview", "tpch", "tests", "pyproject.toml")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--cases", type=int, default=60, help="random cases for each mistake")
    parser.add_argument("--epochs", type=int, default=14, help="transactions in each case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="NAME,…")
    parser.add_argument("--output", type=Path, metavar="FILE", help="one line of JSON each")
    options = parser.parse_args(arguments)
    chosen: list[Planted | None] = [
        p for p in PLANTED if options.only is None or p.name in options.only
    ]
    with tempfile.TemporaryDirectory(prefix="sqlview-mutation-") as directory:
        cases = Path(directory) / "cases"
        seeds = range(options.seed, options.seed + options.cases)
        cases.write_bytes(pickle.dumps([make(seed, options.epochs) for seed in seeds]))
        missed = 0
        with ThreadPoolExecutor(options.processes) as pool:
            tried = [None, *chosen] if options.only is None else chosen
            found = pool.map(lambda p: _hunted(p, Path(directory), cases), tried)
            for planted, result in zip(tried, found, strict=True):
                missed += (result["net"] is None) == (planted is not None)
                name = "(nothing planted)" if planted is None else planted.name
                where = result["net"] or "not found"
                counts = f"{result['cases']:>5} cases {result['pairs']:>7,} pairs"
                print(f"{name:<26}{where:<16}{counts}  {result['found'][:90]}", flush=True)
                if options.output is not None:
                    with options.output.open("a") as kept:
                        kept.write(json.dumps({"planted": name, **result}) + "\n")
    print(f"{len(chosen)} planted, {missed} not as they should be")
    return 1 if missed else 0


def _hunted(planted: Planted | None, directory: Path, cases: Path) -> dict[str, object]:
    root = Path(tempfile.mkdtemp(dir=directory))
    try:
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, root / name)  # with compiled kernels, by their times
            else:
                shutil.copy2(source, root / name)
        if planted is not None:
            planted.plant(root)
        command = [sys.executable, "-m", "tests.mutation.hunt", str(cases)]
        run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if run.returncode:
            # It does not even start: found, if not by a net.
            said = (run.stderr.splitlines() or [f"exit code {run.returncode}"])[-1]
            return {"net": "start", "cases": 0, "pairs": 0, "found": said}
        result: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
        return result
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
