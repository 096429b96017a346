"""Speed on grids of time: decisions per second with encoding, against the slow twin; one training iteration of DeepRM.

python -m benchmarks.grids      writes benchmarks/GRIDS.md; nothing in it is typed by hand
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

from jobwise.learn.agent import Agent
from jobwise.learn.env import SlotsVectorEnv
from jobwise.learn.reinforce import epoch
from jobwise.learn.settings import Settings
from jobwise.report.sections import made
from jobwise.systems.deeprm import LEARNER
from jobwise.workloads.jobsets import cush, deeprm

HERE = Path(__file__).parent
E = 256


def decisions(sets, steps: int, placing: bool = False, **settings) -> float:
    """Random decisions per second of 256 simulations, each with its observation; `placing`: and the second agent's."""
    env = SlotsVectorEnv(E, sets, copy=False, **settings)
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, env.void + 1, (steps, E))
    found = []
    for _ in range(4):  # the first warms up
        begin = time.perf_counter()
        for a in actions:
            if placing:
                env.show_placing(a // len(env.placements))
            env.choose(a, again=True)
        found.append(steps * E / (time.perf_counter() - begin))
    env.close()
    return max(found[1:])


def twin(sets, picture, slots: int, placements, **settings) -> float:
    """The same of the tests' twin in plain Python."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from naive_grid import Twin
    from test_grid import table

    rng, begin, steps = np.random.default_rng(0), time.perf_counter(), 0
    capacity = sets[0].cluster.capacity.tolist()
    while time.perf_counter() - begin < 10:
        t = Twin(table(sets[steps % len(sets)]), capacity, slots, 60, 20, placements, **settings)
        while not t.over() and time.perf_counter() - begin < 10:
            t.step(int(rng.integers(slots * len(placements) + 1)))
            picture(t)
            steps += 1
    return steps / (time.perf_counter() - begin)


def iteration() -> tuple[float, int]:
    """(seconds, choices) of one iteration with DeepRM's training numbers: 50 jobsets x 20 runs, rate 0.3, 50 rows."""
    sets = [deeprm(50, 0.3, [42, i]) for i in range(50)]
    env = SlotsVectorEnv(200, sets, masked=False, copy=False)
    sizes = [int(np.prod(env.encoder.shape)), 20, env.void + 1]
    agent = Agent({"kind": "mlp", "sizes": sizes, "init": 0.01}, env.encoder, Settings(**LEARNER), 0)
    torch.set_num_threads(2)
    found = []
    for k in range(3):
        begin = time.perf_counter()
        choices = epoch(env, agent, None, list(np.arange(50).reshape(5, 10)), runs=20, seed=(0, k))["choices"]
        found.append(time.perf_counter() - begin)
    return sorted(found)[1], choices


def main() -> None:
    """Measure, print, write."""
    from jobwise.worlds.slots.encoder import COLOUR

    small, mixed = [deeprm(50, 0.7, [1, i]) for i in range(50)], [cush(50, 0.7, [1, i]) for i in range(50)]
    both = ("pack", "spread")
    rows = []
    slow = twin(small, lambda t: t.image(10, COLOUR.tolist()), 10, ("first",))
    slow_cush = twin(mixed, lambda t: t.tensor(), 10, both, reserve=False, network=0.6, compute=0.3)
    for name, x, base in (
        ("DeepRM, image 20 x 224", decisions(small, 1000, encoder="deeprm"), slow),
        ("DeepRM, compact", decisions(small, 1000, encoder="compact"), None),
        ("DeepRM, rows per slot", decisions(small, 1000, encoder="slots"), None),
        ("CuSH, tensor 11 x 20 x 48", decisions(mixed, 400, encoder="cush", placements=both), slow_cush),
        ("CuSH, both agents' images", decisions(mixed, 400, True, encoder="cush", placements=both), slow_cush),
        ("CuSH, rows per slot", decisions(mixed, 400, encoder="slots", placements=both), None),
    ):
        slower = ["", ""] if base is None else [f"{base:,.0f}", f"{x / base:.0f}"]
        rows.append("| " + " | ".join([name, f"{x:,.0f}", *slower]) + " |")
        print(rows[-1], flush=True)
    seconds, choices = iteration()
    versions = f"numpy {np.__version__}, torch {torch.__version__}"
    about = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {versions}"
    text = f"""# Grids of time

Made by {made("python -m benchmarks.grids")}; do not edit.

{about}.

Decisions per second with encoding: {E} simulations, random actions, rate 0.7, 10 slots, 20 rows; best of three. The twin is the
tests' plain Python, one simulation, with the same picture at every step.

| world and encoder | decisions/s | twin | times faster |
|---|---|---|---|
{chr(10).join(rows)}

One training iteration of DeepRM with its published numbers (50 jobsets x 20 runs, rate 0.3, 50 rows; {choices:,} choices):
{seconds:.1f} s (median of three; its paper says about 80 s on 24 cores).
"""
    (HERE / "GRIDS.md").write_text(text)
    print(text)


if __name__ == "__main__":
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_known_args()
    main()
