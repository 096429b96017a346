"""Speed of the world of assignments: rows per second with encoding, against the slow twin and against the size of the cluster;
what a decision costs; one training step of the published agent.

python -m benchmarks.gpus      writes benchmarks/GPUS.md; nothing in it is typed by hand
"""

from __future__ import annotations

import os
import platform
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

import numpy as np
import torch

import jobwise as jw
from jobwise.learn.agent import Agent
from jobwise.learn.env import GpusVectorEnv
from jobwise.learn.reinforce import epoch
from jobwise.learn.settings import Settings
from jobwise.policies.networks import Forward
from jobwise.report.sections import made
from jobwise.systems.rltaps import LEARNER

HERE = Path(__file__).parent
E = 64


def rows(machines: int, steps: int = 300, **settings) -> float:
    """Rows per second of 64 simulations on racks of two machines under random assignments, each with its observation."""
    racks = jw.gpu_racks([2] * (machines // 2))
    sets = [jw.rltaps(400, [1, i], machine=racks, rate=machines / 8) for i in range(4)]
    env = GpusVectorEnv(E, sets, copy=False, **settings)
    env.reset(seed=0)
    rng, found = np.random.default_rng(0), []
    actions = rng.integers(0, env.world.actions, (20, E, *env.action_shape))
    for _ in range(4):  # the first warms up
        begin = time.perf_counter()
        for k in range(steps):
            env.choose(actions[k % 20], again=True)
        found.append(steps * E / (time.perf_counter() - begin))
    env.close()
    return max(found[1:])


def twin() -> float:
    """The same of the tests' twin in plain Python, without an image."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    import naive_gpus

    w, rng = jw.rltaps(400, [1, 0]), np.random.default_rng(0)
    table = [
        {"submit": float(a["submit"]), "length": float(a["walltime"]), "gpus": int(a["request"][0]), "least": 1, "most": 32}
        | {k: float(a[k]) for k in ("step", "gradient")}
        for a in w.jobs
    ]
    cluster, begin, steps = naive_gpus.Cluster(w.cluster.graph()), time.perf_counter(), 0
    while time.perf_counter() - begin < 10:
        if steps % 1000 == 0:
            world = naive_gpus.World(cluster, table, 10, "full", False, "seed", 512 / 10.6, 0.0)
        world.step([int(p) if p < 10 else None for p in rng.integers(0, 11, 32)])
        steps += 1
    return steps / (time.perf_counter() - begin)


def rule(name: str, machines: int) -> float:
    """us of a decision and its row under a rule, one simulation, slots in proportion to the GPUs."""
    w = jw.rltaps(60, 1, machine=jw.gpu_racks([2] * (machines // 2), work="lab"), rate=machines / 8)
    policy = jw.resolve(f"gpus:{name}+slots{10 * machines // 8}")
    jw.simulate(w, policy)
    begin = time.perf_counter()
    r = jw.simulate(w, policy)
    return 1e6 * (time.perf_counter() - begin) / (r.jobs["end"].max() / policy.tick)


def network() -> float:
    """ms of a decision of the published network at the paper's size, without torch."""
    rng, sizes = np.random.default_rng(0), [1580, 528, 352]
    names = {"net.0": sizes[:2], "net.2": sizes[1:]}
    weights = {f"{n}.weight": rng.normal(size=s[::-1]).astype(np.float32) for n, s in names.items()}
    weights |= {f"{n}.bias": np.zeros(s[1], np.float32) for n, s in names.items()}
    forward, x = Forward({"kind": "mlp", "sizes": sizes, "classes": 11}, weights), rng.random((1, 10, 158), np.float32)
    forward(x)
    begin = time.perf_counter()
    for _ in range(200):
        forward(x).argmax(axis=-1)
    return 1000 * (time.perf_counter() - begin) / 200


def step() -> tuple[float, int]:
    """(seconds, rows) of the part of one training step at the paper's size that one sequence is: 20 runs of 1,000 rows."""
    env = GpusVectorEnv(20, [jw.rltaps(400, [42, 0])], masked=False, copy=False)
    agent = Agent({"kind": "mlp", "sizes": [1580, 528, 352], "classes": 11, "init": 0.01}, env.encoder, Settings(**LEARNER), 0)
    torch.set_num_threads(2)
    begin = time.perf_counter()
    found = epoch(env, agent, None, [np.arange(1)], runs=20, seed=(0, 0))["choices"]
    return time.perf_counter() - begin, found


def main() -> None:
    """Measure, print, write."""
    image, ours, slow = rows(8), rows(8, encoder="gpu-jobs", counts=True), twin()
    sizes = []
    for machines in (8, 16, 64, 256):
        x = rows(machines, 60 if machines > 16 else 300)
        M = 4 * machines
        sizes.append(f"| {M} | {x:,.0f} | {1e6 / x:,.1f} | {1e9 / x / (M * 10):,.0f} | {rule('both', machines):,.0f} |")
        print(sizes[-1], flush=True)
    seconds, count = step()
    hours = seconds * 200 * 50 / 3600
    versions = f"numpy {np.__version__}, torch {torch.__version__}"
    about = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {versions}"
    text = f"""# Assignments of GPUs

Made by {made("python -m benchmarks.gpus")}; do not edit.

{about}.

Rows per second with encoding, {E} simulations of 32 GPUs and 10 slots, random assignments, best of three: {image:,.0f} with
RL-TAPS's image, {ours:,.0f} with job tokens and numbers of GPUs as actions. The tests' twin in plain Python, without an image:
{slow:,.0f}; the world is {image / slow:,.0f} times as fast.

Clusters of racks of 8 GPUs, 10 slots, arrivals in proportion; the last column with slots in proportion too, a decision of the
rule `both` and its row, one simulation:

| GPUs | rows/s, random | us a row | ns for each GPU and slot | us a decision of `both` |
|---|---|---|---|---|
{chr(10).join(sizes)}

A decision of the published network (1,020,976 parameters) on this CPU: {network():.2f} ms. Its training: {seconds:.1f} s for 20
runs of one sequence ({count:,} rows), a tenth of a step; the paper's 50 epochs of 200 sequences are {hours:.0f} h.
"""
    (HERE / "GPUS.md").write_text(text)
    print(text)


if __name__ == "__main__":
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_known_args()
    main()
