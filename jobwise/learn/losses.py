"""Losses: pure functions of tensors, one number per call. B choices."""

from __future__ import annotations

import torch


def chosen(every: torch.Tensor, actions: torch.Tensor, parts: bool = False) -> torch.Tensor:
    """[B] log probabilities of actions [B] of `every` [B, A]; where an action has parts [B, M], of `every` [B, M, A], their sum
    over the parts, or `parts` themselves [B, M]."""
    logp = every.gather(-1, actions[..., None])[..., 0]
    return logp if parts or logp.dim() == 1 else logp.sum(dim=1)


def policy_gradient(logp: torch.Tensor, advantage: torch.Tensor, floor: float = -18.42) -> torch.Tensor:
    """-mean(advantage * log pi), REINFORCE (Williams 1992); log pi is kept above `floor` = log(1e-8), as DRAS does."""
    return -(advantage * logp.clamp(min=floor)).mean()


def clipped(logp: torch.Tensor, old: torch.Tensor, advantage: torch.Tensor, clip: float) -> torch.Tensor:
    """-mean(min(q A, clip(q, 1 - clip, 1 + clip) A)), q = exp(logp - old): PPO (arXiv:1707.06347, eq. 7)."""
    q = torch.exp(logp - old)
    return -torch.minimum(q * advantage, q.clamp(1 - clip, 1 + clip) * advantage).mean()


def expected(every: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Mean over B of the expectation of x [B, A] under log probabilities `every` [B, A]."""
    p = every.exp()
    return (p * x).sum(dim=-1).mean()


def squared(v: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean of (v - target)^2."""
    return torch.square(v - target).mean()


def entropy(log_probabilities: torch.Tensor) -> torch.Tensor:
    """Mean entropy of the distributions [B, W]; impossible actions have log probability -inf."""
    p = log_probabilities.exp()
    return -(p * log_probabilities.masked_fill(p == 0, 0.0)).sum(dim=-1).mean()
