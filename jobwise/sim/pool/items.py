"""The queue of a pool as items side by side in memory, with their scores, for `scored_pool.py` and `promised_pass.py`.

A job in a trial run (`trials.py`) is still an item: it waits for its start, and its processors are free to every start."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.kernel import put_back, start
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
        ("began", "f8"),  # s, its trial run; NaN: it runs in none
        ("tries", "i4"),  # runs that it has begun
        ("may_again", "i1"),  # it may be stopped and begun again
    ],
    align=True,
)

trial_dtype = np.dtype(
    [
        ("quantum", "f8"),  # s for which a first trial run is left alone; 0: there are no trial runs
        ("kept", "i8"),  # processors that starts leave to trial runs
        ("held", "i8"),  # processors that trial runs hold
        ("count", "i8"),  # trial runs
    ],
    align=True,
)


@inlined
def reachable(s, e, b):
    """The processors that a start can have: those that are free, and those of trial runs."""
    return s.nodes[e, 0]["free"][0] + b.trial[0]["held"]


@inlined
def need(s, e, b, x):
    """The processors that must be there for the start of item x. Those kept for trial runs stay free beside it, but for
    jobs that would then never start, and those that a guard or a deadline puts first."""
    n = x["size"] + b.trial[0]["kept"]
    urgent = x["plain"] <= promise.URGENT if b.promise.memory[0]["on"] else x["score"] == -np.inf
    return x["size"] if urgent or n > s.nodes[e, 0]["capacity"][0] else n


@inlined
def end_of(x, now):
    """The estimated end (s) of an item that starts now: one in a trial run goes on."""
    return (now if np.isnan(x["began"]) else x["began"]) + x["est"]


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
    x["began"], x["tries"], x["may_again"] = np.nan, s.jobs[e, j]["restarts"], s.jobs[e, j]["restartable"]
    b.count[ITEMS] += 1


@inlined
def alone(b, j):
    """Take job j, the first of its class, out of it. Return the row of the next one, or NOBODY."""
    if len(b.alike) == 0:
        return NOBODY
    following = b.after[j]
    b.after[j] = NOBODY
    if b.last[b.alike[j]] == j:
        b.last[b.alike[j]] = NOBODY
    return following


@kernel
def stop_trial(s, e, b, i):
    """Stop the trial run of item i: its work is lost, and it waits as before."""
    x, t = b.item[i], b.trial[0]
    put_back(s, e, x["row"])
    x["began"], b.is_trial[x["row"]] = np.nan, 0
    t["held"] -= x["size"]
    t["count"] -= 1


@kernel
def make_room(s, e, b, n):
    """Stop trial runs until n processors are free, the last in order first."""
    while n > s.nodes[e, 0]["free"][0]:
        worst = -1
        for i in range(b.count[ITEMS]):
            x = b.item[i]
            if not np.isnan(x["began"]) and (worst < 0 or before(b.item[worst], b.item[worst]["score"], x, x["score"])):
                worst = i
        stop_trial(s, e, b, worst)


@inlined
def launch(s, e, b, i):
    """Start the i-th item; one in a trial run goes on. Return the row of its class's next job, or NOBODY. With start deadlines
    items keep their order."""
    j, n, score, is_trial = b.item[i]["row"], b.item[i]["size"], b.item[i]["score"], not np.isnan(b.item[i]["began"])
    following = alone(b, j)
    b.count[ITEMS] -= 1
    if b.promise.memory[0]["on"]:
        for k in range(i, b.count[ITEMS]):
            b.item[k] = b.item[k + 1]
    else:
        b.item[i] = b.item[b.count[ITEMS]]
    if is_trial:
        b.is_trial[j] = 0
        b.trial[0]["held"] -= n
        b.trial[0]["count"] -= 1
    else:
        if n > s.nodes[e, 0]["free"][0]:
            make_room(s, e, b, n)
        start(s, e, j, 1.0, b.node, b.amount, 0)
    if b.promise.memory[0]["on"]:
        promise.started(b.promise, j, n, score)
        for k in range(b.count[ITEMS] if promise.is_express(score) else 0):  # the lane is narrower now
            x = b.item[k]
            if promise.is_express(x["score"]) and not promise.fits_lane(b.promise, b.memory, x["size"]):
                x["score"] = x["plain"]
    ranked.insert(b.running, s.jobs[e, j]["due"], j, n, s.jobs[e, j]["draw"])
    return following
