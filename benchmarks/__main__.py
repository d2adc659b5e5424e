"""All benchmarks, one after the other: python -m benchmarks

Each runs in a process of its own with its own defaults, writes its result file and its chart into
benchmarks/results, and BENCHMARKS.md is written from them. One that fails does not stop the others;
what it had written before stays. --quick runs the smallest of each, into build/benchmarks, and
leaves BENCHMARKS.md alone. It takes about an hour on two cores that have nothing else to do.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import common, report

#: Those that are no module of their own name.
_MODULES = {"differential": ("benchmarks.compare", "--peer", "differential")}
#: Those that take no --data.
_WITHOUT_DATA = ("arrangements", "commits", "flatness", "lookups", "recursion", "cycles")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = list(report.BENCHMARKS)
    parser.add_argument(
        "--only", choices=names, nargs="+", default=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--quick", action="store_true", help="the smallest run of each")
    parser.add_argument(
        "--data", type=Path, metavar="DIRECTORY", help="where generated data is kept"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIRECTORY",
        help="where results go (benchmarks/results, with --quick build/benchmarks)",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    out = given.out or (common.DEFAULT_OUT if given.quick else report.RESULTS)
    failed: list[str] = []
    started = time.monotonic()
    for place, name in enumerate(given.only, 1):
        print(
            f"==> {name} ({place} of {len(given.only)}, {_minutes(started)})",
            file=sys.stderr,
            flush=True,
        )
        module = _MODULES.get(name, (f"benchmarks.{name}",))
        command = [sys.executable, "-m", *module, "--out", str(out)]
        if given.quick:
            command.append("--quick")
        if given.data is not None and name not in _WITHOUT_DATA:
            command += ["--data", str(given.data)]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if not given.quick and given.out is None:
        failed += ["report"] * report.main([])
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    print(f"==> done in {_minutes(started)}", file=sys.stderr)
    return 1 if failed else 0


def _minutes(started: float) -> str:
    return f"{(time.monotonic() - started) / 60:.1f} min"


if __name__ == "__main__":
    raise SystemExit(main())
