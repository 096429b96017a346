"""Speed of this checkout against another, in turns: python -m benchmarks compare OLD [--log FILE] [--rounds N].

Each checkout has a process of its own that stays warm. A round times every piece of work once in both; what counts is the
median ratio over rounds, and the machine's noise is the spread of the old checkout's own times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

LOG = "../shared/traces/swf/SDSC-SP2-1998-4.2-cln.swf.gz"


def works(log: str) -> dict:
    """Name -> a function without arguments, in the process of a checkout. Only names that both checkouts have are used."""
    import gymnasium
    import numpy as np

    import jobwise as jw
    from jobwise.systems import configure

    w = jw.read_swf(log)
    part = w.take(slice(0, 20_000))
    found = {f"replay {p}": (lambda p=p: jw.simulate(w, p)) for p in ("fcfs+easy", "sjf+easy", "saf+easy+guard24h")}
    found |= {f"replay {p}": (lambda p=p: jw.simulate(part, p)) for p in ("wfp3+easy", "smith+easy", "jobwise")}
    found["replay saf+conservative"] = lambda: jw.simulate(w.take(slice(0, 3000)), "saf+conservative")
    envs = gymnasium.make_vec("jobwise/Batch-v0", num_envs=256, workload=w, jobs=128, window=128, encoder="perjob", copy=False)
    slots = gymnasium.make_vec("jobwise/Grid-v0", num_envs=64, workload=[jw.deeprm(seed=k) for k in range(64)], copy=False)

    def play(env, steps: int) -> None:
        env.reset(seed=0)
        actions, last = np.zeros(env.num_envs, np.int64), int(env.action_space.nvec[0])
        for k in range(steps):
            actions[:] = (k * 7) % last
            env.step(actions)

    found["environment, a window of 128"] = lambda: play(envs, 300)
    found["environment, slots"] = lambda: play(slots, 300)

    def learn(system: str, **changes) -> None:
        try:
            from jobwise.learn.run import train
        except ImportError:
            from jobwise.train import train
        if system == "search":
            with suppress(ImportError):  # before a search was a training run like any other
                from jobwise.systems.search import train
        with tempfile.TemporaryDirectory() as folder:
            train(configure(system, w, "smoke").changed(threads=2, **changes), w, Path(folder) / "run")

    found["search"] = lambda: learn("search")
    found["PPO"] = lambda: learn("perjob", choices=60_000, validations=1)
    return found


def worker(log: str) -> None:
    """Time the works whose names come on standard input, one a line; answer in seconds."""
    known = works(log)
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        known[line.strip()]()
        print(time.perf_counter() - begin, flush=True)


def start(checkout: Path, log: Path) -> subprocess.Popen:
    """The process of a checkout."""
    told = os.environ | {"PYTHONPATH": str(checkout.resolve())}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", str(log.resolve())]
    return subprocess.Popen(command, cwd=checkout, env=told, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(process: subprocess.Popen, name: str) -> float:
    """Seconds of one piece of work there."""
    process.stdin.write(name + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare", description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="folder of the other checkout")
    parser.add_argument("--log", type=Path, default=Path(LOG))
    parser.add_argument("--rounds", type=int, default=9)
    told = parser.parse_args(arguments)
    both = [start(told.old, told.log), start(Path(__file__).parent.parent, told.log)]
    names = [json.loads(p.stdout.readline()) for p in both][1]
    print(f"{'work':32} {'old s':>9} {'new s':>9} {'old/new':>8} {'noise':>7}")
    for name in names:
        for p in both:
            ask(p, name)  # compiled, warm
        times = [[ask(both[(k + i) % 2], name) for i in range(2)] for k in range(told.rounds)]
        pairs = [(t if k % 2 == 0 else t[::-1]) for k, t in enumerate(times)]
        old, new = (sorted(x) for x in zip(*pairs, strict=True))
        middle = len(old) // 2
        ratio = sorted(a / b for a, b in pairs)[middle]
        noise = old[int(0.75 * (len(old) - 1))] / old[int(0.25 * (len(old) - 1))] - 1
        print(f"{name:32} {old[middle]:9.4f} {new[middle]:9.4f} {ratio:8.3f} {noise:7.1%}", flush=True)
    for p in both:
        p.stdin.close()
        p.wait()


if __name__ == "__main__":
    worker(sys.argv[2]) if sys.argv[1] == "--worker" else main(sys.argv[1:])
