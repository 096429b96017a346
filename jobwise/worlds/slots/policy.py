"""Policies of the world of slots: rules, `slots:RULE[+PLACEMENT][@600s]`, networks, and their files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.policies import parts
from jobwise.policies.chooser import LIMIT, Choose, Chooser
from jobwise.policies.neural import NeuralPolicy, networks_of
from jobwise.sim.lists.placement import PLACEMENTS
from jobwise.worlds import Live
from jobwise.worlds.slots.encoder import GridEncoder, load_grid, placing
from jobwise.worlds.slots.live import LiveSlots
from jobwise.worlds.slots.rules import RULES
from jobwise.worlds.slots.world import SlotsSettings

PREFIX, HEADING = "slots", "jobs in slots, on a grid of time"
DOCS = {
    "fcfs": "first come, first served, of the jobs in the slots that fit now (DeepRM's world)",
    "sjf": "the shortest first",
    "tetris": "best fit to what is free",
    "saf": "the smallest area first",
    "drf": "the smallest dominant share first",
    "las": "the least service so far first",
    "random": "any slot, or none",
    "hold": "the shortest first, large jobs held back",
}


class InSlots:
    """The common part of rules and networks of this world."""

    world: Any
    tick: float

    spec, jobsets, on_nodes = "slots", True, True

    def live(self, cluster: Cluster) -> Live:
        """Return its world at the instants of a live cluster."""
        return LiveSlots(self.world, cluster, self.tick or 1.0)


@dataclass(frozen=True, eq=False)
class SlotsRule(InSlots, Chooser):
    """RULE[+PLACEMENT] of `jobwise.worlds.slots.rules` in the world of slots, e.g. `sjf`, `tetris+pack`. `tick`: s in a row."""

    rule: str
    settings: SlotsSettings = field(default_factory=SlotsSettings)
    tick: float = 1.0
    limit: float = LIMIT

    def __post_init__(self):
        rule, _, placement = self.rule.partition("+")
        if rule not in RULES:
            raise unknown("rule", rule, RULES, "slots: ")
        if placement not in ("", *PLACEMENTS) or self.rule.endswith("+"):
            raise unknown("placement", placement, PLACEMENTS, f"slots:{self.rule}: ")
        if not 0 < self.tick < inf:
            raise InputError(f"policy slots:{self.rule}: a row takes more than 0 s, not {self.tick}")

    @property
    def name(self) -> str:
        """The name as in `slots:sjf+pack@600s`."""
        return parts.rows_name(PREFIX, self.rule, [], self.tick, 1.0)

    @property
    def world(self) -> SlotsSettings:
        """The world, with its one placement."""
        placement = self.rule.partition("+")[2] or self.settings.placements[0]
        return replace(self.settings, order="", masked=True, ask_always=True, placements=(placement,))

    def chooser(self, world: Any, cluster: Cluster) -> Choose:
        """Return the function that chooses slots by the rule."""
        return lambda world: world.by_rule(self.rule.partition("+")[0])


@dataclass(frozen=True, eq=False)
class SlotsPolicy(InSlots, NeuralPolicy):
    """A network that chooses a slot (and its placement), or two, of which the second chooses the placement."""

    def made(self, cluster: Cluster) -> GridEncoder:
        """Return the encoder for this machine. Raises InputError."""
        return load_grid(self.metadata, cluster)

    def picker(self, world: Any, encoder: GridEncoder, out: np.ndarray, dice: np.ndarray | None):
        """Return what chooses: one network an action; of two the first a slot, the second the placement of its job (CuSH)."""
        if len(self.networks) == 1:
            return super().picker(world, encoder, out, dice)
        E, units = len(out), int(world.grid.capacity.sum())
        images = np.zeros((E, 2, encoder.rows, units), np.float32)

        def chosen(world: Any) -> np.ndarray:
            mask, P = world.masks.astype(bool), len(world.placements)
            slots = self._draw(self.forward(out), np.concatenate([mask[:, :-1:P], mask[:, -1:]], axis=1), dice)
            M = mask.shape[1] // P
            asked = (slots < M) & world.placeable[np.arange(E), np.clip(slots, 0, M - 1)]
            actions = np.where(slots < M, slots * P, world.void)
            if asked.any():
                placing(world.grid.waiting, world.grid, np.where(asked, slots, -1), images, 0, E)
                some = None if dice is None else dice[asked]
                actions[asked] += self._draw(self.networks[1](images[asked]), np.ones((int(asked.sum()), P), bool), some)
                if dice is not None:
                    dice[asked] = some
            return actions

        return chosen

    def allowed(self, world: Any) -> np.ndarray:
        """Return which actions are valid now; with two networks which slots, and the void action."""
        mask, P = world.masks > 0, len(world.placements) if len(self.networks) > 1 else 1
        return np.concatenate([mask[:, :-1:P], mask[:, -1:]], axis=1)

    def valid(self, world: Any) -> np.ndarray:
        """Return the actions that are ranked; with two networks the slots, and the void action."""
        valid = super().valid(world)
        if len(self.networks) == 1:
            return valid
        return np.array([a for a in valid if a % len(world.placements) == 0 or a == world.void])

    def scores(self, world: Any, out: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Return the scores [V] of valid actions."""
        return self.forward(out)[0][valid if len(self.networks) == 1 else valid // len(world.placements)]

    def meta(self) -> dict:
        """Return what the policy file tells beside `about`."""
        known = asdict(self.world) | {"encoder": self.metadata["name"]}
        kept = {k: list(self.metadata[k]) for k in ("shape", "units")}
        return {"kind": "slots", "world": {k: known[k] for k in WORLD}, **kept, "networks": [n.spec for n in self.networks]}


WORLD: dict[str, Any] = {  # what of the world of slots a policy file tells, and the values of old
    "encoder": "deeprm",
    "slots": 10,
    "backlog": 60,
    "rows": 20,
    "placements": ["first"],
    "reserve": True,
    "masked": True,
    "ask_always": True,
    "stall": True,
    "compat": False,
    "order": "",
}


def from_file(meta: dict, weights: dict[str, np.ndarray], label: str) -> SlotsPolicy:
    """Return the policy of a file that has been read. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
    about, networks = dict(meta["about"]), networks_of(meta, weights)
    world = {"stall": WORLD["stall"], **meta["world"]}  # files of 0.1 do not tell it
    if set(world) != set(WORLD):
        raise ValueError(f"a world of slots is told by {', '.join(WORLD)}")
    encoder = {"name": world.pop("encoder"), "slots": world["slots"], "backlog": world["backlog"], "rows": world["rows"]}
    encoder |= {k: [int(n) for n in meta[k]] for k in ("shape", "units")}
    return SlotsPolicy(networks, encoder, SlotsSettings.of(world), label, about, False, row_s(about))


def row_s(about: dict) -> float:
    """Return the seconds in a row of what a policy was trained on; 1 for generated jobs, whose times are rows."""
    config = about.get("config") or {}
    return float(config.get("row_s", 1.0)) if config.get("generator") == "log" else 1.0


def named(policy: str) -> SlotsRule:
    """Return the policy of a name `slots:RULE[+PLACEMENT][@600s]`. Raises InputError."""
    rule, options, tick = parts.split(policy, PREFIX, "slots:sjf+pack@600s", 1.0)
    return SlotsRule("+".join([rule, *options]), SlotsSettings(reserve=False), tick)


def rows() -> dict[str, str]:
    """Return {example: what it does} of the rules and options."""
    shown = {f"{PREFIX}:{rule}": doc for rule, doc in DOCS.items()}
    return shown | {f"{PREFIX}:sjf+pack@600s": "a placement (first, pack, spread or others), and rows of 600 s (1 s)"}
