"""DeepRM (Mao, Alizadeh, Menache, Kandula, HotNets'16, doi:10.1145/3005745.3005750): an image of what is held and what
waits, REINFORCE on jobsets.

State: `deeprm`, 20 rows by 224 columns. Action: one of ten slots, or none. Reward: minus the sum of 1 / length of the jobs in
the system, as rows pass. See `docs/systems/deeprm.md`. `VARIANTS` are what we changed, one by one.
"""

from __future__ import annotations

from jobwise.learn.slots_config import SlotsConfig
from jobwise.workload import Workload

LEARNER = {"learner": "reinforce", "optimiser": "rmsprop", "actor_lr": 1e-3, "gamma": 1.0, "max_norm": 1e9}
PPO = {
    "learner": "ppo",
    "steps": 64,
    "gamma": 1.0,
    "lam": 0.97,
    "actor_lr": 2e-3,
    "critic_lr": 3e-3,
    "epochs": 3,
    "minibatches": 8,
    "entropy": 0.002,
    "target_kl": 0.03,
}
STUDIED = {"rate": 0.7, "compat": False, "compat_floor": False}  # above the capacity, where orders matter
BEST = STUDIED | {  # a network per slot, masks, asked only where there is a choice, PPO with a value network, many jobsets
    "encoder": "slots",
    "network": "slots",
    "hidden": [32, 32],
    "init": 0.0,
    "masked": True,
    "ask_always": False,
    "learner": PPO,
    "jobsets": 1000,
}
VARIANTS = {
    "plain": {},
    "masks": {"masked": True},
    "warm start": {"warm": 5},
    "masks, PPO": {"masked": True, "ask_always": False, "learner": PPO, "jobsets": 1000},
    "per slot, REINFORCE": {k: v for k, v in BEST.items() if k not in ("learner", "jobsets")},
    "ours": BEST,
}


def configure(log: Workload | None, preset: str) -> SlotsConfig:
    """The paper's, on its generated jobs or on windows of a log."""
    return published(preset) if log is None else published(preset).changed(generator="log")


def ours(log: Workload | None, preset: str) -> SlotsConfig:
    """`deeprm+`: what does best, `BEST`."""
    budget = {"smoke": 30_000, "small": 1_500_000, "paper": 6_000_000}[preset]
    c = published(preset).changed(**BEST, system="deeprm+", iterations=None, choices=budget)
    return c if log is None else c.changed(generator="log")


def published(preset: str) -> SlotsConfig:
    """Return the configuration of the public code: 50 jobsets at rate 0.3, 20 runs of each, 1,000 iterations, its allocator
    and its slowdowns."""
    return SlotsConfig(
        system="deeprm",
        rate=0.3,
        compat=True,
        compat_floor=True,
        masked=False,
        init=0.01,
        precision="bfloat16" if preset == "paper" else "float32",
        learner=LEARNER,
        jobsets={"smoke": 10, "small": 50, "paper": 50}[preset],
        runs={"smoke": 5, "small": 20, "paper": 20}[preset],
        choices=None,
        iterations={"smoke": 2, "small": 60, "paper": 1000}[preset],
        validations={"smoke": 2, "small": 20, "paper": 50}[preset],
    )
