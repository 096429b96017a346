"""Better than the strongest rules? Learned and gated schedulers against every classic rule × guard, on six logs.

Each log is split in time, 70 % to 30 %. The fair best rule, weights and guards are chosen on the first part; the test part is
replayed in windows and in one piece, shaken, the same for all. Some settings of the product (features of the search, the form
of the index) were chosen by earlier looks at these logs' test parts: this is no blind test.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
from jobwise.report.sections import Section, Table
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN, first, overruns
from jobwise_experiments.study import Study, prose, read_log

LOGS = ("SDSC-SP2", "SDSC-BLUE", "LANL-CM5", "ALCF-Theta", "HPC2N", "lublin_256")
BOUNDS = (1.2, 1.5)  # times the longest wait of FCFS + EASY
INDICES = ("smith+easy", "smith-geo+easy", "area-history+easy")
ON_WINDOWS = (*INDICES, "general+easy", "start", "search", "gated")
BOUNDED = ("general+easy+guard1x", "smith-geo+easy+guard1x", "start", "search", "gated")
SHAKES = 4


def study(logs: Path, s: Study, preset: str, seeds: int) -> list[Section]:
    """All logs; one search per log and objective (seed 0), for a second seed would be a choice to make. Raises InputError."""
    results = {}

    def one(name: str) -> list[Section]:
        log = read_log(logs, name)
        results[log.name] = _one(s, first(log, min(len(log), 1500)) if preset == "smoke" else log, preset)
        return []

    def tables() -> list[Section]:
        return [_windows(results), *(_bounded(results, b) for b in BOUNDS), _kill(results), _chosen(results)]

    some = LOGS[4:5] if preset == "smoke" else LOGS
    return s.parts(*(lambda name=name: one(name) for name in some), tables)


def _one(s: Study, log: Workload, preset: str) -> dict:
    shakes = 1 if preset == "smoke" else SHAKES
    base = configure("search", log, preset)
    s.train(base, log, f"{log.name}-windows")
    s.train(base.changed(max_wait=min(BOUNDS)), log, f"{log.name}-bounded")

    def learnt(which: str, key: str) -> ListScheduler:
        policy = names.load(s.folder(f"{log.name}-{key}") / f"{which}.safetensors")
        return replace(policy, label="search" if which == "policy" else which)

    def on_windows(kill: bool = False) -> dict:
        search = learnt("policy", "windows")
        ours = [*INDICES, "general+easy", learnt("start", "windows"), search]
        gate = Gate([resolve("saf+easy"), *map(resolve, INDICES), search], label="gated")
        c = compare(log, ["fcfs+easy", *ours, gate], since=SEEN, shakes=shakes, kill_at_walltime=kill)
        return _kept(c, ("fcfs+easy", *ON_WINDOWS))

    both = {}

    def rules() -> dict:
        """What rules did before and after the split: measured once, for both bounds."""
        cut, size = int(SEEN * len(log)), windows.size_for(len(log) - int(SEEN * len(log)))
        if not both:
            shared = {"shakes": shakes, "shake_s": windows.shake_for(log.take(slice(cut, None)))}
            both["earlier"] = Baselines(log, 0, cut, size, **shared)
            both["hindsight"] = Baselines(log, cut, len(log), size, **shared)
        return both

    def bounded(bound: float) -> dict:
        ours = [learnt("start", "bounded"), learnt("policy", "bounded")]
        rest = [resolve(x) for x in ("wfp3+easy+guard1x", "lxf+easy+guard1x", "smith-aged+easy+guard0.8x")]
        gate = Gate([resolve("lxf+easy+guard1x"), ours[1], *rest[:1], *rest[2:]], bound, label="gated")
        c = compare(log, ["fcfs+easy", *BOUNDED[:2], *ours, gate], since=SEEN, max_wait=bound, shakes=shakes, **rules())
        return _kept(c, ("fcfs+easy", *BOUNDED))

    return {
        "windows": s.piece(f"windows-{log.name}", on_windows),
        "kill": s.piece(f"kill-{log.name}", lambda: on_windows(True)) if overruns(log) > 0.05 else None,
        "outlive": overruns(log),
        "bounded": {b: s.piece(f"bounded-{log.name}-{b:g}", lambda b=b: bounded(b)) for b in BOUNDS},
        "about": [names.load(s.folder(f"{log.name}-{k}")).about for k in ("windows", "bounded")],
    }


def _kept(c: Comparison, keys: tuple[str, ...]) -> dict:
    """What the tables need of a comparison, as plain values; the first policies by these keys."""
    label = {c.fair: "fair"} | {p: "hindsight" for p, m in enumerate(c.marks) if "hindsight" in m and p != c.fair}
    rows = {}
    for p, name in enumerate(c.policies):
        row = {
            "windows": c.windows["bounded_slowdown"][p].tolist(),
            "blocks": c.blocks[p].tolist(),
            "whole": [r["bounded_slowdown"] for r in c.replays[p]],
            "longest": [r["max_wait"] for r in c.replays[p]],
        }
        rows[keys[p] if p < len(keys) else name] = row
        if p in label:
            rows[label[p]] = row
    fair = c.policies[c.fair]
    best = next((c.policies[p] for p, m in enumerate(c.marks) if "hindsight" in m), fair)
    rows.setdefault("hindsight", rows["fair"])
    return {"fair": fair, "hindsight": best, "jobs": c.window_jobs, "shake_s": c.shake_s, "rows": rows}


def _effect(x: dict, name: str, base: str, key: str = "windows") -> Effect:
    a, b = (np.array(x["rows"][n][key]) for n in (base, name))
    return compared(a, b) if key == "windows" else compared(a.T, b.T, size=1)


def _over_logs(effects: list[Effect]) -> str:
    e = pooled([x for x in effects if x.blocks >= 6])
    return e.text().replace("block", "log") if e.blocks else ""


def _windows(results: dict[str, dict]) -> Section:
    rows, every = [], {n: [] for n in ("hindsight", *ON_WINDOWS)}
    for name, x in results.items():
        w = x["windows"]
        count = len(w["rows"]["fair"]["windows"])
        row = [name, f"{count} of {w['jobs']:,}", f"{w['fair']} {np.mean(w['rows']['fair']['windows']):.2f}"]
        for n in every:
            every[n].append(_effect(w, n, "fair"))
            row.append((f"{w['hindsight']} " if n == "hindsight" else "") + every[n][-1].text())
        rows.append(row)
    rows.append(["all logs with 6 blocks or more", "", "", *(_over_logs(e) for e in every.values())])
    columns = ["log", "windows", "fair best rule, mean", "best in hindsight", *ON_WINDOWS]
    text = prose("quality", "windows", shakes=SHAKES)
    return Section("Windows", text, [Table(columns, rows)])


def _bounded(results: dict[str, dict], bound: float) -> Section:
    rows, every = [], {n: [] for n in ("hindsight", *BOUNDED)}
    for name, x in results.items():
        b = x["bounded"][bound] if bound in x["bounded"] else x["bounded"][str(bound)]
        fcfs = np.array(b["rows"]["fcfs+easy"]["longest"])

        def cell(n: str, b=b, fcfs=fcfs) -> str:
            ratio = np.array(b["rows"][n]["longest"]) / np.maximum(fcfs, 1.0)
            kept = "kept" if ratio.max() <= bound else "broken"
            return f"{np.mean(b['rows'][n]['whole']):.1f} / {np.median(ratio):.2f} ({ratio.max():.2f}, {kept})"

        row = [
            name,
            f"{fcfs.mean() / 3600:.0f}",
            cell("fcfs+easy"),
            f"{b['fair']} {cell('fair')}",
            f"{b['hindsight']} {cell('hindsight')}",
        ]
        for n in BOUNDED:
            e = _effect(b, n, "fair", "blocks")
            every[n].append(e)
            row.append(f"{cell(n)}; {e.text()}")
        rows.append(row)
    columns = [
        "log",
        "longest wait of FCFS, h",
        "FCFS + EASY",
        "fair best rule within the bound",
        "best in hindsight within it",
        *BOUNDED,
    ]
    last = ["all logs with 6 blocks or more", "", "", "", ""] + [_over_logs(every[n]) for n in BOUNDED]
    text = prose("quality", "bounded", shakes=SHAKES, bound=bound)
    return Section(f"Longest wait at most {bound:g} times that of FCFS", text, [Table(columns, [*rows, last])])


def _kill(results: dict[str, dict]) -> Section:
    rows = []
    for name, x in results.items():
        if not x["kill"]:
            continue
        for how, w in (("run on", x["windows"]), ("ended", x["kill"])):
            cells = [_effect(w, n, "fair").text() for n in ON_WINDOWS]
            rows.append([name, f"{x['outlive']:.0%}", how, f"{w['fair']} {np.mean(w['rows']['fair']['windows']):.2f}", *cells])
    columns = ["log", "outlive their request", "they", "fair best rule, mean", *ON_WINDOWS]
    text = prose("quality", "kill")
    return Section("Jobs that outlive their request", text, [Table(columns, rows)])


def _chosen(results: dict[str, dict]) -> Section:
    rows = []
    for name, x in results.items():
        free, tied = x["about"]
        said = [
            f"{k}: {v[1]:.1f}, longest wait {v[2]:.2f}{', bound broken' if v[0] else ''}" if len(v) > 1 else f"{k}: {v[0]:.2f}"
            for a in (free, tied)
            for k, v in a["judged"].items()
        ]
        rows.append(
            [name, free["start"], "; ".join(said[:2]), free["chosen"], tied["start"], "; ".join(said[2:]), tied["chosen"]]
        )
    columns = [
        "log",
        "search began at",
        "on jobs kept back",
        "chosen",
        "bounded search began at",
        "on jobs kept back",
        "chosen",
    ]
    text = prose("quality", "chosen")
    return Section("Choices", text, [Table(columns, rows)])
