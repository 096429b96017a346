"""Trained networks as a policy like any other: an encoder, one network or two, a world to choose in. No torch.

A policy file (`files.py`) holds the weights, and as metadata the encoder (name, version, settings, scaling), the networks, the
world's settings, what it was trained on. Files of `kind` "grid" are for the world of slots, "gpus" for assignments, "nodes" for
buffers, others for windows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from jobwise import encoders
from jobwise.cluster import Cluster
from jobwise.encoders import Encoder
from jobwise.encoders.image import GridEncoder, placing
from jobwise.encoders.tables import KEPT
from jobwise.errors import InputError
from jobwise.policies import files
from jobwise.policies.chooser import LIMIT, Choose, Chooser
from jobwise.policies.networks import WINDOW, Forward, choose
from jobwise.sim.random import GOLDEN, mix
from jobwise.worlds import World
from jobwise.worlds.assignment_world import Assignment
from jobwise.worlds.buffer import seen_dtype
from jobwise.worlds.buffer_world import Places
from jobwise.worlds.modes import Act
from jobwise.worlds.slots_world import Slots


@dataclass(frozen=True, eq=False)
class NeuralPolicy(Chooser):
    """Networks that choose in a world: one, or in slots two, of which the second chooses the placement.

    `encoder`: an encoder, or the metadata of one (made when the machine is known). `world`: the settings of windows (`Act`),
    of slots (`Slots`), of assignments (`Assignment`) or of buffers (`Places`). `greedy`: the most probable action; else
    actions are drawn, as DeepRM is tested, for each simulation from its own seed.
    """

    networks: Forward | tuple[Forward, ...]
    encoder: Encoder | GridEncoder | dict
    world: Act | Slots | Assignment | Places = field(default_factory=Act)
    label: str = "neural"
    about: dict = field(default_factory=dict)  # what it was trained on, by which version, and how well it did
    greedy: bool = True
    tick: float = 0.0  # s in a row of slots
    limit: float = LIMIT
    cost: float = 0.0  # beta: how much what jobs cost weighs, after the softmax (MARS); 0: not at all

    def __post_init__(self):
        if isinstance(self.networks, Forward):
            object.__setattr__(self, "networks", (self.networks,))

    @property
    def name(self) -> str:
        """Its label and the options it differs by from what it was trained with."""
        parts, act = [self.label], self.world
        if isinstance(act, Act):
            trained = self.about.get("act", {})
            if trained and act.backfill != trained["backfill"]:
                parts.append(act.backfill)
            if act.guard < np.inf:
                parts.append(f"guard{act.guard / 3600:g}h")
            if self.cost:
                parts.append(f"cost{self.cost:g}")
        return "+".join(parts)

    @property
    def forward(self) -> Forward:
        """The network that chooses the job."""
        return self.networks[0]

    @property
    def metadata(self) -> dict:
        """Of the encoder."""
        return self.encoder if isinstance(self.encoder, dict) else self.encoder.metadata()

    @property
    def window(self) -> int:
        """Jobs the network sees at once."""
        return int(self.metadata["window"])

    def bound(self, cluster: Cluster) -> Encoder | GridEncoder:
        """The encoder for this machine. Raises InputError where the policy was made for another."""
        if isinstance(self.world, Act) and not cluster.is_pool:
            raise InputError(
                f"policy {self.name} schedules pools of processors; this cluster has {len(cluster.capacity)} nodes"
            )
        try:
            return encoders.load(self.metadata, cluster)
        except InputError as error:
            raise InputError(f"policy {self.name}: {error}") from None

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where it was made for another cluster."""
        self.bound(cluster)

    def with_options(self, chosen: dict) -> NeuralPolicy:
        """The same with another backfilling rule or guard. Raises InputError for options that cannot be."""
        if not isinstance(self.world, Act):
            text = f"decides everything itself; +{'+'.join(map(str, chosen.values()))} does not apply"
            raise InputError(f"policy {self.label} {text}")
        for key in chosen:
            if key not in ("backfill", "guard", "cost"):
                raise InputError(f"policy {self.label}: a trained policy takes a backfill rule and a guard, not +{chosen[key]}")
        chosen = dict(chosen)
        cost = chosen.pop("cost", self.cost)
        if cost and "cost" not in self.metadata["features"]:
            raise InputError(f"policy {self.label}: its encoder {self.metadata['name']} does not show what jobs cost")
        return replace(self, cost=cost, world=replace(self.world, **chosen))

    @property
    def prior(self) -> np.ndarray | None:
        """In a world of buffers, how long jobs of each kind took on each node in training; None: nothing is known."""
        told = self.about.get("prior")
        if not told:
            return None
        found = np.zeros(np.shape(told["count"]), seen_dtype)
        found["count"], found["mean"] = told["count"], told["mean"]
        return found

    def attach(self, s, cluster: Cluster) -> World:
        """Its world over the simulations of `s`; what was learnt of other nodes is not put in."""
        world, prior = super().attach(s, cluster), self.prior
        if prior is not None and prior.shape == world.buffer.prior.shape:
            world.buffer.prior[:] = prior
        return world

    # -------------------------------------------------------------- choosing

    def chooser(self, world: World, cluster: Cluster) -> Choose:
        """The networks, with memory for observations and random numbers of their own."""
        encoder, E = self.bound(cluster), len(world.counts)
        out, dice = np.zeros((E, *encoder.shape), np.float32), None
        if not self.greedy:
            dice = (world.state.sims["seed"].astype(np.uint64) + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
        second = self._second(encoder, cluster, E, dice) if len(self.networks) == 2 else None
        if isinstance(self.world, (Assignment, Places)):
            self._fits(world, encoder, out)

        def chosen(world: World) -> np.ndarray:
            world.encode(encoder, out)
            try:
                if world.masks is None:
                    return choose(self.forward, out, world.counts, self._dear(out))
                mask = world.masks.astype(bool)
                if getattr(self.world, "counts", False):
                    return world.narrow(sound(self.forward(out)), mask)
                return second(world, out, mask) if second else self._draw(self.forward(out), mask, dice)
            except FloatingPointError:
                raise InputError(
                    f"policy {self.name}: the network answers NaN at time {world.now:g} s; was it trained to an end?"
                ) from None

        return chosen

    def _dear(self, out: np.ndarray) -> np.ndarray | float:
        """[E, W] beta ln q of the jobs that are shown, q = exp(-cost^2 / 2 sigma^2): what their logits are lowered by."""
        if not self.cost:
            return 0.0
        return -self.cost / (2 * SIGMA**2) * np.square(out[:, :, list(self.metadata["features"]).index("cost")])

    def _fits(self, world: World, encoder: GridEncoder, out: np.ndarray) -> None:
        """Raises InputError where the network does not answer for every part of an action."""
        world.takes(encoder)
        try:
            shape = self.forward(out).shape
        except ValueError as error:
            raise InputError(f"policy {self.name}: its network and its encoder do not go together: {error}") from None
        if shape != (expected := (len(out), *world.action_shape, world.actions)):
            raise InputError(
                f"policy {self.name}: the network gives {list(shape[1:])} scores, this world takes {list(expected[1:])}"
            )

    def _second(self, encoder: GridEncoder, cluster: Cluster, E: int, dice: np.ndarray | None):
        """Two networks: a slot by the first, then a placement of its job by the second (CuSH)."""
        seen = np.zeros((E, 2, encoder.rows, int(cluster.capacity.sum())), np.float32)

        def chosen(world: World, out: np.ndarray, mask: np.ndarray) -> np.ndarray:
            P = len(world.placements)
            slots = self._draw(self.forward(out), np.concatenate([mask[:, :-1:P], mask[:, -1:]], axis=1), dice)
            M = mask.shape[1] // P
            asked = (slots < M) & world.placeable[np.arange(E), np.clip(slots, 0, M - 1)]
            actions = np.where(slots < M, slots * P, world.void)
            if asked.any():
                placing(world.grid.waiting, world.grid, np.where(asked, slots, -1), seen, 0, E)
                some = None if dice is None else dice[asked]
                actions[asked] += self._draw(self.networks[1](seen[asked]), np.ones((int(asked.sum()), P), bool), some)
                if dice is not None:
                    dice[asked] = some
            return actions

        return chosen

    def _draw(self, scores: np.ndarray, mask: np.ndarray, dice: np.ndarray | None) -> np.ndarray:
        """[E] actions by scores [E, A]; `dice` [E]: the states of their random numbers, which go on (None: the best)."""
        scores = np.where(mask, sound(scores), -np.inf)
        if dice is not None:
            scores = scores + _gumbel(dice, scores[0].size).reshape(scores.shape)
        return scores.argmax(axis=-1)

    def explained(self, world: World, cluster: Cluster) -> list[dict]:
        """The valid actions of the next choice, highest score first: `action`, `score`, and for networks per job `features`
        and `moved`: per feature, how much lower the score were if the job had the mean of the window there. With two
        networks: the slots, and the void action."""
        encoder, f = self.bound(cluster), self.forward
        out = np.zeros((1, *encoder.shape), np.float32)
        world.encode(encoder, out)
        valid = np.arange(int(world.counts[0])) if world.masks is None else np.flatnonzero(world.masks[0])
        if len(self.networks) == 2:
            valid = np.array([a for a in valid if a % len(world.placements) == 0 or a == world.void])
        x = out[0, : len(valid)]
        every = f(x) if f.kind == "perjob" else f(out)[0]
        if self.cost:
            every = every + self._dear(out)[0, : len(every)]
        scores = every[valid] if len(self.networks) == 1 else every[valid // len(world.placements)]
        moved = np.zeros((len(valid), len(encoder.features)))
        for k in range(x.shape[1]) if f.kind == "perjob" else ():
            other = x.copy()
            other[:, k] = x[:, k].mean()
            moved[:, k] = scores - f(other)
        found, names = [], encoder.features
        per_job = isinstance(encoder, Encoder) and encoder.per_job
        for i in np.argsort(-scores, kind="stable"):
            values = dict(zip(names, x[i].tolist(), strict=True)) if per_job else {}
            parts = dict(zip(names, moved[i].tolist(), strict=True))
            found.append({"action": int(valid[i]), "score": float(scores[i]), "features": values, "moved": parts})
        return found

    # -------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write the policy file, whole or not at all."""
        about, several = {"label": self.label, **self.about}, not isinstance(self.world, Act)
        weights = {
            f"{i}.{k}" if several else k: np.ascontiguousarray(v, np.float32)
            for i, n in enumerate(self.networks)
            for k, v in n.weights.items()
        }
        if isinstance(self.world, (Assignment, Places)):
            kept = {k: self.metadata[k] for k in KEPT}
            networks, kind = [n.spec for n in self.networks], next(k for k, w in TABLES.items() if isinstance(self.world, w))
            meta = {"kind": kind, "world": asdict(self.world), "encoder": kept, "networks": networks, "about": about}
        elif several:
            known = asdict(self.world) | {"encoder": self.metadata["name"]}
            world = {k: known[k] for k in WORLD}
            told = {k: list(self.metadata[k]) for k in ("shape", "units")}
            meta = {"kind": "grid", "world": world, **told, "networks": [n.spec for n in self.networks], "about": about}
        else:
            act = {k: getattr(self.world, k) for k in ("mode", "backfill", "fill")}
            network = {"kind": self.forward.kind, "sizes": self.forward.sizes}
            meta = {"encoder": self.metadata, "network": network, "act": act, "about": {**about, "act": act}}
        files.write(path, meta, weights)


TABLES = {"gpus": Assignment, "nodes": Places}  # kinds of files of worlds with encoders of tables
SIGMA = 0.5  # of the probability that MARS gives to a cost


WORLD = {  # what of the world of slots a policy file tells, and the values of old
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


def from_file(parts: dict, weights: dict[str, np.ndarray], label: str) -> NeuralPolicy:
    """The policy of a file that has been read. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
    if parts.get("kind") == "grid" or parts.get("kind") in TABLES:
        return _of_rows(parts, weights, label)
    act, about = Act(**parts["act"]), dict(parts["about"])
    for k in ("name", "version", "window", "settings", "scale", "nodes", "shape"):
        parts["encoder"][k]  # noqa: B018
    if any(v.dtype != np.float32 for v in weights.values()):
        raise ValueError("weights are float32")
    rows, features = parts["encoder"]["shape"]
    network, window = parts["network"], int(parts["encoder"]["window"])
    inputs = {"perjob": features, "rows": rows, "levels": rows - 1, "mlp": rows * features}
    first = inputs.get(network["kind"], network["sizes"][0])
    last = 1 if network["kind"] == "perjob" else window
    if network["kind"] in WINDOW and (network["sizes"][0] != first or network["sizes"][-1] != last):
        raise ValueError(f"the encoder gives {first} numbers and {last} scores, the network has {network['sizes']}")
    if not isinstance(parts["encoder"]["settings"], dict) or not isinstance(parts["encoder"]["name"], str):
        raise ValueError("the encoder's settings are no table")
    found = NeuralPolicy(Forward(parts["network"], weights), parts["encoder"], act, label, about)
    return found.with_options({"cost": float(about["cost"])}) if about.get("cost") else found


def _of_rows(parts: dict, weights: dict[str, np.ndarray], label: str) -> NeuralPolicy:
    world, about = dict(parts["world"]), dict(parts["about"])
    if not 1 <= len(parts["networks"]) <= 2:
        raise ValueError("a policy has one network or two")
    networks = tuple(
        Forward(spec, {k.split(".", 1)[1]: v for k, v in weights.items() if k.startswith(f"{i}.")})
        for i, spec in enumerate(parts["networks"])
    )
    if parts["kind"] in TABLES:
        row, encoder = float(about["config"].get("row_s", 1.0)), {k: parts["encoder"][k] for k in KEPT}
        if encoder["name"] not in encoders.TABLES or any(type(encoder[k]) is not kind for k, kind in KEPT.items()):
            raise ValueError(f"no such encoder: {encoder}")
        settings = TABLES[parts["kind"]](**world)
        if told := about.get("prior"):
            count, mean = (np.asarray(told[k], float) for k in ("count", "mean"))
            if count.shape != mean.shape or count.ndim != 2 or not np.isfinite([count, mean]).all():
                raise ValueError("what was learnt of run times is two tables alike")
        if encoder["slots"] != settings.slots:
            raise ValueError(f"an encoder of {encoder['slots']} slots in a world of {settings.slots}")
        if not 0 < row < np.inf or len(networks) != 1 or networks[0].kind not in ("slots", "mlp"):
            raise ValueError("one network of the kind slots or mlp and a row of more than 0 s are expected")
        return NeuralPolicy(networks, encoder, settings, label, about, True, row)
    if set(world) != set(WORLD):
        raise ValueError(f"a world of slots is told by {', '.join(WORLD)}")
    encoder = {"name": world.pop("encoder"), "slots": world["slots"], "backlog": world["backlog"], "rows": world["rows"]}
    encoder |= {k: [int(n) for n in parts[k]] for k in ("shape", "units")}
    return NeuralPolicy(networks, encoder, Slots.of(world), label, about, False, row_s(about))


def row_s(about: dict) -> float:
    """Seconds in a row of what a policy was trained on; 1 for generated jobs, whose times are rows."""
    config = about.get("config") or {}
    return float(config.get("row_s", 1.0)) if config.get("generator") == "log" else 1.0
