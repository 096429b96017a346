"""Networks that choose the next job of a window, and their policy files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, cast

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, raised_in
from jobwise.policies import files
from jobwise.policies.networks import WINDOW, Constant, Forward, choose
from jobwise.policies.neural import NeuralPolicy
from jobwise.policies.parts import QUANTUM, as_typed
from jobwise.worlds import Live, World
from jobwise.worlds.rows import taken
from jobwise.worlds.window import encoders
from jobwise.worlds.window.encoder import Encoder
from jobwise.worlds.window.settings import WindowSettings
from jobwise.worlds.window.world import LiveWindow, Windows

SIGMA = 0.5  # of the probability that MARS gives to a cost


@dataclass(frozen=True, eq=False)
class WindowPolicy(NeuralPolicy):
    """A network that chooses which job of the window is next. `cost`: beta, how much a job's cost weighs, after the softmax
    (MARS); 0: not at all."""

    spec = "window"

    networks: Forward
    encoder: Encoder | dict
    world: WindowSettings = field(default_factory=WindowSettings)
    cost: float = 0.0

    @property
    def name(self) -> str:
        """Its label and the options it differs by from what it was trained with."""
        parts, act, trained = [self.label], self.world, self.about.get("act", {})
        if trained and act.backfill != trained["backfill"]:
            parts.append(act.backfill)
        if act.tries and not trained.get("tries"):
            parts.append("trial")
        if act.guard < np.inf:
            parts.append(f"guard{act.guard / 3600:g}h")
        if self.cost:
            parts.append(f"cost{self.cost:g}")
        return "+".join(parts)

    @property
    def tries(self) -> bool:
        """Return whether waiting jobs have trial runs."""
        return self.world.tries

    @property
    def shifts(self) -> bool:
        """Return whether it may choose nobody, to wait for a cheaper hour."""
        return self.world.waits

    @property
    def window(self) -> int:
        """Jobs the network sees at once."""
        return int(self.metadata["window"])

    def made(self, cluster: Cluster) -> Encoder:
        """Return the encoder for this machine. Raises InputError."""
        return encoders.load(self.metadata, cluster)

    def bound(self, cluster: Cluster) -> Encoder:
        """Return the encoder for this machine. Raises InputError for clusters of nodes, and where it was made for another."""
        if not cluster.is_bag:
            raise InputError(
                f"policy {self.name} schedules pools of processors; this cluster has {len(cluster.capacity)} nodes"
            )
        return super().bound(cluster)

    def attach(self, s, cluster: Cluster) -> Windows:
        """Return its world over the simulations of `s`."""
        return Windows(self.world, s, self.window)

    def live(self, cluster: Cluster) -> Live:
        """Return its world at the instants of a live cluster."""
        return LiveWindow(self.world, self.window)

    def with_options(self, chosen: dict) -> WindowPolicy:
        """Return the same with another backfilling rule, guard or cost. Raises InputError for options that cannot be."""
        for key in chosen:
            if key not in ("backfill", "guard", "cost", "trial"):
                text = f"a trained policy takes a backfill rule and a guard, not {as_typed({key: chosen[key]})}"
                raise InputError(f"policy {self.label}: {text}")
        chosen = dict(chosen)
        cost = chosen.pop("cost", self.cost)
        if trial := chosen.pop("trial", None):
            if trial != (QUANTUM, 0.0):
                raise InputError(f"policy {self.label}: a network chooses who is tried and stops nobody for it: +trial alone")
            chosen["tries"] = True
        if cost and "cost" not in self.metadata["features"]:
            raise InputError(f"policy {self.label}: its encoder {self.metadata['name']} does not show what jobs cost")
        return replace(self, cost=cost, world=replace(self.world, **chosen))

    def picker(self, world: World, encoder, out: np.ndarray, dice: np.ndarray | None):
        """Return what chooses the job with the highest score of those that the window shows."""
        return lambda world: choose(self.forward, out, world.counts, self._dear(out))

    def _dear(self, out: np.ndarray) -> np.ndarray | float:
        """[E, W] beta ln q of the jobs that are shown, q = exp(-cost^2 / 2 sigma^2): what their logits are lowered by."""
        if not self.cost:
            return 0.0
        return -self.cost / (2 * SIGMA**2) * np.square(out[:, :, list(self.metadata["features"]).index("cost")])

    def scores(self, world: World, out: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Return the scores [V] of the jobs that are shown."""
        every = self.forward(out[0, : len(valid)]) if self.forward.kind == "perjob" else self.forward(out)[0]
        if self.cost:
            every = every + cast(Any, self._dear(out))[0, : len(every)]
        return every[valid]

    def allowed(self, world: Any) -> np.ndarray:
        """Return which slots of the window show a job, [E, W] bool."""
        return np.arange(self.window) < world.counts[:, None]

    def ranked(self, shown: np.ndarray, counts: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return the scores [K, W] of all slots; of a network per job, -inf where there is no job."""
        if self.forward.kind != "perjob":
            return self.forward(shown)
        there = np.arange(shown.shape[1]) < counts[:, None]
        scores = np.full(there.shape, -np.inf, np.float32)
        if there.any():
            scores[there] = self.forward(shown[there])
        return scores

    def reasons(self, encoder: Encoder, x: np.ndarray, scores: np.ndarray) -> list[dict]:
        """Return for each job its features, and of a network per job how much each moved the score."""
        moved, names, per_job = np.zeros((len(x), len(encoder.features))), encoder.features, self.forward.kind == "perjob"
        for k in range(x.shape[1]) if per_job else ():
            other = x.copy()
            other[:, k] = x[:, k].mean()
            moved[:, k] = scores - self.forward(other)
        values = [dict(zip(names, row.tolist(), strict=True)) if encoder.per_job else {} for row in x]
        return [
            {"features": v, "moved": dict(zip(names, row.tolist(), strict=True))} for v, row in zip(values, moved, strict=True)
        ]

    def save(self, path: str | Path) -> None:
        """Write the policy file, whole or not at all."""
        own = [name for name in ("tries", "waits") if getattr(self.world, name)]
        act = taken(self.world, ("mode", "backfill", "fill", *own))
        network = {k: v for k, v in self.forward.spec.items() if k in ("kind", "sizes", "features")}
        meta = {
            "encoder": self.metadata,
            "network": network,
            "act": act,
            "about": {"label": self.label, **self.about, "act": act},
        }
        files.write(path, meta, {k: np.ascontiguousarray(v, np.float32) for k, v in self.forward.weights.items()})


ONE_AT_A_TIME = Lock()  # comparisons play in threads, for which functions of others need not be made
Function = Callable[[np.ndarray, np.ndarray], Any]  # observations [E, …], masks [E, A] bool -> actions [E]


@dataclass(frozen=True, eq=False)
class FunctionPolicy(WindowPolicy):
    """A function that chooses jobs from a window, of another library's agent, say: see `as_policy`."""

    function: Function | None = None

    def with_network(self, network: Forward) -> WindowPolicy:
        """Return the policy of a network in the same world."""
        return WindowPolicy(network, self.encoder, self.world, self.label)

    def ranked(self, shown: np.ndarray, counts: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return scores [K, W]: 1 for what was chosen."""
        return (np.arange(self.window) == actions[:, None]).astype(np.float32)

    def picker(self, world: World, encoder, out: np.ndarray, dice: np.ndarray | None):
        """Return what asks the function. Raises InputError for answers that are no valid actions."""
        return lambda world: self._answers(world, out)

    def scores(self, world: World, out: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Return the scores [V] of the jobs that are shown: 1 for what it chooses."""
        return (valid == self._answers(world, out)[0]).astype(np.float32)

    def _answers(self, world: Any, out: np.ndarray) -> np.ndarray:
        """[E] the actions that the function chooses; 0 of simulations that are over."""
        assert self.function is not None
        allowed = self.allowed(world)
        allowed[:, 0] = True  # of simulations that are over: masks allow something everywhere
        try:
            with ONE_AT_A_TIME:
                actions = np.asarray(self.function(out.copy(), allowed))
        except Exception as error:
            where = raised_in(error, self.function)
            raise InputError(f"{where}policy {self.label}: {type(error).__name__}: {error}") from error
        if actions.shape != (len(out),) or actions.dtype.kind not in "iu":
            got = f"the function returned {actions.dtype} of shape {actions.shape}"
            raise InputError(f"policy {self.label}: {got}; an action for each observation is expected")
        wrong = (actions < 0) | (actions >= np.maximum(world.counts, 1))
        if (wrong & world.asked).any():
            e = int(np.argmax(wrong & world.asked))
            raise InputError(f"policy {self.label}: action {actions[e]} is not valid; the mask allows {world.counts[e]}")
        return np.where(wrong, 0, actions).astype(np.int64)

    def save(self, path: str | Path) -> None:
        """Raises InputError: a function has no policy file."""
        raise InputError(f"policy {self.label} is a function; jobwise keeps networks alone")


def as_policy(
    choose: Function, encoder: Encoder, *, act: str | WindowSettings = "pick", backfill: str = "", name: str = "own"
) -> FunctionPolicy:
    """Make a policy of any function of observations and masks: an agent of another library, a torch module, a rule.

    It is then a scheduler like any other: in `simulate`, `compare`, `probe`.

    Parameters
    ----------
    choose : callable
        (observations [E, rows, features] float32, masks [E, W] bool) -> actions [E], slots of the window that the masks allow.
        Observations of simulations that are over are stale; their actions do not count.
    encoder : Encoder
        What it sees; of an agent that was trained in `envs`, `envs.encoder`.
    act : str or WindowSettings
        How its choices are carried out: `envs.act`.
    backfill : str
        The backfilling rule, where `act` is a name.
    name : str
        The name of the policy.

    Raises
    ------
    InputError
        `choose` is no function; later, where it fails or answers with what is no valid action.
    """
    if not callable(choose):
        raise InputError(f"as_policy takes a function of observations and masks, not {type(choose).__name__}")
    world = WindowSettings(act, backfill) if isinstance(act, str) else act
    return FunctionPolicy(Constant(np.zeros(encoder.window)), encoder, world, name, function=choose)


def from_file(meta: dict, weights: dict[str, np.ndarray], label: str) -> WindowPolicy:
    """Return the policy of a file that has been read. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
    act, about = WindowSettings(**meta["act"]), dict(meta["about"])
    for k in ("name", "version", "window", "settings", "scale", "nodes", "shape"):
        meta["encoder"][k]  # noqa: B018
    if any(v.dtype != np.float32 for v in weights.values()):
        raise ValueError("weights are float32")
    rows, features = meta["encoder"]["shape"]
    network, window = meta["network"], int(meta["encoder"]["window"])
    inputs = {"perjob": features, "rows": rows, "levels": rows - 1, "mlp": rows * features}
    first = inputs.get(network["kind"], network["sizes"][0])
    last = 1 if network["kind"] == "perjob" else window
    if network["kind"] in WINDOW and (network["sizes"][0] != first or network["sizes"][-1] != last):
        raise ValueError(f"the encoder gives {first} numbers and {last} scores, the network has {network['sizes']}")
    if not isinstance(meta["encoder"]["settings"], dict) or not isinstance(meta["encoder"]["name"], str):
        raise ValueError("the encoder's settings are no table")
    policy = WindowPolicy(Forward(meta["network"], weights), meta["encoder"], act, label, about)
    return policy.with_options({"cost": float(about["cost"])}) if about.get("cost") else policy
