"""Telemetry where users are: placement by learnt run times, forecasts of real series, failures avoided."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobwise.errors import InputError
from jobwise.forecast.loads import HORIZONS
from jobwise.report.sections import Section, Table
from jobwise.telemetry.forecasts import forecast_all, summary
from jobwise.telemetry.read import read
from jobwise_experiments.study import Study, prose
from jobwise_experiments.telemetry_failures import avoided, recorded
from jobwise_experiments.telemetry_placement import placement

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


def sections(logs: Path | None, s: Study, preset: str, seeds: int) -> tuple[list[Section], list[str]]:
    """(sections, sentences that answer the second question)."""
    failures, sentence = avoided(s, preset, seeds)
    if logs is None:
        said = "Forecasts, placement on measured speeds and real failures take --logs, the folder with telemetry/ and gpu/."
        return [failures, Section("Real data", said, [])], sentence
    forecasts, more = _forecasts(s, _folder(logs), preset)
    return [placement(s, logs, preset), forecasts, failures, recorded(s, _folder(logs))], [*more, *sentence]


def _folder(logs: Path) -> Path:
    for folder in (logs / "telemetry", logs.parent / "telemetry", logs):
        if (folder / "nab_aws").is_dir():
            return folder
    raise InputError(f"{logs}: has no folder telemetry/")


def _forecasts(s: Study, folder: Path, preset: str) -> tuple[Section, list[str]]:
    rows, all_better, covered = [], [], []
    for title, file in SETS.items():

        def measure(file=file) -> dict:
            results = forecast_all(read(folder / file), NAMES, HORIZONS, threads=s.threads)
            scores = [x for r in results.results for x in r.test[r.chosen].values()]
            each = [r.mase(r.chosen) for r in results.results]
            return summary(results) | {"each": each, "cover": [[x.coverage, x.samples] for x in scores]}

        if not (folder / file).exists() or (preset == "smoke" and file != "nab_aws"):
            continue
        measured = s.piece(f"forecast-{file.split('.')[0]}", measure)
        chosen, each = measured["models"][-1], np.array(measured["each"])
        usual = max((m for m in measured["models"] if m["model"] != "chosen"), key=lambda m: m["chosen"])["model"]
        by_model = [
            f"{m['mase']:.2f}" for m in measured["models"] if m["model"] in ("seasonal", "ewma", "ridge", "boosted", "leader")
        ]
        cells = [f"{len(each)}", usual, f"{np.median(each):.3f}", f"{(each < 1).mean():.0%}", f"{chosen['coverage']:.1%}"]
        rows.append([title, *cells, f"{chosen['width']:.1f}", *by_model])
        all_better += (each < 1).tolist()
        covered += measured["cover"]
    c = np.array(covered)
    pooled, share = float(np.average(c[:, 0], weights=c[:, 1])), float(np.mean(all_better))
    note = prose(
        "telemetry_nodes",
        "forecasts",
        all_better=len(all_better),
        horizons=", ".join(map(str, HORIZONS)),
        share=share,
        pooled=pooled,
    )
    columns = "set, series, mostly chosen, median MASE, below 1, cover, width, seasonal, ewma, ridge, boosted, leader"
    said = [f"Load: the chosen forecast beats persistence on {share:.0%} of {len(all_better)} series."]
    return Section("Question 2: forecasts", note, [Table(columns.split(", "), rows)]), said
