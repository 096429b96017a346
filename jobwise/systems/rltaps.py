"""RL-TAPS (Ryu, An, Rashidi, Liu, Hu, CASCON 2020): row by row one agent gives GPUs to jobs, whose speed depends on the links
that their GPUs share.

State: `rl-taps`, 10 rows by 158 columns. Action: for each of 32 GPUs one of ten slots, or none. Reward: the speed of all jobs,
less what idle jobs would do and what running ones miss. See `docs/systems/rl-taps.md`.
"""

from __future__ import annotations

from jobwise.learn.gpus_config import GpusConfig
from jobwise.workload import Workload

LEARNER = {"learner": "reinforce", "optimiser": "adam", "actor_lr": 1e-3, "gamma": 1.0, "max_norm": 1e9}
PPO = {
    "learner": "ppo", "steps": 32, "gamma": 0.99, "lam": 0.95, "actor_lr": 1e-3, "critic_lr": 2e-3, "epochs": 3,
    "minibatches": 8, "entropy": 0.001, "target_kl": 0.02,
}  # fmt: skip
PAIRS = {
    "system": "rl-taps-pairs", "encoder": "gpu-links", "network": "pairs", "hidden": [64], "masked": True,
    "precision": "float32", "init": 0.0,
}  # fmt: skip
SIZES = {  # racks, rows with arrivals, T_max, sequences, runs of each, sequences a step, iterations
    "smoke": ([1, 1], 30, 80, 2, 2, 2, 2),
    "small": ([2, 2], 120, 300, 40, 10, 10, 100),
    "paper": ([2, 2, 2, 2], 400, 1000, 200, 20, 10, 1000),
}


def configure(log: Workload | None, preset: str) -> GpusConfig:
    """The paper's; `fresh` in a TOML file makes it its streaming regime."""
    return _of(published(preset), log)


def _of(c: GpusConfig, log: Workload | None) -> GpusConfig:
    """The same on windows of a log of GPU jobs, in rows of ten minutes; as it is without one."""
    return c if log is None else c.changed(generator="log", work="lab", row_s=600.0, jobs=c.steps)


def ours(log: Workload | None, preset: str) -> GpusConfig:
    """`rl-taps+`: what does best, weights of the knapsack found by evolution, for restarts of 30 s."""
    return _of(_ours(preset), log)


def _ours(preset: str) -> GpusConfig:
    racks, steps, limit, sets, *_ = SIZES[preset]
    racks, steps, limit = ([2, 2, 2, 2], 400, 1000) if preset != "smoke" else (racks, steps, limit)
    return GpusConfig(
        system="rl-taps+", racks=racks, steps=steps, limit=limit, work="lab", restart_cost_s=30.0, choices=None, masked=True,
        jobsets={"smoke": 4, "small": 200, "paper": 1000}[preset], drawn={"smoke": 2, "small": 12, "paper": 24}[preset],
        iterations={"smoke": 2, "small": 100, "paper": 600}[preset], validations={"smoke": 2, "small": 10, "paper": 20}[preset],
        validation_jobsets={"smoke": 2, "small": 32, "paper": 100}[preset],
    )  # fmt: skip


def per_job(preset: str) -> GpusConfig:
    """A network that is the same for every job and for clusters of any size says how many GPUs each has: it imitates the rule
    `both`, then learns by PPO what restarts cost."""
    return _ours(preset).changed(
        encoder="gpu-jobs", network="slots", counts=True, hidden=[64, 64], learner=PPO, reward="slowdown", iterations=None,
        warm={"smoke": 1, "small": 15, "paper": 30}[preset], warm_rule="both",
        simulations={"smoke": 4, "small": 64, "paper": 128}[preset],
        choices={"smoke": 2_000, "small": 1_500_000, "paper": 10_000_000}[preset],
    )  # fmt: skip


def pairs(log: Workload | None, preset: str) -> GpusConfig:
    """`rl-taps-pairs`: the published agent's world, reward and learner with a network of pairs in place of the image: jobs and
    GPUs, with the bandwidths that these have, read of each other by attention. It is the same for clusters of any size."""
    return _of(published(preset).changed(**PAIRS), log)


def published(preset: str, streaming: bool = False) -> GpusConfig:
    """The paper's: REINFORCE with the mean of all runs of a sequence as baseline, 50 epochs of 200 sequences; or, `streaming`,
    of 60 that are drawn anew every ten epochs."""
    racks, steps, limit, sets, runs, drawn, iterations = SIZES[preset]
    if streaming and preset == "paper":
        sets, iterations = 60, 300
    return GpusConfig(
        racks=racks, steps=steps, limit=limit, jobsets=sets, runs=runs, drawn=drawn, iterations=iterations, choices=None,
        network="mlp", precision="bfloat16" if preset == "paper" else "float32",
        group={"smoke": 2, "small": 10, "paper": 10}[preset],
        validation_jobsets={"smoke": 2, "small": 20, "paper": 60}[preset],
        fresh=10 * max(sets // drawn, 1) if streaming else 0, hidden=[], init=0.01, learner=LEARNER,
        validations={"smoke": 2, "small": 20, "paper": 50}[preset],
    )  # fmt: skip
