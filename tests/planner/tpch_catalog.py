"""The tables of TPC-H as a planner catalog: a stand-in for sqlview.catalog in planner tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.calculus.types import BIGINT, DATE, INT, STRING, DecimalType, Field, Schema, SqlType
from planner.context import RelationInfo
from planner.dataflow import Index, Source

MONEY = DecimalType(12, 2)
_TYPES: dict[str, SqlType] = {
    "b": BIGINT,
    "i": INT,
    "m": MONEY,
    "s": STRING,
    "d": DATE,
}

#: table -> (columns of the primary key, rows at scale factor 1, columns with a letter for the type)
_TABLES = {
    "region": (1, 5, "r_regionkey:b r_name:s r_comment:s"),
    "nation": (1, 25, "n_nationkey:b n_name:s n_regionkey:b n_comment:s"),
    "supplier": (
        1,
        10_000,
        """s_suppkey:b s_name:s s_address:s s_nationkey:b s_phone:s s_acctbal:m s_comment:s""",
    ),
    "customer": (
        1,
        150_000,
        """c_custkey:b c_name:s c_address:s c_nationkey:b c_phone:s c_acctbal:m c_mktsegment:s
        c_comment:s""",
    ),
    "part": (
        1,
        200_000,
        """p_partkey:b p_name:s p_mfgr:s p_brand:s p_type:s p_size:i p_container:s
        p_retailprice:m p_comment:s""",
    ),
    "partsupp": (
        2,
        800_000,
        "ps_partkey:b ps_suppkey:b ps_availqty:i ps_supplycost:m ps_comment:s",
    ),
    "orders": (
        1,
        1_500_000,
        """o_orderkey:b o_custkey:b o_orderstatus:s o_totalprice:m o_orderdate:d o_orderpriority:s
        o_clerk:s o_shippriority:i o_comment:s""",
    ),
    "lineitem": (
        2,
        6_000_000,
        """l_orderkey:b l_linenumber:i l_partkey:b l_suppkey:b l_quantity:m l_extendedprice:m
        l_discount:m l_tax:m l_returnflag:s l_linestatus:s l_shipdate:d l_commitdate:d
        l_receiptdate:d l_shipinstruct:s l_shipmode:s l_comment:s""",
    ),
}


def schema_of(columns: str) -> Schema:
    """`"a:i b:s?"`: names with a letter for the type, `?` where NULL is allowed."""
    fields = []
    for word in columns.split():
        name, kind = word.split(":")
        fields.append(Field(name, _TYPES[kind[0]], kind.endswith("?")))
    return tuple(fields)


def table(name: str, columns: str, key: tuple[int, ...] | None, rows: int = 0) -> RelationInfo:
    schema = schema_of(columns)
    return RelationInfo(name, schema, key, Source(name, schema), rows, is_view=False)


@dataclass(frozen=True)
class Tables:
    """A CatalogReader over fixed relations."""

    relations: tuple[RelationInfo, ...]
    indexes: frozenset[Index] = field(default_factory=frozenset)

    def relation(self, name: str) -> RelationInfo | None:
        return next((r for r in self.relations if r.name == name.lower()), None)

    def names(self) -> tuple[str, ...]:
        return tuple(r.name for r in self.relations)

    def source(self, id: str) -> RelationInfo | None:
        return self.relation(id)

    def function(self, name: str) -> None:
        return None

    def live_indexes(self) -> frozenset[Index]:
        return self.indexes


def tpch(loaded: bool = True) -> Tables:
    """The eight tables, with their rows at scale factor 1, or empty."""
    return Tables(
        tuple(
            table(name, columns, tuple(range(key)), rows if loaded else 0)
            for name, (key, rows, columns) in _TABLES.items()
        )
    )
