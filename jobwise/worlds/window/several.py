"""A pass over the queue of a machine of several resources, each a pool: what one of processors alone does not need.

The first resource is `size` in the tables, those behind it are `more`.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.lists import ranked


@inlined
def fits(s, e, c, x, free):
    """Is what a job of the queue asks for free, `free` units of the first resource and what there is of the others?"""
    if x["size"] > free:
        return False
    for r in range(1, c.amount.shape[1]):
        if x["more"][r - 1] > s.nodes[e, 0]["free"][r]:
            return False
    return True


@kernel
def reserve(s, e, c, running, x):
    """The reservation of a job where there are several resources: the first estimated end at which all that it asks for is
    free, and what is left beside it then."""
    m, q, node, R, ok = c.moment[e], running, s.nodes[e, 0], c.amount.shape[1], False
    m["shadow"], m["extra"] = np.inf, node["free"][0] - x["size"]
    for r in range(1, R):
        m["more_extra"][r - 1] = node["free"][r] - x["more"][r - 1]
    for b in range(q.count[0]):
        block = q.order[b]
        for k in range(q.block[block]["used"]):
            job = s.jobs[e, q.entry[block, k]["row"]]
            if ok and job["due"] > m["shadow"]:
                return
            m["extra"] += job["request"][0]
            enough = m["extra"] >= 0
            for r in range(1, R):
                m["more_extra"][r - 1] += job["request"][r]
                enough = enough and m["more_extra"][r - 1] >= 0
            if enough and not ok:
                ok, m["shadow"] = True, max(job["due"], s.sims[e]["now"])
    if not ok:  # it never fits by the estimates (a part of the machine is down), and stops nobody
        m["extra"] = ranked.ALL
        for r in range(1, R):
            m["more_extra"][r - 1] = ranked.ALL


@kernel
def shares(s, e, c, x, starts):
    """Write a chosen job's request and the use with it, in the report of a machine of several resources: of each resource,
    and the mean share of them in units of the first."""
    z, node, R, asked, used = c.interval[e], s.nodes[e, 0], c.amount.shape[1], 0.0, 0.0
    for r in range(R):
        capacity = max(node["capacity"][r], 1)
        share = (x["size"] if r == 0 else x["more"][r - 1]) / capacity
        z["shares"][r] = (node["capacity"][r] - node["free"][r]) / capacity + (share if starts else 0.0)
        asked, used = asked + share, used + z["shares"][r]
    z["picked_size"], z["used"] = asked / R * node["capacity"][0], used / R * node["capacity"][0]


@inlined
def totals(s, e, c):
    """Write the capacity of simulation e's machine."""
    m, node = c.moment[e], s.nodes[e, 0]
    m["total"] = node["capacity"][0]
    for r in range(1, c.amount.shape[1]):
        m["more_total"][r - 1] = node["capacity"][r]
