"""Placement by learnt run times, on measured speeds of GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.cluster import Affinity
from jobwise.learn.judged import change, text
from jobwise.metrics import wait
from jobwise.report.sections import Section, Table
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.gpu import read_gavel
from jobwise_experiments.study import Study, prose

PLACEMENTS = ("fcfs+easy", "fcfs+easy+balance", "fcfs+easy+best", "fcfs+easy+learned", "sjf+easy", "sjf+easy+learned")


def placement(s: Study, logs: Path, preset: str) -> Section:
    """Placements on nodes of unlike GPUs, paired over windows of jobs."""
    rows, count = [], {"smoke": 2, "small": 8, "paper": 16}[preset]
    for rate in (0.4, 0.7, 1.0):
        w = read_gavel(logs if (logs / "gpu").is_dir() else logs.parent, rate=rate)
        if w is None:
            return Section("Placement by what jobs took", "The folder has no jobs of Gavel.", [])

        def measure(w=w) -> dict:
            results = {p: {"turnaround": [], "wait": [], "run": []} for p in PLACEMENTS}
            for k, part in enumerate(_windows(w, count)):
                for p, x in results.items():
                    r = simulate(_shuffled(part, k), p)
                    x["turnaround"].append(float((r.jobs["end"] - r.jobs["submit"]).mean()))
                    x["run"].append(float((r.jobs["end"] - r.jobs["start"]).mean()))
                    x["wait"].append(float(wait(r).max()))
            return results

        measured = s.piece(f"placement-{rate:g}", measure)
        for order in ("fcfs", "sjf"):
            ours, names = (
                measured[f"{order}+easy+learned"],
                [p for p in measured if p.startswith(order) and not p.endswith("learned")],
            )
            best = min(names, key=lambda p: np.log(measured[p]["turnaround"]).mean())
            cells = [f"{np.mean(measured[best][k]) / 3600:.1f}" for k in ("turnaround", "run", "wait")]
            rows.append([f"{rate:g}", best, *cells, "", ""])
            cells = [f"{np.mean(ours[k]) / 3600:.1f}" for k in ("turnaround", "run", "wait")]
            changes = [text(change(ours[k], measured[best][k])) for k in ("turnaround", "wait")]
            rows.append([f"{rate:g}", f"{order}+easy+learned", *cells, *changes])
    note = prose("telemetry_placement", "placement", count=count)
    columns = ["rate", "policy", "turnaround", "run time", "longest wait", "turnaround", "longest wait"]
    return Section("Placement by what jobs took", note, [Table(columns, rows)])


def _windows(w: Workload, count: int) -> list[Workload]:
    size = min(500, len(w) // count)
    return [w.take(slice(i * size, (i + 1) * size)) for i in range(count)]


def _shuffled(w: Workload, seed: int) -> Workload:
    """The same on nodes in another order: the lowest numbers are not the fastest."""
    order = np.random.default_rng(seed).permutation(len(w.cluster.capacity))
    table = Affinity(w.cluster.affinity.factors[:, order])
    return replace(w, cluster=replace(w.cluster, affinity=table, classes=w.cluster.classes[order]))
