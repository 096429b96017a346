"""A Ray cluster of two machines while parts of it are killed: do commands end with the same bytes?

python -m benchmarks.chaos [--runs 50]     # writes benchmarks/CHAOS.md; 0 where all runs end with the same bytes, 1 where not

Two network namespaces joined by a pair of virtual cables are two machines: a head and a worker, with tokens. In each run a
training (two collectors, two actors) or a comparison is begun there, and at a random moment something is killed (kill -9): a
worker, a raylet, or the driver. What has ended is begun again, as a site's init, Slurm or Kubernetes would: nodes, and the same
command (`train` with --resume). It needs root and `ip`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

from benchmarks.markdown import table
from jobwise.report.sections import made
from jobwise.workloads.lublin import lublin
from jobwise.workloads.swf import write_swf

HERE = Path(__file__).parent
HEAD, WORKER = ("jw-head", "10.77.0.1"), ("jw-work", "10.77.0.2")
PORT, PATIENCE_S = 6399, 300.0
KILLS = ("worker", "raylet", "driver")
NOT_WORKERS = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
WHEN_S = {"train": (1.0, 14.0), "compare": (1.0, 5.0)}  # after which something is killed
TRAIN = ("train", "perjob", "log.swf", "--preset", "smoke", "--choices", "60000", "--collectors", "2", "--threads", "1")
COMPARE = ("compare", "log.swf", "-p", "fcfs+easy", "-p", "sjf+easy", "-p", "wfp3+easy", "-p", "smith+easy", "--json")


def ip(*words: str, check: bool = True) -> None:
    """Run a command of iproute2."""
    subprocess.run(["ip", *words], check=check, capture_output=not check)


def machines() -> None:
    """Make the two namespaces, and the cable between them."""
    gone()
    for name, _ in (HEAD, WORKER):
        ip("netns", "add", name)
    ip("link", "add", "jw0", "netns", HEAD[0], "type", "veth", "peer", "name", "jw1", "netns", WORKER[0])
    for (name, address), device in ((HEAD, "jw0"), (WORKER, "jw1")):
        ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
        for each in (device, "lo"):
            ip("-n", name, "link", "set", each, "up")


def gone() -> None:
    """Take the namespaces away."""
    for name, _ in (HEAD, WORKER):
        ip("netns", "del", name, check=False)


class Cluster:
    """The nodes of Ray, begun and begun again."""

    def __init__(self, folder: Path):
        self.folder, self.nodes = folder, dict[str, subprocess.Popen]()
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
        self.env = os.environ | token | {"JOBWISE_ANNOUNCE": "0", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def start(self) -> None:
        """Begin what is not there: the head, or the worker. With a new head all is new."""
        head, worker = (self.nodes.get(x) for x in ("head", "worker"))
        if head is None or head.poll() is not None:
            self.stop()
            self._begin("head", HEAD, "--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={self.folder}/ray")
            address = f"{HEAD[1]}:{PORT}"
            for _ in range(60):
                if not self.inside(HEAD, "ray", "health-check", "--address", address).wait():
                    break
                time.sleep(0.5)
            worker = None
        if worker is None or worker.poll() is not None:
            self._begin("worker", WORKER, f"--address={HEAD[1]}:{PORT}")

    def _begin(self, name: str, where: tuple[str, str], *words: str) -> None:
        same = ("ray", "start", "--block", f"--node-ip-address={where[1]}", "--num-cpus=1")
        self.nodes[name] = self.inside(where, *same, *words)

    def inside(self, where: tuple[str, str], *words: str, out: Path | None = None) -> subprocess.Popen:
        """A command in a namespace, in a session of its own."""
        with open(out or os.devnull, "wb") as file:
            return subprocess.Popen(
                ["ip", "netns", "exec", where[0], *words],
                cwd=self.folder, env=self.env, stdout=file, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """End all that runs in the namespaces."""
        for pid in inside():
            kill(pid)
        for node in self.nodes.values():
            node.wait()
        self.nodes.clear()


def inside() -> list[int]:
    """The processes in the namespaces: no others are killed."""
    asked = (["ip", "netns", "pids", name] for name, _ in (HEAD, WORKER))
    done = [subprocess.run(words, capture_output=True, text=True, check=False).stdout for words in asked]
    return [int(x) for text in done for x in text.split()]


def kill(pid: int) -> None:
    """Kill a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def victims(what: str, driver: subprocess.Popen) -> list[int]:
    """The processes of a kind, in both namespaces."""
    if what == "driver":
        return [driver.pid]
    there = []
    for pid in inside():
        with suppress(psutil.Error):
            line = " ".join(psutil.Process(pid).cmdline())
            is_raylet = line.split(" ")[0].endswith("/raylet")
            is_worker = line.startswith("ray::") and not line.startswith(NOT_WORKERS)
            if is_raylet if what == "raylet" else is_worker:
                there.append(pid)
    return there


def digest(folder: Path, work: str) -> str:
    """What a command has left, in eight digits."""
    names = ["run/metrics.jsonl", "run/policy.safetensors"] if work == "train" else ["out.json"]
    return hashlib.sha256(b"".join((folder / n).read_bytes() for n in names)).hexdigest()[:8]


def one(cluster: Cluster, work: str, what: str, after: float, rng: np.random.Generator) -> tuple[str, int, float, bool]:
    """(digest, how often the command was begun, s, was anything killed) of a run in which `what` is killed after so many s."""
    folder, began, starts, killed = cluster.folder, time.monotonic(), 0, False
    shutil.rmtree(folder / "run", ignore_errors=True)
    while True:
        cluster.start()
        words = [*TRAIN, "--out", "run", "--resume"] if work == "train" else list(COMPARE)
        words += ["--executor", f"ray:{HEAD[1]}:{PORT}"]
        driver, starts = cluster.inside(HEAD, "jobwise", *words, out=folder / "out.json"), starts + 1
        while driver.poll() is None:
            time.sleep(0.1)
            if time.monotonic() - began > PATIENCE_S:
                raise SystemExit(f"{work}, {what} after {after:.1f} s: has not ended in {PATIENCE_S:.0f} s")
            if not killed and time.monotonic() - began > after and (there := victims(what, driver)):
                kill(there[int(rng.integers(len(there)))])
                killed = True
            if cluster.nodes["worker"].poll() is not None and cluster.nodes["head"].poll() is None:
                cluster.start()  # without the head the driver ends by itself
        if driver.returncode == 0:
            return digest(folder, work), starts, time.monotonic() - began, killed
        if starts > 5:
            raise SystemExit(f"{work}, {what}: ended five times with {driver.returncode}")


def write_page(rows: list[list[str]], total: int, expected: dict[str, str]) -> None:
    """Write benchmarks/CHAOS.md of the runs so far."""
    text = [
        "# Chaos",
        f"{made(f'python -m benchmarks.chaos --runs {len(rows)}')}.",
        "A head and a worker of Ray in two network namespaces joined by veth, tokens on; in each run something is killed "
        "(kill -9) at a random moment. Nodes and the command are begun again where they have ended, `train` with `--resume`.",
        f"**{total} of {len(rows)} runs ended with the bytes of an undisturbed run in threads** "
        f"(train {expected['train']}, compare {expected['compare']}).",
        "\n".join(table(["run", "command", "killed", "after s", "begun", "s in all", "result"], rows)),
    ]
    (HERE / "CHAOS.md").write_text("\n\n".join(text) + "\n")


def main() -> int:
    """Run, and write the page; 1 where bytes differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    runs = parser.parse_args().runs
    if os.geteuid() or not shutil.which("ip"):
        print("chaos: skipped, it needs root and ip (iproute2)", file=sys.stderr)
        return 0
    rng, rows, total = np.random.default_rng(1), list[list[str]](), 0
    with tempfile.TemporaryDirectory(prefix="jw", dir="/tmp") as place:
        cluster = Cluster(Path(place))
        write_swf(lublin(6_000, 64, seed=3, load=0.9), f"{place}/log.swf")
        expected = {}
        for work, words in (("train", [*TRAIN, "--out", "run"]), ("compare", list(COMPARE))):
            with open(f"{place}/out.json", "wb") as file:
                jobwise = [sys.executable, "-m", "jobwise.cli"]
                subprocess.run([*jobwise, *words], cwd=place, env=cluster.env, stdout=file, check=True)
            expected[work] = digest(Path(place), work)
        try:
            machines()
            for k in range(runs):
                work, what = ("train", "compare")[k % 2], KILLS[k // 2 % 3]
                after = float(rng.uniform(*WHEN_S[work]))
                got, starts, took, killed = one(cluster, work, what, after, rng)
                total += got == expected[work]
                whom = what if killed else "nothing: it had ended"
                rows.append([str(k + 1), work, whom, f"{after:.1f}", str(starts), f"{took:.0f}", got])
                print(*rows[-1], got == expected[work], flush=True)
                write_page(rows, total, expected)
        finally:
            cluster.stop()
            gone()
    return 0 if total == runs else 1


if __name__ == "__main__":
    sys.exit(main())
