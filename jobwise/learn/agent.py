"""Agents: a network, its critic, its optimiser, its random numbers."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

import numpy as np
import torch

from jobwise.errors import InputError
from jobwise.learn.losses import chosen, expected
from jobwise.learn.networks import Seen, actor, critic, parameters, spread, weights
from jobwise.learn.settings import OF_VALUES, WITHOUT_CRITIC, Settings
from jobwise.worlds.window.encoder import Encoder
from jobwise.worlds.window.perjob import gather


def pick_device(device: str) -> str:
    """cpu, cuda or mps; `auto` takes a GPU where there is one; under torchrun each process of a machine takes one of its own.
    Raises InputError."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        device = next(d for d in ("cuda", "mps", "cpu") if there[d])
    if not there.get(device):
        raise InputError(f"there is no device {device!r} here; there are: {', '.join(d for d in there if there[d])}, auto")
    if device == "cuda" and "LOCAL_RANK" in os.environ:
        return f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
    return device


def tensors(x: Any) -> Any:
    """Return nested values with tensors for arrays."""
    if isinstance(x, dict):
        return {k: tensors(v) for k, v in x.items()}
    if isinstance(x, list):
        return [tensors(v) for v in x]
    return torch.from_numpy(x) if isinstance(x, np.ndarray) else x


class RMSProp(torch.optim.Optimizer):
    """s = rho s + (1 - rho) g^2, theta -= lr g / sqrt(s + eps): DeepRM's code has eps below the root."""

    def __init__(self, groups, rho: float = 0.9, eps: float = 1e-9):
        super().__init__(groups, {"rho": rho, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None) -> None:  # type: ignore[override] # as torch itself does it
        """Update the parameters by their gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p].setdefault("square", torch.zeros_like(p))
                s.mul_(group["rho"]).addcmul_(p.grad, p.grad, value=1 - group["rho"])
                p.addcdiv_(p.grad, (s + group["eps"]).sqrt_(), value=-group["lr"])


class Shelf:
    """Observations, one after the other, in memory that is kept from one iteration to the next: fresh pages take as long as a
    small network. `x` [B, ...], in the precision in which the network takes them."""

    def __init__(self, precision: torch.dtype = torch.float32) -> None:
        self._room, self._count = torch.empty((0,), dtype=precision), 0

    @property
    def x(self) -> torch.Tensor:
        """Return all that has been put here since it was cleared."""
        return self._room[: self._count]

    def clear(self) -> None:
        """Forget all, and keep the memory."""
        self._count = 0

    def add(self, x: np.ndarray, which: np.ndarray) -> torch.Tensor:
        """Put the rows `which` [N] bool of x [N, ...] behind the others, and return them."""
        first, last = self._count, self._count + int(which.sum())
        if last > len(self._room) or self._room.shape[1:] != x.shape[1:]:
            larger = torch.empty((2 * last, *x.shape[1:]), dtype=self._room.dtype)
            larger[:first] = self._room[:first] if first else 0.0
            self._room = larger
        self._count = last
        rows = torch.from_numpy(x)
        return self._room[first:last].copy_(rows if last - first == len(x) else rows[torch.from_numpy(which)])


class Agent:
    """A network, its critic, its optimiser and its random numbers. `network`: a spec {"kind", "sizes"}. `precision`: of the
    actor's products; weights, gradients and what is summed stay float32."""

    def __init__(
        self,
        network: dict,
        encoder: Encoder,
        settings: Settings,
        seed: int = 0,
        device: str = "cpu",
        precision: str = "float32",
    ):
        torch.manual_seed(seed)
        self.network, self.encoder, self.settings, self.device = network, encoder, settings, torch.device(device)
        self.precision = getattr(torch, precision)
        self.narrow: Callable | None = None  # of a world where the parts of an action bind each other
        self.ragged = network["kind"] == "perjob"  # only the rows of jobs that are there
        self.actor = actor(network).to(self.device)
        self.critic: Any = None  # a network, where the learner has one
        groups = [{"params": list(self.actor.parameters()), "lr": settings.actor_lr}]
        self.target = deepcopy(self.actor) if settings.learner in OF_VALUES else None  # the network that targets come from
        self.explore, self.updates = settings.explore, 0  # with a target: the share of choices at random, updates so far
        if settings.learner not in WITHOUT_CRITIC:
            self.critic = critic(network, encoder.shape, settings.critic).to(self.device)
            groups.append({"params": list(self.critic.parameters()), "lr": settings.critic_lr})
        makers = {"adam": lambda g: torch.optim.Adam(g, eps=1e-8, fused=True), "rmsprop": RMSProp, "sgd": torch.optim.SGD}
        self.optimiser = cast(Any, makers[settings.optimiser])(groups)
        self.random = torch.Generator(device="cpu")
        self.random.manual_seed(seed)
        self.scale, self.count = 1.0, 0  # of rewards: running mean square of returns
        self.discount = np.ones(0)  # [E] gamma to the power of the steps so far (one_step_ac)
        self.noise: Callable[[torch.Size], torch.Tensor] = lambda shape: torch.rand(shape, generator=self.random)
        self._room, self.shelf = np.empty((0, encoder.shape[-1]), np.float32), Shelf(self.precision)
        self.at_once = getattr(self.actor, "at_once", 4096)  # observations of which gradients are gathered together

    @property
    def parameters(self) -> int:
        """Numbers the actor has learnt."""
        return parameters(self.actor)

    def look(self, out: np.ndarray, counts: np.ndarray, masks: np.ndarray | None = None) -> tuple[Seen, np.ndarray]:
        """(observations out [E, ...] as the network takes them, their memory, which the next look overwrites)."""
        if not self.ragged:
            mask = None if masks is None else torch.from_numpy(masks.astype(bool))
            return Seen(torch.from_numpy(out), torch.from_numpy(counts), mask).to(self.device), out
        if len(self._room) < len(out) * out.shape[1]:
            self._room = np.empty((len(out) * out.shape[1], out.shape[2]), np.float32)
        rows = self._room[: gather(out, counts, self._room)]
        return Seen(torch.from_numpy(rows), torch.from_numpy(counts)).to(self.device), rows

    def seen(self, x: torch.Tensor, mask: np.ndarray) -> Seen:
        """Observations x [B, ...] in which the actions of `mask` [B, A] are valid."""
        counts = np.full(len(x), mask.shape[1])
        return Seen(x, torch.from_numpy(counts), torch.from_numpy(mask)).to(self.device)

    def tensor(self, x: np.ndarray) -> torch.Tensor:
        """x as float32 on the agent's device."""
        return torch.from_numpy(np.ascontiguousarray(x, np.float32)).to(self.device)

    def expected_cost(self, every: torch.Tensor, obs: Seen) -> torch.Tensor | float:
        """Return the loss term of the expected cost of the choices, of log probabilities `every` [B, W]."""
        if not self.settings.cost:
            return 0.0
        column = self.encoder.features.index("cost")
        return self.settings.cost * expected(every, spread(obs.x[:, column], obs.counts, 0.0))

    def scores(self, obs: Seen) -> torch.Tensor:
        """The actor's scores of actions [B, A] or [B, M, A], in float32."""
        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
            return self.actor(obs).float()

    @torch.no_grad()
    def choose(self, obs: Seen) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample: (actions [B] or [B, M], the scores they were drawn by)."""
        logits = self.scores(obs)
        noise = -torch.log(-torch.log(self.noise(logits.shape).to(logits.device)))
        if self.target is not None:  # scores are values of actions: the best one, or now and then any
            some = torch.rand(len(logits), generator=self.random).to(logits.device) < self.explore
            uniform = torch.where(torch.isfinite(logits), noise, -torch.inf).argmax(dim=-1)
            return torch.where(some, uniform, logits.argmax(dim=-1)), logits
        noisy = logits + noise
        if self.narrow is None or obs.mask is None:
            return noisy.argmax(dim=-1), logits
        mask = obs.mask.cpu().numpy()  # part after part: what one takes the next cannot have
        actions = torch.from_numpy(self.narrow(noisy.cpu().numpy(), mask)).to(logits.device)
        obs.mask.copy_(torch.from_numpy(mask))
        return actions, logits.masked_fill(~obs.mask, -torch.inf)

    @torch.no_grad()
    def act(self, obs: Seen) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sample: (actions [B] or [B, M], their log probabilities [B], values [B])."""
        actions, logits = self.choose(obs)
        logp = chosen(torch.log_softmax(logits, dim=-1), actions)
        values = self.critic(obs) if self.critic is not None else torch.zeros_like(logp)
        return actions.cpu().numpy(), logp.cpu().numpy(), values.cpu().numpy()

    @property
    def looks_ahead(self) -> bool:
        """Does it say what is to come after the last step of a rollout (`value`)?"""
        return self.critic is not None or self.target is not None

    @torch.no_grad()
    def value(self, obs: Seen) -> np.ndarray:
        """[B] return to come from here on: the critic's estimate, or the value of the best action by the target network."""
        values = self.critic(obs) if self.critic is not None else cast(Any, self.target)(obs).max(dim=-1).values
        return values.cpu().numpy()

    def descend(self, loss: torch.Tensor) -> None:
        """One step of the optimiser. Raises FloatingPointError for a loss that is no number."""
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss.item()}")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.step()

    def step(self) -> None:
        """Follow the gradients that have been gathered."""
        for group in self.optimiser.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], self.settings.max_norm)
        self.optimiser.step()

    def load(self, weights: dict[str, np.ndarray], rate: float = 1.0) -> None:
        """The actor has these weights now, and learns on as `begin_anew`."""
        self.actor.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in weights.items()})
        self.begin_anew(rate)

    def begin_anew(self, rate: float = 1.0) -> None:
        """Let the optimiser forget, and learn at `rate` times the settings' rates."""
        self.optimiser.state.clear()
        for group, lr in zip(self.optimiser.param_groups, (self.settings.actor_lr, self.settings.critic_lr), strict=False):
            group["lr"] = lr * rate

    def follow(self, other: Agent) -> None:
        """Have the networks of another agent, and its unit of rewards."""
        self.actor.load_state_dict(other.actor.state_dict())
        self.critic.load_state_dict(other.critic.state_dict())
        self.scale, self.count = other.scale, other.count

    def acting(self) -> dict:
        """Return what an agent needs to act as this one does: nested dictionaries of tensors and numbers."""
        networks = {k: getattr(self, k) for k in ("actor", "critic", "target") if getattr(self, k) is not None}
        # as numpy's: they are shared without torch's own way of sharing
        return {k: {n: t.cpu().numpy().copy() for n, t in x.state_dict().items()} for k, x in networks.items()} | {
            "explore": self.explore
        }

    def act_as(self, acting: dict, seed: int) -> None:
        """Act as another agent does, which has said so by `acting`, with random numbers of `seed`."""
        for name in ("actor", "critic", "target"):
            if name in acting:
                state = {k: torch.from_numpy(np.array(v)) for k, v in acting[name].items()}
                getattr(self, name).load_state_dict(state)
        self.explore = acting["explore"]
        self.random.manual_seed(seed)

    def take(self, other: Agent) -> None:
        """Follow the gradients that another agent has gathered, and its unit of rewards."""
        for group, theirs in zip(self.optimiser.param_groups, other.optimiser.param_groups, strict=True):
            for p, q in zip(group["params"], theirs["params"], strict=True):
                p.grad = None if q.grad is None else q.grad.clone()
        self.scale, self.count = other.scale, other.count
        self.step()

    def rescale(self, g: np.ndarray) -> None:
        """Take note of how large returns g are; rewards are divided by their root mean square so far."""
        square = float(np.square(g).mean())
        self.count += 1
        self.scale += (square - self.scale) / min(self.count, 100)

    @property
    def unit(self) -> float:
        """The number that rewards are divided by."""
        return max(self.scale, 1e-12) ** 0.5 if self.count else 1.0

    def weights(self) -> dict[str, np.ndarray]:
        """The actor's, for a policy file."""
        return weights(self.actor)

    def state(self) -> dict:
        """All there is to go on from: nested dictionaries of tensors and numbers."""
        state = {
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict() if self.critic is not None else {},
            "optimiser": self.optimiser.state_dict(),
            "random": self.random.get_state(),
            "scale": [self.scale, self.count],
            "discount": self.discount,
        } | ({"target": self.target.state_dict(), "explore": [self.explore, self.updates]} if self.target is not None else {})
        return deepcopy(state)

    def restore(self, state: dict) -> None:
        """Go on from a state."""
        self.actor.load_state_dict(state["actor"])
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.random.set_state(state["random"])
        self.scale, self.count = state["scale"]
        self.discount = np.asarray(state["discount"], float)
        if self.target is not None:
            self.target.load_state_dict(state["target"])
            self.explore, self.updates = float(state["explore"][0]), int(state["explore"][1])
