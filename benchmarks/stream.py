"""Logs that are larger than memory: generated, replayed and written part after part.

python -m benchmarks.stream FOLDER [--jobs N]      writes benchmarks/STREAM.md; FOLDER takes the files (16 GB for 1e8 jobs)
"""

from __future__ import annotations

import argparse
import filecmp
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.scale import table
from jobwise.report.sections import made
from jobwise.streaming import replay
from jobwise.workloads.parquet import ParquetLog

HERE = Path(__file__).parent
POLICIES = ("fcfs+easy", "sjf+easy")
PROCS, LOAD, CHECKED = 1024, 0.7, 1_000_000


def ran(*arguments: str) -> tuple[float, float]:
    """(s of wall time, GiB at most) of a command of jobwise."""
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "jobwise.cli", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: exit {process.returncode}")
    return time.perf_counter() - begun, usage.ru_maxrss / 2**20


def row(name: str, jobs: int, took: float, most: float | None) -> str:
    """A row of the table, printed as it is there."""
    text = f"| {name} | {took:.0f} | {jobs / took / 1e6:.2f} | {'' if most is None else f'{most:.2f}'} |"
    print(text, flush=True)
    return text


def generated(log: Path, jobs: int) -> str:
    """Generate a log; its row."""
    how = ("--jobs", str(jobs), "--procs", str(PROCS), "--load", str(LOAD), "--estimates", "users", "--users", "1000")
    return row(
        "generate it (drawn twice, for the load)", jobs, *ran("trace", "generate", str(log), *how, "--stream", "--force")
    )


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=10**8)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as place:
        log, small, out = (Path(place) / f"{name}.parquet" for name in ("log", "small", "out"))
        generated(small, CHECKED)
        checked = []
        for policy in POLICIES:
            whole, memory = ran("simulate", str(small), "-p", policy, "-o", str(log), "--force")
            parts, most = ran("simulate", str(small), "-p", policy, "-o", str(out), "--force", "--stream")
            same = filecmp.cmp(log, out, shallow=False)
            checked.append(
                f"| `{policy}` | {whole:.1f} | {memory:.2f} | {parts:.1f} | {most:.2f} | {'yes' if same else 'NO'} |"
            )
            print(checked[-1], flush=True)
        rows = [generated(log, asked.jobs)]
        begun = time.perf_counter()
        for _ in ParquetLog(log).parts(replay.AT_ONCE):
            pass
        rows.append(row("read it, and check its rows", asked.jobs, time.perf_counter() - begun, None))
        alone = ran("simulate", str(log), "-p", POLICIES[0], "--stream")
        rows.append(row(f"`{POLICIES[0]}`, measures alone", asked.jobs, *alone))
        for policy in POLICIES:
            written = ran("simulate", str(log), "-p", policy, "--stream", "-o", str(out), "--force")
            rows.append(row(f"`{policy}`, schedule written", asked.jobs, *written))
        sizes = [f"{path.stat().st_size / 1e9:.1f} GB" for path in (log, out)]
    command = f"python -m benchmarks.stream FOLDER --jobs {asked.jobs}"
    text = [
        "# Logs that stream",
        f"{made(command)}. {os.cpu_count()} cores; wall time, reading and the program's start included.",
        f"## {asked.jobs:,} jobs on {PROCS:,} processors, load {LOAD}",
        f"A log of {sizes[0]}, a schedule of {sizes[1]}. `jobwise trace generate --stream`, `jobwise simulate --stream`.",
        table("work | s | million jobs a second | GiB at most", rows),
        f"## The same as in memory: {CHECKED:,} jobs",
        "Both schedules are written as Parquet; are the files the same, byte by byte?",
        table("policy | s, in memory | GiB | s, streamed | GiB | same", checked),
    ]
    (HERE / "STREAM.md").write_text("\n\n".join(text) + "\n")
    print(f"written: {HERE / 'STREAM.md'}")


if __name__ == "__main__":
    main()
