"""Comparisons of schedulers: paired replicas, baselines, intervals, rolling origins."""

from importlib import import_module

from jobwise.compare.comparison import Comparison
from jobwise.compare.procedure import compare

# `jobwise.compare` is this function; `import jobwise.compare.intervals as x` looks for `intervals` among its attributes
for _name in (
    "against",
    "answer",
    "baselines",
    "bounds",
    "comparison",
    "fingerprint",
    "intervals",
    "origins",
    "procedure",
    "windows",
):
    setattr(compare, _name, import_module(f"{__name__}.{_name}"))

__all__ = ["Comparison", "compare"]
