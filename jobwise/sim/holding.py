"""Who holds what: questions about the slices of running jobs."""

from __future__ import annotations

from jobwise.jobs import NETWORK
from jobwise.sim.compiled import kernel
from jobwise.sim.state import HEAP


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


@kernel
def sharers(s, e, row):
    """(how many other network-intensive jobs share a node with running job `row`, how many nodes it holds)."""
    others, k = 0, 0
    at = s.jobs[e, row]["held"]
    while at >= 0:
        k += 1
        at = s.slices[e, at]["next"]
    for i in range(s.sims[e]["running"]):
        other = s.lists[e, HEAP, i]
        if other == row or s.truth[e, other]["kind"] != NETWORK:
            continue
        at, met = s.jobs[e, row]["held"], False
        while at >= 0 and not met:
            met = on_node(s, e, other, s.slices[e, at]["node"])
            at = s.slices[e, at]["next"]
        others += met
    return others, k
