"""What two numbers gain where restarts are dear: the price of a restart, and a bonus for jobs that hold GPUs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from jobwise.learn.judged import assigned
from jobwise.policies.names import resolve
from jobwise.report.sections import Section
from jobwise.workloads.dnn import rltaps
from jobwise.workloads.jobsets import TEST, VALIDATION
from jobwise.worlds.gpus.knapsack import HELD, RESTART, THETA
from jobwise.worlds.gpus.policy import GpusRule
from jobwise_experiments.study import Arms, Study

PRICES, BONUSES = (1.0, 1.35, 1.8, 2.5), (0.0, 0.15, 0.3, 0.6)  # times the restart's price; of the logarithm of a weight
LIMIT = 1000  # rows


def hysteresis(s: Study, rules: dict[tuple[str, float], Arms], size: tuple[int, int]) -> Section:
    """The rule `both` with its two numbers tuned, beside itself. `rules`: what `both` did, by work and restart cost (s);
    `size`: (unseen sequences, jobs of each)."""
    rows, kept, (count, steps) = [], s.pick(2, 20, 20), size

    def measured(work: str, cost: float) -> dict:
        earlier, sets = ([rltaps(steps, [a, i], work=work) for i in range(b)] for a, b in ((VALIDATION, kept), (TEST, count)))
        tried = {x: np.mean(assigned(earlier, tuned(*x), cost, LIMIT)["slowdown"]) for x in product(PRICES, BONUSES)}
        price, bonus = min(tried, key=tried.get)
        plain = min(PRICES, key=lambda p: tried[p, 0.0])
        chosen = {"both": tuned(price, bonus), "price": tuned(plain, 0.0)}
        return {k: assigned(sets, p, cost, LIMIT)["slowdown"] for k, p in chosen.items()} | {"chosen": [price, bonus, plain]}

    for (work, cost), base in rules.items():
        tried = s.piece(f"hysteresis-{work}-{cost:g}s", measured, work, cost)
        price, bonus, plain = tried["chosen"]
        x = Arms({"rule": base["gpus:both"]} | {k: {"slowdown": tried[k]} for k in ("both", "price")})
        alone, both = x.change("price", "rule"), x.change("both", "rule")
        rows.append([work, f"{cost:g}", x.mean("rule"), f"x {plain:g}", alone, f"x {price:g}, {bonus:+g}", both])
    values = {"kept": kept, "prices": len(PRICES), "bonuses": len(BONUSES), "count": count}
    return s.section("Restarts: how much is two numbers", rows, **values)


def tuned(price: float, bonus: float) -> GpusRule:
    """The rule `both`, a restart `price` times as dear, and a `bonus` in the logarithm of the weight of jobs that hold GPUs."""
    theta = np.zeros((1, THETA))
    theta[0, RESTART], theta[0, HELD] = np.log(price), bonus  # where all are 0, `learned` is `both`
    both = resolve("gpus:both")
    return replace(both, rule="learned", theta=theta, label=f"both, restarts x {price:g}, bonus {bonus:g}")
