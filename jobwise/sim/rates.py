"""How fast a job runs where it is put, and when it will be done: pure functions of rows."""

from __future__ import annotations

import numpy as np

from jobwise.jobs import COMPUTE, NETWORK
from jobwise.sim.compiled import inlined


@inlined
def sigma(sim, kind, truth, length, k):
    """How many times as long a job of this kind runs on k nodes as at its best (`cluster.Slowdown`).

    Where there are ticks, a job of `length` s (at its best) runs for whole ones.
    """
    room = max(1.0, np.float64(truth["most"] - truth["least"]))
    x = 1.0
    if k > 0 and kind == NETWORK:
        x += sim["network"] * min(max((k - truth["least"]) / room, 0.0), 1.0)
    elif k > 0 and kind == COMPUTE:
        x += sim["compute"] * min(max((truth["most"] - k) / room, 0.0), 1.0)
    if sim["tick"] > 0.0 and x > 1.0 and length > 0.0:
        x = np.ceil(length * x / sim["tick"] - 1e-9) * sim["tick"] / length
    return x


@inlined
def finish(sim, truth):
    """When the work left is done at the present rate (s). What floating numbers miss of a tick is made up for."""
    if truth["rate"] <= 0.0:
        return np.inf
    t = sim["now"] + truth["left"] / truth["rate"]
    if sim["tick"] > 0.0:
        near = np.round(t / sim["tick"]) * sim["tick"]
        if abs(t - near) < 1e-6 * sim["tick"]:
            t = near
    return t
