"""Values with a meaning of their own in Slurm's outputs: -1, 0, what Slurm itself does not take. None refuses a site.

Modules: slurm/read/conf.py, slurm/read/hardware.py, slurm/read/text.py.
"""

import numpy as np
import pytest
from small_sites import job, node, partition, write

import jobwise as jw
from jobwise.slurm.read.site import read
from jobwise.slurm.read.text import limited

TWO = {"nodes": [node("c1"), node("c2")], "partitions": [partition(nodes="c[1-2]")]}


def wide():
    """One job on a node until 600 s, one that needs both, one that could go ahead on the other node: 100 s."""
    return [
        job(1, 0, 0, 600, 4, mem="10M", limit=10),
        job(2, 10, 600, 600, 8, nodes=2, node="c[1-2]", mem="10M", line="sbatch -N 2 -n 8 --mem=10M x", limit=60),
        job(3, 20, 20, 100, 4, node="c2", mem="10M", limit=2),
    ]


def starts(folder, **config):
    w = read(write(folder, wide(), **TWO, **config))
    return jw.simulate(w, "slurm").jobs["start"].tolist(), w.cluster.known_site


def test_minus_one_turns_passes_off(tmp_path):
    """Without cycles job 3 waits behind job 2, until 1,200 s. Without main passes cycles alone start jobs, every 30 s: the
    first one that sees job 1 begins before 31 s."""
    (first, second, third), _ = starts(tmp_path / "a")
    assert first < 2 and second >= 600 and 20 <= third < 60
    (first, second, third), site = starts(tmp_path / "b", SchedulerParameters="bf_interval=-1")
    assert first < 2 and 600 <= second < 665 and third >= second + 600 and not any("bf_interval" in x for x in site.guesses)
    (first, second, third), _ = starts(tmp_path / "c", SchedulerParameters="sched_interval=-1")
    assert first < 31 and 600 <= second < 665 and 20 <= third < 65


@pytest.mark.parametrize(
    ("name", "value", "field", "own"),
    [
        ("bf_window", "0", "bf_window", 86_400.0),
        ("bf_resolution", "0", "bf_resolution", 60.0),
        ("bf_max_job_test", "0", "bf_max_test", 500.0),
        ("batch_sched_delay", "-1", "batch_delay", 3.0),
        ("default_queue_depth", "many", "depth", 100.0),
    ],
)
def test_what_slurm_does_not_take_is_its_own_value_and_named(tmp_path, name, value, field, own):
    """As slurmctld does: an error in its log, and the default."""
    site = starts(tmp_path / "s", SchedulerParameters=f"{name}={value}")[1]
    assert site.settings[field][0] == own
    assert sum(x.startswith(f"{name}={value} is not read") for x in site.guesses) == 1


def test_odd_lines_of_the_configuration(tmp_path):
    """PriorityMaxAge of 0: all jobs are of the greatest age at once. KillWait of 0 is 0. A PriorityCalcPeriod of 0, a weight that
    is no number, and an odd PriorityWeightTRES are named."""
    more = {"PriorityMaxAge": "0", "KillWait": "0 sec", "PriorityCalcPeriod": "0", "PriorityWeightQOS": "high"}
    site = starts(tmp_path / "s", PriorityWeightTRES="CPU=lots", **more)[1]
    x = site.settings[0]
    assert x["max_age"] < 1 and x["kill_wait"] == 0 and x["calc_period"] == 300 and x["qos"] == 0
    for name in ("PriorityCalcPeriod=0", "PriorityWeightQOS=high", "PriorityWeightTRES=CPU=lots"):
        assert any(g.startswith(f"{name} is not read") for g in site.guesses)


def test_limits_of_zero_and_minus_one(tmp_path):
    """cpu=0 is a limit, under which nobody runs; cpu=-1 is none. Jobs that ran against one widen it, and that is said."""
    assert limited("cpu=0,mem=-1,gres/gpu=0,node=2") == {"cpu": 0.0, "gpu": 0.0, "node": 2.0}
    assert limited("gres/gpu:a100=4") == {"gpu": 4.0} and limited("cpu=-1") == {} == limited("")
    jobs = [job(1, 0, 0, 600, 4, QOS="q")]
    none = read(write(tmp_path / "a", jobs, qos=[{"Name": "q", "Priority": 0, "GrpTRES": "cpu=-1"}])).cluster.known_site
    assert np.isinf(none.qos["all"]).all() and not any("ran against" in x for x in none.guesses)
    zero = read(write(tmp_path / "b", jobs, qos=[{"Name": "q", "Priority": 0, "GrpTRES": "cpu=0"}])).cluster.known_site
    assert any("ran against the limit on cpus of all jobs of QOS q" in x for x in zero.guesses)


def test_a_node_of_no_threads_and_a_job_of_no_partition(tmp_path):
    jobs = [job(1, 0, 0, 60), job(2, 10, 10, 60, Partition="")]
    w = read(write(tmp_path / "s", jobs, nodes=[node("c1", ThreadsPerCore=0)]))
    assert len(w) == 1 and w.dropped == {"of partitions that the site does not have (none named)": 1}
