"""Read a Slurm's printed data on itself and its jobs, in a folder, as a workload on the cluster of that site.

`COMMANDS` fill the folder (they only read); `sacct` alone is needed. What is missing is guessed from the jobs, and every guess
is named.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.site import LIMITS, Site, partition_dtype, qos_dtype
from jobwise.slurm.read import conf, documents, guesses, hardware, jobs, simulator, unsimulated
from jobwise.slurm.read.asks import Known
from jobwise.slurm.read.associations import unlimited, used
from jobwise.slurm.read.closures import closures, out_of_service
from jobwise.slurm.read.preempting import with_preemption
from jobwise.slurm.read.text import amount, config, limited, nodes, records, said, table
from jobwise.slurm.read.tree import has_tree, with_switches
from jobwise.slurm.read.unsimulated import UNSIMULATED
from jobwise.workload import Workload
from jobwise.workloads import slurm_json
from jobwise.workloads.accounting import Accounting, forgiving
from jobwise.workloads.accounting import read as accounts
from jobwise.workloads.fields import seconds
from jobwise.workloads.sacct import is_sacct, times

RECORDED = ("22.05", "24.11", "26.05")  # versions whose passes were compared with the simulated ones
FIELDS = "JobID,JobIDRaw,JobName,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw"
FIELDS += ",NNodes,NCPUS,ReqCPUS,ReqMem,ReqTRES,AllocTRES,NodeList,Priority,Constraints,SubmitLine"
ASSOCIATION = "Cluster,Account,User,Partition,Share,ParentName,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,GrpTRESRunMins"
ASSOCIATION += ",MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS"
SINCE = "SLURM_TIME_FORMAT=%s sacctmgr -P"
COMMANDS = {
    "sacct": f"SLURM_TIME_FORMAT=%s sacct -a -X -D -P -S now-180days -E now --format={FIELDS}",
    "scontrol_config": "SLURM_TIME_FORMAT=%s scontrol show config",
    "scontrol_node": "scontrol show node -o",
    "scontrol_partition": "scontrol show partition",
    "scontrol_topology": "scontrol show topology",
    "sacctmgr_qos": "sacctmgr -P show qos",
    "sacctmgr_assoc": f"sacctmgr -P show assoc format={ASSOCIATION}",
    "sacctmgr_event": f"{SINCE} show event start=now-180days format=NodeName,TimeStart,TimeEnd,State",
    "sacctmgr_reservation": f"{SINCE} show reservation start=now-180days format=Name,NodeName,TimeStart,TimeEnd",
}


def commands(folder: str = "FOLDER") -> str:
    """The commands that fill a folder, one a line."""
    return f"mkdir -p {folder}\n" + "\n".join(f"{command} > {folder}/{name}.txt" for name, command in COMMANDS.items())


HELP = ("scontrol_config", "scontrol_node", "scontrol_partition", "sacctmgr_qos", "sacctmgr_assoc")  # most telling first


def most_helpful(w: Workload) -> str:
    """Return which missing file of the folder would help most, in a sentence; "" where none is missing."""
    guessed = " ".join(w.cluster.site.guesses) if w.cluster.site else ""
    name = next((n for n in HELP if f"no {n}:" in guessed), None)
    return f"Of the missing files {name}.txt would help most; `{COMMANDS[name]}` writes it." if name else ""


def not_simulated(w: Workload) -> list[str]:
    """Return what the site, or its jobs, set that no replay does."""
    of_site = w.cluster.site.guesses if w.cluster.site else ()
    return [g.removeprefix(UNSIMULATED) for g in of_site if g.startswith(UNSIMULATED)]


def read(folder: str | Path, accounting: Accounting | None = None) -> Workload:
    """The jobs of a folder on the cluster of its site. `accounting`: those, in place of the folder's. Raises InputError, naming
    the file and what is wrong."""
    folder = Path(folder)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "there is no such folder"
        raise InputError(f"{folder}: {what}; `jobwise slurm site` prints the commands that fill one")
    try:
        return _read(folder, accounting)
    except InputError:
        raise
    except (*DAMAGE, OSError) as error:
        raise InputError(f"{folder}: its files cannot be read: {type(error).__name__}: {error}") from None


def _read(folder: Path, accounting: Accounting | None) -> Workload:
    simulated = simulator.printed(folder)
    texts = simulated.texts or {name: _text(folder, f"{name}.txt") for name in COMMANDS}
    accounting = _accounting(folder, texts["sacct"]) if accounting is None else accounting
    guessed = [*simulated.notes]
    known = _config(folder, texts["scontrol_config"])
    if not known:
        guessed.append("no scontrol_config: Slurm's own settings, first come, first served")
    elif (version := known.get("slurm_version", ""))[:5] not in RECORDED:
        guessed.append(f"the rules of Slurm {version} were not recorded" if version else "no SLURM_VERSION: the rules of 22.05")
    machines = _records(folder, texts, "scontrol_node", "NodeName") or _document(folder, "scontrol_node")
    if not machines:
        guessed.append("no scontrol_node: nodes by the jobs' node lists, as large as what jobs got of them")
        machines = guesses.machines(accounting)
    set_ = _told(folder, "scontrol_config", lambda: conf.scheduler(known, guessed))
    site, cluster, sets, features = _told(folder, "scontrol_node", lambda: hardware.nodes_of(machines, set_))
    site, of_switches = _told(
        folder, "scontrol_topology", lambda: with_switches(site, texts.get("scontrol_topology", ""), known)
    )
    guessed += of_switches
    queues = _records(folder, texts, "scontrol_partition", "PartitionName")
    queues = queues or _document(folder, "scontrol_partition")
    if not queues:
        queues, there = guesses.partitions_of(machines), {p for x in accounting.distinct("Partition")[1] for p in x.split(",")}
        guess = "the nodes that scontrol_node names, no limits" if queues else "the nodes that its jobs ran on"
        guessed.append(f"no scontrol_partition: each partition has {guess}")
        names = {r["PartitionName"] for r in queues}
        queues += [r for r in (guesses.partitions(accounting) if there - names else ()) if r["PartitionName"] not in names]
    queues, more_said = _told(folder, "scontrol_partition", lambda: _with_nodes(queues, site.names))
    guessed += more_said
    site = _told(folder, "scontrol_partition", lambda: _partitions(site, queues, sets))
    qos = _table(folder, texts, "sacctmgr_qos", ("Name", "Priority"))
    if not qos:
        guessed.append("no sacctmgr_qos: no limits, equal priorities")
        qos = [{"Name": q, "Priority": "0"} for q in accounting.distinct("QOS")[1]]
    limits = _told(folder, "sacctmgr_qos", lambda: np.array([_qos(q) for q in qos], qos_dtype))
    enforced = known.get("accountingstorageenforce", "limits")
    if not any(x in enforced for x in ("limits", "safe")) and np.isfinite([*limits["all"].flat, *limits["user"].flat]).any():
        guessed.append("AccountingStorageEnforce does not hold limits: those of QOS do not count")
        limits["all"] = limits["user"] = limits["max_wall"][:, None] = np.inf
    site = replace(site, qos=limits, qos_names=tuple(q["Name"] for q in qos))
    site = replace(site, partition_qos=_own_qos(queues, site.qos_names, guessed))
    assoc = _table(folder, texts, "sacctmgr_assoc", ("Account", "User", "Share"))
    if assoc and set_["fair_share"] > 0 and not any("ParentName" in r or "Par Name" in r for r in assoc):
        guessed.append("sacctmgr_assoc has no column ParentName: all accounts hang at the root, which changes fair shares")
    if not assoc and set_["fair_share"] > 0:
        guessed.append("no sacctmgr_assoc: nobody has a share, fair share does not count")
    if assoc and not any(x in enforced for x in ("limits", "safe")):
        assoc = unlimited(assoc)
    if text := _text(folder, f"{USAGE}.txt"):
        assoc = _told(folder, USAGE, lambda: used(assoc, table(text)))
    memory = _told(folder, "scontrol_config", lambda: tuple(int(number(known, f"DefMemPer{x}")) for x in ("CPU", "Node")))
    away = _table(folder, texts, "sacctmgr_event", ("NodeName", "TimeStart", "TimeEnd", "State"))
    kept = _table(folder, texts, "sacctmgr_reservation", ("Name", "NodeName", "TimeStart", "TimeEnd"))
    ends = times(accounting, "End") if (away or kept) and accounting.has("End") else np.zeros(0)
    last = float(np.nan_to_num(ends).max(initial=accounting.now or 0.0))
    closed, _ = _told(folder, "sacctmgr_event", lambda: closures(away, [], site.names, sets.add, last))
    more, reservations = _told(folder, "sacctmgr_reservation", lambda: closures([], kept, site.names, sets.add, last))
    if len(more):
        guessed.append(f"{len(more):,} reservations: when they were made is not known, a week before they begin is taken")
    licences = _told(folder, "scontrol_config", lambda: _licences(known.get("licenses", "")))
    site = replace(site, closures=np.concatenate([closed, more]), licences=np.array(list(licences.values()), float))
    guessed += [
        f"{UNSIMULATED}{x}"
        for x in conf.not_simulated(known)
        + unsimulated.of_records(queues, unsimulated.PARTITIONS, "partitions", unsimulated.jobs_of(accounting, "Partition"))
        + unsimulated.of_records(machines, unsimulated.NODES, "nodes", unsimulated.jobs_of(accounting, "NodeList"))
        + unsimulated.of_records(qos, unsimulated.QOS, "QOS", unsimulated.jobs_of(accounting, "QOS"))
        + unsimulated.of_records(assoc, unsimulated.ASSOCIATIONS, "associations")
        + unsimulated.of_jobs(accounting)
    ]
    guessed += _agree(folder, known, assoc, accounting, site, machines, bool(texts["sacctmgr_event"]))
    site = replace(site, guesses=tuple(guessed))
    site = _told(folder, "scontrol_config", lambda: with_preemption(site, queues, qos, known))
    shared = _told(folder, "scontrol_node", lambda: hardware.sharing(machines, queues, known))
    site = replace(site, guesses=(*site.guesses, *shared.notes))
    cluster = replace(cluster, capacity=cluster.capacity * np.stack([shared.times, *np.ones((2, len(machines)), int)], axis=1))
    about = Known(sets, features, memory, reservations, site.names, shared, tuple(licences))
    about = replace(about, preempting=bool(set_["preempt"]), once=known.get("jobrequeue", "1") == "0")
    return forgiving(accounting, lambda a: jobs.read(a, folder.name, replace(cluster, site=site), about, assoc))


USAGE = "sshare_start"  # `sshare -a -P -o Account,User,RawUsage` at the begin of the record
AS_JSON = {  # Slurm's JSON serves where the text is missing: who reads it
    "sacct": slurm_json.accounting,
    "scontrol_node": documents.nodes,
    "scontrol_partition": documents.partitions,
}


def files(folder: str | Path) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the folder's files that `read` takes, of the others, and of what would tell more, in order."""
    folder = Path(folder)
    there = {x.name for x in folder.iterdir() if x.is_file()}
    if simulated := simulator.taken(folder):
        return simulated, sorted(there - set(simulated)), []
    full = {x for x in there if (folder / x).stat().st_size}
    taken = {f"{name}.txt" for name in (*COMMANDS, USAGE)} & full
    taken |= {f"{name}.json" for name in AS_JSON if f"{name}.txt" not in taken} & full
    lacking = [name for name in COMMANDS if not {f"{name}.txt", f"{name}.json"} & taken]
    if not has_tree(config(_text(folder, "scontrol_config.txt"))):
        lacking = [name for name in lacking if name != "scontrol_topology"]
    return sorted(taken), sorted(there - taken), lacking


def _licences(text: str) -> dict[str, float]:
    """Licenses=matlab:4,ansys -> {"matlab": 4, "ansys": 1}. Raises ValueError."""
    words = [x.partition(":") for x in filter(None, said(text).split(","))]
    return {name.partition("@")[0]: amount(count or "1") for name, _, count in words}


def _records(folder: Path, texts: dict[str, str], name: str, first: str) -> list[dict[str, str]]:
    rows = records(texts[name], first)
    if texts[name].strip() and not rows:
        raise InputError(f"{folder / name}.txt: holds no {first}=…; {COMMANDS[name]} writes it")
    return rows


MAY_BE_EMPTY = ("sacctmgr_event", "sacctmgr_reservation")


def _table(folder: Path, texts: dict[str, str], name: str, needed: tuple[str, ...]) -> list[dict[str, str]]:
    rows = table(texts[name])
    if texts[name].strip() and not rows and name not in MAY_BE_EMPTY:
        raise InputError(f"{folder / name}.txt: holds no rows; {COMMANDS[name]} writes it")
    for n, r in enumerate(rows, 2):
        if lost := [x for x in needed if x not in r]:
            raise InputError(f"{folder / name}.txt:{n}: no column {lost[0]}; is the file whole?")
    return rows


def _config(folder: Path, text: str) -> dict[str, str]:
    known = config(text)
    if text.strip() and not {"prioritytype", "schedulertype", "clustername"} & set(known):
        raise InputError(f"{folder}/scontrol_config.txt: is no configuration; {COMMANDS['scontrol_config']} writes it")
    if text.startswith("Configuration data") and "Slurmctld(" not in text:
        raise InputError(f"{folder}/scontrol_config.txt: its end is missing; {COMMANDS['scontrol_config']} writes it")
    return known


def _accounting(folder: Path, text: str) -> Accounting:
    """Return sacct's accounting, read as text or as JSON. Raises InputError."""
    where = str(folder / "sacct.txt")
    if not text:
        if (accounting := _document(folder, "sacct")) is not None:
            return accounting
        raise InputError(f"{folder}: sacct.txt is missing; {COMMANDS['sacct']} writes it")
    if not is_sacct(text):
        raise InputError(f"{where}:1: no sacct header; {COMMANDS['sacct']} writes it")
    return accounts(text, where)


def _agree(
    folder: Path, known: dict[str, str], assoc: list[dict], a: Accounting, site: Site, machines: list[dict], dated: bool
) -> list[str]:
    """Return the inconsistencies that can be tolerated; `dated`: the times of nodes out of service are known. Raises
    InputError for files of different clusters."""
    own, others = known.get("clustername", ""), []
    if own and assoc and own not in {r.get("Cluster", own) for r in assoc}:
        raise InputError(
            f"{folder}/sacctmgr_assoc.txt: is of {assoc[0]['Cluster']}, scontrol_config.txt of {own}: two clusters"
        )
    which, lists = a.distinct("NodeList")
    try:
        gone = np.array([bool(set() if "assigned" in x else set(nodes(x)) - set(site.names)) for x in lists], bool)
    except ValueError as error:
        raise InputError(f"{a.where}: {error}") from None
    if count := int(gone[which].sum()):
        text = f"{count:,} of {len(a):,} rows name nodes that scontrol_node does not have"
        if 2 * count > len(a):
            raise InputError(f"{a.where}: {text} (e.g. {lists[int(np.argmax(gone))][:30]}): are the files of one cluster?")
        others.append(f"{text}: their jobs are replayed on those that it has")
    down = [r["NodeName"] for r in machines if out_of_service(r.get("State", ""))]
    if down and not dated:
        others.append(f"{len(down)} nodes are out of service now (e.g. {down[0]}): when is not known, they are taken to work")
    if assoc and site.settings["fair_share"][0] > 0:
        (user, users), (account, accounts_) = a.distinct("User"), a.distinct("Account")
        have = {(r["User"], r["Account"]) for r in assoc}
        lost = [(users[u], accounts_[k]) for u, k in set(zip(user.tolist(), account.tolist(), strict=True))]
        lost = sorted(x for x in lost if x not in have)
        if lost:
            others.append(f"{len(lost)} users of accounts have no association (e.g. {' of '.join(lost[0])}): no fair share")
    return others


def _document(folder: Path, name: str) -> Any:
    """Return the content of Slurm's JSON of this name, read by its row of AS_JSON; None where there is none."""
    text = _text(folder, f"{name}.json")
    return AS_JSON[name](text, str(folder / f"{name}.json")) if text else None


def _text(folder: Path, name: str) -> str:
    file = folder / name
    try:
        return file.read_text("utf-8-sig", errors="replace") if file.is_file() else ""  # names of users may be in Latin-1
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error}") from None


DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)  # of wrong files


def _told(folder: Path, name: str, work: Any) -> Any:
    file = next((f for f in (folder / f"{name}.txt", folder / f"{name}.json") if f.is_file()), folder)
    try:
        return work()
    except DAMAGE as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{file}: {what}; is the file whole?") from None


# ------------------------------------------------------------------ the tables


def number(known: dict[str, str], name: str, other: float = 0.0) -> float:
    """A setting by its name. Raises ValueError."""
    return _float(known.get(name.lower()) or str(other), name)


def _float(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{what} is {text[:30]!r}; a number is expected") from None


def _with_nodes(queues: list[dict], names: tuple[str, ...]) -> tuple[list[dict], list[str]]:
    """(the partitions with nodes that are there, each with these; what is said of the others). Raises ValueError."""
    known, kept, said_ = set(names), [], []
    for r in queues:
        own = list(names) if r.get("Nodes") == "ALL" else nodes(said(r.get("Nodes", "")))
        there = [n for n in own if n in known]
        if lost := len(own) - len(there):
            e_g = next(n for n in own if n not in known)
            said_.append(
                f"partition {r['PartitionName']}: {lost} of its nodes are not in scontrol_node (e.g. {e_g}): without them"
            )
        if there:
            kept.append(r | {"Nodes": ",".join(there)})
        else:
            said_.append(f"partition {r['PartitionName']} has no nodes: it is left out, and its jobs")
    if not kept:
        raise ValueError("no partition has nodes")
    return kept, said_


def _partitions(site: Site, queues: list[dict], sets: hardware.Sets) -> Site:
    place, rows = {n: i for i, n in enumerate(site.names)}, []
    for r in queues:
        names = nodes(r["Nodes"])
        most = said(r.get("MaxNodes", ""))
        rows.append((
            sets.add(place[n] for n in names),
            _float(r.get("PriorityJobFactor", "1"), "PriorityJobFactor"),
            int(r.get("PriorityTier", 1)),
            seconds(r.get("MaxTime", "")), _float(most, "MaxNodes") if most else np.inf, r.get("State", "UP") == "UP",
        ))  # fmt: skip
    return replace(site, partitions=np.array(rows, partition_dtype), partition_names=tuple(r["PartitionName"] for r in queues))


def _own_qos(queues: list[dict], names: tuple[str, ...], guessed: list[str]) -> np.ndarray:
    """[P] the row of each partition's QOS; -1: it has none, or one that is not there, which is said."""
    own = [said(r.get("QoS", "")) for r in queues]
    if lost := [f"{q} of {r['PartitionName']}" for q, r in zip(own, queues, strict=True) if q and q not in names]:
        guessed.append(f"QoS={lost[0]}, which sacctmgr_qos does not have ({len(lost)} partitions): no limits")
    return np.array([names.index(q) if q in names else -1 for q in own], np.int64)


def _qos(q: dict[str, str]) -> tuple:
    def limits(count: str, tres: str) -> list[float]:
        values, r = [np.inf] * len(LIMITS), limited(tres)
        if count:
            values[0] = _float(count, "a limit of jobs")
        for i, key in enumerate(("cpu", "mem", "gpu", "node"), 1):
            values[i] = r.get(key, np.inf)
        return values

    every = limits(q.get("GrpJobs", ""), q.get("GrpTRES", ""))
    own = limits(q.get("MaxJobsPU", ""), q.get("MaxTRESPU", ""))
    return _float(q.get("Priority") or "0", "Priority"), seconds(q.get("MaxWall", "")), every, own
