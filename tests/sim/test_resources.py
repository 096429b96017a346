"""Machines of several resources, each a pool: the world of windows sees and keeps all of them (SEM with several resources).

Modules: cluster.py, sim/state.py, systems/sem.py, worlds/window/several.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.cluster import resources
from jobwise.errors import InputError
from jobwise.learn.networks import Seen, actor
from jobwise.learn.networks import weights as weights_of
from jobwise.policies.names import load
from jobwise.policies.networks import Forward
from jobwise.sim.state import allocate
from jobwise.systems import sem as system
from jobwise.workload import Workload, workload
from jobwise.workloads.transform import pooled
from jobwise.worlds.window import encoders
from jobwise.worlds.window.settings import WindowSettings
from jobwise.worlds.window.world import Windows

MACHINE = {"nodes": 16, "gpus": 4, "burst": 100}


class Asked:
    """A policy that is asked about one view after the other, as on a live cluster."""

    def __init__(self, policy):
        self.policy = policy

    def reset(self, view):
        self.run = self.policy.begin(view)

    def ended(self, view, rows):
        self.run.ended(view, rows)

    def decide(self, view):
        return self.run.decide(view)


def some_jobs(seed: int, count: int = 60, kinds: int = 3, whole: bool = False) -> Workload:
    rng = np.random.default_rng(seed)
    most = list(MACHINE.values())[:kinds]
    request = np.stack([rng.integers(int(r == 0), m // (1 if whole else 2) + 1, count) for r, m in enumerate(most)], axis=1)
    run = rng.integers(1, 100, count).astype(float)
    machine = resources(**dict(list(MACHINE.items())[:kinds]))
    return workload(
        np.sort(rng.integers(0, 800, count)).astype(float), request, run, run + rng.integers(0, 60, count), cluster=machine
    )


def chosen(w: Workload, order: str, act: WindowSettings, window: int = 100) -> np.ndarray:
    """[J] starts where an order chooses from the windows that are shown."""
    s = allocate([w], w.cluster)
    world = Windows(act, s, window)
    more = world.begin()
    while more:
        more = world.advance(world.by_rule(order))
    return s.jobs["start"][0, : len(w)].copy()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 3), st.booleans(), st.sampled_from(["fcfs", "sjf"]))
def test_choices_of_an_order_are_that_order_with_easy(seed, kinds, whole, order):
    """What stops at choices, and is driven by an order, starts the jobs when the list scheduler does, on every resource."""
    w = some_jobs(seed, kinds=kinds, whole=whole)
    by_list = jw.simulate(w, f"{order}+easy")
    assert np.array_equal(chosen(w, order, WindowSettings("pick")), by_list.jobs["start"])
    held = by_list.jobs
    for t in held["start"]:  # and nothing is held twice
        on = (held["start"] <= t) & (held["end"] > t)
        assert (held["request"][on].sum(axis=0) <= w.cluster.capacity[0]).all()


def test_one_resource_is_a_pool_of_processors():
    w = some_jobs(3, kinds=1)
    assert w.cluster.is_pool and w.cluster.is_bag
    two = some_jobs(3, kinds=2)
    two.jobs["request"][:, 0], two.jobs["request"][:, 1] = w.jobs["request"][:, 0], 0
    two = workload(w.jobs["submit"], two.jobs["request"], w.truth["runtime"], w.jobs["walltime"], cluster=two.cluster)
    for act in (WindowSettings("pick"), WindowSettings("reserve"), WindowSettings("reserve", backfill="agent")):
        assert np.array_equal(chosen(w, "sjf", act), chosen(two, "sjf", act))


def test_what_sem_shows_of_several_resources():
    """By hand: two jobs run, one waits; shares of nodes, GPUs and burst buffer, then the time."""
    request = np.array([[8, 1, 50], [4, 3, 10], [8, 2, 60]])
    w = workload(np.array([0.0, 0.0, 10.0]), request, np.full(3, 86400.0), cluster=resources(**MACHINE))
    s = allocate([w], w.cluster)
    world, e = Windows(WindowSettings("reserve"), s, 2), encoders.make("sem", w.cluster, w.jobs, window=2, largest=2, rest=True)
    assert e.shape == (2 * 2 + 2 + 1, 4)
    out = e.buffers(1)[0]
    assert world.begin()
    while world.now < 10:
        world.advance(np.zeros(1, np.int64))
    world.encode(e, out)
    day = 86400.0
    left = (day - 10) / day
    expected = np.zeros((7, 4))
    expected[0], expected[1, 0] = [8 / 16, 2 / 4, 60 / 100, 1.0], 1.0
    expected[4], expected[5] = [4 / 16, 3 / 4, 10 / 100, left], [8 / 16, 1 / 4, 50 / 100, left]  # by the largest share
    assert np.allclose(out[0], expected, atol=1e-6)
    one = encoders.make("sem", w.cluster, w.jobs, window=2, largest=1, rest=True)
    few = one.buffers(1)[0]
    Windows.encode(world, one, few)
    assert np.allclose(few[0, -1], [8 / 16, 1 / 4, 50 / 100, left], atol=1e-6)


def test_the_reward_counts_all_resources():
    w = some_jobs(0)
    s = allocate([w], w.cluster)
    world = Windows(WindowSettings("pick"), s, 10)
    assert world.begin()
    e, slot = s.nodes[0, 0], world.choices.queue["row"][0, world.choices.slots[0, 0]]
    before, request = e["free"].copy(), w.jobs["request"][slot]
    world.advance(np.zeros(1, np.int64))
    z, capacity = world.transition[0], w.cluster.capacity[0]
    fits = (request <= before).all()
    assert z["picked_size"] / z["size"] == pytest.approx((request / capacity).mean())
    assert z["used"] / z["size"] == pytest.approx(((capacity - before + (request if fits else 0)) / capacity).mean())


@pytest.mark.parametrize("kind", ["rows", "levels"])
def test_the_network_without_torch_sees_all_columns(kind):
    import torch

    spec = {"kind": kind, "sizes": [9, 8, 5], "features": 4}
    net, rng = actor(spec), np.random.default_rng(0)
    x = rng.normal(size=(6, 9 + (kind == "levels"), 4)).astype(np.float32)
    x[:, -1, 0] = np.arange(6) % 2
    seen = Seen(torch.from_numpy(x), torch.full((6,), 5))
    assert np.allclose(net(seen).detach().numpy(), Forward(spec, weights_of(net))(x), atol=1e-5)
    with pytest.raises(InputError, match="filter.weight"):
        Forward(spec | {"features": 3}, weights_of(net))


def test_training_saving_and_replaying(tmp_path):
    w = some_jobs(1, count=300)
    config = system.configure_sem(w, "smoke").changed(episodes=2, validations=1, jobs=40, validation_jobs=60, hidden=[16, 8])
    policy = config.train(w, tmp_path / "run")[0]
    assert policy.encoder.shape[1] == 4 and policy.forward.spec["features"] == 4
    again = load(tmp_path / "run")
    one, two = jw.simulate(w, policy), jw.simulate(w, again)
    assert np.array_equal(one.jobs["start"], two.jobs["start"]) and np.isfinite(one.jobs["start"]).all()
    assert np.array_equal(jw.simulate(w, Asked(policy)).jobs["start"], one.jobs["start"])


def test_a_log_on_pools_of_its_resources():
    w = jw.workload(
        np.arange(4.0), np.array([[2, 1], [1, 4], [4, 0], [1, 1]]), np.full(4, 5.0), cluster=jw.nodes(2, cpus=4, gpus=4)
    )
    one = pooled(w)
    assert one.cluster.capacity.tolist() == [[8, 8]] and one.cluster.resources == ("cpus", "gpus")
    assert np.isfinite(jw.simulate(one, "sjf+easy").jobs["start"]).all()


def test_refusals():
    machine = resources(**MACHINE)
    for name in ("dras", "rls", "perjob"):
        with pytest.raises(InputError, match="sees one resource"):
            encoders.make(name, machine)
    with pytest.raises(InputError, match="up to 4 resources"):
        w = workload(np.zeros(1), np.ones((1, 5), int), np.ones(1), cluster=resources(a=2, b=2, c=2, d=2, e=2))
        Windows(WindowSettings("pick"), allocate([w], w.cluster), 5)
    with pytest.raises(InputError, match="units of its first resource"):
        resources(nodes=0, gpus=4)
    with pytest.raises(InputError, match="cannot be pooled"):
        pooled(jw.workload(np.zeros(1), np.ones((1, 1), int), np.ones(1), cluster=jw.gpu_racks([2])))


@pytest.mark.parametrize("generation", [0, -1])
def test_a_checkpoint_of_earlier_tables_goes_on(generation):
    """Earlier tables of windows lack fields; a simulation that stood in the middle goes on as it would have."""
    from jobwise.learn.env import WindowVectorEnv
    from jobwise.sim.state import NEWER

    def env():
        return WindowVectorEnv(2, jw.lublin(jobs=200, procs=32, load=1.2, seed=3), jobs=50, encoder="sem", copy=False)

    def play(batch, steps):
        return [batch.step(np.zeros(2, np.int64))[1].tolist() for _ in range(steps)]

    one = env()
    one.reset(seed=1)
    play(one, 20)
    saved = one.snapshot()
    for key in ("choices_moment", "choices_queue", "choices_interval", "choices_report"):
        now = saved["arrays"][key]
        lacks = NEWER[key][generation]
        fields = [
            (n, now.dtype[n].base, lacks.get(n) or now.dtype[n].shape) for n in now.dtype.names if lacks.get(n, 0) is not None
        ]
        old = np.zeros(now.shape, np.dtype(fields, align=True))
        for name in old.dtype.names:
            old[name] = now[name] if name not in lacks else now[name][..., : lacks[name][0]]
        assert old.nbytes < now.nbytes
        saved["arrays"][key] = old.reshape(-1).view(np.uint8)
    two = env()
    two.reset(seed=9)
    two.restore(saved)
    assert play(two, 60) == play(one, 60)


def test_an_output_is_not_written_over_a_pooled_log(tmp_path, capsys):
    from jobwise.cli import run

    log = str(tmp_path / "mine.swf")
    jw.write_swf(jw.lublin(jobs=20, procs=8, seed=0), log)
    before = (tmp_path / "mine.swf").read_bytes()
    assert run(["simulate", f"pooled:{log}", "-p", "sjf+easy", "--out", log, "--force"]) == 2
    assert "would overwrite the log itself" in capsys.readouterr().err and (tmp_path / "mine.swf").read_bytes() == before
