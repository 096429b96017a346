"""The main job: compare what we recommend with rules on the later months of a log, in a report."""

import argparse
import sys
import time
from pathlib import Path

from jobwise.cli import run
from jobwise.workloads.catalogue import LOGS, cache_folder

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--traces", default="traces", help="folder with SWF logs")
parser.add_argument("--out", default="out", help="folder for the report")
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
policies = ["fcfs+easy", "saf+easy+guard24h", "jobwise"]
steps = {
    "1. What is in this log?": ["trace", "info", str(log)],
    "2. Compare what we recommend with rules on the last 30 % of the log.": [
        *("compare", str(log), "--split", "0.7", "--max-wait", "1.2x", "--replicas", "1"),
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
