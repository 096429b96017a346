"""How a site stops running jobs for others: PreemptMode, GraceTime and PreemptExemptTime of partitions and QOS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.site import BY_QOS, CANCELLED, REQUEUED, STAYS, Site, preempt_dtype
from jobwise.slurm.read.text import said
from jobwise.slurm.read.unsimulated import UNSIMULATED
from jobwise.workloads.fields import seconds

MODES = {"REQUEUE": REQUEUED, "CANCEL": CANCELLED}
IGNORED = {  # words of a PreemptMode -> what is done without them
    "SUSPEND": "its jobs are not stopped",
    "PRIORITY": "its jobs are stopped for those of less priority too",
    "WITHIN": "jobs of the same QOS do not stop each other",
}
OF_ALL = ("", "CLUSTER", "CLUSTER_GLOBAL")  # the mode of the configuration counts


def with_preemption(site: Site, queues: list[dict], qos: list[dict], known: dict[str, str]) -> Site:
    """The site with the preemption of its partitions and QOS (records, in its order). What is not simulated is among its
    guesses. Raises ValueError."""
    every, exempt = known.get("preemptmode", ""), _seconds(known.get("preemptexempttime", ""))
    partitions = [_row(r.get("PreemptMode", ""), r.get("GraceTime", ""), exempt, every) for r in queues]
    own = [_seconds(q.get("PreemptExemptTime", ""), exempt) for q in qos]
    rows = [_row(q.get("PreemptMode", ""), q.get("GraceTime", ""), x, every) for q, x in zip(qos, own, strict=True)]
    names = [q["Name"] for q in qos]
    preempts = np.array([[n in said(q.get("Preempt", "")).split(",") for n in names] for q in qos], np.uint8)
    by_qos = site.settings["preempt"][0] == BY_QOS
    modes = [q.get("PreemptMode", "") for q in qos] if by_qos else [r.get("PreemptMode", "") for r in queues]
    whose = names if by_qos else [r["PartitionName"] for r in queues]
    for word, what in IGNORED.items() if site.settings["preempt"][0] else ():
        if left := [n for n, m in zip(whose, modes, strict=True) if word in _mode(m, every).split(",")]:
            text = f"{UNSIMULATED}PreemptMode={word} of {left[0]} ({len(left)}): {what}"
            site = replace(site, guesses=(*site.guesses, text))
    return replace(
        site,
        partition_preempt=np.array(partitions, preempt_dtype),
        qos_preempt=np.array(rows, preempt_dtype),
        preempts=preempts.reshape(len(qos), len(qos)),
    )


def _mode(text: str, every: str) -> str:
    own = text.strip().upper()
    return every.upper() if own in OF_ALL else own


def _row(mode: str, grace: str, exempt: float, every: str) -> tuple[int, float, float]:
    words = _mode(mode, every).split(",")
    return next((MODES[w] for w in words if w in MODES), STAYS), _seconds(grace), exempt


def mode_of(text: str) -> int:
    """OFF, CANCEL or REQUEUE. Raises ValueError."""
    if text.upper() not in MODES and text.upper() != "OFF":
        raise ValueError(text)
    return MODES.get(text.upper(), STAYS)


def time_of(text: str) -> float:
    """A time in s of a line: 60, 00:01:00. Raises ValueError."""
    if not text:
        raise ValueError("nothing")
    return _seconds(text)


def _seconds(text: str, other: float = 0.0) -> float:
    """A time in s: a number alone counts seconds. Raises ValueError."""
    if not said(text):
        return other
    return float(text) if text.strip().isdigit() else seconds(text.removesuffix("sec").strip())
