"""List scheduling on a processor pool, compiled whole, for orders that do not change with time.

The same decisions as the general loop (`list_loop.py`), made only where something can start:

* The queue is a list sorted by rank, the running jobs one sorted by estimated end (`ranked.py`).
* While nothing has ended and the head is the same, its reservation is the same: an arrival can only start by itself.
  (A backfilled job ends by the shadow time or fits beside the reservation, so neither it nor a later look changes that.)
* With a guard, a job that has waited too long gets its row as rank; all other ranks are larger.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import PAUSED, QUEUED
from jobwise.sim.kernel import CHOICE, advance, start
from jobwise.sim.lists import easy, ranked
from jobwise.sim.lists.orders import Order, score_rows
from jobwise.sim.pool import capped
from jobwise.sim.power import may_draw
from jobwise.sim.rates import expected
from jobwise.sim.state import ENTERED, HEAP, LEFT, State, Tables, allocate

memory_dtype = np.dtype(
    [
        ("easy", "i1"),
        ("own_order", "i1"),  # backfilling has an order of its own (EASY-SJBF)
        ("guard", "f8"),  # s; inf without
        ("guarded", "i8"),  # rows before this one have passed the guard
        ("head", "i8"),  # the blocked head's row; -1 none
        ("shadow", "f8"),
        ("extra", "i8"),
        ("more", "i8"),  # mW that are left beside the head then
    ],
    align=True,
)


class PoolScheduler(NamedTuple):
    """The scheduler of one simulation of a pool: its queue by rank."""

    memory: np.ndarray  # [1] of memory_dtype
    rank: np.ndarray  # [J] place of each row in the order
    second: np.ndarray  # [J] its place in the order of backfilling (the same, unless memory.own_order)
    queue: ranked.Blocks
    backfill: ranked.Blocks
    running: ranked.Blocks
    node: np.ndarray  # an empty placement
    amount: np.ndarray


def scheduler(
    s: State, e: int, order: np.ndarray | None, backfill_order: np.ndarray | None, easy: bool, guard: float
) -> PoolScheduler:
    """The scheduler's memory for simulation e: `order` [J] rows, first to start first (None: by row); `guard` s (inf: none)."""
    J, total = int(s.sims[e]["jobs"]), int(s.nodes[e, 0]["capacity"][0])
    memory = np.zeros(1, memory_dtype)
    memory["easy"], memory["guard"], memory["head"] = easy, guard, -1
    classes = total.bit_length() + 1
    queue = backfill = ranked.build(J, classes)
    rank = second = _ranks(order, J)
    if backfill_order is not None and easy:
        memory["own_order"] = 1
        backfill, second = ranked.build(J, classes), _ranks(backfill_order, J)
    running = ranked.build(min(J, total))
    return PoolScheduler(memory, rank, second, queue, backfill, running, np.empty(0, np.int32), np.empty((0, 1), np.int64))


def _ranks(order: np.ndarray | None, count: int) -> np.ndarray:
    """Ranks J .. 2J - 1 of the rows; below J are the places of guarded jobs."""
    rank = np.arange(count, 2 * count, dtype=np.int32)
    if order is not None:
        rank[order] = np.arange(count, 2 * count, dtype=np.int32)
    return rank


def static_order(code: int, s: State, e: int) -> np.ndarray | None:
    """All rows [J] in the static order `code`; None: as they are."""
    if code == Order.FCFS:
        return None
    one = s.sims[e]
    rows = np.arange(one["jobs"], dtype=np.int32)
    out = np.empty(len(rows))
    score_rows(code, 0.0, one["origin"], one["seed"], s.jobs[e], rows, out)
    bits = len(rows).bit_length()
    if out.min() >= 0 and out.max() < 2 ** (62 - bits) and (out == np.floor(out)).all():
        # whole scores, as most are: (score, row) in one number sorts three times as fast as a stable argsort
        return np.sort(out.astype(np.int64) << bits | rows) & ((1 << bits) - 1)
    return np.argsort(out, kind="stable")


@inlined
def _enqueue(s, e, pool, j):
    n, est = s.jobs[e, j]["request"][0], expected(s.jobs[e, j])
    ranked.insert(pool.queue, pool.rank[j], j, n, est)
    if pool.memory[0]["own_order"]:
        ranked.insert(pool.backfill, pool.second[j], j, n, est)


@inlined
def _dequeue(pool, j):
    ranked.remove(pool.queue, pool.rank[j], j)
    if pool.memory[0]["own_order"]:
        ranked.remove(pool.backfill, pool.second[j], j)


@inlined
def _run(s, e, pool, j, n):
    start(s, e, j, 1.0, pool.node, pool.amount, 0)
    ranked.insert(pool.running, s.jobs[e, j]["due"], j, n, s.jobs[e, j]["draw"])


@kernel
def _guard(s, e, pool):
    """Give the jobs that have waited longer than the guard their places before all others."""
    m = pool.memory[0]
    while m["guarded"] < s.sims[e]["next"]:
        j = m["guarded"]
        if not easy.overdue(s.sims[e]["now"], s.jobs[e, j]["submit"], m["guard"]):
            return
        m["guarded"] += 1
        waiting = s.jobs[e, j]["status"] == QUEUED or s.jobs[e, j]["status"] == PAUSED
        if waiting:
            _dequeue(pool, j)
        pool.rank[j] = pool.second[j] = j
        if waiting:
            _enqueue(s, e, pool, j)


@inlined
def _backfill(s, e, pool):
    """Start, in order, what fits now and does not delay the head."""
    m, q, now = pool.memory[0], pool.backfill, s.sims[e]["now"]
    at = np.int64(0)
    while True:
        free = capped.reachable(s, e, s.nodes[e, 0]["free"][0])
        # the rule is now + est <= T; est <= T - now may round differently, so look a little further and test again
        slack = m["shadow"] - now
        at = ranked.find(q, at, min(free, m["extra"]), free, slack + 1e-9 * (abs(slack) + now))
        if at < 0:
            return
        x = q.entry[q.order[at // ranked.BLOCK], at % ranked.BLOCK]
        j, n, end = x["row"], np.int64(x["size"]), now + x["est"]
        beside = easy.may_start(n, end, free, m["shadow"], m["extra"])
        if not beside or not capped.may_start(s, e, j, end, m["shadow"], m["more"]):
            at += 1
            continue
        m["extra"] = easy.charge(n, end, m["shadow"], m["extra"])
        m["more"] = capped.charge(s, e, j, end, m["shadow"], m["more"])
        _dequeue(pool, j)
        _run(s, e, pool, j, n)


@inlined
def _arrival(s, e, pool):
    """The head and its reservation are as they were: only what has just arrived can start. Put it in the queue if not."""
    m, now, j = pool.memory[0], s.sims[e]["now"], s.lists[e, ENTERED, 0]
    n, end = s.jobs[e, j]["request"][0], now + expected(s.jobs[e, j])
    beside = easy.may_start(n, end, s.nodes[e, 0]["free"][0], m["shadow"], m["extra"])
    if beside:
        capped.keep(s, e, m["head"], m["shadow"], 1)
        beside = capped.may_start(s, e, j, end, m["shadow"], m["more"])
        capped.keep(s, e, m["head"], m["shadow"], -1)
    if beside:
        m["extra"] = easy.charge(n, end, m["shadow"], m["extra"])
        m["more"] = capped.charge(s, e, j, end, m["shadow"], m["more"])
        _run(s, e, pool, j, n)
    else:
        _enqueue(s, e, pool, j)


@inlined
def _pass(s, e, pool):
    m, q = pool.memory[0], pool.queue
    while q.count[1] > 0:
        x = q.entry[q.order[0], 0]
        j, n = x["row"], np.int64(x["size"])
        if n > s.nodes[e, 0]["free"][0] or not may_draw(s, e, j, x["est"]):
            break
        _dequeue(pool, j)
        _run(s, e, pool, j, n)
    if q.count[1] == 0:
        m["head"] = -1
        return
    m["head"] = j
    if m["easy"]:
        m["shadow"], m["extra"], m["more"] = capped.reserve(s, e, pool.running, j, n, s.nodes[e, 0]["free"][0])
        if s.nodes[e, 0]["free"][0] > 0:
            capped.keep(s, e, j, m["shadow"], 1)
            _backfill(s, e, pool)
            capped.keep(s, e, j, m["shadow"], -1)


@kernel
def run(s, e, pool, steps, until=np.inf):
    """Run simulation e for up to `steps` instants of choice, at most to time `until`. True while there is more by then."""
    m, sim = pool.memory[0], s.sims[e]
    for _ in range(steps):
        if advance(s, e, until) != CHOICE:
            return False
        for i in range(sim["left"]):
            j = s.lists[e, LEFT, i]
            ranked.remove(pool.running, s.jobs[e, j]["due"], j)
        same = sim["left"] == 0 and s.outages.shape[1] == 0 and not sim["stepped"] and m["head"] >= 0
        if m["guard"] < np.inf:
            _guard(s, e, pool)
            same = same and pool.queue.entry[pool.queue.order[0], 0]["row"] == m["head"]
        if same and sim["entered"] == 1 and pool.rank[s.lists[e, ENTERED, 0]] > pool.rank[m["head"]]:
            if not m["easy"]:
                _enqueue(s, e, pool, s.lists[e, ENTERED, 0])
                continue
            if m["shadow"] > sim["now"]:
                _arrival(s, e, pool)
                continue
        for i in range(sim["entered"]):
            _enqueue(s, e, pool, s.lists[e, ENTERED, i])
        if same and not m["easy"] and pool.queue.entry[pool.queue.order[0], 0]["row"] == m["head"]:
            continue
        _pass(s, e, pool)
    return True


@kernel
def resume(s, e, pool):
    """Put what waits and runs into a fresh scheduler, in the order of rows."""
    for j in range(s.sims[e]["next"]):
        if s.jobs[e, j]["status"] == QUEUED or s.jobs[e, j]["status"] == PAUSED:
            _enqueue(s, e, pool, j)
    put_running(s, e, pool.running)


@kernel
def put_running(s, e, blocks):
    """Put the running jobs of simulation e into an empty list, by estimated end."""
    for i in range(s.sims[e]["running"]):
        j = s.lists[e, HEAP, i]
        ranked.insert(blocks, s.jobs[e, j]["due"], j, s.jobs[e, j]["request"][0], s.jobs[e, j]["draw"])


def replay(s: State, e: int) -> None:
    """Simulation e to its end under first-come, first-served with EASY: the yardstick for waits."""
    p = scheduler(s, e, None, None, True, np.inf)
    while run(s, e, p, 1 << 40):
        pass


def waits(w: Tables) -> np.ndarray:
    """[J] s that the jobs of a workload on a pool would wait under first-come, first-served with EASY."""
    jobs = w.jobs.copy()
    jobs["unmet"] = 0
    alone = replace(w, jobs=jobs, edges=w.edges[:0])  # type: ignore[type-var]
    s = allocate([alone], replace(w.cluster, outages=w.cluster.outages[:0]))
    replay(s, 0)
    return s.jobs[0]["start"] - s.jobs[0]["submit"]
