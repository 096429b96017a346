"""SEM (Li, Fan, Papka, Lan) and DRAS (Fan et al., IPDPS'21): the state as rows of two, REINFORCE on batches of ten choices.

State: 50 waiting jobs, and a row per running job (SEM) or per node (DRAS). Action: `reserve` with EASY in order of arrival.
Reward: DRAS's, or DataStar's. Episodes of 600 jobs, 100 of them. See `docs/systems/sem.md`.
"""

from __future__ import annotations

from jobwise.learn.config import Config
from jobwise.workload import Workload

LEARNER = {
    "learner": "reinforce",
    "steps": 10,
    "gamma": 0.99,
    "actor_lr": 3e-5,  # of 1e-3 ... 1e-5 on validation: from 1e-4 on both networks stick to one slot within an episode
    "entropy": 0.0,
    "max_norm": 1e9,
}
SMALLEST = 128  # processors of the smallest job of the published Theta set: 4,360 // 128 = 34 rows
MOST = 64  # rows of running jobs; where a machine runs more of its smallest ones, the 40 largest are shown


def configure_sem(log: Workload, preset: str) -> Config:
    """SEM for a log: zero-padding where few of its smallest jobs fill the machine (Theta: 34), else the 40 largest running
    jobs."""
    N = log.cluster.processors
    smallest = SMALLEST if N == 4360 else max(int(log.jobs["request"][:, 0].min()), 1)
    padded = N // smallest <= MOST and log.cluster.is_pool
    encoding = {"minimum": smallest} if padded else {"largest": 40}
    return _configure(log, preset, "sem", encoding, [200, 100])


def configure_dras(log: Workload, preset: str) -> Config:
    """DRAS's first level, which SEM compares itself with: EASY backfills. Dense layers as published for 4,360 and 1,664 nodes,
    in proportion for others."""
    N = log.cluster.processors
    hidden = [4000, 1000] if N == 4360 else [1000, 250] if N == 1664 else [max(4000 * N // 4360, 8), max(1000 * N // 4360, 8)]
    return _configure(log, preset, "dras", {}, hidden)


def configure_dras2(log: Workload, preset: str) -> Config:
    """Return the whole of DRAS: a second network chooses jobs to backfill, one by one, that do not delay the reserved job."""
    c = configure_dras(log, preset)
    return c.changed(system="dras2", encoding={"levels": True}, network="levels", backfill="agent")


def our_sem(log: Workload, preset: str) -> Config:
    """Return `sem+`: SEM's state, network and actions, taught in another way: see `_taught`."""
    return _taught(configure_sem(log, preset), "sem+", preset)


def our_dras(log: Workload, preset: str) -> Config:
    """Return `dras+`: DRAS's state, network and actions, taught in another way: see `_taught`."""
    return _taught(configure_dras(log, preset), "dras+", preset)


def _taught(c: Config, name: str, preset: str) -> Config:
    """The same, but it first imitates smallest area first on two million states, then learns by PPO with a critic.

    As published, nearly all of an advantage is its place in the batch of ten, and dense layers over slots need more choices
    than there are (docs/studies/state-use.md)."""
    return c.changed(
        system=name,
        reward="bounded_slowdown",
        learner={"learner": "ppo", "critic": "window", "actor_lr": 5e-4, "steps": 32},
        simulations=8 if preset == "smoke" else 256,
        jobs=min(256, c.jobs),
        loads=[1.0, 1.3],
        warm=5 if preset == "smoke" else 8000,
        warm_rule="saf",
        choices=1_000 if preset == "smoke" else 2_000_000,
        episodes=None,
        validations={"smoke": 2, "small": 10, "paper": 20}[preset],
        validation_windows=2 if preset == "smoke" else 32,
        validation_jobs=min(256, c.jobs),
    )


def configure_dql(log: Workload, preset: str) -> Config:
    """DRAS-DQL: the same state, deep Q-learning on batches of ten choices, exploration from 1 down by 0.995 an update."""
    learner = {"learner": "dqn", "steps": 10, "gamma": 0.99, "actor_lr": 3e-5, "max_norm": 10.0}
    return configure_dras(log, preset).changed(system="dras-dql", learner=learner)


def _configure(log: Workload, preset: str, encoder: str, encoding: dict, hidden: list[int]) -> Config:
    jobs = min(600, max(len(log) // 20, 2))
    episodes = {"smoke": 3, "small": 30, "paper": 100}[preset]
    return Config(
        system=encoder,
        encoder=encoder,
        encoding=encoding,
        act="reserve",
        network="rows",
        hidden=hidden,
        reward="dras",
        learner=LEARNER,
        simulations=1,
        jobs=jobs,
        shake_s=0.0,
        choices=None,
        episodes=episodes,
        validations=episodes,
        validation_windows=1,
        validation_jobs=2 * jobs,
    )
