"""The page about a running cluster: what it shows and to whom, what it refuses, events, metrics, in Chromium, from the commands.

Modules: cli/web.py, live/sinks/page/app.py, live/sinks/page/board.py, live/sinks/page/connections.py,
live/sinks/page/guards.py, live/sinks/page/metrics.py, live/sinks/page/openapi.py, live/sinks/page/server.py,
live/sinks/page/state.py.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from browser import Browser, executable
from conftest import ROOT, missing, programs
from cycles import Shadowing
from prometheus_client.parser import text_string_to_metric_families
from test_live import cluster, job  # noqa: F401

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.sinks.journal import Journal
from jobwise.live.sinks.page import app, connections
from jobwise.live.sinks.page import board as boards
from jobwise.live.sinks.page.board import Board, Shown
from jobwise.live.sinks.page.guards import HEADERS, Guards, token_of
from jobwise.live.sinks.page.metrics import exposition
from jobwise.live.sinks.page.openapi import document
from jobwise.live.sinks.page.server import address, open_to_others, serving
from jobwise.live.steer import SteerSettings
from jobwise.policies.names import resolve

pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]
TOKEN = "0123456789abcdef-token"
EVIL = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"


class Site:
    """A cluster that a shadow follows, its board, and a server of it while within."""

    def __init__(self, folder, state, policy="saf+easy", **guards):
        self.folder, self.state, self.n, self.stopped = folder, state, 0, threading.Event()
        x = json.loads((folder / "squeue.json").read_text())
        x["jobs"][4] |= {"name": EVIL, "user_name": "u2"}
        (folder / "squeue.json").write_text(json.dumps(x))
        audit = state / "audit.jsonl"
        state.mkdir(exist_ok=True)
        lines = [{"time": 1.0, "what": "write", "job": id, "old": 0, "new": 5, "why": EVIL} for id in (9004, 9005)]
        audit.write_text("x" * 10 + "\n" + "".join(json.dumps(x) + "\n" for x in lines) + '{"time": 2')
        self.shadow = Shadowing(resolve(policy), Journal(state))
        self.board = Board(stop=self.stopped.set if guards.get("token") else None, audit=audit)
        self.guards = Guards(**guards)

    def cycle(self, seconds=10.0):
        now = float((self.folder / "now.txt").read_text()) + seconds
        (self.folder / "now.txt").write_text(f"{now}\n")
        self.n += 1
        self.shadow.cycle(sources.look(self.folder), self.n)
        self.shadow.turn.changed = self.n
        Shown(self.board, self.shadow, SteerSettings(span=100) if self.board.stop else None).take(self.shadow.turn)

    def __enter__(self):
        self._serving = serving(self.board, self.guards, "127.0.0.1:0", ["jobs.example.org"])
        self.port = int(self._serving.__enter__().rpartition(":")[2])
        return self

    def __exit__(self, *why):
        self._serving.__exit__(*why)
        self.shadow.journal.close()

    def ask(self, path, method="GET", host=None, **headers):
        """(status, headers, body)."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        own = {"Host": host or f"127.0.0.1:{self.port}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        c.request(method, path, headers=own)
        r = c.getresponse()
        out = r.status, r.headers, r.read()
        c.close()
        return out

    def json(self, path, **headers):
        status, _, body = self.ask(path, **headers)
        assert status == 200, body
        return json.loads(body)


@pytest.fixture
def site(cluster, tmp_path):  # noqa: F811
    with Site(cluster, tmp_path / "state", token=TOKEN) as s:
        s.cycle()
        yield s


def test_jobs_are_those_of_the_last_cycle(site):
    """The same question after another cycle, in which a job is there no more."""
    assert site.json("/api/jobs?limit=50")["cycle"] == 1
    jobs = json.loads((site.folder / "squeue.json").read_text())["jobs"]
    (site.folder / "squeue.json").write_text(json.dumps({"jobs": [x for x in jobs if x["job_id"] != 9005]}))
    site.cycle()
    after = site.json("/api/jobs?limit=50")
    assert after["cycle"] == 2 and 9005 not in {x["job"] for x in after["jobs"]}


def test_what_the_api_says(site):
    now = site.json("/api/now")
    assert (now["waiting"], now["held"], now["running"], now["cpus"], now["used"]) == (3, 2, 3, 16, 16)
    assert now["policy"] == "saf+easy" and now["answers"] and now["viewer"] is None and "jobs" not in now
    jobs = site.json("/api/jobs")
    assert [x["job"] for x in jobs["jobs"]] == [x["job"] for x in site.board.state.model_dump()["jobs"]]
    assert {x["job"] for x in jobs["jobs"]} == {9004, 9005, 9006} and [x["job"] for x in jobs["cannot_start"]] == [9007, 9008]
    assert sorted(x["rank"] for x in jobs["jobs"]) == [1, 4, 5]  # two other tasks of an array have ranks, too
    assert [x["job"] for x in site.json("/api/jobs?user=u2")["jobs"]] == [9005]
    one = site.json("/api/jobs?job=9004")
    assert [x["job"] for x in one["jobs"]] == [9004] and one["count"] == 1 and one["cannot_start"] == []
    cut = site.json("/api/jobs?limit=1")
    assert len(cut["jobs"]) == 1 and cut["count"] == 3
    offers = site.json("/api/jobs/9004/sooner")
    assert offers["job"] == 9004 and isinstance(offers["sooner"], list)
    lines = site.json("/api/audit")["lines"]
    assert [x["job"] for x in lines] == [9005, 9004]  # the last first; what is cut is left out
    users = {u["user"]: u for u in now["users"]}
    assert users["u2"]["jobs"] == 1 and users["u1"]["jobs"] == 4 and {type(u["rises"]) for u in users.values()} == {float}


@pytest.mark.parametrize(
    "path, status", [("/api/jobs?limit=0", 422), ("/api/jobs?job=x", 422), ("/api/jobs?limit=1e9", 422), ("/api/jobs/1/sooner", 404),
                     ("/nothing", 404), ("/api/audit?limit=99999", 422), ("/api/jobs?limit=0000000000019999999999", 422), ("/page.html", 404), ("/../state.py", 404)],
)  # fmt: skip
def test_wrong_questions_are_answered_in_a_line(site, path, status):
    got, _, body = site.ask(path)
    assert got == status and set(json.loads(body)) == {"error"}


def test_who_gains_and_who_loses(site):
    """Smallest area first moves the array of u1 (1 CPU) ahead of what Slurm starts first, on average; ranks add up."""
    s = site.board.state
    place = {x.job: k for k, x in enumerate(s.jobs)}
    ranked = {x.job: k for k, x in enumerate(sorted(s.jobs, key=lambda x: x.rank))}
    for u in s.users:
        own = [place[x.job] - ranked[x.job] for x in s.jobs if x.user == u.user]
        assert u.rises == pytest.approx(sum(own) / len(own))


def test_jobs_without_limits_of_time_are_json_too(site):
    x = json.loads((site.folder / "squeue.json").read_text())
    x["jobs"][3]["time_limit"] = {"set": False, "infinite": True, "number": 0}
    (site.folder / "squeue.json").write_text(json.dumps(x))
    site.cycle()
    assert {x["job"] for x in site.json("/api/jobs")["jobs"]} >= {9005, 9006}
    assert site.ask("/api/now")[0] == 200 and b"jobwise_up 1.0" in site.ask("/metrics")[2]


def test_before_the_first_cycle_and_while_slurm_is_silent(cluster, tmp_path):  # noqa: F811
    with Site(cluster, tmp_path / "state") as s:
        assert (
            s.ask("/api/now")[0] == 503
            and s.ask("/api/jobs/9004/sooner")[0] == 503
            and b"jobwise_up 0.0" in s.ask("/metrics")[2]
        )
        s.board.failed("lost")
        status, _, body = s.ask("/api/now")
        assert status == 503 and b"no cycle is over yet: lost" in body
        s.cycle()
        s.board.failed("squeue: no answer")
        now = s.json("/api/now")
        assert not now["answers"] and now["problem"] == "squeue: no answer" and now["waiting"] == 3
        assert b"jobwise_up 0.0" in s.ask("/metrics")[2]


def test_every_answer_has_its_headers(site):
    for path in ("/", "/page.js", "/api/now", "/nothing", "/metrics"):
        _, headers, body = site.ask(path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
        assert not re.search(rb"(src|href)=.?https?://|style=|onclick|innerHTML", body)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "jobs.example.org.", ""])
def test_foreign_hosts_are_refused(site, host):
    assert site.ask("/api/now", host=host or " ")[0] == 400


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8088", "jobs.example.org"])
def test_own_hosts_are_served(site, host):
    assert site.ask("/api/now", host=host)[0] == 200


def test_nothing_is_written_without_a_token(site):
    own = f"http://127.0.0.1:{site.port}"
    good = {"Authorization": f"Bearer {TOKEN}"}
    for status, headers in (
        (401, {}),
        (401, {"Authorization": "Bearer wrong"}),
        (401, {"Authorization": f"Basic {TOKEN}"}),
        (403, good | {"Origin": "http://evil.example"}),
        (403, good | {"Origin": "null"}),
        (403, good | {"Origin": own, "Sec-Fetch-Site": "cross-site"}),
    ):
        assert site.ask("/api/stop", "POST", **headers)[0] == status, headers
    assert site.ask("/api/stop")[0] == 405 and not site.stopped.is_set()
    assert site.ask("/api/stop", "POST", Origin=own, **good)[0] == 200 and site.stopped.is_set()


def test_a_page_without_a_token_is_read_only(cluster, tmp_path):  # noqa: F811
    with Site(cluster, tmp_path / "state") as s:
        s.cycle()
        status, _, body = s.ask("/api/stop", "POST", Authorization=f"Bearer {TOKEN}")
        assert status == 403 and b"read-only" in body and not s.json("/api/now")["stoppable"]
        assert s.ask("/api/stop", "POST", Authorization="Bearer ")[0] == 403


def test_private_shows_only_ones_own(cluster, tmp_path):  # noqa: F811
    with Site(cluster, tmp_path / "state", private=True, header="X-Remote-User") as s:
        s.cycle()
        assert s.ask("/api/jobs")[0] == s.ask("/api/now")[0] == s.ask("/api/audit")[0] == 403
        s.guards.__dict__["own"] = "u2"  # who runs it is not whoever comes past the proxy
        assert s.ask("/api/jobs")[0] == 403
        me = {"X_Remote_User": "u2"}
        assert [x["job"] for x in s.json("/api/jobs", **me)["jobs"]] == [9005] and s.json("/api/jobs", **me)[
            "cannot_start"
        ] == []
        assert s.json("/api/jobs?user=u1", **me)["jobs"] == [] and s.json("/api/jobs?job=9004", **me)["jobs"] == []
        assert s.ask("/api/jobs/9004/sooner", **me)[0] == 404 and s.ask("/api/jobs/9005/sooner", **me)[0] == 200
        assert all(x["frees"] == [] for x in s.json("/api/jobs", **me)["jobs"])
        now = s.json("/api/now", **me)
        assert [u["user"] for u in now["users"]] == ["u2"] and now["waiting"] == 3 and now["viewer"] == "u2"
        assert {x["user"] for x in now["starts_next"]} <= {"u2"}
        assert [x["job"] for x in s.json("/api/audit", **me)["lines"]] == [9005]
        assert s.json("/api/jobs", X_Remote_User="nobody")["jobs"] == []  # an account without jobs
        status, _, body = s.ask("/api/jobs", X_Remote_User="u2@example.org")
        assert (
            status == 403 and "u2@example.org is no account here; the proxy has to name accounts" in json.loads(body)["error"]
        )
        assert b"u1" not in s.ask("/metrics")[2]
    with Site(cluster, tmp_path / "other", private=True, own="u2") as s:
        s.cycle()
        assert [x["job"] for x in s.json("/api/jobs", X_Remote_User="u1")["jobs"]] == [9005]


def test_one_question_at_a_time_and_once_a_cycle(site, monkeypatch):
    asked = []
    from jobwise.live.starts import Predicted

    real = Predicted.sooner
    monkeypatch.setattr(Predicted, "sooner", lambda p, id: asked.append(id) or real(p, id))
    assert site.json("/api/jobs/9004/sooner") == site.json("/api/jobs/9004/sooner") and asked == [9004]
    monkeypatch.setattr(boards, "PATIENCE_S", 0.05)
    with site.board._lock:
        assert site.ask("/api/jobs/9005/sooner")[0] == 503
    assert site.ask("/api/jobs/9005/sooner")[0] == 200


def test_only_what_is_worth_it_is_advised(site, monkeypatch):
    from jobwise.live.starts import Predicted
    from jobwise.starts.sooner import Offer, OtherRequest

    def offer(words, gain, sooner):
        return Offer(OtherRequest(words, {}), 4000.0 - gain, 9000.0, gain, sooner, 0.0, (4000.0, 9000.0))

    offers = [
        offer("much", 3000.0, 0.9),
        offer("little", 60.0, 0.9),
        offer("hardly ever", 3000.0, 0.2),
        offer("later", -900.0, 0.9),
    ]
    monkeypatch.setattr(Predicted, "sooner", lambda p, id: offers)
    assert [x["change"] for x in site.json("/api/jobs/9004/sooner")["sooner"]] == ["much"]


def test_a_viewer_has_few_streams_behind_a_proxy_and_the_metrics_may_stand_alone(cluster, tmp_path):  # noqa: F811
    """Each stream keeps a thread of the proxy: four of a viewer, a hundred in all."""
    with Site(cluster, tmp_path / "state", private=True, header="X-Remote-User") as s:
        s.cycle()
        assert s.ask("/api/events")[0] == 403
        held = []
        for user, status in (*[("u1", 200)] * app.OF_ONE, ("u1", 503), ("u2", 200)):
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20)
            c.request("GET", "/api/events", headers={"X-Remote-User": user})
            held.append((c, r := c.getresponse()))
            assert r.status == status
            if status == 200:
                r.readline()
        with serving(s.board, s.guards, "127.0.0.1:0", metrics_alone=True) as where:
            c = http.client.HTTPConnection(where.removeprefix("http://"), timeout=20)
            for path, status in (("/metrics", 200), ("/api/jobs", 404), ("/", 404)):
                c.request("GET", path, headers={"X-Remote-User": "u1"})
                r = c.getresponse()
                assert (r.status, b"u1" in r.read()) == (status, False)
            c.close()
        for c, _ in held:
            c.close()


def test_a_private_page_veils_what_would_tell_of_single_jobs(site):
    """Nineteen predictions are too few; waits of five users stay for an hour, without their sum."""
    from jobwise.live.sinks.page.state import Score, Waits
    from jobwise.live.sinks.page.veil import Veil

    def waits(first, users=5):
        return [Waits(partition="p", qos="q", counts=[first, 19, *[0] * 7], seconds=100.0 * first, users=users)]

    veil, s = Veil(), site.board.state
    out = veil(s.model_copy(update={"time": 0.0, "score": Score(predictions=19), "waits": [*waits(1), *waits(1, users=4)]}))
    assert out.score is None and [x.model_dump() for x in out.waits] == [waits(1)[0].model_dump() | {"seconds": None}]
    out = veil(s.model_copy(update={"time": 3599.0, "score": Score(predictions=20), "waits": waits(2)}))
    assert out.score.predictions == 20 and out.waits[0].counts[:2] == [1, 19]
    out = veil(s.model_copy(update={"time": 3600.0, "waits": waits(3)}))
    assert out.waits[0].counts[:2] == [3, 19] and b"gsum" not in exposition(out, accept="application/openmetrics-text")[0]


def test_readers_that_have_gone_make_room_for_others(site, monkeypatch):
    monkeypatch.setattr(app, "MOST_READERS", 1)

    def reader():
        c = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
        c.request("GET", "/api/events")
        r = c.getresponse()
        if r.status == 200:
            assert r.readline().startswith(b"data:")
        return r, c

    def close(r, c):
        r.close()
        c.close()

    first = reader()
    refused = reader()
    assert (first[0].status, refused[0].status) == (200, 503)
    close(*refused)
    close(*first)
    end = time.monotonic() + 20
    while (again := reader())[0].status != 200 and time.monotonic() < end:
        close(*again)
        time.sleep(0.05)
    assert again[0].status == 200
    close(*again)


def test_events_come_with_each_cycle(site):
    c = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    c.request("GET", "/api/events")
    r = c.getresponse()
    assert r.headers["Content-Type"].startswith("text/event-stream")

    def event():
        while not (line := r.readline()).startswith(b"data:"):
            assert line != b""
        return json.loads(line[5:])["version"]

    first = event()
    for _ in range(2):
        site.cycle()
        version = event()
        assert version > first
        first = version
    site._serving.__exit__(None, None, None)  # streams end with it, whole
    assert set(r.read().rpartition(b"\n")[2]) == set()  # no half event; a stream that is cut raises IncompleteRead
    site._serving = serving(site.board, site.guards, "127.0.0.1:0")
    site._serving.__enter__()
    c.close()


def test_the_description_is_that_of_the_answers(site):
    doc = site.json("/api/openapi.json")
    assert doc == json.loads(json.dumps(document())) and doc["openapi"].startswith("3.1")
    schemas = doc["components"]["schemas"]

    def fits(schema, value, where):
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rsplit("/", 1)[1]]
        for part in schema.get("allOf", []):
            fits(part, value, where)
        if isinstance(value, dict) and "properties" in schema:
            for key, of in schema["properties"].items():
                if key in value:
                    fits(of, value[key], f"{where}.{key}")
                elif key in schema.get("required", []):
                    assert key in ("jobs", "cannot_start"), f"{where}.{key} is missing"
        if isinstance(value, list) and "items" in schema:
            for x in value:
                fits(schema["items"], x, where)
        if "type" in schema and value is not None:
            kinds = {"integer": int, "number": (int, float), "string": str, "array": list, "object": dict, "boolean": bool}
            named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            assert any(isinstance(value, kinds[k]) for k in named if k != "null"), (where, value, schema)
        return schema

    for path, real in (("/api/now", "/api/now"), ("/api/jobs", "/api/jobs"), ("/api/audit", "/api/audit"),
                       ("/api/jobs/{job}/sooner", "/api/jobs/9004/sooner")):  # fmt: skip
        schema = doc["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        answer = site.json(real)
        fits(schema, answer, path)
        known = set(schema.get("properties", {})) or {
            k for p in schema["allOf"] for k in fits(p, None, path).get("properties", {})
        }
        assert set(answer) <= known, set(answer) - known
    routes = {
        r.path for r in __import__("jobwise.live.sinks.page.app", fromlist=["app_of"]).app_of(Board(), Guards(), []).routes
    }
    assert {re.sub(r":\w+", "", r) for r in routes if r.startswith(("/api", "/metrics"))} - {"/api/openapi.json"} == set(
        doc["paths"]
    )


SDIAG = """Server thread count:  3
Main schedule statistics (microseconds):
\tLast cycle:   107
Backfilling stats
\tLast cycle when: Sat Nov 21 01:25:24 2026 (1795224324)
\tLast cycle: 323000
\tLast depth cycle: 7
Latency for 1000 calls to gettimeofday(): 22 microseconds
"""


def test_metrics_and_the_dashboard_that_draws_them(site):
    (site.folder / "sdiag.txt").write_text(SDIAG)
    for _ in range(3):
        site.cycle(600.0)
    x = json.loads((site.folder / "squeue.json").read_text())  # one starts: its prediction is scored
    now = float((site.folder / "now.txt").read_text())
    x["jobs"] = [j for j in x["jobs"] if j["job_id"] != 9003]
    x["jobs"][3] |= {"job_state": "RUNNING", "start_time": int(now), "nodes": "n4", "tres_alloc_str": "cpu=4,mem=100M,node=1"}
    (site.folder / "squeue.json").write_text(json.dumps(x))
    site.cycle()
    families = {f.name: f for f in text_string_to_metric_families(site.ask("/metrics")[2].decode())}
    value = {(n, *s.labels.values()): s.value for n, f in families.items() for s in f.samples}
    assert value[("jobwise_jobs", "running")] == 3 and value[("jobwise_up",)] == 1 and value[("jobwise_steer_changed",)] == 5
    assert site.json("/api/now")["slurm"] == {"threads": 3, "main_s": 107e-6, "backfill_s": 0.323, "backfill_depth": 7}
    assert value[("jobwise_slurm_pass_seconds", "backfill")] == 0.323 and value[("jobwise_slurm_backfill_depth",)] == 7
    assert 0 <= value[("jobwise_start_cover", "80")] <= 1 and value[("jobwise_start_error_seconds", "jobwise")] >= 0
    board = json.loads((Path(boards.__file__).parent / "grafana.json").read_text())
    drawn = {
        n for p in board["panels"] for t in p["targets"] for n in re.findall(r"jobwise_\w+", t["expr"].replace("_bucket", ""))
    }
    assert drawn == set(families)
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])


@pytest.mark.slurm
@pytest.mark.parametrize("width, dark", [(1280, False), (1280, True), (390, False), (390, True)])
def test_in_chromium(site, tmp_path, width, dark):
    if not executable():
        missing("no Chromium on this machine")
    b = Browser(tmp_path / "profile", width, 900, dark)
    try:
        b.open(f"http://127.0.0.1:{site.port}/")
        b.until("document.querySelectorAll('#jobs tbody tr').length === 3")
        assert EVIL in b.run("document.querySelector('#jobs').textContent") and b.run("document.title") == "seen · jobwise"
        assert b.run("document.querySelectorAll('tbody script, tbody img').length") == 0
        assert b.run("document.documentElement.scrollWidth") <= width
        light = b.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, x) => a + Number(x), 0)")
        assert (light < 200) == dark
        site.cycle()
        b.until("document.querySelector('#steering').textContent.includes('changed 2 jobs')")
        b.run("document.querySelector('#jobs td button').click()")
        b.until("/Sooner|Nothing that was tried/.test(document.querySelector('#jobs td.more').textContent)")
        b.run("document.querySelector('#who').value = 'u2'; document.querySelector('#find').requestSubmit()")
        b.until("document.querySelectorAll('#jobs tbody tr').length === 1")
        assert b.run("document.querySelectorAll('#audit tbody tr').length") == 2
        assert b.errors == []
        b.run("document.querySelector('#token').value = 'wrong'; document.querySelector('#stop').requestSubmit()")
        b.until("document.querySelector('#stopped').textContent.includes('token')")
        assert not site.stopped.is_set()
        b.run(f"document.querySelector('#token').value = '{TOKEN}'; document.querySelector('#stop').requestSubmit()")
        b.until("document.querySelector('#stopped').textContent.includes('go back')")
        assert site.stopped.is_set() and b.run("document.querySelector('#token').value") == ""
        assert len(b.errors) == 1 and "401" in b.errors[0]
        blocked = (
            "(() => { const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.head.append(s); "
        )
        assert b.run(blocked + "return window.taken === undefined; })()")  # the policy on content
    finally:
        b.close()


def test_a_socket_in_the_file_system(cluster, tmp_path):  # noqa: F811
    file = tmp_path / "page.sock"
    for _ in range(2):  # the second takes the place of what a killed process has left
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(file))
        left.close()
        with serving(Board(), Guards(), f"unix:{file}") as where:
            assert where == f"unix:{file}" and file.stat().st_mode & 0o777 == 0o660
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(str(file))
                s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                with s.makefile("rb") as answer:
                    assert answer.read().startswith(b"HTTP/1.1 200")
        assert not file.exists()
    file.write_text("mine")
    with pytest.raises(InputError, match="in use"), serving(Board(), Guards(), f"unix:{file}"):
        pass
    assert file.read_text() == "mine"


def test_silent_and_too_many_connections_are_closed(monkeypatch):
    monkeypatch.setattr(connections, "MOST", 3)
    monkeypatch.setattr(connections, "SILENT_S", 0.2)
    with serving(Board(), Guards(), "127.0.0.1:0") as where:
        own = [socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2])), timeout=20) for _ in range(5)]
        for s in own:
            with contextlib.suppress(ConnectionResetError):
                assert s.recv(1) == b""
            s.close()


def test_requests_that_never_end_are_closed_also_behind_a_whole_one(monkeypatch):
    """A second request that is begun and not ended, a body that does not come, one byte at a time; a stream of events stays."""
    monkeypatch.setattr(connections, "SILENT_S", 0.5)
    get = b"GET /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(Board(), Guards(), "127.0.0.1:0") as where:
        port = int(where.rpartition(":")[2])

        def opened(*parts):
            s = socket.create_connection(("127.0.0.1", port), timeout=20)
            for part in parts:
                s.sendall(part)
            return s

        def closed(s):
            with contextlib.suppress(ConnectionResetError):
                while s.recv(1 << 16):
                    pass
            s.close()

        stream = opened(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for parts in (
            (get, b"GET /page.css HT"),
            (get + b"GET /page.css HT",),
            (b"POST /api/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc",),
            (get, get, b"G"),
        ):
            begun = time.monotonic()
            closed(opened(*parts))
            assert time.monotonic() - begun < 4.5, parts  # an idle connection, which uvicorn closes, lives for 5 s
        slow, begun = opened(get), time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - begun < 15:
                slow.sendall(b"G")
                time.sleep(0.1)
        assert time.monotonic() - begun < 4.5
        slow.close()
        stream.settimeout(0.2)
        data = b""
        with contextlib.suppress(TimeoutError):
            while more := stream.recv(1 << 16):
                data += more
            raise AssertionError("the stream was closed")
        assert b"data: " in data
        stream.close()


@pytest.mark.skipif(sys.platform != "linux", reason="whose a connection is, Linux says")
@pytest.mark.parametrize("unix", [False, True])
def test_one_account_cannot_shut_the_page(monkeypatch, tmp_path, unix):
    """One account holds as many connections as it gets; another one is still answered. (Who others are is imitated.)"""
    monkeypatch.setattr(connections, "MOST", 8)
    monkeypatch.setattr(connections, "MOST_OF_ONE", 4)
    web = f"unix:{tmp_path / 's'}" if unix else "127.0.0.1:0"
    with serving(Board(), Guards(), web) as where:

        def opened(host="127.0.0.1"):
            s = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
            s.settimeout(20)
            if unix:
                s.connect(str(tmp_path / "s"))
            else:
                s.bind((host, 0))
                s.connect(("127.0.0.1", int(where.rpartition(":")[2])))
            return s

        def is_open(s):
            s.setblocking(False)
            try:
                return bool(s.recv(1))
            except BlockingIOError:
                return True
            except OSError:
                return False

        def answered(s):
            s.sendall(b"GET /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return s.recv(12) == b"HTTP/1.1 200"

        known, whose, labels = connections._peer, ["mine"], {}
        monkeypatch.setattr(connections, "_peer", lambda t, users: labels.setdefault(t, (*whose, known(t, users))))
        mine = [opened(f"127.0.0.{1 + k % 3}") for k in range(8)]  # other addresses of this machine are no other accounts
        end = time.monotonic() + 20
        while sum(map(is_open, mine)) > 4 and time.monotonic() < end:
            time.sleep(0.05)
        assert [is_open(s) for s in mine] == [True] * 4 + [False] * 4
        assert {x[1] for x in labels.values()} == {("user", os.getuid())}
        whose[0] = "another's"
        others = [opened() for _ in range(3)]
        assert all(answered(s) for s in others)
        time.sleep(0.5)
        assert all(map(is_open, others)) and sum(map(is_open, mine)) == 4
        for s in [*mine, *others]:
            s.close()


def test_users_of_connections_are_known():
    with socket.create_server(("127.0.0.1", 0)) as s, socket.create_connection(s.getsockname()) as c:
        assert connections._users()[c.getsockname()] == os.getuid()
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as s, socket.create_connection(s.getsockname()[:2]) as c:
        assert connections._users()[c.getsockname()[:2]] == os.getuid()


def test_odd_numbers_of_jobs_and_faults_of_ours(site, monkeypatch, caplog):
    for odd in ("9" * 5000, "9" * 11, "-1", "1e3", "%C2%B2", "x"):
        status, headers, body = site.ask(f"/api/jobs/{odd}/sooner")
        assert status == 404 and headers["X-Content-Type-Options"] == "nosniff" and b"error" in body, odd
    monkeypatch.setattr(site.board, "sooner", lambda id: 1 / 0)
    status, headers, body = site.ask("/api/jobs/9004/sooner")
    assert status == 500 and json.loads(body) == {"error": "jobwise failed here"}
    assert all(headers[k] == v for k, v in HEADERS.items())
    end = time.monotonic() + 20
    while "ZeroDivisionError" not in caplog.text and time.monotonic() < end:  # whoever runs it reads why
        time.sleep(0.05)
    assert "ZeroDivisionError" in caplog.text
    caplog.clear()
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", site.port), timeout=20) as s:
            s.sendall(b"nonsense\r\n\r\n")
            assert s.recv(12) == b"HTTP/1.1 400"
    assert not caplog.text  # others' nonsense does not fill the terminal


def test_a_socket_that_is_served_is_not_taken_away(tmp_path):
    file = tmp_path / "page.sock"
    with serving(Board(), Guards(), f"unix:{file}"):
        with pytest.raises(InputError, match="another process serves there"), serving(Board(), Guards(), f"unix:{file}"):
            pass
        with socket.socket(socket.AF_UNIX) as s:  # it is still served
            s.connect(str(file))
    assert not file.exists()
    with socket.socket(socket.AF_UNIX) as left:  # as a process leaves it that was killed
        left.bind(str(file))
    with serving(Board(), Guards(), f"unix:{file}") as where:
        assert where == f"unix:{file}"


def test_private_pages_tell_no_words_of_others(cluster, tmp_path):  # noqa: F811
    with Site(cluster, tmp_path / "state", private=True, header="X-Remote-User") as s:
        me = {"X_Remote_User": "u2"}
        s.board.failed("job 9004 of u1")
        assert s.ask("/api/now")[0] == 403 and b"u1" not in s.ask("/api/now", **me)[2]
        s.cycle()
        s.board.failed("job 9004 of u1")
        with open(s.board.audit, "a") as log:
            log.write('\n{"time": 3, "what": "refused", "complaint": "job 9004 of u1"}\n')
        assert s.json("/api/now", **me)["problem"] == "the last cycle failed"
        assert b"9004" not in s.ask("/api/audit", **me)[2] and b"seconds{" not in s.ask("/metrics")[2]


def test_tokens_are_files_of_ones_own(tmp_path, monkeypatch):
    file = tmp_path / "token"
    with pytest.raises(InputError, match="cannot be read"):
        token_of(file)
    file.write_text(TOKEN + "\n")
    file.chmod(0o644)
    with pytest.raises(InputError, match="others may read it; `chmod 600"):
        token_of(file)
    for mode in (0o640, 0o440, 0o620, 0o601):  # a group is others, too
        file.chmod(mode)
        with pytest.raises(InputError, match="others may read it"):
            token_of(file)
    file.chmod(0o600)
    assert token_of(file) == TOKEN
    file.chmod(0o440)  # as systemd keeps credentials
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert token_of(file) == TOKEN
    file.chmod(0o604)
    with pytest.raises(InputError, match="others may read it"):
        token_of(file)
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(InputError, match="16 ASCII"):
        token_of(file)


def test_addresses():
    assert address("127.0.0.1:80") == ("127.0.0.1", 80) and address("[::1]:8088") == ("::1", 8088)
    assert not any(open_to_others(x) for x in ("127.0.0.1:1", "[::1]:1", "localhost:1", "unix:x")) and open_to_others(
        "0.0.0.0:1"
    )
    for wrong in ("8088", "x:", ":80", "a:99999", "a:b", "a:000001999999", "a:²"):
        with pytest.raises(InputError, match="HOST:PORT"):
            address(wrong)
    with (
        serving(Board(), Guards(), "127.0.0.1:0") as where,
        pytest.raises(InputError, match="in use"),
        serving(Board(), Guards(), where.removeprefix("http://")),
    ):
        pass
    with pytest.raises(InputError, match="name of a host"), serving(Board(), Guards(), "127.0.0.1:0", ["*"]):
        pass


@pytest.mark.slurm
def test_the_commands_serve_it(cluster, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", cluster))
    assert run(["slurm", "watch", "--cycles", "1", "--web", "127.0.0.1:0"]) == 0
    assert re.search(r"a page on http://127\.0\.0\.1:\d+\n", capsys.readouterr().err)
    state = str(tmp_path / "shadow")
    assert run(["slurm", "shadow", "--state", state, "--cycles", "1", "--web", "0.0.0.0:0", "-p", "fcfs"]) == 0
    assert "other machines can reach it; it shows the jobs of all users" in " ".join(capsys.readouterr().err.split())
    private = ["--private", "--user-header", "X-User"]
    for where, says in (("127.0.0.1:0", True), (f"unix:{tmp_path / 's'}", False)):  # who may say who asks
        assert run(["slurm", "watch", "--cycles", "1", "--web", where, *private]) == 0
        assert ("whoever reaches it may say in X-User who asks" in " ".join(capsys.readouterr().err.split())) == says
    assert run(["slurm", "watch", "--cycles", "1", "--web", "127.0.0.1:0"]) == 0
    assert "every account of this machine can reach it; it shows the jobs of all" in " ".join(capsys.readouterr().err.split())
    assert run(["slurm", "watch", "--cycles", "1", "--metrics", "127.0.0.1:0"]) == 0
    assert re.search(r"metrics on http://127\.0\.0\.1:\d+/metrics\n", capsys.readouterr().err)
    for words, says in (
        (["--private"], "belong to --web"),
        (["--metrics", "nowhere"], "HOST:PORT was expected"),
        (["--web", "nowhere"], "HOST:PORT was expected"),
        (["--web", "127.0.0.1:0", "--user-header", "X"], "--private"),
        (["--web", "127.0.0.1:0", "--web-host", "a b"], "name of a host"),
    ):
        assert run(["slurm", "watch", "--cycles", "1", *words]) == 2
        assert says in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["slurm", "watch", "--web", "127.0.0.1:0"]) == 2
    assert "pip install 'jobwise[web]'" in capsys.readouterr().err


@pytest.mark.slurm
def test_the_stop_button_ends_steering_and_all_is_given_back(cluster, tmp_path):  # noqa: F811
    token, updates = tmp_path / "token", tmp_path / "updates"
    token.write_text(TOKEN)
    token.chmod(0o600)
    told = {"scontrol": f'[ -z "$1" ] && cat >> {updates}', "sprio": "printf '9004|10|0\\n9005|10|0\\n9006|10|0\\n'"}
    path = programs(tmp_path / "bin", cluster, **told)
    words = ["slurm", "steer", "--state", str(tmp_path / "state"), "-p", "sjf", "--span", "100", "--every", "1s"]
    words += ["--web", "127.0.0.1:0", "--token-file", str(token)]
    command = [sys.executable, "-m", "jobwise.cli", *words]
    with subprocess.Popen(
        command, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as p:
        try:
            port = int(re.search(r":(\d+)$", p.stderr.readline().strip())[1])
            assert "changed 2" in p.stdout.readline()
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            end = time.monotonic() + 60
            while time.monotonic() < end:
                c.request("GET", "/api/now")
                r = c.getresponse()
                body = r.read()
                if r.status == 200:
                    break
                time.sleep(0.1)
            assert json.loads(body)["steering"]["span"] == 100
            c.request("POST", "/api/stop", headers={"Authorization": f"Bearer {TOKEN}"})
            assert c.getresponse().read() == b'{"stopping":true}'
            c.close()
            out, err = p.communicate(timeout=60)
        finally:
            p.send_signal(signal.SIGKILL)
    assert p.returncode == 0, err
    lines = [json.loads(x) for x in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
    assert [x["what"] for x in lines][-1] == "stop" and json.loads((tmp_path / "state" / "before.json").read_text()) == {}


@pytest.mark.slurm
@pytest.mark.parametrize("unit", sorted((ROOT / "examples" / "systemd").glob("*.service")), ids=lambda p: p.stem)
def test_the_units_name_commands_and_options_that_there_are(unit, tmp_path, capsys):
    lines = [x.split("=", 1) for x in unit.read_text().splitlines() if "=" in x and not x.startswith("#")]
    commands = [value.split() for key, value in lines if key.startswith("Exec")]
    assert commands and all(words[0].endswith("/bin/jobwise") for words in commands)
    for words in commands:
        run([*words[1:3], "--help"])
        known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        assert {w for w in words if w.startswith("--")} <= known
    if shutil.which("systemd-analyze"):
        copy = tmp_path / unit.name
        copy.write_text(unit.read_text().replace("/opt/jobwise/bin/jobwise", "/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr.strip() == "", done.stderr
