"""Policies in the world of slots (`jobwise/worlds/slots.py`): trained networks, without torch, and rules.

A policy file of `kind` "grid" holds the networks' weights (one, or two that choose slot and placement), and as metadata the
world it plays in (slots, backlog, rows, placements …), the encoder, what it was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Decision, View
from jobwise.encoders.image import GridEncoder, make_grid, placing
from jobwise.errors import InputError, unknown
from jobwise.policies import files
from jobwise.policies.networks import GridForward
from jobwise.sim.random import GOLDEN, mix
from jobwise.sim.state import State
from jobwise.worlds.slot_rules import RULES
from jobwise.worlds.slots_world import Slots, SlotsWorld

WORLD = {  # what of the world a policy depends on, and the values of old
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
LIMIT = 20_000  # rows after the last arrival after which a simulation is cut
MOST_ROWS = 1_000_000
ROUNDS = 1000  # of choices between two looks at progress and Ctrl-C
Choose = Callable[[SlotsWorld], np.ndarray]


class _InSlots:
    """What policies of this world have in common: whole replays, and that they cannot be asked about a view."""

    tick: float
    chooses = True

    @property
    def settings(self) -> Slots:
        """The world it plays in."""
        raise NotImplementedError

    def is_compiled(self, cluster: Cluster) -> bool:
        """It replays whole simulations itself."""
        return True

    def chooser(self, world: SlotsWorld) -> Choose:
        """What chooses in simulations of this world: world -> actions [E]."""
        raise NotImplementedError

    def replay(
        self, s: State, cluster: Cluster, pasts: Sequence[np.ndarray], after: Callable | None = None
    ) -> Generator[None, None, None]:
        """The simulations of `s` to their ends, side by side, one choice of each a round; yields now and then.
        `after(transitions [E], rows [E] bool)` is called after every round."""
        if (rows := float(s.sims["tick"][0] and np.nanmax(s.jobs["submit"]) / s.sims["tick"][0])) > MOST_ROWS:
            text = f"a log of {rows:,.0f} rows of {self.tick:g} s is too long; make rows longer, e.g. slots:sjf+pack@600s"
            raise InputError(f"policy {self.name}: {text}")
        world, rounds = self.settings.attach(s, cluster, self.limit), 0
        choose, done = self.chooser(world), world.begin()
        while not done.all():
            asked = done == 0
            done = world.advance(choose(world))
            if after:
                after(world.transition, asked)
            rounds += 1
            if rounds % ROUNDS == 0:
                yield

    def reset(self, view: View) -> None:
        """Nothing to forget."""

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Nothing to learn."""

    def decide(self, view: View) -> Iterable[Decision]:
        """It cannot be asked about one view: the rows to come are remembered from the beginning of a simulation."""
        raise InputError(
            f"policy {self.name}: plays whole simulations in the world of slots; it cannot be asked about one instant"
        )


@dataclass(frozen=True, eq=False)
class SlotRule(_InSlots):
    """RULE[+PLACEMENT] of `jobwise.worlds.slot_rules` in the world of slots, e.g. `sjf`, `tetris+pack`. `tick`: s in a row."""

    rule: str
    world: Slots = field(default_factory=Slots)
    tick: float = 1.0
    limit: float = LIMIT

    def __post_init__(self):
        if self.rule.partition("+")[0] not in RULES:
            raise unknown("rule", self.rule.partition("+")[0], RULES)

    @property
    def name(self) -> str:
        """As in `slots:sjf+pack@600s`."""
        return f"slots:{self.rule}" + (f"@{self.tick:g}s" if self.tick != 1 else "")

    @property
    def settings(self) -> Slots:
        """The world, with its one placement."""
        placement = self.rule.partition("+")[2] or self.world.placements[0]
        return replace(self.world, order="", masked=True, ask_always=True, placements=(placement,))

    def chooser(self, world: SlotsWorld) -> Choose:
        """The rule."""
        return lambda world: world.by_rule(self.rule.partition("+")[0])


@dataclass(frozen=True, eq=False)
class GridPolicy(_InSlots):
    """Networks that choose slots (and placements); `world`: settings of `Slots`, and the name of the encoder.

    `greedy`: the most probable action; else actions are drawn, as DeepRM is tested, for each simulation from its own seed.
    """

    networks: tuple[GridForward, ...]
    world: dict[str, Any]
    shape: tuple[int, ...]  # of an observation
    units: tuple[int, ...]  # [R] units per resource of the cluster, summed
    label: str = "grid"
    about: dict = field(default_factory=dict)
    greedy: bool = False
    limit: float = LIMIT

    @property
    def name(self) -> str:
        """Its label."""
        return self.label

    @property
    def tick(self) -> float:
        """Seconds in a row; 1 for generated jobs, whose times are rows."""
        config = self.about.get("config") or {}
        return float(config.get("row_s", 1.0)) if config.get("generator") == "log" else 1.0

    @property
    def settings(self) -> Slots:
        """The world it plays in."""
        return Slots.of(self.world)

    def encoder(self, cluster: Cluster) -> GridEncoder:
        """The encoder for this cluster. Raises InputError where the policy was made for another."""
        if len(cluster.total) != len(self.units) or tuple(cluster.total.tolist()) != tuple(self.units):
            text = f"was made for {list(self.units)} units; this cluster has {cluster.total.tolist()}"
            raise InputError(f"policy {self.label} {text}")
        w = self.settings
        found = make_grid(self.world["encoder"], cluster, w.slots, w.backlog, rows=w.rows)
        if found.shape != tuple(self.shape):
            raise InputError(f"policy {self.label} sees {list(self.shape)} numbers; this world shows {list(found.shape)}")
        return found

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where it was made for another cluster."""
        self.encoder(cluster)

    def chooser(self, world: SlotsWorld) -> Choose:
        """The networks."""
        E, encoder = len(world.state.sims), self.encoder(world.cluster)
        out = np.zeros((E, *encoder.shape), np.float32)
        place = np.zeros((E, 2, encoder.rows, int(world.cluster.capacity.sum())), np.float32)
        dice = (world.state.sims["seed"].astype(np.uint64) + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)

        def choose(world: SlotsWorld) -> np.ndarray:
            encoder.encode(world.state, world.grid, out)
            mask, P = world.mask.astype(bool), len(world.placements)
            if len(self.networks) == 1:
                return self._draw(self.networks[0](out), mask, dice)
            slots = self._draw(self.networks[0](out), np.concatenate([mask[:, :-1:P], mask[:, -1:]], axis=1), dice)
            M = mask.shape[1] // P
            asked = (slots < M) & world.placeable[np.arange(E), np.clip(slots, 0, M - 1)]
            actions = np.where(slots < M, slots * P, world.void)
            if asked.any():
                placing(world.grid.waiting, world.grid, np.where(asked, slots, -1), place, 0, E)
                some = dice[asked]
                actions[asked] += self._draw(self.networks[1](place[asked]), np.ones((len(some), P), bool), some)
                dice[asked] = some
            return actions

        return choose

    def _draw(self, scores: np.ndarray, mask: np.ndarray, dice: np.ndarray) -> np.ndarray:
        """[E] actions by scores [E, A]; `dice` [E] are the states of their random numbers, which go on."""
        if np.isnan(scores).any():
            raise InputError(f"policy {self.label}: the network answers NaN; was it trained to an end?")
        scores = np.where(mask, scores, -np.inf)
        if not self.greedy:
            scores = scores + _gumbel(dice, scores.shape[1])
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


def _gumbel(dice: np.ndarray, count: int) -> np.ndarray:
    """[E, count] Gumbel noise by splitmix64, as `jobwise.sim.random` has it for kernels; `dice` [E] uint64 goes on."""
    steps = GOLDEN * np.arange(1, count + 1, dtype=np.uint64)
    x = mix(dice[:, None] + steps)
    dice += steps[-1]
    return -np.log(-np.log(((x >> np.uint64(11)).astype(float) + 0.5) / 9007199254740992.0))


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
