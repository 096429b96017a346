"""Measures weighted by area, and the spread of throughput, by hand; what benchmarks.measures makes of them."""

import json

import numpy as np
import pytest

import jobwise as jw
from benchmarks import measures
from jobwise import metrics
from jobwise.compare.procedure import compare
from jobwise.report import export


def small():
    """Three jobs on two processors: under FCFS the third waits for the second, under EASY it does not."""
    return jw.workload([0, 1, 2], [1, 2, 1], [100, 100, 50], cluster=jw.pool(2))


@pytest.mark.parametrize(
    "policy, response, wait", [("fcfs", 62_200 / 350, 29_700 / 350), ("fcfs+easy", 52_300 / 350, 19_800 / 350)]
)
def test_area_weighted_by_hand(policy, response, wait):
    """Areas 100, 200 and 50; turnarounds 100, 199 and 248 (FCFS) or 50 (EASY)."""
    s = jw.simulate(small(), policy).summary()
    assert s["area_weighted_response"] == pytest.approx(response) and s["area_weighted_wait"] == pytest.approx(wait)
    assert s["processor_hours"] == pytest.approx(350 / 3600)
    assert s["idle_processor_hours"] == pytest.approx((2 * s["makespan"] - 350) / 3600)
    assert np.isnan(s["throughput_spread"])  # less than two days


def test_the_spread_of_throughput_by_hand():
    """Days end with two, no, and one job: standard deviation sqrt(2 / 3) of a mean of 1; the fourth day is not whole."""
    day = 86400.0
    w = jw.workload([0, 10, 2 * day, 3 * day], [1, 1, 1, 1], [60, 60, 60, 60], cluster=jw.pool(4))
    assert jw.simulate(w, "fcfs").summary()["throughput_spread"] == pytest.approx(np.sqrt(2 / 3))
    assert metrics.spread(np.array([3, 3, 3]), 3) == 0.0
    assert metrics.spread(np.array([2]), 2) == pytest.approx(1.0)  # nothing ends on the second day
    assert np.isnan(metrics.spread(np.zeros(3), 3)) and np.isnan(metrics.spread(np.array([1]), 1))


def test_a_comparison_has_the_change_of_the_area_weighted_response():
    c = compare(jw.lublin(jobs=1500, procs=64, seed=1, load=0.95), ["fcfs+easy", "saf+easy"], replicas=2)
    e = c.change_weighted(1)
    assert (
        e.low < e.change < e.high and c.to_dict()["policies"][1]["area_weighted_response_against_first"]["change"] == e.change
    )
    by_blocks = [metrics.area_weighted(r, metrics.turnaround(r)) for r in c.records]
    assert [s["area_weighted_response"] for s in c.logged] == pytest.approx(by_blocks)
    text = "\n".join(measures.of_log(c))
    assert "area-weighted response, h" in text and "`saf+easy`" in text
    assert "of 1" in measures.disagreement([c]) and measures.denied([c]).startswith("Of ")


def test_classes_have_the_wait_of_which_five_in_a_hundred_wait_longer():
    r = jw.simulate(jw.lublin(jobs=800, procs=64, seed=2, load=0.9, users=9, estimates="users"), "fcfs+easy")
    rows = metrics.breakdown(r, "user")
    assert all(x["wait"] <= x["p95_wait"] + 1e-9 or x["jobs"] < 20 for x in rows) and all(
        x["p95_wait"] <= x["max_wait"] for x in rows
    )


def test_a_schedule_by_the_names_of_batsim(tmp_path):
    """Values by hand, of the three jobs under EASY: waits 0, 99 and 0."""
    r = jw.simulate(small(), "fcfs+easy")
    export.write(r, str(tmp_path / "schedule.json"))
    x = json.loads((tmp_path / "schedule.json").read_text())
    assert (x["nb_jobs"], x["nb_jobs_success"], x["nb_jobs_killed"], x["success_rate"]) == (3, 3, 0, 1.0)
    assert (x["makespan"], x["mean_waiting_time"], x["max_waiting_time"]) == (200.0, 33.0, 99.0)
    assert x["mean_turnaround_time"] == pytest.approx((100 + 199 + 50) / 3) and x["max_slowdown"] == pytest.approx(1.99)
    assert (x["nb_computing_machines"], x["time_computing"], x["time_idle"]) == (2, 350.0, 50.0)
