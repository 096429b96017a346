"""Sites of the UBCCR Slurm Simulator: slurm.conf, a script of sacctmgr and *.events. Values are computed by hand.

Modules: slurm/read/simulator.py.
"""

import numpy as np
import pytest

import jobwise as jw
from jobwise.errors import InputError
from jobwise.slurm.read.site import files, read

CONF = """# a site
ClusterName=small
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
PriorityWeightQOS=1000   # more than anything else
TopologyPlugin=topology/tree
NodeName=DEFAULT RealMemory=64000 Sockets=2 CoresPerSocket=4 Weight=10
NodeName=n[1-2] Feature=old
NodeName=DEFAULT CPUs=4 Sockets=1
NodeName=g1 Gres=gpu:v100:2 Weight=90
PartitionName=DEFAULT State=UP MaxTime=02:00:00
PartitionName=main Nodes=n[1-2] Priority=100 DefMemPerCPU=1000 \\
    Default=YES
PartitionName=gpu Nodes=g1 MaxTime=01:00:00
"""
SCRIPT = """# QOS, accounts
add QOS Name=normal Priority=0
add QOS Name=high Priority=100 MaxJobsPerUser=2
add account Name=lab Fairshare=30
add account Name=bio Fairshare=10
add user Name=ann DefaultAccount=lab Account=lab Fairshare=parent
add user Name=bob DefaultAccount=bio
modify account name=lab set qos=normal,high
"""
EVENTS = """-dt  0.50 -e submit_batch_job | -sim-walltime  600.00 --uid=ann -J a -N 1 -n 8 -t 00:30:00 -q normal -p main pseudo.job
-dt 10.25 -e submit_batch_job | -sim-walltime  -1 --uid=bob -J b -N 2 -n 16 -t 10 -q high -p main --mem=8000M --constraint=old pseudo.job
# a comment
-dt 20.00 -e submit_batch_job | -sim-walltime  30 --uid=bob -J c -N 1 -n 2 -t 01:00:00 -p gpu --gres=gpu:1 -A lab pseudo.job
"""


def a_site(folder, events=EVENTS, conf=CONF):
    folder.mkdir()
    (folder / "slurm.conf").write_text(conf)
    (folder / "sacctmgr.script").write_text(SCRIPT)
    (folder / "week.events").write_text(events)
    return folder


def test_a_site_and_its_jobs(tmp_path):
    w = read(a_site(tmp_path / "s"))
    site, ask = w.cluster.known_site, w.cluster.known_site.asks[w.jobs["ask"]]
    assert site.names == ("n1", "n2", "g1") and site.weight.tolist() == [10, 10, 90]
    assert w.cluster.capacity.tolist() == [[8, 64000, 0], [8, 64000, 0], [4, 64000, 2]]
    assert site.partition_names == ("main", "gpu") and site.partitions["max_time"].tolist() == [7200, 3600]
    assert site.partitions["tier"].tolist() == [100, 1] and site.qos_names == ("normal", "high")
    assert w.jobs["submit"].tolist() == [0, 10, 20]
    assert w.ends["runtime"].tolist() == [600, 600, 30]  # one without an end runs to its limit
    assert w.jobs["walltime"].tolist() == [1800, 600, 3600] and (ask["tasks"] * ask["cpus"]).tolist() == [8, 16, 2]
    assert ask["memory"].tolist()[1] == 8000 and ask["memory_cpu"].tolist()[0] == 1000
    assert [w.names["group"][g] for g in w.jobs["group"]] == ["lab", "bio", "lab"]
    assert any("they have no starts" in x for x in site.guesses)
    assert "no scontrol_topology: nodes are chosen as if there were no switches" in site.guesses


def test_its_jobs_are_simulated(tmp_path):
    """Job 2 needs both nodes, so it starts when job 1 has ended; job 3 has the node with GPUs at once."""
    w = read(a_site(tmp_path / "s"))
    start = jw.simulate(w, "slurm").jobs["start"]
    assert 600 <= start[1] <= 665 and start[2] <= 24 and np.isfinite(start).all()


MORE = """-dt 30 -e submit_batch_job | -sim-walltime 5 --uid=ann --job-name=d --nodes=2-4 --ntasks 6 --cpus-per-task=2 --account=bio pseudo.job
-dt 31 -e submit_batch_job | -sim-walltime 5 --uid=ann -a 1-9 -p main pseudo.job
-dt 32 -e submit_batch_job | -sim-walltime 5 --uid=ann -n x pseudo.job
-dt 33 -e cancel_job | --jobid=1
hello
"""


def test_what_is_left_out_is_counted_and_long_options_are_read(tmp_path):
    """Job 4 names neither partition nor time: it has the default partition, and its DefaultTime of 20 minutes."""
    conf = CONF.replace("Default=YES", "Default=YES DefaultTime=20:00") + "Include more.conf\n"
    w = read(a_site(tmp_path / "s", EVENTS + MORE, conf))
    ask, guesses = w.cluster.known_site.asks[w.jobs["ask"]][3], " ".join(w.cluster.known_site.guesses)
    assert len(w) == 4 and (ask["tasks"], ask["cpus"], ask["nodes"]) == (6, 2, 2) and w.jobs["walltime"][3] == 1200
    assert w.names["group"][w.jobs["group"][3]] == "bio" and w.names["partition"][w.jobs["partition"][3]] == "main"
    assert (
        "3 events cannot be read and are left out (the first: " in guesses and "week.events:6: arrays are not read" in guesses
    )
    assert "1 events cancel_job are left out" in guesses and "slurm.conf has 'Include more.conf'" in guesses
    assert "1 lines of sacctmgr.script are not read (the first: 'modify account name=lab set qos=normal,high')" in guesses


@pytest.mark.parametrize(
    ("events", "said"), [("hello\n", "week.events:1: no event such as"), ("# nothing\n", "no job is submitted")]
)
def test_a_file_without_a_job_is_refused(tmp_path, events, said):
    with pytest.raises(InputError, match=said):
        read(a_site(tmp_path / "s", events))


def test_a_folder_without_its_configuration_is_refused(tmp_path):
    (folder := tmp_path / "s").mkdir()
    (folder / "week.events").write_text(EVENTS)
    with pytest.raises(InputError, match="with its slurm.conf"):
        read(folder)


def test_its_files_are_named(tmp_path):
    tree = "SwitchName=a Nodes=n[1-2]  # the old ones\nSwitchName=b Nodes=g1\nSwitchName=top Switches=a,b\n"
    (folder := a_site(tmp_path / "s")).joinpath("topology.conf").write_text(tree)
    folder.joinpath("gres.conf").write_text("")
    assert files(folder) == (["sacctmgr.script", "slurm.conf", "topology.conf", "week.events"], ["gres.conf"], [])
    assert read(folder).cluster.known_site.switches.tolist() == [[1, 1, 0], [0, 0, 1], [1, 1, 1]]
