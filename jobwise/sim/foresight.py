"""What a forest makes of a job: features of its campaign, and the forecast of its run time.

A forecast is made for all jobs of a key and line of work together, and made again when something has happened to the user.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import STARTED, STOPPED, SUBMITTED, TAU
from jobwise.sim.events import of_table
from jobwise.sim.forest import NOTHING, Forest, raw
from jobwise.sim.groups import ALL, KEY, LINE, USER, F, Memory, blank, entered
from jobwise.sim.memory import decay, expect, expect_job, forecast_of, started, stopped, submitted

LEAN = 1.0  # ends: how much a group leans on the wider one
STALE = 900.0  # s
PRIOR_RATIO, PRIOR_SHORT, PRIOR_LOG = 0.5, 0.1, -1.0
JUDGED = 1000  # jobs of the past that are forecast, to see whether requests are better
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
    *NAMES, *(f"{g}: {x}" for g in ("key", "line", "user") for x in ENDED), *(f"{g}: {x}" for g in ("key", "user") for x in NOW)
)  # fmt: skip
assert len(FEATURES) == F


@inlined
def _since(now, then):
    return np.log1p(min(max(now - then, 0.0), 1e7))


@kernel
def fill(memory, k, now):
    """The features of the jobs of cell k at time `now` (s) into c.x."""
    x, me = memory.x, memory.cell[k]
    every, run, request = memory.group[ALL], memory.run[ALL], me["request"]
    decay(every, now)
    n = run["count"] + 20.0
    ratio, short, log = (
        (run["ratio"] + 20.0 * PRIOR_RATIO) / n,
        (run["short"] + 20.0 * PRIOR_SHORT) / n,
        (run["log"] + 20.0 * PRIOR_LOG) / n,
    )
    x[0], x[1], x[2] = np.log(request), np.log(me["size"]), me["size"] / memory.total[0]
    x[3] = np.log1p(np.float64(max(every["waiting"], 0)))
    x[4], x[5], x[6] = ratio, short, log
    few = every["hour_count"] + 1.0
    x[7], x[8] = (every["hour_short"] + short) / few, (every["hour_log"] + log) / few
    at = 9 + 22  # of the user, the widest; then what is narrower leans on it
    for level in range(3):
        place = me["group"][USER if level == 0 else LINE if level == 1 else KEY]
        g, run = memory.group[place], memory.run[place]
        decay(g, now)
        n = 1.0 / (run["count"] + LEAN)
        ratio, short, log = (
            (run["ratio"] + LEAN * ratio) * n,
            (run["short"] + LEAN * short) * n,
            (run["log"] + LEAN * log) * n,
        )
        x[at], x[at + 1], x[at + 2], x[at + 3] = ratio, short, log, np.log1p(run["count"])
        n, m = 1.0 / (g["hour_count"] + 0.2), 1.0 / (g["day_count"] + 0.2)
        x[at + 4], x[at + 5], x[at + 6] = g["hour_count"], (g["hour_short"] + 0.2 * short) * n, g["hour_quick"] * n
        x[at + 7], x[at + 8], x[at + 9] = g["day_count"], (g["day_short"] + 0.2 * short) * m, g["day_quick"] * m
        x[at + 10] = (g["day_log"] + 0.2 * log) * m
        at -= 11
    at = 9 + 33
    for level in range(2):
        g = memory.group[me["group"][KEY if level == 0 else USER]]
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
def forecast(memory, k, now):
    """Bring the forecast of cell k up to date, where something has happened to its user or its key since, or it is old."""
    me = memory.cell[k]
    if me["made"] == np.inf:  # given
        return
    user, key = memory.group[me["group"][USER]], memory.group[me["group"][KEY]]
    same = me["news"] == user["news"] and me["own"] == key["news"]
    if same and me["made"] > -np.inf and (now - me["made"] < STALE or user["running"] == 0):
        return
    if len(memory.forest.tree) == 0:  # by what such jobs ran before
        me["ratio"], me["short"], _, _ = expect(memory, me["group"][KEY], me["group"][USER], me["request"])
    else:
        fill(memory, k, now)
        me["ratio"] = max(_chance(raw(memory.forest, memory.x, 0)), 1e-4)
        me["short"] = max(_chance(raw(memory.forest, memory.x, 1)), TAU / max(me["request"], TAU))
    me["made"], me["news"], me["own"] = now, user["news"], key["news"]


@kernel
def forecast_all(memory, rows, now, out):
    """out[i, 0], out[i, 1] = E[run / request] and E[10 / max(run, 10)] of job rows[i]."""
    for i in range(len(rows)):
        k = memory.of[rows[i]]
        forecast(memory, k, now)
        out[i, 0], out[i, 1] = forecast_of(memory, k)


@kernel
def _walk(memory, walltime, events, late, which, out, count, judge, forecasts):
    """Let the events [N] of jobs with these requests (s) happen. Into `out` go the features of every job when it is submitted
    and, where late[j], when it starts; which[i]: (job, kind of event) of the rows. `count`: rows so far. From event `judge` on
    jobs are forecast when they are submitted, so that errors are known; forecasts[j] is the forecast, where it has rows."""
    for i in range(len(events)):
        j, now, kind = events[i]["job"], events[i]["time"], events[i]["kind"]
        if kind == STOPPED:
            stopped(memory, j, walltime[j], now, events[i]["run"])
            continue
        if kind == SUBMITTED:
            submitted(memory, j, now)
            if i >= judge:
                forecast(memory, memory.of[j], now)
                if len(forecasts) > 0:
                    forecasts[j, 0], forecasts[j, 1] = forecast_of(memory, memory.of[j])
        if len(out) > 0 and (kind == SUBMITTED or late[j]):
            fill(memory, memory.of[j], now)
            for f in range(F):
                out[count[0], f] = memory.x[f]
            which[count[0], 0], which[count[0], 1] = j, kind
            count[0] += 1
        if kind == STARTED:
            started(memory, j, now)


@kernel
def _run_times(memory, past):
    """Take note of the run times of jobs that have ended."""
    for j in range(len(past)):
        stopped(memory, j, past[j]["walltime"], past[j]["end"], past[j]["runtime"])


NO_ROWS = np.empty((0, 2))


def after(
    past: np.ndarray, forest: Forest | None, total: int, since: float = np.inf, forecasts: np.ndarray = NO_ROWS
) -> Memory:
    """Return the memory of jobs that have ended: `past` [K] of past_dtype in order of end. Without a `forest` it knows run
    times alone. The last JUDGED jobs, and those submitted at `since` (s) or later, are forecast when they are submitted:
    into `forecasts` [K, 2], where it has rows."""
    of, began = np.empty(len(past), np.int32), np.full(len(past), np.nan)
    memory = entered(blank(total, forest, min(len(past), 1024)), past, of)
    if forest is None:
        _run_times(memory._replace(of=of), past)
        return memory
    events = of_table(past["submit"], past["end"] - past["runtime"], past["end"], past["runtime"])
    judge = int(np.searchsorted(events["time"], since)) - 3 * JUDGED
    none, which, count = np.empty((0, F)), np.empty((0, 2), np.int32), np.zeros(1, np.int64)
    late = np.zeros(len(past), bool)
    m = memory._replace(of=of, began=began)
    _walk(m, past["walltime"], events, late, which, none, count, max(judge, 0), forecasts)
    return memory


def features_of(past: np.ndarray, total: int, late: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(features [R, F], rows [R] of `past`) of jobs [K] that ended: of each when it was submitted and, where late[j], another
    row when it started."""
    rows = len(past) + int(late.sum())
    out, which, count = np.empty((rows, F)), np.empty((rows, 2), np.int32), np.zeros(1, np.int64)
    of = np.empty(len(past), np.int32)
    m = entered(blank(total, NOTHING, 1024), past, of)._replace(of=of, began=np.full(len(past), np.nan))
    events = of_table(past["submit"], past["end"] - past["runtime"], past["end"], past["runtime"])
    _walk(m, past["walltime"], events, late, which, out, count, 1 << 62, NO_ROWS)
    return out, which[:, 0]


@kernel
def _expected(memory, jobs, of, past, of_past, out):
    at = 0
    for j in range(len(jobs)):
        while at < len(past) and past[at]["end"] <= jobs[j]["submit"]:
            stopped(memory, of_past[at], past[at]["walltime"], past[at]["end"], past[at]["runtime"])
            at += 1
        out[j, 0], out[j, 1], out[j, 2], out[j, 3] = expect_job(memory, of[j], jobs[j]["walltime"])


def expected_at_submit(before: np.ndarray, jobs: np.ndarray, by_end: np.ndarray) -> np.ndarray:
    """Return the expectations [J, 4] of jobs from run times alone (`memory.expect`), each when it is submitted. `before` [K]
    and the jobs themselves, `by_end` [J], are of past_dtype in order of end."""
    of, of_past, out = np.empty(len(jobs), np.int32), np.empty(len(by_end), np.int32), np.empty((len(jobs), 4))
    memory = entered(entered(after(before, None, 1), jobs, of), by_end, of_past)
    cells = np.arange(len(memory.cell), dtype=np.int32)
    _expected(memory._replace(of=cells), jobs, of, by_end, of_past, out)
    return out
