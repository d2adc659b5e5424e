"""Keys to look up, sorted as indexes are, so that a lookup seeks each distinct key once.

Sorting costs more than many a lookup: probes are made once for a delta and its columns, whatever
number of indexes and views they go to (see operators.flight.delta).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from operators.flight.column import Bools, Ints
from operators.kernels import lookup
from operators.kernels.sorting import BUCKETS
from operators.quick import quick
from operators.state.order import sort_keys


@quick
@dataclass(frozen=True, slots=True)
class Probes:
    """n lookups of m distinct keys of w words.

    order int64[n]: positions sorted by (bucket, key), stable. keys int64[w, n]: the distinct keys,
    in that order, in the first m columns. starts int64[n + 1]: the lookups of key g are
    order[starts[g]] to order[starts[g + 1] - 1]. buckets int64[65]: the first key of each bucket.
    """

    order: Ints
    keys: Ints
    distinct: int
    starts: Ints
    buckets: Ints

    def __len__(self) -> int:
        return len(self.order)

    def word(self, number: int) -> Ints:
        """A word of each lookup's key, int64[n]."""
        return self.each(self.keys[number, : self.distinct])

    def each(self, values: Ints) -> Ints:
        """What the distinct keys have, int64[m], of each lookup's key, int64[n]."""
        out = np.empty(len(self.order), np.int64)
        counts = np.diff(self.starts[: self.distinct + 1])
        out[self.order] = np.repeat(values, counts)
        return out

    def those(self, keep: Bools) -> Probes:
        """The same keys, of the lookups where `keep` bool[n] is set."""
        sorted_keep = keep[self.order]
        before = np.zeros(len(self.order) + 1, np.int64)
        np.cumsum(sorted_keep, out=before[1:])
        starts = np.empty_like(self.starts)
        starts[: self.distinct + 1] = before[self.starts[: self.distinct + 1]]
        return Probes(self.order[sorted_keep], self.keys, self.distinct, starts, self.buckets)


def sort_probes(words: Ints, order: Ints | None = None) -> Probes:
    """Lookups of the keys words int64[w, n]; `order` is sort_keys(words) where it is known.

    Cost: a sort, then O(n).
    """
    n = words.shape[1]
    order = sort_keys(words) if order is None else order
    keys, starts = np.empty_like(words), np.empty(n + 1, np.int64)
    buckets = np.empty(BUCKETS + 1, np.int64)
    distinct = lookup.group(words, order, keys, starts, buckets)
    return Probes(order, keys, distinct, starts, buckets)
