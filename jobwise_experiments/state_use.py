"""Do the published agents use the state that they are shown? Each is trained with every seed, and probed on unseen jobs.

A policy may be good because it looks, or because a constant answer is good: `jobwise probe` tells these apart. The study also
shows why REINFORCE as SEM and DRAS have it learns so little: what its advantages say of actions, and what of their place.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from jobwise.compare.intervals import Effect, crossed, in_blocks
from jobwise.learn.judged import change, text
from jobwise.learn.probe import StateUse, on_log, probe
from jobwise.policies.names import resolve
from jobwise.policies.zoo import PREFIX, cards
from jobwise.report.figures import forest
from jobwise.report.sections import Section
from jobwise.systems import configure, system
from jobwise.workload import Workload
from jobwise.workloads.transform import first
from jobwise.worlds.window.encoders import make
from jobwise.worlds.window.policy import as_policy
from jobwise_experiments.study import Study, read_log

LOG = "SDSC-SP2"
ON_LOGS = ("sem", "sem+", "dras", "dras+", "rlscheduler", "mars", "mars+", "perjob")
ON_JOBSETS = (
    "deeprm",
    "deeprm+",
    "cush",
    "cush+",
    "rl-taps",
    "rl-taps-pairs",
    "distances",
    "distances+",
    "affinities",
    "affinities+",
)
MOST = 80_000  # jobs of a log that policies of the zoo were trained on
BATCHES = 200  # of ten choices, whose advantages are looked at
REWARDS = {"dras": "DRAS's, SEM's for Theta", "datastar": "SEM's for DataStar", "bounded_slowdown": "bounded slowdown"}


LESSONS, LATER = (500, 2000, 8000), 100  # updates, and rounds of choices behind them, in 256 simulations
SEM_WINDOW = 50  # jobs
ACTS = {"reserve": "reserve; EASY in order of arrival (SEM, DRAS)", "pick": "pick, behind a reservation, too"}
SIDES = {  # changes of the score that are told: ours, against
    "shown states of other moments": ("exchanged", "own"),
    "against its best constant twin": ("own", "twin"),
}


def study(s: Study) -> list[Section]:
    """The zoo, every system with every seed, and why SEM and DRAS look at little."""
    systems = (partial(trained, name=name) for name in (*ON_LOGS, *ON_JOBSETS))
    return s.parts(zoo, *systems, summary, advantages, lessons, actions)


def _kept(use: StateUse) -> dict[str, Any]:
    """What is kept of a probe, as plain values."""
    return use.to_dict() | {"in_time": "windows" in use.on}


def _change(uses: list[dict], ours: str, base: str) -> Effect | None:
    """The change of the score over seeds and jobs; None where one side leaves jobs waiting for ever."""
    d = [np.log(np.asarray(u["scores"][ours]) / np.asarray(u["scores"][base])) for u in uses]
    if not all(np.isfinite(x).all() for x in d):
        return None
    return crossed(np.array([in_blocks(x) if u["in_time"] else x for x, u in zip(d, uses, strict=True)]))


def _row(name: str, uses: list[dict]) -> list:
    """The row of a policy, or of a system with several seeds."""
    words = Counter(u["state_use"] for u in uses)
    word = uses[0]["state_use"] if len(uses) == 1 else ", ".join(f"{n} {w}" for w, n in words.items())
    mean = {k: float(np.mean([u[k] for u in uses])) for k in ("decisions", "states", "agreement", "entropy")}
    twin = Counter(u["twin"] for u in uses).most_common(1)[0][0]
    both = [_change(uses, *sides) for sides in SIDES.values()]
    cells = [e.text() if e else "leaves jobs waiting for ever" for e in both]
    return [name, word, mean["decisions"], mean["states"], mean["agreement"], mean["entropy"], *cells, twin]


def zoo(s: Study) -> Section:
    """The policies that come trained, each on what it was trained for."""

    def one(name: str, log: str) -> dict:
        policy = resolve(PREFIX + name)
        if not policy.looks:
            return {}
        return _kept(probe(policy, None if policy.jobsets else first(read_log(s.logs, log), MOST)))

    rows = [(name, s.piece(f"zoo-{name}", one, name, card.log)) for name, card in cards().items()]
    shown = rows[-2:] if s.smoke else rows
    left = ", ".join(n for n, x in shown if not x) or "none"
    return s.section("Policies that come trained", [_row(n, [x]) for n, x in shown if x], left=left)


def trained(s: Study, name: str) -> list[Section]:
    """One system: it is trained and probed here, seed by seed, and shown in the summary."""
    log = s.log(LOG, smoke=3000) if system(name).on_log else None

    def one(k: int) -> dict:
        return _kept(probe(s.train(configure(name, log, s.preset), log, f"{name}-{k}", k), log))

    for k in range(s.seeds):
        s.piece(f"{name}-{k}", one, k)
    return []


def summary(s: Study) -> Section:
    """All systems that have been probed, one row each, with the seeds that are there."""
    uses: dict[str, list[dict]] = {}
    for name in (*ON_LOGS, *ON_JOBSETS):
        if files := sorted((s.out / "pieces").glob(f"{name}-[0-9]*.json")):
            uses[name] = [json.loads(file.read_text()) for file in files]
    rows = [[name, len(x), *_row(name, x)[1:]] for name, x in uses.items()]
    drawn = {side: {n: e for n, x in uses.items() if (e := _change(x, *sides))} for side, sides in SIDES.items()}
    return s.section("Systems, trained anew", rows, figures=[forest(drawn, "change of the score; small is good")], log=LOG)


def advantages(s: Study) -> Section:
    """How much of the advantages of REINFORCE on batches of ten is their place in the batch."""
    log = s.log(LOG, smoke=3000)
    rows = [[REWARDS[r], *s.piece(f"advantages-{r}", _of_place, s, log, r)] for r in REWARDS]
    return s.section("Where the advantages of REINFORCE come from", rows, batches=s.pick(20, BATCHES, BATCHES))


def _of_place(s: Study, log: Workload, reward: str) -> list[float]:
    """(share of the variance of advantages that their place in a batch of ten explains; their means at the first and the last
    place)."""
    from jobwise.learn import returns
    from jobwise.learn.collect import collect
    from jobwise.learn.window import WindowTrainer

    config = configure("sem", log, s.preset).changed(reward=reward, threads=1)
    trainer = WindowTrainer(config, log, "cpu")
    trainer.envs.reset(seed=1)
    steps, gamma, kept = config.learner["steps"], config.learner["gamma"], []
    for _ in range(s.pick(20, BATCHES, BATCHES)):
        rollout = collect(trainer.envs, trainer.agent, steps)
        if len(rollout.rewards) == steps and rollout.there.all():
            kept.append(returns.standardised(returns.discounted(rollout.rewards, gamma), rollout.there)[:, 0])
    advantage = np.array(kept)
    place = advantage.mean(axis=0)
    return [float(place.var() / advantage.var()), float(place[0]), float(place[-1])]


def lessons(s: Study) -> Section:
    """How many choices SEM's network needs as lessons until it answers as the rule that it is shown."""
    log = s.log(LOG, smoke=3000)
    counts = s.pick((5, 20), LESSONS, LESSONS)
    return s.section("How many lessons SEM's network needs", [s.piece(f"lessons-{n}", _taught, log, n) for n in counts])


def _taught(log: Workload, updates: int) -> list[float]:
    """(choices among two jobs or more that it was shown; share of such choices, of later states, in which it answers alike)."""
    from jobwise.learn.imitation import imitate
    from jobwise.learn.window import WindowTrainer

    trainer = WindowTrainer(configure("sem+", log).changed(threads=1), log, "cpu")
    envs, agent, alike = trainer.envs, trainer.agent, list[bool]()
    envs.reset(seed=1)
    imitate(agent, envs, "saf", updates)
    for _ in range(LATER):
        answers, several = envs.by_rule("saf"), envs.counts > 1
        state, _ = agent.look(envs.show(), envs.counts.copy(), envs.masks)
        alike += (agent.scores(state).argmax(dim=-1).numpy() == answers)[several].tolist()
        envs.choose(answers, again=True)
    return [updates * len(alike) / LATER, float(np.mean(alike))]


def actions(s: Study) -> Section:
    """What smallest area first is worth in SEM's actions, and in those in which it also says who backfills."""
    log = s.log(LOG, smoke=3000)

    def scored(act: str, order: str) -> list[float]:
        encoder = make("rls", log.cluster, log.jobs, window=SEM_WINDOW)
        size, time = (encoder.features.index(name) for name in ("processors", "walltime"))

        def choose(states: np.ndarray, masks: np.ndarray) -> np.ndarray:
            area = states[..., size] * states[..., time] if order == "saf" else np.zeros(masks.shape)
            return np.where(masks, area, np.inf).argmin(axis=1)

        return on_log(log)[0](as_policy(choose, encoder, act=act, backfill="easy", name=order)).tolist()

    results = {(a, o): np.array(s.piece(f"actions-{a}-{o}", scored, a, o)) for a in ACTS for o in ("fcfs", "saf")}
    rows = [[ACTS[a], o, x.mean(), text(change(x, results["pick", "saf"], windows=True))] for (a, o), x in results.items()]
    return s.section("What SEM's actions leave to choose", rows, log=LOG)
