"""Choose GPUs: sets for numbers of GPUs, and the values of sets.

pack      in the smallest free part of the cluster that holds a job; of keeping sets whose size stays and laying out all anew
          whichever is worth more, links shared and restarts paid for
left      the lowest numbers            random    from a random GPU on, in steps of seven
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.sim.random import draw
from jobwise.sim.rates import clear, count, load, mark, there
from jobwise.sim.rates import unit as own_speed
from jobwise.worlds.gpus.tables import NONE

LAYOUTS = ("pack", "left", "random")
PACK, LEFT, ANY = range(3)
SPREAD = 2.4  # rows over which a restart of one row is paid for, less one


@kernel
def free(s, g, e, x):
    """GPUs of group x that are there and have not been given to anybody."""
    count = 0
    for i in range(g.groups[x]["first"], g.groups[x]["last"]):
        count += g.want[e, i] < 0 and s.nodes[e, i]["up"]
    return count


@kernel
def lay_out(s, g, e, slot, n, layout):
    """Give n free GPUs, or as many as there are, to place `slot`."""
    M = g.want.shape[1]
    if layout == PACK:
        n = min(n, free(s, g, e, 0))
        x = 0
        while n > 0:
            best, room, largest, most = -1, M + 1, -1, -1
            for c in range(g.groups[x]["child"], g.groups[x]["child"] + g.groups[x]["children"]):
                f = free(s, g, e, c)
                if f >= n and f < room:
                    best, room = c, f
                if f > most:
                    largest, most = c, f
            if best >= 0 and g.groups[best]["children"] > 0 and room > n:
                x = best
                continue
            one = best if best >= 0 else largest
            for i in range(g.groups[one]["first"], g.groups[one]["last"]):
                if n > 0 and g.want[e, i] < 0 and s.nodes[e, i]["up"]:
                    g.want[e, i], n = slot, n - 1
        return
    at = np.int64(draw(g.moment[e]) * M) if layout == ANY else 0
    for i in range(M):
        k = (at + i * (1 if layout == LEFT else 7)) % M if M % 7 else (at + i) % M
        if n > 0 and g.want[e, k] < 0 and s.nodes[e, k]["up"]:
            g.want[e, k], n = slot, n - 1


@allocating
def lay_all(s, g, e, n, layout, keep):
    """Sets for the numbers n [P] of GPUs, the largest first; `keep`: jobs whose number stays keep theirs."""
    P, M = len(n), g.want.shape[1]
    for i in range(M):
        p = g.has[e, i]
        g.want[e, i] = p if keep and p >= 0 and g.place[e, p]["held"] == n[p] else -1
    left = n.copy()
    for p in range(P):
        if keep and g.place[e, p]["held"] == n[p]:
            left[p] = 0
    while True:
        p = left.argmax()
        if left[p] == 0:
            return
        lay_out(s, g, e, p, left[p], layout)
        left[p] = 0


@allocating
def _value(s, g, e, w, cap, lost):
    """Return the value of the sets in g.want: the sum of weight x speed, links shared."""
    P, M = len(w), g.want.shape[1]
    changed = np.zeros(P, np.bool_)
    size = np.zeros(P, np.int64)
    clear(s, e)
    for i in range(M):
        if g.want[e, i] >= 0:
            size[g.want[e, i]] += 1
        if g.want[e, i] != g.has[e, i]:
            for p in (g.want[e, i], g.has[e, i]):
                if p >= 0:
                    changed[p] = True
    for turn in range(2):
        total = 0.0
        for p in range(P):
            if size[p] == 0:
                continue
            mark(s, e, g.want[e], p)
            job = s.jobs[e, g.place[e, p]["job"]]
            if turn == 0:
                load(s, e, count(s, e)[0])
            else:
                total += w[p] * kept(s, g, e, p, min(there(s, e, job), cap[p]), changed[p], lost[p])
    return total


@kernel
def kept(s, g, e, slot, rate, changed, lost):
    """Return what is left of a job's rate if a restart takes the share `lost` of it."""
    return rate * (1.0 - lost) if changed and not np.isnan(s.jobs[e, g.place[e, slot]["job"]]["start"]) else rate


@kernel
def restart_share(s, e):
    """The share of a job's speed that a restart is taken to cost: spread over the more rows the larger it is, for then restarts
    are few."""
    cost = s.sims[e]["restart_cost"] / s.sims[e]["tick"]
    return cost / (1.0 + SPREAD * cost)


@allocating
def better(s, g, e, n, w, cap, lost, layout):
    """Lay numbers of GPUs out: jobs keep their sets where their numbers stay, or all is laid out anew, whichever is better."""
    lay_all(s, g, e, n, layout, True)
    if layout == PACK and g.moment[e]["mode"] != NONE:
        kept, worth = g.want[e].copy(), _value(s, g, e, w, cap, lost)
        lay_all(s, g, e, n, layout, False)
        if _value(s, g, e, w, cap, lost) <= worth:
            g.want[e] = kept


@allocating
def lay_counts(s, g, counts, asked, actions, first, last):
    """GPUs for the counts asked[e, P]: fills actions[first:last, M]; jobs keep their sets where their numbers stay, unless
    laying out all anew is faster."""
    P = g.place.shape[1]
    for e in range(first, last):
        n, one, lost = np.zeros(P, np.int64), np.ones(P), np.zeros(P)
        for p in range(P):
            if g.place[e, p]["job"] >= 0:
                n[p] = counts[min(max(asked[e, p], 0), len(counts) - 1)]
                one[p] = own_speed(s.sims[e], s.curve, s.jobs[e, g.place[e, p]["job"]])
                lost[p] = restart_share(s, e)
        better(s, g, e, n, one, np.full(P, np.inf), lost, PACK)
        for i in range(g.want.shape[1]):
            actions[e, i] = g.want[e, i]
