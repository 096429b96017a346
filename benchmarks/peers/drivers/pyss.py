"""pyss (Python 2.7): CHECKOUT LOG PROCESSORS RULE OUT."""

import os
import sys
import time

folder, log, processors, rule, out = sys.argv[1:6]
sys.path.insert(0, os.path.join(folder, "src"))

from base.prototype import _job_inputs_to_jobs  # noqa: E402
from base.workload_parser import parse_lines  # noqa: E402
from schedulers import simulator as simulators  # noqa: E402

MODULES = {
    "FcfsScheduler": "fcfs_scheduler",
    "EasyBackfillScheduler": "easy_scheduler",
    "EasySJBFScheduler": "easy_sjbf_scheduler",
    "ConservativeScheduler": "conservative_scheduler",
}
scheduler = getattr(__import__("schedulers." + MODULES[rule], fromlist=[rule]), rule)(int(processors))
with open(log) as file:
    jobs = list(_job_inputs_to_jobs(parse_lines(file), int(processors)))
begun = time.time()
simulator = simulators.Simulator(jobs, int(processors), scheduler)
simulator.run()
with open(out, "w") as file:
    file.write("seconds %f\n" % (time.time() - begun))  # noqa: UP031
    for job in simulator.terminated_jobs:
        file.write("%d %d\n" % (job.id, job.start_to_run_at_time))  # noqa: UP031
