"""TPC-H as a stream of changes: a benchmark and a demonstration of `sqlview`.

    schema      the eight tables
    queries/    the queries, one SQL file each, in the specification's text
    generate    data by tpchgen-cli, cached
    lively      parameters under which every view changes often on little data
    stream      the tables as a sequence of transactions, with deletes and updates
    refresh     the specification's refresh functions RF1 and RF2 as transactions
    refresh_run loads the tables, runs the refresh functions, measures
    runner      installs the queries, streams, measures
    checks      compares views with a recompute
    report      figures as JSON, tables and a chart; progress
    cli, demo   `python -m tpch stream`, `refresh`, `demo` and `generate`
    jobs/       the same job for spark-submit

Invariant: this package uses `sqlview` as any other user does, by its public names, and beside them
`sqlview.oracle` to check its results independently.
"""

from sqlview._origin import check_single_origin

check_single_origin(("planner", "operators", "sqlview", "tpch"))
