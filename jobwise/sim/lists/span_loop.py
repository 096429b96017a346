"""List scheduling on many nodes that neither fail nor slow jobs down: the general loop (`list_loop.py`) on spans of nodes.

The kernel knows the processors alone, as a pool of them; which nodes are free, and who holds which, is kept here, in spans
(`spans.py`), so that the cost goes with the jobs and the spans and not with the nodes.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating
from jobwise.sim.allocations import hold_spans, release_spans
from jobwise.sim.kernel import OVER, advance, reserve, start
from jobwise.sim.lists.flows import note
from jobwise.sim.lists.list_loop import instant, planned
from jobwise.sim.lists.shadow import back
from jobwise.sim.spans import Spans, join, joined
from jobwise.sim.state import LEFT, RIGID, State, node_dtype


def suits(s: State, e: int) -> bool:
    """Do nodes only matter for what fits, does none go off, and has nothing happened yet?"""
    sim = s.sims[e]
    rigid = sim["rate_model"] == RIGID and not s.outages.shape[1] and not s.idles.shape[1] and s.nodes["up"][e].all()
    return bool(s.nodes.shape[1] > 1 and rigid and sim["events"] == 0 and sim["running"] == 0)


def begin(s: State, e: int) -> tuple[State, Spans]:
    """Return (the simulation for the kernel, the nodes)."""
    nodes = s.nodes[e]
    pool = np.zeros((len(s.sims), 1), node_dtype(nodes["free"].shape[1]))
    pool["capacity"][e, 0] = pool["free"][e, 0] = nodes["capacity"].sum(axis=0)
    pool["up"] = 1
    return s._replace(nodes=pool, slices=s.slices[:, :1]), joined(nodes["free"], nodes["capacity"])


@allocating
def run(s, e, slices, free, later, rule, est, f, p, steps):
    """Run simulation e for up to `steps` instants of choice. True while there is more to do. `s`: as `begin` leaves it;
    `slices` [S]: of the nodes `free`; `later`: room for as many."""
    nowhere, nothing = np.zeros(1, np.int32), np.zeros((1, len(free.total)), np.int64)
    sim, total = s.sims[e], s.nodes[e, 0]["capacity"].copy()
    for _ in range(steps):
        if advance(s, e, np.inf) == OVER:
            return False
        for i in range(sim["left"]):
            release_spans(s, e, slices, free, s.lists[e, LEFT, i])
        if sim["left"]:
            join(free)
        if len(f.table):
            note(f, s.jobs[e], s.lists[e, LEFT, : sim["left"]])
        if sim["queued"] == 0:
            continue
        x = instant(s, e, rule, est, np.empty(sim["queued"]), f, free, later, total)
        planned(s, e, rule, x, slices, p)
        for i in range(p.count[0]):
            if not hold_spans(s, e, slices, p, i):  # there is no room to note who holds what: it waits
                back(p, i, free, 1)
                continue
            start(s, e, p.row[i], 1.0, nowhere, nothing, 0)
        for i in range(p.count[1]):
            reserve(s, e, p.promised[i], p.at[i])
        if p.count[0]:
            join(free)
    return True
