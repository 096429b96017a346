"""`slurm`: Slurm's own scheduler with the settings of a site, replayed as a whole. See docs/systems/slurm.md."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import View
from jobwise.errors import InputError
from jobwise.record import Look
from jobwise.sim import slurm_loop, slurm_tables
from jobwise.sim.state import State

STEPS = 20_000  # events and passes between two looks at progress and Ctrl-C


class SlurmScheduler:
    """Multifactor priority, main pass and backfill, with the settings of the site that the cluster carries."""

    name = "slurm"

    def check(self, cluster: Cluster) -> None:
        """Raises InputError for a cluster of which too little is known."""
        if cluster.site is None:
            raise InputError(f"policy {self.name} needs the settings of a site; read them with `jobwise slurm site FOLDER`")

    def is_compiled(self, cluster: Cluster) -> bool:
        """Always."""
        return True

    def replay(
        self, s: State, cluster: Cluster, pasts: list[np.ndarray], after=None
    ) -> Generator[None, None, list[list[Look]]]:
        """Carry out the simulations of `s`; yields now and then."""
        for e in range(len(s.sims)):
            m = slurm_tables.scheduler(s, e, cluster.site)
            while slurm_loop.run(s, e, m, STEPS):
                yield
        return [[] for _ in range(len(s.sims))]

    def reset(self, view: View) -> None:
        """Raises InputError: a real Slurm decides where there is one."""
        raise InputError(f"policy {self.name} replays whole simulations; it is not asked at every instant")

    decide = ended = reset
