"""Folders of made-up small sites, as Slurm's commands print them: a few nodes, partitions, QOS and jobs."""

COLUMNS = (
    "JobID JobIDRaw JobName User Account Partition QOS State Submit Eligible Start End ElapsedRaw TimelimitRaw NNodes NCPUS ReqCPUS "
    "ReqMem ReqTRES AllocTRES NodeList Priority Constraints SubmitLine"
).split()
ZERO = 1_750_000_000  # s since 1970 of the times that tests name


def job(number, submit, start, run, cpus=1, *, limit=60, nodes=1, node="c1", mem="1000M", gpus="", line=None, **more):
    """A row of sacct: times in s behind ZERO; `gpus`: "gres/gpu=1", as TRES have it; `more`: other columns."""
    asked = f"billing={cpus},cpu={cpus},{f'{gpus},' if gpus else ''}mem={mem},node={nodes}"
    row = {"JobID": number, "JobIDRaw": number, "JobName": f"job{number}", "User": "ann", "Account": "lab", "Partition": "main"}
    row |= {"QOS": "normal", "State": "COMPLETED", "Submit": ZERO + submit, "Eligible": ZERO + submit, "Start": ZERO + start}
    row |= {
        "End": ZERO + start + run,
        "ElapsedRaw": run,
        "TimelimitRaw": limit,
        "NNodes": nodes,
        "NCPUS": cpus,
        "ReqCPUS": cpus,
    }
    row |= {"ReqMem": mem, "ReqTRES": asked, "AllocTRES": asked, "NodeList": node, "Priority": 1000, "Constraints": ""}
    row |= {"SubmitLine": f"sbatch -n {cpus} --mem={mem} run.sh" if line is None else line}
    return row | more


def node(name, cpus=4, mem=16000, **more):
    """A record of `scontrol show node -o`."""
    known = {"NodeName": name, "CPUTot": cpus, "RealMemory": mem, "Gres": "(null)", "State": "IDLE", "ThreadsPerCore": 1}
    return " ".join(f"{k}={v}" for k, v in (known | more).items()) + "\n"


def partition(name="main", nodes="c1", **more):
    """A record of `scontrol show partition`."""
    known = {"PartitionName": name, "Nodes": nodes, "MaxTime": "UNLIMITED", "PriorityJobFactor": 1, "PriorityTier": 1}
    return " ".join(f"{k}={v}" for k, v in (known | {"State": "UP"} | more).items()) + "\n\n"


def table(rows):
    """Rows of a table with | between its columns; rows that lack a column have nothing in it."""
    names = list(dict.fromkeys(k for r in rows for k in r))
    return "\n".join(["|".join(names), *("|".join(str(r.get(k, "")) for k in names) for r in rows)]) + "\n"


def write(folder, jobs, nodes=(), partitions=(), qos=(), assoc=(), switches="", **config):
    """Fill a folder; `nodes`, `partitions`: records; `qos`, `assoc`: rows; `switches`: topology.conf; `config`: settings."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"ClusterName": "demo", "AccountingStorageEnforce": "associations,limits,qos", "PriorityWeightAge": "1000"}
    settings |= {"PriorityType": "priority/multifactor", "SchedulerType": "sched/backfill", "SelectType": "select/cons_tres"}
    settings |= {"SelectTypeParameters": "CR_CORE_MEMORY"} | config
    (folder / "scontrol_config.txt").write_text("".join(f"{k:<24}= {v}\n" for k, v in settings.items()))
    (folder / "scontrol_node.txt").write_text("".join(nodes or [node("c1")]))
    (folder / "scontrol_partition.txt").write_text("".join(partitions or [partition()]))
    (folder / "sacctmgr_qos.txt").write_text(table([{"Name": "normal", "Priority": 0}, *qos]))
    if switches:
        (folder / "scontrol_topology.txt").write_text(switches)
    if assoc:
        (folder / "sacctmgr_assoc.txt").write_text(table(assoc))
    (folder / "sacct.txt").write_text(table([{k: j[k] for k in COLUMNS} for j in jobs]))
    return folder
