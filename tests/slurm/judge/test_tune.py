"""Settings that are searched: nothing is proposed that breaks its bound, that later jobs do not confirm, or that a simulation
proposes which does not explain the record.

Modules: slurm/read/conf.py.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from conftest import write_site

import jobwise as jw
from jobwise.cli import run
from jobwise.compare.intervals import Effect, RatioOfMeans
from jobwise.errors import InputError
from jobwise.parallel import workers
from jobwise.site import settings
from jobwise.slurm.judge import tune
from jobwise.slurm.judge.fidelity import Fidelity, trusted
from jobwise.slurm.judge.tune import REPLICAS, Tuned, draw
from jobwise.slurm.judge.what_if import Change, Replays
from jobwise.slurm.read import conf


def found_by(site, monkeypatch, measure):
    """What is tuned where a candidate is measured by `measure(part)`: (e-folds of wait, times the longest wait)."""
    present = tune._key(site.cluster.site.settings)

    numbers = {}  # of the parts, in the order in which one worker comes to them: 0 to REPLICAS + 1

    def scores(trial):
        part = numbers.setdefault(id(trial[0].get()), len(numbers))
        gain, longest = (0.0, 1.0) if tune._key(trial[1]) == present else measure(part)
        return 2.0 + gain, 5.0 + gain, 1000.0 * longest

    monkeypatch.setattr(tune, "_scores", scores)
    with workers("threads", 1):
        return tune.tune(site, max_wait=1.2, scale=0.1)


def test_a_candidate_that_breaks_the_bound_where_it_is_searched_is_not_chosen(site, monkeypatch):
    assert found_by(site, monkeypatch, lambda part: (-1.2, 1.0)).lines  # a control: so large a gain is taken
    assert found_by(site, monkeypatch, lambda part: (-1.2, 1.6)).lines == []  # in every replica
    for broken in range(REPLICAS + 2):  # in one of them
        assert found_by(site, monkeypatch, lambda part, b=broken: (-1.2, 1.21 if part == b else 1.0)).lines == [], broken
    assert found_by(site, monkeypatch, lambda part: (-1.2, 1.19)).lines


def test_a_candidate_that_later_jobs_do_not_confirm_is_not_chosen(site, monkeypatch):
    assert found_by(site, monkeypatch, lambda part: (-1.2 if part < REPLICAS else 0.05, 1.0)).lines == []
    assert found_by(site, monkeypatch, lambda part: (-0.001, 1.0)).lines == []  # hardly a gain


def changed(wait=(-0.4, -0.2), slow=(-0.4, -0.2), longest=(1.0, 1.0, 1.0)):
    e = Effect(np.mean(slow), *slow, 0.01, 0.01, -0.3, 0.05, 16)
    return Change("tuned", Replays([]), Replays([]), e, RatioOfMeans(np.mean(wait), *wait, 0.1), np.array(longest))


def judged(test, metric="wait", error=0.02):
    recorded = np.full(50, 100.0)
    fit = None if error is None else Fidelity("slurm", recorded[None] * (1 + error), recorded, np.arange(50.0), (1.0, 1.0))
    return Tuned(["PriorityFavorSmall=YES"], settings(), test, test, [], 10, 1.2, metric, fit)


def test_gains_are_judged_on_later_jobs_by_the_worst_replica():
    assert judged(changed()).gains and judged(changed()).proposed
    assert not judged(changed(longest=(1.0, 1.0, 1.5))).gains  # the median is within the bound
    assert judged(changed(longest=(1.0, 1.0, 1.2))).gains
    assert not judged(changed(wait=(-0.4, 0.01))).gains
    assert not judged(changed(slow=(0.01, 0.2))).gains
    assert judged(changed(wait=(-0.4, 0.01)), "slowdown").gains and not judged(changed(slow=(-0.4, 0.01)), "slowdown").gains


def test_no_lines_are_proposed_by_a_simulation_that_does_not_explain_the_record(monkeypatch):
    monkeypatch.setattr(Change, "sentence", lambda self: "tuned: …")
    for error, lines in ((0.2, 1), (0.26, 0), (-0.3, 0), (None, 0)):
        t = judged(changed(), error=error)
        assert len(t.proposed) == lines and (("no lines are proposed" in t.sentence()) == (not lines))
    for simulated, is_trusted in ((100.0, True), (80.0, True), (120.0, True), (10.0, False), (70.0, False), (130.0, False)):
        f = Fidelity("slurm", np.full((2, 30), simulated), np.full(30, 100.0), np.zeros(30), (1.0, 1.0))
        assert trusted(f) == is_trusted, simulated
    few = replace(judged(changed()), fidelity=Fidelity("slurm", np.ones((1, 5)), *np.ones((2, 5)), (1.0, 1.0)))
    assert few.proposed == []
    broken = judged(changed(longest=(1.5,)))
    assert broken.proposed == [] and "No lines are proposed" in broken.sentence() and "is broken" in broken.sentence()


def test_lines_lead_from_any_settings_to_any_others():
    """Every line that is written is read back as what it says, in every field."""
    rng, before = np.random.default_rng(0), settings()
    seen = set()
    for _ in range(400):
        after, again = draw(before, rng, []), before
        for line in conf.lines(before, after):
            again = conf.change(again, "PriorityFlags=" if line.startswith("# PriorityFlags: remove") else line)
        for name in before.dtype.names:
            assert again[name][0] == pytest.approx(after[name][0]), (name, conf.lines(before, after))
            if before[name] != after[name]:
                seen.add(name)
        before = after
    assert {
        "max_age",
        "favor_small",
        "small_relative",
        "bf_window",
        "bf_interval",
        "bf_max_user",
        "depth",
        "age",
        "size",
    } <= seen


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("bf_window", 172_800.0, "SchedulerParameters=bf_window=2880"),  # minutes
        ("favor_small", 1, "PriorityFavorSmall=YES"),
        ("max_age", 86_400.0, "PriorityMaxAge=1-00:00:00"),
        ("bf_max_user", np.inf, "SchedulerParameters=bf_max_job_user=0"),
        ("small_relative", 1, "PriorityFlags=SMALL_RELATIVE_TO_TIME"),
    ],
)
def test_lines_are_slurms(field, value, line):
    before = settings()
    before["max_age"], before["bf_max_user"] = 7 * 86_400.0, 20.0
    after = before.copy()
    after[field] = value
    assert conf.lines(before, after) == [line]


def test_too_few_jobs_leave_no_run_behind(tmp_path, capsys):
    small = write_site(tmp_path / "small", jobs=120)
    words = ["slurm", "tune", str(small), "--out", str(tmp_path / "run")]
    for _ in range(2):
        assert run(words) == 2
        assert "too few to tune on" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_tune_says_first_how_far_it_can_be_trusted(site_folder, tmp_path, capsys):
    report = tmp_path / "report.html"
    words = ["slurm", "tune", str(site_folder), "--budget", "0.1", "-p", "saf+slurm"]
    assert run([*words, "--report", str(report)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("The simulated present: slurm, simulated, against the record: its mean wait is ")
    assert "what-if" in out.split("\n")[0] and "saf+slurm" in out
    page = report.read_text()
    assert "The simulated present" in page and "saf+slurm" in page
    report.unlink()
    assert run([*words, "--json", "--report", str(report)]) == 0 and report.exists()
    found = json.loads(capsys.readouterr().out)
    assert (
        "The simulated present" in found["trust"]
        and isinstance(found["trusted"], bool)
        and found["fidelity"]["policy"] == "slurm"
    )
    if not (found["gains"] and found["trusted"]):
        assert found["lines"] == []


def test_a_log_is_no_site():
    with pytest.raises(InputError, match="is no site"):
        tune.tune(jw.lublin(400, procs=64, seed=1))


def test_a_share_that_nobody_has_is_not_searched(site, monkeypatch):
    """The site's accounting has no shares: what their weight would do is not known, so it stays as it is."""
    assert (site.cluster.known_site.leaf < 0).all()
    kept, real = [], tune.draw
    monkeypatch.setattr(
        tune, "draw", lambda present, rng, keep, moved=None: kept.append(list(keep)) or real(present, rng, keep, moved)
    )
    found = found_by(site, monkeypatch, lambda part: (-1.2, 1.0))
    assert found.lines and not any("Fairshare" in x for x in found.lines)
    assert kept and all(k == ["fair_share"] for k in kept)
    assert found.settings["fair_share"] == site.cluster.known_site.settings["fair_share"]
