"""The memory of a policy that is asked view by view, in a simulation or on a live cluster: it is fed by the events of views."""

from __future__ import annotations

import numpy as np

from jobwise.decision import View
from jobwise.policies.loglinear import Index
from jobwise.sim import events
from jobwise.sim.memory import groups, history, memory
from jobwise.sim.memory.loglinear import FEATURES, score_linear


class RunMemory:
    """Run times of ended jobs and, with `forecasts`, the basis of start deadlines. It begins with the content of a view, which
    may be in the middle of a simulation, and takes note of the events of later views."""

    def __init__(self, view: View, forecasts: bool = False):
        m = history.after(view.past, view.cluster.processors, forecasts)
        self.tables = groups.with_rows(m, view.table)
        self._noted = view.events
        memory.note(self.tables, view.table, events.so_far(view.jobs, view.queue, view.now))

    def note(self, view: View) -> None:
        """Take note of the events of a view, once."""
        if view.events is not self._noted:
            self._noted = view.events
            self.tables = groups.with_rows(self.tables, view.table)
            memory.note(self.tables, view.table, view.events)

    def scores(self, index: Index, view: View) -> np.ndarray:
        """[Q] the scores of the queue."""
        out, expected = np.empty(len(view.queue)), self.expected(view)
        free, total = float(view.free[:, 0].sum()), float(view.cluster.processors)
        score_linear(index.weights, view.now, view.table, view.queue, free, total, expected, out)
        return out

    def expected(self, view: View) -> np.ndarray:
        """[Q, 4] the expectations of the queue: ratio, short, log ratio, completions."""
        expected = np.empty((len(view.queue), 4))
        memory.expect_all(self.tables, view.table, view.queue, expected)
        return expected

    def explain(self, index: Index, view: View) -> list[dict]:
        """Per queued job its row, score (smallest first), features, and `moved`: how much each adds to the score beyond what
        the mean of the queue adds."""
        scores, expected = self.scores(index, view), self.expected(view)
        x = features(view, expected)
        moved = index.weights * (x - x.mean(axis=0))
        ranked = []
        for i in np.lexsort((view.queue, scores)):
            both = (dict(zip(FEATURES, row.tolist(), strict=True)) for row in (x[i], moved[i]))
            ranked.append(
                dict(zip(("features", "moved"), both, strict=True)) | {"job": int(view.queue[i]), "score": float(scores[i])}
            )
        return ranked

    def predicted(self, view: View) -> np.ndarray:
        """The job table with the expected run time of each queued job as its walltime."""
        table, expected = view.table.copy(), self.expected(view)
        table["walltime"][view.queue] = expected[:, 0] * np.maximum(table["walltime"][view.queue], 1.0)
        return table


def features(view: View, expected: np.ndarray) -> np.ndarray:
    """[Q, F] the features of `jobwise.sim.memory.loglinear` of the queue; `expected` [Q, 4] as `Memory.expected` returns it.
    For explanations: the scores themselves are compiled."""
    job = view.jobs[view.queue]
    r, n, w = np.maximum(job["walltime"], 1.0), job["request"][:, 0].astype(float), view.now - job["submit"]
    free, total, crowd = float(view.free[:, 0].sum()), float(view.cluster.processors), min(len(job), 200) / 100
    log_r, log_n = np.log(r), np.log(np.maximum(n, 1.0))
    columns = [log_r, log_n, np.log(expected[:, 0]), np.log(expected[:, 1]), expected[:, 2], np.log(w + 60), w / (w + r)]
    columns += [np.log((w + r) / r), (n <= free).astype(float), n / total, crowd * log_n, crowd * log_r]
    return np.stack([*columns, 1 / (1 + expected[:, 3]), free / total * log_n], axis=1)
