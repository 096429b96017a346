"""Nodes that fail: what they tell before, who sees it, and what a scheduler makes of it.

Modules: forecast/worth.py, policies/avoid.py, telemetry/risk.py, telemetry/simulated.py.
"""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.cli.main import run
from jobwise.errors import InputError
from jobwise.forecast.failures import MODELS, NodeSamples, features, fitted, names
from jobwise.forecast.worth import best_theta, calibrated
from jobwise.policies.avoid import Avoid, Risks
from jobwise.policies.names import resolve
from jobwise.sim.simulation import Simulation
from jobwise.telemetry.risk import nodes_of, read_failures
from jobwise.telemetry.simulated import METRICS, Faults, lives
from jobwise.workload import workload

pytestmark = pytest.mark.xdist_group("telemetry")
SMALL = Faults(nodes=8, steps=4000, mtbf=300, leaks=1200)


@pytest.fixture(scope="module")
def told():
    """(nodes, events) of a small cluster."""
    t, events = lives(SMALL, 3)
    return nodes_of(t, events)[0], events


# ------------------------------------------------------------------ simulated nodes


def test_lives_are_as_long_as_asked_for():
    for shape in (0.7, 1.5):
        f = Faults(nodes=60, steps=20_000, mtbf=500, shape=shape, leaks=0)
        _, events = lives(f, 1)
        down = events[events[:, 2] == 0]
        assert abs(len(down) * (f.mtbf + f.repair) / (f.nodes * f.steps) - 1) < 0.08
        for n in range(3):
            mine = events[events[:, 1] == n]
            assert (mine[:, 2] == np.arange(len(mine)) % 2).all() and (np.diff(mine[:, 0]) > 0).all()
    assert (lives(SMALL, 5)[1] == lives(SMALL, 5)[1]).all()
    for wrong in ({"nodes": 0}, {"mtbf": 0}, {"warned": 2}, {"shape": 0}):
        with pytest.raises(InputError):
            Faults(**wrong)


def test_a_node_that_is_down_says_nothing_and_precursors_are_there(told):
    x, events = told
    assert x.metrics == METRICS and len(x.failure) == (events[:, 2] == 0).sum() and not x.up.all()
    for t, n in x.failure[:50]:
        assert np.isnan(x.values[t : t + SMALL.repair, n]).all() and x.label()[t - 1, n] and not x.label()[t, n]
    warm = np.array([x.values[t - 3 : t, n, 1].mean() for t, n in x.failure])
    assert 0.4 < (warm > 64).mean() < 0.85  # 70 % of the faults, no leak


# ------------------------------------------------------------------ seeing it come


@settings(max_examples=10, deadline=None)
@given(st.integers(70, 190))
def test_features_see_nothing_of_what_comes(cut):
    rng = np.random.default_rng(cut)
    x = NodeSamples(("a", "b"), rng.normal(size=(200, 3, 2)), np.ones((200, 3), bool), np.array([[100, 1]]))
    cut = max(cut, x.cuts[0])
    other = NodeSamples(x.metrics, np.where(np.arange(200)[:, None, None] > cut, 9.0, x.values), x.up, x.failure)
    assert np.array_equal(features(x)[: cut + 1], features(other)[: cut + 1])
    assert features(x).shape[2] == len(names(x.metrics))


def test_measures_by_hand():
    y = np.array([True, False, True, False])
    assert best_theta(y, np.array([0.9, 0.1, 0.8, 0.2])) > 0.2
    rng = np.random.default_rng(0)
    score = rng.normal(size=4000)
    y = rng.random(4000) < 1 / (1 + np.exp(-2 * score))
    p = calibrated(score, y)(score)
    assert (np.diff(p[np.argsort(score)]) >= 0).all() and ((p - y) ** 2).mean() < 0.16
    assert abs(p[score > 1].mean() - y[score > 1].mean()) < 0.02
    assert calibrated(np.zeros(100), np.arange(100) >= 50)(np.zeros(1))[0] == 0.5


@pytest.mark.parametrize("model", MODELS)
def test_models_see_failures_come(model, told):
    w = fitted(told[0], model).worth
    assert w.auprc > 3 * w.base and w.auroc > 0.7 and w.brier < w.base and w.failures > 10
    assert w.precision > 0.5 and w.caught > 0.3 and w.lead > 2
    assert fitted(told[0], model).to_dict() == w.__dict__


def test_a_recurrent_network_sees_them_too(told):
    pytest.importorskip("torch")
    from jobwise.learn.gru import risks

    w = fitted(told[0], "gru", more={"gru": risks}).worth
    assert w.auprc > 3 * w.base


def test_what_is_measured_within_a_step_is_known_after_it():
    t, events = lives(Faults(nodes=3, steps=60, step_s=60.0), 1)
    exact, begin, step = nodes_of(t, events)
    late = nodes_of(t, events, 300.0)[0]  # five samples a step
    assert step == 60.0 and np.isnan(late.values[0]).all() and len(late.values) == 13
    assert late.values[1, 0, 2] == pytest.approx(exact.values[:5, 0, 2].mean())


def test_nothing_is_seen_where_there_is_nothing():
    t, events = lives(Faults(nodes=12, steps=4000, mtbf=300, warned=0.0, leaks=0), 1)
    w = fitted(nodes_of(t, events)[0], "boosted").worth
    assert w.auprc < 2.5 * w.base
    with pytest.raises(InputError, match="too few to look"):
        fitted(nodes_of(t, events)[0], "threshold", horizon=500)
    with pytest.raises(InputError, match="too few failures"):
        fitted(nodes_of(*lives(Faults(nodes=2, steps=1000), 0))[0], "logistic")


# ------------------------------------------------------------------ and what is made of it


def busy(outages, nodes=4, jobs=60, seed=0):
    rng = np.random.default_rng(seed)
    submit, length = np.sort(rng.uniform(0, 5000, jobs)).round(), rng.integers(100, 900, jobs).astype(float)
    machine = jw.nodes(nodes, cpus=1).with_outages(outages)
    return workload(submit - submit[0], np.ones((jobs, 1), int), length, cluster=machine, name="busy")


OUTAGES = [
    (t, n, up) for n in range(4) for k in range(4) for t, up in ((900 + 1300 * k + 200 * n, 0), (1200 + 1300 * k + 200 * n, 1))
]


def risks_of(outages, ahead, step=50.0, T=200):
    found = np.zeros((T, 4))
    for t, n, up in outages:
        if not up:
            found[max(int((t - ahead) // step), 0) : int(t // step) + 1, n] = 1.0
    return Risks(found, 0.0, step)


def test_work_is_lost_since_the_last_start():
    w = workload(np.zeros(1), np.ones((1, 1), int), np.array([100.0]), cluster=jw.nodes(1, cpus=1))
    sim = Simulation(w)
    sim.advance()
    sim.apply([jw.Start(0)])
    sim.advance(60.0)
    sim.apply([jw.Preempt(0), jw.Start(0)])
    sim.advance(75.0)
    sim.fail(0)
    assert sim.state.sims["lost"][0] == 15.0 and sim.state.truth["left"][0, 0] == 40.0
    sim.repair(0)
    sim.apply([jw.Start(0)])
    sim.advance()
    assert sim.state.jobs["end"][0, 0] == 115.0


def test_who_knows_loses_nothing_and_who_drains_loses_less():
    w = busy(OUTAGES)
    none = jw.simulate(w, "fcfs+easy")
    assert none.lost > 0 and none.jobs["restarts"].sum() > 0
    sure = risks_of(OUTAGES, 100.0)
    found = {how: jw.simulate(w, Avoid(resolve("fcfs+easy"), sure, 0.5, how)) for how in ("drain", "move", "save")}
    assert found["move"].lost == 0 and found["move"].jobs["restarts"].sum() == 0 and found["move"].preemptions > 0
    assert found["drain"].lost < none.lost and found["drain"].preemptions == 0
    assert 0 < found["save"].lost < none.lost
    costly = jw.simulate(w, Avoid(resolve("fcfs+easy"), sure, 0.5, "move"), restart_cost_s=60.0)
    assert costly.jobs["end"].sum() > found["move"].jobs["end"].sum()
    blind = Avoid(resolve("fcfs+easy"), sure, 2.0, "move")  # no risk is above
    assert (jw.simulate(w, blind).jobs["end"] == none.jobs["end"]).all() and "move above 2" in blind.name


def test_no_job_starts_on_a_node_at_risk():
    sure, w = risks_of(OUTAGES, 100.0), busy(OUTAGES)
    policy, seen = Avoid(resolve("sjf"), sure, 0.5), []

    class Spy:
        def begin(self, view):
            inner = policy.begin(view)

            class Run:
                def decide(_, view):
                    made = inner.decide(view)
                    seen.extend((view.now, d.placement) for d in made if isinstance(d, jw.Start))
                    return made

                def ended(_, view, rows):
                    inner.ended(view, rows)

            return Run()

        def reset(self, view):
            pass

        def decide(self, view):
            return []

        def ended(self, view, rows):
            pass

    jw.simulate(w, Spy())
    assert len(seen) >= len(w) and all(sure.at(now)[n] <= 0.5 for now, held in seen for n, _ in held)


def test_what_cannot_be():
    with pytest.raises(InputError, match="drain, move, save"):
        Avoid(resolve("fcfs"), risks_of([], 1.0), 0.5, "hide")
    with pytest.raises(InputError, match="risks of 4 nodes"):
        jw.simulate(busy([], nodes=5), Avoid(resolve("fcfs"), risks_of([], 1.0), 0.5))


def test_from_the_command_line(tmp_path, capsys):
    t, events = lives(SMALL, 3)
    from jobwise.telemetry.write import write

    write(t, str(tmp_path / "t.parquet"))
    down = events[events[:, 2] == 0]
    (tmp_path / "f.csv").write_text("time,node\n" + "".join(f"{a:g},node{int(n)}\n" for a, n, _ in down))
    assert len(read_failures(tmp_path / "f.csv", t)) == len(down)
    base = ["telemetry", "risk", str(tmp_path / "t.parquet"), "--models", "logistic"]
    assert run([*base, "--failures", str(tmp_path / "f.csv"), "-o", str(tmp_path / "r.csv")]) == 0
    lines = (tmp_path / "r.csv").read_text().splitlines()
    assert lines[0].startswith("time,node0") and len(lines) == 1 + SMALL.steps - int(0.8 * SMALL.steps)
    capsys.readouterr()
    assert run([*base, "--failures", str(tmp_path / "f.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["model"] == "logistic"
    (tmp_path / "g.csv").write_text("time,node\n5,other\n")
    (tmp_path / "h.csv").write_text("when,node\n5,node1\n")
    for more, says in (
        ([], "when did nodes fail"),
        (["--failures", str(tmp_path / "g.csv")], "'other' is not among"),
        (["--failures", str(tmp_path / "h.csv")], "columns time and node"),
        (["--failures", str(tmp_path / "f.csv"), "--models", "luck"], "model"),
    ):
        assert run([*base, *more]) == 2
        assert says in capsys.readouterr().err
