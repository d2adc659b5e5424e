"""Which keys an index may have: what lookups of many keys that are not there are spared.

A flood of new rows asks for every key whether it is there, and mostly none is: that is a search in
each batch, and one cache miss or more each. Where lookups have sought in vain often enough to have
paid for it, the index keeps 11 to 32 bits for each key, which tell of nearly all keys that they are
not there. They follow what is inserted; keys that go leave theirs, until more keys come than there
is room for: then they are made anew.

Invariant: whatever an index has is told as such. Nothing else is promised, so that they need be
neither stored nor taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from operators.flight.column import Ints
from operators.kernels import fingerprints, sorting
from operators.slabs import BATCHES

#: Lookups of fewer keys neither use nor pay for fingerprints: to search for them is little.
FEW_KEYS = 4096
#: Entries a key sought from which a seek is a leap to where no cache has been.
_SPARSE = 8
#: One lookup of so many goes without, to see what they save.
_MEASURED = 16
#: Keys a word at first, or half as many; and at most, when one in sixty keys is not told apart.
_FIRST, _MOST = 4, 6


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The keys that an index may have, of those that are sought: keys int64[w, *] as seek takes
    them, their numbers int64[m] among all, and where each bucket begins, int64[65]."""

    keys: Ints
    numbers: Ints
    buckets: Ints


class Fingerprints:
    """Those of the leading `words` words of an index's keys; at least `entries` will come."""

    def __init__(self, words: int, entries: int) -> None:
        bits = max(entries // _FIRST, 63).bit_length()
        self._words, self._shift = words, 64 - bits
        self._prints = BATCHES.empty((1 << bits,), np.int64)
        self._prints.fill(0)
        self._left = _MOST << bits

    def add(self, keys: Iterable[Ints]) -> bool:
        """Enter keys int64[w, n]. Returns whether there was room. Cost: 5 to 20 ns a key."""
        for some in keys:
            self._left -= some.shape[1]
            if self._left < 0:
                return False
            fingerprints.add(some, self._words, self._shift, self._prints)
        return True

    def narrow(self, keys: Ints, count: int) -> Narrowed:
        """The keys that may be there: all that are, and of the others a few in a hundred. Cost: 5
        to 20 ns a key."""
        some, numbers = np.empty((self._words, count), np.int64), np.empty(count, np.int64)
        buckets = np.empty(sorting.BUCKETS + 1, np.int64)
        found = fingerprints.narrow(keys, count, self._shift, self._prints, some, numbers, buckets)
        return Narrowed(some, numbers[:found], buckets)

    @property
    def nbytes(self) -> int:
        return self._prints.nbytes


class Known:
    """The fingerprints of one index, by how many words of its keys lookups ask for."""

    def __init__(self) -> None:
        self._prints: dict[int, Fingerprints] = {}
        #: By words, how many seeks in vain lookups have made, beyond one a key: what they pay.
        self._vain: dict[int, int] = {}
        self._lookups = 0

    def added(self, keys: Ints) -> None:
        """Entries with keys int64[w, n] came."""
        for words, prints in list(self._prints.items()):
            if not prints.add([keys]):
                del self._prints[words]

    def forget(self) -> None:
        """The index has nothing any more."""
        self._prints.clear()
        self._vain.clear()

    def narrow(
        self, keys: Ints, count: int, batches: Callable[[], Iterable[Ints]], entries: int
    ) -> Narrowed | None:
        """Which of the first `count` of keys int64[w, *], distinct and in the order of buckets, may
        be there; None where nothing tells for less than seeking them. `batches`: the keys of the
        index, which has so many entries, for fingerprints that are to be made."""
        words = len(keys)
        if _is_cheap(count, entries) or 4 * self._vain.get(words, 0) < entries:
            return None
        self._lookups += 1
        if self._lookups % _MEASURED == 0:
            return None
        prints = self._prints.get(words)
        if prints is None:
            prints = self._prints[words] = Fingerprints(words, entries)
            prints.add(batches())
        return prints.narrow(keys, count)

    def sought(self, words: int, count: int, seeks: int, found: int, entries: int) -> None:
        """A lookup of `count` keys without fingerprints found so many, with so many seeks. Where
        most are found, or few seeks tell that they are not there, fingerprints are no use."""
        if _is_cheap(count, entries):
            return
        vain = seeks - found - count
        known = self._vain.get(words, 0)
        self._vain[words] = min(known + vain, entries) if vain > 0 else 0
        if vain <= 0:
            self._prints.pop(words, None)

    @property
    def nbytes(self) -> int:
        return sum(prints.nbytes for prints in self._prints.values())


def _is_cheap(count: int, entries: int) -> bool:
    """Whether seeking so many keys is little, or goes through the entries one after the other."""
    return count < FEW_KEYS or entries < _SPARSE * count
