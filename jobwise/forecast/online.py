"""Compiled passes over a series, sample by sample: exponential smoothing, and adaptive conformal intervals."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, kernel


@kernel
def seasonal(y, smoothing, season, level, horizons, peak, out):
    """Holt-Winters, additive, with a damped trend: out [T, H] what is expected `horizons` [H] steps after each sample (with
    `peak` the largest until then), from `level` and season [m] at the beginning, without a trend; season is changed.
    `smoothing` [4]: of the level, the trend, the season, and how much of the trend is left after a step."""
    m, trend = len(season), 0.0
    alpha, beta, gamma, phi = smoothing
    for t in range(len(y)):
        s = season[t % m]
        x = level + phi * trend + s if np.isnan(y[t]) else y[t]
        before, sloped = level, phi * trend
        level = alpha * (x - s) + (1.0 - alpha) * (level + phi * trend)
        trend = beta * (level - before) + (1.0 - beta) * phi * trend
        season[t % m] = gamma * (x - before - sloped) + (1.0 - gamma) * s
        damped, k, best = 0.0, 0, -np.inf
        for h in range(1, horizons[-1] + 1):
            damped += phi**h
            expected = level + damped * trend + season[(t + h) % m]
            best = max(best, expected)
            if h == horizons[k]:
                out[t, k] = best if peak else expected
                k += 1


@kernel
def lead(late, said, h, keep, at):
    """at [T]: which of the forecasts said [T, M], made h steps before, has had the least absolute error of late, as far as is
    known at each sample (late [T] is what came of the forecast made h steps before); older errors count `keep` times as much a
    step. The first one where none is better."""
    M = said.shape[1]
    for t in range(len(late)):
        at[t] = at[t - 1] if t > 0 else 0
        if t < h or np.isnan(late[t]):
            continue
        for m in range(M):
            said[t - h, m] = abs(said[t - h, m] - late[t]) + (keep * said[t - h - 1, m] if t > h else 0.0)
        best = 0
        for m in range(1, M):
            if said[t - h, m] < said[t - h, best] * (1.0 - 1e-9):
                best = m
        at[t] = best


@kernel
def _insert(window, count, x):
    """Put x into the ascending window[:count], which has room."""
    i = count
    while i > 0 and window[i - 1] > x:
        window[i] = window[i - 1]
        i -= 1
    window[i] = x


@kernel
def _remove(window, count, x):
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if window[middle] < x:
            low = middle + 1
        else:
            high = middle
    for i in range(low, count - 1):
        window[i] = window[i + 1]


@kernel
def _quantile(window, count, level):
    """The q-quantile with the correction of split-conformal prediction: the smallest score with a share of q below it, counting
    the one to come; inf where there are too few."""
    k = np.int64(np.ceil((count + 1) * level)) - 1
    if k >= count:
        return window[count - 1] * 1.5 + 1e-12 if count > 0 else np.inf
    return window[max(k, 0)]


@allocating
def adaptive(y, low, high, scale, h, coverage, gamma, size, out):
    """Adaptive conformal intervals (Gibbs and Candes, NeurIPS 2021) around [low, high] [T], which speak of y `h` steps later.

    A score is how far y fell outside, in `scale` [T]; the last `size` scores that are known at t (those of forecasts made h
    steps ago and before) give the margin, at a level that goes up after a miss and down after a hit, `gamma` at a time. out
    [T, 2] is the interval made at t. gamma = 0: split-conformal on a moving window.
    """
    T, window, ring, count, at, level = len(y), np.empty(size), np.empty(size), 0, 0, coverage
    for t in range(T):
        s = t - h  # the forecast of s is known to be right or wrong now
        if s >= 0 and not np.isnan(y[t]) and not np.isnan(low[s]):
            score = max(low[s] - y[t], y[t] - high[s]) / max(scale[s], 1e-12)
            if not np.isnan(out[s, 0]):
                missed = y[t] < out[s, 0] or y[t] > out[s, 1]
                level = min(max(level + gamma * ((coverage - 1.0) + (1.0 if missed else 0.0)), 0.5), 0.999)
            if count == size:
                _remove(window, count, ring[at])
                count -= 1
            _insert(window, count, score)
            ring[at] = score
            at = (at + 1) % size
            count += 1
        out[t, 0] = out[t, 1] = np.nan
        if count > 0 and not np.isnan(low[t]):
            margin = _quantile(window, count, level) * max(scale[t], 1e-12)
            out[t, 0], out[t, 1] = min(low[t] - margin, high[t] + margin), max(low[t] - margin, high[t] + margin)
