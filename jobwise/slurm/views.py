"""A running cluster as a view that any policy of pools may decide on: its CPUs as one pool, its jobs in order of submit."""

from __future__ import annotations

import numpy as np

from jobwise.cluster import pool
from jobwise.decision import View, begin
from jobwise.errors import InputError
from jobwise.jobs import QUEUED, RUNNING, blank_jobs, past_dtype
from jobwise.sim.state import slice_dtype
from jobwise.slurm.live import Cluster

PAST = 20_000  # ended jobs that a policy may learn from
COPIED = ("submit", "walltime", "start", "user", "group", "app", "queue", "partition")


def view_of(c: Cluster) -> tuple[View, np.ndarray]:
    """(the cluster as a view, the number of each of its jobs [J]); its time 0 is now."""
    w, jobs = c.workload, c.workload.jobs
    live = c.live
    table = blank_jobs(len(live))
    for key in COPIED:
        table[key] = jobs[key][live]
    table["request"][:, 0] = jobs["request"][live, 0]
    for key in ("submit", "start"):
        table[key] -= c.now
    going = ~np.isnan(table["start"])
    table["queued"], table["status"] = table["submit"], np.where(going, RUNNING, QUEUED)
    table["due"][going] = table["start"][going] + np.maximum(table["walltime"][going], 1.0)
    total, queue, running = int(w.cluster.total[0]), np.flatnonzero(~going), np.flatnonzero(going)
    free = max(total - int(table["request"][going, 0].sum()), 0)
    ended = np.flatnonzero(~np.isnan(jobs["end"]))
    ended = ended[np.argsort(jobs["end"][ended], kind="stable")][-PAST:]
    past = np.zeros(len(ended), past_dtype)
    past["runtime"] = jobs["end"][ended] - jobs["start"][ended]
    past["size"], past["memory"] = jobs["request"][ended, 0], -1.0
    for key in ("walltime", "user", "app", "queue"):
        past[key] = jobs[key][ended]
    for key in ("submit", "end"):
        past[key] = jobs[key][ended] - c.now
    blank = np.zeros(0, slice_dtype(1))
    view = View(
        now=0.0, jobs=table, queue=queue.astype(np.int32), running=running.astype(np.int32), ended=np.zeros(0, np.int32),
        free=np.array([[free]]), cluster=pool(total), slices=blank, table=table, held=blank, origin=w.origin + c.now, past=past,
    )  # fmt: skip
    return view, w.columns["job"][live]


def order_of(policy, c: Cluster) -> list[dict]:
    """The waiting jobs of a cluster as a policy ranks them, first to start first: `job` its number, `score`, `why`. Raises
    InputError where the policy ranks nothing, or nonsense."""
    view, ids = view_of(c)
    if len(view.queue) == 0:
        return []
    run = begin(policy, view)
    if not hasattr(run, "explain"):
        raise InputError(f"policy {policy.name}: does not say how it ranks jobs")
    ranked = [x for x in run.explain(view) if x["job"] is not None]
    rows = [int(x["job"]) for x in ranked]
    if sorted(rows) != sorted(view.queue.tolist()):
        raise InputError(f"policy {policy.name}: ranked {len(set(rows))} of {len(view.queue)} jobs")
    if not np.isfinite(np.array([max(x["score"], -1e300) for x in ranked], float)).all():
        raise InputError(f"policy {policy.name}: a score is no number")
    return [{"job": int(ids[x["job"]]), "score": float(x["score"]), "why": x.get("why", "")} for x in ranked]
