"""Failures foreseen and avoided: simulated nodes, and failures that were recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np

from jobwise.cluster import nodes
from jobwise.compare.intervals import over_seeds
from jobwise.errors import InputError
from jobwise.forecast.failures import HORIZON, MODELS, NodeSamples, fitted
from jobwise.metrics import wait
from jobwise.policies.avoid import Avoid, Risks
from jobwise.policies.names import resolve
from jobwise.report.sections import Section
from jobwise.simulate import simulate
from jobwise.telemetry.read import read
from jobwise.telemetry.risk import nodes_of
from jobwise.telemetry.simulated import Faults, lives
from jobwise.workload import Workload, workload
from jobwise_experiments.study import Arms, Study

RESTART_S, THETAS = 60.0, (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
SHOWN = ("brier", "precision", "recall", "f1", "caught", "lead", "false_alarms")


def _jobs(f: Faults, outages: np.ndarray, begin: float, seed: int, load: float = 0.7) -> Workload:
    """Jobs of an hour in the mean on the nodes of `f`, from `begin` s on."""
    rng, span, mean = np.random.default_rng([5, seed]), f.steps * f.step_s - begin, 3600.0
    count = int(span * f.nodes * load / mean)
    run = np.maximum(rng.lognormal(np.log(mean) - 0.5, 1.0, count), 60.0).round()
    submit = np.sort(rng.uniform(0, 0.95 * span, count)).round()
    later = [(t - begin, int(n), int(up)) for t, n, up in outages if t > begin]
    machine = nodes(f.nodes, cpus=1).with_outages(later)
    return workload(submit - submit[0], np.ones((count, 1), int), run, 2 * run, cluster=machine, name="faults")


def _between(s: Study) -> float:
    """Steps between faults of a node, in the mean."""
    return 300.0 if s.smoke else 2000.0


def _one(s: Study, seed: int) -> dict:
    """Models and schedulers on one cluster that fails."""
    f = Faults(steps=s.pick(3000, 20_000, 60_000), mtbf=_between(s))
    measured, outages = lives(f, [77, seed])
    x, _, step = nodes_of(measured, outages)
    models, cut = {m: fitted(x, m, HORIZON, step) for m in MODELS}, x.cuts[1]
    w, inner = _jobs(f, outages, cut * step, seed), resolve("fcfs+easy")

    def run(policy) -> dict:
        r = simulate(w, policy, restart_cost_s=RESTART_S)
        long, used = r.jobs["end"] - r.jobs["submit"], float(r.runtime.sum() / (r.jobs["end"].max() * f.nodes))
        hit, stops = int(r.jobs["restarts"].sum()), r.preemptions
        measured = {"lost": r.lost / f.step_s, "duration": float(long.mean()), "longest": float(wait(r).max())}
        return measured | {"hit": hit, "used": used, "stops": stops}

    def avoid(risk: np.ndarray, theta: float, how: str) -> dict:
        return run(Avoid(inner, Risks(risk[cut:], 0.0, step), theta, how))

    results = {"none": run(inner)}
    for how in ("drain", "move", "save"):
        results[f"{how}, oracle"] = avoid(x.label(HORIZON).astype(float), 0.5, how)
        for m, r in models.items():
            results[f"{how}, {m}"] = avoid(r.risk, r.worth.theta, how)
    thetas = s.pick(THETAS[::3], THETAS, THETAS)
    sweep = {f"{t:g}": avoid(models["boosted"].risk, t, "move") for t in thetas}
    return {"models": {m: r.to_dict() for m, r in models.items()}, "found": results, "sweep": sweep}


def avoided(s: Study, said: list[str]) -> Section:
    """Models, and what schedulers make of them, on simulated nodes; and a sentence on it."""
    every = [s.piece(f"failures-{k}", _one, s, k) for k in range(s.seeds)]
    x = Arms({n: [e["found"][n] for e in every] for n in every[0]["found"]})
    none, best = x.of("none", "lost"), x.of("move, oracle", "lost")

    def saved(name: str) -> str:  # of the lost work that the oracle saves
        return _share((none - x.of(name, "lost")) / np.maximum(none - best, 1e-9))

    def longer(name: str) -> str:
        return _share(x.of(name, "duration") / x.of("none", "duration") - 1)

    moved = "move, boosted"
    said.append(f"Failures: moving jobs away by the boosted model saves {saved(moved)} of the lost work that a perfect oracle "
                f"saves; the mean duration changes by {longer(moved)}.")  # fmt: skip
    models, rows = [], []
    for m in MODELS:
        mean = Arms({m: [e["models"][m] for e in every]}).mean
        ratio = mean(m, "auprc") / mean(m, "base")
        models.append([m, mean(m, "auprc"), f"{ratio:.0f}x", mean(m, "auroc"), *(mean(m, key) for key in SHOWN)])
    for n in x:
        changes = ["", ""] if n == "none" else [saved(n), longer(n)]
        rows.append([n, *(x.mean(n, k) for k in ("lost", "hit", "stops")), *changes, x.mean(n, "longest") / 3600,
                     x.mean(n, "used")])  # fmt: skip

    def draw(fig) -> None:
        thetas = [float(t) for t in every[0]["sweep"]]
        axes = fig.subplots(1, 2)
        for ax, key, name in ((axes[0], "lost", "work lost, node steps"), (axes[1], "duration", "mean duration, s")):
            y = np.array([[z[key] for z in e["sweep"].values()] for e in every])
            ax.plot(thetas, y.T, color="#1b6ca8", lw=0.6, alpha=0.5)
            ax.plot(thetas, y.mean(axis=0), color="#1b6ca8", lw=2, label="boosted, jobs moved")
            for arm, colour in (("none", "#6b7280"), ("move, oracle", "#2e8b57")):
                ax.axhline(x.mean(arm, key), color=colour, ls="--", lw=1, label=arm)
            ax.set(xlabel="moved above this risk", ylabel=name, xscale="log")
        axes[0].legend(fontsize=7, frameon=False)

    figures, values = [s.figure("theta", draw, 7.4, 3.0)], {"between": _between(s), "horizon": HORIZON, "restart_s": RESTART_S}
    return s.section("Question 2: failures avoided, simulated nodes", models, rows, figures=figures, **values)


def _share(x: np.ndarray) -> str:
    mean, low, high = (100 * v for v in over_seeds(x))
    return f"{mean:.0f} %" if np.isnan(low) else f"{mean:.0f} % [{low:.0f}, {high:.0f}]"


def recorded(s: Study, folder: Path) -> Section:
    """Failures that were recorded: anomalies of CloudWatch, outages as users reported them."""
    rows, sources = [], {"anomalies (NAB, 17 AWS series)": _anomalies, "outages (reported by users, 2 services)": _outages}

    def measured(build: Callable) -> dict:
        (x, step, horizon), results = build(folder), {}
        for m in MODELS:
            try:
                results[m] = fitted(x, m, horizon, step).to_dict()
            except InputError as error:
                results[m] = {"why": str(error)}
        return results

    for name, build in sources.items():
        for m, w in s.piece(f"real-{build.__name__.strip('_')}", measured, build).items():
            ratio = w["auprc"] / w["base"] if "why" not in w else 0.0
            cells = [w["base"], w["auprc"], f"{ratio:.1f}x", w["caught"], "yes" if ratio >= 3 else "no"] if ratio else []
            rows.append([name, m, *(cells or [w["why"], "", "", "", ""])])
    return s.section("Real failures", rows)


def _anomalies(folder: Path) -> tuple[NodeSamples, float, int]:
    t = read(folder / "nab_aws")
    marked = json.loads((folder / "nab_aws" / "anomaly_windows.json").read_text())
    parts, events, step = [], [], 300.0
    for n in range(t.count):
        begin, _, y = t.regular(n, step)
        key = next((k for k in marked if k.endswith(f"{t.nodes[t.node[n]]}.csv")), None)
        for a, _b in marked.get(key, []):
            events.append((int((datetime.fromisoformat(a + "+00:00").timestamp() - begin) / step), n))
        parts.append(y)
    T = int(np.median([len(y) for y in parts]))  # two weeks; a few are shorter, or longer by gaps
    values = np.stack([np.append(y, np.full(max(T - len(y), 0), np.nan))[:T] for y in parts], axis=1)
    there = np.arange(T)[:, None] < [len(y) for y in parts]
    spans = np.array([e for e in events if 0 < e[0] < T]).reshape(-1, 2)
    return NodeSamples(("value",), values[:, :, None], there, spans), step, 12


def _outages(folder: Path) -> tuple[NodeSamples, float, int]:
    series = [read(folder / f"failures_{who}_user_reported.parquet").regular(0, 600.0)[2] for who in ("facebook", "netflix")]
    T = min(map(len, series))
    share = np.nan_to_num(np.stack([y[:T] for y in series], axis=1))
    out = share > 0
    begins = np.argwhere(out[1:] & ~out[:-1]) + [1, 0]
    return NodeSamples(("share_out",), share[:, :, None], ~out, begins), 600.0, 1
