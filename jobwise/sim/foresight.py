"""What a forest makes of a job: features of its campaign, and the forecast of its run time.

A forecast is made for all jobs of a key and line of work together, and made again when something has happened to the user.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import TAU
from jobwise.sim.campaign import END, GROUPS, START, SUBMIT, F, started, stopped, submitted, to, told
from jobwise.sim.forest import raw

LEAN = 1.0  # ends: how much a group leans on the wider one
STALE = 900.0  # s
PRIOR_RATIO, PRIOR_SHORT, PRIOR_LOG = 0.5, 0.1, -1.0
ENDED = ("ratio", "short", "log", "count", "hour: count", "hour: short", "hour: quick", "day: count", "day: short",
         "day: quick", "day: log")  # fmt: skip
NOW = (
    "streak",
    "last",
    "since end",
    "since submit",
    "running",
    "elapsed",
    "newest",
    "waiting",
    "burst",
    "burst age",
    "burst ends",
)
NAMES = (
    "request",
    "processors",
    "share",
    "waiting",
    "all: ratio",
    "all: short",
    "all: log",
    "all: hour short",
    "all: hour log",
)
FEATURES = (
    *NAMES, *(f"{g}: {x}" for g in GROUPS for x in ENDED), *(f"{g}: {x}" for g in ("key", "user") for x in NOW)
)  # fmt: skip
assert len(FEATURES) == F


@inlined
def _since(now, then):
    return np.log1p(min(max(now - then, 0.0), 1e7))


@kernel
def fill(c, k, now):
    """The features of the jobs of cell k at time `now` (s) into c.x."""
    x, me = c.x, c.cell[k]
    every, request = c.group[0], me["request"]
    to(every, now)
    n = every["count"] + 20.0
    ratio, short, log = (
        (every["ratio"] + 20.0 * PRIOR_RATIO) / n,
        (every["short"] + 20.0 * PRIOR_SHORT) / n,
        (every["log"] + 20.0 * PRIOR_LOG) / n,
    )
    x[0], x[1], x[2] = np.log(request), np.log(me["size"]), me["size"] / c.total[0]
    x[3] = np.log1p(np.float64(max(every["waiting"], 0)))
    x[4], x[5], x[6] = ratio, short, log
    few = every["hour_count"] + 1.0
    x[7], x[8] = (every["hour_short"] + short) / few, (every["hour_log"] + log) / few
    at = 9 + 22  # of the user, the widest; then what is narrower leans on it
    for level in range(3):
        g = c.group[me["user"] if level == 0 else me["line"] if level == 1 else me["key"]]
        to(g, now)
        n = 1.0 / (g["count"] + LEAN)
        ratio, short, log = (
            (g["ratio"] + LEAN * ratio) * n,
            (g["short"] + LEAN * short) * n,
            (g["log"] + LEAN * log) * n,
        )
        x[at], x[at + 1], x[at + 2], x[at + 3] = ratio, short, log, np.log1p(g["count"])
        n, m = 1.0 / (g["hour_count"] + 0.2), 1.0 / (g["day_count"] + 0.2)
        x[at + 4], x[at + 5], x[at + 6] = g["hour_count"], (g["hour_short"] + 0.2 * short) * n, g["hour_quick"] * n
        x[at + 7], x[at + 8], x[at + 9] = g["day_count"], (g["day_short"] + 0.2 * short) * m, g["day_quick"] * m
        x[at + 10] = (g["day_log"] + 0.2 * log) * m
        at -= 11
    at = 9 + 33
    for level in range(2):
        g = c.group[me["key"] if level == 0 else me["user"]]
        x[at], x[at + 1] = min(g["streak"], 20), g["last"]
        x[at + 2], x[at + 3] = _since(now, g["ended"]), _since(now, g["submitted"])
        x[at + 4], x[at + 5], x[at + 6] = g["running"], -1.0, -1.0
        if g["running"] > 0:
            x[at + 5] = np.log1p(max(now - g["starts"] / g["running"], 0.0)) - np.log(request)
            x[at + 6] = _since(now, g["started"])
        x[at + 7], x[at + 8] = np.log1p(np.float64(max(g["waiting"], 0))), np.log1p(np.float64(g["size"]))
        x[at + 9], x[at + 10] = _since(now, g["burst"]), min(g["ends"], 50)
        at += 11


@inlined
def _chance(raw_):
    return 1.0 / (1.0 + np.exp(-raw_))


@kernel
def forecast(c, k, now):
    """Bring the forecast of cell k up to date, where something has happened to its user or its key since, or it is old."""
    me = c.cell[k]
    if me["made"] == np.inf:  # given
        return
    user, key = c.group[me["user"]], c.group[me["key"]]
    same = me["news"] == user["news"] and me["own"] == key["news"]
    if same and me["made"] > -np.inf and (now - me["made"] < STALE or user["running"] == 0):
        return
    fill(c, k, now)
    me["ratio"] = max(_chance(raw(c.forest, c.x, 0)), 1e-4)
    me["short"] = max(_chance(raw(c.forest, c.x, 1)), TAU / max(me["request"], TAU))
    me["made"], me["news"], me["own"] = now, user["news"], key["news"]


@kernel
def forecast_all(c, rows, now, out):
    """out[i, 0], out[i, 1] = E[run / request] and E[10 / max(run, 10)] of job rows[i]."""
    for i in range(len(rows)):
        k = c.of[rows[i]]
        forecast(c, k, now)
        out[i, 0], out[i, 1] = told(c, k)


@kernel
def walk(c, time, kind, job, run, late, which, out, count, judge, said):
    """Let the events happen, (time s, kind, job), in order; into `out` the features of every job when it is submitted and,
    where late[j], when it starts; which[i]: (job, START or SUBMIT) of the rows. `count`: rows so far. From event `judge` on
    jobs are forecast when they are submitted, so that errors are known; said[j] becomes the forecast, where it has rows."""
    for i in range(len(time)):
        j, now = job[i], time[i]
        if kind[i] == END:
            stopped(c, j, now, run[j])
            continue
        if kind[i] == SUBMIT:
            submitted(c, j, now)
            if i >= judge:
                forecast(c, c.of[j], now)
                if len(said) > 0:
                    said[j, 0], said[j, 1] = told(c, c.of[j])
        if len(out) > 0 and (kind[i] == SUBMIT or late[j]):
            fill(c, c.of[j], now)
            for f in range(F):
                out[count[0], f] = c.x[f]
            which[count[0], 0], which[count[0], 1] = j, kind[i]
            count[0] += 1
        if kind[i] == START:
            started(c, j, now)
