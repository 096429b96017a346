"""AccaSim: CHECKOUT LOG PROCESSORS RULE OUT."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

folder, log, processors, rule, out = sys.argv[1:6]
sys.path.remove(str(Path(__file__).resolve().parent))  # this file has the package's name

from accasim.base import allocator_class, scheduler_class  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402

place = tempfile.mkdtemp(dir=Path(out).parent)
machine = {
    "system_name": "machine",
    "start_time": 0,
    "equivalence": {"processor": {"core": 1}},
    "groups": {"g0": {"core": int(processors), "mem": 1 << 40}},
    "resources": {"g0": 1},
}
config, own = os.path.join(place, "machine.config"), os.path.join(place, "log.swf")
with open(log) as lines, open(own, "w") as file:
    for line in lines:
        fields = line.split()
        file.write(
            line if line.startswith(";") else " ".join([*fields[:9], "1", *fields[10:]]) + "\n"
        )  # it divides by the memory
with open(config, "w") as file:
    json.dump(machine, file)
told = {"format": "{job} {start}", "attributes": {"job": ("id", "str"), "start": ("start_time", "int")}}
scheduler = getattr(scheduler_class, rule)(allocator_class.FirstFit())
begun = time.time()
simulator = Simulator(own, config, scheduler, RESULTS_FOLDER_NAME=place, SCHEDULE_OUTPUT=told, statistics_output=False)
simulator.start_simulation()
seconds = time.time() - begun
with open(out, "w") as file:
    file.write(f"seconds {seconds}\n")
    for name in Path(place).rglob("sched-*"):
        file.write(name.read_text())
