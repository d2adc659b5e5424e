"""`python -m tests.store [--kills N] [--streams N]`: stores whose disk, process or machine fails,
anywhere, and streaming queries that are killed and go on.

Exit code 1 if anything was lost, doubled or left behind.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.store.faults import call, kill, quiet
from tests.store.life import MODES
from tests.store.streams import Streamed

#: Calls that fail, each in a life of its own, between two lines of progress.
_AT_A_TIME = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="processes that are killed")
    parser.add_argument("--streams", type=int, default=10, help="streaming queries that are killed")
    parser.add_argument(
        "--modes", nargs="*", choices=MODES, default=MODES, help="how every call fails, in turn"
    )
    parser.add_argument("--processes", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started, wrong = time.monotonic(), 0

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {text}", flush=True)

    # Not forked: the engine has threads.
    with multiprocessing.get_context("spawn").Pool(options.processes, quiet) as pool:
        for mode in options.modes:
            for first in itertools.count(1, _AT_A_TIME):
                calls = range(first, first + _AT_A_TIME)
                found = pool.starmap(call, [(mode, at) for at in calls], chunksize=1)
                for at, (_, difference) in zip(calls, found, strict=True):
                    if difference is not None:
                        wrong += 1
                        say(f"{mode} at call {at}: {difference}")
                tried = sum(there for there, _ in found)
                say(f"{mode}: {first - 1 + tried:,} calls, {wrong} wrong")
                if tried < _AT_A_TIME:
                    break
        seeds = range(options.seed, options.seed + options.kills)
        for done, difference in enumerate(pool.imap_unordered(kill, seeds), 1):
            if difference is not None:
                wrong += 1
                say(difference)
            if done % _AT_A_TIME == 0 or done == options.kills:
                say(f"kill -9: {done:,} writers, three times each, {wrong} wrong")
    for text in _streams(options.streams, options.seed):
        wrong += text.startswith("wrong")
        say(text)
    return 1 if wrong else 0


def _streams(count: int, seed: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        try:
            streamed = Streamed(Path(directory), seed)
            for number in range(1, count + 1):
                yield f"streams: {number} killed, {streamed.killed()} batches taken, each once"
            if count:
                yield f"streams: {streamed.finished()} batches taken in the end, each once"
        except AssertionError as error:
            yield f"wrong: a stream: {error}"


if __name__ == "__main__":
    sys.exit(main())
