"""Logs of other batch systems: what jobwise reads is what a few lines of csv, json and re read; what is left out is counted.

Modules: workloads/batch/batsim.py, workloads/batch/condor.py, workloads/batch/events.py, workloads/batch/flux.py,
workloads/batch/kueue.py, workloads/batch/lsf.py, workloads/batch/oar.py, workloads/batch/pbs.py, workloads/batch/sge.py,
workloads/jobtable.py, workloads/logfile.py, workloads/opened.py, workloads/slurm_json.py, workloads/swf_lines.py.
"""

import csv
import gzip
import json
import re
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pytest
from test_swf import line as swf_line

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.workloads.source import open_log

T0 = 1_772_438_400  # 2026-03-02 08:00 UTC


class Job(NamedTuple):
    id: int
    submit: int
    start: int
    end: int
    size: int
    limit: int
    user: str
    good: bool


def jobs(seed, count=40):
    rng = np.random.default_rng(seed)
    submit = T0 + np.sort(rng.integers(0, 50_000, count))
    start = submit + rng.integers(1, 9000, count)
    run = rng.integers(1, 20_000, count)
    return [
        Job(100 + k, int(a), int(b), int(b + r), int(n), int(60 * np.ceil(r / 60) + 600), f"u{u}", bool(g))
        for k, (a, b, r, n, u, g) in enumerate(
            zip(
                submit,
                start,
                run,
                2 ** rng.integers(0, 6, count),
                rng.integers(1, 6, count),
                rng.random(count) < 0.8,
                strict=True,
            )
        )
    ]


def clock(seconds):
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def iso(seconds, end="Z"):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + end


def pbs(x):
    hosts = "+".join(f"n{k}/0*1" for k in range(x.size))
    return (
        f'03/02/2026 08:00:10;E;{x.id}.head;user={x.user} group=lab account="the lab" jobname=a queue=work ctime={x.submit} '
        f"qtime={x.submit} etime={x.submit} start={x.start} exec_host={hosts} Resource_List.ncpus={x.size} "
        f"Resource_List.nodect={x.size} Resource_List.walltime={clock(x.limit)} session=9 end={x.end} Exit_status={0 if x.good else 271} "
        f"resources_used.walltime={clock(x.end - x.start)} run_count=1"
    )


def lsf(x):
    usage = "5.0 0.1 0 0 -1 0 0 0 0 0 0 0 -1 0 0 0 0 0 -1"
    behind = f'"" "lab" 0 {x.size} "" "" 0 0 0 "" "" "" "" 0 "" 0 "" -1 "" "" "" "" -1 "" "" 6160 "" {x.start} "" ""'
    return (
        f'"JOB_FINISH" "10.1" {x.end} {x.id} 1001 33882739 {x.size} {x.submit} 0 0 {x.start} "{x.user}" "normal" "" "" "" "head" '
        f'"/home" "" "" "" "1.2" 1 "ask" 1 "{x.size}*n1" {64 if x.good else 32} 60.0 "sim ""x""" "sleep 10" {usage} {behind} '
        f'1 7 "k=v" 1 n1 5 6 7 8 9 {x.limit} 33554432 0 "select[a] rusage[mem=5.0]" ""'
    )


def sge(x):
    failed = 0 if x.good else 100
    return (
        f"all.q:n1:lab:{x.user}:name:{x.id}:sge:0:{x.submit}:{x.start}:{x.end}:{failed}:0:{x.end - x.start}:1.0:0.1:100.0:0:0:0:0:1:0:"
        f"0:0.0:4:0:0:0:4:5:chem:dept:smp:{x.size}:0:1.1:0.3:0.0:-l h_rt={x.limit},m=1 -pe smp {x.size}:0.0:NONE:1.0:0:0"
    )


def uge(x):
    fields = sge(x).split(":")
    fields[8:11] = [f"{y}000" for y in fields[8:11]]
    return ":".join([*fields, "NONE", "NONE", "1", "2", "dev:8080", "/a:b", "qsub x:y"])


def condor(x):
    ad = {"ClusterId": x.id, "ProcId": 0, "Owner": x.user, "QDate": x.submit, "JobStartDate": x.start - 1, "JobStatus": 4}
    ad |= {"JobCurrentStartDate": x.start, "CompletionDate": x.end, "RequestCpus": x.size, "RequestMemory": 2048}
    return ad | {"AllowedJobDuration": x.limit, "ExitCode": 0 if x.good else 1, "ExitBySignal": False}


def flux(x):
    one = {
        "id": x.id,
        "t_submit": x.submit + 0.25,
        "t_depend": x.submit + 0.25,
        "t_run": x.start + 0.25,
        "t_cleanup": x.end + 0.25,
    }
    one |= {
        "t_inactive": x.end + 9,
        "duration": float(x.limit),
        "nnodes": 1,
        "ncores": x.size,
        "username": x.user,
        "queue": "batch",
    }
    return one | {"result": "COMPLETED" if x.good else "FAILED", "state": "INACTIVE"}


def oar(x):
    one = {"Job_Id": x.id, "owner": x.user, "submissionTime": x.submit, "startTime": x.start, "stopTime": x.end}
    one |= {"walltime": x.limit, "state": "Terminated" if x.good else "Error", "queue": "default"}
    return one | {"assigned_resources": list(range(x.size)), "message": f"R={x.size},W={clock(x.limit)},J=B"}


def kueue(x):
    ask = {"requests": {"cpu": "500m", "memory": "200Mi", "nvidia.com/gpu": "1"}}
    pods = [{"name": "main", "count": x.size, "template": {"spec": {"containers": [{"name": "c", "resources": ask}]}}}]
    when = [{"type": "Admitted", "status": "True", "lastTransitionTime": iso(x.start)}]
    reason = "Succeeded" if x.good else "Failed"
    when += [{"type": "Finished", "status": "True", "reason": reason, "lastTransitionTime": iso(x.end)}]
    spec = {"podSets": pods, "queueName": "q", "maximumExecutionTimeSeconds": x.limit}
    about = {"name": f"w{x.id}", "namespace": x.user, "creationTimestamp": iso(x.submit)}
    return {"kind": "Workload", "metadata": about, "spec": spec, "status": {"conditions": when}}


def sacct_json(x, version="0.0.42"):
    state = "COMPLETED" if x.good else "FAILED"
    new = version >= "0.0.40"
    one = {"job_id": x.id, "name": "a", "account": "lab", "user": x.user, "partition": "batch", "qos": "normal", "nodes": "n1"}
    one |= {"allocation_nodes": 1, "state": {"current": [state] if new else state, "reason": "None"}}
    limit = x.limit // 60
    limits = {"set": True, "infinite": False, "number": limit} if version > "0.0.38" else limit
    one["time"] = {"submission": x.submit, "eligible": x.submit, "start": x.start, "end": x.end, "elapsed": x.end - x.start}
    one["time"] |= {"limit": limits, "suspended": 0}
    cpus = [{"type": "cpu", "name": "", "id": 1, "count": x.size}]
    return one | {"tres": {"allocated": cpus, "requested": cpus}, "required": {"CPUs": x.size}, "array": {"job_id": 0}}


def events(x):
    return (
        f"-dt {x.submit - T0} -e submit_batch_job | -J jobid_{x.id} -sim-walltime {x.end - x.start} --uid={x.user} "
        f"-t {clock(x.limit)} -n {x.size} -A lab -p normal -q normal --mem=500G --gres=gpu:1 pseudo.job"
    )


def xdmod(x):
    state = "COMPLETED" if x.good else "CANCELLED by 7"
    times = "|".join(iso(t, "") for t in (x.submit, x.submit, x.start, x.end))
    return (
        f"{x.id}|{x.id}|ub|general|normal|lab|grp|5|{x.user}|9|{times}|{clock(x.end - x.start)}|0:0|{state}|1|{x.size}|{x.size}|"
        f"3000Mc|cpu={x.size}|cpu={x.size},mem=1G|{clock(x.limit)}|n1|name | of a user"
    )


def lines(make):
    return lambda every: "\n".join(map(make, every)) + "\n"


def documents(make, key=None):
    def text(every):
        rows = [make(x) for x in every]
        return json.dumps({key: rows, "meta": {}} if key else rows)

    return text


def ads(every):
    shown = {str: '"{}"'.format, bool: lambda v: str(v).lower()}
    one = ("\n".join(f"{k} = {shown.get(type(v), str)(v)}" for k, v in condor(x).items()) for x in every)
    return "\n\n".join(one) + "\n"


def from_json(text, key, names):
    """(submit, run, size) of each job, by five paths."""

    def at(x, path):
        for part in path.split("."):
            x = x[int(part) if part.isdigit() else part]
        return len(x) if isinstance(x, list) else datetime.fromisoformat(x).timestamp() if isinstance(x, str) else x

    rows = json.loads(text)
    rows = rows[key] if key else list(rows.values()) if isinstance(rows, dict) else rows
    submit, start, end, size = ([at(x, n) for x in rows] for n in names)
    return [(a, c - b, n) for a, b, c, n in zip(submit, start, end, size, strict=True)]


def from_pairs(text, pattern, names):
    found = [dict(re.findall(pattern, line)) for line in re.split(names[4], text) if line.strip()]
    return [(float(x[names[0]]), float(x[names[2]]) - float(x[names[1]]), int(x[names[3]])) for x in found]


def from_columns(text, separator, at, scale=1):
    rows = list(csv.reader(text.splitlines(), delimiter=separator))
    return [(int(r[at[0]]) / scale, (int(r[at[2]]) - int(r[at[1]])) / scale, int(r[at[3]])) for r in rows]


def from_xdmod(text):
    rows = [row.split("|") for row in text.splitlines()]
    when = [[datetime.fromisoformat(r[k] + "+00:00").timestamp() for k in (10, 12, 13)] for r in rows]
    return [(a, c - b, int(r[18])) for (a, b, c), r in zip(when, rows, strict=True)]


KUEUE = ("metadata.creationTimestamp", "status.conditions.0.lastTransitionTime", "status.conditions.1.lastTransitionTime")
SLURM = ("time.submission", "time.start", "time.end", "tres.allocated.0.count")
FLUX = ("t_submit", "t_run", "t_cleanup", "ncores")
CONDOR = ("QDate", "JobCurrentStartDate", "CompletionDate", "RequestCpus")
FORMATS = {  # name: (file's name, text of jobs, an independent reader of (submit, run, size), has starts)
    "PBS": (
        "20260302",
        lines(pbs),
        lambda t: from_pairs(t, r"([\w.]+)=(\S+)", ("etime", "start", "end", "Resource_List.ncpus", "\n")),
    ),
    "LSF": ("lsb.acct", lines(lsf), lambda t: from_columns(t, " ", (7, 10, 2, 6))),
    "SGE": ("accounting", lines(sge), lambda t: from_columns(t, ":", (8, 9, 10, 34))),
    "UGE": ("accounting", lines(uge), lambda t: from_columns(t, ":", (8, 9, 10, 34), 1000)),
    "HTCondor": ("history.json", documents(condor), lambda t: from_json(t, None, CONDOR)),
    "HTCondor -long": ("history", ads, lambda t: from_pairs(t, r"(\w+) = (\S+)", (*CONDOR, "\n\n"))),
    "Flux": ("jobs.json", documents(flux, "jobs"), lambda t: from_json(t, "jobs", FLUX)),
    "Flux, lines": (
        "jobs",
        lines(lambda x: json.dumps(flux(x))),
        lambda t: from_json(f"[{t.strip()}]".replace("\n", ","), None, FLUX),
    ),
    "OAR": (
        "oar.json",
        lambda every: json.dumps({str(x.id): oar(x) for x in every}),
        lambda t: from_json(t, None, ("submissionTime", "startTime", "stopTime", "assigned_resources")),
    ),
    "Kueue": ("w.json", documents(kueue, "items"), lambda t: from_json(t, "items", (*KUEUE, "spec.podSets.0.count"))),
    **{
        f"sacct --json {v}": (
            "sacct.json",
            documents(lambda x, v=v: sacct_json(x, v), "jobs"),
            lambda t: from_json(t, "jobs", SLURM),
        )
        for v in ("0.0.38", "0.0.39", "0.0.42")
    },
    "XDMoD": ("slurm.log", lines(xdmod), from_xdmod),
}


def agrees(w, truth, has_starts=True):
    """Does a workload hold these (submit, run, size)?"""
    truth = sorted(truth)
    submit = w.jobs["submit"] + (w.origin if not np.isnan(w.origin) else 0.0)
    mine = sorted(zip(submit.tolist(), w.truth["runtime"].tolist(), w.jobs["request"][:, 0].tolist(), strict=True))
    assert np.allclose(np.array(mine), np.array(truth), atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", FORMATS)
def test_a_log_is_read_as_a_few_lines_read_it(name, seed, tmp_path):
    """Jobs, sizes and times; limits, users, ends and starts are those of the jobs that were written."""
    file, text, independent = FORMATS[name]
    every = jobs(seed)
    (tmp_path / file).write_text(text(every))
    w = open_log(str(tmp_path / file))
    agrees(w, independent(text(every)))
    order = sorted(every, key=lambda x: x.submit)
    assert w.jobs["walltime"].tolist() == [x.limit for x in order] and w.columns["status"].tolist() == [
        1 if x.good else 5 if name == "XDMoD" else 0 for x in order
    ]
    assert w.columns["wait"].tolist() == [x.start - x.submit for x in order]
    assert [w.names["user"][u] for u in w.jobs["user"]] == [x.user for x in order]
    assert w.dropped == {} and any("guessed from the most in use at once" in n for n in w.notes) and w.reading


def test_the_same_log_packed_and_from_standard_input(tmp_path, monkeypatch, capsys):
    text = lines(pbs)(jobs(0)).encode()
    (tmp_path / "a.log").write_bytes(text)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(text))
    a, b = (open_log(str(tmp_path / n)) for n in ("a.log", "b.log.gz"))
    assert a.jobs.tobytes() == b.jobs.tobytes() and (a.name, b.name) == ("a", "b")
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", type("In", (), {"buffer": io.BytesIO(text)}))
    assert open_log("-").jobs.tobytes() == a.jobs.tobytes()


LEFT = {  # name: (text of one good job, lines that are no job, {reason: rows})
    "PBS": (
        pbs,
        [
            "03/02/2026 08:00:10;Q;1.head;queue=work",
            "03/02/2026 08:00:10;E;7[].head;user=a ctime=1 start=2 end=3",
            "not a record",
            "03/02/2026 08:00:10;E;9.head;user=a ctime=never start=1772438410 end=1772438420 exec_host=n/0",
        ],
        {"records of other kinds": 1, "arrays as a whole": 1, "that are no record": 1, "that cannot be read": 1},
    ),
    "LSF": (lsf, ['"JOB_NEW" "10.1" 1 2', '"JOB_FINISH" "10.1" 5 6'], {"records of other kinds": 1, "that cannot be read": 1}),
    "SGE": (
        sge,
        ["a:b", sge(jobs(0)[0]).replace(":NONE:", ":1.n1:")],
        {"of another number of fields": 1, "tasks of a parallel": 1},
    ),
    "Flux, lines": (
        lambda x: json.dumps(flux(x)),
        [json.dumps(flux(jobs(0)[0]) | {"t_run": 0, "t_cleanup": 0, "t_inactive": 0, "result": "", "state": "SCHED"})],
        {"never started": 1},
    ),
    "XDMoD": (xdmod, ["1|2|3", xdmod(jobs(0)[0]).replace("COMPLETED", "RUNNING")], {"that cannot be read": 1, "not ended": 1}),
}


@pytest.mark.parametrize("name", LEFT)
def test_rows_in_are_rows_out_and_rows_left_out(name, tmp_path):
    make, more, reasons = LEFT[name]
    every = jobs(1)
    (tmp_path / "log").write_text("\n".join([make(every[0]), *more, *map(make, every[1:])]) + "\n")
    w = open_log(str(tmp_path / "log"))
    assert len(w) + sum(w.dropped.values()) == len(every) + len(more)
    assert {next(r for r in reasons if k.startswith(r)): n for k, n in w.dropped.items()} == reasons


def test_runs_before_a_requeue_are_counted(tmp_path):
    x = jobs(2)[0]
    (tmp_path / "log").write_text(pbs(x) + "\n" + pbs(x._replace(start=x.start + 500, end=x.end + 500)) + "\n")
    w = open_log(str(tmp_path / "log"))
    assert len(w) == 1 and w.columns["wait"].tolist() == [x.start + 500 - x.submit]
    assert w.dropped == {"earlier runs of a job that was begun again": 1}


PBS_CORES = {
    "exec_vnode=(a:ncpus=24:ngpus=2)+(b:ncpus=8+c:ncpus=4)": 36,
    "exec_host=n1/7+n1/6+n2/0": 3,
    "exec_host=26742/0-31+26743/0-31": 64,
    "Resource_List.select=2:ncpus=8:ngpus=1+1:ncpus=4": 20,
    "Resource_List.nodect=2 Resource_List.nodes=2:ppn=4:gpus=1 Resource_List.ncpus=1": 8,
}


@pytest.mark.parametrize("asked", PBS_CORES)
def test_cores_of_pbs_and_torque(asked, tmp_path):
    (tmp_path / "log").write_text(
        f"03/02/2026 08:00:10;E;71.head;user=a ctime={T0} etime={T0} start={T0} {asked} Resource_List.walltime=30:00:00 end={T0 + 60}\n"
    )
    w = open_log(str(tmp_path / "log"))
    assert w.jobs["request"][:, 0].tolist() == [PBS_CORES[asked]] and w.jobs["walltime"].tolist() == [108_000]


def test_events_have_no_starts(tmp_path):
    every = jobs(3)
    (tmp_path / "x.events").write_text("# made\n" + lines(events)(every))
    w = open_log(str(tmp_path / "x.events"))
    first = min(x.submit for x in every)
    assert w.jobs["submit"].tolist() == [x.submit - first for x in sorted(every, key=lambda x: x.submit)]
    assert sorted(w.truth["runtime"]) == sorted(x.end - x.start for x in every)
    assert (w.columns["wait"] == -1).all() and w.columns["gpus"].tolist() == [1] * len(w)


def test_batsim_is_written_and_read(tmp_path, capsys):
    """A log as Batsim's workload, and back; a computation has no time of its own."""
    (tmp_path / "a.swf").write_text("; MaxProcs: 8\n" + "\n".join(swf_line(k, 10 * k, run=7.5 * k) for k in (1, 2, 3)) + "\n")
    assert run(["trace", "convert", str(tmp_path / "a.swf"), str(tmp_path / "a.json")]) == 0
    a, b = open_log(str(tmp_path / "a.swf")), open_log(str(tmp_path / "a.json"))
    assert b.cluster.processors == 8 and a.jobs["submit"].tolist() == b.jobs["submit"].tolist()
    assert (
        a.truth["runtime"].tolist() == b.truth["runtime"].tolist()
        and a.jobs["walltime"].tolist() == b.jobs["walltime"].tolist()
    )
    profiles = {"d": {"type": "delay", "delay": 5}, "p": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}
    profiles["s"] = {"type": "composed", "seq": ["d", "d"], "repeat": 2}
    one = [{"id": str(k), "subtime": k, "res": 2, "walltime": 100, "profile": p} for k, p in enumerate("dps")]
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": one, "profiles": profiles}))
    w = open_log(str(tmp_path / "w.json"))
    assert w.truth["runtime"].tolist() == [5, 20] and list(w.dropped.values()) == [1]


def test_what_cannot_be_read_is_one_line(tmp_path):
    every = jobs(0)
    (tmp_path / "sq.json").write_text(json.dumps({"jobs": [{"job_id": 1, "job_state": "PENDING"}]}))
    with pytest.raises(InputError, match="is squeue's JSON, of jobs that wait and run; sacct --json has those that ended"):
        open_log(str(tmp_path / "sq.json"))
    (tmp_path / "p.log").write_text(lines(pbs)(every))
    with pytest.raises(InputError, match="a machine of 3 processors cannot run its largest job"):
        open_log(str(tmp_path / "p.log"), 3)
    with pytest.raises(InputError, match="--cluster says nothing of a log of PBS; leave it out"):
        open_log(str(tmp_path / "p.log"), form={"cluster": "a"})
    (tmp_path / "q.log").write_text("03/02/2026 08:00:10;Q;1.head;queue=work\n")
    with pytest.raises(InputError, match=r"no job that ran \(1 records of other kinds than E"):
        open_log(str(tmp_path / "q.log"))
    assert len(open_log(str(tmp_path / "p.log"), 64)) == len(every)


def test_a_log_of_several_clusters(tmp_path):
    """sacct of two clusters without a line of names; --fields names the columns, in any case."""
    a, b = jobs(1), jobs(2)
    text = lines(xdmod)(a) + lines(xdmod)(b).replace("|ub|", "|hx|")
    (tmp_path / "log").write_text(text)
    w = open_log(str(tmp_path / "log"), form={"cluster": "hx"})
    assert len(w) == len(b) and w.dropped == {"of another cluster than hx": len(a)}
    short = "\n".join(f"{x.id},{x.submit},{x.start},{x.end},{x.size}" for x in a).replace(",", "|")
    (tmp_path / "short").write_text("\n".join(f"{row}|COMPLETED" for row in short.splitlines()) + "\n")
    w = open_log(str(tmp_path / "short"), form={"fields": "jobid submit start end ncpus state"})
    agrees(w, [(x.submit, x.end - x.start, x.size) for x in a])
    with pytest.raises(InputError, match="names of sacct's columns are expected, JobID among them"):
        open_log(str(tmp_path / "short"), form={"fields": "a b c"})
