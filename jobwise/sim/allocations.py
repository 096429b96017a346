"""The units that running jobs hold: taking them, giving them back, questions about them."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.power import is_idle
from jobwise.sim.spans import give


@kernel
def on_node(s, e, j, node):
    """Does job j hold something of the node?"""
    if s.slices.shape[1] == 1:
        return True
    at = s.jobs[e, j]["held"]
    while at >= 0:
        if s.slices[e, at]["node"] == node:
            return True
        at = s.slices[e, at]["next"]
    return False


@kernel
def all_up(s, e, j):
    """Are all nodes of job j up?"""
    for node in range(s.nodes.shape[1]):
        if not s.nodes[e, node]["up"] and on_node(s, e, j, node):
            return False
    return True


@inlined
def hold(s, e, j, node, amount, k):
    """Take the job's units; False (and nothing taken) where they are not free."""
    if s.slices.shape[1] == 1:  # a pool
        n = s.jobs[e, j]["request"][0]
        if n > s.nodes[e, 0]["free"][0]:
            return False
        s.nodes[e, 0]["free"][0] -= n
        return True
    R = len(s.nodes[e, 0]["free"])
    for i in range(k):
        for r in range(R):
            if amount[i, r] > s.nodes[e, node[i]]["free"][r]:
                return False
    first = -1
    for i in range(k):
        at = s.sims[e]["slice"]
        if at < 0:
            s.jobs[e, j]["held"] = first
            release(s, e, j)
            return False
        s.sims[e]["slice"] = s.slices[e, at]["next"]
        s.slices[e, at]["node"], s.slices[e, at]["next"] = node[i], first
        for r in range(R):
            s.slices[e, at]["amount"][r] = amount[i, r]
            s.nodes[e, node[i]]["free"][r] -= amount[i, r]
        first = at
    s.jobs[e, j]["held"] = first
    return True


@inlined
def release(s, e, j):
    """Give back the units of job j, on nodes that are up."""
    if s.slices.shape[1] == 1:
        if s.nodes[e, 0]["up"]:
            s.nodes[e, 0]["free"][0] += s.jobs[e, j]["request"][0]
        return
    at = s.jobs[e, j]["held"]
    while at >= 0:
        node, after = s.slices[e, at]["node"], s.slices[e, at]["next"]
        if s.nodes[e, node]["up"]:
            for r in range(len(s.nodes[e, 0]["free"])):
                s.nodes[e, node]["free"][r] += s.slices[e, at]["amount"][r]
            if s.idles.shape[1] > 0 and is_idle(s.nodes[e, node]):
                s.nodes[e, node]["since"] = s.sims[e]["now"]
        s.slices[e, at]["next"] = s.sims[e]["slice"]
        s.sims[e]["slice"] = at
        at = after
    s.jobs[e, j]["held"] = -1


@kernel
def hold_spans(s, e, slices, p, i):
    """Note which nodes start i of the plan holds. False where there is no room to."""
    j, first = p.row[i], np.int64(-1)
    for a in range(p.first[i], p.first[i + 1]):
        at = np.int64(s.sims[e]["slice"])
        if at < 0:
            while first >= 0:
                at = slices[first]["next"]
                slices[first]["next"], s.sims[e]["slice"] = s.sims[e]["slice"], first
                first = at
            return False
        s.sims[e]["slice"] = slices[at]["next"]
        slices[at]["node"], slices[at]["more"], slices[at]["next"] = p.node[a], p.more[a], first
        for r in range(p.amount.shape[1]):
            slices[at]["amount"][r] = p.amount[a, r]
        first = at
    s.jobs[e, j]["held"] = first
    return True


@kernel
def release_spans(s, e, slices, free, j):
    """Give back the nodes of job j, which has ended."""
    at = s.jobs[e, j]["held"]
    while at >= 0:
        after = slices[at]["next"]
        give(free, slices[at]["node"], slices[at]["more"], slices[at]["amount"], 1)
        slices[at]["next"], s.sims[e]["slice"] = s.sims[e]["slice"], at
        at = after
    s.jobs[e, j]["held"] = -1
