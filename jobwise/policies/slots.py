"""A trained policy for a grid of time (`jobwise/worlds/slots.py`): one network, or two that choose slot and placement. No
torch.

Policy files are those of `neural.py`, with `kind` "grid": the networks' weights, and as metadata the grid it plays on (slots,
backlog, rows, placements …), the encoder, what it was trained on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.policies import files
from jobwise.policies.networks import GridForward

WORLD = {  # what of a grid a policy depends on, and the values of old
    "encoder": "deeprm",
    "slots": 10,
    "backlog": 60,
    "rows": 20,
    "placements": ["first"],
    "reserve": True,
    "masked": True,
    "ask_always": True,
    "compat": False,
    "order": "",
}


@dataclass(frozen=True, eq=False)
class GridPolicy:
    """Networks that choose slots (and placements) on a grid; `world`: settings of the `GridVectorEnv` it plays in.

    `greedy`: the most probable action; else actions are drawn, as DeepRM is tested.
    """

    networks: tuple[GridForward, ...]
    world: dict[str, Any]
    shape: tuple[int, ...]  # of an observation
    units: tuple[int, ...]  # [R] units per resource of the cluster, summed
    label: str = "grid"
    about: dict = field(default_factory=dict)
    greedy: bool = False

    @property
    def name(self) -> str:
        """Its label."""
        return self.label

    def check(self, env) -> None:
        """Raises InputError where it was made for another grid than that of `env`."""
        if env.encoder.shape != tuple(self.shape):
            raise InputError(f"policy {self.label} sees {list(self.shape)} numbers; this grid shows {list(env.encoder.shape)}")
        if tuple(env.cluster.total.tolist()) != tuple(self.units):
            raise InputError(
                f"policy {self.label} was made for {list(self.units)} units; this cluster has {env.cluster.total.tolist()}"
            )

    def choose(self, env, rng: np.random.Generator) -> np.ndarray:
        """[E] actions for the simulations of a GridVectorEnv."""
        mask = env.mask.astype(bool)
        if len(self.networks) == 1:
            return self._draw(self.networks[0](env.show()), mask, rng)
        P = len(env.placements)
        slots = self._draw(self.networks[0](env.show()), np.concatenate([mask[:, :-1:P], mask[:, -1:]], axis=1), rng)
        M = mask.shape[1] // P
        asked = (slots < M) & env.placeable[np.arange(len(slots)), np.clip(slots, 0, M - 1)]
        actions = np.where(slots < M, slots * P, env.void)
        if asked.any():
            x = env.show_placing(np.where(asked, slots, -1))[asked]
            actions[asked] += self._draw(self.networks[1](x), np.ones((len(x), P), bool), rng)
        return actions

    def _draw(self, scores: np.ndarray, mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if np.isnan(scores).any():
            raise InputError(f"policy {self.label}: the network answers NaN; was it trained to an end?")
        scores = np.where(mask, scores, -np.inf)
        if not self.greedy:
            scores = scores + rng.gumbel(size=scores.shape)
        return scores.argmax(axis=1)

    def save(self, path: str | Path) -> None:
        """Write the policy file, whole or not at all."""
        weights = {
            f"{i}.{k}": np.ascontiguousarray(v, np.float32) for i, n in enumerate(self.networks) for k, v in n.weights.items()
        }
        meta = {
            "kind": "grid",
            "world": self.world,
            "shape": list(self.shape),
            "units": list(self.units),
            "networks": [n.spec for n in self.networks],
            "about": {"label": self.label, **self.about},
        }
        files.write(path, meta, weights)


def from_file(parts: dict, weights: dict[str, np.ndarray], name: str) -> GridPolicy:
    """The policy of a file's metadata and weights. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
    world = dict(parts["world"])
    if set(world) != set(WORLD):
        raise ValueError(f"a grid is told by {', '.join(WORLD)}")
    if not 1 <= len(parts["networks"]) <= 2:
        raise ValueError("a policy has one network or two")
    networks = tuple(
        GridForward(spec, {k.split(".", 1)[1]: v for k, v in weights.items() if k.startswith(f"{i}.")})
        for i, spec in enumerate(parts["networks"])
    )
    shape, units = tuple(int(n) for n in parts["shape"]), tuple(int(n) for n in parts["units"])
    return GridPolicy(networks, world, shape, units, name, dict(parts["about"]))
