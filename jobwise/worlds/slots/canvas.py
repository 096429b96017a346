"""The picture of the rows to come: `draw` puts a job into it, `roll` moves it up by a row."""

from __future__ import annotations

from jobwise.compiled import kernel
from jobwise.sim.state import HEAP, LEFT


@kernel
def draw(g, e, j, first, last, k):
    """Job j holds the k pieces in g.node, g.amount in rows first .. last - 1."""
    R = g.amount.shape[2]
    for row in range(first, min(last, g.canvas.shape[1])):
        for i in range(k):
            node = g.node[e, i]
            for r in range(R):
                need, x = g.amount[e, i, r], g.base[node, r]
                g.free[e, row, node, r] -= need
                end = x + g.capacity[node, r]
                while need > 0 and x < end:
                    if g.canvas[e, row, x] == 0:
                        g.canvas[e, row, x] = j + 1
                        need -= 1
                    x += 1


@kernel
def _wipe(g, e, j):
    """Job j is gone before its time: what it held of the rows to come is free."""
    N, R = g.capacity.shape
    for row in range(g.canvas.shape[1]):
        for i in range(N):
            for r in range(R):
                for x in range(g.base[i, r], g.base[i, r] + g.capacity[i, r]):
                    if g.canvas[e, row, x] == j + 1:
                        g.canvas[e, row, x] = 0
                        g.free[e, row, i, r] += 1


@kernel
def pieces(s, g, e, j):
    """Put what running job j holds into g.node, g.amount; how many pieces."""
    if s.slices.shape[1] == 1:  # a pool keeps no slices
        g.node[e, 0], g.amount[e, 0, 0] = 0, s.jobs[e, j]["request"][0]
        return 1
    k, at = 0, s.jobs[e, j]["held"]
    while at >= 0:
        g.node[e, k] = s.slices[e, at]["node"]
        for r in range(g.amount.shape[2]):
            g.amount[e, k, r] = s.slices[e, at]["amount"][r]
        k += 1
        at = s.slices[e, at]["next"]
    return k


@kernel
def roll(s, g, e, now, left):
    """A row of time has passed, it is `now` (s), and the first `left` of s.lists[e, LEFT] have stopped: the picture moves up.
    Jobs longer than it, or than was thought, go on being drawn."""
    H, X = g.canvas.shape[1:]
    N, R = g.capacity.shape
    for row in range(H - 1):
        for x in range(X):
            g.canvas[e, row, x] = g.canvas[e, row + 1, x]
        for i in range(N):
            for r in range(R):
                g.free[e, row, i, r] = g.free[e, row + 1, i, r]
    for x in range(X):
        g.canvas[e, H - 1, x] = 0
    for i in range(N):
        for r in range(R):
            g.free[e, H - 1, i, r] = g.capacity[i, r]
    T = s.sims[e]["tick"]
    for i in range(left):
        j = s.lists[e, LEFT, i]
        g.used[e, g.colour[e, j]] -= 1
        if s.jobs[e, j]["due"] > now:
            _wipe(g, e, j)
    before = -1
    while True:  # in order of rows: that of the heap would tell who ends first
        next_row = -1
        for i in range(s.sims[e]["running"]):
            j = s.lists[e, HEAP, i]
            due = s.jobs[e, j]["due"]
            if j > before and (due > now + (H - 1) * T or due <= now) and (next_row < 0 or j < next_row):
                next_row = j
        if next_row < 0:
            return
        before = next_row
        if s.jobs[e, before]["due"] <= now:
            draw(g, e, before, 0, 1, pieces(s, g, e, before))
        else:
            draw(g, e, before, H - 1, H, pieces(s, g, e, before))
