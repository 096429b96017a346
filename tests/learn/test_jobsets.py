"""Learning on jobsets: DeepRM's update by hand, two modules, workers, policies without torch, resuming, commands.

Modules: forecast/job_types.py, learn/jobset_config.py, learn/jobset_run.py, learn/judged.py, learn/reinforce.py,
learn/slots.py, learn/slots_config.py, report/jobsets.py, systems/cush.py, systems/deeprm.py, workloads/made.py,
worlds/slots/spec.py.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from conftest import play

import jobwise
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.forecast.job_types import learning_curve, told
from jobwise.learn.agent import Agent, RMSProp
from jobwise.learn.env import SlotsVectorEnv
from jobwise.learn.imitation import imitate_jobsets
from jobwise.learn.jobsets import Dice, average
from jobwise.learn.jobsets import play as play_runs
from jobwise.learn.losses import entropy
from jobwise.learn.networks import Seen, actor
from jobwise.learn.networks import weights as weights_of
from jobwise.learn.reinforce import baseline, epoch
from jobwise.learn.settings import Settings
from jobwise.learn.slots import SlotsTrainer
from jobwise.learn.slots_config import SlotsConfig
from jobwise.metrics import normalised_turnaround
from jobwise.policies.names import load, resolve
from jobwise.policies.networks import Forward
from jobwise.systems import configure
from jobwise.systems import cush as cush_system
from jobwise.systems import deeprm as deeprm_system
from jobwise.workload import workload
from jobwise.workloads.jobsets import TEST, cush, cush_cluster, deeprm

pytestmark = pytest.mark.xdist_group("grid")
CUSH = {"encoder": "cush", "slots": 3, "placements": ("pack", "spread"), "copy": False}
SGD = Settings(learner="reinforce", optimiser="sgd", actor_lr=0.05, max_norm=1e9)


def small(i):
    return cush(8, 0.8, [5, i], machine=cush_cluster(2))


def modules(env, settings, norm="group"):
    rows, units = env.encoder.shape[1:]
    first = {"kind": "image", "sizes": [*env.encoder.shape, 4], "norm": norm}
    second = {"kind": "image", "sizes": [4, rows, units, 2], "norm": norm}
    return Agent(first, env.encoder, settings, 0), Agent(second, env.encoder, settings, 1)


def test_the_baseline_is_the_mean_of_the_runs_of_a_jobset_padded_with_zeros():
    g = np.array([[-6.0, -2.0, -9.0, -1.0], [-3.0, 0.0, -5.0, 0.0]])  # two jobsets, two runs each
    assert baseline(g, 2, 2).tolist() == [[-4, -4, -5, -5], [-1.5, -1.5, -2.5, -2.5]]


def test_rmsprop_has_its_epsilon_below_the_root():
    p = torch.nn.Parameter(torch.tensor([1.0]))
    optimiser = RMSProp([{"params": [p], "lr": 0.1}])
    p.grad = torch.tensor([2.0])
    optimiser.step()
    s = 0.1 * 4.0
    assert p.item() == pytest.approx(1.0 - 0.1 * 2.0 / np.sqrt(s + 1e-9))
    p.grad = torch.tensor([1.0])
    optimiser.step()
    s = 0.9 * s + 0.1
    assert p.item() == pytest.approx(1.0 - 0.2 / np.sqrt(0.4 + 1e-9) - 0.1 / np.sqrt(s + 1e-9))


def test_deeprms_gradient_by_hand():
    """One group: the gradient is that of -mean over all choices of (G - b) log pi, from what was done."""
    env = SlotsVectorEnv(6, [deeprm(6, 0.7, i) for i in range(2)], slots=3, copy=False, masked=False)
    network = {"kind": "mlp", "sizes": [int(np.prod(env.encoder.shape)), 5, 4]}
    one, two = Agent(network, env.encoder, SGD, 0), Agent(network, env.encoder, SGD, 0)
    before = {k: v.clone() for k, v in one.actor.state_dict().items()}
    epoch(env, one, None, [np.arange(2)], runs=3, seed=(0, 0))
    first, _, _ = play_runs(env, two, None, np.arange(2), Dice([(0, 0, 0), (0, 0, 1)], 3))
    g = np.zeros_like(first.rewards)
    for t in reversed(range(len(g))):
        g[t] = first.rewards[t] + (g[t + 1] if t + 1 < len(g) else 0)
    b = np.concatenate([np.repeat(g[:, :3].mean(1), 3).reshape(-1, 3), np.repeat(g[:, 3:].mean(1), 3).reshape(-1, 3)], axis=1)
    logits = two.actor(Seen(first.x, torch.full((len(first.x),), 4)))
    logp = torch.log_softmax(logits, 1)[torch.arange(len(first.actions)), torch.from_numpy(first.actions)]
    advantage = torch.from_numpy((g - b).reshape(-1)[first.at]).float()
    (-(advantage * logp).mean()).backward()
    for (name, p), q in zip(two.actor.named_parameters(), one.actor.parameters(), strict=True):
        assert torch.allclose(before[name] - 0.05 * p.grad, q, atol=1e-6)


def test_the_second_module_is_paid_by_locality_alone():
    env = SlotsVectorEnv(4, [small(i) for i in range(4)], **CUSH)
    select, placer = modules(env, SGD)
    first, second, _ = play_runs(env, select, placer, np.arange(4), Dice([(0, k) for k in range(4)], 1))
    assert (second.rewards <= 0).all() and (second.rewards < 0).any()
    assert second.x.shape[1:] == (2, 20, 12) and len(second.actions) < len(first.actions)
    _, centred, _ = play_runs(env, select, placer, np.arange(4), Dice([(0, k) for k in range(4)], 1), centred=True)
    assert centred.rewards.max() > 0  # the better one of two is better than their mean


def test_both_modules_imitate_a_rule_and_go_on():
    """The warm start of two modules: the second learns the rule's placements; its own rate is for the warm start alone."""
    c = cush_system.published("smoke").changed(**cush_system.WARM).changed(jobsets=6, group=6, runs=2, warm=60, seed=1)
    trainer = SlotsTrainer(c.changed(placer_lr=2e-4), None, "cpu")
    right = imitate_jobsets(trainer.envs, trainer.agent, trainer.placer, "hold+typed", 1)
    trainer.begin()
    line = trainer.update(0)
    again = imitate_jobsets(trainer.envs, trainer.agent, trainer.placer, "hold+typed", 1)
    assert again[0] > right[0] + 0.2 and again[1] > 0.9 and np.isfinite(line["slowdown"])
    rates = [a.optimiser.param_groups[0]["lr"] for a in trainer.agents]
    assert rates == [1e-4, 2e-4]


def test_entropy_of_reinforce_on_jobsets():
    """Its gradient: with a large weight choices become more even."""
    env = SlotsVectorEnv(4, [small(i) for i in range(2)], **CUSH)
    spread = []
    for weight in (0.0, 1.0):
        select, placer = modules(env, Settings(learner="reinforce", optimiser="adam", actor_lr=0.003, max_norm=1e9))
        for e in range(5):
            epoch(env, select, placer, [np.arange(2)], runs=2, seed=(0, e), entropy=weight)
        first, _, _ = play_runs(env, select, placer, np.arange(2), Dice([(9, 0), (9, 1)], 2))
        seen = Seen(first.x, torch.full((len(first.x),), first.masks.shape[1]), torch.from_numpy(first.masks))
        with torch.no_grad():
            spread.append(float(entropy(torch.log_softmax(select.scores(seen), dim=1))))
    assert spread[1] > spread[0]


def test_nobody_waits_for_ever_on_an_empty_machine():
    """Without `stall` the void action is no choice once nothing runs and nothing has come for as many rows as are shown."""
    w = workload(np.array([0.0]), np.array([[1, 1]]), np.array([2.0]), cluster=cush_cluster(2))
    for stall in (True, False):
        env = SlotsVectorEnv(
            1, [w], slots=2, rows=20, placements=["pack"], reserve=False, ask_always=False, stall=stall, copy=False
        )
        env.begin(np.zeros(1, int))
        for _ in range(30):
            if not env.mask[0, -1] or env.choose(np.array([env.void]))[0]:
                break
        assert bool(env.mask[0, -1]) == stall


def _work(rank, count, folder, how):
    torch.set_num_threads(1)
    if count > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet-{how}", rank=rank, world_size=count)
    sets, runs = [small(i) for i in range(4)], 4
    env = SlotsVectorEnv(2 * runs // count, sets, **CUSH)
    settings = SGD if how == "parameters" else Settings(learner="reinforce", optimiser="rmsprop", max_norm=1e9)
    select, placer = modules(env, settings)
    for e in range(2):
        epoch(env, select, placer, [np.array([0, 1]), np.array([2, 3])], runs=runs, seed=(0, e), shared=how == "gradients")
        if how == "parameters":
            average(select)
            average(placer)
    if rank == 0:
        torch.save([select.actor.state_dict(), placer.actor.state_dict()], f"{folder}/{how}-{count}.pt")
    if count > 1:
        torch.distributed.destroy_process_group()


@pytest.mark.parallel
@pytest.mark.parametrize("how", ["gradients", pytest.param("parameters", marks=pytest.mark.slow)])
def test_two_workers_learn_what_one_learns(how, tmp_path):
    """The same total work: shared gradients (RMSProp), or parameters averaged after every epoch (plain steps)."""
    _work(0, 1, str(tmp_path), how)
    mp.spawn(_work, (2, str(tmp_path), how), nprocs=2)
    one, two = (torch.load(tmp_path / f"{how}-{n}.pt", weights_only=True) for n in (1, 2))
    start = modules(SlotsVectorEnv(1, small(0), **CUSH), SGD)
    for a, b, s in zip(one, two, start, strict=True):
        moved = max(float((a[k] - v).abs().max()) for k, v in s.actor.state_dict().items())
        apart = max(float((a[k] - b[k]).abs().max()) for k in a)
        assert moved > 1e-3 and apart < 1e-4 * max(moved, 1e-2) + 2e-6


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "mlp", "sizes": [2 * 3 * 4, 5, 3], "init": 0.5},
        {"kind": "slots", "sizes": [4, 6, 5, 2]},
        {"kind": "image", "sizes": [5, 3, 4, 3]},
        {"kind": "image", "sizes": [5, 3, 4, 3], "norm": "group"},
        {"kind": "image", "sizes": [5, 3, 4, 3], "norm": "none"},
    ],
)
def test_networks_without_torch(spec):
    torch.manual_seed(0)
    net = actor(spec).train()
    shape = {"mlp": (2, 3, 4), "slots": (4, 4), "image": (5, 3, 4)}[spec["kind"]]
    actions = {"mlp": 3, "slots": 7, "image": 3}[spec["kind"]]
    seen = lambda x: Seen(torch.from_numpy(x), torch.full((len(x),), actions))  # noqa: E731
    rng = np.random.default_rng(0)
    net(seen(rng.normal(1, 2, (64, *shape)).astype(np.float32)))  # moves the running means
    net.eval()
    x = rng.normal(0, 1, (7, *shape)).astype(np.float32)
    weights = weights_of(net)
    with torch.no_grad():
        assert Forward(spec, weights)(x) == pytest.approx(net(seen(x)).numpy(), abs=2e-5)
    with pytest.raises(InputError, match="the network needs"):
        Forward(spec, dict(list(weights.items())[1:]))


def test_a_slot_has_the_same_score_wherever_it_stands():
    net = actor({"kind": "slots", "sizes": [4, 8, 8, 2]})
    x = torch.randn(1, 6, 4)
    order = torch.tensor([3, 0, 4, 1, 2, 5])  # the void action stays the last
    a = net(Seen(x, torch.tensor([11])))[0]
    b = net(Seen(x[:, order], torch.tensor([11])))[0]
    assert torch.allclose(a[:-1].view(5, 2)[order[:5]], b[:-1].view(5, 2), atol=1e-6) and torch.allclose(
        a[-1], b[-1], atol=1e-6
    )


def test_warm_start_imitates_a_rule():
    env = SlotsVectorEnv(10, [deeprm(20, 0.5, i) for i in range(10)], slots=5, copy=False)
    sizes = [int(np.prod(env.encoder.shape)), 20, 6]
    agent = Agent({"kind": "mlp", "sizes": sizes}, env.encoder, Settings(learner="reinforce", actor_lr=3e-3), 0)
    assert imitate_jobsets(env, agent, None, "sjf", 1) < imitate_jobsets(env, agent, None, "sjf", 15) > [0.8]


def tiny(system=deeprm_system, **changes):
    return system.published("smoke").changed(jobsets=4, group=2, runs=2, steps=8, validation_jobsets=3, **changes)


@pytest.mark.parametrize(
    "config",
    [
        tiny(),
        tiny(cush_system),
        tiny().changed(**deeprm_system.BEST | {"jobsets": 6}, iterations=2, choices=None, simulations=8),
        tiny(cush_system).changed(**cush_system.JOINT | {"jobsets": 6}, iterations=2, choices=None, simulations=8),
    ],
    ids=["deeprm", "cush", "deeprm-ours", "cush-joint"],
)
def test_training_is_reproducible_and_resumes(config, tmp_path):
    whole = config.train(None, tmp_path / "whole")[0]
    config.changed(iterations=1).train(None, tmp_path / "half")
    half = json.loads((tmp_path / "half" / "run.json").read_text())
    half["config"]["iterations"] = config.iterations  # as if it had been killed after one of two
    (tmp_path / "half" / "run.json").write_text(json.dumps(half))
    (tmp_path / "half" / "policy.safetensors").unlink()
    again = config.train(None, tmp_path / "half", resume=True)[0]
    for a, b in zip(whole.networks, again.networks, strict=True):
        assert all(np.array_equal(a.weights[k], b.weights[k]) for k in a.weights)
    kept = load(tmp_path / "whole")
    sets = config.sets(314159, 3)
    one, two = (play(sets, p, seed=3) for p in (whole, kept))
    assert all(np.array_equal(x.jobs["end"], y.jobs["end"], equal_nan=True) for x, y in zip(one, two, strict=True))


@pytest.mark.slow
def test_our_agent_learns_to_beat_sjf_on_a_small_world(tmp_path):
    """A few seconds of PPO on a small world: as good as SJF on unseen jobsets, from far behind."""
    config = deeprm_system.ours(None, "smoke").changed(
        steps=20, slots=5, choices=120_000, simulations=128, jobsets=200, validations=6, validation_jobsets=64
    )
    policy = config.train(None, tmp_path / "run")[0]
    sets = config.sets(314159, 100)
    ours = np.mean([normalised_turnaround(r).mean() for r in play(sets, policy)])
    world = {k: v for k, v in config.world.items() if k not in ("encoder", "order")}
    rules = {n: np.mean([normalised_turnaround(r).mean() for r in play(sets, n, world)]) for n in ("sjf", "random")}
    assert ours < 0.97 * rules["sjf"] < rules["random"]


def test_wrong_configurations_are_one_line():
    for changes, text in (
        ({"network": "slots"}, "encoder slots"),
        ({"network": "image"}, "encoders cush"),
        ({"second": True}, "second network"),
        ({"settings": {"speed": 3}}, "generator deeprm"),
        ({"learner": {"speed": 3}}, "unknown learner setting"),
        ({"encoder": "eyes"}, "unknown encoder"),
        ({"reward": "money"}, "unknown reward"),
    ):
        with pytest.raises(InputError, match=text):
            tiny(**changes).train(None, "/nowhere/at/all")
    with pytest.raises(InputError, match="known"):
        SlotsConfig().changed(nonsense=1)


def test_a_policy_refuses_another_grid(tmp_path):
    policy = tiny().changed(**deeprm_system.BEST, iterations=1, choices=None, simulations=4).train(None, tmp_path / "run")[0]
    with pytest.raises(InputError, match="units"):
        play([deeprm(8, 0.5, 0, capacity=20)], policy)
    with pytest.raises(InputError, match="units"):
        play([deeprm(8, 0.5, 0, resources=3)], policy)


@pytest.mark.parametrize("system", [deeprm_system, cush_system], ids=["deeprm", "cush"])
def test_simulate_and_compare_agree_with_evaluate(system, tmp_path, capsys):
    """A policy of the world of slots runs wherever others do, and to the last digit the same."""
    small = {"jobsets": 4, "validation_jobsets": 2, "steps": 50, "choices": None, "iterations": 1, "validations": 1, "warm": 0}
    config = system.ours(None, "smoke").changed(**small, simulations=4, threads=1)
    policy = config.train(None, tmp_path / "run")[0]
    assert run(["evaluate", str(tmp_path / "run"), "-p", "sjf", "--json"]) == 0
    mean = json.loads(capsys.readouterr().out)["policies"]["run"]["slowdown"]
    sets, loaded = config.sets(TEST, 100), resolve(str(tmp_path / "run"))
    alone = [jobwise.simulate(w, loaded, seed=k) for k, w in enumerate(sets)]
    assert np.mean([normalised_turnaround(r).mean() for r in alone]) == mean
    name = "deeprm:5" if system is deeprm_system else "cush:5"
    assert run(["simulate", name, "-p", str(tmp_path / "run"), "--seed", "5", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["summary"]
    if system is deeprm_system:  # (CuSH's jobsets have a mix of types of their own)
        assert said["slowdown"] == alone[5].summary()["slowdown"]
    both = ["fcfs+easy", str(tmp_path / "run"), "slots:sjf"]
    assert run(["compare", name, *(x for p in both for x in ("-p", p)), "--replicas", "0", "--seed", "5", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["policies"]
    assert len(whole) == 3 and policy.about["choices"] > 0


def test_no_job_is_rejected_in_a_replay():
    """Where the backlog is full jobs wait behind it, and come in, first come first served."""
    w = workload(np.arange(12.0), np.tile([2, 1], (12, 1)), np.full(12, 3.0), cluster=cush_cluster(1, 2, 1))
    found = play([w], "fcfs", {"slots": 2, "backlog": 3, "reserve": False})[0]
    assert found.jobs["start"].tolist() == [3 * i for i in range(12)]


def test_rows_of_seconds():
    """Decisions fall on rows of 600 s, jobs run their true times; the schedule in rows is that of the same jobs in rows."""
    cluster = cush_cluster(1, 2, 1)
    w = workload([0, 700, 800], [[2, 1]] * 3, [900.0, 100.0, 600.0], [1200.0, 600.0, 600.0], cluster=cluster)
    found = jobwise.simulate(w, "slots:sjf@600s")
    assert found.jobs["start"].tolist() == [0, 1200, 1800] and found.jobs["end"].tolist() == [900, 1300, 2400]


def test_kinds_are_learnt_from_executions():
    curve = learning_curve((1, 3, 20), users=300)
    accuracy = [a for _, a, _ in curve]
    assert accuracy[0] < accuracy[1] < accuracy[2] and accuracy[2] > 0.97
    assert [known for *_, known in curve] == [0, 1, 1]
    sets = [small(i) for i in range(5)]
    assert all((w.jobs["kind"] == -1).all() for w in told(sets, 1))
    right = np.mean(np.concatenate([w.jobs["kind"] == w.truth["kind"] for w in told(sets, 10)]))
    assert right > 0.9


@pytest.mark.cli
def test_commands(tmp_path, capsys):
    out = str(tmp_path / "run")
    toml = tmp_path / "small.toml"
    toml.write_text("steps = 8\njobsets = 6\nsimulations = 8\nvalidation_jobsets = 3\nchoices = 500\nvalidations = 1\n")
    assert run(["train", "deeprm+", "--preset", "smoke", "--config", str(toml), "--out", out]) == 0
    told = capsys.readouterr()
    assert "jobwise evaluate" in told.out and "published" not in told.err
    toml.write_text("steps = 8\njobsets = 4\nruns = 2\nvalidation_jobsets = 3\niterations = 2\nvalidations = 1\n")
    assert run(["train", "deeprm", "--preset", "smoke", "--config", str(toml), "--out", out + "-published"]) == 0
    assert "deeprm is the published agent; ours is deeprm+" in capsys.readouterr().err
    assert load(out + "-published").about["system"] == "deeprm" and load(out).about["system"] == "deeprm+"
    assert run(["evaluate", out, "--json", "-p", "sjf", "-p", "tetris"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["policies"]) == {"sjf", "tetris", "run"} and found["best_rule"] in ("sjf", "tetris")
    assert found["state_use"]["state_use"] in ("uses the state", "hardly", "not at all")
    whole = load(out)
    with pytest.raises(InputError, match="did you mean warm"):
        configure("cush", None, "smoke", "wram")
    with pytest.raises(InputError, match="has no variants"):
        configure("deeprm", None, "smoke", "warm")
    warm = configure("cush", None, "smoke", "warm")
    assert warm.warm == 8 and warm.masked and warm.norm == "group" and warm.system == "cush"
    replace(whole, about={"config": {"steps": -1}}).save(tmp_path / "damaged.safetensors")
    assert run(["evaluate", str(tmp_path / "damaged.safetensors")]) == 2
    assert "steps" in capsys.readouterr().err
    assert run(["explain", out, "deeprm:3", "--choice", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["jobs"]
    assert len(told) > 1 and all(a["score"] >= b["score"] for a, b in zip(told[:-1], told[1:], strict=True))
    gif, log = tmp_path / "film.gif", str(tmp_path / "log.swf")
    jobwise.write_swf(jobwise.lublin(jobs=20, procs=8, seed=0), log)
    assert run(["watch", out, "--out", str(gif), "--rows", "5"]) == 0
    from PIL import Image

    with Image.open(gif) as film:
        assert film.n_frames == 5
    assert run(["watch", "cush:sjf+pack", "--out", str(gif), "--rows", "3", "--force"]) == 0
    for wrong, text in (
        (["train", "sem", "--out", out], "which log"),
        (["evaluate", out, "log.swf"], "name no log"),
        (["evaluate", out, "--whole"], "grid of time"),
        (["train", "deeprm", "--jobs", "9", "--out", out + "2"], "--jobs"),
        (["explain", out, log], "was made for [10, 10] units"),
        (["export-onnx", out, str(tmp_path / "x.onnx")], "grid of time"),
        (["watch", str(tmp_path / "none"), "--out", str(gif), "--force"], "no policy file"),
        (["simulate", log, "-p", out], "was made for [10, 10] units"),
        (["reproduce", "sem", "--out", str(tmp_path / "study")], "--logs"),
    ):
        capsys.readouterr()
        assert run(wrong) == 2
        said = capsys.readouterr().err
        assert text in said and "Traceback" not in said and len(said.strip().splitlines()) == 1


def test_the_backlog_joins_behind_the_convolutions():
    """CuSH's published network: the scalar is the part of the backlog that is full, with torch as without."""
    from jobwise.learn.env import SlotsVectorEnv
    from jobwise.policies.networks import Forward
    from jobwise.worlds.slots.encoder import make_grid

    sets = [cush(30, 2.0, i) for i in range(4)]
    env = SlotsVectorEnv(
        4, sets, encoder="cush-backlog", slots=3, placements=("pack", "spread"), reserve=False, masked=False, copy=False
    )
    env.reset(seed=0)
    for _ in range(60):
        env.step(np.full(4, env.void))
    x = env.show().copy()
    s, g = env.state
    want = g.moment["backlog"] / g.backlog.shape[1]
    assert want.max() > 0.1 and np.allclose(x[:, -1], want[:, None, None])
    plain = make_grid("cush", env.cluster, 3, 60)
    out = np.zeros((4, *plain.shape), np.float32)
    plain.encode(s, g, out)
    assert np.array_equal(out, x[:, :-1]) and x.shape[1] == plain.shape[0] + 1

    spec = {"kind": "image", "sizes": [4, 20, 48, 7], "norm": "group", "side": True}
    torch.manual_seed(0)
    net = actor(spec)
    weights = weights_of(net)
    assert weights["out.weight"].shape == (7, 16 * 19 * 47 + 1)
    seen = Seen(torch.from_numpy(x), torch.full((4,), 7))
    with torch.no_grad():
        one = net(seen).numpy()
    assert np.allclose(one, Forward(spec, weights)(x), atol=1e-4)
    x[:, -1] += 1.0
    with torch.no_grad():
        moved = net(Seen(torch.from_numpy(x), torch.full((4,), 7))).numpy()
    assert np.allclose(moved - one, weights["out.weight"][:, -1], atol=1e-4)


def test_the_published_systems_are_as_published():
    from jobwise.systems import cush as cush_system
    from jobwise.systems import deeprm as deeprm_system

    c = cush_system.published("paper")
    assert (c.encoder, c.average_every, c.second, c.jobsets, c.runs) == ("cush-backlog", 10, True, 100, 20)
    c = deeprm_system.published("paper")
    assert (c.rate, c.compat, c.compat_floor, c.jobsets, c.runs, c.iterations) == (0.3, True, True, 50, 20, 1000)
    ours = deeprm_system.ours(None, "small")
    assert (ours.rate, ours.compat, ours.compat_floor) == (0.7, False, False)
    assert cush_system.ours(None, "small").rate == 0.9


def test_slowdowns_are_rounded_down_as_deeprms_code_has_them():
    from jobwise.metrics import normalised_turnaround

    r = play([deeprm(20, 0.7, 1)], "sjf", {})[0]
    plain, floor = normalised_turnaround(r), normalised_turnaround(r, floor=True)
    assert np.array_equal(floor, np.floor(plain)) and floor.mean() < plain.mean()


def test_settings_that_reinforce_has_no_use_for_are_refused():
    from jobwise.systems import cush as cush_system

    c = cush_system.ours(None, "smoke")
    for key in ("clip", "steps", "lam", "epochs", "baseline"):
        with pytest.raises(InputError, match=f"no use for '{key}'"):
            c.changed(learner=c.learner | {key: 1})


def test_a_comparison_on_jobs_it_was_trained_on_says_so(tmp_path):
    from jobwise.workloads.gpu import on_nodes

    w = on_nodes(jobwise.lublin(jobs=300, procs=16, load=0.9, seed=2, estimates="users"), 4)
    small = {"jobsets": 3, "validation_jobsets": 2, "iterations": 1, "choices": None, "validations": 1, "warm": 0, "jobs": 20}
    config = cush_system.ours(w, "smoke").changed(**small, drawn=0, runs=2, threads=1, row_s=600.0, encoder="slots")
    policy = config.train(w, tmp_path / "run")[0]
    c = jobwise.compare(w, ["fcfs+easy", policy], replicas=0, window_jobs=40)
    assert any("was trained on" in note for note in c.notes)
    other = on_nodes(jobwise.lublin(jobs=300, procs=16, load=0.9, seed=9, estimates="users"), 4)
    assert not any(
        "trained on" in note for note in jobwise.compare(other, ["fcfs+easy", policy], replicas=0, window_jobs=40).notes
    )


def test_long_jobs_stay_on_the_picture_of_a_pool():
    """A pool keeps no slices; a job longer than the picture holds its units in the last row all the same."""
    w = workload([0, 1], [[3], [1]], [30.0, 2.0], cluster=jobwise.pool(4))
    env = SlotsVectorEnv(1, w, encoder="compact", slots=2, rows=5, backlog=0, reserve=False)
    env.reset(seed=0)
    env.step(np.array([0]))
    for _ in range(6):
        env.step(np.array([env.void]))
        assert env.state[1].free[0, :, 0, 0].max() <= 1 or env.state[0].sims["running"][0] == 0
