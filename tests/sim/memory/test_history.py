"""Run-time history: what it says, what it must not know, and the orders that are made of it.

Modules: forecast/runtimes.py, policies/loglinear.py, policies/memory.py, sim/memory/loglinear.py, sim/memory/memory.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from conftest import random_workload
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.errors import InputError
from jobwise.jobs import past_dtype
from jobwise.policies.loglinear import INDICES, Index
from jobwise.policies.names import resolve
from jobwise.sim.memory import groups, history, memory
from jobwise.sim.memory.loglinear import FEATURES, F, weights
from jobwise.sim.simulation import Simulation
from jobwise.simulate import asked, record, simulate
from jobwise.workload import PAST


def with_users(w, rng):
    w.jobs["user"] = rng.integers(0, 4, len(w))
    w.jobs["walltime"] = rng.choice([30.0, 100.0, 1000.0], len(w))
    return w


def slow_expect(seen, user, walltime, size):
    """The definition, in plain Python: seen is a list of (user, walltime, size, run) in order of end."""

    def mean(chosen, lean, on):
        count, sums = 0.0, np.zeros(3)
        for _, r, _, run in chosen:
            r = max(r, 1.0)
            x = np.array([min(run / r, 1), 10 / max(run, 10), np.log(max(run, 10) / max(r, 10))])
            count, sums = 0.95 * count + 1, 0.95 * sums + x
        return (sums + lean * on) / (count + lean), count

    m, _ = mean(seen, 20.0, np.array([0.5, 0.1, -1.0]))
    m, _ = mean([x for x in seen if x[0] == user], 2.0, m)
    m, count = mean([x for x in seen if x[:3] == (user, walltime, size)], 1.0, m)
    return [m[0], max(m[1], 10 / max(walltime, 10)), m[2], count]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(0, 200))
def test_expectations_are_those_of_the_definition(seed, count):
    rng = np.random.default_rng(seed)
    seen = [
        (int(rng.integers(-1, 3)), float(rng.choice([5, 60, 3600])), int(rng.integers(1, 4)), float(rng.integers(0, 5000)))
        for _ in range(count)
    ]
    past = np.array([(run, r, n, u, 0, 0, -1, -1, -1) for u, r, n, run in seen], past_dtype)
    m, of = groups.blank(1), np.zeros(16, np.int32)
    for begin in range(0, count, 16):  # the table grows on the way
        m = groups.entered(m, past[begin : begin + 16], of)
        history._run_times(m._replace(of=of), past[begin : begin + 16])
    jobs = random_workload(rng, jobs=9).jobs
    jobs["user"], jobs["walltime"] = rng.integers(-1, 3, 9), rng.choice([5, 60, 3600], 9)
    jobs["request"] = rng.integers(1, 4, (9, 1))
    m, out = groups.with_rows(m, jobs), np.empty((9, 4))
    memory.expect_all(m, jobs, np.arange(9), out)
    for job, found in zip(jobs, out, strict=True):
        assert found == pytest.approx(slow_expect(seen, job["user"], job["walltime"], job["request"][0]))


@pytest.mark.parametrize("name", sorted(INDICES))
def test_orders_with_history_are_the_same_compiled_and_asked(name):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        log = with_users(random_workload(rng, jobs=120, overruns=True), rng)
        w = log.take(slice(40, None))
        assert len(w.past)
        policy = resolve(f"{name}+easy")
        sim = Simulation(w)
        for _ in asked(sim, policy):
            pass
        slow = record(sim.state, 0, w, sim.cluster, policy)
        assert np.array_equal(simulate(w, policy).jobs["start"], slow.jobs["start"])


def test_history_never_sees_a_job_before_it_ended():
    """Two logs that differ in run times alone schedule alike until the first job ends that differs."""
    rng = np.random.default_rng(5)
    log = with_users(random_workload(rng, jobs=300, overruns=True), rng)
    one = simulate(log, "smith+easy").jobs
    changed = log.take(slice(None))
    late = one["start"] > np.median(one["start"])
    changed.truth["runtime"][late] = rng.permutation(changed.truth["runtime"][late]) + 7
    other = simulate(changed, "smith+easy").jobs
    ends = np.minimum(one["end"], other["end"])[late].min()
    before = one["start"] < ends
    assert before.sum() > 100 and np.array_equal(one["start"][before], other["start"][before])
    assert not np.array_equal(one["start"], other["start"])


def test_the_past_of_a_part_is_what_had_ended():
    w = jw.workload([0, 10, 20, 30, 40], [1, 2, 3, 4, 5], [5, 100, 9, 3, 1], [60] * 5, cluster=jw.pool(8), user=np.arange(5))
    assert w.past.size == 0
    part = w.take(slice(3, None))  # begins at 30: jobs 0 (ended at 5) and 2 (29) have ended, 1 (110) has not
    assert part.past["user"].tolist() == [0, 2] and part.past["runtime"].tolist() == [5, 9]
    later = part.take(slice(1, None))  # begins at 40 of the log: 3 has ended at 33
    assert later.past["user"].tolist() == [0, 2, 3] and later.past["size"].tolist() == [1, 3, 4]
    assert w.take(slice(0, 2)).past.size == 0


def test_waits_of_the_log_count_for_the_past(log):
    w = log("SDSC-SP2")
    part = w.take(slice(1000, 2000))
    ends = w.jobs["submit"] + np.maximum(w.columns["wait"], 0) + w.truth["runtime"]
    assert len(part.past) == (ends < w.jobs["submit"][1000]).sum() <= 1000
    assert len(w.take(slice(50_000, None)).past) == PAST


def test_sjf_smallest_and_fcfs_as_weights():
    rng = np.random.default_rng(1)
    w = with_users(random_workload(rng, jobs=200), rng)
    for name, chosen in (("sjf", {"log_walltime": 1}), ("smallest", {"log_processors": 1}), ("fcfs", {"log_wait": -1})):
        own = jw.ListScheduler(Index("own", weights(**chosen)), "easy")
        assert np.array_equal(simulate(w, own).jobs["start"], simulate(w, f"{name}+easy").jobs["start"])


def test_ageing_shortens_the_longest_wait(log):
    w = log("SDSC-SP2").take(slice(38_000, 48_000))
    plain, aged = simulate(w, "smith+easy").summary(), simulate(w, "smith-aged+easy").summary()
    assert aged["max_wait"] < 0.5 * plain["max_wait"]


def test_weights_are_checked():
    for wrong in (np.zeros(3), np.full(F, np.nan)):
        with pytest.raises(InputError, match="finite weights"):
            Index("x", wrong)
    with pytest.raises(ValueError, match="not in tuple"):
        weights(nothing=1.0)
    assert len(FEATURES) == F


def _told(w):
    jobs = w.jobs.copy()
    jobs["walltime"] = w.truth["runtime"]
    return jobs


def test_forecasts_are_judged_on_what_was_not_learnt_from(capsys, tmp_path):
    from jobwise.cli import run
    from jobwise.forecast.runtimes import FEATURES as COLUMNS
    from jobwise.forecast.runtimes import features, judge
    from jobwise.workloads.swf import write_swf

    log = jw.lublin(jobs=1500, procs=64, seed=2, load=0.8, estimates="users", users=10)
    x = features(log)
    assert x.shape == (1500, len(COLUMNS)) and np.isfinite(x).all()
    changed = log.take(slice(None))
    changed.truth["runtime"][900:] *= 5  # the future
    assert np.array_equal(features(changed)[:900], x[:900])
    twins = jw.workload(
        np.repeat([0.0, 1e6], [280, 120]),
        np.ones(400, int),
        np.arange(1.0, 401.0)[::-1],
        np.full(400, 500.0),
        cluster=jw.pool(4),
    )
    assert np.array_equal(twins.ends["runtime"], twins.truth["runtime"])  # equal submits: each job has its own run time
    exact = {f["forecast"]: f for f in judge(replace(twins, jobs=_told(twins)))}["requested"]
    assert exact["accuracy"] == 1 and exact["exceeded"] == 0
    found = {f["forecast"]: f for f in judge(log)}
    assert found["requested"]["exceeded"] == 0 and found["requested"]["accuracy"] < found["boosted median"]["accuracy"]
    assert 0.5 < found["boosted median"]["coverage"] < 0.95 and 0.3 < found["boosted median"]["exceeded"] < 0.7
    write_swf(log, tmp_path / "log.swf")
    assert run(["trace", "forecast", str(tmp_path / "log.swf")]) == 0 and "boosted" in capsys.readouterr().out
    assert run(["trace", "forecast", str(tmp_path / "log.swf"), "--jobs", "100"]) == 2
    assert "too few" in capsys.readouterr().err
