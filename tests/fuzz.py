"""`python -m tests.fuzz --minutes M --seed S`: random queries over random change streams.

Runs the property of `tests/properties`, from seed S upwards, until M minutes are over, N pairs are
compared or C cases are done, and prints what it covered: pairs of a query and an epoch compared
with the oracle, how many of them had rows and changed, how often each SQL feature was used, and how
often the engine refused it. The first difference is cut down, printed as a script, and ends the run
with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.harness import Checked
from tests.properties.cases import Tally, fault, make, run, shrink
from tests.properties.features import FEATURES, SUPPORTED
from tests.reference.engine import BUGS, ReferenceSession


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="stop after so long (default: 1, or never)")
    parser.add_argument("--pairs", type=int, help="stop after so many (query, epoch) pairs")
    parser.add_argument("--cases", type=int, help="stop after so many cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=25, help="transactions in each case")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many differences")
    parser.add_argument("--private", action="store_true", help="do not share arrangements")
    parser.add_argument(
        "--features",
        type=_features,
        default=SUPPORTED,
        metavar="F,…",
        help="all, supported, none or a list, where -F leaves F out: " + ", ".join(FEATURES),
    )
    parser.add_argument(
        "--reference",
        metavar="BUG",
        choices=["none", *BUGS],
        help="run the reference engine instead, with a planted mistake or none",
    )
    options = parser.parse_args(arguments)
    minutes, failures = options.minutes, 0
    if minutes is None:
        minutes = float("inf") if options.pairs or options.cases else 1.0
    connect = _connector(options.reference, share=not options.private)
    deadline = time.monotonic() + 60 * minutes
    tally, seed = Tally(), options.seed
    while (
        time.monotonic() < deadline
        and failures < options.failures
        and (options.pairs is None or tally.pairs < options.pairs)
        and (options.cases is None or seed < options.seed + options.cases)
    ):
        case = make(seed, options.epochs, options.features)
        checked = connect()
        try:
            run(case, checked, tally)
        except Exception:
            failures += 1
            small = shrink(case, connect)
            found = fault(small, connect) or fault(case, connect)
            if found is None:
                print(f"seed {seed} failed, but not when run again", file=sys.stderr)
            else:
                error, script = found
                print(f"seed {seed} fails; cut down to:\n{script}\n{type(error).__name__}: {error}")
        finally:
            checked.close()
        seed += 1
    print(report(tally, options.seed, seed, failures))
    return 1 if failures else 0


def report(tally: Tally, first: int, end: int, failures: int = 0) -> str:
    """What a run covered, as text."""
    pairs = max(tally.pairs, 1)
    without = "without a difference" if not failures else f"{failures} of them with a difference"
    lines = [
        f"seeds {first} to {end - 1}: {end - first} cases, {without}",
        f"(query, epoch) pairs compared   {tally.pairs:>9,}",
        f"  with rows                     {tally.nonempty:>9,}  {tally.nonempty / pairs:6.1%}",
        f"  changing                      {tally.changed:>9,}  {tally.changed / pairs:6.1%}",
        f"  with rows and changing        {tally.lively:>9,}  {tally.lively / pairs:6.1%}",
        f"  in error                      {tally.errors:>9,}  {tally.errors / pairs:6.1%}",
        f"views                           {tally.views:>9,}",
        f"  refused, and not counted      {tally.refused:>9,}",
        "uses of each SQL feature              in views  in refused",
    ]
    lines += [
        f"  {name:<36}{tally.features.get(name, 0):>8,}{tally.refused_features.get(name, 0):>12,}"
        for name in sorted(tally.features.keys() | tally.refused_features.keys())
    ]
    if tally.reasons:
        lines.append("reasons to refuse")
        ranked = sorted(tally.reasons.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  {count:>6,}  {reason}" for reason, count in ranked]
    return "\n".join(lines)


def _features(text: str) -> tuple[str, ...]:
    """all, supported, none, or names with commas between them; -name leaves one out."""
    sets = {"all": FEATURES, "supported": SUPPORTED, "none": ()}
    chosen: list[str] = []
    for part in text.split(","):
        name = part.strip()
        if name in sets:
            chosen += sets[name]
        elif name.removeprefix("-") not in FEATURES:
            raise argparse.ArgumentTypeError(f"there is no feature {name!r}")
        elif name.startswith("-"):
            chosen = [c for c in chosen or SUPPORTED if c != name[1:]]
        else:
            chosen.append(name)
    return tuple(dict.fromkeys(chosen))


def _connector(reference: str | None, share: bool) -> Callable[[], Checked]:
    if reference is not None:
        bug = None if reference == "none" else reference
        return lambda: Checked(ReferenceSession(bug), form="mixed")
    import sqlview

    return lambda: Checked(sqlview.connect(placement="inline", share=share), form="mixed")


if __name__ == "__main__":
    sys.exit(main())
