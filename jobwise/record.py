"""Records: what a finished simulation leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobwise import metrics
from jobwise.cluster import Cluster
from jobwise.workload import Workload


@dataclass(frozen=True, eq=False)
class Record:
    """A finished simulation: the job table as it ended, in the workload's order.

    `jobs`: [J] of `job_dtype(R)`, times from the first submit, s. `runtime`: [J] s of work. `lost`: unit-s undone in failures.
    """

    jobs: np.ndarray
    runtime: np.ndarray
    cluster: Cluster
    policy: str
    workload: Workload
    preemptions: int = 0
    events: int = 0
    lost: float = 0.0

    def summary(self) -> dict[str, float]:
        """The usual metrics: see `jobwise.metrics.summary`."""
        return metrics.summary(self)
