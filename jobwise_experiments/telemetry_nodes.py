"""Telemetry where users are: placement by learnt run times, on measured speeds of GPUs; forecasts of real series."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.cluster import Affinity
from jobwise.errors import InputError
from jobwise.forecast.loads import HORIZONS
from jobwise.metrics import wait
from jobwise.report.sections import Section
from jobwise.simulate import simulate
from jobwise.telemetry.forecasts import forecast_all, summary
from jobwise.telemetry.read import read
from jobwise.workload import Workload
from jobwise.workloads.gpu import read_gavel
from jobwise_experiments.study import Arms, Study
from jobwise_experiments.telemetry_failures import avoided, recorded

SETS = {
    "AWS CloudWatch (NAB)": "nab_aws",
    "Bitbrains, 50 machines": "bitbrains_small_trace.parquet",
    "Bitbrains, one machine": "bitbrains_vm_sample.csv.gz",
    "Helios Earth": "helios_earth_vc6YE.csv.gz",
    "Philly, nodes in use": "helios_philly_nodes_in_use.csv.gz",
    "SURF Lisa, load": "surf_lisa_halfyear_tasks.parquet",
    "Alibaba, GPU duty cycle": "alibaba_2026_pod_gpu_duty_cycle_anon.csv.gz",
    "Alibaba, GPU memory": "alibaba_2026_pod_gpu_memory_used_bytes_anon.csv.gz",
}
NAMES = ["persistence", "seasonal", "ewma", "holt-winters", "ridge", "boosted"]
SHOWN = ("seasonal", "ewma", "ridge", "boosted", "leader")
PLACEMENTS = ("fcfs+easy", "fcfs+easy+balance", "fcfs+easy+best", "fcfs+easy+learned", "sjf+easy", "sjf+easy+learned")


def real(s: Study, said: list[str]) -> list[Section]:
    """Placement and forecasts on real data, where there is any; failures; and sentences that answer the second question."""
    if s.logs is None:
        return [avoided(s, said), s.section("Real data")]
    folders = [x for x in (s.logs / "telemetry", s.logs.parent / "telemetry", s.logs) if (x / "nab_aws").is_dir()]
    if not folders:
        raise InputError(f"{s.logs}: has no folder telemetry/")
    shown = _forecasts(s, folders[0], said)
    return [_placement(s, s.logs), shown, avoided(s, said), recorded(s, folders[0])]


def _forecasts(s: Study, folder: Path, said: list[str]) -> Section:
    def measured(file: str) -> dict:
        results = forecast_all(read(folder / file), NAMES, HORIZONS)
        scores = [x for r in results.results for x in r.test[r.chosen].values()]
        each = [r.mase(r.chosen) for r in results.results]
        return summary(results) | {"each": each, "cover": [[x.coverage, x.samples] for x in scores]}

    files = {title: file for title, file in SETS.items() if (folder / file).exists() and not (s.smoke and file != "nab_aws")}
    results = {title: s.piece(f"forecast-{file.split('.')[0]}", measured, file) for title, file in files.items()}
    rows = []
    for title, x in results.items():
        models, each = {m["model"]: m for m in x["models"]}, np.array(x["each"])
        chosen = models.pop("chosen")
        usual = max(models.values(), key=lambda m: m["chosen"])["model"]
        cells = [len(each), usual, np.median(each), (each < 1).mean(), chosen["coverage"], chosen["width"]]
        rows.append([title, *cells, *(m["mase"] for n, m in models.items() if n in SHOWN)])
    better = [y < 1 for x in results.values() for y in x["each"]]
    coverage, samples = np.array([y for x in results.values() for y in x["cover"]]).T
    share, horizons = float(np.mean(better)), ", ".join(map(str, HORIZONS))
    said.append(f"Load: the chosen forecast beats persistence on {share:.0%} of {len(better)} series.")
    values = {"series": len(better), "horizons": horizons, "share": share, "pooled": np.average(coverage, weights=samples)}
    return s.section("Question 2: forecasts", rows, shown=SHOWN, **values)


def _placement(s: Study, logs: Path) -> Section:
    """Placements on nodes of unlike GPUs, paired over windows of jobs."""
    rows, count = [], s.pick(2, 8, 16)

    def measured(w: Workload) -> dict:
        results = {p: {"turnaround": [], "wait": [], "run": []} for p in PLACEMENTS}
        for k, part in enumerate(_windows(w, count)):
            for p, x in results.items():
                r = simulate(_shuffled(part, k), p)
                x["turnaround"].append(float((r.jobs["end"] - r.jobs["submit"]).mean()))
                x["run"].append(float((r.jobs["end"] - r.jobs["start"]).mean()))
                x["wait"].append(float(wait(r).max()))
        return results

    for rate in (0.4, 0.7, 1.0):
        w = read_gavel(logs if (logs / "gpu").is_dir() else logs.parent, rate=rate)
        if w is None:
            return Section("Placement by what jobs took", "The folder has no jobs of Gavel.")
        x = Arms(s.piece(f"placement-{rate:g}", measured, w))
        for order in ("fcfs", "sjf"):
            ours, rules = f"{order}+easy+learned", [p for p in x if p.startswith(order) and not p.endswith("learned")]
            best = min(rules, key=lambda p: np.log(x.of(p, "turnaround")).mean())
            for p in (best, ours):
                hours = [x.mean(p, key) / 3600 for key in ("turnaround", "run", "wait")]
                rows.append([f"{rate:g}", p, *hours, x.change(p, best, "turnaround"), x.change(p, best, "wait")])
    return s.section("Placement by what jobs took", rows, count=count)


def _windows(w: Workload, count: int) -> list[Workload]:
    size = min(500, len(w) // count)
    return [w.take(slice(i * size, (i + 1) * size)) for i in range(count)]


def _shuffled(w: Workload, seed: int) -> Workload:
    """The same on nodes in another order: the lowest numbers are not the fastest."""
    order = np.random.default_rng(seed).permutation(len(w.cluster.capacity))
    table = Affinity(w.cluster.affinity.factors[:, order])
    return replace(w, cluster=replace(w.cluster, affinity=table, classes=w.cluster.classes[order]))
