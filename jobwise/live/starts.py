"""Predict starts on this cluster: futures under the site's own Slurm, calibrated on jobs that have started lately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobwise.live.alternatives import changes_of
from jobwise.live.sources import Now, Waiting
from jobwise.live.standing import SitePlayer
from jobwise.policies.names import resolve
from jobwise.starts.calibration import Calibration
from jobwise.starts.futures import FUTURES
from jobwise.starts.history import History
from jobwise.starts.predictor import Predictor, Starts
from jobwise.starts.sooner import Offer, offers

EARLIER = 60  # moments before now at which starts are predicted, to calibrate by
REASONS = {  # Slurm's word for why a job waits -> plain words
    "": "it has just come",
    "None": "it has just come",
    "Priority": "jobs of higher priority wait for the same nodes",
    "Resources": "it is the next of its partition; nodes have to become free",
    "Dependency": "it waits for other jobs to end",
    "DependencyNeverSatisfied": "it waits for a job that did not end as it should: it will never start",
    "JobHeldUser": "its user holds it; `scontrol release` lets it go",
    "JobHeldAdmin": "an administrator holds it",
    "BeginTime": "it was asked to begin later",
    "Licenses": "its licences are in use",
    "Reservation": "it waits for its reservation to begin",
    "ReqNodeNotAvail": "nodes that it names are down, drained or reserved",
    "PartitionDown": "its partition is closed",
    "PartitionTimeLimit": "its time limit is longer than its partition allows: it will never start",
    "PartitionNodeLimit": "it asks for more nodes than its partition allows: it will never start",
    "JobArrayTaskLimit": "as many tasks of its array run as may at once",
    "NodeDown": "a node that it needs is down",
}


def in_words(reason: str) -> str:
    """Return the reason for a job's wait in words, from Slurm's code for it."""
    if reason in REASONS:
        return REASONS[reason]
    for begin, whose in (("QOSMax", "its user or account, by QOS"), ("QOSGrp", "its QOS"), ("AssocMax", "its user or account")):
        if reason.startswith(begin):
            return f"the limit of {whose} is reached ({reason})"
    return f"the limit of an account is reached ({reason})" if reason.startswith("AssocGrp") else reason


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for the jobs of a cluster that wait and may start."""

    cluster: Now
    player: SitePlayer
    starts: Starts

    def rows(self) -> list[dict[str, Any]]:
        """The predictions as JSON takes them, an array by its first task, the first to start first; times in s from now."""
        w, m, out = self.cluster.workload, self.starts, []
        ids = w.columns["job"]
        chances = {f"within_{h}h": m.within(3600.0 * h) for h in (1, 4, 24)}
        for i in np.argsort(m.quantiles[:, 2], kind="stable").tolist():
            job, q = w.jobs[m.rows[i]], m.quantiles[i]
            if (x := self.cluster.waiting.get(int(ids[m.rows[i]]))) is None:
                continue
            row: dict[str, Any] = {"job": x.id, "tasks": x.tasks, "name": x.name, "user": x.user}
            row |= {"partition": x.partition, "qos": x.qos}
            row |= {"cpus": int(job["request"][0]), "limit": float(job["walltime"]), "waited": float(m.now - job["submit"])}
            row |= {"start": float(q[2]), "start_80": [float(q[1]), float(q[3])], "start_90": [float(q[0]), float(q[4])]}
            row |= {k: float(v[i]) for k, v in chances.items()}
            row |= {"end": float(m.ends[i]), "slurm": self.planned(x), "reason": x.reason, "why": in_words(x.reason)}
            out.append(row | {"ahead": m.ahead(i), "frees": ids[m.frees(i)].tolist()})
        return out

    def planned(self, x: Waiting) -> float | None:
        """The start that Slurm itself plans, s from now; None: it plans none."""
        return max(x.planned - self.cluster.workload.origin - self.cluster.now, 0.0) if x.planned else None

    def sooner(self, id: int) -> list[Offer]:
        """Return other requests for a waiting job (`alternatives.py`), and their effects."""
        row, player = self.cluster.row(id), self.player
        changes, w = changes_of(self.cluster, player.w, row)
        return offers(self.starts.drawn, row, player if w is player.w else SitePlayer(w, player.policy), changes)


def predict(
    cluster: Now,
    policy: Any = "slurm",
    *,
    earlier: int | None = None,
    count: int = FUTURES,
    seed: int = 0,
    calibration: Calibration | None = None,
    steered: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Predicted:
    """Predict the starts of the jobs of a cluster that wait, under its own Slurm or another policy. What calibrates them: what
    came of earlier predictions (`calibration`, which goes on), or as many as `earlier` (None: EARLIER) that are made now at
    arrivals of jobs that have started since. `steered`: site factors that jobs have now add to their priorities. Raises
    InputError."""
    w = cluster.steered if steered else cluster.workload
    jobs, player = w.jobs, SitePlayer(w, resolve(policy))
    earlier = EARLIER if earlier is None else earlier
    earlier = earlier if calibration is None else max(earlier - len(calibration.job), 0)
    calibration = Calibration() if calibration is None else calibration
    predictor = Predictor(History(jobs), player, count, seed, calibration, w.columns["job"], w.origin)
    waited = np.flatnonzero((jobs["start"] > jobs["submit"] + 1.0) & (jobs["submit"] < cluster.now))
    waited = waited[len(waited) // 4 :][-earlier:] if earlier else waited[:0]  # at first nothing is known of how long jobs run
    for n, j in enumerate(waited):
        predictor.at(float(jobs["submit"][j]), waited[n : n + 1])
        if progress:
            progress(n, len(waited))
    return Predicted(cluster, player, predictor.at(cluster.now))
