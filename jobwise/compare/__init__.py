"""Comparisons of schedulers: paired replicas, baselines, intervals, rolling origins."""

from jobwise.compare.comparison import Comparison
from jobwise.compare.procedure import compare

__all__ = ["Comparison", "compare"]
