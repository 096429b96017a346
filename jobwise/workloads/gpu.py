"""GPU cluster logs as workloads of nodes with CPUs and GPUs: Microsoft Philly (ATC'19) and Alibaba 2023 (ATC'23) job tables.

Neither log says what a job is bound by. The rule goes by the request alone, so that a kind tells nothing of a run time: jobs
whose floor(log2(GPUs)) is odd (2, 3, 8 to 15 … GPUs) are network-intensive, the others compute-intensive. Neither log has
requested times either: schedulers know the run times (`Workload.reading` says so wherever results are printed).
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from jobwise.cluster import Affinity, Cluster, Slowdown, nodes
from jobwise.errors import InputError, shown
from jobwise.jobs import COMPUTE, NETWORK
from jobwise.workload import Workload, workload
from jobwise.workloads.opened import read_bytes

PHILLY = "philly_2017.csv.gz"
ALIBABA = "alibaba_2023/openb_pod_list_default.csv.gz"
CPUS_PER_GPU = 2  # Philly's table has no CPUs


READING = ("Run times are known to the scheduler: the log has no requested times. Kinds by the number of GPUs, an assumption.",)


def kind_of(units: np.ndarray) -> np.ndarray:
    """[J] COMPUTE or NETWORK by the rule of this file; units [J]: GPUs of each job (of a log of processors: nodes)."""
    odd = np.floor(np.log2(np.maximum(units, 1.0))).astype(int) % 2 == 1
    return np.where(odd, NETWORK, COMPUTE)


def table(path: Path, *columns: str) -> list[dict[str, str]]:
    """The rows of a CSV file (.gz too). Raises InputError naming the file and the column that is missing."""
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    reader = csv.DictReader(io.StringIO(text))
    missing = [c for c in columns if c not in (reader.fieldnames or [])]
    if missing:
        raise InputError(f"{path}:1: there is no column {missing[0]!r}; it has {shown(reader.fieldnames or [])}")
    return list(reader)


def number(path: Path, line: int, row: dict[str, str], column: str) -> float:
    """Return the number in a column of a row. Raises InputError naming file and line."""
    try:
        return float(row[column])
    except (TypeError, ValueError):
        raise InputError(f"{path}:{line}: {column} is {row[column]!r}; a number is expected") from None


def _build(name: str, rows: list, count: int, cpus: int, gpus: int, slowdown: Slowdown | None, dropped: dict) -> Workload:
    """Jobs (submit, CPUs, GPUs, run time, user); those that the machine cannot hold are left out and counted."""
    x = np.array(rows, float)
    machine = nodes(count, cpus=cpus, gpus=gpus, slowdown=slowdown or Slowdown())
    fits = (x[:, 1] <= count * cpus) & (x[:, 2] <= count * gpus)
    dropped["larger than the machine"] = int((~fits).sum())
    x = x[fits]
    if not len(x):
        raise InputError(f"{name}: no job fits {count} nodes of {cpus} CPUs and {gpus} GPUs")
    w = workload(
        x[:, 0],
        x[:, 1:3].astype(int),
        x[:, 3],
        cluster=machine,
        name=name,
        user=x[:, 4].astype(int),
        kind=kind_of(x[:, 2]),
    )
    w.dropped.update({k: v for k, v in dropped.items() if v})
    w.notes[f"machine guessed, for the log names none: {machine.words}"] = 1
    return replace(w, reading=READING)


def _file(source: str | Path, name: str) -> Path | None:
    path = Path(source)
    if path.is_dir():
        for file in (path / name, path / "gpu" / name, path.parent / "gpu" / name):
            if file.is_file():
                return file
        return None
    return path


def read_philly(
    source: str | Path, cluster: str = "6c71a0", count: int = 6, gpus: int = 8, slowdown: Slowdown | None = None
) -> Workload | None:
    """The jobs of one virtual cluster of Philly on `count` nodes of `gpus` GPUs and twice as many CPUs.

    `source`: the table, or a folder with it (None where it has none). A job takes two CPUs for each GPU. The largest request
    of the default virtual cluster is 16 GPUs; six nodes carry its jobs at a load of 0.8. Raises InputError.
    """
    path = _file(source, PHILLY)
    if path is None:
        return None
    rows_of = table(path, "submit_timestamp", "duration_s", "num_gpus", "virtual_cluster")
    rows, dropped, first = [], dict[str, int](), None
    others = Counter(row["virtual_cluster"] for row in rows_of if row["virtual_cluster"] != cluster)
    if others:
        largest = ", ".join(f"{name} {n:,}" for name, n in others.most_common(3))
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        dropped[f"of other virtual clusters ({largest}{more})"] = sum(others.values())
    dropped["no run time"] = 0
    for line, row in enumerate(rows_of, 2):
        if row["virtual_cluster"] != cluster:
            continue
        try:
            submit = datetime.fromisoformat(row["submit_timestamp"])
        except ValueError:
            raise InputError(f"{path}:{line}: submit_timestamp is {row['submit_timestamp']!r}; a time is expected") from None
        first = first or submit
        run, n = number(path, line, row, "duration_s"), number(path, line, row, "num_gpus")
        if run <= 0 or n <= 0:
            dropped["no run time"] += 1
            continue
        rows.append(((submit - first).total_seconds(), CPUS_PER_GPU * n, n, run, 0))
    if not rows:
        known = sorted({r["virtual_cluster"] for r in rows_of})
        raise InputError(f"{path}: no jobs of virtual cluster {cluster!r}; it has {shown(known)}")
    start = min(r[0] for r in rows)
    rows = [(r[0] - start, *r[1:]) for r in rows]
    return _build(f"philly-{cluster}", rows, count, CPUS_PER_GPU * gpus, gpus, slowdown, dropped)


def read_alibaba(
    source: str | Path,
    count: int = 2,
    cpus: int = 64,
    gpus: int = 8,
    longest_s: float = 86400.0,
    slowdown: Slowdown | None = None,
) -> Workload | None:
    """The pods of Alibaba's GPU cluster of 2023 on `count` nodes; parts of a GPU count as one, parts of a CPU too.

    `source`: the table of pods, or a folder with it (None where it has none). Pods that were never scheduled or deleted, and
    those that ran longer than `longest_s` (services), are left out and counted. Raises InputError.
    """
    path = _file(source, ALIBABA)
    if path is None:
        return None
    rows_of = table(path, "cpu_milli", "num_gpu", "creation_time", "deletion_time", "scheduled_time")
    rows, dropped = [], {"never ran": 0, "services": 0}
    for line, row in enumerate(rows_of, 2):
        if not row["scheduled_time"] or not row["deletion_time"]:
            dropped["never ran"] += 1
            continue
        run = number(path, line, row, "deletion_time") - number(path, line, row, "scheduled_time")
        if run <= 0 or run > longest_s:
            dropped["never ran" if run <= 0 else "services"] += 1
            continue
        need = np.ceil(number(path, line, row, "cpu_milli") / 1000.0), number(path, line, row, "num_gpu")
        rows.append((number(path, line, row, "creation_time"), max(need[0], 1.0), need[1], run, 0))
    if not rows:
        raise InputError(f"{path}: none of {len(rows_of)} pods ran for up to {longest_s:g} s")
    start = min(r[0] for r in rows)
    return _build("alibaba-2023", [(r[0] - start, *r[1:]) for r in rows], count, cpus, gpus, slowdown, dropped)


MOST_BYTES = 256 << 20  # of a table of speeds
GAVEL = ("gavel_philly_typed_jobs.csv.gz", "gavel_throughputs.json.gz")


def gavel_files(folder: str | Path) -> list[Path] | None:
    """Return Gavel's table of jobs and its table of speeds; None where the folder lacks one of them."""
    there = [next((f for f in (Path(folder) / n, Path(folder) / "gpu" / n) if f.is_file()), None) for n in GAVEL]
    files = [f for f in there if f is not None]
    return files if len(files) == len(GAVEL) else None


def read_gavel(
    source: str | Path, counts: dict[str, int] | None = None, gpus: int = 4, rate: float = 1.0, longest_s: float = 864_000.0
) -> Workload | None:
    """Gavel's jobs (OSDI 2020): arrivals of Philly with types of training jobs, on nodes of unlike GPUs, whose measured speeds
    say how many times as long a type runs on each (`Cluster.affinity`; a scheduler sees the classes alone).

    `source`: a folder with both files (None where it has none). `counts`: nodes of each kind of GPU, of `gpus` GPUs; jobs that
    ask for more run on none and are left out, as are those longer than `longest_s` at best. A run time is that on the fastest
    kind, and equals the request. `rate`: arrivals come `rate` times as fast. Raises InputError.
    """
    counts = counts or {"v100": 8, "p100": 8, "k80": 8}
    if (files := gavel_files(source)) is None:
        return None
    data = read_bytes(files[1], MOST_BYTES)
    try:
        speeds = json.loads(data)
        alone = {kind: {k: float(v["null"]) for k, v in speeds[kind].items()} for kind in counts}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{files[1]}: is no table of speeds of {', '.join(counts)}: {error}") from None
    rows: list[tuple] = []
    types: dict[str, tuple] = {}
    dropped = {"no measured speed": 0, "larger than a node": 0, "too long": 0}
    for line, row in enumerate(table(files[0], "job_type", "total_steps", "arrival_time_s", "num_gpus"), 2):
        n = int(number(files[0], line, row, "num_gpus"))
        key = f"('{row['job_type']}', {n})"
        fast = [alone[kind].get(key, 0.0) for kind in counts]
        run = number(files[0], line, row, "total_steps") / max(max(fast), 1e-9)
        why = (
            "larger than a node"
            if n > gpus
            else "no measured speed"
            if min(fast) <= 0
            else "too long"
            if run > longest_s
            else ""
        )
        if why:
            dropped[why] += 1
            continue
        at = types.setdefault(key, (len(types), max(fast) / np.array(fast)))[0]
        rows.append((number(files[0], line, row, "arrival_time_s") / rate, n, max(round(run), 1), at))
    if not rows:
        raise InputError(f"{files[0]}: has no jobs for nodes of {gpus} GPUs")
    x = np.array(sorted(rows), float)
    classes = np.repeat(np.arange(len(counts)), list(counts.values()))
    factors = np.stack([f for _, f in types.values()])[:, classes]
    machine = Cluster(np.full((len(classes), 1), gpus), ("gpus",), affinity=Affinity(factors), classes=classes)
    chunks = np.ones(len(x), int)
    w = workload(
        x[:, 0] - x[0, 0], x[:, 1].astype(int), x[:, 2], cluster=machine, name="gavel", kind=x[:, 3].astype(int), chunks=chunks
    )
    w.dropped.update({k: v for k, v in dropped.items() if v})
    w.notes[f"machine guessed, for the log names none: {machine.words}, of {', '.join(counts)}"] = 1
    return replace(w, reading=("Run times on the fastest GPUs are known to the scheduler: the log has no requested times.",))


def on_nodes(w: Workload, count: int, slowdown: Slowdown | None = None) -> Workload:
    """A log of a pool of processors on `count` equal nodes of CPUs (no GPUs); kinds by the rule of this file for more than
    one node. Raises InputError where the processors do not divide."""
    total = w.cluster.processors
    if not w.cluster.is_pool or total % count:
        raise InputError(f"{w.name}: {total} processors do not make {count} equal nodes")
    each = total // count
    machine = nodes(count, cpus=each, slowdown=slowdown or Slowdown())
    size = w.jobs["request"][:, 0]
    runtime = w.truth["runtime"]
    kind = kind_of(-(-size // each))
    return workload(
        w.jobs["submit"], size, runtime, w.jobs["walltime"], cluster=machine, name=w.name, user=w.jobs["user"], kind=kind
    )
