"""Failures foreseen and avoided: simulated nodes, and failures that were recorded."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np

from jobwise.cluster import nodes
from jobwise.compare.intervals import over_seeds
from jobwise.errors import InputError
from jobwise.forecast.failures import HORIZON, MODELS, Nodes, fitted
from jobwise.metrics import wait
from jobwise.policies.avoid import Avoid, Risks
from jobwise.policies.names import resolve
from jobwise.report.sections import Section, Table
from jobwise.simulate import simulate
from jobwise.telemetry.read import read
from jobwise.telemetry.risk import nodes_of
from jobwise.telemetry.simulated import Faults, lives
from jobwise.workload import Workload, workload
from jobwise_experiments.jobsets import figure
from jobwise_experiments.study import Study, prose

RESTART_S, THETAS = 60.0, (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


def _jobs(f: Faults, outages: np.ndarray, begin: float, seed: int, load: float = 0.7) -> Workload:
    """Jobs of an hour in the mean on the nodes of `f`, from `begin` s on."""
    rng, span, mean = np.random.default_rng([5, seed]), f.steps * f.step_s - begin, 3600.0
    count = int(span * f.nodes * load / mean)
    run = np.maximum(rng.lognormal(np.log(mean) - 0.5, 1.0, count), 60.0).round()
    submit = np.sort(rng.uniform(0, 0.95 * span, count)).round()
    later = [(t - begin, int(n), int(up)) for t, n, up in outages if t > begin]
    machine = nodes(f.nodes, cpus=1).with_outages(later)
    return workload(submit - submit[0], np.ones((count, 1), int), run, 2 * run, cluster=machine, name="faults")


def _between(preset: str) -> float:
    """Steps between faults of a node, in the mean."""
    return 300.0 if preset == "smoke" else 2000.0


def _one(seed: int, preset: str) -> dict:
    """Models and schedulers on one cluster that fails."""
    f = Faults(steps={"smoke": 3000, "small": 20_000, "paper": 60_000}[preset], mtbf=_between(preset))
    measured, outages = lives(f, [77, seed])
    x, _, step = nodes_of(measured, outages)
    models = {m: fitted(x, m, HORIZON, step) for m in MODELS}
    cut = x.cuts[1]
    w, inner = _jobs(f, outages, cut * step, seed), resolve("fcfs+easy")
    sure = x.label(HORIZON).astype(float)

    def run(policy) -> dict:
        r = simulate(w, policy, restart_cost_s=RESTART_S)
        long = r.jobs["end"] - r.jobs["submit"]
        used = float(r.runtime.sum() / (r.jobs["end"].max() * f.nodes))
        return {
            "lost": r.lost / f.step_s, "duration": float(long.mean()), "longest": float(wait(r).max()),
            "hit": int(r.jobs["restarts"].sum()), "used": used, "stops": r.preemptions,
        }  # fmt: skip

    def avoid(risk: np.ndarray, theta: float, how: str) -> dict:
        return run(Avoid(inner, Risks(risk[cut:], 0.0, step), theta, how))

    best = models["boosted"]
    results = {"none": run(inner)}
    for how in ("drain", "move", "save"):
        results[f"{how}, oracle"] = avoid(sure, 0.5, how)
        for m, r in models.items():
            results[f"{how}, {m}"] = avoid(r.risk, r.worth.theta, how)
    thetas = THETAS[::3] if preset == "smoke" else THETAS
    sweep = {f"{t:g}": avoid(best.risk, t, "move") for t in thetas}
    return {"models": {m: r.to_dict() for m, r in models.items()}, "found": results, "sweep": sweep}


def avoided(s: Study, preset: str, seeds: int) -> tuple[Section, list[str]]:
    """Models, and what schedulers make of them, on simulated nodes; and a sentence on it."""
    every = [s.piece(f"failures-{k}", lambda k=k: _one(k, preset)) for k in range(seeds)]
    note = prose("telemetry_failures", "avoided", preset=_between(preset), horizon=HORIZON, seeds=seeds, restart_s=RESTART_S)
    title = "Question 2: failures avoided, simulated nodes"
    section = Section(title, note, [_models(every), _schedules(every)], [figure(s, "theta", partial(_draw, every), 7.4, 3.0)])
    moved, longer = _interval(_saved(every, "move, boosted")), _interval(_longer(every, "move, boosted"))
    sentence = f"Failures: moving jobs away by the boosted model saves {moved} of the lost work that a perfect oracle saves"
    return section, [f"{sentence}; the mean duration changes by {longer}."]


def _models(every: list[dict]) -> Table:
    rows = []
    for m in MODELS:
        x = [e["models"][m] for e in every]
        mean = {k: float(np.mean([y[k] for y in x])) for k in x[0] if k not in ("model", "failures")}
        rows.append(
            [m, f"{mean['auprc']:.2f}", f"{mean['auprc'] / mean['base']:.0f}x", f"{mean['auroc']:.2f}", f"{mean['brier']:.4f}",
             f"{mean['precision']:.0%}", f"{mean['recall']:.0%}", f"{mean['f1']:.2f}", f"{mean['caught']:.0%}",
             f"{mean['lead']:.0f}", f"{mean['false_alarms']:.2f}"]
        )  # fmt: skip
    columns = "model, AUPRC, by base rate, AUROC, Brier, precision, recall, F1, caught, lead, false alarms"
    return Table(columns.split(", "), rows)


def _of(every: list[dict], name: str, key: str) -> np.ndarray:
    return np.array([e["found"][name][key] for e in every])


def _saved(every: list[dict], name: str) -> np.ndarray:
    """[S] of the lost work that the oracle saves, the share that is saved."""
    base, best = (_of(every, n, "lost") for n in ("none", "move, oracle"))
    return (base - _of(every, name, "lost")) / np.maximum(base - best, 1e-9)


def _longer(every: list[dict], name: str) -> np.ndarray:
    return _of(every, name, "duration") / _of(every, "none", "duration") - 1


def _schedules(every: list[dict]) -> Table:
    rows = []
    for name in every[0]["found"]:
        lost, hit, stops, longest, used = (_of(every, name, k).mean() for k in ("lost", "hit", "stops", "longest", "used"))
        cells = ["", ""] if name == "none" else [_interval(_saved(every, name)), _interval(_longer(every, name))]
        rows.append([name, f"{lost:,.0f}", f"{hit:.0f}", f"{stops:.0f}", *cells, f"{longest / 3600:.1f}", f"{used:.1%}"])
    columns = ["scheduling", "work lost, node steps", "jobs hit", "stops", "of what the oracle saves", "mean duration"]
    return Table([*columns, "longest wait, h", "used"], rows)


def _draw(every: list[dict], fig) -> None:
    axes, thetas = fig.subplots(1, 2), [float(t) for t in every[0]["sweep"]]
    for ax, key, name in ((axes[0], "lost", "work lost, node steps"), (axes[1], "duration", "mean duration, s")):
        y = np.array([[x[key] for x in e["sweep"].values()] for e in every])
        ax.plot(thetas, y.T, color="#1b6ca8", lw=0.6, alpha=0.5)
        ax.plot(thetas, y.mean(axis=0), color="#1b6ca8", lw=2, label="boosted, jobs moved")
        for what, colour in (("none", "#6b7280"), ("move, oracle", "#2e8b57")):
            ax.axhline(_of(every, what, key).mean(), color=colour, ls="--", lw=1, label=what)
        ax.set(xlabel="moved above this risk", ylabel=name, xscale="log")
    axes[0].legend(fontsize=7, frameon=False)


def _interval(x: np.ndarray) -> str:
    mean, low, high = (100 * v for v in over_seeds(x))
    return f"{mean:.0f} %" if np.isnan(low) else f"{mean:.0f} % [{low:.0f}, {high:.0f}]"


def recorded(s: Study, folder: Path) -> Section:
    """Failures that were recorded: anomalies of CloudWatch, outages as users reported them."""
    rows = []
    for name, build in (("anomalies (NAB, 17 AWS series)", _anomalies), ("outages (reported by users, 2 services)", _outages)):

        def measure(build=build) -> dict:
            x, step, horizon = build(folder)
            results = {}
            for m in MODELS:
                try:
                    results[m] = fitted(x, m, horizon, step).to_dict()
                except InputError as error:
                    results[m] = {"why": str(error)}
            return results

        measured = s.piece(f"real-{build.__name__.strip('_')}", measure)
        for m, w in measured.items():
            if "why" in w:
                rows.append([name, m, w["why"], "", "", "", ""])
            else:
                ratio = w["auprc"] / w["base"]
                cells = [
                    f"{w['base']:.2%}",
                    f"{w['auprc']:.3f}",
                    f"{ratio:.1f}x",
                    f"{w['caught']:.0%}",
                    "yes" if ratio >= 3 else "no",
                ]
                rows.append([name, m, *cells])
    note = prose("telemetry_failures", "recorded")
    return Section(
        "Real failures", note, [Table(["data", "model", "base rate", "AUPRC", "by base rate", "caught", "3 times"], rows)]
    )


def _anomalies(folder: Path) -> tuple[Nodes, float, int]:
    t = read(folder / "nab_aws")
    marked = json.loads((folder / "nab_aws" / "anomaly_windows.json").read_text())
    parts, events, step = [], [], 300.0
    for n in range(t.count):
        begin, _, y = t.regular(n, step)
        name = t.nodes[t.node[n]]
        key = next((k for k in marked if k.endswith(f"{name}.csv")), None)
        for a, _b in marked.get(key, []):
            at = datetime.fromisoformat(a + "+00:00").timestamp()
            events.append((int((at - begin) / step), n))
        parts.append(y)
    T = int(np.median([len(y) for y in parts]))  # two weeks; a few are shorter, or longer by gaps
    values = np.stack([np.append(y, np.full(max(T - len(y), 0), np.nan))[:T] for y in parts], axis=1)
    there = np.arange(T)[:, None] < [len(y) for y in parts]
    spans = np.array([e for e in events if 0 < e[0] < T]).reshape(-1, 2)
    return Nodes(("value",), values[:, :, None], there, spans), step, 12


def _outages(folder: Path) -> tuple[Nodes, float, int]:
    series = [read(folder / f"failures_{who}_user_reported.parquet").regular(0, 600.0)[2] for who in ("facebook", "netflix")]
    T = min(map(len, series))
    share = np.nan_to_num(np.stack([y[:T] for y in series], axis=1))
    out = share > 0
    begins = np.argwhere(out[1:] & ~out[:-1]) + [1, 0]
    return Nodes(("share_out",), share[:, :, None], ~out, begins), 600.0, 1
