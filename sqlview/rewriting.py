"""The texts of views, written anew where what they name is called otherwise.

A view's text is bound again by EXPLAIN, and by whoever recomputes it. It goes on meaning what it
meant when the view was created: where it names a table that is renamed, it gets the new name, under
the old one as an alias, so that whatever else it says of it stands as it is; where it would take a
column that is new, it reads a query of those that there were.

Invariant: a text that was written anew names the same relations, at as many places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from planner import parse
from planner.bind import BoundQuery, Reference, bind_query
from planner.calculus.types import Schema
from planner.errors import CatalogError, SqlViewError
from planner.names import folded
from planner.parse.tokens import lexemes
from sqlview.catalog import Catalog, Entry, Table, View

#: Of views, by their ids.
Texts: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Naming:
    """Where a view's text names an entry, and how often it names what."""

    view: View
    text: str
    places: tuple[Reference, ...]
    named: Counter[str]


def namings(catalog: Catalog, entry: Entry) -> list[Naming]:
    """Of the views that read the entry itself. Cost: binds their texts."""
    found = []
    for view in catalog.views():
        if entry.id in view.reads:
            text = parse.short(view.text)
            references = _bound(catalog, view, text).references
            places = tuple(r for r in references if catalog.any(r.name) is entry)
            found.append(Naming(view, text, places, _named(catalog, references)))
    return found


def renamed_texts(catalog: Catalog, entry: Entry, old: str, before: list[Naming]) -> Texts:
    """The texts of views under the new name of an entry, which the catalog knows already.

    `before`: as they were. Raises: CatalogError where a text cannot follow, since it gives the new
    name to something of its own.
    """

    def replacement(written: str, aliased: bool) -> str:
        name = ".".join(map(_quoted, entry.name.split(".")))
        return name if aliased else f"{name} AS {_last(written)}"

    doing = f'rename "{old}" to "{entry.name}"'
    return tuple(_followed(catalog, doing, before, replacement))


def narrowed_texts(catalog: Catalog, table: Table, added: Schema, before: list[Naming]) -> Texts:
    """The texts of views over a table that has columns `added` behind those of `table` by now, so
    that they read the columns that there were. Most stay as they are: those that take no column
    that they do not name, and name none as the new ones are called."""
    columns = ", ".join(_quoted(f.name) for f in table.schema)

    def replacement(written: str, aliased: bool) -> str:
        derived = f"(SELECT {columns} FROM {written})"
        return derived if aliased else f"{derived} AS {_last(written)}"

    names = frozenset(folded(f.name) for f in added)
    open_to_more = [n for n in before if parse.may_take(parse.parse_query(n.text), names)]
    return tuple(_followed(catalog, f'add columns to "{table.name}"', open_to_more, replacement))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _last(written: str) -> str:
    """The last part of a name."""
    return list(lexemes(written))[-1].text


def _followed(
    catalog: Catalog,
    doing: str,
    before: list[Naming],
    replacement: Callable[[str, bool], str],
) -> Iterator[tuple[str, str]]:
    for naming in before:
        text = naming.text
        for place in reversed(naming.places):
            new = replacement(text[place.start : place.end], place.aliased)
            text = text[: place.start] + new + text[place.end :]
        try:
            bound = _bound(catalog, naming.view, text)
            types = [f.type for f in bound.plan.schema]
            same = _named(catalog, bound.references) == naming.named
            same = same and types == [f.type for f in naming.view.schema]
        except SqlViewError:
            same = False
        if not same:
            raise CatalogError(
                f'cannot {doing} because of view "{naming.view.name}"',
                detail="Its query would mean something else.",
                hint="Choose another name.",
            )
        yield naming.view.id, text


def _bound(catalog: Catalog, view: View, text: str) -> BoundQuery:
    return bind_query(parse.parse_query(text), catalog, view.zone)


def _named(catalog: Catalog, references: tuple[Reference, ...]) -> Counter[str]:
    return Counter(catalog.any(r.name).id for r in references)
