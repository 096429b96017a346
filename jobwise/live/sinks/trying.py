"""Trial runs on a real Slurm (`steer --trial`): jobs whose users said yes run in gaps of the plan, and are put back in time.

A waiting job that may be requeued gets a least time limit (TimeMin): Slurm's own backfill then starts it in a gap of at least
that time, with this limit. Its limit is made longer, to the first start that Slurm plans for another job. What ends in the gap
has left the queue. When the gap is over the job is put back into the queue (`scontrol requeue`), or, where no other job waits,
gets its own limit back and goes on. With each run that came to nothing the least time is four times as long.

A job whose limit is short and that nobody looks after would be ended by Slurm. So OverTimeLimit must give it slack, the limits
of all jobs are on disk (`tried.json`) before Slurm is changed, and a watchdog (its own process) gives all limits back where
the steering process is killed or hangs. If both are killed the next start gives them back.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobwise.errors import InputError
from jobwise.live.state_folder import StateFolder, append, read_limits
from jobwise.slurm.client import LimitedJob, Slurm

QUANTUM, GROWTH = 1, 4  # minutes of the first gap, and how many times longer with each run that came to nothing
SLACK = 3  # minutes that OverTimeLimit must give
SPARE_S = 5.0  # beside a cycle: so long before its limit a job is put back
BEAT_S = 15.0  # beside two cycles: without a beat for so long, steering hangs
AGAIN_S, GIVE_UP_S = 2.0, 3600.0  # of the watchdog: between two tries to give limits back, and at most
FORGET_S = 60.0  # for which squeue must not list a job before it is forgotten
COUNTED = ("Resources", "Priority")  # reasons of jobs that wait for processors


@dataclass(frozen=True)
class Yes:
    """How users say yes: a job's `comment`, `qos` or `account` is `value`."""

    key: str
    value: str

    @classmethod
    def of(cls, text: str) -> Yes:
        """Return who says yes by a text KEY=VALUE. Raises InputError."""
        key, _, value = text.partition("=")
        if key not in ("comment", "qos", "account") or not value:
            raise InputError(
                f"--trial {text!r}: comment=WORD, qos=NAME or account=NAME is expected: the jobs whose users said yes"
            )
        return cls(key, value)

    def said(self, job: LimitedJob) -> bool:
        """Did the user of this job say yes?"""
        return getattr(job, self.key) == self.value


def least(job: LimitedJob) -> int:
    """The minutes that a gap must have for this job."""
    return QUANTUM * GROWTH ** min(job.restarts, 12)


def decide(job: LimitedJob, own: int, now: float, margin: float, others: bool, planned: float) -> tuple[str, str]:
    """(what is to be done with a job whose own limit is `own` minutes, why): "requeue", words for an update, or ""; and the
    reason. `margin` s; `others`: other jobs wait for processors; `planned`: the first start that Slurm plans for one."""
    gap = int(min((planned - job.start) / 60.0, own)) if job.state == "RUNNING" else 0
    if others and job.limit < gap:
        return f"TimeLimit={gap}", "the first start that is planned is as far away"
    if job.state == "RUNNING" and job.limit < own and job.end - now <= margin:
        if others:
            return "requeue", f"its gap is over in {max(job.end - now, 0.0):.0f} s, and others wait"
        return f"TimeLimit={own} TimeMin=0", "nobody else waits: it goes on with its own limit"
    if job.state == "PENDING" and (job.limit != own or job.least != least(job)) and least(job) < own:
        return f"TimeLimit={own} TimeMin={least(job)}", f"begun {job.restarts} times: it may run in a gap of {least(job)} min"
    if job.state == "PENDING" and least(job) >= own and (job.limit != own or job.least):
        return f"TimeLimit={own} TimeMin=0", "no gap can be long enough"
    return "", ""


class Trying:
    """Looks after the trial runs of a cluster. Raises InputError where Slurm gives jobs no slack beyond their limits."""

    def __init__(self, slurm: Slurm, state: StateFolder, yes: Yes, pause: float, dry: bool = False):
        self.slurm, self.state, self.yes, self.pause, self.dry = slurm, state, yes, pause, dry
        self._unseen: dict[int, float] = {}
        if (slack := slurm.slack()) < SLACK:
            raise InputError(
                f"--trial: OverTimeLimit is {slack:g} min in slurm.conf, so Slurm would end a job that nobody looks after; "
                f"set it to {SLACK} or more"
            )
        self._watchdog: Watchdog | None = None if dry else Watchdog(state.folder, 2 * pause + BEAT_S)

    def cycle(self, now: float, most: int) -> int:
        """Look at all jobs and do what is due; how many were changed. Raises SlurmError where Slurm does not answer."""
        if self._watchdog:
            self._watchdog.beat()
        jobs = {j.id: j for j in self.slurm.limited()}
        own = self._kept(jobs)
        new = [j for j in jobs.values() if j.id not in own and self._may(j)]
        own |= {j.id: j.limit for j in new[:most]}
        waiting = [j for j in jobs.values() if j.state == "PENDING" and j.reason in COUNTED]
        planned = min((j.start for j in waiting if j.start > now), default=now)
        acts: dict[int, tuple[str, str]] = {}
        for id in [id for id in own if id in jobs][:most]:
            act, why = decide(jobs[id], own[id], now, self.pause + SPARE_S, bool(waiting), planned)
            if act:
                acts[id] = act, why
        lines = [{"job": id, "act": act, "own": own[id], "why": why} for id, (act, why) in acts.items()]
        if self.dry:
            if lines:
                self.state.note("would try", *lines)
            return 0
        self.state.keep_tried(own)
        if not lines or not self.state.note("trial", *lines):
            return 0
        complaint = self.slurm.change({id: act for id, (act, _) in acts.items() if act != "requeue"})
        complaint += self.slurm.requeue([id for id, (act, _) in acts.items() if act == "requeue"])
        if complaint:
            self.state.note("refused", complaint=complaint)
        return len(lines)

    def _kept(self, jobs: dict[int, LimitedJob]) -> dict[int, int]:
        """The own limits of the jobs that are tried. One that has started with its own limit is tried no more; one that squeue
        does not list is forgotten after a while, for squeue may be wrong. A limit that somebody else has changed while the job
        waits is its own from then on."""
        at = time.monotonic()
        self._unseen = {id: self._unseen.get(id, at) for id in self.state.tried if id not in jobs}
        gone = {id for id, since in self._unseen.items() if at - since > FORGET_S}
        own = {id: x for id, x in self.state.tried.items() if id not in gone}
        own |= {id: j.limit for id, j in jobs.items() if id in own and j.state == "PENDING" and j.least == least(j)}
        return {id: x for id, x in own.items() if id not in jobs or jobs[id].state != "RUNNING" or jobs[id].limit < x}

    def _may(self, job: LimitedJob) -> bool:
        """May this job be tried? It waits, its user said yes, it may be requeued, and no least time of its user is changed."""
        asked = job.state == "PENDING" and self.yes.said(job) and job.requeue and job.plain
        return asked and job.least == 0 and least(job) < job.limit

    def close(self, left: dict[int, int]) -> None:
        """Let the watchdog go; where limits are `left` that Slurm has not taken back, it goes on trying."""
        if self._watchdog:
            self._watchdog.close(bool(left))


def give_back(slurm: Slurm, own: dict[int, int], reason: str, note: Callable[..., object]) -> dict[int, int]:
    """Give jobs their own limits back; those that Slurm has not confirmed. Jobs that squeue does not list get theirs, too:
    Slurm refuses those that have ended. Raises SlurmError where it does not answer."""
    if not own:
        return {}
    jobs = {j.id: j for j in slurm.limited()}
    change = {id: f"TimeLimit={x} TimeMin=0" for id, x in own.items() if id not in jobs or _changed(jobs[id], x)}
    if change:
        note("trial", *({"job": id, "act": act, "own": own[id], "why": f"undo: {reason}"} for id, act in change.items()))
        if complaint := slurm.change(change):
            note("refused", complaint=complaint)
        jobs = {j.id: j for j in slurm.limited()}
    return {id: x for id, x in own.items() if id in jobs and _changed(jobs[id], x)}


def _changed(job: LimitedJob, own: int) -> bool:
    return job.limit < own or (job.state == "PENDING" and job.least > 0)


# ------------------------------------------------------------------ the watchdog


class Watchdog:
    """A process that gives all limits back where this one is killed, or misses its beats for `patience` s."""

    def __init__(self, folder: Path, patience: float):
        self._words = [sys.executable, "-m", "jobwise.live.sinks.trying", str(folder.resolve()), str(patience)]
        self._process: subprocess.Popen | None = None

    def beat(self) -> None:
        """Say that this process is at work; begin the watchdog where it is not there."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, start_new_session=True)
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.write(b".")
            self._process.stdin.flush()

    def close(self, goes_on: bool) -> None:
        """End it; `goes_on`: it gives back what is left."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                if not goes_on:
                    self._process.stdin.write(b"q")
                self._process.stdin.close()
                if not goes_on:
                    self._process.wait(5)


def watch(folder: Path, patience: float, line: int = 0) -> int:
    """Wait for beats on `line`; where they stop, give all limits back. The exit code: 0, or 1 where Slurm never answered."""
    for n in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(n, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([line], [], [], patience)
        said = os.read(line, 4096) if ready else b""
        if b"q" in said:
            return 0
        if said:
            continue
        end, reason = time.monotonic() + GIVE_UP_S, "steering was killed" if ready else "steering misses its cycles"
        while time.monotonic() < end:
            with suppress(Exception):  # whatever Slurm answers, it tries again
                if not give_back(Slurm(), read_limits(folder), reason, lambda *x, **more: append(folder, *x, **more)):
                    return 0
            time.sleep(AGAIN_S)
        return 1


if __name__ == "__main__":
    sys.exit(watch(Path(sys.argv[1]), float(sys.argv[2])))
