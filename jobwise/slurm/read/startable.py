"""Jobs that limits would never let start: of partitions (MaxTime, MaxNodes, State), QOS, associations and licences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from jobwise.errors import InputError
from jobwise.sim.site.slurm_tables import leaves
from jobwise.site import LIMITS
from jobwise.workload import Workload


class NeverStart(InputError):
    """Some jobs could never start: which, and what keeps them from it. `jobs` [J] bool."""

    def __init__(self, w: Workload, jobs: np.ndarray, what: str = "", then: str = "") -> None:
        self.jobs = jobs
        j, n = int(np.argmax(jobs)), int(jobs.sum())
        job = w.columns["job"][j] if "job" in w.columns else f"of row {j}"
        of = f"{n:,} of {len(w):,} jobs could never start{then} (the first: job {job})"
        super().__init__(f"{what}: {of}" if what else of)


def _least(w: Workload) -> np.ndarray:
    """[J, LIMITS] the least that each job counts for limits; whole nodes count as the largest."""
    asks, nodes = w.cluster.known_site.asks[w.jobs["ask"]], np.maximum(w.cluster.known_site.asks["nodes"][w.jobs["ask"]], 1)
    cards = np.maximum(asks["gpus"], asks["gpus_node"] * nodes)
    cpus = asks["tasks"].astype(np.int64) * asks["cpus"]
    memory = np.maximum(asks["memory"] * nodes, asks["memory_cpu"] * cpus)
    table = np.stack([np.ones(len(w)), cpus, memory, cards, nodes], axis=1)
    largest = w.cluster.capacity.max(axis=0)[:3]
    whole = (asks["whole"] > 0)[:, None] & (np.arange(table.shape[1]) % 4 > 0)
    amounts = np.zeros_like(table)
    amounts[:, 1:4] = nodes[:, None] * largest
    return np.where(whole, np.maximum(table, amounts), table)


def never(w: Workload) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(which limit, [J] the jobs that it alone would keep from starting in all of their partitions, [J] its amount, of which a
    time is in s; NaN where it is none)."""
    none = np.full(len(w), np.nan)
    site, jobs = w.cluster.known_site, w.jobs
    queues = site.queues[jobs["partition"]]
    asked = site.asks["nodes"][jobs["ask"]]
    for what, column, x in (("MaxTime", "max_time", jobs["walltime"]), ("MaxNodes", "max_nodes", asked), ("State", "up", None)):
        bad = np.ones(len(w), bool)
        for p in queues.T:
            here = site.partitions[column][p]
            bad &= (p < 0) | ((here == 0) if x is None else (x > here))
        if bad.any():
            which = site.partition_names[queues[int(np.argmax(bad)), 0]]
            yield (
                f"{what} of partition {which}",
                bad,
                none if x is None else site.partitions[column][queues[:, 0]].astype(float),
            )
    least = _least(w)
    for a, below in _limited(w):
        too_much = (least > site.associations["all"][a]).any(axis=1)
        if (bad := below & (too_much | (site.associations["jobs"][a] < 1))).any():
            yield f"the limits of association {a}", bad, none
    if (bad := (site.licence_asks[site.asks["licences"][jobs["ask"]]] > site.licences).any(axis=1)).any():
        yield "the number of licences", bad, none
    for what, limit, need in (
        ("MaxWall", site.qos["max_wall"], jobs["walltime"]),
        *((f"the limit on {name} of all jobs", site.qos["all"][:, i], least[:, i]) for i, name in enumerate(LIMITS)),
        *((f"the limit on {name} of a user", site.qos["user"][:, i], least[:, i]) for i, name in enumerate(LIMITS)),
    ):
        most, row = limit_of_qos(w, limit)
        if (bad := need > most).any():
            yield f"{what} of QOS {site.qos_names[row[int(np.argmax(bad))]]}", bad, most


def limit_of_qos(w: Workload, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the same limit of every QOS [Q], ([J] the one of each job, inf: none; [J] the row of its QOS). A limit of the
    partition's QOS replaces that of the job's own."""
    own, partition = _qos_of(w)
    limit = np.append(limit, np.inf)  # of no QOS
    row = np.where(np.isfinite(limit[partition]), partition, own)
    return limit[row], row


def _qos_of(w: Workload) -> Iterator[np.ndarray]:
    """[J] the QOS of each job, then that of its partition, where it names just one; -1: none."""
    site, own = w.cluster.known_site, w.jobs["queue"].astype(np.int64)
    queues = site.queues[w.jobs["partition"]]
    yield np.where((own >= 0) & (own < len(site.qos)), own, -1)
    yield np.where((queues >= 0).sum(axis=1) == 1, site.qos_of_partitions[queues[:, 0]], -1)


def _limited(w: Workload) -> Iterator[tuple[int, np.ndarray]]:
    """(an association with limits, [J] the jobs below it)."""
    site = w.cluster.known_site
    leaf = leaves(w.jobs, site)
    tree = site.associations
    for a in np.flatnonzero(np.isfinite(tree["all"]).any(axis=1) | (tree["jobs"] < 1)).tolist():
        below, at = np.zeros(len(w), bool), leaf
        while (at >= 0).any():
            below |= at == a
            at = np.where(at >= 0, site.associations["parent"][at], -1)
        yield a, below


def check(w: Workload) -> None:
    """Raises NeverStart where limits would never let jobs start."""
    for what, bad, _ in never(w):
        raise NeverStart(w, bad, what)


def lifted(w: Workload, recorded: np.ndarray) -> Workload:
    """The site with limits that let all of its `recorded` jobs [J] bool start, for they did; each change is among its
    guesses."""
    against = [(what, int((bad & recorded).sum())) for what, bad, _ in never(w)]
    texts = [f"{n:,} jobs ran against {what}: it is taken as wide as they need" for what, n in against if n]
    site = w.cluster.known_site
    if not texts:
        return w
    partitions, qos = site.partitions.copy(), site.qos.copy()
    asked, least = site.asks["nodes"][w.jobs["ask"]], _least(w)
    for k, queue in enumerate(site.queues):
        mine = recorded & (w.jobs["partition"] == k)
        for p in queue[queue >= 0] if mine.any() else ():
            partitions["up"][p] = 1
            partitions["max_time"][p] = max(partitions["max_time"][p], w.jobs["walltime"][mine].max())
            partitions["max_nodes"][p] = max(partitions["max_nodes"][p], asked[mine].max())
    of_jobs = np.stack(list(_qos_of(w)))
    for q in range(len(qos)):
        mine = recorded & (of_jobs == q).any(axis=0)
        if mine.any():
            qos["max_wall"][q] = max(qos["max_wall"][q], w.jobs["walltime"][mine].max())
            for which in ("all", "user"):
                qos[which][q] = np.maximum(qos[which][q], least[mine].max(axis=0))
    tree, licences = site.associations.copy(), site.licences
    for a, below in _limited(w):
        if (below := below & recorded).any():
            tree["all"][a] = np.maximum(tree["all"][a], least[below].max(axis=0))
            tree["jobs"][a] = max(tree["jobs"][a], 1.0)
    if len(licences):
        licences = np.maximum(licences, site.licence_asks[site.asks["licences"][w.jobs["ask"][recorded]]].max(axis=0))
    guesses = (*site.guesses, *texts)
    site = replace(site, partitions=partitions, qos=qos, associations=tree, licences=licences, guesses=guesses)
    return replace(w, cluster=replace(w.cluster, site=site))
