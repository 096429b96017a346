"""The pictures of the docs, made by what they show: reports and the page of a cluster in Chromium, a film of each world. With
JOBWISE_PICTURES=FOLDER they are kept (`make pictures`); without it they are made and looked at all the same. Where axe-core is at
hand (build/axe, by npm), it looks for faults of accessibility.
"""

import http.server
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from browser import Browser, executable
from conftest import ROOT, missing
from cycles import Shadowing
from test_live import cluster  # noqa: F401

from jobwise.cli import run

AXE = ROOT / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
SIZES = [(1280, 860, False), (1280, 860, True), (390, 800, False)]
FILMS = {  # a world: what is filmed, in how many frames
    "window": ("saf+easy", ["--log", "LOG", "--day", "5"], 72),
    "slots": ("sjf", [], 60),
    "gpus": ("gpus:slot", [], 60),
    "nodes": ("nodes:lb", [], 60),
}
MOST = 700_000  # bytes of a picture
pytestmark = pytest.mark.slow


@pytest.fixture
def kept(tmp_path):
    folder = Path(os.environ.get("JOBWISE_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "cluster.swf"
    command = ["trace", "generate", str(path), "--jobs", "6000", "--procs", "256", "--load", "0.95", "--users", "40"]
    assert run([*command, "--estimates", "users", "--seed", "1"]) == 0
    return path


def look(url, name, folder, profile, ready):
    """Pictures of a page in all sizes; none may scroll sideways, complain, or (axe-core) be hard to use."""
    if not executable():
        missing("no Chromium on this machine")
    for width, height, dark in SIZES:
        b = Browser(profile / f"{width}-{dark}", width, height, dark)
        try:
            b.open(url)
            b.until(ready)
            assert b.run("document.documentElement.scrollWidth") <= width
            b.picture(folder / f"{name}-{width}{'-dark' * dark}.png", height)
            assert (folder / f"{name}-{width}{'-dark' * dark}.png").stat().st_size < MOST
            if AXE.exists():
                b.run(AXE.read_text() + "; 0")
                script = "axe.run().then(x => x.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => v.id + ' ' + v.nodes[0].html))"
                assert (faults := b.run(script)) == [], (url, faults)
            assert b.errors == []
        finally:
            b.close()


def test_a_report(log, kept, tmp_path):
    out = tmp_path / "report.html"
    policies = [x for p in ("fcfs+easy", "sjf+easy", "saf+easy", "saf+easy+guard24h", "jobwise") for x in ("-p", p)]
    assert run(["compare", str(log), *policies, "--report", str(out)]) == 0
    look(out.as_uri(), "report", kept, tmp_path, "document.querySelectorAll('figure.drawn').length === 2")


def test_the_page_of_a_cluster(cluster, kept, tmp_path):  # noqa: F811
    from jobwise.live import sources
    from jobwise.live.sinks.journal import Journal
    from jobwise.live.sinks.page.board import Board, Shown
    from jobwise.live.sinks.page.guards import Guards
    from jobwise.live.sinks.page.server import serving
    from jobwise.policies.names import resolve

    (tmp_path / "state").mkdir()
    shadow = Shadowing(resolve("saf+easy"), Journal(tmp_path / "state"))
    board = Board()
    for n in range(2):
        shadow.cycle(sources.look(cluster), n)
        Shown(board, shadow).take(shadow.turn)
        (cluster / "now.txt").write_text(f"{float((cluster / 'now.txt').read_text()) + 60}\n")
    with serving(board, Guards(), "127.0.0.1:0", []) as where:
        port = where.rpartition(":")[2]
        look(f"http://127.0.0.1:{port}/", "page", kept, tmp_path, "document.querySelectorAll('#jobs tbody tr').length === 3")
    shadow.journal.close()


@pytest.mark.parametrize(
    "command",
    [
        ["slurm", "fidelity", "SITE", "-p", "slurm", "-p", "fcfs+easy"],
        ["slurm", "what-if", "SITE", "--set", "bf_window=2880", "--nodes", "2"],
        ["slurm", "tune", "SITE", "--budget", "0.1", "-p", "saf+slurm"],
        ["trace", "forecast", "LOG"],
        ["compare", "LOG", "--jobs", "1500", "--replicas", "1", "-p", "fcfs+easy", "-p", "saf+easy", "--origins", "2"],
    ],
    ids=lambda x: " ".join(x[:2]),
)
def test_every_other_report(command, log, site_folder, tmp_path):
    out = tmp_path / "report.html"
    words = [{"SITE": str(site_folder), "LOG": str(log)}.get(x, x) for x in command]
    more = ["--out", str(tmp_path / "run")] if "tune" in words else []
    assert run([*words, *more, "--report", str(out)]) == 0
    look(out.as_uri(), "other", tmp_path, tmp_path, "document.readyState === 'complete'")


def test_five_pages_of_the_site(tmp_path):
    pytest.importorskip("mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    subprocess.run(build, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    handler.log_message = lambda *a: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for page in ("index", "recipes", "studies/promise", "commands/compare", "python/compare"):
            (tmp_path / page.replace("/", "-")).mkdir()
            url = f"http://127.0.0.1:{server.server_address[1]}/{page}.html"
            scrolled = "[...document.querySelectorAll('.md-typeset__scrollwrap')].every(x => x.tabIndex === 0)"
            ready = f"document.readyState === 'complete' && {scrolled}"
            look(url, "site", tmp_path, tmp_path / page.replace("/", "-"), ready)
        server.shutdown()


@pytest.mark.parametrize("world", FILMS)
def test_a_film_of_each_world(world, log, kept):
    from PIL import Image

    what, more, frames = FILMS[world]
    out = kept / f"{world}.gif"
    more = [str(log) if x == "LOG" else x for x in more]
    assert run(["watch", what, *more, "--rows", str(frames), "--out", str(out), "--force"]) == 0
    with Image.open(out) as film:
        assert 5 < film.n_frames <= frames and out.stat().st_size < MOST
