"""Do jobs on a real Slurm start in the order that a policy wants? And is everything given back?

python -m benchmarks.steer_order [--jobs 200]     # prints; 0 where all holds, 1 where not

On a private cluster of emulated nodes, jobs of the whole machine wait behind others. Steered with `--span 0` they have to start
in the policy's order, one after the other; steered within a span no factor is beyond it; afterwards `sprio` prints what it did
before.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.check_slurm import ACCOUNT, BATCH, FAST, _nodes
from benchmarks.slurm_cluster import Cluster, folder_for, running, skipped
from jobwise.live.cycle import Cycle
from jobwise.live.sources import ClusterReader
from jobwise.live.steer import Steer, SteerSettings
from jobwise.policies.names import resolve
from jobwise.slurm.client import Slurm, SlurmError

WEIGHTS = ["PriorityWeightAge=1000", "PriorityMaxAge=00:10:00", "PriorityCalcPeriod=1", "PriorityWeightJobSize=1000"]
CONF, SPAN, PORT = [*_nodes(last=8), *BATCH, "SelectTypeParameters=CR_Core", *WEIGHTS, FAST], 500, 28_700


def submit(cluster: Cluster, count: int, command: str, rng: np.random.Generator) -> None:
    """Submit jobs of the whole machine, with limits of 1 to 500 minutes."""
    for _ in range(count):
        words = ["sbatch", "--parsable", "-n", "32", "-t", str(int(rng.integers(1, 500))), "-o", "/dev/null", "--wrap", command]
        cluster.run(*words)


@contextmanager
def steering(slurm: Slurm, state: Path, span: int) -> Iterator[tuple[Steer, Cycle]]:
    """Steering by sjf, and its cycle."""
    with closing(ClusterReader(slurm, 5.0)) as reader, Steer(slurm, "sjf", state, SteerSettings(span), foresee=0) as steer:
        yield steer, Cycle(reader, resolve("sjf"), [steer])


def main() -> int:
    """Run it, and say what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=200)
    given = parser.parse_args()
    if skipped("steer_order"):
        return 0
    base = folder_for("steer-order")
    with running(base / "cluster", PORT, CONF, ACCOUNT) as cluster:
        slurm, rng = Slurm(), np.random.default_rng(0)
        for _ in range(8):
            cluster.run("sbatch", "--parsable", "-n", "4", "-t", "2", "-o", "/dev/null", "--wrap", f"sleep {given.jobs // 4}")
        while len(cluster.run("squeue", "-h", "-t", "running", "-o", "%i").split()) < 8:
            time.sleep(0.2)
        submit(cluster, given.jobs, "sleep 0.2", rng)
        with steering(slurm, base / "state", 0) as (steer, cycle):
            cycle.once()
            order = steer.order
            while cluster.run("squeue", "-h", "-o", "%i").split():
                try:
                    cycle.once()
                except SlurmError as error:
                    print(f"steer_order: {error}", file=sys.stderr)
                time.sleep(1.0)
            time.sleep(3.0)  # accounting lags
            rows = cluster.run("sacct", "-a", "-X", "-P", "-n", "-o", "JobIDRaw,Start", SLURM_TIME_FORMAT="%s").split()
        start = {int(id): float(at) for id, at in (r.split("|") for r in rows)}
        begun = [start[id] for id in order]
        inversions = sum(a > b for a, b in zip(begun, begun[1:], strict=False))
        submit(cluster, 60, "sleep 300", rng)
        time.sleep(5.0)  # the first has started
        before = sorted(cluster.run("sprio", "-h", "-o", "%i %S").splitlines())
        with steering(slurm, base / "state", SPAN) as (_, cycle):
            cycle.once()
            factors = [x for _, x in slurm.priorities().values()]
        same = sorted(cluster.run("sprio", "-h", "-o", "%i %S").splitlines()) == before
    print(f"{len(order)} jobs under whole control: {inversions} inversions")
    print(f"within a span of {SPAN}: factors from {min(factors)} to {max(factors)}")
    print(f"afterwards sprio prints what it did before: {same}")
    return int(inversions > 0 or min(factors) < 0 or max(factors) > SPAN or not same)


if __name__ == "__main__":
    sys.exit(main())
