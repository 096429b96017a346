"""The forest that comes with the package: learnt on several logs, and judged on each with that log left out.

OUT/smith-forecast.safetensors is the order `smith-forecast`, OUT/without-LOG.safetensors the same with a forest that has not
seen LOG: claims about a log are made with these.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.compare.fingerprint import sketches
from jobwise.errors import InputError
from jobwise.forecast import forests
from jobwise.policies import loglinear
from jobwise.policies.loglinear import INDICES, Index
from jobwise.policies.names import load
from jobwise.report.sections import Section
from jobwise.sim.forest import Forest
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN
from jobwise_experiments.study import Study

LOGS = ("SDSC-SP2", "SDSC-BLUE", "LANL-CM5", "ALCF-Theta", "HPC2N", "MetaCentrum", "RICC", "LLNL-Atlas", "NASA-iPSC")


def study(s: Study) -> list[Section]:
    """Forests of all logs and of all but one, and what they are worth. Raises InputError."""
    return s.parts(section)


def _rows(s: Study) -> dict[str, tuple]:
    """name -> (features, targets, weights, log) of every log."""
    logs = [s.log(name, smoke=1500) for name in s.pick(("SDSC-SP2", "HPC2N", "NASA-iPSC"), LOGS, LOGS)]
    return {log.name: (*forests.rows_of(log.by_end, log.cluster.processors), log) for log in logs}


def learn(s: Study) -> None:
    """Learn the forests of all logs and of all but one, where an earlier run has not."""
    if (every := s.out / "smith-forecast.safetensors").is_file():
        return
    rows = _rows(s)
    for name in rows:
        if not (file := without(s.out, rows[name][3])).is_file():
            s.say(f"trees that have not seen {name}")
            _save(file, f"without-{name}", _pooled(s, rows, name), {n: r for n, r in rows.items() if n != name})
    _save(every, "smith-forecast", _pooled(s, rows), rows)


def section(s: Study) -> Section:
    """Learn and judge all forests."""
    rows = _rows(s)
    cells = [[name, *s.piece(f"without-{name}", _judged, s, rows, name)] for name in rows]
    _save(s.out / "smith-forecast.safetensors", "smith-forecast", _pooled(s, rows), rows)
    return s.section("A forest for logs that it has not seen", cells, of="forest")


def _trees(s: Study) -> int:
    return s.pick(5, 100, 100)


def _pooled(s: Study, rows: dict[str, tuple], without: str = "") -> Forest:
    """A forest of all logs but one, each of the same weight."""
    use = [r for name, r in rows.items() if name != without]
    total = sum(len(r[0]) for r in use)
    weight = np.concatenate([r[2] / r[2].sum() * total / len(use) for r in use])
    return forests.learnt(np.concatenate([r[0] for r in use]), np.concatenate([r[1] for r in use]), weight, trees=_trees(s))


def _judged(s: Study, rows: dict[str, tuple], name: str) -> list[str]:
    x, y, weight, _ = rows[name]
    base, cut = _pooled(s, rows, name), int(SEEN * len(x))
    _save(without(s.out, rows[name][3]), f"without-{name}", base, {n: r for n, r in rows.items() if n != name})
    local = forests.learnt(x[:cut], y[:cut], weight[:cut], trees=_trees(s))
    both = forests.learnt(x[:cut], y[:cut], weight[:cut], base, trees=_trees(s))
    judged = [forests.judged(f, x[cut:], y[cut:]) for f in (base, local, both)]
    return [f"{len(x):,}", *(f"{j[0]:.3f} {j[1]:.3f}" for j in judged), *(f"{j[3]:.2f}" for j in judged)]


def _save(file: Path, label: str, forest: Forest, rows: dict[str, tuple]) -> None:
    about = {"system": "forest", "logs": list(rows), "trees": len(forest.tree)}
    about["trained_on"] = sketches([r[3] for r in rows.values()])
    loglinear.save(Index(label, INDICES["smith"].weights, about, forest), file)


def without(folder: Path, log: Workload) -> Path:
    """The order whose forest has not seen this log, where it is one of LOGS."""
    return folder / f"without-{log.name}.safetensors"


def unseen(folder: Path, log: Workload) -> Index:
    """Return the order `smith-forecast` with a forest that has not seen `log`: that of all other logs, or, where forests do not
    learn from `log` at all, that of all logs. Raises InputError where the only forest in `folder` has seen it."""
    if (file := without(folder, log)).is_file():
        return replace(load(file).order, label="smith-forecast")
    order = load(folder / "smith-forecast.safetensors").order
    if log.name in order.about["logs"]:
        raise InputError(f"{file}: is missing, and the forest of all logs has seen {log.name}; begin again in another folder")
    return replace(order, label="smith-forecast")
