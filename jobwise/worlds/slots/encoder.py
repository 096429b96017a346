"""Encoders of a grid of time (`worlds/slots/passes.py`): DeepRM's image and its compact form, CuSH's tensor, and rows per slot.

They see the jobs in the slots, the picture of what is held, and how full the backlog is: neither jobs to come nor true run
times. E simulations, M slots, H rows of time.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.compiled import kernel
from jobwise.errors import InputError, unknown
from jobwise.jobs import COMPUTE, NETWORK
from jobwise.sim.state import State
from jobwise.worlds.encoder import Groups, RowsEncoder, columns
from jobwise.worlds.slots.passes import first_row, show_waiting
from jobwise.worlds.slots.tables import COLOURS, Slots

COLOUR = np.random.default_rng(0).permutation(np.arange(1, COLOURS + 1)).astype(np.float32) / (COLOURS + 1)
CAP = 10  # rows since the last arrival that DeepRM's image can tell apart
LONG_WAIT = 100.0  # rows of waiting from which CuSH's cells are full


class GridEncoder(RowsEncoder):
    """Encoder of the state of a grid: `kernel(waiting, g, scale, out, first, last)` reads the public rows of the jobs in the
    slots, waiting [E, M] (those of empty slots are stale), and the Slots."""

    def encode(self, s: State, g: Slots, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last] with the observations of simulations."""
        last = len(out) if last is None else last
        show_waiting(s, g, first, last)
        self.kernel(g.waiting, g, np.array(self.scale or (0.0,)), out, first, last)


# ------------------------------------------------------------------ DeepRM


@kernel
def _image(waiting, g, scale, out, first, last):
    (N, R), H, M, D = g.capacity.shape, g.canvas.shape[1], g.slot.shape[1], np.int64(scale[0])
    B, extra = g.backlog.shape[1], scale[1] > 0
    for e in range(first, last):
        out[e] = 0.0
        x = 0
        for r in range(R):
            for i in range(N):
                for c in range(g.capacity[i, r]):
                    for row in range(H):
                        j = g.canvas[e, row, g.base[i, r] + c]
                        if j > 0:
                            out[e, row, x] = scale[2 + g.colour[e, j - 1]]
                    x += 1
            for m in range(M):
                if g.slot[e, m] >= 0:
                    job = waiting[e, m]
                    wide, long = min(job["request"][r], D), min(np.int64(job["walltime"]), H)
                    for row in range(long):
                        for c in range(wide):
                            out[e, row, x + c] = 1.0
                x += D
        width = (B + H - 1) // H
        for k in range(min(g.moment[e]["backlog"], H * width)):
            out[e, k // width, x + k % width] = 1.0
        if extra:
            for row in range(H):
                out[e, row, x + width] = min(g.moment[e]["since"], CAP) / CAP


def image(cluster: Cluster, slots: int, backlog: int, *, rows: int = 20, widest: int = 10, extra_info: bool = True):
    """DeepRM's image (HotNets'16, its code): [H, W], row 0 is now; see `docs/systems/deeprm.md`.

    Per resource the canvas, then `widest` columns per slot; at last the backlog, row by row, and (`extra_info`) the time since
    the last arrival. W = units + resources * slots * widest + ceil(backlog / H) + 1.
    """
    if backlog % rows:
        raise InputError(f"encoder deeprm: a backlog of {backlog} does not fill whole columns of {rows} rows")
    R = len(cluster.resources)
    width = int(cluster.capacity.sum()) + R * slots * widest + -(-backlog // rows) + extra_info
    settings = {"rows": rows, "widest": widest, "extra_info": extra_info}
    scale = (widest, float(extra_info), *COLOUR.tolist())
    groups = {name: list[int]() for name in ("running", "queue", "backlog", "time")}
    at = 0
    for units in cluster.capacity.sum(axis=0).tolist():  # of a resource the canvas, then its slots
        groups["running"] += range(at, at + units)
        groups["queue"] += range(at + units, at + units + slots * widest)
        at += units + slots * widest
    groups["backlog"], groups["time"] = list(range(at, width - extra_info)), list(range(width - extra_info, width))
    how: dict[str, Any] = {"bounds": (0.0, 1.0), "groups": columns({k: v for k, v in groups.items() if v})}
    return GridEncoder("deeprm", 1, (rows, width), rows, _image, scale, settings, **how)


@kernel
def _compact(waiting, g, scale, out, first, last):
    (N, R), H, M = g.capacity.shape, g.canvas.shape[1], g.slot.shape[1]
    X = g.canvas.shape[2]
    for e in range(first, last):
        x = 0
        for row in range(H):  # how many jobs hold something then
            count = 0
            for c in range(X):
                j, drawn = g.canvas[e, row, c], False
                for d in range(c):
                    drawn = drawn or g.canvas[e, row, d] == j
                count += j > 0 and not drawn
            out[e, 0, x] = count
            x += 1
        for r in range(R):
            for row in range(H):
                left = 0
                for i in range(N):
                    left += g.free[e, row, i, r]
                out[e, 0, x] = left
                x += 1
        for m in range(M):
            there, job = g.slot[e, m] >= 0, waiting[e, m]
            out[e, 0, x] = job["walltime"] if there else 0.0
            for r in range(R):
                out[e, 0, x + 1 + r] = job["request"][r] if there else 0.0
            x += 1 + R
        out[e, 0, x] = g.moment[e]["backlog"]


def compact(cluster: Cluster, slots: int, backlog: int, *, rows: int = 20):
    """DeepRM's compact state (its code): jobs per row to come, free units per resource and row, slots' lengths and demands,
    the backlog; (R + 1)(H + M) + 1 numbers, as they are."""
    R = len(cluster.resources)
    cut, wide = (R + 1) * rows, (R + 1) * (rows + slots) + 1
    groups = columns({"running": list(range(cut)), "queue": list(range(cut, wide - 1)), "backlog": [wide - 1]})
    return GridEncoder("compact", 1, (1, wide), rows, _compact, (), {"rows": rows}, bounds=(0.0, 1e6), groups=groups)


# ------------------------------------------------------------------ CuSH


@kernel
def _job_channel(job, g, e, out):
    """A job at the size of the cluster: rows of its length, its CPUs and GPUs from the left; cells say how long it waits."""
    sign = 1.0 if job["kind"] == COMPUTE else -1.0 if job["kind"] == NETWORK else 0.0
    value = 0.1 + 0.9 * min(g.moment[e]["now"] - job["submit"], LONG_WAIT) / LONG_WAIT
    value *= sign if sign != 0.0 else 0.5
    for r in range(g.capacity.shape[1]):
        at = g.base[0, r]
        for row in range(min(np.int64(job["walltime"]), out.shape[0])):
            for c in range(job["request"][r]):
                out[row, at + c] = value


@kernel
def _tensor(waiting, g, scale, out, first, last):
    H, X = g.canvas.shape[1:]
    for e in range(first, last):
        out[e] = 0.0
        for row in range(H):
            for x in range(X):
                if g.canvas[e, row, x] > 0:
                    out[e, 0, row, x] = 1.0
        for m in range(g.slot.shape[1]):
            if g.slot[e, m] >= 0:
                _job_channel(waiting[e, m], g, e, out[e, 1 + m])


@kernel
def placing(waiting, g, slots, out, first, last):
    """Show what CuSH's second agent sees: the cluster and the job in slots[e], out [E, 2, H, X]; zeros where it is none."""
    H, X = g.canvas.shape[1:]
    for e in range(first, last):
        out[e] = 0.0
        m = slots[e]
        if m < 0 or m >= g.slot.shape[1] or g.slot[e, m] < 0:
            continue
        for row in range(H):
            for x in range(X):
                if g.canvas[e, row, x] > 0:
                    out[e, 0, row, x] = 1.0
        _job_channel(waiting[e, m], g, e, out[e, 1])


def tensor(cluster: Cluster, slots: int, backlog: int, *, rows: int = 20):
    """CuSH's tensor (DRL4KDD'19): [M + 1, T, X], the cluster and each waiting job at its size; see `docs/systems/cush.md`.

    A job's cells hold sign (0.1 + 0.9 min(wait, 100) / 100): + compute-intensive, - network-intensive; half of it where the
    kind is unknown (the specification says sign 0, which would hide the job).
    """
    shape = (slots + 1, rows, int(cluster.capacity.sum()))
    groups: Groups = {"running": [(0,)], "queue": [(slice(1, slots + 1),)]}
    return GridEncoder("cush", 1, shape, rows, _tensor, (), {"rows": rows}, groups=groups)


@kernel
def _with_backlog(waiting, g, scale, out, first, last):
    _tensor(waiting, g, scale, out, first, last)
    for e in range(first, last):
        out[e, out.shape[1] - 1] = g.moment[e]["backlog"] / max(g.backlog.shape[1], 1)


def with_backlog(cluster: Cluster, slots: int, backlog: int, *, rows: int = 20):
    """CuSH's tensor and one more channel, [M + 2, T, X], whose cells are all the part of the backlog that is full: the scalar
    that the network takes in behind its convolutions (`side`)."""
    plain = tensor(cluster, slots, backlog, rows=rows)
    shape = (plain.shape[0] + 1, *plain.shape[1:])
    groups: Groups = plain.groups | {"backlog": [(slots + 1,)]}
    return GridEncoder("cush-backlog", 1, shape, rows, _with_backlog, (), {"rows": rows}, groups=groups)


# ------------------------------------------------------------------ rows per slot

AHEAD = (0, 1, 2, 4, 8)  # rows at which the free units are told
OWN, ABOUT = 15, 5  # features of a slot, and of the whole, besides those per resource


@kernel
def _nodes_used(g, e, job, spread):
    """About how many nodes the job would take now, packed or spread: by its leading resource alone."""
    lead, most, some, N = 0, 0, 0, g.capacity.shape[0]
    for r in range(g.capacity.shape[1]):
        if job["request"][r] > 0:
            lead = r
    need = job["request"][lead]
    for i in range(N):
        left = g.free[e, 0, i, lead]
        some += left > 0
        most = max(most, left)
    if spread:
        return min(some, need)
    return (need + max(most, 1) - 1) // max(most, 1)


@kernel
def _slots(waiting, g, scale, out, first, last):
    (N, R), H, M = g.capacity.shape, g.canvas.shape[1], g.slot.shape[1]
    for e in range(first, last):
        out[e] = 0.0
        now, filled, long = g.moment[e]["now"], 0, 0.0
        for m in range(M):
            if g.slot[e, m] >= 0:
                filled += 1
                long += waiting[e, m]["walltime"]
        for m in range(M + 1):
            f = out[e, m]
            x = OWN + 2 * R
            f[x] = filled / M
            f[x + 1] = np.log1p(np.float64(g.moment[e]["backlog"])) / 4.0
            f[x + 2] = min(long / max(filled, 1) / H, 2.0)
            f[x + 3] = min(g.moment[e]["since"], 10) / 10.0
            f[x + 4] = min(g.moment[e]["promised"] / 10.0, 1.0)
            x += ABOUT
            for r in range(R):
                total = 0.0
                for i in range(N):
                    total += g.capacity[i, r]
                for row in AHEAD:
                    left = 0.0
                    for i in range(N):
                        left += max(g.free[e, min(row, H - 1), i, r], 0)
                    f[x] = left / max(total, 1.0)
                    x += 1
            if m == M or g.slot[e, m] < 0:
                continue
            job = waiting[e, m]
            L, wait, area, ok = job["walltime"], now - job["submit"], 0.0, True
            for r in range(R):
                total, left = 0.0, 0
                for i in range(N):
                    total += g.capacity[i, r]
                    left += g.free[e, 0, i, r]
                part = job["request"][r] / max(total, 1.0)
                f[OWN + 2 * r], f[OWN + 2 * r + 1] = part, max(left / max(total, 1.0) - part, -1.0)
                area += part
                ok = ok and job["request"][r] <= left
            f[0], f[1], f[2] = 1.0, min(L / H, 2.0), 1.0 / L
            f[3], f[4] = np.log1p(wait) / 5.0, np.log1p(wait / L) / 5.0
            f[5], f[6] = ok, min(area * L / H, 2.0)
            if N == 1:
                row = first_row(g, e, job["request"], np.int64(min(L, H)), H - np.int64(min(L, H)))
                f[7] = row / H if row >= 0 else 1.0
                f[8] = row >= 0
            shorter, smaller = 0.0, 0.0
            for k in range(M):
                if g.slot[e, k] >= 0 and k != m:
                    other = waiting[e, k]
                    size = 0.0
                    for r in range(R):
                        total = 0.0
                        for i in range(N):
                            total += g.capacity[i, r]
                        size += other["request"][r] / max(total, 1.0)
                    shorter += other["walltime"] < L
                    smaller += size * other["walltime"] < area * L
            f[9], f[10] = shorter / M, smaller / M
            f[11], f[12] = job["kind"] == COMPUTE, job["kind"] == NETWORK
            if N > 1:
                f[13], f[14] = _nodes_used(g, e, job, False) / N, _nodes_used(g, e, job, True) / N


def slots(cluster: Cluster, slots: int, backlog: int, *, rows: int = 20):
    """Ours: [M + 1, F], a row of features per slot and one for the void action, for a network that is the same for each."""
    R = len(cluster.resources)
    own, wide = OWN + 2 * R, OWN + 2 * R + ABOUT + R * len(AHEAD)
    time, running = [3, 4, own + 3], [5, 7, 8, 13, 14, *range(own + ABOUT, wide)]
    queue = [k for k in range(wide) if k not in (*time, *running)]
    how: dict[str, Any] = {"bounds": (-4.0, 4.0), "groups": columns({"queue": queue, "time": time, "running": running})}
    return GridEncoder("slots", 1, (slots + 1, wide), rows, _slots, (), {"rows": rows}, per_slot=True, **how)


MAKERS = {"deeprm": image, "compact": compact, "cush": tensor, "cush-backlog": with_backlog, "slots": slots}


def make_grid(name: str, cluster: Cluster, slots: int, backlog: int, **settings) -> GridEncoder:
    """Return the encoder `name` for a cluster, `slots` slots and a backlog of `backlog` jobs. Raises InputError."""
    if name not in MAKERS:
        raise unknown("encoder", name, MAKERS)
    if wrong := sorted(set(settings) - set(signature(MAKERS[name]).parameters)):
        raise unknown(f"setting of encoder {name}", wrong[0], ["rows", "widest", "extra_info"])
    return MAKERS[name](cluster, slots, backlog, **settings)


def load_grid(metadata: dict, cluster: Cluster) -> GridEncoder:
    """The encoder of a policy file again: `name`, `slots`, `backlog`, `rows`, `shape`, `units`. Raises InputError."""
    if cluster.total.tolist() != list(metadata["units"]):
        raise InputError(f"was made for {list(metadata['units'])} units; this cluster has {cluster.total.tolist()}")
    encoder = make_grid(metadata["name"], cluster, metadata["slots"], metadata["backlog"], rows=metadata["rows"])
    if list(encoder.shape) != list(metadata["shape"]):
        raise InputError(f"sees {list(metadata['shape'])} numbers; this world shows {list(encoder.shape)}")
    return encoder
