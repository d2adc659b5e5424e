"""`VERSION AS OF` in queries that Spark runs: which relation is meant as of which epoch.

Spark's grammar: a relation's name, then `[FOR] VERSION | SYSTEM_VERSION AS OF` and an integer or a
string. The text that Spark gets names the relation's old rows otherwise, under its own name as an
alias, in as many characters and lines, so that places in it stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from planner.errors import SqlSyntaxError, UnsupportedError
from planner.names import folded
from planner.parse.tokens import Token, lexemes, line_and_column, unquote, words_of

_VERSION, _TIME = ("VERSION", "SYSTEM_VERSION"), ("TIMESTAMP", "SYSTEM_TIME")
#: Words after a relation that are no alias of it.
_NO_ALIAS = frozenset(
    "ANTI CLUSTER CROSS DISTRIBUTE EXCEPT FULL GROUP HAVING INNER INTERSECT JOIN LATERAL LEFT "
    "LIMIT MINUS NATURAL OFFSET ON ORDER PIVOT RIGHT SEMI SORT UNION UNPIVOT USING WHERE "
    "WINDOW".split()
)


@dataclass(frozen=True, slots=True)
class AsOf:
    """The relation `name` as of `epoch`, which the text calls `called`."""

    name: str
    epoch: int
    called: str


def without_epochs(text: str, names: Iterable[str]) -> tuple[str, tuple[AsOf, ...]]:
    """A query in which relations as of an epoch, of these names, are called otherwise; and those.

    Raises: SqlSyntaxError for what is no epoch; UnsupportedError for times.
    """
    known = {folded(name): name for name in names}
    tokens = [t for t in lexemes(text) if t.kind not in ("space", "comment")]
    found: list[AsOf] = []
    for start, end, name, epoch in reversed(list(_clauses(text, tokens, known))):
        asked = next((a for a in found if (a.name, a.epoch) == (name, epoch)), None)
        if asked is None:
            asked = AsOf(name, epoch, _free(f"_{len(found)}v", text))
            found.append(asked)
        written = tokens[start]
        stop = tokens[end].start + len(tokens[end].text)
        after = tokens[end + 1] if end + 1 < len(tokens) else None
        new = asked.called if _is_alias(after) else f"{asked.called} AS {written.text}"
        old = text[written.start : stop]
        text = text[: written.start] + _as_long(new, old) + text[stop:]
    return text, tuple(found)


def _clauses(
    text: str, tokens: list[Token], known: Mapping[str, str]
) -> Iterator[tuple[int, int, str, int]]:
    """Places of the first and the last token of each name with its clause, the name, the epoch."""
    words = [t.word for t in tokens]
    for at in range(1, len(tokens) - 3):
        kind = words[at]
        if kind not in (*_VERSION, *_TIME) or words[at + 1 : at + 3] != ["AS", "OF"]:
            continue
        start = at - 2 if words[at - 1] == "FOR" else at - 1
        named = tokens[start]
        name = known.get(folded(unquote(named.text) if named.kind == "quoted" else named.text))
        if start < 1 or name is None or words[start - 1] == ".":
            continue
        line, column = line_and_column(text, tokens[at].start)
        if kind in _TIME:
            raise UnsupportedError(
                f'cannot read "{name}" as of a time',
                detail="Epochs have numbers; when they were committed is not kept.",
                hint="Use VERSION AS OF with an epoch, as the session's `epoch` and `__time` say.",
                line=line,
                column=column,
            )
        said = tokens[at + 3]
        digits = said.text[1:-1] if said.kind == "string" else said.text
        if said.kind not in ("number", "string") or not (digits.isascii() and digits.isdigit()):
            line, column = line_and_column(text, said.start)
            raise SqlSyntaxError(
                f'"{said.text}" is no epoch',
                hint="Write VERSION AS OF 12.",
                line=line,
                column=column,
            )
        yield start, at + 3, name, int(digits)


def _is_alias(token: Token | None) -> bool:
    if token is None:
        return False
    return token.kind == "quoted" or (token.kind == "word" and token.word not in _NO_ALIAS)


def _free(name: str, text: str) -> str:
    words = set(words_of(text))
    while folded(name) in words:
        name += "v"
    return name


def _as_long(new: str, old: str) -> str:
    """With spaces and new lines so that what follows is where it was."""
    lines = old.count("\n")
    if not lines:
        return new.ljust(len(old))
    return new + "\n" * lines + " " * (len(old) - old.rfind("\n") - 1)
