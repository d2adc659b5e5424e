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

from tests.store.faults import error, kill, quiet, served_life, stopped, stops
from tests.store.life import states
from tests.store.streams import Streamed

_FAILURES = ("stops", "errors", "objects")
#: How many are tried between two lines of progress.
_AT_A_TIME = 100
#: So many writers of one store are killed, one after the other.
_KILLS = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="processes that are killed")
    parser.add_argument("--streams", type=int, default=10, help="streaming queries that are killed")
    parser.add_argument(
        "--only", nargs="*", choices=_FAILURES, default=_FAILURES,
        help="errors: every call of a life fails; stops: the process stops there, in the middle of"
        " its writing, or the machine with all that was not synced; objects: both, of a store at a"
        " URL, and a whole life on a server",
    )  # fmt: skip
    parser.add_argument("--processes", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started, wrong = time.monotonic(), 0

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {text}", flush=True)

    quiet()
    if options.only:
        count = len(states(verified=True))
        say(f"what is expected: {count} states, as DuckDB has them")
    # Not forked: the engine has threads.
    with multiprocessing.get_context("spawn").Pool(options.processes, quiet) as pool:
        for remote in (False, True):
            if ("objects" if remote else "stops") not in options.only:
                continue
            found = stops(remote=remote)
            times = sum(len(stop.times) for stop in found)
            say(f"stops: {times:,} times, which leave {len(found):,} different stores")
            for done, differences in enumerate(pool.imap_unordered(stopped, found), 1):
                for text in differences:
                    wrong += 1
                    say(text)
                if done % _AT_A_TIME == 0 or done == len(found):
                    say(f"stops: {done:,} stores, {wrong} wrong")
        for late in (None, False, True):
            if ("errors" if late is None else "objects") not in options.only:
                continue
            tried, left = 0, {False, True}
            for at in itertools.count(1):
                for second, (failures, difference) in zip(
                    sorted(left),
                    pool.starmap(error, [(at, second, late) for second in sorted(left)]),
                    strict=True,
                ):
                    tried += failures
                    if not failures:
                        left.remove(second)
                    if difference is not None:
                        wrong += 1
                        say(difference)
                if not at % _AT_A_TIME or not left:
                    say(f"errors: {tried:,} calls, {wrong} wrong")
                if not left:
                    break
    if "objects" in options.only:
        say(f"objects: {served_life()} operations on a server")
    killed = said = 0
    while killed < options.kills:
        kills = min(_KILLS, options.kills - killed)
        operations, difference = kill(options.seed + killed, kills)
        killed, said = killed + kills, said + operations
        if difference is not None:
            wrong += 1
            say(difference)
        if not killed % _AT_A_TIME or killed == options.kills:
            say(f"kill -9: {killed:,} writers, which said {said:,} operations, {wrong} wrong")
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
