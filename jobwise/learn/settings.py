"""Settings of learners, and their checks. No torch."""

from __future__ import annotations

from dataclasses import dataclass, fields

ALONE = ("reinforce", "actor_critic", "ppo", "one_step_ac", "dqn")  # learners (`learners.py`)
OF_VALUES = ("dqn",)  # learners whose network says values of actions
WITHOUT_CRITIC = ("reinforce", *OF_VALUES)
PARALLEL = ("a3c", "a3c_ppo")  # those of many workers (`workers.py`)


@dataclass(frozen=True)
class Settings:
    """Settings of learners. Defaults are those of our own per-job system; sources of others in `systems/`."""

    learner: str = "ppo"
    steps: int = 64  # choices per simulation between updates
    gamma: float = 1.0
    lam: float = 0.97
    actor_lr: float = 1e-3
    critic_lr: float = 2e-3
    epochs: int = 3  # passes over a rollout (PPO)
    minibatches: int = 4
    workers: int = 4  # of a3c and a3c_ppo: each has so many simulations, and a copy of the networks
    critic_first: int = 0  # updates in which the critic alone learns, after a cold start
    cost: float = 0.0  # what the expected cost of a choice weighs in the loss (MARS's ablation)
    clip: float = 0.2
    target_kl: float = 0.02
    entropy: float = 0.003
    max_norm: float = 1.0
    critic: str = "pooled"
    baseline: str = "batch"  # REINFORCE: "batch" standardises returns, "time" subtracts the mean of runs of the same jobs
    explore: float = 1.0  # of dqn: the share of choices at random, at the begin; it falls by `explore_decay` with each update
    explore_decay: float = 0.995
    explore_least: float = 0.02
    target_every: int = 100  # updates after which dqn's targets come from the present network
    optimiser: str = "adam"  # or "rmsprop" (DeepRM's), "sgd"


def check_learner(value: dict) -> dict:
    """Return the settings of a learner unchanged, if they are valid. Raises ValueError."""
    known = {f.name: type(f.default) for f in fields(Settings)}
    if wrong := set(value) - set(known):
        raise ValueError(f"unknown learner setting {sorted(wrong)[0]!r}; known: {', '.join(sorted(known))}")
    named = {
        "learner": (*ALONE, *PARALLEL),
        "critic": ("pooled", "window"),
        "baseline": ("batch", "time"),
        "optimiser": ("adam", "rmsprop", "sgd"),
    }
    may_be_0 = ("gamma", "lam", "entropy", "critic_first", "cost", "explore", "explore_least")
    shares = ("gamma", "lam", "explore", "explore_decay", "explore_least")
    for key, x in value.items():
        if key in named:
            if x not in named[key]:
                raise ValueError(f"unknown {key} {x!r}; known: {', '.join(named[key])}")
        elif isinstance(x, bool) or not isinstance(x, int if known[key] is int else (int, float)):
            raise ValueError(f"{key} is {x!r}; a number is expected")
        elif not (0 < x < 1e12 or (x == 0 and key in may_be_0)) or (key in shares and x > 1):
            raise ValueError(f"{key} is {x!r}; it must be {'0 to 1' if key in shares else 'more than 0'}")
    if value.get("learner") == "one_step_ac" and value.get("steps") != 1:
        raise ValueError("one_step_ac learns from one step: steps = 1")
    learner = value.get("learner", "ppo")
    if value.get("critic_first") and learner in WITHOUT_CRITIC:
        raise ValueError(f"{learner} has no critic: critic_first is for the others")
    own = sorted({"explore", "explore_decay", "explore_least", "target_every"} & set(value))
    if own and learner not in OF_VALUES:
        raise ValueError(f"{own[0]} is for the learner {', '.join(OF_VALUES)}, not for {learner}")
    if value.get("baseline") == "time" and value.get("learner", "ppo") != "reinforce":
        raise ValueError("the baseline 'time' goes with the learner 'reinforce'")
    return value


def check_hidden(value: list[int], least: int = 0) -> list[int]:
    """Sizes of hidden layers as they are, if they can be. Raises ValueError."""
    if not least <= len(value) <= 20 or any(not 1 <= n <= 100_000 for n in value):
        raise ValueError(f"hidden layers are {least} to 20, of 1 to 100,000")
    return value
