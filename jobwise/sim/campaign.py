"""What is known of a job before it runs, event by event.

Four groups are kept for each job: its key (user, request, processors), its line of work (user, application, queue, memory),
its user, everyone. Each remembers how its jobs ended (all, those of the last hour, of the last day), what runs and waits of it,
and its campaign: jobs submitted with less than ten minutes between two. O(1) for an event. What a forest makes of it:
`foresight.py`.

Where requests have lately told twice as much of 10 / run as the forecasts did, requests are believed (`trusts`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import TAU
from jobwise.sim.forest import NOTHING, Forest

FADE = 0.95
HOUR, DAY, GAP = 3600.0, 86_400.0, 600.0  # s
QUICK = 60.0  # s: jobs that ran for less are counted
FORGET, ENOUGH = 0.999, 100.0  # of errors
GROUPS = ("key", "line", "user")
F = 64  # features that `foresight.py` makes of it
RECENT = 2000  # jobs that ended last
KNOWN = ("user", "app", "queue", "memory", "walltime", "size")  # of a job before it runs

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
    """Nothing has happened yet to these jobs; `table`: columns KNOWN [J]."""
    user, app, queue, memory, request, size = (np.asarray(table[k]) for k in KNOWN)
    whole = request.astype(np.int64)
    of_user, users = _numbers(user)
    of_key, keys = _numbers(user, whole, size)
    of_line, lines = _numbers(user, app, queue, memory)
    of, cells = _numbers(of_key, of_line)
    group = np.zeros(1 + users + keys + lines, group_dtype)
    for name in ("seen", "ended", "submitted", "started", "burst"):
        group[name] = -np.inf
    cell, first = np.zeros(cells, cell_dtype), np.zeros(cells, np.int64)
    first[of[::-1]] = np.arange(len(of))[::-1]
    cell["user"], cell["key"], cell["line"] = 1 + of_user[first], 1 + users + of_key[first], 1 + users + keys + of_line[first]
    cell["request"], cell["size"], cell["made"] = np.maximum(request[first], 1.0), size[first], -np.inf
    return Campaign(
        group=group,
        cell=cell,
        of=of.astype(np.int32),
        began=np.zeros(len(of)),
        x=np.zeros(F),
        forest=forest,
        total=np.array([max(total, 1)], np.int64),
        recent=np.zeros((RECENT, 2)),
        ended=np.zeros(1),
        error=np.zeros(3),
    )


def given(request: np.ndarray, size: np.ndarray, forecasts: np.ndarray, total: int) -> Campaign:
    """Jobs whose forecasts are given, and stay: `forecasts` [J, 2] E[min(run / request, 1)] and E[10 / max(run, 10)]."""
    every = np.arange(len(request))
    c = build(dict.fromkeys(KNOWN, every * 0) | {"queue": every}, NOTHING, total)
    c.cell["request"], c.cell["size"], c.cell["made"] = np.maximum(request, 1.0), size, np.inf
    c.cell["ratio"], c.cell["short"] = forecasts[:, 0], forecasts[:, 1]
    return c


def renewed(c: Campaign, forest: Forest) -> Campaign:
    """From now on these trees forecast, and what was forecast is forecast anew."""
    c.cell["news"] = -1
    return c._replace(forest=forest)


def _numbers(*columns: np.ndarray) -> tuple[np.ndarray, int]:
    """(which of the different rows of these columns each row is [J], how many there are)."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for c in columns:
        own = np.unique(c, return_inverse=True)[1]
        numbers = np.unique(numbers * (len(c) + 1) + own, return_inverse=True)[1]
    return numbers, int(numbers.max(initial=-1)) + 1


NO_CAMPAIGN = build({k: np.zeros(0) for k in KNOWN}, NOTHING, 1)


@inlined
def to(g, now):
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


@inlined
def _group(x, level):
    """Which group of a cell: everyone, its user, its key, its line of work."""
    return 0 if level == 0 else x["user"] if level == 1 else x["key"] if level == 2 else x["line"]


@kernel
def submitted(c, j, now):
    """Take note that job j was submitted."""
    x = c.cell[c.of[j]]
    for level in range(4):
        g = c.group[_group(x, level)]
        if now - g["submitted"] > GAP:
            g["burst"], g["size"], g["ends"] = now, 0, 0
        g["submitted"] = now
        g["size"] += 1
        g["waiting"] += 1


@kernel
def started(c, j, now):
    """Take note that job j starts."""
    x = c.cell[c.of[j]]
    c.began[j] = now
    for level in range(4):
        g = c.group[_group(x, level)]
        g["waiting"] -= 1
        g["running"] += 1
        g["started"] = now
        g["starts"] += now
    c.group[x["key"]]["news"] += 1


@inlined
def trusts(c):
    """Return whether requests are believed now."""
    return c.error[2] > ENOUGH and c.error[0] > 2.0 * c.error[1]


@inlined
def told(c, k):
    """(E[run / request], E[10 / max(run, 10)]) of the jobs of cell k, as last forecast."""
    x = c.cell[k]
    if trusts(c):
        return 1.0, TAU / max(x["request"], TAU)
    return x["ratio"], x["short"]


@inlined
def run_of(c, j):
    """The forecast of the run time of job j, s."""
    return told(c, c.of[j])[0] * c.cell[c.of[j]]["request"]


@inlined
def index(c, k):
    """The log of processors E[run] / E[1 / max(run, 10)] of the jobs of cell k."""
    ratio, short = told(c, k)
    return np.log(c.cell[k]["size"] * ratio * c.cell[k]["request"] / short)


@kernel
def stopped(c, j, now, run):
    """Job j runs no more; it has ended after `run` s, or (NaN) waits again."""
    x = c.cell[c.of[j]]
    request = x["request"]
    ratio, short = min(run / request, 1.0), TAU / max(run, TAU)
    log = np.log(max(run, TAU) / max(request, TAU))
    for level in range(4):
        g = c.group[_group(x, level)]
        g["running"] -= 1
        g["starts"] -= c.began[j]
        g["news"] += 1
        if np.isnan(run):
            g["waiting"] += 1
            continue
        to(g, now)
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
        c.recent[at, 0] = index(c, c.of[j])
        c.recent[at, 1] = x["size"] * max(run, 1.0)
        c.ended[0] += 1.0


END, SUBMIT, START = range(3)


def events(submit: np.ndarray, start: np.ndarray, end: np.ndarray, until: float = np.inf) -> tuple[np.ndarray, ...]:
    """(time, kind, job) of jobs, in order: at one time ends (by row), submits, then starts. NaN: not yet."""
    J = len(submit)
    time = np.concatenate([end, submit, start])
    kind, job = np.repeat([END, SUBMIT, START], J), np.tile(np.arange(J), 3)
    known = np.flatnonzero(time <= until)
    turn = np.where((kind == END) & (np.tile(start, 3) == time), 3, kind)  # what ran for no time ends after it started
    order = known[np.lexsort((job[known], turn[known], time[known]))]
    return time[order], kind[order], job[order]
