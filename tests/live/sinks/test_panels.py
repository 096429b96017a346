"""Panels for tools that people have: Open OnDemand's dashboard in Chromium, Grafana's on the JSON API; waits by partition and QOS.

Modules: live/sinks/page/metrics.py, live/sinks/page/state.py.
"""

import http.client
import http.server
import json
import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, executable
from conftest import ROOT, missing
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_live import cluster  # noqa: F401
from test_page import EVIL, Site

from jobwise.cluster import pool
from jobwise.live.sinks.page.openapi import document
from jobwise.live.sinks.page.state import WAITS_S, waits_of
from jobwise.workload import workload

pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]
WIDGET = ROOT / "integrations" / "ondemand" / "_jobwise_starts.html.erb"
NONCE = "c2l4dGVlbiBieXRlcw"


class OnDemand(http.server.BaseHTTPRequestHandler):
    """Open OnDemand as far as the widget sees it: its policy for scripts, its tag for scripts, its proxy with the user's name."""

    user = "u1"

    def do_GET(self):  # noqa: N802
        if parsed := re.fullmatch(r"/rnode/([^/]+)/(\d+)(/.*)", self.path):
            c = http.client.HTTPConnection(parsed[1], int(parsed[2]), timeout=20)
            c.request("GET", parsed[3], headers={"Host": f"{parsed[1]}:{parsed[2]}", "X-Forwarded-User": self.user})
            answer = c.getresponse()
            self._say(answer.status, answer.headers["Content-Type"], answer.read())
            c.close()
        else:
            self._say(200, "text/html; charset=utf-8", self.server.page.encode())

    def _say(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        policy = f"default-src 'self'; script-src 'self' 'nonce-{NONCE}'; style-src 'self' 'unsafe-inline'; img-src data:"
        self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def rendered(port):
    """The dashboard with the widget, as Rails would render it."""
    text = re.sub(r"<%#.*?%>", "", WIDGET.read_text(), flags=re.S)
    text = text.replace("<%= javascript_tag nonce: true do -%>", f'<script nonce="{NONCE}">').replace(
        "<%- end -%>", "</script>"
    )
    assert "<%" not in text
    text = text.replace("/rnode/jobs.example.org/8088", f"/rnode/127.0.0.1/{port}")
    look = "body{font:15px sans-serif;margin:1em}td,th{padding:.3em .8em .3em 0;text-align:left}.card{border:1px solid #ccc;padding:1em}"
    return f"<!doctype html><html lang='en'><title>Dashboard</title><link rel=icon href='data:,'><style>{look}</style>{text}</html>"


@pytest.fixture
def dashboard(cluster, tmp_path):  # noqa: F811
    """(the dashboard's address, the site): private, and the proxy says who asks."""
    with Site(cluster, tmp_path / "state", private=True, header="X-Forwarded-User") as s:
        s.cycle()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OnDemand)
        server.page = rendered(s.port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", s
        server.shutdown()
        server.server_close()


@pytest.mark.slurm
@pytest.mark.parametrize("user, jobs", [("u1", 2), ("u2", 1), ("nobody", 0)])
def test_the_widget_of_ondemand_shows_the_jobs_of_who_looks(dashboard, tmp_path, monkeypatch, user, jobs):
    if not executable():
        missing("no Chromium on this machine")
    url, site = dashboard
    monkeypatch.setattr(OnDemand, "user", user)
    b = Browser(tmp_path / "profile", 900, 420)
    try:
        b.open(url)
        b.until("document.readyState === 'complete' && !document.querySelector('#jobwise-starts').innerText.includes('Asking')")
        assert b.run("document.querySelectorAll('#jobwise-starts tbody tr').length") == jobs
        text = b.run("document.querySelector('#jobwise-starts').innerText")
        own = {str(x.job): x.user == user for x in site.board.state.jobs}
        assert {id: id in text for id in own} == own
        assert ("None of your jobs waits" in text) == (jobs == 0) and "No prediction" not in text
        assert b.run("document.title") == "Dashboard" and (user != "u2" or EVIL in text)  # names are text
        assert b.run("document.documentElement.scrollWidth") <= 900 and b.errors == []
        picture = Path(os.environ.get("JOBWISE_PICTURES") or tmp_path) / "ondemand-widget.png"
        if user == "u1":
            b.picture(picture, 420)
            assert 2_000 < picture.stat().st_size < 200_000
    finally:
        b.close()


@pytest.mark.slurm
def test_the_widget_says_why_it_shows_nothing(cluster, tmp_path):  # noqa: F811
    """Before the first cycle; and where no page answers."""
    if not executable():
        missing("no Chromium on this machine")
    with Site(cluster, tmp_path / "state", private=True, header="X-Forwarded-User") as s:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OnDemand)
        server.page = rendered(s.port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        b = Browser(tmp_path / "profile", 900, 420)
        try:
            b.open(f"http://127.0.0.1:{server.server_address[1]}/")
            b.until("document.body.innerText.includes('No prediction now: ')")
        finally:
            b.close()
            server.shutdown()
            server.server_close()


def test_the_panel_of_grafana_asks_for_what_the_api_has():
    """Its columns are fields of jobs; its path is one of the API's."""
    board, api = json.loads((ROOT / "integrations" / "grafana" / "next-starts.json").read_text()), document()
    fields = json.dumps(api)
    for panel in board["panels"]:
        for target in panel["targets"]:
            path = target["url"].removeprefix("${page}").partition("?")[0]
            assert path in api["paths"]
            assert all(f'"{x["selector"]}"' in fields for x in target["columns"]) and target["root_selector"] == "jobs"


def test_waits_by_partition_and_qos_by_hand():
    """Three jobs of a day in two partitions, one older: waits of 30 s and 2 h, of 700 s."""
    day = 86_400.0
    w = workload(
        cluster=pool(4),
        submit=np.array([0.0, day, day, day, 2 * day - 10]),
        request=np.ones(5),
        runtime=np.full(5, 60.0),
        partition=np.array([0, 0, 0, 1, 0]),
        queue=np.array([0, 0, 0, 1, 0]),
    )
    w.names.update(partition={0: "batch", 1: "gpu"}, queue={0: "normal", 1: "high"})
    w.jobs["start"] = [5.0, day + 30, day + 7200, day + 700, np.nan]
    found = {(x.partition, x.qos): (x.counts, x.seconds) for x in waits_of(w, 2 * day)}
    first, second = [0] * (len(WAITS_S) + 1), [0] * (len(WAITS_S) + 1)
    first[0], first[3], second[2] = 1, 1, 1
    assert found == {("batch", "normal"): (first, 7230.0), ("gpu", "high"): (second, 700.0)}


def test_openmetrics_has_a_histogram_of_waits(cluster, tmp_path):  # noqa: F811
    """The recorded jobs of the last day; a private page has those of many jobs alone."""
    kind = "application/openmetrics-text; version=1.0.0"
    for private in (False, True):
        with Site(cluster, tmp_path / f"state{private}", private=private, own="u1") as s:
            s.cycle()
            status, headers, body = s.ask("/metrics", Accept=kind)
            assert status == 200 and headers["Content-Type"].startswith("application/openmetrics-text")
            families = {f.name: f for f in text_string_to_metric_families(body.decode())}
            count = sum(sum(x.counts) for x in s.board.state.waits)
            assert count > 0 and ("jobwise_wait_seconds" in families) == (count >= 20 or not private)
            own = s.json("/api/now")["waits"]
            assert all(sum(x["counts"]) >= 20 for x in own) or not private
            if "jobwise_wait_seconds" in families:
                top = [x for x in families["jobwise_wait_seconds"].samples if x.labels.get("le") == "+Inf"]
                assert sum(x.value for x in top) == count and {x.labels["partition"] for x in top} == {"batch"}
