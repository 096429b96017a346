"""Limits of partitions, QOS, associations, arrays and licences: they hold jobs back without blocking others."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.distinct_nodes import NODE, OF_ASSOCIATION, OF_QOS, OF_USER, changed, more, row_of


@kernel
def asked(slurm, ask, n, out):
    """Return the amounts of a job on n nodes (slurm.work.amount) that count for limits: as `site.LIMITS`."""
    out[0], out[4] = 1.0, n
    for r in range(3):
        out[1 + r] = 0.0
        for i in range(n):
            out[1 + r] += slurm.work.amount[i, r]


@inlined
def _fits(slurm, row, n, has, wants, most, x):
    """Does an amount x fit below a limit? `row` >= 0: of nodes that count once, and the job would have slurm.work.each[:n] (n
    0: they are not chosen yet)."""
    if x == NODE and row >= 0:
        return has + more(slurm, row, n) <= most
    return has + wants <= most


@kernel
def within(slurm, j, job, out, n):
    """Do the limits of the QOS and of the associations of job j let it run beside what runs, on nodes slurm.work.each[:n] (n 0:
    they are not chosen yet)?"""
    q = job["queue"]
    limited = 0 <= q < len(slurm.site.qos)
    if limited:
        all_, own = row_of(slurm, OF_QOS, q, -1), row_of(slurm, OF_USER, q, job["user"])
        for x in range(len(out)):
            if not _fits(slurm, all_, n, slurm.ledger.by_qos[q, x], out[x], slurm.site.qos[q]["all"][x], x):
                return False
            if job["user"] < 0:
                continue
            if not _fits(slurm, own, n, slurm.ledger.by_user[q, job["user"], x], out[x], slurm.site.qos[q]["user"][x], x):
                return False
    return not slurm.site.bounded[0] or _within_associations(slurm, j, q if limited else -1, out, n)


@kernel
def _within_associations(slurm, j, q, out, n):
    """A limit of the QOS q (-1: none) stands for that of the associations."""
    leaf = at = slurm.ledger.leaf_of[j]
    if leaf < 0:
        return True
    free = q < 0 or slurm.site.qos[q]["user"][0] == np.inf
    if free and slurm.ledger.by_association[leaf, 0] + 1.0 > slurm.site.association[leaf]["jobs"]:
        return False
    while at >= 0:
        row = row_of(slurm, OF_ASSOCIATION, at, -1)
        for x in range(len(out)):
            free = q < 0 or slurm.site.qos[q]["all"][x] == np.inf
            has, most = slurm.ledger.by_association[at, x], slurm.site.association[at]["all"][x]
            if free and not _fits(slurm, row, n, has, out[x], most, x):
                return False
        at = slurm.site.association[at]["parent"]
    return True


@kernel
def count(slurm, j, job, out, sign):
    """Job j starts (1) or has stopped (-1)."""
    q, at, asked_for = job["queue"], slurm.ledger.leaf_of[j], slurm.site.ask[job["ask"]]["licences"]
    while at >= 0 and slurm.site.bounded[0]:
        row = row_of(slurm, OF_ASSOCIATION, at, -1)
        for x in range(len(out)):
            slurm.ledger.by_association[at, x] += _amount(slurm, j, row, sign, out[x], x)
        at = slurm.site.association[at]["parent"]
    for x in range(len(slurm.ledger.licences) if asked_for > 0 else 0):
        slurm.ledger.licences[x] += sign * slurm.site.licence_asks[asked_for, x]
    slurm.ledger.by_array[slurm.site.ask[job["ask"]]["array"]] += np.int64(sign)
    if 0 <= q < len(slurm.site.qos):
        all_, own = row_of(slurm, OF_QOS, q, -1), row_of(slurm, OF_USER, q, job["user"])
        for x in range(len(out)):
            slurm.ledger.by_qos[q, x] += _amount(slurm, j, all_, sign, out[x], x)
            if job["user"] >= 0:
                slurm.ledger.by_user[q, job["user"], x] += _amount(slurm, j, own, sign, out[x], x)


@inlined
def _amount(slurm, j, row, sign, amount, x):
    """What an amount x of job j adds (sign 1) or takes away: of nodes that count once, those that are new."""
    return changed(slurm, j, row, sign) if x == NODE and row >= 0 else sign * amount


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
def _licensed(slurm, ask):
    """Are the licences free that the job asks for?"""
    for x in range(len(slurm.ledger.licences) if ask["licences"] > 0 else 0):
        if slurm.ledger.licences[x] + slurm.site.licence_asks[ask["licences"], x] > slurm.site.licences[x]:
            return False
    return True


@kernel
def allowed(slurm, j, job, partition, out):
    """May job j run in this partition now, as far as limits go?"""
    p, ask = slurm.site.partition[partition], slurm.site.ask[job["ask"]]
    if ask["at_once"] > 0 and slurm.ledger.by_array[ask["array"]] >= ask["at_once"]:
        return False
    if not p["up"] or job["walltime"] > p["max_time"] or ask["nodes"] > p["max_nodes"]:
        return False
    if 0 <= job["queue"] < len(slurm.site.qos) and job["walltime"] > slurm.site.qos[job["queue"]]["max_wall"]:
        return False
    _least(slurm, ask, out)
    return _licensed(slurm, ask) and within(slurm, j, job, out, 0)
