"""Executors: who runs a step of the dataflow, in this process or on Spark."""
