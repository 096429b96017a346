"""Risks of the nodes of a live cluster, as a Prometheus says at the moment: any PromQL with a value for each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jobwise.errors import InputError
from jobwise.telemetry.prometheus import Prometheus

STEP_S, STALE_S = 30.0, 300.0  # s between two questions; an older answer counts for nothing


class LiveRisks:
    """The same as `jobwise.policies.avoid.Risks`, of the present alone. `nodes`: names in the order of the cluster; the label
    `instance` names them, a port or a domain behind the name does not matter. A node of which nothing is said has the risk 0;
    so have all, where the server has not answered for STALE_S. `report`: called with what is wrong, once each time that it
    changes."""

    def __init__(
        self, server: Prometheus, query: str, nodes: Sequence[str], step: float = STEP_S, report: Callable[[str], None] = print
    ):
        self.server, self.query, self.step, self.value = server, query, step, np.zeros((1, len(nodes)))
        self._row, self._report = {n: i for i, n in enumerate(nodes)}, report
        self._asked = self._answered = -np.inf
        self._problem = ""

    def at(self, now: float) -> np.ndarray:
        """[N] the risks of now (s), asked for at most every `step`."""
        if now - self._asked >= self.step or now < self._asked:
            self._asked = now
            problem = ""
            try:
                self.value = self._of(self.server.instant(self.query))
                self._answered = now
            except InputError as error:
                problem = f"{error}; what it said last counts for {STALE_S:g} s"
            if problem != self._problem:
                self._problem = problem
                self._report(problem or f"{self.server.url} answers again")
        if now - self._answered > STALE_S:
            self.value = np.zeros_like(self.value)
        return self.value[0]

    def after(self, now: float) -> float:
        """Return the time of the next query."""
        return self._asked + self.step

    def _of(self, values_of: dict[str, float]) -> np.ndarray:
        """[1, N] the largest value that is said of each node. Raises InputError where none of the nodes is named."""
        values, known = np.zeros_like(self.value), 0
        for instance, value in values_of.items():
            host = instance.rsplit(":", 1)[0] if instance.rpartition(":")[2].isdigit() else instance
            row = self._row.get(host, self._row.get(host.split(".")[0], -1))
            if row >= 0 and np.isfinite(value):
                values[0, row], known = max(values[0, row], value), known + 1
        if values_of and not known:
            raise InputError(f"{self.server.url}: speaks of {next(iter(values_of))[:60]!r}, and of no node of this cluster")
        return values
