"""A site's scheduler in the middle of a queue: the jobs that wait and run stand where they are; futures are played from there.

The running jobs are started anew, in order, each when it started and on its nodes, so that limits, usage and priorities count
them. Clocks of passes are not known: they begin now.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.jobs import FUTURE, RUNNING
from jobwise.sim.site import slurm_tables
from jobwise.sim.site.fair_share import fade
from jobwise.sim.site.slurm_stand import stand
from jobwise.sim.state import State, allocate
from jobwise.site import Site
from jobwise.slurm.read.text import nodes
from jobwise.starts.futures import Drawn
from jobwise.workload import Workload, supposed

STEPS = 1024  # events and passes between two looks at whether all have started


class SitePlayer:
    """Plays futures under a site's own Slurm, or a list scheduler on its nodes. `w`: the jobs of the history, in its order,
    with the lists of nodes that they had or have (`columns["nodes"]`)."""

    fast = True

    def __init__(self, w: Workload, policy: Any):
        if policy.on_site is None:
            raise InputError(f"policy {policy.name}: starts on a site are predicted under slurm and list schedulers")
        policy.check(w.cluster)
        self.w, self.policy, self.site = w, policy, w.cluster.known_site
        self._place = {n: i for i, n in enumerate(self.site.names)}
        self._lists, self._codes = w.names["nodes"], w.columns["nodes"]
        self._of = lru_cache(4096)(self._nodes)

    def _nodes(self, code: int) -> np.ndarray:
        """The numbers of the nodes of a list; those that the site does not have are left out."""
        return np.array([self._place[n] for n in nodes(self._lists[code]) if n in self._place], np.int64)

    def play(self, drawn: Drawn, among: np.ndarray) -> np.ndarray:
        """[K, Q] s: see `starts.futures.Player`."""
        out, running, spent = np.empty((len(drawn.run), len(among))), self._running(drawn), self._spent(drawn)
        for k in range(len(drawn.run)):
            table, run = drawn.future(k)
            loop = self.policy.on_site(self.w.cluster, table, self.w.past)
            s, slurm = self._standing(table, run, loop.site)
            slurm.ledger.usage[:] += spent
            stand(s, 0, slurm, *running, drawn.history.now)
            start = s.jobs[0]["start"]
            while loop.run(s, 0, slurm, loop.order, STEPS):
                if not np.isnan(start[among]).any():
                    break
            out[k] = start[among]
        return out

    def _standing(self, table: np.ndarray, run: np.ndarray, site: Site) -> tuple[State, slurm_tables.SlurmTables]:
        """Return a simulation of jobs `table` [J] with run times `run` (s), before the first of them."""
        jobs, going = table.copy(), table["status"] == RUNNING
        jobs["submit"][going] = np.minimum(jobs["submit"][going], table["start"][going])
        jobs["status"] = FUTURE
        for key in ("start", "end", "queued", "due"):
            jobs[key] = np.nan
        s = allocate([supposed(jobs, run, self.w.cluster, offset=self.w.origin)], self.w.cluster)
        return s, slurm_tables.scheduler(s, 0, site)

    def _running(self, drawn: Drawn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The jobs that run now, as `slurm_stand.stand` takes them: places, starts, where each one's nodes begin, nodes."""
        start, going = drawn.table["start"], np.flatnonzero(drawn.table["status"] == RUNNING)
        going = going[np.argsort(start[going], kind="stable")].astype(np.int64)
        where = [self._of(int(self._codes[drawn.rows[j]])) for j in going]
        return going, start[going], np.cumsum([0, *map(len, where)]), np.concatenate([np.zeros(0, np.int64), *where])

    def _spent(self, drawn: Drawn) -> np.ndarray:
        """[S] what ran until now, as it has faded since, where the site does not say how much everyone has used."""
        site, h = self.site, drawn.history
        usage = np.zeros(len(site.associations))
        if site.associations["usage"].any() or not site.settings[0]["charged"]:
            return usage
        jobs = h.jobs[h.jobs["start"] <= h.now]
        ago, begun = h.now - np.minimum(np.nan_to_num(jobs["end"], nan=np.inf), h.now), h.now - jobs["start"]
        half = float(site.settings["half_life"][0])
        rate = -np.log(fade(site.settings[0], 1.0)) if half < np.inf else 0.0
        seconds = (np.exp(-rate * ago) - np.exp(-rate * begun)) / rate if rate > 0 else begun - ago
        at, spent = slurm_tables.leaves(jobs, site), seconds * jobs["request"][:, 0]
        while (at >= 0).any():  # all of it counts for the accounts above, too
            usage += np.bincount(at + 1, spent, len(usage) + 1)[1:]
            at = np.where(at >= 0, site.associations["parent"][at], -1)
        return usage
