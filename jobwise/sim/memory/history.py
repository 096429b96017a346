"""The memory of a scheduler before its jobs come: what it knows of those that have ended."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel
from jobwise.jobs import STARTED, STOPPED, SUBMITTED
from jobwise.sim.events import of_table
from jobwise.sim.memory.groups import Memory, blank, entered
from jobwise.sim.memory.memory import expect_job, forecast, started, stopped

JUDGED = 1000  # jobs of the past that are forecast, to see whether requests are better


@kernel
def _walk(memory, walltime, events, judge):
    """Let the events [N] of jobs with these requests (s) happen; from event `judge` on jobs are forecast when they are
    submitted, so that errors are known."""
    for i in range(len(events)):
        j, now, kind = events[i]["job"], events[i]["time"], events[i]["kind"]
        if kind == STOPPED:
            stopped(memory, j, walltime[j], now, events[i]["run"])
        elif kind == SUBMITTED and i >= judge:
            forecast(memory, memory.of[j], now)
        elif kind == STARTED:
            started(memory, j, now)


@kernel
def _run_times(memory, past):
    """Take note of the run times of jobs that have ended."""
    for j in range(len(past)):
        stopped(memory, j, past[j]["walltime"], past[j]["end"], past[j]["runtime"])


def after(past: np.ndarray, total: int, forecasts: bool = False) -> Memory:
    """Return the memory of jobs that have ended on `total` processors: `past` [K] of past_dtype in order of end. Without
    `forecasts` it knows run times alone; with them the last JUDGED jobs are forecast when they are submitted."""
    of, began = np.empty(len(past), np.int32), np.full(len(past), np.nan)
    memory = entered(blank(total, forecasts, min(len(past), 1024)), past, of)
    if not forecasts:
        _run_times(memory._replace(of=of), past)
        return memory
    events = of_table(past["submit"], past["end"] - past["runtime"], past["end"], past["runtime"])
    _walk(memory._replace(of=of, began=began), past["walltime"], events, max(len(events) - 3 * JUDGED, 0))
    return memory


def begin(past: np.ndarray, jobs: np.ndarray, total: int, forecasts: bool) -> Memory:
    """Return the memory of a scheduler of these jobs [J] before the first of them has come; `past`, `forecasts`: see
    `after`."""
    of = np.empty(len(jobs), np.int32)
    memory = entered(after(past, total, forecasts), jobs, of)
    return memory._replace(of=of, began=np.full(len(jobs), np.nan))


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
    memory = entered(entered(after(before, 1), jobs, of), by_end, of_past)
    cells = np.arange(len(memory.cell), dtype=np.int32)
    _expected(memory._replace(of=cells), jobs, of, by_end, of_past, out)
    return out
