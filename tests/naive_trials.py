"""The slow, obvious twin of trial runs: list scheduling on a pool in plain Python, every rule as `sim/pool/trials.py` says it."""

from __future__ import annotations

import numpy as np
from naive import INF, score

import jobwise as jw


class Twin:
    """One replay. `jobs`: dictionaries of `submit`, `procs`, `walltime`, `runtime`, `may_again`, in order of submit."""

    def __init__(self, jobs, machine, order, backfill="easy", guard=INF, quantum=60.0, share=0.0, restart_s=0.0):
        self.coming = [dict(j, row=row, tries=0, start=None, trial=False) for row, j in enumerate(jobs)]
        self.jobs, self.machine, self.order, self.backfill, self.guard = list(self.coming), machine, order, backfill, guard
        self.quantum, self.kept, self.restart_s = quantum, int(share * machine), restart_s
        self.waiting, self.normal, self.now = [], [], 0.0  # jobs in trial runs still wait
        self.trials = self.shown = self.kills = 0
        self.lost = 0.0

    def run(self):
        """To the end."""
        while self.coming or self.normal or self.waiting:
            trying = [j for j in self.waiting if j["trial"]]
            self.now = min([j["submit"] for j in self.coming[:1]] + [j["end"] for j in self.normal + trying])
            self.normal = [j for j in self.normal if j["end"] > self.now]
            over = [j for j in trying if j["end"] <= self.now]
            self.shown += len(over)
            self.waiting = [j for j in self.waiting if j not in over]
            while self.coming and self.coming[0]["submit"] <= self.now:
                self.waiting.append(self.coming.pop(0))
            self.start_normally()
            self.start_trials()
        return self

    def free(self):
        return self.machine - sum(j["procs"] for j in self.normal) - sum(j["procs"] for j in self.waiting if j["trial"])

    def for_starts(self):
        return self.machine - sum(j["procs"] for j in self.normal)

    def need(self, job):
        n = job["procs"] + self.kept
        return job["procs"] if n > self.machine or self.now - job["submit"] > self.guard else n

    def key(self, job):
        if self.now - job["submit"] > self.guard:
            return (-INF, job["row"])
        return (score(self.order, job, self.now, 0.0, 0), job["row"])

    def due(self, job):
        """The estimated end of a job that starts now, or has started."""
        return (self.now if job["start"] is None else job["start"]) + max(job["walltime"], 1.0)

    def begin(self, job):
        job["start"] = self.now
        job["end"] = self.now + job["runtime"] + (self.restart_s if job["tries"] else 0.0)
        job["tries"] += 1

    def stop(self, job):
        work = min(self.now - job["start"], INF) - (self.restart_s if job["tries"] > 1 else 0.0)
        self.lost += max(work, 0.0) * job["procs"]
        self.kills += 1
        job["start"], job["end"], job["trial"] = None, None, False

    def launch(self, job):
        self.waiting.remove(job)
        if job["trial"]:
            job["trial"] = False
        else:
            while job["procs"] > self.free():
                self.stop(self.victim())
            self.begin(job)
        self.normal.append(job)

    def victim(self):
        """The trial run that a start stops first."""
        return max((j for j in self.waiting if j["trial"]), key=self.key)

    def shadow(self, need):
        for t in sorted({max(self.due(j), self.now) for j in self.normal}):
            there = self.for_starts() + sum(j["procs"] for j in self.normal if max(self.due(j), self.now) <= t)
            if there >= need:
                return t, there - need
        return INF, INF

    def start_normally(self):
        while self.waiting:
            head = min(self.waiting, key=self.key)
            if self.need(head) > self.for_starts():
                break
            self.launch(head)
        if not self.waiting or self.backfill == "none":
            return
        t, extra = self.shadow(self.need(head))
        while True:
            able = [j for j in self.waiting if self.need(j) <= self.for_starts() and (self.due(j) <= t or j["procs"] <= extra)]
            if not able:
                return
            job = min(able, key=self.key)
            if self.due(job) > t:
                extra -= job["procs"]
            self.launch(job)

    def start_trials(self):
        while True:
            able = [j for j in self.waiting if j["may_again"] and not j["trial"] and j["procs"] <= self.free() + self.yields(j)]
            if not able:
                return
            job = min(able, key=lambda j: (j["tries"], j["procs"] * max(j["walltime"], 1.0), j["row"]))
            while job["procs"] > self.free():
                self.stop(max(self.yielding(job), key=lambda j: (j["tries"], *self.key(j))))
            self.begin(job)
            job["trial"] = True
            self.trials += 1

    def yielding(self, job):
        """The trial runs that make room for a job."""
        had = [j for j in self.waiting if j["trial"] and self.now - j["start"] >= self.quantum * 4.0 ** (j["tries"] - 1)]
        return [j for j in had if j["tries"] > job["tries"]]

    def yields(self, job):
        return sum(j["procs"] for j in self.yielding(job))


def table(workload) -> list[dict]:
    """A workload as the list of dictionaries that `Twin` takes."""
    return [
        {"submit": float(j["submit"]), "procs": int(j["request"][0]), "walltime": float(j["walltime"]), "runtime": float(t),
         "may_again": bool(j["restartable"])}
        for j, t in zip(workload.jobs, workload.truth["runtime"], strict=True)
    ]  # fmt: skip


def busy(seed, jobs=120, share=1.0, procs=16):
    """Jobs of a busy pool, many of which end long before their request; a share of them may be begun again."""
    rng = np.random.default_rng(seed)
    asked = rng.choice([20.0, 90.0, 600.0, 3600.0, 7200.0], jobs)
    runs = np.where(rng.random(jobs) < 0.5, rng.integers(1, 60, jobs), np.ceil(asked * rng.random(jobs)))
    submit = np.cumsum(rng.integers(0, 400, jobs) * (rng.random(jobs) < 0.6))
    w = jw.workload(submit, rng.integers(1, procs + 1, jobs), np.minimum(runs, asked), asked, cluster=jw.pool(procs))
    w.jobs["restartable"] = rng.random(jobs) < share
    return w
