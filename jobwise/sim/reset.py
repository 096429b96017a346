"""Filling simulations: with the jobs planned for an episode, or with what a view shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.cluster import Cluster, outage_dtype, step_dtype
from jobwise.compiled import inlined, kernel
from jobwise.decision import View
from jobwise.jobs import FUTURE, QUEUED, RUNNING, job_dtype, truth_dtype
from jobwise.sim import state
from jobwise.sim.kernel import set_rate
from jobwise.sim.state import HEAP, LEFT, State, node_dtype, sim_dtype, slice_dtype


def from_view(view: View, whole: bool = False, tick: float = 0.0) -> tuple[State, np.ndarray]:
    """(a state of one simulation that stands where the view does, the view's rows of its rows).

    For trying a pass out: queued jobs come first, in order, then the running ones; with `whole` all jobs of the view, under
    their own rows, and those that have just ended in its list. The future is unknown to it: every job is thought to run as
    long as it requests. `tick`: as in `allocate`.
    """
    links = state.links(view.cluster, 1, int(view.jobs["request"].max(initial=1)))
    Q, K = len(view.queue), len(view.running)
    rows = np.arange(len(view.jobs)) if whole else np.concatenate([view.queue, view.running])
    queue, running = (view.queue, view.running) if whole else (np.arange(Q), np.arange(Q, Q + K))
    J, (N, R), cluster = max(len(rows), 1), view.free.shape, view.cluster
    s = State(
        sims=np.zeros(1, sim_dtype),
        jobs=np.zeros((1, J), view.jobs.dtype),
        truth=np.zeros((1, J), truth_dtype),
        lists=np.zeros((1, 4, J), np.int32),
        nodes=np.zeros((1, N), node_dtype(R)),
        slices=np.zeros((1, 1), slice_dtype(R)) if cluster.is_pool else _slices(view)[None],
        child=np.zeros((1, 1), np.int32),
        links=links["links"],
        factor=state.factors(cluster, 1),
        outages=np.zeros((1, 0), outage_dtype),
        **state.unpowered(1),
        risk=np.zeros((1, 0, N)),
        curve=links["curve"],
    )
    sim, truth, node = s.sims[0], s.truth[0], s.nodes[0]
    s.jobs[0, : len(rows)] = view.jobs[rows]
    sim["now"], sim["wake"], sim["origin"], sim["jobs"], sim["next"] = view.now, np.inf, view.origin, J, J
    sim["queued"], sim["running"], sim["seed"] = Q, K, view.seed
    sim["head"], sim["tail"] = (queue[0], queue[-1]) if Q else (-1, -1)
    truth["next"][queue], truth["prev"][queue] = np.append(queue[1:], -1), np.append(-1, queue[:-1])
    truth["runtime"], truth["kind"] = np.maximum(s.jobs[0]["walltime"], 1.0), s.jobs[0]["kind"]
    truth["finish"][running] = np.nan_to_num(s.jobs[0]["due"][running])
    heap = running[np.argsort(truth["finish"][running], kind="stable")]
    s.lists[0, HEAP, :K], truth["heap"] = heap, -1
    truth["heap"][heap] = np.arange(K)
    up = view.free.sum(axis=0) if cluster.is_pool else view.free
    node["capacity"], node["free"], node["up"] = cluster.capacity, up, 1
    sim["tick"] = tick
    if not cluster.is_pool:
        sim["slice"] = s.slices.shape[1] - N * (Q + 1)
    if whole:
        sim["left"], s.lists[0, LEFT, : len(view.ended)] = len(view.ended), view.ended
    state.rate_model(s, cluster)
    if cluster.slowdown:
        truth["least"][: len(rows)], truth["most"][: len(rows)] = cluster.spread(s.jobs["request"][0, : len(rows)])
    return s, rows


def _slices(view: View) -> np.ndarray:
    """The slices of a view, and behind them free ones, one a node for every queued job."""
    more = len(view.free) * (len(view.queue) + 1)
    slices = np.concatenate([view.slices, np.zeros(more, view.slices.dtype)])
    slices["next"][-more:] = np.append(np.arange(len(slices) - more + 1, len(slices)), -1)
    return slices


plan_dtype = np.dtype(
    [
        ("jobs", "i8"),
        ("processors", "i8"),
        ("offset", "f8"),  # s, trace time of time 0
        ("first", "i8"),  # row of `jobs` to begin with; -1: rows and submits are given one by one
        ("factor", "f8"),  # submits are divided by it
        ("graph", "i1"),  # it is a whole log, whose jobs wait for others
        ("origin", "f8"),  # s since 1970, of time 0
    ],
    align=True,
)


class EpisodePlan(NamedTuple):
    """The next begin of E simulations: rows of a table of jobs, with submits of their own."""

    jobs: np.ndarray  # [L] of job_dtype: all logs, one after the other
    truth: np.ndarray  # [L] of truth_dtype
    child: np.ndarray  # [M] children of all jobs, as rows of their log; `truth` says where a job's begin and how many
    row: np.ndarray  # [E, J] rows of `jobs`, where they are given
    submit: np.ndarray  # [E, J] s, ascending from 0, where they are given
    next: np.ndarray  # [E] of plan_dtype
    steps: np.ndarray  # [K] of step_dtype, in s since 1970: prices; K = 0: there are none


NO_PLAN = EpisodePlan(
    np.zeros(1, job_dtype(1)),
    np.zeros(1, truth_dtype),
    np.zeros(1, np.int32),
    np.zeros((1, 1), np.int32),
    np.zeros((1, 1)),
    np.zeros(1, plan_dtype),
    np.zeros(0, step_dtype),
)


@kernel
def _steps(s, e, steps, origin):
    """The prices of simulation e are those from `origin` (s since 1970) on."""
    k, first = 0, 0
    while first + 1 < len(steps) and steps[first + 1]["time"] <= origin:
        first += 1
    for i in range(first, len(steps) if s.steps.shape[1] > 0 else 0):
        x, y = s.steps[e, k], steps[i]
        x["time"], x["cap"], x["load"], x["price"] = max(y["time"] - origin, 0.0), y["cap"], 0, y["price"]
        x["paid"] = (
            s.steps[e, k - 1]["paid"] + (x["time"] - s.steps[e, k - 1]["time"]) * s.steps[e, k - 1]["price"] / 3600.0
            if k
            else 0.0
        )
        k += 1
    while k < s.steps.shape[1]:
        s.steps[e, k]["time"] = np.inf
        k += 1
    s.sims[e]["step"] = 0


@inlined
def refill(s, e, plans, k):
    """Begin simulation e (of a pool, or of one node) anew with plan k; its settings stay."""
    sim, node, plan = s.sims[e], s.nodes[e, 0], plans.next[k]
    sim["now"], sim["wake"], sim["head"], sim["tail"] = 0.0, np.inf, -1, -1
    sim["next"] = sim["queued"] = sim["running"] = sim["ended"] = sim["entered"] = sim["left"] = 0
    sim["acted"] = sim["acting"] = 0
    sim["outage"], sim["preemptions"], sim["events"], sim["lost"], sim["trials"], sim["shown"] = 0, 0, 0, 0.0, 0, 0
    sim["jobs"], sim["origin"] = plan["jobs"], plan["offset"]
    node["capacity"][0] = node["free"][0] = plan["processors"]
    node["up"], last = 1, s.slices.shape[1] - 1
    for r in range(1, len(node["free"])):
        node["free"][r] = node["capacity"][r]
    for i in range(last):
        s.slices[e, i]["next"] = i + 1
    s.slices[e, last]["next"], sim["slice"] = -1, 0
    _steps(s, e, plans.steps, plan["origin"])
    first, factor, at = plan["first"], plan["factor"], 0
    for i in range(plan["jobs"]):
        row = first + i if first >= 0 else np.int64(plans.row[k, i])
        job, new, truth, known = s.jobs[e, i], plans.jobs[row], s.truth[e, i], plans.truth[row]
        job["submit"] = (new["submit"] - plans.jobs[first]["submit"]) / factor if first >= 0 else plans.submit[k, i]
        job["walltime"] = new["walltime"]
        for r in range(len(node["free"])):
            job["request"][r] = new["request"][r]
        job["start"] = job["end"] = job["queued"] = job["due"] = job["reserved"] = np.nan
        job["user"], job["group"], job["app"] = new["user"], new["group"], new["app"]
        job["queue"], job["partition"], job["memory"], job["chunks"] = new["queue"], new["partition"], new["memory"], 0
        job["ran"], job["held"], job["unmet"], job["restarts"], job["status"] = 0.0, -1, 0, 0, 0
        job["restartable"], job["draw"], job["patience"] = new["restartable"], new["draw"], new["patience"]
        truth["runtime"], truth["fails"], truth["children"], truth["heap"] = known["runtime"], known["fails"], 0, -1
        if plan["graph"]:
            job["unmet"], job["flow"], job["rank"], job["level"] = new["unmet"], new["flow"], new["rank"], new["level"]
            truth["child"], truth["children"] = at, known["children"]
            for c in range(known["children"]):
                s.child[e, at] = plans.child[known["child"] + c]
                at += 1


@kernel
def believe(s, e, j, run):
    """Job j of simulation e, which may have started, takes `run` s; less than it has run already: it ends now."""
    job, truth = s.jobs[e, j], s.truth[e, j]
    if np.isnan(job["start"]):
        truth["runtime"] = run
    elif job["status"] == RUNNING:
        set_rate(s, e, j, 1.0)
        truth["left"] = max(run - (s.sims[e]["now"] - job["start"]), 0.0)
        set_rate(s, e, j, 1.0)


def go_on(s: State, old: State) -> None:
    """Simulations that have room for more jobs are where the old ones are."""
    J = old.jobs.shape[1]
    for a, b in zip(s, old, strict=True):
        if a.shape == b.shape:
            a[:] = b
    s.jobs[:, :J], s.truth[:, :J], s.lists[:, :, :J] = old.jobs, old.truth, old.lists


def empty(s: State) -> None:
    """No job is known yet."""
    s.sims["jobs"] = 0


def enter(s: State, e: int, j: int, job: np.ndarray) -> None:
    """Job j is known to simulation e from now on: a row of a job table. It arrives when it was submitted, at once if that is
    past."""
    own = s.jobs[e, j]
    for key in ("walltime", "request", "user"):
        own[key] = job[key]
    own["submit"] = max(job["submit"], s.sims[e]["now"])
    s.sims[e]["jobs"] = j + 1


def stand(s: State, now: float, table: np.ndarray, queue: np.ndarray, running: np.ndarray, free: int) -> None:
    """Simulation 0 stands at an instant of a view of a pool: time, jobs [J], rows that wait and that run, free processors."""
    rows, sim = np.concatenate([queue, running]), s.sims[0]
    s.jobs[0, rows] = table[rows]
    sim["now"], sim["next"], sim["jobs"] = now, len(table), len(table)
    sim["queued"], sim["running"], s.nodes["free"][0, 0, 0] = len(queue), len(running), free
    s.lists[0, HEAP, : len(running)], s.truth["heap"][0, running] = running, np.arange(len(running))


def there_are(s: State, nodes: np.ndarray) -> None:
    """Let simulation 0 have these nodes [N] bool alone: the others count as down."""
    s.nodes["up"][0] = nodes


def room(jobs: int, cluster: Cluster) -> State:
    """Return a state of one simulation of a pool with room for `jobs` jobs, to be filled (`amid`)."""
    like = State.blank()
    s = like._replace(
        jobs=np.zeros((1, jobs), job_dtype(1)),
        truth=np.zeros((1, jobs), truth_dtype),
        lists=np.zeros((1, 4, jobs), np.int32),
    )
    state.rate_model(s, cluster)
    s.nodes["capacity"], s.nodes["up"] = cluster.processors, 1
    return s


def amid(s: State, now: float, table: np.ndarray, run: np.ndarray, ask: bool = False) -> None:
    """Simulation 0 of a pool stands in the middle: at `now` the jobs `table` [J] (in order of submit) wait, run or are still to
    come, as their status says; they run for run[J] s in all. `ask`: the scheduler is asked at once, not only as something
    happens."""
    J, sim, truth = len(table), s.sims[0], s.truth[0, : len(table)]
    s.jobs[0, :J] = table
    truth[:] = np.zeros((), truth_dtype)
    truth["runtime"] = truth["saved"] = run
    truth["heap"], truth["kind"] = -1, -1
    queue, running = (np.flatnonzero(table["status"] == k) for k in (QUEUED, RUNNING))
    model = sim["rate_model"]
    s.sims[0] = np.zeros((), sim_dtype)
    sim["rate_model"], sim["now"], sim["before"], sim["wake"], sim["jobs"] = model, now, now, now if ask else np.inf, J
    sim["next"] = int(np.searchsorted(table["status"] == FUTURE, True))
    sim["queued"], sim["running"], sim["slice"] = len(queue), len(running), -1
    sim["head"], sim["tail"] = (queue[0], queue[-1]) if len(queue) else (-1, -1)
    truth["next"][queue], truth["prev"][queue] = np.append(queue[1:], -1), np.append(-1, queue[:-1])
    truth["left"][running] = np.maximum(table["start"][running] + run[running] - now, 0.0)
    truth["updated"][running], truth["rate"][running] = now, 1.0
    truth["finish"][running] = now + truth["left"][running]
    heap = running[np.argsort(truth["finish"][running], kind="stable")]
    s.lists[0, HEAP, : len(heap)] = heap
    truth["heap"][heap] = np.arange(len(heap))
    s.nodes["free"][0, 0, 0] = s.nodes["capacity"][0, 0, 0] - int(table["request"][running, 0].sum())


set_dtype = np.dtype([("first", "i8"), ("jobs", "i8"), ("offset", "f8")], align=True)


class Jobsets(NamedTuple):
    """K jobsets: rows of two tables, one set after the other; `sets` says where each begins, and its trace time of time 0."""

    jobs: np.ndarray  # [L] of job_dtype
    truth: np.ndarray  # [L] of truth_dtype
    sets: np.ndarray  # [K] of set_dtype
    factor: np.ndarray  # [K, kinds, N] of affinity, of each; empty: as they are
    outages: np.ndarray  # [K, F] of outage_dtype
    risk: np.ndarray  # [K, T, N]


def no_jobsets(like: State) -> Jobsets:
    """For simulations that begin with none of them."""
    jobs, truth = np.zeros(0, like.jobs.dtype), np.zeros(0, like.truth.dtype)
    return Jobsets(jobs, truth, np.zeros(0, set_dtype), np.zeros((0, 1, 1)), like.outages[:0], like.risk[:0])


@inlined
def renew(s, e, plans, k):
    """Begin simulation e again with jobset k; its cluster and settings stay."""
    sim, one, R = s.sims[e], plans.sets[k], len(s.nodes[e, 0]["free"])
    sim["now"], sim["wake"], sim["head"], sim["tail"] = 0.0, np.inf, -1, -1
    sim["next"] = sim["queued"] = sim["running"] = sim["ended"] = sim["entered"] = sim["left"] = 0
    sim["acted"] = sim["acting"] = 0
    sim["outage"], sim["preemptions"], sim["events"], sim["slice"], sim["lost"] = 0, 0, 0, 0, 0.0
    sim["trials"], sim["shown"] = 0, 0
    sim["jobs"], sim["origin"] = one["jobs"], one["offset"]
    for i in range(s.nodes.shape[1]):
        s.nodes[e, i]["up"] = 1
        for r in range(R):
            s.nodes[e, i]["free"][r] = s.nodes[e, i]["capacity"][r]
    last = s.slices.shape[1] - 1
    for i in range(last):
        s.slices[e, i]["next"] = i + 1
    s.slices[e, last]["next"] = -1
    for kind in range(plans.factor.shape[1] if len(plans.factor) > 0 else 0):
        for i in range(plans.factor.shape[2]):
            s.factor[e, kind, i] = plans.factor[k, kind, i]
    for i in range(s.outages.shape[1]):
        if i < plans.outages.shape[1]:
            s.outages[e, i] = plans.outages[k, i]
        else:
            s.outages[e, i]["time"] = np.inf
    for i in range(min(s.risk.shape[1], plans.risk.shape[1])):
        for n in range(s.risk.shape[2]):
            s.risk[e, i, n] = plans.risk[k, i, n]
    for i in range(one["jobs"]):
        s.jobs[e, i] = plans.jobs[one["first"] + i]
        s.truth[e, i] = plans.truth[one["first"] + i]
        s.truth[e, i]["heap"] = -1
