"""A workload: the jobs of a log or a generator in order of submit, the truth about them, and their cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.jobs import blank_jobs, past_dtype, truth_dtype
from jobwise.sim.dag import graph, levels, ranks
from jobwise.sim.pool.pool import waits
from jobwise.sim.random import Seed

COLUMNS = ("user", "group", "app", "queue", "partition", "kind", "memory", "least", "most", "step", "gradient", "flow", "ask")
PAST = 20_000  # so many of the jobs that ended last before a part of a log are remembered by it


@dataclass(frozen=True, eq=False)
class Workload:
    """Jobs in the order of their submits, the truth about them, and the cluster that they are meant for.

    Attributes
    ----------
    jobs : structured array [J] of `jobwise.jobs.job_dtype`
        What a scheduler may know, by (submit, order in the source); the first submit is 0. Times are in s.
    truth : structured array [J] of `jobwise.jobs.truth_dtype`
        What it may not know: run times, s.
    cluster : Cluster
        The machine.
    edges : array [M, 2]
        (parent, child) rows of a graph of tasks.
    columns : dict of str to array [J]
        Whatever else the source had.
    dropped : dict of str to int
        Rows that the reader left out, a count a reason.
    notes : dict of str to int
        What else the reader noticed.
    origin : float, s since 1970
        When submit 0 was; NaN: unknown.
    offset : float, s
        From time 0 of the source to submit 0.
    past : structured array [K] of `jobwise.jobs.past_dtype`
        Jobs known to have ended before submit 0, in order of end: what history begins with.
    reading : tuple of str
        How the source was read, in sentences for reports.
    names : dict of str to dict
        Names of identifiers, such as ``{"user": {7: "anna"}}``.
    """

    jobs: np.ndarray
    truth: np.ndarray
    cluster: Cluster
    name: str = "workload"
    header: tuple[str, ...] = ()
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    edges: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    origin: float = float("nan")
    offset: float = 0.0
    past: np.ndarray = field(default_factory=lambda: np.zeros(0, past_dtype))
    reading: tuple[str, ...] = ()
    names: dict[str, dict[int, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        return f"<Workload {self.name!r}: {len(self):,} jobs for {self.cluster.total.tolist()}>"

    @property
    def left_out(self) -> str:
        """In words, how many rows the reader left out, and why."""
        return ", ".join(f"{n:,} {reason}" for reason, n in self.dropped.items()) or "none"

    @cached_property
    def ends(self) -> np.ndarray:
        """The jobs [J] of past_dtype, in the order of the jobs, with their ends: as the log recorded them, or, on a pool whose
        log has no waits, as a replay under first-come, first-served with EASY has them. Elsewhere they end at submit + run."""
        wait = self.columns.get("wait")
        if wait is None or not (wait > 0).any():
            if "replayed wait" not in self.columns and self.cluster.is_pool:
                self.columns["replayed wait"] = waits(self)
            wait = self.columns.get("replayed wait", np.zeros(len(self)))
        past = np.empty(len(self), past_dtype)
        past["runtime"], past["walltime"] = self.truth["runtime"], self.jobs["walltime"]
        past["size"], past["user"] = self.jobs["request"][:, 0], self.jobs["user"]
        for key in ("submit", "app", "queue", "memory"):
            past[key] = self.jobs[key]
        past["end"] = past["submit"] + np.maximum(wait, 0.0) + past["runtime"]
        return past

    @cached_property
    def by_end(self) -> np.ndarray:
        """The past in order of end."""
        return self.ends[np.argsort(self.ends["end"], kind="stable")]

    def before(self, time: float) -> np.ndarray:
        """[K] of `past_dtype`: the last PAST jobs that had ended before `time` (s) when the log was written, in s from it."""
        past = self.by_end[: np.searchsorted(self.by_end["end"], time, side="left")][-PAST:]
        if len(past) < PAST and len(self.past):
            past = np.concatenate([self.past, past])[-PAST:]
        past = past.copy()
        past["submit"] -= time
        past["end"] -= time
        return past

    def take(self, rows: np.ndarray | slice, name: str | None = None) -> Workload:
        """The workload of these rows alone (ascending rows), submits shifted so that the first is at 0.

        Its `past` are the jobs of this workload that had ended by then.
        """
        rows = np.arange(len(self))[rows]
        if len(rows) == 0:
            raise InputError(f"{self.name}: the selection holds no job")
        jobs, truth = self.jobs[rows].copy(), self.truth[rows].copy()
        first = float(jobs["submit"][0])
        jobs["submit"] -= first
        new = np.full(len(self), -1)
        new[rows] = np.arange(len(rows))
        edges = new[self.edges]
        edges = edges[(edges >= 0).all(axis=1)]
        jobs["unmet"] = np.bincount(edges[:, 1], minlength=len(jobs))
        return replace(
            self,
            jobs=jobs,
            truth=truth,
            name=name or self.name,
            columns={k: v[rows] for k, v in self.columns.items()},
            edges=edges,
            origin=self.origin + first,
            offset=self.offset + first,
            past=self.before(first) if first > 0 else self.past,
        )


def workload(
    submit: np.ndarray,
    request: np.ndarray,
    runtime: np.ndarray,
    walltime: np.ndarray | None = None,
    *,
    cluster: Cluster,
    edges: np.ndarray | None = None,
    name: str = "workload",
    chunks: np.ndarray | int = 0,
    **identifiers: np.ndarray,
) -> Workload:
    """Return a workload made from columns, one row a job.

    Rows are sorted by submit (equal ones stay in order) and shifted so that the first submit is 0.

    Parameters
    ----------
    submit : array [J], s
        When each job is submitted.
    request : array [J] or [J, R], units
        What each job asks for, of each of the cluster's R resources.
    runtime : array [J], s
        How long each job really runs.
    walltime : array [J], s, optional
        How long each job asks to run; by default its run time.
    cluster : Cluster
        The machine that the jobs are for.
    edges : array [M, 2], optional
        (parent, child) rows of the columns as they are given: a child starts after its parent has ended.
    name : str
        The name that reports use.
    chunks : int or array [J]
        Into how many parts a job may be cut for malleable worlds; 0: it is rigid.
    **identifiers : array [J]
        Other columns of `jobwise.jobs.job_dtype`: user, group, app, queue, partition, memory, kind, flow.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A value cannot be: a negative time, a job that is larger than the machine, a cycle of edges.
    """
    submit, runtime = np.asarray(submit, float), np.asarray(runtime, float)
    walltime = runtime if walltime is None else np.asarray(walltime, float)
    for what, column in (("request", request), ("runtime", runtime), ("walltime", walltime), *identifiers.items()):
        if len(column) != len(submit):
            raise InputError(f"{name}: {len(column)} values of {what} for {len(submit)} submits")
    if wrong := sorted(set(identifiers) - set(COLUMNS)):
        raise unknown("column", wrong[0], COLUMNS, f"{name}: ")
    request = np.asarray(request)
    request = request.reshape(len(submit), -1) if len(submit) else request.reshape(0, cluster.capacity.shape[1])
    if request.shape[1] != cluster.capacity.shape[1]:
        raise InputError(f"{name}: jobs request {request.shape[1]} resources, the cluster has {cluster.capacity.shape[1]}")
    shapes = [(k, identifiers[k]) for k in ("least", "most", "step", "gradient") if k in identifiers]
    for what, column in (("submit", submit), ("runtime", runtime), ("walltime", walltime), *shapes):
        bad = np.flatnonzero(~np.isfinite(column) | (np.asarray(column) < 0))
        if len(bad):
            raise InputError(f"{name}: {what} of job {bad[0]} is {column[bad[0]]}; it must be a finite number >= 0")
    chunks = np.broadcast_to(chunks, len(submit))
    least = np.broadcast_to(identifiers.get("least", 0), len(submit))[:, None]
    beyond = np.flatnonzero(~cluster.holds(np.where(least > 0, least, request), chunks))
    if len(beyond):
        what = f"{request[beyond[0]].tolist()}" + (f" in {chunks[beyond[0]]} equal chunks" if chunks[beyond[0]] else "")
        raise InputError(f"{name}: job {beyond[0]} requests {what}; the cluster has {cluster.total.tolist()} in all")
    order = np.argsort(submit, kind="stable")
    jobs = blank_jobs(len(submit), request.shape[1])
    first = submit[order[0]] if len(submit) else 0.0
    jobs["submit"], jobs["walltime"], jobs["request"] = submit[order] - first, walltime[order], request[order]
    jobs["chunks"] = chunks[order]
    for key, column in identifiers.items():
        jobs[key] = np.asarray(column)[order]
    truth = np.zeros(len(submit), truth_dtype)
    truth["runtime"], truth["kind"] = runtime[order], jobs["kind"]
    links = np.zeros((0, 2), np.int64)
    if edges is not None and len(edges):
        edges = np.asarray(edges, np.int64).reshape(-1, 2)
        if edges.min() < 0 or edges.max() >= len(submit) or (edges[:, 0] == edges[:, 1]).any():
            raise InputError(f"{name}: edges are (parent, child) rows of two different jobs, 0 to {len(submit) - 1}")
        place = np.empty(len(submit), np.int64)
        place[order] = np.arange(len(submit))
        links = place[np.asarray(edges, np.int64)]
        jobs["unmet"] = np.bincount(links[:, 1], minlength=len(jobs))
        try:
            g = graph(len(jobs), links)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        jobs["rank"], jobs["level"] = ranks(g, np.maximum(jobs["walltime"], 1.0)), np.minimum(levels(g), 65_535)
    return Workload(jobs, truth, cluster, name=name, edges=links, offset=float(first))


def supposed(jobs: np.ndarray, run: np.ndarray, cluster: Cluster, **more: Any) -> Workload:
    """Return a workload of job rows [J] as they are, which are supposed to run for run[J] s. `more`: fields of Workload."""
    truth = np.zeros(len(jobs), truth_dtype)
    truth["runtime"], truth["kind"] = run, jobs["kind"]
    return Workload(jobs, truth, cluster, **more)


def as_estimated(w: Workload) -> Workload:
    """The workload as if every job ran as long as it requests: what can be simulated before anything has run."""
    truth = w.truth.copy()
    truth["runtime"] = np.maximum(w.jobs["walltime"], 1e-3)
    return replace(w, truth=truth)


def resort(w: Workload, name: str | None = None) -> Workload:
    """The workload with its rows by submit again, first at 0 (after a change of submits)."""
    w = in_order(w, np.argsort(w.jobs["submit"], kind="stable"))
    jobs = w.jobs.copy()
    jobs["submit"] -= jobs["submit"][0]
    return replace(w, jobs=jobs, name=name or w.name)


def in_order(w: Workload, order: np.ndarray) -> Workload:
    """Return the workload with row order[i] [J] in place i; times stay as they are."""
    place = np.empty(len(w), np.int64)
    place[order] = np.arange(len(w))
    columns = {k: v[order] for k, v in w.columns.items()}
    return replace(w, jobs=w.jobs[order], truth=w.truth[order], columns=columns, edges=place[w.edges])


def shake(w: Workload, by: float, seed: Seed) -> Workload:
    """Submits moved by U(-by, by) s: a replica that no schedule's chaos can tell from the log."""
    if not 0 <= by <= 1e8:
        raise InputError(f"submits can be moved by 0 to 1e8 s, not {by:g}")
    rng = np.random.default_rng(seed)
    jobs = w.jobs.copy()
    jobs["submit"] = np.round(jobs["submit"] + rng.uniform(-by, by, len(w)))
    return resort(replace(w, jobs=jobs))
