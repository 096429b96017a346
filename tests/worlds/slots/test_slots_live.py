"""A policy of the world of slots decides the same asked at every instant of choice as in its compiled replay.

Modules: policies/chooser.py, worlds/slots/live.py, worlds/slots/policy.py.
"""

import numpy as np
import pytest
from conftest import asked

import jobwise as jw
from jobwise.jobs import RUNNING
from jobwise.policies.networks import Forward
from jobwise.sim.simulation import Simulation
from jobwise.simulate import simulate_many
from jobwise.worlds.slots.encoder import make_grid
from jobwise.worlds.slots.policy import SlotsPolicy, SlotsRule
from jobwise.worlds.slots.world import SlotsSettings

pytestmark = pytest.mark.xdist_group("grid")


def same(w, policy, seed=0):
    whole, one = simulate_many([w], policy, tick=1.0, seed=seed)[0].jobs, asked(w, policy, seed)
    assert np.array_equal(whole["start"], one["start"]) and np.array_equal(whole["end"], one["end"])


@pytest.mark.parametrize("rule", ["fcfs", "tetris", "hold"])
def test_rules(rule):
    same(jw.deeprm(seed=1), SlotsRule(rule))
    same(jw.deeprm(seed=2), SlotsRule(rule, SlotsSettings(reserve=False, slots=3, backlog=20)))
    same(jw.cush(seed=1), SlotsRule(rule, SlotsSettings(reserve=False, placements=("pack",), backlog=5)))
    same(jw.cush(seed=2), SlotsRule(rule, SlotsSettings(reserve=True, rows=40, placements=("spread",))))


def network(kind, sizes, rng, **more):
    """Random weights: Forward says which are missing."""
    blank = Forward.__new__(Forward)
    blank.kind, blank.sizes, blank.spec = kind, sizes, {"kind": kind, "sizes": sizes, **more}
    weights = {k: rng.normal(0, 0.3, shape).astype(np.float32) for k, shape in blank._expected().items()}
    last = "out.bias" if kind == "image" else f"net.{2 * (len(sizes) - 2)}.bias"
    weights[last][-1] -= 20.0 * (sizes[-1] > 2)  # the void action is rarely the best
    return Forward(blank.spec, {k: np.abs(v) + 0.1 if "var" in k else v for k, v in weights.items()})


def policy(w, name, networks, world, greedy):
    encoder = make_grid(name, w.cluster, world.slots, world.backlog, rows=world.rows)
    told = {"name": name, "slots": world.slots, "backlog": world.backlog, "rows": world.rows}
    told |= {"shape": list(encoder.shape), "units": w.cluster.total.tolist()}
    return SlotsPolicy(networks(encoder), told, world, greedy=greedy, tick=1.0)


@pytest.mark.parametrize("greedy", [True, False])
def test_networks(greedy, tmp_path):
    """DeepRM's image, whose picture has a history; CuSH's two networks; both drawn from random numbers, too."""
    rng, w, v = np.random.default_rng(0), jw.deeprm(seed=3), jw.cush(seed=3)
    deeprm = policy(w, "deeprm", lambda x: network("mlp", [int(np.prod(x.shape)), 8, 11], rng), SlotsSettings(), greedy)
    same(w, deeprm, seed=5)
    world = SlotsSettings(reserve=False, placements=("pack", "spread"), slots=4, backlog=20, rows=12)
    X = int(v.cluster.capacity.sum())
    two = policy(
        v,
        "cush",
        lambda x: (network("image", [5, 12, X, 5], rng), network("image", [2, 12, X, 2], rng)),
        world,
        greedy,
    )
    same(v, two, seed=6)


def test_a_cluster_that_was_not_followed_from_its_beginning():
    """The first view shows jobs running and waiting: the picture is drawn from what they are expected to take."""
    w, rule = jw.deeprm(seed=4), SlotsRule("sjf")
    sim, until, run = Simulation(w, tick=1.0), np.inf, None
    for i in range(30):
        assert sim.advance(until)
        run = run if i % 10 else rule.begin(sim.view())
        until = sim.apply(run.decide(sim.view()))
    held = sim.state.jobs[0]["status"] == RUNNING
    assert (sim.state.nodes["free"] >= 0).all() and held.any()


def test_explain_says_what_the_next_choice_is_among():
    w = jw.deeprm(seed=3)
    rng = np.random.default_rng(0)
    found = policy(w, "deeprm", lambda x: network("mlp", [int(np.prod(x.shape)), 8, 11], rng), SlotsSettings(), True)
    sim, until, run, seen = Simulation(w, tick=1.0), np.inf, None, 0
    for _ in range(40):
        assert sim.advance(until)
        view = sim.view()
        run = run or found.begin(view)
        told = run.explain(view)
        decisions = run.decide(view)
        if told and told[0]["job"] is not None:
            seen += 1
            assert told[0]["job"] in {x.job for x in decisions if hasattr(x, "job")}
        assert [x["score"] for x in told] == sorted((x["score"] for x in told), reverse=True)
        until = sim.apply(decisions)
    assert seen > 3
