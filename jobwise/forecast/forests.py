"""Forests that forecast run times from what is known of a job (`sim/memory.py`), learnt with LightGBM from jobs that ended.

Two outputs by cross-entropy: E[min(run / request, 1)] and E[10 / max(run, 10)]. A job is a row when it was submitted and, where
it waited for more than a minute, another one when it started, each of half the weight. A forest comes with the package, learnt
on other logs; a site's own trees begin with what it says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from jobwise.errors import InputError
from jobwise.jobs import TAU
from jobwise.sim.foresight import features_of
from jobwise.sim.forest import NOTHING, Forest, joined, node_dtype, raw_all

LATE_S = 60.0  # a job that waited longer is looked at again when it starts
ROWS = 30_000  # jobs that ended last, to learn from
LEAST = 500  # ended jobs to learn from
HOW = {
    "objective": "cross_entropy", "num_leaves": 15, "learning_rate": 0.05, "min_data_in_leaf": 80, "feature_fraction": 0.5,
    "lambda_l2": 1.0, "verbosity": -1, "deterministic": True, "force_row_wise": True, "seed": 0,
}  # fmt: skip
TREES = 120
THREADS = 2  # where OMP_NUM_THREADS says nothing; trees are the same with any number


def rows_of(past: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features [R, F], targets [R, 2], weights [R]) of jobs that ended, of past_dtype in order of end; `total` processors."""
    late = past["end"] - past["runtime"] - past["submit"] > LATE_S
    out, job = features_of(past, total, late)
    run, request = past["runtime"][job], np.maximum(past["walltime"][job], 1.0)
    y = np.stack([np.clip(run / request, 0, 1), TAU / np.maximum(run, TAU)], axis=1)
    keep = job >= len(past) - ROWS
    return out[keep], y[keep], np.where(late[job], 0.5, 1.0)[keep]


def check_lightgbm() -> None:
    """Raises InputError where LightGBM is not there."""
    try:
        import lightgbm  # noqa: F401
    except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
        raise InputError(f"trees of your own need lightgbm: pip install 'jobwise[forecast]' ({error})") from None


def learnt(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, base: Forest = NOTHING, trees: int = TREES, seed: int = 0
) -> Forest:
    """A forest of `trees` trees for each output, behind those of `base`. Raises InputError without LightGBM."""
    check_lightgbm()
    import lightgbm

    models, threads = [], 0 if os.environ.get("OMP_NUM_THREADS") else THREADS  # 0: as OpenMP has it
    for k in range(y.shape[1]):
        begin = None
        if len(base.tree):
            begin = np.empty(len(x))
            raw_all(base, x, k, begin)
        data = lightgbm.Dataset(x, y[:, k], weight=weight, init_score=begin, free_raw_data=True)
        models.append(lightgbm.train(HOW | {"seed": seed, "num_threads": threads}, data, trees))
    return joined(base, from_boosters(models))


def from_boosters(boosters: Sequence) -> Forest:
    """The trees of LightGBM's models, one of each output."""
    node: list[tuple | None] = []
    tree: list[int] = []
    bound = [0]

    def add(x: dict) -> int:
        at = len(node)
        node.append(None)
        if "split_feature" not in x:
            node[at] = (-1, 0, 0, x["leaf_value"])
            return at
        if x["decision_type"] != "<=":
            raise ValueError("trees ask of numbers alone")
        left, right = add(x["left_child"]), add(x["right_child"])
        node[at] = (x["split_feature"], left, right, x["threshold"])
        return at

    for b in boosters:
        tree += [add(t["tree_structure"]) for t in b.dump_model()["tree_info"]]
        bound.append(len(tree))
    return Forest(np.array(node, node_dtype), np.array(tree, np.int64), np.array(bound, np.int64))


def of_past(past: np.ndarray, total: int, base: Forest = NOTHING, trees: int = TREES) -> Forest:
    """A forest from jobs that ended, behind the trees of `base`; `base` itself where they are too few. Raises InputError."""
    if len(past) < LEAST:
        return base
    return learnt(*rows_of(past, total), base, trees)


def judged(f: Forest, x: np.ndarray, y: np.ndarray) -> list[float]:
    """The cross-entropy of each output on these rows, and R²: [ratio, short, R² of ratio, R² of short]."""
    rows = []
    p = np.empty((len(x), 2))
    for k in range(2):
        raw_all(f, x, k, p[:, k])
    p = np.clip(1 / (1 + np.exp(-p)), 1e-4, 1 - 1e-4)
    for k in range(2):
        rows.append(float(-(y[:, k] * np.log(p[:, k]) + (1 - y[:, k]) * np.log(1 - p[:, k])).mean()))
    return rows + [float(1 - ((y[:, k] - p[:, k]) ** 2).mean() / max(y[:, k].var(), 1e-12)) for k in range(2)]
