"""Fixtures: where the real logs are, and small workloads."""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers with two threads each wait for one another

import numpy as np  # noqa: E402
import pytest

from jobwise.cluster import pool
from jobwise.workload import workload

SHARED = Path(__file__).resolve().parents[2] / "shared"

os.environ["JOBWISE_ANNOUNCE"] = ""  # what commands say on standard error is compared


def missing(what):
    """A test without its data is skipped; where data must be there (JOBWISE_REQUIRE_LOGS, in CI), it fails."""
    if os.environ.get("JOBWISE_REQUIRE_LOGS"):
        pytest.fail(f"{what}, and JOBWISE_REQUIRE_LOGS is set")
    pytest.skip(what)


@pytest.fixture(scope="session")
def log():
    """A function name -> Workload that reads a real log, or skips the test where the logs are not at hand."""
    from jobwise.workloads.swf import read_swf

    def read(name):
        found = sorted((SHARED / "traces" / "swf").glob(f"{name}*.swf.gz"))
        if not found:
            missing(f"no log {name} in {SHARED / 'traces' / 'swf'}")
        return read_swf(found[0])

    return read


@pytest.fixture(scope="session")
def samples():
    folder = SHARED / "samples"
    if not folder.exists():
        missing(f"no samples in {folder}")
    return folder


def random_workload(rng, jobs=40, procs=12, overruns=False, edges=None):
    """Small integers, many ties: what breaks schedulers."""
    asked = rng.integers(1, 50, jobs)
    used = rng.integers(1, 70, jobs) if overruns else np.minimum(rng.integers(1, 70, jobs), asked)
    runtime = np.where(rng.random(jobs) < 0.5, asked, used)
    size = np.minimum(rng.integers(1, procs + 1, jobs), rng.integers(1, procs + 1, jobs))
    submit = np.cumsum(rng.integers(0, 9, jobs))
    return workload(submit, size, runtime, asked, cluster=pool(procs), edges=edges, user=rng.integers(0, 4, jobs))


def play(sets, policy, world=None, seed=0):
    """Records of jobsets, in rows, under a trained policy of the world of slots or a rule of it."""
    from jobwise.policies.slots import SlotRule
    from jobwise.simulate import simulate_many
    from jobwise.worlds.slots_world import Slots

    if isinstance(policy, str):
        policy = SlotRule(policy, Slots.of(world or {}))
    return simulate_many(sets, policy, tick=1.0, seed=seed)


def drained(steps):
    """What a generator returns when it is at its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
