"""Environments: Gymnasium's own checks, batches against singles, masks, episodes, other people's learners.

Modules: learn/vector_env.py, registration.py, worlds/render.py, worlds/rewards.py, worlds/window/episodes.py,
worlds/window/spec.py.
"""

import warnings

import gymnasium
import numpy as np
import pytest
from conftest import random_workload
from gymnasium.utils.env_checker import check_env

import jobwise as jw
from jobwise.errors import InputError
from jobwise.learn.env import WindowEnv, WindowVectorEnv
from jobwise.worlds.rewards import REWARDS
from jobwise.worlds.window import encoders

pytestmark = pytest.mark.xdist_group("learning")  # one worker compiles the kernels of choices, not both

KINDS = [
    {},
    {"dict_obs": True, "encoder": "perjob"},
    {"act": "reserve", "encoder": "sem", "reward": "dras"},
    {"act": "reserve", "encoder": "dras", "reward": "datastar"},
    {"act": "commit", "backfill": "greedy", "reward": "bounded_slowdown_end"},
    {"stream": True, "jobs": 20},
    {"jobs": None, "reward": "wait"},
    {"shake_s": 5.0, "loads": (0.8, 1.2), "reward": "bounded_wait", "bound_s": 20.0},
]


@pytest.fixture(scope="module")
def w():
    return random_workload(np.random.default_rng(7), jobs=150)


def settings(kind):
    return {"jobs": 50, "window": 16} | kind


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_gymnasium_has_nothing_to_say(w, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make("jobwise/Window-v0", workload=w, **settings(kind)).unwrapped)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_batch_is_its_singles_to_the_bit(w, kind):
    E = 3
    envs = gymnasium.make_vec("jobwise/Window-v0", num_envs=E, workload=w, **settings(kind))
    singles = [gymnasium.make("jobwise/Window-v0", workload=w, **settings(kind)).unwrapped for _ in range(E)]
    obs, info = envs.reset(seed=5)
    one = [env.reset(seed=5 + e) for e, env in enumerate(singles)]
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(400):
        for e in range(E):
            mine = {k: v[e] for k, v in obs.items()} if isinstance(obs, dict) else {"observation": obs[e]}
            theirs = one[e][0] if isinstance(one[e][0], dict) else {"observation": one[e][0]}
            assert all(np.array_equal(mine[k], theirs[k]) for k in mine)
            assert np.array_equal(info["action_mask"][e], one[e][-1]["action_mask"])
        actions = [int(rng.choice(np.flatnonzero(m))) for m in info["action_mask"]]
        obs, reward, over, cut, info = envs.step(np.array(actions))
        stepped = [env.step(a) for env, a in zip(singles, actions, strict=True)]
        for e in range(E):
            assert (reward[e], over[e], cut[e]) == stepped[e][1:4]
            if over[e] or cut[e]:
                ended += 1
                assert info["final_info"]["bounded_slowdown"][e] == stepped[e][4]["bounded_slowdown"]
                assert info["_final_obs"][e] and info["final_obs"][e] is not None
        one = [singles[e].reset() if over[e] or cut[e] else stepped[e] for e in range(E)]
    assert ended
    envs.close()


def test_threads_change_nothing(w):
    many = [WindowVectorEnv(160, w, threads=t, jobs=30, window=16) for t in (1, 2)]
    rng = np.random.default_rng(1)
    for envs in many:
        envs.reset(seed=0)
    for _ in range(40):
        a = (rng.random(160) * many[0].counts).astype(int)
        x, y = (envs.step(a) for envs in many)
        assert np.array_equal(x[0], y[0]) and np.array_equal(x[1], y[1]) and np.array_equal(x[2], y[2])
    for envs in many:
        envs.close()


def test_masks_come_from_one_source_and_are_never_empty(w):
    envs = WindowVectorEnv(8, w, jobs=40, window=8, dict_obs=True)
    obs, info = envs.reset(seed=0)
    for _ in range(100):
        mask = info["action_mask"]
        assert mask.dtype == np.int8 and mask.any(axis=1).all()
        assert np.array_equal(mask, obs["action_mask"]) and np.array_equal(mask.astype(bool), envs.action_masks())
        assert np.array_equal(mask.sum(axis=1), envs.counts) and np.array_equal(envs.slots >= 0, mask.astype(bool))
        obs, *_, info = envs.step(envs.counts - 1)


def test_rewards_of_an_episode_sum_to_what_they_say(w):
    sums = {}
    for name in REWARDS:
        env = WindowEnv(w, jobs=50, window=64, reward=name, bound_s=10.0)
        env.reset(seed=3)
        total, over = 0.0, False
        while not over:
            _, reward, over, _, info = env.step(0)
            total += reward
        sums[name] = total
    assert sums["bounded_slowdown"] == pytest.approx(1 - info["bounded_slowdown"])
    assert sums["bounded_slowdown_end"] == pytest.approx(-info["bounded_slowdown"])
    assert sums["wait"] == pytest.approx(-info["wait"] / 3600)
    assert sums["bounded_wait"] < sums["bounded_slowdown"]
    assert sums["datastar_time"] < 0 and sums["datastar"] < 0 < sums["dras"] <= sums["theta"]


def test_rewards_by_hand():
    from jobwise.worlds.window.tables import interval_dtype

    z = np.zeros(1, interval_dtype)
    z["slowed"], z["jobs"], z["waited"], z["ideal"], z["ideal_seconds"] = 6.0, 3.0, 7200.0, 0.5, 4.0
    z["picked_wait"], z["longest_wait"], z["picked_size"], z["used"], z["size"] = 10_800.0, 14_400.0, 25.0, 50.0, 100.0
    z["total"], z["late_bounds"] = 12.0, 0.5
    found = {name: float(reward(z)[0]) for name, reward in REWARDS.items()}
    assert found["bounded_slowdown"] == -2.0 and found["bounded_slowdown_end"] == 0.0
    assert found["wait"] == pytest.approx(-2 / 3)
    assert found["dras"] == pytest.approx((10_800 / 21_600 + 0.25 + 0.5) / 3)
    assert found["theta"] == pytest.approx((0.75 + 0.25 + 0.5) / 3)
    assert found["datastar"] == -0.5 and found["datastar_time"] == -4.0
    assert found["bounded_wait"] == pytest.approx(-(6.0 + 500.0) / 3)
    z["over"] = 1
    assert REWARDS["bounded_slowdown_end"](z)[0] == -4.0
    z["used"], z["size"], z["seconds"] = 30.0, 40.0, 7200.0
    assert REWARDS["utilisation"](z)[0] == pytest.approx(-0.25 * 2.0 / 3)


def test_several_logs_of_several_sizes(w):
    other = random_workload(np.random.default_rng(9), jobs=120, procs=30)
    envs = WindowVectorEnv(32, [w, other], jobs=30, window=16)
    envs.reset(seed=0)
    assert set(envs.world.choices.moment["total"]) == {12, 30}
    for _ in range(20):
        envs.step(np.zeros(32, np.int64))
    size = envs.intervals["size"]
    assert set(size) == {12, 30} and (envs.intervals["used"] <= size).all()
    with pytest.raises(InputError, match="made for 12"):
        WindowVectorEnv(2, [w, other], jobs=30, encoder="dras")


def test_actions_beyond_the_mask_count_from_the_first(w):
    a, b = (WindowEnv(w, jobs=40, window=64) for _ in range(2))
    a.reset(seed=1), b.reset(seed=1)
    k = int(a.action_masks().sum())
    assert a.step(k + 1)[1] == b.step(1 % k)[1]


def test_snapshots_restore(w):
    envs = WindowVectorEnv(4, w, jobs=30, window=16, shake_s=3.0)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(30):
        envs.step((rng.random(4) * envs.counts).astype(int))
    kept = envs.snapshot()
    other = WindowVectorEnv(4, w, jobs=30, window=16, shake_s=3.0)
    other.restore(kept)
    for _ in range(60):
        a = (rng.random(4) * envs.counts).astype(int)
        x, y = envs.step(a), other.step(a)
        assert np.array_equal(x[0], y[0]) and np.array_equal(x[1], y[1])


def test_wrong_use_is_one_line(w):
    alone = w.take(slice(0, 1))
    wrong = [
        (lambda: WindowEnv(), "needs a workload"),
        (lambda: WindowEnv(w, jobs=1000), "does not fit"),
        (lambda: WindowEnv(w, reward="fame", jobs=9), "unknown reward"),
        (lambda: WindowEnv(w, reward=3, jobs=9), "a name or a function"),
        (lambda: WindowEnv(w, encoder="sme", jobs=9), "did you mean sem"),
        (lambda: WindowEnv(w, jobs=9, window=0), "window of 0"),
        (lambda: WindowEnv(w, jobs=9, loads=(0.0,)), "factors"),
        (lambda: WindowEnv(w, stream=True, jobs=None), "say how many"),
        (lambda: WindowEnv(alone, jobs=1).reset(seed=0), "without a single choice"),
        (lambda: WindowEnv(w, jobs=9).step(0), "reset the environment"),
        (lambda: WindowEnv("log.swf.gz"), "not str; jobwise.open_log"),
        (lambda: WindowVectorEnv(0, w, jobs=9), "at least 1"),
        (lambda: WindowVectorEnv(2, w, jobs=9).reset(options={"reset_mask": [True]}), "reset_mask"),
    ]
    for call, text in wrong:
        with pytest.raises(InputError, match=text):
            call()
    envs = WindowVectorEnv(2, w, jobs=9)
    envs.reset(seed=0)
    for actions in ([0], [0.5, 1.0]):
        with pytest.raises(InputError, match="whole numbers"):
            envs.step(np.array(actions))
    for reward in (lambda z: 1.0, lambda z: np.zeros(7), lambda z: z["waited"][:, None], lambda z: ["a", "b"]):
        envs = WindowVectorEnv(2, w, jobs=9, reward=reward)
        envs.reset(seed=0)
        with pytest.raises(InputError, match=r"a number for each simulation is expected: \(2,\)"):
            envs.step(np.zeros(2, int))
    one = WindowEnv(w, jobs=9, loads=1.1, reward=lambda z: z["waited"] * np.nan)
    one.reset(seed=0)
    with pytest.raises(InputError, match="nan, which is no finite number"):
        one.step(0)
    one = WindowEnv(w, jobs=9)
    one.reset(seed=0)
    for action in ("x", None, 1.7, float("nan"), np.array([2])):
        with pytest.raises(InputError, match="an action is a whole number, not"):
            one.step(action)
    while not one.step(0)[2]:
        pass
    with pytest.raises(InputError, match="the episode is over"):
        one.step(0)


def test_a_log_with_one_job_can_be_committed(w):
    env = WindowEnv(w.take(slice(0, 1)), jobs=1, act="commit")
    env.reset(seed=0)
    *_, over, _, info = env.step(0)
    assert over and info["bounded_slowdown"] == 1.0 and info["jobs"] == 1


def test_some_can_be_reset_alone(w):
    envs = WindowVectorEnv(3, w, jobs=40, window=16)
    before = envs.reset(seed=0)[0]
    after, _ = envs.reset(seed=[9, 9, 9], options={"reset_mask": np.array([False, True, False])})
    assert np.array_equal(before[[0, 2]], after[[0, 2]]) and not np.array_equal(before[1], after[1])


@pytest.mark.cli
def test_registered_without_importing_gymnasium_first():
    import subprocess
    import sys

    code = "import jobwise as jw; w = jw.lublin(jobs=300, procs=64, seed=0); import gymnasium as g; print(g.make('jobwise/Window-v0', workload=w, jobs=64).reset(seed=0)[0].shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "(128, 8)", done.stderr


@pytest.mark.filterwarnings("ignore")
def test_maskable_ppo_learns_here(tmp_path, monkeypatch):
    from sb3_contrib import MaskablePPO

    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path))
    env = gymnasium.make("jobwise/Window-v0", workload=jw.lublin(jobs=400, procs=64, seed=0), jobs=40, window=16)
    model = MaskablePPO("MlpPolicy", env.unwrapped, n_steps=64, batch_size=32, n_epochs=1, seed=0)
    model.learn(128)
    action, _ = model.predict(env.reset(seed=0)[0], action_masks=env.unwrapped.action_masks())
    assert 0 <= action < 16


@pytest.mark.filterwarnings("ignore")
def test_torchrl_steps_here():
    from torchrl.envs import GymWrapper

    env = GymWrapper(
        gymnasium.make("jobwise/Window-v0", workload=jw.lublin(jobs=400, procs=64, seed=0), jobs=40, window=16, dict_obs=True)
    )
    found = env.rollout(20)
    assert found["next", "reward"].shape[0] <= 20 and found["action_mask"].any()


def test_a_stream_is_told_in_segments_and_goes_on(w):
    env = WindowEnv(w, jobs=10, stream=True, window=16)
    env.reset(seed=1)
    for _ in range(3):
        total, cut, over = 0.0, False, False
        while not (cut or over):
            _, reward, over, cut, info = env.step(0)
            total += reward
        if over:
            break
        assert info["jobs"] <= 60 and np.isfinite(total)
        now = env._envs.world.choices.moment["now"][0]
        env.reset()
        assert env._envs.world.choices.moment["now"][0] == now


def test_seeds_are_checked(w):
    envs = WindowVectorEnv(3, w, jobs=9)
    for seed in ([1], -1, [1, 2, -3]):
        with pytest.raises(InputError, match="seeds are"):
            envs.reset(seed=seed)
    a = envs.reset(seed=np.array([4, 5, 6]))[0]
    assert np.array_equal(a, envs.reset(seed=4)[0])
    with pytest.raises(InputError, match="starts"):
        jw.Episodes([w], 20, starts=(-5,))


def test_unknown_settings_are_one_line_without_the_log(w):
    for make in (
        lambda: gymnasium.make("jobwise/Window-v0", workload=w, rewrad="wait"),
        lambda: gymnasium.make_vec("jobwise/Window-v0", num_envs=2, workload=w, rewrad="wait"),
        lambda: WindowEnv(w, render_mode="human"),
    ):
        with pytest.raises(InputError) as error:
            make()
        assert len(str(error.value)) < 300 and ("reward" in str(error.value) or "rgb_array" in str(error.value))
    assert len(repr(w)) < 80


def test_the_machine_is_drawn(w):
    env = gymnasium.make("jobwise/Window-v0", workload=w, jobs=40, window=16, render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    for _ in range(12):
        env.step(0)
    later = env.render()
    assert first.shape == later.shape and later.dtype == np.uint8 and (first != later).any()
    s = env.unwrapped._envs.world.state
    now = (later[:, :360] != (238, 241, 245)).any(axis=2)  # what is not free
    line = int(np.flatnonzero((later == (17, 24, 39)).all(axis=2).all(axis=0))[0])
    used = s.nodes["capacity"][0, 0, 0] - s.nodes["free"][0, 0, 0]
    assert now[:, line + 1].mean() == pytest.approx(used / s.nodes["capacity"][0, 0, 0], abs=0.05)
    many = gymnasium.make_vec("jobwise/Window-v0", num_envs=2, workload=w, jobs=40, window=16, render_mode="rgb_array")
    many.reset(seed=0)
    assert len(many.render()) == 2 and (many.render()[0] == first).all()


def test_no_reward_divides_by_nothing():
    from jobwise.worlds.window.tables import interval_dtype

    z = np.zeros(2, interval_dtype)
    z["size"] = 4
    for name in ("bounded_slowdown", "bounded_slowdown_end", "wait", "bounded_wait", "dras", "theta"):
        assert np.isfinite(REWARDS[name](z)).all()


def test_worlds_keep_their_promises(w):
    """The conformance kit over every world, and over one that breaks a promise."""
    from jobwise.testing import check_world
    from jobwise.worlds.slots.encoder import make_grid
    from jobwise.worlds.slots.episodes import SlotsEpisodes
    from jobwise.worlds.slots.world import SlotsSettings
    from jobwise.worlds.window.episodes import Episodes
    from jobwise.worlds.window.settings import WindowSettings
    from jobwise.worlds.window.world import WindowWorld

    found = encoders.make("perjob", w.cluster, w.jobs, 16)
    for mode in ("pick", "reserve", "commit"):
        check_world(WindowWorld(4, Episodes([w], 20), WindowSettings(mode), 16), found)
    sets = [jw.cush(12, 0.8, k) for k in range(3)]
    for settings in (
        SlotsSettings(slots=4, placements=("pack", "spread"), reserve=False),
        SlotsSettings(slots=4, masked=False, reserve=False),
    ):
        world = SlotsEpisodes(4, sets, settings, 20, 500, False)
        check_world(world, make_grid("slots", sets[0].cluster, 4, 60))

    class Blind(WindowWorld):
        def encode(self, encoder, out, first, last):
            out[first:last] = np.nan

    with pytest.raises(AssertionError, match="observations"):
        check_world(Blind(2, Episodes([w], 20), WindowSettings(), 16), found)


def test_workflows_are_episodes():
    """Whole streams of workflows: a rule's choices are its replay, and every edge is kept."""
    from test_workflows import random_flow

    from jobwise.workloads.streams import stream

    rng = np.random.default_rng(3)
    ws = []
    for _ in range(2):
        flows = [random_flow(rng, int(rng.integers(3, 25))) for _ in range(4)]
        ws.append(stream(flows, np.sort(rng.uniform(0, 20, 4)), 16))
    envs = WindowVectorEnv(2, ws, jobs=None, encoder="perjob", window=128)
    for seed in (0, 1):
        envs.reset(seed=seed)
        told = {}
        for _ in range(400):
            over = envs.choose(envs.by_rule("sjf"), again=True)
            for e in np.flatnonzero(over):
                z = envs.intervals[e]
                told.setdefault(int(z["jobs"]), set()).add(round(float(z["total"] / z["started"]), 9))
                assert z["started"] == z["jobs"]
        expected = {len(w): {round(jw.simulate(w, "sjf+easy").summary()["bounded_slowdown"], 9)} for w in ws}
        assert told == expected
    kept = envs.snapshot()
    a = [envs.choose(envs.by_rule("fcfs"), again=True).tolist() for _ in range(50)]
    envs.restore(kept)
    assert a == [envs.choose(envs.by_rule("fcfs"), again=True).tolist() for _ in range(50)]
    for wrong in ({"jobs": 5}, {"jobs": None, "shake_s": 3.0}):
        with pytest.raises(InputError, match="wait for others"):
            WindowVectorEnv(1, ws, **wrong)


def test_a_reward_of_ones_own_that_asks_for_another_field_is_told_which_there_are():
    import jobwise as jw
    from jobwise.learn.env import WindowVectorEnv

    envs = WindowVectorEnv(num_envs=2, workload=jw.lublin(400, procs=64, seed=1), jobs=64, reward=lambda z: -z["wait"])
    envs.reset(seed=0)
    with pytest.raises(
        InputError, match=r"test_env\.py:\d+: the reward failed: .*no field of name wait; fields of transitions: .*seconds"
    ):
        envs.step(np.zeros(2, np.int64))
