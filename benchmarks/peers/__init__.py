"""Peers: other systems that answer the same queries over the same rows.

`flink_peer` and `pathway_peer` are programs that run in a peer's own environment, where nothing of
this project is installed. Each takes the path of a task, a JSON object (see `benchmarks.compare`),
and prints one JSON object per line: {"query", "seconds", "ingest_seconds", "rows"} or {"query",
"error"}. `differential_peer` runs here and drives the program of the crate in `differential`.
"""
