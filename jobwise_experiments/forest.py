"""The forest that comes with the package: learnt on several logs, and judged on each with that log left out.

OUT/smith-forecast.safetensors is the order `smith-forecast`, OUT/without-LOG.safetensors the same with a forest that has not
seen LOG: claims about a log are made with these.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobwise.compare.fingerprint import sketches
from jobwise.forecast import forests
from jobwise.policies import loglinear
from jobwise.policies.loglinear import INDICES, Index
from jobwise.report.sections import Section, Table
from jobwise.sim.forest import Forest
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN, first
from jobwise_experiments.study import Study, prose, read_log

LOGS = ("SDSC-SP2", "SDSC-BLUE", "LANL-CM5", "ALCF-Theta", "HPC2N", "MetaCentrum", "RICC", "LLNL-Atlas", "NASA-iPSC")
SMOKE = ("SDSC-SP2", "HPC2N", "NASA-iPSC")  # logs of the preset smoke
TREES = 100


def study(logs: Path, s: Study, preset: str, seeds: int) -> list[Section]:
    """Forests of all logs and of all but one, and what they are worth. Raises InputError."""
    rows, sections = {}, []
    for name in SMOKE if preset == "smoke" else LOGS:
        s.say(f"read {name}")
        log = read_log(logs, name)
        log = first(log, min(len(log), 1500)) if preset == "smoke" else log
        rows[log.name] = (*forests.rows_of(log.by_end, log.cluster.processors), log)
    trees = 5 if preset == "smoke" else TREES
    for name in rows:
        sections.append([name, *s.piece(f"without-{name}", lambda name=name: _judged(s, rows, name, trees))])
    _save(s.out / "smith-forecast.safetensors", "smith-forecast", pooled(rows, trees=trees), rows)
    note = prose("forest", "study")
    columns = ["log", "rows", "elsewhere", "local", "both", "elsewhere, R²", "local, R²", "both, R²"]
    return [Section("A forest for logs that it has not seen", note, [Table(columns, sections)])]


def pooled(rows: dict[str, tuple], without: str = "", trees: int = TREES) -> Forest:
    """A forest of all logs but one, each of the same weight."""
    use = [r for name, r in rows.items() if name != without]
    total = sum(len(r[0]) for r in use)
    weight = np.concatenate([r[2] / r[2].sum() * total / len(use) for r in use])
    return forests.learnt(np.concatenate([r[0] for r in use]), np.concatenate([r[1] for r in use]), weight, trees=trees)


def _judged(s: Study, rows: dict[str, tuple], name: str, trees: int) -> list[str]:
    x, y, weight, log = rows[name]
    s.say(f"without {name}")
    base = pooled(rows, name, trees)
    _save(s.out / f"without-{name}.safetensors", f"without-{name}", base, {n: r for n, r in rows.items() if n != name})
    cut = int(SEEN * len(x))
    local = forests.learnt(x[:cut], y[:cut], weight[:cut], trees=trees)
    both = forests.learnt(x[:cut], y[:cut], weight[:cut], base, trees=trees)
    judged = [forests.judged(f, x[cut:], y[cut:]) for f in (base, local, both)]
    return [f"{len(x):,}", *(f"{j[0]:.3f} {j[1]:.3f}" for j in judged), *(f"{j[3]:.2f}" for j in judged)]


def _save(file: Path, label: str, forest: Forest, rows: dict[str, tuple]) -> None:
    about = {"system": "forest", "logs": list(rows), "trees": len(forest.tree)}
    about["trained_on"] = sketches([r[3] for r in rows.values()])
    loglinear.save(Index(label, INDICES["smith"].weights, about, forest), file)


def without(folder: Path, log: Workload) -> Path:
    """The order whose forest has not seen this log."""
    return folder / f"without-{log.name}.safetensors"
