"""Locality profiles: how much longer a type of jobs runs by how far it is spread over nodes, from a CSV file.

    type,spread,slowdown      spread 0: on as few nodes as can hold the job, 1: on as many as it can use
    resnet50,0,1.0            slowdown: how many times as long as at the type's best
    resnet50,1,1.35           (numbers between are linear)

`v100` ships with jobwise: data-parallel training on NVIDIA V100s, GPUs on one server against GPUs on many, measured by the
authors of Gavel (OSDI 2020; github.com/stanford-futuredata/gavel, MIT license); `measured` makes the table from their file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from jobwise.cluster import Slowdown, nodes
from jobwise.errors import InputError, unknown
from jobwise.jobs import COMPUTE, NETWORK
from jobwise.workload import Workload, workload
from jobwise.workloads.gpu import CPUS_PER_GPU, MOST_BYTES, gavel_files, number, table
from jobwise.workloads.opened import read_bytes

POINTS = 21  # degrees of spread that a profile is kept at
SHIPPED = {"v100": Path(__file__).parent / "locality_v100.csv"}
MOST_TYPES = 100


@dataclass(frozen=True)
class Locality:
    """Types of jobs: K names, and `types` [K][POINTS] how many times as long as at its best each runs, by its spread."""

    names: tuple[str, ...]
    types: tuple[tuple[float, ...], ...]

    @property
    def kinds(self) -> np.ndarray:
        """[K] NETWORK for types that spreading slows down more than packing does, else COMPUTE."""
        x = np.array(self.types)
        return np.where(x[:, -1] > x[:, 0], NETWORK, COMPUTE)

    @property
    def slowdown(self) -> Slowdown:
        """The slowdowns of a cluster that runs these types; schedulers expect of a kind the mean of its types."""
        x, kinds = np.array(self.types), self.kinds
        mean = [float(x[kinds == k, at].mean()) - 1.0 if (kinds == k).any() else 0.0 for k, at in ((NETWORK, -1), (COMPUTE, 0))]
        return Slowdown(network=mean[0], compute=mean[1], types=self.types)

    def given(self, w: Workload, types: np.ndarray) -> Workload:
        """Return a workload whose jobs are of `types` [J], rows of this table (-1: of none, as fast anywhere)."""
        jobs, truth = w.jobs.copy(), w.truth.copy()
        jobs["kind"] = np.where(types >= 0, self.kinds[types], -1)
        truth["kind"] = np.where(types >= 0, 2 + types, -1)
        return replace(w, jobs=jobs, truth=truth, cluster=replace(w.cluster, slowdown=self.slowdown))

    def drawn(self, compute: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """[J] types of jobs, compute-intensive where `compute` [J]; each type of a kind is as likely. Raises InputError."""
        pools = [np.flatnonzero(self.kinds == k) for k in (NETWORK, COMPUTE)]
        for pool, asked, kind in zip(pools, (~compute, compute), ("network", "compute"), strict=True):
            if asked.any() and not len(pool):
                raise InputError(f"the locality profiles have no {kind}-intensive type, and such jobs are asked for")
        at = rng.random(len(compute))
        picked = [pool[(at * len(pool)).astype(int)] if len(pool) else np.zeros(len(at), int) for pool in pools]
        return np.where(compute, picked[1], picked[0])


def read_locality(source: str | Path) -> Locality:
    """Read profiles from a CSV file, or those that ship under a name (`v100`). Raises InputError naming file and line."""
    path = SHIPPED.get(str(source), Path(source))
    if not path.is_file():
        raise unknown("file or locality profile", str(source), SHIPPED)
    points: dict[str, dict[float, float]] = {}
    for line, row in enumerate(table(path, "type", "spread", "slowdown"), 2):
        spread, slowdown = number(path, line, row, "spread"), number(path, line, row, "slowdown")
        if not 0 <= spread <= 1:
            raise InputError(f"{path}:{line}: spread is {spread:g}; 0 (packed) to 1 (on as many nodes as possible) is expected")
        if not 1 <= slowdown < 1e3:
            raise InputError(f"{path}:{line}: slowdown is {slowdown:g}; 1 (at its best) to 1000 is expected")
        if spread in points.setdefault(row["type"], {}):
            raise InputError(f"{path}:{line}: type {row['type']!r} has a second line for spread {spread:g}")
        points[row["type"]][spread] = slowdown
    if not 1 <= len(points) <= MOST_TYPES:
        raise InputError(f"{path}: has {len(points)} types of jobs; 1 to {MOST_TYPES} are expected")
    for name, one in points.items():
        if not {0.0, 1.0} <= set(one):
            raise InputError(f"{path}: type {name!r} has no line for spread {min({0.0, 1.0} - set(one)):g}")
    grid = np.linspace(0.0, 1.0, POINTS)
    types = [np.interp(grid, sorted(one), [one[x] for x in sorted(one)]) for one in points.values()]
    return Locality(tuple(points), tuple(tuple(float(y) for y in x) for x in types))


def measured(speeds: dict[str, dict[str, dict]], gpu: str = "v100") -> list[tuple[str, float, float]]:
    """Return rows (type, spread, slowdown) of Gavel's table of speeds: of each type that was measured on several GPUs of one
    server and of many, the geometric mean over 2, 4 and 8 GPUs."""
    ratios: dict[str, list[float]] = {}
    for key, value in speeds[gpu].items():
        name, _, gpus = key.removeprefix("('").removesuffix(")").rpartition("', ")
        far = speeds[f"{gpu}_unconsolidated"].get(key, {}).get("null", 0.0)
        if int(gpus) > 1 and far > 0 and value["null"] > 0:
            ratios.setdefault(name, []).append(value["null"] / far)
    rows: list[tuple[str, float, float]] = []
    for name, x in ratios.items():
        ratio = float(np.exp(np.mean(np.log(x))))
        rows += [(name, 0.0, round(max(1.0 / ratio, 1.0), 3)), (name, 1.0, round(max(ratio, 1.0), 3))]
    return rows


def gavel_jobs(source: str | Path, virtual: str = "103959", count: int = 4, gpus: int = 4) -> Workload | None:
    """Gavel's jobs (arrivals of Philly, types of training jobs) of a virtual cluster on `count` nodes of `gpus` GPUs, with the
    measured profiles `v100`; run times are those on V100 GPUs of one server, and are known.

    `source`: a folder with both files of Gavel (None where it has none). Raises InputError.
    """
    if (files := gavel_files(source)) is None:
        return None
    try:
        speeds = {k: float(v["null"]) for k, v in json.loads(read_bytes(files[1], MOST_BYTES))["v100"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{files[1]}: is no table of speeds of v100: {error}") from None
    rows, names, missing = [], [], 0
    for line, row in enumerate(table(files[0], "job_type", "total_steps", "arrival_time_s", "num_gpus", "virtual_cluster"), 2):
        if row["virtual_cluster"] != virtual:
            continue
        n, steps = int(number(files[0], line, row, "num_gpus")), number(files[0], line, row, "total_steps")
        speed = speeds.get(f"('{row['job_type']}', {n})", 0.0)
        if speed <= 0 or n > count * gpus:
            missing += 1
            continue
        rows.append((number(files[0], line, row, "arrival_time_s"), n, max(round(steps / speed), 1)))
        names.append(row["job_type"])
    if not rows:
        raise InputError(f"{files[0]}: has no jobs of virtual cluster {virtual!r} for {count} nodes of {gpus} GPUs")
    x, profiles = np.array(rows, float), read_locality("v100")
    order = np.argsort(x[:, 0], kind="stable")
    request = np.stack([CPUS_PER_GPU * x[order, 1], x[order, 1]], axis=1).astype(int)
    machine, at = nodes(count, cpus=CPUS_PER_GPU * gpus, gpus=gpus), {name: k for k, name in enumerate(profiles.names)}
    w = workload(x[order, 0] - x[order[0], 0], request, x[order, 2], cluster=machine, name=f"gavel-{virtual}")
    w = profiles.given(w, np.array([at.get(names[i], -1) for i in order], int))
    w.dropped.update({"no measured speed": missing} if missing else {})
    return replace(w, reading=("Run times on V100 GPUs are known to the scheduler: the log has no requested times.",))
