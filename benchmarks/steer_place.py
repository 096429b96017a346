"""Do jobs on a real Slurm run on the nodes that a policy wants? And may all run anywhere afterwards?

python -m benchmarks.steer_place [--jobs 120]     # prints; 0 where all holds, 1 where not

On a private cluster of emulated nodes, jobs of one or two nodes come faster than they end, and a policy that spreads them
(`sjf+easy+spread`; Slurm itself packs) names nodes for jobs that it would start now. A job that was named nodes a second before
it started or earlier, and not since, must run there; in the middle steering ends, and no job that waits may have nodes then.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from contextlib import closing

import numpy as np

from benchmarks.check_slurm import ACCOUNT, BATCH, CPUS, FAST, _nodes
from benchmarks.slurm_cluster import Cluster, folder_for, running, skipped
from jobwise.live.cycle import Cycle
from jobwise.live.sources import ClusterReader
from jobwise.live.steer import Steer, SteerSettings
from jobwise.policies.names import resolve
from jobwise.slurm.client import Slurm, SlurmError
from jobwise.slurm.read.text import nodes

WEIGHTS = ["PriorityWeightAge=1000", "PriorityMaxAge=00:10:00", "PriorityCalcPeriod=1"]
CONF, PORT = [*_nodes(last=8), *BATCH, "SelectTypeParameters=CR_Core", *WEIGHTS, FAST], 28_900


def submit(cluster: Cluster, count: int, rng: np.random.Generator) -> None:
    """Submit jobs of 1 to 8 CPUs that run for 2 to 12 s."""
    for _ in range(count):
        size, run = int(rng.choice([1, 1, 2, 4, 8])), rng.uniform(2, 12)
        words = [
            "-N",
            "2" if size > CPUS else "1",
            "-n",
            str(size),
            "-t",
            str(int(rng.integers(1, 30))),
            "-o",
            "/dev/null",
            "--wrap",
            f"sleep {run:.1f}",
        ]
        cluster.run("sbatch", "--parsable", *words)


def waiting_nodes(cluster: Cluster) -> list[str]:
    """The node lists of the jobs that wait, where they have one."""
    text = cluster.run("scontrol", "-o", "show", "job")
    return [x for line in text.splitlines() if "JobState=PENDING" in line for x in re.findall(r"ReqNodeList=(\S+)", line)]


def main() -> int:
    """Run it, and say what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=120)
    given = parser.parse_args()
    if skipped("steer_place"):
        return 0
    base = folder_for("steer-place")
    with running(base / "cluster", PORT, CONF, ACCOUNT) as cluster:
        slurm, rng = Slurm(), np.random.default_rng(0)
        submit(cluster, given.jobs, rng)
        left: list[str] = []
        for most in (given.jobs // 2, 0):  # steering ends in the middle, and begins again
            with (
                closing(ClusterReader(slurm, 5.0)) as reader,
                Steer(slurm, "sjf+easy+spread", base / "state", SteerSettings(0, place=True), foresee=0) as steer,
            ):
                cycle = Cycle(reader, resolve("sjf+easy+spread"), [steer])
                while len(cluster.run("squeue", "-h", "-o", "%i").split()) > most:
                    try:
                        cycle.once()
                    except SlurmError as error:
                        print(f"steer_place: {error}", file=sys.stderr)
                    time.sleep(0.5)
            left += [x for x in waiting_nodes(cluster) if x != "(null)"]
        time.sleep(3.0)  # accounting lags
        rows = cluster.run(
            "sacct", "-a", "-X", "-P", "-n", "-o", "JobIDRaw,State,Start,NodeList", SLURM_TIME_FORMAT="%s"
        ).splitlines()
    ran = {int(id): (state, float(at), set(nodes(where))) for id, state, at, where in (r.split("|") for r in rows)}
    last: dict[int, tuple[float, str]] = {}  # what was said last of each job before it started
    for line in (base / "state" / "audit.jsonl").read_text().splitlines():
        x = json.loads(line)
        if x["what"] == "place" and x["time"] < ran[x["job"]][1] + 1.0:
            last[x["job"]] = x["time"], x["nodes"]
    named = {id: set(nodes(x)) for id, (at, x) in last.items() if x and at < ran[id][1] - 1.0}
    there = sum(x <= ran[id][2] for id, x in named.items())
    done = sum(state == "COMPLETED" for state, *_ in ran.values())
    print(f"{done} of {given.jobs} jobs ended well; {len(named)} were named nodes, {there} of these ran there")
    print(f"jobs that had nodes after steering ended: {len(left)}")
    return int(done < given.jobs or there < len(named) or not named or bool(left))


if __name__ == "__main__":
    sys.exit(main())
