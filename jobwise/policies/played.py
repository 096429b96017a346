"""Whole jobsets, played by any policy of the world of assignments or of buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobwise.errors import InputError
from jobwise.policies.chooser import Chooser
from jobwise.policies.neural import NeuralPolicy
from jobwise.workload import Workload
from jobwise.worlds.assignment_episodes import AssignmentEpisodes
from jobwise.worlds.assignment_world import Assignment
from jobwise.worlds.buffer_world import BufferEpisodes, Places


def played(
    sets: Sequence[Workload], policy: Chooser, cost_s: float | np.ndarray = 0.0, limit: int = 1000, seed: int = 0
) -> np.ndarray:
    """[K] of the world's `report_dtype`: what becomes of whole jobsets, each cut after `limit` rows (T_max), where jobs that
    have not ended count as if they ended then. `cost_s`: s that a restart takes, of each or of all. `total` / `started` is a
    jobset's mean slowdown (GPUs), or the mean time in the system in rows (buffers)."""
    if isinstance(settings := getattr(policy, "world", None), Places):
        world = BufferEpisodes(len(sets), sets, settings, limit, True, _known(policy, sets[0]))
    elif isinstance(settings, Assignment):
        world = AssignmentEpisodes(len(sets), sets, settings, policy.tick, 0.0, limit, True)
    else:
        raise InputError(f"{getattr(policy, 'name', policy)} does not assign GPUs or nodes; rules are named gpus:… and nodes:…")
    world.state.sims["restart_cost"] = cost_s
    world.seed_rules(seed)
    world.state.sims["seed"] = seed + np.arange(len(sets))
    world.begin_with(np.arange(len(sets)))
    choose = policy.chooser(world, world.cluster)
    while not world.done.all():
        world.step(choose(world), False, 0, len(sets))
    return world.transition.copy()


def _known(policy: Chooser, w: Workload) -> np.ndarray | None:
    """How long jobs took in training; None for a network that was trained on other nodes."""
    prior = getattr(policy, "prior", None)
    other = prior is not None and prior.shape != (policy.world.kinds, len(w.cluster.capacity))
    return None if other and isinstance(policy, NeuralPolicy) else prior
