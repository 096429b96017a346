"""Nodes for jobs that a policy would start now (`steer --place`): Slurm's ReqNodeList, one cycle at a time.

Only jobs of a fixed shape are placed: as many nodes as they ask for, neither more nor less (on a job that has just started, a
list of fewer nodes would take the others away from it), in one partition, no arrays, no nodes of their users' choice; and only
on nodes that their partition and constraints allow. A job that has not started by the next cycle, and that the policy would not
start on the same nodes again, may run anywhere again. `placed.json` in the state folder lists the jobs with named nodes; it is
written before Slurm is changed. A job is forgotten when a look shows it without named nodes, or gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobwise.live.sources import Now, Waiting
from jobwise.live.state_folder import StateFolder
from jobwise.slurm.client import Slurm
from jobwise.slurm.read.text import nodes

BAD = "BadConstraints"  # Slurm's reason where a job may not have the nodes that it names


@dataclass
class Placing:
    """Has jobs run where a policy would have them run. With `dry` it only says so in the audit log, once for each list."""

    slurm: Slurm
    state: StateFolder
    dry: bool = False

    def __post_init__(self):
        self._said: dict[int, list[str]] = {}  # in a dry run

    def cycle(self, c: Now, wanted: dict[int, list[str]], why: str) -> int:
        """Name nodes for the jobs that a policy wants to start now, and take back what was named and not used; how many jobs
        were changed."""
        placed, waits = self.state.placed, c.waiting | c.out
        goal = {
            id: sorted(x) for id, x in wanted.items()
            if id in c.waiting and (id in placed or not waits[id].nodes) and waits[id].reason != BAD and fits(c, waits[id], x)
        }  # fmt: skip
        if self.dry:
            change = {id: x for id, x in goal.items() if self._said.get(id) != x}
            self._said = goal
            if change:
                self.state.note("would place", *({"job": id, "nodes": ",".join(x), "why": why} for id, x in change.items()))
            return 0
        there = set(waits) | set(c.workload.columns["job"][c.live].tolist())
        kept = {id: x for id, x in placed.items() if id in there and not (id in waits and not waits[id].nodes)}
        change = {id: x for id, x in goal.items() if sorted(nodes(waits[id].nodes)) != x}
        change |= {id: [] for id in kept if id in waits and id not in goal}
        self.state.keep_placed(kept | {id: ",".join(x) for id, x in goal.items()})
        lines = [{"job": id, "nodes": ",".join(x), "why": why if x else "not used"} for id, x in change.items()]
        if not change or not self.state.note("place", *lines):
            return 0
        if complaint := self.slurm.place(change):
            self.state.note("refused", complaint=complaint)
        return len(change)


def fits(c: Now, x: Waiting, where: list[str]) -> bool:
    """May this waiting job be named these nodes? See the rules above."""
    w, row = c.workload, c.row(x.id)
    if not x.plain or not where or row < 0:
        return False
    site, job = w.cluster.known_site, w.jobs[row]
    ask = site.asks[max(job["ask"], 0)]
    fixed = ask["nodes"] == ask["most"] == len(where) or (ask["nodes"] <= 1 and ask["tasks"] == 1 and len(where) == 1)
    place = {n: i for i, n in enumerate(site.names)}
    at = np.array([place.get(n, -1) for n in where])
    allowed = (site.sets[ask["set"]] & site.sets[ask["types"]]).astype(bool)
    for p in site.queues[job["partition"]]:
        if p >= 0:
            allowed &= site.sets[site.partitions[p]["set"]].astype(bool)
    return bool(fixed and (at >= 0).all() and allowed[at].all() and ask["reservation"] == 0)


def free_all(slurm: Slurm, state: StateFolder, reason: str) -> int:
    """Let the waiting jobs that were named nodes run anywhere again; how many. What Slurm does not confirm stays in
    `placed.json`, as do jobs that run and may be put back into the queue. Raises SlurmError where it does not answer."""
    if not state.placed:
        return 0
    named = slurm.required()
    ids = [id for id in state.placed if named.get(id, ("", ""))[1] and named[id][0] == "PENDING"]
    if ids:
        state.note("place", *({"job": id, "nodes": "", "why": f"undo: {reason}"} for id in ids))
        if complaint := slurm.place({id: [] for id in ids}):
            state.note("refused", complaint=complaint)
    named = slurm.required()
    state.keep_placed({id: x for id, x in state.placed.items() if id in named and (named[id][0] != "PENDING" or named[id][1])})
    return len(ids)
