"""How fast the learning part is: environments, PPO end to end, replays with a network, one choice of the runner."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

import jobwise as jw
from jobwise.policies.networks import Forward, choose
from jobwise.worlds.window import encoders

RUNS = 5


def network(encoder, hidden=(32, 16, 8)) -> Forward:
    """A per-job network with random weights."""
    rng, sizes, weights = np.random.default_rng(0), [encoder.shape[1], *hidden, 1], {}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        weights[f"net.{2 * i}.weight"] = (rng.normal(size=(b, a)) / a**0.5).astype(np.float32)
        weights[f"net.{2 * i}.bias"] = np.zeros(b, np.float32)
    return Forward({"kind": "perjob", "sizes": sizes}, weights)


def environments(w: jw.Workload) -> list[list[str]]:
    """Choices a second of the batch environment, random valid actions, 256-job windows, 128 x 8."""
    from jobwise.learn.env import WindowVectorEnv
    from jobwise.worlds.window.settings import WindowSettings

    rows = []
    for mode, E in (("pick", 256), ("reserve", 256), ("commit", 256), ("pick", 1024), ("commit", 1024)):
        rates, shown = {}, 0.0
        act = WindowSettings(mode, fill="oldest")
        for threads in (1, 2):
            envs = WindowVectorEnv(E, w, act=act, encoder="rls", jobs=256, copy=False, threads=threads)
            envs.reset(seed=0)
            rng, found = np.random.default_rng(0), []
            for run in range(RUNS + 1):
                begin = time.perf_counter()
                for _ in range(256_000 // E):
                    envs.step((rng.random(E) * envs.counts).astype(np.int64))
                if run:
                    found.append(256_000 / (time.perf_counter() - begin))
            rates[threads], shown = np.median(found), envs.counts.mean()
            envs.close()
        rows.append([mode, str(E), f"{shown:.0f}", f"{rates[1]:,.0f}", f"{rates[2]:,.0f}"])
        print(rows[-1], flush=True)
    return rows


def stable(w: jw.Workload) -> list[list[str]]:
    """Steps a second of a `VecEnv` of Stable-Baselines3, random valid actions, windows of 256 jobs, encoder `rls`: the native
    batch of 256, and 16 single environments in a `DummyVecEnv`."""
    from stable_baselines3.common.vec_env import DummyVecEnv

    from jobwise.learn.env import WindowEnv, WindowVectorEnv
    from jobwise.learn.sb3 import StableVecEnv

    made = {
        "`StableVecEnv`, 256 simulations": (StableVecEnv(WindowVectorEnv(256, w, jobs=256, threads=1)), 256, 400),
        "`DummyVecEnv`, 16 single environments": (DummyVecEnv([lambda: WindowEnv(w, jobs=256)] * 16), 16, 100),
    }
    rows = []
    for name, (envs, E, rounds) in made.items():
        envs.reset()
        rng, found = np.random.default_rng(0), []
        for run in range(RUNS + 1):
            begin = time.perf_counter()
            for _ in range(rounds):
                masks = np.stack(envs.env_method("action_masks")).reshape(E, -1)
                envs.step((rng.random(masks.shape) * masks).argmax(axis=1))
            if run:
                found.append(E * rounds / (time.perf_counter() - begin))
        rows.append([f"{name}, steps a second", f"{np.median(found):,.0f}"])
        print(rows[-1], flush=True)
        envs.close()
    return rows


def training(w: jw.Workload, choices: int) -> str:
    """Choices a second of `jobwise train perjob`, everything included."""
    from jobwise.learn.run import train
    from jobwise.systems import configure

    config = configure("perjob", w, "small").changed(choices=choices)
    with tempfile.TemporaryDirectory() as folder:
        train(config.changed(choices=20_000), w, Path(folder) / "warm")
        begin = time.perf_counter()
        policy = train(config, w, Path(folder) / "run")[0]
        return f"{policy.about['choices'] / (time.perf_counter() - begin):,.0f}"


def replay(w: jw.Workload) -> str:
    """Seconds of a whole replay with a per-job network."""
    encoder = encoders.make("rls", w.cluster, w.jobs)
    policy = jw.NeuralPolicy(network(encoder), encoder)
    found = []
    for _ in range(3):
        begin = time.perf_counter()
        jw.simulate(w, policy)
        found.append(time.perf_counter() - begin)
    return f"{np.median(found):.2f} s"


def one_choice(w: jw.Workload) -> str:
    """Microseconds to encode 128 jobs and choose one with the numpy runner."""
    from jobwise.sim.state import allocate
    from jobwise.worlds.window.passes import BEGIN, ask
    from jobwise.worlds.window.settings import WindowSettings

    deep = jw.workload(np.zeros(200), np.full(200, 2), np.arange(1, 201), cluster=jw.pool(64))
    encoder = encoders.make("rls", deep.cluster, deep.jobs)
    forward, (out, work) = network(encoder), encoder.buffers(1)
    s = allocate([deep], deep.cluster)
    c = WindowSettings("pick").allocate(s, 128)
    ask(s, c, BEGIN)
    found = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        for _ in range(2000):
            encoder.encode(s, c, out, work)
            choose(forward, out, c.moment["count"])
        found.append((time.perf_counter() - begin) / 2000 * 1e6)
    return f"{np.median(found):.0f} us"


def learning(folder: Path, quick: bool, table) -> str:
    """The section of the results page."""
    path = folder / "lublin_256.swf.gz"
    w = jw.read_swf(path) if path.exists() else jw.lublin(10_000, 256, seed=0)
    note = (
        f"{w.name}: choices a second of the batch environment (windows of 256 jobs, the oldest 128 shown, encoder `rls`, 128 x "
        f"8 features, random valid actions, no copies, median of {RUNS} runs of 256,000). Peers: 4,600 to 8,600."
    )
    parts = [
        table("Environments", note, ["act", "simulations", "jobs shown at the end", "1 thread", "2 threads"], environments(w))
    ]
    rows = [["PPO end to end (`jobwise train perjob`), choices a second", training(w, 100_000 if quick else 1_000_000)]]
    path = folder / "SDSC-SP2-1998-4.2-cln.swf.gz"
    long = jw.read_swf(path) if path.exists() else jw.lublin(54_000, 128, seed=0, load=0.85)
    rows.append([f"{long.name}, {len(long):,} jobs, replayed with a per-job network", replay(long)])
    rows += stable(w)
    rows.append(["one choice among 128 jobs, torch-free (encode, network, argmax)", one_choice(w)])
    return "\n".join([*parts, table("Learning", "Two cores; medians.", ["what", "here"], rows)])
