"""Limits of partitions and of QOS: they hold jobs back without blocking others."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel


@kernel
def asked(m, ask, k, out):
    """What a job on k nodes (m.amount) counts for limits: as `site.LIMITS`."""
    out[0], out[4] = 1.0, k
    for r in range(3):
        out[1 + r] = 0.0
        for i in range(k):
            out[1 + r] += m.amount[i, r]


@kernel
def within(m, job, out):
    """Do the limits of the job's QOS let it run beside what runs?"""
    q = job["queue"]
    if not 0 <= q < len(m.qos):
        return True
    for x in range(len(out)):
        if m.by_qos[q, x] + out[x] > m.qos[q]["all"][x]:
            return False
        if job["user"] >= 0 and m.by_user[q, job["user"], x] + out[x] > m.qos[q]["user"][x]:
            return False
    return True


@kernel
def count(m, job, out, sign):
    """A job starts (1) or has stopped (-1)."""
    q = job["queue"]
    if 0 <= q < len(m.qos):
        for x in range(len(out)):
            m.by_qos[q, x] += sign * out[x]
            if job["user"] >= 0:
                m.by_user[q, job["user"], x] += sign * out[x]


@kernel
def _least(m, ask, out):
    """The least that a job could count for limits."""
    out[0], out[1], out[2] = 1.0, np.float64(ask["tasks"]) * ask["cpus"], 0.0
    out[3], out[4] = max(ask["gpus"], ask["gpus_node"] * max(ask["nodes"], 1)), max(ask["nodes"], 1)


@kernel
def allowed(m, job, partition, out):
    """May the job run in this partition now, as far as limits go?"""
    p, ask = m.partition[partition], m.ask[job["ask"]]
    if not p["up"] or job["walltime"] > p["max_time"] or ask["nodes"] > p["max_nodes"]:
        return False
    if 0 <= job["queue"] < len(m.qos) and job["walltime"] > m.qos[job["queue"]]["max_wall"]:
        return False
    _least(m, ask, out)
    return within(m, job, out)
