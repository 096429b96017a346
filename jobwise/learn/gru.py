"""Recurrent networks: one that forecasts series of telemetry, quantiles of all horizons at once; one that sees failures
come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from jobwise.errors import InputError
from jobwise.forecast.failures import OF_METRIC
from jobwise.forecast.load_models import QUANTILES
from jobwise.forecast.loads import EPOCHS, LAGS, Forecast, Series

BATCH, ROWS = 256, 40_000
ROUNDS, WIDE = 600, len(OF_METRIC)  # steps of learning of failures; features that are told of a metric


class Net(nn.Module):
    """[B, LAGS] the last samples relative to the last one -> [B, H, Q] changes, in scales of the series."""

    def __init__(self, horizons: int, hidden: int = 32):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, horizons * len(QUANTILES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the quantiles in ascending order."""
        _, last = self.gru(x[..., None])
        return self.out(last[0]).unflatten(1, (-1, len(QUANTILES)))


def _seen(s: Series) -> np.ndarray:
    x = s.known
    window = np.lib.stride_tricks.sliding_window_view(np.concatenate([np.full(LAGS - 1, x[0]), x]), LAGS)
    return np.clip((window - x[:, None]) / s.scale, -20, 20).astype(np.float32)


def fit(
    series: Sequence[Series], horizons: Sequence[int], peak: bool = False, seed: int = 0, progress: Callable | None = None
) -> Callable[[Series], Forecast]:
    """The network, fitted to the first parts of the series by the pinball loss. Raises InputError."""
    rng, xs, ys, each = np.random.default_rng(seed), [], [], max(ROWS // max(len(series), 1), 20)
    for s in series:
        y = np.stack([s.target(h, peak) for h in horizons], axis=1)
        rows = np.flatnonzero(~np.isnan(y).any(axis=1))
        rows = rows[rows < s.cuts[0] - max(horizons)]
        rows = np.sort(rng.choice(rows, each, replace=False)) if len(rows) > each else rows
        xs.append(_seen(s)[rows])
        ys.append(np.clip((y[rows] - s.known[rows, None]) / s.scale, -20, 20).astype(np.float32))
    x, y = torch.from_numpy(np.concatenate(xs)), torch.from_numpy(np.concatenate(ys))  # type: ignore[assignment]
    if len(x) == 0:
        raise InputError("no series has samples to learn from")
    torch.manual_seed(seed)
    net, q = Net(len(horizons)), torch.tensor(QUANTILES)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        for part in np.array_split(rng.permutation(len(x)), max(len(x) // BATCH, 1)):
            e = y[part][..., None] - net(x[part])
            loss = torch.maximum(q * e, (q - 1) * e).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if progress:
            progress(epoch + 1, EPOCHS)

    def model(s: Series) -> Forecast:
        with torch.no_grad():
            parts = [net(torch.from_numpy(p)).numpy() for p in np.array_split(_seen(s), max(len(s.y) // 8192, 1))]
        out = np.sort(np.concatenate(parts), axis=2) * s.scale + s.known[:, None, None]
        return Forecast(out[..., 1], out[..., 0], out[..., 2])

    return model


class Watch(nn.Module):
    """[B, STEPS, F] features of the last steps -> [B] the logit of a failure."""

    def __init__(self, features: int, hidden: int = 24):
        super().__init__()
        self.gru = nn.GRU(features, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits of a failure."""
        return self.out(self.gru(x)[1][0])[:, 0]


def risks(x: np.ndarray, y: np.ndarray, seed: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """A model of failures as `jobwise.forecast.failures` has them: the features of a sample, read one metric after the other by
    a recurrent network, since they hold what the last steps were like; failures weigh as much as all others."""
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-6
    torch.manual_seed(seed)
    rng, net = np.random.default_rng(seed), Watch(WIDE)

    def seen(z: np.ndarray) -> torch.Tensor:
        z = np.clip((z - mean) / spread, -10, 10).astype(np.float32)
        pad = -z.shape[1] % WIDE
        return torch.from_numpy(np.pad(z, ((0, 0), (0, pad)))).unflatten(1, (-1, WIDE))

    some, none = np.flatnonzero(y), np.flatnonzero(~y)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(ROUNDS):
        rows = np.concatenate([rng.choice(some, BATCH // 2), rng.choice(none, BATCH // 2)])
        wanted = torch.from_numpy(y[rows].astype(np.float32))
        loss = nn.functional.binary_cross_entropy_with_logits(net(seen(x[rows])), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def model(q: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.concatenate([net(seen(p)).numpy() for p in np.array_split(q, max(len(q) // 65_536, 1))])

    return model
