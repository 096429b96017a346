"""The queue of a pool as items side by side in memory, with their scores, for `scored_pool.py` and `promised_pass.py`."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim import promise, ranked
from jobwise.sim.kernel import start

item_dtype = np.dtype(
    [
        ("submit", "f8"),
        ("est", "f8"),  # s, as requested
        ("seen", "f8"),  # s, as the order takes it
        ("score", "f8"),
        ("plain", "f8"),  # were it no express job
        ("run", "f8"),  # s, as forecast; under a promise
        ("tried", "i1"),  # it has been looked at in this pass
        ("size", "i8"),
        ("row", "i4"),
        ("log_est", "f8"),
        ("log_size", "f8"),
        ("user", "i4"),  # groups of the memory
        ("key", "i4"),
    ],
    align=True,
)


@inlined
def before(x, key_x, y, key_y):
    """Does item x start before item y, by these keys?"""
    return key_x < key_y or (key_x == key_y and x["row"] < y["row"])


@kernel
def by_row(item, count):
    """Sort the items by row: in order of submit. The last of the array is room for one."""
    last = len(item) - 1
    for i in range(1, count):  # nearly in order already
        k = i
        if item[i]["row"] < item[i - 1]["row"]:
            item[last] = item[i]
            while k > 0 and item[last]["row"] < item[k - 1]["row"]:
                item[k] = item[k - 1]
                k -= 1
            item[k] = item[last]


@inlined
def launch(s, e, b, i):
    """Start the i-th item of the queue of a `ScoredPool`; under a promise the others keep their order."""
    j, n, score = b.item[i]["row"], b.item[i]["size"], b.item[i]["score"]
    b.count[0] -= 1
    if b.promise.memory[0]["on"]:
        for k in range(i, b.count[0]):
            b.item[k] = b.item[k + 1]
    else:
        b.item[i] = b.item[b.count[0]]
    start(s, e, j, 1.0, b.node, b.amount, 0)
    if b.promise.memory[0]["on"]:
        promise.started(b.promise, j, n, score)
        for k in range(b.count[0] if promise.is_express(score) else 0):  # the lane is narrower now
            x = b.item[k]
            if promise.is_express(x["score"]) and not promise.fits_lane(b.promise, b.memory, x["size"]):
                x["score"] = x["plain"]
    ranked.insert(b.running, s.jobs[e, j]["due"], j, n, 0.0)
