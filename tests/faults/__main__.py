"""`python -m tests.faults [--stride N] [--interrupts N]`: faults at every N-th call of a session,
and interrupts at one in N, see faults.py."""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.faults.faults import MODES, PAIRS, run
from tests.store.disk import in_memory


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--start", type=int, default=1)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument(
        "--interrupts", type=int, default=40, metavar="N", help="Ctrl-C at one call in N, at random"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # what is taken up later says so
    in_memory()
    wrong, started = 0, time.monotonic()
    for mode in options.mode or MODES:
        interrupts = mode == "interrupt"
        rng = random.Random(options.seed) if interrupts else None
        stride = options.interrupts if interrupts else options.stride
        for name in PAIRS:
            with tempfile.TemporaryDirectory() as directory:
                try:
                    path = Path(directory) / "store"
                    tried = run(path, mode, options.start, stride, [name], rng)
                    said = f"{tried[name]:,} faults, nothing wrong"
                except AssertionError:
                    wrong += 1
                    said = traceback.format_exc()
            print(f"{time.monotonic() - started:6.0f} s  {mode}, {name}: {said}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
