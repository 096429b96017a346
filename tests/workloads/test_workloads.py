"""Slurm accounting, the generator, transformations, and the catalogue against a local server.

Modules: workload.py, workloads/catalogue.py, workloads/lublin.py, workloads/source.py, workloads/transform.py.
"""

import gzip
import http.server
import threading

import numpy as np
import pytest
from conftest import random_workload

from jobwise.errors import InputError
from jobwise.simulate import simulate
from jobwise.workloads import catalogue, transform
from jobwise.workloads.lublin import lublin
from jobwise.workloads.sacct import command, from_text, read_sacct
from jobwise.workloads.source import open_log

HEAD = (
    "JobID|JobIDRaw|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NCPUS|ReqCPUS|Whatever"
)


def row(job="7", raw="7", state="COMPLETED", submit="00:00:00", eligible="00:00:00", start="00:00:10", end="00:01:00",
        elapsed="50", limit="2", ncpus="4", user="alice"):  # fmt: skip
    times = [f"2026-01-01T{t}" if t[0].isdigit() else t for t in (submit, eligible, start, end)]
    return "|".join([job, raw, user, "astro", "batch", "normal", state, *times, elapsed, limit, ncpus, ncpus, "x"])


def test_sacct_rows_become_jobs():
    w = from_text(
        "\n".join(
            [
                HEAD,
                row(),
                row("7.batch", "7.batch"),
                row("8_1", "8", eligible="00:00:05", ncpus="2", user="bob"),
                row("9_[2-5]", "9", state="PENDING", start="Unknown", end="Unknown"),
                row("10", "10", state="CANCELLED by 0", start="None", end="None"),
                row("11", "11", state="RUNNING", end="Unknown"),
                row("12", "12", state="TIMEOUT", limit="UNLIMITED"),
                row("13", "13", limit="Partition_Limit"),
            ]
        ),
        "x",
    )
    assert w.dropped == {"job steps": 1, "never started": 2, "not ended": 1}
    assert w.columns["job"].tolist() == [7, 12, 13, 8]  # by the time they became eligible
    assert w.jobs["submit"].tolist() == [0, 0, 0, 5]
    assert w.jobs["walltime"].tolist() == [120, 365 * 86400, 50, 120]
    assert w.truth["runtime"].tolist() == [50] * 4
    assert w.jobs["user"].tolist() == [1, 1, 1, 2]
    assert w.cluster.processors == 14  # all four ran at once
    assert from_text(HEAD + "\n" + row(), "x", procs=64).cluster.processors == 64


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "x:1: no sacct header"),
        ("JobID|Submit|Start|NCPUS\n", "x:1: the header has no column End or ElapsedRaw or Elapsed"),
        (HEAD + "\n1|2|3", "x:2: 3 fields; the header names 16"),
        (HEAD + "\n" + row(submit="25:99"), "x:2: Submit is '2026-01-01T25:99'"),
        (HEAD + "\n" + row(ncpus="four"), "x:2: NCPUS is 'four'"),
        (HEAD + "\n" + row(elapsed="-5"), "x:2: ElapsedRaw is '-5'"),
        (HEAD, "x: no job that ran (no rows)"),
        (HEAD + "\n" + row(start="Unknown"), "no job that ran (1 never started)"),
    ],
)
def test_bad_sacct_text(content, message):
    with pytest.raises(InputError) as error:
        from_text(content, "x")
    assert message in str(error.value)


def test_sacct_samples(samples):
    w = read_sacct(samples / "sacct_sample.txt")
    assert len(w) == 188 and w.dropped == {"never started": 6, "run time <= 0": 9}
    assert len(read_sacct(samples / "sacct_steps_sample.txt")) == 23
    assert simulate(w).summary()["jobs"] == 188
    assert "-o JobIDRaw,JobID" in command()
    assert open_log(str(samples / "sacct_sample.txt"), procs=128).cluster.processors == 128


@pytest.mark.parametrize(
    ("settings", "gap", "run", "size", "load"),
    [
        ({"procs": 128}, 875, 4278, 12.5, 0.77),
        ({"procs": 256}, 892, 4832, 22.6, 0.90),
        ({"procs": 1024}, 895, 6311, 79, 1.04),
        ({"procs": 128, "classes": "two"}, 516, 1710, 9.0, 0.41),
    ],
)
def test_lublin_check_values(settings, gap, run, size, load):
    """workloads.md section 2, 30,000 jobs: heavy tails, so within 15 % in the mean of four seeds."""
    found = [transform.statistics(lublin(30_000, seed=s, **settings)) for s in range(4)]
    for key, want in (("mean_gap", gap), ("mean_runtime", run), ("mean_size", size), ("load", load)):
        assert np.mean([f[key] for f in found]) == pytest.approx(want, rel=0.15), key
    if "classes" in settings:
        w = lublin(30_000, seed=0, **settings)
        assert (w.jobs["app"] == 1).mean() == pytest.approx(0.85, abs=0.05)


def test_lublin_options():
    a, b = lublin(500, 64, seed=3), lublin(500, 64, seed=3)
    assert a.jobs.tobytes() == b.jobs.tobytes() and a.truth.tobytes() == b.truth.tobytes()
    assert transform.load(lublin(5000, 64, seed=1, load=0.7)) == pytest.approx(0.7, rel=0.01)
    w = lublin(2000, 64, seed=1, estimates="users", users=9)
    assert (w.jobs["walltime"] >= w.truth["runtime"]).all()
    assert set(np.unique(w.jobs["walltime"][w.jobs["walltime"] <= 3600])) <= {300, 900, 1800, 3600}
    assert set(w.jobs["user"]) == set(range(9))
    for wrong in ({"jobs": 0}, {"procs": 1}, {"classes": "three"}, {"load": -1.0}, {"umed": 9.0}, {"estimates": "none"}):
        with pytest.raises(InputError):
            lublin(**{"jobs": 10, "procs": 8, **wrong})


def test_transformations():
    w = random_workload(np.random.default_rng(1), jobs=50)
    a, b = transform.split(w, 0.6)
    assert (len(a), len(b)) == (30, 20) and b.jobs["submit"][0] == 0
    assert b.offset == w.jobs["submit"][30]
    assert transform.load(transform.scale_load(w, 0.5)) == pytest.approx(0.5)
    middle = transform.window(w, 20, 60)
    assert len(middle) == ((w.jobs["submit"] >= 20) & (w.jobs["submit"] < 60)).sum()
    shaken = transform.shake(w, 30, 1)
    assert sorted(shaken.truth["runtime"]) == sorted(w.truth["runtime"]) and (np.diff(shaken.jobs["submit"]) >= 0).all()
    big = transform.replicate(w, 3, jitter=2.0, seed=1)
    assert len(big) == 150 and big.cluster.processors == 36
    assert transform.load(big) == pytest.approx(transform.load(w), rel=0.05)
    assert len(np.unique(big.jobs["user"])) == 3 * len(np.unique(w.jobs["user"]))
    both = transform.merge([w, random_workload(np.random.default_rng(2), jobs=20, procs=30)])
    assert len(both) == 70 and both.cluster.processors == 30
    assert len(transform.first(w, 5)) == 5
    for wrong in (
        lambda: transform.split(w, 1.0),
        lambda: transform.window(w, 1e9, 2e9),
        lambda: transform.scale_load(w, 0.0),
        lambda: transform.first(w, 0),
        lambda: transform.replicate(w, 0),
        lambda: transform.merge([]),
    ):
        with pytest.raises(InputError):
            wrong()


def test_taking_rows_keeps_the_dag():
    w = random_workload(np.random.default_rng(1), jobs=10, edges=[(0, 5), (5, 9), (1, 2)])
    part = w.take([0, 5, 9])
    assert sorted(map(tuple, part.edges.tolist())) == [(0, 1), (1, 2)] and part.jobs["unmet"].tolist() == [0, 1, 1]


class Server(http.server.BaseHTTPRequestHandler):
    content, cut, asked = b"", None, []

    def do_GET(self):
        begin = int((self.headers.get("Range") or "bytes=0-")[6:].rstrip("-"))
        Server.asked.append((self.path, begin))
        if "SP2" not in self.path:
            self.send_error(404)
            return
        data = Server.content[begin:]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: Server.cut] if Server.cut else data)

    def log_message(self, *_):
        pass


@pytest.fixture
def archive(tmp_path, monkeypatch):
    from test_swf import line, text

    Server.content, Server.cut, Server.asked = gzip.compress(text(line(), line(2, 5)).encode(), mtime=0), None, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("JOBWISE_ARCHIVE", f"http://127.0.0.1:{server.server_port}/logs")
    monkeypatch.setenv("JOBWISE_CACHE", str(tmp_path / "cache"))
    yield Server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_log_by_name_is_downloaded_once(archive):
    shown = []
    w = open_log("sdsc-sp2", progress=lambda done, total: shown.append((done, total)))
    assert len(w) == 2 and shown[-1] == (len(archive.content), len(archive.content))
    assert len(open_log("sdsc-sp2")) == 2 and len(archive.asked) == 1


def test_a_broken_download_goes_on_where_it_stopped(archive):
    archive.cut = 40
    with pytest.raises(InputError, match=r"connection broke after 40 of|cannot be downloaded"):
        open_log("sdsc-sp2")
    archive.cut = None
    assert len(open_log("sdsc-sp2")) == 2
    assert archive.asked[-1][1] == 40


def test_damage_is_noticed(archive):
    with pytest.raises(InputError, match="damaged"):
        catalogue.fetch("sdsc-sp2", checksum="0" * 64)
    path = catalogue.fetch("sdsc-sp2")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="checksum is not"):
        catalogue.fetch("sdsc-sp2")
    with pytest.raises(InputError, match="404"):
        catalogue.fetch("hpc2n")


def test_unknown_logs_are_told_the_nearest(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="did you mean sdsc-sp2"):
        open_log("sdsc-spt2")
    monkeypatch.setenv("JOBWISE_ARCHIVE", "http://127.0.0.1:9")
    monkeypatch.setenv("JOBWISE_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="cannot be downloaded"):
        open_log("sdsc-sp2")


def test_a_gpu_log_says_what_is_left_out_and_which_machine_is_assumed(tmp_path, capsys):
    """Two of seven rows are of the virtual cluster that is read, and one of those never ran; nothing in the table says on which
    machine. Rows in = jobs + rows left out."""
    from jobwise.cli import run
    from jobwise.workloads.source import open_log

    rows = [
        ("6c71a0", 2, 60),
        ("6c71a0", 1, 0),
        ("11cb48", 1, 60),
        ("11cb48", 4, 60),
        ("b436b2", 1, 60),
        ("e13805", 1, 60),
        ("ee9e8c", 1, 9),
    ]
    lines = ["submit_timestamp,duration_s,num_gpus,virtual_cluster"]
    lines += [f"2017-10-01 00:00:0{i},{run_s},{n},{vc}" for i, (vc, n, run_s) in enumerate(rows)]
    file = tmp_path / "philly.csv"
    file.write_text("\n".join(lines) + "\n")
    w = open_log(str(file))
    assert len(w) + sum(w.dropped.values()) == len(rows) and len(w) == 1
    assert w.left_out == "5 of other virtual clusters (11cb48 2, b436b2 1, e13805 1 and 1 more), 1 no run time"
    assert w.cluster.words == "96 CPUs, 48 GPUs on 6 nodes"
    assert run(["trace", "info", str(file)]) == 0
    told = capsys.readouterr()
    assert "machine guessed, for the log names none: 96 CPUs, 48 GPUs on 6 nodes" in " ".join(told.err.split())
    assert "processors" not in told.out and "6 nodes" in told.out and "left out: 5 of other virtual clusters" in told.out
    assert run(["simulate", str(file), "-p", "fcfs+easy"]) == 0
    assert "1 jobs, 96 CPUs, 48 GPUs on 6 nodes (left out: 5 of other" in " ".join(capsys.readouterr().out.split())


def test_machines_in_words():
    from jobwise.cluster import nodes, pool, resources
    from jobwise.sim.topology import gpu_racks

    assert pool(128).words == "128 processors" and nodes(3, cpus=8).words == "24 CPUs on 3 nodes"
    assert resources(nodes=4360, gpus=800).words == "4,360 nodes, 800 GPUs" and gpu_racks([2, 2]).words == "16 GPUs"
