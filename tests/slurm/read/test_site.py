"""A site's own Slurm: what was recorded on a real one is the oracle (priorities, starts), and bad folders.

Modules: cli/slurm.py, sim/site/fair_share.py, sim/site/multifactor.py, sim/site/slurm_ends.py, sim/site/slurm_loop.py,
slurm/judge/closed_loop.py, slurm/judge/fidelity.py, slurm/judge/repeats.py, slurm/read/controller_log.py,
slurm/read/guesses.py, slurm/read/recording.py, slurm/read/text.py.
"""

import csv
import gzip
import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from conftest import SHARED, write_site

from jobwise import simulate
from jobwise.cli.main import run as cli
from jobwise.errors import InputError
from jobwise.jobs import QUEUED, RUNNING
from jobwise.sim import kernel
from jobwise.sim.site import slurm_loop, slurm_tables
from jobwise.sim.site.cells import how_many
from jobwise.sim.site.multifactor import price_all, priority
from jobwise.sim.site.node_choice import choose_now
from jobwise.sim.site.node_sets import packed
from jobwise.sim.site.slurm_ends import take_free
from jobwise.sim.state import allocate
from jobwise.site import LIMITS
from jobwise.slurm.judge.closed_loop import follow
from jobwise.slurm.judge.fidelity import fidelity
from jobwise.slurm.judge.open_loop import check
from jobwise.slurm.judge.repeats import repeats
from jobwise.slurm.read import text
from jobwise.slurm.read.recording import read as read_recording
from jobwise.slurm.read.requests import by_line, options
from jobwise.slurm.read.site import read
from jobwise.workloads import fields

RECORDED = SHARED / "slurm" / "recorded"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="recordings of a real Slurm are absent")


# ------------------------------------------------------------------ priorities, the recorded schedule replayed as it was


def events(folder, kind, origin):
    with open(folder / "events.csv") as file:
        return [(float(r["epoch_s"]) - origin, r) for r in csv.DictReader(file) if r["event"].startswith(kind)]


def printed(folder, origin):
    """(time, {job: its row}) of sprio.txt."""
    found = []
    for line in (folder / "sprio.txt").read_text().splitlines():
        if line.startswith("# t="):
            found.append((float(line[4:]) - origin, {}))
        elif not line.startswith("#"):
            found[-1][1][int(line.split("|")[0])] = line.split("|")
    return found


def plans(folder, w):
    """(time, job, CPUs of the nodes that it was planned on)."""
    place = {n: i for i, n in enumerate(w.cluster.site.names)}
    with gzip.open(folder / "backfill.csv.gz", "rt") as file:
        for r in csv.reader(file):
            if r[1] == "plan":
                nodes = [place[n] for n in text.nodes(r[5])]
                yield float(r[0]) - w.origin, int(r[2]), float(w.cluster.capacity[nodes, 0].sum())


def replayed(folder):
    """Yields ({job: priority}, {job: row of sprio}) at each snapshot of sprio."""
    w = read(folder)
    o, site, row = w.origin, w.cluster.site, {int(j): i for i, j in enumerate(w.columns["job"])}
    place = {n: i for i, n in enumerate(site.names)}
    s = allocate([w], w.cluster)
    for t, r in events(folder, "submit", o):
        s.jobs[0, row[int(r["job"])]]["submit"] = t
    ended = {int(r["job"]): t for kind in ("end", "timeout") for t, r in events(folder, kind, o)}
    happened = [(t, 3, 0, None) for t, _ in events(folder, "prio_pass", o)]
    for t, r in events(folder, "start_", o):
        happened.append((t, 2, int(r["job"]), text.nodes(r["what"])))
        s.truth[0, row[int(r["job"])]]["runtime"] = ended[int(r["job"])] - t
    happened += [(t, 4, 0, rows) for t, rows in printed(folder, o)]
    m, planned = slurm_tables.scheduler(s, 0, site), list(plans(folder, w))
    m.ledger.clock[0]["priced"] = min(t for t, kind, *_ in happened if kind == 3) - site.settings["calc_period"][0]
    for t, kind, job, more in sorted(happened, key=lambda x: x[:2]):
        while kernel.advance(s, 0, t) == kernel.CHOICE:
            slurm_loop.note(s, 0, m)
        if kind == 2:
            take_free(s, 0, m)
            m.work.mask[:] = packed(np.isin(np.arange(len(place)), [place[n] for n in more]))
            k = choose_now(m, site.asks[s.jobs[0, row[job]]["ask"]], m.work.mask)
            assert how_many(m, k) == len(more) and slurm_loop.begin(s, 0, m, row[job], 0, k, np.zeros(len(LIMITS)))
            assert s.jobs[0, row[job]]["status"] == RUNNING, job
        elif kind == 3:
            for then, who, cpus in planned:
                if then <= t and s.jobs[0, row[who]]["status"] == QUEUED and site.asks[w.jobs["ask"][row[who]]]["whole"]:
                    m.ledger.planned[row[who]] = cpus
            price_all(s, 0, m)
        else:
            yield (
                {j: int(priority(m, row[j], s.jobs[0, row[j]], 0)) for j in more if s.jobs[0, row[j]]["status"] == QUEUED},
                more,
            )


@pytest.mark.slurm
@recorded
@pytest.mark.xdist_group("recorded")  # one worker compiles the passes that it calls one by one
@pytest.mark.parametrize("name", ["fifo-backfill", "size-qos", "fairshare", "memory-gpu"])
def test_priorities_are_those_that_sprio_printed(name):
    seen = 0
    for mine, rows in replayed(RECORDED / name):
        seen += len(mine)
        assert mine == {j: int(rows[j][3]) for j in mine}
    assert seen > 600


# ------------------------------------------------------------------ pass by pass

# The least shares of a recording's starts of main passes and of cycles, and of its plans, that are computed equal
OPEN = {
    "size-qos": (1.0, 1.0, 1.0),
    "fairshare": (1.0, 1.0, 1.0),
    "fifo-backfill": (1.0, 1.0, 0.999),  # a cycle that crosses a second
    "stock": (1.0, 1.0, 1.0),
    "memory-gpu": (1.0, 1.0, 0.996),
    "partitions": (1.0, 1.0, 0.995),
}
NEARLY = {"mixed": (0.92, 0.99, 0.985)}  # four main starts differ, for a reason that is not known


@pytest.mark.slurm
@recorded
@pytest.mark.xdist_group("recorded")
@pytest.mark.parametrize("name", OPEN | NEARLY)
def test_each_pass_does_what_the_real_one_did(name):
    found = check(read_recording(RECORDED / name))
    for counts, least in zip((found.main, found.backfill, found.plans), (OPEN | NEARLY)[name], strict=True):
        assert counts.equal + counts.explained >= least * counts.all, counts
    assert found.main.all + found.backfill.all == len(read(RECORDED / name)) and found.plans.all > 390


@recorded
def test_a_difference_shows_where_it_is_made():
    recording = read_recording(RECORDED / "stock")
    cycle = next(p for p in recording.passes if p.kind == "backfill" and len(p.plans) > 5)
    cycle.plans[3] = replace(cycle.plans[3], start=cycle.plans[3].start + 60)
    found = check(recording)
    assert found.plans.equal == found.plans.all - 1 and found.times == found.plans.all - 1
    wrong = [x for x in found.differences if x.kind == "plan"]
    assert len(wrong) == 1 and wrong[0].time == cycle.time and wrong[0].here != wrong[0].there


@recorded
def test_a_recording_is_checked_by_command(tmp_path, capsys):
    assert cli(["slurm", "check", str(RECORDED / "stock")]) == 0 and "starts of backfill" in capsys.readouterr().out
    assert cli(["slurm", "check", str(RECORDED / "stock"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plans_equal"] == found["plans"] == 397 and found["starts_equal"] == found["starts"] == 175
    for file in (RECORDED / "stock").iterdir():
        shutil.copy(file, tmp_path)
        (tmp_path / file.name).chmod(0o644)
    lines = (RECORDED / "stock" / "events.csv").read_text().splitlines()
    start = next(i for i, x in enumerate(lines) if "start_main" in x)
    for k, wrong in ((5, "x" + lines[5]), (start, lines[start].replace("node", "other"))):
        (tmp_path / "events.csv").write_text("\n".join([*lines[:k], wrong, *lines[k + 1 :]]) + "\n")
        assert cli(["slurm", "check", str(tmp_path)]) == 2
        err = capsys.readouterr().err
        assert f"events.csv:{k + 1}" in err and len(err.strip().splitlines()) == 1
    (tmp_path / "events.csv").unlink()
    assert cli(["slurm", "check", str(tmp_path)]) == 2 and "events.csv is missing" in capsys.readouterr().err


LINES = {
    "main_pass": "debug:  sched: Running job scheduler for {what}.",
    "backfill_begin": "sched/backfill: _attempt_backfill: beginning",
    "backfill_end": "sched/backfill: _attempt_backfill: completed testing {what} jobs, usec=100",
    "prio_pass": "priority/multifactor: _decay_thread: PRIO: Decay factor over 60 seconds goes from 0.9 -> 0.8",
    "submit": "_slurm_rpc_submit_batch_job: JobId={job} InitPrio=1 usec=500",
    "start_main": "sched: Allocate JobId={job} NodeList={what} #CPUs=1 Partition=batch",
    "start_backfill": "sched/backfill: _start_job: Started JobId={job} in batch on {what}",
    "end": "_job_complete: JobId={job} done",
    "timeout": "Time limit exhausted for JobId={job}",
}


def controller_log(folder, ahead):
    """The log that events.csv and backfill.csv.gz were made of, as a clock shows it that is so many seconds ahead of UTC."""

    def clock(t, digits=3):
        x = datetime.fromtimestamp(float(t) + ahead, UTC)
        return x.isoformat(timespec="milliseconds" if digits else "seconds").removesuffix("+00:00")

    rows = [
        (float(r["epoch_s"]), n, LINES[r["event"]].format(**r))
        for n, r in enumerate(lines(folder, "events.csv"))
        if r["event"] in LINES
    ]
    with gzip.open(folder / "backfill.csv.gz", "rt") as text:
        for n, r in enumerate(csv.reader(text)):
            if r[1] == "plan":
                where = f"to start at {clock(r[3], 0)}, end at {clock(r[4], 0)} on nodes {r[5]} in partition batch"
                rows.append((float(r[0]), 1e6 + n, f"sched/backfill: _dump_job_sched: JobId={r[2]} {where}"))
    return "slurmctld version 22.05.8 started\n" + "".join(
        f"[{clock(t)}] {x}\n" for t, _, x in sorted(rows, key=lambda x: x[0])
    )


def lines(folder, name):
    with open(folder / name, newline="") as text:
        return list(csv.DictReader(text))


@recorded
def test_the_log_of_the_controller_is_a_recording(tmp_path, capsys):
    for file in (RECORDED / "stock").iterdir():
        if file.name not in ("events.csv", "backfill.csv.gz"):
            shutil.copy(file, tmp_path)
    log = controller_log(RECORDED / "stock", 7200)
    (tmp_path / "slurmctld.log").write_text(log)
    mine, theirs = read_recording(tmp_path), read_recording(RECORDED / "stock")
    assert mine.submit == pytest.approx(theirs.submit, abs=1e-3) and mine.end == pytest.approx(theirs.end, abs=1e-3)
    assert [(p.kind, p.whole, len(p.starts), p.plans) for p in mine.passes] == [
        (p.kind, p.whole, len(p.starts), p.plans) for p in theirs.passes
    ]
    assert check(mine).plans.equal == 397
    winter = controller_log(RECORDED / "stock", 3600).splitlines()
    changed = [*log.splitlines()[: len(winter) // 2], *winter[len(winter) // 2 :]]
    no_pass = [
        x for x in log.splitlines() if "Running job" not in x and "beginning" not in x and "Start" not in x and "Alloc" not in x
    ]
    for wrong, said in (
        (log.replace("[20", "(20"), "no line begins with a time"),
        ("\n".join(changed), "summer time"),
        ("\n".join(x for x in no_pass if "completed" not in x), "no pass"),
        (re.sub(r"to start at \S+,", "to start at Unknown,", log), "slurmctld.log:"),
        ("\n".join(log.splitlines()[len(winter) // 2 :]), "before the first recorded pass"),
        ("\n".join(x for x in log.splitlines() if "submit" not in x), "no submit"),
    ):
        (tmp_path / "slurmctld.log").write_text(wrong)
        assert cli(["slurm", "check", str(tmp_path)]) == 2
        err = capsys.readouterr().err
        assert said in err and len(err.strip().splitlines()) == 1


@recorded
@pytest.mark.parametrize("name", OPEN)
def test_with_the_recorded_clocks_waits_are_the_recorded_ones(name):
    recording = read_recording(RECORDED / name)
    followed = follow(recording, check(recording))
    assert followed.near == 1 and abs(followed.error) < 0.001 and followed.order > 0.999


@recorded
def test_the_same_jobs_run_again_say_how_far_slurm_differs_from_itself(tmp_path, capsys):
    w = read(RECORDED / "stock")
    f = fidelity(w, ["slurm"], phases=2)[0]
    longer = np.random.default_rng(0).integers(0, 160, len(w))
    later = replace(w, columns=w.columns | {"wait": w.columns["wait"] + longer})
    near, far = repeats([w, later], [f, f]), repeats([w, w], [f, f])
    assert (
        near.within
        and near.pairs[0].difference == pytest.approx(longer.mean() / w.columns["wait"].mean())
        and "within" in near.sentence()
    )
    assert not far.within and far.pairs[0].near == 1 and "two real runs differ by 0.0%" in far.sentence()
    with pytest.raises(InputError, match="two runs"):
        repeats([w], [f])
    with pytest.raises(InputError, match="not those of"):
        repeats([w, read(RECORDED / "fairshare")], [f, f])
    stock = str(RECORDED / "stock")
    assert cli(["slurm", "fidelity", stock, "--again", stock, "-p", "slurm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["repeats"]["pairs"][0]["difference"] == 0
    assert cli(["slurm", "fidelity", stock, "--again", stock, "-p", "fcfs"]) == 2 and "--again" in capsys.readouterr().err


# ------------------------------------------------------------------ starts

# What holds, from what a site exports (means over phases of the clocks): error of the mean wait and the makespan, rank correlation
HOLDS = {
    "fifo-backfill": (0.07, 0.04, 0.98),
    "size-qos": (0.07, 0.05, 0.88),
    "fairshare": (0.05, 0.05, 0.95),
    "memory-gpu": (0.05, 0.05, 0.95),
    "partitions": (0.13, 0.05, 0.96),  # its jobs run whole seconds, which accounting does not tell; with them -3 %
    "stock": (0.05, 0.05, 0.99),
}


@recorded
@pytest.mark.parametrize("name", HOLDS)
def test_a_replay_waits_as_the_record_says(name):
    found = fidelity(read(RECORDED / name), ["slurm", "fcfs+easy"])
    assert found[0].policy == "slurm"  # no other explains it as well
    wait, makespan, order = HOLDS[name]
    a, b = found[0].makespan
    assert abs(found[0].error) <= wait and abs(a / b - 1) <= makespan and found[0].order >= order, found[0].row()


@recorded
def test_jobs_that_ran_are_replayed_to_the_end_under_every_rule():
    """Among them one for GPUs that names a partition without any before one that has some."""
    found = {f.policy: f for f in fidelity(read(RECORDED / "mixed"), ["slurm", "fcfs", "fcfs+easy"], phases=3)}
    assert abs(found["slurm"].error) < 0.13 and found["slurm"].order > 0.93
    assert found["fcfs"].error > 1 and found["fcfs+easy"].error < 0


@recorded
def test_a_replay_is_the_same_twice_and_holds_no_more_than_there_is():
    w = read(RECORDED / "memory-gpu")
    r, again = simulate(w, "slurm"), simulate(w, "slurm")
    assert r.jobs.tobytes() == again.jobs.tobytes()
    for j in range(len(w)):
        beside = (r.jobs["start"] <= r.jobs["start"][j]) & (r.jobs["end"] > r.jobs["start"][j])
        asks = w.cluster.site.asks[w.jobs["ask"][beside]]
        assert (asks["tasks"] * asks["cpus"]).sum() <= w.cluster.processors
        assert np.maximum(asks["gpus"], asks["gpus_node"]).sum() <= w.cluster.total[2]


# ------------------------------------------------------------------ reading


@recorded
def test_what_is_missing_is_guessed_and_named(tmp_path):
    shutil.copy(RECORDED / "memory-gpu" / "sacct.txt", tmp_path)
    w = read(tmp_path)
    told = " ".join(w.cluster.site.guesses)
    assert all(name in told for name in ("scontrol_config", "scontrol_node", "scontrol_partition", "sacctmgr_qos"))
    assert len(w.cluster.capacity) == 16 and w.cluster.total[2] == 12


@recorded
@pytest.mark.parametrize(
    "name, wrong, said",
    [
        ("sacct.txt", lambda t: "", "sacct.txt is missing"),
        ("sacct.txt", lambda t: t.replace("|Start|", "|Begin|", 1), "no column Start"),
        ("scontrol_node.txt", lambda t: t.replace("CPUTot=4", "CPUTot=four", 1), "scontrol_node.txt"),
        ("scontrol_partition.txt", lambda t: t.replace("node[01-16]", "other[01-16]"), "no partition has nodes"),
        ("sacctmgr_assoc.txt", lambda t: t.replace("test|bio|||10", "test|bio|||", 1), "no share"),
        ("scontrol_config.txt", lambda t: t + "DefMemPerCPU = much\n", "scontrol_config.txt"),
    ],
)
def test_a_wrong_folder_gets_one_line(tmp_path, capsys, name, wrong, said):
    for file in (RECORDED / "fairshare").iterdir():
        shutil.copy(file, tmp_path)
        (tmp_path / file.name).chmod(0o644)
    (tmp_path / name).write_text(wrong((tmp_path / name).read_text()))
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        read(tmp_path)
    assert cli(["slurm", "site", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@recorded
def test_the_commands(tmp_path, capsys):
    assert cli(["slurm", "site"]) == 0 and "scontrol show node" in capsys.readouterr().out
    assert cli(["slurm", "site", str(RECORDED / "fairshare")]) == 0 and "fair share 10000" in capsys.readouterr().out
    out = tmp_path / "f.html"
    assert cli(["slurm", "fidelity", str(RECORDED / "stock"), "-p", "slurm", "-p", "fcfs", "--report", str(out)]) == 0
    assert "slurm explains the record best" in capsys.readouterr().out and "recorded" in out.read_text()


def test_a_small_site_and_generated_ones(tmp_path):
    from conftest import write_site

    import jobwise as jw
    from jobwise.workloads.sites import on_site

    w = read(write_site(tmp_path / "site"))
    assert len(w) == 60 and w.cluster.total.tolist() == [16, 32_000, 2] and not w.cluster.site.guesses
    assert fidelity(w, ["slurm"])[0].order > 0.9
    log = jw.lublin(jobs=200, procs=64, load=0.9, seed=1, users=5)
    r = jw.simulate(on_site(log, 16, 4, age=1000, fair_share=1000), "slurm")
    assert (r.jobs["start"] >= r.jobs["submit"]).all() and len(r.jobs) == 200
    with pytest.raises(InputError, match="does not fit"):
        on_site(log, 2, 4)
    with pytest.raises(InputError, match="no setting"):
        on_site(log, 16, 4, weight=3)


def test_limits_hold_jobs_back_without_blocking_others():
    from dataclasses import replace

    import jobwise as jw
    from jobwise.site import qos_dtype
    from jobwise.workloads.sites import on_site

    w = on_site(jw.lublin(jobs=120, procs=64, load=1.2, seed=3, users=3), 16, 4, age=1000)
    qos = np.array([(0.0, np.inf, [np.inf] * len(LIMITS), [2] + [np.inf] * (len(LIMITS) - 1))], qos_dtype)
    jobs = w.jobs.copy()
    jobs["queue"] = 0
    limited = replace(w, jobs=jobs, cluster=replace(w.cluster, site=replace(w.cluster.site, qos=qos)))
    r = jw.simulate(limited, "slurm")
    for user in np.unique(jobs["user"]):
        mine = r.jobs[r.jobs["user"] == user]
        beside = [((mine["start"] <= t) & (mine["end"] > t)).sum() for t in mine["start"]]
        assert max(beside) == 2
    free = jw.simulate(w, "slurm")
    assert (r.jobs["start"] - r.jobs["submit"]).mean() > (free.jobs["start"] - free.jobs["submit"]).mean()


def test_backfill_tries_so_many_jobs_of_a_user():
    from dataclasses import replace

    import jobwise as jw
    from jobwise.workloads.sites import on_site

    w = on_site(jw.lublin(jobs=200, procs=64, load=1.2, seed=3, users=1), 16, 4, depth=1, sched_interval=1e6)
    few = replace(w, cluster=replace(w.cluster, site=w.cluster.site.changed(bf_max_user=1)))
    many, one = jw.simulate(w, "slurm"), jw.simulate(few, "slurm")
    assert (one.jobs["start"] - one.jobs["submit"]).mean() > (many.jobs["start"] - many.jobs["submit"]).mean()


def test_a_log_with_recorded_waits_and_one_without(tmp_path, capsys):
    import jobwise as jw
    from jobwise.workloads.swf import write_swf

    w = jw.lublin(jobs=200, procs=64, load=1.0, seed=1)
    write_swf(w, tmp_path / "no.swf")
    assert cli(["slurm", "fidelity", str(tmp_path / "no.swf")]) == 2 and "no wait is recorded" in capsys.readouterr().err
    r = jw.simulate(w, "sjf+easy")
    lines = (tmp_path / "no.swf").read_text().splitlines()
    jobs = [x.split() for x in lines if not x.startswith(";")]
    for x, wait in zip(jobs, r.jobs["start"] - r.jobs["submit"], strict=True):
        x[2] = f"{wait:.0f}"
    (tmp_path / "log.swf").write_text("\n".join([x for x in lines if x.startswith(";")] + [" ".join(x) for x in jobs]) + "\n")
    assert cli(["slurm", "fidelity", str(tmp_path / "log.swf")]) == 0
    assert "sjf+easy explains the record best" in " ".join(capsys.readouterr().out.split())
    assert cli(["slurm", "fidelity", str(tmp_path / "log.swf"), "-p", "fcfs", "-p", "nosuch"]) == 2


def test_a_log_without_a_site_has_no_slurm():
    import dataclasses

    import jobwise as jw
    from jobwise.workloads.sites import on_site

    with pytest.raises(InputError, match="slurm site"):
        simulate(jw.lublin(jobs=20, procs=8, seed=1), "slurm")
    w = on_site(jw.lublin(jobs=20, procs=8, seed=1), 2, 4)
    jobs = w.jobs.copy()
    jobs["ask"][3] = -1
    with pytest.raises(InputError, match="ask of nodes"):
        simulate(dataclasses.replace(w, jobs=jobs), "slurm")


def test_values_as_slurm_prints_them():
    assert text.nodes("n[01-03,7],x,r[1-2]c[1-2]") == ["n01", "n02", "n03", "n7", "x", "r1c1", "r1c2", "r2c1", "r2c2"]
    assert [fields.seconds(x) for x in ("1-00:00:00", "02:00:00", "30:00", "5", "1-12", "UNLIMITED")] == [
        86_400, 7200, 1800, 300, 129_600, np.inf,
    ]  # fmt: skip
    assert [text.memory(x) for x in ("4000M", "62.5G", "1T", "500", "2Gn")] == [4000, 64_000, 1_048_576, 500, 2048]
    assert text.resources("billing=2,cpu=2,gres/gpu:a100=4,mem=8G") == {"gpu": 4.0, "cpu": 2.0, "mem": 8192}
    o = options("sbatch --parsable -J x -N 2-4 --ntasks 8 -c2 --mem=3G --gres=gpu:a100:2 --exclusive job.sh -n 99")
    assert by_line(o, (0, 0)) == (2, 4, 8, 2, 0, 3072, 0, 2, True, *(0,) * 12)


def test_a_constraint_asks_for_all_features_of_one_alternative(tmp_path):
    """a&b|c: the nodes that have a and b, or c; one that has a alone is none of them."""
    folder = write_site(tmp_path / "site", jobs=6)
    lines = (folder / "scontrol_node.txt").read_text().splitlines()
    has = ("fast", "fast,big", "old", "big")
    (folder / "scontrol_node.txt").write_text(
        "\n".join(f"{x} AvailableFeatures={f}" for x, f in zip(lines, has, strict=True)) + "\n"
    )
    rows = (folder / "sacct.txt").read_text()
    (folder / "sacct.txt").write_text(rows.replace(" job.sh", " '--constraint=fast&big|old' job.sh", 1))
    w = read(folder)
    ask = w.cluster.known_site.asks[w.jobs["ask"]]
    sets = w.cluster.known_site.sets[ask["set"]]
    assert sets[0].tolist() == [0, 1, 1, 0] and (sets[1:] == 1).all()


@recorded
@pytest.mark.parametrize(
    ("wrong", "left"),
    [
        (lambda t: t.replace("|batch|", "|night|", 1), "1 of partitions that the site does not have (night)"),
        (lambda t: t[: t.index("\n9|") + 60], "sacct.txt:10: "),
    ],
)
def test_a_wrong_row_is_left_out_and_named(tmp_path, wrong, left):
    """Nothing but a folder of which no job can be read is refused."""
    for file in (RECORDED / "fairshare").iterdir():
        shutil.copy(file, tmp_path)
        (tmp_path / file.name).chmod(0o644)
    whole = len(read(tmp_path))
    (tmp_path / "sacct.txt").write_text(wrong((tmp_path / "sacct.txt").read_text()))
    w = read(tmp_path)
    assert 0 < len(w) < whole and left in w.left_out and w.left_out.count("1 ") >= 1
