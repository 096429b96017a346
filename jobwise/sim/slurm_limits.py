"""Limits of partitions, of QOS and of arrays: they hold jobs back without blocking others."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel


@kernel
def asked(slurm, ask, k, out):
    """What a job on k nodes (slurm.work.amount) counts for limits: as `site.LIMITS`."""
    out[0], out[4] = 1.0, k
    for r in range(3):
        out[1 + r] = 0.0
        for i in range(k):
            out[1 + r] += slurm.work.amount[i, r]


@kernel
def within(slurm, job, out):
    """Do the limits of the job's QOS let it run beside what runs?"""
    q = job["queue"]
    if not 0 <= q < len(slurm.site.qos):
        return True
    for x in range(len(out)):
        if slurm.ledger.by_qos[q, x] + out[x] > slurm.site.qos[q]["all"][x]:
            return False
        if job["user"] >= 0 and slurm.ledger.by_user[q, job["user"], x] + out[x] > slurm.site.qos[q]["user"][x]:
            return False
    return True


@kernel
def count(slurm, job, out, sign):
    """A job starts (1) or has stopped (-1)."""
    q = job["queue"]
    slurm.ledger.by_array[slurm.site.ask[job["ask"]]["array"]] += np.int64(sign)
    if 0 <= q < len(slurm.site.qos):
        for x in range(len(out)):
            slurm.ledger.by_qos[q, x] += sign * out[x]
            if job["user"] >= 0:
                slurm.ledger.by_user[q, job["user"], x] += sign * out[x]


@inlined
def begun_elsewhere(slurm, ask, partition):
    """Has this pass started a task of the job's array in another partition? Then it sees no more of the array."""
    where = slurm.work.begun_in[slurm.site.ask[ask]["array"]]
    return where >= 0 and where != partition


@kernel
def _least(slurm, ask, out):
    """The least that a job could count for limits."""
    out[0], out[1], out[2] = 1.0, np.float64(ask["tasks"]) * ask["cpus"], 0.0
    out[3], out[4] = max(ask["gpus"], ask["gpus_node"] * max(ask["nodes"], 1)), max(ask["nodes"], 1)


@kernel
def allowed(slurm, job, partition, out):
    """May the job run in this partition now, as far as limits go?"""
    p, ask = slurm.site.partition[partition], slurm.site.ask[job["ask"]]
    if ask["at_once"] > 0 and slurm.ledger.by_array[ask["array"]] >= ask["at_once"]:
        return False
    if not p["up"] or job["walltime"] > p["max_time"] or ask["nodes"] > p["max_nodes"]:
        return False
    if 0 <= job["queue"] < len(slurm.site.qos) and job["walltime"] > slurm.site.qos[job["queue"]]["max_wall"]:
        return False
    _least(slurm, ask, out)
    return within(slurm, job, out)
