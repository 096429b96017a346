"""MARS (Baheri, Guan, arXiv:2005.01584): a layer above a resource manager that decides, workflow by workflow, who schedules it.

Algorithm 3 as it should terminate (`decide`), the selector that tries every rule on the estimates (`argbest`), and ours for
streams of workflows: a rule and a reserve for short tasks, chosen on past arrivals (`tuned`). See `docs/workflows.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jobwise.errors import InputError
from jobwise.metrics import makespan, ran, wait, workflows
from jobwise.record import Record
from jobwise.simulate import simulate
from jobwise.workload import Workload, as_estimated
from jobwise.workloads.bundles import in_two
from jobwise.workloads.workflows import Workflow

LEAST, MEDIAN, MOST = 128, 512, 20_000  # tasks: a window of the model; the least and the most that a model is used for
TOGETHER = 8  # workflows that are merged at most
MODEL = "model"
LARGE = "fcfs+easy"  # who schedules workflows with a task that needs most of the machine
RULES = ("flow-work", "flow-sjf", "flow-bound", "flow-path", "flow-work-path", "flow-share", "rank", "sjf", "fcfs")
HEURISTICS = tuple(f"{n}+easy" for n in ("fcfs", "sjf", "wfp3", "unicef", "f1", "f2", "f3", "f4"))  # of logs, re-deciding
SHARES, PARTS = (0.05, 0.1, 0.2, 0.3), (0.5, 0.75, 0.9, 0.95)  # reserves, and task lengths, that are tried


@dataclass(frozen=True)
class WorkflowPlan:
    """Workflows (by number) that are scheduled together, in parts of these numbers of tasks, one after the other; `by`: MODEL,
    or a rule."""

    flows: tuple[int, ...]
    parts: tuple[int, ...]
    by: str


def decide(
    sizes: Sequence[int],
    *,
    compatible: Callable[[int, int], bool] = lambda a, b: True,
    large: Callable[[int], bool] = lambda i: False,
    model: bool = True,
    together: int = TOGETHER,
    most: int = MOST,
) -> list[WorkflowPlan]:
    """Algorithm 3: who schedules workflows of `sizes` tasks.

    Up to `most` tasks are for the model; more are cut in two until they are that small. Fewer than MEDIAN are merged with the
    next ones, if these are compatible and it takes `together` at most to reach MEDIAN; else a rule schedules them, `sjf` below
    LEAST, `unicef` above. `large(i)`: a task of it needs most of the machine, and `fcfs+easy` schedules it. Without a `model`
    rules do all. Raises InputError for negative sizes.
    """
    if any(n < 0 for n in sizes):
        raise InputError(f"sizes of workflows are >= 0, not {min(sizes)}")
    plans, there, at = [], [i for i, n in enumerate(sizes) if n], 0  # empty ones need nobody
    while at < len(there):
        i, size = there[at], sizes[there[at]]
        flows = [i]
        if large(i) or not model:
            by = LARGE if large(i) else "sjf" if size < LEAST else "unicef"
        else:
            for after in there[at + 1 : at + together] if size < MEDIAN else ():
                if not compatible(i, after) or large(after) or sum(sizes[f] for f in flows) >= MEDIAN:
                    break
                flows.append(after)
            if sum(sizes[f] for f in flows) < MEDIAN:
                flows = [i]
            size = sum(sizes[f] for f in flows)
            by = MODEL if size >= MEDIAN else "sjf" if size < LEAST else "unicef"
        plans.append(WorkflowPlan(tuple(flows), tuple(halved(size, most)) if by == MODEL else (size,), by))
        at += len(flows)
    return plans


def halved(size: int, most: int = MOST) -> list[int]:
    """Return the sizes of the parts of `size` tasks, cut in two until none has more than `most`."""
    return [size] if size <= most else [*halved(size - size // 2, most), *halved(size // 2, most)]


def parts(w: Workflow, most: int = MOST) -> np.ndarray:
    """[N] the number of the part that a task is in: a graph is cut between levels (`bundles.in_two`) until no part has more
    than `most` tasks. No part waits for a later one."""
    labels = np.zeros(len(w), np.int64)
    waiting = [np.arange(len(w))]
    while waiting:
        rows = waiting.pop()
        if len(rows) <= most:
            continue
        new = np.full(len(w), -1)
        new[rows] = np.arange(len(rows))
        edges = new[w.edges]
        second = rows[in_two(len(rows), edges[(edges >= 0).all(axis=1)], w.levels[rows])]
        labels[labels > labels[rows[0]]] += 1  # those behind make room
        labels[second] += 1
        waiting += [np.setdiff1d(rows, second), second]
    return labels


def accepted(beta: float, first: float, now: float, cost: float) -> float:
    """The weight of cost after a window: the same while its mean return `now` (below 0) is at least `first`, that of the first
    window, times 1 + beta x mean cost; else half of it."""
    return beta if now >= first * (1.0 + beta * cost) else beta / 2.0


def costly(r: Record, cost: np.ndarray) -> dict[str, float]:
    """Return what the order of starts cost: `cost_wait`, mean wait (s) weighted by cost; `cost_position`, mean place in the
    order of starts, 0 (first) to 1, weighted by cost. 0.5 where cost has no say, more where dear jobs start late."""
    there = ran(r)
    place = np.argsort(np.argsort(r.jobs["start"][there], kind="stable")) / max(int(there.sum()) - 1, 1)
    share = cost[there] / max(cost[there].sum(), 1e-12)
    return {"cost_wait": float(share @ wait(r)), "cost_position": float(share @ place)}


def measured(w: Workload, policy: str) -> tuple[float, float]:
    """(mean workflow slowdown, makespan s) of a stream under a policy, run times as estimated."""
    r = simulate(as_estimated(w), policy)
    return float(workflows(r)["slowdown"].mean()), makespan(r)


def argbest(w: Workload, rules: Sequence[str] = RULES) -> str:
    """The rule under which these workflows would have the smallest mean slowdown, if every estimate were right; of equal ones
    the one with the smallest makespan. Our selector; in a stream it knows future arrivals, so its result is a bound."""
    return min(rules, key=lambda rule: measured(w, rule))


def tuned(pasts: Sequence[Workload], makespans: float = 1.03, rules: Sequence[str] = RULES[:5]) -> str:
    """A rule with a reserve for short tasks, chosen on streams of the past as they were (true run times are known of them):
    least geometric mean of the mean workflow slowdowns, among those whose makespans are at most `makespans` times upward
    rank's. A rule alone where no reserve gains."""

    def on(name: str) -> tuple[float, float]:
        records = [simulate(w, name) for w in pasts]
        slow = [float(workflows(r)["slowdown"].mean()) for r in records]
        return float(np.log(slow).mean()), float(np.mean([makespan(r) / m for r, m in zip(records, spans, strict=True)]))

    spans = [makespan(simulate(w, "rank")) for w in pasts]
    plain = {rule: on(rule)[0] for rule in rules}
    best = sorted(rules, key=lambda n: plain[n])[:2]
    lengths = np.unique(np.round(np.quantile(np.concatenate([w.jobs["walltime"] for w in pasts]), PARTS)))
    scores = {rule: plain[rule] for rule in best}
    for rule in best:
        for share in SHARES:
            for length in lengths[lengths >= 1]:
                name = f"{rule}+reserve{share:g}x{length:g}s"
                slow, span = on(name)
                if span <= makespans:
                    scores[name] = slow
    return min(scores, key=lambda n: scores[n])
