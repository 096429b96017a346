"""Slurm's JSON, of 22.05 and of 24.11, as the tables that its text gives: jobs of sacct and squeue, nodes, partitions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from jobwise.errors import InputError
from jobwise.slurm.client import ENDED, number, state
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


def _first(x: dict, *paths: tuple[str, ...]) -> str:
    return next((value for p in paths if (value := at(x, *p))), "")


def _tres(x: dict, which: str) -> str:
    """cpu=4,mem=4000M,gres/gpu=2 of the list of trackable resources."""
    parts = []
    for r in x.get("tres", {}).get(which) or []:
        name = f"{r.get('type')}/{r['name']}" if r.get("name") else str(r.get("type"))
        if r.get("count") is not None:
            parts.append(f"{name}={r['count']}{'M' if r.get('type') == 'mem' else ''}")
    return ",".join(parts)


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


def accounting(text: str, where: str) -> Accounting:
    """The rows of `sacct --json`. Raises InputError."""
    rows = [
        {
            "JobID": _id(x),
            "JobIDRaw": at(x, "job_id"),
            "JobName": at(x, "name"),
            "User": _first(x, ("association", "user"), ("user",)),
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
            "NodeList": at(x, "nodes"),
            "Constraints": at(x, "constraints"),
            "SubmitLine": _line(x),
        }
        for x in objects_of(text, where, "jobs")
    ]
    columns = {k: pa.array([r[k] for r in rows], pa.string()) for k in rows[0]}
    return Accounting(where, np.arange(1, len(rows) + 1), columns)


def of_queue(x: dict, line: str = "", memory: str = "") -> dict[str, str]:
    """A job of `squeue --json` as a row of sacct; `line`, `memory`: SubmitLine and ReqMem, which squeue does not tell."""
    id, task = int(number(x.get("job_id"))), number(x.get("array_task_id"), -1.0)
    array, limit = int(number(x.get("array_job_id"))), number(x.get("time_limit"), -1.0)
    kind, eligible = state(x.get("job_state")), number(x.get("eligible_time"))
    cpus = str(int(number(x.get("cpus"), 1)))
    return {
        "JobID": f"{array}_{int(task)}" if array and task >= 0 else str(id),
        "JobIDRaw": str(id),
        "JobName": str(x.get("name") or ""),
        "User": str(x.get("user_name") or ""),
        "Account": str(x.get("account") or ""),
        "Partition": str(x.get("partition") or ""),
        "QOS": str(x.get("qos") or ""),
        "State": kind if kind == "PENDING" or kind in ENDED else "RUNNING",
        "Submit": f"{number(x.get('submit_time')):.0f}",
        "Eligible": f"{eligible:.0f}" if eligible > 0 else "",
        "Start": "" if kind == "PENDING" else f"{number(x.get('start_time')):.0f}",
        "End": f"{number(x.get('end_time')):.0f}" if kind in ENDED else "",
        "ElapsedRaw": "",
        "TimelimitRaw": f"{limit:.0f}" if limit > 0 else "UNLIMITED",
        "NNodes": str(int(number(x.get("node_count"), 1))),
        "NCPUS": cpus,
        "ReqCPUS": cpus,
        "ReqMem": memory,
        "ReqTRES": str(x.get("tres_req_str") or "").removeprefix(","),
        "AllocTRES": str(x.get("tres_alloc_str") or ""),
        "NodeList": str(x.get("nodes") or ""),
        "Constraints": str(x.get("features") or ""),
        "SubmitLine": line,
    }


def _count(x: dict, which: str) -> str:
    for r in x.get("tres", {}).get(which) or []:
        if r.get("type") == "cpu":
            return str(r.get("count") or 0)
    return "0"


def nodes(text: str, where: str) -> list[dict[str, str]]:
    """Return records like those of `scontrol show node`, from `scontrol show node --json` or `sinfo --json` of 22.05."""
    return [
        {
            "NodeName": at(x, "name"),
            "CPUTot": at(x, "cpus"),
            "CPUEfctv": at(x, "effective_cpus"),
            "RealMemory": at(x, "real_memory"),
            "MemSpecLimit": at(x, "specialized_memory"),
            "CoreSpecCount": at(x, "specialized_cores"),
            "ThreadsPerCore": at(x, "threads") or "1",
            "CoresPerSocket": at(x, "cores") or "1",
            "Sockets": at(x, "sockets") or "1",
            "Gres": at(x, "gres"),
            "Weight": at(x, "weight") or "1",
            "State": "+".join(map(str, x["state"])) if isinstance(x.get("state"), list) else at(x, "state"),
            "AvailableFeatures": ",".join(map(str, x["features"]))
            if isinstance(x.get("features"), list)
            else at(x, "features"),
        }
        for x in objects_of(text, where, "nodes")
    ]


def partitions(text: str, where: str) -> list[dict[str, str]]:
    """Return records like those of `scontrol show partition`, from its JSON (24.11) or the REST interface's (22.05)."""
    return [
        {
            "PartitionName": at(x, "name"),
            "Nodes": _first(x, ("nodes", "configured"), ("nodes",)),
            "PriorityJobFactor": _first(x, ("priority", "job_factor"), ("priority_job_factor",)) or "1",
            "PriorityTier": _first(x, ("priority", "tier"), ("priority_tier",)) or "1",
            "MaxTime": _minutes(_first(x, ("maximums", "time"), ("max_time_limit",))),
            "MaxNodes": _first(x, ("maximums", "nodes"), ("maximum_nodes_per_job",)),
            "MinNodes": at(x, "minimums", "nodes"),
            "MaxCPUsPerNode": at(x, "maximums", "cpus_per_node"),
            "MaxCPUsPerSocket": at(x, "maximums", "cpus_per_socket"),
            "QoS": at(x, "qos", "assigned"),
            "OverSubscribe": _shared(x),
            "Exclusive": at(x, "partition", "exclusive"),
            "PreemptMode": at(x, "preempt_mode"),
            "GraceTime": at(x, "grace_time"),
            "TRESBillingWeights": at(x, "tres", "billing_weights"),
            "State": _first(x, ("partition", "state"), ("state",)) or "UP",
        }
        for x in objects_of(text, where, "partitions")
    ]


def _shared(x: dict) -> str:
    """NO, EXCLUSIVE or FORCE:2; before 25.05 whole nodes are no shares at all."""
    if text := at(x, "partition", "oversubscribe"):
        return text
    most, flags = at(x, "maximums", "shares"), at(x, "maximums", "oversubscribe", "flags")
    if most == "0":
        return "EXCLUSIVE"
    jobs = at(x, "maximums", "oversubscribe", "jobs") or "1"
    return f"FORCE:{jobs}" if flags.lower() == "force" else "NO" if jobs in ("0", "1") else f"YES:{jobs}"


def _minutes(text: str) -> str:
    return text if text not in ("-1", "") else "UNLIMITED"
