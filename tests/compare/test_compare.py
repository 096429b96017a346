"""Metrics by hand, the comparison, and exports that other tools read.

Modules: compare/baselines.py, compare/comparison.py, compare/fingerprint.py, compare/origins.py, compare/procedure.py,
compare/windows.py, metrics.py, record.py, report/export.py, report/origins.py.
"""

import json
import re
import warnings
from math import isnan

import numpy as np
import pytest
from conftest import random_workload
from test_report import scripts_are_ours

from jobwise import metrics
from jobwise.cli import run
from jobwise.cluster import pool
from jobwise.compare.procedure import compare
from jobwise.errors import InputError
from jobwise.report import export
from jobwise.report.comparison import write_report
from jobwise.sim.random import mix
from jobwise.simulate import simulate
from jobwise.workload import workload
from jobwise.workloads.lublin import lublin
from jobwise.workloads.swf import read_swf, write_swf


def record():
    """Two processors: A(2) 0-10, B(1) waits 8, runs 10-30; C(1) waits 6, runs 10-14."""
    w = workload([0, 2, 4], [2, 1, 1], [10, 20, 4], cluster=pool(2), user=np.array([0, 0, 1]))
    return simulate(w, "fcfs")


def test_metrics_by_hand():
    r = record()
    assert metrics.wait(r).tolist() == [0, 8, 6]
    assert metrics.slowdown(r).tolist() == [1, 28 / 20, 10 / 4]
    assert metrics.bounded_slowdown(r).tolist() == [1, 1.4, 1.0]
    assert metrics.bounded_slowdown(r, tau=1).tolist() == [1, 1.4, 2.5]
    assert metrics.per_processor_slowdown(r).tolist() == [1, 1.4, 1.0]
    s = r.summary()
    assert s["makespan"] == 30 and s["utilisation"] == (20 + 20 + 4) / 60
    assert s["queue_length"] == pytest.approx((8 + 6) / 30)
    for key, of in (("wait", metrics.wait(r)), ("bounded_slowdown", metrics.bounded_slowdown(r))):
        for name, q in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
            assert s[f"{name}_{key}"] == np.quantile(of, q)
    assert s["max_wait"] == 8 and s["wait"] == pytest.approx(14 / 3) and s["jobs"] == 3
    assert s["fragmentation"] == 0 and s["backfill_rate"] == 0 and s["throughput"] == 3 / 30 * 3600
    assert metrics.jain(np.array([1.0, 1.0])) == 1 and metrics.jain(np.array([1.0, 0.0])) == 0.5
    assert metrics.user_fairness(r) == pytest.approx((1.2 + 1) ** 2 / (2 * (1.44 + 1)))
    when, waiting = metrics.queue_length(r)
    assert when.tolist() == [0, 2, 4, 10] and waiting.tolist() == [0, 1, 2, 0]


def test_breakdowns_cover_all_jobs():
    r = simulate(lublin(2000, 64, seed=1, users=30), "sjf+easy")
    for by in metrics.CLASSES:
        assert sum(row["jobs"] for row in metrics.breakdown(r, by)) == 2000
    assert metrics.breakdown(r, "user")[-1]["class"] == "others"
    with pytest.raises(InputError, match="did you mean user"):
        metrics.breakdown(r, "users")


@pytest.fixture(scope="module")
def comparison():
    w = lublin(3000, 64, seed=2, load=0.9, estimates="users", users=12)
    return compare(w, ["fcfs+easy", "sjf+easy", "saf+easy+guard24h", "fcfs+conservative"], replicas=2, window_jobs=187)


def test_comparison_is_paired_and_reproducible(comparison):
    c = comparison
    again = compare(c.workload, ["fcfs+easy", "sjf+easy"], replicas=2, window_jobs=187)
    assert np.array_equal(again.windows["wait"], c.windows["wait"][:2])
    assert c.change(0).change == 0 and c.change(0).p == 1
    e = c.change(1)
    assert e.low <= e.change <= e.high < 0 and e.blocks == 8
    assert c.windows["wait"].shape == (4, len(c.first_row), 2) and sum(c.wins(1)) == len(c.first_row) == 16
    assert c.ranks().sum() == pytest.approx(1 + 2 + 3 + 4)
    assert c.verdict(1) == "better" and c.change_in_windows(1).high < 0
    json.dumps(c.to_dict(), default=float)


def test_schedulers_that_differ_by_chance_alone_are_not_claimed_to_differ():
    """Four orders that are random numbers of the job, each with its own seed: other schedules, no difference to claim."""
    from jobwise.policies.list_scheduler import ListScheduler

    def by_chance(seed):
        def order(jobs, now):
            return mix(jobs["submit"].astype(np.uint64) * np.uint64(2654435761) + np.uint64(seed)).astype(float)

        order.__name__ = f"chance{seed}"
        return ListScheduler(order, backfill="easy")

    w = lublin(1000, 64, seed=2, load=0.8)
    c = compare(w, [by_chance(k) for k in range(1, 5)], window_jobs=60, replicas=2)
    starts = [r.jobs["start"] for r in c.records]
    assert all((starts[0] != x).sum() > 20 for x in starts[1:])
    assert not any(c.claimed) and all(c.verdict(p) == "no significant difference" for p in (1, 2, 3))


def test_comparison_refuses_nonsense():
    w = random_workload(np.random.default_rng(0))
    for policies, settings, message in [
        ([], {}, "at least one policy"),
        (["sjf", "sjf"], {}, "named twice"),
        (["sjf"], {"window_jobs": 1000}, "does not fit"),
    ]:
        with pytest.raises(InputError, match=message):
            compare(w, policies, **settings)
    few = compare(w, ["fcfs", "sjf"], window_jobs=20)
    assert few.verdict(1) == "too few jobs to say" and "6 are needed" in few.judged(1)[1]


def test_one_job_is_enough(tmp_path):
    w = workload([0], [1], [10], cluster=pool(2))
    c = compare(w, ["fcfs", "sjf"])
    assert c.whole[0]["bounded_slowdown"] == 1
    assert np.isnan(c.change(1).low)  # one window carries no interval, and no claim
    write_report(c, tmp_path / "one.html")
    text = (tmp_path / "one.html").read_text()
    assert "nan%" not in text and "[nan" not in text


def test_one_job_makes_json_that_any_reader_takes(tmp_path, capsys):
    write_swf(workload([0], [1], [10], cluster=pool(2)), tmp_path / "one.swf")
    assert run(["compare", str(tmp_path / "one.swf"), "-p", "fcfs", "-p", "sjf", "--json"]) == 0

    def refuse(text):
        raise AssertionError(f"{text} is not JSON")

    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert found["policies"][1]["against_first"]["low"] is None


def test_exports_read_back(tmp_path):
    import pandas

    r = simulate(lublin(400, 32, seed=4, users=3), "saf+easy")
    export.write(r, str(tmp_path / "s.csv"))
    export.write(r, str(tmp_path / "s.parquet"))
    export.write(r, str(tmp_path / "s.swf"))
    table = pandas.read_csv(tmp_path / "s.csv")
    assert np.array_equal(table["start"], r.jobs["start"]) and len(table) == 400
    assert np.array_equal(pandas.read_parquet(tmp_path / "s.parquet")["end"], r.jobs["end"])
    again = read_swf(tmp_path / "s.swf")
    assert np.array_equal(again.columns["wait"], r.jobs["start"] - r.jobs["submit"])
    with pytest.raises(InputError, match="cannot write .xlsx"):
        export.write(r, "s.xlsx")


def test_evalys_reads_the_schedule(tmp_path):
    r = simulate(lublin(300, 32, seed=4), "sjf+easy")
    path = tmp_path / "jobs.csv"
    export.write_evalys(r, str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # evalys itself is not clean under current pandas
        from evalys.jobset import JobSet

        jobs = JobSet.from_csv(str(path), resource_bounds=(0, 31))
    assert len(jobs.df) == 300
    assert np.allclose(jobs.df["waiting_time"], metrics.wait(r))
    held = [sum(len(i) for i in x) if not hasattr(x, "__len__") else len(x) for x in jobs.df["allocated_resources"]]
    assert np.array_equal(held, r.jobs["request"][:, 0])


def test_no_processor_is_given_twice():
    r = simulate(lublin(500, 32, seed=5), "saf+easy")
    owner, bounds = export.assign_processors(r), export.begins(r)
    for t in np.unique(r.jobs["start"])[::7]:
        running = np.flatnonzero((r.jobs["start"] <= t) & (r.jobs["end"] > t))
        ids = np.concatenate([owner[bounds[j] : bounds[j + 1]] for j in running])
        assert len(set(ids.tolist())) == len(ids)


def test_the_fair_best_is_chosen_on_earlier_jobs_under_the_same_settings():
    import jobwise as jw
    from jobwise.compare.baselines import Baselines

    log = jw.lublin(jobs=500, procs=64, load=0.95, seed=2)
    log.truth["runtime"][::3] *= 4  # a third runs on, unless it is killed
    cut, found = int(0.7 * 500), {}
    for kill in (False, True):
        settings = {"replicas": 1, "jitter_s": 60.0, "kill_at_walltime": kill}
        c = jw.compare(log, ["fcfs+easy"], since=0.7, window_jobs=25, **settings)
        b = Baselines(log, 0, cut, 25, **settings)
        b.shortlist()
        assert c.policies[c.fair] == b.best(cut) and "best rule of the earlier jobs" in c.marks[c.fair]
        assert any("hindsight" in m for m in c.marks) and len(c.workload) == 500 - cut
        found[kill] = b
    assert not np.array_equal(found[False].windows["fcfs+easy"], found[True].windows["fcfs+easy"])
    best, tried = found[False].best(), found[False].windows
    assert all(np.log(tried[best]).mean() <= np.log(x).mean() for x in tried.values()) and len(tried) >= 10
    assert any("guard" in n for n in tried) or len(tried) == len({n.split("+guard")[0] for n in tried})
    assert found[False].best(50) == min(tried, key=lambda n: np.log(tried[n][:2]).mean())  # windows before row 50 alone


def test_a_bound_is_kept_only_if_it_is_kept_in_every_replica():
    from jobwise.compare.baselines import Baselines

    b = Baselines(lublin(200, 16, seed=1), 0, 200, 20, 2, 10.0)
    slow = np.ones((2, 3))
    b.whole = {
        "fcfs+easy": (9 * slow, np.array([100.0, 100.0])),
        "a": (2 * slow, np.array([100.0, 130.0])),  # 1.15 on average, but 1.3 in one
        "b": (3 * slow, np.array([119.0, 119.0])),
    }
    assert b.best_within(1.2, 2) == "b" and b.best_within(1.5, 2) == "a" and b.best_within(1.1, 2) == "fcfs+easy"


def test_windows_begin_with_a_queue():
    """A backlog that an empty machine would hide: the first job of the window waits for those before it."""
    from jobwise.compare import windows

    w = workload(np.arange(40.0), np.full(40, 4), np.full(40, 100.0), cluster=pool(4))
    part = windows.shifted(w, 20, 10, 0, 0.0, 0)[0]
    assert len(part) == 20 and part.columns["counted"].sum() == 10
    found = windows.numbers(simulate(part, "fcfs"))
    cold = windows.numbers(simulate(w.take(slice(20, 30)), "fcfs"))
    assert found["wait"] == pytest.approx(cold["wait"] + 10 * 100 - 10) and cold["max_wait"] < found["max_wait"]
    first = windows.shifted(w, 0, 10, 2, 3.0, 0)
    assert len(first) == 2 and all(x.columns["counted"].all() for x in first)
    assert windows.begins(5, 40, 10).tolist() == [5, 15, 25] and len(windows.begins(0, 1000, 10, 7)) == 7


def test_a_shake_does_not_erase_the_queue_of_a_short_log():
    from jobwise.compare import windows

    short = workload(np.arange(60.0) * 5, np.full(60, 4), np.full(60, 6.0), cluster=pool(4))  # 295 s
    assert 0 < windows.shake_for(short) <= 5
    c = compare(short, ["fcfs+easy", "sjf+easy"], replicas=4)
    assert c.queues == (max(c.logged[0]["bounded_slowdown"], c.whole[0]["bounded_slowdown"]) >= 1.3) and c.jitter_s <= 5
    assert c.whole[0]["wait"] == pytest.approx(c.logged[0]["wait"], rel=0.2)


def test_compare_and_simulate_agree_on_the_log_as_logged(comparison):
    c = comparison
    for p, name in enumerate(c.policies):
        assert c.logged[p] == simulate(c.workload, name).summary()


def test_the_longest_wait_is_a_number_with_its_range(comparison):
    middle, least, most = comparison.waits(1)
    assert least < middle < most and least <= comparison.times(1) <= most
    assert comparison.keeps(0, 1.0) and comparison.keeps(1, most) and not comparison.keeps(1, np.nextafter(most, 0.0))


def test_origins_put_all_unseen_windows_together():
    import jobwise as jw
    from jobwise.compare.origins import FAIR, origins
    from jobwise.report.origins import of_origins

    w = jw.lublin(jobs=3000, procs=64, load=0.9, seed=5, estimates="users")
    o = origins(w, ["fcfs+easy", "sjf+easy"], 3, window_jobs=60, replicas=2)
    assert o.at == [0.7, 0.8, 0.9] and o.policies == ["fcfs+easy", "sjf+easy", FAIR] and len(o.chosen) == 3
    e = o.effects()
    assert (
        e[2].change == 0
        and e[0].blocks == sum(len(c.first_row) // 2 for c in o.comparisons) >= 6
        and e[0].change > 0
        and not isnan(e[0].low)
    )
    most = max(x for c in o.comparisons for x in c.wait_ratios(1))  # a bound is kept in every origin and replica, or broken
    assert o.keeps(1, most) and not o.keeps(1, np.nextafter(most, 0.0)) and o.waits(1)[0] < most
    one = o.comparisons[1]
    assert one.workload.name == w.name and len(one.workload) == 300
    part = w.take(slice(2400, 2700))
    assert np.array_equal(one.records[0].jobs["start"], simulate(part, "fcfs+easy").jobs["start"])
    assert o.waits(0) == (1, 1, 1) and o.to_dict()["policies"][0]["by_origin"][2]["at"] == 0.9
    shown = of_origins(o)
    rows = shown.tables[0].rows
    assert [x[0] for x in rows] == o.policies and rows[2][2] == "reference" and rows[0][2].startswith(e[0].text())
    assert rows[0][3].startswith("1.00 (1.00 to 1.00)") and "No scheduler here is better" in shown.answer[0]
    (change, _) = shown.sections(None)
    assert change.tables[0] is shown.tables[0] and change.figures[0].startswith("<svg")
    with pytest.raises(InputError, match="1 to 6"):
        origins(w, ["fcfs+easy"], 7)


def test_origins_learn_from_the_jobs_before_alone():
    import jobwise as jw
    from jobwise.compare.origins import origins

    w, seen = jw.lublin(jobs=2000, procs=64, load=0.9, seed=5), []

    def learn(part, t):
        seen.append((len(part), t))
        return jw.ListScheduler("saf", "easy", label="learnt")

    o = origins(w, ["fcfs+easy"], 2, learn=learn, window_jobs=50, replicas=1)
    assert seen == [(1600, 0.8), (1800, 0.9)] and o.policies[1] == "learnt+easy"


def test_pausing_everything_gains_nothing():
    """A policy that starts every newcomer and pauses it in the same instant has waited, whatever its first start says."""

    class Pauser:
        def reset(self, view):
            self.order = resolve("fcfs+easy")
            self.order.reset(view)

        def ended(self, view, rows): ...

        def decide(self, view):
            free = view.free.sum()
            for job in view.queue:
                if np.isnan(view.jobs["start"][job]) and view.jobs["request"][job, 0] <= free:
                    yield from (Start(int(job)), Preempt(int(job)))
            yield from self.order.decide(view)

    from jobwise.decision import Preempt, Start
    from jobwise.policies.names import resolve

    w = lublin(400, 32, seed=7, load=1.1)
    honest, gamed = simulate(w, "fcfs+easy"), simulate(w, Pauser())
    first = gamed.jobs["start"] - gamed.jobs["submit"]
    assert first.mean() < 0.5 * metrics.wait(honest).mean()  # what first starts would have said
    assert np.array_equal(gamed.jobs["end"], honest.jobs["end"])
    for name in ("wait", "max_wait", "bounded_slowdown", "slowdown", "p95_wait"):
        assert gamed.summary()[name] == pytest.approx(honest.summary()[name]), name


def test_lost_work_restarts_and_slow_places_are_waiting():
    one = workload([0], [1], [10.0], cluster=pool(2))
    twice = workload([0], [1], [10.0], cluster=pool(2).with_outages([(4.0, 0, 0), (6.0, 0, 1)]))
    r = simulate(twice, "fcfs")  # 4 s lost, 2 s down, then 10 s
    assert r.jobs["end"][0] == 16 and metrics.run(r)[0] == 10 and metrics.wait(r)[0] == 6

    from jobwise.sim.simulation import Simulation
    from jobwise.simulate import record

    sim = Simulation(one, restart_cost_s=3.0)
    sim.advance()
    from jobwise.decision import Preempt, Start

    sim.apply([Start(0, rate=0.5)])
    sim.advance(4.0)
    sim.apply([Preempt(0)])
    sim.advance(7.0)
    sim.apply([Start(0)])
    sim.advance()
    r = record(sim.state, 0, one, one.cluster, resolve_fcfs())
    assert r.jobs["end"][0] == 7 + 8 + 3 and metrics.run(r)[0] == 10 and metrics.wait(r)[0] == 8


def resolve_fcfs():
    from jobwise.policies.names import resolve

    return resolve("fcfs")


def test_a_policy_on_its_training_jobs_is_told():
    from jobwise.compare.fingerprint import seen, sketch

    w = lublin(3000, 64, seed=2, estimates="users")
    about = {"trained_on": sketch([w.take(slice(0, 2000))])}
    assert seen(w.take(slice(0, 2000)), about) == 1 and seen(w.take(slice(2000, None)), about) == 0
    assert 0.5 < seen(w, about) < 0.8 and seen(w.take(slice(1000, 3000)), about) > 0.3
    assert seen(w, {}) == 0 and seen(w, {"trained_on": ["x"]}) == 0 and seen(lublin(2000, 64, seed=9), about) == 0


def test_jobs_that_outlive_their_request_are_shown_both_ways():
    from jobwise.compare.procedure import both_ways

    w = lublin(600, 32, seed=3, load=0.9)
    c, other = both_ways(w, ["fcfs+easy", "sjf+easy"], replicas=1, window_jobs=150)
    assert other is None and not c.notes
    w.truth["runtime"][::5] *= 3
    c, other = both_ways(w, ["fcfs+easy", "sjf+easy"], replicas=1, window_jobs=150)
    assert "20%" in c.notes[0] and other.records[0].runtime.max() < c.records[0].runtime.max()
    assert "run on" in c.notes[0] and "ended" in other.notes[0]
    assert "short" in compare(w, ["fcfs+easy"], replicas=0, window_jobs=20).notes[0]
    c, other = both_ways(w, ["fcfs+easy", "sjf+easy"], since=0.5, replicas=1, window_jobs=50)
    assert other.policies == c.policies and other.marks == c.marks and other.fair == c.fair is not None


def test_the_rule_of_an_origin_is_chosen_on_its_own_past():
    """Other jobs after t change no choice at t; and equal rules are told apart by their names, not by the clock."""
    from dataclasses import replace

    from jobwise.compare.baselines import Baselines

    w = lublin(900, 64, seed=2, load=0.95, estimates="users")
    other = replace(w, truth=w.truth.copy())
    other.truth["runtime"][500:] *= 3
    found = []
    for log in (w, other, w):
        b, cache = Baselines(log, 0, 400, 40, 1, 5.0), {}
        early = Baselines(log, 0, 400, 40, 1, 5.0, cache=cache)
        b.shortlist(), early.shortlist()
        assert b.best() == early.best() and len(cache) > 100
        found.append((b.best(), sorted(b.windows)))
    assert found[0] == found[1] == found[2]
    tied = Baselines(w, 0, 400, 40, 1, 5.0)
    tied.windows = {n: np.full((10, 1), 2.0) for n in ("saf+easy+guard72h", "saf+easy", "f1+easy+guard12h", "saf+conservative")}
    assert tied.best() == "saf+conservative"


def test_names_are_text_wherever_they_go(tmp_path):
    """Names of files and users are nobody's markup: not in HTML, not in SVG, not in matplotlib's formulas."""
    from dataclasses import replace

    w = lublin(300, 16, seed=3, load=0.9, users=3)
    w = replace(w, names={"user": {int(u): '"><script>alert(1)</script>$\\frac' for u in np.unique(w.jobs["user"])}})
    from jobwise.policies.list_scheduler import ListScheduler

    nasty = ['x" onload="alert(1)" y="', "$\\frac", "a[red]b", "\x1b[2J", "back\\1slash", "<b>&amp;"]
    c = compare(w, ["fcfs+easy", *(ListScheduler("sjf", "easy", label=n) for n in nasty)], replicas=1)
    c.write_report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert scripts_are_ours(text) and "\x1b" not in text and "<b>&amp;+" not in text
    for tag in re.findall(r"<(?:svg|g|text|td|div)\b[^>]*>", text):
        assert "onload" not in re.sub(r'"[^"]*"', "", tag), tag
    with pytest.raises(InputError, match="exists already"):
        c.write_report(tmp_path / "r.html")
