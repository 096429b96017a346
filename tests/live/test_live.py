"""A running cluster, read from the outputs of Slurm's commands: predicted starts, both dialects, bad input; recorded sites.

Modules: cli/asks.py, cli/slurm_fits.py, cli/slurm_when.py, live/alternatives.py, live/sources.py, live/standing.py, live/starts.py,
sim/site/slurm_stand.py, slurm/read/batch.py.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARED, programs
from cycles import Shadowing

from jobwise.cli import asks as asking
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.alternatives import changes_of
from jobwise.live.standing import SitePlayer
from jobwise.live.starts import in_words, predict
from jobwise.policies.names import resolve
from jobwise.slurm.client import Slurm
from jobwise.slurm.read.batch import lines_of, read_batch, time_limit
from jobwise.slurm.read.jobs import NEW
from jobwise.slurm.read.recording import read as read_recording
from jobwise.starts import futures
from jobwise.starts.calibration import Calibration
from jobwise.starts.history import History

RECORDED = SHARED / "slurm" / "recorded"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="recordings of a real Slurm are absent")
pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]


AHEAD = 900.0  # s after the last end of the history


def job(id, cpus, minutes, now, state="PENDING", reason="Priority", waited=600, nodes="", ran=0, **more):
    """A job as `squeue --json` of 22.05 has it."""
    x = {"job_id": id, "job_state": state, "state_reason": reason, "name": f"j{id}", "user_name": "u1", "account": "all"}
    x |= {
        "partition": "batch",
        "qos": "normal",
        "submit_time": int(now - waited - ran),
        "eligible_time": int(now - waited - ran),
    }
    x |= {"time_limit": minutes, "cpus": cpus, "node_count": 1, "tres_req_str": f"cpu={cpus},mem=100M,node=1", "nodes": nodes}
    x |= {"tres_alloc_str": f"cpu={cpus},mem=100M,node=1" if nodes else "", "features": "", "array_job_id": 0}
    x |= {
        "array_task_id": None,
        "array_task_string": "",
        "start_time": int(now - ran) if nodes else int(now + 3600),
        "exit_code": 0,
    }
    return x | more


def newer(x):
    """The same in 24.11's dialect."""
    wrapped = {
        k: {"set": v is not None, "infinite": False, "number": v or 0} if k.endswith(("_time", "_limit", "cpus")) else v
        for k, v in x.items()
    }
    return wrapped | {"job_state": [x["job_state"]], "array_task_id": {"set": False, "infinite": False, "number": 0}}


@pytest.fixture
def cluster(site_folder, tmp_path):
    """A full machine of 16 CPUs, and jobs that wait: a wide one, a narrow one, an array, one that is held, one that depends."""
    folder = tmp_path / "seen"
    shutil.copytree(site_folder, folder)
    rows = (folder / "sacct.txt").read_text().splitlines()
    ends = [int(r.split("|")[10]) for r in rows[1:]]
    now = max(ends) + AHEAD
    running = {"state": "RUNNING", "reason": "None"}
    jobs = [
        job(9001, 8, 600, now, nodes="n[1-2]", ran=3000, **running),
        job(9002, 4, 600, now, nodes="n3", ran=100, **running),
        job(9003, 4, 30, now, nodes="n4", ran=60, **running),
        job(9004, 16, 120, now, reason="Resources", waited=900),
        job(9005, 4, 20, now, waited=300),
        job(9006, 1, 10, now, waited=200, array_job_id=9006, array_task_string="0-2"),
        job(9007, 4, 10, now, reason="JobHeldUser"),
        job(9008, 4, 10, now, reason="Dependency", eligible_time=0),
        job(9009, 1, 10, now, state="COMPLETED", nodes="n1", ran=600, end_time=int(now - 100)),
        job(9010, 1, 10, now, state="CANCELLED", start_time=0, end_time=int(now - 50)),
    ]
    (folder / "squeue.json").write_text(json.dumps({"jobs": jobs}))
    (folder / "now.txt").write_text(f"{now:.3f}\n")
    return folder


@pytest.mark.parametrize("reason", ["None", "Priority"])
def test_a_job_that_is_eligible_later_does_not_wait_yet(cluster, reason):
    """sbatch --begin: squeue may not have its reason yet. A wait below zero would be no number in the policy's scores."""
    seen = json.loads((cluster / "squeue.json").read_text())
    now = float((cluster / "now.txt").read_text())
    seen["jobs"] += [job(9011, 2, 10, now, reason=reason, eligible_time=int(now + 3600))]
    seen["jobs"] += [job(9012, 2, 10, now, reason=reason, eligible_time=int(now) + 1)]
    (cluster / "squeue.json").write_text(json.dumps(seen))
    c = sources.look(cluster)
    assert 9011 in c.out and 9011 not in c.waiting and 9012 in c.waiting
    shadow = Shadowing(resolve("jobwise"))
    shadow.cycle(c)
    assert shadow.problem == "" and {x["job"] for x in shadow.order} >= set(c.waiting)


def test_a_clock_that_is_behind_slurms_ranks_all_the_same(cluster):
    """The machine's clock is half an hour behind: jobs seem to come from the future; they wait, for 0 s."""
    now = float((cluster / "now.txt").read_text())
    (cluster / "now.txt").write_text(f"{now - 1800}\n")
    shadow = Shadowing(resolve("jobwise"))
    shadow.cycle(c := sources.look(cluster))
    assert set(c.waiting) == {9004, 9005, 9006} and shadow.problem == "" and {x["job"] for x in shadow.order} >= set(c.waiting)


def test_what_waits_runs_and_has_ended(cluster):
    c = sources.look(cluster)
    jobs, ids = c.workload.jobs, c.workload.columns["job"].tolist()
    assert set(c.waiting) == {9004, 9005, 9006} and set(c.out) == {9007, 9008} and c.waiting[9006].tasks == 3
    assert 9007 not in ids and 9010 not in ids  # one cannot start, the other was cancelled while it waited
    state = {i: (np.isnan(jobs["start"][k]), np.isnan(jobs["end"][k])) for k, i in enumerate(ids)}
    assert [state[i] for i in (1, 9001, 9004)] == [(False, False), (False, True), (True, True)]
    k = c.row(9009)  # accounting does not know its end yet, squeue does
    assert jobs["end"][k] - jobs["start"][k] == 500 and c.now - jobs["end"][k] == pytest.approx(100, abs=1)
    assert sum(i > NEW for i in ids) == 2  # the other tasks of the array
    k = c.row(9001)
    assert c.now - jobs["start"][k] == pytest.approx(3000, abs=1) and jobs["request"][k, 0] == 8
    assert c.now - jobs["submit"][c.row(9004)] == pytest.approx(900, abs=1)


def test_both_dialects_are_one_cluster(cluster):
    first = predict(sources.look(cluster), count=8)
    jobs = json.loads((cluster / "squeue.json").read_text())["jobs"]
    (cluster / "squeue.json").write_text(json.dumps({"jobs": [newer(x) for x in jobs]}))
    second = predict(sources.look(cluster), count=8)
    assert first.rows() == second.rows() and len(first.rows()) == 3


def test_site_factors_are_part_of_what_is_predicted(cluster):
    """The narrow job and the array wait for the wide one, unless their priorities are raised: sprio says by how much."""
    factors = {9004: 10**6, 9005: 0, 9006: 0}
    (cluster / "sprio.txt").write_text("".join(f"{id}|{100 + x}|{x}\n" for id, x in factors.items()))
    c = sources.look(cluster)
    assert c.factors[9004] == (10**6 + 100, 10**6) and c.steered.cluster.known_site is not c.workload.cluster.known_site
    tasks = [NEW + 1 + 9006 * sources.MOST_TASKS + k for k in (1, 2)]
    assert {id: x for id, x in c.factors.items() if id > NEW} == dict.fromkeys(tasks, (100, 0))
    raised, other = ({x["job"]: x["start"] for x in predict(c, count=8, earlier=0, steered=k).rows()} for k in (True, False))
    (cluster / "sprio.txt").write_text("9004|1|0\n9005|1000|900\n9006|2000|1900\n")
    c = sources.look(cluster)
    asks, ids = c.steered.cluster.known_site.asks, c.steered.columns["job"].tolist()
    nice = {id: int(asks[c.steered.jobs["ask"][k]]["nice"]) for k, id in enumerate(ids) if np.isnan(c.steered.jobs["start"][k])}
    assert nice == {9004: 0, 9005: -900, 9006: -1900} | dict.fromkeys(tasks, -1900)
    lowered = {x["job"]: x["start"] for x in predict(c, count=8, earlier=0).rows()}
    assert raised[9004] <= other[9004] <= lowered[9004] and raised != lowered


@pytest.mark.parametrize(
    "about, level, uid, hides",
    [
        ("PrivateData = jobs,usage\nSlurmUser = slurm(64030)", "None", 1000, True),
        ("PrivateData = jobs,usage\nSlurmUser = slurm(64030)", "", 1000, True),
        ("PrivateData = jobs,usage\nSlurmUser = slurm(64030)", "Operator\n", 1000, False),
        ("PrivateData = jobs\nSlurmUser = me(1000)", "None", 1000, False),
        ("PrivateData = jobs\nSlurmUser = slurm(64030)", "None", 0, False),
        ("PrivateData = usage\nSlurmUser = slurm(64030)", "None", 1000, False),
        ("", "", 1000, False),
    ],
)
def test_jobs_that_private_data_hides_are_no_empty_queue(tmp_path, monkeypatch, about, level, uid, hides):
    monkeypatch.setattr("jobwise.live.sources.getpass.getuser", lambda: "me")
    monkeypatch.setattr("jobwise.live.sources.os.geteuid", lambda: uid)
    (tmp_path / "scontrol_config.txt").write_text(about + "\n")
    (tmp_path / "sacctmgr_user.txt").write_text(level)
    assert bool(sources.hidden(tmp_path)) == hides


def test_what_a_job_may_ask_for_instead(cluster):
    """The second partition takes it, one QOS more may be named by its user, and half the tasks are half the CPUs."""
    (cluster / "scontrol_partition.txt").write_text(
        "PartitionName=batch\n   MaxTime=UNLIMITED State=UP\n   Nodes=n[1-4]\n\n"
        "PartitionName=short\n   MaxTime=01:00:00 State=UP\n   Nodes=n[1-4]\n"
    )
    head, *rows = (cluster / "sacct.txt").read_text().splitlines()  # the second partition has had jobs of an hour and less
    at = head.split("|").index("TimelimitRaw")
    rows = [x.replace("|batch|", "|short|") if int(x.split("|")[at]) <= 60 else x for x in rows]
    (cluster / "sacct.txt").write_text("\n".join([head, *rows]) + "\n")
    (cluster / "scontrol_config.txt").write_text(
        "PriorityType = priority/multifactor\nPriorityWeightAge = 1000\nPriorityWeightQOS = 100000\nAccountingStorageEnforce = qos\n"
    )
    qos = "Name|Priority|MaxWall|GrpTRES|MaxTRESPU|MaxJobsPU|GrpJobs\nnormal|0|||||\nhigh|100|||||\nother|100|||||\n"
    (cluster / "sacctmgr_qos.txt").write_text(qos)
    rows = ["Cluster|Account|User|Share|ParentName|QOS", "|root|||root|", "|all||1|root|normal", "|all|u1|1||normal,high"]
    (cluster / "sacctmgr_assoc.txt").write_text("\n".join(rows) + "\n")
    c = sources.look(cluster)
    assert c.qos == {("u1", "all"): ("normal", "high")}
    p = predict(c, count=8, earlier=0)
    changes, other = changes_of(c, p.player.w, c.row(9005))
    assert [x.words for x in changes] == [
        *("half the time limit", "a quarter of the time limit", "--time-min=5 --requeue, if it can begin again"),
        "half the tasks for twice the time",
        *("partition short", "QOS high"),
    ]
    half = changes[3].fields
    assert half["request"].tolist()[0] == 2 and half["walltime"] == 2400 and changes[3].slower == 2.0
    asks = other.cluster.known_site.asks
    assert asks[int(half["ask"])]["tasks"] == 2 and len(asks) == len(p.player.w.cluster.known_site.asks) + 1
    offers = {o.change.words: o for o in p.sooner(9004)}
    assert offers["QOS high"].start <= offers["QOS high"].own[0] and offers["half the tasks for twice the time"].sooner > 0.5


def test_predictions_of_a_cluster(cluster):
    p = predict(sources.look(cluster))
    rows = {x["job"]: x for x in p.rows()}
    assert set(rows) == {9004, 9005, 9006}
    for x in rows.values():
        assert 0 <= x["start_90"][0] <= x["start_80"][0] <= x["start"] <= x["start_80"][1] <= x["start_90"][1] < x["end"] + 1e9
        assert x["within_1h"] <= x["within_24h"] and x["slurm"] == pytest.approx(3600, abs=1)
    limit = 600 * 60 - 100
    assert rows[9004]["start"] <= limit and rows[9004]["frees"] and set(rows[9004]["frees"]) <= {9001, 9002, 9003}
    assert rows[9005]["why"] == in_words("Priority") and rows[9004]["why"] == in_words("Resources")
    assert rows[9005]["start"] <= rows[9004]["start"]  # it is backfilled
    again = predict(sources.look(cluster))
    assert again.rows() == p.rows()


def test_the_last_starts_calibrate_predictions(cluster):
    c, known = sources.look(cluster), Calibration()
    predict(c, count=4, earlier=3, calibration=known)
    jobs = c.workload.jobs
    waited = jobs["submit"][(jobs["start"] > jobs["submit"] + 1.0) & (jobs["submit"] < c.now)]
    earlier = [x for x in known.made if x < c.now + c.workload.origin - 1e-6]
    assert len(waited) > 12 and sorted(set(earlier)) == sorted(set(waited[-3:] + c.workload.origin))


def test_other_schedulers_on_the_same_nodes(cluster):
    starts = {
        p: {x["job"]: x["start"] for x in predict(sources.look(cluster), p, count=8).rows()} for p in ("fcfs", "saf+easy")
    }
    assert starts["fcfs"][9005] >= starts["fcfs"][9004] and starts["saf+easy"][9005] <= starts["saf+easy"][9004]
    with pytest.raises(InputError, match="under slurm and list schedulers"):
        predict(sources.look(cluster), "tiresias:3600")


@pytest.mark.cli
def test_the_commands(cluster, capsys):
    assert run(["slurm", "when", "--folder", str(cluster), "--json", "--sooner"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert [x["job"] for x in out["cannot_start"]] == [9007, 9008] and {x["job"] for x in out["jobs"]} == {9004, 9005, 9006}
    assert all("sooner" in x for x in out["jobs"])
    for only in (["9004"], ["--user", "u2"]):  # nothing of the held jobs, which are another user's, or were not asked about
        assert run(["slurm", "when", *only, "--folder", str(cluster), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["cannot_start"] == []
    assert run(["slurm", "when", "9004", "9007", "--folder", str(cluster)]) == 0
    text = capsys.readouterr().out
    assert "it is the next of its partition" in text and "its user holds it" in text and "9005" not in text
    assert run(["slurm", "when", "--folder", str(cluster), "--user", "nobody"]) == 0
    assert "no job waits" in capsys.readouterr().out
    assert run(["slurm", "fits", "--folder", str(cluster), "--procs", "4", "--time", "2h", "--json"]) == 0
    new = json.loads(capsys.readouterr().out)
    assert new["cpus"] == 4 and new["limit"] == 7200 and new["start"] >= 0
    assert run(["slurm", "fits", "--folder", str(cluster), "--procs", "4", "--time", "2h"]) == 0
    assert "starts in" in capsys.readouterr().out
    assert run(["slurm", "fits", "--folder", str(cluster), "--procs", "4", "--time", "2h", "--rough"]) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.startswith("roughly: 4 CPUs for 2.0 h in batch: starts ") and second.startswith("4 CPUs for 2.0 h in batch: ")


SCRIPT = """#!/bin/bash
# a comment
#SBATCH --job-name=x --ntasks=2
#SBATCH -c 2   # two each
#SBATCH --time=12:00:00

#SBATCH --partition=batch
echo hello
#SBATCH --ntasks=99
"""


def test_a_script_is_asked_about_and_the_changed_line_printed(cluster, tmp_path, capsys):
    """Two tasks of two CPUs for 12 h, as sbatch reads it: lines behind the first command do not count."""
    (tmp_path / "job.sh").write_text(SCRIPT)
    words = ["slurm", "fits", "--folder", str(cluster), "--batch", str(tmp_path / "job.sh")]
    assert run([*words, "--json"]) == 0
    new = json.loads(capsys.readouterr().out)
    assert new["cpus"] == 4 and new["limit"] == 12 * 3600 and new["partition"] == "batch"
    assert run(["slurm", "fits", "--folder", str(cluster), "--procs", "4", "--time", "12h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["start"] == pytest.approx(new["start"], abs=60)
    for x in new["sooner"]:
        assert x["change"].startswith(("half the t", "--time-min")) or x["line"].startswith("#SBATCH --")
    assert run(words) == 0 and "4 CPUs for 12.0 h in batch: starts in" in capsys.readouterr().out


ASKS = [sys.executable, "-m", "jobwise.cli.asks"]
NEXTFLOW = """#!/bin/bash
#SBATCH -J nf-work
#SBATCH -o .command.log
#SBATCH --no-requeue
#SBATCH -c 4
#SBATCH -t 12:00:00
#SBATCH -p batch
NXF_CHDIR=/tmp
"""
PARSL = """#!/bin/bash

#SBATCH --job-name=parsl.block-0
#SBATCH --nodes=1
#SBATCH --time=12:00:00
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --partition=batch

export JOBNAME="parsl.block-0"
"""
PLUGIN = [
    "--parsable",
    "--job-name",
    "3f2a",
    "--output",
    "it's/%j.log",
    "--export=ALL",
    "--comment",
    "rule_work",
    "-p",
    "batch",
]
PLUGIN += ["-t", "720", "--mem", "100", "--ntasks=1", "--cpus-per-task=4", "-D", "/tmp", "--wrap=echo a\necho b"]


def asks(folder, cluster, words, **more):
    """What sbatch-asks does with words of a command line, in a folder where `sbatch` is a program that prints them."""
    (folder / "sbatch").write_text('#!/bin/sh\nprintf "%s\\0" "$@"\nexit 3\n')
    (folder / "sbatch").chmod(0o755)
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = (
        os.environ
        | {"PATH": paths, "SBATCH": str(folder / "sbatch"), "JOBWISE_FITS": f"--folder {cluster}", "JOBWISE_SECONDS": "60"}
        | more
    )
    return subprocess.run([*ASKS, *words], capture_output=True, text=True, env=variables, cwd=folder, check=False)


@pytest.mark.cli
@pytest.mark.parametrize(
    "script, words", [(NEXTFLOW, []), (PARSL, []), ("", PLUGIN), ("#!/bin/sh\n#SBATCH -c 9\n", PLUGIN[:-1])]
)
def test_workflow_tools_ask_before_they_submit(cluster, tmp_path, script, words):
    """The scripts of Nextflow and Parsl, and the command line of Snakemake's plugin for Slurm, as these tools write them."""
    if script:
        (tmp_path / "job.sh").write_text(script)
        words = [*words, "job.sh"]
    done = asks(tmp_path, cluster, words)
    assert "4 CPUs for 12.0 h in batch: starts in" in done.stderr
    assert done.returncode == 3 and done.stdout.split("\0")[:-1] == words


@pytest.mark.cli
def test_a_job_is_submitted_whatever_jobwise_says(cluster, tmp_path):
    (tmp_path / "job.sh").write_text("#!/bin/sh\necho no limit\n")
    done = asks(tmp_path, cluster, ["job.sh"])
    assert "names no time limit" in done.stderr and done.stdout == "job.sh\0" and done.returncode == 3
    done = asks(tmp_path, cluster, ["job.sh"], JOBWISE_FITS="--nonsense")
    assert "nonsense" in done.stderr and done.stdout == "job.sh\0" and done.returncode == 3
    done = asks(tmp_path, cluster, ["job.sh"], SBATCH=str(tmp_path / "none"))
    assert "none: No such file" in done.stderr and done.returncode == 1
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -t 10\necho\n")
    done = asks(tmp_path, cluster, ["job.sh"], JOBWISE_SECONDS="0.01", JOBWISE_MINUTES="0")
    assert done.stdout == "job.sh\0" and done.returncode == 3 and "no answer within 0.01 s" in done.stderr


@pytest.mark.cli
def test_jobs_that_ask_for_the_same_are_asked_about_once(cluster, tmp_path):
    """The second has another name and other files: it has the answer of the first, in the file of answers under its name. The
    third asks for more, on a line with its name."""
    file, nobody = str(tmp_path / "answers"), {"JOBWISE_SECONDS": "0.01"}  # who is asked then does not answer
    words = ["-n", "2", "-t", "30", "--wrap", "sleep 300"]
    evil = "align|;1e touch taken;#"
    first = asks(tmp_path, cluster, ["-J", evil, *words], JOBWISE_ANSWERS=file)
    second = asks(tmp_path, cluster, ["--job-name=sort", "-o", "x/%j.log", *words], JOBWISE_ANSWERS=file, **nobody)
    assert "2 CPUs for 30 min in batch: starts " in first.stderr and second.stderr == first.stderr
    lines = Path(file).read_text().splitlines()
    count = len(first.stderr.splitlines())
    names = [x.rpartition(": 2 CPUs")[0][20:] for x in lines if "2 CPUs" in x]  # behind the time
    assert names == [evil, "sort"] and len(lines) == 2 * count
    assert not (tmp_path / "taken").exists()
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --job-name=b -n 2 --time=1:00:00\ntrue\n")
    (tmp_path / "data.txt").write_text("#SBATCH -n 9\n")
    third = asks(tmp_path, cluster, ["-c", "2", "job.sh", "data.txt"])
    assert "4 CPUs for 60 min in batch: starts " in third.stderr
    assert "no answer" in asks(tmp_path, cluster, ["-c", "1", "job.sh", "data.txt"], **nobody).stderr


def test_an_answer_that_is_kept_says_how_old_it_is(tmp_path, monkeypatch):
    """Also that there was none: whoever submits two hundred jobs alike does not wait for each."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(asking, "_fits", lambda words: f"starts now: {len(words)}")
    assert asking.asked(["-n", "2", "-J", "a\nb", "--comment=align s1"]) == ("a b align s1", "starts now: 5")
    (kept,) = (x for x in (tmp_path / "jobwise" / "asks").iterdir() if x.suffix != ".lock")
    os.utime(kept, (time.time() - 130, time.time() - 130))
    name, answer = asking.asked(["-n", "2"])
    assert name == "wrap" and answer == "starts now: 5 (as of 2 min ago)"
    os.utime(kept, (time.time() - 400, time.time() - 400))
    assert asking.asked(["-n", "2"])[1] == "starts now: 2"


@pytest.mark.cli
def test_a_script_on_standard_input_is_asked_about_and_passed_on(cluster, tmp_path):
    (tmp_path / "sbatch").write_text("#!/bin/sh\ncat\n")
    (tmp_path / "sbatch").chmod(0o755)
    more = {"SBATCH": str(tmp_path / "sbatch"), "JOBWISE_FITS": f"--folder {cluster}", "JOBWISE_SECONDS": "60"}
    script = "#!/bin/sh\n#SBATCH -c 3\n#SBATCH -t 30\necho hello\n"
    words = [*ASKS, "--parsable"]
    done = subprocess.run(words, input=script, capture_output=True, text=True, env=os.environ | more, check=False)
    assert done.stdout == script and "3 CPUs for 30 min in batch: starts " in done.stderr and "predicting" not in done.stderr
    done = subprocess.run([*ASKS, "--version"], capture_output=True, text=True, env=os.environ | more, check=False, input="")
    assert done.stderr == "" and done.returncode == 0


@pytest.mark.cli
def test_jobs_alike_that_are_submitted_at_once_are_asked_about_once(cluster, tmp_path):
    """The second waits for the answer of the first."""
    (tmp_path / "sbatch").write_text("#!/bin/sh\n")
    (tmp_path / "sbatch").chmod(0o755)
    more = {"SBATCH": str(tmp_path / "sbatch"), "JOBWISE_FITS": f"--folder {cluster}", "JOBWISE_SECONDS": "60"}
    env = os.environ | more
    words = [*ASKS, "-n", "3", "-t", "41", "--wrap", "true"]
    both = [subprocess.Popen([*words, "-J", x], stderr=subprocess.PIPE, text=True, env=env) for x in "ab"]
    said = [re.sub(r" \(as of .*\)", "", p.communicate()[1]) for p in both]
    assert said[0].strip() == said[1].strip() and "3 CPUs for 41 min in batch: starts " in said[0]


@pytest.mark.parametrize("limit", ["UNLIMITED", "0", "9999999999999"])
def test_a_limit_that_is_none_is_said(tmp_path, limit):
    (tmp_path / "job.sh").write_text(f"#!/bin/sh\n#SBATCH --time={limit}\n")
    with pytest.raises(InputError, match="a time limit of .* cannot be predicted"):
        read_batch(str(tmp_path / "job.sh"))


@pytest.mark.cli
@pytest.mark.skipif(not shutil.which("snakemake"), reason="Snakemake is not installed")
def test_snakemake_asks_before_it_submits(cluster, tmp_path):
    """Snakemake itself, with its executor for any cluster (snakemake-executor-plugin-cluster-generic)."""
    (tmp_path / "Snakefile").write_text(
        'rule a:\n    output: "a.txt"\n    threads: 4\n    resources: runtime=720\n    shell: "echo hi > {output}"\n'
    )
    (tmp_path / "run").write_text('#!/bin/sh\nfor x in "$@"; do [ -f "$x" ] && sh "$x" >&2; done; echo 77\n')
    (tmp_path / "run").chmod(0o755)
    submit = f"{' '.join(ASKS)} --cpus-per-task={{threads}} --time={{resources.runtime}} --partition=batch"
    words = ["snakemake", "-j1", "--executor", "cluster-generic", "--cluster-generic-submit-cmd", submit]
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = os.environ | {
        "PATH": paths,
        "SBATCH": str(tmp_path / "run"),
        "JOBWISE_FITS": f"--folder {cluster}",
        "JOBWISE_SECONDS": "60",
    }
    done = subprocess.run(words, capture_output=True, text=True, env=variables, cwd=tmp_path, check=False, timeout=120)
    assert done.returncode == 0 and (tmp_path / "a.txt").read_text() == "hi\n", done.stderr
    assert "4 CPUs for 12.0 h in batch: starts in" in done.stderr


def test_lines_of_other_requests(cluster):
    site = sources.look(cluster).workload.cluster.known_site
    ask = site.asks[0].copy()
    ask["tasks"], ask["nodes"] = 6, 3
    assert lines_of({"walltime": 5400.0}, site, ask) == ["#SBATCH --time=1:30:00"]
    assert lines_of({"partition": 0.0}, site, ask) == [f"#SBATCH --partition={site.partition_names[0]}"]
    assert lines_of({"queue": 0.0}, site, ask) == [f"#SBATCH --qos={site.qos_names[0]}"]
    half = ["#SBATCH --nodes=2", "#SBATCH --ntasks=3", "#SBATCH --time=1:30:00"]
    assert lines_of({"walltime": 5400.0, "ask": 1.0}, site, ask) == half


@pytest.mark.parametrize("text, s", [("90m", 5400), ("2:00:00", 7200), ("1-12", 129_600), ("2d", 172_800), ("30:00", 1800)])
def test_time_limits_as_people_and_sbatch_write_them(text, s):
    assert time_limit(text) == s


@pytest.mark.parametrize("text", ["120", "30s", "long", "", "-1h", "1:2:3:4"])
def test_a_time_limit_that_may_mean_two_things_is_refused(text):
    with pytest.raises(InputError, match="such as 90m, 12h, 2d or 2:00:00"):
        time_limit(text)


@pytest.mark.parametrize(
    "text, says",
    [
        ("echo hello\n", ":1: a batch script begins with #!"),
        ("#!/bin/sh\n#SBATCH -n 4\n", "names no time limit"),
        ("#!/bin/sh\n#SBATCH -n four -t 10\n", "an option cannot be read"),
        ("#!/bin/sh\n#SBATCH --comment='x\n", ":2: "),
    ],
)
def test_bad_scripts_are_one_line(cluster, tmp_path, capsys, text, says):
    (tmp_path / "job.sh").write_text(text)
    assert run(["slurm", "fits", "--folder", str(cluster), "--batch", str(tmp_path / "job.sh")]) == 2
    assert says in capsys.readouterr().err


def test_several_clusters_and_partitions_stand_in_one_table(cluster, tmp_path, capsys):
    """The same cluster with an empty queue starts it at once."""
    quiet = tmp_path / "quiet"
    shutil.copytree(cluster, quiet)
    (quiet / "squeue.json").write_text('{"jobs": []}')
    words = ["slurm", "fits", "--procs", "4", "--time", "2h", "--cluster", f"busy={cluster}", "--cluster", f"quiet={quiet}"]
    assert run([*words, "--json"]) == 0
    places = json.loads(capsys.readouterr().out)["places"]
    assert [x["cluster"] for x in places] == ["quiet", "busy"] and places[0]["start"] < 60 < places[1]["start"]
    assert run(words) == 0 and "where it starts first" in capsys.readouterr().out
    assert run(["slurm", "fits", "--procs", "4", "--time", "2h", "--folder", str(cluster), "--partition", "all"]) == 0
    assert "batch" in capsys.readouterr().out
    for more, says in (
        (["--cluster", "x"], "NAME=FOLDER"),
        (["--cluster", "x=/none"], "is no folder"),
        (["--folder", "x"], "leave"),
    ):
        assert run([*words, *more]) == 2 and says in capsys.readouterr().err
    assert run(["slurm", "fits", "--procs", "4000", "--time", "2h", "--cluster", f"busy={cluster}"]) == 2
    assert "it fits nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("part", [0.0, 0.49, 0.51, 0.999])
def test_a_new_job_fits_at_any_part_of_a_second(cluster, capsys, part):
    (cluster / "now.txt").write_text(f"{np.floor(float((cluster / 'now.txt').read_text())) + part:.3f}\n")
    assert run(["slurm", "fits", "--folder", str(cluster), "--procs", "4", "--time", "2h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["waited"] < 1


def bad(folder, name, text):
    (folder / name).write_text(text)
    return ["when", "--folder", str(folder)]


@pytest.mark.parametrize(
    "words, says",
    [
        (lambda f: ["when", "4711", "--folder", str(f)], "job 4711 does not wait"),
        (lambda f: ["when", "--folder", str(f), "--keep", "x"], "name one of them"),
        (lambda f: ["when", "--folder", str(f / "none")], "squeue.json is missing"),
        (lambda f: bad(f, "squeue.json", '{"jobs": [{"job_id"'), "no whole output"),
        (lambda f: bad(f, "squeue.json", "[]"), "no whole output"),
        (lambda f: bad(f, "scontrol_node.txt", "nonsense\n"), "scontrol_node.txt"),
        (lambda f: ["fits", "--folder", str(f), "--procs", "4", "--time", "5s"], "a minute or more"),
        (lambda f: ["fits", "--folder", str(f), "--procs", "4", "--time", "2h", "--partition", "x"], "the cluster has batch"),
        (
            lambda f: ["fits", "--folder", str(f), "--procs", "99", "--time", "2h"],
            "can hold `--ntasks=99`; its largest node has 4 CPUs, 8 GiB, 2 GPUs",
        ),
    ],
)
def test_wrong_use_is_one_line(cluster, capsys, words, says):
    assert run(["slurm", *words(cluster)]) == 2
    out, err = capsys.readouterr()
    last = err.strip().split("\n")[-1]
    assert out == "" and last.startswith("jobwise: ") and says in last, err


def test_without_slurm_it_says_so(capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for words in (["when"], ["fits", "--procs", "1", "--time", "1h"]):
        assert run(["slurm", *words]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.strip().split("\n")[-1].startswith("jobwise: there is no Slurm here")


@pytest.mark.slurm
def test_commands_are_asked_once_each_and_kept(tmp_path, monkeypatch, capsys, cluster):
    """A folder of small programs in place of Slurm: what they print is what is kept."""
    place, asked = tmp_path / "bin", tmp_path / "asked"
    log = {n: f'echo "{n} $*" >> {asked}' for n in ("squeue", "sacct", "scontrol", "sacctmgr", "sshare")}
    monkeypatch.setenv("PATH", programs(place, cluster, **log))
    assert run(["slurm", "when", "--keep", str(tmp_path / "kept"), "--json"]) == 0
    assert {x["job"] for x in json.loads(capsys.readouterr().out)["jobs"]} <= {9004, 9005, 9006}
    words = [line.split()[0] for line in asked.read_text().splitlines()]
    assert words.count("squeue") == words.count("sacct") == 1 and words.count("scontrol") == 4
    asked.unlink()
    assert run(["slurm", "fits", "--procs", "2", "--time", "1h", "--json"]) == 0 and "start" in capsys.readouterr().out
    assert [line.split()[0] for line in asked.read_text().splitlines()].count("squeue") == 1
    assert (tmp_path / "kept" / "squeue.json").read_text() == (cluster / "squeue.json").read_text()
    assert run(["slurm", "when", "--keep", str(tmp_path / "kept")]) == 2
    (place / "squeue").write_text("#!/bin/sh\necho lost >&2\nexit 1\n")
    assert run(["slurm", "when"]) == 2
    assert "squeue: lost" in capsys.readouterr().err


@pytest.mark.slurm
def test_names_may_be_any_bytes(tmp_path, monkeypatch, cluster):
    """Any user can name a job so; what reads all jobs goes on."""
    text = (cluster / "squeue.json").read_bytes().replace(b'"j9005"', b'"\xff\xfe"')
    (cluster / "squeue.json").write_bytes(text)
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", cluster))
    sources.fetch(Slurm(), tmp_path / "fetched")
    assert sources.look(tmp_path / "fetched").waiting[9005].name == "\ufffd\ufffd"


@recorded
@pytest.mark.parametrize("name", ["size-qos", "partitions", "memory-gpu"])
def test_who_knows_the_future_foretells_a_real_slurm(name):
    """From recorded moments on, with true run times and arrivals: within seconds of the real starts."""
    r = read_recording(RECORDED / name)
    jobs = r.workload.jobs.copy()
    jobs["start"] = jobs["submit"] + r.workload.columns["wait"]
    jobs["end"] = r.workload.ends["end"]
    h, player, errors = History(jobs), SitePlayer(r.workload, resolve("slurm")), []
    cycles = [x.time for x in r.passes if x.kind == "backfill" and x.plans]
    for now in cycles[:: len(cycles) // 6]:
        d = futures.draw(h.at(now + 0.5), 1)
        come = np.flatnonzero(jobs["submit"] > h.now)
        d = futures.Drawn(h, d.rows, h.run[d.rows][None], [(come, np.zeros(len(come)))], known=True)
        errors += list(player.play(d, d.waiting)[0] - jobs["start"][d.rows[d.waiting]])
    assert len(errors) > 20 and np.median(np.abs(errors)) < 12


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "-Infinity", "1e400", "1" + "0" * 400, "1e300"])
def test_numbers_that_are_none_are_left_out(cluster, odd):
    """JSON's own reader takes NaN and Infinity; no number of Slurm is as large as the others."""
    known = json.loads((cluster / "squeue.json").read_text())
    for key in ("job_id", "cpus", "node_count", "time_limit", "submit_time", "start_time", "array_job_id", "eligible_time"):
        jobs = [x | {key: "ODD"} if x["job_id"] == 9005 else x for x in known["jobs"]]
        (cluster / "squeue.json").write_text(json.dumps({"jobs": jobs}).replace('"ODD"', odd))
        try:
            assert {9004, 9006} <= set(sources.look(cluster).waiting)
        except InputError as error:  # a job without a time of submission is no row of a reader
            assert key == "submit_time" and "\n" not in str(error)


def test_a_job_that_is_not_eligible_yet_may_not_start(cluster):
    """Whatever its reason says: Slurm has not looked at it since its dependency was met, or a hold was set."""
    jobs = json.loads((cluster / "squeue.json").read_text())["jobs"]
    for x in jobs:
        if x["job_id"] == 9005:
            x |= {"state_reason": "None", "eligible_time": 0}
    (cluster / "squeue.json").write_text(json.dumps({"jobs": jobs}))
    c = sources.look(cluster)
    assert 9005 in c.out and 9005 not in c.waiting and 9005 not in c.workload.columns["job"]


@pytest.mark.slurm
def test_a_reader_keeps_the_last_rows_of_accounting(cluster, tmp_path, monkeypatch):
    """They are in order of submit: the first are the oldest."""
    monkeypatch.setattr(sources, "REMEMBERED", 10)
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", cluster))
    rows = (cluster / "sacct.txt").read_text().splitlines()
    reader = sources.ClusterReader(Slurm(), kept=tmp_path / "kept")
    reader.look()
    reader.close()
    assert (tmp_path / "kept" / "sacct.txt").read_text().splitlines() == [rows[0], *rows[-10:]]


@pytest.mark.parametrize("text, count", [("0-7%2", 8), ("0-99%10", 100), ("1,3,5-6", 4), ("4", 1), ("0-20:5%2", 21), ("", 1)])
def test_tasks_of_an_array_are_counted_whatever_its_limit(cluster, text, count):
    jobs = json.loads((cluster / "squeue.json").read_text())["jobs"]
    (cluster / "squeue.json").write_text(
        json.dumps({"jobs": [x | {"array_task_string": text} if x["job_id"] == 9006 else x for x in jobs]})
    )
    assert sources.look(cluster).waiting[9006].tasks == count


def test_a_row_of_accounting_that_is_cut_is_left_out_and_counted(cluster):
    rows = (cluster / "sacct.txt").read_text().splitlines()
    whole = sources.look(cluster).workload
    (cluster / "sacct.txt").write_text("\n".join([*rows[:3], rows[3][:40], *rows[4:]]) + "\n")
    w = sources.look(cluster).workload
    assert len(w) == len(whole) - 1 and w.left_out.startswith("1 that cannot be read (the first: ")


def test_a_job_of_squeue_that_cannot_be_read_is_named(cluster):
    jobs = json.loads((cluster / "squeue.json").read_text())["jobs"]
    (cluster / "squeue.json").write_text(
        json.dumps({"jobs": [x | {"submit_time": 0} if x["job_id"] == 9004 else x for x in jobs]})
    )
    with pytest.raises(InputError, match=f"{cluster}: job 9004: Submit"):
        sources.look(cluster)


@pytest.mark.cli
def test_a_job_that_could_never_start_is_said_in_a_line(cluster, capsys):
    """A partition of one hour, a job of two: alone, and beside the other partition, which takes it."""
    (cluster / "scontrol_partition.txt").write_text(
        "PartitionName=batch\n   MaxTime=UNLIMITED State=UP\n   Nodes=n[1-4]\n\n"
        "PartitionName=short\n   MaxTime=01:00:00 State=UP\n   Nodes=n[1-4]\n"
    )
    head, *rows = (cluster / "sacct.txt").read_text().splitlines()  # the second partition has had jobs of an hour and less
    at = head.split("|").index("TimelimitRaw")
    rows = [x.replace("|batch|", "|short|") if int(x.split("|")[at]) <= 60 else x for x in rows]
    (cluster / "sacct.txt").write_text("\n".join([head, *rows]) + "\n")
    words = ["slurm", "fits", "--folder", str(cluster), "--procs", "4", "--time", "2h", "--partition"]
    assert run([*words, "short"]) == 2
    assert "partition short: MaxTime of partition short is 60 min" in capsys.readouterr().err
    assert run([*words[:-1], "--partition", "short"]) == 2
    assert "is 60 min; partition batch would allow it" in capsys.readouterr().err
    assert run([*words, "all", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert [x["partition"] for x in out["places"]] == ["batch"] and "short" in out["cannot"][0]
