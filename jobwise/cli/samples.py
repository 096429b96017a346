"""One step of each world, for `jobwise warm-up`: what first use of a world compiles."""

from __future__ import annotations

from typing import Any


def log():
    """Return a small generated log."""
    import jobwise

    jw: Any = jobwise

    return jw.lublin(600, procs=64, load=0.8, seed=1)


def environments(name: str, **settings) -> None:
    """Make four environments `name` and step them once."""
    import gymnasium
    import numpy as np

    import jobwise  # noqa: F401, for its environments

    envs = gymnasium.make_vec(name, num_envs=4, **settings)
    envs.reset(seed=0)
    envs.step(np.zeros_like(envs.action_space.sample()))


def window() -> None:
    """Step the world of windows."""
    environments("jobwise/Window-v0", workload=log())


def slots() -> None:
    """Step the world of slots."""
    import jobwise

    jw: Any = jobwise

    environments("jobwise/Slots-v0", workload=[jw.deeprm(seed=k) for k in range(4)])


def gpus() -> None:
    """Step the world of GPUs, and replay a rule."""
    import jobwise

    jw: Any = jobwise

    environments("jobwise/Gpus-v0", workload=jw.rltaps(20))
    jw.simulate(jw.rltaps(20), "gpus:slot")


def nodes() -> None:
    """Step the world of nodes with its encoders, and replay a rule."""
    import jobwise

    jw: Any = jobwise

    sets = [jw.affinities(seed=k) for k in range(4)]
    for encoder in ("nodes", "affinity"):
        environments("jobwise/Nodes-v0", workload=sets, encoder=encoder)
    environments("jobwise/Nodes-v0", workload=jw.distances(), encoder="distance", places=2, masked=True)
    jw.simulate(sets[0], "nodes:patient")
