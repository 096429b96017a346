"""A trained network as a policy like any other: an encoder, a network, a way to act. No torch.

Its policy file (`files.py`) holds the weights, and as metadata the encoder (name, version, settings, scaling), the network,
the way to act, what it was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jobwise import encoders
from jobwise.cluster import Cluster
from jobwise.decision import Decision, Reserve, Start, View
from jobwise.encoders import Encoder
from jobwise.errors import InputError
from jobwise.jobs import RUNNING
from jobwise.policies import files
from jobwise.policies.networks import KINDS, Forward, choose
from jobwise.sim.reset import NO_PLAN, from_view
from jobwise.sim.state import State
from jobwise.worlds.modes import Act
from jobwise.worlds.window import BEGIN, ENDED, NOTHING, PASS, ask, go, resume

ROUNDS = 1000  # of choices between two looks at progress and Ctrl-C


@dataclass(frozen=True, eq=False)
class NeuralPolicy:
    """A network that chooses jobs. `encoder`: an Encoder, or the metadata of one (made when the machine is known)."""

    forward: Forward
    encoder: Encoder | dict
    act: Act = field(default_factory=Act)
    label: str = "neural"
    about: dict = field(default_factory=dict)  # what it was trained on, by which version, and how well it did

    @property
    def name(self) -> str:
        """Its label and the options it differs by from what it was trained with."""
        trained = self.about.get("act", {})
        parts = [self.label]
        if trained and self.act.backfill != trained["backfill"]:
            parts.append(self.act.backfill)
        if self.act.guard < np.inf:
            parts.append(f"guard{self.act.guard / 3600:g}h")
        return "+".join(parts)

    @property
    def window(self) -> int:
        """Jobs the network sees at once."""
        return self.encoder.window if isinstance(self.encoder, Encoder) else int(self.encoder["window"])

    def bound(self, cluster: Cluster) -> Encoder:
        """The encoder for this machine. Raises InputError where the policy was made for another."""
        if not cluster.is_pool:
            raise InputError(
                f"policy {self.name} schedules pools of processors; this cluster has {len(cluster.capacity)} nodes"
            )
        metadata = self.encoder.metadata() if isinstance(self.encoder, Encoder) else self.encoder
        try:
            return encoders.load(metadata, cluster)
        except InputError as error:
            raise InputError(f"policy {self.name}: {error}") from None

    def choose(self, encoder: Encoder, out: np.ndarray, counts: np.ndarray, now: float) -> np.ndarray:
        """[E] the slots it chooses. Raises InputError where the network answers NaN."""
        try:
            return choose(self.forward, out, counts)
        except FloatingPointError:
            raise InputError(
                f"policy {self.name}: the network answers NaN at time {now:g} s; was it trained to an end?"
            ) from None

    @property
    def chooses(self) -> bool:
        """Its replay tells of every choice."""
        return True

    @property
    def single_events(self) -> bool:
        """Does it decide after every single event?"""
        return self.act.single_events

    def is_compiled(self, cluster: Cluster) -> bool:
        """It replays whole simulations itself."""
        return True

    def replay(
        self, s: State, cluster: Cluster, pasts: Sequence[np.ndarray], after: Callable | None = None
    ) -> Generator[None, None, None]:
        """The simulations of `s` to their ends, side by side, one choice of each a round; yields now and then.

        `after(intervals [E], which [E])` is called after every round, with what happened since the last choice in the
        simulations that made one.
        """
        encoder, E = self.bound(cluster), len(s.sims)
        c = self.act.allocate(s, encoder.window)
        out, work = encoder.buffers(E)
        counts, now = c.moment["count"], c.moment["now"]
        left, over, rounds = ask(s, c, BEGIN), np.zeros(E, np.int8), 0
        while left:
            encoder.encode(s, c, out, work)
            which = counts > 0 if after else None
            left = go(s, c, NO_PLAN, self.choose(encoder, out, counts, now[0]), over, ENDED, False, 0, E)
            if after:
                after(c.report, which)
            rounds += 1
            if rounds % ROUNDS == 0:
                yield

    def reset(self, view: View) -> None:
        """Nothing to forget."""
        self.bound(view.cluster)

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Nothing to learn."""

    def decide(self, view: View) -> Iterable[Decision]:
        """One pass over the queue of a view, from a simulation or a live cluster."""
        if len(view.queue) == 0:
            return []
        encoder = self.bound(view.cluster)
        s, c, rows = self._snapshot(view)
        out, work = encoder.buffers(1)
        more = ask(s, c, NOTHING, PASS)
        while more:
            encoder.encode(s, c, out, work)
            more = ask(s, c, self.choose(encoder, out, c.moment["count"], view.now), PASS)
        queued = len(view.queue)
        decisions: list[Decision] = [Start(int(j)) for j in rows[:queued][s.jobs["status"][0, :queued] == RUNNING]]
        head = int(c.moment["head"][0])
        if self.act.mode != "pick" and head >= 0 and np.isnan(s.jobs["reserved"][0, head]):
            # only RLScheduler's rule remembers when; elsewhere the time is made anew at every event
            decisions.append(
                Reserve(int(rows[head]), float(c.moment["shadow"][0]) if self.act.backfill == "greedy" else np.inf)
            )
        return decisions

    def explain(self, view: View) -> list[dict]:
        """What the next choice is among: per job its row, score, and what moved the score.

        `moved`: per feature, how much lower the score were if the job had the mean of the window there (per-job networks).
        Empty where there is nothing to choose. Highest score first.
        """
        encoder = self.bound(view.cluster)
        s, c, rows = self._snapshot(view)
        if not ask(s, c, NOTHING, PASS):
            return []
        k, (out, work) = int(c.moment["count"][0]), encoder.buffers(1)
        encoder.encode(s, c, out, work)
        found = []
        x = out[0, :k]
        scores = self.forward(x) if self.forward.kind == "perjob" else self.forward(out)[0, :k]
        moved = np.zeros((k, len(encoder.features)))
        for f in range(x.shape[1]) if self.forward.kind == "perjob" else ():
            other = x.copy()
            other[:, f] = x[:, f].mean()
            moved[:, f] = scores - self.forward(other)
        for i in np.argsort(-scores, kind="stable"):
            row = int(rows[c.queue["row"][0, c.slots[0, i]]])
            values = dict(zip(encoder.features, x[i].tolist(), strict=True)) if encoder.per_job else {}
            parts = dict(zip(encoder.features, moved[i].tolist(), strict=True))
            found.append({"job": row, "score": float(scores[i]), "features": values, "moved": parts})
        return found

    def _snapshot(self, view: View):
        """The view as a batch of one simulation that stands at the present instant; and its rows' rows in the view."""
        s, rows = from_view(view)
        c = self.act.allocate(s, self.window)
        resume(s, 0, c)
        return s, c, rows

    def save(self, path: str | Path) -> None:
        """Write the policy file, whole or not at all."""
        encoder = self.encoder.metadata() if isinstance(self.encoder, Encoder) else self.encoder
        act = {k: getattr(self.act, k) for k in ("mode", "backfill", "fill")}
        about = {"label": self.label, **self.about, "act": act}
        network = {"kind": self.forward.kind, "sizes": self.forward.sizes}
        meta = {"encoder": encoder, "network": network, "act": act, "about": about}
        files.write(path, meta, {k: np.asarray(v, np.float32) for k, v in self.forward.weights.items()})


def from_file(parts: dict, weights: dict[str, np.ndarray], label: str) -> NeuralPolicy:
    """The policy of a file that has been read. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
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
    if network["kind"] in KINDS and (network["sizes"][0] != first or network["sizes"][-1] != last):
        raise ValueError(f"the encoder gives {first} numbers and {last} scores, the network has {network['sizes']}")
    if not isinstance(parts["encoder"]["settings"], dict) or not isinstance(parts["encoder"]["name"], str):
        raise ValueError("the encoder's settings are no table")
    return NeuralPolicy(Forward(parts["network"], weights), parts["encoder"], act, label, about)
