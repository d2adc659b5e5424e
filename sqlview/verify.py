"""VERIFY: a view's rows against a recompute of its query by another engine.

DuckDB is asked first: it is always there, and its copies of the base tables, loaded at the first
verification, follow every step, so that a verification costs one recompute and not an export. What
DuckDB cannot say as Spark means it Spark recomputes, from the tables' rows; and before anything is
called wrong because of DuckDB, Spark is asked too.

Both compute in the view's time zone, which DuckDB has only if it is UTC.

Invariant: what an engine or a library under it raises is an outcome, or an error of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from operators.flight import arrow
from operators.flight.delta import Delta
from planner import parse
from planner.calculus.types import Field, IntervalType, holds
from planner.calculus.zones import UTC
from planner.errors import ViewError
from planner.names import folded
from sqlview.catalog import Catalog, Table, View
from sqlview.clock import instant_in, shown
from sqlview.display import preformatted
from sqlview.oracle import CannotSay, Difference, DuckDBOracle, Oracle, RowError, compare

#: As `engine` says, and as people do.
ENGINES = {"duckdb": "DuckDB", "spark": "Spark"}

#: What a view holds: its rows, or why it is in error.
_Held: TypeAlias = "pa.Table | ViewError"


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of VERIFY for `view` at `epoch`.

    `rows`: of the view. `difference`: None if the rows are those of the recompute. `error`: why the
    view is in error, if it is; `recompute_error`: why the recompute gives no rows, if it does not.
    A view in error is right where its recompute fails too. `engine`: who recomputed; `note`: why it
    was not DuckDB, or who else was asked and what was said.
    """

    view: str
    epoch: int
    rows: int
    difference: Difference | None
    engine: str = "DuckDB"
    note: str | None = None
    error: str | None = None
    recompute_error: str | None = None

    @property
    def equal(self) -> bool:
        """Whether the view is what its recompute is: the same rows, or in error as that is."""
        failures = (self.error is None) == (self.recompute_error is None)
        return self.difference is None and failures

    @property
    def missing(self) -> pa.Table | None:
        """Rows that the recompute has and the view lacks; None where there is no difference."""
        return None if self.difference is None else self.difference.missing

    @property
    def extra(self) -> pa.Table | None:
        """Rows that only the view has; None where there is no difference."""
        return None if self.difference is None else self.difference.extra

    @property
    def outcome(self) -> str:
        """What was found, without the rows and the note."""
        name, when = f'view "{self.view}"', f"at epoch {self.epoch}"
        recompute = "recompute" if self.engine == "DuckDB" else f"recompute by {self.engine}"
        if self.error is not None:
            alike = "and so is its" if self.equal else "but DIFFERS from its"
            return f"{name} is in error, {alike} {recompute} {when}"
        outcome = "equals" if self.equal else "DIFFERS from"
        failed = "" if self.recompute_error is None else f", which fails: {self.recompute_error}"
        return f"{name} {outcome} its {recompute} {when} ({self.rows} rows){failed}"

    def to_arrow(self) -> pa.Table:
        """One row: what VERIFY MATERIALIZED VIEW gives."""
        return pa.table(
            {
                "view": [self.view],
                "epoch": [self.epoch],
                "rows": [self.rows],
                "equal": [self.equal],
                "engine": [self.engine],
                "detail": [str(self)],
            }
        )

    def __str__(self) -> str:
        difference = None if self.difference is None else str(self.difference)
        error = None if self.equal else self.error
        return _joined(self.outcome, error, difference, self.note)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


class Verifier:
    """Recomputes views.

    `rows`: a view's rows now; it raises ViewError while the view is in error. `spark`: an oracle
    without tables on the session's Spark, in a time zone; it raises CannotSay if there is none.
    State: in DuckDB, a copy of every base table that a verified view reads.
    """

    def __init__(
        self,
        catalog: Catalog,
        rows: Callable[[View], pa.Table],
        spark: Callable[[str], Oracle],
    ) -> None:
        self._catalog = catalog
        self._rows = rows
        self._spark = spark
        self._duckdb: DuckDBOracle | None = None
        self._known: set[str] = set()

    def verify(self, view: View, epoch: int, engine: str | None = None) -> Verification:
        """Compare the view with a recompute over the present tables by `engine`; None: by DuckDB,
        and by Spark where DuckDB cannot say the query or finds something wrong.

        Raises: ViewError if no engine that may be asked can say the query.
        """
        held: _Held
        try:
            held = self._rows(view)
        except ViewError as error:
            held = error
            wrong = self._wrong_under(view)
            if wrong is not None:
                found = self.verify(wrong, epoch, engine)
                note = f'It reads view "{wrong.name}", of which this is said.'
                return replace(found, view=view.name, note=_joined(note, found.note))
        if engine is not None:
            return self._asked(view, epoch, held, engine)
        try:
            first = self._judged(view, epoch, held, "duckdb")
        except CannotSay as why:
            note = f"DuckDB cannot say this query: {why}"
            return self._asked(view, epoch, held, "spark", note)
        if first.equal:
            return first
        try:
            second = self._judged(view, epoch, held, "spark")
        except CannotSay as why:
            return replace(first, note=f"Spark could not be asked: {why}")
        if second.equal:
            return replace(second, note=f"DuckDB says otherwise: {first.outcome}")
        return replace(second, note="DuckDB says so too.")

    def follow(self, table: Table, delta: Delta) -> None:
        """Take a step's changes of a table, if it is copied here. Before the step is committed."""
        if self._duckdb is None or table.name not in self._known:
            return
        visible = last_versions(delta)
        deletes, inserts = (
            arrow.from_columns(delta.select(rows).columns(), table.schema) for rows in visible
        )
        self._duckdb.apply(table.name, inserts, deletes)

    def forget(self, name: str) -> None:
        """A table or view was dropped or replaced."""
        if self._duckdb is not None and name in self._known:
            self._known.discard(name)
            self._duckdb.drop(name)

    def close(self) -> None:
        """Give up DuckDB and its copies; they are made again when they are needed."""
        if self._duckdb is not None:
            self._duckdb.close()
        self._duckdb = None
        self._known.clear()

    def _asked(
        self, view: View, epoch: int, held: _Held, engine: str, note: str | None = None
    ) -> Verification:
        """Raises: ViewError where `engine` cannot say the query."""
        try:
            return replace(self._judged(view, epoch, held, engine), note=note)
        except CannotSay as why:
            said = f"{ENGINES[engine]} cannot say this query: {why}"
            raise ViewError(
                f'cannot verify view "{view.name}"',
                detail=_joined(note, said),
                hint='Spark may: db.verify(name, engine="spark").' if engine == "duckdb" else None,
            ) from None

    def _judged(self, view: View, epoch: int, held: _Held, engine: str) -> Verification:
        """Raises: CannotSay."""
        error = held.message if isinstance(held, ViewError) else None
        rows = 0 if isinstance(held, ViewError) else held.num_rows
        found = Verification(view.name, epoch, rows, None, ENGINES[engine], error=error)
        try:
            recompute = self._by_duckdb if engine == "duckdb" else self._by_spark
            expected = recompute(view, epoch)
        except RowError as failure:
            return replace(found, recompute_error=str(failure).splitlines()[0])
        if isinstance(held, ViewError):
            return found
        ordered = bool(view.order) and engine == "duckdb"
        by = [key.column for key in view.order]
        return replace(found, difference=compare(held, expected, ordered, by))

    def _by_duckdb(self, view: View, epoch: int) -> pa.Table:
        zone = self._zone_of(view)
        if zone != UTC.id:
            raise CannotSay(f"it depends on the time zone {zone}, and DuckDB knows none here")
        read = self._fields_under(view)
        if any(f.chars is not None for f in read):
            raise CannotSay("it reads columns of type CHAR, which DuckDB compares as others")
        if any(holds(f.type, IntervalType) for f in read):
            raise CannotSay("it reads intervals, of which DuckDB has others")
        if self._calls_functions(view):
            raise CannotSay("it calls functions of the user, which are given to Spark alone")
        if self._duckdb is None:
            self._duckdb = DuckDBOracle(zone=zone)
        try:
            for id in view.reads:
                self._provide(self._duckdb, self._known, id, epoch, "")
            return self._duckdb.query(self._text(view, epoch, ""), view.schema)
        finally:
            if not self._duckdb.sound:
                self.close()

    def _by_spark(self, view: View, epoch: int) -> pa.Table:
        oracle = self._spark(self._zone_of(view))
        try:
            known: set[str] = set()
            for id in view.reads:
                self._provide(oracle, known, id, epoch, "Z")
            return oracle.query(self._text(view, epoch, "Z"), view.schema)
        finally:
            oracle.close()

    def _zone_of(self, view: View) -> str:
        """The time zone that the view, and what it reads, depend on. Raises: CannotSay if they are
        several: a recompute is one query."""
        zones = {v.zone.id: v.name for v in self._catalog.views_under(view) if v.zoned}
        if len(zones) > 1:
            listed = " and ".join(f'{zone} (view "{name}")' for zone, name in zones.items())
            raise CannotSay(f"what it reads depends on several time zones, {listed}")
        return next(iter(zones), UTC.id)

    def _fields_under(self, view: View) -> list[Field]:
        """The columns of all that the view reads, itself or through views."""
        read = {id for v in self._catalog.views_under(view) for id in v.reads}
        return [f for id in read for f in self._catalog.entry(id).schema]

    def _calls_functions(self, view: View) -> bool:
        """Whether it may call functions of the user, itself or through views."""
        names = {folded(f.name) for f in self._catalog.functions()}
        under = self._catalog.views_under(view)
        return any(not names.isdisjoint(parse.words_of(v.text)) for v in under)

    def _is_timed(self, view: View) -> bool:
        """Whether its own text says now()."""
        clock = self._catalog.clock
        return clock is not None and clock.id in view.reads

    def _text(self, view: View, epoch: int, utc: str) -> str:
        """What the view's text means at the time of the epoch. `utc`: how an instant says that it
        is in UTC, to who has another time zone."""
        clock = self._catalog.clock
        if clock is None or not self._is_timed(view):
            return parse.plain(view.text)
        now = instant_in(clock, epoch)
        return parse.at_clock(
            parse.plain(view.text), f"TIMESTAMP '{shown(now):%Y-%m-%d %H:%M:%S.%f}{utc}'"
        )

    def _provide(self, oracle: Oracle, known: set[str], id: str, epoch: int, utc: str) -> None:
        """Give the oracle a table's rows, or a view's text and what is under it."""
        entry = self._catalog.entry(id)
        if entry is self._catalog.clock:
            return
        if entry.name in known:
            if not (isinstance(entry, View) and self._is_timed(entry)):
                return
            oracle.drop(entry.name)
        if isinstance(entry, View):
            for under in entry.reads:
                self._provide(oracle, known, under, epoch, utc)
            oracle.create_view(entry.name, self._text(entry, epoch, utc), entry.schema)
        else:
            assert isinstance(entry, Table), "a view over a stream is refused before"
            relation = entry.state.relation
            columns = relation.gather_all(relation.visible(epoch))
            key = [entry.schema[k].name for k in entry.key or ()]
            oracle.load(entry.name, arrow.from_columns(columns, entry.schema), key)
        known.add(entry.name)

    def _wrong_under(self, view: View) -> View | None:
        """A view in error that this one reads and that reads none in error itself."""
        for id in view.reads:
            entry = self._catalog.entry(id)
            if isinstance(entry, View) and entry.computed:
                try:
                    self._rows(entry)
                except ViewError:
                    return self._wrong_under(entry) or entry
        return None


def _joined(*sentences: str | None) -> str:
    return "\n".join(s for s in sentences if s)


def last_versions(delta: Delta) -> tuple[np.ndarray, np.ndarray]:
    """Positions of a step's net deletes and inserts: rows born and dead within it are neither."""
    rows = delta.bindings[0].rows
    both = np.intersect1d(rows[delta.diff < 0], rows[delta.diff > 0])
    lasting = ~np.isin(rows, both)
    return np.flatnonzero(lasting & (delta.diff < 0)), np.flatnonzero(lasting & (delta.diff > 0))
