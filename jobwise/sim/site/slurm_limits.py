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


@inlined
def _partitions(slurm, p):
    """The QOS of a partition; -1: it has none."""
    return slurm.site.partition_qos[p] if p >= 0 else np.int64(-1)


@inlined
def _own(slurm, job):
    """The QOS of a job; -1: it has none."""
    return np.int64(job["queue"]) if 0 <= job["queue"] < len(slurm.site.qos) else np.int64(-1)


@kernel
def within(slurm, j, job, p, out, n):
    """Do the limits of QOS and associations let job j run in partition p beside what runs, on nodes slurm.work.each[:n] (0: not
    chosen yet)? A limit of the partition's QOS stands for the same one of the job's own."""
    mine, parts, user = _own(slurm, job), _partitions(slurm, p), job["user"]
    for x in range(len(out) if mine >= 0 or parts >= 0 else 0):
        q = parts if parts >= 0 and (mine < 0 or slurm.site.qos[parts]["all"][x] < np.inf) else mine
        has, most = slurm.ledger.by_qos[q, x], slurm.site.qos[q]["all"][x]
        if not _fits(slurm, row_of(slurm, OF_QOS, q, -1), n, has, out[x], most, x):
            return False
        q = parts if parts >= 0 and (mine < 0 or slurm.site.qos[parts]["user"][x] < np.inf) else mine
        if user >= 0:
            has, most = slurm.ledger.by_user[q, user, x], slurm.site.qos[q]["user"][x]
            if not _fits(slurm, row_of(slurm, OF_USER, q, user), n, has, out[x], most, x):
                return False
    return not slurm.site.bounded[0] or _within_associations(slurm, j, mine, parts, out, n)


@inlined
def _free(slurm, mine, parts, kind, x):
    """Does no QOS have a limit that stands for that of an association?"""
    if kind == OF_USER:
        return (mine < 0 or slurm.site.qos[mine]["user"][x] == np.inf) and (
            parts < 0 or slurm.site.qos[parts]["user"][x] == np.inf
        )
    return (mine < 0 or slurm.site.qos[mine]["all"][x] == np.inf) and (parts < 0 or slurm.site.qos[parts]["all"][x] == np.inf)


@kernel
def _within_associations(slurm, j, mine, parts, out, n):
    """A limit of the QOS of the job or its partition (-1: none) stands for that of the associations."""
    leaf = at = slurm.ledger.leaf_of[j]
    if leaf < 0:
        return True
    most = slurm.site.association[leaf]["jobs"] if _free(slurm, mine, parts, OF_USER, 0) else np.inf
    if slurm.ledger.by_association[leaf, 0] + 1.0 > most:
        return False
    while at >= 0:
        row = row_of(slurm, OF_ASSOCIATION, at, -1)
        for x in range(len(out)):
            has, most = slurm.ledger.by_association[at, x], slurm.site.association[at]["all"][x]
            if _free(slurm, mine, parts, OF_QOS, x) and not _fits(slurm, row, n, has, out[x], most, x):
                return False
        at = slurm.site.association[at]["parent"]
    return True


@kernel
def count(slurm, j, job, p, out, sign):
    """Job j starts in partition p (1) or has stopped (-1)."""
    at, asked_for = slurm.ledger.leaf_of[j], slurm.site.ask[job["ask"]]["licences"]
    while at >= 0 and slurm.site.bounded[0]:
        row = row_of(slurm, OF_ASSOCIATION, at, -1)
        for x in range(len(out)):
            slurm.ledger.by_association[at, x] += _amount(slurm, j, row, sign, out[x], x)
        at = slurm.site.association[at]["parent"]
    for x in range(len(slurm.ledger.licences) if asked_for > 0 else 0):
        slurm.ledger.licences[x] += sign * slurm.site.licence_asks[asked_for, x]
    slurm.ledger.by_array[slurm.site.ask[job["ask"]]["array"]] += np.int64(sign)
    mine, parts = _own(slurm, job), _partitions(slurm, p)
    _count_qos(slurm, j, mine, job["user"], out, sign)
    if parts != mine:
        _count_qos(slurm, j, parts, job["user"], out, sign)


@kernel
def _count_qos(slurm, j, q, user, out, sign):
    """Count job j in or out of QOS q (-1: none)."""
    for x in range(len(out) if q >= 0 else 0):
        slurm.ledger.by_qos[q, x] += _amount(slurm, j, row_of(slurm, OF_QOS, q, -1), sign, out[x], x)
        if user >= 0:
            slurm.ledger.by_user[q, user, x] += _amount(slurm, j, row_of(slurm, OF_USER, q, user), sign, out[x], x)


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
    mine, parts = _own(slurm, job), _partitions(slurm, partition)
    wall = slurm.site.qos[parts]["max_wall"] if parts >= 0 else np.inf
    if wall == np.inf and mine >= 0:
        wall = slurm.site.qos[mine]["max_wall"]
    if job["walltime"] > wall:
        return False
    _least(slurm, ask, out)
    return _licensed(slurm, ask) and within(slurm, j, job, partition, out, 0)
