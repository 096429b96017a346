"""MARS's layers measured: costs, the model store at work, real workflows, Algorithm 3 on streams of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobwise.compare.intervals import compared
from jobwise.compare.windows import slowdowns
from jobwise.errors import InputError
from jobwise.learn.ground import OF_FLOWS
from jobwise.learn.run_folder import parts, windows
from jobwise.metrics import makespan, workflows
from jobwise.policies.neural import NeuralPolicy
from jobwise.report.sections import Section
from jobwise.simulate import simulate, simulate_many
from jobwise.systems import rla3c
from jobwise.systems.layer import layer
from jobwise.systems.mars import RULES, argbest, costly, tuned
from jobwise.systems.store import Store
from jobwise.workload import Workload
from jobwise.workloads.source import open_workflow
from jobwise.workloads.streams import arrivals, stream
from jobwise.workloads.transform import first
from jobwise.worlds.window.mars import costs
from jobwise_experiments.study import Study

CORES = 64
BETAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
LOGS = ("SDSC-SP2", "SDSC-BLUE", "HPC2N", "ALCF-Theta")
STREAMED = (*RULES[:3], "rank", "sjf+easy", "unicef+easy", "fcfs+easy")


def layers(s: Study) -> list[Section]:
    """Costs, the model store, workflows; these lie in the folder `workflows` beside that of the logs."""
    files = sorted((s.logs.parent / "workflows").glob("*.json.gz"))
    return [_costs(s), _store(s), *([_alone(s, files), _algorithm3(s, files)] if files else [])]


def streams(s: Study) -> Section:
    """The actor-critic network on streams of workflows, against rules that see whole workflows, and a reserve. Raises
    InputError where the folder `workflows` beside the logs has none."""
    files = sorted((s.logs.parent / "workflows").glob("*.json.gz")) if s.logs else []
    if not files:
        raise InputError(f"{s.logs}: there is no folder `workflows` beside it with instances of WfFormat")
    flows = [open_workflow(f) for f in files]
    log, (count, size) = stream(flows, cluster=CORES), s.pick((2, 6), (12, 60), (12, 60))
    config = rla3c.ours(log, s.preset).changed(**s.pick({"choices": 2_000, "warm": 4}, {}, {}))
    tests = [arrivals(flows, size, CORES, 0.9, [3, k]) for k in range(count)]

    def measured(policy) -> list[list[float]]:
        return [[float(workflows(r)["slowdown"].mean()), makespan(r)] for r in simulate_many(tests, policy)]

    def learnt(k: int) -> dict:
        policy = s.train(config, log, f"streams{k}", k)
        about = {key: policy.about.get(key) for key in ("seconds", "serves", "choices")}
        return {"results": measured(policy)} | about

    def rules() -> dict:
        pasts = [arrivals(flows, size, CORES, 0.9, [4, k]) for k in range(max(count // 3, 1))]
        return {"reserve": (best := tuned(pasts)), "results": {n: measured(n) for n in dict.fromkeys((*OF_FLOWS, best))}}

    base, nets = s.piece("streams-rules", rules), [s.piece(f"streams-{k}", learnt, k) for k in range(s.seeds)]
    every = {n: np.array([x]) for n, x in base["results"].items()} | {"A3C": np.array([x["results"] for x in nets])}
    slow, spans = ({n: x[:, :, i] for n, x in every.items()} for i in (0, 1))  # [S, K]
    best = base["reserve"]
    rows = []
    for n in sorted(slow, key=lambda n: float(np.log(slow[n]).mean())):
        against = [
            "" if n == other else compared(slow[other].mean(axis=0), slow[n].mean(axis=0), 1) for other in (OF_FLOWS[0], best)
        ]
        rows.append([n, np.exp(np.log(slow[n]).mean()), *against, float(np.mean(spans[n] / spans["rank"]) - 1)])
    served = sum(x["serves"] == "model" for x in nets)
    values = {"count": count, "size": size, "cores": CORES, "reserve": best, "served": served, "choices": config.choices}
    return s.section("The actor-critic network on streams of workflows", rows, files=len(files), **values)


def _costs(s: Study) -> Section:
    log = first(s.log("SDSC-SP2"), s.pick(1_000, 9_000, 9_000))
    config = rla3c.ours(log, s.preset).changed(encoding={"cost": "drawn"})
    config = config.changed(choices=500, validations=1, warm=4) if s.smoke else config
    pieces, betas = windows(parts(log)[2], 256, 20), s.pick(BETAS[::3], BETAS, BETAS)

    def of(policy: NeuralPolicy) -> dict:
        encoder, records = policy.bound(log.cluster), simulate_many(pieces, policy)
        shares = [costly(r, costs(r.workload.jobs, encoder)) for r in records]
        return {"slowdown": slowdowns(records).tolist()} | {k: float(np.mean([x[k] for x in shares])) for k in shares[0]}

    def after() -> list:
        policy = s.train(config, log, "cost-after", 0)
        return [of(policy.with_options({"cost": b})) for b in betas]

    def inside() -> list:
        configs = {b: config.changed(learner=config.learner | {"cost": b}) for b in betas[1:]}
        return [of(s.train(c, log, f"cost-inside-{b:g}", 0)) for b, c in configs.items()]

    ways = {"after the softmax": s.piece("cost-after", after), "in the loss": s.piece("cost-inside", inside)}
    base, rows, points = np.array(ways["after the softmax"][0]["slowdown"]), [], {}
    for label, every in ways.items():
        slow = [np.array(x["slowdown"]) for x in every]
        for beta, x, y in zip(betas[-len(every) :], every, slow, strict=True):
            change = compared(base, y) if beta else ""
            rows.append([label, f"{beta:g}", y.mean(), change, x["cost_position"], x["cost_wait"] / 3600])
        points[label] = [x["cost_position"] for x in every], [y.mean() for y in slow]
    place = "mean place of cost in the order of starts (right: dear jobs start later)"
    return s.section("Cost", rows, figures=[s.lines("cost", points, place, "bounded slowdown")], windows=len(pieces))


def _store(s: Study) -> Section:
    rows, (size, most, choices) = [], s.pick((400, 1_200, 500), *[(2_000, 20_000, 200_000)] * 2)

    def online(log: Workload, name: str) -> list:
        (s.out / "models").mkdir(exist_ok=True)
        model = Store(s.out / "models" / name).for_log(log, rla3c.ours(log, s.preset).changed(choices=choices), size)
        model.learn(log, size)
        return [x.model_dump() for x in model.about.windows]

    for name in s.pick(LOGS[:1], LOGS, LOGS):
        shown = s.piece(f"store-{name}", online, first(s.log(name), most), name)[1:]  # in the first window nothing is known
        ours, *others = (np.array([x[k] for x in shown]) for k in ("score", "rule_score", "best_score", "net"))
        served, back = sum(x["served"].startswith("G") for x in shown), sum(x["rolled_back"] for x in shown)
        rows.append([name, len(shown), served, back, np.exp(np.log(ours).mean()), *(compared(x, ours, 1) for x in others)])
    return s.section("The model store, window by window", rows, size=size)


def _alone(s: Study, files: list[Path]) -> Section:
    def alone(file: Path) -> dict:
        f = open_workflow(file)
        w = stream([f], cluster=64)
        chosen = argbest(w)
        policies = {n: n for n in ("rank", "level", "sjf", "fcfs", "flow-work")} | {"argbest": chosen, "mars": layer(w)}
        spans = {n: makespan(simulate(w, p)) for n, p in policies.items()}
        return {"name": f.name, "tasks": len(f), "bound": max(f.critical_path, f.work / 64), "by": chosen, "spans": spans}

    results = s.piece("workflows", lambda: [alone(file) for file in files])
    times = np.array([[span / x["bound"] for span in x["spans"].values()] for x in results])
    rows = [[x["name"], x["tasks"], x["bound"], *over, x["by"]] for x, over in zip(results, times, strict=True)]
    rows.append(["geometric mean", "", "", *np.exp(np.log(times).mean(axis=0)), ""])
    return s.section("Real workflows", rows, names=tuple(results[0]["spans"]))


def _algorithm3(s: Study, files: list[Path]) -> Section:
    streams, count, ours = *s.pick((1, 8), (6, 60), (6, 60)), "Algorithm 3"

    def one(flows: list, k: int) -> dict:
        w = arrivals(flows, count, 64, 0.9, [3, k])
        plans = {ours: layer(w), "no merging": layer(w, together=1), "parts of 300": layer(w, most=300)}
        plans |= {"no model": layer(w, model=False), "argbest, in hindsight": argbest(w)} | {n: n for n in STREAMED}
        records = {n: simulate(w, p) for n, p in plans.items()}
        measured = {n: [float(workflows(r)["slowdown"].mean()), makespan(r)] for n, r in records.items()}
        return {"merged": sum(len(p.flows) > 1 for p in plans[ours].plans), "told": measured}

    def every() -> list:
        flows = [open_workflow(f) for f in files]
        return [one(flows, k) for k in range(streams)]

    results = s.piece("algorithm3", every)
    slow, spans = ({n: np.array([x["told"][n][i] for x in results]) for n in results[0]["told"]} for i in (0, 1))
    rows = []
    for n, x in slow.items():
        against = "" if n == ours else compared(slow[ours], x, 1)
        rows.append([n, np.exp(np.log(x).mean()), against, np.mean(spans[n] / spans["rank"]) - 1])
    values = {"streams": streams, "count": count, "merged": np.mean([x["merged"] for x in results])}
    return s.section("Algorithm 3 on streams of workflows", rows, **values)
