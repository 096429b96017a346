"""Rules that choose a slot on a grid of time (`world.py`): DeepRM's family (HotNets'16, its code), and CuSH's orders.

Candidates are the slots whose job fits now. The best score is chosen, the first slot where scores are equal; without a
candidate no slot is. `random` draws from all slots and the void action. `hold` is ours, the strongest rule we know of here: SJF
that holds large jobs back, as DeepRM's agents learn to.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel
from jobwise.sim.random import draw
from jobwise.worlds.slots.passes import first_row, fits_now, rows

RULES = ("fcfs", "sjf", "tetris", "saf", "drf", "las", "random", "hold")
FCFS, SJF, TETRIS, SAF, DRF, LAS, RANDOM, HOLD = range(8)
SHORT = 3  # rows: a job that is longer starts under `hold` only where half of every resource stays free, or nothing runs


@kernel
def _score(rule, s, g, e, job):
    """Return the score of a job; the largest is chosen."""
    area, share, align, first = 0.0, 0.0, 0.0, 0.0
    for r in range(g.capacity.shape[1]):
        total, left = 0.0, 0.0
        for i in range(g.capacity.shape[0]):
            total += g.capacity[i, r]
            left += s.nodes[e, i]["free"][r]
        first = total if r == 0 else first
        if total > 0.0:
            part = job["request"][r] / total
            area += part
            share = max(share, part)
            align += (
                job["request"][r] * left * (first / total) ** 2
            )  # shares of the capacity; whole numbers where those are equal
    if rule == SJF or rule == HOLD:
        return 1.0 / job["walltime"]
    if rule == TETRIS:
        return align
    if rule == SAF:
        return -area * job["walltime"]
    if rule == DRF:
        return -share
    return -job["submit"]  # FCFS; LAS: jobs that never ran have all attained nothing


@kernel
def _held(s, g, e, job):
    """Is this job to be held back?"""
    if rows(s, e, job) <= SHORT or s.sims[e]["running"] == 0:
        return False
    for r in range(g.capacity.shape[1]):
        total, left = 0, 0
        for i in range(g.capacity.shape[0]):
            total += g.capacity[i, r]
            left += s.nodes[e, i]["free"][r]
        if 2 * (left - job["request"][r]) < total:
            return True
    return False


@kernel
def choose(rule, s, g, actions, placement, first, last):
    """The slots that a rule chooses, placed by the p-th placement: fills actions[first:last] for `passes.go`."""
    P, M = len(g.codes), g.slot.shape[1]
    for e in range(first, last):
        actions[e] = M * P
        if g.moment[e]["over"]:
            continue
        if rule == RANDOM:
            m = np.int64(draw(g.moment[e]) * (M + 1))
            actions[e] = m * P + placement if m < M else M * P
            continue
        best = -np.inf
        for m in range(M):
            j = np.int64(g.slot[e, m])
            if j < 0:
                continue
            job = s.jobs[e, j]
            if g.capacity.shape[0] == 1:
                ok = first_row(g, e, job["request"], rows(s, e, job), 0) == 0
            else:
                ok = fits_now(s, g, e, j)
            ok = ok and (rule != HOLD or not _held(s, g, e, job))
            score = _score(rule, s, g, e, job)
            if ok and score > best:
                best, actions[e] = score, m * P + placement
