"""Orders with weights: log-linear scores over the request, what history says of such jobs, and the wait so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from jobwise.errors import InputError
from jobwise.policies import files, left
from jobwise.sim.lists.orders import LINEAR
from jobwise.sim.memory.loglinear import FEATURES, F, weights


@dataclass(frozen=True, eq=False)
class Index:
    """A log-linear order: `weights` [F] of the features of `jobwise.sim.memory.loglinear`; the smaller score starts first.

    In whole simulations of a pool it runs compiled; elsewhere its list scheduler keeps a `Memory`.
    """

    label: str
    weights: np.ndarray
    about: dict = field(default_factory=dict)  # what it was trained on, if it was
    code: ClassVar[int] = LINEAR  # of the kernels

    def __post_init__(self):
        weights = np.asarray(self.weights, float)
        if weights.shape != (F,) or not np.isfinite(weights).all():
            raise InputError(f"order {self.label}: {F} finite weights are needed, one for each of {', '.join(FEATURES)}")
        object.__setattr__(self, "weights", weights)

    def terms(self) -> dict[str, float]:
        """Feature by feature, the weights."""
        return dict(zip(FEATURES, self.weights.tolist(), strict=True))


def save(order: Index, path: str | Path) -> None:
    """Write its policy file, whole or not at all."""
    meta: dict[str, Any] = {"kind": "index", "features": list(FEATURES), "label": order.label, "about": order.about}
    files.write(path, meta, {"weights": order.weights})


def from_file(parts: dict, tensors: dict[str, np.ndarray], label: str) -> Index:
    """Return the order of a policy file that has been read. Raises ValueError for one of another version, InputError for one
    that needs what has left."""
    if parts["features"] != list(FEATURES):
        raise ValueError(f"its features are {', '.join(parts['features'])}; this version has {', '.join(FEATURES)}")
    if "forest" in parts:
        left.check("files", "forest")
    if parts.get("times"):
        left.check("files", "guarded")
    return Index(label, tensors["weights"], dict(parts["about"]))


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
