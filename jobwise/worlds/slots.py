"""Scheduling on a grid of time: E simulations side by side, rows of time by units of the cluster, as DeepRM and CuSH see it.

A few waiting jobs stand in slots, the others in a backlog behind them, first come first served; what finds no place there is
turned away. An action names a slot and a placement. If the job can be placed it is, time stands still and the head of the
backlog takes the slot; else (and for the void action) a row of time passes. All of it is done with the kernel's verbs:
`start`, `reserve`, `cancel`, `advance`; what is kept here is the picture of it.

    canvas    [rows, columns] which job holds a unit at each row to come, by its estimate; on a node a job takes the left-most
              free cells of every row. Columns: resource by resource, node by node.
    reserve   with reservations a job takes the first row from which it fits for its whole length, now or later (DeepRM); run
              times must be known. Without, it must fit now (CuSH).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from jobwise.errors import InputError
from jobwise.sim.compiled import allocating, kernel
from jobwise.sim.kernel import advance, cancel, reserve, start
from jobwise.sim.placement import fits, place, placed_by
from jobwise.sim.rates import sigma
from jobwise.sim.reset import Jobsets, renew, set_dtype
from jobwise.sim.state import ENTERED, HEAP, LEFT, State, allocate
from jobwise.workload import Workload

COLOURS = 39  # of DeepRM's canvas
RENEW, NOTHING = -2, -3  # what else than an action can be asked of a simulation

moment_dtype = np.dtype(  # what an encoder may see of it besides the tables
    [
        ("now", "f8"),  # rows since the first arrival
        ("backlog", "i8"),  # jobs in it
        ("since", "i8"),  # rows since the last arrival
        ("promised", "i8"),  # jobs with a row to come
        ("reserve", "i1"),  # may jobs be placed later than now?
        ("compat", "i1"),  # the last row from which a job would just fit is not tried (DeepRM's code)
        ("ask_always", "i1"),  # asked also where nothing but the void action would do anything
        ("over", "i1"),
        ("first", "i1"),
        ("until_arrivals", "i1"),  # an episode ends with its last arrival
        ("limit", "i8"),  # rows after which an episode is cut
        ("seed", "u8"),
    ],
    align=True,
)
report_dtype = np.dtype(  # what happened between two choices: rewards are functions of it
    [
        ("rows", "f8"),  # of time passed
        ("slow", "f8"),  # sum of 1 / length over jobs in the system and rows passed
        ("present", "f8"),  # the same of 1
        ("placed", "f8"),  # 1 where a job was placed
        ("penalty", "f8"),  # how much more a placed job was slowed down than by the best of the placements
        ("mean", "f8"),  # the mean over the placements, less the best
        ("total", "f8"),  # so far in the episode: sum of slowdowns (end - submit) / length of the jobs that ended
        ("started", "f8"),  # how many
        ("longest", "f8"),  # s, the longest wait of them
        ("all_waited", "f8"),  # s, the sum of their waits
        ("stretched", "f8"),  # the sum of how much longer than at their best they ran
        ("dropped", "f8"),  # turned away
        ("over", "f8"),
    ],
    align=True,
)


class Grid(NamedTuple):
    """E simulations, M slots, B places in the backlog, H rows, X columns, N nodes, R resources, P placements, J jobs."""

    moment: np.ndarray  # [E] of moment_dtype
    slot: np.ndarray  # [E, M] rows of the job table; -1 empty
    waiting: np.ndarray  # [E, M] what schedulers may know of the jobs in the slots, as last shown
    backlog: np.ndarray  # [E, B]
    canvas: np.ndarray  # [E, H, X] row of the job that holds the unit + 1; 0 free
    free: np.ndarray  # [E, H, N, R] units
    colour: np.ndarray  # [E, J] 0 .. COLOURS - 1
    used: np.ndarray  # [E, COLOURS] jobs of each colour on the canvas
    promised: np.ndarray  # [E, J] rows of the jobs with a row to come
    held: np.ndarray  # [E, J, N, R] and their units (empty without reservations)
    base: np.ndarray  # [N, R] first column of each node's resource
    codes: np.ndarray  # [P] placements to choose from
    capacity: np.ndarray  # [N, R]
    node: np.ndarray  # [E, N] room for a placement
    amount: np.ndarray  # [E, N, R]
    report: np.ndarray  # [E] of report_dtype
    mask: np.ndarray  # [E, M P + 1] i1: actions that do something, and the void action
    sigma: np.ndarray  # [E, P] of the placements tried last


def jobsets(workloads: list[Workload]) -> Jobsets:
    """The tables of workloads on one cluster, for simulations to begin with. Raises InputError."""
    one = workloads[0].cluster
    for w in workloads:
        if w.cluster.capacity.shape != one.capacity.shape or (w.cluster.capacity != one.capacity).any():
            raise InputError(f"{w.name}: jobsets must be for one cluster; these are for different ones")
        if len(w) == 0 or len(w.edges) or len(w.cluster.outages) or w.jobs["chunks"].any():
            raise InputError(f"{w.name}: a jobset has a job at least, no dependencies, equal chunks or node failures")
    sets = np.zeros(len(workloads), set_dtype)
    sets["jobs"] = [len(w) for w in workloads]
    sets["first"], sets["offset"] = np.cumsum(sets["jobs"]) - sets["jobs"], [w.offset for w in workloads]
    truth = np.concatenate([w.truth for w in workloads])
    jobs = np.concatenate([w.jobs for w in workloads])
    truth["least"], truth["most"] = one.spread(jobs["request"])
    return Jobsets(jobs, truth, sets)


def build(
    sets: Jobsets,
    workload: Workload,
    count: int,
    *,
    slots: int,
    backlog: int,
    rows: int,
    placements: np.ndarray,
    reserve: bool,
    compat: bool = False,
    ask_always: bool = True,
    until_arrivals: bool = False,
    limit: int = 2000,
) -> tuple[State, Grid]:
    """Room for `count` simulations of jobsets on the cluster of `workload`, to be begun with RENEW. Raises InputError."""
    J, cluster = int(sets.sets["jobs"].max()), workload.cluster
    whole = np.array_equal(sets.jobs["walltime"], np.round(sets.jobs["walltime"])) and (sets.jobs["walltime"] >= 1).all()
    if not whole or not np.array_equal(sets.jobs["submit"], np.round(sets.jobs["submit"])):
        raise InputError(f"{workload.name}: on a grid of time submits and lengths are whole rows; see `to_rows`")
    if reserve:
        if not np.array_equal(sets.jobs["walltime"], sets.truth["runtime"]) or (sets.jobs["kind"] != sets.truth["kind"]).any():
            raise InputError(f"{workload.name}: reservations need known run times and kinds (walltime = run time)")
        if cluster.slowdown and cluster.slowdown.share:
            raise InputError("reservations and slowdowns that change while a job runs do not go together")
        longest = sets.jobs["walltime"].max()
        if cluster.slowdown:
            longest *= 1 + max(cluster.slowdown.network, cluster.slowdown.compute)
        if longest > rows - compat:
            raise InputError(f"{workload.name}: a job of up to {longest:g} rows never fits an image of {rows}")
    big = {"jobs": np.repeat(workload.jobs[:1], J), "truth": np.repeat(workload.truth[:1], J), "columns": {}}
    s = allocate([replace(workload, **big)] * count, cluster, tick=1.0)
    N, R = cluster.capacity.shape
    wide = cluster.capacity.T.reshape(-1)
    base = (np.cumsum(wide) - wide).reshape(R, N).T.copy()
    moment = np.zeros(count, moment_dtype)
    moment["reserve"], moment["compat"], moment["ask_always"] = reserve, compat, ask_always
    moment["until_arrivals"], moment["limit"], moment["seed"] = until_arrivals, limit, np.arange(count)
    P = len(placements)
    return s, Grid(
        moment,
        np.full((count, slots), -1, np.int32),
        np.zeros((count, slots), s.jobs.dtype),
        np.zeros((count, backlog), np.int32),
        np.zeros((count, rows, int(wide.sum())), np.int32),
        np.zeros((count, rows, N, R), np.int32),
        np.zeros((count, J), np.uint8),
        np.zeros((count, COLOURS), np.int32),
        np.zeros((count, J), np.int32),
        np.zeros((count, J, N, R) if reserve else (1, 1, 1, 1), np.int32),
        base,
        np.asarray(placements, np.int64),
        cluster.capacity,
        np.zeros((count, N), np.int32),
        np.zeros((count, N, R), np.int64),
        np.zeros(count, report_dtype),
        np.zeros((count, slots * P + 1), np.int8),
        np.ones((count, P)),
    )


# ------------------------------------------------------------------ the picture


@kernel
def _draw(g, e, j, first, last, k):
    """Job j holds the k pieces in g.node, g.amount in rows first .. last - 1."""
    R = g.amount.shape[2]
    for row in range(first, min(last, g.canvas.shape[1])):
        for i in range(k):
            node = g.node[e, i]
            for r in range(R):
                need, x = g.amount[e, i, r], g.base[node, r]
                g.free[e, row, node, r] -= need
                end = x + g.capacity[node, r]
                while need > 0 and x < end:
                    if g.canvas[e, row, x] == 0:
                        g.canvas[e, row, x] = j + 1
                        need -= 1
                    x += 1


@kernel
def _wipe(g, e, j):
    """Job j is gone before its time: what it held of the rows to come is free."""
    N, R = g.capacity.shape
    for row in range(g.canvas.shape[1]):
        for i in range(N):
            for r in range(R):
                for x in range(g.base[i, r], g.base[i, r] + g.capacity[i, r]):
                    if g.canvas[e, row, x] == j + 1:
                        g.canvas[e, row, x] = 0
                        g.free[e, row, i, r] += 1


@kernel
def _pieces(s, g, e, j):
    """Put what running job j holds into g.node, g.amount; how many pieces."""
    k, at = 0, s.jobs[e, j]["held"]
    while at >= 0:
        g.node[e, k] = s.slices[e, at]["node"]
        for r in range(g.amount.shape[2]):
            g.amount[e, k, r] = s.slices[e, at]["amount"][r]
        k += 1
        at = s.slices[e, at]["next"]
    return k


@kernel
def _roll(s, g, e):
    """A row of time has passed: the picture moves up. Jobs longer than it, or than was thought, go on being drawn."""
    H, X = g.canvas.shape[1:]
    N, R = g.capacity.shape
    for row in range(H - 1):
        for x in range(X):
            g.canvas[e, row, x] = g.canvas[e, row + 1, x]
        for i in range(N):
            for r in range(R):
                g.free[e, row, i, r] = g.free[e, row + 1, i, r]
    for x in range(X):
        g.canvas[e, H - 1, x] = 0
    for i in range(N):
        for r in range(R):
            g.free[e, H - 1, i, r] = g.capacity[i, r]
    now = s.sims[e]["now"]
    for i in range(s.sims[e]["left"]):
        j = s.lists[e, LEFT, i]
        g.used[e, g.colour[e, j]] -= 1
        if s.jobs[e, j]["due"] > now:
            _wipe(g, e, j)
    before = -1
    while True:  # in order of rows: that of the heap would tell who ends first
        next_row = -1
        for i in range(s.sims[e]["running"]):
            j = s.lists[e, HEAP, i]
            due = s.jobs[e, j]["due"]
            if j > before and (due > now + (H - 1) or due <= now) and (next_row < 0 or j < next_row):
                next_row = j
        if next_row < 0:
            return
        before = next_row
        if s.jobs[e, before]["due"] <= now:
            _draw(g, e, before, 0, 1, _pieces(s, g, e, before))
        else:
            _draw(g, e, before, H - 1, H, _pieces(s, g, e, before))


# ------------------------------------------------------------------ placing


@kernel
def _begin(s, g, e, j, k):
    """Start job j on the k nodes in g.node, g.amount: compiled once, not into every caller."""
    return start(s, e, j, 1.0, g.node[e], g.amount[e], k)


@kernel
def first_row(g, e, request, length, last):
    """The first row 0 .. last from which the request [R] fits on the only node for `length` rows; -1: none."""
    fit = 0
    for row in range(min(last + length, g.free.shape[1])):
        ok = True
        for r in range(g.free.shape[3]):
            ok = ok and request[r] <= g.free[e, row, 0, r]
        fit = fit + 1 if ok else 0
        if fit == length:
            return row - length + 1
    return -1


@allocating
def _now(s, g, e, j, code):
    """Place job j on what is free now, into g.node, g.amount; how many nodes (it fits)."""
    N, R = g.capacity.shape
    if N == 1:
        g.node[e, 0] = 0
        for r in range(R):
            g.amount[e, 0, r] = s.jobs[e, j]["request"][r]
        return 1
    free = np.empty((N, R), np.int64)
    for i in range(N):
        for r in range(R):
            free[i, r] = s.nodes[e, i]["free"][r]
    job = s.jobs[e, j]
    return place(placed_by(code, job["kind"]), free, g.capacity, job["request"], job["chunks"], g.node[e], g.amount[e])


@kernel
def fits_now(s, g, e, j):
    """Would job j fit on what is free now?"""
    R = g.amount.shape[2]
    for r in range(R):
        need = s.jobs[e, j]["request"][r]
        for i in range(s.nodes.shape[1]):
            need -= s.nodes[e, i]["free"][r]
        if need > 0:
            return False
    return True


@allocating
def _later(s, g, e, j, code):
    """(the first row at which job j can be placed for all of its length, nodes, rows it takes); (-1, 0, 0): none."""
    H, (N, R) = g.canvas.shape[1], g.capacity.shape
    job, L = s.jobs[e, j], np.int64(s.jobs[e, j]["walltime"])
    if N == 1:
        row = first_row(g, e, job["request"], L, H - L - g.moment[e]["compat"])
        return (row, _now(s, g, e, j, code), L) if row >= 0 else (-1, 0, 0)
    least = np.empty((N, R), np.int64)
    for row in range(H - L + 1 - g.moment[e]["compat"]):
        for i in range(N):
            for r in range(R):
                least[i, r] = g.free[e, row, i, r]
                for x in range(row + 1, row + L):
                    least[i, r] = min(least[i, r], g.free[e, x, i, r])
        if not fits(least, job["request"], job["chunks"]):
            continue
        k = place(placed_by(code, job["kind"]), least, g.capacity, job["request"], job["chunks"], g.node[e], g.amount[e])
        whole = np.int64(np.round(L * sigma(s.sims[e], job["kind"], s.truth[e, j], job["walltime"], k)))
        ok = row + whole <= H
        for x in range(row + L, min(row + whole, H)):
            for i in range(k):
                for r in range(R):
                    ok = ok and g.amount[e, i, r] <= g.free[e, x, g.node[e, i], r]
        if ok:
            return row, k, whole
    return -1, 0, 0


@allocating
def can_place(s, g, e, j):
    """Could job j be placed by some action?"""
    if g.moment[e]["reserve"] == 0:
        return fits_now(s, g, e, j)
    if g.capacity.shape[0] == 1:
        L = np.int64(s.jobs[e, j]["walltime"])
        return first_row(g, e, s.jobs[e, j]["request"], L, g.canvas.shape[1] - L - g.moment[e]["compat"]) >= 0
    for code in g.codes:
        if _later(s, g, e, j, code)[0] >= 0:
            return True
    return False


@allocating
def _weigh(s, g, e, j):
    """What each placement would do to the run time of job j, which fits now: g.sigma."""
    for p in range(len(g.codes)):
        k = _now(s, g, e, j, g.codes[p])
        g.sigma[e, p] = sigma(s.sims[e], s.truth[e, j]["kind"], s.truth[e, j], s.truth[e, j]["runtime"], k)


@allocating
def _place(s, g, e, m, p):
    """Place the job in slot m; False where that cannot be."""
    j, now = np.int64(g.slot[e, m]), s.sims[e]["now"]
    if j < 0:
        return False
    N, R = g.capacity.shape
    row, z = np.int64(0), g.report[e]
    if g.moment[e]["reserve"]:
        row, k, whole = _later(s, g, e, j, g.codes[p])
        if row < 0:
            return False
    elif not fits_now(s, g, e, j):
        return False
    if len(g.codes) > 1 and row == 0:
        _weigh(s, g, e, j)
        best, mean = g.sigma[e, 0], 0.0
        for q in range(len(g.codes)):
            best = min(best, g.sigma[e, q])
            mean += g.sigma[e, q] / len(g.codes)
        z["penalty"], z["mean"] = g.sigma[e, p] - best, mean - best
    if row == 0:
        k = _now(s, g, e, j, g.codes[p])
        _begin(s, g, e, j, k)
        whole = np.int64(np.round(s.jobs[e, j]["due"] - now))
    else:
        reserve(s, e, j, now + row)
        g.promised[e, g.moment[e]["promised"]] = j
        g.moment[e]["promised"] += 1
        for i in range(N):
            for r in range(R):
                g.held[e, j, i, r] = 0
        for i in range(k):
            for r in range(R):
                g.held[e, j, g.node[e, i], r] = g.amount[e, i, r]
    c = 0
    while c < COLOURS - 1 and g.used[e, c] > 0:
        c += 1
    g.colour[e, j] = c
    g.used[e, c] += 1
    _draw(g, e, j, row, row + whole, k)
    z["placed"] = 1.0
    b = g.moment[e]["backlog"]
    if b > 0:
        g.slot[e, m] = g.backlog[e, 0]
        for i in range(b - 1):
            g.backlog[e, i] = g.backlog[e, i + 1]
        g.moment[e]["backlog"] = b - 1
    else:
        g.slot[e, m] = -1
    return True


# ------------------------------------------------------------------ time


@kernel
def _arrive(s, g, e):
    """Who came in the last advance: into a slot, the backlog, or away."""
    m, sim = g.moment[e], s.sims[e]
    for i in range(sim["entered"]):
        j, at = s.lists[e, ENTERED, i], -1
        for k in range(g.slot.shape[1]):
            if g.slot[e, k] < 0:
                at = k
                break
        if at >= 0:
            g.slot[e, at] = j
        elif m["backlog"] < g.backlog.shape[1]:
            g.backlog[e, m["backlog"]] = j
            m["backlog"] += 1
        else:
            cancel(s, e, j)
            g.report[e]["dropped"] += 1.0


@kernel
def _due(s, g, e):
    """Start the jobs whose row has come."""
    m, now, n = g.moment[e], s.sims[e]["now"], 0
    for i in range(m["promised"]):
        j = g.promised[e, i]
        if s.jobs[e, j]["reserved"] > now:
            g.promised[e, n] = j
            n += 1
            continue
        k = 0
        for node in range(g.held.shape[2]):
            some = False
            for r in range(g.held.shape[3]):
                some = some or g.held[e, j, node, r] > 0
            if some:
                g.node[e, k] = node
                for r in range(g.held.shape[3]):
                    g.amount[e, k, r] = g.held[e, j, node, r]
                k += 1
        _begin(s, g, e, j, k)
    m["promised"] = n


@kernel
def _pay(s, g, e):
    """Take note of who is in the system: on the machine, promised, in a slot, in the backlog."""
    m, z, total, count = g.moment[e], g.report[e], 0.0, 0
    truth = s.truth[e]
    for i in range(s.sims[e]["running"]):
        total += 1.0 / truth[s.lists[e, HEAP, i]]["runtime"]
        count += 1
    for i in range(m["promised"]):
        total += 1.0 / truth[g.promised[e, i]]["runtime"]
        count += 1
    for i in range(g.slot.shape[1]):
        if g.slot[e, i] >= 0:
            total += 1.0 / truth[g.slot[e, i]]["runtime"]
            count += 1
    for i in range(m["backlog"]):
        total += 1.0 / truth[g.backlog[e, i]]["runtime"]
        count += 1
    z["slow"] += total
    z["present"] += count


@kernel
def _pass(s, g, e):
    """A row of time passes."""
    m, z, sim = g.moment[e], g.report[e], s.sims[e]
    advance(s, e, sim["now"] + 1.0)
    m["now"] = sim["now"]
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        job, run = s.jobs[e, j], s.truth[e, j]["runtime"]
        z["total"] += (job["end"] - job["submit"]) / run
        z["started"] += 1.0
        wait = job["end"] - job["submit"] - min(job["ran"], run)  # what a slow place takes beyond the work is waiting
        z["all_waited"] += wait
        z["longest"] = max(z["longest"], wait)
        z["stretched"] += (job["end"] - job["start"]) / run - 1.0
    _roll(s, g, e)
    if m["promised"] > 0:
        _due(s, g, e)
    _arrive(s, g, e)
    m["since"] = 0 if sim["entered"] > 0 else m["since"] + 1
    _pay(s, g, e)
    z["rows"] += 1.0


@kernel
def _is_over(s, g, e):
    sim, m = s.sims[e], g.moment[e]
    return sim["ended"] == sim["jobs"] or sim["now"] > m["limit"] or (m["until_arrivals"] and sim["next"] == sim["jobs"])


@allocating
def _mask(s, g, e):
    """Which actions would place a job; does one?"""
    P, some = len(g.codes), False
    for m in range(g.slot.shape[1]):
        ok = g.slot[e, m] >= 0 and can_place(s, g, e, np.int64(g.slot[e, m]))
        some = some or ok
        for p in range(P):
            g.mask[e, m * P + p] = ok
    g.mask[e, g.slot.shape[1] * P] = 1
    return some


@kernel
def show_waiting(s, g, first, last):
    """Copy the public rows of the jobs in the slots of simulations first .. last - 1 to g.waiting."""
    for e in range(first, last):
        for m in range(g.slot.shape[1]):
            if g.slot[e, m] >= 0:
                g.waiting[e, m] = s.jobs[e, g.slot[e, m]]


@kernel
def _renew(s, g, e, sets, which):
    """Begin simulation e anew with a jobset."""
    (N, R), m = g.capacity.shape, g.moment[e]
    renew(s, e, sets, which)
    for row in range(g.canvas.shape[1]):
        for x in range(g.canvas.shape[2]):
            g.canvas[e, row, x] = 0
        for i in range(N):
            for r in range(R):
                g.free[e, row, i, r] = g.capacity[i, r]
    for c in range(COLOURS):
        g.used[e, c] = 0
    for i in range(g.slot.shape[1]):
        g.slot[e, i] = -1
    m["backlog"], m["promised"], m["since"], m["over"], m["now"] = 0, 0, 0, 0, 0.0
    z = g.report[e]
    z["total"] = z["started"] = z["longest"] = z["all_waited"] = z["stretched"] = z["dropped"] = 0.0
    z["rows"] = z["slow"] = z["present"] = z["placed"] = z["penalty"] = z["mean"] = z["over"] = 0.0
    advance(s, e, 0.0)
    _arrive(s, g, e)
    _pay(s, g, e)
    m["first"] = 1


@allocating
def go(s, g, sets, asked, which, over, first, last):
    """Do asked[e] in simulations first .. last - 1, and go on to their next choices. How many have one.

    asked[e]: an action (slot P + placement; M P and beyond: void), RENEW to begin jobset which[e], or NOTHING. over[e]: 1
    where the episode has ended (or had: such simulations are left alone).
    """
    more, P, M = 0, len(g.codes), g.slot.shape[1]
    for e in range(first, last):
        a, m, z = asked[e], g.moment[e], g.report[e]
        if a == RENEW:
            _renew(s, g, e, sets, which[e])
        elif a == NOTHING or m["over"]:
            over[e] = m["over"]
            continue
        else:
            if m["first"]:
                m["first"] = 0  # what came before the first choice counts to the first interval
            else:
                z["rows"] = z["slow"] = z["present"] = 0.0
            z["placed"] = z["penalty"] = z["mean"] = 0.0
            if not (0 <= a < M * P and _place(s, g, e, a // P, a % P)):
                _pass(s, g, e)
        some = _mask(s, g, e)
        while not some and m["ask_always"] == 0 and not _is_over(s, g, e):
            _pass(s, g, e)
            some = _mask(s, g, e)
        m["over"] = _is_over(s, g, e)
        z["over"], over[e] = m["over"], m["over"]
        more += 1 - over[e]
    return more
