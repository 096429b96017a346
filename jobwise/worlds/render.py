"""Pictures of simulations: of a grid of time as in the papers (the machine in the rows to come, the waiting jobs, the backlog),
and of a pool over time."""

from __future__ import annotations

import numpy as np

from jobwise.cluster import Cluster
from jobwise.jobs import COMPUTE, NETWORK, PAUSED, QUEUED, RUNNING
from jobwise.sim.state import HEAP, State
from jobwise.sim.topology import Topology
from jobwise.worlds.gpus.tables import Gpus
from jobwise.worlds.nodes.passes import Nodes
from jobwise.worlds.slots.tables import Slots

CELL = 7  # pixels
PAPER, FREE = (255, 255, 255), (238, 241, 245)
LOADS = [(210, 214, 220), (46, 139, 87), (224, 159, 62), (209, 73, 91)]  # links with 0, 1, 2, more jobs
KINDS = {COMPUTE: (27, 108, 168), NETWORK: (209, 73, 91), -1: (107, 114, 128)}
PALETTE = [
    (27, 108, 168), (209, 73, 91), (46, 139, 87), (224, 159, 62), (123, 94, 167), (59, 179, 195), (141, 111, 79),
    (201, 93, 159), (107, 114, 128), (148, 168, 74), (84, 130, 201), (232, 121, 100),
]  # fmt: skip


def picture(s: State, g: Slots, e: int = 0) -> np.ndarray:
    """[height, width, 3] uint8: simulation e as it stands.

    Per resource the rows to come (now at the top) by units, nodes apart; at the right the jobs in the slots at their size, and
    the backlog. Jobs have colours of their own on the machine; in the slots, of their kind where they have one.
    """
    (N, R), H = g.capacity.shape, g.canvas.shape[1]
    widest = int(max(min(s.jobs[e]["request"][:, r].max(), 16) for r in range(R)))
    slots = [int(j) for j in g.slot[e]]
    machine = [int(g.capacity[:, r].sum()) + N - 1 for r in range(R)]
    width = (max(machine) + 2 + len(slots) * (widest + 1) + 6) * CELL
    height = (R * (H + 3) + 2) * CELL
    out = np.full((height, width, 3), PAPER, np.uint8)

    def cell(row: int, column: int, colour) -> None:
        out[row * CELL : (row + 1) * CELL - 1, column * CELL : (column + 1) * CELL - 1] = colour

    for r in range(R):
        top = 3 + r * (H + 3)
        for i in range(N):
            for c in range(g.capacity[i, r]):
                x = g.base[i, r] + c
                at = 1 + int(g.capacity[:i, r].sum()) + i + c
                for row in range(H):
                    j = int(g.canvas[e, row, x])
                    cell(top + row, at, PALETTE[(j - 1) % len(PALETTE)] if j > 0 else FREE)
        left = max(machine) + 3
        for m, j in enumerate(slots):
            for row in range(H):
                for c in range(widest):
                    cell(top + row, left + m * (widest + 1) + c, (247, 248, 250))
            if j >= 0:
                job = s.jobs[e, j]
                for row in range(int(min(job["walltime"], H))):
                    for c in range(int(min(job["request"][r], widest))):
                        cell(top + row, left + m * (widest + 1) + c, KINDS[int(job["kind"])])
        for k in range(min(int(g.moment[e]["backlog"]), 3 * H)):
            cell(top + k // 3, left + len(slots) * (widest + 1) + k % 3, (75, 85, 99))
    return out


def cluster_picture(s: State, g: Gpus, cluster: Cluster, e: int = 0) -> np.ndarray:
    """[height, width, 3] uint8: simulation e on its graph (RL-TAPS's figure 2): GPUs in the colours of their jobs, above them
    CPUs, cards, rack switches and the director; links are green with one job on them, orange with two, red with more."""
    t, owner = cluster.topology or Topology((1,), len(cluster.capacity), 1), g.has[e]
    M = len(owner)
    gap = np.arange(M) // t.gpus + np.searchsorted(t.bounds[2], np.arange(M), side="right")
    at = {f"gpu{i}": (4, (1.0 + i + 0.6 * gap[i]) * 2 * CELL) for i in range(M)}
    ups: dict[str, list[float]] = {}
    for a, b, *_ in sorted(t.links(), key=lambda x: ("gpu", "cpu", "nic", "rac").index(x[0][:3])):  # from the GPUs upwards
        level = ("director", "rack", "nic", "cpu", "gpu").index(b.rstrip("0123456789"))
        if a in at and level < at[a][0]:
            ups.setdefault(b, []).append(at[a][1])
            at[b] = (level, float(np.mean(ups[b])))
    out = np.full((33 * CELL, int(max(x for _, x in at.values()) + 3 * CELL), 3), PAPER, np.uint8)
    y = (np.array([0, 7, 14, 20, 26]) + 4) * CELL
    for a, b, _, r in t.links():
        jobs = 0
        for p in set(owner[owner >= 0].tolist()):
            one = [int((owner[i:j] == p).sum()) for i, j in zip(r[::2], r[1::2], strict=True)]
            jobs += one[0] > 0 and one[1] > one[2]
        if a in at and b in at:
            (i, x0), (j, x1) = at[a], at[b]
            steps = np.linspace(0, 1, 2 + int(max(abs(y[i] - y[j]), abs(x0 - x1))))
            rows, columns = (y[i] + (y[j] - y[i]) * steps).astype(int), (x0 + (x1 - x0) * steps).astype(int)
            for k in range(1 + (jobs > 0)):
                out[rows, columns + k] = LOADS[min(jobs, 3)]
    for name, (level, x) in at.items():
        p = owner[int(name[3:])] if level == 4 else -1
        colour = PALETTE[int(g.place["job"][e, p]) % len(PALETTE)] if p >= 0 else FREE if level == 4 else (75, 85, 99)
        half = CELL - 1 if level == 4 else 3
        out[y[level] - half : y[level] + half, int(x) - half : int(x) + half] = colour
    return out


def nodes_picture(s: State, g: Nodes, e: int = 0) -> np.ndarray:
    """[height, width, 3] uint8: simulation e as it stands: a column per node, as high as its capacity, filled by its jobs in
    the colours of their kinds; at the right the places of the buffer, and the queue behind it."""
    nodes, jobs = s.nodes[e], s.jobs[e]
    most = 24  # cells
    unit, (N, b) = nodes["capacity"][:, 0].max() / most, (len(nodes), g.place.shape[1])
    out = np.full(((most + 6) * CELL, max(4 * N + 5 * b + 10, 66) * CELL, 3), PAPER, np.uint8)

    def block(bottom: float, left: int, height: float, colour) -> None:
        top = out.shape[0] - int((2 + bottom + height) * CELL)
        out[max(top, 0) : out.shape[0] - int((2 + bottom) * CELL) - 1, left * CELL : (left + 3) * CELL] = colour

    for n in range(N):
        block(0, 1 + 4 * n, nodes["capacity"][n, 0] / unit, FREE if nodes["up"][n] else (55, 65, 81))
        at = 0.0
        for j in np.sort(s.lists[e, HEAP, : s.sims["running"][e]]):
            if g.at[e, j] == n:
                block(at, 1 + 4 * n, jobs["request"][j, 0] / unit, PALETTE[int(jobs["kind"][j]) % len(PALETTE)])
                at += jobs["request"][j, 0] / unit
    for p in range(b):
        left, j = 4 * N + 3 + 5 * p, int(g.place[e, p])
        block(0, left, most, (247, 248, 250))
        if j >= 0:
            block(0, left, jobs["request"][j, 0] / unit, PALETTE[int(jobs["kind"][j]) % len(PALETTE)])
    m = g.moment[e]
    for i in range(min(int(m["behind"]), most)):
        j = int(g.line[e, (m["head"] + i) % g.line.shape[1]])
        block(i, 4 * N + 5 * b + 4, 1, PALETTE[int(jobs["kind"][j]) % len(PALETTE)])
    return out


def machine(s: State, e: int = 0, width: int = 360, height: int = 160) -> np.ndarray:
    """[height, width + 44, 3] uint8: simulation e of a pool as it stands; see `pool_picture`."""
    sim, jobs = s.sims[e], s.jobs[e, : s.sims[e]["next"]]
    now = float(sim["now"])
    started = np.flatnonzero(~np.isnan(jobs["end"]) & ~np.isnan(jobs["start"]) | (jobs["status"] == RUNNING))
    ends = np.where(np.isnan(jobs["end"][started]), np.maximum(jobs["due"][started], now), jobs["end"][started])
    waiting = np.flatnonzero((jobs["status"] == QUEUED) | (jobs["status"] == PAUSED))
    share = jobs["request"][:, 0] / float(s.nodes[e, 0]["capacity"][0])
    return pool_picture(now, share, started, jobs["start"][started], ends, waiting, width, height)


def pool_picture(
    now: float,
    share: np.ndarray,
    started: np.ndarray,
    begin: np.ndarray,
    ends: np.ndarray,
    waiting: np.ndarray,
    width: int = 360,
    height: int = 160,
) -> np.ndarray:
    """[height, width + 44, 3] uint8: a pool. `share` [J] of it that each job asks for; jobs `started` [S] at `begin` [S] s, and
    their `ends` [S], estimates where they run; jobs `waiting`, the first at the bottom.

    To the left of the dark line the processors that jobs have held so far, to its right what the running ones will hold by
    their estimates, job upon job; from twice the longest remaining run before now to the last end. The column at the right is
    the queue: a block per waiting job, as high as its share of the machine.
    """
    out = np.full((height, width + 44, 3), PAPER, np.uint8)
    out[:, :width] = FREE
    last = max(float(ends.max(initial=now)), now + 1.0)
    first = max(now - 2 * (last - now), float(begin.min(initial=now)))
    visible, begin, ends = started[ends > first], begin[ends > first], ends[ends > first]
    x = np.linspace(first, last, width, endpoint=False)
    level = np.zeros(width)
    for k in np.argsort(begin, kind="stable"):
        here = (x >= begin[k]) & (x < ends[k])
        high = share[visible[k]] * height
        colour = PALETTE[int(visible[k]) % len(PALETTE)]
        for column in np.flatnonzero(here):
            top, bottom = height - int(round(level[column] + high)), height - int(round(level[column]))
            out[max(top, 0) : bottom, column] = colour
        level[here] += high
    line = min(int((now - first) / (last - first) * width), width - 1)
    out[:, line] = (17, 24, 39)
    at = float(height)
    for j in waiting:
        high = max(share[j] * height, 2.0)
        if at - high < 0:
            break
        out[int(at - high) : int(at) - 1, width + 6 : width + 40] = PALETTE[int(j) % len(PALETTE)]
        at -= high
    return out
