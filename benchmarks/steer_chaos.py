"""Steering a real Slurm while all goes wrong: are jobs lost, held or starved? Is every write explained, and all given back?

python -m benchmarks.steer_chaos [--faults 200] [--trial]     # writes STEER_CHAOS.md (…_TRIAL.md); 0 where all holds

On a private cluster of emulated nodes jobs come all the time, and `jobwise slurm steer` decides their order alone, begun again
whenever it ends. At random moments one thing after another goes wrong for a second or more: the bridge is killed (kill -9);
slurmctld is ended and started again (by SIGTERM: with kill -9 Slurm itself loses jobs of the last seconds); a command hangs,
fails, prints half, nonsense, lies, or 30 MB of them; the disk of the state folder is full; the clock jumps by hours; the policy
raises. Small programs before Slurm's own in the PATH do it, and write down every change that is handed to scontrol. With
`--trial` jobs whose users said yes run in gaps, with shortened limits; some run for longer than their gaps.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.check_slurm import ACCOUNT, BATCH, FAST, _nodes
from benchmarks.markdown import table
from benchmarks.slurm_cluster import PATHS, Cluster, folder_for, skipped
from benchmarks.steer_order import WEIGHTS
from jobwise.report.sections import made
from jobwise.slurm.client import limited_of

CONF, PORT, RATE, WITNESSES = [*_nodes(last=8), *BATCH, "SelectTypeParameters=CR_Core", *WEIGHTS, FAST], 28_300, 2.0, 40
LAUNCH = """
import sys, time
from pathlib import Path
chaos, real = Path(sys.argv.pop(1)), time.time
def clock():
    try: return real() + float((chaos / "clock").read_text())
    except (OSError, ValueError): return real()
time.time = clock
from jobwise.live.wishes import Wishes
ranked = Wishes.order.fget
def order(wishes):
    if (chaos / "policy").exists(): raise ValueError("chaos")
    return ranked(wishes)
Wishes.order = property(order)
from jobwise.cli import main
main()
"""
WRAPPER = """#!/bin/sh
mode=$(cat CHAOS/NAME 2>/dev/null)
case "$mode" in
hang) sleep 4;;
fail) echo "chaos" >&2; exit 1;;
cut) SLURM "$@" | head -c 700; exit 0;;
nonsense) echo '{"jobs": [[[['; echo 'x|y|z'; exit 0;;
lie) echo '{"jobs": [{"job_id": 4711, "job_state": "PENDING", "time_limit": -5, "submit_time": 9e30, "cpus": -3}]}'
  echo '4711|-5|99999999999'; exit 0;;
huge) head -c 30000000 /dev/zero | tr '\\0' '['; exit 0;;
esac
MORE
exec SLURM "$@"
"""
COMMANDS = ("squeue", "sprio", "sacct", "scontrol")
MODES = ("hang", "fail", "cut", "nonsense", "lie", "huge")


class Chaos:
    """A cluster, a bridge to it, and all that may go wrong."""

    def __init__(self, base: Path, cluster: Cluster, rng: np.random.Generator, trial: bool = False):
        self.base, self.cluster, self.rng, self.trial = base, cluster, rng, trial
        self.chaos, self.bin, self.state = base / "chaos", base / "bin", base / "state"
        for folder in (self.chaos, self.bin, self.state):
            folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(self.state)], check=True)
        for name in COMMANDS:
            more = f'if [ -z "$1" ]; then tee -a {self.chaos}/writes | /usr/bin/{name}; exit; fi' if name == "scontrol" else ""
            script = WRAPPER.replace("CHAOS", str(self.chaos)).replace("NAME", name).replace("MORE", more)
            (self.bin / name).write_text(script.replace("SLURM", f"/usr/bin/{name}"))
            (self.bin / name).chmod(0o755)
        self.bridge: subprocess.Popen | None = None
        self.ids: list[int] = []
        self.ends: Counter[int] = Counter()

    def alive(self) -> None:
        """Begin the bridge, if it has ended."""
        if self.bridge and self.bridge.poll() is None:
            return
        if self.bridge:
            self.ends[self.bridge.returncode] += 1
        words = ["slurm", "steer", "--state", str(self.state), "-p", "sjf", "--span", "0", "--every", "1s"]
        words += ["--trial", "comment=trial"] if self.trial else []
        env = self.cluster.env | {"PATH": f"{self.bin}:{PATHS}", "JOBWISE_ANNOUNCE": "0"}
        with open(self.base / "bridge.log", "ab") as log:
            command = [sys.executable, "-c", LAUNCH, str(self.chaos), *words]
            self.bridge = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def submit(self, *more: str) -> None:
        """Submit a job; again where slurmctld is away."""
        words = ["-n", str(int(self.rng.choice([1, 2, 4, 8]))), "-t", str(int(self.rng.integers(1, 10))), "-o", "/dev/null"]
        longest = 110.0 if self.trial and self.rng.random() < 0.15 else 8.0
        words += ["--comment", "trial"] if self.trial else []
        words = [*words, "--wrap", f"sleep {self.rng.uniform(1, longest):.1f}"] if not more else list(more)
        try:
            self.ids.append(int(self.cluster.run("sbatch", "--parsable", *words).split(";")[0]))
        except RuntimeError:
            return

    @contextmanager
    def fault(self, kind: str) -> Iterator[None]:
        """Something is wrong while within."""
        file: Path | None = None
        if kind == "bridge killed" and self.bridge:
            self.bridge.send_signal(signal.SIGKILL)
            self.bridge.wait()
        elif kind == "slurmctld ended":
            daemon = next(d for d in reversed(self.cluster.daemons) if d.args[0] == "slurmctld")  # type: ignore[index]
            daemon.terminate()
            daemon.wait()
        elif kind == "disk full":
            file = self.state / "full"
            subprocess.run(["dd", "if=/dev/zero", f"of={file}", "bs=4k"], capture_output=True)
        elif kind == "clock":
            file = self.chaos / "clock"
            file.write_text(str(float(self.rng.choice([-90_000.0, -3600.0, 3600.0, 1e7]))))
        elif kind == "policy":
            file = self.chaos / "policy"
            file.touch()
        else:
            name, mode = kind.split(" ")
            file = self.chaos / name
            file.write_text(mode)
        yield
        if file:
            file.unlink()
        if kind == "slurmctld ended":
            self.cluster._background("slurmctld", "-D")

    def lost(self) -> list[int]:
        """Jobs that did not run to their end."""
        rows = self.cluster.run("sacct", "-a", "-X", "-P", "-n", "-o", "JobIDRaw,State").split()
        ended = {int(id) for id, state in (r.split("|") for r in rows) if state == "COMPLETED"}
        return [id for id in self.ids if id not in ended]

    def unexplained(self) -> int:
        """Factors that scontrol was handed and that no line of the audit log explains."""
        lines = [json.loads(x) for x in (self.state / "audit.jsonl").read_text().splitlines()]
        known = {(x["job"], f"SiteFactor={x['new']}") for x in lines if x["what"] == "write" and x.get("why")}
        known |= {(x["job"], x["act"]) for x in lines if x["what"] == "trial" and x.get("why")}
        written = [x.split(" ", 2) for x in (self.chaos / "writes").read_text().splitlines() if x.startswith("update")]
        pairs = [(int(job.split("=")[1]), change.strip()) for _, job, change in written]
        self.written, self.tried = len(pairs), sum("Time" in change for _, change in pairs)
        return sum(p not in known for p in pairs)

    def put_back(self) -> int:
        """How often a job was put back into the queue."""
        rows = self.cluster.run("sacct", "-a", "-X", "-D", "-P", "-n", "-o", "JobIDRaw,State").split()
        return sum("REQUEUED" in r for r in rows)

    def shortened(self) -> int:
        """Jobs that have another limit than their own, or a least one."""
        jobs = [limited_of(x) for x in json.loads(self.cluster.run("squeue", "--json"))["jobs"]]
        return sum(j.least > 0 and j.state == "PENDING" for j in jobs)


def main() -> int:
    """Run it, and write the page; 0 also where Slurm is absent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--trial", action="store_true", help="with trial runs")
    given = parser.parse_args()
    if skipped("steer_chaos"):
        return 0
    base, rng = folder_for("steer-chaos"), np.random.default_rng(0)
    cluster = Cluster(base / "cluster", PORT, [*CONF, *(["OverTimeLimit=10"] if given.trial else [])])
    kinds = ["bridge killed", "slurmctld ended", "disk full", "clock", "policy"] * 4
    kinds += [f"{name} {mode}" for name in COMMANDS for mode in MODES]
    drawn = [str(x) for x in rng.permutation([kinds[k % len(kinds)] for k in range(given.faults)])]
    chaos = None
    try:
        cluster.start(ACCOUNT)
        chaos = Chaos(base, cluster, rng, given.trial)
        held = run(chaos, drawn)
        text, good = judged(chaos, drawn, held)
    finally:
        if chaos:
            if chaos.bridge:
                chaos.bridge.kill()
            subprocess.run(["umount", str(chaos.state)], check=False)
        cluster.stop()
    name = "STEER_CHAOS_TRIAL.md" if given.trial else "STEER_CHAOS.md"
    (Path(__file__).parent / name).write_text("\n".join(text) + "\n")
    print("\n".join(text))
    return int(not good)


def run(chaos: Chaos, drawn: list[str]) -> set[int]:
    """Let everything go wrong, in turn; returns the jobs that were ever seen held."""
    held: set[int] = set()

    def go_on(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if chaos.rng.random() < 0.2 * RATE:
                chaos.submit()
            chaos.alive()
            time.sleep(0.2)

    go_on(15.0)
    for n, kind in enumerate(drawn):
        with chaos.fault(kind):
            go_on(float(chaos.rng.uniform(0.5, 2.5)))
        go_on(float(chaos.rng.uniform(0.0, 1.5)))
        out = chaos.cluster.run("squeue", "-h", "-t", "pending", "-o", "%i|%r", check=False).split()
        held |= {int(x.split("|")[0].split("_")[0]) for x in out if "Held" in x}
        print(f"{n + 1} of {len(drawn)}: {kind}, {len(chaos.ids)} jobs, {len(out)} wait", file=sys.stderr, flush=True)
    wait_for(lambda: not chaos.cluster.run("squeue", "-h", "-o", "%i", check=False).split(), chaos.alive, 1800)
    return held


def wait_for(done: Callable[[], bool], meanwhile: Callable[[], None], seconds: float) -> None:
    """Wait until something is so, or for so many s."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not done():
        meanwhile()
        time.sleep(0.5)


def judged(chaos: Chaos, drawn: list[str], held: set[int]) -> tuple[list[str], bool]:
    """The lines of the page, and whether all holds. Last it kills the bridge while jobs wait, and has all given back."""
    sprio = lambda: sorted(chaos.cluster.run("sprio", "-h", "-o", "%i %S").splitlines())  # noqa: E731
    time.sleep(3.0)
    lost, jobs = chaos.lost(), len(chaos.ids)
    rows = [r.split("|") for r in chaos.cluster.run(
        "sacct", "-a", "-X", "-P", "-n", "-o", "Submit,Start", SLURM_TIME_FORMAT="%s").split()]  # fmt: skip
    longest = max(float(b) - float(a) for a, b in rows if b.isdigit())
    if chaos.bridge:
        chaos.bridge.send_signal(signal.SIGTERM)
        chaos.bridge.wait()
    for _ in range(WITNESSES):
        chaos.submit("-n", "32", "-t", str(int(chaos.rng.integers(1, 60))), "-o", "/dev/null", "--wrap", "sleep 600")
    time.sleep(5.0)
    before = sprio()
    chaos.alive()
    wait_for(lambda: sprio() != before, lambda: None, 60)
    moved = sum(a != b for a, b in zip(before, sprio(), strict=False))
    chaos.bridge.kill()  # type: ignore[union-attr]
    chaos.bridge.wait()  # type: ignore[union-attr]
    words = [sys.executable, "-m", "jobwise.cli", "slurm", "steer", "--state", str(chaos.state), "--undo"]
    undone = subprocess.run(words, env=chaos.cluster.env, capture_output=True, text=True)
    same, unexplained, shortened = sprio() == before, chaos.unexplained(), chaos.shortened()
    traces = (chaos.base / "bridge.log").read_text(errors="replace").count("Traceback")
    count = Counter("commands" if " " in x and x.split(" ")[1] in MODES else x for x in drawn)
    text = [
        "# Steering while all goes wrong",
        "",
        made("python -m benchmarks.steer_chaos" + " --trial" * chaos.trial) + f": {len(drawn)} faults.",
    ]
    text += ["", (__doc__ or "").split("\n\n")[2].strip(), ""]
    text += table(["fault", "times"], [[k, str(v)] for k, v in sorted(count.items())])
    ends = ", ".join(f"{v} with {k}" for k, v in sorted(chaos.ends.items())) or "none"
    text += ["", f"* Jobs: {jobs}; not run to their end: {len(lost)}; held: {len(held)}; longest wait: {longest:.0f} s."]
    text += [f"* Changes handed to scontrol: {chaos.written}; without a line in the audit log: {unexplained}."]
    if chaos.trial:
        text += [f"* Of these of time limits: {chaos.tried}; jobs put back: {chaos.put_back()}; "]
        text[-1] += f"jobs that still may be shortened: {shortened}."
    text += [f"* Ends of the bridge and their exit codes: {ends}; tracebacks: {traces}."]
    text += [f"* After a last kill -9 with {moved} of {WITNESSES} jobs moved: `steer --undo` (exit code {undone.returncode}); "]
    text[-1] += f"`sprio` prints what it did before: {'yes' if same else 'NO'}."
    return text, not (lost or held or unexplained or traces or shortened) and same and moved > 0


if __name__ == "__main__":
    sys.exit(main())
