"""What a comparison carries: effects, intervals, tests. One implementation for commands, reports and studies.

The *effect* of a policy against another is the mean, over blocks of two consecutive windows, of log(ours / base), averaged
over time-shifted replicas: exp of it is a ratio of geometric means. Its 95 % interval is Student's t over blocks. Neighbouring
windows share a congestion, blocks do less; logarithms keep one window from carrying the mean. The ratio of totals (what a
site's mean would have been) stands beside it, with the share of the largest window. Checked by `python -m
benchmarks.intervals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, isnan, nan, sqrt

import numpy as np
from scipy.special import stdtr, stdtrit

BLOCK = 2  # windows
LEAST = 6  # blocks below which there is no interval, and no claim
EXACT = 34  # blocks up to which sign flips are counted, not drawn
RESAMPLES = 2000


@dataclass(frozen=True)
class Effect:
    """A relative change: `change` -0.2 is 20 % lower. `low`, `high`: 95 %, NaN with fewer than LEAST blocks. `p`: two-sided, of
    Student's t; `flips`: of the sign-flip test. `log`, `error`: mean and standard error of the logarithm of the ratio."""

    change: float
    low: float
    high: float
    p: float
    flips: float
    log: float
    error: float
    blocks: int

    def text(self, form: str = "+.0%") -> str:
        """Return as in "-21% [-30%, -11%]", or the change and how few blocks there are."""
        few = f" ({self.blocks} block{'s' * (self.blocks != 1)})" if isnan(self.low) else ""
        return _text(self, form) + few

    def __format__(self, form: str) -> str:
        return self.text(form or "+.0%")

    def to_dict(self) -> dict:
        """Return what is published of it by name (`flips` as p_flips; without `log` and `error`); NaN where there is none."""
        return {
            "change": self.change,
            "low": self.low,
            "high": self.high,
            "p": self.p,
            "p_flips": self.flips,
            "blocks": self.blocks,
        }


def in_blocks(x: np.ndarray, size: int = BLOCK) -> np.ndarray:
    """[B] means of `size` consecutive values of x [W]; what is left over joins the last block."""
    count = max(len(x) // size, 1)
    edges = np.arange(count) * size
    return np.add.reduceat(x, edges) / np.diff(np.append(edges, len(x)))


def log_ratio(base: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """[W] mean over replicas of log(ours / base); both [W] or [W, K], above 0, paired by window and replica."""
    d = np.log(np.asarray(ours, float) / np.asarray(base, float))
    return d.mean(axis=1) if d.ndim > 1 else d


def effect(d: np.ndarray, least: int = LEAST) -> Effect:
    """The effect of log ratios d [B], one a block."""
    count, mean = len(d), float(np.mean(d))
    if count < 2:
        return Effect(exp(mean) - 1, nan, nan, nan, nan, mean, nan, count)
    error = float(np.std(d, ddof=1)) / sqrt(count)
    if count < least:
        return Effect(exp(mean) - 1, nan, nan, nan, nan, mean, error, count)
    if error == 0.0:
        same = exp(mean) - 1
        return Effect(same, same, same, 1.0 if mean == 0 else 0.0, sign_flip(d), mean, error, count)
    return _by_t(d, mean, error, float(count - 1))


def _by_t(d: np.ndarray, mean: float, error: float, free: float) -> Effect:
    """The effect with Student's t of `free` degrees of freedom."""
    half = float(stdtrit(free, 0.975)) * error
    p = 2 * float(stdtr(free, -abs(mean) / error))
    low, high = (exp(min(max(x, -50.0), 50.0)) - 1 for x in (mean - half, mean + half))
    return Effect(exp(mean) - 1, low, high, p, sign_flip(d), mean, error, len(d))


def continuous(base: np.ndarray, ours: np.ndarray, least: int = LEAST) -> Effect:
    """The effect of `ours` against `base` in R continuous replays [R, B] of B blocks. A congestion may outlast a block:
    their lag-1 correlation r, if it is above 0, raises the variance by (1 + r) / (1 - r), with (B - 1) / 2 degrees of
    freedom, for r is estimated from the same blocks. And a whole replay may go another way than the next: the variance of
    the mean over replays is added, with degrees of freedom by Welch and Satterthwaite. Coverage:
    benchmarks/INTERVALS.md."""
    each = np.log(np.asarray(ours, float) / np.asarray(base, float))
    d = each.mean(axis=0)
    plain = effect(d, least)
    if isnan(plain.low) or plain.error == 0.0:
        return plain
    r, replays = correlation(d), len(each)
    parts = [(plain.error**2 * (1 + r) / (1 - r), max((len(d) - 1) / 2, 1.0))]
    if replays > 1:
        parts.append((float(np.var(each.mean(axis=1), ddof=1)) / replays, replays - 1.0))
    return _by_t(d, plain.log, *_added(parts))


def _added(parts: list[tuple[float, float]]) -> tuple[float, float]:
    """(standard error, degrees of freedom) of variances that add up, each with its own: Welch and Satterthwaite."""
    whole = sum(v for v, _ in parts)
    return sqrt(whole), whole**2 / sum(v**2 / f for v, f in parts)


def correlation(d: np.ndarray) -> float:
    """Return the lag-1 correlation of d [B], 0 to 0.9: 1 / B is added, by which the usual estimate is too low."""
    x = d - d.mean()
    return float(np.clip((x[1:] * x[:-1]).sum() / max((x**2).sum(), 1e-300) + 1 / len(d), 0.0, 0.9))


def compared(base: np.ndarray, ours: np.ndarray, size: int = BLOCK) -> Effect:
    """The effect of `ours` against `base`, windows [W] or [W, K], in blocks of `size` windows."""
    return effect(in_blocks(log_ratio(base, ours), size))


def crossed(d: np.ndarray) -> Effect:
    """The effect of log ratios d [S, B] of S seeds on the same B blocks: both vary, so the variances of the seeds' means and of
    the blocks' means add up, with degrees of freedom by Welch and Satterthwaite. Two seeds alone say too little of how seeds
    vary: with them there is one degree of freedom."""
    if len(d) < 2:
        return effect(d[0])
    mean, (seeds, count) = float(d.mean()), d.shape
    if count < LEAST:
        return Effect(exp(mean) - 1, nan, nan, nan, nan, mean, nan, count)
    blocks = d.mean(axis=0)
    parts = [(float(np.var(blocks, ddof=1)) / count, count - 1.0), (float(np.var(d.mean(axis=1), ddof=1)) / seeds, seeds - 1.0)]
    if not any(v for v, _ in parts):
        return effect(blocks)
    error, free = _added(parts)
    return _by_t(blocks, mean, error, free if seeds > 2 else 1.0)


@lru_cache(maxsize=1)
def _drawn(count: int) -> list[np.ndarray]:
    """100,000 draws of `count` signs, in parts of 1,000, a byte each: kept for the next test of as many blocks."""
    rng = np.random.default_rng(0)
    return [rng.choice(np.array([-1, 1], np.int8), (1000, count)) for _ in range(100)]


def sign_flip(d: np.ndarray) -> float:
    """Two-sided p of the sign-flip test of d [B]: how many of the 2^B choices of signs have a mean as far from 0. Exact up to
    EXACT blocks (sums of two halves, met in the middle), by 100,000 draws beyond."""
    d = np.asarray(d, float)
    d = d[d != 0]
    count, observed = len(d), abs(d.sum()) * (1 - 1e-12)
    if count == 0:
        return 1.0
    if count > EXACT:
        drawn = np.concatenate([signs @ d for signs in _drawn(count)])
        return float((1 + (np.abs(drawn) >= observed).sum()) / 100_001)

    def sums(part: np.ndarray) -> np.ndarray:
        totals = np.zeros(1)
        for x in part:
            totals = np.concatenate([totals - x, totals + x])
        return np.sort(totals)

    one, other = sums(d[: count // 2]), sums(d[count // 2 :])
    above = len(other) - np.searchsorted(other, observed - one, side="left")
    below = np.searchsorted(other, -observed - one, side="right")
    return float(min((above.sum() + below.sum()) / 2.0**count, 1.0))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjustment of p values for as many claims (Holm 1979); NaN stays NaN and does not count."""
    known = sorted((x, i) for i, x in enumerate(p) if not isnan(x))
    out, before = [nan] * len(p), 0.0
    for k, (x, i) in enumerate(known):
        before = max(before, min(x * (len(known) - k), 1.0))
        out[i] = before
    return out


def claims(effects: Sequence[Effect]) -> list[bool]:
    """May each of several effects that are looked at together be claimed? p < 0.05 after Holm's adjustment, and by sign
    flips."""
    adjusted = holm([e.p for e in effects])
    return [not isnan(a) and a < 0.05 and e.flips < 0.05 for a, e in zip(adjusted, effects, strict=True)]


def pooled(effects: Sequence[Effect]) -> Effect:
    """One effect of several logs by random effects: Paule-Mandel's variance between logs, Hartung and Knapp's interval (never
    narrower than the usual one). Logs with one block are left out; `blocks` counts logs. NaN bounds for fewer than two."""
    kept = [e for e in effects if not isnan(e.error)]
    if not kept:
        return Effect(nan, nan, nan, nan, nan, nan, nan, 0)
    y, v = np.array([e.log for e in kept]), np.array([e.error for e in kept]) ** 2
    least = 0.1 * float(np.median(v[v > 0])) if (v > 0).any() else 1e-12
    v = np.maximum(v, least)  # a log without any spread (both are one rule there) does not outweigh all others

    def weighed(between: float) -> tuple[float, float]:
        w = 1 / (v + between)
        mean = float((w * y).sum() / w.sum())
        return mean, float((w * (y - mean) ** 2).sum())

    low, high = 0.0, max(float(np.var(y)), 1e-12) * 10 + 1e-9
    count = len(y)
    if count > 1 and weighed(0.0)[1] > count - 1:
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if weighed(middle)[1] > count - 1 else (low, middle)
    between = (low + high) / 2 if low > 0 else 0.0
    mean, spread = weighed(between)
    if count < 2:
        return Effect(exp(mean) - 1, nan, nan, nan, nan, mean, nan, count)
    error = sqrt(max(spread / (count - 1), 1.0) / float((1 / (v + between)).sum()))
    half = float(stdtrit(count - 1, 0.975)) * error
    p = 2 * float(stdtr(count - 1, -abs(mean) / error))
    return Effect(exp(mean) - 1, exp(mean - half) - 1, exp(mean + half) - 1, p, sign_flip(y), mean, error, count)


@dataclass(frozen=True)
class RatioOfMeans:
    """Ratio of means - 1 over windows [W], its 95 % interval by bootstrap-t, and the largest window's share of both totals."""

    change: float
    low: float
    high: float
    share: float

    def text(self, form: str = "+.0%") -> str:
        """Return as in "-21% [-30%, -11%]", or the change alone where nothing can be said of it."""
        return _text(self, form)


def _text(x: Effect | RatioOfMeans, form: str) -> str:
    text = f"{x.change:{form}}"
    return text if isnan(x.low) else f"{text} [{x.low:{form}}, {x.high:{form}}]"


def totals(base: np.ndarray, ours: np.ndarray) -> RatioOfMeans:
    """The ratio of means of windows [W] or [W, K], its interval over blocks of two; none below LEAST blocks, or where it is
    wider than tenfold."""
    a, b = (x.mean(axis=1) if x.ndim > 1 else x for x in (np.asarray(base, float), np.asarray(ours, float)))
    whole = float((a + b).sum())
    share = float((a + b).max() / whole) if whole > 0 else 0.0
    if a.sum() <= 0:
        return RatioOfMeans(0.0 if b.sum() <= 0 else inf, nan, nan, share)
    low, high = ratio_interval(in_blocks(a), in_blocks(b)) if len(a) >= BLOCK * LEAST else (nan, nan)
    if not isnan(low) and high > 10 * max(low, 1e-12):
        low = high = nan
    return RatioOfMeans(float(b.sum() / a.sum()) - 1, low - 1, high - 1, share)


def ratio_interval(base: np.ndarray, ours: np.ndarray) -> tuple[float, float]:
    """95 % interval of mean(ours) / mean(base), paired over windows [W]: symmetric bootstrap-t of the logarithm. NaN for one
    window, or where all of a resample may be 0."""
    count = len(base)
    if count < 2:
        return nan, nan
    sums = np.concatenate([np.ones((1, count)), _draws(count)]) @ np.stack([base, ours, base**2, base * ours, ours**2], axis=1)
    mean_a, mean_b = sums[:, 0] / count, sums[:, 1] / count
    if mean_a.min() <= 0 or mean_b.min() <= 0:
        return nan, nan
    ratio = mean_b / mean_a
    off = np.maximum(sums[:, 4] - 2 * ratio * sums[:, 3] + ratio**2 * sums[:, 2], 0.0)  # squares of ours - ratio base
    spread = np.sqrt(off / (count - 1) / count) / mean_b  # of the logarithm
    away = np.abs(np.log(ratio[1:] / ratio[0])) / np.maximum(spread[1:], 1e-12)
    half = np.exp(min(np.quantile(away, 0.95) * spread[0], 50.0))
    return float(ratio[0] / half), float(ratio[0] * half)


@lru_cache(maxsize=2)
def _draws(count: int) -> np.ndarray:
    """[RESAMPLES, count] how often each window is in each resample."""
    drawn = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    return np.stack([np.bincount(d, minlength=count) for d in drawn]).astype(float)


def over_seeds(x: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high): 95 % interval of the mean over seeds by Student's t; NaN bounds for one."""
    mean = float(np.mean(x))
    if len(x) < 2:
        return mean, nan, nan
    half = float(stdtrit(len(x) - 1, 0.975)) * float(np.std(x, ddof=1)) / sqrt(len(x))
    return mean, mean - half, mean + half


def interquartile_mean(scores: np.ndarray) -> tuple[float, float, float]:
    """(mean of the middle half of scores [R, T], low, high) of R runs on each of T tasks: 95 % by percentiles of a bootstrap
    that draws runs task by task (Agarwal et al. 2021, the form of rliable). NaN bounds for one run."""
    x = np.asarray(scores, float)
    runs, tasks = x.shape
    quarter = x.size // 4

    def mean(values: np.ndarray) -> np.ndarray:
        """The means of the middle halves of values [..., R T]."""
        return np.sort(values, axis=-1)[..., quarter : x.size - quarter].mean(axis=-1)

    middle = float(mean(x.ravel()))
    if runs < 2:
        return middle, nan, nan
    rows = np.random.default_rng(0).integers(0, runs, (10 * RESAMPLES, runs, tasks))
    drawn = x[rows, np.arange(tasks)].reshape(len(rows), -1)
    low, high = np.quantile(mean(drawn), [0.025, 0.975])
    return middle, float(low), float(high)
