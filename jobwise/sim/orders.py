"""The orders: one-line scores, smaller starts first, ties by (submit, row).

Symbols: s submit (s), w wait so far (s), r requested run time (s, at least 1), n processors (units of the first resource),
a attained service (processor-seconds already paid). Sources: `docs/orders.md`.

An order is STATIC (depends on the job alone: ranked once), WAITING (changes with time: scored at every event) or
REACTIVE (changes with every start: scored after each). Orders of workflows are in `flows.py`.
"""

from __future__ import annotations

import numpy as np

from jobwise.sim.compiled import kernel
from jobwise.sim.random import mixed, unit

STATIC, WAITING, REACTIVE = "static", "waiting", "reactive"
ORDERS = {  # name: kind; the position is the code the kernels use
    "fcfs": STATIC,
    "lcfs": STATIC,
    "sjf": STATIC,
    "ljf": STATIC,
    "saf": STATIC,
    "laf": STATIC,
    "smallest": STATIC,
    "largest": STATIC,
    "f1": STATIC,
    "f2": STATIC,
    "f3": STATIC,
    "f4": STATIC,
    "lxf": WAITING,
    "wfp3": WAITING,
    "unicef": WAITING,
    "random": WAITING,
    "las": WAITING,
    "drf": REACTIVE,
    "tetris": REACTIVE,
    "rank": REACTIVE,
    "level": REACTIVE,
    "flow-fcfs": REACTIVE,
    "flow-work": REACTIVE,
    "flow-sjf": REACTIVE,
    "flow-bound": REACTIVE,
    "flow-path": REACTIVE,
    "flow-work-path": REACTIVE,
    "flow-share": REACTIVE,
}
CODES = {name: code for code, name in enumerate(ORDERS)}
FCFS, LCFS, SJF, LJF, SAF, LAF, SMALLEST, LARGEST, F1, F2, F3, F4, LXF, WFP3, UNICEF, RANDOM, LAS, DRF, TETRIS = range(19)
FLOWS = range(19, 29)  # orders of workflows; the last is a network (`flow_net.py`), which has no name
RANK, LEVEL, FLOW_FCFS, FLOW_WORK, FLOW_SJF, FLOW_BOUND, FLOW_PATH, FLOW_WORK_PATH, FLOW_SHARE, FLOW_NET = FLOWS
LINEAR = 100  # log-linear, with weights of its own (`loglinear.py`)
GIVEN = -1  # scores come from outside: a user's function, a network


@kernel
def score(code, s, w, r, n, a):
    """Score of one job under the order `code` (for `random`, DRF and Tetris see below)."""
    if code == FCFS:
        return s
    if code == LCFS:
        return -s
    if code == SJF:
        return r
    if code == LJF:
        return -r
    if code == SAF:
        return r * n
    if code == LAF:
        return -r * n
    if code == SMALLEST:
        return n
    if code == LARGEST:
        return -n
    if code == F1:  # Carastan-Santos & de Camargo, SC'17
        return np.log10(r) * n + 8.70e2 * np.log10(max(s, 1.0))
    if code == F2:
        return np.sqrt(r) * n + 2.56e4 * np.log10(max(s, 1.0))
    if code == F3:
        return r * n + 6.86e6 * np.log10(max(s, 1.0))
    if code == F4:
        return r * np.sqrt(n) + 5.30e5 * np.log10(max(s, 1.0))
    if code == LXF:  # largest expansion factor
        return -(w + r) / r
    if code == WFP3:  # Tang et al., CLUSTER'09
        x = w / r
        return -(x * x * x) * n
    if code == UNICEF:  # serial jobs go before all others, largest w/r first
        return -w / (np.log2(n) * r) if n > 1 else -1e30 * (1.0 + w / r)
    if code == LAS:  # least attained service
        return a
    return 0.0


@kernel
def uniform(seed, now, row):
    """A number in [0, 1) that depends on these three alone (splitmix64): the order `random` at one instant."""
    x = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(row) * np.uint64(0xD1B54A32D192ED03)
    x += np.uint64(np.int64(now * 1000.0)) * np.uint64(0x2545F4914F6CDD1D)
    return unit(mixed(x))


@kernel
def score_rows(code, now, origin, seed, jobs, rows, out):
    """out[i] = score of job rows[i] at time `now`; `origin` is the trace time of submit 0."""
    for i in range(len(rows)):
        job = jobs[rows[i]]
        if code == RANDOM:
            out[i] = uniform(seed, now, rows[i])
        else:
            n = np.float64(job["request"][0])
            s = job["submit"] + (origin if code >= F1 and code <= F4 else 0.0)
            out[i] = score(code, s, now - job["submit"], max(job["walltime"], 1.0), n, job["ran"] * n)
