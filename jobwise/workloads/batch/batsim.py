"""Batsim's workloads in JSON, read and written: jobs whose profiles take a known time (delays, and sequences of delays)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

DELAYS = ("delay", "DelayProfile")
SERIES = ("composed", "SequentialCompositionProfile")
READING = ("Run times are those of delays; a job without walltime has its run time as the limit.",)


def knows(f: LogFile) -> bool:
    """Return whether the file is a workload of Batsim."""
    return isinstance(f.document, dict) and {"jobs", "profiles"} <= set(f.document)


def read(f: LogFile) -> Workload:
    """Return the jobs whose run times the file tells. Raises InputError."""
    document: Any = f.document
    t = JobTable(f.source, f.name, "processors", machine=_whole(document.get("nb_res")), reading=READING)
    profiles = document["profiles"] if isinstance(document["profiles"], dict) else {}
    rows = []
    for n, x in enumerate(f.objects, 1):
        seconds = _seconds(profiles, x.get("profile"))
        if seconds is None:
            t.drop("whose profile is a computation, which takes a platform's time", 1)
            continue
        wall = x.get("walltime")
        limit = wall if isinstance(wall, int | float) and wall > 0 else ""
        rows.append((n, {"submit": x.get("subtime"), "run": seconds, "walltime": limit, "processors": x.get("res"), "job": n}))
    t.add_rows(rows, dict)
    return t.workload(f.procs)


def _whole(value: Any) -> int:
    """Return a whole number of at least 0; 0 for anything else."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**31 else 0


def _seconds(profiles: dict[str, Any], name: Any, depth: int = 0) -> float | None:
    """s that a profile takes; None where that depends on a platform."""
    p = profiles.get(str(name))
    if not isinstance(p, dict) or depth > 20:
        return None
    if p.get("type") in DELAYS and isinstance(p.get("delay"), int | float):
        return float(p["delay"])
    if p.get("type") in SERIES and isinstance(p.get("seq"), list):
        parts = [_seconds(profiles, x, depth + 1) for x in p["seq"]]
        return None if None in parts else (_whole(p.get("repeat")) or 1) * sum(x for x in parts if x is not None)
    return None


def write(w: Workload, path: str) -> None:
    """Write a log as a workload of Batsim: a delay a job. Raises InputError for jobs of several resources."""
    if w.jobs["request"].shape[1] > 1 or len(w.edges):
        raise InputError(f"{w.name}: a Batsim workload has jobs of one resource that wait for no others")
    runs = w.truth["runtime"]
    names = [f"delay{x:g}" for x in runs]
    profiles = {n: {"type": "delay", "delay": float(x)} for n, x in zip(names, runs, strict=True)}
    ids = w.columns["job"].astype(int).tolist() if "job" in w.columns else range(1, len(w) + 1)
    ids = list(range(1, len(w) + 1)) if len(set(ids)) < len(w) else ids
    jobs = [
        {"id": str(i), "subtime": float(s), "res": int(n), "walltime": float(t), "profile": p}
        for i, s, n, t, p in zip(ids, w.jobs["submit"], w.jobs["request"][:, 0], w.jobs["walltime"], names, strict=True)
    ]
    document = {"nb_res": w.cluster.processors, "jobs": jobs, "profiles": profiles}
    write_whole(Path(path) if path != "-" else path, (json.dumps(document, indent=1) + "\n").encode())
