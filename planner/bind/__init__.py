"""The binder: syntax trees and a catalog to typed plans over positions.

    report      errors with their place; refusal of every unread part of a tree
    scope       which columns names can mean
    resolve     the rules of each clause for names
    outer       references to enclosing queries
    scalars     scalar expressions
    calls       function calls in them
    subqueries  subqueries in expressions
    aggregates  the calls that an aggregate stands for
    grouping    aggregates, and what may be read above them
    grouping_sets  ROLLUP, CUBE, GROUPING SETS
    relations   FROM, joins
    recursion   WITH RECURSIVE
    sets        UNION, INTERSECT, EXCEPT, VALUES
    queries     SELECT, WITH, ORDER BY, LIMIT
    clock       now(), as a scalar subquery
    time_windows  window(ts, …), rewritten; nodes: what it writes
    changes     INSERT, UPDATE, DELETE, MERGE
    user        the user's functions
    naming      names of columns without an alias

Invariant: a bound plan has the meaning that Spark gives the text; whatever the binder does not
understand it refuses.
"""

from planner.bind.calls import is_taken
from planner.bind.changes import (
    INSERTED,
    Edit,
    bind_default,
    bind_delete,
    bind_insert,
    bind_merge,
    bind_update,
)
from planner.bind.queries import BoundQuery, bind_query, bind_view
from planner.bind.relations import Reference

__all__ = [
    "INSERTED",
    "BoundQuery",
    "Edit",
    "Reference",
    "bind_default",
    "bind_delete",
    "bind_insert",
    "bind_merge",
    "bind_query",
    "bind_update",
    "bind_view",
    "is_taken",
]
