"""The forest that comes with the package, and what a memory knows of jobs that ended before."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from jobwise.policies import files
from jobwise.sim.foresight import after
from jobwise.sim.forest import Forest, from_tensors
from jobwise.sim.groups import F, Memory, entered

PRETRAINED = Path(__file__).parent.parent / "pretrained"


@cache
def shipped() -> Forest:
    """The forest that comes with the package."""
    _, tensors, _, _ = files.read(PRETRAINED / "smith-forecast.safetensors")
    return from_tensors(tensors, F)


def begin(forest: Forest | None, past: np.ndarray, jobs: np.ndarray, total: int) -> Memory:
    """Return the memory of a scheduler of these jobs [J] before the first of them has come: `past` [K] in order of end. Without
    a `forest` it knows run times alone."""
    of = np.empty(len(jobs), np.int32)
    memory = entered(after(past, forest, total), jobs, of)
    return memory._replace(of=of, began=np.full(len(jobs), np.nan))


def at_submit(forest: Forest, past: np.ndarray, total: int, since: float) -> np.ndarray:
    """Return the forecasts [K, 2] of jobs that have ended, as they were made when the jobs were submitted, of those submitted
    at `since` (s) or later. `past` [K] in order of end."""
    forecasts = np.empty((len(past), 2))
    after(past, forest, total, since, forecasts)
    return forecasts
