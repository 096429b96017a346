"""A buffer of jobs in front of a queue: E simulations side by side; at every row of time, which node each of them goes to.

The oldest jobs stand in the places of the buffer, the others wait behind, first come first served; a place that is free is
filled by the head of the queue. Each job runs on one node. Parts of an action are carried out place by place; a part without a
job, or whose node has too little room, is ignored. Then a row of time passes. All of it is done with the kernel's verbs.

    joint    an action says where every place's job goes: one of (nodes + 1) ** places combinations
    in turn  the places are asked one after the other, and the row passes after the last one
    burst    time stands still as long as jobs are placed
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.jobs import DONE, QUEUED
from jobwise.sim.kernel import advance, start
from jobwise.sim.reset import renew
from jobwise.sim.state import ENTERED, HEAP, LEFT, State
from jobwise.worlds.rows import ACT, RENEW, taken

moment_dtype = np.dtype(
    [
        ("now", "f8"),  # rows since the first arrival
        ("head", "i8"),  # of the queue behind the buffer, in `line`
        ("behind", "i8"),  # jobs in it
        ("turn", "i8"),  # the place that is asked about; 0 where all are at once
        ("some", "i1"),  # placed since the row began, or since time stood still last
        ("robin", "i8"),  # the node after the one that the rule `robin` chose last
        ("joint", "i1"),
        ("burst", "i1"),
        ("avoid", "f8"),  # nodes of a larger risk take no jobs
        ("ask_always", "i1"),  # asked also where no job could be placed
        ("first", "i1"),
        ("over", "i1"),
        ("limit", "f8"),  # rows after which a simulation is cut
        ("seed", "u8"),
    ],
    align=True,
)
seen_dtype = np.dtype([("count", "f8"), ("mean", "f8")], align=True)  # of jobs of a kind on a node that are done, s each
report_dtype = np.dtype(  # what happened since the last choice: rewards are functions of it; and so far in the episode
    [
        ("rows", "f8"),  # of time passed
        ("present", "f8"),  # jobs in the system, summed over the rows
        ("slow", "f8"),  # the same of 1 / length
        ("placed", "f8"),  # jobs placed
        ("total", "f8"),  # so far: sum of end - submit in rows (at the cut: of all, as if they ended there)
        ("started", "f8"),  # how many
        ("done", "f8"),  # those that did end
        ("longest", "f8"),  # s, longest wait for a start
        ("all_waited", "f8"),  # s
        ("all_slow", "f8"),  # sum of their slowdowns (end - submit) / length
        ("all_rows", "f8"),
        ("uneven", "f8"),  # sum over the rows of how unevenly the nodes are used: |a - b| of two, else the standard deviation
        ("used", "f8"),  # sum over the rows of the units used
        ("lost", "f8"),  # rows of work that failures undid
        ("all_lost", "f8"),
        ("hit", "f8"),  # jobs whose node failed, so far
        ("over", "f8"),
    ],
    align=True,
)


class Nodes(NamedTuple):
    """E simulations, b places, N nodes, A actions, K kinds of jobs."""

    moment: np.ndarray  # [E] of moment_dtype
    place: np.ndarray  # [E, b] rows of the job table; -1 empty
    to: np.ndarray  # [E, b] room for rules: the node that a place's job is to go to; -1 none, as between two rounds
    line: np.ndarray  # [E, J] the queue behind the buffer: rows of the job table, in a ring
    at: np.ndarray  # [E, J] the node that each job started on last
    parts: np.ndarray  # [A, b] the same for every action (in turn: [N + 1, 1])
    begun: np.ndarray  # [E, N] jobs started so far
    seen: np.ndarray  # [E, K, N] of seen_dtype: how long jobs took, as far as they are done
    prior: np.ndarray  # [K, N] of seen_dtype: what is known at the beginning
    node: np.ndarray  # [E, 1] room for a placement
    amount: np.ndarray  # [E, 1, R]
    report: np.ndarray  # [E] of report_dtype
    mask: np.ndarray  # [E, A] i1


def parts_of(nodes: int, places: int) -> np.ndarray:
    """[(nodes + 1) ** places, places] the node of each place's job, -1 none, of every joint action: none; then node after node
    all sets of places that it alone is given (1; 2; both); then the others (as the source lists its nine)."""
    every = list(product(range(-1, nodes), repeat=places))
    single = [tuple(n if s >> p & 1 else -1 for p in range(places)) for n in range(nodes) for s in range(1, 2**places)]
    first = [(-1,) * places, *single]
    return np.array([*first, *(c for c in every if c not in set(first))], np.int64)


def buffer(s: State, settings, limit: float, prior: np.ndarray) -> Nodes:
    """Return the memory of the world of the simulations of `s`; `settings`: a `world.Places`."""
    E, N, R = s.nodes["free"].shape
    moment = np.zeros(E, moment_dtype)
    for key, value in taken(settings, ("joint", "burst", "ask_always", "avoid")).items():
        moment[key] = value
    moment["limit"], moment["seed"] = limit, s.sims["seed"]
    alone = np.append(np.arange(N), -1)[:, None]  # none is the last, as for slots
    parts = parts_of(N, settings.places) if settings.joint else alone
    return Nodes(
        moment=moment,
        place=np.full((E, settings.places), -1, np.int32),
        to=np.full((E, settings.places), -1, np.int64),
        line=np.zeros(s.jobs.shape, np.int32),
        at=np.full(s.jobs.shape, -1, np.int32),
        parts=parts,
        begun=np.zeros((E, N), np.int64),
        seen=np.zeros((E, *prior.shape), seen_dtype),
        prior=prior,
        node=np.zeros((E, 1), np.int32),
        amount=np.zeros((E, 1, R), np.int64),
        report=np.zeros(E, report_dtype),
        mask=np.ones((E, len(parts)), np.int8),
    )


@inlined
def risk_of(s, e, n):
    """Return the present forecast probability that node n fails."""
    T = s.risk.shape[1]
    if T == 0:
        return 0.0
    return s.risk[e, min(np.int64(s.sims[e]["now"] / s.sims[e]["tick"]), T - 1), n]


@kernel
def has_room(s, g, e, j, n):
    """Does job j fit on what is free of node n, and is that to be used?"""
    if risk_of(s, e, n) > g.moment[e]["avoid"]:
        return False
    for r in range(s.nodes[e, n]["free"].shape[0]):
        if s.jobs[e, j]["request"][r] > s.nodes[e, n]["free"][r]:
            return False
    return True


@kernel
def _place(s, g, e, slot, n):
    """Place the job of place `slot` on node n; False where that cannot be."""
    j = np.int64(g.place[e, slot])
    if j < 0 or n < 0 or not has_room(s, g, e, j, n):
        return False
    g.node[e, 0] = n
    for r in range(g.amount.shape[2]):
        g.amount[e, 0, r] = s.jobs[e, j]["request"][r]
    start(s, e, j, 1.0, g.node[e], g.amount[e], 1)
    g.place[e, slot], g.at[e, j] = -1, n
    g.begun[e, n] += 1
    g.report[e]["placed"] += 1.0
    return True


@inlined
def _queue(s, g, e):
    """Put the jobs of the last advance behind the others."""
    m, J = g.moment[e], g.line.shape[1]
    for i in range(s.sims[e]["entered"]):
        g.line[e, (m["head"] + m["behind"]) % J] = s.lists[e, ENTERED, i]
        m["behind"] += 1


@inlined
def _fill(s, g, e):
    """The heads of the queue take the places that are free."""
    m, J = g.moment[e], g.line.shape[1]
    for p in range(g.place.shape[1]):
        if g.place[e, p] < 0 and m["behind"] > 0:
            g.place[e, p] = g.line[e, m["head"]]
            m["head"] = (m["head"] + 1) % J
            m["behind"] -= 1


@kernel
def _count(s, g, e):
    """Take note of the jobs in the system."""
    z, sim, count, slow = g.report[e], s.sims[e], 0, 0.0
    for i in range(sim["running"]):
        slow += 1.0 / s.truth[e, s.lists[e, HEAP, i]]["runtime"]
    for p in range(g.place.shape[1]):
        if g.place[e, p] >= 0:
            count += 1
            slow += 1.0 / s.truth[e, g.place[e, p]]["runtime"]
    for i in range(g.moment[e]["behind"]):
        slow += 1.0 / s.truth[e, g.line[e, (g.moment[e]["head"] + i) % g.line.shape[1]]]["runtime"]
    z["present"] += count + sim["running"] + g.moment[e]["behind"]
    z["slow"] += slow * sim["tick"]


@kernel
def _balance(s, g, e):
    """Take note of how the nodes are used, by their first resource."""
    N, total, square, least, most = s.nodes.shape[1], 0.0, 0.0, np.inf, 0.0
    for n in range(N):
        used = np.float64(s.nodes[e, n]["capacity"][0] - s.nodes[e, n]["free"][0])
        total += used
        square += used * used
        least, most = min(least, used), max(most, used)
    g.report[e]["uneven"] += most - least if N == 2 else np.sqrt(max(square / N - (total / N) ** 2, 0.0))
    g.report[e]["used"] += total


@inlined
def _ended(s, z, e, j, end):
    job, tick = s.jobs[e, j], s.sims[e]["tick"]
    z["total"] += (end - job["submit"]) / tick
    z["all_slow"] += (end - job["submit"]) / s.truth[e, j]["runtime"]
    z["started"] += 1.0
    wait = (end if np.isnan(job["start"]) else job["start"]) - job["submit"]
    z["all_waited"] += wait
    z["longest"] = max(z["longest"], wait)


@kernel
def _learn(s, g, e, j, n):
    """Job j, which ran on node n, is done: how long it took is known now."""
    kind = s.jobs[e, j]["kind"]
    if kind >= 0 and kind < g.seen.shape[1] and n >= 0 and s.jobs[e, j]["status"] == DONE:
        x = g.seen[e, kind, n]
        x["count"] += 1.0
        x["mean"] += (s.jobs[e, j]["ran"] - x["mean"]) / x["count"]  # since it started there


@kernel
def _pass(s, g, e):
    """A row of time passes."""
    m, z, sim = g.moment[e], g.report[e], s.sims[e]
    lost = sim["lost"]
    _balance(s, g, e)
    advance(s, e, sim["now"] + sim["tick"])
    m["now"] = np.round(sim["now"] / sim["tick"])
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        z["hit"] += s.jobs[e, j]["status"] == QUEUED
        if not np.isnan(s.jobs[e, j]["end"]):
            _ended(s, z, e, j, s.jobs[e, j]["end"])
            z["done"] += s.jobs[e, j]["status"] == DONE
            _learn(s, g, e, j, g.at[e, j])
    z["rows"] += 1.0
    z["all_rows"] += 1.0
    z["lost"] += (sim["lost"] - lost) / sim["tick"]
    z["all_lost"] += (sim["lost"] - lost) / sim["tick"]
    m["turn"], m["some"] = 0, 0
    _queue(s, g, e)
    _fill(s, g, e)
    _count(s, g, e)
    m["over"] = sim["ended"] == sim["jobs"] or m["now"] >= m["limit"]
    if m["over"] and sim["ended"] < sim["jobs"]:
        for j in range(sim["next"]):
            if np.isnan(s.jobs[e, j]["end"]):
                _ended(s, z, e, j, sim["now"])
    z["over"] = m["over"]


@kernel
def _begin(s, g, e):
    """Simulation e has been filled, and nothing has happened in it yet."""
    m, z = g.moment[e], g.report[e]
    for p in range(g.place.shape[1]):
        g.place[e, p] = -1
    for n in range(g.begun.shape[1]):
        g.begun[e, n] = 0
        for k in range(g.seen.shape[1]):
            g.seen[e, k, n] = g.prior[k, n]
    m["now"], m["head"], m["behind"], m["turn"], m["robin"], m["over"], m["some"] = 0.0, 0, 0, 0, 0, 0, 0
    z["rows"] = z["present"] = z["slow"] = z["placed"] = z["total"] = z["started"] = z["done"] = z["longest"] = 0.0
    z["lost"] = z["all_lost"] = z["hit"] = 0.0
    z["all_waited"] = z["all_slow"] = z["all_rows"] = z["uneven"] = z["used"] = z["over"] = 0.0
    m["first"] = 1
    advance(s, e, 0.0)
    _queue(s, g, e)
    _fill(s, g, e)
    _count(s, g, e)


@kernel
def _may(s, g, e, action):
    """Could every part of `action` be carried out?"""
    for p in range(g.parts.shape[1]):
        n, q = g.parts[action, p], p if g.moment[e]["joint"] else g.moment[e]["turn"]
        if n < 0:
            continue
        j = np.int64(g.place[e, q])
        if j < 0:
            return False
        if risk_of(s, e, n) > g.moment[e]["avoid"]:
            return False
        for r in range(g.amount.shape[2]):
            need = s.jobs[e, j]["request"][r]
            for other in range(p):
                if g.parts[action, other] == n:
                    need += s.jobs[e, g.place[e, other]]["request"][r]
            if need > s.nodes[e, n]["free"][r]:
                return False
    return True


@kernel
def look(s, g, first, last):
    """Bring the masks of simulations first .. last - 1 up to date."""
    for e in range(first, last):
        for a in range(g.parts.shape[0]):
            g.mask[e, a] = _may(s, g, e, a)


@kernel
def _choice(s, g, e):
    """Could the job of a place that is asked about be placed somewhere?"""
    m = g.moment[e]
    for p in range(g.place.shape[1]):
        if g.place[e, p] >= 0 and (m["joint"] or p == m["turn"]):
            for n in range(s.nodes.shape[1]):
                if has_room(s, g, e, np.int64(g.place[e, p]), n):
                    return True
    return False


@kernel
def _act(s, g, e, action):
    """Do `action`: its parts, and, as the world is, a row of time."""
    m = g.moment[e]
    if not m["joint"]:
        m["some"] = _place(s, g, e, m["turn"], g.parts[action, 0]) or m["some"]
        m["turn"] += 1
        if m["turn"] < g.place.shape[1]:
            return
    else:
        for p in range(g.place.shape[1]):
            m["some"] = _place(s, g, e, p, g.parts[action, p]) or m["some"]
    _round(s, g, e)


@kernel
def _round(s, g, e):
    """All places have been asked about: time stands still once more, or a row of it passes."""
    m = g.moment[e]
    m["turn"] = 0
    if m["some"] and m["burst"]:
        m["some"] = 0
        _fill(s, g, e)
    else:
        _pass(s, g, e)


@allocating
def go(s, g, sets, asked, actions, which, over, first, last):
    """Do what is asked in simulations first .. last - 1, and go on to their next choices: BEGIN as they are filled, RENEW with
    jobsets which[e], or ACT: actions[e]. over[e]: 1 where it has ended; such simulations are left alone. How many have not."""
    more = 0
    for e in range(first, last):
        m, z = g.moment[e], g.report[e]
        if asked != ACT:
            if asked == RENEW:
                renew(s, e, sets, which[e])
            _begin(s, g, e)
        elif not m["over"]:
            if m["first"]:
                m["first"] = 0  # what came before the first choice counts to the first interval
            else:
                z["rows"] = z["present"] = z["slow"] = z["lost"] = 0.0
            z["placed"] = 0.0
            _act(s, g, e, min(max(actions[e], 0), g.parts.shape[0] - 1))
        while not m["over"] and not m["ask_always"] and not _choice(s, g, e):
            m["turn"] += 1
            if m["joint"] or m["turn"] >= g.place.shape[1]:
                _round(s, g, e)
        over[e] = m["over"]
        more += 1 - over[e]
    return more
