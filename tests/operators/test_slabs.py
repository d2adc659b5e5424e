"""Arrays that are cut from slabs share nothing, and what is freed is cut again."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import numpy as np

from operators.slabs import Slabs, is_slab, owner_of

Array = np.ndarray[Any, Any]


def _is_filled(array: Array, value: int) -> bool:
    return bool((array == value).all())


def _some(made: Slabs, rng: random.Random, value: int) -> list[Array]:
    """An array, or what looks at a part of one that nobody else has any more."""
    array = made.empty((int(2 ** rng.uniform(12.5, 18.9)),), np.int64)
    array[:] = value
    if rng.random() < 0.5:
        return [array]
    return [array[3:9], array.reshape(1, -1)[0][::2]]


def test_arrays_keep_what_is_theirs_and_nothing_else() -> None:
    made, rng = Slabs(), random.Random(7)
    live: dict[int, list[Array]] = {}
    most = 0
    for i in range(3000):
        if live and rng.random() < 0.5:
            live.pop(rng.choice(list(live)))
        else:
            live[i] = _some(made, rng, i)
        while len(live) > 60:
            live.pop(rng.choice(list(live)))
        most = max(most, len(made._slabs))
        if i % 100 == 0:
            for value, arrays in live.items():
                assert all(_is_filled(a, value) for a in arrays)
    assert most < 6  # 60 arrays of half a megabyte
    live.clear()
    gc.collect()
    last = made.empty((1 << 14,), np.int64)
    assert len(made._slabs) <= 2
    spare = made.spare_bytes
    array = made.empty((1 << 20,), np.uint8)
    assert made.spare_bytes == spare - array.nbytes
    del array
    assert made.spare_bytes == spare
    assert is_slab(owner_of(last[5:]))
    assert not is_slab(owner_of(np.empty(1 << 14)))


def test_from_many_threads() -> None:
    made, wrong = Slabs(), list[int]()

    def work(seed: int) -> None:
        rng = random.Random(seed)
        live: list[tuple[int, list[Array]]] = []
        for i in range(400):
            live.append((seed * 1000 + i, _some(made, rng, seed * 1000 + i)))
            if len(live) > 8:
                value, arrays = live.pop(rng.randrange(len(live)))
                if not all(_is_filled(a, value) for a in arrays):
                    wrong.append(value)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
