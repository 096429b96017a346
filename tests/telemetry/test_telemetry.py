"""Telemetry: one table of samples however they come, Prometheus as it is and as it fails, forecasts and their intervals.

Modules: cli/telemetry.py, forecast/load_models.py, forecast/loads.py, forecast/online.py, learn/gru.py,
telemetry/forecasts.py, telemetry/live.py, telemetry/prometheus.py, telemetry/read.py, telemetry/table.py,
telemetry/write.py.
"""

import gzip
import json
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from conftest import SHARED, missing
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.cli.main import run
from jobwise.errors import InputError
from jobwise.forecast import loads
from jobwise.forecast.load_models import Boosted, Ridge, models_for
from jobwise.forecast.loads import Series, intervals, judged, leader
from jobwise.forecast.online import adaptive, lead
from jobwise.telemetry import prometheus
from jobwise.telemetry.forecasts import draw, forecast_all, series_of, summary
from jobwise.telemetry.live import LiveRisks
from jobwise.telemetry.prometheus import Prometheus
from jobwise.telemetry.read import read
from jobwise.telemetry.table import rates, seconds, table
from jobwise.telemetry.write import described, write

FOLDER = SHARED / "traces" / "telemetry"
pytestmark = pytest.mark.xdist_group("telemetry")


# ------------------------------------------------------------------ the table


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2), st.integers(0, 1), st.floats(-5, 5)), min_size=1, max_size=60))
def test_a_table_is_the_same_in_whatever_order_samples_come(rows):
    last = {(node, metric, t): x for t, node, metric, x in rows}  # the last of equal times counts
    cols = [np.array(c) for c in zip(*rows, strict=True)]
    found = table("made", cols[0], cols[1], cols[2], cols[3], ["a", "b", "c"], ["m", "n"])
    told = {}
    for k in range(found.count):
        t, x = found.series(k)
        assert (np.diff(t) > 0).all()
        told |= {(found.node[k], found.metric[k], int(a)): b for a, b in zip(t, x, strict=True)}
    assert told == last and found.notes.get("twice", 0) == len(rows) - len(last)


def test_bad_samples_are_left_out_and_counted():
    t = np.arange(300.0)
    x = np.sin(t)
    x[[3, 7]], x[20] = [np.nan, np.inf], 1e7  # the last in another unit
    order = np.arange(300)
    order[[50, 51]] = [51, 50]
    found = table("bad", t[order], np.zeros(300, int), np.zeros(300, int), x[order], ["a"], ["m"])
    assert found.notes == {"no number": 2, "out of order": 1, "out of scale": 1} and len(found) == 297
    with pytest.raises(InputError, match="no samples that are numbers"):
        table("none", [0.0], [0], [0], [np.nan], ["a"], ["m"])


def test_counters_that_are_set_back_and_gaps():
    assert rates(np.array([0.0, 10, 20, 30]), np.array([5.0, 25, 4, 14])).tolist() == [2.0, 0.4, 1.0]
    t = np.array([0.0, 10, 20, 50, 60])
    found = table("c", t, np.zeros(5, int), np.zeros(5, int), np.array([0.0, 10, 20, 5, 15]), ["a"], ["ticks_total{cpu=0}"])
    assert found.notes == {"counters set back": 1}
    begin, step, y = found.regular(0)
    assert (begin, step) == (10.0, 10.0) and np.allclose(y, [1, 1, np.nan, np.nan, 5 / 30, 1], equal_nan=True)


def test_units_of_time():
    for factor in (1, 1e3, 1e6, 1e9):
        assert np.allclose(seconds(np.array([1.6e9, 1.7e9]) * factor), [1.6e9, 1.7e9])
    assert seconds(np.array([0.0, 5.0])).tolist() == [0.0, 5.0]
    with pytest.raises(InputError, match="different units"):
        seconds(np.array([1.6e9, 1.7e12]), "x.csv")


def test_a_clock_that_is_off_by_a_time_zone_is_put_right():
    T, nodes = np.arange(0, 36_000, 60.0), 8
    time_of = np.concatenate([T + (3600 if n == 3 else 0.0) for n in range(nodes)])
    found = table(
        "z",
        time_of,
        np.repeat(np.arange(nodes), len(T)),
        0 * time_of.astype(int),
        np.ones(len(time_of)),
        list("abcdefgh"),
        ["m"],
    )
    assert found.notes == {"by a wrong clock": len(T)} and (found.series(3)[0] == T).all()


# ------------------------------------------------------------------ files


def test_any_table_of_samples_is_read_and_written_again(tmp_path, capsys):
    long = "time,node,metric,value\n" + "".join(
        f"{60 * k},{n},{m},{k}\n" for n in "ab" for m in ("cpu", "mem") for k in range(30)
    )
    (tmp_path / "long.csv").write_text(long)
    found = read(tmp_path / "long.csv")
    assert found.nodes == ("a", "b") and found.metrics == ("cpu", "mem") and found.count == 4
    for ending in ("csv", "csv.gz", "parquet"):
        write(found, str(tmp_path / f"again.{ending}"))
        again = read(tmp_path / f"again.{ending}")
        assert (again.time == found.time).all() and (again.value == found.value).all() and again.metrics == found.metrics
    (tmp_path / "wide.csv").write_text("timestamp;host;load;temp\n2026-01-31 12:00:00;n1;1;50\n2026-01-31 12:01:00;n1;x;51\n")
    wide = read(tmp_path / "wide.csv")
    assert wide.metrics == ("temp",) and described(wide)["begin"] == "2026-01-31 12:00"
    assert len(read(tmp_path).nodes) == 3  # a folder
    assert run(["telemetry", "read", str(tmp_path / "long.csv"), "-o", str(tmp_path / "long.csv")]) == 2
    assert run(["telemetry", "info", str(tmp_path / "long.csv"), "--metric", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["series"] == 2


def test_cells_that_are_empty_or_text(tmp_path):
    (tmp_path / "t.csv").write_text(
        "time,node,load,mem\n0,,abc,1\n60,a,2,3\n120,a,4,5\n2300-01-01,a,1,1\n".replace("2300-01-01", "180")
    )
    found = read(tmp_path / "t.csv")
    assert found.nodes == ("", "a") and found.metrics == ("load", "mem") and found.notes == {"no number": 1}
    half = found.every(120.0)
    assert half.only("mem", "a").value.tolist() == [3.0, 3.0] and half.only("mem", "a").time.tolist() == [0.0, 120.0]
    with pytest.raises(InputError, match="tells times"):
        read(tmp_path / "t.csv", "time")
    (tmp_path / "gap.csv").write_text("time,value\n0,1\n60,2\n120,1\n10000000000,2\n")
    with pytest.raises(InputError, match="choose longer"):
        read(tmp_path / "gap.csv").regular(0)


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "cannot be read as a table"),
        ("a,b\n1,2\n", "no column of times"),
        ("time,value\nyesterday,1\nnow,2\n", "x.csv:2: 'yesterday' is no time"),
        ("time,name\n1,x\n2,y\n", "no column of numbers"),
        ("time,value\n1,\n2,x\n", "no samples that are numbers"),
        ("time,value\n1600000000,1\n1600000000000,2\n", "different units"),
        ("time,value\n0,1,2,3\n60,1,2,3\n", "more fields than the first line"),
        ("submission_time,duration,cpu_count\n0,abc,1\n", "no such rows"),
        ("failure_interval,failure_duration,failure_intensity\n", "no such rows"),
    ],
)
def test_bad_files_are_one_line(text, says, tmp_path, capsys):
    (tmp_path / "x.csv").write_text(text)
    assert run(["telemetry", "info", str(tmp_path / "x.csv")]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"time,value\n1,2\n")[:-9])
    for name in ("x.parquet", "x.csv.gz", "none.csv"):
        with pytest.raises(InputError):
            read(tmp_path / name)


@pytest.mark.parametrize(
    "name, series, samples, step",
    [
        ("nab_aws", 17, 67_718, 300),
        ("bitbrains_vm_sample.csv.gz", 10, 86_190, 300),
        ("helios_philly_nodes_in_use.csv.gz", 2, 211_288, 60),
        ("surf_lisa_halfyear_tasks.parquet", 3, 53_517, 600),
        ("alibaba_2026_pod_gpu_duty_cycle_anon.csv.gz", 143, 157_417, 60),
    ],
)
def test_shipped_sets(name, series, samples, step):
    if not (FOLDER / name).exists():
        missing(f"no {FOLDER / name}")
    found = read(FOLDER / name)
    assert (found.count, len(found), found.step(0)) == (series, samples, step)


# ------------------------------------------------------------------ Prometheus


class Fake(BaseHTTPRequestHandler):
    """A Prometheus that answers as it is told."""

    mode = "good"
    values: dict[str, float] = {}  # of an instant query, by instance

    def do_GET(self):
        at = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(at.query).items()}
        if self.mode == "hang":
            time.sleep(3)
        if self.mode == "dies":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(200)
        self.end_headers()
        if self.mode == "html":
            self.wfile.write(b"<html>login</html>")
        elif self.mode == "endless":
            try:
                while True:
                    self.wfile.write(b" " * 65_536)
            except OSError:
                pass
        elif at.path.endswith("/query") and query["query"] != "time()":
            told = [{"metric": {"instance": n}, "value": [1e9, str(x)]} for n, x in self.values.items()]
            self.wfile.write(json.dumps({"status": "success", "data": {"resultType": "vector", "result": told}}).encode())
        elif at.path.endswith("/query"):
            self.wfile.write(
                json.dumps({"status": "success", "data": {"resultType": "scalar", "result": [1e9, "1e9"]}}).encode()
            )
        elif self.mode == "error":
            self.wfile.write(json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error"}).encode())
        elif self.mode == "lies":
            self.wfile.write(json.dumps({"status": "success", "data": {"result": [{"metric": 3}]}}).encode())
        else:
            t = np.arange(float(query["start"]), float(query["end"]) + 1e-6, float(query["step"]))
            assert len(t) <= 11_000
            values = [[x, f"{np.floor(x) % 7}"] for x in t.tolist()]
            series = [
                {"metric": {"__name__": query["query"], "instance": f"n{n}", "job": "x"}, "values": values} for n in range(3)
            ]
            self.wfile.write(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}}).encode())

    def log_message(self, *told):
        pass


@pytest.fixture
def fake():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Fake.mode = "good"
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_what_a_prometheus_says_of_the_nodes_now(fake):
    said: list[str] = []
    risks = LiveRisks(Prometheus(fake), "risk", ["n0", "n1", "n2"], 30.0, said.append)
    Fake.values = {"n0:9100": 0.1, "n1.cluster.example:9100": 0.8, "other": 1.0}
    assert risks.at(0.0).tolist() == [0.1, 0.8, 0.0] and risks.after(0.0) == 30.0
    Fake.values = {"n2": 0.9, "n0": float("nan")}
    assert risks.at(20.0).tolist() == [0.1, 0.8, 0.0]  # it is asked every 30 s
    assert risks.at(31.0).tolist() == [0.0, 0.0, 0.9] and not said
    Fake.mode = "html"
    assert risks.at(70.0).tolist() == risks.at(110.0).tolist() == [0.0, 0.0, 0.9] and len(said) == 1
    assert "no JSON of Prometheus" in said[0] and risks.at(400.0).tolist() == [0.0] * 3
    Fake.mode = "good"
    assert risks.at(440.0).tolist() == [0.0, 0.0, 0.9] and "answers again" in said[1]
    Fake.values = {"elsewhere": 1.0}
    assert risks.at(500.0).tolist() == [0.0, 0.0, 0.9] and "of no node of this cluster" in said[2]
    with pytest.raises(InputError, match="is no value for each node"):
        Prometheus(fake).instant("time()")


def test_tasks_keep_away_from_nodes_that_a_prometheus_warns_of(fake, tmp_path):
    """A learned placement on a live manager: no task begins on a node while its value is above the limit."""
    from jobwise.policies.avoid import Avoid
    from jobwise.workflows.follow import Following
    from jobwise.workflows.simulated import Simulated
    from jobwise.workloads.workflows import workflow

    rows = [{"name": f"t{i}", "runtime": 10.0} for i in range(40)]
    w = jw.stream([workflow("wide", rows, [[]] * 40)], cluster=6)
    manager = Simulated(2, lambda name: 10.0, machines={f"n{i}": "" for i in range(3)})
    Fake.values = {"n1:9100": 0.9}
    policy = Avoid(jw.resolve("fcfs+learned"), LiveRisks(Prometheus(fake), "risk", ["n0", "n1", "n2"]), 0.5)
    with Following(w, manager, tmp_path, lambda i: ["true"], policy, poll_s=5.0) as f:
        while sum(t.state == "done" for t in f.tasks) < 16:
            f.step()
            manager.wait(5.0)
        assert {j.node for j in manager.table.values()} == {"n0", "n2"}
        Fake.values = {"n0:9100": 0.9}
        before = manager.time
        f.follow()
        assert f.summary()["done"] == 40
    late = {j.node for j in manager.table.values() if j.start > before + 40.0}
    assert late == {"n1", "n2"}


def test_a_run_asks_a_prometheus(fake, tmp_path, capsys):
    from jobwise.cli import run

    (tmp_path / "w.commands").write_text("true\n" * 3)
    words = ["mars", "run", str(tmp_path / "w.commands"), "--poll", "60", "--state", str(tmp_path / "s")]
    for more, problem in (
        (["--prometheus", "http://127.0.0.1:1"], "ConnectionRefusedError"), (["--prometheus", "x y"], "is no address"),
        (["--above", "0.9"], "go with --prometheus"), (["--prometheus", fake, "-p", "manager"], "goes with a policy"), (["--prometheus", fake, "--avoid", "time()"], "is no value"),
    ):  # fmt: skip
        assert run([*words, *more]) == 2
        error = capsys.readouterr().err
        assert problem in error and len(error.strip().splitlines()) == 1, error
    Fake.values = {"node0": 0.1}
    assert run([*words, "--prometheus", fake, "-p", "fcfs"]) == 0


def test_prometheus_in_parts(fake):
    found = Prometheus(fake).read(["load", "temp"], 1e9 - 25_000, 1e9, 1.0)
    assert found.nodes == ("n0", "n1", "n2") and found.metrics == ("load", "temp") and found.count == 6
    t, x = found.series(5)
    assert len(t) == 25_001 and (np.diff(t) == 1).all() and (x == t % 7).all()


@pytest.mark.parametrize(
    "mode, says",
    [
        ("hang", "no answer in time"),
        ("dies", "RemoteDisconnected|BadStatusLine|Connection"),
        ("html", "no JSON of Prometheus"),
        ("error", "bad_data: parse error"),
        ("lies", "no range of samples"),
        ("endless", "an answer of more than"),
    ],
)
def test_prometheus_that_fails(mode, says, fake, monkeypatch):
    monkeypatch.setattr(prometheus, "MOST_BYTES", 1 << 20)
    Fake.mode = mode
    with pytest.raises(InputError, match=says):
        Prometheus(fake, timeout_s=0.5).read(["load"], 0.0, 100.0, 1.0)


def test_prometheus_from_the_command_line(fake, tmp_path, capsys):
    assert run(["telemetry", "read", fake, "--metric", "load", "--last", "1h", "-o", str(tmp_path / "t.csv")]) == 0
    assert len(read(tmp_path / "t.csv")) == 3 * 61
    for arguments, says in (
        (["--last", "1h"], "which metrics"),
        (["--metric", "load", "--last", "soon"], "a number and a unit"),
    ):
        assert run(["telemetry", "read", fake, *arguments, "-o", str(tmp_path / "u.csv")]) == 2
        assert says in capsys.readouterr().err and not (tmp_path / "u.csv").exists()
    for url in ("ftp://x", "http://", "http://x:port", "http://[bad", "http://a..b/", "http://x/é", "http://me:secret@x"):
        with pytest.raises(InputError):
            Prometheus(url)
    assert run(["telemetry", "info", "http://127.0.0.1:1"]) == 2
    with pytest.raises(InputError, match="no header takes"):
        Prometheus("http://x", token="a\nb")
    with pytest.raises(InputError, match="answers would be needed"):
        Prometheus(fake).read(["load"], 0.0, 1e9, 0.001)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("prometheus") or not shutil.which("prometheus-node-exporter"), reason="no Prometheus here")
def test_a_real_prometheus(tmp_path):
    ports = []
    for _ in range(2):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            ports.append(s.getsockname()[1])
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: node\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{ports[0]}']}}]\n"
    )
    exporter = ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{ports[0]}"]
    server = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    server.append(f"--web.listen-address=127.0.0.1:{ports[1]}")
    running = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in (exporter, server)]
    try:
        p, until = Prometheus(f"http://127.0.0.1:{ports[1]}"), time.monotonic() + 60
        while True:
            time.sleep(1)
            try:
                found = p.read(["node_load1", "node_cpu_seconds_total"], p.now() - 30, p.now(), 1.0)
                if len(found.series(0)[0]) >= 5:
                    break
            except InputError:
                if time.monotonic() > until:
                    raise
        assert "node_load1" in p.metrics() and found.count > 5
        idle = next(k for k in range(found.count) if "mode=idle" in found.label(k))
        assert 0 <= np.nanmean(found.regular(idle, 1.0)[2]) <= 1.5  # a core's idle seconds a second
    finally:
        for one in running:
            one.kill()
            one.wait()


# ------------------------------------------------------------------ forecasts


def made(seed=0, T=1500, kind="waves"):
    rng, t = np.random.default_rng(seed), np.arange(T)
    if kind == "waves":
        y = 10 + 3 * np.sin(2 * np.pi * t / 288) + rng.normal(0, 0.5, T)
    elif kind == "walk":
        y = np.cumsum(rng.normal(0, 1, T))
    else:
        y = np.zeros(T)
        for i in range(1, T):
            y[i] = 0.7 * y[i - 1] + rng.normal()
    return Series(f"{kind}{seed}", 0.0, 300.0, y)


def test_targets():
    s = Series("s", 0.0, 1.0, np.array([1.0, 5, np.nan, 2, 4]))
    assert np.array_equal(s.target(2), [np.nan, 2, 4, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(s.target(2, peak=True), [5, 2, 4, np.nan, np.nan], equal_nan=True)
    assert s.known.tolist() == [1, 5, 5, 2, 4]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(50, 400), st.sampled_from(["waves", "walk", "ar"]), st.booleans())
def test_no_forecast_sees_what_comes(seed, cut, kind, peak):
    s = made(seed, 500, kind)
    other = Series(s.name, s.begin, s.step, np.where(np.arange(500) > max(cut, s.cuts[0]), 99.0, s.y))
    names = ["persistence", "seasonal", "ewma", "holt-winters", "ridge"]
    cut = max(cut, s.cuts[0])
    models, said = models_for([s], names, (1, 6), peak), []
    for x in (s, other):
        f = {n: m(x) for n, m in models.items()}
        f["leader"] = leader(x, f, (1, 6), peak)
        said.append([[v.point, intervals(x, v, (1, 6), peak)] for v in f.values()])
    for (a, wide), (b, wide_b) in zip(*said, strict=True):
        assert np.array_equal(a[: cut + 1], b[: cut + 1]) and np.array_equal(wide[: cut + 1], wide_b[: cut + 1], equal_nan=True)


def test_models_find_what_there_is_to_find():
    waves, ar = judged(made(0), models_for([made(0)], ["persistence", "seasonal", "ridge"])), None
    assert waves.chosen in ("ridge", "leader") and waves.mase("ridge") < 0.8
    ar = judged(made(0, 3000, "ar"), models_for([made(0, 3000, "ar")], ["persistence", "ewma", "ridge"]))
    best = np.sqrt((1 - 0.7**2) / (2 * (1 - 0.7)))  # of the optimal forecast, against persistence, one step ahead
    assert abs(ar.test["ridge"][1].mase / best - 1) < 0.08
    walk = judged(made(0, 3000, "walk"), models_for([made(0, 3000, "walk")], ["persistence", "ewma", "ridge"]))
    assert walk.mase(walk.chosen) < 1.02


def test_a_perfect_model_is_chosen():
    t = np.arange(1200)
    s = Series("square", 0.0, 3600.0, (t % 24 < 12).astype(float))
    r = judged(s, models_for([s], ["persistence", "seasonal", "ewma"], (1, 6)), (1, 6))
    assert r.chosen == "seasonal" and r.mase("seasonal") < 1e-6


def test_boosted_trees_serve_many_series_and_say_why():
    many = [made(k, 900, "ar") for k in range(4)]
    model = Boosted(many, (6,))
    found = [
        judged(s, {"boosted": model, "persistence": models_for(many, ["persistence"], (6,))["persistence"]}, (6,)) for s in many
    ]
    assert np.mean([r.mase("boosted") for r in found]) < 0.95
    told = model.explained(0, 60)
    shares = [v for _, v in told]
    assert shares == sorted(shares, reverse=True) and 0.9 < sum(shares) <= 1.0 + 1e-9 and len({k for k, _ in told}) == 60
    f = model(many[0])
    assert (f.low <= f.point).all() and (f.point <= f.high).all()


@pytest.mark.parametrize("kind", ["waves", "walk", "ar"])
def test_intervals_cover_what_they_promise(kind):
    found = []
    for seed in range(6):
        s = made(seed, 2500, kind)
        r = judged(s, {"ridge": Ridge((1, 6)), "persistence": models_for([s], ["persistence"], (1, 6))["persistence"]}, (1, 6))
        found += [x.coverage for x in r.test["ridge"].values()]
    assert 0.87 <= np.mean(found) <= 0.93


def test_intervals_adapt_where_a_series_changes():
    rng, out = np.random.default_rng(0), np.empty((3000, 2))
    y = np.concatenate([rng.normal(0, 1, 1500), rng.normal(0, 4, 1500)])
    zero = np.zeros(3000)
    for gamma, least in ((0.0, 0.0), (0.02, 0.87)):
        adaptive(y, zero, zero, zero + 1, 1, 0.9, gamma, 500, out)
        inside = (y[1:] >= out[:-1, 0]) & (y[1:] <= out[:-1, 1])
        assert inside[1600:2400].mean() >= least
    fixed = out.copy()
    adaptive(y, zero, zero, zero + 1, 1, 0.9, 0.0, 500, fixed)
    assert ((y[1:] >= fixed[:-1, 0]) & (y[1:] <= fixed[:-1, 1]))[1500:1800].mean() < 0.85


def test_kernels_by_hand():
    at = np.zeros(4, np.int64)
    lead(np.array([0.0, 0, 0, 0]), np.array([[1.0, 0.0], [0.0, 5.0], [1.0, 1], [1, 1]]), 1, 1.0, at)
    assert at.tolist() == [0, 1, 0, 0]


@pytest.mark.slow
def test_gru():
    pytest.importorskip("torch")
    from jobwise.learn.gru import fit

    many = [made(k, 900, "ar") for k in range(3)]
    model = fit(many, (1, 6))
    r = judged(many[0], {"gru": model, **models_for(many, ["persistence"], (1, 6))}, (1, 6))
    assert r.mase("gru") < 1.0


@pytest.mark.parallel
def test_whole_tables(tmp_path, capsys):
    T = 700
    t = np.tile(np.arange(T) * 300.0, 12)
    values = np.concatenate([made(k, T, "ar").y for k in range(10)] + [np.ones(T), np.full(T, 2.0)])
    names = [f"n{k}" for k in range(12)]
    whole = table("many", t, np.repeat(np.arange(12), T), np.zeros(12 * T, int), values, names, ["load"])
    assert len(series_of(whole, (1, 6))[0]) == 10
    found = forecast_all(whole, ["persistence", "ridge"], (1, 6))
    told = summary(found)
    assert told["series"] == 10 and "2 constant" in told["left_out"] and told["models"][-1]["model"] == "chosen"
    write(whole, str(tmp_path / "t.parquet"))
    arguments = ["telemetry", "forecast", str(tmp_path / "t.parquet"), "--models", "persistence,ewma", "--horizons", "1,6"]
    assert run([*arguments, "-o", str(tmp_path / "f.svg"), "--peak"]) == 0 and (tmp_path / "f.svg").stat().st_size > 5000
    for more, says in ((["--horizons", "0"], "steps from 1"), (["--models", "magic"], "model"), (["--node", "x"], "no 'x'")):
        assert run([*arguments, *more]) == 2
        assert says in capsys.readouterr().err
    with pytest.raises(InputError, match="too few"):
        judged(made(0, 100), {})
    assert loads.COVERAGE == 0.9


def test_whatever_was_chosen_is_drawn(tmp_path):
    T, t = 700, np.tile(np.arange(700) * 300.0, 3)
    values = np.concatenate([made(k, T, "ar").y for k in range(3)])
    whole = table("few", t, np.repeat(np.arange(3), T), np.zeros(3 * T, int), values, ["a", "b", "c"], ["load"])
    steps = []
    found = forecast_all(whole, ["persistence", "ewma"], (1, 6), progress=lambda *x: steps.append(x))
    assert steps[0] == (0, 3) and steps[-1] == (3, 3)
    for chosen in found.results[0].test:  # the leader, too
        one = replace(found, results=[replace(found.results[0], chosen=chosen)])
        assert chosen in draw(one, str(tmp_path / f"{chosen}.svg")) and (tmp_path / f"{chosen}.svg").stat().st_size > 5000
