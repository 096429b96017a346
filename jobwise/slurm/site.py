"""What a Slurm prints about itself and its jobs, in a folder, as a workload on the cluster of that site.

`COMMANDS` fill the folder (they only read); `sacct` alone is needed. What is missing is guessed from the jobs, and every guess
is named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.site import LIMITS, RESOURCES, Site, ask_dtype, association_dtype, partition_dtype, qos_dtype
from jobwise.slurm import guesses, jobs
from jobwise.slurm.conf import scheduler
from jobwise.slurm.text import config, gpus, nodes, records, resources, said, seconds, table
from jobwise.workload import Workload
from jobwise.workloads.accounting import read as accounts
from jobwise.workloads.sacct import is_sacct

FIELDS = "JobID,JobIDRaw,JobName,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw"
FIELDS += ",NNodes,NCPUS,ReqCPUS,ReqMem,ReqTRES,AllocTRES,NodeList,Priority,Constraints,SubmitLine"
COMMANDS = {
    "sacct": f"SLURM_TIME_FORMAT=%s sacct -a -X -P -S 2026-01-01 -E now --format={FIELDS}",
    "scontrol_config": "scontrol show config",
    "scontrol_node": "scontrol show node -o",
    "scontrol_partition": "scontrol show partition",
    "sacctmgr_qos": "sacctmgr -P show qos",
    "sacctmgr_assoc": "sacctmgr -P show assoc",
}


def commands(folder: str = "FOLDER") -> str:
    """The commands that fill a folder, one a line."""
    return "\n".join(f"{told} > {folder}/{name}.txt" for name, told in COMMANDS.items())


class Sets:
    """Node sets, each once; the first is that of all nodes."""

    def __init__(self, count: int):
        self.count, self.known = count, {np.ones(count, np.uint8).tobytes(): 0}

    def add(self, members: Iterable[int]) -> int:
        """The number of a set of nodes."""
        row = np.zeros(self.count, np.uint8)
        row[list(members)] = 1
        return self.known.setdefault(row.tobytes(), len(self.known))

    def table(self) -> np.ndarray:
        """[M, N] of 0 and 1."""
        return np.array([np.frombuffer(k, np.uint8) for k in self.known])


def read(folder: str | Path) -> Workload:
    """The jobs of a folder on the cluster of its site. Raises InputError, naming the file and what is wrong."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; `jobwise slurm site` prints the commands that fill one")
    texts = {name: _text(folder, name) for name in COMMANDS}
    if not texts["sacct"]:
        raise InputError(f"{folder}: sacct.txt is missing; {COMMANDS['sacct']} writes it")
    where = str(folder / "sacct.txt")
    if not is_sacct(texts["sacct"]):
        raise InputError(f"{where}:1: no sacct header; {COMMANDS['sacct']} writes it")
    accounting, guessed = accounts(texts["sacct"], where), []
    known = config(texts["scontrol_config"])
    if not known:
        guessed.append("no scontrol_config: Slurm's own settings, first come, first served")
    machines = records(texts["scontrol_node"], "NodeName")
    if not machines:
        guessed.append("no scontrol_node: nodes by the jobs' node lists, as large as what jobs got of them")
        machines = guesses.machines(accounting)
    set_ = _told(folder, "scontrol_config", lambda: scheduler(known))
    site, cluster, sets, features = _told(folder, "scontrol_node", lambda: _nodes(machines, set_))
    queues = records(texts["scontrol_partition"], "PartitionName")
    if not queues:
        guessed.append("no scontrol_partition: each partition has the nodes that its jobs ran on")
        queues = guesses.partitions(accounting)
    site = _told(folder, "scontrol_partition", lambda: _partitions(site, queues, sets))
    qos = table(texts["sacctmgr_qos"])
    if not qos:
        guessed.append("no sacctmgr_qos: no limits, equal priorities")
        qos = [{"Name": q, "Priority": "0"} for q in accounting.distinct("QOS")[1]]
    limits = _told(folder, "sacctmgr_qos", lambda: np.array([_qos(q) for q in qos], qos_dtype))
    site = replace(site, qos=limits, qos_names=tuple(q["Name"] for q in qos))
    assoc = table(texts["sacctmgr_assoc"])
    if not assoc and set_["fair_share"] > 0:
        guessed.append("no sacctmgr_assoc: nobody has a share, fair share does not count")
    memory = _told(folder, "scontrol_config", lambda: tuple(int(number(known, f"DefMemPer{x}")) for x in ("CPU", "Node")))
    site = replace(site, guesses=tuple(guessed))
    return jobs.read(accounting, folder.name, replace(cluster, site=site), sets, features, assoc, memory)


def _text(folder: Path, name: str) -> str:
    file = folder / f"{name}.txt"
    try:
        return file.read_text() if file.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None


def _told(folder: Path, name: str, work):
    try:
        return work()
    except (ValueError, KeyError) as error:
        raise InputError(f"{folder / name}.txt: {type(error).__name__}: {error}; is the file whole?") from None


# ------------------------------------------------------------------ the tables


def number(known: dict[str, str], name: str, other: float = 0.0) -> float:
    """A setting by its name. Raises ValueError."""
    return float(known.get(name.lower()) or other)


def _nodes(machines: list[dict], set_: np.void) -> tuple[Site, Cluster, Sets, list[set[str]]]:
    """(the site so far, its cluster, its node sets, the features of each node)."""
    names = tuple(r["NodeName"] for r in machines)
    capacity = np.array([[int(r["CPUTot"]), int(r["RealMemory"]), gpus(said(r.get("Gres", "")))] for r in machines], np.int64)
    weight = np.array([int(r.get("Weight", 1)) for r in machines], np.int64)
    features = [set(said(r.get("AvailableFeatures", "")).split(",")) for r in machines]
    sets = Sets(len(names))
    site = Site(
        weight, sets.table(), np.zeros(0, ask_dtype), np.zeros(0, partition_dtype), np.zeros((0, 1), np.int32),
        np.zeros(0, qos_dtype), np.zeros(0, association_dtype), np.zeros((0, 0), np.int32), np.array([set_]), names,
    )  # fmt: skip
    return site, Cluster(capacity, RESOURCES), sets, features


def _partitions(site: Site, queues: list[dict], sets: Sets) -> Site:
    place, rows = {n: i for i, n in enumerate(site.names)}, []
    for r in queues:
        found = list(place) if r.get("Nodes") == "ALL" else nodes(said(r.get("Nodes", "")))
        if wrong := [n for n in found if n not in place]:
            raise ValueError(f"partition {r['PartitionName']} has node {wrong[0]}, which the nodes' file does not know")
        most = said(r.get("MaxNodes", ""))
        rows.append((
            sets.add(place[n] for n in found), float(r.get("PriorityJobFactor", 1)), int(r.get("PriorityTier", 1)),
            seconds(r.get("MaxTime", "")), float(most) if most else np.inf, r.get("State", "UP") == "UP",
        ))  # fmt: skip
    return replace(site, partitions=np.array(rows, partition_dtype), partition_names=tuple(r["PartitionName"] for r in queues))


def _qos(q: dict[str, str]) -> tuple:
    def limits(count: str, tres: str) -> list[float]:
        found, r = [np.inf] * len(LIMITS), resources(tres)
        if count:
            found[0] = float(count)
        for i, key in enumerate(("cpu", "mem", "gpu", "node"), 1):
            if r.get(key):
                found[i] = r[key]
        return found

    every = limits(q.get("GrpJobs", ""), q.get("GrpTRES", ""))
    own = limits(q.get("MaxJobsPU", ""), q.get("MaxTRESPU", ""))
    return float(q.get("Priority") or 0), seconds(q.get("MaxWall", "")), every, own
