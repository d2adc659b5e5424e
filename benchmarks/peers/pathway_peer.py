"""Pathway: six queries of TPC-H in its table API over CSV files, each run in a process of its own.

It has no decimals and no LIMIT: money is double, dates are texts that compare as they should, and
of q03 and q10 the whole result is kept. The number of threads comes from PATHWAY_THREADS. The clock
runs over `pw.run`; ingestion is another run, which reads the same columns of the same tables.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pathway as pw

_TYPES = {"BIGINT": int, "INT": int, "STRING": str, "DATE": str}


def read(task: dict[str, Any], name: str, columns: list[str]) -> pw.Table:
    kinds = dict(task["tables"][name]["columns"])
    schema = pw.schema_from_types(**{c: _TYPES.get(kinds[c], float) for c in columns})
    path = str(Path(task["csv"]) / f"{name}.csv")
    return pw.io.csv.read(path, schema=schema, mode="static")


def q01(t: dict[str, pw.Table]) -> pw.Table:
    line = t["lineitem"].filter(pw.this.l_shipdate <= "1998-09-02")
    price = pw.this.l_extendedprice * (1 - pw.this.l_discount)
    line = line.with_columns(price=price, charge=price * (1 + pw.this.l_tax))
    r = pw.reducers
    return line.groupby(pw.this.l_returnflag, pw.this.l_linestatus).reduce(
        pw.this.l_returnflag, pw.this.l_linestatus,
        sum_qty=r.sum(pw.this.l_quantity), sum_base_price=r.sum(pw.this.l_extendedprice),
        sum_disc_price=r.sum(pw.this.price), sum_charge=r.sum(pw.this.charge),
        avg_qty=r.avg(pw.this.l_quantity), avg_price=r.avg(pw.this.l_extendedprice),
        avg_disc=r.avg(pw.this.l_discount), count_order=r.count(),
    )  # fmt: skip


def q03(t: dict[str, pw.Table]) -> pw.Table:
    customer = t["customer"].filter(pw.this.c_mktsegment == "BUILDING")
    orders = t["orders"].filter(pw.this.o_orderdate < "1995-03-15")
    line = t["lineitem"].filter(pw.this.l_shipdate > "1995-03-15")
    wanted = orders.join(customer, orders.o_custkey == customer.c_custkey).select(
        orders.o_orderkey, orders.o_orderdate, orders.o_shippriority
    )
    joined = line.join(wanted, line.l_orderkey == wanted.o_orderkey).select(
        line.l_orderkey, wanted.o_orderdate, wanted.o_shippriority,
        part=line.l_extendedprice * (1 - line.l_discount),
    )  # fmt: skip
    return joined.groupby(pw.this.l_orderkey, pw.this.o_orderdate, pw.this.o_shippriority).reduce(
        pw.this.l_orderkey, revenue=pw.reducers.sum(pw.this.part),
        o_orderdate=pw.this.o_orderdate, o_shippriority=pw.this.o_shippriority,
    )  # fmt: skip


def q05(t: dict[str, pw.Table]) -> pw.Table:
    region = t["region"].filter(pw.this.r_name == "ASIA")
    nation, supplier, customer, line = t["nation"], t["supplier"], t["customer"], t["lineitem"]
    orders = t["orders"].filter(
        (pw.this.o_orderdate >= "1994-01-01") & (pw.this.o_orderdate < "1995-01-01")
    )
    nations = nation.join(region, nation.n_regionkey == region.r_regionkey).select(
        nation.n_nationkey, nation.n_name
    )
    suppliers = supplier.join(nations, supplier.s_nationkey == nations.n_nationkey).select(
        supplier.s_suppkey, supplier.s_nationkey, nations.n_name
    )
    ordered = orders.join(customer, orders.o_custkey == customer.c_custkey).select(
        orders.o_orderkey, customer.c_nationkey
    )
    lines = line.join(ordered, line.l_orderkey == ordered.o_orderkey).select(
        line.l_suppkey, ordered.c_nationkey, part=line.l_extendedprice * (1 - line.l_discount)
    )
    joined = lines.join(
        suppliers,
        lines.l_suppkey == suppliers.s_suppkey,
        lines.c_nationkey == suppliers.s_nationkey,
    ).select(suppliers.n_name, lines.part)
    return joined.groupby(pw.this.n_name).reduce(
        pw.this.n_name, revenue=pw.reducers.sum(pw.this.part)
    )


def q06(t: dict[str, pw.Table]) -> pw.Table:
    line = t["lineitem"].filter(
        (pw.this.l_shipdate >= "1994-01-01")
        & (pw.this.l_shipdate < "1995-01-01")
        & (pw.this.l_discount >= 0.05)
        & (pw.this.l_discount <= 0.07)
        & (pw.this.l_quantity < 24)
    )
    return line.reduce(revenue=pw.reducers.sum(pw.this.l_extendedprice * pw.this.l_discount))


def q10(t: dict[str, pw.Table]) -> pw.Table:
    customer, nation = t["customer"], t["nation"]
    orders = t["orders"].filter(
        (pw.this.o_orderdate >= "1993-10-01") & (pw.this.o_orderdate < "1994-01-01")
    )
    line = t["lineitem"].filter(pw.this.l_returnflag == "R")
    lines = line.join(orders, line.l_orderkey == orders.o_orderkey).select(
        orders.o_custkey, part=line.l_extendedprice * (1 - line.l_discount)
    )
    sums = lines.groupby(pw.this.o_custkey).reduce(
        pw.this.o_custkey, revenue=pw.reducers.sum(pw.this.part)
    )
    customers = customer.join(nation, customer.c_nationkey == nation.n_nationkey).select(
        customer.c_custkey, customer.c_name, customer.c_acctbal, nation.n_name,
        customer.c_address, customer.c_phone, customer.c_comment,
    )  # fmt: skip
    return customers.join(sums, customers.c_custkey == sums.o_custkey).select(
        customers.c_custkey, customers.c_name, sums.revenue, customers.c_acctbal,
        customers.n_name, customers.c_address, customers.c_phone, customers.c_comment,
    )  # fmt: skip


def q11(t: dict[str, pw.Table]) -> pw.Table:
    partsupp, supplier = t["partsupp"], t["supplier"]
    nation = t["nation"].filter(pw.this.n_name == "GERMANY")
    suppliers = supplier.join(nation, supplier.s_nationkey == nation.n_nationkey).select(
        supplier.s_suppkey
    )
    parts = partsupp.join(suppliers, partsupp.ps_suppkey == suppliers.s_suppkey).select(
        partsupp.ps_partkey, part=partsupp.ps_supplycost * partsupp.ps_availqty
    )
    values = parts.groupby(pw.this.ps_partkey).reduce(
        pw.this.ps_partkey, value=pw.reducers.sum(pw.this.part)
    )
    total = parts.reduce(least=pw.reducers.sum(pw.this.part) * 0.0001)
    return values.join(total).select(
        pw.left.ps_partkey, pw.left.value, pw.right.least
    ).filter(pw.this.value > pw.this.least).select(pw.this.ps_partkey, pw.this.value)  # fmt: skip


QUERIES = {f.__name__: f for f in (q01, q03, q05, q06, q10, q11)}


def main(task: dict[str, Any]) -> None:
    (query,) = task["queries"]
    try:
        found = _run(task, query)
    except Exception as error:
        found = {"query": query["name"], "error": str(error).strip()[:200]}
    print(json.dumps(found), flush=True)


def _run(task: dict[str, Any], query: dict[str, Any]) -> dict[str, Any]:
    reads = query["reads"]
    for name, columns in reads.items():
        pw.io.null.write(read(task, name, columns))
    ingest_seconds = _timed()
    pw.internals.parse_graph.G.clear()
    result = QUERIES[query["name"]]({n: read(task, n, columns) for n, columns in reads.items()})
    rows: Counter[tuple[Any, ...]] = Counter()

    def change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        rows[tuple(row.values())] += 1 if is_addition else -1

    names = result.column_names()
    pw.io.subscribe(result.select(**{n: result[n] for n in names}), on_change=change)
    seconds = _timed()
    left = [row for row, count in rows.items() for _ in range(count)]
    return {
        "query": query["name"],
        "seconds": seconds,
        "ingest_seconds": ingest_seconds,
        "rows": [[None if value is None else str(value) for value in row] for row in left],
    }


def _timed() -> float:
    started = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return time.perf_counter() - started


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
