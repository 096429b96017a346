"""List schedulers: hand-computed schedules, the slow twin, the Python loop, and the promises of backfilling.

Modules: policies/list_run.py, policies/list_scheduler.py, policies/replay.py, sim/lists/conservative.py,
sim/lists/easy.py, sim/lists/list_loop.py, sim/lists/list_pass.py, sim/lists/orders.py, sim/lists/resource_orders.py,
sim/pool/pool.py, sim/pool/scored_pool.py, sim/random.py, simulate.py.
"""

import math

import naive
import numpy as np
import pytest
from conftest import random_workload
from hypothesis import given, settings
from hypothesis import strategies as st

from jobwise.cluster import nodes, pool
from jobwise.decision import Start
from jobwise.errors import InputError
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.names import resolve
from jobwise.sim.lists.orders import CODES, STATIC, WAITING, score
from jobwise.sim.lists.orders import Order as Orders
from jobwise.sim.simulation import Simulation
from jobwise.simulate import simulate, simulate_many
from jobwise.workload import workload

ORDERS = [row.label for row in Orders if row.kind in (STATIC, WAITING)]
RULES = ["", "+easy", "+easy-sjbf", "+easy-oracle", "+greedy", "+conservative"]


class Asked:
    """A list scheduler behind a plain Policy, so that the Python loop runs it."""

    def __init__(self, name):
        self.inner = resolve(name)
        self.name = self.inner.name

    def reset(self, view):
        pass

    def ended(self, view, rows):
        pass

    def decide(self, view):
        return self.inner.decide(view)


def starts(w, policy, **settings):
    return simulate(w, policy, **settings).jobs["start"]


def twin(w, name, seed=0):
    p = resolve(name)
    return np.array(naive.replay(naive.table(w), w.cluster.processors, p.order, p.backfill, p.guard, p.commit, w.offset, seed))


def hand():
    """heuristics.md section 9: 10 processors; A runs on 6 until 10; B(8, r 5), C(4, r 20), D(2, r 20), E(4, r 8) wait at 0."""
    return workload([0, 0, 0, 0, 0], [6, 8, 4, 2, 4], [10, 5, 20, 20, 8], cluster=pool(10))


def test_easy_by_hand():
    assert starts(hand(), "fcfs+easy").tolist() == [0, 10, 15, 0, 15]
    without_d = hand().take([0, 1, 2, 4])
    assert starts(without_d, "fcfs+easy").tolist() == [0, 10, 15, 0]  # E ends by 10


def test_conservative_by_hand():
    # B [10, 15); C at 15; D (2 x 20) fits beside all from 0; E (4 x 8): 4 free at 0? D took 2, so E is at 15 too
    assert starts(hand(), "fcfs+conservative").tolist() == [0, 10, 15, 0, 15]


def test_conservative_compresses_when_a_job_ends_early():
    # A asks 100 and runs 10. B (all) reserved at 100 moves to 10; C, behind it, moves from 150 to 60
    w = workload([0, 1, 2], [4, 4, 4], [10, 50, 5], [100, 50, 5], cluster=pool(4))
    assert starts(w, "fcfs+conservative").tolist() == [0, 10, 60]


def test_conservative_does_not_delay_anybody_where_easy_does():
    # head B waits for A; C has a promise under conservative. D would delay C: EASY lets it, conservative does not
    w = workload([0, 1, 2, 3], [6, 8, 6, 2], [10, 10, 10, 30], cluster=pool(10))
    assert starts(w, "fcfs+easy")[3] == 3
    assert starts(w, "fcfs+conservative")[3] == 3
    w = workload([0, 1, 2, 3], [6, 8, 9, 2], [10, 10, 10, 30], cluster=pool(10))
    assert starts(w, "fcfs+easy").tolist() == [0, 10, 33, 3]
    assert starts(w, "fcfs+conservative").tolist() == [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("order", "want"),
    [("wfp3", -4000.0), ("unicef", -5.0)],
)
def test_scores_with_waiting_by_hand(order, want):
    assert score(CODES[order], 0.0, 100.0, 10.0, 4.0, 0.0) == pytest.approx(want)


@pytest.mark.parametrize(
    ("order", "want"), [("f1", 2626.0), ("f2", 76880.0), ("f3", 20_580_800.0), ("f4", 100 * math.sqrt(8) + 1_590_000)]
)
def test_f_scores_by_hand(order, want):
    assert score(CODES[order], 1000.0, 0.0, 100.0, 8.0, 0.0) == pytest.approx(want)


def test_unicef_puts_serial_jobs_first_by_w_over_r():
    unicef = CODES["unicef"]
    serial = score(unicef, 0.0, 5.0, 100.0, 1.0, 0.0)
    assert serial < score(unicef, 0.0, 1e9, 1.0, 2.0, 0.0)
    assert score(unicef, 0.0, 50.0, 100.0, 1.0, 0.0) < serial


def same(got, want, name):
    """The same starts; else the message names the scheduler and the first job that differs."""
    differ = np.flatnonzero(got != want)
    assert not len(differ), f"{name}: job {differ[0]} starts at {got[differ[0]]:g} s, the twin's at {want[differ[0]]:g} s"


@pytest.mark.parametrize("order", ORDERS)
def test_equals_the_slow_twin(order):
    rng = np.random.default_rng(CODES[order])
    for k in range(6):
        w = random_workload(rng, procs=int(rng.integers(1, 20)), overruns=k % 2 == 1)
        for rule in RULES:
            for guard in ("", "+guard60s"):
                name = order + rule + guard
                same(starts(w, name), twin(w, name), name)
                if "conservative" not in rule:
                    same(starts(w, name + "+commit"), twin(w, name + "+commit"), name + "+commit")


@pytest.mark.parametrize(
    "name",
    [
        "fcfs+easy",
        "saf+easy+guard60s",
        "wfp3+easy",
        "unicef",
        "sjf+conservative",
        "f3+greedy+commit",
        "drf+easy",
        "tetris+easy",
        "las+easy",
    ],
)
def test_compiled_loop_equals_python_loop(name):
    rng = np.random.default_rng(3)
    for k in range(4):
        w = random_workload(rng, overruns=k % 2 == 1)
        assert np.array_equal(starts(w, name), starts(w, Asked(name))), name


@pytest.mark.parametrize("placement", ["first", "pack", "spread", "best", "balance"])
@pytest.mark.parametrize("rule", ["none", "easy", "conservative"])
def test_on_nodes_compiled_loop_equals_python_loop(placement, rule):
    rng = np.random.default_rng(5)
    w = cluster_workload(rng)
    name = f"sjf+{rule}+{placement}"
    r = simulate(w, name)
    assert np.array_equal(r.jobs["start"], starts(w, Asked(name)))
    never_over_allocated(r)


def cluster_workload(rng, jobs=40):
    cluster = nodes(4, cpus=4, gpus=2)
    request = np.column_stack([rng.integers(1, 9, jobs), rng.integers(0, 5, jobs)])
    chunks = np.where((request % 2 == 0).all(axis=1), 2, 0)
    asked = rng.integers(1, 50, jobs)
    runtime = np.minimum(asked, rng.integers(1, 60, jobs))
    return workload(
        np.cumsum(rng.integers(0, 6, jobs)),
        request,
        runtime,
        asked,
        cluster=cluster,
        chunks=chunks,
        user=rng.integers(0, 3, jobs),
    )


def never_over_allocated(r):
    """At no instant do running jobs hold more than the machine has."""
    for t in np.unique(r.jobs["start"]):
        running = (r.jobs["start"] <= t) & (r.jobs["end"] > t)
        assert (r.jobs["request"][running].sum(axis=0) <= r.cluster.total).all()
    assert (r.jobs["start"] >= r.jobs["submit"]).all()


def test_a_thousand_single_nodes_schedule_like_a_pool():
    rng = np.random.default_rng(11)
    w = random_workload(rng, jobs=60, procs=16)
    spread = workload(w.jobs["submit"], w.jobs["request"], w.truth["runtime"], w.jobs["walltime"], cluster=nodes(16))
    for name in ("fcfs", "sjf+easy", "saf+easy+guard60s", "fcfs+conservative", "wfp3+easy"):
        assert np.array_equal(starts(w, name), starts(spread, name)), name


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), procs=st.integers(1, 16))
def test_easy_never_delays_the_reserved_head(seed, procs):
    """Where walltime >= runtime: once a job is the blocked head, it starts no later than its shadow time then."""
    w = random_workload(np.random.default_rng(seed), jobs=25, procs=procs)
    sim, policy, promised = Simulation(w), resolve("fcfs+easy"), {}
    while not sim.done and sim.advance():
        view = sim.view()
        decisions = list(policy.decide(view))
        sim.apply(decisions)
        view = sim.view()
        if len(view.queue):
            head = int(view.queue.min())
            need, free = view.jobs["request"][head, 0], view.free.sum()
            for t in sorted(max(x, view.now) for x in view.jobs["due"][view.running]):
                there = free + view.jobs["request"][view.running, 0][view.jobs["due"][view.running] <= t].sum()
                if there >= need:
                    promised.setdefault(head, t)
                    break
    for job, t in promised.items():
        assert sim.state.jobs[0]["start"][job] <= t


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), procs=st.integers(1, 16))
def test_conservative_keeps_every_promise(seed, procs):
    """Where walltime >= runtime: nobody starts later than the first reservation he was given; reservations only improve."""
    w = random_workload(np.random.default_rng(seed), jobs=25, procs=procs)
    sim, policy = Simulation(w), resolve("fcfs+conservative")
    promised = np.full(len(w), np.inf)
    while not sim.done and sim.advance():
        sim.apply(policy.decide(sim.view()))
        view = sim.view()
        now = view.jobs["reserved"][view.queue]
        assert (now <= promised[view.queue]).all()
        promised[view.queue] = now
    assert (sim.state.jobs[0]["start"] <= promised).all()


def test_drf_serves_the_user_who_holds_less():
    cluster = nodes(1, cpus=10, gpus=10)
    user = np.array([0, 1, 0, 1])
    # at 1 user 0 holds 6 of 10 CPUs, user 1 4 of 10 GPUs; at 5 the GPUs of job 1 are free and one of the two can start
    w = workload([0, 0, 1, 2], [[6, 0], [0, 4], [4, 7], [4, 7]], [100, 5, 10, 10], cluster=cluster, user=user)
    assert starts(w, "fcfs").tolist() == [0, 0, 5, 15]
    assert starts(w, "drf").tolist() == [0, 0, 15, 5]


def test_tetris_packs_by_alignment_and_work():
    cluster = nodes(1, cpus=10, gpus=10)
    w = workload([0, 1, 1], [[10, 10], [9, 9], [4, 4]], [5, 50, 2], cluster=cluster)
    # at 5: alignment .9 * 1 * 2 = 1.8 and .8; work 90 and 1.6; eps = 1.3 / 45.8: scores -(1.8 - 2.55) and -(.8 - .045)
    assert starts(w, "tetris").tolist() == [0, 7, 5]


def test_las_prefers_the_job_with_less_attained_service():
    w = workload([0, 0], [2, 2], [50, 50], cluster=pool(2))
    sim, las = Simulation(w), resolve("las")
    sim.advance()
    sim.apply([Start(0)])
    sim.advance(10.0)
    from jobwise.decision import Preempt

    sim.apply([Preempt(0)])
    assert [d.job for d in las.decide(sim.view())] == [1]


def test_random_is_uniform_seeded_and_the_same_in_both_loops():
    w = random_workload(np.random.default_rng(0), jobs=60, procs=4)
    assert np.array_equal(starts(w, "random+easy", seed=1), starts(w, Asked("random+easy"), seed=1))
    assert not np.array_equal(starts(w, "random+easy", seed=1), starts(w, "random+easy", seed=2))
    from jobwise.sim.lists.orders import uniform

    draws = np.array([uniform(0, 100.0, row) for row in range(4000)])
    assert abs(draws.mean() - 0.5) < 0.02 and draws.min() >= 0 and draws.max() < 1


def test_names_are_canonical_and_wrong_ones_say_what_is_near():
    assert resolve("saf+guard24h+easy+spread").name == "saf+easy+spread+guard24h"
    assert resolve("sjf").name == "sjf"
    assert resolve("fcfs+guard90m").name == "fcfs+guard1.5h"
    with pytest.raises(InputError, match="did you mean wfp3"):
        resolve("wpf3+easy")
    with pytest.raises(InputError, match="two choices"):
        resolve("sjf+easy+conservative")
    with pytest.raises(InputError, match="did you mean easy"):
        resolve("sjf+eazy")


def test_an_order_of_ones_own_in_python():
    def widest_first(jobs, now):
        return -jobs["request"][:, 0]

    rng = np.random.default_rng(2)
    for _ in range(3):
        w = random_workload(rng)
        for rule in ("none", "easy", "conservative"):
            mine = ListScheduler(widest_first, backfill=rule)
            assert np.array_equal(starts(w, mine), starts(w, "largest" if rule == "none" else f"largest+{rule}"))


def test_a_day_has_no_effect_on_a_schedule():
    rng = np.random.default_rng(9)
    w = random_workload(rng)
    later = workload(w.jobs["submit"] + 86400, w.jobs["request"], w.truth["runtime"], w.jobs["walltime"], cluster=w.cluster)
    assert np.array_equal(starts(w, "wfp3+easy"), starts(later, "wfp3+easy"))


@pytest.mark.parametrize("name", ["sjf+easy", "wfp3+easy", "fcfs+conservative", "random+easy+guard60s"])
def test_a_batch_is_so_many_single_simulations(name):
    rng = np.random.default_rng(8)
    many = [random_workload(rng, jobs=int(rng.integers(1, 40))) for _ in range(7)]
    together = simulate_many(many, name, seed=3)
    for e, w in enumerate(many):
        assert together[e].jobs.tobytes() == simulate(w, name, seed=3 + e).jobs.tobytes()
