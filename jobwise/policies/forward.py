"""Networks without torch: what a policy file holds, computed with numpy. `agents/networks.py` has the same for learning."""

from __future__ import annotations

import numpy as np

from jobwise.errors import InputError

KINDS = ("perjob", "rows", "mlp")


class Forward:
    """A network: `spec` {"kind", "sizes"} and its weights by name. Raises InputError where they do not belong together."""

    def __init__(self, spec: dict, weights: dict[str, np.ndarray]):
        self.kind, self.sizes = spec.get("kind"), [int(n) for n in spec.get("sizes", [])]
        if self.kind not in KINDS or len(self.sizes) < 2 or min(self.sizes) < 1:
            raise InputError(f"unknown network {spec}; kinds are {', '.join(KINDS)}")
        expected = {}
        if self.kind == "rows":
            expected |= {"filter.weight": (1, 2), "filter.bias": (1,)}
        last = len(self.sizes) - 2
        for i, (a, b) in enumerate(zip(self.sizes[:-1], self.sizes[1:], strict=True)):
            expected[f"net.{2 * i}.weight"] = (b, a)
            if self.kind != "rows" or i == last:
                expected[f"net.{2 * i}.bias"] = (b,)
        shapes = {k: tuple(v.shape) for k, v in weights.items()}
        if shapes != expected:
            wrong = sorted(set(shapes.items()) ^ set(expected.items()))[0][0]
            raise InputError(f"the network needs {wrong} of shape {expected.get(wrong)}; the file has {shapes.get(wrong)}")
        self.weights = weights
        self.layers = [
            (np.ascontiguousarray(weights[f"net.{2 * i}.weight"].T), weights.get(f"net.{2 * i}.bias"))
            for i in range(len(self.sizes) - 1)
        ]

    @property
    def parameters(self) -> int:
        """How many numbers were learnt."""
        return sum(w.size for w in self.weights.values())

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Scores: [R] for the rows [R, F] of a per-job network, else [B, W] for observations [B, rows, F]."""
        if self.kind == "rows":
            w, b = self.weights["filter.weight"], self.weights["filter.bias"]
            x = x[..., 0] * w[0, 0] + x[..., 1] * w[0, 1] + b[0]
        elif self.kind == "mlp":
            x = x.reshape(len(x), -1)
        last = len(self.layers) - 1
        for i, (w, b) in enumerate(self.layers):
            x = x @ w
            if b is not None:
                x += b
            if i < last:
                np.maximum(x, 0.0, out=x)
        return x[:, 0] if self.kind == "perjob" else x


def choose(forward: Forward, out: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """[E] the slot of the highest score of each observation out [E, rows, F]; 0 where counts is 0. Ties: the first.

    Raises FloatingPointError where a score is not a number.
    """
    actions = np.zeros(len(out), np.int64)
    if forward.kind != "perjob":
        scores = forward(out)
        scores = np.where(np.arange(scores.shape[1]) < counts[:, None], scores, -np.inf)
        if np.isnan(scores).any():
            raise FloatingPointError("NaN")
        return scores.argmax(axis=1)
    if len(out) == 1:
        k = counts[0]
        if k > 0:
            scores = forward(out[0, :k])
            actions[0] = scores.argmax()
            if np.isnan(scores[actions[0]]):  # argmax finds a NaN if there is one
                raise FloatingPointError("NaN")
        return actions
    there = np.arange(out.shape[1]) < counts[:, None]
    dense = np.full(there.shape, -np.inf, np.float32)
    dense[there] = forward(out[there])
    if np.isnan(dense).any():
        raise FloatingPointError("NaN")
    return dense.argmax(axis=1)
