"""The simulator beside a real Slurm on this machine: `make check-slurm`, or `python -m benchmarks.check_slurm [--install]`.

Eleven workloads of sleeping jobs run side by side on private clusters of emulated nodes, three times; what Slurm's own commands
tell afterwards is read by `jobwise.slurm.read.site` and replayed under `slurm`, and real runs are compared with each other and
with the replays; its log is checked pass by pass: some thirty-five minutes. Without Slurm it says so.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.slurm_cluster import Cluster, folder_for, install, missing, version
from jobwise.slurm.judge.closed_loop import follow
from jobwise.slurm.judge.fidelity import COLUMNS, fidelity
from jobwise.slurm.judge.open_loop import check
from jobwise.slurm.judge.repeats import COLUMNS as BESIDE
from jobwise.slurm.judge.repeats import repeats
from jobwise.slurm.read import recording
from jobwise.slurm.read.controller_log import LOG
from jobwise.slurm.read.site import COMMANDS, read

NODES, CPUS, JOBS, SPAN = 16, 4, 210, 260.0
FAST = "SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,default_queue_depth=1000,bf_max_job_test=1000"
AGE = ["PriorityWeightAge=1000", "PriorityMaxAge=00:10:00", "PriorityCalcPeriod=1"]


def _nodes(
    memory: int = 8000, gpus: int | str = 0, weight: int = 1, first: int = 1, last: int = NODES, more: str = ""
) -> list[str]:
    more += f" Gres=gpu:{gpus}" if gpus else ""
    base = "NodeName={} NodeAddr=127.0.0.1 Port={} CPUs={} RealMemory={}{} Weight={} State=UNKNOWN"
    return [base.format(f"node{k:02d}", f"@{k}@", CPUS, memory, more, weight) for k in range(first, last + 1)]


BATCH = ["PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]
PLAIN = [*_nodes(), *BATCH, "SelectTypeParameters=CR_Core"]


@dataclass(frozen=True)
class Trial:
    """A workload: its configuration, its accounts, and the options of job k."""

    name: str
    conf: list[str]
    accounts: list[list[str]]
    options: str
    gpus: int = 0
    types: dict[str, str] = field(default_factory=dict)  # of the GPUs of nodes
    acts: tuple[tuple[float, tuple[str, ...]], ...] = ()  # (s, words): what an administrator does
    switches: tuple[str, ...] = ()  # lines of topology.conf


ACCOUNT = [["add", "account", "all"], ["add", "user", "root", "account=all"]]
QOS = [["add", "qos", n, f"priority={p}"] for n, p in (("low", 10), ("high", 100))]
SHARES = [x for n, s in (("bio", 50), ("chem", 30), ("physics", 20)) for x in (
    ["add", "account", n, f"fairshare={s}"], ["add", "user", "root", f"account={n}"])]  # fmt: skip
MAINTENANCE = "reservationname=maint starttime=now+80 duration=2 nodes=node[01-04] users=root flags=ignore_jobs"
TRIALS = [
    Trial("age", [*PLAIN, *AGE, FAST], ACCOUNT, "plain"),
    Trial(
        "size and QOS",
        [*PLAIN, *AGE, "PriorityWeightJobSize=1000", "PriorityWeightQOS=2000", FAST],
        [*QOS, *ACCOUNT, ["modify", "user", "root", "set", "qos=low,normal,high"]],
        "qos",
    ),
    Trial(
        "fair share",
        [
            *PLAIN,
            "PriorityWeightAge=500",
            "PriorityMaxAge=00:10:00",
            "PriorityCalcPeriod=1",
            FAST,
            "PriorityWeightFairShare=10000",
            "PriorityDecayHalfLife=00:03:00",
        ],
        SHARES,
        "account",
    ),  # fmt: skip
    Trial(
        "memory and GPUs",
        [
            *_nodes(last=12),
            *_nodes(16000, 2, 10, 13),
            "SelectTypeParameters=CR_Core_Memory",
            "DefMemPerCPU=1000",
            "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            "PartitionName=gpu Nodes=node[13-16] MaxTime=INFINITE PriorityJobFactor=10 State=UP",
            "PriorityWeightPartition=500",
            *AGE,
            FAST,
        ],
        ACCOUNT,
        "gpu",
        2,
    ),  # fmt: skip
    Trial("stock passes, wrong limits", [*PLAIN, *AGE], ACCOUNT, "wrong"),
    Trial(
        "limits of accounts, licences",
        [*PLAIN, *AGE, FAST, "AccountingStorageEnforce=associations,limits,qos", "Licenses=matlab:4,ansys:2"],
        [
            *SHARES,
            ["modify", "account", "bio", "set", "GrpTRES=cpu=16"],
            ["modify", "user", "root", "where", "account=chem", "set", "MaxJobs=6"],
        ],
        "licences",
    ),
    Trial(
        "drained nodes, a reservation",
        [*PLAIN, *AGE, FAST],
        ACCOUNT,
        "plain",
        acts=(
            (50.0, ("scontrol", *"update nodename=node[05-06] state=drain reason=trial".split())),
            (80.0, ("scontrol", *f"create reservation {MAINTENANCE}".split())),
            (130.0, ("scontrol", *"update nodename=node[05-06] state=resume".split())),
        ),
    ),
    Trial(
        "preemption by partitions, requeued",
        [
            *_nodes(),
            "SelectTypeParameters=CR_Core",
            "PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE State=UP",
            "PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF State=UP",
            "PreemptType=preempt/partition_prio",
            "PreemptMode=REQUEUE",
            *AGE,
            FAST,
        ],
        ACCOUNT,
        "tiers",
    ),
    Trial(
        "preemption by QOS, cancelled",
        [*PLAIN, *AGE, FAST, "PriorityWeightQOS=2000", "PreemptType=preempt/qos", "PreemptMode=CANCEL"],
        [
            *QOS,
            *ACCOUNT,
            ["modify", "user", "root", "set", "qos=low,normal,high"],
            ["modify", "qos", "high", "set", "preempt=low"],
        ],
        "qos",
    ),
    Trial(
        "threads, types of GPUs, parts",
        [
            *_nodes(last=12, more=" Sockets=1 CoresPerSocket=2 ThreadsPerCore=2"),
            *_nodes(16000, "a100:2", 10, 13, 14, " Sockets=1 CoresPerSocket=2 ThreadsPerCore=2"),
            *_nodes(16000, "v100:2", 10, 15, 16, " Sockets=1 CoresPerSocket=2 ThreadsPerCore=2"),
            "SelectTypeParameters=CR_Core_Memory",
            "DefMemPerCPU=1000",
            *BATCH,
            *AGE,
            FAST,
        ],
        ACCOUNT,
        "kinds",
        2,
        {"node[13-14]": "a100", "node[15-16]": "v100"},
    ),
    Trial(
        "switches",
        [*_nodes(last=13), *_nodes(weight=5, first=14), *BATCH, "SelectTypeParameters=CR_Core", *AGE, FAST],
        ACCOUNT,
        "switches",
        switches=(
            *(f"SwitchName=leaf{k} Nodes=node[{4 * k + 1:02d}-{4 * k + 4:02d}]" for k in range(4)),
            "SwitchName=left Switches=leaf[0-1]",
            "SwitchName=right Switches=leaf[2-3]",
            "SwitchName=top Switches=left,right",
        ),
    ),
]


def jobs(t: Trial, seed: int) -> Iterator[tuple[float, list[str]]]:
    """(s, options of sbatch) of each job."""
    rng = np.random.default_rng([seed, len(t.name)])
    when = np.sort(rng.uniform(0, SPAN, JOBS))
    for k in range(JOBS):
        tasks, run = int(rng.choice([1, 2, 4, 8, 16], p=[0.35, 0.25, 0.2, 0.14, 0.06])), rng.uniform(5, 56)
        limit = int(rng.choice([1, 2, 3, 5])) if t.options != "wrong" else int(rng.choice([1, 5, 20, 60]))
        own = ["-n", str(tasks), "-t", str(limit)]
        if t.options == "qos":
            own += ["--qos", str(rng.choice(["low", "normal", "high"], p=[0.4, 0.4, 0.2]))]
        if t.options == "account":
            own += ["-A", str(rng.choice(["bio", "chem", "physics"]))]
        if t.options == "licences":
            own += ["-A", str(rng.choice(["bio", "chem", "physics"], p=[0.4, 0.4, 0.2]))]
            own += ["-L", str(rng.choice(["matlab:1", "matlab:2", "ansys:1"]))] if rng.random() < 0.25 else []
        if t.options == "gpu" and rng.random() < 0.3:
            own = ["-n", "1", "-t", str(limit), "-p", "gpu", "--gres", f"gpu:{rng.integers(1, 3)}"]
        elif t.options == "gpu":
            own += ["--mem-per-cpu", f"{rng.choice([500, 1000, 2000])}M"]
        if t.options == "tiers":
            own += ["-p", "high" if rng.random() < 0.2 else "low"]
        if t.options == "switches" and tasks >= 4:
            own += ["-N", str(tasks // 2)] if rng.random() < 0.5 else []
            own += ["--switches", str(rng.choice(["1", "1@0:30", "2@1:00"]))] if rng.random() < 0.5 else []
        more: list[str] = []
        if t.options == "kinds":
            own, more = _kinds(rng, tasks, limit)
        yield float(when[k]), [*own, "-o", "/dev/null", "--wrap", f"sleep {run:.2f}", *more]


def _kinds(rng: np.random.Generator, tasks: int, limit: int) -> tuple[list[str], list[str]]:
    """(options, those of a second part of the job) of jobs of all kinds."""
    kind, plain = rng.random(), ["-n", str(min(tasks, 8)), "-t", str(limit)]
    if kind < 0.25:
        which = rng.choice(["gpu:a100:1", "gpu:a100:2", "gpu:v100:1", "gpu:1"])
        return ["-n", "1", "-t", str(limit), "--gres", str(which)], []
    if kind < 0.33:
        return plain, [":", "-n", "2", "-t", str(limit)]
    if kind < 0.40:
        return ["-n", "1", "-t", str(limit), "--mem", "0"], []
    if kind < 0.48:
        return [*plain, "-J", "one", "-d", "singleton"], []
    return plain, []


def record(t: Trial, folder: Path, port: int, seed: int, say) -> Path:
    """Run a workload on a real Slurm; the folder that `jobwise slurm site` reads."""
    cluster, out = Cluster(folder, port, t.conf, t.gpus, t.types, t.switches), folder / "told"
    out.mkdir()
    try:
        cluster.start(t.accounts)
        time.sleep(random.uniform(0.0, 30.0))  # clocks of each run tick at another phase
        began = time.monotonic()
        work = [(when, ("sbatch", "--parsable", *words)) for when, words in jobs(t, seed)]
        for k, (when, words) in enumerate(sorted([*work, *t.acts])):
            time.sleep(max(began + when - time.monotonic(), 0.0))
            cluster.run(*words)
            if k % 50 == 0:
                say(f"{t.name}: {k} of {JOBS} jobs submitted")
        while cluster.run("squeue", "-h", "-o", "%i").split():
            time.sleep(2.0)
        time.sleep(3.0)  # accounting lags
        for name, told in COMMANDS.items():
            words = told.split()
            more = dict(w.split("=", 1) for w in words if w.startswith("SLURM_TIME_FORMAT"))
            words = [w for w in words if not w.startswith("SLURM_TIME_FORMAT")]
            (out / f"{name}.txt").write_text(cluster.run(*words, **more))
        shutil.copy(folder / "log" / LOG, out)
    finally:
        cluster.stop()
    return out


def judged(base: Path) -> Iterator[str]:
    """Lines of the report on the runs that lie in a folder. Raises InputError."""
    yield f"| workload | run | recorded s | {' | '.join(COLUMNS[1:])} |\n|{'---|' * (len(COLUMNS) + 2)}"
    of_trial = {t.name: [read(x) for x in _runs(base, k)] for k, t in enumerate(TRIALS) if _runs(base, k)}
    replays = {name: [fidelity(w, ["slurm"])[0] for w in runs] for name, runs in of_trial.items()}
    for name, several in replays.items():
        for k, f in enumerate(several):
            yield f"| {name} | {k + 1} | {f.recorded.mean():.1f} | {' | '.join(f.row()[1:])} |"
    yield "\nReal runs beside each other, and the simulation beside them.\n"
    yield f"| workload | {' | '.join(BESIDE)} | verdict |\n|{'---|' * (len(BESIDE) + 2)}"
    for name, runs in of_trial.items():
        if len(runs) > 1:
            both = repeats(runs, replays[name])
            for row in both.table():
                yield f"| {name} | {' | '.join(row)} | {both.sentence() if row[0] == both.simulated.name else ''} |"
    yield "\nPass by pass (`jobwise slurm check`): equal, and of how many; in parentheses: where nodes were completing.\n"
    yield "| workload | run | starts of main passes | starts of cycles | stops | plans | recorded clocks: near | mean wait |"
    yield f"|{'---|' * 8}"
    for k, t in enumerate(TRIALS):
        for n, folder in enumerate(_runs(base, k)):
            r = recording.read(folder)
            passes = check(r)
            counts = (passes.main, passes.backfill, passes.stops, passes.plans)
            cells, f = [f"{x.equal:,} ({x.explained}) of {x.all:,}" for x in counts], follow(r, passes)
            yield f"| {t.name} | {n + 1} | {' | '.join(cells)} | {f.near:.0%} | {f.error:+.1%} |"


def _runs(base: Path, k: int) -> list[Path]:
    """Folders of the runs of workload k."""
    return sorted(base.glob(f"r*/c{k}/told"))


def main() -> int:
    """Run all; 0 also where Slurm is absent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="install Slurm's packages first (Debian, as root)")
    parser.add_argument("--slurm", metavar="VERSION", help="refuse another Slurm than this, e.g. 26.05")
    parser.add_argument("--keep", help="keep what was recorded in this folder")
    parser.add_argument("--judge", metavar="FOLDER", help="record nothing: judge what --keep has kept in a folder")
    parser.add_argument("--only", type=int, action="append", help="the number of a workload, from 0; may be repeated")
    parser.add_argument("--runs", type=int, default=3, help="how often each workload runs (3)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.judge:
        if not any(Path(args.judge).glob("r*/c*/told")):
            print(f"check-slurm: {args.judge} holds no runs; --keep makes them", file=sys.stderr)
            return 2
        for line in judged(Path(args.judge)):
            print(line, flush=True)
        return 0
    if missing() and args.install:
        try:
            install()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"check-slurm: the packages could not be installed: {error}", file=sys.stderr)
            return 1
    if absent := missing():
        how = "`make check-slurm INSTALL=1` as root installs it on Debian"
        print(f"check-slurm: skipped, Slurm is not installed here (no {', '.join(absent)}); {how}")
        return 0
    if args.slurm and not (found := version()).startswith(args.slurm):
        print(f"check-slurm: PATH has Slurm {found}, not {args.slurm}: put the commands of that one first", file=sys.stderr)
        return 2
    if os.geteuid():
        print("check-slurm: skipped, it starts a database and emulated nodes as root")
        return 0
    base = folder_for("check-slurm", args.keep)

    def one(run: int, k: int) -> Path:
        folder, port = base.resolve() / f"r{run + 1}" / f"c{k}", 26_800 + 100 * k
        return record(
            TRIALS[k], folder, port, args.seed, lambda text: print(f"run {run + 1}: {text}", file=sys.stderr, flush=True)
        )

    for run in range(args.runs):
        with ThreadPoolExecutor(len(TRIALS)) as workers:
            try:
                list(workers.map(partial(one, run), args.only or range(len(TRIALS))))
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                print(f"check-slurm: {error}", file=sys.stderr)
                return 1
    for line in judged(base):
        print(line, flush=True)
    print(f"recorded in {base}" if args.keep else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
