"""Networks without torch: what a policy file holds, computed with numpy. `learn/networks.py` has the same for learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.policies import pairs

WINDOW = ("perjob", "rows", "levels", "mlp")  # kinds of networks of the world of windows
KINDS = (*WINDOW, "slots", "image", "pairs")
LEAST = {"image": 4, "pairs": 4}  # sizes


class Forward:
    """A network: `spec` {"kind", "sizes", ...} and its weights by name, as `learn/networks.py` has them.

    Observations are [B, ...], scores [B, actions]; of a `perjob` network [R, F] and [R].

        perjob  dense layers, the same for every job           rows    a filter over the columns, then dense layers (SEM, DRAS)
        levels  two `rows`; the last row says which answers    mlp     dense layers over everything
        slots   a shared layer per slot, joined with its mean  image   a convolution, a norm, a dense layer (CuSH)
        pairs   attention between jobs and GPUs, a score each

    Raises InputError where spec and weights do not belong together.
    """

    def __init__(self, spec: dict, weights: dict[str, np.ndarray]):
        self.spec, self.kind, self.weights = spec, spec.get("kind"), weights
        self.sizes, self.levels, self.layers = [int(n) for n in spec.get("sizes", [])], list[Any](), list[Any]()
        if self.kind not in KINDS or len(self.sizes) < LEAST.get(self.kind, 2) or min(self.sizes) < 1:
            raise InputError(f"unknown network {spec}; kinds are {', '.join(KINDS)}")
        classes = spec.get("classes", 1)
        if type(classes) is not int or not 1 <= classes <= self.sizes[-1] or self.sizes[-1] % classes:
            raise InputError(f"a network of {self.sizes[-1]} scores cannot choose among {classes!r} classes")
        if self.kind == "levels":
            self._split()
            return
        shapes, expected = {k: tuple(v.shape) for k, v in weights.items()}, self._expected()
        if shapes != expected:
            wrong = sorted(set(shapes.items()) ^ set(expected.items()), key=str)[0][0]
            raise InputError(f"the network needs {wrong} of shape {expected.get(wrong)}; the file has {shapes.get(wrong)}")
        count = sum(k.startswith("net.") and k.endswith("weight") for k in weights)
        names = [f"net.{2 * i}" for i in range(count)]
        self.layers = [(np.ascontiguousarray(weights[f"{n}.weight"].T), weights.get(f"{n}.bias")) for n in names]

    def _split(self) -> None:
        of = {k: [n for n in self.weights if n.startswith(f"{k}.")] for k in ("first", "second")}
        if wrong := sorted(set(self.weights) - set(of["first"]) - set(of["second"])):
            raise InputError(f"the network has two levels; the file has {wrong[0]}")
        rows = {"kind": "rows", "sizes": self.sizes, "features": self.spec.get("features", 2)}
        self.levels = [Forward(rows, {n.split(".", 1)[1]: self.weights[n] for n in names}) for names in of.values()]

    def _expected(self) -> dict[str, tuple]:
        """The shape of every weight."""
        s, shapes = self.sizes, {}
        if self.kind == "pairs":
            return pairs.shapes(s)
        if self.kind == "image":
            channels, rows, units, actions = s
            shapes, norm = {"filters.weight": (16, channels, 2, 2), "filters.bias": (16,)}, self.spec.get("norm", "batch")
            if norm != "none":
                shapes |= {"norm.weight": (16,), "norm.bias": (16,)}
            if norm == "batch":
                shapes |= {"norm.running_mean": (16,), "norm.running_var": (16,)}
            wide = 16 * (rows - 1) * (units - 1) + bool(self.spec.get("side"))
            return shapes | {"out.weight": (actions, wide), "out.bias": (actions,)}
        if self.kind == "rows":
            shapes = {"filter.weight": (1, self.spec.get("features", 2)), "filter.bias": (1,)}
        if self.kind == "slots":
            shapes, s = {"first.weight": (s[1], s[0]), "first.bias": (s[1],)}, [2 * s[1], *s[2:]]
        last = len(s) - 2
        for i, (a, b) in enumerate(zip(s[:-1], s[1:], strict=True)):
            shapes[f"net.{2 * i}.weight"] = (b, a)
            if self.kind != "rows" or i == last:
                shapes[f"net.{2 * i}.bias"] = (b,)
        return shapes

    @property
    def parameters(self) -> int:
        """Return the number of learnt parameters."""
        return sum(w.size for k, w in self.weights.items() if "running" not in k)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the scores of observations."""
        if self.kind == "levels":
            behind = x[:, -1, 0] > 0.5
            out = np.empty((len(x), self.sizes[-1]), np.float32)
            for which, level in zip((~behind, behind), self.levels, strict=True):
                if which.any():
                    out[which] = level(x[which, :-1])
            return out
        if self.kind == "perjob":
            return self._dense(x)[:, 0]
        if self.kind == "rows":
            w, b = self.weights["filter.weight"], self.weights["filter.bias"]
            return self._dense(sum(x[..., k] * w[0, k] for k in range(w.shape[1])) + b[0])
        if self.kind == "mlp":
            out = self._dense(x.reshape(len(x), -1))
            return out.reshape(len(x), -1, self.spec["classes"]) if self.spec.get("classes") else out
        if self.kind == "pairs":
            return pairs.scores(x, self.weights, self.sizes)
        return self._of_slots(x) if self.kind == "slots" else self._of_image(x)

    def _dense(self, x: np.ndarray) -> np.ndarray:
        last = len(self.layers) - 1
        for i, (w, b) in enumerate(self.layers):
            x = x @ w
            if b is not None:
                x += b
            if i < last:
                np.maximum(x, 0.0, out=x)
        return x

    def _of_slots(self, x: np.ndarray) -> np.ndarray:
        h = np.maximum(x @ self.weights["first.weight"].T + self.weights["first.bias"], 0.0)
        mean = np.broadcast_to(h.mean(axis=1, keepdims=True), h.shape)
        out = self._dense(np.concatenate([h, mean], axis=2))
        if self.spec.get("classes"):
            return out[:, :-1]
        return np.concatenate([out[:, :-1].reshape(len(x), -1), out[:, -1, :1]], axis=1)

    def _of_image(self, x: np.ndarray) -> np.ndarray:
        w = self.weights
        x, scalar = (x[:, :-1], x[:, -1, 0, :1]) if self.spec.get("side") else (x, x[:, 0, 0, :0])
        (B, C, T, X), corners = x.shape, [(a, b) for a in range(2) for b in range(2)]
        filters = np.concatenate([w["filters.weight"][:, :C, a, b] for a, b in corners])  # [4 * 16, C]
        parts = (filters @ x.reshape(B, C, T * X)).reshape(B, 4, -1, T, X)
        h = sum(parts[:, i, :, a : T - 1 + a, b : X - 1 + b] for i, (a, b) in enumerate(corners))
        h = np.maximum(h + w["filters.bias"][:, None, None], 0.0)
        if "norm.running_mean" in w:
            h = (h - w["norm.running_mean"][:, None, None]) / np.sqrt(w["norm.running_var"] + 1e-5)[:, None, None]
        elif "norm.weight" in w:
            g = h.reshape(B, 4, -1)
            h = ((g - g.mean(axis=2, keepdims=True)) / np.sqrt(g.var(axis=2, keepdims=True) + 1e-5)).reshape(h.shape)
        if "norm.weight" in w:
            h = h * w["norm.weight"][:, None, None] + w["norm.bias"][:, None, None]
        return np.concatenate([h.reshape(B, -1), scalar], axis=1) @ w["out.weight"].T + w["out.bias"]


class Constant(Forward):
    """A network that looks at nothing: the same scores, `table` [actions] or [parts, actions], whatever it is shown."""

    def __init__(self, table: np.ndarray):
        self.kind, self.spec, self.weights, self.table = "constant", {"kind": "constant"}, {}, np.asarray(table, np.float32)
        self.sizes, self.levels, self.layers = [1, self.table.shape[-1]], [], []

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the table for each observation."""
        return np.broadcast_to(self.table, (len(x), *self.table.shape))


TIE = 1e-5  # of the best score: closer ones are equal, for a product of matrices rounds equal rows differently


def choose(forward: Forward, out: np.ndarray, counts: np.ndarray, more: np.ndarray | float = 0.0) -> np.ndarray:
    """[E] the slot of the highest score of each observation out [E, rows, F]; 0 where counts is 0. Ties: the first.
    `more` [E, W] is added to the scores.

    Raises FloatingPointError where a score is not a number.
    """
    there = np.arange(out.shape[1] if forward.kind == "perjob" else forward.sizes[-1]) < counts[:, None]
    if forward.kind == "perjob":
        scores = np.full(there.shape, -np.inf, np.float32)
        if there.any():
            scores[there] = forward(out[there])
    else:
        scores = np.where(there, forward(out), -np.inf)
    scores = scores + more
    best = scores.max(axis=1)
    if np.isnan(best).any():
        raise FloatingPointError("NaN")
    return (scores >= (best - TIE * np.abs(np.where(there.any(axis=1), best, 0.0)))[:, None]).argmax(axis=1)
