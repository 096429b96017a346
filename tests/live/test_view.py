"""A cluster as a view: what a run of a policy sees from look to look, and what it cannot go on after."""

import json

import numpy as np
import pytest
from test_live import cluster, job  # noqa: F401
from test_shadow import Looks, started

from jobwise.jobs import CANCELLED, DONE, FAILED, STARTED, STOPPED, SUBMITTED
from jobwise.live.sources import NEW
from jobwise.live.view import view_of
from jobwise.policies.names import resolve

pytestmark = pytest.mark.xdist_group("sites")
FCFS = resolve("fcfs+easy")


@pytest.fixture
def looks(cluster):  # noqa: F811
    return Looks(cluster)


def happened(look):
    """{(number of a job, kind)} of the events of a view."""
    return {(int(look.ids[x["job"]]), int(x["kind"])) for x in look.view.events}


@pytest.mark.parametrize("policy", ["sjf+easy", "sjf+easy+pack"])
def test_a_later_look_tells_what_has_happened(looks, policy):
    """9003 has ended, accounting does not know yet; 9005 has started in its place; 9011 has come."""
    policy = resolve(policy)
    first = view_of(looks.look(), policy)
    assert first.is_first and len(first.view.events) == 0
    change = started(9005, 4, "n4")
    looks.at(60.0, lambda jobs, now: [*change(jobs, now), job(9011, 2, 10, now, waited=5)])
    later = view_of(looks.look(), policy, first)
    assert not later.is_first and np.array_equal(later.ids[: len(first.ids)], first.ids) and later.ids[-1] == 9011
    assert happened(later) == {(9003, STOPPED), (9005, STARTED), (9011, SUBMITTED)}
    view, at = later.view, {int(id): k for k, id in enumerate(later.ids)}
    assert view.now - first.view.now == pytest.approx(60.0) and view.ended.tolist() == [at[9003]]
    over = view.jobs[at[9003]]
    assert over["status"] == DONE and over["end"] == view.now and over["ran"] == pytest.approx(120.0, abs=1.0)
    again = view_of(looks.look(), policy, later)
    assert not again.is_first and happened(again) == set() and len(again.view.ended) == 0


def test_jobs_that_came_and_ended_between_two_looks_are_told_whole(looks):
    first = view_of(looks.look(), FCFS)
    quick = {"state": "COMPLETED", "nodes": "n4", "reason": "None"}
    looks.at(600.0, lambda jobs, now: [*jobs, job(9011, 1, 10, now, waited=20, ran=60, end_time=int(now - 30), **quick)])
    later = view_of(looks.look(), FCFS, first)
    mine = [x for x in later.view.events if later.ids[x["job"]] == 9011]
    assert [int(x["kind"]) for x in mine] == [SUBMITTED, STARTED, STOPPED] and mine[2]["run"] == pytest.approx(30.0, abs=1.0)


def test_jobs_are_told_in_the_order_in_which_they_ended(looks):
    """The last that began ended first."""
    first = view_of(looks.look(), FCFS)
    ends = {9001: -10, 9002: -20, 9003: -30}

    def over(jobs, now):
        return [
            x | {"job_state": "COMPLETED", "end_time": int(now + ends[x["job_id"]])} if x["job_id"] in ends else x for x in jobs
        ]

    looks.at(60.0, over)
    later = view_of(looks.look(), FCFS, first)
    stops = [int(later.ids[x["job"]]) for x in later.view.events if x["kind"] == STOPPED]
    assert stops == [9003, 9002, 9001] and {x["time"] for x in later.view.events} == {later.view.now}


def test_a_user_has_one_code_while_a_run_lasts(looks):
    """The codes of a look are in the order of the names: one that comes before all others moves them."""
    first = view_of(looks.look(), FCFS)
    looks.at(10.0, lambda jobs, now: [*jobs, job(9011, 1, 10, now, waited=5, user_name="aa"), job(9012, 1, 10, now, waited=4)])
    c = looks.look()
    later, at = view_of(c, FCFS, first), dict(zip(c.workload.columns["job"].tolist(), range(len(c.workload)), strict=True))
    code = {int(id): int(u) for id, u in zip(later.ids, later.view.jobs["user"], strict=True)}
    assert not later.is_first
    assert all(code[int(id)] == u for id, u in zip(first.ids, first.view.jobs["user"], strict=True))
    own = c.workload.jobs["user"]
    assert code[9011] not in set(first.view.jobs["user"].tolist()) and code[9012] == code[9004]
    assert own[at[9012]] == own[at[9004]] != own[at[9011]]


def without(id):
    return lambda jobs, now: [x for x in jobs if x["job_id"] != id]


def other(id, **more):
    return lambda jobs, now: [x | more if x["job_id"] == id else x for x in jobs]


WAITS_AGAIN = {"job_state": "PENDING", "nodes": "", "tres_alloc_str": "", "state_reason": "BeginTime"}


@pytest.mark.parametrize(
    "seconds, change",
    [
        (-30.0, other(9004)),
        (30.0, other(9004, time_limit=60)),
        (30.0, other(9004, cpus=8, tres_req_str="cpu=8,mem=100M,node=1")),
        (30.0, other(9004, user_name="u2")),
        (30.0, other(9003, **WAITS_AGAIN)),
    ],
    ids=["the clock is set back", "limit", "size", "user", "requeued"],
)
def test_a_run_begins_anew_where_something_happened_that_it_does_not_expect(looks, seconds, change):
    first = view_of(looks.look(), FCFS)
    looks.at(seconds, change)
    later = view_of(looks.look(), FCFS, first)
    assert later.is_first and len(later.view.events) == 0
    whole = view_of(looks.look(), FCFS)
    assert np.array_equal(later.ids, whole.ids) and later.view.table.tobytes() == whole.view.table.tobytes()


@pytest.mark.parametrize("change", [without(9004), other(9004, state_reason="JobHeldUser")], ids=["cancelled", "held"])
def test_a_run_goes_on_where_one_that_waited_is_gone(looks, change):
    """It has failed without a start, and is told as cancelled; it comes back once it may start: the run begins anew."""
    whole = (looks.folder / "squeue.json").read_text()
    first = view_of(looks.look(), FCFS)
    looks.at(30.0, change)
    later, at = view_of(looks.look(), FCFS, first), first.ids.tolist().index(9004)
    job_ = later.view.jobs[at]
    assert not later.is_first and happened(later) == {(9004, CANCELLED)} and len(later.view.ended) == 0
    assert job_["status"] == FAILED and np.isnan(job_["start"]) and job_["end"] == later.view.now and job_["ran"] == 0.0
    assert at not in later.view.queue
    looks.at(30.0)
    again = view_of(looks.look(), FCFS, later)
    assert not again.is_first and happened(again) == set()
    (looks.folder / "squeue.json").write_text(whole)
    assert view_of(looks.look(), FCFS, again).is_first


def test_a_run_goes_on_where_a_task_of_an_array_starts(looks):
    """Tasks keep their numbers: the first runs as job 9013, the array has one task less that waits; another has come before."""
    first = view_of(looks.look(), FCFS)
    running = {"state": "RUNNING", "reason": "None", "array_job_id": 9006, "array_task_id": 0}

    def change(jobs, now):
        jobs = [x for x in other(9006, array_task_string="1-2")(jobs, now) if x["job_id"] != 9003]
        new = job(9000, 1, 10, now, waited=5, array_job_id=9000, array_task_string="0-3")
        return [new, *jobs, job(9013, 1, 10, now, nodes="n4", waited=200, ran=10, **running)]

    looks.at(60.0, change)
    later = view_of(looks.look(), FCFS, first)
    tasks = [int(id) for id in first.ids if id > NEW]
    assert len(tasks) == 2 and not later.is_first
    came = {id for id, kind in happened(later) if kind == SUBMITTED}
    assert len(came) == 5 and came > {9000, 9013}
    assert happened(later) - {(id, SUBMITTED) for id in came} == {(9003, STOPPED), (9013, STARTED), (tasks[1], CANCELLED)}


def test_a_run_goes_on_where_the_clock_is_behind_slurms(looks):
    """Jobs seem to come from the future: they came when they were seen first."""
    looks.at(-1800.0)
    first = view_of(looks.look(), FCFS)
    looks.at(60.0)
    later, at = view_of(looks.look(), FCFS, first), first.ids.tolist().index(9006)
    assert not later.is_first and later.view.jobs["submit"][at] == first.view.jobs["submit"][at] == first.view.now


def test_a_run_begins_anew_on_another_machine(looks):
    first = view_of(looks.look(), FCFS)
    file = looks.folder / "scontrol_node.txt"
    file.write_text(file.read_text().replace("CPUTot=4", "CPUTot=8"))
    assert view_of(looks.look(), FCFS, first).is_first
    assert not view_of(looks.look(), FCFS, view_of(looks.look(), FCFS)).is_first


def test_a_run_begins_anew_where_its_table_has_grown(looks, monkeypatch):
    """To four times the first look's, and LONG more."""
    first = view_of(looks.look(), FCFS)
    jobs = json.loads((looks.folder / "squeue.json").read_text())["jobs"]
    n = 3 * len(first.ids) + 1
    more = [job(20_000 + k, 1, 10, looks.now, waited=5) for k in range(n)]
    (looks.folder / "squeue.json").write_text(json.dumps({"jobs": jobs + more}))
    assert not view_of(looks.look(), FCFS, first).is_first
    monkeypatch.setattr("jobwise.live.view.LONG", 0)
    assert view_of(looks.look(), FCFS, first).is_first
