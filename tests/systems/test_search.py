"""Search for weights: what it measures is what a replay gives, it gets better, it can be stopped, its files are checked.

Modules: learn/evolution.py, sim/pool/replay_batch.py.
"""

import json

import numpy as np
import pytest

import jobwise as jw
from jobwise.cli import run as main
from jobwise.errors import InputError
from jobwise.learn import checkpoint
from jobwise.learn.evolution import Search, SearchGround, answer, begin, fitness, generation
from jobwise.policies.loglinear import INDICES, Index
from jobwise.policies.names import load
from jobwise.sim.memory.loglinear import F, weights
from jobwise.simulate import simulate
from jobwise.systems import configure
from jobwise.workloads.transform import shake


@pytest.fixture(scope="module")
def log():
    return jw.lublin(jobs=1200, procs=64, seed=1, load=0.9, estimates="users", users=12)


@pytest.fixture(scope="module")
def found(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "found"
    return folder, configure("search", log, "smoke").train(log, folder)[0]


def test_a_trial_is_a_replay(log):
    parts = [shake(log.take(slice(i, i + 100 + i // 10)), 60, [0, i]) for i in (0, 300, 800)]
    ground = SearchGround(parts, threads=2)
    given = [INDICES["smith-aged"].weights, np.random.default_rng(0).normal(size=F), weights(log_walltime=1)]
    out = ground.measure(np.array(given), np.array([2, 0, 1]))
    again = ground.measure(np.array(given), np.array([2, 0, 1]))
    assert np.array_equal(out, again)
    for k, v in enumerate(given):
        for i, part in enumerate((2, 0, 1)):
            r = simulate(parts[part], jw.ListScheduler(Index("x", v), "easy")).summary()
            assert out[k, i] == pytest.approx([r["bounded_slowdown"], r["max_wait"], r["wait"]])


def test_search_gets_better_and_goes_on_to_the_same_weights(log):
    parts = [shake(log.take(slice(i, i + 200)), 60, [0, i]) for i in range(0, 1000, 100)]
    ground, search = SearchGround(parts), Search(generations=30, pairs=8, windows=10)
    every, start = np.arange(len(parts)), weights(log_processors=1.0)  # a poor start
    base = ground.measure(start[None], every)[0]
    states = [begin(start)]
    for _ in range(search.generations):
        states.append(generation(ground, states[-1], base[:, 0], search, 3))
    end = answer(states[-1])
    value = fitness(ground.measure(end[None], every), base[:, 0])[0]
    assert value < -0.2
    state = states[13]
    for _ in range(search.generations - 13):
        state = generation(ground, state, base[:, 0], search, 3)
    assert np.array_equal(end, answer(state))


def test_the_policy_stands_beside_the_rules(log, found):
    folder, policy = found
    one, other = simulate(log, str(folder)), simulate(log, f"{folder}+easy+guard24h")
    assert np.array_equal(one.jobs["start"], simulate(log, policy).jobs["start"])
    assert other.policy == "found+easy+guard24h" and load(folder).about["log"] == log.name
    with pytest.raises(InputError, match="already"):
        configure("search", log, "smoke").train(log, folder)
    with pytest.raises(InputError, match="was begun with"):
        configure("search", log, "smoke").changed(seed=5, pairs=4).train(log, folder, resume=True)


def test_same_seed_same_bytes(log, found, tmp_path):
    again = configure("search", log, "smoke").changed(threads=1).train(log, tmp_path / "found")[0]
    assert np.array_equal(again.order.weights, found[1].order.weights)


def test_a_damaged_file_is_one_line(found, tmp_path):
    from safetensors.numpy import save

    meta = {"format": "jobwise policy 1", "kind": "index", "features": ["other"], "about": {}}
    for tensors, text in (
        ({"weights": np.zeros(F)}, json.dumps(meta)),
        ({"weights": np.zeros(F)}, json.dumps({"format": "jobwise policy 1", "kind": "index"})),
    ):
        (tmp_path / "x.safetensors").write_bytes(save(tensors, {"jobwise": text}))
        with pytest.raises(InputError, match=r"x\.safetensors"):
            load(tmp_path / "x.safetensors")


def test_commands(log, tmp_path, capsys):
    from jobwise.workloads.swf import write_swf

    file, run = str(tmp_path / "log.swf.gz"), str(tmp_path / "run")
    write_swf(log, file)
    told = ["train", "search", file, "--out", run, "--preset", "smoke"]
    assert main([*told, "--seeds", "2"]) == 0
    assert main(["evaluate", run, file, "--replicas", "0"]) == 0
    assert "smith" in capsys.readouterr().out
    assert main(["explain", run, file, "--choice", "20"]) == 0
    assert "log_walltime" in capsys.readouterr().out and main(["explain", run, file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["jobs"]
    assert len(found) > 1 and found[0]["score"] <= found[1]["score"]
    for wrong, text in (
        ([*told, "--choices", "9"], "choices"),
        (["export-onnx", run, str(tmp_path / "x.onnx")], "no network"),
    ):
        assert main(wrong) == 2
        assert text in capsys.readouterr().err


def test_an_explanation_adds_up(log):
    """The features times the weights are the compiled score, and what moved it is told against the mean of the queue."""
    from jobwise.policies.names import resolve
    from jobwise.sim.simulation import Simulation

    for name in ("general+easy", "smith-aged+easy"):
        policy, sim = resolve(name), Simulation(log)
        policy.reset(sim.view())
        seen = 0
        while seen < 30 and sim.advance():
            view = sim.view()
            policy.ended(view, view.ended)
            found = policy.explain(view) if len(view.queue) > 1 else []
            for f in found:
                terms = policy.order.terms()
                assert sum(terms[k] * x for k, x in f["features"].items()) == pytest.approx(f["score"], abs=1e-9)
            if found:
                total = sum(sum(f["moved"].values()) for f in found)
                assert total == pytest.approx(0, abs=1e-6) and found[0]["score"] == min(f["score"] for f in found)
                seen += 1
            sim.apply(policy.decide(view))
    plain = resolve("sjf+easy")
    assert [f["job"] for f in plain.explain(view)] == sorted(view.queue, key=lambda j: (view.jobs["walltime"][j], j))


def test_the_start_and_the_search_are_judged_on_jobs_that_neither_saw(log, found, tmp_path, monkeypatch):
    from jobwise.systems import search

    policy, grounds = found[1], []

    class Recorded(SearchGround):
        def __init__(self, windows, threads=2):
            grounds.append(windows)
            super().__init__(windows, threads)

    monkeypatch.setattr(search, "SearchGround", Recorded)
    run = search.SearchTrainer(configure("search", log, "smoke"), log)
    cut = int((1 - search.KEPT) * int(0.7 * len(log)))
    border = log.offset + log.jobs["submit"][cut]
    moved = 2 * 300  # by shakes
    assert all(w.offset + w.jobs["submit"][-1] <= border + moved for w in grounds[0])
    assert all(w.offset >= border - moved for w in grounds[1]) and len(run.seen) == int(0.7 * len(log))
    assert set(policy.about["judged"]) == {"start", "searched"} and policy.about["chosen"] in ("start", "searched")
    assert (load(found[0] / "policy.safetensors").order.weights == policy.order.weights).all()


def test_a_search_that_was_stopped_ends_with_the_same_weights(log, found, tmp_path):
    class Stop(Exception):
        pass

    def stop(k, line):
        if line["part"] >= 0.5:
            raise Stop

    config = configure("search", log, "smoke")
    with pytest.raises(Stop):
        config.train(log, tmp_path / "found", report=stop)
    assert not (tmp_path / "found" / "policy.safetensors").exists()
    again = config.train(log, tmp_path / "found", resume=True)[0]
    assert np.array_equal(again.order.weights, found[1].order.weights)
    assert again.about["choices"] == found[1].about["choices"]


def test_a_damaged_checkpoint_is_one_line(log, found, tmp_path):
    config, folder = configure("search", log, "smoke"), tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_bytes((found[0] / "run.json").read_bytes())
    (folder / "checkpoint.safetensors").write_text("{")
    with pytest.raises(InputError, match=r"checkpoint\.safetensors: is damaged"):
        config.train(log, folder, resume=True)
    (folder / "checkpoint.json").write_text("{}")
    with pytest.raises(InputError, match=r"checkpoint\.json: was written by an earlier version"):
        config.train(log, folder, resume=True)
    (folder / "checkpoint.json").unlink()
    few = {"generation": 1, "weights": [1.0], "sum": [1.0], "summed": 1}
    rest = {"envs": {}, "done": {"updates": 1}, "best": [1.0, {}], "rule": ["", 1.0], "recent": []}
    checkpoint.write(folder / "checkpoint.safetensors", {"agent": few} | rest)
    with pytest.raises(InputError, match="another version"):
        config.train(log, folder, resume=True)


def test_search_has_no_use_for_a_gpu(log, tmp_path):
    with pytest.raises(InputError, match="cuda"):
        configure("search", log, "smoke").train(log, tmp_path / "x", device="cuda")
