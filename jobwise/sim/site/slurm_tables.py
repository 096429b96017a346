"""Memory of Slurm's scheduler in one simulation: its site, its clocks, priorities, usage, limits, and room."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.errors import InputError
from jobwise.sim.site.distinct_nodes import DistinctNodes, distinct_nodes
from jobwise.sim.site.het_jobs import HetJobs, het_jobs
from jobwise.sim.site.node_choice import note_unfit
from jobwise.sim.site.node_room import Room, rooms
from jobwise.sim.site.node_sets import packed
from jobwise.sim.site.preemption import Preemption, preemption
from jobwise.sim.site.slurm_ends import BLOCK
from jobwise.sim.site.slurm_notes import NOTES
from jobwise.sim.site.switches import switches
from jobwise.sim.spans import Spans, separate
from jobwise.sim.state import State
from jobwise.site import LIMITS, ONE_NODE, Site

clock_dtype = np.dtype(
    [
        ("look", "f8"),  # s, when the loop looks next
        ("passed", "f8"),  # the last main pass
        ("whole", "f8"),  # the last main pass over the whole queue
        ("backfill", "f8"),  # when the backfill thread looks next whether a cycle is due
        ("cycled", "f8"),  # the last cycle
        ("updated", "f8"),  # when a job came, started, ended, or got another planned start last
        ("price", "f8"),  # the next pass over priorities
        ("priced", "f8"),  # the last
        ("zero", "f8"),  # s since 1970 of time 0
        ("plain", "i1"),  # searches take no short cuts: for tests
        ("news", "i1"),  # has something happened since the last main pass?
        ("released", "i1"),  # does a job wait whose dependencies no pass has looked at since they were met?
        ("plans", "i8"),  # plans of the last cycle
        ("over", "i8"),  # closures before this one have ended
        ("change", "f8"),  # when the next one begins or ends
    ],
    align=True,
)


plan_dtype = np.dtype([("job", "i4"), ("start", "f8")], align=True)
end_dtype = np.dtype(  # a running job: when it ends, its CPUs of a node at most, the words low to high of its nodes
    [("job", "i4"), ("t", "f8"), ("cpus", "i8"), ("low", "u8"), ("high", "u8")], align=True
)
note_dtype = np.dtype([("ask", "i4"), ("partition", "i4"), ("limit", "f8"), ("begin", "f8")], align=True)


class SiteTables(NamedTuple):
    """Constant tables: the nodes, partitions, QOS and associations of a site, and its settings."""

    settings: np.ndarray  # [1]
    ask: np.ndarray  # [A]
    unfit: np.ndarray  # [A, P] 1: the nodes of a partition can never hold what is asked
    partition: np.ndarray  # [P]
    queues: np.ndarray  # [K, W]
    qos: np.ndarray  # [Q]
    partition_qos: np.ndarray  # [P]
    association: np.ndarray  # [S]
    bounded: np.ndarray  # [1] has an association limits?
    closures: np.ndarray  # [K]
    licences: np.ndarray  # [L]
    licence_asks: np.ndarray  # [M, L]
    sets: np.ndarray  # [M, W] node sets (`node_sets.py`)
    weight: np.ndarray  # [N]
    capacity: np.ndarray  # [N, R]
    cpus: np.ndarray  # [1] of all nodes
    largest: np.ndarray  # [1] CPUs of the largest node
    tres: np.ndarray  # [P, R] units of each partition
    highest: np.ndarray  # [2] priority of a QOS, factor of a partition


class Ledger(NamedTuple):
    """Tables that change with every event: clocks, priorities, usage, and amounts that count against limits."""

    clock: np.ndarray  # [1]
    leaf_of: np.ndarray  # [J] the association of each job; -1
    priority: np.ndarray  # [J] without the partition's part
    turn: np.ndarray  # [J] the order of job ids, which may not be that of rows
    came: np.ndarray  # [J] who is first of those with the same priority: the order of submits, of requeued jobs that of then
    since: np.ndarray  # [J] s, when it became eligible; inf: the next pass sees that what it depended on has ended
    start_at: np.ndarray  # [J] planned starts
    planned: np.ndarray  # [J] CPUs of the nodes that an exclusive job was planned on; 0: not yet
    counted: np.ndarray  # [J, LIMITS] what it holds, as limits count
    usage: np.ndarray  # [S]
    sums: np.ndarray  # [S, 2]
    level: np.ndarray  # [S]
    fair: np.ndarray  # [S]
    by_qos: np.ndarray  # [Q, LIMITS] what runs
    by_user: np.ndarray  # [Q, U, LIMITS]
    by_association: np.ndarray  # [S, LIMITS]
    licences: np.ndarray  # [L] in use
    by_array: np.ndarray  # [A] tasks that run
    place: np.ndarray  # [J] the partition that a running job is in
    distinct: DistinctNodes
    het: HetJobs
    preempt: Preemption


class Work(NamedTuple):
    """Room for passes and cycles. Cells, what running jobs hold of them, and the ranks of nodes outlive a pass."""

    cells: Spans  # nodes that are alike, and what is free of them (`cells.py`)
    edges: np.ndarray  # [N + 1] what begins or ends in front of a node
    cell_at: np.ndarray  # [N + 1] of the first node of a cell: the cell
    marks: np.ndarray  # [4] KNOWN, OUTAGES, SETTLED, JOIN_AT (`cells.py`)
    # neighbours joined?
    working: np.ndarray  # [W] nodes that are up, those out of service among them
    parts: np.ndarray  # [S] of slice_dtype: what running jobs hold, and
    part: np.ndarray  # [J] the first of each job; -1
    spare: np.ndarray  # [2] the first that is free again (-1: none), the first that was never used
    later: np.ndarray  # [N, R] what is free of a cell when some have ended,
    changed: np.ndarray  # [N] the cells where that is not what is free now
    changes: np.ndarray  # [1] how many they are
    up: np.ndarray  # [W] nodes that are up and in service, as the last pass had it
    mask: np.ndarray  # [W]
    open_mask: np.ndarray  # [W]
    unreserved: np.ndarray  # [W]
    typed: np.ndarray  # [W]
    tried: np.ndarray  # [W]
    own: np.ndarray  # [W] nodes of a partition that work and are not reserved
    chosen: np.ndarray  # [W]
    node: np.ndarray  # [N] chosen nodes,
    more: np.ndarray  # [N] and so many behind each
    each: np.ndarray  # [N] the same, one by one,
    cell: np.ndarray  # [N] their cells
    amount: np.ndarray  # [N, R] and what is taken of them
    ends: np.ndarray  # [J] of end_dtype: running jobs by expected end
    on: np.ndarray  # [running, W] their nodes
    blocks: np.ndarray  # [running / BLOCK, W] the nodes of BLOCK of them that lie beside each other
    begin: np.ndarray  # [C] the calendar of planned nodes
    until: np.ndarray  # [C]
    open: np.ndarray  # [C, W]
    notes: np.ndarray  # [NOTES] of note_dtype
    plans: np.ndarray  # [C] of plan_dtype: the plans of the last cycle
    planned: np.ndarray  # [C, W] their nodes
    completing: np.ndarray  # [W] nodes that have lost a job and take no other yet
    begun_in: np.ndarray  # [A] a partition where the pass has started a task of the array; -1: it has not
    room: Room
    empty: Room  # of nodes as if nothing ran


class SlurmTables(NamedTuple):
    """The scheduler of one simulation."""

    site: SiteTables
    ledger: Ledger
    work: Work


PLANS = 2000  # of one cycle
FIRST_PRICE = 61.0  # s after the controller's begin: the first pass over priorities


def scheduler(s: State, e: int, site: Site) -> SlurmTables:
    """For simulation e. Raises InputError for jobs of which it is not known what they ask of nodes."""
    jobs, capacity = s.jobs[e], s.nodes[e]["capacity"].copy()
    known = jobs["ask"][: s.sims[e]["jobs"]]
    if ((known < 0) | (known >= len(site.asks))).any():
        raise InputError("a site's scheduler needs what its jobs ask of nodes; `jobwise slurm site` and `on_site` know it")
    J, N = len(jobs), len(capacity)
    leaf, sets, arrays = leaves(jobs, site), packed(site.sets), int(site.asks["array"].max(initial=0)) + 1
    W, running = sets.shape[1], int(min(J, capacity[:, 0].sum()))
    room = (int(min(site.settings[0]["bf_max_test"], J, PLANS)) + len(site.closures)) * 2 + 4
    highest = np.array([site.qos["priority"].max(initial=0.0) or 1.0, site.partitions["factor"].max(initial=0.0) or 1.0])
    up, working, mask, open_mask, tried, own, chosen, completing = np.zeros((8, W), np.uint64)
    up[:] = packed(np.ones(N))
    tree = switches(site)
    empty = rooms(N, tree)
    empty.vacant[:] = ~np.uint64(0)
    units = site.sets[site.partitions["set"]].astype(np.int64) @ capacity
    return SlurmTables(
        site=SiteTables(
            settings=site.settings,
            ask=site.asks,
            unfit=_unfit(jobs[: s.sims[e]["jobs"]], site, sets, capacity),
            partition=site.partitions,
            queues=site.queues,
            qos=site.qos,
            partition_qos=site.qos_of_partitions,
            association=site.associations,
            bounded=np.array([any(np.isfinite(site.associations[k]).any() for k in ("all", "jobs"))]),
            closures=site.closures[np.argsort(site.closures["begin"], kind="stable")],
            licences=site.licences,
            licence_asks=site.licence_asks,
            sets=sets,
            weight=site.weight,
            capacity=capacity,
            cpus=np.array([capacity[:, 0].sum()], float),
            largest=capacity[:, 0].max(keepdims=True),
            tres=units,
            highest=highest,
        ),
        ledger=_ledger(s, e, site, leaf, arrays),
        work=Work(
            cells=separate(capacity.copy(), capacity.copy()),
            edges=np.zeros(N + 1, np.int32),
            cell_at=np.zeros(N + 1, np.int32),
            marks=np.zeros(4, np.int64),
            working=working,
            parts=np.zeros(s.slices.shape[1], s.slices.dtype),
            part=np.full(J, -1),
            spare=np.array([-1, 0]),
            later=capacity.copy(),
            changed=np.zeros(N, np.int64),
            changes=np.zeros(1, np.int64),
            up=up,
            mask=mask,
            open_mask=open_mask,
            unreserved=~np.zeros(W, np.uint64),
            typed=np.zeros(W, np.uint64),
            tried=tried,
            own=own,
            chosen=chosen,
            node=np.zeros(N, np.int32),
            more=np.zeros(N, np.int32),
            each=np.zeros(N, np.int32),
            cell=np.zeros(N, np.int64),
            amount=np.zeros((N, 3), np.int64),
            ends=np.zeros(J, end_dtype),
            on=np.zeros((running, W), np.uint64),
            blocks=np.zeros((running // BLOCK + 1, W), np.uint64),
            begin=np.zeros(room),
            until=np.zeros(room),
            open=np.zeros((room, W), np.uint64),
            notes=np.zeros(NOTES, note_dtype),
            plans=np.zeros(room, plan_dtype),
            planned=np.zeros((room, W), np.uint64),
            completing=completing,
            begun_in=np.full(arrays, -1, np.int64),
            room=rooms(N, tree, bool(site.settings["version"][0] >= ONE_NODE)),
            empty=empty,
        ),
    )


def _ledger(s: State, e: int, site: Site, leaf: np.ndarray, arrays: int) -> Ledger:
    """The ledger of simulation e before the first event; `leaf` [J]: the associations of its jobs."""
    J, S, Q, users = len(s.jobs[e]), len(site.associations), len(site.qos), int(s.jobs[e]["user"].max(initial=-1)) + 1
    return Ledger(
        clock=_clock(site, s.sims[e]["origin"]),
        leaf_of=leaf,
        priority=np.zeros(J),
        turn=np.arange(J),
        came=np.arange(J, dtype=float),
        since=np.zeros(J),
        start_at=np.zeros(J),
        planned=np.zeros(J),
        counted=np.zeros((J, len(LIMITS))),
        usage=site.associations["usage"].copy(),
        sums=np.zeros((S, 2)),
        level=np.zeros(S),
        fair=np.where(site.associations["leaf"] > 0, 1.0, 0.0),
        by_qos=np.zeros((Q, len(LIMITS))),
        by_user=np.zeros((Q, users, len(LIMITS))),
        by_association=np.zeros((S, len(LIMITS))),
        licences=np.zeros(len(site.licences)),
        by_array=np.zeros(arrays, np.int64),
        place=np.full(J, -1),
        distinct=distinct_nodes(site, J, users),
        preempt=preemption(site, J, packed(site.sets)),
        het=het_jobs(site, s.jobs[e]["ask"][: s.sims[e]["jobs"]]),
    )


def _unfit(jobs: np.ndarray, site: Site, sets: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """[A, P] whether a partition of a job has no nodes that could ever hold it."""
    unfit = np.zeros((len(site.asks), len(site.partitions)), np.uint8)
    own = site.queues[np.maximum(jobs["partition"], 0)]
    pairs = np.stack([np.repeat(jobs["ask"], own.shape[1]).astype(np.int64), own.ravel()], axis=1)
    pairs = np.unique(pairs[pairs[:, 1] >= 0], axis=0)
    cells, space = separate(capacity.copy(), capacity.copy()), rooms(len(capacity), switches(site))
    node, more = np.zeros((2, len(capacity)), np.int32)
    mask = np.zeros(sets.shape[1], np.uint64)
    note_unfit(site.asks, sets, site.partitions, pairs, cells, site.weight, space, node, more, mask, unfit)
    return unfit


def leaves(jobs: np.ndarray, site: Site) -> np.ndarray:
    """[J] the association of each job; -1: accounting has none."""
    leaf = np.full(len(jobs), -1)
    inside = (jobs["user"] >= 0) & (jobs["user"] < site.leaf.shape[0]) & (jobs["group"] >= 0)
    inside &= jobs["group"] < site.leaf.shape[1]
    leaf[inside] = site.leaf[jobs["user"][inside], jobs["group"][inside]]
    return leaf


def _clock(site: Site, origin: float) -> np.ndarray:
    """[1] of `clock_dtype` before the first event; `origin`: s, trace time of time 0."""
    clock = np.zeros(1, clock_dtype)
    x = site.settings[0]
    clock["look"], clock["backfill"] = x["look_phase"], x["cycle_phase"]
    clock["price"] = x["boot"] + FIRST_PRICE - origin if x["boot"] > 0 and np.isfinite(origin) else x["price_phase"]
    clock["zero"] = origin
    clock["change"] = np.min(site.closures["begin"], initial=np.inf) - origin
    clock["passed"] = clock["updated"] = -np.inf
    clock["whole"] = x["whole_phase"] - x["sched_interval"]
    clock["cycled"] = -1e18  # long ago, but after what has never been
    return clock
