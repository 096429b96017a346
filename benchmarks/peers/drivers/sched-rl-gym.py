"""sched-rl-gym: CHECKOUT LOG PROCESSORS RULE OUT."""

import sys
import time

folder, log, processors, rule, out = sys.argv[1:6]
sys.path.insert(0, folder)

from schedgym import scheduler as schedulers  # noqa: E402
from schedgym.workload import SwfGenerator  # noqa: E402

jobs = list(SwfGenerator(log, int(processors), 1, ignore_memory=True))
scheduler = getattr(schedulers, rule)(int(processors), 1, True)
begun, at, now = time.time(), 0, 0
while len(scheduler.queue_completed) < len(jobs):
    while at < len(jobs) and jobs[at].submission_time <= now:
        scheduler.submit(jobs[at])
        at += 1
    scheduler.step()
    now += 1
seconds = time.time() - begun
with open(out, "w") as file:
    file.write(f"seconds {seconds}\n")
    file.writelines(f"{job.id} {job.start_time}\n" for job in jobs)
