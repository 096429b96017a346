"""Notes of a cycle's searches for later searches: a larger request finds nothing where a smaller one found nothing."""

from __future__ import annotations

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.slurm_time import is_exact

NOTES = 64  # plans that are looked up


@inlined
def _asks_more(mine, other):
    """Does `other` ask for at least as much as `mine`? Jobs that want few nodes may fail where more are free: never of them."""
    return (
        (mine["set"] == other["set"] or mine["set"] == 0) and (mine["types"] == other["types"] or mine["types"] == 0)
        and mine["nodes"] <= other["nodes"]
        and mine["most"] == 0 and other["most"] == 0 and mine["tasks"] <= other["tasks"] and mine["cpus"] == other["cpus"]
        and mine["memory_cpu"] <= other["memory_cpu"] and 0 <= mine["memory"] <= other["memory"]
        and mine["gpus"] <= other["gpus"] and mine["gpus_node"] <= other["gpus_node"] and mine["whole"] <= other["whole"]
    )  # fmt: skip


@kernel
def known_from(slurm, count, ask, partition, limit, now):
    """From when on a search for this job has to look: one that asked for less, of higher priority, found nothing before."""
    since = now
    for i in range(0 if slurm.ledger.clock[0]["plain"] or not is_exact(slurm) else count):
        x = slurm.work.notes[i]
        counts = x["begin"] > since and x["partition"] == partition and x["limit"] <= limit
        if counts and _asks_more(slurm.site.ask[x["ask"]], slurm.site.ask[ask]):
            since = x["begin"]
    return since


@kernel
def remember(slurm, count, ask, partition, limit, begin):
    """Note how far a search had to go; how many notes there are."""
    x = slurm.work.notes[count % NOTES]
    x["ask"], x["partition"], x["limit"], x["begin"] = ask, partition, limit, begin
    return count + 1
