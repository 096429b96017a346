"""Trial runs on a Slurm that is played: who is tried, what is done in time, what is given back by whom.

Modules: live/sinks/trying.py.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from jobwise.errors import InputError
from jobwise.live.sinks import trying
from jobwise.live.sinks.trying import FORGET_S, Trying, Watchdog, Yes, decide, give_back, watch
from jobwise.live.state_folder import StateFolder
from jobwise.slurm.client import LimitedJob, SlurmError, _document, limited_of, over_time

JOB = LimitedJob(7, "PENDING", "Priority", 60, 0, 0.0, 0.0, 0, True, True, "trial", "normal", "bio")


class Played:
    """A Slurm of a few jobs, which does what it is told at once."""

    def __init__(self, *jobs, over=10.0):
        self.jobs, self.over, self.told, self.away = {j.id: j for j in jobs}, over, [], False

    def slack(self):
        return self.over

    def limited(self):
        if self.away:
            raise SlurmError("away")
        return list(self.jobs.values())

    def change(self, jobs):
        for id, words in jobs.items():
            self.told.append(f"{id} {words}")
            values = dict(w.split("=") for w in words.split())
            if id in self.jobs:
                now = self.jobs[id]
                limit, least = int(values.get("TimeLimit", now.limit)), int(values.get("TimeMin", now.least))
                self.jobs[id] = replace(now, limit=limit, least=least)
        return ""

    def requeue(self, ids):
        for id in ids:
            self.told.append(f"{id} requeue")
            self.jobs[id] = replace(self.jobs[id], state="PENDING", reason="BeginTime", restarts=self.jobs[id].restarts + 1)
        return ""

    def runs(self, id, limit, end):
        """Slurm starts a job in a gap of `limit` minutes, which is over at `end`."""
        self.jobs[id] = replace(self.jobs[id], state="RUNNING", limit=limit, start=end - 60.0 * limit, end=end)


@pytest.fixture
def folder(tmp_path):
    state = StateFolder(tmp_path / "state")
    yield state
    state.close()


@pytest.fixture(autouse=True)
def no_process(monkeypatch):
    monkeypatch.setattr(trying.Watchdog, "beat", lambda self: None)


def audit(state):
    return [json.loads(x) for x in state.audit.read_text().splitlines()]


def test_a_job_is_tried_put_back_tried_in_a_longer_gap_and_ends(folder):
    """A job of 60 min: least 1 min; it starts with 5 min, at 700; a start is planned for 1150: 7 min; 15 s before these are over it
    is put back, for another waits; it gets its own limit and a least of 4 min."""
    other = replace(JOB, id=8, comment="", start=1150.0)
    slurm = Played(JOB, other)
    t = Trying(slurm, folder, Yes("comment", "trial"), 10.0)
    assert t.cycle(0.0, 100) == 1 and slurm.told == ["7 TimeLimit=60 TimeMin=1"] and folder.tried == {7: 60}
    assert json.loads((folder.folder / "tried.json").read_text()) == {"7": 60}
    slurm.runs(7, 5, 1000.0)
    assert t.cycle(900.0, 100) == 1 and slurm.told[-1] == "7 TimeLimit=7" and folder.tried == {7: 60}
    slurm.runs(7, 7, 1120.0)
    assert t.cycle(1104.0, 100) == 0
    assert t.cycle(1106.0, 100) == 1 and slurm.told[-1] == "7 requeue"
    assert t.cycle(1116.0, 100) == 1 and slurm.told[-1] == "7 TimeLimit=60 TimeMin=4"
    slurm.runs(7, 20, 3000.0)
    assert t.cycle(2000.0, 100) == 0
    del slurm.jobs[7]  # it has ended
    assert t.cycle(2010.0, 100) == 0 and folder.tried == {7: 60}  # squeue may be wrong
    t._unseen = {7: -FORGET_S * 10}
    t.cycle(2020.0, 100)
    assert folder.tried == {}
    assert [x["act"] for x in audit(folder) if x["what"] == "trial"] == [
        "TimeLimit=60 TimeMin=1", "TimeLimit=7", "requeue", "TimeLimit=60 TimeMin=4",
    ]  # fmt: skip
    assert all(x["why"] for x in audit(folder) if x["what"] == "trial")


def test_where_nobody_waits_it_goes_on_with_its_own_limit_and_is_tried_no_more(folder):
    slurm = Played(JOB)
    t = Trying(slurm, folder, Yes("comment", "trial"), 10.0)
    t.cycle(0.0, 100)
    slurm.runs(7, 5, 1000.0)
    t.cycle(990.0, 100)
    assert slurm.told[-1] == "7 TimeLimit=60 TimeMin=0" and slurm.jobs[7].limit == 60
    t.cycle(995.0, 100)
    assert folder.tried == {} and len(slurm.told) == 2


def test_a_limit_that_its_user_changes_while_it_waits_stays_changed(folder):
    slurm = Played(JOB, replace(JOB, id=8, comment=""))
    t = Trying(slurm, folder, Yes("comment", "trial"), 10.0)
    t.cycle(0.0, 100)
    slurm.jobs[7] = replace(slurm.jobs[7], limit=30)
    assert t.cycle(10.0, 100) == 0 and folder.tried == {7: 30} and slurm.jobs[7].limit == 30


@pytest.mark.parametrize(
    "changes",
    [
        {"comment": ""}, {"requeue": False}, {"plain": False}, {"least": 5}, {"limit": 1}, {"state": "RUNNING"},
        {"restarts": 5},
    ],
)  # fmt: skip
def test_without_a_yes_or_where_it_cannot_be_nothing_is_changed(folder, changes):
    slurm = Played(replace(JOB, **changes))
    assert Trying(slurm, folder, Yes("comment", "trial"), 10.0).cycle(0.0, 100) == 0
    assert not slurm.told and not folder.tried


def test_the_yes_may_be_a_qos_or_an_account(folder):
    assert Yes.of("qos=normal").said(JOB) and Yes.of("account=bio").said(JOB) and not Yes.of("account=phys").said(JOB)
    for wrong in ("trial", "user=ann", "comment="):
        with pytest.raises(InputError, match="whose users said yes"):
            Yes.of(wrong)


def test_without_slack_it_is_refused_in_one_line(folder):
    with pytest.raises(InputError, match="OverTimeLimit is 0 min"):
        Trying(Played(JOB, over=0.0), folder, Yes("comment", "trial"), 10.0)


def test_a_dry_run_says_and_changes_nothing(folder):
    slurm = Played(JOB)
    assert Trying(slurm, folder, Yes("comment", "trial"), 10.0, dry=True).cycle(0.0, 100) == 0
    assert not slurm.told and not folder.tried and audit(folder)[-1]["what"] == "would try"


def test_no_gap_is_long_enough_after_many_runs():
    often = replace(JOB, restarts=4, limit=60, least=64)  # 256 min are more than its own limit
    assert decide(often, 60, 0.0, 10.0, True, 0.0) == ("TimeLimit=60 TimeMin=0", "no gap can be long enough")


def test_all_limits_are_given_back_also_of_jobs_that_squeue_does_not_list(folder):
    running = replace(JOB, id=8, state="RUNNING", limit=3, end=100.0)
    waiting = replace(JOB, id=9, least=4)
    own_start = replace(JOB, id=10, state="RUNNING", limit=60, end=9000.0)
    slurm = Played(running, waiting, own_start)
    left = give_back(slurm, {8: 60, 9: 60, 10: 60, 11: 60}, "the end", folder.note)
    assert left == {} and slurm.jobs[8].limit == 60 and slurm.jobs[9].least == 0
    assert sorted(slurm.told) == ["11 TimeLimit=60 TimeMin=0", "8 TimeLimit=60 TimeMin=0", "9 TimeLimit=60 TimeMin=0"]
    slurm.change = lambda jobs: "no"
    slurm.jobs[8] = running
    assert give_back(slurm, {8: 60}, "again", folder.note) == {8: 60}


def test_the_watchdog_gives_back_where_beats_stop_and_not_where_it_is_let_go(folder, monkeypatch):
    slurm = Played(replace(JOB, state="RUNNING", limit=3, end=100.0))
    folder.keep_tried({7: 60})
    monkeypatch.setattr(trying, "Slurm", lambda: slurm)
    monkeypatch.setattr(trying.signal, "signal", lambda *_: None)
    read, write = os.pipe()
    os.write(write, b"..q")
    assert watch(folder.folder, 5.0, read) == 0 and not slurm.told
    os.write(write, b".")
    assert watch(folder.folder, 0.2, read) == 0 and slurm.jobs[7].limit == 60  # no beat for 0.2 s
    slurm.jobs[7] = replace(slurm.jobs[7], limit=3)
    os.close(write)  # the steering process is gone
    assert watch(folder.folder, 60.0, read) == 0 and slurm.jobs[7].limit == 60
    assert {x["why"] for x in audit(folder) if x["what"] == "trial"} == {
        "undo: steering misses its cycles", "undo: steering was killed",
    }  # fmt: skip


@pytest.mark.cli
def test_the_watchdog_is_a_process_of_its_own_that_ends_when_it_is_let_go(tmp_path):
    (tmp_path / "state").mkdir()
    words = [sys.executable, "-m", "jobwise.live.sinks.trying", str(tmp_path / "state"), "60"]
    w = Watchdog(tmp_path / "state", 60.0)
    w._process = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    process = w._process
    w.close(False)
    assert process.wait(60) == 0


def test_limits_are_read_from_both_dialects_and_slack_from_the_configuration():
    old = {"job_id": 5, "job_state": "PENDING", "state_reason": "Priority", "time_limit": 60, "time_minimum": 4, "restart_cnt": 2,
           "requeue": True, "batch_flag": True, "comment": "trial", "qos": "q", "account": "a", "array_job_id": 0, "het_job_id": 0,
           "end_time": 99}  # fmt: skip
    new = old | {
        "job_state": ["PENDING"],
        "time_limit": {"set": True, "infinite": False, "number": 60},
        "time_minimum": {"set": True, "infinite": False, "number": 4},
        "array_job_id": {"set": True, "infinite": False, "number": 0},
        "end_time": {"set": True, "infinite": False, "number": 99},
    }
    assert (
        limited_of(old)
        == limited_of(new)
        == LimitedJob(5, "PENDING", "Priority", 60, 4, 0.0, 99.0, 2, True, True, "trial", "q", "a")
    )
    for wrong in ("[" * 2_000_000, "", "{}", '{"jobs": 5}', "[]"):
        with pytest.raises(SlurmError):
            _document(wrong, "jobs")
    assert not limited_of(old | {"array_job_id": 5}).plain and limited_of(old | {"time_limit": None}).limit == 0
    assert over_time("OverTimeLimit           = 10 min\n") == 10 and over_time("OverTimeLimit = UNLIMITED\n") == float("inf")
    assert over_time("") == 0 and over_time("OverTimeLimit           = 0 min\n") == 0
