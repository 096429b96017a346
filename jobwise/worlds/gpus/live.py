"""The world of assignments at the instants of a live cluster, or of a simulation that asks: see `jobwise.worlds.Live`."""

from __future__ import annotations

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Decision, Preempt, Start, View, Wait
from jobwise.jobs import RUNNING
from jobwise.sim.kernel import share
from jobwise.sim.reset import from_view, there_are
from jobwise.worlds.gpus.passes import look
from jobwise.worlds.gpus.tables import gpus
from jobwise.worlds.gpus.world import GpusSettings, GpusWorld


class LiveGpus:
    """Remembers between two views who stands in which place, and how much of a job is done. `row_s`: seconds in a row."""

    def __init__(self, settings: GpusSettings, cluster: Cluster, row_s: float):
        settings.check(cluster)
        self._settings, self._cluster, self._row_s = settings, cluster, row_s
        self._world: GpusWorld | None = None
        self._now = -np.inf
        self._behind = np.zeros(0, np.int64)  # rows of jobs that wait behind the slots
        self._had = np.zeros(0, np.int32)  # the place whose job holds each GPU, before the assignment
        self._done: dict[int, float] = {}  # s of work at full speed, by row
        self._rate: dict[int, float] = {}  # of the jobs that ran in the last view

    def at(self, view: View) -> GpusWorld | None:
        """Return the world as the view shows it; None where all is assigned, or no job is there."""
        if view.now == self._now or not len(view.queue) + len(view.running):
            return None
        self._see(view)
        return self._world

    def _see(self, view: View) -> None:
        """Bring the world to this view."""
        s, running = from_view(view, True, self._row_s)[0], view.running.tolist()
        for j, rate in self._rate.items():
            since = max(self._now, float(view.jobs["start"][j]))
            until = view.now if j in running else float(np.nan_to_num(view.jobs["end"][j], nan=view.now))
            self._done[j] = self._done.get(j, 0.0) + rate * max(min(until, view.now) - since, 0.0)
        truth = s.truth[0]
        for j, done in self._done.items():
            truth["left"][j] = truth["runtime"][j] - done
        unseen = [j for j in running if j not in self._done]  # started by others, or before the first view
        truth["left"][unseen] = truth["runtime"][unseen] - np.maximum(view.now - view.jobs["start"][unseen], 0.0)
        truth["left"][view.queue] = truth["runtime"][view.queue] - [self._done.get(int(j), 0.0) for j in view.queue]
        truth["updated"] = view.now
        share(s, 0)
        self._done |= {j: float(truth["runtime"][j] - truth["left"][j]) for j in running}
        table = gpus(s, self._cluster, self._settings, np.inf)
        table.moment["live"] = 1
        before = self._world.gpus if self._world else None
        if before is not None:
            table.place[:] = before.place
            table.moment["seed"] = before.moment["seed"]
        place = table.place[0]
        place["job"][~np.isin(place["job"], np.concatenate([view.queue, view.running]))] = -1
        placed = set(place["job"].tolist())
        rows = [np.array([j for j in np.sort(some) if j not in placed], np.int64) for some in (view.running, view.queue)]
        look(s, table, *rows)
        there_are(s, (view.free[:, 0] > 0) | (table.has[0] >= 0))  # GPUs of others, and those that are down, are not
        self._world, self._now = GpusWorld(self._settings, s, table, self._cluster), view.now
        self._had = table.has[0].copy()
        slots, P = self._settings.slots, len(place)
        standing = [p for p in range(slots) if place["job"][p] >= 0 and place["held"][p] == 0]
        self._behind = rows[1][len(rows[1]) - int(table.moment["behind"][0]) :]
        self._world.waiting = [*sorted(standing, key=lambda p: place["job"][p]), *range(P, P + len(self._behind))]

    def job(self, action: int) -> int | None:
        """The row of the job in a place, or of one behind the slots."""
        assert self._world is not None
        place = self._world.gpus.place[0]
        return int(place["job"][action]) if action < len(place) else int(self._behind[action - len(place)])

    def decisions(self, view: View) -> list[Decision]:
        """The changes of the assignment: jobs that are paused, then jobs that start; to be asked again at the next row."""
        if self._world is None:
            return [Wait(view.now + self._row_s)]
        g, s, out = self._world.gpus, self._world.state, list[Decision]()
        place, pairs = g.place[0], list(zip(self._had.tolist(), g.has[0].tolist(), strict=True))
        changed = sorted({p for before, now in pairs if before != now for p in (before, now) if p >= 0})
        out += [Preempt(int(place["job"][p])) for p in changed if p in self._had]
        for p in changed:
            if len(at := np.flatnonzero(g.has[0] == p)):
                out.append(Start(int(place["job"][p]), tuple((int(i), (1,)) for i in at)))
        self._had = g.has[0].copy()
        running = np.flatnonzero(s.jobs["status"][0] == RUNNING)
        self._rate = dict(zip(running.tolist(), s.truth["rate"][0, running].tolist(), strict=True))
        return [*out, Wait(view.now + self._row_s)]
