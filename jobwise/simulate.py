"""simulate(workload, policy) -> Record: the assembling function. Read this file second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Policy
from jobwise.errors import InputError
from jobwise.jobs import Workload
from jobwise.loops import STEPS, asked, compiled, is_compiled
from jobwise.policies.gate import Look
from jobwise.policies.names import resolve
from jobwise.policies.neural import NeuralPolicy
from jobwise.sim.simulation import Simulation
from jobwise.sim.state import State, allocate


@dataclass(frozen=True, eq=False)
class Record:
    """A finished simulation: the job table as it ended, in the workload's order.

    `jobs`: [J] of `job_dtype(R)`, times in s from the first submit. `runtime`: [J] s of work. `policy`: its name.
    """

    jobs: np.ndarray
    runtime: np.ndarray
    cluster: Cluster
    policy: str
    workload: Workload
    preemptions: int = 0
    events: int = 0
    looks: tuple[Look, ...] = ()  # of a gate: who decided from when on, and why

    def summary(self) -> dict[str, float]:
        """The usual metrics: see `jobwise.metrics.summary`."""
        from jobwise.metrics import summary

        return summary(self)


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
    """Replay `workload` on `cluster` (its own by default) under `policy`, a name or a Policy.

    `tick`: decisions fall on multiples of so many seconds (0: at every event). `on_failure`: what a node's failure does to
    its jobs: requeue, fail or stall. `kill_at_walltime`: no job runs longer than it asked for. `single_events`: decide after
    every single event, arrivals first, as RLScheduler does, not once per instant. `progress(ended, jobs)` is called now and
    then. Raises InputError where the policy is unknown, decides nonsense, or leaves jobs waiting for ever.
    """
    policy = resolve(policy)
    if getattr(policy, "placement", "first") != "first" and (cluster or workload.cluster).is_pool:
        raise InputError(
            f"policy {policy.name}: a pool of processors has no places; +{policy.placement} is for clusters of nodes"
        )
    single_events |= isinstance(policy, NeuralPolicy) and policy.act.single_events
    sim = Simulation(
        workload,
        cluster,
        seed=seed,
        tick=tick,
        on_failure=on_failure,
        restart_cost_s=restart_cost_s,
        kill_at_walltime=kill_at_walltime,
        single_events=single_events,
    )
    if is_compiled(policy, sim.cluster):
        more = compiled(sim.state, 0, policy, sim.cluster, workload.past)
    elif isinstance(policy, NeuralPolicy):
        more = policy.loop(sim.state, sim.cluster, STEPS // 100)
    else:
        more = asked(sim, policy)
    while more():
        if progress:
            progress(int(sim.state.sims[0]["ended"]), len(workload))
    looks = getattr(more, "looks", None) or getattr(policy, "looks", ())
    return replace(_record(sim.state, 0, workload, sim.cluster, policy), looks=tuple(looks))


def simulate_many(
    workloads: Sequence[Workload],
    policy: str | Policy,
    cluster: Cluster | None = None,
    *,
    after: Callable[[np.ndarray, np.ndarray], None] | None = None,
    **settings,
) -> list[Record]:
    """Replay E workloads side by side on equal machines, in one state with a leading axis [E]; settings as `simulate`.

    Simulation e is seeded with seed + e. The records are those of E single simulations. `after`: see `NeuralPolicy.loop`;
    only such policies make choices that can be told of.
    """
    policy = resolve(policy)
    if not workloads:
        return []
    cluster = cluster or workloads[0].cluster
    if after and not isinstance(policy, NeuralPolicy):
        raise InputError("after is told of the choices of a network; this policy makes none")
    if isinstance(policy, NeuralPolicy):
        settings["single_events"] = settings.get("single_events", False) or policy.act.single_events
        s = allocate(workloads, cluster, **settings)
        more = policy.loop(s, cluster, STEPS, after)
        while more():
            pass
        return [_record(s, e, w, cluster, policy) for e, w in enumerate(workloads)]
    if not is_compiled(policy, cluster):
        seed = settings.pop("seed", 0)
        return [simulate(w, policy, cluster, seed=seed + e, **settings) for e, w in enumerate(workloads)]
    s = allocate(workloads, cluster, **settings)
    for e in range(len(workloads)):
        more = compiled(s, e, policy, cluster, workloads[e].past)
        while more():
            pass
    return [_record(s, e, w, cluster, policy) for e, w in enumerate(workloads)]


def _record(s: State, e: int, workload: Workload, cluster: Cluster, policy: Policy) -> Record:
    """The record of a simulation that is over. Raises InputError where jobs never started."""
    name = getattr(policy, "name", type(policy).__name__)
    jobs, one = s.jobs[e, : len(workload)], s.sims[e]
    if one["ended"] < one["jobs"]:
        waiting = np.flatnonzero(np.isnan(jobs["end"]))
        raise InputError(
            f"{name} left {len(waiting)} jobs waiting for ever (first: job {waiting[0]}, request "
            f"{jobs['request'][waiting[0]].tolist()}); nothing is running and nothing more will arrive"
        )
    runtime = s.truth[e]["runtime"][: len(jobs)].copy()
    return Record(jobs, runtime, cluster, name, workload, int(one["preemptions"]), int(one["events"]))
