"""Signatures of workflows: which are alike? Features of size and shape, and a Weisfeiler-Lehman histogram of the graph
(Shervashidze et al., JMLR 12, 2011): labels are classes, refined three times by those of parents and children."""

from __future__ import annotations

import numpy as np

from jobwise.cluster import Cluster, pool
from jobwise.sim.dag import refined
from jobwise.workloads.bundles import EVEN, Weights, classes
from jobwise.workloads.workflows import Workflow

ROUNDS, BINS, ALIKE = 3, 256, 0.85  # similar enough to share a model
FEATURES = (
    "log tasks", "log edges", "log levels", "log widest", "log mean width", "log work", "log critical path", "log parallelism",
    "cpu", "memory", "io",
)  # fmt: skip
CENTRE = np.array([5.0, 5.5, 1.7, 4.0, 3.2, 8.0, 5.2, 3.0, 0.3, 0.3, 0.3])  # of scientific workflows, about
SCALE = np.array([1.3, 1.3, 0.8, 1.4, 1.4, 2.0, 1.5, 1.5, 0.4, 0.4, 0.4])


def features(w: Workflow, kinds: np.ndarray) -> np.ndarray:
    """[F] FEATURES, about 0 with a spread of 1."""
    widths, work, path = np.bincount(w.levels), max(w.work, 1.0), max(w.critical_path, 1.0)
    shares = np.bincount(kinds, minlength=3) / len(w)
    numbers = [len(w), len(w.edges) + 1, len(widths), widths.max(), widths.mean(), work, path, max(work / path, 1.0)]
    return (np.concatenate([np.log(numbers), shares]) - CENTRE) / SCALE


def histogram(edges: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """[ROUNDS + 1, BINS] how many tasks have a label, round by round."""
    label, counts = kinds.astype(np.uint64) + np.uint64(1), np.zeros((ROUNDS + 1, BINS))
    for k in range(ROUNDS + 1):
        counts[k] = np.bincount((label % np.uint64(BINS)).astype(np.int64), minlength=BINS)
        new = np.empty_like(label)
        refined(label, edges, new)
        label = new
    return counts


def signature(w: Workflow, machine: Cluster | int, weights: Weights = EVEN) -> np.ndarray:
    """Return [F + (ROUNDS + 1) BINS] of a workflow on a machine, or on that many cores; `weights`: see `classes`."""
    machine = pool(machine) if isinstance(machine, int) else machine
    kinds = classes(w, machine.processors, machine.units.get("memory", 0), weights)
    return np.concatenate([features(w, kinds), histogram(w.edges, kinds).ravel()])


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Half the cosine of the features, and half the normalised Weisfeiler-Lehman kernel, of two signatures: at most 1."""

    def cosine(x: np.ndarray, y: np.ndarray) -> float:
        size = float(np.linalg.norm(x) * np.linalg.norm(y))
        return float(x @ y) / size if size > 0 else float((x == y).all())

    F = len(FEATURES)
    return 0.5 * cosine(a[:F], b[:F]) + 0.5 * cosine(a[F:], b[F:])
