"""A change costs what it reaches, not what is stored: the work of 100-row changes, bounded.

For each of the 22 queries, alone in a session that holds nine tenths of the tables that it reads,
come changes of 100 rows of these tables: arrivals, deletes, updates, returns. Two streams: in the
one, rows change in proportion to the size of their table; in the other half of what is deleted or
updated goes to all tables alike, so that every few steps a nation or a region leaves, and with it
all that hangs on it. For every step:

- *touched* = index entries visited + rows gathered. An entry counts each time that a lookup looks
  at it, also if its row is dead or a filter then throws it away. A row counts each time that it is
  gathered, by however many columns at once. The checks of the tables' own keys and the upkeep of
  all indexes and filters are in it; merges and compaction are not.
- *reach* = join prefixes that survive the filters, summed over the delta paths: the changed rows
  that pass their own filter, and the matches of each half join that pass the filter of the
  occurrence looked up and the residual predicates.
- *batches visited*: those of the indexes that the step looks something up in, each once, however
  many lookups there are; as many as there were before the step or after, since of what it empties
  none are left.
- *rows*: those of the tables that the query reads, as loaded.

The bound: touched <= 4 * reach + 64 * log2(rows) * batches visited: a prefix is one entry found and
a row or two gathered, and a batch has 64 buckets to be searched. Nothing here depends on `rows`
but by its logarithm, so that an operator that reads a table again breaks it; so does the bound on
the median: at scale factor 0.1 half of the steps touch less than a fiftieth of the rows.

`pytest -s` prints the figures.
"""

from __future__ import annotations

import gc
import itertools
import math
import statistics
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pytest

import sqlview
from tpch import stream
from tpch.generate import generate, load
from tpch.queries import Query, all_queries
from tpch.schema import TABLES_BY_NAME

QUERIES = all_queries()
NAMES = [query.name for query in QUERIES]
#: Share of the churn that goes to all tables alike, by the name of the stream.
STREAMS = {"by size": 0.0, "all alike": 0.5}
BATCH_ROWS = 100


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did, in a database of `rows` rows."""

    touched: int
    reach: int
    batches: int
    rows: int

    @property
    def bound(self) -> float:
        return 4 * self.reach + 64 * math.log2(self.rows) * self.batches

    @property
    def share(self) -> float:
        """How much of its bound the step took."""
        return self.touched / max(1.0, self.bound)


def run(query: Query, tables: dict[str, pa.Table], even: float, steps: int) -> list[Step]:
    """The steps of a stream over the tables of a query."""
    own = {name: rows for name, rows in tables.items() if name in query.tables}
    sizes = {name: rows.num_rows for name, rows in own.items()}
    loaded = stream.loaded_rows(sizes, 0.9)
    # The first steps of the whole stream: in a short one small tables would change more often.
    options = stream.StreamOptions(batch_rows=BATCH_ROWS, deletes=0.3, seed=3, even=even)
    plans = itertools.islice(stream.plan_stream(sizes, loaded, options), steps)
    with sqlview.connect(placement="inline") as db:
        for name in own:
            db.sql(TABLES_BY_NAME[name].sql)
        with db.transaction() as tx:
            stream.apply(stream.initial_batch(own, loaded), tx)
        db.sql(query.create_sql)
        with db.transaction() as tx:  # an index of keys that arrived in order is made when needed
            for name, rows in own.items():
                tx.delete(name, rows.slice(0, 1))
        with db.transaction() as tx:
            for name, rows in own.items():
                tx.insert(name, rows.slice(0, 1))
        found = []
        for batch in stream.prebatch(plans, own):
            before = {
                i.spec: (i.state.work.batches, len(i.state.spine.batches))
                for i in db._dataflow.indexes
            }
            with db.transaction() as tx:
                stream.apply(batch, tx)
            done = db.metrics().steps[-1]
            assert done.rows_in == BATCH_ROWS
            found.append(
                Step(
                    touched=done.entries_visited + done.rows_gathered,
                    reach=done.prefixes,
                    batches=sum(
                        max(len(i.state.spine.batches), before[i.spec][1])
                        for i in db._dataflow.indexes
                        if i.state.work.batches > before[i.spec][0]
                    ),
                    rows=sum(loaded.values()),
                )
            )
        assert len(found) == steps
        if even:  # once is enough
            assert db.verify(query.name).equal
        return found


def check(query: Query, tables: dict[str, pa.Table], steps: int, part: float) -> None:
    """`part` of the rows is more than half of the steps of the first stream touch."""
    for name, even in STREAMS.items():
        found = run(query, tables, even, steps)
        worst = max(found, key=lambda s: s.share)
        median = statistics.median(s.touched for s in found)
        print(
            f"\n{query.name}, {name:9s}: {worst.rows:7,d} rows; touched {median:7,.0f} in the "
            f"median; at worst {worst.touched:7,d} for a reach of {worst.reach:7,d} and "
            f"{worst.batches:3d} batches: {worst.share:.2f} of the bound {worst.bound:9,.0f}",
            end="",
        )
        assert worst.share <= 1, (name, worst, worst.bound)
        if even == 0:
            assert median < worst.rows * part


@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
def test_work_at_scale_factor_0_01(query: Query, generated_tables: dict[str, pa.Table]) -> None:
    check(query, generated_tables, steps=8, part=1 / 2)


@pytest.fixture(scope="module")
def larger_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    return load(generate(0.1, tmp_path_factory.mktemp("tpch")))


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
def test_work_at_scale_factor_0_1(query: Query, larger_tables: dict[str, pa.Table]) -> None:
    check(query, larger_tables, steps=16, part=1 / 50)


def test_steps_leave_no_cycles(generated_tables: dict[str, pa.Table]) -> None:
    """Which would keep their rows until the collector comes."""
    sizes = {name: rows.num_rows for name, rows in generated_tables.items()}
    loaded = stream.loaded_rows(sizes, 0.9)
    options = stream.StreamOptions(batch_rows=BATCH_ROWS, deletes=0.3, seed=3)
    plans = itertools.islice(stream.plan_stream(sizes, loaded, options), 10)
    with sqlview.connect(placement="inline") as db:
        for name in generated_tables:
            db.sql(TABLES_BY_NAME[name].sql)
        with db.transaction() as tx:
            stream.apply(stream.initial_batch(generated_tables, loaded), tx)
        for query in QUERIES:
            db.sql(query.create_sql)
        steps = list(stream.prebatch(plans, generated_tables))
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for batch in steps:
                with db.transaction() as tx:
                    stream.apply(batch, tx)
            gc.collect()
            found = Counter(type(o).__name__ for o in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
        assert not found


def test_all_22_are_here() -> None:
    assert [f"q{number:02d}" for number in range(1, 23)] == NAMES
