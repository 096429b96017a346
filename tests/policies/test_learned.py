"""`+learned`: where jobs go is learnt from how long jobs like them took there.

Modules: policies/factors.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from conftest import SHARED, missing
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.cluster import Affinity, Cluster
from jobwise.errors import InputError
from jobwise.policies.factors import Factors
from jobwise.policies.names import resolve
from jobwise.testing import check_policy
from jobwise.workload import workload
from jobwise.workloads.gpu import read_gavel

pytestmark = pytest.mark.xdist_group("telemetry")  # one worker compiles what is asked view by view


def cluster(factors, per_class=3, cpus=2):
    classes = np.repeat(np.arange(len(factors[0])), per_class)
    order = np.random.default_rng(0).permutation(len(classes))
    table = Affinity(np.array(factors, float)[:, classes[order]])
    return Cluster(np.full((len(classes), 1), cpus), ("cpus",), affinity=table, classes=classes[order])


def jobs(machine, count=600, gap=60.0, seed=0, kinds=2):
    rng = np.random.default_rng(seed)
    run = rng.lognormal(6, 0.5, count).round() + 1
    submit = np.cumsum(rng.exponential(gap, count)).round()
    return workload(
        submit, np.ones((count, 1), int), run, cluster=machine, kind=rng.integers(0, kinds, count), chunks=np.ones(count, int)
    )


def test_factors_are_found():
    rng, truth, f = np.random.default_rng(0), np.array([[0.5, 1.0, 2.0], [2.0, 1.0, 0.5], [1, 1, 1]]), Factors(3)
    for _ in range(3000):
        g, c = rng.integers(0, 3, 2)
        f.add(int(g), int(c), 100 * truth[g, c] * rng.lognormal(0, 0.4), 100.0)
    for g in range(3):
        every, own, error = f.of(g)
        expected = np.log(truth[g]) - np.log(truth[g]).mean()
        found = every + own - (every + own).mean()
        assert np.abs(found - expected).max() < 0.1 and (error < 0.05).all()
    every, own, error = f.of(99)  # nothing is known of this group
    assert (own == 0).all() and (error > 0.02).all()
    blank = Factors(2).of(5)
    assert all((x == 0).all() for x in blank[:2])


def test_what_is_rare_is_drawn_to_what_is_known_of_all():
    f, rng = Factors(2), np.random.default_rng(1)
    for g in range(10):
        for _ in range(30):
            c = int(rng.integers(0, 2))
            f.add(g, c, 100 * (1, 2)[c] * rng.lognormal(0, 0.3), 100.0)
    f.add(77, 0, 1000.0, 100.0)  # one long run on the good class
    for _ in range(9):
        f.add(0, 0, 100.0, 100.0)
    every, own, _ = f.of(77)
    assert every[0] < every[1] and abs(own).max() < 0.7 and (every + own)[0] < (every + own)[1] + 0.5


def test_jobs_go_where_they_run_well():
    w = jobs(cluster([[0.5, 1.0, 2.0], [2.0, 1.0, 0.5]]))
    found = {p: jw.simulate(w, p) for p in ("fcfs+easy", "fcfs+easy+balance", "fcfs+easy+learned")}
    run = {p: float((r.jobs["end"] - r.jobs["start"])[300:].mean()) for p, r in found.items()}
    assert run["fcfs+easy+learned"] < 0.75 * min(run["fcfs+easy"], run["fcfs+easy+balance"])
    again = jw.simulate(w, "fcfs+easy+learned")
    assert (again.jobs["end"] == found["fcfs+easy+learned"].jobs["end"]).all()


def test_jobs_that_end_before_anybody_else_comes_are_learnt_from(monkeypatch):
    seen = []
    monkeypatch.setattr(Factors, "add", lambda self, *told: seen.append(told))
    w = workload(
        np.arange(40) * 1000.0, np.ones((40, 1), int), np.full(40, 100.0), cluster=jw.nodes(4, cpus=2), kind=np.zeros(40, int)
    )
    jw.simulate(w, "fcfs+easy+learned")
    assert len(seen) >= 39


def test_nothing_is_lost_where_nodes_are_alike():
    w = jobs(cluster([[1.0, 1.0]] * 2), gap=40.0)
    a, b = (jw.simulate(w, p).jobs for p in ("sjf+easy", "sjf+easy+learned"))
    assert b["start"].tolist() == a["start"].tolist()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 3), st.booleans())
def test_every_decision_can_be_carried_out(seed, cpus, loose):
    rng = np.random.default_rng(seed)
    machine = cluster([[0.5, 2.0], [2.0, 0.5]], per_class=2, cpus=cpus)
    n = 40
    size = rng.integers(1, 2 * cpus + 1, n)
    chunks = np.zeros(n, int) if loose else np.where(size <= cpus, 1, size)
    w = workload(
        rng.uniform(0, 2000, n).round(),
        size,
        rng.integers(50, 500, n).astype(float),
        cluster=machine,
        user=rng.integers(0, 3, n),
        chunks=chunks,
    )
    r = jw.simulate(w, "sjf+easy+learned")
    assert not np.isnan(r.jobs["end"]).any()


def test_it_keeps_to_what_a_scheduler_may_know():
    check_policy("fcfs+easy+learned", jobs(cluster([[0.5, 2.0], [2.0, 0.5]]), count=120))


def test_names_and_what_cannot_be():
    for name in ("fcfs+easy+learned", "sjf+learned", "wfp3+easy+guard24h+learned"):
        assert resolve(name).name == name
    with pytest.raises(InputError, match="two choices of placement"):
        resolve("fcfs+learned+best")
    with pytest.raises(InputError, match="no places"):
        jw.simulate(jw.lublin(20, procs=8), "fcfs+learned")
    with pytest.raises(InputError, match="each of the 3 nodes"):
        Cluster(np.ones((3, 1), int), classes=np.zeros(2, int))


def test_measured_speeds_of_gpus():
    w = read_gavel(SHARED / "traces", rate=0.7)
    if w is None:
        missing("no jobs of Gavel")
    assert len(w) == 4367 and w.cluster.affinity.factors.min() == 1.0 and w.dropped["larger than a node"] == 1201
    order = np.random.default_rng(0).permutation(24)
    machine = replace(w.cluster, affinity=Affinity(w.cluster.affinity.factors[:, order]), classes=w.cluster.classes[order])
    w = replace(w.take(slice(0, 1500)), cluster=machine)
    plain, learned = (jw.simulate(w, p).jobs for p in ("fcfs+easy", "fcfs+easy+learned"))
    assert (learned["end"] - learned["submit"]).mean() < 0.92 * (plain["end"] - plain["submit"]).mean()
    assert read_gavel(SHARED / "none") is None
