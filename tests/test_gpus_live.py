"""A policy that assigns GPUs decides the same asked at every instant of choice as in its compiled replay."""

import numpy as np
import pytest

import jobwise as jw
from jobwise.policies.names import resolve
from jobwise.sim.simulation import Simulation
from jobwise.simulate import simulate_many
from jobwise.workloads.dnn import rltaps

pytestmark = pytest.mark.xdist_group("grid")


def asked(w, policy):
    """The jobs after a simulation whose every decision was asked for, by views alone."""
    sim, until = Simulation(w, tick=policy.tick), np.inf
    run = jw.decision.begin(policy, sim.view())
    for _ in range(5000):
        if sim.done or not sim.advance(until):
            break
        until = sim.apply(run.decide(sim.view()))
    return sim.state.jobs[0]


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
