"""Play jobsets on a grid of time under a rule or a trained policy: the records, as those of `simulate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from jobwise.errors import InputError, unknown
from jobwise.learn.slots_env import GridVectorEnv
from jobwise.policies.slots import WORLD, GridPolicy
from jobwise.record import Record
from jobwise.workload import Workload
from jobwise.worlds.slot_rules import RULES

AT_ONCE = 256  # jobsets side by side
LIMIT = 20_000  # rows after which an episode is cut


def play(
    workloads: Sequence[Workload],
    policy: str | GridPolicy,
    world: dict | None = None,
    *,
    seed: int = 0,
    limit: int = LIMIT,
    watch: Callable[[GridVectorEnv], None] | None = None,
) -> list[Record]:
    """One record per jobset. `policy`: a trained one, or RULE[+PLACEMENT] of `jobwise.worlds.slot_rules` (`sjf`,
    `tetris+pack`).

    Times are rows. `world`: settings of the GridVectorEnv (a policy brings its own). Jobs turned away are FAILED,
    those of an episode cut at `limit` rows have no end. `watch` is called before every action. Raises InputError.
    """
    if isinstance(policy, str):
        rule, _, placement = policy.partition("+")
        if rule not in RULES:
            raise unknown("rule", rule, RULES)
        world = {"encoder": "slots", **(world or {}), "order": "", "masked": True}
        world |= {"placements": [placement or world.get("placements", WORLD["placements"])[0]], "ask_always": True}
    else:
        world = {**(world or {}), **policy.world}
    found = []
    for first in range(0, len(workloads), AT_ONCE):
        part = workloads[first : first + AT_ONCE]
        env = GridVectorEnv(len(part), part, each=True, copy=False, limit=limit, **world)
        if isinstance(policy, GridPolicy):
            policy.check(env)
        env.seed_rules(seed + first)
        env.begin(np.arange(len(part)))
        over, rng = np.zeros(len(part), bool), np.random.default_rng([seed, first])
        while not over.all():
            if watch:
                watch(env)
            actions = env.by_rule(policy) if isinstance(policy, str) else policy.choose(env, rng)
            over = env.choose(actions) > 0
        name = policy if isinstance(policy, str) else policy.label
        for e, w in enumerate(part):
            found.append(Record(env.jobs(e).copy(), w.truth["runtime"], w.cluster, name, w))
        env.close()
    return found


def to_rows(w: Workload, row_s: float) -> Workload:
    """The workload on a grid of rows of `row_s` s: submits rounded down, lengths up, at least one. Its times are rows then."""
    if not 0 < row_s < 1e9:
        raise InputError(f"rows of {row_s:g} s cannot be")
    jobs, truth = w.jobs.copy(), w.truth.copy()
    jobs["submit"] = np.floor(jobs["submit"] / row_s)
    jobs["walltime"] = np.maximum(np.ceil(jobs["walltime"] / row_s), 1.0)
    truth["runtime"] = np.maximum(np.ceil(truth["runtime"] / row_s), 1.0)
    return replace(w, jobs=jobs, truth=truth)
