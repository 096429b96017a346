"""A resource manager of this machine alone: jobs are processes, first come, first served on a number of cores.

Each job is a file in a folder (its request, then its process), so that another run finds those that are waiting and those that
run on after a kill. Time limits are kept; memory and GPUs are counted where the machine is said to have them.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jobwise.errors import InputError
from jobwise.files import own_file, own_folder, write_whole
from jobwise.slurm.client import ENDED, Node, Refused, SlurmJob

# A process writes its number down before it does anything.
FIRST = 'echo $$ > "$1.new" && mv "$1.new" "$1" && cd "$3" && exec /bin/sh "$2"'
GRACE_S = 0.5  # for that line, after a kill


@dataclass
class Entry:
    """A job, and its process once it has one."""

    job: SlurmJob
    script: str
    after: list[int]
    folder: str
    output: str
    gpus: int = 0
    memory: float = 0.0  # MB
    seconds: float = 0.0  # time limit; 0: none
    process: int = 0
    born: int = 0  # when the process began, in ticks of the kernel: another process of this number is not it
    devices: tuple[int, ...] = ()


class LocalProcesses:
    """Jobs as processes of this machine. Scripts in `folder` are run, so its owner alone may write to it. `cores` that jobs use
    at a time; `gpus`, `memory` (MB; 0: not counted). Raises InputError."""

    stamps = True
    lost_s = 1.0  # all jobs are in its table

    def __init__(self, folder: Path, cores: int = 0, gpus: int = 0, memory: float = 0.0):
        if not Path("/proc/self/stat").exists():
            raise InputError("processes are followed by /proc, which this machine does not have")
        self.folder = own_folder(Path(folder).absolute())
        self.size, self.gpus, self.memory = cores or os.cpu_count() or 1, gpus, memory
        self.table: dict[int, Entry] = {}
        self._children: set[int] = set()
        self._open: list[Entry] = []  # those that have not ended, in order
        for file in sorted([*self.folder.glob("*.json"), *self.folder.glob("*.process")]):
            own_file(file)
            if file.suffix != ".json":
                continue
            try:
                x = json.loads(file.read_text())
                x["job"], x["devices"] = SlurmJob(**x["job"]), tuple(x["devices"])
                self.table[x["job"].id] = self._taken_up(Entry(**x))
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{file}: is no job of `jobwise mars run`: name another --state folder") from None
        self._open = [e for e in self.table.values() if e.job.state not in ENDED]

    def _taken_up(self, e: Entry) -> Entry:
        """A job of an earlier run, with the process that it has."""
        if e.job.state == "RUNNING" and not e.process:  # that run was killed while it started it
            file = self._number(e)
            if not file.exists():
                time.sleep(GRACE_S)
            if file.exists():
                e.process = int(file.read_text())
                e.born = _born(e.process)
            else:
                e.job = replace(e.job, state="PENDING", start=0.0)
        return e

    def _number(self, e: Entry) -> Path:
        """The file in which the process of a job writes its number."""
        return self.folder / f"{e.job.id:06d}.process"

    now = staticmethod(time.time)

    def wait(self, seconds: float) -> None:
        """Let `seconds` seconds pass by."""
        time.sleep(seconds)
        self._advance()

    def cores(self) -> tuple[int, int]:
        """(cores, cores of the largest node): there is one node."""
        return self.size, self.size

    def ranks(self, count: int) -> list[str]:
        """Return the words before a command that start it as `count` MPI ranks."""
        return ["mpirun", "-n", str(count)]

    def pools(self) -> dict[str, int]:
        """Return its memory, where it is counted, and its GPUs."""
        return {k: int(v) for k, v in {"memory": self.memory, "gpus": self.gpus}.items() if v}

    def nodes(self) -> list[Node]:
        """Return this machine as one node."""
        return [Node("here", self.size, self.size - sum(e.job.cores for e in self._running()), "")]

    def anywhere(self, id: int) -> None:
        """Do nothing: there is one node."""

    def jobs(self) -> list[SlurmJob]:
        """All jobs of this folder."""
        self._advance()
        return [e.job for e in self.table.values()]

    def submit(
        self, script: str, *, name: str, cores: int = 1, after: Sequence[int] = (), minutes: float = 0.0, gpus: int = 0,
        memory_mb: float = 0.0, output: str = os.devnull, folder: str = ".", more: Sequence[str] = (), **others: Any,
    ) -> int:  # fmt: skip
        """Submit a batch script; its id. Raises Refused for jobs that can never run, and for options of sbatch (`more`)."""
        if more:
            raise Refused(f"{more[0]!r} is an option of sbatch; processes know cores, memory, GPUs and time limits")
        if cores > self.size or gpus > self.gpus or (self.memory and memory_mb > self.memory):
            here = f"{self.size} cores, {self.gpus} GPUs" + (f", {self.memory:,.0f} MB" if self.memory else "")
            raise Refused(f"job {name} of {cores} cores, {gpus} GPUs, {memory_mb:,.0f} MB does not fit this machine: {here}")
        job = SlurmJob(max(self.table, default=0) + 1, name, "PENDING", "Priority", self.now(), 0.0, 0.0, cores, 0)
        entry = Entry(job, script, list(after), folder, output, gpus, memory_mb, 60.0 * minutes)
        self.table[job.id] = entry
        self._open.append(entry)
        self._keep(entry)
        self._advance()
        return job.id

    def cancel(self, ids: Sequence[int]) -> None:
        """Cancel jobs, with all their processes."""
        for e in (self.table[i] for i in ids if self.table[i].job.state not in ENDED):
            self._end(e, "CANCELLED")
        self._advance()

    def _running(self) -> list[Entry]:
        return [e for e in self._open if e.job.state == "RUNNING"]

    def _keep(self, e: Entry) -> None:
        text = json.dumps(e.__dict__ | {"job": e.job.__dict__})
        write_whole(self.folder / f"{e.job.id:06d}.json", text)

    def _end(self, e: Entry, state: str, code: int = 0) -> None:
        """A job is at its end; processes that are left of it are ended, too."""
        if e.process and _born(e.process) == e.born:
            is_ended = True
            try:
                os.killpg(e.process, signal.SIGKILL)
            except PermissionError:  # it runs as somebody else now: nobody waits for it
                is_ended = False
            except OSError:  # it has just ended
                pass
            if e.process in self._children and is_ended:
                os.waitpid(e.process, 0)
            self._children.discard(e.process)
        e.job = replace(e.job, state=state, end=self.now(), code=code)
        self._keep(e)

    def _advance(self) -> None:
        """Note who has ended, and start who may."""
        for e in self._running():
            is_child = e.process in self._children
            done, status = os.waitpid(e.process, os.WNOHANG) if is_child else (0, 0)
            if done:
                self._children.discard(e.process)
                code = abs(os.waitstatus_to_exitcode(status))
                self._end(e, "FAILED" if code else "COMPLETED", code)
            elif not is_child and _born(e.process) != e.born:
                self._end(e, "COMPLETED")  # of an earlier run: its stamp says how it ended
            elif e.seconds and self.now() - e.job.start > e.seconds:
                self._end(e, "TIMEOUT", 1)
        self._open = [e for e in self._open if e.job.state not in ENDED]
        for e in [e for e in self._open if e.job.state == "PENDING"]:
            parents = [self.table[i].job.state for i in e.after if i in self.table]
            if any(p in ENDED and p != "COMPLETED" for p in parents):
                e.job = replace(e.job, reason="DependencyNeverSatisfied")
                self._end(e, "CANCELLED")
            elif all(p == "COMPLETED" for p in parents) and not self._start(e):
                return  # first come, first served

    def _start(self, e: Entry) -> bool:
        """Start a job if it fits beside those that run."""
        running = self._running()
        taken = {d for x in running for d in x.devices}
        free = [d for d in range(self.gpus) if d not in taken]
        if (
            e.job.cores > self.size - sum(x.job.cores for x in running)
            or e.gpus > len(free)
            or (self.memory and e.memory > self.memory - sum(x.memory for x in running))
        ):
            return False
        e.devices = tuple(free[: e.gpus])
        file = self.folder / f"{e.job.id:06d}.sh"
        write_whole(file, e.script)
        e.job = replace(e.job, state="RUNNING", reason="None", start=self.now(), node="here")
        self._keep(e)
        devices = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, e.devices))} if self.gpus else {}
        e.process = os.posix_spawn(
            "/bin/sh", ["sh", "-c", FIRST, "sh", str(self._number(e)), str(file), e.folder], os.environ | devices, setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, e.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )  # fmt: skip
        e.born = _born(e.process)
        self._children.add(e.process)
        self._keep(e)
        return True


def _born(process: int) -> int:
    """Return the begin of a process, in ticks since the machine's begin; -1: there is none, or it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] == "Z" else int(fields[19])
