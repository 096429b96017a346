"""A site's folder without names: users, accounts, jobs, QOS, partitions, nodes and features have others; free text is dropped.

Only the columns, keys and options that are named here are written, so what nobody has thought of is not in the copy (of QOS all
columns are but their descriptions). The same jobs start at the same times in it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from jobwise.errors import InputError
from jobwise.files import own_folder, write_whole
from jobwise.slurm.read.requests import options
from jobwise.slurm.read.site import ASSOCIATION, COMMANDS, FIELDS, USAGE
from jobwise.slurm.read.text import config, nodes, records, said, table
from jobwise.workloads.accounting import read as accounts
from jobwise.workloads.anonymous import Names

STILL = (
    "Still in it: when jobs were submitted, started and ended, their numbers, sizes, limits, memory, priorities and "
    "options, how they ended, which are of one user, account and name; what nodes are like; settings, limits and "
    "shares; the tree of accounts."
)
CONFIG = r"""Priority\w*|Scheduler\w*|Select\w*|Preempt\w*|AccountingStorage(?:Enforce|TRES)|KillWait|SLURM_VERSION|BOOT_TIME|
DefMem\w*|MaxMem\w*|Max(?:Array|Job)\w*|OverTimeLimit|Topology(?:Plugin|Param)|JobRequeue|\w*Timeout|EnforcePartLimits|
ReturnToService|GresTypes|CompleteWait|FirstJobId|MinJobAge|Suspend(?:Time|Rate)|Resume(?:Timeout|Rate)|TaskPlugin\w*|FairShare\w*"""
NODE = (
    "NodeName CPUTot CPUEfctv CPUSpecList CoresPerSocket Sockets Boards ThreadsPerCore RealMemory MemSpecLimit "
    "CoreSpecCount Gres State Weight Features AvailableFeatures ActiveFeatures Partitions CfgTRES"
)
PARTITION = (
    "PartitionName Nodes AllowAccounts DenyAccounts AllowQos DenyQos QoS Alternate Default DefaultTime MaxTime "
    "MaxNodes MinNodes PriorityTier PriorityJobFactor OverSubscribe ExclusiveUser LLN MaxCPUsPerNode MaxCPUsPerSocket "
    "PreemptMode GraceTime State DefMemPerCPU DefMemPerNode MaxMemPerCPU MaxMemPerNode TRESBillingWeights "
    "SelectTypeParameters TotalCPUs TotalNodes TRES Hidden RootOnly ReqResv DisableRootJobs JobDefaults"
)
TREE = "SwitchName Level LinkSpeed Nodes Switches"
STAYS = ("root", "normal")  # names of Slurm's own
PLAIN = (  # options of a submit line that say nothing of a person or a project
    "nodes ntasks cpus-per-task ntasks-per-node ntasks-per-core ntasks-per-socket cpus-per-gpu mem mem-per-cpu mem- "
    "per-gpu gpus gpus-per-node gpus-per-task gpus-per-socket gres tres-per-node tres-per-task time time-min array "
    "begin deadline dependency exclusive oversubscribe hold requeue no-requeue nice switches threads-per-core "
    "sockets-per-node cores-per-socket hint contiguous spread-job use-min-nodes overcommit mincpus tmp core-spec "
    "thread-spec kill-on-invalid-dep parsable extra-node-info S s B "
).split()
NAMED = ("bb", "bbf", "clusters", "M", "nodefile", "F")  # what is not simulated is said of the copy, too, without a name
SIGNED = re.compile(r"([+\-=]*)([^,\s]+)")  # a name of a list, and what stands before it
WORD = re.compile(r"[A-Za-z_][\w.-]*")
Anew = Callable[[str], str]  # how a text is written anew


class SiteNames:
    """The names of a site's files, and what they become: `new[kind][name]`."""

    def __init__(self, texts: dict[str, str], jobs: list[dict[str, str]]):
        assoc, usage, qos = (table(texts.get(n, "")) for n in ("sacctmgr_assoc", USAGE, "sacctmgr_qos"))
        machines = records(texts.get("scontrol_node", ""), "NodeName")
        queues = records(texts.get("scontrol_partition", ""), "PartitionName")
        switches, rows = records(texts.get("scontrol_topology", ""), "SwitchName"), [*jobs, *assoc, *usage]

        def every(rows: list[dict[str, str]], *keys: str) -> set[str]:
            words = (w for r in rows for k in keys for w in re.split(r"[,\s]+", said(r.get(k, ""))))
            return {w.lstrip("+-=") for w in words} - {"", "ALL", "(null)", *STAYS}

        licences = set(re.findall(r"license/(\w+)", " ".join(texts.values())))
        licences |= set(WORD.findall(said(config(texts.get("scontrol_config", "")).get("licenses", ""))))
        constraints = (w for r in jobs for w in WORD.findall(r.get("Constraints", "")))
        names = {
            "user": every(rows, "User"),
            "account": every(rows, "Account", "ParentName", "Par Name") | every(queues, "AllowAccounts", "DenyAccounts"),
            "qos": every(rows, "QOS", "DefaultQOS", "Def QOS") | every(qos, "Name", "Preempt"),
            "part": every(rows, "Partition") | every(queues, "PartitionName", "Alternate") | every(machines, "Partitions"),
            "feature": every(machines, "Features", "AvailableFeatures", "ActiveFeatures") | {*constraints},
            "job": {r.get("JobName", "").strip() for r in jobs} - {""},
            "switch": {r["SwitchName"] for r in switches},
            "reservation": every(table(texts.get("sacctmgr_reservation", "")), "Name"),
            "licence": licences,
        }
        names["qos"] |= every(queues, "AllowQos", "DenyQos", "QoS")
        hashed = Names()
        self.new = {kind: hashed.named(kind, old) for kind, old in names.items()}
        hosts = [r["NodeName"] for r in machines] + [x for r in jobs for x in _hosts(r.get("NodeList", ""))]
        hosts += [x for r in (*queues, *switches) for x in _hosts(r.get("Nodes", ""))]
        order = list(dict.fromkeys(hosts))  # their order decides where jobs go
        self.new["node"] = {x: f"n{i:0{len(str(len(order)))}d}" for i, x in enumerate(order, 1)}

    def listed(self, kind: str) -> Anew:
        """Return how a list of names of a kind is written: signs and blanks before a name stay."""
        new = self.new[kind]
        return lambda text: SIGNED.sub(lambda m: m[1] + new.get(m[2], m[2]), text)

    def hosts(self, text: str) -> str:
        """Return a list of nodes, each by its new name."""
        return ",".join(self.new["node"][x] for x in _hosts(text) if x in self.new["node"]) or text

    def words(self, kind: str) -> Anew:
        """Return how an expression, or a list with counts, of names of a kind is written; a name that is nowhere else is left
        out."""
        new = self.new[kind]
        return lambda text: WORD.sub(lambda m: new.get(m[0], kind), text) if said(text) else text

    def tres(self, text: str) -> str:
        """Return any other text: licences among trackable resources have other names."""
        return re.sub(r"license/(\w+)", lambda m: f"license/{self.new['licence'][m[1]]}", text)

    def line(self, text: str) -> str:
        """Return a submit line with the options that are known to say nothing of a person, and those of names that are new."""
        how: dict[str, Anew] = {"account": self.listed("account"), "partition": self.listed("part"), "qos": self.listed("qos")}
        how |= {"nodelist": self.hosts, "exclude": self.hosts, "reservation": self.listed("reservation")}
        how |= {"constraint": self.words("feature"), "prefer": self.words("feature"), "licenses": self.words("licence")}
        how |= dict.fromkeys(PLAIN, self.tres) | dict.fromkeys(NAMED, lambda text: "x")
        kept = ((key, how[key](value)) for key, value in options(text).items() if key in how)
        words = (f"-{k}" if len(k) == 1 else f"--{k}" if v == "yes" else f"--{k}={shlex.quote(v)}" for k, v in kept)
        return " ".join(["sbatch", *words]) if text.strip() else ""


def _hosts(text: str) -> list[str]:
    """The names in a list of nodes; none where it names none."""
    if not said(text) or text == "ALL" or "assigned" in text:
        return []
    try:
        return nodes(text)
    except ValueError:
        return []


def _columns(rows: list[dict[str, str]], keep: Iterable[str], how: dict[str, Anew], other: Anew) -> str:
    """A table with some of its columns, each written anew."""
    names = [n for n in keep if rows and n in rows[0]]
    lines = ("|".join(how.get(n, other)(r.get(n, "")).replace("|", " ") for n in names) for r in rows)
    return "\n".join(["|".join(names), *lines]) + "\n"


def _records(text: str, first: str, keep: str, how: dict[str, Anew], other: Anew) -> str:
    """Records of scontrol with some of their keys, one a line."""
    rows = records(text, first)
    return "".join(" ".join(f"{k}={how.get(k, other)(r[k])}" for k in keep.split() if k in r) + "\n" for r in rows)


def _config(text: str, s: SiteNames) -> str:
    kept = {k: s.tres(v) for k, v in config(text).items() if re.fullmatch(CONFIG, k, re.I | re.X)}
    own = {"clustername": "anonymous", "licenses": s.words("licence")(config(text).get("licenses", ""))}
    return "".join(f"{k} = {v}\n" for k, v in (kept | own).items())


def write(folder: str | Path, out: str | Path) -> list[str]:
    """Write a site's folder anew without names, into a new folder; the names of its files. Raises InputError for a folder
    without sacct.txt, and for one that exists."""
    folder, out = Path(folder), Path(out)
    texts = {n: f.read_text("utf-8-sig", errors="replace") for n in (*COMMANDS, USAGE) if (f := folder / f"{n}.txt").is_file()}
    if "sacct" not in texts:
        raise InputError(f"{folder}: sacct.txt is missing; {COMMANDS['sacct']} writes it")
    if out.exists():
        raise InputError(f"{out}: exists already; name a folder that does not")
    a = accounts(texts["sacct"], str(folder / "sacct.txt"))  # a user's text may hold ends of lines, and would seem a row
    values = [column.to_pylist() for column in a.columns.values()]
    jobs = [dict(zip(a.columns, row, strict=True)) for row in zip(*values, strict=True)]
    s = SiteNames(texts, jobs)
    user, account, part, qos = (s.listed(kind) for kind in ("user", "account", "part", "qos"))
    who: dict[str, Anew] = {"User": user, "Partition": part, "Cluster": lambda text: "anonymous"}
    who |= dict.fromkeys(("Account", "ParentName", "Par Name"), account) | dict.fromkeys(("QOS", "DefaultQOS", "Def QOS"), qos)
    of_jobs = who | {"NodeList": s.hosts, "Constraints": s.words("feature"), "SubmitLine": s.line}
    of_jobs |= {"JobName": lambda x: s.new["job"].get(x.strip(), ""), "State": lambda x: re.sub(r" by \d+", "", x)}
    of_nodes = dict.fromkeys(("Features", "AvailableFeatures", "ActiveFeatures"), s.listed("feature"))
    of_nodes |= {"NodeName": s.hosts, "Partitions": part}
    of_parts = dict.fromkeys(("AllowAccounts", "DenyAccounts"), account) | dict.fromkeys(("AllowQos", "DenyQos", "QoS"), qos)
    of_parts |= {"Nodes": s.hosts, "PartitionName": part, "Alternate": part}
    closed: dict[str, Anew] = {"NodeName": s.hosts, "Name": s.listed("reservation")}
    tree: dict[str, Anew] = {"SwitchName": s.listed("switch"), "Nodes": s.hosts}
    tree["Switches"] = lambda x: ",".join(s.new["switch"].get(y, y) for y in _hosts(x))

    def rows(name: str, keep: Iterable[str], how: dict[str, Anew]) -> str:
        return _columns(table(texts[name]), keep, how, s.tres)

    def shown(name: str, first: str, keep: str, how: dict[str, Anew]) -> str:
        return _records(texts[name], first, keep, how, s.tres)

    limits = [n for n in texts.get("sacctmgr_qos", "").split("\n", 1)[0].split("|") if n not in ("Descr", "")]
    written: dict[str, Callable[[], str]] = {
        "sacct": lambda: _columns(jobs, FIELDS.split(","), of_jobs, s.tres),
        "scontrol_config": lambda: _config(texts["scontrol_config"], s),
        "scontrol_node": lambda: shown("scontrol_node", "NodeName", NODE, of_nodes),
        "scontrol_partition": lambda: shown("scontrol_partition", "PartitionName", PARTITION, of_parts),
        "scontrol_topology": lambda: shown("scontrol_topology", "SwitchName", TREE, tree),
        "sacctmgr_qos": lambda: rows("sacctmgr_qos", limits, {"Name": qos, "Preempt": qos}),
        "sacctmgr_assoc": lambda: rows("sacctmgr_assoc", [*ASSOCIATION.split(","), "Par Name", "Def QOS"], who),
        "sacctmgr_event": lambda: rows("sacctmgr_event", ["NodeName", "TimeStart", "TimeEnd", "State"], closed),
        "sacctmgr_reservation": lambda: rows("sacctmgr_reservation", ["Name", "NodeName", "TimeStart", "TimeEnd"], closed),
        USAGE: lambda: rows(USAGE, ["Account", "User", "RawUsage"], who),
    }
    own_folder(out)
    for name, text in texts.items():
        write_whole(out / f"{name}.txt", (written[name]() if text.strip() else text).encode())
    return [f"{name}.txt" for name in texts]
