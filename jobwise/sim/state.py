"""The state of E simulations side by side: plain arrays with a leading axis [E], bundled for the kernels.

Shapes: E simulations, J jobs, N nodes, R resources, S slices (one job's share of one node), F outages.
A pool (one node, one resource) keeps no slices: a job holds its request and nothing else needs saying.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from jobwise.cluster import Cluster, idle_dtype, outage_dtype, step_dtype
from jobwise.errors import InputError
from jobwise.jobs import job_dtype, truth_dtype


class Tables(Protocol):
    """The part that a simulation needs of a `jobwise.workload.Workload`."""

    @property
    def jobs(self) -> np.ndarray:
        """The public table of jobs [J]."""
        ...

    @property
    def truth(self) -> np.ndarray:
        """The hidden table of jobs [J]."""
        ...

    @property
    def cluster(self) -> Cluster:
        """The cluster that the jobs run on."""
        ...

    @property
    def name(self) -> str:
        """The name of the workload."""
        ...

    @property
    def edges(self) -> np.ndarray:
        """The dependencies [M, 2], rows (parent, child)."""
        ...

    @property
    def offset(self) -> float:
        """The trace time of submit 0, s."""
        ...

    @property
    def origin(self) -> float:
        """When submit 0 was, s since 1970; NaN: unknown."""
        ...

    @property
    def past(self) -> np.ndarray:
        """The jobs that had ended before [K]."""
        ...

    def __len__(self) -> int: ...


RIGID, SLOWDOWN, LINKS, AFFINITY = range(4)  # rate models: how fast a job runs where it is (`rates.py`)
REQUEUE, FAIL, STALL = range(3)  # what a node failure does to the jobs on it
ON_FAILURE = {"requeue": REQUEUE, "fail": FAIL, "stall": STALL}

sim_dtype = np.dtype(
    [
        ("now", "f8"),
        ("wake", "f8"),  # s, the earliest reservation; inf without
        ("tick", "f8"),  # s; 0: event-driven
        ("restart_cost", "f8"),  # s that a paused or requeued job takes to start again
        ("origin", "f8"),  # s, trace time of submit 0 (F1-F4 read it)
        ("rate_model", "i1"),  # what says how fast a job runs where it is: RIGID, SLOWDOWN, LINKS, AFFINITY (`rates.py`)
        ("shared", "i1"),  # that changes with the allocations of others
        ("changed", "i1"),  # and they have changed since rates were looked at
        ("rate_setting", "f8", (3,)),  # of the rate model
        ("seed", "u8"),
        ("jobs", "i8"),
        ("next", "i8"),  # next row to arrive
        ("queued", "i8"),
        ("running", "i8"),  # size of the heap
        ("ended", "i8"),  # done or failed
        ("head", "i4"),  # the queue, in order of entry
        ("tail", "i4"),
        ("entered", "i8"),  # rows in `entered` / `left` since the last advance
        ("left", "i8"),
        ("before", "f8"),  # s, when the scheduler was asked last
        ("acted", "i8"),  # rows in ACTS of then
        ("acting", "i8"),  # of now
        ("slice", "i4"),  # first free slice
        ("outage", "i4"),  # next row of `outages`
        ("on_failure", "i1"),
        ("single", "i1"),  # one event at a time (RLScheduler), not all of an instant
        ("preemptions", "i8"),
        ("lost", "f8"),  # unit-seconds of work that failures have undone
        ("events", "i8"),
        ("trials", "i8"),  # trial runs that were begun (`pool/trials.py`)
        ("shown", "i8"),  # and those in which their job ended
        ("step", "i4"),  # of `steps`, the present one (`power.py`)
        ("stepped", "i1"),  # it began in the last advance
        ("least", "f8"),  # mW that every job draws at least, a unit of the first resource
        ("suspend", "f8"),  # s after which an idle node goes off; inf: never
        ("boot", "f8"),  # s that it takes to come back
        ("per_node", "i4"),  # processors of a node, on a pool
        ("idle", "i8"),  # idle nodes of a pool
        ("stack", "i4"),  # rows of `stack`
        ("idles", "i8"),  # rows of `idles`
    ],
    align=True,
)


def slice_dtype(resources: int) -> np.dtype:
    """A job's share of a node, and of the `more` nodes behind it: `amount` [R] units of each; `next` slice of the job or of the
    free list."""
    return np.dtype([("node", "i4"), ("next", "i4"), ("more", "i4"), ("amount", "i8", (resources,))], align=True)


def node_dtype(resources: int) -> np.dtype:
    """A node of one simulation: `capacity` and `free` [R] units, `up`; free is 0 while it is down. `rack`;
    `before`: room to count the nodes of a job; `since`: s, when it became idle."""
    units = ("i8", (resources,))
    fields = [("capacity", *units), ("free", *units), ("up", "i8"), ("rack", "i4"), ("before", "i4"), ("since", "f8")]
    return np.dtype(fields, align=True)


link_dtype = np.dtype(
    [
        ("bandwidth", "f8"),  # GB/s
        ("range", "i4", (6,)),  # on the way between a node in [a, b) and one in [c, d) but not in [f, g) (`topology.py`)
        ("jobs", "i4"),  # that use it
    ],
    align=True,
)


HEAP, ENTERED, LEFT, ACTS = range(4)  # the lists of rows


class State(NamedTuple):
    """Few arrays, for each costs a little in every call of a kernel."""

    sims: np.ndarray  # [E] of sim_dtype
    jobs: np.ndarray  # [E, J] of job_dtype(R): what schedulers may know
    truth: np.ndarray  # [E, J] of truth_dtype: what they may not
    lists: np.ndarray  # [E, 4, J] rows: running, as a heap on (finish, row); joined the queue, stopped in the last advance;
    # started by the scheduler, or (~row) paused
    nodes: np.ndarray  # [E, N] of node_dtype(R)
    slices: np.ndarray  # [E, S] of slice_dtype(R)
    child: np.ndarray  # [E, M] children, grouped by parent: truth says where they begin and how many
    links: np.ndarray  # [E, L] of link_dtype
    factor: np.ndarray  # [E, K, N] how many times as long jobs of a kind run on a node; [E, K, P] at P degrees of spread
    outages: np.ndarray  # [E, F] of outage_dtype; those at inf never come
    steps: np.ndarray  # [E, K] of step_dtype: the cap on what jobs draw, and the price of energy; K = 0: neither
    idles: np.ndarray  # [E, I] of idle_dtype: when nodes were idle, where they go off; I = 0: they do not
    stack: np.ndarray  # [E, M] of idle_dtype: the idle nodes of a pool, by since when
    risk: np.ndarray  # [E, T, N] how likely nodes are to fail, tick by tick; T = 0: nothing is forecast
    curve: np.ndarray  # [K, 3] s of a reduction over so many nodes, the same for all (`topology.reduction`)

    @classmethod
    def blank(cls) -> State:
        """Return a state of one simulation of one job on one node, all zero: room for what is not used."""
        return cls(
            sims=np.zeros(1, sim_dtype),
            jobs=np.zeros((1, 1), job_dtype(1)),
            truth=np.zeros((1, 1), truth_dtype),
            lists=np.zeros((1, 4, 1), np.int32),
            nodes=np.zeros((1, 1), node_dtype(1)),
            slices=np.zeros((1, 1), slice_dtype(1)),
            child=np.zeros((1, 1), np.int32),
            links=np.zeros((1, 1), link_dtype),
            factor=np.ones((1, 1, 1)),
            outages=np.zeros((1, 0), outage_dtype),
            **unpowered(1),
            risk=np.zeros((1, 0, 1)),
            curve=np.zeros((1, 3)),
        )

    def one(self, e: int) -> State:
        """Simulation e alone, in the same memory."""
        return State(*[a[e : e + 1] for a in self[:-1]], self[-1])  # type: ignore[call-arg]


def unpowered(count: int) -> dict[str, np.ndarray]:
    """Return the arrays of `count` simulations without caps, prices and nodes that go off."""
    idle = np.zeros((count, 0), idle_dtype)
    return {"steps": np.zeros((count, 0), step_dtype), "idles": idle, "stack": idle}


def allocate(
    workloads: Sequence[Tables],
    cluster: Cluster,
    *,
    seed: int = 0,
    tick: float = 0.0,
    on_failure: str = "requeue",
    restart_cost_s: float = 0.0,
    kill_at_walltime: bool = False,
    single_events: bool = False,
    shifts: bool = False,
) -> State:
    """Fresh state for one simulation per workload, all on `cluster`; simulation e is seeded with `seed + e`. `shifts`: the
    scheduler knows the price of energy."""
    if on_failure not in ON_FAILURE:
        raise InputError(f"on_failure is {on_failure!r}; it must be one of {', '.join(ON_FAILURE)}")
    if not (0 <= tick < np.inf and 0 <= restart_cost_s < np.inf):
        raise InputError(f"tick and restart_cost_s must be finite and >= 0 seconds; got {tick} and {restart_cost_s}")
    count, rows = len(workloads), max(len(w) for w in workloads)
    size, resources = cluster.capacity.shape
    edges = max(len(w.edges) for w in workloads)
    units = cluster.capacity.sum() if cluster.site is None else cluster.processors  # on a site each part of a job has a CPU
    held = 1 if cluster.is_pool else max(2, int(min(units, rows * size, 1 << 22)))
    s = State(
        sims=np.zeros(count, sim_dtype),
        jobs=np.zeros((count, rows), job_dtype(resources)),
        truth=np.zeros((count, rows), truth_dtype),
        lists=np.zeros((count, 4, rows), np.int32),
        nodes=np.zeros((count, size), node_dtype(resources)),
        slices=np.zeros((count, held), slice_dtype(resources)),
        child=np.zeros((count, max(edges, 1)), np.int32),
        outages=np.tile(cluster.outages, (count, 1)),
        **(cluster.power.arrays(workloads, cluster, shifts) if cluster.power else unpowered(count)),
        risk=np.tile(cluster.risk, (count, 1, 1)) if cluster.risk is not None else np.zeros((count, 0, size)),
        factor=factors(cluster, count),
        **links(cluster, count, max((int(w.jobs["request"].max(initial=1)) for w in workloads), default=1)),
    )
    rate_model(s, cluster)
    s.nodes["capacity"], s.nodes["free"], s.nodes["up"] = cluster.capacity, cluster.capacity, 1
    s.slices["next"] = np.append(np.arange(1, held), -1)
    for key, value in (("wake", np.inf), ("tick", tick), ("restart_cost", restart_cost_s), ("head", -1), ("tail", -1)):
        s.sims[key] = value
    s.sims["seed"] = seed + np.arange(count)
    s.sims["single"] = single_events
    s.sims["on_failure"] = ON_FAILURE[on_failure]
    if cluster.power:
        cluster.power.begin(s, workloads)
    for e, w in enumerate(workloads):
        least = np.where(w.jobs["least"] > 0, w.jobs["least"], w.jobs["request"].T).T
        if cluster is not w.cluster and not (fits := cluster.holds(least, w.jobs["chunks"])).all():
            row = int(np.flatnonzero(~fits)[0])
            asked = w.jobs["request"][row].tolist()
            raise InputError(f"{w.name}: job {row} requests {asked}; it does not fit the cluster of {cluster.total.tolist()}")
        fill(s, e, w.jobs, w.truth, w.offset)
        if cluster.slowdown:
            s.truth[e, : len(w)]["least"], s.truth[e, : len(w)]["most"] = cluster.spread(w.jobs["request"])
        J, truth = len(w), s.truth[e, : len(w)]
        if kill_at_walltime:
            truth["runtime"] = np.minimum(truth["runtime"], np.maximum(w.jobs["walltime"], 1))
        if edges:
            order = np.argsort(w.edges[:, 0], kind="stable")
            s.child[e, : len(order)] = w.edges[order, 1]
            truth["child"] = np.searchsorted(w.edges[order, 0], np.arange(J))
            truth["children"] = np.bincount(w.edges[:, 0], minlength=J)
    return s


def links(cluster: Cluster, count: int, most: int) -> dict[str, np.ndarray]:
    """The links of `count` simulations, and reduction curves for jobs of up to `most` units."""
    if (t := cluster.topology) is None:
        return {"links": np.zeros((count, 1), link_dtype), "curve": np.zeros((1, 3))}
    return {"links": np.tile(t.table(), (count, 1)), "curve": t.reduction(max(most, cluster.processors))}


def factors(cluster: Cluster, count: int) -> np.ndarray:
    """[E, K, N] the factors of affinity of `count` simulations, or [E, K, P] of slowdowns at P places."""
    table = cluster.affinity.factors if cluster.affinity else cluster.slowdown.table if cluster.slowdown else np.ones((1, 1))
    return np.tile(table, (count, 1, 1))


def rate_model(s: State, cluster: Cluster) -> None:
    """Say how fast jobs run on this cluster."""
    if cluster.affinity:
        if cluster.topology or cluster.slowdown:
            raise InputError("a cluster has affinities, slowdowns or links: just one of them says how fast jobs run")
        s.sims["rate_model"], s.sims["rate_setting"] = AFFINITY, (cluster.affinity.pair, 0.0, 0.0)
    elif cluster.topology:
        s.sims["rate_model"], s.sims["shared"], s.sims["rate_setting"] = LINKS, 1, cluster.topology.setting
        s.nodes["rack"] = np.searchsorted(cluster.topology.bounds[2], np.arange(s.nodes.shape[1]), side="right") - 1
    elif cluster.slowdown and (cluster.slowdown.worst > 1.0 or cluster.slowdown.share > 0.0):
        share = cluster.slowdown.share
        s.sims["rate_model"], s.sims["shared"], s.sims["rate_setting"] = SLOWDOWN, share > 0, (share, 0.0, 0.0)


def fill(s: State, e: int, jobs: np.ndarray, truth: np.ndarray, offset: float) -> None:
    """Put these jobs (in order of submit, the first at 0) into fresh simulation e; `offset`: trace time of time 0, s."""
    J, raw = len(jobs), f"V{s.jobs.dtype.itemsize}"
    s.sims[e]["jobs"], s.sims[e]["origin"] = J, offset
    s.jobs[e, :J].view(raw)[:] = np.ascontiguousarray(jobs, s.jobs.dtype).view(raw)  # as bytes: by field it is slow
    s.truth[e, :J]["runtime"] = truth["runtime"]
    s.truth[e, :J]["fails"], s.truth[e, :J]["kind"] = truth["fails"], truth["kind"]


def runs_for(s: State, e: int, j: int, seconds: float) -> None:
    """Let job j, which has not started, run for `seconds` s."""
    s.truth[e, j]["runtime"] = seconds


# By table of a state or of a world that checkpoints hold: fields that earlier ones lack (None), or have of another shape, the
# latest version first.
Fields = dict[str, tuple[int, ...] | None]
OF_TRIALS: Fields = dict.fromkeys(("trials", "shown"))
OF_POWER: Fields = dict.fromkeys(("step", "stepped", "least", "suspend", "boot", "per_node", "idle", "stack", "idles"))
OF_JOBS: Fields = dict.fromkeys(("patience", "draw"))
OF_WINDOWS: Fields = dict.fromkeys(("trials", "held", "trying"))
OF_REWARDS: Fields = dict.fromkeys(("shares", "dear_waits", "price"))
OF_PRICES: Fields = dict.fromkeys(("waits", "price", "cheapest", "soon"))
OF_COST: Fields = dict.fromkeys(("paid", "par"))
OF_ITEMS: Fields = dict.fromkeys(("draw", "gain"))
NEWER: dict[str, list[Fields]] = {
    "state_sims": [OF_POWER, OF_POWER | OF_TRIALS, OF_POWER | OF_TRIALS | dict.fromkeys(("before", "acted", "acting"))],
    "state_jobs": [OF_JOBS],
    "state_nodes": [{"since": None}],
    "state_slices": [{"more": None}],
    "choices_moment": [
        OF_PRICES,
        OF_PRICES | OF_WINDOWS,
        OF_PRICES | OF_WINDOWS | {"more_free": None, "more_total": (2,), "more_extra": (2,)},
        OF_PRICES | OF_WINDOWS | dict.fromkeys(("more_free", "more_total", "more_extra")),
    ],
    "choices_queue": [
        OF_ITEMS,
        OF_ITEMS | {"began": None},
        OF_ITEMS | {"began": None, "more": (2,)},
        OF_ITEMS | {"began": None, "more": None},
        OF_ITEMS | dict.fromkeys(("began", "more", "queue", "partition")),
    ],
    "choices_interval": [OF_COST, OF_COST | OF_REWARDS],
    "choices_report": [OF_COST, OF_COST | OF_REWARDS],
    "plan_next": [{"origin": None}],
}


def from_older(key: str, stored: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return the bytes of an array that an earlier version stored as bytes, laid out as `like`. Raises ValueError where it is
    none of those that have changed since."""
    out = np.zeros_like(like)
    if key == "state_lists":
        out[:, :ACTS] = stored.view(like.dtype).reshape(like.shape[0], ACTS, like.shape[2])
        return out.reshape(-1).view(np.uint8)
    for newer in NEWER.get(key, []):
        names = [n for n in like.dtype.names or () if newer.get(n, ()) is not None]
        layout = np.dtype([(n, like.dtype[n].base, newer.get(n) or like.dtype[n].shape) for n in names], align=True)
        if stored.size == layout.itemsize * like.size:
            old = stored.view(layout).reshape(like.shape)
            for n in names:
                if n in newer:
                    out[n][..., : layout[n].shape[0]] = old[n]
                else:
                    out[n] = old[n]
            if "before" in newer:
                out["before"] = out["now"]
            if "began" in newer:
                out["began"] = np.nan
            if "patience" in newer:
                out["patience"] = np.inf
            return out.reshape(-1).view(np.uint8)
    raise ValueError(f"{key} has {stored.size} bytes instead of {like.nbytes}")


def edges(s: State, e: int) -> np.ndarray:
    """[M, 2] rows (parent, child) of simulation e."""
    own = s.truth[e, : s.sims[e]["jobs"]]
    parents = np.repeat(np.arange(len(own)), own["children"])
    first = np.repeat(own["child"] - np.append(0, np.cumsum(own["children"])[:-1]), own["children"])
    return np.stack([parents, s.child[e, np.arange(len(parents)) + first]], axis=1).astype(np.int64)
