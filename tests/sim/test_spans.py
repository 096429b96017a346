"""Nodes as spans and cells: what is kept of neighbours that are alike is what would be kept of each node.

Modules: sim/lists/placement.py, sim/lists/shadow.py, sim/lists/span_loop.py, sim/site/cells.py.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_listing import Asked, starts

import jobwise as jw
from jobwise.policies.names import resolve
from jobwise.sim import spans
from jobwise.sim.lists import placement, span_loop
from jobwise.sim.lists.flows import NONE
from jobwise.sim.lists.list_pass import blank
from jobwise.sim.site import cells, slurm_loop, slurm_tables
from jobwise.sim.site.node_sets import add_all, next_in, next_out, packed, size_of
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
    each = np.column_stack([rng.integers(0, 5, jobs), rng.integers(0, 2, jobs)])
    each[each.sum(axis=1) == 0] = 1, 0
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


class Naive:
    """EASY on nodes, as one would write it: every node is looked at, what is free at the shadow time is kept node by node."""

    name = "naive"

    def __init__(self, score, code):
        self.score, self.code = score, code

    def reset(self, view):
        """Nothing is remembered."""

    def ended(self, view, rows):
        """Nothing is remembered."""

    def decide(self, view):
        free, jobs, capacity = view.free.copy(), view.jobs, view.cluster.capacity
        n, R = capacity.shape
        waiting = sorted(view.queue.tolist(), key=lambda j: (self.score(jobs[j]), j))
        ends = [(max(jobs[j]["due"], view.now), view.nodes_of(j)) for j in view.running.tolist()]
        out = []

        def start(j):
            node, amount = np.zeros(n, np.int32), np.zeros((n, R), np.int64)
            k = placement.place(self.code, free, capacity, jobs[j]["request"], jobs[j]["chunks"], node, amount)
            held = tuple((int(node[i]), tuple(amount[i].tolist())) for i in range(k))
            ends.append((view.now + max(jobs[j]["walltime"], 1.0), held))
            out.append(jw.Start(j, held))
            return held

        while waiting and placement.fits(free, jobs[waiting[0]]["request"], jobs[waiting[0]]["chunks"]):
            start(waiting.pop(0))
        if not waiting:
            return out
        head, later = jobs[waiting.pop(0)], free.copy()
        for t in sorted({end for end, _ in ends}):
            for end, held in ends:
                for node, amount in held if end == t else ():
                    later[node] += amount
            if placement.fits(later, head["request"], head["chunks"]):
                break
        else:
            t = np.inf
        extra = later.sum(axis=0) - head["request"]
        for j in waiting:
            if not placement.fits(free, jobs[j]["request"], jobs[j]["chunks"]):
                continue
            late = view.now + max(jobs[j]["walltime"], 1.0) > t
            if late and (jobs[j]["request"] > extra).any():
                continue
            before = free.copy()
            held = start(j)
            if not late:
                continue
            for node, amount in held:
                later[node] -= amount
            if head["chunks"] and not placement.fits(later, head["request"], head["chunks"]):
                for node, amount in held:
                    later[node] += amount
                free[:] = before
                out.pop()
                ends.pop()
                continue
            extra -= jobs[j]["request"]
        return out


SCORES = {"fcfs": lambda x: x["submit"], "sjf": lambda x: max(x["walltime"], 1.0)}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.sampled_from(list(SCORES)), where=st.sampled_from(["first", "best", "spread"]))
def test_easy_on_nodes_equals_a_slow_twin_that_looks_at_every_node(seed, order, where):
    w = on_nodes(np.random.default_rng(seed))
    naive = simulate(w, Naive(SCORES[order], placement.PLACEMENTS[where])).jobs["start"]
    assert np.array_equal(simulate(w, f"{order}+easy+{where}").jobs["start"], naive)


def test_a_late_job_that_surely_leaves_the_head_its_chunks_is_taken_out_of_what_is_free_then():
    """Four nodes are shared by jobs that end before and after the shadow time, so that counting does not say when the head fits;
    of two late jobs the first leaves it its chunks, the second would not."""
    machine = jw.nodes(8, cpus=4)
    rows = [  # submit, CPUs, chunks, run time, limit
        *[(0, 2, 1, 10, 10)] * 4,  # on nodes 0 and 1, two each; then pairs beside each other
        *[(0, 2, 1, 30, 30)] * 4,
        (0, 8, 2, 20, 20),
        (1, 12, 3, 5, 5),
        (2, 1, 1, 40, 40),
        (3, 4, 1, 40, 40),
    ]
    submit, size, chunks, run, limit = (np.array(x) for x in zip(*rows, strict=True))
    w = jw.workload(submit, size, run, limit, cluster=machine, chunks=chunks)
    for where in ("first", "spread", "best", "balance"):
        naive = simulate(w, Naive(SCORES["fcfs"], placement.PLACEMENTS[where])).jobs["start"]
        assert np.array_equal(simulate(w, f"fcfs+easy+{where}").jobs["start"], naive), where


def test_jobs_without_a_unit_of_the_first_resource_start_on_a_machine_that_has_none_left():
    w = jw.workload([0, 1], [[16, 0], [0, 1]], [100, 5], cluster=jw.nodes(4, cpus=4, gpus=2))
    assert simulate(w, "fcfs+easy").jobs["start"].tolist() == [0, 1]


def test_chunks_on_a_pool_are_units_of_it():
    """A job in two chunks waits for units alone, and a job behind it that would be late does not pass."""
    w = jw.workload([0, 1, 2], [6, 8, 4], [50, 10, 100], cluster=jw.pool(10), chunks=np.array([0, 2, 0]))
    for name in ("fcfs+easy", "fcfs+greedy", "fcfs+easy+commit", "las+easy"):
        assert simulate(w, name).jobs["start"].tolist() == [0, 50, 60], name


@pytest.mark.parametrize("order", ["flow-work", "flow-sjf", "flow-bound", "flow-path"])
def test_orders_of_workflows_know_on_nodes_what_has_ended(order):
    """Two chains and single tasks: what is left of a workflow shrinks as its tasks end."""
    rng = np.random.default_rng(4)
    run = rng.integers(5, 60, 24)
    edges = np.array([(i, i + 1) for i in range(11)] + [(12, 13), (13, 14)])
    flow = np.array([0] * 12 + [1] * 3 + list(range(2, 11)), np.int32)
    own = {"edges": edges, "flow": flow}
    on_pool = jw.workload(np.zeros(24), np.ones(24, int), run, cluster=jw.pool(2), **own)
    on_two = jw.workload(np.zeros(24), np.ones(24, int), run, cluster=jw.nodes(2), **own)
    for name in (order, f"{order}+easy"):
        assert np.array_equal(simulate(on_pool, name).jobs["start"], simulate(on_two, name).jobs["start"]), name


def test_several_simulations_side_by_side_on_nodes():
    logs = [on_nodes(np.random.default_rng(k)) for k in (5, 5, 5)]
    logs = [jw.workload(w.jobs["submit"], w.jobs["request"], w.truth["runtime"] + k, w.jobs["walltime"], cluster=logs[0].cluster,
                        chunks=w.jobs["chunks"]) for k, w in enumerate(logs)]  # fmt: skip
    for r, w in zip(jw.simulate_many(logs, "saf+easy+pack"), logs, strict=True):
        assert np.array_equal(r.jobs["start"], simulate(w, "saf+easy+pack").jobs["start"])


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
        if not m.work.marks[cells.KNOWN]:
            slurm_loop.look(s, 0, m)
        cells_agree(s, m)
        assert m.work.changes[0] == 0
        if m.work.marks[cells.SETTLED]:
            size = m.work.cells.size[0]
            assert np.array_equal(m.work.later[:size], m.work.cells.free[:size])
    assert s.sims[0]["ended"] == len(w) and steps > 20
