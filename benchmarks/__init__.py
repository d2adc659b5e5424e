"""Benchmarks of sqlview, each one command: `python -m benchmarks.NAME`, with `--help` for options.

    rates         rows per second of each TPC-H query, by size of the batch
    flatness      step latency and state under long churn of a fixed live set
    recompute     refresh after a change against a full recompute by DuckDB
    installation  CREATE to first result: on live indexes, on private ones, on none
    kernels/      parts of the engine

Invariant: a figure is written only if the answer that goes with it was compared with a recompute.
The engine's parts apart, benchmarks use `sqlview` and `tpch` by their public names.
"""
