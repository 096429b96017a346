"""MARS: Algorithm 3, cuts, the selector, the reserve."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_workflows import random_flow

import jobwise as jw
from jobwise.errors import InputError
from jobwise.metrics import workflows
from jobwise.systems.mars import (
    LEAST,
    MEDIAN,
    MODEL,
    MOST,
    RULES,
    TOGETHER,
    WorkflowPlan,
    argbest,
    decide,
    halved,
    parts,
    tuned,
)
from jobwise.workloads.streams import arrivals, stream


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 100_000), max_size=30), st.integers(0, 10**6), st.booleans())
def test_algorithm_3_ends_and_leaves_nothing_out(sizes, seed, model):
    rng = np.random.default_rng(seed)
    likes, large = rng.random((31, 31)) < 0.7, rng.random(31) < 0.1
    plans = decide(sizes, compatible=lambda a, b: bool(likes[a, b]), large=lambda i: bool(large[i]), model=model)
    assert [i for p in plans for i in p.flows] == [i for i, n in enumerate(sizes) if n]
    for p in plans:
        total = sum(sizes[i] for i in p.flows)
        assert sum(p.parts) == total and len(p.flows) <= TOGETHER
        if p.by == MODEL:
            assert model and total >= MEDIAN and max(p.parts) <= MOST and not any(large[i] for i in p.flows)
            assert all(n >= MOST / 2 - 1 for n in p.parts) or len(p.parts) == 1
        else:
            assert len(p.flows) == len(p.parts) == 1
            assert p.by == ("fcfs+easy" if large[p.flows[0]] else "sjf" if total < LEAST else "unicef")


def test_algorithm_3_branch_by_branch():
    assert decide([]) == [] and decide([0, 0]) == []
    assert decide([100]) == [WorkflowPlan((0,), (100,), "sjf")]
    assert decide([128]) == [WorkflowPlan((0,), (128,), "unicef")] and decide([511])[0].by == "unicef"
    assert decide([512]) == [WorkflowPlan((0,), (512,), MODEL)] and decide([20_000])[0].parts == (20_000,)
    assert decide([20_001])[0].parts == (10_001, 10_000) and decide([80_001])[0].parts == (
        10_001,
        10_000,
        20_000,
        20_000,
        20_000,
    )
    assert decide([300, 300]) == [WorkflowPlan((0, 1), (600,), MODEL)]  # merged
    assert decide([300, 100]) == [
        WorkflowPlan((0,), (300,), "unicef"),
        WorkflowPlan((1,), (100,), "sjf"),
    ]  # not enough together
    assert decide([100] * 6) == [WorkflowPlan(tuple(range(6)), (600,), MODEL)]  # a chain
    assert [p.by for p in decide([60] * 9)] == ["sjf"] * 9  # eight are too few
    assert [p.by for p in decide([300, 300], compatible=lambda a, b: False)] == ["unicef"] * 2
    assert [p.by for p in decide([600, 30_000], model=False)] == ["unicef"] * 2  # no torch
    assert [p.by for p in decide([1000, 5], large=lambda i: i == 1)] == [MODEL, "fcfs+easy"]
    with pytest.raises(InputError, match="-1"):
        decide([5, -1])
    assert halved(100_000) == [12_500] * 8


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_parts_are_small_and_in_order(seed, most):
    rng = np.random.default_rng(seed)
    w = random_flow(rng, int(rng.integers(1, 60)))
    part = parts(w, most)
    assert np.bincount(part).max() <= most and set(part) == set(range(part.max() + 1))
    assert all(part[a] <= part[b] for a, b in w.edges)


def test_the_selector_and_the_reserve():
    rng = np.random.default_rng(5)
    flows = [random_flow(rng, n) for n in (4, 8, 40)]
    w = arrivals(flows, 30, 8, load=1.0, seed=1, estimate=0.0)
    slow = {r: workflows(jw.simulate(w, r))["slowdown"].mean() for r in RULES}
    assert argbest(w) == min(slow, key=slow.get)
    pasts = [arrivals(flows, 30, 8, load=1.0, seed=[2, k]) for k in range(2)]
    rule = tuned(pasts)
    assert rule == tuned(pasts) and jw.resolve(rule).name == rule

    def mean(name):
        return np.mean([np.log(workflows(jw.simulate(p, name))["slowdown"].mean()) for p in pasts])

    assert mean(rule) <= min(mean(r) for r in RULES[:5]) + 1e-12


def test_workflow_metrics_by_hand():
    """Two workflows of a chain of two tasks on one core: the second waits for the first."""
    from jobwise.workloads.workflows import workflow

    one = workflow("one", [{"name": "a", "runtime": 2}, {"name": "b", "runtime": 3}], [[], ["a"]])
    r = jw.simulate(stream([one, one], cluster=1), "flow-fcfs")
    found = workflows(r)
    assert found["bound"].tolist() == [5, 5] and sorted(found["turnaround"]) == [5, 10] and sorted(found["slowdown"]) == [1, 2]
    told = r.summary()
    assert (told["workflows"], told["workflow_slowdown"], told["max_workflow_slowdown"]) == (2, 1.5, 2)


def test_ten_thousand_tasks_are_analysed_decided_and_simulated():
    rng = np.random.default_rng(6)
    from jobwise.workloads.bundles import bundled
    from jobwise.workloads.signatures import signature
    from jobwise.workloads.workflows import Workflow, task_dtype

    count = 10_000
    tasks = np.zeros(count, task_dtype)
    tasks["runtime"], tasks["cores"] = rng.integers(1, 99, count), 1
    tasks["estimate"] = tasks["runtime"]
    parents = rng.integers(0, np.maximum(np.arange(1, count) - 50, 1), (2, count - 1))
    edges = np.stack([parents.ravel(), np.tile(np.arange(1, count), 2)], axis=1)
    w = Workflow("large", tasks, edges, tuple(map(str, range(count))), ("p",))
    assert len(bundled(w, 64)) < count and np.isfinite(signature(w, 64)).all() and decide([len(w)])[0].by == MODEL
    r = jw.simulate(stream([w], cluster=64), "rank")
    assert r.jobs["end"].max() <= 1.3 * max(w.critical_path, w.work / 64)
