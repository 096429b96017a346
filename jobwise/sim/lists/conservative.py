"""Availability over time as a step function, and conservative backfilling on it.

Row i of the profile says what is free from time[i] to time[i + 1] (the last row: for ever). Resources are totals over
the cluster: exact for jobs that take units anywhere, a necessary condition for chunked ones, which then start at the
first event at which they also fit on nodes.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.sim.lists import orders as sc
from jobwise.sim.lists.list_pass import give_back, promise, score_again, take
from jobwise.sim.lists.placement import fits_on
from jobwise.sim.lists.shadow import length
from jobwise.sim.power import may_add


@allocating
def build(now, free, begun, start, end, units):
    """Profile from `now` with `free` [R] units and K intervals [start, end) of `units` [K, R]; (time, avail, size).

    The first `begun` intervals hold their units already (running jobs): they only give back. There is room for as many
    steps again as K intervals can make.
    """
    K, R = units.shape
    when, what, n = np.empty(2 * K), np.empty(2 * K, np.int64), 0
    for k in range(K):
        if k >= begun:
            when[n], what[n] = max(start[k], now), -(k + 1)
            n += 1
        when[n], what[n] = max(end[k], now), k + 1
        n += 1
    order = np.argsort(when[:n], kind="mergesort")
    time, avail = np.empty(4 * K + 8), np.empty((4 * K + 8, R), np.int64)
    time[0], size = now, 1
    avail[0] = free
    for i in order:
        if when[i] > time[size - 1]:
            time[size] = when[i]
            avail[size] = avail[size - 1]
            size += 1
        k = abs(what[i]) - 1
        for r in range(R):
            avail[size - 1, r] += units[k, r] if what[i] > 0 else -units[k, r]
    return time, avail, size


@kernel
def earliest(time, avail, size, request, length):
    """First time at which `request` [R] is free for `length` s; inf if never."""
    i = 0
    while i < size:
        ok = True
        for r in range(len(request)):
            ok = ok and avail[i, r] >= request[r]
        if not ok:
            i += 1
            continue
        k = i + 1
        while k < size and time[k] < time[i] + length:
            for r in range(len(request)):
                ok = ok and avail[k, r] >= request[r]
            if not ok:
                break
            k += 1
        if ok:
            return time[i]
        i = k + 1
    return np.inf


@kernel
def copy_row(table, first, second):
    """Copy row a of a table to row b."""
    for i in range(table.shape[1]):
        table[second, i] = table[first, i]


@kernel
def _cut(time, avail, size, t):
    """Make t a step of the profile (t >= time[0]); (index, size)."""
    low, high = 0, size
    while low < high:
        mid = (low + high) >> 1
        if time[mid] < t:
            low = mid + 1
        else:
            high = mid
    if low < size and time[low] == t:
        return low, size
    for i in range(size, low, -1):
        time[i] = time[i - 1]
        copy_row(avail, i - 1, i)
    time[low] = t
    copy_row(avail, low - 1, low)
    return low, size + 1


@kernel
def _join(time, avail, size, i):
    """Drop step i where it changes nothing; the new size."""
    if i <= 0 or i >= size:
        return size
    for r in range(avail.shape[1]):
        if avail[i, r] != avail[i - 1, r]:
            return size
    for k in range(i, size - 1):
        time[k] = time[k + 1]
        copy_row(avail, k + 1, k)
    return size - 1


@kernel
def occupy(time, avail, size, begin, end, request, sign):
    """Take (sign 1) or give back (-1) `request` over [begin, end); the new size."""
    a, size = _cut(time, avail, size, begin)
    b, size = _cut(time, avail, size, end)
    for i in range(a, b):
        for r in range(len(request)):
            avail[i, r] -= sign * request[r]
    size = _join(time, avail, size, b)
    return _join(time, avail, size, a)


@allocating
def plan_conservative(rule, x, early, p):
    """One pass of conservative backfilling from the Instant x: reservations for all, starts for those that are due.

    A new job is placed at the earliest time that delays no other job. After an `early` end the reservations are compressed:
    in queue order each is released and made again, never later. Where they cannot be kept (a running job has outlived
    its estimate, a node is down, a reserved start has passed) all are made again in queue order.
    """
    now, jobs, est, queue, score = x.now, x.jobs, x.est, x.queue, x.score
    running, due, free = x.running, x.due, x.free
    p.count[:] = 0
    n, K, R = len(queue), len(running), len(free.total) + (len(x.steps) > 0)  # what jobs draw is one more resource
    if n == 0:
        return
    if rule.order >= 0:
        sc.score_rows(rule.order, now, x.origin, x.seed, jobs, queue, score)
    score_again(rule, x, p)
    queue = queue[np.argsort(score, kind="mergesort")]
    anew = False
    for i in range(K):
        anew = anew or due[i] <= now
    for j in queue:
        anew = anew or jobs[j]["reserved"] < now or jobs[j]["reserved"] == np.inf
    M = max(len(x.steps) - x.step, 0)
    start, end, units = np.empty(K + n + M), np.empty(K + n + M), np.zeros((K + n + M, R), np.int64)
    at, run = np.full(n, np.nan), np.empty(n)
    for i in range(K):
        end[i] = due[i]
        _needs(jobs, running[i], units[i])
    for i in range(n):
        run[i] = length(jobs, est, queue[i])
        start[K + i], end[K + i] = now, now  # an interval of no length, unless the promise stands
        if not anew and not np.isnan(jobs[queue[i]]["reserved"]):
            at[i] = jobs[queue[i]]["reserved"]
            start[K + i], end[K + i] = at[i], at[i] + run[i]
            _needs(jobs, queue[i], units[K + i])
    there = np.zeros(R, np.int64)
    there[: len(free.total)] = free.total
    if M:
        there[R - 1] = _under_cap(x, K + n, start, end, units) - x.steps[x.step]["load"]
    time, avail, size = build(now, there, K, start, end, units)
    request = np.zeros(R, np.int64)
    for i in range(n):
        _needs(jobs, queue[i], request)
        if not np.isnan(at[i]):
            if not early or at[i] == now:
                continue
            size = occupy(time, avail, size, at[i], at[i] + run[i], request, -1)
        at[i] = earliest(time, avail, size, request, run[i])
        if at[i] < np.inf:
            size = occupy(time, avail, size, at[i], at[i] + run[i], request, 1)
    for i in range(n):
        j = queue[i]
        fits = at[i] == now and fits_on(free, jobs[j]["request"], jobs[j]["chunks"])
        if fits and (M == 0 or may_add(x.steps, x.step, jobs[j]["draw"], now + run[i])):
            take(p, rule, x, j)
        elif at[i] != jobs[j]["reserved"]:
            promise(p, j, at[i])
    if len(x.steps):
        give_back(x, p)


@kernel
def _needs(jobs, j, out):
    """Write what job j needs of each resource, the last of which is what it draws where there is one more than it asks for."""
    request = jobs[j]["request"]
    for r in range(len(request)):
        out[r] = request[r]
    if len(out) > len(request):
        out[len(request)] = jobs[j]["draw"]


@kernel
def _under_cap(x, first, start, end, units):
    """The highest cap from now on; the intervals from `first` on hold what each step has less."""
    steps, most = x.steps, np.int64(0)
    for i in range(x.step, len(steps)):
        most = max(most, steps[i]["cap"])
    for i in range(x.step, len(steps)):
        k = first + i - x.step
        start[k], end[k] = steps[i]["time"], steps[i + 1]["time"] if i + 1 < len(steps) else np.inf
        units[k, units.shape[1] - 1] = most - steps[i]["cap"]
    return most
