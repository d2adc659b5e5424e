"""TPC-H's refresh functions as changes: RF1 inserts new orders, RF2 deletes old ones.

At scale factor SF a pair inserts SF * 1,500 orders with their one to seven line items each, and
deletes as many orders with theirs: a thousandth of the orders of the generated data. Pair n (from
0) stands for the n-th thousandth, as in the specification's generator.

**Keys.** The generated orders use the first 8 of every 32 keys. The new ones use the next 8 with
the first 1,000 pairs, then the next, then the last (`PAIRS` pairs in all). RF2 deletes, with the
first 1,000 pairs, the generated orders; with later ones those that RF1 inserted 1,000 pairs before.

**Values.** A new order is a copy of a generated one, dates and number of line items with it, so
that distributions stay; its customer is another order's, and each line item has part, supplier,
quantity and price of another line item and discount and tax of a third. The order's total price is
computed from its line items.

Invariant: pair n is a function of the generated tables, n and the seed; applied in turn to them,
each inserts only keys that are not there and deletes only keys that are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tpch.schema import TABLES_BY_NAME
from tpch.stream import Batch, Change

ORDERS_PER_SCALE_FACTOR = 1_500
PAIRS = 3_000

_PAIRS_PER_BLOCK = 1_000
_KEYS_USED = 8
_KEYS = 32
_PART_COLUMNS = ("l_partkey", "l_suppkey", "l_quantity", "l_extendedprice")
_RATE_COLUMNS = ("l_discount", "l_tax")

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pair:
    """One transaction for each function."""

    number: int
    inserts: Batch
    deletes: Batch


def order_keys(indexes: Ints, block: int) -> Ints:
    """The keys of the orders `indexes` (from 0) in one block of 8 of each 32 keys (0: generated).

    Key 0 does not exist, so the first order has key 1.
    """
    numbers = indexes + 1
    keys: Ints = numbers // _KEYS_USED * _KEYS + block * _KEYS_USED + numbers % _KEYS_USED
    return keys


def refresh_pairs(tables: Mapping[str, pa.Table], count: int, seed: int) -> Iterator[Pair]:
    """The first `count` pairs for the generated orders and line items in `tables`.

    Requires: `tables` in the order of their keys; count <= PAIRS.
    State: what RF1 has inserted and RF2 not yet deleted, as keys.
    """
    orders, lineitem = tables["orders"], tables["lineitem"]
    size = max(1, round(orders.num_rows / _PAIRS_PER_BLOCK))
    lines = lineitem.column("l_orderkey").to_numpy()
    inserted: dict[int, pa.Table] = {}
    for number in range(count):
        block, place = divmod(number, _PAIRS_PER_BLOCK)
        indexes = np.arange(place * size, min((place + 1) * size, orders.num_rows))
        rng = np.random.default_rng([seed, number])
        new_orders, new_lines = _new_rows(orders, lineitem, order_keys(indexes, block + 1), rng)
        if block == 0:
            starts, stops = _line_ranges(lines, orders.column("o_orderkey").to_numpy()[indexes])
            old_lines = lineitem.take(pa.array(_places(starts, stops)))
        else:
            old_lines = inserted.pop(number - _PAIRS_PER_BLOCK)
        line_keys = list(TABLES_BY_NAME["lineitem"].primary_key)
        old_orders = pa.table({"o_orderkey": order_keys(indexes, block)})
        inserted[number] = new_lines.select(line_keys)
        yield Pair(
            number,
            Batch(
                (Change("insert", "orders", new_orders), Change("insert", "lineitem", new_lines))
            ),
            Batch(
                (
                    Change("delete", "lineitem", old_lines.select(line_keys)),
                    Change("delete", "orders", old_orders),
                )
            ),
        )


def _new_rows(
    orders: pa.Table, lineitem: pa.Table, keys: Ints, rng: np.random.Generator
) -> tuple[pa.Table, pa.Table]:
    """Orders with the keys `keys`, and their line items."""
    models = rng.integers(0, orders.num_rows, len(keys))
    starts, stops = _line_ranges(
        lineitem.column("l_orderkey").to_numpy(), orders.column("o_orderkey").to_numpy()[models]
    )
    places = _places(starts, stops)
    lines = lineitem.take(pa.array(places))
    parts = pa.array(rng.integers(0, lineitem.num_rows, len(places)))
    rates = pa.array(rng.integers(0, lineitem.num_rows, len(places)))
    owners = np.repeat(np.arange(len(keys)), stops - starts)
    lines = _replace(lines, "l_orderkey", pa.array(keys[owners]))
    for names, source in ((_PART_COLUMNS, parts), (_RATE_COLUMNS, rates)):
        for name in names:
            lines = _replace(lines, name, lineitem.column(name).take(source))
    new = orders.take(pa.array(models))
    customers = orders.column("o_custkey").take(pa.array(rng.integers(0, len(orders), len(keys))))
    new = _replace(new, "o_orderkey", pa.array(keys))
    new = _replace(new, "o_custkey", customers)
    new = _replace(new, "o_totalprice", _total_prices(lines, owners, len(keys)))
    return new, lines


def _total_prices(lines: pa.Table, owners: Ints, count: int) -> pa.Array:
    """The sum of extended price * (1 + tax) * (1 - discount), per order, in whole cents."""
    one = Decimal(1)
    price = lines.column("l_extendedprice").cast(pa.decimal128(12, 2))
    tax = lines.column("l_tax").cast(pa.decimal128(4, 2))
    discount = lines.column("l_discount").cast(pa.decimal128(4, 2))
    charged = pc.multiply(pc.multiply(price, pc.add(one, tax)), pc.subtract(one, discount))
    sums = pa.table({"owner": owners, "charged": charged}).group_by("owner")
    totals = sums.aggregate([("charged", "sum")]).sort_by("owner").column("charged_sum")
    assert len(totals) == count, "an order has at least one line item"
    return pc.round(totals, 2).cast(pa.decimal128(15, 2))


def _line_ranges(lines: Ints, keys: Ints) -> tuple[Ints, Ints]:
    return np.searchsorted(lines, keys, "left"), np.searchsorted(lines, keys, "right")


def _places(starts: Ints, stops: Ints) -> Ints:
    """The numbers of all ranges [start, stop), one range after the other."""
    counts = stops - starts
    before = np.cumsum(counts) - counts
    places: Ints = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return places


def _replace(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, table.schema.field(name), values)
