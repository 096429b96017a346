"""Every name of the grammar with a line: what `jobwise policies` prints."""

from __future__ import annotations

from jobwise.policies.names import pretrained

ORDERS = {
    "fcfs": "first come, first served",
    "lcfs": "last come, first served",
    "sjf": "shortest requested time first",
    "ljf": "longest requested time first",
    "saf": "smallest area (time x processors) first",
    "laf": "largest area first",
    "smallest": "fewest processors first",
    "largest": "most processors first",
    "lxf": "largest expansion factor (wait + time) / time first",
    "wfp3": "(wait / time)^3 x processors, largest first (Tang et al. 2009)",
    "unicef": "wait / (log2(processors) x time), largest first (Tang et al. 2009)",
    "f1": "log10(time) x processors + 870 log10(submit) (Carastan-Santos, de Camargo 2017)",
    "f2": "sqrt(time) x processors + 25,600 log10(submit)",
    "f3": "time x processors + 6.86e6 log10(submit)",
    "f4": "time x sqrt(processors) + 5.30e5 log10(submit)",
    "random": "drawn again at every event",
    "las": "least attained service; without preemption the same as fcfs",
    "drf": "dominant resource fairness between users (Ghodsi et al. 2011)",
    "tetris": "best fit to what is free, less remaining work (Grandl et al. 2014)",
    "rank": "longest way to the end of its workflow first, whatever the workflow (HEFT's upward rank, Topcuoglu et al. 2002)",
    "level": "tasks of workflows level by level",
    "flow-fcfs": "workflows first come, first served; of one, the task of the longest way first",
    "flow-work": "the workflow with the least work left; of one, the task of the longest way first",
    "flow-sjf": "the same; of one, the shortest task first",
    "flow-bound": "work left x the least time in which it can be done (its critical path, or all processors)",
    "flow-path": "the workflow with the shortest critical path left",
    "flow-work-path": "work left x critical path left",
    "flow-share": "the workflow that holds fewest processors",
    "smith": "processors x E[run] / E[1 / run], expectations from the history of such jobs",
    "smith-requested": "the same with the request for E[run]",
    "smith-geo": "the same with a geometric mean of run / request",
    "area-history": "processors x E[run]",
}
BACKFILLS = {
    "easy": "one reservation, for the first job that does not fit; others start if they do not delay it",
    "easy-sjbf": "EASY, backfilling the shortest first",
    "conservative": "every job has a reservation",
    "greedy": "RLScheduler's: only jobs that end before the reservation",
    "easy-oracle": "EASY with true run times (CQSim's; nobody knows them)",
    "slurm": "on a site: Slurm's main pass and backfill cycles, in this order (what steering its priorities would do)",
    "commit": "a picked job stays picked until it starts (RLScheduler's)",
}
PLACEMENTS = {
    "first": "lowest nodes first (the default)",
    "pack": "as few nodes as possible",
    "spread": "as many nodes as possible",
    "best": "nodes that are left with least",
    "balance": "nodes with most left",
    "typed": "spread compute-intensive jobs, pack the others",
    "learned": "where jobs of its kind, application or user have run shortest so far",
}
GUARDS = {
    "guard24h": "a job that has waited 24 h (or s, m, d) goes first, oldest first",
    "guard0.8x": "the same as a multiple of the longest wait that fcfs+easy would have caused lately",
}
PROMISES = {
    "promise1.1x": "who waits much longer than under fcfs+easy goes first: the longest wait is near 1.1 times that, measured",
    "express1%": "the smallest jobs, 1 % of the work, go before those of a promise",
}
MORE = {
    "jobwise": "what we recommend: smith-forecast-aged with the promise and lane that did best in replays of past jobs",
    "jobwise-unbounded": "the same for the mean alone: smith-forecast, or a rule that is better in replays of past jobs",
    "jobwise:runs/NAME, jobwise+refit": "with trees of the site, from `jobwise train smith-forecast`, or fitted on the way",
    "slurm": "Slurm's own scheduler with the settings of a site (`jobwise slurm site`)",
    "reserve0.2x100s": "jobs that ask for more than 100 s hold at most 80 % of the processors",
    "cost0.5": "MARS's models: what jobs cost lowers their probability, more with a larger number",
    "refit": "trees of smith-forecast are learnt anew, every 5,000 arrivals, from the jobs that have ended (needs LightGBM)",
    "predicted": "the order goes by run times predicted from history",
    "actual": "the order goes by true run times (nobody knows them)",
    "gated:RULE,CANDIDATE,...[,1.2x]": "a candidate takes over only where a replay of past jobs says it is better",
    "slots:RULE[+PLACEMENT][@600s]": "a rule of DeepRM's world, in rows of 600 s (without: 1 s)",
    "file.py:NAME": "an order function, or a policy class, of your own",
    "models/m000": "what a model store lets schedule now (`jobwise mars learn`)",
    "runs/NAME": "a run folder of `jobwise train`, or a policy file",
}
GPUS = {
    "gpus:fifo sjf tetris random": "jobs at their requests, the lowest free GPUs, never moved (RL-TAPS's baselines)",
    "gpus:one": "one GPU each",
    "gpus:greedy": "more GPUs, block by block, where they add most speed each",
    "gpus:fair": "GPU by GPU to the job furthest behind its fair share",
    "gpus:speed slot root index both srpt las": "exact knapsacks over the numbers of GPUs, by the weight of a job",
    "gpus:RULE+MODE": "preemption: none, partial, full (the default of all but the first)",
    "gpus:RULE+leave, +slots32, +fixed": "started jobs leave their slots; so many slots (10); the GPUs that jobs ask for",
    "gpus:RULE+LAYOUT[@60s]": "which GPUs: pack, left, random; rows of 60 s (48.3 s)",
}


NODES = {
    "nodes:lb fewest random robin first": "every job on one node: the emptiest, the one with the fewest jobs so far, ...",
    "nodes:learned patient": "by what jobs of a kind took on each node so far; patient ones wait for a better node",
    "nodes:greedy oracle": "the same, knowing all factors (nobody does)",
    "nodes:RULE+places2+kinds5+explore0.5+avoid0.5+burst[@60s]": "places, kinds, exploring, which risks are avoided",
}


def described() -> dict[str, dict[str, str]]:
    """Part of the grammar -> name -> one line."""
    orders = dict(ORDERS)
    orders |= {
        f"{n}-aged": f"{n}, divided by ((wait + time) / time)^2"
        for n in ("smith", "smith-requested", "smith-geo", "area-history")
    }
    orders |= dict.fromkeys(pretrained(), "weights or trees learnt on other logs, which come with the package")
    found = {
        "orders": orders,
        "backfilling": BACKFILLS,
        "placement (on nodes)": PLACEMENTS,
        "guards": GUARDS | PROMISES,
        "more": MORE,
    }
    return found | {"jobs on GPU racks": GPUS, "jobs on nodes that suit them or not": NODES}
