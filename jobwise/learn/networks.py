"""Networks. B observations, W slots, F features. Rows behind the last job of a window are never computed.

`perjob`: the same small network looks at every job, a softmax over the window compares (RLScheduler, SC'20). `rows`: a
1 x 2 convolution over the rows of SEM or DRAS, two dense layers without bias, one output per slot. `levels`: two of them, the
first chooses the next job, the second the job to backfill (DRAS). `mlp`: dense layers on
the flat observation. `slots`: the same network for every slot of a grid, with the mean of all slots, and for the void
action. `image`: CuSH's convolution. `pairs`: attention between jobs and GPUs (RL-TAPS's outlook).
`jobwise/policies/networks.py` computes them without torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from jobwise.policies.pairs import NOBODY


@dataclass
class Seen:
    """B observations: `x` [sum of counts, F], one after the other, for a per-job network, else [B, ...]; `counts` [B] of valid
    actions, the first ones, or a `mask` [B, A] that says which."""

    x: torch.Tensor
    counts: torch.Tensor
    mask: torch.Tensor | None = None

    def to(self, device: torch.device) -> Seen:
        """Return a copy on a device."""
        return Seen(self.x.to(device), self.counts.to(device), None if self.mask is None else self.mask.to(device))


def layers(sizes: list[int], bias: bool = True) -> nn.Sequential:
    """Dense layers with ReLU between; `bias`: of all but the last, which always has one."""
    parts: list[nn.Module] = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        last = i == len(sizes) - 2
        parts += [nn.Linear(a, b, bias=bias or last)] + [nn.ReLU()] * (not last)
    return nn.Sequential(*parts)


class PerJob(nn.Module):
    """[R, F] -> [R], the same for every row."""

    def __init__(self, sizes: list[int]):
        super().__init__()
        self.net = layers(sizes)

    def forward(self, obs: Seen) -> torch.Tensor:
        """Scores [B, longest count], -inf behind the last job of each."""
        return spread(self.net(obs.x)[:, 0], obs.counts, -torch.inf)


class RowsNetwork(nn.Module):
    """[B, rows, F] -> [B, W]: one 1 x F filter (F 2: one resource), then dense layers without bias, the last with."""

    def __init__(self, sizes: list[int], features: int = 2):
        super().__init__()
        self.filter = nn.Linear(features, 1)
        self.net = layers(sizes, bias=False)

    def forward(self, obs: Seen) -> torch.Tensor:
        """Scores [B, W], -inf behind the last job of each."""
        return masked(self.net(self.filter(obs.x)[..., 0]), obs)


class Levels(nn.Module):
    """[B, rows + 1, F] -> [B, W]: two `RowsNetwork`; the last row says which of them answers (0: the first, 1: the second)."""

    def __init__(self, sizes: list[int], features: int = 2):
        super().__init__()
        self.first, self.second = RowsNetwork(sizes, features), RowsNetwork(sizes, features)

    def forward(self, obs: Seen) -> torch.Tensor:
        """Scores [B, W], -inf behind the last job of each."""
        behind = obs.x[:, -1, 0] > 0.5
        scores = obs.x.new_empty((len(obs.x), cast(Any, self.first.net[-1]).out_features))
        for which, net in ((~behind, self.first), (behind, self.second)):
            if which.any():
                counts, mask = obs.counts[which], None if obs.mask is None else obs.mask[which]
                scores = scores.index_put((which,), net(Seen(obs.x[which, :-1], counts, mask)))
        return scores


class Flat(nn.Module):
    """[B, ...] -> [B, W]: dense layers on the flat observation; `init`: standard deviation of the weights, biases 0. `classes`
    A: [B, W / A, A], W / A choices at once."""

    def __init__(self, sizes: list[int], init: float = 0.0, classes: int = 0):
        super().__init__()
        self.net, self.classes = layers(sizes), classes
        if init:
            for layer in self.net:
                if isinstance(layer, nn.Linear):
                    nn.init.normal_(layer.weight, 0.0, init)
                    nn.init.zeros_(layer.bias)

    def forward(self, obs: Seen) -> torch.Tensor:
        """Scores [B, W], -inf where an action is not valid."""
        out = self.net(obs.x.flatten(1))
        return masked(out.unflatten(1, (-1, self.classes)) if self.classes else out, obs)


class PerSlot(nn.Module):
    """[B, M + 1, F] -> [B, M P + 1]: the same network for every slot, and the mean of all slots' first layer for each.

    A job has the same score in every order of the slots. sizes [F, first, ..., P]; the last row is the void action's.
    `classes`: [B, M, P], a choice for each slot; the last row has none.
    """

    def __init__(self, sizes: list[int], classes: int = 0):
        super().__init__()
        self.classes = classes
        self.first = nn.Linear(sizes[0], sizes[1])
        self.net = layers([2 * sizes[1], *sizes[2:]])

    def forward(self, obs: Seen) -> torch.Tensor:
        """Scores [B, M P + 1], -inf where an action is not valid."""
        out = self.net(together(self.first, obs.x))
        if self.classes:
            return masked(out[:, :-1], obs)
        return masked(torch.cat([out[:, :-1].flatten(1), out[:, -1, :1]], dim=1), obs)


class SlotsValue(nn.Module):
    """The value of a grid's rows: as `PerSlot`, then the mean over the slots."""

    def __init__(self, features: int, width: int = 64):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.each = layers([2 * width, width])
        self.all = layers([width, 32, 1])

    def forward(self, obs: Seen) -> torch.Tensor:
        """Return the values [B] of observations."""
        return self.all(torch.relu(self.each(together(self.first, obs.x))).mean(dim=1))[:, 0]


def together(first: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """[B, M + 1, 2 K]: each row's first layer, and the mean over the rows."""
    h = torch.relu(first(x))
    return torch.cat([h, h.mean(dim=1, keepdim=True).expand_as(h)], dim=2)


class Image(nn.Module):
    """CuSH's network: 16 filters of 2 x 2 over [B, C, T, X], ReLU, normalisation, a dense layer to the actions.

    sizes [C, T, X, actions]; `norm`: batch (running means while choosing, the batch's while learning), group or none. `side`:
    the observation has one more channel, a number in all its cells, which joins the flat map in front of the dense layer. Only
    as many channels as the observation has are used: the second agent sees the cluster and one job.
    """

    at_once = 256  # observations whose maps stay in a processor's cache: three times as fast as thousands

    def __init__(self, sizes: list[int], norm: str = "batch", side: bool = False):
        super().__init__()
        channels, rows, units, actions = sizes
        self.filters = nn.Conv2d(channels, 16, 2)
        self.norm = {"batch": nn.BatchNorm2d(16), "group": nn.GroupNorm(4, 16), "none": nn.Identity()}[norm]
        self.side = side
        self.out = nn.Linear(16 * (rows - 1) * (units - 1) + side, actions)

    def forward(self, obs: Seen) -> torch.Tensor:
        """Scores [B, actions], -inf where an action is not valid."""
        x, scalar = (obs.x[:, :-1], obs.x[:, -1, 0, :1]) if self.side else (obs.x, obs.x[:, 0, 0, :0])
        h = torch.relu(nn.functional.conv2d(x, self.filters.weight[:, : x.shape[1]], self.filters.bias))
        return masked(self.out(torch.cat([self.norm(h).flatten(1), scalar], dim=1)), obs)


class Attention(nn.Module):
    """Rows [B, A, D] read of rows [B, N, D], one head."""

    def __init__(self, width: int):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, a: torch.Tensor, b: torch.Tensor, more: torch.Tensor | None = None) -> torch.Tensor:
        """Return what is read; `more` [B, 1, N] is added to the scores."""
        return nn.functional.scaled_dot_product_attention(self.q(a), self.k(b), self.v(b), attn_mask=more)


class Pairs(nn.Module):
    """[B, places + M, F] -> [B, M, places + 1]: for each GPU a score of each place and of none. The weights do not depend on
    the order of places and GPUs, nor on the number of GPUs. sizes [places, features of a job, of a GPU, width]."""

    def __init__(self, sizes: list[int]):
        super().__init__()
        self.places, self.own, self.about, width = sizes
        self.job, self.gpu = nn.Linear(self.own, width), nn.Linear(self.about, width)
        self.held = nn.Linear(width, width, bias=False)
        self.to_jobs, self.to_gpus = Attention(width), Attention(width)
        self.pair = nn.ModuleDict({k: nn.Linear(width, width, bias=False) for k in ("q", "k")})
        self.none, self.stay, self.width = nn.Linear(width, 1), nn.Parameter(torch.ones(1)), width

    def forward(self, obs: Seen) -> torch.Tensor:
        """Scores [B, M, places + 1], -inf where an action is not valid."""
        jobs, gpus = obs.x[:, : self.places, : self.own], obs.x[:, self.places :, : self.about]
        held = obs.x[:, self.places :, self.about : self.about + self.places]
        h, u = torch.relu(self.job(jobs)), torch.relu(self.gpu(gpus))
        count = held.sum(dim=1)[:, :, None]
        h = h + self.held(held.transpose(1, 2) @ u / count.clamp(min=1.0))
        nobody = torch.where(jobs[:, None, :, 0] > 0, 0.0, NOBODY).to(h.dtype)
        more_u, more_h = self.to_jobs(u, h, nobody), self.to_gpus(h, u)
        h, u = h + more_h, u + more_u
        pair = self.pair["q"](u) @ self.pair["k"](h).transpose(1, 2) / self.width**0.5
        return masked(torch.cat([pair + self.stay * held, self.none(u)], dim=2), obs)


class PerJobValue(nn.Module):
    """The value of a window of jobs: each job by the same network, the sum, the mean and the number by another."""

    def __init__(self, features: int, width: int = 32):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, 16), nn.ReLU())
        self.all = layers([33, 32, 1])

    def forward(self, obs: Seen) -> torch.Tensor:
        """Return the values [B] of observations."""
        total = torch.segment_reduce(self.each(obs.x), "sum", lengths=obs.counts)
        n = obs.counts[:, None].to(total.dtype)
        return self.all(torch.cat([total / 16.0, total / n, n / 128.0], dim=1))[:, 0]


class WindowValue(nn.Module):
    """RLScheduler's critic: each job by the same network 32-16-8-1, then 64-32-8-1 on the window's W numbers."""

    def __init__(self, features: int, window: int):
        super().__init__()
        self.each = layers([features, 32, 16, 8, 1])
        self.all = layers([window, 64, 32, 8, 1])
        self.window = window

    def forward(self, obs: Seen) -> torch.Tensor:
        """Return the values [B] of observations."""
        dense = spread(self.each(obs.x)[:, 0], obs.counts, 0.0)
        return self.all(nn.functional.pad(dense, (0, self.window - dense.shape[1])))[:, 0]


class FlatValue(nn.Module):
    """[B, rows, F] -> [B]: dense layers on the flat observation."""

    def __init__(self, sizes: list[int]):
        super().__init__()
        self.net = layers(sizes)

    def forward(self, obs: Seen) -> torch.Tensor:
        """Return the values [B] of observations."""
        return self.net(obs.x.flatten(1))[:, 0]


def spread(flat: torch.Tensor, counts: torch.Tensor, fill: float) -> torch.Tensor:
    """[sum of counts] -> [B, longest count], `fill` behind the end of each."""
    there = torch.arange(int(counts.max()), device=counts.device) < counts[:, None]
    return flat.new_full(there.shape, fill).masked_scatter(there, flat)


def masked(scores: torch.Tensor, obs: Seen) -> torch.Tensor:
    """Scores [B, W] with -inf where an action is not valid."""
    there = obs.mask
    if there is None:
        there = torch.arange(scores.shape[1], device=scores.device) < obs.counts[:, None]
    return scores.masked_fill(~there, -torch.inf)


def actor(spec: dict) -> nn.Module:
    """The network of a spec {"kind", "sizes", ...}, as policy files keep it."""
    more = {k: v for k, v in spec.items() if k not in ("kind", "sizes")}
    kinds = {
        "perjob": PerJob,
        "rows": RowsNetwork,
        "levels": Levels,
        "mlp": Flat,
        "slots": PerSlot,
        "image": Image,
        "pairs": Pairs,
    }
    return kinds[spec["kind"]](list(spec["sizes"]), **more)


def critic(spec: dict, encoder_shape: tuple[int, ...], kind: str) -> nn.Module:
    """The value network that goes with an actor: `kind` is "pooled" or "window" for per-job networks, else dense."""
    if spec["kind"] == "slots":
        return SlotsValue(encoder_shape[1])
    if spec["kind"] != "perjob":
        return FlatValue([prod(encoder_shape), 128, 64, 1])
    rows, features = encoder_shape
    return WindowValue(features, rows) if kind == "window" else PerJobValue(features)


def parameters(module: nn.Module) -> int:
    """Return the number of learnt parameters."""
    return sum(p.numel() for p in module.parameters())


def weights(module: nn.Module) -> dict[str, np.ndarray]:
    """Its parameters as float32 arrays."""
    kept = {k: v for k, v in module.state_dict().items() if not k.endswith("num_batches_tracked")}
    return {k: v.detach().cpu().numpy().astype(np.float32) for k, v in kept.items()}
