"""Networks without torch: what a policy file holds, computed with numpy. `learn/networks.py` has the same for learning."""

from __future__ import annotations

import numpy as np

from jobwise.errors import InputError

KINDS = ("perjob", "rows", "levels", "mlp")
OF_GRIDS = ("mlp", "slots", "image")


class Forward:
    """A network: `spec` {"kind", "sizes"} and its weights by name; of `levels`, two, and the last row says which answers.

    Raises InputError where they do not belong together.
    """

    def __init__(self, spec: dict, weights: dict[str, np.ndarray]):
        self.kind, self.sizes = spec.get("kind"), [int(n) for n in spec.get("sizes", [])]
        if self.kind not in KINDS or len(self.sizes) < 2 or min(self.sizes) < 1:
            raise InputError(f"unknown network {spec}; kinds are {', '.join(KINDS)}")
        expected, self.levels = {}, []
        if self.kind == "levels":
            of = {k: [n for n in weights if n.startswith(f"{k}.")] for k in ("first", "second")}
            if wrong := sorted(set(weights) - set(of["first"]) - set(of["second"])):
                raise InputError(f"the network has two levels; the file has {wrong[0]}")
            rows = {"kind": "rows", "sizes": self.sizes}
            self.levels = [Forward(rows, {n.split(".", 1)[1]: weights[n] for n in names}) for names in of.values()]
            self.weights = weights
            return
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
        if self.kind == "levels":
            behind = x[:, -1, 0] > 0.5
            out = np.empty((len(x), self.sizes[-1]), np.float32)
            for which, level in zip((~behind, behind), self.levels, strict=True):
                if which.any():
                    out[which] = level(x[which, :-1])
            return out
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


class GridForward:
    """A network for a grid of time: `spec` {"kind", "sizes", ...} and its weights by name, as `learn/networks.py` has them.

    Raises InputError where they do not belong together.
    """

    def __init__(self, spec: dict, weights: dict[str, np.ndarray]):
        self.spec, self.kind, self.weights = spec, spec.get("kind"), weights
        self.sizes = [int(n) for n in spec.get("sizes", [])]
        if self.kind not in OF_GRIDS or len(self.sizes) < 2 or min(self.sizes) < 1:
            raise InputError(f"unknown network {spec}; kinds are {', '.join(OF_GRIDS)}")
        shapes, expected = {k: tuple(v.shape) for k, v in weights.items()}, self._expected()
        if shapes != expected:
            wrong = sorted(set(shapes.items()) ^ set(expected.items()), key=str)[0][0]
            raise InputError(f"the network needs {wrong} of shape {expected.get(wrong)}; the file has {shapes.get(wrong)}")

    def _expected(self) -> dict[str, tuple]:
        s = self.sizes
        if self.kind == "image":
            channels, rows, units, actions = s
            found = {"filters.weight": (16, channels, 2, 2), "filters.bias": (16,), "norm.weight": (16,), "norm.bias": (16,)}
            if self.spec.get("norm", "batch") == "batch":
                found |= {"norm.running_mean": (16,), "norm.running_var": (16,)}
            wide = 16 * (rows - 1) * (units - 1) + bool(self.spec.get("side"))
            return found | {"out.weight": (actions, wide), "out.bias": (actions,)}
        found, wide = {}, s
        if self.kind == "slots":
            found, wide = {"first.weight": (s[1], s[0]), "first.bias": (s[1],)}, [2 * s[1], *s[2:]]
        for i, (a, b) in enumerate(zip(wide[:-1], wide[1:], strict=True)):
            found |= {f"net.{2 * i}.weight": (b, a), f"net.{2 * i}.bias": (b,)}
        return found

    @property
    def parameters(self) -> int:
        """How many numbers were learnt."""
        return sum(v.size for k, v in self.weights.items() if "running" not in k)

    def _dense(self, x: np.ndarray) -> np.ndarray:
        last = max(int(k.split(".")[1]) for k in self.weights if k.startswith("net."))
        for i in range(0, last + 1, 2):
            x = x @ self.weights[f"net.{i}.weight"].T + self.weights[f"net.{i}.bias"]
            if i < last:
                np.maximum(x, 0.0, out=x)
        return x

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Scores [B, actions] of observations [B, ...]."""
        w = self.weights
        if self.kind == "mlp":
            return self._dense(x.reshape(len(x), -1))
        if self.kind == "slots":
            h = np.maximum(x @ w["first.weight"].T + w["first.bias"], 0.0)
            mean = np.broadcast_to(h.mean(axis=1, keepdims=True), h.shape)
            out = self._dense(np.concatenate([h, mean], axis=2))
            return np.concatenate([out[:, :-1].reshape(len(x), -1), out[:, -1, :1]], axis=1)
        x, scalar = (x[:, :-1], x[:, -1, 0, :1]) if self.spec.get("side") else (x, x[:, 0, 0, :0])
        x = np.moveaxis(x, 1, 3)
        h = w["filters.bias"] + sum(
            x[:, a : x.shape[1] - 1 + a, b : x.shape[2] - 1 + b] @ w["filters.weight"][:, : x.shape[3], a, b].T
            for a in range(2)
            for b in range(2)
        )
        np.maximum(h, 0.0, out=h)
        if "norm.running_mean" in w:
            h = (h - w["norm.running_mean"]) / np.sqrt(w["norm.running_var"] + 1e-5)
        else:
            g = h.reshape(*h.shape[:3], 4, 4)
            mean, var = g.mean(axis=(1, 2, 4), keepdims=True), g.var(axis=(1, 2, 4), keepdims=True)
            h = ((g - mean) / np.sqrt(var + 1e-5)).reshape(h.shape)
        h = h * w["norm.weight"] + w["norm.bias"]
        flat = np.concatenate([np.moveaxis(h, 3, 1).reshape(len(x), -1), scalar], axis=1)
        return flat @ w["out.weight"].T + w["out.bias"]


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
