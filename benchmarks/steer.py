"""Steering at size: read, rank, write, with 10,000 jobs that wait; memory over many cycles. Slurm's answers lie in a folder.

python -m benchmarks.steer [--jobs 10000] [--cycles 1000]     # writes benchmarks/STEER.md

Each cycle reads `squeue --json` of so many jobs (ten come, ten go), ranks them under a policy, finds the site factors that
differ and hands them to a Slurm in memory; accounting holds 20,000 ended jobs. Nothing is foreseen for Slurm alone (`steer`
does so every ten minutes where no more than 1,000 wait). Time is that of jobwise alone; a real Slurm takes its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.markdown import table
from jobwise.live import sources
from jobwise.live.cycle import Cycle
from jobwise.live.steer import Steer, SteerSettings
from jobwise.policies.names import resolve
from jobwise.report.sections import made

NODES, CPUS, HISTORY, T0 = 500, 64, 20_000, 1_800_000_000


def job(id: int, now: float) -> dict:
    """A waiting job as squeue tells it."""
    rng = np.random.default_rng(id)
    cpus, minutes, waited = int(rng.choice([1, 4, 16, 64])), int(rng.choice([10, 60, 600])), float(rng.uniform(0, 9000))
    x = {"job_id": id, "job_state": "PENDING", "state_reason": "Priority", "name": f"j{id}", "user_name": f"u{id % 60}"}
    x |= {"account": "all", "partition": "batch", "qos": "normal", "submit_time": int(now - waited), "exit_code": 0}
    x |= {"eligible_time": int(now - waited), "time_limit": minutes, "cpus": cpus, "node_count": 1, "start_time": 0}
    return x | {"tres_req_str": f"cpu={cpus},node=1", "tres_alloc_str": "", "features": "", "nodes": "", "array_job_id": 0}


class Memory:
    """A Slurm in memory, and the folder that stands for its commands."""

    def __init__(self, folder: Path, jobs: int):
        self.folder, self.now, self.next = folder, float(T0 + 400_000), 100_000 + jobs
        self.jobs = {id: job(id, self.now) for id in range(100_000, self.next)}
        self.factors = dict.fromkeys(self.jobs, 0)
        nodes = [f"NodeName=n{i:03d} CPUTot={CPUS} RealMemory=256000 Gres=(null) Weight=1 State=IDLE" for i in range(NODES)]
        (folder / "scontrol_node.txt").write_text("\n".join(nodes) + "\n")
        (folder / "scontrol_partition.txt").write_text(
            f"PartitionName=batch\n   MaxTime=UNLIMITED State=UP\n   Nodes=n[000-{NODES - 1}]\n"
        )
        (folder / "scontrol_config.txt").write_text("PriorityType = priority/multifactor\nPriorityWeightAge = 1000\n")
        names = (
            "JobIDRaw|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS"
        )
        rows = [f"{names}|ReqCPUS|ReqMem|ReqTRES|AllocTRES|NodeList|SubmitLine"]
        for i in range(HISTORY):
            at, run = T0 + 15 * i, 60 + i % 1000
            head = f"{i + 1}|j|u{i % 60}|all|batch|normal|COMPLETED|{at}|{at}|{at + 5}|{at + 5 + run}|{run}|60|1|4|4|"
            rows.append(f"{head}4M|cpu=4,node=1|cpu=4,node=1|n{i % NODES:03d}|sbatch -n 4 job.sh")
        (folder / "sacct.txt").write_text("\n".join(rows) + "\n")

    def step(self) -> None:
        """Ten jobs come, ten go, half a minute passes."""
        self.now += 30.0
        for id in list(self.jobs)[:10]:
            del self.jobs[id], self.factors[id]
        for _ in range(10):
            self.jobs[self.next], self.factors[self.next] = job(self.next, self.now), 0
            self.next += 1
        (self.folder / "squeue.json").write_text(json.dumps({"jobs": list(self.jobs.values())}))
        (self.folder / "now.txt").write_text(f"{self.now}\n")

    def look(self) -> sources.Now:
        """Read the folder."""
        return replace(sources.look(self.folder), factors=self.priorities())

    def close(self) -> None:
        """Nothing is kept."""

    def priorities(self) -> dict[int, tuple[int, int]]:
        """Priorities of their own between 0 and 1,000."""
        return {id: (id % 1000 + x, x) for id, x in self.factors.items()}

    def set_site_factors(self, change: dict[int, int]) -> str:
        """Take the factors over."""
        self.factors |= change
        return ""


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--cycles", type=int, default=1000)
    given, rows = parser.parse_args(), []
    for policy, span in (("saf", 0), ("saf", 1000), ("jobwise", 1000)):
        with tempfile.TemporaryDirectory() as folder:
            slurm, took, changed, memory = Memory(Path(folder), given.jobs), [], [], []
            steer = Steer(slurm, policy, Path(folder) / "state", SteerSettings(span), foresee=0)
            cycle = Cycle(slurm, resolve(policy), [steer])
            for n in range(given.cycles if policy == "saf" and span else 20):
                slurm.step()
                begun = time.perf_counter()
                changed.append(cycle.once().changed)
                took.append(time.perf_counter() - begun)
                if n % 10 == 9:
                    memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            steer.state.close()
        cells = [
            f"`{policy}`",
            f"{span:,}" if span else "all",
            f"{len(took):,}",
            f"{np.median(took):.2f}",
            f"{max(took[1:]):.2f}",
        ]
        rows.append([*cells, f"{np.median(changed[1:]):,.0f}", f"{memory[0]:,.0f}", f"{memory[-1]:,.0f}"])
        print(rows[-1], flush=True)
    columns = ["policy", "span", "cycles", "median, s", "longest, s", "changed, median", "MiB after 10", "MiB at the end"]
    text = ["# Steering at size", "", made("python -m benchmarks.steer") + f": {given.jobs:,} jobs wait."]
    text += ["", (__doc__ or "").split("\n\n")[2].strip(), "", *table(columns, rows)]
    (Path(__file__).parent / "STEER.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
