"""Chromium, driven by its own protocol through a pipe: pages, scripts in them, what the console says, screenshots."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path


def executable():
    """Chromium's path; None: there is none."""
    return next((x for x in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if x), None)


class Browser:
    """One tab. `errors`: what its console complained of so far."""

    def __init__(self, folder, width=1280, height=900, dark=False):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        flags += [f"--user-data-dir={folder}", f"--window-size={width},{height}", "--no-first-run"]

        def pipes():  # Chromium reads from 3 and writes to 4
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self._process = subprocess.Popen(
            [executable(), *flags, "about:blank"], preexec_fn=pipes, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._rest, self._count, self.errors, self._session = b"", 0, [], None
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self._ask(f"{domain}.enable")
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", features=theme)

    def _ask(self, method, **params):
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                read = os.read(self._from, 1 << 16)
                assert read, "Chromium has ended"
                self._rest += read
            line, _, self._rest = self._rest.partition(b"\0")
            x = json.loads(line)
            if x.get("id") == self._count:
                assert "error" not in x, x
                return x["result"]
            self._noted(x)

    def _noted(self, x):
        if x.get("method") == "Runtime.exceptionThrown":
            self.errors.append(x["params"]["exceptionDetails"].get("exception", {}).get("description", "exception"))
        if x.get("method") == "Log.entryAdded" and x["params"]["entry"]["level"] == "error":
            self.errors.append(x["params"]["entry"]["text"] + " " + x["params"]["entry"].get("url", ""))

    def open(self, url):
        """Go to a page."""
        self._ask("Page.navigate", url=url)

    def run(self, script):
        """The value of an expression in the page; promises are awaited."""
        out = self._ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in out, out["exceptionDetails"]
        return out["result"].get("value")

    def until(self, script, seconds=10.0):
        """Wait until an expression holds; how long it took (s)."""
        begun = time.monotonic()
        while not self.run(script):
            assert time.monotonic() - begun < seconds, f"{script} does not hold after {seconds} s"
            time.sleep(0.02)
        return time.monotonic() - begun

    def picture(self, file, height=None):
        """Save the page as PNG, whole or its first rows."""
        size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        out = self._ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        Path(file).write_bytes(base64.b64decode(out["data"]))

    def close(self):
        """End Chromium."""
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
