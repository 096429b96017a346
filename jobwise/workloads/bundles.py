"""Prepare a graph of tasks before it is scheduled: classes, bundles of independent tasks, cuts in two (MARS)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.errors import InputError
from jobwise.sim.dag import bundle
from jobwise.workloads.workflows import Workflow

CLASSES = ("cpu", "memory", "io")  # what a task needs most of

Weights = tuple[float, float, float]  # of CPU, memory and I/O
EVEN: Weights = (1.0, 1.0, 1.0)


def classes(w: Workflow, cores: int, memory_mb: float = 0.0, weights: Weights = EVEN) -> np.ndarray:
    """[N] an index of CLASSES: the largest of cores / `cores`, memory / `memory_mb` (0: of the largest task) and bytes read and
    written / those of the task with most, times `weights`. Raises InputError."""
    if len(weights) != 3 or not all(0 <= x < np.inf for x in weights):
        raise InputError(f"weights are three numbers >= 0, not {weights}")
    t = w.tasks
    shares = [
        t["cores"] / max(cores, 1),
        t["memory"] / (memory_mb or max(t["memory"].max(), 1e-9)),
        t["io"] / max(t["io"].max(), 1e-9),
    ]
    return np.argmax(np.stack(shares) * np.array(weights)[:, None], axis=0)


def bundled(w: Workflow, cores: int, most: int = 4, spread: float = 2.0, kinds: np.ndarray | None = None) -> Workflow:
    """Independent tasks together as one parallel task: those of a level, a program and a class (`kinds`, by default `classes`),
    shortest first, at most `most` of them, on at most `cores` cores, the longest estimate at most `spread` times the shortest.
    A bundle has the cores of its tasks and takes as long as the longest. Raises InputError."""
    if most < 1 or cores < 1 or not spread >= 1:
        raise InputError(f"bundles of up to {most} tasks on {cores} cores, {spread:g} times as long as the shortest, cannot be")
    t, kinds = w.tasks, classes(w, cores) if kinds is None else kinds
    order = np.lexsort((np.arange(len(w)), t["estimate"], t["program"], kinds, w.levels))
    of = np.empty(len(w), np.int64)
    count = bundle(order, w.levels, kinds, t["estimate"], t["cores"], cores, most, spread, of)
    first = np.full(count, len(w))
    np.minimum.at(first, of, np.arange(len(w)))
    made = w.tasks[first].copy()
    for key in ("runtime", "estimate"):
        made[key] = 0
        np.maximum.at(made[key], of, t[key])
    for key in ("cores", "gpus", "memory", "io"):
        made[key] = np.bincount(of, weights=t[key], minlength=count)
    sizes = np.bincount(of, minlength=count)
    names = tuple(w.names[i] + (f" and {n - 1} more" if n > 1 else "") for i, n in zip(first, sizes, strict=True))
    notes = w.notes | {"tasks in bundles": int(sizes[sizes > 1].sum())}
    return replace(w, tasks=made, edges=of[w.edges], names=names, notes=notes)


def in_two(count: int, edges: np.ndarray, level: np.ndarray) -> np.ndarray:
    """[count] bool: the second of two parts of a graph. It is cut between levels: where the parts differ by a tenth of the
    tasks at most, where fewest edges are cut; else where they are most alike. A graph of one level, or without edges, is cut in
    the middle of its rows. Nothing of the first part waits for the second."""
    rows = np.arange(count)
    tops = int(level.max(initial=0))
    if not len(edges) or tops == 0:
        return rows >= count - count // 2
    above = np.cumsum(np.bincount(level, minlength=tops + 1))[:-1]  # tasks above a cut after level 0, 1 …
    cut = np.zeros(tops + 1)
    np.add.at(cut, level[edges[:, 0]], 1)  # an edge is cut from its parent's level …
    np.add.at(cut, level[edges[:, 1]], -1)  # … to the one before its child's
    cut, gap = np.cumsum(cut)[:-1], np.abs(2 * above - count)
    near = gap <= 0.1 * count
    best = int(np.argmin(np.where(near, cut, np.inf))) if near.any() else int(np.argmin(gap))
    return level > best
