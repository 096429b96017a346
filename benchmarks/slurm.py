"""A site's own Slurm in the simulator: recorded against simulated waits, and speed.

python -m benchmarks.slurm FOLDER_WITH_RECORDINGS FOLDER_WITH_LOGS

writes benchmarks/SLURM.md; nothing in it is typed by hand.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import jobwise as jw
from benchmarks.markdown import table
from benchmarks.timing import seconds
from jobwise.metrics import wait
from jobwise.report.sections import made
from jobwise.simulate import simulate
from jobwise.slurm.judge.closed_loop import follow
from jobwise.slurm.judge.fidelity import COLUMNS, EXPLAINED, POOL, fidelity
from jobwise.slurm.judge.open_loop import check
from jobwise.slurm.judge.tune import tune
from jobwise.slurm.read.controller_log import LOG
from jobwise.slurm.read.recording import EVENTS
from jobwise.slurm.read.recording import read as read_recording
from jobwise.slurm.read.site import FIELDS, read
from jobwise.workloads.sites import generated, on_site
from jobwise_experiments.study import read_log

HERE = Path(__file__).parent
GENERATED = (  # jobs, nodes, policy
    (100_000, 1000, "slurm"), (100_000, 1000, "saf+easy"), (100_000, 1000, "saf+slurm"), (5_000, 10_000, "slurm"),
    (20_000, 10_000, "saf+easy"),
)  # fmt: skip
ROWS = 1_000_000
LOGS = ("HPC2N", "SDSC-SP2", "LANL-CM5", "ALCF-Theta", "MetaCentrum")  # whose waits are recorded
SITES = ((2_000, 64, 4), (10_000, 500, 16), (10_000, 1000, 8))  # jobs, nodes, CPUs of a node


def _passes(folder: Path) -> list[str]:
    """A recording pass by pass, and with its clocks."""
    recording = read_recording(folder)
    checked = check(recording)
    followed = follow(recording, checked)
    counts = (
        f"{x.equal:,}{f' ({x.explained})' if x.explained else ''} of {x.all:,}"
        for x in (checked.main, checked.backfill, checked.plans)
    )
    return [folder.name, *counts, f"{followed.near:.0%}", f"{followed.error:+.1%}"]


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("logs", type=Path)
    told = parser.parse_args()
    rows, speed, real, passes = [], [], [], []
    for folder in sorted(x for x in told.recordings.iterdir() if (x / "sacct.txt").is_file()):
        w = read(folder)
        if (folder / EVENTS).is_file() or (folder / LOG).is_file():
            passes.append(_passes(folder))
            print(passes[-1], flush=True)
        for f in fidelity(w, ["slurm", "fcfs+easy"]):
            rows.append([w.name, f"{len(w)}", f"{f.recorded.mean():.1f}", *f.row()])
    for name in LOGS:
        w = read_log(told.logs, name)
        for f in fidelity(w, POOL)[:2]:
            real.append([w.name, f"{len(w):,}", f"{f.recorded.mean():,.0f}", *f.row()])
            print(real[-1], flush=True)
    for jobs, nodes, cpus in SITES:
        log = jw.lublin(jobs, procs=nodes * cpus, load=0.8, seed=1, estimates="users", users=100)
        w = on_site(log, nodes, cpus, age=1000, fair_share=10_000)
        took = seconds(lambda w=w: simulate(w, "slurm"), 1)
        days = float(simulate(w, "slurm").jobs["end"].max()) / 86_400
        speed.append(
            [f"{jobs:,}", f"{nodes:,}", f"{nodes * cpus:,}", f"{days:.0f}", f"{took:.1f}", f"{days * 86_400 / took:,.0f}"]
        )
        print(speed[-1], flush=True)
    nodes = []
    for jobs, count, policy in GENERATED:
        w = generated(jobs, count, 32, 0.75, seed=0, age=1000, fair_share=1000, size=100, partition=100)
        simulate(generated(100, count, 32, 0.75), policy)
        took = seconds(lambda w=w, policy=policy: simulate(w, policy), 1)
        nodes.append([f"{jobs:,}", f"{count:,}", f"{len(w.cluster.site.asks):,}", policy, f"{took:.1f}"])
        print(nodes[-1], flush=True)
    text = [
        made("python -m benchmarks.slurm RECORDINGS LOGS"),
        "Recorded on a real Slurm 22.05, replayed from what sacct and scontrol printed; when its clocks ticked is not known.",
        f"{EXPLAINED}.",
        "\n".join(table(("recording", "jobs", "recorded s", *COLUMNS), rows)),
        "Pass by pass (`jobwise slurm check`): each computed from the recorded state, equal at the same time and on the same "
        "nodes, and of how many; in parentheses more, where nodes that had just lost a job are taken to be completing. Then "
        "replayed with the recorded clocks, everything that is decided computed.",
        "\n".join(table(("recording", "starts of main passes", "starts of cycles", "plans", "near", "mean wait"), passes)),
        f"Logs whose waits are recorded, replayed on a pool: of {', '.join(POOL)} the two that come nearest. These sites had "
        "queues, limits and priorities that their logs do not tell, and some machines were smaller at times.",
        "\n".join(table(("log", "jobs", "recorded s", *COLUMNS), real)),
        "Generated jobs under `slurm`, stock settings, age and fair share with 100 users; one core.",
        "\n".join(table(("jobs", "nodes", "CPUs", "days simulated", "seconds", "times real time"), speed)),
        "Generated sites (`jobwise.workloads.sites.generated`): nodes of 32 CPUs, 192 GiB, a tenth of them with 4 GPUs; three "
        "partitions, load 0.75; backfill parameters as Slurm has them; one core.",
        "\n".join(table(("jobs", "nodes", "kinds of requests", "policy", "seconds"), nodes)),
        "`tune` on generated sites (8,000 jobs, 100 nodes of 32 CPUs, load 0.95; their recorded waits are those of the "
        "simulator), judged on the last 30 % of the jobs: changes of the mean wait with 95 % intervals, the longest wait in "
        "times the present one (largest of the replicas); steering: `smith-aged+slurm`.",
        "\n".join(table(("weights, bound", "proposed", "mean wait", "longest wait", "steering", "longest wait"), tuning())),
        f"Reading {ROWS:,} rows of sacct (24 columns, every SubmitLine different): seconds, largest memory.",
        "\n".join(table(("as", "seconds", "MiB"), reading())),
    ]
    (HERE / "SLURM.md").write_text("\n\n".join(text) + "\n")


def tuning() -> list[list[str]]:
    """What `tune` proposes on three generated sites, and with a loose bound."""
    rows = []
    for weights, bound in (({"age": 1000, "size": 1000}, 1.2), ({"age": 1000}, 1.2), ({}, 1.2), ({}, 2.0)):
        w = generated(8_000, 100, 32, 0.95, seed=5, **weights)
        w = replace(w, columns=w.columns | {"wait": wait(simulate(w, "slurm"))})
        t = tune(w, max_wait=bound, others=["smith-aged+slurm"])
        name = ", ".join(f"{k} {v}" for k, v in weights.items()) or "none"
        ours = [t.test.wait.text(), f"{t.test.longest.max():.2f}"] if t.test else ["", ""]
        told = " ".join(t.proposed) or ("nothing is certain" if t.test else "change nothing")
        other = t.others[0]
        rows.append([f"{name}; {bound:g} x", told, *ours, other.wait.text(), f"{other.longest.max():.2f}"])
        print(rows[-1], flush=True)
    return rows


def reading() -> list[list[str]]:
    """Seconds and memory of reading a generated export, each in a process of its own."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sacct.txt"
        export(file)
        machine = "".join(f"NodeName=node{k:03d} CPUTot=64 RealMemory=600000 State=IDLE\n" for k in range(1000))
        (Path(folder) / "scontrol_node.txt").write_text(machine)
        (Path(folder) / "scontrol_partition.txt").write_text("PartitionName=batch Nodes=node[000-999] State=UP\n")
        for what, code in (
            ("a log", "import jobwise as jw; jw.read_sacct(sys.argv[1])"),
            ("a site", "from jobwise.slurm.read.site import read; read(sys.argv[2])"),
        ):
            told = f"import sys, time, resource; t = time.time(); {code}; print(time.time() - t); "
            told += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
            out = subprocess.run([sys.executable, "-c", told, str(file), folder], capture_output=True, text=True, check=True)
            took, most = map(float, out.stdout.split())
            rows.append([what, f"{took:.1f}", f"{most:,.0f}"])
            print(rows[-1], flush=True)
    return rows


def export(file: Path) -> None:
    """Write rows as sacct prints them."""
    rng, t0 = np.random.default_rng(0), np.datetime64("2026-01-01T00:00:00")
    submit = t0 + np.cumsum(rng.integers(0, 20, ROWS))
    start = submit + rng.integers(0, 4000, ROWS)
    run, size, user, node = (
        rng.integers(1, 80_000, ROWS),
        2 ** rng.integers(0, 7, ROWS),
        rng.integers(0, 400, ROWS),
        rng.integers(0, 1000, ROWS),
    )
    with file.open("w") as out:
        out.write(FIELDS.replace(",", "|") + "\n")
        for i in range(ROWS):
            n, tres = size[i], f"billing={size[i]},cpu={size[i]},mem={size[i] * 2}G,node=1"
            first = (
                f"{i}|{i}|job{i % 5000}|u{user[i]}|a{user[i] % 40}|batch|normal|COMPLETED|{submit[i]}|{submit[i]}|{start[i]}"
            )
            more = f"{start[i] + run[i]}|{run[i]}|{run[i] // 60 + 9}|1|{n}|{n}|{2 * n}G|{tres}|{tres}|node{node[i]:03d}|9|"
            out.write(f"{first}|{more}|sbatch -n {n} --mem-per-cpu=2G -o /scratch/{i}/out.txt run_{i}.sh\n")


if __name__ == "__main__":
    main()
