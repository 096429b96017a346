"""The world of slots at the instants of a live cluster, or of a simulation that asks: see `jobwise.worlds.Live`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Decision, Reserve, Start, View, Wait
from jobwise.jobs import RUNNING
from jobwise.sim.reset import from_view
from jobwise.worlds.rows import taken
from jobwise.worlds.slots.passes import LOOK, catch_up, stand
from jobwise.worlds.slots.tables import check, grid
from jobwise.worlds.slots.world import SlotsSettings, SlotsWorld

PER_JOB = ("outside", "colour", "promised", "held")  # tables of the world with a row for every job


class LiveSlots:
    """Remembers between two views who stands in which slot, and the picture of the rows to come. `row_s`: seconds in a row."""

    def __init__(self, settings: SlotsSettings, cluster: Cluster, row_s: float):
        self._settings, self._cluster, self._row_s = settings, cluster, row_s
        self._world: Any = None
        self._now = -np.inf

    def at(self, view: View) -> SlotsWorld | None:
        """The world as the view shows it; None where there is nothing to choose. The same again for the same instant."""
        if self._world is None or view.now != self._now:
            self._see(view)
        return self._world if self._world.advance(np.array([LOOK])) else None

    def _see(self, view: View) -> None:
        """Bring the world to this view: on the first draw the jobs that run; later move time on by the rows that have passed,
        and let new jobs queue."""
        cluster, s = view.cluster, from_view(view, True, self._row_s)[0]
        check("the queue", s.jobs[0, view.queue], s.truth[0, view.queue], cluster, self._settings, self._row_s)
        known = self._keep(view)
        arrived = np.array([j for j in view.queue if j not in known], np.int64)
        if self._world is None:
            table = grid(s, cluster, self._settings, np.inf, reject=False)
            table.moment["live"], table.moment["seed"] = 1, view.seed
            self._world = SlotsWorld(self._settings, s, table, self._cluster)
            stand(s, table, 0)
            rows = 0
        else:
            self._make_room(len(view.jobs))
            self._world.state, rows = s, max(round((view.now - self._now) / self._row_s), 0)
        self._now = view.now
        catch_up(s, self._world.grid, 0, rows, arrived)

    def _keep(self, view: View) -> set[int]:
        """Remove jobs that are in the queue no longer; the rows of those that still wait."""
        if self._world is None:
            return set()
        g, queued = self._world.grid, set(view.queue.tolist())
        m = g.moment[0]
        g.slot[0][~np.isin(g.slot[0], view.queue)] = -1
        parts = [g.backlog[0, : m["backlog"]], g.outside[0, m["first_outside"] : m["outside"]]]
        waiting = [int(j) for part in parts for j in part if int(j) in queued]
        for i in np.flatnonzero(g.slot[0] < 0)[: len(waiting)]:
            g.slot[0, i] = waiting.pop(0)
        room = min(len(waiting), g.backlog.shape[1])
        g.backlog[0, :room], g.outside[0, : len(waiting) - room] = waiting[:room], waiting[room:]
        m["backlog"], m["first_outside"], m["outside"] = room, 0, len(waiting) - room
        promised = [int(j) for j in g.promised[0, : m["promised"]] if int(j) in queued]
        g.promised[0, : len(promised)], m["promised"] = promised, len(promised)
        return {*g.slot[0][g.slot[0] >= 0].tolist(), *waiting, *promised}

    def _make_room(self, jobs: int) -> None:
        g = self._world.grid
        if jobs <= g.colour.shape[1]:
            return
        names = PER_JOB if g.moment[0]["reserve"] else PER_JOB[:-1]  # without reservations nothing is held for later
        tables = taken(g, names)
        self._world.grid = g._replace(
            **{name: np.pad(t, [(0, 0), (0, jobs), *[(0, 0)] * (t.ndim - 2)]) for name, t in tables.items()}
        )

    def job(self, action: int) -> int | None:
        """The row of the job that an action speaks of; None for the void action."""
        slot = action // len(self._world.placements)
        row = self._world.grid.slot[0, slot] if action < self._world.void else -1
        return int(row) if row >= 0 else None

    def decisions(self, view: View) -> list[Decision]:
        """Return the decisions made in the view, and to be asked again at the next row."""
        s = self._world.state
        jobs = s.jobs[0]
        decisions: list[Decision] = []
        for j in view.queue:
            if jobs["status"][j] == RUNNING:
                decisions.append(Start(int(j), None if self._cluster.is_pool else self._pieces(j)))
            elif jobs["reserved"][j] != view.jobs["reserved"][j] and not np.isnan(jobs["reserved"][j]):
                decisions.append(Reserve(int(j), float(jobs["reserved"][j])))
        return [*decisions, Wait(view.now + self._row_s)]

    def _pieces(self, job: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
        s, pieces = self._world.state, []
        at = int(s.jobs["held"][0, job])
        while at >= 0:
            piece = s.slices[0, at]
            pieces.append((int(piece["node"]), tuple(piece["amount"].tolist())))
            at = int(piece["next"])
        return tuple(pieces)
