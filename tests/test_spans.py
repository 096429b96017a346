"""Nodes as spans and cells: what is kept of neighbours that are alike is what would be kept of each node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_listing import Asked, starts

import jobwise as jw
from jobwise.policies.names import resolve
from jobwise.sim import placement, slurm_loop, slurm_tables, span_loop, spans
from jobwise.sim.flows import NONE
from jobwise.sim.list_pass import blank
from jobwise.sim.node_sets import add_all, next_in, next_out, packed, size_of
from jobwise.sim.state import HEAP, allocate
from jobwise.simulate import simulate
from jobwise.workloads.lublin import lublin
from jobwise.workloads.sites import generated, on_site

CODES = range(placement.TYPED)


def per_node(x):
    """(free, capacity) [N, R] of spans."""
    size = int(x.size[0])
    counts = np.diff(x.first[: size + 1])
    return np.repeat(x.free[:size], counts, axis=0), np.repeat(x.capacity[:size], counts, axis=0)


def machine(rng, few=3):
    """Free units and capacity of nodes of which many are alike."""
    n = int(rng.integers(2, 40))
    kinds = np.column_stack([rng.integers(1, 9, few), rng.integers(0, 5, few)])
    capacity = np.repeat(kinds[rng.integers(0, few, n)], rng.integers(1, 6, n), axis=0)[:n].astype(np.int64)
    free = np.minimum(capacity, rng.integers(0, 9, few)[rng.integers(0, few, n)][:, None])
    return free.astype(np.int64), capacity


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_giving_taking_and_joining_spans_is_as_node_by_node(seed):
    rng = np.random.default_rng(seed)
    free, capacity = machine(rng)
    x, n = spans.joined(free, capacity), len(free)
    assert all(np.array_equal(a, b) for a, b in zip(per_node(x), (free, capacity), strict=True))
    for _ in range(30):
        node = int(rng.integers(0, n))
        more, amount = int(rng.integers(0, n - node)), rng.integers(0, 3, 2)
        sign = 1 if rng.random() < 0.5 else -1
        spans.give(x, node, more, amount, sign)
        free[node : node + more + 1] += sign * amount
        if rng.random() < 0.3:
            spans.join(x)
            rows = np.column_stack([free, capacity])
            assert x.size[0] == 1 + (rows[1:] != rows[:-1]).any(axis=1).sum(), "neighbours that are alike are one span"
        assert np.array_equal(per_node(x)[0], free) and np.array_equal(x.total, free.sum(axis=0))
        other = spans.room_like(x)
        spans.copy(x, other)
        assert np.array_equal(per_node(other)[0], free)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), code=st.sampled_from(list(CODES)))
def test_a_job_gets_the_same_nodes_from_spans_as_from_single_nodes(seed, code):
    rng = np.random.default_rng(seed)
    free, capacity = machine(rng)
    x, chunks = spans.joined(free, capacity), int(rng.integers(0, 5))
    request = np.array([rng.integers(1, 12), rng.integers(0, 6)])
    request *= max(chunks, 1)
    fits = placement.fits(free, request, chunks)
    assert placement.fits_on(x, request, chunks) == fits
    if not fits:
        return
    n = len(free)
    node, more, amount = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros((n, 2), np.int64)
    k = placement.place_on(code, x, request, chunks, node, more, amount)
    mine = [(int(node[i]) + z, *amount[i].tolist()) for i in range(k) for z in range(more[i] + 1)]
    left = free.copy()
    k = placement.place(code, left, capacity, request, chunks, node, amount)
    assert mine == [(int(node[i]), *amount[i].tolist()) for i in range(k)]
    assert np.array_equal(per_node(x)[0], left) and (left >= 0).all()
    assert np.array_equal((free - left).sum(axis=0), request)


def on_nodes(rng, jobs=60):
    """Jobs of whole and of shared nodes, loose or in chunks, on nodes of two kinds."""
    n = int(rng.integers(4, 40))
    capacity = np.full((n, 2), (4, 2), np.int64)
    capacity[: n // 3] = 8, 0
    machine = jw.Cluster(capacity, ("cpus", "gpus"))
    chunks = rng.integers(0, 4, jobs) * rng.integers(1, max(n // 6, 2), jobs)
    each = np.column_stack([rng.integers(1, 5, jobs), rng.integers(0, 2, jobs)])
    request = each * np.maximum(chunks, 1)[:, None]
    wrong = ~machine.holds(request, chunks)
    request[wrong], chunks[wrong] = (1, 0), 0
    asked = rng.integers(1, 50, jobs)
    submit = np.cumsum(rng.integers(0, 4, jobs))
    return jw.workload(
        submit, request, rng.integers(1, 60, jobs), asked, cluster=machine, chunks=chunks, user=rng.integers(0, 3, jobs)
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize(
    "name",
    ["saf+easy", "sjf+easy-sjbf+pack", "lxf+easy+spread", "fcfs+conservative+best", "sjf+greedy+commit+balance", "tetris+easy"],
)
def test_the_loop_on_spans_equals_a_policy_that_is_asked_node_by_node(name, seed):
    w = on_nodes(np.random.default_rng(seed))
    assert span_loop.suits(allocate([w], w.cluster), 0)
    assert np.array_equal(starts(w, name), starts(w, Asked(name))), name


def test_nodes_that_fail_or_slow_jobs_down_are_looked_at_one_by_one():
    w = on_nodes(np.random.default_rng(1))
    assert not span_loop.suits(allocate([w], w.cluster.with_outages([(10.0, 0, 0), (20.0, 0, 1)])), 0)
    slow = jw.nodes(4, slowdown=jw.Slowdown(), cpus=4)
    jobs = jw.workload([0, 0], [2, 2], [5, 5], cluster=slow, kind=np.array([1, 1]))
    assert not span_loop.suits(allocate([jobs], slow), 0)


def test_a_machine_of_158976_nodes_costs_what_its_spans_cost():
    """Whole nodes of Fugaku's size: the spans stay few, and starts are those of a pool of nodes."""
    w = lublin(400, 158_976, 3, load=0.9)
    n = w.jobs["request"][:, 0]
    request = np.column_stack([n * 48, n * 32])
    times = w.jobs["submit"], request, w.truth["runtime"], w.jobs["walltime"]
    many = jw.workload(*times, cluster=jw.nodes(158_976, cpus=48, memory=32), chunks=n)
    for name in ("saf+easy", "fcfs+easy", "wfp3+easy", "fcfs+conservative"):
        assert np.array_equal(simulate(many, name).jobs["start"], simulate(w, name).jobs["start"]), name
    s = allocate([many], many.cluster)
    own, free = span_loop.begin(s, 0)
    later, largest = spans.room_like(free), 0
    policy = resolve("saf+easy")
    plan = blank(len(many), 158_976, 2)
    while span_loop.run(own, 0, s.slices[0], free, later, policy.rule, np.empty(0), NONE, plan, 1):
        largest = max(largest, int(free.size[0]))
    assert 1 < largest < 200 and free.size[0] == 1, "all is free again, and one span"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_stretches_of_node_sets(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 200))
    row = rng.random(n) < rng.random()
    words = packed(row)
    a, b = sorted(rng.integers(0, n + 1, 2).tolist())
    assert size_of(words, a, b) == row[a:b].sum()
    inside, outside = np.flatnonzero(row[a:b]), np.flatnonzero(~row[a:b])
    assert next_in(words, a, b) == (a + inside[0] if len(inside) else b)
    assert next_out(words, a, b) == (a + outside[0] if len(outside) else b)
    add_all(words, a, b)
    row[a:b] = True
    assert np.array_equal(words, packed(row))


def cells_agree(s, m):
    """The cells say of each node what the kernel says, and each running job's pieces are its slices."""
    free, capacity = per_node(m.work.cells)
    assert np.array_equal(free, s.nodes[0]["free"]) and np.array_equal(capacity, s.nodes[0]["capacity"])
    for j in s.lists[0, HEAP, : s.sims[0]["running"]]:
        mine, theirs, at = {}, {}, m.work.part[j]
        while at >= 0:
            x = m.work.parts[at]
            mine |= {int(x["node"]) + z: x["amount"].tolist() for z in range(x["more"] + 1)}
            at = x["next"]
        at = s.jobs[0, j]["held"]
        while at >= 0:
            theirs[int(s.slices[0, at]["node"])] = s.slices[0, at]["amount"].tolist()
            at = s.slices[0, at]["next"]
        assert mine == theirs


SITES = {
    "partitions and GPUs": lambda: generated(150, 24, 16, load=1.2, seed=4, age=1000.0),
    "whole nodes": lambda: on_site(lublin(150, 512, 1, load=1.1, estimates="users", users=9), 512, 1, age=1000.0),
    "shared nodes": lambda: on_site(lublin(150, 256, 2, load=1.1, estimates="users", users=9), 32, 8, age=1000.0),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("site", SITES)
def test_cells_of_a_site_are_its_nodes_at_every_step(site, fails):
    w = SITES[site]()
    cluster = w.cluster
    if fails:
        t = float(np.median(w.jobs["submit"]))
        cluster = cluster.with_outages([(t, 1, 0), (t + 5000.0, 1, 1), (t + 20_000.0, 3, 0), (t + 20_100.0, 3, 1)])
    s = allocate([w], cluster)
    m = slurm_tables.scheduler(s, 0, cluster.site)
    order, going, steps = resolve("slurm").on_site(cluster, s.jobs[0], w.past).order, True, 0
    while going:
        going = slurm_loop.run(s, 0, m, order, 97)
        steps += 1
        slurm_loop.look(s, 0, m)
        cells_agree(s, m)
    assert s.sims[0]["ended"] == len(w) and steps > 20
