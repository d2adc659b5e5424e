"""`python -m tests.store [--kills N] [--streams N]`: stores whose disk, process or machine fails,
anywhere, and streaming queries that are killed and go on."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.store.kills import killed
from tests.store.life import MODES, run, states
from tests.store.streams import Streamed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="processes that are killed")
    parser.add_argument("--streams", type=int, default=10, help="streaming queries that are killed")
    parser.add_argument(
        "--calls", action=argparse.BooleanOptionalAction, default=True, help="fail at every call"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started, tried, wrong = time.monotonic(), Counter[str](), 0
    expected = states()
    for mode in MODES if options.calls else ():
        at, there = 1, True
        while there:
            with tempfile.TemporaryDirectory() as directory:
                try:
                    there = run(Path(directory), mode, at, expected)
                except AssertionError as error:
                    wrong += 1
                    print(f"{mode} at call {at}: {error}", flush=True)
            tried[mode] += there
            at += 1
        print(f"{time.monotonic() - started:6.0f} s  {mode}: {tried[mode]} calls", flush=True)
    for number in range(options.kills):
        with tempfile.TemporaryDirectory() as directory:
            try:
                tried["kill -9"] += killed(Path(directory), options.seed + number)
            except AssertionError as error:
                wrong += 1
                print(f"kill {number}: {error}", flush=True)
    print(f"{time.monotonic() - started:6.0f} s  killed: {tried['kill -9']} processes", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        try:
            streamed = Streamed(Path(directory), options.seed)
            for _ in range(options.streams):
                streamed.killed()
                tried["streams"] += 1
            taken = streamed.finished() if options.streams else 0
            print(f"{time.monotonic() - started:6.0f} s  {taken} batches of streams taken once")
        except AssertionError as error:
            wrong += 1
            print(f"kill of stream {tried['streams']}: {error}", flush=True)
    print(", ".join(f"{mode} {n}" for mode, n in tried.items()), f"- {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
