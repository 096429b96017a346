"""One table of telemetry: time, node, metric, value; and what was wrong with the samples that it was made of.

Samples may come in any order, twice, or not at all; as NaN, on another scale than all others, or by a clock that is ahead. They
are put in order, the last of equal times counts, what is no number is left out, and `notes` says how many there were of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jobwise.errors import InputError

MOST_SAMPLES = 200_000_000
MOST_STEPS, MOST_GAPS = 100_000, 50  # of a series on a grid; more of them where there are that many samples, times MOST_GAPS
LARGEST = 1e100  # of a value; times are at most a million times a million s
OUT_OF_SCALE = 1e4  # times the 99th percentile of a series: a wrong unit
COUNTERS = ("_total",)  # ends of names of counters in Prometheus
STEPS = (1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400)  # s


@dataclass(frozen=True, eq=False)
class Telemetry:
    """K samples of S series, ordered by series and time.

    `time` [K] s (Unix time, or since the beginning), ascending within a series; `value` [K] finite; `first` [S + 1] where each
    series begins; `node` and `metric` [S] numbers of the names in `nodes` and `metrics`. `notes`: name -> number of samples
    left out or changed.
    """

    name: str
    nodes: tuple[str, ...]
    metrics: tuple[str, ...]
    node: np.ndarray
    metric: np.ndarray
    first: np.ndarray
    time: np.ndarray
    value: np.ndarray
    notes: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    @property
    def count(self) -> int:
        """Return the number of series held."""
        return len(self.node)

    def series(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(time, value) of the k-th series."""
        part = slice(self.first[k], self.first[k + 1])
        return self.time[part], self.value[part]

    def label(self, k: int) -> str:
        """Return the label of a series, as in `node7 cpu_usage`."""
        return f"{self.nodes[self.node[k]]} {self.metrics[self.metric[k]]}".strip()

    def only(self, metric: str | None = None, node: str | None = None) -> Telemetry:
        """The series of one metric, of one node, or both. Raises InputError where there are none."""
        keep = np.ones(self.count, bool)
        for name, known, column in ((metric, self.metrics, self.metric), (node, self.nodes, self.node)):
            if name is not None:
                if name not in known:
                    raise InputError(f"{self.name}: has no {name!r}; there are {', '.join(known[:12])}")
                keep &= column == known.index(name)
        lengths = np.diff(self.first)
        rows = np.repeat(keep, lengths)
        first = np.append(0, np.cumsum(lengths[keep]))
        return replace(
            self, node=self.node[keep], metric=self.metric[keep], first=first, time=self.time[rows], value=self.value[rows]
        )

    def step(self, k: int) -> float:
        """The usual distance of two samples of the k-th series, s; one of STEPS where it is near."""
        t = self.series(k)[0]
        usual = float(np.median(np.diff(t))) if len(t) > 1 else 1.0
        near = min(STEPS, key=lambda s: abs(np.log(s / usual)))
        return float(near) if abs(near / usual - 1) < 0.15 else usual

    def every(self, step_s: float) -> Telemetry:
        """Return the table with one sample a step at most: the mean of its samples; counters keep their last one."""
        at, place = np.floor(self.time / step_s), np.repeat(np.arange(self.count), np.diff(self.first))
        new = np.append(True, (at[1:] != at[:-1]) | (place[1:] != place[:-1]))
        first, number = np.flatnonzero(new), np.diff(np.append(np.flatnonzero(new), len(at)))
        mean, last = np.add.reduceat(self.value, first) / number, self.value[first + number - 1]
        counts = np.array([is_counter(m) for m in self.metrics])[self.metric][place[first]]
        ends = np.append(0, np.cumsum(np.bincount(place[first], minlength=self.count)))
        return replace(self, first=ends, time=at[first] * step_s, value=np.where(counts, last, mean))

    def regular(self, k: int, step_s: float = 0.0) -> tuple[float, float, np.ndarray]:
        """(time of the first, step s, values [T]) of the k-th series on a grid: the mean of each step, NaN where there is no
        sample. Counters become rates per second; where one was set back it counts from 0."""
        t, x = self.series(k)
        step = step_s or self.step(k)
        if is_counter(self.metrics[self.metric[k]]):
            t, x = t[1:], rates(t, x)
        if len(t) == 0:
            return 0.0, step, np.zeros(0)
        begin = np.floor(t[0] / step) * step
        at = np.floor((t - begin) / step + 1e-9).astype(np.int64)
        if at[-1] >= max(MOST_GAPS * len(t), MOST_STEPS):
            raise InputError(f"{self.name}: {self.label(k)} spans {at[-1]:,} steps of {step:g} s: choose longer ones (--step)")
        total, number = np.bincount(at, x, at[-1] + 1), np.bincount(at, minlength=at[-1] + 1)
        return begin, step, np.where(number > 0, total / np.maximum(number, 1), np.nan)


def is_counter(metric: str) -> bool:
    """Does the name say that it only grows?"""
    return metric.split("{")[0].endswith(COUNTERS)


def rates(time: np.ndarray, value: np.ndarray) -> np.ndarray:
    """[K - 1] growth per second of a counter; where it was set back it has grown from 0."""
    grown = np.diff(value)
    return np.where(grown < 0, value[1:], grown) / np.diff(time)


def seconds(time: np.ndarray, name: str = "") -> np.ndarray:
    """Times in s of times in s, ms, us or ns of our days; small numbers are left as they are. Raises InputError where the units
    of a column are mixed."""
    t = np.asarray(time, float)
    good = t[np.isfinite(t)]
    if len(good) == 0 or np.abs(good).max() < 1e11:
        return t
    scale = 10.0 ** (3 * np.clip(np.ceil((np.log10(np.abs(good).max()) - 10.999) / 3), 0, 3))
    if np.abs(good[good != 0]).min() < np.abs(good).max() / 20:  # dates of our days are nearer to each other
        raise InputError(f"{name}: times are in different units ({good.min():g} and {good.max():g}); give them all in s")
    return t / scale


def table(
    name: str,
    time: np.ndarray,
    node: np.ndarray,
    metric: np.ndarray,
    value: np.ndarray,
    nodes: Sequence[str],
    metrics: Sequence[str],
) -> Telemetry:
    """The table of samples in any order. time [K] s, node and metric [K] numbers of names, value [K]. Raises InputError."""
    time, value = np.asarray(time, float), np.asarray(value, float)
    if len(time) > MOST_SAMPLES:
        raise InputError(f"{name}: has {len(time):,} samples; {MOST_SAMPLES:,} at most are read at once")
    notes, key = {}, np.asarray(node, np.int64) * max(len(metrics), 1) + np.asarray(metric, np.int64)
    good = (np.abs(time) <= 1e12) & (np.abs(value) <= LARGEST)
    notes["no number"] = int((~good).sum())
    key, time, value = key[good], time[good], value[good]
    same = key[1:] == key[:-1]
    notes["out of order"] = int((same & (time[1:] < time[:-1])).sum())
    if notes["out of order"] or (key[1:] < key[:-1]).any():
        order = np.lexsort((time, key))
        key, time, value = key[order], time[order], value[order]
    last = np.append((key[1:] != key[:-1]) | (time[1:] != time[:-1]), True) if len(key) else np.zeros(0, bool)
    notes["twice"] = int((~last).sum())
    key, time, value = key[last], time[last], value[last]
    wrong = _out_of_scale(key, value)
    notes["out of scale"] = int(wrong.sum())
    key, time, value = key[~wrong], time[~wrong], value[~wrong]
    every, first = np.unique(key, return_index=True)
    ends = np.append(first, len(key))
    back = [x for x, k in enumerate(every) if is_counter(metrics[k % len(metrics)])]
    notes["counters set back"] = int(sum((np.diff(value[ends[k] : ends[k + 1]]) < 0).sum() for k in back))
    if len(key) == 0:
        raise InputError(f"{name}: has no samples that are numbers")
    telemetry = Telemetry(name, tuple(nodes), tuple(metrics), every // len(metrics), every % len(metrics), ends, time, value)
    telemetry, notes["by a wrong clock"] = _one_clock(telemetry)
    return replace(telemetry, notes={k: n for k, n in notes.items() if n})


def _out_of_scale(key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """[K] bool: values far off all others of their series, as a wrong unit makes them; of series of 100 samples and more."""
    wrong = np.zeros(len(key), bool)
    first = np.append(np.flatnonzero(np.append(True, key[1:] != key[:-1])), len(key)) if len(key) else np.zeros(1, int)
    for a, b in zip(first[:-1], first[1:], strict=True):
        x = np.abs(value[a:b])
        top = x.max(initial=0.0)
        if b - a >= 100 and top > 0:
            usual = np.partition(x, int(0.99 * (b - a)))[int(0.99 * (b - a))]
            if usual > 0 and top > OUT_OF_SCALE * usual:
                wrong[a:b] = x > OUT_OF_SCALE * usual
    return wrong


def _one_clock(t: Telemetry) -> tuple[Telemetry, int]:
    """Correct the series of a metric whose first and last samples are both off those of the others by the same time, half an
    hour or more (a time zone, a clock that was never set). Return the number of corrected samples. With fewer than five nodes
    in a metric, the wrong clock cannot be found."""
    time, changed = t.time, 0
    begin, end = t.time[t.first[:-1]], t.time[t.first[1:] - 1]
    for m in range(len(t.metrics)):
        rows = np.flatnonzero(t.metric == m)
        if len(rows) < 5:
            continue
        off = begin[rows] - np.median(begin[rows]), end[rows] - np.median(end[rows])
        usual = np.median(np.abs(off[0])) + np.median(np.abs(off[1]))
        for k, a, b in zip(rows, *off, strict=True):
            if abs(a) >= 1800 and abs(a - b) <= 60 and abs(a) > 20 * usual:
                time = time.copy() if time is t.time else time
                time[t.first[k] : t.first[k + 1]] -= round((a + b) / 2)
                changed += int(t.first[k + 1] - t.first[k])
    return replace(t, time=time), changed
