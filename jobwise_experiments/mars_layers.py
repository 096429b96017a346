"""MARS's layers measured: costs, the model store at work, real workflows, Algorithm 3 on streams of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobwise.compare.intervals import compared
from jobwise.compare.windows import slowdowns
from jobwise.learn.run_folder import parts, windows
from jobwise.metrics import makespan, workflows
from jobwise.policies.neural import NeuralPolicy
from jobwise.report.sections import Section, Table
from jobwise.simulate import simulate, simulate_many
from jobwise.systems.layer import layer
from jobwise.systems.mars import RULES, argbest, costly
from jobwise.systems.rla3c import configure
from jobwise.systems.store import Store
from jobwise.workload import Workload
from jobwise.workloads.source import open_workflow
from jobwise.workloads.streams import arrivals, stream
from jobwise.workloads.transform import first
from jobwise.worlds.window.mars import costs
from jobwise_experiments.jobsets import figure
from jobwise_experiments.study import Study, read_log

BETAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
LOGS = ("SDSC-SP2", "SDSC-BLUE", "HPC2N", "ALCF-Theta")
COSTS = """SDSC-SP2, costs drawn from N(0.5, 0.15) as in the paper, {windows} unseen windows, one seed. After the softmax: one
model, whose probabilities are multiplied by q^beta while it schedules. In the loss: a model trained for each beta. Cost
position: mean place in the order of starts weighted by cost, 0.5 where cost has no say, larger where dear jobs wait."""
STORE = """`jobwise mars learn`: window by window of {size:,} jobs through a log, as it would have been. Who schedules a window
was decided before it; it is measured in pieces of 256 jobs, then the model learns from the last four. Changes of the geometric
mean of the scores, intervals over windows: against the best rule so far, against the best of eight rules of each window in
hindsight, and against the present net always scheduling (no rollback, no rule)."""
ALONE = """Each of the shipped workflows alone on 64 cores, estimates exact: makespan / the larger of critical path and work /
cores (a bound that cannot always be reached). `rank` is HEFT's order on equal cores; argbest: the best of nine rules on the
estimates, here by slowdown, which of one workflow is its makespan; mars: Algorithm 3."""
STREAMS = """{streams} streams of {count} real workflows on 64 cores at a load of 0.9. Algorithm 3 plans the workflows that have
come when a core is free, first come, first served: it merges {merged:.1f} plans a stream, gives large ones to the general
model, small ones to SJF and
UNICEF. No merging: every workflow is planned alone; parts of 300: larger ones are cut, and done part by part (none has the
20,000 tasks at which the paper cuts). The rules of workflows see all workflows that have come at once. argbest replays the
whole stream to choose, arrivals to come included: a bound in hindsight, no scheduler."""


def layers(s: Study, logs: Path, preset: str) -> list[Section]:
    """Costs, the model store, workflows; these lie in the folder `workflows` beside that of the logs."""
    flows = logs.parent / "workflows"
    sections = [_costs(s, logs, preset), _store(s, logs, preset)]
    return sections + ([_workflows(s, flows), _algorithm3(s, flows, preset)] if flows.is_dir() else [])


def _costs(s: Study, logs: Path, preset: str) -> Section:
    log = first(read_log(logs, "SDSC-SP2"), 9_000 if preset != "smoke" else 1_000)
    config = configure(log, preset).changed(encoding={"cost": "drawn"})
    config = config.changed(choices=500, validations=1, warm=4) if preset == "smoke" else config
    pieces, betas = windows(parts(log)[2], 256, 20), BETAS[::3] if preset == "smoke" else BETAS

    def of(policy: NeuralPolicy) -> dict:
        encoder, records = policy.bound(log.cluster), simulate_many(pieces, policy)
        shares = [costly(r, costs(r.workload.jobs, encoder)) for r in records]
        return {"slowdown": slowdowns(records).tolist()} | {k: float(np.mean([x[k] for x in shares])) for k in shares[0]}

    def after() -> list:
        policy = s.train(config, log, "cost-after", 0)
        return [of(policy.with_options({"cost": b})) for b in betas]

    def inside() -> list:
        made = [config.changed(learner=config.learner | {"cost": b}) for b in betas[1:]]
        return [of(s.train(c, log, f"cost-inside-{b:g}", 0)) for b, c in zip(betas[1:], made, strict=True)]

    ways = {"after the softmax": s.piece("cost-after", after), "in the loss": s.piece("cost-inside", inside)}
    base, rows, points = np.array(ways["after the softmax"][0]["slowdown"]), [], {}
    for label, every in ways.items():
        for beta, x in zip(betas[-len(every) :], every, strict=True):
            mean, change = float(np.mean(x["slowdown"])), compared(base, np.array(x["slowdown"])).text() if beta else ""
            rows.append(
                [label, f"{beta:g}", f"{mean:.2f}", change, f"{x['cost_position']:.3f}", f"{x['cost_wait'] / 3600:.2f}"]
            )
            points.setdefault(label, []).append((x["cost_position"], mean))

    def draw(fig) -> None:
        axes = fig.subplots()
        for label, xy in points.items():
            axes.plot(*zip(*xy, strict=True), "o-", label=label)
        axes.set(xlabel="mean place of cost in the order of starts (right: dear jobs start later)", ylabel="bounded slowdown")
        axes.legend()

    columns = ["cost", "beta", "bounded slowdown", "change", "cost position", "wait weighted by cost, h"]
    shown = figure(s, "cost", draw, label="slowdown against cost position")
    return Section("Cost", COSTS.format(windows=len(pieces)), [Table(columns, rows)], [shown])


def _store(s: Study, logs: Path, preset: str) -> Section:
    size, most, choices = (2_000, 20_000, 200_000) if preset != "smoke" else (400, 1_200, 500)
    rows = []
    for name in LOGS if preset != "smoke" else LOGS[:1]:
        log = first(read_log(logs, name), most)

        def online(log: Workload = log, name: str = name) -> list:
            (s.out / "models").mkdir(exist_ok=True)
            model = Store(s.out / "models" / name).for_log(log, configure(log, preset).changed(choices=choices), size)
            model.learn(log, size)
            return [x.model_dump() for x in model.about.windows]

        shown = s.piece(f"store-{name}", online)[1:]  # in the first window nothing is known
        ours, rule, best, net = (np.array([x[k] for x in shown]) for k in ("score", "rule_score", "best_score", "net"))
        by, back = sum(x["served"].startswith("G") for x in shown), sum(x["rolled_back"] for x in shown)
        row = [name, f"{len(shown)}", f"{by}", f"{back}", f"{np.exp(np.log(ours).mean()):.2f}"]
        rows.append(row + [compared(x, ours, 1).text() for x in (rule, best, net)])
    columns = ["log", "windows", "by a generation", "rollbacks", "score", "against the rule", "in hindsight", "the net alone"]
    return Section("The model store, window by window", STORE.format(size=size), [Table(columns, rows)])


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json.gz"))


def _workflows(s: Study, folder: Path) -> Section:
    def alone(file: Path) -> dict:
        f = open_workflow(file)
        w = stream([f], cluster=64)
        spans = {n: makespan(simulate(w, n)) for n in ("rank", "level", "sjf", "fcfs", "flow-work")}
        chosen = argbest(w)
        spans |= {"argbest": makespan(simulate(w, chosen)), "mars": makespan(simulate(w, layer(w)))}
        return {"name": f.name, "tasks": len(f), "bound": max(f.critical_path, f.work / 64), "by": chosen, "spans": spans}

    results = s.piece("workflows", lambda: [alone(file) for file in _files(folder)])
    names, rows = list(results[0]["spans"]), []
    times = np.array([[x["spans"][n] / x["bound"] for n in names] for x in results])
    for x, over in zip(results, times, strict=True):
        rows.append([x["name"], f"{x['tasks']:,}", f"{x['bound']:.0f}", *[f"{t:.3f}" for t in over], x["by"]])
    rows.append(["geometric mean", "", "", *[f"{t:.3f}" for t in np.exp(np.log(times).mean(axis=0))], ""])
    return Section("Real workflows", ALONE, [Table(["workflow", "tasks", "bound, s", *names, "argbest takes"], rows)])


def _algorithm3(s: Study, folder: Path, preset: str) -> Section:
    streams, count = (6, 60) if preset != "smoke" else (1, 8)

    def every() -> list:
        flows, results = [open_workflow(f) for f in _files(folder)], []
        for k in range(streams):
            w = arrivals(flows, count, 64, 0.9, [3, k])
            plans = {"Algorithm 3": layer(w), "no merging": layer(w, together=1), "parts of 300": layer(w, most=300)}
            plans |= {"no model": layer(w, model=False), "argbest, in hindsight": argbest(w)}
            plans |= {n: n for n in (*RULES[:3], "rank", "sjf+easy", "unicef+easy", "fcfs+easy")}
            records = {n: simulate(w, p) for n, p in plans.items()}
            measured = {n: [float(workflows(r)["slowdown"].mean()), makespan(r)] for n, r in records.items()}
            results.append({"merged": sum(len(p.flows) > 1 for p in plans["Algorithm 3"].plans), "told": measured})
        return results

    all_results = s.piece("algorithm3", every)
    names = list(all_results[0]["told"])
    slow, spans = ({n: np.array([x["told"][n][i] for x in all_results]) for n in names} for i in (0, 1))
    rows = []
    for n in names:
        change = compared(slow["Algorithm 3"], slow[n], 1).text() if n != "Algorithm 3" else ""
        mean, span = np.exp(np.log(slow[n]).mean()), np.mean(spans[n] / spans["rank"]) - 1
        rows.append([n, f"{mean:.3g}", change, f"{span:+.1%}"])
    text = STREAMS.format(streams=streams, count=count, merged=np.mean([x["merged"] for x in all_results]))
    columns = ["scheduler", "mean workflow slowdown", "against Algorithm 3", "makespan against rank's"]
    return Section("Algorithm 3 on streams of workflows", text, [Table(columns, rows)])
