"""Read a site of the UBCCR Slurm Simulator: its slurm.conf, its script of sacctmgr, and its jobs as *.events, as what Slurm's
own commands would print.

The events say when jobs come, what they ask for and how long they run. Nobody has run them: there are no starts.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jobwise.errors import InputError
from jobwise.slurm.read.text import memory, nodes, pairs
from jobwise.workloads.batch.events import EVENT, Options
from jobwise.workloads.fields import seconds

EVENTS, CONF, SCRIPT, TREE = "*.events", "slurm.conf", "sacctmgr*.script", "topology.conf"
ZERO = 946_684_800  # s since 1970 of time 0 of the events, which name no day: 1 January 2000
YEAR_S = 365 * 86_400  # Slurm's limit of a job where none is set
COLUMNS = {"maxsubmitjobsperuser": "MaxSubmitPU", "maxjobsperuser": "MaxJobsPU", "maxtresperuser": "MaxTRESPU"}
COLUMNS |= {"priority": "Priority", "grptres": "GrpTRES", "grpjobs": "GrpJobs", "maxwall": "MaxWall", "preempt": "Preempt"}


@dataclass
class Printed:
    """What Slurm's commands would print of a site, by the names of `site.COMMANDS`, and what was left out or assumed."""

    texts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def taken(folder: Path) -> list[str]:
    """Return the names of the files of such a site, in order; none where sacct has printed something, or no event is there."""
    if not any(folder.glob(EVENTS)) or any(folder.glob("sacct.*")):
        return []
    return sorted(x.name for pattern in (EVENTS, CONF, SCRIPT, TREE) for x in folder.glob(pattern))


def printed(folder: Path) -> Printed:
    """Return what Slurm's commands would print of such a site; nothing where it is none.

    Raises
    ------
    InputError
        A file is missing or there are several, or no event can be read.
    """
    if not taken(folder):
        return Printed()
    events, scripts = sorted(folder.glob(EVENTS)), sorted(folder.glob(SCRIPT))
    if not (folder / CONF).is_file() or len(events) > 1 or len(scripts) > 1:
        raise InputError(f"{folder}: one {EVENTS} with its {CONF}, and at most one {SCRIPT}, are expected")
    lines = list(_lines(folder / CONF))
    script = list(_lines(scripts[0])) if scripts else []
    notes = ["a site of a simulator: nobody has run these jobs, they have no starts"]
    notes += [f"{CONF} has {x!r}: that file is not read" for x in lines if re.match(r"include\s", x, re.IGNORECASE)]
    if unread := [x for x in script if not re.match(r"add\s+(qos|cluster|account|user)\s|list\s", x, re.IGNORECASE)]:
        notes.append(f"{len(unread):,} lines of {scripts[0].name} are not read (the first: {unread[0]!r})")
    users = dict(_accounts(script))
    partitions = {x["partitionname"]: x for x in _declared(lines, "partitionname")}
    common = next((v for k, v in _settings(lines) if k.lower() == "defmempercpu"), "0")
    jobs = list(_Jobs(events[0], users, partitions, common).rows(notes))
    texts = {
        "scontrol_config": "".join(f"{k:<24}= {v}\n" for k, v in _settings(lines)),
        "scontrol_node": "".join(_nodes(lines)),
        "scontrol_partition": "".join(_partition(x) for x in partitions.values()),
        "scontrol_topology": "\n".join(_lines(folder / TREE)) if (folder / TREE).is_file() else "",
        "sacctmgr_qos": _table([_qos(x) for x in script if re.match(r"add\s+qos\s", x, re.IGNORECASE)]),
        "sacctmgr_assoc": _table(list(_associations(script, users))),
        "sacctmgr_event": "",
        "sacctmgr_reservation": "",
        "sacct": _table(jobs),
    }
    return Printed(texts, notes)


def _lines(file: Path) -> Iterator[str]:
    """Yield the lines that are no comment, those that go on behind a backslash as one."""
    for line in file.read_text("utf-8", errors="replace").replace("\\\n", " ").splitlines():
        if line := line.split("#")[0].strip():
            yield line


def _settings(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        key, _, value = line.partition("=")
        if value and key.strip().lower() not in ("nodename", "partitionname", "frontendname", "nodeset", "downnodes"):
            yield key.strip(), value.strip()


def _declared(lines: list[str], kind: str) -> Iterator[dict[str, str]]:
    """Yield what lines of a kind say, keys in small letters, with the values of the DEFAULT lines before them."""
    default: dict[str, str] = {}
    for line in lines:
        row = {k.lower(): v for k, v in pairs(line).items()}
        if kind in row and row[kind].upper() == "DEFAULT":
            default |= {k: v for k, v in row.items() if k != kind}
        elif kind in row:
            yield default | row


def _nodes(lines: list[str]) -> Iterator[str]:
    for row in _declared(lines, "nodename"):
        sockets, cores, threads = (int(row.get(k, "1")) for k in ("sockets", "corespersocket", "threadspercore"))
        known: dict[str, object] = {
            "CPUTot": row.get("cpus") or str(sockets * cores * threads),
            "RealMemory": row.get("realmemory", "1"),
        }
        known |= {"Sockets": sockets, "CoresPerSocket": cores, "ThreadsPerCore": threads, "Gres": row.get("gres", "(null)")}
        known |= {"AvailableFeatures": row.get("feature", "(null)"), "Weight": row.get("weight", "1"), "State": "IDLE"}
        text = " ".join(f"{k}={v}" for k, v in known.items())
        yield from (f"NodeName={name} {text}\n" for name in nodes(row["nodename"]))


def _partition(said: dict[str, str]) -> str:
    row = dict(said)
    known = {"PartitionName": row.pop("partitionname"), "Nodes": row.pop("nodes", "ALL")}
    both = row.pop("priority", "1")  # an old word for two things
    known |= {"PriorityJobFactor": row.pop("priorityjobfactor", both), "PriorityTier": row.pop("prioritytier", both)}
    names = {"maxtime": "MaxTime", "state": "State", "qos": "QoS", "defmempercpu": "DefMemPerCPU", "allowqos": "AllowQos"}
    known |= {names.get(k, k): v for k, v in row.items()}
    return " ".join(f"{k}={v}" for k, v in known.items()) + "\n\n"


def _words(line: str) -> dict[str, str]:
    return {k.lower(): v for k, _, v in (x.partition("=") for x in shlex.split(line) if "=" in x)}


def _qos(line: str) -> dict[str, str]:
    words = _words(line)
    return {"Name": words.pop("name"), "Priority": "0"} | {COLUMNS.get(k, k): v for k, v in words.items()}


def _accounts(script: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the users and the account of each, if none is asked for."""
    for line in script:
        words = _words(line)
        if re.match(r"add\s+user\s", line, re.IGNORECASE):
            yield words["name"], words.get("defaultaccount") or words.get("account", "")


def _associations(script: list[str], users: dict[str, str]) -> Iterator[dict[str, str]]:
    def one(account: str, user: str, share: str, parent: str) -> dict[str, str]:
        return {"Account": account, "User": user, "Share": share, "ParentName": parent}

    yield one("root", "", "1", "")
    for line in script:
        words = _words(line)
        if re.match(r"add\s+account\s", line, re.IGNORECASE):
            yield one(words["name"], "", words.get("fairshare", "1"), words.get("parent", "root"))
        elif re.match(r"add\s+user\s", line, re.IGNORECASE):
            yield one(words.get("account") or users[words["name"]], words["name"], words.get("fairshare", "1"), "")


@dataclass
class _Jobs:
    """The events of a file: who has which account, what partitions say, and the MiB for each CPU where they say nothing."""

    file: Path
    users: dict[str, str]
    partitions: dict[str, dict[str, str]]
    common: str

    def rows(self, notes: list[str]) -> Iterator[dict[str, str]]:
        """Yield rows of sacct. What is left out is noted. Raises InputError where nothing is left."""
        options, job, read, others, odd = Options(), 0, 0, Counter[str](), list[str]()
        for n, line in enumerate(self.file.read_text("utf-8", errors="replace").splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not (m := EVENT.match(line)):
                odd.append(f"{self.file}:{n}: no event such as '-dt 10.5 -e submit_batch_job | -sim-walltime 300 …'")
            elif m[2] != "submit_batch_job":
                others[m[2]] += 1
            else:
                job += 1  # Slurm's number of it, whether it can be read or not
                try:
                    row = self._row(options, job, float(m[1]), shlex.split(m[3] or "")[:-1])
                    read += 1
                    yield row
                except ValueError as error:
                    odd.append(f"{self.file}:{n}: {error}")
        if not read:
            raise InputError(odd[0] if odd else f"{self.file}: no job is submitted")
        notes += [f"{count:,} events {name} are left out: only submitted jobs are read" for name, count in others.items()]
        notes += [f"{len(odd):,} events cannot be read and are left out (the first: {odd[0]})"] if odd else []

    def _row(self, options: Options, job: int, at: float, words: list[str]) -> dict[str, str]:
        x, _ = options.parse_known_args(words)
        if x.array:
            raise ValueError("arrays are not read")
        default = next((k for k, p in self.partitions.items() if p.get("default", "").upper() == "YES"), "")
        where = x.partition or default
        own = self.partitions.get(where.split(",")[0], {})
        most = seconds(own.get("defaulttime") or own.get("maxtime") or "UNLIMITED")
        limit, submit = min(seconds(x.time) if x.time else most, YEAR_S), int(ZERO + at)
        count = int((x.nodes or "1").split("-")[0])
        cpus, run = int(x.ntasks or count) * int(x.cpus_per_task or 1), float(x.sim_walltime or -1)
        run = int(limit if run < 0 else min(run, limit))  # it never ends by itself: its limit does
        gpus = re.search(r"gpu(?::[^:,]+)?:(\d+)", x.gres)
        mib = memory(x.mem) * count if x.mem else cpus * int(own.get("defmempercpu", self.common))
        asked = f"billing={cpus},cpu={cpus}{f',gres/gpu={int(gpus[1]) * count}' if gpus else ''},mem={mib}M,node={count}"
        row = {
            "JobID": job, "JobIDRaw": job, "JobName": x.job_name, "User": x.uid,
            "Account": x.account or self.users.get(x.uid, ""), "Partition": where, "QOS": x.qos or "normal",
            "State": "COMPLETED", "Submit": submit, "Eligible": submit,
            "Start": submit, "End": submit + run, "ElapsedRaw": run, "TimelimitRaw": int(limit // 60), "NNodes": count,
            "NCPUS": cpus, "ReqCPUS": cpus, "ReqMem": x.mem, "ReqTRES": asked, "AllocTRES": "", "NodeList": "", "Priority": "",
            "Constraints": x.constraint,
        }  # fmt: skip
        return {k: str(v) for k, v in row.items()} | {"SubmitLine": shlex.join(["sbatch", *_sbatch(words)])}


def _sbatch(words: list[str]) -> Iterator[str]:
    """Yield the options that sbatch knows."""
    skipped = False
    for word in words:
        if not skipped and word != "-sim-walltime":
            yield word
        skipped = word == "-sim-walltime"


def _table(rows: list[dict[str, str]]) -> str:
    if not rows:
        return ""
    names = list(dict.fromkeys(k for r in rows for k in r))
    return "\n".join("|".join(x) for x in [names, *([r.get(k, "") for k in names] for r in rows)]) + "\n"
