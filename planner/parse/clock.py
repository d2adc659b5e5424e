"""The time in texts: a text as it means at one value of the clock, for who recomputes a view."""

from __future__ import annotations

from planner.parse.tokens import Token, lexemes

#: What gives the time: whether only as a call, and how it is written of a timestamp.
_CLOCKS = {
    "NOW": (True, "{}"),
    "CURRENT_TIMESTAMP": (False, "{}"),
    "CURRENT_DATE": (False, "CAST({} AS DATE)"),
    "CURDATE": (True, "CAST({} AS DATE)"),
    "LOCALTIMESTAMP": (True, "CAST({} AS TIMESTAMP_NTZ)"),
}


def at_clock(text: str, instant: str) -> str:
    """The text with an expression of a timestamp where it says now(), current_date …."""
    tokens = list(lexemes(text))
    said = [i for i, t in enumerate(tokens) if t.kind not in ("space", "comment")]
    replaced: dict[int, str] = {}
    for place, i in enumerate(said):
        known = _CLOCKS.get(tokens[i].word)
        if known is None or (place and tokens[said[place - 1]].word in (".", "AS")):
            continue
        called = _is_call(tokens, said[place + 1 : place + 3])
        if called or not known[0]:
            replaced[i] = f"({known[1].format(instant)})"
            if called:
                replaced.update(dict.fromkeys(said[place + 1 : place + 3], ""))
    return "".join(replaced.get(i, t.text) for i, t in enumerate(tokens))


def says_clock(text: str) -> bool:
    """Whether the text asks for the time."""
    return at_clock(text, "") != text


def _is_call(tokens: list[Token], after: list[int]) -> bool:
    return [tokens[i].word for i in after] == ["(", ")"]
