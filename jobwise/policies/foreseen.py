"""What a forest sees of jobs: begun with those that ended before, and kept up to date where a policy is asked view by view."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from jobwise.decision import View
from jobwise.jobs import RUNNING
from jobwise.policies import files
from jobwise.sim import campaign, foresight
from jobwise.sim.campaign import Campaign
from jobwise.sim.forest import Forest, from_tensors

PRETRAINED = Path(__file__).parent.parent / "pretrained"
JUDGED = 1000  # jobs of the past that are forecast, to see whether requests are better
MANY = 1 << 62


@cache
def shipped() -> Forest:
    """The forest that comes with the package."""
    _, tensors, _, _ = files.read(PRETRAINED / "smith-forecast.safetensors")
    return from_tensors(tensors, campaign.F)


def begin(forest: Forest, past: np.ndarray, jobs: np.ndarray, total: int) -> Campaign:
    """Return a forest's features of these jobs [J] before the first of them has come: `past` [K] in order of end."""
    return _begun(forest, past, jobs, total)[0]


def _begun(forest: Forest, past: np.ndarray, jobs: np.ndarray, total: int) -> tuple[Campaign, np.ndarray]:
    """The same, and the cells [K] of the past."""
    c = _build(forest, past, jobs, total)
    start = past["end"] - past["runtime"]
    happened = campaign.events(past["submit"], start, past["end"])
    _walk(c, happened, past["runtime"], max(len(happened[0]) - 3 * JUDGED, 0))
    return _without(c, len(past)), c.of[: len(past)]


def at_submit(forest: Forest, past: np.ndarray, total: int, since: float) -> np.ndarray:
    """[K, 2] what was forecast of jobs that have ended, when they were submitted: of those that came at `since` (s) or later.
    `past` [K] in order of end."""
    c, said = campaign.build({k: past[k] for k in campaign.KNOWN}, forest, total), np.empty((len(past), 2))
    start = past["end"] - past["runtime"]
    happened = campaign.events(past["submit"], start, past["end"])
    first = int(np.searchsorted(happened[0], since))
    _walk(c, happened, past["runtime"], max(first - 3 * JUDGED, 0), said)
    return said


def _without(c: Campaign, past: int) -> Campaign:
    """The same, of the jobs behind those of the past."""
    return c._replace(of=c.of[past:].copy(), began=c.began[past:].copy())


def _build(forest: Forest, past: np.ndarray, jobs: np.ndarray, total: int) -> Campaign:
    both = {k: np.concatenate([past[k], jobs[k]]) for k in campaign.KNOWN[:-1]}
    return campaign.build(both | {"size": np.concatenate([past["size"], jobs["request"][:, 0]])}, forest, total)


def _walk(c: Campaign, happened: tuple, run: np.ndarray, judge: int, said: np.ndarray = np.empty((0, 2))) -> None:
    none, which, count = np.empty((0, campaign.F)), np.empty((0, 2), np.int32), np.zeros(1, np.int64)
    foresight.walk(c, *happened, run, np.zeros(len(run), bool), which, none, count, judge, said)


class Foreseen:
    """The features for a policy that is asked, in a simulation or on a live cluster. It may begin in the middle."""

    def __init__(self, forest: Forest, view: View):
        self._forest, self._past, self._total = forest, view.past, view.cluster.processors
        self._c, self._of_past = _begun(forest, view.past, view.jobs, self._total)
        jobs, now = view.jobs, view.now
        start = np.where(np.isnan(jobs["end"]), np.nan, jobs["end"] - jobs["ran"])
        running = np.flatnonzero(jobs["status"] == RUNNING)
        start[running] = _started(jobs, running)
        before = np.isin(np.arange(len(jobs)), view.queue) & (jobs["submit"] < now) | ~np.isnan(start)
        happened = campaign.events(np.where(before, jobs["submit"], np.nan), start, jobs["end"], now)
        _walk(self._c, happened, jobs["ran"], MANY)
        self._come, self._begun = before, ~np.isnan(start)

    def ended(self, view: View, rows: np.ndarray) -> None:
        """These jobs have stopped running."""
        self._catch_up(view, rows, False)
        for j in rows.tolist():
            job = view.jobs[j]
            run = np.nan if np.isnan(job["end"]) else float(job["ran"])
            campaign.stopped(self._c, j, view.now, run)
            self._begun[j] = not np.isnan(run)

    def renew(self, forest: Forest) -> None:
        """From now on these trees forecast."""
        self._forest, self._c = forest, campaign.renewed(self._c, forest)

    def now(self, view: View) -> Campaign:
        """Return the features of now, with what came now."""
        self._catch_up(view, view.running, True)
        return self._c

    def forecast(self, view: View, out: np.ndarray) -> None:
        """out[:, :2] = E[run / request] and E[10 / max(run, 10)] of the queue [Q]."""
        foresight.forecast_all(self.now(view), view.queue, view.now, out)

    def _catch_up(self, view: View, rows: np.ndarray, now: bool) -> None:
        """Take note of what has come and of what has started since the last time, in order; `now`: also of what came now."""
        old, J = len(self._come), len(view.jobs)
        if old < J:
            c, K = _build(self._forest, self._past, view.jobs, self._total), len(self._past)
            self._carry(c, K)
            self._c = _without(c, K)._replace(**{k: getattr(self._c, k) for k in ("error", "recent", "ended")})
            more = np.zeros(J - old, bool)
            self._come, self._begun = np.append(self._come, more), np.append(self._begun, more)
        active = np.unique(np.concatenate([rows, view.running]))
        begun = active[~self._begun[active]]
        end = view.jobs["end"][begun]
        start = np.where(np.isnan(end), _started(view.jobs, begun), end - view.jobs["ran"][begun])
        there = np.unique(np.concatenate([active, view.queue]))
        come = there[~self._come[there]]
        queued = np.where(np.isnan(view.jobs["queued"][come]), view.jobs["submit"][come], view.jobs["queued"][come])
        if not now:
            come, queued = come[queued < view.now], queued[queued < view.now]
        time, kind = np.concatenate([queued, start]), np.repeat([campaign.SUBMIT, campaign.START], [len(come), len(begun)])
        job = np.concatenate([come, begun])
        for i in np.lexsort((job, kind, time)):
            (campaign.submitted if kind[i] == campaign.SUBMIT else campaign.started)(self._c, int(job[i]), float(time[i]))
        self._come[come], self._begun[begun] = True, True

    def _carry(self, c: Campaign, past: int) -> None:
        """Put what is known into larger tables, in which other numbers stand for the same groups."""
        old, of = self._c, np.concatenate([self._of_past, self._c.of])
        new = c.of[: past + len(self._c.of)]
        here, there = c.cell[new], old.cell[of]
        for g in campaign.GROUPS:
            c.group[here[g]] = old.group[there[g]]
        c.group[0] = old.group[0]
        for key in ("made", "news", "own", "ratio", "short"):
            c.cell[key][new] = there[key]
        c.began[past : len(new)] = old.began
        self._of_past = c.of[:past]


def _started(jobs: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """When the current run of these began, s."""
    return jobs["due"][rows] - np.maximum(np.maximum(jobs["walltime"][rows], 1.0) - jobs["ran"][rows], 1.0)
