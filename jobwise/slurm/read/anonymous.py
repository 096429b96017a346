"""A site's folder without names: users, accounts, jobs, QOS, partitions, nodes and features have others; free text is dropped.

Only the columns and keys that are named here are written, so what nobody has thought of is not in the copy. The same jobs start
at the same times in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from jobwise.errors import InputError
from jobwise.files import own_folder, write_whole
from jobwise.slurm.read.requests import LONG, options
from jobwise.slurm.read.site import ASSOCIATION, COMMANDS, FIELDS, USAGE
from jobwise.slurm.read.text import nodes, records, said, table
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
OWN = {"user": ("root",), "account": ("root",), "qos": ("normal",), "partition": ()}  # names of Slurm's own, that stay
DROPPED = (
    "job-name comment output error input chdir workdir export export-file wrap mail-user mail-type wckey get-user-env uid gid "
    "propagate container reservation clusters admin-comment prolog epilog bcast profile acctg-freq"
).split()
SIGNED = re.compile(r"([+\-=]*)([^,\s]+)")  # a name of a list, and what stands before it
SHORT = {v: k for k, v in LONG.items()}


class SiteNames:
    """The names of a site's files, and what they become."""

    def __init__(self, texts: dict[str, str]):
        names = Names()
        jobs, assoc = table(texts["sacct"]), table(texts.get("sacctmgr_assoc", ""))
        usage, qos = table(texts.get(USAGE, "")), table(texts.get("sacctmgr_qos", ""))
        machines = records(texts.get("scontrol_node", ""), "NodeName")
        queues = records(texts.get("scontrol_partition", ""), "PartitionName")
        rows = [*jobs, *assoc, *usage]

        def every(*keys: str, of: Iterable[dict[str, str]]) -> set[str]:
            words = (w for r in of for k in keys for w in re.split(r"[,\s]+", said(r.get(k, ""))))
            return {w.lstrip("+-=") for w in words} - {"", "ALL", "(null)"}

        self.user = names.named("user", every("User", of=rows) - {*OWN["user"]})
        accounts = every("Account", "ParentName", "Par Name", of=rows) | every("AllowAccounts", "DenyAccounts", of=queues)
        self.account = names.named("account", accounts - {*OWN["account"]})
        kinds = every("QOS", "DefaultQOS", "Def QOS", of=rows) | every("Name", "Preempt", of=qos)
        self.qos = names.named("qos", (kinds | every("AllowQos", "DenyQos", "QoS", of=queues)) - {*OWN["qos"]})
        parts = every("Partition", of=rows) | every("PartitionName", "Alternate", of=queues)
        self.partition = names.named("part", parts | every("Partitions", of=machines))
        hosts = [r["NodeName"] for r in machines]
        for text in (r.get("NodeList", "") for r in jobs):
            hosts += [] if "assigned" in text else _hosts(text)
        for r in (*queues, *_switches(texts)):
            hosts += [] if r.get("Nodes", "") == "ALL" else _hosts(said(r.get("Nodes", "")))
        order = list(dict.fromkeys(hosts))
        self.node = {x: f"n{i:0{len(str(len(order)))}d}" for i, x in enumerate(order, 1)}
        marks = every("Features", "AvailableFeatures", "ActiveFeatures", of=machines)
        marks |= {w for r in jobs for w in re.findall(r"[A-Za-z_]\w*", r.get("Constraints", ""))}
        self.feature = names.named("feature", marks)
        self.job = names.named("job", {r.get("JobName", "").strip() for r in jobs} - {""})
        self.switch = names.named("switch", {r["SwitchName"] for r in _switches(texts)})
        self.licence = names.named("licence", set(re.findall(r"license/(\w+)", texts["sacct"])) | _licences(texts))

    def listed(self, kind: str) -> Callable[[str], str]:
        """Return how a list of names of a kind is written: signs and blanks before a name stay."""
        known = getattr(self, kind)
        return lambda text: SIGNED.sub(lambda m: m[1] + known.get(m[2], m[2]), text)

    def hosts(self, text: str) -> str:
        """Return a list of nodes, each by its new name."""
        if not said(text) or text == "ALL" or "assigned" in text:
            return text
        return ",".join(self.node[x] for x in _hosts(text) if x in self.node)

    def marked(self, text: str) -> str:
        """Return an expression of features, or a list of them."""
        return re.sub(r"[A-Za-z_][\w.-]*", lambda m: self.feature.get(m[0], m[0]), text) if said(text) else text

    def tres(self, text: str) -> str:
        """Return trackable resources: licences have other names."""
        return re.sub(r"license/(\w+)", lambda m: f"license/{self.licence[m[1]]}", text)

    def line(self, text: str) -> str:
        """Return the options of a submit line, without its script and without what only a person reads."""
        kept = []
        for key, value in options(text).items():
            if key in DROPPED or (len(key) == 1 and SHORT.get(key, key) in "JoeDi"):
                continue
            own = {"account": self.account, "partition": self.partition, "qos": self.qos}.get(key)
            if own is not None:
                value = ",".join(own.get(x, x) for x in value.split(","))
            elif key in ("nodelist", "exclude"):
                value = self.hosts(value)
            elif key in ("constraint", "prefer", "cluster-constraint"):
                value = self.marked(value)
            elif key == "licenses":
                value = re.sub(r"[A-Za-z]\w*", lambda m: self.licence.get(m[0], m[0]), value)
            elif not re.fullmatch(r"[\w.:,%+*/=?@-]*", value):
                continue
            word = f"--{key}" if len(key) > 1 else f"-{key}"
            kept.append(word if value == "yes" else f"{word}={value}" if len(key) > 1 else f"{word} {value}")
        return " ".join([text.split(None, 1)[0].rsplit("/", 1)[-1], *kept]) if text.split() else ""


def _hosts(text: str) -> list[str]:
    try:
        return nodes(text)
    except ValueError:
        return []


def _switches(texts: dict[str, str]) -> list[dict[str, str]]:
    return records(texts.get("scontrol_topology", ""), "SwitchName")


def _licences(texts: dict[str, str]) -> set[str]:
    match = re.search(r"^Licenses\s*=\s*(\S+)", texts.get("scontrol_config", ""), re.M)
    return {re.split("[:@]", x)[0] for x in match[1].split(",")} - {"(null)"} if match else set()


def _columns(text: str, keep: Iterable[str], how: dict[str, Callable[[str], str]]) -> str:
    """A table with some of its columns, each written anew."""
    rows = table(text)
    names = [n for n in keep if rows and n in rows[0]]
    lines = ("|".join(how.get(n, str)(r.get(n, "")).replace("|", " ") for n in names) for r in rows)
    return "\n".join(["|".join(names), *lines]) + "\n"


def _records(text: str, first: str, keep: str, how: dict[str, Callable[[str], str]]) -> str:
    """Records of scontrol with some of their keys, one a line."""
    rows = records(text, first)
    return "".join(" ".join(f"{k}={how.get(k, str)(r[k])}" for k in keep.split() if k in r) + "\n" for r in rows)


def _config(text: str, s: SiteNames) -> str:
    lines = []
    for key, value in re.findall(r"^([A-Za-z]\w*)(?:\[\d+\])?[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.M):
        if key.lower() == "clustername":
            lines.append("ClusterName = anonymous")
        elif key.lower() == "licenses":
            lines.append("Licenses = " + re.sub(r"[A-Za-z]\w*", lambda m: s.licence.get(m[0], m[0]), value))
        elif re.fullmatch(CONFIG.replace("\n", ""), key, re.I):
            lines.append(f"{key} = {value}")
    return "\n".join(lines) + "\n"


def write(folder: str | Path, out: str | Path) -> list[str]:
    """Write a site's folder anew without names, into a new folder; the names of its files. Raises InputError for a folder
    without sacct.txt, and for one that exists."""
    folder, out = Path(folder), Path(out)
    texts = {n: f.read_text("utf-8-sig", errors="replace") for n in (*COMMANDS, USAGE) if (f := folder / f"{n}.txt").is_file()}
    if "sacct" not in texts:
        raise InputError(f"{folder}: sacct.txt is missing; {COMMANDS['sacct']} writes it")
    if out.exists():
        raise InputError(f"{out}: exists already; name a folder that does not")
    s = SiteNames(texts)
    who = {k: s.listed(n) for k, n in {"User": "user", "Account": "account", "Partition": "partition", "QOS": "qos"}.items()}
    more = {"ParentName": who["Account"], "Par Name": who["Account"], "DefaultQOS": who["QOS"], "Def QOS": who["QOS"]}
    who |= more | {"Cluster": lambda text: "anonymous"}
    qos = {"Name": who["QOS"], "Preempt": who["QOS"]}
    of_jobs = {
        "JobName": lambda text: s.job.get(text.strip(), ""),
        "NodeList": s.hosts,
        "Constraints": s.marked,
        "SubmitLine": s.line,
    }
    of_jobs |= {"ReqTRES": s.tres, "AllocTRES": s.tres, "State": lambda text: re.sub(r" by \d+", "", text)}
    of_nodes: dict[str, Callable[[str], str]] = dict.fromkeys(("Features", "AvailableFeatures", "ActiveFeatures"), s.marked)
    of_nodes |= {"NodeName": s.hosts, "Partitions": who["Partition"]}
    of_parts = dict.fromkeys(("AllowAccounts", "DenyAccounts"), who["Account"]) | {"Nodes": s.hosts}
    of_parts |= dict.fromkeys(("AllowQos", "DenyQos", "QoS"), who["QOS"])
    of_parts |= dict.fromkeys(("PartitionName", "Alternate"), who["Partition"])
    closed: dict[str, Callable[[str], str]] = {"NodeName": s.hosts, "Name": lambda text: "reservation"}
    switches: dict[str, Callable[[str], str]] = {"SwitchName": lambda x: s.switch[x], "Nodes": s.hosts}
    switches["Switches"] = lambda x: ",".join(s.switch.get(y, y) for y in _hosts(x))
    written = {
        "sacct": lambda x: _columns(x, FIELDS.split(","), who | of_jobs),
        "scontrol_config": lambda x: _config(x, s),
        "scontrol_node": lambda x: _records(x, "NodeName", NODE, of_nodes),
        "scontrol_partition": lambda x: _records(x, "PartitionName", PARTITION, of_parts),
        "scontrol_topology": lambda x: _records(x, "SwitchName", "SwitchName Level LinkSpeed Nodes Switches", switches),
        "sacctmgr_qos": lambda x: _columns(x, [n for n in x.split("\n", 1)[0].split("|") if n not in ("Descr", "")], qos),
        "sacctmgr_assoc": lambda x: _columns(x, ASSOCIATION.split(",") + ["Par Name", "Def QOS"], who),
        "sacctmgr_event": lambda x: _columns(x, ["NodeName", "TimeStart", "TimeEnd", "State"], closed),
        "sacctmgr_reservation": lambda x: _columns(x, ["Name", "NodeName", "TimeStart", "TimeEnd"], closed),
        USAGE: lambda x: _columns(x, ["Account", "User", "RawUsage"], who),
    }
    own_folder(out)
    for name, text in texts.items():
        write_whole(out / f"{name}.txt", (written[name](text) if text.strip() else text).encode())
    return [f"{name}.txt" for name in texts]
