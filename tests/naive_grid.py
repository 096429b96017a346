"""The slow, obvious twin of the grid of time: DeepRM's and CuSH's worlds in plain Python, one step after the other."""

from __future__ import annotations

import math

COMPUTE, NETWORK = 0, 1


def sigma(job: dict, k: int, capacity: list[list[int]], network: float, compute: float) -> float:
    """How many times as long a job runs on k nodes."""
    N, R = len(capacity), len(capacity[0])
    least = 1
    for r in range(R):
        held = 0
        for count, units in enumerate(sorted((c[r] for c in capacity), reverse=True), 1):
            held += units
            if held >= job["demand"][r]:
                least = max(least, count)
                break
    asked = [d for d in job["demand"] if d > 0][-1]
    most = max(min(N, asked), least)
    room = max(1, most - least)
    if job["kind"] == NETWORK:
        return 1 + network * min(max((k - least) / room, 0), 1)
    if job["kind"] == COMPUTE:
        return 1 + compute * min(max((most - k) / room, 0), 1)
    return 1.0


def deal(order: list[int], have: list[int], need: int, one_by_one: bool) -> list[int]:
    give = [0] * len(have)
    while need > 0:
        for i in order:
            more = min(1 if one_by_one else need, need, have[i] - give[i])
            give[i] += more
            need -= more
    return give


def place(name: str, demand: list[int], free: list[list[int]]) -> dict[int, list[int]]:
    """node -> units of each resource, for a job that fits: depth-first (pack) or breadth-first (spread)."""
    N, R = len(free), len(demand)
    lead = max(r for r in range(R) if demand[r] > 0)
    if name == "pack":
        whole = [i for i in range(N) if all(free[i][r] >= demand[r] for r in range(R))]
        if whole:
            return {min(whole, key=lambda i: (free[i][lead], i)): list(demand)}

    def dealt(have: list[int], need: int) -> tuple[list[int], list[int]]:
        order = sorted(range(N), key=lambda i: (-have[i], i))
        single = [i for i in range(N) if have[i] >= need]
        if name == "pack" and single:
            best = min(single, key=lambda i: (have[i], i))
            return [need if i == best else 0 for i in range(N)], [best]
        return deal(order, have, need, name == "spread"), order

    give, order = dealt([f[lead] for f in free], demand[lead])
    taken = [[0] * R for _ in range(N)]
    for i in range(N):
        taken[i][lead] = give[i]
    for r in range(R):
        if r == lead or demand[r] == 0:
            continue
        need = demand[r]
        for i in order:  # one unit to each node in use
            if give[i] > 0 and need > 0 and free[i][r] > 0:
                taken[i][r], need = 1, need - 1
        for i in order:
            if give[i] > 0:
                more = min(need, free[i][r] - taken[i][r])
                taken[i][r] += more
                need -= more
        if need > 0:
            extra, _ = dealt([free[i][r] - taken[i][r] for i in range(N)], need)
            for i in range(N):
                taken[i][r] += extra[i]
    return {i: taken[i] for i in range(N) if any(taken[i])}


class Twin:
    """jobs: submit, len, demand [R], kind; in order of submit, the first at 0."""

    def __init__(self, jobs, capacity, slots, backlog, rows, placements=("first",), reserve=True, network=0.0, compute=0.0):
        self.jobs = [dict(j, row=i, finish=None, start=None) for i, j in enumerate(jobs)]
        self.capacity, self.rows, self.most = capacity, rows, backlog
        self.placements, self.reserve, self.slowdown = placements, reserve, (network, compute)
        self.R = len(capacity[0])
        self.canvas = [[{} for _ in range(rows)] for _ in range(self.R)]  # resource, row: {(node, cell): job}
        self.slots, self.backlog, self.on, self.dropped = [None] * slots, [], [], 0
        self.now, self.since, self.coming, self.colour = 0, 0, list(self.jobs), {}
        self._arrive()

    # ---------------------------------------------------------------- time

    def _arrive(self):
        came = False
        while self.coming and self.coming[0]["submit"] <= self.now:
            job, came = self.coming.pop(0), True
            if None in self.slots:
                self.slots[self.slots.index(None)] = job
            elif len(self.backlog) < self.most:
                self.backlog.append(job)
            else:
                self.dropped += 1
        return came

    def system(self):
        return self.on + [j for j in self.slots if j] + self.backlog

    def paid(self):
        return -sum(1 / j["len"] for j in self.system())

    def move_on(self):
        self.now += 1
        for r in range(self.R):
            self.canvas[r] = [*self.canvas[r][1:], {}]
        for j in [j for j in self.on if j["finish"] <= self.now]:
            self.on.remove(j)
            del self.colour[j["row"]]
        for j in self.on:  # longer than the picture
            if j["start"] <= self.now and j["finish"] > self.now + self.rows - 1:
                self._draw(j, self.rows - 1, self.rows)
        came = self._arrive()
        self.since = 0 if came else self.since + 1
        return self.paid()

    def over(self):
        return not self.coming and not self.system()

    # ---------------------------------------------------------------- placing

    def free(self, row):
        held = [[0] * self.R for _ in self.capacity]
        for r in range(self.R):
            for node, _ in self.canvas[r][row]:
                held[node][r] += 1
        return [[c - h for c, h in zip(cs, hs, strict=True)] for cs, hs in zip(self.capacity, held, strict=True)]

    def _draw(self, job, first, last):
        for r in range(self.R):
            for row in range(first, min(last, self.rows)):
                line = self.canvas[r][row]
                for node, units in job["where"].items():
                    left = [c for c in range(self.capacity[node][r]) if (node, c) not in line]
                    for c in left[: units[r]]:
                        line[node, c] = job["row"]

    def allocate(self, m, p):
        job = self.slots[m] if m < len(self.slots) else None
        if job is None:
            return False
        one = len(self.capacity) == 1
        if self.reserve:
            assert one
            found = None
            for t in range(self.rows - job["len"] + 1):
                if all(self.free(row)[0][r] >= job["demand"][r] for row in range(t, t + job["len"]) for r in range(self.R)):
                    found = t
                    break
            if found is None:
                return False
            t, long, where = found, job["len"], {0: job["demand"]}
        else:
            free = self.free(0)
            if any(sum(f[r] for f in free) < job["demand"][r] for r in range(self.R)):
                return False
            t, where = 0, place(self.placements[p], job["demand"], free)
            long = math.ceil(job["len"] * sigma(job, len(where), self.capacity, *self.slowdown) - 1e-9)
        job.update(start=self.now + t, finish=self.now + t + long, where=where)
        self.on.append(job)
        self.colour[job["row"]] = min(set(range(len(self.jobs) + 1)) - set(self.colour.values()))
        self._draw(job, t, t + long)
        self.slots[m] = self.backlog.pop(0) if self.backlog else None
        return True

    def step(self, action):
        P = len(self.placements)
        if action < len(self.slots) * P and self.allocate(action // P, action % P):
            return 0.0
        return self.move_on()

    # ---------------------------------------------------------------- pictures

    def image(self, widest, colours):
        """DeepRM's, one node, as a list of rows."""
        out = []
        for row in range(self.rows):
            line = []
            for r in range(self.R):
                cells = self.canvas[r][row]
                line += [colours[self.colour[cells[0, c]]] if (0, c) in cells else 0.0 for c in range(self.capacity[0][r])]
                for j in self.slots:
                    line += [1.0 if j and row < j["len"] and c < j["demand"][r] else 0.0 for c in range(widest)]
            wide = -(-self.most // self.rows)
            line += [1.0 if row * wide + k < len(self.backlog) else 0.0 for k in range(wide)]
            out.append([*line, min(self.since, 10) / 10])
        return out

    def tensor(self):
        """CuSH's, as channels of rows."""
        columns = [(r, i, c) for r in range(self.R) for i in range(len(self.capacity)) for c in range(self.capacity[i][r])]
        first = [[1.0 if (i, c) in self.canvas[r][row] else 0.0 for r, i, c in columns] for row in range(self.rows)]
        out = [first]
        for j in self.slots:
            channel = [[0.0] * len(columns) for _ in range(self.rows)]
            if j:
                value = (0.1 + 0.9 * min(self.now - j["submit"], 100) / 100) * (1 if j["kind"] == COMPUTE else -1)
                for row in range(min(j["len"], self.rows)):
                    for r in range(self.R):
                        begin = next(x for x, k in enumerate(columns) if k[0] == r)
                        for c in range(j["demand"][r]):
                            channel[row][begin + c] = value
            out.append(channel)
        return out
