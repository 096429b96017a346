"""Learning on beside a cluster: rounds, generations, roll-back, what a damaged store says, the process beside the cycles.

Modules: cli/slurm_retrain.py, live/learning.py.
"""

import json
import os
import shutil
import signal
import time

import numpy as np
import pytest
from conftest import programs, write_site

import jobwise as jw
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.learning import NEVER, Learning
from jobwise.live.retrain import Learnt, check, retrain, roll_back, serving
from jobwise.live.view import ended_on_pool
from jobwise.policies import files, loglinear
from jobwise.policies.loglinear import INDICES, Index
from jobwise.policies.names import load
from jobwise.sim.memory.loglinear import weights
from jobwise.systems import configure

pytestmark = pytest.mark.xdist_group("retrain")
WEEKS = 0.7


@pytest.fixture(scope="module")
def readings(tmp_path_factory):
    """The outputs of a cluster of 16 CPUs where 2,000 jobs have ended and one waits."""
    folder = write_site(tmp_path_factory.mktemp("readings") / "seen", jobs=2000)
    now = max(int(r.split("|")[10]) for r in (folder / "sacct.txt").read_text().splitlines()[1:]) + 60
    x = {"job_id": 9001, "job_state": "PENDING", "state_reason": "Priority", "name": "j", "user_name": "u1", "account": "all"}
    x |= {
        "partition": "batch",
        "qos": "normal",
        "submit_time": now - 30,
        "eligible_time": now - 30,
        "time_limit": 60,
        "cpus": 4,
    }
    x |= {"node_count": 1, "tres_req_str": "cpu=4,mem=100M,node=1", "nodes": "", "start_time": 0, "array_job_id": 0}
    (folder / "squeue.json").write_text(json.dumps({"jobs": [x]}))
    (folder / "now.txt").write_text(f"{now}\n")
    return folder


@pytest.fixture(scope="module")
def cluster(readings):
    return sources.look(readings)


@pytest.fixture(scope="module")
def jobs(cluster):
    return ended_on_pool(cluster)


def policy_file(folder, terms):
    """A policy file of the system search, as if it had found this order."""
    about = {"system": "search", "preset": "smoke"}
    folder.mkdir(parents=True, exist_ok=True)
    loglinear.save(Index("found", weights(**terms), about), folder / "policy.safetensors")
    return str(folder)


@pytest.fixture(scope="module")
def poor(tmp_path_factory):
    """A policy that learning easily beats: the widest and longest first."""
    return policy_file(tmp_path_factory.mktemp("poor") / "poor", {"log_walltime": -1.0, "log_processors": -1.0})


@pytest.fixture(scope="module")
def won(jobs, poor, tmp_path_factory):
    """A store in which a generation has won."""
    folder = tmp_path_factory.mktemp("won") / "learnt"
    for share in (0.95, 1.0):
        retrain(folder, jobs.take(slice(0, int(share * len(jobs)))), poor, weeks=WEEKS)
    return folder


@pytest.fixture
def store(won, tmp_path):
    """A copy of it, in a state folder."""
    return shutil.copytree(won, tmp_path / "state" / "learnt")


def test_jobs_that_ended_on_a_pool(readings, jobs):
    assert len(jobs) == 2000 and jobs.cluster.is_pool and jobs.cluster.processors == 16
    first = (readings / "sacct.txt").read_text().splitlines()[1].split("|")
    assert jobs.origin == float(first[7]) and jobs.truth["runtime"][0] == float(first[11])
    recorded = jw.simulate(jobs, "fcfs")
    assert np.allclose(jobs.columns["wait"], recorded.jobs["start"] - jobs.jobs["submit"], atol=2)


def test_a_generation_ranks_once_it_has_won(won, poor, jobs):
    learnt = Learnt.of(won)
    a, b = learnt.rounds
    assert a.confirmed == 1 and a.serves == 1 and set(a.scores) == {"new", poor} and a.scores["new"] < a.scores[poor]
    assert set(b.scores) == {"new", "g1", poor} and a.learnt < b.learnt and a.windows >= 4
    assert b.gain == pytest.approx(1 - b.scores["new"] / min(b.scores["g1"], b.scores[poor]))
    assert learnt.kept == ([1, 2] if b.confirmed == 2 else [1]) and learnt.serves == learnt.kept[-1]
    stored = {"model.json", "lock", "base.safetensors", *(f"g{n}.safetensors" for n in learnt.kept)}
    assert {p.name for p in won.iterdir()} == stored
    policy = serving(won, poor)
    assert policy.name == f"g{learnt.serves}+easy" and policy.about["system"] == "search"
    assert np.array_equal(jw.resolve(str(won)).order.weights, policy.order.weights)  # as -p STATE/learnt
    guarded = serving(won, f"{poor}+guard24h")  # the options of the policy that learning began with
    assert guarded.guard == 86_400 and np.array_equal(guarded.order.weights, policy.order.weights)


def test_a_round_is_judged_on_jobs_that_no_training_has_seen(jobs, poor, tmp_path):
    """The last weeks hold late jobs: they are the last three tenths of what a round takes, which training leaves alone."""
    x = retrain(tmp_path / "learnt", jobs, poor, weeks=WEEKS)
    late = int((jobs.jobs["submit"] >= jobs.jobs["submit"][-1] - WEEKS * 7 * 86_400).sum())
    taken = min(round(late / 0.3), len(jobs))
    assert x.judged == int(0.3 * taken) and x.learnt + x.judged == taken
    policy = jw.resolve(str(tmp_path / "learnt"))
    assert policy.about["jobs"] == taken  # a system trains on the first 70 % of its log
    seen = jw.compare(jobs, ["fcfs+easy", policy], since=0.0, replicas=0).notes
    assert any("trained on" in n or "has seen" in n for n in seen)


def test_the_first_policy_ranks_where_no_generation_wins(jobs, tmp_path):
    """Beside Smith's rule the weights that a short search finds are not ahead by more than chance."""
    good, folder = policy_file(tmp_path / "good", INDICES["smith"].terms()), tmp_path / "learnt"
    x = retrain(folder, jobs, good, weeks=WEEKS)
    assert x.serves == -1 and serving(folder, good) is None
    assert np.array_equal(jw.resolve(str(folder)).order.weights, load(good).order.weights)
    with pytest.raises(InputError, match="no generation ranks"):
        roll_back(folder)


def test_back_to_the_generation_before(store, poor):
    numbers = Learnt.of(store).kept
    for k in reversed(range(len(numbers))):
        assert serving(store, poor).name == f"g{numbers[k]}+easy"
        assert roll_back(store) == (numbers[k - 1] if k else -1)
    assert serving(store, poor) is None and Learnt.of(store).rollbacks == len(numbers)
    assert [p.name for p in store.glob("*.safetensors")] == ["base.safetensors"]
    assert np.array_equal(jw.resolve(str(store)).order.weights, load(poor).order.weights)


def test_the_settings_of_a_run_are_those_of_its_rounds(jobs, tmp_path):
    """A run folder says how it was trained; a round differs in the seed alone."""
    config = configure("search", jobs, "smoke").changed(generations=3, window_jobs=60, seed=4)
    config.train(jobs, tmp_path / "mine")
    retrain(tmp_path / "learnt", jobs, str(tmp_path / "mine"), weeks=WEEKS)
    learnt = Learnt.of(tmp_path / "learnt")
    assert learnt.rounds[0].scores.keys() == {"new", str(tmp_path / "mine")} and learnt.number == len(learnt.kept)
    if learnt.kept:
        about = load(tmp_path / "learnt" / "g1.safetensors").about
        assert about["seed"] == 5 and about["choices"] == 3 * 2 * 3 * 4 * 60


def test_too_few_jobs_and_damaged_stores(store, jobs, poor, tmp_path):
    with pytest.raises(InputError, match="too few"):
        retrain(tmp_path / "new", jobs.take(slice(0, 12)), poor)
    before = (store / "model.json").read_text()
    (store / "model.json").write_text(before.replace('"kept"', '"keeps"'))
    with pytest.raises(InputError, match="model.json"):
        retrain(store, jobs, poor, weeks=WEEKS)
    (store / "model.json").write_text(before)
    for file in store.glob("g*.safetensors"):
        file.write_bytes(b"no tensors")
    with pytest.raises(InputError, match=f"safetensors.*remove {store} to begin anew"):
        retrain(store, jobs, poor, weeks=WEEKS)
    assert (store / "model.json").read_text() == before


def test_a_store_of_trees_is_named_with_the_way_out(store, poor, jobs):
    """A state folder of version 0.2 before trees left: its generations are orders with forests."""
    for file in store.glob("g*.safetensors"):
        meta, tensors, _, _ = files.read(file)
        files.write(file, meta | {"forest": ["request"]}, tensors)
    with pytest.raises(InputError, match=f"trees left jobwise.*remove {store} to begin anew"):
        serving(store, poor)
    learns = Learning(store.parent, jw.resolve("jobwise"), poor, 3600.0)
    assert learns.policy.name == "jobwise"


def test_the_command(readings, store, poor, capsys):
    words = ["slurm", "retrain", "--state", str(store.parent), "-p", poor]
    assert run([*words, "--folder", str(readings), "--weeks", str(WEEKS)]) == 0
    out = capsys.readouterr().out
    assert "the last weeks, replayed" in out and "ranks from now on" in out and "poor" in out
    assert run([*words, "--folder", str(readings), "--weeks", str(WEEKS), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rule"] == poor
    while Learnt.of(store).serves >= 0:
        assert run([*words[:-2], "--rollback"]) == 0
    assert run([*words, "--rollback"]) == 2
    assert "there is nothing to go back from" in capsys.readouterr().err
    assert run([*words[:-2], "--folder", str(readings)]) == 2
    assert "which policy learns on?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["shadow", "steer", "retrain"])
@pytest.mark.parametrize("policy", ["jobwise", "saf+easy", "zoo:sdsc-sp2"])
def test_a_rule_learns_nothing(command, policy, tmp_path, capsys):
    words = ["slurm", command, "--state", str(tmp_path / "state"), "-p", policy]
    words += ["--folder", str(tmp_path)] if command == "retrain" else ["--retrain", "1d", "--cycles", "1"]
    assert run(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "learns nothing" in said and "runs/mine" in said


def test_a_policy_of_another_world_does_not_learn_from_a_cluster():
    from test_stored import FOLDER

    with pytest.raises(InputError, match="learns from no log"):
        check(str(FOLDER / "deeprm.safetensors"))


@pytest.mark.slurm
def test_rounds_beside_the_cycles(cluster, store, poor):
    """A round begins when it is due, in a process of its own; what is learnt there is used; one that fails says why."""
    base, state = load(poor), store.parent
    kept = Learning(state, base, poor, NEVER)
    assert kept.look(cluster) == "" and kept.policy is base  # nobody has asked it to learn
    learns = Learning(state, base, poor, 3600.0)
    assert learns.policy.name == f"g{Learnt.of(store).serves}+easy"  # learnt before
    assert learns.look(cluster) == "" and learns._process is None  # nothing is due
    rounds = len(Learnt.of(store).rounds)
    aged(store)
    waited_for(learns, cluster, lambda: len(Learnt.of(store).rounds) > rounds)
    assert learns._process is None and not (store / "run").exists()
    while Learnt.of(store).serves >= 0:
        before = roll_back(store)
        os.utime(store / "model.json", (before + 2, before + 2))
        assert learns.look() == (f"g{before}+easy ranks from now on" if before >= 0 else "poor+easy ranks from now on")
    assert learns.policy is base
    aged(store)
    (store / "base.safetensors").unlink()
    (store / "base.safetensors").mkdir()  # no file can be written there
    news = waited_for(learns, cluster, lambda: learns._process is None)
    assert news.startswith("poor+easy goes on, nothing is learnt: ")
    os.utime(store / "model.json", (99, 99))
    (store / "model.json").write_text("{")
    assert "poor+easy goes on: " in learns.look() and learns.policy is base


def aged(store):
    """Let the last round be older than an hour."""
    x = json.loads((store / "model.json").read_text())
    for r in x["rounds"]:
        r["time"] -= 4000
    (store / "model.json").write_text(json.dumps(x))


def waited_for(learns, cluster, done):
    """Look, cycle after cycle, until a round that is due has come to its end; the last news."""
    learns._tried, news, end = 0.0, learns.look(cluster), time.monotonic() + 240
    assert learns._process is not None and learns._process.is_alive()
    assert os.getpriority(os.PRIO_PROCESS, learns._process.pid) in (0, 19)
    while learns._process is not None and time.monotonic() < end:
        news = learns.look(cluster) or news
        time.sleep(0.2)
    assert done()
    return news


def test_a_round_that_cannot_begin_is_said(cluster, store, poor, monkeypatch):
    def refused(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("multiprocessing.context.SpawnProcess.start", refused)
    learns = Learning(store.parent, load(poor), poor, 3600.0)
    learns._last = lambda: 1.0
    assert "No space left on device" in learns.look(cluster) and learns.look(cluster) == ""  # tried again after an hour
    learns.close()


@pytest.mark.slurm
@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_round_that_is_ended_changes_nothing(cluster, store, poor, how):
    before = (store / "model.json").read_text()
    learns = Learning(store.parent, load(poor), poor, 3600.0)
    learns._last, learns._begun = lambda: 0.0, 0.0  # none there yet, and an hour has passed
    learns.look(cluster)
    process = learns._process
    if how == "closed":
        learns.close()
    else:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert "nothing is learnt: exit code -9" in learns.look()
    assert not process.is_alive() and (store / "model.json").read_text() == before


@pytest.mark.slurm
def test_the_command_line_learns_beside_its_cycles(readings, poor, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", readings))
    words = ["slurm", "shadow", "--state", str(tmp_path / "state"), "-p", poor, "--retrain", "0s", "--every", "1s"]
    assert run([*words, "--cycles", "3"]) == 0
    assert "3 cycles" in capsys.readouterr().out and (tmp_path / "state" / "learnt").is_dir()


@pytest.mark.parametrize("system, more", [("perjob", {"choices": 2000, "simulations": 8, "jobs": 40}), ("sem", {})])
def test_a_network_goes_on_learning(jobs, tmp_path, system, more):
    """As a search does: it is trained anew with its settings."""
    pytest.importorskip("torch")
    configure(system, jobs, "smoke").changed(**more).train(jobs, tmp_path / "mine")
    x = retrain(tmp_path / "learnt", jobs, str(tmp_path / "mine"), weeks=WEEKS)
    assert set(x.scores) == {"new", str(tmp_path / "mine")}
    assert jw.resolve(str(tmp_path / "learnt")).about["system"] == system


def test_a_network_for_another_machine_is_refused_in_its_words(jobs, tmp_path):
    pytest.importorskip("torch")
    other = jw.lublin(400, procs=64, seed=1, load=0.9)
    configure("sem", other, "smoke").train(other, tmp_path / "mine")
    with pytest.raises(InputError, match="64"):
        retrain(tmp_path / "learnt", jobs, str(tmp_path / "mine"), weeks=WEEKS)
    assert not list((tmp_path / "learnt").glob("*.safetensors"))
