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

from tests.store.faults import error, kill, quiet, stopped, stops
from tests.store.streams import Streamed

_FAILURES = ("stops", "errors")
#: How many are tried between two lines of progress.
_AT_A_TIME = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="processes that are killed")
    parser.add_argument("--streams", type=int, default=10, help="streaming queries that are killed")
    parser.add_argument(
        "--only", nargs="*", choices=_FAILURES, default=_FAILURES,
        help="errors: every call of a life fails; stops: the process stops there, in the middle of"
        " its writing, or the machine with all that was not synced",
    )  # fmt: skip
    parser.add_argument("--processes", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started, wrong = time.monotonic(), 0

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {text}", flush=True)

    # Not forked: the engine has threads.
    with multiprocessing.get_context("spawn").Pool(options.processes, quiet) as pool:
        if "stops" in options.only:
            found = stops()
            times = sum(len(stop.times) for stop in found)
            say(f"stops: {times:,} times, which leave {len(found):,} different stores")
            for done, differences in enumerate(pool.imap_unordered(stopped, found), 1):
                for text in differences:
                    wrong += 1
                    say(text)
                if done % _AT_A_TIME == 0 or done == len(found):
                    say(f"stops: {done:,} stores, {wrong} wrong")
        if "errors" in options.only:
            for first in itertools.count(1, _AT_A_TIME):
                tried = 0
                for there, difference in pool.imap(error, range(first, first + _AT_A_TIME)):
                    tried += there
                    if difference is not None:
                        wrong += 1
                        say(difference)
                say(f"errors: {first - 1 + tried:,} calls, {wrong} wrong")
                if tried < _AT_A_TIME:
                    break
        seeds = range(options.seed, options.seed + options.kills)
        for done, killing in enumerate(pool.imap_unordered(kill, seeds), 1):
            if killing is not None:
                wrong += 1
                say(killing)
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
