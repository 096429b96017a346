"""Bounds of assignments, which are never broken: those of the mode, of the jobs, of the GPUs that are there."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.worlds.gpus.tables import FULL, NONE, PARTIAL


@kernel
def legal(s, g, e):
    """Make g.want[e] an assignment that breaks no bound: those of the mode, of the jobs, of the GPUs that are there."""
    want, has, place, mode = g.want[e], g.has[e], g.place[e], g.moment[e]["mode"]
    for i in range(len(want)):
        p = want[i]
        if p < 0 or p >= len(place) or place[p]["job"] < 0 or not s.nodes[e, i]["up"]:
            want[i] = -1
        if mode == NONE and (has[i] >= 0 or (want[i] >= 0 and place[want[i]]["held"] > 0)):
            want[i] = has[i]
    again = True
    while again:
        again = False
        _sizes(g, e)
        for p in range(len(place)):
            if mode == PARTIAL and place[p]["held"] > 0 and place[p]["size"] < place[p]["least"]:
                up = True
                for i in range(len(want)):
                    if has[i] == p:
                        want[i], up = p, up and s.nodes[e, i]["up"]
                for i in range(len(want)):  # with a GPU that is down it stays as it is, for it could not start again
                    if not up and want[i] == p and has[i] != p:
                        want[i] = -1
                again = True
    for p in range(len(place)):
        size, least, most = place[p]["size"], place[p]["least"], place[p]["most"]
        fixed = mode == NONE and place[p]["held"] > 0
        if size == 0 or fixed or (least <= size and size <= most):
            continue
        if size < least and not (mode == PARTIAL and place[p]["held"] > 0):
            most = 0
        for own in (True, False):  # what it holds already is taken away last
            for i in range(len(want) - 1, -1, -1):
                if size > most and want[i] == p and (has[i] == p) != own:
                    want[i], size = -1, size - 1
        place[p]["size"] = size


@inlined
def _sizes(g, e):
    place, want = g.place[e], g.want[e]
    for p in range(len(place)):
        place[p]["size"] = 0
    for i in range(len(want)):
        if want[i] >= 0:
            place[want[i]]["size"] += 1


@kernel
def bounds(g, e, slot):
    """(fewest, most) GPUs that the job in place `slot` may have, where it has any; (0, 0) without a job."""
    one = g.place[e, slot]
    if one["job"] < 0:
        return 0, 0
    if g.moment[e]["mode"] == NONE and one["held"] > 0:
        return one["held"], one["held"]
    return one["least"], one["most"]


# ------------------------------------------------------------------ numbers of GPUs as actions


@kernel
def may_have(s, g, counts, mask, first, last):
    """Fill mask[first:last, P, C]: which numbers of GPUs each job may have."""
    for e in range(first, last):
        mode = g.moment[e]["mode"]
        for p in range(g.place.shape[1]):
            low, high = bounds(g, e, p)
            must = mode != FULL and g.place[e, p]["held"] > 0
            some = 0
            for c in range(len(counts)):
                mask[e, p, c] = low <= counts[c] <= high if counts[c] > 0 else not must
                some += mask[e, p, c]
            mask[e, p, 0] |= some == 0


@allocating
def in_turn(scores, counts, mask, room):
    """[E, P] see `GpusWorld.narrow`; room: the GPUs there are."""
    chosen = np.zeros(scores.shape[:2], np.int64)
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
            chosen[e, p] = best
            left -= counts[best]
    return chosen


@kernel
def _fewest(counts, mask):
    for c in range(len(counts)):
        if mask[c]:
            return counts[c]
    return 0
