"""A cap on what jobs draw: the slow twin, the loops among each other, and that it is never exceeded.

Modules: power/setting.py, sim/pool/capped.py, sim/power.py.
"""

from dataclasses import replace

import naive_power
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobwise.cluster import Cluster, nodes, pool
from jobwise.errors import InputError
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.names import resolve
from jobwise.power.prices import Stepwise, read_cap
from jobwise.power.setting import NEVER, powered
from jobwise.power.table import PowerTable
from jobwise.simulate import simulate
from jobwise.workload import workload

KEYS = {
    "fcfs": lambda j, now: j["submit"],
    "sjf": lambda j, now: j["est"],
    "saf": lambda j, now: j["est"] * j["procs"],
    "wfp3": lambda j, now: -(((now - j["submit"]) / j["est"]) ** 3) * j["procs"],
}


def drawn(seed, jobs=40, machine=16, steps=0, overrun=False):
    """Jobs of random power on a pool, under a cap that many reach: constant, or with `steps` changes."""
    rng = np.random.default_rng(seed)
    size, run = rng.integers(1, machine + 1, jobs), rng.integers(1, 400, jobs).astype(float)
    limit = run + rng.integers(0, 300, jobs) - (200 if overrun else 0)
    submit = np.sort(rng.integers(0, 3000, jobs)).astype(float)
    w = workload(submit, size, run, np.maximum(limit, 1.0), cluster=pool(machine), user=rng.integers(0, 3, jobs))
    power = np.round(size * rng.uniform(5, 20, jobs), 1)[np.argsort(submit, kind="stable")]
    w = replace(w, columns={"power": power}, origin=1e9)
    cap = Stepwise(np.array([-np.inf]), np.array([power.max() + 50.0]))
    if steps:
        time = 1e9 + np.sort(rng.choice(np.arange(1, 6000), steps, replace=False)).astype(float)
        value = np.round(rng.uniform(0.4, 1.0, steps + 1) * (power.max() + 100.0), 1)
        value[-1] = power.max() + 50.0
        cap = Stepwise(np.append(-np.inf, time), value)
    return powered(w, cap=cap, predict=False)


def table(w):
    return [
        {"submit": float(j["submit"]), "procs": int(j["request"][0]), "walltime": float(j["walltime"])}
        | {"runtime": float(t), "draw": int(j["draw"])}
        for j, t in zip(w.jobs, w.truth["runtime"], strict=True)
    ]


def caps(w):
    steps = w.cluster.power.steps(w.origin, False)
    return [(float(x["time"]), int(x["cap"])) for x in steps]


@pytest.mark.parametrize("order", KEYS)
@pytest.mark.parametrize("backfill", ["", "+easy", "+easy-sjbf"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.sampled_from([0, 0, 3, 12]))
def test_pools_under_a_cap_are_those_of_the_slow_twin(order, backfill, seed, steps):
    w = drawn(seed, steps=steps)
    ours = simulate(w, order + backfill).jobs["start"]
    twin = naive_power.replay(table(w), 16, caps(w), KEYS[order], bool(backfill), backfill == "+easy-sjbf")
    np.testing.assert_array_equal(ours, twin)


class Asked:
    """A scheduler behind a plain Policy, so that it is asked view by view."""

    def __init__(self, name):
        self.inner = resolve(name)
        self.name = name

    def reset(self, view):
        pass

    def ended(self, view, rows):
        pass

    def decide(self, view):
        return self.inner.decide(view)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.sampled_from([0, 3, 12]))
def test_every_loop_makes_the_same_schedule(seed, steps):
    w = drawn(seed, steps=steps)
    first = simulate(w, "saf+easy").jobs["start"]
    on_nodes = replace(w, cluster=replace(nodes(16), power=w.cluster.power))
    np.testing.assert_array_equal(first, simulate(on_nodes, "saf+easy").jobs["start"])
    np.testing.assert_array_equal(first, simulate(w, Asked("saf+easy")).jobs["start"])
    by_function = ListScheduler(lambda jobs, now: np.maximum(jobs["walltime"], 1.0) * jobs["request"][:, 0], "easy")
    np.testing.assert_array_equal(first, simulate(w, by_function).jobs["start"])
    conservative = simulate(w, "fcfs+conservative").jobs["start"]
    np.testing.assert_array_equal(conservative, simulate(on_nodes, "fcfs+conservative").jobs["start"])


@pytest.mark.parametrize(
    "policy", ["fcfs+easy", "saf+easy", "wfp3+easy", "fcfs+conservative", "sjf+easy+guard1h", "fcfs+greedy+commit"]
)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.sampled_from([0, 5, 20]), place=st.sampled_from(["pool", "nodes"]))
def test_a_cap_is_never_exceeded(policy, seed, steps, place):
    w = drawn(seed, jobs=60, steps=steps)
    if place == "nodes":
        w = replace(w, cluster=replace(nodes(4, processors=4), power=w.cluster.power))
    r = simulate(w, policy)
    ran = [(a, b, int(d)) for a, b, d in zip(r.jobs["start"], r.jobs["end"], r.jobs["draw"], strict=True)]
    assert naive_power.above(ran, caps(w)) <= 0
    assert r.energy.over(r.energy.assumed)[0] == 0.0
    assert r.summary()["hours_assumed_above_cap"] == 0.0


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_constant_cap_holds_where_jobs_outlive_their_limits(seed):
    w = drawn(seed, jobs=60, overrun=True)
    for policy in ("fcfs+easy", "wfp3+easy", "fcfs+conservative"):
        r = simulate(w, policy)
        ran = [(a, b, int(d)) for a, b, d in zip(r.jobs["start"], r.jobs["end"], r.jobs["draw"], strict=True)]
        assert naive_power.above(ran, caps(w)) <= 0


def test_a_cap_of_exactly_the_need_of_two_keeps_the_third_out():
    """Two jobs of 100 W and 100.5 W run at once under 200.5 W; the third, which fits the processors, waits for the first."""
    w = workload([0, 0, 0], [1, 1, 1], [100, 200, 50], [100, 200, 60], cluster=pool(4))
    w = replace(w, columns={"power": np.array([100.0, 100.5, 70.0])})
    for policy in ("fcfs", "fcfs+easy", "wfp3+easy", "fcfs+conservative"):
        assert simulate(powered(w, cap=read_cap("200.5W"), predict=False), policy).jobs["start"].tolist() == [0, 0, 100]
        assert simulate(powered(w, cap=read_cap("271W"), predict=False), policy).jobs["start"].tolist() == [0, 0, 0]
        assert simulate(powered(w, cap=read_cap("200.4W"), predict=False), policy).jobs["start"][1] > 0


def test_idle_nodes_count_for_the_cap():
    """Four nodes of 10 W leave 60 W of 100 W to jobs."""
    w = workload([0, 0], [1, 1], [100, 100], cluster=pool(4))
    assert simulate(powered(w, PowerTable(idle=10, core=30), cap=read_cap("100W")), "fcfs").jobs["start"].tolist() == [0, 0]
    assert simulate(powered(w, PowerTable(idle=10, core=31), cap=read_cap("100W")), "fcfs").jobs["start"].tolist() == [0, 100]


def test_jobs_that_could_never_start_are_left_out_and_counted():
    w = workload([0, 0, 5], [1, 2, 3], [100, 100, 10], cluster=pool(4))
    x = powered(w, PowerTable(core=30), cap=read_cap("60W"))
    assert len(x) == 2 and x.dropped[NEVER] == 1
    with pytest.raises(InputError, match="no job of .* could ever start"):
        powered(w, PowerTable(core=30), cap=read_cap("20W"))
    with pytest.raises(InputError, match="the idle nodes alone draw 40 W"):
        powered(w, PowerTable(core=30, idle=10), cap=read_cap("40W"))


def test_a_long_job_waits_until_the_low_hours_are_over():
    """100 W until 1000 s, then 40 W until 2000 s, then 100 W: a job of 50 W and 600 s starts at 300 at the latest, or at 2000."""
    time = 1e9 + np.array([0.0, 1000.0, 2000.0])
    cap = Stepwise(time, np.array([100.0, 40.0, 100.0]))
    for submit, start in ((300.0, 400.0), (301.0 + 100, 2000.0)):
        w = workload([0, submit], [1, 1], [10, 600], [10, 600], cluster=pool(2))
        w = replace(w, columns={"power": np.array([1.0, 50.0])}, origin=1e9)
        for policy in ("fcfs", "fcfs+easy", "wfp3+easy", "fcfs+conservative"):
            got = simulate(powered(w, cap=cap, predict=False), policy).jobs["start"][1]
            assert got == (submit if submit <= 400 else start)


def test_a_cap_over_time_needs_to_know_when_the_log_was():
    w = workload([0], [1], [10], cluster=pool(2))
    cap = Stepwise(np.array([0.0, 10.0]), np.array([100.0, 50.0]))
    with pytest.raises(InputError, match="does not say when it began"):
        simulate(powered(w, PowerTable(core=1), cap=cap), "fcfs")


def test_pools_of_several_resources_are_capped_too():
    machine = Cluster(np.array([[8, 4]]), ("processors", "gpus"))
    w = workload([0, 0], [[2, 1], [2, 1]], [100, 100], cluster=machine)
    x = powered(w, PowerTable(core=10), cap=read_cap("30W"))
    assert simulate(x, "fcfs+easy").jobs["start"].tolist() == [0, 100]
