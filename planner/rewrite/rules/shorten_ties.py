"""What breaks ties in a window's order ends with the first columns that tell all rows apart.

    Window[partition, order, ties a, b, c](x)  ->  Window[partition, order, ties a](x)
                                    if partition, order and a together hold a unique key of x

The index in the window's order is so much narrower, and columns that nothing else reads go; with
them the number of each copy, which a query of several windows begins with, where there are none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.analysis.keys import TableKey, matches_once
from planner.calculus.algebra import Plan, Window
from planner.calculus.visit import transform


def apply(plan: Plan, table_key: TableKey) -> Plan:
    return transform(plan, partial(_shorten, table_key=table_key))


def _shorten(plan: Plan, table_key: TableKey) -> Plan:
    if not isinstance(plan, Window) or not plan.ties:
        return plan
    known = {*plan.partition, *(k.column for k in plan.order)}
    for count in range(len(plan.ties)):
        if matches_once(plan.input, frozenset(known.union(plan.ties[:count])), table_key):
            return replace(plan, ties=plan.ties[:count])
    return plan
