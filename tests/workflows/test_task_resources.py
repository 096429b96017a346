"""Tasks of workflows that ask for cores, memory, GPUs and I/O: the machine, the layer, the network, rewards, live runs.

Modules: cli/mars_options.py, workloads/demands.py, worlds/window/prices.py.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import jobwise as jw
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.learn.env import WindowEnv
from jobwise.simulate import simulate
from jobwise.systems import configure
from jobwise.systems.layer import layer
from jobwise.systems.store import Store
from jobwise.workloads import wfformat
from jobwise.workloads.demands import demands
from jobwise.workloads.streams import arrivals, flows_of
from jobwise.workloads.workflows import workflow
from jobwise.worlds import rewards
from jobwise.worlds.window import encoders
from jobwise.worlds.window.mars import FEATURES
from jobwise.worlds.window.prices import CORE_HOUR, GB_HOUR

MACHINE = {"processors": 16, "memory": 32_000, "gpus": 2, "io": 400}


def fork(count: int, seed: int):
    """A task, then `count` of several needs."""
    rng = np.random.default_rng(seed)
    rows = [{"name": "split", "runtime": 5.0, "memory": 500.0}]
    rows += [
        {
            "name": f"part{i}", "program": "part", "runtime": float(rng.integers(10, 200)), "cores": int(rng.integers(1, 5)),
            "memory": float(rng.integers(100, 8000)), "gpus": int(rng.random() < 0.3), "io": float(rng.integers(0, 20_000)),
        }
        for i in range(count)
    ]  # fmt: skip
    return workflow(f"fork{seed}", rows, [[], *[["split"]] * count])


def most_at_once(r) -> np.ndarray:
    """[R] the most that was ever held of each resource."""
    start, end, request = r.jobs["start"], r.jobs["end"], r.jobs["request"]
    return np.max([request[(start <= t) & (t < end)].sum(axis=0) for t in np.unique(start)], axis=0)


def test_what_tasks_ask_for():
    flow = workflow("w", [{"name": "a", "runtime": 10.0, "cores": 2, "memory": 1500.5, "gpus": 1, "io": 9_000.0}], [[]])
    assert demands(flow.tasks, jw.resources(**MACHINE)).tolist() == [[2, 1501, 1, 400]]  # it could read faster than all can
    assert demands(flow.tasks, jw.resources(cores=4, io=5_000)).tolist() == [[2, 900]]
    with pytest.raises(InputError, match="workflows: unknown resource 'licences'"):
        jw.stream([flow], cluster=jw.resources(processors=4, licences=2))
    with pytest.raises(InputError, match="requests"):
        jw.stream([flow], cluster=jw.resources(processors=4, memory=1000))
    back = flows_of(jw.stream([flow], cluster=jw.resources(**MACHINE)))[0]
    assert back.tasks["gpus"].tolist() == [1] and back.tasks["io"].tolist() == [4000.0]
    assert back.tasks["memory"] == pytest.approx(flow.tasks["memory"])


def test_the_layer_holds_back_what_would_not_fit():
    flows = [fork(n, n) for n in (3, 20, 60)]
    machine = jw.resources(**MACHINE)
    w = arrivals(flows, 12, machine, seed=1)
    for policy in (layer(w), "flow-work", "sjf+easy"):
        assert (most_at_once(simulate(w, policy)) <= machine.total).all()
    plenty = arrivals(flows, 12, jw.resources(processors=16, memory=10**6), seed=1)
    assert most_at_once(simulate(plenty, layer(plenty)))[1] > MACHINE["memory"]  # it bounds them where there is less
    with pytest.raises(InputError, match="of processors, memory; this one has processors, memory, gpus, io"):
        layer(plenty).check(machine)


def test_a_task_that_needs_most_of_the_memory_is_large():
    rows = [{"name": f"t{k}", "runtime": 5.0, "memory": 30_000.0 if k == 0 else 10.0, "gpus": 2 * (k == 1)} for k in range(3)]
    big, small = workflow("big", rows, [[]] * 3), workflow("small", rows[1:], [[]] * 2)
    w = jw.stream([big, small], cluster=jw.resources(**MACHINE))
    assert layer(w).is_large(big) and not layer(w).is_large(small)  # not every task needs a GPU
    assert not layer(jw.stream([big], cluster=16)).is_large(big)


def test_the_network_sees_every_resource():
    rows = [
        {"name": "a", "runtime": 50.0, "cores": 4, "memory": 16_000.0},
        {"name": "b", "runtime": 10.0, "memory": 24_000.0, "gpus": 1},
        {"name": "c", "runtime": 10.0, "cores": 2, "memory": 3200.0},
    ]
    w = jw.stream([workflow("w", rows, [[]] * 3)], cluster=jw.resources(processors=16, memory=32_000, gpus=2))
    encoder = encoders.make("mars", w.cluster, w.jobs, 8)
    assert encoder.features[len(FEATURES) :] == ("asks memory", "free memory", "asks gpus", "free gpus")
    env = WindowEnv(w, jobs=None, encoder=encoder)
    x, _ = env.reset(seed=0)
    at, fits = len(FEATURES), FEATURES.index("fits")
    assert np.allclose(x[:3, at:], [[0.5, 1, 0, 1], [0.75, 1, 0.5, 1], [0.1, 1, 0, 1]]) and x[:3, fits].tolist() == [1, 1, 1]
    x, *_ = env.step(0)  # a runs: b does not fit beside it
    assert np.allclose(x[:2, at:], [[0.75, 0.5, 0.5, 1], [0.1, 0.5, 0, 1]]) and x[:2, fits].tolist() == [0, 1]
    with pytest.raises(InputError, match="was made for memory; this machine has memory, gpus"):
        encoders.make("mars", w.cluster, w.jobs, 8, resources=["memory"])


def test_a_policy_learns_on_several_resources(tmp_path):
    w = arrivals([fork(8, 1)], 10, jw.resources(**MACHINE), seed=0)
    config = configure("mars+", w, "smoke").changed(choices=300, warm=2, reward="bounded_slowdown + 0.1 utilisation:memory")
    policy = config.train(w, tmp_path / "run")[0]
    policy.save(tmp_path / "p.safetensors")
    r = simulate(w, str(tmp_path / "p.safetensors"))
    assert (most_at_once(r) <= w.cluster.total).all()
    other = arrivals([fork(8, 1)], 4, jw.resources(processors=16, memory=32_000), seed=0)
    with pytest.raises(InputError, match="was made for memory, gpus, io; this machine has memory"):
        simulate(other, str(tmp_path / "p.safetensors"))


def test_rewards_of_dimensions():
    z = np.zeros(1, np.dtype([("seconds", "f8"), ("jobs", "f8"), ("shares", "f8", (4,)), ("waited", "f8")]))
    z["seconds"], z["jobs"], z["shares"], z["waited"] = 7200.0, 4.0, [[0.5, 0.25, 0.0, 1.0]], 3600.0
    names = tuple(MACHINE)
    assert rewards.resolve("utilisation:memory", resources=names)(z)[0] == pytest.approx(-0.75 * 2 / 4)
    assert rewards.resolve("utilisation:io", resources=names)(z)[0] == 0.0
    both = rewards.resolve("2 wait + 0.5 utilisation:gpus", resources=names)(z)[0]
    assert both == pytest.approx(-2 * 0.25 - 0.5 * 0.5)
    for wrong, what in (
        ("utilisation:tapes", "unknown resource 'tapes'"), ("wait + lost", "unknown reward 'lost'"), ("-1 wait", "is no weight"),
        ("much wait", "is no weight"), ("", "unknown reward"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=what):
            rewards.resolve(wrong, resources=names)
    with pytest.raises(InputError, match="unknown reward 'lost'"):
        configure("mars+", jw.lublin(jobs=50, procs=8, seed=0), "smoke").changed(reward="wait + lost")


@pytest.mark.parametrize("machine", [8, jw.resources(processors=8, memory=8_000)])
def test_the_reward_of_cost_is_the_mean_wait_of_money(machine):
    flow = fork(30, 3) if isinstance(machine, int) else fork(30, 4)
    w = jw.stream([flow], cluster=machine)
    env = WindowEnv(w, jobs=None, window=64, encoder="mars", reward="cost")
    env.reset(seed=0)
    total, over = 0.0, False
    while not over:
        _, reward, over, *_ = env.step(0)
        total += reward
    jobs = env._envs.world.state.jobs[0, : len(w)]
    price = jobs["request"][:, 0] * jobs["walltime"] / 3600 * (CORE_HOUR + GB_HOUR * np.maximum(jobs["memory"], 0) / 1e6)
    waits = (jobs["start"] - jobs["submit"]) / 3600
    assert total == pytest.approx(-(price @ waits) / price.sum())


RUN, SIMULATED = ["--poll", "0.05", "--json"], ["--poll", "60", "--json"]


def written(folder, flow, name="w.json"):
    """The file of a workflow."""
    (folder / name).write_text(wfformat.to_text(flow))
    return str(folder / name)


def test_a_run_counts_memory_gpus_and_io(tmp_path, capsys):
    rows = [{"name": f"t{k}", "runtime": 100.0, "memory": 600.0, "io": 10_000.0} for k in range(3)]
    file, graphics = written(tmp_path, workflow("w", rows, [[]] * 3)), tmp_path / "g.commands"
    graphics.write_text("#: gpus=1 minutes=5\n" + "true\n" * 3)

    def makespan(file, *more) -> float:
        state = ["--state", str(tmp_path / "-".join(more or ("all",)).replace("-", ""))]
        assert run(["mars", "run", str(file), "--procs", "8", "-p", "mars", *state, *more, *SIMULATED]) == 0
        return json.loads(capsys.readouterr().out)["makespan"]

    assert makespan(file) == 100.0 and makespan(file, "--memory", "1000") == 300.0
    assert makespan(file, "--io", "150") == 300.0 and makespan(file, "--io", "200") == 200.0
    assert makespan(graphics, "--gpus", "1") == 3 * makespan(graphics, "--gpus", "3")
    assert run(["mars", "run", file, "--memory", "500", "--state", str(tmp_path / "x"), *SIMULATED]) == 2
    assert "requests" in capsys.readouterr().err


def test_a_store_knows_machines_of_several_resources(tmp_path, capsys):
    file, store = written(tmp_path, fork(12, 5)), str(tmp_path / "store")
    words = ["mars", "run", file, "--procs", "16", "-p", "mars", "--models", store, "--learn", "200", *SIMULATED]
    results = []
    for k, more in enumerate((["--memory", "20000"], ["--memory", "20000", "--weights", "cost=1"], [])):
        assert run([*words, *more, "--state", str(tmp_path / f"s{k}")]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["model"] == "none" and results[1]["model"].startswith("m000 (")
    assert results[2]["model"] == "none" and results[2]["learnt"].startswith("m001")  # on another machine
    a, b = (m.about for m in Store(store).models())
    assert a.machine == {"processors": 16, "memory": 20_000} and a.cores == b.cores == 16 and b.machine == {}


def test_the_weight_of_cost_reaches_the_network(tmp_path):
    flow = fork(12, 5)
    w = jw.stream([flow], cluster=16)
    store = Store(tmp_path / "store")
    config = configure("mars+", w, "smoke").changed(choices=100)
    for _ in range(3):
        model = store.for_flow(flow, w.cluster, config)
        model.learn_run(flow)
    model.about.serves, model.about.schedules = model.about.kept[-1], f"g{model.about.kept[-1]}.safetensors"
    (model.folder / "model.json").write_text(model.about.model_dump_json())
    plain, weighed = (layer(w, [flow], store, cost=c) for c in (0.0, 2.0))
    for x in (plain, weighed):
        simulate(w, x)
    assert plain.models[0].startswith("m000 (G") and "cost2" in weighed.name and "cost2" not in plain.name


def test_processes_share_the_memory_of_a_machine(tmp_path, capsys):
    flow = workflow("w", [{"name": f"t{k}", "runtime": 0.3, "memory": 600.0} for k in range(3)], [[]] * 3)
    words = ["mars", "run", written(tmp_path, flow), "--executor", "processes", "--procs", "4", "-p", "mars", *RUN]
    assert run([*words, "--memory", "1000", "--state", str(tmp_path / "a")]) == 0
    assert json.loads(capsys.readouterr().out)["makespan"] > 0.85  # one after the other
    ledger = [json.loads(line) for line in (tmp_path / "a" / "ledger.jsonl").read_text().splitlines()]
    ends = sorted((x["start"], x["end"]) for x in ledger if x["event"] == "end")
    assert all(a[1] <= b[0] + 0.05 for a, b in zip(ends, ends[1:], strict=False))


def test_a_policy_of_cores_alone_runs_beside_what_is_counted(tmp_path, capsys):
    """A network that knows processors alone schedules them; the manager holds back what does not fit."""
    w = jw.lublin(jobs=150, procs=8, seed=0)
    config = configure("perjob", w, "smoke").changed(choices=100, jobs=30)
    config.train(w, tmp_path / "run")[0].save(tmp_path / "p.safetensors")
    words = ["mars", "run", written(tmp_path, fork(6, 6)), "-p", str(tmp_path / "p.safetensors"), "--procs", "8", *SIMULATED]
    assert run([*words, "--memory", "9000", "--state", str(tmp_path / "s")]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 7
