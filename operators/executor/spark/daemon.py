"""A daemon for Spark's Python workers that has this library loaded before it forks them.

Spark forks workers from a daemon and ends those that were idle for a minute; each new one imports
what its tasks use, and loads the compiled kernels. With

    spark.python.daemon.module=operators.executor.spark.daemon

set before Spark starts, that is done once per executor. Everything works without it too.
"""

from __future__ import annotations

from pyspark.daemon import manager

import operators.executor.spark.task
from operators.kernels import jit

__all__ = ["operators"]

if __name__ == "__main__":
    jit.load_all()
    manager()
