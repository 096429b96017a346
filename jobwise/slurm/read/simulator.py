"""Read a site of the UBCCR Slurm Simulator: its slurm.conf, its script of sacctmgr, and its jobs as *.events, as what Slurm's
own commands would print.

The events say when jobs come, what they ask for and how long they run. Nobody has run them: there are no starts.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from jobwise.errors import InputError
from jobwise.slurm.read.text import memory, nodes, pairs, seconds

EVENTS = "*.events"
ZERO = 946_684_800  # s since 1970 of time 0 of the events, which name no day: 1 January 2000
COLUMNS = {"maxsubmitjobsperuser": "MaxSubmitPU", "maxjobsperuser": "MaxJobsPU", "maxtresperuser": "MaxTRESPU"}
COLUMNS |= {"priority": "Priority", "grptres": "GrpTRES", "grpjobs": "GrpJobs", "maxwall": "MaxWall", "preempt": "Preempt"}


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise ValueError in place of SystemExit."""
        raise ValueError(message)


def _options() -> _Options:
    known = _Options(add_help=False, allow_abbrev=False)
    for names in ("-sim-walltime", "--uid", "-J", "-N", "-n", "-c", "-t", "-p", "-A", "--mem", "--gres", "-d"):
        known.add_argument(names, dest=names.strip("-").replace("-", "_"), default="")
    known.add_argument("-q", "--qos", dest="q", default="normal")
    known.add_argument("-C", "--constraint", dest="C", default="")
    return known


def is_one(folder: Path) -> bool:
    """Return whether a folder has events, and nothing that sacct has printed."""
    return any(folder.glob(EVENTS)) and not any(folder.glob("sacct.*"))


def texts(folder: Path) -> dict[str, str]:
    """Return what Slurm's commands would print of such a site, by the names of `site.COMMANDS`; nothing where it is none.

    Raises
    ------
    InputError
        A file is missing or there are several, or an event cannot be read.
    """
    if not is_one(folder):
        return {}
    events, scripts = sorted(folder.glob(EVENTS)), sorted(folder.glob("sacctmgr*.script"))
    if not (folder / "slurm.conf").is_file() or len(events) > 1 or len(scripts) > 1:
        raise InputError(f"{folder}: one *.events with its slurm.conf, and at most one sacctmgr*.script, are expected")
    lines = list(_lines(folder / "slurm.conf"))
    script = list(_lines(scripts[0])) if scripts else []
    users = dict(_accounts(script))
    qos = [_qos(x) for x in script if re.match(r"add\s+qos\s", x, re.IGNORECASE)]
    return {
        "scontrol_config": "".join(f"{k:<24}= {v}\n" for k, v in _settings(lines)),
        "scontrol_node": "".join(_nodes(lines)),
        "scontrol_partition": "".join(_partitions(lines)),
        "sacctmgr_qos": _table(qos),
        "sacctmgr_assoc": _table(list(_associations(script, users))),
        "sacctmgr_event": "",
        "sacctmgr_reservation": "",
        "sacct": _table(list(_jobs(events[0], users, _memory(lines)))),
    }


def _lines(file: Path) -> Iterator[str]:
    """Yield the lines that are no comment, those that go on behind a backslash as one."""
    for line in file.read_text("utf-8", errors="replace").replace("\\\n", " ").splitlines():
        if line := line.split("#")[0].strip():
            yield line


def _settings(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        key, _, value = line.partition("=")
        if not re.match(r"(node|partition|frontend|nodeset|down)", key.strip(), re.IGNORECASE):
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


def _partitions(lines: list[str]) -> Iterator[str]:
    for row in _declared(lines, "partitionname"):
        known = {"PartitionName": row.pop("partitionname"), "Nodes": row.pop("nodes", "ALL")}
        both = row.pop("priority", "1")  # an old word for two things
        known |= {"PriorityJobFactor": row.pop("priorityjobfactor", both), "PriorityTier": row.pop("prioritytier", both)}
        names = {"maxtime": "MaxTime", "state": "State", "qos": "QoS", "defmempercpu": "DefMemPerCPU", "allowqos": "AllowQos"}
        known |= {names.get(k, k): v for k, v in row.items()}
        yield " ".join(f"{k}={v}" for k, v in known.items()) + "\n\n"


def _memory(lines: list[str]) -> dict[str, str]:
    """Return the MiB for each CPU of jobs that ask for none, by partition."""
    common = next((v for k, v in _settings(lines) if k.lower() == "defmempercpu"), "0")
    return {r["partitionname"]: r.get("defmempercpu", common) for r in _declared(lines, "partitionname")}


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


def _jobs(file: Path, users: dict[str, str], of_cpu: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield rows of sacct. Raises InputError, naming file and line."""
    options, job = _options(), 0
    for n, line in enumerate(file.read_text("utf-8", errors="replace").splitlines(), 1):
        event, _, words = line.partition("|")
        if not (m := re.match(r"\s*-dt\s+([\d.]+)\s+-e\s+(\w+)\s*$", event)):
            if line.strip() and not line.lstrip().startswith("#"):
                raise InputError(f"{file}:{n}: no event such as '-dt 10.5 -e submit_batch_job | -sim-walltime 300 …'")
        elif m[2] == "submit_batch_job":
            job += 1
            try:
                yield _job(options, job, float(m[1]), shlex.split(words)[:-1], users, of_cpu)
            except ValueError as error:
                raise InputError(f"{file}:{n}: {error}") from None


def _job(
    options: _Options, job: int, at: float, words: list[str], users: dict[str, str], of_cpu: dict[str, str]
) -> dict[str, str]:
    x, _ = options.parse_known_args(words)
    count, limit, submit = int(x.N or 1), seconds(x.t) if x.t else 86_400.0, int(ZERO + at)
    cpus, run = int(x.n or count) * int(x.c or 1), float(x.sim_walltime or -1)
    run = int(limit if run < 0 else min(run, limit))  # it never ends by itself: its limit does
    gpus = re.search(r"gpu(?::[^:,]+)?:(\d+)", x.gres)
    mib = memory(x.mem) * count if x.mem else cpus * int(of_cpu.get(x.p, "0"))
    asked = f"billing={cpus},cpu={cpus}{f',gres/gpu={int(gpus[1]) * count}' if gpus else ''},mem={mib}M,node={count}"
    row = {
        "JobID": job,
        "JobIDRaw": job,
        "JobName": x.J,
        "User": x.uid,
        "Account": x.A or users.get(x.uid, ""),
        "Partition": x.p,
    }
    row |= {"QOS": x.q, "State": "COMPLETED", "Submit": submit, "Eligible": submit, "Start": submit, "End": submit + run}
    row |= {
        "ElapsedRaw": run,
        "TimelimitRaw": int(limit // 60),
        "NNodes": count,
        "NCPUS": cpus,
        "ReqCPUS": cpus,
        "ReqMem": x.mem,
    }
    row |= {"ReqTRES": asked, "AllocTRES": "", "NodeList": "", "Priority": "", "Constraints": x.C}
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
