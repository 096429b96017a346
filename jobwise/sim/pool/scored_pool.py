"""List scheduling on a processor pool, compiled whole, for orders that change with time (WFP3, UNICEF, LXF, random) or
with what has ended (log-linear ones with history); `suits` says which.

Every score changes at every event, so an order is never kept: the queue is items side by side in memory, in no order,
and a pass looks for the smallest score. It is made only where something fits; of those behind the reservation only the
ones that may start are compared.

An item stands for all waiting jobs of its class (`alike.py`): jobs that never swap, and start one after the other. It is the
first of them; when it starts the next takes its place, scored by what was known when the pass began. RICC's queue of 38,000
jobs is 124 items. A job that has run before, or that enters behind a later one, is an item of its own.

The pass is put into the loop (`inlined`): left to the compiler it sometimes was not, and each call then handed over two hundred
numbers, which doubled the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import PAUSED, QUEUED, event_dtype
from jobwise.sim import events
from jobwise.sim.kernel import OVER, advance
from jobwise.sim.lists import easy, ranked
from jobwise.sim.lists.list_pass import ACTUAL, EASY, EASY_SJBF, NONE, PREDICTED, Rule
from jobwise.sim.lists.orders import LINEAR, STATIC, WAITING, Order, begin, kind, score, uniform
from jobwise.sim.memory.groups import NO_MEMORY, Memory
from jobwise.sim.memory.loglinear import linear
from jobwise.sim.memory.memory import SHORT, expect, forecast, note_advance, run_of
from jobwise.sim.pool import capped, promise, promised_pass, trials
from jobwise.sim.pool.alike import NOBODY, NONE_ALIKE
from jobwise.sim.pool.items import (
    FREE,
    ITEMS,
    WAITED,
    before,
    by_row,
    end_of,
    enqueue,
    item_dtype,
    launch,
    need,
    put,
    reachable,
    trial_dtype,
)
from jobwise.sim.pool.pool import put_running
from jobwise.sim.power import is_held, may_draw
from jobwise.sim.rates import expected
from jobwise.sim.state import ENTERED, LEFT, State


class ScoredPool(NamedTuple):
    """The scheduler of one simulation of a pool: its queue by scores."""

    item: np.ndarray  # [J + 1] of item_dtype; the first count[ITEMS] are the queue, in no order
    count: np.ndarray  # type: ignore[assignment] # [3] items; and at the begin of the last pass jobs that waited, free processors
    alike: np.ndarray  # [J] i4 the class of each row; empty: each is one of its own
    last: np.ndarray  # [C] i4 of each class the last row that waits in it; NOBODY
    after: np.ndarray  # [J] i4 of each row that waits the next one of its class; NOBODY
    running: ranked.Blocks  # by estimated end
    weights: np.ndarray  # [F] of a log-linear order; else empty
    memory: Memory  # how long jobs ran; with a promise or a lane, forecasts
    news: np.ndarray  # [2 J] of event_dtype: room for the events of an instant, of a promise
    promise: promise.Promise  # the shadow of a promise, and the express lane
    trial: np.ndarray  # [1] of trial_dtype: trial runs
    is_trial: np.ndarray  # [J] i1 of each row, does it run in a trial? [0] without trial runs
    displaceable: np.ndarray  # [LEVELS] processors of trial runs that make room for a job that was begun so often
    node: np.ndarray  # an empty placement
    amount: np.ndarray


def scheduler(
    s: State,
    e: int,
    weights: np.ndarray | None = None,
    memory: Memory | None = None,
    promised: promise.Promise | None = None,
    alike: np.ndarray = NONE_ALIKE,
    quantum: float = 0.0,
    kept: float = 0.0,
) -> ScoredPool:
    """Return the scheduler's memory for simulation e. `weights` [F] of a log-linear order; `memory` of the jobs, where it is
    needed; `promised`: the state of start deadlines; `alike` [J]: classes of jobs that never swap. `quantum`: s for which a
    first trial run is left alone (0: there are none); `kept`: share of the processors that starts leave to trial runs."""
    J, total = int(s.sims[e]["jobs"]), int(s.nodes[e, 0]["capacity"][0])
    running = ranked.build(min(J, total))
    weights = np.empty(0) if weights is None else weights
    item, count = np.empty(J + 1, item_dtype), np.zeros(3, np.int64)
    last, after = np.full(alike.max(initial=-1) + 1, NOBODY, np.int32), np.full(len(alike), NOBODY, np.int32)
    place = np.empty(0, np.int32), np.empty((0, 1), np.int64)
    news = np.empty(2 * J if promised else 0, event_dtype)
    queue = item, count, alike, last, after
    trial = np.zeros(1, trial_dtype)
    trial["quantum"], trial["kept"] = quantum, int(kept * total)
    tried = trial, np.zeros(J if quantum else 0, np.int8), np.zeros(trials.LEVELS, np.int64)
    return ScoredPool(*queue, running, weights, memory or NO_MEMORY, news, promised or promise.NOTHING, *tried, *place)


@inlined
def _score(s, e, b, rule):
    """Score the queue as it stands now."""
    b.count[WAITED], b.count[FREE] = s.sims[e]["queued"] + b.trial[0]["count"], reachable(s, e, b)
    for i in range(b.count[ITEMS]):
        _score_item(s, e, b, rule, i)
    if b.promise.memory[0]["on"]:
        _promised(s, e, b)
    if rule.shift > 0.0:
        _hold(s, e, b, rule)


@kernel
def _hold(s, e, b, rule):
    """Hold the jobs that are cheaper later, none for longer than it asks to run (short jobs save little, and their slowdown
    pays for it), but those that a guard or a deadline puts first."""
    for i in range(b.count[ITEMS]):
        x = b.item[i]
        urgent = x["plain"] <= promise.URGENT if b.promise.memory[0]["on"] else x["score"] == -np.inf
        if not urgent and is_held(s, e, x["row"], x["seen"], min(rule.shift, x["est"])):
            x["score"] = np.inf


@inlined
def _score_item(s, e, b, rule, i):
    """Score item i by what was known when the pass began; guarded jobs get -inf, so that they go first, by submit."""
    sim, v, x = s.sims[e], b.weights, b.item[i]
    now, w = sim["now"], sim["now"] - x["submit"]
    x["seen"] = x["est"]
    if rule.estimate == ACTUAL:
        x["seen"] = max(s.truth[e, x["row"]]["runtime"], 1.0)
    elif rule.estimate == PREDICTED:
        x["seen"] = max(expect(b.memory, x["key"], x["user"], x["est"])[0] * x["est"], 1.0)
    if easy.overdue(now, x["submit"], rule.guard):
        x["score"] = -np.inf
    elif rule.order == Order.RANDOM:
        x["score"] = uniform(sim["seed"], now, x["row"])
    elif rule.order == LINEAR:
        r, n = x["est"], np.float64(x["size"])
        ratio, short, log, count = expect(b.memory, x["key"], x["user"], r)
        if rule.estimate == ACTUAL:
            run_ = x["seen"]
            ratio, short, log = min(run_ / r, 1.0), SHORT / max(run_, SHORT), np.log(max(run_, SHORT) / max(r, SHORT))
        logs = x["log_est"], x["log_size"]
        machine = np.float64(b.count[WAITED]), np.float64(b.count[FREE]), np.float64(s.nodes[e, 0]["capacity"][0])
        x["score"] = linear(v, (ratio, short, log, count), logs, (r, n, w), machine)
    else:
        s_ = begin(rule.order, x["submit"], sim["origin"])
        x["score"] = score(rule.order, s_, w, x["seen"], np.float64(x["size"]), 0.0)


@kernel
def _promised(s, e, b):
    """Find who of the scored queue is express, and who is urgent."""
    promise.look(b.promise, b.memory)
    by_row(b.item, b.count[ITEMS])
    for i in range(b.count[ITEMS]):
        x = b.item[i]
        x["plain"] = x["score"]
        if x["score"] > -np.inf:
            forecast(b.memory, b.memory.of[x["row"]], s.sims[e]["now"])
            x["run"] = max(run_of(b.memory, x["row"]), 1.0)
            x["score"] = promise.express(b.promise, b.memory, x["row"], x["size"], x["plain"])
    if b.promise.memory[0]["slack"] < np.inf:
        promised_pass.look(s, e, b)


@kernel
def _first(item, count):
    best = 0
    for i in range(1, count):
        if before(item[i], item[i]["score"], item[best], item[best]["score"]):
            best = i
    return best


@kernel
def _next(s, e, b, sjbf, now, shadow, extra, more):
    """Index of the first in order that may start beside or before the reservation; -1 if none."""
    item, best, best_key = b.item, -1, 0.0
    free = reachable(s, e, b)
    for i in range(b.count[ITEMS]):
        x = item[i]
        if (
            x["score"] == np.inf
            or need(s, e, b, x) > free
            or not easy.may_start(x["size"], end_of(x, now), free, shadow, extra)
        ):
            continue
        if capped.may_start(s, e, x["row"], end_of(x, now), shadow, more):
            key = x["seen"] if sjbf and x["score"] > -np.inf else x["score"]
            if best < 0 or before(x, key, item[best], best_key):
                best, best_key = i, key
    return best


@inlined
def _pass(s, e, b, rule):
    smallest = ranked.ALL
    for i in range(b.count[ITEMS]):
        smallest = min(smallest, b.item[i]["size"])
    if smallest > reachable(s, e, b):
        return
    _score(s, e, b, rule)
    _start(s, e, b, rule)
    if b.trial[0]["quantum"] > 0.0:
        _try(s, e, b, rule)


@inlined
def _start(s, e, b, rule):
    """Start the jobs that the scores, the backfilling and the start deadlines allow."""
    now = s.sims[e]["now"]
    if b.promise.memory[0]["on"] and b.promise.memory[0]["slack"] < np.inf:
        promised_pass.promised_pass(s, e, b, rule)
        return
    shadow, extra, more, blocked, head = np.inf, np.int64(0), np.int64(0), False, np.int32(-1)
    while b.count[ITEMS] > 0:
        if not blocked:
            i = _first(b.item, b.count[ITEMS])
            if b.item[i]["score"] == np.inf:  # it is held for a cheaper hour, and so are all
                return
            n = need(s, e, b, b.item[i])
            if n > reachable(s, e, b) or not may_draw(s, e, b.item[i]["row"], b.item[i]["est"]):
                if rule.backfill == NONE:
                    return
                head, blocked = b.item[i]["row"], True
                shadow, extra, more = capped.reserve(s, e, b.running, head, n, reachable(s, e, b))
                capped.keep(s, e, head, shadow, 1)
                continue
        else:
            i = _next(s, e, b, rule.backfill == EASY_SJBF, now, shadow, extra, more)
            if i < 0:
                break
            end = end_of(b.item[i], now)
            extra = easy.charge(b.item[i]["size"], end, shadow, extra)
            more = capped.charge(s, e, b.item[i]["row"], end, shadow, more)
        following = launch(s, e, b, i)
        if following != NOBODY:
            _follow(s, e, b, rule, following)
    if blocked:
        capped.keep(s, e, head, shadow, -1)


@kernel
def _try(s, e, b, rule):
    """Begin trial runs in what this pass has left idle."""
    i = trials.choose(s, e, b)
    while i >= 0:
        following = trials.begin(s, e, b, i)
        if following != NOBODY:
            _follow(s, e, b, rule, following)
        i = trials.choose(s, e, b)


@kernel
def _follow(s, e, b, rule, j):
    """Make job j the item of its class, whose first job has started in this pass."""
    put(s, e, b, j)
    _score_item(s, e, b, rule, b.count[ITEMS] - 1)


@kernel
def resume(s, e, b):
    """Put what waits and runs into a fresh scheduler."""
    for j in range(s.sims[e]["next"]):
        if s.jobs[e, j]["status"] == QUEUED or s.jobs[e, j]["status"] == PAUSED:
            enqueue(s, e, b, j)
    put_running(s, e, b.running)


@inlined
def _news(s, e, b):
    """Take note of what has ended and what has arrived."""
    sim = s.sims[e]
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        if len(b.is_trial) > 0 and b.is_trial[j]:
            trials.ended(s, e, b, j)
        else:
            ranked.remove(b.running, s.jobs[e, j]["due"], j)
    if len(b.memory.of) > 0:
        note_advance(b.memory, s, e)
    for i in range(sim["entered"]):
        enqueue(s, e, b, s.lists[e, ENTERED, i])
    if b.promise.memory[0]["on"]:
        n = events.at_advance(s, e, 0, 0, b.news)
        promise.note(b.promise, b.memory, s.jobs[e], b.news[:n], sim["now"])


@kernel
def run(s, e, b, rule, steps):
    """Run simulation e for up to `steps` instants of choice. True while there is more to do."""
    for _ in range(steps):
        if advance(s, e, np.inf) == OVER:
            return False
        _news(s, e, b)
        if b.count[ITEMS] > 0 and reachable(s, e, b) > 0:
            _pass(s, e, b, rule)
    return True


@kernel
def plan(s, e, b, rule, row, score, starts):
    """One pass over jobs row[Q] with these scores, where simulation e stands at an instant and `b` is fresh; not `starts`: only
    who is express and who is urgent. Who starts is found in `s`."""
    put_running(s, e, b.running)
    for i in range(len(row)):
        x, job = b.item[i], s.jobs[e, row[i]]
        x["row"], x["size"], x["submit"] = row[i], job["request"][0], job["submit"]
        x["est"] = x["seen"] = expected(job)
        x["began"] = np.nan
        x["score"] = -np.inf if easy.overdue(s.sims[e]["now"], x["submit"], rule.guard) else score[i]
    b.count[ITEMS] = len(row)
    _promised(s, e, b)
    if starts:
        _start(s, e, b, rule)


def suits(rule: Rule) -> bool:
    """Does this loop know the scheduler? (It knows the static orders, too, but `pool.py` is faster at them.)"""
    known = rule.order == LINEAR or kind(rule.order) in (STATIC, WAITING)
    return known and rule.backfill in (NONE, EASY, EASY_SJBF) and not (rule.commit or rule.reserve)
