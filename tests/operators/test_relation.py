"""Relations in lockstep with a list of rows: append, kill, hold, advance, read."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from unittest import mock

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.arrow import TableReader
from operators.flight.arrow import to_columns as to_columns_of
from operators.flight.column import Column, Ints
from operators.flight.few import FewRows
from operators.kernels import versions
from operators.kernels.memory import BLOCK_BITS, BLOCK_ROWS
from operators.state import relation as relations
from operators.state import storage
from operators.state.relation import BULK_ROWS, CLOSE_ROWS, Relation
from operators.state.rows import NO_IDS
from operators.state.segments import arrays_of
from planner.calculus import types as t
from tests.operators.columns import Row, ints, schema, to_columns, to_rows
from tests.reference.tables import arrow_table
from tests.reference.trace import Trace

FIELDS = schema(
    t.BIGINT,
    t.INT,
    t.BOOLEAN,
    t.STRING,
    t.DecimalType(38, 2),
    t.DecimalType(12, 2),
    t.DOUBLE,
    t.FLOAT,
    t.DATE,
    t.BINARY,
)


def _in_use(relation: Relation) -> int:
    """The bytes of a relation, block by block."""
    every = range(len(relation.schema))
    total = sum(a.nbytes(i, b) for i in every for b, a in relation._waiting[i].items())
    for block, buffers in enumerate(relation._buffers):
        if buffers[relation._ids_slot] is not NO_IDS:
            here = [i for i in every if buffers[relation._value_slot[i]] is not None]
            total += sum(used for _, _, used in relation._in_use(block, here))
            dead = buffers[relation._dead_slot]
            total += 0 if dead is None else dead.nbytes
    return total + relation._died_row.nbytes * 2 + relation._born_first.nbytes * 2


def values(number: int) -> Row:
    """A row of FIELDS that depends on `number`; every seventh value is NULL."""
    row: list[Any] = [
        number * 2**40 - 2**62,
        -number,
        number % 2 == 0,
        "é" * (number % 5) + str(number),
        Decimal(number - 50) * 10**30 + Decimal("0.25"),
        Decimal(-number) / 4,
        math.nan if number % 11 == 0 else number / 3,
        float(number) / 4,
        datetime.date(1995, 1, 1) + datetime.timedelta(days=number),
        bytes([number % 256]) * (number % 3),
    ]
    return tuple(None if (number + i) % 7 == 0 else v for i, v in enumerate(row))


@numba.njit
def _is_visible_before(row, time, dead, born_first, born_time, died_row, died_time):  # type: ignore[no-untyped-def]
    others = (dead, born_first, born_time, died_row, died_time)
    return versions.is_visible(row, time, False, *others)


def _visible_just_before(relation: Relation, rows: list[int], time: int) -> list[int]:
    dead, *others = relation.versions
    return [r for r in rows if _is_visible_before(r, time, dead, *others)]


class Lockstep:
    """A relation and its model. Times below `upper` are complete; `since` may trail it.

    `delivered`: rows come in memory that nobody can write to, as a source delivers them.
    """

    def __init__(self, delivered: bool = False) -> None:
        self.delivered = delivered
        self.relation = Relation(FIELDS)
        self.trace = Trace()
        #: Row ids of the model's rows.
        self.ids: list[int] = []
        self.upper = 1
        self.since = 0

    def step(self, births: list[int], kills: list[float], times: int) -> None:
        """Spread births and deaths of living rows (as fractions of their list) over `times`."""
        first = len(self.trace.lives)
        rows = [values(first + i) for i in range(len(births))]
        born = sorted(self.upper + b % times for b in births)
        living = self.trace.living()
        for row, time in zip(rows, born, strict=True):
            self.trace.append(row, time)
        if rows:
            table = arrow_table(FIELDS, rows)
            columns = to_columns_of(_delivered(table) if self.delivered else table, FIELDS)
            at = self.relation.append(columns, np.array(born, np.int64))
            assert at >= (self.ids[-1] + 1 if self.ids else 0)
            self.ids += range(at, at + len(rows))
        victims: dict[int, int] = {}
        for i, fraction in enumerate(kills):
            if living:
                victims[living[int(fraction * len(living))]] = self.upper + i % times
        # Some of the rows of this very step die too, later in it.
        for i, time in enumerate(born):
            if time + 1 < self.upper + times and births[i] % 3 == 0:
                victims[first + i] = time + 1
        for row_id, time in victims.items():
            self.trace.kill(row_id, time)
        self.relation.kill(ints(*(self.ids[v] for v in victims)), ints(*victims.values()))
        self.upper += times

    def advance(self, hold: int) -> None:
        """A reader holds `hold` times back, the writer the last complete one."""
        self.since = max(self.since, min(self.upper - 1, self.upper - 1 - hold))
        self.relation.advance(self.since)

    def of(self, rows: Ints) -> list[int]:
        """The model's numbers of row ids."""
        of = dict(zip(self.ids, range(len(self.ids)), strict=True))
        return [of[r] for r in rows.tolist()]

    def check(self) -> None:
        relation, trace = self.relation, self.trace
        of = dict(zip(self.ids, range(len(self.ids)), strict=True))
        assert relation.live_rows == len(trace.living())
        for time in range(self.since, self.upper + 1):
            assert [of[r] for r in relation.visible(time).tolist()] == trace.visible(time)
            if time > self.since:
                before = _visible_just_before(relation, self.ids, time)
                assert [of[r] for r in before] == trace.visible(time, as_of=False)
        needed = list(trace.needed(self.since))
        assert [of[r] for r in relation.visible_to_any().tolist()] == needed
        shuffled = needed[::-1] + needed[:3]
        got = to_rows(relation.gather_all(ints(*(self.ids[i] for i in shuffled))), FIELDS)
        assert got == to_rows(to_columns([trace.lives[i].row for i in shuffled], FIELDS), FIELDS)
        stored = relation.rows_from(0).tolist()
        assert set(needed) <= {of[r] for r in stored}
        for row in self.ids[-3:]:
            assert relation.rows_from(row).tolist() == [r for r in stored if r >= row]


_STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 99), max_size=9),
        st.lists(st.floats(0, 1, exclude_max=True), max_size=9),
        st.integers(1, 4),
        st.integers(0, 5),
    ),
    max_size=12,
)


@given(_STEPS)
def test_lockstep(steps: list[tuple[list[int], list[float], int, int]]) -> None:
    """With NUMBA_DISABLE_JIT this runs with blocks of a few rows, which are compacted often."""
    lockstep = Lockstep()
    for births, kills, times, hold in steps:
        lockstep.step(births, kills, times)
        lockstep.check()
        lockstep.advance(hold)
        lockstep.check()


@given(
    st.lists(st.tuples(st.sampled_from(range(8)), st.integers(0, 9), st.floats(0, 0.99))),
)
def test_columns_wait_in_blocks_of_their_own_until_they_are_read(
    steps: list[tuple[int, int, float]],
) -> None:
    """Every append makes a block; columns are read, published, compacted and emptied in any order,
    and one that never is comes right in the end."""
    with (
        mock.patch.object(relations, "BULK_ROWS", 1),
        mock.patch.object(storage, "_WASTE", 1 << 20),
    ):
        lockstep = Lockstep(delivered=True)
        for action, number, fraction in steps:
            relation = lockstep.relation
            rows = relation.visible(lockstep.upper)
            match action:
                case 0 | 1 | 2:
                    lockstep.step([0] * (1 + number % 3), [], 1)
                case 3:
                    lockstep.step([0] * (number % 3), [fraction] * number, 1)
                case 4:
                    lockstep.advance(number % 2)
                case 5 if len(rows):
                    block = int(rows[int(fraction * len(rows))]) >> BLOCK_BITS
                    columns = frozenset({number})
                    assert arrays_of(relation.form(columns), relation.block(block, columns))
                case 6 if len(rows):
                    place = int(fraction * len(rows))
                    found = relation.gather(number, rows[place:][::2].copy())
                    wanted = [lockstep.trace.lives[i].row[number] for i in lockstep.of(rows)]
                    field = (FIELDS[number],)
                    expected = to_columns([(v,) for v in wanted[place:][::2]], field)
                    assert to_rows([found], field) == to_rows(expected, field)
            assert relation.nbytes == _in_use(relation)
        lockstep.check()


def _delivered(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def test_what_nobody_reads_is_not_converted() -> None:
    kinds = schema(t.DATE, t.DecimalType(12, 2), t.STRING, nullable=False)
    rows = [(datetime.date(2000, 1, 1), Decimal(i) / 4, "x") for i in range(3)]
    places = pa.array(np.arange(BULK_ROWS) % 3)
    table = _delivered(arrow_table(kinds, rows).take(places))
    relation = Relation(kinds)
    first = relation.append(to_columns_of(table, kinds), np.full(BULK_ROWS, 1, np.int64))
    relation.advance(1)
    came = relation.nbytes
    assert came >= BULK_ROWS * (4 + 16 + 5)
    assert to_rows([relation.gather(1, ints(first + 5))], kinds[1:2]) == [(Decimal("0.5"),)]
    assert relation.nbytes == came - 8 * BULK_ROWS
    address = table.column(0).chunk(0).buffers()[1].address
    ((_, make),) = relation.block(0, frozenset({0})).waiting
    days, *_ = make()
    assert days.ctypes.data == address
    relation.kill(np.arange(first, first + BULK_ROWS), np.full(BULK_ROWS, 2, np.int64))
    relation.advance(2)
    assert relation.nbytes < 1000


def test_a_few_rows_are_read_where_they_wait() -> None:
    """No lookup converts all rows that ever came; many small ones, one block each."""
    kinds = schema(t.DecimalType(12, 2), nullable=False)
    table = arrow_table(kinds, [(Decimal(i) / 4,) for i in range(BULK_ROWS)])
    relation, batches = Relation(kinds), 5
    rows = np.empty(2 * batches, np.int64)
    for i in range(batches):
        first = relation.append(
            to_columns_of(_delivered(table), kinds), np.full(BULK_ROWS, i + 1, np.int64)
        )
        rows[i], rows[-1 - i] = first + i, first + 40 + i
        relation.advance(i + 1)
    expected = [*range(batches), *(40 + i for i in range(batches - 1, -1, -1))]
    came = relation.nbytes
    for lookup in range(1, batches + 2):
        assert relation.gather(0, rows.copy()).values.tolist() == [25 * i for i in expected]
        assert relation.nbytes == came - 8 * BULK_ROWS * min(lookup, batches)


TWO = schema(t.BIGINT, t.STRING)


def _two(numbers: Ints) -> list[Column]:
    texts = to_columns([(None, "x" * 20)], TWO)[1].take(np.zeros(len(numbers), np.int64))
    return [Column(t.BIGINT, numbers), texts]


@contextmanager
def _stepping(relation: Relation) -> Iterator[None]:
    """Nothing of the relation's rows is lost: ids keep their values."""
    before = relation.visible(10**9)
    expected = relation.gather(0, before).values
    yield
    after = relation.visible(10**9)
    kept = np.isin(before, after)
    assert np.array_equal(relation.gather(0, before[kept]).values, expected[kept])


def test_blocks_that_are_mostly_dead_are_rewritten() -> None:
    relation = Relation(TWO)
    n = 3 * BLOCK_ROWS
    relation.append(_two(np.arange(n)), np.full(n, 1, np.int64))
    relation.advance(1)
    whole = relation.nbytes
    survivors = np.arange(0, n, 10)
    victims = np.setdiff1d(np.arange(n), survivors)
    with _stepping(relation):
        relation.kill(victims, np.full(len(victims), 2, np.int64))
        assert relation.compacted_rows(0) is None
        relation.advance(2)
    assert [relation.compacted_rows(b) for b in range(3)] == [
        int(((survivors >> BLOCK_BITS) == b).sum()) for b in range(3)
    ]
    assert np.array_equal(relation.visible(2), survivors)
    assert np.array_equal(relation.gather(0, survivors).values, survivors)
    assert relation.nbytes < whole / 4
    assert np.array_equal(relation.visible_to_any(), survivors)


def test_a_held_reader_keeps_its_rows_through_compaction() -> None:
    relation = Relation(TWO)
    n = 2 * BLOCK_ROWS
    relation.append(_two(np.arange(n)), np.full(n, 1, np.int64))
    early = np.arange(0, n - 5000)
    late = np.arange(n - 5000, n - 10)
    relation.kill(early, np.full(len(early), 2, np.int64))
    relation.kill(late, np.full(len(late), 5, np.int64))
    relation.advance(3)  # held here, while time goes on to 6
    assert relation.compacted_rows(0) == 0
    assert relation.compacted_rows(1) == 5000
    for time, expected in ((3, 5000), (4, 5000), (5, 10), (6, 10)):
        rows = relation.visible(time)
        assert len(rows) == expected
        assert np.array_equal(relation.gather(0, rows).values, rows)
    relation.advance(6)
    assert relation.compacted_rows(1) == 10
    assert np.array_equal(relation.visible(6), np.arange(n - 10, n))


def test_a_block_that_died_while_it_was_filled_is_rewritten_once_it_is_full() -> None:
    """Only its last rows live on, and none of them dies later; a reader held all until then."""
    relation = Relation(TWO)
    time = 0
    for numbers in np.array_split(np.arange(BLOCK_ROWS - 100), 8):
        assert len(numbers) < BULK_ROWS
        time += 1
        relation.append(_two(numbers), np.full(len(numbers), time, np.int64))
        time += 1
        relation.kill(numbers, np.full(len(numbers), time, np.int64))
        relation.advance(0)
    time += 1
    numbers = np.arange(BLOCK_ROWS - 100, BLOCK_ROWS + 100)
    relation.append(_two(numbers), np.full(200, time, np.int64))
    relation.advance(time)
    assert relation.compacted_rows(0) == 100
    assert np.array_equal(relation.gather(0, relation.visible(time)).values, numbers)


def test_a_trailing_reader_does_not_make_every_step_rewrite_a_block() -> None:
    """A rewrite must pay: what the held reader still sees counts as kept."""
    relation = Relation(TWO)
    relation.append(_two(np.arange(BLOCK_ROWS)), np.full(BLOCK_ROWS, 1, np.int64))
    rewrites = 0
    last = relation.compacted_rows(0)
    for time in range(2, 102):
        start = (time - 2) * 600
        relation.kill(np.arange(start, start + 600), np.full(600, time, np.int64))
        relation.advance(max(1, time - 50))
        if relation.compacted_rows(0) != last:
            last = relation.compacted_rows(0)
            rewrites += 1
    assert rewrites <= 3
    relation.advance(101)
    assert np.array_equal(
        relation.gather(0, relation.visible(101)).values, np.arange(60_000, BLOCK_ROWS)
    )


def test_bytes_stay_in_proportion_to_living_rows() -> None:
    """A queue of 10,000 rows through which two million pass."""
    relation = Relation(TWO)
    live, batch = 10_000, 10_000
    peak = 0
    for time in range(1, 201):
        first = relation.next_row
        relation.append(_two(np.arange(first, first + batch)), np.full(batch, time, np.int64))
        end = relation.next_row - live
        start = max(0, first - live)
        relation.kill(np.arange(start, end), np.full(end - start, time + 1, np.int64))
        relation.advance(time)
        peak = max(peak, relation.nbytes)
    relation.advance(201)
    assert relation.live_rows == live
    row_bytes = 8 + 4 + 20
    assert peak < 6 * BLOCK_ROWS * row_bytes
    assert relation.nbytes < 3 * BLOCK_ROWS * row_bytes


@pytest.mark.parametrize("alive", [0, 5, 1_000])
def test_a_small_relation_that_changes_all_the_time_stays_small(alive: int) -> None:
    """The last block is closed when it is mostly dead, so that it can be rewritten or go."""
    relation = Relation(TWO)
    kept, time, peak = relation.next_row, 1, 0
    relation.append(_two(np.arange(alive)), np.full(alive, time, np.int64))
    for _ in range(2_000):
        time += 1
        first = relation.append(_two(np.arange(100)), np.full(100, time, np.int64))
        assert first == relation.next_row - 100
        relation.kill(np.arange(first, first + 100), np.full(100, time, np.int64))
        relation.advance(time)
        peak = max(peak, relation.nbytes)
    row_bytes = 8 + 4 + 20
    assert peak < (CLOSE_ROWS + 4 * alive + 200) * row_bytes + 2 * BLOCK_ROWS // 8
    rows = relation.visible(time)
    assert rows.tolist() == list(range(kept, kept + alive))
    assert relation.gather(0, rows).values.tolist() == list(range(alive))
    relation.kill(rows, np.full(alive, time + 1, np.int64))
    relation.advance(time + 1)
    assert relation.nbytes <= CLOSE_ROWS * row_bytes + BLOCK_ROWS // 8


def test_a_reader_sees_what_it_held_in_a_block_that_was_closed() -> None:
    relation = Relation(TWO)
    n = 2 * CLOSE_ROWS
    relation.append(_two(np.arange(n)), np.full(n, 1, np.int64))
    relation.kill(np.arange(n - 10), np.full(n - 10, 2, np.int64))
    relation.advance(1)  # held here
    assert relation.append(_two(np.arange(1)), ints(2)) == n  # what it sees counts as kept
    relation.advance(2)
    first = relation.append(_two(np.arange(1)), ints(3))
    assert first == BLOCK_ROWS and relation.compacted_rows(0) == 11
    assert relation.visible(3).tolist() == [*range(n - 10, n + 1), first]
    assert relation.rows_from(n).tolist() == [n, first]


def test_blocks_grow_text_and_addresses() -> None:
    relation = Relation(TWO)
    n = 9 * BLOCK_ROWS + 17
    relation.append(_two(np.arange(n)), np.full(n, 1, np.int64))
    rows = ints(0, BLOCK_ROWS - 1, BLOCK_ROWS, n - 1, 5)
    assert relation.gather(0, rows).values.tolist() == rows.tolist()
    assert relation.gather(1, rows).values.to_pylist() == ["x" * 20] * 5


def test_nulls_may_come_late() -> None:
    """A column's mask is made when its first NULL comes, in the middle of a block."""
    relation = Relation(TWO)
    relation.append(to_columns([(1, "a"), (2, "")], TWO), ints(1, 1))
    relation.append(to_columns([(None, "b"), (3, None)], TWO), ints(2, 2))
    relation.append(to_columns([(4, "c")], TWO), ints(3))
    got = to_rows(relation.gather_all(np.arange(5)), TWO)
    assert got == [(1, "a"), (2, ""), (None, "b"), (3, None), (4, "c")]


def test_slices_of_arrow_arrays_are_copied_from_their_offset() -> None:
    relation = Relation(TWO)
    whole = to_columns([(i, "ab" * i) for i in range(6)], TWO)
    part = [Column(c.type, c.values[2:5]) for c in whole]
    relation.append(part, ints(1, 1, 1))
    assert to_rows(relation.gather_all(ints(2, 0)), TWO) == [(4, "abababab"), (2, "abab")]


def test_many_rows_at_once_stay_where_they_are() -> None:
    relation = Relation(TWO)
    relation.append(_two(np.arange(3)), ints(1, 1, 1))
    n = BLOCK_ROWS + BULK_ROWS
    numbers = np.arange(n)
    numbers.flags.writeable = False
    first = relation.append(_two(numbers), np.full(n, 2, np.int64))
    later = relation.append(_two(np.arange(2)), ints(3, 3))
    assert first % BLOCK_ROWS == 0 and later % BLOCK_ROWS == 0 and later > first + n
    expected = [*range(3), *range(first, first + n), later, later + 1]
    assert relation.visible(3).tolist() == expected == relation.rows_from(0).tolist()
    assert relation.rows_from(first + n).tolist() == [later, later + 1]
    assert np.array_equal(relation.gather(0, np.arange(first, first + n)).values, numbers)
    buffers = {slot: b for slot, b, _ in relation.block(1, frozenset({0})).used}
    assert any(np.shares_memory(b, numbers) for b in buffers.values())
    relation.kill(np.arange(first, first + n), np.full(n, 4, np.int64))
    relation.advance(4)
    assert relation.visible(4).tolist() == [0, 1, 2, later, later + 1]


def test_a_part_of_a_large_array_does_not_keep_all_of_it() -> None:
    relation = Relation(TWO)
    large = np.arange(16 * BULK_ROWS)
    texts = to_columns([(None, "x" * 20)], TWO)[1].take(np.zeros(len(large), np.int64))
    part = [Column(t.BIGINT, large[-BULK_ROWS:]), Column(t.STRING, texts.values[-BULK_ROWS:])]
    relation.append(part, np.full(BULK_ROWS, 1, np.int64))
    held = [b for _, b, _ in relation.block(0).used]
    assert len(held) == 3
    assert not any(np.shares_memory(b, large) for b in held)
    assert relation.gather(0, ints(BULK_ROWS - 1)).values.tolist() == [len(large) - 1]
    assert relation.gather(1, ints(0)).values.to_pylist() == ["x" * 20]


def test_fresh_decimals_come_as_stored_ones_do() -> None:
    """One transaction brings narrow values for a wide type: a change of it is found."""
    kind = t.DecimalType(38, 2)
    relation = Relation(schema(kind))
    first = relation.append([Column(kind, np.arange(3))], ints(1, 1, 1))
    fresh = relation.gather(0, np.arange(first, first + 3))
    part = relation.gather(0, np.arange(first + 1, first + 3))
    assert fresh.wide and part.wide
    assert np.array_equal(fresh.values[1:], part.values)
    relation.advance(1)
    assert np.array_equal(relation.gather(0, np.arange(first, first + 3)).values, fresh.values)


def test_arrays_that_may_be_written_to_are_copied() -> None:
    relation = Relation(TWO)
    numbers = np.arange(BULK_ROWS)
    relation.append(_two(numbers), np.full(BULK_ROWS, 1, np.int64))
    relation.advance(1)
    numbers += 7
    assert relation.gather(0, ints(0, BULK_ROWS - 1)).values.tolist() == [0, BULK_ROWS - 1]


#: A type of Arrow for each column, and some values.
_TAKEN_AT_ONCE: list[tuple[t.SqlType, pa.DataType, tuple[Any, ...]]] = [
    (t.BIGINT, pa.int64(), (-(2**63), -1, 0, 2**63 - 1)),
    (t.INT, pa.int16(), (-(2**15), 0, 2**15 - 1)),
    (t.DecimalType(12, 2), pa.decimal128(12, 2), (Decimal("-0.01"), Decimal("9999999999.99"))),
    (t.DATE, pa.date32(), (datetime.date(1, 1, 1), datetime.date(9999, 12, 31))),
    (t.STRING, pa.string(), ("", "a", "long" * 300)),
    (t.STRING, pa.string(), ("", "\u00e9", "b")),
    (t.DOUBLE, pa.float64(), (0.5, -1.0)),
    (t.BOOLEAN, pa.bool_(), (True, False)),
]


@given(st.data())
def test_few_rows_are_stored_as_their_columns_are(data: st.DataObject) -> None:
    """Those that one kernel has read, and copies, beside the same column by column: with NULLs and
    texts beyond ASCII, from the middle of a batch."""
    fields = schema(*(kind for kind, _, _ in _TAKEN_AT_ONCE))
    reader, here, there = TableReader(fields), Relation(fields), Relation(fields)
    for time in range(data.draw(st.integers(1, 4), "batches")):
        n, skipped = data.draw(st.integers(1, 9), "rows"), data.draw(st.integers(0, 2), "skipped")
        arrays = []
        for _, kind, values in _TAKEN_AT_ONCE:
            some = st.sampled_from(values)
            if data.draw(st.booleans(), "nulls"):
                some = st.none() | some
            drawn = data.draw(st.lists(some, min_size=n + skipped, max_size=n + skipped))
            arrays.append(pa.array(drawn, kind))
        batch = pa.record_batch(arrays, [f.name for f in fields]).slice(skipped)
        few = reader.columns(batch)
        assert isinstance(few, FewRows)
        times = np.full(n, time, np.int64)
        first = here.append(few, times)
        assert there.append(list(reader.columns(batch)), times) == first
        here.leave_fresh()
        there.leave_fresh()
    rows = np.arange(here.next_row)
    assert to_rows(here.gather_all(rows), fields) == to_rows(there.gather_all(rows), fields)
    assert here.has_nulls == there.has_nulls
