"""A running cluster as a view that any policy may decide on: its CPUs as one pool, or its nodes with CPUs, memory and GPUs
where the policy takes no pool (`+pack`, `+learned`), or its GPUs one by one where it assigns them (`gpus:…`); its jobs in order
of submit.

The table of a view begins some time ago, before the submit of any job that waits now, and holds the jobs that have ended since.
So a policy computes the same start deadlines again for every caller, also after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jobwise.cluster import Cluster as Machine
from jobwise.cluster import pool
from jobwise.decision import View
from jobwise.errors import InputError
from jobwise.jobs import DONE, FAILED, FUTURE, QUEUED, RUNNING, STOPPED, blank_jobs, past_dtype
from jobwise.live.sources import Now
from jobwise.policies.scheduler import scheduler
from jobwise.sim import events
from jobwise.sim.state import slice_dtype
from jobwise.sim.topology import gpu_racks
from jobwise.slurm.read.text import nodes
from jobwise.workload import Workload, supposed

PAST, RECENT = 20_000, 2000  # ended jobs that a policy may learn from; jobs that the table of a view holds at least
LONG = 20_000  # jobs by which the table of a run may grow, beside three times as many as at its first look
CODED = ("user", "group", "app", "queue", "partition")
COPIED = ("submit", "walltime", "start", "end", *CODED)
ASKED = ("walltime", "request", "chunks", *CODED)  # what a job that waits keeps
CPUS, GPU = 0, 2  # columns of a site's resources
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


@dataclass(frozen=True, eq=False)
class Look:
    """A cluster as a run of a policy sees it: the view; `ids` [J]: the numbers of its jobs; `codes`: of a column (user, …) the
    names that it has been shown, each with its code; `first`: jobs at the first look of this run; `is_first`: this is that."""

    view: View
    ids: np.ndarray
    codes: dict[str, dict[str, int]]
    first: int
    is_first: bool


def view(
    table: np.ndarray,
    now: float,
    machine: Machine,
    free: np.ndarray,
    slices: np.ndarray,
    before: np.ndarray | None,
    ended: np.ndarray | None = None,
    **more: Any,
) -> View:
    """Return the view of a table of jobs [J] on a machine in use. `before`: the status of each at the last view, which may
    have had fewer rows (None: there was none); `ended`: rows that stopped since, where that is known better than by status;
    `more`: fields of View."""
    since: dict[str, Any] = {}
    if before is not None:
        status = np.append(before, np.full(len(table) - len(before), FUTURE, before.dtype))
        since["events"] = events.between(status, table, now)
        stops = since["events"]["job"][since["events"]["kind"] == STOPPED]
        ended = stops.astype(np.int32) if ended is None else ended
    queue, running = (np.flatnonzero(table["status"] == k).astype(np.int32) for k in (QUEUED, RUNNING))
    return View(
        now=now, jobs=table, queue=queue, running=running, ended=np.zeros(0, np.int32) if ended is None else ended,
        free=free, cluster=machine, slices=slices, table=table, held=slices, **since, **more,
    )  # fmt: skip


def view_of(c: Now, policy: Any, before: Look | None = None) -> Look:
    """A cluster as a view for a policy. After `before` each job is in its row of then, and the view tells the events since;
    `is_first` where there is none before, or a run that was shown it cannot go on. Raises InputError where the policy takes
    neither a pool nor nodes."""
    policy = scheduler(policy)
    later = _look(c, policy, before)
    return later if before is None or _goes_on(before.view, later.view, 4 * before.first + LONG) else _look(c, policy, None)


def _look(c: Now, policy: Any, before: Look | None) -> Look:
    """Fill the table of a look, jobs in their rows of `before`; who was there and is gone: see `_leave`."""
    w, jobs = c.workload, c.workload.jobs
    t0 = before.view.origin - w.origin if before else _beginning(jobs)
    rows = np.flatnonzero((jobs["submit"] >= t0) | ~(jobs["end"] <= t0))
    held = (_pool if takes(policy, pool(int(w.cluster.total[0]))) else _nodes)(c, rows)
    if not takes(policy, held.machine):
        if policy.moves_jobs is None:
            policy.check(held.machine)
        rows = rows[jobs["request"][rows, GPU] > 0]
        held = _gpus(c, rows, policy)
    ids, known = w.columns["job"][rows], before.ids if before else np.zeros(0, np.int64)
    every = np.concatenate([known, ids[~np.isin(ids, known)]])
    order = np.argsort(every, kind="stable")
    place = order[np.searchsorted(every, ids, sorter=order)]  # in the table, of each row
    table, now = blank_jobs(len(every), held.request.shape[1]), c.now - t0
    codes = before.codes if before else {}
    if before and before.view.table.dtype == table.dtype:
        table[: len(known)] = before.view.table
    _leave(table, ~np.isin(np.arange(len(table)), place), np.isin(every, list(c.out)), now)
    for key in COPIED:
        table[key][place] = _coded(w, key, rows, codes) if key in CODED else jobs[key][rows]
    table["request"][place], table["chunks"][place], table["held"][place] = held.request, held.chunks, held.first
    for key in ("submit", "start", "end"):
        table[key][place] -= t0
    table["submit"] = np.minimum(table["submit"], now)  # Slurm's clock may be ahead; nobody waits for less than 0 s
    if before:
        table["submit"][: len(known)] = before.view.table["submit"]
    table["queued"] = table["submit"]
    waits, over = np.isnan(jobs["start"][rows]), ~np.isnan(jobs["end"][rows])
    table["status"][place] = np.select([waits, over], [QUEUED, DONE], RUNNING)
    table["ran"] = np.nan_to_num(table["end"] - table["start"])
    due = table["start"] + np.maximum(table["walltime"], 1.0)
    table["due"] = np.where(table["status"] == RUNNING, due, np.nan)
    past, status = (before.view.past, before.view.table["status"]) if before else (_past(jobs, t0), None)
    shown = view(table, now, held.machine, held.free, held.slices, status, origin=w.origin + t0, past=past)
    return Look(shown, every, codes, before.first if before else len(every), before is None)


def _leave(table: np.ndarray, gone: np.ndarray, out: np.ndarray, now: float) -> None:
    """Say in the table what has become of jobs that are `gone` [J] from queue and accounting; `out` [J]: they may not start
    yet."""
    waited, ran = (gone & (table["status"] == k) for k in (QUEUED, RUNNING))
    table["status"][waited] = FAILED  # cancelled, or held: then it may come back
    table["status"][ran] = np.where(out[ran], FUTURE, DONE)  # put back into the queue, or ended: accounting lags behind
    table["end"][waited | ran & ~out] = now
    table["held"] = -1  # filled anew for who runs


def _goes_on(was: View, new: View, most: int) -> bool:
    """Can a run that saw `was` go on with `new`? It takes jobs that come, start, end, or are cancelled; no other change, and
    no table of more than `most` jobs."""
    if new.now < was.now or not _alike(new.cluster, was.cluster) or len(new.table) > most:
        return False
    known = new.table[: len(was.table)]  # the same jobs, in the same rows
    before, status = was.table["status"], known["status"]
    waits = status == QUEUED
    waits_again = (status == FUTURE) | waits & (before != QUEUED)  # FUTURE: it ran, and may not start yet
    is_back = np.isin(before, (DONE, FAILED)) & (status != before)
    if waits_again.any() or is_back.any():
        return False
    return all(np.array_equal(was.table[key][waits], known[key][waits]) for key in ASKED)


def _alike(a: Machine, b: Machine) -> bool:
    return a.resources == b.resources and np.array_equal(a.capacity, b.capacity) and a.topology == b.topology


def _coded(w: Workload, key: str, rows: np.ndarray, codes: dict[str, dict[str, int]]) -> np.ndarray:
    """[K] the codes of a column for these rows, the same for a name at every look; `codes` takes new names up."""
    own, known = w.jobs[key][rows], codes.setdefault(key, {})
    if not known:  # the first look: they are as they are
        known |= {name: code for code, name in w.names[key].items()}
        return own
    out = np.full(len(own), -1, own.dtype)
    for code in np.unique(own[own >= 0]).tolist():
        out[own == code] = known.setdefault(w.names[key][code], max(known.values()) + 1)
    return out


def takes(policy: Any, machine: Machine) -> bool:
    """Can the policy schedule this?"""
    try:
        scheduler(policy).check(machine)
    except InputError:
        return False
    return True


def _running(c: Now, rows: np.ndarray) -> np.ndarray:
    """[K] do these jobs run?"""
    return ~np.isnan(c.workload.jobs["start"][rows]) & np.isnan(c.workload.jobs["end"][rows])


def _pool(c: Now, rows: np.ndarray) -> SeenMachine:
    """The CPUs of the nodes that are in service, as one pool."""
    w, total, going = c.workload, int(c.workload.cluster.total[0]), _running(c, rows)
    request, nothing = w.jobs["request"][rows, :1], np.zeros(len(rows), np.int32)
    free = total - int(request[going].sum())
    if c.down:  # of them only what nobody uses is lost
        free = int(_nodes(c, rows).free[:, 0].sum())
    return SeenMachine(pool(total), request, nothing, np.zeros(0, slice_dtype(1)), nothing - 1, np.array([[max(free, 0)]]))


def _nodes(c: Now, rows: np.ndarray) -> SeenMachine:
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
    for j in np.flatnonzero(_running(c, rows)).tolist():
        at = [place[n] for n in nodes(lists[int(codes[j])]) if n in place]
        for k, i in enumerate(at):
            share = jobs["request"][j] // len(at) + (k < jobs["request"][j] % len(at))
            slices.append((i, len(slices) + 1 if k + 1 < len(at) else -1, 0, share))
            free[i] -= share
            first[j] = first[j] if k else len(slices) - 1
    free[[place[n] for n in c.down if n in place]] = 0
    held = np.array(slices, slice_dtype(capacity.shape[1])) if slices else np.zeros(0, slice_dtype(capacity.shape[1]))
    return SeenMachine(Machine(capacity, w.cluster.resources), request, chunks, held, first, np.maximum(free, 0))


def _gpus(c: Now, rows: np.ndarray, policy: Any) -> SeenMachine:
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
    for j in np.flatnonzero(_running(c, rows)).tolist():
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
    """Return the begin of a view's table: no waiting job came before, and none of the last RECENT (at most half of all)."""
    waiting, recent = jobs["submit"][np.isnan(jobs["start"])], jobs["submit"][-min(RECENT, (len(jobs) + 1) // 2) :]
    return float(min(recent.min(), waiting.min(initial=np.inf)))


def _past(jobs: np.ndarray, t0: float) -> np.ndarray:
    """The last jobs that had ended at `t0`, as a policy learns from them."""
    ended = np.flatnonzero((jobs["end"] <= t0) & (jobs["submit"] < t0))  # the table of the view has those that came at t0
    ended = ended[np.argsort(jobs["end"][ended], kind="stable")][-PAST:]
    past = np.zeros(len(ended), past_dtype)
    past["runtime"] = jobs["end"][ended] - jobs["start"][ended]
    past["size"], past["memory"] = jobs["request"][ended, CPUS], -1.0  # not known
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
