"""Assignments of GPUs: E simulations side by side; at every row of time each GPU is given a job or none, all at once (RL-TAPS).

Jobs stand in places. The first ones are slots, filled first come, first served; jobs that found no slot wait behind them. A job
keeps its slot until it is done, or, where started jobs `leave` it, goes on in one of as many further places as there are GPUs.
What an assignment asks for is made `legal` first, so that no bound is ever broken; then all of it is done with the kernel's
verbs: `preempt`, `start`, `share`, `advance`. A row is a tick of the simulation.

    none      a started job keeps its GPUs until it is done
    partial   they may change, but never to fewer than it needs
    full      a job may also be paused, and go on elsewhere
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.jobs import RUNNING
from jobwise.sim.kernel import advance, preempt, share, start
from jobwise.sim.rates import reduction, speed, unit
from jobwise.sim.reset import renew
from jobwise.sim.state import LEFT
from jobwise.sim.topology import EFFICIENCY, PEAK
from jobwise.worlds.gpus.bounds import legal
from jobwise.worlds.rows import ACT, RENEW

TFLOPS = PEAK * EFFICIENCY  # of a GPU that computes all the time


@kernel
def _carry_out(s, g, e):
    """Give the GPUs as g.want says."""
    want, has, place, z = g.want[e], g.has[e], g.place[e], g.report[e]
    for p in range(len(place)):
        place[p]["changed"] = 0
    for i in range(len(want)):
        if want[i] != has[i]:
            for p in (want[i], has[i]):
                if p >= 0:
                    place[p]["changed"] = 1
    for p in range(len(place)):
        if place[p]["changed"] and place[p]["held"] > 0:
            preempt(s, e, place[p]["job"])
            z["changes"] += 1.0
    for p in range(len(place)):
        if not place[p]["changed"]:
            continue
        k = 0
        for i in range(len(want)):
            if want[i] == p:
                g.node[e, k] = i
                k += 1
        if k > 0:
            start(s, e, place[p]["job"], 1.0, g.node[e], g.amount[e], k)
        place[p]["held"] = k
    for i in range(len(want)):
        has[i] = want[i]
    if s.sims[e]["changed"]:
        share(s, e)


@kernel
def _pay(s, g, e):
    """Take note of how fast the jobs run, before a row passes."""
    m, z, sim = g.moment[e], g.report[e], s.sims[e]
    z["idle"], z["speed"], z["short"] = m["owed"], 0.0, 0.0
    for p in range(g.place.shape[1]):
        one = g.place[e, p]
        if one["job"] < 0:
            continue
        job = s.jobs[e, one["job"]]
        if one["held"] == 0:
            z["idle"] += one["worth"]
            continue
        one["rate"] = s.truth[e, one["job"]]["rate"]
        v = one["rate"] * unit(sim, s.curve, job) * TFLOPS
        z["speed"] += v
        z["short"] += v * max(one["request"] - one["held"], 0) / one["held"]
    z["all_speed"] += z["speed"]
    z["all_idle"] += z["idle"]
    z["all_short"] += z["short"]
    z["all_changes"] += z["changes"]


# ------------------------------------------------------------------ time


@kernel
def _worth(s, job):
    n = job["request"][0]
    return speed(job["step"], n, reduction(s.curve, n, job["gradient"])) * TFLOPS


@inlined
def _queue(s, g, e, first):
    """The jobs from row `first` on have come, and wait behind the slots."""
    for j in range(first, s.sims[e]["next"]):
        g.moment[e]["owed"] += _worth(s, s.jobs[e, j])
        g.moment[e]["hurry"] += 1.0 / max(s.jobs[e, j]["walltime"] / s.sims[e]["tick"], 1e-9)


@kernel
def _enter(s, g, e, slot, j):
    """Job j takes place `slot`."""
    job, one = s.jobs[e, j], g.place[e, slot]
    elastic = g.moment[e]["elastic"] and job["least"] > 0
    n = job["request"][0]
    one["job"], one["held"], one["rate"], one["request"] = j, 0, 0.0, n
    one["least"] = job["least"] if elastic else n
    one["most"] = min(max(job["most"], job["least"]), g.has.shape[1]) if elastic else n
    one["length"] = max(job["walltime"] / s.sims[e]["tick"], 1e-9)
    one["step"], one["gradient"], one["worth"] = job["step"], job["gradient"], _worth(s, job)


@kernel
def _leave_slots(g, e):
    """Started jobs go on in the places behind the slots, where there are any."""
    m, place = g.moment[e], g.place[e]
    to = m["slots"]
    for p in range(m["slots"] if len(place) > m["slots"] else 0):
        if place[p]["job"] >= 0 and place[p]["held"] > 0:
            while to < len(place) and place[to]["job"] >= 0:
                to += 1
            if to == len(place):
                break
            place[to] = place[p]
            place[p]["job"] = -1
            place[p]["held"] = 0
            for i in range(g.has.shape[1]):
                if g.has[e, i] == p:
                    g.has[e, i] = to


@kernel
def _measure(s, g, e):
    """Take note of what is left of the jobs in places, and of how long they have been there."""
    m, sim, place = g.moment[e], s.sims[e], g.place[e]
    for p in range(len(place)):
        j = place[p]["job"]
        if j >= 0:
            job, truth = s.jobs[e, j], s.truth[e, j]
            done = 0.0 if np.isnan(job["start"]) else truth["runtime"] - truth["left"]
            if job["status"] == RUNNING:
                done += max(sim["now"] - truth["updated"] - truth["pause"], 0.0) * truth["rate"]
            place[p]["left"] = max(max(job["walltime"], 1.0) - done, 1.0) / sim["tick"]
            place[p]["waited"] = m["now"] - job["submit"] / sim["tick"]


@kernel
def _tidy(s, g, e):
    """After a row: places of jobs that are done are free, started ones leave their slots, jobs behind come into them."""
    m, sim, place, M = g.moment[e], s.sims[e], g.place[e], g.has.shape[1]
    for p in range(len(place)):
        j = place[p]["job"]
        if j >= 0 and s.jobs[e, j]["status"] != RUNNING:
            place[p]["held"] = 0
        if j >= 0 and not np.isnan(s.jobs[e, j]["end"]):
            place[p]["job"] = -1
    for i in range(M):
        if g.has[e, i] >= 0 and place[g.has[e, i]]["held"] == 0:
            g.has[e, i] = -1
    _leave_slots(g, e)
    for p in range(m["slots"]):
        if place[p]["job"] < 0 and m["shown"] < sim["next"]:
            _enter(s, g, e, p, m["shown"])
            m["owed"] -= place[p]["worth"]
            m["hurry"] -= 1.0 / place[p]["length"]
            m["shown"] += 1
    m["behind"] = sim["next"] - m["shown"]
    _measure(s, g, e)


@allocating
def look(s, g, running, waiting):
    """Bring simulation 0, whose state is that of a view of a cluster that lives elsewhere, to that view. Rows [K] of jobs that
    run and [W] that wait and have no place, in order of submit; running ones that find none are left out.
    Places of jobs that are neither are free already."""
    m, place, has = g.moment[0], g.place[0], g.has[0]
    m["now"], m["owed"], m["hurry"], m["over"] = np.round(s.sims[0]["now"] / s.sims[0]["tick"]), 0.0, 0.0, 0
    for j in running:
        to = m["slots"] if len(place) > m["slots"] else 0
        while to < len(place) and place[to]["job"] >= 0:
            to += 1
        if to < len(place):
            _enter(s, g, 0, to, j)
            place[to]["rate"] = s.truth[0, j]["rate"]
    for i in range(len(has)):
        has[i] = -1
    for p in range(len(place)):
        held, j = 0, place[p]["job"]
        at = s.jobs[0, j]["held"] if j >= 0 and s.jobs[0, j]["status"] == RUNNING else -1
        while at >= 0:
            node = s.slices[0, at]["node"]
            has[node] = p
            held, at = held + 1, s.slices[0, at]["next"]
        place[p]["held"] = held
    _leave_slots(g, 0)
    k = 0
    for p in range(m["slots"]):
        if place[p]["job"] < 0 and k < len(waiting):
            _enter(s, g, 0, p, waiting[k])
            k += 1
    m["behind"] = len(waiting) - k
    for i in range(k, len(waiting)):
        job = s.jobs[0, waiting[i]]
        m["owed"] += _worth(s, job)
        m["hurry"] += 1.0 / max(job["walltime"] / s.sims[0]["tick"], 1e-9)
    _measure(s, g, 0)


@kernel
def _pass(s, g, e):
    """Let a row of time pass; without jobs, all rows until the next job comes."""
    m, z, sim = g.moment[e], g.report[e], s.sims[e]
    before, last = m["now"], sim["next"]
    empty = sim["running"] == 0 and m["behind"] == 0
    for p in range(g.place.shape[1]):
        empty = empty and g.place[e, p]["job"] < 0
    advance(s, e, np.inf if empty else (before + 1.0) * sim["tick"])
    m["now"] = np.round(sim["now"] / sim["tick"])
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        if not np.isnan(s.jobs[e, j]["end"]):
            _ended(s, z, e, j, s.jobs[e, j]["end"])
            z["done"] += 1.0
    _queue(s, g, e, last)
    z["rows"] = m["now"] - before
    z["all_rows"] += z["rows"]
    _tidy(s, g, e)
    z["slow"] = m["hurry"]
    for p in range(g.place.shape[1]):
        if g.place[e, p]["job"] >= 0:
            z["slow"] += 1.0 / g.place[e, p]["length"]
    m["over"] = sim["ended"] == sim["jobs"] or m["now"] >= m["limit"]
    if m["over"] and sim["ended"] < sim["jobs"]:
        for j in range(sim["next"]):
            if np.isnan(s.jobs[e, j]["end"]):
                _ended(s, z, e, j, sim["now"])
    z["over"] = m["over"]


@inlined
def _ended(s, z, e, j, end):
    took, run = end - s.jobs[e, j]["submit"], s.truth[e, j]["runtime"]
    z["total"] += took / run
    z["started"] += 1.0
    z["all_waited"] += max(took - run, 0.0)
    z["longest"] = max(z["longest"], took - run)


@kernel
def _begin(s, g, e):
    """Simulation e has been filled, and nothing has happened in it yet."""
    m, z = g.moment[e], g.report[e]
    for p in range(g.place.shape[1]):
        g.place[e, p]["job"] = -1
        g.place[e, p]["held"] = 0
    for i in range(g.has.shape[1]):
        g.has[e, i] = -1
        g.amount[e, i, 0] = 1
    m["now"], m["behind"], m["shown"], m["owed"], m["hurry"], m["over"] = 0.0, 0, 0, 0.0, 0.0, 0
    z["total"] = z["started"] = z["done"] = z["longest"] = z["all_waited"] = z["over"] = z["slow"] = z["rows"] = 0.0
    z["all_speed"] = z["all_idle"] = z["all_short"] = z["all_rows"] = z["all_changes"] = z["changes"] = 0.0
    z["speed"] = z["idle"] = z["short"] = 0.0
    z["peak"] = g.has.shape[1] * PEAK
    advance(s, e, 0.0)
    _queue(s, g, e, 0)
    _tidy(s, g, e)


@allocating
def go(s, g, sets, asked, actions, which, over, first, last):
    """Do what is asked in simulations first .. last - 1: BEGIN as they are filled, RENEW with jobsets which[e], or ACT: give
    GPU i to the job in place actions[e, i] (another number: to nobody), and let a row pass. over[e]: 1 where it has ended;
    such simulations are left alone. Return the number of the others."""
    more = 0
    for e in range(first, last):
        if asked != ACT:
            if asked == RENEW:
                renew(s, e, sets, which[e])
            _begin(s, g, e)
        elif not g.moment[e]["over"]:
            for i in range(g.want.shape[1]):
                g.want[e, i] = actions[e, i]
            g.report[e]["changes"] = 0.0
            legal(s, g, e)
            _carry_out(s, g, e)
            _pay(s, g, e)
            if g.moment[e]["live"]:  # time passes elsewhere
                g.moment[e]["over"] = 1
            else:
                _pass(s, g, e)
        over[e] = g.moment[e]["over"]
        more += 1 - over[e]
    return more
