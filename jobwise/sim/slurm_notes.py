"""What searches of a cycle tell later ones: who asks for more finds nothing where one that asked for less found nothing."""

from __future__ import annotations

from jobwise.compiled import inlined, kernel

NOTES = 64  # plans that are looked up


@inlined
def _asks_more(a, b):
    """Does b ask for at least what a asks for? Jobs that want few nodes may fail where more nodes are free: never of them."""
    return (
        (a["set"] == b["set"] or a["set"] == 0) and a["nodes"] <= b["nodes"] and a["most"] == 0 and b["most"] == 0
        and a["tasks"] <= b["tasks"] and a["cpus"] == b["cpus"]
        and a["memory_cpu"] <= b["memory_cpu"] and a["memory"] <= b["memory"] and a["gpus"] <= b["gpus"]
        and a["gpus_node"] <= b["gpus_node"] and a["whole"] <= b["whole"]
    )  # fmt: skip


@kernel
def known_from(m, count, ask, partition, limit, now):
    """From when on a search for this job has to look: one that asked for less, of higher priority, found nothing before."""
    since = now
    for i in range(0 if m.clock[0]["plain"] else count):
        x = m.notes[i]
        counts = x["begin"] > since and x["partition"] == partition and x["limit"] <= limit
        if counts and _asks_more(m.ask[x["ask"]], m.ask[ask]):
            since = x["begin"]
    return since


@kernel
def remember(m, count, ask, partition, limit, begin):
    """Note how far a search had to go; how many notes there are."""
    x = m.notes[count % NOTES]
    x["ask"], x["partition"], x["limit"], x["begin"] = ask, partition, limit, begin
    return count + 1
