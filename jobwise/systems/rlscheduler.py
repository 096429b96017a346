"""RLScheduler (Zhang et al., SC'20, doi:10.1109/SC41405.2020.00035): eight features,
a 32-16-8-1 network per job, PPO on the mean bounded slowdown at the end.

Its convention: `commit` (a picked job must start next), no backfilling, decisions after every single event, episodes of 256
jobs on an empty machine. Its numbers: 100 trajectories an epoch, 80 passes each, lr 3e-4 and 1e-3. We make minibatches and
fewer passes with a larger step: a pass over 25,600 choices with one step of the optimiser wastes most of it. Its
quirk of counting the final reward twice is not copied. See `docs/systems/rlscheduler.md`.
"""

from __future__ import annotations

from jobwise.learn.config import Config
from jobwise.workload import Workload

LEARNER = {
    "learner": "ppo",
    "steps": 256,  # in `commit` every job is picked: an episode of 256 jobs is 256 choices
    "gamma": 1.0,
    "lam": 0.97,
    "actor_lr": 3e-3,
    "critic_lr": 3e-3,
    "epochs": 4,
    "minibatches": 8,
    "entropy": 0.0,
    "critic": "window",
}


def configure(log: Workload, preset: str) -> Config:
    """The configuration for a log."""
    jobs = min(256, max(len(log) // 20, 2))
    return Config(
        system="rlscheduler",
        encoder="rls",
        act="commit",
        backfill="none",
        reward="bounded_slowdown_end",
        learner=LEARNER,
        simulations={"smoke": 16, "small": 100, "paper": 100}[preset],
        jobs=jobs,
        shake_s=0.0,
        choices={"smoke": 20_000, "small": 2_000_000, "paper": 10_240_000}[preset],
        validations={"smoke": 3, "small": 20, "paper": 100}[preset],
    )
