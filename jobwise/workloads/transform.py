"""Transformations of workloads: windows, load, splits, replication, merging, time shifts; and their statistics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise import metrics
from jobwise.cluster import Cluster, pool
from jobwise.errors import InputError
from jobwise.workload import Workload, resort
from jobwise.workload import shake as shake

LEAST_LIMIT = 60.0  # s
MOST_JOBS = 30_000_000  # of a log that is made: some 10 GiB


def first(w: Workload, count: int) -> Workload:
    """Return the first `count` jobs of a log."""
    if count < 1:
        raise InputError(f"the first {count} jobs are none")
    return w.take(slice(0, count))


def window(w: Workload, begin: float, end: float) -> Workload:
    """The jobs submitted in [begin, end), s from the first submit."""
    rows = np.flatnonzero((w.jobs["submit"] >= begin) & (w.jobs["submit"] < end))
    if not len(rows):
        raise InputError(f"{w.name}: no job is submitted between {begin:g} s and {end:g} s; the log spans {span(w):g} s")
    return w.take(rows)


def split(w: Workload, share: float = 0.7) -> tuple[Workload, Workload]:
    """(training, test) in time: the first `share` of the jobs, and the rest."""
    cut = int(share * len(w)) if 0 < share < 1 else 0
    if not 0 < cut < len(w):
        raise InputError(f"{w.name}: a split at {share:g} of {len(w)} jobs leaves one side empty")
    return w.take(slice(0, cut)), w.take(slice(cut, None))


SEEN = 0.7  # share of a log that learners see: training and validation


def unseen(w: Workload) -> Workload:
    """The last 30 % of the jobs: what no training has looked at."""
    return split(w, SEEN)[1]


def span(w: Workload) -> float:
    """Last submit - first submit, s."""
    return float(w.jobs["submit"][-1] - w.jobs["submit"][0])


def date(w: Workload, seconds: float) -> str:
    """Return the calendar date and time (UTC, or as the log prints them) `seconds` s after submit 0; "" where it is unknown."""
    if not 0 <= w.origin + seconds < 4e9:  # NaN, or nothing that a calendar has
        return ""
    return str(np.datetime64(int(w.origin + seconds), "s")).replace("T", " ")


def load(w: Workload) -> float:
    """Offered load: sum n run / (P * submit span)."""
    s = span(w)
    return float((w.jobs["request"][:, 0] * w.truth["runtime"]).sum() / (w.cluster.processors * s)) if s > 0 else float("inf")


def scale_load(w: Workload, target: float) -> Workload:
    """Gaps between submits scaled so that the offered load is `target`."""
    if not (target > 0 and np.isfinite(target)) or not np.isfinite(load(w)):
        raise InputError(f"{w.name}: cannot scale the load from {load(w):g} to {target:g}")
    return stretch(w, load(w) / target)


def stretch(w: Workload, factor: float) -> Workload:
    """All gaps between submits multiplied by `factor`."""
    jobs = w.jobs.copy()
    jobs["submit"] *= factor
    columns = {k: v for k, v in w.columns.items() if k not in ("wait", "replayed wait")}  # they were waits at another load
    return replace(w, jobs=jobs, columns=columns if factor != 1 else w.columns, origin=w.origin if factor == 1 else np.nan)


def replicate(w: Workload, times: int, jitter: float = 1800.0, seed: int = 0) -> Workload:
    """`times` copies of every job for a machine `times` as large; submits jittered by U(-jitter, jitter) s.

    The first copy keeps its submit. Users of different copies are different users.
    """
    if times * len(w) > MOST_JOBS:
        raise InputError(f"{w.name}: {times:,} copies of {len(w):,} jobs are too many; at most {MOST_JOBS:,} jobs in all")
    if times < 1 or len(w.edges) or not w.cluster.is_pool:
        raise InputError(f"{w.name}: replication needs a factor >= 1 and a pool of processors without a DAG")
    rng = np.random.default_rng(seed)
    jobs = np.tile(w.jobs, times)
    copy = np.repeat(np.arange(times), len(w))
    move = np.where(copy > 0, np.round(rng.uniform(-jitter, jitter, len(jobs))), 0.0)
    jobs["submit"] = np.maximum(jobs["submit"] + move, 0)
    users = int(w.jobs["user"].max()) + 1
    jobs["user"] = np.where(jobs["user"] >= 0, jobs["user"] + copy * max(users, 0), -1)
    columns = {k: np.tile(v, times) for k, v in w.columns.items()}
    big = replace(
        w, jobs=jobs, truth=np.tile(w.truth, times), columns=columns, cluster=pool(w.cluster.processors * times), header=()
    )
    return resort(big, f"{w.name}-x{times}")


def pooled(w: Workload) -> Workload:
    """The jobs on one pool of each of the cluster's resources, as if it did not matter on which nodes they run. Raises
    InputError where links or affinities say how fast they run."""
    if w.cluster.topology is not None or w.cluster.affinity is not None:
        raise InputError(f"{w.name}: run times depend on where jobs run; it cannot be pooled")
    jobs, truth = w.jobs.copy(), w.truth.copy()
    jobs["chunks"], jobs["kind"], truth["kind"] = 0, -1, -1
    machine = Cluster(w.cluster.total[None], w.cluster.resources)
    return replace(w, jobs=jobs, truth=truth, cluster=machine, name=f"{w.name}-pooled", header=())


def merge(workloads: list[Workload], name: str = "merged") -> Workload:
    """The jobs of several logs on one machine: the largest of theirs. Each log begins at 0; users stay apart."""
    if not workloads or any(not w.cluster.is_pool for w in workloads):
        raise InputError("merging takes at least one log, each of a pool of processors")
    parts, shift, edges, rows = [], 0, [], 0
    for w in workloads:
        jobs = w.jobs.copy()
        jobs["user"] = np.where(jobs["user"] >= 0, jobs["user"] + shift, -1)
        shift += max(int(w.jobs["user"].max()) + 1, 0)
        parts.append(jobs)
        edges.append(w.edges + rows)
        rows += len(w)
    cluster = max((w.cluster for w in workloads), key=lambda c: c.processors)
    whole = Workload(
        np.concatenate(parts), np.concatenate([w.truth for w in workloads]), cluster, name=name, edges=np.concatenate(edges)
    )
    return resort(whole)


def limited(w: Workload, times: float) -> Workload:
    """Cut time limits to at most `times` times the run time (at least LEAST_LIMIT), as better estimates would be."""
    if not times >= 1:
        raise InputError(f"time limits of {times:g} times the run time would end jobs early; 1 or more is expected")
    jobs = w.jobs.copy()
    jobs["walltime"] = np.minimum(jobs["walltime"], np.maximum(np.ceil(times * w.truth["runtime"]), LEAST_LIMIT))
    return replace(w, jobs=jobs)


def ended_at(w: Workload, most: np.ndarray) -> Workload:
    """The jobs with time limits of at most `most` [J] s, at which they end; the notes count those that asked for more."""
    if not (over := w.jobs["walltime"] > most).any():
        return w
    jobs, truth = w.jobs.copy(), w.truth.copy()
    jobs["walltime"][over], cut = most[over], over & (truth["runtime"] > most)
    truth["runtime"][cut] = most[cut]
    text = f"ask for more time than they may have then: they ask for the limit, and {int(cut.sum()):,} of them end at it"
    return replace(w, jobs=jobs, truth=truth, notes=w.notes | {text: int(over.sum())})


def restartable(w: Workload, share: float, seed: int = 0) -> Workload:
    """Let a share of the jobs, drawn at random, be stopped and begun again; the others may not. Raises InputError."""
    if not 0 <= share <= 1:
        raise InputError(f"{share:g} of the jobs may be begun again: a share is 0 to 1")
    jobs = w.jobs.copy()
    jobs["restartable"] = np.random.default_rng([seed, len(jobs)]).random(len(jobs)) < share
    return replace(w, jobs=jobs)


def overruns(w: Workload) -> float:
    """Share of the jobs that ran longer than they asked for."""
    return float((w.truth["runtime"] > np.maximum(w.jobs["walltime"], 1)).mean())


def recorded(w: Workload) -> dict[str, float] | None:
    """Return what the log itself says of waiting, the site's own scheduler: mean and longest wait in s, mean bounded slowdown
    (tau 10 s), share of the jobs with a wait recorded; None where it records none. Recorded schedules may exceed the
    machine."""
    wait = w.columns.get("wait")
    if wait is None or not (wait > 0).any():
        return None
    k = wait >= 0
    run = w.truth["runtime"][k]
    slow = metrics.bounded(wait[k] + run, run)
    return {
        "wait": float(wait[k].mean()),
        "max_wait": float(wait[k].max()),
        "bounded_slowdown": float(slow.mean()),
        "share": float(k.mean()),
    }


def resources(w: Workload) -> dict[str, tuple[float, str]]:
    """Return what the source says of jobs beside their sizes, (value, unit) by name: GPUs, nodes, memory; nothing of what it
    does not say."""
    out: dict[str, tuple[float, str]] = {}
    for key, counted, least in (("gpus", "jobs with GPUs", 0), ("nodes", "jobs on several nodes", 1)):
        values = np.nan_to_num(w.columns.get(key, np.zeros(1)).astype(float))
        if (some := values > 0).any():
            out[counted] = float((values > least).sum()), ""
            out |= {f"mean {key}": (float(values[some].mean()), key), f"most {key}": (float(values.max()), key)}
    memory, size = w.jobs["memory"], w.jobs["request"][:, 0]
    if (asked := memory > 0).any():  # KB of a processor, as SWF has it
        whole = memory[asked] * size[asked] / 1e6
        out |= {"jobs that say memory": (float(asked.sum()), ""), "mean memory": (float(whole.mean()), "GB")}
        out |= {"most memory": (float(whole.max()), "GB")}
    return out


def statistics(w: Workload) -> dict[str, float]:
    """Return what every report says about a workload: counts, gaps, run times, sizes, load, quality of estimates."""
    size, run = w.jobs["request"][:, 0].astype(float), w.truth["runtime"]
    gaps = np.diff(w.jobs["submit"])
    ratio = run / np.maximum(w.jobs["walltime"], 1)

    def three(name: str, x: np.ndarray) -> dict[str, float]:
        mean = float(x.mean()) if len(x) else 0.0
        cv = float(x.std() / mean) if mean > 0 else 0.0
        return {f"mean_{name}": mean, f"median_{name}": float(np.median(x)) if len(x) else 0.0, f"cv_{name}": cv}

    power = (size >= 1) & (np.log2(np.maximum(size, 1)) % 1 == 0)
    return {
        "jobs": float(len(w)),
        "processors": float(w.cluster.processors),
        "users": float(len(np.unique(w.jobs["user"][w.jobs["user"] >= 0]))),
        "span_days": span(w) / 86400,
        "load": load(w),
        **three("gap", gaps),
        **three("runtime", run),
        **three("size", size),
        "serial_share": float((size == 1).mean()),
        "power_of_two_share": float(power.mean()),
        "exact_estimates": float((w.jobs["walltime"] == run).mean()),
        "overruns": overruns(w),
        "median_used_of_request": float(np.median(ratio)),
    }


def to_rows(w: Workload, row_s: float) -> Workload:
    """The workload on a grid of rows of `row_s` s: submits rounded down, lengths up, at least one. Its times are rows then."""
    if not 0 < row_s < 1e9:
        raise InputError(f"rows of {row_s:g} s cannot be")
    jobs, truth = w.jobs.copy(), w.truth.copy()
    jobs["submit"] = np.floor(jobs["submit"] / row_s)
    jobs["walltime"] = np.maximum(np.ceil(jobs["walltime"] / row_s), 1.0)
    truth["runtime"] = np.maximum(np.ceil(truth["runtime"] / row_s), 1.0)
    return replace(w, jobs=jobs, truth=truth)
