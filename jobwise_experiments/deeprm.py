"""DeepRM's experiments (HotNets'16; the CuSH review's run of its code): rules, agents, the distribution of slowdowns, loads.

Jobsets are generated; 100 unseen ones test. Everything is paired over jobsets. The reference numbers of rules are those of a
throw-away re-implementation, mean slowdown of 20 sequences.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from jobwise.learn.judged import means
from jobwise.learn.slots_config import SlotsConfig
from jobwise.policies.names import load
from jobwise.report.sections import Section
from jobwise.systems import deeprm as system
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TEST, deeprm, load_of
from jobwise_experiments.study import Arms, Study, anchors, text_interval

REFERENCES = anchors("deeprm")["rules"]
RATES = (0.054, 0.163, 0.271, 0.379, 0.488, 0.596, 0.705, 0.813, 0.921, 0.976)  # 10 % to 180 % of the capacity
RULES = ("sjf", "tetris", "random", "saf", "fcfs", "hold")
COMPARED = ("sjf", "tetris", "random", "hold")
COLOURS = {"ours": "#d1495b", "plain": "#e09f3e", "sjf": "#1b6ca8", "tetris": "#2e8b57", "random": "#6b7280", "hold": "#7b5ea7"}
PAPER = {"PG": "#d1495b"} | {n: COLOURS[n] for n in ("sjf", "tetris", "random")}
ITERATIONS = {"smoke": 1, "small": 8, "paper": 1000}  # of the variants with REINFORCE
CHOICES = {"smoke": 1_500, "small": 650_000, "paper": 6_000_000}  # of the others
SLIDES = ("sjf", "tetris", "random")  # beside PG
RATE = 0.3  # of the public code
REGIMES = {"own": {}, "slides": {"steps": 200, "jobsets": 10}, "high": {"rate": 0.7}}  # what differs in the training
LIKE = {
    "own": "as its README has it",
    "slides": "as the agent of its figure by name: 200 rows, 10 jobsets, 1,450 iterations",
    "high": "at the paper's high load",
}
QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99)


def study(s: Study) -> list[Section]:
    """Anchors, the published agent, agents, distributions, loads, learning curves."""
    regimes = (partial(published, regime=r) for r in REGIMES)
    return s.parts(references, *regimes, agents, distribution, loads, curves)


def _world(s: Study) -> dict:
    return system.published(s.preset).changed(**system.STUDIED).world


def _unseen(count: int, rate: float = 0.7, steps: int = 50) -> list[Workload]:
    return [deeprm(steps, rate, [TEST, i]) for i in range(count)]


def config(s: Study, name: str) -> SlotsConfig:
    """The configuration of a variant for the study: 50 rows, rate 0.7 (129 % of the capacity)."""
    iterations, validations = ITERATIONS[s.preset], 2 if s.smoke else 10
    c = system.published(s.preset).changed(**system.STUDIED | system.VARIANTS[name])
    if s.smoke:
        c = c.changed(jobsets=5, validation_jobsets=3, simulations=16, warm=min(c.warm, 1))
    if c.learner["learner"] == "ppo":
        return c.changed(iterations=None, choices=CHOICES[s.preset], validations=validations)
    return c.changed(iterations=iterations, choices=None, validations=min(iterations, validations))


def references(s: Study) -> Section:
    """Rules beside reference values."""
    sets, rows = partial(_unseen, s.pick(6, 200, 400)), []

    def measured() -> dict:
        mean = {}
        for x in REFERENCES:
            unseen = sets(x["rate"], x["rows"])
            mean[f"{x['rate']} {x['rows']}"] = {
                r: float(np.mean(means(unseen, r, _world(s))["slowdown"])) for r in x["slowdown"]
            }
        return mean

    results = s.piece("anchors", measured)
    for x in REFERENCES:
        for rule, value in x["slowdown"].items():
            here = results[f"{x['rate']} {x['rows']}"][rule]
            near = "yes" if abs(here / value - 1) <= 0.15 else "no"
            rows.append([f"{x['rate']}", f"{x['rows']}", rule, value, here, here / value - 1, near])
    return s.section("The rules, against reference values", rows, count=len(sets()))


def _training(s: Study, regime: str) -> SlotsConfig:
    c = system.published(s.preset).changed(**REGIMES[regime])
    if s.smoke:
        return c.changed(jobsets=5, validation_jobsets=3)
    return c.changed(iterations=1450) if regime == "slides" and s.preset == "paper" else c


def _own(s: Study, c: SlotsConfig) -> list[Workload]:
    """Unseen jobsets as those of a training."""
    return _unseen(s.pick(6, 100, 200), c.rate, c.steps)


def _slides(s: Study) -> list[Workload]:
    """Unseen jobsets as the slides': longer ones."""
    return _unseen(s.pick(2, 10, 10), RATE, 200)


def _published(s: Study, c: SlotsConfig, name: str, k: int) -> dict:
    """What the published agent does on unseen jobsets of its own load, and on the slides' longer ones."""
    policy = s.train(c, None, f"{name}{k}", k)
    about = {key: policy.about[key] for key in ("seconds", "choices", "validation")}
    slides = means(_slides(s), policy, {}, seed=k)["jobs"]
    return means(_own(s, c), policy, {}, seed=k) | about | {"slides": slides}


def published(s: Study, regime: str) -> Section:
    """The public code's own training in one of its regimes, and the slides' figure."""
    c, name = _training(s, regime), "published" if regime == "own" else f"published-{regime}"

    def rules() -> dict:
        both = {"": _own(s, c), "slides": _slides(s)}
        played = {r: {k: means(x, r, c.world) for k, x in both.items()} for r in SLIDES}
        return {r: x[""] | {"slides": x["slides"]["jobs"]} for r, x in played.items()}

    pg = [s.piece(f"{name}-{k}", _published, s, c, name, k) for k in range(s.seeds)]
    x, rows = Arms({"PG": pg} | s.piece(f"{name}-rules", rules)), []
    jobs = {key: {n: [y for run in x[n] for y in run[key]] for n in x} for key in ("jobs", "slides")}
    for n, runs in x.items():
        left = ["", ""] if n == "PG" else [_left(jobs[key]["PG"], jobs[key][n]) for key in jobs]
        medians = text_interval([float(np.median(run["jobs"])) for run in runs], 2)
        costs = [runs[0]["choices"], np.mean([y["seconds"] for y in runs]) / 60] if n == "PG" else ["", ""]
        rows.append([n, len(runs) if n == "PG" else "", x.mean(n), x.change(n, "sjf"), medians, *left, *costs])
    shown = {
        f"{c.steps} rows, load {load_of(c.rate):.0%}": jobs["jobs"],
        f"200 rows, load {load_of(RATE):.0%} (slides)": jobs["slides"],
    }
    figure = s.figure(name, partial(_distributions, shown, PAPER), label=f"distribution of slowdowns, as published, {regime}")
    more = {"count": len(x.of("PG")[0]), "load": f"{load_of(c.rate):.0%}", "like": LIKE[regime]}
    return s.section("DeepRM as published: {regime}", rows, figures=[figure], c=c, regime=regime, **more)


def _distributions(shown: dict[str, dict], colours: dict[str, str], fig) -> None:
    """Draw the shares of jobs below each slowdown, a plot each."""
    for axes, (title, data) in zip(fig.subplots(1, len(shown)), shown.items(), strict=True):
        for name, colour in colours.items():
            x = np.sort(np.asarray(data[name], float))
            axes.step(x, np.arange(1, len(x) + 1) / len(x), where="post", label=name, color=colour)
        axes.set(xscale="log", xlabel="slowdown", ylabel="share of jobs", title=title)
        axes.legend()


def _run(variant: str, seed: int, between: str = "") -> str:
    return variant.replace(", ", "-").replace(" ", "-") + between + str(seed)


def _runs(s: Study) -> dict[str, int]:
    """Variant -> seeds."""
    return {name: s.seeds if name == "ours" else 1 for name in system.VARIANTS}


def _learnt(s: Study, name: str, k: int) -> dict:
    policy = s.train(config(s, name), None, _run(name, k), k)
    about = {key: policy.about[key] for key in ("seconds", "choices", "validation")}
    return means(_unseen(s.pick(6, 100, 200)), policy, {}, seed=k) | about


def _arms(s: Study) -> Arms:
    """Rules and variants at the rate of the training."""
    rules = s.piece("rules", lambda: {r: means(_unseen(s.pick(6, 100, 200)), r, _world(s)) for r in RULES})
    learnt = {n: [s.piece(f"agent-{_run(n, k, '-')}", _learnt, s, n, k) for k in range(c)] for n, c in _runs(s).items()}
    return Arms(rules | learnt)


def agents(s: Study) -> Section:
    """Agents and rules where the agents were trained."""
    x, rows = _arms(s), []
    for n, runs in x.items():
        cells = [x.mean(n), x.change(n, "sjf"), x.change(n, "hold"), x.mean(n, "longest"), x.of(n, "lost").sum()]
        costs = ["", ""] if n in RULES else [runs[0]["choices"], np.mean([y["seconds"] for y in runs]) / 60]
        rows.append([n, "" if n in RULES else len(runs), *cells, *costs])
    return s.section("Agents and rules on unseen jobsets", rows)


def distribution(s: Study) -> Section:
    """Slowdowns of jobs, where the agents were trained and at a light load."""
    arms = _arms(s)
    trained = {n: [y for run in arms[n] for y in run["jobs"]] for n in COLOURS}

    def slides() -> dict:
        sets = _unseen(10, 0.3, 200)
        light = {r: means(sets, r, _world(s))["jobs"] for r in COMPARED}
        return light | {n: means(sets, load(s.folder(f"{n}0")), {})["jobs"] for n in ("ours", "plain")}

    shown = {"rate 0.7, 50 rows": trained, "rate 0.3, 200 rows": s.piece("slides", slides)}

    rows = []
    for title, data in shown.items():
        for n in COLOURS:
            left = _left(data["ours"], data[n]) if n in COMPARED else ""
            rows.append([title.split(",")[0], n, *np.quantile(data[n], QUANTILES), left])
    figure = s.figure("cdf", partial(_distributions, shown, COLOURS), label="distribution of slowdowns")
    return s.section("Distribution of slowdowns", rows, figures=[figure])


def _left(ours: list[float], other: list[float]) -> str:
    q = np.arange(1, 100) / 100
    return f"{int((np.quantile(ours, q) <= np.quantile(other, q) + 1e-9).sum())} of 99"


def loads(s: Study) -> Section:
    """Agents trained at one load, at each."""
    rates, rows = s.pick(RATES[::3], RATES, RATES), []

    def at(rate: float) -> dict:
        sets = _unseen(s.pick(4, 60, 200), rate)
        ours = [means(sets, load(s.folder(f"ours{k}")), {}, seed=k)["slowdown"] for k in range(s.seeds)]
        return {r: means(sets, r, _world(s))["slowdown"] for r in COMPARED} | {"ours": ours}

    sweep, names = s.piece("loads", lambda: {str(rate): at(rate) for rate in rates}), ("ours", *COMPARED)
    for rate in rates:
        x = Arms({n: [{"slowdown": y} for y in np.atleast_2d(sweep[str(rate)][n])] for n in names})
        rows.append([load_of(rate), *(x.mean(n) for n in names), x.change("ours", "sjf"), x.change("ours", "hold")])
    drawn = {n: ([100 * row[0] for row in rows], [row[1 + i] for row in rows]) for i, n in enumerate(names)}
    figure = s.lines("loads", drawn, "offered load, % of the capacity", "mean slowdown", yscale="log")
    return s.section("Slowdown against load", rows, figures=[figure], names=names)


def curves(s: Study) -> Section:
    """Validations of all agents."""
    runs = {name: [_run(name, k) for k in range(count)] for name, count in _runs(s).items()}
    return s.section("Learning curves", figures=[s.learning(runs, "mean slowdown")])
