"""Panels for tools that people have: Open OnDemand's dashboard in Chromium, Grafana's on the JSON API; waits by partition and QOS.

Modules: live/sinks/page/metrics.py, live/sinks/page/state.py, live/sinks/page/veil.py.
"""

import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from browser import Browser, executable
from conftest import ROOT, missing
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_live import cluster  # noqa: F401
from test_page import EVIL, Site

from jobwise.cluster import pool
from jobwise.live.sinks import page as boards
from jobwise.live.sinks.page.openapi import document
from jobwise.live.sinks.page.server import serving
from jobwise.live.sinks.page.state import WAITS_S, waits_of
from jobwise.workload import workload

pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]
WIDGET = ROOT / "integrations" / "ondemand" / "_jobwise_starts.html.erb"
PAGE = ROOT / "docs" / "systems" / "panels.md"
PROMETHEUS = shutil.which("prometheus")
APACHE = shutil.which("apache2", path=f"{os.environ['PATH']}:/usr/sbin")
NONCE = "c2l4dGVlbiBieXRlcw"


POLICY = f"default-src 'self'; script-src 'self' 'nonce-{NONCE}'; style-src 'self' 'unsafe-inline'; img-src data:"
MODULES = "mpm_event authn_core authn_file authz_core authz_user auth_basic headers proxy proxy_http dir mime".split()
LOOK = """body{font:15px sans-serif;margin:1em}td,th{padding:.3em .8em .3em 0;text-align:left;vertical-align:top}table{width:100%}
.card{border:1px solid #ccc;padding:1em}.small{font-size:85%}.text-muted{color:#666}.pb-0{padding-bottom:0}.pt-0{padding-top:0}"""


def rendered():
    """The dashboard with the widget, as Rails would render it."""
    text = re.sub(r"<%#.*?%>", "", WIDGET.read_text(), flags=re.S)
    text = text.replace("<%= javascript_tag nonce: true do -%>", f'<script nonce="{NONCE}">').replace(
        "<%- end -%>", "</script>"
    )
    text = re.sub(r'<%= ENV.fetch\("JOBWISE_PAGE", "(.*?)"\) %>', r"\1", text)
    assert "<%" not in text
    return f"<!doctype html><html lang='en'><title>Dashboard</title><link rel=icon href='data:,'><style>{LOOK}</style>{text}</html>"


def directives(socket, users):
    """The lines of the docs for OnDemand's web server, with Basic authentication in the place of its own."""
    block = next(x for x in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S) if "custom_vhost_directives" in x)
    text = "\n".join(re.findall(r"^  - '(.*)'$", block, re.M)).replace("/run/jobwise-shadow/page.sock", str(socket))
    return text.replace("AuthType openid-connect", f'AuthType Basic\n  AuthName "portal"\n  AuthUserFile {users}')


class Portal:
    """A real Apache with a dashboard at / and the page of a site at /jobwise/, as the docs have it; `port`."""

    def __init__(self, site, preserved):
        self.folder, self.preserved = Path(tempfile.mkdtemp(prefix="jobwise-portal-")), preserved
        self.socket = self.folder / "page.sock"
        self.serving = serving(site.board, site.guards, f"unix:{self.socket}", ["127.0.0.1"])

    def __enter__(self):
        self.serving.__enter__()
        self.folder.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(self.socket, group="www-data")
        (self.folder / "index.html").write_text(rendered())
        names = ("u1", "u2", "nobody")
        lines = [
            subprocess.run(["openssl", "passwd", "-apr1", x], capture_output=True, text=True, check=True).stdout for x in names
        ]
        (self.folder / "users").write_text("".join(f"{n}:{x}" for n, x in zip(names, lines, strict=True)))
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        loaded = [f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so" for m in MODULES]
        own = ["User www-data", "Group www-data"] if os.geteuid() == 0 else []
        more = [
            f"Listen 127.0.0.1:{self.port}",
            f"PidFile {self.folder}/pid",
            f"ErrorLog {self.folder}/errors",
            "ServerName portal",
        ]
        more += [f"DocumentRoot {self.folder}", f'Header set Content-Security-Policy "{POLICY}"', f"ServerRoot {self.folder}"]
        more += ["TypesConfig /etc/mime.types", f"ProxyPreserveHost {'On' if self.preserved else 'Off'}"]
        text = [*loaded, *own, *more, directives(self.socket, self.folder / "users")]
        (self.folder / "conf").write_text("\n".join(text) + "\n")
        words = [APACHE, "-f", str(self.folder / "conf"), "-D", "FOREGROUND"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return self
            time.sleep(0.1)
        pytest.fail((self.folder / "errors").read_text())

    def __exit__(self, *why):
        self.process.terminate()
        self.process.wait(20)
        self.serving.__exit__(*why)
        shutil.rmtree(self.folder)

    def ask(self, user, path, **headers):
        """(status, what is answered) to a user."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        login = {"Authorization": "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()} if user else {}
        c.request("GET", path, headers=login | {k.replace("_", "-"): v for k, v in headers.items()})
        answer = c.getresponse()
        out = answer.status, answer.read().decode()
        c.close()
        return out


@pytest.fixture(params=[False, True], ids=["its-host", "preserved-host"])
def portal(request, cluster, tmp_path):  # noqa: F811
    if not APACHE:
        pytest.skip("no Apache on this machine")
    with Site(cluster, tmp_path / "state", private=True, header="X-Remote-User") as s:
        s.cycle()
        with Portal(s, request.param) as p:
            p.site = s
            yield p


@pytest.mark.slurm
def test_through_a_portal_a_user_sees_own_jobs_alone(portal):
    """Whatever header a browser sends; without a login nothing, not even whether there is a page."""
    own = {u: {x.job for x in portal.site.board.state.jobs if x.user == u} for u in ("u1", "u2", "nobody")}
    for user, jobs in own.items():
        for headers in ({}, {"X_Remote_User": "u1"}):
            status, text = portal.ask(user, "/jobwise/api/jobs", **headers)
            assert status == 200 and {x["job"] for x in json.loads(text)["jobs"]} == jobs
        assert portal.ask(user, "/jobwise/api/jobs", Connection="X-Remote-User")[0] in (200, 403)
        assert json.loads(portal.ask(user, "/jobwise/api/jobs?user=u1")[1])["count"] == (len(jobs) if user == "u1" else 0)
    assert portal.ask("", "/jobwise/api/jobs", X_Remote_User="u1")[0] == 401
    assert portal.ask("u1", "/jobwise/")[0] == 200


@pytest.mark.slurm
@pytest.mark.parametrize("user, rows", [("u1", 4), ("u2", 1), ("nobody", 0)])
def test_the_widget_of_ondemand_shows_the_jobs_of_who_looks(portal, tmp_path, user, rows):
    """Two jobs of u1 wait, two may not start yet; each has a line of why below."""
    if not executable():
        missing("no Chromium on this machine")
    b = Browser(tmp_path / "profile", 700, 420)
    try:
        b.open(f"http://{user}:{user}@127.0.0.1:{portal.port}/jobwise/api/now")  # the browser logs in
        b.until("document.readyState === 'complete'")
        b.open(f"http://127.0.0.1:{portal.port}/")
        b.until("document.readyState === 'complete' && !document.body.innerText.includes('Asking')")
        assert b.run("document.querySelectorAll('.jobwise-starts tbody tr').length") == 2 * rows
        text = b.run("document.querySelector('.jobwise-starts').innerText")
        state = portal.site.board.state
        own = {str(x.job): x.user == user for x in (*state.jobs, *state.cannot_start)}
        assert {id: f"({id}" in text for id in own} == own
        assert ("None of your jobs waits" in text) == (rows == 0) and "No prediction" not in text and "on seen" in text
        assert b.run("document.title") == "Dashboard" and (user != "u2" or EVIL[:40] in text)  # names are text
        assert b.run("document.documentElement.scrollWidth") <= 700 and b.errors == []
        picture = Path(os.environ.get("JOBWISE_PICTURES") or tmp_path) / "ondemand-widget.png"
        if user == "u1":
            b.picture(picture, 420)
            assert 2_000 < picture.stat().st_size < 200_000
            portal.site.board.failed("squeue: timed out")  # what is old is shown as old
            b.open(f"http://127.0.0.1:{portal.port}/?again")
            b.until("document.body?.innerText.includes('Slurm does not answer: this is what was known')")
            portal.site.board.state = None
            b.open(f"http://127.0.0.1:{portal.port}/?more")
            b.until("document.body?.innerText.includes('No prediction now: no cycle is over yet')")
            portal.serving.__exit__(None, None, None)
            b.open(f"http://127.0.0.1:{portal.port}/?gone")
            b.until("document.body?.innerText.includes('the page of jobwise does not answer (status 503)')")
    finally:
        b.close()


def test_the_panel_of_grafana_asks_for_what_the_api_has():
    """Its columns are fields of jobs; its path is one of the API's."""
    board, api = json.loads((ROOT / "integrations" / "grafana" / "next-starts.json").read_text()), document()
    fields = set(api["components"]["schemas"]["Job"]["properties"])
    for panel in board["panels"]:
        for target in panel["targets"]:
            path = target["url"].removeprefix("${page}").partition("?")[0]
            assert path in api["paths"]
            assert {x["selector"] for x in target["columns"]} <= fields and target["root_selector"] == "jobs"


@pytest.mark.cli
@pytest.mark.skipif(not PROMETHEUS, reason="Prometheus is not installed")
def test_a_real_prometheus_answers_every_question_of_the_dashboard(cluster, tmp_path):  # noqa: F811
    """It reads the page every second; the expressions that need predictions that came true, a steered queue or sdiag are empty."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with Site(cluster, tmp_path / "state") as site:
        site.cycle()
        job = f"{{job_name: jobwise, scrape_interval: 1s, static_configs: [{{targets: ['127.0.0.1:{site.port}']}}]}}"
        (tmp_path / "prometheus.yml").write_text(f"scrape_configs: [{job}]\n")
        words = [PROMETHEUS, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb"]
        words += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def query(expression):
            with contextlib.suppress(OSError):
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                c.request("GET", f"/api/v1/query?{urlencode({'query': expression})}")
                answer = json.loads(c.getresponse().read())
                c.close()
                assert answer["status"] == "success", answer
                return answer["data"]["result"]

        try:
            end = time.monotonic() + 30
            while not query("jobwise_jobs") and time.monotonic() < end:
                time.sleep(0.2)
            board = json.loads((Path(boards.__file__).parent / "grafana.json").read_text())
            every = [t["expr"] for p in board["panels"] for t in p.get("targets", [])]
            empty = {x for x in every if not query(x)}
            waits = query('sum(jobwise_wait_seconds_bucket{le="+Inf"})')
        finally:
            process.terminate()
            process.wait(20)
        steered, predicted, sdiag = "steer_changed", ("start_error_seconds", "start_cover"), ("pass_seconds", "backfill_depth")
        assert empty == {f"jobwise_{x}" for x in (steered, *predicted, *(f"slurm_{k}" for k in sdiag))}
        assert float(waits[0]["value"][1]) == sum(sum(x.counts) for x in site.board.state.waits) > 0


def test_waits_by_partition_and_qos_by_hand():
    """Three jobs of a day in two partitions, one older: waits of 30 s and 2 h, of 700 s."""
    day = 86_400.0
    w = workload(
        cluster=pool(4),
        submit=np.array([0.0, day, day, day, 2 * day - 10]),
        request=np.ones(5),
        runtime=np.full(5, 60.0),
        partition=np.array([0, 0, 0, 1, 0]),
        user=np.array([0, 0, 1, 0, 2]),
        queue=np.array([0, 0, 0, 1, 0]),
    )
    w.names.update(partition={0: "batch", 1: "gpu"}, queue={0: "normal", 1: "high"})
    w.jobs["start"] = [5.0, day + 30, day + 7200, day + 700, np.nan]
    found = {(x.partition, x.qos): (x.counts, x.seconds) for x in waits_of(w, 2 * day)}
    assert [x.users for x in waits_of(w, 2 * day)] == [2, 1]
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
            waits = s.board.state.waits
            shown = s.board.veiled.waits if private else waits
            assert all(sum(x.counts) >= 20 and x.users >= 5 for x in shown) or not private
            assert waits and ("jobwise_wait_seconds" in families) == bool(shown)
            assert len(s.json("/api/now")["waits"]) == len(shown)
            count = sum(sum(x.counts) for x in shown)
            if "jobwise_wait_seconds" in families:
                top = [x for x in families["jobwise_wait_seconds"].samples if x.labels.get("le") == "+Inf"]
                assert sum(x.value for x in top) == count and {x.labels["partition"] for x in top} == {"batch"}
