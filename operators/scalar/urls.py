"""Parts of URLs, as Java's `URI` takes them apart, and texts of pairs as maps.

Source: Java `java.net.URI` (RFC 2396); Spark `ParseUrl`, `StringToMap`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from operators.flight.column import Bools, Column
from operators.scalar.json_values import column_of
from operators.scalar.lists import parts_by, strict
from operators.scalar.regexps import translated
from operators.scalar.strings import rowwise, text_of
from operators.scalar.value import Builder, Errors, Node, Run, failures
from planner.calculus.expr import Call

_OTHER = r"[^\x00-\x7f\x80-\x9f\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_ESCAPED = "%[0-9A-Fa-f]{2}"
_MARKS = r"[A-Za-z0-9_\-!.~'()*"


def _of(more: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{_MARKS}{more}]|{_ESCAPED}|{_OTHER})*")


_WHOLE = re.compile(r"(?:([^:/?#]*):)?([^#]*)(?:#(.*))?", re.DOTALL)
_REST = re.compile(r"(?://([^/?]*))?([^?]*)(?:\?(.*))?", re.DOTALL)
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*")
_URIC, _PATH = _of(r";/?:@&=+$,\[\]"), _of(r":@&=+$,;/")
_AUTHORITY = _of(r"$,;:@&=+\[\]")
_USER = _of(";:&=+$,")
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_LAST = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2}|0[0-9]{2})"
_SERVER = re.compile(
    rf"(?:(.*)@)?(\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9]+)?\]|(?:{_LABEL}\.)*{_LAST}\.?|{_BYTE}(?:\.{_BYTE}){{3}})"
    r"(?::([0-9]*))?"
)


@dataclass(frozen=True, slots=True)
class _Url:
    scheme: str | None = None
    authority: str | None = None
    user: str | None = None
    host: str | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


def _taken(url: str) -> _Url | None:
    """The parts; None of what is no URL."""
    found = _WHOLE.fullmatch(url)
    assert found is not None
    scheme, rest, fragment = found.groups()
    if scheme is not None and not _SCHEME.fullmatch(scheme):
        return None
    if fragment is not None and not _URIC.fullmatch(fragment):
        return None
    if scheme is not None and not rest.startswith("/"):  # opaque
        good = rest != "" and _URIC.fullmatch(rest)
        return _Url(scheme, fragment=fragment) if good else None
    inner = _REST.fullmatch(rest)
    assert inner is not None
    authority, path, query = inner.groups()
    if not _PATH.fullmatch(path) or (query is not None and not _URIC.fullmatch(query)):
        return None
    if not authority:
        if authority is not None and not path:
            return None
        return _Url(scheme, path=path, query=query, fragment=fragment)
    if not _AUTHORITY.fullmatch(authority):
        return None
    server = _SERVER.fullmatch(authority)
    user = host = None
    if server is not None and (server[1] is None or _USER.fullmatch(server[1])):
        user, host = server[1], server[2]
    elif "[" in authority:
        return None
    return _Url(scheme, authority, user, host, path, query, fragment)


def _part(url: _Url, part: str) -> str | None:
    match part:
        case "HOST":
            return url.host
        case "PATH":
            return url.path
        case "QUERY":
            return url.query
        case "REF":
            return url.fragment
        case "PROTOCOL":
            return url.scheme
        case "FILE":
            return url.path if url.query is None else f"{url.path}?{url.query}"
        case "AUTHORITY":
            return url.authority
        case "USERINFO":
            return url.user
        case _:
            return None


def _parse(call: Call, args: tuple[Node, ...]) -> Run:
    fails = call.function == "parse_url"

    def value(text: str, part: str, key: str | None = None) -> str | None:
        url = _taken(text)
        if url is None:
            if fails:
                raise ValueError("[INVALID_URL] the text is no URL")
            return None
        found = _part(url, part)
        if key is None:
            return found
        if part != "QUERY" or found is None:
            return None
        pair = re.search(rf"(?:&|^){re.escape(key)}=([^&]*)", found)
        return None if pair is None else pair[1]

    return rowwise(args, value, pa.string())


def _to_map(call: Call, args: tuple[Node, ...]) -> Run:
    pairs, inner = (translated(text_of(a) or "", "str_to_map") for a in args[1:])

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        found: list[Any] = []
        bad = []
        for i, text in enumerate(given[0].values.to_pylist()):
            entries = [parts_by(inner, p, 2) for p in parts_by(pairs, text or "", -1)]
            made = {e[0]: e[1] if len(e) > 1 else None for e in entries}
            if len(made) < len(entries):
                bad.append(i)
            found.append(list(made.items()))
        said = ["[DUPLICATED_MAP_KEY] a map has a key twice"] * len(bad)
        return column_of(call.type, found), failures(n, bad, said)

    return strict(args[:1], op)


BUILDERS: dict[str, Builder] = {
    "parse_url": _parse,
    "parse_url_key": _parse,
    "try_parse_url": _parse,
    "str_to_map": _to_map,
}
