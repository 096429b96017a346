"""What jobs draw: the cap on it, and the steps of time at which the cap, or the price of energy, changes.

A job adds `draw` mW to the machine while it runs, as is assumed. `s.steps` [E, K] are the steps of a simulation, by time, the
first from its begin on; K = 0: there is neither a cap nor a price. Of the present step (`sim["step"]`) `load` is what all
running jobs draw, of a later one what those draw that by their estimates still run when it begins. A job may start where no
step until its estimated end goes beyond its cap: so no start ever exceeds it, and no step either, but where jobs outlive their
estimates.

Nodes that are idle for `sim["suspend"]` s go off, and take `sim["boot"]` s to come back, for which a job holds them before it
works. Each idle time of a node is noted in `s.idles`. On a pool, whose jobs have no nodes, busy processors fill as few nodes of
`sim["per_node"]` as they can, and the node that was idle last is busy first.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel


@kernel
def may_add(steps, step, draw, until):
    """May a job that draws so much run from step `step` on until `until` (s)?"""
    i = step
    while i < len(steps) and (i == step or steps[i]["time"] < until):
        if steps[i]["load"] + draw > steps[i]["cap"]:
            return False
        i += 1
    return True


@kernel
def add(steps, step, draw, until):
    """Count `draw` (below 0: no longer) of a job that is to end at `until` (s)."""
    i = step
    while i < len(steps) and (i == step or steps[i]["time"] < until):
        steps[i]["load"] += draw
        i += 1


@inlined
def may_draw(s, e, j, length):
    """May job j start now, as far as the cap goes, and run for `length` s?"""
    if s.steps.shape[1] == 0:
        return True
    sim = s.sims[e]
    return may_add(s.steps[e], sim["step"], s.jobs[e, j]["draw"], sim["now"] + sim["boot"] + length)


@kernel
def to_step(s, e, heap):
    """Go on to the step of now; count anew what the running jobs `heap` draw in it."""
    sim, steps = s.sims[e], s.steps[e]
    step = sim["step"]
    while step + 1 < len(steps) and steps[step + 1]["time"] <= sim["now"]:
        step += 1
    sim["stepped"] = step != sim["step"]
    if sim["stepped"]:
        sim["step"], steps[step]["load"] = step, 0
        for i in range(sim["running"]):
            steps[step]["load"] += s.jobs[e, heap[i]]["draw"]


@inlined
def next_step(s, e):
    """When the next step begins, s; inf where there is none."""
    after = s.sims[e]["step"] + 1
    return s.steps[e, after]["time"] if after < s.steps.shape[1] else np.inf


# ------------------------------------------------------------------ the reservation of EASY under a cap


@kernel
def reserve(steps, step, running, need, draw, length, free, now):
    """(T, free then, mW left then): the first instant by the estimates at which `need` processors are free and the cap lets a
    job of `length` s draw `draw`. `running`: Blocks by estimated end, whose `est` is what each draws. T is inf where there is
    none."""
    got, used, last = free, np.float64(steps[step]["load"]), step
    i, k, t = 0, 0, now
    while True:
        end = np.inf
        if i < running.count[0]:
            end = max(running.entry[running.order[i], k]["key"], now)
        change = steps[last + 1]["time"] if last + 1 < len(steps) else np.inf
        t = min(end, change)
        if t == np.inf:
            return t, got, np.int64(0)
        while i < running.count[0] and max(running.entry[running.order[i], k]["key"], now) <= t:
            got += running.entry[running.order[i], k]["size"]
            used -= running.entry[running.order[i], k]["est"]
            k += 1
            if k == running.block[running.order[i]]["used"]:
                i, k = i + 1, 0
        if change <= t:
            last += 1
        if got >= need and beside(steps, last, used, draw, t + length):
            return t, got, np.int64(steps[last]["cap"] - used - draw)


@kernel
def beside(steps, step, used, draw, until):
    """May a job draw `draw` from a time in step `step` on, at which others use `used` mW, until `until` (s)?"""
    if used + draw > steps[step]["cap"]:
        return False
    return step + 1 >= len(steps) or steps[step + 1]["time"] >= until or may_add(steps, step + 1, draw, until)


@kernel
def pencil(steps, step, begin, draw, length):
    """Keep (or, below 0, give up) `draw` for a reservation from `begin` (s) on, in the steps after `step` that begin after
    it."""
    i = step + 1 if begin < np.inf else len(steps)
    while i < len(steps) and steps[i]["time"] < begin + length:
        if steps[i]["time"] > begin:
            steps[i]["load"] += draw
        i += 1


# ------------------------------------------------------------------ jobs that are held for cheaper hours

WORTH = 0.02  # a later start is cheaper by this share at least


@kernel
def cost_of(steps, i, begin, length):
    """What 1 kW costs from `begin` (s), in step i or later, for `length` s."""
    while i + 1 < len(steps) and steps[i + 1]["time"] <= begin:
        i += 1
    paid = steps[i]["paid"] + (begin - steps[i]["time"]) * steps[i]["price"] / 3600.0
    while i + 1 < len(steps) and steps[i + 1]["time"] <= begin + length:
        i += 1
    return steps[i]["paid"] + (begin + length - steps[i]["time"]) * steps[i]["price"] / 3600.0 - paid


@kernel
def is_held(s, e, j, length, most):
    """Is job j, of `length` s, cheaper if it starts as a later step begins, no later than its user and `most` s allow?"""
    steps, step, now = s.steps[e], s.sims[e]["step"], s.sims[e]["now"]
    last = s.jobs[e, j]["queued"] + min(most, np.float64(s.jobs[e, j]["patience"]))
    if step + 1 >= len(steps) or steps[step + 1]["time"] > last:
        return False
    here = cost_of(steps, step, now, length)
    enough = here - WORTH * abs(here)
    k = step + 1
    while k < len(steps) and steps[k]["time"] <= last:
        if cost_of(steps, k, steps[k]["time"], length) < enough:
            return True
        k += 1
    return False


# ------------------------------------------------------------------ nodes that go off


@inlined
def _note(s, e, begin, nodes):
    """Note that this number of nodes have been idle from `begin` until now; have they been off?"""
    sim = s.sims[e]
    if sim["idles"] < s.idles.shape[1]:
        x = s.idles[e, sim["idles"]]
        x["begin"], x["end"], x["nodes"] = begin, sim["now"], nodes
    sim["idles"] += 1
    return sim["now"] - begin >= sim["suspend"]


@kernel
def busy_nodes(s, e):
    """Bring the idle nodes of a pool up to what is free now; has one that was off been woken?"""
    sim, node, woken, per = s.sims[e], s.nodes[e, 0], False, np.int64(s.sims[e]["per_node"])
    idle, top = (node["free"][0] + -node["capacity"][0] % per) // per, sim["stack"]
    there = sim["idle"]
    while there > idle:  # the last of the stack is busy first
        x = s.stack[e, top - 1]
        n = min(x["nodes"], there - idle)
        woken = _note(s, e, x["begin"], n) or woken
        x["nodes"] -= n
        there -= n
        if x["nodes"] == 0:
            top -= 1
    if there < idle:
        x = s.stack[e, top]
        x["begin"], x["end"], x["nodes"] = sim["now"], np.inf, idle - there
        top += 1
    sim["idle"], sim["stack"] = idle, top
    return woken


@kernel
def take_nodes(s, e, node, amount, k):
    """Nodes node[:k] have given amount[:k] [R] to a job: note those that were idle; has one that was off been woken?"""
    woken = False
    for i in range(k):
        x, idle = s.nodes[e, node[i]], True
        for r in range(len(x["free"])):
            idle = idle and x["free"][r] + amount[i, r] == x["capacity"][r]
        if idle:
            woken = _note(s, e, x["since"], 1) or woken
    return woken


@inlined
def is_idle(node):
    """Does a node run nothing?"""
    idle = True
    for r in range(len(node["free"])):
        idle = idle and node["free"][r] == node["capacity"][r]
    return idle


# ------------------------------------------------------------------ what jobs have drawn

RECENT, ALL = 0.3, 0.01  # weights of the last job in what the jobs of a user and name, and all jobs, draw


@inlined
def _moved(before, x, weight):
    return x if np.isnan(before) else before + weight * (x - before)


@allocating
def drawn_before(submit, order, end, each, of_name, of_user):
    """[J] what jobs drew a unit, as known at each submit (s): of its name (a user's name of jobs), of its user, or of all; NaN:
    nothing is known. `order`: rows of jobs that a meter knows, by end; `each` [J] what they draw a unit."""
    names, users = np.full(of_name.max() + 1, np.nan), np.full(of_user.max() + 1, np.nan)
    out, every, at = np.empty(len(submit)), np.nan, 0
    for j in range(len(submit)):
        while at < len(order) and end[order[at]] <= submit[j]:
            k = order[at]
            every = _moved(every, each[k], ALL)
            names[of_name[k]], users[of_user[k]] = (
                _moved(names[of_name[k]], each[k], RECENT),
                _moved(users[of_user[k]], each[k], RECENT),
            )
            at += 1
        out[j] = names[of_name[j]]
        if np.isnan(out[j]):
            out[j] = users[of_user[j]]
        if np.isnan(out[j]):
            out[j] = every
    return out
