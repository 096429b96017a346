"""The memory of a scheduler: how long jobs ran that have ended, and what is known of a job before it runs; event by event.

Each job belongs to four groups: its key (user, request, processors), its line of work (user, application, queue, memory), its
user, everyone. A group remembers the run times of its jobs, fading by FADE with every one that ends: E[min(run / request, 1)],
E[10 / max(run, 10)] (how likely is a short failure: what bounded slowdown is about), E[log(max(run, 10) / max(request, 10))].
`expect` makes of them an expectation in which a key leans on its user, a user on everyone, everyone on a prior (empirical
Bayes with fixed weights).

Where a forest forecasts, a group also remembers those that ended in the last hour and day, its jobs that run and
wait, and its campaign: jobs submitted with less than ten minutes between two. The features of a forest are made of it
(`foresight.py`). Where requests have lately said twice as much of 10 / run as the forecasts did, requests are believed
(`trusts`).

Every event is O(1). The tables are those of `groups.py`; jobs of the same key and line are a cell and share a forecast.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import STARTED, STOPPED, SUBMITTED, TAU
from jobwise.sim.events import run_time
from jobwise.sim.groups import ALL, KEY, LINE, RECENT, USER
from jobwise.sim.state import ACTS, ENTERED, LEFT

FADE = 0.95
LEAN_ON_USER, LEAN_ON_ALL, LEAN_ON_PRIOR = 1.0, 2.0, 20.0  # in completions
PRIOR_RATIO, PRIOR_SHORT, PRIOR_LOG = 0.5, 0.1, -1.0
SHORT = TAU  # s
HOUR, DAY, GAP = 3600.0, 86_400.0, 600.0  # s
QUICK = 60.0  # s: jobs that ran for less are counted
FORGET, ENOUGH = 0.999, 100.0  # of errors


@inlined
def decay(g, now):
    """Let the sums of the last hour and day decay up to now."""
    if now > g["decayed"]:
        a, b = np.exp((g["decayed"] - now) / HOUR), np.exp((g["decayed"] - now) / DAY)
        g["hour_count"] *= a
        g["hour_short"] *= a
        g["hour_quick"] *= a
        g["hour_log"] *= a
        g["day_count"] *= b
        g["day_short"] *= b
        g["day_quick"] *= b
        g["day_log"] *= b
        g["decayed"] = now


@kernel
def submitted(memory, j, now):
    """Take note that job j was submitted."""
    if len(memory.group) == 0:
        return
    x = memory.cell[memory.of[j]]
    for level in range(4):
        g = memory.group[x["group"][level]]
        if now - g["submitted"] > GAP:
            g["burst"], g["size"], g["ends"] = now, 0, 0
        g["submitted"] = now
        g["size"] += 1
        g["waiting"] += 1


@kernel
def started(memory, j, now):
    """Take note that job j starts; a start that is known already is none."""
    if len(memory.group) == 0 or not np.isnan(memory.began[j]):
        return
    x = memory.cell[memory.of[j]]
    memory.began[j] = now
    for level in range(4):
        g = memory.group[x["group"][level]]
        g["waiting"] -= 1
        g["running"] += 1
        g["started"] = now
        g["starts"] += now
    memory.group[x["group"][KEY]]["news"] += 1


@kernel
def _ran(groups, x, levels, request, run):
    """A job of cell x has ended after `run` s: the first `levels` of its groups remember it."""
    ratio, short = min(run / request, 1.0), SHORT / max(run, SHORT)
    log = np.log(max(run, SHORT) / max(request, SHORT))
    for level in range(levels):
        a = groups[x["group"][level]]
        a["count"] = FADE * a["count"] + 1.0
        a["ratio"] = FADE * a["ratio"] + ratio
        a["short"] = FADE * a["short"] + short
        a["log"] = FADE * a["log"] + log


@kernel
def stopped(memory, j, request, now, run):
    """Job j, of so many s requested, runs no more; it has ended after `run` s, or (NaN) waits again."""
    x, request = memory.cell[memory.of[j]], max(request, 1.0)
    if not np.isnan(run):
        _ran(memory.run, x, 4 if len(memory.group) > 0 else LINE, request, run)
    if len(memory.group) == 0 or np.isnan(memory.began[j]):
        return
    short, log, quick = SHORT / max(run, SHORT), np.log(max(run, SHORT) / max(request, SHORT)), 1.0 if run < QUICK else 0.0
    for level in range(4):
        g = memory.group[x["group"][level]]
        g["running"] -= 1
        g["starts"] -= memory.began[j]
        g["news"] += 1
        if np.isnan(run):
            g["waiting"] += 1
            continue
        decay(g, now)
        g["hour_count"] += 1.0
        g["hour_short"] += short
        g["hour_quick"] += quick
        g["hour_log"] += log
        g["day_count"] += 1.0
        g["day_short"] += short
        g["day_quick"] += quick
        g["day_log"] += log
        g["last"], g["ended"] = log, now
        g["streak"] = g["streak"] + 1 if quick > 0.0 else 0
        g["ends"] += 1
    memory.began[j] = np.nan
    if x["made"] > -np.inf and not np.isnan(run):
        true = np.log(short)
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
        elif x["kind"] == SUBMITTED:
            submitted(memory, j, x["time"])
        elif x["kind"] == STARTED:
            started(memory, j, x["time"])


@kernel
def _note_acts(memory, s, e, count, time):
    for i in range(memory.heard[0], count):
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
            _ran(memory.run, memory.cell[memory.of[j]], LINE, max(job["walltime"], 1.0), job["ran"])


@kernel
def _note_all(memory, s, e):
    sim = s.sims[e]
    _note_acts(memory, s, e, sim["acted"], sim["before"])
    memory.heard[0] = 0
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        stopped(memory, j, s.jobs[e, j]["walltime"], sim["now"], run_time(s.jobs[e, j]))
    for i in range(sim["entered"]):
        j = s.lists[e, ENTERED, i]
        if np.isnan(s.jobs[e, j]["start"]):  # else it has been submitted before
            submitted(memory, j, s.jobs[e, j]["queued"])


@kernel
def note_starts(memory, s, e):
    """Take note of what the scheduler has started at this instant: another pass is to come."""
    if len(memory.group) > 0:
        _note_acts(memory, s, e, s.sims[e]["acting"], s.sims[e]["now"])
        memory.heard[0] = s.sims[e]["acting"]


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
    """Return `expect` of job j of so many s requested."""
    x = memory.cell[memory.of[j]]
    return expect(memory, x["group"][KEY], x["group"][USER], max(request, 1.0))


@kernel
def expect_all(memory, jobs, rows, out):
    """out[i] = `expect` of job rows[i]: ratio, short, log ratio, count [Q, 4]."""
    for i in range(len(rows)):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = expect_job(memory, rows[i], jobs[rows[i]]["walltime"])


@inlined
def trusts(memory):
    """Return whether requests are believed now."""
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
