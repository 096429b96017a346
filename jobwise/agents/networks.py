"""Networks. B observations, W slots, F features. What is behind the last job of a window is never computed.

`perjob`: the same small network looks at every job, a softmax over the window compares (RLScheduler, SC'20). `rows`: a
1 x 2 convolution over the rows of SEM or DRAS, two dense layers without bias, one output per slot. `mlp`: dense layers on
the flat observation. `jobwise/policies/forward.py` computes the same without torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Seen:
    """B observations: `x` [sum of counts, F], one after the other, for a per-job network, else [B, rows, 2]; `counts` [B]."""

    x: torch.Tensor
    counts: torch.Tensor

    def to(self, device: torch.device) -> Seen:
        """The same on a device."""
        return Seen(self.x.to(device), self.counts.to(device))


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

    def forward(self, seen: Seen) -> torch.Tensor:
        """Scores [B, longest count], -inf behind the last job of each."""
        return spread(self.net(seen.x)[:, 0], seen.counts, -torch.inf)


class Rows(nn.Module):
    """[B, rows, 2] -> [B, W]: one 1 x 2 filter, then dense layers without bias, the last with."""

    def __init__(self, sizes: list[int]):
        super().__init__()
        self.filter = nn.Linear(2, 1)
        self.net = layers(sizes, bias=False)

    def forward(self, seen: Seen) -> torch.Tensor:
        """Scores [B, W], -inf behind the last job of each."""
        return masked(self.net(self.filter(seen.x)[..., 0]), seen.counts)


class Flat(nn.Module):
    """[B, rows, F] -> [B, W]: dense layers on the flat observation."""

    def __init__(self, sizes: list[int]):
        super().__init__()
        self.net = layers(sizes)

    def forward(self, seen: Seen) -> torch.Tensor:
        """Scores [B, W], -inf behind the last job of each."""
        return masked(self.net(seen.x.flatten(1)), seen.counts)


class PerJobValue(nn.Module):
    """The value of a window of jobs: each job by the same network, the sum, the mean and the number by another."""

    def __init__(self, features: int, width: int = 32):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, 16), nn.ReLU())
        self.all = layers([33, 32, 1])

    def forward(self, seen: Seen) -> torch.Tensor:
        """Values [B]."""
        total = torch.segment_reduce(self.each(seen.x), "sum", lengths=seen.counts)
        n = seen.counts[:, None].to(total.dtype)
        return self.all(torch.cat([total / 16.0, total / n, n / 128.0], dim=1))[:, 0]


class WindowValue(nn.Module):
    """RLScheduler's critic: each job by the same network 32-16-8-1, then 64-32-8-1 on the window's W numbers."""

    def __init__(self, features: int, window: int):
        super().__init__()
        self.each = layers([features, 32, 16, 8, 1])
        self.all = layers([window, 64, 32, 8, 1])
        self.window = window

    def forward(self, seen: Seen) -> torch.Tensor:
        """Values [B]."""
        dense = spread(self.each(seen.x)[:, 0], seen.counts, 0.0)
        return self.all(nn.functional.pad(dense, (0, self.window - dense.shape[1])))[:, 0]


class FlatValue(nn.Module):
    """[B, rows, F] -> [B]: dense layers on the flat observation."""

    def __init__(self, sizes: list[int]):
        super().__init__()
        self.net = layers(sizes)

    def forward(self, seen: Seen) -> torch.Tensor:
        """Values [B]."""
        return self.net(seen.x.flatten(1))[:, 0]


def spread(flat: torch.Tensor, counts: torch.Tensor, fill: float) -> torch.Tensor:
    """[sum of counts] -> [B, longest count], `fill` behind the end of each."""
    there = torch.arange(int(counts.max()), device=counts.device) < counts[:, None]
    return flat.new_full(there.shape, fill).masked_scatter(there, flat)


def masked(scores: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Scores [B, W] with -inf from slot counts on."""
    there = torch.arange(scores.shape[1], device=counts.device) < counts[:, None]
    return scores.masked_fill(~there, -torch.inf)


def actor(spec: dict) -> nn.Module:
    """The network of a spec {"kind", "sizes"}, as policy files keep it."""
    return {"perjob": PerJob, "rows": Rows, "mlp": Flat}[spec["kind"]](list(spec["sizes"]))


def critic(spec: dict, encoder_shape: tuple[int, int], kind: str) -> nn.Module:
    """The value network that goes with an actor: `kind` is "pooled" or "window" for per-job networks, else dense."""
    rows, features = encoder_shape
    if spec["kind"] != "perjob":
        return FlatValue([rows * features, 128, 64, 1])
    return WindowValue(features, rows) if kind == "window" else PerJobValue(features)


def parameters(module: nn.Module) -> int:
    """How many numbers are learnt."""
    return sum(p.numel() for p in module.parameters())


def weights(module: nn.Module) -> dict[str, np.ndarray]:
    """Its parameters as float32 arrays."""
    return {k: v.detach().cpu().numpy().astype(np.float32) for k, v in module.state_dict().items()}
