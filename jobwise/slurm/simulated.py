"""A resource manager that is simulated: the interface of `client.Slurm`, without a cluster. Time passes in `wait`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from jobwise.slurm.client import Job, SlurmError


class ResourceManager(Protocol):
    """What `follow.py` asks of a cluster: `client.Slurm`, or `Simulated`. `stamps`: do its jobs run their scripts?"""

    stamps: bool

    def now(self) -> float:
        """s since 1970."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def cores(self) -> tuple[int, int]:
        """(cores, cores of the largest node)."""

    def jobs(self) -> list[Job]:
        """Jobs that wait, run, or have ended."""

    def submit(self, script: str, *, name: str, cores: int = 1, after: Sequence[int] = (), **more) -> int:
        """Submit a job to start after the jobs `after` have ended well; its id."""

    def cancel(self, ids: Sequence[int]) -> None:
        """Cancel jobs."""


@dataclass
class Simulated:
    """First come, first served on `size` cores of one machine, who fits starts. `seconds(name)`: how long a job of this name
    runs; `fails(name)`: its exit code."""

    size: int
    seconds: Callable[[str], float]
    fails: Callable[[str], int] = lambda name: 0
    time: float = 1.0  # a job that has not started has the start 0
    table: dict[int, Job] = field(default_factory=dict)
    after: dict[int, list[int]] = field(default_factory=dict)
    stamps: bool = False

    def now(self) -> float:
        """The simulated time."""
        return self.time

    def cores(self) -> tuple[int, int]:
        """One machine."""
        return self.size, self.size

    def jobs(self) -> list[Job]:
        """All jobs there ever were."""
        return list(self.table.values())

    def submit(self, script: str, *, name: str, cores: int = 1, after: Sequence[int] = (), **more) -> int:
        """See `ResourceManager`. Raises SlurmError for jobs that can never run."""
        if not script.startswith("#!") or cores > self.size:
            raise SlurmError(f"job {name} of {cores} cores cannot run on {self.size}")
        job = Job(len(self.table) + 1, name, "PENDING", "Priority", self.time, 0.0, 0.0, cores, 0)
        self.table[job.id], self.after[job.id] = job, list(after)
        self._start()
        return job.id

    def cancel(self, ids: Sequence[int]) -> None:
        """See `ResourceManager`."""
        for i in ids:
            if self.table[i].state in ("PENDING", "RUNNING"):
                self.table[i] = replace(self.table[i], state="CANCELLED", end=self.time)
        self._start()

    def wait(self, seconds: float) -> None:
        """On to the end of the next job, at most so many seconds."""
        ends = [j.end for j in self.table.values() if j.state == "RUNNING"]
        self.time = min([self.time + seconds, *ends])
        for j in [j for j in self.table.values() if j.state == "RUNNING" and j.end <= self.time]:
            code = self.fails(j.name)
            self.table[j.id] = replace(j, state="FAILED" if code else "COMPLETED", code=code)
        self._start()

    def _start(self) -> None:
        free = self.size - sum(j.cores for j in self.table.values() if j.state == "RUNNING")
        for j in [j for j in self.table.values() if j.state == "PENDING"]:
            parents = [self.table[i].state for i in self.after[j.id]]
            if any(p not in ("PENDING", "RUNNING", "COMPLETED") for p in parents):
                self.table[j.id] = replace(j, state="CANCELLED", reason="DependencyNeverSatisfied", end=self.time)
            elif j.cores <= free and all(p == "COMPLETED" for p in parents):
                end = self.time + self.seconds(j.name)
                self.table[j.id] = replace(j, state="RUNNING", reason="None", start=self.time, end=end)
                free -= j.cores
