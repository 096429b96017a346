"""Scores of policies on whole unseen jobsets, and the differences of policies. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jobwise.compare.intervals import Effect, crossed, in_blocks
from jobwise.jobs import DONE
from jobwise.metrics import normalised_turnaround, wait
from jobwise.policies.chooser import Chooser
from jobwise.policies.files import short
from jobwise.policies.names import resolve
from jobwise.policies.played import played
from jobwise.record import Record
from jobwise.simulate import simulate_many
from jobwise.workload import Workload
from jobwise.worlds.slots.policy import SlotsRule
from jobwise.worlds.slots.world import SlotsSettings

if TYPE_CHECKING:
    from jobwise.learn.jobset_config import JobsetConfig
    from jobwise.policies.neural import NeuralPolicy


def means(sets: Sequence[Workload], policy: str | Chooser, world: dict, seed: int = 0, row_s: float = 1.0) -> dict[str, list]:
    """Per jobset: mean slowdown, longest wait (rows), how much longer jobs ran than at their best, jobs not done; and all
    jobs' slowdowns. `world`: of a rule, whose rows are `row_s` s; a trained policy brings its own."""
    chosen = SlotsRule(policy, SlotsSettings.of(world), row_s) if isinstance(policy, str) else policy
    return of_records(simulate_many(sets, chosen, seed=seed), chosen.tick)


def of_records(records: Sequence[Record], row_s: float) -> dict[str, list]:
    """Return the same numbers of records, one a jobset, whose rows are `row_s` s."""
    done = [r.jobs["status"] == DONE for r in records]
    return {
        "slowdown": [float(normalised_turnaround(r).mean()) for r in records],
        "longest": [float(wait(r).max(initial=0.0)) / row_s for r in records],
        "stretch": [
            float(((r.jobs["end"] - r.jobs["start"])[d] / r.runtime[d]).mean() - 1) for r, d in zip(records, done, strict=True)
        ],
        "lost": [int((~d).sum()) for d in done],
        "kinds": [
            [float(x[r.jobs["kind"][d] == k].mean()) if (r.jobs["kind"][d] == k).any() else float("nan") for k in (0, 1)]
            for r, d, x in ((r, d, normalised_turnaround(r)) for r, d in zip(records, done, strict=True))
        ],
        "jobs": [round(float(x), 4) for r in records for x in normalised_turnaround(r)],
    }


def assigned(
    sets: Sequence[Workload], policy: str | Chooser, cost_s: float | np.ndarray, limit: int, seed: int = 0
) -> dict[str, list]:
    """Return the same numbers of policies that assign GPUs, where sequences are cut at `limit` rows and what has not ended
    counts as if it ended then; `stretch`: restarts per job. And their rewards, as shares of the cluster's speed summed over
    the rows: of throughput, less pen1, less both penalties."""
    chosen = resolve(policy) if isinstance(policy, str) else policy
    z = played(sets, chosen, cost_s, limit, seed)
    rewards = [z["all_speed"], z["all_speed"] - z["all_idle"], z["all_speed"] - z["all_idle"] - z["all_short"]]
    return {
        "slowdown": (z["total"] / z["started"]).tolist(),
        "longest": (z["longest"] / chosen.tick).tolist(),
        "stretch": (z["all_changes"] / z["started"]).tolist(),
        "lost": (z["started"] - z["done"]).astype(int).tolist(),
        "speed": (z["all_speed"] / z["all_rows"]).tolist(),
        "rewards": [(x / z["peak"]).tolist() for x in rewards],
    }


def placed(sets: Sequence[Workload], policy: Chooser, limit: int, seed: int = 0) -> dict[str, list]:
    """Return the same numbers of policies that say which node a job goes to; `slowdown` is the mean time in the system in
    rows, `stretch` how unevenly the nodes are used (as a share of a node), `reward` the sum of minus the jobs in the
    system; `undone` rows of work and `hit` jobs, by failures."""
    z = played(sets, policy, 0.0, limit, seed)
    return {
        "slowdown": (z["total"] / z["started"]).tolist(),
        "longest": z["longest"].tolist(),
        "stretch": (z["uneven"] / z["all_rows"] / sets[0].cluster.capacity[0, 0]).tolist(),
        "lost": (z["started"] - z["done"]).astype(int).tolist(),
        "reward": (-z["total"]).tolist(),
        "undone": z["all_lost"].tolist(),
        "hit": z["hit"].tolist(),
    }


def change(ours: np.ndarray, base: np.ndarray, windows: bool = False) -> Effect:
    """The effect of ours ([K] jobsets, or [S, K] seeds × jobsets) against base [K]. `windows`: jobsets are windows of a log,
    and neighbours are put into blocks of two."""
    d = np.log(np.atleast_2d(np.asarray(ours, float)) / np.asarray(base, float))
    return crossed(np.array([in_blocks(x) for x in d]) if windows else d)


def text(e: Effect) -> str:
    """Return an effect as in "-51.0% [-54.0%, -48.1%]"."""
    return e.text("+.1%")


@dataclass(frozen=True)
class OnJobsets:
    """Policies on jobsets that the trained one has not seen. `results`: name -> numbers per jobset (`JobsetConfig.judged`).
    `measure`, `aside`: in words, `slowdown` and `stretch`. `windows`: jobsets are neighbouring windows of a log."""

    policy: str
    results: dict[str, dict[str, list]]
    count: int
    measure: str
    aside: str
    windows: bool
    note: str

    @property
    def best(self) -> str:
        """The best rule, of those that know no types of jobs, if there are such."""
        rules = [n for n in self.results if n != self.policy]
        plain = [n for n in rules if not n.endswith("typed")] or rules
        return min(plain, key=lambda n: float(np.mean(self.results[n]["slowdown"])))

    def changes(self) -> dict[str, Effect]:
        """Each policy's effect against the best rule."""
        base = np.asarray(self.results[self.best]["slowdown"])
        return {n: change(np.asarray(x["slowdown"]), base, windows=self.windows) for n, x in self.results.items()}


def on_jobsets(
    config: JobsetConfig,
    sets: Sequence[Workload],
    policy: NeuralPolicy,
    rules: Sequence[str],
    seed: int = 0,
    progress: Callable[..., None] | None = None,
) -> OnJobsets:
    """Play jobsets with a trained policy and with rules, by the configuration that it was trained with. Raises InputError."""
    results = {}
    several: list[Any] = [*rules, policy]
    for i, one in enumerate(several):
        name = one if isinstance(one, str) else one.label
        results[name] = config.judged(sets, one, seed, policy.tick)
        if progress:
            progress(i + 1, len(rules) + 1, name)
    return OnJobsets(policy.label, results, len(sets), config.measure, config.aside, config.logged, short(policy.about))
