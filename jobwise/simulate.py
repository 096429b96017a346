"""simulate(workload, policy) -> Record: the assembling function. Read this file second.

A policy replays whole simulations itself where it can (`replay`, compiled); any other is asked at every instant (`asked`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from jobwise.cluster import Cluster, idle_dtype
from jobwise.decision import Policy
from jobwise.errors import InputError, Unfinished, failed, raised_in
from jobwise.policies.names import resolve
from jobwise.policies.scheduler import Scheduler
from jobwise.record import Record
from jobwise.sim.simulation import Simulation
from jobwise.sim.state import State, allocate
from jobwise.workload import Workload

STEPS = 1000  # instants of choice between two looks at progress and Ctrl-C


def simulate(
    workload: Workload,
    policy: str | Policy = "fcfs+easy",
    cluster: Cluster | None = None,
    *,
    seed: int = 0,
    tick: float = 0.0,
    on_failure: str = "requeue",
    restart_cost_s: float = 0.0,
    kill_at_walltime: bool = False,
    single_events: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Record:
    """Replay a workload on a cluster under a scheduler.

    Parameters
    ----------
    workload : Workload
        The jobs.
    policy : str or Policy
        A name such as ``saf+easy+guard24h`` (see `resolve`), or an object with the methods of `Policy`.
    cluster : Cluster, optional
        The machine; by default the workload's own.
    seed : int
        Of policies that draw random numbers.
    tick : float, s
        Decisions fall on multiples of it; 0: at every event.
    on_failure : {"requeue", "fail", "stall"}
        What the failure of a node does to its jobs.
    restart_cost_s : float, s
        How much longer a job runs each time that it is started again.
    kill_at_walltime : bool
        No job runs longer than it asked for.
    single_events : bool
        Decide after every single event, arrivals first, as RLScheduler does, not once an instant.
    progress : callable, optional
        Called now and then with (jobs that have ended, jobs).

    Returns
    -------
    Record
        The jobs with their starts and ends; ``summary()`` has the metrics.

    Raises
    ------
    InputError
        The policy is unknown, decides nonsense, fails, or leaves jobs waiting for ever.

    Examples
    --------
    >>> import jobwise as jw
    >>> r = jw.simulate(jw.lublin(jobs=500, procs=64, seed=1), "sjf+easy")
    >>> bool((r.jobs["start"] >= r.jobs["submit"]).all())
    True
    """
    settings: dict = {"seed": seed, "tick": tick, "on_failure": on_failure, "restart_cost_s": restart_cost_s}
    settings |= {"kill_at_walltime": kill_at_walltime, "single_events": single_events}
    return simulate_many([workload], policy, cluster, progress=progress, **settings)[0]


def simulate_many(
    workloads: Sequence[Workload],
    policy: str | Policy,
    cluster: Cluster | None = None,
    *,
    after: Callable[[np.ndarray, np.ndarray], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> list[Record]:
    """Replay E workloads side by side on equal machines, in one state with a leading axis [E].

    The records are those of E single simulations. Simulation e is seeded with seed + e.

    Parameters
    ----------
    workloads : sequence of Workload
        The jobs of each simulation.
    policy : str or Policy
        The scheduler of all simulations.
    cluster : Cluster, optional
        The machine of each; by default that of the first workload.
    after : callable, optional
        Called after every round of choices of a network with (transitions [E], which simulations chose [E] bool).
    progress : callable, optional
        Called now and then with (jobs that have ended, jobs).
    **settings
        As of `simulate`.

    Returns
    -------
    list of Record

    Raises
    ------
    InputError
        As `simulate`; also where `after` is given and the policy makes no choices.
    """
    chosen: Any = resolve(policy)
    if not workloads:
        return []
    cluster = cluster or workloads[0].cluster
    chosen.check(cluster)
    if cluster.power and cluster.power.cap is not None and not chosen.keeps_caps:
        what = "start deadlines, short-job lanes, trial runs and networks know of no cap on power"
        raise InputError(f"policy {chosen.name}: {what}; take an order such as fcfs+easy")
    if chosen.shifts and not (cluster.power and cluster.power.prices):
        raise InputError(f"policy {chosen.name} holds jobs for cheaper hours, and no prices are known (--prices FILE.csv)")
    settings["tick"] = settings.get("tick") or chosen.tick
    settings["single_events"] = settings.get("single_events", False) or chosen.single_events
    s = allocate(workloads, cluster, shifts=bool(chosen.shifts), **settings)
    if after and not chosen.chooses:
        raise InputError("after is called with the choices of a network; this policy makes none")
    if chosen.is_compiled(cluster):
        steps = chosen.replay(s, cluster, [w.past for w in workloads], after)
    else:
        steps = _asked_in_turn(s, cluster, workloads, chosen)
    total = sum(map(len, workloads))
    while True:
        try:
            next(steps)
        except StopIteration:
            return [record(s, e, w, cluster, chosen) for e, w in enumerate(workloads)]
        if progress:
            progress(int(s.sims["ended"].sum()), total)


def _asked_in_turn(s: State, cluster: Cluster, workloads: Sequence[Workload], policy: Scheduler) -> Generator[None, None, None]:
    for e, w in enumerate(workloads):
        yield from asked(Simulation.of(s.one(e), w, cluster), policy)


def asked(sim: Simulation, policy: Scheduler) -> Generator[None, None, None]:
    """Ask a policy at every instant of choice, to the end; yields now and then. Raises InputError where it fails."""
    name = policy.name

    def call(method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # a user's policy may raise anything
            why = failed(error, sim.state.jobs.dtype.names or ())
            raise InputError(f"{raised_in(error)}policy {name!r} failed at time {sim.now:g} s: {why}") from error

    run, until, steps = call(policy.begin, sim.view()), np.inf, 0
    while not sim.done and sim.advance(until):
        view = sim.view()
        if len(view.ended):
            call(run.ended, view, view.ended)
        decisions = call(run.decide, view)
        if hasattr(decisions, "__iter__"):
            decisions = call(list, decisions)  # a generator decides here
        elif decisions is not None:
            raise InputError(f"policy {name!r} returned {decisions!r} from decide; a list of decisions is expected")
        until = sim.apply(decisions, f"policy {name!r}")
        if until <= sim.now:
            raise InputError(f"policy {name!r} waits until {until:g} s, but it is {sim.now:g} s already")
        steps += 1
        if steps % STEPS == 0:
            yield


def record(s: State, e: int, workload: Workload, cluster: Cluster, policy: Scheduler) -> Record:
    """The record of simulation e, which is over. Raises InputError where jobs never started."""
    name, limit = policy.name, policy.limit
    jobs, one = s.jobs[e, : len(workload)], s.sims[e]
    if one["ended"] < one["jobs"]:
        row = np.flatnonzero(np.isnan(jobs["end"]))
        what = f"{len(row)} jobs waiting for ever (first: job {row[0]}, request {jobs['request'][row[0]].tolist()})"
        if one["running"] and limit < np.inf:
            text = f"{name}: {len(row)} jobs had not ended {limit:,.0f} rows after the last arrival, where it was cut"
            raise Unfinished(f"{text}; they come faster than it runs them (on GPUs, try +slots64 or +leave)")
        raise Unfinished(f"{name} left {what}; nothing is running and nothing more will arrive")
    counters = {k: one[k].item() for k in ("preemptions", "events", "lost", "trials", "shown")}
    idles = cluster.power.idle_times(s, e) if cluster.power else np.zeros(0, idle_dtype)
    return Record(jobs, s.truth[e]["runtime"][: len(jobs)].copy(), cluster, name, workload, **counters, idles=idles)
