"""Orders for tasks of workflows: which workflow goes first, and which of its tasks.

A workflow's numbers are sums over its tasks that have not ended, as they request. They are kept up to date task by task, so
that a pass costs no more than its queue.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import kernel
from jobwise.jobs import DONE, FAILED
from jobwise.sim.lists.orders import Order

INSIDE = 1e-9  # share of a score that tells the tasks of a workflow apart

flow_dtype = np.dtype(
    [
        ("place", "f8"),  # in order of arrival
        ("work", "f8"),  # unit-seconds of the tasks that have not ended
        ("path", "f8"),  # s, the longest of their ranks
        ("longest", "f8"),  # s, the longest task of all
        ("rank", "f8"),  # s, the longest rank of all
        ("held", "f8"),  # units that its tasks hold now
        ("first", "i8"),  # its tasks in `rows`
        ("last", "i8"),
        ("at", "i8"),  # the one of the longest rank that has not ended
    ],
    align=True,
)


class Flows(NamedTuple):
    """The workflows [F] of some jobs."""

    table: np.ndarray  # [F] of flow_dtype
    of: np.ndarray  # [J] which a job is of
    rows: np.ndarray  # [J] workflow by workflow, the longest rank first


NONE = Flows(np.zeros(0, flow_dtype), np.zeros(0, np.int64), np.zeros(0, np.int64))


def flows(jobs: np.ndarray) -> Flows:
    """The workflows of a job table, as far as they have got. A job of none is a workflow of its own."""
    of = np.unique(np.where(jobs["flow"] >= 0, jobs["flow"], -1 - np.arange(len(jobs))), return_inverse=True)[1]
    rows = np.lexsort((np.arange(len(jobs)), -np.maximum(jobs["rank"], np.maximum(jobs["walltime"], 1.0)), of))
    f = Flows(np.zeros(int(of.max(initial=-1)) + 1, flow_dtype), of, rows)
    f.table["last"] = np.cumsum(np.bincount(of, minlength=len(f.table)))
    f.table["first"] = f.table["at"] = np.append(0, f.table["last"][:-1])[: len(f.table)]
    begin, row = np.full(len(f.table), np.inf), np.full(len(f.table), len(jobs))
    np.minimum.at(begin, of, jobs["submit"])
    np.minimum.at(row, of, np.arange(len(jobs)))
    f.table["place"][np.lexsort((row, begin))] = np.arange(len(f.table))
    _fill(f, jobs)
    return f


@kernel
def _fill(f, jobs):
    for i in range(len(f.table)):
        for k in range(f.table[i]["first"], f.table[i]["last"]):
            job = jobs[f.rows[k]]
            f.table[i]["longest"] = max(f.table[i]["longest"], _span(job))
            f.table[i]["rank"] = max(f.table[i]["rank"], _rank(job))
        _sum(f, jobs, i)


@kernel
def _span(job):
    return max(job["walltime"], 1.0)


@kernel
def _rank(job):
    return max(job["rank"], _span(job))


@kernel
def _sum(f, jobs, i):
    """Sum the remaining work of workflow i."""
    flow = f.table[i]
    flow["work"] = 0.0
    for k in range(flow["first"], flow["last"]):
        job = jobs[f.rows[k]]
        if job["status"] < DONE:
            flow["work"] += _span(job) * job["request"][0]
    _longest(f, jobs, i)


@kernel
def _longest(f, jobs, i):
    flow = f.table[i]
    while flow["at"] < flow["last"] and jobs[f.rows[flow["at"]]]["status"] >= DONE:
        flow["at"] += 1
    flow["path"] = _rank(jobs[f.rows[flow["at"]]]) if flow["at"] < flow["last"] else 0.0


@kernel
def note(f, jobs, ended):
    """Take note of rows that have stopped running."""
    for j in ended:
        i, job = f.of[j], jobs[j]
        if job["status"] == FAILED:  # with all that waited for it
            _sum(f, jobs, i)
        elif job["status"] == DONE:
            f.table[i]["work"] -= _span(job) * job["request"][0]
            _longest(f, jobs, i)


@kernel
def score_flows(code, f, jobs, queue, running, started, units, score):
    """Scores of the queue under an order of workflows; `units`: of the cluster."""
    if code == Order.FLOW_SHARE:
        for j in queue:
            f.table[f.of[j]]["held"] = 0.0
        for j in running:
            f.table[f.of[j]]["held"] = 0.0
        for j in running:
            f.table[f.of[j]]["held"] += jobs[j]["request"][0]
        for j in started:
            f.table[f.of[j]]["held"] += jobs[j]["request"][0]
    for i in range(len(queue)):
        job, flow = jobs[queue[i]], f.table[f.of[queue[i]]]
        inside = 1.0 - _rank(job) / flow["rank"]
        value = max(flow["work"], 1e-9)
        if code == Order.RANK:
            score[i] = -_rank(job)
        elif code == Order.LEVEL:
            score[i] = job["level"]
        elif code == Order.FLOW_FCFS:
            score[i] = flow["place"] + 1e-6 * inside
        elif code == Order.FLOW_SHARE:
            score[i] = flow["held"] + 1e-6 * inside
        else:
            if code == Order.FLOW_SJF:
                inside = _span(job) / flow["longest"]
            elif code == Order.FLOW_PATH:
                value = flow["path"]
            elif code == Order.FLOW_WORK_PATH:
                value *= flow["path"]
            elif code != Order.FLOW_WORK:  # FLOW_BOUND
                value *= max(flow["path"], value / units)
            score[i] = value * (1.0 + INSIDE * inside)
