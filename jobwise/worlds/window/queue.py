"""The queue of the windows: who enters it, who leaves it by a start, and who runs in a trial meanwhile."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import TAU
from jobwise.sim.kernel import put_back, start
from jobwise.sim.lists import ranked
from jobwise.sim.measures import bounded
from jobwise.sim.rates import expected
from jobwise.sim.trial_runs import start_trial, trial_shown
from jobwise.worlds.window import prices, waiting
from jobwise.worlds.window.tables import WORDS


@inlined
def running(c, e):
    """The running jobs of simulation e, by estimated end."""
    q = c.running
    return ranked.Blocks(q.entry[e], q.block[e], q.shortest[e], q.order[e], q.count[e])


@inlined
def enter(s, e, c, j):
    """Put job j at the end of the queue."""
    m, z, job = c.moment[e], c.interval[e], s.jobs[e, j]
    x = c.queue[e, m["queued"]]
    x["row"], x["size"], x["submit"] = j, job["request"][0], job["submit"]
    x["user"], x["group"], x["app"], x["memory"] = job["user"], job["group"], job["app"], job["memory"]
    x["est"], x["flow"], x["rank"] = expected(job), job["flow"], job["rank"]
    x["queue"], x["partition"], x["began"] = job["queue"], job["partition"], np.nan
    x["draw"] = job["draw"] * 1e-3
    for r in range(1, c.amount.shape[1]):
        x["more"][r - 1] = job["request"][r]
    m["queued"] += 1
    run = s.truth[e, j]["runtime"]
    z["inverse"] += 1.0 / max(run, TAU)
    if np.isnan(job["start"]):
        z["present"] += 1.0 / max(run, 1.0)


@inlined
def start_item(s, e, c, i):
    """Start the i-th of the queue now; one in a trial run goes on."""
    m, z, at, item = c.moment[e], c.interval[e], s.sims[e]["now"], c.queue[e]
    j, n, submit, is_trial = item[i]["row"], np.int64(item[i]["size"]), item[i]["submit"], not np.isnan(item[i]["began"])
    if is_trial:
        at = item[i]["began"]
        m["held"] -= n
        m["trying"] -= 1
    else:
        if n > s.nodes[e, 0]["free"][0]:
            _stop_trials(s, e, c, n)
        if len(c.node) > 0:
            for r in range(c.amount.shape[1]):
                c.amount[e, r] = s.jobs[e, j]["request"][r]
        start(s, e, j, 1.0, c.node, c.amount[e : e + 1], len(c.node))
        z["inverse"] = z["inverse"] - 1.0 / max(s.truth[e, j]["runtime"], TAU) if m["queued"] > 1 else 0.0
    ranked.insert(running(c, e), s.jobs[e, j]["due"], j, n, 0.0)
    leave(c, e, i)
    started(s, e, c, j, at - submit)


@inlined
def leave(c, e, i):
    """Take the i-th off the queue."""
    m = c.moment[e]
    last = m["queued"] - 1
    words = c.words[e]
    for k in range(WORDS * i, WORDS * last):
        words[k] = words[k + WORDS]
    m["queued"] = last
    if i < m["place"]:
        m["place"] -= 1


@inlined
def started(s, e, c, j, wait):
    """Account for job j, which has started after `wait` s."""
    m, z, n, run = c.moment[e], c.interval[e], s.jobs[e, j]["request"][0], s.truth[e, j]["runtime"]
    if run < TAU:  # the first seconds of such a job's wait cost nothing
        z["slowed"] -= min(wait, TAU - run) / TAU
    z["late_bounds"] += max(wait - m["bound"], 0.0) / m["bound"]
    z["longest"] = max(z["longest"], wait)
    z["total"] += bounded(wait, run)
    z["all_waited"] += wait
    z["dear_waits"] += wait * prices.listed(max(s.jobs[e, j]["walltime"], 1.0), n, s.jobs[e, j]["memory"])
    z["started"] += 1.0
    z["paid"] += waiting.paid(s, e, j)


# ------------------------------------------------------------------ trial runs


@inlined
def reachable(s, e, c):
    """The processors that a start can have: those that are free, and those of trial runs."""
    return s.nodes[e, 0]["free"][0] + c.moment[e]["held"]


@inlined
def end_of(x, now):
    """The estimated end (s) of a job of the queue that starts now: one in a trial run goes on."""
    return (now if np.isnan(x["began"]) else x["began"]) + x["est"]


@kernel
def begin_trial(s, e, c, i):
    """Begin the trial run of the i-th of the queue: it does not wait meanwhile."""
    m, x, now = c.moment[e], c.queue[e, i], s.sims[e]["now"]
    start_trial(s, e, x["row"], c.node, c.amount[e : e + 1])
    x["began"] = now
    m["held"] += x["size"]
    m["trying"] += 1
    c.interval[e]["inverse"] -= 1.0 / max(s.truth[e, x["row"]]["runtime"], TAU)


@inlined
def _was_waiting(s, e, c, x):
    """The trial run of x has come to nothing: what it executed was waiting."""
    m, z, run, took = c.moment[e], c.interval[e], s.truth[e, x["row"]]["runtime"], s.sims[e]["now"] - x["began"]
    z["waited"] += took
    z["slowed"] += took / max(run, TAU)
    x["began"] = np.nan
    m["held"] -= x["size"]
    m["trying"] -= 1


@kernel
def _stop_trials(s, e, c, n):
    """Stop trial runs until n processors are free: the jobs that came last first."""
    i = c.moment[e]["queued"] - 1
    while n > s.nodes[e, 0]["free"][0]:
        x = c.queue[e, i]
        if not np.isnan(x["began"]):
            put_back(s, e, x["row"])
            c.interval[e]["inverse"] += 1.0 / max(s.truth[e, x["row"]]["runtime"], TAU)
            _was_waiting(s, e, c, x)
        i -= 1


@kernel
def trial_ended(s, e, c, j):
    """Has job j, which runs no more, run in a trial? Then it has left the queue; one whose node failed will enter it again."""
    m = c.moment[e]
    for i in range(m["queued"]):
        x = c.queue[e, i]
        if x["row"] == j and not np.isnan(x["began"]):
            wait, came = x["began"] - x["submit"], s.jobs[e, j]["end"]
            if np.isnan(came):
                _was_waiting(s, e, c, x)
            else:
                m["held"] -= x["size"]
                m["trying"] -= 1
                trial_shown(s, e)
            leave(c, e, i)
            if not np.isnan(came):
                started(s, e, c, j, wait)
            return True
    return False


@inlined
def take_back(s, e, c, j):
    """Job j was thrown off the machine, its work lost: it has not started yet, and what it executed was waiting."""
    z, job, run = c.interval[e], s.jobs[e, j], s.truth[e, j]["runtime"]
    begun = job["due"] - max(job["walltime"], 1.0)
    wait = begun - job["submit"]
    z["total"] -= bounded(wait, run)
    z["all_waited"] -= wait
    z["dear_waits"] -= wait * prices.listed(max(job["walltime"], 1.0), job["request"][0], job["memory"])
    z["started"] -= 1.0
    z["slowed"] += (s.sims[e]["now"] - begun) / max(run, TAU)
    if run < TAU:
        z["slowed"] += min(wait, TAU - run) / TAU
    bound = c.moment[e]["bound"]
    z["late_bounds"] -= max(wait - bound, 0.0) / bound
