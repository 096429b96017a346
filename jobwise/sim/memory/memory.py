"""The memory of a scheduler, kept event by event: run times of ended jobs, and expectations of jobs before they run.

Each job belongs to three groups: its key (user, request, processors), its user, everyone. A group remembers the run times of
its jobs, fading by FADE with every one that ends: E[min(run / request, 1)], E[10 / max(run, 10)] (how likely is a short
failure: what bounded slowdown is about), E[log(max(run, 10) / max(request, 10))]. `expect` makes of them an expectation in
which a key leans on its user, a user on everyone, everyone on a prior (empirical Bayes with fixed weights).

Start deadlines and a short-job lane use forecasts: stored expectations, made again after an event of the user or the key, or
when they are old. Where the forecasts of log(10 / run) lately had more than twice the squared error of the requests, requests
are used (`trusts`).

Every event is O(1). The tables are those of `groups.py`; jobs of the same key, application, queue and memory are a
cell, and share a forecast.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import STARTED, STOPPED, TAU
from jobwise.sim.events import run_time
from jobwise.sim.memory.groups import ALL, KEY, RECENT, USER
from jobwise.sim.state import ACTS, LEFT

FADE = 0.95
LEAN_ON_USER, LEAN_ON_ALL, LEAN_ON_PRIOR = 1.0, 2.0, 20.0  # in completions
PRIOR_RATIO, PRIOR_SHORT, PRIOR_LOG = 0.5, 0.1, -1.0
SHORT = TAU  # s
STALE = 900.0  # s: a forecast is made again, where the user has jobs that run
FORGET, ENOUGH = 0.999, 100.0  # of errors


@kernel
def started(memory, j, now):
    """Take note that job j starts; a start that is known already is none."""
    if len(memory.group) == 0 or not np.isnan(memory.began[j]):
        return
    x = memory.cell[memory.of[j]]
    memory.began[j] = now
    memory.group[x["group"][USER]]["running"] += 1
    memory.group[x["group"][KEY]]["news"] += 1


@kernel
def _ran(groups, x, request, run):
    """A job of cell x has ended after `run` s: its groups remember it."""
    ratio, short = min(run / request, 1.0), SHORT / max(run, SHORT)
    log = np.log(max(run, SHORT) / max(request, SHORT))
    for level in range(3):
        a = groups[x["group"][level]]
        a["count"] = FADE * a["count"] + 1.0
        a["ratio"] = FADE * a["ratio"] + ratio
        a["short"] = FADE * a["short"] + short
        a["log"] = FADE * a["log"] + log


@kernel
def stopped(memory, j, request, now, run):
    """Take note that job j of `request` s stops: it has ended after `run` s, or (NaN) waits again."""
    x, request = memory.cell[memory.of[j]], max(request, 1.0)
    if not np.isnan(run):
        _ran(memory.run, x, request, run)
    if len(memory.group) == 0 or np.isnan(memory.began[j]):
        return
    user, key = memory.group[x["group"][USER]], memory.group[x["group"][KEY]]
    user["running"] -= 1
    user["news"] += 1
    key["news"] += 1
    memory.began[j] = np.nan
    if x["made"] > -np.inf and not np.isnan(run):
        true = np.log(SHORT / max(run, SHORT))
        memory.error[0] = FORGET * memory.error[0] + (np.log(x["short"]) - true) ** 2
        memory.error[1] = FORGET * memory.error[1] + (np.log(SHORT / max(request, SHORT)) - true) ** 2
        memory.error[2] = FORGET * memory.error[2] + 1.0
        at = np.int64(memory.ended[0]) % RECENT
        memory.recent[at, 0] = index(memory, memory.of[j])
        memory.recent[at, 1] = x["size"] * max(run, 1.0)
        memory.ended[0] += 1.0


@kernel
def note(memory, jobs, events):
    """Take note of events [N] of jobs of a table."""
    for i in range(len(events)):
        x = events[i]
        j = x["job"]
        if x["kind"] == STOPPED:
            stopped(memory, j, jobs[j]["walltime"], x["time"], x["run"])
        elif x["kind"] == STARTED:
            started(memory, j, x["time"])


@kernel
def _note_acts(memory, s, e, count, time):
    for i in range(count):
        act = s.lists[e, ACTS, i]
        if act >= 0:
            started(memory, act, time)
        else:
            stopped(memory, ~act, 1.0, time, np.nan)


@inlined
def note_advance(memory, s, e):
    """Take note of the events of simulation e since its last advance but one."""
    if len(memory.group) > 0:
        _note_all(memory, s, e)
        return
    for i in range(s.sims[e]["left"]):
        j = s.lists[e, LEFT, i]
        job = s.jobs[e, j]
        if not np.isnan(job["end"]):
            _ran(memory.run, memory.cell[memory.of[j]], max(job["walltime"], 1.0), job["ran"])


@kernel
def _note_all(memory, s, e):
    sim = s.sims[e]
    _note_acts(memory, s, e, sim["acted"], sim["before"])
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        stopped(memory, j, s.jobs[e, j]["walltime"], sim["now"], run_time(s.jobs[e, j]))


# ------------------------------------------------------------------ expectations


@inlined
def expect(memory, key, user, request):
    """(E[run / request], E[10 / max(run, 10)], E[log ratio], completions of the key, faded) of jobs of these two groups."""
    a, u, k = memory.run[ALL], memory.run[user], memory.run[key]
    n = a["count"] + LEAN_ON_PRIOR
    ratio = (a["ratio"] + LEAN_ON_PRIOR * PRIOR_RATIO) / n
    short = (a["short"] + LEAN_ON_PRIOR * PRIOR_SHORT) / n
    log = (a["log"] + LEAN_ON_PRIOR * PRIOR_LOG) / n
    n = 1.0 / (u["count"] + LEAN_ON_ALL)
    ratio, short, log = (
        (u["ratio"] + LEAN_ON_ALL * ratio) * n,
        (u["short"] + LEAN_ON_ALL * short) * n,
        (u["log"] + LEAN_ON_ALL * log) * n,
    )
    n = 1.0 / (k["count"] + LEAN_ON_USER)
    ratio, short, log = (
        (k["ratio"] + LEAN_ON_USER * ratio) * n,
        (k["short"] + LEAN_ON_USER * short) * n,
        (k["log"] + LEAN_ON_USER * log) * n,
    )
    return ratio, max(short, SHORT / max(request, SHORT)), log, k["count"]


@kernel
def expect_job(memory, j, request):
    """Return `expect` of job j with `request` s requested."""
    x = memory.cell[memory.of[j]]
    return expect(memory, x["group"][KEY], x["group"][USER], max(request, 1.0))


@kernel
def expect_all(memory, jobs, rows, out):
    """out[i] = `expect` of job rows[i]: ratio, short, log ratio, count [Q, 4]."""
    for i in range(len(rows)):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = expect_job(memory, rows[i], jobs[rows[i]]["walltime"])


@kernel
def forecast(memory, k, now):
    """Bring the forecast of cell k up to date, where something has happened to its user or its key since, or it is old."""
    me = memory.cell[k]
    user, key = memory.group[me["group"][USER]], memory.group[me["group"][KEY]]
    same = me["news"] == user["news"] and me["own"] == key["news"]
    if same and me["made"] > -np.inf and (now - me["made"] < STALE or user["running"] == 0):
        return
    me["ratio"], me["short"], _, _ = expect(memory, me["group"][KEY], me["group"][USER], me["request"])
    me["made"], me["news"], me["own"] = now, user["news"], key["news"]


@kernel
def forecast_all(memory, rows, now):
    """Bring the forecasts of job rows up to date."""
    for i in range(len(rows)):
        forecast(memory, memory.of[rows[i]], now)


@inlined
def trusts(memory):
    """Return whether requests replace forecasts now."""
    return memory.error[2] > ENOUGH and memory.error[0] > 2.0 * memory.error[1]


@inlined
def forecast_of(memory, k):
    """(E[run / request], E[10 / max(run, 10)]) of the jobs of cell k, as last forecast."""
    x = memory.cell[k]
    if trusts(memory):
        return 1.0, SHORT / max(x["request"], SHORT)
    return x["ratio"], x["short"]


@inlined
def run_of(memory, j):
    """The forecast of the run time of job j, s."""
    return forecast_of(memory, memory.of[j])[0] * memory.cell[memory.of[j]]["request"]


@inlined
def index(memory, k):
    """The log of processors E[run] / E[1 / max(run, 10)] of the jobs of cell k."""
    ratio, short = forecast_of(memory, k)
    return np.log(memory.cell[k]["size"] * ratio * memory.cell[k]["request"] / short)
