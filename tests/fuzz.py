"""`python -m tests.fuzz --minutes M --seed S`: random queries over random change streams.

Runs the property of `tests/properties` for a time, from seed S upwards, and prints what it covered:
pairs of a query and an epoch compared with the oracle, how many of them had rows and changed, and
how often each SQL feature was used. The first difference is cut down, printed as a script, and
ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.harness import Checked
from tests.properties.cases import Tally, fault, make, run, shrink
from tests.reference.engine import BUGS, ReferenceSession


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=25, help="transactions in each case")
    parser.add_argument("--cases", type=int, help="stop after so many cases")
    parser.add_argument("--private", action="store_true", help="do not share arrangements")
    parser.add_argument(
        "--reference",
        metavar="BUG",
        choices=["none", *BUGS],
        help="run the reference engine instead, with a planted mistake or none",
    )
    options = parser.parse_args(arguments)
    connect = _connector(options.reference, share=not options.private)
    deadline = time.monotonic() + 60 * options.minutes
    tally, seed = Tally(), options.seed
    while time.monotonic() < deadline and (
        options.cases is None or seed < options.seed + options.cases
    ):
        case = make(seed, options.epochs)
        checked = connect()
        try:
            run(case, checked, tally)
        except Exception:
            checked.close()
            small = shrink(case, connect)
            found = fault(small, connect) or fault(case, connect)
            if found is None:
                print(f"seed {seed} failed, but not when run again", file=sys.stderr)
            else:
                error, script = found
                print(f"seed {seed} fails; cut down to:\n{script}\n{type(error).__name__}: {error}")
            return 1
        checked.close()
        seed += 1
    print(report(tally, options.seed, seed))
    return 0


def report(tally: Tally, first: int, end: int) -> str:
    """What a run covered, as text."""
    pairs = max(tally.pairs, 1)
    lines = [
        f"seeds {first} to {end - 1}: {end - first} cases without a difference",
        f"(query, epoch) pairs compared   {tally.pairs:>9,}",
        f"  with rows                     {tally.nonempty:>9,}  {tally.nonempty / pairs:6.1%}",
        f"  changing                      {tally.changed:>9,}  {tally.changed / pairs:6.1%}",
        f"  with rows and changing        {tally.lively:>9,}  {tally.lively / pairs:6.1%}",
        "uses of each SQL feature",
    ]
    lines += [f"  {name:<30}{count:>9,}" for name, count in sorted(tally.features.items())]
    return "\n".join(lines)


def _connector(reference: str | None, share: bool) -> Callable[[], Checked]:
    if reference is not None:
        bug = None if reference == "none" else reference
        return lambda: Checked(ReferenceSession(bug), form="mixed")
    import sqlview

    return lambda: Checked(sqlview.connect(placement="inline", share=share), form="mixed")


if __name__ == "__main__":
    sys.exit(main())
