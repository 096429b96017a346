"""Training runs: same seed same bytes, kill and resume, policy files, the commands.

Modules: cli/evaluate.py, cli/explain.py, cli/train.py, learn/checkpoint.py, learn/config.py, learn/run.py,
learn/run_folder.py, learn/run_settings.py, learn/window.py, policies/files.py, policies/onnx.py, systems/perjob.py,
systems/rlscheduler.py.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from conftest import TESTS

import jobwise as jw
from jobwise.cli import run
from jobwise.compare import fingerprint
from jobwise.compare.windows import slowdowns
from jobwise.errors import InputError
from jobwise.learn.agent import pick_device
from jobwise.learn.config import Config
from jobwise.learn.run import TrainingRun, train
from jobwise.learn.run_folder import parts, score, windows
from jobwise.policies import files as policy_files
from jobwise.policies import names
from jobwise.policies.names import resolve
from jobwise.systems import configure
from jobwise.workloads.swf import write_swf

pytestmark = pytest.mark.xdist_group("learning")  # one worker compiles the kernels of choices, not both


@pytest.fixture(scope="module")
def w():
    return jw.lublin(jobs=1500, procs=64, seed=0, load=0.9)


@pytest.fixture(scope="module")
def trained(w, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mine"
    config = configure("perjob", w, "smoke").changed(choices=4000, threads=1)
    return folder, config, train(config, w, folder)[0]


def test_same_seed_same_bytes(w, trained, tmp_path):
    folder, config, _ = trained
    train(config, w, tmp_path / "mine")
    assert (folder / "policy.safetensors").read_bytes() == (tmp_path / "mine" / "policy.safetensors").read_bytes()
    train(config.changed(seed=1), w, tmp_path / "other")
    assert (folder / "policy.safetensors").read_bytes() != (tmp_path / "other" / "policy.safetensors").read_bytes()


def test_two_processes_do_not_train_in_one_folder(w, tmp_path):
    """Also with --resume; a folder that came to nothing is taken away, one that holds something stays."""
    from jobwise.files import lock

    config = configure("perjob", w, "smoke").changed(choices=500, threads=1)
    folder = tmp_path / "mine"
    folder.mkdir()
    held = lock(folder / "lock", "")
    for resume in (False, True):
        with pytest.raises(InputError, match="another process trains in this folder"):
            train(config, w, folder, resume=resume)
    held.close()
    train(config, w, folder)
    train(config, w, folder, resume=True)
    with pytest.raises(InputError, match="holds a run already"):
        train(config, w, folder)
    assert (folder / "policy.safetensors").exists()
    with pytest.raises(InputError, match="are too few"):
        train(config, w.take(slice(0, 5)), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_network_that_did_best_in_validation_is_the_policy(w, tmp_path):
    """Here the first one does, and each later one does worse."""
    run = TrainingRun(configure("perjob", w, "smoke").changed(choices=4000, threads=1), w, tmp_path / "run")
    files = []

    def validate(policy):
        files.append(tmp_path / f"{len(files)}.safetensors")
        policy.save(files[-1])
        return {"validation": 10.0 + len(files)}

    run.trainer.validate = validate
    run.run()
    assert len(files) > 2
    first, last, kept = (policy_files.read(x)[1] for x in (files[0], files[-1], tmp_path / "run"))
    assert all(np.array_equal(kept[k], first[k]) for k in kept) and not all(np.array_equal(kept[k], last[k]) for k in kept)


def test_a_run_folder_says_what_it_is(trained):
    folder, config, policy = trained
    about = json.loads((folder / "run.json").read_text())
    assert about["config"] == config.model_dump() and about["log"]["jobs"] == 1500 and "torch" in about["versions"]
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["choices"] >= 4000 and sum("validation" in x for x in lines) >= 2
    assert min(x["best"] for x in lines if "best" in x) == pytest.approx(policy.about["validation"])
    assert list(folder.glob("events.*")) and policy.about["best_rule"][1] > 0


KILLED = """
import sys, jobwise as jw
from jobwise.systems import configure
from jobwise.learn.run import train
w = jw.lublin(jobs=1500, procs=64, seed=0, load=0.9)
config = configure("perjob", w, "smoke").changed(choices=4000, threads=1)
train(config, w, sys.argv[1], resume=True, report=lambda k, line: print(line["updates"], flush=True))
"""


@pytest.mark.cli
@pytest.mark.parametrize("after", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_killed_run_goes_on_to_the_same_bytes(trained, tmp_path, after):
    folder = tmp_path / "mine"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if int(line) >= after:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait()
    process.stdout.close()
    assert not (folder / "policy.safetensors").exists()
    with pytest.raises(InputError, match="has not ended; the command that began it goes on with --resume"):
        names.load(folder)
    subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=True, capture_output=True)
    assert (folder / "policy.safetensors").read_bytes() == (trained[0] / "policy.safetensors").read_bytes()
    theirs = (trained[0] / "metrics.jsonl").read_text().splitlines()
    assert theirs == (folder / "metrics.jsonl").read_text().splitlines()


def test_a_run_is_not_overwritten_nor_mixed(w, trained):
    folder, config, _ = trained
    before = (folder / "policy.safetensors").read_bytes()
    with pytest.raises(InputError, match="holds a run already"):
        train(config, w, folder)
    from jobwise.learn.run import TrainingRun

    with pytest.raises(InputError, match="begun with reward"):
        TrainingRun(config.changed(reward="wait"), w, folder, resume=True)
    with pytest.raises(InputError, match="begun with jobs"):
        TrainingRun(config, w.take(slice(0, 1400)), folder, resume=True)
    assert (folder / "policy.safetensors").read_bytes() == before


def test_a_scale_is_checked_before_compiled_code_sees_it(w, tmp_path):
    config = configure("rlscheduler", w, "smoke").changed(threads=1, choices=500)
    train(config, w, tmp_path / "a")
    for scale in ([1e7], [1.0, np.nan, 1.0, 1.0], "x"):
        file = changed([tmp_path / "a"], tmp_path, lambda m, x, scale=scale: m["encoder"].update(scale=scale))
        with pytest.raises((InputError, ValueError), match="scale|float"):
            jw.simulate(w, names.load(file))


def test_a_half_written_line_and_another_run_are_noticed(w, trained, tmp_path):
    from shutil import copytree

    folder, config, _ = trained
    copy = tmp_path / "mine"
    copytree(folder, copy)
    (copy / "policy.safetensors").unlink()
    with open(copy / "metrics.jsonl", "a") as file:
        file.write('{"updates": 3, "choi')
    train(config, w, copy, resume=True)
    assert (copy / "metrics.jsonl").read_text() == (folder / "metrics.jsonl").read_text()
    with pytest.raises(InputError, match="begun with seed"):
        train(config.changed(seed=77), w, copy, resume=True)
    with pytest.raises(InputError, match="one seed"):
        train(config, w, copy, seeds=2)
    (copy / "run.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        train(config, w, copy, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        train(config, w, tmp_path / "file")


def test_parts_are_in_time_and_do_not_overlap(w):
    a, b, c = parts(w)
    assert len(a) + len(b) + len(c) == len(w) and a.offset < b.offset < c.offset
    assert b.jobs["walltime"][0] == w.jobs["walltime"][len(a)]
    found = windows(b, 50, 4)
    assert all(len(x) == 50 for x in found) and len({x.offset for x in found}) == len(found)
    assert score(slowdowns(jw.simulate_many(found, "fcfs+easy"))) >= 1


@pytest.mark.parametrize(
    ("system", "changes"),
    [
        ("sem", {}),
        ("dras", {"hidden": [16, 8]}),
        ("dras2", {"hidden": [16, 8]}),
        ("dras-dql", {"hidden": [16, 8]}),
        ("rlscheduler", {"choices": 2000}),
        ("perjob", {"choices": 2000, "network": "mlp", "window": 16}),
        ("perjob", {"choices": 2000, "learner": {"learner": "actor_critic", "steps": 8}}),
        ("perjob", {"choices": 2000, "simulations": 4, "learner": {"learner": "reinforce", "baseline": "time"}}),
        ("perjob", {"choices": 2000, "reward": "bounded_wait"}),
    ],
    ids=str,
)
def test_every_system_trains_and_stands_beside_the_rules(w, tmp_path, system, changes):
    config = configure(system, w, "smoke").changed(threads=1, **changes)
    policy = train(config, w, tmp_path / "x")[0]
    loaded = resolve(f"{tmp_path / 'x'}")
    small = w.take(slice(1000, 1200))
    r = jw.simulate(small, loaded)
    assert np.array_equal(r.jobs["start"], jw.simulate(small, policy).jobs["start"])
    assert (r.jobs["start"] >= r.jobs["submit"]).all()
    c = jw.compare(small, ["fcfs+easy", loaded], window_jobs=50)
    assert c.policies[1] == "x" and np.isfinite(c.whole[1]["bounded_slowdown"])


def test_several_seeds_keep_the_best(w, tmp_path):
    config = configure("perjob", w, "smoke").changed(choices=1500, threads=1)
    found = train(config, w, tmp_path / "x", seeds=2)
    best = min(found, key=lambda p: p.about["validation"])
    assert names.load(tmp_path / "x").about["seed"] == best.about["seed"]
    again = train(config, w, tmp_path / "x", seeds=2, resume=True)
    assert [p.about["validation"] for p in again] == [p.about["validation"] for p in found]


# ------------------------------------------------------------------ policy files


def test_names_take_options(trained):
    folder = trained[0]
    assert resolve(str(folder)).name == "mine"
    assert resolve(f"{folder}/policy.safetensors+none+guard24h").name == "mine+none+guard24h"
    for wrong in ("+spread", "+commit", "+conservative"):
        with pytest.raises(InputError, match="backfill"):
            resolve(f"{folder}{wrong}")
    with pytest.raises(InputError, match="no policy file"):
        resolve("runs/nobody")


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 100, 1000, -1])
def test_a_damaged_file_is_refused(trained, tmp_path, cut):
    data = (trained[0] / "policy.safetensors").read_bytes()
    file = tmp_path / "x.safetensors"
    file.write_bytes(data[:cut])
    with pytest.raises(InputError, match="x.safetensors"):
        names.load(file)


def test_a_foreign_file_is_refused(trained, tmp_path):
    from safetensors.numpy import save

    file = tmp_path / "x.safetensors"
    for data, text in (
        (b"\x80\x04\x95" + b"x" * 100, "no policy file"),
        (save({"a": np.zeros(3, np.float32)}), "somebody else"),
        (save({"a": np.zeros(3, np.float32)}, {"jobwise": "{}"}), "damaged"),
        (save({"a": np.zeros(3, np.float32)}, {"jobwise": "nonsense"}), "damaged"),
        (save({"a": np.zeros(3, np.float32)}, {"jobwise": json.dumps({"format": "jobwise policy 9"})}), "policy 9"),
    ):
        file.write_bytes(data)
        with pytest.raises(InputError, match=text):
            names.load(file)


def changed(trained, tmp_path, change):
    """The policy file with other metadata."""
    from safetensors import safe_open
    from safetensors.numpy import save

    with safe_open(trained[0] / "policy.safetensors", framework="numpy") as f:
        meta = json.loads(f.metadata()["jobwise"])
        weights = {k: f.get_tensor(k) for k in f.keys()}  # noqa: SIM118
    change(meta, weights)
    file = tmp_path / "x.safetensors"
    file.write_bytes(save(weights, {"jobwise": json.dumps(meta)}))
    return file


def test_mismatches_name_both_values(w, trained, tmp_path):
    for change, text in (
        (lambda m, x: m["encoder"].update(version=7), "version 1 here.*version 7"),
        (lambda m, x: m["encoder"].update(nodes=4360), "4,360.*64"),
        (lambda m, x: m["encoder"].update(window=9), r"\[9, 15\].*\[128, 15\]"),
        (lambda m, x: m["encoder"].update(name="sme"), "unknown encoder"),
        (lambda m, x: m["encoder"]["settings"].update(minimum=3), "unknown setting"),
    ):
        with pytest.raises(InputError, match=text):
            jw.simulate(w, names.load(changed(trained, tmp_path, change)))
    for change, text in (
        (lambda m, x: m["network"].update(sizes=[15, 9, 1]), "needs net"),
        (lambda m, x: m["network"].update(sizes=[8, 9, 1]), "gives 15 numbers"),
        (lambda m, x: m.update(network=[]), "damaged"),
        (lambda m, x: m["encoder"].update(settings=3), "settings are no table"),
        (lambda m, x: m["network"].update(kind="transformer"), "unknown network"),
        (lambda m, x: x.update({"net.0.weight": x["net.0.weight"][:3]}), "net.0.weight"),
        (lambda m, x: m["act"].update(mode="dance"), "unknown way to act"),
    ):
        with pytest.raises(InputError, match=text):
            names.load(changed(trained, tmp_path, change))


def test_nan_from_a_network_is_one_line(w, trained, tmp_path):
    for name in ("net.0.weight", "net.6.bias"):
        file = changed(trained, tmp_path, lambda m, x, name=name: x[name].fill(np.nan))
        with pytest.raises(InputError, match="answers NaN"):
            jw.simulate(w, names.load(file))


def test_an_interrupted_write_leaves_the_old_file(trained, tmp_path, monkeypatch):
    policy, file = trained[2], tmp_path / "x.safetensors"
    policy.save(file)
    before = file.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="No space left"):
        policy.save(file)
    assert file.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_onnx_gives_the_same_scores(w, tmp_path):
    import onnxruntime

    from jobwise.policies.onnx import to_onnx

    for system, changes in (
        ("perjob", {"choices": 500}),
        ("sem", {"episodes": 1}),
        ("dras2", {"episodes": 1, "hidden": [16, 8]}),
        ("perjob", {"choices": 500, "network": "mlp", "window": 8}),
    ):
        config = configure(system, w, "smoke").changed(threads=1, **changes)
        policy = train(config, w, tmp_path / f"{system}{len(changes)}")[0]
        session = onnxruntime.InferenceSession(to_onnx(policy))
        rows, features = policy.encoder.shape
        shape = (5, features) if policy.forward.kind == "perjob" else (3, rows, features)
        x = np.random.default_rng(0).random(shape).astype(np.float32)
        if system == "dras2":
            x[:, -1] = [[0, 0], [1, 0], [0, 0]]
        theirs = session.run(["scores"], {"x": x})[0]
        assert np.allclose(theirs.reshape(policy.forward(x).shape), policy.forward(x), atol=1e-4)
        assert json.loads(session.get_modelmeta().custom_metadata_map["jobwise"])["encoder"]["name"] == config.encoder


def test_explanations_name_the_chosen_job_first(w, trained):
    sim = jw.Simulation(w)
    policy, told = trained[2], 0
    for _ in range(400):
        sim.advance()
        view = sim.view()
        found = policy.explain(view)
        decisions = list(policy.decide(view))
        if len(found) > 1:
            told += 1
            best = found[0]
            assert best["score"] == max(f["score"] for f in found) and set(best["moved"]) == set(policy.encoder.features)
            fits = view.jobs["request"][best["job"], 0] <= view.free.sum()
            assert not fits or best["job"] in [d.job for d in decisions]
        sim.apply(decisions)
    assert told > 5


# ------------------------------------------------------------------ configuration


def test_configurations_are_checked():
    for values, text in (
        ({"encodr": "sem"}, "encodr.*known: system"),
        ({"jobs": 0}, "jobs.*greater"),
        ({"reward": "fame"}, "unknown reward"),
        ({"learner": {"lr": 1}}, "unknown learner setting 'lr'"),
        ({"learner": {"learner": "sarsa"}}, "unknown learner 'sarsa'"),
        ({"learner": {"steps": 0}}, "steps is 0"),
        ({"learner": {"gamma": "x"}}, "gamma is 'x'"),
        ({"learner": {"gamma": 1.5}}, "0 to 1"),
        ({"learner": {"actor_lr": -1}}, "actor_lr is -1"),
        ({"learner": {"critic": "foo"}}, "unknown critic"),
        ({"learner": {"baseline": "time"}}, "goes with the learner 'reinforce'"),
        ({"learner": ["ppo"]}, "learner.*dictionary"),
        ({"hidden": [-4]}, "hidden"),
        ({"threads": 100000}, "threads"),
    ):
        with pytest.raises(InputError, match=text):
            Config.checked(values)
    assert Config().changed(jobs=5).jobs == 5
    with pytest.raises(InputError, match="did you mean sem"):
        configure("sme", jw.lublin(jobs=100, procs=8, seed=0))


@pytest.mark.cli
def test_commands(w, tmp_path, capsys):
    log, folder = tmp_path / "x.swf", tmp_path / "runs"
    write_swf(w, log)
    own = tmp_path / "own.toml"
    own.write_text("simulations = 16\n[learner]\nsteps = 16\n")
    train_it = ["train", "perjob", str(log), "--out", str(folder / "a"), "--preset", "smoke", "--choices", "1500"]
    assert run([*train_it, "--config", str(own), "--threads", "1", "--device", "cpu", "--resume"]) == 0
    out, notes = capsys.readouterr()
    assert "there is no run to go on with; a new one begins" in notes
    assert "on these jobs, which were kept back" in out and "jobwise evaluate" in out
    told = json.loads((folder / "a" / "run.json").read_text())["config"]
    assert told["learner"]["steps"] == 16 and told["learner"]["gamma"] == 0.99 and told["choices"] == 1500
    report = tmp_path / "r.html"
    assert run(["evaluate", str(folder / "a"), str(log), "--replicas", "0", "--report", str(report), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["policies"]) >= 11 and found["against_best_rule"]["verdict"]
    assert found["fair_best"] and found["against_fair_best"]["rule"] == found["fair_best"]
    assert "How it was learnt" in report.read_text()
    assert run(["explain", str(folder / "a"), str(log), "--choice", "3"]) == 0
    assert "moved by" in capsys.readouterr().out
    assert run(["simulate", str(log), "-p", f"{folder / 'a'}+guard24h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "a+guard24h"
    assert run(["compare", str(log), "-p", "fcfs+easy", "-p", str(folder / "a")]) == 0
    assert run(["export-onnx", str(folder / "a"), str(tmp_path / "a.onnx")]) == 0
    capsys.readouterr()
    wrong = [
        (train_it, "holds a run already"),
        (["train", "sme", str(log), "--out", str(folder / "b")], "unknown system"),
        (["train", "perjob", str(log), "--out", str(folder / "b"), "--preset", "huge"], "unknown preset"),
        (["train", "perjob", str(log), "--out", str(folder / "b"), "--device", "tpu"], "no device"),
        (["train", "perjob", str(log), "--out", str(folder / "b"), "--config", "nobody.toml"], "nobody.toml"),
        (["train", "perjob", str(log), "--out", str(folder / "b"), "--jobs", "5"], "too few"),
        (["train", "perjob", str(log), "--out", str(folder / "a+b")], "'+'"),
        (["evaluate", str(folder / "nobody"), str(log)], "no policy file"),
        (["evaluate", str(folder / "a"), str(log), "--jobs", "9"], "too few"),
        (["evaluate", str(folder / "a"), str(log), "--report", str(log)], "overwrite"),
        (["explain", str(folder / "a"), str(log), "--choice", "100000000"], "counts from 0"),
    ]
    for arguments, text in wrong:
        assert run(arguments) == 2, arguments
        err = capsys.readouterr().err
        assert text in err and len(err.strip().splitlines()) == 1, err
    own.write_text("steps = [")
    assert run(["train", "perjob", str(log), "--out", str(folder / "b"), "--config", str(own)]) == 2
    assert not (folder / "b").exists()


def test_a_log_is_known_again_by_its_public_columns():
    """Bytes between the columns, and what a scheduler may not know, do not count."""
    log = jw.lublin(jobs=200, procs=32, seed=3)
    part, again = log.take(slice(0, 100)), log.take(slice(0, 100))
    again.jobs["start"], again.jobs["user"] = 7.0, 3
    again.truth["runtime"] = 1.0
    bare = np.full(again.jobs.nbytes, 255, np.uint8).view(again.jobs.dtype)
    for name in again.jobs.dtype.names:
        bare[name] = again.jobs[name]
    assert fingerprint.public_hash(part) == fingerprint.public_hash(replace(again, jobs=bare))
    bare["submit"][5] += 1
    assert fingerprint.public_hash(part) != fingerprint.public_hash(replace(again, jobs=bare))


def test_policy_files_of_format_1_still_load():
    """Files written before the worlds had their present shape (jobwise 0.1.0 of 2026-11-22)."""
    folder = TESTS / "data" / "format1"
    w = jw.lublin(jobs=400, procs=64, load=0.9, seed=1)
    starts = [0.0, 43849.0, 45762.0, 107430.0, 200067.0, 213463.0, 226060.0, 273057.0, 297473.0, 297488.0]
    assert jw.simulate(w, str(folder / "perjob.safetensors")).jobs["start"][::40].tolist() == starts
    for name in ("deeprm", "cush"):
        r = jw.simulate(jw.open_log(name), str(folder / f"{name}.safetensors"))
        assert r.policy == name and np.isfinite(r.jobs["end"]).all()


def test_processes_of_torchrun_take_a_gpu_each(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert pick_device("auto") == "cuda"
    for rank, device in (("0", "cuda:0"), ("1", "cuda:1"), ("3", "cuda:1")):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert pick_device("cuda") == pick_device("auto") == device
    assert pick_device("cpu") == "cpu"
