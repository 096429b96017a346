"""MARS's models: generations and rollback, the store and kill -9, cost after the softmax, Algorithm 3 with models.

Modules: cli/models.py, learn/generations.py, learn/ground.py, learn/imitation.py, systems/layer.py, systems/model.py,
systems/model_about.py, systems/rla3c.py, systems/store.py, workflows/outcome.py, worlds/window/rules.py.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from conftest import random_workload
from hypothesis import given, settings
from hypothesis import strategies as st
from test_workflows import random_flow

import jobwise as jw
from jobwise.cli.main import run
from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.learn.env import WindowVectorEnv
from jobwise.learn.generations import Generations
from jobwise.learn.ground import OF_FLOWS
from jobwise.policies.names import load, resolve
from jobwise.policies.networks import Forward, choose
from jobwise.sim.simulation import Simulation
from jobwise.systems import configure
from jobwise.systems.layer import GENERAL, layer
from jobwise.systems.mars import HEURISTICS, accepted, costly
from jobwise.systems.model import Model
from jobwise.systems.store import Store
from jobwise.workload import workload
from jobwise.workloads import wfformat
from jobwise.workloads.signatures import signature, similarity
from jobwise.workloads.streams import stream
from jobwise.workloads.workflows import Workflow, task_dtype, workflow
from jobwise.worlds.window import encoders
from jobwise.worlds.window.policy import WindowPolicy
from jobwise.worlds.window.rules import RULES

pytestmark = pytest.mark.xdist_group("learning")


def w_of(x):
    return {"w": np.float32([x])}


def judged(g, x, rule=10.0, score=lambda w: float(w["w"][0])):
    return g.judge(w_of(x), lambda w: np.full(3, score(w)), np.full(3, rule))


def test_generations_branch_by_branch():
    g = Generations()
    g.begin(w_of(9.0))
    gain, back = judged(g, 8.0)  # ahead of G0 and of the rule
    assert gain == pytest.approx(1 / 9) and back is None and (g.number, g.serves) == (1, 1)
    assert judged(g, 7.0)[1] is None and [n for n, _ in g.kept] == [1, 2]  # three with the present one
    gain, back = judged(g, 7.7)
    assert gain == pytest.approx(-0.1) and back is None and (g.lost, g.serves) == (1, 2)
    _, back = judged(g, 7.5)  # the second in a row
    assert back["w"][0] == 7.0 and (g.rate, g.lost, g.rollbacks) == (0.5, 0, 1)
    worlds = {8.0: 9.0, 7.0: 12.0, 20.0: 20.0}  # in a new window G2 is behind the rule, G1 is not
    judged(g, 20.0, score=lambda w: worlds[float(w["w"][0])])
    _, back = judged(g, 20.0, score=lambda w: worlds[float(w["w"][0])])
    assert back["w"][0] == 8.0 and [n for n, _ in g.kept] == [1] and g.serves == 1 and g.rate == 0.25
    judged(g, 30.0, rule=1.0)
    assert g.serves == -1 and g.served is None  # the rule is ahead of all
    _, back = judged(g, 30.0, rule=1.0)
    assert back["w"][0] == 8.0 and g.serves == -1
    assert Generations.of(g.state()).state() == g.state()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)), max_size=30))
def test_nothing_that_is_not_confirmed_schedules(windows):
    g, confirmed = Generations(), {}
    g.begin(w_of(50.0))
    confirmed[0] = np.float32(50.0)
    for x, rule in windows:
        number = g.number
        gain, back = judged(g, x, rule)
        assert len(g.kept) <= 2 and (back is None or gain < 0)
        if g.number > number:
            confirmed[g.number] = np.float32(x)
        if g.serves >= 0:
            assert g.served["w"][0] == confirmed[g.serves] <= rule + 1e-6 * rule
        else:
            assert all(w["w"][0] > rule - 1e-6 * rule for _, w in g.kept)


def net(w, seed=0, **settings):
    e = encoders.make("mars", w.cluster, w.jobs, 16, **settings)
    rng = np.random.default_rng(seed)
    weights = {"net.0.weight": rng.normal(size=(1, e.shape[1])).astype("f4"), "net.0.bias": np.zeros(1, "f4")}
    return WindowPolicy(Forward({"kind": "perjob", "sizes": [e.shape[1], 1]}, weights), e)


def test_cost_is_weighed_after_the_softmax(tmp_path):
    """pi'(j) ~ pi(j) q_j^beta: the choice is the largest of the product, worked out with probabilities."""
    rng = np.random.default_rng(2)
    w = random_workload(rng, jobs=60, procs=16)
    policy = net(w)
    policy.save(tmp_path / "m.safetensors")
    dear = resolve(f"{tmp_path / 'm.safetensors'}+cost2")
    sim = Simulation(w)
    while len(sim.view().queue) < 2:
        sim.advance()
    plain, weighed = ({x["job"]: x for x in p.explain(sim.view())} for p in (policy, dear))
    assert all(x["score"] == pytest.approx(plain[j]["score"] - 4 * x["features"]["cost"] ** 2) for j, x in weighed.items())
    assert dear.cost == 2 and dear.name.endswith("+cost2") and resolve(str(tmp_path / "m.safetensors")).cost == 0
    out = rng.random((50, 16, policy.bound(w.cluster).shape[1])).astype("f4")
    counts = np.full(50, 16)
    pi = np.exp(policy.forward(out.reshape(-1, out.shape[2])).reshape(50, 16))
    q = np.exp(-(out[:, :, 8] ** 2) / (2 * 0.5**2))
    assert choose(dear.forward, out, counts, dear._dear(out)).tolist() == (pi * q**2).argmax(axis=1).tolist()
    assert choose(policy.forward, out, counts, policy._dear(out)).tolist() == pi.argmax(axis=1).tolist()
    for name in ("sjf+easy+cost1", "general+cost1"):
        with pytest.raises(InputError, match="cost"):
            resolve(name)
    a, b = (jw.simulate(w, p).jobs["start"] for p in (policy, dear))
    assert not np.array_equal(a, b)


def test_the_acceptance_test_and_the_cost_of_an_order_by_hand():
    assert accepted(0.4, -10.0, -11.9, 0.5) == 0.4 and accepted(0.4, -10.0, -12.1, 0.5) == 0.2
    w = workload([0, 0, 0], [4, 4, 4], [10, 10, 10], cluster=pool(4))
    found = costly(jw.simulate(w, "fcfs"), np.array([0.0, 0.25, 0.75]))
    assert found == {"cost_wait": pytest.approx(0.25 * 10 + 0.75 * 20), "cost_position": pytest.approx(0.25 * 0.5 + 0.75)}


def test_a_rule_teaches():
    """What a teacher does from choice to choice is what its list scheduler does."""
    pytest.importorskip("torch")
    from jobwise.learn.env import WindowVectorEnv

    w = random_workload(np.random.default_rng(8), jobs=80, procs=16)
    for rule in set(RULES) - {"las", "random"}:
        envs = WindowVectorEnv(1, w, jobs=80, encoder="mars", window=128)
        envs.reset(seed=0)
        while not envs.choose(envs.by_rule(rule))[0]:
            pass
        r = jw.simulate(w, f"{rule}+easy")
        mean = r.summary()["bounded_slowdown"]
        z = envs.intervals[0]
        assert z["total"] / z["started"] == pytest.approx(mean, rel=1e-9), rule


def test_a_cold_start_learns_what_a_rule_would_choose():
    from jobwise.learn.agent import Agent
    from jobwise.learn.env import WindowVectorEnv
    from jobwise.learn.imitation import imitate
    from jobwise.learn.settings import Settings

    w, found = jw.lublin(1000, 64, 3, load=1.1), []
    for updates in (10, 400):
        envs = WindowVectorEnv(16, w, jobs=100, encoder="mars", window=32)
        envs.reset(seed=0)
        agent = Agent({"kind": "perjob", "sizes": [18, 16, 1]}, envs.encoder, Settings(), 0)
        found.append(imitate(agent, envs, "sjf", updates)["agreement"])
    assert found[0] < 0.6 and found[1] > 0.75


def test_what_is_interrupted_says_how_to_go_on(log, tmp_path, capsys, monkeypatch):
    """One line that is true: what is kept, and how it goes on."""
    file, store = tmp_path / "log.swf", tmp_path / "s"
    jw.write_swf(log, file)
    learn = ["mars", "learn", str(file), "--models", str(store), "--window", "100", "--preset", "smoke", "--choices", "200"]
    whole, windows = Model._window, []

    def cut(self, *a):
        if len(windows) == 2:
            raise KeyboardInterrupt
        windows.append(whole(self, *a))
        return windows[-1]

    monkeypatch.setattr(Model, "_window", cut)
    assert run(learn) == 130
    assert "2 whole windows are kept, and the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(Model, "_window", whole)
    assert run(learn) == 0 and "2 windows of 100 jobs" in capsys.readouterr().out
    monkeypatch.setattr("jobwise.learn.run.TrainingRun.update", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run(["train", "mars", str(file), "--out", str(tmp_path / "r"), "--preset", "smoke"]) == 130
    assert "holds no checkpoint yet: it begins again with --resume" in capsys.readouterr().err
    monkeypatch.setattr("jobwise.workflows.follow.Following.follow", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run(["mars", "run", str(file), "--state", str(tmp_path / "run")]) == 130
    error = capsys.readouterr().err
    assert "what was submitted runs on, and the same command goes on from here" in error and error.count("\n") == 1


SETTINGS = {"choices": 300, "simulations": 8, "warm": 20, "jobs": 32, "threads": 1}


def small(log):
    config = configure("mars+", log, "smoke")
    return config.changed(**SETTINGS, learner=config.learner | {"steps": 8, "workers": 2})


@pytest.fixture(scope="module")
def log():
    return random_workload(np.random.default_rng(1), jobs=400, procs=32)


def test_a_store_learns_window_by_window(log, tmp_path):
    store = Store(tmp_path / "store")
    model = store.for_log(log, small(log), 100, 0.5)
    shown = model.learn(log.take(slice(0, 250)), 100)
    assert [x.jobs for x in shown] == [100, 100] and model.about.seen == 200
    assert shown[0].net is None and shown[0].served == "fcfs+easy" and shown[1].rule == shown[0].best
    again = Store(tmp_path / "store").for_log(log, small(log), 100)
    assert again.folder == model.folder and len(again.learn(log, 100)) == 2  # the log has grown
    assert again.about.beta in (0.5, 0.25, 0.125, 0.0625)
    policy = load(again.folder)
    assert policy.name == again.rule if again.about.serves < 0 else policy.cost == again.about.beta
    jw.simulate(log, policy)
    with pytest.raises(InputError, match="another store"):
        Store(tmp_path / "store").for_log(log, small(log).changed(encoding={"cost": "drawn"}), 100)
    assert Store(tmp_path / "store").for_log(log, small(log), 100, 3.0).about.beta == 3.0
    other = random_workload(np.random.default_rng(2), jobs=400, procs=32)
    with pytest.raises(InputError, match="does not begin with them"):
        again.learn(other, 100)
    kin = Store(tmp_path / "store").for_log(replace(log, name="a year later"), small(log), 100)
    assert kin.folder != again.folder and kin.begins_as is None  # these very jobs: it would be judged on what it has learnt
    cousin = random_workload(np.random.default_rng(7), jobs=400, procs=32)
    kin = Store(tmp_path / "store").for_log(replace(cousin, name="another year"), small(cousin), 100)
    assert kin.begins_as is not None  # a model of its own, which begins as that of similar work
    kin.learn(cousin.take(slice(0, 150)), 100)
    assert kin.about.windows[0].net is not None and len(Store(tmp_path / "store").models()) == 2
    dear = small(cousin).changed(encoding={"cost": "drawn"})
    assert Store(tmp_path / "store").for_log(replace(cousin, name="a third"), dear, 100).begins_as is None


def test_a_poisoned_generation_is_rolled_back_within_two_windows(log, tmp_path):
    model = Store(tmp_path / "store").for_log(log, small(log), 80)
    model.learn(log.take(slice(0, 160)), 80)
    before = model.about.rollbacks
    file = model.folder / f"{model.about.present}.safetensors"
    poisoned = load(file)
    poisoned.forward.weights["net.6.weight"] *= -30.0  # it prefers what it liked least
    WindowPolicy(poisoned.forward, poisoned.encoder, poisoned.world, "mars", poisoned.about).save(file)
    model.about.config = model.about.config.changed(choices=1)  # it learns too little to mend itself
    kept = list(model.about.kept)
    shown = model.learn(log, 80)[:2]
    assert shown[0].gain < 0 and shown[1].gain < 0
    assert shown[1].rolled_back and model.about.rollbacks > before and model.about.rate < 1
    confirmed = {f"G{n}" for n in kept}  # the poisoned net never schedules: it is no generation
    assert all(x.served in confirmed or x.served in HEURISTICS for x in shown)
    assert all(x.score < x.net for x in shown)


KILLED = """
import sys, numpy as np
sys.path[:0] = {paths!r}
from conftest import random_workload
from test_models import small
import jobwise.learn.window
from jobwise.systems.store import Store
log = random_workload(np.random.default_rng(1), jobs=4000, procs=32)
model = Store(sys.argv[1]).for_log(log.take(slice(0, 400)), small(log), 40)
print("begun", flush=True)
model.learn(log, 40, lambda x: print("window", flush=True))
"""


def killed(store, times, patience=3.0):
    """Kill a learner again and again at random moments; the store loads each time."""
    rng, windows = np.random.default_rng(0), 0
    for k in range(times):
        code = KILLED.format(paths=sys.path)
        p = subprocess.Popen([sys.executable, "-c", code, str(store)], stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "begun\n"
        if not windows and (k > 0 or times == 1):
            p.stdout.readline()  # a window at least
        time.sleep(patience * rng.random())
        p.send_signal(signal.SIGKILL)
        p.wait()
        p.stdout.close()
        models = Store(store).models()
        assert len(models) <= 1
        for model in models:
            assert len(model.about.windows) >= windows and model.about.seen == 40 * len(model.about.windows)
            windows = len(model.about.windows)
            for name in (model.about.present, *(f"g{n}" for n in model.about.kept)):
                model.net(name)
            by = load(model.folder)
            assert isinstance(by, WindowPolicy) == (model.serves[0] == "G") and (
                model.serves[0] == "G" or by.name == model.serves
            )
    return windows


@pytest.mark.cli
def test_a_store_survives_being_killed(tmp_path):
    assert killed(tmp_path / "store", 1) > 0


@pytest.mark.slow
def test_a_store_survives_being_killed_a_hundred_times(tmp_path):
    assert killed(tmp_path / "store", 100) > 20


def test_bad_stores_are_one_line(log, tmp_path, capsys):
    file = tmp_path / "log.swf"
    jw.write_swf(log, file)
    (flows := tmp_path / "flows.json").write_text(json.dumps({"steps": [{"id": f"{i}", "depends_on": []} for i in range(9)]}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    for arguments, told in (
        (["mars", "models", tmp_path / "none"], "no such folder"),
        (["mars", "models", tmp_path / "other"], "is no model store"),
        (["mars", "learn", file, "--models", tmp_path / "other"], "is no model store"),
        (["mars", "learn", file, "--models", file], "is a file"),
        (["mars", "learn", file, "--models", tmp_path / "s", "--window", "2000"], "do not fit a log"),
        (["mars", "learn", flows, "--models", tmp_path / "s", "--window", "4"], "workflows teach a store"),
    ):
        assert run([str(a) for a in arguments]) == 2
        assert told in capsys.readouterr().err
    assert (tmp_path / "other" / "notes.txt").read_text() == "mine"
    store = tmp_path / "s"
    (store / "m000").mkdir(parents=True)
    good = Store(tmp_path / "good").for_log(log, small(log), 200)
    good.learn(log, 200)
    whole = json.loads((good.folder / "model.json").read_text())
    damaged = [whole | {"signature": []}, whole | {"config": {"hidden": "x"}}, whole | {"seen": -1}, {"format": "x"}, []]
    for text, told in (("{", "m000/model.json"), *((json.dumps(x), "model.json") for x in damaged)):
        (store / "m000" / "model.json").write_text(text)
        assert run(["mars", "models", str(store)]) == 2
        error = capsys.readouterr().err
        assert told in error and "Traceback" not in error and error.count("\n") == 1
    for name in (f"{tmp_path}/evil.py:order", "../other/g1.safetensors", "zoo:sdsc-sp2", 5):
        (good.folder / "model.json").write_text(json.dumps(whole | {"schedules": name}))
        with pytest.raises(InputError, match=r"model\.json"):
            load(good.folder)
    (good.folder / "model.json").write_text(json.dumps(whole | {"schedules": "g77.safetensors"}))
    with pytest.raises(InputError, match="g77"):
        load(good.folder)
    shutil.rmtree(store)
    assert run(["mars", "models", str(tmp_path)]) == 2


def test_learn_and_models_on_the_command_line(log, tmp_path, capsys):
    file = tmp_path / "log.swf"
    jw.write_swf(log, file)
    store = ["--models", str(tmp_path / "s"), "--window", "150", "--preset", "smoke", "--choices", "200"]
    assert run(["mars", "learn", str(file), *store]) == 0
    out = capsys.readouterr().out
    assert "2 windows of 150 jobs" in out and "schedules now" in out and "geometric means" in out
    assert run(["mars", "models", str(tmp_path / "s"), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["windows"], told["jobs"], told["cores"]) == (2, 300, 32)
    assert run(["simulate", str(file), "-p", str(tmp_path / "s" / "m000")]) == 0


def flow_of(count, cores=1, name="f"):
    tasks = np.zeros(count, task_dtype)
    tasks["runtime"] = tasks["estimate"] = 5 + np.arange(count) % 7
    tasks["cores"] = cores
    edges = np.array([(i // 3, i) for i in range(1, count)])
    return Workflow(name, tasks, edges.reshape(-1, 2), tuple(f"t{i}" for i in range(count)), ("p",))


def test_algorithm_3_schedules_each_workflow_by_its_own():
    flows = [flow_of(600, name="large"), flow_of(20, name="small"), flow_of(30, cores=15, name="wide"), flow_of(150)]
    w = stream(flows, [0, 1, 2, 3], 16)
    mars = layer(w, flows)
    r = jw.simulate(w, mars)
    assert sorted(p.name for p in mars.deciders) == sorted([resolve(GENERAL).name, "sjf+easy", "fcfs+easy", "unicef+easy"])
    begin, end = r.jobs["start"], r.jobs["end"]
    assert not np.isnan(end).any() and all(begin[b] >= end[a] for a, b in w.edges)
    one = stream(flows[1:2], cluster=16)
    assert np.array_equal(jw.simulate(one, layer(one, flows[1:2])).jobs["start"], jw.simulate(one, "sjf+easy").jobs["start"])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_layers_keep_edges_and_the_machine(seed):
    rng = np.random.default_rng(seed)
    flows = [random_flow(rng, int(rng.integers(1, 20))) for _ in range(int(rng.integers(1, 5)))]
    cores = max(max(int(f.tasks["cores"].max()) for f in flows), 4)
    w = stream(flows, np.sort(rng.uniform(0, 30, len(flows))), cores)
    r = jw.simulate(w, layer(w, flows))
    begin, end = r.jobs["start"], r.jobs["end"]
    assert not np.isnan(end).any() and all(begin[b] >= end[a] - 1e-9 for a, b in w.edges)
    for t in begin:
        assert w.jobs["request"][(begin <= t) & (end > t), 0].sum() <= cores


def test_large_workflows_are_done_part_by_part():
    w = stream([flow_of(600)], cluster=8)
    mars = layer(w, most=300)
    r = jw.simulate(w, mars)
    assert mars.plans[0].parts == (300, 300)
    count = int(mars.part.max()) + 1
    assert count >= 2 and np.bincount(mars.part).max() <= 300
    for k in range(1, count):
        assert r.jobs["start"][mars.part == k].min() >= r.jobs["end"][mars.part < k].max()


def test_plans_know_nothing_of_workflows_to_come():
    """Same first workflows, other later ones: not one start before these come may move, nor a plan."""
    flows = [flow_of(n) for n in (200, 300, 300, 90, 200, 30)]
    begins, later = [0, 40, 41, 42, 400, 401], [0, 40, 41, 42, 400]
    a, b = stream(flows, begins, 8), stream([*flows[:4], flow_of(600)], later, 8)
    mars, other = layer(a), layer(b)
    one, two = jw.simulate(a, mars).jobs["start"], jw.simulate(b, other).jobs["start"]
    first = a.jobs["flow"] < 4
    before = first & (one < 400)
    assert before.sum() > 300 and np.array_equal(
        one[: first.sum()][before[: first.sum()]], two[: first.sum()][before[: first.sum()]]
    )
    assert any(len(p.flows) > 1 for p in mars.plans)  # what came while the machine was full is merged
    assert [p.flows for p in mars.plans if max(p.flows) < 4] == [p.flows for p in other.plans if max(p.flows) < 4]


def test_mars_run_takes_plans_and_models(tmp_path, capsys):
    file = tmp_path / "log.swf"
    jw.write_swf(random_workload(np.random.default_rng(4), jobs=30, procs=8), file)
    state = ["--state", str(tmp_path / "run"), "--json", "--scale", "0.01", "--procs", "32"]
    assert run(["mars", "run", str(file), *state, "-p", "mars"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["policy"] == "mars: sjf+easy" and told["done"] == 30
    assert run(["mars", "run", str(file), *state, "-p", "sjf", "--models", "x"]) == 2
    assert "-p mars" in capsys.readouterr().err


def test_plans_take_the_model_of_similar_work(log, tmp_path):
    """A store's model whose signature is the workflow's schedules it; others leave it to the general one."""
    f = flow_of(600, name="large")
    w = stream([f], cluster=32)
    model = Store(tmp_path / "s").for_log(log, small(log), 200)
    model.learn(log, 200)
    mars = layer(w, [f], Store(tmp_path / "s"))
    jw.simulate(w, mars)
    assert [resolve(GENERAL).name] == [p.name for p in mars.deciders]
    about = json.loads((model.folder / "model.json").read_text())
    about |= {"signature": signature(f, 32).tolist(), "schedules": f"g{model.about.kept[-1]}.safetensors"}
    (model.folder / "model.json").write_text(json.dumps(about))
    mars = layer(w, [f], Store(tmp_path / "s"))
    r = jw.simulate(w, mars)
    assert isinstance(mars.deciders[0], WindowPolicy)
    assert not np.isnan(r.jobs["end"]).any()


def test_training_goes_on_after_a_kill(log, tmp_path):
    """Cold start, workers, generations: a run that goes on from its checkpoint ends in the same bytes."""
    from jobwise.learn.run import TrainingRun

    config = small(log).changed(choices=1500, validations=6)
    (whole,) = config.train(log, tmp_path / "whole")
    run = TrainingRun(config, log, tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        run.run(lambda line: (_ for _ in ()).throw(KeyboardInterrupt) if line["part"] > 0.5 else None)
    (again,) = config.train(log, tmp_path / "cut", resume=True)
    assert again.about == whole.about
    assert (tmp_path / "cut" / "policy.safetensors").read_bytes() == (tmp_path / "whole" / "policy.safetensors").read_bytes()


def test_heuristics_are_the_papers():
    assert {n.split("+")[0] for n in HEURISTICS} == {"fcfs", "sjf", "wfp3", "unicef", "f1", "f2", "f3", "f4"}


def test_what_is_saved_is_what_was_judged(log, tmp_path):
    """A net that is the best so far is kept as it was judged, also where the trainer goes back to an earlier one at once."""
    from jobwise.learn.generations import ahead
    from jobwise.learn.run_folder import score
    from jobwise.learn.window import WindowTrainer

    for seed in range(2):
        config = small(log).changed(seed=seed, choices=1500, validations=6)
        (policy,) = config.train(log, tmp_path / f"{seed}")
        trainer = WindowTrainer(config, log, "cpu", policy)
        slow = trainer.measured(policy.forward.weights)
        lines = [json.loads(x) for x in (tmp_path / f"{seed}" / "metrics.jsonl").read_text().splitlines()]
        best = min(x["validation"] for x in lines if "validation" in x)
        assert score(slow) == pytest.approx(policy.about["validation"]) and policy.about["validation"] <= best
        rule, value = policy.about["best_rule"]
        by_rule = trainer.slowdowns_of(rule)
        assert score(by_rule) == pytest.approx(value)
        assert policy.about["serves"] == ("model" if ahead(slow, by_rule) else rule)


def test_a_run_of_a_workflow_teaches_the_store(tmp_path, capsys):
    """The first run has no model; the second takes the one that the first has taught; another workflow does not."""
    file, other = tmp_path / "fork.json", tmp_path / "chain.json"
    rows = [{"name": "a", "runtime": 2.0}, *({"name": f"b{k}", "program": "b", "runtime": 3.0 + k} for k in range(12))]
    rows.append({"name": "c", "runtime": 1.0})
    flow = workflow("fork", rows, [[], *[["a"]] * 12, [f"b{k}" for k in range(12)]])
    file.write_text(wfformat.to_text(flow))
    chain = [{"name": f"t{k}", "runtime": 500.0, "cores": 3, "memory": 9e5} for k in range(4)]
    other.write_text(wfformat.to_text(workflow("chain", chain, [[], ["t0"], ["t1"], ["t2"]])))
    store = ["-p", "mars", "--models", str(tmp_path / "store"), "--procs", "4", "--learn", "300", "--json"]

    def ran(which, k):
        assert run(["mars", "run", str(which), "--state", str(tmp_path / f"s{k}"), *store]) == 0
        return json.loads(capsys.readouterr().out)

    first, second, third = ran(file, 1), ran(file, 2), ran(other, 3)
    assert first["model"] == "none" and first["learnt"].startswith("m000 (run 1;") and first["policy"] == "mars: sjf+easy"
    assert second["model"].startswith("m000 (") and second["learnt"].startswith("m000 (run 2;")
    assert second["policy"] != "mars: sjf+easy" and third["model"] == "none" and third["learnt"].startswith("m001")
    model = Store(tmp_path / "store").models()[0]
    assert model.about.kind == "flows" and len(model.about.windows) == 2 and model.about.windows[1].gain is not None
    assert (model.folder / "run.1.json").exists() and (model.folder / "present.2.safetensors").exists()
    assert run(["mars", "models", str(tmp_path / "store")]) == 0 and "fork" in capsys.readouterr().out
    assert run(["mars", "run", str(file), "--state", str(tmp_path / "s4"), *store[:-2], "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["learnt"] == "" and len(Store(tmp_path / "store").models()[0].about.windows) == 2


def test_weights_say_what_is_alike(tmp_path, capsys):
    flow = workflow(
        "w", [{"name": f"t{k}", "runtime": 1.0, "cores": 2, "memory": 50.0 + k, "io": 1.0} for k in range(9)], [[]] * 9
    )
    plain, heavy = signature(flow, 8), signature(flow, 8, (1.0, 0.0, 0.0))
    same = pytest.approx(1.0)
    assert (
        similarity(plain, heavy) < similarity(plain, plain) and similarity(plain, signature(flow, 8, (5.0, 5.0, 5.0))) == same
    )
    file = tmp_path / "w.json"
    file.write_text(wfformat.to_text(flow))
    words = [
        "mars",
        "run",
        str(file),
        "--procs",
        "8",
        "--json",
        "--models",
        str(tmp_path / "store"),
        "--learn",
        "100",
        "-p",
        "mars",
    ]
    for k, weights in enumerate(("", "cpu=1,memory=1", "memory=0,io=0")):
        assert run([*words, "--state", str(tmp_path / f"s{k}"), "--weights", weights]) == 0
        assert (json.loads(capsys.readouterr().out)["model"] == "none") == (k != 1)
    for wrong in ("cpu", "cpu=-1", "gpu=1", "cpu=nan"):
        assert run([*words, "--state", str(tmp_path / "x"), "--weights", wrong]) == 2
        assert "--weights" in capsys.readouterr().err
    assert run(["mars", "run", str(file), "--state", str(tmp_path / "y"), "-p", "sjf", "--weights", "cpu=2"]) == 2


def test_the_network_sees_where_a_task_stands_in_its_workflow():
    rows = [{"name": "a", "runtime": 10}, {"name": "b", "runtime": 20}, {"name": "c", "runtime": 30}]
    w = jw.stream([workflow("w", rows, [[], [], ["a"]]), workflow("v", rows[:1], [[]])], cluster=1)
    envs = WindowVectorEnv(1, [w], jobs=None, encoder=encoders.make("mars", w.cluster, w.jobs, 8, flows=True))
    envs.reset(seed=0)
    x = envs.show()[0, :3, 18:]
    assert np.allclose(np.exp(x[:, 0] * 15) - 1, [40, 20, 10], rtol=1e-4)  # ways: a then c, b, and the other workflow's a
    assert np.allclose(np.exp(x[:, 1] * 15) - 1, [40, 40, 10], rtol=1e-4)
    assert np.allclose(np.exp(x[:, 2] * 25) - 1, [30, 30, 10], rtol=1e-3) and np.allclose(x[:, 3], [2 / 3, 2 / 3, 1 / 3])
    assert encoders.make("mars", w.cluster, w.jobs, 8).shape[1] == 18
    envs.close()


def test_mars_learns_on_streams(tmp_path):
    rows = [{"name": f"t{k}", "runtime": 5.0 + k} for k in range(6)]
    w = jw.stream([workflow("w", rows, [[], ["t0"], ["t0"], ["t1"], ["t2"], ["t3", "t4"]])], cluster=4)
    c = configure("mars+", w, "smoke").changed(choices=400, warm=4)
    assert c.encoding == {"flows": True}
    policy = c.train(w, tmp_path / "run")[0]
    assert policy.about["best_rule"][0] in OF_FLOWS
    again = c.train(w, tmp_path / "again")[0]
    assert all(np.array_equal(policy.forward.weights[k], v) for k, v in again.forward.weights.items())
    r = jw.simulate(jw.stream([workflow("w", rows, [[]] * 6)] * 3, submit=[0, 1, 2], cluster=4), policy)
    assert (r.jobs["status"] == 5).all()


def test_a_generation_is_not_ahead_by_few_pieces_that_it_does_badly():
    """A hundred pieces in half of the slowdown, and one in which it is ten thousand times as long: the mean log ratio is below 0
    by more than two standard errors (-0.60, 0.10), the score, in which the mean has its part, is not."""
    from jobwise.learn.generations import ahead

    rule, ours = np.ones(101), np.append(np.full(100, 0.5), 1e4)
    assert np.log(ours).mean() + 2 * np.log(ours).std(ddof=1) / np.sqrt(101) < 0 and not ahead(ours, rule)
    assert ahead(ours[:100] + np.arange(100) * 1e-6, rule[:100]) and not ahead(ours[:1], rule[:1])
