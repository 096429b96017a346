"""Trained networks as a policy like any other: an encoder, one network or two, a world to choose in. No torch.

A policy file (`files.py`) holds the weights, and as metadata the encoder (name, version, settings, scaling), the networks, the
world's settings, what it was trained on. Its `kind` is the name of its world, whose folder reads and writes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.policies import files
from jobwise.policies.chooser import LIMIT, Choose, Chooser
from jobwise.policies.networks import Forward
from jobwise.sim.random import GOLDEN, mix
from jobwise.worlds import World


class Lens:
    """What stands between the world and a policy's network (`jobwise.learn.probe`): here, clear glass."""

    def show(self, world: Any, encoder: Any, out: np.ndarray, shown: np.ndarray) -> None:
        """Fill `shown` [E, …], which the network sees, where `out` is what the encoder says of the world."""
        shown[:] = out

    def chose(self, world: Any, shown: np.ndarray, actions: np.ndarray) -> None:
        """The network has chosen actions [E, …]."""


@dataclass(frozen=True, eq=False)
class NeuralPolicy(Chooser):
    """Networks that choose in a world; each world has a subclass of its own (`worlds/*/policy.py`).

    `encoder`: an encoder, or the metadata of one (made when the machine is known). `world`: the world's settings. `greedy`: the
    most probable action; else actions are drawn, as DeepRM is tested, for each simulation from its own seed. `lens`: what
    stands between the world and the network.
    """

    looks = True

    networks: Any  # one Forward or several; a tuple of them after the beginning
    encoder: Any
    world: Any
    label: str = "neural"
    about: dict = field(default_factory=dict)  # what it was trained on, by which version, and how well it did
    greedy: bool = True
    tick: float = 0.0  # s in a row
    limit: float = LIMIT
    lens: Lens | None = None

    def __post_init__(self):
        if not isinstance(self.networks, tuple):
            object.__setattr__(self, "networks", (self.networks,))
        if wrong := [type(x).__name__ for x in self.networks if not isinstance(x, Forward)]:
            raise InputError(
                f"a network is a jobwise.policies.networks.Forward, made of weights by name, not {wrong[0]}: "
                "docs/learning.md, Policy files"
            )

    @property
    def name(self) -> str:
        """The label that it was made with."""
        return self.label

    @property
    def forward(self) -> Forward:
        """The network that chooses the job."""
        return self.networks[0]

    @property
    def metadata(self) -> dict:
        """The metadata of its encoder."""
        return self.encoder if isinstance(self.encoder, dict) else self.encoder.metadata()

    def made(self, cluster: Cluster) -> Any:
        """Return the encoder for this machine. Raises InputError."""
        raise NotImplementedError

    def bound(self, cluster: Cluster) -> Any:
        """Return the encoder for this machine. Raises InputError where the policy was made for another."""
        try:
            return self.made(cluster)
        except InputError as error:
            raise InputError(f"policy {self.name}: {error}") from None

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where it was made for another cluster."""
        self.bound(cluster)

    # -------------------------------------------------------------- choosing

    def picker(self, world: World, encoder: Any, out: np.ndarray, dice: np.ndarray | None) -> Choose:
        """Return what chooses actions [E] once `out` [E, …] shows the world: by default the best valid one, or one drawn."""
        return lambda world: self._draw(self.forward(out), world.masks.astype(bool), dice)

    def chooser(self, world: Any, cluster: Cluster) -> Choose:
        """The networks, with memory for observations and random numbers of their own."""
        encoder = self.bound(cluster)
        out, dice = np.zeros((len(world.counts), *encoder.shape), np.float32), None
        if not self.greedy:
            dice = (world.state.sims["seed"].astype(np.uint64) + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
        lens = self.lens
        shown = out if lens is None else np.zeros_like(out)
        pick = self.picker(world, encoder, shown, dice)

        def chosen(world: World) -> np.ndarray:
            world.encode(encoder, out)
            if lens is not None:
                lens.show(world, encoder, out, shown)
            try:
                actions = pick(world)
                if lens is not None:
                    lens.chose(world, shown, actions)
                return actions
            except FloatingPointError:
                raise InputError(
                    f"policy {self.name}: the network answers NaN at time {world.now:g} s; was it trained to an end?"
                ) from None

        return chosen

    def _draw(self, scores: np.ndarray, mask: np.ndarray, dice: np.ndarray | None) -> np.ndarray:
        """[E] actions by scores [E, A]; `dice` [E]: the states of their random numbers, which go on (None: the best)."""
        scores = np.where(mask, sound(scores), -np.inf)
        if dice is not None:
            scores = scores + _gumbel(dice, scores[0].size).reshape(scores.shape)
        return scores.argmax(axis=-1)

    def with_network(self, network: Forward) -> NeuralPolicy:
        """Return the same with another network in place of the first."""
        return replace(self, networks=(network, *self.networks[1:]))

    def allowed(self, world: Any) -> np.ndarray:
        """Return which of the actions that the first network scores are valid now, [E, …, A] bool."""
        return np.asarray(world.masks) > 0

    def ranked(self, shown: np.ndarray, counts: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return the scores [K, …, A] of all actions where `shown` [K, …] shows the world; `counts` [K] valid ones, `actions`
        [K, …] what was chosen there."""
        return self.forward(shown)

    def valid(self, world: World) -> np.ndarray:
        """Return the actions [V] that `explained` ranks."""
        return np.arange(int(world.counts[0])) if world.masks is None else np.flatnonzero(world.masks[0])

    def scores(self, world: World, out: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Return the scores [V] of valid actions, where `out` [1, …] shows the world."""
        return self.forward(out)[0][valid]

    def reasons(self, encoder: Any, x: np.ndarray, scores: np.ndarray) -> list[dict]:
        """Return for each valid action {"features", "moved"}: nothing, where a network has no row per job."""
        return [{"features": {}, "moved": {}}] * len(scores)

    def explained(self, world: World, cluster: Cluster) -> list[dict]:
        """The valid actions of the next choice, highest score first: `action`, `score`, and for networks per job `features`
        and `moved`: per feature, how much lower the score were if the job had the mean of the window there."""
        encoder = self.bound(cluster)
        out = np.zeros((1, *encoder.shape), np.float32)
        world.encode(encoder, out)
        valid = self.valid(world)
        scores = self.scores(world, out, valid)
        why = self.reasons(encoder, out[0, : len(valid)], scores)
        order = np.argsort(-scores, kind="stable")
        return [{"action": int(valid[i]), "score": float(scores[i])} | why[i] for i in order]

    # -------------------------------------------------------------- files

    def meta(self) -> dict:
        """Return what the policy file tells beside `about`: its kind, world, encoder, networks."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the policy file, whole or not at all."""
        weights = {
            f"{i}.{k}": np.ascontiguousarray(v, np.float32) for i, n in enumerate(self.networks) for k, v in n.weights.items()
        }
        files.write(path, self.meta() | {"about": {"label": self.label, **self.about}}, weights)


def networks_of(meta: dict, weights: dict[str, np.ndarray]) -> tuple[Forward, ...]:
    """Return the networks of a file of a world of rows. Raises ValueError."""
    if not 1 <= len(meta["networks"]) <= 2:
        raise ValueError("a policy has one network or two")
    return tuple(
        Forward(spec, {k.split(".", 1)[1]: v for k, v in weights.items() if k.startswith(f"{i}.")})
        for i, spec in enumerate(meta["networks"])
    )


def sound(scores: np.ndarray) -> np.ndarray:
    """Scores as they are. Raises FloatingPointError where one is not a number."""
    if np.isnan(scores).any():
        raise FloatingPointError("NaN")
    return scores


def _gumbel(dice: np.ndarray, count: int) -> np.ndarray:
    """[E, count] Gumbel noise by splitmix64, as `jobwise.sim.random` has it for kernels; `dice` [E] uint64 goes on."""
    steps = GOLDEN * np.arange(1, count + 1, dtype=np.uint64)
    x = mix(dice[:, None] + steps)
    dice += steps[-1]
    return -np.log(-np.log(((x >> np.uint64(11)).astype(float) + 0.5) / 9007199254740992.0))
