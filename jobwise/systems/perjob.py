"""Our own: a network of a thousand numbers looks at every job, PPO on the jobs' gain in bounded slowdown.

State: `perjob` (15 features a job, free of scales, window of 128). Action: `pick` (re-decides at every event, chooses behind
the reservation too). Reward: `bounded_slowdown`, as it accrues. See `docs/systems/perjob.md`.
"""

from __future__ import annotations

from jobwise.learn.config import Config
from jobwise.workload import Workload

LEARNER = {"learner": "ppo", "steps": 64, "gamma": 0.99, "lam": 0.97, "actor_lr": 5e-3, "critic_lr": 3e-3, "entropy": 0.0}


def configure(log: Workload, preset: str) -> Config:
    """The configuration for a log."""
    budget = {"smoke": 20_000, "small": 1_000_000, "paper": 5_000_000}[preset]
    size = {"smoke": 32, "small": 256, "paper": 256}[preset]
    jobs = min(256, max(len(log) // 20, 2))
    validations = {"smoke": 3, "small": 20, "paper": 50}[preset]
    learner = LEARNER | ({"steps": 32} if preset == "smoke" else {})
    return Config(system="perjob", choices=budget, simulations=size, jobs=jobs, learner=learner, validations=validations)


def configure_shift(log: Workload, preset: str) -> Config:
    """The same, which sees prices, and may choose nobody to wait for a cheaper hour. It imitates a rule first, which never
    waits: from a network that knows nothing, half of all choices would be to wait."""
    reward, warm = "bounded_slowdown + 200 energy_cost", {"smoke": 5, "small": 20, "paper": 20}[preset]
    return configure(log, preset).changed(system="shift", encoder="priced", waits=True, reward=reward, warm=warm)
