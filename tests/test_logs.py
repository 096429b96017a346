"""On real logs: start times equal the slow twin's, job by job. The default selection takes the first jobs of each."""

import naive
import numpy as np
import pytest

from jobwise.policies.names import resolve
from jobwise.simulate import simulate
from jobwise.workloads.transform import first

ORDERS = "fcfs lcfs sjf ljf saf laf smallest largest lxf wfp3 unicef f1 f2 f3 f4 random".split()
LOGS = {"SDSC-SP2": 5000, "LLNL-Atlas": None, "ALCF-Theta": None, "HPC2N": None}


def same(w, name):
    p = resolve(name)
    got = simulate(w, p, seed=7).jobs["start"]
    want = naive.replay(naive.table(w), w.cluster.processors, p.order, p.backfill, p.guard, p.commit, w.offset, 7)
    different = np.flatnonzero(got != np.array(want))
    assert not len(different), f"{w.name} {name}: {len(different)} jobs, first {different[0]}"


@pytest.mark.parametrize("name", LOGS)
def test_first_jobs_equal_the_slow_twin(log, name):
    w = first(log(name), 500)
    for order in ORDERS:
        same(w, order)
        same(w, f"{order}+easy")
    same(w, "fcfs+conservative")
    same(w, "sjf+easy+guard6h")


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["", "+easy"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LOGS)
def test_whole_logs_equal_the_slow_twin(log, name, order, rule):
    w = log(name)
    same(first(w, LOGS[name] or len(w)), order + rule)
