"""VERIFY: a view's rows against a recompute of its query by DuckDB.

The oracle holds copies of the base tables. They are loaded at the first verification and from then
on follow every step, so that a verification costs one recompute, not an export.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from operators import arrow
from operators.delta import Delta
from sqlview.catalog import Catalog, Table, View
from sqlview.oracle import Difference, DuckDBOracle, compare


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of VERIFY for `view` at `epoch`. `missing`: rows the recompute has and the view
    lacks; `extra`: rows that only the view has."""

    view: str
    epoch: int
    rows: int
    difference: Difference | None

    @property
    def equal(self) -> bool:
        return self.difference is None

    @property
    def missing(self) -> pa.Table | None:
        return None if self.difference is None else self.difference.missing

    @property
    def extra(self) -> pa.Table | None:
        return None if self.difference is None else self.difference.extra

    def __str__(self) -> str:
        outcome = "equals" if self.equal else "DIFFERS from"
        line = f'view "{self.view}" {outcome} its recompute at epoch {self.epoch}'
        line += f" ({self.rows} rows)"
        return line if self.equal else f"{line}\n{self.difference}"


class Verifier:
    """Recomputes views in DuckDB. State: a copy of every base table that a verified view reads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._oracle = DuckDBOracle()
        self._known: set[str] = set()

    def verify(self, view: View, actual: pa.Table, epoch: int) -> Verification:
        """Compare the view's present rows with a recompute over the present tables."""
        for name in view.reads:
            self._provide(name, epoch)
        expected = self._oracle.query(view.text, view.schema)
        difference = compare(actual, expected, ordered=bool(view.order))
        return Verification(view.name, epoch, actual.num_rows, difference)

    def follow(self, table: Table, delta: Delta) -> None:
        """Take a step's changes of a table, if it is copied here. Before the step is committed."""
        if table.name not in self._known:
            return
        visible = last_versions(delta)
        deletes, inserts = (
            arrow.from_columns(delta.select(rows).columns(), table.schema) for rows in visible
        )
        self._oracle.apply(table.name, inserts, deletes)

    def forget(self, name: str) -> None:
        """A table or view was dropped."""
        if name in self._known:
            self._known.discard(name)
            self._oracle.drop(name)

    def close(self) -> None:
        self._oracle.close()

    def _provide(self, name: str, epoch: int) -> None:
        entry = self._catalog.find(name)
        assert entry is not None, "a view outlives none of the relations that it reads"
        if entry.name in self._known:
            return
        self._known.add(entry.name)
        if isinstance(entry, View):
            for under in entry.reads:
                self._provide(under, epoch)
            self._oracle.create_view(entry.name, entry.text, entry.schema)
            return
        assert isinstance(entry, Table), "a view over a stream is refused before"
        relation = entry.state.relation
        columns = relation.gather_all(relation.visible(epoch))
        key = [entry.schema[k].name for k in entry.key or ()]
        self._oracle.load(entry.name, arrow.from_columns(columns, entry.schema), key)


def last_versions(delta: Delta) -> tuple[np.ndarray, np.ndarray]:
    """Positions of a step's net deletes and inserts: rows born and dead within it are neither."""
    rows = delta.bindings[0].rows
    both = np.intersect1d(rows[delta.diff < 0], rows[delta.diff > 0])
    lasting = ~np.isin(rows, both)
    return np.flatnonzero(lasting & (delta.diff < 0)), np.flatnonzero(lasting & (delta.diff > 0))
