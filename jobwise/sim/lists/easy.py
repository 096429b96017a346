"""EASY backfilling on a pool of processors, for every loop that is for pools alone (Mu'alem & Feitelson, IEEE TPDS 12(6), 2001,
https://doi.org/10.1109/71.932708). `list_pass.py` has it for nodes and several resources, and does the same on a pool.

A pass starts the heads of the queue while they fit. The first that does not fit gets the only reservation: at the *shadow
time* its processors are free by the estimates, and `extra` processors are left beside it then. Behind it a job may start that
fits now and either ends by the shadow time or takes no more than `extra`. The loops differ in who says which job is next: a
rank (`pool.py`), a score (`scored_pool.py`), an agent (`worlds/window/passes.py`). n processors, `end` the estimated end (s)
of a job that would start now, `free` processors free now.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined
from jobwise.sim.lists import ranked

HOUR = 3600.0  # s: longest waits below count as this long, where they are compared


@inlined
def reserve(running, n, free, now):
    """(shadow time, extra) of a head of n processors. `running`: Blocks of running jobs by estimated end."""
    t, got = ranked.shadow(running, n, free, now)
    return t, beside(t, got, n)


@inlined
def beside(shadow, got, n):
    """Return the extra processors, with `got` free at the shadow time. A head that never fits by the estimates stops no job."""
    return got - n if shadow < np.inf else ranked.ALL


@inlined
def may_start(n, end, free, shadow, extra):
    """May a job behind the reservation start now? Textbook: n <= free and (end <= shadow or n <= extra)."""
    return n <= free and (n <= extra or end <= shadow)


@inlined
def charge(n, end, shadow, extra):
    """The extra processors that are left once such a job has started."""
    return extra - n if end > shadow else extra


@inlined
def overdue(now, submit, guard):
    """Has a job waited longer than the guard (s)? Such jobs go before all others, oldest first."""
    return now - submit > guard
