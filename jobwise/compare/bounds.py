"""What a bound on waits costs: each scheduler again under start deadlines of several bounds, in continuous replays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from jobwise.compare.baselines import DEEP
from jobwise.errors import InputError
from jobwise.parallel import Shared, current
from jobwise.policies.scheduler import Scheduler
from jobwise.simulate import simulate
from jobwise.workload import Workload

BOUNDS = (1.0, 1.1, 1.2, 1.5, 2.0)


class AtBound(NamedTuple):
    """A scheduler under start deadlines of `bound`: means over replays, and the largest multiple of the longest wait of the
    first scheduler."""

    bound: float
    bounded_slowdown: float
    max_wait: float  # s
    largest: float


def curves(
    parts: Sequence[Workload],
    policies: Sequence[Scheduler],
    names: Sequence[str],
    first: Sequence[dict[str, float]],
    settings: dict,
) -> dict[str, list[AtBound]]:
    """Return {name: its curve} for those policies that may have start deadlines, where the queue is not too deep. `parts`:
    replays; `first`: summaries of the first scheduler in them."""
    power = parts[0].cluster.power
    if (
        (power and power.cap)
        or not parts[0].cluster.is_pool
        or (parts[0].jobs["unmet"] > 0).any()
        or first[0]["queue_length"] > DEEP
    ):
        return {}
    promised: dict[str, list[Scheduler]] = {}
    orders = set()
    for policy, name in zip(policies, names, strict=True):
        try:
            several = [policy.promising(b) for b in BOUNDS]
        except InputError:  # of an order or a backfilling that no promise goes with
            continue
        if several[0].name not in orders:  # guards are left out: the same order comes once
            orders.add(several[0].name)
            promised[name] = several
    with current() as workers:
        each = [(policy, bound) for several in promised.values() for policy, bound in zip(several, BOUNDS, strict=True)]
        points = workers.map(partial(_at, workers.put(list(parts)), first, settings), each)
    return {name: points[k * len(BOUNDS) : (k + 1) * len(BOUNDS)] for k, name in enumerate(promised)}


def _at(parts: Shared, first: Sequence[dict[str, float]], settings: dict, promised: tuple[Scheduler, float]) -> AtBound:
    """A scheduler under start deadlines, in all replays."""
    policy, bound = promised
    summaries = [simulate(w, policy, **settings).summary() for w in parts.get()]
    ratios = [max(a["max_wait"], 1.0) / max(b["max_wait"], 1.0) for a, b in zip(summaries, first, strict=True)]
    slowdown, longest = (float(np.mean([s[key] for s in summaries])) for key in ("bounded_slowdown", "max_wait"))
    return AtBound(bound, slowdown, longest, max(ratios))
