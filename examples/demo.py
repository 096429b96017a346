"""The main job: learn from a log, and compare what we recommend with the rules on months it has not seen, in a report."""

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
    made = "--jobs 20000 --procs 256 --load 0.9 --estimates users --users 60 --force"
    run(["trace", "generate", str(log), *made.split()])
begin = time.time()
learnt = out / "runs" / "learnt"
shutil.rmtree(learnt, ignore_errors=True)  # a run folder is never overwritten; the demo's is made anew
told = ["fcfs+easy", "saf+easy", "smith+easy", f"jobwise:{learnt}"]
steps = {
    "How well can run times be foretold?": ["trace", "forecast", str(log)],
    "Trees that foretell them, learnt on the first 60 % of this log alone:": [
        *("train", "smith-forecast", str(log), "--out", str(learnt), "--preset", options.preset),
    ],
    "What we recommend, against the rule that was best before and the record, on jobs that neither has seen:": [
        *("compare", str(log), "--split", "0.7", "--max-wait", "1.2x", "--shakes", "2"),
        *("--report", str(out / "report.html"), "--force"),
        *(x for policy in told for x in ("-p", policy)),
    ],
}
code = 0
for what, command in steps.items():
    if code == 0:
        print(f"\n{what}", flush=True)
        code = run(command)
if code == 0:
    print(f"{time.time() - begin:.0f} s. Open {out / 'report.html'} in a browser.")
sys.exit(code)
