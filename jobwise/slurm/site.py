"""What a Slurm prints about itself, in a folder, as a site and its jobs.

`COMMANDS` fill the folder; only `sacct` is needed. What is missing is guessed from the jobs, and each guess is named.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.site import LIMITS, RESOURCES, Site, association_dtype, ask_dtype, partition_dtype, qos_dtype, settings

COMMANDS = {
    "scontrol_config": "scontrol show config",
    "scontrol_node": "scontrol show node -o",
    "scontrol_partition": "scontrol show partition",
    "sacctmgr_qos": "sacctmgr -P show qos",
    "sacctmgr_assoc": "sacctmgr -P show assoc",
}
NEVER = ("", "UNLIMITED", "INFINITE", "NONE", "N/A", "(null)", "-1")


def pairs(text: str) -> dict[str, str]:
    """Key=Value words; a value may hold blanks up to the next Key=."""
    found = re.findall(r"(\w[\w:]*)=(.*?)(?=\s+\w[\w:]*=|\s*$)", text, re.S)
    return {k: v.strip() for k, v in found}


def seconds(text: str) -> float:
    """[days-]hours:minutes:seconds, or minutes; inf where there is no limit. Raises ValueError."""
    if text.upper() in NEVER:
        return np.inf
    days, _, rest = text.rpartition("-")
    parts = [float(x) for x in rest.split(":")]
    if len(parts) == 1:
        return (float(days) * 86_400 + parts[0] * 3600) if days else parts[0] * 60
    parts = parts if len(parts) == 3 else ([*parts, 0.0] if days else [0.0, *parts])
    return float(days or 0) * 86_400 + parts[0] * 3600 + parts[1] * 60 + parts[2]


def names_of(text: str) -> list[str]:
    """node[01-03,7],other -> node01 node02 node03 node7 other. Raises ValueError."""
    found = []
    for word in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)*|\[[^\]]*\]", text):
        inside = re.search(r"\[([^\]]*)\]", word)
        if not inside:
            found.append(word)
            continue
        before, after = word[: inside.start()], word[inside.end() :]
        for part in inside[1].split(","):
            low, _, high = part.partition("-")
            for n in range(int(low), int(high or low) + 1):
                found += [before + str(n).zfill(len(low)) + x for x in (names_of(after) if after else [""])]
    return found


def memory(text: str) -> int:
    """MiB of 4000M, 62.50G, 1T; a number alone is MiB. Raises ValueError."""
    found = re.fullmatch(r"([\d.]+)([KMGTP]?)[nc]?", text.strip())
    if not found:
        raise ValueError(text)
    return int(float(found[1]) * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}[found[2]])


def resources(text: str) -> dict[str, float]:
    """cpu=4,mem=8000M,node=1,gres/gpu=2 -> {"cpu": 4, …}; typed GPUs are summed where no sum is given."""
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key.startswith("gres/gpu:"):
            found["typed"] = found.get("typed", 0) + float(value)
        elif key in ("mem", "bb"):
            found[key] = memory(value)
        else:
            try:
                found[key] = float(value)
            except ValueError:
                continue
    found.setdefault("gres/gpu", found.pop("typed", 0))
    return found


# ------------------------------------------------------------------ the tables


def config(text: str) -> dict[str, str]:
    """`scontrol show config` (or a slurm.conf): settings by their names in small letters."""
    found = re.findall(r"^([A-Za-z]\w*)[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.M)
    return {k.lower(): v for k, v in found}


def scheduler_settings(known: dict[str, str]) -> np.ndarray:
    """[1] of settings_dtype. Raises InputError."""
    def number(name: str, other: float = 0.0) -> float:
        text = known.get(name.lower(), "")
        return other if text.upper() in NEVER else float(text)

    par = dict(x.partition("=")[::2] for x in known.get("schedulerparameters", "").split(",") if x)

    def parameter(name: str, other: float) -> float:
        return float(par.get(name) or other)

    found = {
        "basic": float(known.get("prioritytype", "priority/basic").endswith("basic")),
        "backfill": float(not known.get("schedulertype", "").endswith("builtin")),
        "age": number("PriorityWeightAge"), "fair_share": number("PriorityWeightFairShare"),
        "size": number("PriorityWeightJobSize"), "partition": number("PriorityWeightPartition"),
        "qos": number("PriorityWeightQOS"),
        "max_age": seconds(known.get("prioritymaxage", "7-0")), "calc_period": seconds(known.get("prioritycalcperiod", "00:05:00")),
        "half_life": seconds(known.get("prioritydecayhalflife", "7-0")) or np.inf,
        "fair_tree": float("NO_FAIR_TREE" not in known.get("priorityflags", "")),
        "small_relative": float("SMALL_RELATIVE_TO_TIME" in known.get("priorityflags", "")),
        "favor_small": float(known.get("priorityfavorsmall", "no").lower() == "yes"),
        "batch_delay": parameter("batch_sched_delay", 3), "sched_interval": parameter("sched_interval", 60),
        "depth": parameter("default_queue_depth", 100), "bf_interval": parameter("bf_interval", 30),
        "bf_window": 60 * parameter("bf_window", 1440), "bf_resolution": parameter("bf_resolution", 60),
        "bf_max_test": parameter("bf_max_job_test", 500), "bf_max_user": parameter("bf_max_job_user", np.inf) or np.inf,
        "bf_continue": float("bf_continue" in par),
        "memory": float("MEMORY" in known.get("selecttypeparameters", "").upper()),
    }  # fmt: skip
    return settings(**found)


def read_nodes(text: str) -> list[dict[str, str]]:
    """`scontrol show node`: a record each."""
    return [pairs(x) for x in re.split(r"(?m)^(?=NodeName=)", text) if x.strip()]


def read_partitions(text: str) -> list[dict[str, str]]:
    """`scontrol show partition`: a record each."""
    return [pairs(x) for x in re.split(r"(?m)^(?=PartitionName=)", text) if x.strip()]


def table(text: str) -> list[dict[str, str]]:
    """Rows of a table with | between columns and a line of names."""
    lines = [x for x in text.splitlines() if x.strip()]
    names = lines[0].split("|")
    return [dict(zip(names, x.split("|", len(names) - 1), strict=False)) for x in lines[1:]]


# ------------------------------------------------------------------ putting it together


def read(folder: str | Path):
    """(the workload on its cluster, which carries the site) of a folder of outputs. Raises InputError."""
    from jobwise.slurm.jobs import read_jobs

    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; `jobwise slurm site` prints the commands that fill it")
    texts = {}
    for name in COMMANDS:
        file = next((f for f in sorted(folder.glob(f"{name}.*")) if f.suffix in (".txt", "")), None)
        texts[name] = file.read_text() if file else ""
    known, guesses = config(texts["scontrol_config"]), []
    if not known:
        guesses.append("no scontrol_config: Slurm's own settings are taken")
    records = read_nodes(texts["scontrol_node"])
    if not records:
        raise InputError(f"{folder}: scontrol_node is missing")
    node_names = tuple(r["NodeName"] for r in records)
    place = {n: i for i, n in enumerate(node_names)}
    capacity = np.array([[int(r["CPUTot"]), int(r["RealMemory"]), _gres(r)] for r in records], np.int64)
    weight = np.array([int(r.get("Weight", 1)) for r in records], np.int64)
    features = [set(r.get("AvailableFeatures", "").replace("(null)", "").split(",")) for r in records]
    sets = Sets(len(records))
    partitions, names = [], []
    for r in read_partitions(texts["scontrol_partition"]) or [{"PartitionName": "all", "Nodes": ",".join(node_names)}]:
        members = [place[n] for n in names_of(r.get("Nodes", "")) if n in place] if r.get("Nodes") != "ALL" else range(len(records))
        partitions.append((
            sets.add(members), float(r.get("PriorityJobFactor", 1)), int(r.get("PriorityTier", 1)),
            seconds(r.get("MaxTime", "UNLIMITED")), np.inf if r.get("MaxNodes", "UNLIMITED") in NEVER else float(r["MaxNodes"]),
            r.get("State", "UP") == "UP",
        ))  # fmt: skip
        names.append(r["PartitionName"])
    qos = table(texts["sacctmgr_qos"]) if texts["sacctmgr_qos"] else [{"Name": "normal", "Priority": "0"}]
    set_ = scheduler_settings(known)
    default = (0, 0)
    if set_["memory"][0]:
        cpu, node = known.get("defmempercpu", ""), known.get("defmempernode", "")
        default = (0 if cpu.upper() in NEVER else int(cpu), 0 if node.upper() in NEVER else int(node))
    cluster = Cluster(capacity, RESOURCES)
    site = Site(
        weight, sets.table(), np.zeros(0, ask_dtype), np.array(partitions, partition_dtype), np.zeros((0, 1), np.int32),
        np.array([_qos(q) for q in qos], qos_dtype), np.zeros(0, association_dtype), np.zeros((0, 0), np.int32), set_,
        node_names, tuple(names), tuple(q["Name"] for q in qos), tuple(guesses),
    )  # fmt: skip
    return read_jobs(folder, cluster, site, sets, features, table(texts["sacctmgr_assoc"]) if texts["sacctmgr_assoc"] else [], default)


class Sets:
    """Node sets, each once; the first is that of all nodes."""

    def __init__(self, nodes: int):
        self.nodes, self.known = nodes, {np.ones(nodes, np.uint8).tobytes(): 0}

    def add(self, members) -> int:
        """The number of a set of nodes."""
        row = np.zeros(self.nodes, np.uint8)
        row[list(members)] = 1
        return self.known.setdefault(row.tobytes(), len(self.known))

    def table(self) -> np.ndarray:
        """[M, N]."""
        return np.array([np.frombuffer(k, np.uint8) for k in self.known])


def _gres(r: dict[str, str]) -> int:
    from jobwise.slurm.requests import gpus

    text = re.sub(r"\([^)]*\)", "", r.get("Gres", "").replace("(null)", ""))
    return sum(gpus(x) for x in text.split(",") if x.startswith("gpu"))


def _qos(q: dict[str, str]) -> tuple:
    def limits(jobs: str, tres: str) -> list[float]:
        found, r = [np.inf] * len(LIMITS), resources(tres)
        if jobs:
            found[0] = float(jobs)
        for i, key in enumerate(("cpu", "mem", "gres/gpu", "node"), 1):
            if r.get(key):
                found[i] = r[key]
        return found

    every = limits(q.get("GrpJobs", ""), q.get("GrpTRES", ""))
    return float(q.get("Priority") or 0), seconds(q.get("MaxWall", "")), every, limits(q.get("MaxJobsPU", ""), q.get("MaxTRESPU", ""))
