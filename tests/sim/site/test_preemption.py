"""Preemption on small sites: who is stopped, when, and what becomes of it. Starts are computed by hand.

Modules: sim/site/preemption.py, slurm/read/preempting.py.
"""

import numpy as np
import pytest
from small_sites import job, node, partition, write

import jobwise as jw
from jobwise.slurm.read.site import not_simulated, read

TIERS = {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}


def tiers(mode="REQUEUE", nodes="c1", **more):
    return [
        partition("low", nodes, PriorityTier=1, PreemptMode=mode, **more),
        partition("high", nodes, PriorityTier=10, PreemptMode="OFF"),
    ]


def run(folder):
    """(starts, ends) in s, by job number."""
    w = read(folder)
    r = jw.simulate(w, "slurm")
    return {int(n): (float(j["start"]), float(j["end"])) for n, j in zip(w.columns["job"], r.jobs, strict=True)}


def test_a_job_of_a_higher_tier_requeues_one_of_a_lower(tmp_path):
    """Job 2 comes at 100 s and needs the node that job 1 has: job 1 is stopped at once and comes back 121 s later, for its whole
    run of 600 s, behind job 2, which runs for 200 s."""
    jobs = [job(1, 0, 0, 600, 4, Partition="low"), job(2, 100, 100, 200, 4, Partition="high")]
    done = run(write(tmp_path / "s", jobs, partitions=tiers(), **TIERS))
    assert 100 <= done[2][0] <= 106 and done[2][1] == done[2][0] + 200
    assert done[2][1] <= done[1][0] <= done[2][1] + 61 and done[1][1] == pytest.approx(done[1][0] + 600)


def test_it_waits_until_it_may_start_again(tmp_path):
    """Job 2 runs for 10 s alone: job 1 could be back at once, but is not eligible for 121 s after it was stopped."""
    jobs = [job(1, 0, 0, 600, 4, Partition="low"), job(2, 100, 100, 10, 4, Partition="high")]
    done = run(write(tmp_path / "s", jobs, partitions=tiers(), **TIERS))
    assert done[2][0] + 115 <= done[1][0] <= done[2][0] + 190


def test_cancelled_jobs_end_and_those_that_may_not_be_requeued_too(tmp_path):
    jobs = [job(1, 0, 0, 600, 4, Partition="low"), job(2, 100, 100, 200, 4, Partition="high")]
    done = run(write(tmp_path / "s", jobs, partitions=tiers("CANCEL"), **TIERS))
    assert 100 <= done[1][1] <= done[2][0] <= 106
    jobs[0]["SubmitLine"] = "sbatch -n 4 --no-requeue --mem=1000M run.sh"
    assert run(write(tmp_path / "t", jobs, partitions=tiers(), **TIERS)) == done
    jobs[0]["SubmitLine"] = "sbatch -n 4 --mem=1000M run.sh"
    assert run(write(tmp_path / "u", jobs, partitions=tiers(), JobRequeue="0", **TIERS)) == done


def test_a_grace_time_passes_before_the_stop(tmp_path):
    """The job is stopped by the first sweep of every 30 s behind its grace time of 60 s; as recorded on 22.05, one of 5 s is over
    when the job that waits tries again, KillWait + 10 s later."""
    jobs = [job(1, 0, 0, 600, 4, Partition="low"), job(2, 100, 100, 200, 4, Partition="high")]
    done = run(write(tmp_path / "s", jobs, partitions=tiers("CANCEL", GraceTime=60), **TIERS))
    assert 160 <= done[1][1] <= 192 and done[1][1] <= done[2][0] <= done[1][1] + 4
    soon = run(write(tmp_path / "t", jobs, partitions=tiers("CANCEL", GraceTime=5), KillWait="2 sec", **TIERS))
    assert 105 <= soon[1][1] <= 136 and soon[1][1] <= soon[2][0] <= soon[1][1] + 4


def test_a_job_is_exempt_for_a_while(tmp_path):
    """PreemptExemptTime of 5 minutes: job 2, there at 100 s, starts once job 1 has run for 300 s."""
    jobs = [job(1, 0, 0, 600, 4, Partition="low"), job(2, 100, 100, 200, 4, Partition="high")]
    done = run(write(tmp_path / "s", jobs, partitions=tiers("CANCEL"), PreemptExemptTime="00:05:00", **TIERS))
    assert 300 <= done[1][1] <= 362 and done[1][1] <= done[2][0]


@pytest.mark.parametrize(("parameters", "stopped"), [({}, 2), ({"PreemptParameters": "youngest_first"}, 3)])
def test_who_is_stopped(tmp_path, parameters, stopped):
    """Of three jobs on three nodes, of 2, 1 and 1 nodes, that of fewest nodes goes, of two alike the one with the smaller number;
    the youngest, where that is asked for."""
    jobs = [
        job(1, 0, 0, 600, 8, nodes=2, node="c[1-2]", mem="10M", Partition="low"),
        job(2, 10, 10, 600, 4, node="c3", mem="10M", Partition="low"),
        job(3, 50, 50, 600, 4, node="c4", mem="10M", Partition="low"),
        job(4, 100, 100, 200, 4, node="c3", mem="10M", Partition="high"),
    ]
    nodes = [node(f"c{k}") for k in range(1, 5)]
    done = run(write(tmp_path / "s", jobs, nodes, tiers("CANCEL", "c[1-4]"), **TIERS, **parameters))
    ended = {k for k in (1, 2, 3) if done[k][1] < 200}
    assert ended == {stopped}


def test_no_more_are_stopped_than_it_takes(tmp_path):
    """Job 4 needs c1 whole: of the jobs 1 to 3, one on c1, two on c2, job 1 alone stands in its way."""
    jobs = [
        job(1, 0, 0, 600, 4, mem="10M", Partition="low", line="sbatch -n 4 --mem=10M -w c1 r.sh"),
        job(2, 0, 0, 600, 2, mem="10M", node="c2", Partition="low", line="sbatch -n 2 --mem=10M -w c2 r.sh"),
        job(3, 0, 0, 600, 2, mem="10M", node="c2", Partition="low", line="sbatch -n 2 --mem=10M -w c2 r.sh"),
        job(4, 100, 100, 200, 4, mem="10M", Partition="high", line="sbatch -n 4 --mem=10M -w c1 r.sh"),
    ]
    done = run(write(tmp_path / "s", jobs, [node("c1"), node("c2")], tiers("CANCEL", "c[1-2]"), **TIERS))
    assert done[1][1] < 110 and done[2][1] >= 600 and done[3][1] >= 600 and done[4][0] < 110


def test_jobs_of_the_same_tier_or_of_a_partition_that_stays_are_left_alone(tmp_path):
    jobs = [job(1, 0, 0, 600, 4, Partition="low"), job(2, 100, 600, 200, 4, Partition="high")]
    done = run(write(tmp_path / "s", jobs, partitions=tiers("OFF"), **TIERS))
    assert done[1][1] >= 600 and done[2][0] >= 600
    same = [partition("low", PriorityTier=10), partition("high", PriorityTier=10)]
    assert run(write(tmp_path / "t", jobs, partitions=same, **TIERS)) == done
    assert run(write(tmp_path / "u", jobs, partitions=tiers(), PreemptType="preempt/none", PreemptMode="OFF")) == done


def test_qos_that_stop_others(tmp_path):
    """`high` stops jobs of `low`, which is cancelled; jobs of `normal` are not among those that it may stop."""
    qos = [
        {"Name": "low", "Priority": 0, "Preempt": "", "PreemptMode": "cancel", "GraceTime": "00:00:00"},
        {"Name": "high", "Priority": 100, "Preempt": "low", "PreemptMode": "cluster", "GraceTime": "00:00:00"},
    ]
    config = {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}
    nodes = [node("c1"), node("c2")]
    jobs = [
        job(1, 0, 0, 600, 4, QOS="normal", mem="10M", line="sbatch -n 4 --mem=10M -w c1 r.sh"),
        job(2, 0, 0, 600, 4, QOS="low", node="c2", mem="10M", line="sbatch -n 4 --mem=10M -w c2 r.sh"),
        job(3, 100, 100, 100, 4, QOS="high", mem="10M", node="c2"),
        job(4, 100, 600, 100, 4, QOS="high", mem="10M", line="sbatch -n 4 --mem=10M -w c1 r.sh"),
    ]
    done = run(write(tmp_path / "s", jobs, nodes, [partition(nodes="c[1-2]")], qos, **config))
    assert done[1][1] >= 600 and done[4][0] >= 600  # nobody stops job 1
    assert 100 <= done[2][1] <= done[3][0] <= 106


def test_runs_of_a_job_that_was_requeued_are_one_job(tmp_path):
    """sacct -D names both runs; the job came when its first run came. Without preemption they stay jobs of their own."""
    jobs = [
        job(1, 0, 0, 100, 4, Partition="low", State="PREEMPTED"),
        job(2, 100, 100, 200, 4, Partition="high"),
        job(1, 100, 300, 600, 4, Partition="low"),
    ]
    w = read(write(tmp_path / "s", jobs, partitions=tiers(), **TIERS))
    assert len(w) == 2 and w.jobs["submit"].tolist() == [0, 100]
    assert any("1 runs of jobs that were preempted and requeued" in x for x in w.cluster.site.guesses)
    assert len(read(write(tmp_path / "t", jobs, partitions=tiers()))) == 3
    jobs[0] |= {"State": "REQUEUED"}  # by its user, or because a node failed
    assert len(read(write(tmp_path / "u", jobs, partitions=tiers(), **TIERS))) == 3


def test_suspension_is_named(tmp_path):
    folder = write(tmp_path / "s", [job(1, 0, 0, 60, Partition="low")], partitions=tiers("SUSPEND,GANG"), **TIERS)
    assert not_simulated(read(folder)) == ["PreemptMode=SUSPEND of low (1): its jobs are not stopped"]


def test_conditions_of_a_preemption_mode_are_named(tmp_path):
    config = TIERS | {"PreemptMode": "CANCEL,PRIORITY"}
    folder = write(tmp_path / "s", [job(1, 0, 0, 60, Partition="low")], partitions=tiers(""), **config)
    assert not_simulated(read(folder)) == [
        "PreemptMode=PRIORITY of low (1): its jobs are stopped for those of less priority too"
    ]
    qos = [{"Name": "low", "Preempt": "low", "PreemptMode": "within,cancel"}]
    config = {"PreemptType": "preempt/qos", "PreemptMode": "CANCEL"}
    folder = write(tmp_path / "t", [job(1, 0, 0, 60, QOS="low")], [node("c1")], [partition()], qos, **config)
    assert not_simulated(read(folder)) == ["PreemptMode=WITHIN of low (1): jobs of the same QOS do not stop each other"]


def test_nothing_is_lost_on_a_busy_site(tmp_path):
    """200 jobs of two tiers: all end, each runs as long as it did, nodes are never over-full, and high jobs wait less."""
    rng = np.random.default_rng(7)
    jobs = []
    for k in range(1, 201):
        part = "high" if rng.random() < 0.3 else "low"
        cpus = int(rng.choice([1, 2, 4, 8]))
        nodes = max(cpus // 4, 1)
        t = int(rng.integers(0, 6000))
        jobs.append(job(k, t, t, int(rng.integers(60, 900)), cpus, nodes=nodes, mem="10M", Partition=part, limit=20))
    nodes = [node(f"c{k}") for k in range(1, 5)]
    w = read(write(tmp_path / "s", jobs, nodes, tiers("REQUEUE", "c[1-4]"), **TIERS))
    r = jw.simulate(w, "slurm")
    assert r.preemptions > 0 and np.isfinite(r.jobs["end"]).all()
    assert np.allclose(r.jobs["end"] - r.jobs["start"], w.truth["runtime"])
    t = np.concatenate([r.jobs["start"], r.jobs["end"]])
    d = np.concatenate([w.jobs["request"][:, 0], -w.jobs["request"][:, 0]])
    order = np.lexsort((d, t))
    assert np.cumsum(d[order]).max() <= 16
    wait, high = r.jobs["start"] - r.jobs["submit"], w.jobs["partition"] == list(w.names["partition"].values()).index("high")
    assert wait[high].mean() < wait[~high].mean()


def test_a_job_that_was_cancelled_for_another_has_the_usual_share_of_its_limit(tmp_path):
    """The others ran for half of their limits; the cancelled one, cut after 60 s of a limit of 10 minutes, is taken to need 300 s."""
    jobs = [job(k, 0, 0, 600, limit=20, Partition="low") for k in (1, 2, 3)]
    jobs.append(job(4, 0, 0, 60, limit=10, Partition="low", State="PREEMPTED"))
    w = read(write(tmp_path / "s", jobs, partitions=tiers("CANCEL"), **TIERS))
    assert w.truth["runtime"].tolist() == [600, 600, 600, 300]
    assert any(
        "1 jobs were cancelled for others: unhindered they run for 50% of their limits" in x for x in w.cluster.site.guesses
    )
