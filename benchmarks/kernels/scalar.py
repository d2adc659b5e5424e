"""µs per batch of TPC-H's busiest expressions: python -m benchmarks.kernels.scalar

Each answer is asserted before it is timed; the figure is the best of five rounds.
"""

from __future__ import annotations

import datetime
import timeit
from decimal import Decimal

import numpy as np
import pyarrow as pa

from operators.flight.column import Column
from operators.scalar import compile as compile_expr
from planner.calculus import expr as e
from planner.calculus import types as t

MONEY = t.DecimalType(15, 2)
FACTOR = t.DecimalType(16, 2)
PRICE, DISCOUNT, TAX, SHIPDATE, KIND, MODE = range(6)


def call(function: str, *args: e.Expr, type: t.SqlType) -> e.Call:
    return e.Call(function, args, type, False)


def text(value: str) -> e.Literal:
    return e.Literal(value, t.STRING)


def expressions() -> dict[str, e.Expr]:
    price, discount, tax = (e.column(i, MONEY, False) for i in (PRICE, DISCOUNT, TAX))
    shipdate = e.column(SHIPDATE, t.DATE, False)
    kind, mode = e.column(KIND, t.STRING, False), e.column(MODE, t.STRING, False)
    one = e.Literal(Decimal(1), t.DecimalType(1, 0))
    rest = call("subtract", one, discount, type=FACTOR)
    revenue = call("multiply", price, rest, type=t.DecimalType(32, 4))
    taxed = call("add", one, tax, type=FACTOR)
    promo = call("like", kind, text("PROMO%"), text("\\"), type=t.BOOLEAN)
    zero = e.Literal(Decimal("0.0000"), t.DecimalType(32, 4))
    return {
        "l_extendedprice * (1 - l_discount)": revenue,
        "… * (1 + l_tax)": call("multiply", revenue, taxed, type=t.DecimalType(38, 6)),
        "l_shipdate <= DATE'1998-09-02'": call(
            "le", shipdate, e.Literal(datetime.date(1998, 9, 2), t.DATE), type=t.BOOLEAN
        ),
        "p_type LIKE 'PROMO%'": promo,
        "l_shipmode IN ('MAIL', 'SHIP')": call(
            "in", mode, text("MAIL"), text("SHIP"), type=t.BOOLEAN
        ),
        "CASE WHEN p_type LIKE 'PROMO%' THEN revenue ELSE 0 END": call(
            "case", promo, revenue, zero, type=t.DecimalType(32, 4)
        ),
        "year(l_shipdate)": call("year", shipdate, type=t.INT),
    }


def columns(n: int) -> list[Column]:
    draw = np.random.default_rng(1)
    kinds = np.array(["PROMO BRUSHED TIN", "STANDARD POLISHED BRASS", "ECONOMY ANODIZED STEEL"])
    modes = np.array(["MAIL", "SHIP", "TRUCK", "AIR", "REG AIR", "RAIL", "FOB"])
    return [
        Column(MONEY, draw.integers(90_000, 10_000_000, n)),
        Column(MONEY, draw.integers(0, 11, n)),
        Column(MONEY, draw.integers(0, 9, n)),
        Column(t.DATE, draw.integers(8035, 10562, n)),
        Column(t.STRING, pa.array(kinds[draw.integers(0, len(kinds), n)].tolist(), pa.string())),
        Column(t.STRING, pa.array(modes[draw.integers(0, len(modes), n)].tolist(), pa.string())),
    ]


def main() -> None:
    sizes = (1_000, 100_000)
    data = {n: columns(n) for n in sizes}
    small = data[sizes[0]]
    price, discount = small[PRICE].values, small[DISCOUNT].values
    print(f"{'µs per batch of':56}" + "".join(f"{n:>12,}" for n in sizes))
    for name, expr in expressions().items():
        compiled = compile_expr(expr)
        if name.startswith("l_extendedprice"):
            column, errors = compiled.evaluate(small.__getitem__, sizes[0])
            assert errors is None
            assert np.array_equal(column.values, price * (100 - discount))  # type: ignore[operator]
        figures = []
        for n in sizes:
            fetch = data[n].__getitem__
            count = 200_000 // n + 20
            timer = timeit.Timer(lambda c=compiled, f=fetch, n=n: c.evaluate(f, n))  # type: ignore[misc]
            figures.append(min(timer.repeat(5, count)) / count * 1e6)
        print(f"{name:56}" + "".join(f"{f:12.1f}" for f in figures))


if __name__ == "__main__":
    main()
