"""Logs that stream: the schedule of memory to the byte, measures within what they say, Parquet that is wrong.

Modules: sim/pool/moving.py, sim/reset.py, streaming/replay.py, streaming/sums.py, streaming/totals.py,
workloads/parquet.py.
"""

import filecmp
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.cli.main import run
from jobwise.errors import InputError
from jobwise.jobs import digest
from jobwise.report import export
from jobwise.sim.lists.orders import STATIC, Order
from jobwise.streaming import replay, sums, totals
from jobwise.workload import workload
from jobwise.workloads import parquet
from jobwise.workloads.lublin import lublin_parts
from jobwise.workloads.source import open_log

ORDERS = [row.label for row in Order if row.kind == STATIC]
QUANTILES = ("median_bounded_slowdown", "p95_bounded_slowdown", "p99_bounded_slowdown", "median_wait", "p95_wait", "p99_wait")


def both(w, policy, folder, at_once, rows, monkeypatch, **settings):
    """The record in memory, and what streaming says of it, once their files are the same."""
    monkeypatch.setattr(export, "ROWS", rows)
    monkeypatch.setattr(replay, "AT_ONCE", at_once)
    parquet.write_log(w, str(folder / "log.parquet"))
    r = jw.simulate(open_log(str(folder / "log.parquet")), policy, **settings)
    export.write(r, str(folder / "memory.parquet"))
    s = replay.simulate(parquet.ParquetLog(folder / "log.parquet"), policy, folder / "streamed.parquet", **settings)
    assert filecmp.cmp(folder / "memory.parquet", folder / "streamed.parquet", shallow=False)
    return r, s


def agree(r, s):
    """Sums are the same but for rounding, quantiles within their error."""
    own = r.summary()
    assert list(own) == list(s.summary)
    for key, value in own.items():
        error = 1.001 * sums.ERROR if key in QUANTILES else 1e-9
        assert s.summary[key] == pytest.approx(value, rel=error, abs=1e-9, nan_ok=True), key


@given(
    seed=st.integers(0, 10**6),
    order=st.sampled_from(ORDERS),
    backfill=st.sampled_from(["", "+easy", "+easy-sjbf"]),
    guard=st.sampled_from(["", "+guard20s"]),
    at_once=st.integers(1, 30),
    rows=st.integers(1, 50),
    kill=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_schedule_is_that_of_memory(seed, order, backfill, guard, at_once, rows, kill, tmp_path_factory):
    rng, J = np.random.default_rng(seed), 60
    submit = np.cumsum(rng.integers(0, 3, J) * rng.integers(0, 8, J))  # many at one instant
    run = rng.integers(1, 40, J).astype(float)
    w = workload(
        submit, rng.integers(1, 9, J), run, np.maximum(run * rng.choice([0.5, 1.0, 3.0], J), 1), cluster=jw.pool(8),
        user=rng.integers(0, 4, J),
    )  # fmt: skip
    w.truth["fails"] = rng.random(J) < 0.2
    with pytest.MonkeyPatch.context() as patch:
        r, s = both(w, f"{order}{backfill}{guard}", tmp_path_factory.mktemp("log"), at_once, rows, patch, kill_at_walltime=kill)
    agree(r, s)
    assert s.most <= J


@pytest.mark.parametrize("groups", [7, 100, 10_000])
def test_row_groups_of_any_size_stream(groups, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "ROWS", 64)
    monkeypatch.setattr(replay, "AT_ONCE", 50)
    parquet.write_log(jw.lublin(1_000, 32, seed=2), str(tmp_path / "log.parquet"))
    read = pq.read_table(tmp_path / "log.parquet")
    pq.write_table(read, tmp_path / "foreign.parquet", row_group_size=groups)
    parts = [len(p["submit"]) for p in parquet.ParquetLog(tmp_path / "foreign.parquet").parts(64)]
    assert parts == [64] * 15 + [40]
    streamed = [
        replay.simulate(parquet.ParquetLog(tmp_path / f"{x}.parquet"), out=tmp_path / f"{x}.out") for x in ("log", "foreign")
    ]
    assert repr(streamed[0]) == repr(streamed[1]) and filecmp.cmp(tmp_path / "log.out", tmp_path / "foreign.out", shallow=False)


def test_a_deep_queue_streams(tmp_path, monkeypatch):
    w = jw.lublin(3_000, 64, seed=3, load=8, users=20)
    r, s = both(w, "sjf+easy", tmp_path, 128, 500, monkeypatch)
    agree(r, s)
    assert 500 < s.most < 3_000, s.most


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=200), st.sampled_from([0.0, 0.1, 0.5, 0.95, 0.99, 1.0]))
@settings(max_examples=100, deadline=None)
def test_quantiles_are_within_their_error(values, q):
    values = np.array(values)
    sketch = totals.Sketch()
    sketch.add(values[:7])
    sketch.add(values[7:])
    assert sketch.quantile(q) == pytest.approx(np.quantile(values, q), rel=1.001 * sums.ERROR, abs=2 * sums.LEAST)


def test_sums_do_not_lose_small_numbers():
    """A naive sum of doubles forgets the ones beside 2**53."""
    kept = np.zeros((6, 2))
    jobs = jw.lublin(10, 4, seed=0).jobs[:4].copy()
    jobs["submit"], jobs["request"][:, 0] = 0.0, 1
    jobs["start"] = [2.0**53, 1.0, 1.0, 1.0]
    jobs["end"] = jobs["start"]
    sums.add_all(jobs, kept, np.empty(4), np.empty(4))
    assert kept[totals.MEANS.index("wait")].tolist() == [2.0**53, 3.0] and sum(jobs["start"]) == 2.0**53


def test_a_log_keeps_what_parquet_has_room_for(tmp_path):
    w = jw.lublin(500, 32, seed=5, users=7, estimates="users")
    parquet.write_log(w, str(tmp_path / "log.parquet"))
    again = open_log(str(tmp_path / "log.parquet"))
    assert digest(again.jobs) == digest(w.jobs) and again.cluster.processors == 32 and again.name == w.name
    assert again.offset == w.offset and (again.truth["runtime"] == w.truth["runtime"]).all()
    assert jw.simulate(again, "f1+easy").summary() == jw.simulate(w, "f1+easy").summary()


def test_generated_parts_reach_their_load_and_go_on_in_time():
    parts = list(lublin_parts(30_000, 128, 4, load=0.8, users=5, rows=4_000))
    whole = {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
    assert (np.diff(whole["submit"]) >= 0).all() and whole["submit"][0] == 0 and len(whole["submit"]) == 30_000
    load = (whole["processors"] * whole["runtime"]).sum() / 128 / whole["submit"][-1]
    assert load == pytest.approx(0.8, rel=1e-4)
    w = jw.lublin(30_000, 128, 4, load=0.8)
    assert np.log(whole["runtime"]).mean() == pytest.approx(np.log(w.truth["runtime"]).mean(), rel=0.02)
    assert whole["processors"].mean() == pytest.approx(w.jobs["request"][:, 0].mean(), rel=0.05)
    again = list(lublin_parts(30_000, 128, 4, load=0.8, users=5, rows=4_000))
    assert all((a[k] == b[k]).all() for a, b in zip(parts, again, strict=True) for k in a)


def table(path, about=None, **columns):
    """A small log in Parquet, of whatever columns; `about`: the bytes of its metadata."""
    columns = {"submit": [0.0, 5.0, 9.0], "runtime": [1.0, 2.0, 3.0], "processors": [1, 2, 3]} | columns
    made = pa.table({k: v for k, v in columns.items() if v is not None})
    about = json.dumps({"processors": 4}).encode() if about is None else about
    pq.write_table(made.replace_schema_metadata({b"jobwise": about} if about else {}), path)
    return str(path)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"processors": None}, "has no column processors; columns of a log: submit, runtime, processors, walltime"),
        ({"runtime": ["a", "b", "c"]}, "column runtime is string; numbers are expected"),
        ({"submit": [0.0, 5.0, 4.0]}, "row 2: submit is 4; rows are expected in order of submit"),
        ({"runtime": [1.0, -1.0, 1.0]}, "row 1: runtime is -1; a finite number >= 0"),
        ({"runtime": [1.0, float("nan"), 1.0]}, "row 1: runtime is nan"),
        ({"processors": [1, 5, 1]}, "row 1: processors is 5; 1 to 4 is expected"),
        ({"runtime": [1.0, None, 2.0]}, "row 1 has no runtime"),
        ({"processors": [1.0, 1.5, 1.0]}, "column processors: "),
        ({"about": b"{"}, "its metadata of jobwise are damaged"),
        ({"about": b""}, "does not say how large the machine is; say it by --procs"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_wrong_table_is_one_line(columns, text, stream, tmp_path, capsys):
    log = table(tmp_path / "log.parquet", **columns)
    out = tmp_path / "out.parquet"
    assert run(["simulate", log, "-o", str(out), *(["--stream"] if stream else [])]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0 and "log.parquet: " in said and text in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.parquet"]


@pytest.mark.parametrize("rows", [1, 2, 3, 10])
def test_rows_out_of_order_are_seen_across_batches(rows, tmp_path):
    log = parquet.ParquetLog(table(tmp_path / "log.parquet", submit=[0.0, 7.0, 4.0]))
    with pytest.raises(InputError, match="row 2: submit is 4; rows are expected in order of submit"):
        list(log.parts(rows))


def test_a_table_that_is_cut_is_one_line(tmp_path, capsys):
    log = tmp_path / "log.parquet"
    parquet.write_log(jw.lublin(1_000, 16, seed=1), str(log))
    whole = log.read_bytes()
    for data in (whole[:-100], whole[: len(whole) // 2], b"PAR1", b""):
        log.write_bytes(data)
        assert run(["simulate", str(log), "--stream"]) == 2
        said = capsys.readouterr().err.strip()
        assert said.count("\n") == 0 and "is no whole Parquet file" in said


def test_damage_in_the_middle_leaves_no_schedule(tmp_path, capsys):
    log, out = tmp_path / "log.parquet", tmp_path / "out.parquet"
    parquet.write_log(jw.lublin(5_000, 16, seed=1), str(log))
    data = bytearray(log.read_bytes())
    data[200:2_000] = bytes(1_800)
    log.write_bytes(bytes(data))
    out.write_text("mine")
    assert run(["simulate", str(log), "--stream", "-o", str(out), "--force"]) == 2
    assert capsys.readouterr().err.strip().count("\n") == 0
    assert out.read_text() == "mine" and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-p", "wfp3+easy"], "policy wfp3+easy: logs stream under orders that depend on the job alone: fcfs, lcfs, sjf"),
        (["-p", "sjf+easy+promise1.1x"], "+promise1.1x is for pools of processors, not for logs that stream"),
        (["-p", "fcfs+conservative"], "+conservative is for"),
        (["-p", "jobwise"], "stream"),
        (["--load", "0.5"], "--load needs the whole log in memory; leave --stream out"),
        (["-o", "out.csv"], "out.csv: --stream writes Parquet; name it .parquet"),
    ],
)
def test_what_does_not_stream_is_one_line(options, text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["simulate", table(tmp_path / "log.parquet"), "--stream", *options]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0 and text in said


def test_commands_generate_convert_and_replay(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["trace", "generate", "g.parquet", "--jobs", "2000", "--procs", "64", "--load", "0.7", "--stream"]) == 0
    assert run(["trace", "convert", "g.parquet", "g.swf"]) == 0 and run(["trace", "convert", "g.swf", "again.parquet"]) == 0
    assert run(["trace", "convert", "g.swf", "half.parquet", "--split", "0.5"]) == 0
    assert len(parquet.ParquetLog("half.parquet")) == 1_000 and len(parquet.ParquetLog("half.rest.parquet")) == 1_000
    capsys.readouterr()
    results = []
    for log in ("g.parquet", "again.parquet"):
        for more in ([], ["--stream", "-o", "out.parquet", "--force"]):
            assert run(["simulate", log, "-p", "sjf+easy", "--jobs", "1500", "--json", *more]) == 0
            results.append(json.loads(capsys.readouterr().out)["summary"])
    assert all(r["wait"] == pytest.approx(results[0]["wait"], rel=1e-12) and r["jobs"] == 1500 for r in results)
    assert pq.read_table("out.parquet").num_rows == 1_500
    assert run(["simulate", "g.parquet", "--stream"]) == 0
    said = capsys.readouterr().out
    assert "2,000 jobs, 64" in said and "quantiles are within 0.5%" in said
    for wrong in (
        ["g2.swf", "--stream"],
        ["g2.parquet", "--stream", "--model", "campaigns"],
        ["g2.parquet", "--stream", "--estimates", "guessed"],
        ["g2.parquet", "--stream", "--load", "0"],
    ):
        assert run(["trace", "generate", *wrong]) == 2 and not Path("g2.parquet").exists()
    assert run(["simulate", "g.swf", "--stream"]) == 2 and "trace convert LOG OUT.parquet" in capsys.readouterr().err


def test_a_workflow_has_no_table(tmp_path):
    w = jw.lublin(10, 8, seed=0)
    chained = workload(w.jobs["submit"], w.jobs["request"], w.truth["runtime"], cluster=jw.pool(8), edges=np.array([[0, 1]]))
    with pytest.raises(InputError, match="jobs of a pool of processors that wait for no others"):
        parquet.write_log(chained, str(tmp_path / "x.parquet"))
    assert not list(tmp_path.iterdir())


def test_a_job_that_asks_for_less_than_a_second_may_run_for_one(tmp_path, monkeypatch):
    """Jobs are ended at their request, at a second at the earliest: in a stream, too."""
    w = workload(np.array([0.0, 0.0, 1.0]), [1, 1, 1], [5.0, 0.5, 5.0], [0.25, 0.25, 3.0], cluster=jw.pool(1))
    r, s = both(w, "fcfs", tmp_path, 2, 2, monkeypatch, kill_at_walltime=True)
    agree(r, s)
    assert (r.jobs["end"] - r.jobs["start"]).tolist() == [1.0, 0.5, 3.0]
