"""The site of docs: it is built without a warning, every link and every public name leads somewhere, nothing is fetched.

Modules: cli/later.py.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from conftest import ROOT

import jobwise as jw

pytestmark = pytest.mark.docs
pytest.importorskip("mkdocs", reason="mkdocs-material and mkdocstrings build the site: pip install 'jobwise[dev-all]'")
MOST_LINES = 400  # of a page


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], {"", "__top"}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.anchors |= {of[key] for key in ("id", "name") if of.get(key)}
        if tag == "a" and of.get("href"):
            self.links.append(of["href"])
        if tag in ("script", "img", "iframe", "source") and of.get("src"):
            self.loads.append(of["src"])
        if tag == "link" and of.get("rel") != "canonical" and of.get("href"):
            self.loads.append(of["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return {page.relative_to(folder).as_posix(): Page(page.read_text()) for page in folder.rglob("*.html")}, folder


def test_every_link_of_the_site_leads_somewhere(site):
    pages, folder = site
    assert len(pages) > 80
    for name, page in pages.items():
        if name == "404.html":
            continue  # it is shown at any address
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (folder / name).parent / unquote(parts.path) if parts.path else folder / name
            target = Path(os.path.normpath(target))
            if target.is_dir():
                target /= "index.html"
            assert target.exists(), f"{name} links to {link}"
            if parts.fragment and target.suffix == ".html":
                anchors = pages[target.relative_to(folder).as_posix()].anchors
                assert unquote(parts.fragment) in anchors, f"{name} links to {link}"


def test_the_site_loads_nothing_from_elsewhere(site):
    for name, page in site[0].items():
        for source in page.loads:
            assert not urlsplit(source).netloc, f"{name} loads {source}"


def test_every_public_name_is_in_the_reference(site):
    pages, folder = site
    reference = "\n".join((folder / name).read_text() for name in pages if name.startswith("python/"))
    for name in jw.__all__:
        assert f"<code>jobwise.{name}</code>" in reference, name
        assert f"jobwise.{jw._WHERE[name]}.{jw._CALLED.get(name, name)}" in reference, name


def test_every_command_is_in_the_reference(site):
    from jobwise.cli.main import app

    for name, command in app.commands.items():
        page = (site[1] / "commands" / f"{name}.html").read_text()
        for part in getattr(command, "commands", {"": command}).values():
            for p in part.params:
                for word in [x for x in p.opts if x.startswith("--")]:
                    assert word in page, (name, word)


def test_no_page_is_long_and_each_has_a_place():
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:")[1]
    for page in (ROOT / "docs").rglob("*.md"):
        own = page.relative_to(ROOT / "docs").as_posix()
        assert len(page.read_text().split("\n")) <= MOST_LINES, own
        assert re.search(rf"- {re.escape(own)}\n", nav) or own.startswith("studies/pieces/"), own


def test_the_manual_page_is_of_this_command_line():
    sys.path.insert(0, str(ROOT / "tools"))
    import man_page

    assert man_page.PAGE.read_text() == man_page.text(), "python tools/man_page.py"
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-l", str(man_page.PAGE)], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr and "jobwise compare" in done.stdout


def test_the_shell_completes_commands():
    own = os.environ | {"_JOBWISE_COMPLETE": "complete_bash", "COMP_WORDS": "jobwise comp", "COMP_CWORD": "1"}
    done = subprocess.run([Path(sys.executable).parent / "jobwise"], env=own, capture_output=True, text=True)
    assert done.stdout.split() == ["compare"], done
