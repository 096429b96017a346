"""The world of buffers: two nodes at a distance, six nodes that suit applications or not; rules, encoders, learners.

Modules: cluster.py, learn/nodes.py, learn/nodes_config.py, sim/reset.py, systems/telemetry.py, workloads/affinity.py,
workloads/failing.py, worlds/jobset_episodes.py, worlds/nodes/encoder.py, worlds/nodes/passes.py,
worlds/nodes/policy.py, worlds/nodes/rules.py, worlds/nodes/spec.py, worlds/nodes/world.py, worlds/rows.py.
"""

from dataclasses import replace
from math import ceil

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.cluster import Affinity, Cluster
from jobwise.errors import InputError
from jobwise.learn.env import NodesVectorEnv
from jobwise.learn.nodes_config import NodesConfig
from jobwise.policies.names import load, resolve
from jobwise.policies.played import played
from jobwise.sim.state import allocate
from jobwise.systems import configure
from jobwise.systems.telemetry import distances
from jobwise.testing import check_world
from jobwise.workload import workload
from jobwise.worlds.encoder import make_table
from jobwise.worlds.nodes.encoder import MAKERS
from jobwise.worlds.nodes.passes import parts_of, seen_dtype
from jobwise.worlds.nodes.policy import NodesRule
from jobwise.worlds.nodes.rules import RULES
from jobwise.worlds.nodes.world import NodesEpisodes, NodesSettings

pytestmark = pytest.mark.xdist_group("buffer")


def jobs(rows, nodes=2, capacity=5, factors=None, pair=0.0):
    """A workload of (submit, request, length, kind)."""
    submit, request, length, kind = (np.array(x) for x in zip(*rows, strict=True))
    factors = np.ones((3, nodes)) if factors is None else np.array(factors, float)
    machine = Cluster(np.full((nodes, 1), capacity), ("memory",), affinity=Affinity(factors, pair))
    return workload(submit.astype(float), request[:, None], length.astype(float), cluster=machine, kind=kind)


# ------------------------------------------------------------------ actions and what is seen


def test_nine_joint_actions_as_listed():
    listed = [(-1, -1), (0, -1), (-1, 0), (0, 0), (1, -1), (-1, 1), (1, 1), (0, 1), (1, 0)]
    assert parts_of(2, 2).tolist() == [list(x) for x in listed]
    assert parts_of(6, 1)[:, 0].tolist() == [-1, 0, 1, 2, 3, 4, 5]
    many = parts_of(3, 3)
    assert len(many) == 64 == len({tuple(x) for x in many.tolist()})


def seen(name, w, places, before=(), **settings):
    """What an encoder shows after some actions."""
    world = NodesEpisodes(1, [w], NodesSettings(places, joint=name != "nodes"), 100, True)
    world.begin_with(np.zeros(1, int))
    for a in before:
        world.step(np.array([a]), False, 0, 1)
    encoder = make_table(MAKERS, name, w.cluster, places, **settings)
    out = np.zeros((1, *encoder.shape), np.float32)
    world.encode(encoder, out)
    return out[0]


def bits(text):
    return [float(c) for c in text.replace(" ", "")]


def test_the_26_inputs_as_the_slides_have_them():
    # node 1 has 500 of 1250 left and node 2 all 1250; job 1 asks for 750 and prefers node 1, job 2 for 250 and node 2
    w = jobs([(0, 3, 9, 0), (0, 3, 9, 1), (0, 1, 9, 2)])
    row = seen("distance", w, 2, before=[1])  # the first job on node 1; the head of the queue takes its place
    assert row.shape == (26,)
    assert row.tolist() == bits("001000 000001 0100 001 0001 010")
    assert seen("distance", w, 2, [1], bit_order="right").tolist() == bits("000100 100000 0010 100 1000 010")
    smooth = seen("distance", w, 2, [1], continuous=True)
    assert np.allclose(smooth, [0.4, 1.0, 0.2, 0, 0, 1, 0.6, 0, 1, 0])
    # 1000 units are index 4: the slides show 000100, which is 750; a slip
    one = seen("distance", jobs([(0, 1, 9, 0), (0, 1, 9, 0)]), 2, before=[1])
    assert one[:6].tolist() == bits("000010")


def test_the_40_inputs_as_the_slides_have_them():
    rows = [(0, 1, 9, k) for k in (2, 0, 1, 2, 0)]
    w = jobs(rows, nodes=6, capacity=1)
    row = seen("affinity", w, 1, before=[3], bit_order="right")  # application 3 on node 3; 1 in the buffer; then 2, 3, 1
    assert row.shape == (40,)
    assert row.tolist() == bits("0001 0001 1000 0001 0001 0001" + "0010" + "0100 1000 0010")
    assert seen("affinity", w, 1, [3])[:4].tolist() == bits("1000")
    assert seen("affinity", w, 1, [3], bit_order="left")[24:].tolist() == bits("0100 0010 0001 0100")


def test_nobody_sees_the_factors():
    rows = [(k // 2, 1, 40 + k % 3, k % 3) for k in range(20)]
    for name in ("distance", "affinity", "nodes"):
        shown = []
        for factor in (0.5, 2.0):  # of jobs that are not done yet
            w = jobs(rows, factors=np.full((3, 2), factor))
            shown.append(seen(name, w, 2, before=[1, 2] if name != "nodes" else [0, 1]))
        assert (shown[0] == shown[1]).all(), name
    w = jobs(rows, factors=np.full((3, 2), 2.0))
    views = []

    class Spy:
        name = "spy"

        def reset(self, view):
            views.append(view)

        def decide(self, view):
            views.append(view)
            return [jw.Start(int(j)) for j in view.queue[:1]] if view.free.sum() >= 3 else []

        def ended(self, view, rows):
            pass

    jw.simulate(w, Spy())
    assert views and all(v.cluster.affinity is None for v in views)


# ------------------------------------------------------------------ what a choice does


def twin(w, actions, places, limit):
    """The same world in plain Python: rows of time, lists and sums."""
    J, N = len(w), len(w.cluster.capacity)
    table, factors = parts_of(N, places), w.cluster.affinity.factors
    free, queue, buffer, running = [int(c) for c in w.cluster.capacity[:, 0]], [], [None] * places, []
    now, came, total, done = 0, 0, 0.0, 0

    def arrive():
        nonlocal came
        while came < J and w.jobs["submit"][came] <= now:
            queue.append(came)
            came += 1
        for p in range(places):
            if buffer[p] is None and queue:
                buffer[p] = queue.pop(0)

    arrive()
    k = 0
    while done < J and now < limit:
        for p, n in enumerate(table[actions[k]]):
            j = buffer[p]
            if j is None or n < 0 or w.jobs["request"][j, 0] > free[n]:
                continue
            free[n] -= w.jobs["request"][j, 0]
            running.append((now + ceil(w.truth["runtime"][j] * factors[w.jobs["kind"][j], n] - 1e-9), j, n))
            buffer[p] = None
        k += 1
        now += 1
        for end, j, n in list(running):
            if end == now:
                running.remove((end, j, n))
                free[n] += w.jobs["request"][j, 0]
                total += now - w.jobs["submit"][j]
                done += 1
        arrive()
    total += sum(now - w.jobs["submit"][j] for j in range(came) if j in queue or j in buffer or j in [r[1] for r in running])
    return total, k, done


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.integers(5, 60))
def test_a_simulation_is_the_slow_twin(seed, first, limit):
    rng = np.random.default_rng(seed)
    w = jw.distances(20, 0.5, seed, hidden=True) if first else jw.affinities(20, 0.7, seed, hidden=True)
    places = 2 if first else 1
    world = NodesEpisodes(1, [w], NodesSettings(places), limit, True)
    world.begin_with(np.zeros(1, int))
    actions = rng.integers(0, world.actions, limit + 1)
    k, rewards = 0, 0.0
    while not world.done.all():
        world.step(actions[k : k + 1], False, 0, 1)
        z = world.transition[0]
        rewards -= z["present"]
        k += 1
        s = world.state
        used = s.nodes["capacity"][0] - s.nodes["free"][0]
        assert (used >= 0).all() and (s.nodes["free"] >= 0).all()
    total, steps, done = twin(w, actions, places, limit)
    assert z["total"] == total and k == steps and z["done"] == done
    came = (w.jobs["submit"] <= k).sum() - (w.jobs["submit"] == k).sum()
    assert k < limit or z["started"] >= came
    assert k == limit or rewards == -total


def test_parts_are_carried_out_in_order_and_what_cannot_be_is_ignored():
    w = jobs([(0, 3, 5, 0), (0, 3, 5, 0), (0, 2, 5, 0)])
    world = NodesEpisodes(1, [w], NodesSettings(2, masked=True), 100, True)
    world.begin_with(np.zeros(1, int))
    assert world.mask[0].tolist() == [1, 1, 1, 0, 1, 1, 0, 1, 1]  # both do not fit on one node
    world.step(np.array([3]), False, 0, 1)  # both on node 1: the first alone goes
    s, g = world.state, world.buffer
    assert s.nodes["free"][0, :, 0].tolist() == [2, 5] and g.place[0].tolist() == [2, 1] and s.sims["now"][0] == 1.0
    assert world.mask[0].tolist() == [1, 1, 0, 0, 1, 1, 1, 1, 0]


def test_burst_and_turns():
    w = jobs([(0, 1, 5, 0), (0, 1, 5, 0), (0, 1, 5, 0)])
    world = NodesEpisodes(1, [w], NodesSettings(1, burst=True), 100, True)
    world.begin_with(np.zeros(1, int))
    for now in (0, 0, 0, 1):
        world.step(np.array([1]), False, 0, 1)
        assert world.state.sims["now"][0] == now
    world = NodesEpisodes(1, [w], NodesSettings(2, joint=False), 100, True)
    world.begin_with(np.zeros(1, int))
    for now, turn in ((0, 1), (1, 0), (1, 1)):
        world.step(np.array([0]), False, 0, 1)
        assert (world.state.sims["now"][0], world.buffer.moment["turn"][0]) == (now, turn)
    world = NodesEpisodes(1, [w], NodesSettings(2, joint=False, burst=True), 100, True)
    world.begin_with(np.zeros(1, int))
    for action, now, turn in ((0, 0, 1), (2, 0, 0), (2, 0, 1), (2, 1, 0)):  # the first place's job only; then none
        world.step(np.array([action]), False, 0, 1)
        assert (world.state.sims["now"][0], world.buffer.moment["turn"][0]) == (now, turn)


def test_neighbours_of_another_application_slow_a_job_down():
    w = jobs([(0, 1, 10, 0), (0, 1, 10, 1), (0, 1, 10, 1)], nodes=6, capacity=1, pair=0.5)
    world = NodesEpisodes(1, [w], NodesSettings(1), 100, True)
    world.begin_with(np.zeros(1, int))
    for node in (1, 2, 6):  # the second and third beside the first, around the ring
        world.step(np.array([node]), False, 0, 1)
    ends = [float(world.state.truth["finish"][0, j]) for j in range(3)]
    assert ends == [10.0, 16.0, 17.0]


def test_a_job_on_several_nodes_is_as_slow_as_on_the_slowest():
    w = jobs([(0, 4, 10, 1), (20, 4, 10, -1)], nodes=2, capacity=2, factors=[[1, 1], [2, 3], [1, 1]])
    r = jw.simulate(w, "fcfs")
    assert (r.jobs["end"] - r.jobs["start"]).tolist() == [30.0, 10.0]
    one = jobs([(0, 1, 10, 1)], nodes=1, capacity=1, factors=[[1], [3], [1]])
    assert jw.simulate(one, "fcfs").jobs["end"].tolist() == [30.0]


# ------------------------------------------------------------------ rules


def rows_in_system(sets, rule, places=1):
    z = played(sets, NodesRule(rule, NodesSettings(places)), 0.0, 10_000)
    return float((z["total"] / z["started"]).mean())


@pytest.mark.parametrize(
    "made, rate, places, anchors",
    [
        (jw.distances, 0.25, 2, {"lb": 18.7, "oracle": 11.5}),
        (jw.distances, 0.35, 2, {"lb": 22.2}),
        (jw.affinities, 0.5, 1, {"fewest": 12.2, "greedy": 5.6, "oracle": 5.3}),
        (jw.affinities, 0.7, 1, {"fewest": 17.6, "greedy": 8.7, "oracle": 6.6}),
    ],
)
def test_the_anchors_of_the_specification(made, rate, places, anchors):
    sets = [made(50, rate, [9, k]) for k in range(200)]
    for rule, expected in anchors.items():
        assert abs(rows_in_system(sets, rule, places) / expected - 1) <= 0.1, rule


def test_rules_by_hand():
    w = jobs([(0, 2, 10, 1), (0, 3, 10, 2), (0, 1, 4, 1)], factors=[[1, 1], [1, 3], [3, 1]])

    def first(rule):
        world = NodesEpisodes(1, [w], NodesSettings(2), 100, True)
        world.begin_with(np.zeros(1, int))
        return parts_of(2, 2)[world.by_rule(rule)[0]].tolist()

    assert first("lb") == [0, 1] and first("first") == [0, 0] and first("robin") == [0, 1]
    assert first("greedy") == [0, 1] and first("oracle") == [0, 1] and first("fewest") == [0, 0]
    full = jobs([(0, 5, 4, 1), (0, 5, 4, 1)], factors=[[1, 1], [1, 3], [3, 1]])
    world = NodesEpisodes(1, [full], NodesSettings(1), 100, True)
    world.begin_with(np.zeros(1, int))
    world.step(world.by_rule("oracle"), False, 0, 1)
    assert world.by_rule("oracle")[0] == 0 and world.by_rule("greedy")[0] == 2  # 4 + 4 rows against 12


def test_the_bandit_learns_what_jobs_cost_and_keeps_it(tmp_path):
    c = configure("affinities+", None, "smoke")
    sets = c.sets(7, 60)
    blank, learnt = (NodesRule("learned", NodesSettings(1)), c.changed(jobsets=20).rule("learned"))
    assert learnt.prior["count"].sum() > 300
    A = sets[0].cluster.affinity.factors
    assert (learnt.prior["mean"].argmin(axis=1) // 2 == A.argmin(axis=1) // 2).all()
    before, after = (float(np.mean((z := played(sets, p, 0.0, 200))["total"] / z["started"])) for p in (blank, learnt))
    assert after < 0.7 * before
    learnt.save(tmp_path / "costs.safetensors")
    again = load(tmp_path / "costs.safetensors")
    assert (played(sets, again, 0.0, 200)["total"] == played(sets, learnt, 0.0, 200)["total"]).all()
    with pytest.raises(InputError, match="kinds of jobs on 6 nodes"):
        jw.simulate(jw.affinities(seed=1, nodes=8), again)


def test_what_failures_do_is_not_learnt():
    machine = replace(jobs([(0, 1, 1, 0)], nodes=2, capacity=1).cluster.with_outages([(3, 1, 0), (20, 1, 1)]))
    w = workload(np.arange(5.0), np.ones((5, 1), int), np.full(5, 10.0), cluster=machine, kind=np.zeros(5, int))
    world = NodesRule("lb").attach(s := allocate([w], machine, tick=1.0), machine)
    left = world.begin()
    while left:
        left = world.advance(world.by_rule("lb"))
    seen = world.buffer.seen[0, 0]
    assert s.jobs["restarts"].sum() == 1 and seen["count"].sum() == 5 and (seen["mean"][seen["count"] > 0] == 10.0).all()


def test_names():
    for name in ("nodes:lb", "nodes:learned+places2+explore0.5", "nodes:patient+kinds5+burst@60s"):
        assert resolve(name).name == name
    for bad, text in (
        ("nodes:", "a rule, its options"),
        ("nodes:best", "nearest|known|oracle|lb"),
        ("nodes:lb+up", "option"),
        ("nodes:lb@0s", "more than 0 s"),
        ("nodes:lb+places0", "places"),
    ):
        with pytest.raises(InputError, match=text):
            resolve(bad)
    with pytest.raises(InputError, match="no node has"):
        jw.simulate(jw.cush(), "nodes:lb")


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(RULES), st.integers(1, 3))
def test_rules_bring_every_job_to_its_end(seed, rule, places):
    w = jw.distances(30, 0.4, seed, nodes=3, hidden=True)
    r = jw.simulate(w, NodesRule(rule, NodesSettings(places, kinds=4)))
    assert not np.isnan(r.jobs["end"]).any()
    again = jw.simulate(w, NodesRule(rule, NodesSettings(places, kinds=4)))
    assert (again.jobs["end"] == r.jobs["end"]).all()


@pytest.mark.parametrize("rule", ["lb", "oracle"])
def test_a_whole_jobset_is_reported_as_its_record_has_it(rule):
    sets = [jw.distances(40, 0.6, k, nodes=3) for k in range(3)]
    policy = NodesRule(rule, NodesSettings(2))
    z = played(sets, policy, 0.0, 10_000)
    for k, r in enumerate(jw.simulate_many(sets, policy)):
        waited = r.jobs["start"] - r.jobs["submit"]  # until the start: what a far node adds to the run is not among it
        assert z["all_waited"][k] == pytest.approx(waited.sum()) and z["longest"][k] == pytest.approx(waited.max())
        assert z["total"][k] == pytest.approx((r.jobs["end"] - r.jobs["submit"]).sum())


# ------------------------------------------------------------------ environments and learners


@pytest.mark.parametrize("name", ["distance", "affinity", "nodes"])
@pytest.mark.parametrize("masked", [True, False])
def test_worlds_keep_to_their_protocol(name, masked):
    made = jw.affinities if name == "affinity" else jw.distances
    sets = [made(12, 0.6, k, hidden=True) for k in range(3)]
    for places in (1, 2):
        world = NodesEpisodes(
            3, sets, NodesSettings(places, joint=name != "nodes", masked=masked, ask_always=not masked), 40, False
        )
        check_world(world, make_table(MAKERS, name, world.cluster, places))


def test_environments():
    w = jw.affinities(10, seed=3)
    env = gymnasium.make("jobwise/Nodes-v0", workload=w, encoder="affinity", render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=0)
    assert env.action_space.n == 7 and env.render().ndim == 3
    many = gymnasium.make_vec("jobwise/Nodes-v0", num_envs=2, workload=[w, w])
    many.reset(seed=0)
    assert many.single_action_space.n == 7 and many.single_observation_space.shape == (7, 15)
    with pytest.raises(InputError, match="joint = false"):
        NodesVectorEnv(1, w, encoder="nodes", joint=True)
    with pytest.raises(InputError, match="too many"):
        NodesVectorEnv(1, w, encoder="affinity", places=8)
    with pytest.raises(InputError, match="whole rows"):
        NodesVectorEnv(1, jobs([(0, 1, 5, 0), (0.5, 1, 5, 0)]), encoder="distance")


@pytest.mark.parametrize("system", ["distances", "affinities"])
def test_training_and_files(system, tmp_path):
    c = configure(f"{system}+", None, "smoke")
    found = c.train(None, tmp_path / "run")[0]
    again = load(tmp_path / "run")
    sets = c.sets(3, 10)
    assert (played(sets, found, 0.0, 200)["total"] == played(sets, again, 0.0, 200)["total"]).all()
    ends = [jw.simulate(w, again).jobs["end"] - w.jobs["submit"] for w in sets]  # the same as a replay of each
    assert [x.sum() for x in ends] == played(sets, again, 0.0, 200)["total"].tolist()
    assert NodesConfig.of(again) == c
    wide = jw.distances(20, 1.0, 1, nodes=9) if system == "distances" else jw.affinities(20, 1.0, 1, nodes=12)
    kinds = {"world": replace(again.world, kinds=10)} if system == "distances" else {}
    assert not np.isnan(jw.simulate(wide, replace(again, **kinds)).jobs["end"]).any()  # on other numbers of nodes
    assert (played([wide], replace(again, **kinds), 0.0, 10_000)["done"] == len(wide)).all()
    assert again.prior["count"].sum() > 20 and np.allclose(again.prior["mean"], found.prior["mean"])
    with pytest.raises(InputError, match="nodes are known"):
        played([wide], c.rule("learned"), 0.0, 200)


@pytest.mark.slow
def test_the_published_agents_learn(tmp_path):
    c = distances(None, "smoke").changed(jobsets=10, runs=10, group=10, iterations=60, validations=2)
    p = c.train(None, tmp_path / "run")[0]
    sets = c.sets(5, 50)
    z, lb = played(sets, p, 0.0, 200), played(sets, c.rule("lb"), 0.0, 200)
    assert (z["total"] / z["started"]).mean() < 0.9 * (lb["total"] / lb["started"]).mean()


def test_generators_say_what_cannot_be():
    for call, text in (
        (lambda: jw.distances(distance=[[0, 1], [2, 0]]), "symmetric"),
        (lambda: jw.distances(capacity=2), "3 units"),
        (lambda: jw.affinities(mix=[0.5, 0.5]), "shares of 3"),
        (lambda: jw.affinities(rate=0), "rate"),
        (lambda: Affinity(np.zeros((2, 2))), "above 0"),
        (lambda: Cluster(np.ones((3, 1), int), affinity=Affinity(np.ones((2, 2)))), "3 nodes"),
        (lambda: make_table(MAKERS, "affinity", jw.nodes(2), 1, bit_order="up"), "bit_order"),
        (lambda: make_table(MAKERS, "distances", jw.nodes(2), 1), "distance"),
        (lambda: configure("distances", jw.lublin(50, procs=8), "smoke"), "name no log"),
        (lambda: configure("distances", None, "smoke").changed(settings={"colour": 1}).sets(1, 1), "colour"),
        (lambda: configure("affinities", None, "smoke").changed(settings={"levels": ["a"]}).sets(1, 1), "settings of"),
        (lambda: jw.simulate(jw.affinities(seed=0), "nodes:lb+places1000"), "too many"),
    ):
        with pytest.raises(InputError, match=text):
            call()
    assert set(MAKERS) == {"distance", "affinity", "nodes"} and seen_dtype.names == ("count", "mean")


# ------------------------------------------------------------------ nodes that fail


def test_forecasts_are_as_good_as_they_say():
    for perfect in (False, True):
        alarms = right = failures = foreseen = 0
        for k in range(40):
            w = jw.failing(seed=[1, k], perfect=perfect)
            level, risk = (1.0 if perfect else 0.9), w.cluster.risk
            alarm = risk == level
            down = w.cluster.outages[w.cluster.outages["up"] == 0]
            failures += len(down)
            foreseen += sum(alarm[max(int(o["time"]) - 1, 0), o["node"]] for o in down)
            begins = alarm & ~np.vstack([np.zeros((1, 8), bool), alarm[:-1]])
            for t, n in np.argwhere(begins):
                alarms += 1
                right += any(t < o["time"] <= t + 20 and o["node"] == n for o in down)
        assert foreseen == failures if perfect else 0.75 < foreseen / failures < 0.87
        assert right == alarms if perfect else 0.85 < right / alarms < 0.95
    a, b = jw.failing(seed=3), jw.failing(seed=3, perfect=True)
    assert (a.jobs["submit"] == b.jobs["submit"]).all()
    assert (a.truth["runtime"] == b.truth["runtime"]).all() and (a.cluster.outages == b.cluster.outages).all()
    with pytest.raises(InputError, match="cannot be"):
        jw.failing(precision=0)


def test_every_jobset_has_its_own_failures():
    """Begun again and again in any order, as alone, and as a plain replay."""
    sets = [jw.failing(seed=k) for k in range(4)]
    rule = NodesRule("first", NodesSettings(1, kinds=1))
    told = played(sets, rule, 0.0, 500)
    for k, w in enumerate(sets):
        alone = played([w], rule, 0.0, 500)
        assert all(told[c][k] == alone[c][0] for c in ("total", "all_lost", "hit"))
        r = jw.simulate(w, "nodes:first+kinds1")
        assert (r.lost, r.jobs["restarts"].sum()) == (told["all_lost"][k], told["hit"][k])
    world = NodesEpisodes(2, sets, NodesSettings(1, kinds=1), 500, False)
    for which in ([0, 1], [3, 2], [1, 3]):
        world.begin_with(np.array(which))
        world.done[:] = 0
        while not world.done.all():
            world.step(world.by_rule("first"), False, 0, 2)
        assert world.transition["all_lost"].tolist() == [told["all_lost"][k] for k in which]
    assert told["hit"].sum() > 0


def test_failures_and_risks_are_kept_with_an_episode():
    sets = [jw.failing(seed=k) for k in range(4)]
    envs = [NodesVectorEnv(2, sets, encoder="nodes", encoder_settings={"risk": True}, kinds=1, limit=500) for _ in range(2)]
    for k, env in enumerate(envs):
        env.reset(seed=k)
    for _ in range(30):
        envs[0].step(np.zeros(2, np.int64))
    envs[1].restore(envs[0].snapshot())
    for k in range(60):
        a, b = (env.step(np.full(2, k % 9)) for env in envs)
        assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])
    with pytest.raises(InputError, match="rows of 1 s"):
        jw.simulate(sets[0], "nodes:safest@2s")
    assert NodesSettings(np.int64(2), avoid=1).avoid == 1.0
    with pytest.raises(InputError, match="an int"):
        NodesSettings(2.5)


def test_nodes_at_risk_take_no_jobs():
    w = jw.failing(seed=5, perfect=True)
    world = NodesEpisodes(1, [w], NodesSettings(1, kinds=1, masked=True, joint=False, avoid=0.5), 500, True)
    world.begin_with(np.zeros(1, int))
    seen = 0
    while not world.done.all():
        now = min(int(world.moment[0]), len(w.cluster.risk) - 1)
        risky = w.cluster.risk[now] > 0.5
        assert not world.mask[0, :8][risky].any()
        seen += risky.any()
        actions = world.by_rule("first")
        assert actions[0] == 8 or not risky[actions[0]]
        world.step(actions, False, 0, 1)
    assert seen > 10
    safe = played([w], NodesRule("safest", NodesSettings(1, kinds=1)), 0.0, 500)
    careless = played([w], NodesRule("first", NodesSettings(1, kinds=1)), 0.0, 500)
    assert world.transition["all_lost"][0] < careless["all_lost"][0] and safe["all_lost"][0] <= careless["all_lost"][0]
    assert resolve("nodes:safest+avoid0.5").name == "nodes:safest+avoid0.5"


def test_encoders_see_the_risk_of_now_alone():
    w = jw.failing(seed=5)

    def rows(w):
        world = NodesEpisodes(1, [w], NodesSettings(1, kinds=1, joint=False), 500, True)
        world.begin_with(np.zeros(1, int))
        encoder, found = make_table(MAKERS, "nodes", w.cluster, 1, risk=True), []
        while not world.done.all() and world.moment[0] < 60:
            out = np.zeros((1, *encoder.shape), np.float32)
            world.encode(encoder, out)
            shown = world.buffer.place[0, 0] >= 0
            assert not shown or np.allclose(out[0, :8, -1], w.cluster.risk[world.moment[0]]) and out[0, 8, -1] == 0
            found.append(out[0])
            world.step(world.by_rule("first"), False, 0, 1)
        return np.array(found)

    later = w.cluster.risk.copy()
    later[60:] = 0.7
    before, after = rows(w), rows(replace(w, cluster=replace(w.cluster, risk=later)))
    assert (before == after).all() and before[:, :8, -1].max() > 0.5
    assert w.cluster.public.risk is None
    with pytest.raises(InputError, match="risks"):
        replace(w.cluster, risk=np.zeros((5, 3)))
    with pytest.raises(InputError, match="node failures"):
        gymnasium.make_vec("jobwise/Slots-v0", num_envs=1, workload=[w])


@pytest.mark.slow
def test_an_agent_that_sees_risks_trains_and_comes_back(tmp_path):
    policy = configure("failing", None, "smoke").train(None, tmp_path / "run")[0]
    again = load(tmp_path / "run")
    sets = [jw.failing(seed=[9, k]) for k in range(3)]
    a, b = played(sets, policy, 0.0, 500), played(sets, again, 0.0, 500)
    assert a["total"].tolist() == b["total"].tolist() and again.encoder["shape"] == [9, 16]
