"""Filling simulations: with the jobs planned for an episode, or with what a view shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.cluster import outage_dtype
from jobwise.decision import View
from jobwise.jobs import job_dtype, truth_dtype
from jobwise.sim.compiled import inlined
from jobwise.sim.state import HEAP, State, node_dtype, sim_dtype, slice_dtype


def from_view(view: View) -> tuple[State, np.ndarray]:
    """(a state of one simulation of a pool that stands where the view does, the view's rows of its rows).

    For trying a pass out: queued jobs come first, in order, then the running ones. The future is unknown to it.
    """
    rows = np.concatenate([view.queue, view.running])
    Q, J = len(view.queue), len(rows)
    s = State(
        np.zeros(1, sim_dtype),
        view.jobs[rows][None],
        np.zeros((1, J), truth_dtype),
        np.zeros((1, 3, J), np.int32),
        np.zeros((1, 1), node_dtype(1)),
        np.zeros((1, 1), slice_dtype(1)),
        np.zeros((1, 1), np.int32),
        np.zeros(0, outage_dtype),
    )
    sim, truth, node = s.sims[0], s.truth[0], s.nodes[0, 0]
    sim["now"], sim["wake"], sim["origin"], sim["jobs"], sim["next"] = view.now, np.inf, view.origin, J, J
    sim["queued"], sim["running"], sim["head"], sim["tail"] = Q, J - Q, 0 if Q else -1, Q - 1
    truth["next"], truth["prev"] = np.arange(1, J + 1), np.arange(-1, J - 1)
    if Q:
        truth[Q - 1]["next"] = -1
    truth["runtime"] = np.maximum(s.jobs[0]["walltime"], 1.0)
    truth["finish"] = np.where(np.arange(J) < Q, 0.0, np.nan_to_num(s.jobs[0]["due"]))
    heap = Q + np.argsort(truth["finish"][Q:], kind="stable")
    s.lists[0, HEAP, : J - Q], truth["heap"][heap] = heap, np.arange(J - Q)
    node["capacity"], node["free"], node["up"] = view.cluster.total, view.free.sum(axis=0), 1
    return s, rows


plan_dtype = np.dtype(
    [
        ("jobs", "i8"),
        ("processors", "i8"),
        ("offset", "f8"),  # s, trace time of time 0
        ("first", "i8"),  # row of `jobs` to begin with; -1: rows and submits are given one by one
        ("factor", "f8"),  # submits are divided by it
    ],
    align=True,
)


class Plan(NamedTuple):
    """What E simulations are to begin with next: rows of a table of jobs, with submits of their own."""

    jobs: np.ndarray  # [L] of job_dtype: all logs, one after the other
    truth: np.ndarray  # [L] of truth_dtype
    row: np.ndarray  # [E, J] rows of `jobs`, where they are given
    submit: np.ndarray  # [E, J] s, ascending from 0, where they are given
    next: np.ndarray  # [E] of plan_dtype


NO_PLAN = Plan(
    np.zeros(1, job_dtype(1)), np.zeros(1, truth_dtype), np.zeros((1, 1), np.int32), np.zeros((1, 1)), np.zeros(1, plan_dtype)
)


@inlined
def refill(s, e, p, k):
    """Begin simulation e (of a pool) anew with plan k; its settings stay."""
    sim, node, plan = s.sims[e], s.nodes[e, 0], p.next[k]
    sim["now"], sim["wake"], sim["head"], sim["tail"] = 0.0, np.inf, -1, -1
    sim["next"] = sim["queued"] = sim["running"] = sim["ended"] = sim["entered"] = sim["left"] = 0
    sim["outage"], sim["preemptions"], sim["events"] = 0, 0, 0
    sim["jobs"], sim["origin"] = plan["jobs"], plan["offset"]
    node["capacity"][0] = node["free"][0] = plan["processors"]
    node["up"] = 1
    first, factor = plan["first"], plan["factor"]
    for i in range(plan["jobs"]):
        row = first + i if first >= 0 else np.int64(p.row[k, i])
        job, new, truth, known = s.jobs[e, i], p.jobs[row], s.truth[e, i], p.truth[row]
        job["submit"] = (new["submit"] - p.jobs[first]["submit"]) / factor if first >= 0 else p.submit[k, i]
        job["walltime"], job["request"][0] = new["walltime"], new["request"][0]
        job["start"] = job["end"] = job["queued"] = job["due"] = job["reserved"] = np.nan
        job["user"], job["group"], job["app"] = new["user"], new["group"], new["app"]
        job["queue"], job["partition"], job["memory"], job["chunks"] = new["queue"], new["partition"], new["memory"], 0
        job["ran"], job["held"], job["unmet"], job["restarts"], job["status"] = 0.0, -1, 0, 0, 0
        truth["runtime"], truth["fails"], truth["children"], truth["heap"] = known["runtime"], known["fails"], 0, -1


set_dtype = np.dtype([("first", "i8"), ("jobs", "i8"), ("offset", "f8")], align=True)


class Jobsets(NamedTuple):
    """K jobsets: rows of two tables, one set after the other; `sets` says where each begins, and its trace time of time 0."""

    jobs: np.ndarray  # [L] of job_dtype
    truth: np.ndarray  # [L] of truth_dtype
    sets: np.ndarray  # [K] of set_dtype


@inlined
def renew(s, e, p, k):
    """Begin simulation e anew with jobset k; its cluster and settings stay."""
    sim, one, R = s.sims[e], p.sets[k], len(s.nodes[e, 0]["free"])
    sim["now"], sim["wake"], sim["head"], sim["tail"] = 0.0, np.inf, -1, -1
    sim["next"] = sim["queued"] = sim["running"] = sim["ended"] = sim["entered"] = sim["left"] = 0
    sim["outage"], sim["preemptions"], sim["events"], sim["slice"] = 0, 0, 0, 0
    sim["jobs"], sim["origin"] = one["jobs"], one["offset"]
    for i in range(s.nodes.shape[1]):
        s.nodes[e, i]["up"] = 1
        for r in range(R):
            s.nodes[e, i]["free"][r] = s.nodes[e, i]["capacity"][r]
    last = s.slices.shape[1] - 1
    for i in range(last):
        s.slices[e, i]["next"] = i + 1
    s.slices[e, last]["next"] = -1
    for i in range(one["jobs"]):
        s.jobs[e, i] = p.jobs[one["first"] + i]
        s.truth[e, i] = p.truth[one["first"] + i]
        s.truth[e, i]["heap"] = -1
