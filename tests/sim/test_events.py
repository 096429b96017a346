"""Events of jobs, as the kernel, views, tables and pollers tell them, and the one memory that is made of them.

Modules: sim/memory/groups.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from conftest import random_workload
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.decision import Preempt, Start
from jobwise.jobs import STARTED, STOPPED, SUBMITTED, past_dtype
from jobwise.policies.names import resolve
from jobwise.policies.replay import remembering
from jobwise.sim import events
from jobwise.sim.memory import groups, memory
from jobwise.sim.memory.history import begin
from jobwise.sim.pool import scored_pool
from jobwise.sim.simulation import Simulation


def with_failures(seed, jobs=80, procs=8):
    """Jobs that overrun, users, and a machine that fails for a moment now and then."""
    w = random_workload(np.random.default_rng(seed), jobs=jobs, procs=procs, overruns=True)
    rng = np.random.default_rng(seed)
    w.jobs["user"], w.jobs["app"] = rng.integers(0, 3, len(w)), rng.integers(-1, 2, len(w))
    down = [(150.0 * k, 0, 0) for k in range(1, 5)] + [(150.0 * k + 10, 0, 1) for k in range(1, 5)]
    return replace(w, cluster=w.cluster.with_outages(down))


def told(sim, policy):
    """All events that the views of a simulation tell, to its end, and the last view."""
    every, view = [], sim.view()
    while not sim.done and sim.advance():
        view = sim.view()
        assert sim.view().events is view.events  # the same of one instant
        every += view.events.tolist()
        sim.apply(policy.decide(view))
    sim.advance()
    return every + sim.view().events.tolist(), view


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), tick=st.sampled_from([0.0, 30.0]))
def test_views_tell_every_submit_start_and_stop_once_and_in_order(seed, tick):
    w = with_failures(seed)
    sim = Simulation(w, tick=tick)
    every, _ = told(sim, resolve("fcfs+easy"))
    kinds = {j: [kind for _, _, i, kind in every if i == j] for j in range(len(w))}
    jobs = sim.state.jobs[0]
    for j, own in kinds.items():
        assert own == [SUBMITTED, *[STARTED, STOPPED] * (1 + jobs["restarts"][j])]
    for time, run, j, kind in every:
        if kind == SUBMITTED:
            assert time == jobs["queued"][j] or jobs["restarts"][j]
        if kind == STOPPED and not np.isnan(run):
            assert run == pytest.approx(jobs["ran"][j]) and time >= jobs["end"][j]
    first = {j: next(t for t, _, i, kind in every if i == j and kind == STARTED) for j in kinds}
    assert np.array_equal([first[j] for j in range(len(w))], jobs["start"])


def test_pauses_are_told_and_what_is_undone_at_once_is_not():
    w = jw.workload([0, 0, 0], [1, 1, 1], [50, 50, 50], cluster=jw.pool(3))
    sim = Simulation(w)
    sim.advance()
    sim.apply([Start(0), Start(1), Start(2)])
    sim.fail(0)  # after the starts, at the same instant
    sim.repair(0)
    sim.advance()
    every = [(j, kind) for kind in (SUBMITTED, STARTED, STOPPED) for j in range(3)]
    assert [x[2:] for x in sim.view().events.tolist()] == every
    sim.apply([Start(0)])
    view = sim.view()
    sim.fail(0)  # a view has told of the instant: the next one tells of the failure, and of the start before it
    later = sim.view()
    assert [x[2:] for x in later.events.tolist()] == [(0, STARTED), (0, STOPPED)] and later.events is not view.events
    sim.repair(0)
    sim = Simulation(w)
    sim.advance()
    sim.apply([Start(0), Start(1), Start(2)])
    sim.advance(10.0)
    sim.view()
    sim.apply([Preempt(1), Preempt(2), Start(2), *[Start(1), Preempt(1)] * 20])
    sim.advance(20.0)
    assert [(t, j, kind) for t, _, j, kind in sim.view().events.tolist()] == [(10.0, 1, STOPPED)]
    assert np.isnan(sim.view().events["run"]).all() and not len(sim.view().ended)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_same_events_make_the_same_memory(seed):
    """Compiled, view by view, and from the events of the whole run at once."""
    w = with_failures(seed).take(slice(20, None))
    policy = resolve("smith+easy+express5%")
    compiled = Simulation(w)
    b = remembering(compiled.state, 0, policy, w.past)
    while scored_pool.run(compiled.state, 0, b, policy.rule, 1000):
        pass
    asked = Simulation(w)
    run = policy.begin(asked.view())
    every, view = told(asked, run)
    run.ended(asked.view(), asked.view().ended)
    whole = begin(w.past, w.jobs, 8, True)
    memory.note(whole, view.table, np.array(every, view.events.dtype))
    mine = run._memory.tables
    for other in (mine, whole):
        used = int(b.memory.used[0])
        assert other.used[0] == used and np.array_equal(b.memory.of, other.of[: len(w)])
        assert np.array_equal(b.memory.run[:used], other.run[:used])
        for field in b.memory.group.dtype.names:
            assert np.array_equal(b.memory.group[field][:used], other.group[field][:used]), field
    assert np.array_equal(compiled.state.jobs["start"], asked.state.jobs["start"])


def test_instants_that_nobody_looks_at_are_told_by_the_next_view():
    w, policy = with_failures(11), resolve("fcfs+easy")
    every, some = Simulation(w), Simulation(w)
    whole, _ = told(every, policy)
    heard, k = [], 0
    while not some.done and some.advance():
        k += 1
        waiting = some.state.sims["queued"][0] > 0
        if waiting or k % 5 == 0:
            view = some.view()
            heard += view.events.tolist()
            some.apply(policy.decide(view))
    some.advance()
    assert str(heard + some.view().events.tolist()) == str(whole)


def test_jobs_that_never_ran_are_neither_started_nor_stopped():
    """Descendants of a failed job end without a start: a memory that begins in the middle learns nothing of them."""
    w = jw.workload([0, 0, 5], [1, 1, 1], [50, 50, 50], cluster=jw.pool(1), edges=np.array([[0, 1]]))
    w.truth["fails"][0] = 1
    sim = Simulation(w)
    for _ in range(3):
        sim.advance()
        sim.apply(resolve("fcfs").decide(sim.view()))
    view = sim.view()
    kinds = [(j, kind) for _, _, j, kind in events.so_far(view.jobs, view.queue, view.now).tolist()]
    assert (1, STARTED) not in kinds and (1, STOPPED) not in kinds and (0, STOPPED) in kinds


def test_a_poller_that_compares_tables_sees_what_happened():
    """Looked at every 40 s, as a live cluster is: each submit, start and stop once, runs as they were."""
    w = with_failures(7)
    sim, policy, every = Simulation(w), resolve("fcfs+easy"), []
    status = np.zeros(len(w), np.int8)
    due = 0.0
    while not sim.done and sim.advance():
        sim.apply(policy.decide(sim.view()))
        if sim.now >= due or sim.done:
            table = sim.state.jobs[0]
            every += events.between(status, table, sim.now).tolist()
            status, due = table["status"].copy(), sim.now + 40.0
    seen = {j: [kind for _, _, i, kind in every if i == j] for j in range(len(w))}
    assert all(own[0] == SUBMITTED and own[-1] == STOPPED for own in seen.values())
    assert all(own.count(STARTED) == own.count(STOPPED) for own in seen.values())
    ran = {j: run for _, run, j, kind in every if kind == STOPPED and not np.isnan(run)}
    assert ran == pytest.approx(dict(enumerate(sim.state.jobs["ran"][0])))


def test_a_memory_grows_with_the_jobs():
    """Entered one by one or all at once, with room for one job or for all: the same groups."""
    w = jw.campaigns(3000, procs=64, load=0.8, seed=2, users=40)
    past = np.zeros(0, past_dtype)
    whole, grown = begin(past, w.jobs, 64, True), groups.blank(64, True)
    for k in range(1, 3001, 7):
        grown = groups.with_rows(grown, w.jobs[:k])
    grown = groups.with_rows(grown, w.jobs)
    assert np.array_equal(whole.of, grown.of[:3000]) and np.array_equal(whole.used[:2], grown.used[:2])
    fields = ["user", "app", "queue", "memory", "walltime", "request"]
    kinds = np.unique(w.jobs[fields], return_inverse=True)[1]
    assert len(np.unique(kinds)) == whole.used[1]
    for a, b in zip(kinds, whole.of, strict=True):
        assert (b == whole.of[kinds == a]).all()


def test_run_times_alone_are_expected_as_defined():
    """The mean of a key leans on its user, a user on everyone, everyone on the prior; each fades by 0.95 with every end."""
    jobs = jw.workload([0, 1, 2, 3], [1, 1, 2, 1], [9] * 4, [100] * 4, cluster=jw.pool(4), user=np.array([0, 0, 0, 1])).jobs
    m = begin(np.zeros(0, past_dtype), jobs, 4, False)
    memory.stopped(m, 0, 100.0, 50.0, 50.0)
    memory.stopped(m, 2, 100.0, 90.0, 5.0)
    every = (0.95 * 0.5 + 0.05 + 20 * 0.5) / (1.95 + 20)
    user = (0.95 * 0.5 + 0.05 + 2 * every) / (1.95 + 2)
    assert memory.expect_job(m, 1, 100.0)[0] == pytest.approx((0.5 + user) / (1 + 1))
    assert memory.expect_job(m, 3, 100.0)[0] == pytest.approx((0 + (0 + 2 * every) / 2) / 1)
    assert memory.expect_job(m, 1, 100.0)[3] == 1.0 and memory.expect_job(m, 3, 100.0)[3] == 0.0


def test_a_start_that_is_known_already_is_none():
    w = with_failures(3)
    m = begin(np.zeros(0, past_dtype), w.jobs, 8, True)
    user = m.cell["group"][m.of[0], groups.USER]
    for _ in range(3):
        memory.started(m, 0, 5.0)
    assert m.group["running"][user] == 1 and m.began[0] == 5.0
    for _ in range(3):
        memory.stopped(m, 0, 100.0, 9.0, np.nan)
    assert m.group["running"][user] == 0 and np.isnan(m.began[0]) and m.group["news"][user] == 1
