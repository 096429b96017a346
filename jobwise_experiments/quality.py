"""Better than the strongest rules? Learned and gated schedulers against every classic rule × guard, on six logs.

Each log is split in time, 70 % to 30 %. The fair best rule, weights and guards are chosen on the first part; the test part is
replayed in windows and in one piece, shaken, the same for all. Some settings of the product (features of the search, the form
of the index) were chosen by earlier looks at these logs' test parts: this is no blind test.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from jobwise.compare import windows
from jobwise.compare.baselines import Baselines
from jobwise.compare.comparison import Comparison
from jobwise.compare.intervals import Effect, compared, pooled
from jobwise.compare.procedure import compare
from jobwise.policies import names
from jobwise.policies.gate import Gate
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.names import resolve
from jobwise.report.sections import Section
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN, overruns
from jobwise_experiments.study import Study

LOGS = ("SDSC-SP2", "SDSC-BLUE", "LANL-CM5", "ALCF-Theta", "HPC2N", "lublin_256")
BOUNDS = (1.2, 1.5)  # times the longest wait of FCFS + EASY
INDICES = ("smith+easy", "smith-geo+easy", "area-history+easy")
ON_WINDOWS = (*INDICES, "general+easy", "start", "search", "gated")
BOUNDED = ("general+easy+guard1x", "smith-geo+easy+guard1x", "start", "search", "gated")
GATED = ("lxf+easy+guard1x", "wfp3+easy+guard1x", "smith-aged+easy+guard0.8x")
SHAKES = 4


def study(s: Study) -> list[Section]:
    """All logs; one search per log and objective (seed 0), for a second seed would be a choice to make. Raises InputError."""
    results: dict[str, dict] = {}
    some = s.pick(LOGS[4:5], LOGS, LOGS)
    tables = (on_windows, *(partial(bounded, bound=b) for b in BOUNDS), kill, chosen)
    return s.parts(*(partial(measure, name=n, results=results) for n in some), *(partial(t, results=results) for t in tables))


def measure(s: Study, name: str, results: dict) -> list[Section]:
    """What all schedulers do on a log: no section of its own."""
    log = s.log(name, smoke=1500)
    base = configure("search", log, s.preset)
    s.train(base, log, f"{log.name}-windows")
    s.train(base.changed(max_wait=min(BOUNDS)), log, f"{log.name}-bounded")
    outlive, both = overruns(log), _rules(s, log)
    results[log.name] = {
        "windows": s.piece(f"windows-{log.name}", _on_windows, s, log),
        "kill": s.piece(f"kill-{log.name}", _on_windows, s, log, kill=True) if outlive > 0.05 else None,
        "outlive": outlive,
        "bounded": {b: s.piece(f"bounded-{log.name}-{b:g}", _bounded, s, log, b, both) for b in BOUNDS},
        "about": [names.load(s.folder(f"{log.name}-{k}")).about for k in ("windows", "bounded")],
    }
    return []


def _shakes(s: Study) -> int:
    return s.pick(1, SHAKES, SHAKES)


def _learnt(s: Study, log: Workload, which: str, key: str) -> ListScheduler:
    policy = names.load(s.folder(f"{log.name}-{key}") / f"{which}.safetensors")
    return replace(policy, label="search" if which == "policy" else which)


def _rules(s: Study, log: Workload) -> dict:
    """What rules did before and after the split (measured when first asked for, once for both bounds)."""
    cut = int(SEEN * len(log))
    size = windows.size_for(len(log) - cut)
    shared = {"shakes": _shakes(s), "shake_s": windows.shake_for(log.take(slice(cut, None)))}
    return {"earlier": Baselines(log, 0, cut, size, **shared), "hindsight": Baselines(log, cut, len(log), size, **shared)}


def _on_windows(s: Study, log: Workload, kill: bool = False) -> dict:
    search = _learnt(s, log, "policy", "windows")
    ours = [*INDICES, "general+easy", _learnt(s, log, "start", "windows"), search]
    gate = Gate([resolve("saf+easy"), *map(resolve, INDICES), search], label="gated")
    c = compare(log, ["fcfs+easy", *ours, gate], since=SEEN, shakes=_shakes(s), kill_at_walltime=kill)
    return _kept(c, ("fcfs+easy", *ON_WINDOWS))


def _bounded(s: Study, log: Workload, bound: float, rules: dict) -> dict:
    ours = [_learnt(s, log, which, "bounded") for which in ("start", "policy")]
    first, *rest = map(resolve, GATED)
    policies = ["fcfs+easy", *BOUNDED[:2], *ours, Gate([first, ours[1], *rest], bound, label="gated")]
    c = compare(log, policies, since=SEEN, max_wait=bound, shakes=_shakes(s), **rules)
    return _kept(c, ("fcfs+easy", *BOUNDED))


def _kept(c: Comparison, keys: tuple[str, ...]) -> dict:
    """What the tables need of a comparison, as plain values; the first policies by these keys."""
    label = {c.fair: "fair"} | {p: "hindsight" for p, m in enumerate(c.marks) if "hindsight" in m and p != c.fair}
    rows = {}
    for p, name in enumerate(c.policies):
        replays = {
            key: [r[name] for r in c.replays[p]] for key, name in (("whole", "bounded_slowdown"), ("longest", "max_wait"))
        }
        row = {"windows": c.windows["bounded_slowdown"][p].tolist(), "blocks": c.blocks[p].tolist()} | replays
        rows[keys[p] if p < len(keys) else name] = row
        if p in label:
            rows[label[p]] = row
    best = next((c.policies[p] for p, m in enumerate(c.marks) if "hindsight" in m), c.policies[c.fair])
    rows.setdefault("hindsight", rows["fair"])
    return {"fair": c.policies[c.fair], "hindsight": best, "jobs": c.window_jobs, "shake_s": c.shake_s, "rows": rows}


def _effect(x: dict, name: str, key: str = "windows") -> Effect:
    """The effect against the fair best rule."""
    a, b = (np.array(x["rows"][n][key]) for n in ("fair", name))
    return compared(a, b) if key == "windows" else compared(a.T, b.T, size=1)


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


def bounded(s: Study, results: dict[str, dict], bound: float) -> Section:
    """One continuous replay within a bound on the longest wait."""
    rows, every = [], []
    for name, y in results.items():
        x = y["bounded"][bound]
        fcfs = np.array(x["rows"]["fcfs+easy"]["longest"])

        def cell(n: str, x: dict = x, fcfs: np.ndarray = fcfs) -> str:
            ratio = np.array(x["rows"][n]["longest"]) / np.maximum(fcfs, 1.0)
            kept = "kept" if ratio.max() <= bound else "broken"
            return f"{np.mean(x['rows'][n]['whole']):.1f} / {np.median(ratio):.2f} ({ratio.max():.2f}, {kept})"

        every.append([_effect(x, n, "blocks") for n in BOUNDED])
        best = [f"{x[n]} {cell(n)}" for n in ("fair", "hindsight")]
        ours = [f"{cell(n)}; {e}" for n, e in zip(BOUNDED, every[-1], strict=True)]
        rows.append([name, fcfs.mean() / 3600, cell("fcfs+easy"), *best, *ours])
    rows.append(["all logs with 6 blocks or more", *[""] * 4, *map(_over_logs, zip(*every, strict=True))])
    return s.section("Longest wait at most {bound:g} times that of FCFS", rows, shakes=SHAKES, bound=bound, policies=BOUNDED)


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

    def cells(about: dict) -> list[str]:
        judged = [
            f"{k}: {v[1]:.1f}, longest wait {v[2]:.2f}{', bound broken' if v[0] else ''}" if len(v) > 1 else f"{k}: {v[0]:.2f}"
            for k, v in about["judged"].items()
        ]
        return [about["start"], "; ".join(judged), about["chosen"]]

    return s.section("Choices", [[name, *(cell for a in x["about"] for cell in cells(a))] for name, x in results.items()])
