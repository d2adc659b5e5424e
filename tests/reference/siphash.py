"""SipHash in Python's integers, as its paper and the authors' reference code define it."""

from __future__ import annotations

_MASK = 2**64 - 1


def siphash128(key: bytes, message: bytes, rounds: tuple[int, int]) -> tuple[int, int]:
    """Both words of the 128-bit output; `rounds`: for each word of the message, and at the end."""
    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = [
        0x736F6D6570736575 ^ k0,
        0x646F72616E646F6D ^ k1 ^ 0xEE,
        0x6C7967656E657261 ^ k0,
        0x7465646279746573 ^ k1,
    ]

    def turn(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & _MASK

    def mix(times: int) -> None:
        for _ in range(times):
            v[0] = (v[0] + v[1]) & _MASK
            v[2] = (v[2] + v[3]) & _MASK
            v[1] = turn(v[1], 13) ^ v[0]
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[1]) & _MASK
            v[0] = (v[0] + v[3]) & _MASK
            v[1] = turn(v[1], 17) ^ v[2]
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = turn(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        mix(rounds[0])
        v[0] ^= word
    words = []
    for row, end in ((2, 0xEE), (1, 0xDD)):
        v[row] ^= end
        mix(rounds[1])
        words.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return words[0], words[1]
