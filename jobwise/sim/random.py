"""Random numbers inside kernels, from a state that the caller seeds: splitmix64 (Steele, Lea, Flood, OOPSLA'14,
https://doi.org/10.1145/2714064.2660195)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jobwise.compiled import inlined

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # what the state grows by


def mix(x: Any) -> Any:
    """64 bits in which every bit of x has a say: of a number, or of an array of them."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


mixed = inlined(mix)  # the same for kernels
Seed = int | Sequence[int] | np.random.Generator  # what generators of jobs are seeded with


@inlined
def unit(x):
    """A number in [0, 1) of mixed bits."""
    return np.float64(x >> np.uint64(11)) / 9007199254740992.0


@inlined
def draw(state):
    """Return a number in [0, 1) from state["seed"], which goes on."""
    state["seed"] += GOLDEN
    return unit(mixed(state["seed"]))
