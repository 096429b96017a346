"""Slurm's priority: the multifactor plugin with fair tree, as measured on a real Slurm (docs/systems/slurm.md).

Priorities are computed when a job comes and then every PriorityCalcPeriod; nothing ages between.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.jobs import RUNNING
from jobwise.sim.fair_share import charge, classic, fade, fair_tree
from jobwise.sim.state import HEAP


@inlined
def _size(m, ask, limit, planned):
    """Return the job size factor."""
    x, nodes, cpus = m.settings[0], max(ask["nodes"], 1), np.float64(ask["tasks"]) * ask["cpus"]
    N, C = len(m.weight), m.cpus[0]
    if planned > 0:
        cpus = planned
    if x["small_relative"]:
        share = max(nodes * C / N, cpus) / max(limit / 60.0, 1.0) / C
        return 1.0 - share if x["favor_small"] else share
    if x["favor_small"]:
        return ((N - nodes) / N + (C - cpus) / C) / 2.0
    return (nodes / N + cpus / C) / 2.0


@kernel
def price(s, e, m, j, age):
    """Put together the priority of job j, but for its partition's part; `age` s since it became eligible."""
    x, job = m.settings[0], s.jobs[e, j]
    if x["basic"]:
        m.priority[j] = -np.float64(j)
        return
    ask, total = m.ask[max(job["ask"], 0)], 0.0
    total += x["age"] * min(1.0, age / x["max_age"])
    if m.leaf_of[j] >= 0:
        total += x["fair_share"] * m.fair[m.leaf_of[j]]
    total += x["size"] * _size(m, ask, job["walltime"], m.planned[j])
    if 0 <= job["queue"] < len(m.qos):
        total += x["qos"] * m.qos[job["queue"]]["priority"] / m.highest[0]
    m.priority[j] = total - ask["nice"]


@inlined
def priority(m, j, job, partition):
    """Return the priority of job j in a partition: a whole number, at least 1."""
    x = m.settings[0]
    if x["basic"]:
        return m.priority[j]
    tres, has = x["tres_cpu"] + x["tres_memory"] + x["tres_gpu"], m.tres[partition]
    if tres > 0:
        tres = x["tres_cpu"] * job["request"][0] / max(has[0], 1) + x["tres_memory"] * job["request"][1] / max(has[1], 1)
        tres += x["tres_gpu"] * job["request"][2] / max(has[2], 1)
    return max(np.floor(m.priority[j] + x["partition"] * m.partition[partition]["factor"] / m.highest[1] + tres), 1.0)


@allocating
def price_all(s, e, m):
    """The pass over all priorities: usage fades, running jobs are charged, and what waits is priced anew."""
    sim, x, c = s.sims[e], m.settings[0], m.clock[0]
    if x["fair_share"] > 0:
        d = sim["now"] - c["priced"]
        for i in range(len(m.usage)):
            m.usage[i] *= fade(x, d)
        for i in range(sim["running"]):
            j = s.lists[e, HEAP, i]
            leaf = m.leaf_of[j]
            if leaf >= 0 and s.jobs[e, j]["status"] == RUNNING:
                begun = s.jobs[e, j]["due"] - max(s.jobs[e, j]["walltime"], 1.0)
                d = sim["now"] - max(begun, c["priced"])
                charge(m, leaf, m.counted[j, 1] * d * fade(x, d))
        if x["fair_tree"]:
            fair_tree(m)
        else:
            classic(m)
    c["priced"] = sim["now"]
    j = sim["head"]
    while j >= 0:
        price(s, e, m, j, np.floor(sim["now"]) - np.floor(s.jobs[e, j]["queued"]))
        j = s.truth[e, j]["next"]
