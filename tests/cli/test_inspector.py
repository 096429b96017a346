"""`jobwise mcp` asked by a client that others wrote, the Model Context Protocol's own inspector, in Chromium.

`make pictures` installs it (npm) into build/inspector, and keeps the picture for the docs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest
from browser import Browser, executable
from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "live"))
from test_live import cluster  # noqa: E402, F401

INSPECTOR = ROOT / "build" / "inspector" / "node_modules" / ".bin" / "mcp-inspector"
PAGE, PROXY = 6274, 6277  # its page knows no other port of its proxy
BUTTON = "[...document.querySelectorAll('button,[role=tab]')].find(x => x.innerText.trim() === {})"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("sites"),
    pytest.mark.skipif(not INSPECTOR.exists(), reason="the inspector is not installed: `make pictures`"),
    pytest.mark.skipif(executable() is None, reason="no Chromium on this machine"),
]


@pytest.fixture
def inspector(cluster):  # noqa: F811
    """The inspector's address, while it runs beside a cluster's folder."""
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = os.environ | {"PATH": paths, "HOST": "127.0.0.1", "DANGEROUSLY_OMIT_AUTH": "true", "MCP_AUTO_OPEN_ENABLED": "false"}
    process = subprocess.Popen(
        [INSPECTOR], env=env, cwd=cluster.parent, text=True, start_new_session=True, stdout=-1, stderr=subprocess.STDOUT
    )
    try:
        for line in process.stdout:
            if "up and running" in line:
                break
        else:
            pytest.fail("the inspector did not start")
        yield f"http://127.0.0.1:{PAGE}/"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def press(browser, name):
    """Press a button as soon as it is there."""
    browser.until(f"!!{BUTTON.format(json.dumps(name))}", 60)
    events = "['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click']"
    browser.run(f"{events}.map(t => {BUTTON.format(json.dumps(name))}.dispatchEvent(new MouseEvent(t, {{bubbles: true}})))")


def test_the_inspector_lists_the_tools_and_asks_why_a_job_waits(inspector, cluster, tmp_path):  # noqa: F811
    browser = Browser(tmp_path / "profile", width=1360, height=1100)
    try:
        where = {"transport": "stdio", "serverCommand": "jobwise", "serverArgs": f"mcp --folder {cluster.name}"}
        browser.open(f"{inspector}?{urlencode(where)}")
        press(browser, "Connect")
        press(browser, "Tools")
        press(browser, "List Tools")
        tool = "[...document.querySelectorAll('span')].find(x => x.innerText === 'explain')"
        browser.until(f"!!{tool}", 60)
        browser.run(f"{tool}.click()")
        browser.until("!!document.querySelector('input[type=number]')")
        browser.run(
            "(() => { const x = document.querySelector('input[type=number]');"
            "Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(x, '9004');"
            "x.dispatchEvent(new Event('input', {bubbles: true})) })()"
        )
        press(browser, "Run Tool")
        browser.until("document.body.innerText.includes('Tool Result: Success')", 60)
        leaves = "[...document.querySelectorAll('*')].filter(x => !x.children.length && x.innerText)"
        why = f"{leaves}.find(x => x.innerText.includes('it is the next of its partition'))"
        assert browser.run(f"!!{why}")
        browser.run(f"{why}.scrollIntoView({{block: 'center'}})")
        if folder := os.environ.get("JOBWISE_PICTURES"):
            browser.picture(f"{folder}/mcp-inspector.png")
    finally:
        browser.close()
