"""Jobs that waited for others, by their submit lines (`--dependency`): after their ends, by task, one of a name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from jobwise.slurm.read.unsimulated import UNSIMULATED
from jobwise.workloads.accounting import Accounting
from jobwise.workloads.sacct import numbers_of

DEPENDENCY = r"\s(?:--dependency[=\s]|-d\s*)([a-z]\S*)"
ENDS = ("afterany", "afterok", "afternotok", "aftercorr")  # kinds that wait for the end of a job


def dependencies(a: Accounting) -> tuple[np.ndarray, list[str]]:
    """([M, 2] (parent, child): jobs that waited for the end of others that are in the table; what is not simulated of the
    others)."""
    if not a.has("SubmitLine") or not (rows := np.flatnonzero(a.matches(DEPENDENCY, "SubmitLine"))).size:
        return np.zeros((0, 2), np.int64), []
    named, index = _named(a), a.map(index_of, "JobID", kind=int) if a.has("JobID") else np.zeros(len(a), np.int64)
    edges, single, starts, either = set(), [], 0, 0
    for j, line in zip(rows.tolist(), a.columns["SubmitLine"].take(pa.array(rows)).to_pylist(), strict=True):
        text = re.findall(DEPENDENCY, line)[0]
        either += "?" in text
        starts += bool(re.search(r"(^|[,?])after:", text))
        if "singleton" in text:
            single.append(j)
        for kind, job, task in _parents(text):
            mine = task if task else str(index[j]) if kind == "aftercorr" else ""
            edges |= {(p, j) for p in named.get((job, mine) if mine else (job,), ()) if p != j}
    edges |= set(_singletons(a, single)) if single else set()
    said = [f"{UNSIMULATED}--dependency with ? (any one suffices) of {either:,} jobs: all are waited for"] if either else []
    if starts:
        said.append(
            f"{UNSIMULATED}--dependency=after (the begin of a job) of {starts:,} jobs: they are eligible when they were"
        )
    return np.array(sorted(edges), np.int64).reshape(-1, 2), said


def _parents(text: str) -> Iterator[tuple[str, int, str]]:
    """(kind, job, task or "") of afterok:12:13_4,afterany:15 for the kinds that wait for an end."""
    for part in re.split("[,?]", text):
        kind, *ids = part.split(":")
        for x in ids if kind in ENDS else ():
            if number := re.match(r"(\d+)(?:_(\d+))?", x):
                yield kind, int(number[1]), number[2] or ""


def _named(a: Accounting) -> dict[tuple, set[int]]:
    """Rows by (a job's number), (an array's), and (an array's, the index of a task as text)."""
    numbers = numbers_of(a).astype(np.int64)
    named: dict[tuple, set[int]] = {}
    array = arrays(a, numbers)
    index = a.map(index_of, "JobID", kind=int) if a.has("JobID") else np.zeros(len(a), np.int64)
    for j, (own, of, task) in enumerate(zip(numbers.tolist(), array.tolist(), index.tolist(), strict=True)):
        for key in {(own,), (of,), (of, str(task))}:
            named.setdefault(key, set()).add(j)
    return named


def _singletons(a: Accounting, rows: list[int]) -> Iterator[tuple[int, int]]:
    """(earlier, later): a singleton waits for all jobs of its user and name before it, of which the last singleton waited for
    those before that."""
    (user, _), (name, names) = a.distinct("User"), a.distinct("JobName")
    group, single = user * len(names) + name, set(rows)
    since: dict[int, list[int]] = {}
    for j in np.flatnonzero(np.isin(group, group[rows])).tolist():  # rows are in the order of submits
        before = since.setdefault(int(group[j]), [])
        if j in single:
            yield from ((p, j) for p in before)
            before.clear()
        before.append(j)


def arrays(a: Accounting, numbers: np.ndarray) -> np.ndarray:
    """[J] the number of the array that a job is a task of, or its own."""
    array = a.map(task_of, "JobID", kind=int) if a.has("JobID") else numbers
    return np.where(array < 0, numbers, array)


def task_of(text: str) -> int:
    """The number of the array that a job is a task of; -1: of none."""
    number, task, _ = text.partition("_")
    return int(number) if task and number.isdigit() else -1


def index_of(text: str) -> int:
    """The index of a task in its array; 0 of other jobs."""
    task = re.search(r"_\[?(\d+)", text)
    return int(task[1]) if task else 0
