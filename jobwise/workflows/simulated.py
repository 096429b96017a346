"""A resource manager that is simulated: the interface of `client.Slurm`, without a cluster. Time passes in `wait`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from jobwise.errors import InputError
from jobwise.files import write_whole, writing
from jobwise.slurm.client import LOST_S, Node, Refused, SlurmError, SlurmJob


class ResourceManager(Protocol):
    """The interface that `follow.py` asks: `client.Slurm`, or `Simulated`. `stamps`: do its jobs run their scripts? `lost_s`: a
    job that neither runs nor left a stamp is given up after so long; 0: at once."""

    stamps: bool
    lost_s: float

    def now(self) -> float:
        """Return the time in s since 1970."""

    def wait(self, seconds: float) -> None:
        """Let `seconds` seconds pass by."""

    def cores(self) -> tuple[int, int]:
        """(cores, cores of the largest node)."""

    def pools(self) -> dict[str, int]:
        """Return what it counts beside cores, over all nodes: `memory` (MB), `gpus`."""

    def ranks(self, count: int) -> list[str]:
        """Return the words before a command that start it as `count` MPI ranks."""

    def jobs(self) -> list[SlurmJob]:
        """Jobs that wait, run, or have ended."""

    def nodes(self) -> list[Node]:
        """Return the nodes by their names."""

    def anywhere(self, id: int) -> None:
        """A job that waits for a node may run on any."""

    def submit(self, script: str, *, name: str, cores: int = 1, after: Sequence[int] = (), node: str = "", **more: Any) -> int:
        """Submit a job to start after the jobs `after` have ended well, on `node` if it is named; its id."""

    def cancel(self, ids: Sequence[int]) -> None:
        """Cancel jobs by their numbers."""


@dataclass
class Simulated:
    """First come, first served on `size` cores of each of `machines` (names and kinds), who fits starts. `shared`: memory (MB)
    and GPUs of them all, where they are counted. `seconds(name)`: how
    long a job of this name runs; `slower(name, kind)`: how many times as long on a machine of this kind; `fails(name)`: its
    exit code."""

    size: int
    seconds: Callable[[str], float]
    fails: Callable[[str], int] = lambda name: 0
    machines: dict[str, str] = field(default_factory=lambda: {"node0": ""})
    slower: Callable[[str, str], float] = lambda name, kind: 1.0
    time: float = 1.0  # a job that has not started has the start 0
    shared: dict[str, int] = field(default_factory=dict)
    asked: dict[int, str] = field(default_factory=dict)  # the machines that jobs wait for
    amounts: dict[int, dict[str, float]] = field(default_factory=dict)  # of `shared`, by job
    table: dict[int, SlurmJob] = field(default_factory=dict)
    after: dict[int, list[int]] = field(default_factory=dict)
    stamps: bool = False
    lost_s: float = LOST_S
    journal: Path | None = None  # a file of all that it was asked to do: the next one with it is where this one was

    def __post_init__(self):
        if self.journal is not None:
            self.lost_s = 0.0  # its table is whole: a job that is not in it was never submitted
            self._replay(self.journal)
            with writing(self.journal):
                self.journal.parent.mkdir(parents=True, exist_ok=True)
            if not self.journal.exists() or not self.journal.stat().st_size:
                self._note("begin", self._machine())

    def now(self) -> float:
        """Return the simulated time in s."""
        return self.time

    def cores(self) -> tuple[int, int]:
        """All, and of one machine."""
        return self.size * len(self.machines), self.size

    def pools(self) -> dict[str, int]:
        """Return what is counted beside cores."""
        return dict(self.shared)

    def ranks(self, count: int) -> list[str]:
        """Return no words: commands are not run."""
        return []

    def _left(self) -> dict[str, float]:
        """Return the free amount of each resource."""
        running = [self.amounts.get(j.id, {}) for j in self.table.values() if j.state == "RUNNING"]
        return {k: total - sum(x.get(k, 0.0) for x in running) for k, total in self.shared.items()}

    def nodes(self) -> list[Node]:
        """Return the machines by their names."""
        return [Node(name, self.size, self._free(name), kind) for name, kind in sorted(self.machines.items())]

    def _free(self, machine: str) -> int:
        return self.size - sum(j.cores for j in self.table.values() if j.state == "RUNNING" and j.node == machine)

    def anywhere(self, id: int) -> None:
        """Answer as `ResourceManager.anywhere` must, for the simulator."""
        self._note("anywhere", id)
        self.asked.pop(id, None)
        self._start()

    def jobs(self) -> list[SlurmJob]:
        """All jobs there ever were."""
        return list(self.table.values())

    def submit(
        self, script: str, *, name: str, cores: int = 1, after: Sequence[int] = (), node: str = "", memory_mb: float = 0.0,
        gpus: int = 0, **more: Any,
    ) -> int:  # fmt: skip
        """See `ResourceManager`. Raises SlurmError for jobs that can never run."""
        amounts = {k: v for k, v in {"memory": memory_mb, "gpus": gpus}.items() if k in self.shared}
        if not script.startswith("#!") or cores > self.size or (node and node not in self.machines):
            raise SlurmError(f"job {name} of {cores} cores cannot run on {self.size}")
        if lacks := [k for k, v in amounts.items() if v > self.shared[k]]:
            raise Refused(f"job {name}: its {lacks[0]}, {amounts[lacks[0]]:g}, is more than the {self.shared[lacks[0]]:,} here")
        about = {"name": name, "cores": cores, "after": list(after), "node": node} | amounts
        self._note("submit", about | {"seconds": self.seconds(name)})
        job = SlurmJob(len(self.table) + 1, name, "PENDING", "Priority", self.time, 0.0, 0.0, cores, 0)
        self.table[job.id], self.after[job.id], self.amounts[job.id] = job, list(after), amounts
        self.asked |= {job.id: node} if node else {}
        self._start()
        return job.id

    def cancel(self, ids: Sequence[int]) -> None:
        """Cancel jobs as `ResourceManager.cancel` must."""
        self._note("cancel", list(ids))
        for i in ids:
            if self.table[i].state in ("PENDING", "RUNNING"):
                self.table[i] = replace(self.table[i], state="CANCELLED", end=self.time)
        self._start()

    def wait(self, seconds: float) -> None:
        """Move to the end of the next job, by at most `seconds` s."""
        self._note("wait", seconds)
        ends = [j.end for j in self.table.values() if j.state == "RUNNING"]
        self.time = min([self.time + seconds, *ends])
        for j in [j for j in self.table.values() if j.state == "RUNNING" and j.end <= self.time]:
            code = self.fails(j.name)
            self.table[j.id] = replace(j, state="FAILED" if code else "COMPLETED", code=code)
        self._start()

    def _start(self) -> None:
        free, left = {name: self._free(name) for name in self.machines}, self._left()
        for j in [j for j in self.table.values() if j.state == "PENDING"]:
            amounts = self.amounts.get(j.id, {})
            parents = [self.table[i].state for i in self.after[j.id]]
            if any(p not in ("PENDING", "RUNNING", "COMPLETED") for p in parents):
                self.table[j.id] = replace(j, state="CANCELLED", reason="DependencyNeverSatisfied", end=self.time)
            elif all(p == "COMPLETED" for p in parents) and all(v <= left[k] for k, v in amounts.items()):
                names = [self.asked[j.id]] if j.id in self.asked else sorted(free)
                if at := next((n for n in names if j.cores <= free[n]), None):
                    end = self.time + self.seconds(j.name) * self.slower(j.name, self.machines[at])
                    self.table[j.id] = replace(j, state="RUNNING", reason="None", start=self.time, end=end, node=at)
                    free[at] -= j.cores
                    left = {k: v - amounts.get(k, 0.0) for k, v in left.items()}

    # ------------------------------------------------------------ the journal

    def _machine(self) -> dict[str, Any]:
        return {"cores": self.size, "machines": self.machines, "shared": self.shared}

    def _note(self, what: str, value: Any) -> None:
        """Write down what it is asked to do, before it does it."""
        if self.journal is None:
            return
        with writing(self.journal), open(self.journal, "a") as lines:
            lines.write(json.dumps({what: value}) + "\n")

    def _replay(self, file: Path) -> None:
        """Do again what the journal says. Raises InputError where it is none, or of another machine."""
        text = file.read_text(errors="replace") if file.is_file() else ""
        lines, known, taken = text.split("\n")[:-1], self.seconds, dict[str, float]()
        calls: dict[str, Callable[[Any], None]] = {"wait": self.wait, "cancel": self.cancel, "anywhere": self.anywhere}
        journal, self.journal = self.journal, None
        self.seconds = lambda name: taken[name] if name in taken else known(name)
        for n, line in enumerate(lines, 1):
            try:
                (what, value), *_ = json.loads(line).items()
                is_other = what == "begin" and value != self._machine()
                if what == "submit":
                    taken[value["name"]] = float(value.pop("seconds"))
                    self.submit("#!", memory_mb=value.pop("memory", 0.0), **value)
                elif what != "begin":
                    calls[what](value)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise InputError(
                    f"{file}:{n}: `jobwise mars run` did not write this line: name another --state folder"
                ) from None
            if is_other:
                raise InputError(f"{file}: the run was begun on {value}, not on {self._machine()}; name another --state folder")
        self.journal = journal
        if text and not text.endswith("\n"):  # a kill has left half a line
            write_whole(file, "".join(f"{line}\n" for line in lines))
