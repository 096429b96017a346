"""Rules that assign GPUs: those of RL-TAPS's comparison, and stronger ones.

fifo sjf tetris random   jobs at their requests, never moved: the first that fits in the rule's order, again and again
one                      every job one GPU                    greedy   more GPUs where they add most speed each (block by block)
fair                     GPU by GPU to the job furthest behind its fair share (after the finish-time fairness of Gavel, OSDI 20)

The others are knapsacks (`knapsack.py`). Sets of GPUs are laid out in one of several ways (`layouts.py`).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.sim.random import draw
from jobwise.sim.rates import alone
from jobwise.sim.rates import unit as own_speed
from jobwise.worlds.gpus.bounds import bounds
from jobwise.worlds.gpus.knapsack import WEIGHTS, by_knapsack
from jobwise.worlds.gpus.layouts import free, lay_all, lay_out

PICKERS = ("fifo", "sjf", "tetris", "random")
RULES = (*PICKERS, "one", "greedy", "fair", *WEIGHTS)
FIFO, SJF, TETRIS, RANDOM, ONE, GREEDY, FAIR = range(7)
PICKING, SHARING = (FIFO, SJF, TETRIS, RANDOM), (ONE, GREEDY, FAIR)
KNAPSACKS = len(PICKING) + len(SHARING)  # the first knapsack
BLOCKS = np.array([1, 2, 3, 5, 7, 11])  # by which `greedy` adds GPUs


@allocating
def _one_by_one(rule, s, g, e):
    """[P] numbers of GPUs for `one`, `greedy` and `fair`."""
    P, left = g.place.shape[1], 0
    n = np.zeros(P, np.int64)
    for i in range(g.want.shape[1]):
        left += s.nodes[e, i]["up"]
    for p in range(P):
        low = bounds(g, e, p)[0]
        if 0 < low <= left:
            n[p] = low
            left -= low
    while left > 0 and rule != ONE:
        best, most, block = -1, 0.0, 0
        for p in range(P):
            high = bounds(g, e, p)[1]
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


@kernel
def _pick(rule, s, g, e, layout):
    """Start waiting jobs at their requests, one after the other."""
    place, P = g.place[e], g.place.shape[1]
    for i in range(g.want.shape[1]):
        g.want[e, i] = g.has[e, i]
    while True:
        room, best, top = free(s, g, e, 0), -1, -np.inf
        slots = g.moment[e]["slots"]
        if rule == RANDOM:
            p = np.int64(draw(g.moment[e]) * (slots + 1))
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
    """Assign GPUs by a rule: fill actions[first:last, M]. theta [1 or E, THETA]: of `learned`."""
    P = g.place.shape[1]
    for e in range(first, last):
        if g.moment[e]["over"]:
            continue
        for p in range(P):
            g.place[e, p]["size"] = 0
        if rule in PICKING:
            _pick(rule, s, g, e, layout)
        elif rule in SHARING:
            lay_all(s, g, e, _one_by_one(rule, s, g, e), layout, rule != GREEDY)
        else:
            by_knapsack(rule - KNAPSACKS, theta[e % len(theta)], s, g, e, layout)
        for i in range(g.want.shape[1]):
            actions[e, i] = g.want[e, i]
