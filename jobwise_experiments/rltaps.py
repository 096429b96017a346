"""RL-TAPS's experiments (CASCON 2020), and what they leave out: strong rules, slots, restart costs, ablations, larger clusters.

Unseen sequences test; everything is paired over sequences, changes are of the geometric mean. The paper's text has no numbers:
RL-TAPS is "clearly better" than Random, SJF and Tetris in mean reward and mean slowdown, in both regimes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from jobwise.compare.intervals import over_seeds
from jobwise.learn.gpus_config import GpusConfig
from jobwise.learn.judged import assigned, change, text
from jobwise.policies.names import load, resolve
from jobwise.report.sections import Section, Table
from jobwise.sim.topology import gpu_racks, reduction
from jobwise.systems import rltaps as system
from jobwise.workload import Workload
from jobwise.workloads.dnn import rltaps
from jobwise.workloads.jobsets import TEST
from jobwise_experiments.jobsets import figure
from jobwise_experiments.rltaps_hysteresis import hysteresis
from jobwise_experiments.study import Study, anchors, prose

SIZES = {"smoke": (2, 60), "small": (60, 400), "paper": (200, 400)}  # preset: (unseen sequences, jobs of each)
WORK, COSTS = ("seed", "lab"), (0.0, 10.0, 30.0, 60.0)
PICKERS = ("gpus:random", "gpus:fifo", "gpus:sjf", "gpus:tetris", "gpus:fifo+pack", "gpus:sjf+pack")
PAPERS = ("gpus:random", "gpus:sjf", "gpus:tetris")
DP = ("gpus:slot", "gpus:speed", "gpus:root", "gpus:index", "gpus:both", "gpus:srpt", "gpus:las")
ELASTIC = ("gpus:one", "gpus:greedy", "gpus:fair", *DP)
PUBLISHED = anchors("rltaps")
ANCHORS = {r: (x.get("specification"), x.get("prototype")) for r, x in PUBLISHED["rules"].items()}
AT_COST = {(r, work): x for work, rules in PUBLISHED["restarts"].items() for r, x in rules.items()}
COLOURS = {
    "gpus:random": "#6b7280",
    "gpus:sjf": "#1b6ca8",
    "gpus:tetris": "#2e8b57",
    "gpus:one": "#e09f3e",
    "gpus:greedy": "#7b5ea7",
}
SLOTS = {"10 slots, kept": "", "10 slots, left": "+leave", "32 slots, kept": "+slots32", "32 slots, left": "+leave+slots32"}
SLOTS |= {"400 slots": "+slots400"}
ABLATION = {  # cost 0, 10 slots kept
    "knapsack, full preemption": "gpus:{}",
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


def study(logs: Path | None, s: Study, preset: str, seeds: int) -> list[Section]:
    """Rules, slots, restart costs, the published agent, ours, what the result is made of, larger clusters."""
    sizes, rules = SIZES[preset], {}

    def anchors() -> Section:
        rules.update({w: {c: _rules(s, w, c, sizes) for c in COSTS} for w in WORK})
        return _anchors(rules, sizes)

    return s.parts(
        lambda: _curves(s),
        anchors,
        lambda: _slots(s, sizes),
        lambda: list(_published(s, preset, seeds)),
        lambda: _costs(s, rules, preset, seeds, sizes),
        lambda: hysteresis(s, rules, COSTS[2:], preset, sizes),
        lambda: _imitation(s, rules, preset, sizes),
        lambda: _ablation(s, sizes),
        lambda: _sizes(s, preset, seeds),
    )


def _sets(sizes: tuple[int, int], work: str, **more) -> list[Workload]:
    count, steps = sizes
    return [rltaps(steps, [TEST, i], **({"work": work} | more)) for i in range(count)]


def _rules(s: Study, work: str, cost: float, sizes: tuple[int, int]) -> dict[str, dict]:
    names = (*PICKERS, *ELASTIC) if cost == 0 else (*DP, "gpus:greedy", "gpus:fair")
    return s.piece(f"rules-{work}-{cost:g}s", lambda: {r: assigned(_sets(sizes, work), r, cost, 1000) for r in names})


def _mean(x: dict, key: str = "slowdown") -> float:
    return float(np.mean(x[key]))


def _curves(s: Study) -> Section:
    def draw(fig) -> None:
        for axes, curve_of in zip(fig.subplots(1, 2), ("published", "ring"), strict=True):
            n, ms = np.arange(1, 33), 1000 * reduction(curve_of, 32)[1:]
            axes.plot(n, ms[:, 1], label="100 MB")
            axes.plot(n, ms[:, 2], label="500 MB")
            axes.set(xlabel="GPUs in a rack", ylabel="ms", title=curve_of)
            axes.legend()

    def drawn(fig) -> None:
        w = rltaps(seed=[TEST, 0], work="lab")
        policy = resolve("gpus:slot")
        from jobwise.sim.state import allocate

        world = policy.attach(allocate([w], w.cluster, tick=policy.tick), w.cluster)
        choose = policy.chooser(world, w.cluster)
        world.begin()
        for _ in range(400):
            world.advance(choose(world))
            if len(np.unique(world.gpus.has[0])) > 4:  # several jobs side by side
                break
        axes = fig.subplots()
        axes.imshow(world.picture(0), interpolation="nearest")
        axes.axis("off")

    note = prose("rltaps", "curves")
    pictures = [figure(s, "reduction", draw), figure(s, "cluster", drawn, 9.0, 3.6)]
    return Section("The cluster and its links", note, figures=pictures)


def _anchors(rules: dict, sizes: tuple[int, int]) -> Section:
    rows, (count, steps) = [], sizes
    for name in (*PICKERS, *ELASTIC):
        row, (spec, study_of) = [name], ANCHORS.get(name, (None, None))
        for i, work in enumerate(WORK):
            x = _mean(rules[work][0.0][name])
            row += ["" if spec is None else f"{spec[i]:g}", *([f"{study_of[i]:g}"] if study_of else [""]), f"{x:.3g}"]
            row.append(f"{x / study_of[i] - 1:+.1%}" if study_of else "")
        z = rules["seed"][0.0][name]
        rows.append([*row, f"{steps - np.mean(z['lost']):.0f}", f"{_mean(z, 'speed'):.0f}"])
    columns = ["rule", *[f"{w}, {x}" for w in WORK for x in ("specification", "prototype", "here", "against it")]]
    note = prose("rltaps", "anchors", count=count, steps=steps)
    return Section("Rules, against reference values", note, [Table([*columns, "ended", "TFLOPS"], rows)])


def _slots(s: Study, sizes: tuple[int, int]) -> Section:
    names = {r: r for r in ("gpus:slot", "gpus:both", "gpus:one")} | {"gpus:both, no preemption": "gpus:both+none"}

    def measured(work: str) -> dict:
        sets, every = _sets(sizes, work), [(n, k) for n in names for k in SLOTS]
        return {f"{n}{k}": assigned(sets, names[n] + SLOTS[k], 0.0, 1000)["slowdown"] for n, k in every}

    rows = []
    for work in WORK:
        results = s.piece(f"slots-{work}", lambda w=work: measured(w))
        rows += [[work, n, *[f"{np.mean(results[f'{n}{k}']):.3g}" for k in SLOTS]] for n in names]
    note = prose("rltaps", "slots")
    return Section("Slots", note, [Table(["work", "rule", *SLOTS], rows)])


# ------------------------------------------------------------------ the published agent


def _published(s: Study, preset: str, seeds: int) -> list[Section]:
    count, rows, figures = {"smoke": 2, "small": 60, "paper": 60}[preset], [], []
    for regime in ("non-streaming", "streaming"):
        c = system.published(preset, streaming=regime == "streaming")
        sets, names = c.sets(TEST, count), (*PAPERS, *ELASTIC[:4])

        def by_rules(c=c, sets=sets, names=names) -> dict:
            return {r: assigned(sets, r, 0.0, c.limit) for r in names}

        base = s.piece(f"published-rules-{regime}", by_rules)
        ours = [_agent(s, c, f"{regime}{k}", k, sets) for k in range(seeds)]
        rows += _against(regime, ours, base)

        def draw(fig, regime=regime, base=base, c=c) -> None:
            _learning(fig, s, regime, base, seeds, c)

        figures.append(figure(s, f"published-{regime}", draw))
    note = prose(
        "rltaps",
        "published",
        preset=preset,
        racks=len(c.racks),
        racks2=c.racks[0],
        steps=c.steps,
        limit=c.limit,
        jobsets=c.jobsets,
        runs=c.runs,
        iterations=c.iterations,
        drawn=c.drawn,
        count=count,
        seeds=seeds,
    )
    columns = ["regime", "policy", "mean slowdown", "agent against it", "reward, raw", "less pen1", "less both"]
    columns += ["difference, raw", "difference, both"]
    return [Section("RL-TAPS as published", note, [Table(columns, rows)], figures)]


def _agent(s: Study, c: GpusConfig, name: str, seed: int, sets: list[Workload]) -> dict:
    def learnt() -> dict:
        policy = s.train(c, None, name, seed)
        return assigned(sets, policy, c.restart_cost_s, c.limit) | {"seconds": policy.about["seconds"]}

    return s.piece(f"agent-{name}", learnt)


def _against(regime: str, ours: list[dict], base: dict[str, dict]) -> list[list[str]]:
    slow, reward = np.array([x["slowdown"] for x in ours]), np.array([x["rewards"] for x in ours])  # [S, K], [S, 3, K]
    rows = [[regime, f"agent ({np.mean([x['seconds'] for x in ours]) / 60:.0f} min)", f"{slow.mean():.2f}", ""]]
    rows[0] += [*[f"{reward[:, i].mean():,.0f}" for i in range(3)], "", ""]
    for name, x in base.items():
        theirs, row = np.array(x["rewards"]), [regime, name, f"{_mean(x):.2f}", text(change(slow, x["slowdown"]))]
        for i in (0, 2):
            mean, low, high = over_seeds((reward[:, i] - theirs[i]).mean(axis=0))
            row.append(f"{mean:+,.0f} [{low:+,.0f}, {high:+,.0f}]")
        rows.append([*row[:4], *[f"{theirs[i].mean():,.0f}" for i in range(3)], *row[4:]])
    return rows


def _learning(fig, s: Study, regime: str, base: dict, seeds: int, c: GpusConfig) -> None:
    axes, epoch = fig.subplots(1, 2), c.limit * c.runs * c.jobsets
    for k in range(seeds):
        file = s.folder(f"{regime}{k}") / "metrics.jsonl"
        lines = [json.loads(x) for x in file.read_text().splitlines()] if file.is_file() else []
        validated, label = [x for x in lines if "validation" in x], k == 0
        for ax, train, unseen in ((axes[0], "reward", "validation_reward"), (axes[1], "slowdown", "validation")):
            x = [one["choices"] / epoch for one in lines]
            ax.plot(x, [one[train] for one in lines], lw=0.7, color="#eab0b7", label="agent, training" if label else None)
            x = [one["choices"] / epoch for one in validated]
            ax.plot(x, [one[unseen] for one in validated], lw=1, color="#d1495b", label="agent, unseen" if label else None)
    for name, colour in COLOURS.items():
        axes[0].axhline(np.mean(base[name]["rewards"][2]), ls="--", lw=1, color=colour, label=name)
        axes[0].axhline(np.mean(base[name]["rewards"][0]), ls=":", lw=1, color=colour)
        axes[1].axhline(_mean(base[name]), ls="--", lw=1, color=colour)
    axes[0].set(xlabel="epochs", ylabel="mean reward (dotted: raw)", title=regime)
    axes[1].set(xlabel="epochs", ylabel="mean slowdown")
    axes[0].legend(fontsize=6)


# ------------------------------------------------------------------ restart costs, and ours


def _ours(s: Study, work: str, preset: str, k: int) -> None:
    c = system.configure(None, preset).changed(work=work, costs=list(COSTS), threads=s.threads)
    s.piece(f"trained-{work}-{k}", lambda: {"seconds": s.train(c, None, f"knapsack-{work}{k}", k).about["seconds"]})


def _jobwise(s: Study, work: str, preset: str, k: int) -> None:
    c = system.per_job(preset).changed(work=work)
    s.piece(f"trained-network-{work}-{k}", lambda: {"seconds": s.train(c, None, f"network-{work}{k}", k).about["seconds"]})


def _costs(s: Study, rules: dict, preset: str, seeds: int, sizes: tuple[int, int]) -> Section:
    rows, prototype = [], []
    for work in WORK:
        for k in range(seeds):
            _ours(s, work, preset, k)
        _jobwise(s, work, preset, 0)
        for cost in COSTS:
            base = rules[work][cost]
            sets = _sets(sizes, work)

            def played(sets=sets, cost=cost, work=work) -> list[dict]:
                return [assigned(sets, load(s.folder(f"knapsack-{work}{k}")), cost, 1000) for k in range(seeds)]

            ours = s.piece(f"ours-{work}-{cost:g}s-{seeds}", played)

            def by_network(sets=sets, cost=cost, work=work) -> dict:
                return assigned(sets, load(s.folder(f"network-{work}0")), cost, 1000)

            network = s.piece(f"network-{work}-{cost:g}s", by_network)
            slow = np.array([x["slowdown"] for x in ours])
            best = min(DP, key=lambda r: _mean(base[r]))
            longest = np.array([x["longest"] for x in ours]).mean() / np.mean(base[best]["longest"])
            known = [f"{_mean(base[r]):.3g}" for r in (*DP, "gpus:greedy", "gpus:fair")]
            cells = [f"{slow.mean():.3g}", text(change(slow, base[best]["slowdown"])), f"{longest:.2f}"]
            cells += [f"{_mean(network):.3g}", text(change(network["slowdown"], base[best]["slowdown"]))]
            rows.append([work, f"{cost:g}", *known, best.removeprefix("gpus:"), *cells])
    for (r, w), values in AT_COST.items():
        pairs = zip(values, COSTS[1:], strict=True)
        prototype.append([r, w, *[f"{p:g} / {_mean(rules[w][c][r]):.3g}" for p, c in pairs]])
    note = prose("rltaps", "costs", sizes=sizes[0], seeds=seeds)
    columns = ["work", "restart s", *[r.removeprefix("gpus:") for r in (*DP, "gpus:greedy", "gpus:fair")], "best", "learned"]
    columns += ["learned against best", "longest", "network", "network against best"]
    tables = [Table(columns, rows), Table(["rule", "work", "10 s: prototype / here", "30 s", "60 s"], prototype)]
    return Section("Restart costs, and what can be learnt", note, tables)


def _imitation(s: Study, rules: dict, preset: str, sizes: tuple[int, int]) -> Section:
    base, sets, rows = rules["lab"][30.0], _sets(sizes, "lab"), []
    best = min(DP, key=lambda r: _mean(base[r]))
    c = system.per_job(preset).changed(work="lab")
    variants = {"imitation alone": {"choices": c.simulations * 32}, "PPO alone": {"warm": 0}, "imitation, then PPO": None}
    for name, changes in variants.items():
        folder = "network-lab0" if changes is None else f"network-{name.replace(' ', '-')}"
        if changes is not None:
            changed = c.changed(**changes)
            s.piece(f"trained-{folder}", lambda c=changed, f=folder: {"seconds": s.train(c, None, f, 0).about["seconds"]})

        def measured(folder=folder) -> dict:
            return assigned(sets, load(s.folder(folder)), 30.0, 1000)

        x = s.piece(f"played-{folder}", measured)
        against = [text(change(x["slowdown"], base[r]["slowdown"])) for r in ("gpus:both", best)]
        rows.append([name, f"{_mean(x):.3g}", *against])
    note = prose("rltaps", "imitation", sizes=sizes[0])
    columns = ["training", "mean slowdown", "against the rule it imitates, both", f"against the best rule, {best[5:]}"]
    return Section("Imitation's share", note, [Table(columns, rows)])


def _ablation(s: Study, sizes: tuple[int, int]) -> Section:
    rows, best = [], {"seed": "slot", "lab": "both"}
    for work in WORK:
        sets = _sets(sizes, work)
        names = {k: v.format(best[work]) for k, v in ABLATION.items()}

        def measured(sets=sets, names=names) -> dict:
            return {k: assigned(sets, v, 0.0, 1000) for k, v in names.items()}

        results = s.piece(f"ablation-{work}", measured)
        machine = gpu_racks([2] * 4, work=work, per_rack=0.0, bandwidth=dict.fromkeys(("gpu", "cpu", "rack", "director"), 1e6))
        blind = _sets(sizes, work, machine=machine)
        free = s.piece(f"free-{work}", lambda blind=blind, work=work: assigned(blind, f"gpus:{best[work]}", 0.0, 1000))
        base = results["knapsack, full preemption"]["slowdown"]
        for k, x in results.items():
            rows.append(
                [work, k, names[k], f"{_mean(x):.3g}", "" if k.startswith("knapsack") else text(change(x["slowdown"], base))]
            )
        rows.append(
            [work, "racks cost nothing", f"gpus:{best[work]}", f"{_mean(free):.3g}", text(change(free["slowdown"], base))]
        )
    note = prose("rltaps", "ablation")
    return Section("Ablations", note, [Table(["work", "variant", "policy", "mean slowdown", "against the first"], rows)])


def _sizes(s: Study, preset: str, seeds: int) -> Section:
    sizes = {"smoke": (8,), "small": (8, 32, 128), "paper": (8, 32, 128)}[preset]
    rows, count, length = [], {"smoke": 2, "small": 8, "paper": 20}[preset], 60 if preset == "smoke" else 200
    for racks in sizes:
        M = racks * 8
        for work in WORK:
            machine, slots = gpu_racks([2] * racks, work=work), f"+slots{10 * racks // 4}"
            sets = [rltaps(length, [TEST, i], machine=machine, rate=M / 32) for i in range(count)]

            def measured(sets=sets, work=work, slots=slots, racks=racks) -> dict:
                names = ("gpus:random", "gpus:sjf", "gpus:tetris", "gpus:greedy", "gpus:slot", "gpus:both")
                results = {n: assigned(sets, n + slots, 30.0, 600) for n in names}
                for k in range(seeds):
                    policy = load(s.folder(f"knapsack-{work}{k}"))
                    results[f"learned{k}"] = assigned(sets, policy.with_slots(10 * racks // 4), 30.0, 600)
                return results

            by_rule = s.piece(f"size-{M}-{work}-{seeds}", measured)
            slow = np.array([by_rule[f"learned{k}"]["slowdown"] for k in range(seeds)])
            best = min(("gpus:greedy", "gpus:slot", "gpus:both"), key=lambda r: _mean(by_rule[r]))
            fixed = min(PAPERS, key=lambda r: _mean(by_rule[r]))
            rows.append(
                [
                    f"{M}",
                    work,
                    f"{_mean(by_rule[fixed]):.3g} ({fixed[5:]})",
                    f"{_mean(by_rule[best]):.3g} ({best[5:]})",
                    f"{slow.mean():.3g}",
                ]
                + [text(change(slow, by_rule[fixed]["slowdown"])), text(change(slow, by_rule[best]["slowdown"]))]
            )
    note = prose("rltaps", "sizes", length=length, count=count)
    columns = ["GPUs", "work", "best fixed request", "best rule", "learned at 32", "against fixed", "against the best rule"]
    return Section("Larger clusters", note, [Table(columns, rows)])
