"""The slow, obvious twin of the orders of workflows: plain Python on a pool, everything counted anew at every start."""

from __future__ import annotations

import math


def ranks(tasks: list[dict], edges: list[tuple[int, int]]) -> list[float]:
    """The longest way down, by recursion."""
    children: dict[int, list[int]] = {}
    for a, b in edges:
        children.setdefault(a, []).append(b)
    known: dict[int, float] = {}

    def rank(i: int) -> float:
        if i not in known:
            known[i] = max(tasks[i]["walltime"], 1.0) + max((rank(c) for c in children.get(i, [])), default=0.0)
        return known[i]

    return [rank(i) for i in range(len(tasks))]


def levels(tasks: list[dict], edges: list[tuple[int, int]]) -> list[int]:
    parents: dict[int, list[int]] = {}
    for a, b in edges:
        parents.setdefault(b, []).append(a)

    def level(i: int) -> int:
        return max((level(p) + 1 for p in parents.get(i, [])), default=0)

    return [level(i) for i in range(len(tasks))]


def replay(tasks, edges, machine, order, reserve=(0.0, math.inf)):
    """Start times of tasks (submit, procs, walltime, runtime, flow)."""
    rank, level = ranks(tasks, edges), levels(tasks, edges)
    count, start, end = len(tasks), [None] * len(tasks), [None] * len(tasks)
    of = [("flow", t["flow"]) if t["flow"] >= 0 else ("alone", i) for i, t in enumerate(tasks)]
    span = [max(t["walltime"], 1.0) for t in tasks]

    def score(i, now):
        mine = [k for k in range(count) if of[k] == of[i]]
        open_ = [k for k in mine if end[k] is None or end[k] > now]
        work = sum(span[k] * tasks[k]["procs"] for k in open_)
        path = max(rank[k] for k in open_)
        inside = 1.0 - rank[i] / max(rank[k] for k in mine)
        held = sum(tasks[k]["procs"] for k in open_ if start[k] is not None)
        return {
            "rank": lambda: (-rank[i],),
            "level": lambda: (level[i],),
            "flow-fcfs": lambda: (min(tasks[k]["submit"] for k in mine), min(mine), inside),
            "flow-work": lambda: (work, inside),
            "flow-sjf": lambda: (work, span[i] / max(span[k] for k in mine)),
            "flow-bound": lambda: (work * max(path, work / machine), inside),
            "flow-path": lambda: (path, inside),
            "flow-work-path": lambda: (work * path, inside),
            "flow-share": lambda: (held, inside),
        }[order]()

    def ready(i, now):
        parents = [a for a, b in edges if b == i]
        return start[i] is None and tasks[i]["submit"] <= now and all(end[p] is not None and end[p] <= now for p in parents)

    now = 0.0
    while any(s is None for s in start):
        passed: set[int] = set()
        while True:
            running = [k for k in range(count) if start[k] is not None and end[k] > now]
            queue = [i for i in range(count) if ready(i, now) and i not in passed]
            if not queue:
                break
            head = min(queue, key=lambda i: (*score(i, now), i))
            long = sum(tasks[k]["procs"] for k in running if tasks[k]["walltime"] > reserve[1])
            if tasks[head]["walltime"] > reserve[1] and long and long + tasks[head]["procs"] > (1 - reserve[0]) * machine:
                passed.add(head)
                continue
            if sum(tasks[k]["procs"] for k in running) + tasks[head]["procs"] > machine:
                break
            start[head], end[head] = now, now + tasks[head]["runtime"]
        later = [t["submit"] for t in tasks if t["submit"] > now] + [e for e in end if e is not None and e > now]
        if not later:
            break
        now = min(later)
    return start
