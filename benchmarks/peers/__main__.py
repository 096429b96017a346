"""Other simulators beside this one: the same log, the same rule, schedules compared job by job, and speed.

python -m benchmarks.peers [--checkouts FOLDER] [--jobs N]      writes benchmarks/PEERS.md; nothing in it is typed by hand

Each peer of `peers.toml` runs in an environment of its own (build/peers), under a Python that it still works with; its checkout
is FOLDER/NAME, or is cloned. A peer that does not install or run is named with the reason.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.markdown import table
from jobwise import metrics
from jobwise.policies.names import resolve
from jobwise.record import Record
from jobwise.report.sections import made
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.lublin import lublin
from jobwise.workloads.swf import read_swf, write_swf
from jobwise.workloads.transform import first

HERE = Path(__file__).parent
WORK = HERE.parent.parent / "build" / "peers"
JOBS, PROCESSORS, USERS, LOAD, SEED = 5_000, 256, 60, 0.9, 1
COLUMNS = ("peer", "its rule", "ours", "estimates", "jobs", "starts equal", "its mean", "our mean")
COLUMNS += ("its jobs/s", "our jobs/s", "where they differ")
LIMIT_S = 900.0  # of a run
TIMED = 5  # runs of ours, of which the fastest counts, for they are short


class Absent(Exception):
    """A peer does not run here, and why."""


@dataclass(frozen=True)
class Peer:
    """A peer that is installed: the command that runs its driver, and its checkout."""

    command: list[str]
    folder: Path

    def run(self, name: str, log: Path, rule: str, jobs: int) -> tuple[float, np.ndarray]:
        """Return (s, start of each job [J]). Raises Absent."""
        out = WORK / f"{name}.out"
        out.unlink(missing_ok=True)
        driver = HERE / "drivers" / f"{name}.py"
        arguments = [*self.command, str(driver), str(self.folder), str(log), str(PROCESSORS), rule, str(out)]
        _ran(arguments, LIMIT_S)
        if not out.exists():
            raise Absent(f"{rule}: it wrote no schedule")
        head, *rows = out.read_text().split("\n")
        start = np.full(jobs, np.nan)
        for row in filter(None, rows):
            job, when = row.split()
            start[int(job) - 1] = float(when)
        return float(head.split()[1]), start


def _ran(arguments: list[str], limit: float) -> None:
    """Run a command. Raises Absent where it takes too long, or fails."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=limit, errors="replace")
    except subprocess.TimeoutExpired:
        raise Absent(f"it took longer than {limit:.0f} s") from None
    except OSError as error:
        raise Absent(str(error)) from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Absent(said[-1][:200] if said else f"exit code {done.returncode}")


def interpreter(versions: list[str]) -> str:
    """Return the path of the first of several Pythons that is at hand. Raises Absent."""
    own = Path.home() / ".pyenv" / "versions"
    for version in versions:
        for python in (*sorted(str(p) for p in own.glob(f"{version}.*/bin/python{version}")), shutil.which(f"python{version}")):
            if python:
                return python
    raise Absent(f"none of Python {', '.join(versions)} is at hand")


def install(peer: dict[str, Any], checkouts: Path | None) -> Peer:
    """Return the peer, installed. Raises Absent."""
    if "absent" in peer:
        raise Absent(peer["absent"])
    python = interpreter(peer["pythons"])
    folder = (checkouts or WORK) / peer["name"]
    if peer["source"].startswith("https:") and not folder.exists():
        folder = WORK / peer["name"]
        if not folder.exists():
            _ran(["git", "clone", "--quiet", "--depth", "1", peer["source"], str(folder)], LIMIT_S)
    if peer["packages"]:
        place = WORK / f"env-{peer['name']}"
        if not (place / "ready").exists():
            _ran([python, "-m", "venv", str(place)], LIMIT_S)
            _ran([str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *peer["packages"]], LIMIT_S)
            (place / "ready").touch()
        python = str(place / "bin" / "python")
    return Peer([python], folder)


def _ours(w: Workload, name: str, single: bool) -> tuple[float, Record]:
    """(s, record) of our own schedule under the conventions of a peer."""
    policy, least = resolve(name), np.inf
    for _ in range(TIMED + 1):  # the first compiles
        begun = time.perf_counter()
        r = simulate(w, policy, single_events=single)
        least = min(least, time.perf_counter() - begun)
    return least, r


def _slowdown(r: Record, start: np.ndarray) -> float:
    return float(metrics.bounded(start + r.runtime - r.jobs["submit"], r.runtime).mean())


def _log(jobs: int, exact: bool) -> tuple[Workload, Path]:
    """The first jobs of the log, as both sides read them, and their file."""
    file = WORK / f"{jobs}{'-exact' * exact}.swf"
    write_swf(
        first(lublin(JOBS, PROCESSORS, load=LOAD, estimates="exact" if exact else "users", users=USERS, seed=SEED), jobs),
        str(file),
    )
    return read_swf(file), file


def _row(peer: dict[str, Any], installed: Peer, rule: list[str], jobs: int) -> list[str]:
    """A line of the table of schedules."""
    theirs, ours, known, *exact = rule
    w, log = _log(jobs, bool(exact))
    how = "run times" if exact else "users'"
    ours_s, r = _ours(w, ours, peer.get("single", False))
    try:
        seconds, start = installed.run(peer["name"], log, theirs, len(w))
    except Absent as why:
        return [peer["name"], theirs, f"`{ours}`", how, f"{len(w):,}", f"did not run: {why}", "", "", "", ""]
    start = start - np.nanmin(start) + np.nanmin(r.jobs["start"])  # some count time from elsewhere
    same = np.isclose(start, r.jobs["start"], atol=0.5)
    other = "" if same.all() else known or "not explained"
    means = [f"{_slowdown(r, start):,.2f}" if not np.isnan(start).any() else "", f"{_slowdown(r, r.jobs['start']):,.2f}"]
    speed = [f"{len(w) / x:,.0f}" for x in (seconds, ours_s)]
    return [peer["name"], theirs, f"`{ours}`", how, f"{len(w):,}", f"{same.mean():.1%}", *means, *speed, other]


def main() -> None:
    """Run all peers, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", type=Path, help="a folder with a checkout of each peer, by its name")
    parser.add_argument("--jobs", type=int, default=JOBS, help="the first jobs of the log (some peers take fewer)")
    asked = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    peers = tomllib.loads((HERE / "peers.toml").read_text())["peer"]
    rows, about = [], []
    for peer in peers:
        print(f"peers: {peer['name']}", file=sys.stderr, flush=True)
        state = "ran"
        try:
            installed = install(peer, asked.checkouts)
            for rule in peer["rules"]:
                print(f"peers: {peer['name']}: {rule[0]}", file=sys.stderr, flush=True)
                rows.append(_row(peer, installed, rule, min(peer.get("jobs", asked.jobs), asked.jobs)))
            if not any(x[5].endswith("%") for x in rows if x[0] == peer["name"]):
                state = "did not run"
        except Absent as why:
            state = f"did not run: {why}"
        source = (
            f"[{peer['name']}]({peer['source']})"
            if peer["source"].startswith("https:")
            else f"{peer['name']} ({peer['source']})"
        )
        about.append([source, peer["about"], ", ".join(peer["has"]), peer["licence"], state])
    text = [
        "# Peers", "", made("python -m benchmarks.peers"), "",
        f"One generated log ({PROCESSORS} processors, {LOAD:g} offered load, {USERS} users), the same rule on both sides, "
        "starts compared job by job (to half a second). Means: bounded slowdown. Speed: jobs per second of one core, their "
        "readers and writers left out where they can be, ours the fastest of several runs after compiling.", "",
        *table(COLUMNS, rows), "", "## Who they are", "",
        *table(["peer", "", "it has", "licence", "here"], about), "",
    ]  # fmt: skip
    (HERE.parent / "PEERS.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
