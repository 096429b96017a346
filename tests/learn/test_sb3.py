"""Stable-Baselines3 on the native batch, and agents of others as schedulers.

Modules: learn/sb3.py, worlds/window/policy.py.
"""

import numpy as np
import pytest

import jobwise as jw
from jobwise.errors import InputError
from jobwise.learn.env import WindowVectorEnv
from jobwise.learn.sb3 import StableVecEnv

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def log():
    return jw.lublin(jobs=900, procs=32, load=1.0, seed=2, estimates="users")


@pytest.fixture(scope="module")
def envs(log):
    made = WindowVectorEnv(8, log, encoder="rls", window=16, jobs=40)
    yield made
    made.close()


def test_a_batch_steps_as_the_environment_under_it(log, envs):
    """Rewards, masks and observations are those of the batch; an ended simulation tells its return and its length."""
    other = WindowVectorEnv(8, log, encoder="rls", window=16, jobs=40)
    stable, rng = StableVecEnv(envs), np.random.default_rng(0)
    stable.seed(5)
    obs, (same, _) = stable.reset(), other.reset(seed=5)
    assert (obs == same).all()
    total, ended = np.zeros(8), 0
    for _ in range(120):
        masks = np.stack(stable.env_method("action_masks"))
        actions = (rng.random(masks.shape) * masks).argmax(axis=1)
        obs, reward, over, infos = stable.step(actions)
        same, rewards, terminated, _, _ = other.step(actions)
        assert (obs == same).all() and (over == terminated).all() and np.allclose(reward, rewards)
        total += rewards
        for e in np.flatnonzero(over):
            assert (
                infos[e]["episode"]["r"] == pytest.approx(total[e]) and infos[e]["terminal_observation"].shape == obs[e].shape
            )
            total[e], ended = 0.0, ended + 1
        assert all("episode" not in infos[e] for e in np.flatnonzero(~over))
    assert ended > 0


def test_maskable_ppo_learns_on_it_and_is_a_row_of_compare(log, envs, tmp_path, monkeypatch):
    from sb3_contrib import MaskablePPO

    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path))
    torch.set_num_threads(1)
    model = MaskablePPO(
        "MlpPolicy", StableVecEnv(envs), n_steps=16, batch_size=64, n_epochs=1, seed=0, policy_kwargs={"net_arch": [16]}
    )
    model.learn(256)
    p = jw.as_policy(
        lambda obs, mask: model.predict(obs, action_masks=mask, deterministic=True)[0],
        envs.encoder,
        act=envs.act,
        name="maskable",
    )
    c = jw.compare(log, ["fcfs+easy", p], replicas=2)
    assert "maskable" in str(c) and c.policies[1] == "maskable"
    assert jw.probe(p, log).word in ("uses the state", "hardly", "not at all")


def test_a_function_schedules_as_the_network_that_it_stands_for(log, envs):
    """The first of the mask is first come, first served; the shortest of the window is what a network of one weight does."""
    encoder, walltime = envs.encoder, envs.encoder.features.index("walltime")
    first = jw.as_policy(lambda obs, mask: mask.argmax(axis=1), encoder, backfill="easy")
    shortest = jw.as_policy(lambda obs, mask: np.where(mask, obs[:, :, walltime], 9.0).argmin(axis=1), encoder, backfill="easy")
    starts = {p: jw.simulate(log, p).jobs["start"] for p in ("fcfs+easy", first, shortest)}
    assert (starts[first] == starts["fcfs+easy"]).all() and (starts[shortest] != starts[first]).any()
    sim = jw.Simulation(log, single_events=shortest.single_events)
    while len(sim.view().queue) < 3 or not (ranked := shortest.explain(sim.view())):
        sim.apply(shortest.decide(sim.view()), "shortest") if sim.view().now else None
        sim.advance()
    assert [x["score"] for x in ranked] == [1.0] + [0.0] * (len(ranked) - 1)
    use = jw.probe(shortest, log)
    assert use.exchanged["time"].change == 0.0 and use.twin.startswith(("always slot", "one table"))


@pytest.mark.parametrize(
    "function, said",
    [
        (lambda obs, mask: np.zeros(3, int), "an action for each observation"),
        (lambda obs, mask: np.full(len(obs), 15), "is not valid; the mask allows"),
        (lambda obs, mask: obs["x"], "test_sb3.py:"),
        (lambda obs, mask: np.zeros(len(obs)), "float64"),
    ],
)
def test_a_function_that_fails_is_one_line(log, envs, function, said):
    with pytest.raises(InputError, match=said):
        jw.simulate(log, jw.as_policy(function, envs.encoder))


def test_what_is_no_function_and_what_cannot_be_kept(envs, tmp_path):
    with pytest.raises(InputError, match="takes a function"):
        jw.as_policy("model", envs.encoder)
    with pytest.raises(InputError, match="is a function"):
        jw.as_policy(lambda obs, mask: mask.argmax(axis=1), envs.encoder).save(tmp_path / "p.safetensors")
