"""Estimate the factor on the run time of a group's jobs on a class of nodes, from jobs that have ended.

    log(run / request) = group + class + group x class + noise

Each part is drawn towards 0 by as many observations as its variance is worth (a hierarchy: an unknown group on a class has the
estimate of the class, and an unknown class has 0). An estimate comes with its standard error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

OF_CLASS, OF_PAIR = 5.0, 3.0  # observations that a prior of 0 is worth
NOISE = 0.5  # of a log ratio, before any is known
EVERY = 10  # ended jobs between two estimates


class Factors:
    """Run times of groups of jobs on `classes` classes of nodes; groups are any whole numbers."""

    def __init__(self, classes: int):
        self._classes, self._row = classes, dict[int, Any]()
        self._count, self._sum = np.zeros((0, classes)), np.zeros((0, classes))
        self._square, self._new = 0.0, 0
        self._of_class, self._of_pair = np.zeros(classes), np.zeros((0, classes))
        self._noise = NOISE

    def add(self, group: int, kind: int, run_s: float, request_s: float) -> None:
        """A job of `group` has ended on nodes of class `kind`, after `run_s` of the `request_s` it asked for."""
        if group not in self._row:
            self._row[group] = len(self._row)
            more = np.zeros((1, self._classes))
            self._count, self._sum = np.vstack([self._count, more]), np.vstack([self._sum, more])
        y, row = float(np.log(max(run_s, 1.0) / max(request_s, 1.0))), self._row[group]
        self._count[row, kind] += 1
        self._sum[row, kind] += y
        self._square += y * y
        self._new += 1

    def _estimate(self) -> None:
        n, total = self._count, self._sum
        of_class, of_pair = self._of_class, np.zeros_like(n)
        of_pair[: len(self._of_pair)] = self._of_pair
        for _ in range(6):
            group = (total - n * (of_class + of_pair)).sum(axis=1) / np.maximum(n.sum(axis=1), 1)
            of_class = (total - n * (group[:, None] + of_pair)).sum(axis=0) / (n.sum(axis=0) + OF_CLASS)
            of_class = of_class - of_class.mean()
            of_pair = (total - n * (group[:, None] + of_class)) / (n + OF_PAIR)
        left = self._square - 2 * (total * (group[:, None] + of_class + of_pair)).sum()
        left += (n * (group[:, None] + of_class + of_pair) ** 2).sum()
        self._noise = float(np.sqrt(max(left, 0.0) / max(n.sum(), 1) + NOISE**2 / (n.sum() + 1)))
        self._of_class, self._of_pair, self._new = of_class, of_pair, 0

    def of(self, group: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(log factors [C] of the classes for all groups, what is to be added for this one, standard errors of the sum)."""
        if self._new >= EVERY or (self._new and len(self._of_pair) < len(self._count)):
            self._estimate()
        row = self._row.get(group)
        if row is None or row >= len(self._of_pair):
            n = self._count.sum(axis=0) if len(self._count) else np.zeros(self._classes)
            none = np.zeros(self._classes)
            return self._of_class, none, self._noise / np.sqrt(n / max(len(self._count), 1) + 1)
        return self._of_class, self._of_pair[row], self._noise / np.sqrt(self._count[row] + 1)
