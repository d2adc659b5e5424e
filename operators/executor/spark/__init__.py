"""Steps on Spark: the dataflow cut into jobs, stages and tasks."""

from __future__ import annotations

from operators.executor.spark.executor import JobMetrics, SparkExecutor

__all__ = ["JobMetrics", "SparkExecutor"]
