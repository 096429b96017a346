"""Rolling origins: learn or choose on the jobs before t, judge on the tenth of the log after it, for t = 0.4 … 0.9.

Six times as many unseen windows as one split has, and drift is seen. Effects of one log are put together block by block; those
of several logs by random effects (`intervals.pooled`). A bound on waits is kept only if it is kept in every origin and replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np

from jobwise.compare import windows
from jobwise.compare.baselines import Baselines
from jobwise.compare.comparison import Comparison
from jobwise.compare.intervals import Effect, effect, holm, in_blocks, log_ratio
from jobwise.compare.procedure import compare
from jobwise.decision import Policy
from jobwise.errors import InputError
from jobwise.workload import Workload

FROM, STEP, MOST = 0.4, 0.1, 6
FAIR = "fair best rule"


@dataclass(frozen=True, eq=False)
class Origins:
    """The result of `origins`. `at`: the shares t; `comparisons`: one each; `policies`: names, the last one FAIR: the rule
    chosen anew at each origin, `chosen`."""

    workload: Workload
    at: list[float]
    comparisons: list[Comparison]
    policies: list[str]
    chosen: list[str]
    bound: float = inf

    def place(self, k: int, p: int) -> int:
        """Where policy p stands in the comparison of origin k."""
        fair = self.comparisons[k].fair
        return fair if p == len(self.policies) - 1 and fair is not None else p

    def effects(self, base: int | None = None) -> list[Effect]:
        """[P] effects on windows against a policy, by default the fair best rule; blocks of all origins together."""
        base = len(self.policies) - 1 if base is None else base
        return [self._effect(p, base) for p in range(len(self.policies))]

    def _effect(self, p: int, base: int) -> Effect:
        d = []
        for k, c in enumerate(self.comparisons):
            x = c.windows["bounded_slowdown"]
            d.append(in_blocks(log_ratio(x[self.place(k, base)], x[self.place(k, p)])))
        return effect(np.concatenate(d))

    def waits(self, p: int, base: int = 0) -> tuple[float, float, float]:
        """Longest wait as a multiple of that of `base`, continuous replays: (median, least, most) over origins and replicas."""
        ratio = [x for k, c in enumerate(self.comparisons) for x in c.wait_ratios(self.place(k, p), self.place(k, base))]
        return float(np.median(ratio)), min(ratio), max(ratio)

    def keeps(self, p: int, bound: float, base: int = 0) -> bool:
        """Is the longest wait at most `bound` times that of `base` in every origin and replica?"""
        return self.waits(p, base)[2] <= bound

    @property
    def notes(self) -> list[str]:
        """The notes of all origins, each once."""
        return list(dict.fromkeys(n for c in self.comparisons for n in c.notes))

    def mean(self, p: int) -> float:
        """Mean bounded slowdown over all windows."""
        return float(
            np.concatenate([c.windows["bounded_slowdown"][self.place(k, p)] for k, c in enumerate(self.comparisons)]).mean()
        )

    def to_dict(self) -> dict:
        """For JSON: all origins together, and each alone."""
        effects = self.effects()
        adjusted = holm([e.p for e in effects[:-1]])
        rows = []
        for p, name in enumerate(self.policies):
            middle, least, most = self.waits(p)
            rows.append(
                {
                    "policy": name,
                    "bounded_slowdown": self.mean(p),
                    "against_fair": effects[p].to_dict() | {"p_holm": adjusted[p] if p < len(adjusted) else None},
                    "longest_wait_ratio": {"median": middle, "least": least, "most": most},
                    "keeps_bound": None if self.bound == inf else self.keeps(p, self.bound),
                    "by_origin": [
                        {"at": t, "bounded_slowdown": float(c.windows["bounded_slowdown"][self.place(k, p)].mean())}
                        for k, (t, c) in enumerate(zip(self.at, self.comparisons, strict=True))
                    ],
                }
            )
        return {"workload": self.workload.name, "origins": self.at, "fair": self.chosen, "notes": self.notes, "policies": rows}


def origins(
    workload: Workload,
    policies: Sequence[str | Policy],
    count: int = MOST,
    *,
    learn: Callable[[Workload, float], Policy] | None = None,
    max_wait: float = inf,
    window_jobs: int | None = None,
    replicas: int = 8,
    jitter_s: float | None = None,
    seed: int = 0,
    kill_at_walltime: bool = False,
    restart_cost_s: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Origins:
    """Compare policies at the last `count` of the origins 0.4 … 0.9. Settings as `compare`.

    `learn(earlier, t)`: a policy trained on the jobs before share t, which joins the others at that origin; it must have the
    same name everywhere. Raises InputError.
    """
    if not 1 <= count <= MOST:
        raise InputError(f"there are 1 to {MOST} origins, not {count}")
    at = [round(FROM + STEP * k, 1) for k in range(MOST)][-count:]
    size = window_jobs or min(windows.SIZE, int(STEP * len(workload)) // 2)  # two windows, a block, at each origin at least
    if int(STEP * len(workload)) < size or size < 2:
        raise InputError(f"{workload.name}: a tenth of {len(workload)} jobs is too little: its windows would have {size} jobs")
    begun = workload.take(slice(0, int(at[0] * len(workload))))
    jitter_s = windows.shake_for(begun) if jitter_s is None and replicas else jitter_s or 0.0
    shared: dict[str, Any] = {"replicas": replicas, "jitter_s": jitter_s, "seed": seed}
    shared |= {"kill_at_walltime": kill_at_walltime, "restart_cost_s": restart_cost_s}
    done, parts = 0, count * 100

    def step(upto: float) -> None:
        nonlocal done
        done = max(done, min(int(upto), parts))
        if progress:
            progress(done, parts)

    def ahead(k: int, done: int, total: int) -> None:
        step(100 * (k + done / max(total, 1)))

    cache: dict = {}  # windows are the same at every origin; what is chosen from is not

    comparisons, chosen = [], []
    for k, t in enumerate(at):
        more = [] if learn is None else [learn(workload.take(slice(0, int(t * len(workload)))), t)]
        earlier = Baselines(workload, 0, int(t * len(workload)), size, cache=cache, **shared)
        c = compare(
            workload,
            [*policies, *more],
            since=t,
            until=round(t + STEP, 1),
            max_wait=max_wait,
            window_jobs=size,
            hindsight=False,
            earlier=earlier,
            progress=partial(ahead, k),
            **shared,
        )
        comparisons.append(c)
        chosen.append(c.policies[c.fair or 0])
    names = [n for i, n in enumerate(comparisons[0].policies) if i < len(policies) + (learn is not None)]
    return Origins(workload, at, comparisons, [*names, FAIR], chosen, max_wait)
