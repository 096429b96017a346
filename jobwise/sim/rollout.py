"""Look-ahead: try the first jobs of the queue at its head, in futures drawn from the past, before deciding.

A future (scenario) gives every running and queued job a run time (the request times a ratio that a job of its class, its user
or anyone has shown) and lets a block of recent arrivals come again. In each, the order behind the look-ahead schedules on with
EASY, once as it is and once for each of the first jobs put at the head; a job is put there only if the sum of
wait / max(run, 10) is lower by more than Z standard errors over the scenarios, the same for all. Without this test the luckiest
candidate wins and the schedule gets worse (rollouts: Tesauro & Galperin 1996; common random numbers and the test are ours).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.sim import easy, history
from jobwise.sim.compiled import inlined, kernel
from jobwise.sim.history import PRIOR_LOG, PRIOR_RATIO, PRIOR_SHORT, SHORT, Known, observe_at, place
from jobwise.sim.loglinear import linear
from jobwise.sim.orders import LINEAR, score
from jobwise.sim.random import GOLDEN, mixed, unit

QUEUE, FRONT, ARRIVALS = 48, 8, 32  # jobs of the queue in a future, of them tried at the head, jobs that come
DEFAULT, MOST = 16, 64  # scenarios
Z = 2.0
RING, CLASS_RING, ALL_RING = 32, 8, 256  # completions remembered of a user, of a class, of everyone
LATELY = 1000  # arrivals a block is drawn from

recent_dtype = np.dtype([("submit", "f8"), ("walltime", "f8"), ("runtime", "f8"), ("size", "i8")], align=True)
item_dtype = np.dtype([("submit", "f8"), ("est", "f8"), ("key", "f8"), ("size", "i8")], align=True)


class Ahead(NamedTuple):
    """What futures are drawn from, and room to play them."""

    ring: np.ndarray  # [K, RING] f4 ratios of run to request; K as in Known, place 0 unused
    seen: np.ndarray  # [K] i8 completions seen
    all: np.ndarray  # [ALL_RING] f4
    count: np.ndarray  # [2] completions of everyone; jobs that have arrived
    recent: np.ndarray  # [P + J] of recent_dtype: arrivals in order of submit; run time NaN until it ended
    rng: np.ndarray  # [1] u8
    rows: np.ndarray  # [R] i8 rows of the running, by estimated end
    order: np.ndarray  # [QUEUE] i8 the queue, first first
    item: np.ndarray  # [MOST, QUEUE + ARRIVALS] of item_dtype
    runs: np.ndarray  # [MOST, QUEUE + ARRIVALS] s
    coming: np.ndarray  # [MOST, ARRIVALS] rows of `recent`
    at: np.ndarray  # [MOST, ARRIVALS] s
    due: np.ndarray  # [R] s, estimated ends of the running, ascending
    held: np.ndarray  # [R] their units
    end: np.ndarray  # [MOST, R] s, drawn ends
    live: np.ndarray  # [3, R + QUEUE + ARRIVALS] f8 of one future: estimated ends ascending, their units, their drawn ends
    wait: np.ndarray  # [QUEUE + ARRIVALS] i8 of one future: who waits, first first
    cost: np.ndarray  # [MOST] of the order as it is


def nothing() -> Ahead:
    """Of a scheduler that does not look ahead."""
    return _room(1, 1, 1, 1)


def _room(entries: int, arrivals: int, running: int, most: int) -> Ahead:
    n = QUEUE + ARRIVALS
    return Ahead(
        np.zeros((entries, RING), np.float32),
        np.zeros(entries, np.int64),
        np.zeros(ALL_RING, np.float32),
        np.zeros(2, np.int64),
        np.zeros(arrivals, recent_dtype),
        np.zeros(1, np.uint64),
        np.zeros(running, np.int64),
        np.zeros(QUEUE, np.int64),
        np.zeros((most, n), item_dtype),
        np.zeros((most, n)),
        np.zeros((most, ARRIVALS), np.int64),
        np.zeros((most, ARRIVALS)),
        np.zeros(running),
        np.zeros(running, np.int64),
        np.zeros((most, running)),
        np.zeros((3, running + n)),
        np.zeros(n, np.int64),
        np.zeros(most),
    )


def build(jobs: np.ndarray, past: np.ndarray, known: Known, total: int) -> Ahead:
    """For these jobs [J], `past` [K] in order of end having ended before, on a pool of `total` units."""
    before = np.sort(past, order="submit")[-LATELY:]
    a = _room(len(known.entry), len(before) + len(jobs), min(len(jobs), total), MOST)
    for key in ("submit", "walltime", "runtime", "size"):
        a.recent[key][: len(before)] = before[key]
    later = a.recent[len(before) :]
    later["submit"], later["walltime"], later["size"], later["runtime"] = (
        jobs["submit"],
        jobs["walltime"],
        jobs["request"][:, 0],
        np.nan,
    )
    a.count[1] = len(before)
    h = history.blank(len(past) + len(jobs))
    _fill(a, h, jobs, past, known, np.zeros(len(h.entry), np.int32))
    return a


@kernel
def _fill(a, h, jobs, past, k, new):
    for j in range(len(jobs)):
        n = jobs[j]["request"][0]
        new[place(h, jobs[j]["user"], jobs[j]["walltime"], n, False)] = k.of_class[j]
        new[place(h, jobs[j]["user"], jobs[j]["walltime"], n, True)] = k.of_user[j]
    for i in range(len(past)):
        x = past[i]
        of_class = new[place(h, x["user"], x["walltime"], x["size"], False)]
        of_user = new[place(h, x["user"], x["walltime"], x["size"], True)]
        _push(a, of_class, of_user, x["runtime"] / max(x["walltime"], 1.0))


@inlined
def _push(a, of_class, of_user, ratio):
    if of_class > 0:
        a.ring[of_class, a.seen[of_class] % CLASS_RING] = ratio
        a.seen[of_class] += 1
    if of_user > 0:
        a.ring[of_user, a.seen[of_user] % RING] = ratio
        a.seen[of_user] += 1
    a.all[a.count[0] % ALL_RING] = ratio
    a.count[0] += 1


@kernel
def ended(a, k, j, first, walltime, run):
    """Job j of a table, at place first + j of the arrivals, has ended after `run` seconds."""
    _push(a, k.of_class[j], k.of_user[j], run / max(walltime, 1.0))
    a.recent[first + j]["runtime"] = run


@kernel
def catch_up(a, k, jobs, rows):
    """These rows of `jobs`, which are the last of the arrivals, have ended, in this order."""
    for j in rows:
        run = jobs[j]["ran"]
        observe_at(k.entry, k.of_class[j], k.of_user[j], jobs[j]["walltime"], run)
        ended(a, k, j, len(a.recent) - len(jobs), jobs[j]["walltime"], run)


@inlined
def _random(a):
    """A number in [0, 1) (splitmix64)."""
    a.rng[0] += GOLDEN
    return unit(mixed(a.rng[0]))


@inlined
def _ratio(a, of_class, of_user):
    """A ratio of run to request that a job of this class, this user or anyone has shown."""
    c = min(a.seen[of_class], CLASS_RING)
    if _random(a) * (c + 1) < c:
        return np.float64(a.ring[of_class, np.int64(_random(a) * c)])
    c = min(a.seen[of_user], RING)
    if _random(a) * (c + 1) < c:
        return np.float64(a.ring[of_user, np.int64(_random(a) * c)])
    c = min(a.count[0], ALL_RING)
    return np.float64(a.all[np.int64(_random(a) * c)]) if c > 0 else 1.0


@kernel
def _draw(a, k, jobs, now, queue, n, R, m):
    """Draw scenario m: n jobs of the queue (rows queue[a.order[i]] of `jobs`), R running ones."""
    for i in range(n):
        j = queue[a.order[i]]["row"]
        a.runs[m, i] = max(_ratio(a, k.of_class[j], k.of_user[j]) * a.item[m, i]["est"], 1.0)
    for i in range(R):
        j = a.rows[i]
        request, begun = max(jobs[j]["walltime"], 1.0), jobs[j]["start"]
        end = -1.0
        for _ in range(8):
            end = begun + _ratio(a, k.of_class[j], k.of_user[j]) * request
            if end > now:
                break
        if end <= now:  # it outlives what it should have: as long again as it has taken, or to its estimate
            end = max(begun + request, now + 0.5 * (now - begun))
        a.end[m, i] = end
    here = a.count[1]
    come = min(ARRIVALS, here)
    first = here - come
    if m > 0:
        first -= np.int64(_random(a) * (min(LATELY, here) - come + 1))
    for i in range(come):
        x = a.recent[first + i]
        a.coming[m, i] = first + i
        before = a.recent[first - 1]["submit"] if first > 0 else x["submit"]
        a.at[m, i] = now + (x["submit"] - before)
        run = x["runtime"]
        if np.isnan(run):
            run = (
                x["walltime"] * np.float64(a.all[np.int64(_random(a) * min(a.count[0], ALL_RING))])
                if a.count[0]
                else x["walltime"]
            )
        a.runs[m, QUEUE + i] = max(run, 1.0)


@inlined
def _begin(a, i, now, m, live):
    """Item i starts in a future: kept among the live by its estimated end."""
    x = a.item[m, i]
    due, at = now + x["est"], live
    while at > 0 and a.live[0, at - 1] > due:
        for r in range(3):
            a.live[r, at] = a.live[r, at - 1]
        at -= 1
    run = a.runs[m, i]
    a.live[0, at], a.live[1, at], a.live[2, at] = due, x["size"], now + run
    return max(now - x["submit"], 0.0) / max(run, SHORT)


@kernel
def _future(a, now, free, n, come, running, m, front):
    """Cost of scenario m with item `front` at the head (-1: as the order has it)."""
    live = running
    for i in range(running):
        a.live[0, i], a.live[1, i], a.live[2, i] = a.due[i], a.held[i], a.end[m, i]
    waiting = 0
    if front >= 0:
        a.wait[0], waiting = front, 1
    for i in range(n):
        if i != front:
            a.wait[waiting] = i
            waiting += 1
    cost, arrived = 0.0, 0
    while True:
        # a pass
        head = 0
        while head < waiting and a.item[m, a.wait[head]]["size"] <= free:
            i = a.wait[head]
            free -= a.item[m, i]["size"]
            cost += _begin(a, i, now, m, live)
            live += 1
            head += 1
        left = 0
        if head < waiting:
            need, got, shadow = a.item[m, a.wait[head]]["size"], free, np.inf
            for i in range(live):
                if got >= need and a.live[0, i] > shadow:
                    break
                got += np.int64(a.live[1, i])
                if got >= need and shadow == np.inf:
                    shadow = max(a.live[0, i], now)
            extra = easy.beside(shadow, got, need)
            a.wait[0], left = a.wait[head], 1
            for w in range(head + 1, waiting):
                i = a.wait[w]
                size, end = a.item[m, i]["size"], now + a.item[m, i]["est"]
                if easy.may_start(size, end, free, shadow, extra):
                    extra = easy.charge(size, end, shadow, extra)
                    free -= size
                    cost += _begin(a, i, now, m, live)
                    live += 1
                else:
                    a.wait[left] = i
                    left += 1
        waiting = left
        if waiting == 0 and arrived == come:
            return cost
        # on to the next event
        then = a.at[m, arrived] if arrived < come else np.inf
        for i in range(live):
            then = min(then, a.live[2, i])
        now = max(now, then)
        left = 0
        for i in range(live):
            if a.live[2, i] <= now:
                free += np.int64(a.live[1, i])
            else:
                if left < i:
                    for r in range(3):
                        a.live[r, left] = a.live[r, i]
                left += 1
        live = left
        while arrived < come and a.at[m, arrived] <= now:
            i = QUEUE + arrived
            at = waiting
            while at > 0 and a.item[m, a.wait[at - 1]]["key"] > a.item[m, i]["key"] and a.wait[at - 1] != front:
                a.wait[at] = a.wait[at - 1]
                at -= 1
            a.wait[at] = i
            waiting += 1
            arrived += 1


@kernel
def _arrivals(a, k, rule, weights, now, origin, queued, free, total, m, come):
    """Items of those that come in scenario m: what the order thinks of them when they arrive."""
    for i in range(come):
        x, new = a.recent[a.coming[m, i]], a.item[m, QUEUE + i]
        r, size = max(x["walltime"], 1.0), np.float64(x["size"])
        new["submit"], new["est"], new["size"] = a.at[m, i], r, x["size"]
        if rule.order == LINEAR:
            e = k.entry[0]
            c = e["count"] + 1.0  # everyone, leaning on the prior as on one completion
            ratio, log = (e["ratio"] + PRIOR_RATIO) / c, (e["log"] + PRIOR_LOG) / c
            short = max((e["short"] + PRIOR_SHORT) / c, SHORT / max(r, SHORT))
            new["key"] = linear(
                weights, ratio, short, log, 0.0, np.log(r), np.log(max(size, 1.0)), r, size, 0.0, queued, free, total
            )
        else:
            new["key"] = score(rule.order, now + origin, 0.0, r, size, 0.0)


@kernel
def choose(a, k, jobs, rule, weights, seed, now, origin, queue, count, running, free, total):
    """Which of the queue [count] of items (row, submit, est, size, score) to put at the head; -1: leave the order as it is.

    `running`: rows of `jobs`. `rule.ahead` scenarios are played at most.
    """
    if len(running) > len(a.due):
        return -1
    n = 0
    for i in range(count):  # the first QUEUE in order
        x = queue[i]
        at = min(n, QUEUE - 1)
        if n == QUEUE:
            y = queue[a.order[QUEUE - 1]]
            if not (x["score"] < y["score"] or (x["score"] == y["score"] and x["row"] < y["row"])):
                continue
        else:
            n += 1
        while at > 0:
            y = queue[a.order[at - 1]]
            if not (x["score"] < y["score"] or (x["score"] == y["score"] and x["row"] < y["row"])):
                break
            a.order[at] = a.order[at - 1]
            at -= 1
        a.order[at] = i
    for m in range(rule.ahead):
        for i in range(n):
            x, y = a.item[m, i], queue[a.order[i]]
            x["submit"], x["est"], x["size"], x["key"] = now, y["est"], y["size"], y["score"]
    a.rng[0] = (
        (np.uint64(seed) + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03) ^ np.uint64(np.int64(now * 1000.0)) ^ np.uint64(count)
    )
    R = len(running)
    for i in range(R):  # by estimated end
        row, at = running[i], i
        due, size = max(jobs[row]["due"], now), jobs[row]["request"][0]
        while at > 0 and (a.due[at - 1] > due or (a.due[at - 1] == due and a.rows[at - 1] > row)):
            a.due[at], a.held[at], a.rows[at] = a.due[at - 1], a.held[at - 1], a.rows[at - 1]
            at -= 1
        a.due[at], a.held[at], a.rows[at] = due, size, row
    come = min(ARRIVALS, a.count[1])
    tried = min(FRONT, n - 1)
    best, best_value = -1, 0.0
    for m in range(rule.ahead):
        _draw(a, k, jobs, now, queue, n, R, m)
    for m in range(rule.ahead):
        _arrivals(a, k, rule, weights, now, origin, np.float64(count), free, total, m, come)
        a.cost[m] = _future(a, now, np.int64(free), n, come, R, m, -1)
    for c in range(1, tried + 1):
        total_d, total_d2, m = 0.0, 0.0, 0
        while m < rule.ahead:
            d = _future(a, now, np.int64(free), n, come, R, m, c) - a.cost[m]
            total_d += d
            total_d2 += d * d
            m += 1
            if (m == 4 or m == 8) and total_d >= 0.0:
                break
        if m < rule.ahead or m < 2:
            continue
        mean = total_d / m
        value = mean + Z * np.sqrt(max(total_d2 / m - mean * mean, 0.0) / (m - 1))
        if value < best_value - 1e-9:
            best, best_value = c, value
    return a.order[best] if best > 0 else -1
