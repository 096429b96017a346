"""Whole job sequences on GPUs, played by any policy of the world of assignments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobwise.errors import InputError
from jobwise.policies.chooser import Chooser
from jobwise.workload import Workload
from jobwise.worlds.assignment_episodes import AssignmentEpisodes
from jobwise.worlds.assignment_world import Assignment


def played(
    sets: Sequence[Workload], policy: Chooser, cost_s: float | np.ndarray = 0.0, limit: int = 1000, seed: int = 0
) -> np.ndarray:
    """[K] of `report_dtype`: what becomes of whole job sequences, each cut after `limit` rows (T_max), where jobs that have not
    ended count as if they ended then. `cost_s`: s that a restart takes, of each sequence or of all. `total` / `started`
    is a sequence's mean slowdown."""
    if not isinstance(getattr(policy, "world", None), Assignment):
        raise InputError(f"{getattr(policy, 'name', policy)} does not assign GPUs; rules that do are named gpus:…")
    world = AssignmentEpisodes(len(sets), sets, policy.world, policy.tick, 0.0, limit, True)
    world.state.sims["restart_cost"] = cost_s
    world.seed_rules(seed)
    world.state.sims["seed"] = seed + np.arange(len(sets))
    world.begin_with(np.arange(len(sets)))
    choose = policy.chooser(world, world.cluster)
    while not world.done.all():
        world.step(choose(world), False, 0, len(sets))
    return world.transition.copy()
