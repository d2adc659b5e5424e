"""Where a step runs: in this process, or as Spark jobs."""

from __future__ import annotations

from collections.abc import Mapping

from operators.dataflow import Dataflow
from planner import dataflow as ir

#: Estimated work (changed rows times the paths and operators that read them) from which the
#: executors break even. Measured on 2 shared cores, in seconds of CPU: inline takes 0.2 for 510,000
#: rows of TPC-H Q3 (all inputs change), half of it for the step: 5 M units of work a second. A
#: Spark job that has nothing to do takes 0.45, 0.8 and 1.1 with one, two and three stages, and a
#: step needs a job for each layer; the 510,000 rows take 1.9, of which 0.1 to publish 60 MB. So
#: Spark costs a second before it begins, and on two cores more for each row than it saves: it pays
#: where a row is read by many views, or the executors have many cores.
BREAK_EVEN = 20_000_000


def estimate(dataflow: Dataflow, rows: Mapping[ir.Source, int]) -> int:
    """Changed rows of each table, times the operators that read it."""
    return sum(n * len(dataflow.consumers(("", source))) for source, n in rows.items())


def choose(dataflow: Dataflow, rows: Mapping[ir.Source, int]) -> str:
    """ "spark" where the estimated work exceeds BREAK_EVEN, else "inline"."""
    return "spark" if estimate(dataflow, rows) > BREAK_EVEN else "inline"


#: Rows from which "auto" has Spark's tasks build an index or compute a new view, if they can: a job
#: takes the driver half a second before it begins, in which it sorts some five million keys itself.
#: Where all is placed on Spark, far fewer.
MANY_ROWS = 1 << 23
SPARK_ROWS = 1 << 19


def least_rows(placement: str) -> int:
    """From how many rows on Spark's tasks are to build an index, or compute a new view, if they
    can and not all is placed inline."""
    return SPARK_ROWS if placement == "spark" else MANY_ROWS
