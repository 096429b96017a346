"""A site's own Slurm in the simulator: recorded against simulated waits, and speed.

python -m benchmarks.slurm FOLDER_WITH_RECORDINGS FOLDER_WITH_LOGS

writes benchmarks/SLURM.md; nothing in it is typed by hand.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jobwise as jw
from benchmarks.timing import seconds
from jobwise import __version__
from jobwise.simulate import simulate
from jobwise.slurm.fidelity import COLUMNS, EXPLAINED, POOL, fidelity
from jobwise.slurm.site import read
from jobwise.studies import read_log
from jobwise.workloads.sites import on_site

HERE = Path(__file__).parent
LOGS = ("HPC2N", "SDSC-SP2", "LANL-CM5", "ALCF-Theta", "MetaCentrum")  # whose waits are recorded
SITES = ((2_000, 64, 4), (10_000, 500, 16), (10_000, 1000, 8))  # jobs, nodes, CPUs of a node


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("logs", type=Path)
    told = parser.parse_args()
    rows, speed, real = [], [], []
    for folder in sorted(x for x in told.recordings.iterdir() if (x / "sacct.txt").is_file()):
        w = read(folder)
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
    text = [
        f"`python -m benchmarks.slurm RECORDINGS LOGS`, jobwise {__version__}",
        "Recorded on a real Slurm 22.05, replayed from what sacct and scontrol printed; when its clocks ticked is not known.",
        f"{EXPLAINED}.",
        _table(("recording", "jobs", "recorded s", *COLUMNS), rows),
        f"Logs whose waits are recorded, replayed on a pool: of {', '.join(POOL)} the two that come nearest. These sites had "
        "queues, limits and priorities that their logs do not tell, and some machines were smaller at times.",
        _table(("log", "jobs", "recorded s", *COLUMNS), real),
        "Generated jobs under `slurm`, stock settings, age and fair share with 100 users; one core.",
        _table(("jobs", "nodes", "CPUs", "days simulated", "seconds", "times real time"), speed),
    ]
    (HERE / "SLURM.md").write_text("\n\n".join(text) + "\n")


def _table(columns, rows) -> str:
    lines = ["| " + " | ".join(r) + " |" for r in (columns, *rows)]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]])


if __name__ == "__main__":
    main()
