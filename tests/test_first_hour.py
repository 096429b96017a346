"""What a newcomer meets first: figures that can be read, files that agree with the summary, sites from sacct alone, commands
without torch, progress that counts, short trainings that say so.

Modules: listeners.py, report/figures.py, sim/measures.py, workloads/campaigns.py.
"""

import csv
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import jobwise as jw
from jobwise import metrics
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.workloads.campaigns import campaigns


def texts(svg):
    """The words of a figure."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("first") / "log.swf"
    jw.write_swf(jw.lublin(1500, 64, seed=3, load=1.0, estimates="users", users=12), path)
    return str(path)


# ------------------------------------------------------------------ figures


def test_no_axis_shows_the_source_of_a_formula(log, tmp_path):
    report = tmp_path / "r.html"
    policies = [x for p in ("fcfs+easy", "saf+easy", "sjf+easy") for x in ("-p", p)]
    assert run(["compare", log, *policies, "--replicas", "1", "--report", str(report)]) == 0
    page = report.read_text()
    words = [x for svg in re.findall(r"<svg.*?</svg>", page, re.S) for x in texts(svg)]
    assert len(words) > 100 and not any("$" in x or "mathdefault" in x or "\\" in x for x in words)
    assert {"10", "100", "1,000"} & set(words) and {"0.1", "0.01"} & set(words)


def test_figures_of_every_kind_have_plain_numbers():
    from jobwise.report import figures

    drawn = [
        figures.bars({"a": {"x": 3e-7, "y": 2e9}}, "s"),
        figures.bars({"a": {"x": 3.0, "y": 5.0}}, "s"),
        figures.svg(lambda f: f.subplots().plot([1, 1e7], [1e-6, 1]) and f.axes[0].set(xscale="log", yscale="log"), label="x"),
    ]
    for svg in drawn:
        assert not any("$" in x for x in texts(svg)) and len(texts(svg)) > 4
    assert "10⁶" in " ".join(texts(drawn[2])) and "10⁻⁶" in " ".join(texts(drawn[2]))
    assert figures.number(1e-5) == "10⁻⁵" and figures.number(5000.0) == "5,000" and figures.number(0.02) == "0.02"


def test_thirty_policies_have_thirty_colours():
    from jobwise.report.figures import COLOURS, colour

    assert [colour(p) for p in range(len(COLOURS))] == list(COLOURS)
    assert len({colour(p) for p in range(30)}) == 30


# ------------------------------------------------------------------ files agree with the summary


@pytest.fixture(scope="module")
def failing():
    """Two nodes, one of which fails once: what was lost is waiting."""
    machine = jw.nodes(2, cpus=2).with_outages([(50.0, 0, 0), (80.0, 0, 1)])
    w = jw.workload([0, 0, 5, 30], [[2], [2], [1], [2]], [100, 100, 20, 40], cluster=machine)
    r = jw.simulate(w, "fcfs")
    assert (r.jobs["restarts"] > 0).any() and metrics.wait(r).max() > 0
    return r


def test_csv_and_parquet_agree_with_the_summary_after_a_failure(failing, tmp_path):
    import pandas

    from jobwise.report import export

    for ending, read in ((".csv", pandas.read_csv), (".parquet", pandas.read_parquet)):
        export.write(failing, str(tmp_path / f"x{ending}"))
        table = read(tmp_path / f"x{ending}")
        assert table["wait"].tolist() == metrics.wait(failing).tolist()
        assert table["wait"].mean() == failing.summary()["wait"]
        assert table["bounded_slowdown"].mean() == pytest.approx(failing.summary()["bounded_slowdown"])


def test_swf_and_evalys_agree_with_the_summary_after_a_failure(failing, tmp_path):
    from jobwise.report import export
    from jobwise.workloads.swf import read_swf

    export.write(failing, str(tmp_path / "x.swf"))
    again = read_swf(tmp_path / "x.swf")
    assert again.columns["wait"].mean() == pytest.approx(failing.summary()["wait"], abs=1.0)
    assert again.truth["runtime"].tolist() == metrics.run(failing).tolist()
    export.write_evalys(failing, str(tmp_path / "jobs.csv"))
    with open(tmp_path / "jobs.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(r["waiting_time"]) for r in rows] == metrics.wait(failing).tolist()
    assert [float(r["turnaround_time"]) for r in rows] == metrics.turnaround(failing).tolist()


def test_every_way_of_measuring_bounded_slowdown_gives_the_same():
    """One formula in Python, one in kernels: the summary, the window's numbers, a gate's replay, tuning."""
    from jobwise.compare import windows
    from jobwise.sim.measures import bounded, bounded_all
    from jobwise.sim.pool import replay_batch

    assert bounded(0.0, 1.0) == 1 and bounded(600.0, 1.0) == 60.1 and bounded(600.0, 20.0) == 31.0
    wait, run_s = np.array([0, 600.0, 600, 5]), np.array([1.0, 1, 20, 10])
    assert np.array_equal(bounded_all(wait, run_s), metrics.bounded(wait + run_s, run_s))
    w = jw.lublin(300, 64, seed=1, load=0.9)
    r = jw.simulate(w, "saf+easy")
    trials, bench = replay_batch.prepare([w]), replay_batch.bench([w])
    from jobwise.policies.names import resolve
    from jobwise.sim.memory.loglinear import F

    found = replay_batch.trial(bench, resolve("saf+easy").rule, np.zeros(F), trials, np.arange(1))[0]
    assert found[replay_batch.BOUNDED] == pytest.approx(r.summary()["bounded_slowdown"], rel=1e-12)
    assert windows.numbers(r)["bounded_slowdown"] == pytest.approx(r.summary()["bounded_slowdown"], rel=1e-12)


def test_numbers_that_there_are_not_are_not_shown(log, tmp_path, capsys):
    assert run(["simulate", "rl-taps:3", "-p", "gpus:both"]) == 0
    out = capsys.readouterr().out
    assert "nan" not in out and "utilisation" not in out and "bounded slowdown" in out
    jw.write_swf(jw.lublin(200, 16, seed=1), tmp_path / "nobody.swf")
    assert run(["simulate", str(tmp_path / "nobody.swf")]) == 0
    assert "fairness" not in capsys.readouterr().out
    assert run(["simulate", log]) == 0
    assert "fairness" in capsys.readouterr().out


# ------------------------------------------------------------------ without torch; under torchrun


@pytest.mark.cli
@pytest.mark.parametrize(
    "words", [["watch", "gpus:slot", "--rows", "3"], ["watch", "affinities:lb", "--rows", "3"], ["watch", "sjf", "--rows", "3"]]
)
def test_films_of_rules_need_no_torch(words, tmp_path):
    code = "import sys; sys.modules['torch'] = None; from jobwise.cli import run; sys.exit(run(sys.argv[1:]))"
    out = str(tmp_path / "x.gif")
    done = subprocess.run([sys.executable, "-c", code, *words, "-o", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(out).stat().st_size > 100


@pytest.mark.cli
def test_configurations_need_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from jobwise.systems import systems, configure\nimport jobwise as jw\nw = jw.lublin(300, 64, users=4)\n"
        "for s, row in systems().items(): configure(s, w if row.on_log else None, 'smoke')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["sem", "LOG"],
        ["search", "LOG"],
        ["perjob", "LOG"],
        ["rl-taps+"],
        ["deeprm+", "--config", "PPO"],
    ],
)
def test_trainings_that_do_not_share_their_work_refuse_several_processes(words, log, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "ppo.toml").write_text("[learner]\nlearner = 'ppo'\n")
    words = [{"LOG": log, "PPO": str(tmp_path / "ppo.toml")}.get(x, x) for x in words]
    assert run(["train", *words, "--out", str(tmp_path / "run"), "--preset", "smoke"]) == 2
    err = capsys.readouterr().err
    assert "2 processes would train the same" in err and err.count("\n") == 1 and not (tmp_path / "run").exists()


# ------------------------------------------------------------------ sites from sacct alone


def test_no_cpus_are_invented_where_sacct_is_all_there_is(tmp_path, capsys):
    """Four nodes of four CPUs: ten CPUs on four nodes are ten, not three on each."""
    head = "JobIDRaw|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqCPUS|ReqMem|ReqTRES|AllocTRES|NodeList|SubmitLine"
    rows, t0 = [], 1_800_000_000

    def job(i, start, run_s, cpus, nodes):
        count = 4 if "-" in nodes else 1
        when = f"{t0 + start}|{t0 + start}|{t0 + start}|{t0 + start + run_s}|{run_s}"
        rows.append(
            f"{i}|j|u|a|batch|normal|COMPLETED|{when}|10|{count}|{cpus}|{cpus}|1M|cpu={cpus}|cpu={cpus},mem=8M,node={count}|{nodes}|sbatch x"
        )

    for i in range(4):
        job(i, 0, 100, 4, f"n{i + 1}")  # every node is full once
    for i in range(6):
        job(10 + i, 200 + 100 * i, 90, 10, "n[1-4]")
        job(30 + i, 210 + 100 * i, 50, 2, f"n{i % 4 + 1}")
    (tmp_path / "sacct.txt").write_text("\n".join([head, *rows]) + "\n")
    (tmp_path / "sacct.json").write_text("{}")  # the text is there: this is not read
    assert run(["slurm", "site", str(tmp_path), "--json"]) == 0
    site = json.loads(capsys.readouterr().out)
    assert site["cpus"] == 16 and site["files_read"] == ["sacct.txt"] and site["files_not_read"] == ["sacct.json"]
    assert run(["slurm", "site", str(tmp_path)]) == 0
    assert (
        "scontrol_config.txt would help most; `SLURM_TIME_FORMAT=%s scontrol show config` writes it." in capsys.readouterr().out
    )
    assert run(["slurm", "what-if", str(tmp_path), "--set", "PriorityFavorSmall=YES", "--replicas", "1"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "The jobs were submitted within 12 minutes: no day and no week is among them" in out
    assert "not one start changes" in out and "first come, first served (no scontrol_config in this folder)" in out


def test_nodes_say_which_partitions_they_are_in(tmp_path):
    from conftest import write_site

    from jobwise.slurm.read.site import read

    folder = write_site(tmp_path / "site")
    (folder / "scontrol_partition.txt").unlink()
    file = folder / "scontrol_node.txt"
    file.write_text("\n".join(f"{x} Partitions=batch" for x in file.read_text().splitlines()) + "\n")
    site = read(folder).cluster.site
    assert site.sets[site.partitions[0]["set"]].sum() == 4  # its jobs ran on n1 alone


def test_names_of_changes_stand_in_full(tmp_path, capsys):
    from conftest import write_site

    from jobwise.cli.tables import broken

    folder, name = write_site(tmp_path / "site"), "PriorityFavorSmall=YES"
    assert run(["slurm", "what-if", str(folder), "--set", name, "--replicas", "1", "-p", "slurm", "-p", "saf+slurm"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out and "PriorityFavorSmal" in out.replace("\n", "") and f"saf+slurm, {name}: " in out
    assert broken("smith-geo-aged+slurm", 18).split("\n") == ["smith-geo-aged+", "slurm"]
    assert broken("x" * 40, 18).replace("\n", "") == "x" * 40 and max(map(len, broken("x" * 40, 18).split("\n"))) <= 18


# ------------------------------------------------------------------ the generated log, progress, notes


def test_a_generated_log_of_campaigns_is_like_a_sites():
    w = campaigns(6000, 128, seed=3, load=0.8, users=30)
    assert len(w) == 6000 and np.array_equal(w.jobs["submit"], campaigns(6000, 128, seed=3, load=0.8, users=30).jobs["submit"])
    used = w.truth["runtime"] / w.jobs["walltime"]
    assert (used <= 1).all() and np.median(used) < 0.3 and (w.jobs["request"][:, 0] <= 64).all()
    load = (w.truth["runtime"] * w.jobs["request"][:, 0]).sum() / (128 * w.jobs["submit"][-1])
    assert 0.7 < load < 0.9
    by_user = [np.log(w.truth["runtime"][w.jobs["app"] == a]) for a in np.unique(w.jobs["app"])]
    within = np.concatenate([x - np.median(x) for x in by_user if len(x) > 5])
    assert np.median(np.abs(within)) < 0.6 * np.median(
        np.abs(np.log(w.truth["runtime"]) - np.median(np.log(w.truth["runtime"])))
    )
    for wrong in ({"jobs": 0}, {"procs": 1}, {"users": 0}, {"load": 0.0}):
        with pytest.raises(InputError, match="cannot generate"):
            campaigns(**({"jobs": 100, "users": 5} | wrong))


def test_campaigns_are_generated_by_command(tmp_path, capsys):
    out = str(tmp_path / "x.swf")
    assert run(["trace", "generate", out, "--model", "campaigns", "--jobs", "300", "--users", "5", "--seed", "2"]) == 0
    assert len(jw.read_swf(out)) == 300
    assert run(["trace", "generate", out, "--model", "campaign", "--force"]) == 2
    assert "did you mean campaigns" in capsys.readouterr().err
    assert run(["trace", "generate", out, "--model", "campaigns", "--estimates", "users", "--force"]) == 2


def test_compiling_is_told_to_the_progress_line(monkeypatch, capsys):
    from jobwise.cli import progress
    from jobwise.listeners import LISTENERS

    monkeypatch.setenv("JOBWISE_ANNOUNCE", "1")
    monkeypatch.setattr(progress.Lines, "EVERY_S", 0.2)
    with progress.progress("comparing"):
        LISTENERS[-1]("compiling, once: 12 functions, 3 s")
        until, said = time.monotonic() + 30, ""
        while not said and time.monotonic() < until:
            time.sleep(0.1)
            said = capsys.readouterr().err
    assert "comparing: compiling, once: 12 functions, 3 s" in said and not LISTENERS


def test_messages_are_broken_between_words_on_a_terminal(monkeypatch, capsys):
    from jobwise.cli import tables

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    tables.complain("unknown line of slurm.conf that is simulated 'bf_windo'; did you mean bf_window?")
    lines = capsys.readouterr().err.strip().split("\n")
    assert len(lines) > 2 and all(len(x) <= 40 for x in lines) and any("bf_window?" in x for x in lines)


@pytest.mark.xdist_group("learning")
def test_short_trainings_say_so(log, tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert run(["train", "search", log, "--out", folder, "--preset", "smoke"]) == 0
    assert "preset smoke, for seconds: its numbers say nothing of the method" in " ".join(capsys.readouterr().out.split())
    report = tmp_path / "r.html"
    assert run(["evaluate", folder, log, "-p", "fcfs+easy", "--replicas", "1", "--report", str(report)]) == 0
    assert "trained with preset smoke" in " ".join(capsys.readouterr().out.split())
    assert "trained with preset smoke" in report.read_text()
    assert run(["compare", log, "-p", "fcfs+easy", "-p", folder, "--replicas", "1", "--json"]) == 0
    assert any("trained with preset smoke" in x for x in json.loads(capsys.readouterr().out)["notes"])


def test_an_unknown_column_of_jobs_names_those_that_there_are():
    def mine(jobs, now):
        return jobs["cpus"]

    with pytest.raises(InputError, match=r"no .*cpus.*request"):
        jw.simulate(jw.lublin(50, 16, seed=1), jw.ListScheduler(mine))


def test_modules_of_the_comparison_can_be_imported_by_name():
    import jobwise.compare.answer as sentences
    import jobwise.compare.intervals as x
    from jobwise.compare import windows

    assert callable(sentences.answer)
    assert x.LEAST == 6 and windows.SIZE == 1024 and callable(jw.compare)


def test_the_machine_is_not_in_use_while_it_is_down():
    """What was executed and kept counts: neither the thirty seconds in which the node was down, nor the work that was lost."""
    machine = jw.nodes(1, cpus=2).with_outages([(50.0, 0, 0), (80.0, 0, 1)])
    r = jw.simulate(jw.workload([0], [[2]], [100], [100], cluster=machine), "fcfs")
    assert r.jobs["end"][0] == 180 and metrics.utilisation(r) == pytest.approx(100 / 180)
    assert metrics.wait(r)[0] == 80 and metrics.run(r)[0] == 100  # both are waiting
