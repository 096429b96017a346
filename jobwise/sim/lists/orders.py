"""The orders: a row each, and the line of `score` for those that depend on the job, the time or service alone; smaller scores
start first, ties by (submit, row).

Symbols: s submit (s), w wait so far (s), r requested run time (s, at least 1), n processors (units of the first resource),
a attained service (processor-seconds already paid). The rest of an order's name, its options, is in `policies/parts.py`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from jobwise.compiled import kernel
from jobwise.sim.random import mixed, unit

STATIC = "static"  # depends on the job alone: ranked once
WAITING = "waiting"  # on the time as well: scored at every event
ATTAINED = "attained"  # on the service received as well
CLUSTER = "cluster"  # on what others hold: scored after every start (`resource_orders.py`)
WORKFLOW = "workflow"  # on the workflow of a task (`flows.py`)


SC17 = "Carastan-Santos & de Camargo, SC 2017"


class Order(IntEnum):
    """The named orders: NAME = code, kind, what starts first, score, source. Codes need no order, and never change; LINEAR and
    GIVEN are taken, too.

    `dated`: s counts from the begin of the trace, not of the simulation. `fifo`: of jobs with equal requests the longest
    waiting always starts first.
    """

    kind: str
    doc: str
    formula: str
    source: str
    dated: bool
    fifo: bool

    def __new__(cls, code: int, kind: str, doc: str, formula: str, source: str = "", dated: bool = False, fifo: bool = True):
        """Return the member: the number `code` with its columns as attributes."""
        row = int.__new__(cls, code)
        row._value_ = code
        row.kind, row.doc, row.formula, row.source, row.dated, row.fifo = kind, doc, formula, source, dated, fifo
        return row

    @property
    def label(self) -> str:
        """The name in the grammar of schedulers."""
        return self.name.lower().replace("_", "-")

    FCFS = 0, STATIC, "first come, first served", "s"
    LCFS = 1, STATIC, "last come, first served", "−s", "", False, False
    SJF = 2, STATIC, "shortest requested time first", "r"
    LJF = 3, STATIC, "longest requested time first", "−r"
    SAF = 4, STATIC, "smallest area (time x processors) first", "r n"
    LAF = 5, STATIC, "largest area first", "−r n"
    SMALLEST = 6, STATIC, "fewest processors first", "n"
    LARGEST = 7, STATIC, "most processors first", "−n"
    F1 = 8, STATIC, "log10(time) x processors + 870 log10(submit)", "log₁₀(r) n + 870 log₁₀(s)", SC17, True
    F2 = 9, STATIC, "sqrt(time) x processors + 25,600 log10(submit)", "√r n + 25,600 log₁₀(s)", SC17, True
    F3 = 10, STATIC, "time x processors + 6.86e6 log10(submit)", "r n + 6.86·10⁶ log₁₀(s)", SC17, True
    F4 = 11, STATIC, "time x sqrt(processors) + 5.30e5 log10(submit)", "r √n + 5.30·10⁵ log₁₀(s)", SC17, True
    LXF = 12, WAITING, "largest expansion factor (wait + time) / time first", "−(w + r)/r"
    WFP3 = 13, WAITING, "(wait / time)^3 x processors, largest first", "−(w/r)³ n", "Tang et al., CLUSTER 2009"
    UNICEF = 14, WAITING, "wait / (log2(processors) x time), largest first; serial jobs before all others", \
        "−w/(log₂(n) r); serial jobs by w/r", "Tang et al., CLUSTER 2009"  # fmt: skip
    RANDOM = 15, WAITING, "drawn again at every event", "uniform, drawn for each job at each instant", "", False, False
    LAS = 16, ATTAINED, "least attained service; without preemption the same as fcfs", "a", \
        "Gu et al. (Tiresias), NSDI 2019, without its queues"  # fmt: skip
    DRF = 17, CLUSTER, "dominant resource fairness between users", "dominant share of what the job's user holds", \
        "Ghodsi et al., NSDI 2011"  # fmt: skip
    TETRIS = 18, CLUSTER, "best fit to what is free, less remaining work", "−(alignment − ε remaining work)", \
        "Grandl et al., SIGCOMM 2014"  # fmt: skip
    RANK = 19, WORKFLOW, "longest way to the end of its workflow first, whatever the workflow (HEFT's upward rank)", \
        "−rank", "Topcuoglu et al., TPDS 2002"  # fmt: skip
    LEVEL = 20, WORKFLOW, "tasks of workflows level by level", "level"
    FLOW_FCFS = 21, WORKFLOW, "workflows first come, first served; of one, the task of the longest way first", \
        "place of the workflow"  # fmt: skip
    FLOW_WORK = 22, WORKFLOW, "the workflow with the least work left; of one, the task of the longest way first", "work left"
    FLOW_SJF = 23, WORKFLOW, "the workflow with the least work left; of one, the shortest task first", "work left"
    FLOW_BOUND = 24, WORKFLOW, "work left x the least time in which it can be done (critical path, or all processors)", \
        "work left × max(path left, work left / processors)"  # fmt: skip
    FLOW_PATH = 25, WORKFLOW, "the workflow with the shortest critical path left", "path left"
    FLOW_WORK_PATH = 26, WORKFLOW, "work left x critical path left", "work left × path left"
    FLOW_SHARE = 27, WORKFLOW, "the workflow that holds fewest processors", "processors held"


LINEAR = 100  # log-linear, with weights of its own (`loglinear.py`)
GIVEN = -1  # scores come from outside: a user's function, a network
CODES = {row.label: int(row) for row in Order}
DATED = tuple(int(row) for row in Order if row.dated)
FLOWS = tuple(int(row) for row in Order if row.kind == WORKFLOW)


def kind(code: int) -> str:
    """Return the kind of the order `code`; "" for those that bring their own numbers."""
    return next((row.kind for row in Order if row == code), "")


@kernel
def begin(code, submit, origin):
    """The submit time (s) that the order `code` reads; `origin` is the trace time of submit 0."""
    return submit + origin if code in DATED else submit


@kernel
def score(code, begun, w, r, n, a):
    """Score of one job under the order `code`; those of kinds CLUSTER and WORKFLOW, and `random`, are scored elsewhere."""
    if code == Order.FCFS:
        return begun
    if code == Order.LCFS:
        return -begun
    if code == Order.SJF:
        return r
    if code == Order.LJF:
        return -r
    if code == Order.SAF:
        return r * n
    if code == Order.LAF:
        return -r * n
    if code == Order.SMALLEST:
        return n
    if code == Order.LARGEST:
        return -n
    if code == Order.F1:  # Carastan-Santos & de Camargo, SC'17
        return np.log10(r) * n + 8.70e2 * np.log10(max(begun, 1.0))
    if code == Order.F2:
        return np.sqrt(r) * n + 2.56e4 * np.log10(max(begun, 1.0))
    if code == Order.F3:
        return r * n + 6.86e6 * np.log10(max(begun, 1.0))
    if code == Order.F4:
        return r * np.sqrt(n) + 5.30e5 * np.log10(max(begun, 1.0))
    if code == Order.LXF:  # largest expansion factor
        return -(w + r) / r
    if code == Order.WFP3:  # Tang et al., CLUSTER'09
        x = w / r
        return -(x * x * x) * n
    if code == Order.UNICEF:  # serial jobs go before all others, largest w/r first
        return -w / (np.log2(n) * r) if n > 1 else -1e30 * (1.0 + w / r)
    if code == Order.LAS:  # least attained service
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
        if code == Order.RANDOM:
            out[i] = uniform(seed, now, rows[i])
        else:
            n = np.float64(job["request"][0])
            s = begin(code, job["submit"], origin)
            out[i] = score(code, s, now - job["submit"], max(job["walltime"], 1.0), n, job["ran"] * n)
