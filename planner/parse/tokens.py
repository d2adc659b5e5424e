"""Tokens of a statement, and a cursor over them that makes errors with their place.

Invariant: text is split where Spark splits it (comments nest, a backslash at the end of a line goes
on with the comment), so what is a bracket or a semicolon here is one there; and the brackets of a
statement match, so that a text put between parentheses cannot leave them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from planner.errors import SqlSyntaxError, UnsupportedError, suggestion
from planner.names import CATALOG, DEFAULT_SCHEMA, folded, full_name

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ )
    | (?P<comment> -- (?: \\\n | [^\r\n] )* )
    | (?P<raw> [rR](?: '[^']*' | "[^"]*" ) )
    | (?P<string> '(?: \\. | '' | [^'\\] )*' | "(?: \\. | "" | [^"\\] )*" )
    | (?P<quoted> `(?: `` | [^`] )*` )
    | (?P<number> (?: \d+\.?\d* | \.\d+ ) (?: [eE][+-]?\d+ )? )
    | (?P<word> [^\W\d]\w* )
    | (?P<open> /\* | ['"`] )
    | (?P<symbol> \|> | \S )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_ENDS = re.compile(r"/\*|\*/")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_SHOWN = 60
_OPENED = {"'": "string", '"': "string", "`": "quoted identifier", "/*": "comment"}


@dataclass(frozen=True, slots=True)
class Token:
    """`word`: the upper-case keyword or symbol; empty for strings and quoted identifiers."""

    kind: str
    text: str
    start: int
    word: str


def lexemes(text: str) -> Iterator[Token]:
    """The whole text in pieces, white space and comments too (kinds "space" and "comment"; "open"
    for the start of what never ends)."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None
        kind, end = str(found.lastgroup), found.end()
        if found[0] == "/*" and (closed := _after_comment(text, end)):
            kind, end = "comment", closed
        piece = text[at:end]
        word = piece.upper() if kind in ("word", "symbol") else ""
        yield Token(kind, piece, at, word)
        at = end


def _after_comment(text: str, at: int) -> int | None:
    """Where the comment ends in which `at` is, those within it included; None if nowhere."""
    depth = 1
    for mark in _COMMENT_ENDS.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return None


def _end(start: int) -> Token:
    return Token("end", "", start, "")


def shortened(text: str) -> str:
    """What a message quotes of a text."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """The 1-based place of a character offset."""
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


class Cursor:
    """Tokens of one statement. `stop` is where it ends, before a closing semicolon. `schema`: of
    relations that are named without one."""

    def __init__(self, text: str, schema: str = DEFAULT_SCHEMA) -> None:
        self.text = text
        self.schema = schema
        self._index = 0
        half = _SURROGATE.search(text)
        if half is not None:
            raise self.error(
                _end(half.start()),
                "the text has half of a surrogate pair",
                detail=f"It is U+{ord(half[0]):04X}, which is no character.",
            )
        self._tokens = list(self._tokenise())
        while self._tokens and self._tokens[-1].word == ";":
            self._tokens.pop()
        last = self._tokens[-1] if self._tokens else _end(0)
        self.stop = last.start + len(last.text)
        if not self._tokens:
            raise SqlSyntaxError("the statement is empty")
        self.first = self._tokens[0]
        self._check()

    def _tokenise(self) -> Iterator[Token]:
        for token in lexemes(self.text):
            if token.kind == "open":
                raise self.error(token, f"unterminated {_OPENED[token.text]}")
            if token.kind not in ("space", "comment"):
                yield token

    def _check(self) -> None:
        """One statement, whose brackets match."""
        opened: list[Token] = []
        for token in self._tokens:
            if token.word == ";":
                raise self.error(token, "there is more than one statement in the text")
            if token.kind == "quoted" and not unquote(token.text):
                raise self.error(token, "a name is empty")
            if token.word in _CLOSING:
                opened.append(token)
            elif token.word in _CLOSING.values():
                if not opened or _CLOSING[opened.pop().word] != token.word:
                    raise self.error(token, f'syntax error at or near "{token.word}"')
        if opened:
            raise self.error(opened[-1], f'"{opened[-1].word}" is never closed')

    def peek(self) -> Token:
        if self._index < len(self._tokens):
            return self._tokens[self._index]
        return _end(self.stop)

    def rest(self) -> list[Token]:
        return self._tokens[self._index :]

    def next(self) -> Token:
        token = self.peek()
        self._index += 1
        return token

    def ahead(self) -> Token | None:
        """The token after the next, if there is one."""
        return self._tokens[self._index + 1] if self._index + 1 < len(self._tokens) else None

    def accept(self, *words: str) -> bool:
        """Skip these words if all of them come next."""
        ahead = self._tokens[self._index : self._index + len(words)]
        if tuple(t.word for t in ahead) != words:
            return False
        self._index += len(words)
        return True

    def expect(self, *words: str) -> Token:
        first = self.peek()
        for word in words:
            if not self.accept(word):
                self.fail(detail=f"Expected {word}.")
        return first

    def take(self, kind: str, what: str) -> Token:
        if self.peek().kind != kind:
            self.fail(detail=f"Expected {what}.")
        return self.next()

    def name(self, what: str) -> str:
        token = self.peek()
        if token.kind not in ("word", "quoted"):
            self.fail(detail=f"Expected the name of a {what}.")
        self.next()
        return unquote(token.text) if token.kind == "quoted" else token.text

    def relation(self, what: str, schema: str | None = None) -> str:
        """The full name of a table, stream or view. `schema`: of a name without one, if it is not
        the one in use."""
        start = self.peek()
        parts = [self.name(what)]
        while self.accept("."):
            parts.append(self.name(what))
        return self.full(start, parts, schema)

    def full(self, start: Token, parts: Sequence[str], schema: str | None = None) -> str:
        """The full name that these parts say, which begin at a token."""
        try:
            return full_name(parts, self.schema if schema is None else schema)
        except ValueError as error:
            raise self.error(
                start,
                f"there can be no relation {'.'.join(f'`{p}`' for p in parts)}",
                detail=f"{str(error)[0].upper()}{str(error)[1:]}.",
                hint=f"Write name, schema.name, or {CATALOG}.schema.name.",
            ) from None

    def name_list(self, what: str) -> tuple[str, ...]:
        self.expect("(")
        names = [self.name(what)]
        while self.accept(","):
            names.append(self.name(what))
        self.expect(")")
        return tuple(names)

    def end(self, hint: str | None = None) -> None:
        if self.peek().kind != "end":
            self.fail(hint=hint)

    def near(self, detail: str | None = None, hint: str | None = None) -> SqlSyntaxError:
        """The next token does not belong here."""
        token = self.peek()
        near = f'at or near "{shortened(token.text)}"'
        place = "at end of input" if token.kind == "end" else near
        return self.error(token, f"syntax error {place}", detail, hint)

    def fail(self, detail: str | None = None, hint: str | None = None) -> NoReturn:
        raise self.near(detail, hint)

    def fail_at(
        self, token: Token, message: str, detail: str | None = None, hint: str | None = None
    ) -> NoReturn:
        raise self.error(token, message, detail, hint)

    def error(
        self, token: Token, message: str, detail: str | None = None, hint: str | None = None
    ) -> SqlSyntaxError:
        line, column = line_and_column(self.text, token.start)
        return SqlSyntaxError(message, detail=detail, hint=hint, line=line, column=column)

    def unsupported(self, what: str, token: Token, why: str, hint: str) -> NoReturn:
        line, column = line_and_column(self.text, token.start)
        shown = what[0].upper() + what[1:]
        raise UnsupportedError(
            f"cannot maintain {what}",
            detail=f"{shown} at line {line}, column {column} {why}.",
            hint=hint,
            line=line,
            column=column,
        )


def words_of(text: str) -> Iterator[str]:
    """All that may be a name in a text of SQL, folded: words and quoted identifiers."""
    bare = []
    for token in lexemes(text):
        if token.kind == "quoted":
            yield folded(unquote(token.text))
        bare.append(token.text if token.kind in ("word", "number", "symbol") else " ")
    yield from map(folded, re.findall(r"\w+", "".join(bare)))


def unquote(text: str) -> str:
    return text[1:-1].replace("``", "`")


def meant(token: Token, known: Sequence[str]) -> str | None:
    """A hint that names the keyword that the word is nearly."""
    return None if token.word in known else suggestion(token.word, known)
