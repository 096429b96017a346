"""Slurm's JSON, of 22.05 and of 24.11, as the tables that its text gives: jobs of squeue, nodes, partitions."""

from __future__ import annotations

from jobwise.slurm.client import ENDED, number, state
from jobwise.workloads.slurm_json import at, first_of, objects_of


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
            "Nodes": first_of(x, ("nodes", "configured"), ("nodes",)),
            "PriorityJobFactor": first_of(x, ("priority", "job_factor"), ("priority_job_factor",)) or "1",
            "PriorityTier": first_of(x, ("priority", "tier"), ("priority_tier",)) or "1",
            "MaxTime": _minutes(first_of(x, ("maximums", "time"), ("max_time_limit",))),
            "MaxNodes": first_of(x, ("maximums", "nodes"), ("maximum_nodes_per_job",)),
            "MinNodes": at(x, "minimums", "nodes"),
            "MaxCPUsPerNode": at(x, "maximums", "cpus_per_node"),
            "MaxCPUsPerSocket": at(x, "maximums", "cpus_per_socket"),
            "QoS": at(x, "qos", "assigned"),
            "OverSubscribe": _shared(x),
            "Exclusive": at(x, "partition", "exclusive"),
            "PreemptMode": at(x, "preempt_mode"),
            "GraceTime": at(x, "grace_time"),
            "TRESBillingWeights": at(x, "tres", "billing_weights"),
            "State": first_of(x, ("partition", "state"), ("state",)) or "UP",
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
