"""A policy that assigns GPUs decides the same asked at every instant of choice as in its compiled replay.

Modules: worlds/gpus/live.py.
"""

import numpy as np
import pytest
from conftest import asked

import jobwise as jw
from jobwise.policies.names import resolve
from jobwise.simulate import simulate_many
from jobwise.workloads.dnn import rltaps

pytestmark = pytest.mark.xdist_group("grid")


def sets(count=2, steps=40):
    return [rltaps(steps, [9, i], machine=jw.gpu_racks([2, 2])) for i in range(count)]


@pytest.mark.parametrize(
    "rule", ["fifo", "sjf", "tetris", "one+none", "greedy+none", "slot+none", "slot", "root+partial", "slot+leave"]
)
def test_rules_decide_the_same_asked_one_by_one(rule):
    for w in sets():
        policy = resolve(f"gpus:{rule}")
        whole, one = simulate_many([w], policy)[0].jobs, asked(w, policy)
        assert np.array_equal(whole["start"], one["start"]), rule
        assert np.allclose(whole["end"], one["end"])
