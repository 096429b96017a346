"""The network `pairs` for learning: jobs and GPUs read of each other by attention, and every pair has a score (RL-TAPS's
outlook: a compact input with bandwidths). `jobwise/policies/pairs.py` computes it without torch."""

from __future__ import annotations

import torch
from torch import nn

from jobwise.learn.networks import Seen, masked
from jobwise.policies.pairs import NOBODY


class Attention(nn.Module):
    """Rows [B, A, D] read of rows [B, N, D], one head."""

    def __init__(self, width: int):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, a: torch.Tensor, b: torch.Tensor, more: torch.Tensor | None = None) -> torch.Tensor:
        """Return what is read; `more` [B, 1, N] is added to the scores."""
        return nn.functional.scaled_dot_product_attention(self.q(a), self.k(b), self.v(b), attn_mask=more)


class Pairs(nn.Module):
    """[B, places + M, F] -> [B, M, places + 1]: for each GPU a score of each place and of none. Whatever the order of places
    and GPUs, and whatever the number of GPUs, the weights are the same. sizes [places, features of a job, of a GPU, width]."""

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
