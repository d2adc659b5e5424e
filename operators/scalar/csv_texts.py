"""Lines of CSV taken apart into texts, and texts put together: what FROM_CSV and TO_CSV do.

A value may be in quotes, within which a backslash escapes quotes and itself. Spark's parser goes on
where a quote stands that nothing escapes: the value is then all up to the next comma, quotes
included. No character ends a line, as one text is one line.

Source: univocity-parsers, `CsvParser.parseQuotedValue` and `CsvWriter`, with Spark's settings of
`CSVOptions`: STOP_AT_DELIMITER, and the escape of the escape is the escape.
"""

from __future__ import annotations

_COMMA, _QUOTE, _ESCAPE = ",", '"', "\\"
#: What stands for no character.
_NONE = "\0"


class _Over(Exception):
    """The text is read."""


def values(line: str) -> list[str]:
    """The values of a line that is not empty, one at least; what is left out is empty."""
    return _Line(line).values()


class _Line:
    """The parser, character by character: `_ch` the present one, `_prev` what it looks back at."""

    __slots__ = ("_at", "_ch", "_prev", "_text", "_unescaped", "_value")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ch = self._prev = _NONE
        self._value = ""
        self._unescaped = False

    def values(self) -> list[str]:
        found: list[str] = []
        try:
            self._next()
            while True:
                if self._ch != _COMMA:
                    self._prev, self._unescaped = _NONE, False
                    if self._ch == _QUOTE:
                        self._quoted()
                    else:
                        self._until(_COMMA)
                found.append(self._value)
                self._value = ""
                self._next()
        except _Over:
            if self._ch == _QUOTE != self._prev and not self._unescaped:
                self._value += _QUOTE
            found.append(self._value)
        return found

    def _next(self) -> None:
        if self._at == len(self._text):
            raise _Over
        self._ch = self._text[self._at]
        self._at += 1

    def _until(self, stops: str) -> None:
        """Take all from the present character to one of these."""
        if self._ch in stops:
            return
        places = [p for p in (self._text.find(s, self._at) for s in stops) if p >= 0]
        end = min(places, default=len(self._text))
        self._value += self._text[self._at - 1 : end]
        self._at = end
        if not places:
            raise _Over  # the present character stays the first of them
        self._next()

    def _quoted(self) -> None:
        if self._prev != _NONE:
            self._to_comma()
            return
        self._next()
        while not (self._prev == _QUOTE and (self._ch <= " " or self._ch == _COMMA)):
            if self._ch in (_QUOTE, _ESCAPE):
                self._escape()
                self._prev = self._ch
                self._next()
                continue
            if self._prev == _QUOTE:
                self._unescaped = True
                self._value += _QUOTE + self._ch
                self._to_comma()
                return
            if self._prev == _ESCAPE:
                self._value += _ESCAPE
            self._until(_QUOTE + _ESCAPE)
            self._prev = self._ch
            self._next()
        self._blanks()

    def _to_comma(self) -> None:
        """The quotes were no quotes: all up to the comma is the value."""
        self._prev = self._value[-1]
        self._value = _QUOTE + self._value
        self._next()
        self._until(_COMMA)

    def _blanks(self) -> None:
        """Blanks behind a closing quote are dropped, unless more than a comma follows."""
        first = self._at - 1
        while self._ch <= " ":
            self._next()
        if self._ch != _COMMA:
            self._value += _QUOTE + self._text[first : self._at]
            self._to_comma()

    def _escape(self) -> None:
        """A quote, or an escape, within quotes."""
        if self._prev == _ESCAPE:
            self._value += self._ch
            self._ch = _NONE
        elif self._prev == _QUOTE:
            self._value += _QUOTE
            if self._ch == _ESCAPE:
                self._prev = self._ch
                self._escaped()

    def _escaped(self) -> None:
        """What follows an escape behind a closing quote, up to the comma, which is lost."""
        while self._ch != _COMMA:
            if self._ch in (_QUOTE, _ESCAPE):
                self._escape()
            elif self._prev == _QUOTE:
                self._value += _QUOTE
                self._prev = self._ch
                self._escaped()
                return
            else:
                self._value += self._ch
            self._prev = self._ch
            self._next()


def line(texts: list[str | None]) -> str | None:
    """Values as a line; None for one that is NULL by itself."""
    if texts == [None]:
        return None
    return _COMMA.join("" if s is None else _written(s, i == 0) for i, s in enumerate(texts))


#: What is trimmed: all up to the blank.
BLANKS = "".join(map(chr, range(33)))


def _written(text: str, first: bool) -> str:
    """Without what is blank at its ends; in quotes if need be, also for what is blank behind it,
    and where it starts a line with #."""
    behind = text.lstrip(BLANKS)
    bare = behind.rstrip(BLANKS)
    if not bare or any(c in behind for c in ',"\n\r') or (first and text[0] == "#"):
        return f'"{bare.replace(_ESCAPE, _ESCAPE * 2).replace(_QUOTE, _ESCAPE + _QUOTE)}"'
    return bare
