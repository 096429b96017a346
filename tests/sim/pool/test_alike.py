"""Classes of jobs that never swap: schedules are those of a queue of single jobs, to the bit.

Modules: sim/pool/items.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobwise.cluster import pool
from jobwise.jobs import past_dtype
from jobwise.policies import replay as loops
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import Index
from jobwise.policies.names import resolve
from jobwise.sim.memory.loglinear import FEATURES, F
from jobwise.sim.pool import alike
from jobwise.sim.pool.items import ITEMS
from jobwise.sim.state import allocate
from jobwise.simulate import simulate
from jobwise.workload import workload

RULES = (
    "lxf", "wfp3+easy", "unicef+easy", "lxf+easy-sjbf", "wfp3+easy+guard1h", "unicef+easy+guard2h", "smith+easy",
    "sjf+easy-sjbf+predicted", "lxf+easy+actual", "smith-aged+easy", "smith-geo-aged+easy+guard1h",
)  # fmt: skip


def few_kinds(seed, jobs=300, kinds=5, broken=False, tied=False):
    """Jobs of a few sizes and requests on a busy pool, whose machine may fail twice and whose tasks may wait for others."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, kinds, jobs)
    asked, size = rng.integers(60, 4000, kinds)[kind], rng.integers(1, 9, kinds)[kind]
    submit = np.cumsum(rng.integers(0, 300, jobs) * (rng.random(jobs) < 0.5))
    edges = [(j, j + int(rng.integers(1, 9))) for j in range(0, jobs - 9, 7)] if tied else None
    down = [(3000.0, 0, 0), (3600.0, 0, 1), (9000.0, 0, 0), (9900.0, 0, 1)] if broken else []
    w = workload(
        submit, size, np.ceil(asked * rng.random(jobs)), asked, user=rng.integers(0, 3, jobs), edges=edges, cluster=pool(12)
    )
    return replace(w, cluster=w.cluster.with_outages(down))


def schedule(w, policy):
    return simulate(w, policy).jobs["start"]


def with_past(seed):
    """The last jobs of a log, with what is known of many more kinds before them."""
    rng = np.random.default_rng(seed)
    late, past = few_kinds(seed), np.zeros(2000, past_dtype)
    past["submit"] = np.arange(2000) * 50 - 2e5
    past["runtime"], past["walltime"] = rng.integers(1, 900, 2000), rng.integers(900, 9000, 2000)
    past["size"], past["end"] = rng.integers(1, 13, 2000), past["submit"] + 1000
    return replace(late, past=past)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), broken=st.booleans(), tied=st.booleans())
def test_schedules_are_those_of_single_jobs(name, seed, broken, tied):
    w = with_past(seed) if not (broken or tied) else few_kinds(seed, broken=broken, tied=tied)
    got = schedule(w, name)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(loops.alike, "classes", lambda *_: alike.NONE_ALIKE)
        want = schedule(w, name)
    assert np.array_equal(got, want)


def test_an_item_stands_for_a_class():
    """Twenty jobs of two kinds wait behind one that fills the machine: two items, and the third of a kind that came again."""
    w = workload([0] * 21, [12] + [6, 4] * 10, [100.0] * 21, [100.0] + [50.0, 60.0] * 10, cluster=pool(12))
    s, policy = allocate([w], w.cluster), resolve("wfp3+easy")
    b = loops.scored_pool.scheduler(s, 0, alike=alike.classes(s, 0, policy.rule))
    assert len(np.unique(b.alike)) == 3
    assert loops.scored_pool.run(s, 0, b, policy.rule, 1)
    assert b.count[ITEMS] == 2 and s.sims[0]["queued"] == 20
    assert sorted(b.item["row"][:2].tolist()) == [1, 2]


def weights(**terms):
    v = np.zeros(F)
    for name, value in terms.items():
        v[FEATURES.index(name)] = value
    return v


def test_who_keeps_classes():
    no = np.empty(0)
    for name in ("fcfs", "sjf", "f1+easy", "wfp3+easy", "unicef", "lxf+easy-sjbf"):
        assert alike.keeps(resolve(name).rule, no)
    for name in ("lcfs", "random+easy", "jobwise"):
        assert not alike.keeps(resolve(name).rule, np.zeros(F))
    index = ListScheduler(Index("mine", weights()), "easy").rule
    assert alike.keeps(index, weights(log_walltime=1.0, log_wait=-2.0)) and not alike.keeps(index, weights(log_wait=0.1))
