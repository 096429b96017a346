"""The verbs of the kernel: by hand, and under random decisions the invariants that must hold whatever a policy does.

Modules: decision.py, jobs.py, sim/allocations.py, sim/completions.py, sim/queued.py, sim/simulation.py, sim/state.py.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobwise.cluster import nodes, pool
from jobwise.decision import Preempt, Reserve, Start, Wait
from jobwise.errors import InputError
from jobwise.jobs import DONE, FAILED, FUTURE, PAUSED, QUEUED, RUNNING, WAITING
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.sim.simulation import Simulation
from jobwise.simulate import simulate
from jobwise.workload import workload


def one(submit=(0,), request=(1,), runtime=(10,), cluster=None, **more):
    return workload(list(submit), list(request), list(runtime), cluster=cluster or pool(4), **more)


def statuses(sim):
    return sim.state.jobs[0]["status"].tolist()


def test_life_of_a_job():
    sim = Simulation(one(submit=[5, 7], request=[2, 1], runtime=[10, 1]))
    assert statuses(sim) == [FUTURE, FUTURE]
    assert sim.advance() and sim.now == 0
    sim.apply([Start(0)])
    assert statuses(sim) == [RUNNING, FUTURE]
    assert sim.advance() and sim.now == 2 and statuses(sim) == [RUNNING, QUEUED]
    assert sim.advance() and sim.now == 10 and statuses(sim) == [DONE, QUEUED]
    assert not sim.advance()  # job 1 waits for a decision that no event brings
    assert not sim.done


def test_preempt_keeps_the_work_and_resume_may_cost():
    sim = Simulation(one(), restart_cost_s=3.0)
    sim.advance()
    sim.apply([Start(0)])
    sim.advance(4.0)
    sim.apply([Preempt(0)])
    assert statuses(sim) == [PAUSED] and sim.view().free.sum() == 4
    sim.advance(20.0)
    sim.apply([Start(0)])
    sim.advance()
    assert sim.now == 20 + 6 + 3 and sim.done
    assert sim.state.jobs[0]["start"][0] == 0 and sim.state.jobs[0]["ran"][0] == 4 + 9


def test_rate_changes_move_the_end():
    sim = Simulation(one())
    sim.advance()
    sim.apply([Start(0, rate=0.5)])
    sim.advance(8.0)  # 4 of 10 s of work done
    sim.set_rate(0, 3.0)
    sim.advance()
    assert sim.now == 10.0 and sim.done
    sim = Simulation(one())
    sim.advance()
    sim.apply([Start(0)])
    sim.set_rate(0, 0.0)
    assert not sim.advance()  # stalled for ever
    with pytest.raises(InputError, match="cannot set rate"):
        sim.set_rate(0, -1.0)


def test_a_stalled_job_goes_on_at_the_rate_it_had():
    sim = Simulation(one(), on_failure="stall")
    sim.advance()
    sim.apply([Start(0, rate=0.5)])
    sim.advance(8.0)
    sim.fail(0)
    sim.advance(18.0)
    sim.repair(0)
    sim.advance()
    assert sim.now == 30.0 and sim.done  # 4 of 10 s of work done, the others in 12 s


def test_reserve_stops_the_clock():
    sim = Simulation(one(submit=[0, 100], request=[1, 1], runtime=[5, 5]))
    sim.advance()
    sim.apply([Reserve(0, 42.0)])
    assert sim.advance() and sim.now == 42
    sim.apply([Reserve(0, 60.0)])
    sim.apply([Reserve(0, float("nan"))])
    assert sim.advance() and sim.now == 100


def test_tick_puts_decisions_on_a_grid():
    w = one(submit=[0, 3, 12], request=[4, 4, 4], runtime=[10, 5, 5])
    assert simulate(w, "fcfs", tick=10.0).jobs["start"].tolist() == [0, 10, 20]
    assert simulate(w, "fcfs").jobs["start"].tolist() == [0, 10, 15]
    assert simulate(w, "fcfs", tick=0.3).jobs["start"] == pytest.approx([0, 10.2, 15.3])


def test_children_wait_for_all_parents():
    w = one(submit=[0, 0, 0], request=[1, 1, 1], runtime=[10, 20, 5], edges=[(0, 2), (1, 2)])
    sim = Simulation(w)
    sim.advance()
    assert statuses(sim) == [QUEUED, QUEUED, WAITING]
    assert simulate(w, "fcfs").jobs["start"].tolist() == [0, 0, 20]


def test_a_failed_job_takes_its_descendants_with_it():
    w = one(submit=[0, 0, 0, 50], request=[1] * 4, runtime=[10] * 4, edges=[(0, 1), (1, 2), (2, 3)])
    w.truth["fails"][0] = 1
    r = simulate(w, "fcfs")
    assert r.jobs["status"].tolist() == [FAILED] * 4
    assert np.isnan(r.jobs["start"][1:]).all()
    assert r.summary()["jobs"] == 1


@pytest.mark.parametrize(("mode", "end", "restarts"), [("requeue", 30.0, 1), ("fail", 5.0, 0), ("stall", 25.0, 0)])
def test_node_failure(mode, end, restarts):
    down = nodes(2).with_outages([(5.0, 0, 0), (20.0, 0, 1)])
    w = one(request=[2], cluster=down)
    r = simulate(w, "fcfs", on_failure=mode)
    assert r.jobs["end"][0] == end and r.jobs["restarts"][0] == restarts
    assert r.jobs["status"][0] == (FAILED if mode == "fail" else DONE)


def test_pool_outage_and_repair():
    down = pool(4).with_outages([(5.0, 0, 0), (20.0, 0, 1)])
    w = one(submit=[0, 6], request=[3, 2], runtime=[10, 10], cluster=down)
    assert simulate(w, "fcfs+easy").jobs["start"].tolist() == [0, 30]
    assert simulate(w, "fcfs+easy", on_failure="stall").jobs["end"].tolist() == [25, 35]


@pytest.mark.parametrize("mode", ["requeue", "stall"])
def test_a_policy_that_is_asked_meets_every_outage(mode):
    """Of two workloads side by side, compiled and asked in Python."""
    from jobwise.simulate import simulate_many

    down = nodes(2, cpus=2).with_outages([(1.0, 0, 0), (3.0, 0, 1), (6.0, 1, 0), (8.0, 1, 1)])
    ws = [one(submit=[0] * k, request=[[2]] * k, runtime=[10] * k, cluster=down) for k in (2, 3)]
    python = ListScheduler(lambda jobs, now: jobs["submit"])
    for a, b in zip(simulate_many(ws, "fcfs", on_failure=mode), simulate_many(ws, python, on_failure=mode), strict=True):
        assert a.jobs["end"].tolist() == b.jobs["end"].tolist() and a.jobs["end"].max() > 10
    alone = simulate(ws[1], python, on_failure=mode)
    assert alone.jobs["end"].tolist() == b.jobs["end"].tolist()


def test_decisions_that_cannot_be_carried_out_say_why():
    sim = Simulation(one(submit=[0, 0], request=[4, 1], runtime=[5, 5]))
    sim.advance()
    sim.apply([Start(0)])
    for decision, what in [
        (Start(1), "free are"),
        (Start(0), "running, not queued"),
        (Start(7), "no job 7"),
        (Start("x"), "no job 'x'"),
        (Preempt(1), "queued, not running"),
        (Reserve(0, 9.0), "running, not queued"),
        ("start", "a decision is"),
        (Start(1, rate=-1.0), "rates are"),
    ]:
        with pytest.raises(InputError, match=what):
            sim.apply([decision])


def test_placements_must_add_up():
    sim = Simulation(workload([0], [[2, 1]], [5], cluster=nodes(2, cpus=2, gpus=1)))
    sim.advance()
    for wrong in [((0, (1, 1)),), ((0, (3, 1)),), ((5, (2, 1)),), ((0, (2,)),)]:
        with pytest.raises(InputError, match="placement"):
            sim.apply([Start(0, wrong)])
    sim.apply([Start(0, ((0, (1, 0)), (1, (1, 1))))])
    assert sim.view().nodes_of(0) == [(0, (1, 0)), (1, (1, 1))]
    assert sim.view().free.tolist() == [[1, 1], [1, 0]]


def test_jobs_that_never_fit_are_refused():
    with pytest.raises(InputError, match="in 2 equal chunks"):
        workload([0], [[4, 6]], [5], cluster=nodes(3, cpus=4, gpus=2), chunks=2)
    with pytest.raises(InputError, match="in all"):
        workload([0], [9], [5], cluster=pool(8))
    with pytest.raises(InputError, match="does not fit the cluster"):
        simulate(one(request=[4]), "fcfs", pool(2))


def test_single_events_come_one_by_one():
    w = one(submit=[0, 0, 0], request=[1, 1, 1], runtime=[5, 5, 5])
    sim = Simulation(w, single_events=True)
    sim.advance()
    assert len(sim.view().queue) == 1
    sim.advance()
    assert len(sim.view().queue) == 2


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_invariants_under_random_decisions(data):
    """Random DAGs, chunks, failures, repairs, preemptions, rates: nothing is ever over-allocated, lost or worked twice."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    jobs, resources = int(rng.integers(1, 14)), int(rng.integers(1, 3))
    size = int(rng.integers(1, 4))
    names = {"cpus": 4, "gpus": 2} if resources == 2 else {"cpus": 4}
    cluster = nodes(size, **names) if data.draw(st.booleans()) or resources == 2 else pool(4 * size)
    mode = data.draw(st.sampled_from(["requeue", "fail", "stall"]))
    request = np.column_stack([rng.integers(1, 4 * size + 1, jobs), rng.integers(0, 2 * size + 1, jobs)])[:, :resources]
    chunks = np.where((request % 2 == 0).all(axis=1) & (request[:, 0] <= 4) & (rng.random(jobs) < 0.5) & (size > 1), 2, 0)
    chunks = np.where(cluster.holds(request, chunks), chunks, 0)
    edges = [(a, b) for a in range(jobs) for b in range(a + 1, jobs) if rng.random() < 0.1]
    w = workload(
        np.cumsum(rng.integers(0, 5, jobs)), request, rng.integers(1, 20, jobs), rng.integers(1, 20, jobs),
        cluster=cluster, edges=edges, chunks=chunks,
    )  # fmt: skip
    w.truth["fails"] = rng.random(jobs) < 0.1
    sim = Simulation(w, on_failure=mode, restart_cost_s=float(rng.integers(0, 3)))
    s = sim.state
    work = {}  # s of work done since the job (re)started from nothing
    rate = {}
    before = 0.0
    for _ in range(400):
        if sim.done:
            break
        sim.advance(sim.now + float(rng.integers(1, 9)))
        for j, x in rate.items():
            work[j] = work.get(j, 0.0) + x * (sim.now - before)
        before = sim.now
        view = sim.view()
        check(sim, view)
        for j in list(rate):
            if s.jobs[0]["status"][j] != RUNNING:
                del rate[j]
                if s.jobs[0]["status"][j] == QUEUED:
                    work[j] = 0.0
        for j in rng.permutation(view.queue):
            try:
                speed = float(rng.choice([0.5, 1.0, 2.0]))
                sim.apply([Start(int(j), rate=speed)])
                rate[int(j)] = speed
            except InputError:
                if rng.random() < 0.3:
                    sim.apply([Reserve(int(j), sim.now + 3.0)])
        for j in sim.view().running:
            if rng.random() < 0.2:
                sim.apply([Preempt(int(j))])
                rate.pop(int(j), None)
        node = int(rng.integers(len(cluster.capacity)))
        if rng.random() < 0.1:
            sim.fail(node)
        elif rng.random() < 0.5:
            sim.repair(node)
        rate = {int(j): float(s.truth[0]["rate"][j]) for j in sim.view().running}
        check(sim, sim.view())
    for node in range(len(cluster.capacity)):
        sim.repair(node)
    for _ in range(20 * jobs + 50):
        if sim.done:
            break
        for j in sim.view().queue:
            try:
                sim.apply([Start(int(j))])
            except InputError:
                continue
        sim.advance(sim.now + 5.0)
    assert sim.done
    free = sim.view().free
    assert (free == cluster.capacity).all()
    ended = s.jobs[0]["status"]
    assert set(ended.tolist()) <= {DONE, FAILED}
    assert s.sims[0]["queued"] == 0 and s.sims[0]["running"] == 0
    assert (s.jobs[0]["start"][ended == DONE] >= w.jobs["submit"][ended == DONE]).all()
    for parent, child in w.edges:
        if ended[child] == DONE:
            assert s.jobs[0]["start"][child] >= s.jobs[0]["end"][parent]


def check(sim, view):
    """What must hold at every instant."""
    s, n = sim.state, len(sim.workload)
    jobs, truth = s.jobs[0], s.truth[0]
    held = np.zeros_like(view.free)
    for j in view.running:
        got = np.zeros(view.free.shape[1], int)
        for node, units in view.nodes_of(int(j)):
            held[node] += units
            got += units
        assert (got == jobs["request"][j]).all()
        chunk = jobs["chunks"][j]
        if chunk:
            assert all((np.array(u) % (jobs["request"][j] // chunk).clip(1) == 0).all() for _, u in view.nodes_of(int(j)))
    up = s.nodes[0]["up"] == 1
    assert (view.free >= 0).all() and (held[up] + view.free[up] == view.cluster.capacity[up]).all()
    assert (view.free[~up] == 0).all()
    assert sorted(view.queue.tolist()) == np.flatnonzero(np.isin(jobs["status"], (QUEUED, PAUSED))).tolist()
    assert sorted(view.running.tolist()) == np.flatnonzero(jobs["status"] == RUNNING).tolist()
    for j in (
        view.running
    ):  # work is conserved: what is left now, plus what was done, is the run time (a restart holds its units before it works)
        worked = max(sim.now - truth["updated"][j] - truth["pause"][j], 0.0)
        left = truth["left"][j] - worked * truth["rate"][j]
        assert left >= -1e-6
    order = truth["finish"][s.lists[0, 0, : len(view.running)]]
    for i in range(1, len(order)):
        assert order[(i - 1) // 2] <= order[i]
    assert len(jobs) == n


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_work_is_conserved_through_preemption(seed):
    """However a job is paused and sped up, the rates it ran at add up to its run time."""
    rng = np.random.default_rng(seed)
    runtime = float(rng.integers(5, 50))
    sim = Simulation(one(runtime=[runtime]))
    sim.advance()
    done, rate = 0.0, 0.0
    for _ in range(500):
        if sim.done:
            break
        status = sim.state.jobs[0]["status"][0]
        if status == RUNNING and rng.random() < 0.4:
            sim.apply([Preempt(0)])
            rate = 0.0
        elif status in (QUEUED, PAUSED):
            rate = float(rng.choice([0.5, 1.0, 4.0]))
            sim.apply([Start(0, rate=rate)])
        elif status == RUNNING and rng.random() < 0.3:
            rate = float(rng.choice([0.25, 2.0]))
            sim.set_rate(0, rate)
        before = sim.now
        sim.advance(sim.now + float(rng.integers(1, 6)))
        done += rate * (sim.now - before)
    assert sim.done and done == pytest.approx(runtime)


def test_wait_until_wakes_the_policy():
    class Late:
        name = "late"
        seen = []

        def reset(self, view):
            assert len(view.queue) == 0

        def ended(self, view, rows):
            pass

        def decide(self, view):
            self.seen.append(view.now)
            return [Start(0)] if view.now >= 3 and len(view.queue) else [Wait(view.now + 1)] if len(view.queue) else []

    assert simulate(one(), Late()).jobs["start"][0] == 3
    assert Late.seen == [0, 1, 2, 3, 13]
