"""Telemetry-driven placement, parts A to C: a buffer of jobs and nodes that suit them or not, which has to be found out.

State: `distance` (26 numbers) or `affinity` (40). Action: which node each job of the buffer goes to, or none. Reward: minus the
jobs in the system, row by row: its sum is minus the time that jobs spend there. See `docs/systems/telemetry.md`.
"""

from __future__ import annotations

from jobwise.errors import InputError
from jobwise.learn.nodes_config import NodesConfig
from jobwise.workload import Workload

LEARNER = {"learner": "reinforce", "optimiser": "adam", "actor_lr": 1e-3, "gamma": 1.0, "max_norm": 1e9}
PPO = {
    "learner": "ppo", "steps": 32, "gamma": 1.0, "lam": 0.97, "actor_lr": 1e-3, "critic_lr": 2e-3, "epochs": 4,
    "minibatches": 8, "entropy": 0.002, "target_kl": 0.03,
}  # fmt: skip
A = {"system": "distances", "generator": "distances", "rate": 0.25, "slots": 2, "kinds": 3}
B = {"system": "affinities", "generator": "affinities", "rate": 0.5, "slots": 1, "kinds": 3}
C = {"system": "failing", "generator": "failing", "rate": 0.35, "steps": 100, "limit": 500, "slots": 1, "kinds": 1}
PARTS = {"distances": A, "affinities": B, "failing": C}
ENCODERS = {"distances": "distance", "affinities": "affinity", "failing": "affinity"}


def _published(part: str, preset: str) -> NodesConfig:
    """The slides': one dense layer of 64, REINFORCE on 20 jobsets with 20 runs each, whose mean is the baseline."""
    return NodesConfig(
        **PARTS[part], joint=True, masked=False, ask_always=True, encoder=ENCODERS[part], network="mlp", hidden=[64],
        learner=LEARNER, jobsets={"smoke": 4, "small": 20, "paper": 20}[preset], group=20,
        runs={"smoke": 4, "small": 20, "paper": 20}[preset], choices=None,
        iterations={"smoke": 2, "small": 300, "paper": 1000}[preset],
        validations={"smoke": 2, "small": 20, "paper": 50}[preset],
        validation_jobsets={"smoke": 4, "small": 20, "paper": 50}[preset],
    )  # fmt: skip


def _ours(part: str, preset: str, hidden: bool = False) -> NodesConfig:
    """One network for every node, which sees how long jobs took there; PPO on many jobsets. `hidden`: in every jobset the
    factors are others, and it has to find them out as it goes."""
    return _published(part, preset).changed(
        joint=False, masked=True, ask_always=False, encoder="nodes", network="slots", hidden=[64, 64], learner=PPO,
        jobsets={"smoke": 8, "small": 1000, "paper": 4000}[preset], iterations=None,
        simulations={"smoke": 8, "small": 256, "paper": 256}[preset],
        choices={"smoke": 800, "small": 1_000_000, "paper": 10_000_000}[preset],
        validation_jobsets={"smoke": 4, "small": 64, "paper": 200}[preset],
        **({"steps": 200, "limit": 800, "settings": {"hidden": True}} if hidden else {}),
    )  # fmt: skip


def _checked(log: Workload | None) -> None:
    if log is not None:
        raise InputError("distances, affinities and failing learn from generated jobs: name no log")


def distances(log: Workload | None, preset: str) -> NodesConfig:
    """The slides' part A: two nodes, jobs that prefer one of them."""
    _checked(log)
    return _published("distances", preset)


def affinities(log: Workload | None, preset: str) -> NodesConfig:
    """The slides' part B: six nodes, applications that run faster on some of them."""
    _checked(log)
    return _published("affinities", preset)


def our_distances(log: Workload | None, preset: str, hidden: bool = False) -> NodesConfig:
    """`distances+`: part A with a network for every node, and PPO."""
    _checked(log)
    return _ours("distances", preset, hidden).changed(system="distances+")


def our_affinities(log: Workload | None, preset: str, hidden: bool = False) -> NodesConfig:
    """`affinities+`: part B with a network for every node, and PPO."""
    _checked(log)
    return _ours("affinities", preset, hidden).changed(system="affinities+")


def failing(log: Workload | None, preset: str, risk: bool = True) -> NodesConfig:
    """Part C: nodes that fail; one network for every node, which sees how likely that is forecast to be (`risk`)."""
    _checked(log)
    own = {"encoder_settings": {"risk": True}} if risk else {}
    return _ours("failing", preset).changed(ask_always=True, reward="safe", warm_rule="first", **own)
