"""A site's folder without names: the same starts, no name of the first folder in the second.

Modules: slurm/read/anonymous.py.
"""

import re

import numpy as np
import pytest
from conftest import SHARED, missing
from small_sites import ZERO, job, node, partition, write

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.simulate import simulate
from jobwise.slurm.read import anonymous
from jobwise.slurm.read.site import read

SECRETS = (
    "ann",
    "bob",
    "physics",
    "astro",
    "urgent",
    "debug",
    "gpuhost",
    "fastdisk",
    "mysim",
    "matlab",
    "demo",
    "home",
    "course",
)
RECORDED = ("fairshare", "fifo-backfill", "memory-gpu", "mixed", "partitions", "size-qos", "stock")


def site(folder):
    """Two accounts, two partitions, a QOS that stops others' jobs, features, licences, singletons and lines with paths."""
    lines = ["sbatch -n 4 -A physics -p main --qos=urgent -J mysim --mail-user=ann@home -o /home/ann/x run.sh ann"]
    lines += [
        "sbatch -n 2 -C fastdisk --licenses=matlab:1 -w gpuhost2 --comment 'of bob' run.sh",
        "sbatch -n 4 -d singleton -J mysim",
    ]
    lines += ["sbatch -n 8 --exclude=gpuhost1 --export=ALL,KEY=bob --wrap 'echo bob'", "sbatch --array=0-3%1 -n 1"]
    lines += [
        "sbatch -n 2 -M demo --bbf=/home/ann/bb --mcs-label=physics --reservation=course_ann --wrap 'cd /home/ann &&\nmysim bob'"
    ]
    rows = []
    for k in range(60):
        user, account = ("ann", "physics") if k % 3 else ("bob", "astro")
        more = {"User": user, "Account": account, "QOS": "urgent" if k % 7 == 0 else "normal", "Priority": 100 + k}
        more |= {"Partition": "debug" if k % 11 == 0 else "main", "JobName": "mysim" if k % 5 else "other"}
        row = job(100 + k, 20 * k, 20 * k + 5, 100 + 7 * k, 1 + k % 4, line=lines[k % 6], node=f"gpuhost{1 + k % 2}", **more)
        rows.append(row | ({"Constraints": "fastdisk"} if "fastdisk" in lines[k % 6] else {}))
    machines = [
        node("gpuhost1", 8, Partitions="main,debug"),
        node("gpuhost2", 8, ActiveFeatures="fastdisk", AvailableFeatures="fastdisk"),
    ]
    queues = [
        partition("main", "gpuhost[1-2]", AllowAccounts="physics,astro"),
        partition("debug", "gpuhost1", AllowQos="normal,urgent"),
    ]
    qos = [{"Name": "urgent", "Priority": 50, "Preempt": "", "GrpTRES": "license/matlab=1"}]
    assoc = [{"Cluster": "demo", "Account": a, "User": u, "Share": 1, "ParentName": p} for a, u, p in (
        ("root", "", ""), ("physics", "", "root"), ("physics", "ann", ""), ("astro", "", "root"), ("astro", "bob", "")
    )]  # fmt: skip
    write(
        folder,
        rows,
        machines,
        queues,
        qos,
        assoc,
        Licenses="matlab:2",
        PriorityWeightFairShare="500",
        MailProg="/home/ann/mail",
    )
    reserved = f"Name|NodeName|TimeStart|TimeEnd\ncourse_ann|gpuhost2|{ZERO + 300}|{ZERO + 900}\n"
    (folder / "sacctmgr_reservation.txt").write_text(reserved)


def same_starts(a, b):
    x, y = (simulate(w, "slurm").jobs["start"] for w in (a, b))
    return len(x) and np.array_equal(x, y, equal_nan=True)


def test_a_site_without_names_has_the_same_starts(tmp_path):
    site(tmp_path / "site")
    files = anonymous.write(tmp_path / "site", tmp_path / "out")
    a, b = read(tmp_path / "site"), read(tmp_path / "out")
    assert same_starts(a, b) and len(a) == len(b) > 50 and "scontrol_partition.txt" in files
    assert len(a.cluster.site.guesses) == len(b.cluster.site.guesses)
    for name in files:
        words = set(re.findall(r"[a-z]+", (tmp_path / "out" / name).read_text().lower()))
        assert not words & set(SECRETS), (name, words & set(SECRETS))
        assert (tmp_path / "site" / name).read_text()


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_sites_without_names_have_the_same_starts(name, tmp_path):
    folder = SHARED / "slurm" / "recorded" / name
    if not folder.is_dir():
        missing(f"no recording in {folder}")
    anonymous.write(folder, tmp_path / "out")
    assert same_starts(read(folder), read(tmp_path / "out"))


def test_the_command_and_what_it_refuses(tmp_path, capsys):
    site(tmp_path / "site")
    assert run(["slurm", "site", str(tmp_path / "site"), "--anonymize", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert "sacct.txt" in said.out and "Still in it: when jobs were submitted" in said.err.replace("\n", " ")
    assert run(["slurm", "site", str(tmp_path / "site"), "--anonymize", str(tmp_path / "out")]) == 2
    assert "exists already" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"sacct.txt is missing"):
        anonymous.write(tmp_path / "empty", tmp_path / "other")
    assert run(["slurm", "site", str(tmp_path / "out")]) == 0
