"""CuSH (Domeniconi, Lee, Venkataswamy, Dola, DRL4KDD'19): one agent chooses the job, a second how it is placed.

State: `cush-backlog`, the cluster and each waiting job as images of 20 rows by 48 units, and how full the backlog is; the
second agent sees the chosen job alone.
Actions: a slot or none; packed or spread. Rewards: DeepRM's; minus the locality penalty. See `docs/systems/cush.md`.
"""

from __future__ import annotations

from jobwise.learn.slots_config import SlotsConfig
from jobwise.systems.deeprm import BEST, LEARNER, PPO, STUDIED
from jobwise.workload import Workload

PLACEMENTS = ["pack", "spread"]
RATE = 0.9
MIXES = [0.5, 1.0, 0.0, 0.75, 0.25]  # shares of compute-intensive jobs, in turn
JOINT = {  # one network: scores of slot and placement together; it imitates our strongest rule, then goes on by itself
    **{k: v for k, v in BEST.items() if k not in ("init", "learner", *STUDIED)},
    "second": False,
    "stall": False,
    "average_every": 0,
    "learner": {"learner": "reinforce", "optimiser": "adam", "actor_lr": 3e-3, "gamma": 1.0, "max_norm": 1.0},
    "drawn": 10,
    "runs": 20,
    "group": 10,
    "warm": 3,
    "warm_rule": "hold+typed",
}
MASKS = {"masked": True, "ask_always": False, "stall": False}
SMALL_STEPS = LEARNER | {"optimiser": "adam", "actor_lr": 1e-4}
GROUP = MASKS | {"norm": "group", "learner": SMALL_STEPS}
WARM = GROUP | {"warm": 8, "warm_rule": "hold+typed", "warm_lr": 1e-3}
MODULES = {  # what holds the two modules back: one thing after the other
    "published": {},
    "masks": MASKS,
    "masks, group norm": MASKS | {"norm": "group"},
    "group norm, small steps": GROUP,
    "group norm, centred PSM": GROUP | {"centred": True},
    "imitation alone": WARM | {"iterations": 1, "learner": SMALL_STEPS | {"actor_lr": 1e-9}},  # it stays as it is
    "warm start": WARM,
    "warm start, batch norm": WARM | {"norm": "batch"},
}
TRAINED = {"masks": MASKS, "small-steps": GROUP, "warm": WARM}  # of `jobwise train cush --variant`
VARIANTS = {
    "joint": JOINT,
    "joint, PPO from scratch": JOINT | {"learner": PPO, "warm": 0},
    "order alone, packed": JOINT | {"placements": ["pack"], "warm_rule": "hold"},
    "order alone, by type": JOINT | {"placements": ["typed"], "warm_rule": "hold"},
    "placement alone, SJF": JOINT | {"order": "sjf", "warm_rule": "sjf+typed"},
}


def configure(log: Workload | None, preset: str) -> SlotsConfig:
    """The paper's, on its generated jobs or on windows of a log."""
    return published(preset) if log is None else published(preset).changed(generator="log")


def ours(log: Workload | None, preset: str) -> SlotsConfig:
    """`cush+`: what does best, `JOINT`; of a log, its windows."""
    budget = {"smoke": 30_000, "small": 1_500_000, "paper": 8_000_000}[preset]
    c = published(preset).changed(**JOINT, system="cush+", iterations=None, choices=budget)
    return c if log is None else c.changed(generator="log")


def published(preset: str) -> SlotsConfig:
    """The paper's: two modules, 100 jobsets, 20 runs of each, 500 iterations."""
    return SlotsConfig(
        system="cush",
        generator="cush",
        rate=RATE,
        settings={"compute": MIXES},
        encoder="cush-backlog",
        placements=PLACEMENTS,
        reserve=False,
        masked=False,
        network="image",
        second=True,
        learner=LEARNER,
        jobsets={"smoke": 4, "small": 20, "paper": 100}[preset],
        runs={"smoke": 3, "small": 10, "paper": 20}[preset],
        group={"smoke": 4, "small": 10, "paper": 5}[preset],
        choices=None,
        iterations={"smoke": 2, "small": 60, "paper": 500}[preset],
        validations={"smoke": 2, "small": 20, "paper": 50}[preset],
        average_every=10,  # K of Algorithm 1; one worker has nobody to average with
    )
