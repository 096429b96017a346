"""Do workflows run their own commands on a real Slurm, to the end, through kills, with all that they ask for?

python -m benchmarks.mars_live [--wfformat FILE] [--port 29300]     # writes MARS_LIVE.md; 0 where all holds, 1 where not

On a private cluster of emulated nodes `jobwise mars run` runs a CWL workflow, a WDL one, a list of commands and an instance
of WfFormat (its tasks sleep: the file does not say more). Each run is killed twice with -9 and begun again. Requests are
as `scontrol show job` shows them. Every command of ours leaves a mark: one a task.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import word_count
from benchmarks.check_slurm import ACCOUNT, BATCH, FAST, _nodes
from benchmarks.markdown import table
from benchmarks.slurm_cluster import Cluster, folder_for, running, skipped
from jobwise.report.sections import made

GPUS = 2  # of a node
CONF = [*_nodes(gpus=GPUS, last=6), *BATCH, "SelectTypeParameters=CR_Core_Memory", FAST]
CUDA = 'cwltool:CUDARequirement: {cudaVersionMin: "1.0", cudaComputeCapability: "1.0", cudaDeviceCountMin: 1}'
HINTS = "      hints:\n        DockerRequirement: {dockerPull: debian}\n"


def _more(text: str, *changes: tuple[str, str]) -> str:
    """The workflow with other requests and longer tasks. Raises ValueError where it does not say what is changed."""
    for old, new in (("sleep 0.4", "sleep 2"), *changes):
        if old not in text:
            raise ValueError(f"benchmarks/word_count.py does not say {old!r}")
        text = text.replace(old, new)
    return text


CWL = _more(
    word_count.CWL, ("class: Workflow\n", 'class: Workflow\n$namespaces: {cwltool: "http://commonwl.org/cwltool#"}\n'),
    ("{ramMin: 64}", "{ramMin: 200}"), ("{timelimit: 120}", f"{{timelimit: 300}}\n        {CUDA}"), (HINTS, ""),
)  # fmt: skip
WDL = _more(word_count.WDL, ('{ memory: "64 MiB" }', '{ memory: "200 MiB"  time_minutes: 5  gpuCount: 1 }'))
COLUMNS = ("workflow", "tasks", "kills", "ended well", "submitted", "ran twice", "asked for, as Slurm shows it", "result")


@dataclass
class Seen:
    """The requests of jobs by their names, as scontrol shows them while they are there."""

    cluster: Cluster
    jobs: dict[str, str] = field(default_factory=dict)
    is_over: bool = False

    def watch(self) -> None:
        """Look twice a second."""
        while not self.is_over:
            for line in self.cluster.run("scontrol", "-o", "show", "job", check=False).splitlines():
                if name := re.search(r"JobName=(jw\S+)", line):
                    limit, tres = (re.search(f"{k}=(\\S+)", line) for k in ("TimeLimit", "TRES"))
                    self.jobs[name[1]] = f"{tres[1] if tres else '-'} time={limit[1] if limit else '-'}"
            time.sleep(0.5)

    def most(self, run: str) -> str:
        """The request of most tasks of a run, in words."""
        mine = [re.sub(r",?(node|billing)=\d+", "", x) for name, x in self.jobs.items() if name.startswith(run + ".")]
        return max(set(mine), key=mine.count) if mine else "nothing"


def run_through_kills(words: Sequence[str], state: Path, cluster: Cluster, kills: int = 2) -> subprocess.CompletedProcess:
    """Run a command in a folder, kill it with -9 when four more tasks have begun, and so on; the last time to its end."""
    claims = state / "claims"
    for _ in range(kills):
        job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=cluster.env)
        begun = len(list(claims.glob("*"))) if claims.exists() else 0
        end = time.monotonic() + 60
        while time.monotonic() < end and not (claims.exists() and len(list(claims.glob("*"))) >= begun + 4):
            time.sleep(0.1)
        job.send_signal(signal.SIGKILL)
        job.wait()
    return subprocess.run(words, capture_output=True, text=True, env=cluster.env, timeout=600)


def one(name: str, words: list[str], base: Path, seen: Seen, marks: Path | None) -> list[str]:
    """A row of the table: run a workflow through kills, and look at what came of it."""
    state = base / f"state-{name}"
    order = [sys.executable, "-m", "jobwise.cli", "mars", "run", *words, "--executor", "slurm", "--state", str(state)]
    done = run_through_kills([*order, "--poll", "0.3", "--json"], state, seen.cluster)
    time.sleep(1.0)
    if done.returncode:
        return [name, "", "2", "no: " + done.stderr.strip()[-200:], "", "", "", ""]
    result = json.loads(done.stdout)
    run = json.loads((state / "ledger.jsonl").read_text().split("\n")[0])["run"]
    ran = [p.name.split(".")[1] for p in (state / "stamps").iterdir()]
    twice = len(ran) - len(set(ran))
    if marks:
        lines = marks.read_text().split()
        twice = max(twice, len(lines) - len(set(lines)))
    answer = word_count.total(result) if name in ("CWL", "WDL") else "-"
    cells = (result["tasks"], 2, f"{result['done']} of {result['tasks']}", result["submitted"], twice, seen.most(run), answer)
    return [name, *map(str, cells)]


def main() -> int:
    """Run it, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--wfformat", default="../shared/traces/workflows/montage-chameleon-2mass-01d-001.json.gz")
    parser.add_argument("--port", type=int, default=29_300)
    given = parser.parse_args()
    if skipped("mars_live"):
        return 0
    base = folder_for("mars-live")
    line = f"sh -c 'echo {{}} >> {base}/marks; sleep 2'\n"
    listed = "".join(line.format(k) for k in range(word_count.PARTS))
    (base / "some.commands").write_text("#: memory=200 gpus=1 minutes=5\n" + listed)
    rows = []
    with running(base / "cluster", given.port, CONF, ACCOUNT, GPUS) as cluster:
        seen = Seen(cluster)
        watcher = threading.Thread(target=seen.watch)
        watcher.start()
        try:
            for kind in ("cwl", "wdl"):
                (own := base / kind).mkdir()
                words = word_count.written(own, kind, CWL, WDL)
                rows.append(one(kind.upper(), words, base, seen, own / "marks"))
            rows.append(one("commands", [str(base / "some.commands")], base, seen, base / "marks"))
            if Path(given.wfformat).exists():
                more = ["--scale", "0.02", "--sbatch", "--gres=gpu:1 --mem=200M --time=5"]
                rows.append(one("WfFormat", [given.wfformat, *more], base, seen, None))
        finally:
            seen.is_over = True
            watcher.join()
    lines = table(COLUMNS, rows)
    print("\n".join(lines))
    held = all(r[3] == f"{r[1]} of {r[1]}" and r[5] == "0" and "gres/gpu=1" in r[6] and "mem=" in r[6] for r in rows)
    held = held and [r[7] for r in rows[:2]] == [str(word_count.LINES)] * 2
    about = (__doc__ or "").split("\n\n")[2]
    text = [
        "# Workflows of their own commands on a real Slurm",
        "",
        made("python -m benchmarks.mars_live") + ".",
        "",
        about.strip(),
        "",
        *lines,
    ]
    text += ["", f"Nodes: 6 of 4 cores, {GPUS} GPUs. {'All holds.' if held else 'Not all holds.'}"]
    (Path(__file__).parent / "MARS_LIVE.md").write_text("\n".join(text) + "\n")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
