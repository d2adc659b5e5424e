"""Views of graphs, each on data that it makes: `python -m examples.reachability` and so on."""

from __future__ import annotations

import sqlview


def verify(db: sqlview.Session, view: str) -> None:
    """Compare a view with its query in DuckDB, and say so."""
    found = db.verify(view, engine="duckdb")
    print(found)
    assert found.equal, "the view is wrong: please report it"
