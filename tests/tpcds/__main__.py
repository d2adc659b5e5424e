"""`python -m tests.tpcds`: the queries of TPC-DS, in Spark's own text, under changes of all tables.

The text comes from the artifact of Spark's SQL tests, which Maven fetches. Exit code 1 if a view
was wrong; 2 if the text cannot be had.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from tests.spark_artifact import Missing
from tests.tpcds.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tpcds", description=__doc__)
    parser.add_argument("--queries", nargs="*", help="their names, as q14a (all)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--changed", type=int, default=20, help="rows a table and epoch, at most")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    try:
        found = run(given.queries, given.epochs, given.seed, given.changed, print)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    print(
        f"{len(found.maintained)} maintained, {len(found.refused)} refused, "
        f"{len(found.lively)} with rows, {len(found.changing)} that changed; "
        f"{found.compared:,} compared, {len(found.wrong)} wrong, "
        f"{len(found.unsaid)} left to Spark; "
        f"{1e3 * statistics.median(found.seconds or [0]):.0f} ms a step "
        f"({1e3 * statistics.median(found.cpu or [0]):.0f} of CPU) "
        f"of {statistics.median(found.rows or [0]):.0f} rows"
    )
    print(f"{found.prefixes:,} rows on the way of joins, {found.share:.2f} of the bound of work")
    print("empty at every epoch:", *(q for q in found.maintained if q not in found.lively))
    still = (q for q in found.maintained if q in found.lively and q not in found.changing)
    print("with rows that never change:", *still)
    slowest = sorted(found.creates.items(), key=lambda item: -item[1])[:5]
    print("CPU of the slowest CREATEs:", *(f"{q} {1e3 * s:.0f} ms" for q, s in slowest))
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
