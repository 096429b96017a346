"""Predicted starts: futures from the middle of a queue, what they are drawn from, calibration, advice; nothing is known too early.

Modules: cli/when.py, sim/reset.py, starts/bags.py, starts/calibration.py, starts/futures.py, starts/history.py,
starts/on_log.py, starts/predictor.py, starts/sooner.py.
"""

import json
from dataclasses import replace

import naive
import numpy as np
import pytest
from conftest import random_workload
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm

import jobwise as jw
from jobwise.cli import run
from jobwise.policies.names import resolve
from jobwise.starts import bags, futures
from jobwise.starts.calibration import KEPT, LEVELS, REQUESTED, SAMPLED, Calibration, logs, quantile_of_censored
from jobwise.starts.futures import PoolPlayer
from jobwise.starts.history import History
from jobwise.starts.on_log import when
from jobwise.starts.predictor import Predictor, Starts
from jobwise.starts.sooner import Offer, OtherRequest, begun_again, offers

pytestmark = pytest.mark.xdist_group("forecast")


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    """Few predictions of the past calibrate: each takes ten milliseconds."""
    monkeypatch.setattr("jobwise.starts.on_log.EARLIER", 60)


def as_it_came(h: History, drawn: futures.Drawn) -> futures.Drawn:
    """The one future that is true."""
    come = np.arange(np.searchsorted(h.jobs["submit"], h.now, side="right"), len(h.jobs))
    return replace(drawn, run=h.run[drawn.rows][None], arrivals=[(come, np.zeros(len(come)))], known=True)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from(["fcfs+easy", "saf+easy+guard1h", "wfp3+easy", "sjf"]),
)
def test_a_future_from_the_middle_is_the_rest_of_the_replay(seed, policy):
    """Who knows all run times and arrivals foretells every start, wherever it begins."""
    rng = np.random.default_rng(seed)
    w = random_workload(rng, jobs=50, procs=8)
    r = jw.simulate(w, policy, kill_at_walltime=True)
    h, player = History(r.jobs), PoolPlayer(resolve(policy), w.cluster, w.past)
    for now in np.sort(rng.uniform(0, r.jobs["end"].max(), 4)):
        d = as_it_came(h.at(float(now)), futures.draw(h, 1))
        assert player.play(d, d.waiting)[0] == pytest.approx(r.jobs["start"][d.rows[d.waiting]])


def test_a_policy_that_is_asked_plays_the_same_futures():
    w = jw.lublin(300, procs=32, seed=3, load=1.0, estimates="users")
    r = jw.simulate(w, "saf+easy", kill_at_walltime=True)
    h = History(r.jobs).at(float(r.jobs["submit"][250]))
    d, policy = futures.draw(h, 3, seed=1), resolve("saf+easy")

    class Asked:
        name = "asked"
        begin = staticmethod(policy.begin)
        reset = decide = ended = None

    both = [PoolPlayer(p, w.cluster, w.past) for p in (policy, Asked())]
    assert [p.fast for p in both] == [True, False] and len(d.waiting) > 3
    assert both[0].play(d, d.waiting) == pytest.approx(both[1].play(d, d.waiting))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_draws_are_those_of_the_slow_twin(seed):
    rng = np.random.default_rng(seed)
    ended = [
        (int(rng.integers(3)), int(2 ** rng.integers(4)), float(60 * rng.integers(1, 5)), float(rng.integers(1, 200)))
        for _ in range(int(rng.integers(0, 300)))
    ]
    jobs = [(int(rng.integers(3)), int(2 ** rng.integers(4)), float(60 * rng.integers(1, 5))) for _ in range(6)]
    rows = [*ended, *((*j, 0.0) for j in jobs)]
    w = jw.workload(
        np.arange(len(rows), dtype=float), [x[1] for x in rows], [x[3] for x in rows], [x[2] for x in rows],
        cluster=jw.pool(64), user=np.array([x[0] for x in rows]),
    )  # fmt: skip
    table = w.jobs.copy()
    table["start"][: len(ended)] = 1000.0
    table["end"][: len(ended)] = 1000.0 + np.array([x[3] for x in ended])
    last = np.argsort(table["end"][: len(ended)], kind="stable")
    h = History(table).at(5000.0)
    elapsed = rng.choice([0.0, 30.0, 100.0, 400.0], len(jobs))
    level, out = rng.uniform(0.01, 0.99, (9, len(jobs))), np.empty((9, len(jobs)))
    bags.draw(h.bags, h.ids[len(ended) :], table["walltime"][len(ended) :], elapsed, level, out)
    for j, job in enumerate(jobs):
        bag = naive.bag([ended[i] for i in last], job, elapsed[j])
        sums = np.cumsum([x for _, x in bag])
        for k in range(9):
            near = np.abs(sums - level[k, j]).min() < 1e-9
            assert near or out[k, j] == pytest.approx(bag[int(np.searchsorted(sums, level[k, j]))][0])
        assert (out[:, j] > elapsed[j]).all() and (out[:, j] <= max(job[2], elapsed[j] + 1)).all()


def test_run_times_of_a_user_go_together():
    user, rng = np.array([0, 0, 1]), np.random.default_rng(0)
    out = np.empty((4000, 3))
    bags.levels(user, rng.standard_normal((4000, 2)), rng.standard_normal((4000, 3)), out)
    x = norm.ppf(out)
    assert np.corrcoef(x[:, 0], x[:, 1])[0, 1] == pytest.approx(0.5, abs=0.05)
    assert abs(np.corrcoef(x[:, 0], x[:, 2])[0, 1]) < 0.05
    assert all(kstest(out[:, k], "uniform").pvalue > 0.001 for k in range(3))


def test_nothing_that_comes_later_is_known():
    """Starts, ends and jobs after `now` are changed: every prediction stays the same, to the byte."""
    w = jw.lublin(1500, procs=64, seed=5, load=0.95, estimates="users")
    r = jw.simulate(w, "fcfs+easy", kill_at_walltime=True)
    told = []
    for poisoned in (False, True):
        jobs = r.jobs.copy()
        now = float(jobs["submit"][1100])
        if poisoned:
            later = jobs["start"] > now
            jobs["start"][later] = now + np.random.default_rng(0).uniform(1, 1e6, int(later.sum()))
            jobs["end"][jobs["end"] > now] = now + 17.0 + np.arange(int((jobs["end"] > now).sum()))
            come = jobs["submit"] > now
            jobs["walltime"][come], jobs["user"][come] = 12_345.0, -1
        h = History(jobs)
        p = Predictor(h, PoolPlayer(resolve("fcfs+easy"), w.cluster, w.past), 8)
        for i in range(1000, 1100, 10):
            p.at(float(jobs["submit"][i]))
        x = p.at(now)
        told.append((x.rows.tolist(), x.both.tobytes(), x.futures.tobytes(), x.ends.tobytes()))
        assert len(x.rows) > 3
    assert told[0] == told[1]


def test_past_days_come_again():
    """Copies of earlier days, at the same time of day, with what is known of how long they ran."""
    days = 40
    submit = np.concatenate([np.arange(24) * 3600.0 + 86_400 * d for d in range(days)])
    w = jw.workload(submit, np.ones(len(submit)), np.full(len(submit), 60.0), cluster=jw.pool(4))
    r = jw.simulate(w, "fcfs+easy")
    h = History(r.jobs).at(30 * 86_400.0 + 1800.0)
    for rows, later in futures.draw(h, 6, seed=2).arrivals:
        again = h.jobs["submit"][rows] + later
        assert len(again) == futures.AHEAD * 24 and (np.diff(again) > 0).all()
        assert (again > h.now).all() and (again % 3600 == 0).all() and (h.jobs["submit"][rows] <= h.now).all()
    first = {later[0] / 86_400 for _, later in futures.draw(h, 64, seed=2).arrivals}
    assert first == {2.0, 3.0, 4.0, 7.0, 14.0, 21.0, 28.0}  # the days that the first of the days to come is a copy of


def test_censored_quantiles():
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    every = np.ones(5, bool)
    assert quantile_of_censored(x, every, 0.5) == 3.0 and quantile_of_censored(x, every, 0.8) == 4.0
    seen = np.array([True, False, True, True, True])  # Kaplan-Meier: S = 4/5, then 4/5 * 2/3, 4/15, 0
    assert quantile_of_censored(x, seen, 0.4) == 3.0 and quantile_of_censored(x, seen, 0.73) == 4.0
    assert quantile_of_censored(x, np.zeros(5, bool), 0.5) == 5.0


@pytest.mark.parametrize("wrong", [0.3, 1.0, 3.0])
def test_intervals_are_stretched_until_they_hold_what_they_say(wrong):
    """Quantiles that are too narrow or too wide by a factor, and truths that the quantiles of 1 would hold."""
    rng, c = np.random.default_rng(1), Calibration()
    z, inside = np.array([-1.645, -1.2816, 0.0, 1.2816, 1.645]), []
    for i in range(4000):
        median = logs(np.array(rng.uniform(600, 36_000)))
        q = median + 0.5 * wrong * z
        told = c.stretched(q[None], i * 1000.0)[0]
        truth = median + 0.5 * rng.standard_normal()
        inside.append((told[1] <= truth <= told[3], told[0] <= truth <= told[4]))
        c.add(i * 1000.0, i, q, float(median), np.stack([told, told]))
        c.outcome[-1] = float(truth)
        if i == 200:
            c.started(lambda job: np.nan, i * 1000.0)
    assert len(c.job) <= 2 * KEPT
    for share, level, got in zip((0.8, 0.9), (1.2816, 1.645), np.mean(inside[2000:], axis=0), strict=True):
        plain = 1 - 2 * norm.sf(wrong * level)  # without any stretch; 600 predictions say that none is needed
        assert abs(got - share) <= max(0.8 * abs(plain - share), 0.03)


def test_a_few_outcomes_stretch_little():
    """Six, each ten times as far from the median as the quantiles say: by 10 to the power of 6 of 606."""
    c, q = Calibration(), 8.0 + np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    for i in range(6):
        c.add(0.0, i, q, 8.0, np.stack([q, q]))
        c.outcome[-1] = 8.0 + 40.0
    f = c.factors(1.0)
    assert f[3:] == pytest.approx(10 ** (6 / 606)) and f[2] == 1.0 and f[:2] == pytest.approx(0.1 ** (6 / 606))


def test_requests_are_shown_where_they_have_been_clearly_better():
    rng, c = np.random.default_rng(1), Calibration()
    assert c.better() == SAMPLED
    for i in range(100):
        truth = rng.uniform(5, 9)
        near, far = truth + 0.01 * np.arange(-2, 3), truth + 1.0 + 0.3 * rng.standard_normal() + 0.01 * np.arange(-2, 3)
        c.add(float(i), i, far, float(truth), np.stack([far, near]))
        c.outcome[-1] = float(truth)
    assert c.better() == REQUESTED
    c.gone(set(range(50)))
    assert len(c.job) == len(c.made) == 50 and min(c.job) == 50


def test_a_narrower_job_starts_sooner_and_the_end_is_told():
    """Four processors; a job of two runs for an hour, a wide one waits; with one processor it would start at once."""
    w = jw.workload([0, 1, 2], [3, 4, 2], [3600, 60, 600], [3600, 60, 600], cluster=jw.pool(4))
    r = jw.simulate(w, "fcfs+easy")
    h = History(r.jobs).at(2.0)
    player = PoolPlayer(resolve("fcfs+easy"), w.cluster, w.past)
    d = futures.draw(h, 16)
    found = {x.change.words: x for x in offers(d, 2, player)}
    half = found["half the processors for twice the time"]
    assert half.worth_telling and half.sooner > 0.9 and half.start < 60 < half.own[0]
    assert half.end == pytest.approx(np.median(np.minimum(2 * d.run[:, 2], 1200)), abs=5)
    late = offers(d, 2, player, [OtherRequest("more processors", {"request": 4})])[0]
    assert late.gain <= 0 and not late.worth_telling


def test_when_on_a_log():
    w = jw.lublin(2500, procs=64, seed=7, load=1.0, estimates="users")
    at = float(w.jobs["submit"][2000])
    m = when(w, "saf+easy+guard24h", at)
    assert len(m.starts.rows) > 3 and (np.diff(m.starts.quantiles, axis=1) >= 0).all()
    again = when(w, "saf+easy+guard24h", at)
    assert again.starts.quantiles.tobytes() == m.starts.quantiles.tobytes()
    assert (m.came > 0).all() and m.starts.within(1e9).min() == 1.0
    error = np.abs(logs(m.starts.quantiles[:, 2]) - logs(m.came)).mean()
    assert error < np.abs(logs(m.starts.requested) - logs(m.came)).mean() + 0.5
    assert len(LEVELS) == m.starts.quantiles.shape[1]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.swf"
    jw.write_swf(jw.lublin(1500, procs=64, seed=7, load=1.0, estimates="users"), path)
    return str(path)


@pytest.mark.cli
def test_the_command(log, capsys):
    assert run(["when", log, "--at", "4d", "--json", "--outcome", "--sooner"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["jobs"] and out["policy"] == "fcfs+easy"
    for x in out["jobs"]:
        a, b = x["start_80"]
        assert x["start_90"][0] <= a <= x["start"] <= b <= x["start_90"][1] and x["end"] > x["start"] and x["started"] > 0
        assert x["within_1h"] <= x["within_4h"] <= x["within_24h"] <= 1
    starts = [x["start"] for x in out["jobs"]]
    assert starts == sorted(starts)
    job = out["jobs"][0]["job"]
    assert run(["when", log, "--at", "4d", "--job", str(job)]) == 0
    assert str(job) in capsys.readouterr().out
    assert run(["when", log, "--at", "4d", "--fits", "16x4h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"][0]["job"] == "new"


@pytest.mark.parametrize(
    "words, says",
    [
        (["--at", "soon"], "a time such as"),
        (["--at", "2040-01-01"], "does not say when it begins"),
        (["--at", "2040-13-01"], "or a date such as"),
        (["--at", "5000d"], "is not in it"),
        (["--at", "4d", "--job", "0"], "job 0 does not wait then"),
        (["--at", "4d", "--fits", "16"], "such as 16x4h"),
        (["--at", "4d", "--fits", "65x4h"], "do not fit"),
        (["--at", "4d", "-p", "nonsense"], "nonsense"),
    ],
)
def test_wrong_use_is_one_line(log, capsys, words, says):
    assert run(["when", log, *words]) == 2
    out, err = capsys.readouterr()
    last = err.strip().split("\n")[-1]
    assert out == "" and last.startswith("jobwise: ") and says in last


# ------------------------------------------------------------------ values by hand


def test_a_method_is_changed_only_where_it_is_clearly_worse():
    """Point predictions: the loss is half the distance. Those by requests lose 0.025 less on average, with a standard error of
    0.075: that is chance."""
    c = Calibration()
    for i in range(40):
        sampled, requested = (1.0, 0.0) if i % 2 else (0.0, 0.9)
        c.add(float(i), i, np.full(5, 7.0), 7.0, np.stack([np.full(5, 7.0 + sampled), np.full(5, 7.0 + requested)]))
        c.outcome[-1] = 7.0
    assert c.better() == SAMPLED
    for i in range(40, 400):  # now they lose some 0.11 less, with a standard error of 0.02
        sampled, requested = (1.0, 0.0) if i % 2 else (0.0, 0.5)
        c.add(float(i), i, np.full(5, 7.0), 7.0, np.stack([np.full(5, 7.0 + sampled), np.full(5, 7.0 + requested)]))
        c.outcome[-1] = 7.0
    assert c.better() == REQUESTED


def overdue():
    """At 50 s: a job that asked for 10 s and runs since 0, one that asked for 100 s, and one that waits for all processors."""
    w = jw.workload([0, 0, 1], [1, 1, 3], [500, 500, 60], [10, 100, 60], cluster=jw.pool(3))
    table = w.jobs.copy()
    table["start"][:2] = 0.0
    return History(table).at(50.0), PoolPlayer(resolve("fcfs+easy"), w.cluster, w.past)


@pytest.mark.parametrize("origin", [0.0, 1e9])
def test_what_came_of_a_prediction_is_noted_when_the_job_has_started(origin):
    """Foretold at 10 s, started at 100 s: nobody knows it at 50 s, and at 200 s it was 90 s, whatever time 0 is called."""
    w = jw.workload([0, 0, 20], [1, 3, 3], [500, 60, 60], [900, 60, 60], cluster=jw.pool(4))
    table = w.jobs.copy()
    table["start"] = [0.0, 100.0, np.nan]
    c = Calibration()
    c.add(origin + 10.0, 1, np.full(5, 4.0), 4.0, np.full((2, 5), 4.0))
    p = Predictor(History(table), PoolPlayer(resolve("fcfs+easy"), w.cluster, w.past), 2, calibration=c, origin=origin)
    p.at(50.0)
    assert np.isnan(c.outcome[0])
    p.at(200.0)
    assert c.outcome[0] == pytest.approx(float(logs(np.array(90.0))))


def test_a_job_that_has_outlived_its_request_runs_on_in_futures():
    h, _ = overdue()
    d = replace(futures.draw(h, 2), run=np.array([[80.0, 90.0, 60.0], [70.0, 400.0, 90.0]]))
    assert d.rows.tolist() == [0, 1, 2] and d.waiting.tolist() == [2]
    assert d.future(0)[1].tolist() == [80.0, 90.0, 60.0]
    assert d.future(1)[1].tolist() == [
        70.0,
        400.0,
        90.0,
    ]  # as they were drawn: those that run may do so for longer than they asked
    assert d.alone().run.tolist() == [[51.0, 100.0, 60.0]]  # by requests the first ends at once


def test_what_a_job_waits_for_ends_before_it_in_nearly_all_futures():
    h, _ = overdue()
    run = np.full((10, 3), 60.0)
    run[:, 0], run[:5, 1], run[5:, 1] = (
        100.0,
        100.0,
        900.0,
    )  # the first ends 50 s from now; the second so in half of the futures
    d = replace(futures.draw(h, 10), run=run)
    q = np.zeros((1, 5))
    starts = Starts(
        50.0, np.array([2]), q, np.zeros((2, 1, 5)), 0, np.full((10, 1), 60.0), np.zeros(1), np.zeros(1), d, q, np.zeros(0, int)
    )
    assert starts.frees(0) == [0] and starts.running == 2
    run[8, 1] = run[7, 1] = run[6, 1] = run[5, 1] = 100.0  # in nine of ten
    assert sorted(starts.frees(0)) == [0, 1]


def test_a_gain_is_told_from_ten_minutes_and_a_fifth_of_the_wait_on():
    change = OtherRequest("x", {})
    for gain, own, worth in ((700.0, 10_000.0, False), (2100.0, 10_000.0, True), (500.0, 100.0, False), (700.0, 100.0, True)):
        assert Offer(change, 0.0, 0.0, gain, 0.9, 0.0, (own, own)).worth_telling == worth, (gain, own)
    assert not Offer(change, 0.0, 0.0, 5000.0, 0.5, 0.0, (100.0, 100.0)).worth_telling  # as likely as not


def test_a_limit_that_would_end_the_job_is_not_advised():
    """The job runs 500 s in each future: limits of 300 and 150 s would kill it, one of 550 s would not."""
    w = jw.workload([0, 1, 2], [3, 4, 2], [3600, 60, 500], [3600, 60, 600], cluster=jw.pool(4))
    h = History(jw.simulate(w, "fcfs+easy").jobs).at(2.0)
    player, d = PoolPlayer(resolve("fcfs+easy"), w.cluster, w.past), futures.draw(h, 10)
    run = d.run.copy()
    run[:, 2] = 500.0
    d = replace(d, run=run)
    assert [x.change.words for x in offers(d, 2, player)] == ["half the processors for twice the time"]
    fits = [OtherRequest("550 s", {"walltime": 550.0}), OtherRequest("300 s", {"walltime": 300.0})]
    assert [x.change.words for x in offers(d, 2, player, fits)] == ["550 s"]
    run[0, 2] = 560.0  # nine of ten fit
    assert [x.change.words for x in offers(d, 2, player, fits)] == ["550 s"]
    run[1, 2] = 560.0
    assert offers(d, 2, player, fits) == []


def test_what_a_first_run_in_a_gap_brings_is_told_by_the_ends():
    """Four processors: 3 are held for an hour, a job of 4 comes next; a job of 1 that asked for 2 h would start after both, at
    3,660 s. For 30 min it starts at once: of ten futures seven end within it, three begin again where they would have begun."""
    w = jw.workload([0, 1, 2], [3, 4, 1], [3600, 60, 7200], [3600, 60, 7200], cluster=jw.pool(4))
    h = History(jw.simulate(w, "fcfs+easy").jobs).at(2.0)
    player, d = PoolPlayer(resolve("fcfs+easy"), w.cluster, w.past), futures.draw(h, 10)
    run = d.run.copy()
    run[:, 0], run[:, 1], run[:7, 2], run[7:, 2] = 3600.0, 60.0, 600.0, 5000.0
    d = replace(d, run=run)
    (asked, short) = begun_again(7200.0)
    assert [x.words.split()[0] for x in (asked, short)] == ["--time-min=30", "--time-min=7"]
    (offer,) = offers(d, 2, player, [asked])
    assert offer.sooner == 0.7 and offer.start < 60 and offer.end == pytest.approx(600, abs=5)
    assert offer.gain == pytest.approx(3658, abs=5) and offer.worth_telling and offer.later == 0
    (offer,) = offers(d, 2, player, [short])  # nothing ends within 7 min
    assert offer.gain == 0 and not offer.worth_telling
    assert begun_again(1100.0) == []


def test_jobs_of_a_replayed_log_end_at_their_request():
    """The first would run for 1,000 s and asked for 100: the second starts at 100."""
    w = jw.workload([0, 1, 60], [2, 2, 1], [1000, 10, 10], [100, 10, 10], cluster=jw.pool(2))
    m = when(w, "fcfs+easy", 50.0)
    assert m.starts.rows.tolist() == [1] and m.came.tolist() == [50.0]


def test_two_moments_draw_anew_and_one_moment_the_same():
    h, player = overdue()
    p = Predictor(h, player, 16, seed=3)
    first, again, later = p.at(50.0).drawn.run, p.at(50.0).drawn.run, p.at(51.0).drawn.run
    assert np.array_equal(first, again) and not np.array_equal(first[:, 2], later[:, 2])
