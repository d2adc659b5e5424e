"""Arrangements: multi-version indexes `key -> row id` over a relation.

Three kinds, by how rows become key words: on columns (joins, groups, primary keys), on the hash of
the whole row (to find a copy of a row in a bag), and in SQL order (top-k). All are a spine of
sorted batches; versions are the relation's, so that an update or delete touches no index.

Invariant: after `absorb` every row of the relation that some reader may see is in the spine exactly
once, except rows with NULL in a key column that has no NULL word, and those that a partial index's
filter leaves out.
Source: Shared Arrangements §4.2-4.3, §5.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from operators.flight.column import Bools, Column, Ints
from operators.kernels import fronts, lookup, sorting
from operators.kernels.memory import BLOCK_ROWS
from operators.quick import quick
from operators.state import bulk, encode
from operators.state.filters import Filter
from operators.state.probes import Probes, sort_probes
from operators.state.relation import PIECE_ROWS, Relation
from operators.state.rows import Rows
from operators.state.spine import Batch, Spine, make_batch, skips_of, table_of, with_skips
from operators.state.work import Work
from planner import dataflow as ir
from planner.calculus.algebra import SortKey
from planner.calculus.expr import Expr

_EMPTY = np.empty(0, np.int64)
#: Bits of a slice that tell it from others of its bucket.
_SLICES = sorting.SLICE_BITS - sorting.BUCKET_BITS
#: Probes are worth a look at which can match if there are so many, and so many for each entry.
_MANY_PROBES, _FEW_ENTRIES = 2048, 2
#: So many keys are sought one by one: to sort and group them costs more.
FEW_KEYS = 64


@quick
@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of a lookup: probe positions and row ids, int64[m] each."""

    probe: Ints
    row: Ints


class Entries(Protocol):
    """The sorted batches of an index, for those who look keys up."""

    width: int
    entries: int

    @property
    def table(self) -> Ints:
        """int64[b, 4] for kernels: the entry of each batch."""

    def table_with_skips(self) -> Ints:
        """int64[b, 5]: `table`, and the address of each batch's skips."""


class IndexReader:
    """The index `spec` over the rows of `relation`, for those who look keys up. `columns` of the
    relation make its key; `hashed`: of the key, or of an ordered index's partition."""

    hashed: encode.Hashed
    spine: Entries

    def __init__(self, spec: ir.Index, relation: Rows) -> None:
        self.spec = spec
        self.relation = relation
        fields = relation.schema
        match spec:
            case ir.Arrangement():
                self.columns = spec.columns
                self._nulls = tuple(spec.null_safe and fields[c].nullable for c in spec.columns)
                types = [fields[c].type for c in spec.columns]
                width = encode.key_width(types, self._nulls)
                self.hashed = encode.hashed_words(types, self._nulls)
            case ir.HashArrangement():
                self.columns = tuple(range(len(fields)))
                width = 2
                exact = encode.rows_are_exact([f.type for f in fields], relation.hashing)
                self.hashed = () if exact else tuple((c, -1) for c in self.columns)
            case ir.OrderedArrangement():
                self.columns = (*spec.partition, *(k.column for k in spec.order), *spec.ties)
                self._nulls = tuple(fields[c].nullable for c in spec.partition)
                types = [fields[c].type for c in self.columns]
                split = len(spec.partition)
                self.partition_width = encode.key_width(types[:split], self._nulls) or 1
                width = self.partition_width + encode.order_width(types[split:])
                self.hashed = encode.hashed_words(types[:split], self._nulls)
        self.width = max(width, 1)

    @property
    def part(self) -> Expr | None:
        """Of a partial index, the predicate that its rows pass; None for a whole one."""
        return self.spec.filter if isinstance(self.spec, ir.Arrangement) else None

    def key_words(self, rows: Ints, columns: list[Column] | None = None) -> tuple[Ints, Ints]:
        """Keys of relation rows, and the rows that have one (those with NULL may not).

        `columns`: the key columns' values at rows, where the caller has them at hand.
        """
        if columns is None:
            columns = [self.relation.gather(c, rows) for c in self.columns]
        match self.spec:
            case ir.Arrangement():
                if not columns:  # the one group of a global aggregate
                    return np.zeros((1, len(rows)), np.int64), rows
                plain = [
                    c for c, has_word in zip(columns, self._nulls, strict=True) if not has_word
                ]
                present = encode.not_null(plain)
                if present is not None and not present.all():
                    rows = rows[present]
                    columns = [c.filter(present) for c in columns]
                return encode.equality_words(columns, self._nulls, self.relation.hashing), rows
            case ir.HashArrangement():
                return encode.row_words(columns, self.relation.hashing), rows
            case ir.OrderedArrangement():
                split = len(self.spec.partition)
                partition = self.partition_words(columns[:split], len(rows))
                if len(columns) == split:  # in no order
                    words = np.zeros((1, len(rows)), np.int64)
                else:
                    words = encode.order_words(columns[split:], order_keys(self.spec))
                return np.vstack((partition, words)), rows

    def partition_words(self, columns: list[Column], n: int) -> Ints:
        """Words int64[w, n] of an ordered index's partition, of n rows."""
        if not columns:  # a total order is one shard
            return np.zeros((1, n), np.int64)
        return encode.equality_words(columns, self._nulls, self.relation.hashing)

    def first(self, probes: Ints, times: Ints) -> Matches:
        """Of an ordered index: the rows in front of each partition as of its time.

        Shapes: probes int64[partition words, n], sorted as sort_keys does; times int64[n]. Where
        the index is by texts, more rows than one come back for a probe if they tie on its words,
        in any order.
        Cost: one seek per probe and batch; dead entries in front are skipped once, then leapt over.
        A partition at many times is best asked for in order of time.
        """
        assert isinstance(self.spec, ir.OrderedArrangement)
        schema = self.relation.schema
        exact = encode.order_is_exact([schema[k.column].type for k in order_keys(self.spec)])
        n = probes.shape[1]
        work = np.zeros(2, np.int64)
        capacity = n + 16
        dead, born_first, born_time, died_row, died_time = self.relation.versions
        while True:
            out_probe, out_row = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
            found = fronts.first_visible(
                self.spine.table_with_skips(), self.spine.width, probes, times, exact,
                dead, born_first, born_time, died_row, died_time, out_probe, out_row, work,
            )  # fmt: skip
            if found <= capacity:
                break
            capacity = found
            work[:] = 0
        self.looked_up(work)
        return Matches(out_probe[:found], out_row[:found])

    @property
    def null_words(self) -> tuple[bool, ...]:
        """For each key column, whether NULL is a value of its own in it."""
        return self._nulls

    def probe_words(self, columns: Sequence[Column | encode.Worded], n: int) -> Ints:
        """Words int64[w, n] of `n` lookups by the first len(columns) key columns; NULLs must be
        gone already where the index leaves them out."""
        if not columns:  # every row has the empty key
            return np.zeros((1, n), np.int64)
        nulls = self._nulls[: len(columns)]
        return encode.equality_words(columns, nulls, self.relation.hashing)

    def candidates(self, probes: Ints) -> Ints | None:
        """Positions of the probes int64[w, n] that may have a match, where those that have none are
        told apart for less than it costs to sort them, and are the most; else None.

        Cost: a few ns a probe, if the index has half as many entries as there are probes.
        """
        n, entries = probes.shape[1], self.spine.entries
        if n < _MANY_PROBES or _FEW_ENTRIES * entries > n:
            return None
        bits = np.zeros(1 << max(entries // 4, 63).bit_length(), np.int64)
        out = np.empty(n, np.int64)
        found = lookup.candidates(self.spine.table, probes, bits, out)
        return out[:found].copy() if 2 * found <= n else None

    def lookup(
        self,
        probes: Ints,
        times: Ints,
        as_of: bool,
        bits: Ints = _EMPTY,
        order: Ints | None = None,
    ) -> Matches:
        """Visible rows for each probe: as of its time, or just before it.

        Shapes: probes int64[w, n] (w may be fewer words than the index has), times int64[n].
        bits: a filter's bitmap slot (see filters). order: sort_keys(probes), if known.
        Cost: a sort, a seek per distinct key and batch that has keys around it, plus the entries
        under the probed keys, visited once for a key and time.
        """
        if probes.shape[1] == 0 or self.spine.entries == 0:
            return Matches(_EMPTY, _EMPTY)
        return self.lookup_sorted(sort_probes(probes, order), times, as_of, bits)

    def lookup_sorted(
        self, probes: Probes, times: Ints, as_of: bool, bits: Ints = _EMPTY
    ) -> Matches:
        """`lookup`, with the keys sorted already."""
        if len(probes) == 0 or self.spine.entries == 0:
            return Matches(_EMPTY, _EMPTY)
        work = np.zeros(2, np.int64)
        runs, count = self._runs(probes, work)
        return self._found(probes, runs[:count], times, as_of, bits, work)

    def find(self, probes: Probes) -> Ints:
        """Where the entries of the keys of `probes` are: runs int64[r, 4] (see kernels.lookup), for
        as long as the index does not change. Cost: a seek per distinct key and batch that has keys
        around it; runs are not visited."""
        if len(probes) == 0 or self.spine.entries == 0:
            return np.empty((0, 4), np.int64)
        work = np.zeros(2, np.int64)
        runs, count = self._runs(probes, work)
        self.looked_up(work)
        return runs[:count]

    def found(
        self, probes: Probes, runs: Ints, times: Ints, as_of: bool, bits: Ints = _EMPTY
    ) -> Matches:
        """`lookup_sorted`, where `find` has found the `runs` of the keys. Cost: the entries under
        the keys of which `probes` has lookups."""
        return self._found(probes, runs, times, as_of, bits, np.zeros(2, np.int64))

    def _found(
        self, probes: Probes, runs: Ints, times: Ints, as_of: bool, bits: Ints, work: Ints
    ) -> Matches:
        n, table = len(probes), self.spine.table
        if n == 0 or len(runs) == 0:
            self.looked_up(work)
            return Matches(_EMPTY, _EMPTY)
        dead, born_first, born_time, died_row, died_time = self.relation.versions
        out_probe, out_row = np.empty(4 * n + 64, np.int64), np.empty(4 * n + 64, np.int64)
        state = np.zeros(3, np.int64)
        while True:
            needed = lookup.emit(
                table, runs, len(runs), probes.order, probes.starts, times, as_of, bits,
                dead, born_first, born_time, died_row, died_time,
                out_probe, out_row, state, work,
            )  # fmt: skip
            if needed == 0:
                break
            out_probe, out_row = _grown(out_probe, needed), _grown(out_row, needed)
        self.looked_up(work)
        found = int(state[2])
        return Matches(out_probe[:found], out_row[:found])

    def entries_of_few(self, probes: Ints) -> Ints:
        """How many entries each of a few keys int64[w, n] has, int64[n]. Cost: a search in every
        batch for each; entries are not visited."""
        out, work = np.zeros(probes.shape[1], np.int64), np.zeros(2, np.int64)
        if self.spine.entries:
            lookup.entries_of_few(self.spine.table, probes, out, work)
            self.looked_up(work)
        return out

    def lookup_few(self, probes: Ints, time: int, as_of: bool, bits: Ints = _EMPTY) -> Matches:
        """`lookup` of few keys at one time, at most FEW_KEYS: in the order of the probes.

        Cost: a search in every batch for each key, and the entries under the distinct keys.
        """
        n = probes.shape[1]
        if n == 0 or self.spine.entries == 0:
            return Matches(_EMPTY, _EMPTY)
        capacity, versions = 4 * n + 64, self.relation.versions
        while True:
            work = np.zeros(2, np.int64)
            out_probe, out_row = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
            found = lookup.visible_of_few(
                self.spine.table, probes, time, as_of, bits, *versions, out_probe, out_row, work
            )
            if found <= capacity:
                break
            capacity = found
        self.looked_up(work)
        return Matches(out_probe[:found], out_row[:found])

    def living(
        self, probes: Ints, limit: Ints, order: Ints | None = None, left: Bools | None = None
    ) -> Matches:
        """Rows alive now for each probe, at most limit[p] for probe p: a key may have many.

        Shapes: probes int64[w, n], limit int64[n]. order: sort_keys(probes), if known. left
        bool[n], false: set where the key may have further ones. Cost: as
        `lookup`, up to the limit, from the latest rows on.
        """
        total = int(limit.sum())
        if total == 0 or self.spine.entries == 0:
            return Matches(_EMPTY, _EMPTY)
        table, work = self.spine.table, np.zeros(2, np.int64)
        out_probe, out_row = np.empty(total, np.int64), np.empty(total, np.int64)
        dead = self.relation.versions[0]
        if left is None:
            left = np.zeros(len(limit), np.bool_)
        if len(limit) <= FEW_KEYS:
            found = lookup.living_of_few(table, probes, limit, dead, out_probe, out_row, left, work)
        else:
            sought = sort_probes(probes, order)
            runs, count = self._runs(sought, work)
            found = lookup.living(
                table, runs, count, sought.order, sought.starts, limit, dead, out_probe, out_row,
                left, work,
            )  # fmt: skip
        self.looked_up(work)
        return Matches(out_probe[:found], out_row[:found])

    def _runs(self, probes: Probes, work: Ints) -> tuple[Ints, int]:
        """Where the batches have the keys of `probes`, and how often: see kernels.lookup.seek."""
        return _runs(self.spine, probes.keys, probes.buckets, probes.distinct, work)

    def looked_up(self, counts: Ints) -> None:
        """Count a lookup's entries and seeks, int64[2]."""


class IndexVersion(IndexReader):
    """An index of the entries in `batches`, which never change, and no more come: any thread may
    look keys up. `relation`: a version of its relation. `seeks`: how many there were, about."""

    def __init__(self, spec: ir.Index, relation: Rows, batches: Iterable[Batch]) -> None:
        super().__init__(spec, relation)
        self._batches = [b for b in batches if len(b)]
        self.spine: Entries = _Frozen(self.width, self._batches)
        self.seeks = 0

    def rows_in(self, start: int, end: int) -> Ints:
        """The rows of all entries in slices [start, end), ascending. Cost: a look at all entries of
        buckets that are there in part."""
        first, last = start >> _SLICES, -(-end >> _SLICES)
        found: list[Ints] = []
        for batch in self._batches:
            at = slice(batch.offsets[first], batch.offsets[last])
            rows = batch.rows[at]
            if (first << _SLICES, last << _SLICES) != (start, end):
                slices = np.empty(len(rows), np.int64)
                sorting.slices_of(batch.keys[0, at], slices)
                rows = rows[(start <= slices) & (slices < end)]
            found.append(rows)
        return np.sort(np.concatenate(found)) if found else _EMPTY

    def looked_up(self, counts: Ints) -> None:
        self.seeks += int(counts[1])


class _Frozen:
    """Some batches, none of them empty."""

    def __init__(self, width: int, batches: list[Batch]) -> None:
        self.width, self.entries = width, sum(map(len, batches))
        self.table = table_of(batches)
        self._batches = batches

    def table_with_skips(self) -> Ints:
        self._batches = [with_skips(b) for b in self._batches]
        return skips_of(self._batches)


def index_of(spec: ir.Index, relation: Rows, rows: Ints) -> IndexVersion:
    """An index of `rows` of a version, for this one. Cost: a sort of their keys."""
    reader = IndexReader(spec, relation)
    keys, rows = reader.key_words(rows)
    return IndexVersion(spec, relation, [make_batch(keys, rows)])


class ArrangementState(IndexReader):
    """An index that follows its relation.

    `filter`: of a partial index, the bitmap of its predicate; it absorbs a step's rows before the
    index does. State: 8 bytes per key word and 8 for the row id, per row in the relation that
    passes.
    """

    relation: Relation
    spine: Spine

    def __init__(self, spec: ir.Index, relation: Relation, filter: Filter | None = None) -> None:
        super().__init__(spec, relation)
        self.filter = filter
        self._counted_deaths = 0
        self.work = Work()
        self.spine = Spine(self.width)
        self._next_row = 0
        #: Whether it is among those that settle after the step; whether nobody reads it any more.
        self.waits = self.dropped = False
        if self._built() is None:
            self.insert(relation.visible_to_any())

    def absorb(self) -> int:
        """Index the rows appended to the relation since the last call; returns how many."""
        if self._next_row == self.relation.next_row:
            return 0
        built = self._built()
        if built is not None:
            return built
        return self.insert(self.relation.rows_from(self._next_row))

    def insert(self, rows: Ints, keys: Ints | None = None, order: Ints | None = None) -> int:
        """Index `rows` (ascending ids, all appended since the last call that some reader may see);
        `keys` and `order` (sort_keys of them) where the caller has them."""
        end = self.relation.next_row
        self.relation.undo.before(self)
        if self.filter is not None and len(rows):
            rows = rows[self.filter.test(rows)]
        if keys is None and len(rows) >= bulk.BULK_ROWS:
            batch = self.batch_of(rows)
            self.take(batch)
            return len(batch)
        if keys is None and len(rows):
            keys, rows = self.key_words(rows)
        if keys is not None and len(rows):
            self.spine.insert(make_batch(keys, rows, order))
        self._wait()
        self._next_row = end  # only now: whoever fails before tries again
        return len(rows)

    def batch_of(self, rows: Ints) -> Batch:
        """What the index is to have of `rows`, ascending ids. Cost: see `bulk`."""
        if len(rows) >= bulk.BULK_ROWS:
            return bulk.build(self._keyed_pieces(rows), self.spine.width)
        return make_batch(*self.key_words(rows))

    def _built(self) -> int | None:
        """Have what others build of all rows that were appended since the last call: how many; None
        if they do not."""
        build = self.relation.shared.build
        if build is None or self.relation.next_row - self._next_row < bulk.BULK_ROWS:
            return None
        built = build(self, self._next_row, False)
        if built is None:
            return None
        self.take(*built.batches)
        return sum(map(len, built.batches))

    def take(self, *batches: Batch) -> None:
        """Have the entries of all rows that were appended since the last call, in batches that
        have no bucket in common."""
        self.relation.undo.before(self)
        for batch in batches:
            self.spine.insert(batch)
        self._wait()
        self._next_row = self.relation.next_row  # only now: whoever fails before tries again

    def mark(self) -> tuple[int, Any]:
        return self._next_row, self.spine.mark()

    def restore(self, mark: tuple[int, Any]) -> None:
        """The rows that were indexed are not."""
        self._next_row, before = mark
        self.spine.restore(before)
        self._wait()

    def image(self) -> tuple[int, list[Batch]]:
        """All that is kept, as it is now: the row up to which it has absorbed, and the batches."""
        return self._next_row, [batch for batch in self.spine.batches if len(batch)]

    def load(self, next_row: int, batches: Iterable[Batch]) -> None:
        """Be what another one was when its image was made: this one has no entries."""
        self.spine.load(batches)
        self._next_row = next_row
        self._wait()

    def _keyed_pieces(self, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
        """`key_words` of many rows, piece by piece."""
        for start in range(0, len(rows), PIECE_ROWS):
            yield self.key_words(rows[start : start + PIECE_ROWS])

    def _runs(self, probes: Probes, work: Ints) -> tuple[Ints, int]:
        spine, sought = self.spine, probes.distinct
        some = spine.narrowed(probes.keys, sought)
        if some is None:
            before = int(work[1])
            runs, count = super()._runs(probes, work)
            spine.sought(len(probes.keys), sought, int(work[1]) - before, count)
            return runs, count
        runs, count = _runs(spine, some.keys, some.buckets, len(some.numbers), work)
        runs[:count, 1] = some.numbers[runs[:count, 1]]
        return runs, count

    def looked_up(self, counts: Ints) -> None:
        """Count a lookup's entries and seeks, int64[2], for this index and for the dataflow."""
        self.spine.looked_up(int(counts[1]))
        batches = len(self.spine.table)
        self.work.looked_up(counts, batches)
        self.relation.work.looked_up(counts, batches)
        self._wait()

    def maintain(self, inserted: int) -> None:
        """Merge under fuel and drop entries of rows that are gone. Between steps only."""
        dead, _, _, died_row, _ = self.relation.versions
        if self.filter is None or self.relation.live_rows == 0:
            self.spine.sweep(self.relation.live_rows, dead, died_row)
        else:
            self._sweep_part(dead, died_row)
        self.spine.work(inserted, dead, died_row)
        self._wait()

    def settle(self) -> None:
        """Go on with merges that lookups have paid for. Between steps only."""
        if not self.spine.settled and not self.dropped:
            self.maintain(0)

    def _wait(self) -> None:
        if not self.spine.settled:
            self.relation.shared.wait(self)

    def _sweep_part(self, dead: Ints, died_row: Ints) -> None:
        """`sweep` of a partial index. How many of its rows are alive is counted when a quarter of
        them may have died since the last time: a death pays for four entries."""
        deaths = self.relation.deaths
        if 4 * (deaths - self._counted_deaths) >= max(self.spine.entries, BLOCK_ROWS // 16):
            self._counted_deaths = deaths
            self.spine.sweep(self.spine.living(dead), dead, died_row)

    @property
    def nbytes(self) -> int:
        return self.spine.nbytes


def _runs(spine: Entries, keys: Ints, buckets: Ints, count: int, work: Ints) -> tuple[Ints, int]:
    runs = np.empty((min(spine.entries, count * len(spine.table)), 4), np.int64)
    return runs, lookup.seek(spine.table, keys, buckets, runs, work)


def _grown(values: Ints, needed: int) -> Ints:
    """A copy with twice the room, and `needed` more."""
    grown = np.empty(2 * len(values) + needed, np.int64)
    grown[: len(values)] = values
    return grown


def order_keys(spec: ir.OrderedArrangement) -> tuple[SortKey, ...]:
    """The whole order of an ordered index: its ORDER BY, then its ties ascending, NULLs first."""
    return spec.order + tuple(SortKey(c) for c in spec.ties)
