"""Waiting for cheaper hours in the world of windows: what the price does to each job, and the slot that stands for nobody.

Where prices are known, a window shows a last slot that stands for no job: choosing it ends the pass, and the next choice comes
with the next event, at the latest when the price changes. It is not offered once the price changes no more, and a job that
has waited for the guard goes first, unasked.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.power import cost_of, next_step

DAY, HOUR = 86_400.0, 3600.0  # s


@kernel
def priced(s, e, c, k):
    """Say what the price is for the k jobs that are shown: against the mean of the next day, when it is lowest, and what part
    of its cost each job would save at its cheapest begin within that time."""
    m, steps, step, now = c.moment[e], s.steps[e], s.sims[e]["step"], s.sims[e]["now"]
    mean = max(cost_of(steps, step, now, DAY) / (DAY / HOUR), 1e-9)
    low, at, last = steps[step]["price"], now, step
    while last + 1 < len(steps) and steps[last + 1]["time"] <= now + DAY:
        last += 1
        if steps[last]["price"] < low:
            low, at = steps[last]["price"], steps[last]["time"]
    m["price"], m["cheapest"], m["soon"] = steps[step]["price"] / mean, low / mean, (at - now) / DAY
    for i in range(k):
        x = c.queue[e, c.slots[e, i]]
        here = best = cost_of(steps, step, now, x["est"])
        for t in range(step + 1, last + 1):
            best = min(best, cost_of(steps, t, steps[t]["time"], x["est"]))
        x["gain"] = (here - best) / max(abs(here), 1e-9)


@inlined
def offer(s, e, c, k):
    """Show a last slot that stands for nobody, where there is something to wait for; how many slots are shown then."""
    m = c.moment[e]
    if not m["waits"] or k == 0 or next_step(s, e) == np.inf:
        return k
    k = min(k, c.slots.shape[1] - 1)
    x = c.queue[e, m["queued"]]
    x["row"], x["size"], x["submit"], x["est"], x["draw"], x["gain"] = -1, 0, s.sims[e]["now"], 1.0, 0.0, 0.0
    x["user"] = x["group"] = x["app"] = x["flow"] = x["queue"] = x["partition"] = -1
    x["memory"], x["rank"], x["began"] = -1.0, 0.0, np.nan
    c.slots[e, k] = m["queued"]
    return k + 1


@inlined
def paid(s, e, j):
    """What job j, which starts now, will have cost (of a kWh's price)."""
    if s.steps.shape[1] == 0:
        return 0.0
    length, kilowatts = s.truth[e, j]["runtime"], s.jobs[e, j]["draw"] * 1e-6
    return kilowatts * cost_of(s.steps[e], s.sims[e]["step"], s.sims[e]["now"], length)


@kernel
def par(s, e):
    """What a job of the simulation costs at the mean price, in the mean."""
    last = s.steps.shape[1] - 1
    while last > 0 and s.steps[e, last]["time"] == np.inf:
        last -= 1
    if last <= 0:
        return 0.0
    mean, used = s.steps[e, last]["paid"] / (s.steps[e, last]["time"] / HOUR), 0.0
    for j in range(s.sims[e]["jobs"]):
        used += s.jobs[e, j]["draw"] * 1e-6 * s.truth[e, j]["runtime"] / HOUR
    return mean * used / max(s.sims[e]["jobs"], 1)
