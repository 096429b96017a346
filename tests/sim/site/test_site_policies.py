"""List schedulers on a site: beside a slow twin, beside pools, on partitions and limits; node sets; generated sites.

Modules: policies/slurm.py, sim/site/fair_share.py, sim/site/node_choice.py, sim/site/node_room.py,
sim/site/node_sets.py, sim/site/site_list.py, sim/site/site_order.py, sim/site/slurm_calendar.py,
sim/site/slurm_notes.py, sim/site/slurm_plan.py, sim/site/slurm_tables.py, sim/site/slurm_time.py, workloads/sites.py.
"""

from dataclasses import replace

import numpy as np
import pytest

import jobwise as jw
from jobwise.errors import InputError
from jobwise.sim.site import node_sets, slurm_tables
from jobwise.sim.site.node_choice import choice_of, deal
from jobwise.slurm.read import conf
from jobwise.workloads.sites import generated, on_site


def slow(w, order, backfill):
    """Starts [J] under an order (a function of jobs and row) on a site with one partition, job by job."""
    site, cap = w.cluster.site, w.cluster.capacity
    jobs, run = w.jobs, w.truth["runtime"]
    free = cap.copy()
    amount, start, held, waiting, running = np.zeros((len(cap), 3), np.int64), np.full(len(w), np.nan), {}, [], {}

    def nodes(j, usable, left):
        ask = site.asks[jobs["ask"][j]]
        node = choice_of(left, cap, site)(ask, node_sets.packed(usable))
        deal(ask, left, cap, node, len(node), amount)
        return [(int(n), amount[i].copy()) for i, n in enumerate(node)]

    def limit(j):
        return max(jobs["walltime"][j], 1.0)

    when = sorted({*jobs["submit"].tolist()})
    while when:
        t = when.pop(0)
        for j in [j for j, end in running.items() if end <= t]:
            for i, x in held.pop(j):
                free[i] += x
            del running[j]
        waiting += [j for j in range(len(w)) if jobs["submit"][j] == t]
        plan = None
        for j in sorted(waiting, key=lambda j: (order(jobs, j), j)):
            usable = np.ones(len(cap), bool)
            if plan and t + limit(j) > plan[0]:
                usable[plan[1]] = False
            got = nodes(j, usable, free)
            if got:
                for i, x in got:
                    free[i] -= x
                held[j], running[j], start[j] = got, t + run[j], t
                waiting.remove(j)
                when = sorted({*when, t + run[j]})
            elif plan is None:
                if backfill == "none":
                    break
                later = free.copy()
                for end in sorted({max(start[k] + limit(k), t + 1.0 if start[k] + limit(k) <= t else 0) for k in running}):
                    for k in running:
                        if max(start[k] + limit(k), t + 1.0 if start[k] + limit(k) <= t else 0) == end:
                            for i, x in held[k]:
                                later[i] += x
                    if got := nodes(j, np.ones(len(cap), bool), later):
                        plan = (end, [i for i, _ in got])
                        break
    return start


def log(seed, jobs=150, procs=48):
    return on_site(jw.lublin(jobs=jobs, procs=procs, load=1.1, seed=seed, users=4, estimates="users"), procs // 4, 4)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_a_slow_twin_starts_the_same_jobs(seed, backfill):
    w = log(seed)
    orders = {
        "fcfs": lambda jobs, j: jobs["submit"][j],
        "saf": lambda jobs, j: jobs["request"][j, 0] * max(jobs["walltime"][j], 1),
    }
    for name, order in orders.items():
        r = jw.simulate(w, name if backfill == "none" else f"{name}+{backfill}")
        assert (r.jobs["start"] == slow(w, order, backfill)).all(), name


def test_on_one_node_first_come_first_served_is_that_of_a_pool():
    w = jw.lublin(jobs=300, procs=64, load=1.0, seed=5, users=3)
    assert (jw.simulate(on_site(w, 1, 64), "fcfs").jobs["start"] == jw.simulate(w, "fcfs").jobs["start"]).all()
    assert (jw.simulate(on_site(w, 64, 1), "fcfs").jobs["start"] == jw.simulate(w, "fcfs").jobs["start"]).all()


@pytest.mark.parametrize("policy", ["slurm", "saf+easy", "fcfs+conservative", "smith+slurm", "smith-aged+easy", "wfp3"])
def test_nobody_gets_more_than_there_is_and_all_partitions_are_kept(policy):
    w = generated(400, 20, 32, 0.9, seed=2, age=1000, fair_share=1000)
    r, again = jw.simulate(w, policy), jw.simulate(w, policy)
    assert r.jobs.tobytes() == again.jobs.tobytes() and (r.jobs["start"] >= r.jobs["submit"]).all()
    site, when = w.cluster.site, np.unique(r.jobs["start"])
    for p, queue in enumerate(site.partitions):
        mine = r.jobs[r.jobs["partition"] == p]
        total = w.cluster.capacity[site.sets[queue["set"]] > 0].sum(axis=0)
        for t in when:
            beside = (mine["start"] <= t) & (mine["end"] > t)
            assert (mine["request"][beside].sum(axis=0) <= total).all()


def test_short_narrow_jobs_first_wait_less_also_behind_slurms_passes():
    w = generated(2000, 40, 32, 0.9, seed=4, age=1000)
    wait = {p: (jw.simulate(w, p).jobs["start"] - w.jobs["submit"]).mean() for p in ("slurm", "saf+slurm", "saf+easy", "fcfs")}
    assert wait["saf+slurm"] < wait["slurm"] < wait["fcfs"] and wait["saf+easy"] < wait["fcfs"]


def test_limits_and_guards_hold_on_list_schedulers():
    from jobwise.site import LIMITS, qos_dtype

    w = log(3)
    qos = np.array([(0.0, np.inf, [np.inf] * len(LIMITS), [2] + [np.inf] * (len(LIMITS) - 1))], qos_dtype)
    jobs = w.jobs.copy()
    jobs["queue"] = 0
    limited = replace(w, jobs=jobs, cluster=replace(w.cluster, site=replace(w.cluster.site, qos=qos)))
    r = jw.simulate(limited, "saf+easy")
    for user in np.unique(jobs["user"]):
        mine = r.jobs[r.jobs["user"] == user]
        assert max(((mine["start"] <= t) & (mine["end"] > t)).sum() for t in mine["start"]) == 2
    free, guarded = jw.simulate(w, "saf+easy").summary(), jw.simulate(w, "saf+easy+guard1h").summary()
    assert guarded["max_wait"] < free["max_wait"]


@pytest.mark.parametrize(
    "policy",
    [
        "tetris",
        "saf+easy+commit",
        "saf+easy+promise1x",
        "saf+easy+spread",
        "saf+easy-sjbf",
        "sjf+predicted",
    ],
)
def test_what_a_site_does_not_take_is_refused(policy):
    with pytest.raises(InputError, match="on a site|not for sites"):
        jw.simulate(log(1), policy)


def test_slurms_passes_need_a_site():
    with pytest.raises(InputError, match="slurm site"):
        jw.simulate(jw.lublin(jobs=20, procs=8, seed=1), "saf+slurm")


def test_weights_of_what_a_job_asks_for_let_large_ones_go_first():
    w = generated(1500, 20, 32, 0.9, seed=8)
    heavy = replace(w, cluster=replace(w.cluster, site=w.cluster.site.changed(tres_gpu=1e6, tres_cpu=1.0)))
    many = w.jobs["request"][:, 2] >= 2
    plain, first = (jw.simulate(x, "slurm").jobs for x in (w, heavy))
    assert many.sum() > 10
    assert (first["start"] - first["submit"])[many].mean() <= (plain["start"] - plain["submit"])[many].mean()
    assert (first["start"] != plain["start"]).any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", ["slurm", "saf+easy", "fcfs+conservative"])
def test_short_cuts_of_searches_change_no_start(monkeypatch, policy, seed):
    w = generated(500, 30, 32, 0.95, seed=seed, age=1000, fair_share=500, size=300)
    fast = jw.simulate(w, policy).jobs["start"]

    def plainly(s, e, site, made=slurm_tables.scheduler):
        m = made(s, e, site)
        m.ledger.clock["plain"] = 1
        return m

    monkeypatch.setattr(slurm_tables, "scheduler", plainly)
    assert (jw.simulate(w, policy).jobs["start"] == fast).all()


@pytest.mark.parametrize("policy", ["slurm", "saf+easy", "fcfs+conservative", "general+slurm", "smith-aged+slurm"])
def test_nobody_peeks_at_run_times_or_jobs_to_come(policy):
    w = generated(400, 20, 32, 0.95, seed=3, age=1000, fair_share=1000)
    base = jw.simulate(w, policy).jobs
    for j in np.argsort(-w.truth["runtime"])[:4]:
        truth = w.truth.copy()
        truth["runtime"][j] *= 0.5 if j % 2 else 1.5
        other = jw.simulate(replace(w, truth=truth), policy).jobs
        before = base["start"] < min(base["end"][j], other["end"][j])
        assert (base["start"][before] == other["start"][before]).all()
    jobs, truth = w.jobs.copy(), w.truth.copy()
    for field in ("walltime", "ask", "request", "partition", "user"):
        jobs[field][300:] = jobs[field][300:][::-1].copy()
    truth["runtime"][300:] = truth["runtime"][300:][::-1].copy()
    other = jw.simulate(replace(w, jobs=jobs, truth=truth), policy).jobs
    before = base["start"] < w.jobs["submit"][300]
    assert before.sum() > 100 and (base["start"][before] == other["start"][before]).all()


def test_jobs_are_charged_at_their_end_where_associations_are_enforced():
    w = on_site(
        jw.lublin(jobs=300, procs=64, load=1.2, seed=3, users=4), 16, 4, fair_share=1000, half_life=1e6, calc_period=5e4
    )
    never = replace(w, cluster=replace(w.cluster, site=w.cluster.site.changed(charged=0)))
    assert (jw.simulate(w, "slurm").jobs["start"] != jw.simulate(never, "slurm").jobs["start"]).any()
    assert conf.scheduler({"accountingstorageenforce": ""})["charged"] == 0
    assert conf.scheduler({"accountingstorageenforce": "associations,limits"})["charged"] == conf.scheduler({})["charged"] == 1


def test_sets_of_nodes():
    rng = np.random.default_rng(0)
    for n in (1, 63, 64, 65, 200):
        row = rng.random(n) < 0.3
        words = node_sets.packed(row)
        assert node_sets.size(words) == row.sum() and node_sets.members(words, n).tolist() == np.flatnonzero(row).tolist()
        node_sets.add(words, n - 1)
        assert n - 1 in node_sets.members(words, n)
        node_sets.drop(words, n - 1)
        assert node_sets.size(words) == row[:-1].sum()
    assert [node_sets.lowest(1, np.uint64(1) << np.uint64(k)) for k in range(64)] == list(range(64, 128))


def test_generated_sites_refuse_what_cannot_be():
    with pytest.raises(InputError, match="at least 10"):
        generated(10, 5)
    with pytest.raises(InputError, match="no setting"):
        generated(10, 20, weight=3)


def two_partitions(tier=1, factor=1.0, weight=0.0):
    """A machine that is full until 100 s; then a short job of `batch` and a long one of `other`, each as wide as the machine."""
    w = on_site(jw.workload([0, 1, 2], [4, 4, 4], [100, 10, 50], cluster=jw.pool(4)), 1, 4, partition=weight)
    site, jobs = w.cluster.site, w.jobs.copy()
    rows = np.concatenate([site.partitions, site.partitions])
    rows["tier"], rows["factor"] = (1, tier), (1.0, factor)
    both = replace(site, partitions=rows, queues=np.array([[0], [1]], np.int32), partition_names=("batch", "other"))
    jobs["partition"] = 0, 0, 1
    return replace(w, jobs=jobs, cluster=replace(w.cluster, site=both))


@pytest.mark.parametrize("policy", ["sjf+easy", "fcfs", "sjf+slurm", "slurm"])
def test_partitions_of_a_higher_tier_go_first_under_any_order(policy):
    same, higher = (jw.simulate(two_partitions(tier=t), policy).jobs["start"] for t in (1, 2))
    assert same[1] < same[2] and higher[2] < higher[1]


def test_the_factor_of_a_partition_is_part_of_slurms_priority():
    plain, first, for_nothing = (
        jw.simulate(two_partitions(factor=f, weight=x), "slurm").jobs["start"] for f, x in ((1, 1000.0), (4, 1000.0), (4, 0.0))
    )
    assert plain[1] < plain[2] and first[2] < first[1] and for_nothing[1] < for_nothing[2]


@pytest.mark.parametrize("policy", ["fcfs", "fcfs+easy", "fcfs+conservative", "slurm", "fcfs+slurm"])
def test_a_partition_that_can_never_hold_a_job_is_not_closed_by_it(policy):
    """`first`, of a higher tier, has one node, `every` both. The last job may run in either, but no one node holds it: in
    `first` it is passed over, else the second job, for both nodes, waits for ever behind it, and it behind that."""
    w = on_site(jw.workload([0, 1, 2], [8, 6, 8], [100, 50, 10], cluster=jw.pool(8)), 2, 4)
    site, jobs = w.cluster.site, w.jobs.copy()
    rows, sets = np.concatenate([site.partitions, site.partitions]), np.array([[1, 1], [1, 0]], np.uint8)
    rows["set"], rows["tier"] = (0, 1), (1, 2)
    both = replace(
        site, sets=sets, partitions=rows, queues=np.array([[0, -1], [0, 1]], np.int32), partition_names=("every", "first")
    )
    jobs["partition"] = 0, 0, 1
    start = jw.simulate(replace(w, jobs=jobs, cluster=replace(w.cluster, site=both)), policy).jobs["start"]
    if "slurm" in policy:  # its passes have clocks of their own
        assert start[1] >= start[0] + 100 and start[2] >= start[1] + 50 and start[2] < 400
    else:
        assert start.tolist() == [0.0, 100.0, 150.0]


def test_a_plan_of_a_short_job_is_kept_for_a_step_of_the_calendar():
    """Two of four CPUs are taken until 130 s. The second job needs all four for 30 s, less than a step (60 s) of the calendar:
    the third, for 1,000 s on the two that are free, may not go ahead of it."""
    w = on_site(jw.workload([0, 1, 2], [2, 4, 2], [130, 30, 1000], cluster=jw.pool(4)), 1, 4)
    start = jw.simulate(w, "slurm").jobs["start"]
    assert 130 <= start[1] < 200 and start[2] >= start[1] + 30


def test_the_last_node_that_a_job_may_have_holds_the_rest():
    """Four tasks on two nodes at most, of which one, one and three CPUs are free: the first and the third."""
    capacity, free = np.full((3, 3), 4), np.full((3, 3), 4)
    free[:, 0] = 1, 1, 3
    site = on_site(jw.workload([0], [4], [10], cluster=jw.pool(12)), 3, 4).cluster.site
    ask = site.asks[0].copy()
    ask["most"] = 2
    chosen = choice_of(free, capacity, site)
    assert chosen(ask, node_sets.packed(np.ones(3))).tolist() == [0, 2]
    ask["most"] = 3
    assert sorted(chosen(ask, node_sets.packed(np.ones(3))).tolist()) == [0, 1, 2]


def test_who_asks_for_less_memory_is_looked_at_after_one_who_asked_for_much():
    """Two nodes of 100 MB have 40 left each. The first job that waits wants all of a node's memory, the second a tenth, on as many
    CPUs: that nothing was found for the first says nothing of the second, which starts at once beside its reservation."""
    w = on_site(jw.workload([0, 0, 1, 2], [1, 1, 1, 1], [500, 500, 100, 100], cluster=jw.pool(4)), 2, 2, memory=1)
    site, jobs = w.cluster.site, w.jobs.copy()
    asks = np.repeat(site.asks[:1], 3)
    asks["memory"], asks["memory_cpu"] = (60, 100, 10), 0
    capacity = w.cluster.capacity.copy()
    capacity[:, 1] = 100
    jobs["ask"], jobs["request"][:, 1] = (0, 0, 1, 2), (60, 60, 100, 10)
    w = replace(w, jobs=jobs, cluster=replace(w.cluster, capacity=capacity, site=replace(site, asks=asks)))
    for policy in ("fcfs+easy", "fcfs+conservative"):
        start = jw.simulate(w, policy).jobs["start"]
        assert start.tolist() == [0.0, 0.0, 500.0, 2.0], policy


def test_a_running_job_is_charged_once_for_each_second():
    """One CPU of two runs for 600 s, priorities are computed every 60 s, nothing fades: 600 CPU seconds, not 60 + 120 + …"""
    from jobwise.sim.site import site_order, slurm_loop
    from jobwise.sim.state import allocate

    w = on_site(
        jw.workload([0, 0, 1], [1, 1, 2], [600, 600, 10], cluster=jw.pool(2), user=[0, 1, 0]),
        1,
        2,
        fair_share=1000.0,
        calc_period=60.0,
        half_life=1e12,
    )
    s = allocate([w], w.cluster)
    slurm = slurm_tables.scheduler(s, 0, w.cluster.known_site)
    while slurm_loop.run(s, 0, slurm, site_order.slurms(), 1 << 20):
        pass
    leaf = slurm.ledger.leaf_of
    used = slurm.ledger.usage[leaf[:2]]
    assert s.jobs[0]["end"][:2] == pytest.approx(s.jobs[0]["start"][:2] + 600)
    assert used == pytest.approx([600 + 20, 600], abs=1.0)
