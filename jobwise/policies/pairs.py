"""The network `pairs` with numpy: which GPU works for which job, by attention between the two. `Pairs` of
`jobwise/learn/networks.py` is the same for learning."""

from __future__ import annotations

import numpy as np

NOBODY = -1e9  # what is added to the scores of attention where there is no job


def shapes(sizes: list[int]) -> dict[str, tuple]:
    """The shape of every weight: sizes [places, features of a job, features of a GPU, width]."""
    _, own, about, width = sizes
    out: dict[str, tuple] = {
        "job.weight": (width, own),
        "job.bias": (width,),
        "gpu.weight": (width, about),
        "gpu.bias": (width,),
    }
    for name in ("to_jobs", "to_gpus"):
        out |= {f"{name}.{k}.weight": (width, width) for k in ("q", "k", "v")}
    out |= {"held.weight": (width, width), "pair.q.weight": (width, width), "pair.k.weight": (width, width), "stay": (1,)}
    return out | {"none.weight": (1, width), "none.bias": (1,)}


def scores(x: np.ndarray, w: dict[str, np.ndarray], sizes: list[int]) -> np.ndarray:
    """[B, M, places + 1]: for each GPU a score of each place and of none; x [B, places + M, F] of the encoder `gpu-links`."""
    places, own, about, width = sizes
    jobs, gpus = x[:, :places, :own], x[:, places:, :about]
    held = x[:, places:, about : about + places]
    h = np.maximum(jobs @ w["job.weight"].T + w["job.bias"], 0.0)
    u = np.maximum(gpus @ w["gpu.weight"].T + w["gpu.bias"], 0.0)
    count = held.sum(axis=1)[:, :, None]
    h = h + (held.transpose(0, 2, 1) @ u) / np.maximum(count, 1.0) @ w["held.weight"].T
    nobody = np.where(jobs[:, :, 0] > 0, 0.0, NOBODY).astype(np.float32)
    more_u = _attends(u, h, w, "to_jobs", nobody[:, None, :])
    more_h = _attends(h, u, w, "to_gpus", np.zeros((1, 1, 1), np.float32))
    h, u = h + more_h, u + more_u
    pair = (u @ w["pair.q.weight"].T) @ (h @ w["pair.k.weight"].T).transpose(0, 2, 1) / np.sqrt(np.float32(width))
    none = u @ w["none.weight"].T + w["none.bias"]
    return np.concatenate([pair + w["stay"] * held, none], axis=2)


def _attends(a: np.ndarray, b: np.ndarray, w: dict[str, np.ndarray], name: str, more: np.ndarray) -> np.ndarray:
    """Return the attention of rows `a` [B, A, D] to rows `b` [B, N, D]; `more` is added to the scores."""
    q, k, v = (x @ w[f"{name}.{n}.weight"].T for x, n in ((a, "q"), (b, "k"), (b, "v")))
    z = q @ k.transpose(0, 2, 1) / np.sqrt(np.float32(a.shape[2])) + more
    z = np.exp(z - z.max(axis=2, keepdims=True))
    return (z / z.sum(axis=2, keepdims=True)) @ v
