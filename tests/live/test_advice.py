"""Advice for a site: whose place a policy would change, whose limits are too long, lines for slurm.conf.

Modules: cli/slurm_advise.py.
"""

import json

import numpy as np
import pytest
from conftest import programs
from test_live import cluster, job  # noqa: F401

from jobwise.cli import run
from jobwise.live import advice, sources
from jobwise.live.starts import predict

pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]


@pytest.fixture
def wasteful(cluster):  # noqa: F811
    """The cluster, one of whose users asks for ten times as long as the others."""
    lines = (cluster / "sacct.txt").read_text().splitlines()
    names = lines[0].split("|")
    user, limit = names.index("User"), names.index("TimelimitRaw")
    rows = [x.split("|") for x in lines[1:]]
    many = max({r[user] for r in rows}, key=lambda u: sum(r[user] == u for r in rows))
    for r in rows:
        if r[user] == many:
            r[limit] = str(20 * int(r[limit]))
    (cluster / "sacct.txt").write_text("\n".join([lines[0], *("|".join(r) for r in rows)]) + "\n")
    return cluster, many


def test_whose_limits_are_too_long(wasteful):
    folder, user = wasteful
    w = advice.ended(sources.look(folder))
    assert len(w) == 301 and np.isnan(w.jobs["start"]).all()
    found = advice.limits(w)
    assert [x.user for x in found] == [user]
    x = found[0]
    assert x.share <= advice.WORTH and x.change[0] <= x.change[1] <= x.change[2] < 0 < x.present
    mail = x.words()
    assert mail.startswith(f"Dear {user}, your last {x.jobs:,} jobs") and f"{100 * x.share:.0f} % of it" in mail
    assert advice.limits(w.take(slice(0, 15))) == []  # too few jobs


def test_whose_place_a_policy_would_change(cluster):  # noqa: F811
    p = predict(sources.look(cluster), count=8)
    assert advice.moves(p, "fcfs")[0]["job"] in (9004, 9005, 9006)
    rows = advice.moves(p, "ljf")
    assert {x["job"] for x in rows} <= {9004, 9005, 9006} and all(x["place"] != x["wanted"] for x in rows)
    assert sorted(x["wanted"] for x in advice.moves(p, "fcfs"))[0] == 1


def test_lines_are_a_diff(monkeypatch, cluster):  # noqa: F811
    from types import SimpleNamespace

    w = advice.ended(sources.look(cluster))
    present = w.cluster.known_site.settings
    after = present.copy()
    after["bf_window"], after["age"] = 172_800.0, 500.0
    lines = ["PriorityWeightAge=500", "SchedulerParameters=bf_window=2880"]
    tuned = SimpleNamespace(proposed=lines, settings=after, sentence=lambda: "Better.")
    monkeypatch.setattr(advice, "tune", lambda *a, **k: tuned)
    diff, verdict = advice.lines(w)
    assert "-PriorityWeightAge=1000" in diff and "+PriorityWeightAge=500" in diff and verdict == "Better."
    tuned.proposed = []
    assert advice.lines(w) == ([], "Better.")


@pytest.mark.cli
def test_the_command(wasteful, capsys):
    folder, user = wasteful
    assert run(["slurm", "advise", "--folder", str(folder), "-p", "ljf", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["limits"][0]["user"] == user and out["limits"][0]["mail"] and out["moves"]
    assert run(["slurm", "advise", "--folder", str(folder), "-p", "ljf"]) == 0
    text = capsys.readouterr().out
    assert f"Dear {user}" in text and "would change places under ljf" in text.replace("\n", " ")


@pytest.mark.slurm
def test_a_cluster_is_not_called_by_the_folder_that_is_read(cluster, tmp_path, monkeypatch, capsys):  # noqa: F811
    """Commands read Slurm into a folder that is deleted: its name says nothing to whoever reads messages."""
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", cluster))
    head = (cluster / "sacct.txt").read_text().splitlines()[0]
    (cluster / "sacct.txt").write_text(head + "\n")
    jobs = json.loads((cluster / "squeue.json").read_text())["jobs"]
    for gone, said in (
        ({"RUNNING", "COMPLETED", "CANCELLED"}, "sacct tells of no job that has ended"),
        ({"PENDING", "RUNNING", "COMPLETED", "CANCELLED"}, "no job waits, runs, or has ended"),
    ):
        (cluster / "squeue.json").write_text(json.dumps({"jobs": [x for x in jobs if not gone & {*x["job_state"].split()}]}))
        if "PENDING" not in gone:  # what waits can be ranked; nothing is known of limits
            assert run(["slurm", "advise", "-p", "ljf", "--json"]) == 0
            told = json.loads(capsys.readouterr().out)
            assert told["limits"] == [] and told["lacking"].endswith("nothing is said of time limits")
        code = run(["slurm", "advise", "-p", "ljf"])
        text = capsys.readouterr()
        assert "jobwise-" not in text.out + text.err and said in text.out + text.err and code == (2 if "PENDING" in gone else 0)
    assert run(["slurm", "watch", "--cycles", "1"]) == 0
    err = capsys.readouterr().err
    assert "this cluster: no job waits, runs, or has ended; trying again" in " ".join(err.split())
    assert run(["slurm", "watch", "--cycles", "1", "-p", "nothing"]) == 2


@pytest.mark.slow
def test_with_tuning(cluster, capsys):  # noqa: F811
    assert run(["slurm", "advise", "--folder", str(cluster), "--tune", "--json"]) == 0
    assert "verdict" in json.loads(capsys.readouterr().out)
