"""Replay Slurm's scheduler with the recorded clocks: begins of passes, submits and run times are recorded, all decisions are
computed. So errors of the clocks are separate from errors of the scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jobwise.sim.state import runs_for
from jobwise.slurm.judge.fidelity import Fidelity
from jobwise.slurm.judge.open_loop import Check, RecordedRun
from jobwise.slurm.read.recording import Pass, Recording

LATE_S = 86_400  # passes go on for so long behind the recorded ones


def follow(recording: Recording, checked: Check) -> Fidelity:
    """Replay a recording with its clocks; nodes were completing as `checked` says. Waits are in whole seconds, as accounting
    has them. Raises InputError where it does not fit."""
    run = RecordedRun(recording)
    start = {x.row: x.time for p in recording.passes for x in p.starts}
    for p in recording.passes:
        for x in p.starts:
            runs_for(run.s, 0, int(run.place[x.row]), max(recording.end[x.row] - p.time, 1e-3))
    for p in _passes(recording):
        run.to(p.time)
        if run.s.sims[0]["ended"] == run.s.sims[0]["jobs"]:
            break
        if p.kind == "price":
            run.price()
        else:
            run.carry_out(p, checked.completing.get(p.time, ()))
            run.released_as_recorded()
    rows = np.array([row for row in start if row in recording.submit])
    submit, there = (np.floor([x[row] for row in rows]) for x in (recording.submit, start))
    table = run.s.jobs[0][run.place[rows]]
    makespan = float(np.nanmax(table["end"])), max(recording.end[row] for row in rows)
    return Fidelity("slurm", (np.floor(table["start"]) - submit)[None], there - submit, there, makespan)


def sentence(f: Fidelity) -> str:
    """Say how near the record a replay with its clocks comes."""
    close = f"{f.near:.0%} of {len(f.wait):,} jobs start near their recorded start (3 s and 5 % of the wait)"
    return f"With the recorded clocks, all decisions computed: {close}, the mean wait is {f.error:+.1%} off."


def _passes(recording: Recording) -> Iterator[Pass]:
    """The recorded passes, then more, should jobs still wait."""
    yield from recording.passes
    x, last = recording.workload.cluster.known_site.settings[0], recording.passes[-1].time
    for k in range(1, LATE_S):
        yield Pass("main", last + k)
        if k % max(int(x["bf_interval"]), 1) == 0:
            yield Pass("backfill", last + k + 0.5)
