"""A trained network as a policy like any other: an encoder, a network, a way to act. No torch.

A policy file is a safetensors file: the weights, and as metadata the encoder (name, version, settings, scaling), the
network, the way to act, what it was trained on. Reading one never executes anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from jobwise import encoders
from jobwise.actions import Act
from jobwise.cluster import Cluster
from jobwise.decision import Decision, Reserve, Start, View
from jobwise.encoders import Encoder
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.jobs import RUNNING, Workload
from jobwise.policies import grid, index
from jobwise.policies.forward import KINDS, Forward, choose
from jobwise.policies.grid import GridPolicy
from jobwise.policies.index import FORMAT, KEY
from jobwise.policies.listing import ListScheduler
from jobwise.sim.choosing import BEGIN, ENDED, NOTHING, PASS, ask, go, resume
from jobwise.sim.filling import NO_PLAN, from_view
from jobwise.sim.state import State


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

    def loop(self, s: State, cluster: Cluster, rounds: int, after: Callable | None = None) -> Callable[[], bool]:
        """A whole replay of the simulations of `s`, side by side, one choice of each a round.

        Each call makes up to so many rounds and says whether there is more to do. `after(intervals [E], which [E])` is
        called after every round, with what happened since the last choice in the simulations that made one.
        """
        encoder, E = self.bound(cluster), len(s.sims)
        c = self.act.allocate(s, encoder.window)
        out, work = encoder.buffers(E)
        counts, now = c.moment["count"], c.moment["now"]
        left, over = ask(s, c, BEGIN), np.zeros(E, np.int8)

        def some() -> bool:
            nonlocal left
            for _ in range(rounds):
                if not left:
                    return False
                encoder.encode(s, c, out, work)
                which = counts > 0 if after else None
                left = go(s, c, NO_PLAN, self.choose(encoder, out, counts, now[0]), over, ENDED, False, 0, E)
                if after:
                    after(c.report, which)
            return True

        return some

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
        meta = {"format": FORMAT, "encoder": encoder, "network": network, "act": act, "about": about}
        write_whole(
            path,
            save({k: np.ascontiguousarray(v, np.float32) for k, v in self.forward.weights.items()}, {KEY: json.dumps(meta)}),
        )


def load(path: str | Path) -> NeuralPolicy | ListScheduler | GridPolicy:
    """The policy of a file, or of a run folder. Raises InputError for anything that is no policy of ours."""
    path = Path(path)
    file = path / "policy.safetensors" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"{path}: there is no policy file; a run folder holds policy.safetensors once it is trained")
    try:
        with safe_open(file, framework="numpy") as f:
            text = (f.metadata() or {}).get(KEY)
            weights = {k: f.get_tensor(k) for k in f.keys()} if text else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: is no policy file, or a damaged one: {error}") from None
    if not text:
        raise InputError(f"{file}: a safetensors file of somebody else; policies carry the metadata {KEY!r}")
    try:
        parts = json.loads(text)
        if parts["format"] != FORMAT:
            raise InputError(f"{file}: its format is {parts['format']!r}; this version reads {FORMAT!r}")
        name = path.name if path.is_dir() else (path.parent.name if path.name == "policy.safetensors" else path.stem)
        if parts.get("kind") == "index":
            order, times = index.from_file(parts, weights, name or "policy")
            return ListScheduler(order, "easy", times=times)
        if parts.get("kind") == "grid":
            return grid.from_file(parts, weights, name or "policy")
        act, about = Act(**parts["act"]), dict(parts["about"])
        for k in ("name", "version", "window", "settings", "scale", "nodes", "shape"):
            parts["encoder"][k]  # noqa: B018
        if any(v.dtype != np.float32 for v in weights.values()):
            raise ValueError("weights are float32")
        rows, features = parts["encoder"]["shape"]
        network, window = parts["network"], int(parts["encoder"]["window"])
        first = {"perjob": features, "rows": rows, "levels": rows - 1, "mlp": rows * features}.get(
            network["kind"], network["sizes"][0]
        )
        last = 1 if network["kind"] == "perjob" else window
        if network["kind"] in KINDS and (network["sizes"][0] != first or network["sizes"][-1] != last):
            raise ValueError(f"the encoder gives {first} numbers and {last} scores, the network has {network['sizes']}")
        if not isinstance(parts["encoder"]["settings"], dict) or not isinstance(parts["encoder"]["name"], str):
            raise ValueError("the encoder's settings are no table")
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"{file}: its metadata are damaged: {type(error).__name__}: {error}") from None
    try:
        forward = Forward(parts["network"], weights)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    return NeuralPolicy(forward, parts["encoder"], act, name or "policy", about)


RULES = ("fcfs", "sjf", "saf", "f1", "f2", "f3", "f4", "wfp3", "unicef", "lxf")


def rules(policy: Act | NeuralPolicy | ListScheduler) -> list[str]:
    """The fixed rules that a policy, or one acting so, is measured against: re-deciding, with its backfilling and guard; those
    with history too where it has one."""
    act = policy.act if isinstance(policy, NeuralPolicy) else policy
    backfill = "" if act.backfill == "none" else "+easy"
    guard = f"+guard{act.guard:g}s" if act.guard < np.inf else ""
    family = [] if isinstance(act, Act) else [*index.INDICES]
    return [r + backfill + guard for r in (*RULES, *family)]


def public_hash(w: Workload) -> str:
    """SHA-256 of what schedulers may know of a log's jobs."""
    columns = (np.ascontiguousarray(w.jobs[name]).tobytes() for name in ("submit", "walltime", "request"))
    return hashlib.sha256(b"".join(columns)).hexdigest()


def resolve_trained(run: str) -> tuple[NeuralPolicy, str]:
    """(the policy of a run folder or file with the options behind it, the folder or file). Raises InputError."""
    name, *options = run.split("+")
    found = load(name)
    if options:
        from jobwise.policies.names import resolve

        found = resolve(f"{Path(name) / 'policy.safetensors' if Path(name).is_dir() else Path(name)}+{'+'.join(options)}")
    return found, name


def with_options(policy: NeuralPolicy | ListScheduler, chosen: dict) -> NeuralPolicy | ListScheduler:
    """The policy with other options of the name grammar: backfill, guard. Raises InputError for those that cannot be."""
    if isinstance(policy, ListScheduler):
        return replace(policy, **chosen)
    for key in chosen:
        if key not in ("backfill", "guard"):
            raise InputError(f"policy {policy.label}: a trained policy takes a backfill rule and a guard, not +{chosen[key]}")
    return replace(policy, act=replace(policy.act, **chosen))
