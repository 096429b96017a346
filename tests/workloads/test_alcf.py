"""ALCF's job tables: what is read of a row, jobs that are left out, bad files in one line."""

import gzip

import numpy as np
import pytest

import jobwise as jw
from jobwise.cli import run

HEAD = (
    "JOB_NAME,COBALT_JOBID,MACHINE_NAME,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,USERNAME_GENID,PROJECT_NAME_GENID,"
    "QUEUE_NAME,WALLTIME_SECONDS,RUNTIME_SECONDS,NODES_USED,NODES_REQUESTED,EXIT_STATUS,ELIGIBLE_WAIT_SECONDS"
)
ROWS = [
    "a,3,theta,2019-01-01 00:10:00,2019-01-01 01:00:00,2019-01-01 02:00:00,u7,p1,backfill,7200.0,3600,256,256,0,600",
    '"b, the second",1,theta,2019-01-01 00:00:00.000,2019-01-01 00:00:30.000,2019-01-01 00:10:30.000,u2,p1,default,3600,600,128,128,1,30',
    "c,2,theta,2019-01-01 00:05:00,2019-01-01 00:20:00,2019-01-01 00:30:00,u7,p2,default,3600,600,128,128,0,",
    "d,4,theta,2019-01-01 00:06:00,,,u7,p2,default,3600,,0,128,,",
    "e,5,theta,2019-01-01 00:07:00,2019-01-01 00:08:00,2019-01-01 00:09:00,u7,p2,default,3600,60,0,0,0,60",
]


def table(tmp_path, rows=ROWS, head=HEAD, name="ANL-ALCF-DJC-THETA_2019.csv"):
    file = tmp_path / name
    text = "\n".join([head, *rows]) + "\n"
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(file)


@pytest.mark.parametrize("name", ["ANL-ALCF-DJC-THETA_2019.csv", "ANL-ALCF-DJC-THETA_2019.csv.gz"])
def test_a_table_is_read(tmp_path, name):
    w = jw.open_log(table(tmp_path, name=name))
    assert w.name == "ANL-ALCF-DJC-THETA_2019" and w.cluster.processors == 4392 and w.cluster.is_pool
    assert w.jobs["submit"].tolist() == [0.0, 300.0, 3000.0]  # the last became eligible ten minutes before its start
    assert w.jobs["request"][:, 0].tolist() == [128, 128, 256] and w.jobs["walltime"].tolist() == [3600, 3600, 7200]
    assert w.truth["runtime"].tolist() == [600, 600, 3600] and w.columns["wait"].tolist() == [30, 900, 600]
    assert [w.names["user"][i] for i in w.jobs["user"].tolist()] == ["u2", "u7", "u7"]
    assert [w.names["queue"][i] for i in w.jobs["queue"].tolist()] == ["default", "default", "backfill"]
    assert w.dropped == {"did not start": 1, "of no nodes, or no time": 1} and w.origin == 1546300800.0
    assert w.reading[0].startswith("Units are nodes")
    assert jw.open_log(table(tmp_path), 512).cluster.processors == 512


def test_it_is_replayed_by_the_commands(tmp_path, capsys):
    assert run(["trace", "info", table(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "1 did not start" in out and "recorded" in out
    assert run(["simulate", table(tmp_path), "-p", "fcfs+easy", "--json"]) == 0


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda rows, head: (rows, head.replace("NODES_REQUESTED", "NODES")), ":1: there is no column NODES_REQUESTED"),
        (
            lambda rows, head: ([rows[0].replace("2019-01-01 00:10:00", "yesterday")], head),
            ":2: QUEUED_TIMESTAMP is 'yesterday'",
        ),
        (lambda rows, head: ([*rows[:2], rows[2].replace("3600", "1h")], head), ":4: WALLTIME_SECONDS is '1h'"),
        (lambda rows, head: ([rows[0][:40]], head), "is no whole table"),
        (lambda rows, head: ([rows[3]], head), "no job has started"),
        (lambda rows, head: ([rows[4]], head), "no job has nodes and a run time"),
    ],
)
def test_a_broken_table_is_one_line(tmp_path, capsys, change, text):
    file = table(tmp_path, *change(ROWS, HEAD))
    assert run(["trace", "info", file]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and text in error
    assert run(["trace", "info", table(tmp_path), "--procs", "64"]) == 2
    assert "cannot run its largest job (256)" in capsys.readouterr().err


def test_a_year_is_read_fast_and_whole(tmp_path):
    rng, rows = np.random.default_rng(0), []
    at = np.datetime64("2019-01-01T00:00:00") + np.sort(rng.integers(0, 31_000_000, 20_000)).astype("timedelta64[s]")
    for i, x in enumerate(at):
        q, s = str(x).replace("T", " "), str(x + np.timedelta64(i % 4000, "s")).replace("T", " ")
        rows.append(f"j,{i},mira,{q},{s},{s},u{i % 90},p{i % 9},prod,3600,{i % 3000},512,512,0,{i % 4000}")
    w = jw.open_log(table(tmp_path, rows))
    assert len(w) == 20_000 and w.cluster.processors == 49_152 and len(w.names["user"]) == 90
    assert np.allclose(w.columns["wait"], np.arange(20_000) % 4000)
