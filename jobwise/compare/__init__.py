"""Comparisons of schedulers: paired replicas, baselines, intervals, rolling origins."""

from jobwise.compare.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
