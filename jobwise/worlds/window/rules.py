"""Choices of a fixed order from the windows that are shown: a teacher for networks."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel
from jobwise.errors import unknown
from jobwise.sim.lists.orders import ATTAINED, CODES, STATIC, WAITING, Order, begin, score, uniform
from jobwise.sim.state import State
from jobwise.worlds.window.tables import Choices

RULES = tuple(row.label for row in Order if row.kind in (STATIC, WAITING, ATTAINED))


@kernel
def _first(s, c, code, actions):
    for e in range(len(actions)):
        m, sim, best, first = c.moment[e], s.sims[e], np.inf, -1
        actions[e] = 0
        for i in range(m["count"]):
            x = c.queue[e, c.slots[e, i]]
            if x["row"] < 0:  # the slot of nobody
                continue
            if code == Order.RANDOM:
                value = uniform(sim["seed"], m["now"], x["row"])
            else:
                n, ran = np.float64(x["size"]), s.jobs[e, x["row"]]["ran"]
                value = score(code, begin(code, x["submit"], sim["origin"]), m["now"] - x["submit"], x["est"], n, ran * n)
            if value < best or (value == best and x["row"] < first):
                best, first, actions[e] = value, x["row"], i


def by_order(s: State, c: Choices, name: str) -> np.ndarray:
    """[E] the slot of the job that is first by an order; of equal ones the first row. Raises InputError."""
    if name not in RULES:
        raise unknown("order", name, RULES)
    actions = np.zeros(len(s.sims), np.int64)
    _first(s, c, CODES[name], actions)
    return actions
