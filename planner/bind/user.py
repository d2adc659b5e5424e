"""The user's functions, as a query that is bound sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.types import STRING
from planner.context import CatalogReader, UserFunction

_CATALOG: ContextVar[CatalogReader] = ContextVar("catalog")


@contextmanager
def functions_of(catalog: CatalogReader) -> Iterator[None]:
    """Names that are no function of Spark's are those of the catalog, in this block."""
    token = _CATALOG.set(catalog)
    try:
        yield
    finally:
        _CATALOG.reset(token)


def find(name: str) -> UserFunction | None:
    catalog = _CATALOG.get(None)
    return None if catalog is None else catalog.function(name)


def call(function: UserFunction, args: Sequence[Expr]) -> Expr:
    """The call in a plan; NULL may come of anything."""
    named = (Literal(function.name, STRING), Literal(function.id, STRING))
    return Call("user", (*named, *args), function.type, True)
