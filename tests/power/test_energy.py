"""The energy of schedules: by hand, to the joule; kept whole on pools, nodes and sites; what is measured and what is estimated.

Modules: compare/energy.py, power/energy.py, power/watts.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobwise.cluster import nodes, pool
from jobwise.compare.energy import spent
from jobwise.compare.procedure import compare
from jobwise.errors import InputError
from jobwise.power.energy import KWH, remarks
from jobwise.power.prices import Prices, Stepwise
from jobwise.power.setting import powered
from jobwise.power.table import PowerTable
from jobwise.power.watts import watts
from jobwise.simulate import simulate
from jobwise.workload import workload
from jobwise.workloads.sites import generated

TWO = PowerTable(idle=10, core=100, cores=1, off=1, suspend=1, wake=20)


def three(cluster):
    """A: node 1, 0 to 100. B: node 2, 0 to 30. C: comes at 200, asks for both, 50 s."""
    return workload([0, 0, 200], [1, 1, 2], [100, 30, 50], cluster=cluster)


@pytest.mark.parametrize("machine", [pool(2), nodes(2)])
def test_three_jobs_on_two_nodes_by_hand(machine):
    """B's node is idle from 30, off at 90; A's is idle from 100, off at 160. C comes at 200, waits 20 s for both to boot, and
    runs until 270. Jobs draw 110 W a node with their node: A 11,000 J, B 3,300 J, C 220 W from 200 to 270: 15,400 J. Idle: 60 s
    each at 10 W: 1,200 J. Off: 110 s and 40 s at 1 W: 150 J. Peak 220 W. In all 31,050 J."""
    r = simulate(powered(three(machine), TWO), "fcfs+easy")
    e = r.energy
    assert r.jobs["start"].tolist() == [0, 0, 200] and r.jobs["end"].tolist() == [100, 30, 270]
    assert (e.jobs, e.idle, e.off, e.joules) == pytest.approx((29_700.0, 1_200.0, 150.0, 31_050.0), abs=1e-6)
    s = r.summary()
    assert s["peak_power"] == pytest.approx(0.22) and s["wake_ups"] == 2
    assert s["node_hours_off"] == pytest.approx(150 / 3600) and s["energy"] == pytest.approx(31_050 / KWH)
    np.testing.assert_allclose(e.edge, [0, 30, 90, 100, 160, 200, 270])
    np.testing.assert_allclose(e.watts, [220, 120, 111, 11, 2, 220])


@pytest.mark.parametrize("machine", [pool(2), nodes(2)])
def test_without_power_down_idle_nodes_draw_all_the_time(machine):
    """A, B and C as above without waits for nodes: the last end is 250; jobs 110 (100 + 30) + 220 x 50; idle the rest of
    2 x 250 node-seconds at 10 W."""
    r = simulate(powered(three(machine), replace(TWO, suspend=0)), "fcfs+easy")
    assert r.jobs["end"].tolist() == [100, 30, 250]
    assert r.energy.jobs == pytest.approx(110 * 130 + 220 * 50) and r.energy.idle == pytest.approx(10 * (500 - 130 - 100))
    assert r.energy.joules == pytest.approx(r.energy.jobs + r.energy.idle)


def naive_joules(r, table, count):
    """J of every second, looked at one by one; nodes of a pool are filled by the processors in use."""
    second = np.arange(int(np.nanmax(r.jobs["end"])))
    on = (r.jobs["start"][:, None] <= second) & (r.jobs["end"][:, None] > second)
    off = (r.idles["begin"][:, None] + table.suspend_s <= second) & (second < r.idles["end"][:, None])
    watts = r.workload.columns["adds"] @ on + count * table.idle - (r.idles["nodes"] @ off) * (table.idle - table.off)
    return float(watts.sum())


@pytest.mark.parametrize("place", ["pool", "nodes"])
@pytest.mark.parametrize("policy", ["fcfs+easy", "wfp3+easy", "saf+easy", "fcfs+conservative"])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_energy_is_conserved(place, policy, seed):
    rng = np.random.default_rng(seed)
    machine = pool(12) if place == "pool" else nodes(4, processors=3)
    size, run = rng.integers(1, 13, 30), rng.integers(1, 200, 30).astype(float)
    w = workload(np.sort(rng.integers(0, 4000, 30)), size, run, run + rng.integers(0, 50, 30), cluster=machine)
    table = PowerTable(idle=7, core=3, cores=3, off=1, suspend=float(rng.integers(1, 4)), wake=float(rng.integers(0, 60)))
    r = simulate(powered(w, table), policy)
    e = r.energy
    assert e.jobs + e.idle + e.off == pytest.approx(e.joules, rel=1e-9)
    assert e.idle >= -1e-6 and e.joules == pytest.approx(naive_joules(r, table, 4), rel=1e-9)
    assert ((r.jobs["end"] - r.jobs["start"] - run) <= table.wake + 1e-9).all()
    assert e.upto(e.edge[-1:])[0] == pytest.approx(e.joules / KWH)
    assert spent(r, 7)["energy"].sum() == pytest.approx(e.joules / KWH)


@pytest.mark.parametrize("policy", ["slurm", "fcfs+easy", "saf"])
def test_energy_is_conserved_on_a_site(policy):
    w = generated(jobs=400, seed=3)
    table = PowerTable(idle=50, core=4, gpu=100, off=5, suspend=10, wake=60)
    r = simulate(powered(w, table), policy)
    e = r.energy
    assert e.jobs + e.idle + e.off == pytest.approx(e.joules, rel=1e-9)
    assert e.off_s > 0 and e.wakes > 0 and e.idle > 0
    assert r.energy.power.nodes == len(w.cluster.capacity)


def test_a_measured_job_counts_as_it_was_and_a_shared_node_by_cores():
    """120 W for 2 of 8 cores of a node that draws 40 W idle: 10 W of these are the job's share, it adds 110 W."""
    w = replace(workload([0, 0], [2, 8], [100, 100], cluster=nodes(2, processors=8)), columns={"power": np.array([120.0, 0.0])})
    x = watts(w, PowerTable(idle=40, core=5))
    assert x.adds.tolist() == [110.0, 40.0] and x.measured.tolist() == [True, False] and x.nodes.tolist() == [0.25, 1.0]
    assert any("share by cores" in n for n in x.notes)
    r = simulate(powered(w, PowerTable(idle=40, core=5, plus_minus=0.1)), "fcfs")
    assert r.energy.estimated == pytest.approx(2 * 40 * 100 + 150 * 100 - 120 * 100)
    assert r.summary()["energy_plus_minus"] == pytest.approx(0.1 * r.energy.estimated / KWH)


def test_joules_are_watts_over_the_run_time():
    w = replace(workload([0, 0], [1, 1], [100, 0], cluster=pool(2)), columns={"energy": np.array([5000.0, 5.0])})
    x = watts(w, PowerTable(core=7))
    assert x.adds.tolist() == [50.0, 7.0]


def test_power_that_cannot_be_is_counted():
    w = replace(workload([0, 0], [1, 1], [10, 10], cluster=pool(2)), columns={"power": np.array([-5.0, 1e9])})
    x = watts(w, PowerTable(core=7))
    assert x.adds.tolist() == [7.0, 7.0] and x.notes[0].startswith("2 jobs say a power that cannot be")
    with pytest.raises(InputError, match="says nothing of power or energy"):
        watts(w, PowerTable(idle=5))


def test_jobs_to_come_are_assumed_to_draw_what_their_name_drew_before():
    """Job 0 of user 1 drew 10 W a processor, known from 10 on; job 1 came before that: the table. Job 2: 10 W x 2. Job 3, of
    another user: what all drew, 10 W."""
    w = workload(
        [0, 5, 50, 59], [1, 1, 2, 1], [10] * 4, cluster=pool(8), user=np.array([1, 1, 1, 2]), app=np.array([1, 1, 1, 1])
    )
    w = replace(w, columns={"power": np.array([10.0, 10.0, 30.0, 40.0])})
    x = watts(w, PowerTable(core=3))
    assert x.assumed.tolist() == [3.0, 3.0, 20.0, 10.0]
    assert x.error == pytest.approx(np.mean([7 / 10, 7 / 10, 10 / 30, 30 / 40]))
    assert watts(w, PowerTable(core=3), predict=False).assumed.tolist() == [10.0, 10.0, 30.0, 40.0]


def test_a_cap_by_predicted_watts_says_how_far_it_was_exceeded():
    """The second job is assumed to draw 10 W, as the first did, but draws 40 W: with the third 80 W, 50 s above 60 W by 20 W."""
    w = workload([0, 50, 50], [1, 1, 1], [10, 50, 50], cluster=pool(8), user=np.array([1, 1, 1]))
    w = replace(w, columns={"power": np.array([10.0, 40.0, 40.0])})
    s = simulate(powered(w, cap=Stepwise(np.array([-np.inf]), np.array([60.0]))), "fcfs+easy").summary()
    assert s["hours_above_cap"] == pytest.approx(50 / 3600) and s["most_above_cap"] == pytest.approx(0.02)
    assert s["hours_assumed_above_cap"] == 0.0


def test_cost_and_carbon_go_by_the_hours():
    """1 kW in the first hour at 0.1, in the second at 0.3; 100 and 500 g."""
    time = 1e9 + 3600.0 * np.arange(3)
    prices = Prices(Stepwise(time, np.array([0.1, 0.3, 0.2])), Stepwise(time, np.array([100.0, 500.0, 0.0])))
    w = replace(workload([0], [1], [7200], cluster=pool(1)), origin=1e9)
    s = simulate(powered(w, PowerTable(core=1000), prices), "fcfs").summary()
    assert s["energy"] == pytest.approx(2.0) and s["energy_cost"] == pytest.approx(0.4) and s["co2"] == pytest.approx(0.6)


def test_the_meter_stands_beside_the_sum():
    w = workload([0], [1], [3600], cluster=pool(1))
    r = simulate(powered(w, PowerTable(core=1e6, meter=1.25, plus_minus=0.1)), "fcfs")
    assert "jobs 1.0 MWh, with idle nodes 1.0 MWh; meter 1.2 MWh (80%)" in remarks(r)
    assert any("the table may be wrong by 10%" in x for x in remarks(r))


def test_a_comparison_has_energy_with_intervals():
    rng = np.random.default_rng(1)
    w = workload(np.sort(rng.integers(0, 90_000, 600)), rng.integers(1, 9, 600), rng.integers(60, 4000, 600), cluster=pool(16))
    w = replace(w, origin=1e9)
    hours = 1e9 + 3600.0 * np.arange(200)
    prices = Prices(Stepwise(hours, 0.1 + 0.05 * np.sin(np.arange(200))), None)
    c = compare(
        powered(w, PowerTable(idle=30, core=10, cores=4, plus_minus=0.2), prices), ["fcfs+easy", "sjf+easy"], replicas=2
    )
    assert c.spent["energy"].shape[:2] == (2, 2) and set(c.spent) == {"energy", "energy_cost"}
    x = c.change_spent(1, "energy_cost")
    assert x.low <= x.change <= x.high
    both = c.to_dict()["policies"]
    assert both[1]["spent_against_first"]["energy"]["change"] == pytest.approx(
        both[1]["whole"]["energy"] / both[0]["whole"]["energy"] - 1
    )


def test_without_power_nothing_is_told_of_it():
    w = workload([0], [1], [10], cluster=pool(1))
    r = simulate(w, "fcfs")
    assert r.energy is None and "energy" not in r.summary()
