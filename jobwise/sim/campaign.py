"""What is known of a job before it runs, event by event: features for forecasts of run times.

Four groups are kept for each job: its key (user, request, processors), its line of work (user, application, queue), its user,
everyone. Each remembers how its jobs ended (all, those of the last hour, of the last day), what runs and waits of it, and its
campaign: jobs submitted with less than ten minutes between two. A forecast is made for all jobs of a key and line of work
together, and made again when something has happened to the user. O(1) for an event.

Where requests have lately told twice as much of 10 / run as the forecasts did, requests are believed (`trusts`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.jobs import TAU
from jobwise.sim.compiled import inlined, kernel
from jobwise.sim.forest import NOTHING, Forest, raw

FADE, LEAN = 0.95, 1.0
HOUR, DAY, GAP, STALE = 3600.0, 86_400.0, 600.0, 900.0  # s
QUICK = 60.0  # s: jobs that ran for less are counted
FORGET, ENOUGH = 0.999, 100.0  # of errors
PRIOR_RATIO, PRIOR_SHORT, PRIOR_LOG = 0.5, 0.1, -1.0
GROUPS = ("key", "line", "user")
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
F = len(FEATURES)
RECENT = 2000  # jobs that ended last

group_dtype = np.dtype(
    [
        ("count", "f8"),  # faded by FADE at each end
        ("ratio", "f8"),
        ("short", "f8"),
        ("log", "f8"),
        *((f"{span}_{what}", "f8") for span in ("hour", "day") for what in ("count", "short", "quick", "log")),  # decayed sums
        ("seen", "f8"),  # s, when those were brought up to date
        ("last", "f8"),  # log ratio of the last that ended
        ("ended", "f8"),  # s, when that was
        ("submitted", "f8"),  # s, the last
        ("started", "f8"),  # s, the last
        ("starts", "f8"),  # s, the sum of the starts of those that run
        ("burst", "f8"),  # s, when the campaign began
        ("streak", "i4"),  # quick ends without another between
        ("running", "i4"),
        ("waiting", "i4"),
        ("size", "i4"),  # jobs of the campaign
        ("ends", "i4"),  # of those that ended since it began
        ("news", "i4"),  # what has happened to it so far
    ],
    align=True,
)
cell_dtype = np.dtype(  # jobs that have the same forecast
    [
        ("key", "i4"),
        ("line", "i4"),
        ("user", "i4"),
        ("request", "f8"),
        ("size", "f8"),
        ("ratio", "f8"),  # E[min(run / request, 1)]
        ("short", "f8"),  # E[10 / max(run, 10)]
        ("made", "f8"),  # s; -inf: never
        ("news", "i4"),  # of the user when it was made
        ("own", "i4"),  # of the key
    ],
    align=True,
)


class Campaign(NamedTuple):
    """The groups and cells of the jobs of one simulation."""

    group: np.ndarray  # [G] of group_dtype; 0 is everyone
    cell: np.ndarray  # [C] of cell_dtype
    of: np.ndarray  # [J] i4 the cell of each job
    began: np.ndarray  # [J] s, when those that run started
    x: np.ndarray  # [F] room for features
    forest: Forest
    total: np.ndarray  # [1] processors
    recent: np.ndarray  # [RECENT, 2] of jobs that ended last, in a ring: log index by their forecast, work
    ended: np.ndarray  # [1] how many there were
    error: np.ndarray  # [3] of jobs that ended lately: squared errors of log 10 / run, of forecasts, of requests; how many


def build(table: dict[str, np.ndarray], forest: Forest, total: int) -> Campaign:
    """Nothing has happened yet to these jobs; `table`: their user, app, queue, walltime, size [J]."""
    user, app, queue, request, size = (np.asarray(table[k]) for k in ("user", "app", "queue", "walltime", "size"))
    whole = request.astype(np.int64)
    of_user, users = _numbers(user)
    of_key, keys = _numbers(user, whole, size)
    of_line, lines = _numbers(user, app, queue)
    of, cells = _numbers(of_key, of_line)
    group = np.zeros(1 + users + keys + lines, group_dtype)
    for name in ("seen", "ended", "submitted", "started", "burst"):
        group[name] = -np.inf
    cell, first = np.zeros(cells, cell_dtype), np.zeros(cells, np.int64)
    first[of[::-1]] = np.arange(len(of))[::-1]
    cell["user"], cell["key"], cell["line"] = 1 + of_user[first], 1 + users + of_key[first], 1 + users + keys + of_line[first]
    cell["request"], cell["size"], cell["made"] = np.maximum(request[first], 1.0), size[first], -np.inf
    return Campaign(
        group,
        cell,
        of.astype(np.int32),
        np.zeros(len(of)),
        np.zeros(F),
        forest,
        np.array([max(total, 1)], np.int64),
        np.zeros((RECENT, 2)),
        np.zeros(1),
        np.zeros(3),
    )


def _numbers(*columns: np.ndarray) -> tuple[np.ndarray, int]:
    """(which of the different rows of these columns each row is [J], how many there are)."""
    found = np.zeros(len(columns[0]), np.int64)
    for c in columns:
        own = np.unique(c, return_inverse=True)[1]
        found = np.unique(found * (len(c) + 1) + own, return_inverse=True)[1]
    return found, int(found.max(initial=-1)) + 1


NO_CAMPAIGN = build({k: np.zeros(0) for k in ("user", "app", "queue", "walltime", "size")}, NOTHING, 1)


@inlined
def _to(g, now):
    """Let the sums of the last hour and day decay up to now."""
    if now > g["seen"]:
        a, b = np.exp((g["seen"] - now) / HOUR), np.exp((g["seen"] - now) / DAY)
        g["hour_count"] *= a
        g["hour_short"] *= a
        g["hour_quick"] *= a
        g["hour_log"] *= a
        g["day_count"] *= b
        g["day_short"] *= b
        g["day_quick"] *= b
        g["day_log"] *= b
        g["seen"] = now


@kernel
def submitted(c, j, now):
    """Job j has come."""
    x = c.cell[c.of[j]]
    for level in range(4):
        g = c.group[0 if level == 0 else x["user"] if level == 1 else x["key"] if level == 2 else x["line"]]
        if now - g["submitted"] > GAP:
            g["burst"], g["size"], g["ends"] = now, 0, 0
        g["submitted"] = now
        g["size"] += 1
        g["waiting"] += 1


@kernel
def started(c, j, now):
    """Job j starts."""
    x = c.cell[c.of[j]]
    c.began[j] = now
    for level in range(4):
        g = c.group[0 if level == 0 else x["user"] if level == 1 else x["key"] if level == 2 else x["line"]]
        g["waiting"] -= 1
        g["running"] += 1
        g["started"] = now
        g["starts"] += now
    c.group[x["key"]]["news"] += 1


@inlined
def trusts(c):
    """Are requests believed?"""
    return c.error[2] > ENOUGH and c.error[0] > 2.0 * c.error[1]


@inlined
def told(c, k):
    """(E[run / request], E[10 / max(run, 10)]) of the jobs of cell k, as last forecast."""
    x = c.cell[k]
    if trusts(c):
        return 1.0, TAU / max(x["request"], TAU)
    return x["ratio"], x["short"]


@kernel
def stopped(c, j, now, run):
    """Job j runs no more; it has ended after `run` s, or (NaN) waits again."""
    x = c.cell[c.of[j]]
    request = x["request"]
    ratio, short = min(run / request, 1.0), TAU / max(run, TAU)
    log = np.log(max(run, TAU) / max(request, TAU))
    for level in range(4):
        g = c.group[0 if level == 0 else x["user"] if level == 1 else x["key"] if level == 2 else x["line"]]
        g["running"] -= 1
        g["starts"] -= c.began[j]
        g["news"] += 1
        if np.isnan(run):
            g["waiting"] += 1
            continue
        _to(g, now)
        quick = 1.0 if run < QUICK else 0.0
        g["count"] = FADE * g["count"] + 1.0
        g["ratio"] = FADE * g["ratio"] + ratio
        g["short"] = FADE * g["short"] + short
        g["log"] = FADE * g["log"] + log
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
    if x["made"] > -np.inf and not np.isnan(run):
        true = np.log(short)
        c.error[0] = FORGET * c.error[0] + (np.log(x["short"]) - true) ** 2
        c.error[1] = FORGET * c.error[1] + (np.log(TAU / max(request, TAU)) - true) ** 2
        c.error[2] = FORGET * c.error[2] + 1.0
        at = np.int64(c.ended[0]) % RECENT
        ratio, expected = told(c, c.of[j])
        c.recent[at, 0] = np.log(x["size"] * ratio * request / expected)
        c.recent[at, 1] = x["size"] * max(run, 1.0)
        c.ended[0] += 1.0


@inlined
def _since(now, then):
    return np.log1p(min(max(now - then, 0.0), 1e7))


@kernel
def fill(c, k, now):
    """The features of the jobs of cell k at time `now` (s) into c.x."""
    x, me = c.x, c.cell[k]
    every, request = c.group[0], me["request"]
    _to(every, now)
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
        _to(g, now)
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


END, SUBMIT, START = range(3)


@kernel
def walk(c, time, kind, job, run, late, which, out, count, judge):
    """Let the events happen, (time s, kind, job), in order; into `out` the features of every job when it is submitted and,
    where late[j], when it starts; which[i]: (job, START or SUBMIT) of the rows. `count`: rows so far. From event `judge` on
    jobs are forecast when they are submitted, so that errors are known."""
    for i in range(len(time)):
        j, now = job[i], time[i]
        if kind[i] == END:
            stopped(c, j, now, run[j])
            continue
        if kind[i] == SUBMIT:
            submitted(c, j, now)
            if i >= judge:
                forecast(c, c.of[j], now)
        if len(out) > 0 and (kind[i] == SUBMIT or late[j]):
            fill(c, c.of[j], now)
            for f in range(F):
                out[count[0], f] = c.x[f]
            which[count[0], 0], which[count[0], 1] = j, kind[i]
            count[0] += 1
        if kind[i] == START:
            started(c, j, now)


def events(submit: np.ndarray, start: np.ndarray, end: np.ndarray, until: float = np.inf) -> tuple[np.ndarray, ...]:
    """(time, kind, job) of jobs, in order: at one time ends (by row), submits, then starts. NaN: not yet."""
    J = len(submit)
    time = np.concatenate([end, submit, start])
    kind, job = np.repeat([END, SUBMIT, START], J), np.tile(np.arange(J), 3)
    known = np.flatnonzero(time <= until)
    turn = np.where((kind == END) & (np.tile(start, 3) == time), 3, kind)  # what ran for no time ends after it started
    order = known[np.lexsort((job[known], turn[known], time[known]))]
    return time[order], kind[order], job[order]
