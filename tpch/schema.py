"""The eight tables of TPC-H, in Spark SQL, with the types that tpchgen-cli writes.

Invariant: the columns of each table, in name, order and type, are those of the generated Parquet
files, so that rows go in as they are read; no update group holds a key column.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

_ARROW_TYPES: dict[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "DECIMAL(15,2)": pa.decimal128(15, 2),
}


@dataclass(frozen=True, slots=True)
class TableDef:
    """One table.

    `columns`: (name, SQL type) in order. `update_groups`: columns that an update changes together,
    since their values belong together (a supplier is one that sells the part).
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    update_groups: tuple[tuple[str, ...], ...]

    @property
    def sql(self) -> str:
        """The CREATE TABLE statement."""
        lines = [f"    {name} {kind} NOT NULL" for name, kind in self.columns]
        lines.append(f"    PRIMARY KEY ({', '.join(self.primary_key)})")
        return f"CREATE TABLE {self.name} (\n" + ",\n".join(lines) + "\n)"

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, _ARROW_TYPES[kind]) for name, kind in self.columns])


def _columns(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (line.split() for line in text.strip().splitlines())
    return tuple((name, kind) for name, kind in pairs)


# In the specification's order of size, small first: also the order of turns in a stream.
TABLES: tuple[TableDef, ...] = (
    TableDef(
        "region",
        _columns(
            """
            r_regionkey BIGINT
            r_name STRING
            r_comment STRING
            """
        ),
        ("r_regionkey",),
        (("r_name",), ("r_comment",)),
    ),
    TableDef(
        "nation",
        _columns(
            """
            n_nationkey BIGINT
            n_name STRING
            n_regionkey BIGINT
            n_comment STRING
            """
        ),
        ("n_nationkey",),
        (("n_name", "n_regionkey"), ("n_regionkey",), ("n_comment",)),
    ),
    TableDef(
        "supplier",
        _columns(
            """
            s_suppkey BIGINT
            s_name STRING
            s_address STRING
            s_nationkey BIGINT
            s_phone STRING
            s_acctbal DECIMAL(15,2)
            s_comment STRING
            """
        ),
        ("s_suppkey",),
        (("s_address", "s_nationkey", "s_phone"), ("s_acctbal",), ("s_comment",)),
    ),
    TableDef(
        "customer",
        _columns(
            """
            c_custkey BIGINT
            c_name STRING
            c_address STRING
            c_nationkey BIGINT
            c_phone STRING
            c_acctbal DECIMAL(15,2)
            c_mktsegment STRING
            c_comment STRING
            """
        ),
        ("c_custkey",),
        (
            ("c_address", "c_nationkey", "c_phone"),
            ("c_acctbal",),
            ("c_mktsegment",),
            ("c_comment",),
        ),
    ),
    TableDef(
        "part",
        _columns(
            """
            p_partkey BIGINT
            p_name STRING
            p_mfgr STRING
            p_brand STRING
            p_type STRING
            p_size INT
            p_container STRING
            p_retailprice DECIMAL(15,2)
            p_comment STRING
            """
        ),
        ("p_partkey",),
        (
            ("p_mfgr", "p_brand"),
            ("p_name", "p_type", "p_size"),
            ("p_container",),
            ("p_retailprice",),
            ("p_comment",),
        ),
    ),
    TableDef(
        "partsupp",
        _columns(
            """
            ps_partkey BIGINT
            ps_suppkey BIGINT
            ps_availqty INT
            ps_supplycost DECIMAL(15,2)
            ps_comment STRING
            """
        ),
        ("ps_partkey", "ps_suppkey"),
        (("ps_availqty",), ("ps_supplycost",), ("ps_comment",)),
    ),
    TableDef(
        "orders",
        _columns(
            """
            o_orderkey BIGINT
            o_custkey BIGINT
            o_orderstatus STRING
            o_totalprice DECIMAL(15,2)
            o_orderdate DATE
            o_orderpriority STRING
            o_clerk STRING
            o_shippriority INT
            o_comment STRING
            """
        ),
        ("o_orderkey",),
        (
            ("o_custkey",),
            ("o_orderstatus", "o_totalprice"),
            ("o_orderdate",),
            ("o_orderpriority", "o_clerk"),
            ("o_comment",),
        ),
    ),
    TableDef(
        "lineitem",
        _columns(
            """
            l_orderkey BIGINT
            l_partkey BIGINT
            l_suppkey BIGINT
            l_linenumber INT
            l_quantity DECIMAL(15,2)
            l_extendedprice DECIMAL(15,2)
            l_discount DECIMAL(15,2)
            l_tax DECIMAL(15,2)
            l_returnflag STRING
            l_linestatus STRING
            l_shipdate DATE
            l_commitdate DATE
            l_receiptdate DATE
            l_shipinstruct STRING
            l_shipmode STRING
            l_comment STRING
            """
        ),
        ("l_orderkey", "l_linenumber"),
        (
            ("l_partkey", "l_suppkey"),
            ("l_quantity", "l_extendedprice"),
            ("l_discount", "l_tax"),
            ("l_returnflag", "l_linestatus", "l_shipdate", "l_commitdate", "l_receiptdate"),
            ("l_shipinstruct", "l_shipmode"),
            ("l_comment",),
        ),
    ),
)

TABLES_BY_NAME: dict[str, TableDef] = {table.name: table for table in TABLES}
