"""Speed: jobs per second, growth, memory, start-up. Writes benchmarks/RESULTS.md; nothing in it is typed by hand.

python -m benchmarks [--traces FOLDER] [--quick]
python -m benchmarks compare OLD: this checkout against another, in turns
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np

import jobwise as jw
from benchmarks.compare import main as compare
from benchmarks.learning import learning
from benchmarks.markdown import page, table
from benchmarks.timing import seconds
from jobwise.report.sections import made
from jobwise.workloads.transform import first, stretch

HERE = Path(__file__).parent
SCHEDULERS = ["fcfs", "fcfs+easy", "sjf+easy", "saf+easy+guard24h", "wfp3+easy", "unicef+easy"]


def section(title: str, note: str, columns: list[str], rows: list[list[str]]) -> str:
    """A section of the results in Markdown."""
    return "\n".join([f"## {title}", "", note, "", *table(columns, rows)]) + "\n"


def rate(jobs: int, s: float) -> str:
    return f"{jobs / s / 1e6:.2f} ({s:.3g} s)"


def logs(folder: Path, quick: bool) -> str:
    rows = []
    for path in sorted(folder.glob("*.swf.gz")):
        w = jw.read_swf(path)
        if quick:
            w = first(w, min(len(w), 5000))
        row = [path.name.removesuffix(".swf.gz"), f"{len(w):,}"]
        for p in SCHEDULERS:
            runs = 5 if len(w) < 100_000 else 1
            s = seconds(lambda w=w, p=p: jw.simulate(w, p), runs) if runs > 1 else once(lambda w=w, p=p: jw.simulate(w, p))
            row.append(rate(len(w), s))
        rows.append(row)
        print(row, flush=True)
    return section(
        "Logs",
        "Million jobs per second of `simulate` (wall time); logs of 100,000 jobs and more: one run.",
        ["log", "jobs", *SCHEDULERS],
        rows,
    )


def once(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def growth(quick: bool) -> str:
    rows = []
    for n in (10**4, 10**5, 10**6) if quick else (10**4, 10**5, 10**6, 10**7):
        code = (
            "import sys, time, resource, jobwise as jw\n"
            f"jw.simulate(jw.lublin(1000, 256), 'fcfs+easy'); jw.simulate(jw.lublin(1000, 256), 'sjf+easy')\n"
            f"t = time.perf_counter(); w = jw.lublin({n}, 256, load=0.8, estimates='users'); g = time.perf_counter() - t\n"
            "out = [g]\n"
            "for p in ('fcfs+easy', 'sjf+easy'):\n"
            "    t = time.perf_counter(); jw.simulate(w, p); out.append(time.perf_counter() - t)\n"
            "print(*out, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        g, a, b, memory = map(float, done.stdout.split())
        rows.append([f"{n:,}", f"{g:.2f} s", rate(n, a), rate(n, b), f"{memory:.2f} GiB"])
        print(rows[-1], flush=True)
    note = "Lublin-Feitelson, 256 processors, load 0.8, users' estimates; one run each; memory is the process's peak."
    return section(
        "Growth with the number of jobs",
        note,
        ["jobs", "generate", "fcfs+easy, M jobs/s", "sjf+easy, M jobs/s", "peak memory"],
        rows,
    )


def machines() -> str:
    rows = []
    for procs in (10**2, 10**3, 10**4, 10**5, 10**6):
        w = jw.lublin(100_000, procs, load=0.8, estimates="users")
        rows.append(
            [f"{procs:,}", *[rate(len(w), seconds(lambda w=w, p=p: jw.simulate(w, p), 3)) for p in ("fcfs+easy", "sjf+easy")]]
        )
        print(rows[-1], flush=True)
    note = "100,000 generated jobs with sizes scaled to the machine, load 0.8: million jobs per second."
    return section("Machine size", note, ["processors", "fcfs+easy", "sjf+easy"], rows)


def depth() -> str:
    rows = []
    w = jw.lublin(50_000, 256, load=0.8, estimates="users")
    for squeeze in (1.0, 0.8, 0.6, 0.3, 0.0):
        tight = stretch(w, squeeze)
        r = jw.simulate(tight, "fcfs+easy")
        deep = r.summary()["queue_length"]
        rates = [
            rate(len(w), seconds(lambda t=tight, p=p: jw.simulate(t, p), 1)) for p in ("fcfs+easy", "sjf+easy", "wfp3+easy")
        ]
        rows.append([f"{deep:,.0f}", *rates])
        print(rows[-1], flush=True)
    note = "50,000 generated jobs on 256 processors, arrivals squeezed until all come at once: million jobs per second."
    return section("Queue depth", note, ["mean queue length", "fcfs+easy", "sjf+easy", "wfp3+easy"], rows)


def batch() -> str:
    rows = []
    w = jw.lublin(60_000, 256, load=0.9, estimates="users")
    windows = [w.take(slice(i, i + 1024)) for i in range(0, 57 * 1024, 1024)]
    for e in (1, 4, 16, 64, 256, 1024):
        many = [windows[i % len(windows)] for i in range(e)]
        rows.append(
            [
                f"{e:,}",
                *[rate(1024 * e, seconds(lambda m=many, p=p: jw.simulate_many(m, p), 3)) for p in ("sjf+easy", "wfp3+easy")],
            ]
        )
        print(rows[-1], flush=True)
    note = "E windows of 1,024 jobs in one state (`simulate_many`, one thread): million jobs per second."
    return section("The batch axis", note, ["E", "sjf+easy", "wfp3+easy"], rows)


def twin(folder: Path) -> str:
    sys.path.insert(0, str(HERE.parent / "tests"))
    import naive

    path = folder / "SDSC-SP2-1998-4.2-cln.swf.gz"
    w = jw.read_swf(path) if path.exists() else jw.lublin(20_000, 128, load=0.8, estimates="users")
    rows = []
    for order in ("fcfs", "sjf"):
        fast = seconds(lambda order=order: jw.simulate(w, f"{order}+easy"))
        part = first(w, 5000)
        slow = once(lambda order=order, part=part: naive.replay(naive.table(part), part.cluster.processors, order, "easy"))
        fast_part = seconds(lambda order=order, part=part: jw.simulate(part, f"{order}+easy"))
        rows.append([f"{order}+easy", rate(len(w), fast), f"{len(part) / slow:,.0f}", f"{slow / fast_part:,.0f}"])
    s = seconds(lambda: jw.simulate(w, "fcfs+conservative"), 1)
    rows.append(["fcfs+conservative", rate(len(w), s), "", ""])
    note = f"{w.name}, {len(w):,} jobs; the slow twin of the tests (plain Python) on the first 5,000."
    return section("Against plain Python", note, ["scheduler", "M jobs/s", "twin, jobs/s", "times faster"], rows)


def start_up(folder: Path) -> str:
    path = folder / "SDSC-SP2-1998-4.2-cln.swf.gz"
    commands = [[sys.executable, "-c", "import jobwise"], [sys.executable, "-m", "jobwise.cli", "--help"]]
    if path.exists():
        commands.append([sys.executable, "-m", "jobwise.cli", "simulate", str(path), "--json"])
    rows = []
    for command in commands:
        s = seconds(lambda c=command: subprocess.run(c, capture_output=True, check=True))
        rows.append([" ".join(["python", *(Path(x).name if "/" in x else x for x in command[1:])]), f"{s:.2f} s"])
    return section("Start-up", "Whole processes, kernels cached, median of 5.", ["command", "wall time"], rows)


def main() -> None:
    if sys.argv[1:2] == ["compare"]:
        compare(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, default=Path("traces"), help="folder with SWF logs")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--out", type=page, default=HERE / "RESULTS.md")
    options = parser.parse_args()
    head = (
        f"# Results\n\nMade by {made('make bench')}; do not edit.\n\n"
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, numpy {np.__version__}, "
        f"numba {numba.__version__}.\n"
    )
    parts = [
        start_up(options.traces),
        twin(options.traces),
        logs(options.traces, options.quick),
        growth(options.quick),
        machines(),
        depth(),
        batch(),
        learning(options.traces, options.quick, section),
    ]
    options.out.write_text("\n".join([head, *parts]))
    print(options.out)


if __name__ == "__main__":
    main()
