"""A job that is not submitted yet: its partition, time limit, account and QOS where it names none.

Modules: live/new_job.py.
"""

import json
import shlex
import shutil

import pytest

from jobwise.cli import run
from jobwise.cli.slurm_fits import NewJob
from jobwise.errors import InputError
from jobwise.live.alternatives import elsewhere
from jobwise.live.new_job import submitted
from jobwise.slurm.read.batch import Batch, read_batch
from jobwise.slurm.read.jobs import NEW
from jobwise.slurm.read.requests import parsed
from jobwise.slurm.read.startable import never
from jobwise.slurm.read.text import memory

pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]
PARTITIONS = """PartitionName=batch
   AllowGroups=ALL AllowAccounts=ALL Default=NO DefaultTime=NONE MaxTime=UNLIMITED State=UP
   Nodes=n[1-4]

PartitionName=short
   Default=YES DefaultTime=00:30:00 MaxTime=04:00:00 State=UP
   Nodes=n[1-4]

PartitionName=long
   Default=NO DefaultTime=NONE MaxTime=1-12:00:00 State=UP
   Nodes=n[1-4]
"""


@pytest.fixture
def folder(site_folder, tmp_path):
    """A site of three partitions and two QOS, where nothing waits or runs; u1 has most of its jobs in account all."""
    out = tmp_path / "site"
    shutil.copytree(site_folder, out)
    (out / "squeue.json").write_text('{"jobs": []}')
    (out / "now.txt").write_text(f"{max(int(r.split('|')[10]) for r in (out / 'sacct.txt').read_text().splitlines()[1:])}.0\n")
    (out / "scontrol_partition.txt").write_text(PARTITIONS)
    (out / "sacctmgr_qos.txt").write_text("Name|Priority|MaxWall\nnormal|0|\nhigh|100|\n")
    rows = ["Cluster|Account|User|Share|ParentName|QOS", "|root|||root|", "|all||1|root|normal", "|all|u1|1||normal,high"]
    (out / "sacctmgr_assoc.txt").write_text("\n".join(rows) + "\n")
    return out


def batch(words="", cpus=4, limit=None):
    return Batch(words, parsed(shlex.split(words))[0], cpus, limit)


def new(x):
    """The row of the new job."""
    return x.now.workload.jobs[x.now.row(NEW)]


def test_a_job_without_partition_and_limit_gets_those_of_slurm(folder):
    """Most jobs ran in batch; Slurm's default partition is short, whose default time is half an hour."""
    x = submitted(folder, batch(), "u1")
    assert x.partition == "short" and x.limit == 1800 and new(x)["walltime"] == 1800
    assert "it names no time limit: that of partition short is taken" in x.assumed
    x = submitted(folder, batch(), "u1", partition="long")  # no default time: the longest that it allows
    assert x.partition == "long" and x.limit == 36 * 3600
    x = submitted(folder, batch("-p long", limit=600.0), "u1")
    assert x.partition == "long" and x.limit == 600 and "time limit" not in " ".join(x.assumed)


def test_memory_in_small_letters_is_read_as_sbatch_reads_it(tmp_path):
    """Parsl writes --mem=1g."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -t 10 --mem=1g\n")
    assert read_batch(str(tmp_path / "job.sh")).options["mem"] == "1g"
    assert memory("1g") == memory("1G") == 1024 and memory("512m") == 512


def test_what_would_allow_a_job_is_held_to_all_limits(folder):
    """Ninety days are more than QOS normal allows: another partition is no way round it, the other QOS is."""
    (folder / "sacctmgr_qos.txt").write_text("Name|Priority|MaxWall\nnormal|0|1-00:00:00\nhigh|100|\n")
    with (folder / "scontrol_partition.txt").open("a") as out:
        out.write("\nPartitionName=free\n   MaxTime=UNLIMITED State=UP\n   Nodes=n[1-4]\n")
    x = submitted(folder, batch("-n 4 -p batch", limit=90 * 86_400.0), "u1")
    row = x.now.row(NEW)
    assert [what for what, bad, _ in never(x.now.workload) if bad[row]] == ["MaxWall of QOS normal"]
    assert [c.words for c in elsewhere(x.now, row)] == ["QOS high"]


def test_the_first_of_several_partitions_is_looked_at_and_said(folder):
    x = submitted(folder, batch("-p long,short", limit=600.0), "u1", account="all", qos="normal")
    assert x.partition == "long" and x.assumed == ("of its partitions long alone is looked at",)


def test_cpus_beside_a_script_replace_what_it_asks_for(tmp_path):
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -n 2 -c 4 -t 10\n")
    assert (
        NewJob(batch=str(tmp_path / "job.sh"), procs=8).asks.cpus == 8 and NewJob(batch=str(tmp_path / "job.sh")).asks.cpus == 8
    )
    assert NewJob(batch=str(tmp_path / "job.sh"), procs=3).asks.cpus == 3


def test_no_limit_at_all_is_one_line(folder):
    with pytest.raises(InputError, match="names no time limit, and partition batch sets none; name one, such as --time="):
        submitted(folder, batch(), "u1", partition="batch")
    with pytest.raises(InputError, match="--partition 'none': the cluster has batch, short, long"):
        submitted(folder, batch(), "u1", partition="none")


def test_the_qos_of_its_script_counts_else_the_default_of_its_user(folder):
    names = ("normal", "high")
    x = submitted(folder, batch("--qos=high -A all", limit=600.0), "u1")
    assert names[new(x)["queue"]] == "high" and x.assumed == ()
    x = submitted(folder, batch(limit=600.0), "u1")
    assert names[new(x)["queue"]] == "normal" and x.assumed == (
        "account all, as for most jobs of u1",
        "QOS normal, the default of u1 there",
    )
    assert x.now.workload.names["group"][new(x)["group"]] == "all"
    x = submitted(folder, batch("--qos=high", limit=600.0), "u1", qos="normal", account="all")
    assert names[new(x)["queue"]] == "normal" and x.assumed == ()
    with pytest.raises(InputError, match="--qos 'gold': the cluster has normal, high"):
        submitted(folder, batch("-q gold", limit=600.0), "u1")


def test_the_default_qos_of_an_association_counts_whatever_ran(folder):
    rows = ["Cluster|Account|User|Share|ParentName|QOS|Def QOS", "|root|||root||", "|all||1|root|normal|"]
    (folder / "sacctmgr_assoc.txt").write_text("\n".join([*rows, "|all|u1|1||normal,high|high"]) + "\n")
    x = submitted(folder, batch(limit=600.0), "u1")
    assert ("normal", "high")[new(x)["queue"]] == "high" and x.assumed[1] == "QOS high, the default of u1 there"


def test_an_account_that_its_user_does_not_have_is_said(folder):
    x = submitted(folder, batch(limit=600.0), "u1", account="physics", qos="normal")
    assert x.assumed == ("u1 has no association with account physics here, but with all; Slurm may refuse the job",)
    assert submitted(folder, batch(limit=600.0), "stranger").assumed == ("QOS normal, the default of stranger there",)
    with (folder / "scontrol_config.txt").open("a") as out:
        out.write("AccountingStorageEnforce = associations,limits\n")
    with pytest.raises(InputError, match="account physics here, but with all: Slurm would refuse the job"):
        submitted(folder, batch(limit=600.0), "u1", account="physics")


def test_the_command_prints_what_it_took(folder, tmp_path, capsys):
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -n 4\ntrue\n")
    words = ["slurm", "fits", "--folder", str(folder), "--user", "u1", "--batch", str(tmp_path / "job.sh")]
    assert run([*words, "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["limit"] == 1800 and len(out["assumed"]) == 3 and out["qos"] == "normal"
    assert run(words) == 0
    text = capsys.readouterr().out
    assert text.startswith("4 CPUs for 30 min in short: starts ") and "note: it names no time limit" in text
    assert run(["slurm", "fits", "--folder", str(folder), "--procs", "4", "--partition", "all"]) == 0
    text = capsys.readouterr().out
    assert "without a time limit of its own" in text and "partition batch sets none" in text
