"""Slurm's scheduler put into the middle of a queue: running jobs are started anew, each when it started and where it is."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.sim.kernel import CHOICE, advance, cancel
from jobwise.sim.site.cells import how_many
from jobwise.sim.site.multifactor import price_all
from jobwise.sim.site.node_choice import choose_now
from jobwise.sim.site.node_sets import NOTHING, add
from jobwise.sim.site.slurm_ends import take_free
from jobwise.sim.site.slurm_loop import begin, note, wind
from jobwise.sim.site.switches import PATIENT
from jobwise.site import LIMITS


@kernel
def _to(s, e, slurm, t):
    """Go on to time t; nothing is started on the way."""
    while advance(s, e, t) == CHOICE:
        note(s, e, slurm)


@allocating
def stand(s, e, slurm, rows, start, first, node, now):
    """Start jobs rows[K] in this order, the i-th at start[i] s on nodes node[first[i] : first[i + 1]], then go on to `now`. One
    that cannot be there is taken out. The clocks of passes begin now, and priorities are those of now."""
    out = np.zeros(len(LIMITS))
    for i in range(len(rows)):
        _to(s, e, slurm, start[i])
        take_free(s, e, slurm)
        slurm.work.mask[:] = NOTHING
        for x in range(first[i], first[i + 1]):
            add(slurm.work.mask, node[x])
        slurm.work.room.tree.marks[PATIENT] = 1
        k = choose_now(slurm, slurm.site.ask[s.jobs[e, rows[i]]["ask"]], slurm.work.mask)
        if how_many(slurm, k) != first[i + 1] - first[i]:  # as it was recorded, then
            k = first[i + 1] - first[i]
            for x in range(k):
                slurm.work.node[x], slurm.work.more[x] = node[first[i] + x], 0
        p = slurm.site.queues[max(s.jobs[e, rows[i]]["partition"], 0), 0]
        if k == 0 or not begin(s, e, slurm, rows[i], p, k, out):
            cancel(s, e, rows[i])
    _to(s, e, slurm, now)
    wind(slurm, now)
    clock = slurm.ledger.clock[0]
    clock["priced"], clock["news"], clock["updated"] = now, 1, now
    price_all(s, e, slurm)
