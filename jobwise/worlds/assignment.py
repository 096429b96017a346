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

from typing import NamedTuple

import numpy as np

from jobwise.cluster import Cluster
from jobwise.jobs import RUNNING
from jobwise.sim.compiled import allocating, inlined, kernel
from jobwise.sim.kernel import advance, preempt, share, start
from jobwise.sim.rates import reduction, speed, unit
from jobwise.sim.reset import renew
from jobwise.sim.state import LEFT, State
from jobwise.sim.topology import EFFICIENCY, PEAK

MODES = ("none", "partial", "full")
NONE, PARTIAL, FULL = range(3)
BEGIN, RENEW, ACT = range(3)  # what can be asked of a simulation
TFLOPS = PEAK * EFFICIENCY  # of a GPU that computes all the time

moment_dtype = np.dtype(
    [
        ("now", "f8"),  # rows since the first arrival
        ("behind", "i8"),  # jobs that wait behind the slots
        ("shown", "i8"),  # the first job that has had no slot yet
        ("owed", "f8"),  # TFLOPS that the jobs behind would do at their requests
        ("slots", "i8"),
        ("mode", "i1"),
        ("elastic", "i1"),  # jobs may run on other numbers of GPUs than they ask for
        ("over", "i1"),
        ("limit", "f8"),  # rows after which a simulation is cut
        ("seed", "u8"),
    ],
    align=True,
)
place_dtype = np.dtype(  # a place, and what a scheduler may know of the job in it
    [
        ("job", "i4"),  # its row; -1: nobody
        ("held", "i4"),  # GPUs it holds
        ("size", "i4"),  # GPUs it is given now: room for making assignments
        ("least", "i4"),  # bounds of that
        ("most", "i4"),
        ("changed", "i4"),
        ("request", "i4"),
        ("length", "f8"),  # rows, at its request
        ("left", "f8"),  # the same of what is left
        ("rate", "f8"),  # how fast it ran last, in its speed at its request; 0: not yet
        ("waited", "f8"),  # rows since it came
        ("worth", "f8"),  # TFLOPS that it would do at its request, in one rack
        ("step", "f8"),
        ("gradient", "f8"),
    ],
    align=True,
)
report_dtype = np.dtype(  # what happened in the last row: rewards are functions of it; and so far in the episode
    [
        ("rows", "f8"),  # of time passed
        ("slow", "f8"),  # sum of 1 / length over the jobs in the system and the rows
        ("speed", "f8"),  # TFLOPS of the running jobs
        ("idle", "f8"),  # pen1: TFLOPS that jobs without GPUs would do at their requests
        ("short", "f8"),  # pen2: TFLOPS that running jobs miss for having fewer GPUs than they asked for
        ("peak", "f8"),  # TFLOPS of the cluster (P100)
        ("changes", "f8"),  # restarts of jobs whose GPUs changed
        (
            "total",
            "f8",
        ),  # so far: sum of slowdowns of the jobs that ended (at the cut: of all that came, as if they ended there)
        ("started", "f8"),  # how many
        ("done", "f8"),  # those that did end
        ("longest", "f8"),  # s, longest wait
        ("all_waited", "f8"),  # s
        ("all_speed", "f8"),  # sums over the rows
        ("all_idle", "f8"),
        ("all_short", "f8"),
        ("all_rows", "f8"),
        ("all_changes", "f8"),
        ("over", "f8"),
    ],
    align=True,
)


class Gpus(NamedTuple):
    """E simulations, P places, M GPUs."""

    moment: np.ndarray  # [E] of moment_dtype
    place: np.ndarray  # [E, P] of place_dtype
    has: np.ndarray  # [E, M] the place whose job holds the GPU; -1: none
    want: np.ndarray  # [E, M] the one that is to hold it
    node: np.ndarray  # [E, M] room for a placement
    amount: np.ndarray  # [E, M, 1]
    report: np.ndarray  # [E] of report_dtype
    groups: np.ndarray  # [G] of group_dtype: the cluster as a tree


group_dtype = np.dtype([("first", "i4"), ("last", "i4"), ("child", "i4"), ("children", "i4"), ("level", "i4")], align=True)


def groups(cluster: Cluster) -> np.ndarray:
    """[G] of `group_dtype`, breadth first: the cluster, its racks, machines, sockets, GPUs; ranges of GPUs, their children."""
    M = len(cluster.capacity)
    levels = [np.array([0, M])]
    if cluster.topology:
        levels += list(cluster.topology.bounds[::-1])
    levels.append(np.arange(M + 1))
    rows = [(a, b, depth) for depth, at in enumerate(levels) for a, b in zip(at[:-1], at[1:], strict=True) if b > a]
    found = np.zeros(len(rows), group_dtype)
    found["first"], found["last"], found["level"] = np.array(rows).T
    for row in found:
        inside = np.flatnonzero((found["level"] == row["level"] + 1) & (found["first"] >= row["first"]))
        inside = inside[found["last"][inside] <= row["last"]]
        row["child"], row["children"] = (inside[0], len(inside)) if len(inside) else (-1, 0)
    return found


# ------------------------------------------------------------------ assignments


@kernel
def legal(s, g, e):
    """Make g.want[e] an assignment that breaks no bound: those of the mode, of the jobs, of the GPUs that are there."""
    want, has, place, mode = g.want[e], g.has[e], g.place[e], g.moment[e]["mode"]
    for i in range(len(want)):
        p = want[i]
        if p < 0 or p >= len(place) or place[p]["job"] < 0 or not s.nodes[e, i]["up"]:
            want[i] = -1
        if mode == NONE and (has[i] >= 0 or (want[i] >= 0 and place[want[i]]["held"] > 0)):
            want[i] = has[i]
    again = True
    while again:
        again = False
        _sizes(g, e)
        for p in range(len(place)):
            if mode == PARTIAL and place[p]["held"] > 0 and place[p]["size"] < place[p]["least"]:
                for i in range(len(want)):
                    if has[i] == p:
                        want[i] = p
                again = True
    for p in range(len(place)):
        size, least, most = place[p]["size"], place[p]["least"], place[p]["most"]
        fixed = mode == NONE and place[p]["held"] > 0
        if size == 0 or fixed or (least <= size and size <= most):
            continue
        if size < least and not (mode == PARTIAL and place[p]["held"] > 0):
            most = 0
        for own in (True, False):  # what it holds already is taken away last
            for i in range(len(want) - 1, -1, -1):
                if size > most and want[i] == p and (has[i] == p) != own:
                    want[i], size = -1, size - 1
        place[p]["size"] = size


@inlined
def _sizes(g, e):
    place, want = g.place[e], g.want[e]
    for p in range(len(place)):
        place[p]["size"] = 0
    for i in range(len(want)):
        if want[i] >= 0:
            place[want[i]]["size"] += 1


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


@kernel
def _enter(s, g, e, p, j):
    """Job j takes place p."""
    job, one = s.jobs[e, j], g.place[e, p]
    elastic = g.moment[e]["elastic"] and job["least"] > 0
    n = job["request"][0]
    one["job"], one["held"], one["rate"], one["request"] = j, 0, 0.0, n
    one["least"] = job["least"] if elastic else n
    one["most"] = min(max(job["most"], job["least"]), g.has.shape[1]) if elastic else n
    one["length"] = max(job["walltime"] / s.sims[e]["tick"], 1e-9)
    one["step"], one["gradient"], one["worth"] = job["step"], job["gradient"], _worth(s, job)


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
            for i in range(M):
                if g.has[e, i] == p:
                    g.has[e, i] = to
    for p in range(m["slots"]):
        if place[p]["job"] < 0 and m["shown"] < sim["next"]:
            _enter(s, g, e, p, m["shown"])
            m["owed"] -= place[p]["worth"]
            m["shown"] += 1
    m["behind"] = sim["next"] - m["shown"]
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
def _pass(s, g, e):
    """A row of time passes; where nobody is there, as many as it takes until somebody comes."""
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
    for j in range(last, sim["next"]):
        m["owed"] += _worth(s, s.jobs[e, j])
    z["rows"] = m["now"] - before
    z["all_rows"] += z["rows"]
    _tidy(s, g, e)
    z["slow"] = 0.0
    for p in range(g.place.shape[1]):
        if g.place[e, p]["job"] >= 0:
            z["slow"] += 1.0 / g.place[e, p]["length"]
    for j in range(m["shown"], sim["next"]):
        z["slow"] += sim["tick"] / s.jobs[e, j]["walltime"]
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
    m, z, sim = g.moment[e], g.report[e], s.sims[e]
    for p in range(g.place.shape[1]):
        g.place[e, p]["job"] = -1
        g.place[e, p]["held"] = 0
    for i in range(g.has.shape[1]):
        g.has[e, i] = -1
        g.amount[e, i, 0] = 1
    m["now"], m["behind"], m["shown"], m["owed"], m["over"] = 0.0, 0, 0, 0.0, 0
    z["total"] = z["started"] = z["done"] = z["longest"] = z["all_waited"] = z["over"] = z["slow"] = z["rows"] = 0.0
    z["all_speed"] = z["all_idle"] = z["all_short"] = z["all_rows"] = z["all_changes"] = z["changes"] = 0.0
    z["speed"] = z["idle"] = z["short"] = 0.0
    z["peak"] = g.has.shape[1] * PEAK
    advance(s, e, 0.0)
    for j in range(sim["next"]):
        m["owed"] += _worth(s, s.jobs[e, j])
    _tidy(s, g, e)


@allocating
def go(s, g, sets, asked, actions, which, over, first, last):
    """Do asked[e] in simulations first .. last - 1: BEGIN it as it is filled, RENEW it with jobset which[e], or ACT: give GPU i
    to the job in place actions[e, i] (another number: to nobody), and let a row pass. over[e]: 1 where it has ended; such
    simulations are left alone. How many have not."""
    more = 0
    for e in range(first, last):
        if asked[e] != ACT:
            if asked[e] == RENEW:
                renew(s, e, sets, which[e])
            _begin(s, g, e)
        elif not g.moment[e]["over"]:
            for i in range(g.want.shape[1]):
                g.want[e, i] = actions[e, i]
            g.report[e]["changes"] = 0.0
            legal(s, g, e)
            _carry_out(s, g, e)
            _pay(s, g, e)
            _pass(s, g, e)
        over[e] = g.moment[e]["over"]
        more += 1 - over[e]
    return more


def gpus(s: State, cluster: Cluster, world, limit: float) -> Gpus:
    """What the world remembers of the simulations of `s`; `world`: its settings (`assignment_world.Assignment`)."""
    count, M = len(s.sims), len(cluster.capacity)
    moment = np.zeros(count, moment_dtype)
    moment["slots"], moment["mode"], moment["elastic"] = world.slots, MODES.index(world.mode), world.elastic
    moment["limit"], moment["seed"] = limit, s.sims["seed"]
    place = np.zeros((count, world.places(cluster)), place_dtype)
    place["job"] = -1
    room = np.full((count, M), -1, np.int32)
    return Gpus(
        moment, place, room, room.copy(), room.copy(), np.ones((count, M, 1), np.int64), np.zeros(count, report_dtype),
        groups(cluster),
    )  # fmt: skip
