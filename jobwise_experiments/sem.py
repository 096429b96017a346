"""The eight experiments of SEM (Li, Fan, Papka, Lan), on real logs, the paper's number beside ours.

Theta is the log of 2023 (the paper's, of 2018-19, is not public); DataStar is not at hand: SDSC-BLUE,
from the same site and of the same kind, stands in and is labelled so.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from jobwise import metrics
from jobwise.compare.intervals import over_seeds
from jobwise.learn.collect import collect
from jobwise.learn.config import Config
from jobwise.learn.learners import LEARNERS
from jobwise.learn.networks import actor, weights
from jobwise.learn.run import Run
from jobwise.learn.run_folder import parts
from jobwise.policies.networks import Forward, choose
from jobwise.report.sections import Section, Table
from jobwise.sim.state import allocate
from jobwise.simulate import simulate
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.transform import first, replicate
from jobwise.worlds.window import encoders
from jobwise.worlds.window.passes import BEGIN, ask
from jobwise.worlds.window.policy import WindowPolicy
from jobwise.worlds.window.settings import WindowSettings
from jobwise_experiments.study import Study, anchors, prose, read_log, text_interval

LOGS = {"Theta": "ALCF-Theta", "Atlas": "LLNL-Atlas", "BLUE": "SDSC-BLUE"}
KS = (30, 40, 50)
PAPER = anchors("sem")
AXES = ("utilisation", "1 / mean wait", "1 / longest wait", "1 / mean slowdown")
TIMES = 5  # repeats of a timing; the median counts
# side: (log, changes of the configuration, the paper's episodes to convergence, its largest difference in quality)
SIDES = {
    "Theta": ("Theta", {}, {"sem": "60", "dras": "86"}, 0.04),
    "DataStar": ("BLUE", {"reward": "datastar"}, {"sem": "53", "dras": "74"}, 0.06),
}


def study(logs: Path, s: Study, preset: str, seeds: int) -> list[Section]:
    """All experiments; `preset` small and smoke train on fewer episodes than the paper's 100."""
    traces = {name: read_log(logs, start) for name, start in LOGS.items()}
    if preset == "smoke":
        traces = {name: first(w, min(len(w), 3000)) for name, w in traces.items()}
    theta = traces["Theta"]
    return s.parts(
        lambda: _running(s, traces),
        lambda: _coverage(s, traces),
        lambda: _windows(s, theta, preset),
        *(lambda side=side, log=log: list(_learning(s, side, traces[log], preset, seeds)) for side, (log, *_) in SIDES.items()),
        lambda: _levels(s, traces["BLUE"], preset, seeds),
        lambda: _cost(s, theta, preset),
        lambda: _scaling(s, theta, preset),
    )


def _config(name: str, log: Workload, preset: str) -> Config:
    c = configure(name, log, preset)
    return c if preset != "smoke" or name == "sem" else c.changed(hidden=[64, 32])


# ------------------------------------------------------------------ 1-3: how many jobs run, what K largest lose


def _running(s: Study, logs: dict[str, Workload]) -> Section:
    from jobwise.report import figures

    rows, curves = [], {}
    for name, w in logs.items():
        x = s.piece(f"running-{name}", lambda w=w: metrics.largest_running(simulate(w, "fcfs+easy"), KS))
        curves[w.name] = x["jobs_share"]
        rows.append([w.name, PAPER["maximum"][name], f"{x['most']}", f"{x['mean']:.1f}"])
    text = prose("sem", "running")
    return Section(
        "1. Jobs running at once",
        text,
        [Table(["log", "most, paper", "most, here", "mean over time"], rows)],
        [figures.running_jobs(curves)],
    )


def _coverage(s: Study, logs: dict[str, Workload]) -> Section:
    rows = []
    for name in ("Atlas", "BLUE"):
        x = s.piece(f"running-{name}", dict)
        for i, k in enumerate(KS):
            rows.append(
                [
                    logs[name].name,
                    str(k),
                    PAPER["loss"][name][i],
                    f"{x['loss'][i]:.4%}",
                    PAPER["cover"][name][i],
                    f"{x['cover90'][i]:.2%} / {x['cover95'][i]:.2%}",
                ]
            )
    text = prose("sem", "coverage")
    columns = ["log", "K", "loss, paper", "loss, here", "cover 90/95 %, paper", "cover 90/95 %, here"]
    return Section("2-3. Node-hour loss and coverage", text, [Table(columns, rows)])


# ------------------------------------------------------------------ 4: the window


def _time_training(config: Config, log: Workload, jobs: int, folder: Path, threads: int) -> dict[str, float]:
    """Seconds to train on `jobs` jobs (warm): all, of the updates alone, and how many choices that were."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    t = Run(config.changed(jobs=jobs, episodes=1, choices=None, validations=1, threads=threads), log, folder).trainer
    learn, steps = LEARNERS[t.settings.learner], t.settings.steps
    learn(t.agent, collect(t.envs, t.agent, steps))
    t.envs.reset(seed=0)
    begin, update, choices, ended = time.perf_counter(), 0.0, 0, 0
    while not ended:
        rollout = collect(t.envs, t.agent, steps)
        collected = time.perf_counter()
        learn(t.agent, rollout)
        update += time.perf_counter() - collected
        choices, ended = choices + int(rollout.there.sum()), len(rollout.episodes)
    seconds = time.perf_counter() - begin
    shutil.rmtree(folder, ignore_errors=True)
    return {"seconds": seconds, "update": update, "choices": choices, "parameters": t.agent.parameters}


def _windows(s: Study, log: Workload, preset: str) -> Section:
    jobs = {"smoke": 50, "small": 200, "paper": 1000}[preset]
    rows = []
    for window in (10, 50, 100) if preset == "smoke" else (10, 20, 30, 40, 50, 60, 70, 80, 90, 100):
        c = _config("dras", log, preset).changed(window=window)
        x = s.piece(f"window-{window}", lambda c=c: _time_training(c, log, jobs, s.folder("window"), s.threads))
        rows.append([str(window), f"{x['seconds']:.1f}", str(x["choices"]), f"{1000 * x['seconds'] / x['choices']:.1f}"])
    text = f"Training DRAS on {jobs} jobs with windows of W jobs. The paper: less than 1 s of difference on 1,000 jobs."
    return Section("4. The window costs nothing", text, [Table(["W", "s", "choices", "ms a choice"], rows)])


# ------------------------------------------------------------------ 5, 6: convergence and quality


def convergence(scores: np.ndarray, wide: int = 5, last: int = 10, within: float = 0.02) -> int:
    """First episode (from 1) from which the moving average of `wide` rewards stays within 2 % of the mean of the last ten."""
    scores = np.asarray(scores, float)
    wide, last = min(wide, len(scores)), min(last, len(scores))
    mean = np.convolve(scores, np.ones(wide) / wide, "valid")
    end = scores[-last:].mean()
    off = np.flatnonzero(np.abs(mean - end) > within * abs(end))
    return int(off[-1] + 1 + wide) if len(off) else wide


def _trained(s: Study, log: Workload, config: Config, name: str, seed: int) -> dict:
    """Train one, replay the test jobs: validation scores, the four axes, seconds."""
    folder, begin = s.folder(f"{name}{seed}"), time.perf_counter()
    policy = s.train(config, log, folder.name, seed)
    lines = [x for x in map(_line, (folder / "metrics.jsonl").read_text().splitlines()) if "validation" in x]
    test = parts(log)[2]
    test = first(test, min(6000, len(test)))
    r = simulate(test, policy)
    return {
        "validation": [x["validation"] for x in lines],
        "reward": [x["validation_reward"] for x in lines],
        "axes": _axes(r),
        "seconds": time.perf_counter() - begin,
        "parameters": policy.forward.parameters,
    }


def _line(text: str) -> dict:
    import json

    return json.loads(text)


def _axes(r) -> list[float]:
    summary = r.summary()
    return [summary["utilisation"], 1 / summary["wait"], 1 / summary["max_wait"], 1 / summary["slowdown"]]


def _learning(s: Study, side: str, log: Workload, preset: str, seeds: int) -> list[Section]:
    """Convergence and quality of one side: both encodings with every seed, the paper's figures beside them."""
    from jobwise.report import figures

    _, changes, paper, most = SIDES[side]
    runs = {
        name: [
            s.piece(
                f"train-{side}-{name}-{k}",
                lambda name=name, k=k: _trained(s, log, _config(name, log, preset).changed(**changes), f"{side}-{name}", k),
            )
            for k in range(seeds)
        ]
        for name in ("sem", "dras")
    }
    test = first(parts(log)[2], min(6000, len(parts(log)[2])))
    rules = {
        r: s.piece(f"rule-{side}-{r}", lambda r=r: _axes(simulate(test, r))) for r in ("fcfs+easy", "sjf+easy", "wfp3+easy")
    }
    where = f"{log.name}" + (" in place of DataStar's log" if side == "DataStar" else "")
    episodes = {name: [convergence(x["reward"]) for x in curves] for name, curves in runs.items()}
    area = {name: [float(np.mean(x["reward"])) for x in curves] for name, curves in runs.items()}
    rows = [[name.upper(), paper[name], text_interval(episodes[name]), text_interval(area[name], 4)] for name in runs]
    sooner = [a - b for a, b in zip(episodes["dras"], episodes["sem"], strict=True)]
    rows.append(["DRAS less SEM", f"{int(paper['dras']) - int(paper['sem'])}", text_interval(sooner), ""])
    total = len(runs["sem"][0]["validation"])
    text = prose("sem", "learning", where=where, total=total, seeds=seeds)
    figure = figures.convergence({n.upper(): [x["reward"] for x in curves] for n, curves in runs.items()}, "mean reward")
    columns = ["encoding", "episodes, paper", "episodes, here", "mean reward over all episodes (area)"]
    five = Section(f"5. Convergence: {side}", text, [Table(columns, rows)], [figure])
    axes = {name.upper(): np.mean([x["axes"] for x in curves], axis=0) for name, curves in runs.items()}
    axes |= {name: np.array(x) for name, x in rules.items()}
    best = np.max(list(axes.values()), axis=0)
    rows = [[name, *(f"{v:.3f}" for v in x / best)] for name, x in axes.items()]
    ours, theirs = (np.array([x["axes"] for x in runs[name]]) for name in ("sem", "dras"))
    rows.append(["SEM against DRAS", *_paired(theirs, ours)])
    worst = max(np.exp(np.log(ours / theirs).mean(axis=0)) - 1, key=abs)
    text = prose("sem", "learning more", where=where, test=len(test), seeds=seeds, most=most, worst=worst)
    drawn = [figures.kiviat({k: v / best for k, v in axes.items()}, AXES)]
    return [five, Section(f"6. Quality: {side}", text, [Table(["scheduler", *AXES], rows)], drawn)]


def _paired(base: np.ndarray, ours: np.ndarray) -> list[str]:
    """Per axis the change of the geometric mean over seeds [S, axes], paired; its interval from five seeds on."""
    rows = []
    for x in np.log(ours / base).T:
        mean, low, high = (float(np.exp(v)) - 1 for v in over_seeds(x))
        rows.append(f"{mean:+.1%}" if len(x) < 5 else f"{mean:+.1%} [{low:+.1%}, {high:+.1%}]")
    return rows


def _levels(s: Study, log: Workload, preset: str, seeds: int) -> Section:
    """The whole of DRAS, whose second network chooses whom to backfill, against its first level with EASY."""
    c = configure("dras2", log, preset)
    c = c.changed(hidden=[64, 32]) if preset == "smoke" else c
    whole = [s.piece(f"train-levels-{k}", lambda k=k: _trained(s, log, c, "levels", k)) for k in range(seeds)]
    one = c.changed(system="dras", encoding={}, network="rows", backfill="easy")
    level = [s.piece(f"train-level-{k}", lambda k=k: _trained(s, log, one, "level", k)) for k in range(seeds)]
    ours, base = (np.array([x["axes"] for x in axes_of]) for axes_of in (whole, level))
    best = np.maximum(ours.mean(axis=0), base.mean(axis=0))
    rows = [
        ["DRAS, EASY backfills", f"{level[0]['parameters']:,}", *(f"{v:.3f}" for v in base.mean(axis=0) / best)],
        ["DRAS, its second network does", f"{whole[0]['parameters']:,}", *(f"{v:.3f}" for v in ours.mean(axis=0) / best)],
        ["the second against EASY", "", *_paired(base, ours)],
    ]
    text = prose("sem", "levels", name=log.name, seeds=seeds)
    return Section("DRAS's second level", text, [Table(["scheduler", "parameters", *AXES], rows)])


# ------------------------------------------------------------------ 7, 8: cost


def _time_inference(config: Config, log: Workload, jobs: int) -> dict[str, float]:
    """Seconds to schedule `jobs` jobs with an untrained network (it costs the same): all, and of each part."""
    part = first(log, min(jobs, len(log)))
    encoder = encoders.make(config.encoder, log.cluster, log.jobs, config.window, **config.encoding)
    spec = config.network_spec(encoder)
    act = WindowSettings(config.act, config.backfill, config.fill)
    policy = WindowPolicy(Forward(spec, weights(actor(spec))), encoder, act)
    simulate(first(log, min(50, len(log))), policy)
    state = allocate([part], part.cluster, single_events=act.single_events)
    c, (out, work), clock = act.allocate(state, encoder.window), encoder.buffers(1), time.perf_counter
    seconds, choices, begin = {"encode": 0.0, "forward": 0.0, "simulate": 0.0}, 0, clock()
    left = ask(state, c, BEGIN)
    while left:
        a = clock()
        encoder.encode(state, c, out, work)
        b = clock()
        chosen = choose(policy.forward, out, c.moment["count"])
        d = clock()
        left = ask(state, c, chosen)
        seconds["encode"] += b - a
        seconds["forward"] += d - b
        seconds["simulate"] += clock() - d
        choices += 1
    return seconds | {"seconds": clock() - begin, "choices": choices}


def _cost(s: Study, log: Workload, preset: str) -> Section:
    train_jobs = {"smoke": 50, "small": 300, "paper": 2000}[preset]
    test_jobs = {"smoke": 100, "small": 1000, "paper": 6000}[preset]
    rows, parts_of, x = [], [], {}
    for name in ("sem", "dras"):
        c = _config(name, log, preset)
        learnt = [
            s.piece(f"cost-train-{name}-{k}", lambda c=c: _time_training(c, log, train_jobs, s.folder("cost"), s.threads))
            for k in range(TIMES)
        ]
        timings = [s.piece(f"cost-infer-{name}-{k}", lambda c=c: _time_inference(c, log, test_jobs)) for k in range(TIMES)]
        per = float(np.median([t["seconds"] for t in learnt])) / train_jobs
        infer = float(np.median([t["seconds"] for t in timings])) / test_jobs
        x[name] = per, infer
        rows.append(
            [
                name.upper(),
                f"{learnt[0]['parameters']:,}",
                f"{60_000 * per:,.0f}",
                f"{6_000 * infer:,.1f}",
                f"{1000 * per:.2f}",
                f"{1000 * infer:.2f}",
            ]
        )
        each = [float(np.median([1000 * t[k] / t["choices"] for t in timings])) for k in ("encode", "forward", "simulate")]
        update = float(np.median([1000 * t["update"] / t["choices"] for t in learnt]))
        parts_of.append([name.upper(), *(f"{v:.4f}" for v in each), f"{update:.3f}"])
    faster = [x["dras"][i] / x["sem"][i] for i in (0, 1)]
    text = prose(
        "sem",
        "cost",
        times=TIMES,
        train_jobs=train_jobs,
        test_jobs=test_jobs,
        threads=s.threads,
        faster=faster[0],
        faster2=faster[1],
    )
    columns = ["encoding", "parameters", "train 60,000 jobs, s", "infer 6,000 jobs, s", "train ms/job", "infer ms/job"]
    columns_of = ["encoding", "encode", "forward", "simulate", "update"]
    return Section("7. Cost", text, [Table(columns, rows), Table(columns_of, parts_of)])


def _scaling(s: Study, log: Workload, preset: str) -> Section:
    jobs = {"smoke": 30, "small": 60, "paper": 1000}[preset]
    rows = []
    for times in (1, 2) if preset == "smoke" else (1, 2, 4, 8):
        big = replicate(first(log, max(jobs * 40 // times, 400)), times, seed=0) if times > 1 else first(log, jobs * 40)
        N = big.cluster.processors
        line = [f"{N:,}"]
        sem = configure("sem", log, preset).changed(encoding={"minimum": 128})
        a = s.piece(f"scale-sem-{times}", lambda big=big, c=sem: _time_training(c, big, jobs, s.folder("scale"), s.threads))
        line += [f"{a['parameters']:,}", f"{1000 * a['seconds'] / a['choices']:.2f}"]
        for how, hidden in (("scaled", [4000 * times, 1000 * times]), ("fixed", [4000, 1000])):
            size = 4 * ((N + 100) * hidden[0] + hidden[0] * hidden[1] + hidden[1] * 50)
            if 5 * size > 10e9 or preset == "smoke":  # weights, gradients, two moments of Adam, and room to work
                line += [f"{size / 4:,.0f}", f"not run: {5 * size / 1e9:.0f} GB"]
                continue
            c = configure("dras", log, preset).changed(hidden=hidden)
            few = max(jobs // (2 * times), 12)
            b = s.piece(
                f"scale-dras-{how}-{times}",
                lambda big=big, c=c, few=few: _time_training(c, big, few, s.folder("scale"), s.threads),
            )
            each, mine = b["seconds"] / b["choices"], a["seconds"] / a["choices"]
            line += [f"{b['parameters']:,}", f"{1000 * each:.0f} ({each / mine:,.0f}x)"]
        rows.append(line)
    text = prose("sem", "scaling")
    columns = ["nodes", "SEM parameters", "ms a choice", "DRAS parameters", "ms (scaled)", "DRAS parameters", "ms (fixed)"]
    return Section("8. Scaling", text, [Table(columns, rows)])
