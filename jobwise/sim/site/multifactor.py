"""Slurm's priority: the multifactor plugin with fair tree, as measured on a real Slurm (docs/systems/slurm.md).

Priorities are computed when a job comes and then every PriorityCalcPeriod; nothing ages between.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.jobs import RUNNING
from jobwise.sim.site.fair_share import charge, classic, fade, fair_tree
from jobwise.sim.state import HEAP


@inlined
def _size(slurm, ask, limit, planned):
    """Return the job size factor, 0 to 1, of a job of `limit` s; `planned`: CPUs by its last plan, 0 none. The mean of its
    shares of all nodes and of all CPUs; with SMALL_RELATIVE_TO_TIME its CPUs a minute."""
    settings, nodes = slurm.site.settings[0], max(ask["nodes"], 1)
    all_nodes, all_cpus = len(slurm.site.weight), slurm.site.cpus[0]
    cpus = planned if planned > 0 else np.float64(ask["tasks"]) * ask["cpus"]
    if settings["small_relative"]:
        share = max(nodes * all_cpus / all_nodes, cpus) / max(limit / 60.0, 1.0) / all_cpus
        return 1.0 - share if settings["favor_small"] else share
    if settings["favor_small"]:
        return ((all_nodes - nodes) / all_nodes + (all_cpus - cpus) / all_cpus) / 2.0
    return (nodes / all_nodes + cpus / all_cpus) / 2.0


@kernel
def price(s, e, slurm, j, age):
    """Put together the priority of job j, but for its partition's part; `age` s since it became eligible."""
    x, job, age = slurm.site.settings[0], s.jobs[e, j], max(age, 0.0)
    if x["basic"]:
        slurm.ledger.priority[j] = -np.float64(j)
        return
    ask, total = slurm.site.ask[max(job["ask"], 0)], 0.0
    total += x["age"] * min(1.0, age / x["max_age"])
    if slurm.ledger.leaf_of[j] >= 0:
        total += x["fair_share"] * slurm.ledger.fair[slurm.ledger.leaf_of[j]]
    total += x["size"] * _size(slurm, ask, job["walltime"], slurm.ledger.planned[j])
    if 0 <= job["queue"] < len(slurm.site.qos):
        total += x["qos"] * slurm.site.qos[job["queue"]]["priority"] / slurm.site.highest[0]
    slurm.ledger.priority[j] = total - ask["nice"]


@inlined
def priority(slurm, j, job, partition):
    """Return the priority of job j in a partition: a whole number, at least 1."""
    x = slurm.site.settings[0]
    if x["basic"]:
        return slurm.ledger.priority[j]
    tres, has = x["tres_cpu"] + x["tres_memory"] + x["tres_gpu"], slurm.site.tres[partition]
    if tres > 0:
        tres = x["tres_cpu"] * job["request"][0] / max(has[0], 1) + x["tres_memory"] * job["request"][1] / max(has[1], 1)
        tres += x["tres_gpu"] * job["request"][2] / max(has[2], 1)
    return max(
        np.floor(
            slurm.ledger.priority[j] + x["partition"] * slurm.site.partition[partition]["factor"] / slurm.site.highest[1] + tres
        ),
        1.0,
    )


@allocating
def price_all(s, e, slurm):
    """The pass over all priorities: usage fades, running jobs are charged, and what waits is priced anew."""
    sim, x, c = s.sims[e], slurm.site.settings[0], slurm.ledger.clock[0]
    if x["fair_share"] > 0:
        d = sim["now"] - c["priced"]
        for i in range(len(slurm.ledger.usage)):
            slurm.ledger.usage[i] *= fade(x, d)
        for i in range(sim["running"]):
            j = s.lists[e, HEAP, i]
            leaf = slurm.ledger.leaf_of[j]
            if leaf >= 0 and s.jobs[e, j]["status"] == RUNNING:
                begun = s.jobs[e, j]["due"] - max(s.jobs[e, j]["walltime"], 1.0)
                d = sim["now"] - max(begun, c["priced"])
                charge(slurm, leaf, slurm.ledger.counted[j, 1] * d * fade(x, d))
        if x["fair_tree"]:
            fair_tree(slurm)
        else:
            classic(slurm)
    c["priced"] = sim["now"]
    j = sim["head"]
    while j >= 0:
        price(s, e, slurm, j, np.floor(sim["now"]) - np.floor(slurm.ledger.since[j]))
        j = s.truth[e, j]["next"]
