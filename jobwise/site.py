"""A site: what its jobs ask for, which nodes they may use, its queues, limits and shares, and how its scheduler is set.

Plain tables, which a cluster carries (`Cluster.site`): the policy `slurm` takes all its parameters from them. CPUs, memory in
MiB and GPUs, in this order, are the resources of such a cluster; times are seconds; -1 or inf where there is no limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

RESOURCES = ("cpus", "memory", "gpus")

# What a job asks of nodes; jobs that ask for the same share a row (`jobs["ask"]`).
ask_dtype = np.dtype(
    [
        ("nodes", "i4"),  # at least; 0: any number
        ("most", "i4"),  # at most; 0: any number
        ("tasks", "i4"),
        ("cpus", "i4"),  # of each task, which is whole on one node
        ("memory_cpu", "i8"),  # of each CPU
        ("memory", "i8"),  # of each node; -1: all of it (--mem=0)
        ("gpus", "i4"),  # in all
        ("gpus_node", "i4"),  # of each node
        ("whole", "i1"),  # nodes are not shared with other jobs
        ("set", "i4"),  # node set that it may use, of those of its partition
        ("nice", "i4"),  # taken from its priority
        ("array", "i4"),  # the number of the array, from 1, whose tasks alone share this row; 0: of no matter
        ("at_once", "i4"),  # its tasks that may run at once; 0: any number
        ("once", "i1"),  # it is cancelled where others are requeued (--no-requeue)
        ("het", "i4"),  # the number of the heterogeneous job, from 1, of which this row alone is a part; 0: of none
        ("licences", "i4"),  # row of the site's licence requests; 0: none
        ("types", "i4"),  # node set that has GPUs of its types; Slurm plans as if others could serve, too
        ("named", "i1"),  # the nodes of its set are those that its line names (--nodelist)
        ("reservation", "i4"),  # the group of closures whose nodes alone it may use; 0: none
        ("switches", "i4"),  # leaf switches at most, until it has waited for so long (s); 0: any number
        ("switch_wait", "f8"),
    ],
    align=True,
)
partition_dtype = np.dtype(
    [
        ("set", "i4"),  # its nodes
        ("factor", "f8"),  # of priority: PriorityJobFactor
        ("tier", "i4"),
        ("max_time", "f8"),
        ("max_nodes", "f8"),
        ("up", "i1"),
    ],
    align=True,
)
# Limits of a QOS, of all its jobs together and of those of a user: jobs that run, CPUs, memory, GPUs, nodes.
LIMITS = ("jobs", "cpus", "memory", "gpus", "nodes")
qos_dtype = np.dtype(
    [("priority", "f8"), ("max_wall", "f8"), ("all", "f8", (len(LIMITS),)), ("user", "f8", (len(LIMITS),))], align=True
)
# Row 0: the root account. Limits: of all jobs below it together (Grp…), and of its own jobs that run (MaxJobs).
association_dtype = np.dtype(
    [
        ("parent", "i4"),
        ("shares", "f8"),
        ("leaf", "i1"),
        ("all", "f8", (len(LIMITS),)),
        ("jobs", "f8"),
        ("usage", "f8"),  # CPU-seconds so far
    ],
    align=True,
)
# Whether and how jobs of a partition, or of a QOS, are stopped for jobs that come before them (`settings["preempt"]`).
STAYS, CANCELLED, REQUEUED = range(3)
BY_PARTITION, BY_QOS = 1, 2  # `settings["preempt"]`; 0: jobs are not stopped for others
preempt_dtype = np.dtype(
    [
        ("mode", "i1"),
        ("grace", "f8"),  # s between the decision and the stop
        ("exempt", "f8"),  # s that a job runs before it can be stopped
    ],
    align=True,
)
# Nodes that take no jobs: out of service, or reserved, which the scheduler knows ahead from some time on. Times in s
# since 1970. Reservations of one name are a group.
closure_dtype = np.dtype(
    [("set", "i4"), ("begin", "f8"), ("end", "f8"), ("announced", "i1"), ("known", "f8"), ("group", "i4")], align=True
)
settings_dtype = np.dtype(
    [
        ("basic", "i1"),  # first come, first served (priority/basic)
        ("backfill", "i1"),  # 0: sched/builtin, or bf_interval=-1
        ("main", "i1"),  # 0: there are no main passes (sched_interval=-1)
        ("age", "f8"),  # weights of priority
        ("fair_share", "f8"),
        ("size", "f8"),
        ("partition", "f8"),
        ("qos", "f8"),
        ("tres_cpu", "f8"),  # PriorityWeightTRES: what a job asks for over what its partition has
        ("tres_memory", "f8"),
        ("tres_gpu", "f8"),
        ("max_age", "f8"),
        ("half_life", "f8"),  # of usage; inf: it is never forgotten
        ("calc_period", "f8"),
        ("fair_tree", "i1"),  # else 2^(-usage / shares)
        ("favor_small", "i1"),
        ("small_relative", "i1"),  # job size relative to its time limit
        ("loop", "f8"),  # the main pass looks whether there is something to do
        ("batch_delay", "f8"),  # between two main passes
        ("sched_interval", "f8"),  # between two main passes over the whole queue
        ("depth", "f8"),  # jobs that a main pass tries otherwise
        ("bf_interval", "f8"),
        ("bf_window", "f8"),
        ("bf_resolution", "f8"),
        ("bf_max_test", "f8"),
        ("bf_max_user", "f8"),  # of a user
        ("bf_max_array", "f8"),  # plans of an array's tasks, one after the other
        ("kill_wait", "f8"),  # s between the end of a job's limit and its being killed
        ("epilog", "i1"),  # does every end start a main pass at once? An Epilog tells the controller when it is done
        ("boot", "f8"),  # s since 1970, when the controller began: priorities are computed so long after it; 0: not known
        ("look_phase", "f8"),  # s, when the loop looks first, the first main pass over the whole queue and the first cycle are
        ("whole_phase", "f8"),  # due, priorities are first computed (where the controller's begin is not known): accounting
        ("cycle_phase", "f8"),  # does not tell
        ("price_phase", "f8"),
        ("memory", "i1"),  # is memory handed out?
        ("preempt", "i1"),  # jobs stop others: 0 none, 1 those of partitions of a lower tier, 2 those of QOS that theirs names
        ("youngest", "i1"),  # the job that started last is stopped first; else the one of the lowest priority and fewest nodes
        ("version", "i4"),  # of Slurm, 260503 for 26.05.3: cycles follow other rules from version to version (below)
        ("requeue_delay", "f8"),  # s that a requeued job waits at least
        ("topo_optional", "i1"),  # only jobs that ask for few switches are placed by them
        ("max_switch_wait", "f8"),  # s that a job waits for few switches at most
        ("charged", "i1"),  # are jobs charged when they end? Else a pass charges those that run then, and no others
    ],
    align=True,
)
TICKING = 231100  # from this version on main passes begin with a second; before at any phase
NOT_EMPTY = 240500  # before, a job is tried first as if nothing ran, which counts for few switches
WINDOWED = 241100  # a try of a cycle looks among the ends from its begin to the next try; before from now
ENDED = 250500  # what ends at the begin of a try is gone by then; before what ends sooner. Licences no longer join a search
RELEVANT = 250501  # a plan begins when the last running job on its nodes ends; before with its group
ONE_NODE = 260500  # a job of one node takes the first that suffices; before that with the fewest CPUs to spare
STOCK = {  # Slurm's own
    "version": 220508, "backfill": 1, "main": 1, "charged": 1, "max_age": 7 * 86_400.0, "half_life": 7 * 86_400.0,
    "calc_period": 300.0,
    "fair_tree": 1, "loop": 1.0, "batch_delay": 3.0, "sched_interval": 60.0, "depth": 100.0, "bf_interval": 30.0,
    "bf_window": 86_400.0, "bf_resolution": 60.0, "bf_max_test": 500.0, "bf_max_user": inf, "kill_wait": 30.0,
    "bf_max_array": 20.0, "requeue_delay": 121.0, "look_phase": 0.5, "cycle_phase": 0.75, "price_phase": 300.0,
    "max_switch_wait": 300.0,
}  # fmt: skip


def settings(**known: float) -> np.ndarray:
    """[1] of settings_dtype: Slurm's own, but for those that are named."""
    row = np.zeros(1, settings_dtype)
    for key, value in (STOCK | known).items():
        row[key] = value
    return row


@dataclass(frozen=True, eq=False)
class Site:
    """`weight` [N]: nodes of a smaller one are taken first. `sets` [M, N] of 0 and 1: node sets, the first one all nodes.
    `asks` [A]; `partitions` [P]; `queues` [K, W]: which partitions (-1: none) a job may run in whose number of a partition is
    k; `qos` [Q] of jobs whose queue is q; `associations` [S], a tree, and `leaf` [U, A]: which of them a job of user u and
    account a (its group) is charged to. `settings` [1]. `closures` [K]: when nodes take no jobs. `licences` [L]: how many of
    each there are, `licence_asks` [M, L]: how many jobs ask for, the first row nothing. `partition_preempt` [P], `qos_preempt`
    [Q]: how their jobs are stopped for others, `preempts` [Q, Q] of 0 and 1: whose jobs a QOS stops; empty: none are.
    `partition_qos` [P]: the QOS of a partition, whose limits stand for those of its jobs' own; empty: none has one.
    `switches` [S, N] of 0 and 1: the nodes below each switch, `switch_parent` [S] the one above it, or itself."""

    weight: np.ndarray
    sets: np.ndarray
    asks: np.ndarray
    partitions: np.ndarray
    queues: np.ndarray
    qos: np.ndarray
    associations: np.ndarray
    leaf: np.ndarray
    settings: np.ndarray = field(default_factory=settings)
    closures: np.ndarray = field(default_factory=lambda: np.zeros(0, closure_dtype))
    licences: np.ndarray = field(default_factory=lambda: np.zeros(0))
    licence_asks: np.ndarray = field(default_factory=lambda: np.zeros((1, 0)))
    partition_qos: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    partition_preempt: np.ndarray = field(default_factory=lambda: np.zeros(0, preempt_dtype))
    qos_preempt: np.ndarray = field(default_factory=lambda: np.zeros(0, preempt_dtype))
    preempts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    switches: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    switch_parent: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    names: tuple[str, ...] = ()  # of nodes
    partition_names: tuple[str, ...] = ()
    association_names: tuple[tuple[str, str], ...] = ()  # account, user ("": the account's own)
    qos_names: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()  # what was not known, and what was taken instead

    @property
    def qos_of_partitions(self) -> np.ndarray:
        """[P] the row of each partition's own QOS; -1: it has none."""
        return self.partition_qos if len(self.partition_qos) else np.full(len(self.partitions), -1, np.int64)

    def changed(self, **known: float) -> Site:
        """Return the site with other settings."""
        row = self.settings.copy()
        for key, value in known.items():
            row[key] = value
        return replace(self, settings=row)


def association(parent: int, shares: float, leaf: int, own: float = inf, usage: float = 0.0, **most: float) -> tuple:
    """Return a row of association_dtype; `own`: the number of its own jobs that may run; `most`: limits of all jobs below it,
    by their names in LIMITS."""
    return parent, shares, leaf, [most.get(x, inf) for x in LIMITS], own, usage
