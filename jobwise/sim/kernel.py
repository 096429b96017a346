"""The kernel: the only functions that change the state of a simulation.

The life of a job, and the verb (or event) behind each arrow:

    FUTURE --arrival--> WAITING --parents done--> QUEUED --start--> RUNNING --completion--> DONE | FAILED
                                                  PAUSED --start-->    |
                                                    ^------preempt-----|   (fail: back to QUEUED, or FAILED, or stalled;
                                                                            put_back: to QUEUED; finish_now: to DONE)

Rules
* A running job has work `left` (s) and a `rate` (work per second); it ends when `left` is 0. A rigid job has rate 1.
  `finish` = now + left / rate is its key in the heap of completions. `fail` and `cancel` end jobs, too.
* Time moves only in `advance`: to the next completion, outage, arrival or due reservation, and with a tick on to the
  grid. At one instant: completions (of those that end together the one longest at its rate first, then by row), failures
  and repairs, the step of the cap, arrivals. Then the scheduler is asked, once.
* `free` of a node that is down is 0, so that no placement needs to look at `up`.
* RLScheduler decides after every single event, arrivals before completions: `single` reproduces that.
* Rows that joined the queue or stopped running in an advance are listed in `entered` and `left`, those that the scheduler
  started or paused before it in `acts`: schedulers keep their index of the queue and their memory up to date from them.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import DONE, FAILED, FUTURE, PAUSED, QUEUED, RUNNING, WAITING
from jobwise.sim.allocations import all_up, hold, on_node, release
from jobwise.sim.completions import sift, take_out
from jobwise.sim.power import add, busy_nodes, may_draw, next_step, take_nodes, to_step
from jobwise.sim.queued import act, enter, unqueue, wake
from jobwise.sim.rates import at_start, expected, finish, on_change, on_changes
from jobwise.sim.state import FAIL, HEAP, LEFT, RIGID, STALL

OVER, CHOICE, UNTIL = range(3)  # what advance returns

# ------------------------------------------------------------------ verbs: start, preempt, reserve, cancel, and the rate


@kernel
def share(s, e):
    """Give every running job its present rate: allocations have changed."""
    sim, heap, truth = s.sims[e], s.lists[e, HEAP], s.truth[e]
    sim["changed"] = 0
    on_changes(s, e)
    for i in range(sim["running"]):
        rate = on_change(s, e, heap[i])
        if abs(rate - truth[heap[i]]["rate"]) > 1e-12:
            _settle(s, e, heap[i])
            truth[heap[i]]["rate"] = rate
            truth[heap[i]]["finish"] = finish(sim, truth[heap[i]])
    for i in range(sim["running"]):
        sift(heap, truth, i + 1, i)


@inlined
def start(s, e, j, rate, node, amount, k):
    """Start queued or paused job j now on k nodes: node[k], amount[k, R] (k = 0 on a pool); `rate` is as it would be at its
    best place. Returns False, having changed nothing, where the job is not in the queue, its units are not free, or the cap
    forbids it.
    """
    sim, job, truth = s.sims[e], s.jobs[e, j], s.truth[e, j]
    if job["status"] != QUEUED and job["status"] != PAUSED:
        return False
    if not may_draw(s, e, j, expected(job)):
        return False
    if not hold(s, e, j, node, amount, k):
        return False
    now, woken = sim["now"], False
    if s.idles.shape[1] > 0:
        woken = busy_nodes(s, e) if s.slices.shape[1] == 1 else take_nodes(s, e, node, amount, k)
    unqueue(s, e, j)
    if job["reserved"] == sim["wake"]:
        wake(s, e)
    truth["pause"] = 0.0 if np.isnan(job["start"]) and job["restarts"] == 0 else sim["restart_cost"]
    if np.isnan(job["start"]):
        job["start"], truth["left"] = now, truth["runtime"]
    job["status"], job["reserved"], truth["saved"] = RUNNING, np.nan, truth["left"]
    job["due"] = now + expected(job)
    if woken:
        truth["pause"] += sim["boot"]
        job["due"] += sim["boot"]
    if s.steps.shape[1] > 0:
        add(s.steps[e], sim["step"], job["draw"], job["due"])
    truth["updated"], truth["rate"] = now, at_start(s, e, j, k, rate) if sim["rate_model"] != RIGID else rate
    truth["finish"] = finish(sim, truth)
    s.lists[e, HEAP, sim["running"]] = j
    sim["running"] += 1
    sift(s.lists[e, HEAP], s.truth[e], sim["running"], sim["running"] - 1)
    sim["changed"] = sim["shared"]
    act(s, e, j)
    return True


@inlined
def _settle(s, e, j):
    """Account the work done since the last change of rate."""
    truth, time = s.truth[e, j], s.sims[e]["now"] - s.truth[e, j]["updated"]
    paused = min(truth["pause"], time)
    truth["pause"] -= paused
    truth["left"] -= (time - paused) * truth["rate"]
    s.jobs[e, j]["ran"] += time
    truth["updated"] = s.sims[e]["now"]


@kernel
def set_rate(s, e, j, rate):
    """Change the speed of running job j from now on (work per second, >= 0; 0 stalls it). False if not running."""
    if s.jobs[e, j]["status"] != RUNNING:
        return False
    _settle(s, e, j)
    truth = s.truth[e, j]
    truth["rate"] = rate
    truth["finish"] = finish(s.sims[e], truth)
    sift(s.lists[e, HEAP], s.truth[e], s.sims[e]["running"], truth["heap"])
    return True


@inlined
def _stop(s, e, j):
    """Take running job j off the machine, its work accounted."""
    _settle(s, e, j)
    s.sims[e]["running"] -= 1
    take_out(s.lists[e, HEAP], s.truth[e], s.sims[e]["running"], j)
    release(s, e, j)
    if s.steps.shape[1] > 0:
        add(s.steps[e], s.sims[e]["step"], -s.jobs[e, j]["draw"], s.jobs[e, j]["due"])
    if s.idles.shape[1] > 0 and s.slices.shape[1] == 1:
        busy_nodes(s, e)
    s.sims[e]["changed"] = s.sims[e]["shared"]


@kernel
def preempt(s, e, j):
    """Pause running job j: its work is kept, its units are free, and it stands in the queue again. False if not running."""
    if s.jobs[e, j]["status"] != RUNNING:
        return False
    _stop(s, e, j)
    s.sims[e]["preemptions"] += 1
    enter(s, e, j, PAUSED)
    act(s, e, ~j)
    return True


@inlined
def _undo(s, e, j):
    """The work of job j, just stopped, is lost, but for what a pause has saved."""
    truth = s.truth[e, j]
    s.sims[e]["lost"] += (truth["saved"] - truth["left"]) * s.jobs[e, j]["request"][0]
    truth["left"] = truth["saved"]
    s.jobs[e, j]["ran"] = truth["runtime"] - truth["saved"]
    s.jobs[e, j]["restarts"] += 1


@kernel
def put_back(s, e, j):
    """Stop running job j: its work is lost, and it stands in the queue as if it had never started. False if not running."""
    if s.jobs[e, j]["status"] != RUNNING:
        return False
    _stop(s, e, j)
    _undo(s, e, j)
    s.jobs[e, j]["start"] = np.nan
    s.sims[e]["preemptions"] += 1
    enter(s, e, j, QUEUED)
    act(s, e, ~j)
    return True


@kernel
def finish_now(s, e, j):
    """End running job j now, however much work it has left. False if not running."""
    if s.jobs[e, j]["status"] != RUNNING:
        return False
    _stop(s, e, j)
    s.sims[e]["preemptions"] += 1
    _end(s, e, j, DONE)
    return True


@kernel
def reserve(s, e, j, at):
    """Reserve a start at time `at` for queued job j; advance will stop there. NaN cancels the reservation."""
    job = s.jobs[e, j]
    if job["status"] != QUEUED and job["status"] != PAUSED:
        return False
    before, job["reserved"] = job["reserved"], at
    if before == s.sims[e]["wake"]:
        wake(s, e)
    elif at > s.sims[e]["now"] and at < s.sims[e]["wake"]:
        s.sims[e]["wake"] = at
    return True


@kernel
def cancel(s, e, j):
    """Take queued job j off the queue for good: it has failed, unserved. False if not queued."""
    if s.jobs[e, j]["status"] != QUEUED:
        return False
    reserve(s, e, j, np.nan)
    unqueue(s, e, j)
    _end(s, e, j, FAILED)
    return True


# ------------------------------------------------------------------ completions, and children


@inlined
def _end(s, e, j, status):
    sim, job = s.sims[e], s.jobs[e, j]
    job["status"], job["end"] = status, sim["now"]
    sim["ended"] += 1
    if s.truth[e, j]["children"] == 0:
        return
    if status == DONE:
        for i in range(s.truth[e, j]["child"], s.truth[e, j]["child"] + s.truth[e, j]["children"]):
            child = s.jobs[e, s.child[e, i]]
            child["unmet"] -= 1
            if child["unmet"] == 0 and child["status"] == WAITING:
                enter(s, e, s.child[e, i], QUEUED)
        return
    top = np.int64(-1)  # a failed job takes its descendants with it; the stack runs through their queue links
    truth = s.truth[e]
    parent = np.int64(j)
    while parent >= 0:
        for i in range(truth[parent]["child"], truth[parent]["child"] + truth[parent]["children"]):
            c = s.child[e, i]
            if s.jobs[e, c]["status"] == FUTURE or s.jobs[e, c]["status"] == WAITING:
                s.jobs[e, c]["status"], s.jobs[e, c]["end"] = FAILED, sim["now"]
                sim["ended"] += 1
                truth[c]["next"] = top
                top = np.int64(c)
        parent = top
        if top >= 0:
            top = np.int64(truth[top]["next"])


@inlined
def _complete(s, e):
    """End the running jobs whose work is done by now."""
    sim = s.sims[e]
    while sim["running"] > 0:
        j = s.lists[e, HEAP, 0]
        if s.truth[e, j]["finish"] > sim["now"]:
            break
        _stop(s, e, j)
        s.truth[e, j]["left"] = 0.0
        s.lists[e, LEFT, sim["left"]] = j
        sim["left"] += 1
        _end(s, e, j, FAILED if s.truth[e, j]["fails"] else DONE)
        if sim["single"]:
            break


# ------------------------------------------------------------------ verbs: fail and repair


@kernel
def fail(s, e, node):
    """Take a node down now. Its jobs are requeued (work lost), failed, or stalled, by the simulation's setting."""
    sim = s.sims[e]
    if not s.nodes[e, node]["up"]:
        return
    first, n = sim["left"], sim["left"]
    for i in range(sim["running"]):
        if on_node(s, e, s.lists[e, HEAP, i], node):
            s.lists[e, LEFT, n] = s.lists[e, HEAP, i]
            n += 1
    for i in range(first + 1, n):  # victims in order of row
        j, k = s.lists[e, LEFT, i], i
        while k > first and s.lists[e, LEFT, k - 1] > j:
            s.lists[e, LEFT, k] = s.lists[e, LEFT, k - 1]
            k -= 1
        s.lists[e, LEFT, k] = j
    s.nodes[e, node]["up"] = 0
    for r in range(len(s.nodes[e, 0]["free"])):
        s.nodes[e, node]["free"][r] = 0
    for i in range(first, n):
        j = s.lists[e, LEFT, i]
        if sim["on_failure"] == STALL:
            if s.truth[e, j]["rate"] > 0.0 and not sim["shared"]:
                s.truth[e, j]["sigma"] = 1.0 / s.truth[e, j]["rate"]  # it goes on at this rate
            set_rate(s, e, j, 0.0)
            continue
        _stop(s, e, j)
        s.lists[e, LEFT, sim["left"]] = j
        sim["left"] += 1
        if sim["on_failure"] == FAIL:
            _end(s, e, j, FAILED)
        else:
            _undo(s, e, j)
            enter(s, e, j, QUEUED)


@kernel
def repair(s, e, node):
    """Bring a node back now; jobs stalled on it go on at the rate they had once all their nodes are up."""
    sim, R = s.sims[e], len(s.nodes[e, 0]["free"])
    if s.nodes[e, node]["up"]:
        return
    s.nodes[e, node]["up"] = 1
    for r in range(R):
        s.nodes[e, node]["free"][r] = s.nodes[e, node]["capacity"][r]
    for i in range(sim["running"]):
        j = s.lists[e, HEAP, i]
        if s.slices.shape[1] == 1:
            s.nodes[e, 0]["free"][0] -= s.jobs[e, j]["request"][0]
        at = s.jobs[e, j]["held"] if s.slices.shape[1] > 1 else -1
        while at >= 0:
            if s.slices[e, at]["node"] == node:
                for r in range(R):
                    s.nodes[e, node]["free"][r] -= s.slices[e, at]["amount"][r]
            at = s.slices[e, at]["next"]
    i = 0
    while i < sim["running"]:
        j = s.lists[e, HEAP, i]
        if s.truth[e, j]["rate"] == 0.0 and on_node(s, e, j, node) and all_up(s, e, j):
            set_rate(s, e, j, 1.0 / s.truth[e, j]["sigma"])
            i = -1  # the heap has changed: look again
        i += 1
    sim["changed"] = sim["shared"]


# ------------------------------------------------------------------ verb: advance


@inlined
def _next_event(s, e):
    sim = s.sims[e]
    t = sim["wake"]
    if sim["next"] < sim["jobs"]:
        t = min(t, s.jobs[e, sim["next"]]["submit"])
    if sim["running"] > 0:
        t = min(t, s.truth[e, s.lists[e, HEAP, 0]]["finish"])
    if sim["outage"] < s.outages.shape[1]:
        t = min(t, s.outages[e, sim["outage"]]["time"])
    if sim["queued"] > 0:
        t = min(t, next_step(s, e))
    return t


@inlined
def _instant(s, e):
    """Everything that is due now: completions, failures and repairs, arrivals."""
    sim = s.sims[e]
    now = sim["now"]
    if not (sim["single"] and sim["next"] < sim["jobs"] and s.jobs[e, sim["next"]]["submit"] <= now):
        _complete(s, e)
    while sim["outage"] < s.outages.shape[1] and s.outages[e, sim["outage"]]["time"] <= now:
        o = s.outages[e, sim["outage"]]
        sim["outage"] += 1
        if o["up"]:
            repair(s, e, o["node"])
        else:
            fail(s, e, o["node"])
    if s.steps.shape[1] > 0:
        to_step(s, e, s.lists[e, HEAP])
    while sim["next"] < sim["jobs"] and s.jobs[e, sim["next"]]["submit"] <= now:
        j = sim["next"]
        sim["next"] += 1
        if s.jobs[e, j]["status"] == FUTURE:
            if s.jobs[e, j]["unmet"] > 0:
                s.jobs[e, j]["status"] = WAITING
            else:
                enter(s, e, j, QUEUED)
        if sim["single"]:
            break
    if sim["wake"] <= now:
        wake(s, e)
    if sim["changed"]:
        share(s, e)
    sim["events"] += 1


@kernel
def advance(s, e, until):
    """Move simulation e to its next instant of choice, at most to time `until` (s).

    Returns CHOICE there, UNTIL where nothing happened by then (now = until), OVER where nothing will ever happen
    again (every job has ended, or what is queued waits for a decision that no event will bring).
    """
    sim = s.sims[e]
    sim["entered"], sim["left"] = 0, 0
    sim["before"], sim["acted"], sim["acting"] = sim["now"], sim["acting"], 0
    if sim["changed"]:
        share(s, e)
    t = np.inf if sim["ended"] == sim["jobs"] else _next_event(s, e)
    if t == np.inf and until == np.inf:
        return OVER
    if sim["tick"] > 0 and t < np.inf:
        grid = (np.ceil(t / sim["tick"] - 1e-9) + 0.0) * sim["tick"]  # never -0
        t = grid if grid >= t else grid + sim["tick"]
    if t > until:
        sim["now"] = max(sim["now"], until)
        return UNTIL
    if sim["tick"] == 0:
        sim["now"] = max(sim["now"], t)
        _instant(s, e)
        return CHOICE
    event = _next_event(s, e)
    while event <= t:
        sim["now"] = max(sim["now"], event)
        _instant(s, e)
        event = _next_event(s, e)
    sim["now"] = t
    return CHOICE
