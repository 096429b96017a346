"""Steering a Slurm by site factors: the order, few writes, every guard rail, faults at random points; all is given back.

Modules: cli/slurm_steer.py, live/sinks/placing.py, live/sinks/site_factors.py.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from conftest import programs
from cycles import Steering
from hypothesis import given, settings
from hypothesis import strategies as st
from test_live import cluster, job  # noqa: F401

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.sinks.placing import Placing, fits, free_all
from jobwise.live.sinks.site_factors import differing, wanted
from jobwise.live.state_folder import StateFolder, undo
from jobwise.live.steer import DRIFT_LEAST, FAILURES, Drift, SteerSettings
from jobwise.live.view import view_of
from jobwise.live.wishes import Wishes
from jobwise.policies.names import resolve
from jobwise.slurm.client import SlurmError, priorities_of

FCFS = resolve("fcfs+easy")
pytestmark = pytest.mark.xdist_group("sites")


@dataclass
class Fake:
    """A Slurm in memory: priorities, and every update that came. `broken`: the next call fails; `held`: sprio does not list them."""

    factors: dict
    own: dict
    held: set = field(default_factory=set)
    writes: list = field(default_factory=list)
    placed: list = field(default_factory=list)
    table: dict = field(default_factory=dict)
    broken: bool = False

    def priorities(self):
        if self.broken:
            raise SlurmError("sprio: no answer")
        return {i: (self.own[i] + x, x) for i, x in self.factors.items() if i not in self.held}

    def place(self, change):
        self.placed.append(dict(change))
        return ""

    def required(self):
        return self.table

    def set_site_factors(self, change):
        if self.broken:
            return "scontrol: no answer"
        self.writes.append(dict(change))
        self.factors |= {i: x for i, x in change.items() if i in self.factors}
        return ""


class Looks:
    """A reader of a folder, whose queue a test may change between two looks."""

    def __init__(self, folder, slurm):
        self.folder, self.slurm = folder, slurm

    def close(self):
        pass

    def look(self):
        if self.slurm.broken:
            raise SlurmError("squeue: no answer")
        return replace(sources.look(self.folder), factors=self.slurm.priorities())


@pytest.fixture
def site(cluster, tmp_path):  # noqa: F811
    """(folder of the cluster, its Slurm with factors that are not all 0, state folder)."""
    c = sources.look(cluster)
    slurm = Fake({i: 7 * (i % 2) for i in c.waiting}, {i: 100 + 3 * k for k, i in enumerate(c.waiting)})
    return cluster, slurm, tmp_path / "state"


def steering(site, policy="sjf", own=SteerSettings(), **more):
    folder, slurm, state = site
    chosen = resolve(policy) if isinstance(policy, str) else policy
    return Steering(slurm, chosen, state, own, Looks(folder, slurm), foresee=0, **more)


def seen(x):
    """The view, and the numbers of its jobs."""
    return x.view, x.ids


def log(site):
    return [json.loads(x) for x in (site[2] / "audit.jsonl").read_text().splitlines()]


def order(slurm):
    return sorted(slurm.factors, key=lambda i: -slurm.priorities()[i][0])


def test_a_cluster_is_a_view(cluster):  # noqa: F811
    view, ids = seen(view_of(sources.look(cluster), FCFS))
    assert view.cluster.processors == 16 and view.free.sum() == 0 and len(view.running) == 3
    assert (view.jobs["submit"] <= view.now).all() and (np.diff(view.jobs["submit"]) >= 0).all()
    assert 100 < len(view.past) < 200 and (view.past["end"] <= 0).all() and len(view.past) + (view.jobs["end"] > 0).sum() == 301
    assert set(ids[view.queue].tolist()) >= {9004, 9005, 9006}
    first = Wishes(resolve("sjf"), sources.look(cluster)).order[0]["job"]
    assert first == 9006 and Wishes(resolve("fcfs"), sources.look(cluster)).order[0]["job"] == 9004
    assert len(Wishes(resolve("jobwise"), sources.look(cluster)).order) == len(view.queue)


def test_a_policy_that_assigns_gpus_sees_them_one_by_one(cluster):  # noqa: F811
    text = (cluster / "scontrol_node.txt").read_text()
    (cluster / "scontrol_node.txt").write_text(re.sub(r"Gres=\S+", "Gres=gpu:4", text))
    jobs = json.loads((cluster / "squeue.json").read_text())["jobs"]
    asked = {9001: 4, 9002: 3, 9005: 1, 9006: 2}  # 9001 has two GPUs on each of two nodes
    wide = {9001: 2}
    for x in jobs:
        if n := asked.get(x["job_id"]):
            for key in ("tres_req_str", "tres_alloc_str"):
                x[key] = f"{x[key]},gres/gpu={n}".replace("node=1", f"node={wide.get(x['job_id'], 1)}") if x[key] else ""
    (cluster / "squeue.json").write_text(json.dumps({"jobs": jobs}))
    c, policy = sources.look(cluster), resolve("gpus:sjf+pack")
    view, ids = seen(view_of(c, policy))
    at = {int(i): k for k, i in enumerate(ids)}
    assert view.cluster.topology.machines == (4,) and view.free.sum() == 16 - 7 and len(view.running) == 2
    assert [n for n, _ in view.nodes_of(at[9001])] == [0, 1, 4, 5] and [n for n, _ in view.nodes_of(at[9002])] == [8, 9, 10]
    assert {int(ids[j]) for j in view.queue} >= {9005, 9006} and 9004 not in at  # it asks for none
    starts = Wishes(policy, c).starts
    assert starts[9006] and starts[9005] == ["n3"]  # the smallest part that holds it
    ranked = Wishes(policy, c).order
    assert {x["job"] for x in ranked if x["why"] == "starts now"} == set(starts) and ranked[0]["why"] == "starts now"
    with pytest.raises(InputError, match="moves jobs that run.*gpus:slot.none"):
        view_of(c, resolve("gpus:slot"))
    assert Wishes(resolve("gpus:slot+none"), c).starts
    (cluster / "scontrol_node.txt").write_text(re.sub(r"Gres=\S+", "Gres=(null)", text))
    with pytest.raises(InputError, match="as many each"):
        view_of(sources.look(cluster), resolve("gpus:sjf"))


def test_a_policy_that_places_sees_nodes(cluster):  # noqa: F811
    c = sources.look(cluster)
    view, ids = seen(view_of(c, resolve("sjf+easy+pack")))
    assert view.cluster.resources == ("cpus", "memory", "gpus") and view.free.shape == (4, 3) and not view.free[:, 0].any()
    at = {int(i): k for k, i in enumerate(ids)}
    assert view.nodes_of(at[9001]) == [(0, (4, 0, 0)), (1, (4, 0, 0))] and view.nodes_of(at[9002]) == [(2, (4, 0, 0))]
    assert (view.jobs["held"][view.queue] == -1).all() and (view.jobs["chunks"][view.queue] == 1).all()
    assert Wishes(resolve("sjf+easy+pack"), c).starts == {}
    ranked = [x["job"] for x in Wishes(resolve("sjf+pack"), c).order]
    assert ranked == [x["job"] for x in Wishes(resolve("sjf"), c).order]
    assert [x["job"] for x in Wishes(resolve("sjf+learned"), c).order] == ranked
    jobs = [x for x in json.loads((cluster / "squeue.json").read_text())["jobs"] if x["job_id"] != 9002]
    (cluster / "squeue.json").write_text(json.dumps({"jobs": jobs}))
    starts = Wishes(resolve("sjf+easy+pack"), sources.look(cluster)).starts
    assert starts and set(map(tuple, starts.values())) == {("n3",)} and 9004 not in starts
    text = (cluster / "scontrol_node.txt").read_text()
    (cluster / "scontrol_node.txt").write_text(text.replace("State=IDLE", "State=IDLE+DRAIN"))
    c = sources.look(cluster)
    assert c.down == {"n1", "n2", "n3", "n4"} and Wishes(resolve("sjf+easy+pack"), c).starts == {}
    assert view_of(c, FCFS).view.free.sum() == 0 and Wishes(resolve("sjf+easy"), c).starts == {}
    (cluster / "scontrol_node.txt").write_text(text.replace("State=IDLE", "State=MIXED+DRAIN", 1))
    assert view_of(sources.look(cluster), FCFS).view.free.tolist() == [[4]]  # of a full node nothing more is lost
    (cluster / "scontrol_node.txt").write_text(text.replace("State=IDLE", "State=IDLE+CLOUD+POWERED_DOWN"))
    c = sources.look(cluster)
    assert not c.down and view_of(c, FCFS).view.free.tolist() == [[4]]  # they are started when they are needed


def fixed(folder, *ids, line="sbatch -N 1 -n 4 job.sh"):
    """Accounting knows with which lines these waiting jobs were submitted: for a fixed number of nodes."""
    rows = (folder / "sacct.txt").read_text().splitlines()
    head, last = rows[0].split("|"), rows[-1].split("|")
    for id in ids:
        own = dict(zip(head, last, strict=True)) | {"JobIDRaw": str(id), "State": "PENDING", "SubmitLine": line}
        rows.append("|".join(own[k] for k in head))
    (folder / "sacct.txt").write_text("\n".join(rows) + "\n")


@pytest.fixture
def placed(site):
    """(a function that changes what squeue shows, the site): two jobs of one node each, one of them of any shape; n4 is free."""
    folder, slurm, _ = site
    there = json.loads((folder / "squeue.json").read_text())["jobs"]
    fixed(folder, 9005)

    def seen(*gone, **more):
        jobs = [x | more.get(f"j{x['job_id']}", {}) for x in there if x["job_id"] not in (9006, *gone)]
        (folder / "squeue.json").write_text(json.dumps({"jobs": jobs}))
        slurm.table = {x["job_id"]: (x["job_state"], x.get("required_nodes", "")) for x in jobs}

    seen()
    return seen, site


PLACE = SteerSettings(span=1000, place=True)


def test_jobs_get_the_nodes_that_a_policy_wants_and_are_free_again(placed):
    seen, site = placed
    _, slurm, state = site
    has = {"required_nodes": "n4"}
    with steering(site, "sjf+easy+pack", PLACE) as s:
        s.cycle()
        assert not slurm.placed and s.state.placed == {}
        seen(9003)
        s.cycle()
        assert slurm.placed == [{9005: ["n4"]}] and json.loads((state / "placed.json").read_text()) == {"9005": "n4"}
        seen(9003, j9005=has)
        s.cycle()
        assert len(slurm.placed) == 1  # it has them
        seen(j9005=has)
        s.cycle()  # somebody else was faster
        assert slurm.placed[1:] == [{9005: []}] and s.state.placed == {9005: "n4"}  # until a look shows that it has none
        seen()
        s.cycle()
        assert len(slurm.placed) == 2 and s.state.placed == {}
        seen(9003, j9005=has)
        s.cycle()  # its user wants this node now
        assert len(slurm.placed) == 2 and s.state.placed == {}
        seen(9003)
        s.cycle()
        seen(9003, j9005=has | {"state_reason": "BadConstraints"})
        s.cycle()  # Slurm will not have it there
        assert slurm.placed[2:] == [{9005: ["n4"]}, {9005: []}]
        seen(9003, j9005=has)
        s.cycle()
        running = has | {"job_state": "RUNNING", "nodes": "n4", "tres_alloc_str": "cpu=4,mem=100M,node=1"}
        seen(9003, j9005=running)
        s.cycle()
        assert s.state.placed == {9005: "n4"}  # it may be put back into the queue
        seen(9003, j9005=has | {"state_reason": "Resources"})
        slurm.table[9005] = ("PENDING", "n4")
    assert slurm.placed[-1] == {9005: []} and s.state.placed == {9005: "n4"}  # squeue still shows it
    slurm.table[9005] = ("PENDING", "")
    kept = StateFolder(state)
    assert free_all(slurm, kept, "asked for") == 0 and kept.placed == {}
    kept.close()
    lines = [x for x in log(site) if x["what"] == "place"]
    assert len(lines) == len(slurm.placed) and all(x["why"] for x in lines)


def test_jobs_of_any_shape_are_not_placed(placed):
    """A list of fewer nodes than a job has just got would take the others away; arrays, several partitions, nodes of their own."""
    seen, site = placed
    folder, slurm, _ = site
    for more in ({"array_job_id": 9005}, {"het_job_id": 9005}, {"excluded_nodes": "n1"}, {"partition": "batch,batch"}):
        seen(9003, j9005=more)
        with steering(site, "sjf+easy+pack", PLACE) as s:
            s.cycle()
        assert not slurm.placed, more
    text = (folder / "sacct.txt").read_text()
    (folder / "sacct.txt").write_text(text.replace("sbatch -N 1 -n 4", "sbatch -n 4"))
    seen(9003)
    with steering(site, "sjf+easy+pack", PLACE) as s:
        s.cycle()
    assert not slurm.placed
    (folder / "sacct.txt").write_text(text)
    part = "PartitionName=batch\n   MaxTime=UNLIMITED State=UP\n   Nodes=n[1-3]\n"
    (folder / "scontrol_partition.txt").write_text(part)
    with steering(site, "sjf+easy+pack", PLACE) as s:
        s.cycle()
    assert not slurm.placed  # n4 is of no partition


def test_nodes_named_by_a_process_that_was_killed(placed):
    seen, site = placed
    _, slurm, state = site
    seen(9003)
    s = steering(site, "sjf+easy+pack", PLACE)
    s.cycle()
    s.state.close()  # kill -9
    seen(9003, j9005={"required_nodes": "n4"})
    with steering(site, "sjf", SteerSettings(span=1000)) as s:
        assert slurm.placed[-1] == {9005: []}
    seen(9003)
    with steering(site, "sjf+easy+pack", SteerSettings(span=1000, place=True, dry=True)) as s:
        s.cycle()
        s.cycle()
    assert [x["nodes"] for x in log(site) if x["what"] == "would place"] == ["n4"] and len(slurm.placed) == 3
    assert len([x for x in log(site) if x["what"] == "would"]) == 1  # said once, in two cycles
    (state / "placed.json").write_text("[")
    with pytest.raises(InputError, match="the nodes that jobs were given"):
        StateFolder(state)


def test_a_promise_outlives_the_jobs_that_it_was_made_behind(cluster):  # noqa: F811
    """A job came behind one that held the whole machine for five hours and has ended: its bound is that wait, not ten minutes."""
    now = float((cluster / "now.txt").read_text())
    (cluster / "sacct.txt").unlink()
    first = job(9100, 16, 600, now, "COMPLETED", nodes="n[1-4]", ran=5 * 3600 + 1800, waited=0, end_time=int(now - 1800))
    jobs = [first, job(9101, 16, 60, now, waited=5.4 * 3600), job(9102, 1, 10, now, waited=60)]
    (cluster / "squeue.json").write_text(json.dumps({"jobs": jobs}))
    ranked = {x["job"]: x["why"] for x in Wishes(resolve("sjf+easy+promise1.2x"), sources.look(cluster)).order}
    due = float(re.search(r"must start in (-?[\d.]+) h", ranked[9101])[1])
    assert due == pytest.approx(1.2 * 4.9 - 5.4, abs=0.2)


def test_the_policy_decides_the_order_and_all_is_given_back(site):
    before = dict(site[1].factors)
    with steering(site) as s:
        assert s.cycle().changed == 3
        assert order(site[1]) == [9006, 9005, 9004]
        assert s.cycle().changed == 0 and len(site[1].writes) == 1
    assert site[1].factors == before
    lines = log(site)
    writes = [x for x in lines if x["what"] == "write"]
    assert len(writes) == 6 and all(x["why"] for x in writes) and "rank 1 of" in writes[0]["why"]
    assert json.loads((site[2] / "before.json").read_text()) == {}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_few_factors_are_written_and_the_order_holds(seed):
    """Jobs come and go: after each write the order is the policy's, also as priorities of their own move a little."""
    rng = random.Random(seed)
    own = {i: rng.randrange(1000) for i in range(200)}
    factors, order_, count = dict.fromkeys(range(40), 0), list(range(40)), []
    rng.shuffle(order_)
    for new in range(40, 60):
        table = {i: (own[i] + x, x) for i, x in factors.items()}
        change = differing(wanted(order_, 0, table), table, 0)
        factors |= change
        count.append(len(change))
        got = sorted(factors, key=lambda i: -(own[i] + factors[i]))
        assert got == order_ and all(0 <= x < 2**31 for x in factors.values())
        gone = order_.pop(rng.randrange(len(order_)))
        del factors[gone]
        order_.insert(rng.randrange(len(order_) + 1), new)
        factors[new] = 0
    assert np.mean(count[1:]) < 12


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 50), st.integers(0, 10**6))
def test_within_a_span_no_factor_is_beyond_it(span, jobs, seed):
    rng = random.Random(seed)
    table = {i: (rng.randrange(1000), rng.choice([0, -5, 10**7])) for i in range(jobs)}
    goal = wanted(list(range(jobs)), span, table)
    change = differing(goal, table, span)
    after = {i: change.get(i, x[1]) for i, x in table.items()}
    assert all(0 <= x <= span for x in after.values())
    assert all(abs(after[i] - goal[i]) <= max(round(0.05 * span), 1) for i in goal)


def test_starved_jobs_go_first(site):
    with steering(site, own=SteerSettings(starve=600.0)) as s:
        s.cycle()
        assert order(site[1])[0] == 9004  # it has waited for 900 s
    assert any(x.get("why", "").startswith("starved: waited 0.2 h") for x in log(site))


def test_of_starved_jobs_the_oldest_is_first(site):
    """9004 has waited for 900 s, 9005 for 300, 9006 for 200; sjf would start 9006 first, then 9005."""
    with steering(site, own=SteerSettings(starve=250.0)) as s:
        s.cycle()
        assert s.order[:2] == [9004, 9005] and order(site[1]) == [9004, 9005, 9006]
    with steering(site, own=SteerSettings(starve=1e6)) as s:
        s.cycle()
        assert order(site[1]) == [9006, 9005, 9004]


def test_a_policy_that_is_slow_counts_as_one_that_fails(placed, monkeypatch):
    """Its order is not taken, nothing is placed by it, and after FAILURES cycles all is given back."""
    seen, site = placed
    seen(9003)
    before = dict(site[1].factors)
    with steering(site, "sjf+easy+pack", PLACE) as s:
        monkeypatch.setattr("jobwise.live.steer.SLOW_S", -1.0)
        for k in range(FAILURES):
            x = s.cycle()
            assert x.problem.startswith("the policy took") and s.order == [] and not site[1].placed
            assert x.off == (k == FAILURES - 1)
    assert site[1].factors == before
    monkeypatch.setattr("jobwise.live.steer.SLOW_S", 30.0)
    with steering(site, "sjf+easy+pack", PLACE) as s:
        assert s.cycle().problem == "" and site[1].placed == [{9005: ["n4"]}]


def test_what_is_kept_of_a_job_goes_with_it(placed):
    seen, site = placed
    with steering(site, "sjf", SteerSettings(span=1000)) as s:
        s.cycle()
        known = set(s.state.before)
        gone = min(known)
        assert str(gone) in json.loads((site[2] / "before.json").read_text())
        seen(gone)
        site[1].factors.pop(gone)
        s.cycle()
        assert gone not in s.state.before
        assert str(gone) not in json.loads((site[2] / "before.json").read_text())


@pytest.mark.parametrize("late, alarming", [(32, False), (36, False), (37, True), (50, True)])
def test_drift_is_told_from_chance_once_in_a_thousand(late, alarming):
    """Of 50 starts so many are late; by chance 32 or more are in 3.2 %, 36 or more in 0.13 %, 37 or more in 0.05 % of cases."""
    d = Drift()
    for i in range(50):
        d.foreseen[i] = 1000.0
        d.started(i, 1061.0 if i < late else 1060.0)
    assert len(d.late) == 50 == DRIFT_LEAST and sum(d.late) == late and d.alarming == alarming


def test_jobs_that_may_not_be_placed(placed):
    """One whose nodes Slurm has called bad, and one of a reservation: neither is named nodes, whatever the policy says."""
    seen, site = placed
    folder, slurm, state = site
    seen(9003)
    c = sources.look(folder)
    kept = StateFolder(state)
    try:
        p, n4 = Placing(slurm, kept), {9005: ["n4"]}
        bad = replace(c, waiting=c.waiting | {9005: replace(c.waiting[9005], reason="BadConstraints")})
        assert p.cycle(bad, n4, "why") == 0 and not slurm.placed and kept.placed == {}
        at, site_ = c.row(9005), c.workload.cluster.known_site
        asks = site_.asks.copy()
        asks["reservation"][c.workload.jobs["ask"][at]] = 1
        held = replace(c.workload, cluster=replace(c.workload.cluster, site=replace(site_, asks=asks)))
        assert fits(c, c.waiting[9005], ["n4"]) and not fits(replace(c, workload=held), c.waiting[9005], ["n4"])
        assert p.cycle(c, n4, "why") == 1 and slurm.placed == [n4]
    finally:
        kept.close()


def test_nodes_of_jobs_that_run_are_left_alone(tmp_path):
    """Of two jobs that were named nodes one runs by now: its list of nodes is where it is."""
    slurm = Fake({}, {}, table={1: ("RUNNING", "n1"), 2: ("PENDING", "n2"), 3: ("PENDING", "")})
    kept = StateFolder(tmp_path)
    kept.keep_placed({1: "n1", 2: "n2", 3: "n3", 4: "n4"})
    assert free_all(slurm, kept, "why") == 1 and slurm.placed == [{2: []}]
    assert kept.placed == {1: "n1", 2: "n2"}  # squeue shows 2 with its nodes still; 3 has none, 4 is gone
    kept.close()


def test_running_jobs_end_by_their_start_in_a_view(cluster):  # noqa: F811
    """9001 runs since 3,000 s with a limit of 600 min, 9003 since 60 s with one of 30 min; both waited before."""
    c = sources.look(cluster)
    view, ids = seen(view_of(c, FCFS))
    at = {int(i): k for k, i in enumerate(ids)}
    for id, ran, limit in ((9001, 3000, 36_000), (9002, 100, 36_000), (9003, 60, 1800)):
        assert view.jobs["due"][at[id]] - view.now == pytest.approx(limit - ran, abs=1.0), id
        assert view.jobs["submit"][at[id]] < view.jobs["start"][at[id]]


def test_a_view_begins_before_all_that_waits(cluster):  # noqa: F811
    """A job that has waited for longer than most of the history is in the table, and so is all that came after it."""
    jobs = json.loads((cluster / "squeue.json").read_text())["jobs"]
    rows = (cluster / "sacct.txt").read_text().splitlines()
    submit = sorted(int(r.split("|")[7]) for r in rows[1:])
    old = submit[len(submit) // 4]
    for x in jobs:
        if x["job_id"] == 9004:
            x["submit_time"] = x["eligible_time"] = old
    (cluster / "squeue.json").write_text(json.dumps({"jobs": jobs}))
    c = sources.look(cluster)
    view, ids = seen(view_of(c, FCFS))
    assert view.origin == old and view.jobs["submit"][list(ids).index(9004)] == 0
    assert (view.jobs["submit"] >= 0).sum() == int((c.workload.jobs["submit"] + c.workload.origin >= old).sum())


def test_of_the_past_the_last_is_remembered(cluster, monkeypatch):  # noqa: F811
    whole = view_of(sources.look(cluster), FCFS).view.past
    monkeypatch.setattr("jobwise.live.view.PAST", 10)
    last = view_of(sources.look(cluster), FCFS).view.past
    assert len(last) == 10 < len(whole) and np.array_equal(last, whole[-10:]) and (np.diff(last["end"]) >= 0).all()


def test_of_the_past_run_times_are_known_without_the_waits(cluster):  # noqa: F811
    c = sources.look(cluster)
    past, jobs = view_of(c, FCFS).view.past, c.workload.jobs
    over = jobs[~np.isnan(jobs["end"])]
    ran = {(round(x["end"] - x["submit"], 3), round(x["end"] - x["start"], 3)) for x in over}
    assert {(round(x["end"] - x["submit"], 3), round(float(x["runtime"]), 3)) for x in past} <= ran
    assert (past["runtime"] < past["end"] - past["submit"] - 1.0).any()  # some have waited


def test_gpus_of_nodes_that_are_down_are_not_free(cluster):  # noqa: F811
    text = re.sub(r"Gres=\S+", "Gres=gpu:2", (cluster / "scontrol_node.txt").read_text()).splitlines()
    text[3] = text[3].replace("State=IDLE", "State=DOWN")
    (cluster / "scontrol_node.txt").write_text("\n".join(text) + "\n")
    view, _ = seen(view_of(sources.look(cluster), resolve("gpus:sjf+pack")))
    assert view.free.ravel().tolist() == [1, 1, 1, 1, 1, 1, 0, 0]  # n4's are the last two
    assert not any("n4" in x for x in Wishes(resolve("gpus:sjf+pack"), sources.look(cluster)).starts.values())


def test_no_more_jobs_are_changed_in_a_cycle_than_allowed(site):
    with steering(site, own=SteerSettings(most=1)) as s:
        assert [s.cycle().changed for _ in range(2)] == [1, 1]
        assert all(len(x) == 1 for x in site[1].writes)


def test_dry_runs_write_nothing(site):
    before = dict(site[1].factors)
    with steering(site, own=SteerSettings(dry=True)) as s:
        assert s.cycle().changed == 3 and site[1].writes == [] and site[1].factors == before
    assert [x["what"] for x in log(site)].count("would") == 3


def test_dry_runs_leave_what_a_killed_process_has_left(site):
    s = steering(site)
    s.cycle()
    s.state.close()  # killed
    left = dict(site[1].factors)
    with steering(site, own=SteerSettings(dry=True)) as s:
        s.cycle()
    assert site[1].factors == left and json.loads((site[2] / "before.json").read_text())


def test_jobs_that_are_held_or_put_back_into_the_queue_are_given_back_too(site):
    """sprio lists neither those that are held nor those that run."""
    folder, slurm, state = site
    before = dict(slurm.factors)
    whole = (folder / "squeue.json").read_text()
    with steering(site) as s:
        s.cycle()
        jobs = json.loads(whole)["jobs"]
        for x in jobs:
            if x["job_id"] == 9004:
                x |= {"state_reason": "JobHeldUser"}
            if x["job_id"] == 9005:  # it runs for a while, in the place of another
                x |= {"job_state": "RUNNING", "start_time": x["start_time"] - 3600, "nodes": "n4", "tres_alloc_str": "cpu=4"}
        (folder / "squeue.json").write_text(json.dumps({"jobs": [x for x in jobs if x["job_id"] != 9003]}))
        slurm.held = {9004, 9005}
        s.cycle()
        assert set(s.state.before) >= {9004, 9005}
        (folder / "squeue.json").write_text(whole)
        slurm.held = {9004}
        s.cycle()
    slurm.held = set()
    assert slurm.factors == before


def test_where_many_wait_nothing_is_foreseen(site, monkeypatch):
    monkeypatch.setattr("jobwise.live.steer.MOST_FORESEEN", 2)
    folder, slurm, state = site
    with Steering(slurm, resolve("sjf"), state, SteerSettings(), Looks(folder, slurm)) as s:
        s.cycle()
        assert s.drift.foreseen == {}
    assert any("nothing is foreseen" in x.get("problem", "") for x in log(site))


class Wrong:
    """A policy that is wrong in one of several ways; `good` cycles at first."""

    name = "wrong"

    def __init__(self, how, good=1):
        self.how, self.left = how, good

    def begin(self, view):
        return self

    def reset(self, view):
        pass

    decide = ended = reset

    def explain(self, view):
        rows = [{"job": int(j), "score": float(-i)} for i, j in enumerate(view.queue)]
        self.left -= 1
        if self.left >= 0:
            return rows
        if self.how == "raises":
            raise ZeroDivisionError("oh")
        if self.how == "nan":
            return [x | {"score": float("nan")} for x in rows]
        return rows[:1] if self.how == "short" else rows + rows if self.how == "twice" else None


@pytest.mark.parametrize("how", ["raises", "nan", "short", "twice", "none"])
def test_a_policy_that_fails_keeps_the_last_good_order_then_all_is_given_back(site, how):
    before = dict(site[1].factors)
    with steering(site, Wrong(how)) as s:
        s.cycle()
        good = order(site[1])
        for k in range(FAILURES):
            x = s.cycle()
            assert "the policy failed" in x.problem
            if k < FAILURES - 1:
                assert order(site[1]) == good and not x.off
        assert x.off and site[1].factors == before


def test_drift_gives_all_back(site):
    d = Drift()
    for i in range(2 * DRIFT_LEAST):
        d.foreseen[i] = 1000.0
        d.started(i, 1030.0 if i % 2 else 500.0)
    assert not d.alarming
    d = Drift()
    for i in range(2 * DRIFT_LEAST):
        d.foreseen[i] = 1000.0
        d.started(i, 9000.0 if i % 3 else 500.0)
    assert d.alarming
    before = dict(site[1].factors)
    with steering(site) as s:
        s.cycle()
        s.drift = d
        assert s.cycle().off and site[1].factors == before
    assert any("drift" in x.get("why", "") for x in log(site))


def test_drift_foresees_slurm_alone(site):
    folder, slurm, state = site
    with Steering(slurm, resolve("sjf"), state, SteerSettings(), Looks(folder, slurm)) as s:
        s.cycle()
        assert set(s.drift.foreseen) == {9004, 9005, 9006}
        c = sources.look(folder)
        assert all(x >= c.now + c.workload.origin - 1 for x in s.drift.foreseen.values())


def test_one_process_a_cluster_and_a_new_one_goes_on(site):
    folder, slurm, state = site
    before = dict(slurm.factors)
    s = steering(site)
    s.cycle()
    with pytest.raises(InputError, match="another process steers"):
        StateFolder(state)
    s.state.close()  # killed: nothing was given back
    assert slurm.factors != before
    with steering(site, "fcfs") as s:
        s.cycle()
        assert order(slurm)[0] == 9004
    assert slurm.factors == before
    (state / "before.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match="is damaged"):
        steering(site)


def test_undo_alone(site):
    folder, slurm, state = site
    before = dict(slurm.factors)
    s = steering(site)
    s.cycle()
    s.state.close()
    kept = StateFolder(state)
    assert undo(slurm, kept, "asked for") == 3 and slurm.factors == before and undo(slurm, kept, "again") == 0
    kept.close()


def test_priorities_of_what_sprio_prints():
    text = "12|340|7\n 13 | 5 | -20\n477_[0-3]|9|0\nYou are not running a supported priority plugin\n14|x|0\n|||\n"
    assert priorities_of(text) == {12: (340, 7), 13: (5, -20), 477: (9, 0)}


@pytest.mark.parametrize("seed", range(4))
def test_faults_at_random_points(site, seed):
    """Slurm does not answer, processes are killed, the policy fails, jobs start: in the end every factor is what it was, and
    every write has a line with a reason that was there before."""
    folder, slurm, state = site
    rng = random.Random(seed)
    before, s = dict(slurm.factors), None
    policies = [resolve("sjf"), resolve("fcfs"), resolve("ljf")]
    for _ in range(50):
        slurm.broken = False
        if s is None:
            s = Steering(
                slurm, rng.choice(policies), state, SteerSettings(rng.choice([0, 500])), Looks(folder, slurm), foresee=0
            )
        fault = rng.choice(["none", "silent", "killed", "policy", "half"])
        if fault == "policy":
            s.turns.policy = Wrong(rng.choice(["raises", "nan", "short"]), 0)
        elif fault == "silent":
            slurm.broken = True
        elif fault == "half":  # killed behind the log, before Slurm is told
            real, slurm.set_site_factors = slurm.set_site_factors, lambda change: 1 / 0
            with contextlib.suppress(ZeroDivisionError):
                s.cycle()
            slurm.set_site_factors = real
            fault = "killed"
        if fault != "killed":
            try:
                s.cycle()
            except SlurmError:
                assert slurm.broken
        if fault in ("killed", "policy"):
            s.state.close()
            s = None
    slurm.broken = False
    kept = s.state if s else StateFolder(state)
    undo(slurm, kept, "the end")
    kept.close()
    assert slurm.factors == before
    noted = [(x["job"], x["new"]) for x in log(site) if x["what"] == "write" and x["why"]]
    for write in slurm.writes:
        assert all((i, x) in noted for i, x in write.items())


def test_the_command_without_slurm(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert run(["slurm", "steer", "--state", str(tmp_path / "s"), "--cycles", "1"]) == 2
    assert "there is no Slurm here" in capsys.readouterr().err


@pytest.mark.slurm
def test_the_command_on_small_programs_in_place_of_slurm(tmp_path, capsys, monkeypatch, cluster):  # noqa: F811
    updates = tmp_path / "updates"
    told = {"scontrol": f'[ -z "$1" ] && cat >> {updates}', "sprio": "printf '9004|10|0\\n9005|10|0\\n9006|10|0\\n'"}
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", cluster, **told))
    state = str(tmp_path / "state")
    whole = (cluster / "squeue.json").read_text()
    for wrong in ('{"jobs": []}', whole[:500], "", "[" * 100_000):  # nobody yet; cut; nothing; nested
        (cluster / "squeue.json").write_text(wrong)
        (cluster / "sacct.txt").rename(cluster / "kept")
        assert run(["slurm", "steer", "--state", state, "-p", "sjf", "--cycles", "2", "--every", "0s"]) == 0
        assert "trying again" in capsys.readouterr().err and not updates.exists()
        (cluster / "kept").rename(cluster / "sacct.txt")
    (cluster / "squeue.json").write_text(whole)
    assert run(["slurm", "steer", "--state", state, "-p", "sjf", "--cycles", "1", "--span", "100", "--every", "1s"]) == 0
    assert "3 wait, changed 2" in capsys.readouterr().out
    assert updates.read_text().splitlines()[:2] == ["update JobId=9006 SiteFactor=100", "update JobId=9005 SiteFactor=50"]
    assert run(["slurm", "steer", "--state", state, "-p", "sjf", "--dry-run", "--cycles", "1"]) == 0
    (tmp_path / "state" / "stop").touch()
    assert run(["slurm", "steer", "--state", state, "--every", "1s"]) == 2
    assert "stop: asks to stop steering; remove it" in capsys.readouterr().err
    assert run(["slurm", "steer", "--state", state, "--undo"]) == 0


@pytest.mark.slurm
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_and_all_is_given_back(tmp_path, monkeypatch, cluster, number):  # noqa: F811
    updates = tmp_path / "updates"
    told = {"scontrol": f'[ -z "$1" ] && cat >> {updates}', "sprio": "printf '9004|10|0\\n9005|10|0\\n9006|10|0\\n'"}
    path = programs(tmp_path / "bin", cluster, **told)
    words = ["slurm", "steer", "--state", str(tmp_path / "state"), "-p", "sjf", "--span", "100", "--every", "1s"]
    own = os.environ | {"PATH": path}
    command = [sys.executable, "-m", "jobwise.cli", *words]
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}  # a shell's background job does not hear it
    with subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **heard) as p:
        assert "changed 2" in p.stdout.readline()
        p.send_signal(number)
        _, err = p.communicate(timeout=60)
    assert p.returncode == 130 and err.strip().split("\n")[-1].endswith("have the site factors that they had before")
    kept = json.loads((tmp_path / "state" / "before.json").read_text())
    lines = [json.loads(x) for x in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
    assert kept == {} or any("undo" in x.get("why", "") for x in lines)


def test_a_full_disk_stops_writing_and_all_is_given_back(site, monkeypatch):
    """What cannot be logged is not done, but undoing is; no half line stays in the log."""
    real, before, full = os.fsync, dict(site[1].factors), []

    def fsync(handle):
        if full:
            raise OSError(28, "No space left on device")
        return real(handle)

    with steering(site) as s:
        monkeypatch.setattr("jobwise.live.state_folder.os.fsync", fsync)
        size = s.state.audit.stat().st_size
        full.append(1)
        with pytest.raises(InputError, match="before.json: cannot be written"):
            s.cycle()
        s.state.before |= site[1].factors  # as if it had been kept in time
        x = s.cycle()
        assert x.changed == 0 and "cannot be written" in x.problem and site[1].writes == []
        assert s.state.audit.stat().st_size == size
        full.clear()
        assert s.cycle().changed > 0
        full.append(1)
        with pytest.raises(InputError, match="before.json"):
            s.undo()
        assert site[1].factors == before
        full.clear()
    assert site[1].factors == before
    assert all(json.loads(x) for x in s.state.audit.read_text().splitlines())


@pytest.mark.slurm
def test_nothing_of_this_is_imported_by_the_package():
    code = "import sys, jobwise; print([m for m in sys.modules if m.startswith('jobwise.slurm')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_what_was_foreseen_of_a_job_stays(site):
    """Its start under Slurm alone is foreseen once, when it comes: later the queue is a steered one."""
    folder, slurm, state = site
    with Steering(slurm, resolve("sjf"), state, SteerSettings(), Looks(folder, slurm), foresee=1e-9) as s:
        s.drift.foreseen = {9004: 123.0, 9005: 456.0}
        s.cycle()
        assert s.drift.foreseen[9004] == 123.0 and s.drift.foreseen[9005] == 456.0 and s.drift.foreseen[9006] > 1e9


@pytest.mark.parametrize("name", ["jobwise", "saf+easy", "sjf+easy+pack", "sjf+learned", "zoo:sdsc-sp2"])
def test_one_run_answers_what_two_would(cluster, name):  # noqa: F811
    """Its order and its starts are those of runs that are asked one thing each."""
    c, policy = sources.look(cluster), resolve(name)
    both = Wishes(policy, c)
    try:
        order = Wishes(policy, c).order
    except InputError:  # a network looks at a part of the queue
        order = None
    starts = Wishes(policy, c).starts
    if order is not None:
        assert both.order == order
    assert both.starts == starts
