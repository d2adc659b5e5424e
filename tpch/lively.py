"""Substitution parameters under which every view changes often on little data.

With the specification's parameters several of the 22 queries are empty, or stand still, at scale
factor 0.01: nothing is learned from maintaining them there. Here each query keeps its text but for
some literals, in the manner of the specification's substitution parameters: longer periods, lower
thresholds, wider patterns, and in q03 a greater number of rows.

Invariant: a lively query differs from its file in literals alone, so it has the same plan; each
substitution names a text that is in the file.
"""

from __future__ import annotations

from collections.abc import Mapping

Substitution = tuple[str, str]

LIVELY: Mapping[str, tuple[Substitution, ...]] = {}


def substitute(name: str, sql: str) -> str:
    """The text of query `name` with its lively parameters; unchanged where it has none."""
    for old, new in LIVELY.get(name, ()):
        sql = sql.replace(old, new)
    return sql
