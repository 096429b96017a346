"""Schedulers of a site, replayed as a whole: `slurm`, Slurm's own with the site's settings, and list schedulers on its nodes,
partitions and limits. See docs/systems/slurm.md."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import View
from jobwise.errors import InputError
from jobwise.policies.loglinear import Index
from jobwise.policies.scheduler import Scheduler
from jobwise.sim.lists.list_pass import SLURM
from jobwise.sim.memory.groups import NO_MEMORY
from jobwise.sim.memory.history import begin
from jobwise.sim.site import site_list, site_order, slurm_loop, slurm_tables
from jobwise.sim.state import State
from jobwise.site import Site

STEPS = 20_000  # events and passes between two looks at progress and Ctrl-C
EXACT = {"bf_resolution": 0.0, "bf_window": np.inf, "bf_max_test": np.inf}  # of list schedulers: nothing rounded, no horizon


class SiteLoop(NamedTuple):
    """The compiled loop of a scheduler of a site: its settings, its order, and the loop (`slurm_loop.run`, `site_list.run`)."""

    site: Site
    order: site_order.SiteOrder
    run: Callable[..., bool]


class SlurmScheduler(Scheduler):
    """Multifactor priority, main pass and backfill, with the settings of the site that the cluster carries."""

    name = "slurm"
    keeps_caps = True

    def check(self, cluster: Cluster) -> None:
        """Raises InputError for a cluster of which too little is known."""
        if cluster.site is None:
            raise InputError(f"policy {self.name} needs the settings of a site; read them with `jobwise slurm site FOLDER`")

    def is_compiled(self, cluster: Cluster) -> bool:
        """Return True: it replays whole simulations itself."""
        return True

    def replay(self, s: State, cluster: Cluster, pasts: list[np.ndarray], after: Any = None) -> Generator[None, None, None]:
        """Carry out the simulations of `s`; yields now and then."""
        for e in range(len(s.sims)):
            yield from replay_on_site(s, e, self, cluster, pasts[e])

    def on_site(self, cluster: Cluster, jobs: np.ndarray, past: np.ndarray) -> SiteLoop:
        """Return its loop: by Slurm's own priority."""
        return SiteLoop(cluster.known_site, site_order.slurms(), slurm_loop.run)

    def reset(self, view: View) -> None:
        """Raises InputError: a real Slurm decides where there is one."""
        raise InputError(f"policy {self.name} replays whole simulations; it is not asked at every instant")


def replay_on_site(s: State, e: int, policy: Any, cluster: Cluster, past: np.ndarray) -> Generator[None, None, None]:
    """Run simulation e to its end under `policy`, on the nodes, partitions and limits of a site; `past` [K]: the jobs that
    ended before. Yields every STEPS events."""
    loop = policy.on_site(cluster, s.jobs[e, : s.sims[e]["jobs"]], past)
    m = slurm_tables.scheduler(s, e, loop.site)
    while loop.run(s, e, m, loop.order, STEPS):
        yield


def loop_of(policy: Any, cluster: Cluster, jobs: np.ndarray, past: np.ndarray) -> SiteLoop:
    """Return the loop of a list scheduler on a site, for jobs [J]; `past` [K]: the jobs that ended before."""
    weights, memory = np.empty(0), NO_MEMORY
    if isinstance(policy.order, Index):
        weights, memory = policy.order.weights, begin(past, jobs, cluster.processors, False)
    order = site_order.SiteOrder(policy.rule, weights, memory)
    if policy.rule.backfill == SLURM:
        return SiteLoop(cluster.known_site, order, slurm_loop.run)
    return SiteLoop(cluster.known_site.changed(**EXACT), order, site_list.run)
