"""The slow, obvious twin of the list schedulers: plain Python on a pool, one event after the other, nothing clever."""

from __future__ import annotations

import math

INF = math.inf


def uniform(seed: int, now: float, row: int) -> float:
    """splitmix64 of the three, as the specification of the order `random` says."""
    m = (1 << 64) - 1
    x = (seed * 0x9E3779B97F4A7C15 + row * 0xD1B54A32D192ED03 + int(now * 1000) * 0x2545F4914F6CDD1D) & m
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & m
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & m
    x ^= x >> 31
    return (x >> 11) / 2**53


def score(order: str, job: dict, now: float, origin: float, seed: int) -> float:
    s, r, n = job["submit"], max(job["walltime"], 1.0), float(job["procs"])
    w, t = now - s, s + origin
    if order == "random":
        return uniform(seed, now, job["row"])
    return {
        "fcfs": lambda: s,
        "lcfs": lambda: -s,
        "sjf": lambda: r,
        "ljf": lambda: -r,
        "saf": lambda: r * n,
        "laf": lambda: -r * n,
        "smallest": lambda: n,
        "largest": lambda: -n,
        "lxf": lambda: -(w + r) / r,
        "wfp3": lambda: -((w / r) * (w / r) * (w / r)) * n,
        "unicef": lambda: -w / (math.log2(n) * r) if n > 1 else -1e30 * (1 + w / r),
        "f1": lambda: math.log10(r) * n + 8.70e2 * math.log10(max(t, 1)),
        "f2": lambda: math.sqrt(r) * n + 2.56e4 * math.log10(max(t, 1)),
        "f3": lambda: r * n + 6.86e6 * math.log10(max(t, 1)),
        "f4": lambda: r * math.sqrt(n) + 5.30e5 * math.log10(max(t, 1)),
    }[order]()


def earliest(profile: list[tuple[float, int]], n: int, length: float) -> float:
    """First time of the step function [(time, free)] at which n are free for `length`."""
    for i, (t, _) in enumerate(profile):
        if all(free >= n for u, free in profile[i:] if u < t + length):
            return t
    return INF


def step_function(now: float, free: int, intervals: list[tuple[float, float, int, bool]]) -> list[tuple[float, int]]:
    """[(time, free)] from now: intervals (start, end, n, begun) that hold n; begun ones only give back."""
    times = sorted({now} | {max(t, now) for a, b, _, _ in intervals for t in (a, b)})
    out = []
    for t in times:
        level = free
        for a, b, n, begun in intervals:
            if begun:
                level += n if max(b, now) <= t else 0
            elif max(a, now) <= t < b:
                level -= n
        out.append((t, level))
    return out


def replay(
    jobs: list[dict],
    machine: int,
    order: str,
    backfill: str = "none",
    guard: float = INF,
    commit: bool = False,
    origin: float = 0.0,
    seed: int = 0,
) -> list[float]:
    """Start times of `jobs` (submit, procs, walltime, runtime; by submit) on a pool."""
    for row, job in enumerate(jobs):
        job.update(row=row, est=max(job["walltime"], 1.0), start=None, reserved=None)
        if backfill == "easy-oracle":
            job["est"] = max(job["runtime"], 1.0)
    coming, queue, running = list(jobs), [], []
    free, picked, now = machine, None, 0.0

    def key(job: dict, now: float):
        if now - job["submit"] > guard:
            return (-INF, job["row"])
        return (score(order, job, now, origin, seed), job["row"])

    def due(job: dict, now: float) -> float:
        if backfill == "easy-oracle":
            return max(job["start"] + job["runtime"], now)
        return max(job["start"] + job["est"], now)

    def launch(job: dict, now: float) -> None:
        nonlocal free
        job["start"] = now
        free -= job["procs"]
        queue.remove(job)
        running.append(job)

    def shadow(head: dict, now: float) -> tuple[float, int]:
        for t in sorted({due(j, now) for j in running}):
            there = free + sum(j["procs"] for j in running if due(j, now) <= t)
            if there >= head["procs"]:
                return t, there - head["procs"]
        return INF, machine

    def conservative(now: float, early: bool) -> None:
        anew = any(j["start"] + j["est"] <= now for j in running)
        anew = anew or any(j["reserved"] is not None and j["reserved"] < now for j in queue)
        ranked = sorted(queue, key=lambda j: key(j, now))
        if anew:
            for j in ranked:
                j["reserved"] = None

        def profile() -> list[tuple[float, int]]:
            held = [(j["start"], j["start"] + j["est"], j["procs"], True) for j in running]
            held += [(j["reserved"], j["reserved"] + j["est"], j["procs"], False) for j in queue if j["reserved"] is not None]
            return step_function(now, free, held)

        for j in ranked:
            if j["reserved"] is not None:
                if not early or j["reserved"] == now:
                    continue
                j["reserved"] = None
            j["reserved"] = earliest(profile(), j["procs"], j["est"])
        for j in ranked:
            if j["reserved"] == now and j["procs"] <= free:
                launch(j, now)

    while coming or running or queue:
        promised = [j["reserved"] for j in queue if j["reserved"] is not None and j["reserved"] > now]
        now = min([j["submit"] for j in coming[:1]] + [j["start"] + j["runtime"] for j in running] + promised)
        ended = [j for j in running if j["start"] + j["runtime"] <= now]
        for j in ended:
            running.remove(j)
            free += j["procs"]
        while coming and coming[0]["submit"] <= now:
            queue.append(coming.pop(0))
        if backfill == "conservative":
            conservative(now, any(now < j["start"] + j["est"] for j in ended))
            continue
        if not commit and all(j["procs"] > free for j in queue):
            continue  # nothing fits, so nothing can start
        while queue:
            head = picked or min(queue, key=lambda j: key(j, now))
            if head["procs"] > free:
                break
            launch(head, now)
            picked = None
        if not queue:
            continue
        if backfill == "none":
            picked = head if commit else None
            continue
        t, extra = shadow(head, now)
        if commit and picked is None:
            picked, head["reserved"] = head, t
        if backfill == "greedy":
            t = head["reserved"] if commit else t
            for j in sorted(queue, key=lambda j: j["row"]):
                if j is not head and j["procs"] <= free and now + j["est"] < t:
                    launch(j, now)
            continue
        others = sorted((j for j in queue if j is not head), key=lambda j: key(j, now))
        if backfill == "easy-sjbf":
            others.sort(key=lambda j: (-INF if now - j["submit"] > guard else j["est"], j["row"]))
        for j in others:
            if j["procs"] <= free and (now + j["est"] <= t or j["procs"] <= extra):
                if now + j["est"] > t:
                    extra -= j["procs"]
                launch(j, now)
    return [j["start"] for j in jobs]


def table(workload) -> list[dict]:
    """A workload as the list of dictionaries that `replay` takes."""
    return [
        {"submit": float(j["submit"]), "procs": int(j["request"][0]), "walltime": float(j["walltime"]), "runtime": float(t)}
        for j, t in zip(workload.jobs, workload.truth["runtime"], strict=True)
    ]


def bag(ended: list[tuple], job: tuple, elapsed: float) -> list[tuple[float, float]]:
    """(run time, weight) of what a job may still run, weights adding up to 1: `jobwise.starts.bags` by its words. `ended`: (user,
    processors, request, run) in order of end; `job`: (user, processors, request)."""
    user, size, asked = job
    asked = max(asked, 1.0)

    def class_of(n, t):
        return min(int(math.log2(max(t, 1))) // 2, 15), min(int(math.log2(max(n, 1))) // 2, 15)

    keys = [r for u, n, t, r in reversed(ended) if (u, n, t) == job][:20]
    users = [min(r / max(t, 1.0), 1.0) for u, n, t, r in reversed(ended) if u == user][:50]
    others = [r for u, n, t, r in reversed(ended) if class_of(n, t) == class_of(size, job[2])][:200]
    found, left = [], 1.0
    for values, fade, lean, scale in ((keys, 0.9, 5.0, 1.0), (users, 0.97, 20.0, asked)):
        weights = [fade**i for i in range(len(values))]
        if values:
            share = left * sum(weights) / (sum(weights) + lean)
            found += [(v * scale, share * x / sum(weights)) for v, x in zip(values, weights, strict=True)]
            left -= share
    even = 0.02 * left if others else left
    found += [(v, (left - even) / len(others)) for v in others]
    found += [((i + 0.5) / 16 * asked, (even + 0.005) / 16) for i in range(16)] + [(asked, 0.005)]
    kept = [(min(v, asked), x) for v, x in found if min(v, asked) > elapsed] or [(elapsed + 1.0, 1.0)]
    kept = [(max(v, elapsed + 1.0), x) for v, x in kept]
    total = sum(x for _, x in kept)
    return sorted((v, x / total) for v, x in kept)
