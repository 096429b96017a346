"""The slow, obvious twin of the world of assignments: RL-TAPS in plain Python over a networkx graph, one row after the other."""

from __future__ import annotations

import itertools
import math

import networkx

PEAK, EFFICIENCY = 10.6, 0.9


def reduction(n: int, size: float, curve: str = "published") -> float:
    """s that a ring of n GPUs in a rack takes for `size` MB."""
    if n <= 1:
        return 0.0
    if curve == "ring":
        return 2 * (n - 1) * (20e-6 + size / 1000 / 12.5 / n)
    a, b = 0.02829 * math.sqrt(n), 0.13977 * math.sqrt(n)
    return a * size / 100 if size <= 100 else a + (b - a) * (size - 100) / 400


class Cluster:
    """The graph, and the links on the shortest way between every two GPUs."""

    def __init__(self, graph: networkx.Graph):
        self.graph = graph
        self.gpus = sorted((n for n, d in graph.nodes(data=True) if d["kind"] == "gpu"), key=lambda n: int(n[3:]))
        self.rack, self.ways = {}, {}
        for g in self.gpus:
            ways = networkx.single_source_shortest_path(graph, g)
            self.rack[g] = next(n for n in sorted(ways, key=lambda n: len(ways[n])) if graph.nodes[n]["kind"] == "rack")
            for h in self.gpus:
                self.ways[g, h] = {frozenset(x) for x in itertools.pairwise(ways[h])} if h in ways else None

    def links(self, held: list[str]) -> set[frozenset]:
        """E(j): the links between all pairs of GPUs."""
        return set().union(*(self.ways[g, h] for g, h in itertools.combinations(held, 2)))

    def speeds(self, jobs: dict, sets: dict, per_rack: float = 0.2, curve: str = "published") -> dict:
        """TFLOPS of each job (eq. 3), all sets at once."""
        used = {j: self.links(held) for j, held in sets.items()}
        count: dict[frozenset, int] = {}
        for links in used.values():
            for link in links:
                count[link] = count.get(link, 0) + 1
        found = {}
        for j, held in sets.items():
            n, job = len(held), jobs[j]
            d = job["step"] * EFFICIENCY * PEAK
            rt = reduction(n, job["gradient"], curve) * (1 + (len({self.rack[g] for g in held}) - 1) * per_rack)
            if used[j]:
                wide = {link: self.graph.edges[tuple(link)]["bandwidth"] for link in used[j]}
                rt *= min(wide.values()) / min(w / max(1, count[link]) for link, w in wide.items())
            found[j] = d * n / (job["step"] + rt) if n else 0.0
        return found


class World:
    """Rows of time. `jobs`: submit, length (s), gpus, step, gradient, least, most; in order of submit (multiples of a row)."""

    def __init__(
        self, cluster: Cluster, jobs: list[dict], slots: int, mode: str, leave: bool, work: str, row: float, cost: float
    ):
        self.c, self.jobs, self.N, self.mode, self.leave = cluster, jobs, slots, mode, leave
        self.row, self.cost, self.t, self.queue = row, cost, 0, []
        self.places = dict.fromkeys(range(slots + leave * len(cluster.gpus)))
        self.coming = list(range(len(jobs)))
        for j in jobs:
            alone = j["step"] * EFFICIENCY * PEAK * j["gpus"] / (j["step"] + reduction(j["gpus"], j["gradient"]))
            per_s = j["gpus"] * PEAK if work == "seed" else alone
            j.update(total=j["length"] * per_s, done=0.0, pause=0.0, held=frozenset(), began=False, end=None)
        self.arrive()

    def arrive(self) -> None:
        while self.coming and self.jobs[self.coming[0]]["submit"] <= self.t * self.row + 1e-6:
            self.queue.append(self.coming.pop(0))
        for p in range(self.N):
            if self.places[p] is None and self.queue:
                self.places[p] = self.queue.pop(0)

    def legal(self, want: list[int | None]) -> dict[int, frozenset]:
        """place -> GPUs, every bound held."""
        gpus = self.c.gpus
        wanted = {p: [g for g, w in zip(gpus, want, strict=True) if w == p] for p, j in self.places.items() if j is not None}
        held = {p: self.jobs[j]["held"] for p, j in self.places.items() if j is not None}
        if self.mode == "none":
            busy = frozenset().union(*held.values()) if held else frozenset()
            wanted = {p: sorted(held[p], key=gpus.index) or [g for g in w if g not in busy] for p, w in wanted.items()}
        again = self.mode == "partial"
        while again:
            again = False
            for p in wanted:
                if held[p] and len(wanted[p]) < self.jobs[self.places[p]]["least"]:
                    wanted = {q: [g for g in w if g not in held[p]] for q, w in wanted.items()}
                    wanted[p] = [g for g in gpus if g in held[p]] + list(wanted[p])
                    again = True
        for p, w in wanted.items():
            j = self.jobs[self.places[p]]
            if self.mode == "none" and held[p]:
                continue
            keep = [g for g in w if g in held[p]] + [g for g in w if g not in held[p]]
            wanted[p] = keep[: j["most"]] if len(w) >= j["least"] else []
        return {p: frozenset(w) for p, w in wanted.items()}

    def step(self, want: list[int | None]) -> tuple[float, float, float]:
        """One row: (throughput, pen1, pen2) in TFLOPS."""
        for p, sets in self.legal(want).items():
            j = self.jobs[self.places[p]]
            if sets != j["held"]:
                j["pause"] = self.cost if sets and j["began"] else 0.0
                j["held"], j["began"] = sets, j["began"] or bool(sets)
        here = [j for j in self.places.values() if j is not None]
        sets = {j: sorted(self.jobs[j]["held"], key=self.c.gpus.index) for j in here if self.jobs[j]["held"]}
        v = self.c.speeds(dict(enumerate(self.jobs)), sets)
        pen1 = pen2 = 0.0
        for j in [*here, *self.queue]:
            job, d = self.jobs[j], self.jobs[j]["step"] * EFFICIENCY * PEAK
            n = len(job["held"])
            if n == 0:
                pen1 += d * job["gpus"] / (job["step"] + reduction(job["gpus"], job["gradient"]))
            elif n < job["gpus"]:
                pen2 += d * (job["gpus"] - n) / (d * n / v[j])
        for j in sets:
            job = self.jobs[j]
            paused = min(job["pause"], self.row)
            job["pause"] -= paused
            job["done"] += v[j] * (self.row - paused)
        self.t += 1
        for p, j in self.places.items():
            if j is not None and self.jobs[j]["done"] >= self.jobs[j]["total"] * (1 - 1e-9):
                self.jobs[j].update(end=self.t * self.row, held=frozenset())
                self.places[p] = None
        if self.leave:
            for p in range(self.N):
                j = self.places[p]
                if j is not None and self.jobs[j]["held"]:
                    to = next((q for q in self.places if q >= self.N and self.places[q] is None), None)
                    if to is not None:
                        self.places[to], self.places[p] = j, None
        self.arrive()
        return sum(v.values()), pen1, pen2
