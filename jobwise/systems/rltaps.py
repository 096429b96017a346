"""RL-TAPS (Ryu, An, Rashidi, Liu, Hu, CASCON 2020): at every row of time one agent gives GPUs to jobs, whose speed depends on the
links that their GPUs share.

State: `rl-taps`, 10 rows by 158 columns. Action: for each of 32 GPUs one of ten slots, or none. Reward: the speed of all jobs,
less what idle jobs would do and what running ones miss. See `docs/systems/rl-taps.md`.
"""

from __future__ import annotations

from jobwise.errors import InputError
from jobwise.learn.assign import AssignConfig
from jobwise.workload import Workload

LEARNER = {"learner": "reinforce", "optimiser": "adam", "actor_lr": 1e-3, "gamma": 1.0, "max_norm": 1e9}
SIZES = {  # racks, rows with arrivals, T_max, sequences, runs of each, sequences a step, iterations
    "smoke": ([1, 1], 30, 80, 2, 2, 2, 2),
    "small": ([2, 2], 120, 300, 40, 10, 10, 200),
    "paper": ([2, 2, 2, 2], 400, 1000, 200, 20, 10, 1000),
}


def configure(log: Workload | None, preset: str) -> AssignConfig:
    """As published."""
    return published(preset, log)


def published(preset: str, log: Workload | None = None) -> AssignConfig:
    """The paper's: REINFORCE with the mean of all runs of a sequence as baseline, 50 epochs of 200 sequences."""
    if log is not None:
        raise InputError("rl-taps learns from generated jobs: name no log")
    racks, steps, limit, sets, runs, drawn, iterations = SIZES[preset]
    return AssignConfig(
        racks=racks, steps=steps, limit=limit, jobsets=sets, runs=runs, drawn=drawn, iterations=iterations, choices=None,
        group={"smoke": 2, "small": 10, "paper": 1}[preset], validation_jobsets={"smoke": 2, "small": 20, "paper": 60}[preset],
        hidden=[], init=0.01, learner=LEARNER, validations={"smoke": 2, "small": 20, "paper": 50}[preset],
    )  # fmt: skip
