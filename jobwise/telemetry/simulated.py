"""Nodes that fail, simulated: what they tell of themselves, and when they go down.

fault    after a Weibull time of life; in the steps before, most of them log ten times as many errors and grow warmer
memory   a process leaks until the node has no memory left
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobwise.errors import InputError
from jobwise.telemetry.table import Telemetry, table

METRICS = ("errors_total", "temperature", "memory_used")


@dataclass(frozen=True)
class Faults:
    """The lives of `nodes` nodes over `steps` steps of `step_s` s: faults with a mean time between them of `mtbf` steps (of a
    node), of a Weibull `shape`, `warned` of them with precursors in the last `window` steps; leaks of memory every `leaks`
    steps in the mean (0: none), which fill it in 30 to 90; `repair` steps until a node is back. Raises InputError."""

    nodes: int = 16
    steps: int = 20_000
    step_s: float = 60.0
    mtbf: float = 2000.0
    shape: float = 1.0
    warned: float = 0.7
    window: int = 20
    repair: int = 30
    leaks: float = 4000.0

    def __post_init__(self):
        if not (self.nodes >= 1 and self.steps >= 10 and self.step_s > 0 and self.mtbf > 0 and 0.1 <= self.shape <= 10):
            raise InputError(f"nodes that fail: {self} cannot be")
        if not (0 <= self.warned <= 1 and self.window >= 1 and self.repair >= 1 and self.leaks >= 0):
            raise InputError(f"nodes that fail: {self} cannot be")


def lives(f: Faults, seed: int | list[int] = 0) -> tuple[Telemetry, np.ndarray]:
    """(what the nodes tell, [F, 3] of their failures: time s, node, 0; and repairs: time s, node, 1)."""
    rng, T, N = np.random.default_rng(seed), f.steps, f.nodes
    errors, warm, memory = np.zeros((N, T)), np.zeros((N, T)), np.zeros((N, T))
    up, events = np.ones((N, T), bool), []
    from math import gamma

    scale = f.mtbf / gamma(1 + 1 / f.shape)
    for n in range(N):
        t = 0
        while t < T:
            life = max(int(scale * rng.weibull(f.shape)), 1)
            leak, ramp = (int(rng.exponential(f.leaks)), int(rng.integers(30, 91))) if f.leaks else (10**9, 1)
            down = min(t + life, t + leak + ramp)
            leaking, end = t + leak + ramp < t + life, min(down, T)
            x = np.arange(t, end)
            errors[n, t:end] = 0.2
            usage = 0.45 + 0.1 * np.sin(2 * np.pi * (x + 37 * n) / 1440)
            memory[n, t:end] = usage + 0.02 * rng.normal(size=len(x))
            if leaking:
                rise = np.clip((x - (down - ramp)) / ramp, 0, 1)
                memory[n, t:end] = np.minimum(memory[n, t:end] + rise * (1 - usage), 1.0)
            elif rng.random() < f.warned:
                near = np.clip((x - (down - f.window)) / f.window, 0, 1)
                errors[n, t:end] *= np.where(x >= down - f.window, 10, 1)
                warm[n, t:end] = 15 * near
            up[n, end : end + f.repair] = False
            if down < T:
                events.append((down * f.step_s, n, 0))
                events.append(((down + f.repair) * f.step_s, n, 1))
            t = down + f.repair
    warm += 55 + 5 * np.sin(2 * np.pi * np.arange(T) / 1440)[None] + rng.normal(0, 1.0, (N, T)) + 3 * rng.normal(size=(N, 1))
    counted = np.cumsum(rng.poisson(errors), axis=1).astype(float)
    values, there = np.stack([counted, warm, memory], axis=1), np.broadcast_to(up[:, None], (N, 3, T))
    node, metric, time = (x[there] for x in np.meshgrid(np.arange(N), np.arange(3), np.arange(T) * f.step_s, indexing="ij"))
    telemetry = table("nodes", time, node, metric, values[there], [f"node{n}" for n in range(N)], list(METRICS))
    return telemetry, np.array(sorted(events)).reshape(-1, 3)
