"""Forecasts by history online: compiled and asked are the same, requests are believed where they are exact; `trace forecast`.

Modules: report/forecast.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from conftest import random_workload

import jobwise as jw
from jobwise.cli import run
from jobwise.forecast.runtimes import calibration
from jobwise.jobs import past_dtype
from jobwise.policies.names import resolve
from jobwise.sim.memory import history, memory
from jobwise.sim.simulation import Simulation
from jobwise.simulate import asked, record, simulate
from jobwise.testing import check_policy
from jobwise.workloads.swf import write_swf

pytestmark = pytest.mark.xdist_group("forecast")


def with_users(w, seed):
    rng = np.random.default_rng(seed)
    w.jobs["user"], w.jobs["app"] = rng.integers(0, 3, len(w)), rng.integers(-1, 2, len(w))
    w.jobs["walltime"] = rng.choice([30.0, 100.0, 1000.0], len(w))
    return w


def test_a_forecast_is_made_again_when_something_has_happened_or_it_is_old():
    """Two jobs of a user, alike. A forecast stands while nothing happens to its user and key, whatever others do; then it is the
    expectation of now. While the user runs nothing, it never grows old."""
    jobs = jw.workload([0] * 4, [1] * 4, [500] * 4, [1000] * 4, user=[1, 1, 2, 2], cluster=jw.pool(4)).jobs
    m = history.begin(np.zeros(0, past_dtype), jobs, 4, True)

    def told(j, now):
        memory.forecast(m, m.of[j], now)
        return memory.forecast_of(m, m.of[j])[0]

    first = told(0, 0.0)
    assert first == 0.5 == told(2, 0.0)  # the prior: nobody has run
    memory.started(m, 2, 10.0)
    memory.stopped(m, 2, 1000.0, 20.0, 10.0)  # another user's job ran for a hundredth of its request
    assert told(0, 5000.0) == first and told(2, 20.0) < 0.2
    memory.started(m, 1, 5000.0)  # one of the same key starts: what is known of everybody counts now
    then = told(0, 5000.0)
    assert then == memory.expect_job(m, 0, 1000.0)[0] < first
    memory.started(m, 3, 5001.0)
    memory.stopped(m, 3, 1000.0, 5002.0, 1.0)
    assert told(0, 5000.0 + memory.STALE - 1) == then > told(0, 5000.0 + memory.STALE)
    memory.stopped(m, 1, 1000.0, 6000.0, np.nan)  # it goes back into the queue: its user has news, and runs nothing
    at = told(0, 6000.0)
    assert told(0, 1e9) == at


def test_requeued_jobs_come_once():
    """Nodes fail: compiled and asked are the same, and nothing is counted twice."""
    w = with_users(random_workload(np.random.default_rng(3), jobs=120, procs=8, overruns=True), 3)
    down = [(100.0 * k, 0, 0) for k in range(1, 8)] + [(100.0 * k + 10, 0, 1) for k in range(1, 8)]
    w = replace(w, cluster=w.cluster.with_outages(down)).take(slice(30, None))
    policy, sim = resolve("smith+easy+express3%+promise1.1x"), Simulation(w)
    for _ in asked(sim, policy):
        pass
    a, b = simulate(w, policy), record(sim.state, 0, w, sim.cluster, policy)
    assert a.jobs["restarts"].sum() > 3 and np.array_equal(a.jobs["start"], b.jobs["start"])


def test_a_policy_may_begin_in_the_middle():
    w = with_users(random_workload(np.random.default_rng(5), jobs=120, procs=8, overruns=True), 5).take(slice(30, None))
    policy, sim = resolve("smith+easy+express3%"), Simulation(w)
    run, checked = None, 0
    while sim.advance():
        view = sim.view()
        if run is None:
            run = policy.begin(view)
        elif len(view.ended):
            run.ended(view, view.ended)
        made = list(run.decide(view))
        if len(view.queue) and view.now > 300:
            checked += np.allclose(policy.begin(view)._memory.expected(view), run._memory.expected(view))
        sim.apply(made)
    assert checked > 10


@pytest.mark.parametrize("name", ["smith+easy+express3%", "smith-aged+easy"])
def test_forecasts_do_not_peek(name):
    w = with_users(jw.lublin(400, procs=64, seed=2, load=0.9, estimates="users"), 2)
    check_policy(name, w.take(slice(150, None)))


def test_requests_are_believed_where_they_are_exact():
    exact = with_users(jw.lublin(1500, procs=64, seed=1, load=0.9), 1)
    exact.jobs["walltime"] = np.maximum(exact.truth["runtime"], 1.0)
    late = exact.take(slice(1000, None))
    vague = replace(late, jobs=late.jobs.copy(), past=late.past.copy())
    vague.jobs["walltime"], vague.past["walltime"] = 86_400.0, 86_400.0
    for one, believed in ((late, True), (vague, False)):
        c = history.begin(one.past, one.jobs, 64, True)
        assert c.error[2] > 100 and (c.error[0] > 2 * c.error[1]) == believed
        memory.forecast(c, c.of[0], 0.0)
        assert (memory.run_of(c, 0) == one.jobs["walltime"][0]) == believed


def test_the_command(tmp_path, capsys):
    pytest.importorskip("lightgbm")
    w = with_users(jw.lublin(3000, procs=64, seed=6, load=0.9, estimates="users"), 6)
    log, page = str(tmp_path / "log.swf"), tmp_path / "forecasts.html"
    write_swf(w, log)
    assert run(["trace", "forecast", log, "--json"]) == 0
    assert '"history"' in capsys.readouterr().out
    assert run(["trace", "forecast", log, "--report", str(page)]) == 0
    assert page.read_text().count("<svg") == 4
    assert run(["trace", "forecast", log, "--report", str(page)]) == 2  # nothing is overwritten


def test_calibration_finds_who_may_be_believed():
    """Groups by forecast, of all judged jobs; its loss is that of the forecasts themselves."""
    w = with_users(jw.lublin(3000, procs=64, seed=6, load=0.9, estimates="users"), 6)
    cut, found = int(0.7 * 3000), calibration(w)["short"]["history"]
    p = history.expected_at_submit(w.past, w.jobs, w.by_end)[cut:, 1]
    y = 10 / np.maximum(w.truth["runtime"], 10)[cut:]
    assert np.mean(found["told"]) == pytest.approx(p.mean()) and np.mean(found["was"]) == pytest.approx(y.mean())
    assert found["told"] == sorted(found["told"]) and len(found["loss"]) == 10
    p = np.clip(p, 1e-4, 1 - 1e-4)
    loss = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
    assert np.mean(found["loss"]) == pytest.approx(loss, rel=0.01)
