"""Encoders of the world of GPUs: RL-TAPS's image, and rows per job. They see what is in the places, who has which GPU, and how
many jobs wait behind: neither jobs to come nor true run times."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.compiled import inlined, kernel
from jobwise.errors import InputError
from jobwise.sim.rates import alone
from jobwise.worlds.encoder import TableEncoder, columns


@kernel
def _image(s, g, scale, out, first, last):
    place, has, moment = g.place, g.has, g.moment
    rows, M, wide, B = out.shape[1], has.shape[1], np.int64(scale[0]), np.int64(scale[1])
    for e in range(first, last):
        out[e] = 0.0
        N = moment[e]["slots"]
        for i in range(M):
            p = has[e, i]
            if p >= 0:
                one, colour = place[e, p], (p + 1.0) / place.shape[1]
                for row in range(min(rows, np.int64(np.ceil(one["left"] / max(one["rate"], 1e-9) - 1e-6)))):
                    out[e, row, i] = colour
        for p in range(N):
            one = place[e, p]
            for row in range(min(rows, np.int64(np.ceil(one["left"] - 1e-6)) if one["job"] >= 0 else 0)):
                for c in range(min(one["request"], wide)):
                    out[e, row, M + p * wide + c] = 1.0
        x, columns = M + N * wide, (B + rows - 1) // rows
        for k in range(min(moment[e]["behind"], B)):
            out[e, k // columns, x + k % columns] = 1.0


def image(cluster: Cluster, slots: int, backlog: int = 60, *, rows: int = 10, widest: int = 12):
    """RL-TAPS's image (CASCON 2020): [rows, M + slots widest + ceil(backlog / rows)].

    A column per GPU: as many rows as its job will run at its last speed, in the colour (place + 1) / places. `widest` columns
    per slot: the GPUs that its job asks for by the rows that it would take with them, if exchanges cost nothing. At last the
    jobs behind the slots, row by row.
    """
    if not (1 <= rows <= 1000 and 1 <= widest <= 1000 and 0 <= backlog <= 1_000_000):
        raise InputError(f"encoder rl-taps: {rows} rows, {widest} columns a slot and a backlog of {backlog} cannot be")
    M = len(cluster.capacity)
    shape = (rows, M + slots * widest + -(-backlog // rows))
    settings = {"rows": rows, "widest": widest, "backlog": backlog}
    wide = M + slots * widest
    groups = columns({"running": list(range(M)), "queue": list(range(M, wide)), "behind": list(range(wide, shape[1]))})
    how: dict[str, Any] = {"bounds": (0.0, 1.0), "slots": slots, "groups": groups}
    return TableEncoder("rl-taps", 1, shape, rows, _image, (widest, backlog), settings, **how)


NUMBERS = (1, 2, 4, 8, 16, 32)  # of GPUs at which the speed of a job is told
OWN, ABOUT = 16, 6  # features of a job, and of all


@inlined
def show_job(s, g, e, p, f):
    """Write the features of the job in a place, OWN of them; none where the place is empty."""
    if g.place[e, p]["job"] < 0:
        return
    one, job = g.place[e, p], s.jobs[e, g.place[e, p]["job"]]
    f[0], f[1], f[2] = 1.0, np.log(one["length"]) / 2.0, np.log(one["left"] + 0.05) / 2.0
    f[3], f[4] = np.log(np.float64(one["request"])) / 2.0, np.log(one["worth"]) / 3.0
    v = alone(s, e, job, 1, 1)
    f[5] = np.log(v) / 2.0
    for k in range(1, len(NUMBERS)):
        now = alone(s, e, job, NUMBERS[k], 1)
        f[5 + k] = np.log2(now / v)
        v = now
    f[11], f[12] = one["held"] > 0, np.log2(1.0 + one["held"]) / 5.0
    f[13], f[14] = not np.isnan(job["start"]) and one["held"] == 0, np.log1p(one["waited"]) / 5.0
    f[15] = one["rate"] / alone(s, e, job, one["held"], 1) if one["held"] > 0 and one["rate"] > 0.0 else 1.0


@kernel
def _jobs(s, g, scale, out, first, last):
    P, M = g.place.shape[1], g.has.shape[1]
    for e in range(first, last):
        out[e] = 0.0
        m, busy, left, taken = g.moment[e], 0.0, 0.0, 0.0
        cost = s.sims[e]["restart_cost"] / s.sims[e]["tick"]
        for p in range(P):
            if g.place[e, p]["job"] >= 0:
                busy += 1.0
                left += g.place[e, p]["left"] * g.place[e, p]["worth"]
                taken += g.place[e, p]["held"]
        for p in range(P + 1):
            f = out[e, p]
            f[OWN], f[OWN + 1] = busy / P, np.log1p(np.float64(m["behind"])) / 4.0
            f[OWN + 2], f[OWN + 3] = np.log(left / max(busy, 1.0) + 1.0) / 4.0, taken / M
            f[OWN + 4], f[OWN + 5] = min(cost, 2.0), np.log2(M) / 5.0 - 1.0
            if p < P:
                show_job(s, g, e, p, f)


def jobs(cluster: Cluster, slots: int, *, leave: bool = False):
    """Ours: [slots + 1, F], a row of features per job and one for the cluster, the same for clusters of any size: length, what
    is left, how the speed grows with the number of GPUs, what it holds, how much slower than alone it runs there."""
    shape = (slots + leave * len(cluster.capacity) + 1, OWN + ABOUT)
    groups = columns({"queue": list(range(11)), "running": list(range(11, OWN)), "cluster": list(range(OWN, OWN + ABOUT))})
    how: dict[str, Any] = {"per_slot": True, "bounds": (-8.0, 8.0), "slots": slots, "groups": groups}
    return TableEncoder("gpu-jobs", 1, shape, 10, _jobs, (), {"leave": leave}, **how)
