"""`python -m tests.recursion --seeds N`: prints how many pairs of view and epoch were compared."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.recursion.run import TOGETHER, check


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=150)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    counts: Counter[str] = Counter()
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        try:
            with tempfile.TemporaryDirectory() as directory:
                check(seed, counts, None if seed % 3 else Path(directory) / "store")
        except BaseException:
            print(f"in seed {seed}:", file=sys.stderr)
            raise
    together = counts.pop(TOGETHER, 0)
    for form, pairs in sorted(counts.items()):
        print(f"{pairs:7} {form}")
    print(f"{sum(counts.values()):7} pairs of a view and an epoch, all equal")
    print(f"{together:7} {TOGETHER}")


if __name__ == "__main__":
    main()
