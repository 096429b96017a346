"""Preemption: a job that does not fit stops running jobs of partitions of a lower tier, or of QOS that its own may stop.

After Slurm's select/cons_tres and preempt/ plugins: candidates are taken away one by one, those of the lowest priority and
fewest nodes first (or the youngest), until the job fits; then the list is tried again in a better order, twice at most. Those
that are on the chosen nodes are stopped. The job itself starts in a later pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.sim.kernel import finish_now, put_back
from jobwise.sim.site.cells import give_back
from jobwise.sim.site.fair_share import used
from jobwise.sim.site.multifactor import price
from jobwise.sim.site.node_choice import of_types, pick
from jobwise.sim.site.node_room import enough, measure, of_gpus, rank, settle
from jobwise.sim.site.node_sets import NOTHING, add_all, next_in
from jobwise.sim.site.slurm_ends import as_now, take_away
from jobwise.sim.site.slurm_limits import count
from jobwise.sim.site.slurm_time import floored, whole
from jobwise.sim.state import HEAP
from jobwise.site import BY_PARTITION, BY_QOS, CANCELLED, STAYS, Site, preempt_dtype

PATIENCE = 10  # s beyond KillWait (MessageTimeout): a job that has stopped others stops no more before
SWEEP = 30.0  # s: so often the controller looks for jobs that are over their time, the grace time among it
CLEARED = 0.035  # s from a stop to the main pass that the nodes ask for when they have cleared up
TIMES = 3  # the list of candidates is gone through


class Preemption(NamedTuple):
    """The jobs that may stop others, and those that are being stopped."""

    rule: np.ndarray  # [P or Q] of preempt_dtype: how jobs of a partition or QOS are stopped
    stops: np.ndarray  # [P or Q, P or Q] 1: jobs of the first may stop those of the second
    level: np.ndarray  # [Q] how long a chain of QOS that stop each other is below: those come first in the queue
    not_before: np.ndarray  # [J] s: a requeued job waits until then
    stop_at: np.ndarray  # [J] s when a job in its grace time is stopped; inf: it is not
    stopped: np.ndarray  # [J] s when a job has stopped others last
    row: np.ndarray  # [J] candidates, in order
    gone: np.ndarray  # [J] 1: it is one of them
    size: np.ndarray  # [1] how many they are
    next: np.ndarray  # [3] s: the first stop_at, the last not_before, when a main pass follows a stop


def preemption(site: Site, jobs: int, sets: np.ndarray) -> Preemption:
    """Return the tables of a site for `jobs` jobs; `sets` [M, W]: its node sets."""
    by = int(site.settings["preempt"][0])
    rule = site.partition_preempt if by == BY_PARTITION else site.qos_preempt if by == BY_QOS else np.zeros(0, preempt_dtype)
    stops = site.preempts.copy()
    if by == BY_PARTITION:
        tier, own = site.partitions["tier"], sets[site.partitions["set"]]
        meet = (own[:, None] & own[None]).any(axis=2)
        stops = ((tier[:, None] > tier[None]) & meet).astype(np.uint8)
    if by:
        stops[:, rule["mode"] == STAYS] = 0
    return Preemption(
        rule=rule,
        stops=stops if by else np.zeros((0, 0), np.uint8),
        level=_levels(site.preempts) if by == BY_QOS else np.zeros(len(site.qos), np.int64),
        not_before=np.zeros(jobs),
        stop_at=np.full(jobs, np.inf),
        stopped=np.full(jobs, -np.inf),
        row=np.zeros(jobs, np.int64),
        gone=np.zeros(jobs, np.uint8),
        size=np.zeros(1, np.int64),
        next=np.array([np.inf, -np.inf, np.inf]),
    )


def _levels(preempts: np.ndarray) -> np.ndarray:
    """[Q] the longest chain of QOS below each; QOS that stop each other in a circle stay as they are."""
    level = np.zeros(len(preempts), np.int64)
    for _ in range(len(preempts)):
        level = np.array([max((level[k] + 1 for k in np.flatnonzero(row)), default=0) for row in preempts], np.int64)
    return np.minimum(level, len(preempts))


@inlined
def _kind(slurm, job, partition):
    """The row of a job's rules: its partition's, or its QOS's; -1: it has none."""
    by = slurm.site.settings[0]["preempt"]
    return partition if by == BY_PARTITION else job["queue"] if by == BY_QOS and job["queue"] < len(slurm.site.qos) else -1


@kernel
def find_candidates(s, e, slurm, j, partition, now):
    """Note the running jobs that job j may stop, in the order in which they are tried; how many."""
    x, n = slurm.ledger.preempt, 0
    for i in range(x.size[0]):
        x.gone[x.row[i]] = 0
    x.size[0] = 0
    mine = _kind(slurm, s.jobs[e, j], partition) if len(x.stops) else -1
    if mine < 0 or not x.stops[mine].any():
        return 0
    for i in range(s.sims[e]["running"]):
        r = s.lists[e, HEAP, i]
        kind = _kind(slurm, s.jobs[e, r], slurm.ledger.place[r])
        if kind < 0 or not x.stops[mine, kind] or now - s.jobs[e, r]["start"] < x.rule[kind]["exempt"]:
            continue
        if slurm.site.ask[s.jobs[e, r]["ask"]]["het"] > 0:
            continue
        k = n
        while k > 0 and _sooner(s, e, slurm, r, x.row[k - 1]):
            x.row[k] = x.row[k - 1]
            k -= 1
        x.row[k] = r
        n += 1
    for i in range(n):
        x.gone[x.row[i]] = 1
    x.size[0] = n
    return n


@inlined
def _rank(s, e, slurm, r):
    """The priority of a candidate: of its partition's tier or its QOS, then its number of nodes."""
    job = s.jobs[e, r]
    by_qos = slurm.site.settings[0]["preempt"] == BY_QOS
    high = slurm.site.qos[job["queue"]]["priority"] if by_qos else slurm.site.partition[slurm.ledger.place[r]]["tier"]
    return min(high, 65_535.0) * 65_536.0 + slurm.ledger.counted[r, 4]


@inlined
def _sooner(s, e, slurm, r, other):
    """Is candidate r tried before another one?"""
    if slurm.site.settings[0]["youngest"]:
        a, b = -s.jobs[e, r]["start"], -s.jobs[e, other]["start"]
    else:
        a, b = _rank(s, e, slurm, r), _rank(s, e, slurm, other)
    return a < b or (a == b and slurm.ledger.turn[r] < slurm.ledger.turn[other])


@kernel
def _tested(s, e, slurm, ask, mask, n):
    """(how many of the first n candidates have to go that the job fits on nodes of the mask, entries of slurm.work.node); 0, 0:
    it never fits."""
    work = slurm.work
    settle(slurm)
    of_types(slurm, ask, mask)
    if of_gpus(ask):
        rank(ask, work.typed, work.cells, work.cells.free, work.room)
    measure(ask, work.typed, work.cells, work.room)
    for i in range(n):
        take_away(slurm, ask, slurm.ledger.preempt.row[i])
        if of_gpus(ask):
            rank(ask, work.typed, work.cells, work.later, work.room)
        if enough(ask, work.room):
            k = pick(ask, work.cells, work.later, slurm.site.weight, work.room, work.node, work.more)
            if k > 0:
                as_now(slurm)
                return i + 1, k
    as_now(slurm)
    return 0, 0


@kernel
def _overlap(slurm, r):
    """Return on how many of the nodes slurm.work.chosen job r is."""
    n, here = 0, slurm.work.part[r]
    while here >= 0:
        first, until = np.int64(slurm.work.parts[here]["node"]), np.int64(slurm.work.parts[here]["node"])
        until += slurm.work.parts[here]["more"] + 1
        i = next_in(slurm.work.chosen, first, until)
        while i < until:
            n += 1
            i = next_in(slurm.work.chosen, i + 1, until)
        here = slurm.work.parts[here]["next"]
    return n


@inlined
def _note_chosen(slurm, k):
    for x in range(len(slurm.work.chosen)):
        slurm.work.chosen[x] = NOTHING
    for i in range(k):
        first = np.int64(slurm.work.node[i])
        add_all(slurm.work.chosen, first, first + slurm.work.more[i] + 1)


@allocating
def make_room(s, e, slurm, j, partition, mask, now):
    """Stop the running jobs that keep job j from starting on nodes of the mask. Returns whether there are any; some may
    have a grace time."""
    x, ask = slurm.ledger.preempt, slurm.site.ask[s.jobs[e, j]["ask"]]
    n = find_candidates(s, e, slurm, j, partition, now)
    if n == 0:
        return False
    last, k, times = 0, 0, 0
    while True:
        last, k = _tested(s, e, slurm, ask, mask, n)
        if k == 0:
            return False
        _note_chosen(slurm, k)
        times += 1
        if times >= TIMES or n <= times:
            break
        _reorder(slurm, x.row, last)
    if now - x.stopped[j] <= slurm.site.settings[0]["kill_wait"] + PATIENCE:
        return True
    for i in range(last):
        r = x.row[i]
        if _overlap(slurm, r) > 0:
            x.stopped[j] = now
            kind = _kind(slurm, s.jobs[e, r], slurm.ledger.place[r])
            x.stop_at[r] = min(x.stop_at[r], now + x.rule[kind]["grace"])
            if x.stop_at[r] <= now:
                stop(s, e, slurm, r, now)
            else:
                x.next[0] = min(x.next[0], _sweep(slurm, x.stop_at[r]))
    return True


@allocating
def _reorder(slurm, row, last):
    """The candidate with which the job fitted comes first, then the others before it by how many chosen nodes they are on."""
    first, use = row[last - 1], np.zeros(max(last - 1, 0))
    before = row[: last - 1].copy()
    for i in range(last - 1):
        use[i] = -_overlap(slurm, before[i])
    order = np.argsort(use, kind="mergesort")
    row[0] = first
    for i in range(last - 1):
        row[i + 1] = before[order[i]]


@kernel
def stop(s, e, slurm, r, now):
    """Stop running job r, as its partition or QOS has it."""
    job = s.jobs[e, r]
    mode = slurm.ledger.preempt.rule[_kind(slurm, job, slurm.ledger.place[r])]["mode"]
    put_back_or_end(s, e, slurm, r, now, mode != CANCELLED and slurm.site.ask[job["ask"]]["once"] == 0)


@kernel
def put_back_or_end(s, e, slurm, r, now, again):
    """Stop running job r, which waits in the queue `again` or has ended."""
    x, job = slurm.ledger.preempt, s.jobs[e, r]
    used(s, e, slurm, r, now, slurm.ledger.counted[r, 1])
    count(slurm, r, job, slurm.ledger.place[r], slurm.ledger.counted[r], -1.0)
    here = slurm.work.part[r]
    while here >= 0:  # its nodes take no others before they have cleared up
        first = np.int64(slurm.work.parts[here]["node"])
        add_all(slurm.work.completing, first, first + slurm.work.parts[here]["more"] + 1)
        here = slurm.work.parts[here]["next"]
    give_back(slurm, r)
    x.stop_at[r], x.next[2] = np.inf, now + CLEARED
    if not again:
        finish_now(s, e, r)
    else:
        put_back(s, e, r)
        last, t = s.sims[e]["next"] - 1, whole(slurm, now)  # it stands behind all that came in seconds before this one
        while last > 0 and whole(slurm, s.jobs[e, last]["submit"]) >= t:
            last -= 1
        slurm.ledger.came[r] = slurm.ledger.turn[max(last, 0)] + 1.0 - 1.0 / (2.0 + t)
        x.not_before[r] = slurm.ledger.since[r] = whole(slurm, now + CLEARED) + slurm.site.settings[0]["requeue_delay"]
        x.next[1] = max(x.next[1], x.not_before[r])
        price(s, e, slurm, r, 0.0)
    slurm.ledger.clock[0]["news"], slurm.ledger.clock[0]["updated"] = 1, whole(slurm, now)


@inlined
def _sweep(slurm, t):
    """Return when the controller looks next, from t on, which jobs are over their time."""
    last = floored(slurm, t, SWEEP) if t < np.inf else np.inf
    return last if last >= t else last + SWEEP


@kernel
def end_grace(s, e, slurm, now):
    """Stop the jobs whose grace time is over."""
    x, i = slurm.ledger.preempt, 0
    x.next[0] = np.inf
    while i < s.sims[e]["running"]:
        r = s.lists[e, HEAP, i]
        if x.stop_at[r] <= now:
            stop(s, e, slurm, r, now)
            i = 0
            continue
        x.next[0] = min(x.next[0], _sweep(slurm, x.stop_at[r]))
        i += 1
