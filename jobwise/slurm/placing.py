"""Nodes for jobs that a policy would start now (`steer --place`): Slurm's ReqNodeList, one cycle at a time.

A job that has not started by the next cycle, and that the policy would not start on the same nodes again, may run anywhere
again; a job whose user asked for nodes is left alone. `placed.json` in the state folder names the jobs that were changed,
before Slurm is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobwise.slurm.client import Slurm
from jobwise.slurm.live import Cluster
from jobwise.slurm.state_folder import StateFolder
from jobwise.slurm.text import nodes


@dataclass
class Placing:
    """Has jobs run where a policy would have them run. With `dry` it only says so in the audit log."""

    slurm: Slurm
    state: StateFolder
    dry: bool = False

    def cycle(self, c: Cluster, wanted: dict[int, list[str]], why: str) -> int:
        """Name nodes for the jobs that a policy wants to start now, and take back what was named and not used; how many jobs
        were changed."""
        placed = {id: x for id, x in self.state.placed.items() if id in c.waiting or id in c.out}
        own = {id for id, x in c.waiting.items() if x.nodes and id not in placed}
        goal = {id: sorted(x) for id, x in wanted.items() if x and id in c.waiting and id not in own}
        change = {id: x for id, x in goal.items() if sorted(nodes(c.waiting[id].nodes)) != x}
        change |= {id: [] for id in placed if id not in goal}
        if not self.dry:  # what has started is forgotten
            self.state.keep_placed({id: ",".join(goal.get(id, [])) for id in {*placed, *goal}})
        lines = [{"job": id, "nodes": ",".join(x), "why": why if x else "not used"} for id, x in change.items()]
        if not change or not self.state.note("would place" if self.dry else "place", *lines) or self.dry:
            return 0
        if complaint := self.slurm.place(change):
            self.state.note("refused", complaint=complaint)
        self.state.keep_placed({id: ",".join(x) for id, x in goal.items()})
        return len(change)


def free_all(slurm: Slurm, state: StateFolder, reason: str) -> int:
    """Let all jobs that were given nodes run anywhere again; how many."""
    ids = list(state.placed)
    if ids:
        state.note("place", *({"job": id, "nodes": "", "why": f"undo: {reason}"} for id in ids))
        if complaint := slurm.place({id: [] for id in ids}):  # some have started
            state.note("refused", complaint=complaint)
        state.keep_placed({})
    return len(ids)
