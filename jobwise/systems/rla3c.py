"""RL-A3C, the model of MARS (Baheri, Guan, arXiv:2005.01584): 13 features of a job and 5 of the cluster, a 32-16-8-1 network
per job, actor-critic with asynchronous workers.

`rl-a3c` is as published: a picked job must start next, the mean bounded slowdown at the end, A3C with RMSProp from random
weights. `mars` is the same with MARS's generations, which are rolled back. `mars+` is ours: re-deciding, features as
logarithms, a cold start by imitation of the rule that did best, clipped updates, generations. What MARS does around them is in
`mars.py`. See `docs/systems/mars.md`.
"""

from __future__ import annotations

from jobwise.learn.config import Config
from jobwise.workload import Workload
from jobwise.workloads.streams import has_flows

BUDGET = {"smoke": 20_000, "small": 1_000_000, "paper": 10_000_000}
SHARED = {"gamma": 0.99, "lam": 0.97, "critic_lr": 3e-3, "entropy": 0.0, "critic": "window", "workers": 4}
MARS = SHARED | {"learner": "a3c_ppo", "steps": 64, "actor_lr": 2e-3, "critic_first": 8}
JUDGED = {"validate_seen": True, "validation_windows": 64}
A3C = SHARED | {"learner": "a3c", "steps": 16, "actor_lr": 1e-3, "entropy": 0.003, "optimiser": "rmsprop"}


def _sizes(log: Workload, preset: str) -> dict:
    jobs = min(256, max(len(log) // 20, 2))
    return {
        "encoder": "mars",
        "choices": BUDGET[preset],
        "simulations": 16 if preset == "smoke" else 256,
        "jobs": jobs,
        "validations": {"smoke": 4, "small": 20, "paper": 50}[preset],
    }


def configure(log: Workload, preset: str) -> Config:
    """MARS's model for a log: that of `rl-a3c`, whose generations are judged on what it has not learnt from yet."""
    return configure_plain(log, preset).changed(system="mars", rollback=True, **JUDGED)


def ours(log: Workload, preset: str) -> Config:
    """`mars+`: ours, for a log, for streams of workflows, or for the windows of a model store."""
    warm, learner = (40, MARS | {"steps": 32, "critic_first": 2}) if preset == "smoke" else (400, MARS)
    sizes = _sizes(log, preset)
    if has_flows(log):  # a stream is an episode; the network sees where a task stands in its workflow
        sizes |= {"encoding": {"flows": True}, "shake_s": 0.0, "streams": 2 if preset == "smoke" else 8}
        sizes |= {"workflows": 4 if preset == "smoke" else 30, "simulations": 16 if preset == "smoke" else 64}
    return Config(system="mars+", warm=warm, rollback=True, learner=learner, **JUDGED, **sizes)


def configure_plain(log: Workload, preset: str) -> Config:
    """The published environment and learner, without MARS's logic."""
    settings = {"act": "commit", "backfill": "greedy", "reward": "bounded_slowdown_end", "encoding": {"logs": False}}
    learner = A3C | {"gamma": 1.0, "steps": 256}  # an episode of 256 jobs is 256 choices
    return Config(system="rl-a3c", shake_s=0.0, learner=learner, **settings, **_sizes(log, preset))


def without(config: Config) -> Config:
    """Plain actor-critic in the same environment as `ours`: no cold start, no generations, A3C."""
    return config.changed(system="actor-critic", warm=0, rollback=False, validate_seen=False, learner=A3C)
