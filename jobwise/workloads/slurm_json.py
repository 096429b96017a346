"""Slurm's JSON of jobs that have ended (sacct, slurmdb REST) as the table that its text gives; of 22.05 to 26.05."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from jobwise.errors import InputError
from jobwise.workloads.accounting import Accounting


def objects_of(text: str, where: str, key: str) -> list[dict]:
    """Return the objects in the list `key` of a JSON document of Slurm's; what else is in it is dropped. Raises InputError
    for a document that is cut or of another kind, and for a list without objects."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: is no whole JSON document: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get(key), list):
        raise InputError(f"{where}: a document with a list {key!r} is expected")
    rows = [x for x in document[key] if isinstance(x, dict)]
    if not rows:
        raise InputError(f"{where}: the list {key!r} is empty")
    return rows


def at(x: Any, *path: str) -> str:
    """The text of what is at a path: lists by their first, {set, infinite, number} by its number; "" for nothing."""
    for key in path:
        x = x.get(key) if isinstance(x, dict) else None
    if isinstance(x, list):
        x = x[0] if x else None
    if isinstance(x, dict) and "number" in x:
        x = "UNLIMITED" if x.get("infinite") else x["number"] if x.get("set", True) else None
    return "" if x is None or isinstance(x, dict) else str(x)


def first_of(x: dict, *paths: tuple[str, ...]) -> str:
    """Return the text at the first of these paths where there is one; "" for nothing."""
    return next((value for p in paths if (value := at(x, *p))), "")


def _listed(x: dict, which: str) -> list[dict]:
    """The trackable resources of a job; nothing where they are of another kind."""
    every = x.get("tres")
    rows = every.get(which) if isinstance(every, dict) else None
    return [r for r in rows if isinstance(r, dict)] if isinstance(rows, list) else []


def _tres(x: dict, which: str) -> str:
    """cpu=4,mem=4000M,gres/gpu=2 of the list of trackable resources."""
    parts = []
    for r in _listed(x, which):
        name = f"{r.get('type')}/{r['name']}" if r.get("name") else str(r.get("type"))
        if r.get("count") is not None:
            parts.append(f"{name}={r['count']}{'M' if r.get('type') == 'mem' else ''}")
    return ",".join(parts)


def _consumed(x: dict) -> str:
    """J of a job among its trackable resources; "" where they are not counted."""
    return next((str(r["count"]) for r in _listed(x, "allocated") if r.get("type") == "energy" and r.get("count")), "")


def _time(x: dict, key: str) -> str:
    value = at(x, "time", key)
    return "" if value in ("0", "UNLIMITED") else value


def _id(x: dict) -> str:
    """The job's id as sacct prints it: 500_3 of a task of an array, 1500+1 of a part of a heterogeneous job."""
    array, task = at(x, "array", "job_id"), at(x, "array", "task_id")
    het, part = at(x, "het", "job_id"), at(x, "het", "job_offset")
    if array not in ("", "0") and task.isdigit():
        return f"{array}_{task}"
    return f"{het}+{part}" if het not in ("", "0") and part.isdigit() else at(x, "job_id")


def _line(x: dict) -> str:
    """The submit line; where it is empty (before 23.11), how many tasks of its array may run at once."""
    most = at(x, "array", "limits", "max", "running", "tasks")
    return at(x, "submit_line") or (f"sbatch --array=0%{most}" if most not in ("", "0") else "")


def _count(x: dict, which: str) -> str:
    for r in _listed(x, which):
        if r.get("type") == "cpu":
            return str(r.get("count") or 0)
    return "0"


def accounting(text: str, where: str) -> Accounting:
    """The rows of `sacct --json`. Raises InputError."""
    return of_jobs(objects_of(text, where, "jobs"), where)


def of_jobs(jobs: list[dict], where: str) -> Accounting:
    """Return the rows of objects of `sacct --json`."""
    rows = [
        {
            "JobID": _id(x),
            "JobIDRaw": at(x, "job_id"),
            "JobName": at(x, "name"),
            "User": first_of(x, ("association", "user"), ("user",)),
            "Account": at(x, "account"),
            "Partition": at(x, "partition"),
            "QOS": at(x, "qos"),
            "State": at(x, "state", "current"),
            "Submit": _time(x, "submission"),
            "Eligible": _time(x, "eligible"),
            "Start": _time(x, "start"),
            "End": _time(x, "end") or "Unknown",
            "ElapsedRaw": at(x, "time", "elapsed"),
            "TimelimitRaw": at(x, "time", "limit"),
            "NNodes": at(x, "allocation_nodes"),
            "NCPUS": _count(x, "allocated"),
            "ReqCPUS": at(x, "required", "CPUs") or _count(x, "requested"),
            "ReqMem": "",
            "ReqTRES": _tres(x, "requested"),
            "AllocTRES": _tres(x, "allocated"),
            "ConsumedEnergyRaw": _consumed(x),
            "NodeList": at(x, "nodes"),
            "Constraints": at(x, "constraints"),
            "SubmitLine": _line(x),
        }
        for x in jobs
    ]
    columns = {k: pa.array([r[k] for r in rows], pa.string()) for k in rows[0]}
    return Accounting(where, np.arange(1, len(rows) + 1), columns)
