"""Sets of nodes as bits, 64 to a word: what a job may use, what is free, what is kept for a plan."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel

BITS = 64
ONE, NOTHING = np.uint64(1), np.uint64(0)
_SPREAD = np.uint64(0x03F79D71B4CB0A89)  # a de Bruijn sequence: its six highest bits tell which single bit it was multiplied by
_PLACE = np.zeros(BITS, np.uint64)
for _k in range(BITS):
    _PLACE[(int(_SPREAD) << _k & (1 << 64) - 1) >> 58] = _k


def packed(rows: np.ndarray) -> np.ndarray:
    """[..., W] words of rows [..., N] of 0 and 1; node i is bit i % 64 of word i // 64."""
    rows = np.asarray(rows, bool)
    words = -(-rows.shape[-1] // BITS)
    room = np.zeros((*rows.shape[:-1], words * BITS), bool)
    room[..., : rows.shape[-1]] = rows
    return np.packbits(room, axis=-1, bitorder="little").view("<u8").astype(np.uint64)


def members(words: np.ndarray, count: int) -> np.ndarray:
    """The numbers below `count` of the nodes in a set [W]."""
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")[:count])


@inlined
def lowest(x, word):
    """The lowest node in what is left of word x of a set; an unsigned number, which needs no test whether it is negative."""
    return np.uint64(x * BITS) + _PLACE[((word & (~word + ONE)) * _SPREAD) >> np.uint64(58)]


@inlined
def add(words, i):
    """Put node i into the set."""
    words[i >> 6] |= ONE << np.uint64(i & 63)


@inlined
def drop(words, i):
    """Take node i out of the set."""
    words[i >> 6] &= ~(ONE << np.uint64(i & 63))


@inlined
def ones(v):
    """Return the number of nodes in a word."""
    v -= (v >> ONE) & np.uint64(0x5555555555555555)
    v = (v & np.uint64(0x3333333333333333)) + ((v >> np.uint64(2)) & np.uint64(0x3333333333333333))
    v = (v + (v >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((v * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def next_in(words, i, until):
    """The first node from i on that is in the set; `until` where none is before that."""
    x = i >> 6
    if i >= until:
        return until
    word = words[x] >> np.uint64(i & 63) << np.uint64(i & 63)
    while word == NOTHING:
        x += 1
        if x * BITS >= until:
            return until
        word = words[x]
    return min(np.int64(lowest(x, word)), until)


@kernel
def next_out(words, i, until):
    """The first node from i on that is not in the set; `until` where all are before that."""
    x = i >> 6
    if i >= until:
        return until
    word = ~words[x] >> np.uint64(i & 63) << np.uint64(i & 63)
    while word == NOTHING:
        x += 1
        if x * BITS >= until:
            return until
        word = ~words[x]
    return min(np.int64(lowest(x, word)), until)


@inlined
def _part(words, x, first, until):
    """The nodes of word x of a set that are from `first` on and before `until`."""
    word = words[x]
    if x * BITS < first:
        word = word >> np.uint64(first & 63) << np.uint64(first & 63)
    if (x + 1) * BITS > until:
        word &= (ONE << np.uint64(until & 63)) - ONE
    return word


@kernel
def size_of(words, first, until):
    """Return the number of nodes in the set from `first` on and before `until`."""
    n = 0
    for x in range(first >> 6, (until + 63) >> 6):
        n += ones(_part(words, x, first, until))
    return n


@kernel
def add_all(words, first, until):
    """Put the nodes from `first` on and before `until` into the set."""
    for x in range(first >> 6, (until + 63) >> 6):
        word = ~NOTHING
        if x * BITS < first:
            word = word << np.uint64(first & 63)
        if (x + 1) * BITS > until:
            word &= (ONE << np.uint64(until & 63)) - ONE
        words[x] |= word


@kernel
def size(words):
    """Return the number of nodes in the set."""
    n = 0
    for x in range(len(words)):
        n += ones(words[x])
    return n
