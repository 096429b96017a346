"""The world of assignments: its speed model by hand, its rows against the slow twin, its bounds, its rules.

Modules: policies/played.py, sim/rates.py, sim/topology.py, workloads/dnn.py, worlds/gpus/bounds.py,
worlds/gpus/knapsack.py, worlds/gpus/layouts.py, worlds/gpus/passes.py, worlds/gpus/policy.py, worlds/gpus/rules.py,
worlds/gpus/tables.py, worlds/gpus/world.py.
"""

import itertools

import naive_gpus
import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.errors import InputError
from jobwise.jobs import DONE, RUNNING
from jobwise.metrics import normalised_turnaround
from jobwise.policies.played import played
from jobwise.sim.state import allocate
from jobwise.sim.topology import PEAK
from jobwise.workload import workload
from jobwise.workloads.dnn import CELL, ROW_S, networks, shape
from jobwise.worlds.gpus.policy import GpusRule, named
from jobwise.worlds.gpus.rules import RULES
from jobwise.worlds.gpus.tables import MODES
from jobwise.worlds.gpus.world import GpusSettings

pytestmark = pytest.mark.xdist_group("gpus")
PAPER = jw.gpu_racks([2, 2, 2, 2])
VGG = 548.0  # MB


def jobs_of(machine, **columns):
    """Jobs that all come at once: gpus, gradient MB, step s, length rows."""
    gpus = np.asarray(columns.pop("gpus"))
    J = len(gpus)
    length = np.broadcast_to(columns.pop("length", 10.0), J) * ROW_S
    bounds = {"least": np.ones(J, int), "most": np.full(J, machine.processors)} | {
        k: np.broadcast_to(v, J) for k, v in columns.items()
    }
    return workload(np.zeros(J), gpus, length, cluster=machine, **bounds)


def attached(w, cost=0.0, on_failure="requeue", **world):
    s = allocate([w], w.cluster, tick=ROW_S, restart_cost_s=cost, on_failure=on_failure)
    found = GpusSettings(**world).attach(s, w.cluster, 1e6)
    found.begin()
    return found


def give(world, *sets):
    """Give GPUs to the jobs in places 0, 1 …"""
    a = world._none.copy()
    for p, some in enumerate(sets):
        a[0, list(some)] = p
    return world.advance(a)


# ------------------------------------------------------------------ topology


def test_the_papers_cluster_is_a_graph_of_69_nodes_and_76_links():
    g = PAPER.graph()
    kinds = [d["kind"] for _, d in g.nodes(data=True)]
    assert (len(g), g.number_of_edges()) == (69, 76)
    assert [kinds.count(k) for k in ("gpu", "cpu", "nic", "rack", "director")] == [32, 16, 16, 4, 1]
    ways = dict(networkx.all_pairs_all_shortest_paths(g)) if hasattr(networkx, "all_pairs_all_shortest_paths") else None
    for (a, b), (hops, limit) in {(0, 1): (2, 40), (0, 2): (3, 38.5), (0, 4): (6, 12.5), (0, 8): (8, 6.25)}.items():
        way = networkx.shortest_path(g, f"gpu{a}", f"gpu{b}")
        assert len(way) - 1 == hops and min(g.edges[x]["bandwidth"] for x in itertools.pairwise(way)) == limit
        assert ways is None or len(list(ways[f"gpu{a}"][f"gpu{b}"])) == 1


@settings(max_examples=40, deadline=None)
@given(
    machines=st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(lambda m: sum(m) > 0),
    gpus=st.integers(1, 6),
    sockets=st.integers(1, 3),
    nvlink=st.sampled_from([0.0, 40.0]),
    seed=st.integers(0, 10**6),
)
def test_the_links_of_a_set_of_gpus_are_those_on_the_ways_between_all_pairs(machines, gpus, sockets, nvlink, seed):
    if sockets > gpus:
        return
    machine, rng = jw.gpu_racks(machines, gpus, sockets=sockets, nvlink=nvlink), np.random.default_rng(seed)
    twin, M = naive_gpus.Cluster(machine.graph()), machine.processors
    owner = rng.integers(0, 4, M)
    table, told = machine.topology.table(), machine.topology.links()
    for j in range(4):
        held = np.flatnonzero(owner == j)
        inside = lambda a, b, held=held: int(((held >= a) & (held < b)).sum())  # noqa: E731
        used = {
            frozenset(told[x][:2])
            for x, row in enumerate(table)
            if inside(*row["range"][:2]) and inside(*row["range"][2:4]) > inside(*row["range"][4:])
        }
        assert used == twin.links([f"gpu{i}" for i in held])


# ------------------------------------------------------------------ speeds


def test_the_reduction_curve_has_the_published_values():
    curve = PAPER.topology.reduction(32)

    def at(n, s):
        return 1000 * (  # noqa: E731
            curve[n, 1] * s / 100 if s <= 100 else curve[n, 1] + (curve[n, 2] - curve[n, 1]) * (s - 100) / 400
        )

    for n, s, ms in ((4, 100, 56.6), (8, 100, 80.0), (16, 100, 113.2), (16, 500, 559.1), (8, 548, 433.2), (8, 98, 78.4)):
        assert at(n, s) == pytest.approx(ms, abs=0.06) == pytest.approx(1000 * naive_gpus.reduction(n, s), abs=0.06)
    assert at(1, 500) == 0


def test_calibration():
    assert CELL == 512 and pytest.approx(48.30, abs=0.005) == ROW_S
    assert len(networks()) == 35 and networks()["vgg-vd-19"] == (548.0, 20.0)
    k = list(networks()).index("vgg-vd-19")
    made = shape(np.array([k]), np.array([256]))
    assert made["step"][0] == pytest.approx(5.12 / (0.9 * 10.6)) and made["gradient"][0] == VGG


@pytest.mark.parametrize(
    ("sets", "rt"),
    [
        ([[0]], [0.0]),  # alone on one GPU: nothing to exchange
        ([range(8)], [0.4332]),  # a whole rack
        ([range(16)], [1.2 * np.sqrt(2) * 0.4332]),  # two racks
        ([range(24)], [1.4 * np.sqrt(3) * 0.4332]),  # more GPUs than were measured
        ([[0, 2], [1, 3]], [2 * 0.2166, 2 * 0.2166]),  # both over the CPUs of one machine: they share a link
        ([[0, 4], [1, 5]], [2 * 0.2166, 2 * 0.2166]),  # both over one card
        ([[0, 4], [2, 6]], [0.2166, 0.2166]),  # over a card each
        ([[0, 8], [4, 12]], [1.2 * 2 * 0.2166, 1.2 * 2 * 0.2166]),  # both over one director link
        ([[0, 8], [2, 3]], [1.2 * 0.2166, 0.2166]),
    ],
)
def test_speeds_by_hand(sets, rt):
    """Equations 3 and 10 to 15: vgg-vd-19 at 256 images a GPU."""
    step = 5.12 / (0.9 * 10.6)
    w = jobs_of(PAPER, gpus=[8] * len(sets), gradient=VGG, step=step, length=1e6)
    world = attached(w)
    give(world, *sets)
    expected = sum(5.12 * len(s) / (step + x) for s, x in zip(sets, rt, strict=True))
    assert world.transition["speed"][0] == pytest.approx(expected, rel=2e-4)


def test_a_lone_job_of_one_gpu_takes_a_ninth_longer_under_the_seeds_work_model():
    for work, rows in (("seed", 10 / 0.9), ("lab", 10)):
        machine = jw.gpu_racks([1], work=work)
        world = attached(jobs_of(machine, gpus=[1], gradient=VGG, step=0.1))
        taken = 1
        while give(world, [0]):
            taken += 1
        assert taken == np.ceil(rows - 1e-9)


# ------------------------------------------------------------------ the slow twin


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    mode=st.sampled_from(MODES),
    leave=st.booleans(),
    work=st.sampled_from(["seed", "lab"]),
    cost=st.sampled_from([0.0, 10.0, 60.0]),
    machines=st.sampled_from([[1], [2, 1], [1, 0, 1]]),
)
def test_the_world_does_what_its_slow_twin_does(seed, mode, leave, work, cost, machines):
    rng, machine = np.random.default_rng(seed), jw.gpu_racks(machines, work=work)
    w = jw.rltaps(12, rng, machine=machine)
    J, M = len(w), machine.processors
    w.jobs["request"][:, 0] = np.minimum(w.jobs["request"][:, 0], M)
    w.jobs["least"] = rng.integers(1, 4, J)
    w.jobs["most"] = w.jobs["least"] + rng.integers(0, 6, J)
    table = [
        {"submit": float(a["submit"]), "length": float(r), "gpus": int(a["request"][0])}
        | {k: a[k].item() for k in ("step", "gradient", "least")}
        | {"most": min(int(a["most"]), M)}
        for a, r in zip(w.jobs, w.truth["runtime"], strict=True)
    ]
    slots = int(rng.integers(1, 6))
    twin = naive_gpus.World(naive_gpus.Cluster(machine.graph()), table, slots, mode, leave, work, ROW_S, cost)
    world = attached(w, cost, slots=slots, mode=mode, leave=leave)
    P, stay = world.actions - 1, None
    for _ in range(60):
        fresh = rng.integers(0, min(P, slots + 4) + 1, M)
        stay = fresh if stay is None else np.where(rng.random(M) < 0.3, fresh, stay)  # most GPUs go on as they were
        told = twin.step([int(p) if p < P else None for p in stay])
        world.advance(np.where(stay < P, stay, P)[None])
        z = world.transition[0]
        assert (z["speed"], z["idle"], z["short"]) == pytest.approx(told, rel=1e-9, abs=1e-9)
        place = world.gpus.place[0]
        assert place["job"].tolist() == [-1 if j is None else j for j in twin.places.values()]
        if z["over"]:
            break
    ends = [np.nan if j["end"] is None else j["end"] for j in twin.jobs]
    np.testing.assert_allclose(world.state.jobs["end"][0], ends, rtol=1e-9)


# ------------------------------------------------------------------ bounds


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), mode=st.sampled_from(MODES), leave=st.booleans(), elastic=st.booleans())
def test_bounds_hold_whatever_is_asked_for(seed, mode, leave, elastic):
    """Adversarial actions, GPUs that fail and come back: no job outside its bounds, no GPU twice, no started job moved."""
    rng = np.random.default_rng(seed)
    machine = jw.gpu_racks([1, 1]).with_outages(
        sorted((float(rng.integers(1, 40)) * 20.0, int(g), int(up)) for g in rng.choice(8, 3, False) for up in (0, 1))
    )
    w = jw.rltaps(20, rng, machine=machine)
    w.jobs["request"][:, 0] = np.minimum(w.jobs["request"][:, 0], 8)
    w.jobs["least"] = rng.integers(1, 4, len(w))
    w.jobs["most"] = w.jobs["least"] + rng.integers(0, 4, len(w))
    world = attached(w, 5.0, slots=4, mode=mode, leave=leave, elastic=elastic)
    s, before = world.state, {}
    for _ in range(60):
        if not world.advance(rng.integers(-3, world.actions + 3, (1, 8))):
            break
        running = np.flatnonzero(s.jobs["status"][0] == RUNNING)
        sets = {
            int(j): frozenset(np.flatnonzero(world.gpus.has[0] == p))
            for p, j in enumerate(world.gpus.place["job"][0])
            if j in running
        }
        assert set(sets) == set(running.tolist()) and sum(map(len, sets.values())) == len(frozenset().union(*sets.values()))
        for j, held in sets.items():
            least, most = (w.jobs["least"][j], w.jobs["most"][j]) if elastic else (w.jobs["request"][j, 0],) * 2
            assert least <= len(held) <= most and s.nodes["up"][0][list(held)].all()
            if mode == "none" and j in before:
                assert before[j] == held or s.jobs["restarts"][0, j] > 0
        for j in set(before) - set(sets):
            assert mode == "full" or s.jobs["status"][0, j] == DONE or s.jobs["restarts"][0, j] > 0
        before = {j: held for j, held in sets.items() if s.jobs["restarts"][0, j] == 0}


def test_a_gpu_that_fails_takes_its_jobs_work_with_it_or_stalls_it():
    broken = PAPER.with_outages([(1.5 * ROW_S, 0, 0), (4.5 * ROW_S, 0, 1)])
    w = jobs_of(broken, gpus=[2], gradient=98.0, step=0.1, length=20.0, least=2)
    for how in ("requeue", "stall"):
        world = attached(w, on_failure=how, mode="none")
        for _ in range(3):
            give(world, [0, 1])
        place = world.gpus.place[0, 0]
        assert place["held"] == (0 if how == "requeue" else 2)
        assert (place["left"] == 20) == (how == "requeue")
        assert how == "requeue" or world.state.truth["rate"][0, 0] == 0
        for _ in range(400):
            if not give(world, [2, 3] if how == "requeue" else [0, 1]):
                break
        assert world.state.jobs["status"][0, 0] == DONE


def test_a_job_gets_nowhere_over_links_that_are_not_there():
    machine = jw.gpu_racks([1, 1], bandwidth={"director": 0.0})
    world = attached(jobs_of(machine, gpus=[2, 2], gradient=98.0, step=0.1))
    give(world, [0, 4], [1, 2])
    assert world.state.truth["rate"][0].tolist()[0] == 0 and world.state.truth["rate"][0, 1] > 0
    give(world, [0, 3], [1, 2])
    assert world.state.truth["rate"][0, 0] > 0


def test_jobs_and_clusters_that_do_not_go_together_are_refused():
    machine = jw.gpu_racks([1])
    with pytest.raises(InputError, match="requests"):
        workload(np.zeros(1), np.array([5]), np.ones(1), cluster=machine)
    w = jobs_of(machine, gpus=[9], gradient=98.0, step=0.1)  # may shrink: it runs on the four there are
    assert played([w], named("gpus:slot"))["done"] == 1
    with pytest.raises(InputError, match="single GPUs"):
        jw.simulate(jw.lublin(10), "gpus:slot")
    for wrong in (
        {"machines": []},
        {"machines": [0]},
        {"machines": [1], "work": "x"},
        {"machines": [1], "bandwidth": {"x": 1.0}},
    ):
        with pytest.raises(InputError):
            jw.gpu_racks(**wrong)
    for name in ("gpus:", "gpus:nothing", "gpus:slot+what", "gpus:slot@0s", "gpus:slot@xs"):
        with pytest.raises(InputError):
            jw.resolve(name)


# ------------------------------------------------------------------ rules


@pytest.mark.parametrize("rule", RULES[:-1])
def test_a_rule_brings_every_job_to_its_end_the_same_alone_and_side_by_side(rule):
    sets = [jw.rltaps(40, [7, i], machine=jw.gpu_racks([1, 1], work="lab"), rate=0.2) for i in range(3)]
    for w in sets:
        w.jobs["request"][:, 0] = np.minimum(w.jobs["request"][:, 0], 8)
    policy = named(f"gpus:{rule}")
    assert jw.resolve(policy.name).name == policy.name
    together = jw.simulate_many(sets, policy, restart_cost_s=10.0, seed=3)
    for k, (w, r) in enumerate(zip(sets, together, strict=True)):
        one = jw.simulate(w, policy, restart_cost_s=10.0, seed=3 + k)
        assert (r.jobs["status"] == DONE).all() and one.jobs.tobytes() == r.jobs.tobytes()


@pytest.mark.parametrize("rule", ["both", "greedy"])
def test_a_whole_sequence_is_reported_as_its_record_has_it(rule):
    sets = [jw.rltaps(60, [8, i], machine=jw.gpu_racks([1, 1], work="lab"), rate=0.3) for i in range(3)]
    policy = named(f"gpus:{rule}")
    z = played(sets, policy, 10.0, 10_000, seed=3)
    for k, r in enumerate(jw.simulate_many(sets, policy, restart_cost_s=10.0, seed=3)):
        assert z["all_changes"][k] == r.preemptions > 0
        assert z["done"][k] == z["started"][k] == len(r.jobs) == 18
        assert z["total"][k] == pytest.approx(normalised_turnaround(r).sum())


def brute(world, w):
    """The best sum of weight x speed over all numbers of GPUs, without the cap on what is left."""
    from jobwise.sim.rates import alone

    place, best = world.gpus.place[0], -np.inf
    some = [p for p in range(len(place)) if place["job"][p] >= 0]
    for n in itertools.product(range(9), repeat=len(some)):
        if sum(n) <= 8:
            value = 0.0
            for p, k in zip(some, n, strict=True):
                if k:
                    job = world.state.jobs[0, place["job"][p]]
                    value += w[p] * alone(world.state, 0, job, k, 1 + (k > 4))
            best = max(best, value)
    return best


def test_the_knapsack_is_exact():
    from jobwise.worlds.gpus import knapsack

    rng = np.random.default_rng(3)
    for _ in range(10):
        J = 3
        machine = jw.gpu_racks([1, 1])
        w = jobs_of(
            machine, gpus=rng.integers(1, 9, J), gradient=rng.uniform(5, 500, J), step=rng.uniform(0.01, 1, J), length=1e4
        )
        world, weight = attached(w, slots=J), rng.uniform(0.1, 2, J)
        n = knapsack.knapsack(world.state, world.gpus, 0, weight, np.zeros(J), np.zeros(J))
        found = sum(
            weight[p] * knapsack.alone(world.state, 0, world.state.jobs[0, p], n[p], 1 + (n[p] > 4)) for p in range(J) if n[p]
        )
        assert found == pytest.approx(brute(world, weight)) and n.sum() <= 8


ANCHORS = {  # mean slowdown under (seed, lab), ../shared/spec/rl_taps.md 3.3 and the prototype's study
    "random": (267, 142), "fifo": (273, 146), "sjf": (260, 128), "tetris": (268, 152), "one": (183, 32), "greedy": (115, 1.4),
    "slot": (81.7, 1.04), "speed": (82.9, 1.06), "root": (83.2, 1.0), "index": (None, 0.955),
}  # fmt: skip


@pytest.mark.parametrize("rule", ANCHORS)
def test_rules_reach_the_reference_values(rule):
    for work, anchor in zip(("seed", "lab"), ANCHORS[rule], strict=True):
        if anchor is None:  # 6 % above the prototype's 89.3 on 24 sequences, see docs/systems/rl-taps.md
            continue
        z = played([jw.rltaps(seed=[5, i], work=work) for i in range(6)], named(f"gpus:{rule}"))
        assert (z["total"] / z["started"]).mean() == pytest.approx(anchor, rel=0.15)


def test_a_rule_knows_its_world():
    w = jw.rltaps(60, 1, work="lab")
    for name in ("gpus:slot+none", "gpus:slot+partial+leave", "gpus:index+slots32", "gpus:root+fixed+random@30s"):
        policy = jw.resolve(name)
        assert isinstance(policy, GpusRule) and policy.name == name
        assert jw.simulate(w, policy).jobs["end"].max() > 0
    none = jw.simulate(w, "gpus:slot+none")
    assert none.preemptions == 0 and jw.simulate(w, "gpus:slot").preemptions > 0


def test_peak_is_never_exceeded():
    z = played([jw.rltaps(80, 3)], named("gpus:one+slots32"), limit=200)
    assert 0 < z["all_speed"][0] / z["all_rows"][0] <= 32 * PEAK * 0.9 + 1e-9
