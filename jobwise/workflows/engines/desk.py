"""Between an engine, which knows the commands of a workflow's language, and `follow.py`, which has them run on a cluster.

An engine (cwltool, miniwdl) asks for a task when its inputs are there. The desk keeps what was asked until the follower takes
it, and gives back the exit code. Tasks have keys that are the same after a restart, so that a task that was asked before is
answered from the ledger, or waited for, and not submitted again.
"""

from __future__ import annotations

import hashlib
import math
import re
import shlex
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST = 150  # characters of a name
KEY = re.compile(r"[\w.+-]{1,200}")  # keys are names of folders, too


class Unprepared(Exception):
    """The folder of a task cannot be made ready: why."""


class Stopped(Exception):
    """The run is being interrupted, and no engine waits for this task any more."""


def short(name: str) -> str:
    """A name for a key and a folder: other characters are replaced, and a long one is cut, with a digest of all of it."""
    name = re.sub(r"[^\w.+-]", "_", name)
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 13]}-{digest(name)}"


def digest(text: str) -> str:
    """Twelve characters that are others for another text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def requests(memory: float, gpus: int, seconds: float) -> dict[str, Any]:
    """Return the arguments of `ResourceManager.submit` for memory (MB), GPUs and a time limit (s); none for what is 0."""
    out: dict[str, Any] = {"memory_mb": float(memory), "gpus": int(gpus), "minutes": float(seconds) / 60.0}
    return {k: v for k, v in out.items() if v > 0}


def is_zero(code: int) -> bool:
    """Return whether an exit code is 0."""
    return code == 0


@dataclass(frozen=True)
class Asked:
    """A command that an engine wants to be run, in `folder`. Files for its input, output and errors are paths, "" for none.
    Memory in MB, `seconds` the time limit; 0: the workflow names none."""

    key: str
    step: str  # the name that its file gives it, without the number of a copy
    command: Sequence[str]
    folder: str
    input: str = ""
    output: str = ""
    errors: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    cores: int = 1
    memory: float = 0.0
    gpus: int = 0
    ranks: int = 0  # of MPI: its manager starts the command so often, where need be on several nodes; 0: once, without MPI
    seconds: float = 0.0
    retries: int = 0
    options: tuple[str, ...] = ()  # further ones of sbatch
    prepare: Callable[[], None] = lambda: None  # called before each try
    is_success: Callable[[int], bool] = is_zero

    def words(self) -> list[str]:
        """The words that run it, its environment among them."""
        values = [f"{k}={v}" for k, v in sorted(self.environment.items())]
        return [*(["env", *values] if values else []), *self.command]

    def redirections(self) -> str:
        """Return the redirections of its input, output and errors, for a line of a batch script."""
        files = zip(("<", ">", "2>"), (self.input, self.output, self.errors), strict=True)
        return "".join(f" {sign} {shlex.quote(file)}" for sign, file in files if file)

    def units(self, resources: Sequence[str]) -> list[int]:
        """Return its request of each of these resources; the first is cores."""
        amounts = {"memory": math.ceil(self.memory), "gpus": self.gpus}
        return [self.cores, *(amounts.get(name, 0) for name in resources[1:])]

    def requests(self) -> dict[str, Any]:
        """Return its requests beside its cores: see `requests`."""
        return requests(self.memory, self.gpus, self.seconds) | ({"ranks": self.ranks} if self.ranks else {})

    def widest(self) -> int:
        """Return the cores that must be on one node."""
        return math.ceil(self.cores / self.ranks) if self.ranks else self.cores


class Desk:
    """Tasks that engines have asked for and no scheduler has taken yet, and running tasks whose ends engines wait for."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._new: list[Asked] = []
        self._waiting: dict[str, Callable[[int], None]] = {}
        self._keys: Counter[str] = Counter()
        self.problems: list[str] = []
        self.is_closed = False

    def key(self, name: str) -> str:
        """A key for a task that is like no other; the same names, asked in the same order, give the same keys."""
        name = short(name)
        with self._change:
            self._keys[name] += 1
            return name if self._keys[name] == 1 else f"{name}+{self._keys[name]}"

    def ask(self, task: Asked, ended: Callable[[int], None]) -> None:
        """Have a task run; `ended` is called with its exit code, by the thread that follows. Raises Stopped."""
        with self._change:
            self.check()
            self._waiting[task.key] = ended
            self._new.append(task)

    def run(self, task: Asked) -> int:
        """Have a task run, and return its exit code. Raises Stopped."""
        codes: list[int] = []

        def ended(code: int) -> None:
            with self._change:
                codes.append(code)
                self._change.notify_all()

        self.ask(task, ended)
        with self._change:
            while not codes:
                self._change.wait(1.0)
                self.check()
        return codes[0]

    def check(self) -> None:
        """Raises Stopped where the desk has been closed."""
        if self.is_closed:
            raise Stopped

    def close(self) -> None:
        """Stop all engines that wait for a task."""
        with self._change:
            self.is_closed = True
            self._change.notify_all()

    def take(self) -> list[Asked]:
        """The tasks that were asked for since the last call."""
        with self._change:
            new, self._new = self._new, []
        return new

    def ended(self, key: str, code: int) -> None:
        """Give a task's exit code to who waits for it."""
        with self._change:
            waits = self._waiting.pop(key, None)
        if waits:
            waits(code)


class Asks:
    """The rows of a table of tasks that engines decide about, and the engines' requests. `desks`: by the number of a workflow;
    `names` and `flow` [J] of the tasks in the workflow files. A requested task takes the next free row of its step, or a new
    row."""

    def __init__(self, desks: dict[int, Desk], names: Sequence[str], flow: Sequence[int]):
        self.desks, self.flow = desks, list(flow)
        self.task: dict[int, Asked] = {}  # by row, in this run
        self._row: dict[tuple[int, str], int] = {}  # by workflow and key, in this run and those before it
        self._free: dict[tuple[int, str], list[int]] = {}
        for i in reversed(range(len(names) if desks else 0)):
            self._free.setdefault((self.flow[i], step_of(names[i])), []).append(i)

    def is_engines(self, i: int) -> bool:
        """Return whether an engine decides when task i may start."""
        return self.flow[i] in self.desks

    def is_silent(self, i: int) -> bool:
        """Return whether task i is an engine's that has not asked for it in this run."""
        return self.is_engines(i) and i not in self.task

    def put(self, flow: int, key: str, step: str, row: int) -> None:
        """Note that a row, which may be a new one, is the task of this key and step."""
        self._row[flow, key] = row
        if row == len(self.flow):
            self.flow.append(flow)
        if (rows := self._free.get((flow, step))) and rows[-1] == row:
            rows.pop()

    def new(self) -> Iterator[tuple[int, int, Asked, bool]]:
        """(row, workflow, task, is it asked for the first time?) of what was asked for since the last call."""
        for flow, desk in self.desks.items():
            for task in desk.take():
                row = self._row.get((flow, task.key))
                is_first = row is None
                if row is None:
                    free = self._free.get((flow, task.step))
                    row = free[-1] if free else len(self.flow)
                    self.put(flow, task.key, task.step, row)
                self.task[row] = task
                yield row, flow, task, is_first

    def answer(self, i: int, code: int, problem: str = "") -> None:
        """Tell the engine that task i has ended for good, if it has asked for it, and what was wrong."""
        if i in self.task:
            self.desks[self.flow[i]].problems += [f"{self.task[i].key}: {problem}"] if problem else []
            self.desks[self.flow[i]].ended(self.task[i].key, code)

    def is_success(self, i: int, code: int) -> bool:
        """Return whether task i has ended well with this exit code."""
        return self.task[i].is_success(code) if i in self.task else is_zero(code)


def step_of(name: str) -> str:
    """Return the step of a task: without the workflows around it and without the number of its copy."""
    return re.sub(r"(\[\d+\])+$", "", name.rsplit("/", 1)[-1])
