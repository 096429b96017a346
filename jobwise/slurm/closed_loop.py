"""Slurm's scheduler with the recorded clocks: passes begin when they did, jobs come when they did and run as long; all that is
decided is computed. So an error of the clocks is told apart from one of the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jobwise.sim.state import runs_for
from jobwise.slurm.fidelity import correlation, near
from jobwise.slurm.open_loop import Check, Run
from jobwise.slurm.recording import Pass, Recording

LATE_S = 86_400  # passes go on for so long behind the recorded ones


@dataclass(frozen=True)
class Followed:
    """Waits [J] s with the recorded clocks, in whole seconds as accounting has them; `recorded` [J] s; `start` [J] s."""

    waits: np.ndarray
    recorded: np.ndarray
    start: np.ndarray

    @property
    def error(self) -> float:
        """The error of the mean wait as a share of the recorded one."""
        return float(self.waits.mean() / max(self.recorded.mean(), 1e-9) - 1)

    @property
    def near(self) -> float:
        """Share of the jobs that start near the recorded start."""
        return near(self.recorded, self.waits)

    @property
    def order(self) -> float:
        """Rank correlation of the starts."""
        return correlation(self.start, self.start + self.waits - self.recorded)

    def sentence(self) -> str:
        """Say how near the record it comes."""
        near = f"{self.near:.0%} of {len(self.waits):,} jobs start near their recorded start (3 s and 5 % of the wait)"
        return f"With the recorded clocks, all decisions computed: {near}, the mean wait is {self.error:+.1%} off."

    def to_dict(self) -> dict[str, float]:
        """Return its numbers as JSON takes them."""
        return {"jobs": len(self.waits), "mean_wait_error": self.error, "near": self.near, "order": self.order}


def follow(recording: Recording, checked: Check) -> Followed:
    """Replay a recording with its clocks; nodes were completing as `checked` says. Raises InputError where it does not fit."""
    run = Run(recording)
    start = {x.row: x.time for p in recording.passes for x in p.starts}
    begun = {x.row: p.time for p in recording.passes for x in p.starts}
    for row, t in begun.items():
        runs_for(run.s, 0, int(run.place[row]), max(recording.end[row] - t, 1e-3))
    for p in _passes(recording):
        run.to(p.time)
        if run.s.sims[0]["ended"] == run.s.sims[0]["jobs"]:
            break
        if p.kind == "price":
            run.price()
        else:
            run.carry_out(p, checked.completing.get(p.time, ()))
    rows = np.array([row for row in start if row in recording.submit])
    submit, there = np.array([recording.submit[x] for x in rows]), np.array([start[x] for x in rows])
    here = run.s.jobs[0]["start"][run.place[rows]]
    return Followed(np.floor(here) - np.floor(submit), np.floor(there) - np.floor(submit), np.floor(there))


def _passes(recording: Recording) -> Iterator[Pass]:
    """The recorded passes, then more, should jobs still wait."""
    yield from recording.passes
    x, last = recording.workload.cluster.known_site.settings[0], recording.passes[-1].time
    for k in range(1, LATE_S):
        yield Pass("main", last + k)
        if k % max(int(x["bf_interval"]), 1) == 0:
            yield Pass("backfill", last + k + 0.5)
