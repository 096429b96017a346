"""Whole jobsets, played by any policy of a world that has episodes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobwise.policies.chooser import Chooser
from jobwise.workload import Workload


def played(
    sets: Sequence[Workload], policy: Chooser, cost_s: float | np.ndarray = 0.0, limit: int = 1000, seed: int = 0
) -> np.ndarray:
    """Return [K] of the world's `report_dtype`: what becomes of whole jobsets, each cut after `limit` rows (T_max), where jobs
    that have not ended count as if they ended then. `cost_s`: s that a restart takes, of each or of all. `total` / `started` is
    a jobset's mean slowdown (GPUs), or the mean time in the system in rows (nodes). Raises InputError."""
    world = policy.episodes(sets, cost_s, limit)
    world.state.sims["restart_cost"] = cost_s
    world.seed_rules(seed)
    world.state.sims["seed"] = seed + np.arange(len(sets))
    world.begin_with(np.arange(len(sets)))
    choose = policy.chooser(world, world.cluster)
    while not world.done.all():
        world.step(choose(world), False, 0, len(sets))
    return world.transition.copy()
