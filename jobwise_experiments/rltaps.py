"""RL-TAPS's experiments (CASCON 2020), and what they leave out: strong rules, slots, restart costs, ablations, larger clusters.

Unseen sequences test; everything is paired over sequences, changes are of the geometric mean. The paper's text has no numbers:
RL-TAPS is "clearly better" than Random, SJF and Tetris in mean reward and mean slowdown, in both regimes.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from jobwise.compare.intervals import over_seeds
from jobwise.learn.gpus_config import GpusConfig
from jobwise.learn.judged import assigned
from jobwise.policies.names import load
from jobwise.report.sections import Section
from jobwise.sim.topology import gpu_racks
from jobwise.systems import rltaps as system
from jobwise.workload import Workload
from jobwise.workloads.dnn import rltaps
from jobwise.workloads.jobsets import TEST
from jobwise_experiments.rltaps_figures import assignment, learning, reductions
from jobwise_experiments.rltaps_hysteresis import hysteresis
from jobwise_experiments.study import Arms, Study, anchors

WORK, COSTS = ("seed", "lab"), (0.0, 10.0, 30.0, 60.0)
PICKERS = ("gpus:random", "gpus:fifo", "gpus:sjf", "gpus:tetris", "gpus:fifo+pack", "gpus:sjf+pack")
PAPERS = ("gpus:random", "gpus:sjf", "gpus:tetris")
DP = ("gpus:slot", "gpus:speed", "gpus:root", "gpus:index", "gpus:both", "gpus:srpt", "gpus:las")
ELASTIC = ("gpus:one", "gpus:greedy", "gpus:fair", *DP)
AT_COST = (*DP, "gpus:greedy", "gpus:fair")
PUBLISHED = anchors("rltaps")
SLOTS = {"10 slots, kept": "", "10 slots, left": "+leave", "32 slots, kept": "+slots32", "32 slots, left": "+leave+slots32"}
SLOTS |= {"400 slots": "+slots400"}
IN_SLOTS = {r: r for r in ("gpus:slot", "gpus:both", "gpus:one")} | {"gpus:both, no preemption": "gpus:both+none"}
WHOLE = "knapsack, full preemption"
ABLATION = {  # cost 0, 10 slots kept
    WHOLE: "gpus:{}",
    "the same, partial preemption": "gpus:{}+partial",
    "the same, no preemption": "gpus:{}+none",
    "no preemption, started jobs leave": "gpus:{}+none+leave",
    "contiguous GPUs instead of packed": "gpus:{}+left",
    "random GPUs": "gpus:{}+random",
    "fixed requests, preemptive": "gpus:{}+fixed",
    "fixed requests, no preemption": "gpus:{}+none+fixed",
    "one GPU each, full preemption": "gpus:one",
    "one GPU each, no preemption, started jobs leave": "gpus:one+none+leave",
}
BEST = {"seed": "slot", "lab": "both"}  # the rules that are taken apart
ON_SIZES = (*PAPERS, "gpus:greedy", "gpus:slot", "gpus:both")


def study(s: Study) -> list[Section]:
    """Rules, slots, restart costs, the published agent, ours, what the result is made of, larger clusters."""
    regimes = (partial(published, regime=r) for r in ("non-streaming", "streaming"))
    return s.parts(pictures, references, slots, *regimes, costs, prices, imitation, ablation, sizes)


def _size(s: Study) -> tuple[int, int]:
    """(unseen sequences, jobs of each)."""
    return s.pick((2, 60), (60, 400), (200, 400))


def _sets(s: Study, work: str, **more) -> list[Workload]:
    count, steps = _size(s)
    return [rltaps(steps, [TEST, i], **({"work": work} | more)) for i in range(count)]


def _play(sets: list[Workload], policies: dict, cost: float = 0.0, limit: int = 1000) -> dict:
    return {name: assigned(sets, p, cost, limit) for name, p in policies.items()}


def _rules(s: Study, work: str, cost: float) -> Arms:
    names = (*PICKERS, *ELASTIC) if cost == 0 else (*DP, "gpus:greedy", "gpus:fair")
    return Arms(s.piece(f"rules-{work}-{cost:g}s", lambda: _play(_sets(s, work), {n: n for n in names}, cost)))


def pictures(s: Study) -> Section:
    """The paper's figures 2 and 3."""
    return s.section("The cluster and its links", figures=[reductions(s), assignment(s)])


def references(s: Study) -> Section:
    """Rules beside reference values."""
    rules, (count, steps), rows = {w: _rules(s, w, 0.0) for w in WORK}, _size(s), []
    for name in (*PICKERS, *ELASTIC):
        row, known = [name], PUBLISHED["rules"].get(name, {})
        for i, work in enumerate(WORK):
            x = rules[work].mean(name)
            spec, prototype = (known.get(k, ("", ""))[i] for k in ("specification", "prototype"))
            row += [spec, prototype, x, x / prototype - 1 if prototype else ""]
        rows.append([*row, steps - rules["seed"].mean(name, "lost"), rules["seed"].mean(name, "speed")])
    return s.section("Rules, against reference values", rows, count=count, steps=steps)


def slots(s: Study) -> Section:
    """The number of slots, and whether started jobs leave them."""

    def measured(work: str) -> dict:
        sets = _sets(s, work)
        return {f"{n}{k}": assigned(sets, r + x, 0.0, 1000)["slowdown"] for n, r in IN_SLOTS.items() for k, x in SLOTS.items()}

    results = {w: s.piece(f"slots-{w}", measured, w) for w in WORK}
    rows = [[w, n, *(np.mean(x[f"{n}{k}"]) for k in SLOTS)] for w, x in results.items() for n in IN_SLOTS]
    return s.section("Slots", rows, slots=tuple(SLOTS))


# ------------------------------------------------------------------ the published agent


def published(s: Study, regime: str) -> Section:
    """The agent as published, in one of its regimes."""
    count = s.pick(2, 60, 60)
    c = system.published(s.preset, streaming=regime == "streaming")
    sets = c.sets(TEST, count)
    rules = {r: r for r in (*PAPERS, *ELASTIC[:4])}
    base = s.piece(f"published-rules-{regime}", _play, sets, rules, 0.0, c.limit)
    agents = [s.piece(f"agent-{regime}{k}", _agent, s, c, f"{regime}{k}", k, sets) for k in range(s.seeds)]
    rows = _against(regime, Arms({"agent": agents} | base))
    figure = learning(s, regime, Arms(base), c.limit * c.runs * c.jobsets)
    values = {"racks": len(c.racks), "machines": c.racks[0], "count": count, "regime": regime}
    return s.section("RL-TAPS as published: {regime}", rows, figures=[figure], c=c, **values)


def _agent(s: Study, c: GpusConfig, name: str, seed: int, sets: list[Workload]) -> dict:
    policy = s.train(c, None, name, seed)
    return assigned(sets, policy, c.restart_cost_s, c.limit) | {"seconds": policy.about["seconds"]}


def _against(regime: str, x: Arms) -> list[list]:
    reward, rows = x.of("agent", "rewards"), []  # [S, 3, K]
    for name in x:
        theirs, differences = x.of(name, "rewards"), []
        for i in (0, 2) if name != "agent" else ():
            mean, low, high = over_seeds((reward[:, i] - theirs[0, i]).mean(axis=0))
            differences.append(f"{mean:+,.0f} [{low:+,.0f}, {high:+,.0f}]")
        label = f"agent ({np.mean([y['seconds'] for y in x['agent']]) / 60:.0f} min)" if name == "agent" else name
        against = x.change("agent", name)
        rows.append(
            [regime, label, x.mean(name), against, *(theirs[:, i].mean() for i in range(3)), *(differences or ["", ""])]
        )
    return rows


# ------------------------------------------------------------------ restart costs, and ours


def _trained(s: Study, c: GpusConfig, name: str, piece: str, k: int = 0) -> None:
    s.piece(piece, lambda: {"seconds": s.train(c, None, name, k).about["seconds"]})


def costs(s: Study) -> Section:
    """Rules, learned weights and a network, by what a restart costs."""
    rows, knapsack, network = [], system.ours(None, s.preset).changed(costs=list(COSTS)), system.per_job(s.preset)
    for work in WORK:
        for k in range(s.seeds):
            _trained(s, knapsack.changed(work=work, threads=s.threads), f"knapsack-{work}{k}", f"trained-{work}-{k}", k)
        _trained(s, network.changed(work=work), f"network-{work}0", f"trained-network-{work}-0")
        sets = _sets(s, work)
        for cost in COSTS:

            def ours(sets: list = sets, cost: float = cost, work: str = work) -> list[dict]:
                return [assigned(sets, load(s.folder(f"knapsack-{work}{k}")), cost, 1000) for k in range(s.seeds)]

            def by_network(sets: list = sets, cost: float = cost, work: str = work) -> dict:
                return assigned(sets, load(s.folder(f"network-{work}0")), cost, 1000)

            agents = {"ours": s.piece(f"ours-{work}-{cost:g}s-{s.seeds}", ours)}
            agents["network"] = s.piece(f"network-{work}-{cost:g}s", by_network)
            x = Arms(_rules(s, work, cost) | agents)
            best = x.best(DP)
            cells = [
                x.mean("ours"),
                x.change("ours", best),
                x.ratio("ours", best),
                x.mean("network"),
                x.change("network", best),
            ]
            rows.append([work, f"{cost:g}", *map(x.mean, AT_COST), best.removeprefix("gpus:"), *cells])
    prototype = [
        [r, w, *(f"{p:g} / {_rules(s, w, c).mean(r):.3g}" for p, c in zip(values, COSTS[1:], strict=True))]
        for w, rules in PUBLISHED["restarts"].items()
        for r, values in rules.items()
    ]
    rules = tuple(r.removeprefix("gpus:") for r in AT_COST)
    return s.section("Restart costs, and what can be learnt", rows, prototype, sizes=_size(s)[0], rules=rules)


def prices(s: Study) -> Section:
    """The rule `both` with two numbers tuned."""
    return hysteresis(s, {(w, c): _rules(s, w, c) for w in WORK for c in COSTS[2:]}, _size(s))


def imitation(s: Study) -> Section:
    """The network over job tokens: what of it is the rule that it imitates."""
    base, sets, c, rows = _rules(s, "lab", 30.0), _sets(s, "lab"), system.per_job(s.preset).changed(work="lab"), []
    best, alone = base.best(DP), {"choices": c.simulations * 32}
    for name, changes in {"imitation alone": alone, "PPO alone": {"warm": 0}, "imitation, then PPO": {}}.items():
        folder = f"network-{name.replace(' ', '-')}" if changes else "network-lab0"
        if changes:
            _trained(s, c.changed(**changes), folder, f"trained-{folder}")
        played = s.piece(f"played-{folder}", lambda folder=folder: assigned(sets, load(s.folder(folder)), 30.0, 1000))
        x = Arms(base | {name: played})
        rows.append([name, x.mean(name), x.change(name, "gpus:both"), x.change(name, best)])
    return s.section("Imitation's share", rows, sizes=_size(s)[0], best=best[5:])


def ablation(s: Study) -> Section:
    """The best rules, piece by piece, and racks that cost nothing."""
    rows = []
    for work, best in BEST.items():
        names = {k: v.format(best) for k, v in ABLATION.items()}
        results = s.piece(f"ablation-{work}", lambda work=work, names=names: _play(_sets(s, work), names))
        machine = gpu_racks([2] * 4, work=work, per_rack=0.0, bandwidth=dict.fromkeys(("gpu", "cpu", "rack", "director"), 1e6))
        blind = _sets(s, work, machine=machine)
        free = s.piece(f"free-{work}", assigned, blind, f"gpus:{best}", 0.0, 1000)
        x = Arms(results | {"racks cost nothing": free})
        rows += [[work, k, names.get(k, f"gpus:{best}"), x.mean(k), x.change(k, WHOLE)] for k in x]
    return s.section("Ablations", rows)


def sizes(s: Study) -> Section:
    """Weights learnt on 32 GPUs, on more."""
    rows, count, length = [], s.pick(2, 8, 20), s.pick(60, 200, 200)
    for racks in s.pick((8,), (8, 32, 128), (8, 32, 128)):
        M, slots = racks * 8, 10 * racks // 4
        for work in WORK:
            machine = gpu_racks([2] * racks, work=work)
            sets = [rltaps(length, [TEST, i], machine=machine, rate=M / 32) for i in range(count)]

            def measured(sets: list = sets, work: str = work, slots: int = slots) -> dict:
                policies = {n: f"{n}+slots{slots}" for n in ON_SIZES}
                learnt = {f"learned{k}": load(s.folder(f"knapsack-{work}{k}")).with_slots(slots) for k in range(s.seeds)}
                return _play(sets, policies | learnt, 30.0, 600)

            results = s.piece(f"size-{M}-{work}-{s.seeds}", measured)
            x = Arms(results | {"learned": [results[f"learned{k}"] for k in range(s.seeds)]})
            bases = x.best(PAPERS), x.best(ON_SIZES[3:])
            best = [f"{x.mean(b):.3g} ({b[5:]})" for b in bases]
            rows.append([f"{M}", work, *best, x.mean("learned"), *(x.change("learned", b) for b in bases)])
    return s.section("Larger clusters", rows, length=length, count=count)
