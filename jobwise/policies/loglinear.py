"""Orders with weights: log-linear scores over the request, what history says of such jobs, and the wait so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from jobwise.decision import View
from jobwise.errors import InputError
from jobwise.policies import files
from jobwise.policies.foreseen import Foreseen
from jobwise.sim import campaign, foresight, forest, history
from jobwise.sim.forest import Forest
from jobwise.sim.loglinear import FEATURES, F, score_linear, weights
from jobwise.sim.orders import LINEAR


@dataclass(frozen=True, eq=False)
class Index:
    """A log-linear order: `weights` [F] of the features of `jobwise.sim.loglinear`; the smaller score starts first.

    `forest`: run times are forecast by it, not by history alone (`jobwise.sim.foresight`). `ageing`: the index is divided by
    ((w + p) / p) to this power, p = 10 s / E[10 / max(run, 10)], by the forest's forecast.

    In whole simulations of a pool it runs compiled; elsewhere its list scheduler keeps a `Memory`.
    """

    label: str
    weights: np.ndarray
    about: dict = field(default_factory=dict)  # what it was trained on, if it was
    forest: Forest | None = None
    ageing: float = 0.0
    code: ClassVar[int] = LINEAR  # of the kernels

    def __post_init__(self):
        weights = np.asarray(self.weights, float)
        if weights.shape != (F,) or not np.isfinite(weights).all():
            raise InputError(f"order {self.label}: {F} finite weights are needed, one for each of {', '.join(FEATURES)}")
        if not 0 <= self.ageing <= 100 or (self.ageing and self.forest is None):
            raise InputError(f"order {self.label}: ageing is 0 to 100, with a forest alone; not {self.ageing}")

    @property
    def given(self) -> np.ndarray:
        """[F + 1] the weights and the ageing, as kernels take them."""
        return np.append(np.asarray(self.weights, float), self.ageing)

    def terms(self) -> dict[str, float]:
        """Feature by feature, the weights."""
        return dict(zip(FEATURES, np.asarray(self.weights, float).tolist(), strict=True))


def save(order: Index, path: str | Path, times: float = np.inf) -> None:
    """Write its policy file, whole or not at all. `times`: the relative guard it was learnt with."""
    meta = {"kind": "index", "features": list(FEATURES), "label": order.label, "about": order.about}
    meta["times"] = times if times < np.inf else None
    tensors = {"weights": np.asarray(order.weights, float)}
    if order.forest is not None:
        meta["forest"], meta["ageing"] = list(foresight.FEATURES), order.ageing
        tensors |= forest.to_tensors(order.forest)
    files.write(path, meta, tensors)


def from_file(parts: dict, tensors: dict[str, np.ndarray], label: str) -> tuple[Index, float]:
    """(the order of a policy file that has been read, its relative guard). Raises ValueError for one of another version."""
    if parts["features"] != list(FEATURES):
        raise ValueError(f"its features are {', '.join(parts['features'])}; this version has {', '.join(FEATURES)}")
    trees = None
    if "forest" in parts:
        if parts["forest"] != list(foresight.FEATURES):
            raise ValueError("its forest sees other features than this version has")
        trees = forest.from_tensors(tensors, campaign.F)
    index = Index(label, tensors["weights"], dict(parts["about"]), trees, float(parts.get("ageing") or 0.0))
    return index, float(parts.get("times") or np.inf)


class Memory:
    """The history of a policy that is asked, in a simulation or on a live cluster: it grows as jobs end."""

    def __init__(self, view: View, trees: Forest | None = None):
        self._history = history.blank(len(view.past) + 1024)
        history.warm(self._history, view.past)
        self.foreseen = Foreseen(trees, view) if trees is not None else None

    def add(self, view: View, rows: np.ndarray, new: bool = True) -> None:
        """These jobs have stopped; not `new`: before the first view."""
        self._history = history.with_room(self._history, len(rows))
        history.observe_rows(self._history, view.table, rows)
        if self.foreseen is not None and new:
            self.foreseen.ended(view, rows)

    def scores(self, index: Index, view: View) -> np.ndarray:
        """[Q] the scores of the queue."""
        out, known = np.empty(len(view.queue)), self.known(index, view)
        free, total = float(view.free[:, 0].sum()), float(view.cluster.processors)
        score_linear(index.given, view.now, view.table, view.queue, free, total, known, out)
        return out

    def known(self, index: Index, view: View) -> np.ndarray:
        """[Q, 4] what is expected of the queue: ratio, short, log ratio, completions; the first two by its forest, if any."""
        known = np.empty((len(view.queue), 4))
        self._history = history.with_room(self._history, len(view.queue))
        history.expect_all(self._history, view.table, view.queue, known)
        if index.forest is not None:
            self.foreseen.forecast(view, known)
        return known

    def explain(self, index: Index, view: View) -> list[dict]:
        """Per queued job its row, score (smallest first), features, and `moved`: what each adds to the score beyond what the
        mean of the queue adds."""
        scores, known = self.scores(index, view), self.known(index, view)
        x = features(view, known)
        moved = np.asarray(index.weights, float) * (x - x.mean(axis=0))
        ranked = []
        for i in np.lexsort((view.queue, scores)):
            both = (dict(zip(FEATURES, row.tolist(), strict=True)) for row in (x[i], moved[i]))
            ranked.append(
                dict(zip(("features", "moved"), both, strict=True)) | {"job": int(view.queue[i]), "score": float(scores[i])}
            )
        return ranked

    def predicted(self, view: View) -> np.ndarray:
        """The job table with the expected run time of each queued job as its walltime."""
        table, known = view.table.copy(), np.empty((len(view.queue), 4))
        self._history = history.with_room(self._history, len(view.queue))
        history.expect_all(self._history, view.table, view.queue, known)
        table["walltime"][view.queue] = known[:, 0] * np.maximum(table["walltime"][view.queue], 1.0)
        return table


def features(view: View, known: np.ndarray) -> np.ndarray:
    """[Q, F] the features of `jobwise.sim.loglinear` of the queue; known [Q, 4] of `history.expect_all`. For explanations: the
    scores themselves are compiled."""
    job = view.jobs[view.queue]
    r, n, w = np.maximum(job["walltime"], 1.0), job["request"][:, 0].astype(float), view.now - job["submit"]
    free, total, crowd = float(view.free[:, 0].sum()), float(view.cluster.processors), min(len(job), 200) / 100
    log_r, log_n = np.log(r), np.log(np.maximum(n, 1.0))
    columns = [log_r, log_n, np.log(known[:, 0]), np.log(known[:, 1]), known[:, 2], np.log(w + 60), w / (w + r)]
    columns += [np.log((w + r) / r), (n <= free).astype(float), n / total, crowd * log_n, crowd * log_r]
    return np.stack([*columns, 1 / (1 + known[:, 3]), free / total * log_n], axis=1)


def _family() -> dict[str, Index]:
    """The indices, and each with ageing."""
    plain = {
        "smith": {"log_walltime": 1, "log_processors": 1, "log_ratio": 1, "log_short": -1},
        "smith-requested": {"log_walltime": 1, "log_processors": 1, "log_short": -1},
        "area-history": {"log_walltime": 1, "log_processors": 1, "log_ratio": 1},
        "smith-geo": {"log_walltime": 2, "log_processors": 1, "mean_log_ratio": 2},
    }
    family = {}
    for name, terms in plain.items():
        family[name] = Index(name, weights(**terms))
        family[f"{name}-aged"] = Index(f"{name}-aged", weights(**terms, log_stretch=-AGEING))
    return family


AGEING = 2.0  # the index of a job is divided by ((w + r) / r) to this power
INDICES = _family()
INDEX_DOCS = {
    "smith": "processors x E[run] / E[1 / run], expectations from the history of such jobs",
    "smith-requested": "the same with the request for E[run]",
    "smith-geo": "the same with a geometric mean of run / request",
    "area-history": "processors x E[run]",
}
INDEX_DOCS |= {f"{name}-aged": f"{name}, divided by ((wait + time) / time)^2" for name in INDEX_DOCS}
