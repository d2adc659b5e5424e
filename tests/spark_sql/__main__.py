"""`python -m tests.spark_sql`: the queries of Spark's own SQL suite as views, compared with the
answers that Spark recorded, before and after rows of their tables leave and come back.

Prints how many are maintained, and how many are refused for which reason. Exit code 1 if a view was
wrong; 2 if the suite cannot be had.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.spark_artifact import Missing
from tests.spark_sql.run import Kind, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark_sql", description=__doc__)
    parser.add_argument("--files", nargs="*", help="their names, as subquery/in-subquery/in-basic")
    parser.add_argument("--reasons", type=int, default=40, help="how many of them are printed")
    parser.add_argument("--show", choices=[k.name.lower() for k in Kind], help="each of this kind")
    given = parser.parse_args()
    try:
        outcomes = run(given.files, lambda text: print(text, file=sys.stderr))
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    for outcome in outcomes:
        if outcome.kind is Kind.WRONG or outcome.kind.name.lower() == given.show:
            print(f"{outcome.file}: {outcome.query}\n    {outcome.kind.value}: {outcome.detail}")
    reasons = Counter(o.reason for o in outcomes if o.kind is Kind.REFUSED)
    for reason, count in reasons.most_common(given.reasons):
        print(f"{count:6}  {reason}")
    counts = Counter(o.kind for o in outcomes)
    print(f"{len(outcomes):,} queries of {len({o.file for o in outcomes})} files:")
    for kind in Kind:
        print(f"{counts[kind]:6}  {kind.value}")
    return 1 if counts[Kind.WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
