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
def _locate(q, key, row):
    """Index in `order` of the block whose last entry is not before (key, row), or of the last block."""
    low, high = 0, q.count[0] - 1
    while low < high:
        mid = (low + high) >> 1
        b = q.order[mid]
        last = q.entry[b, q.block[b]["used"] - 1]
        if last["key"] < key or (last["key"] == key and last["row"] < row):
            low = mid + 1
        else:
            high = mid
    return low


@kernel
def _summarise(q, b):
    """Make the shortest estimates of block b anew."""
    shortest, classes = q.shortest[b], q.shortest.shape[1]
    for c in range(classes):
        shortest[c] = np.inf
    q.block[b]["stale"] = 0
    for k in range(q.block[b]["used"]):
        x = q.entry[b, k]
        c = size_class(x["size"])
        while c < classes and x["est"] < shortest[c]:
            shortest[c] = x["est"]
            c += 1


@kernel
def _new_block(q, i):
    """A free block becomes the i-th."""
    b = q.order[q.count[0]]
    for k in range(q.count[0], i, -1):
        q.order[k] = q.order[k - 1]
    q.order[i] = b
    q.count[0] += 1
    q.block[b]["used"], q.block[b]["total"] = 0, 0
    for c in range(q.shortest.shape[1]):
        q.shortest[b, c] = np.inf
    return b


@kernel
def _forget(q, i):
    """The i-th block becomes free."""
    b = q.order[i]
    for k in range(i, q.count[0] - 1):
        q.order[k] = q.order[k + 1]
    q.count[0] -= 1
    q.order[q.count[0]] = b


@kernel
def _move(q, b, begin, to):
    """Append the entries of block b from `begin` on to block `to`."""
    for k in range(begin, q.block[b]["used"]):
        q.entry[to, q.block[to]["used"]] = q.entry[b, k]
        q.block[to]["used"] += 1
        q.block[to]["total"] += q.entry[b, k]["size"]
        q.block[b]["total"] -= q.entry[b, k]["size"]
    q.block[b]["used"] = begin
    _summarise(q, to)


@kernel
def insert(q, key, row, size, est):
    """Add an entry to the blocks."""
    if q.count[0] == 0:
        _new_block(q, 0)
    i = _locate(q, key, row) if q.count[0] > 1 else 0
    b = q.order[i]
    if q.block[b]["used"] == BLOCK:
        new = _new_block(q, i + 1)
        _move(q, b, BLOCK // 2, new)
        _summarise(q, b)
        last = q.entry[b, BLOCK // 2 - 1]
        if last["key"] < key or (last["key"] == key and last["row"] < row):
            b = new
    entry, k = q.entry[b], q.block[b]["used"]
    while k > 0 and (entry[k - 1]["key"] > key or (entry[k - 1]["key"] == key and entry[k - 1]["row"] > row)):
        entry[k] = entry[k - 1]
        k -= 1
    x = entry[k]
    x["key"], x["row"], x["size"], x["est"] = key, row, size, est
    q.block[b]["used"] += 1
    q.block[b]["total"] += size
    q.count[1] += 1
    for c in range(size_class(size), q.shortest.shape[1]):
        if est >= q.shortest[b, c]:
            break
        q.shortest[b, c] = est


@kernel
def remove(q, key, row):
    """Take the entry (key, row) out; it must be there."""
    i = _locate(q, key, row) if q.count[0] > 1 else 0
    b = q.order[i]
    entry, used = q.entry[b], q.block[b]["used"]
    k = 0
    while entry[k]["row"] != row:
        k += 1
    size = entry[k]["size"]
    for after in range(k + 1, used):
        entry[after - 1] = entry[after]
    q.block[b]["used"] = used - 1
    q.block[b]["total"] -= size
    q.count[1] -= 1
    if used == 1:
        _forget(q, i)
        return
    if i + 1 < q.count[0] and used - 1 + q.block[q.order[i + 1]]["used"] <= BLOCK // 2:
        _move(q, q.order[i + 1], 0, b)
        _forget(q, i + 1)
    else:
        q.block[b]["stale"] = 1


@kernel
def find(q, at, narrow, free, slack):
    """First place >= at whose job has size <= narrow, or size <= free and est <= slack; -1 if none.

    A place is BLOCK * (index of the block in order) + index in the block; after a removal it holds the next entry.
    """
    top = q.shortest.shape[1] - 1
    wide = min(size_class(narrow), top) if narrow > 0 else -1
    fit = min(size_class(free), top) if free > 0 else -1
    i, k = at // BLOCK, at % BLOCK
    while i < q.count[0]:
        b = q.order[i]
        if (fit >= 0 and q.shortest[b, fit] <= slack) or (wide >= 0 and q.shortest[b, wide] < np.inf):
            entry = q.entry[b]
            for x in range(k, q.block[b]["used"]):
                n = entry[x]["size"]
                if n <= narrow or (n <= free and entry[x]["est"] <= slack):
                    return i * BLOCK + x
            if q.block[b]["stale"]:
                _summarise(q, b)
        k = 0
        i += 1
    return -1


@kernel
def shadow(q, need, free, now):
    """(T, free at T): the first instant, by the estimates, at which `need` processors are free.

    All releases of that instant count; a job that has outlived its estimate is taken to end now. T is inf where even
    the end of all running jobs does not free enough (part of the machine is down).
    """
    got, i = free, 0
    while i < q.count[0] and got + q.block[q.order[i]]["total"] < need:
        got += q.block[q.order[i]]["total"]
        i += 1
    if i == q.count[0]:
        return np.inf, got
    b, k = q.order[i], 0
    while got < need:
        got += q.entry[b, k]["size"]
        k += 1
    t = max(q.entry[b, max(k - 1, 0)]["key"], now)
    while True:
        while k < q.block[b]["used"] and q.entry[b, k]["key"] <= t:
            got += q.entry[b, k]["size"]
            k += 1
        i += 1
        if k < q.block[b]["used"] or i == q.count[0]:
            return t, got
        b, k = q.order[i], 0
