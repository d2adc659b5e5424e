"""The texts of views, written anew where what they name is called otherwise.

A view's text is bound again by EXPLAIN, and by whoever recomputes it. It goes on meaning what it
meant when the view was created: where it names a table that is renamed, it gets the new name, under
the old one as an alias, so that whatever else it says of it stands as it is.

Invariant: a text that was written anew names the same relations, at as many places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from planner import parse
from planner.bind import Reference, bind_query
from planner.errors import CatalogError, SqlViewError
from sqlview.catalog import Catalog, Entry, View

#: Of views, by their ids.
Texts: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Naming:
    """Where a view's text names an entry, and how often it names what."""

    view: View
    places: tuple[Reference, ...]
    named: Counter[str]


def namings(catalog: Catalog, entry: Entry) -> list[Naming]:
    """Of the views that read the entry itself. Cost: binds their texts."""
    found = []
    for view in catalog.views():
        if entry.id in view.reads:
            references = _references(catalog, view, view.text)
            places = tuple(r for r in references if catalog.any(r.name) is entry)
            found.append(Naming(view, places, _named(catalog, references)))
    return found


def renamed_texts(catalog: Catalog, entry: Entry, old: str, before: list[Naming]) -> Texts:
    """The texts of views under the new name of an entry, which the catalog knows already.

    `before`: as they were. Raises: CatalogError where a text cannot follow, since it gives the new
    name to something of its own.
    """

    def replacement(written: str, aliased: bool) -> str:
        name = "`" + entry.name.replace("`", "``") + "`"
        return name if aliased else f"{name} AS {written}"

    return tuple(_followed(catalog, entry, old, before, replacement))


def _followed(
    catalog: Catalog,
    entry: Entry,
    old: str,
    before: list[Naming],
    replacement: Callable[[str, bool], str],
) -> Iterator[tuple[str, str]]:
    for naming in before:
        text = naming.view.text
        for place in reversed(naming.places):
            new = replacement(text[place.start : place.end], place.aliased)
            text = text[: place.start] + new + text[place.end :]
        try:
            named = _named(catalog, _references(catalog, naming.view, text))
        except SqlViewError:
            named = Counter()
        if named != naming.named:
            raise CatalogError(
                f'cannot rename "{old}" to "{entry.name}" because of view "{naming.view.name}"',
                detail="Its query would mean something else with the new name.",
                hint="Choose another name.",
            )
        yield naming.view.id, text


def _references(catalog: Catalog, view: View, text: str) -> tuple[Reference, ...]:
    return bind_query(parse.parse_query(text), catalog, view.zone).references


def _named(catalog: Catalog, references: tuple[Reference, ...]) -> Counter[str]:
    return Counter(catalog.any(r.name).id for r in references)
