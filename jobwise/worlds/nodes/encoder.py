"""Encoders of the world of nodes: the two states of telemetry-driven scheduling, and ours, node by node.

They see the nodes, the jobs of the buffer and those behind it, and how long jobs took so far: no factors, no run times to come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.compiled import inlined, kernel
from jobwise.errors import InputError
from jobwise.sim.state import HEAP
from jobwise.worlds.encoder import TableEncoder, columns, hidden
from jobwise.worlds.nodes.passes import has_room, risk_of
from jobwise.worlds.nodes.rules import PATIENT, guessed, room_at

ORDERS = ("left", "right")  # where index 0 of a one-hot group is; the slides have part A from the left, part B from the right


@inlined
def _one(row, x, width, index, right):
    """A one-hot group of this width from column x on, no bit for what it has none for; the column behind it."""
    if index >= 0 and index < width:
        row[x + (width - 1 - index if right else index)] = 1.0
    return x + width


@kernel
def _distance(s, g, scale, out, first, last):
    right, smooth, widest = scale[0] > 0.0, scale[1] > 0.0, np.int64(scale[2])
    N, b = s.nodes.shape[1], g.place.shape[1]
    for e in range(first, last):
        row, x = out[e], 0
        row[:] = 0.0
        for n in range(N):
            free, most = s.nodes[e, n]["free"][0], s.nodes[e, n]["capacity"][0]
            if smooth:
                row[x] = free / max(most, 1)
                x += 1
            else:
                x = _one(row, x, most + 1, free, right)
        for p in range(b):
            j = np.int64(g.place[e, p])
            request, kind = (s.jobs[e, j]["request"][0], s.jobs[e, j]["kind"]) if j >= 0 else (0, 0)
            if smooth:
                row[x] = request / max(s.nodes[e, 0]["capacity"][0], 1)
                x += 1
            else:
                x = _one(row, x, widest + 1, request, right)
            x = _one(row, x, N + 1, kind, right)


def distance(
    cluster: Cluster,
    slots: int,
    *,
    bit_order: str = "left",
    continuous: bool = False,
    widest: int = 3,
    without: str = "",
):
    """Part A: for each node its free memory, for each place of the buffer the request and the preferred node: one-hot groups,
    26 numbers for two nodes of 5 units and two places. `widest`: the largest request; `continuous`: shares instead of
    levels; `without`: inputs that are not shown (memory, request, preference)."""
    N, levels = len(cluster.capacity), int((cluster.capacity[:, 0] + 1).sum())
    if bit_order not in ORDERS or not 1 <= widest <= 1000:
        raise InputError(f"encoder distance: bit_order is {' or '.join(ORDERS)}, widest 1 to 1000; not {bit_order}, {widest}")
    wide = N + slots * (1 + N + 1) if continuous else levels + slots * (widest + 1 + N + 1)
    settings = {"bit_order": bit_order, "continuous": continuous, "widest": widest, "without": without}
    scale = (bit_order == "right", continuous, widest)
    memory, request = (N, 1) if continuous else (levels, widest + 1)
    each = request + N + 1
    groups = {
        "memory": list(range(memory)),
        "request": [memory + p * each + i for p in range(slots) for i in range(request)],
        "preference": [memory + p * each + request + i for p in range(slots) for i in range(N + 1)],
    }
    how: dict[str, Any] = {"bounds": (0.0, 1.0), "slots": slots, "blind": hidden("distance", without, groups)} | {
        "groups": columns(groups)
    }
    return TableEncoder("distance", 1, (wide,), 1, _distance, scale, settings, **how)


@inlined
def _app(kind):
    """Return the place of an application in its group; -1: unknown (0 is an empty place)."""
    return kind + 1 if kind >= 0 else -1


@kernel
def _affinity(s, g, scale, out, first, last):
    right, width, ahead = scale[0] > 0.0, np.int64(scale[1]) + 1, np.int64(scale[2])
    N, J = s.nodes.shape[1], g.line.shape[1]
    for e in range(first, last):
        row, m, x = out[e], g.moment[e], 0
        row[:] = 0.0
        for n in range(N):
            app = 0
            for i in range(s.sims[e]["running"]):
                j = s.lists[e, HEAP, i]
                if g.at[e, j] == n:
                    app = _app(s.jobs[e, j]["kind"])
            x = _one(row, x, width, app, right)
        for p in range(g.place.shape[1]):
            x = _one(row, x, width, _app(s.jobs[e, g.place[e, p]]["kind"]) if g.place[e, p] >= 0 else 0, right)
        for i in range(ahead):
            app = 0
            if i < m["behind"]:
                app = _app(s.jobs[e, g.line[e, (m["head"] + i) % J]]["kind"])
            x = _one(row, x, width, app, right)


def affinity(cluster: Cluster, slots: int, *, bit_order: str = "left", apps: int = 3, ahead: int = 3, without: str = ""):
    """Part B: the application on each node, in the buffer, and of the next `ahead` jobs in the queue, one-hot (0: no job): 40
    numbers for six nodes and three applications."""
    if bit_order not in ORDERS or not (1 <= apps <= 1000 and 0 <= ahead <= 1000):
        raise InputError(f"encoder affinity: bit_order {bit_order}, {apps} applications, {ahead} jobs ahead cannot be")
    shape = ((len(cluster.capacity) + slots + ahead) * (apps + 1),)
    settings = {"bit_order": bit_order, "apps": apps, "ahead": ahead, "without": without}
    scale, wide = (bit_order == "right", apps, ahead), apps + 1
    N = len(cluster.capacity)
    groups = {
        "nodes": list(range(N * wide)),
        "buffer": list(range(N * wide, (N + slots) * wide)),
        "next": list(range((N + slots) * wide, shape[0])),
    }
    how: dict[str, Any] = {"bounds": (0.0, 1.0), "slots": slots, "blind": hidden("affinity", without, groups)} | {
        "groups": columns(groups)
    }
    return TableEncoder("affinity", 1, shape, 1, _affinity, scale, settings, **how)


OWN, ABOUT = 11, 4  # features of a node for the job that is asked about, and of all
AHEAD = 8  # jobs of the queue whose best node is looked at


@kernel
def _best(s, g, e, j):
    """The node on which job j is expected to run shortest."""
    best, least = -1, np.inf
    for n in range(s.nodes.shape[1]):
        x = guessed(g, e, s.jobs[e, j]["kind"], n, 0.0)
        if x < least:
            best, least = n, x
    return best


@inlined
def _log(x):
    return min(max(np.log(x), -3.0), 3.0)


@kernel
def _node(s, g, e, j, n, field):
    """Fill the features of node n for job j."""
    kind, now = s.jobs[e, j]["kind"], s.sims[e]["now"]
    known = g.seen[e, kind, n]["count"] if kind >= 0 and kind < g.seen.shape[1] else 0.0
    field[0], field[1] = 1.0, has_room(s, g, e, j, n)
    field[2] = s.nodes[e, n]["free"][0] / max(s.nodes[e, n]["capacity"][0], 1)
    field[3] = s.jobs[e, j]["request"][0] / max(s.nodes[e, n]["capacity"][0], 1)
    field[4] = min((room_at(PATIENT, s, g, e, j, n) - now) / (10.0 * s.sims[e]["tick"]), 3.0)
    field[5], field[6] = np.log1p(known) / 3.0, known == 0.0
    field[7], field[8] = guessed(g, e, kind, n, 0.0), 0.0  # relative to the others: below
    others, count = 0.0, 0
    for k in range(g.seen.shape[1]):
        if k != kind and g.seen[e, k, n]["count"] > 0.0:
            mean = 0.0
            for i in range(g.seen.shape[2]):
                mean += guessed(g, e, k, i, 0.0) / g.seen.shape[2]
            others += _log(g.seen[e, k, n]["mean"] / mean)
            count += 1
    field[9] = others / count if count > 0 else 0.0
    field[10] = 0.0


@kernel
def _nodes(s, g, scale, out, first, last):
    N, J, risk = s.nodes.shape[1], g.line.shape[1], scale[0] > 0.0
    for e in range(first, last):
        out[e] = 0.0
        m = g.moment[e]
        j, alike = np.int64(g.place[e, m["turn"]]), 0.0
        if j < 0:
            continue
        mean, soonest = 0.0, np.inf
        for n in range(N):
            _node(s, g, e, j, n, out[e, n])
            mean += out[e, n, 7] / N
            soonest = min(soonest, out[e, n, 7] + 10.0 * out[e, n, 4])
        for n in range(N):
            f = out[e, n]
            f[8] = _log((f[7] + 10.0 * f[4]) / max(soonest, 1e-9))
            f[7] = _log(f[7] / max(mean, 1e-9))
        for i in range(min(m["behind"], AHEAD)):
            other = np.int64(g.line[e, (m["head"] + i) % J])
            out[e, _best(s, g, e, other), 10] += 1.0 / AHEAD
            alike += s.jobs[e, other]["kind"] == s.jobs[e, j]["kind"]
        for n in range(N + 1):
            f = out[e, n]
            f[OWN], f[OWN + 1] = np.log1p(np.float64(m["behind"])) / 3.0, alike / AHEAD
            f[OWN + 2], f[OWN + 3] = m["turn"] / max(g.place.shape[1], 1), np.log(max(mean, 1e-9)) / 3.0
            if risk and n < N:
                f[OWN + ABOUT] = risk_of(s, e, n)


def nodes(cluster: Cluster, slots: int, *, without: str = "", risk: bool = False):
    """Our own encoder, for any number of nodes: [nodes + 1, F], a row of features of each node for the job that is placed, the
    last row for letting it wait. Has the node room, when will it, how long do jobs of this kind take there compared with
    elsewhere, as far as they have run there, and how often; which share of the next jobs is expected to run shortest there; the
    queue. `without`: a group of features that is hidden; `risk`: how likely the node is to fail, by the forecast of now."""
    shape = (len(cluster.capacity) + 1, OWN + ABOUT + bool(risk))
    groups = {"room": [1, 2, 3, 4], "run times": [5, 6, 7, 8, 9], "next": [10, OWN, OWN + 1], "counts": [5, 6]}
    settings = {"without": without} | ({"risk": True} if risk else {})
    how: dict[str, Any] = {"per_slot": True, "bounds": (-3.0, 8.0), "slots": slots, "blind": hidden("nodes", without, groups)}
    queue = {"queue": list(range(OWN, OWN + ABOUT))} | ({"risk": [OWN + ABOUT]} if risk else {})
    how["groups"] = columns(groups | queue)
    return TableEncoder("nodes", 1, shape, 1, _nodes, (1.0,) if risk else (), settings, **how)


MAKERS = {"distance": distance, "affinity": affinity, "nodes": nodes}
