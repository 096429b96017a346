"""RL-TAPS as a system: its image and network, its learning, ours, and all of it through the commands.

Modules: learn/gpus.py, learn/gpus_config.py, learn/knapsack.py, policies/pairs.py, policies/tables.py,
worlds/encoder.py, worlds/gpus/encoder.py, worlds/gpus/encoders.py, worlds/gpus/episodes.py, worlds/gpus/links.py,
worlds/gpus/spec.py.
"""

import copy
import functools
import json
import operator
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

import jobwise as jw
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.learn.agent import Agent
from jobwise.learn.env import GpusVectorEnv
from jobwise.learn.imitation import imitate_jobsets
from jobwise.learn.jobsets import Dice, play
from jobwise.learn.losses import chosen, entropy
from jobwise.learn.reinforce import epoch
from jobwise.learn.settings import Settings
from jobwise.policies import files
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.policies.played import played
from jobwise.systems import PRESETS, configure
from jobwise.systems.rltaps import pairs, per_job, published
from jobwise.testing import check_world
from jobwise.workloads.dnn import ROW_S
from jobwise.workloads.jobsets import TEST, TRAIN
from jobwise.workloads.transform import load
from jobwise.worlds.encoder import make_table
from jobwise.worlds.gpus.encoders import MAKERS
from jobwise.worlds.gpus.episodes import GpusEpisodes
from jobwise.worlds.gpus.knapsack import THETA
from jobwise.worlds.gpus.policy import NO_THETA, GpusRule, named
from jobwise.worlds.gpus.world import COUNTS, GpusSettings

pytestmark = pytest.mark.xdist_group("gpus")
TWO = [1, 1]  # racks of a machine: 8 GPUs
SMALL = {"racks": TWO, "steps": 12, "limit": 40, "jobsets": 4, "validation_jobsets": 2, "rate": 0.5}


def small(i, work="lab", **more):
    w = jw.rltaps(12, i, machine=jw.gpu_racks(TWO, work=work), rate=0.5, **more)
    w.jobs["request"][:, 0] = np.minimum(w.jobs["request"][:, 0], 8)
    return w


# ------------------------------------------------------------------ on a log


def gpu_log(jobs=60):
    """A job of one to eight GPUs every ten minutes, for half an hour, and one of none: 16 GPUs."""
    rng = np.random.default_rng(3)
    size = rng.integers(1, 9, jobs)
    size[5] = 0
    w = jw.workload(600.0 * np.arange(jobs), np.ones(jobs, int), np.full(jobs, 1800.0), cluster=jw.pool(64), name="ours")
    return replace(w, columns={"gpus": size})


def test_windows_of_a_log_at_its_own_load():
    """Rows in time, on the racks of the preset; a job without GPUs is left out, and gaps grow so that the load is the log's."""
    w = gpu_log()
    c = configure("rl-taps", w, "smoke")
    assert (c.generator, c.work, c.row_s, c.jobs) == ("log", "lab", 600.0, c.steps)
    there = c.on_racks(w)
    assert len(there) == 59 and load(there) == pytest.approx(load(w)) and c.on_racks(there) is there
    train, test = c.sets(TRAIN, 3, w), c.sets(TEST, 2, w)
    assert all(x.cluster.topology is not None and x.jobs["submit"][0] == 0 for x in (*train, *test))
    sizes = there.jobs["request"][:, 0]
    assert train[0].jobs["request"][:, 0].tolist() == sizes[: len(train[0])].tolist()
    assert max(len(x) for x in train) <= c.jobs and len(test) <= 2
    with pytest.raises(InputError, match="windows of a log take a log"):
        c.sets(TRAIN, 3)
    for system in ("rl-taps+", "rl-taps-pairs"):
        assert configure(system, w, "smoke").logged and not configure(system, None, "smoke").logged
    with pytest.raises(InputError, match="windows of a log are not"):
        c.changed(fresh=2).trainer(w, "cpu")


@pytest.mark.parametrize("system", ["rl-taps", "rl-taps+"])
def test_learning_from_a_log(tmp_path, system):
    w = gpu_log()
    c = configure(system, w, "smoke").changed(**{k: v for k, v in SMALL.items() if k not in ("steps", "rate")}, jobs=10)
    (policy,) = c.train(w, tmp_path / "run")
    got = c.judged(c.sets(TEST, 2, w), policy, 0, c.row_s)
    assert np.isfinite(got["slowdown"]).all() and min(got["slowdown"]) > 0.0  # on more GPUs than a job asks for it is below 1


# ------------------------------------------------------------------ as published


def test_sizes_are_those_of_the_paper():
    c = published("paper")
    assert (c.jobsets, c.runs, c.drawn, c.limit, c.steps, c.learner["actor_lr"]) == (200, 20, 10, 1000, 400, 1e-3)
    env = GpusVectorEnv(1, jw.rltaps(), masked=False)
    assert env.encoder.shape == (10, 158) and np.prod(env.encoder.shape) == 1580
    assert env.single_action_space.nvec.tolist() == [11] * 32
    agent = Agent(
        {"kind": "mlp", "sizes": [1580, 528, 352], "classes": 11, "init": 0.01}, env.encoder, Settings(learner="reinforce")
    )
    assert agent.parameters == 1_020_976
    for preset in PRESETS:
        assert published(preset).network == "mlp" and configure("rl-taps+", None, preset).network == "knapsack"
    assert published("paper", streaming=True).fresh == 60 and published("paper", streaming=True).jobsets == 60


def test_the_image_by_hand():
    w = jw.rltaps(5, 3, machine=jw.gpu_racks(TWO))
    w.jobs["submit"][:] = 0.0
    w.jobs["request"][:, 0], w.jobs["walltime"], w.truth["runtime"] = [3, 1, 2, 8, 8], ROW_S * 3, ROW_S * 3
    env = GpusVectorEnv(1, w, slots=3, encoder=make_table(MAKERS, "rl-taps", w.cluster, 3, rows=10), copy=False)
    env.reset(seed=0)
    seen = env.show()[0]
    assert seen.shape == (10, 8 + 36 + 6) and (seen[:, :8] == 0).all()
    for p, wide in enumerate((3, 1, 2)):
        block = seen[:, 8 + 12 * p : 20 + 12 * p]
        assert (block[:3, :wide] == 1).all() and block.sum() == 3 * wide
    assert seen[:, 44:].sum() == 2 and (seen[0, 44:46] == 1).all()  # two wait behind
    env.step(np.array([[1, 3, 3, 3, 0, 0, 3, 3]]))
    seen, place = env.show()[0], env.world.gpus.place[0]
    assert (seen[0, [0, 4, 5]] == np.float32([2 / 3, 1 / 3, 1 / 3])).all() and seen[:, [1, 2, 3, 6, 7]].sum() == 0
    assert (seen[:, 4] > 0).sum() == min(np.ceil(place["left"][0] / place["rate"][0] - 1e-6), 10)


def test_one_joint_action_is_the_product_of_its_parts():
    every = torch.log_softmax(torch.randn(5, 4, 3), dim=-1)
    done = torch.randint(0, 3, (5, 4))
    by_hand = torch.stack([sum(every[b, m, done[b, m]] for m in range(4)) for b in range(5)])
    assert torch.allclose(chosen(every, done), by_hand) and chosen(every, done, parts=True).shape == (5, 4)
    assert entropy(every).item() == pytest.approx(-(every.exp() * every).sum(dim=(1, 2)).mean().item() / 4, rel=1e-5)


def test_algorithm_1_by_hand():
    """The gradient is that of -mean over all choices of (G - b) log pi, b the mean of a sequence's runs at that row."""
    env = GpusVectorEnv(6, [small(i) for i in range(2)], slots=3, copy=False, masked=False, limit=20)
    network = {"kind": "mlp", "sizes": [int(np.prod(env.encoder.shape)), 5, 32], "classes": 4}
    sgd = Settings(learner="reinforce", optimiser="sgd", actor_lr=0.05, max_norm=1e9)
    one, two = Agent(network, env.encoder, sgd, 0), Agent(network, env.encoder, sgd, 0)
    before = {k: v.clone() for k, v in one.actor.state_dict().items()}
    epoch(env, one, None, [np.arange(2)], runs=3, seed=(0, 0))
    first, _, _ = play(env, two, None, np.arange(2), Dice([(0, 0, 0), (0, 0, 1)], 3))
    g = np.cumsum(first.rewards[::-1], axis=0)[::-1]
    b = np.concatenate([np.repeat(g[:, :3].mean(1), 3).reshape(-1, 3), np.repeat(g[:, 3:].mean(1), 3).reshape(-1, 3)], axis=1)
    logits = two.actor.net(first.x.flatten(1)).unflatten(1, (8, 4))
    logp = torch.log_softmax(logits, -1).gather(-1, torch.from_numpy(first.actions)[..., None])[..., 0].sum(1)
    (-(torch.from_numpy((g - b).reshape(-1)[first.at]).float() * logp).mean()).backward()
    for (name, p), q in zip(two.actor.named_parameters(), one.actor.parameters(), strict=True):
        assert torch.allclose(before[name] - 0.05 * p.grad, q, atol=1e-6)


def test_rewards_and_the_three_series():
    env = GpusVectorEnv(1, small(0, "seed"), reward="rl-taps", limit=15)
    env.reset(seed=0)
    total = np.zeros(3)
    for _ in range(15):
        _, reward, over, _, info = env.step(np.array([[0, 0, 1, 8, 8, 8, 8, 8]]))
        z = env.intervals[0]
        assert reward[0] == pytest.approx((z["speed"] - z["idle"] - z["short"]) / (8 * 10.6))
        total += z["speed"], z["idle"], z["short"]
        if over[0]:
            break
    final = info["final_info"]
    assert [final[k][0] for k in ("throughput", "idle", "short")] == pytest.approx(total.tolist())


# ------------------------------------------------------------------ environments


@pytest.mark.parametrize("kind", ["rl-taps", "gpu-jobs", "gpu-links"])
def test_environments_keep_gymnasiums_and_our_rules(kind):
    settings = {"slots": 4, "encoder": kind, "counts": kind == "gpu-jobs", "reward": "slowdown"}
    sets = [small(i) for i in range(3)]
    env = gymnasium.make("jobwise/Gpus-v0", workload=sets, render_mode="rgb_array", **settings)
    check_env(env.unwrapped)
    env.reset()
    assert env.render().ndim == 3
    many = gymnasium.make_vec("jobwise/Gpus-v0", num_envs=3, workload=sets, **settings)
    one = gymnasium.make("jobwise/Gpus-v0", workload=sets, **settings).unwrapped
    obs, _ = many.reset(seed=5)
    single, _ = one.reset(seed=7)
    for _ in range(30):
        assert (obs[2] == single).all()
        actions = many.action_space.sample()
        obs, reward, over, _, _ = many.step(actions)
        single, r, done, _, _ = one.step(actions[2])
        assert (r, done) == (reward[2], over[2])
        if done:
            single, _ = one.reset()
    with pytest.raises(InputError, match="whole numbers"):
        many.step(np.zeros(3, int))
    for counts in (False, True):
        if counts and kind == "gpu-links":
            continue
        world = GpusEpisodes(3, sets, GpusSettings(slots=4, counts=counts, mode="partial"), ROW_S, 10.0, 60, False)
        check_world(world, make_table(MAKERS, kind, world.cluster, 4))


def test_gpus_show_the_bandwidths_that_they_have():
    """By hand: two racks of one machine of four GPUs on two sockets; a job holds GPUs 0 and 4, and so every link between."""
    world = GpusEpisodes(1, [small(0)], GpusSettings(slots=4, mode="full"), ROW_S, 0.0, 60, True)
    world.begin_with(np.zeros(1, int))
    encoder = make_table(MAKERS, "gpu-links", world.cluster, 4)
    out = np.zeros((1, *encoder.shape), np.float32)
    world.encode(encoder, out, 0, 1)
    wide = np.log2(1 + np.array([40.0, 38.5, 6.25])) / 6  # GB/s of GPU - CPU, CPU - CPU, rack - director
    assert out.shape == (1, 12, 16) and np.allclose(out[0, 4:, :8], [0, wide[0], wide[1], 0, wide[2], 1, 1, 1])
    world.state.links["jobs"][:] = 1  # one job on each of them: another one would have half
    world.gpus.has[0, [0, 4]] = 0
    world.encode(encoder, out, 0, 1)
    half = np.log2(1 + np.array([40.0, 38.5, 6.25]) / 2) / 6
    assert np.allclose(out[0, 4, :8], [1, half[0], half[1], 0, half[2], 0.5, 0.75, 0.75])
    assert np.allclose(out[0, 7, :8], [0, half[0], half[1], 0, half[2], 1, 0.75, 0.75])
    assert out[0, 4, 8] == out[0, 8, 8] == 1 and out[0, 4:, 8:].sum() == 2


def test_a_network_of_pairs_takes_clusters_of_any_size_and_any_order():
    """Weights trained on eight GPUs score sixteen; jobs in other places, the same scores there; with torch as without."""
    from jobwise.learn.networks import Seen, actor, weights
    from jobwise.policies.networks import Forward

    spec, rng = {"kind": "pairs", "sizes": [4, 16, 8, 12]}, np.random.default_rng(0)
    torch.manual_seed(0)
    net = actor(spec)
    forward = Forward(spec, weights(net))
    for M in (8, 16):
        x = rng.normal(size=(3, 4 + M, 16)).astype(np.float32)
        x[:, 2, 0] = -1.0  # nobody is there
        x[:, 4:, 8:] = 0.0
        x[:, 4, 8] = x[:, 5, 9] = 1.0
        seen = Seen(torch.from_numpy(x), torch.zeros(3), torch.ones(3, M, 5, dtype=torch.bool))
        scores = forward(x)
        assert scores.shape == (3, M, 5) and np.allclose(scores, net(seen).detach().numpy(), atol=1e-5)
        other = x.copy()
        other[:, [0, 1]], other[:, 4:, [8, 9]] = x[:, [1, 0]], x[:, 4:, [9, 8]]
        assert np.allclose(forward(other)[:, :, [1, 0, 2, 3, 4]], scores, atol=1e-5)
        assert np.allclose(forward(np.concatenate([x[:, :4], x[:, :3:-1]], axis=1)), scores[:, ::-1], atol=1e-5)
    with pytest.raises(InputError, match=r"held\.weight"):
        Forward(spec, {k: v for k, v in weights(net).items() if k != "held.weight"})


def test_counts_never_take_more_gpus_than_there_are():
    rng = np.random.default_rng(0)
    for mode in ("none", "partial", "full"):
        world = GpusEpisodes(
            4, [small(i) for i in range(4)], GpusSettings(slots=5, counts=True, mode=mode), ROW_S, 0.0, 60, True
        )
        world.begin_with(np.arange(4))
        out = np.zeros((4, 6, 22), np.float32)
        for _ in range(40):
            world.encode(make_table(MAKERS, "gpu-jobs", world.cluster, 5), out, 0, 4)
            mask, before = world.mask.astype(bool), world.mask.astype(bool)
            actions = world.narrow(rng.normal(size=mask.shape), mask)
            assert (COUNTS[actions].sum(axis=1) <= 8).all() and (mask <= before).all()
            assert np.take_along_axis(mask, actions[..., None], 2).all()
            world.step(actions, False, 0, 4)
            there = world.done == 0
            held = world.gpus.place["held"].sum(axis=1)
            assert mode != "full" or (held <= COUNTS[actions].sum(axis=1))[there].all()  # less where a job has just ended


# ------------------------------------------------------------------ learning


def test_a_network_learns_to_do_what_a_rule_does():
    env = GpusVectorEnv(4, [small(i) for i in range(4)], slots=4, encoder="gpu-jobs", counts=True, copy=False, limit=60)
    agent = Agent(
        {"kind": "slots", "sizes": [22, 32, 32, len(COUNTS)], "classes": len(COUNTS)}, env.encoder, Settings(actor_lr=1e-2)
    )
    assert imitate_jobsets(env, agent, None, "slot", 60, l2=0.0)[0] > 0.8


@pytest.mark.parametrize("how", ["published", "streaming", "pairs", "knapsack", "network"])
def test_a_run_goes_on_to_the_same_policy_and_its_file_decides_the_same(tmp_path, how):
    if how in ("published", "streaming", "pairs"):
        c = pairs(None, "smoke") if how == "pairs" else published("smoke", streaming=how == "streaming")
        c = c.changed(**SMALL, runs=2, group=2, drawn=2, iterations=4, validations=4)
        c = c.changed(fresh=2) if how == "streaming" else c
    elif how == "knapsack":
        c = configure("rl-taps+", None, "smoke").changed(**SMALL, iterations=3, validations=3, costs=[0, 30])
    else:
        c = per_job("smoke").changed(**SMALL, simulations=4, choices=600, validations=3)
    whole = c.train(None, tmp_path / "whole")[0]
    half = {"choices": 300} if how == "network" else {"iterations": 2}
    if how != "knapsack":  # sigma and rate of an evolution depend on how long it is to be
        c.changed(**half).train(None, tmp_path / "half")
    sets = [small(i) for i in (10, 11, 12)]
    loaded = jw.resolve(str(tmp_path / "whole"))
    a, b = (played(sets, p, 30.0, 60) for p in (whole, loaded))
    assert a.tobytes() == b.tobytes()
    if how in ("published", "streaming"):
        assert isinstance(loaded, NeuralPolicy) and loaded.forward.parameters > 0
        with pytest.raises(InputError, match="numbers"):  # made for another cluster
            jw.simulate(jw.rltaps(10), loaded)
    if how in ("knapsack", "network", "pairs"):  # one policy, clusters of other sizes
        assert np.isfinite(jw.simulate(jw.rltaps(20, 1, work="lab"), loaded).jobs["end"]).all()


def places(told, at=()):
    """Where there is something in nested tables and lists."""
    for key in told if isinstance(told, dict) else range(len(told)) if isinstance(told, list) else ():
        yield (*at, key)
        yield from places(told[key], (*at, key))


@pytest.mark.parametrize(
    "how", [published, functools.partial(pairs, None), per_job, lambda preset: configure("rl-taps+", None, preset)]
)
def test_a_policy_file_that_is_damaged_anywhere_is_one_line_or_plays(tmp_path, how):
    c = how("smoke").changed(**SMALL, drawn=2)
    c = c.changed(choices=300, simulations=4) if c.network == "slots" else c.changed(iterations=2)
    c.train(None, tmp_path / "run")
    meta, weights, *_ = files.read(tmp_path / "run")
    sets, refused = [small(i) for i in (10, 11)], 0
    for at in places({k: v for k, v in meta.items() if k != "about"}):
        for bad in (None, 0, -5, 10**9, 1e999, "x", []):
            damaged = copy.deepcopy(meta)
            table = functools.reduce(operator.getitem, at[:-1], damaged)
            table[at[-1]] = bad
            files.write(tmp_path / "bad.safetensors", damaged, weights)
            try:
                played(sets, jw.resolve(str(tmp_path / "bad.safetensors")), 0.0, 10)
            except InputError as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused > 50
    for name, found in weights.items():
        files.write(tmp_path / "nan.safetensors", meta, weights | {name: np.full_like(found, np.nan)})
        with pytest.raises(InputError, match="NaN|finite"):
            played(sets, jw.resolve(str(tmp_path / "nan.safetensors")), 0.0, 10)


@pytest.mark.parametrize("how", ["knapsack", "network", "streaming"])
def test_an_interrupted_run_goes_on_to_the_same_weights(tmp_path, how):
    if how == "knapsack":
        c = configure("rl-taps+", None, "smoke").changed(**SMALL, iterations=4, validations=4)
    elif how == "network":
        c = per_job("smoke").changed(**SMALL, simulations=4, choices=512, validations=4)
    else:
        c = published("smoke", streaming=True).changed(**SMALL, runs=2, group=2, drawn=2, iterations=4, validations=4, fresh=2)
    whole = c.train(None, tmp_path / "whole")[0]

    def stop(k, line):
        if line["updates"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        c.train(None, tmp_path / "cut", report=stop)
    again = c.train(None, tmp_path / "cut", resume=True)[0]
    if how == "knapsack":
        assert (again.theta == whole.theta).all()
    else:
        assert all((again.forward.weights[k] == w).all() for k, w in whole.forward.weights.items())


def test_theta_of_zero_is_the_rule_it_begins_at():
    sets = [small(i) for i in range(3)]
    zero = GpusRule("learned", theta=np.zeros((1, THETA)))
    assert played(sets, zero, 30.0, 60).tobytes() == played(sets, named("gpus:both"), 30.0, 60).tobytes()
    assert NO_THETA.shape == (1, THETA)


def test_torch_and_numpy_agree_on_choices_in_parts():
    rng = np.random.default_rng(0)
    env = GpusVectorEnv(2, [small(0), small(1)], slots=4)
    for spec in ({"kind": "mlp", "sizes": [12, 7, 15], "classes": 3}, {"kind": "slots", "sizes": [4, 6, 5, 3], "classes": 3}):
        agent = Agent(spec, env.encoder, Settings(learner="reinforce"), 1)
        x = rng.normal(size=(6, 3, 4)).astype(np.float32)
        from jobwise.learn.networks import Seen

        parts = 5 if spec["kind"] == "mlp" else 2
        seen = Seen(torch.from_numpy(x), torch.full((6,), 3), torch.ones((6, parts, 3), dtype=torch.bool))
        ours = Forward(spec, agent.weights())(x)
        assert ours.shape == (6, parts, 3) and np.allclose(agent.actor(seen).detach().numpy(), ours, atol=1e-5)


# ------------------------------------------------------------------ commands


def test_the_commands_know_it(tmp_path, capsys):
    out = tmp_path / "run"
    assert run(["train", "rl-taps+", "--out", str(out), "--preset", "smoke"]) == 0 and (out / "policy.safetensors").exists()
    capsys.readouterr()
    assert run(["evaluate", str(out), "-p", "gpus:one", "-p", "gpus:slot", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best_rule"] == "gpus:slot"
    assert run(["explain", str(out), "rl-taps:1"]) == 0 and "starts now" in capsys.readouterr().out
    assert run(["watch", str(out), "-o", str(tmp_path / "film.gif"), "--rows", "5"]) == 0
    assert run(["watch", "gpus:greedy", "-o", str(tmp_path / "rule.gif"), "--rows", "5"]) == 0
    capsys.readouterr()
    assert run(["simulate", "rl-taps:1", "-p", "gpus:both", "--restart-cost", "30", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["preemptions"] > 0
    for bad in (["-p", "gpus:nothing"], ["-p", "gpus:slot", "--racks", "two"], ["-p", "gpus:slot", "--racks", "0"]):
        assert run(["simulate", "rl-taps:1", *bad]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_gpus_of_slurm_accounting(tmp_path):
    log = tmp_path / "gpus.sacct"
    head = "JobIDRaw|User|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NCPUS|ReqCPUS|AllocTRES"
    rows = [
        f"{i}|u|COMPLETED|2026-01-01T00:0{i}:00|2026-01-01T00:0{i}:00|2026-01-01T00:1{i}:00|2026-01-01T01:1{i}:00|3600|120|8|8|{t}"
        for i, t in enumerate(
            ("cpu=8,gres/gpu=4", "cpu=8,gres/gpu:a100=2", "cpu=8", "cpu=8,gres/gpu=2,gres/gpu:a100=2", "cpu=8,gres/gpu=99")
        )
    ]
    log.write_text("\n".join([head, *rows]))
    w = jw.read_sacct(log)
    assert w.columns["gpus"].tolist() == [4, 2, 0, 2, 99]
    from jobwise.workloads.dnn import with_networks

    gpus = with_networks(w, jw.gpu_racks(TWO, work="lab"))
    assert gpus.jobs["request"][:, 0].tolist() == [4, 2, 2] and gpus.dropped == {"no GPUs": 1, "larger than the machine": 1}
    assert (gpus.jobs["step"] > 0).all() and jw.simulate(gpus, "gpus:both@60s").jobs["end"].max() > 0
