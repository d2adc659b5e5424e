"""A spine: the immutable sorted batches of one index, merged geometrically under fuel.

Inserting a batch buys work in proportion to its size for every merge in progress, so that no
insertion pays for a big merge, and the number of batches stays logarithmic. While batches are being
merged readers go on using them. Batches of which each goes after those before it, as with ascending
keys, are a chain: they are not merged but joined, four of a size at a time. Fewer batches serve
readers alone, so a merge begins when lookups have sought as much as it costs, or when there are too
many batches to wait for that: an index that is kept for rare changes is hardly merged. Entries of
rows that no reader can see are left out by merges; a spine with many of those is rewritten under
the same fuel (`sweep`).

Invariant: the entries of all batches together are those inserted, less entries of rows that are
gone; batches are adjacent in insertion order.
Source: Shared Arrangements §4.2 (amortized trace maintenance); shards are slices of batches, not
separate spines (this project's own).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from operators.flight.column import Ints
from operators.kernels import memory, sorting, spines
from operators.kernels.memory import BLOCK_ROWS
from operators.kernels.versions import NEVER
from operators.slabs import BATCHES
from operators.state.fingerprints import Known, Narrowed
from operators.state.order import sort_keys
from operators.state.pieces import Home, MappedFiles, Stored

#: Entries merged per entry inserted, for each merge in progress; more is more eager.
EFFORT = 4
#: Entries merged at every insertion, so that trickles finish their merges too.
MINIMUM_FUEL = 2048
#: So many neighbours of one size in a chain are joined to one batch.
CHAIN = 4
#: A batch merges with its successor when it is less than this many times as large.
RATIO = 2.0
#: Entries whose merging a seek is worth.
SEEK_WORTH = 4
#: With more parts than this, batches are merged although nobody has sought anything in them.
MOST_PARTS = 40


#: Batches that come before a table of them is made anew.
_ROOM = 16
#: The entry of a batch whose addresses have not been asked for.
_UNKNOWN = (0, 0, 0, 0)


@dataclass(slots=True)
class Batch:
    """keys int64[w, n], rows int64[n], sorted by (bucket, key, row); offsets int64[65].

    skips int64[n], of ordered indexes: how many entries from each on are known to be gone. It is
    the one thing here that changes, and only to leap over what nobody can see again.
    chain: in each bucket, the keys of batches with one number follow each other; told once, when a
    spine takes the batch.
    """

    keys: Ints
    rows: Ints
    offsets: Ints
    skips: Ints | None = None
    chain: int = 0
    #: Where keys, rows and offsets lie in a file, once they do.
    stored: Stored = field(default_factory=Stored, compare=False)
    #: As kernels take a batch: the addresses of keys, rows and offsets, and the length.
    entry: tuple[int, int, int, int] = field(default=_UNKNOWN, repr=False, compare=False)
    #: Where the skips lie.
    skips_at: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.skips is not None:
            self.skips_at = self.skips.ctypes.data
        if self.entry is _UNKNOWN:
            places = memory.addresses(self.keys, self.rows, self.offsets)
            self.entry = (*places, len(self.rows))

    def __len__(self) -> int:
        return self.entry[3]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.rows.nbytes + self.offsets.nbytes


def keys_at(keys: Ints, positions: Ints) -> Ints:
    """Keys int64[w, m] at positions int64[m], word by word as kernels take them (fancy indexing
    would lay them out key by key)."""
    return keys.take(positions, axis=1)


def make_batch(keys: Ints, rows: Ints, order: Ints | None = None) -> Batch:
    """Sort entries into a batch; `order` is sort_keys(keys) where the caller has it already.

    Requires: rows ascending (equal keys keep their order).
    """
    n = len(rows)
    order = sort_keys(keys) if order is None else order
    out_keys = BATCHES.empty((keys.shape[0], n), np.int64)
    out_rows = BATCHES.empty((n,), np.int64)
    offsets = np.empty(sorting.BUCKETS + 1, np.int64)
    spines.copy_batch(keys, rows, order, out_keys, out_rows, offsets)
    return Batch(out_keys, out_rows, offsets)


def mapped_batch(home: Home, width: int, length: int, files: MappedFiles) -> Batch:
    """The batch of keys of so many words that lies in a file."""
    keys, rows, offsets = (
        files.array(home.file, at, nbytes, np.dtype(np.int64))
        for _, at, nbytes, _ in home.places.tolist()
    )
    stored = Stored(home, mapped=True)
    return Batch(keys.reshape(width, length), rows, offsets, stored=stored)


class _Merge:
    """Adjacent batches on their way to be one: two of any keys, or some of one chain."""

    def __init__(self, inputs: list[Batch], chain: int) -> None:
        self.inputs = inputs
        self._chain = chain
        self._joined = all(b.chain == chain for b in inputs)
        n = sum(map(len, inputs))
        self._keys = BATCHES.empty((inputs[0].keys.shape[0], n), np.int64)
        self._rows = BATCHES.empty((n,), np.int64)
        self._offsets = np.zeros(sorting.BUCKETS + 1, np.int64)
        self._state = np.zeros(4, np.int64)

    def work(self, fuel: int, dead: Ints, died_row: Ints) -> Batch | None:
        if self._joined:
            spines.concatenate(
                table_of(self.inputs), dead, died_row,
                self._keys, self._rows, self._offsets, self._state, fuel,
            )  # fmt: skip
        else:
            a, b = self.inputs
            spines.merge(
                a.keys, a.rows, a.offsets, b.keys, b.rows, b.offsets,
                dead, died_row, self._keys, self._rows, self._offsets, self._state, fuel,
            )  # fmt: skip
        if self._state[0] < sorting.BUCKETS:
            return None
        n = int(self._state[3])
        keys, rows = self._keys, self._rows
        if n < len(rows):
            keys, rows = keys[:, :n].copy(), rows[:n].copy()
        return Batch(keys, rows, self._offsets, chain=self._chain)

    @property
    def nbytes(self) -> int:
        """Bytes written so far, beside the batches."""
        words = int(self._keys.shape[0]) + 1
        return int(self._state[3]) * 8 * words


def table_of(batches: Sequence[Batch]) -> Ints:
    """int64[b, 4] for kernels: the entry of each batch."""
    return np.array([b.entry for b in batches], np.int64).reshape(-1, 4)


class Spine:
    """The batches of one index over keys of `width` words."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._parts: list[Batch | _Merge] = []
        #: The batches as kernels take them, once somebody asked; it is the beginning of `_room`.
        self._table: Ints | None = None
        self._room = np.empty((0, 4), np.int64)
        self.entries = 0
        #: Whether no merge is in progress, and none is called for that is paid for.
        self.settled = True
        #: Entries whose merging lookups have paid for, and those of the cheapest merge unpaid for.
        self._credit = 0
        #: What they have paid for since the last `work`.
        self._paid = 0
        self._price, self._cheapest = NEVER, 0
        #: How many parts were there when merges were last looked for, or 0 where others changed.
        self._seen = 0
        self._merging = 0
        #: The latest chain, and the greatest key that it has in each bucket where it has some.
        self._chain = 0
        self._chains = 0
        self._last = np.zeros((width, sorting.BUCKETS), np.int64)
        self._some = np.zeros(sorting.BUCKETS, np.bool_)
        self.known = Known()

    def insert(self, batch: Batch) -> None:
        """Add a batch; do not merge yet (see `work`)."""
        if len(batch):
            if not spines.follow(batch.keys, batch.offsets, self._last, self._some):
                self._chain = self._new_chain()
            batch.chain = self._chain
            self._parts.append(batch)
            self.known.added(batch.keys)
            self.entries += len(batch)
            if self._table is not None:
                self._enter(batch)
            self.settled = False

    def load(self, batches: Iterable[Batch]) -> None:
        """Be a spine with these batches: this one has none."""
        for batch in batches:
            self.insert(batch)

    def map_stored(self, files: MappedFiles) -> None:
        """Read the batches that lie in files from there, and let their memory go. Between steps."""
        for at, part in enumerate(self._parts):
            if isinstance(part, _Merge):
                part.inputs = [self._mapped(batch, files) for batch in part.inputs]
            else:
                self._parts[at] = self._mapped(part, files)

    def _mapped(self, batch: Batch, files: MappedFiles) -> Batch:
        home = batch.stored.home
        if home is None or batch.stored.mapped:
            return batch
        self._table = None
        found = mapped_batch(home, self.width, len(batch), files)
        return replace(found, skips=batch.skips, chain=batch.chain)

    def mark(self) -> tuple[int, int]:
        return len(self._parts), self.entries

    def restore(self, mark: tuple[int, int]) -> None:
        """The batches that were inserted are gone; nothing was merged since."""
        parts, self.entries = mark
        del self._parts[parts:]
        self._table, self._seen, self.settled = None, 0, False
        # Who follows the latest key is not known any more.
        self._some[:] = False
        self._chain = self._new_chain()

    def narrowed(self, keys: Ints, count: int) -> Narrowed | None:
        """Which of the first `count` of keys int64[w, *], distinct and sorted, may be here, where
        that is known for less than it costs to seek them."""
        return self.known.narrow(keys, count, self._keys, self.entries)

    def sought(self, words: int, count: int, seeks: int, found: int) -> None:
        """A lookup of `count` keys of so many words found so many, with so many seeks."""
        self.known.sought(words, count, seeks, found, self.entries)

    def _keys(self) -> Iterable[Ints]:
        return (b.keys for b in self.batches)

    def looked_up(self, seeks: int) -> None:
        """Lookups have sought so often, which pays for so much merging."""
        self._paid += SEEK_WORTH * seeks
        self._credit = min(self._credit + SEEK_WORTH * seeks, self.entries)
        if self._credit >= self._price:
            self.settled = False

    def work(self, inserted: int, dead: Ints, died_row: Ints) -> None:
        """Merge, for each merge about EFFORT × `inserted` entries and what lookups have paid for.
        Not during a step's reads: entries of rows that no reader sees (`dead`, not in `died_row`)
        disappear.

        Cost: O((inserted + seeks) × merges in progress), which are logarithmic in the entries.
        """
        paid, self._paid = self._paid, 0
        if self.settled:
            return
        fuel = EFFORT * inserted + paid + MINIMUM_FUEL
        while True:
            self.settled = not self._begin_merges()
            if self.settled:
                return
            parts: list[Batch | _Merge] = []
            over = left = 0
            for part in self._parts:
                merged = part.work(fuel, dead, died_row) if isinstance(part, _Merge) else None
                if merged is None:
                    parts.append(part)
                    continue
                assert isinstance(part, _Merge)
                over += 1
                left += sum(map(len, part.inputs)) - len(merged)
                if len(merged):
                    parts.append(merged)
            if over == 0:
                break
            self._parts, self._merging = parts, self._merging - over
            self.entries, self._seen, self._table = self.entries - left, 0, None
            # Fuel was for merges in progress; those that these make possible start now.
            fuel = min(fuel, MINIMUM_FUEL)

    def sweep(self, live: int, dead: Ints, died_row: Ints) -> None:
        """Start rewriting the largest batch if most entries are of rows that are gone: neither
        among the `live` nor among those whose death some reader can tell. Where there are none of
        either, all entries go at once."""
        if live == 0 and len(died_row) == 0:
            self._parts, self._table, self.entries = [], None, 0
            self._merging, self._credit, self._price, self._seen = 0, 0, NEVER, 0
            self.settled = True
            self.known.forget()
            return
        if self.entries <= 2 * (live + len(died_row)) + BLOCK_ROWS // 16:
            return
        # Merges now pay for themselves, by what they leave out.
        self._credit, self.settled = self.entries, False
        if self._merging or not self._parts:
            return
        largest = max(range(len(self._parts)), key=lambda i: len(self._batch(i)))
        self._begin(largest, 1)

    def living(self, dead: Ints) -> int:
        """Entries of rows that are not `dead`. Cost: a bit test per entry."""
        count = self.entries
        for batch in self.batches:
            gone = np.empty(len(batch), np.bool_)
            memory.test_bits(dead, batch.rows, gone)
            count -= int(np.count_nonzero(gone))
        return count

    @property
    def batches(self) -> list[Batch]:
        out: list[Batch] = []
        for part in self._parts:
            out.extend(part.inputs if isinstance(part, _Merge) else (part,))
        return out

    @property
    def table(self) -> Ints:
        """int64[b, 4] for kernels; valid until the next insert or work."""
        if self._table is None:
            known = table_of([b for b in self.batches if len(b)])
            self._room = np.empty((2 * len(known) + _ROOM, 4), np.int64)
            self._table = self._room[: len(known)]
            self._table[:] = known
        return self._table

    def _enter(self, batch: Batch) -> None:
        """One entry more in the table, which has room behind it: most steps add one."""
        assert self._table is not None
        length = len(self._table)
        if length < len(self._room):
            self._room[length] = batch.entry
            self._table = self._room[: length + 1]
        else:
            self._table = None

    def table_with_skips(self) -> Ints:
        """int64[b, 5]: `table`, and the address of each batch's skips, made where missing."""
        for at, part in enumerate(self._parts):
            if isinstance(part, _Merge):
                part.inputs = [with_skips(b) for b in part.inputs]
            else:
                self._parts[at] = with_skips(part)
        return skips_of([b for b in self.batches if len(b)])

    @property
    def nbytes(self) -> int:
        """Bytes of all batches, of merges in progress, and of fingerprints."""
        merging = sum(p.nbytes for p in self._parts if isinstance(p, _Merge))
        return merging + sum(b.nbytes for b in self.batches) + self.known.nbytes

    def _batch(self, i: int) -> Batch:
        part = self._parts[i]
        assert isinstance(part, Batch)
        return part

    def _new_chain(self) -> int:
        self._chains += 1
        return self._chains

    def _begin_merges(self) -> bool:
        """Begin the merges that the sizes call for as far as they are paid for, or the cheapest
        where there are too many parts; returns whether any is in progress. Where parts have only
        been added, the others were looked at before."""
        if self._credit >= self._price:
            self._seen = 0
        if self._seen == 0:
            self._price = NEVER
        begun, at = False, len(self._parts) - 2
        first = max(self._seen - CHAIN + 1, 0)
        self._seen = 0
        while at >= first:
            cost, count = self._called_for(at)
            if count and cost <= self._credit:
                self._begin(at, count)
                self._credit -= cost
                begun = True
            elif count and cost < self._price:
                self._price, self._cheapest = cost, at
            at -= 2 if count == 2 else 1
        if not begun:
            self._seen = len(self._parts)
        if not begun and len(self._parts) > MOST_PARTS and self._price < NEVER:
            self._begin(self._cheapest, self._called_for(self._cheapest)[1])
        return self._merging > 0

    def _called_for(self, at: int) -> tuple[int, int]:
        """Whether the sizes call for merging the parts from `at` on: the entries, and how many
        parts, or 0. Two of any keys merge where the left is not much the larger; CHAIN of one chain
        where none is so much smaller than the others that it has to wait for more of its own."""
        left, right = self._parts[at], self._parts[at + 1]
        if not (isinstance(left, Batch) and isinstance(right, Batch)):
            return 0, 0
        size = left.entry[3]
        if left.chain != right.chain:
            return size + right.entry[3], 2 if size < RATIO * right.entry[3] else 0
        if at + CHAIN > len(self._parts):
            return 0, 0
        cost, least = 0, size
        for part in self._parts[at : at + CHAIN]:
            if not isinstance(part, Batch) or part.chain != left.chain:
                return 0, 0
            cost += part.entry[3]
            least = min(least, part.entry[3])
        return cost, CHAIN if size < CHAIN * least else 0

    def _begin(self, at: int, count: int) -> None:
        inputs = [self._batch(i) for i in range(at, at + count)]
        chain = inputs[0].chain if inputs[0].chain == inputs[-1].chain else self._new_chain()
        merge = _Merge(inputs, chain)
        self._parts[at : at + count] = [merge]
        self._seen = 0
        self._merging += 1


def skips_of(batches: Sequence[Batch]) -> Ints:
    """int64[b, 5] for kernels: the entry of each batch and the address of its skips."""
    return np.array([(*b.entry, b.skips_at) for b in batches], np.int64).reshape(-1, 5)


def with_skips(batch: Batch) -> Batch:
    """The batch with skips, none of which leaps yet where it had none."""
    if batch.skips is not None:
        return batch
    skips = np.zeros(len(batch), np.int64)
    return replace(batch, skips=skips)
