"""Views over a stream against the oracle, at every epoch.

What such a view is: the query under it is answered at every epoch over that epoch's events and the
tables as of it; the answers together are its *history*; the rest of the query is over that. The
engine keeps no event, so the harness here keeps the history: in a table of the oracle, for each
view from its installation on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from planner.calculus import types as t
from sqlview.oracle import DuckDBOracle, canonical_rows, compare
from tests.properties.streams import Stream, value
from tests.reference.tables import Change, Row, Table, arrow_table, net

EVENTS = "s"
EVENT_SCHEMA: t.Schema = (
    t.Field("k", t.INT, True),
    t.Field("v", t.INT, True),
    t.Field("d", t.DecimalType(9, 2), False),
    t.Field("w", t.STRING, True),
)
TABLES = {
    "a": Table("a", (t.Field("k", t.INT, False), t.Field("x", t.INT, True),
                     t.Field("g", t.STRING, True)), (0,)),
    "b": Table("b", (t.Field("k", t.INT, True), t.Field("y", t.INT, False)), ()),
}  # fmt: skip
DDL = (
    "CREATE STREAM s (k INT, v INT, d DECIMAL(9,2) NOT NULL, w STRING)",
    "CREATE TABLE a (k INT, x INT, g STRING, PRIMARY KEY (k))",
    "CREATE TABLE b (k INT, y INT NOT NULL)",
)

#: Queries whose rows are events; columns k INT, n INT, d DECIMAL(9,2), w STRING.
LINEAR = (
    "SELECT k, v AS n, d, w FROM s",
    "SELECT k, v AS n, d, w FROM s WHERE v > 0 OR w IS NULL",
    "SELECT s.k, x AS n, d, g AS w FROM s JOIN a ON s.k = a.k",
    "SELECT s.k, y AS n, d, w FROM b JOIN s ON s.k = b.k WHERE y <> 1",
    "SELECT s.k, x + y AS n, d, g AS w FROM s, a, b WHERE s.k = a.k AND b.k = a.x AND s.v <= y",
    "SELECT s.k, x AS n, d, w FROM s JOIN a ON coalesce(s.v, 0) + 1 = a.k AND s.w <=> a.g",
    "SELECT s.k, b1.y AS n, d, w FROM s JOIN b b1 ON s.k = b1.k JOIN b b2 ON b1.y = b2.k",
    "SELECT s.k, x AS n, d, g AS w FROM s LEFT JOIN a ON s.k = a.k AND a.x > 0",
    "SELECT a.k, v AS n, d, w FROM b RIGHT JOIN s ON s.k = b.k AND y = v LEFT JOIN a ON a.k = v",
    "SELECT k, v AS n, d, w FROM s WHERE EXISTS (SELECT 1 FROM b WHERE b.k = s.k)",
    "SELECT k, v AS n, d, w FROM s WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.k = s.k)",
    "SELECT k, v AS n, d, w FROM s WHERE v IN (SELECT y FROM b) AND k IS NOT NULL",
    "SELECT k, v AS n, d, w FROM s WHERE v > (SELECT avg(x) FROM a)",
    "SELECT k, v AS n, d, w FROM s UNION ALL SELECT s.k, y, d, w FROM s JOIN b ON s.v = b.k",
    "SELECT s.k, n, d, w FROM s JOIN (SELECT k, max(y) AS n FROM b GROUP BY k) q ON q.k = s.k",
)
#: What a view makes of events {e}.
ABOVE = (
    "SELECT * FROM ({e}) e",
    "SELECT k, sum(n) AS s, count(*) AS c, avg(d) AS m FROM ({e}) e GROUP BY k",
    "SELECT sum(d) AS s, count(n) AS c, min(n) AS low, max(w) AS high FROM ({e}) e",
    "SELECT w, min(n) AS low, max(d) AS high, count(DISTINCT k) AS c FROM ({e}) e GROUP BY w",
    "SELECT DISTINCT k, w FROM ({e}) e WHERE n IS NOT NULL",
    "SELECT k, n, d FROM ({e}) e ORDER BY n DESC, d LIMIT 4",
    "SELECT k, n FROM ({e}) e UNION ALL SELECT k, x FROM a",
    "SELECT k FROM ({e}) e EXCEPT SELECT k FROM a",
    "SELECT a.k, g, c FROM a JOIN (SELECT k, count(*) AS c FROM ({e}) e GROUP BY k) q ON q.k = a.k",
    "SELECT k, x FROM a WHERE x > (SELECT avg(n) FROM ({e}) e)",
    "SELECT k, y FROM b WHERE k NOT IN (SELECT DISTINCT k FROM ({e}) e WHERE k IS NOT NULL)",
    "SELECT k, sum(n) AS s FROM ({e}) e GROUP BY k HAVING sum(n) > (SELECT min(y) FROM b)",
)


@dataclass(slots=True)
class _Watched:
    """A view, its history in table `history` of the oracle, and the sum of its deltas."""

    name: str
    linear: str
    above: str
    schema: t.Schema
    history: str
    total: Counter[Row] = field(default_factory=Counter)
    batches: list[pa.Table] = field(default_factory=list)
    changes: int = 0


class Checked:
    """A session `db` with the tables and the stream, and the oracle beside it."""

    def __init__(self, db: Any, rng: Random) -> None:
        self._db = db
        self._rng = rng
        self._oracle = DuckDBOracle(threads=1)
        self._tables = {name: table.copy() for name, table in TABLES.items()}
        self._changes = Stream(rng, TABLES, size=8)
        self._views: list[_Watched] = []
        for text in DDL:
            db.sql(text)
        for table in TABLES.values():
            self._oracle.load(
                table.name, arrow_table(table.schema, []), [table.schema[i].name for i in table.key]
            )
        self._oracle.load(EVENTS, arrow_table(EVENT_SCHEMA, []))
        #: View epochs that were compared, and those at which the view changed.
        self.pairs = self.lively = 0

    def close(self) -> None:
        self._oracle.close()
        self._db.close()

    def create(self, linear: str, above: str) -> None:
        """Install a view; its history begins here."""
        name = f"v{len(self._views)}"
        self._db.sql(f"CREATE MATERIALIZED VIEW {name}_events AS {linear}")
        events = self._db.view(f"{name}_events").schema
        self._db.sql(f"DROP MATERIALIZED VIEW {name}_events")
        self._oracle.load(f"{name}_history", arrow_table(events, []))
        self._db.sql(f"CREATE MATERIALIZED VIEW {name} AS {above.format(e=linear)}")
        view = self._db.view(name)
        watched = _Watched(name, linear, above, view.schema, f"{name}_history")
        self._views.append(watched)
        watched.total.update(canonical_rows(view.to_arrow()))
        self._db.subscribe(name, watched.batches.append)
        self._equal(watched, self._expected(watched), "as created")

    def step(self, transactions: int, placement: str | None = None) -> None:
        """Random transactions in one physical step, compared at each of their epochs."""
        begun, expected = [], []
        for _ in range(transactions):
            changes = self._changes.transaction()
            events = [
                tuple(value(self._rng, f) for f in EVENT_SCHEMA)
                for _ in range(self._rng.choice((0, 1, 3, 6)))
            ]
            expected.append(self._advance(changes, events))
            begun.append(self._db.begin())
            half = self._rng.randint(0, len(events))
            begun[-1].insert(EVENTS, events[:half])
            for change in changes:
                getattr(begun[-1], change.op)(change.table, list(change.rows))
            begun[-1].insert(EVENTS, events[half:])
        epochs = self._db.apply(begun, placement)
        for i, watched in enumerate(self._views):
            deltas: dict[int, Counter[Row]] = {}
            for batch in watched.batches:
                for *row, time, diff in canonical_rows(batch):
                    deltas.setdefault(time, Counter())[tuple(row)] += diff
            watched.batches.clear()
            assert set(deltas) <= set(epochs)
            for epoch, results in zip(epochs, expected, strict=True):
                watched.total.update(deltas.get(epoch, {}))
                assert min(watched.total.values(), default=0) >= 0
                watched.total = +watched.total
                self._equal(watched, results[i], f"at epoch {epoch}")
                self.pairs += 1
                self.lively += epoch in deltas
            read = Counter(canonical_rows(self._db.view(watched.name).to_arrow()))
            assert read == watched.total, f"{watched.name} is not the sum of its deltas"

    def _advance(self, changes: list[Change], events: list[Row]) -> list[pa.Table]:
        after = {name: table.copy() for name, table in self._tables.items()}
        for change in changes:
            after[change.table].apply(change)
        for name, table in after.items():
            inserts, deletes = net(self._tables[name], table)
            self._oracle.apply(
                name, arrow_table(table.schema, inserts), arrow_table(table.schema, deletes)
            )
        self._tables = after
        rows = arrow_table(EVENT_SCHEMA, events)
        self._oracle.apply(EVENTS, rows, None)
        for watched in self._views:
            schema = self._history_schema(watched)
            self._oracle.apply(watched.history, self._oracle.query(watched.linear, schema), None)
        self._oracle.apply(EVENTS, None, rows)
        return [self._expected(watched) for watched in self._views]

    def _history_schema(self, watched: _Watched) -> t.Schema:
        described = self._oracle.describe(f"SELECT * FROM {watched.history}")
        return tuple(
            t.Field(name, kind, True)
            for name, kind in zip(described.names, described.types, strict=True)
            if kind is not None
        )

    def _expected(self, watched: _Watched) -> pa.Table:
        over = watched.above.format(e=f"SELECT * FROM {watched.history}")
        return self._oracle.query(over, watched.schema)

    def _equal(self, watched: _Watched, expected: pa.Table, when: str) -> None:
        rows = [
            tuple(float("nan") if v == "NaN" else v for v in r) for r in watched.total.elements()
        ]
        difference = compare(arrow_table(watched.schema, rows), expected)
        text = watched.above.format(e=watched.linear)
        assert difference is None, f"{watched.name} {when}: {difference}\n{text}"


def run(checked: Checked, seed: int, epochs: int, placement: str | None = None) -> None:
    """Views come and go while events arrive; some are the same text, installed at other epochs."""
    rng = Random(seed)
    for i in range(epochs):
        if i % 4 == 0:
            checked.create(rng.choice(LINEAR), rng.choice(ABOVE))
        if i == epochs // 2:
            checked.create(LINEAR[2], ABOVE[1])
            checked.step(1)
            checked.create(LINEAR[2], ABOVE[1])
        checked.step(rng.choice((1, 1, 1, 3)), placement)
