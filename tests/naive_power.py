"""The slow, obvious twin of list scheduling under a cap on power: plain Python, every job that runs looked at every time."""

from __future__ import annotations

import math

INF = math.inf


def replay(jobs: list[dict], machine: int, caps: list[tuple[float, float]], key, easy: bool = True, by_length: bool = False):
    """Start times of `jobs` (submit, procs, walltime, runtime, draw; by submit) on a pool whose running jobs may draw caps[k][1]
    from time caps[k][0] on. `key(job, now)`: the order. A head that does not fit has the only reservation, of processors and of
    what it draws; `by_length`: the shortest go first behind it."""
    for row, job in enumerate(jobs):
        job.update(row=row, est=max(job["walltime"], 1.0), start=None)
    coming, queue, running, now = list(jobs), [], [], 0.0

    def cap(t: float) -> float:
        return [c for at, c in caps if at <= t][-1]

    def changes(begin: float, end: float) -> list[float]:
        return [t for t, _ in caps if begin < t < end]

    def drawn(t: float, beside: list[dict]) -> float:
        return sum(j["draw"] for j in running if t == now or j["start"] + j["est"] > t) + sum(
            j["draw"] for j in beside if j["at"] <= t < j["at"] + j["est"]
        )

    def may_draw(job: dict, beside: list[dict]) -> bool:
        return all(drawn(t, beside) + job["draw"] <= cap(t) for t in [now, *changes(now, now + job["est"])])

    def free_at(t: float) -> int:
        return machine - sum(j["procs"] for j in running if max(j["start"] + j["est"], now) > t)

    def reservation(head: dict) -> tuple[float, int, float]:
        ends = {max(j["start"] + j["est"], now) for j in running}
        for t in sorted(ends | set(changes(now, INF))):
            used = sum(j["draw"] for j in running if max(j["start"] + j["est"], now) > t)
            later = all(
                sum(j["draw"] for j in running if j["start"] + j["est"] > u) + head["draw"] <= cap(u)
                for u in changes(t, t + head["est"])
            )
            if free_at(t) >= head["procs"] and used + head["draw"] <= cap(t) and later:
                return t, free_at(t) - head["procs"], cap(t) - used - head["draw"]
        return INF, machine, INF

    def launch(job: dict) -> None:
        job["start"] = now
        queue.remove(job)
        running.append(job)

    while coming or running or queue:
        events = [j["submit"] for j in coming[:1]] + [j["start"] + j["runtime"] for j in running]
        now = min(events + (changes(now, INF)[:1] if queue else []))
        running = [j for j in running if j["start"] + j["runtime"] > now]
        while coming and coming[0]["submit"] <= now:
            queue.append(coming.pop(0))
        while queue:
            head = min(queue, key=lambda j: (key(j, now), j["row"]))
            if head["procs"] > machine - sum(j["procs"] for j in running) or not may_draw(head, []):
                break
            launch(head)
        if not queue or not easy:
            continue
        t, extra, more = reservation(head)
        head["at"] = math.nextafter(t, INF)  # at the very time of the reservation `more` says what is left
        others = sorted((j for j in queue if j is not head), key=lambda j: (j["est"] if by_length else key(j, now), j["row"]))
        for j in others:
            if j["procs"] > machine - sum(x["procs"] for x in running) or not may_draw(j, [head]):
                continue
            if now + j["est"] > t:
                if j["procs"] > extra or j["draw"] > more:
                    continue
                extra, more = extra - j["procs"], more - j["draw"]
            launch(j)
    return [j["start"] for j in jobs]


def above(jobs: list[tuple[float, float, float]], caps: list[tuple[float, float]]) -> float:
    """The most that jobs (start, end, draw) draw together above the cap at any time."""
    times = {s for s, _, _ in jobs} | {t for t, _ in caps}
    return max(sum(d for s, e, d in jobs if s <= t < e) - ([c for at, c in caps if at <= t] or [INF])[-1] for t in times)
