"""CQSim: CHECKOUT LOG PROCESSORS RULE OUT. Its own command, in a folder of its own."""

import contextlib
import io
import os
import runpy
import shutil
import sys
import tempfile
import time
from pathlib import Path

folder, log, processors, rule, out = sys.argv[1:6]
order, _, backfilling = rule.partition(" ")
place = tempfile.mkdtemp(dir=Path(out).parent)
source = os.path.join(place, "src")
shutil.copytree(os.path.join(folder, "src"), source)
for name in ("InputFiles", "Results", "Fmt", "Debug"):
    os.makedirs(os.path.join(place, "data", name))
with open(log) as lines, open(os.path.join(place, "data", "InputFiles", "log.swf"), "w") as copy:
    for line in lines:
        copy.write(line if line.startswith(";") else " ".join(line.split()) + "\n")
os.chdir(source)
sys.path.insert(0, source)
config = os.path.join(source, "Config", "config_sys.set")  # options of its command line for these take no effect, or fail
own = {
    "alg": {"fcfs": "w", "sjf": "0-t"}[order],
    "alg_sign": "0",
    "win": "0",
    "win_para": "1,0,0",
    "read_num": "-1",
}  # the larger the sooner
own["backfill"] = {"": "0", "EASY": "1", "conservative": "2"}[backfilling]
with open(config) as file:
    lines = [line.split("=", 1) for line in file.read().splitlines() if "=" in line]
with open(config, "w") as file:
    file.writelines(f"{key}={own.get(key, value)}\n" for key, value in lines)
sys.argv = ["cqsim.py", "-j", "log.swf", "-n", "log.swf", "-I", "1000000", "-z", "1000000"]
begun = time.time()
with contextlib.redirect_stdout(io.StringIO()):
    runpy.run_path(os.path.join(source, "cqsim.py"), run_name="__main__")
seconds = time.time() - begun
results = [os.path.join(base, name) for base, _, names in os.walk(place) for name in names if name.endswith(".rst")]
with open(out, "w") as file:
    file.write(f"seconds {seconds}\n")
    for line in Path(results[0]).read_text().splitlines():
        fields = line.split(";")
        file.write(f"{fields[0]} {fields[7]}\n")
