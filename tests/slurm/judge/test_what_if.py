"""What a changed site would have done, and settings that are searched: lines of slurm.conf, changes, tuning, commands.

Modules: cli/slurm_changes.py, slurm/judge/changes.py, slurm/judge/moves.py, slurm/judge/results.py,
slurm/judge/site_lines.py, slurm/judge/until.py, slurm/read/conf.py, slurm/read/startable.py.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pytest
from small_sites import ZERO, job, node, partition, write

import jobwise as jw
from jobwise.cli.main import run as cli
from jobwise.errors import InputError
from jobwise.metrics import wait
from jobwise.simulate import simulate
from jobwise.site import CANCELLED, REQUEUED, STAYS, settings
from jobwise.slurm.judge.changes import changed, fitting, possible
from jobwise.slurm.judge.tune import CHOICES, draw, tune
from jobwise.slurm.judge.until import goal, until
from jobwise.slurm.judge.what_if import what_if
from jobwise.slurm.read import conf
from jobwise.slurm.read.site import read
from jobwise.slurm.read.startable import NeverStart
from jobwise.workloads.sites import generated

# ------------------------------------------------------------------ slurm.conf


def test_lines_lead_from_settings_to_others():
    rng, before = np.random.default_rng(0), settings()
    for _ in range(200):
        after, again = draw(before, rng, []), before
        for line in conf.lines(before, after):
            again = conf.change(again, line) if not line.startswith("#") else again
        for name in before.dtype.names:
            if name not in ("fair_tree", "small_relative", *CHOICES) or after[name] == again[name]:
                assert after[name][0] == pytest.approx(again[name][0]), name


@pytest.mark.parametrize(
    "line, field, value",
    [
        ("PriorityWeightAge=1000", "age", 1000),
        ("PriorityMaxAge=1-12:00:00", "max_age", 129_600),
        ("PriorityDecayHalfLife=0", "half_life", np.inf),
        ("PriorityFavorSmall=YES", "favor_small", 1),
        ("PriorityFlags=NO_FAIR_TREE", "fair_tree", 0),
        ("PriorityType=priority/basic", "basic", 1),
        ("SchedulerType=sched/builtin", "backfill", 0),
        ("bf_window=2880", "bf_window", 172_800),
        ("SchedulerParameters=bf_continue,bf_max_job_user=20", "bf_max_user", 20),
        ("PriorityWeightTRES=CPU=10,GRES/gpu=300", "tres_gpu", 300),
        ("bf_max_job_user=0", "bf_max_user", np.inf),
    ],
)
def test_a_line_changes_a_setting(line, field, value):
    assert conf.change(settings(half_life=9.0, bf_max_user=3), line)[field][0] == value


@pytest.mark.parametrize(
    "line, said",
    [
        ("PriorityWeightAge", "NAME=VALUE"),
        ("PriorityWeihgtAge=1", "did you mean PriorityWeightAge"),
        ("bf_window=soon", "bf_window"),
        ("PriorityWeightAge=-1", "no number from 0"),
        ("bf_interval=0", "less than 1"),
        ("PriorityCalcPeriod=0", "no time above 0"),
        ("SchedulerParameters=bf_nothing=1", "bf_nothing"),
        ("PriorityWeightTRES=bb/disk=3", "is not simulated"),
        ("PriorityFavorSmall=banana", "yes or no"),
        ("PriorityFlags=BANANA", "BANANA"),
        ("PriorityType=foo", "multifactor"),
        ("SchedulerType=sched/foo", "backfill"),
        ("PriorityDecayHalfLife=-7", "no time"),
        ("PriorityDecayHalfLife=nan", "no time"),
        ("PriorityMaxAge=1:2:3:4", "no time"),
        ("PriorityWeightAge=nan", "no number"),
    ],
)
def test_a_wrong_line_is_told(line, said):
    with pytest.raises(InputError, match=said):
        conf.change(settings(), line)


def test_minus_one_turns_a_thread_off():
    assert conf.change(settings(), "bf_interval=-1")["backfill"][0] == 0
    assert conf.change(settings(), "SchedulerParameters=sched_interval=-1,bf_window=60")["main"][0] == 0


# ------------------------------------------------------------------ changes


def test_changes_of_a_site(site):
    after = changed(site, ["bf_window=60", "PartitionName=batch MaxTime=30-0 MaxNodes=2", "QOS=normal MaxTRESPU=cpu=16,mem=1G"])
    s = after.cluster.site
    assert (
        s.settings["bf_window"][0] == 3600 and s.partitions[0]["max_time"] == 30 * 86_400 and s.partitions[0]["max_nodes"] == 2
    )
    assert s.qos[0]["user"].tolist()[1:3] == [16, 1024] and np.isinf(site.cluster.site.qos[0]["user"]).all()
    more = changed(site, nodes=3)
    assert len(more.cluster.capacity) == 7 and more.cluster.site.sets.shape[1] == 7 and more.cluster.total[2] == 8
    limited = changed(site, limits=1.5)
    assert (limited.jobs["walltime"] <= np.maximum(site.jobs["walltime"], 60)).all() and fitting(site).all()
    assert (limited.jobs["walltime"] >= np.minimum(site.truth["runtime"], site.jobs["walltime"])).all()


def test_a_job_of_just_the_time_limit_of_its_partition_may_start(site):
    longest = int(np.ceil(site.jobs["walltime"].max() / 60))
    limited = changed(site, limits=1e9)
    limited.jobs["walltime"][:] = np.minimum(limited.jobs["walltime"], 60 * (longest - 1))
    limited.jobs["walltime"][0] = 60 * longest
    assert changed(limited, [f"PartitionName=batch MaxTime={longest}"]).cluster.site.partitions[0]["max_time"] == 60 * longest
    shorter = changed(limited, [f"PartitionName=batch MaxTime={longest - 1}"])
    assert sum(shorter.notes.values()) == 1 and shorter.jobs["walltime"].max() == 60 * (longest - 1)


@pytest.mark.parametrize(
    "told, said",
    [
        ({"lines": ["PartitionName=night MaxTime=1"]}, "night"),
        ({"lines": ["PartitionName=batch"]}, "what of it changes"),
        ({"lines": ["PartitionName=batch Colour=red"]}, "Colour"),
        ({"lines": ["QOS=normal Priority=high"]}, "'high' is no value of Priority"),
        ({"lines": ["PartitionName"]}, "name"),
        ({"lines": ["PartitionName=batch PriorityTier=99999999999"]}, "no value of PriorityTier"),
        ({"lines": ["PartitionName=batch PriorityJobFactor=nan"]}, "no value"),
        ({"lines": ["PartitionName=batch MaxTime=-5"]}, "no value"),
        ({"lines": ["PartitionName=batch State=FOO"]}, "no value"),
        ({"lines": ["QOS=normal MaxTRESPU=cpus=4"]}, "no value"),
        ({"lines": ["QOS=normal MaxJobsPU=-5"]}, "no value"),
        ({"nodes": 10**9}, "too many"),
        ({"nodes": -4}, "cannot lose"),
        ({"nodes": -3}, "could never start"),
        ({"limits": 0.5}, "end jobs early"),
        ({"lines": ["PartitionName=batch State=DOWN"]}, "State of partition batch"),
        ({"lines": ["QOS=normal GrpTRES=cpu=1"]}, "the limit on cpus of all jobs of QOS normal"),
    ],
)
def test_changes_that_cannot_be(site, told, said):
    with pytest.raises(InputError, match=said):
        changed(site, **told)
    with pytest.raises(InputError, match="is no site"):
        changed(jw.lublin(jobs=20, procs=8, seed=1), **told)


def groups_of(change, what):
    return [g for g in change.groups() if g["what"] == what]


def test_more_nodes_help_and_nothing_changes_nothing(site):
    same, more, order = what_if(
        site, [("same", site, "slurm"), ("more", changed(site, nodes=4), "slurm"), ("saf", site, "saf+slurm")]
    )
    assert "not one start changes" in same.sentence()
    total = sum(g["jobs"] * g["after_s"] for g in groups_of(more, "CPUs")) / len(site)
    assert total == pytest.approx(more.after.wait, rel=0.02)
    assert more.wait.change == pytest.approx(more.after.wait / more.present.wait - 1, abs=0.02)
    assert same.wait.change == 0 and same.slowdown.change == 0 and (same.longest == 1).all()
    assert more.wait.high < 0 and more.slowdown.high < 0 and more.verdict == ("better", "")
    assert order.after.wait < order.present.wait
    groups = more.groups()
    assert {g["what"] for g in groups} >= {"user", "CPUs"} and len(more.rows()) == len(groups)
    told = more.to_dict()
    assert json.loads(json.dumps(told))["longest_wait_ratio"]["most"] <= 1.01 and told["groups"]


# ------------------------------------------------------------------ tuning


def test_a_limit_is_cleared_and_names_have_any_case(site):
    tight = changed(site, ["QOS=normal MaxTRESPU=cpu=16 MaxJobsPU=3"])
    wide = changed(tight, ["qos=normal maxtrespu=cpu=-1 MaxJobsPU=-1"])
    assert np.isinf(wide.cluster.site.qos[0]["user"]).all() and tight.cluster.site.qos[0]["user"][0] == 3


@pytest.mark.slurm
def test_tuning_beats_weights_that_favour_large_jobs_and_keeps_the_bound():
    w = generated(6000, 100, 32, 0.95, seed=8, age=1000, size=1000)
    w = replace(w, columns=w.columns | {"wait": wait(simulate(w, "slurm"))})  # as that site would have recorded it
    found = tune(w, max_wait=1.2, scale=0.2, others=["saf+slurm"])
    assert found.trusted and found.proposed == found.lines
    assert found.lines and found.test.wait.high < 0 and found.test.longest.max() <= 1.2 and found.gains
    assert "Better on later jobs" in found.sentence() and len(found.others) == 1


def test_where_nothing_can_be_gained_it_says_so():
    found = tune(generated(600, 100, 32, 0.1, seed=6, age=1000), scale=0.2)
    assert not found.lines and not found.gains and "change nothing" in found.sentence()


def test_weights_that_are_kept_stay():
    rng, before = np.random.default_rng(1), settings(age=500, fair_share=10_000, size=300, qos=77)
    for _ in range(50):
        after = draw(before, rng, ["fair_share"], moved=draw(before, rng, ["fair_share"]))
        assert after["fair_share"] == 10_000 and after["qos"] == 77 and after["age"] + after["size"] <= 802


def test_a_run_that_was_stopped_goes_on(tmp_path):
    w = generated(800, 20, 32, 0.9, seed=7, age=1000, size=500)
    whole = tune(w, scale=0.2, folder=tmp_path / "a")
    kept = (tmp_path / "a" / "trials.jsonl").read_text().splitlines(keepends=True)
    tune(w, scale=0.2, folder=tmp_path / "b")
    (tmp_path / "b" / "trials.jsonl").write_text("".join(kept[:9]))
    again = tune(w, scale=0.2, folder=tmp_path / "b", resume=True)
    assert again.lines == whole.lines and sorted(
        (tmp_path / "b" / "trials.jsonl").read_text().splitlines(keepends=True)
    ) == sorted(kept)
    with pytest.raises(InputError, match="--resume"):
        tune(w, scale=0.2, folder=tmp_path / "b")
    with pytest.raises(InputError, match="another max_wait"):
        tune(w, scale=0.2, max_wait=2.0, folder=tmp_path / "b", resume=True)
    (tmp_path / "b" / "trials.jsonl").write_text("{\n")
    with pytest.raises(InputError, match="jsonl:1"):
        tune(w, scale=0.2, folder=tmp_path / "b", resume=True)
    with pytest.raises(InputError, match="known are"):
        tune(w, keep=["qos"])


# ------------------------------------------------------------------ commands


def test_the_commands(site_folder, tmp_path, capsys):
    out = tmp_path / "what.html"
    words = [
        "slurm",
        "what-if",
        str(site_folder),
        "--set",
        "PriorityFavorSmall=YES",
        "--nodes",
        "2",
        "-p",
        "slurm",
        "-p",
        "saf+slurm",
    ]
    assert cli([*words, "--replicas", "2", "--report", str(out)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "against the simulated present" in told
        and "who wins, who loses" in out.read_text()
        and "these changes were made together" in told
        and "PriorityFavorSmall=YES" in out.read_text()
    )
    assert cli([*words, "--json", "--replicas", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)["changes"]) == 2
    assert cli(["slurm", "tune", str(site_folder), "--budget", "0.1", "--out", str(tmp_path / "run"), "-p", "saf+slurm"]) == 0
    assert "present" in capsys.readouterr().out
    assert (
        cli(["slurm", "tune", str(site_folder), "--budget", "0.1", "--out", str(tmp_path / "run"), "--resume", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["trials"] > 5


@pytest.mark.parametrize(
    "words, said",
    [
        (["what-if", "F"], "nothing changes"),
        (["what-if", "F", "--set", "bf_windo=3"], "bf_windo"),
        (["what-if", "F", "-p", "nosuch"], "nosuch"),
        (["what-if", "nowhere", "--nodes", "1"], "no such folder"),
        (["what-if", "F", "--limits", "much"], "--limits"),
        (["tune", "F", "--keep", "qos"], "known are"),
        (["tune", "F", "--max-wait", "0.5"], "0.5"),
        (["tune", "F", "--resume"], "--out"),
        (["tune", "F", "--metric", "colour"], "colour"),
    ],
)
def test_wrong_words_get_one_line(site_folder, capsys, words, said):
    assert cli(["slurm", *(str(site_folder) if x == "F" else x for x in words)]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error and len(error.splitlines()) == 1


def test_a_change_among_several_is_called_lower_only_where_it_may_be_claimed():
    """The same effect, alone and among twenty changes that were tried: the word needs Holm's adjustment and sign flips."""
    from types import SimpleNamespace

    from jobwise.compare.intervals import Effect, RatioOfMeans, claims
    from jobwise.slurm.judge.what_if import Change, Replays

    start = np.zeros(4, [("start", float), ("submit", float)])
    later = start.copy()
    later["start"] = 1.0
    before, after = (Replays([SimpleNamespace(jobs=x)]) for x in (start, later))
    e = Effect(-0.3, -0.5, -0.1, 0.02, 0.02, -0.36, 0.1, 16)
    for sure, word in ((None, "better"), (True, "better"), (False, "no significant difference")):
        c = Change("x", before, after, e, RatioOfMeans(-0.2, -0.3, -0.1, 0.1), np.ones(3), sure)
        assert c.verdict[0] == word
    assert claims([e]) == [True] and claims([e] * 20) == [False] * 20
    w = generated(400, 20, 32, 0.9, seed=7, age=1000, size=500)
    found = what_if(w, [("same", w, "slurm"), ("saf", w, "saf+slurm")], replicas=1)
    assert [c.sure for c in found] == claims([c.slowdown for c in found])


def waits(*seconds):
    """A record of jobs of one processor, the first of a second: each waits so long."""
    r = jw.simulate(
        jw.workload([0.0] * len(seconds), [1] * len(seconds), [1.0] * len(seconds), cluster=jw.pool(len(seconds))), "fcfs"
    )
    r.jobs["start"] += seconds
    r.jobs["end"] += seconds
    return r


def test_means_are_those_of_the_replicas_alone():
    """The jobs as they were logged count for the longest wait; alone they count for all."""
    from jobwise.slurm.judge.what_if import Replays

    every = Replays([waits(1000, 3000), waits(10, 30), waits(30, 50)])
    assert every.wait == 30.0 and every.longest.tolist() == [3000.0, 30.0, 50.0] and len(every.replicas) == 2
    assert Replays([waits(1000, 3000)]).wait == 2000.0


def test_a_change_says_hours_of_waits_and_who_is_better():
    """Present: waits of 1 h and 3 h; after: 0.5 h and 1.5 h. Means 2 h and 1 h, longest 3 h and 1.5 h: half of it."""
    from jobwise.compare.intervals import Effect, RatioOfMeans
    from jobwise.slurm.judge.what_if import Change, Replays

    e = Effect(-0.3, -0.5, -0.1, 0.02, 0.02, -0.36, 0.1, 16)
    present, after = Replays([waits(3600, 10800)]), Replays([waits(1800, 5400)])
    c = Change("x", present, after, e, RatioOfMeans(-0.5, -0.6, -0.4, 0.1), np.array([0.5]))
    assert c.row() == ["x", "1.00", f"{(180.1 + 540.1) / 2:,.1f}", "-30% [-50%, -10%]", "1.50", "0.50", "better"]
    means = "mean wait 1.00 h (now 2.00); longest wait 1.50 h (now 3.00)."
    assert c.sentence() == f"x: better than the present one, slowdown -30% [-50%, -10%]; {means}"
    few = Change("x", present, after, Effect(-0.3, *[float("nan")] * 4, -0.36, 0.1, 2), c.wait, c.longest)
    assert few.sentence().startswith("x: too few jobs to say, slowdown -30% (2 blocks) (they make 2 blocks of time")


def test_waits_are_told_in_a_unit_that_fits_the_longest():
    """Of up to 50 s in seconds, of up to 50 min in minutes: else a site of short jobs reads 0.0 h everywhere."""
    from jobwise.slurm.judge.what_if import Replays

    for longest, name, told in ((50, "s", "50.0"), (3000, "min", "50.0"), (7100, "min", "118.3"), (7200, "h", "2.00")):
        x = Replays([waits(0, longest)])
        assert (x.unit.name, x.unit.text(longest)) == (name, told)


def test_jobs_that_could_never_start_are_left_out_on_both_sides(site, site_folder, capsys):
    """Users of QOS normal may have 4 CPUs: the jobs that ask for more are counted, named and in no replay; alternatives share
    what is left."""
    most = site.cluster.site.asks[site.jobs["ask"]]
    too_large = most["tasks"] * most["cpus"] > 4
    assert 0 < too_large.sum() < len(site)
    with pytest.raises(NeverStart) as caught:
        changed(site, ["QOS=normal MaxTRESPU=cpu=4"])
    assert caught.value.jobs.tolist() == too_large.tolist()
    w, both, left = possible(site, [partial(changed, lines=["QOS=normal MaxTRESPU=cpu=4"]), partial(changed, nodes=1)])
    assert len(w) == len(both[0]) == len(both[1]) == len(site) - too_large.sum()
    assert len(left) == 1 and left[0].startswith("the limit on cpus of a user of QOS normal: ")
    with pytest.raises(InputError):
        possible(site, [partial(changed, lines=["PartitionName=batch State=DOWN"])])
    assert cli(["slurm", "what-if", str(site_folder), "--set", "QOS=normal MaxTRESPU=cpu=4", "--replicas", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["jobs"] == len(w) and told["left_out"] == left


def test_a_sentence_says_who_is_hit_most_and_who_is_helped_most(site):
    (more,) = what_if(site, [("more", changed(site, nodes=4), "slurm")])
    best = max(
        (g for g in more.groups() if g["high"] and g["high"] < 0), key=lambda g: (g["present_s"] - g["after_s"]) * g["jobs"]
    )
    assert f"Most helped: {'jobs of ' if best['what'] == 'CPUs' else best['what'] + ' '}{best['group']}" in more.sentence()
    assert "Most hit" not in more.sentence()


def test_a_change_that_moves_starts_in_one_replica_is_one():
    from jobwise.compare.intervals import Effect, RatioOfMeans
    from jobwise.slurm.judge.what_if import Change, Replays

    def change(*after):
        e = Effect(-0.3, -0.5, -0.1, 0.02, 0.02, -0.36, 0.1, 16)
        present = Replays([waits(1, 1), waits(2, 5)])
        return Change("x", present, Replays([waits(*x) for x in after]), e, RatioOfMeans(-0.2, -0.3, -0.1, 0.1), np.ones(2))

    assert change((1, 1), (2, 5)).idle and not change((1, 1), (2, 4)).idle and not change((1, 0), (2, 5)).idle


def test_a_shorter_limit_of_a_partition_ends_jobs_at_it_and_counts_them(site):
    """Limits of 600 s: jobs that ask for more ask for 600 s, and those that run longer end then."""
    longer = site.jobs["walltime"] > 600
    name = site.cluster.known_site.partition_names[0]
    w = changed(site, [f"PartitionName={name} MaxTime=00:10:00"])
    there = np.array([name in site.names["partition"][int(p)].split(",") for p in site.jobs["partition"]])
    assert (w.jobs["walltime"][there] <= 600).all() and (longer & there).any()
    cut = there & (site.truth["runtime"] > 600)
    assert (w.truth["runtime"][cut] == 600).all() and np.array_equal(w.truth["runtime"][~cut], site.truth["runtime"][~cut])
    (text,) = [k for k in w.notes if "ask for the limit" in k]
    assert w.notes[text] == int((longer & there).sum()) and f"{int(cut.sum()):,} of them end at it" in text


def test_a_shorter_limit_of_the_qos_of_a_partition_ends_jobs_at_it(tmp_path):
    """Jobs of 600 s have QOS normal; the QOS of partition long lets its jobs have 300 s, and replaces what normal says."""
    nodes = [node("c1"), node("c2")]
    qos = [{"Name": "part"}]
    jobs = [job(1, 0, 0, 600, Partition="long"), job(2, 0, 0, 600, node="c2", Partition="other")]
    parts = [partition("long", "c1", QoS="part"), partition("other", "c2")]
    w = read(write(tmp_path / "s", jobs, nodes, parts, qos))
    assert changed(w, ["QOS=part MaxWall=00:05:00"]).truth["runtime"].tolist() == [300, 600]
    assert changed(w, ["QOS=normal MaxWall=00:08:00", "QOS=part MaxWall=00:09:00"]).truth["runtime"].tolist() == [540, 480]


def test_a_partition_gets_other_nodes(site):
    s = site.cluster.known_site
    name, names = s.partition_names[0], s.names
    w = changed(site, [f"PartitionName={name} Nodes={','.join(names)}"])
    assert w.cluster.known_site.sets[w.cluster.known_site.partitions["set"][0]].all()
    with pytest.raises(InputError, match="unknown node 'nosuch'"):
        changed(site, [f"PartitionName={name} Nodes=nosuch"])


def test_more_demand_is_the_same_jobs_in_less_time(site):
    w = changed(site, demand=1.25)
    assert w.jobs["submit"][-1] == pytest.approx(site.jobs["submit"][-1] / 1.25)
    with pytest.raises(InputError, match="cannot be tried"):
        changed(site, demand=0)


def test_alternatives_are_rows_of_one_table(site_folder, capsys):
    words = [
        "slurm",
        "what-if",
        str(site_folder),
        "--replicas",
        "1",
        "--or",
        "nodes=2",
        "--or",
        "bf_window=2880",
        "--or",
        "demand=1.2",
    ]
    assert cli(words) == 0
    out = capsys.readouterr().out
    assert all(f"\n {name} " in out for name in ("now", "nodes=2", "bf_window=2880", "demand=1.2")) and "who wins" not in out
    assert "Groups of jobs, change by change, are in the report" in out
    assert cli([*words[:3], "--or", "nodes=many"]) == 2
    assert "a number is expected" in capsys.readouterr().err


# ------------------------------------------------------------------ the questions of administrators


def small(tmp_path, **more):
    """Two partitions on four nodes, eight jobs of four CPUs for ten minutes each, all there at 0."""
    nodes = [node(f"c{k}") for k in range(1, 5)]
    parts = [partition("long", "c[1-2]"), partition("short", "c[3-4]")]
    own = {"Partition": "long", "mem": "10M"}
    jobs = [
        job(k, 0, (k - 1) // 2 * 600, 600, 4, limit=60 if k % 2 else 600, User=u, **own) for k, u in enumerate("aabbaabb", 1)
    ]
    return read(write(tmp_path / "s", jobs, nodes, parts, **more))


def test_jobs_move_to_another_partition(tmp_path):
    w = small(tmp_path)
    moved = changed(w, moves=["partition=long,time<=1h to short"])
    assert moved.notes == {"moved to partition short": 4}
    assert sorted(simulate(moved, "slurm").jobs["start"] // 600) == [0, 0, 0, 0, 1, 1, 1, 1]  # of four rounds two are left
    assert sorted(simulate(w, "slurm").jobs["start"] // 600) == [0, 0, 1, 1, 2, 2, 3, 3]
    by_user = changed(w, moves=["user=a,cpus>=4 to short"])
    assert by_user.notes == {"moved to partition short": 4}


def test_jobs_that_do_not_fit_stay(tmp_path):
    w = small(tmp_path)
    tight = changed(w, new=["PartitionName=one Nodes=c1 MaxNodes=1"], moves=["user=a to one"])
    assert tight.notes == {"moved to partition one": 4}
    asks = w.cluster.site.asks.copy()
    asks["nodes"] = 2
    wide = replace(w, cluster=replace(w.cluster, site=replace(w.cluster.site, asks=asks)))
    stay = changed(wide, new=["PartitionName=one Nodes=c1"], moves=["user=a to one"])
    assert stay.notes == {"moved to partition one": 0, "stay where they are: no nodes of one can hold them": 4}


def test_a_new_partition_and_a_new_qos(tmp_path):
    w = small(tmp_path)
    both = changed(
        w,
        new=["PartitionName=all Nodes=ALL PriorityTier=5", "QOS=one MaxJobsPU=1"],
        moves=["user=a to all", "user=b to qos=one"],
    )
    site = both.cluster.site
    assert site.partition_names == ("long", "short", "all") and site.qos_names == ("normal", "one")
    assert site.partitions["tier"].tolist() == [1, 1, 5]
    r = simulate(both, "slurm")
    mine = both.jobs["user"] == 0
    assert sorted(r.jobs["start"][mine] // 600) == [0, 0, 0, 0]  # four nodes at once for those of the higher tier
    assert len(set(r.jobs["start"][~mine])) == 4  # of user b one job at a time


def test_maintenance_keeps_nodes_free(tmp_path):
    """All nodes are kept for an hour, 20 minutes after the first submit: jobs of an hour's limit wait for its end."""
    w = small(tmp_path)
    begin = ZERO + 1200
    text = f"{datetime.fromtimestamp(begin, UTC):%Y-%m-%dT%H:%M:%S}"
    kept = changed(w, reserve=[f"{text} 1h all"])
    start = simulate(kept, "slurm").jobs["start"]
    assert (start >= 4800).all() and kept.notes == {"ran then on the 4 nodes that are kept": 4}
    half = changed(w, reserve=[f"{text} 1h c2"])
    assert sorted(simulate(half, "slurm").jobs["start"] // 600)[:3] == [0, 1, 2]


def test_shares_and_limits_of_accounts_and_users(tmp_path):
    rows = [("root", "", 1), ("lab", "", 1), ("lab", "a", 1), ("lab", "b", 1)]
    assoc = [{"Account": a, "User": u, "Share": n, "ParentName": "root" if a == "lab" and not u else ""} for a, u, n in rows]
    w = small(tmp_path, assoc=assoc, PriorityWeightFairShare="1000")
    after = changed(w, ["Account=lab Share=20 GrpJobs=4", "User=b MaxJobs=1"])
    tree, names = after.cluster.site.associations, after.cluster.site.association_names
    assert names == (("root", ""), ("lab", ""), ("lab", "a"), ("lab", "b"))
    assert tree["shares"].tolist() == [1, 20, 1, 1] and tree["all"][1][0] == 4 and tree["jobs"][3] == 1


def test_preemption_can_be_tried(tmp_path):
    w = small(tmp_path)
    lines = [
        "PreemptType=preempt/partition_prio",
        "PartitionName=long PreemptMode=CANCEL GraceTime=60",
        "PartitionName=short PriorityTier=9 Nodes=ALL",
    ]
    site = changed(w, lines).cluster.site
    assert site.settings["preempt"][0] == 1 and not changed(w, lines).notes
    nobody = changed(w, lines[:1])
    assert nobody.notes == {"can be stopped for others, as PreemptMode, tiers and Preempt have it": 0}
    assert site.partition_preempt["mode"].tolist() == [CANCELLED, STAYS] and site.partition_preempt["grace"].tolist() == [60, 0]
    assert changed(w, ["PreemptMode=REQUEUE"]).cluster.site.partition_preempt["mode"].tolist() == [REQUEUED, REQUEUED]
    named = changed(w, new=["QOS=low Priority=0", "QOS=high Priority=9 Preempt=low,normal"])
    assert named.cluster.site.preempts.tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"moves": ["to short"]}, "who moves to where"),
        ({"moves": ["shape=long to short"]}, "no condition on partition, user"),
        ({"moves": ["partition=lnog to short"]}, "lnog"),
        ({"moves": ["partition=long to shrot"]}, "shrot"),
        ({"moves": ["user<a to short"]}, "is a name"),
        ({"moves": ["time<=soon to short"]}, "'soon' is no time"),
        ({"moves": ["cpus>99 to short"]}, "no job is like that"),
        ({"new": ["PartitionName=x"]}, "needs its nodes"),
        ({"new": ["PartitionName=long Nodes=c1"]}, "is there already"),
        ({"new": ["Account=x"]}, "new are partitions and QOS"),
        ({"reserve": ["tomorrow 1h all"]}, "is no day or time"),
        ({"reserve": ["2020-01-01 1h all"]}, "were there from 2025-06-15T"),
        ({"reserve": ["2025-06-15T15:10 1h nowhere"]}, "nowhere"),
        ({"reserve": ["2025-06-15T15:10"]}, "begin, length and nodes are expected"),
        ({"lines": ["Account=nosuch Share=1"]}, "nosuch"),
        ({"lines": ["PreemptMode=MAYBE"]}, "MAYBE"),
        ({"lines": ["QOS=normal Preempt=nosuch"]}, "nosuch"),
    ],
)
def test_questions_that_are_none_are_refused_in_a_line(tmp_path, told, said):
    with pytest.raises(InputError, match=said):
        changed(small(tmp_path), **told)


@pytest.mark.parametrize("text", ["wait", "wait<1", "slowdown<10h", "waits<1h", "wait<1.2.3h"])
def test_goals_that_are_none(text):
    with pytest.raises(InputError, match="--until"):
        goal(text)


def test_jobs_that_move_stay_in_their_group(tmp_path):
    """Of 44 jobs one after the other on a node, 22 move to a QOS that changes nothing: no group waits longer or less."""
    jobs = [job(k, k, k, 60, 4, mem="10M", User="ann" if k % 2 else "bob") for k in range(44)]
    w = read(write(tmp_path / "s", jobs, qos=[{"Name": "clone", "Priority": 0}]))
    (change,) = what_if(w, [("moved", changed(w, moves=["user=ann to qos=clone"]), "slurm")], replicas=0)
    groups = change.groups()
    assert change.idle and groups and all(g["present_s"] == g["after_s"] for g in groups)


def test_a_user_is_changed_in_an_account_of_his_alone(tmp_path):
    rows = [("root", ""), ("bio", ""), ("lab", ""), ("lab", "ann"), ("bio", "bob")]
    rows = [{"Account": a, "User": u, "Share": 1, "ParentName": "" if u or a == "root" else "root"} for a, u in rows]
    w = read(write(tmp_path / "s", [job(1, 0, 0, 10), job(2, 0, 0, 10, User="bob", Account="bio")], assoc=rows))
    with pytest.raises(InputError, match="user ann is not in account bio, but in lab"):
        changed(w, ["User=ann Account=bio MaxJobs=1"])


def test_how_many_nodes_until(tmp_path):
    """Eight jobs of a node each, ten minutes: on two nodes they wait 15 minutes in the mean, on four 5, on eight none."""
    nodes = [node(f"c{k}") for k in (1, 2)]
    jobs = [job(k, 0, 0, 600, 4, mem="10M") for k in range(1, 9)]
    w = read(write(tmp_path / "s", jobs, nodes, [partition(nodes="c[1-2]")]))
    changes, answer = until(w, goal("wait<6m"), replicas=0)
    assert [c.name for c in changes] == ["+1 nodes", "+2 nodes"]
    assert answer.startswith("wait<6m: it takes 2 more nodes beside the 2: the mean wait is 5.01 min then, 15.0 min now")
    assert until(w, goal("wait<1h"), replicas=0) == ([], "wait<1h: the mean wait is 15.0 min now, no more nodes are needed.")
    assert "with 6 more nodes" in until(w, goal("longest<1m"), replicas=0)[1].replace("it takes 6", "with 6")


def test_the_questions_as_commands(tmp_path, capsys):
    nodes = [node(f"c{k}") for k in (1, 2)]
    jobs = [job(k, 0, 0, 600, 4, mem="10M") for k in range(1, 9)]
    folder = str(write(tmp_path / "s", jobs, nodes, [partition(nodes="c[1-2]")]))
    assert cli(["slurm", "what-if", folder, "--until", "wait<6m", "--replicas", "0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in told["changes"]] == ["+1 nodes", "+2 nodes"] and "2 more nodes" in told["answer"]
    assert told["changes"][1]["node_hours"]["after"] == pytest.approx(4 * 1200 / 3600, rel=0.01)
    words = ["--new", "PartitionName=one Nodes=c1", "--or", "move=cpus=4 to main", "--or", "nodes=2"]
    assert cli(["slurm", "what-if", folder, *words, "--replicas", "0"]) == 0
    out = capsys.readouterr().out
    assert "one is new, and no job goes there" in out and "moved to partition main" in out and "node-hours" in out
    assert cli(["slurm", "what-if", folder, "--until", "wait<6m", "--nodes", "2"]) == 2
    assert "goes with neither --nodes, --or nor --policy" in capsys.readouterr().err
    assert cli(["slurm", "what-if", folder, "--until", "wait<6m", "--demand", "1.001", "--replicas", "0"]) == 0
    out = capsys.readouterr().out
    assert "demand x1.001, wait<6m: it takes 2 more nodes" in out and "all rows are with demand x1.001" in out
    assert cli(["slurm", "what-if", folder, "--or", "nodes=-1", "--replicas", "0"]) == 0
    assert cli(["slurm", "advise", "--folder", folder]) == 0
    assert "no job waits there" in capsys.readouterr().out
