"""Rules that assign GPUs: those of RL-TAPS's comparison, and stronger ones.

fifo sjf tetris random   jobs at their requests, never moved: the first that fits in the rule's order, again and again
one                      every job one GPU                    greedy   more GPUs where they add most speed each (block by block)
fair                     GPU by GPU to the job furthest behind its fair share (after the finish-time fairness of Gavel, OSDI 20)

The others choose the numbers of GPUs by an exact knapsack: the largest sum of weight x speed, where a job's speed counts up to
what is left of it and a job that would have to restart is worth less. They differ in the weight:

speed   throughput alone                              slot    the cheapest price of its speed, a slot being worth 4 GPUs
root    1 / sqrt(length)                              index   1 / (length sqrt(work left))
both    1 / sqrt(length x work left)                  srpt    1 / left              las   1 / (1 + what it has had)
learned both, times what was learnt from features of the job (`THETA` numbers), restarts as dear as was learnt

Sets of GPUs: `left`, the lowest numbers; `random`; `pack`, in the smallest free part of the cluster that holds them, and of
keeping those that may stay and laying out all anew what is faster.
"""

from __future__ import annotations

import numpy as np

from jobwise.sim.compiled import allocating, kernel
from jobwise.sim.random import GOLDEN, mixed, unit
from jobwise.sim.rates import alone, count, load, there
from jobwise.sim.rates import unit as own_speed
from jobwise.worlds.assignment import FULL, NONE, PARTIAL

PICKERS = ("fifo", "sjf", "tetris", "random")
RULES = (*PICKERS, "one", "greedy", "fair", "speed", "slot", "root", "index", "both", "srpt", "las", "learned")
FIFO, SJF, TETRIS, RANDOM, ONE, GREEDY, FAIR, SPEED, SLOT, ROOT, INDEX, BOTH, SRPT, LAS, LEARNED = range(15)
LAYOUTS = ("pack", "left", "random")
PACK, LEFT, ANY = range(3)
SPREAD = 2.4  # rows over which a restart of one row is paid for, less one
THETA = 16  # numbers of `learned`
SLOT_PRICE = 4.0  # GPUs that a slot is worth
BLOCKS = np.array([1, 2, 3, 5, 7, 11])  # by which `greedy` adds GPUs


@kernel
def _draw(g, e):
    """A uniform number, from the simulation's own state (splitmix64)."""
    m = g.moment[e]
    m["seed"] += GOLDEN
    return unit(mixed(m["seed"]))


# ------------------------------------------------------------------ which GPUs


@kernel
def _free(s, g, e, x):
    """GPUs of group x that are there and have not been given to anybody."""
    found = 0
    for i in range(g.groups[x]["first"], g.groups[x]["last"]):
        found += g.want[e, i] < 0 and s.nodes[e, i]["up"]
    return found


@kernel
def lay_out(s, g, e, p, n, layout):
    """Give n free GPUs, or as many as there are, to place p."""
    M = g.want.shape[1]
    if layout == PACK:
        n = min(n, _free(s, g, e, 0))
        x = 0
        while n > 0:
            best, room, largest, most = -1, M + 1, -1, -1
            for c in range(g.groups[x]["child"], g.groups[x]["child"] + g.groups[x]["children"]):
                f = _free(s, g, e, c)
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
                    g.want[e, i], n = p, n - 1
        return
    at = np.int64(_draw(g, e) * M) if layout == ANY else 0
    for i in range(M):
        k = (at + i * (1 if layout == LEFT else 7)) % M if M % 7 else (at + i) % M
        if n > 0 and g.want[e, k] < 0 and s.nodes[e, k]["up"]:
            g.want[e, k], n = p, n - 1


@allocating
def _lay_all(s, g, e, n, layout, keep):
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
    """What the sets in g.want are worth: the sum of weight x speed, links shared."""
    P, M = len(w), g.want.shape[1]
    changed = np.zeros(P, np.bool_)
    size = np.zeros(P, np.int64)
    for x in range(s.links.shape[1]):
        s.links[e, x]["jobs"] = 0
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
            for i in range(M):
                s.nodes[e, i]["before"] = g.want[e, i] == p
            job = s.jobs[e, g.place[e, p]["job"]]
            if turn == 0:
                load(s, e, count(s, e)[0])
            else:
                total += w[p] * _kept(s, g, e, p, min(there(s, e, job), cap[p]), changed[p], lost[p])
    return total


@kernel
def _kept(s, g, e, p, rate, changed, lost):
    """What is left of a job's rate if a restart takes the share `lost` of it."""
    return rate * (1.0 - lost) if changed and not np.isnan(s.jobs[e, g.place[e, p]["job"]]["start"]) else rate


# ------------------------------------------------------------------ how many


@kernel
def _weight(rule, s, g, e, p):
    """What a job's work is worth, in its speed at its request."""
    one = g.place[e, p]
    job = s.jobs[e, one["job"]]
    if rule == SPEED:
        return own_speed(s.sims[e], s.curve, job)
    if rule == SLOT:
        best = np.inf
        for n in range(max(one["least"], 1), one["most"] + 1):
            best = min(best, (SLOT_PRICE + n) / alone(s, e, job, n, _racks(g, n)))
        return best
    own = own_speed(s.sims[e], s.curve, job)
    if rule == ROOT:
        return own / np.sqrt(one["length"])
    if rule == INDEX:
        return np.sqrt(own / one["left"]) / one["length"]
    if rule == BOTH:
        return np.sqrt(own / (one["left"] * one["length"]))
    if rule == SRPT:
        return 1.0 / one["left"]
    return 1.0 / (1.0 + one["length"] - one["left"])  # LAS


@kernel
def _learned(theta, s, g, e, p, busy, lost, cost):
    """A weight, log-linear in features of the job, and into lost[p] how dear a restart is; theta 0 is the rule `both`."""
    one, job = g.place[e, p], s.jobs[e, g.place[e, p]["job"]]
    own, held, left = own_speed(s.sims[e], s.curve, job), 1.0 * (one["held"] > 0), np.log(one["left"])
    v1, v4 = alone(s, e, job, 1, 1), alone(s, e, job, 4, 1)
    v8, v16 = alone(s, e, job, 8, _racks(g, 8)), alone(s, e, job, 16, _racks(g, 16))
    x = theta[0] * np.log(one["length"]) + theta[1] * (left + np.log(own)) + theta[2] * np.log(own)
    x += theta[3] * np.log(v4 / v1) + theta[4] * np.log(v8 / v4) + theta[5] * np.log(v16 / v8)
    x += theta[6] * np.log(own * max(max(v1, v4), max(v8, v16))) + theta[7] * np.log1p(one["waited"])
    x += held * (theta[8] + theta[9] * (left + np.log(own))) + theta[10] * busy * np.log(one["length"])
    rows = theta[11] + theta[12] * (left - np.log(max(one["rate"], 0.3))) + theta[13] * np.log(cost + 0.1)
    rows += theta[14] * busy + theta[15] * (1.0 - held)
    lost[p] = min(lost[p] * np.exp(rows), 0.99)
    return np.exp(x) * np.sqrt(own / (one["left"] * one["length"]))


@kernel
def _racks(g, n):
    """The fewest racks that n GPUs are in."""
    widest = 0
    for x in range(1, 1 + g.groups[0]["children"]):
        widest = max(widest, g.groups[x]["last"] - g.groups[x]["first"])
    return (n + widest - 1) // max(widest, 1)


@kernel
def _bounds(g, e, p):
    """(fewest, most) GPUs that the job in place p may have, where it has any; (0, 0) without a job."""
    one = g.place[e, p]
    if one["job"] < 0:
        return 0, 0
    if g.moment[e]["mode"] == NONE and one["held"] > 0:
        return one["held"], one["held"]
    return one["least"], one["most"]


@allocating
def _knapsack(s, g, e, w, cap, lost):
    """[P] numbers of GPUs with the largest sum of values. Fills cap [P]: the rate at which a job would just end in a row."""
    P, room, mode, up = g.place.shape[1], g.want.shape[1], g.moment[e]["mode"], 0
    for i in range(room):
        up += s.nodes[e, i]["up"]
    best = np.full((P + 1, room + 1), -np.inf)
    taken = np.zeros((P + 1, room + 1), np.int32)
    best[0, 0] = 0.0
    gain = np.empty(room + 1)
    most_used = 0
    for p in range(P):
        low, high = _bounds(g, e, p)
        must = (mode == PARTIAL or mode == NONE) and g.place[e, p]["held"] > 0
        high, cap[p] = min(high, up), np.inf
        for n in range(max(low, 1), high + 1):
            one = g.place[e, p]
            rate = min(alone(s, e, s.jobs[e, one["job"]], n, _racks(g, n)), cap[p])
            if rate >= one["left"]:  # more would be for nothing, but the last bit of a job is worth as much as any
                cap[p] = rate
            gain[n] = w[p] * _kept(s, g, e, p, rate, n != one["held"], lost[p])
        for m in range(most_used + 1):
            old = best[p, m]
            if old == -np.inf:
                continue
            if not must and old > best[p + 1, m]:
                best[p + 1, m], taken[p + 1, m] = old, 0
            for n in range(max(low, 1), min(high, up - m) + 1):
                if old + gain[n] > best[p + 1, m + n]:
                    best[p + 1, m + n], taken[p + 1, m + n] = old + gain[n], n
        most_used = min(most_used + high, up)
    m = best[P].argmax()
    n = np.zeros(P, np.int64)
    for p in range(P - 1, -1, -1):
        n[p] = taken[p + 1, m]
        m -= n[p]
    return n


@allocating
def _one_by_one(rule, s, g, e):
    """[P] numbers of GPUs for `one`, `greedy` and `fair`."""
    P, left = g.place.shape[1], 0
    n = np.zeros(P, np.int64)
    for i in range(g.want.shape[1]):
        left += s.nodes[e, i]["up"]
    for p in range(P):
        low = _bounds(g, e, p)[0]
        if 0 < low <= left:
            n[p] = low
            left -= low
    while left > 0 and rule != ONE:
        best, most, block = -1, 0.0, 0
        for p in range(P):
            high = _bounds(g, e, p)[1]
            if n[p] == 0:
                continue
            one, job = g.place[e, p], s.jobs[e, g.place[e, p]["job"]]
            now = alone(s, e, job, n[p], 1)
            for b in BLOCKS:
                if n[p] + b > min(high, n[p] + left):
                    break
                more = alone(s, e, job, n[p] + b, 1) - now
                score = more * own_speed(s.sims[e], s.curve, job) / b
                if rule == FAIR:
                    score = (one["waited"] + one["left"] / now) / one["length"] if more > 0.0 else 0.0
                if score > most:
                    best, most, block = p, score, b
                if rule == FAIR:
                    break
        if best < 0:
            break
        n[best] += block
        left -= block
    return n


# ------------------------------------------------------------------ rules


@kernel
def _pick(rule, s, g, e, layout):
    """Start waiting jobs at their requests, one after the other."""
    place, P = g.place[e], g.place.shape[1]
    for i in range(g.want.shape[1]):
        g.want[e, i] = g.has[e, i]
    while True:
        room, best, top = _free(s, g, e, 0), -1, -np.inf
        slots = g.moment[e]["slots"]
        if rule == RANDOM:
            p = np.int64(_draw(g, e) * (slots + 1))
            if p < slots and place[p]["job"] >= 0 and place[p]["held"] == 0 and place[p]["size"] == 0:
                best = p if place[p]["request"] <= room else -1
        for p in range(P if rule != RANDOM else 0):
            one = place[p]
            if one["job"] < 0 or one["held"] > 0 or one["size"] > 0 or one["request"] > room:
                continue
            score = -np.float64(one["job"])
            if rule == SJF:
                score = -one["length"]
            elif rule == TETRIS:
                score = np.float64(one["request"] * room)
            if score > top:
                best, top = p, score
        if best < 0:
            return
        lay_out(s, g, e, best, place[best]["request"], layout)
        place[best]["size"] = place[best]["request"]


@allocating
def choose(rule, theta, s, g, actions, layout, first, last):
    """What a rule assigns: fills actions[first:last, M]. theta [1 or E, THETA]: of `learned`."""
    P = g.place.shape[1]
    for e in range(first, last):
        if g.moment[e]["over"]:
            continue
        for p in range(P):
            g.place[e, p]["size"] = 0
        if rule <= RANDOM:
            _pick(rule, s, g, e, layout)
        elif rule <= FAIR:
            _lay_all(s, g, e, _one_by_one(rule, s, g, e), layout, rule != GREEDY)
        else:
            _by_knapsack(rule, theta[e % len(theta)], s, g, e, layout)
        for i in range(g.want.shape[1]):
            actions[e, i] = g.want[e, i]


@allocating
def _by_knapsack(rule, theta, s, g, e, layout):
    """The knapsack, laid out: g.want[e]."""
    P, cost = g.place.shape[1], s.sims[e]["restart_cost"] / s.sims[e]["tick"]
    w, lost, cap = np.zeros(P), np.full(P, restart_share(s, e)), np.zeros(P)
    busy = 0.0
    for p in range(P):
        busy += (g.place[e, p]["job"] >= 0) / P
    for p in range(P):
        if g.place[e, p]["job"] >= 0:
            w[p] = _learned(theta, s, g, e, p, busy, lost, cost) if rule == LEARNED else _weight(rule, s, g, e, p)
    _better(s, g, e, _knapsack(s, g, e, w, cap, lost), w, cap, lost, layout)


@kernel
def restart_share(s, e):
    """The share of a job's speed that a restart is taken to cost: spread over the more rows the larger it is, for then restarts
    are few."""
    cost = s.sims[e]["restart_cost"] / s.sims[e]["tick"]
    return cost / (1.0 + SPREAD * cost)


@allocating
def _better(s, g, e, n, w, cap, lost, layout):
    """Lay numbers of GPUs out: jobs keep their sets where their numbers stay, or all is laid out anew, whichever is better."""
    _lay_all(s, g, e, n, layout, True)
    if layout == PACK and g.moment[e]["mode"] != NONE:
        kept, worth = g.want[e].copy(), _value(s, g, e, w, cap, lost)
        _lay_all(s, g, e, n, layout, False)
        if _value(s, g, e, w, cap, lost) <= worth:
            g.want[e] = kept


# ------------------------------------------------------------------ how many, said from outside


@kernel
def may_have(s, g, counts, mask, first, last):
    """Fill mask[first:last, P, C]: which numbers of GPUs each job may have."""
    for e in range(first, last):
        mode = g.moment[e]["mode"]
        for p in range(g.place.shape[1]):
            low, high = _bounds(g, e, p)
            must = mode != FULL and g.place[e, p]["held"] > 0
            some = 0
            for c in range(len(counts)):
                mask[e, p, c] = low <= counts[c] <= high if counts[c] > 0 else not must
                some += mask[e, p, c]
            mask[e, p, 0] |= some == 0


@allocating
def in_turn(scores, counts, mask, room):
    """[E, P] see `AssignmentWorld.narrow`; room: the GPUs there are."""
    found = np.zeros(scores.shape[:2], np.int64)
    for e in range(len(scores)):
        left = room.item()
        for p in range(scores.shape[1]):  # jobs that may not be paused have their least
            left -= _fewest(counts, mask[e, p])
        for p in range(scores.shape[1]):
            left += _fewest(counts, mask[e, p])
            best = -1
            for c in range(len(counts)):
                mask[e, p, c] = mask[e, p, c] and counts[c] <= left
                if mask[e, p, c] and (best < 0 or scores[e, p, c] > scores[e, p, best]):
                    best = c
            if best < 0:
                best, mask[e, p, 0] = 0, True
            found[e, p] = best
            left -= counts[best]
    return found


@kernel
def _fewest(counts, mask):
    for c in range(len(counts)):
        if mask[c]:
            return counts[c]
    return 0


@allocating
def lay_counts(s, g, counts, asked, actions, first, last):
    """GPUs for the counts asked[e, P]: fills actions[first:last, M]; jobs keep their sets where their numbers stay, unless
    laying out all anew is faster."""
    P = g.place.shape[1]
    for e in range(first, last):
        n, one, lost = np.zeros(P, np.int64), np.ones(P), np.zeros(P)
        for p in range(P):
            if g.place[e, p]["job"] >= 0:
                n[p] = counts[asked[e, p]]
                one[p] = own_speed(s.sims[e], s.curve, s.jobs[e, g.place[e, p]["job"]])
                lost[p] = restart_share(s, e)
        _better(s, g, e, n, one, np.full(P, np.inf), lost, PACK)
        for i in range(g.want.shape[1]):
            actions[e, i] = g.want[e, i]
