"""What partitions, nodes and jobs of a site ask for, and no replay does: it is named, with how many are concerned."""

from __future__ import annotations

from jobwise.slurm.read.text import said
from jobwise.workloads.accounting import Accounting

UNSIMULATED = "not simulated: "  # how such a remark among the guesses of a site begins
LIMITS = ("MaxCPUsPerNode", "MaxCPUsPerSocket", "DefMemPerCPU", "DefMemPerNode", "MaxMemPerCPU", "MaxMemPerNode")
WHO = ("AllowGroups", "AllowAccounts", "AllowQos", "AllocNodes")
FLAGS = ("ExclusiveUser", "ExclusiveTopo", "LLN", "ReqResv", "RootOnly", "PowerDownOnIdle")
LISTS = ("DenyAccounts", "DenyQos", "TRESBillingWeights", "JobDefaults")
PARTITIONS = {  # key of `scontrol show partition` -> values by which it changes no schedule
    **dict.fromkeys(LIMITS, ("UNLIMITED", "")),
    **dict.fromkeys(WHO, ("ALL",)),
    **dict.fromkeys(FLAGS, ("NO",)),
    **dict.fromkeys(LISTS, ("",)),
    "OverSubscribe": ("NO", "EXCLUSIVE", "YES:4", "FORCE:1", "YES:1"),
    "MinNodes": ("0", "1"),
    "PreemptMode": ("OFF",),
    "GraceTime": ("0",),
    "OverTimeLimit": ("0", "NONE"),
    "SelectTypeParameters": ("",),
}
NODES: dict[str, tuple[str, ...]] = {"CoreSpecCount": ("0",), "MemSpecLimit": ("0",), "CPUSpecList": ("",)}  # of `show node`
LINES = {  # pattern of a SubmitLine -> the option
    r"\s--switches[=\s]": "--switches",
    r"\s(?:-S[\s=]?\d+|--core-spec[=\s])": "--core-spec",
    r"\s(?:-d|--dependency)[=\s]\s*singleton": "--dependency=singleton",
    r"\s--time-min[=\s]": "--time-min",
}


def of_records(records: list[dict[str, str]], harmless: dict[str, tuple[str, ...]], name: str) -> list[str]:
    """Return the keys that records set to a value that is not `harmless`: the first of each, and how many records have one."""
    out = []
    for key, values in harmless.items():
        if own := [r for r in records if key in r and r[key] not in values and said(r[key]) not in values]:
            first = own[0].get("PartitionName", own[0].get("NodeName", ""))
            out.append(f"{key}={own[0][key]} of {first}" + f" ({len(own)} {name})" * (len(own) > 1))
    return out


def of_jobs(a: Accounting) -> list[str]:
    """Return what jobs ask for in their lines, or are, each with how many jobs."""
    out = [f"{name} of {n:,} jobs" for pattern, name in LINES.items() if (n := int(a.matches(pattern, "SubmitLine").sum()))]
    if a.has("JobID") and (n := int(a.matches(r"^\d+\+\d+$", "JobID").sum())):
        out.append(f"heterogeneous jobs: their {n:,} parts start one by one")
    return out
