"""Which of Spark's built-in functions views have.

Invariant: a name is in `maintained` or in `refused.BY_NAME`, never in both. What Spark lists is
compared with them in tests/sql/test_spark_functions, and FUNCTIONS.md is made of them.
"""

from __future__ import annotations

from planner.bind.calls import PARSED
from planner.bind.clock import CLOCK_NAMES
from planner.bind.group_aggregates import GROUP_AGGREGATES
from planner.bind.named import NAMED
from planner.bind.tables import NAMED_AGGREGATES

#: Operators, casts, clauses and generators, and what the parser has nodes of its own for.
_BY_SYNTAX = frozenset(
    "! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | || ~ and or not between case when cast "
    "div ilike in like exists any array_agg string_agg boolean double int string explode "
    "explode_outer inline inline_outer posexplode posexplode_outer stack grouping grouping_id "
    "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank "
    "row_number json_tuple curdate current_date current_timestamp localtimestamp decode overlay "
    "position window session_window counter_diff approx_count_distinct".split()
)


def maintained() -> frozenset[str]:
    """The functions that views have."""
    named = frozenset((*NAMED, *NAMED_AGGREGATES, *GROUP_AGGREGATES, *CLOCK_NAMES))
    return named | frozenset(PARSED) | _BY_SYNTAX
