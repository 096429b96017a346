"""Rate models: how fast a job runs where it is. The kernel asks them at three moments, and knows nothing else of them.

    at_start     a job has got its units: its rate, and the end that its request makes us expect
    on_changes   allocations have changed (where rates are `shared`): what all jobs do to each other
    on_change    and then for each running job: its rate from now on

    RIGID        rate 1 everywhere
    SLOWDOWN     `cluster.Slowdown` (CuSH, DRL4KDD'19): s.factor, rate_setting = (share, 0, 0)
    LINKS        `topology.Topology` (RL-TAPS, CASCON'20), below: rate_setting = (work model, efficiency, per rack)
    AFFINITY     `cluster.Affinity`: s.factor, rate_setting = (pair, 0, 0)

A new model is a code in `state.py`, a branch in each of the functions, and what it reads in `rate_setting`.

A job of LINKS computes for `step` s on each of its n nodes, then exchanges for sr(n, gradient) (1 + per_rack (racks - 1)) s
times as many times as its narrowest link is narrower for being shared (eq. 12-15 of RL-TAPS).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import NETWORK
from jobwise.sim.allocations import all_up, on_node
from jobwise.sim.state import AFFINITY, HEAP, LINKS, SLOWDOWN, STALL


@inlined
def at_start(s, e, j, k, rate):
    """The rate of job j, which has just got units of k nodes; `rate` is what it would be at its best place. Sets `due`."""
    sim, job, truth = s.sims[e], s.jobs[e, j], s.truth[e, j]
    if sim["rate_model"] == SLOWDOWN:
        truth["sigma"] = sigma(s, e, truth["kind"], truth, truth["runtime"], k)
        longer = sigma(s, e, job["kind"], truth, job["walltime"], k)
        job["due"] = sim["now"] + max((max(job["walltime"], 1.0) - job["ran"]) * longer, 1.0)
        rate /= truth["sigma"]
    elif sim["rate_model"] == AFFINITY:
        truth["sigma"] = whole(sim, truth["runtime"], _slowest(s, e, j))
        rate /= truth["sigma"]
    elif sim["rate_model"] == LINKS:
        truth["sigma"] = 1.0
    return rate


@kernel
def on_change(s, e, j):
    """The rate of running job j now that others have started or stopped."""
    sim, truth = s.sims[e], s.truth[e, j]
    if sim["rate_model"] == LINKS:
        return _on_links(s, e, j)
    if sim["rate_model"] == SLOWDOWN and truth["rate"] > 0.0 and _on_network(s, e, truth["kind"]):
        others, k = _sharers(s, e, j)
        return 1.0 / (truth["sigma"] + sim["rate_setting"][0] * others / max(k, 1))
    return truth["rate"]


# ------------------------------------------------------------------ links


@kernel
def on_changes(s, e):
    """Count the jobs on every link."""
    if s.sims[e]["rate_model"] != LINKS:
        return
    clear(s, e)
    for i in range(s.sims[e]["running"]):
        _mark(s, e, s.lists[e, HEAP, i])
        load(s, e, count(s, e)[0])


@inlined
def _mark(s, e, j):
    """Mark the nodes that job j holds, by 1 in `before`."""
    for i in range(s.nodes.shape[1]):
        s.nodes[e, i]["before"] = 0
    at = s.jobs[e, j]["held"]
    while at >= 0:
        s.nodes[e, s.slices[e, at]["node"]]["before"] = 1
        at = s.slices[e, at]["next"]


@kernel
def mark(s, e, owner, place):
    """Mark the nodes i with owner[i] = p."""
    for i in range(s.nodes.shape[1]):
        s.nodes[e, i]["before"] = owner[i] == place


@kernel
def clear(s, e):
    """No job on any link."""
    for x in range(s.links.shape[1]):
        s.links[e, x]["jobs"] = 0


@kernel
def load(s, e, k):
    """One more job on each link that its k nodes, which were counted, use."""
    for x in range(s.links.shape[1] if k > 1 else 0):
        s.links[e, x]["jobs"] += _uses(s, e, s.links[e, x]["range"], k)


@kernel
def count(s, e):
    """(how many nodes are marked, in how many racks); `before` of every node becomes the number of them before it."""
    node = s.nodes[e]
    k, racks, last = 0, 0, -1
    for i in range(len(node)):
        there = node[i]["before"]
        if there and node[i]["rack"] != last:
            racks, last = racks + 1, node[i]["rack"]
        node[i]["before"] = k
        k += there
    return k, racks


@inlined
def _between(s, e, first, last, k):
    """Return the number of the k counted nodes in [first, last)."""
    N = s.nodes.shape[1]
    upper = s.nodes[e, last]["before"] if last < N else k
    return upper - (s.nodes[e, first]["before"] if first < N else k)


@inlined
def _uses(s, e, r, k):
    """Does a link of these ranges lie on a way between two of the k nodes counted?"""
    if _between(s, e, r[0], r[1], k) == 0:
        return False
    return _between(s, e, r[2], r[3], k) > _between(s, e, r[4], r[5], k)


@inlined
def reduction(curve, n, gradient):
    """Return sr: s that n nodes of a rack spend on reducing `gradient` MB once; linear between the sizes of `curve`."""
    if n <= 1:
        return 0.0
    c = curve[min(n, len(curve) - 1)]
    if gradient <= 100.0:
        return c[0] + (c[1] - c[0]) * gradient / 100.0
    return c[1] + (c[2] - c[1]) * (gradient - 100.0) / 400.0


@inlined
def speed(step, n, rt):
    """Return the speed of n nodes that exchange for rt s after every `step` s, in nodes that always compute (eq. 3)."""
    return n * step / (step + rt) if step > 0.0 else np.float64(n)


@inlined
def unit(sim, curve, job):
    """The speed at which a job of `runtime` s takes that long: of its request ("seed": without exchanges; "lab": in a rack)."""
    n, step = job["request"][0], job["step"]
    if sim["rate_setting"][0] == 0.0:
        return n / sim["rate_setting"][1]
    return speed(step, n, reduction(curve, n, job["gradient"]))


@inlined
def alone(s, e, job, n, racks):
    """Return the rate of a job on n nodes of `racks` racks, if it shared no link."""
    rt = reduction(s.curve, n, job["gradient"]) * (1.0 + s.sims[e]["rate_setting"][2] * (racks - 1))
    return speed(job["step"], n, rt) / unit(s.sims[e], s.curve, job)


@kernel
def _on_links(s, e, j):
    sim, job, truth = s.sims[e], s.jobs[e, j], s.truth[e, j]
    if sim["on_failure"] == STALL and not all_up(s, e, j):
        return 0.0
    _mark(s, e, j)
    rate = there(s, e, job)
    if rate > 0.0:
        left = truth["pause"] + (max(job["walltime"], 1.0) - (truth["runtime"] - truth["left"])) / rate
        job["due"] = sim["now"] + max(left, 1.0)
    return rate


@kernel
def there(s, e, job):
    """The rate of a job on the nodes that are marked, its links shared by as many jobs as they say."""
    sim, (k, racks) = s.sims[e], count(s, e)
    rt = reduction(s.curve, k, job["gradient"]) * (1.0 + sim["rate_setting"][2] * (racks - 1))
    if k > 1 and job["step"] > 0.0:
        widest, left = np.inf, np.inf
        for x in range(s.links.shape[1]):
            link = s.links[e, x]
            if _uses(s, e, link["range"], k):
                widest = min(widest, link["bandwidth"])
                left = min(left, link["bandwidth"] / max(link["jobs"], 1))
        if widest == 0.0:
            return 0.0  # there is no way between them
        rt *= widest / left
    return speed(job["step"], k, rt) / unit(sim, s.curve, job)


# ------------------------------------------------------------------ nodes


@inlined
def sigma(s, e, kind, truth, length, k):
    """Return the factor on the run time of a job of this kind on k nodes, 1 at its best (`cluster.Slowdown`).

    Where there are ticks, a job whose `length` (s, at its best) is a number of whole ones runs for whole ones.
    """
    K, P, least, most = s.factor.shape[1], s.factor.shape[2], truth["least"], truth["most"]
    if k <= 0 or kind < 0 or kind >= K or P < 2 or (k <= least and most <= least):
        return 1.0
    at = min(max((k - least) / max(1.0, np.float64(most - least)), 0.0), 1.0) * (P - 1)
    i = min(np.int64(at), P - 2)
    x = s.factor[e, kind, i] + (s.factor[e, kind, i + 1] - s.factor[e, kind, i]) * (at - i)
    return whole(s.sims[e], length, x) if x > 1.0 else 1.0


@inlined
def _on_network(s, e, kind):
    """Do jobs of this kind slow each other down on a node?"""
    last = s.factor.shape[2] - 1
    return kind == NETWORK or (kind > NETWORK and kind < s.factor.shape[1] and s.factor[e, kind, last] > s.factor[e, kind, 0])


@inlined
def whole(sim, length, x):
    """The factor x of a run of `length` s; where that is a number of whole ticks, so that it takes whole ticks."""
    ticks = length / sim["tick"] if sim["tick"] > 0.0 else 0.0
    if ticks > 0.0 and abs(ticks - np.round(ticks)) < 1e-9:
        return np.ceil(ticks * x - 1e-9) * sim["tick"] / length
    return x


@kernel
def factor(s, e, kind, node):
    """Return the factor on the run time of a job of this kind on this node, in the node's present state."""
    K, N = s.factor.shape[1], s.nodes.shape[1]
    if kind < 0 or kind >= K:
        return 1.0
    x, pair = s.factor[e, kind, node], s.sims[e]["rate_setting"][0]
    if pair > 0.0:
        others = 0
        for i in range(s.sims[e]["running"]):
            other = s.lists[e, HEAP, i]
            if s.truth[e, other]["kind"] != kind:
                near = on_node(s, e, other, (node + 1) % N) or on_node(s, e, other, (node - 1 + N) % N)
                others += near
        x *= 1.0 + pair * others
    return x


@kernel
def _slowest(s, e, j):
    """The factor of job j on the nodes that it holds: the slowest counts."""
    if s.slices.shape[1] == 1:  # a pool
        return factor(s, e, s.truth[e, j]["kind"], 0)
    x, at = 0.0, s.jobs[e, j]["held"]
    while at >= 0:
        x = max(x, factor(s, e, s.truth[e, j]["kind"], s.slices[e, at]["node"]))
        at = s.slices[e, at]["next"]
    return x if x > 0.0 else 1.0


@kernel
def _sharers(s, e, row):
    """(how many other network-intensive jobs share a node with running job `row`, how many nodes it holds)."""
    others, k = 0, 0
    at = s.jobs[e, row]["held"]
    while at >= 0:
        k += 1
        at = s.slices[e, at]["next"]
    for i in range(s.sims[e]["running"]):
        other = s.lists[e, HEAP, i]
        if other == row or not _on_network(s, e, s.truth[e, other]["kind"]):
            continue
        at, met = s.jobs[e, row]["held"], False
        while at >= 0 and not met:
            met = on_node(s, e, other, s.slices[e, at]["node"])
            at = s.slices[e, at]["next"]
        others += met
    return others, k


@inlined
def expected(job):
    """Return the expected run time of a job that starts now (s): its request less the time it has run, at least 1."""
    return max(max(job["walltime"], 1.0) - job["ran"], 1.0)


@inlined
def finish(sim, truth):
    """Return the time when the work left is done at the present rate (s). Rounding errors of a tick are corrected; where links
    are shared a job ends with its tick, because others learn of it no sooner."""
    if truth["rate"] <= 0.0:
        return np.inf
    t = sim["now"] + truth["pause"] + truth["left"] / truth["rate"]
    if sim["tick"] > 0.0 and sim["rate_model"] == LINKS:
        t = np.ceil(t / sim["tick"] - 1e-9) * sim["tick"]
    elif sim["tick"] > 0.0:
        near = np.round(t / sim["tick"]) * sim["tick"]
        if abs(t - near) < 1e-6 * sim["tick"]:
            t = near
    return t
