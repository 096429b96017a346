"""RLScheduler's simulator: CHECKOUT LOG PROCESSORS RULE OUT. Its rules on the whole log as one sequence;
TensorFlow, gym and scipy, which the rules do not use, are stand-ins."""

import sys
import time
import types

folder, log, processors, rule, out = sys.argv[1:6]
sys.path.insert(0, folder)
space = type("Space", (), {"__init__": lambda self, *args, **more: None})
modules = {
    "tensorflow": {},
    "scipy": {},
    "scipy.signal": {},
    "gym": {"Env": object},
    "gym.spaces": {"Box": space, "Discrete": space},
    "gym.utils": {"seeding": None},
    "gym.utils.seeding": {},
}
for name, values in modules.items():
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(values)
    if "." in name:
        setattr(sys.modules[name.split(".")[0]], name.split(".")[1], module)
sys.modules["gym"].spaces = sys.modules["gym.spaces"]

from cluster import Cluster  # noqa: E402
from HPCSimPickJobs import HPCEnv  # noqa: E402

order, _, backfilling = rule.partition(" ")
env = HPCEnv(backfil=bool(backfilling))
env.my_init(workload_file=log)
env.cluster = Cluster("pool", int(processors), 1)
env.loads.reset()
starts = {}


def score(job):  # called with each job that begins
    starts[job.job_id] = job.scheduled_time
    return 0.0


env.job_score, env.post_process_score = score, lambda scheduled: None
env.start, env.num_job_in_batch, env.last_job_in_batch, env.next_arriving_job_idx = 0, env.loads.size(), env.loads.size(), 1
env.current_timestamp = env.loads[0].submit_time
env.job_queue.append(env.loads[0])
begun = time.time()
env.schedule_curr_sequence_reset(getattr(env, f"{order}_score"))
seconds = time.time() - begun
with open(out, "w") as file:
    file.write(f"seconds {seconds}\n")
    file.writelines(f"{job} {start}\n" for job, start in starts.items())
