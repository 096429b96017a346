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
parser.add_argument("--preset", default="small", help="smoke learns few trees, to see that it runs")
options = parser.parse_args()

places = [Path(options.traces), cache_folder()]
logs = [p for name in ("sdsc-sp2", "hpc2n") for p in (folder / Path(LOGS[name]).name for folder in places) if p.exists()]
out = Path(options.out)
out.mkdir(parents=True, exist_ok=True)
begin = time.time()
if logs:
    log = logs[0]
    print(f"The log: {log.name}, of a real cluster.")
else:
    log = out / "generated.swf.gz"
    print(f"There is no real log in {places[0]} or {places[1]}.")
    print("A generated one stands in: 60 users submit series of jobs that resemble one")
    print("another, and ask for far more time than they use, as users of real clusters do.")
    made = "--model campaigns --jobs 20000 --procs 256 --load 0.7 --users 60 --force"
    run(["trace", "generate", str(log), *made.split()])
learnt = out / "runs" / "learnt"
shutil.rmtree(learnt, ignore_errors=True)  # a run folder is never overwritten; the demo's is made anew
policies = ["fcfs+easy", "saf+easy", "smith+easy", "jobwise", f"jobwise:{learnt}"]  # without trees, and with these
steps = {
    "1. How well can run times be forecast when jobs are submitted?": ["trace", "forecast", str(log)],
    "2. Learn forecasts of run times on the first 60 % of this log.": [
        *("train", "smith-forecast", str(log), "--out", str(learnt), "--preset", options.preset),
    ],
    "3. Compare it with rules on the last 30 % of the log, which neither has seen.": [
        *("compare", str(log), "--split", "0.7", "--max-wait", "1.2x", "--shakes", "1"),
        *("--report", str(out / "report.html"), "--force"),
        *(x for policy in policies for x in ("-p", policy)),
    ],
}
code = 0
for title, command in steps.items():
    if code == 0:
        print(f"\n{title}\n", flush=True)
        code = run(command)
if code == 0:
    print(f"{time.time() - begin:.0f} s. Open {out / 'report.html'} in a browser.")
sys.exit(code)
