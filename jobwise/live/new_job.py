"""A job that is not submitted yet, in the queue of a cluster: where Slurm would put it, and what it takes for granted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jobwise.errors import InputError
from jobwise.live.sources import Now, look, output
from jobwise.slurm.read.batch import Batch
from jobwise.slurm.read.jobs import NEW
from jobwise.slurm.read.text import config, records, table
from jobwise.workload import Workload
from jobwise.workloads.fields import seconds

ENFORCED = {"associations", "limits", "qos", "safe"}  # of AccountingStorageEnforce: jobs without an association are refused
NORMAL = "normal"


class Submitted(NamedTuple):
    """The cluster `now` with the new job in its queue, its partition, its time limit (s), and in words what nobody named."""

    now: Now
    partition: str
    limit: float
    assumed: tuple[str, ...]


def submitted(
    folder: Path, asks: Batch, user: str, *, account: str = "", qos: str = "", partition: str | None = None
) -> Submitted:
    """Put a job into the queue of the cluster of a folder. What it does not name is as Slurm has it: the default partition,
    that one's DefaultTime, the user's default QOS; its account is that of most jobs of its user. Raises InputError."""
    before = look(folder)
    w, at, assumed = before.workload, before.now + before.workload.origin, list[str]()
    every = {r["PartitionName"]: r for r in records(output(folder, "scontrol_partition"), "PartitionName")}
    first, *others = asks.options.get("partition", "").split(",")
    name = partition or first or _default(w, every)
    if others and not partition:
        assumed.append(f"of its partitions {first} alone is looked at")
    if name not in w.cluster.known_site.partition_names:
        raise InputError(f"--partition {name!r}: the cluster has {', '.join(w.cluster.known_site.partition_names)}")
    if (limit := asks.limit) is None:
        limit = _default_limit(name, every.get(name, {}))
        assumed.append(f"it names no time limit: that of partition {name} is taken")
    account, qos = account or asks.options.get("account", ""), qos or asks.options.get("qos", "")
    if before.qos and account and (user, account) not in before.qos:
        has = ", ".join(sorted({a for u, a in before.qos if u == user}))
        text = f"{user} has no association with account {account} here{has and f', but with {has}'}"
        if ENFORCED & set(config(output(folder, "scontrol_config")).get("accountingstorageenforce", "").split(",")):
            raise InputError(f"{text}: Slurm would refuse the job")
        assumed.append(f"{text}; Slurm may refuse the job")
    if qos and qos not in w.cluster.known_site.qos_names and output(folder, "sacctmgr_qos"):
        raise InputError(f"--qos {qos!r}: the cluster has {', '.join(w.cluster.known_site.qos_names) or 'none'}")
    if not account and (account := _usual(w, user)):
        assumed.append(f"account {account}, as for most jobs of {user}")
    if not qos and (qos := _default_qos(folder, before, user, account)):
        assumed.append(f"QOS {qos}, the default of {user} there")
    own = {"JobID": str(NEW), "JobIDRaw": str(NEW), "JobName": "new", "User": user, "Account": account}
    own |= {"Partition": name, "QOS": qos, "State": "PENDING", "Submit": f"{int(at)}", "Eligible": f"{int(at)}"}
    own |= {"TimelimitRaw": f"{limit / 60:.0f}", "NNodes": "1", "NCPUS": f"{asks.cpus}", "ReqCPUS": f"{asks.cpus}"}
    own |= {"ReqTRES": f"cpu={asks.cpus}", "SubmitLine": f"sbatch {asks.words} job.sh"}
    return Submitted(look(folder, own), name, limit, tuple(assumed))


def _default(w: Workload, every: dict[str, dict[str, str]]) -> str:
    """The partition of jobs that name none: Slurm's default, else that of most jobs."""
    usual = Counter(w.jobs["partition"].tolist()).most_common(1)[0][0]
    of_most = w.names["partition"][usual].split(",")[0]
    return next((name for name, r in every.items() if r.get("Default") == "YES"), of_most)


def _default_limit(name: str, r: dict[str, str]) -> float:
    """The time limit (s) of jobs of a partition that name none. Raises InputError where it is unknown or none."""
    for key in ("DefaultTime", "MaxTime"):
        text = r.get(key, "NONE")
        if text[:1].isdigit() and (limit := seconds(text)) >= 60:
            return limit
        if text == "UNLIMITED":
            break
    raise InputError(f"the job names no time limit, and partition {name} sets none; name one, such as --time=2:00:00")


def _usual(w: Workload, user: str) -> str:
    """The account of most jobs of a user; "" where there are none."""
    own = w.jobs["group"][np.isin(w.jobs["user"], [k for k, x in w.names["user"].items() if x == user])]
    return w.names["group"].get(Counter(own.tolist()).most_common(1)[0][0], "") if len(own) else ""


def _default_qos(folder: Path, c: Now, user: str, account: str) -> str:
    """The QOS of jobs of a user in an account that name none: the association's default, else Slurm's own, normal; "" where
    there is none."""
    for r in table(output(folder, "sacctmgr_assoc")):
        if (r.get("User"), r.get("Account")) == (user, account) and (default := r.get("Def QOS") or r.get("DefaultQOS")):
            return default
    may = c.qos.get((user, account)) or c.workload.cluster.known_site.qos_names
    return NORMAL if NORMAL in may else ""
