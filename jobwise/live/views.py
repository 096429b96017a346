"""A running cluster as a view that any policy may decide on: its CPUs as one pool, or its nodes with CPUs, memory and GPUs
where the policy takes no pool (`+pack`, `+learned`), or its GPUs one by one where it assigns them (`gpus:…`); its jobs in order
of submit.

The table of a view begins some time ago, before any job came that waits now, and holds what has ended since: what a policy
promised then it promises again, whoever asks, also after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jobwise.cluster import Cluster as Machine
from jobwise.cluster import pool
from jobwise.decision import Start, View, begin
from jobwise.errors import InputError
from jobwise.jobs import DONE, QUEUED, RUNNING, blank_jobs, past_dtype
from jobwise.live.sources import Now
from jobwise.sim.state import slice_dtype
from jobwise.sim.topology import gpu_racks
from jobwise.slurm.read.text import nodes
from jobwise.workload import Workload, supposed

PAST, RECENT = 20_000, 2000  # ended jobs that a policy may learn from; jobs that the table of a view holds at least
COPIED = ("submit", "walltime", "start", "end", "user", "group", "app", "queue", "partition")
GPU = 2  # the column of GPUs in a site's resources
MOST_CHUNKS = 128  # tasks of a job that asks for no number of nodes; more may be anywhere, CPU by CPU


@dataclass(frozen=True, eq=False)
class SeenMachine:
    """The machine as a policy sees it, and who holds what: `request` [J, R] and `chunks` [J] of jobs; `slices` [S], of which
    `first` [J] is a job's first (-1: none); `free` [N, R]."""

    machine: Machine
    request: np.ndarray
    chunks: np.ndarray
    slices: np.ndarray
    first: np.ndarray
    free: np.ndarray


def view_of(c: Now, policy: Any = None) -> tuple[View, np.ndarray]:
    """(the cluster as a view for a policy, the number of each of its jobs [J]). Raises InputError where the policy takes
    neither a pool nor nodes."""
    w, jobs = c.workload, c.workload.jobs
    t0 = _beginning(jobs)
    rows = np.flatnonzero((jobs["submit"] >= t0) | ~(jobs["end"] <= t0))
    waits, over = np.isnan(jobs["start"][rows]), ~np.isnan(jobs["end"][rows])
    going = ~waits & ~over
    held = (_pool if takes(policy, pool(int(w.cluster.total[0]))) else _nodes)(c, rows, going)
    if not takes(policy, held.machine):
        if not hasattr(policy, "moves_jobs"):
            policy.check(held.machine)
        held = _gpus(c, rows, going, policy)
        waits, going = (x & (held.request[:, 0] > 0) for x in (waits, going))
    table = blank_jobs(len(rows), held.request.shape[1])
    for key in COPIED:
        table[key] = jobs[key][rows]
    table["request"], table["chunks"], table["held"] = held.request, held.chunks, held.first
    for key in ("submit", "start", "end"):
        table[key] -= t0
    table["submit"] = np.minimum(table["submit"], c.now - t0)  # Slurm's clock may be ahead; nobody waits for less than 0 s
    table["queued"], table["status"] = table["submit"], np.select([waits, over], [QUEUED, DONE], RUNNING)
    table["ran"] = np.where(over, table["end"] - table["start"], 0.0)
    table["due"][going] = table["start"][going] + np.maximum(table["walltime"][going], 1.0)
    queue, running, none = (np.flatnonzero(x).astype(np.int32) for x in (waits, going, waits & over))
    view = View(
        now=c.now - t0, jobs=table, queue=queue, running=running, ended=none, free=held.free, cluster=held.machine,
        slices=held.slices, table=table, held=held.slices, origin=w.origin + t0, past=_past(jobs, t0),
    )  # fmt: skip
    return view, w.columns["job"][rows]


def takes(policy: Any, machine: Machine) -> bool:
    """Can the policy schedule this?"""
    try:
        getattr(policy, "check", lambda cluster: None)(machine)
    except InputError:
        return False
    return True


def _pool(c: Now, rows: np.ndarray, going: np.ndarray) -> SeenMachine:
    """The CPUs of the nodes that are in service, as one pool."""
    w, total = c.workload, int(c.workload.cluster.total[0])
    request, nothing = w.jobs["request"][rows, :1], np.zeros(len(rows), np.int32)
    free = total - int(request[going].sum())
    if c.down:  # of them only what nobody uses is lost
        free = int(_nodes(c, rows, going).free[:, 0].sum())
    return SeenMachine(pool(total), request, nothing, np.zeros(0, slice_dtype(1)), nothing - 1, np.array([[max(free, 0)]]))


def _nodes(c: Now, rows: np.ndarray, going: np.ndarray) -> SeenMachine:
    """The nodes with CPUs, memory (MiB) and GPUs; what a running job holds is the same on each of its nodes. Nodes that are out
    of service have nothing free."""
    w, site = c.workload, c.workload.cluster.known_site
    capacity, place = w.cluster.capacity, {n: i for i, n in enumerate(site.names)}
    jobs = w.jobs[rows]
    ask = site.asks[np.maximum(jobs["ask"], 0)]
    chunks = np.where(ask["nodes"] > 0, ask["nodes"], np.where(ask["tasks"] <= MOST_CHUNKS, ask["tasks"], 0)).astype(np.int32)
    each = np.maximum(chunks, 1)[:, None]
    request = -(-jobs["request"] // each) * each  # chunks are equal
    free, first = capacity.copy(), np.full(len(rows), -1, np.int32)
    slices: list[tuple] = []
    lists, codes = w.names["nodes"], w.columns["nodes"][rows]
    for j in np.flatnonzero(going).tolist():
        at = [place[n] for n in nodes(lists[int(codes[j])]) if n in place]
        for k, i in enumerate(at):
            share = jobs["request"][j] // len(at) + (k < jobs["request"][j] % len(at))
            slices.append((i, len(slices) + 1 if k + 1 < len(at) else -1, 0, share))
            free[i] -= share
            first[j] = first[j] if k else len(slices) - 1
    free[[place[n] for n in c.down if n in place]] = 0
    held = np.array(slices, slice_dtype(capacity.shape[1])) if slices else np.zeros(0, slice_dtype(capacity.shape[1]))
    return SeenMachine(Machine(capacity, w.cluster.resources), request, chunks, held, first, np.maximum(free, 0))


def _gpus(c: Now, rows: np.ndarray, going: np.ndarray, policy: Any) -> SeenMachine:
    """The GPUs of the nodes that have some, one by one, as one rack. Slurm says how many a job holds on a node; the view takes
    them to be the first ones that are free there. Raises InputError where nodes have different numbers of GPUs, and for
    policies that move running jobs."""
    w, capacity = c.workload, c.workload.cluster.capacity[:, GPU]
    have = np.flatnonzero(capacity)
    if not len(have) or len(set(capacity[have].tolist())) > 1:
        here = sorted(set(capacity.tolist()))
        raise InputError(f"policy {policy.name}: nodes with GPUs, as many each, are expected; here are {here}")
    if policy.moves_jobs:
        raise InputError(
            f"policy {policy.name} moves jobs that run, which Slurm does not: {policy.name}+none leaves them alone"
        )
    each, place = int(capacity[have[0]]), {w.cluster.known_site.names[i]: k for k, i in enumerate(have)}
    request, first = w.jobs["request"][rows, GPU][:, None], np.full(len(rows), -1, np.int32)
    free = np.ones((len(have) * each, 1), np.int64)
    slices: list[tuple] = []
    lists, codes = w.names["nodes"], w.columns["nodes"][rows]
    for j in np.flatnonzero(going & (request[:, 0] > 0)).tolist():
        at = [place[n] for n in nodes(lists[int(codes[j])]) if n in place]
        for k, i in enumerate(at):
            own = np.arange(i * each, (i + 1) * each)
            share = int(request[j, 0]) // len(at) + (k < int(request[j, 0]) % len(at))
            for g in own[free[own, 0] > 0][:share].tolist():
                if first[j] < 0:
                    first[j] = len(slices)
                else:
                    slices[-1] = (slices[-1][0], len(slices), *slices[-1][2:])
                slices.append((g, -1, 0, (1,)))
                free[g] = 0
    for n in c.down:
        if n in place:
            free[place[n] * each : (place[n] + 1) * each] = 0
    held = np.array(slices, slice_dtype(1)) if slices else np.zeros(0, slice_dtype(1))
    return SeenMachine(gpu_racks([len(have)], each), request, np.zeros(len(rows), np.int32), held, first, free)


def names_of(c: Now, machine: Machine) -> list[str]:
    """The node that each node of a machine as a policy sees it is, or is a part of."""
    names = c.workload.cluster.known_site.names
    if machine.topology is None:
        return list(names)
    have = np.flatnonzero(c.workload.cluster.capacity[:, GPU])
    return [names[i] for i in have for _ in range(machine.topology.gpus)]


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


def ended_on_pool(c: Now) -> Workload:
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


class Wishes:
    """What a policy wants of a cluster as it is now. One run of the policy, on one view, answers both questions."""

    def __init__(self, policy: Any, c: Now):
        self._policy, self._c = policy, c

    @cached_property
    def _view(self) -> tuple[View, np.ndarray]:
        """(the view, the numbers of its jobs)."""
        return view_of(self._c, self._policy)

    @cached_property
    def _run(self) -> Any:
        """The run of the policy that begins with the view."""
        return begin(self._policy, self._view[0])

    @cached_property
    def order(self) -> list[dict]:
        """The waiting jobs as the policy ranks them, first to start first: `job` its number, `score`, `why`. Raises InputError
        where the policy ranks nothing, or nonsense."""
        (view, ids), name = self._view, self._policy.name
        if len(view.queue) == 0:
            return []
        if not hasattr(self._run, "explain"):
            raise InputError(f"policy {name}: does not say how it ranks jobs")
        ranked = [x for x in self._run.explain(view) if x["job"] is not None]
        rows = [int(x["job"]) for x in ranked]
        if sorted(rows) != sorted(view.queue.tolist()):
            raise InputError(f"policy {name}: ranked {len(set(rows))} of {len(view.queue)} jobs")
        if not np.isfinite(np.array([max(x["score"], -1e300) for x in ranked], float)).all():
            raise InputError(f"policy {name}: a score is no number")
        return [{"job": int(ids[x["job"]]), "score": float(x["score"]), "why": x.get("why", "")} for x in ranked]

    @cached_property
    def starts(self) -> dict[int, list[str]]:
        """The jobs that the policy would start now, by number: the names of the nodes that it would have each on; none on a
        pool. Raises InputError."""
        view, ids = self._view
        if len(view.queue) == 0:
            return {}
        names, out = names_of(self._c, view.cluster), dict[int, list[str]]()
        for d in self._run.decide(view):
            if isinstance(d, Start):
                where = [] if view.cluster.is_pool or d.placement is None else [names[n] for n, _ in d.placement]
                out[int(ids[d.job])] = list(dict.fromkeys(where))
        return out
