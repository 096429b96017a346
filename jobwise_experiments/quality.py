"""Better than the strongest rules? Learned orders against every classic rule × guard, on six logs.

Each log is split in time, 70 % to 30 %. The fair best rule, weights and guards are chosen on the first part; the test part is
replayed in windows, shaken, the same for all. Some settings of the product (features of the search, the form
of the index) were chosen by earlier looks at these logs' test parts: this is no blind test.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from jobwise.compare.comparison import Comparison
from jobwise.compare.intervals import Effect, compared, pooled
from jobwise.compare.procedure import compare
from jobwise.policies import names
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.report.sections import Section
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN, overruns
from jobwise_experiments.study import Study

LOGS = ("SDSC-SP2", "SDSC-BLUE", "LANL-CM5", "ALCF-Theta", "HPC2N", "lublin_256")
INDICES = ("smith+easy", "smith-geo+easy", "area-history+easy")
ON_WINDOWS = (*INDICES, "general+easy", "start", "search")
SHAKES = 4


def study(s: Study) -> list[Section]:
    """All logs; one search per log (seed 0), for a second seed would be a choice to make. Raises InputError."""
    results: dict[str, dict] = {}
    some = s.pick(LOGS[4:5], LOGS, LOGS)
    tables = (on_windows, kill, chosen)
    return s.parts(*(partial(measure, name=n, results=results) for n in some), *(partial(t, results=results) for t in tables))


def measure(s: Study, name: str, results: dict) -> list[Section]:
    """What all schedulers do on a log: no section of its own."""
    log = s.log(name, smoke=1500)
    base = configure("search", log, s.preset)
    s.train(base, log, f"{log.name}-windows")
    outlive = overruns(log)
    results[log.name] = {
        "windows": s.piece(f"windows-{log.name}", _on_windows, s, log),
        "kill": s.piece(f"kill-{log.name}", _on_windows, s, log, kill=True) if outlive > 0.05 else None,
        "outlive": outlive,
        "about": names.load(s.folder(f"{log.name}-windows")).about,
    }
    return []


def _shakes(s: Study) -> int:
    return s.pick(1, SHAKES, SHAKES)


def _learnt(s: Study, log: Workload, which: str) -> ListScheduler:
    policy = names.load(s.folder(f"{log.name}-windows") / f"{which}.safetensors")
    return replace(policy, label="search" if which == "policy" else which)


def _on_windows(s: Study, log: Workload, kill: bool = False) -> dict:
    ours = [*INDICES, "general+easy", _learnt(s, log, "start"), _learnt(s, log, "policy")]
    c = compare(log, ["fcfs+easy", *ours], since=SEEN, replicas=_shakes(s), kill_at_walltime=kill)
    return _kept(c, ("fcfs+easy", *ON_WINDOWS))


def _kept(c: Comparison, keys: tuple[str, ...]) -> dict:
    """What the tables need of a comparison, as plain values; the first policies by these keys."""
    label = {c.fair: "fair"} | {p: "hindsight" for p, m in enumerate(c.marks) if "hindsight" in m and p != c.fair}
    rows = {}
    for p, name in enumerate(c.policies):
        row = {"windows": c.windows["bounded_slowdown"][p].tolist()}
        rows[keys[p] if p < len(keys) else name] = row
        if p in label:
            rows[label[p]] = row
    best = next((c.policies[p] for p, m in enumerate(c.marks) if "hindsight" in m), c.policies[c.fair])
    rows.setdefault("hindsight", rows["fair"])
    return {"fair": c.policies[c.fair], "hindsight": best, "jobs": c.window_jobs, "shake_s": c.jitter_s, "rows": rows}


def _effect(x: dict, name: str) -> Effect:
    """The effect against the fair best rule."""
    return compared(*(np.array(x["rows"][n]["windows"]) for n in ("fair", name)))


def _over_logs(effects: list[Effect]) -> str:
    e = pooled([x for x in effects if x.blocks >= 6])
    return e.text().replace("block", "log") if e.blocks else ""


def _mean(x: dict) -> str:
    return f"{x['fair']} {np.mean(x['rows']['fair']['windows']):.2f}"


def on_windows(s: Study, results: dict[str, dict]) -> Section:
    """Windows of unseen jobs."""
    rows, several = [], ("hindsight", *ON_WINDOWS)
    every = {name: [_effect(x["windows"], n) for n in several] for name, x in results.items()}
    for name, effects in every.items():
        w = results[name]["windows"]
        count = f"{len(w['rows']['fair']['windows'])} of {w['jobs']:,}"
        rows.append([name, count, _mean(w), f"{w['hindsight']} {effects[0]}", *effects[1:]])
    rows.append(["all logs with 6 blocks or more", "", "", *map(_over_logs, zip(*every.values(), strict=True))])
    return s.section("Windows", rows, shakes=SHAKES, policies=ON_WINDOWS)


def kill(s: Study, results: dict[str, dict]) -> Section:
    """Logs with many jobs that outlive their request."""
    rows = [
        [name, x["outlive"], how, _mean(x[key]), *(_effect(x[key], n) for n in ON_WINDOWS)]
        for name, x in results.items()
        for how, key in (("run on", "windows"), ("ended", "kill"))
        if x["kill"]
    ]
    return s.section("Jobs that outlive their request", rows, policies=ON_WINDOWS)


def chosen(s: Study, results: dict[str, dict]) -> Section:
    """What the searches began at and chose."""
    rows = []
    for name, x in results.items():
        about = x["about"]
        judged = "; ".join(f"{k}: {v:.2f}" for k, v in about["judged"].items())
        rows.append([name, about["start"], judged, about["chosen"]])
    return s.section("Choices", rows)
