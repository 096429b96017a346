"""The queue of a pool as items side by side in memory, with their scores, for `scored_pool.py` and `promised_pass.py`."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.kernel import start
from jobwise.sim.lists import ranked
from jobwise.sim.memory.groups import KEY, USER
from jobwise.sim.pool import promise
from jobwise.sim.pool.alike import NOBODY
from jobwise.sim.rates import expected

ITEMS, WAITED, FREE = range(3)  # places of `count` of a `ScoredPool`

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
def enqueue(s, e, b, j):
    """Put job j into the queue of a `ScoredPool`: behind the last job of its class, or as an item."""
    if len(b.alike) > 0:
        b.after[j] = NOBODY
        last = b.last[b.alike[j]]
        if last < j and np.isnan(s.jobs[e, j]["start"]):
            b.last[b.alike[j]] = j
            if last != NOBODY:
                b.after[last] = j
                return
    put(s, e, b, j)


@inlined
def put(s, e, b, j):
    """Make job j the last item."""
    x = b.item[b.count[ITEMS]]
    x["row"], x["size"] = j, s.jobs[e, j]["request"][0]
    x["submit"], x["est"] = s.jobs[e, j]["submit"], expected(s.jobs[e, j])
    if len(b.memory.of) > 0:
        x["log_est"], x["log_size"] = np.log(x["est"]), np.log(max(np.float64(x["size"]), 1.0))
        group = b.memory.cell[b.memory.of[j]]["group"]
        x["user"], x["key"] = group[USER], group[KEY]
    b.count[ITEMS] += 1


@inlined
def launch(s, e, b, i):
    """Start the i-th item. Return the row of its class's next job, or NOBODY. With start deadlines items keep their order."""
    j, n, score, following = b.item[i]["row"], b.item[i]["size"], b.item[i]["score"], NOBODY
    if len(b.alike) > 0:
        following = b.after[j]
        if b.last[b.alike[j]] == j:
            b.last[b.alike[j]] = NOBODY
    b.count[ITEMS] -= 1
    if b.promise.memory[0]["on"]:
        for k in range(i, b.count[ITEMS]):
            b.item[k] = b.item[k + 1]
    else:
        b.item[i] = b.item[b.count[ITEMS]]
    start(s, e, j, 1.0, b.node, b.amount, 0)
    if b.promise.memory[0]["on"]:
        promise.started(b.promise, j, n, score)
        for k in range(b.count[ITEMS] if promise.is_express(score) else 0):  # the lane is narrower now
            x = b.item[k]
            if promise.is_express(x["score"]) and not promise.fits_lane(b.promise, b.memory, x["size"]):
                x["score"] = x["plain"]
    ranked.insert(b.running, s.jobs[e, j]["due"], j, n, 0.0)
    return following
