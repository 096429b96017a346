"""The main job: learn a scheduler from a log, and compare it with the rules on months it has not seen, in a report."""

import argparse
import shutil
import sys
import time
from pathlib import Path

from jobwise.cli import run
from jobwise.workloads.catalogue import LOGS, cache_folder

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--traces", default="traces", help="folder with SWF logs")
parser.add_argument("--out", default="out", help="folder for the report")
parser.add_argument("--preset", default="small", help="how long to search")
options = parser.parse_args()

places = [Path(options.traces), cache_folder()]
logs = [p for name in ("sdsc-sp2", "hpc2n") for p in (folder / Path(LOGS[name]).name for folder in places) if p.exists()]
out = Path(options.out)
out.mkdir(parents=True, exist_ok=True)
if logs:
    log = logs[0]
    print(f"A real log: {log.name}")
else:
    log = out / "generated.swf.gz"
    print(f"No real log in {places[0]} or {places[1]}: a generated one (Lublin-Feitelson model) stands in.")
    run(
        [
            "trace",
            "generate",
            str(log),
            "--jobs",
            "20000",
            "--procs",
            "256",
            "--load",
            "0.9",
            "--estimates",
            "users",
            "--users",
            "60",
            "--force",
        ]
    )
begin = time.time()
learnt = out / "runs" / "learnt"
shutil.rmtree(learnt, ignore_errors=True)  # a run folder is never overwritten; the demo's is made anew
rules = ["fcfs+easy", "sjf+easy", "saf+easy", "wfp3+easy", "lxf+easy+guard72h", "unicef+easy+guard72h", "smith-geo+easy"]
code = run(["train", "search", str(log), "--out", str(learnt), "--preset", options.preset, "--max-wait", "1.2x"])
if code == 0:
    told = ["evaluate", str(learnt), str(log), "--report", str(out / "report.html"), "--force", "--shakes", "2"]
    code = run(told + [x for rule in rules for x in ("-p", rule)])
if code == 0:
    print(f"{time.time() - begin:.0f} s. Open {out / 'report.html'} in a browser.")
sys.exit(code)
