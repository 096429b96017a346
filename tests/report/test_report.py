"""Reports: one file that needs nothing else, runs no script but its own, and works in a browser, light and dark, wide and narrow.

Modules: cli/watch.py, report/comparison.py, report/film.py, report/gantt.py, report/page.py, report/result.py,
report/sections.py.
"""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import Browser, executable
from conftest import missing

from jobwise.cli import run
from jobwise.compare.answer import answer
from jobwise.compare.procedure import compare
from jobwise.errors import InputError
from jobwise.report.comparison import result, write_report
from jobwise.report.export import assign_processors, begins
from jobwise.report.page import render
from jobwise.workloads.lublin import lublin


@pytest.fixture(scope="module")
def comparison():
    w = lublin(3000, 64, seed=2, load=0.9, estimates="users", users=12)
    return compare(w, ["fcfs+easy", "sjf+easy", "saf+easy+guard24h", "fcfs+conservative"], replicas=2, window_jobs=187)


@pytest.fixture(scope="module")
def page(comparison, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(comparison, path, day=1)
    return path


def scripts(text):
    """(what a browser runs, what it only reads) in a page."""
    found = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.S)
    return [x for how, x in found if not how], [x for how, x in found if how == ' type="application/json"'], len(found)


def scripts_are_ours(text):
    """Does the page run one script, which its own policy names by its hash?"""
    runs, reads, count = scripts(text)
    (script,) = runs
    key = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{key}'"
    return count == 1 + len(reads) and not Handlers(text).found


class Handlers(HTMLParser):
    """Attributes of a page that would run a script: onload and the like."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found += [name for name, _ in attributes if name.startswith("on")]


def test_a_report_is_one_file_that_fetches_nothing(comparison, page):
    text = page.read_text()
    assert text == render(result(comparison, day=1)) and scripts_are_ours(text)  # same input, same bytes
    for outside in ("<link", "src=", "@import", "url(http", "fetch(", "XMLHttpRequest", "import("):
        assert outside not in text.replace('xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    for sentence in answer(comparison):
        assert sentence in html.unescape(text)
    assert text.index("The trade-off</h2>") < text.index("The comparison</h2>") < text.index("What to do next</h2>")
    with pytest.raises(InputError, match="day 4000"):
        result(comparison, day=4000)
    with pytest.raises(InputError, match="no folder"):
        write_report(comparison, page.parent / "none" / "r.html")


def test_the_chart_is_the_schedule(comparison, page):
    """Each rectangle is a stretch of processors that its job holds; the days around the day are all there."""
    charts = [json.loads(x) for x in scripts(page.read_text())[1]]
    assert len(charts) == 2
    for chart, r in zip(charts, (comparison.records[0], comparison.records[chosen(comparison)]), strict=True):
        jobs, owner, first = chart["jobs"], assign_processors(r), begins(r)
        place, low, high = (np.array(x) for x in chart["boxes"])
        number = np.array(jobs["number"]) - 1
        assert chart["processors"] == 64 and chart["day"] == [86400.0, 172800.0] and chart["around"] == [0.0, 432000.0]
        near = (r.jobs["end"] > 0) & (r.jobs["start"] < 432000)
        assert set(number) == set(np.flatnonzero(near))
        assert np.array_equal(jobs["start"], np.rint(r.jobs["start"][number]).astype(int))
        for j in np.flatnonzero(near):
            own = [np.arange(a, b) for a, b in zip(low[number[place] == j], high[number[place] == j], strict=True)]
            assert np.array_equal(np.sort(np.concatenate(own)), owner[first[j] : first[j + 1]])
        users = r.jobs["user"][number]
        assert [chart["users"][k] for k in jobs["user"]] == [str(x) for x in users]


def chosen(c):
    return min(range(len(c.policies)), key=lambda p: c.whole[p]["bounded_slowdown"])


@pytest.mark.cli
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_in_chromium(page, tmp_path, width, dark):
    if not executable():
        missing("no Chromium on this machine")
    b = Browser(tmp_path / "profile", width, 900, dark)
    try:
        b.open(page.as_uri())
        b.until("document.querySelectorAll('figure.drawn canvas').length === 2")
        wide = "[...document.querySelectorAll('body *')].filter(x => !x.closest('.wide') && x.getBoundingClientRect().right > innerWidth + 1)"
        assert b.run(f"{wide}.length") == 0 and b.run("document.documentElement.scrollWidth") <= width
        assert b.run("document.querySelectorAll('section').length") == 12
        assert (
            b.run("document.querySelectorAll('details').length") == 9
            and b.run("document.querySelectorAll('details[open]').length") == 0
        )
        assert b.run("document.querySelector('figure').getBoundingClientRect().top") < 900  # the plot is on the first screen
        b.run("document.querySelectorAll('details').forEach(x => { x.open = true; })")
        b.until("[...document.querySelectorAll('figure.chart canvas')].every(x => x.width > 100)")
        flat = (
            "[...document.querySelectorAll('figure:not(.chart) svg')].filter(x => x.getBoundingClientRect().height < 40).length"
        )
        assert b.run("document.querySelectorAll('svg').length") == 10 and b.run(flat) == 0
        light = b.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, x) => a + Number(x), 0)")
        assert (light < 200) == dark
        if width > 400:  # heads of tables are not shown on a phone
            cells = "[...document.querySelectorAll('table')[0].tBodies[0].rows].map(r => parseFloat(r.cells[1].textContent))"
            click = "document.querySelectorAll('table')[0].tHead.rows[0].cells[1].querySelector('button').click()"
            before = b.run(cells)
            b.run(click)
            assert b.run(cells) == sorted(before) != before
            b.run(click)
            assert b.run(cells) == sorted(before, reverse=True)
        told = "document.querySelector('figure.chart .job').textContent"
        assert b.run(told).startswith("Point at a job")
        b.run(POINT)
        assert re.match(
            r"Job \d+ of user \d+: \d+ processors?, submitted day \d+, \d\d:\d\d, waited .*, ran .* requested\.", b.run(told)
        )
        colours = "(() => { const c = document.querySelector('figure.chart canvas'); return c.toDataURL().length; })()"
        shown = b.run(colours)
        b.run(
            "document.querySelector('figure.chart select').value = 'user'; document.querySelector('figure.chart select').dispatchEvent(new Event('change'))"
        )
        assert b.run(colours) != shown
        b.run("[...document.querySelectorAll('figure.chart button')].find(x => x.textContent === 'Zoom in').click()")
        assert b.run(colours) != shown
        assert b.errors == []
    finally:
        b.close()


POINT = """(() => { const c = document.querySelector('figure.chart canvas'), box = c.getBoundingClientRect();
  for (let x = 80; x < box.width - 20; x += 7) for (let y = 12; y < box.height - 30; y += 7) {
    c.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + x, clientY: box.top + y, bubbles: true}));
    if (document.querySelector('figure.chart .job').textContent.startsWith('Job')) return; } })()"""


@pytest.mark.slow
def test_a_report_of_a_large_log_is_small(tmp_path):
    w = lublin(500_000, 1024, seed=2, load=0.95, estimates="users", users=400)
    c = compare(w, ["fcfs+easy", "sjf+easy", "saf+easy+guard24h"], replicas=1)
    write_report(c, tmp_path / "large.html")
    assert (tmp_path / "large.html").stat().st_size < 5e6


def test_what_to_do_next_can_be_typed(comparison):
    """Each command that a report proposes has the options that it names."""
    steps = result(comparison).steps
    assert any("--max-wait 1.2x" in x for x in steps)
    for step in steps:
        words = re.search(r"jobwise (\w[\w-]*(?: site)?)", step)
        if words:
            assert run([*words[1].split(), "--help"]) == 0
    named = result(comparison).naming(LOG="my log.swf", RUN=None).steps
    assert any("'my log.swf' --choice 100" in x for x in named) and not any("LOG" in x for x in named)


def test_a_film_of_a_log(tmp_path, capsys):
    from PIL import Image

    log = tmp_path / "log.swf"
    assert run(["trace", "generate", str(log), "--jobs", "600", "--procs", "64", "--load", "0.9"]) == 0
    out = tmp_path / "film.gif"
    assert run(["watch", "saf+easy", "--log", str(log), "--day", "1", "--rows", "6", "--out", str(out)]) == 0
    with Image.open(out) as film:
        assert film.n_frames == 6 and film.size[0] > 500
    capsys.readouterr()
    assert run(["watch", "saf+easy", "--out", str(tmp_path / "b.gif")]) == 2 and "--log" in capsys.readouterr().err
    assert run(["watch", "saf+easy", "--log", str(log), "--day", "900", "--out", str(tmp_path / "b.gif")]) == 2
    assert "day 900 is not in the log" in capsys.readouterr().err and not (tmp_path / "b.gif").exists()


def test_the_axis_of_learning_curves_says_what_was_measured():
    """Names of the runs stand in the legend alone."""
    from jobwise.report.figures import convergence

    svg = convergence({"SEM": [[0.1, 0.2], [0.2, 0.3]]}, "mean reward")
    (axis,) = (line for line in svg.splitlines() if "rotate(-90" in line and "</text>" in line)
    assert ">mean reward</text>" in axis and svg.count("SEM (2 seeds)</text>") == 1
