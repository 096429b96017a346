"""Workflows on resource managers: Slurm's two dialects, the simulated manager, ledgers, kills, the real Slurm where there is one.

Modules: cli/mars.py, slurm/client.py, workflows/follow.py, workflows/machine.py, workflows/simulated.py,
workflows/task.py.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import programs, real_slurm
from test_engines import written
from test_workflows import FOLDER, need, random_flow

import jobwise as jw
from benchmarks.word_count import total
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.slurm.client import Node, Refused, Slurm, SlurmError, SlurmJob, jobs_of, nodes_of
from jobwise.workflows.follow import Following
from jobwise.workflows.simulated import Simulated
from jobwise.workflows.task import script
from jobwise.workloads.streams import stream


@pytest.mark.parametrize("name", ["squeue.json", "squeue_2411.json"])
def test_both_dialects_of_slurm(samples, name):
    text = (samples / name).read_text()
    jobs, told = jobs_of(text), json.loads(text)["jobs"]
    assert [j.id for j in jobs] == [x["job_id"] for x in told] and all(j.state.isupper() and j.cores >= 1 for j in jobs)
    assert all(j.submit > 1e9 for j in jobs) and any(j.state == "RUNNING" and j.start > 1e9 for j in jobs)
    for wrong in ("", "{}", "[1]", "nonsense"):
        with pytest.raises(SlurmError, match="no JSON"):
            jobs_of(wrong)


def workload(seed=1, count=25):
    return stream([random_flow(np.random.default_rng(seed), count)], cluster=8, name="random")


def manager(w, fails=lambda name: 0):
    return Simulated(8, lambda name: float(w.truth["runtime"][int(name.split(".")[1])]), fails)


def followed(w, manager, folder, policy=None, **more):
    """The summary, and the tasks, of a run to its end."""
    with Following(w, manager, folder, lambda i: ["true"], policy and jw.resolve(policy), **more) as f:
        f.follow()
        return f.summary(), f.tasks


@pytest.mark.parametrize("policy", [None, "rank", "flow-work"])
def test_every_task_is_done_once_and_no_edge_is_broken(tmp_path, policy):
    w = workload()
    told, _ = followed(w, manager(w), tmp_path, policy, ahead=0.0)
    assert (told["done"], told["submitted"], told["edges_not_kept"], told["failed"]) == (25, 25, 0, 0)
    assert told["work"] == pytest.approx((w.truth["runtime"] * w.jobs["request"][:, 0]).sum())
    if policy:  # the policy decides: as in a simulation whose jobs start at once
        assert told["makespan"] == pytest.approx(jw.simulate(w, policy).jobs["end"].max(), rel=0.15)


@pytest.mark.parametrize("policy", [None, "rank"])
def test_failed_tasks_are_tried_again_and_then_given_up(tmp_path, policy):
    w = workload(2)

    def fifth(name):
        return name.endswith(".1") and int(name.split(".")[1]) % 5 == 0

    told, _ = followed(w, manager(w, fifth), tmp_path / "once", policy)
    assert told["done"] == 25 and told["submitted"] >= 30
    child = int(w.edges[0, 1])
    parents = {int(a) for a, b in w.edges if b == child}
    told, tasks = followed(w, manager(w, lambda n: int(n.split(".")[1]) in parents), tmp_path / "never", policy, retries=2)
    assert tasks[child].state == "" and told["never_run"] >= 1 and 1 <= told["failed"] <= len(parents)
    assert (
        all(t.failures == 3 for t in tasks if t.state == "failed") and told["done"] + told["failed"] + told["never_run"] == 25
    )


def test_a_folder_is_for_one_run_at_a_time_and_for_one_workload(tmp_path):
    w = workload()
    with Following(w, manager(w), tmp_path, lambda i: ["true"]), pytest.raises(InputError, match="another run"):
        Following(w, manager(w), tmp_path, lambda i: ["true"])
    other = workload(3, 10)
    with pytest.raises(InputError, match="other workflows"):
        Following(other, manager(other), tmp_path, lambda i: ["true"])
    with pytest.raises(InputError, match="cores"):
        Following(w, Simulated(1, lambda n: 1.0), tmp_path / "small", lambda i: ["true"])


def test_a_cut_ledger_goes_on_at_every_byte(tmp_path):
    """Whatever of the ledger reached the disk: nothing is submitted twice that the manager still knows."""
    w = workload(4, 12)
    m = manager(w)
    with Following(w, m, tmp_path / "whole", lambda i: ["true"], jw.resolve("rank")) as f:
        f.step()
        m.wait(2)
        f.step()
    data = (tmp_path / "whole" / "ledger.jsonl").read_bytes()
    first = data.index(b"\n") + 1
    for cut in range(first, len(data), 7):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        (folder / "ledger.jsonl").write_bytes(data[:cut])
        again = Simulated(8, m.seconds, m.fails, time=m.time, table=dict(m.table), after=dict(m.after))
        told, _ = followed(w, again, folder, "rank")
        assert told["done"] == 12 and told["edges_not_kept"] == 0
        names = [j.name for j in again.jobs()]
        known = {json.loads(x)["task"] for x in data[:cut].splitlines()[1:] if x.endswith(b"}")}
        assert all(sum(n.split(".")[1] == str(i) for n in names) == 1 for i in known)


def _last_submit(folder):
    """Of the journal of the simulator, where it took a job and then waited, and a half line follows; else none."""
    last, wait, _ = (folder / "simulator.jsonl").read_text().splitlines()[-3:]
    return json.loads(last).get("submit") if "wait" in json.loads(wait) else None


def _forget(folder, job):
    """The kill was after the ledger had the line and before the simulator had it."""
    lines = (folder / "simulator.jsonl").read_text().splitlines(keepends=True)
    (folder / "simulator.jsonl").write_text("".join(lines[:-3]))
    told = (folder / "ledger.jsonl").read_text().splitlines(keepends=True)
    assert '"id"' in told[-1] and f".{json.loads(told[-1])['task']}." in job["name"]
    (folder / "ledger.jsonl").write_text("".join(told[:-1]))


@pytest.mark.parametrize("policy", [None, "rank", "fcfs"])
def test_a_simulation_goes_on_where_a_kill_left_it(tmp_path, policy):
    """Wherever it is killed: the same starts and ends as without, to the bit."""
    w = workload(4, 24)

    def steps(folder, at_most):
        """Follow for so many steps, then lose all that is in memory; the starts and ends of the tasks, and is it over?"""
        m = Simulated(8, manager(w).seconds, journal=folder / "simulator.jsonl")
        chosen = jw.resolve(policy) if policy else None
        with Following(w, m, folder, lambda i: ["true"], chosen) as f:
            more = True
            while more and (at_most := at_most - 1) >= 0:
                if more := f.step():
                    m.wait(1.0)
            return [(t.start, t.end) for t in f.tasks], not more, f.summary()

    whole, _, told = steps(tmp_path / "whole", 10_000)
    assert told["done"] == 24 and told["edges_not_kept"] == 0
    for at_once in (1, 7, 30):
        over, again, folder = False, 0, tmp_path / f"by{at_once}"
        while not over:
            times, over, summary = steps(folder, at_once)
            with open(folder / "simulator.jsonl", "a") as lines:
                lines.write('{"wai')  # the kill was in the middle of a line
            if at_once == 1 and not over and again < 5 and (submits := _last_submit(folder)):
                _forget(folder, submits)
                again += 1
        assert times == whole and summary["makespan"] == told["makespan"]
        assert summary["edges_not_kept"] == 0 and summary["submitted"] == told["submitted"] + again
        assert (again > 0) == (at_once == 1)


def test_a_simulation_of_another_machine_or_elsewhere_does_not_go_on(tmp_path):
    from jobwise.workflows.managers import ToldMachine
    from jobwise.workflows.managers import manager as named

    state = tmp_path / "state"
    state.mkdir()
    m = named("simulator", ToldMachine(state, [2.0, 3.0], procs=4))
    m.submit("#!", name="jw00000000.1.1", cores=2)
    m.wait(10.0)
    again = named("simulator", ToldMachine(state, [9.0, 9.0], procs=4))  # other estimates change nothing that has happened
    assert again.jobs() == m.jobs() and again.now() == m.now() == 4.0
    for procs, on, words in ((8, "simulator", "not on"), (None, "processes", "begun on the simulator")):
        with pytest.raises(InputError, match=words):
            named(on, ToldMachine(state, [2.0, 3.0], procs=procs))
    (state / "simulator.jsonl").write_text('{"wait": 1.0}\n{"submit": 3}\n')
    with pytest.raises(InputError, match=r"simulator.jsonl:2: .* did not write this line"):
        named("simulator", ToldMachine(state, [2.0, 3.0], procs=4))
    (state / "simulator.jsonl").unlink()
    (state / "ledger.jsonl").write_text(json.dumps({"event": "submit"}))
    with pytest.raises(InputError, match="begun elsewhere, or by an earlier"):
        named("simulator", ToldMachine(state, [2.0, 3.0], procs=4))


def test_a_job_that_has_the_number_of_a_task_is_not_taken_for_it(tmp_path):
    """The manager has begun to count anew: job 1 is somebody else's, and the task's own is found by its name."""
    w = workload(7, 1)

    class Anew(Simulated):
        def jobs(self):
            others = [replace(j, id=j.id + 1) for j in super().jobs()]
            return (
                [SlurmJob(1, "other", "COMPLETED", "None", 1.0, 1.0, 2.0, 1, 0), *others] if self.time > 2 else super().jobs()
            )

    told, tasks = followed(w, Anew(8, lambda name: 20.0), tmp_path, "rank")
    assert told["done"] == told["submitted"] == 1 and told["makespan"] == 20.0


def test_a_manager_that_is_silent_for_a_while_is_waited_for(tmp_path):
    """Also one that took a job and did not say so: it is found by its name."""
    w = workload(5, 12)

    class Silent(Simulated):
        calls = 0

        def jobs(self):
            self.calls += 1
            if self.calls % 3 == 0 or self.calls > 1000:
                raise SlurmError("squeue does not answer")
            return super().jobs()

        def submit(self, script, *, name, **more):
            found = super().submit(script, name=name, **more)
            if len(self.table) == 4:
                raise SlurmError("sbatch does not answer")
            return found

    m = Silent(8, lambda name: float(w.truth["runtime"][int(name.split(".")[1])]))
    told, _ = followed(w, m, tmp_path / "a", "rank")
    assert told["done"] == told["submitted"] == 12 == len(m.table)
    m = Silent(8, lambda name: 1.0)
    m.calls = 1000
    with pytest.raises(SlurmError, match="does not answer"):
        followed(w, m, tmp_path / "b", "rank")


def test_cancelled_jobs_are_not_submitted_for_ever(tmp_path):
    w = workload(6, 12)

    class Cancels(Simulated):
        def wait(self, seconds):
            super().wait(seconds)
            self.cancel([j.id for j in self.jobs() if j.state == "PENDING" and j.name.split(".")[1] == "0"])

        def _start(self):
            held, self.table = self.table, {k: j for k, j in self.table.items() if j.name.split(".")[1] != "0"}
            super()._start()
            self.table = held | self.table

    m = Cancels(8, lambda name: float(w.truth["runtime"][int(name.split(".")[1])]))
    told, tasks = followed(w, m, tmp_path, "rank", retries=2)
    assert tasks[0].state == "failed" and tasks[0].tries == 3 and told["since_begin"] >= 0


@pytest.mark.cli
def test_a_job_that_is_not_to_be_seen_does_nothing_once_it_is_given_up(tmp_path):
    """Forgotten by the manager: submitted again, and its late script finds its name taken."""
    w = workload(7, 3)

    class Forgets(Simulated):
        def jobs(self):
            return [j for j in super().jobs() if not j.name.endswith(".1")]

    m = Forgets(8, lambda name: 1.0)
    told, tasks = followed(w, m, tmp_path, "rank")
    assert told["done"] == 3 and all(t.tries == 2 for t in tasks)
    run_id = json.loads((tmp_path / "ledger.jsonl").read_text().splitlines()[0])["run"]
    late = tmp_path / "late.sh"
    late.write_text(script(tmp_path, f"{run_id}.0.1", ["touch", str(tmp_path / "ran")]))
    assert subprocess.run(["sh", str(late)], stderr=subprocess.DEVNULL).returncode == 0 and not (tmp_path / "ran").exists()


@pytest.mark.cli
def test_scripts_claim_run_and_stamp(tmp_path):
    for name in ("claims", "stamps"):
        (tmp_path / "it's" / name).mkdir(parents=True)
    file, out = tmp_path / "job.sh", tmp_path / "out $(touch x)"
    file.write_text(script(tmp_path / "it's", "jw.0.1", ["touch", str(out)]))
    for _ in range(2):
        assert subprocess.run(["sh", str(file)], cwd=tmp_path, stderr=subprocess.DEVNULL).returncode == 0
    begin, end, code = (tmp_path / "it's" / "stamps" / "jw.0.1").read_text().split()
    assert out.exists() and not (tmp_path / "x").exists() and float(begin) <= float(end) and code == "0"
    file.write_text(script(tmp_path / "it's", "jw.1.1", ["false"]))
    assert subprocess.run(["sh", str(file)], cwd=tmp_path).returncode == 1
    assert (tmp_path / "it's" / "stamps" / "jw.1.1").read_text().split()[2] == "1"


def test_the_command(tmp_path, capsys):
    from jobwise.workloads import wfformat
    from jobwise.workloads.workflows import workflow

    file = tmp_path / "w.json"
    rows = [{"name": n, "runtime": s} for n, s in (("a", 2), ("b", 3), ("c", 1))]
    file.write_text(wfformat.to_text(workflow("w", rows, [[], ["a"], ["a"]])))
    state = ["--state", str(tmp_path / "state")]
    assert run(["mars", "run", str(file), *state, "--json", "--price", "3600"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["makespan"] == 5 and told["done"] == 3 and told["cost"] == 6 and told["policy"] in jw.systems.mars.RULES
    assert run(["mars", "run", str(file), *state, "--json"]) == 0  # it is done already
    assert json.loads(capsys.readouterr().out)["submitted"] == 3
    for bad in (["--executor", "moon"], ["-p", "nothing"], ["--command", "{x}"], ["--command", ""]):
        assert run(["mars", "run", str(file), "--state", str(tmp_path / "bad"), *bad]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def wide(seed=0, count=120, at_once=0):
    """Tasks of two programs, at most `at_once` at a time (0: all); the first is slow on machines of kind `old`."""
    from jobwise.workloads.workflows import workflow

    rng = np.random.default_rng(seed)
    rows = [{"name": f"t{i}", "runtime": 10.0, "program": f"p{rng.integers(2)}"} for i in range(count)]
    parents = [[f"t{i - at_once}"] if 0 < at_once <= i else [] for i in range(count)]
    return stream([workflow("wide", rows, parents)], cluster=8, name="wide")


def machines(w, **more):
    def slower(name, kind):
        program = w.names["app"][int(w.jobs["app"][int(name.split(".")[1])])]
        return 5.0 if (program, kind) == ("p0", "old") else 1.0

    kinds = {f"n{i}": ("new", "old")[i % 2] for i in range(4)}
    return Simulated(2, lambda name: 10.0, machines=kinds, slower=slower, **more)


def test_learned_placement_on_a_resource_manager(tmp_path):
    w = wide()
    m = machines(w)
    told, tasks = followed(w, m, tmp_path / "learned", "fcfs+learned")
    assert told["done"] == told["submitted"] == len(w)
    first = np.array([w.names["app"][int(a)] == "p0" for a in w.jobs["app"]])
    old = np.array([m.machines[m.table[i + 1].node] == "old" for i in range(len(w))])
    order = np.array([int(m.table[i + 1].name.split(".")[1]) for i in range(len(w))])
    first, late = first[order], np.arange(len(w)) >= 60
    assert old[late & first].mean() < 0.5 * old[late & ~first].mean()  # it has learnt who does not belong there
    free, _ = followed(w, machines(w), tmp_path / "free", "fcfs", ahead=0.0)
    assert told["work"] < free["work"]


def test_what_was_learnt_is_learnt_again_after_a_kill(tmp_path):
    w = wide()
    m = machines(w)
    with Following(w, m, tmp_path, lambda i: ["true"], jw.resolve("fcfs+learned")) as f:
        while sum(t.state == "done" for t in f.tasks) < 60:
            f.step()
            m.wait(1)
        f.step()
        known = [f._run.factors.of(g) for g in (1, 4)]
    with Following(w, m, tmp_path, lambda i: ["true"], jw.resolve("fcfs+learned")) as f:
        f.step()
        for a, b in zip(known, [f._run.factors.of(g) for g in (1, 4)], strict=True):
            assert all(np.allclose(x, y, atol=0.1) for x, y in zip(a, b, strict=True))
        f.follow()
        assert f.summary()["submitted"] == len(w)


def test_a_node_that_is_not_to_be_had_is_given_up(tmp_path):
    """Somebody else takes it before our job begins there."""
    w = wide(count=12)

    class Taken(Simulated):
        def submit(self, script, *, name, node="", **more):
            if node == "n1" and not any(j.name == "other" for j in self.table.values()):
                super().submit("#!/bin/sh", name="other", cores=2, node="n1")
            return super().submit(script, name=name, node=node, **more)

    m = Taken(2, lambda name: 1e4 if name == "other" else 10.0, machines={"n0": "", "n1": ""})
    told, tasks = followed(w, m, tmp_path, "fcfs+learned")
    assert told["done"] == 12 and any(t.moved for t in tasks) and told["makespan"] < 200


def test_tasks_run_on_one_node_each(tmp_path):
    """Nodes of several sizes, requests that do not divide them: nobody is split, or sent where there is no room."""
    w = wide(3, 30)
    w.jobs["request"][:, 0] = np.random.default_rng(0).integers(1, 4, 30)

    class Sizes(Simulated):
        def nodes(self):
            return [Node("big", 4, self._free("big"), ""), Node("small", 2, max(self._free("small") - 2, 0), "")]

        def submit(self, script, *, node="", cores=1, **more):
            assert node and (node == "big" or cores <= 2)
            assert cores <= next(n.free for n in self.nodes() if n.name == node)
            return super().submit(script, node=node, cores=cores, **more)

    told, tasks = followed(w, Sizes(4, lambda n: 10.0, machines={"big": "", "small": ""}), tmp_path, "fcfs+learned")
    assert told["done"] == told["submitted"] == 30 and not any(t.moved for t in tasks)


def test_a_node_that_is_refused_and_a_manager_that_fails(tmp_path):
    """A node of another partition; ends are told to the policy also where the next command failed."""
    w = wide(4, 30)

    class Refuses(Simulated):
        calls = 0

        def submit(self, script, *, node="", **more):
            if node == "n1":
                raise SlurmError("sbatch: Requested node configuration is not available")
            return super().submit(script, node=node, **more)

        def nodes(self):
            self.calls += 1
            if self.calls % 3 == 0:
                raise SlurmError("sinfo does not answer")
            return super().nodes()

    m = Refuses(2, lambda n: 10.0, machines={"n0": "", "n1": "", "n2": ""})
    with Following(w, m, tmp_path, lambda i: ["true"], jw.resolve("fcfs+learned")) as f:
        f.follow()
        told, counts = f.summary(), f._run.factors._count
    assert told["done"] == 30 == told["submitted"] and counts.sum() == sum(not t.moved for t in f.tasks)
    one = Simulated(8, lambda n: 10.0)
    with pytest.raises(InputError, match="one node"):
        Following(w, one, tmp_path / "one", lambda i: ["true"], jw.resolve("fcfs+learned"))


def test_events_are_told_once_also_where_the_manager_fails(tmp_path):
    """Each submit, start and stop reaches the policy, whichever command fails on the way."""

    class Fails(Simulated):
        calls = 0

        def nodes(self):
            self.calls += 1
            if self.calls % 3 == 0:
                raise SlurmError("sinfo does not answer")
            return super().nodes()

    class Counts:
        def check(self, cluster):
            if cluster.is_pool:
                raise InputError("nodes are needed")

        def reset(self, view):
            self.counts, self.noted = np.zeros(3, int), None
            self.note(view)

        def note(self, view):
            if view.events is not self.noted:
                self.noted = view.events
                self.counts += np.bincount(view.events["kind"], minlength=3)

        def ended(self, view, rows):
            self.note(view)

        def decide(self, view):
            self.note(view)
            free = view.free[:, 0].copy()
            for j in view.queue:
                need = view.jobs["request"][j, 0]
                if (n := int(np.argmax(free))) is not None and free[n] >= need:
                    free[n] -= need
                    yield jw.Start(int(j), ((n, (int(need),)),))

    w, policy = wide(4, 30), Counts()
    m = Fails(2, lambda n: 10.0, machines={"n0": "", "n1": "", "n2": ""})
    with Following(w, m, tmp_path, lambda i: ["true"], policy) as f:
        f.follow()
        assert f.summary()["done"] == 30 and policy.counts.tolist() == [30, 30, 30]


def test_tasks_that_fail_tell_nothing_and_moved_ones_are_known_by_where_they_ran(tmp_path):
    w = wide(5, 20)

    class Broken(Simulated):
        def wait(self, seconds):
            super().wait(seconds)
            for i, j in list(self.table.items()):
                if j.node == "n1" and j.state == "COMPLETED":
                    self.table[i] = replace(j, state="FAILED", code=1)

    m = Broken(2, lambda n: 10.0, machines={"n0": "", "n1": ""}, slower=lambda n, kind: 1.0)
    with Following(w, m, tmp_path / "a", lambda i: ["true"], jw.resolve("fcfs+learned"), retries=0) as f:
        f.follow()
        assert f._run.factors._count[:, 1].sum() == 0 and f.summary()["failed"] > 0
    m = Simulated(2, lambda n: 10.0, machines={"n0": "", "n1": ""})
    with Following(w, m, tmp_path / "b", lambda i: ["true"], jw.resolve("fcfs"), ahead=0.0) as f:
        f.follow()  # without nodes: nothing is known of where tasks ran
    with Following(w, m, tmp_path / "b", lambda i: ["true"], jw.resolve("fcfs+learned")) as f:
        f.step()
        assert f._run.factors._count.sum() == 0


def test_nodes_of_sinfo():
    text = (
        "n2|0/8/0/8|idle|(null)|b*\nn1|2/6/0/8|mixed|a100,big|b*\nn1|2/6/0/8|mixed|a100,big|c\nn3|0/8/0/8|drained*|(null)|b*\n"
    )
    text += "n4|0/8/0/8|idle|(null)|c\n"
    assert [(n.name, n.cores, n.free, n.kind) for n in nodes_of(text)] == [
        ("n1", 8, 6, "a100,big"), ("n2", 8, 8, ""), ("n3", 8, 0, "")
    ]  # fmt: skip
    assert [n.name for n in nodes_of(text.replace("b*", "b"))] == ["n1", "n2", "n3", "n4"]
    with pytest.raises(SlurmError, match="sinfo printed"):
        nodes_of("n1|eight")


# ------------------------------------------------------------------ the real Slurm


@pytest.fixture(scope="module")
def slurm():
    before = os.environ.get("SLURM_CONF")
    with real_slurm(4, 8) as folder:
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        yield folder
        if before is None:
            del os.environ["SLURM_CONF"]


@pytest.mark.slurm
def test_slurm_takes_and_refuses_jobs(slurm):
    s = Slurm()
    assert s.cores() == (32, 8)
    assert s.pools() == {"memory": 64_000}  # it counts memory; there are no GPUs
    a = s.submit("#!/bin/sh\nexit 3\n", name="jw-a")
    b = s.submit("#!/bin/sh\nexit 0\n", name="jw-b", after=[a], minutes=1, nice=5)
    for _ in range(100):
        states = {j.id: j for j in s.jobs()}
        if states[b].state == "CANCELLED":
            break
        time.sleep(0.1)
    assert (states[a].state, states[a].code, states[b].start) == ("FAILED", 3, 0) or states[b].state == "CANCELLED"
    with pytest.raises(SlurmError, match="sbatch"):
        s.submit("#!/bin/sh\n", name="x", more=["--partition=nowhere"])
    s.cancel([a, b])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, scale",
    [("epigenomics-chameleon-ilmn-4seq", 0.05), ("montage-chameleon-2mass-01d", 0.3), ("blast-chameleon-small", 0.2)],
)
def test_real_workflows_on_the_real_slurm_survive_kills(slurm, tmp_path, name, scale):
    """Three real workflows, one of 559 tasks; twice a kill -9; every dependency kept, every task run once."""
    file = need(next(iter(FOLDER.glob(f"{name}*")), None))
    order = [
        sys.executable,
        "-m",
        "jobwise.cli",
        "mars",
        "run",
        str(file),
        "--executor",
        "slurm",
        "--state",
        str(tmp_path),
        "--scale",
        str(scale),
    ]
    order += ["-p", "flow-work", "--poll", "0.3", "--json"]
    for _ in range(2):
        job = subprocess.Popen(order, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begun = len(list((tmp_path / "claims").glob("*"))) if (tmp_path / "claims").exists() else 0
        for _ in range(600):
            if (tmp_path / "claims").exists() and len(list((tmp_path / "claims").glob("*"))) > begun + 5:
                break
            time.sleep(0.1)
        job.send_signal(signal.SIGKILL)
        job.wait()
    told = json.loads(subprocess.run(order, capture_output=True, text=True, timeout=500, check=True).stdout)
    assert told["done"] == told["tasks"] and told["edges_not_kept"] == 0 and told["failed"] == 0
    ran = [p.name.split(".")[1] for p in (tmp_path / "stamps").iterdir()]
    assert len(ran) == len(set(ran)) == told["tasks"]


@pytest.mark.slow
def test_learned_placement_on_the_real_slurm(slurm, tmp_path):
    """Tasks that are ten times as slow on two of the four nodes: those after the first go elsewhere."""
    task = tmp_path / "task.sh"
    task.write_text("#!/bin/sh\ncase $SLURMD_NODENAME in node01|node02) sleep 5;; *) sleep 0.5;; esac\n")
    task.chmod(0o755)
    w = wide(count=96, at_once=6)
    w.jobs["app"][:] = 0
    w.jobs["request"][:] = 2
    with Following(w, Slurm(), tmp_path / "state", lambda i: [str(task)], jw.resolve("fcfs+learned"), poll_s=0.2) as f:
        f.follow()
        told, tasks = f.summary(), f.tasks
    assert told["done"] == told["submitted"] == 96
    slow = np.array([t.node < 2 for t in tasks])[np.argsort([t.start for t in tasks])]
    took = np.array([t.end - t.start for t in tasks])
    assert all((took[i] > 3) == (t.node < 2) for i, t in enumerate(tasks))  # it ran where it was told to
    assert slow[:12].any() and slow[48:].mean() < 0.1


CWL = """cwlVersion: v1.2
class: Workflow
inputs: []
outputs: []
steps:
  first:
    run:
      class: CommandLineTool
      baseCommand: [sleep, "1"]
      requirements:
        ResourceRequirement: {coresMin: 2, ramMin: 100}
        ToolTimeLimit: {timelimit: 150}
      inputs: []
      outputs: []
    in: []
    out: []
  second:
    run:
      class: CommandLineTool
      baseCommand: [sleep, "1"]
      inputs: []
      outputs: []
    in: []
    out: []
"""


def test_requirements_of_tasks_reach_the_manager(tmp_path, monkeypatch, capsys):
    asked = {}
    real = Simulated.submit

    def submit(self, script, *, name, **more):
        asked[int(name.split(".")[1])] = more
        return real(self, script, name=name, **more)

    monkeypatch.setattr(Simulated, "submit", submit)
    (tmp_path / "t.cwl").write_text(CWL)
    words = ["mars", "run", str(tmp_path / "t.cwl"), "--poll", "0.05", "--command", "true"]
    assert run([*words, "--state", str(tmp_path / "a"), "--sbatch", "-p batch --account='two words'", "--json"]) == 0
    capsys.readouterr()
    first, second = sorted(asked.values(), key=lambda x: -x["cores"])
    assert (
        first["cores"] == 2 and first["memory_mb"] == pytest.approx(104.8576) and first["minutes"] == 2.5
    )  # sbatch is told whole minutes
    assert first["more"] == second["more"] == ["-p", "batch", "--account=two words"]
    assert second["cores"] == 1 and "memory_mb" not in second and "minutes" not in second
    assert Path(first["output"]).parent == tmp_path / "a" / "outputs" and first["output"].endswith(".txt")
    wdl = tmp_path / "g.wdl"
    wdl.write_text('version 1.0\ntask t { command {} runtime { gpuCount: 2 memory: "3 GB" } }\nworkflow w { call t }\n')
    done = run(["mars", "run", str(wdl), "--poll", "0.05", "--command", "true", "--state", str(tmp_path / "b")])
    assert done == 0, capsys.readouterr().err
    assert asked[0]["gpus"] == 2 and asked[0]["more"] == [] and asked[0]["memory_mb"] == pytest.approx(3000)
    for wrong in ("batch", "-p 'batch"):
        assert run([*words, "--state", str(tmp_path / "c"), "--sbatch", wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slurm
def test_requirements_of_tasks_on_slurm(slurm, tmp_path, capsys):
    """Slurm shows what the workflow asks for, and keeps what its tasks print."""
    (tmp_path / "t.cwl").write_text(CWL)
    tmp_path.chmod(0o755)
    words = ["mars", "run", str(tmp_path / "t.cwl"), "--executor", "slurm", "-p", "manager", "--poll", "0.2"]
    assert run([*words, "--state", str(tmp_path / "s"), "--command", "echo {task}", "--sbatch", "--comment=ours"]) == 0
    names = [f.name for f in (tmp_path / "s" / "stamps").iterdir()]
    shown = subprocess.run(["scontrol", "-o", "show", "job"], capture_output=True, text=True, check=True).stdout
    jobs = {line.split("JobName=")[1].split()[0]: line for line in shown.splitlines() if "JobName=" in line}
    of = sorted((jobs[n] for n in names), key=lambda x: "NumCPUs=2" not in x)
    assert "TimeLimit=00:03:00" in of[0] and "mem=100M" in of[0] and "Comment=ours" in of[0] and "Comment=ours" in of[1]
    printed = sorted(f.read_text().strip() for f in (tmp_path / "s" / "outputs").glob("*.txt"))
    assert len(printed) == 2 and all(printed)


@pytest.mark.slurm
@pytest.mark.parametrize("kind", ["cwl", "wdl"])
def test_own_commands_on_slurm(slurm, tmp_path, capsys, kind):
    """A workflow's own commands run as jobs, with the memory and the time that it asks for."""
    words = written(tmp_path, kind)
    at = words.index("--executor")
    words[at : at + 4] = ["--executor", "slurm"]  # without the cores of processes
    tmp_path.chmod(0o755)
    assert run(words) == 0
    assert total(json.loads(capsys.readouterr().out)) == "1000"
    names = {f.name for f in (tmp_path / "state" / "stamps").iterdir()}
    lines = subprocess.run(["scontrol", "-o", "show", "job"], capture_output=True, text=True, check=True).stdout.splitlines()
    jobs = [x for x in lines if "JobName=" in x and x.split("JobName=")[1].split()[0] in names]
    assert len(jobs) == 14 and sum("mem=64M" in x for x in jobs) == 12 and sum("mem=100M" in x for x in jobs) == 1
    assert sum("TimeLimit=00:02:00" in x for x in jobs) == (12 if kind == "cwl" else 1)


MPI = """cwlVersion: v1.2
$namespaces: {cwltool: "http://commonwl.org/cwltool#"}
class: Workflow
inputs: []
outputs: {where: {type: File, outputSource: wide/where}}
steps:
  wide:
    in: []
    out: [where]
    run:
      class: CommandLineTool
      requirements: {"cwltool:MPIRequirement": {processes: 12}, ResourceRequirement: {ramMin: 1200}}
      baseCommand: [printenv, SLURMD_NODENAME]
      inputs: []
      stdout: where.txt
      outputs: {where: {type: stdout}}
"""


@pytest.mark.slurm
def test_ranks_of_one_task_on_several_nodes(slurm, tmp_path, capsys):
    """A task of twelve MPI ranks on nodes of eight cores: one job, all ranks run, on two nodes; refused where nodes are chosen."""
    (tmp_path / "wide.cwl").write_text(MPI)
    tmp_path.chmod(0o755)
    words = ["mars", "run", str(tmp_path / "wide.cwl"), "--executor", "slurm", "--poll", "0.2", "--json"]
    assert run([*words, "--state", str(tmp_path / "s")]) == 0
    where = tmp_path / "s" / "engine0" / "outputs" / "where.txt"
    assert len(where.read_text().split()) == 12 and len(set(where.read_text().split())) == 2
    capsys.readouterr()
    assert run([*words, "--state", str(tmp_path / "n"), "-p", "fcfs+learned"]) == 2
    assert "needs 12 cores of one node; a node has at most 8" in capsys.readouterr().err


@pytest.mark.slurm
def test_gpus_and_limits_are_options_of_sbatch(tmp_path, monkeypatch):
    """A program in place of sbatch prints what it is called with; refusals for good are told from silence."""
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", tmp_path, sbatch=f'echo "$@" > {tmp_path}/words; echo 7'))
    assert Slurm().submit("#!/bin/sh\n", name="n", cores=2, gpus=3, minutes=61 / 60, memory_mb=104.8576, more=["--qos=x"]) == 7
    words = (tmp_path / "words").read_text().split()
    assert {"--gres=gpu:3", "--time=2", "--mem=100M", "--cpus-per-task=2", "--qos=x", "--nodes=1", "--ntasks=1"} <= set(words)
    assert Slurm().submit("#!/bin/sh\n", name="n", cores=12, ranks=6, gpus=3, memory_mb=1258.2912) == 7
    words = set((tmp_path / "words").read_text().split())
    assert {"--ntasks=6", "--cpus-per-task=2", "--mem-per-cpu=100M", "--gpus=3"} <= words and "--nodes=1" not in words
    for k, (said, kind) in enumerate(
        (
            ("Batch job submission failed: Invalid account", Refused),
            ("Batch job submission failed: Socket timed out", SlurmError),
        )
    ):
        monkeypatch.setenv("PATH", programs(tmp_path / f"b{k}", tmp_path, sbatch=f'echo "{said}" >&2; exit 1'))
        with pytest.raises(SlurmError) as caught:
            Slurm().submit("#!/bin/sh\n", name="n")
        assert type(caught.value) is kind
