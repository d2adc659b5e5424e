"""`python -m tests.faults [--stride N]`: faults at every N-th call of a session, see faults.py."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.faults.faults import MODES, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--start", type=int, default=1)
    parser.add_argument("--stride", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # what is taken up later says so
    wrong = 0
    for mode in options.mode or MODES:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            try:
                tried = run(Path(directory) / "store", mode, options.start, options.stride)
                said = f"{sum(tried.values())} faults: {dict(tried)}"
            except AssertionError:
                wrong += 1
                said = traceback.format_exc()
        print(f"{time.monotonic() - started:6.0f} s  {mode}: {said}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
