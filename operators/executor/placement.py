"""Where a step runs: in this process, or as Spark jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from operators.dataflow import Dataflow
from planner import dataflow as ir

#: Estimated work (changed rows times the paths and operators that read them) that this process does
#: in a second, and how many times the CPU time tasks take for it, exchanges and all. Measured on 2
#: shared cores with steps of 1,000 to 500,000 rows of TPC-H Q3, and of eight views: 58 to 89 ms a
#: million units inline, 404 on Spark with one core.
WORK_A_SECOND = 15_000_000
TASK_COST = 7.0
#: Less work than this takes less time here than any Spark job: what jobs cost need not be known.
LEAST_WORK = 3_000_000


@dataclass(frozen=True, slots=True)
class SparkCosts:
    """What jobs cost on one Spark: `job_seconds` that one of two stages takes which has nothing to
    do, as measured (0 where the `cores` are too few for it to matter)."""

    job_seconds: float
    cores: int

    @property
    def break_even(self) -> float:
        """The estimated work from which a step, of one job, takes less time on this Spark; infinite
        where the cores are few."""
        gain = 1 - TASK_COST / self.cores
        return WORK_A_SECOND * self.job_seconds / gain if gain > 0 else math.inf


def estimate(dataflow: Dataflow, rows: Mapping[ir.Source, int]) -> int:
    """Changed rows of each table, times the operators that read it."""
    return sum(n * len(dataflow.consumers(("", source))) for source, n in rows.items())


#: Rows from which "auto" has Spark's tasks build an index or compute a new view, if they can: a job
#: takes the driver half a second before it begins, in which it sorts some five million keys itself.
#: Where all is placed on Spark, far fewer.
MANY_ROWS = 1 << 23
SPARK_ROWS = 1 << 19


def least_rows(placement: str) -> int:
    """From how many rows on Spark's tasks are to build an index, or compute a new view, if they
    can and not all is placed inline."""
    return SPARK_ROWS if placement == "spark" else MANY_ROWS
