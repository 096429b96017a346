"""A sorted list in blocks, with what a scheduler asks of it: the queue in order, and running jobs by estimated end.

Entries are sorted by (key, row) and kept in blocks of up to 32 with summaries; a list of blocks gives their order. While
all fits one block (a short queue, a small machine) every step is a short loop over neighbours; a queue 20,000 deep, or a
million running jobs, cost a look at the summaries more.

* The queue has rank as key. `find` answers a backfilling pass: the first job in order that may start beside or before the
  reservation. A block keeps, per class c of sizes (2^(c-1), 2^c], the shortest estimate of its jobs of class <= c: two
  look-ups tell whether it is worth opening.
* The running jobs have their estimated end as key. `shadow` answers: when are n processors free?
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import kernel

BLOCK = 32
ALL = np.int64(1) << 40  # more processors than any machine has
entry_dtype = np.dtype([("key", "f8"), ("est", "f8"), ("row", "i4"), ("size", "i4")], align=True)
block_dtype = np.dtype([("used", "i8"), ("total", "i8"), ("stale", "i8")], align=True)


class Blocks(NamedTuple):
    """Entries in blocks, by key: what is queued, or runs."""

    entry: np.ndarray  # [B, BLOCK] of entry_dtype, sorted
    block: np.ndarray  # [B] of block_dtype: entries, the sum of their sizes, has the bound become too low?
    shortest: np.ndarray  # [B, C] shortest estimate among sizes of class <= c; C = 0 where nobody asks
    order: np.ndarray  # [B] blocks in order of their entries; the rest of the list are free blocks
    count: np.ndarray  # type: ignore[assignment] # [2] blocks in use, entries


def build(most: int, classes: int = 0) -> Blocks:
    """Room for `most` entries (memory is touched only as it is used)."""
    count = 4 + 4 * most // BLOCK  # neighbours hold more than BLOCK / 2 together (see remove)
    return Blocks(
        np.empty((count, BLOCK), entry_dtype),
        np.zeros(count, block_dtype),
        np.empty((count, classes)),
        np.arange(count, dtype=np.int32),
        np.zeros(2, np.int64),
    )


@kernel
def size_class(n):
    """0 for n <= 1, else the smallest c with n <= 2^c."""
    c = 0
    n -= 1
    while n > 0:
        n >>= 1
        c += 1
    return c


@kernel
def _locate(blocks, key, row):
    """Index in `order` of the block whose last entry is not before (key, row), or of the last block."""
    low, high = 0, blocks.count[0] - 1
    while low < high:
        mid = (low + high) >> 1
        b = blocks.order[mid]
        last = blocks.entry[b, blocks.block[b]["used"] - 1]
        if last["key"] < key or (last["key"] == key and last["row"] < row):
            low = mid + 1
        else:
            high = mid
    return low


@kernel
def _summarise(blocks, block):
    """Make the shortest estimates of block b anew."""
    shortest, classes = blocks.shortest[block], blocks.shortest.shape[1]
    for c in range(classes):
        shortest[c] = np.inf
    blocks.block[block]["stale"] = 0
    for k in range(blocks.block[block]["used"]):
        x = blocks.entry[block, k]
        c = size_class(x["size"])
        while c < classes and x["est"] < shortest[c]:
            shortest[c] = x["est"]
            c += 1


@kernel
def _new_block(blocks, i):
    """A free block becomes the i-th."""
    b = blocks.order[blocks.count[0]]
    for k in range(blocks.count[0], i, -1):
        blocks.order[k] = blocks.order[k - 1]
    blocks.order[i] = b
    blocks.count[0] += 1
    blocks.block[b]["used"], blocks.block[b]["total"] = 0, 0
    for c in range(blocks.shortest.shape[1]):
        blocks.shortest[b, c] = np.inf
    return b


@kernel
def _forget(blocks, i):
    """The i-th block becomes free."""
    b = blocks.order[i]
    for k in range(i, blocks.count[0] - 1):
        blocks.order[k] = blocks.order[k + 1]
    blocks.count[0] -= 1
    blocks.order[blocks.count[0]] = b


@kernel
def _move(blocks, block, begin, to):
    """Append the entries of block b from `begin` on to block `to`."""
    for k in range(begin, blocks.block[block]["used"]):
        blocks.entry[to, blocks.block[to]["used"]] = blocks.entry[block, k]
        blocks.block[to]["used"] += 1
        blocks.block[to]["total"] += blocks.entry[block, k]["size"]
        blocks.block[block]["total"] -= blocks.entry[block, k]["size"]
    blocks.block[block]["used"] = begin
    _summarise(blocks, to)


@kernel
def insert(blocks, key, row, size, est):
    """Add an entry to the blocks."""
    if blocks.count[0] == 0:
        _new_block(blocks, 0)
    i = _locate(blocks, key, row) if blocks.count[0] > 1 else 0
    b = blocks.order[i]
    if blocks.block[b]["used"] == BLOCK:
        new = _new_block(blocks, i + 1)
        _move(blocks, b, BLOCK // 2, new)
        _summarise(blocks, b)
        last = blocks.entry[b, BLOCK // 2 - 1]
        if last["key"] < key or (last["key"] == key and last["row"] < row):
            b = new
    entry, k = blocks.entry[b], blocks.block[b]["used"]
    while k > 0 and (entry[k - 1]["key"] > key or (entry[k - 1]["key"] == key and entry[k - 1]["row"] > row)):
        entry[k] = entry[k - 1]
        k -= 1
    x = entry[k]
    x["key"], x["row"], x["size"], x["est"] = key, row, size, est
    blocks.block[b]["used"] += 1
    blocks.block[b]["total"] += size
    blocks.count[1] += 1
    for c in range(size_class(size), blocks.shortest.shape[1]):
        if est >= blocks.shortest[b, c]:
            break
        blocks.shortest[b, c] = est


@kernel
def remove(blocks, key, row):
    """Take the entry (key, row) out; it must be there."""
    i = _locate(blocks, key, row) if blocks.count[0] > 1 else 0
    b = blocks.order[i]
    entry, used = blocks.entry[b], blocks.block[b]["used"]
    k = 0
    while entry[k]["row"] != row:
        k += 1
    size = entry[k]["size"]
    for after in range(k + 1, used):
        entry[after - 1] = entry[after]
    blocks.block[b]["used"] = used - 1
    blocks.block[b]["total"] -= size
    blocks.count[1] -= 1
    if used == 1:
        _forget(blocks, i)
        return
    if i + 1 < blocks.count[0] and used - 1 + blocks.block[blocks.order[i + 1]]["used"] <= BLOCK // 2:
        _move(blocks, blocks.order[i + 1], 0, b)
        _forget(blocks, i + 1)
    else:
        blocks.block[b]["stale"] = 1


@kernel
def find(blocks, at, narrow, free, slack):
    """First place >= at whose job has size <= narrow, or size <= free and est <= slack; -1 if none.

    A place is BLOCK * (index of the block in order) + index in the block; after a removal it holds the next entry.
    """
    top = blocks.shortest.shape[1] - 1
    wide = min(size_class(narrow), top) if narrow > 0 else -1
    fit = min(size_class(free), top) if free > 0 else -1
    i, k = at // BLOCK, at % BLOCK
    while i < blocks.count[0]:
        b = blocks.order[i]
        if (fit >= 0 and blocks.shortest[b, fit] <= slack) or (wide >= 0 and blocks.shortest[b, wide] < np.inf):
            entry = blocks.entry[b]
            for x in range(k, blocks.block[b]["used"]):
                n = entry[x]["size"]
                if n <= narrow or (n <= free and entry[x]["est"] <= slack):
                    return i * BLOCK + x
            if blocks.block[b]["stale"]:
                _summarise(blocks, b)
        k = 0
        i += 1
    return -1


@kernel
def shadow(blocks, need, free, now):
    """(T, free at T): the first instant, by the estimates, at which `need` processors are free.

    All releases of that instant count; a job that has outlived its estimate is taken to end now. T is inf where even
    the end of all running jobs does not free enough (part of the machine is down).
    """
    got, i = free, 0
    while i < blocks.count[0] and got + blocks.block[blocks.order[i]]["total"] < need:
        got += blocks.block[blocks.order[i]]["total"]
        i += 1
    if i == blocks.count[0]:
        return np.inf, got
    b, k = blocks.order[i], 0
    while got < need:
        got += blocks.entry[b, k]["size"]
        k += 1
    t = max(blocks.entry[b, max(k - 1, 0)]["key"], now)
    while True:
        while k < blocks.block[b]["used"] and blocks.entry[b, k]["key"] <= t:
            got += blocks.entry[b, k]["size"]
            k += 1
        i += 1
        if k < blocks.block[b]["used"] or i == blocks.count[0]:
            return t, got
        b, k = blocks.order[i], 0
