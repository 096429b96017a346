"""Choices left open: whoever chooses by a rule gets that rule's schedule, in every mode and by every way of driving it.

Modules: policies/neural.py, worlds/window/passes.py, worlds/window/policy.py, worlds/window/settings.py,
worlds/window/tables.py, worlds/window/world.py.
"""

import numpy as np
import pytest
from conftest import random_workload
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobwise import metrics
from jobwise.errors import InputError
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.networks import Forward
from jobwise.sim.state import allocate
from jobwise.simulate import asked, record, simulate, simulate_many
from jobwise.worlds.window import encoders
from jobwise.worlds.window.passes import BEGIN, ask
from jobwise.worlds.window.policy import WindowPolicy
from jobwise.worlds.window.settings import WindowSettings
from jobwise.worlds.window.tables import BEHIND, show_mixed

pytestmark = pytest.mark.xdist_group("learning")  # one worker compiles the kernels of choices, not both

KEYS = {
    "fcfs": lambda w: np.arange(len(w)),
    "sjf": lambda w: np.maximum(w.jobs["walltime"], 1),
    "saf": lambda w: np.maximum(w.jobs["walltime"], 1) * w.jobs["request"][:, 0],
}


def drive(w, act, key, window=512):
    """Choose the smallest key every time; the state at the end, and the interval sums."""
    s = allocate([w], w.cluster, single_events=act.single_events)
    c = act.allocate(s, window)
    more, sums = ask(s, c, BEGIN), np.zeros(2)
    while more:
        rows = c.queue["row"][0, c.slots[0, : c.moment["count"][0]]]
        more = ask(s, c, np.argmin(key[rows]))
        sums += c.interval["slowed"][0], c.interval["waited"][0]
    return s, c, sums


def network(rng, features, hidden=(8,)):
    sizes, weights = [features, *hidden, 1], {}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        weights[f"net.{2 * i}.weight"] = rng.normal(size=(b, a)).astype(np.float32)
        weights[f"net.{2 * i}.bias"] = rng.normal(size=b).astype(np.float32)
    return Forward({"kind": "perjob", "sizes": sizes}, weights)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    order=st.sampled_from(sorted(KEYS)),
    backfill=st.sampled_from(["easy", "none"]),
    guard=st.sampled_from([np.inf, 60.0]),
    overruns=st.booleans(),
)
def test_picking_by_a_rule_is_the_rule(seed, order, backfill, guard, overruns):
    w = random_workload(np.random.default_rng(seed), jobs=60, overruns=overruns)
    s, c, sums = drive(w, WindowSettings("pick", backfill, guard=guard), KEYS[order](w))
    r = simulate(w, ListScheduler(order, backfill, guard=guard))
    assert np.array_equal(s.jobs[0]["start"], r.jobs["start"])
    assert c.interval["total"][0] / len(w) == pytest.approx(metrics.bounded_slowdown(r).mean())
    if c.interval["first"][0] == 0:  # there was at least one choice: the intervals cover everything that was waited
        assert sums[0] == pytest.approx((metrics.bounded_slowdown(r) - 1).sum(), abs=1e-6)
        assert sums[1] == pytest.approx(metrics.wait(r).sum())


@pytest.mark.parametrize(
    ("order", "backfill", "published"),
    [("fcfs", "none", 7273.7714), ("sjf", "none", 277.3483), ("fcfs", "greedy", 235.8173), ("sjf", "greedy", 73.3065)],
)
def test_committing_by_a_rule_hits_the_published_numbers(log, order, backfill, published):
    """RLScheduler's table (SC'20): ten sequences of 1,024 jobs of lublin_256, to the last digit."""
    w, found = log("lublin_256"), []
    for first in (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085):
        part = w.take(slice(first, first + 1024))
        _, c, _ = drive(part, WindowSettings("commit", backfill), KEYS[order](part), window=1024)
        found.append(c.interval["total"][0] / 1024)
    assert round(float(np.mean(found)), 4) == published


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.sampled_from(sorted(KEYS)), backfill=st.sampled_from(["none", "greedy"]))
def test_committing_by_a_rule_is_the_rule(seed, order, backfill):
    w = random_workload(np.random.default_rng(seed), jobs=60)
    s, _, _ = drive(w, WindowSettings("commit", backfill), KEYS[order](w))
    r = simulate(w, ListScheduler(order, backfill, commit=True), single_events=True)
    assert np.array_equal(s.jobs[0]["start"], r.jobs["start"])


def test_reserving_keeps_the_reserved_job():
    """DRAS: a reserved job stays reserved although a better one comes; the rest backfills in order of arrival."""
    from jobwise.cluster import pool
    from jobwise.workload import workload

    # 0 runs on 3 of 4 until 10; 1 (4 procs) and 2 (2 procs) wait; the chooser takes 1 first; 3 comes and would be preferred
    w = workload([0, 1, 1, 2], [3, 4, 2, 2], [10, 5, 5, 1], cluster=pool(4))
    key = np.array([0, 1, 2, 0])
    s, _, _ = drive(w, WindowSettings("reserve"), key)
    assert s.jobs[0]["start"].tolist() == [0, 10, 15, 15]
    s, _, _ = drive(w, WindowSettings("pick"), key)
    assert s.jobs[0]["start"].tolist() == [0, 11, 16, 10]  # 3 goes first, then 1 has the reservation


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.sampled_from(sorted(KEYS)), overruns=st.booleans())
def test_an_agent_that_backfills_in_order_of_arrival_is_easy(seed, order, overruns):
    """DRAS with its second network: the head by an order, those behind it by arrival, is DRAS with EASY."""
    w, found = random_workload(np.random.default_rng(seed), jobs=60, overruns=overruns), []
    for backfill in ("easy", "agent"):
        s = allocate([w], w.cluster)
        c = WindowSettings("reserve", backfill).allocate(s, 512)
        more, behind = ask(s, c, BEGIN), 0
        while more:
            rows = c.queue["row"][0, c.slots[0, : c.moment["count"][0]]]
            at_head = c.moment["phase"][0] != BEHIND
            behind += not at_head
            more = ask(s, c, np.argmin(KEYS[order](w)[rows]) if at_head else 0)
        assert backfill == "agent" or behind == 0
        found.append(s.jobs[0]["start"].copy())
    assert np.array_equal(*found)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    act=st.sampled_from([("pick", "easy"), ("pick", "none"), ("reserve", "easy"), ("reserve", "agent"), ("commit", "greedy")]),
    window=st.sampled_from([4, 7, 64]),
    encoder=st.sampled_from(["rls", "perjob"]),
)
@example(seed=1919, act=("pick", "none"), window=4, encoder="perjob")  # two jobs alike: their scores are equal
def test_a_network_decides_the_same_compiled_asked_and_in_a_batch(seed, act, window, encoder):
    rng = np.random.default_rng(seed)
    ws = [random_workload(np.random.default_rng(seed + k), jobs=40 + 7 * k, overruns=bool(k % 2)) for k in range(3)]
    found = encoders.make(encoder, ws[0].cluster, ws[0].jobs, window)
    policy = WindowPolicy(network(rng, found.shape[1]), found, WindowSettings(*act))
    from jobwise.sim.simulation import Simulation

    for w, batched in zip(ws, simulate_many(ws, policy), strict=True):
        one = simulate(w, policy)
        sim = Simulation(w, single_events=policy.world.single_events)
        for _ in asked(sim, policy):
            pass
        slow = record(sim.state, 0, w, sim.cluster, policy)
        assert np.array_equal(one.jobs["start"], slow.jobs["start"])
        assert np.array_equal(one.jobs["start"], batched.jobs["start"])


def test_a_replay_tells_of_every_choice():
    ws = [random_workload(np.random.default_rng(k), jobs=40 + 10 * k) for k in range(3)]
    found = encoders.make("rls", ws[0].cluster, ws[0].jobs, 16)
    with pytest.raises(InputError, match="not dict: docs/learning.md"):
        WindowPolicy({}, found)
    policy = WindowPolicy(network(np.random.default_rng(0), 8), found)
    waited, told = np.zeros(3), np.zeros(3)

    def after(intervals, which):
        waited[which] += intervals["waited"][which]
        told[:] += which

    records = simulate_many(ws, policy, after=after)
    assert (told > 5).all()
    assert waited == pytest.approx([metrics.wait(r).sum() for r in records])
    with pytest.raises(InputError, match="network"):
        simulate_many(ws, "fcfs", after=after)


def test_a_network_that_prefers_short_jobs_is_sjf(log):
    w = log("SDSC-SP2").take(slice(0, 3000))
    weights = {"net.0.weight": np.array([[0, -1, 0, 0, 0, 0, 0, 0]], np.float32), "net.0.bias": np.zeros(1, np.float32)}
    wide = encoders.make("rls", w.cluster, w.jobs, 2048)
    policy = WindowPolicy(Forward({"kind": "perjob", "sizes": [8, 1]}, weights), wide)
    assert np.array_equal(simulate(w, policy).jobs["start"], simulate(w, "sjf+easy").jobs["start"])


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), window=st.integers(1, 20))
def test_a_mixed_window_shows_the_oldest_the_shortest_and_the_smallest(seed, window):
    rng = np.random.default_rng(seed)
    w = random_workload(rng, jobs=60)
    s = allocate([w], w.cluster)
    c = WindowSettings("pick", fill="mixed").allocate(s, window)
    Q = int(rng.integers(window + 1, 61))
    q = c.queue[0]
    q["row"], q["est"], q["size"] = np.arange(60), rng.integers(1, 9, 60), rng.integers(1, 9, 60)
    before = q.copy()
    show_mixed(c.queue[0], c.slots[0], c.key[0], Q)
    shown = c.slots[0].tolist()
    assert np.array_equal(q, before) and shown == sorted(set(shown)) and len(shown) == window
    third = window // 3
    oldest = list(range(window - 2 * third))
    others = [i for i in range(Q) if i not in oldest]
    shortest = sorted(others, key=lambda i: (q["est"][i], i))[:third]
    smallest = sorted((i for i in others if i not in shortest), key=lambda i: (q["size"][i], i))[:third]
    assert sorted(oldest + shortest + smallest) == shown


def test_wrong_ways_to_act_are_refused():
    for wrong in (("dance", ""), ("pick", "greedy"), ("reserve", "greedy")):
        with pytest.raises(InputError, match="way to act|backfills by"):
            WindowSettings(*wrong)
    with pytest.raises(InputError, match="guard"):
        WindowSettings(guard=0)
