"""Observation of a network of pairs in the world of GPUs: a row per place and a row per GPU, with the GPU's bandwidths."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.compiled import inlined, kernel
from jobwise.errors import InputError
from jobwise.worlds.encoder import Groups, TableEncoder
from jobwise.worlds.gpus.encoder import OWN, show_job

LEVELS = 4  # ways of a GPU: to another of its socket, its machine, its rack, and of other racks
ABOUT = 1 + LEVELS + 3  # features of a GPU; behind them 1 in the column of the place whose job holds it


@inlined
def _leads(ends, near, far, here, there):
    """Does a link of these ranges lie on the way from GPU `here` to GPU `there`? `near`, `far`: where the range of this end and
    that of the other begin."""
    one = ends[near] <= here < ends[near + 1] and ends[far] <= there < ends[far + 1]
    return one and not ends[4] <= there < ends[5]


@inlined
def _way(s, e, here, there):
    """The least GB/s, shared with the jobs that use a link now, of the links at this end of the way from a GPU to another."""
    least = np.inf
    for x in range(s.links.shape[1]):
        ends = s.links[e, x]["range"]
        if _leads(ends, 0, 2, here, there) or (ends[4] == ends[5] and _leads(ends, 2, 0, here, there)):
            least = min(least, s.links[e, x]["bandwidth"] / (1.0 + s.links[e, x]["jobs"]))
    return least if least < np.inf else 0.0


@kernel
def _links(s, g, scale, out, first, last):
    """Rows of places as `gpu-jobs` has them. Of GPU i:

    0      1 where a job holds it
    1-4    log2(1 + GB/s) / 6 that one more job would have on its way to another GPU of its socket, machine, rack, and of
           another rack; 0 where there is none
    5-7    free GPUs / GPUs of its socket, machine, rack
    8 ...  1 in the column of the place whose job holds it
    """
    P, M = g.place.shape[1], g.has.shape[1]
    for e in range(first, last):
        out[e] = 0.0
        for p in range(P):
            show_job(s, g, e, p, out[e, p])
        for i in range(M):
            x, holder = out[e, P + i], g.has[e, i]
            if holder >= 0:
                x[0], x[ABOUT + holder] = 1.0, 1.0
            inside, beyond = i, i + 1  # a way to level k leads out of this range, and stays in the next larger one
            for k in range(LEVELS):
                at = 6 * i + 2 * k
                low, high = (np.int64(scale[at]), np.int64(scale[at + 1])) if k < LEVELS - 1 else (0, M)
                there = low if low < inside else beyond if beyond < high else -1
                if there >= 0:
                    x[1 + k] = np.log2(1.0 + _way(s, e, i, there)) / 6.0
                if k < LEVELS - 1:
                    free = 0
                    for n in range(low, high):
                        free += g.has[e, n] < 0
                    x[5 + k] = free / (high - low)
                inside, beyond = low, high


def links(cluster: Cluster, slots: int):
    """Ours: [slots + M, F], a row per place and a row per GPU, for the network `pairs`, which is the same for clusters of any
    size."""
    if cluster.topology is None:
        raise InputError("encoder gpu-links shows the links of racks of GPUs")
    M = len(cluster.capacity)
    ranges = np.zeros((M, 6))
    for k, bounds in enumerate(cluster.topology.bounds):
        at = np.searchsorted(bounds, np.arange(M), side="right") - 1
        ranges[:, 2 * k], ranges[:, 2 * k + 1] = bounds[at], bounds[at + 1]
    shape, scale = (slots + M, max(OWN, ABOUT + slots)), tuple(ranges.ravel().tolist())
    groups: Groups = {"jobs": [(slice(0, slots),)], "topology": [(slice(slots, None),)]}
    how: dict[str, Any] = {"bounds": (-8.0, 8.0), "slots": slots, "per_gpu": True, "groups": groups}
    return TableEncoder("gpu-links", 1, shape, 10, _links, scale, {}, **how)
