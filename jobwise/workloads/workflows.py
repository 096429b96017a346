"""Workflows: graphs of tasks, from files of four kinds (`wfformat.py`, `cwl.py`, `wdl.py`, SWF), and streams of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.sim.dag import Graph, components, graph, levels, ranks
from jobwise.workload import Workload

MOST_TASKS, MOST_EDGES = 1_000_000, 10_000_000  # of a file: more is taken for a bomb
task_dtype = np.dtype(
    [
        ("runtime", "f8"),  # s
        ("estimate", "f8"),  # s, what a scheduler is told
        ("limit", "f8"),  # s, its time limit on a real cluster; 0: its source names none
        ("cores", "i8"),
        ("gpus", "i8"),
        ("memory", "f8"),  # MB; 0 unknown
        ("io", "f8"),  # MB read and written; 0 unknown
        ("program", "i4"),  # which of the workflow's `programs`
    ]
)


@dataclass(frozen=True, eq=False)
class Workflow:
    """A graph of tasks. `tasks` [N] of `task_dtype`; `edges` [M, 2] rows (parent, child), sorted, none twice; `names` [N] of
    the tasks in their file; `programs`: names of what they run. `reading`: how its source was read. Raises InputError for
    circles.
    """

    name: str
    tasks: np.ndarray
    edges: np.ndarray
    names: tuple[str, ...]
    programs: tuple[str, ...] = ()
    source: str = ""  # WfFormat 1.5, CWL v1.2 …
    reading: tuple[str, ...] = ()
    notes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self):
        if not len(self.tasks):
            raise InputError(f"{self.name}: has no tasks")
        if len(self.tasks) > MOST_TASKS or len(self.edges) > MOST_EDGES:
            raise InputError(f"{self.name}: {len(self.tasks):,} tasks and {len(self.edges):,} edges are more than can be read")
        edges = np.unique(np.asarray(self.edges, np.int64).reshape(-1, 2), axis=0)
        if len(own := np.flatnonzero(edges[:, 0] == edges[:, 1])):
            raise InputError(f"{self.name}: task {self.names[edges[own[0], 0]]!r} waits for itself")
        object.__setattr__(self, "edges", edges)
        try:
            self.graph  # noqa: B018
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def graph(self) -> Graph:
        """Its children, and an order."""
        return graph(len(self.tasks), self.edges, self.names)

    @cached_property
    def levels(self) -> np.ndarray:
        """[N] how many tasks come before at most."""
        return levels(self.graph)

    @cached_property
    def ranks(self) -> np.ndarray:
        """[N] s, the longest way down, by true run times."""
        return ranks(self.graph, self.tasks["runtime"])

    @property
    def critical_path(self) -> float:
        """s: no schedule is shorter."""
        return float(self.ranks.max())

    @property
    def work(self) -> float:
        """The work of all tasks, in core-seconds."""
        return float((self.tasks["runtime"] * self.tasks["cores"]).sum())

    def longest_way(self) -> np.ndarray:
        """[K] rows of a longest way from a begin to an end: a critical path."""
        way, g = [], self.graph
        is_child = np.zeros(len(self), bool)
        is_child[self.edges[:, 1]] = True
        rows = np.flatnonzero(~is_child)
        while len(rows):
            i = rows[np.argmax(self.ranks[rows])]
            way.append(i)
            rows = g.child[g.first[i] : g.first[i + 1]]
        return np.array(way)

    def summary(self) -> dict:
        """Return the numbers that `jobwise workflow info` shows."""
        counts = np.bincount(self.levels)
        return {
            "tasks": len(self),
            "edges": len(self.edges),
            "levels": len(counts),
            "widest_level": int(counts.max()),
            "parts": int(components(len(self), self.edges).max()) + 1,
            "programs": len(self.programs),
            "work": self.work,
            "critical_path": self.critical_path,
            "parallelism": self.work / self.critical_path if self.critical_path > 0 else float("nan"),
            "longest_task": float(self.tasks["runtime"].max()),
            "most_cores": int(self.tasks["cores"].max()),
            "tasks_of_zero_s": int((self.tasks["runtime"] <= 0).sum()),
        }


def workflow(name: str, rows: list[dict], parents: list[list[str]], **more: Any) -> Workflow:
    """A workflow of rows {"name", "program", and fields of `task_dtype`} and the names of each one's parents. Raises InputError
    for parents that are not there and values that cannot be."""
    index: dict[str, int] = {}
    for i, row in enumerate(rows):
        if row["name"] in index:
            raise InputError(f"{name}: two tasks are called {row['name']!r}")
        index[row["name"]] = i
    tasks = np.zeros(len(rows), task_dtype)
    programs: dict[str, int] = {}
    tasks["cores"] = 1
    for i, row in enumerate(rows):
        tasks[i]["program"] = programs.setdefault(row.get("program") or row["name"], len(programs))
        for key in ("runtime", "estimate", "limit", "cores", "gpus", "memory", "io"):
            value = row.get(key, row.get("runtime", 0.0) if key == "estimate" else 1 if key == "cores" else 0)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
                raise InputError(f"{name}: {key} of task {row['name']!r} is {value!r}; a number >= 0 is expected")
            tasks[i][key] = np.ceil(value) if key in ("cores", "gpus") else value
    tasks["cores"] = np.maximum(tasks["cores"], 1)
    edges = []
    for i, above in enumerate(parents):
        for parent in above:
            if parent not in index:
                raise InputError(f"{name}: task {rows[i]['name']!r} has the parent {str(parent)[:80]!r}, which is not there")
            edges.append((index[parent], i))
    names = tuple(row["name"] for row in rows)
    return Workflow(name, tasks, np.array(edges, np.int64).reshape(-1, 2), names, tuple(programs), **more)


def from_jobs(w: Workload) -> Workflow:
    """The jobs of a log as one workflow: edges are its own, or those of the column `preceding` (SWF's field 17). Think times
    are not waited for. Raises InputError."""
    edges, notes = w.edges, {}
    if not len(edges) and "preceding" in w.columns:
        number = {int(j): i for i, j in enumerate(w.columns["job"])}
        preceding = [(i, int(j)) for i, j in enumerate(w.columns["preceding"]) if j > 0]
        edges = np.array([(number[j], i) for i, j in preceding if j in number], np.int64).reshape(-1, 2)
        notes = {"preceding jobs that are not in the log": len(preceding) - len(edges)} if len(preceding) > len(edges) else {}
    tasks = np.zeros(len(w), task_dtype)
    tasks["runtime"], tasks["estimate"], tasks["limit"] = w.truth["runtime"], w.jobs["walltime"], w.jobs["walltime"]
    tasks["cores"] = w.jobs["request"][:, 0]
    tasks["memory"] = np.maximum(w.jobs["memory"], 0.0) * tasks["cores"] * 1024 / 1e6
    ids = w.columns.get("job", np.arange(len(w)))
    _, tasks["program"] = np.unique(w.jobs["app"], return_inverse=True)
    programs = tuple(str(a) for a in np.unique(w.jobs["app"]))
    alone = "No job names a preceding one: all are independent."
    reading = ("Think times are read and not waited for.",) if len(edges) else (alone,)
    return Workflow(w.name, tasks, edges, tuple(str(int(j)) for j in ids), programs, "SWF", reading, notes)
