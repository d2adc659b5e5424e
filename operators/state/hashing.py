"""What a store's hashes are made with: a secret of its own, and what is kept as it is.

Whoever knows a hash's secret can look for values that collide, so each store draws one, keeps it to
itself and hands it to its own tasks alone: it is in no message, name, plan or metric.

Invariant: words made with equal `Hashing` are equal for equal values, in every process.
"""

from __future__ import annotations

import secrets

import numpy as np

from operators.flight.column import Ints
from operators.kernels.encoding import EXACT_BYTES

#: Bits of a hash that count, up to 128: tests narrow them to have collisions.
HASH_BITS = 128
#: The most words of a row that are its key as they are.
EXACT_WORDS = 2


class Hashing:
    """`numbers`: the secret's two words, a mask for each word of a hash, the most bytes of a text
    and the most words of a row that are kept as they are: signed integers of 64 bits, to be handed
    to other processes. `array`: what kernels take (see operators.kernels.encoding)."""

    __slots__ = ("array", "exact_words", "numbers")

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self.numbers = numbers
        self.array: Ints = np.array(numbers[:5], np.int64)
        self.exact_words = numbers[5]

    @classmethod
    def drawn(cls) -> Hashing:
        """With a new secret, of 128 random bits."""
        secret = np.frombuffer(secrets.token_bytes(16), np.int64)
        masks = ((1 << min(max(bits, 0), 64)) - 1 for bits in (HASH_BITS, HASH_BITS - 64))
        signed = np.array([*masks], np.uint64).view(np.int64)
        return cls((*secret.tolist(), *signed.tolist(), EXACT_BYTES, EXACT_WORDS))

    def __repr__(self) -> str:
        return "Hashing(…)"
