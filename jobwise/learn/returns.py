"""Returns and advantages: pure functions of arrays. T steps, E simulations; names carry time: `r_t`, `v_t`, `over_t`."""

from __future__ import annotations

import numpy as np


def discounted(r_t: np.ndarray, gamma: float) -> np.ndarray:
    """G_t = sum over k >= t of gamma^(k - t) r_k, within the array [T] or [T, E]."""
    out = np.array(r_t, float)
    for t in range(len(out) - 2, -1, -1):
        out[t] += gamma * out[t + 1]
    return out


def gae(
    r_t: np.ndarray, v_t: np.ndarray, over_t: np.ndarray, v_last: np.ndarray, gamma: float, lam: float
) -> tuple[np.ndarray, np.ndarray]:
    """(advantages, value targets) [T, E]: generalised advantage estimation (Schulman et al., ICLR'16, eq. 16).

    `over_t`: the episode ended with step t, its value after is 0. `v_last` [E]: values after the last step.
    """
    advantage = np.zeros_like(v_t, dtype=float)
    after, carried = v_last.astype(float), np.zeros(v_t.shape[1:])
    for t in range(len(r_t) - 1, -1, -1):
        on = 1.0 - over_t[t]
        carried = r_t[t] + gamma * on * after - v_t[t] + gamma * lam * on * carried
        advantage[t], after = carried, v_t[t]
    return advantage, advantage + v_t


def standardised(x: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """x with mean 0 and standard deviation 1 (over all, or where `weight` is 1); 0 where all are equal."""
    chosen = x if weight is None else x[weight > 0]
    return (x - chosen.mean()) / (chosen.std() + 1e-8)


def time_baseline(g_t: np.ndarray, length: np.ndarray) -> np.ndarray:
    """[T] mean over N runs of the same jobs of their returns g_t [T, N] at step t (DeepRM, HotNets'16).

    Run n has length[n] steps; at step t the mean is over the runs that are that long (0 where none is).
    """
    there = np.arange(len(g_t))[:, None] < length[None]
    return (g_t * there).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
