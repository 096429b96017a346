"""Who holds what: questions about the slices of running jobs."""

from __future__ import annotations

from jobwise.compiled import kernel


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
