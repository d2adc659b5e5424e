"""`MAX RECURSION LEVEL n` of Spark's WITH RECURSIVE, which sqlglot does not read."""

from __future__ import annotations

import re

from sqlglot import exp

from planner.parse.tokens import lexemes

#: Where a CTE's node keeps its level.
LEVEL = "max_recursion_level"


def without_levels(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text with blanks in place of the clauses, and of each its place and its number."""
    tokens = [t for t in lexemes(text) if t.kind not in ("space", "comment")]
    found: list[tuple[int, int]] = []
    for at in range(len(tokens) - 4):
        words = [t.word for t in tokens[at : at + 3]]
        number, after = tokens[at + 3], tokens[at + 4]
        if (
            words == ["MAX", "RECURSION", "LEVEL"]
            and number.kind == "number"
            and after.word == "AS"
        ):
            if not number.text.isdigit():
                continue
            start, stop = tokens[at].start, number.start + len(number.text)
            blank = re.sub(r"\S", " ", text[start:stop])
            text = text[:start] + blank + text[stop:]
            found.append((start, int(number.text)))
    return text, tuple(found)


def put_levels(tree: exp.Expr, levels: tuple[tuple[int, int], ...]) -> None:
    """Say in the CTE in front of each clause what its level is."""
    placed = [(c.args["alias"].this.meta.get("start", 0), c) for c in tree.find_all(exp.CTE)]
    for start, level in levels:
        before = [(at, cte) for at, cte in placed if at < start]
        if before:
            max(before, key=lambda pair: pair[0])[1].meta[LEVEL] = level
