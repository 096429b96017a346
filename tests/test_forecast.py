"""Forecasts online: what a forest sees (a plain-Python twin), forests, the orders made of them, compiled and asked."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import random_workload
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.compare.fingerprint import seen
from jobwise.errors import InputError
from jobwise.forecast import forests
from jobwise.forecast.runtimes import calibration, foreseen
from jobwise.jobs import STARTED, STOPPED, SUBMITTED, past_dtype
from jobwise.policies import loglinear
from jobwise.policies.loglinear import INDICES, Index
from jobwise.policies.names import load, resolve
from jobwise.sim import foresight
from jobwise.sim.events import of_table
from jobwise.sim.foresight import FEATURES
from jobwise.sim.forest import NOTHING, Forest, check, joined, node_dtype, raw_all
from jobwise.sim.groups import F
from jobwise.sim.memory import DAY, HOUR
from jobwise.sim.simulation import Simulation
from jobwise.simulate import asked, record, simulate
from jobwise.testing import check_policy

pytestmark = pytest.mark.xdist_group("forecast")


def with_users(w, seed):
    rng = np.random.default_rng(seed)
    w.jobs["user"], w.jobs["app"] = rng.integers(0, 3, len(w)), rng.integers(-1, 2, len(w))
    w.jobs["walltime"] = rng.choice([30.0, 100.0, 1000.0], len(w))
    return w


# ------------------------------------------------------------------ what a forest sees


LINE = ("user", "app", "queue", "memory")


class Twin:
    """The definition, in plain Python: everything is looked up in a list of what has happened."""

    def __init__(self, jobs, total):
        self.jobs, self.total, self.seen = jobs, total, []  # seen: (kind, job, time)

    def group(self, j, level):
        a = self.jobs[j]
        keys = {"all": (), "user": ("user",), "key": ("user", "request", "size"), "line": LINE}[level]
        return [x for x in self.seen if all(self.jobs[x[1]][k] == a[k] for k in keys)]

    def ended(self, events):
        return [(self.jobs[j], t) for kind, j, t in events if kind == STOPPED]

    @staticmethod
    def numbers(job):
        request = max(job["request"], 1.0)
        run = job["run"]
        return np.array([min(run / request, 1), 10 / max(run, 10), np.log(max(run, 10) / max(request, 10))])

    def faded(self, events, lean, on):
        count, sums = 0.0, np.zeros(3)
        for job, _ in self.ended(events):
            count, sums = 0.95 * count + 1, 0.95 * sums + self.numbers(job)
        return (sums + lean * np.array(on)) / (count + lean), count

    def decayed(self, events, now, span):
        out = np.zeros(4)
        for job, t in self.ended(events):
            _, short, log = self.numbers(job)
            out += np.exp((t - now) / span) * np.array([1, short, job["run"] < 60, log])
        return out

    def features(self, j, now):
        out, job = {}, self.jobs[j]
        every = self.group(j, "all")
        m, _ = self.faded(every, 20.0, [0.5, 0.1, -1.0])
        waits = [k for kind, k, _ in self.seen if kind == SUBMITTED and not any(x[:2] == (STARTED, k) for x in self.seen)]
        out["request"], out["processors"] = np.log(max(job["request"], 1)), np.log(job["size"])
        out["share"], out["waiting"] = job["size"] / self.total, np.log1p(len(waits))
        out["all: ratio"], out["all: short"], out["all: log"] = m
        h = self.decayed(every, now, HOUR)
        out["all: hour short"], out["all: hour log"] = (h[1] + m[1]) / (h[0] + 1), (h[3] + m[2]) / (h[0] + 1)
        for level in ("user", "line", "key"):
            own = self.group(j, level)
            m, count = self.faded(own, 1.0, m)
            h, d = self.decayed(own, now, HOUR), self.decayed(own, now, DAY)
            told = [*m, np.log1p(count), h[0], (h[1] + 0.2 * m[1]) / (h[0] + 0.2), h[2] / (h[0] + 0.2)]
            told += [d[0], (d[1] + 0.2 * m[1]) / (d[0] + 0.2), d[2] / (d[0] + 0.2), (d[3] + 0.2 * m[2]) / (d[0] + 0.2)]
            out |= {f"{level}: {k}": v for k, v in zip(foresight.ENDED, told, strict=True)}
        for level in ("key", "user"):
            own = self.group(j, level)
            ends, subs = self.ended(own), [t for kind, _, t in own if kind == SUBMITTED]
            streak = 0
            for x, _ in ends:
                streak = streak + 1 if x["run"] < 60 else 0
            runs = [(k, t) for kind, k, t in own if kind == STARTED and (STOPPED, k) not in [x[:2] for x in own]]
            begin, size = -np.inf, 0
            for i, t in enumerate(subs):
                if i == 0 or t - subs[i - 1] > 600:
                    begin, size = t, 0
                size += 1
            first = next((i for i, x in enumerate(own) if x[0] == SUBMITTED and x[2] == begin), 0)
            since = lambda t: np.log1p(min(max(now - t, 0), 1e7))  # noqa: E731
            waiting = [k for kind, k, _ in own if kind == SUBMITTED and (STARTED, k) not in [x[:2] for x in own]]
            told = [min(streak, 20), self.numbers(ends[-1][0])[2] if ends else 0.0, since(ends[-1][1] if ends else -np.inf)]
            told += [since(subs[-1] if subs else -np.inf), len(runs), -1.0, -1.0]
            if runs:
                mean = now - np.mean([t for _, t in runs])
                starts = [t for kind, _, t in own if kind == STARTED]
                told[5:7] = np.log1p(max(mean, 0)) - np.log(max(job["request"], 1)), since(starts[-1])
            told += [np.log1p(len(waiting)), np.log1p(size), since(begin)]
            told += [min(len(self.ended(own[first:])), 50)]
            out |= {f"{level}: {k}": v for k, v in zip(foresight.NOW, told, strict=True)}
        return np.array([out[k] for k in FEATURES])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 25), begin=st.sampled_from([0, -1_000_000]))
def test_features_are_those_of_the_definition(seed, count, begin):
    rng = np.random.default_rng(seed)
    submit = begin + np.sort(rng.integers(0, 3000, count)).astype(float)
    start = submit + rng.choice([0.0, 5.0, 200.0, 4000.0], count)
    run = rng.choice([0.0, 5.0, 59.0, 300.0, 20_000.0], count)
    table = {"user": rng.integers(0, 2, count), "app": rng.integers(0, 2, count), "queue": np.zeros(count, int)}
    table |= {"walltime": rng.choice([60.0, 600.0], count), "size": rng.integers(1, 3, count)}
    table["memory"] = rng.choice([-1.0, 512.0, 513.0], count)
    jobs = [{k: table[k][j] for k in (*LINE, "size")} | {"request": table["walltime"][j], "run": run[j]} for j in range(count)]
    twin, rows = Twin(jobs, 8), []
    for t, _, j, kind in of_table(submit, start, start + run, run).tolist():
        if kind == SUBMITTED:
            twin.seen.append((kind, j, t))
            rows.append(twin.features(j, t))
        elif kind == STARTED:
            rows.append(twin.features(j, t))
            twin.seen.append((kind, j, t))
        else:
            twin.seen.append((kind, j, t))
    past = np.zeros(count, past_dtype)
    for name, column in (table | {"submit": submit, "runtime": run, "end": start + run}).items():
        past[name] = column
    out, _ = foresight.features_of(past, 8, np.ones(count, bool))
    for a, b in zip(out, rows, strict=True):
        wrong = [(FEATURES[i], a[i], b[i]) for i in np.flatnonzero(~np.isclose(a, b, atol=1e-9))]
        assert not wrong, wrong


def test_a_row_when_it_was_submitted_and_one_when_it_started():
    past = np.zeros(3, past_dtype)
    past["submit"], past["runtime"], past["walltime"], past["size"] = [0, 1, 2], [100, 5, 50], [100, 100, 100], 1
    past["end"] = past["submit"] + [0, 200, 10] + past["runtime"]
    x, y, weight = forests.rows_of(past[np.argsort(past["end"])], 4)
    assert len(x) == 4 and sorted(weight) == [0.5, 0.5, 1, 1]
    assert sorted(y[:, 0]) == [0.05, 0.05, 0.5, 1] and sorted(y[:, 1].round(3)) == [0.1, 0.2, 1, 1]


# ------------------------------------------------------------------ forests


def tree(feature, threshold, low, high):
    one = [(feature, 1, 2, threshold), (-1, 0, 0, low), (-1, 0, 0, high)]
    node = np.array([*one, *one], node_dtype)
    node["left"][3], node["right"][3] = 4, 5
    return Forest(node, np.array([0, 3]), np.array([0, 1, 2]))


def test_a_forest_says_what_lightgbm_says():
    pytest.importorskip("lightgbm")
    import lightgbm

    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, F))
    y = np.clip(np.stack([x[:, 0] > 0.3, x[:, 1] * x[:, 2] > 0], axis=1) + 0.1 * rng.normal(size=(3000, 2)), 0, 1)
    models = [lightgbm.train(forests.HOW, lightgbm.Dataset(x, y[:, k]), 20) for k in range(2)]
    f, out = forests.from_boosters(models), np.empty(3000)
    check(f, F)
    for k in range(2):
        raw_all(f, x, k, out)
        assert np.allclose(out, models[k].predict(x, raw_score=True), atol=1e-12)
    base = forests.learnt(x, y, np.ones(3000), trees=5)
    both = forests.learnt(x, y, np.ones(3000), base, trees=5)
    assert len(both.tree) == 20 and forests.judged(both, x, y)[0] < forests.judged(base, x, y)[0]
    again = forests.learnt(x, y, np.ones(3000), trees=5)
    assert (again.node == base.node).all()


def test_forests_are_joined_and_checked():
    a, b = tree(0, 0.0, 1.0, 2.0), tree(1, 0.0, 10.0, 20.0)
    f, out = joined(a, b), np.empty(2)
    x = np.zeros((2, F))
    x[1, :2] = 1, 1
    raw_all(f, x, 1, out)
    assert out.tolist() == [11.0, 22.0] and joined(NOTHING, a) is a
    check(f, F)
    for wrong in (
        tree(F, 0.0, 1, 2),
        tree(0, np.inf, 1, 2),
        a._replace(tree=np.array([0, 9])),
        a._replace(bound=np.array([0, 3])),
    ):
        with pytest.raises(ValueError):
            check(wrong, F)
    circle = tree(0, 0.0, 1, 2)
    circle.node["left"][0] = 0
    with pytest.raises(ValueError, match="go down"):
        check(circle, F)


def test_too_few_jobs_make_a_forest_without_trees_that_may_be_asked():
    few = forests.of_past(np.zeros(forests.LEAST - 1, past_dtype), 16)
    said = np.full((3, 2), np.nan)
    for k in range(2):
        raw_all(few, np.zeros((3, F)), k, said[:, k])
    assert few is NOTHING and (said == 0).all()
    check(few, F)
    w = random_workload(np.random.default_rng(0), jobs=60)
    order = replace(resolve("smith-forecast").order, forest=few)
    assert np.isfinite(simulate(w, replace(resolve("smith-forecast+easy"), order=order)).jobs["end"]).all()


def test_policy_files_with_forests(tmp_path):
    order = Index("mine", INDICES["smith"].weights, {"logs": ["x"]}, tree(0, 4.0, -1.0, 1.0), 1.0)
    loglinear.save(order, tmp_path / "mine.safetensors")
    again = load(tmp_path / "mine.safetensors").order
    assert again.ageing == 1.0 and all((a == b).all() for a, b in zip(again.forest, order.forest, strict=True))
    bad = order.forest._replace(tree=np.array([0, 99]))
    loglinear.save(replace(order, forest=bad), tmp_path / "bad.safetensors")
    with pytest.raises(InputError, match="damaged"):
        load(tmp_path / "bad.safetensors")
    aged = resolve("smith-forecast-aged+easy")
    assert aged.name == "smith-forecast-aged+easy" and aged.order.ageing == 1.0


# ------------------------------------------------------------------ orders


@pytest.mark.parametrize("name", ["smith-forecast+easy", "smith-forecast-aged+easy+guard2h", "smith-forecast"])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_orders_with_forests_are_the_same_compiled_and_asked(name, seed):
    w = with_users(random_workload(np.random.default_rng(seed), jobs=80, procs=8, overruns=True), seed)
    w = w.take(slice(30, None))  # with a past
    policy = resolve(name)
    sim = Simulation(w, seed=seed)
    for _ in asked(sim, policy):
        pass
    a, b = simulate(w, policy, seed=seed), record(sim.state, 0, w, sim.cluster, policy)
    assert np.array_equal(a.jobs["start"], b.jobs["start"])


def test_requeued_jobs_come_once():
    """Nodes fail: compiled and asked are the same, and nothing is counted twice."""
    w = with_users(random_workload(np.random.default_rng(3), jobs=120, procs=8, overruns=True), 3)
    down = [(100.0 * k, 0, 0) for k in range(1, 8)] + [(100.0 * k + 10, 0, 1) for k in range(1, 8)]
    w = replace(w, cluster=w.cluster.with_outages(down)).take(slice(30, None))
    policy, sim = resolve("smith-forecast+easy"), Simulation(w)
    for _ in asked(sim, policy):
        pass
    a, b = simulate(w, policy), record(sim.state, 0, w, sim.cluster, policy)
    assert a.jobs["restarts"].sum() > 3 and np.array_equal(a.jobs["start"], b.jobs["start"])


def test_a_policy_may_begin_in_the_middle():
    w = with_users(random_workload(np.random.default_rng(5), jobs=120, procs=8, overruns=True), 5).take(slice(30, None))
    policy, sim = resolve("smith-forecast+easy"), Simulation(w)
    run, checked = None, 0
    while sim.advance():
        view = sim.view()
        if run is None:
            run = policy.begin(view)
        elif len(view.ended):
            run.ended(view, view.ended)
        made = list(run.decide(view))
        if len(view.queue) and view.now > 300:
            known = policy.begin(view)._memory.expected(policy.order, view)
            mine = run._memory.expected(policy.order, view)
            checked += np.allclose(known[:, 2:], mine[:, 2:])
        sim.apply(made)
    assert checked > 10


@pytest.mark.parametrize("name", ["smith-forecast+easy", "smith-forecast-aged+easy"])
def test_forecasts_do_not_peek(name):
    w = with_users(jw.lublin(400, procs=64, seed=2, load=0.9, estimates="users"), 2)
    check_policy(name, w.take(slice(150, None)))


def test_requests_are_believed_where_they_are_exact():
    exact = with_users(jw.lublin(1500, procs=64, seed=1, load=0.9), 1)
    exact.jobs["walltime"] = np.maximum(exact.truth["runtime"], 1.0)
    late = exact.take(slice(1000, None))
    a, b = simulate(late, "smith-forecast+easy"), simulate(late, "smith+easy+actual")
    assert np.abs(a.jobs["start"] - b.jobs["start"]).mean() < 1.0
    vague = replace(late, jobs=late.jobs.copy(), past=late.past.copy())
    vague.jobs["walltime"], vague.past["walltime"] = 86_400.0, 86_400.0
    forest = resolve("smith-forecast").order.forest
    from jobwise.policies.foreseen import begin

    for one, believed in ((late, True), (vague, False)):
        c = begin(forest, one.past, one.jobs, 64)
        assert (c.error[2] > 100) and (c.error[0] > 2 * c.error[1]) == believed


def test_trees_of_a_site(tmp_path, capsys):
    pytest.importorskip("lightgbm")
    from jobwise.cli import run
    from jobwise.workloads.swf import write_swf

    w = with_users(jw.lublin(3000, procs=64, seed=6, load=0.9, estimates="users"), 6)
    write_swf(w, tmp_path / "log.swf")
    order = ["train", "smith-forecast", str(tmp_path / "log.swf"), "--out", str(tmp_path / "run"), "--preset", "smoke"]
    assert run(order) == 0 and run(order) == 2 and run([*order, "--resume"]) == 0
    capsys.readouterr()
    policy = load(tmp_path / "run")
    assert len(policy.order.forest.tree) == 20 and policy.order.about["shipped"] > 0
    assert run(["simulate", str(tmp_path / "log.swf"), "-p", f"{tmp_path / 'run'}+express1%+promise1.2x"]) == 0
    mine = resolve(f"jobwise:{tmp_path / 'run'}")
    assert len(mine.order.forest.tree) == 20 and mine.name == f"jobwise:{tmp_path / 'run'}"
    assert seen(w, mine.about) > 0.4 and seen(w.take(slice(2000, None)), mine.about) == 0
    assert seen(w, resolve("jobwise").about) == 0
    capsys.readouterr()
    assert run(["trace", "forecast", str(tmp_path / "log.swf"), "--json"]) == 0
    assert '"forest"' in capsys.readouterr().out
    page = tmp_path / "forecasts.html"
    assert run(["trace", "forecast", str(tmp_path / "log.swf"), "--report", str(page)]) == 0
    assert page.read_text().count("<svg") == 4 and "flatter" not in capsys.readouterr().out
    assert run(["trace", "forecast", str(tmp_path / "log.swf"), "--report", str(page)]) == 2  # nothing is overwritten


def test_calibration_finds_who_may_be_believed():
    """Groups by forecast, of all judged jobs; its loss is that of the forecasts themselves."""
    w = with_users(jw.lublin(3000, procs=64, seed=6, load=0.9, estimates="users"), 6)
    known, cut = calibration(w), int(0.7 * 3000)
    p, y = foreseen(w)[cut:, 1], 10 / np.maximum(w.truth["runtime"], 10)[cut:]
    found = known["short"]["forest"]
    assert np.mean(found["told"]) == pytest.approx(p.mean()) and np.mean(found["was"]) == pytest.approx(y.mean())
    assert found["told"] == sorted(found["told"]) and len(found["loss"]) == 10
    loss = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
    assert np.mean(found["loss"]) == pytest.approx(loss, rel=0.01)
