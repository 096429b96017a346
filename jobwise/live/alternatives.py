"""Other requests for a waiting job on a site: a shorter limit, a run in a gap, another partition or QOS, half the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from jobwise.live.sources import Now
from jobwise.slurm.read.jobs import requested
from jobwise.slurm.read.startable import never
from jobwise.starts.sooner import OtherRequest, begun_again, shorter
from jobwise.workload import Workload


def changes_of(c: Now, w: Workload, row: int) -> tuple[list[OtherRequest], Workload]:
    """(what the job may ask for instead by its limits, the jobs `w` of the cluster on a site that knows these requests)."""
    half, other = _half(w, row)
    limit = float(w.jobs["walltime"][row])
    return [*shorter(limit), *begun_again(limit), *half, *_partitions(w, row), *_qos(c, w, row)], other


def elsewhere(c: Now, row: int) -> list[OtherRequest]:
    """Return the other partitions and QOS whose limits allow a job as it is."""
    out, w = [], c.workload
    for change in (*_partitions(w, row), *_qos(c, w, row)):
        jobs = w.jobs.copy()
        for key, value in change.fields.items():
            jobs[key][row] = value
        if not any(bad[row] for _, bad, _ in never(replace(w, jobs=jobs))):
            out.append(change)
    return out


def _partitions(w: Workload, row: int) -> Iterator[OtherRequest]:
    """Other partitions that would take the job."""
    site, job = w.cluster.known_site, w.jobs[row]
    own, ask = set(site.queues[job["partition"]].tolist()), site.asks[job["ask"]]
    for k, row_of in enumerate(site.queues):
        p = int(row_of[0])
        if p in own or (row_of[1:] >= 0).any():
            continue
        x = site.partitions[p]
        if x["up"] and job["walltime"] <= x["max_time"] and ask["nodes"] <= x["max_nodes"]:
            yield OtherRequest(f"partition {site.partition_names[p]}", {"partition": float(k)})


def _qos(c: Now, w: Workload, row: int) -> Iterator[OtherRequest]:
    """Other QOS that its user may name, where they differ in priority or limits."""
    site, job = w.cluster.known_site, w.jobs[row]
    who = w.names["user"].get(int(job["user"]), ""), w.names["group"].get(int(job["group"]), "")
    own = site.qos[job["queue"]] if 0 <= job["queue"] < len(site.qos) else None
    for k, name in enumerate(site.qos_names):
        x = site.qos[k]
        if name in c.qos.get(who, ()) and k != job["queue"] and job["walltime"] <= x["max_wall"] and x != own:
            yield OtherRequest(f"QOS {name}", {"queue": float(k)})


def _half(w: Workload, row: int) -> tuple[list[OtherRequest], Workload]:
    """Half the nodes, or of a job that names none half the tasks, for twice the time."""
    site, job = w.cluster.known_site, w.jobs[row]
    ask, limit = site.asks[job["ask"]].copy(), 2.0 * float(job["walltime"])
    most = max(float(site.partitions[p]["max_time"]) for p in site.queues[job["partition"]] if p >= 0)
    if 0 <= job["queue"] < len(site.qos):
        most = min(most, float(site.qos[job["queue"]]["max_wall"]))
    if max(ask["nodes"], ask["tasks"]) < 2 or limit > most:
        return [], w
    words = "half the nodes for twice the time" if ask["nodes"] > 1 else "half the tasks for twice the time"
    for key in ("nodes", "most", "tasks", "gpus"):
        ask[key] = -(-ask[key] // 2)
    asks = np.append(site.asks, ask)
    fields = {"walltime": limit, "ask": float(len(site.asks)), "request": requested(asks[-1:], w.cluster.capacity)[0]}
    other = replace(w, cluster=replace(w.cluster, site=replace(site, asks=asks)))
    return [OtherRequest(words, fields, 2.0)], other
