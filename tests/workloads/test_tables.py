"""Tables of jobs by maps of their columns: those that ship, a file's, and those of the command line.

Modules: workloads/fields.py, workloads/tables.py.
"""

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.workloads import fields, tables
from jobwise.workloads.source import open_log

SAMPLES = {  # name of the map: (header, rows; (submit, run, size, limit) of those that are jobs; unit; rows left out)
    "kestrel": (
        "id,job_id,submit_time,start_time,end_time,nodes_req,processors_req,memory_req,wallclock_req,nodes_used,processors_used,"
        "qos,partition,state,state_simple,user_hash,account_hash,consumed_energy_raw_joules",
        [
            "1,1,2026-02-19 16:17:31-07,2026-02-19 16:17:41-07,2026-02-19 17:17:41-07,2,208,85G,04:00:00,2,208,normal,short,"
            "COMPLETED,COMPLETED,u1,a1,5000",
            "2,2,2026-02-19 23:18:31+00,2026-02-19 23:20:00+00,2026-02-19 23:30:00+00,1,104,2366M,1-00:00:00,1,104,normal,short,"
            "TIMEOUT,TIMEOUT,u2,a1,",
            "3,3,2026-02-19 23:19:31+00,,,1,104,2366M,1-00:00:00,0,0,normal,short,CANCELLED by 1,CANCELLED,u2,a1,0",
        ],
        [(0, 3600, 2, 14400), (60, 600, 1, 86400)],
        "nodes",
        1,
    ),
    "eagle": (
        "job_id,user,account,partition,qos,wallclock_req,nodes_req,processors_req,gpus_req,mem_req,submit_time,start_time,end_time,"
        "run_time,state,name,work_dir,submit_line",
        [
            "5,u,a,p,normal,172800.0,10,360,0,0.0,2019-01-01 08:55:55,2019-01-01 08:55:56,2019-01-01 09:55:56,3600.0,COMPLETED,n,w,s"
        ],
        [(0, 3600, 10, 172800)],
        "nodes",
        0,
    ),
    "in2p3": (
        "jobid\tsubmit\tstart\tend\telapsed\ttimelimit\talloccpus\tallocgpus\tpartition\tstate\tuser\taccount",
        [
            "1\t1704067200\t1704067210\t1704067310\t100\t3600\t8\t0\thtc\tCOMPLETED\tu\ta",
            "2\t1704067201\t0\t0\t0\t60\t8\t0\thtc\tCANCELLED\tu\ta",
        ],
        [(0, 100, 8, 3600)],
        "processors",
        1,
    ),
    "mustang": (
        "user_ID,group_ID,submit_time,start_time,end_time,wallclock_limit,job_status,node_count,tasks_requested",
        [
            "1,1,2016-02-02 06:53:00-07:00,2016-02-02 06:54:00-07:00,2016-02-02 07:54:00-07:00,0 days 16:00:00.000000000,COMPLETED,4,96",
            "2,1,,2016-02-02 06:54:00-07:00,2016-02-02 06:55:00-07:00,1 days 00:00:00,TIMEOUT,1,24",
            "2,1,2016-02-02 06:53:00-07:00,,,1 days 00:00:00,CANCELLED,1,24",
        ],
        [(0, 3600, 4, 57600), (60, 60, 1, 86400)],
        "nodes",
        1,
    ),
    "lisa": (
        "id,submit_date,start_date,end_date,node,nodetypes,numnodes,numcores,state",
        ["1,2021-12-26 17:11:18,2021-12-26 23:06:31,2021-12-27 23:06:31,r13n5,normal,1,16,TIMEOUT"],
        [(0, 86400, 16, 86400)],
        "processors",
        0,
    ),
    "helios": (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
        [
            "1,a,vc1,8,64,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:51:11,600,10",
            "2,b,vc2,0,4,1,FAILED,2020-06-09 18:42:01,2020-06-09 18:42:01,2020-06-09 18:43:01,60,0",
            "3,b,vc2,1,4,1,RUNNING,2020-06-09 18:42:01,2020-06-09 18:42:01,2020-06-09 18:43:01,60,0",
        ],
        [(0, 600, 8, 600)],
        "gpus",
        2,
    ),
    "acme": (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,"
        "stop_time,duration,queue,gpu_time",
        [
            "dlc1,u,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,,,18,10,1152"
        ],
        [(0, 8, 64, 8)],
        "gpus",
        0,
    ),
    "pai": (
        "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
        ["j1,worker,1.0,Terminated,1000.0,2000.0,600.0,29.3,50.0,T4", "j2,worker,2.0,Waiting,0,0,600.0,29.3,200.0,T4"],
        [(0, 1000, 1, 1000)],
        "gpus",
        1,
    ),
    "spot2026": (
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type",
        ["a,o1,A10,8,1,1,0,600,HP", "b,o2,H800,8,8,2,30,60,Spot"],
        [(0, 600, 1, 600), (30, 60, 16, 60)],
        "gpus",
        0,
    ),
    "supercloud": (
        "id_job,id_user,time_submit,time_eligible,time_start,time_end,timelimit,partition,state,gres_used,tres_alloc",
        [
            '7,3,1600000000,1600000000,1600000060,1600003660,4294967295,p,3,"gpu:volta:2","1=20,2=170000,1002=2"',
            '8,3,1600000000,1600000000,0,0,5,p,4,"","1=20"',
        ],
        [(0, 3600, 20, 365 * 86400)],
        "processors",
        1,
    ),
    "lassen": (
        "allocation_id,primary_job_id,num_nodes,num_processors,num_gpus,hashed_user_id,hashed_user_group_id,begin_time,end_time,"
        "exit_status,job_submit_time,queue,time_limit",
        ["1,9,16,640,0,u,g,2020-01-01 00:01:00.123,2020-01-01 01:01:00.123,0,2020-01-01 00:00:00,pbatch,7200"],
        [(0, 3600, 16, 7200)],
        "nodes",
        0,
    ),
}


def holds(w, expected):
    mine = zip(w.jobs["submit"], w.truth["runtime"], w.jobs["request"][:, 0], w.jobs["walltime"], strict=True)
    assert sorted(tuple(round(float(x), 3) for x in row) for row in mine) == sorted(tuple(map(float, e)) for e in expected)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_map_that_ships_reads_its_table(name, tmp_path):
    header, rows, expected, unit, left = SAMPLES[name]
    (tmp_path / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
    w = open_log(str(tmp_path / f"{name}.csv"))
    holds(w, expected)
    assert w.cluster.resources == (unit,) and sum(w.dropped.values()) == left == len(rows) - len(w)
    assert tables.shipped()[name].about in w.reading[0] and w.name == name


@pytest.mark.parametrize("name", [n for n in SAMPLES if n not in ("supercloud", "in2p3")])
def test_the_same_table_in_parquet(name, tmp_path):
    """Columns as texts, and those of numbers as numbers."""
    header, rows, expected, unit, _ = SAMPLES[name]
    table = list(csv.DictReader(io.StringIO("\n".join([header, *rows]))))

    def column(key):
        texts = [x[key] for x in table]
        try:
            return pa.array([float(x) if x else None for x in texts])
        except ValueError:
            return pa.array([x or None for x in texts])

    pq.write_table(pa.table({k: column(k) for k in header.split(",")}), tmp_path / "t.parquet")
    w = open_log(str(tmp_path / "t.parquet"))
    holds(w, expected)
    assert w.cluster.resources == (unit,)


def test_sizes_of_all_instances_and_gpus_of_a_list(tmp_path):
    """A task of 20 instances of half a GPU holds ten; gpu:volta:2 is two GPUs."""
    header, rows, *_ = SAMPLES["pai"]
    (tmp_path / "pai.csv").write_text(f"{header}\n{rows[0].replace('1.0', '20.0')}\n")
    assert open_log(str(tmp_path / "pai.csv")).jobs["request"][:, 0].tolist() == [10]
    header, rows, *_ = SAMPLES["supercloud"]
    (tmp_path / "s.csv").write_text("\n".join([header, *rows]) + "\n")
    assert open_log(str(tmp_path / "s.csv")).columns["gpus"].tolist() == [2]


def test_pm100_and_f_data_in_parquet(tmp_path):
    """Times of a zone, limits in minutes; alternatives of a column; a power that is kept by its name."""
    when = pa.array(np.array([0, 60_000_000], "datetime64[us]")).cast(pa.timestamp("us", tz="UTC"))
    columns = {"job_id": [1, 2], "submit_time": when, "start_time": when, "run_time": [60, 120], "time_limit": [10, 20]}
    columns |= {"end_time": pa.array(np.array([60, 180], "datetime64[s]")).cast(pa.timestamp("us", tz="UTC"))}
    columns |= {"num_cores_req": [4, 8], "num_nodes_req": [1, 2], "job_state": ["COMPLETED", "FAILED"], "user_id": [5, 5]}
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    holds(open_log(str(tmp_path / "p.parquet")), [(0, 60, 1, 600), (60, 120, 2, 1200)])
    data = {"jid": ["a", "b"], "adt": ["2021-03-01 00:00:00"] * 2, "sdt": ["2021-03-01 00:00:10"] * 2, "usr": ["x", "y"]}
    data |= {
        "edt": ["2021-03-01 00:01:10"] * 2,
        "nnumr": [3, 4],
        "nnuma": [2, 4],
        "elpl": [600, 600],
        "avgpcon": [150.5, 160.0],
    }
    pq.write_table(pa.table(data | {"exit state": ["completed", "failed"]}), tmp_path / "f.parquet")
    w = open_log(str(tmp_path / "f.parquet"))
    holds(w, [(0, 60, 2, 600), (0, 60, 4, 600)])
    assert w.columns["power"].tolist() == [150.5, 160.0] and w.columns["status"].tolist() == [1, 0]


def test_columns_of_the_command_line_a_file_and_a_data_set(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("when;what;long;limit;who\n2026-01-01 00:00;4;10;2;ann\n2026-01-01 00:05;2;20;2;bob\n")
    file = str(tmp_path / "t.csv")
    told = "submit=when,processors=what,run=long:minutes,walltime=limit:hours,user=who"
    w = open_log(file, form={"columns": told})
    holds(w, [(0, 600, 4, 7200), (300, 1200, 2, 7200)])
    assert w.names["user"] == {1: "ann", 2: "bob"}
    (tmp_path / "map.toml").write_text(
        'about = "ours"\nmachine = 16\n[columns]\nsubmit = "when"\nprocessors = "what"\nrun = "long"\n[units]\nrun = "minutes"\n'
        '[only]\nwho = "bob"\n'
    )
    w = open_log(file, form={"columns": str(tmp_path / "map.toml")})
    holds(w, [(0, 1200, 2, 1200)])
    assert w.cluster.processors == 16 and w.dropped == {"of another who than bob": 1}
    assert run(["trace", "info", file, "--columns", told]) == 0 and "6 processors" in capsys.readouterr().out
    (tmp_path / "bare.csv").write_text("2026-01-01 00:00,4,10\n2026-01-01 00:05,2,20\n")
    w = open_log(str(tmp_path / "bare.csv"), form={"columns": "submit=a,processors=b,run=c", "fields": "a,b,c"})
    holds(w, [(0, 10, 4, 10), (300, 20, 2, 20)])
    assert run(["simulate", file, "--columns", told, "-p", "fcfs"]) == 0


WRONG = {
    "submit=when,processors=what,run=lang": "there is no column 'lang', which --columns names; it has when, what, long",
    "submit=when,processors=what": "a time, the end or the run, and a size of jobs must be named: --columns submit=COLUMN",
    "submit=when,run=long": "a size of jobs must be named",
    "submit=when:weeks,processors=what,run=long": "submit in 'weeks': s, ms, us, ns, minutes, hours, days is expected",
    "submit=when,processors=what:many,run=long": "processors in 'many': a factor, gres, or tres:NAME is expected",
    "kestral": "unknown map of columns 'kestral'; did you mean kestrel or",
    "none.toml": "none.toml",
}


@pytest.mark.parametrize("told", WRONG)
def test_a_map_that_does_not_fit_says_which_column(told, tmp_path, capsys):
    (tmp_path / "t.csv").write_text("when,what,long\n0,1,2\n")
    assert run(["trace", "info", str(tmp_path / "t.csv"), "--columns", told]) == 2
    error = capsys.readouterr().err
    assert WRONG[told] in error and error.count("\n") == 1


def test_rows_that_cannot_be_read_are_counted(tmp_path):
    text = "submit,run,n\n0,10,1\n1,ten,1\n2,10\n3,10,1,7\n4,10,1\n"
    (tmp_path / "t.csv").write_text(text)
    w = open_log(str(tmp_path / "t.csv"), form={"columns": "submit=submit,run=run,processors=n"})
    where = f"{tmp_path / 't.csv'}:3: run is 'ten'"
    assert len(w) == 2 and w.dropped == {f"that cannot be read (the first: {where})": 1, "of another number of columns": 2}


def test_a_virtual_cluster_of_helios(tmp_path):
    header, rows, *_ = SAMPLES["helios"]
    (tmp_path / "h.csv").write_text("\n".join([header, *rows]) + "\n")
    w = open_log(str(tmp_path / "h.csv"), form={"cluster": "vc1"})
    assert len(w) == 1 and w.dropped == {"of another vc than vc1": 2}


def test_times_durations_amounts_and_states():
    """Values by hand."""

    def numbers(read, texts, unit=None):
        values, bad = read(pa.array(texts), unit) if unit else read(pa.array(texts))
        return values.tolist(), bad.tolist()

    texts = ["1970-01-01 00:01", "1970-01-01T01:00:00.5+01:00", "60", "1970-01-02", "NULL", "soon"]
    values, bad = numbers(fields.times, texts)
    assert values[:4] == [60.0, 0.5, 60.0, 86400.0] and np.isnan(values[4:]).all() and bad == [False] * 5 + [True]
    assert numbers(fields.times, ["1500"], "ms")[0] == [1.5]
    assert numbers(fields.times, ["01/02/1970 01:00"], "%m/%d/%Y %H:%M")[0] == [90000.0]
    values, bad = numbers(fields.durations, ["90", "1:30", "01:00:00", "2-00:00:01", "1 days 00:00:00", "UNLIMITED", "long"])
    assert values[:6] == [90, 5400, 3600, 172801, 86400, np.inf] and bad[6]
    assert numbers(fields.durations, ["1.5"], "hours")[0] == [5400.0]
    assert np.allclose(
        numbers(fields.amounts, ["4000", "4000M", "1Gn", "2gb", "1000kb"])[0], [4000, 4194.304, 1073.741824, 2147.483648, 1.024]
    )
    assert numbers(fields.counts, ["1=20,2=170,1002=2", "2=5"], "tres:1")[0] == [20.0, 0.0]
    assert numbers(fields.counts, ["50"], "0.01")[0] == [0.5]
    status, open_ = fields.statuses(
        pa.array(["COMPLETED", "CANCELLED by 7", "NODE_FAIL", "PENDING", "", "3", "Terminated", "RUNTIME_EXCEEDED"])
    )
    assert status.tolist() == [1, 5, 0, -1, -1, 0, 1, 0] and open_.tolist() == [False] * 3 + [True] + [False] * 4
    assert fields.statuses(pa.array(["3", "4", "1"]), "slurm")[0].tolist() == [1, 5, -1]
    assert fields.statuses(pa.array(["1", "0", "5", "9"]), "swf")[0].tolist() == [1, 0, 5, -1]


def test_every_map_is_whole():
    assert {*SAMPLES, "pm100", "fdata", "adastra"} == set(tables.shipped())
    for m in tables.shipped().values():
        assert m.about and m.reading and m.size in m.columns
    with pytest.raises(InputError, match="unknown key 'colums'"):
        tables._checked("x", {"colums": {}}, "x.toml")
