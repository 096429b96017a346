"""The shadow and its journal: what is written down, kills, clocks that go back, jobs that go, damaged files, a full disk.

Modules: cli/slurm_shadow.py, live/gains.py, live/sinks/journal.py.
"""

import contextlib
import itertools
import json
import shutil
import sqlite3
import time
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import programs
from cycles import Shadowing
from test_live import cluster, job  # noqa: F401

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.advice import ended
from jobwise.live.sinks.journal import Journal
from jobwise.live.starts import predict
from jobwise.live.wishes import Wishes
from jobwise.policies.names import resolve
from jobwise.slurm.judge.what_if import what_if
from jobwise.slurm.read.jobs import NEW
from jobwise.starts.calibration import LEVELS

pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]


class Looks:
    """A reader of a folder; `at` moves its clock, `change` its jobs."""

    def __init__(self, folder):
        self.folder, self.now = folder, float((folder / "now.txt").read_text())

    def at(self, seconds, change=lambda jobs, now: jobs):
        """Go on by so many seconds."""
        self.now += seconds
        (self.folder / "now.txt").write_text(f"{self.now:.3f}\n")
        jobs = json.loads((self.folder / "squeue.json").read_text())["jobs"]
        (self.folder / "squeue.json").write_text(json.dumps({"jobs": change(jobs, self.now)}))

    def look(self):
        return sources.look(self.folder)

    def close(self):
        pass


@pytest.fixture
def looks(cluster):  # noqa: F811
    return Looks(cluster)


def started(id, cpus, nodes):
    """A change: this job starts now, in the place of one that ends."""

    def change(jobs, now):
        out = [x for x in jobs if x["job_id"] != 9003]
        for x in out:
            if x["job_id"] == id:
                x |= {"job_state": "RUNNING", "start_time": int(now), "nodes": nodes, "tres_alloc_str": f"cpu={cpus}"}
        return out

    return change


def test_what_a_cycle_writes(looks, tmp_path):
    j = Journal(tmp_path / "state")
    s = Shadowing(resolve("sjf+easy"), j)
    p, events = s.cycle(looks.look())
    assert {k: len(ids) for k, ids in events.items() if ids} == {"submitted": 8, "started": 3}
    assert len(p.starts.rows) == 5  # an array of three tasks
    assert [x["job"] for x in s.order][0] == 9006 and s.begin == set()  # the machine is full
    looks.at(60.0, started(9005, 4, "n4"))
    _, events = s.cycle(looks.look())
    assert events["started"] == [9005] and not events["submitted"] and not events["gone"]
    start = dict(j.rows("select id, start from job"))
    assert start[9005] == pytest.approx(looks.now, abs=1) and start[9004] is None
    score = j.score()
    assert score["predictions"] == 1 and score["error"] >= 0 and score["slurm_error"] == pytest.approx(3540, abs=2)
    assert j.scores("user") == {"u1": score} and list(j.scores("partition")) == ["batch"]
    assert j.agreement()["started"] == 1 and j.agreement()["wanted"] == 0
    assert j.rows("select count(*) from cycle")[0][0] == 2
    j.close()


def test_a_new_process_goes_on_where_the_last_was_killed(looks, tmp_path, monkeypatch):
    monkeypatch.setattr("jobwise.live.starts.EARLIER", 6)  # enough to stretch intervals by
    first = Journal(tmp_path)
    s = Shadowing(resolve("fcfs"), first)
    for _ in range(3):
        s.cycle(looks.look())
        looks.at(30.0)
    looks.at(0.0, started(9005, 4, "n4"))
    s.cycle(looks.look())
    made = s.calibration
    with pytest.raises(InputError, match="another process writes the journal"):
        Journal(tmp_path)
    assert Journal(tmp_path, reads=True).last == first.last
    first._lock.close()  # it was killed: it never closed its file
    second = Journal(tmp_path)
    again = Shadowing(resolve("fcfs"), second)
    c = again.calibration
    mine = [i for i, x in enumerate(made.job) if 9003 < x < NEW and made.made[i] > looks.now - 1000]  # of the cycles
    assert c.job == [made.job[i] for i in mine] and 2 <= len(mine) <= 4
    assert np.allclose(c.made, np.array(made.made)[mine]) and np.allclose(c.sampled, np.array(made.sampled)[mine])
    assert np.allclose(c.shown, np.array(made.shown)[mine], atol=1e-6)
    assert np.array_equal(~np.isnan(c.outcome), [x == 9005 for x in c.job])
    assert not any(again.cycle(looks.look())[1].values())
    first.close()
    second.close()


def test_clocks_that_go_back_and_jobs_that_go(looks, tmp_path):
    j = Journal(tmp_path)
    s = Shadowing(resolve("fcfs"), j)
    s.cycle(looks.look())
    looks.at(-500.0)
    with pytest.raises(InputError, match="set back"):
        s.cycle(looks.look())
    looks.at(560.0, lambda jobs, now: [x for x in jobs if x["job_id"] != 9004])  # it was cancelled
    s.calibration.add(0.0, 9004, np.zeros(len(LEVELS)), 0.0, np.zeros((2, len(LEVELS))))
    assert (
        s.cycle(looks.look())[1]["gone"] == [9004] and s.cycle(looks.look())[1]["gone"] == [] and 9004 not in s.calibration.job
    )
    assert j.rows("select what from event where job = 9004 order by time") == [("submitted",), ("gone",)]
    assert j.rows("select count(*) from prediction where job = 9004")[0][0] == 0
    j.close()


def test_a_job_that_asks_for_something_else_has_changed(looks, tmp_path):
    j = Journal(tmp_path)
    s = Shadowing(resolve("fcfs"), j)
    s.cycle(looks.look())
    looks.at(30.0, lambda jobs, now: [x | {"time_limit": 15} if x["job_id"] == 9005 else x for x in jobs])
    assert s.cycle(looks.look())[1] == {"submitted": [], "started": [], "ended": [], "changed": [9005], "gone": []}
    assert j.rows("select asked from job where id = 9005") == [(900.0,)] and not s.cycle(looks.look())[1]["changed"]
    j.close()


def test_a_job_that_starts_and_ends_between_two_cycles_or_is_held_is_not_gone(looks, tmp_path):
    j = Journal(tmp_path)
    s = Shadowing(resolve("fcfs"), j)
    s.cycle(looks.look())

    def change(jobs, now):
        for x in jobs:
            if x["job_id"] == 9005:
                x |= {"job_state": "COMPLETED", "start_time": int(now - 40), "end_time": int(now - 10), "nodes": "n4"}
            if x["job_id"] == 9004:
                x |= {"state_reason": "JobHeldUser"}
        return jobs

    looks.at(60.0, change)
    events = s.cycle(looks.look())[1]
    assert events["started"] == events["ended"] == [9005] and events["gone"] == []
    assert j.rows("select ended - start from job where id = 9005") == [(30.0,)]
    assert j.score()["predictions"] == 1 and j.rows("select count(*) from prediction where job = 9004") == [(1,)]
    j.close()


def test_a_policy_that_fails_stops_nothing(looks, tmp_path):
    class Wrong:
        name = "wrong"

        def begin(self, view):
            raise ZeroDivisionError("oh")

        reset = decide = ended = begin

    j = Journal(tmp_path)
    s = Shadowing(Wrong(), j)
    p, _ = s.cycle(looks.look())
    assert "the policy failed" in s.problem and len(p.starts.rows) == 5
    assert "failed" in j.rows("select problem from cycle")[0][0]
    j.close()


def test_whom_a_policy_would_start(looks):
    assert Wishes(resolve("fcfs+easy"), looks.look()).starts == {}
    looks.at(10.0, lambda jobs, now: [x for x in jobs if x["job_id"] != 9003])
    found = set(Wishes(resolve("fcfs+easy"), looks.look()).starts)
    assert found and 9004 not in found  # the wide one waits; narrow ones fit beside its reservation


def test_damaged_files_and_full_disks(looks, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "journal.sqlite").write_bytes(b"nonsense" * 100)
    with pytest.raises(InputError, match="is no journal"):
        Journal(tmp_path / "a")
    j = Journal(tmp_path / "b")
    j._db.execute("update about set value = '99'")
    j.close()
    with pytest.raises(InputError, match="is of version 99"):
        Journal(tmp_path / "b")
    j = Journal(tmp_path / "c")
    s = Shadowing(resolve("fcfs"), j)
    s.cycle(looks.look())
    before = j.rows("select count(*) from prediction")
    j._db.execute(f"pragma max_page_count = {j.rows('pragma page_count')[0][0]}")
    p = predict(looks.look())
    many = [{"job": i, "why": "x" * 3000} for i in range(100)]
    with pytest.raises(InputError, match="cannot be written"):
        j.write(p, many, set())
    assert j.rows("select count(*) from prediction") == before and j.rows("select count(*) from cycle") == [(1,)]
    j.close()
    assert sqlite3.connect(tmp_path / "c" / "journal.sqlite").execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_cycle_that_cannot_be_written_leaves_nothing_behind(looks, tmp_path):
    j = Journal(tmp_path)
    s = Shadowing(resolve("fcfs"), j)
    s.cycle(looks.look())
    looks.at(30.0)
    counts = "select (select count(*) from cycle), (select count(*) from wish), (select count(*) from event)"
    before = j.rows(counts)
    with pytest.raises(InputError, match="cannot be written"):
        j.write(predict(looks.look()), [{"job": 9004, "why": "it may"}, {"job": 9005, "why": {"no": "text"}}], set())
    assert j.rows(counts) == before
    s.cycle(looks.look())  # the next one is written
    assert j.rows("select count(*) from cycle") == [(2,)]
    j.close()


def told_of(folder):
    """All that a report asks a journal."""
    j = Journal(folder, reads=True)
    try:
        return j.last, j.score(), j.scores("user"), j.agreement(), len(j.calibration().job)
    finally:
        j.close()


def test_a_journal_that_cannot_be_read_now_is_not_called_damaged(looks, tmp_path):
    with pytest.raises(InputError, match="cannot be read or written now"):
        Journal(tmp_path, reads=True)


def test_a_damaged_page_of_the_journal_is_one_line(looks, tmp_path, capsys):
    j = Journal(tmp_path / "whole")
    s = Shadowing(resolve("fcfs"), j)
    for _ in range(4):
        s.cycle(looks.look())
        looks.at(30.0)
    j._db.execute("pragma wal_checkpoint(truncate)")
    j.close()
    data = (tmp_path / "whole" / "journal.sqlite").read_bytes()
    rng, whole = np.random.default_rng(1), repr(told_of(tmp_path / "whole"))
    damages = [data[:at] + b"x" * 4096 + data[at + 4096 :] for at in range(0, len(data), 4096)]
    for _ in range(40):
        at = int(rng.integers(100, len(data)))
        damages.append(data[:at] + bytes(rng.integers(0, 256, 8, dtype=np.uint8)) + data[at + 8 :])
    refused = 0
    for k, damaged in enumerate(damages):
        folder = tmp_path / f"{k}"
        folder.mkdir()
        (folder / "journal.sqlite").write_bytes(damaged)
        try:
            told_of(folder)
        except InputError as error:
            refused += 1
            assert "is damaged" in str(error) and "\n" not in str(error)
    assert refused >= len(data) // 4096 - 1 and repr(told_of(tmp_path / "whole")) == whole
    folder = tmp_path / "0"
    assert run(["slurm", "shadow", "--state", str(folder), "--report"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_values_of_the_journal_that_are_none_are_one_line(looks, tmp_path):
    j = Journal(tmp_path)
    s = Shadowing(resolve("fcfs"), j)
    s.cycle(looks.look())
    looks.at(30.0, started(9005, 4, "n4"))
    s.cycle(looks.look())
    j.close()
    for change in (
        "sampled = 'text'",
        "sampled = x'0102'",
        "both = x'00'",
        "q50 = 'soon'",
        "requested = x'ff'",
        "time = 'now'",
    ):
        shutil.copytree(tmp_path, tmp_path.parent / "changed", dirs_exist_ok=True)
        with contextlib.closing(sqlite3.connect(tmp_path.parent / "changed" / "journal.sqlite")) as db, db:
            db.execute(f"update prediction set {change}")
        with contextlib.suppress(InputError):
            told_of(tmp_path.parent / "changed")


@pytest.fixture
def there(tmp_path, monkeypatch, cluster):  # noqa: F811
    """Small programs in place of Slurm's commands, which print the files of the cluster, at its time."""
    now = itertools.count(float((cluster / "now.txt").read_text()))
    monkeypatch.setattr(sources, "time", SimpleNamespace(time=lambda: next(now), monotonic=time.monotonic))
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", cluster))


@pytest.mark.slurm
def test_the_commands(there, tmp_path, capsys):
    state = str(tmp_path / "state")
    assert run(["slurm", "watch", "-p", "sjf+easy", "--cycles", "1"]) == 0
    out = capsys.readouterr().out
    assert "3 wait, 2 may not start yet, 3 run" in out and "rank 1" in out
    assert run(["slurm", "shadow", "--state", state, "--cycles", "2", "--every", "1s"]) == 0
    out = capsys.readouterr().out
    assert "cycle 2: 3 wait" in out and "2 cycles" in out
    assert run(["slurm", "shadow", "--state", state, "--report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cycles"] == 2


def test_a_report_by_user_where_there_are_several(looks, tmp_path, capsys):
    j = Journal(tmp_path)
    s = Shadowing(resolve("fcfs"), j)
    s.cycle(looks.look())
    for at, id in ((60.0, 9005), (60.0, 9004)):
        looks.at(at, started(id, 4, "n4"))
        s.cycle(looks.look())
    j._db.execute("update job set user = 'u2' where id = 9004")
    scores = j.scores("user")
    assert sum(x["predictions"] for x in scores.values()) == j.score()["predictions"] and set(scores) == {"u1", "u2"}
    j.close()
    assert run(["slurm", "shadow", "--state", str(tmp_path), "--report"]) == 0
    out = capsys.readouterr().out
    assert "starts foretold, by user" in out and "u2" in out and "by partition" not in out
    assert run(["slurm", "shadow", "--state", str(tmp_path), "--report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["starts"]["by_user"] == scores


@pytest.mark.slurm
def test_what_a_policy_would_have_gained(there, tmp_path, capsys):
    """The report replays the jobs that ended since the journal began, and tells users from each other."""
    state = tmp_path / "state"
    words = ["slurm", "shadow", "--state", str(state), "-p", "sjf"]
    assert run([*words, "--cycles", "1", "--every", "1s"]) == 0
    assert "--report replays" in capsys.readouterr().out and (state / "seen" / "sacct.txt").is_file()
    assert run([*words, "--report"]) == 0
    assert "needs 100 ended jobs; 0 have" in capsys.readouterr().out
    with contextlib.closing(sqlite3.connect(state / "journal.sqlite")) as db, db:
        db.execute("insert into cycle values(0.0, 0, 0, '')")
    assert run([*words, "--report", "--json"]) == 0
    gained = json.loads(capsys.readouterr().out)["gains"]
    w = ended(sources.look(state / "seen"))
    change = what_if(w, [("sjf+slurm", w, "sjf+slurm")])[0]
    assert [g["what"] for g in gained["groups"]].count("user") == 4 and gained["wait"]["change"] != 0
    assert gained == json.loads(json.dumps(change.to_dict()).replace("NaN", "null"))
    assert run([*words, "--report"]) == 0
    out = capsys.readouterr().out
    assert "sjf+slurm: " in out and "mean wait" in out and "who would have waited for how long" in out
    (tmp_path / "own.py").write_text("class Own:\n    name = 'own'\n    reset = decide = ended = lambda self, *a: []\n")
    assert run([*words[:-1], f"{tmp_path / 'own.py'}:Own", "--report"]) == 0
    assert "policy own: has no order" in capsys.readouterr().out


def test_wrong_use_is_one_line(tmp_path, capsys, monkeypatch):
    assert run(["slurm", "shadow", "--state", str(tmp_path), "--report"]) == 2
    assert "holds no journal" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "/nowhere")
    for words in (["watch"], ["shadow", "--state", str(tmp_path / "s")]):
        assert run(["slurm", *words, "--cycles", "1"]) == 2
        assert "there is no Slurm here" in capsys.readouterr().err


def test_only_a_wish_to_start_now_agrees_with_slurm(looks, tmp_path):
    """Ranked first is not wanted now: the policy had the whole queue in its order, and would have started nothing."""
    j = Journal(tmp_path)
    p = predict(looks.look())
    order = [{"job": 9005, "why": ""}, {"job": 9004, "why": ""}]
    j.write(p, order, set())
    looks.at(60.0, lambda jobs, now: [x | {"start_time": int(now - 20)} for x in started(9005, 4, "n4")(jobs, now)])
    j.write(predict(looks.look()), order[1:], {9004})
    first = j.agreement()
    assert first["started"] >= 1 and first["wanted"] == 0.0
    looks.at(60.0, lambda jobs, now: [x | {"start_time": int(now - 20)} for x in started(9004, 16, "n[1-4]")(jobs, now)])
    j.write(predict(looks.look()), [], set())
    started_ = j.agreement()["started"]
    assert started_ == first["started"] + 1 and j.agreement()["wanted"] == pytest.approx(1 / started_)
    j.close()
