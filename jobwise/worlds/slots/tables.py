"""Memory of the world of slots, as tables: the jobs' places, and the picture of the rows to come.

canvas    [rows, columns] which job holds a unit at each row to come, by its estimate; on a node a job takes the left-most
          free cells of every row. Columns: resource by resource, node by node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from jobwise.cluster import Cluster, outage_dtype
from jobwise.errors import InputError
from jobwise.sim.lists.placement import PLACEMENTS
from jobwise.sim.reset import Jobsets, set_dtype
from jobwise.sim.state import State, allocate
from jobwise.workload import Workload

COLOURS = 39  # of DeepRM's canvas

moment_dtype = np.dtype(  # what an encoder may see of it besides the tables
    [
        ("now", "f8"),  # rows since the first arrival
        ("backlog", "i8"),  # jobs in it
        ("outside", "i8"),  # jobs that found no place in it, where none is rejected: g.outside[first:] wait behind it
        ("first_outside", "i8"),
        ("since", "i8"),  # rows since the last arrival
        ("promised", "i8"),  # jobs with a row to come
        ("reserve", "i1"),  # may jobs be placed later than now?
        ("compat", "i1"),  # the last row from which a job would just fit is not tried (DeepRM's code)
        ("ask_always", "i1"),  # asked also where nothing but the void action would do anything
        ("stall", "i1"),  # may jobs wait on an empty machine for which nothing arrives?
        ("reject", "i1"),  # are jobs that find no place in the backlog turned away for good?
        ("over", "i1"),
        ("first", "i1"),
        ("until_arrivals", "i1"),  # an episode ends with its last arrival
        ("live", "i1"),  # time passes outside
        ("limit", "i8"),  # rows after which an episode is cut
        ("seed", "u8"),
    ],
    align=True,
)
report_dtype = np.dtype(  # what happened between two choices: rewards are functions of it
    [
        ("rows", "f8"),  # of time passed
        ("slow", "f8"),  # sum of 1 / length over jobs in the system and rows passed
        ("present", "f8"),  # the same of 1
        ("placed", "f8"),  # 1 where a job was placed
        ("penalty", "f8"),  # how much more a placed job was slowed down than by the best of the placements
        ("mean", "f8"),  # the mean over the placements, less the best
        ("total", "f8"),  # so far in the episode: sum of slowdowns (end - submit) / length of the jobs that ended
        ("started", "f8"),  # how many
        ("longest", "f8"),  # s, the longest wait of them
        ("all_waited", "f8"),  # s, the sum of their waits
        ("stretched", "f8"),  # the sum of how much longer than at their best they ran
        ("dropped", "f8"),  # turned away
        ("over", "f8"),
    ],
    align=True,
)


class Slots(NamedTuple):
    """E simulations, M slots, B places in the backlog, H rows, X columns, N nodes, R resources, P placements, J jobs."""

    moment: np.ndarray  # [E] of moment_dtype
    slot: np.ndarray  # [E, M] rows of the job table; -1 empty
    waiting: np.ndarray  # [E, M] what schedulers may know of the jobs in the slots, as last shown
    backlog: np.ndarray  # [E, B]
    outside: np.ndarray  # [E, J] jobs behind the backlog, in order of arrival (empty where they are rejected)
    canvas: np.ndarray  # [E, H, X] row of the job that holds the unit + 1; 0 free
    free: np.ndarray  # [E, H, N, R] units
    colour: np.ndarray  # [E, J] 0 .. COLOURS - 1
    used: np.ndarray  # [E, COLOURS] jobs of each colour on the canvas
    promised: np.ndarray  # [E, J] rows of the jobs with a row to come
    held: np.ndarray  # [E, J, N, R] and their units (empty without reservations)
    base: np.ndarray  # [N, R] first column of each node's resource
    codes: np.ndarray  # [P] placements to choose from
    capacity: np.ndarray  # [N, R]
    node: np.ndarray  # [E, N] room for a placement
    amount: np.ndarray  # [E, N, R]
    report: np.ndarray  # [E] of report_dtype
    mask: np.ndarray  # [E, M P + 1] i1: actions that do something
    sigma: np.ndarray  # [E, P] of the placements tried last


def jobsets(workloads: list[Workload], failures: bool = False) -> Jobsets:
    """The tables of workloads on one cluster, for simulations to begin with; `failures`: its nodes may fail, in each jobset
    others. Raises InputError."""
    one = workloads[0].cluster
    for w in workloads:
        if w.cluster.capacity.shape != one.capacity.shape or (w.cluster.capacity != one.capacity).any():
            raise InputError(f"{w.name}: jobsets must be for one cluster; these are for different ones")
        if len(w) == 0 or len(w.edges) or (len(w.cluster.outages) and not failures) or w.jobs["chunks"].any():
            raise InputError(f"{w.name}: a jobset has a job at least, no dependencies, equal chunks or node failures")
    sets = np.zeros(len(workloads), set_dtype)
    sets["jobs"] = [len(w) for w in workloads]
    sets["first"], sets["offset"] = np.cumsum(sets["jobs"]) - sets["jobs"], [w.offset for w in workloads]
    truth = np.concatenate([w.truth for w in workloads])
    jobs = np.concatenate([w.jobs for w in workloads])
    truth["least"], truth["most"] = one.spread(jobs["request"])
    if any((w.cluster.affinity is None) != (one.affinity is None) for w in workloads):
        raise InputError("jobsets are all for clusters with affinities, or none is")
    factor = np.stack([cast(Any, w.cluster.affinity).factors for w in workloads]) if one.affinity else np.zeros((0, 1, 1))
    outages = np.zeros((len(workloads), max(len(w.cluster.outages) for w in workloads)), outage_dtype)
    outages["time"] = np.inf
    for k, w in enumerate(workloads):
        outages[k, : len(w.cluster.outages)] = w.cluster.outages
    risks = [np.zeros((0, len(one.capacity))) if w.cluster.risk is None else w.cluster.risk for w in workloads]
    if len({r.shape for r in risks}) > 1:
        raise InputError("the risks of nodes are given for as many ticks in all jobsets, or in none")
    return Jobsets(jobs, truth, sets, factor, outages, np.stack(risks))


def room(sets: Jobsets, workload: Workload, count: int, **settings) -> State:
    """A state for `count` simulations of any of the jobsets, on the cluster of `workload`; settings as `allocate`."""
    J = int(sets.sets["jobs"].max())
    blank = workload.jobs[:1].copy()
    blank["request"] = sets.jobs["request"].max(axis=0)  # curves are told up to the largest
    big: dict[str, Any] = {"jobs": np.repeat(blank, J), "truth": np.repeat(workload.truth[:1], J), "columns": {}}
    s = allocate([replace(workload, **big)] * count, workload.cluster, **settings)
    return s._replace(outages=np.tile(sets.outages[:1], (count, 1)))


def build(sets: Jobsets, workload: Workload, count: int, world, limit: float = 2000) -> tuple[State, Slots]:
    """Room for `count` simulations of jobsets on the cluster of `workload`, to be begun with RENEW. `world`: the settings, a
    `SlotsSettings`. Raises InputError."""
    whole = np.array_equal(sets.jobs["walltime"], np.round(sets.jobs["walltime"])) and (sets.jobs["walltime"] >= 1).all()
    if not whole or not np.array_equal(sets.jobs["submit"], np.round(sets.jobs["submit"])):
        raise InputError(f"{workload.name}: on a grid of time submits and lengths are whole rows; see `to_rows`")
    s = room(sets, workload, count, tick=1.0)
    check(workload.name, sets.jobs, sets.truth, workload.cluster, world)
    return s, grid(s, workload.cluster, world, limit, reject=True)


def check(name: str, jobs: np.ndarray, truth: np.ndarray, cluster: Cluster, world, row_s: float = 1.0) -> None:
    """Raises InputError where a world with reservations cannot take these jobs: their run times must be known, and fit."""
    if not world.reserves(cluster) or len(jobs) == 0:
        return
    if not np.array_equal(jobs["walltime"], truth["runtime"]) or (jobs["kind"] != truth["kind"]).any():
        raise InputError(f"{name}: reservations need known run times and kinds (walltime = run time)")
    if cluster.slowdown and cluster.slowdown.share:
        raise InputError("reservations and slowdowns that change while a job runs do not go together")
    longest = np.ceil(jobs["walltime"].max() / row_s)
    if cluster.slowdown:
        longest *= cluster.slowdown.worst
    if longest > world.rows - world.compat:
        raise InputError(
            f"{name}: a job of up to {longest:g} rows never fits an image of {world.rows}; "
            "jobwise.workloads.transform.to_rows makes longer rows of a log"
        )


def grid(s: State, cluster: Cluster, world, limit: float, reject: bool) -> Slots:
    """Return the memory of the world of the simulations of `s`, whose tick is a row. `reject`: jobs that find no place in the
    backlog are turned away; else they wait behind it."""
    (N, R), (count, J) = cluster.capacity.shape, s.jobs.shape
    wide, reserve = cluster.capacity.T.reshape(-1), world.reserves(cluster)
    base = (np.cumsum(wide) - wide).reshape(R, N).T.copy()
    moment = np.zeros(count, moment_dtype)
    moment["reserve"], moment["compat"], moment["ask_always"], moment["reject"] = (
        reserve,
        world.compat,
        world.ask_always,
        reject,
    )
    moment["stall"] = world.stall
    moment["until_arrivals"], moment["limit"], moment["seed"] = world.until_arrivals, min(limit, 2**62), s.sims["seed"]
    P, slots, backlog, rows = len(world.placements), world.slots, world.backlog, world.rows
    return Slots(
        moment=moment,
        slot=np.full((count, slots), -1, np.int32),
        waiting=np.zeros((count, slots), s.jobs.dtype),
        backlog=np.zeros((count, backlog), np.int32),
        outside=np.zeros((count, 1 if reject else J), np.int32),
        canvas=np.zeros((count, rows, int(wide.sum())), np.int32),
        free=np.zeros((count, rows, N, R), np.int32),
        colour=np.zeros((count, J), np.uint8),
        used=np.zeros((count, COLOURS), np.int32),
        promised=np.zeros((count, J), np.int32),
        held=np.zeros((count, J, N, R) if reserve else (1, 1, 1, 1), np.int32),
        base=base,
        codes=np.array([PLACEMENTS[p] for p in world.placements], np.int64),
        capacity=cluster.capacity,
        node=np.zeros((count, N), np.int32),
        amount=np.zeros((count, N, R), np.int64),
        report=np.zeros(count, report_dtype),
        mask=np.zeros((count, slots * P + 1), np.int8),
        sigma=np.ones((count, P)),
    )
