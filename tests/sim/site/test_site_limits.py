"""Limits of associations and arrays, licences, nodes out of service and reserved: in simulations, and as a folder tells them.

Modules: sim/site/closures.py, sim/site/slurm_limits.py, sim/site/slurm_plan.py, site.py, slurm/read/associations.py,
slurm/read/closures.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from conftest import write_site

import jobwise as jw
from jobwise.cli.main import run as cli
from jobwise.errors import InputError
from jobwise.site import association, association_dtype, closure_dtype, qos_dtype
from jobwise.slurm.judge.changes import changed
from jobwise.slurm.read.closures import closures
from jobwise.slurm.read.site import read
from jobwise.workloads.sites import on_site

INF = np.inf


def log(seed=3, jobs=150, load=1.3):
    return on_site(jw.lublin(jobs=jobs, procs=32, load=2 * load, seed=seed, users=3, estimates="users"), 16, 4, age=1000)


def with_site(w, **known):
    return replace(w, cluster=replace(w.cluster, site=replace(w.cluster.site, **known)))


def tree(w, account, user):
    """The account of all users with limits, and the users with theirs."""
    users = len(w.cluster.site.associations) - 2
    rows = [association(-1, 1.0, 0), association(0, 1.0, 0, **account), *[association(1, 1.0, 1, **user)] * users]
    return with_site(w, associations=np.array(rows, association_dtype))


def most(r, jobs, amount):
    """The most of `amount` [J] that these jobs held at once."""
    rows = r.jobs[jobs]
    return max(amount[jobs][(rows["start"] <= t) & (rows["end"] > t)].sum() for t in rows["start"])


@pytest.mark.parametrize("policy", ["slurm", "saf+easy"])
def test_limits_of_associations_hold_jobs_back(policy):
    w = log()
    wide = int(w.jobs["request"][:, 0].max())
    r = jw.simulate(tree(w, {"cpus": wide + 4.0}, {}), policy)
    cpus, every = w.jobs["request"][:, 0], np.ones(len(w), bool)
    assert most(r, every, cpus) <= wide + 4 < most(jw.simulate(w, policy), every, cpus)
    r = jw.simulate(tree(w, {}, {"own": 2.0}), policy)
    for user in np.unique(w.jobs["user"]):
        assert most(r, w.jobs["user"] == user, np.ones(len(w))) == 2
    assert np.isfinite(r.jobs["start"]).all()


def test_a_limit_of_the_qos_stands_for_that_of_an_association():
    w, jobs = tree(log(), {"jobs": 3.0}, {}), log().jobs.copy()
    jobs["queue"], none = 0, [INF] * 5
    for own, held in (([9.0, *none[1:]], 9), (none, 3)):
        qos = np.array([(0.0, INF, own, none)], qos_dtype)
        r = jw.simulate(replace(with_site(w, qos=qos), jobs=jobs), "slurm")
        assert most(r, np.ones(len(w), bool), np.ones(len(w))) == held


def test_no_more_licences_are_used_than_there_are():
    w = log()
    asks = np.concatenate([w.cluster.site.asks] * 2)
    asks["licences"][len(asks) // 2 :] = 1
    jobs, some = w.jobs.copy(), np.arange(len(w)) % 3 == 0
    jobs["ask"][some] += len(asks) // 2
    w = replace(with_site(w, asks=asks, licences=np.array([4.0]), licence_asks=np.array([[0.0], [2.0]])), jobs=jobs)
    r = jw.simulate(w, "slurm")
    assert most(r, some, np.ones(len(w))) == 2 and np.isfinite(r.jobs["start"]).all()


@pytest.mark.parametrize("policy", ["slurm", "saf+easy", "fcfs+conservative", "fcfs", "saf+slurm"])
def test_nodes_out_of_service_take_no_jobs(policy):
    w = log(jobs=120)
    last = float(w.jobs["submit"][100])
    sets = np.ones((2, 16), np.uint8)
    sets[1, 4:] = 0
    away = np.array([(1, w.offset - 10.0, w.offset + last, 0, 0.0, 0)], closure_dtype)
    r, cpus = jw.simulate(with_site(w, sets=sets, closures=away), policy), w.jobs["request"][:, 0]
    before = r.jobs["start"] < last
    held = [cpus[before & (r.jobs["start"] <= t) & (r.jobs["end"] > t)].sum() for t in r.jobs["start"][before]]
    assert 40 < max(held) <= 48 and most(r, np.ones(len(w), bool), cpus) > 48 and np.isfinite(r.jobs["start"]).all()


@pytest.mark.parametrize("policy", ["slurm", "saf+easy", "fcfs+conservative", "fcfs", "saf+slurm"])
def test_no_job_runs_into_a_reservation(policy):
    w = log(jobs=120)
    begin, end = float(w.jobs["submit"][40]), float(w.jobs["submit"][80])
    rows = np.array([(0, w.offset + begin, w.offset + end, 1, 0.0, 1)], closure_dtype)
    r = jw.simulate(with_site(w, closures=rows), policy)
    start = r.jobs["start"]
    assert ((start + np.maximum(w.jobs["walltime"], 1.0) <= begin + 1) | (start >= end)).all()
    assert policy == "fcfs" or (start < begin).sum() > 5  # its first job may run into the reservation, and hold all others back
    assert np.isfinite(start).all()


def test_a_job_of_a_reservation_has_its_nodes():
    w = log(jobs=40, load=0.3)
    asks, jobs = np.concatenate([w.cluster.site.asks] * 2), w.jobs.copy()
    asks["reservation"][len(asks) // 2 :] = 1
    first = int(np.argmin(jobs["request"][:, 0]))
    jobs["ask"][first] += len(asks) // 2
    begin = w.offset + float(jobs["submit"][first]) + 5_000.0
    rows = np.array([(0, begin, begin + 500_000.0, 1, 0.0, 1)], closure_dtype)
    r = jw.simulate(replace(with_site(w, asks=asks, closures=rows), jobs=jobs), "slurm")
    inside = (r.jobs["start"] >= begin - w.offset) & (r.jobs["start"] < begin - w.offset + 500_000)
    assert np.flatnonzero(inside).tolist() == [first] and r.jobs["start"][first] < begin - w.offset + 60


def test_a_folder_tells_limits_licences_and_closures(tmp_path):
    folder = write_site(tmp_path / "site")
    config = (folder / "scontrol_config.txt").read_text()
    (folder / "scontrol_config.txt").write_text(config + "Licenses = matlab:4,ansys@server:2\n")
    rows = "check|root|||1||||\ncheck|all|||1|root|9|cpu=12,gres/gpu=2|\n" + "".join(
        f"check|all|u{k}||1||||{k + 2}\n" for k in range(4)
    )
    head = "Cluster|Account|User|Partition|Share|ParentName|GrpJobs|GrpTRES|MaxJobs\n"
    (folder / "sacctmgr_assoc.txt").write_text(head + rows)
    begin = 1_800_000_100
    events = f"NodeName|TimeStart|TimeEnd|State\n|5|Unknown|\nn2|{begin}|{begin + 60}|DRAIN\nn3|{begin}|Unknown|DOWN*\nn4|{begin}|0|POWERED_DOWN\n"
    (folder / "sacctmgr_event.txt").write_text(events)
    (folder / "sacctmgr_reservation.txt").write_text(f"Name|NodeName|TimeStart|TimeEnd\nmaint|n[1-2]|{begin}|{begin + 9}\n")
    (folder / "sshare_start.txt").write_text("Account|User|RawUsage\nroot||70\n all||50\n  all|u1|50\n")
    sacct = (folder / "sacct.txt").read_text().splitlines()
    sacct[1] = sacct[1].replace("sbatch -n", "sbatch -L matlab:2,ansys -n")
    sacct[2] = sacct[2].replace("sbatch -n", "sbatch --reservation=maint -n")
    (folder / "sacct.txt").write_text("\n".join(sacct) + "\n")
    w = read(folder)
    site = w.cluster.site
    assert site.associations["all"][1].tolist()[:4] == [9, 12, INF, 2] and site.associations["jobs"][2:].tolist() == [
        2,
        3,
        4,
        5,
    ]
    assert site.associations["usage"].tolist() == [70, 50, 0, 50, 0, 0]
    assert site.licences.tolist() == [4, 2]
    assert site.licence_asks[site.asks["licences"][w.jobs["ask"][0]]].tolist() == [2, 1]
    end = max(int(x.split("|")[10]) for x in sacct[1:])  # what comes behind the record is not known
    assert [(site.sets[c["set"]].tolist(), c["end"] == end, c["announced"]) for c in site.closures] == [
        ([0, 1, 0, 0], False, 0), ([0, 0, 1, 0], True, 0), ([1, 1, 0, 0], False, 1),
    ]  # fmt: skip
    assert site.asks["reservation"][w.jobs["ask"][1]] == 1
    assert not any("GrpTRES" in g or "MaxJobs" in g or "out of service" in g for g in site.guesses)
    assert np.isfinite(jw.simulate(w, "slurm").jobs["start"]).all()


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("sacctmgr_event", "NodeName|TimeStart|TimeEnd|State\nn1|yesterday|5|DOWN\n", "yesterday"),
        ("sacctmgr_event", "NodeName|TimeStart|State\nn1|5|DOWN\n", "no column TimeEnd"),
        ("sacctmgr_reservation", "Name|NodeName|TimeStart|TimeEnd\nx|n[1-x]|5|6\n", "n.1-x"),
        ("sshare_start", "Account|User|Usage\nall|u1|5\n", "RawUsage"),
        ("sshare_start", "Account|User|RawUsage\nall|u1|lots\n", "lots"),
    ],
)
def test_wrong_files_get_one_line(tmp_path, capsys, name, text, said):
    folder = write_site(tmp_path / "site")
    (folder / f"{name}.txt").write_text(text)
    with pytest.raises(InputError, match=said):
        read(folder)
    assert cli(["slurm", "site", str(folder)]) == 2
    err = capsys.readouterr().err
    assert len(err.strip().splitlines()) == 1 and f"{name}.txt" in err


def test_others_go_on_beside_a_job_that_waits_for_its_reservation():
    w = on_site(jw.workload([0, 0, 0], [4, 4, 4], [100, 100, 100], cluster=jw.pool(16)), 4, 4)
    asks, jobs = np.concatenate([w.cluster.site.asks] * 2), w.jobs.copy()
    asks["reservation"][1], jobs["ask"][0] = 1, 1
    sets = np.ones((2, 4), np.uint8)
    sets[1, 1:] = 0
    rows = np.array([(1, 5_000.0, 9_000.0, 1, 0.0, 1), (1, 20_000.0, 30_000.0, 1, 0.0, 1)], closure_dtype)
    r = jw.simulate(replace(with_site(w, asks=asks, closures=rows, sets=sets), jobs=jobs), "slurm")
    assert 5_000 <= r.jobs["start"][0] < 5_010 and (r.jobs["start"][1:] < 5).all()


def test_jobs_that_can_never_start_are_named_closures_or_not():
    w = tree(log(jobs=20), {"jobs": 0.0}, {})
    begin = w.offset + float(w.jobs["submit"][-1]) + 1e6
    for closed in (np.zeros(0, closure_dtype), np.array([(0, begin, begin + 50.0, 0, 0.0, 0)], closure_dtype)):
        with pytest.raises(InputError, match="waiting for ever"):
            jw.simulate(with_site(w, closures=closed), "slurm")


def test_limits_against_which_jobs_ran_are_taken_wider(tmp_path):
    folder = write_site(tmp_path / "site")
    rows = "check|root|||1||||\ncheck|all|||1|root||mem=1M|\n" + "".join(f"check|all|u{k}||1||||0\n" for k in range(4))
    (folder / "sacctmgr_assoc.txt").write_text(
        "Cluster|Account|User|Partition|Share|ParentName|GrpJobs|GrpTRES|MaxJobs\n" + rows
    )
    config = (folder / "scontrol_config.txt").read_text()
    (folder / "scontrol_config.txt").write_text(config + "SelectTypeParameters = CR_Core_Memory\n")
    w = read(folder)
    assert any("association" in g for g in w.cluster.site.guesses) and (w.cluster.site.associations["jobs"][2:] == 1).all()
    assert np.isfinite(jw.simulate(w, "slurm").jobs["start"]).all()


def test_more_nodes_work_though_the_last_one_is_down():
    w = log(jobs=60)
    sets = np.ones((2, 16), np.uint8)
    sets[1, :15] = 0
    down = np.array([(1, w.offset, w.offset + 1e9, 0, 0.0, 0)], closure_dtype)
    site = changed(with_site(w, sets=sets, closures=down), nodes=8).cluster.site
    assert site.sets[site.closures["set"][0]].tolist() == [0] * 15 + [1] + [0] * 8


def test_nodes_that_a_site_has_no_more_are_left_out():
    rows, number = closures(
        [{"NodeName": "gone", "TimeStart": "1", "TimeEnd": "2", "State": "DOWN"}], [], ("n1",), lambda x: 0, 9.0
    )
    assert len(rows) == 0 and not number


def test_an_array_runs_so_many_tasks_at_once():
    w = on_site(jw.workload(np.zeros(12), np.full(12, 4), np.full(12, 100.0), cluster=jw.pool(64)), 16, 4)
    asks = np.concatenate([w.cluster.site.asks] * 2)
    asks["array"], asks["at_once"] = (0, 1), (0, 3)
    jobs = w.jobs.copy()
    jobs["ask"] = np.where(np.arange(12) < 8, 1, 0)
    r = jw.simulate(replace(with_site(w, asks=asks), jobs=jobs), "slurm")
    assert most(r, np.arange(12) < 8, np.ones(12)) == 3 and (r.jobs["start"][8:] < 5).all()


def test_a_cycle_plans_so_many_tasks_of_an_array():
    """The plans of an array's tasks keep nodes from a longer job of lower priority: with fewer plans it starts sooner."""
    w = on_site(jw.workload([0, *[1] * 8, 2], [60, *[16] * 8, 4], [1000, *[100] * 8, 900], cluster=jw.pool(64)), 16, 4)
    asks, jobs = np.concatenate([w.cluster.site.asks] * 2), w.jobs.copy()
    asks["array"][len(asks) // 2 :] = 1
    jobs["ask"][1:9] += len(asks) // 2
    jobs["walltime"][9] = 5_000.0
    w = replace(with_site(w, asks=asks), jobs=jobs)
    starts = [
        jw.simulate(replace(w, cluster=replace(w.cluster, site=w.cluster.site.changed(bf_max_array=n, depth=1, sched_interval=1e6))), "slurm")
        .jobs["start"][9] for n in (20, 1)
    ]  # fmt: skip
    assert starts[1] < 100 < starts[0]
