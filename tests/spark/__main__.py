"""`python -m tests.spark [--kills N]`: tasks, executors and drivers are killed at every phase of
loads, of the creation of views and of large steps.

Exit code 1 if anything was lost, doubled or left behind.
"""

from __future__ import annotations

import argparse
import sys

from tests.spark.kills import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.spark", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="how many are killed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(1 if main(options.kills, options.seed) else 0)
