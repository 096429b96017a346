"""A running cluster as a view that any policy of pools may decide on: its CPUs as one pool, its jobs in order of submit.

The table of a view begins some time ago, before any job came that waits now, and holds what has ended since: what a policy
promised then it promises again, whoever asks, also after a restart.
"""

from __future__ import annotations

import numpy as np

from jobwise.cluster import pool
from jobwise.decision import View, begin
from jobwise.errors import InputError
from jobwise.jobs import DONE, QUEUED, RUNNING, blank_jobs, past_dtype
from jobwise.sim.state import slice_dtype
from jobwise.slurm.live import Cluster
from jobwise.workload import Workload, supposed

PAST, RECENT = 20_000, 2000  # ended jobs that a policy may learn from; jobs that the table of a view holds at least
COPIED = ("submit", "walltime", "start", "end", "user", "group", "app", "queue", "partition")


def view_of(c: Cluster) -> tuple[View, np.ndarray]:
    """(the cluster as a view, the number of each of its jobs [J])."""
    w, jobs = c.workload, c.workload.jobs
    t0 = _beginning(jobs)
    rows = np.flatnonzero((jobs["submit"] >= t0) | ~(jobs["end"] <= t0))
    table = blank_jobs(len(rows))
    for key in COPIED:
        table[key] = jobs[key][rows]
    table["request"][:, 0] = jobs["request"][rows, 0]
    for key in ("submit", "start", "end"):
        table[key] -= t0
    waits, over = np.isnan(table["start"]), ~np.isnan(table["end"])
    going = ~waits & ~over
    table["queued"], table["status"] = table["submit"], np.select([waits, over], [QUEUED, DONE], RUNNING)
    table["ran"] = np.where(over, table["end"] - table["start"], 0.0)
    table["due"][going] = table["start"][going] + np.maximum(table["walltime"][going], 1.0)
    total, queue, running = int(w.cluster.total[0]), np.flatnonzero(waits), np.flatnonzero(going)
    free = max(total - int(table["request"][going, 0].sum()), 0)
    blank = np.zeros(0, slice_dtype(1))
    view = View(
        now=c.now - t0, jobs=table, queue=queue.astype(np.int32), running=running.astype(np.int32), ended=np.zeros(0, np.int32),
        free=np.array([[free]]), cluster=pool(total), slices=blank, table=table, held=blank, origin=w.origin + t0,
        past=_past(jobs, t0),
    )  # fmt: skip
    return view, w.columns["job"][rows]


def _beginning(jobs: np.ndarray) -> float:
    """When the table of a view begins: no job that waits came before, nor one of the last RECENT (at most half of all)."""
    waiting, recent = jobs["submit"][np.isnan(jobs["start"])], jobs["submit"][-min(RECENT, (len(jobs) + 1) // 2) :]
    return float(min(recent.min(), waiting.min(initial=np.inf)))


def _past(jobs: np.ndarray, t0: float) -> np.ndarray:
    """The last jobs that had ended at `t0`, as a policy learns from them."""
    ended = np.flatnonzero((jobs["end"] <= t0) & (jobs["submit"] < t0))
    ended = ended[np.argsort(jobs["end"][ended], kind="stable")][-PAST:]
    past = np.zeros(len(ended), past_dtype)
    past["runtime"] = jobs["end"][ended] - jobs["start"][ended]
    past["size"], past["memory"] = jobs["request"][ended, 0], -1.0
    for key in ("walltime", "user", "app", "queue"):
        past[key] = jobs[key][ended]
    for key in ("submit", "end"):
        past[key] = jobs[key][ended] - t0
    return past


def ended_on_pool(c: Cluster) -> Workload:
    """The jobs of a cluster that have ended, with their waits, on its CPUs as one pool. Raises InputError where none has."""
    w, jobs = c.workload, c.workload.jobs
    rows = np.flatnonzero(~np.isnan(jobs["end"]))
    if not len(rows):
        raise InputError(f"{c.name}: no job has ended")
    table = blank_jobs(len(rows))
    for key in ("submit", "walltime", "user", "group", "app", "queue", "partition"):
        table[key] = jobs[key][rows]
    table["request"][:, 0] = jobs["request"][rows, 0]
    first, total = table["submit"][0], int(w.cluster.total[0])
    table["submit"] -= first
    run, wait = jobs["end"][rows] - jobs["start"][rows], jobs["start"][rows] - jobs["submit"][rows]
    return supposed(table, run, pool(total), name=c.name, origin=w.origin + first, columns={"wait": wait})


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
