"""Learning on beside a cluster: rounds, generations, roll-back, what a damaged store says, the process beside the cycles."""

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
from jobwise.slurm import live
from jobwise.slurm.learning import NEVER, Learning
from jobwise.slurm.retrain import Learnt, retrain, roll_back, serving
from jobwise.slurm.views import ended_on_pool

pytest.importorskip("lightgbm")
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
def jobs(readings):
    return ended_on_pool(live.look(readings))


@pytest.fixture(scope="module")
def won(jobs, tmp_path_factory):
    """A store in which two generations have won against a rule that is easy to beat."""
    folder = tmp_path_factory.mktemp("won") / "learnt"
    for share in (0.95, 1.0):
        retrain(folder, jobs.take(slice(0, int(share * len(jobs)))), "fcfs", weeks=WEEKS)
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


def test_a_generation_ranks_once_it_has_won(won, jobs):
    learnt = Learnt.of(won)
    a, b = learnt.rounds
    assert a.confirmed == 1 and a.serves == 1 and set(a.scores) == {"new", "fcfs"} and a.scores["new"] < a.scores["fcfs"]
    assert set(b.scores) == {"new", "g1", "fcfs"} and a.learnt < b.learnt and a.windows >= 4
    assert b.gain == pytest.approx(1 - b.scores["new"] / min(b.scores["g1"], b.scores["fcfs"]))
    assert learnt.kept == ([1, 2] if b.confirmed == 2 else [1]) and learnt.serves == learnt.kept[-1]
    assert {p.name for p in won.iterdir()} == {"model.json", "lock", *(f"g{n}.safetensors" for n in learnt.kept)}
    policy = serving(won)
    assert policy.name == f"jobwise:g{learnt.serves}" and policy.promise == 1.2
    named = jw.resolve(str(won))  # as -p STATE/learnt
    assert named.promise == 1.2 and all(map(np.array_equal, named.order.forest, policy.order.forest))


def test_the_rule_ranks_where_no_generation_wins(jobs, tmp_path):
    """Against the very order with the same history the trees of a thousand jobs do not win by more than chance."""
    folder = tmp_path / "learnt"
    x = retrain(folder, jobs, "jobwise", weeks=WEEKS)
    assert x.serves == -1 and serving(folder) is None and jw.resolve(str(folder)).name == "jobwise"
    with pytest.raises(InputError, match="no generation ranks"):
        roll_back(folder, "jobwise")


def test_back_to_the_generation_before(store):
    numbers = Learnt.of(store).kept
    for k in reversed(range(len(numbers))):
        assert serving(store).name == f"jobwise:g{numbers[k]}"
        assert roll_back(store, "fcfs") == (numbers[k - 1] if k else -1)
    assert serving(store) is None and not list(store.glob("*.safetensors")) and Learnt.of(store).rollbacks == len(numbers)
    assert jw.resolve(str(store)).name == "fcfs"


def test_too_few_jobs_and_damaged_stores(store, jobs, tmp_path):
    with pytest.raises(InputError, match="are needed"):
        retrain(tmp_path / "new", jobs.take(slice(0, 300)), "fcfs")
    before = (store / "model.json").read_text()
    (store / "model.json").write_text(before.replace('"kept"', '"keeps"'))
    with pytest.raises(InputError, match="model.json"):
        retrain(store, jobs, "fcfs", weeks=WEEKS)
    (store / "model.json").write_text(before)
    for file in store.glob("*.safetensors"):
        file.write_bytes(b"no tensors")
    with pytest.raises(InputError, match="safetensors"):
        retrain(store, jobs, "fcfs", weeks=WEEKS)
    assert (store / "model.json").read_text() == before


def test_the_command(readings, store, capsys):
    words = ["slurm", "retrain", "--state", str(store.parent), "-p", "fcfs"]
    assert run([*words, "--folder", str(readings), "--weeks", str(WEEKS)]) == 0
    out = capsys.readouterr().out
    assert "the last weeks, replayed" in out and "ranks from now on" in out and "fcfs" in out
    assert run([*words, "--folder", str(readings), "--weeks", str(WEEKS), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rule"] == "fcfs"
    while Learnt.of(store).serves >= 0:
        assert run([*words, "--rollback"]) == 0
    assert run([*words, "--rollback"]) == 2
    assert "there is nothing to go back from" in capsys.readouterr().err
    assert run([*words, "--folder", str(readings), "--weeks", "52"]) == 2
    assert "jobs ended before the last 52 weeks" in capsys.readouterr().err


def test_rounds_beside_the_cycles(readings, store, tmp_path, monkeypatch):
    """A round begins when it is due, in a process of its own; one that fails says why; what is learnt there is used."""
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", readings))
    fcfs, state = jw.resolve("fcfs"), store.parent
    kept = Learning(state, fcfs, "fcfs", NEVER)
    assert kept.look() == "" and kept.policy is fcfs  # nobody has asked it to learn
    learns = Learning(state, fcfs, "fcfs", 3600.0)
    assert learns.policy.name == f"jobwise:g{Learnt.of(store).serves}"  # learnt before
    x = json.loads((store / "model.json").read_text())
    for r in x["rounds"]:
        r["time"] -= 4000
    (store / "model.json").write_text(json.dumps(x))
    news = []
    end = time.monotonic() + 120
    while not news and time.monotonic() < end:
        news += filter(None, [learns.look()])
        time.sleep(0.2)
    learns.close()
    assert "no new trees" in news[0] and "jobs ended before the last 3 weeks" in news[0]  # all of these came in two
    while Learnt.of(store).serves >= 0:
        before = roll_back(store, "fcfs")
        os.utime(store / "model.json", (before + 2, before + 2))
        assert learns.look() == (f"jobwise:g{before} ranks from now on" if before >= 0 else "fcfs ranks from now on")
    assert learns.policy is fcfs
    os.utime(store / "model.json", (99, 99))
    (store / "model.json").write_text("{")
    assert "fcfs goes on: " in learns.look() and learns.policy is fcfs


def test_rules_that_cannot_be(jobs, tmp_path, capsys):
    for rule in ("sjf+easy+pack", str(tmp_path / "own.py:Own"), "gated:sjf,fcfs"):
        with pytest.raises(InputError, match="built-in one for pools"):
            retrain(tmp_path / "learnt", jobs, rule, weeks=WEEKS)
    assert run(["slurm", "retrain", "--state", str(tmp_path), "-p", "sjf+easy+pack", "--folder", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_round_that_cannot_begin_is_said(store, monkeypatch):
    def refused(*words, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jobwise.slurm.learning.subprocess.Popen", refused)
    learns = Learning(store.parent, jw.resolve("fcfs"), "fcfs", 3600.0)
    learns._last = lambda: 1.0
    assert "No space left on device" in learns.look() and learns.look() == ""  # tried again after an hour
    learns.close()


def test_a_round_that_is_ended_changes_nothing(readings, store, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", readings, sacct="sleep 60"))
    before = (store / "model.json").read_text()
    learns = Learning(store.parent, jw.resolve("fcfs"), "fcfs", 3600.0)
    learns._last, learns._begun = lambda: 0.0, 0.0  # none there yet, and an hour has passed
    learns.look()
    pid = learns._process.pid
    assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    learns.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIG_DFL)
    assert (store / "model.json").read_text() == before
