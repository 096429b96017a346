"""What two numbers gain where restarts are dear: the price of a restart, and a bonus for jobs that hold GPUs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from jobwise.learn.judged import assigned, change, text
from jobwise.policies.names import resolve
from jobwise.report.sections import Section, Table
from jobwise.workloads.dnn import rltaps
from jobwise.workloads.jobsets import TEST, VALIDATION
from jobwise.worlds.gpus.knapsack import HELD, RESTART, THETA
from jobwise.worlds.gpus.policy import GpusRule
from jobwise_experiments.study import Study, prose

PRICES, BONUSES = (1.0, 1.35, 1.8, 2.5), (0.0, 0.15, 0.3, 0.6)  # times the restart's price; of the logarithm of a weight
LIMIT = 1000  # rows


def hysteresis(s: Study, rules: dict, costs: tuple[float, ...], preset: str, sizes: tuple[int, int]) -> Section:
    """The rule `both` with its two numbers tuned, beside itself. `rules`: what `both` did, by work and restart cost (s);
    `sizes`: (unseen sequences, jobs of each)."""
    rows, kept, (count, steps) = [], 2 if preset == "smoke" else 20, sizes
    for work, cost in product(("seed", "lab"), costs):

        def measured(work: str = work, cost: float = cost) -> dict:
            earlier = [rltaps(steps, [VALIDATION, i], work=work) for i in range(kept)]
            tried = {x: np.mean(assigned(earlier, tuned(*x), cost, LIMIT)["slowdown"]) for x in product(PRICES, BONUSES)}
            price, bonus = min(tried, key=tried.get)
            sets = [rltaps(steps, [TEST, i], work=work) for i in range(count)]
            plain = min(PRICES, key=lambda p: tried[p, 0.0])
            results = {
                k: assigned(sets, x, cost, LIMIT)["slowdown"]
                for k, x in (("both", tuned(price, bonus)), ("price", tuned(plain, 0.0)))
            }
            return results | {"chosen": [price, bonus, plain]}

        x = s.piece(f"hysteresis-{work}-{cost:g}s", measured)
        base, (price, bonus, plain) = rules[work][cost]["gpus:both"]["slowdown"], x["chosen"]
        rows.append([work, f"{cost:g}", f"{np.mean(base):.3g}", f"x {plain:g}", text(change(x["price"], base)),
                     f"x {price:g}, {bonus:+g}", text(change(x["both"], base))])  # fmt: skip
    note = prose("rltaps_hysteresis", "hysteresis", kept=kept, prices=len(PRICES), bonuses=len(BONUSES), count=count)
    columns = ["work", "restart s", "both", "price", "price alone", "price, bonus", "both tuned"]
    return Section("Restarts: how much is two numbers", note, [Table(columns, rows)])


def tuned(price: float, bonus: float) -> GpusRule:
    """The rule `both`, a restart `price` times as dear, and a `bonus` in the logarithm of the weight of jobs that hold GPUs."""
    theta = np.zeros((1, THETA))
    theta[0, RESTART], theta[0, HELD] = np.log(price), bonus  # where all are 0, `learned` is `both`
    both = resolve("gpus:both")
    return replace(both, rule="learned", theta=theta, label=f"both, restarts x {price:g}, bonus {bonus:g}")
